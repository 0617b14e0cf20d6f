"""Bandwidth that a data-parallel group has: alone, or beside the groups of routed experts."""

from ..alternatives import alternative, same_as
from ..ops import where
from ..topology import flat_bandwidth


@alternative("data_parallel_bandwidth", mixture_of_experts=False)
@same_as(flat_bandwidth)
def dense_data_parallel_bandwidth(
    gradient_ranks, data_parallel_ranks_per_node, intra_node_bandwidth, data_rail_bandwidth
):
    """Bandwidth of one rank of a data-parallel group in a flat algorithm.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Returns: [B/s] bandwidth per rank
    Source: NCCL 2.30, channels over several NICs
    """


@alternative("data_parallel_bandwidth", mixture_of_experts=True)
def expert_data_parallel_bandwidth(
    gradient_ranks,
    data_parallel_ranks_per_node,
    intra_node_bandwidth,
    data_rail_bandwidth,
    reduced_parameters,
    reduced_expert_parameters,
    expert_gradient_bandwidth,
):
    """1 / ((1 - x) / B + x / B_e), x the share of routed experts, whose groups ride fewer rails

    Range: bytes of a ring; experts wait for no latency of their own
    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); NCCL 2.30, channels over several NICs
    """
    share = reduced_expert_parameters / reduced_parameters
    dense = flat_bandwidth(
        gradient_ranks, data_parallel_ranks_per_node, intra_node_bandwidth, data_rail_bandwidth
    )
    return 1 / ((1 - share) / dense + share / expert_gradient_bandwidth)


@alternative("gradient_node_bandwidth", mixture_of_experts=False)
def dense_gradient_node_bandwidth(intra_node_bandwidth):
    """Bandwidth of one rank of a data-parallel group inside its node, level by level.

    that of the node

    Returns: [B/s] bandwidth per rank
    Source: by definition
    """
    return 1.0 * intra_node_bandwidth


@alternative("gradient_node_bandwidth", mixture_of_experts=True)
def expert_gradient_node_bandwidth(
    intra_node_bandwidth, data_parallel_ranks_per_node, data_node_share
):
    """B (1 - 1 / g) / (bytes sent inside the node for each): experts send fewer of theirs there

    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    alone = 1 - 1 / data_parallel_ranks_per_node
    return intra_node_bandwidth * _ratio(alone, data_node_share)


@alternative("gradient_rail_bandwidth", mixture_of_experts=False)
def dense_gradient_rail_bandwidth(data_rail_bandwidth):
    """Bandwidth of one rank of a data-parallel group between nodes, level by level.

    that of the rail

    Returns: [B/s] bandwidth per rank
    Source: by definition
    """
    return 1.0 * data_rail_bandwidth


@alternative("gradient_rail_bandwidth", mixture_of_experts=True)
def expert_gradient_rail_bandwidth(
    data_rail_bandwidth, data_parallel_ranks_per_node, gradient_ranks, data_fabric_share
):
    """B (1 / g - 1 / n) / (bytes sent on the rail for each): experts send more of theirs there

    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    alone = 1 / data_parallel_ranks_per_node - 1 / gradient_ranks
    return data_rail_bandwidth * _ratio(alone, data_fabric_share)


def _ratio(alone, together):
    """Bytes sent by dense weights alone over those sent beside experts; 1 where none are."""
    sent = (alone > 0) & (together > 0)
    return where(sent, alone / where(sent, together, 1.0), 1.0)
