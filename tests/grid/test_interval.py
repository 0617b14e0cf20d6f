"""90 % intervals of outputs, from the interval of the step's time."""

import math
import re
from typing import Any

import matplotlib
import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import norm

from fleetcube import InputError, Settings, Sweep, evaluate
from fleetcube.analysis.assumptions import ASSUMED
from fleetcube.cli import cli
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import ENDS, ERRORS, RATIOS_OF_PARTS
from fleetcube.presentation.pictures.plot import plot

from .common import cases, on_h100, refused, written

matplotlib.use("Agg")
JOB = on_h100(calibration="none", gpu_hour_price="2 USD/h", electricity_price=0.1 / 3.6e6)
JOB |= {"grid_carbon_intensity": 0.4 / 3.6e6}
FACTOR = {"error_factor": 1.3}
WIDE = ["step_time", "job_time", "job_cost", "energy", "failure_probability", "mfu"]
Z = norm.ppf(0.95)
TIERED = {"least_stated_interval", "longest_checkpoint_interval", "stated_drive_interval"}
TIERED |= {"drive_write_interval", "target_drive_interval", "target_storage_interval"}


def up(name: str, cut: frozenset[str] = frozenset()) -> set[str]:
    """All that a quantity is computed from, under any option, but not through `cut`."""
    seen: set[str] = set()
    level = [name]
    for current in level:
        formulas = (
            PHYSICS.quantities[current].formulas.values() if current in PHYSICS.quantities else ()
        )
        new = {p for f in formulas for p in parameters(f)} - seen - cut
        seen |= new
        level += new
    return seen


def test_what_sets_parts_of_a_step_beside_the_whole_has_no_interval() -> None:
    step, shift, factor = "step_time", *ERRORS["step_time"]
    parts = {n for n in up(step) if n in PHYSICS.quantities and PHYSICS.quantities[n].unit == "s"}
    parts |= {"serial_time_per_step", "communication_time"}  # the last with what is hidden
    parts |= {"ideal_job_time"}  # steps x compute time
    mixed = {
        name
        for name, quantity in PHYSICS.quantities.items()
        if step in up(name)
        for formula in quantity.formulas.values()
        if parts & {*parameters(formula)} and "step_time_ratio" not in parameters(formula)
    }
    scaled = {"batch_independent_time"}  # has a formula in which all parts are alike
    assert mixed - scaled <= RATIOS_OF_PARTS
    others = {n for n in RATIOS_OF_PARTS if not {*up(n), n} & mixed}
    assert others == {"step_time_low", "step_time_high"}
    assert {step, shift, factor} & RATIOS_OF_PARTS == set()


def test_a_jobs_factor_scales_all_parts_of_its_step() -> None:
    """Nothing reads a part beside the whole and leaves it as computed, and shares stay shares."""
    scaled = {"step_time_ratio"}
    parts = {
        n for n in up("step_time") if n in PHYSICS.quantities and PHYSICS.quantities[n].unit == "s"
    }
    parts |= {"serial_time_per_step", "communication_time"}
    for name in RATIOS_OF_PARTS - {"sync_wall_gpus"}:  # reads shared_step_time, as computed
        formulas = PHYSICS.quantities[name].formulas
        mixed = {of for of, f in formulas.items() if parts & {*parameters(f)}}
        assert all(not of or scaled & {*parameters(formulas[of])} for of in mixed), name
        assert {True, False} <= {*formulas} or not mixed, name
    shares = ["communication_fraction", "scaling_efficiency", "shared_step_time"]
    shares += ["sync_wall_gpus"]
    wall = ["compute_inefficiency_overhead", "communication_overhead", "bubble_overhead"]
    wall += ["straggler_overhead", "reliability_overhead", "useful_compute_share"]
    own = {"step_time_factor": [0.8, 1.0, 1.3], "pipeline_parallel": [1, 2]}
    found = Sweep(JOB, own | {"n_gpus": [64]}, [*shares, *wall]).evaluate()
    for name in shares:
        np.testing.assert_allclose(found[name], found[name][[1, 1, 1]], rtol=1e-12)
    np.testing.assert_allclose(sum(found[name] for name in wall), 1.0, rtol=1e-12)


def test_outputs_that_an_interval_does_not_reach_have_none() -> None:
    names = ["job_time", "communication_overhead", "sync_wall_gpus", "goodput", "nodes"]
    made = Sweep(JOB | FACTOR, {"n_gpus": [64, 128]}, names)
    found = made.prediction_interval()
    assert {*found.data_vars} == {*names, "job_time_low", "job_time_high"}
    for name in names:
        assert found[name].identical(made.evaluate()[name])
    plain = Sweep(JOB, {"n_gpus": [64, 128]}, names)
    whole = plain.prediction_interval()
    del whole.attrs[ASSUMED], whole.attrs[f"{ASSUMED}_sources"]
    assert whole.identical(plain.evaluate())


def test_the_ends_are_those_of_a_step_that_takes_as_long() -> None:
    axes = {"n_gpus": [64, 60, 512], "error_factor": [1.0, 1.2, 2.0]}
    found = Sweep(JOB, axes, WIDE).prediction_interval(settings=Settings(infeasible="exclude"))
    assert found["mfu_low"].dims == ("n_gpus", "error_factor")
    for k, n in enumerate(axes["n_gpus"]):
        for j, factor in enumerate(axes["error_factor"]):
            row = found.isel(n_gpus=k, error_factor=j)
            ends = np.array([[row[f"{name}_{end}"] for end in ("low", "high")] for name in WIDE])
            if n == 60 or factor == 1:  # not whole nodes; no interval is known
                assert np.isnan(ends).all()
                continue
            time = evaluate("step_time", **JOB, n_gpus=n)
            told = [{"step_time": time / factor}, {"step_time": time * factor}]
            known = [[evaluate(name, **JOB, n_gpus=n, **t) for t in told] for name in WIDE]
            np.testing.assert_allclose(ends, np.sort(known, axis=1), rtol=1e-12)


def test_outputs_rise_or_fall_all_along_the_interval() -> None:
    apart = RATIOS_OF_PARTS | {"batch_independent_time"} - {"step_time_low"}
    whole = {
        name: {name, *up(name)} for name, of in PHYSICS.quantities.items() if of.unit != "flag"
    }
    names = sorted(name for name, of in whole.items() if "step_time" in of and not of & apart)
    assert {"step_time", "tokens_per_second", "mfu", "hfu"} <= {*names}
    more = ["job_time", "job_cost", "gpu_hours", "energy", "expected_failures", "carbon_emissions"]
    names = [*dict.fromkeys([*names, *more, "failure_probability", "checkpoints_written"])]
    options: list[dict[str, Any]] = [
        {},
        {"checkpoint_interval": 600},
        {"ramp_tokens": 1e10, "ramp_start_batch_size": 64, "long_context_length": 65536}
        | {"long_context_tokens": 1e10, "global_batch_size": 512},
        {"goodput_model": "first_order", "spare_nodes": 2, "repair_time": "8 h"},
    ]
    tiers: dict[str, Any] = {"storage_tier_interval": 3600, "drive_tier_interval": 900}
    tiers |= {"checkpoint_mode": "sync", "tier_intervals": "tuned", "drive_timing": False}
    places = np.linspace(-1, 1, 9)
    for option in options:
        given = JOB | FACTOR | tiers | option
        made = Sweep(given, {"step_time_error": places, "n_gpus": [128]}, names)
        found = made.evaluate(settings=Settings("numpy"))
        for name in names:
            values = found[name].values.reshape(-1)
            steps = np.diff(values)
            if name in TIERED and np.isinf(values).all():
                continue  # of a tier that the job lacks
            assert np.isfinite(values).all(), (name, option)
            assert (steps > 0).all() or (steps < 0).all(), (name, option, values)


def test_memory_has_its_own() -> None:
    found = Sweep(
        JOB | {"memory_error_factor": 1.1}, {"n_gpus": [64]}, [*ENDS]
    ).prediction_interval()
    memory = found["memory_per_gpu"].item()
    assert found["memory_per_gpu_low"].item() == pytest.approx(memory / 1.1, rel=1e-14)
    assert found["memory_per_gpu_high"].item() == pytest.approx(memory * 1.1, rel=1e-14)
    assert "fleetcube_unused" not in found.attrs or "memory" not in found.attrs["fleetcube_unused"]


def test_the_factor_of_auto_varies_with_what_it_is_found_from() -> None:
    scenario = {**JOB, "calibration": "auto", "n_gpus": 64}
    del scenario["node"]
    scenario |= {"gpus_per_node": 8}
    axes = {"gpu": ["h100-sxm", "b200-sxm"], "software": ["megatron-lm", "torchtitan"]}
    found = Sweep(scenario, axes, ["tokens_per_second"]).prediction_interval()
    wide = found["tokens_per_second_high"] / found["tokens_per_second"]
    assert wide.dims == ("gpu", "software")
    assert len(np.unique(wide)) == 4
    step = Sweep(scenario, axes, ["step_time", "step_time_high"]).evaluate()
    np.testing.assert_allclose(wide, step["step_time_high"] / step["step_time"], rtol=1e-13)


@pytest.mark.parametrize(("method", "rtol"), [("sampled", 2e-3), ("first_order", 1e-12)])
def test_the_error_of_the_step_adds_to_distributions(method: str, rtol: float) -> None:
    scenario = JOB | FACTOR | {"n_gpus": 64, "gpu_hour_price": {"lognormal": ["2 USD/h", 1.2]}}
    scenario |= {"goodput": 0.9, "availability": 1.0}
    made = Sweep(scenario, {}, ["gpu_cost", "job_time", "goodput", "communication_overhead"])
    found = made.uncertainty(q=[0.05, 0.95], method=method, samples=1 << 14)
    given = {**scenario, "gpu_hour_price": 2.0}
    cost, time = (evaluate(name, **given) for name in ("gpu_cost", "job_time"))
    wide = math.exp(math.hypot(math.log(1.3), Z * math.log(1.2)))
    np.testing.assert_allclose(found["gpu_cost"], [cost / wide, cost * wide], rtol=rtol)
    np.testing.assert_allclose(found["job_time"], [time / 1.3, time * 1.3], rtol=rtol)
    assert found["goodput_std"] == 0
    assert found["communication_overhead_std"] == 0  # the error of the whole says nothing of it
    both = made.prediction_interval()
    np.testing.assert_allclose(both["gpu_cost_high"], cost * wide, rtol=2e-3)
    np.testing.assert_allclose(both["job_time_high"], time * 1.3, rtol=1e-12)


def test_no_quantiles_where_no_error_is_known() -> None:
    axes = {"error_factor": [1.0, 1.5]}
    for method in ("sampled", "first_order"):
        made = Sweep(JOB | {"n_gpus": 64}, axes, ["job_time", "goodput"])
        found = made.uncertainty(method=method, samples=64)
        assert {*found.data_vars} == {"job_time", "job_time_mean", "job_time_std"}
        assert np.isnan(found["job_time"]).all("quantile").values.tolist() == [True, False]
        refused("no distribution that goodput", made.uncertainty, "goodput", method=method)


def test_a_place_in_the_interval_stands_before_its_distribution() -> None:
    made = Sweep(JOB | FACTOR | {"n_gpus": 64}, {"step_time_error": [-1, 0, 1]}, ["job_time"])
    assert {*made.prediction_interval().data_vars} == {"job_time"}
    refused("no distribution", made.uncertainty)


@cases("given", {}, {"error_factor": 1}, {"error_factor": [1, 1]})
def test_a_place_in_no_interval_is_refused(given: dict[str, Any]) -> None:
    for scenario, axes in (({"step_time_error": 1}, {}), ({}, {"step_time_error": [-1, 1]})):
        factor = given.get("error_factor")
        more = {"error_factor": [1.0]} if isinstance(factor, list) else {}
        fixed = {} if isinstance(factor, list) else given
        with pytest.raises(InputError, match="step_time_error is given, and error_factor is 1"):
            Sweep(JOB | scenario | fixed, {"n_gpus": [64], **axes, **more}, ["job_time"])


def test_run_prints_it_where_a_calibration_gives_one(tmp_path: Any) -> None:
    text = 'outputs = ["job_time", "goodput"]\naxes.n_gpus = [64, 128]\n[scenario]\nmodel = '
    text += '"llama-3-8b"\nnode = "dgx-h100"\nfabric = "infiniband-ndr"\nerror_factor = 1.3\n'
    spec = written(tmp_path / "job.toml", text)

    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, ["run", str(spec), *words])

    first = Sweep.from_file(spec).prediction_interval().isel(n_gpus=0)
    shown = [float(first[f"job_time{end}"]) / 86400 for end in ("", "_low", "_high")]
    lines = run().output.splitlines()
    assert lines[0].split() == ["n_gpus", "job_time", "[d]", "(90", "%)", "goodput"]
    found = re.fullmatch(r" *64 +([\d.]+) \(([\d.]+) to ([\d.]+)\) .*", lines[1])
    assert found
    for text, value, within in zip(found.groups(), shown, (1e-3, 0.02, 0.02), strict=True):
        assert float(text) == pytest.approx(value, rel=within)
    assert "90 %" not in run("--no-interval").output
    assert "90 %" not in run("error_factor=1").output
    narrow = CliRunner().invoke(cli, ["run", str(spec), "error_factor=1.000001"]).output
    assert narrow.splitlines()[0].split() == ["n_gpus", "job_time", "[d]", "goodput"]
    assert "set, but nothing" not in run().output
    assert "job_time_low" not in run("-o", "-").output
    assert "job_time_low [s],job_time_high [s]" in run("-o", "-", "--interval").output
    refused = run("--interval", "-o", str(tmp_path / "a.zarr"))
    assert "step_time_error = [-1, 0, 1]" in str(refused.exception)


def test_rates_of_serving_have_an_interval_by_themselves() -> None:
    given = {"model": "llama-3-70b", "node": "dgx-h100", "tensor_parallel": 8}
    names = ["output_tokens_per_second", "time_per_output_token"]
    found = Sweep(given, {"serving_batch_size": [1, 64]}, names).prediction_interval()
    for name in names:  # a factor of all times is one of all rates
        for end, power in (("low", -1), ("high", 1)):
            np.testing.assert_allclose(found[f"{name}_{end}"], found[name] * 2.3**power)
    for tokens in (32, 4096):  # bound by weights, and by products
        at = {**given, "prompt_tokens": tokens}
        first = Sweep(at, {}, ["time_to_first_token"]).prediction_interval()
        assert float(first.time_to_first_token_high / first.time_to_first_token) == pytest.approx(
            2.3
        )
    certain = {**given, "serving_error_factor": 1}
    assert "time_per_output_token_low" not in Sweep(certain, {}, names).prediction_interval()


def test_curves_have_bands() -> None:
    axes = {"n_gpus": [64, 128, 256], "precision": ["bf16", "fp8"]}
    places = {"step_time_error": [-2, -1, 0, 1]}
    names = ["job_time", "communication_overhead"]
    found = Sweep(JOB | FACTOR, axes, names).prediction_interval()
    for cube in (found, Sweep(JOB | FACTOR, axes | places, names).evaluate()):
        figure = plot(cube, "job_time", "n_gpus", None, None)
        for k, band in enumerate(figure.axes[0].collections[:2]):
            (path,) = band.get_paths()
            row = found.isel(precision=k)
            heights = {round(float(y), 6) for _, y in path.vertices}
            ends = np.concatenate([row["job_time_low"], row["job_time_high"]]) / 86400
            scale = 1 if found["job_time"].median() > 86400 else 24
            assert heights == {round(float(y) * scale, 6) for y in ends}
        line = found["job_time"].isel(precision=0) / 86400 * scale
        assert figure.axes[0].lines[0].get_ydata() == pytest.approx(line)
        assert "90 % interval" in [
            text.get_text()
            for legend in (*figure.legends, figure.axes[0].get_legend())
            if legend is not None
            for text in legend.get_texts()
        ]
        figure = plot(cube, "communication_overhead", "n_gpus", None, None)
        assert not figure.axes[0].collections
        bars = plot(cube.isel(n_gpus=[0]), "job_time", "precision", None, None)
        (segments,) = [c.get_segments() for c in bars.axes[0].collections[:1]]
        assert len(segments) == 2


def test_the_interval_of_a_count_is_that_of_what_is_counted() -> None:
    """Failures drawn by Poisson's law around means drawn within the error of the step."""
    random = np.random.default_rng(6)
    job = {**JOB, "flops_efficiency": 0.4, "error_factor": 1.3}
    axes = {"training_tokens": [1e11, 1e12, 1e13, 1e16], "n_gpus": [256, 4096]}
    found = Sweep(job, axes, ["expected_failures"]).prediction_interval()
    for k, j in np.ndindex(4, 2):
        mean = float(found.expected_failures[k, j])
        means = mean * 1.3 ** (random.standard_normal(200_000) / 1.645)
        counts = random.poisson(means)
        low, high = (float(found[f"expected_failures_{end}"][k, j]) for end in ("low", "high"))
        assert low.is_integer()
        assert np.mean(counts < low) < 0.052
        assert np.mean(counts <= low) > 0.048
        assert np.mean(counts > high) < 0.052
        assert np.mean(counts >= high) > 0.048
    drawn = {**job, "gpu_mttf": {"lognormal": ["50_000 h", 1.5]}, "n_gpus": 256}
    only = Sweep(drawn, {}, ["expected_failures", "job_time"]).prediction_interval()
    assert "expected_failures_low" not in only
