"""Ratios of a sweep's points to a base, against those of pairs and against draws."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fleetcube import Settings, Sweep
from fleetcube.calibration.steps import Table
from fleetcube.calibration.update import update_steps
from fleetcube.catalog import pooled
from fleetcube.cli import cli
from fleetcube.grid.spec.axes import make_axes
from fleetcube.scenario import auto
from fleetcube.scenario.reading import stated_inputs

from .common import cases, on_h100, ratios, refused, steps_file, written

JOB = on_h100("llama-3-70b", tensor_parallel=8, pipeline_parallel=4, software="nemo")
LAYOUTS = {"tensor_parallel": [8, 4], "micro_batch_size": [2, 1]}


def scenario_at(sweep: Sweep, place: dict[str, int]) -> dict[str, Any]:
    axes = make_axes(sweep.graph, sweep.spec["axes"])
    said = dict(sweep.spec["scenario"])
    for name, k in place.items():
        said |= auto.values_at(axes[name], k)
    return said


def check_pairs(sweep: Sweep, base: dict[str, Any], at: dict[str, int]) -> int:
    """Compare every point with `ratios` of it and its base, and count those that are known."""
    found = sweep.prediction_interval(relative_to=base)
    known = 0
    for point in itertools.product(*map(range, sweep._sizes.values())):
        place = dict(zip(sweep._sizes, point, strict=True))
        there = {**place, **at}
        pair = ratios(scenario_at(sweep, there), scenario_at(sweep, place), sweep.spec["outputs"])
        for name in sweep.spec["outputs"]:
            here = {dim: k for dim, k in place.items() if dim in found[name].dims}
            one = found.isel(here)
            based = {dim: there[dim] for dim in here}
            if not {*at} & {*here}:
                assert f"{name}_ratio" not in found
                continue
            of_values = float(one[name] / found[name].isel(based))
            assert float(one[f"{name}_ratio"]) == pytest.approx(of_values, rel=1e-12)
            ends = [f"{name}_ratio_low", f"{name}_ratio_high", f"{name}_chance_below"]
            numbers = [float(one[end]) if end in one else math.nan for end in ends]
            if name not in pair or place == there:
                assert np.isnan(numbers).all(), (name, place)
                continue
            known += 1
            expected = [pair[name].low, pair[name].high, pair[name].below]
            assert numbers == pytest.approx(expected, rel=1e-8, abs=1e-12), (name, place)
    return known


@cases(
    "axes, base, at, known",
    ({"n_gpus": [512, 1024, 2048]}, "n_gpus=1024", {"n_gpus": 1}, 4),
    (
        {"n_gpus": [512, 1024], "micro_batch_size": [1, 2], "recompute": [False, "full"]},
        {"n_gpus": 512, "recompute": False},
        {"n_gpus": 0, "recompute": 0},
        2 * 6,
    ),
    (
        {
            "software": ["nemo", "megatron-lm"],
            "n_gpus": [512, 1024],
            "gpu_mttf": ["1e4 h", "5e4 h"],
        },
        {"n_gpus": "1024", "software": "nemo"},
        {"n_gpus": 1, "software": 0},
        3 * (1 + 2),
    ),
    ({"n_gpus": [512, 1024], "model": ["llama-3-70b", "llama-2-70b"]}, "model", {"model": 0}, 4),
    ({"node": ["dgx-h100", "dgx-b200"], "n_gpus": [512, 1024]}, ["node"], {"node": 0}, 4),
    (
        {"n_gpus": [512, 1024], "oversubscription": [1, 3]},
        "oversubscription",
        {"oversubscription": 0},
        4,
    ),
    ({"layouts": LAYOUTS, "n_gpus": [512, 1024]}, {"layouts": "4 1"}, {"layouts": 1}, 4),
    # a coefficient that an axis states
    ({"gemm_efficiency": [0.6, 0.7]}, "gemm_efficiency", {"gemm_efficiency": 0}, 2),
    # no interval: a stated place in it, or coefficients of two sources
    ({"step_time_error": [0.0, 1.0]}, "step_time_error", {"step_time_error": 0}, 0),
    ({"calibration": ["auto", "none"]}, "calibration", {"calibration": 0}, 0),
)
def test_every_point_is_known_as_its_pair_with_the_base_is(
    axes: dict[str, Any], base: Any, at: dict[str, int], known: int
) -> None:
    given = {name: value for name, value in JOB.items() if name not in axes}
    given |= {} if "n_gpus" in axes else {"n_gpus": 1024}
    given |= {"error_factor": 1.2} if "step_time_error" in axes else {}
    assert check_pairs(Sweep(given, axes, ["step_time", "job_time", "mfu"]), base, at) >= known
    left_out = {"calibration": "none", **given}
    if "calibration" not in axes:
        assert check_pairs(Sweep(left_out, axes, ["step_time"]), base, at) == 0


def test_own_steps_tell_jobs_along_an_axis(tmp_path: Path) -> None:
    cell = update_steps(Table({"n_gpus": [512]}, [20.0], [2]), JOB)
    mine = {**JOB, "calibration": str(steps_file(tmp_path / "my.toml", cell))}
    axes = {"n_gpus": [512, 1024], "model": ["llama-3-70b", "llama-2-70b"]}
    sweep = Sweep({k: v for k, v in mine.items() if k != "model"}, axes, ["step_time"])
    assert check_pairs(sweep, {"n_gpus": 512}, {"n_gpus": 0}) == 2
    assert check_pairs(sweep, {"model": "llama-3-70b"}, {"model": 0}) == 2


def test_points_are_as_likely_better_as_in_draws_of_all_at_once() -> None:
    """Coefficients drawn once for all points, noise at each; the job's factor is common to all."""
    random = np.random.default_rng(7)
    posterior = pooled.posterior()
    cell = auto.posterior_cell(stated_inputs(JOB))
    means, root = posterior.coefficients_of(cell)
    draws = 400
    x = means[:, None] + root @ random.standard_normal((root.shape[1], draws))
    drawn = {one.input: one.value(x[one.place])[0].tolist() for one in posterior.settings(cell)}
    own = {"attention_kernel": posterior.kernel(cell), "compute_model": "roofline"}
    axes = {"n_gpus": [1024, 2048], "pipeline_parallel": [4, 8], "micro_batch_size": [1, 2]}
    free = {name: value for name, value in JOB.items() if name not in axes}
    played = Sweep({**free, **own}, {**axes, "draw": drawn}, ["job_time"]).evaluate().job_time
    noise = posterior.noise(cell.software) * random.standard_t(4, played.shape)
    logs = np.log(played) + noise
    apart = logs - logs.isel(pipeline_parallel=0, micro_batch_size=0)
    low, high = (apart.quantile(q, "draw") for q in (0.05, 0.95))
    base = {"pipeline_parallel": 4, "micro_batch_size": 1}
    found = Sweep(free, axes, ["job_time"]).prediction_interval(relative_to=base)
    half = np.log(found.job_time_ratio_high / found.job_time_ratio_low) / 2
    others = [(k, m) for k in (0, 1) for m in (0, 1) if (k, m) != (0, 0)]
    for k, m in others:
        at = {"pipeline_parallel": k, "micro_batch_size": m}
        width = ((high - low) / 2).isel(at).values
        assert half.isel(at).values == pytest.approx(width, rel=0.2)
        share = (apart.isel(at) < 0).mean("draw").values
        assert found.job_time_chance_below.isel(at).values == pytest.approx(share, abs=0.07)
    whole = np.log(found.job_time_high / found.job_time_low) / 2
    assert (half.isel(pipeline_parallel=1) < whole.isel(pipeline_parallel=1)).all()


def test_one_step_has_one_error() -> None:
    """What failures add to one step is known nearly for sure, as where it is in its interval moves
    all points alike: against job times at both ends."""
    axes = {"gpu_mttf": ["5e3 h", "1e4 h", "2e4 h"]}
    job = {**JOB, "n_gpus": 4096, "fixed_checkpoint_interval": "30 min"}
    sweep = Sweep(job, axes, ["job_time", "expected_failures"])
    found = sweep.prediction_interval(["job_time"], relative_to="gpu_mttf=1e4 h")
    apart = np.log(found.job_time_high / found.job_time_high[1]) - np.log(
        found.job_time_low / found.job_time_low[1]
    )
    ends = found[["job_time_ratio_low", "job_time_ratio_high"]].fillna(found.job_time_ratio)
    half = np.log(ends.job_time_ratio_high / ends.job_time_ratio_low).values / 2
    assert half == pytest.approx(abs(apart.values) / 2, abs=2e-3)
    assert found.job_time_chance_below.values[[0, 2]] == pytest.approx([0, 1], abs=1e-9)
    at = [{**job, "gpu_mttf": value} for value in ("5e3 h", "2e4 h")]
    assert ratios(*at, ["job_time"])["job_time"].below == pytest.approx(1, abs=1e-9)


def test_points_that_cannot_run_have_no_ratio() -> None:
    axes = {"n_gpus": [1024, 2048], "tensor_parallel": [2, 8]}
    sweep = Sweep({**JOB, "tensor_parallel": 8}, axes, ["job_time"])
    kept = sweep.prediction_interval(relative_to="n_gpus")
    cut = sweep.prediction_interval(relative_to="n_gpus", settings=Settings(infeasible="exclude"))
    wrong = (kept.infeasible_reason != 0).values
    assert wrong.any()
    for name in ("job_time_ratio", "job_time_ratio_high", "job_time_chance_below"):
        expected = np.where(wrong, np.nan, kept[name].values)
        np.testing.assert_array_equal(cut[name].values, expected)


def test_a_base_is_a_point_of_an_axis(tmp_path: Path) -> None:
    sweep = Sweep(JOB, {"n_gpus": [512, 1024], "software": ["nemo", "megatron-lm"]}, ["job_time"])
    ask = sweep.prediction_interval
    refused("'gpus' is not an axis; did you mean 'n_gpus'", ask, relative_to={"gpus": 1})
    refused("n_gpus = 600 is not on", ask, relative_to={"n_gpus": 600})
    refused("n_gpus = 512,1024 is not one", ask, relative_to="n_gpus=512,1024")
    refused("software = 'fsdp' is not on the axis", ask, relative_to="software=fsdp")
    refused("relative_to = 5 is not", ask, relative_to=5)
    plain = ask()
    assert ask(relative_to=()).identical(plain)
    spec = written(
        tmp_path / "a.toml",
        'outputs = ["job_time"]\n[scenario]\nmodel = "llama-3-70b"\nnode = "dgx-h100"\n'
        'fabric = "infiniband-ndr"\nn_gpus = 1024\n[axes]\ntensor_parallel = [4, 8]\n',
    )
    run = ["run", str(spec), "--relative-to", "tensor_parallel=8"]
    printed = CliRunner().invoke(cli, run)
    heading, first, second = printed.stdout.splitlines()[:3]
    assert all(name in heading for name in ("job_time_ratio", "job_time_chance_below"))
    assert [" %" in row for row in (first, second)] == [True, False]
    in_rows = CliRunner().invoke(cli, [*run, "-o", "-"]).stdout
    assert "job_time_ratio_low" in in_rows.splitlines()[0]
    for more, words in (
        (["--no-interval"], "leave out --no-interval"),
        (["-o", str(tmp_path / "a.zarr")], "--relative-to is for tables"),
    ):
        failed = CliRunner().invoke(cli, [*run, *more])
        assert words in f"{failed.exception}{failed.output}"
