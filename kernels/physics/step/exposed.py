"""Exposed communication: the part that compute does not hide."""

import numpy as np

from ...alternatives import alternative, row
from ...ops import where
from .step import straggler_time


def shared_expert_flops_share(
    expert_layers,
    shared_experts,
    expert_parameters,
    active_matrix_parameters,
    matrix_recompute_passes,
    matrix_passes,
    layer_matrix_flops_per_token,
    kernel_flops_per_token,
    recompute_flops_factor,
    logits_flops_per_token,
    prediction_flops_per_token,
):
    """Share of the layers' operations executed by shared experts.

    their share of the matrices, l_e E_shared x parameters of an expert / N_matrices,
    x (1 + passes / 3) matrices (2 for 3 if frozen) / operations executed in layers

    Returns: [1] share of operations
    Range: also of time if all operations run at one rate; less of it if attention stays in 16 bits
    Source: Kaplan et al. 2020, arXiv:2001.08361, section 2.1 (operations of a weight); DeepSeek-AI
        2024, arXiv:2412.19437, section 2.1.2
    """
    weights = expert_layers * shared_experts * expert_parameters
    some = active_matrix_parameters > 0
    share = np.minimum(weights / where(some, active_matrix_parameters, 1.0), 1.0)
    matrices = (1 + matrix_recompute_passes / matrix_passes) * layer_matrix_flops_per_token
    done = kernel_flops_per_token * recompute_flops_factor
    done = done - logits_flops_per_token - prediction_flops_per_token
    return where(some, share, 0.0) * matrices / done


def exposed_tensor_parallel_time(
    tensor_parallel_time,
    regather_time,
    hidden_regather_time,
    embedding_exchange_time,
    logits_exchange_time,
    hidden_logits_exchange_time,
    tensor_parallel_overlap,
    layer_compute_time,
    exposed_context_parallel_time,
    launch_wait_time,
):
    """Exposed tensor-parallel traffic of one step.

    T - overlap x min(T, layers + waits for context-parallel traffic - W - H) + R - H + E - H_E, T
    traffic without R repeated gathers, of which H hidden, and E exchanges of embedding and logits,
    of which H_E hidden; less W, in which the GPU waits for its host anyway, but not below 0

    Returns: [s] exposed traffic of one step
    Range: waits as of launch_wait_time; other traffic hides in its share of the layers' time, of
        which they are a part; a lower bound where traffic takes longer than its products, which are
        less than all that layers do
    Source: by definition of exposed communication; Wang et al. 2023 (ASPLOS), section 2
    """
    layers = layer_compute_time + exposed_context_parallel_time
    busy = np.maximum(0.0, layers - launch_wait_time - hidden_regather_time)
    ends = embedding_exchange_time + logits_exchange_time
    first = tensor_parallel_time - (regather_time + ends)
    first = first - tensor_parallel_overlap * np.minimum(first, busy)
    repeated = regather_time - hidden_regather_time
    exposed = first + repeated + (ends - hidden_logits_exchange_time)
    return np.maximum(0.0, exposed - launch_wait_time)


def exposed_pipeline_parallel_time(
    awaited_pipeline_time,
    pipeline_parallel_time,
    compute_time,
    straggler_time,
    bubble_time,
    exposed_layer_communication_time,
    exposed_data_parallel_time,
):
    """Exposed sends between stages in one step, including those in the bubble.

    max(awaited, all sends - (compute + straggler + bubble + exposed in layers + exposed data))

    Returns: [s] exposed pipeline traffic of one step
    Source: by definition of exposed communication; Wang et al. 2023 (ASPLOS), section 2
    """
    others = compute_time + straggler_time + bubble_time + exposed_layer_communication_time
    left = pipeline_parallel_time - (others + exposed_data_parallel_time)
    return np.maximum(awaited_pipeline_time, left)


row(
    "context_ring_window",
    0.0,
    "no ring",
    source="Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3",
    context_parallel_type=("all_gather", "a2a"),
)


@alternative("context_ring_window", context_parallel_type=("p2p", "a2a+p2p"))
def passing_context_ring_window(
    attention_time,
    attention_backward_time_ratio,
    attention_recompute_passes,
    later_block_ratio,
    head_sharing_ranks,
    context_parallel,
):
    """Attention of one step, of the slowest rank, behind which a ring can pass what it exchanges.

    ((1 + q) (1 + (n - 2) k) + r (1 + (n - 1) k)) / ((1 + q + r) n) x attention, of n = c / u
    blocks, of which all but the first take k; all but the last of each of 1 + q forward passes, all
    of a backward pass, r as long; 0 of one block

    Returns: [s] time of one step
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3; TransformerEngine,
        pytorch/attention/dot_product_attention/context_parallel.py
    """
    ranks, ratio = context_parallel / head_sharing_ranks, attention_backward_time_ratio
    forward = 1 + attention_recompute_passes
    block = attention_time / ((forward + ratio) * ranks)
    blocks = forward * (1 + (ranks - 2) * later_block_ratio)
    blocks = blocks + ratio * (1 + (ranks - 1) * later_block_ratio)
    return where(ranks > 1, block * blocks, 0.0)


row(
    "later_block_ratio",
    1.0,
    "each has an early and a late part",
    source="Brandon et al. 2023 (striped attention), arXiv:2311.09431, section 2.3",
    context_balance=("zigzag", "documents"),
)


@alternative("later_block_ratio", context_balance="contiguous")
def unbalanced_later_block_ratio(full_layer_span, sequence_length, attention_key_share):
    """Attention of the slowest rank in a block of a ring, but its diagonal one, over the mean.

    1 + g 2 keys / s: it attends to all keys there, and to half of them in its diagonal block; g of
    the time grows with keys

    Returns: [1] ratio of times
    Source: Brandon et al. 2023 (striped attention), arXiv:2311.09431, section 2.3 (a ring under a
        causal mask waits for its last rank)
    """
    return 1 + 2 * attention_key_share * full_layer_span / sequence_length


def exposed_context_parallel_time(
    context_parallel_time,
    context_collective_time,
    attention_time,
    attention_backward_time_ratio,
    attention_recompute_passes,
    later_block_ratio,
    head_sharing_ranks,
    context_parallel,
):
    """Exposed context-parallel traffic of one step.

    collectives, which end before attention starts, + (1 + q) ([S - A]+ + (n - 2) [S - k A]+) +
    [S - r A]+ + [S - k r A]+ + (n - 2) [2 S - k r A]+: n = c / u ranks pass keys and values on, S,
    during each of n blocks of attention but the last, in 1 + q forward passes and a backward pass,
    and backward gradients, S, during each but the first; blocks take A, a rank's tokens among
    themselves, or k A, r as long backward

    Returns: [s] exposed traffic of one step
    Range: dedicated links; sharing of links is in contention_time. A lower bound, at most by the
        ring's traffic, where attention is uneven: over blocks with a document_mask, if documents
        are not much longer than a rank's part, unless context_balance = "documents"; over layers
        with windows, which TransformerEngine's ring does not take, and with states, whose traffic
        attention does not hide. TransformerEngine sends gradients of attention in FP8 at the end,
        all to all
    Source: Liu et al. 2023 (ring attention), arXiv:2310.01889, section 3 (overlap with blocks);
        TransformerEngine, by playing out
        pytorch/attention/dot_product_attention/context_parallel.py; Fang & Zhao
        2024 (USP), arXiv:2405.07719, section 3.3; Grattafiori et al. 2024, arXiv:2407.21783,
        section 3.3.2
    """
    ranks = context_parallel / head_sharing_ranks
    forward = 1 + attention_recompute_passes
    sends = context_parallel_time - context_collective_time
    sends = sends / ((forward + 2) * np.maximum(ranks - 1, 1.0))
    block = attention_time / ((forward + attention_backward_time_ratio) * ranks)
    back = attention_backward_time_ratio * block
    between = np.maximum(ranks - 2, 0.0)
    first = np.maximum(0.0, sends - block)
    ahead = first + between * np.maximum(0.0, sends - later_block_ratio * block)
    ends = np.maximum(0.0, sends - back) + np.maximum(0.0, sends - later_block_ratio * back)
    both = between * np.maximum(0.0, 2 * sends - later_block_ratio * back)
    return context_collective_time + (forward * ahead + (ends + both))


@alternative("exposed_expert_parallel_time", mixture_of_experts=True, off=0.0)
def routed_exposed_expert_parallel_time(
    expert_parallel_time,
    expert_overlap_share,
    layer_compute_time,
    exposed_tensor_parallel_time,
    exposed_context_parallel_time,
    unpaired_expert_time,
):
    """Exposed expert-parallel traffic of one step.

    max(0, traffic - overlap x (compute of layers + waits for tensor- and context-parallel traffic))
    + traffic of unpaired passes, in schedules that overlap passes

    Returns: [s] exposed traffic of one step
    Range: dedicated links; sharing of links is in contention_time
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (overlap of dispatch and combine)
    """
    step = layer_compute_time + exposed_tensor_parallel_time + exposed_context_parallel_time
    late = np.maximum(0.0, expert_parallel_time - expert_overlap_share * step)
    return late + unpaired_expert_time


@alternative("expert_overlap_share", shared_expert_overlap=True, off="expert_parallel_overlap")
def shared_expert_overlap_share(expert_parallel_overlap, shared_expert_flops_share):
    """Share of compute that hides expert-parallel traffic.

    max(expert_parallel_overlap, share of the shared experts): their inputs are local

    Returns: [1] share of compute
    Source: Megatron-LM, --moe-shared-expert-overlap,
        megatron/core/transformer/moe/shared_experts.py
    """
    return np.maximum(expert_parallel_overlap, shared_expert_flops_share)


def weight_gather_overlap(data_parallel_overlap):
    """Share of its window that hides gathers of updated weights: same as gradients, unless stated.

    data_parallel_overlap

    Returns: [1] share of the first forward pass
    Source: Megatron-LM, --overlap-param-gather (with --overlap-grad-reduce)
    """
    return 1.0 * data_parallel_overlap


@alternative("exposed_data_parallel_time", zero_stage=0)
def replicated_exposed_data_parallel_time(
    data_parallel_time, data_parallel_overlap, gradient_window
):
    """max(0, traffic - overlap x backward window)

    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.3
    """
    return np.maximum(0.0, data_parallel_time - data_parallel_overlap * gradient_window)


@alternative("exposed_data_parallel_time", zero_stage=(1, 2))
def sharded_exposed_data_parallel_time(
    data_parallel_time,
    weight_all_gather_time,
    data_parallel_overlap,
    weight_gather_overlap,
    gradient_window,
    weight_window,
):
    """Exposed data-parallel traffic of one step: gradients backward, weights forward.

    max(0, reduce-scatters - overlap x backward window)
    + max(0, all-gather - overlap of weights x forward window)

    Returns: [s] exposed traffic of one step
    Source: Li et al. 2020 (PyTorch DDP), VLDB 13(12), section 3.2.3; Megatron-LM,
        --overlap-grad-reduce and --overlap-param-gather
    """
    before = data_parallel_time - weight_all_gather_time - data_parallel_overlap * gradient_window
    after = weight_all_gather_time - weight_gather_overlap * weight_window
    return np.maximum(0.0, before) + np.maximum(0.0, after)


row(
    "exposed_data_parallel_time",
    "exposed_unit_time",
    source=("Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, sections 3.3.1 and 3.3.2"),
    zero_stage=3,
)


@alternative("exposed_unit_time", reshard_after_forward=True)
def regathered_exposed_unit_time(
    num_microbatches,
    gradient_reductions,
    fsdp_units,
    weight_all_gather_time,
    gradient_reduce_scatter_time,
    replica_reduce_time,
    data_parallel_overlap,
    fsdp_forward_window,
    fsdp_backward_window,
):
    """Exposed FSDP traffic of one step, with weights gathered for each pass.

    s (A + U [A - o f]+ + [A - o b]+ + (U - 2) [A + R - o b]+ + [R - o b]+ + R) in the s
    micro-batches that reduce, + (m - s) (A + U [A - o f]+ + (U - 1) [A - o b]+) in the others:
    gathers A and reductions R of each of U units overlap its passes f and b. The first gather and
    the last reduction overlap nothing; backward, all passes but the first and the last overlap both
    a gather and a reduction

    Returns: [s] exposed traffic of one step
    Range: identical units; a large embedding makes waits longer. Reductions within and between
        sharding groups one after the other, an upper bound if they use separate links
    Source: Zhao et al. 2023 (PyTorch FSDP), arXiv:2304.11277, sections 3.3.1 and 3.3.2
    """
    passes = num_microbatches * fsdp_units
    gather = weight_all_gather_time / fsdp_units
    reduced = gradient_reduce_scatter_time + replica_reduce_time / gradient_reductions
    scatter = reduced / fsdp_units
    forward = data_parallel_overlap * fsdp_forward_window / passes
    backward = data_parallel_overlap * fsdp_backward_window / passes
    several = np.minimum(fsdp_units, 1.0)
    ends = several * (gather + scatter)
    early = fsdp_units * np.maximum(0.0, gather - forward)
    exposed_gather = np.maximum(0.0, gather - backward)
    edges = exposed_gather + np.maximum(0.0, scatter - backward)
    late = np.maximum(0.0, np.minimum(fsdp_units - 1, 1.0)) * edges
    both = np.maximum(0.0, fsdp_units - 2) * np.maximum(0.0, gather + scatter - backward)
    silent = several * gather + early + np.maximum(0.0, fsdp_units - 1) * exposed_gather
    others = (num_microbatches - gradient_reductions) * silent
    return gradient_reductions * (ends + early + late + both) + others


@alternative("exposed_unit_time", reshard_after_forward=False)
def kept_exposed_unit_time(
    num_microbatches,
    gradient_reductions,
    fsdp_units,
    weight_all_gather_time,
    gradient_reduce_scatter_time,
    replica_reduce_time,
    data_parallel_overlap,
    fsdp_forward_window,
    fsdp_backward_window,
):
    """weights kept until gradients are reduced: s (A + (U - 1) [A - o f]+ + (U - 1) [R - o b]+ +
    R): gathers A and reductions R of each of U units overlap its passes f and b, s times a step

    Range: same as with reshard_after_forward = True
    Source: PyTorch fully_shard (reshard_after_forward=False; set_reshard_after_backward)
    """
    passes = num_microbatches * fsdp_units
    gather = weight_all_gather_time / fsdp_units
    reduced = gradient_reduce_scatter_time + replica_reduce_time / gradient_reductions
    scatter = reduced / fsdp_units
    forward = data_parallel_overlap * fsdp_forward_window / passes
    backward = data_parallel_overlap * fsdp_backward_window / passes
    inner = np.maximum(0.0, gather - forward) + np.maximum(0.0, scatter - backward)
    ends = np.minimum(fsdp_units, 1.0) * (gather + scatter)
    return gradient_reductions * (ends + np.maximum(0.0, fsdp_units - 1) * inner)


row(
    "unpaired_expert_time",
    0.0,
    "what hides traffic is in each pass",
    pipeline_schedule=("gpipe", "1f1b", "interleaved", "zb_h1", "zb_v"),
)


@alternative("unpaired_expert_time", pipeline_schedule="combined_1f1b")
def combined_unpaired_expert_time(
    expert_parallel_time,
    expert_overlap_share,
    layer_compute_time,
    exposed_tensor_parallel_time,
    exposed_context_parallel_time,
    expert_all_to_alls_per_layer,
    recompute_flops_factor,
    pipeline_parallel,
    num_microbatches,
    stage_chunks,
    microbatch_group_size,
):
    """Exposed expert-parallel traffic of passes that are not paired with another.

    (g hidden + (p - 1) max(0, backward - exposed - forward compute)) / (v m + p - 1): of v m + p -
    1 slots, g = (v - 1) N + p have a lone forward pass and g a lone backward pass; if a backward
    pass takes longer than a pair, p - 1 pairs wait for one

    Returns: [s] exposed traffic of one step, before the proportional part in bubble_time
    Range: what Megatron-Core supports: elsewhere the reason passes_do_not_overlap; an upper bound
        with fewer than 2 p - 1 micro-batches, by 2 % of a step at most, and with
        shared_expert_overlap, which Megatron-Core does not combine
    Source: Megatron-LM, megatron/core/pipeline_parallel/combined_1f1b.py, by playing it out
    """
    window = layer_compute_time + exposed_tensor_parallel_time + exposed_context_parallel_time
    exposed = np.maximum(0.0, expert_parallel_time - expert_overlap_share * window)
    backward = expert_parallel_time * (1 - 2 / expert_all_to_alls_per_layer)
    longer = np.maximum(0.0, backward - exposed - window / (3 * recompute_flops_factor))
    alone = (stage_chunks - 1) * microbatch_group_size + pipeline_parallel
    waits = alone * (expert_parallel_time - exposed) + (pipeline_parallel - 1) * longer
    return waits / (stage_chunks * num_microbatches + pipeline_parallel - 1)


@alternative("unpaired_expert_time", pipeline_schedule=("dualpipe", "dualpipev"))
def dual_unpaired_expert_time(
    expert_parallel_time,
    expert_overlap_share,
    layer_compute_time,
    exposed_tensor_parallel_time,
    exposed_context_parallel_time,
    expert_all_to_alls_per_layer,
    recompute_flops_factor,
    pipeline_parallel,
    num_microbatches,
    stage_chunks,
    bubble_ratio,
):
    """(e + (3 q A_f + (2 q + 1) A_b - (q + 2) e + c + (2 q - 2) max(0, A_b - e - F)) / (v m)) /
    (1 + bubble) - e, c = max(0, (q - 1) (B + A_b) - q (F + A_f)) - max(0, (q - 1) B - q F): traffic
    A_f and A_b of forward and backward passes, e of it exposed in pairs; forward passes F, input
    gradients B; q = v p / 2

    Range: same as dual_bubble_ratio; a lower bound, by 1 % of a step at most, if traffic takes at
        least as long as compute; an upper bound with shared_expert_overlap (lone passes hide some)
    Source: dualpipe/dualpipe.py and dualpipev.py of github.com/deepseek-ai/DualPipe (DeepSeek-AI
        2024, arXiv:2412.19437), by playing them out
    """
    window = layer_compute_time + exposed_tensor_parallel_time + exposed_context_parallel_time
    exposed = np.maximum(0.0, expert_parallel_time - expert_overlap_share * window)
    dispatch = 2 * expert_parallel_time / expert_all_to_alls_per_layer
    back = expert_parallel_time - dispatch
    stages = np.maximum(stage_chunks * pipeline_parallel / 2, 1.0)
    before = stages - 1
    forward = window / (3 * recompute_flops_factor)
    gradient = forward * (3 * recompute_flops_factor - 2)
    crossing = np.maximum(0.0, before * (gradient + back) - stages * (forward + dispatch))
    crossing = crossing - np.maximum(0.0, before * gradient - stages * forward)
    alone = 3 * stages * dispatch + (2 * stages + 1) * back - (stages + 2) * exposed
    longer = 2 * before * np.maximum(0.0, back - exposed - forward)
    waits = exposed + (alone + crossing + longer) / (stage_chunks * num_microbatches)
    return waits / (1 + bubble_ratio) - exposed


@alternative("straggler_time", context_balance="contiguous")
def unbalanced_straggler_time(
    compute_time,
    slowest_rank_slowdown,
    document_wait_time,
    attention_time,
    head_sharing_ranks,
    context_parallel,
    full_layer_span,
    sequence_length,
    attention_key_share,
):
    """compute time x slowdown of the slowest rank + g (1 - u / c) x attention, of which g grows
    with keys: the rank with the last tokens of a sequence attends to all keys, (2 - 1 / c) times as
    many as the mean rank on a ring; of documents, 2 keys / s as much more, and the wait for the
    rank with most

    Range: kernels that skip causally masked blocks; an upper bound with windows
    Source: Brandon et al. 2023 (striped attention), arXiv:2311.09431, section 2.3 (a ring under a
        causal mask waits for its last rank)
    """
    balanced = straggler_time(compute_time, slowest_rank_slowdown, document_wait_time)
    later = (1 - head_sharing_ranks / context_parallel) * attention_key_share * attention_time
    return balanced + later * (2 * full_layer_span / sequence_length)
