"""Times of collective operations under the alpha-beta model.

`message_bytes` is the buffer of one rank, `bandwidth` is per rank and direction, `latency` is one
hop. One rank takes no time. Every function works on scalars and arrays.

Parameters:
    bandwidth [B/s]: rate of one rank in one direction
    ranks [1]: number of ranks
    latency [s]: fixed cost of one hop
    message_bytes [B]: buffer of one rank
    nodes [1]: nodes k that hold the group
    ranks_per_node [1]: ranks g of the group on each node, each with its own rail
    intra_latency [s]: fixed cost of one hop inside a node
    intra_bandwidth [B/s]: rate of one rank inside a node
    inter_latency [s]: fixed cost of one hop between nodes
    inter_bandwidth [B/s]: rate of one rail between nodes
"""

from typing import Any

from ..ops import np, where


def point_to_point_time(message_bytes, latency, bandwidth) -> Any:
    """Time to send one message to one peer.

    t = a + M / B

    Parameters:
        message_bytes [B]: size of the message
        latency [s]: fixed cost of one message
    Returns: [s] time until the message has arrived
    Source: Hockney 1994, Parallel Computing 20(3), eq. 1
    Example:
        >>> round(point_to_point_time(1e9, 5e-6, 50e9) * 1e3, 3)
        20.005
    """
    return latency + message_bytes / bandwidth


def reduce_scatter_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of a ring reduce-scatter, equal to that of an all-gather.

    t = (n - 1) (a + M / (n B))

    Parameters: message_bytes [B]: full buffer of one rank
    Returns: [s] time of the collective
    Source: Patarasuk & Yuan 2009, JPDC 69(2), section 3; Thakur et al. 2005, section 4.1
    Example:
        >>> reduce_scatter_time(8e9, 8, 0.0, 1e9)
        7.0
    """
    return (ranks - 1) * (latency + message_bytes / (ranks * bandwidth))


def all_gather_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of a ring all-gather into a buffer of `message_bytes`.

    t = (n - 1) (a + M / (n B))

    Parameters: message_bytes [B]: full buffer of one rank, after the gather
    Returns: [s] time of the collective
    Source: Patarasuk & Yuan 2009, JPDC 69(2), section 3; Thakur et al. 2005, section 4.1
    Example:
        >>> all_gather_time(8e9, 8, 0.0, 1e9)
        7.0
    """
    return reduce_scatter_time(message_bytes, ranks, latency, bandwidth)


def ring_all_reduce_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of a ring all-reduce: a reduce-scatter, then an all-gather.

    t = 2 (n - 1) (a + M / (n B))

    Returns: [s] time of the collective
    Source: Patarasuk & Yuan 2009, JPDC 69(2), theorem 1; Fleet Foundations table 11
    Example:
        >>> round(ring_all_reduce_time(14e9, 256, 5e-6, 50e9) * 1e3, 1)
        560.4
    """
    return 2 * reduce_scatter_time(message_bytes, ranks, latency, bandwidth)


def tree_all_reduce_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of an all-reduce up and down one binary tree, not pipelined.

    t = 2 ceil(log2 n) (a + M / B)

    Returns: [s] time of the collective
    Range: not pipelined: an upper bound for long messages
    Source: Thakur et al. 2005, IJHPCA 19(1), section 4.5 (reduce, then broadcast, on a tree)
    Example:
        >>> float(tree_all_reduce_time(1e9, 8, 0.0, 1e9))
        6.0
    """
    return 2 * np.ceil(np.log2(ranks)) * (latency + message_bytes / bandwidth)


def double_binary_tree_all_reduce_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of an all-reduce on two complementary trees, each with half the message, pipelined.

    t = 2 ceil(log2 n) a + 2 M / B;  2 a + M / B between two ranks

    Returns: [s] time of the collective
    Range: messages much shorter or longer than n a B; between them a lower bound, as pieces must
        fill the trees. Three ranks: an upper bound, 1.5 M / B is enough
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


def recursive_halving_doubling_all_reduce_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of an all-reduce by recursive halving, then recursive doubling.

    t = 2 log2(n) a + 2 (n - 1) / n M / B

    Parameters:
        ranks [1]: number of ranks; a power of two in reality
        latency [s]: fixed cost of one message
    Returns: [s] time of the collective
    Range: powers of two; between them a lower bound, as other rank counts need more messages
    Source: Thakur et al. 2005, IJHPCA 19(1), section 4.5 (Rabenseifner's algorithm)
    Example:
        >>> float(recursive_halving_doubling_all_reduce_time(8e9, 8, 1.0, 1e9))
        20.0
    """
    return 2 * np.log2(ranks) * latency + 2 * (ranks - 1) / ranks * message_bytes / bandwidth


def switch_all_reduce_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of an all-reduce summed in the network by a tree of switches.

    t = 2 a + M / B; 0 for one rank

    Parameters: latency [s]: fixed cost of the path up, or down
    Returns: [s] time of the collective
    Range: buffers of many pieces, which stream through the switch; a lower bound for one piece
    Source: Graham et al. 2016 (SHARP), COMHPC
    Example:
        >>> float(switch_all_reduce_time(1e9, 512, 0.25, 1e9))
        1.5
    """
    return where(ranks > 1, 2 * latency + message_bytes / bandwidth, 0.0)


def nvls_all_reduce_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of an all-reduce whose sums and multicasts one NVLink switch performs.

    t = 2 a + M (n + 1) / (n B): each rank sends its buffer M to be summed and its share M / n of
    the sums to be multicast, and receives as much

    Returns: [s] time of the collective
    Range: buffers of many pieces, so that sums and multicasts overlap; a lower bound for one piece
    Source: NCCL 2.30 src/transport/nvls.cc; Klenk et al. 2020, ISCA, section III
    Example:
        >>> float(nvls_all_reduce_time(8e9, 8, 0.0, 1e9))
        9.0
    """
    moved = message_bytes * (ranks + 1) / ranks
    return where(ranks > 1, 2 * latency + moved / bandwidth, 0.0)


def in_network_all_reduce_time(
    message_bytes,
    nodes,
    ranks_per_node,
    intra_latency,
    intra_bandwidth,
    inter_latency,
    inter_bandwidth,
) -> Any:
    """Time of an all-reduce summed by the switches of each node, then by those of the fabric.

    t = 2 a_i + M (g + 1) / (g B_i) + 2 a_e + M / (g B_e); 0 for a level with one member

    Returns: [s] time of the collective
    Range: equally many ranks on each node; a continuous relaxation for fractional node counts
    Source: NCCL 2.30 src/graph/tuning.cc (NVLS with CollNet); Graham et al. 2016 (SHARP), COMHPC
    Example:
        >>> float(in_network_all_reduce_time(8e9, 4, 8, 0.0, 1e9, 0.0, 1e9))
        10.0
    """
    inside = nvls_all_reduce_time(message_bytes, ranks_per_node, intra_latency, intra_bandwidth)
    share = message_bytes / ranks_per_node
    return inside + switch_all_reduce_time(share, nodes, inter_latency, inter_bandwidth)


def direct_all_reduce_time(message_bytes, ranks, start, bandwidth) -> Any:
    """Time of an all-reduce in which ranks read each other's memory, as serving engines do.

    t = min(a + (n - 1) M / B, 2 a + 2 (n - 1) / n M / B): one shot reads all buffers whole, two
    shots a share of each, and then the sums; 0 for one rank

    Parameters:
        ranks [1]: number of ranks, each connected with all others
        start [s]: launch and barrier of one shot
    Returns: [s] time of the collective
    Range: a lower bound for buffers that fill few of a GPU's processors
    Source: vLLM, csrc/custom_all_reduce.cuh (cross_device_reduce_1stage and _2stage); TensorRT-LLM,
        cpp/tensorrt_llm/kernels/customAllReduceKernels.cu
    Example:
        >>> round(float(direct_all_reduce_time(16384, 8, 5e-6, 450e9)) * 1e6, 2)
        5.25
    """
    one = start + (ranks - 1) * message_bytes / bandwidth
    two = 2 * (start + (ranks - 1) / ranks * message_bytes / bandwidth)
    return where(ranks > 1, np.minimum(one, two), 0.0)


def fitted_all_reduce_time(message_bytes, ranks, latency, bandwidth, sqrt_coefficient) -> Any:
    """Time of an all-reduce with coefficients fitted to measured curves.

    t = a + 2 (n - 1) / n M / B + g sqrt(M); 0 for one rank

    The square root models the slow climb to full bandwidth that measured curves show.

    Parameters:
        latency [s]: time of an empty all-reduce
        bandwidth [B/s]: bus bandwidth of large messages
        sqrt_coefficient [s/B^0.5]: coefficient g of the square root
    Returns: [s] time of the collective
    Range: sizes and rank counts of the fitted curves; elsewhere an extrapolation
    Source: nccl-tests, doc/PERFORMANCE.md (bus bandwidth); the square root is ours, it brings the
        median error on published all-reduce curves from 8-18 % to 3-6 %
    Example:
        >>> round(float(fitted_all_reduce_time(1e8, 2, 1e-5, 1e10, 1e-8)), 6)
        0.01011
    """
    wire = 2 * (ranks - 1) / ranks * message_bytes / bandwidth
    climb = sqrt_coefficient * np.sqrt(message_bytes)
    return where(ranks > 1, latency + wire + climb, 0.0)


def ring_tree_crossover_bytes(ranks, latency, bandwidth) -> Any:
    """Message below which two binary trees beat the ring.

    M = n (n - 1 - ceil(log2 n)) a B, at least 0; 0 for two ranks, where both take equally long

    Returns: [B] size at which both take the same time
    Range: two ranks or more; with three, the ring is never slower than the upper bound of two trees
    Source: Patarasuk & Yuan 2009, theorem 1, set equal to Sanders et al. 2009, section 4
    Example:
        >>> round(float(ring_tree_crossover_bytes(8, 5e-6, 50e9)))
        8000000
    """
    hops = np.maximum(ranks - 1 - np.ceil(np.log2(ranks)), 0.0)
    return ranks * hops * latency * bandwidth


def hierarchical_all_reduce_time(
    message_bytes,
    nodes,
    ranks_per_node,
    intra_latency,
    intra_bandwidth,
    inter_latency,
    inter_bandwidth,
) -> Any:
    """Time of an all-reduce in levels: reduce-scatter in nodes, ring per rail, all-gather in nodes.

    t = 2 (g - 1) (a_i + M / (g B_i)) + 2 (k - 1) (a_e + M / (g k B_e))

    Returns: [s] time of the collective
    Range: equally many ranks on each node; a continuous relaxation for fractional node counts
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


def auto_all_reduce_time(message_bytes, ranks, latency, bandwidth, level_by_level) -> Any:
    """Time of the cheapest all-reduce that a library would offer.

    t = min(ring, double binary tree, level by level)

    Parameters:
        latency [s]: fixed cost of one hop of a flat algorithm
        bandwidth [B/s]: rate of one rank in a flat algorithm
        level_by_level [s]: time inside the nodes, then between them, each as their switches allow
    Returns: [s] time of the collective
    Source: NCCL 2.30 src/graph/tuning.cc chooses by predicted time
    Example:
        >>> float(auto_all_reduce_time(8e9, 8, 0.0, 1e9, 9.0))
        9.0
    """
    flat = np.minimum(
        ring_all_reduce_time(message_bytes, ranks, latency, bandwidth),
        double_binary_tree_all_reduce_time(message_bytes, ranks, latency, bandwidth),
    )
    return np.minimum(flat, level_by_level)


def all_to_all_time(message_bytes, ranks, latency, bandwidth) -> Any:
    """Time of an all-to-all: every rank sends 1/n of its buffer to every other rank.

    t = (n - 1) (a + M / (n B))

    Parameters: latency [s]: fixed cost of one message
    Returns: [s] time of the collective
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange)
    Example:
        >>> all_to_all_time(8e9, 8, 0.0, 1e9)
        7.0
    """
    return (ranks - 1) * (latency + message_bytes / (ranks * bandwidth))


def two_level_all_to_all_time(
    message_bytes, ranks, ranks_per_node, latency, intra_bandwidth, inter_bandwidth
) -> Any:
    """Time of an all-to-all (1/n of a buffer to every other rank) inside and across nodes.

    t = (n - 1) a + max(M (k - 1) / (n B_i), M (n - k) / (n B_e)): both networks work at once

    Parameters:
        ranks_per_node [1]: ranks k of the group on each node, each with its own rail
        latency [s]: fixed cost of one message
    Returns: [s] time of the collective
    Range: equally many ranks on each node; a continuous relaxation for fractional node counts
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on two networks
    Example:
        >>> float(two_level_all_to_all_time(16e9, 16, 8, 0.0, 1e9, 1e9))
        8.0
    """
    share = message_bytes / ranks
    inside = share * (ranks_per_node - 1) / intra_bandwidth
    across = share * (ranks - ranks_per_node) / inter_bandwidth
    return (ranks - 1) * latency + np.maximum(inside, across)
