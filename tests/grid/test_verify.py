"""`verify` finds every defect of a cube, and none in a sound one."""

import itertools
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetcube import Settings, Sweep, open_cube
from fleetcube.grid.errors import InputError
from fleetcube.grid.store import writer
from fleetcube.grid.store.names import SEAL
from fleetcube.grid.store.verify import verify

from ..engine import heat_pump
from .common import Patch, cases, refused
from .test_resume import AXES, CHUNKS, OUTPUTS, SCENARIO, contents


@pytest.fixture
def sweep() -> Sweep:
    return Sweep(SCENARIO, AXES, OUTPUTS)


@pytest.mark.slow
@cases(
    "engine, dtype, mask",
    *itertools.product(["numpy"], ["float64", "float32"], [False, True]),
    ("numba", "float32", True),
    ("jax", "float64", False),
)
def test_sound_cubes(sweep: Sweep, tmp_path: Path, dtype: Any, engine: Any, mask: bool) -> None:
    if engine != "numpy":  # all of job_time would compile for half a minute
        sweep = sweep.with_outputs(["data_parallel_time", "cluster_mtbf"])
    outputs = sweep._plan(engine, mask).outputs  # infeasible_reason is stored too
    how = Settings(engine, "exclude" if mask else "include")
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS, dtype=dtype, settings=how)
    found = verify(path)
    assert (found.problems, found.notes) == ([], [])
    assert found.samples == 16 * len(outputs)
    files = [file for name in outputs for file in (path / name).rglob("*")]
    assert found.chunks == sum(file.is_file() and file.name != "zarr.json" for file in files)


@pytest.mark.slow
@cases("dtype", "float64", "float32")
def test_float32_arithmetic_is_not_compared_with_float64(tmp_path: Path, dtype: Any) -> None:
    axes = {"outside_temperature": [250, 267, 281], "heating_hours": [1000, 1999]}
    sweep = Sweep({"heat_loss": "250 W/K"}, axes, ["yearly_cost"], graph=heat_pump)
    path = sweep.to_zarr(tmp_path / "a.zarr", dtype=dtype, settings=Settings("jax-float32"))
    found = verify(path)
    assert (found.problems, found.samples, len(found.notes)) == ([], 0, 1)
    assert "docs/float32.md" in found.notes[0]


def test_every_changed_byte_is_found(sweep: Sweep, tmp_path: Path) -> None:
    """One byte of every file, at a random place, changed in one bit."""
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks={"n_gpus": 2})
    generator = random.Random(1)
    for name, data in contents(path).items():
        for _ in range(3):
            at = generator.randrange(len(data))
            harmed = bytearray(data)
            harmed[at] ^= 1 << generator.randrange(8)
            (path / name).write_bytes(harmed)
            assert verify(path, samples=0).problems, (name, at)
        (path / name).write_bytes(data)
    assert verify(path).problems == []


def test_changed_metadata_is_refused_when_opened(sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS)
    for name in ("zarr.json", "job_time/zarr.json", "n_gpus/c/0"):
        data = (path / name).read_bytes()
        (path / name).write_bytes(data[:-3] + bytes([data[-3] ^ 4]) + data[-2:])
        with pytest.raises(InputError):
            open_cube(path)
        (path / name).write_bytes(data)
    open_cube(path)
    (path / SEAL).unlink()
    refused("has no seal", open_cube, path)


def test_bad_blocks_are_named(sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS)
    (path / "job_time/c/0/1/2").unlink()
    (path / "stray").touch()
    (path / "job_time/c/9/9/9").parent.mkdir(parents=True)
    (path / "job_time/c/9/9/9").touch()
    # along the fabric, chunks are whole by default
    report = verify(path)
    assert sorted(report.problems) == [
        "job_time/c/0/1/2 is missing (block fabric 0:2, n_gpus 2:3, gpu_mttf 4:6)",
        "job_time/c/9/9/9 does not belong to the cube",
    ]
    assert report.guests == "stray"


def test_wrong_values_are_found(sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    """A cube whose writer was wrong by 1e-11: every checksum is valid, the samples are not."""
    right = writer.evaluate_block

    def wrong(plan: object, dims: object, region: object, outs: dict, threads: int) -> None:  # type: ignore[type-arg]
        right(plan, dims, region, outs, threads)  # type: ignore[arg-type]
        if "cluster_mtbf" in outs:
            outs["cluster_mtbf"] *= 1 + 1e-11

    with monkeypatch.context() as patch:
        patch.setattr(writer, "evaluate_block", wrong)
        path = sweep.to_zarr(tmp_path / "a.zarr")
    problems = verify(path).problems
    assert problems
    assert all(problem.startswith("cluster_mtbf at ") for problem in problems)


@pytest.mark.slow
def test_the_command_says_what_is_bad(sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS)
    command = [sys.executable, "-m", "fleetcube", "verify", "a.zarr"]

    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)

    done = run()
    assert done.returncode == 0, done.stderr
    assert "a.zarr is sound" in done.stdout
    chunk = path / "job_time/c/0/0/0"
    chunk.write_bytes(chunk.read_bytes()[:-5])
    done = run()
    assert done.returncode == 1
    assert "job_time/c/0/0/0 holds" in done.stdout
    assert "`run --resume` of its sweep repairs it" in done.stderr
    refused("there is no cube", verify, tmp_path / "none.zarr")
