"""SALib's own samples and analyses, of a sweep."""

from typing import Any

import numpy as np
import pytest

from fleetcube import Sweep
from fleetcube.grid.spec.distributions import distribution
from fleetcube.kernels.physics.graph import PHYSICS

from .common import cases, on_h100, refused

SALib = pytest.importorskip("SALib")
SCENARIO = on_h100("llama-3-70b", tensor_parallel=8)
AXES: dict[str, Any] = {"n_gpus": {"geomspace": [512, 8192], "num": 5}}
AXES |= {"gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 10}}
UNCERTAIN: dict[str, Any] = {"flops_efficiency": {"normal": [0.45, 0.04]}}
UNCERTAIN |= {"detection_time": {"lognormal": ["60 s", 2]}, "drain_time": {"uniform": [30, 120]}}


def test_ranges_are_those_of_axes_and_distributions() -> None:
    problem, _ = Sweep({**SCENARIO, **UNCERTAIN}, AXES, ["job_time"]).to_salib("goodput")
    assert problem["names"] == ["n_gpus", "gpu_mttf", *UNCERTAIN]
    assert problem["dists"] == ["logunif", "unif", "truncnorm", "lognorm", "unif"]
    assert problem["bounds"][0] == [512, 8192]
    samples = np.random.default_rng(0).random((20_000, 5))
    drawn = np.asarray(SALib.util.scale_samples(samples.copy(), problem))
    assert drawn[:, 0].min() >= 512
    assert drawn[:, 0].max() <= 8192
    assert np.median(drawn[:, 0]) == pytest.approx(2048, rel=0.03)  # sqrt(512 x 8192)
    assert np.median(drawn[:, 1]) == pytest.approx(55_000 * 3600, rel=0.03)
    for column, (name, told) in zip(drawn.T[2:], UNCERTAIN.items(), strict=True):
        shares = samples[:, list(problem["names"]).index(name)]
        np.testing.assert_allclose(
            column, distribution(PHYSICS, name, told).quantile(shares), rtol=1e-6
        )


def test_the_model_is_the_sweep_at_its_samples() -> None:
    sweep = Sweep(SCENARIO, AXES, ["goodput"])
    problem, model = sweep.to_salib("goodput")
    assert problem["num_vars"] == 2
    cube = sweep.evaluate()
    points = [[n, m] for n in cube["n_gpus"].values[:2] for m in cube["gpu_mttf"].values]
    np.testing.assert_array_equal(model(points), cube["goodput"].values[:2].ravel())
    assert model([[1023.6, 9e7]])[0] == model([[1024, 9e7]])[0]  # whole GPUs


def test_listed_values_are_choices_and_what_cannot_run_is_counted() -> None:
    from SALib.sample import latin

    axes = {"pipeline_parallel": [1, 2, 4, 8, 16], "gpu_mttf": ["10_000 h", np.inf]}
    sweep = Sweep({**SCENARIO, "n_gpus": 1024}, axes, ["job_time"])
    problem, model = sweep.to_salib("job_time")
    assert problem["bounds"] == [[0, 5], [0, 2]]
    assert problem["dists"] == ["unif", "unif"]
    cube = sweep.evaluate()
    corners = [[k + 0.5, m] for k in range(5) for m in (0, 1.99)] + [[5, 2]]
    told = r"2 of 11 samples cannot run \(out_of_memory 2\)"
    with pytest.warns(UserWarning, match=told):
        found = model(corners)
    np.testing.assert_array_equal(found, [*cube["job_time"].values.ravel(), cube["job_time"][4, 1]])
    drawn = np.asarray(latin.sample(problem, 1000, seed=0))
    with pytest.warns(UserWarning, match=r"200 of 1,000 samples cannot run"):
        values, counts = np.unique(model(drawn), return_counts=True)
    assert set(values) == set(cube["job_time"].values.ravel())
    assert counts.min() > 80


def test_an_analysis_agrees_with_our_own() -> None:
    from SALib.analyze import sobol
    from SALib.sample import sobol as sample

    job = {**SCENARIO, **UNCERTAIN, "n_gpus": 4096, "pipeline_parallel": 4}
    sweep = Sweep(job, {}, ["job_time"])
    problem, model = sweep.to_salib("job_time")
    points = sample.sample(problem, 4096, calc_second_order=False, seed=1)
    theirs = sobol.analyze(problem, model(points), calc_second_order=False, seed=1)["ST"]
    ours = sweep.global_sensitivity("job_time", wrt=list(UNCERTAIN), samples=100_000)
    for name, total in zip(UNCERTAIN, theirs, strict=True):
        assert total == pytest.approx(ours["total"].sel(input=name).item(), abs=0.02)


@cases(
    "scenario, axes, words",
    ({}, {"fabric": ["infiniband-ndr", "roce-400g"]}, "does not list numbers of one input"),
    ({"detection_time": {"empirical": [1, 2]}}, {}, "empirical"),
    ({"n_gpus": 64}, {}, "no axis and no distribution"),
)
def test_what_salib_cannot_draw_is_refused(scenario: Any, axes: Any, words: str) -> None:
    sweep = Sweep({**SCENARIO, "n_gpus": 64, **scenario}, axes, ["goodput"])
    refused(words, sweep.to_salib, "goodput")


def test_flags_and_other_shapes_are_refused() -> None:
    sweep = Sweep(SCENARIO, AXES, ["goodput", "dominant_overhead"])
    refused("flag", sweep.to_salib, "dominant_overhead")
    _, model = sweep.to_salib("goodput")
    refused(r"give \(samples, 2\)", model, [1.0, 2.0])
