"""Caches between sweeps and calls never change a result."""

import itertools
import os
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import fleetcube
from fleetcube import Settings, Sweep
from fleetcube.grid.plan import engine, execute, plan
from fleetcube.grid.spec import axes
from fleetcube.grid.spec.memo import Memo
from fleetcube.kernels.engines import numba as numba_engine
from fleetcube.kernels.engines import numpy_first as auto_engine

from .common import Patch, on_h100

SCENARIO = on_h100("llama-3-70b", n_gpus=512, tensor_parallel=8)
AXES: dict[str, Any] = {"n_gpus": [64, 512], "fabric": ["infiniband-ndr", "roce-100g"]}
OUTPUTS = ["job_time", "goodput", "mfu", "cluster_mtbf"]
CALIBRATION = 'title = "My cluster"\nsource = "measured"\ndate = "2026-11-21"\n'
CALIBRATION += 'note = "two nodes"\nflops_efficiency = 0.{}\n'
# Variations of everything in cache keys: numbers, their types and order, options, what implies one,
# labels, lengths and values of axes, outputs, the mask
CHANGES: list[dict[str, Any]] = [{}, {"n_gpus": 1024}, {"gpu_mttf": "50_000 h"}]
CHANGES += [{"gpu_mttf": {"lognormal": ["50_000 h", n]}} for n in (2, 3)]
CHANGES += [
    *({"sequence_parallel": True}, {"experts": 64}, {"model": "llama-3-8b"}, {"step_time": 3.0}),
]
SWEEPS: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    *(({**SCENARIO, **changed}, {}, OUTPUTS) for changed in CHANGES),
    (SCENARIO, {}, OUTPUTS[::-1]),
    (SCENARIO, AXES, OUTPUTS),
    (SCENARIO, dict(reversed(AXES.items())), OUTPUTS),
    (SCENARIO, {**AXES, "n_gpus": [64.0, 512.0]}, OUTPUTS),
    (SCENARIO, {**AXES, "n_gpus": np.array([512, 64])}, OUTPUTS),
    (SCENARIO, {"n_gpus": {"geomspace": [64, 512], "num": 2}}, OUTPUTS),
    (SCENARIO, {"n_gpus": [64, 512, 1024]}, OUTPUTS),
    (SCENARIO, {"all_reduce": ["ring", "auto"], "gpu_mttf": [1e8, 2e8]}, OUTPUTS),
    (SCENARIO, {"all_reduce": ["auto", "ring"], "gpu_mttf": [1e8, 2e8]}, OUTPUTS),
    (SCENARIO, {"gpu_mttf": [1e8, 2e8]}, ["d_job_time_d_gpu_mttf", "job_time"]),
]


def same(one: xarray.Dataset, other: xarray.Dataset) -> None:
    """Equal to the bit, with attributes and their order, and the order of variables."""
    xarray.testing.assert_identical(one, other)
    assert list(one.variables) == list(other.variables)
    assert list(one.attrs.items()) == list(other.attrs.items())
    for name in one.data_vars:
        assert one[name].values.tobytes() == other[name].values.tobytes()


def forget(monkeypatch: Patch, most: int) -> None:
    monkeypatch.setattr(plan, "_structures", Memo(most))
    monkeypatch.setattr(axes, "_axes_read", Memo(most))


@pytest.fixture(scope="module")
def alone() -> list[list[xarray.Dataset]]:
    """Each sweep without caches, without and with a mask."""
    with pytest.MonkeyPatch.context() as patch:
        forget(patch, 0)
        sweeps = [Sweep(*sweep) for sweep in SWEEPS]
        return [
            [
                s.evaluate(settings=Settings("numpy", infeasible="exclude" if mask else "include"))
                for mask in (False, True)
            ]
            for s in sweeps
        ]


@pytest.mark.parametrize("most", [128, 2])
def test_what_is_kept_belongs_to_one_scenario(alone: Any, monkeypatch: Patch, most: int) -> None:
    forget(monkeypatch, most)
    for k, mask in itertools.product([*range(len(SWEEPS)), *range(len(SWEEPS))], (False, True)):
        same(
            Sweep(*SWEEPS[k]).evaluate(
                settings=Settings(infeasible="exclude" if mask else "include")
            ),
            alone[k][mask],
        )
    assert len(plan._structures._values) <= most


def test_changing_what_was_given_or_returned_changes_no_later_result(alone: Any) -> None:
    scenario, outputs = dict(SCENARIO), list(OUTPUTS)
    given: dict[str, Any] = {"n_gpus": [64, 512], "fabric": list(AXES["fabric"])}
    sweep = Sweep(scenario, given, outputs)
    expected = alone[SWEEPS.index((SCENARIO, AXES, OUTPUTS))][0]
    scenario["tensor_parallel"] = given["n_gpus"][0] = 2
    given["fabric"].pop()
    outputs.pop()
    for _ in range(3):
        result = sweep.evaluate()
        same(result, expected)
        for variable in result.variables.values():
            variable.attrs["long_name"] = "mine"
        result.attrs.clear()
        for name in ("job_time", "inter_node_bandwidth", "infeasible_reason"):
            result[name].values[...] = 1
        same(Sweep(SCENARIO, AXES, OUTPUTS).evaluate(), expected)
    with pytest.raises(ValueError, match="read-only"):
        sweep.evaluate()["infeasible_reason"].attrs["flag_values"][0] = 7


def test_a_changed_calibration_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    found = []
    for efficiency in ("60", "30", "60"):
        path.write_text(CALIBRATION.format(efficiency))
        os.utime(path, (1, 1))  # same size and time
        for at in ({"calibration": str(path)}, {"calibration": [str(path)]}):
            result = fleetcube.evaluate(["step_time"], **{**SCENARIO, **at})
            found.append(float(result["step_time"].squeeze()))
            assert f'"flops_efficiency": 0.{int(efficiency) // 10}' in str(result.attrs)
    assert found[0] == found[1] == found[4] == found[5]
    assert found[2] == found[3] != found[0]


class Whole(dict[Any, Any]):
    """Notes whose values must not change once others can read them."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[Any, str] = {}

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self.stored[key] = repr(value)

    def setdefault(self, key: Any, value: Any = None) -> Any:
        if key not in self:
            self[key] = value
        return self[key]


def test_what_plans_share_is_whole_when_it_is_stored(monkeypatch: Patch) -> None:
    """Another thread may read it at once."""
    forget(monkeypatch, 0)
    sweep = Sweep(*SWEEPS[10])
    built, notes = sweep._plan("numpy", False), Whole()
    object.__setattr__(built.structure, "notes", notes)
    built.notes = Whole()
    sweep.evaluate(settings=Settings("numpy"))
    assert {"conventions", "template"} <= notes.keys()
    assert "origin" in built.notes
    for written in (notes, built.notes):
        assert {key: repr(value) for key, value in written.items()} == written.stored


def test_threads_share_what_is_kept(monkeypatch: Patch) -> None:
    forget(monkeypatch, 3)  # fewer than are used: results are evicted all the time
    kinds: list[dict[str, Any]] = [{}, {"sequence_parallel": True}, {"gpu_mttf": [1e8, 2e8]}]
    kinds += [{**kind, "fabric": ["infiniband-ndr"]} for kind in kinds]
    pairs = itertools.product(range(len(kinds)), (64, 128))
    inputs = {(k, n): {**SCENARIO, **kinds[k], "n_gpus": n} for k, n in pairs}
    wanted = {pair: fleetcube.evaluate(OUTPUTS, **own) for pair, own in inputs.items()}
    shared = Sweep(*SWEEPS[16])
    expected, failed = shared.evaluate(), []

    def work(seed: int) -> None:
        try:
            for k, n in np.random.default_rng(seed).permutation(list(wanted)):
                same(fleetcube.evaluate(OUTPUTS, **inputs[k, n]), wanted[k, n])
                same(shared.evaluate(), expected)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.slow
@pytest.mark.machine
def test_calls_that_come_back_have_the_same_bits(monkeypatch: Patch) -> None:
    """By NumPy, by compiled kernels, into fresh and into reused arrays."""
    monkeypatch.setattr(engine, "MOST_TABLE", 4)
    monkeypatch.setattr(auto_engine, "WORTH_AGAIN", 100)
    monkeypatch.setattr(numba_engine, "_requested", set())
    monkeypatch.setattr(numba_engine, "_ready", OrderedDict())
    forget(monkeypatch, 8)
    scenario = {**SCENARIO, "inter_node_latency": 1e-6}
    given = {"n_gpus": [64, 512, 6000], "mtbf_model": ["components", "empirical"]}
    given |= {"gpu_mttf": np.geomspace(1e7, 1e9, 60), "tensor_parallel": [8, 3]}
    scenario |= {"reference_mtbf": 1e5, "reference_gpus": 1024}
    sweep = Sweep(scenario, given, ["cluster_mtbf", "node_mttf", "mfu"])

    def evaluate(out: xarray.Dataset | None = None, mask: bool = False) -> xarray.Dataset:
        dtype = "float32" if mask else "float64"
        return sweep.evaluate(
            out=out, dtype=dtype, settings=Settings(infeasible="exclude" if mask else "include")
        )

    firsts = {mask: evaluate(mask=mask).copy(deep=True) for mask in (False, True)}
    assert firsts[True]["mfu"].isnull().any()
    engines = set()
    for _ in range(2400):
        for mask, first in firsts.items():
            again = evaluate(mask=mask)
            engines.add(used := again.attrs["fleetcube_engine"])
            same(again, first.assign_attrs(fleetcube_engine=used))
            for name in again.data_vars:
                again[name].values[...] = 0
            reused = evaluate(again, mask)
            assert np.shares_memory(reused["mfu"], again["mfu"])
            same(reused, first.assign_attrs(fleetcube_engine=reused.attrs["fleetcube_engine"]))
        if not numba_engine._requested and "numba" in engines:
            break
        time.sleep(0.05)
    assert engines == {"numpy", "numba"}
    fresh = Sweep(scenario, given, sweep.spec["outputs"]).evaluate()
    same(fresh, firsts[False].assign_attrs(fleetcube_engine="numba"))  # compiled for its like


def test_no_more_is_kept_than_said(monkeypatch: Patch) -> None:
    monkeypatch.setattr(execute, "MOST_KEPT", 0)
    sweep = Sweep(*SWEEPS[16])
    expected = sweep.evaluate()
    for _ in range(2):
        same(sweep.evaluate(), expected)
    assert not [key for key in sweep._plan().notes if isinstance(key, tuple)]
