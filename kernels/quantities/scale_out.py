"""What more GPUs bring: speed-up, ceilings, effective throughput, the size beyond which it ends."""

from typing import Any

import numpy as np

from ..alternatives import alternative, same_as
from ..ops import where
from ..roofline import iron_law_time as data_work_and_latency
from ..roofline import network_roofline_flops as three_ceilings
from ..scaling import amdahl_speedup as fixed_work_speedup
from ..scaling import gustafson_speedup as growing_work_speedup
from ..scaling import sync_wall, usl_peak
from ..scaling import usl_speedup as contended_speedup


@same_as(fixed_work_speedup)
def amdahl_speedup(*operands: Any) -> Any:
    """Speed-up of a fixed job over one GPU.

    1 / (s + (1 - s) / n)

    Parameters: serial_fraction [1], n_gpus [1]
    Returns: [1] time of one GPU over time of the cluster
    Source: Amdahl 1967, AFIPS 30; Fleet Foundations, Amdahl's law at fleet scale
    """


@same_as(growing_work_speedup)
def gustafson_speedup(*operands: Any) -> Any:
    """Speed-up of a job that grows with the cluster.

    n - s (n - 1)

    Parameters: serial_fraction [1], n_gpus [1]
    Returns: [1] work of the cluster over that of one GPU in the same time
    Source: Gustafson 1988, CACM 31(5)
    """


@same_as(contended_speedup)
def usl_speedup(*operands: Any) -> Any:
    """Speed-up under the universal scalability law, contention being the serial fraction.

    n / (1 + sigma (n - 1) + kappa n (n - 1))

    Parameters: serial_fraction [1], coherency [1], n_gpus [1]
    Returns: [1] throughput over that of one GPU
    Source: Gunther 1993, CMG conference; Gunther 2007, Guerrilla Capacity Planning, Springer
    """


@same_as(usl_peak)
def usl_peak_gpus(*operands: Any) -> Any:
    """Cluster beyond which the universal scalability law predicts less throughput.

    sqrt((1 - sigma) / kappa); infinite for kappa = 0

    Parameters: serial_fraction [1], coherency [1]
    Returns: [1] GPUs at the peak
    Source: Gunther 2007, Guerrilla Capacity Planning, Springer
    """


def rho(communication_time: Any, compute_time: Any) -> Any:
    """Communication-computation ratio: communication of a step, hidden or not, over computing.

    rho = T_comm(n) / (T_compute / n); compute_time is already that of one GPU

    Parameters: communication_time [s], compute_time [s]
    Returns: [1] above 1, communication cannot be hidden
    Source: Fleet Foundations eq. 5
    Example:
        >>> round(rho(0.5604, 5.0), 2)
        0.11
    """
    return communication_time / compute_time


@alternative("effective_flops", mfu_scope="step")
def step_effective_flops(n_gpus: Any, peak_flops: Any, mfu: Any, goodput: Any) -> Any:
    """Rate at which the cluster does useful work; the utilisation of whole steps holds scaling.

    n P MFU goodput

    Parameters: n_gpus [1], peak_flops [FLOP/s], mfu [1], goodput [1]
    Returns: [FLOP/s] model operations kept per second of wall time
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B (MFU); times goodput
    """
    return n_gpus * peak_flops * mfu * goodput


@alternative("effective_flops", mfu_scope="node")
def node_effective_flops(
    n_gpus: Any, peak_flops: Any, mfu: Any, scaling_efficiency: Any, goodput: Any
) -> Any:
    """Rate at which the cluster does useful work; utilisation is one node's, without the fabric.

    n P MFU eta_scaling goodput

    Parameters: n_gpus [1], peak_flops [FLOP/s], mfu [1], scaling_efficiency [1], goodput [1]
    Returns: [FLOP/s] model operations kept per second of wall time
    Source: Fleet Foundations, the compound loss of fleet utilization
    Example:
        >>> round(node_effective_flops(1024, 989, 0.5, 0.5, 0.77), 1)
        194951.7
    """
    return n_gpus * peak_flops * mfu * scaling_efficiency * goodput


def ideal_job_time(training_steps: Any, compute_time: Any) -> Any:
    """Wall time of the run if nothing but computing took time: no traffic, bubble or failure.

    steps x compute time

    Parameters: training_steps [1], compute_time [s]
    Returns: [s] least wall time
    Source: by definition of the theoretical minimum (zero communication, infinite bandwidth)
    """
    return training_steps * compute_time


def utilization_efficiency(ideal_job_time: Any, job_time: Any) -> Any:
    """Least wall time over expected wall time.

    ideal / expected

    Parameters: ideal_job_time [s], job_time [s]
    Returns: [1] share of the wall time that computes
    Source: by definition (ratio of theoretical to actual time)
    """
    return ideal_job_time / job_time


def utilization_reading(utilization_efficiency: Any) -> Any:
    """What the utilisation says of the run: below 70 % it waits, above 85 % it computes.

    u < 0.70, 0.70 to 0.85, u > 0.85

    Parameters: utilization_efficiency [1]
    Returns: [flag] what limits the run
    Flags: 0 communication_bound, 1 mixed, 2 compute_bound
    Source: rule of thumb of the guide "Scaling Distributed Training: The Physics of Large-Scale AI
        Workloads", interpreting estimator outputs
    """
    reading = where(utilization_efficiency < 0.70, 0.0, 1.0)
    reading = where(utilization_efficiency > 0.85, 2.0, reading)
    return where(utilization_efficiency == utilization_efficiency, reading, np.nan)


def gradient_bytes_sent(gradient_message: Any, site_gradient_ranks: Any) -> Any:
    """Bytes that each GPU sends to exchange gradients once, by the least that an all-reduce needs.

    2 (n - 1) / n x M

    Parameters: gradient_message [B], site_gradient_ranks [1]
    Returns: [B] bytes sent in one step
    Source: Patarasuk & Yuan 2009, JPDC 69(2); Fleet Foundations, all-reduce overhead scaling
    Example:
        >>> gradient_bytes_sent(14e9, 256) / 1e9
        27.890625
    """
    return 2 * (site_gradient_ranks - 1) / site_gradient_ranks * gradient_message


def network_intensity(kernel_flops_per_step: Any, n_gpus: Any, gradient_bytes_sent: Any) -> Any:
    """Model operations of each GPU per byte that it sends to exchange gradients.

    F / n / bytes; infinite where nothing is sent

    Parameters: kernel_flops_per_step [FLOP], n_gpus [1], gradient_bytes_sent [B]
    Returns: [FLOP/B] intensity
    Source: Williams et al. 2009, CACM 52(4), with network bytes; Fleet Foundations, the
        single-accelerator roofline (the roofline of the fleet)
    """
    sends = gradient_bytes_sent > 0
    sent = where(sends, gradient_bytes_sent, 1.0)
    quiet = where(gradient_bytes_sent == 0, np.inf, np.nan)
    return where(sends, kernel_flops_per_step / n_gpus / sent, quiet)


@same_as(three_ceilings)
def network_attainable_flops(*operands: Any) -> Any:
    """Rate of one GPU that arithmetic, memory and the gradient exchange allow.

    min(P, I BW, I_net B_net)

    Parameters: arithmetic_intensity [FLOP/B], peak_flops [FLOP/s], hbm_bandwidth [B/s],
        network_intensity [FLOP/B], data_parallel_bandwidth [B/s]
    Returns: [FLOP/s] attainable rate
    Source: Williams et al. 2009, CACM 52(4); Fleet Foundations, foundations recap (the network as a
        third ceiling)
    """


def iron_law_time(
    gradient_bytes_sent: Any,
    data_parallel_bandwidth: Any,
    kernel_flops_per_step: Any,
    n_gpus: Any,
    peak_flops: Any,
    flops_efficiency: Any,
    site_gradient_ranks: Any,
    data_parallel_latency: Any,
) -> Any:
    """Time of one step by the iron law: send the gradients, compute, wait; nothing overlaps.

    bytes / B + F / (n P eta) + 2 (n - 1) a: a first estimate beside step_time, without
    recomputation, bubbles or other traffic

    Parameters: gradient_bytes_sent [B], data_parallel_bandwidth [B/s],
        kernel_flops_per_step [FLOP], n_gpus [1], peak_flops [FLOP/s], flops_efficiency [1],
        site_gradient_ranks [1], data_parallel_latency [s]
    Returns: [s] time of one step
    Range: one data-parallel group; with sharding groups, link and latency are those of a group
    Source: Fleet Foundations, foundations recap (the iron law); latency of a ring: Patarasuk & Yuan
        2009, JPDC 69(2)
    """
    work = kernel_flops_per_step / n_gpus
    latency = 2 * (site_gradient_ranks - 1) * data_parallel_latency
    return data_work_and_latency(
        gradient_bytes_sent, data_parallel_bandwidth, work, peak_flops, flops_efficiency, latency
    )


def fixed_step_time(
    bubble_time: Any,
    stage_imbalance_time: Any,
    serial_time_per_step: Any,
    pipeline_parallel: Any,
    num_microbatches: Any,
    stage_chunks: Any,
    compute_time: Any,
    straggler_time: Any,
    exposed_layer_communication_time: Any,
    pipeline_parallel_time: Any,
    exposed_pipeline_parallel_time: Any,
) -> Any:
    """Part of a step that more GPUs do not shorten, the global batch fixed; gradients aside.

    bubble - imbalance of stages + serial + sends waited for beyond those of every micro-batch (v =
    1: with v > 1 chunks they hide the others); with m < p also (1 - 1 / v) x work, as bubbles grow
    by that

    Parameters: bubble_time [s], stage_imbalance_time [s], serial_time_per_step [s],
        pipeline_parallel [1],
        num_microbatches [1], stage_chunks [1], compute_time [s], straggler_time [s],
        exposed_layer_communication_time [s], pipeline_parallel_time [s],
        exposed_pipeline_parallel_time [s]
    Returns: [s] time of one step
    Range: GPipe, 1F1B and interleaved schedules on the present side of m = p; with zero bubbles,
        enough micro-batches for them: 2 p - 1; sends as pipeline_sends = auto
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    work = compute_time + straggler_time + exposed_layer_communication_time
    grows = where(num_microbatches < pipeline_parallel, (1 - 1 / stage_chunks) * work, 0.0)
    shared = where(stage_chunks > 1, 0.0, pipeline_parallel_time)
    sends = np.maximum(0.0, exposed_pipeline_parallel_time - shared)
    return bubble_time - stage_imbalance_time + grows + sends + serial_time_per_step


def sync_wall_gpus(
    n_gpus: Any,
    tensor_parallel: Any,
    pipeline_parallel: Any,
    context_parallel: Any,
    step_time: Any,
    fixed_step_time: Any,
    exposed_data_parallel_time: Any,
    exchanged_message: Any,
    data_parallel_latency: Any,
    data_parallel_bandwidth: Any,
    checkpoint_stall_time: Any,
    recovery_time: Any,
    cluster_mtbf: Any,
    parameter_copies: Any,
) -> Any:
    """Size of the cluster beyond which more GPUs make the run longer, the global batch fixed.

    n where d(job time) / dn = 0 for a step A / n + C + D n: gradients in a ring of k = n / (t p)
    ranks (twice as many in dualpipe), once a step and not hidden, take 2 (k - 1) a + (1 - 1 / k) M
    / B, M both ways; bubbles and serial time stay (fixed_step_time); all else shrinks with n.
    Checkpoints at the exact optimum, failures in proportion to GPUs. Layout, link and stall are
    those of the present point. At least one replica; infinite where nothing ends the gain

    Parameters: n_gpus [1], tensor_parallel [1], pipeline_parallel [1], context_parallel [1],
        step_time [s], fixed_step_time [s], exposed_data_parallel_time [s], exchanged_message [B],
        data_parallel_latency [s], data_parallel_bandwidth [B/s],
        checkpoint_stall_time [s], recovery_time [s], cluster_mtbf [s], parameter_copies [1]
    Returns: [1] GPUs
    Range: a wall on the present point's side of m = p where stages hold several chunks; one
        data-parallel group (with sharding groups, an estimate by the link of a group); with several
        tiers of checkpoints, the rework of the lowest
    Source: Daly 2006, FGCS 22(3), eq. 13 and 20; ring: Patarasuk & Yuan 2009, JPDC 69(2); bubble:
        Narayanan et al. 2021 (SC21), section 2.2
    """
    replica = tensor_parallel * pipeline_parallel
    shard = replica / parameter_copies
    shared = n_gpus * (step_time - fixed_step_time - exposed_data_parallel_time)
    volume = exchanged_message / data_parallel_bandwidth
    hops = 2 * data_parallel_latency
    wall = sync_wall(
        shared - volume * shard,
        fixed_step_time + volume - hops,
        hops / shard,
        checkpoint_stall_time,
        recovery_time,
        cluster_mtbf * n_gpus,
    )
    return np.maximum(wall, replica * context_parallel)
