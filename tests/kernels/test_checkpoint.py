"""Checkpoint intervals and goodput against Daly 2006, Lambert W and limits."""

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import fleetcube
from fleetcube.kernels.engines import jax as jax_engine
from fleetcube.kernels.laws.checkpoint import (
    daly_interval,
    exact_interval,
    expected_slowdown,
    segment_rework,
    stall_share,
    young_interval,
)

SHARES = ["checkpoint_overhead", "rework_overhead", "recovery_overhead"]
LAWS = {"young": young_interval, "daly": daly_interval, "exact": exact_interval}


def test_daly_interval_is_the_mtbf_once_writing_takes_twice_as_long() -> None:
    # Daly 2006, eq. 37, second case.
    assert list(daly_interval(np.array([2.0, 5.0]), 1.0)) == [1.0, 1.0]


RATIOS = np.concatenate([np.geomspace(1e-300, 1e-17, 20), np.geomspace(1e-16, 1e4, 200)])


def test_exact_interval_is_lambert_w() -> None:
    # u = 1 + W0(-exp(-x - 1)), in 330 digits because u ~ sqrt(2x) cancels; x = d/M.
    with mpmath.workdps(330):
        expected = [
            float(1 + mpmath.lambertw(-mpmath.exp(-mpmath.mpf(float(x)) - 1)).real) for x in RATIOS
        ]
    np.testing.assert_allclose(exact_interval(RATIOS, 1.0), expected, rtol=1e-15)


def test_exact_interval_has_the_slope_of_its_equation() -> None:
    # -u - log(1 - u) = x, so that du/dx = (1 - u) / u = -W0 / (1 + W0)
    import jax

    points = np.geomspace(1e-12, 30, 60)
    with mpmath.workdps(60):
        w = [mpmath.lambertw(-mpmath.exp(-mpmath.mpf(float(x)) - 1)).real for x in points]
        expected = [float(-value / (1 + value)) for value in w]
    bound = jax_engine.binding().bind(exact_interval)
    with jax.enable_x64(True):
        slope = jax.vmap(jax.grad(lambda x: bound(x, 1.0)))(points)
    np.testing.assert_allclose(slope, expected, rtol=1e-12, atol=1e-16)


# Limits


@pytest.mark.parametrize("policy", LAWS)
def test_without_failures_no_checkpoint_is_due(policy: str) -> None:
    with np.errstate(invalid="ignore"):  # inf x 0 in the branch that is not taken
        assert LAWS[policy](60.0, math.inf) == math.inf


@pytest.mark.parametrize("model", ["exact", "first_order"])
@pytest.mark.parametrize("policy", LAWS)
def test_without_failures_nothing_is_lost(policy: str, model: str) -> None:
    given = {"cluster_mtbf": math.inf, "checkpoint_stall_time": 60, "recovery_time": 600}
    given |= {"checkpoint_policy": policy, "goodput_model": model}
    result = fleetcube.evaluate(["goodput", *SHARES], **given)
    assert result.goodput == 1
    assert [float(result[name]) for name in SHARES] == [0, 0, 0]


def test_without_failures_a_fixed_interval_still_costs_its_checkpoints() -> None:
    given = {"cluster_mtbf": math.inf, "checkpoint_stall_time": 60, "recovery_time": 600}
    given |= {"checkpoint_policy": "fixed", "fixed_checkpoint_interval": 540}
    result = fleetcube.evaluate(["goodput", *SHARES], **given)
    assert float(result.goodput) == pytest.approx(0.9, rel=1e-15)  # 540 / (540 + 60)
    assert float(result.checkpoint_overhead) == pytest.approx(0.1, rel=1e-15)
    assert result.rework_overhead == result.recovery_overhead == 0


@pytest.mark.parametrize("model", ["exact", "first_order"])
@pytest.mark.parametrize("policy", LAWS)
def test_free_checkpoints_cost_only_the_recovery(policy: str, model: str) -> None:
    given = {"cluster_mtbf": 3600, "checkpoint_stall_time": 0, "recovery_time": 36}
    given |= {"checkpoint_policy": policy, "goodput_model": model}
    result = fleetcube.evaluate(["goodput", *SHARES], **given)
    # tau -> 0 as d -> 0, and so do d/tau and tau/2M; R/M = 0.01
    left = math.exp(-0.01) if model == "exact" else 1 - 0.01
    assert float(result.goodput) == pytest.approx(left, rel=1e-12)
    assert result.checkpoint_overhead == result.rework_overhead == 0


# Shares


@pytest.fixture(scope="module", params=["exact", "first_order"])
def losses(request: pytest.FixtureRequest) -> Any:
    return fleetcube.evaluate(
        ["goodput", "checkpoint_interval", *SHARES],
        goodput_model=request.param,
        cluster_mtbf=np.geomspace(600, 1e8, 25),
        checkpoint_stall_time=[0.1, 10.0, 140.0, 1200.0],
        recovery_time=[0.0, 30.0, 600.0],
        checkpoint_policy=["exact", "young", "daly"],
    )


def test_goodput_and_losses_add_up_to_one(losses: Any) -> None:
    total = losses.goodput + sum(losses[name] for name in SHARES)
    # first order is undefined where it says that nothing is left
    kept = np.isfinite(losses.goodput)
    assert kept.mean() > 0.8
    np.testing.assert_allclose(total.values[kept.values], 1, rtol=1e-14)
    assert all((losses[name] >= 0).all() for name in SHARES)


def test_first_order_is_undefined_where_it_says_that_nothing_is_left() -> None:
    # M = 15 min, d = 30 s, R = 10 min: first order wastes 92 %, exact 155 % of the useful time;
    # at R = 15 min the first order leaves nothing.
    given = {"goodput_model": "first_order", "checkpoint_policy": "young", "cluster_mtbf": 900}
    given |= {"checkpoint_stall_time": 30, "recovery_time": [600.0, 900.0]}
    left = fleetcube.evaluate("goodput", **given)
    assert float(left[0]) == pytest.approx(1 - 0.9248655564, rel=1e-8)
    assert math.isnan(left[1])


# Small losses keep their digits; limits raise no warning


@pytest.mark.parametrize("mtbf", [1e3, 1e6, 1e9, 1e12, 1e15])
@pytest.mark.parametrize("interval", [1e-3, 60.0, 7e3])
def test_small_shares_keep_their_digits(mtbf: float, interval: float) -> None:
    mpmath.mp.dps = 40
    z = (mpmath.mpf(interval) + mpmath.mpf("0.5")) / mpmath.mpf(mtbf)
    lost = 1 - z / mpmath.expm1(z)
    assert float(segment_rework(interval, 0.5, mtbf)) == pytest.approx(float(lost), rel=1e-13)
    stall = mpmath.mpf("0.5") / (mpmath.mpf(interval) + mpmath.mpf("0.5"))
    assert float(stall_share(interval, 0.5)) == pytest.approx(float(stall), rel=1e-15)


def test_limits_of_the_laws_raise_no_warning() -> None:
    assert exact_interval(60.0, math.inf) == math.inf
    assert expected_slowdown(math.inf, 60.0, 600.0, math.inf) == 1
    assert expected_slowdown(540.0, 60.0, 600.0, math.inf) == pytest.approx(600 / 540)
    with np.errstate(divide="ignore"):
        assert expected_slowdown(1e6, 60.0, 0.0, 10.0) == math.inf


# Fixed intervals


def test_exercise_2_from_checkpoints_written_and_failures() -> None:
    # 512 GPUs, 30 days, writes of 60 s: T d/(tau + d) + T/M tau/2 is least at sqrt(2 d M) - d,
    # 1.477 h; the writes cost as much there as the rework.
    hours = np.linspace(0.5, 8, 7501)
    got = fleetcube.evaluate(
        ["checkpoints_written", "expected_failures"],
        n_gpus=512,
        series_psus_per_node=2,
        job_duration="30 d",
        checkpoint_stall_time=60,
        checkpoint_policy="fixed",
        fixed_checkpoint_interval=hours * 3600,
        goodput=1,  # work without stops: tau + d below
    )
    writes = 60 * got.checkpoints_written.values * hours / (hours + 1 / 60)
    rework = float(got.expected_failures) * hours * 1800
    best = np.argmin(writes + rework)
    mtbf = 1 / (64 * (8 / 50e3 + 8 / 150e3 + 2 / 100e3))  # h
    assert hours[best] == pytest.approx(math.sqrt(2 * mtbf / 60) - 1 / 60, abs=0.001)
    assert writes[best] == pytest.approx(rework[best], rel=0.02)


# First order and ETTR


def test_ettr_limits() -> None:
    never = fleetcube.evaluate(
        "ettr", cluster_mtbf=math.inf, checkpoint_stall_time=60, recovery_time=600
    )
    hopeless = fleetcube.evaluate(
        "ettr", cluster_mtbf=60, checkpoint_stall_time=60, recovery_time=600
    )
    assert (float(never), float(hopeless)) == (1, 0)


# Budgets


def test_budgets_that_leave_nothing_are_undefined() -> None:
    got = fleetcube.evaluate("goodput", goodput_model="additive", recovery_budget=[0.86, 0.88])
    assert float(got[0]) == pytest.approx(0.01)
    assert math.isnan(got[1])
