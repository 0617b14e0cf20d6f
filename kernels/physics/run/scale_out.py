"""How the job scales: speed-up, efficiency, the synchronisation wall."""

import numpy as np

from ...alternatives import alternative, same_as
from ...ops import where
from ...roofline import iron_law_time as data_work_and_latency
from ...roofline import network_roofline_flops as three_ceilings
from ...scaling import amdahl_speedup as fixed_work_speedup
from ...scaling import gustafson_speedup as growing_work_speedup
from ...scaling import sync_wall, usl_peak
from ...scaling import usl_speedup as contended_speedup


@same_as(fixed_work_speedup)
def amdahl_speedup(serial_fraction, n_gpus):
    """Speed-up of a fixed job over one GPU.

    1 / (s + (1 - s) / n)

    Returns: [1] time of one GPU over time of the cluster
    Source: Amdahl 1967, AFIPS 30; Fleet Foundations, Amdahl's law at fleet scale
    """


@same_as(growing_work_speedup)
def gustafson_speedup(serial_fraction, n_gpus):
    """Speed-up of a job that grows with the cluster.

    n - s (n - 1)

    Returns: [1] work of the cluster over that of one GPU in the same time
    Source: Gustafson 1988, CACM 31(5)
    """


@same_as(contended_speedup)
def usl_speedup(serial_fraction, coherency, n_gpus):
    """Speed-up under the universal scalability law, contention being the serial fraction.

    n / (1 + sigma (n - 1) + kappa n (n - 1))

    Returns: [1] throughput over that of one GPU
    Source: Gunther 1993, CMG conference; Gunther 2007, Guerrilla Capacity Planning, Springer
    """


@same_as(usl_peak)
def usl_peak_gpus(serial_fraction, coherency):
    """Cluster beyond which the universal scalability law predicts less throughput.

    sqrt((1 - sigma) / kappa); infinite for kappa = 0

    Returns: [1] GPUs at the peak
    Source: Gunther 2007, Guerrilla Capacity Planning, Springer
    """


def rho(communication_time, compute_time):
    """Communication-computation ratio: communication of a step, hidden or not, over computing.

    rho = T_comm(n) / (T_compute / n); compute_time is already that of one GPU

    Returns: [1] above 1, communication cannot be hidden
    Source: Fleet Foundations eq. 5
    Example:
        >>> round(rho(0.5604, 5.0), 2)
        0.11
    """
    return communication_time / compute_time


@alternative("effective_flops", mfu_scope="step")
def step_effective_flops(n_gpus, peak_flops, mfu, goodput):
    """Rate at which the cluster does useful work; the utilisation of whole steps holds scaling.

    n P MFU goodput

    Returns: [FLOP/s] model operations kept per second of wall time
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B (MFU); times goodput
    """
    return n_gpus * peak_flops * mfu * goodput


@alternative("effective_flops", mfu_scope="node")
def node_effective_flops(n_gpus, peak_flops, mfu, scaling_efficiency, goodput):
    """Rate at which the cluster does useful work; utilisation is one node's, without the fabric.

    n P MFU eta_scaling goodput

    Source: Fleet Foundations, the compound loss of fleet utilization
    Example:
        >>> round(node_effective_flops(1024, 989, 0.5, 0.5, 0.77), 1)
        194951.7
    """
    return n_gpus * peak_flops * mfu * scaling_efficiency * goodput


def ideal_job_time(training_steps, compute_time):
    """Wall time of the run if nothing but computing took time: no traffic, bubble or failure.

    steps x compute time

    Returns: [s] least wall time
    Source: by definition of the theoretical minimum (zero communication, infinite bandwidth)
    """
    return training_steps * compute_time


def utilization_efficiency(ideal_job_time, job_time):
    """Least wall time over expected wall time.

    ideal / expected

    Returns: [1] share of the wall time that computes
    Source: by definition (ratio of theoretical to actual time)
    """
    return ideal_job_time / job_time


def utilization_reading(utilization_efficiency):
    """What the utilisation says of the run: below 70 % it waits, above 85 % it computes.

    u < 0.70, 0.70 to 0.85, u > 0.85

    Returns: [flag] what limits the run
    Flags: 0 communication_bound, 1 mixed, 2 compute_bound
    Source: rule of thumb of the guide "Scaling Distributed Training: The Physics of Large-Scale AI
        Workloads", interpreting estimator outputs
    """
    reading = where(utilization_efficiency < 0.70, 0.0, 1.0)
    reading = where(utilization_efficiency > 0.85, 2.0, reading)
    return where(utilization_efficiency == utilization_efficiency, reading, np.nan)


def gradient_bytes_sent(gradient_message, site_gradient_ranks):
    """Bytes that each GPU sends to exchange gradients once, by the least that an all-reduce needs.

    2 (n - 1) / n x M

    Returns: [B] bytes sent in one step
    Source: Patarasuk & Yuan 2009, JPDC 69(2); Fleet Foundations, all-reduce overhead scaling
    Example:
        >>> gradient_bytes_sent(14e9, 256) / 1e9
        27.890625
    """
    return 2 * (site_gradient_ranks - 1) / site_gradient_ranks * gradient_message


def network_intensity(kernel_flops_per_step, n_gpus, gradient_bytes_sent):
    """Model operations of each GPU per byte that it sends to exchange gradients.

    F / n / bytes; infinite where nothing is sent

    Returns: [FLOP/B] intensity
    Source: Williams et al. 2009, CACM 52(4), with network bytes; Fleet Foundations, the
        single-accelerator roofline (the roofline of the fleet)
    """
    sends = gradient_bytes_sent > 0
    sent = where(sends, gradient_bytes_sent, 1.0)
    quiet = where(gradient_bytes_sent == 0, np.inf, np.nan)
    return where(sends, kernel_flops_per_step / n_gpus / sent, quiet)


@same_as(three_ceilings)
def network_attainable_flops(
    arithmetic_intensity, peak_flops, hbm_bandwidth, network_intensity, data_parallel_bandwidth
):
    """Rate of one GPU that arithmetic, memory and the gradient exchange allow.

    min(P, I BW, I_net B_net)

    Returns: [FLOP/s] attainable rate
    Source: Williams et al. 2009, CACM 52(4); Fleet Foundations, foundations recap (the network as a
        third ceiling)
    """


def iron_law_time(
    gradient_bytes_sent,
    data_parallel_bandwidth,
    kernel_flops_per_step,
    n_gpus,
    peak_flops,
    flops_efficiency,
    site_gradient_ranks,
    data_parallel_latency,
):
    """Time of one step by the iron law: send the gradients, compute, wait; nothing overlaps.

    bytes / B + F / (n P eta) + 2 (n - 1) a: a first estimate beside step_time, without
    recomputation, bubbles or other traffic

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
    bubble_time,
    stage_imbalance_time,
    serial_time_per_step,
    pipeline_parallel,
    num_microbatches,
    stage_chunks,
    compute_time,
    straggler_time,
    exposed_layer_communication_time,
    pipeline_parallel_time,
    exposed_pipeline_parallel_time,
):
    """Part of a step that more GPUs do not shorten, the global batch fixed; gradients aside.

    bubble - imbalance of stages + serial + sends waited for beyond those of every micro-batch (v =
    1: with v > 1 chunks they hide the others); with m < p also (1 - 1 / v) x work, as bubbles grow
    by that

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


def shared_step_time(step_time, fixed_step_time, exposed_data_parallel_time):
    """Part of a step that more GPUs shorten in proportion, the global batch fixed.

    step - what they do not shorten - exposed gradient traffic

    Returns: [s] time of one step
    Source: by definition
    """
    return step_time - fixed_step_time - exposed_data_parallel_time


def gradient_ring_time(exchanged_message, data_parallel_bandwidth):
    """Time of the bytes that a ring of very many data-parallel ranks exchanges once a step.

    M / B, M both ways

    Returns: [s] time, without latency
    Source: by definition (bytes over bandwidth: the limit of Patarasuk & Yuan 2009, theorem 1)
    """
    return exchanged_message / data_parallel_bandwidth


def sync_wall_gpus(
    n_gpus,
    tensor_parallel,
    pipeline_parallel,
    context_parallel,
    shared_step_time,
    fixed_step_time,
    gradient_ring_time,
    data_parallel_latency,
    checkpoint_stall_time,
    recovery_time,
    cluster_mtbf,
    parameter_copies,
):
    """Size of the cluster beyond which more GPUs make the run longer, the global batch fixed.

    n where d(job time) / dn = 0 for a step A / n + C + D n: gradients in a ring of k = n / (t p)
    ranks (twice as many in dualpipe), once a step and not hidden, take 2 (k - 1) a + (1 - 1 / k) M
    / B, M both ways; bubbles and serial time stay (fixed_step_time); all else shrinks with n.
    Checkpoints at the exact optimum, failures in proportion to GPUs. Layout, link and stall are
    those of the present point. At least one replica; infinite where nothing ends the gain

    Returns: [1] GPUs
    Range: a wall on the present point's side of m = p where stages hold several chunks; one
        data-parallel group (with sharding groups, an estimate by the link of a group); with several
        tiers of checkpoints, the rework of the lowest
    Source: Daly 2006, FGCS 22(3), eq. 13 and 20; ring: Patarasuk & Yuan 2009, JPDC 69(2); bubble:
        Narayanan et al. 2021 (SC21), section 2.2
    """
    replica = tensor_parallel * pipeline_parallel
    shard = replica / parameter_copies
    shared = n_gpus * shared_step_time
    hops = 2 * data_parallel_latency
    wall = sync_wall(
        shared - gradient_ring_time * shard,
        fixed_step_time + gradient_ring_time - hops,
        hops / shard,
        checkpoint_stall_time,
        recovery_time,
        cluster_mtbf * n_gpus,
    )
    return np.maximum(wall, replica * context_parallel)
