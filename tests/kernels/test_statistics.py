"""Quantiles, probabilities, extremes and counts against mpmath, integration and plain sums."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

from fleetcube.kernels.engines import jax as jax_engine
from fleetcube.kernels.engines import numba as numba_engine
from fleetcube.kernels.engines import numpy as numpy_engine
from fleetcube.kernels.engines.job import Job
from fleetcube.kernels.graph.formulas import Function, parameters
from fleetcube.kernels.laws.statistics import (
    erlang_carried,
    expected_maximum,
    expected_maximum_gumbel,
    log_gamma,
    normal_quantile,
    poisson_at_most,
    poisson_below,
    poisson_excess,
)

from ..order_statistics import EXTREME, NORMAL, order_statistic

RUN = {"numpy": numpy_engine.run, "numba": numba_engine.run, "jax": jax_engine.run}


# The normal distribution


def test_upper_quantiles_are_the_inverse_error_function() -> None:
    # Dense enough to meet the three branches: 0.5 to 0.925, to 1 - exp(-25), beyond.
    p = 1 - np.geomspace(1e-16, 0.5, 200)
    with mpmath.workdps(40):
        expected = [float(mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(float(v)) - 1)) for v in p]
    np.testing.assert_allclose(normal_quantile(p), expected, rtol=1e-14)


def test_lower_quantiles_have_the_probability() -> None:
    # d log Phi / dx ~ -x, so that 1e-14 of x is 1e-14 x^2 of the probability.
    p = np.geomspace(1e-300, 0.5, 200)
    x = normal_quantile(p)
    with mpmath.workdps(40):
        back = np.array([float(mpmath.ncdf(mpmath.mpf(float(v)))) for v in x])
    assert (np.abs(back / p - 1) < 1e-14 * (1 + x * x)).all()


def test_quantiles_are_odd_about_one_half() -> None:
    p = np.array([0.25, 0.0625, 2.0**-40])  # 1 - p is exact
    assert list(normal_quantile(1 - p)) == list(-normal_quantile(p))
    assert normal_quantile(0.5) == 0


def test_quantiles_at_the_ends_are_infinite() -> None:
    assert list(normal_quantile(np.array([0.0, 1.0]))) == [-math.inf, math.inf]
    assert math.isnan(normal_quantile(math.nan))


# The gamma function


def test_log_gamma() -> None:
    x = np.linspace(1, 100, 991)
    with mpmath.workdps(40):
        expected = np.array([float(mpmath.loggamma(mpmath.mpf(float(v)))) for v in x])
    np.testing.assert_allclose(log_gamma(x), expected, rtol=1e-14, atol=1e-14)


def test_gamma_of_whole_numbers_is_the_factorial() -> None:
    got = np.exp(log_gamma(np.arange(1.0, 20.0)))
    np.testing.assert_allclose(got, [math.factorial(n) for n in range(19)], rtol=1e-13)


# The slowest of many


RANKS = [
    (2, 0), (3, 0), (8, 0), (64, 0), (1024, 0), (16384, 0),
    (5, 1), (8, 2), (64, 1), (64, 16), (1024, 4), (16384, 16),
]  # fmt: skip


@pytest.mark.parametrize(("n", "b"), RANKS)
def test_the_slowest_of_many_ranks(n: int, b: int) -> None:
    for law, kind, within in (
        (expected_maximum, NORMAL, 0.026 if n < 8 else 0.016),
        (expected_maximum_gumbel, EXTREME, 0.02 if b else 1e-9),
    ):
        expected = order_statistic(n, b, *kind)
        assert float(law(n - b, n - b, b)) == pytest.approx(expected, abs=within)


@pytest.mark.parametrize("law", [expected_maximum, expected_maximum_gumbel])
def test_one_rank_is_average_and_nothing_is_below_it(law: Function) -> None:
    assert law(1.0, 1.0, 0.0) == 0
    few = np.array([1.0, 2.0, 3.0])
    assert list(law(few, few, np.array([1.0, 4.0, 9.0]))) == [0, 0, 0]


# Counts


@pytest.mark.parametrize("count", [0, 1, 2, 5, 40, 1000])
def test_counts_are_sums_of_their_terms(count: int) -> None:
    means, k = np.geomspace(1e-4, 5 * count + 10, 400), np.arange(count)[:, None]
    terms = np.exp(k * np.log(means) - means - special.gammaln(k + 1))
    np.testing.assert_allclose(poisson_below(float(count), means), terms.sum(0), 0, 1e-11)
    if count <= 40:
        excess = means - count + ((count - k) * terms).sum(0)
        np.testing.assert_allclose(poisson_excess(float(count), means), excess, 1e-11, 1e-10)


def test_nothing_in_repair_leaves_everyone() -> None:
    assert poisson_at_most(0.0, 0.0) == erlang_carried(1.0, 0.0) == 1
    assert poisson_excess(3.0, 0.0) == 0


def test_poisson_limits() -> None:
    assert list(poisson_below(0.0, np.array([0.0, 0.1, 1e9]))) == [0, 0, 0]
    assert list(poisson_below(np.array([1.0, 50.0]), 0.0)) == [1, 1]
    assert poisson_below(3.0, 1e12) == 0
    assert poisson_below(1e12, 3.0) == 1
    assert np.isnan(poisson_below(np.array([math.nan, 2.0]), np.array([1.0, math.nan]))).all()


# Engines and gradients

RANKED: dict[str, Any] = {"ranks": np.geomspace(8, 1e6, 50), "groups": np.geomspace(1, 1e5, 50)}
RANKED["spares"] = np.arange(50) % 4.0
ENDS = np.concatenate([np.geomspace(1e-30, 0.5, 60), 1 - np.geomspace(1e-9, 0.4)])
FEW, MEANS = np.arange(60) % 6.0, np.geomspace(1e-3, 30, 60)
LAWS: dict[str, tuple[Function, dict[str, Any]]] = {
    law.__name__: (law, operands)
    for law, operands in (
        (normal_quantile, {"probability": ENDS}),
        (log_gamma, {"x": np.linspace(2.5, 100, 77)}),
        (expected_maximum, RANKED),
        (expected_maximum_gumbel, RANKED),
        (poisson_excess, {"count": FEW, "mean": np.geomspace(0.5, 30, 60)}),
        (erlang_carried, {"servers": 1 + FEW, "load": MEANS}),
        (poisson_at_most, {"count": FEW, "mean": MEANS}),
        (poisson_below, {"count": FEW, "mean": np.append(0.0, np.geomspace(1e-3, 30, 59))}),
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numba", "jax"])
@pytest.mark.parametrize("name", LAWS)
def test_engines_agree(name: str, engine: str) -> None:
    law, operands = LAWS[name]
    size = len(next(iter(operands.values())))
    found = {}
    for each in ("numpy", engine):
        out = {"value": np.empty(size)}
        RUN[each](Job({"value": law}, operands, out), 1)
        found[each] = out["value"]
    np.testing.assert_allclose(found[engine], found["numpy"], rtol=1e-12)
    assert np.isfinite(found["numpy"]).all()


@pytest.mark.parametrize(
    ("law", "point", "slope"),
    [
        # 1 / phi(x) of the quantile x
        (normal_quantile, (0.5,), math.sqrt(2 * math.pi)),
        (normal_quantile, (0.0,), None),
        (log_gamma, (1.0,), -0.5772156649015329),
        (expected_maximum, (1.0, 1.0, 0.0), None),
        (expected_maximum_gumbel, (1.0, 1.0, 5.0), 0.0),
        (poisson_below, (0.0, 2.0), 0.0),
        (poisson_below, (3.0, 0.0), 0.0),
        (poisson_at_most, (3.0, 0.0), 0.0),
        (erlang_carried, (3.0, 0.0), 0.0),
    ],
)
def test_gradients_are_numbers(law: Function, point: tuple[float, ...], slope: Any) -> None:
    import jax

    with jax.enable_x64(True):
        gradients = jax.grad(jax_engine.binding().bind(law), tuple(range(len(point))))(*point)
    assert len(gradients) == len(parameters(law))
    assert not any(math.isnan(g) for g in gradients)
    if slope is not None:
        assert float(gradients[0]) == pytest.approx(slope, rel=1e-12)
