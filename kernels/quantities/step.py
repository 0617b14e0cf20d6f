"""One optimizer step: the pipeline, the bubble, what communication is not hidden, the total."""

import numpy as np

from ..alternatives import alternative, same_as
from ..ops import where
from ..pipeline import bubble_ratio as idle_over_ideal
from ..statistics import expected_maximum, expected_maximum_gumbel


def data_parallel(n_gpus, tensor_parallel, pipeline_parallel, context_parallel):
    """Replicas of the model; undefined where the cluster holds less than one.

    d = n / (t p c), for d >= 1

    Returns: [1] data-parallel size; NaN where one replica takes more than the cluster
    Source: Narayanan et al. 2021 (SC21), section 3.1
    Example:
        >>> float(data_parallel(99968, 8, 16, 1))
        781.0
    """
    replicas = n_gpus / (tensor_parallel * pipeline_parallel * context_parallel)
    return where(replicas >= 1, replicas, np.nan)


def num_microbatches(global_batch_size, data_parallel, micro_batch_size):
    """Micro-batches that each replica runs through its pipeline in one step.

    m = B / (d b)

    Returns: [1] micro-batches of one step
    Source: Narayanan et al. 2021 (SC21), section 3.1
    """
    return global_batch_size / (data_parallel * micro_batch_size)


@alternative("bubble_ratio", pipeline_schedule=("gpipe", "1f1b", "interleaved", "combined_1f1b"))
@same_as(idle_over_ideal)
def flushed_bubble_ratio(pipeline_parallel, num_microbatches, stage_chunks):
    """Pipeline idle time over useful time.

    ((v - 1) max(0, p - m) + p - 1) / (v m); (p - 1) / (v m) from m = p on

    Returns: [1] bubble over ideal time
    Range: what a scheduler runs (PyTorch m < p, too); a bound from below at the points with the
        reason microbatch_group_does_not_fit
    Source: Narayanan et al. 2021 (SC21), section 2.2; m < p by playing the schedule out
    """


@alternative("bubble_ratio", pipeline_schedule="zb_h1")
def zb_h1_bubble_ratio(pipeline_parallel, num_microbatches, recompute_flops_factor):
    """Pipeline idle time over useful time: weight gradients fill a part of 1F1B's.

    ((p - 1) (F + B) - (min(m, p) - 1) W) / (m (F + B + W)), F = W = 1, B = 1 + what is computed
    again = 3 f - 2; (p - 1) / (3 m) from m = p on, (p - 1) / (2 m) with full recompute

    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 2.3; m < p and recompute by
        playing the schedule out
    """
    passes = 3 * recompute_flops_factor
    filled = np.minimum(num_microbatches, pipeline_parallel) - 1
    return ((pipeline_parallel - 1) * (passes - 1) - filled) / (num_microbatches * passes)


@alternative("bubble_ratio", pipeline_schedule="zb_v")
def zb_v_bubble_ratio(folded_idle_passes, num_microbatches, recompute_flops_factor):
    """Pipeline idle time over useful time: two pieces on each stage, weight gradients between.

    idle / (2 m (F + B + W)), in forward passes of a piece; F + B + W = 3 f

    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 6
    """
    return folded_idle_passes / (6 * num_microbatches * recompute_flops_factor)


@alternative("folded_idle_passes", pipeline_flush=True)
def flushed_folded_idle_passes(pipeline_parallel, num_microbatches, recompute_flops_factor):
    """Idle time of a folded pipeline's step, in forward passes of a piece; stages end together.

    max((p - 1) B, (p - 1) (F + B + W) - 2 (m - 1) W, 2 (p - 1) (F + B) - W - 2 (m - 1) (F + W)),
    F = W = 1, B = 3 f - 2: from m = p on p - 1, with full recompute 2 (p - 1)

    Returns: [1] passes
    Range: exact for f = 1 and f = 4/3; between them up to two passes more
    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, section 6; by playing the authors'
        schedule out
    """
    before, passes = pipeline_parallel - 1, 3 * recompute_flops_factor
    more = 2 * (num_microbatches - 1)
    idle = np.maximum(before * (passes - 2), before * passes - more)
    return np.maximum(idle, 2 * before * (passes - 1) - 1 - 2 * more)


@alternative("folded_idle_passes", pipeline_flush=False)
def bypassed_folded_idle_passes(pipeline_parallel, num_microbatches, recompute_flops_factor):
    """Idle time of a folded pipeline's step, in forward passes of a piece; steps overlap.

    max(0, (2 p - 3) (B - F), 2 p - 1 - m, 2 (p - 1) (F + B) - W - 2 (m - 1) (F + W)), F = W = 1,
    B = 3 f - 2: none from m = 2 p - 1 on, with full recompute 2 p - 3 from m = p on

    Range: exact for f = 1 and f = 4/3; between them within two passes
    Source: Qi et al. 2023 (zero bubble), arXiv:2401.10241, sections 4 and 6; by playing the
        authors' schedule out
    """
    before, passes = pipeline_parallel - 1, 3 * recompute_flops_factor
    idle = np.maximum(0.0, (2 * pipeline_parallel - 3) * (passes - 3))
    idle = np.maximum(idle, 2 * pipeline_parallel - 1 - num_microbatches)
    return np.maximum(idle, 2 * before * (passes - 1) - 1 - 4 * (num_microbatches - 1))


def bubble_fraction(bubble_ratio):
    """Pipeline idle time over total time.

    r / (1 + r); (p - 1) / (v m + p - 1) for 1F1B

    Returns: [1] bubble over total time
    Range: stages alike; what unequal ones wait more is in bubble_time alone
    Source: Huang et al. 2019 (GPipe), section 2.3
    """
    return bubble_ratio / (1 + bubble_ratio)


@alternative("slowest_rank_deviation", jitter_model="none")
def no_slowest_rank_deviation():
    """How many standard deviations the slowest rank lies above the mean: no jitter is counted.

    0

    Returns: [1] deviations
    Source: by definition
    """
    return 0.0


@alternative("slowest_rank_deviation", jitter_model="normal")
@same_as(expected_maximum)
def normal_slowest_rank_deviation(n_gpus, data_parallel, backup_workers):
    """How many standard deviations the slowest awaited rank lies above the mean, normal jitter.

    the largest of n, of as many of all replicas as are needed: the slowest backups are not awaited

    Source: Blom 1958 (expected order statistics); Chen et al. 2016, arXiv:1604.00981 (backups)
    """


@alternative("slowest_rank_deviation", jitter_model="gumbel")
@same_as(expected_maximum_gumbel)
def gumbel_slowest_rank_deviation(n_gpus, data_parallel, backup_workers):
    """How many standard deviations the slowest awaited rank lies above the mean, long tails.

    the largest of n, of as many of all replicas as are needed: the slowest backups are not awaited

    Source: Gumbel 1958, section 5.2 (the largest of n); Chen et al. 2016, arXiv:1604.00981
    """


@alternative("straggler_time", context_balance="zigzag")
def straggler_time(compute_time, slowest_rank_slowdown):
    """Time for which a step waits for its slowest rank.

    compute time x slowdown of the slowest rank

    Returns: [s] wait of one step
    Source: Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 5 (steps at the slowest rank)
    """
    return compute_time * slowest_rank_slowdown


@alternative("bubble_time", stage_split="alike")
def even_bubble_time(bubble_ratio, compute_time, straggler_time, exposed_layer_communication_time):
    """Time of one step in which pipeline stages idle; their work includes layers' traffic.

    bubble ratio x (compute + straggler + exposed traffic of layers)

    Returns: [s] bubble of one step
    Source: Narayanan et al. 2021 (SC21), section 2.2
    """
    return bubble_ratio * (compute_time + straggler_time + exposed_layer_communication_time)


@alternative("bubble_time", stage_split="whole_layers")
def paced_bubble_time(
    bubble_ratio,
    compute_time,
    straggler_time,
    exposed_layer_communication_time,
    stage_imbalance_time,
    num_microbatches,
):
    """Time of one step in which pipeline stages idle, the mean over stages.

    bubble ratio x (compute + straggler + exposed traffic of layers) + (1 - 1 / m) (slowest stage -
    mean stage): filling and draining take a pass of every stage, what is between the slowest's pace

    Range: exact for GPipe, and for 1F1B where the last stage is the slowest; where another is, a
        bound from above, of (p - 1) forward passes at most. Between -16 % and +8 % of a step for
        interleaved and ZB-H1 schedules whose stages differ by up to half
    Source: Narayanan et al. 2021 (SC21), section 2.2; unequal stages by playing the schedules out
    """
    work = compute_time + straggler_time + exposed_layer_communication_time
    paced = np.maximum(1 - 1 / num_microbatches, 0.0)
    return bubble_ratio * work + paced * stage_imbalance_time


@alternative("step_time", shifted_step_time=False)
def step_time(
    compute_time,
    straggler_time,
    bubble_time,
    exposed_communication_time,
    optimizer_time,
    serial_time_per_step,
    slow_node_stops,
):
    """Time of one optimizer step, with the step's share of stops for slow nodes.

    (compute + straggler + bubble + exposed communication + optimizer + serial) x (1 + stops)

    Returns: [s] time of one step
    Source: Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 2 (parts of a step)
    """
    working = compute_time + straggler_time + bubble_time + exposed_communication_time
    return (working + optimizer_time + serial_time_per_step) * (1 + slow_node_stops)


def step_time_ratio(step_time_error, error_factor):
    """Time of a step over its prediction, somewhere in the interval of its error.

    f^e

    Returns: [1] step time over the predicted one
    Source: by definition; interval: Vovk et al. 2005, Algorithmic Learning in a Random World,
        section 2.2 (conformal prediction), of logarithms
    """
    return np.exp(step_time_error * np.log(error_factor))


@alternative("step_time", shifted_step_time=True)
def step_time_in_interval(
    compute_time,
    straggler_time,
    bubble_time,
    exposed_communication_time,
    optimizer_time,
    serial_time_per_step,
    slow_node_stops,
    step_time_ratio,
):
    """Time of one optimizer step, somewhere in the interval of its error.

    (compute + straggler + bubble + exposed communication + optimizer + serial) x (1 + stops) x f^e

    Range: the parts stay as predicted: an interval of the whole does not say which is wrong
    """
    working = compute_time + straggler_time + bubble_time + exposed_communication_time
    step = (working + optimizer_time + serial_time_per_step) * (1 + slow_node_stops)
    return step * step_time_ratio


@alternative("step_time_low", shifted_step_time=False)
def step_time_low(step_time, error_factor):
    """Lower end of the interval in which 90 of 100 measured step times are.

    t / f

    Returns: [s] time of one step
    Source: Vovk et al. 2005, Algorithmic Learning in a Random World, section 2.2 (conformal
        prediction), of logarithms
    """
    return step_time / error_factor


@alternative("step_time_low", shifted_step_time=True)
def step_time_low_of_shifted(step_time, step_time_ratio, error_factor):
    """t / (f^e f): the end of the prediction, wherever the step's time is"""
    return step_time / step_time_ratio / error_factor


@alternative("step_time_high", shifted_step_time=False)
def step_time_high(step_time, error_factor):
    """Upper end of the interval in which 90 of 100 measured step times are.

    t f

    Returns: [s] time of one step
    Source: Vovk et al. 2005, Algorithmic Learning in a Random World, section 2.2 (conformal
        prediction), of logarithms
    """
    return step_time * error_factor


@alternative("step_time_high", shifted_step_time=True)
def step_time_high_of_shifted(step_time, step_time_ratio, error_factor):
    """t f / f^e: the end of the prediction, wherever the step's time is"""
    return step_time / step_time_ratio * error_factor


def tokens_per_second(tokens_per_step, step_time):
    """Training throughput while the cluster is up.

    B s / t

    Returns: [1/s] tokens per second
    Source: by definition
    """
    return tokens_per_step / step_time


def mfu(ideal_compute_time, step_time):
    """Model FLOPs utilisation, by the operations that flops_counting counts.

    F / (n P t)

    Returns: [1] share of peak that does model operations
    Range: at most hfu with flops_counting = transformer_causal; the other conventions count
        operations that kernels may not do (masked attention, look-ups), and may exceed it
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B
    """
    return ideal_compute_time / step_time


def hfu(kernel_flops_per_step, recompute_flops_factor, n_gpus, peak_flops, step_time):
    """Hardware FLOPs utilisation: what kernels do, and do again, counts; nothing else does.

    operations done / (n P t)

    Returns: [1] share of peak that does operations; at most 1
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 6.3
    """
    return kernel_flops_per_step * recompute_flops_factor / (n_gpus * peak_flops * step_time)


def model_flops_per_gpu(model_flops_per_step, n_gpus, step_time):
    """Rate of model operations that each GPU achieves, by the count of flops_counting.

    F / (n t)

    Returns: [FLOP/s] achieved rate of one GPU
    Source: Narayanan et al. 2021 (SC21), table 1 (achieved teraFLOP/s per GPU)
    """
    return model_flops_per_step / (n_gpus * step_time)


def scaling_efficiency(compute_time, step_time):
    """Share of a step in which GPUs compute.

    compute / step

    Returns: [1] compute time over step time
    Source: by definition; Fleet Foundations table 5 gives rules of thumb
    """
    return compute_time / step_time


def communication_fraction(exposed_communication_time, step_time):
    """Share of a step that waits for communication.

    exposed communication / step

    Returns: [1] share of the step
    Source: by definition
    """
    return exposed_communication_time / step_time


def raw_communication_fraction(communication_time, step_time):
    """Communication of a step over its time, hidden parts counted: it can exceed 1.

    communication / step

    Returns: [1] communication over step time
    Source: by definition
    """
    return communication_time / step_time


@alternative("gradient_window", zero_stage=(0, 1))
def last_backward_window(
    compute_time, exposed_layer_communication_time, recompute_flops_factor, num_microbatches
):
    """Time behind which gradient traffic can hide: the last micro-batch's backward pass.

    (compute + exposed in layers) / m x (1 - 1 / (3 f)): all but the forward pass, a third of the
    operations done once; a pass lasts as long as it waits for its layers' traffic

    Returns: [s] window
    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.3
    """
    passes = (compute_time + exposed_layer_communication_time) / num_microbatches
    return passes * (1 - 1 / (3 * recompute_flops_factor))


@alternative("gradient_window", zero_stage=2)
def every_backward_window(
    compute_time,
    exposed_layer_communication_time,
    recompute_flops_factor,
    gradient_reductions,
    num_microbatches,
):
    """Time behind which gradient traffic can hide: backward passes after which it is reduced.

    (compute + exposed in layers) x (1 - 1 / (3 f)) s / m: all but the forward pass, a third of the
    operations done once, of s of m micro-batches

    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1 (reduced as they become available)
    """
    passes = compute_time + exposed_layer_communication_time
    reduced = gradient_reductions / num_microbatches
    return passes * (1 - 1 / (3 * recompute_flops_factor)) * reduced


@alternative("gradient_window", zero_stage=3)
def sharded_gradient_window(fsdp_forward_window, fsdp_backward_window):
    """Time behind which gradient traffic can hide: that of weights gathered where they are used.

    forward + backward window

    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.3
    """
    return fsdp_forward_window + fsdp_backward_window


@alternative("weight_window", zero_stage=(0, 3))
def no_weight_window():
    """Time behind which the weights of a sharded update can be gathered: there are none.

    0; ZeRO-3 gathers them where they are used

    Source: Rajbhandari et al. 2020 (ZeRO), section 7
    """
    return 0.0


@alternative("weight_window", zero_stage=(1, 2))
def first_forward_window(
    compute_time, exposed_layer_communication_time, recompute_flops_factor, num_microbatches
):
    """Time behind which the weights of a sharded update can be gathered: the next forward pass.

    (compute + exposed in layers) / (3 f m): that of the first micro-batch

    Returns: [s] window
    Source: Megatron-LM, --overlap-param-gather
    """
    passes = compute_time + exposed_layer_communication_time
    return passes / (3 * recompute_flops_factor * num_microbatches)


@alternative("fsdp_forward_window", fsdp_prefetch=True)
def prefetched_fsdp_forward_window(
    compute_time, exposed_layer_communication_time, recompute_flops_factor
):
    """Time behind which ZeRO-3 can gather weights in forward passes.

    (compute + exposed in layers) / (3 f)

    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.3.2 (forward prefetching)
    """
    return (compute_time + exposed_layer_communication_time) / (3 * recompute_flops_factor)


@alternative("fsdp_forward_window", fsdp_prefetch=False)
def no_fsdp_forward_window():
    """Time behind which ZeRO-3 can gather weights in forward passes: gathered as they are needed.

    0

    Returns: [s] window
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.3.2
    """
    return 0.0


def fsdp_backward_window(compute_time, exposed_layer_communication_time, recompute_flops_factor):
    """Time behind which ZeRO-3 can gather weights and reduce gradients in backward passes.

    (compute + exposed in layers) x (1 - 1 / (3 f)): all but the forward pass, a third of the model
    operations

    Returns: [s] window
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.3.2 (backward prefetching)
    """
    passes = compute_time + exposed_layer_communication_time
    return passes * (1 - 1 / (3 * recompute_flops_factor))
