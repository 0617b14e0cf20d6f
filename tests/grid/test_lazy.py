"""Lazy sweeps: Dask's blocks equal the grid's, and the graph stays small."""

import ast
import pickle
from typing import Any

import dask
import numpy as np
import pytest
import xarray

from fleetcube import Settings
from fleetcube.grid.run import lazy, recipe
from fleetcube.sweep import Sweep

from .common import Patch, on_h100, refused

SCENARIO = on_h100(n_gpus=512, global_batch_size=512)
AXES: dict[str, Any] = {"n_gpus": [8, 24, 64, 1000, 16384], "all_reduce": ["ring", "auto", "tree"]}
AXES |= {"gpu_mttf": [1e7, 3.3e8, 1e9]}
OUTPUTS = ["job_time", "goodput", "step_time", "dominant_overhead", "checkpoint_write_time"]
LONG: dict[str, Any] = {"gpu_mttf": {"linspace": [1e7, 1e9], "num": 10_000}}
LONG |= {"checkpoint_write_bandwidth": {"geomspace": [1e9, 1e12], "num": 10_000}}
LONG |= {"restart_time": {"linspace": [10, 1000], "num": 10_000}}


def small() -> Sweep:
    return Sweep(SCENARIO, AXES, OUTPUTS)


@pytest.fixture
def blocks(monkeypatch: Patch) -> list[tuple[str, ...]]:
    """Names evaluated by each call for a block."""
    called: list[tuple[str, ...]] = []
    evaluate = lazy.evaluate_block

    def counted(*given: Any) -> None:
        called.append(tuple(given[3]))
        evaluate(*given)

    monkeypatch.setattr(lazy, "evaluate_block", counted)
    return called


@pytest.mark.parametrize("chunks", [None, {"n_gpus": 2}, {"n_gpus": 1, "gpu_mttf": 2}])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_blocks_hold_what_the_grid_holds(chunks: Any, mask: bool, scheduler: str) -> None:
    sweep = small()
    cube = sweep.lazy(
        chunks, settings=Settings("numpy", infeasible="exclude" if mask else "include")
    )
    with dask.config.set(scheduler=scheduler):
        found = cube.compute()
    xarray.testing.assert_identical(
        found,
        sweep.evaluate(settings=Settings("numpy", infeasible="exclude" if mask else "include")),
    )


def test_other_processes_compute_it_too() -> None:
    sweep = small()
    cube = sweep.lazy({"n_gpus": 3}, dtype="float32", settings=Settings("numpy"))
    found = cube.compute(scheduler="processes", num_workers=1)
    xarray.testing.assert_identical(
        found, sweep.evaluate(dtype="float32", settings=Settings("numpy"))
    )


def test_outputs_that_share_dimensions_are_one_task(blocks: list[tuple[str, ...]]) -> None:
    cube = small().lazy({"n_gpus": 2}, settings=Settings("numpy"))
    assert not blocks
    assert cube["job_time"].dims == cube["dominant_overhead"].dims
    dask.compute(cube["job_time"].data, cube["dominant_overhead"].data, scheduler="synchronous")
    assert blocks == [("job_time", "dominant_overhead")] * 3


def test_a_slice_evaluates_only_its_blocks(blocks: list[tuple[str, ...]]) -> None:
    cube = Sweep(SCENARIO, LONG, ["job_time"]).lazy(
        dict.fromkeys(LONG, 250), settings=Settings("numpy")
    )
    assert cube["job_time"].data.npartitions == 40**3
    part = cube["job_time"].isel(gpu_mttf=7, restart_time=slice(200, 300), drop=True)
    part = part.isel(checkpoint_write_bandwidth=9999)
    values = part.data.compute(scheduler="synchronous")
    assert len(blocks) == 2
    expected = Sweep(SCENARIO, LONG, ["job_time"]).virtual()["job_time"]
    expected = expected.isel(gpu_mttf=7, checkpoint_write_bandwidth=9999)
    assert np.array_equal(values, expected[{"restart_time": slice(200, 300)}].values)


def test_a_graph_does_not_grow_with_its_blocks_or_coordinates() -> None:
    def travel(size: int) -> int:
        array = Sweep(SCENARIO, LONG, ["job_time"]).lazy(dict.fromkeys(LONG, size))["job_time"]
        layers = array.data.dask.layers.values()
        assert all(layer.is_materialized() is False or len(layer) == 1 for layer in layers)
        return len(pickle.dumps(dict(array.data.dask.layers)))

    assert travel(250) < travel(10_000) + 10_000 < 30_000


def test_names_are_the_same_for_the_same_sweep_and_differ_for_others() -> None:
    def name(sweep: Sweep, **given: Any) -> str:
        return str(sweep.lazy(**given)["job_time"].data.name)

    assert name(small()) == name(small())
    others: list[Any] = [
        {},
        {"dtype": "float32"},
        {"chunks": {"n_gpus": 1}},
        {"settings": Settings("jax")},
    ]
    others += [{"settings": Settings(infeasible="exclude")}]
    others = [name(small(), **given) for given in others]
    others += [name(Sweep({**SCENARIO, "restart_time": 7.0}, AXES, OUTPUTS))]
    assert len(set(others)) == len(others)


def test_a_process_builds_a_plan_once(monkeypatch: Patch) -> None:
    monkeypatch.setattr(recipe, "_plans", {})
    sweep = small()
    held = recipe.Recipe(sweep.spec, sweep._plan("numpy"))
    first, second = pickle.loads(pickle.dumps(held)), pickle.loads(pickle.dumps(held))
    assert first.plan is second.plan is not held.plan
    monkeypatch.setattr(recipe, "MOST_PLANS", 1)
    changed = {**sweep.spec, "scenario": {**SCENARIO, "n_gpus": 8}}
    other = recipe.Recipe(changed, sweep._plan("numpy"))
    pickle.loads(pickle.dumps(other)).plan  # noqa: B018
    assert held.token not in recipe._plans


def test_what_is_done_to_the_scenario_later_changes_nothing() -> None:
    scenario = dict(SCENARIO)
    sweep = Sweep(scenario, AXES, ["job_time"])
    held = recipe.Recipe(sweep.spec, sweep._plan("numpy"))
    scenario["n_gpus"] = -1
    assert pickle.loads(pickle.dumps(held)).plan.outputs == sweep._plan("numpy").outputs


def test_chunks_that_cannot_be_are_refused() -> None:
    refused("is not an axis", lambda: small().lazy({"nodes": 3}))
    refused("whole number", lambda: small().lazy({"n_gpus": 0}))
    long = Sweep(SCENARIO, LONG, ["job_time"])
    told = r"1,000,000 blocks are too many .* give chunks = "
    said = refused(told, long.lazy, dict.fromkeys(LONG, 100))
    given = ast.literal_eval(said.partition("chunks = ")[2].partition(" (")[0])
    assert 50_000 < long.lazy(given)["job_time"].data.npartitions <= 100_000
