"""Which inputs matter: at a point, over the cube, all at once. Sums and products known by hand."""

import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetcube import InputError, Settings, Sweep, evaluate
from fleetcube.analysis.sensitivity import among, check_levers
from fleetcube.presentation.pictures.sensitivity_picture import dominance_map, tornado

from .common import Patch, cases, refused

WRITE = dict(parameters=70e9, checkpoint_bytes_per_parameter=14, checkpoint_write_bandwidth=1e11)
PHASES = {"n_gpus": 64, "detection_time": 10, "drain_time": 20, "provision_time": 300}
PHASES |= {"reinit_time": 40, "checkpoint_restore_time": 50}
JOB = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g", "n_gpus": 64}


def test_levers_are_ranked_and_what_ten_percent_do_is_exact() -> None:
    found = Sweep(PHASES, {}, ["recovery_time"]).rank_inputs("recovery_time")
    waits = {name: value for name, value in PHASES.items() if name != "n_gpus"}
    ranked = sorted(waits, key=lambda name: -waits[name])
    assert (found["input"].values.tolist()[:5], found["recovery_time"].item()) == (ranked, 420)
    for name in ranked:
        row = found.sel(input=name)
        assert row["elasticity"].item() == pytest.approx(waits[name] / 420, rel=1e-12)
        assert row["recovery_time_above"].item() == pytest.approx(420 + 0.1 * waits[name])
        assert row["recovery_time_below"].item() == pytest.approx(420 - 0.1 * waits[name])
        assert row["value"].item() == waits[name]


def test_what_is_not_linear_is_evaluated_anew() -> None:
    found = Sweep(WRITE, {}, ["checkpoint_write_time"]).rank_inputs("checkpoint_write_time")
    row = found.sel(input="checkpoint_write_bandwidth")
    assert row["elasticity"].item() == pytest.approx(-1, rel=1e-12)
    assert row["checkpoint_write_time_below"].item() == pytest.approx(9.8 / 0.9, rel=1e-12)
    assert row["checkpoint_write_time_above"].item() == pytest.approx(9.8 / 1.1, rel=1e-12)
    assert row["units"].item() == "B/s"


def test_whole_inputs_go_to_valid_numbers_bounds_hold_and_no_option_is_implied() -> None:
    scenario = {**JOB, "tensor_parallel": 8, "data_parallel_overlap": 0.95}
    found = Sweep(scenario, {}, ["job_time"]).rank_inputs("job_time")
    # every input becomes a given one, and some, given, would choose other formulas
    assert found["job_time"].item() == evaluate("job_time", **scenario).item()
    for name, ends in {"tensor_parallel": (4, 16), "micro_batch_size": (1, 2)}.items():
        row = found.sel(input=name)
        assert row["kind"].item() == "difference"
        assert (row["value_below"].item(), row["value_above"].item()) == ends
        for end, side in zip(ends, ("below", "above"), strict=True):
            known = evaluate("job_time", **{**scenario, name: end})
            assert row[f"job_time_{side}"].item() == pytest.approx(known.item(), rel=1e-12)
    row = found.sel(input="hidden_size")  # 4096: 410 more or less are no whole heads
    assert (row["value_below"].item(), row["value_above"].item()) == (2048, 8192)
    row = found.sel(input="sequence_length")  # 8192: no rule but that it is whole
    assert (row["value_below"].item(), row["value_above"].item()) == (8192 - 819, 8192 + 819)
    assert found["value_above"].sel(input="data_parallel_overlap").item() == 1


def test_what_auto_found_is_held_and_said() -> None:
    job = {"model": "llama-3-70b", "gpu": "h100-sxm", "fabric": "infiniband-ndr", "n_gpus": 512}
    job |= {"tensor_parallel": 8, "pipeline_parallel": 4}
    for calibration, said in (("auto", True), ("none", False)):
        sweep = Sweep({**job, "calibration": calibration}, {}, ["step_time"])
        found = sweep.rank_inputs("step_time", ["peak_flops_bf16", "inter_node_bandwidth"])
        line = "peak_flops_bf16: efficiencies stay as calibrated here; a run with another value"
        assert (line in found.attrs.get("fleetcube_uncounted", "")) == said
        asked = sweep.solve("peak_flops_bf16", "step_time <= 20 s", between=[1e14, 1e17])
        assert ("stay as calibrated" in asked.attrs.get("fleetcube_uncounted", "")) == said


def test_the_point_is_chosen_or_in_the_middle_and_said() -> None:
    axes = {"gpu_mttf": ["1000 h", "2000 h", "4000 h"], "fabric": ["roce-100g", "infiniband-ndr"]}
    sweep = Sweep(JOB, axes, ["goodput"])
    middle = sweep.rank_inputs("goodput")
    assert middle.attrs["fleetcube_point"] == "gpu_mttf = 2000 h, fabric = infiniband-ndr"
    chosen = sweep.rank_inputs(
        "job_time", "gpu_mttf", at={"gpu_mttf": "4000 h", "fabric": "roce-100g"}
    )
    assert chosen.attrs["fleetcube_point"] == "gpu_mttf = 4000 h, fabric = roce-100g"
    known = sweep.derivatives("job_time", "gpu_mttf", "elasticity").sel(
        gpu_mttf=4000 * 3600, fabric="roce-100g"
    )
    assert chosen["elasticity"].item() == pytest.approx(known.item(), rel=1e-12)
    refused("more than one point", sweep.rank_inputs, "goodput", at={"gpu_mttf": "1000h,2000h"})
    for method in (sweep.derivatives, sweep.rank_inputs):
        refused(
            "'fabric' is a label, which has no derivative; name a number",
            method,
            "job_time",
            ["fabric"],
        )
    with pytest.raises(InputError, match="not an input or an axis; did you mean 'gpu_mttf'"):
        sweep.rank_inputs("goodput", at={"gpu_mtbf": 3})
    other = sweep.rank_inputs("goodput", "n_gpus", at={"gpu_mttf": "3000 h", "n_gpus": 128})
    point = "gpu_mttf = 3000 h, fabric = infiniband-ndr, n_gpus = 128"
    assert other.attrs["fleetcube_point"] == point
    assert other["value"].item() == 128
    bad = Sweep({**JOB, "tensor_parallel": 5}, {}, ["job_time"]).rank_inputs("job_time")
    assert bad.attrs["fleetcube_infeasible"]


def phases(detection: Any, provision: Any) -> Sweep:
    axes = {"detection_time": detection, "provision_time": provision}
    fixed = {name: value for name, value in PHASES.items() if name not in axes}
    return Sweep(fixed, axes, ["recovery_time"])


def test_the_longest_phase_dominates_however_the_grid_is_cut(monkeypatch: Patch) -> None:
    detection, provision = np.arange(1.0, 200, 7), np.arange(3.0, 300, 11)
    sweep = phases(detection, provision)
    names = ["detection_time", "provision_time", "checkpoint_restore_time"]
    a, b = np.meshgrid(detection, provision, indexing="ij")
    parts = np.stack([a, b, np.full_like(a, 50)])
    known = parts.argmax(axis=0)
    for block in (1 << 20, 256):
        monkeypatch.setattr("fleetcube.grid.plan.tiles.BLOCK", block)
        found = sweep.dominant_inputs("recovery_time", names, settings=Settings(threads=2))
        assert found["dominant"].dims == ("detection_time", "provision_time")
        np.testing.assert_array_equal(found["dominant"], known + 1)
    assert str(found["dominant"].attrs["flag_meanings"]).split() == ["none", *names]
    shares = np.bincount(known.ravel(), minlength=3) / known.size
    np.testing.assert_allclose(found["share"], shares, rtol=1e-12)
    elasticity = parts / (a + b + 50 + 20 + 40)
    for how in ("min", "median", "max"):
        rows = getattr(np, how)(elasticity, axis=(1, 2))
        np.testing.assert_allclose(found[f"elasticity_{how}"], rows, rtol=1e-12)
    assert found["same_as"].values.tolist() == names


def test_medians_of_large_grids_are_of_an_even_part(monkeypatch: Patch) -> None:
    monkeypatch.setattr("fleetcube.analysis.sensitivity.THIN", 100)
    sweep = phases(np.arange(1.0, 101), [50.0, 100.0])
    found = sweep.dominant_inputs("recovery_time", "detection_time")
    thin = np.arange(1.0, 101)[::2, None]
    known = np.median(thin / (thin + np.array([50.0, 100.0]) + 110))
    assert found["elasticity_median"].item() == pytest.approx(known, rel=1e-12)


def test_inputs_of_one_size_everywhere_are_one_lever_and_the_first_leads() -> None:
    axes = {"checkpoint_write_bandwidth": [1e9, 1e10], "parameters": [1e9, 2e9, 3e9]}
    sweep = Sweep({"checkpoint_bytes_per_parameter": 14}, axes, ["checkpoint_write_time"])
    found = sweep.dominant_inputs("checkpoint_write_time")
    first = "checkpoint_write_bandwidth"  # in the order of the table of inputs
    assert set(found["same_as"].values) == {first}  # 1, -1 and 1
    assert found["share"].sel(input=first).item() == 1


def test_inputs_of_one_size_at_some_points_are_two_levers(monkeypatch: Patch) -> None:
    monkeypatch.setattr("fleetcube.grid.plan.tiles.BLOCK", 8)  # a point at a time
    names = ["detection_time", "provision_time"]
    for provision in (10.0, 30.0):
        met = phases([10.0, 30.0], [provision]).dominant_inputs("recovery_time", names)
        assert met["same_as"].values.tolist() == names
        first = [1 if one >= provision else 2 for one in (10.0, 30.0)]
        assert met["dominant"].values[:, 0].tolist() == first


def test_infeasible_points_have_no_lever_where_they_are_masked() -> None:
    axes = {"tensor_parallel": [1, 5, 8], "gpu_mttf": ["1000 h", "2000 h"]}
    sweep = Sweep(JOB, axes, ["job_time"])
    found = sweep.dominant_inputs(
        "job_time", ["gpu_mttf", "flops_efficiency"], settings=Settings(infeasible="exclude")
    )
    bad = [[r != 0] * 2 for r in found["infeasible_reason"].values]
    assert (found["dominant"].values == 0).tolist() == bad
    assert (found["infeasible_reason"] != 0).any()
    assert found["share"].sum().item() == pytest.approx(1)


def test_a_quantity_without_inputs_or_a_flag_is_one_line() -> None:
    sweep = Sweep(JOB, {}, ["job_time"])
    for method in (sweep.rank_inputs, sweep.dominant_inputs, sweep.global_sensitivity):
        refused("is a flag", method, "dominant_overhead")
        refused("depends on no number", method, "spare_availability")  # 0 without spares


def test_sobol_indices_of_a_sum_are_shares_of_the_variance() -> None:
    pytest.importorskip("SALib")
    found = Sweep(PHASES, {}, ["recovery_time"]).global_sensitivity("recovery_time", samples=20_000)
    waits = {name: value for name, value in PHASES.items() if name != "n_gpus"}
    for name, value in waits.items():  # uniform +-20 %: deviations are as the values
        known = value**2 / sum(other**2 for other in waits.values())
        row = found.sel(input=name)
        assert row["first_order"].item() == pytest.approx(known, abs=5e-3)
        assert row["total"].item() == pytest.approx(known, abs=5e-3)
        assert (row["low"].item(), row["high"].item()) == pytest.approx((0.8 * value, 1.2 * value))
    assert found["input"].values[0] == "provision_time"


@pytest.mark.slow
def test_sobol_indices_of_a_product_hold_the_interaction() -> None:
    pytest.importorskip("SALib")
    scenario = dict(
        parameters={"uniform": [1e9, 9e9]}, checkpoint_bytes_per_parameter={"lognormal": [14, 1.6]}
    )
    sweep = Sweep(scenario, {}, ["checkpoint_size"])
    found = sweep.global_sensitivity("checkpoint_size", samples=1 << 18)
    s = math.log(1.6)
    means = {"parameters": 5e9, "checkpoint_bytes_per_parameter": 14 * math.exp(s * s / 2)}
    one, other = means
    variances = {one: (8e9) ** 2 / 12, other: means[other] ** 2 * math.expm1(s * s)}
    whole = (means[one] ** 2 + variances[one]) * (means[other] ** 2 + variances[other])
    whole -= (means[one] * means[other]) ** 2
    for name, rest in ((one, other), (other, one)):
        row = found.sel(input=name)
        first = variances[name] * means[rest] ** 2 / whole
        total = variances[name] * (means[rest] ** 2 + variances[rest]) / whole
        assert row["first_order"].item() == pytest.approx(first, abs=5e-3)
        assert row["total"].item() == pytest.approx(total, abs=5e-3)
        assert total - first > 0.05  # there is an interaction to find


def test_small_ranges_give_the_shares_of_the_squared_elasticities() -> None:
    pytest.importorskip("SALib")
    sweep = Sweep({**JOB, "tensor_parallel": 8}, {}, ["job_time"])
    inputs = ["flops_efficiency", "intra_node_bandwidth", "inter_node_bandwidth"]
    found = sweep.global_sensitivity("job_time", wrt=inputs, samples=20_000, spread=0.02)
    levers = sweep.rank_inputs("job_time", inputs)["elasticity"]
    known = levers**2 / (levers**2).sum()
    for name in inputs:
        row = found["first_order"].sel(input=name).item()
        assert row == pytest.approx(known.sel(input=name).item(), abs=5e-3)


def test_morris_effects_of_a_sum_are_its_ranges() -> None:
    pytest.importorskip("SALib")
    scenario = {**PHASES, "detection_time": {"empirical": [0, 60]}}
    found = Sweep(scenario, {}, ["recovery_time"]).global_sensitivity(
        "recovery_time", method="morris", samples=2000
    )
    for name in ("drain_time", "provision_time", "reinit_time"):
        known = 0.4 * float(PHASES[name])  # type: ignore[arg-type]
        assert found["effect"].sel(input=name).item() == pytest.approx(known, rel=1e-9)
        assert found["effect_std"].sel(input=name).item() == pytest.approx(0, abs=1e-6)


def test_pieces_and_seeds_give_the_same_numbers(monkeypatch: Patch) -> None:
    pytest.importorskip("SALib")
    sweep = Sweep(PHASES, {}, ["recovery_time"])
    for method in ("sobol", "morris"):
        whole = sweep.global_sensitivity("recovery_time", method=method, samples=2000, seed=0)
        with monkeypatch.context() as patch:
            patch.setattr("fleetcube.analysis.global_sensitivity.PIECE", 100)
            again = sweep.global_sensitivity("recovery_time", method=method, samples=2000, seed=0)
        assert again.identical(whole)


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: Patch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "SALib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "SALib", None)
    with pytest.raises(InputError, match=r"pip install 'fleetcube\[sens\]'"):
        Sweep(PHASES, {}, ["recovery_time"]).global_sensitivity("recovery_time")


@cases(
    "asked, said",
    ({"method": "fast"}, "choose one of sobol, morris"),
    ({"samples": 10}, "too few for 5 inputs"),
    ({"samples": 10, "method": "morris"}, "too few for 5 inputs"),
    ({"samples": 0}, "not a whole number"),
    ({"spread": 1}, "not a share"),
    ({"seed": "x"}, "from 0"),
    ({"wrt": "n_gpus"}, "a whole number and has no range"),
    ({"wrt": "mixture_of_experts"}, "is an option"),
)
def test_a_bad_request_is_one_line(asked: dict[str, Any], said: str) -> None:
    refused(
        re.escape(said),
        lambda: Sweep(PHASES, {}, ["recovery_time"]).global_sensitivity("recovery_time", **asked),
    )


@pytest.mark.slow
def test_pictures_are_drawn_and_bad_files_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    axes = {"tensor_parallel": [1, 5, 8], "gpu_mttf": ["1000 h", "2000 h"]}
    sweep = Sweep(JOB, axes, ["job_time"])
    tornado(sweep.rank_inputs("job_time"), "job_time", tmp_path / "tornado.png")
    found = sweep.dominant_inputs("job_time")
    dominance_map(found, "job_time", "gpu_mttf", "tensor_parallel", "", tmp_path / "map.svg")
    assert (tmp_path / "tornado.png").stat().st_size > 10_000
    drawn = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert "cannot run" in drawn
    assert "training tokens" in drawn
    with pytest.raises(InputError, match="change its ending"):
        tornado(sweep.rank_inputs("job_time"), "job_time", tmp_path / "tornado.gif")


def test_all_layers_run_again_is_no_lever() -> None:
    job = {"model": "llama-3-8b", "node": "dgx-h100", "n_gpus": 8, "global_batch_size": 128}
    sweep = Sweep({**job, "recompute": "full"}, {}, ["step_time"])
    found = sweep.rank_inputs("step_time", ["recomputed_layers", "global_batch_size"])
    assert found["input"].values[0] == "global_batch_size"


def test_what_a_person_may_choose_or_buy_is_listed_whoever_set_it() -> None:
    """The tokens of a model's label are the largest lever of its time; nobody sells nodes of 7 or
    9 GPUs, nor weights of 1.8 bytes."""
    for said in ({}, {"training_tokens": 15e12}):
        sweep = Sweep({**JOB, **said}, {}, ["job_time"])
        plan = sweep._plan("numpy")
        listed = among(plan, check_levers(plan, "job_time", None), None)
        found = sweep.rank_inputs("job_time", listed)
        assert found["input"].values[0] == "training_tokens"
        assert found["elasticity"].values[0] == pytest.approx(1, rel=1e-9)
        assert not {"gpus_per_node", "nics_per_node", "bytes_per_element"} & {*listed}
        assert {"n_gpus", "micro_batch_size", "global_batch_size", "hbm_bandwidth"} <= {*listed}


def test_counts_that_are_sold_as_they_are_do_not_move() -> None:
    names = ["gpus_per_node", "gpus_per_domain", "nics_per_node", "gpus_per_switch"]
    sweep = Sweep(JOB, {}, ["job_time"])
    plan = sweep._plan("numpy")
    built = [name for name in names if name in check_levers(plan, "job_time", None)]
    assert "gpus_per_node" in built
    found = sweep.rank_inputs("job_time", built)
    for end in ("value_below", "value_above"):
        assert found[end].values.tolist() == found["value"].values.tolist()
