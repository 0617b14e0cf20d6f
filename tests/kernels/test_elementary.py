"""exp, log and similar functions: errors, edges, and the same bits on every engine."""

import math

import mpmath
import numpy as np
import pytest

from fleetcube.kernels import elementary
from fleetcube.kernels.calculus import dual
from fleetcube.kernels.engines import loops
from fleetcube.kernels.graph.bind import NUMPY

from ..draws import generator, scaled
from . import precise

NAMES = tuple(elementary.FUNCTIONS)
EDGES = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 5e-324, -5e-324, 1.7e308, -1.7e308)
NEAR = (-745.2, -745.13, -708.4, 709.78, 709.79, 2.0**-1022, 2.0**53)


def draws(size: int) -> np.ndarray:
    """Numbers over all of float64, more where functions are 0, overflow or switch branches."""
    random = generator(11)
    parts = [
        random.uniform(-746, 710, size),
        random.uniform(-2, 3, size),
        10 ** random.uniform(-323, 308, size),
        -(10 ** random.uniform(-323, 3, size)),
        1 + 10 ** random.uniform(-16, -1, size),
        -1 + 10 ** random.uniform(-16, -1, size),
    ]
    return np.concatenate([*parts, EDGES, NEAR])


def exact(name: str, x: float) -> mpmath.mpf:
    if name == "log2":
        return mpmath.log(mpmath.mpf(x), 2)
    return getattr(mpmath, name)(mpmath.mpf(x))


@pytest.mark.parametrize("name", NAMES)
def test_errors_are_below_two_units_in_the_last_place(name: str) -> None:
    x = draws(scaled(500))
    x = x[np.isfinite(x) & (x > {"exp": -np.inf, "expm1": -np.inf, "log1p": -1.0}.get(name, 0.0))]
    with mpmath.workprec(200):
        for given, found in zip(
            x.tolist(), getattr(elementary.numpy, name)(x).tolist(), strict=True
        ):
            value = exact(name, given)
            if abs(value) > mpmath.mpf(2) ** 1024:
                assert found == math.inf
            else:
                assert abs(found - value) <= 2 * math.ulp(float(value)), (name, given)


@pytest.mark.parametrize("name", NAMES)
def test_edges_are_those_of_numpy(name: str) -> None:
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(np.array(EDGES))
    found = getattr(elementary.numpy, name)(np.array(EDGES))
    plain = np.isfinite(expected)
    np.testing.assert_array_equal(found[~plain], expected[~plain])
    np.testing.assert_allclose(found[plain], expected[plain], 1e-15, 5e-324)
    np.testing.assert_array_equal(np.signbit(found[:2]), np.signbit(expected[:2]))  # of 0 and -0


@pytest.mark.parametrize("name", NAMES)
def test_numbers_arrays_and_compiled_loops_have_the_same_bits(name: str) -> None:
    x = draws(5 * elementary.FEW)
    function = getattr(elementary.numpy, name)
    found = function(x)
    one_by_one = np.array([function(value) for value in x])
    in_a_loop = np.empty_like(x)
    loops.call(NAMES.index(name), x, in_a_loop)
    np.testing.assert_array_equal(one_by_one.view(np.uint64), found.view(np.uint64))
    np.testing.assert_array_equal(in_a_loop.view(np.uint64), found.view(np.uint64))


def test_shapes_and_other_precisions_are_numpys() -> None:
    x = np.arange(1.0, 25.0).reshape(2, 3, 4).transpose(2, 0, 1)
    assert elementary.numpy.log(x).shape == x.shape
    np.testing.assert_allclose(elementary.numpy.log(x), np.log(x), 1e-15)
    np.testing.assert_allclose(elementary.numpy.exp(np.arange(5)), np.exp(np.arange(5)), 1e-15)
    assert elementary.numpy.exp(np.float32([1.0, 2.0])).dtype == np.float32


@pytest.mark.parametrize("name", sorted(dual._RULES))
def test_slopes_are_those_of_80_digits(name: str) -> None:
    """Of each function that formulas may use, on both sides of kinks and steps."""
    duals = dual.library(NUMPY)
    shifts = (-0.03, 0.04) if name in ("maximum", "minimum") else (None,)
    for x in generator(12).uniform(0.05, 20.0, scaled(20)).tolist():
        for more in ([] if shift is None else [x + shift] for shift in shifts):
            with mpmath.workdps(precise.DIGITS):
                ends = [
                    getattr(precise.NUMPY, name)(precise.Number(x + step, x), *more).value
                    for step in (precise.STEP, -precise.STEP)
                ]
                expected = float((ends[0] - ends[1]) / (2 * precise.STEP))
            found = getattr(duals, name)(dual.Dual(duals, x, 1.0), *more)
            slope = dual.tangent_of(found) or 0.0
            assert slope == pytest.approx(expected, rel=1e-14, abs=1e-300), x
