"""Reduce-scatters other than the flat ring of `collectives`; all-gathers take equally long.

Parameters:
    message_bytes [B]: full buffer of one rank
    ranks [1]: number of ranks
    latency [s]: fixed cost of one hop
    bandwidth [B/s]: rate of one rank in one direction
    nodes [1]: nodes k that hold the group
    ranks_per_node [1]: ranks g of the group on each node, each with its own rail
    intra_latency [s]: fixed cost of one hop inside a node
    intra_bandwidth [B/s]: rate of one rank inside a node
    inter_latency [s]: fixed cost of one hop between nodes
    inter_bandwidth [B/s]: rate of one rail between nodes
"""

from typing import Any

from ..ops import np, where
from .collectives import reduce_scatter_time


def logarithmic_reduce_scatter_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of a reduce-scatter by parallel trees or recursive halving; an all-gather takes as long.

    t = ceil(log2 n) a + (n - 1) / n M / B

    Returns: [s] time of the collective
    Source: Jeaugey 2025 (PAT), arXiv:2506.20252; Thakur et al. 2005, IJHPCA 19(1), section 4.2
    Example:
        >>> float(logarithmic_reduce_scatter_time(8e9, 8, 1.0, 1e9))
        10.0
    """
    wire = (ranks - 1) * (message_bytes / (ranks * bandwidth))
    return np.ceil(np.log2(ranks)) * latency + wire


def hierarchical_reduce_scatter_time(
    message_bytes,
    nodes,
    ranks_per_node,
    intra_latency,
    intra_bandwidth,
    inter_latency,
    inter_bandwidth,
) -> Any:
    """Time of a ring reduce-scatter in each node, then one between nodes per rail.

    t = (g - 1) (a_i + M / (g B_i)) + (k - 1) (a_e + M / (g k B_e)); an all-gather takes as long

    Returns: [s] time of the collective
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (half of the hierarchical all-reduce)
    Example:
        >>> hierarchical_reduce_scatter_time(8e9, 2, 8, 0.0, 1e9, 0.0, 1e9)
        7.5
    """
    share = message_bytes / ranks_per_node
    inside = reduce_scatter_time(message_bytes, ranks_per_node, intra_latency, intra_bandwidth)
    return inside + reduce_scatter_time(share, nodes, inter_latency, inter_bandwidth)


def hierarchical_logarithmic_reduce_scatter_time(
    message_bytes,
    nodes,
    ranks_per_node,
    intra_latency,
    intra_bandwidth,
    inter_latency,
    inter_bandwidth,
) -> Any:
    """Time of a logarithmic reduce-scatter, nearest ranks first; an all-gather takes as long.

    t = ceil(log2 g) a_i + (g - 1) / g M / B_i + ceil(log2 k) a_e + (k - 1) / k M / (g B_e)

    Returns: [s] time of the collective
    Source: Jeaugey 2025 (PAT), arXiv:2506.20252; Thakur et al. 2005, IJHPCA 19(1), section 4.2
    Example:
        >>> float(hierarchical_logarithmic_reduce_scatter_time(8e9, 2, 8, 1.0, 1e9, 0.0, 1e9))
        10.5
    """
    share = message_bytes / ranks_per_node
    inside = logarithmic_reduce_scatter_time(
        message_bytes, ranks_per_node, intra_latency, intra_bandwidth
    )
    return inside + logarithmic_reduce_scatter_time(share, nodes, inter_latency, inter_bandwidth)


def nvls_reduce_scatter_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of a reduce-scatter summed by one NVLink switch; an all-gather takes as long.

    t = a + M / B: each rank sends its whole buffer M to be summed, or receives the whole multicast;
    the switch saves hops, but no bytes in a link's busier direction

    Returns: [s] time of the collective
    Source: NCCL 2.30 src/transport/nvls.cc; Klenk et al. 2020, ISCA, section III
    Example:
        >>> float(nvls_reduce_scatter_time(8e9, 8, 1.0, 1e9))
        9.0
    """
    return where(ranks > 1, latency + message_bytes / bandwidth, 0.0)


def auto_reduce_scatter_time(
    message_bytes, ranks, ranks_per_node, bandwidth, intra_latency, inter_latency
) -> Any:
    """Time of the cheapest reduce-scatter that NCCL would take; an all-gather takes as long.

    t = (k - 1) a_e + (n - k) a_i + (n - 1) / n M / B, a ring through k nodes; where each node holds
    one rank at most ceil(log2 n) a_e + (n - 1) / n M / B

    Parameters: bandwidth [B/s]: rate of one rank in a flat ring
    Returns: [s] time of the collective
    Range: one rank per node: a lower bound for NCCL 2.30, which counts 2.8 us more per rank;
        fabrics whose switches sum: an upper bound, CollNet may save hops, not bytes
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time, and among logarithmic
        algorithms (PAT) only for one rank on a node; Jeaugey 2025 (PAT), arXiv:2506.20252
    Example:
        >>> float(auto_reduce_scatter_time(8e9, 4, 1, 1e9, 0.0, 1.0))
        8.0
        >>> float(auto_reduce_scatter_time(8e9, 4, 2, 1e9, 0.5, 1.0))
        8.0
    """
    nodes = ranks / ranks_per_node
    hops = (nodes - 1) * inter_latency + (ranks - nodes) * intra_latency
    steps = np.ceil(np.log2(ranks)) * inter_latency
    wire = (ranks - 1) * (message_bytes / (ranks * bandwidth))
    # equal without latency: minimum's slope is its first argument's, which latency affects less
    return where(ranks_per_node > 1, hops, np.minimum(steps, hops)) + wire
