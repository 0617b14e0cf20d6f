"""Whoever watches hears of all that is done, and of nothing else."""

import builtins
import io
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fleetcube
from fleetcube import Settings
from fleetcube.calibration.measurements import read_records
from fleetcube.calibration.validate import validate
from fleetcube.grid import progress
from fleetcube.grid.plan import tiles
from fleetcube.grid.progress import expected, watching
from fleetcube.grid.store.verify import verify

from .common import cases, on_h100

AXES = {"n_gpus": {"geomspace": [64, 16384], "num": 9}}
AXES |= {"gpu_mttf": {"geomspace": ["1_000 h", "100_000 h"], "num": 40}}
JOB = on_h100("llama-3-70b", tensor_parallel=8, pipeline_parallel=4)
SWEEP = fleetcube.Sweep(JOB, AXES, ["job_time", "goodput"])
FREE = fleetcube.Sweep({**JOB, "detection_time": {"uniform": [10, 100]}}, AXES, ["job_time"])
WORK = {"checkpoint_stall_time": 30, "recovery_time": 600, "cluster_mtbf": ["1 h", "4 h"]}
POINTS = 9 * 40


def heard(ask: Callable[[], Any]) -> tuple[list[int], int, str]:
    """What is told to have been done while something is asked for, the last total and the unit."""
    told: list[tuple[int, int, str]] = []
    with watching(lambda *row: told.append(row)):
        ask()
    assert told[0][0] == 0
    dones = [done for done, _, _ in told]
    assert (dones, len({unit for *_, unit in told})) == (sorted(dones), 1)
    return dones, told[-1][1], told[-1][2]


@cases(
    "ask, total, unit",
    (lambda: SWEEP.reduce("max"), POINTS, "points"),
    # and of the winners: the other outputs, and whether memory's error decides
    (lambda: SWEEP.best("job_time", also=["goodput"]), POINTS + 2 * 9, "points"),
    (lambda: SWEEP.best(["job_time", "goodput"], sense=["min", "max"]), POINTS, "points"),
    (lambda: SWEEP.dominant_inputs("job_time"), POINTS, "points"),
    (lambda: SWEEP.solve("flops_efficiency", "job_time <= 30 d"), POINTS, "points"),
    (lambda: FREE.uncertainty(samples=64), POINTS, "points"),
    # 25 trajectories of 1 + 39 points; 15 more would be a part of one
    (lambda: SWEEP.global_sensitivity("job_time", method="morris", samples=1015), 1000, "points"),
    (lambda: fleetcube.simulate(trials=500, **WORK), 1000, "jobs"),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_all_is_told(ask: Callable[[], Any], total: int, unit: str) -> None:
    dones, told, of = heard(ask)
    assert (of, dones[-1], told) == (unit, told, total)


def test_an_optimum_is_told_point_by_point() -> None:
    sweep = fleetcube.Sweep(JOB, {"n_gpus": [64, 128, 256]}, ["goodput", "job_time"])
    found = heard(lambda: sweep.best("goodput", search={"checkpoint_interval": ["1 min", "10 h"]}))
    assert found == ([0, 1, 2, 3], 3, "points")


def test_a_cube_is_told_by_values_and_checked_by_chunks(tmp_path: Path) -> None:
    def run() -> None:
        SWEEP.to_zarr(tmp_path / "a.zarr", chunks={"n_gpus": 2})

    dones, total, unit = heard(run)
    cube = fleetcube.open_cube(tmp_path / "a.zarr")
    values = sum(v.size for v in cube.reset_coords().data_vars.values())
    assert (dones[-1], total, unit) == (values, values, "values")
    # goodput, job_time and infeasible_reason in 5 blocks each
    dones, total, unit = heard(lambda: verify(tmp_path / "a.zarr"))
    assert (dones[-1], total, unit) == (15, 15, "chunks")


def test_a_run_that_goes_on_tells_what_is_left(tmp_path: Path) -> None:
    def stop(done: int, total: int, unit: str) -> None:
        if done >= POINTS:
            raise KeyboardInterrupt

    how = Settings(threads=1, progress=stop)
    with pytest.raises(KeyboardInterrupt):
        SWEEP.to_zarr(tmp_path / "a.zarr", chunks={"n_gpus": 1}, settings=how)
    dones, total, _ = heard(
        lambda: SWEEP.to_zarr(tmp_path / "a.zarr", resume=True, settings=Settings(threads=1))
    )
    assert dones[-1] == total
    assert 0 < total <= POINTS


def test_predictions_are_told() -> None:
    rows, _ = read_records(None)
    dones, total, _ = heard(lambda: validate(rows[:20]))
    assert dones[-1] == total
    assert total >= 20


def test_nobody_else_hears() -> None:
    told: list[int] = []
    with watching(lambda done, *_: told.append(done)):
        other = threading.Thread(target=lambda: expected(7, "points")(7))
        other.start()
        other.join()
        with watching(lambda *_: None):
            expected(7, "points")(7)
    expected(7, "points")(7)
    assert told == []


def test_another_unit_begins_anew() -> None:
    told: list[Any] = []
    with watching(lambda *row: told.append(row)):
        expected(2, "chunks")(2)
        one = expected(10, "values")
        one(4)
        expected(5, "values")(5)
        one(6)
    assert told[:2] == [(0, 2, "chunks"), (2, 2, "chunks")]
    values = [(0, 10), (4, 10), (4, 15), (9, 15), (15, 15)]
    assert told[2:] == [(done, total, "values") for done, total in values]


def test_a_large_grid_in_memory_is_told_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tiles.AT_ONCE, "numpy", 100)
    sweep = SWEEP.replace(settings=Settings("numpy", threads=1))
    dones, total, unit = heard(sweep.evaluate)
    # both outputs together; the reason is of 9 points, too few to tell
    assert (dones[-1], total, unit) == (POINTS, POINTS, "points")
    assert len(dones) > POINTS / 100


def test_rows_are_told() -> None:
    rows = {"n_gpus": [64, 128, 256], "precision": ["bf16", "fp8", "bf16"]}
    told = heard(lambda: fleetcube.evaluate_table(rows, ["step_time"], scenario=JOB))
    assert told == ([0, 2, 3], 3, "rows")


@pytest.mark.parametrize("installed", [True, False])
def test_a_bar_is_shown_where_asked_also_from_a_thread(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tqdm's, or a line of text; one for all calls inside, and nothing is left of it."""
    real = builtins.__import__

    def find(name: str, *rest: Any) -> Any:
        if name.startswith("tqdm") and not installed:
            raise ImportError(name)
        return real(name, *rest)

    if installed:
        pytest.importorskip("tqdm")
    monkeypatch.setattr(builtins, "__import__", find)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.02)
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)

    def work() -> None:
        with Settings(progress=True)._watched():
            done = expected(4, "points")
            for _ in range(2):
                done(1)
                time.sleep(0.15)  # tqdm draws ten times a second

    other = threading.Thread(target=work)
    other.start()
    other.join()
    told = shown.getvalue()
    assert "points/s" in told
    assert " 50" in told
    assert told.endswith("\r")
    assert not told.replace("\r", "\n").splitlines()[-1].strip()


def test_no_bar_where_none_is_asked_or_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(progress, "AFTER", 1e9)
    SWEEP.reduce("max", settings=Settings("numpy", progress=True))
    monkeypatch.setattr(progress, "AFTER", 0.0)
    SWEEP.reduce("max", settings=Settings("numpy"))
    assert shown.getvalue() == ""


def test_a_call_inside_adds_to_the_bar_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(progress, "_bar", lambda: (lambda *row: told.append(row[0]), int))
    with progress.showing():
        expected(2, "points")(1)
        with progress.showing():
            expected(3, "points")(3)
    assert told == [0, 1, 1, 4]
