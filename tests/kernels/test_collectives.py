"""Collectives: simulations step by step, limits, inverses and published ratios."""

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fleetcube.kernels import collectives
from fleetcube.kernels.collectives import (
    all_gather_time,
    all_to_all_time,
    auto_all_reduce_time,
    double_binary_tree_all_reduce_time,
    hierarchical_all_reduce_time,
    point_to_point_time,
    reduce_scatter_time,
    ring_all_reduce_time,
    tree_all_reduce_time,
)
from fleetcube.kernels.topology import flat_bandwidth, flat_latency, group_ranks_per_node

Law = Callable[..., Any]

FLAT: dict[str, Law] = {
    law.__name__: law
    for law in (
        all_gather_time,
        all_to_all_time,
        double_binary_tree_all_reduce_time,
        reduce_scatter_time,
        ring_all_reduce_time,
        tree_all_reduce_time,
    )
}
ALL_REDUCES = [name for name in FLAT if name.endswith("all_reduce_time")]
EVERY = [pytest.param(law, id=name) for name, law in FLAT.items()]


# Simulations


def ring_all_reduce(ranks: int) -> tuple[int, int]:
    """Run a ring all-reduce on lists: steps taken, and chunks that each rank sent."""
    held = [[(rank + 1) * 100 + chunk for chunk in range(ranks)] for rank in range(ranks)]
    wanted = [sum(column) for column in zip(*held, strict=True)]
    steps = sent = 0
    for step in range(ranks - 1):  # reduce-scatter: pass one chunk on, add what arrives
        moving = [(r, (r - step) % ranks, held[r][(r - step) % ranks]) for r in range(ranks)]
        for rank, chunk, value in moving:
            held[(rank + 1) % ranks][chunk] += value
        steps, sent = steps + 1, sent + 1
    for step in range(ranks - 1):  # all-gather: pass on the chunk that is complete
        moving = [
            (r, (r + 1 - step) % ranks, held[r][(r + 1 - step) % ranks]) for r in range(ranks)
        ]
        for rank, chunk, value in moving:
            held[(rank + 1) % ranks][chunk] = value
        steps, sent = steps + 1, sent + 1
    assert held == [wanted] * ranks
    return steps, sent


def tree_rounds(ranks: int) -> int:
    """Rounds in which a binomial tree gathers the sums of all ranks on rank 0."""
    held = [1] * ranks
    rounds, distance = 0, 1
    while distance < ranks:
        for rank in range(0, ranks - distance, 2 * distance):
            held[rank] += held[rank + distance]
        rounds, distance = rounds + 1, 2 * distance
    assert held[0] == ranks
    return rounds


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8, 16])
def test_ring_counts_the_steps_and_bytes_of_a_ring(ranks: int) -> None:
    steps, chunks = ring_all_reduce(ranks)
    assert ring_all_reduce_time(0.0, ranks, 1.0, 1.0) == steps
    assert ring_all_reduce_time(1.0, ranks, 0.0, 1.0) == pytest.approx(chunks / ranks, rel=1e-15)


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8, 9, 100, 1023, 1024, 1025, 2**17, 2**17 + 1])
def test_tree_counts_the_rounds_of_a_tree_up_and_down(ranks: int) -> None:
    rounds = tree_rounds(ranks)
    assert tree_all_reduce_time(0.0, ranks, 1.0, 1.0) == 2 * rounds
    assert tree_all_reduce_time(1.0, ranks, 0.0, 1.0) == 2 * rounds
    assert double_binary_tree_all_reduce_time(0.0, ranks, 1.0, 1.0) == 2 * rounds


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 16])
def test_all_to_all_counts_the_messages_of_a_pairwise_exchange(ranks: int) -> None:
    sends = [(a, b) for a, b in itertools.product(range(ranks), repeat=2) if a != b]
    from_first = [pair for pair in sends if pair[0] == 0]
    assert all_to_all_time(0.0, ranks, 1.0, 1.0) == len(from_first)
    assert all_to_all_time(1.0, ranks, 0.0, 1.0) == pytest.approx(len(from_first) / ranks)


# Limits


@pytest.mark.parametrize("law", EVERY)
def test_one_rank_costs_nothing(law: Law) -> None:
    assert law(1e9, 1, 5e-6, 50e9) == 0


@pytest.mark.parametrize("law", EVERY)
def test_infinite_bandwidth_leaves_latency(law: Law) -> None:
    assert law(1e9, 64, 5e-6, math.inf) == law(0.0, 64, 5e-6, 50e9) > 0


@pytest.mark.parametrize("law", EVERY)
def test_time_is_linear_in_bytes(law: Law) -> None:
    # Hockney 1994: t = (number of hops) a + bytes / B.
    start, once, twice = (law(m, 64, 5e-6, 50e9) for m in (0.0, 1e9, 2e9))
    assert twice - once == pytest.approx(once - start, rel=1e-12)


def test_ring_moves_twice_the_message_over_many_ranks() -> None:
    assert ring_all_reduce_time(1e9, 10**6, 0.0, 1e9) == pytest.approx(2, rel=2e-6)


@pytest.mark.parametrize("name", ALL_REDUCES)
@pytest.mark.parametrize("ranks", [3, 4, 64, 1000])
def test_no_flat_all_reduce_beats_the_bandwidth_bound(name: str, ranks: int) -> None:
    # Patarasuk & Yuan 2009, theorem 1: 2 (n - 1) / n M bytes leave each rank.
    assert FLAT[name](1e9, ranks, 0.0, 1e9) >= 2 * (ranks - 1) / ranks * (1 - 1e-15)


def test_ring_is_reduce_scatter_and_all_gather() -> None:
    halves = [law(3e9, 24, 2e-6, 25e9) for law in (reduce_scatter_time, all_gather_time)]
    assert ring_all_reduce_time(3e9, 24, 2e-6, 25e9) == sum(halves)


def test_point_to_point_is_latency_and_bytes() -> None:
    assert point_to_point_time(50e9, 1.0, 50e9) == 2.0


# Crossovers


def bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a function that rises from below 0 to above it."""
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return low


@pytest.mark.parametrize("ranks", [4, 8, 48, 256, 1024])
@pytest.mark.parametrize(("tree", "passes"), [("tree", None), ("double_binary_tree", 2.0)])
def test_crossover_of_ring_and_tree(ranks: int, tree: str, passes: float | None) -> None:
    latency, bandwidth = 5e-6, 50e9
    law = FLAT[f"{tree}_all_reduce_time"]
    rounds = 2 * tree_rounds(ranks)
    hops = 2 * (ranks - 1)
    # hops a + hops M / (n B) = rounds a + passes M / B, solved for M
    extra = (rounds if passes is None else passes) - hops / ranks
    expected = latency * bandwidth * (hops - rounds) / extra
    got = bisect(
        lambda m: (
            law(m, ranks, latency, bandwidth) - ring_all_reduce_time(m, ranks, latency, bandwidth)
        ),
        1.0,
        1e15,
    )
    assert got == pytest.approx(expected, rel=1e-9)


# Two levels


def test_hierarchical_in_one_node_is_the_ring() -> None:
    inside = hierarchical_all_reduce_time(1e9, 1, 8, 1e-6, 450e9, 5e-6, 50e9)
    assert inside == ring_all_reduce_time(1e9, 8, 1e-6, 450e9)


def test_hierarchical_of_lone_ranks_is_the_ring_between_nodes() -> None:
    between = hierarchical_all_reduce_time(1e9, 16, 1, 1e-6, 450e9, 5e-6, 50e9)
    assert between == ring_all_reduce_time(1e9, 16, 5e-6, 50e9)


def test_hierarchical_moves_the_bytes_of_a_ring_where_links_are_equal() -> None:
    # (g - 1) / g + (k - 1) / (g k) = (g k - 1) / (g k)
    layered = hierarchical_all_reduce_time(1e9, 16, 8, 0.0, 50e9, 0.0, 50e9)
    assert layered == pytest.approx(ring_all_reduce_time(1e9, 128, 0.0, 50e9), rel=1e-14)


@pytest.mark.parametrize("message", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("nodes", [1, 2, 16, 128])
def test_auto_is_the_cheapest_on_offer(message: float, nodes: int) -> None:
    ranks = 8 * nodes
    intra, inter = (1e-6, 450e9), (5e-6, 50e9)
    flat = (
        flat_latency(ranks, 8, intra[0], inter[0]),
        flat_bandwidth(ranks, 8, intra[1], inter[1]),
    )
    offers = [
        ring_all_reduce_time(message, ranks, *flat),
        double_binary_tree_all_reduce_time(message, ranks, *flat),
        hierarchical_all_reduce_time(message, nodes, 8, *intra, *inter),
    ]
    assert auto_all_reduce_time(message, ranks, *flat, offers[2]) == min(offers)


# Placement


@pytest.mark.parametrize(
    ("ranks", "stride", "on_one_node"),
    # nodes of 8 GPUs; Megatron-LM's rank order puts tensor-parallel ranks side by side
    [(8, 1, 8), (4, 1, 4), (64, 1, 8), (64, 8, 1), (64, 2, 4), (64, 16, 1), (2, 2, 2)],
)
def test_ranks_of_a_group_on_one_node(ranks: int, stride: int, on_one_node: int) -> None:
    by_hand = sum(rank * stride < 8 for rank in range(ranks))
    assert group_ranks_per_node(8, stride, ranks) == on_one_node == max(by_hand, 1)


def test_every_rail_carries_its_share() -> None:
    # AWS p5, 16 H100 on two nodes of 8 NICs: 8 x 50 GB/s = 400 GB/s enter a node, NVLink has 450.
    assert flat_bandwidth(16, 8, 450e9, 50e9) == 400e9
    assert flat_bandwidth(16, 8, 300e9, 50e9) == 300e9  # NVLink 3 is slower than its 8 rails
    assert flat_bandwidth(8, 8, 450e9, 50e9) == 450e9  # one node: no rail is used
    assert flat_latency(8, 8, 1e-6, 5e-6) == 1e-6
    assert flat_latency(16, 8, 1e-6, 5e-6) == 5e-6


# Published ratios


def test_thousand_gpus_against_one_node() -> None:
    # "At least seven times slower" on 128 nodes: 6.85 with one 50 GB/s NIC per node against NVLink
    # 3 at 300 GB/s per direction (P4d), (2 1023/1024 / 50) / (2 7/8 / 300).
    far = ring_all_reduce_time(1.0, 1024, 0.0, 50e9)
    near = ring_all_reduce_time(1.0, 8, 0.0, 300e9)
    assert far / near == pytest.approx(6.85, abs=0.005)
    # NVLink 4 at 450 GB/s: 10.3
    assert far / ring_all_reduce_time(1.0, 8, 0.0, 450e9) == pytest.approx(10.3, abs=0.05)


# Scalars and arrays


@pytest.mark.parametrize(
    "law",
    [
        pytest.param(law, id=name)
        for name, law in inspect.getmembers(collectives, inspect.isfunction)
        if law.__module__ == collectives.__name__
    ],
)
def test_scalars_and_arrays_give_the_same(law: Law) -> None:
    rows = {
        "message_bytes": [1e3, 1e6, 1e9],
        "latency": [1e-6, 5e-6],
        "bandwidth": [50e9, 450e9],
    }
    axes = []
    for name in inspect.signature(law).parameters:
        quantity = name.removeprefix("intra_").removeprefix("inter_")
        axes.append(np.array(rows.get(quantity, [1.0, 2.0, 7.0, 64.0])))
    if law is collectives.fitted_crossover_bytes:
        axes[1] = axes[1] / 100  # the first law is the one with the smaller slope
    grid = np.meshgrid(*axes, indexing="ij", sparse=True)
    whole = np.broadcast_to(law(*grid), [axis.size for axis in axes])
    points = itertools.product(*(axis.tolist() for axis in axes))
    for index, point in enumerate(itertools.islice(points, 0, None, 7)):
        assert float(law(*point)) == whole.reshape(-1)[7 * index]
