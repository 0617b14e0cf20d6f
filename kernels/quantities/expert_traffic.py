"""Traffic of expert parallelism: tokens travel to the experts they visit, and back."""

from typing import Any

import numpy as np

from ..alternatives import alternative, same_as
from ..collectives import two_level_all_to_all_time
from ..ops import where
from ..stages import most_stage_parameters
from ..topology import flat_bandwidth, flat_latency, group_ranks_per_node


def expert_message(
    activation_message: Any, residual_ranks: Any, experts_per_token: Any, expert_bytes_share: Any
) -> Any:
    """Bytes that one rank sends to experts for one layer and micro-batch, the mean of both ways.

    (s / c) b h k e, shared over tensor ranks with sequence parallelism; less where dispatch is
    quantised

    Parameters: activation_message [B], residual_ranks [1], experts_per_token [1],
        expert_bytes_share [1]
    Returns: [B] message
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    return activation_message / residual_ranks * experts_per_token * expert_bytes_share


def expert_tensor_parallel(tensor_parallel: Any) -> Any:
    """GPUs that share each routed expert: as many as share a layer, unless stated.

    t

    Parameters: tensor_parallel [1]
    Returns: [1] GPUs
    Source: Megatron-LM, --expert-tensor-parallel-size (megatron/core/parallel_state.py)
    """
    return 1.0 * tensor_parallel


@alternative("expert_stride", rank_order="tp-cp-ep-dp-pp")
def outer_expert_stride(
    expert_tensor_parallel: Any, tensor_parallel: Any, context_parallel: Any
) -> Any:
    """GPUs between neighbours of an expert-parallel group.

    t c; t_e where the GPUs of an expert are not those of a layer: experts are then folded over
    tensor, context and data ranks

    Parameters: expert_tensor_parallel [1], tensor_parallel [1], context_parallel [1]
    Returns: [1] GPUs
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (experts over data ranks; the
        generator of experts' ranks)
    """
    apart = expert_tensor_parallel != tensor_parallel
    return where(apart, expert_tensor_parallel, tensor_parallel * context_parallel)


@alternative("expert_stride", rank_order="tp-cp-ep-pp-dp")
def inner_expert_stride(expert_tensor_parallel: Any) -> Any:
    """GPUs between neighbours of an expert-parallel group.

    t_e: experts are folded over tensor and context ranks

    Parameters: expert_tensor_parallel [1]
    Returns: [1] GPUs
    Source: Megatron-LM, megatron/core/parallel_state.py (the generator of experts' ranks)
    """
    return 1.0 * expert_tensor_parallel


@same_as(group_ranks_per_node)
def expert_ranks_per_node(*operands: Any) -> Any:
    """Ranks of one expert-parallel group on each node.

    clip(gpus per node / stride, 1, e)

    Parameters: gpus_per_node [1], expert_stride [1], expert_parallel [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (experts over data ranks)
    """


def expert_all_to_all_time(
    expert_message: Any,
    expert_parallel: Any,
    expert_ranks_per_node: Any,
    intra_node_latency: Any,
    inter_node_latency: Any,
    intra_node_bandwidth: Any,
    expert_rail_bandwidth: Any,
) -> Any:
    """Time of one all-to-all in an expert-parallel group.

    (n - 1) a + max(M (k - 1) / (n B_i), M (n - k) / (n B_e))

    Parameters: expert_message [B], expert_parallel [1], expert_ranks_per_node [1],
        intra_node_latency [s], inter_node_latency [s], intra_node_bandwidth [B/s],
        expert_rail_bandwidth [B/s]
    Returns: [s] time of one all-to-all
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks
    """
    return two_level_all_to_all_time(
        expert_message,
        expert_parallel,
        expert_ranks_per_node,
        flat_latency(
            expert_parallel, expert_ranks_per_node, intra_node_latency, inter_node_latency
        ),
        intra_node_bandwidth,
        expert_rail_bandwidth,
    )


def expert_gradient_ranks(
    gradient_ranks: Any, tensor_parallel: Any, expert_tensor_parallel: Any, expert_parallel: Any
) -> Any:
    """Ranks that hold the same routed experts and add up their gradients.

    max(1, d c t / (t_e e))

    Parameters: gradient_ranks [1], tensor_parallel [1], expert_tensor_parallel [1],
        expert_parallel [1]
    Returns: [1] ranks
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (experts over data ranks)
    """
    folded = tensor_parallel / expert_tensor_parallel
    return np.maximum(gradient_ranks * folded / expert_parallel, 1.0)


@alternative("expert_gradient_ranks_per_node", rank_order="tp-cp-ep-dp-pp")
def inner_expert_gradient_ranks_per_node(
    gpus_per_node: Any,
    tensor_parallel: Any,
    expert_tensor_parallel: Any,
    expert_parallel: Any,
    expert_gradient_ranks: Any,
    context_ranks_per_node: Any,
) -> Any:
    """Ranks on each node that hold the same routed experts.

    clip(gpus per node / (t_e e), 1, ranks), and no fewer than those that share a sequence, where
    t_e = t

    Parameters: gpus_per_node [1], tensor_parallel [1], expert_tensor_parallel [1],
        expert_parallel [1], expert_gradient_ranks [1], context_ranks_per_node [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (tensor, context, expert, data)
    """
    spread = group_ranks_per_node(
        gpus_per_node, expert_tensor_parallel * expert_parallel, expert_gradient_ranks
    )
    beside = where(expert_tensor_parallel == tensor_parallel, context_ranks_per_node, 1.0)
    return np.minimum(np.maximum(spread, beside), expert_gradient_ranks)


@alternative("expert_gradient_ranks_per_node", rank_order="tp-cp-ep-pp-dp")
def outer_expert_gradient_ranks_per_node(
    gpus_per_node: Any,
    expert_tensor_parallel: Any,
    expert_parallel: Any,
    pipeline_parallel: Any,
    expert_gradient_ranks: Any,
) -> Any:
    """Ranks on each node that hold the same routed experts.

    clip(gpus per node / (t_e e p), 1, ranks)

    Parameters: gpus_per_node [1], expert_tensor_parallel [1], expert_parallel [1],
        pipeline_parallel [1], expert_gradient_ranks [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM, megatron/core/parallel_state.py (the generator of experts' ranks)
    """
    stride = expert_tensor_parallel * expert_parallel * pipeline_parallel
    return group_ranks_per_node(gpus_per_node, stride, expert_gradient_ranks)


@same_as(flat_bandwidth)
def expert_gradient_bandwidth(*operands: Any) -> Any:
    """Bandwidth of one rank of a group that adds up the gradients of routed experts.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Parameters: expert_gradient_ranks [1], expert_gradient_ranks_per_node [1],
        intra_node_bandwidth [B/s], data_rail_bandwidth [B/s]
    Returns: [B/s] bandwidth per rank
    Source: NCCL 2.30, channels over several NICs
    """


@alternative("routed_reduction_share", mixture_of_experts=False)
def no_routed_reduction_share() -> Any:
    """Routed experts' parameters of one rank, by what adding up gradients moves: none.

    0

    Parameters: none
    Returns: [1] share of a stage's routed parameters
    Source: by definition
    """
    return 0.0


@alternative("routed_reduction_share", mixture_of_experts=True)
def ring_routed_reduction_share(
    expert_parallel: Any, expert_tensor_parallel: Any, tensor_parallel: Any, gradient_ranks: Any
) -> Any:
    """Share of routed experts' parameters by which adding up their gradients counts on one rank.

    (n - f) / (n - 1) / f, f = e t_e / t: a ring of n / f ranks beside a ring of all n = d c

    Parameters: expert_parallel [1], expert_tensor_parallel [1], tensor_parallel [1],
        gradient_ranks [1]
    Returns: [1] share of a stage's routed parameters
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1, for rings of n / e and of n ranks
    """
    several = gradient_ranks > 1
    folded = expert_parallel * (expert_tensor_parallel / tensor_parallel)
    others = np.maximum(gradient_ranks - folded, 0.0)
    share = where(several, others / where(several, gradient_ranks - 1, 1.0), 0.0)
    return share / folded


def mean_reduced_expert_parameters(
    routed_parameters: Any,
    expert_parallel: Any,
    expert_tensor_parallel: Any,
    tensor_parallel: Any,
    pipeline_parallel: Any,
    gradient_ranks: Any,
) -> Any:
    """Routed experts' parameters of a rank of the mean stage, by what their reduction moves.

    N_routed / (e t_e p) x (n - e t_e / t) / (n - 1): a ring of n t / (e t_e) ranks beside a ring of
    all n = d c

    Parameters: routed_parameters [1], expert_parallel [1], expert_tensor_parallel [1],
        tensor_parallel [1], pipeline_parallel [1], gradient_ranks [1]
    Returns: [1] parameters
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1, for rings of n / e and of n ranks
    """
    several = gradient_ranks > 1
    folded = expert_parallel * (expert_tensor_parallel / tensor_parallel)
    others = np.maximum(gradient_ranks - folded, 0.0)
    share = where(several, others / where(several, gradient_ranks - 1, 1.0), 0.0)
    own = routed_parameters / (expert_parallel * expert_tensor_parallel * pipeline_parallel)
    return own * share


@alternative("reduced_expert_parameters", stage_split="alike")
def even_reduced_expert_parameters(mean_reduced_expert_parameters: Any) -> Any:
    """Routed experts' parameters of one rank, counted by what adding up their gradients moves.

    those of the mean stage

    Parameters: mean_reduced_expert_parameters [1]
    Returns: [1] parameters
    Range: stages alike: right for one stage, a bound from below for several
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1, for rings of n / e and of n ranks
    """
    return 1.0 * mean_reduced_expert_parameters


@alternative("reduced_expert_parameters", stage_split="whole_layers")
def staged_reduced_expert_parameters(
    pipeline_parallel: Any,
    layers: Any,
    first_stage_layers: Any,
    middle_stage_layers: Any,
    last_stage_layers: Any,
    leading_dense_layers: Any,
    routed_layer_parameters: Any,
    routed_reduction_share: Any,
    tensor_parallel: Any,
) -> Any:
    """Routed experts' parameters of one rank, counted by what adding up their gradients moves.

    N_routed of the stage that holds most x share / t

    Parameters: pipeline_parallel [1], layers [1], first_stage_layers [1], middle_stage_layers [1],
        last_stage_layers [1], leading_dense_layers [1], routed_layer_parameters [1],
        routed_reduction_share [1], tensor_parallel [1]
    Returns: [1] parameters
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1, for rings of n / e and of n ranks
    """
    largest = most_stage_parameters(
        pipeline_parallel,
        layers,
        first_stage_layers,
        middle_stage_layers,
        last_stage_layers,
        leading_dense_layers,
        0.0,
        0.0,
        routed_layer_parameters * routed_reduction_share,
        0.0,
        0.0,
    )
    return largest / tensor_parallel


def expert_gather_time(
    expert_message: Any,
    expert_tensor_parallel: Any,
    gpus_per_node: Any,
    intra_node_latency: Any,
    inter_node_latency: Any,
    intra_node_bandwidth: Any,
    expert_rail_bandwidth: Any,
) -> Any:
    """Time to gather the tokens of routed experts over the GPUs that share them, or to add up.

    a ring: (t_e - 1) (a + M / B), each GPU with the M bytes that came to it

    Parameters: expert_message [B], expert_tensor_parallel [1], gpus_per_node [1],
        intra_node_latency [s], inter_node_latency [s], intra_node_bandwidth [B/s],
        expert_rail_bandwidth [B/s]
    Returns: [s] time of one all-gather
    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py (gathered over the expert
        tensor-parallel group after the all-to-all); Patarasuk & Yuan 2009, JPDC 69(2)
    """
    here = group_ranks_per_node(gpus_per_node, 1.0, expert_tensor_parallel)
    latency = flat_latency(expert_tensor_parallel, here, intra_node_latency, inter_node_latency)
    bandwidth = flat_bandwidth(
        expert_tensor_parallel, here, intra_node_bandwidth, expert_rail_bandwidth
    )
    return (expert_tensor_parallel - 1) * (latency + expert_message / bandwidth)


@alternative("expert_all_to_alls_per_layer", recompute=("none", "selective", "core_attention"))
def kept_expert_all_to_alls_per_layer() -> Any:
    """All-to-alls of each expert layer and micro-batch: there and back, forward and backward.

    4

    Parameters: none
    Returns: [1] all-to-alls
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    return 4.0


@alternative("expert_all_to_alls_per_layer", recompute="full")
def repeated_expert_all_to_alls_per_layer() -> Any:
    """All-to-alls of each expert layer and micro-batch: there and back, forward twice, backward.

    6

    Parameters: none
    Returns: [1] all-to-alls
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1, with forward repeated
    """
    return 6.0


@alternative("expert_parallel_time", mixture_of_experts=False)
def no_expert_parallel_time() -> Any:
    """Time of one step's expert-parallel traffic: a dense model has none.

    0

    Parameters: none
    Returns: [s] expert-parallel traffic of one step
    Source: by definition
    """
    return 0.0


@alternative("expert_parallel_time", mixture_of_experts=True)
def routed_expert_parallel_time(
    expert_all_to_alls_per_layer: Any,
    expert_layers: Any,
    pipeline_parallel: Any,
    num_microbatches: Any,
    expert_all_to_all_time: Any,
) -> Any:
    """Time of one step's expert-parallel traffic on each stage.

    all-to-alls per layer x l_e / p x m x t

    Parameters: expert_all_to_alls_per_layer [1], expert_layers [1], pipeline_parallel [1],
        num_microbatches [1], expert_all_to_all_time [s]
    Returns: [s] expert-parallel traffic of one step
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    per_microbatch = expert_all_to_alls_per_layer * expert_layers / pipeline_parallel
    return per_microbatch * num_microbatches * expert_all_to_all_time


@alternative("exposed_expert_parallel_time", mixture_of_experts=False)
def no_exposed_expert_parallel_time() -> Any:
    """Time that a step waits for expert-parallel traffic: a dense model has none.

    0

    Parameters: none
    Returns: [s] exposed traffic of one step
    Source: by definition
    """
    return 0.0


@alternative("exposed_expert_parallel_time", mixture_of_experts=True)
def routed_exposed_expert_parallel_time(
    expert_parallel_time: Any,
    expert_parallel_overlap: Any,
    compute_time: Any,
    exposed_tensor_parallel_time: Any,
    exposed_context_parallel_time: Any,
) -> Any:
    """Time that a step waits for expert-parallel traffic.

    max(0, traffic - overlap x (compute + waits for tensor- and context-parallel traffic))

    Parameters: expert_parallel_time [s], expert_parallel_overlap [1], compute_time [s],
        exposed_tensor_parallel_time [s], exposed_context_parallel_time [s]
    Returns: [s] exposed traffic of one step
    Range: on links of its own; what the same link carries at a time is in contention_time
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (overlap of dispatch and combine)
    """
    step = compute_time + exposed_tensor_parallel_time + exposed_context_parallel_time
    return np.maximum(0.0, expert_parallel_time - expert_parallel_overlap * step)
