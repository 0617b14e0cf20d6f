"""Constrained optima: against brute force over the same grid, and closed forms."""

import math

import numpy as np
import pytest

import fleetcube
from fleetcube import Settings
from fleetcube.grid.errors import InputError

from .common import cases, on_h100, refused, solve

LLAMA = on_h100(
    "llama-3-70b", tensor_parallel=8, pipeline_parallel=4, n_gpus=1024, gpu_hour_price=2.5
)
DAY = 86400.0


def test_the_cheapest_cluster_that_finishes_in_time_is_the_one_of_a_full_search() -> None:
    axes = {"gpu_mttf": ["10_000 h", "50_000 h"], "n_gpus": 32.0 * np.arange(2, 1025)}
    every = fleetcube.Sweep(LLAMA, axes, ["job_cost", "job_time"]).evaluate(
        settings=Settings(infeasible="exclude")
    )
    allowed = every["job_cost"].where(every["job_time"] <= 60 * DAY)
    sweep = fleetcube.Sweep(LLAMA, {"gpu_mttf": axes["gpu_mttf"]}, ["job_cost"])
    found = sweep.best("job_cost", search={"n_gpus": [64, 32768]}, where=["job_time <= 60 d"])
    assert not found["optimum_status"].any()
    np.testing.assert_array_equal(found["n_gpus"], allowed.idxmin("n_gpus"))
    np.testing.assert_allclose(found["job_cost"], allowed.min("n_gpus"), rtol=1e-12)


def test_the_best_fixed_interval_is_the_exact_one() -> None:
    """Daly 2006: the interval of least wall time solves -u - log(1 - u) = d / M, u = tau / M."""
    stall, mtbf = 60.0, 7200.0
    given = {"checkpoint_stall_time": stall, "cluster_mtbf": mtbf, "recovery_time": 300.0}
    sweep = fleetcube.Sweep({**given, "fixed_checkpoint_interval": 1.0}, {}, ["goodput"])
    between = {"fixed_checkpoint_interval": ["1 s", "10 h"]}
    found = sweep.best(
        "goodput", search=between, sense="max", settings=Settings(infeasible="include")
    )
    u = float(found["fixed_checkpoint_interval"]) / mtbf
    assert -u - math.log1p(-u) == pytest.approx(stall / mtbf, rel=1e-4)


def test_several_inputs_under_a_condition_meet_it_exactly_where_it_binds() -> None:
    """The least reliable cluster that keeps 95 % has the fastest storage, and exactly 95 %."""
    sweep = fleetcube.Sweep(LLAMA, {}, ["goodput"])
    between = {"checkpoint_write_bandwidth": ["1 GB/s", "1 TB/s"]}
    between |= {"gpu_mttf": ["1_000 h", "1_000_000 h"]}
    found = sweep.best(
        "cluster_mtbf",
        search=between,
        where=["goodput >= 95 %"],
        settings=Settings(infeasible="include"),
    )
    assert float(found["goodput"]) == pytest.approx(0.95, rel=1e-6)
    assert float(found["checkpoint_write_bandwidth"]) == pytest.approx(1e12, rel=1e-6)
    given = {**LLAMA, "checkpoint_write_bandwidth": 1e12}
    alone = solve("gpu_mttf", "goodput = 95 %", **given)
    assert float(found["gpu_mttf"]) == pytest.approx(float(alone["gpu_mttf"]), rel=1e-5)


def test_what_does_not_fit_in_memory_is_no_optimum() -> None:
    """The least GPU hours would be on a cluster too small for the model's state."""
    scenario = {**LLAMA, "pipeline_parallel": 1, "zero_stage": 3}
    sweep = fleetcube.Sweep(scenario, {}, ["job_time"])
    free = sweep.best(
        "gpu_hours", search={"n_gpus": [8, 4096]}, settings=Settings(infeasible="include")
    )
    held = sweep.best("gpu_hours", search={"n_gpus": [8, 4096]})
    assert float(free["n_gpus"]) < float(held["n_gpus"])
    for n, feasible in ((float(held["n_gpus"]), True), (float(free["n_gpus"]), False)):
        at = fleetcube.evaluate("infeasible_reason", **{**scenario, "n_gpus": n})
        assert (int(at) == 0) == feasible


def told(found: object, name: str) -> str:
    meanings = found[name].attrs["flag_meanings"].split()  # type: ignore[index]
    return str(meanings[int(found[name])])  # type: ignore[index]


def verdict(found: object) -> tuple[str, str]:
    return told(found, "optimum_status"), told(found, "infeasible_reason")


def test_what_cannot_run_is_told_apart_from_conditions() -> None:
    """A GPU of 1 GB cannot hold the model on any cluster; one replica needs 32 GPUs."""
    between = {"n_gpus": [64, 4096]}
    for conditions in ([], ["job_time <= 1000 d"]):
        sweep = fleetcube.Sweep({**LLAMA, "hbm_capacity": "1 GB"}, {}, ["job_time"])
        found = sweep.best("job_cost", search=between, where=conditions)
        assert verdict(found) == ("no_feasible_point", "out_of_memory")
        assert np.isnan(found["n_gpus"])
    every = {**LLAMA, "hbm_capacity": "1 GB", "n_gpus": 32.0 * np.arange(2, 129)}
    assert (fleetcube.evaluate("infeasible_reason", **every) > 0).all()
    plain = fleetcube.Sweep(LLAMA, {}, ["job_time"])
    small = plain.best("job_cost", search={"n_gpus": [17, 24]})
    assert verdict(small) == ("no_feasible_point", "group_larger_than_cluster")
    late = plain.best("job_cost", search=between, where=["job_time <= 1 d"])
    assert told(late, "optimum_status") == "no_point_keeps_to_the_conditions"
    assert int(late["infeasible_reason"]) == -1
    assert np.isnan(late["n_gpus"])
    assert verdict(plain.best("job_cost", search=between)) == ("found", "feasible")


def test_inputs_without_whole_numbers_fail_for_the_same_reasons() -> None:
    sweep = fleetcube.Sweep({**LLAMA, "hbm_capacity": "1 GB"}, {}, ["goodput", "job_time"])
    between = {"checkpoint_write_bandwidth": ["1 GB/s", "1 TB/s"]}
    found = sweep.best("job_time", search=between)
    assert verdict(found) == ("no_feasible_point", "out_of_memory")
    never = fleetcube.Sweep({**LLAMA, "n_gpus": 4}, {}, ["job_time"])
    found = never.best("job_time", search=between, settings=Settings(infeasible="include"))
    assert told(found, "optimum_status") == "undefined"


@cases(
    "of, between, where, told",
    ("job_cst", {"n_gpus": [8, 64]}, [], "did you mean 'job_cost'"),
    ("infeasible_reason", {"n_gpus": [8, 64]}, [], "is a flag"),
    ("job_cost", {}, [], "search is empty"),
    ("job_cost", {"n_gpus": [64, 8]}, [], "does not increase"),
    ("job_cost", {"n_gpus": [64.2, 64.8]}, [], "has no whole number"),
    ("job_cost", {"n_gpus": 64}, [], "is not a range"),
    ("job_cost", {"fabric": ["a", "b"]}, [], "takes names"),
    ("job_cost", {"pue": [1.1, 1.2]}, [], "do not depend on pue"),
    ("job_cost", {"n_gpus": [8, 64]}, ["job_time = 1 d"], "write <= or >="),
)
def test_bad_questions(of: str, between: object, where: list[str], told: str) -> None:
    sweep = fleetcube.Sweep(LLAMA, {}, ["job_time"])
    refused(told, sweep.best, of, search=between, where=where)


def test_a_few_whole_numbers_are_all_tried() -> None:
    # 1,273 layouts, few of which divide the batch: no gradient leads to them
    job = on_h100("llama-3-70b", tensor_parallel=8, sequence_parallel=True, global_batch_size=3072)
    axes = {"n_gpus": np.arange(2000, 3269, 8.0), "pipeline_parallel": [1, 2, 3, 4, 5, 6, 7, 8]}
    every = fleetcube.Sweep(job, axes, ["job_time"])
    best = every.best("job_time")
    between = {"n_gpus": [2000, 3268], "pipeline_parallel": [1, 8]}
    found = fleetcube.Sweep({**job, "n_gpus": 2048}, {}, ["job_time"]).best(
        "job_time", search=between
    )
    for name in axes:
        assert found[name].item() == best[name].item()


def test_counts_are_traded_for_each_other() -> None:
    """126 layers on 6 stages of 7 chunks; 80 on 8 of 10: no gradient leads to either."""
    job = {"node": "dgx-h100", "fabric": "infiniband-ndr", "pipeline_schedule": "interleaved"}
    axes = {"pipeline_parallel": np.arange(1, 65), "virtual_stages": np.arange(1, 21)}
    axes |= {"tensor_parallel": np.array([1, 2, 4, 8, 16])}
    between = {name: [values.min(), values.max()] for name, values in axes.items()}
    for model, n_gpus, more in (
        ("llama-3-405b", 768, {"sequence_parallel": True, "micro_batch_size": 2}),
        ("llama-3-70b", 256, {"compute_model": "roofline"}),
    ):
        own = {**job, **more, "model": model, "n_gpus": n_gpus, "global_batch_size": 8 * n_gpus}
        own |= {"reserved_memory": 0, "memory_headroom": False}
        every = fleetcube.Sweep(own, axes, ["step_time"])
        best = every.best("step_time")
        found = fleetcube.Sweep(own, {}, ["step_time"]).best("step_time", search=between)
        for name in axes:
            assert found[name].item() == best[name].item()


def test_cluster_and_batch_are_tried_at_all_that_can_be_laid_out() -> None:
    """Batches are multiples of the data-parallel ranks, so that few of the clusters fit."""
    axes = {"n_gpus": np.arange(512, 8193, 32.0), "global_batch_size": np.arange(900, 1601.0)}
    job = {name: value for name, value in LLAMA.items() if name != "n_gpus"}
    where = ["job_time <= 60 d", "goodput >= 0.93"]
    best = fleetcube.Sweep(job, axes).best("job_cost", where=where)
    between = {name: [row[0], row[-1]] for name, row in axes.items()}
    found = fleetcube.Sweep(job).best("job_cost", search=between, where=where)
    assert told(found, "optimum_status") == "found"
    for name in (*axes, "job_cost"):
        assert found[name].item() == best[name].item()


def test_both_outputs_of_a_condition_are_given_and_flags_too() -> None:
    sweep = fleetcube.Sweep({**LLAMA, "gpu_mttf": "20_000 h"})
    found = sweep.best(
        search={"n_gpus": [512, 2048]},
        where="rework_overhead <= checkpoint_overhead",
        also=(name for name in ("near_memory_limit", "dominant_overhead")),
    )
    assert {"rework_overhead", "checkpoint_overhead", "dominant_overhead"} <= {*found.data_vars}
    assert found["dominant_overhead"].dtype == np.int8
    assert found["near_memory_limit"].dtype == np.int8


def test_counts_that_are_given_stay_whole() -> None:
    job = on_h100(n_gpus=64)
    job |= {"pipeline_parallel": 8, "global_batch_size": 64, "hbm_capacity": float("inf")}
    ends = {"first_stage_layers": [1, 5], "last_stage_layers": [0, 5]}
    best = fleetcube.Sweep(job, {}, ["step_time"]).best("step_time", search=ends)
    grid = {name: list(range(low, high + 1)) for name, (low, high) in ends.items()}
    swept = fleetcube.Sweep(job, grid, ["step_time", "infeasible_reason"]).evaluate()
    assert best.optimum_status == 0
    assert best.step_time == swept.step_time.where(swept.infeasible_reason == 0).min()


def test_choices_are_searched_one_by_one() -> None:
    """Every choice by itself, against a manual search for the best."""
    axes = {"recompute": [False, "full"], "pipeline_parallel": [2.0, 4.0], "gpu_mttf": [3e7, 2e8]}
    sweep = fleetcube.Sweep(LLAMA, axes, ["job_cost"])
    between, most = {"n_gpus": [64, 4096]}, ["job_time <= 100 d"]
    every = sweep.best("job_cost", search=between, where=most)
    found = sweep.best(
        "job_cost", search=between, where=most, over=["recompute", "pipeline_parallel"]
    )
    assert found["job_cost"].dims == ("gpu_mttf",)
    for mttf in axes["gpu_mttf"]:
        own, best = every.sel(gpu_mttf=mttf), found.sel(gpu_mttf=mttf)
        assert float(best["job_cost"]) == float(own["job_cost"].min())
        at = {"recompute": str(best["recompute"].values), "pipeline_parallel": 2.0}
        at["pipeline_parallel"] = float(best["pipeline_parallel"])
        for name in ("job_cost", "job_time", "n_gpus", "optimum_status"):
            assert float(own[name].sel(at)) == float(best[name]), name


def test_a_choice_that_has_an_answer_beats_one_that_has_none() -> None:
    """With 1 tensor-parallel GPU, a quarter of the weights and gradients takes 70 GB and more."""
    axes = {"tensor_parallel": [1.0, 8.0]}
    sweep = fleetcube.Sweep({**LLAMA, "pipeline_parallel": 4}, axes, ["job_cost"])
    found = sweep.best("job_cost", search={"n_gpus": [64, 256]}, over=["tensor_parallel"])
    assert float(found["tensor_parallel"]) == 8
    none = sweep.best(
        "job_cost", search={"n_gpus": [64, 256]}, where=["job_time <= 1 h"], over=[*axes]
    )
    assert np.isnan(float(none["tensor_parallel"]))
    assert int(none["optimum_status"]) == 1, "that of the choice that can run"
    with pytest.raises(InputError, match="'fabric' is not an axis; choose from tensor_parallel"):
        sweep.best("job_cost", search={"n_gpus": [64, 128]}, over=["fabric"])
