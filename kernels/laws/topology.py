"""Placement of a group of ranks: ranks per node, and the links that its traffic crosses.

Parameters:
    stride [1]: GPUs s between neighbours of the group (product of the inner group sizes)
    ranks [1]: size n of the group
    ranks_per_node [1]: ranks k of the group on one node
    ranks_per_leaf [1]: ranks l of the group below each leaf switch
    ranks_per_pod [1]: ranks q of the group in each pod
    leaf_bandwidth [B/s]: rate of one rail below its leaf switch
    fabric_bandwidth [B/s]: rate of one rail that leaves its leaf switch
    pod_bandwidth [B/s]: rate of one rail that leaves its pod
"""

from typing import Any

from ..ops import np, where


def group_ranks_per_node(gpus_per_node, stride, ranks) -> Any:
    """Ranks of one group on each node, when the groups inside it take `stride` GPUs a rank.

    k = clip(gpus_per_node / stride, 1, ranks)

    Parameters: gpus_per_node [1]: GPUs of one node
    Returns: [1] ranks of the group on one node
    Range: strides that divide the node, else the mean over nodes; where groups that fit in a node
        do not divide it, one that straddles two nodes has fewer on each
    Source: Megatron-LM rank order (tensor, context, data, pipeline); Narayanan et al. 2021, sec. 3
    Example:
        >>> float(group_ranks_per_node(8, 2, 64)), float(group_ranks_per_node(8, 8, 64))
        (4.0, 1.0)
    """
    return np.minimum(np.maximum(gpus_per_node / stride, 1.0), ranks)


def flat_bandwidth(ranks, ranks_per_node, intra_bandwidth, rail) -> Any:
    """Bandwidth of one rank of a flat (single-level) algorithm.

    B = B_intra in one node, else min(B_intra, k B_rail): every rank's rail carries its share

    Parameters:
        intra_bandwidth [B/s]: rate of one rank inside a node
        rail [B/s]: rate of one rank's rail between nodes
    Returns: [B/s] bandwidth per rank
    Range: equally many ranks on each node; else an upper bound, as some nodes have fewer rails
    Source: NCCL channels over several NICs; measured 487 GB/s over 50 GB/s NICs on 16 H100 (AWS p5)
    Example:
        >>> float(flat_bandwidth(16, 8, 450e9, 50e9))
        400000000000.0
    """
    across = np.minimum(intra_bandwidth, ranks_per_node * rail)
    return where(ranks_per_node >= ranks, intra_bandwidth, across)


def flat_latency(ranks, ranks_per_node, intra_latency, inter_latency) -> Any:
    """Latency of one hop of a flat algorithm: the slowest hop sets the pace.

    a = a_intra in one node, else a_inter

    Parameters:
        intra_latency [s]: fixed cost of one hop inside a node
        inter_latency [s]: fixed cost of one hop between nodes
    Returns: [s] latency of one hop
    Source: Hockney 1994, Parallel Computing 20(3); a ring steps at its slowest link
    Example:
        >>> float(flat_latency(8, 8, 5e-7, 5e-6))
        5e-07
    """
    return where(ranks_per_node >= ranks, intra_latency, inter_latency)


def rail_under_switches(span, gpus_per_switch, rail, oversubscription) -> Any:
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


def tiered_bandwidth(
    ranks,
    ranks_per_node,
    ranks_per_leaf,
    ranks_per_pod,
    leaf_bandwidth,
    fabric_bandwidth,
    pod_bandwidth,
) -> Any:
    """Inter-node bandwidth of one rank in a collective that runs tier by tier.

    B = (1/g - 1/n) / ((1/g - 1/l) / B_leaf + (1/l - 1/q) / B_fabric + (1/q - 1/n) / B_pod): after
    sums over g, l and q ranks, 1/g, 1/l and 1/q of the data leaves them

    Parameters: ranks_per_node [1]: ranks g of the group on each node
    Returns: [B/s] bandwidth per rank
    Range: equally many ranks in each unit of a tier; else a continuous relaxation, and an upper
        bound for a group that straddles two pods, or two leaf switches, that could hold it. Tiers
        work in turn: a ring over neighbours, whose tiers work at once, is as fast or faster
    Source: Jia et al. 2018, arXiv:1807.11205, section 4.3, level by level; Cho et al. 2019
        (BlueConnect), MLSys, section 3
    Example:
        >>> round(float(tiered_bandwidth(64, 1, 1, 8, 50e9, 50e9, 50e9 / 7)) / 1e9, 6)
        30.0
    """
    out, leaf, pod = 1 / ranks_per_node, 1 / ranks_per_leaf, 1 / ranks_per_pod
    last = 1 / ranks
    # divide each share separately: as a quotient of sums, slopes of small groups cancel
    beyond = ranks > ranks_per_leaf
    sent = where(beyond, out - last, 1.0)
    spent = (out - leaf) / sent / leaf_bandwidth + (leaf - pod) / sent / fabric_bandwidth
    spent = where(beyond, spent + (pod - last) / sent / pod_bandwidth, 1 / leaf_bandwidth)
    leaves = beyond & (spent > 0)
    return where(leaves, 1 / where(leaves, spent, 1.0), leaf_bandwidth)


def tiered_all_to_all_bandwidth(
    ranks,
    ranks_per_node,
    ranks_per_leaf,
    ranks_per_pod,
    leaf_bandwidth,
    fabric_bandwidth,
    pod_bandwidth,
) -> Any:
    """Inter-node bandwidth of one rank in an all-to-all, whose tiers all work at once.

    B = (n - g) / max((n - g) / B_leaf, (n - l) / B_fabric, (n - q) / B_pod): data for ranks beyond
    the nearest g, l and q passes the tier

    Parameters: ranks_per_node [1]: ranks g of the group on each node
    Returns: [B/s] bandwidth per rank
    Range: equally many ranks in each unit of a tier; else a continuous relaxation, and an upper
        bound for a group that straddles two pods, or two leaf switches, that could hold it
    Source: Thakur et al. 2005, IJHPCA 19(1) (pairwise exchange), on several networks
    Example:
        >>> float(tiered_all_to_all_bandwidth(16, 8, 8, 12, 50e9, 50e9, 10e9)) / 1e9
        20.0
    """
    spent = np.maximum(
        (ranks - ranks_per_node) / leaf_bandwidth,
        np.maximum(
            (ranks - ranks_per_leaf) / fabric_bandwidth, (ranks - ranks_per_pod) / pod_bandwidth
        ),
    )
    leaves = spent > 0
    return where(leaves, (ranks - ranks_per_node) / where(leaves, spent, 1.0), leaf_bandwidth)


def crossing_bandwidth(ranks, stride, tier_gpus, inside_bandwidth, outside_bandwidth) -> Any:
    """Bandwidth of sends to the next rank of a group, some of which leave a tier.

    B_in where the tier holds the group, else min(B_in, B_out max(1, P / (2 s))): the s ranks at
    either end of a tier, which send out of it, share the bandwidth of all its P GPUs

    Parameters:
        tier_gpus [1]: GPUs P of the tier
        inside_bandwidth [B/s]: rate of one GPU inside the tier
        outside_bandwidth [B/s]: rate of one GPU out of the tier, where all send
    Returns: [B/s] bandwidth of the slowest sender
    Range: groups fill a tier's GPUs one after the other; sends in both directions at once, so that
        a ring, which sends one way, is as fast or faster
    Source: Al-Fares et al. 2008, SIGCOMM, section 2.1 (oversubscription: all send at once)
    Example:
        >>> float(crossing_bandwidth(16, 64, 3072, 50e9, 50e9 / 7)) / 1e9
        50.0
        >>> float(crossing_bandwidth(16, 1024, 1024, 50e9, 5e9)) / 1e9
        5.0
    """
    crosses = ranks * stride > tier_gpus
    near = where(crosses, tier_gpus, stride)
    share = np.maximum(near / (2 * stride), 1.0)
    out = np.minimum(inside_bandwidth, outside_bandwidth * share)
    return where(crosses, out, inside_bandwidth)


def crossed_tier(ranks, stride, node_gpus, leaf_gpus, pod_gpus, job_gpus) -> Any:
    """Highest tier that traffic of equal groups crosses: the smallest whose units hold all groups.

    0 one rank, 1 node, 2 leaf switch, 3 pod, 4 between pods; P GPUs hold groups that span S <= P
    where P / S is whole, or where P hold the job: else some group straddles

    Parameters:
        node_gpus [1]: GPUs of a node, or of a scale-up domain
        leaf_gpus [1]: GPUs that one leaf switch joins
        pod_gpus [1]: GPUs of a pod
        job_gpus [1]: GPUs of the job on one site
    Returns: [1] tier
    Range: GPUs that fill each tier one group after the other
    Source: Megatron-LM rank order (tensor, context, data, pipeline); Narayanan et al. 2021, sec. 3
    Example:
        >>> float(crossed_tier(16, 8, 8, 32, 1024, 4096)), float(crossed_tier(8, 1, 8, 32, 64, 64))
        (3.0, 1.0)
        >>> float(crossed_tier(2048, 1, 8, 32, 3072, 16384))
        4.0
    """
    span = ranks * stride
    tier = where(_holds(pod_gpus, span, job_gpus), 3.0, 4.0)
    tier = where(_holds(leaf_gpus, span, job_gpus), 2.0, tier)
    tier = where(_holds(node_gpus, span, job_gpus), 1.0, tier)
    tier = where(ranks > 1, tier, 0.0)
    operands = span + job_gpus
    return where(operands == operands, tier, np.nan)


def _holds(tier_gpus, span, job_gpus) -> Any:
    """Whether every group of a span lies within one unit of a tier."""
    groups = tier_gpus / span
    return (job_gpus <= tier_gpus) | ((groups >= 1) & (np.floor(groups) == groups))


def busy_time(traffic_time, one_time, one_bytes, bandwidth) -> Any:
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


def distinct_groups(draws, items, groups) -> Any:
    """Expected number of groups that hold any of the items drawn without replacement.

    n (1 - C(E - E / n, k) / C(E, k)), factorials by Stirling: the quotient is
    (r / (r - k))^r ((a - k) / a)^a ((r - k) / (a - k))^k, a = E + 1/2, r = a - E / n

    Parameters:
        draws [1]: items k drawn, at most E
        items [1]: items E, as many in each group
        groups [1]: groups n
    Returns: [1] groups
    Range: within 0.7 % of the binomials from 8 items on, exact for one group; items chosen evenly
    Source: Feller 1968, An Introduction to Probability Theory, vol. 1, II.5 (occupancy) and II.9
        (Stirling's formula)
    Example:
        >>> round(float(distinct_groups(8, 256, 8)), 2), float(distinct_groups(8, 256, 1))
        (5.29, 1.0)
    """
    drawn = np.minimum(draws, items)
    whole = items + 0.5
    rest = whole - items / groups
    others = whole - drawn
    some = rest > drawn
    left = where(some, rest - drawn, 1.0)
    log = (
        rest * np.log(rest / left) - whole * np.log(whole / others) + drawn * np.log(left / others)
    )
    return groups * (1 - where(some, np.exp(log), 0.0))
