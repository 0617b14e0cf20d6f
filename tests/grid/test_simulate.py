"""Simulated jobs of a scenario: against closed forms, and as labelled data."""

import itertools
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import fleetcube
from fleetcube import Settings
from fleetcube.analysis import simulate as module
from fleetcube.analysis.simulate import VARIABLES
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan import memory
from fleetcube.kernels import monte_carlo
from fleetcube.scenario.phases import single_phase

from ..laws.failures.reliability import elastic_progress
from .common import Patch, cases, refused

PLAIN: dict[str, Any] = dict(cluster_mtbf="4 h", checkpoint_stall_time=30.0, recovery_time=600.0)
FLEET: dict[str, Any] = {"node": "dgx-h100", "model": "llama-3-70b", "n_gpus": 4096}
SHARES = ["goodput", "checkpoint_overhead", "rework_overhead", "recovery_overhead"]


def test_what_is_not_played_is_said() -> None:
    case = {**FLEET, "maintenance_fraction": 0.1, "site_mttf": "300 d", "sites": 2}
    case |= {"site_bandwidth": "10 TB/s"}
    said = fleetcube.simulate(trials=2, **case).attrs["fleetcube_remarks"]
    assert "maintenance is not played" in said
    assert "the wait for the site is not" in said
    assert "played" not in fleetcube.simulate(trials=2, **FLEET).attrs.get("fleetcube_remarks", "")


def test_the_closed_forms_are_right() -> None:
    grid: dict[str, Any] = {"model": ["llama-3-8b", "llama-3-70b"], "node": "dgx-h100"}
    grid |= {"n_gpus": [64, 1024, 16384], "gpu_mttf": ["10_000 h", "50_000 h"]}
    grid |= {"checkpoint_policy": ["young", "exact"]}
    grid |= {"checkpoint_write_bandwidth": ["2 GB/s", "100 GB/s"], "provision_time": [0.0, "1 h"]}
    found = fleetcube.simulate(trials=400, **grid)
    exact = fleetcube.evaluate(SHARES, **grid)
    assert found.goodput.dims == exact.goodput.dims
    assert (found.outcome == 0).all()
    for name in SHARES:
        scores = (found[name] - exact[name].broadcast_like(found[name])) / found[f"{name}_error"]
        assert float(abs(scores).max()) < 4.5, name
        assert 0.7 < float((scores**2).mean()) < 1.4, name
    np.testing.assert_allclose(sum(found[name] for name in SHARES), 1, rtol=1e-13)


def test_results_are_labelled_as_those_of_evaluate() -> None:
    axes = {"gpu_mttf": ["10_000 h", "50_000 h"]}
    found = fleetcube.simulate(trials=10, **FLEET, **axes, all_reduce=["ring", "tree"])
    alike = fleetcube.evaluate(["goodput"], **FLEET, **axes)
    assert found.goodput.dims == ("gpu_mttf",)  # all_reduce changes nothing
    assert found.gpu_mttf.identical(alike.gpu_mttf)
    for name in found.data_vars:
        said = found[name].attrs
        assert said["long_name"]
        if name != "outcome":
            assert said["units"] == ("s" if name.startswith(("wall", "work")) else "1")
    assert found.outcome.attrs["flag_meanings"].split() == list(module.VERDICTS)
    assert json.loads(found.attrs["fleetcube_spec"])["simulate"]["trials"] == 10
    assert "dgx-h100" in found.attrs["fleetcube_catalog"]


def test_a_point_is_the_same_alone_and_in_any_grid() -> None:
    one = fleetcube.simulate(trials=50, **FLEET, gpu_mttf="10_000 h")
    grid = fleetcube.simulate(
        trials=50,
        repair_time=["1 h", "1 d"],
        gpu_mttf=["9_000 h", "10_000 h"],
        settings=Settings(threads=3),
        **FLEET,
    )
    other = fleetcube.simulate(
        trials=50,
        gpu_mttf=["10_000 h", "9_000 h"],
        repair_time=["1 d", "1 h"],
        settings=Settings(threads=1),
        **FLEET,
    )
    assert grid.equals(other.transpose(*grid.dims).sel(grid.coords))
    xarray.testing.assert_equal(grid.isel(repair_time=1, gpu_mttf=1, drop=True), one)
    assert one.equals(fleetcube.simulate(trials=50, **FLEET, gpu_mttf="10_000 h"))
    assert not one.equals(fleetcube.simulate(trials=50, seed=1, **FLEET, gpu_mttf="10_000 h"))


def test_the_scenario_reaches_the_job(monkeypatch: Patch) -> None:
    # By hand: 8 nodes of 8 GPUs; 1.4 TB at 100 GB/s, each way
    seen = {}

    def run(points: Any, *_: Any) -> Any:
        seen.update(zip(monte_carlo.PARAMETERS, points.T, strict=True))
        return np.zeros((len(points), len(monte_carlo.STATISTICS))), np.zeros(len(points), np.int8)

    monkeypatch.setattr(monte_carlo, "run", run)
    given = dict(parameters=1e11, n_gpus=64, gpu_mttf=8e6, nics_per_node=0, failure_shape=0.7)
    asked = dict(spare_nodes=3, repair_time="2 h", corruption_probability=0.25, job_duration="10 d")
    named = dict(checkpoint_policy="fixed", fixed_checkpoint_interval=500)
    fleetcube.simulate(**given, **named, provision_time=[100, 200], **asked)
    expected = {"mtbf": 125_000, "shape": 0.7, "interval": 500, "stall": 14, "flush": 0}
    expected |= {"work": 864_000, "recovery": 30 + 30 + 30 + 14, "spares": 3, "repair": 7200}
    expected |= {"corruption": 0.25, "fails_in_recovery": 1}
    for name, value in expected.items():
        assert seen[name] == pytest.approx([value, value]), name
    assert seen["provision"].tolist() == [100, 200]


def test_spares_save_provision_until_they_run_out() -> None:
    case = {**FLEET, "gpu_mttf": "5_000 h", "provision_time": "1 h"}
    found = fleetcube.simulate(trials=200, **case, spare_nodes=[0, 2, 6, 1000], repair_time="4 h")
    assert (found.goodput.diff("spare_nodes") > 5 * found.goodput_error[1:].values).all()
    assert found.spare_shortage.values[[0, -1]].tolist() == [1, 0]
    for spares, provision in ((0, "1 h"), (-1, 0)):
        expected = fleetcube.evaluate("goodput", **{**case, "provision_time": provision})
        assert abs(found.goodput[spares] - expected) < 4.5 * found.goodput_error[spares]


def test_a_closed_pool_waits_for_repairs() -> None:
    grid: dict[str, Any] = {**FLEET, "gpu_mttf": "5_000 h", "repair_time": "4 h"}
    grid |= {"node_pool": ["open", "closed", "closed_idle_safe"], "spare_nodes": [0, 2, 6]}
    found = fleetcube.simulate(trials=60, job_duration="150 d", **grid)
    names = [*SHARES, "whole_cluster_probability"]
    exact = fleetcube.evaluate(names, settings=Settings("numpy"), **grid)
    assert found.goodput.dims == exact.goodput.dims
    for name in names:
        off = found[name] - exact[name].broadcast_like(found[name])
        # the closed form of idle nodes that fail is within 0.13 (repair time / lifetime)^2
        assert (abs(off) < 4.5 * found[f"{name}_error"] + 1e-4).all(), name
    np.testing.assert_allclose(sum(found[name] for name in SHARES), 1, rtol=1e-13)
    np.testing.assert_allclose(sum(exact[name] for name in SHARES), 1, rtol=1e-13)


def test_repair_crews_are_played() -> None:
    grid: dict[str, Any] = {**FLEET, "cluster_mtbf": "4 h", "node_failure_rate": "0.25 1/h"}
    grid |= {"checkpoint_interval": "30 min", "repair_time": "6 h", "repair_crews": [2, 10_000]}
    grid |= {"node_pool": ["open", "closed", "closed_idle_safe"], "spare_nodes": [1, 4]}
    found = fleetcube.simulate(trials=200, **grid)
    names = ["goodput", "whole_cluster_probability", "spare_availability"]
    exact = fleetcube.evaluate(names, settings=Settings("numpy"), **grid)
    for name in names[:2]:
        off = found[name] - exact[name].broadcast_like(found[name])
        assert (abs(off) < 4.5 * found[f"{name}_error"] + 0.002).all(), name
    # jobs begin with all spares
    off = found.spare_shortage.sel(node_pool="open") - (1 - exact.spare_availability)
    assert (abs(off) < 4.5 * found.spare_shortage_error.sel(node_pool="open") + 0.005).all()
    assert (found.goodput.diff("repair_crews").sel(node_pool="closed") > 0.1).all()
    # too few crews: the cluster is never whole
    given = {**grid, "repair_crews": 1, "node_pool": "closed", "spare_nodes": 1}
    assert fleetcube.simulate(trials=2, **given).outcome == 1
    # repairs in no time
    at_once = fleetcube.simulate(trials=50, **{**given, "repair_time": 0})
    assert at_once.whole_cluster_probability == 1


def test_a_recovery_time_that_is_given_holds_all_of_it() -> None:
    found = fleetcube.simulate(**PLAIN, provision_time="2 h", spare_nodes=[0, 1])
    off = found.goodput - fleetcube.evaluate("goodput", **PLAIN)
    assert (abs(off) < 4.5 * found.goodput_error).all()


def test_clustered_failures_cost_less_rework_and_strike_recoveries() -> None:
    # The same mean; shape 0.7 as measured by Schroeder & Gibson 2010, IEEE TDSC 7(4)
    found = fleetcube.simulate(**PLAIN, failure_shape=[0.7, 1.0])
    assert found.goodput[0] > found.goodput[1] + 5 * found.goodput_error[1]


def test_the_clock_may_start_after_recovery() -> None:
    grid: dict[str, Any] = {**PLAIN, "recovery_time": "2 h", "checkpoint_interval": 3600}
    found = fleetcube.simulate(failures_during_recovery=False, **grid)
    # Each failure costs R: T = (M + R) (e^z - 1), M = 4 h, R = 2 h
    expected = 3600 / (6 * 3600 * np.expm1(3630 / 14400))
    assert abs(found.goodput - expected) < 4.5 * found.goodput_error


def test_kinds_of_failures_and_late_corruption_agree_with_the_closed_forms() -> None:
    grid: dict[str, Any] = {**FLEET, "gpu_mttf": "10_000 h", "n_gpus": [256, 8192]}
    grid |= {"in_process_share": [0.0, 0.6], "in_job_share": 0.2, "requeue_share": 0.1}
    grid |= {"requeue_time": "1 h", "silent_corruption_mttf": "100_000 h"}
    grid |= {"corruption_latency": ["0 s", "2 h"], "checkpoint_mode": ["sync", "async"]}
    found = fleetcube.simulate(trials=200, **grid)
    exact = fleetcube.evaluate(SHARES, **grid)
    # a corruption leaves the snapshot being flushed readable; the closed form counts its flush
    for name in SHARES:
        off = abs(found[name] - exact[name].broadcast_like(found[name]))
        assert (off < 4.5 * found[f"{name}_error"] + 1e-4).all(), name
    np.testing.assert_allclose(sum(exact[name] for name in SHARES), 1, rtol=1e-13)
    both = {**grid, "checkpoint_mode": "sync", "recovery_model": [False, "kinds"]}
    pair = fleetcube.simulate(trials=20, **both)
    plain = {k: v for k, v in both.items() if "share" not in k and k != "recovery_model"}
    alone = fleetcube.simulate(trials=20, **plain)
    np.testing.assert_array_equal(
        pair.goodput.sel(recovery_model="false").isel(in_process_share=0), alone.goodput
    )


TIERED: dict[str, Any] = {**FLEET, "gpu_mttf": "5_000 h", "inter_node_bandwidth": "50 GB/s"}
TIERED |= {"checkpoint_write_bandwidth": "5 GB/s", "memory_tier_survival": [0.0, 0.6, 1.0]}
TIERED |= {"drive_tier_survival": [0.0, 0.9]}


def test_tiers_cost_what_the_closed_forms_say() -> None:
    grid = {**TIERED, "memory_tier_survival": [0.0, 0.6], "tier_stall_share": [0.0, 1.0]}
    found = fleetcube.simulate(trials=100, checkpoint_mode="tiered", **grid)
    exact = fleetcube.evaluate(SHARES, checkpoint_mode="tiered", settings=Settings("numpy"), **grid)
    for name in SHARES:
        assert float(abs((found[name] - exact[name]) / found[f"{name}_error"]).max()) < 4.5, name
    np.testing.assert_allclose(sum(found[name] for name in SHARES), 1, rtol=1e-13)
    case = {**TIERED, "memory_tier_survival": 0.8, "drive_tier_survival": 0.0}
    fixed = {**case, "checkpoint_policy": "fixed", "fixed_checkpoint_interval": "30 min"}
    played = fleetcube.simulate(trials=100, **fixed)
    expected = fleetcube.evaluate("goodput", settings=Settings("numpy"), **fixed)
    assert abs(played.goodput - expected) < 4.5 * played.goodput_error


def test_copies_under_way_and_late_corruptions_are_played() -> None:
    """Storage takes half of the MTBF; memory holds nothing from before a corruption."""
    case = {**TIERED, "memory_tier_survival": 0.7, "drive_tier_survival": [0.0, 0.9]}
    case |= {"cluster_mtbf": 18000.0, "checkpoint_interval": 900.0}
    case |= {"drive_copy_every": 3, "storage_copy_every": 4}
    slow = {"checkpoint_write_time": 9000.0, "tier_copies": ["kept", "repeated"]}
    late = {"silent_corruption_mttf": "100_000 h", "corruption_latency": "1 h"}
    for given in (slow, late | {"checkpoint_write_time": 60.0}):
        found = fleetcube.simulate(trials=400, **case, **given)
        exact = fleetcube.evaluate("goodput", settings=Settings("numpy"), **case, **given)
        assert (abs(found.goodput - exact) < 4 * found.goodput_error + 0.002).all(), given


def test_each_kind_and_tier_loses_what_the_closed_forms_say() -> None:
    case = {**TIERED, "memory_tier_survival": 0.6, "drive_tier_survival": 0.9}
    case |= {"in_process_share": 0.3, "in_job_share": 0.2, "requeue_share": [0.0, 0.1]}
    case |= {"node_pool": ["open", "closed"], "spare_nodes": 40}
    found = fleetcube.simulate(trials=200, **case)
    kinds = ["in_process", "in_job", "node_swap", "requeue"]
    names = [f"{kind}_recovery_overhead" for kind in kinds]
    names += [f"{tier}_tier_rework" for tier in ("memory", "drive", "storage")]
    exact = fleetcube.evaluate(names, settings=Settings("numpy"), **case)
    for name in names:
        off = abs(found[name] - exact[name].broadcast_like(found[name]))
        # the split of tiers assumes rare failures
        assert (off <= 4.5 * found[f"{name}_error"] + 0.03 * found[name]).all(), name
    drawn = sum(found[f"{kind}_failures"] for kind in kinds)
    np.testing.assert_allclose(drawn, found.failures, rtol=1e-12)
    restarts = sum(found[f"{tier}_tier_restarts"] for tier in ("memory", "drive", "storage"))
    assert (restarts <= found.failures).all()
    recovering = sum(found[name] for name in names[:4])
    waiting = 1 - found.whole_cluster_probability
    np.testing.assert_allclose(recovering + waiting, found.recovery_overhead, rtol=1e-9)
    np.testing.assert_allclose(sum(found[n] for n in names[4:]), found.rework_overhead, rtol=1e-9)
    assert (found.requeue_failures.sel(requeue_share=0) == 0).all()
    modes = {**case, "node_pool": "open", "requeue_share": 0.1}
    mixed = fleetcube.simulate(trials=2, **{**modes, "checkpoint_mode": ["sync", "tiered"]})
    assert np.isnan(mixed.drive_tier_restarts.sel(checkpoint_mode="sync"))


def test_nodes_that_fail_together_take_several_spares() -> None:
    case = {**FLEET, "gpu_mttf": "10_000 h", "spare_nodes": 20, "node_pool": "closed"}
    together = {**case, "correlated_failure_fraction": 1.0}
    names = ["whole_cluster_probability", "node_repair_rate"]
    exact = fleetcube.evaluate(names, settings=Settings("numpy"), **together)
    assert "spares are counted as if nodes failed one by one" in exact.fleetcube_remarks
    for asked, given in ((names, case), ("cluster_mtbf", together)):
        other = fleetcube.evaluate(asked, settings=Settings("numpy"), **given)
        assert "spares" not in other.attrs.get("fleetcube_remarks", "")
    groups = float(exact.node_repair_rate) * 86400 / 4  # of four nodes, in repair
    whole = math.exp(-groups) * sum(groups**n / math.factorial(n) for n in range(6))
    found = fleetcube.simulate(trials=200, **together)
    off = abs(float(found.whole_cluster_probability) - whole)
    assert off < 4.5 * float(found.whole_cluster_probability_error) + 2e-3
    assert abs(whole - float(exact.whole_cluster_probability)) > 0.02
    single = fleetcube.simulate(trials=20, **case)
    pairs = {"correlated_failure_fraction": [0.0, 1.0], "failure_domain_nodes": [1, 4]}
    mixed = fleetcube.simulate(trials=20, **case, **pairs)
    assert (mixed.goodput.sel(correlated_failure_fraction=0) == single.goodput).all()
    assert (mixed.goodput.sel(failure_domain_nodes=1) == single.goodput).all()
    switches = fleetcube.simulate(trials=20, **together, switch_mttf=["1e5 h", np.inf])
    assert switches.goodput.dims == ("switch_mttf",)


def test_nodes_that_fail_together_break_fewer_replicas() -> None:
    case = {**ELASTIC, "elastic_growth": "free", "spare_nodes": 0, "elastic_packing": False}
    case |= {"correlated_failure_fraction": [0.0, 1.0]}
    found = fleetcube.simulate(trials=100, **case)
    exact = fleetcube.evaluate(["elastic_capacity"], settings=Settings("numpy"), **case)
    assert "replicas are counted as if nodes failed one by one" in exact.fleetcube_remarks
    # one of 8 replicas breaks every 62.5 h, or 250 h with domains of 4; seven do 37 rounds for 32
    away = 24 / 62.5 * np.array([1, 0.25])
    np.testing.assert_allclose(1 - found.elastic_capacity, away * (1 - 32 / 37), rtol=0.05)
    gap = found.elastic_capacity - exact.elastic_capacity
    assert 0.03 < float(gap.sel(correlated_failure_fraction=1)) < 0.04


def test_a_tier_for_all_failures_is_the_only_one() -> None:
    case = {**TIERED, "memory_tier_survival": 1.0, "drive_tier_survival": 0.0, "seed": 1}
    found = fleetcube.simulate(trials=100, memory_tier=["peer", "host"], **case)
    slower = fleetcube.simulate(
        trials=100,
        memory_tier=["peer", "host"],
        **{**case, "checkpoint_write_bandwidth": "1 MB/s", "nvme_bandwidth": "1 MB/s"},
    )
    assert (abs(found.goodput - slower.goodput) < 5 * found.goodput_error).all()  # never used
    plain = {k: v for k, v in case.items() if "survival" not in k and k != "seed"}
    one = fleetcube.simulate(
        trials=100,
        **{**plain, "checkpoint_mode": ["sync", "tiered"], "tier_stall_share": 1.0},
    )
    error = np.hypot(*one.goodput_error.values)
    assert abs(float(one.goodput.diff("checkpoint_mode")[0])) < 4.5 * error


def test_failures_follow_the_age_of_the_fleet() -> None:
    case = {**FLEET, "gpu_mttf": "20_000 h", "burn_in_excess": 2, "burn_in_time": "30 d"}
    window = fleetcube.simulate(trials=200, **case, aging_window=["0 s", "60 d"])
    exact = fleetcube.evaluate(
        ["goodput"], aging_window=["0 s", "60 d"], settings=Settings("numpy"), **case
    )
    assert (
        abs(window.goodput - exact.goodput) < 4.5 * window.goodput_error + 1e-3
    ).all()  # as the law's Range says
    assert float(window.wall_time[1]) == pytest.approx(60 * 86400, rel=0.01)
    # at a fixed age the rate is constant
    mttf = {**FLEET, "cluster_mtbf": float(fleetcube.evaluate("cluster_mtbf", **case))}
    plain = fleetcube.simulate(trials=200, **mttf)
    assert float(plain.goodput) == pytest.approx(float(window.goodput[0]), abs=1e-12)


def test_phases_of_a_job_add_up() -> None:
    shared: dict[str, Any] = {**FLEET, "inter_node_bandwidth": "50 GB/s", "sequence_length": 8192}
    shared |= {"gpu_mttf": ["5_000 h", "50_000 h"], "batch_quality": "critical"}
    phases = [
        {"name": "ramp", "training_tokens": 1e11, "global_batch_size": 512, "n_gpus": 2048},
        {"name": "main", "training_tokens": 4e11, "global_batch_size": 1024},
    ]
    whole = fleetcube.simulate(trials=50, **shared, phase=phases)
    assert whole.goodput.dims == ("gpu_mttf",)
    each = []
    for own in phases:
        alone = single_phase({**shared, "phase": phases}, own["name"])
        steps = fleetcube.evaluate(["training_steps", "step_time"], **alone)
        useful = float(steps.training_steps * steps.step_time)
        each.append(fleetcube.simulate(trials=50, **alone, job_duration=useful))
    np.testing.assert_allclose(whole.work, each[0].work + each[1].work)
    np.testing.assert_allclose(whole.wall_time, each[0].wall_time + each[1].wall_time, rtol=0.01)
    error = np.hypot(each[0].wall_time_error, each[1].wall_time_error)
    np.testing.assert_allclose(whole.wall_time_error, error, rtol=0.4)
    exact = fleetcube.evaluate(["goodput"], phase=phases, settings=Settings("numpy"), **shared)
    assert (abs(whole.goodput - exact.goodput) < 4.5 * whole.goodput_error).all()
    phases[1]["transition_time"] = "2 d"
    later = fleetcube.simulate(trials=50, **shared, phase=phases)
    np.testing.assert_allclose(later.wall_time - whole.wall_time, 2 * 86400, rtol=1e-9)
    np.testing.assert_allclose(later.wall_time_p95 - whole.wall_time_p95, 2 * 86400, rtol=1e-9)
    for name in ("goodput", "recovery_overhead", "work"):
        np.testing.assert_array_equal(later[name], whole[name])


def test_a_stated_job_has_its_length_and_may_be_late() -> None:
    found = fleetcube.simulate(**PLAIN, job_duration=["10 d", "100 d"])
    assert found.work.values.tolist() == [864_000, 8_640_000]
    assert (found.wall_time_p95 > found.wall_time).all()
    assert (found.wall_time > found.work).all()
    begun = fleetcube.simulate(**PLAIN, job_duration=["10 d", "100 d"], transition_time="1 h")
    np.testing.assert_allclose(begun.wall_time - found.wall_time, 3600, rtol=1e-6)
    late = found.wall_time_p95 / found.wall_time - 1
    assert late[0] > 2 * late[1]  # noise falls with the square root of the length


def test_a_job_ends_as_it_is_said_to() -> None:
    """Half an hour to a day of work, in intervals of three hours, that are longer or infinite."""
    point: dict[str, Any] = {"cluster_mtbf": "54 h", "checkpoint_stall_time": 300.0, "n_gpus": 8}
    point |= {"recovery_time": 600.0, "step_time": 60.0, "checkpoint_policy": "fixed"}
    point |= {"job_end": [False, "saved", "unsaved"]}
    point |= {"fixed_checkpoint_interval": "176 min"}
    for minutes in (30, 170, 190, 1440):
        given = {**point, "training_steps": float(minutes)}
        found = fleetcube.simulate(trials=4000, job_duration=60.0 * minutes, **given)
        exact = fleetcube.evaluate(["job_time"], **given).job_time
        off = abs(found.wall_time - exact) / found.wall_time_error
        assert (off.sel(job_end=["saved", "unsaved"]) < 4.5).all(), minutes
        ends = found.wall_time.sel(job_end=["false", "saved"]).values
        assert ends[0] == ends[1]  # a save at the end, as ever
    never = {**point, "cluster_mtbf": np.inf, "training_steps": 30.0}
    del never["checkpoint_policy"], never["fixed_checkpoint_interval"]
    whole = fleetcube.simulate(trials=2, job_duration=1800.0, **never)
    assert whole.wall_time.values.tolist() == [1800, 2100, 1800]
    long = fleetcube.simulate(trials=10, **PLAIN, job_end=["saved", "unsaved"])
    assert "job_end" not in long.dims  # of no consequence


ELASTIC: dict[str, Any] = {"n_gpus": 512, "tensor_parallel": 8, "pipeline_parallel": 8}
ELASTIC |= {"elastic": "shrink", "node_mttf": "4_000 h", "repair_time": "24 h"}
ELASTIC |= {"num_microbatches": 32, "checkpoint_interval": 3600.0, "checkpoint_write_time": 30.0}
ELASTIC |= {"detection_time": 0, "drain_time": 40.0, "checkpoint_restore_time": 25.0}
ELASTIC |= {"reinit_time": 60.0, "elastic_packing": [False, True], "spare_nodes": [0, 1]}
ELASTIC |= {"elastic_growth": ["free", "stop", "next_failure", "restart"]}


@pytest.mark.slow
def test_elastic_jobs_progress_as_those_played_node_by_node() -> None:
    found = fleetcube.simulate(trials=200, **ELASTIC)
    exact = fleetcube.evaluate(["elastic_capacity"], settings=Settings("numpy"), **ELASTIC)
    # as the law's Range says
    off = abs(found.elastic_capacity - exact.elastic_capacity)
    assert (off < 4.5 * found.elastic_capacity_error + 0.011).all()
    rng, hour = np.random.default_rng(1), 3600.0
    job = {"nodes": 64, "each": 8, "life": 4000 * hour, "repair": 24 * hour, "rounds": 32}
    for growth, packing, spares in itertools.product(*(found[n].values for n in WAYS)):
        job |= {"growth": growth, "packing": packing, "spares": spares, "interval": hour}
        job |= {"stop": 155.0 if growth == "stop" else 125.0}
        played = [elastic_progress(job, 1000, rng) for _ in range(8)]
        ours = found.sel(dict(zip(WAYS, (growth, packing, spares), strict=True)))
        error = np.hypot(np.std(played) / 7**0.5, ours.elastic_capacity_error)
        begun = 0.01 * (1 - np.mean(played))  # whole, as no node of the last 100 failures is away
        assert abs(ours.elastic_capacity - np.mean(played)) < 4.5 * error + begun, ours.coords


WAYS = ("elastic_growth", "elastic_packing", "spare_nodes")


def test_elastic_jobs_take_as_long_as_the_closed_forms_say() -> None:
    grid = {**ELASTIC, "elastic_packing": True, "spare_nodes": 1, "elastic": [False, "shrink"]}
    grid |= {"step_time": 10.0, "training_steps": 3e6, "in_job_share": [0.0, 0.5]}
    found = fleetcube.simulate(trials=40, job_duration=3e7, **grid)
    names = [*SHARES, "job_time"]
    exact = fleetcube.evaluate(names, settings=Settings("numpy"), **grid)
    for name in SHARES:
        off = abs(found[name] - exact[name].broadcast_like(found[name]))
        # failures of nodes that are missing, or idle, do not come
        assert (off < 4.5 * found[f"{name}_error"] + 1e-3).all(), name
    np.testing.assert_allclose(sum(found[name] for name in SHARES), 1, rtol=1e-13)
    speed = found.goodput * found.elastic_capacity
    np.testing.assert_allclose(speed, found.work / found.wall_time, rtol=1e-12)
    np.testing.assert_allclose(found.wall_time, exact.job_time.transpose(*speed.dims), rtol=0.011)
    rigid = found.sel(elastic="false")
    assert (rigid.elastic_capacity == 1).all()
    alone = fleetcube.simulate(trials=40, job_duration=3e7, **{**grid, "elastic": False})
    np.testing.assert_array_equal(rigid.wall_time[0], alone.wall_time)
    assert "elastic_capacity" not in alone


@pytest.mark.parametrize(("rounds", "within"), [(16, 0.031), (32, 0.016), (128, 0.01)])
def test_a_remark_says_how_far_an_elastic_job_is_from_those_played(
    rounds: int, within: float
) -> None:
    """Rounds of whole micro-batches are as many as the mean of the replicas takes: half of one, or
    more than a third, are off where the mean is just above a whole number, or just below."""
    job = {**ELASTIC, "elastic_packing": False, "spare_nodes": 0, "num_microbatches": rounds}
    job |= {"n_gpus": 4096, "tensor_parallel": 4, "pipeline_parallel": 4, "node_mttf": "6144 h"}
    job |= {"repair_time": ["24 h", "72 h", "200 h"], "elastic_growth": ["free", "next_failure"]}
    found = fleetcube.simulate(trials=60, **job)
    exact = fleetcube.evaluate(["elastic_capacity"], settings=Settings("numpy"), **job)
    off = abs(found.elastic_capacity - exact.elastic_capacity).max()
    assert f"elastic_capacity: within {within} of jobs played" in exact.fleetcube_remarks
    assert within / 3 < off < within
    rigid = fleetcube.evaluate(["elastic_capacity"], **{**job, "elastic": False})
    assert "jobs played" not in rigid.attrs.get("fleetcube_remarks", "")


def test_failures_of_switches_leave_an_elastic_job_whole() -> None:
    case = {**ELASTIC, "elastic_packing": True, "spare_nodes": 0, "nics_per_node": 0}
    del case["node_mttf"]
    case |= {"gpu_mttf": "32_000 h", "switch_mttf": ["1_000 h", "1e9 h"], "gpus_per_switch": 32}
    names = ["elastic_capacity", "recovery_overhead"]
    found = fleetcube.simulate(trials=100, **case)
    exact = fleetcube.evaluate(names, settings=Settings("numpy"), **case)
    for name in names:
        off = abs(found[name] - exact[name].broadcast_like(found[name]))
        assert (off < 4.5 * found[f"{name}_error"] + 3e-3).all(), name
    often = found.failures / found.wall_time
    twice = often.isel(switch_mttf=0) / often.isel(switch_mttf=1)
    np.testing.assert_allclose(twice.sel(elastic_growth="free"), 2, rtol=0.05)


def test_a_point_that_cannot_be_simulated_is_nan_and_says_why() -> None:
    found = fleetcube.simulate(
        trials=10, **{**PLAIN, "cluster_mtbf": [1.0, 1e4]}, checkpoint_interval=[1000.0, 0.0]
    )
    assert found.outcome.values.tolist() == [[1, 2], [0, 2]]
    assert np.isnan(found.goodput.values).tolist() == [[True, True], [False, True]]


def test_a_cluster_that_never_fails() -> None:
    given = dict(cluster_mtbf=np.inf, checkpoint_stall_time=30, recovery_time=60)
    found = fleetcube.simulate(**given, checkpoint_interval=[570, np.inf])
    assert found.goodput.values.tolist() == [0.95, 1]


@cases(
    "wrong, words",
    ({"trials": 1}, "trials = 1 is not a whole number from 2"),
    ({"memory_tier_survival": 0.5, "corruption_probability": 0.1}, "be simulated with tiers"),
    ({"trials": 10**9}, "trials = 1000000000"),
    ({"trials": 10.0}, "trials = 10.0"),
    ({"seed": -1}, "seed = -1 is not a whole number from 0"),
    ({"seed": 1 << 64}, "seed = 18446744073709551616"),
    ({"settings": 1}, "settings = 1 is not a Settings"),
    ({"failures_during_recovery": 1}, "failures_during_recovery = 1"),
    (
        {"elastic": [False, "shrink"], "memory_tier_survival": 0.5},
        "tiers of checkpoints cannot be simulated with elastic = 'shrink'; remove one",
    ),
    (
        {"elastic": "shrink", "corruption_probability": 0.1},
        "corruption_probability cannot be simulated with elastic = 'shrink'",
    ),
    (
        {"elastic": "shrink", "corruption_latency": 60.0},
        "late detection of corruption cannot be simulated with elastic = 'shrink'",
    ),
    ({"elastic": "shrink"}, "n_gpus is missing"),
    ({"elastic_capacity": 0.9}, "elastic_capacity is given, but it is what a simulation computes"),
    ({"cluster_uptime": 0.9}, "cluster_uptime is given, but it is what a simulation computes"),
    ({"recovery_model": "kinds"}, "recovery_time is given, and recovery_model = 'kinds' plays the"),
    (
        {"in_process_share": [0.2, 0.8], "requeue_share": 0.3},
        "are up to 1.1 together, and shares of one whole are 1 at most",
    ),
    ({"spare_node": 1}, "did you mean 'spare_nodes'?"),
    ({"recovery_time": -1.0}, "must be at least 0"),
    ids=str,
)
def test_what_cannot_be_used_is_refused_in_one_line(wrong: dict[str, Any], words: str) -> None:
    refused(re.escape(words), fleetcube.simulate, **{**PLAIN, **wrong})


def test_what_is_missing_is_said() -> None:
    with pytest.raises(InputError, match="n_gpus is missing: cluster_mtbf needs it"):
        fleetcube.simulate(checkpoint_stall_time=1, recovery_time=1)


SPEC = """
outputs = ["goodput"]
[scenario]
node = "dgx-h100"
model = "llama-3-70b"
[axes]
n_gpus = [1024, 4096]
spare_nodes = [0, 8]
"""


def shell(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fleetcube", "simulate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=600)


@pytest.mark.slow
def test_a_spec_is_simulated_from_the_shell(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    base = ["spec.toml", "--trials", "20", "--seed", "3"]
    done = shell(tmp_path, *base, "-v", "goodput", "-v", "spare_shortage")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["n_gpus", "spare_nodes", "goodput", "spare_shortage"]
    assert [" ".join(row[:2]) for row in rows[1:]] == ["1,024 0", "1,024 8", "4,096 0", "4,096 8"]
    given = dict(trials=20, seed=3, node="dgx-h100", model="llama-3-70b", n_gpus=[1024, 4096])
    told = fleetcube.simulate(**given, spare_nodes=[0, 8])
    assert float(rows[1][2]) == float(f"{told.goodput.values[0, 0]:.4g}")
    written = shell(tmp_path, *base, "-o", "x.csv")
    assert written.returncode == 0, written.stderr
    assert len((tmp_path / "x.csv").read_text(encoding="utf-8").splitlines()) == 5
    again = shell(tmp_path, *base, "-o", "x.csv")
    assert again.returncode == 2
    assert "'x.csv' exists" in again.stderr
    assert "did you mean 'goodput'?" in shell(tmp_path, *base, "-v", "goodputs").stderr
    assert "fleetcube simulate" in shell(tmp_path, "--help").stdout.split("Example:")[1]


@pytest.mark.slow
def test_what_the_shell_cannot_show_is_refused_before_it_is_waited_for(tmp_path: Path) -> None:
    spec = f"{SPEC}gpu_mttf = {{geomspace = [1e6, 1e9], num = 100}}\n"
    (tmp_path / "spec.toml").write_text(spec, encoding="utf-8")
    forever = ["spec.toml", "--trials", "10000000"]
    for more, told in (
        ((), "the table has 400 rows over"),
        (("-v", "goodputs", "-o", "x.csv"), "did you mean 'goodput'?"),
        (("-v", "node_swap_failures"), "no variable 'node_swap_failures'"),
    ):
        done = shell(tmp_path, *forever, *more)
        assert done.returncode == 2
        assert told in done.stderr


def test_a_point_has_no_dimensions_and_every_variable_that_is_known_beforehand() -> None:
    found = fleetcube.simulate(**PLAIN)
    assert dict(found.sizes) == {}
    assert 0.8 < float(found.goodput) < 1
    assert set(found) == set(VARIABLES)


def test_a_grid_larger_than_memory_is_refused(monkeypatch: Patch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    with pytest.raises(InputError, match="points takes 13 MB and 1 MB of memory are free; shorten"):
        fleetcube.simulate(**{**PLAIN, "cluster_mtbf": np.arange(1.0, 10_001.0)})
