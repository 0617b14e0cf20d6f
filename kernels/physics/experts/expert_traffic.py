"""Expert-parallel traffic: dispatch of tokens to experts and combine."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.collectives import two_level_all_to_all_time
from ...laws.topology import distinct_groups, flat_bandwidth, flat_latency, group_ranks_per_node
from ...ops import where
from ..network.inputs import SWITCHED


@alternative("expert_message", linear_attention=False)
def expert_message(activation_message, residual_ranks, routed_visits_per_token, expert_bytes_share):
    """Bytes that one rank sends per all-to-all of a layer and micro-batch, mean of both directions.

    (s / c) b h k e, over t with sequence parallelism, less with quantised dispatch; k of the
    busiest rank

    Returns: [B] message
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    return activation_message / residual_ranks * routed_visits_per_token * expert_bytes_share


@alternative("expert_ranks_per_node", scale_up_domain=False)
@same_as(group_ranks_per_node)
def node_expert_ranks_per_node(gpus_per_node, expert_tensor_parallel, expert_parallel):
    """Ranks of one expert-parallel group on each node.

    clip(gpus per node / t_e, 1, e)

    Returns: [1] ranks on one node
    Source: Megatron-LM rank order, megatron/core/parallel_state.py (experts over
        tensor, context and data ranks)
    """


def expert_token_ranks(expert_tensor_parallel, residual_ranks, tensor_parallel):
    """GPUs of one expert that hold different tokens, each of which all of them multiply.

    t_e with sequence parallelism; 1 without, where tensor ranks hold the same tokens

    Returns: [1] GPUs
    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py (dispatch_postprocess)
    """
    return where(residual_ranks < tensor_parallel, 1.0, expert_tensor_parallel)


row(
    "expert_all_to_all_time",
    "switched_all_to_all_time",
    "that through switches",
    source="Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks",
    all_reduce=SWITCHED,
)


@alternative("switched_all_to_all_time", expert_dispatch="per_expert")
def per_expert_all_to_all_time(
    expert_message,
    expert_parallel,
    expert_ranks_per_node,
    intra_node_latency,
    inter_node_latency,
    intra_node_bandwidth,
    expert_rail_bandwidth,
):
    """Time of one all-to-all in an expert-parallel group.

    (n - 1) a + max(M (k - 1) / (n B_i), M (n - k) / (n B_e)): a copy per expert visited

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


@alternative("switched_all_to_all_time", expert_dispatch=("per_node", "all_gather"))
def per_node_all_to_all_time(
    expert_fabric_bytes,
    expert_node_bytes,
    expert_nodes,
    expert_ranks_per_node,
    expert_token_ranks,
    intra_node_latency,
    inter_node_latency,
    intra_node_bandwidth,
    expert_rail_bandwidth,
):
    """(N - 1) a_e + (g w - 1) a_i + max(bytes in nodes / B_i, bytes between them / B_e): a copy per
    node (visited, or every one) to the GPU of the same local rank, which forwards it there to the w
    GPUs of an expert; combine in reverse

    Range: messages of many pieces, forwarded while others arrive; a lower bound for few pieces; the
        GPUs of an expert in one node
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.2 (both networks fully overlapped)
    """
    hops = (expert_nodes - 1) * inter_node_latency
    hops = hops + (expert_ranks_per_node * expert_token_ranks - 1) * intra_node_latency
    inside = expert_node_bytes / intra_node_bandwidth
    return hops + np.maximum(inside, expert_fabric_bytes / expert_rail_bandwidth)


@alternative("expert_fabric_bytes", expert_dispatch="per_expert")
def per_expert_fabric_bytes(expert_message, expert_ranks_per_node, expert_parallel):
    """Bytes that one rank sends to experts on other nodes, per layer and micro-batch.

    M (1 - g / n)

    Returns: [B] bytes
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks
    """
    return expert_message * (1 - expert_ranks_per_node / expert_parallel)


@alternative("expert_fabric_bytes", expert_dispatch="per_node")
def per_node_fabric_bytes(
    expert_message, experts_per_token, node_visits_per_token, expert_ranks_per_node, expert_parallel
):
    """M / k x nodes visited x (1 - g / n)

    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.2
    """
    copies = node_visits_per_token / experts_per_token
    return expert_message * copies * (1 - expert_ranks_per_node / expert_parallel)


@alternative("expert_fabric_bytes", expert_dispatch="all_gather")
def gathered_fabric_bytes(expert_message, routed_visits_per_token, expert_nodes):
    """M / k (N - 1): tokens of GPUs with the same place on each node

    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py
        (MoEAllGatherTokenDispatcher)
    """
    return expert_message / routed_visits_per_token * (expert_nodes - 1)


@alternative("expert_node_bytes", expert_dispatch="per_expert")
def per_expert_node_bytes(expert_message, expert_ranks_per_node, expert_parallel):
    """Bytes that one rank sends inside its node for experts, per layer and micro-batch.

    M (g - 1) / n

    Returns: [B] bytes
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks
    """
    return expert_message * (expert_ranks_per_node - 1) / expert_parallel


@alternative("expert_node_bytes", expert_dispatch="per_node")
def per_node_node_bytes(
    expert_message,
    experts_per_token,
    rank_visits_per_token,
    expert_ranks_per_node,
    expert_token_ranks,
):
    """M / k x ranks visited x (w - 1 / g): to the w GPUs of each; includes forwarding what arrived
    from other nodes

    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.2 (forwarded in the node to the GPUs
        that hold the experts); Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py
        (MoEFlexTokenDispatcher: t_e k of t_e E experts)
    """
    copies = rank_visits_per_token / experts_per_token
    return expert_message * copies * (expert_token_ranks - 1 / expert_ranks_per_node)


@alternative("expert_node_bytes", expert_dispatch="all_gather")
def gathered_node_bytes(
    expert_message,
    routed_visits_per_token,
    expert_parallel,
    expert_ranks_per_node,
    expert_token_ranks,
):
    """M / k N (g w - 1) = M / k e (w - 1 / g): tokens of all nodes' GPUs of one place

    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py
        (MoEAllGatherTokenDispatcher)
    """
    tokens = expert_message / routed_visits_per_token * expert_parallel
    return tokens * (expert_token_ranks - 1 / expert_ranks_per_node)


def expert_nodes(expert_parallel, expert_ranks_per_node):
    """Nodes of one expert-parallel group.

    n / g

    Returns: [1] nodes
    Source: by definition
    """
    return expert_parallel / expert_ranks_per_node


def open_nodes(expert_nodes, routing_nodes):
    """Nodes whose experts one token may visit.

    min(N, limit)

    Returns: [1] nodes
    Source: DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2 (node-limited routing)
    """
    return np.minimum(expert_nodes, routing_nodes)


def node_visits_per_token(experts_per_token, experts, expert_nodes, routing_nodes):
    """Expected number of nodes that hold the experts of a token, its own node included.

    min(nodes of k of E experts on N nodes, limit): a limit keeps the nodes of the best experts

    Returns: [1] nodes
    Range: uniform routing; up to 4 % above the mean if the limit is near the unlimited number
    Source: DeepSeek-AI 2024, arXiv:2412.19437, sections 2.1.2 and 3.2.2
    """
    return np.minimum(distinct_groups(experts_per_token, experts, expert_nodes), routing_nodes)


def rank_visits_per_token(
    experts_per_token, experts, open_nodes, expert_nodes, expert_ranks_per_node
):
    """Expected number of ranks that hold the experts of a token, its own rank included.

    ranks of k of the E M / N experts on M nodes, with uniform routing

    Returns: [1] ranks
    Range: up to 2 % below the mean if a limit keeps the nodes of the best experts
    Source: DeepSeek-AI 2024, arXiv:2412.19437, sections 2.1.2 and 3.2.2
    """
    ranks = open_nodes * expert_ranks_per_node
    return distinct_groups(experts_per_token, experts * open_nodes / expert_nodes, ranks)


@alternative("expert_gather_time", expert_dispatch="per_expert")
def per_expert_gather_time(
    expert_message,
    expert_token_ranks,
    scale_up_gpus,
    intra_node_latency,
    inter_node_latency,
    intra_node_bandwidth,
    expert_rail_bandwidth,
):
    """Time to gather routed tokens over an expert's tensor-parallel group, or to reduce results.

    a ring: (w - 1) (a + M / B), each GPU with the M bytes it received, w GPUs that hold different
    tokens

    Returns: [s] time of one all-gather
    Source: Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py (gathered over the expert
        tensor-parallel group after the all-to-all); Patarasuk & Yuan 2009, JPDC 69(2)
    """
    ranks_per_node = group_ranks_per_node(scale_up_gpus, 1.0, expert_token_ranks)
    latency = flat_latency(
        expert_token_ranks, ranks_per_node, intra_node_latency, inter_node_latency
    )
    bandwidth = flat_bandwidth(
        expert_token_ranks, ranks_per_node, intra_node_bandwidth, expert_rail_bandwidth
    )
    return (expert_token_ranks - 1) * (latency + expert_message / bandwidth)


row(
    "expert_gather_time",
    0.0,
    "dispatch goes to all its GPUs",
    expert_dispatch=("per_node", "all_gather"),
)


def expert_all_to_alls_per_layer(expert_recompute_passes):
    """All-to-alls per expert layer and micro-batch: dispatch and combine, both passes and repeated.

    4 + 2 x forward passes repeated

    Returns: [1] all-to-alls
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    return 4 + 2 * expert_recompute_passes


@alternative("expert_parallel_time", mixture_of_experts=True, off=0.0)
def routed_expert_parallel_time(
    expert_all_to_alls_per_layer,
    expert_layers,
    pipeline_parallel,
    num_microbatches,
    expert_all_to_all_time,
):
    """Expert-parallel traffic time of one step on each stage.

    all-to-alls per layer x l_e / p x m x t

    Returns: [s] expert-parallel traffic of one step
    Source: Lepikhin et al. 2020 (GShard), arXiv:2006.16668, section 3.1
    """
    per_microbatch = expert_all_to_alls_per_layer * expert_layers / pipeline_parallel
    return per_microbatch * num_microbatches * expert_all_to_all_time
