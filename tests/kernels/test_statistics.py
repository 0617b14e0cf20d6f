"""Quantiles, probabilities, extremes and counts against mpmath, integration and plain sums."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from fleetcube.kernels.engines import jax as jax_engine
from fleetcube.kernels.engines import numba as numba_engine
from fleetcube.kernels.engines import numpy as numpy_engine
from fleetcube.kernels.engines.job import Job
from fleetcube.kernels.graph.formulas import Function, parameters
from fleetcube.kernels.statistics import (
    erlang_carried,
    expected_maximum,
    expected_maximum_gumbel,
    log_gamma,
    normal_quantile,
    poisson_at_most,
    poisson_below,
    poisson_excess,
)

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


def order_statistic(n: int, b: int, x: Any, below: Any, above: Any, density: Any) -> float:
    """Expected (b + 1)-th largest of n: x n C(n-1, b) F^(n-b-1) (1-F)^b f, integrated."""
    choose = math.lgamma(n) - math.lgamma(b + 1) - math.lgamma(n - b) + math.log(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = choose + (n - b - 1) * np.log(below) + (b * np.log(above) if b else 0)
        shape = np.where(density > 0, density * np.exp(weight), 0)
    assert np.trapezoid(shape, x) == pytest.approx(1, abs=1e-9)
    return float(np.trapezoid(x * shape, x))


def normal_order_statistic(n: int, b: int) -> float:
    x = np.linspace(-9, 9, 3601)
    below = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in x])
    above = np.array([math.erfc(v / math.sqrt(2)) / 2 for v in x])
    return order_statistic(n, b, x, below, above, np.exp(-x * x / 2) / math.sqrt(2 * math.pi))


def gumbel_order_statistic(n: int, b: int) -> float:
    x = np.linspace(-6, 60, 66001)
    below, above = np.exp(-np.exp(-x)), -np.expm1(-np.exp(-x))
    mean = order_statistic(n, b, x, below, above, np.exp(-x - np.exp(-x)))
    return (mean - 0.5772156649015329) * math.sqrt(6) / math.pi


RANKS = [
    (2, 0), (3, 0), (8, 0), (64, 0), (1024, 0), (16384, 0),
    (5, 1), (8, 2), (64, 1), (64, 16), (1024, 4), (16384, 16),
]  # fmt: skip


@pytest.mark.parametrize(("n", "b"), RANKS)
def test_slowest_of_normal_ranks(n: int, b: int) -> None:
    within = 0.026 if n < 8 else 0.016
    assert float(expected_maximum(n - b, n - b, b)) == pytest.approx(
        normal_order_statistic(n, b), abs=within
    )


@pytest.mark.parametrize(("n", "b"), RANKS)
def test_slowest_of_gumbel_ranks(n: int, b: int) -> None:
    exact = gumbel_order_statistic(n, b)
    within = 0.02 if b else 1e-9
    assert float(expected_maximum_gumbel(n - b, n - b, b)) == pytest.approx(exact, abs=within)


def test_slowest_of_many_by_drawing_them() -> None:
    drawn = np.sort(np.random.default_rng(5).standard_normal((4000, 128)), axis=1)
    for b in (0, 3):
        column = drawn[:, 127 - b]
        error = column.std() / math.sqrt(len(column))
        assert float(expected_maximum(128 - b, 128 - b, b)) == pytest.approx(
            column.mean(), abs=0.016 + 3 * error
        )


@pytest.mark.parametrize("law", [expected_maximum, expected_maximum_gumbel])
def test_one_rank_is_average_and_nothing_is_below_it(law: Function) -> None:
    assert law(1.0, 1.0, 0.0) == 0
    few = np.array([1.0, 2.0, 3.0])
    assert list(law(few, few, np.array([1.0, 4.0, 9.0]))) == [0, 0, 0]


# Counts


def poisson_sum(count: int, mean: float) -> float:
    return math.fsum(
        math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(count)
    )


@pytest.mark.parametrize("count", [1, 2, 5, 40, 1000])
def test_poisson_below_is_the_sum(count: int) -> None:
    means = np.geomspace(1e-4, 5 * count + 10, 400)
    expected = [poisson_sum(count, float(mean)) for mean in means]
    np.testing.assert_allclose(poisson_below(float(count), means), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 40])
def test_poisson_excess_is_the_sum(count: int) -> None:
    # E[max(0, N - c)] = m - c + sum over k < c of (c - k) P(k), itself a sum of P(N < k)
    means = np.geomspace(1e-4, 5 * count + 10, 400)
    expected = [
        mean - count + math.fsum(poisson_sum(k, float(mean)) for k in range(1, count + 1))
        for mean in means
    ]
    np.testing.assert_allclose(
        poisson_excess(float(count), means), expected, rtol=1e-11, atol=1e-10
    )


def test_erlang_carried_is_the_sum() -> None:
    for servers in (1, 2, 6, 200):
        for load in (1e-9, 0.3, 10.5, 199.5, 1e5):
            inverse = 1.0
            for n in range(1, servers + 1):
                inverse = 1 + n / load * inverse
            assert erlang_carried(float(servers), load) == pytest.approx(1 - 1 / inverse, rel=1e-9)


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

LAWS: dict[str, tuple[Function, dict[str, Any]]] = {
    "normal_quantile": (
        normal_quantile,
        {
            "probability": np.concatenate(
                [np.geomspace(1e-30, 0.5, 60), 1 - np.geomspace(1e-9, 0.4)]
            )
        },
    ),
    "log_gamma": (log_gamma, {"x": np.linspace(2.5, 100, 77)}),
    "expected_maximum": (
        expected_maximum,
        {
            "ranks": np.geomspace(8, 1e6, 50),
            "groups": np.geomspace(1, 1e5, 50),
            "spares": np.arange(50) % 4.0,
        },
    ),
    "expected_maximum_gumbel": (
        expected_maximum_gumbel,
        {
            "ranks": np.geomspace(8, 1e6, 50),
            "groups": np.geomspace(1, 1e5, 50),
            "spares": np.arange(50) % 4.0,
        },
    ),
    "poisson_excess": (
        poisson_excess,
        {"count": np.arange(60) % 6.0, "mean": np.geomspace(0.5, 30, 60)},
    ),
    "erlang_carried": (
        erlang_carried,
        {"servers": 1 + np.arange(60) % 6.0, "load": np.geomspace(1e-3, 30, 60)},
    ),
    "poisson_at_most": (
        poisson_at_most,
        {"count": np.arange(60) % 6.0, "mean": np.geomspace(1e-3, 30, 60)},
    ),
    "poisson_below": (
        poisson_below,
        {"count": np.arange(60) % 6.0, "mean": np.concatenate([[0.0], np.geomspace(1e-3, 30, 59)])},
    ),
}


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
