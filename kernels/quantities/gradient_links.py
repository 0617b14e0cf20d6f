"""Bandwidth that a data-parallel group has: alone, or beside the groups of routed experts."""

from typing import Any

from ..alternatives import alternative, same_as
from ..ops import where
from ..topology import flat_bandwidth


@alternative("data_parallel_bandwidth", mixture_of_experts=False)
@same_as(flat_bandwidth)
def dense_data_parallel_bandwidth(*operands: Any) -> Any:
    """Bandwidth of one rank of a data-parallel group in a flat algorithm.

    intra-node in one node, else min(intra-node, ranks on the node x rail)

    Parameters: gradient_ranks [1], data_parallel_ranks_per_node [1], intra_node_bandwidth [B/s],
        data_rail_bandwidth [B/s]
    Returns: [B/s] bandwidth per rank
    Source: NCCL 2.30, channels over several NICs
    """


@alternative("data_parallel_bandwidth", mixture_of_experts=True)
def expert_data_parallel_bandwidth(
    gradient_ranks: Any,
    data_parallel_ranks_per_node: Any,
    intra_node_bandwidth: Any,
    data_rail_bandwidth: Any,
    reduced_parameters: Any,
    reduced_expert_parameters: Any,
    expert_gradient_bandwidth: Any,
) -> Any:
    """Bandwidth of one rank of a data-parallel group in a flat algorithm.

    1 / ((1 - x) / B + x / B_e), x the share of routed experts, whose groups ride fewer rails

    Parameters: gradient_ranks [1], data_parallel_ranks_per_node [1], intra_node_bandwidth [B/s],
        data_rail_bandwidth [B/s], reduced_parameters [1], reduced_expert_parameters [1],
        expert_gradient_bandwidth [B/s]
    Returns: [B/s] bandwidth per rank
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
def dense_gradient_node_bandwidth(intra_node_bandwidth: Any) -> Any:
    """Bandwidth of one rank of a data-parallel group inside its node, level by level.

    that of the node

    Parameters: intra_node_bandwidth [B/s]
    Returns: [B/s] bandwidth per rank
    Source: by definition
    """
    return 1.0 * intra_node_bandwidth


@alternative("gradient_node_bandwidth", mixture_of_experts=True)
def expert_gradient_node_bandwidth(
    intra_node_bandwidth: Any, data_parallel_ranks_per_node: Any, data_node_share: Any
) -> Any:
    """Bandwidth of one rank of a data-parallel group inside its node, level by level.

    B (1 - 1 / g) / (bytes sent inside the node for each): experts send fewer of theirs there

    Parameters: intra_node_bandwidth [B/s], data_parallel_ranks_per_node [1], data_node_share [1]
    Returns: [B/s] bandwidth per rank
    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    alone = 1 - 1 / data_parallel_ranks_per_node
    return intra_node_bandwidth * _ratio(alone, data_node_share)


@alternative("gradient_rail_bandwidth", mixture_of_experts=False)
def dense_gradient_rail_bandwidth(data_rail_bandwidth: Any) -> Any:
    """Bandwidth of one rank of a data-parallel group between nodes, level by level.

    that of the rail

    Parameters: data_rail_bandwidth [B/s]
    Returns: [B/s] bandwidth per rank
    Source: by definition
    """
    return 1.0 * data_rail_bandwidth


@alternative("gradient_rail_bandwidth", mixture_of_experts=True)
def expert_gradient_rail_bandwidth(
    data_rail_bandwidth: Any,
    data_parallel_ranks_per_node: Any,
    gradient_ranks: Any,
    data_fabric_share: Any,
) -> Any:
    """Bandwidth of one rank of a data-parallel group between nodes, level by level.

    B (1 / g - 1 / n) / (bytes sent on the rail for each): experts send more of theirs there

    Parameters: data_rail_bandwidth [B/s], data_parallel_ranks_per_node [1], gradient_ranks [1],
        data_fabric_share [1]
    Returns: [B/s] bandwidth per rank
    Source: Rajbhandari et al. 2022 (DeepSpeed-MoE), arXiv:2201.05596, section 5.1 (groups of their
        own); Jia et al. 2018, arXiv:1807.11205, section 4.3
    """
    alone = 1 / data_parallel_ranks_per_node - 1 / gradient_ranks
    return data_rail_bandwidth * _ratio(alone, data_fabric_share)


def _ratio(alone: Any, together: Any) -> Any:
    """Bytes sent by dense weights alone over those sent beside experts; 1 where none are."""
    sent = (alone > 0) & (together > 0)
    return where(sent, alone / where(sent, together, 1.0), 1.0)
