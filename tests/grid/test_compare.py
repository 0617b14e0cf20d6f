"""Two scenarios compared: terms that add up, and the effect of each change."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetcube import evaluate
from fleetcube.analysis.compare import DECOMPOSED, Comparison
from fleetcube.analysis.compare import compare as compare_sweeps
from fleetcube.calibration.steps import Table
from fleetcube.calibration.update import update_steps
from fleetcube.catalog import pooled
from fleetcube.grid.errors import InputError
from fleetcube.scenario import auto
from fleetcube.scenario.reading import stated_inputs
from fleetcube.sweep import Sweep
from fleetcube.tables.tables import chance

from .common import cases, on_h100, ratios, refused, steps_file

JOB = on_h100(
    "llama-3-70b", gpu_hour_price=2.0, n_gpus=2048, tensor_parallel=8, pipeline_parallel=4
)
JOB |= {"global_batch_size": 2048, "straggler_slowdown": 0.02, "serial_time_per_step": "50 ms"}
JOB |= {"maintenance_fraction": 0.03, "checkpoint_write_bandwidth": "100 GB/s"}
OUTPUTS = ["step_time", "job_time", "job_cost", "goodput", "dominant_overhead"]
FASTER = {**JOB, "node": "dgx-b200", "fabric": "infiniband-xdr", "gpu_hour_price": 4.0}


def sweep(scenario: dict[str, object], axes: dict[str, object] | None = None) -> Sweep:
    return Sweep(scenario, axes or {}, OUTPUTS)


def compare(*pair: Sweep, **asked: Any) -> Any:
    """The comparison, with its values as a Dataset."""
    found = compare_sweeps(*pair, **asked)
    return dataclasses.replace(found, values=found.values.to_xarray())  # type: ignore[arg-type]


def differences_add_up(found: Comparison, names: tuple[str, ...] = DECOMPOSED) -> None:
    for name in names:
        whole, terms = found.values[name], found.values[f"{name}_terms"]
        np.testing.assert_allclose(terms.sum(f"{name}_term") / whole, 1, rtol=1e-12)
        moved = terms.sel(scenario="b") - terms.sel(scenario="a")
        total = whole.sel(scenario="b") - whole.sel(scenario="a")
        scale = float(abs(whole).max())
        rest = moved.sum(f"{name}_term") - total
        np.testing.assert_allclose(rest / scale, 0, rtol=0, atol=1e-12)


# Each feature adds a term: a forgotten one shows in the total
FEATURES: list[dict[str, object]] = [{}, {"global_batch_size": 4096}, {"offload": "cpu"}]
FEATURES += [{"goodput_model": model} for model in ("first_order", "additive")]
FEATURES += [{"goodput": 0.8}, {"exposed_communication_time": "1 s"}, {"maintenance_fraction": 0.2}]
FEATURES += [{"serial_time_per_step": "1 s"}]
FEATURES += [{"context_parallel": 2}]
FEATURES += [{"model": "mixtral-8x7b", "expert_parallel": 8}]
FEATURES += [{"data_parallel_overlap": 0.0, "zero_stage": 3}]
FEATURES += [{"n_gpus": 4096, "pipeline_parallel": 1}]
FEATURES += [{"slow_nodes": "checked", "slow_node_mttf": "9_000 h", "slow_node_slowdown": 0.2}]
FEATURES[-1] |= {"slow_node_check_interval": "6 h", "slow_node_check_time": "5 min"}


@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: ",".join(f) or "node")
def test_terms_and_their_differences_add_up(feature: dict[str, object]) -> None:
    changed = {**JOB, **feature} if feature else FASTER
    differences_add_up(compare(sweep(JOB), sweep(changed)))


def test_terms_add_up_over_axes_and_leave_out_the_infeasible() -> None:
    axes = {"n_gpus": [512, 1024, 100_000], "goodput_model": ["exact", "additive"]}
    found = compare(sweep(JOB, axes), sweep(FASTER, axes), over=["n_gpus", "goodput_model"])
    assert found.values["job_time"].sizes == {"scenario": 2, "n_gpus": 3, "goodput_model": 2}
    assert found.values["job_time"].sel(n_gpus=100_000).isnull().all()  # replicas without a batch
    assert found.infeasible == ("2 of 6 layouts", "2 of 6 layouts")  # budgets may leave no time
    assert np.isnan(found.changes[0].factor.isel({"n_gpus": 2}).values).all()
    none = {"n_gpus": [100_000, 200_000]}
    with pytest.raises(InputError, match="no point is feasible in both: infeasible are 2 of 2"):
        compare(sweep(JOB, none), sweep(FASTER, none), over=["n_gpus"])
    kept = found.values.sel(n_gpus=[512, 1024])
    differences_add_up(Comparison(kept, "job_time", ("", ""), ("", ""), (), (), ({}, {})))


def test_terms_are_the_shares_of_the_wall_time() -> None:
    # Independently: overheads' shares of the wall time, times the available share
    names = {"bubble_time": "bubble_overhead", "straggler_time": "straggler_overhead"}
    names |= {"rework_overhead": "rework_overhead", "checkpoint_overhead": "checkpoint_overhead"}
    names |= {"recovery_overhead": "recovery_overhead"}
    found = compare(sweep(JOB), sweep(FASTER))
    shares = Sweep(FASTER, {}, ["job_time", *names.values()]).evaluate()
    for term, overhead in names.items():
        expected = float(shares["job_time"]) * 0.97 * float(shares[overhead])
        held = found.values["job_time_terms"].sel(scenario="b", job_time_term=term)
        assert float(held) == pytest.approx(expected, rel=1e-12)
    unavailable = found.values["job_time_terms"].sel(scenario="b", job_time_term="unavailable")
    assert float(unavailable) == pytest.approx(0.03 * float(shares["job_time"]), rel=1e-12)


def test_only_terms_that_are_there_are_named() -> None:
    named = set(compare(sweep(JOB), sweep(FASTER)).values["job_time_term"].values)
    assert "other_losses" not in named  # exact goodput leaves none
    assert "exposed_expert_parallel_time" not in named
    additive = compare(sweep(JOB), sweep({**JOB, "goodput_model": "additive"}))
    rest = additive.values["job_time_terms"].sel(job_time_term="other_losses")
    budgets = 0.97 * (0.05 + 0.05)  # of bubbles and maintenance, by Fleet Foundations table 8
    job = float(additive.values["job_time"].sel(scenario="b"))
    assert float(rest.sel(scenario="a")) == pytest.approx(0, abs=1e-9 * job)
    assert float(rest.sel(scenario="b")) == pytest.approx(budgets * job, rel=1e-9)


def test_a_quantity_that_is_given_is_not_taken_apart() -> None:
    found = compare(sweep(JOB), sweep({**JOB, "step_time": "4 s"}))
    assert "step_time_terms" not in found.values
    assert set(found.values["job_time_term"].values) >= {"step_time", "recovery_overhead"}
    differences_add_up(found, ("job_time", "job_cost"))
    bare = {name: value for name, value in JOB.items() if not name.startswith("checkpoint")}
    given = {**bare, "goodput": 0.8}  # nothing is known of checkpoints
    found = compare(sweep_of(given), sweep_of({**given, "goodput": 0.9}))
    losses = found.values["job_time_terms"].sel(job_time_term="other_losses")
    jobs = found.values["job_time"]
    np.testing.assert_allclose(losses / jobs, [0.97 * 0.2, 0.97 * 0.1], rtol=1e-12)
    differences_add_up(found, ("job_time", "job_cost"))


def test_a_loss_that_is_an_axis_is_a_term_like_any_other() -> None:
    axes = {"goodput": [0.5, 0.9], "serial_time_per_step": [0.0, 2.0]}
    found = compare(sweep_of(JOB, axes), sweep_of(FASTER, axes), over=list(axes))
    losses = found.values["job_time_terms"].sel(job_time_term="other_losses")
    shares = (losses / found.values["job_time"]).isel(scenario=0, serial_time_per_step=0)
    np.testing.assert_allclose(shares, [0.97 * 0.5, 0.97 * 0.1], rtol=1e-12)
    differences_add_up(found, ("job_time", "job_cost"))


def test_factors_multiply_to_the_ratio_and_sides_are_swapped_in_reverse() -> None:
    found = compare(sweep(JOB), sweep(FASTER), of="job_cost")
    ratio = float(found.values["job_cost"].sel(scenario="b") / found.values["job_cost"][0])
    assert np.prod([float(change.factor) for change in found.changes]) == pytest.approx(ratio)
    swapped = compare(sweep(FASTER), sweep(JOB), of="job_cost")
    back = {change.name: change for change in swapped.changes}
    assert set(back) == {"node", "fabric", "gpu_hour_price"}
    for change in found.changes:
        other = back[change.name]
        assert (change.a, change.b) == (other.b, other.a)
        assert float(change.factor) == pytest.approx(1 / float(other.factor), rel=1e-12)
        assert float(change.alone) == pytest.approx(1 / float(other.last), rel=1e-12)


def test_effects_are_those_of_scenarios_changed_by_hand() -> None:
    found = {change.name: change for change in compare(sweep(JOB), sweep(FASTER)).changes}

    def time(**entries: object) -> float:
        return float(Sweep({**JOB, **entries}, {}, ["job_time"]).evaluate()["job_time"])

    base, both = time(), time(node="dgx-b200", fabric="infiniband-xdr")
    node, fabric = time(node="dgx-b200"), time(fabric="infiniband-xdr")
    assert float(found["node"].alone) == pytest.approx(node / base, rel=1e-12)
    assert float(found["node"].last) == pytest.approx(both / fabric, rel=1e-12)
    # of two changes each comes first in half of the orders
    between = np.sqrt(node / base * both / fabric)
    assert float(found["node"].factor) == pytest.approx(between, rel=1e-12)
    assert float(found["gpu_hour_price"].factor) == pytest.approx(1, rel=1e-12)


def test_numbers_behind_labels_are_named_and_equal_ones_are_not() -> None:
    found = compare(sweep(JOB), sweep({**FASTER, "checkpoint_write_bandwidth": "0.1 TB/s"}))
    inputs = {name: (a, b) for name, a, b in found.inputs}
    assert inputs["peak_flops_bf16"] == (989e12, 2250e12)
    assert inputs["inter_node_bandwidth"] == (50e9, 100e9)
    assert {"gpu_hour_price", "checkpoint_write_bandwidth", "n_gpus"}.isdisjoint(inputs)
    assert "checkpoint_write_bandwidth" not in {change.name for change in found.changes}


def test_an_entry_that_one_side_lacks_is_a_change_and_the_same_specs_have_none() -> None:
    (change,) = compare(sweep(JOB), sweep({**JOB, "cluster_mtbf": "4 h"})).changes
    assert (change.name, change.a, change.b) == ("cluster_mtbf", None, 4 * 3600.0)
    assert compare(sweep(JOB), sweep(JOB)).changes == ()


def test_what_cannot_be_evaluated_alone_is_nan() -> None:
    bare = {name: value for name, value in JOB.items() if name != "gpu_hour_price"}
    found = compare(sweep_of(bare), sweep_of({**FASTER, "cluster_mtbf": "4 h"}))
    assert "job_cost" not in found.values
    node = {**JOB, "peak_flops": 1e15, "hbm_bandwidth": 3e12}
    node.pop("node")
    node |= {"intra_node_bandwidth": 4e11, "gpus_per_node": 8}
    changes = {c.name: c for c in compare(sweep_of(JOB), sweep_of(node)).changes}
    assert np.isnan(changes["node"].alone)
    assert np.isfinite(float(changes["peak_flops"].alone))


def sweep_of(scenario: dict[str, object], axes: dict[str, object] | None = None) -> Sweep:
    return Sweep(scenario, axes or {}, ["job_time"])


def test_of_many_changes_single_ones_are_evaluated() -> None:
    other = {**FASTER, "straggler_slowdown": 0.1, "maintenance_fraction": 0.1, "n_gpus": 1024}
    other |= {"pipeline_parallel": 2, "global_batch_size": 1024, "serial_time_per_step": 0.0}
    found = compare(sweep(JOB), sweep(other))
    assert len(found.changes) == 9
    assert all(np.isnan(change.factor) for change in found.changes)
    assert all(np.isfinite(float(change.alone * change.last)) for change in found.changes)


def test_axes_are_cut_where_asked_or_in_the_middle() -> None:
    axes = {"gpu_mttf": ["10_000 h", "20_000 h", "50_000 h"]}
    found = compare(sweep(JOB, axes), sweep(FASTER), at={"gpu_mttf": "50_000 h"})
    assert found.points == ("gpu_mttf = 50000 h",) * 2  # for both, axis or not
    assert "gpu_mttf" not in [change.name for change in found.changes]
    one, two = (Sweep({**own, "gpu_mttf": "50_000 h"}, {}, ["job_time"]) for own in (JOB, FASTER))
    exact = [float(s.evaluate()["job_time"]) for s in (one, two)]
    np.testing.assert_allclose(found.values["job_time"].values, exact, rtol=1e-14)
    middle = compare(sweep(JOB, axes), sweep(FASTER, axes))
    assert middle.points == ("gpu_mttf = 20000 h",) * 2
    stated = sweep({**JOB, "gpu_mttf": "20_000 h"})
    cut, given = middle.values["job_time"], compare(stated, stated).values["job_time"]
    assert float(cut.sel(scenario="a")) == float(given.sel(scenario="a"))


BAD: list[tuple[dict[str, object], str]] = [
    ({"at": {"gpu_mtf": 1}}, "'gpu_mtf' is not an input or an axis; did you mean 'gpu_mttf'?"),
    ({"over": ["straggler_slowdown"]}, "is not an axis of both specs"),
    ({"over": ["n_gpus"]}, "different points along n_gpus"),
    ({"over": ["gpu_mttf"], "at": {"gpu_mttf": 1}}, "is both cut at 1 and kept whole; choose one"),
    ({"of": "dominant_overhead"}, "is a flag"),
    ({"of": "job_tim"}, "did you mean 'job_time'?"),
]


@pytest.mark.parametrize(("asked", "words"), BAD)
def test_bad_questions_are_refused_in_one_line(asked: dict[str, object], words: str) -> None:
    axes = {"gpu_mttf": ["10_000 h", "20_000 h"]}
    a = sweep(JOB, {**axes, "n_gpus": [512, 1024]})
    b = sweep(JOB, {**axes, "n_gpus": [512, 2048]})
    refused(words.replace("?", r"\?"), compare, a, b, **asked)


def test_traffic_between_sites_is_a_term() -> None:
    """A step on one site and on two differs by waits between the sites, and by groups."""
    one = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 64}
    two = {**one, "sites": 2, "site_bandwidth": "400 Gbit/s"}
    found = compare(Sweep(one, {}, ["step_time"]), Sweep(two, {}, ["step_time"]))
    terms = found.values["step_time_terms"]
    waits = terms.sel(step_time_term="exposed_site_parallel_time")
    assert float(waits.sel(scenario="a")) == 0 < float(waits.sel(scenario="b"))
    whole = found.values["step_time"]
    np.testing.assert_allclose(terms.sum("step_time_term") / whole, 1, rtol=1e-12)


PLANNED = {
    **{"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 1024},
    **{"tensor_parallel": 8, "pipeline_parallel": 4, "software": "nemo"},
}


def test_a_ratio_is_known_better_than_either_side() -> None:
    """Against draws of coefficients, of the job's factor and of noise, as each side has them."""
    random = np.random.default_rng(12)
    posterior = pooled.posterior()
    job = {**PLANNED, "software": "megatron-lm"}
    other = {**job, "pipeline_parallel": 8}
    cell = auto.posterior_cell(stated_inputs(job))
    means, root = posterior.coefficients_of(cell)
    draws = 400
    x = means[:, None] + root @ random.standard_normal((root.shape[1], draws))
    drawn = {one.input: one.value(x[one.place])[0].tolist() for one in posterior.settings(cell)}
    own = {"attention_kernel": posterior.kernel(cell), "compute_model": "roofline"}
    logs = []
    for side in (job, other):
        made = Sweep({**side, **own}, {"draw": drawn}, ["job_time"]).evaluate()
        noise = posterior.noise(cell.software) * random.standard_t(4, draws)
        logs.append(np.log(made.job_time.values) + noise)
    difference = logs[1] - logs[0]
    found = ratios(job, other, ["job_time"])["job_time"]
    low, high = np.quantile(difference, [0.05, 0.95])
    half = math.log(found.high / found.low) / 2
    assert half == pytest.approx((high - low) / 2, rel=0.15)
    assert half < 0.9 * math.log(posterior.values(cell)["error_factor"])
    middle = float(evaluate("job_time", **other) / evaluate("job_time", **job))
    assert math.sqrt(found.low * found.high) == pytest.approx(middle, rel=1e-9)
    assert found.below == pytest.approx(np.mean(difference < 0), abs=0.06)
    back = ratios(other, job, ["job_time"])["job_time"]
    assert (1 / back.high, 1 - back.below) == pytest.approx((found.low, found.below))


@cases(
    "changed",
    {"oversubscription": 3.0},
    {"inter_node_bandwidth": "20 GB/s"},
    {"hbm_bandwidth": "2 TB/s"},
    {"gpus_per_switch": 8, "oversubscription": 1.5},
)
def test_one_program_on_two_networks_has_one_noise(changed: dict[str, Any]) -> None:
    """Against draws of the posterior, each evaluated on both sides: the slower network is slower in
    all of them."""
    random = np.random.default_rng(3)
    posterior = pooled.posterior()
    cell = auto.posterior_cell(stated_inputs(PLANNED))
    means, root = posterior.coefficients_of(cell)
    x = means[:, None] + root @ random.standard_normal((root.shape[1], 400))
    drawn = {one.input: one.value(x[one.place])[0].tolist() for one in posterior.settings(cell)}
    own = {"attention_kernel": posterior.kernel(cell), "compute_model": "roofline"}
    both = (PLANNED, {**PLANNED, **changed})
    first, second = (
        np.log(Sweep({**side, **own}, {"draw": drawn}, ["step_time"]).evaluate().step_time.values)
        for side in both
    )
    assert (second > first).all()
    found = ratios(*both, ["step_time"])["step_time"]
    assert found.below < 0.02
    low, high = np.quantile(second - first, [0.05, 0.95])
    half = math.log(found.high / found.low) / 2
    assert (high - low) / 2 < half < 2 * (high - low)
    back = ratios(*both[::-1], ["step_time"])["step_time"]
    assert back.below > 0.98
    layout = {**both[1], "pipeline_parallel": 2}
    assert 0.1 < ratios(PLANNED, layout, ["step_time"])["step_time"].below < 0.9, "two programs"


def test_what_graphs_save_is_not_sure() -> None:
    """Published pairs gain from nothing to a tenth of a step."""
    small = {**PLANNED, "model": "llama-3-8b", "tensor_parallel": 1, "pipeline_parallel": 1}
    small |= {"n_gpus": 64, "global_batch_size": 128, "micro_batch_size": 1}
    found = ratios(small, {**small, "cuda_graphs": True}, ["step_time"])["step_time"]
    assert found.low < 0.95
    assert 0.8 < found.below < 0.99


def test_jobs_that_differ_have_wider_ratios(tmp_path: Path) -> None:
    def half(**changed: object) -> float:
        found = ratios(PLANNED, {**PLANNED, **changed}, ["step_time"])["step_time"]
        return math.log(found.high / found.low) / 2

    layout = half(pipeline_parallel=8)
    assert layout < half(model="llama-2-70b") < half(node="dgx-b200")
    assert half(n_gpus=2048) == pytest.approx(layout, rel=0.2)
    assert ratios(PLANNED, {**PLANNED, "calibration": "none"}, ["step_time"]) == {}
    assert ratios(PLANNED, {**PLANNED, "flops_efficiency": 0.4}, ["step_time"]) == {}
    # a label whose record differs in latency alone is the same cluster
    narrow = {**PLANNED, "oversubscription": 3}
    shared = ratios(PLANNED, narrow, ["step_time"])["step_time"]
    roce = ratios(PLANNED, {**narrow, "fabric": "roce-400g"}, ["step_time"])["step_time"]
    assert [roce.low, roce.high] == pytest.approx([shared.low, shared.high], rel=1e-2)
    assert roce.below == pytest.approx(shared.below, abs=0.01)
    assert half(fabric="infiniband-xdr") > 1.3 * half(oversubscription=3), "another network"
    # equal values have no chance
    equal = ratios(PLANNED, {**PLANNED, "gpu_mttf": "3e4 h"}, ["step_time"])["step_time"]
    assert math.isnan(equal.below)
    assert chance(float(equal.below)) == "-"
    # of a file of own steps, whose factor belongs to one of two jobs
    cell = update_steps(Table({"n_gpus": [512]}, [20.0], [2]), PLANNED)
    path = steps_file(tmp_path / "my.toml", cell)
    mine = {"calibration": str(path)}
    for other in ({"pipeline_parallel": 8}, {"model": "llama-2-70b"}):
        pair = {**PLANNED, **mine}, {**PLANNED, **mine, **other}
        known = ratios(*pair, ["step_time"])["step_time"]
        before, after = (float(evaluate("step_time", **side)) for side in pair)
        assert math.sqrt(known.low * known.high) == pytest.approx(after / before)
        wide = math.log(known.high / known.low) / 2
        assert wide == pytest.approx(half(**other), rel=0.25)
    assert ratios(PLANNED, {**PLANNED, **mine}, ["step_time"]) == {}
    # what does not depend on the step has no interval
    more = {**PLANNED, "gpu_mttf": "40_000 h"}
    assert "cluster_mtbf" not in ratios(PLANNED, more, ["cluster_mtbf", "job_time"])


def test_terms_of_a_job_with_a_factor_of_its_own_add_up() -> None:
    for factor in (0.9, 1.3):
        slow = {**JOB, "step_time_factor": factor}
        found = compare(sweep(JOB), sweep(slow))
        differences_add_up(found)
        step = found.values["step_time"]
        assert float(step[1] / step[0]) == pytest.approx(factor)
        both = {**slow, "step_time_error": 1.0, "error_factor": 1.2}
        differences_add_up(compare(sweep(slow), sweep(both)))
