"""A torus simulated link by link: bytes of partial sums and messages are counted."""

import itertools
from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from scipy.optimize import linprog

from fleetcube.kernels.laws import torus

from ...evaluated import computed
from ..check import Pairs, check
from ..model.models import MIXTRAL

Chip = tuple[int, int, int]
Link = tuple[Chip, int, int]  # from a chip, along a dimension, in a direction


class Torus:
    """Chips in three dimensions, each a ring or a line."""

    def __init__(self, sizes: Chip, rings: tuple[bool, bool, bool]) -> None:
        self.sizes, self.rings = sizes, rings
        self.ways = [2 if ring else 1 for ring in rings]

    def chip(self, number: int) -> Chip:
        """The chip of a number: along x first, then y, then z."""
        x, y, _ = self.sizes
        return number % x, number // x % y, number // (x * y)

    def groups(self, stride: int, ranks: int) -> Iterator[list[Chip]]:
        for first in range(0, prod(self.sizes), stride * ranks):
            for inner in range(stride):
                yield [self.chip(first + inner + stride * rank) for rank in range(ranks)]

    def ways_from(self, a: int, b: int, dim: int, group: set[int]) -> list[tuple[float, int]]:
        """Routes of a message along a dimension: shares and steps; both ways if equally long."""
        size = self.sizes[dim]
        direct = b - a
        if not self.rings[dim] or len(group) * _step(group) < size:  # other groups' links
            return [(1.0, direct)]
        other = direct - size if direct > 0 else direct + size
        if abs(direct) == abs(other):
            return [(0.5, direct), (0.5, other)]
        return [(1.0, direct if abs(direct) < abs(other) else other)]

    def hops(self, a: Chip, b: Chip, group: list[Chip]) -> int:
        along = [{chip[dim] for chip in group} for dim in range(3)]
        return sum(
            abs(self.ways_from(a[d], b[d], d, along[d])[0][1]) for d in range(3) if a[d] != b[d]
        )


def _step(along: set[int]) -> int:
    row = sorted(along)
    return row[1] - row[0] if len(row) > 1 else 1


def _walk(net: Torus, chip: Chip, dim: int, steps: int) -> Iterator[tuple[Link, Chip]]:
    """The links of a straight path, and where each ends."""
    way = 1 if steps > 0 else -1
    for _ in range(abs(steps)):
        start = chip
        moved = list(chip)
        moved[dim] = (moved[dim] + way) % net.sizes[dim]
        chip = tuple(moved)  # type: ignore[assignment]
        yield (start, dim, way), chip


def reduce_loads(net: Torus, stride: int, ranks: int, order: tuple[int, ...]) -> Counter[Link]:
    """Bytes on each link while every group reduce-scatters a byte per rank, dimension by dimension.

    Every rank's share of the sums travels to it; chips on the way add theirs once.
    """
    loads: Counter[Link] = Counter()
    for group in net.groups(stride, ranks):
        along = [{chip[dim] for chip in group} for dim in range(3)]
        for home in group:
            done: list[int] = []
            for dim in order:
                # one partial sum on each chip that still differs from home in later dimensions
                lines = [c for c in group if all(c[d] == home[d] for d in done)]
                sent: dict[Link, float] = {}
                for chip in lines:
                    for share, steps in net.ways_from(chip[dim], home[dim], dim, along[dim]):
                        for link, _ in _walk(
                            net, chip, dim, steps if chip[dim] != home[dim] else 0
                        ):
                            sent[link] = max(sent.get(link, 0.0), share)
                for link, share in sent.items():
                    loads[link] += share / ranks
                done.append(dim)
    return loads


def reduce_time(net: Torus, stride: int, ranks: int) -> float:
    """Least time to reduce-scatter a byte per rank at 1 B/s, with the best mix of orders."""
    group = next(net.groups(stride, ranks))
    used = tuple(d for d in range(3) if len({chip[d] for chip in group}) > 1)
    orders = list(itertools.permutations(used))
    loads = [reduce_loads(net, stride, ranks, order) for order in orders]
    links = sorted({link for load in loads for link in load})
    rows = np.array([[load[link] for load in loads] for link in links])
    count = len(orders)
    best = linprog(
        [*[0.0] * count, 1.0],
        A_ub=np.column_stack([rows, -np.ones(len(links))]),
        b_ub=np.zeros(len(links)),
        A_eq=[[*[1.0] * count, 0.0]],
        b_eq=[1.0],
    )
    return float(best.fun)


def exchange_time(net: Torus, stride: int, ranks: int) -> float:
    """Time of an all-to-all of a byte per rank at 1 B/s, along shortest paths."""
    loads: Counter[Link] = Counter()
    for group in net.groups(stride, ranks):
        along = [{chip[dim] for chip in group} for dim in range(3)]
        for chip, home in itertools.permutations(group, 2):
            at = chip
            for dim in range(3):
                if at[dim] == home[dim]:
                    continue
                for share, steps in net.ways_from(at[dim], home[dim], dim, along[dim]):
                    for link, end in _walk(net, at, dim, steps):
                        loads[link] += share / ranks
                        last = end
                at = last
    return max(loads.values())


RINGS = (True, True, True)
NETS = [
    (Torus((4, 4, 4), RINGS), [(1, 4), (4, 4), (1, 16), (4, 16), (16, 4), (1, 64), (2, 2), (2, 8)]),
    (Torus((8, 4, 1), (True, False, False)), [(1, 8), (1, 4), (2, 4), (8, 4), (1, 32)]),
    (Torus((4, 8, 2), (False, False, False)), [(1, 4), (4, 8), (1, 64), (32, 2)]),
    (Torus((16, 1, 1), (True, False, False)), [(1, 16), (1, 4), (4, 4), (8, 2)]),
]
PLACED = [(net, stride, ranks) for net, groups in NETS for stride, ranks in groups]


def _placed(net: Torus, stride: int, ranks: int) -> tuple[Any, ...]:
    return ranks, stride, *map(float, net.sizes), *net.ways


@check("torus_extent torus_step", by="derivation", source="chips of placed groups counted")
def boxes() -> Pairs:
    """groups of 2 to 64 chips, neighbours 1 to 32 chips apart, on tori of 16 to 64 chips"""
    for net, stride, ranks in PLACED:
        group = next(net.groups(stride, ranks))
        for dim, size in enumerate(net.sizes):
            inside = prod(net.sizes[:dim])
            along = {chip[dim] for chip in group}
            yield torus.torus_extent(ranks, stride, inside, size), len(along)
            if len(along) > 1:
                yield torus.torus_step(stride, inside, size), _step(along)


@check("torus_hops", by="simulator", source="shortest ways between all chips of placed groups")
def farthest() -> Pairs:
    """groups of 2 to 64 chips on rings, lines and parts of rings"""
    for net, stride, ranks in PLACED:
        group = next(net.groups(stride, ranks))
        pairs = itertools.product(group[:1] + group[-1:], group)
        yield (
            torus.torus_hops(*_placed(net, stride, ranks)),
            max(net.hops(a, b, group) for a, b in pairs),
        )


@check(
    "torus_bandwidth torus_reduce_scatter_time",
    by="simulator",
    source="partial sums carried link by link, groups at once, orders of dimensions mixed by a "
    "linear program",
    tolerance=1e-6,
)
def reductions() -> Pairs:
    """groups of 2 to 64 chips on rings, lines and parts of rings, in one to three dimensions"""
    for net, stride, ranks in PLACED:
        rate = torus.torus_bandwidth(*_placed(net, stride, ranks), 1.0)
        ours = torus.torus_reduce_scatter_time(1.0, ranks, ranks, 0, 0, rate, 0, 1.0)
        yield ours, reduce_time(net, stride, ranks)


def _exchanged(
    message: float, ranks: int, here: tuple[Any, ...], twist: float, *links: float
) -> Any:
    hops, load = torus.torus_hops(*here), torus.torus_load(*here, twist)
    return torus.torus_all_to_all_time(message, ranks, here[0], hops, load, *links)


@check(
    *("torus_all_to_all_time", "torus_load"),
    by="simulator",
    source="messages between all pairs carried link by link, by shortest ways",
)
def exchanges() -> Pairs:
    """groups of 2 to 64 chips on rings, lines and parts of rings, in one to three dimensions"""
    for net, stride, ranks in PLACED:
        here = _placed(net, stride, ranks)
        ours = _exchanged(1.0, ranks, here, 0.0, 0.0, 1.0, 0.0, 1.0)
        yield ours, exchange_time(net, stride, ranks)


@check("neighbour_links", by="derivation", source="the way between neighbours of placed groups")
def neighbours() -> Pairs:
    """groups of 2 to 64 chips, neighbours 1 to 32 chips apart"""
    for net, stride, ranks in PLACED:
        first, second, *_ = next(net.groups(stride, ranks))
        steps = sum(abs(a - b) for a, b in zip(first, second, strict=True))
        yield torus.neighbour_links(stride, *net.sizes[:2]), steps


@check(
    "torus_ways",
    by="table",
    source="MaxText, src/maxtext/utils/accelerator_to_spec_map.py (dimensions that wrap); Google "
    "Cloud TPU v5p documentation (full tori from a cube of 4 x 4 x 4 on: not where flat)",
)
def rings() -> Pairs:
    """slices of v4 and v5p from 4 to 4480 chips, four of them flat, of v5e and v6e from 1 to 256"""
    lines = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 1), (8, 8, 1), (64, 1, 1))
    cubes = ((4, 4, 4), (4, 4, 12), (4, 8, 8), (8, 8, 16), (8, 16, 16), (12, 16, 16), (8, 20, 28))
    for shape in (*lines, *cubes):
        ours = [torus.torus_ways(*shape[k:], *shape[:k], 4, 3) for k in range(3)]
        yield ours, [2 if shape in cubes else 1] * 3
    for flat in ((1, 1), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16)):
        ours = [torus.torus_ways(*pair, 1, 16, 2) for pair in (flat, flat[::-1])]
        yield ours, [2 if size == 16 else 1 for size in flat]


@check(
    "torus_bandwidth torus_load",
    by="table",
    source="Google Cloud TPU v5e documentation: 51.2 TB/s of all-reduce and 1.6 TB/s of bisection",
)
def published_pod() -> Pairs:
    """a pod of 256 chips with links of 50 GB/s"""
    pod = (256, 1, 16.0, 16.0, 1.0, 2.0, 2.0, 1.0)
    yield 256 * torus.torus_bandwidth(*pod, 50e9), 51.2e12
    seconds = _exchanged(1e9, 256, pod, 0.0, 0.0, 50e9, 0.0, 1.0)
    yield 128 * 0.5e9 / seconds, 1.6e12


@check(
    "torus_reduce_scatter_time torus_hops",
    by="table",
    source="Austin et al. 2025 (How to Scale Your Model), part 3: pop quiz 2 and question 3",
    tolerance=0.01,
)
def worked_examples() -> Pairs:
    """32 MiB gathered over 4 of 8 x 4 chips of v5e; nothing gathered over a ring of 4 of v4"""
    quiz = (4, 8, 8.0, 4.0, 1.0, 1.0, 1.0, 1.0)
    rate = torus.torus_bandwidth(*quiz, 4.5e10)
    yield torus.torus_reduce_scatter_time(2048 * 8192 * 2, 4, 4, 0, 0, rate, 0, 1.0), 560e-6
    hops = torus.torus_hops(4, 1, 4.0, 4.0, 4.0, 2.0, 2.0, 2.0)
    yield torus.torus_reduce_scatter_time(0.0, 4, 4, hops, 1e-6, 9e10, 0, 1.0), 2e-6


@check(
    "torus_reduce_scatter_time torus_all_to_all_time",
    by="derivation",
    source="each level alone: bytes and hops inside a torus, then between tori",
)
def several_tori() -> Pairs:
    """8 chips in each of 4 tori, slow and fast networks between them"""
    net = Torus((8, 1, 1), (True, False, False))
    here = (8, 1, 8.0, 1.0, 1.0, 2.0, 1.0, 1.0)
    for outer in (0.01, 100.0):
        inside = 4 * 1e-3 + reduce_time(net, 1, 8) / torus.torus_bandwidth(*here, 1.0) * 2
        ring = 3 * (1e-2 + 1 / 8 / 4 / outer)
        ours = torus.torus_reduce_scatter_time(1.0, 32, 8, 4, 1e-3, 2.0, 1e-2, outer)
        yield ours, inside + ring
        away = 24 * 1e-2 + 4 * 1e-3
        bytes_at_once = max(exchange_time(net, 1, 8) * 8 / 32, 24 / 32 / outer)
        ours = _exchanged(1.0, 32, here, 0.0, 1e-3, 1.0, 1e-2, outer)
        yield ours, away + bytes_at_once


def mean_distance(sizes: Chip, shifts: dict[int, dict[int, int]]) -> float:
    """Mean number of links from a chip to all, itself included; wraps shift other dimensions."""
    far = {(0, 0, 0): 0}
    queue = [(0, 0, 0)]
    for chip in queue:
        for dim, way in itertools.product(range(3), (1, -1)):
            moved = list(chip)
            moved[dim] += way
            if not 0 <= moved[dim] < sizes[dim]:
                for other, shift in shifts.get(dim, {}).items():
                    moved[other] += shift * way
            there = tuple(a % b for a, b in zip(moved, sizes, strict=True))
            if there not in far:
                far[there] = far[chip] + 1  # type: ignore[index]
                queue.append(there)  # type: ignore[arg-type]
    return sum(far.values()) / len(far)


@check("twisted_load", by="derivation", source="ways between all chips found link by link")
def twisted() -> Pairs:
    """n x n x 2n and n x 2n x 2n, n = 4, 8 and 12; wraps shift the long dimensions by n"""
    for n in (4, 8, 12):
        both = {0: {2: n}, 1: {2: n}}
        yield torus.twisted_load(n, n, 2 * n), mean_distance((n, n, 2 * n), both) / 6
        one = {0: {1: n, 2: n}}
        yield torus.twisted_load(n, 2 * n, 2 * n), mean_distance((n, 2 * n, 2 * n), one) / 6


@check(
    "torus_load twisted_load",
    by="table",
    source="Jouppi et al. 2023 (TPU v4), section 2: all-to-alls gain 1.63 and 1.31",
    tolerance=0.08,
)
def twisted_gains() -> Pairs:
    """4 x 4 x 8 and 4 x 8 x 8 chips, twisted over plain"""
    for sizes, gain in (((4.0, 4.0, 8.0), 1.63), ((4.0, 8.0, 8.0), 1.31)):
        chips = prod(sizes)
        here = (chips, 1, *sizes, 2.0, 2.0, 2.0)
        plain, shifted = (
            _exchanged(1.0, chips, here, twist, 0.0, 1.0, 0.0, 1.0) for twist in (0.0, 1.0)
        )
        yield plain / shifted, gain


# Quantities: two tori of 4 x 4 x 4 chips, with links of 1 GB/s, and a network between them

CUBE = NETS[0][0]
LINK, HOP, OUTER, FAR = 1e9, 1e-6, 0.1e9, 1e-5
JOB: dict[str, Any] = {
    **{"n_gpus": 128, "gpus_per_node": 64, "torus_x": 4, "torus_y": 4, "tensor_parallel": 4},
    **{"intra_node_bandwidth": 6 * LINK, "intra_node_latency": HOP},
    **{"inter_node_bandwidth": OUTER, "inter_node_latency": FAR},
    **{"layers": 32, "hidden_size": 4096, "global_batch_size": 64},
}


def _gathered(message: float, stride: int, ranks: int, slices: int) -> float:
    """Simulated time to gather a message from the ranks of each torus and from all tori."""
    group = next(CUBE.groups(stride, ranks))
    hops = max(CUBE.hops(group[0], other, group) for other in group)
    inside = hops * HOP + reduce_time(CUBE, stride, ranks) * message / LINK if ranks > 1 else 0.0
    return inside + (slices - 1) * (FAR + message / ranks / slices / OUTER)


@check(
    "torus_z torus_link_bandwidth tensor_torus_bandwidth tensor_torus_hops "
    "torus_tensor_parallel_gather_time torus_tensor_parallel_all_reduce_time "
    "torus_data_parallel_all_reduce_time torus_gradient_reduce_scatter_time "
    "torus_weight_all_gather_time torus_context_send_time torus_pipeline_send_time",
    by="simulator",
    source="partial sums carried link by link in each cube, then rings between the cubes",
    tolerance=1e-6,
)
def a_job_on_two_cubes() -> Pairs:
    """tensor groups of 4 and 16 chips, replicas along the rest of two cubes; ring attention"""
    names = ("torus_z", "torus_link_bandwidth", "activation_message", "bucket_message")
    times = ("tensor_parallel_gather_time", "tensor_parallel_all_reduce_time")
    more = ("gradient_reduce_scatter_time", "weight_all_gather_time")
    for tensor in (4, 16):
        job = JOB | {"tensor_parallel": tensor}
        z, link, activation, bucket, *ours = computed(job, *names, *times, *more)
        yield z, CUBE.sizes[2]
        yield link, LINK
        half = _gathered(activation, 1, tensor, 1)
        gradients = _gathered(bucket, tensor, 64 // tensor, 2)
        yield from zip(ours, (half, 2 * half, gradients, gradients), strict=True)
        whole = computed(job | {"zero_stage": 0}, "data_parallel_all_reduce_time")[0]
        yield whole, 2 * gradients
    for tensor, links in ((2, 2), (4, 1), (1, 1)):  # neighbours along x share its links
        job = JOB | {"tensor_parallel": tensor, "context_parallel": 2}
        message, ours = computed(job, "context_message", "context_send_time")
        yield ours, links * (HOP + message / LINK)
    stages = JOB | {"n_gpus": 64, "pipeline_parallel": 4, "tensor_parallel": 2}
    message, ours = computed(stages, "pipeline_message", "pipeline_send_time")
    yield ours, HOP + message / LINK  # 16 chips on: one layer of the cube
    stages |= {"n_gpus": 128, "pipeline_parallel": 2}
    message, ours = computed(stages, "pipeline_message", "pipeline_send_time")
    yield ours, FAR + message / OUTER  # 64 chips on: the other cube


@check(
    "mixed_gradient_torus_bandwidth expert_gradient_torus_bandwidth",
    by="simulator",
    source="messages and partial sums carried link by link: experts' groups beside those of the "
    "other weights",
    tolerance=1e-6,
)
def experts_on_a_cube() -> Pairs:
    """Mixtral 8x7B, experts over 4 and 8 of 16 ranks on a cube, 1 to 4 of which share a sequence"""
    for experts, context in itertools.product((4, 8), (1, 2, 4)):
        job = JOB | MIXTRAL | {"n_gpus": 64, "expert_parallel": experts}
        job |= {"context_parallel": context}
        for order in ("tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"):  # with one stage, placements are equal
            yield computed(job | {"rank_order": order}, "torus_reason")[0], 0
        message, ours = computed(job, "expert_message", "expert_all_to_all_time")
        group = next(CUBE.groups(4, experts))
        hops = max(CUBE.hops(group[0], other, group) for other in group)
        yield ours, hops * HOP + exchange_time(CUBE, 4, experts) * message / LINK
        total, routed = computed(job, "parameters", "routed_parameters")
        dense = (total - routed) / 4 * 2 * reduce_time(CUBE, 4, 16)
        own = routed / 4 / experts * 2 * reduce_time(CUBE, 4 * experts, 16 // experts)
        ours = computed(job | {"intra_node_latency": 0.0}, "gradient_reduce_scatter_time")[0]
        yield ours, (dense + own) / LINK


@check(
    "torus_replica_all_reduce_time",
    by="simulator",
    source="partial sums carried link by link between chips that hold the same shard",
    tolerance=1e-6,
)
def sharding_groups_on_a_cube() -> Pairs:
    """16 replicas on a cube in sharding groups of 1, 4 and 8"""
    for shard in (1, 4, 8):
        job = JOB | {"n_gpus": 64, "data_parallel_shard": shard}
        message, ours = computed(job, "replica_message", "replica_all_reduce_time")
        group = next(CUBE.groups(4 * shard, 16 // shard))
        hops = max(CUBE.hops(group[0], other, group) for other in group)
        moved = reduce_time(CUBE, 4 * shard, 16 // shard) * message / LINK
        yield ours, 2 * (hops * HOP + moved)


# Slices of 64 chips with links in two dimensions, from pods of 16 x 16
FLAT = {"torus_dimensions": 2, "largest_slice": 256, "torus_ring_multiple": 16}
FLATS = ((8, 8, 0), (4, 16, 0), (16, 4, 0), (32, 2, 25), (64, 1, 25), (4, 4, 24), (8, 2, 24))


@check(
    "torus_shape_reason ring_torus_reason outer_torus_order_reason inner_torus_order_reason",
    by="derivation",
    source="chips of each group listed, and whether they fill a box; pods of the data sheet",
)
def what_a_torus_holds() -> Pairs:
    """slices of v5p that hold a job, and that do not"""
    good = JOB | {"largest_slice": 6144, "attention_heads": 48, "hidden_size": 6144}
    for changed, code in (
        ({}, 0),
        ({"n_gpus": 96, "global_batch_size": 96}, 24),  # a slice and a half
        ({"gpus_per_node": 8, "torus_x": 2, "torus_y": 2}, 0),
        ({"torus_x": 3}, 24),  # 64 chips in rows of 3
        ({"n_gpus": 144, "gpus_per_node": 72, "torus_x": 6, "torus_y": 4}, 24),  # 4 of a row of 6
        ({"n_gpus": 144, "gpus_per_node": 72, "torus_x": 6, "torus_y": 4, "tensor_parallel": 3}, 0),
        ({"data_parallel_shard": 4}, 0),
        ({"data_parallel_shard": 32}, 0),
        ({"data_parallel_shard": 4, "rank_order": "tp-cp-ep-pp-dp"}, 0),  # one stage: same seats
        (MIXTRAL | {"sequence_parallel": True, "expert_tensor_parallel": 2}, 24),
        (MIXTRAL | {"sequence_parallel": True, "expert_tensor_parallel": 4}, 0),
        ({"largest_slice": 32}, 25),
        ({"rank_order": "tp-cp-ep-pp-dp", "pipeline_parallel": 2}, 24),
        *((FLAT | {"torus_x": x, "torus_y": y}, code) for x, y, code in FLATS),
        *(({"torus_dimensions": d}, 24) for d in (1, 2, 2.5, 4)),  # chips that have no third links
        ({"hbm_capacity": 1e9}, 10),
        ({"tensor_parallel": 5}, 3),
        ({"twisted_torus": True}, 24),  # a cube
        ({"gpus_per_node": 4}, 24),  # a host
        ({"gpus_per_node": 4, "gpus_per_domain": 64}, 0),  # hosts of one slice
        ({"gpus_per_node": 128, "twisted_torus": True}, 0),
        ({"n_gpus": 64, "gpus_per_node": 16, "torus_x": 2, "twisted_torus": True}, 24),
    ):
        job = good | {"global_batch_size": 144 if "n_gpus" in changed else 64} | changed
        yield computed(job, "infeasible_reason")[0], code


@check(
    "torus_context_gather_step_time torus_head_exchange_time torus_head_ring_send_time "
    "head_sharing_ranks_per_node",
    by="simulator",
    source="partial sums and messages carried link by link: gathers run as reductions backwards",
    tolerance=1e-6,
)
def sequences_on_a_cube() -> Pairs:
    """1, 4 and 16 ranks that share sequences of 32,768 tokens, 4 tensor ranks each"""
    for ranks in (1, 4, 16):
        job = JOB | {"n_gpus": 64, "context_parallel": ranks, "sequence_length": 32768}
        gathered = job | {"context_parallel_type": "all_gather"}
        message, step = computed(gathered, "context_message", "context_gather_step_time")
        theirs = _gathered(ranks * message, 4, ranks, 1)
        yield step * (ranks - 1), theirs
        shared = job | {"context_parallel_type": "a2a"}
        message, ours = computed(shared, "head_message", "head_exchange_time")
        group = next(CUBE.groups(4, ranks))
        hops = max(CUBE.hops(group[0], other, group) for other in group)
        moved = exchange_time(CUBE, 4, ranks) if ranks > 1 else 0.0
        yield ours, 4 * hops * HOP + moved * message / LINK
    for tensor, links in ((1, 2), (2, 1), (4, 2)):  # 2 ranks share heads: 2, 4 and 8 chips on
        job = JOB | {"n_gpus": 64, "tensor_parallel": tensor, "context_parallel": 16}
        job |= {"context_parallel_type": "a2a+p2p", "head_sharing_ranks": 2}
        message, ours = computed(job, "head_ring_message", "head_ring_send_time")
        yield ours, links * (HOP + message / LINK)
