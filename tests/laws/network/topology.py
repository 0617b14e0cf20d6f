"""Groups of ranks, placed GPU by GPU."""

from collections import Counter
from itertools import pairwise, product

from fleetcube.kernels.laws import topology

from ..check import Pairs, check


def nodes(gpus_per_node: int, stride: int, ranks: int) -> list[int]:
    """The node of each rank of a group whose neighbours are `stride` GPUs apart."""
    return [rank * stride // gpus_per_node for rank in range(ranks)]


LAYOUTS = [(g, s, n) for g, s, n in product((1, 4, 8), (1, 2, 8, 32), (1, 2, 8, 64))]


@check(
    "group_ranks_per_node", by="derivation", source="GPUs of the group counted on its first node"
)
def ranks_on_a_node() -> Pairs:
    """nodes of 1 to 8 GPUs, strides of 1 to 32, 1 to 64 ranks"""
    for g, stride, ranks in LAYOUTS:
        theirs = Counter(nodes(g, stride, ranks))[0]
        yield topology.group_ranks_per_node(g, stride, ranks), theirs


@check(
    "flat_bandwidth",
    by="derivation",
    source="rails out of each node counted, the narrowest cut of the ring taken",
)
def ring_over_nodes() -> Pairs:
    """nodes of 1 to 8 GPUs, filled by the group, fast and slow rails"""
    for (g, stride, ranks), rail in product(LAYOUTS, (5e10, 4e11)):
        held = Counter(nodes(g, stride, ranks))
        cuts = [450e9] if len(held) == 1 else [450e9, *(k * rail for k in held.values())]
        k = topology.group_ranks_per_node(g, stride, ranks)
        yield topology.flat_bandwidth(ranks, k, 450e9, rail), min(cuts)


@check("flat_latency", by="derivation", source="the slowest hop of the placed ring")
def slowest_hop() -> Pairs:
    """nodes of 1 to 8 GPUs, strides of 1 to 32, 1 to 64 ranks"""
    for g, stride, ranks in LAYOUTS:
        placed = nodes(g, stride, ranks)
        hops = [5e-7 if a == b else 5e-6 for a, b in pairwise(placed)]
        k = topology.group_ranks_per_node(g, stride, ranks)
        yield topology.flat_latency(ranks, k, 5e-7, 5e-6), max(hops, default=5e-7)
