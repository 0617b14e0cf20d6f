"""Collectives simulated message by message."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from fleetcube.kernels.laws import collectives
from fleetcube.kernels.laws.reduce_scatter import nvls_reduce_scatter_time

from ... import formulas
from ..check import Pairs, check

SIZES = ((1.0, 5e-6, 50e9), (1e6, 2e-6, 450e9), (1e10, 0.0, 25e9), (3e8, 1e-3, math.inf))


class Ranks:
    """Ranks with one port out and one in, both busy for a message's latency and bytes / bandwidth.

    `parts[rank][chunk]` are the ranks whose numbers are summed in that chunk of its buffer.
    """

    def __init__(self, members: int, chunks: int, latency: float, bandwidth: float) -> None:
        self.members, self.chunks = members, chunks
        self.latency, self.bandwidth = latency, bandwidth
        self.clock = [0.0] * members
        self.parts = [[{rank} for _ in range(chunks)] for rank in range(members)]

    def round(
        self, messages: list[tuple[int, int, range | list[int]]], size: float, add: bool
    ) -> None:
        """Messages (from, to, chunks of `size` bytes) that start together, summed or copied."""
        sources, targets = [m[0] for m in messages], [m[1] for m in messages]
        assert len(set(sources)) == len(sources)
        assert len(set(targets)) == len(targets)
        before = list(self.clock)
        sent = [[self.parts[source][chunk] for chunk in chunks] for source, _, chunks in messages]
        for (source, target, chunks), contents in zip(messages, sent, strict=True):
            end = max(before[source], before[target])
            end += self.latency + len(chunks) * size / self.bandwidth
            self.clock[source] = max(self.clock[source], end)
            self.clock[target] = max(self.clock[target], end)
            for chunk, content in zip(chunks, contents, strict=True):
                old = self.parts[target][chunk] if add else set()
                assert not (old & content), "added twice"
                self.parts[target][chunk] = old | content

    def done(self) -> float:
        """Time at which the last rank has the sum of all; fails if one lacks any."""
        everyone = set(range(self.members))
        assert all(part == everyone for parts in self.parts for part in parts)
        return max(self.clock)


def ring(members: int, message: float, latency: float, bandwidth: float) -> float:
    """A ring: n - 1 hops to reduce, n - 1 to copy."""
    ranks, size = Ranks(members, members, latency, bandwidth), message / members
    for add in (True, False):
        for hop in range(members - 1):
            ranks.round(
                [(r, (r + 1) % members, [(r - hop + (not add)) % members]) for r in range(members)],
                size,
                add,
            )
    return ranks.done()


def one_tree(members: int, message: float, latency: float, bandwidth: float) -> float:
    """A binomial tree: to rank 0, and back."""
    ranks = Ranks(members, 1, latency, bandwidth)
    strides = [1 << k for k in range((members - 1).bit_length())]
    for stride in strides:
        starts = range(stride, members, 2 * stride)
        ranks.round([(r, r - stride, [0]) for r in starts], message, True)
    for stride in reversed(strides):
        starts = range(stride, members, 2 * stride)
        ranks.round([(r - stride, r, [0]) for r in starts], message, False)
    return ranks.done()


def halving_doubling(members: int, message: float, latency: float, bandwidth: float) -> float:
    """Recursive halving with partners at falling distance, and back; members a power of two."""
    ranks, size = Ranks(members, members, latency, bandwidth), message / members
    strides = [members >> k for k in range(1, members.bit_length())]

    def block(rank: int, stride: int) -> range:
        return range(rank // stride * stride, rank // stride * stride + stride)

    for stride in strides:
        pairs = [(r, r ^ stride) for r in range(members)]
        ranks.round([(a, b, block(b, stride)) for a, b in pairs], size, True)
    for stride in reversed(strides):
        pairs = [(r, r ^ stride) for r in range(members)]
        ranks.round([(a, b, block(a, stride)) for a, b in pairs], size, False)
    return ranks.done()


def two_trees(members: int, message: float, latency: float, bandwidth: float) -> float:
    """NCCL's two trees in their limits: hops of an empty message, busiest port of a large one."""
    parent: dict[int, int | None] = {}

    def grow(low: int, high: int, above: int | None) -> int:
        """In-order binary tree over [low, high); its height."""
        if low >= high:
            return 0
        middle = low + (1 << ((high - low).bit_length() - 1)) - 1
        parent[middle] = above
        return 1 + max(grow(low, middle, middle), grow(middle + 1, high, middle))

    parent[0] = None
    height = grow(1, members, 0)
    mirror = [members - 1 - r if members % 2 == 0 else (r + 1) % members for r in range(members)]
    sent = Counter[int]()
    for child, above in parent.items():
        if above is not None:
            for name in (lambda r: r, lambda r: mirror[r]):
                sent[name(child)] += 1  # up
                sent[name(above)] += 1  # down
    busiest = max(sent.values(), default=0) * message / 2
    return 2 * height * latency + busiest / bandwidth


def fabric_switch(members: int, message: float, latency: float, bandwidth: float) -> float:
    """A reducing switch: 4,096 pieces stream up one behind the other, and down."""
    if members == 1:
        return 0.0
    piece, up, down = message / 4096 / bandwidth, 0.0, 0.0
    for _ in range(4096):
        up += piece
        down = max(down, up + latency) + piece
    return down + latency


def nvlink_switch(members: int, message: float, latency: float, bandwidth: float) -> float:
    """An NVLink switch: bytes on each port, read by read and write by write."""
    out = Counter[int]()
    for reader, owner in product(range(members), repeat=2):  # sums: the switch reads every owner
        out[owner] += 1
        assert reader < members
    for writer in range(members):  # copies: written once, the switch sends them to all
        out[writer] += 1
    if members == 1:
        return 0.0
    return 2 * latency + max(out.values()) * message / members / bandwidth


FLAT: dict[str, tuple[Callable[..., float], tuple[int, ...]]] = {
    "ring": (ring, (1, 2, 3, 8, 31)),
    "tree": (one_tree, (1, 2, 3, 5, 8, 31, 64)),
    "double_binary_tree": (two_trees, (1, 2, 4, 5, 8, 13, 64, 1000)),
    "recursive_halving_doubling": (halving_doubling, (1, 2, 4, 16, 64)),
}


def flat(name: str) -> Pairs:
    """Pairs of a flat algorithm, over sizes and ranks."""
    law = getattr(collectives, f"{name}_all_reduce_time")
    played, members = FLAT[name]
    for n, (message, latency, bandwidth) in product(members, SIZES):
        yield law(message, n, latency, bandwidth), played(n, message, latency, bandwidth)


@check(
    "ring_all_reduce_time",
    by="simulator",
    source="a ring played hop by hop, every rank's sums followed",
)
def ring_all_reduce() -> Pairs:
    """1 to 31 ranks, 1 B to 10 GB, also without latency or with infinite bandwidth"""
    return flat("ring")


@check(
    "tree_all_reduce_time",
    by="simulator",
    source="a binomial tree played round by round (Thakur et al. 2005, section 4.5)",
)
def tree_all_reduce() -> Pairs:
    """1 to 64 ranks, powers of two or not"""
    return flat("tree")


@check(
    "recursive_halving_doubling_all_reduce_time",
    by="simulator",
    source="exchanges played round by round, every rank's sums followed",
)
def halving_doubling_all_reduce() -> Pairs:
    """1 to 64 ranks, powers of two"""
    return flat("recursive_halving_doubling")


@check(
    "double_binary_tree_all_reduce_time",
    by="derivation",
    source="height and busiest port of the two trees of NCCL (src/graph/trees.cc), counted",
)
def two_tree_all_reduce() -> Pairs:
    """1 to 1,000 ranks but 3, powers of two or not"""
    return flat("double_binary_tree")


@check(
    "switch_all_reduce_time",
    by="simulator",
    source="pieces sent up behind each other and back down, 4,096 of them",
    tolerance=3e-4,
)
def switch_all_reduce() -> Pairs:
    """1, 2 and 512 ranks, 1 B to 10 GB"""
    for n, (message, latency, bandwidth) in product((1, 2, 512), SIZES):
        law = collectives.switch_all_reduce_time(message, n, latency, bandwidth)
        yield law, fabric_switch(n, message, latency, bandwidth)


@check(
    "nvls_all_reduce_time",
    by="derivation",
    source="reads and writes at each port of the switch, counted (NCCL 2.30 src/transport/nvls.cc)",
)
def nvls_all_reduce() -> Pairs:
    """1 to 72 ranks"""
    for n, (message, latency, bandwidth) in product((1, 2, 8, 72), SIZES):
        law = collectives.nvls_all_reduce_time(message, n, latency, bandwidth)
        yield law, nvlink_switch(n, message, latency, bandwidth)


def nvlink_half(members: int, message: float, latency: float, bandwidth: float) -> float:
    """Half an all-reduce on an NVLink switch: shares that the busiest port sends or receives."""
    if members == 1:
        return 0.0
    out, into = Counter[int](), Counter[int]()
    for writer in range(members):  # copies: written once, the switch sends them to all
        out[writer] += 1
        into.update(range(members))
    return latency + max([*out.values(), *into.values()]) * message / members / bandwidth


@check(
    "nvls_reduce_scatter_time",
    by="derivation",
    source="reads and writes at each port of the switch, counted (NCCL 2.30 src/transport/nvls.cc)",
)
def nvls_halves() -> Pairs:
    """1 to 72 ranks"""
    for n, (message, latency, bandwidth) in product((1, 2, 8, 72), SIZES):
        law = nvls_reduce_scatter_time(message, n, latency, bandwidth)
        yield law, nvlink_half(n, message, latency, bandwidth)


def levels(nodes: int, per_node: int, message: float, inside: Any, across: Any) -> float:
    """Reduce-scatter in each node, an all-reduce for each rail, an all-gather in each node."""
    clock = 0.0
    for _ in range(per_node - 1):
        clock += inside[0] + message / per_node / inside[1]
    clock += ring(nodes, message / per_node, *across)
    for _ in range(per_node - 1):
        clock += inside[0] + message / per_node / inside[1]
    return clock


CLUSTERS = ((1, 1), (1, 8), (2, 1), (2, 8), (5, 3), (4, 8))


@check(
    "hierarchical_all_reduce_time",
    by="simulator",
    source="rings inside the nodes and one ring for each rail, hop by hop",
)
def hierarchical_all_reduce() -> Pairs:
    """1 to 5 nodes of 1 to 8 ranks"""
    for (nodes, per_node), (message, *_) in product(CLUSTERS, SIZES):
        inside, across = (1e-6, 450e9), (5e-6, 50e9)
        law = collectives.hierarchical_all_reduce_time(message, nodes, per_node, *inside, *across)
        yield law, levels(nodes, per_node, message, inside, across)


@check(
    "in_network_all_reduce_time",
    by="simulator",
    source="ports of the nodes' switches counted, pieces through the fabric's played",
    tolerance=3e-4,
)
def in_network_all_reduce() -> Pairs:
    """1 to 5 nodes of 1 to 8 ranks"""
    for (nodes, per_node), (message, *_) in product(CLUSTERS, SIZES):
        inside, across = (1e-6, 450e9), (5e-6, 50e9)
        law = collectives.in_network_all_reduce_time(message, nodes, per_node, *inside, *across)
        share = message / per_node
        theirs = nvlink_switch(per_node, message, *inside) + fabric_switch(nodes, share, *across)
        yield law, theirs


@check("auto_all_reduce_time", by="simulator", source="the fastest of those played")
def auto_all_reduce() -> Pairs:
    """2 to 31 ranks, 1 B to 10 GB, with a level-by-level time below and above the others"""
    for n, (message, *_) in product((2, 5, 8, 31), SIZES):
        link = (5e-6, 50e9)
        played = [ring(n, message, *link), two_trees(n, message, *link)]
        for other in (0.5 * min(played), 2 * max(played)):
            law = collectives.auto_all_reduce_time(message, n, *link, other)
            yield law, sorted([*played, other])[0]


@check(
    "fitted_all_reduce_time",
    by="derivation",
    source="the bytes that a rank of the played ring sends, and the slope of the climb integrated",
)
def fitted_all_reduce() -> Pairs:
    """1 to 31 ranks, 1 kB to 1 GB"""
    x, weights = np.polynomial.legendre.leggauss(20)
    for n, message in product((1, 2, 8, 31), (1e3, 1e6, 1e9)):
        root = math.sqrt(message) * (x + 1) / 2  # M = r^2: g / (2 sqrt(M)) dM = g dr
        climb = float(np.sum(weights / 2 * 2e-8 * np.ones_like(root))) * math.sqrt(message)
        theirs = 3e-5 + ring(n, message, 0.0, 40e9) + climb if n > 1 else 0.0
        yield collectives.fitted_all_reduce_time(message, n, 3e-5, 40e9, 2e-8), theirs


def crossing(first: Callable[[float], float], second: Callable[[float], float]) -> float:
    """The largest size at which the second is faster, by bisection; 0 where none is."""
    sizes = [10.0 ** (k / 50) for k in range(-300, 700)]
    slower = [size for size in sizes if first(size) > second(size)]
    if not slower:
        return 0.0
    low, high = slower[-1], slower[-1] * 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if first(middle) > second(middle) else (low, middle)
    return (low + high) / 2


@check(
    "ring_tree_crossover_bytes",
    by="simulator",
    source="halving between the played ring and the two trees",
)
def ring_tree_crossover() -> Pairs:
    """2 to 64 ranks"""
    for n in (2, 4, 8, 13, 64):
        link = (5e-6, 50e9)
        starts, ends = ([f(n, m, *link) for f in (ring, two_trees)] for m in (0.0, 1e9))
        slopes = [(end - start) / 1e9 for start, end in zip(starts, ends, strict=True)]
        theirs = crossing(
            *(lambda m, a=a, b=b: a + b * m for a, b in zip(starts, slopes, strict=True))
        )
        yield collectives.ring_tree_crossover_bytes(n, *link), theirs


@check(
    "all_to_all_time",
    by="simulator",
    source="pairwise exchange: in round k each rank sends to the one k places on",
)
def all_to_all() -> Pairs:
    """1 to 31 ranks"""
    for n, (message, latency, bandwidth) in product((1, 2, 3, 8, 31), SIZES):
        ranks, got = Ranks(n, n, latency, bandwidth), Counter[tuple[int, int]]()
        for k in range(1, n):
            ranks.round([(r, (r + k) % n, [r]) for r in range(n)], message / n, False)
            got.update(((r + k) % n, r) for r in range(n))
        assert len(got) == n * (n - 1)
        yield collectives.all_to_all_time(message, n, latency, bandwidth), max(ranks.clock)


@check(
    "two_level_all_to_all_time",
    by="derivation",
    source="every pair of ranks put on its network, the busiest port counted",
)
def two_level_all_to_all() -> Pairs:
    """1 to 32 ranks, 1 to 8 on a node, both networks the slower one"""
    for (n, k), rail in product(((1, 1), (4, 4), (4, 1), (16, 8), (32, 4)), (25e9, 400e9)):
        inside, across = Counter[int](), Counter[int]()
        for source, target in product(range(n), repeat=2):
            if source != target:
                (inside if source // k == target // k else across)[source] += 1
        share = 1e8 / n
        busiest = (max(c.values(), default=0) * share for c in (inside, across))
        times = [moved / rate for moved, rate in zip(busiest, (450e9, rail), strict=True)]
        theirs = (n - 1) * 3e-6 + max(times)
        yield collectives.two_level_all_to_all_time(1e8, n, k, 3e-6, 450e9, rail), theirs


@check(
    "point_to_point_time",
    by="simulator",
    source="packets of 4 kB sent behind each other over one link",
)
def point_to_point() -> Pairs:
    """an empty message to 40 MB"""
    for packets in (0, 1, 100, 10_000):
        left = 0.0
        for _ in range(packets):
            left += 4096 / 50e9
        yield collectives.point_to_point_time(4096 * packets, 5e-6, 50e9), left + 5e-6


def _by_levels(kind: str) -> Iterator[tuple[str, Callable[..., float]]]:
    """Formulas of gradients or activations for a group on nodes, and their simulators."""

    def whole(message: float, ranks: int, per_node: int, inside: Any, across: Any) -> float:
        return levels(ranks // per_node, per_node, message, inside, across)

    def switched(message: float, ranks: int, per_node: int, inside: Any, across: Any) -> float:
        up = nvlink_switch(per_node, message, *inside)
        return up + fabric_switch(ranks // per_node, message / per_node, *across)

    def rails(message: float, ranks: int, per_node: int, across: Any) -> float:
        return ring(ranks // per_node, message / per_node, *across)

    def fabric(message: float, ranks: int, per_node: int, across: Any) -> float:
        return fabric_switch(ranks // per_node, message / per_node, *across)

    yield f"hierarchical_{kind}_all_reduce_time", whole
    yield f"in_network_{kind}_all_reduce_time", switched
    yield f"ring_{kind}_between_nodes_time", rails
    yield f"switch_{kind}_between_nodes_time", fabric


def _levels_pairs(module: Any, kind: str) -> Pairs:
    inside, across = (1e-6, 450e9), (5e-6, 50e9)
    for (nodes, per_node), message in product(CLUSTERS, (1e3, 1e6, 1e9)):
        ranks = nodes * per_node
        for name, played in _by_levels(kind):
            links = (across,) if name.endswith("between_nodes_time") else (inside, across)
            arguments = [x for link in links for x in link]
            law = getattr(module, name)(message, ranks, per_node, *arguments)
            yield law, played(message, ranks, per_node, *links)
        law = getattr(module, f"nvls_{kind}_in_node_time")(message, per_node, *inside)
        switched = nvlink_switch(per_node, message, *inside)
        yield law, min(ring(per_node, message, *inside), switched)
        flat_times = ring(ranks, message, *across), two_trees(ranks, message, *across)
        for inner, outer in ((1e-9, 1e-9), (1.0, 1.0)):
            auto = getattr(module, f"auto_{kind}_all_reduce_time")
            yield auto(message, ranks, *across, inner, outer), min(*flat_times, inner + outer)


def _level_laws(kind: str) -> tuple[str, ...]:
    more = (f"nvls_{kind}_in_node_time", f"auto_{kind}_all_reduce_time")
    return (*(name for name, _ in _by_levels(kind)), *more)


level_by_level = partial(
    check,
    by="simulator",
    source="the group's rings and switches played, its ranks counted on their nodes",
    tolerance=3e-4,
)


@level_by_level(*_level_laws("data_parallel"))
def gradients_level_by_level() -> Pairs:
    """1 to 5 nodes of 1 to 8 ranks, 1 kB to 1 GB"""
    return _levels_pairs(formulas, "data_parallel")


@level_by_level(*_level_laws("replica"))
def replicas_level_by_level() -> Pairs:
    """1 to 5 nodes of 1 to 8 ranks, 1 kB to 1 GB"""
    return _levels_pairs(formulas, "replica")


@level_by_level(*_level_laws("tensor_parallel"))
def activations_level_by_level() -> Pairs:
    """1 to 5 nodes of 1 to 8 ranks, 1 kB to 1 GB"""
    return _levels_pairs(formulas, "tensor_parallel")
