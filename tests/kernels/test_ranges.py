"""Ranges of formulas hold every value that the formulas compute, to the last bit."""

import math
from typing import Any

import numpy as np
import pytest

from fleetcube.kernels.calculus import ranges
from fleetcube.kernels.calculus.ranges import Range
from fleetcube.kernels.graph.bind import NUMPY
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.physics.graph import PHYSICS

from ..draws import generator
from ..table import each

Array = np.ndarray[Any, Any]
BOXES, POINTS = 40, 9
BIND = ranges.library().binding.bind
FORMULAS = {
    function: None
    for quantity in PHYSICS.quantities.values()
    for function in quantity.formulas.values()
    if parameters(function)
}


def draws(rng: np.random.Generator, size: int) -> Array:
    """Numbers of a kind: counts, shares, of any size or sign, or NaN."""
    kinds: list[Any] = [
        lambda: rng.choice([0.0, 1.0, 2.0, 3.0, 4.0, 8.0, 13.0], size),
        lambda: rng.choice([0.0, -0.0, 1.0, 5.0, np.inf, np.nan], size),
        lambda: np.exp(rng.uniform(-20, 20, size)),
        lambda: rng.uniform(0, 1, size),
        lambda: rng.uniform(-2, 2, size),
        lambda: rng.integers(1, 200, size).astype(float),
    ]
    return np.asarray(kinds[rng.integers(len(kinds))]())


def boxes(rng: np.random.Generator) -> Array:
    """An operand at the points of boxes: any numbers, numbers close together, or one number."""
    if rng.random() < 0.6:
        return draws(rng, BOXES * POINTS).reshape(BOXES, POINTS)
    near = 1 + rng.choice([0.0, 1e-15, 0.1]) * rng.random((BOXES, POINTS))
    return draws(rng, BOXES)[:, None] * near


def range_of(points: Array) -> Range:
    missing = np.isnan(points)
    low = np.where(missing, np.inf, points).min(axis=1)
    high = np.where(missing, -np.inf, points).max(axis=1)
    some = low <= high
    return Range(np.where(some, low, 0.0), np.where(some, high, 0.0), missing.any(axis=1))


def values(function: Any, operands: list[Any]) -> Array:
    with np.errstate(all="ignore"):
        return np.broadcast_to(
            np.asarray(NUMPY.bind(function)(*operands), float), operands[0].shape
        )


@pytest.mark.slow
def test_ranges_hold_what_formulas_compute() -> None:
    rng = generator(1)
    finite = points = 0
    for function in FORMULAS:
        operands = [boxes(rng) for _ in parameters(function)]
        found = values(function, operands)
        with np.errstate(all="ignore"):
            out = ranges.as_range(BIND(function)(*map(range_of, operands)))
        low, high, nan = (
            np.broadcast_to(part, BOXES)[:, None] for part in (out.low, out.high, out.nan)
        )
        held = np.where(np.isnan(found), nan, (low <= found) & (found <= high))
        assert held.all(), function
        finite, points = finite + np.isfinite(low).sum(), points + BOXES
    assert finite > 0.5 * points  # infinite ranges contain everything


def test_the_range_of_one_point_is_its_value() -> None:
    rng = generator(2)
    for function in FORMULAS:
        operands = [np.abs(draws(rng, BOXES)) for _ in parameters(function)]
        operands = [np.where(np.isfinite(x) & (x > 0), x, 1.0) for x in operands]
        found = values(function, operands)
        with np.errstate(all="ignore"):
            out = ranges.as_range(BIND(function)(*[Range(x, x) for x in operands]))
        low, high = np.broadcast_to(out.low, BOXES), np.broadcast_to(out.high, BOXES)
        known = np.isfinite(low) & np.isfinite(high) & np.isfinite(found)
        np.testing.assert_array_equal(low[known], found[known], str(function))
        np.testing.assert_array_equal(high[known], found[known], str(function))


X = Range(np.array([-2.0]), np.array([3.0]))
Y = Range(np.array([0.0]), np.array([5.0]))
ENDLESS = Range(np.array([1.0]), np.array([np.inf]))


ARITHMETIC: list[tuple[Any, float, float, bool]] = [
    (lambda: X * X, 0, 9, False),
    (lambda: X * Y, -10, 15, False),
    (lambda: X - Y, -7, 3, False),
    (lambda: 1 / X, -math.inf, math.inf, False),
    (lambda: Y / ENDLESS, 0, 5, False),
    (lambda: Y * ENDLESS, 0, math.inf, True),  # 0 times infinity
    (lambda: ENDLESS - ENDLESS, -math.inf, math.inf, True),
    (lambda: ENDLESS / ENDLESS, 0, math.inf, True),
    (lambda: Y / Y, -math.inf, math.inf, True),
    (lambda: ranges.where(X > 0, X, 1.0), 5e-324, 3, False),  # what is chosen holds
    (lambda: ranges.where(Y == 0, 7.0, Y), 5e-324, 7, False),
    (lambda: ranges.where((X >= 1) & (X <= 2), X, 1.5), 1, 2, False),
    (lambda: ranges.where(X == X, X, math.nan), -2, 3, False),
]


@each(("compute", "low", "high", "nan"), ARITHMETIC)
def test_arithmetic_of_ranges(compute: Any, low: float, high: float, nan: bool) -> None:
    with np.errstate(all="ignore"):
        found = compute()
    assert (found.low.item(), found.high.item(), bool(np.all(found.nan))) == (low, high, nan)


def test_functions_of_the_library_keep_a_margin() -> None:
    library: Any = ranges.library()
    ends = Range(np.array([1.0, 2.0, 700.0]), np.array([2.0, 2.0, 800.0]))
    with np.errstate(all="ignore"):
        found, least = library.exp(ends), library.log(X)
    assert found.low[0] < math.exp(1.0) * (1 - 1e-15)
    assert found.high[0] > math.exp(2.0) * (1 + 1e-15)
    assert found.low[1] == found.high[1] == np.exp(2.0)
    assert np.isfinite(found.low[2])
    assert found.high[2] == np.inf
    assert library.exp(Range(np.array([-800.0]), np.array([0.0]))).low[0] == 0  # never below
    assert least.nan.all()
    assert least.low[0] == -np.inf
    assert library.sqrt(X).low[0] == 0
