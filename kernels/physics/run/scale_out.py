"""Scaling of the job: speed-up, efficiency, synchronization wall."""

import numpy as np

from ...alternatives import alternative, same_as
from ...laws.roofline import iron_law_time as data_work_and_latency
from ...laws.roofline import network_roofline_flops as three_ceilings
from ...laws.scaling import amdahl_speedup as fixed_work_speedup
from ...laws.scaling import gustafson_speedup as growing_work_speedup
from ...laws.scaling import sync_wall
from ...ops import where


@same_as(fixed_work_speedup)
def amdahl_speedup(serial_fraction, n_gpus):
    """Speed-up over one GPU at fixed work (Amdahl).

    1 / (s + (1 - s) / n)

    Returns: [1] time of one GPU over time of the cluster
    Source: Amdahl 1967, AFIPS 30; Fleet Foundations, Amdahl's law at fleet scale
    """


@same_as(growing_work_speedup)
def gustafson_speedup(serial_fraction, n_gpus):
    """Speed-up over one GPU for work that grows with the cluster (Gustafson).

    n - s (n - 1)

    Returns: [1] work of the cluster over that of one GPU in the same time
    Source: Gustafson 1988, CACM 31(5)
    """


def rho(communication_time, compute_time):
    """Communication-to-computation ratio of a step, hidden communication included.

    rho = T_comm(n) / (T_compute / n); compute_time is already per GPU

    Returns: [1] above 1, communication cannot be hidden
    Source: Fleet Foundations eq. 5
    Example:
        >>> round(rho(0.5604, 5.0), 2)
        0.11
    """
    return communication_time / compute_time


@alternative("effective_flops", mfu_scope="step")
def step_effective_flops(n_gpus, peak_flops, mfu, goodput):
    """Useful FLOP/s of the cluster, for an MFU of whole steps, which includes scaling losses.

    n P MFU goodput

    Returns: [FLOP/s] useful model operations per second of wall time
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B (MFU); times goodput
    """
    return n_gpus * peak_flops * mfu * goodput


@alternative("effective_flops", mfu_scope="node")
def node_effective_flops(n_gpus, peak_flops, mfu, scaling_efficiency, goodput):
    """Useful FLOP/s of the cluster, for an MFU of one node, without the fabric.

    n P MFU eta_scaling goodput

    Source: Fleet Foundations, the compound loss of fleet utilization
    Example:
        >>> round(node_effective_flops(1024, 989, 0.5, 0.5, 0.77), 1)
        194951.7
    """
    return n_gpus * peak_flops * mfu * scaling_efficiency * goodput


@alternative("ideal_job_time", shifted_step_time=False)
def ideal_job_time(training_steps, compute_time):
    """Wall time of the run with compute alone: no traffic, bubble or failures.

    steps x compute time

    Returns: [s] minimum wall time
    Source: by definition of the theoretical minimum (zero communication, infinite bandwidth)
    """
    return training_steps * compute_time


@alternative("ideal_job_time", shifted_step_time=True)
def ideal_job_time_of_shifted(training_steps, compute_time, step_time_ratio):
    """steps x c f^e x compute time: all parts of a step scale alike"""
    return training_steps * (compute_time * step_time_ratio)


def utilization_efficiency(ideal_job_time, job_time):
    """Ideal wall time over expected wall time.

    ideal / expected

    Returns: [1] share of the wall time spent computing
    Source: by definition (ratio of theoretical to actual time)
    """
    return ideal_job_time / job_time


def utilization_reading(utilization_efficiency):
    """Bottleneck by utilization: below 70 % communication, above 85 % compute.

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
    """Bytes that each GPU sends in one gradient all-reduce, the minimum of any algorithm.

    2 (n - 1) / n x M

    Returns: [B] bytes sent in one step
    Source: Patarasuk & Yuan 2009, JPDC 69(2); Fleet Foundations, all-reduce overhead scaling
    Example:
        >>> gradient_bytes_sent(14e9, 256) / 1e9
        27.890625
    """
    return 2 * (site_gradient_ranks - 1) / site_gradient_ranks * gradient_message


def network_intensity(kernel_flops_per_step, n_gpus, gradient_bytes_sent):
    """Operations of each GPU per byte that it sends in the gradient exchange.

    F / n / bytes; infinite if nothing is sent

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
    """Attainable rate of one GPU under the ceilings of compute, memory and gradient exchange.

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
    """Step time by the iron law: gradient bytes, compute and latency, without overlap.

    bytes / B + F / (n P eta) + 2 (n - 1) a: a cross-check of step_time, without recomputation,
    bubbles or other traffic

    Returns: [s] time of one step
    Range: one data-parallel group; with sharding groups, bandwidth and latency are those of a group
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
    """Part of a step that more GPUs do not shorten at fixed global batch, without gradient traffic.

    bubble - stage imbalance + serial + exposed sends beyond those of every micro-batch (which count
    for v = 1 only: v > 1 chunks hide them); with m < p also (1 - 1 / v) x work, which bubbles gain

    Returns: [s] time of one step
    Range: GPipe, 1F1B and interleaved schedules that stay on the same side of m = p; zero-bubble
        schedules with at least 2 p - 1 micro-batches; sends as with pipeline_sends = auto
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    work = compute_time + straggler_time + exposed_layer_communication_time
    grows = where(num_microbatches < pipeline_parallel, (1 - 1 / stage_chunks) * work, 0.0)
    shared = where(stage_chunks > 1, 0.0, pipeline_parallel_time)
    sends = np.maximum(0.0, exposed_pipeline_parallel_time - shared)
    return bubble_time - stage_imbalance_time + grows + sends + serial_time_per_step


@alternative("shared_step_time", shifted_step_time=False)
def shared_step_time(step_time, fixed_step_time, exposed_data_parallel_time):
    """Part of a step that shrinks as 1 / n with GPUs at fixed global batch.

    step - fixed part - exposed gradient traffic

    Returns: [s] time of one step
    Source: by definition
    """
    return step_time - fixed_step_time - exposed_data_parallel_time


@alternative("shared_step_time", shifted_step_time=True)
def shared_step_time_of_shifted(
    step_time, fixed_step_time, exposed_data_parallel_time, step_time_ratio
):
    """step / (c f^e) - fixed part - exposed gradient traffic: as computed, like these"""
    return step_time / step_time_ratio - fixed_step_time - exposed_data_parallel_time


def gradient_ring_time(exchanged_message, data_parallel_bandwidth):
    """Bandwidth term of a gradient ring over very many data-parallel ranks.

    M / B, M counting both halves of the exchange

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
    """Cluster size beyond which more GPUs make the run longer at fixed global batch.

    n where d(job time) / dn = 0 for a step A / n + C + D n: an unhidden gradient ring of k = n / (t
    p) ranks (twice as many in dualpipe) takes 2 (k - 1) a + (1 - 1 / k) M / B per step, M counting
    both halves; bubbles and serial time stay (fixed_step_time); all else shrinks with n.
    Checkpoints at the exact optimum, failures in proportion to GPUs. Layout, bandwidth and stall of
    the current point. At least one replica; infinite if more GPUs always help

    Returns: [1] GPUs
    Range: a wall on the same side of m = p as the current point if stages hold several chunks; one
        data-parallel group (with sharding groups, an estimate from the bandwidth of a group); with
        tiered checkpoints, the rework of the lowest tier; stragglers as late as at the current
        size: with jitter about 1 % off
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
