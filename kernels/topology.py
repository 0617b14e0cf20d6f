"""Where a group of ranks lives: how many share a node, and which link it therefore rides."""

from typing import Any

from .ops import np, where


def group_ranks_per_node(gpus_per_node: Any, stride: Any, ranks: Any) -> Any:
    """Ranks of one group on each node, when the groups inside it take `stride` GPUs a rank.

    k = clip(gpus_per_node / stride, 1, ranks)

    Parameters:
        gpus_per_node [1]: GPUs of one node
        stride [1]: GPUs between neighbours of the group (product of the inner group sizes)
        ranks [1]: size of the group
    Returns: [1] ranks of the group on one node
    Range: strides that divide the node; else the mean over nodes
    Source: Megatron-LM rank order (tensor, context, data, pipeline); Narayanan et al. 2021, sec. 3
    Example:
        >>> float(group_ranks_per_node(8, 2, 64)), float(group_ranks_per_node(8, 8, 64))
        (4.0, 1.0)
    """
    return np.minimum(np.maximum(gpus_per_node / stride, 1.0), ranks)


def flat_bandwidth(ranks: Any, ranks_per_node: Any, intra_bandwidth: Any, rail: Any) -> Any:
    """Bandwidth of one rank of a flat (single-level) algorithm.

    B = B_intra in one node, else min(B_intra, k B_rail): every rank's rail carries its share

    Parameters:
        ranks [1]: size of the group
        ranks_per_node [1]: ranks k of the group on one node
        intra_bandwidth [B/s]: rate of one rank inside a node
        rail [B/s]: rate of one rank's rail between nodes
    Returns: [B/s] bandwidth per rank
    Range: nodes that hold equally many ranks; else a bound from above: the node with the fewest
        ranks has fewer rails
    Source: NCCL channels over several NICs; measured 487 GB/s over 50 GB/s NICs on 16 H100 (AWS p5)
    Example:
        >>> float(flat_bandwidth(16, 8, 450e9, 50e9))
        400000000000.0
    """
    across = np.minimum(intra_bandwidth, ranks_per_node * rail)
    return where(ranks_per_node >= ranks, intra_bandwidth, across)


def flat_latency(ranks: Any, ranks_per_node: Any, intra_latency: Any, inter_latency: Any) -> Any:
    """Latency of one hop of a flat algorithm: the slowest hop sets the pace.

    a = a_intra in one node, else a_inter

    Parameters:
        ranks [1]: size of the group
        ranks_per_node [1]: ranks of the group on one node
        intra_latency [s]: fixed cost of one hop inside a node
        inter_latency [s]: fixed cost of one hop between nodes
    Returns: [s] latency of one hop
    Source: Hockney 1994, Parallel Computing 20(3); a ring steps at its slowest link
    Example:
        >>> float(flat_latency(8, 8, 5e-7, 5e-6))
        5e-07
    """
    return where(ranks_per_node >= ranks, intra_latency, inter_latency)


def rail_under_switches(span: Any, gpus_per_switch: Any, rail: Any, oversubscription: Any) -> Any:
    """Bandwidth of one rank's rail: traffic pays for oversubscription where it leaves the leaf.

    B_rail x oversubscription under one leaf switch, else B_rail

    Parameters:
        span [1]: GPUs that a group stretches over, the groups inside it included
        gpus_per_switch [1]: GPUs behind one leaf switch
        rail [B/s]: rate of one rail that leaves the leaf switch
        oversubscription [1]: downlink over uplink bandwidth of the leaf switch
    Returns: [B/s] bandwidth per rail
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription of a fat tree)
    Example:
        >>> float(rail_under_switches(32, 32, 12.5, 4)), float(rail_under_switches(64, 32, 12.5, 4))
        (50.0, 12.5)
    """
    return where(span <= gpus_per_switch, rail * oversubscription, rail)


def busy_time(traffic_time: Any, one_time: Any, one_bytes: Any, bandwidth: Any) -> Any:
    """Time in which traffic of many equal operations keeps a link busy.

    T min(1, M / (B t)); 0 where one operation takes no time

    Parameters:
        traffic_time [s]: time T of all operations
        one_time [s]: time t of one, latency included
        one_bytes [B]: bytes M of one that go through the link
        bandwidth [B/s]: rate of the link
    Returns: [s] time of bytes alone
    Source: Hockney 1994, Parallel Computing 20(3), eq. 1 (latency occupies no link)
    Example:
        >>> float(busy_time(30.0, 3.0, 2e9, 1e9))
        20.0
    """
    takes = one_time > 0
    share = one_bytes / bandwidth / where(takes, one_time, 1.0)
    return traffic_time * np.minimum(where(takes, share, 0.0), 1.0)


def distinct_groups(draws: Any, items: Any, groups: Any) -> Any:
    """Groups, expected, that hold any of the items drawn; none is drawn twice.

    n (1 - C(E - E / n, k) / C(E, k)), factorials by Stirling: the quotient is
    (r / (r - k))^r ((a - k) / a)^a ((r - k) / (a - k))^k, a = E + 1/2, r = a - E / n

    Parameters:
        draws [1]: items k drawn; no more than there are
        items [1]: items E, as many in each group
        groups [1]: groups n
    Returns: [1] groups
    Range: within 0.7 % of the binomials from 8 items on, and exact for one group; items chosen
        evenly
    Source: Feller 1968, An Introduction to Probability Theory, vol. 1, II.5 (occupancy) and II.9
        (Stirling's formula)
    Example:
        >>> round(float(distinct_groups(8, 256, 8)), 2), float(distinct_groups(8, 256, 1))
        (5.29, 1.0)
    """
    drawn = np.minimum(draws, items)
    whole = items + 0.5
    rest = whole - items / groups
    held = whole - drawn
    some = rest > drawn
    left = where(some, rest - drawn, 1.0)
    log = rest * np.log(rest / left) - whole * np.log(whole / held) + drawn * np.log(left / held)
    return groups * (1 - where(some, np.exp(log), 0.0))
