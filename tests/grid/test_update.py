"""A user's measured steps update the published posterior and its interval."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import fleetcube
from fleetcube import InputError, Settings
from fleetcube.calibration import calibration_file
from fleetcube.calibration.steps import Table, fit_steps
from fleetcube.calibration.update import FREEDOM, WEIGHT, Update, most_likely, update_steps
from fleetcube.catalog import pooled, record

from .common import cases, on_h100, refused, steps_file

JOB = on_h100("llama-3-70b", software="megatron-lm", tensor_parallel=8)
# GPUs, stages, batch: six that are measured, and others
RUNS = [
    *((256, 4, 256), (256, 8, 256), (512, 4, 512), (512, 8, 1024), (128, 4, 256), (1024, 8, 512)),
    *((256, 2, 512), (512, 2, 512), (1024, 4, 1024), (2048, 8, 1024), (128, 8, 128)),
]
NAMES = ("n_gpus", "pipeline_parallel", "global_batch_size")
COEFFICIENTS = (
    *("gemm_efficiency", "gemm_half_depth", "attention_efficiency", "memory_efficiency"),
    *("layer_overhead_time", "intra_node_bandwidth", "network_efficiency"),
    *("layer_host_time", "step_time_jitter", "graph_wait_share"),
    *("data_parallel_overlap", "expert_parallel_overlap"),
)


def table(times: Any, runs: Any = None, **columns: Any) -> Table:
    own = RUNS[: len(times)] if runs is None else runs
    cells = dict(zip(NAMES, map(list, zip(*own, strict=True)), strict=True))
    return Table({**cells, **columns}, list(times), list(range(2, len(times) + 2)))


def times(calibration: str = "auto", runs: Any = RUNS, **changed: Any) -> Any:
    axes = {"run": dict(zip(NAMES, map(list, zip(*runs, strict=True)), strict=True))}
    scenario = {**JOB, "calibration": calibration, **changed}
    return (
        fleetcube.Sweep(scenario, axes, ["step_time"])
        .evaluate(settings=Settings("numpy"))["step_time"]
        .values
    )


def half_width(fit: Any) -> float:
    """Of a new step of the job, or of any step where a fit knows no job."""
    own = fit.jobs[0] if isinstance(fit, Update) else fit
    return math.log(own.error_factor)


MEANS, ROOT = np.array([0.3, -1.0]), np.array([[0.4, 0.0], [0.2, 0.3]])
SLOPES = np.array([[-0.8, 0.1], [-0.5, 0.4], [-0.9, 0.2]])


def test_the_coefficients_are_the_most_likely_ones_and_their_covariance_is_laplaces() -> None:
    """By SciPy's densities and their differences, with one outlier."""
    offsets = np.array([0.05, -0.02, 0.9])

    def evaluate(x: Any) -> Any:
        return SLOPES @ (x - MEANS) + offsets, SLOPES

    found, root, noise = most_likely(evaluate, MEANS, ROOT, 0.04)
    prior = stats.multivariate_normal(MEANS, ROOT @ ROOT.T)

    def density(x: Any) -> float:
        rows = stats.t.logpdf(evaluate(x)[0], FREEDOM, scale=noise)
        return float(rows.sum() + prior.logpdf(x))

    near = np.random.default_rng(4).normal(0, 0.03, (200, 2))
    assert all(density(found) > density(found + step) for step in near)
    # the outlier hardly changes anything
    alone = most_likely(lambda x: tuple(y[:2] for y in evaluate(x)), MEANS, ROOT, 0.04)[0]
    assert np.abs(found - alone).max() < 0.1
    # Student's noise as a normal one of weighted rows: (n + 1) / (n + (e / s)^2) / s^2
    errors = evaluate(found)[0]
    weights = (FREEDOM + 1) / (FREEDOM + (errors / noise) ** 2) / noise**2
    precision = np.linalg.inv(ROOT @ ROOT.T) + SLOPES.T @ np.diag(weights) @ SLOPES
    assert np.allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-3)
    # and its scale, by the rows and as many as WEIGHT of the expected one
    spread = np.trace(SLOPES @ root @ root.T @ SLOPES.T)
    squares = noise**2 * weights @ errors**2 + spread + WEIGHT * 0.04**2
    assert noise**2 == pytest.approx(squares / (3 + WEIGHT), rel=1e-3)


def test_where_noise_is_large_the_fit_is_the_normal_one_by_hand() -> None:
    """One coefficient with variance v, one row off by d with slope -1: x = v d / (v + 4 s^2 / 5).

    4 s^2 / 5 is the inverse of the curvature of Student's density, of 4 degrees, at 0. The scale s
    stays where 6 s^2 = 5 s_0^2 + v': the row adds the variance of what is fitted to it.
    """
    v, d = 0.09, 1e-3
    found, root, noise = most_likely(
        lambda x: (d - x, -np.ones((1, 1))), np.zeros(1), np.array([[math.sqrt(v)]]), 0.5
    )
    inside = 1 / (1 / v + 1.25 / noise**2)
    assert found[0] == pytest.approx(v * d / (v + 0.8 * noise**2), rel=1e-3)
    assert root[0, 0] ** 2 == pytest.approx(inside, rel=1e-6)
    assert noise**2 == pytest.approx((5 * 0.25 + inside) / 6, rel=1e-3)


def test_the_factor_of_a_job_is_the_most_likely_one_however_far() -> None:
    """By SciPy's densities on a grid of coefficient and factor: near, in between, and far."""
    spread, deviation, noise = 0.08, 0.05, 0.03
    prior = stats.norm(0, deviation)
    for gap in (-0.01, 0.1, 0.3, 1.5):
        gaps = np.array([gap, gap + 0.01])
        slopes = np.array([[0.9, 1.0], [0.9, 1.0]])
        found, _, scale = most_likely(
            lambda x, gaps=gaps, slopes=slopes: (slopes @ x - gaps, slopes),
            *(np.zeros(2), np.array([[deviation]]), noise, spread),
        )
        x, factor = np.meshgrid(np.linspace(-0.2, 0.2, 401), np.linspace(-0.2, 1.8, 2001))
        density = prior.logpdf(x) + stats.t.logpdf(factor, FREEDOM, scale=spread)
        for own in gaps:
            density += stats.t.logpdf(0.9 * x + factor - own, FREEDOM, scale=scale)
        best = np.unravel_index(np.argmax(density), density.shape)
        assert found[0] == pytest.approx(x[best], abs=2e-3)
        assert found[1] == pytest.approx(factor[best], abs=2e-3)
    assert found[1] > 1.3  # believed


def test_one_step_far_from_published_ones_sets_the_others_of_its_job() -> None:
    """1.6 times as long, of which one row knows; the six others are off by less than 6 %, of a
    job on another cluster the coefficients' part alone."""
    measured = 1.6 * times()
    fit = update_steps(table(measured[:1]), JOB)
    assert "measured is 1.6 times what published steps lead to expect" in fit.notes[0]
    assert np.abs(predicted(fit) / measured - 1).max() < 0.06
    other = times("auto", RUNS, **calibration_file.step_values(fit))
    assert (other < 0.75 * measured).all()
    assert fit.error_factor > fit.jobs[0].error_factor


def test_jobs_of_a_table_have_factors_of_their_own() -> None:
    models = ["llama-3-70b", "llama-3-70b", "llama-3-8b"]
    expected = np.array([times("auto", RUNS[:1], model=name)[0] for name in models])
    fit = update_steps(table(expected * [1.2, 1.2, 0.9], [RUNS[0]] * 3, model=models), JOB)
    assert [job.of["layers"] for job in fit.jobs] == [80, 32]
    assert fit.jobs[0].factor > 1.1 > 0.97 > fit.jobs[1].factor


def test_rows_as_expected_leave_the_posterior_where_it_was() -> None:
    fit = update_steps(table(times()[:6]), JOB)
    auto = pooled.posterior().values(fit.cell)
    assert set(fit.values) == set(COEFFICIENTS)
    for name in COEFFICIENTS:
        assert fit.values[name] == pytest.approx(auto[name], rel=1e-3), name
    assert fit.choices == {name: auto[name] for name in fit.choices}
    assert 1 < fit.jobs[0].error_factor < fit.error_factor < auto["error_factor"]
    assert fit.jobs[0].factor == pytest.approx(1, abs=1e-3)
    assert fit.jobs[0].of == {
        **{"node": "dgx-h100", "fabric": "infiniband-ndr"},
        **{"layers": 80.0, "hidden_size": 8192.0, "vocab_size": 128256.0},
    }
    assert fit.notes == ()
    idle = ("graph_wait_share", "layer_host_time", "expert_parallel_overlap")  # GPUs work longer
    assert fit.idle == idle
    assert "expert_parallel_overlap" in fit.published


def test_six_rows_say_more_than_two_and_neither_moves_past_its_data_sheet() -> None:
    slower = 1.15 * times()
    two, six = (update_steps(table(slower[:n]), JOB) for n in (2, 6))
    assert half_width(six) < half_width(two)
    expected = np.log(times()[6:])
    off = [np.abs(np.log(predicted(fit)[6:] / slower[6:])).mean() for fit in (two, six)]
    assert off[1] < off[0] < np.abs(expected - np.log(slower[6:])).mean()
    for fit in (two, six):
        for name, (low, high) in fit.intervals.items():
            assert low < fit.values[name] < high
            if name not in ("gemm_half_depth", "layer_overhead_time", "intra_node_bandwidth"):
                assert high < 1, name


def predicted(fit: Update, runs: Any = RUNS) -> Any:
    """Of new steps of the job."""
    return fit.jobs[0].factor * times("auto", runs, **calibration_file.step_values(fit))


def test_intervals_hold_new_steps_of_clusters_like_the_published() -> None:
    """Clusters drawn from the prior, with Student's noise: 90 of 100 other steps are inside."""
    posterior = pooled.posterior()
    cell = update_steps(table(times()[:2]), JOB).cell
    means, root = posterior.coefficients_of(cell)
    random = np.random.default_rng(21)
    inside, widths = [], []
    for _ in range(6):
        x = means + root @ random.standard_normal(root.shape[1])
        own = math.exp(posterior.job_spread * random.standard_normal())
        truth = {one.input: float(one.value(x[one.place])[0]) for one in posterior.settings(cell)}
        noise = posterior.noise(cell.software) * random.standard_t(FREEDOM, len(RUNS))
        measured = own * times("auto", **truth) * np.exp(noise)
        fit = update_steps(table(measured[:4]), JOB)
        inside += list(np.abs(np.log(predicted(fit) / measured))[4:] <= half_width(fit))
        widths.append(half_width(fit))
    assert np.mean(inside) >= 0.8  # 42 steps, of which 38 are expected
    assert max(widths) < 0.4


def test_the_file_predicts_what_was_fitted_with_an_interval(tmp_path: Path) -> None:
    scenario = {**JOB, "calibration": "aws-p5"}
    fit = update_steps(table(1.1 * times("aws-p5", compute_model="roofline")[:3]), scenario)
    path = steps_file(tmp_path / "my.toml", fit)
    held = record("calibration", str(path))
    network = record("calibration", "aws-p5").values
    assert {name: held.values[name] for name in network} == dict(network)
    assert held.standard_errors.keys() == set(COEFFICIENTS)
    assert np.allclose(times(str(path), RUNS[:3]), fit.fitted, rtol=1e-4)
    given = {**JOB, "calibration": str(path), "n_gpus": 256, "pipeline_parallel": 4}
    given["cuda_graphs"] = True  # hosts, which differ, would widen the interval of small layers
    assert fit.error_factor > fit.jobs[0].error_factor
    # of the job at any size; of others the coefficients alone, along axes as well
    shape = {"layers": 80, "hidden_size": 8192, "vocab_size": 128256}
    for axes, changed, own in (
        ({"n_gpus": [256, 1024]}, {}, [True, True]),
        ({"model": ["llama-3-70b", "llama-3-8b", "llama-2-70b"]}, {}, [True, False, False]),
        ({"fabric": ["infiniband-ndr", "roce-400g"]}, {}, [True, False]),
        ({"precision": ["bf16", "fp8"]}, {}, [True, False]),
        ({"calibration": [str(path), "none"]}, {"flops_efficiency": 0.4}, [True, False]),
        ({}, {"model": None, **shape}, True),
        ({}, {"model": None, **shape, "layers": 64}, False),
        ({}, {"software": "nemo"}, False),
        ({}, {"node": "dgx-h100@1", "fabric": "infiniband-ndr@1"}, True),
        ({}, {"fabric": None, "inter_node_bandwidth": "50 GB/s"}, False),
    ):
        left = {n for n, v in changed.items() if v is None} | {*axes}
        scenario = {n: v for n, v in {**given, **changed}.items() if n not in left}
        factor, error = ends(scenario, axes)
        assert factor == pytest.approx(np.where(own, fit.jobs[0].factor, 1.0), rel=1e-5)
        if "calibration" not in axes:
            expected = np.where(own, fit.jobs[0].error_factor, fit.error_factor)
            assert error == pytest.approx(expected, abs=1e-3)


def test_a_file_is_replaced_and_what_is_sought_or_stated_has_no_factor(tmp_path: Path) -> None:
    measured = 1.2 * times()[:2]
    path = tmp_path / "my.toml"

    def written(scenario: dict[str, Any]) -> Update:
        fit = update_steps(table(measured), scenario)
        steps_file(path, fit)
        return fit

    first = written(JOB)
    mine = {**JOB, "calibration": str(path), "n_gpus": 256, "pipeline_parallel": 4}
    again = written({**JOB, "calibration": str(path)})
    assert again.jobs == first.jobs
    assert times(str(path), RUNS[:2]) == pytest.approx(first.fitted, rel=1e-5)
    refused(
        "has factors of jobs, which the fit would not pass on",
        lambda: fit_steps(table(measured), {**JOB, "calibration": str(path)}, ["gemm_efficiency"]),
    )
    axes = {"calibration": [str(path), "aws-p5"], "model": ["llama-3-70b", "llama-3-8b"]}
    refused(
        "calibrations of own jobs along 'calibration' depend on model, which varies along 'model'",
        lambda: fleetcube.Sweep(mine, axes, ["step_time"]).evaluate(),
    )
    # a model's shape that is sought is no job's; a factor that is stated stands for the file's
    found = fleetcube.Sweep(mine, {}, ["step_time"]).solve("layers", "step_time = 10 s")
    at = {**mine, "layers": float(found.layers)}
    alone = float(fleetcube.evaluate("step_time", **at))
    assert float(found.step_time) == pytest.approx(alone, rel=0.03)  # stages of whole layers
    assert first.jobs[0].factor > 1.08
    one, two = (
        fleetcube.evaluate(["step_time", "step_time_high"], **mine, step_time_factor=factor)
        for factor in (1.0, 2.0)
    )
    assert float(two.step_time / one.step_time) == pytest.approx(2)
    error = float(two.step_time_high / two.step_time)
    assert error == pytest.approx(first.error_factor, abs=1e-3)


def ends(scenario: dict[str, Any], axes: dict[str, Any]) -> tuple[Any, Any]:
    """The ratio of the step's time to the sum of its parts, and its upper end over itself."""
    parts = ["compute_time", "straggler_time", "bubble_time"]
    parts += ["exposed_communication_time", "optimizer_time"]
    names = ["step_time", "step_time_high", *parts]
    cube = fleetcube.Sweep(scenario, axes, names).evaluate(settings=Settings("numpy"))
    whole = sum(cube[name] for name in parts)
    return (cube.step_time / whole).values, (cube.step_time_high / cube.step_time).values


def test_what_is_stated_is_not_fitted() -> None:
    column = table(times(gemm_efficiency=0.5)[:4], memory_efficiency=[0.8] * 4)
    fit = update_steps(column, {**JOB, "gemm_efficiency": 0.5})
    assert set(fit.values) == set(COEFFICIENTS) - {"gemm_efficiency", "memory_efficiency"}


def test_what_nobody_measured_is_fitted_too_and_less_is_known_of_it() -> None:
    measured, other = {**JOB, "precision": "fp8"}, {**JOB, "precision": "fp8", "gpu": "mi300x"}
    known = update_steps(table(times(**measured)[:1]), measured)
    assert half_width(known) < half_width(update_steps(table(times(**other)[:1]), other))
    unknown = {name: value for name, value in JOB.items() if name != "software"}
    assert update_steps(table(times()[:1]), unknown).cell.software == ""


def test_an_output_that_follows_from_the_step_alone_is_as_good() -> None:
    measured = times()[:4]
    run = dict(zip(NAMES, map(list, zip(*RUNS[:4], strict=True)), strict=True))
    share = fleetcube.Sweep({**JOB, "calibration": "auto"}, {"run": run}, ["mfu"])
    fit = update_steps(table(share.evaluate(settings=Settings("numpy"))["mfu"].values), JOB, "mfu")
    assert half_width(fit) == pytest.approx(half_width(update_steps(table(measured), JOB)))
    with pytest.raises(InputError, match="does not follow from the step's time alone"):
        update_steps(table(0.8 * measured), JOB, "compute_time")


def test_steps_that_nothing_explains_are_said() -> None:
    measured = times()[:6].copy()
    measured[4] *= 8
    fit = update_steps(table(measured), JOB)
    assert fit.notes == ("line 6: measured is 8 times fitted; it counts little",)
    expected = update_steps(table(times()[:6]), JOB).values["gemm_efficiency"]
    assert fit.values["gemm_efficiency"] == pytest.approx(expected, rel=0.02)
    slow = update_steps(table(1.7 * times()[:6]), JOB)
    assert "measured is 1.7 times what published steps lead to expect" in slow.notes[0]
    assert slow.doubt is None
    assert "is the unit right?" in str(update_steps(table(1000 * times()[:6]), JOB).doubt)


@cases(
    "changed, columns, rule",
    ({"node": None}, {}, "needs a GPU and has none; give gpu, node or peak_flops_bf16"),
    ({"flops_efficiency": 0.4}, {}, "flops_efficiency is stated.* leave it out"),
    ({}, {"step_time_factor": [1.2, 1.2]}, "step_time_factor is stated.* leave it out"),
    ({"step_time_error": 1, "error_factor": 1.2}, {}, "step_time_error is stated"),
    ({"compute_model": "mfu"}, {}, "of compute_model = roofline; leave compute_model out"),
    ({}, {"precision": ["bf16", "fp8"]}, r"differ in precision \(16 bits, 8 bits\)"),
    ({}, {"gpu": ["h100-sxm", "a100-sxm-80gb"]}, r"differ in gpu \(h100, a100\)"),
    ({}, {"software": ["nemo", "fsdp"]}, r"differ in software \(nemo, fsdp\)"),
    ({}, {"calibration": ["aws-p5"] * 2}, "calibration is a column; state it in the spec"),
    ({"model": None}, {}, "is missing"),
    (dict.fromkeys(COEFFICIENTS, 0.5), {}, "depends on no coefficient that is open"),
)
def test_bad_input_is_one_line(changed: dict[str, Any], columns: dict[str, Any], rule: str) -> None:
    scenario = {n: v for n, v in {**JOB, **changed}.items() if v is not None}
    refused(rule, lambda: update_steps(table([9.0, 9.5], **columns), scenario))
    refused("no row of the table can be used", lambda: update_steps(Table({"gpu": []}), JOB))


ALONE = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 1}


def test_inputs_fitted_alone_have_students_interval() -> None:
    """By hand, for two steps of 0.4 and 0.5 of the peak, with one degree of freedom.

    Residuals are r = +- ln(0.5 / 0.4) / 2, so that s^2 = 2 r^2; a new row adds the fit's s^2 / 2 to
    its own; t(0.95, 1) = 6.314.
    """

    def seconds(share: float) -> float:
        given = {**ALONE, "global_batch_size": 8, "flops_efficiency": share}
        return float(fleetcube.evaluate("step_time", **given))

    steps = Table({"global_batch_size": [8, 8]}, [seconds(0.4), seconds(0.5)], [2, 3])
    fit = fit_steps(steps, ALONE)
    r = math.log(0.5 / 0.4) / 2
    assert half_width(fit) == pytest.approx(6.3138 * math.sqrt(2 * r**2 * 1.5), rel=1e-3)
    exact = Table({"global_batch_size": [8, 8]}, [seconds(0.4)] * 2, [2, 3])
    least = pooled.STUDENT * pooled.posterior().noise()
    assert half_width(fit_steps(exact, ALONE)) == pytest.approx(least)
    bandwidth = Table({"global_batch_size": [8, 8]}, [0.5, 0.5], [2, 3])
    assert fit_steps(bandwidth, ALONE, ["flops_efficiency"], "mfu").error_factor is not None
