"""Distributions of inputs, and the resulting distributions of outputs."""

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from fleetcube import Settings, Sweep, evaluate
from fleetcube.commands.uncertainty import _shares
from fleetcube.grid.spec.distributions import distribution
from fleetcube.kernels.physics.graph import PHYSICS

from .common import Patch, cases, on_h100, refused

HOUR = 3600.0
Q = (0.05, 0.3, 0.5, 0.95)
Z = norm.ppf(Q)
ONLY_GPUS = {"nic_mttf": math.inf, "psu_mttf": math.inf}
WRITE = {"parameters": 70e9, "checkpoint_bytes_per_parameter": 14, "n_gpus": 64}
PHASES = {"checkpoint_restore_time": 50, "detection_time": 30, "drain_time": 30, "reinit_time": 30}


def sweep(outputs: list[str], axes: dict[str, Any] | None = None, **scenario: Any) -> Sweep:
    return Sweep(scenario, axes or {}, outputs)


def test_quantiles_of_distributions_are_those_of_scipy() -> None:
    u = np.array([0.01, 0.5, 0.9])
    normal = distribution(PHYSICS, "gpu_mttf", {"normal": ["500 h", "200 h"]})
    cut = truncnorm(-2.5, math.inf, 500 * HOUR, 200 * HOUR)  # above 0 only
    np.testing.assert_allclose(normal.quantile(u), cut.ppf(u), rtol=1e-9)
    lognormal = distribution(PHYSICS, "gpu_mttf", {"lognormal": ["500 h", 1.5]})
    np.testing.assert_allclose(lognormal.quantile(u), 500 * HOUR * 1.5 ** norm.ppf(u), rtol=1e-12)
    assert lognormal.median == 500 * HOUR
    uniform = distribution(PHYSICS, "detection_time", {"uniform": [10, "1 min"]})
    np.testing.assert_allclose(uniform.quantile(u), 10 + 50 * u, rtol=1e-12)
    efficiency = distribution(PHYSICS, "flops_efficiency", {"lognormal": [0.5, 1.3]})
    assert efficiency.quantile(np.array([1 - 1e-12]))[0] <= 1


def test_an_empirical_distribution_takes_its_values_equally_often() -> None:
    found = distribution(PHYSICS, "n_gpus", {"empirical": [512, 64, 64, 1024]})
    drawn = found.quantile((np.arange(4000) + 0.5) / 4000)
    counts = dict(zip(*np.unique(drawn, return_counts=True), strict=True))
    assert counts == {64: 2000, 512: 1000, 1024: 1000}
    assert found.median == 64  # one of the values, not a number between them


@cases(
    "name, spec, said",
    ("gpu_mttf", {"gaussian": [1, 2]}, "is not one of {normal"),
    ("gpu_mttf", {"norml": [1, 2]}, "did you mean 'normal'"),
    ("gpu_mttf", {}, "is not one of"),
    ("gpu_mttf", {"normal": [1, 2], "uniform": [1, 2]}, "keep one"),
    ("gpu_mttf", {"normal": [5]}, "is not [mean, standard deviation]"),
    ("gpu_mttf", {"normal": "5 h"}, "is not [mean, standard deviation]"),
    ("gpu_mttf", {"normal": ["5 h", "-1 h"]}, "greater than 0"),
    ("gpu_mttf", {"normal": [math.inf, 1]}, "not finite"),
    ("gpu_mttf", {"normal": ["5 h", "5 h"]}, "a probability of 0.16 outside"),
    ("flops_efficiency", {"normal": [0.9, 0.1]}, "outside 0 to 1"),
    ("flops_efficiency", {"uniform": [0.4, 1.4]}, "at most 1"),
    ("detection_time", {"normal": [30, 0]}, "give one above 0"),
    ("gpu_mttf", {"lognormal": ["5 h", 1]}, "plain number above 1"),
    ("gpu_mttf", {"lognormal": ["5 h", "2 h"]}, "plain number above 1"),
    ("detection_time", {"lognormal": [0, 2]}, "median 0"),
    ("gpu_mttf", {"uniform": ["5 h", "5 h"]}, "is not a range"),
    ("gpu_mttf", {"empirical": []}, "give that list"),
    ("gpu_mttf", {"empirical": ["5 B"]}, "5 B"),
    ("n_gpus", {"uniform": [8, 64]}, "whole number; give {empirical"),
    ("precision", {"empirical": ["bf16"]}, "sweep it as an axis"),
    ("fabric", {"empirical": ["roce-100g"]}, "sweep it as an axis"),
    ("dominant_overhead", {"uniform": [0, 1]}, "cannot be given"),
)
def test_a_bad_distribution_is_one_line(name: str, spec: Any, said: str) -> None:
    refused(re.escape(said), Sweep, {name: spec}, {}, ["cluster_mtbf"])


def test_everything_else_takes_the_median_and_says_so() -> None:
    spec = {"lognormal": ["50_000 h", 1.5]}
    found = sweep(["cluster_mtbf"], n_gpus=1024, gpu_mttf=spec).evaluate()
    known = evaluate("cluster_mtbf", n_gpus=1024, gpu_mttf="50_000 h")
    assert found["cluster_mtbf"].item() == known.item()
    assert found.attrs["fleetcube_medians"] == '{"gpu_mttf": 180000000.0}'
    assert evaluate("cluster_mtbf", n_gpus=1024, gpu_mttf=spec).item() == known.item()


@pytest.mark.parametrize(("method", "rtol"), [("sampled", 1e-3), ("first_order", 1e-12)])
def test_a_proportional_output_of_a_lognormal_is_lognormal(method: str, rtol: float) -> None:
    spec = {"lognormal": ["50_000 h", 1.5]}
    made = sweep(["cluster_mtbf"], {"n_gpus": [64, 1024]}, gpu_mttf=spec, **ONLY_GPUS)
    found = made.uncertainty(q=Q, method=method)
    assert found["cluster_mtbf"].dims == ("n_gpus", "quantile")
    known = 50_000 * HOUR / np.array([64, 1024])[:, None] * 1.5**Z
    np.testing.assert_allclose(found["cluster_mtbf"], known, rtol=rtol)
    s = math.log(1.5)
    mean = known[:, 2] * math.exp(s * s / 2)
    np.testing.assert_allclose(found["cluster_mtbf_mean"], mean, rtol=rtol)
    std = mean * math.sqrt(math.expm1(s * s))
    np.testing.assert_allclose(found["cluster_mtbf_std"], std, rtol=5 * rtol)


@pytest.mark.parametrize(("method", "rtol"), [("sampled", 3e-3), ("first_order", 1e-12)])
def test_a_product_of_lognormals_is_lognormal(method: str, rtol: float) -> None:
    given: dict[str, Any] = {"parameters": {"lognormal": [70e9, 1.2]}}
    given |= {"checkpoint_bytes_per_parameter": {"lognormal": [14, 1.1]}}
    given |= {"checkpoint_write_bandwidth": {"lognormal": ["100 GB/s", 2.0]}}
    made = sweep(["checkpoint_write_time"], **given, detection_time={"uniform": [1, 2]})  # no part
    found = made.uncertainty(q=Q, method=method, samples=1 << 16)
    s = math.sqrt(sum(math.log(factor) ** 2 for factor in (1.2, 1.1, 2.0)))
    known = 70e9 * 14 / 100e9 * np.exp(s * Z)
    np.testing.assert_allclose(found["checkpoint_write_time"], known, rtol=rtol)


@pytest.mark.parametrize(("method", "rtol"), [("sampled", 1e-3), ("first_order", 1e-12)])
def test_a_sum_of_normals_is_normal(method: str, rtol: float) -> None:
    scenario = {**PHASES, "detection_time": {"normal": [300, 30]}}
    scenario |= {"provision_time": {"normal": ["10 min", 40]}}
    found = sweep(["recovery_time"], n_gpus=64, **scenario).uncertainty(q=Q, method=method)
    known = 300 + 600 + 50 + 30 + 30 + 50 * Z
    np.testing.assert_allclose(found["recovery_time"], known, rtol=rtol)
    assert found["recovery_time_mean"].item() == pytest.approx(1010, rel=rtol)
    assert found["recovery_time_std"].item() == pytest.approx(50, rel=5 * rtol)


def test_first_order_adds_the_variances_of_uniform_and_empirical_inputs() -> None:
    scenario = {**PHASES, "detection_time": {"uniform": [60, 120]}}
    scenario |= {"provision_time": {"empirical": [100, 200, 300]}}
    made = sweep(["recovery_time"], n_gpus=64, **scenario)
    known = math.sqrt(60**2 / 12 + 2 * 100**2 / 3)
    first = made.uncertainty(method="first_order")
    assert first["recovery_time_std"].item() == pytest.approx(known, rel=1e-12)
    assert first["recovery_time"].sel(quantile=0.5).item() == pytest.approx(90 + 200 + 110)
    assert made.uncertainty()["recovery_time_std"].item() == pytest.approx(known, rel=1e-2)


def test_the_methods_differ_by_the_square_of_the_spread() -> None:
    # 1/x of a normal x: the exact quantile is 1/(mu - z s), to first order (1 + z s/mu) / mu
    gaps = []
    for r in (0.08, 0.04):
        bandwidth = {"normal": [1e11, r * 1e11]}
        made = sweep(["checkpoint_write_time"], checkpoint_write_bandwidth=bandwidth, **WRITE)
        drawn, first = (
            made.uncertainty(q=[0.95], method=method, samples=1 << 15)["checkpoint_write_time"]
            for method in ("sampled", "first_order")
        )
        z, at = norm.ppf(0.95), 70e9 * 14 / 1e11
        assert drawn.item() == pytest.approx(at / (1 - z * r), rel=1e-4)
        assert first.item() == pytest.approx(at * (1 + z * r), rel=1e-12)
        gaps.append(drawn.item() - first.item())
    assert gaps[0] / gaps[1] == pytest.approx(4, rel=0.1)


def test_an_axis_stands_before_a_distribution() -> None:
    spec = {"lognormal": ["50_000 h", 1.5]}
    axes = {"gpu_mttf": ["10_000 h", "20_000 h"]}
    made = sweep(["cluster_mtbf"], axes, n_gpus=64, gpu_mttf=spec)
    refused("has no distribution", made.uncertainty)
    assert "fleetcube_medians" not in made.evaluate().attrs


def test_every_output_keeps_its_own_axes_and_the_same_draws_everywhere() -> None:
    names = ["recovery_time", "checkpoint_write_time", "cluster_mtbf", "nodes"]
    scenario = {**WRITE, **PHASES, "detection_time": {"uniform": [60, 120]}}
    del scenario["n_gpus"]
    axes = {"checkpoint_write_bandwidth": [1e9, 1e10, 1e11], "n_gpus": [64, 128]}
    axes["provision_time"] = [0, 100]
    found = sweep(names, axes, **scenario).uncertainty()
    assert found["recovery_time"].dims == ("provision_time", "quantile")
    assert found["nodes"].dims == ("n_gpus", "quantile")
    np.testing.assert_allclose(found["recovery_time"].diff("provision_time"), 100, rtol=1e-12)
    assert (found["checkpoint_write_time_std"] == 0).all()  # no input of it is uncertain
    known = evaluate("nodes", n_gpus=[64, 128])
    np.testing.assert_array_equal(found["nodes"].sel(quantile=0.95), known)


def test_the_grid_may_be_cut_anyhow(monkeypatch: Patch) -> None:
    spec = {"lognormal": ["50_000 h", 1.5]}
    axes = {"n_gpus": [64, 128, 256], "fabric": ["roce-100g", "infiniband-ndr"]}
    scenario = {"model": "llama-3-8b", "node": "dgx-h100", "gpu_mttf": spec}
    for method in ("sampled", "first_order"):
        made = sweep(["job_time", "goodput"], axes, **scenario)
        whole = made.uncertainty(method=method, samples=64)
        with monkeypatch.context() as patch:
            patch.setattr("fleetcube.grid.plan.tiles.BLOCK", 64 if method == "sampled" else 1)
            assert made.uncertainty(
                method=method, samples=64, settings=Settings(threads=2)
            ).identical(whole)
        assert "infeasible_reason" in whole.coords


def test_a_seed_is_reproducible_and_another_one_differs() -> None:
    laws = {"gpu_mttf": {"lognormal": ["50_000 h", 1.5]}, "nic_mttf": {"uniform": [1e8, 1e9]}}
    made = sweep(["cluster_mtbf"], n_gpus=64, **laws)
    one, again, other = (made.uncertainty(seed=seed, samples=64) for seed in (1, 1, 2))
    assert one.identical(again)
    assert not one["cluster_mtbf"].equals(other["cluster_mtbf"])
    assert one["cluster_mtbf"].values == pytest.approx(other["cluster_mtbf"].values, rel=0.1)


def test_the_draws_of_one_law_are_its_quantiles() -> None:
    """Of a monotonic output those of the output, without a seed and without SciPy."""
    made = sweep(["gpu_hours"], n_gpus=64, job_time={"lognormal": ["10 d", 1.5]})
    shares = np.array([0.05, 0.5, 0.9])
    found = made.uncertainty(q=shares, seed=1)["gpu_hours"].values
    exact = 64 * 240 * 1.5 ** norm.ppf(shares)
    assert found == pytest.approx(exact, rel=1e-3)
    draws = made.uncertainty(method="draws", samples=64)["gpu_hours"].values
    middles = 64 * 240 * 1.5 ** norm.ppf((np.arange(64) + 0.5) / 64)
    assert draws == pytest.approx(middles, rel=1e-9)


def test_flags_are_left_out_and_infeasible_points_are_nan() -> None:
    scenario = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g"}
    spec = {"lognormal": ["50_000 h", 1.5]}
    axes = {"n_gpus": [64, 60]}
    made = sweep(["job_time", "dominant_overhead"], axes, gpu_mttf=spec, **scenario)
    for method in ("sampled", "first_order"):
        found = made.uncertainty(method=method, samples=16, settings=Settings(infeasible="exclude"))
        assert set(found.data_vars) == {"job_time", "job_time_mean", "job_time_std"}
        assert np.isnan(found["job_time"].values).all(axis=1).tolist() == [False, True]


def test_one_undefined_draw_leaves_no_quantile() -> None:
    scenario = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g"}
    made = sweep(["job_time"], n_gpus={"empirical": [60, 64, 64, 64]}, **scenario)
    assert not made.uncertainty(samples=16)["job_time"].isnull().any()
    found = made.uncertainty(
        samples=16, settings=Settings(infeasible="exclude")
    )  # 60 GPUs are not whole nodes
    assert found["job_time"].isnull().all()
    assert "infeasible_reason" not in found.coords  # it differs from draw to draw


@cases(
    "asked, said",
    ({"of": "goodput"}, "not an output"),
    ({"q": [0, 0.5]}, "between 0 and 1"),
    ({"q": []}, "between 0 and 1"),
    ({"q": "half"}, "between 0 and 1"),
    ({"method": "exact"}, "choose one of sampled, first_order"),
    ({"samples": 1000}, "not a power of 2"),
    ({"samples": True}, "not a power of 2"),
    ({"seed": -1}, "from 0"),
    ({"method": "first_order"}, "n_gpus is a whole number"),
)
def test_a_bad_request_is_one_line(asked: dict[str, Any], said: str) -> None:
    made = sweep(["cluster_mtbf"], n_gpus={"empirical": [64, 128]})
    refused(re.escape(said), made.uncertainty, **asked)


def test_first_order_refuses_what_may_be_infinite() -> None:
    made = sweep(["cluster_mtbf"], n_gpus=64, gpu_mttf={"empirical": ["1 h", math.inf, math.inf]})
    refused("may be infinite", made.uncertainty, method="first_order")
    found = made.uncertainty(q=[0.1], samples=256)
    known = evaluate("cluster_mtbf", n_gpus=64, gpu_mttf="1 h").item()
    assert found["cluster_mtbf"].item() == pytest.approx(known)


@cases(
    "text, shares",
    ("0.05,0.5,0.95", [0.05, 0.5, 0.95]),
    ("5,50,95", [0.05, 0.5, 0.95]),
    ("P10, p90", [0.1, 0.9]),
    ("1", [0.01]),  # from 1 it is per cent
    ("0.5%,5", [0.005, 0.05]),
    ("P0.5,99 %", [0.005, 0.99]),
    ("1e-3", [1e-3]),
)
def test_quantiles_are_shares_or_per_cent(text: str, shares: list[float]) -> None:
    assert _shares(text) == pytest.approx(shares, rel=1e-15)


@cases(
    "text, said",
    ("0.5,5", "mixes shares and per cent"),
    ("0.5,P95", "mixes shares and per cent"),
    ("half", "is not a list of quantiles"),
    ("", "is not a list of quantiles"),
    ("5,,95", "is not a list of quantiles"),
    ("P", "is not a list of quantiles"),
    ("0", "must all be above"),
    ("100", "must all be above"),
    ("nan", "must all be above"),
    ("-5%", "must all be above"),
)
def test_other_quantiles_are_refused_in_one_line(text: str, said: str) -> None:
    refused(f"^-q '{text}' {said}.*; ", _shares, text)


def test_draws_are_joint_over_outputs_and_points() -> None:
    given = on_h100(tensor_parallel=8, flops_efficiency=0.4, error_factor=1.2)
    given["gpu_mttf"] = {"lognormal": ["50_000 h", 1.5]}
    names = ["job_time", "step_time", "cluster_mtbf", "goodput"]
    sweep = Sweep(given, {"n_gpus": [256, 1024]}, names)
    drawn = sweep.uncertainty(method="draws", samples=1024, seed=3)
    assert drawn.job_time.sizes == {"n_gpus": 2, "draw": 1024}
    assert drawn.step_time.sizes == {"n_gpus": 2, "draw": 1024}
    assert "quantile" not in drawn.dims
    assert drawn.n_gpus.values.tolist() == [256, 1024]
    clash = Sweep(given, {"draw": {"n_gpus": [256, 1024]}}, names)
    refused("the name of the dimension of draws", clash.uncertainty, method="draws", samples=4)
    plain = sweep.with_outputs(["step_time", "node_mttf"]).uncertainty(method="draws")
    assert plain.n_gpus.values.tolist() == [256, 1024]  # though the last output has no such axis
    # in each draw, a run of as many steps as time allows: outputs belong together
    steps = drawn.job_time * drawn.goodput / drawn.step_time
    assert float(steps.std("draw").max() / steps.mean()) < 1e-9
    # and so do points: a step that is long on one cluster is long on the other
    ratio = drawn.step_time.isel(n_gpus=1) / drawn.step_time.isel(n_gpus=0)
    assert float(ratio.std()) < 1e-12 * float(ratio.mean()) + 1e-12
    # their quantiles are those of the method that keeps no draws
    q = [0.05, 0.5, 0.95]
    sampled = sweep.uncertainty(["step_time", "cluster_mtbf"], q, samples=1024, seed=3)
    for name in ("step_time", "cluster_mtbf"):
        own = drawn[name].quantile(q, "draw").transpose("n_gpus", ...)
        np.testing.assert_allclose(own, sampled[name], rtol=0.02)
