"""Step time from compute, bubble and exposed communication, and its utilization ratios."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.statistics import expected_maximum, expected_maximum_gumbel
from ...ops import where


def offload_time(optimizer_offload_time, activation_offload_wait):
    """Time per step that a GPU waits for its host: transfers, and its optimizer's update there.

    optimizer + activations, as far as layers do not hide them

    Returns: [s] waits of one step
    Source: Ren et al. 2021 (ZeRO-Offload), arXiv:2101.06840, section 3.2
    """
    return optimizer_offload_time + activation_offload_wait


@alternative("activation_offload_wait", activation_offload=("layers", "modules"), off=0.0)
def moved_activation_offload_wait(
    activation_offload_time,
    layer_compute_time,
    exposed_layer_communication_time,
    exposed_pipeline_parallel_time,
    exposed_data_parallel_time,
    contention_time,
    processor_contention_time,
    recompute_flops_factor,
    layers,
    pipeline_parallel,
):
    """Time per step that layers wait for activations on their way to the host, or back.

    max(0, D - w F) + max(0, D - w (C - F)), w = 1 - 2 p / l, F = C / (3 f): a layer's activations
    leave during the next layers of the forward pass C / (3 f), and come back a layer early; C with
    waits for other traffic, and as slow as held processors make it

    Returns: [s] waits of one step
    Range: steady passes; a host's link is shared by the GPUs behind it, and both ways run at once
    Source: Rajbhandari et al. 2021 (ZeRO-Infinity), arXiv:2104.07857, section 5.1; Megatron-LM,
        docs/user-guide/features/fine_grained_activation_offloading.md
    """
    waits = exposed_pipeline_parallel_time + exposed_data_parallel_time + contention_time
    passes = layer_compute_time + processor_contention_time
    passes = passes + exposed_layer_communication_time + waits
    hiding = np.maximum(1 - 2 * pipeline_parallel / layers, 0.0)
    forward = passes / (3 * recompute_flops_factor)
    out = np.maximum(activation_offload_time - hiding * forward, 0.0)
    return out + np.maximum(activation_offload_time - hiding * (passes - forward), 0.0)


@alternative("communication_time", multi_site=False)
def one_site_communication_time(
    tensor_parallel_time,
    context_parallel_time,
    expert_parallel_time,
    pipeline_parallel_time,
    data_parallel_time,
    offload_time,
):
    """Communication of one step on one GPU, hidden or not.

    tensor + context + expert + pipeline + data + offload

    Returns: [s] communication of one step
    Source: sum of the exclusive parts; Narayanan et al. 2021 (SC21), section 3
    """
    layers = tensor_parallel_time + context_parallel_time + expert_parallel_time
    return layers + pipeline_parallel_time + data_parallel_time + offload_time


def exposed_layer_communication_time(
    exposed_tensor_parallel_time, exposed_context_parallel_time, exposed_expert_parallel_time
):
    """Exposed communication inside the layers, per step.

    exposed tensor + exposed context + exposed expert

    Returns: [s] exposed communication of one step
    Source: by definition of exposed communication; Wang et al. 2023 (ASPLOS), section 2
    """
    return (
        exposed_tensor_parallel_time + exposed_context_parallel_time + exposed_expert_parallel_time
    )


@alternative("exposed_communication_time", multi_site=False)
def one_site_exposed_communication_time(
    exposed_layer_communication_time,
    exposed_pipeline_parallel_time,
    exposed_data_parallel_time,
    offload_time,
    contention_time,
    processor_contention_time,
):
    """Communication of one step that compute does not hide.

    exposed in layers + exposed pipeline + exposed data + offload + contention for links and
    processors

    Returns: [s] exposed communication of one step
    Source: by definition of exposed communication; Wang et al. 2023 (ASPLOS), section 2
    """
    exposed = exposed_layer_communication_time + exposed_pipeline_parallel_time
    contention = contention_time + processor_contention_time
    return exposed + exposed_data_parallel_time + offload_time + contention


@alternative("slowest_rank_deviation", jitter_model="normal", off=0.0)
@same_as(expected_maximum)
def normal_slowest_rank_deviation(n_gpus, data_parallel, backup_workers):
    """Standard deviations of the slowest awaited rank above the mean, for normal jitter.

    expected maximum of n, without the slowest replicas that backup workers make up for

    Source: Blom 1958 (expected order statistics); Chen et al. 2016, arXiv:1604.00981 (backups)
    """


@alternative("slowest_rank_deviation", jitter_model="gumbel")
@same_as(expected_maximum_gumbel)
def gumbel_slowest_rank_deviation(n_gpus, data_parallel, backup_workers):
    """Standard deviations of the slowest awaited rank above the mean: long-tailed jitter.

    expected maximum of n, without the slowest replicas that backup workers make up for

    Returns: [1] deviations
    Source: Gumbel 1958, section 5.2 (the largest of n); Chen et al. 2016, arXiv:1604.00981
    """


row(
    "document_wait_time",
    "packed_wait_time",
    summary="Time per step by which documents make a context-parallel rank later than the mean.",
    returns="[s] wait of one step",
    source="Wang et al. 2025 (WLB-LLM), arXiv:2503.17924 (sharding by sequence)",
    context_balance=("zigzag", "contiguous"),
)
row(
    "document_wait_time",
    0.0,
    "equal pairs of queries and keys on each rank",
    holds="documents of many blocks for each part: kernels work longer on pieces of documents",
    source="Wang et al. 2025 (WLB-LLM), arXiv:2503.17924 (sharding by document)",
    context_balance="documents",
)


@alternative("packed_wait_time", document_mask=True, off=0.0)
def packed_wait_time(
    attention_time,
    context_parallel,
    head_sharing_ranks,
    sequence_parts,
    micro_batch_size,
    sequence_length,
    document_length,
    full_layer_span,
    attention_key_share,
):
    """Time per step by which the context-parallel rank with most in its documents is behind.

    attention, as far as it grows with keys, x deviations of the slowest of c / u x
    sqrt(2 c / (b parts) x (x - 1 + e^-x) / x^2) x (1 - 2 keys / s), x = s u / (parts d): a part's
    keys vary with the documents that it holds, less where few end

    Returns: [s] wait of one step
    Range: within 15 % of the slowest rank's attention for exponential documents and 2 to 16 ranks
        that gather all keys, as Llama 3's; of lognormal lengths, with a deviation of 1 to 1.5 in
        ln L, up to 40 % too little where a sequence has 100 documents. A ring also waits at each
        exchange: up to twice as long. Micro-batches and replicas differ, too, which is not counted
    Source: Wang et al. 2025 (WLB-LLM), arXiv:2503.17924 (sharding by sequence); Feller
        1968, chapter XI (renewals: what a part holds); Blom 1958 (the largest of c)
    """
    ranks = context_parallel / head_sharing_ranks
    documents = sequence_length * head_sharing_ranks / (sequence_parts * document_length)
    spread = 2 * (documents + np.expm1(-documents)) / (documents * documents)
    spread = spread * context_parallel / (sequence_parts * micro_batch_size)
    ending = 1 - 2 * full_layer_span / sequence_length
    keys = attention_key_share * attention_time
    return keys * expected_maximum(ranks, ranks, 0.0) * np.sqrt(spread) * ending


@alternative("straggler_time", context_balance=("zigzag", "documents"))
def straggler_time(compute_time, slowest_rank_slowdown, document_wait_time):
    """Time per step spent waiting for the slowest rank.

    compute time x slowdown of the slowest rank + wait for the rank with most in its documents

    Returns: [s] wait of one step
    Source: Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 5 (steps at the slowest rank)
    """
    return compute_time * slowest_rank_slowdown + document_wait_time


@alternative("bubble_time", stage_split=False)
def even_bubble_time(bubble_ratio, compute_time, straggler_time, exposed_layer_communication_time):
    """Pipeline bubble time of one step.

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
    """Pipeline bubble time of one step, mean over stages.

    bubble ratio x (compute + straggler + exposed traffic of layers) + (1 - 1 / m) (slowest stage -
    mean stage): fill and drain take one pass of every stage; in between, the slowest sets the pace

    Range: exact for GPipe, and for 1F1B if the last stage is the slowest; otherwise an upper bound,
        by at most (p - 1) forward passes. Error of -16 % to +8 % of a step for interleaved and
        ZB-H1 schedules whose stages differ by up to half
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
    """Time of one optimizer step, including its share of stops for slow nodes.

    (compute + straggler + bubble + exposed communication + optimizer + serial) x (1 + stops)

    Returns: [s] time of one step
    Source: Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 2 (parts of a step)
    """
    working = compute_time + straggler_time + bubble_time + exposed_communication_time
    return (working + optimizer_time + serial_time_per_step) * (1 + slow_node_stops)


row(
    "fabric_error_factor",
    "error_factor",
    summary="The error factor, with what nobody measured of the fabric between nodes.",
    returns="[1] factor",
    unmeasured_fabric=False,
)


@alternative("fabric_error_factor", unmeasured_fabric=True)
def unmeasured_fabric_error_factor(error_factor, fabric_error_exponent, n_gpus, scale_up_gpus):
    """f^p for jobs of more GPUs than reach each other without the fabric; f for others

    Source: Vovk et al. 2005, Algorithmic Learning in a Random World, section 2.2: as fabrics left
        out one by one needed
    """
    is_wider = (n_gpus > scale_up_gpus) & (fabric_error_exponent > 1)
    wider = np.exp(fabric_error_exponent * np.log(error_factor))
    return where(is_wider, wider, error_factor)


row(
    "step_error_factor",
    "fabric_error_factor",
    summary="Factor by which predicted and measured step times differ at most, in 90 of 100.",
    returns="[1] factor",
    source="Vovk et al. 2005, Algorithmic Learning in a Random World, section 2.2",
    compute_model="mfu",
)


@alternative("step_error_factor", compute_model="roofline")
def roofline_step_error_factor(fabric_error_factor, layer_gpu_time, layer_launch_time):
    """1 + sqrt((f - 1)^2 + (h - 1)^2), h = max(GPU, 1.6 host) / max(GPU, host): hosts of one
    software differ by 1.6 either way, whatever else differs; 1 if f = 1: nothing is known

    Range: the same both ways; an upper bound as far as a step is more than its layers
    Source: TransformerEngine, issue 2053: a Xeon launches a product of PyTorch in 13.5 us, Grace in
        33 to 37; Bang et al. 2024 (vTrain), arXiv:2312.12391
    """
    now = np.maximum(layer_gpu_time, layer_launch_time)
    late = np.maximum(layer_gpu_time, 1.6 * layer_launch_time) / now - 1
    both = 1 + np.sqrt((fabric_error_factor - 1) * (fabric_error_factor - 1) + late * late)
    return where(late * (fabric_error_factor - 1) > 0, both, fabric_error_factor)


def step_time_ratio(step_time_factor, step_time_error, step_error_factor):
    """Step time over the computed one: measured elsewhere, or at a position in the error interval.

    c f^e

    Returns: [1] step time over the computed one
    Source: by definition; interval: Vovk et al. 2005, Algorithmic Learning in a Random World,
        section 2.2 (conformal prediction), of logarithms
    """
    return step_time_factor * np.exp(step_time_error * np.log(step_error_factor))


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
    """Time of one optimizer step, at a position within its error interval.

    (compute + straggler + bubble + exposed communication + optimizer + serial) x (1 + stops) x
    c f^e

    Range: components stay as computed: a factor of the total does not say which is wrong
    """
    working = compute_time + straggler_time + bubble_time + exposed_communication_time
    step = (working + optimizer_time + serial_time_per_step) * (1 + slow_node_stops)
    return step * step_time_ratio


@alternative("step_time_low", shifted_step_time=False)
def step_time_low(step_time, step_error_factor):
    """Lower end of the interval that contains 90 of 100 measured step times.

    t / f

    Returns: [s] time of one step
    Source: Vovk et al. 2005, Algorithmic Learning in a Random World, section 2.2 (conformal
        prediction), of logarithms
    """
    return step_time / step_error_factor


@alternative("step_time_low", shifted_step_time=True)
def step_time_low_of_shifted(step_time, step_time_error, step_error_factor):
    """t / f^(e + 1): relative to the prediction, not to the shifted step time"""
    return step_time * np.exp(-(step_time_error + 1) * np.log(step_error_factor))


@alternative("step_time_high", shifted_step_time=False)
def step_time_high(step_time, step_error_factor):
    """Upper end of the interval that contains 90 of 100 measured step times.

    t f

    Returns: [s] time of one step
    Source: Vovk et al. 2005, Algorithmic Learning in a Random World, section 2.2 (conformal
        prediction), of logarithms
    """
    return step_time * step_error_factor


@alternative("step_time_high", shifted_step_time=True)
def step_time_high_of_shifted(step_time, step_time_error, step_error_factor):
    """t f^(1 - e): relative to the prediction, not to the shifted step time"""
    return step_time * np.exp((1 - step_time_error) * np.log(step_error_factor))


def tokens_per_second(tokens_per_step, step_time):
    """Training throughput while the cluster is up.

    B s / t

    Returns: [1/s] tokens per second
    Source: by definition
    """
    return tokens_per_step / step_time


def mfu(ideal_compute_time, step_time):
    """Model FLOPs utilization, with operations counted as per flops_counting.

    F / (n P t)

    Returns: [1] share of peak spent on model operations
    Range: at most hfu with flops_counting = transformer_causal; the other conventions count
        operations that kernels may skip (masked attention, look-ups), so MFU may exceed it
    Source: Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B
    """
    return ideal_compute_time / step_time


def hfu(kernel_flops_per_step, recompute_flops_factor, n_gpus, peak_flops, step_time):
    """Hardware FLOPs utilization: counts operations that kernels execute, recomputation included.

    executed operations / (n P t)

    Returns: [1] share of peak spent on operations; at most 1
    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 6.3
    """
    return kernel_flops_per_step * recompute_flops_factor / (n_gpus * peak_flops * step_time)


def model_flops_per_gpu(model_flops_per_step, n_gpus, step_time):
    """Achieved model FLOP/s per GPU, with operations counted as per flops_counting.

    F / (n t)

    Returns: [FLOP/s] achieved rate of one GPU
    Source: Narayanan et al. 2021 (SC21), table 1 (achieved teraFLOP/s per GPU)
    """
    return model_flops_per_step / (n_gpus * step_time)


@alternative("scaling_efficiency", shifted_step_time=False)
def scaling_efficiency(compute_time, step_time):
    """Share of a step spent computing.

    compute / step

    Returns: [1] compute time over step time
    Source: by definition; Fleet Foundations table 5 gives rules of thumb
    """
    return compute_time / step_time


@alternative("scaling_efficiency", shifted_step_time=True)
def scaling_efficiency_of_shifted(compute_time, step_time, step_time_ratio):
    """c f^e x compute / step: all parts scale alike"""
    return compute_time * step_time_ratio / step_time


@alternative("communication_fraction", shifted_step_time=False)
def communication_fraction(exposed_communication_time, step_time):
    """Share of a step spent waiting for communication.

    exposed communication / step

    Returns: [1] share of the step
    Source: by definition
    """
    return exposed_communication_time / step_time


@alternative("communication_fraction", shifted_step_time=True)
def communication_fraction_of_shifted(exposed_communication_time, step_time, step_time_ratio):
    """c f^e x exposed communication / step: all parts scale alike"""
    return exposed_communication_time * step_time_ratio / step_time


@alternative("gradient_window", zero_stage=(0, 1))
def last_backward_window(
    compute_time, exposed_layer_communication_time, recompute_flops_factor, num_microbatches
):
    """Time that can hide gradient traffic: the last micro-batch's backward pass.

    (compute + exposed in layers) / m x (1 - 1 / (3 f)): all but the forward pass, a third of the
    operations without recomputation; a pass includes waits for its layers' traffic

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
    """(compute + exposed in layers) x (1 - 1 / (3 f)) s / m: backward passes of the s of m
    micro-batches that reduce; forward is a third of operations without recomputation

    Source: Rajbhandari et al. 2020 (ZeRO), section 7.1 (reduced as they become available)
    """
    passes = compute_time + exposed_layer_communication_time
    reduced = gradient_reductions / num_microbatches
    return passes * (1 - 1 / (3 * recompute_flops_factor)) * reduced


@alternative("gradient_window", zero_stage=3)
def sharded_gradient_window(fsdp_forward_window, fsdp_backward_window):
    """forward + backward window: the one that also hides weight gathers

    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.3
    """
    return fsdp_forward_window + fsdp_backward_window


row(
    "weight_window",
    0.0,
    "ZeRO-3 gathers them where they are used",
    source="Rajbhandari et al. 2020 (ZeRO), section 7",
    zero_stage=(0, 3),
)


@alternative("weight_window", zero_stage=(1, 2))
def first_forward_window(
    compute_time, exposed_layer_communication_time, recompute_flops_factor, num_microbatches
):
    """Time that can hide the weight gather after a sharded update: the next forward pass.

    (compute + exposed in layers) / (3 f m): forward pass of the first micro-batch

    Returns: [s] window
    Source: Megatron-LM, --overlap-param-gather
    """
    passes = compute_time + exposed_layer_communication_time
    return passes / (3 * recompute_flops_factor * num_microbatches)


@alternative("fsdp_forward_window", fsdp_prefetch=True, off=0.0)
def prefetched_fsdp_forward_window(
    compute_time, exposed_layer_communication_time, recompute_flops_factor
):
    """Time of forward passes that can hide ZeRO-3's weight gathers.

    (compute + exposed in layers) / (3 f)

    Returns: [s] window
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.3.2 (forward prefetching)
    """
    return (compute_time + exposed_layer_communication_time) / (3 * recompute_flops_factor)


def fsdp_backward_window(compute_time, exposed_layer_communication_time, recompute_flops_factor):
    """Time of backward passes that can hide ZeRO-3's weight gathers and gradient reductions.

    (compute + exposed in layers) x (1 - 1 / (3 f)): all but the forward pass, a third of operations

    Returns: [s] window
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, section 3.3.2 (backward prefetching)
    """
    passes = compute_time + exposed_layer_communication_time
    return passes * (1 - 1 / (3 * recompute_flops_factor))
