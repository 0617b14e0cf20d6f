"""Times of collective operations under the alpha-beta model.

`message_bytes` is the buffer of one rank, `bandwidth` is per rank and direction, `latency` is one
hop. One rank costs nothing. Every function works on scalars and arrays.
"""

from typing import Any

import numpy as np

from .ops import where


def point_to_point_time(message_bytes: Any, latency: Any, bandwidth: Any) -> Any:
    """Time to send one message to one peer.

    t = a + M / B

    Parameters:
        message_bytes [B]: size of the message
        latency [s]: fixed cost of one message
        bandwidth [B/s]: rate of one direction of the link
    Returns: [s] time until the message has arrived
    Source: Hockney 1994, Parallel Computing 20(3), eq. 1
    Example:
        >>> round(point_to_point_time(1e9, 5e-6, 50e9) * 1e3, 3)
        20.005
    """
    return latency + message_bytes / bandwidth


def reduce_scatter_time(message_bytes: Any, ranks: Any, latency: Any, bandwidth: Any) -> Any:
    """Time of a ring reduce-scatter, equal to that of an all-gather.

    t = (n - 1) (a + M / (n B))

    Parameters:
        message_bytes [B]: full buffer of one rank
        ranks [1]: number of ranks
        latency [s]: fixed cost of one hop
        bandwidth [B/s]: rate of one rank in one direction
    Returns: [s] time of the collective
    Source: Patarasuk & Yuan 2009, JPDC 69(2), section 3; Thakur et al. 2005, section 4.1
    Example:
        >>> reduce_scatter_time(8e9, 8, 0.0, 1e9)
        7.0
    """
    return (ranks - 1) * (latency + message_bytes / (ranks * bandwidth))


def all_gather_time(message_bytes: Any, ranks: Any, latency: Any, bandwidth: Any) -> Any:
    """Time of a ring all-gather into a buffer of `message_bytes`.

    t = (n - 1) (a + M / (n B))

    Parameters:
        message_bytes [B]: full buffer of one rank, after the gather
        ranks [1]: number of ranks
        latency [s]: fixed cost of one hop
        bandwidth [B/s]: rate of one rank in one direction
    Returns: [s] time of the collective
    Source: Patarasuk & Yuan 2009, JPDC 69(2), section 3; Thakur et al. 2005, section 4.1
    Example:
        >>> all_gather_time(8e9, 8, 0.0, 1e9)
        7.0
    """
    return reduce_scatter_time(message_bytes, ranks, latency, bandwidth)


def ring_all_reduce_time(message_bytes: Any, ranks: Any, latency: Any, bandwidth: Any) -> Any:
    """Time of a ring all-reduce: a reduce-scatter, then an all-gather.

    t = 2 (n - 1) (a + M / (n B))

    Parameters:
        message_bytes [B]: buffer of one rank
        ranks [1]: number of ranks
        latency [s]: fixed cost of one hop
        bandwidth [B/s]: rate of one rank in one direction
    Returns: [s] time of the collective
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1; Fleet Foundations table 11
    Example:
        >>> round(ring_all_reduce_time(14e9, 256, 5e-6, 50e9) * 1e3, 1)
        560.4
    """
    return 2 * reduce_scatter_time(message_bytes, ranks, latency, bandwidth)


def tree_all_reduce_time(message_bytes: Any, ranks: Any, latency: Any, bandwidth: Any) -> Any:
    """Time of an all-reduce up and down one binary tree, not pipelined.

    t = 2 ceil(log2 n) (a + M / B)

    Parameters:
        message_bytes [B]: buffer of one rank
        ranks [1]: number of ranks
        latency [s]: fixed cost of one hop
        bandwidth [B/s]: rate of one rank in one direction
    Returns: [s] time of the collective
    Source: Thakur et al. 2005, IJHPCA 19(1), section 4.5 (reduce, then broadcast, on a tree)
    Example:
        >>> float(tree_all_reduce_time(1e9, 8, 0.0, 1e9))
        6.0
    """
    return 2 * np.ceil(np.log2(ranks)) * (latency + message_bytes / bandwidth)


def double_binary_tree_all_reduce_time(
    message_bytes: Any, ranks: Any, latency: Any, bandwidth: Any
) -> Any:
    """Time of an all-reduce on two complementary trees, each with half the message, pipelined.

    t = 2 ceil(log2 n) a + 2 M / B;  2 a + M / B between two ranks

    Parameters:
        message_bytes [B]: buffer of one rank
        ranks [1]: number of ranks
        latency [s]: fixed cost of one hop
        bandwidth [B/s]: rate of one rank in one direction
    Returns: [s] time of the collective
    Source: Sanders, Speck & Traeff 2009, Parallel Computing 35(12), section 4
    Example:
        >>> float(double_binary_tree_all_reduce_time(1e9, 2, 0.0, 1e9))
        1.0
        >>> float(double_binary_tree_all_reduce_time(1e9, 8, 0.0, 1e9))
        2.0
    """
    depth = np.ceil(np.log2(ranks))
    passes = where(ranks > 2, 2.0, where(ranks > 1, 1.0, 0.0))
    return 2 * depth * latency + passes * message_bytes / bandwidth


def hierarchical_all_reduce_time(
    message_bytes: Any,
    nodes: Any,
    ranks_per_node: Any,
    intra_latency: Any,
    intra_bandwidth: Any,
    inter_latency: Any,
    inter_bandwidth: Any,
) -> Any:
    """Time of a reduce-scatter in each node, a ring between nodes per rail, an all-gather in each.

    t = 2 (g - 1) (a_i + M / (g B_i)) + 2 (k - 1) (a_e + M / (g k B_e))

    Parameters:
        message_bytes [B]: buffer of one rank
        nodes [1]: nodes k that hold the group
        ranks_per_node [1]: ranks g of the group on each node, each with a rail of its own
        intra_latency [s]: fixed cost of one hop inside a node
        intra_bandwidth [B/s]: rate of one rank inside a node
        inter_latency [s]: fixed cost of one hop between nodes
        inter_bandwidth [B/s]: rate of one rail between nodes
    Returns: [s] time of the collective
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3 (hierarchical all-reduce)
    Example:
        >>> hierarchical_all_reduce_time(8e9, 1, 8, 0.0, 1e9, 0.0, 1e9)
        14.0
        >>> hierarchical_all_reduce_time(8e9, 2, 8, 0.0, 1e9, 0.0, 1e9)
        15.0
    """
    inside = ring_all_reduce_time(message_bytes, ranks_per_node, intra_latency, intra_bandwidth)
    between = ring_all_reduce_time(
        message_bytes / ranks_per_node, nodes, inter_latency, inter_bandwidth
    )
    return inside + between


def auto_all_reduce_time(
    message_bytes: Any,
    ranks: Any,
    latency: Any,
    bandwidth: Any,
    ranks_per_node: Any,
    intra_latency: Any,
    intra_bandwidth: Any,
    inter_latency: Any,
    inter_bandwidth: Any,
) -> Any:
    """Time of the cheapest all-reduce that a library would offer.

    t = min(ring, double binary tree, hierarchical)

    Inside one node the hierarchical form is the ring, so it needs no case of its own.

    Parameters:
        message_bytes [B]: buffer of one rank
        ranks [1]: number of ranks
        latency [s]: fixed cost of one hop of a flat algorithm
        bandwidth [B/s]: rate of one rank in a flat algorithm
        ranks_per_node [1]: ranks of the group on each node
        intra_latency [s]: fixed cost of one hop inside a node
        intra_bandwidth [B/s]: rate of one rank inside a node
        inter_latency [s]: fixed cost of one hop between nodes
        inter_bandwidth [B/s]: rate of one rail between nodes
    Returns: [s] time of the collective
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time; the three formulas above
    """
    flat = np.minimum(
        ring_all_reduce_time(message_bytes, ranks, latency, bandwidth),
        double_binary_tree_all_reduce_time(message_bytes, ranks, latency, bandwidth),
    )
    layered = hierarchical_all_reduce_time(
        message_bytes,
        ranks / ranks_per_node,
        ranks_per_node,
        intra_latency,
        intra_bandwidth,
        inter_latency,
        inter_bandwidth,
    )
    return np.minimum(flat, layered)


def all_to_all_time(message_bytes: Any, ranks: Any, latency: Any, bandwidth: Any) -> Any:
    """Time in which every rank sends an n-th of its buffer to every other rank.

    t = (n - 1) (a + M / (n B))

    Parameters:
        message_bytes [B]: buffer of one rank
        ranks [1]: number of ranks
        latency [s]: fixed cost of one message
        bandwidth [B/s]: rate of one rank in one direction
    Returns: [s] time of the collective
    Source: Thakur et al. 2005, IJHPCA 19(1), section 4.4 (pairwise exchange)
    Example:
        >>> all_to_all_time(8e9, 8, 0.0, 1e9)
        7.0
    """
    return (ranks - 1) * (latency + message_bytes / (ranks * bandwidth))
