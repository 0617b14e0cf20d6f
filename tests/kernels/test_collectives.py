"""Collectives: limits, crossovers, published ratios; tests/laws/ simulates their messages."""

import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fleetcube.kernels.laws import collectives
from fleetcube.kernels.laws.collectives import (
    all_gather_time,
    all_to_all_time,
    double_binary_tree_all_reduce_time,
    fitted_all_reduce_time,
    nvls_all_reduce_time,
    recursive_halving_doubling_all_reduce_time,
    reduce_scatter_time,
    ring_all_reduce_time,
    ring_tree_crossover_bytes,
    switch_all_reduce_time,
    tree_all_reduce_time,
)

Law = Callable[..., Any]

FLAT: dict[str, Law] = {
    law.__name__: law
    for law in (
        all_gather_time,
        all_to_all_time,
        double_binary_tree_all_reduce_time,
        nvls_all_reduce_time,
        recursive_halving_doubling_all_reduce_time,
        reduce_scatter_time,
        ring_all_reduce_time,
        switch_all_reduce_time,
        tree_all_reduce_time,
    )
}
SWITCHED = ("nvls_all_reduce_time", "switch_all_reduce_time")
ALL_REDUCES = [name for name in FLAT if name.endswith("all_reduce_time") and name not in SWITCHED]
EVERY = [pytest.param(law, id=name) for name, law in FLAT.items()]


# Exact counts


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8, 9, 100, 1023, 1024, 1025, 2**17, 2**17 + 1])
def test_trees_count_the_rounds_of_a_tree_up_and_down(ranks: int) -> None:
    rounds = (ranks - 1).bit_length()  # holders double in each
    assert tree_all_reduce_time(0.0, ranks, 1.0, 1.0) == 2 * rounds
    assert tree_all_reduce_time(1.0, ranks, 0.0, 1.0) == 2 * rounds
    assert double_binary_tree_all_reduce_time(0.0, ranks, 1.0, 1.0) == 2 * rounds


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


@pytest.mark.parametrize("name", ALL_REDUCES)
@pytest.mark.parametrize("ranks", [3, 4, 64, 1000])
def test_no_flat_all_reduce_beats_the_bandwidth_bound(name: str, ranks: int) -> None:
    # Patarasuk & Yuan 2009, theorem 1: 2 (n - 1) / n M bytes leave each rank.
    assert FLAT[name](1e9, ranks, 0.0, 1e9) >= 2 * (ranks - 1) / ranks * (1 - 1e-15)


# Crossovers


@pytest.mark.parametrize("ranks", [1, 1.5, 2, 2.5, 3])
def test_ring_and_tree_of_few_ranks_do_not_cross(ranks: float) -> None:
    assert ring_tree_crossover_bytes(ranks, 5e-6, 50e9) == 0


# Published ratios


def test_thousand_gpus_against_one_node() -> None:
    # "At least seven times slower" on 128 nodes: 6.85 with one 50 GB/s NIC per node against NVLink
    # 3 at 300 GB/s per direction (P4d), (2 1023/1024 / 50) / (2 7/8 / 300).
    far = ring_all_reduce_time(1.0, 1024, 0.0, 50e9)
    near = ring_all_reduce_time(1.0, 8, 0.0, 300e9)
    assert far / near == pytest.approx(6.85, abs=0.005)
    # NVLink 4 at 450 GB/s: 10.3
    assert far / ring_all_reduce_time(1.0, 8, 0.0, 450e9) == pytest.approx(10.3, abs=0.05)


@pytest.mark.parametrize(
    ("ring", "nvls"),
    # GB/s on 8 GPUs, bus bandwidth of 8 and 16 GiB: 8 H200 and 8 B200 (S. Bekman, Machine Learning
    # Engineering, network benchmarks)
    [(365.6, 473.1), (367.2, 480.0), (682.2, 838.0)],
)
def test_nvls_gains_no_more_than_its_bytes_allow(ring: float, nvls: float) -> None:
    bound = float(ring_all_reduce_time(1.0, 8, 0.0, 1.0) / nvls_all_reduce_time(1.0, 8, 0.0, 1.0))
    assert bound == pytest.approx(2 * 7 / 9, rel=1e-14)
    assert 0.75 * bound < nvls / ring < bound


# Megabytes (2^20) and microseconds of all-reduces on 16 A100, 2 nodes, 400 Gb/s each
# (awsome-distributed-training, nccl-tests on p4de.24xlarge).
MEASURED = [
    (0.125, 229.7), (0.5, 260.3), (1, 309.4), (2, 432.6), (8, 762.8), (16, 1191.8), (32, 1540.2),
    (128, 3912.9), (256, 7201.7), (512, 13552.0), (2048, 51406.0),
]  # fmt: skip


def test_a_square_root_halves_the_error_of_a_fit_to_measured_times() -> None:
    message, time = (np.array(column) for column in zip(*MEASURED, strict=True))
    message, time = message * 2**20, time * 1e-6
    shapes = [
        fitted_all_reduce_time(message, 16, 1.0, math.inf, 0.0),
        fitted_all_reduce_time(message, 16, 0.0, 1.0, 0.0),
        fitted_all_reduce_time(message, 16, 0.0, math.inf, 1.0),
    ]
    errors = []
    for count in (2, 3):
        rows = np.stack(shapes[:count], axis=1) / time[:, None]
        found = np.linalg.lstsq(rows, np.ones(len(time)), rcond=None)[0]
        errors.append(np.median(np.abs(rows @ found - 1)))
    assert errors[1] < 0.06 < 2 * errors[1] < errors[0]
    latency, per_byte, root = found
    fitted = fitted_all_reduce_time(message, 16, latency, 1 / per_byte, root)
    np.testing.assert_allclose(fitted, time, rtol=0.15)


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
    rows = {"message_bytes": [1e3, 1e6, 1e9], "latency": [1e-6, 5e-6], "bandwidth": [50e9, 450e9]}
    axes = []
    for name in inspect.signature(law).parameters:
        quantity = name.removeprefix("intra_").removeprefix("inter_")
        axes.append(np.array(rows.get(quantity, [1.0, 2.0, 7.0, 64.0])))
    grid = np.meshgrid(*axes, indexing="ij", sparse=True)
    whole = np.broadcast_to(law(*grid), [axis.size for axis in axes])
    points = itertools.product(*(axis.tolist() for axis in axes))
    for index, point in enumerate(itertools.islice(points, 0, None, 7)):
        assert float(law(*point)) == whole.reshape(-1)[7 * index]
