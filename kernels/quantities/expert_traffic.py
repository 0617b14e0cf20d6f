"""Traffic of expert parallelism: tokens travel to the experts they visit, and back."""

from typing import Any

import numpy as np

from ..alternatives import alternative, same_as
from ..collectives import two_level_all_to_all_time
from ..inputs import SWITCHED
from ..ops import where
from ..stages import most_stage_parameters
from ..topology import distinct_groups, flat_bandwidth, flat_latency, group_ranks_per_node


@alternative("expert_message", linear_attention="none")
def expert_message(
    activation_message: Any,
    residual_ranks: Any,
    routed_visits_per_token: Any,
    expert_bytes_share: Any,
) -> Any:
    """Bytes that one rank sends to experts for one layer and micro-batch, the mean of both ways.

    (s / c) b h k e, shared over tensor ranks with sequence parallelism; less where dispatch is
    quantised; k those of the busiest rank

    Parameters: activation_message [B], residual_ranks [1], routed_visits_per_token [1],
        expert_bytes_share [1]
    Returns: [B] message
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    return activation_message / residual_ranks * routed_visits_per_token * expert_bytes_share


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


@alternative("expert_ranks_per_node", scale_up_domain=False)
@same_as(group_ranks_per_node)
def node_expert_ranks_per_node(*operands: Any) -> Any:
    """Ranks of one expert-parallel group on each node.

    clip(gpus per node / stride, 1, e)

    Parameters: gpus_per_node [1], expert_stride [1], expert_parallel [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (experts over data ranks)
    """


@alternative("expert_all_to_all_time", all_reduce=SWITCHED)
def switched_expert_all_to_all_time(switched_all_to_all_time: Any) -> Any:
    """Time of one all-to-all in an expert-parallel group.

    that through switches

    Parameters: switched_all_to_all_time [s]
    Returns: [s] time of one all-to-all
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks
    """
    return 1.0 * switched_all_to_all_time


@alternative("switched_all_to_all_time", expert_dispatch="per_expert")
def per_expert_all_to_all_time(
    expert_message: Any,
    expert_parallel: Any,
    expert_ranks_per_node: Any,
    intra_node_latency: Any,
    inter_node_latency: Any,
    intra_node_bandwidth: Any,
    expert_rail_bandwidth: Any,
) -> Any:
    """Time of one all-to-all in an expert-parallel group.

    (n - 1) a + max(M (k - 1) / (n B_i), M (n - k) / (n B_e)): a copy for each expert visited

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


@alternative("switched_all_to_all_time", expert_dispatch="per_node")
def per_node_all_to_all_time(
    expert_fabric_bytes: Any,
    expert_node_bytes: Any,
    expert_nodes: Any,
    expert_ranks_per_node: Any,
    intra_node_latency: Any,
    inter_node_latency: Any,
    intra_node_bandwidth: Any,
    expert_rail_bandwidth: Any,
) -> Any:
    """Time of one all-to-all in an expert-parallel group.

    (N - 1) a_e + (g - 1) a_i + max(bytes in nodes / B_i, bytes between them / B_e): a copy for each
    node visited, to the GPU of the same place there, which spreads it; the other way round for what
    comes back

    Parameters: expert_fabric_bytes [B], expert_node_bytes [B], expert_nodes [1],
        expert_ranks_per_node [1], intra_node_latency [s], inter_node_latency [s],
        intra_node_bandwidth [B/s], expert_rail_bandwidth [B/s]
    Returns: [s] time of one all-to-all
    Range: messages of many pieces, which are spread as others arrive; a bound from below for few
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.2 (both networks fully overlapped)
    """
    hops = (expert_nodes - 1) * inter_node_latency
    hops = hops + (expert_ranks_per_node - 1) * intra_node_latency
    inside = expert_node_bytes / intra_node_bandwidth
    return hops + np.maximum(inside, expert_fabric_bytes / expert_rail_bandwidth)


@alternative("expert_fabric_bytes", expert_dispatch="per_expert")
def per_expert_fabric_bytes(
    expert_message: Any, expert_ranks_per_node: Any, expert_parallel: Any
) -> Any:
    """Bytes that one rank sends to experts on other nodes, for one layer and micro-batch.

    M (1 - g / n)

    Parameters: expert_message [B], expert_ranks_per_node [1], expert_parallel [1]
    Returns: [B] bytes
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks
    """
    return expert_message * (1 - expert_ranks_per_node / expert_parallel)


@alternative("expert_fabric_bytes", expert_dispatch="per_node")
def per_node_fabric_bytes(
    expert_message: Any,
    experts_per_token: Any,
    node_visits_per_token: Any,
    expert_ranks_per_node: Any,
    expert_parallel: Any,
) -> Any:
    """Bytes that one rank sends to experts on other nodes, for one layer and micro-batch.

    M / k x nodes visited x (1 - g / n)

    Parameters: expert_message [B], experts_per_token [1], node_visits_per_token [1],
        expert_ranks_per_node [1], expert_parallel [1]
    Returns: [B] bytes
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.2
    """
    copies = node_visits_per_token / experts_per_token
    return expert_message * copies * (1 - expert_ranks_per_node / expert_parallel)


@alternative("expert_node_bytes", expert_dispatch="per_expert")
def per_expert_node_bytes(
    expert_message: Any, expert_ranks_per_node: Any, expert_parallel: Any
) -> Any:
    """Bytes that one rank sends inside its node for experts, for one layer and micro-batch.

    M (g - 1) / n

    Parameters: expert_message [B], expert_ranks_per_node [1], expert_parallel [1]
    Returns: [B] bytes
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks
    """
    return expert_message * (expert_ranks_per_node - 1) / expert_parallel


@alternative("expert_node_bytes", expert_dispatch="per_node")
def per_node_node_bytes(
    expert_message: Any,
    experts_per_token: Any,
    rank_visits_per_token: Any,
    expert_ranks_per_node: Any,
) -> Any:
    """Bytes that one rank sends inside its node for experts, for one layer and micro-batch.

    M / k x ranks visited x (1 - 1 / g): what has come from other nodes is spread, too

    Parameters: expert_message [B], experts_per_token [1], rank_visits_per_token [1],
        expert_ranks_per_node [1]
    Returns: [B] bytes
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.2 (forwarded in the node to the GPUs
        that hold the experts)
    """
    copies = rank_visits_per_token / experts_per_token
    return expert_message * copies * (1 - 1 / expert_ranks_per_node)


def expert_nodes(expert_parallel: Any, expert_ranks_per_node: Any) -> Any:
    """Nodes that one expert-parallel group lies on.

    n / g

    Parameters: expert_parallel [1], expert_ranks_per_node [1]
    Returns: [1] nodes
    Source: by definition
    """
    return expert_parallel / expert_ranks_per_node


def open_nodes(expert_nodes: Any, routing_nodes: Any) -> Any:
    """Nodes whose experts one token can visit: no more than it may, nor than there are.

    min(N, limit)

    Parameters: expert_nodes [1], routing_nodes [1]
    Returns: [1] nodes
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2 (node-limited routing)
    """
    return np.minimum(expert_nodes, routing_nodes)


def node_visits_per_token(
    experts_per_token: Any, experts: Any, expert_nodes: Any, routing_nodes: Any
) -> Any:
    """Nodes among which the experts of a token are spread, expected, its own counted.

    min(those that k of E experts on N nodes are found on, limit): a limit keeps the nodes of the
    best experts

    Parameters: experts_per_token [1], experts [1], expert_nodes [1], routing_nodes [1]
    Returns: [1] nodes
    Range: experts chosen evenly; up to 4 % above the mean where the limit is near what would be
        visited without it
    Source: DeepSeek-AI 2024, arXiv:2412.19437, sections 2.1.2 and 3.2.2
    """
    return np.minimum(distinct_groups(experts_per_token, experts, expert_nodes), routing_nodes)


def rank_visits_per_token(
    experts_per_token: Any,
    experts: Any,
    open_nodes: Any,
    expert_nodes: Any,
    expert_ranks_per_node: Any,
) -> Any:
    """Ranks among which the experts of a token are spread, expected, its own counted.

    those that k of the E M / N experts on M nodes are found on, chosen evenly

    Parameters: experts_per_token [1], experts [1], open_nodes [1], expert_nodes [1],
        expert_ranks_per_node [1]
    Returns: [1] ranks
    Range: up to 2 % below the mean where a limit keeps the nodes of the best experts
    Source: DeepSeek-AI 2024, arXiv:2412.19437, sections 2.1.2 and 3.2.2
    """
    ranks = open_nodes * expert_ranks_per_node
    return distinct_groups(experts_per_token, experts * open_nodes / expert_nodes, ranks)


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


@alternative("expert_gradient_stride", rank_order="tp-cp-ep-dp-pp")
def inner_expert_gradient_stride(expert_tensor_parallel: Any, expert_parallel: Any) -> Any:
    """GPUs between ranks that hold the same routed experts.

    t_e e

    Parameters: expert_tensor_parallel [1], expert_parallel [1]
    Returns: [1] GPUs
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (tensor, context, expert, data)
    """
    return expert_tensor_parallel * expert_parallel


@alternative("expert_gradient_stride", rank_order="tp-cp-ep-pp-dp")
def outer_expert_gradient_stride(
    expert_tensor_parallel: Any, expert_parallel: Any, pipeline_parallel: Any
) -> Any:
    """GPUs between ranks that hold the same routed experts.

    t_e e p

    Parameters: expert_tensor_parallel [1], expert_parallel [1], pipeline_parallel [1]
    Returns: [1] GPUs
    Source: Megatron-LM, megatron/core/parallel_state.py (the generator of experts' ranks)
    """
    return expert_tensor_parallel * expert_parallel * pipeline_parallel


@alternative("expert_context_ranks_per_node", rank_order="tp-cp-ep-dp-pp")
def outer_expert_context_ranks_per_node(
    expert_tensor_parallel: Any, tensor_parallel: Any, context_ranks_per_node: Any
) -> Any:
    """Ranks on each node that share a sequence, and hold the same routed experts.

    those of a sequence; 1 where experts are folded over them

    Parameters: expert_tensor_parallel [1], tensor_parallel [1], context_ranks_per_node [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (tensor, context, expert, data)
    """
    return where(expert_tensor_parallel == tensor_parallel, context_ranks_per_node, 1.0)


@alternative("expert_context_ranks_per_node", rank_order="tp-cp-ep-pp-dp")
def inner_expert_context_ranks_per_node() -> Any:
    """Ranks on each node that share a sequence, and hold the same routed experts.

    1: experts are folded over them

    Parameters: none
    Returns: [1] ranks on one node
    Source: Megatron-LM, megatron/core/parallel_state.py (the generator of experts' ranks)
    """
    return 1.0


@alternative("expert_gradient_ranks_per_node", scale_up_domain=False)
def node_expert_gradient_ranks_per_node(
    gpus_per_node: Any,
    expert_gradient_stride: Any,
    expert_gradient_ranks: Any,
    expert_context_ranks_per_node: Any,
) -> Any:
    """Ranks on each node that hold the same routed experts.

    clip(gpus per node / stride, 1, ranks), and no fewer than those that share a sequence

    Parameters: gpus_per_node [1], expert_gradient_stride [1], expert_gradient_ranks [1],
        expert_context_ranks_per_node [1]
    Returns: [1] ranks on one node
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (tensor, context, expert, data)
    """
    spread = group_ranks_per_node(gpus_per_node, expert_gradient_stride, expert_gradient_ranks)
    return np.minimum(np.maximum(spread, expert_context_ranks_per_node), expert_gradient_ranks)


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
    parameter_copies: Any,
) -> Any:
    """Routed experts' parameters of a rank of the mean stage, by what their reduction moves.

    N_routed / (e t_e p) x (n - e t_e / t) / (n - 1): a ring of n t / (e t_e) ranks beside a ring of
    all n = d c; of both stages in dualpipe

    Parameters: routed_parameters [1], expert_parallel [1], expert_tensor_parallel [1],
        tensor_parallel [1], pipeline_parallel [1], gradient_ranks [1], parameter_copies [1]
    Returns: [1] parameters
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1, for rings of n / e and of n ranks
    """
    several = gradient_ranks > 1
    folded = expert_parallel * (expert_tensor_parallel / tensor_parallel)
    others = np.maximum(gradient_ranks - folded, 0.0)
    share = where(several, others / where(several, gradient_ranks - 1, 1.0), 0.0)
    own = routed_parameters / (expert_parallel * expert_tensor_parallel * pipeline_parallel)
    return parameter_copies * own * share


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
    held_layers: Any,
    first_stage_held_layers: Any,
    middle_stage_layers: Any,
    last_stage_held_layers: Any,
    leading_dense_layers: Any,
    routed_layer_parameters: Any,
    routed_reduction_share: Any,
    tensor_parallel: Any,
    parameter_copies: Any,
) -> Any:
    """Routed experts' parameters of one rank, counted by what adding up their gradients moves.

    N_routed of the stage that holds most x share / t

    Parameters: pipeline_parallel [1], held_layers [1], first_stage_held_layers [1],
        middle_stage_layers [1], last_stage_held_layers [1], leading_dense_layers [1],
        routed_layer_parameters [1],
        routed_reduction_share [1], tensor_parallel [1], parameter_copies [1]
    Returns: [1] parameters
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1, for rings of n / e and of n ranks
    """
    largest = most_stage_parameters(
        pipeline_parallel,
        held_layers,
        first_stage_held_layers,
        middle_stage_layers,
        last_stage_held_layers,
        leading_dense_layers / parameter_copies,  # in dualpipe the other way ends there
        0.0,
        0.0,
        routed_layer_parameters * routed_reduction_share,
        0.0,
        0.0,
        0.0,
        0.0,
    )
    return parameter_copies * largest / tensor_parallel


def expert_gather_time(
    expert_message: Any,
    expert_tensor_parallel: Any,
    scale_up_gpus: Any,
    intra_node_latency: Any,
    inter_node_latency: Any,
    intra_node_bandwidth: Any,
    expert_rail_bandwidth: Any,
) -> Any:
    """Time to gather the tokens of routed experts over the GPUs that share them, or to add up.

    a ring: (t_e - 1) (a + M / B), each GPU with the M bytes that came to it

    Parameters: expert_message [B], expert_tensor_parallel [1], scale_up_gpus [1],
        intra_node_latency [s], inter_node_latency [s], intra_node_bandwidth [B/s],
        expert_rail_bandwidth [B/s]
    Returns: [s] time of one all-gather
    Range: with expert_dispatch = per_node a bound from above: as if each expert that a token visits
        got a copy of its own
    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py (gathered over the expert
        tensor-parallel group after the all-to-all); Patarasuk & Yuan 2009, JPDC 69(2)
    """
    here = group_ranks_per_node(scale_up_gpus, 1.0, expert_tensor_parallel)
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
    expert_overlap_share: Any,
    compute_time: Any,
    exposed_tensor_parallel_time: Any,
    exposed_context_parallel_time: Any,
    unpaired_expert_time: Any,
) -> Any:
    """Time that a step waits for expert-parallel traffic.

    max(0, traffic - overlap x (compute + waits for tensor- and context-parallel traffic)), and
    that of passes beside which no other runs where passes overlap

    Parameters: expert_parallel_time [s], expert_overlap_share [1], compute_time [s],
        exposed_tensor_parallel_time [s], exposed_context_parallel_time [s],
        unpaired_expert_time [s]
    Returns: [s] exposed traffic of one step
    Range: on links of its own; what the same link carries at a time is in contention_time
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.1 (overlap of dispatch and combine)
    """
    step = compute_time + exposed_tensor_parallel_time + exposed_context_parallel_time
    late = np.maximum(0.0, expert_parallel_time - expert_overlap_share * step)
    return late + unpaired_expert_time


@alternative("expert_overlap_share", shared_expert_overlap=False)
def plain_expert_overlap_share(expert_parallel_overlap: Any) -> Any:
    """Share of compute that hides expert-parallel traffic.

    expert_parallel_overlap

    Parameters: expert_parallel_overlap [1]
    Returns: [1] share of compute
    Source: stated by the scenario
    """
    return 1.0 * expert_parallel_overlap


@alternative("expert_overlap_share", shared_expert_overlap=True)
def shared_expert_overlap_share(
    expert_parallel_overlap: Any, shared_expert_flops_share: Any
) -> Any:
    """Share of compute that hides expert-parallel traffic.

    max(expert_parallel_overlap, share of the shared experts): they need nothing that travels

    Parameters: expert_parallel_overlap [1], shared_expert_flops_share [1]
    Returns: [1] share of compute
    Source: Megatron-LM, --moe-shared-expert-overlap,
        megatron/core/transformer/moe/shared_experts.py
    """
    return np.maximum(expert_parallel_overlap, shared_expert_flops_share)
