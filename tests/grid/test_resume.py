"""Cubes are never half-true: what stops is continued to the same bytes, or refused."""

import contextlib
import errno
import functools
import itertools
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import xarray

from fleetcube import Settings, Sweep, open_cube
from fleetcube.catalog import units
from fleetcube.grid.plan import fingerprint as fingerprint_module
from fleetcube.grid.plan import plan as plan_module
from fleetcube.grid.plan.fingerprint import difference, fingerprint
from fleetcube.grid.spec.memo import Memo
from fleetcube.grid.store import cube as cube_module
from fleetcube.grid.store import journal
from fleetcube.grid.store import writer as writer_module
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.names import JOURNAL, LOCK, PLAN
from fleetcube.grid.store.places import durable
from fleetcube.grid.store.places.place import Folder
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.physics.graph import PHYSICS

from .common import Patch, cases, refused
from .kill import contents

ROOT = Path(__file__).parents[2]
SCENARIO: dict[str, Any] = {"model": "llama-3-8b", "node": "dgx-h100", "tensor_parallel": 8}
AXES: dict[str, Any] = {"fabric": ["infiniband-ndr", "roce-100g"], "n_gpus": [8, 60, 512]}
AXES |= {"gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 7}}
OUTPUTS = ["job_time", "step_time", "cluster_mtbf", "dominant_overhead"]
CHUNKS = {"gpu_mttf": 2, "n_gpus": 2}


@pytest.fixture
def sweep() -> Sweep:
    return Sweep(SCENARIO, AXES, OUTPUTS)


def no_exchange(patch: Patch) -> None:
    """Answer as renameat2 does on an NFS."""
    system = SimpleNamespace(renameat2=lambda *_: -1)
    calls = SimpleNamespace(CDLL=lambda *_, **__: system, get_errno=lambda: errno.EINVAL)
    patch.setattr(durable, "ctypes", calls)


def stop_after(count: int, error: Callable[[], BaseException], monkeypatch: Patch) -> None:
    """Let so many blocks be written, then fail."""
    write = writer_module.Writer.write
    begun = itertools.count()

    def stopping(self: Any, *arguments: Any) -> Any:
        if next(begun) >= count:
            raise error()
        return write(self, *arguments)

    monkeypatch.setattr(writer_module.Writer, "write", stopping)


def blocks_written(monkeypatch: Patch) -> list[Any]:
    """The blocks that are written from now on, as they come."""
    written: list[Any] = []
    write = writer_module.Writer.write
    recorded = lambda *given: (written.append(given[-1]), write(*given))[1]  # noqa: E731
    monkeypatch.setattr(writer_module.Writer, "write", recorded)
    return written


def disk_full() -> BaseException:
    return OSError(errno.ENOSPC, "No space left on device")


def stopped_at(place: Any) -> Any:
    """The place of a cube of which five blocks are finished."""
    with pytest.MonkeyPatch.context() as patch:
        stop_after(5, disk_full, patch)
        with pytest.raises(OSError, match="5 finished blocks are kept"):
            Sweep(SCENARIO, AXES, OUTPUTS).to_zarr(
                place, chunks=CHUNKS, settings=Settings(threads=1)
            )
    return place


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    return Path(stopped_at(tmp_path / "a.zarr"))


@pytest.mark.machine
@pytest.mark.parametrize("error", [disk_full, KeyboardInterrupt])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_stopped_runs_go_on(
    sweep: Sweep, tmp_path: Path, count: int, error: Any, monkeypatch: Patch
) -> None:
    whole = sweep.to_zarr(tmp_path / "whole.zarr", chunks=CHUNKS)
    with monkeypatch.context() as patch:
        stop_after(count, error, patch)
        with pytest.raises((OSError, KeyboardInterrupt), match=f"{count} finished blocks are kept"):
            sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS, settings=Settings(threads=1))
    assert not (tmp_path / "a.zarr").exists()
    written = blocks_written(monkeypatch)
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS, resume=True)
    assert len(written) == len(examine(Folder(path)).blocks) - count
    assert contents(path) == contents(whole)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.zarr", "whole.zarr"]


@pytest.mark.parametrize("again", [{"resume": True}, {"resume": True, "overwrite": True}])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_replacement_goes_on(sweep: Sweep, tmp_path: Path, count: int, again: Any) -> None:
    """The cube that is replaced is another one, and stays until the new one is whole."""
    whole = contents(sweep.to_zarr(tmp_path / "whole.zarr", chunks=CHUNKS))
    path = Sweep({**SCENARIO, "restart_time": 1}, AXES, OUTPUTS).to_zarr(
        tmp_path / "a.zarr", chunks=CHUNKS
    )
    other = contents(path)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(count, disk_full, patch)
        with pytest.raises(OSError, match="No space"):
            sweep.to_zarr(path, chunks=CHUNKS, overwrite=True, settings=Settings(threads=1))
    assert contents(path) == other
    sweep.to_zarr(path, chunks=CHUNKS, **again)
    assert contents(path) == whole
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.zarr", "whole.zarr"]


def test_a_replacement_begins_anew_where_another_was_begun(stopped: Path, tmp_path: Path) -> None:
    other = Sweep({**SCENARIO, "restart_time": 1}, AXES, OUTPUTS)
    refused("this changed: scenario", other.to_zarr, stopped, chunks=CHUNKS, resume=True)
    other.to_zarr(stopped, chunks=CHUNKS, resume=True, overwrite=True)
    assert contents(stopped) == contents(other.to_zarr(tmp_path / "b.zarr", chunks=CHUNKS))


def test_an_unfinished_cube_reads_as_none(stopped: Path) -> None:
    partial = stopped.with_name("a.zarr.partial")
    with pytest.raises(Exception, match=r"(?i)group|not found|no such file"):
        xarray.open_zarr(partial, consolidated=False)
    refused("--resume", open_cube, partial)
    assert any(partial.rglob("c/0*")), "chunks, but no array that plain readers would fill with NaN"
    assert not list(partial.glob("*/zarr.json"))


@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "remove", "journal"])
def test_harm_in_between_is_mended(sweep: Sweep, stopped: Path, tmp_path: Path, harm: str) -> None:
    partial = stopped.with_name("a.zarr.partial")
    chunk = partial / list(examine(Folder(partial)).blocks.values())[2].files[0][0]
    data = bytearray(chunk.read_bytes())
    if harm == "flip":
        data[len(data) // 2] ^= 1
    elif harm == "cut":
        del data[-1]
    elif harm == "empty":
        data.clear()
    chunk.write_bytes(data)
    if harm == "remove":
        chunk.unlink()
    if harm == "journal":  # a torn last line
        (partial / JOURNAL).write_bytes((partial / JOURNAL).read_bytes()[:-7])
    (partial / "job_time" / "c" / f"0.1.2{durable.TEMPORARY}").write_bytes(b"left over")
    sweep.to_zarr(stopped, chunks=CHUNKS, resume=True)
    assert contents(stopped) == contents(sweep.to_zarr(tmp_path / "whole.zarr", chunks=CHUNKS))


def test_resume_begins_where_there_is_nothing_and_rests_where_all_is_done(
    sweep: Sweep, tmp_path: Path, monkeypatch: Patch
) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr", resume=True)
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    monkeypatch.setattr(writer_module.Writer, "run", lambda *_: pytest.fail("ran again"))
    assert sweep.to_zarr(path, resume=True) == path
    assert before == {file: file.stat().st_mtime_ns for file in path.rglob("*")}


@pytest.mark.parametrize("engine", ["numba", pytest.param("jax", marks=pytest.mark.slow)])
@pytest.mark.parametrize("count", [5, 1000])
def test_resume_takes_the_engine_of_the_cube(
    sweep: Sweep, tmp_path: Path, engine: Any, count: int, monkeypatch: Patch
) -> None:
    """The default engine, which would be NumPy, was refused for a cube of another."""
    path, settings = tmp_path / "a.zarr", Settings(engine, threads=1)
    with monkeypatch.context() as patch, contextlib.suppress(OSError):
        stop_after(count, disk_full, patch)
        sweep.to_zarr(path, chunks=CHUNKS, settings=settings)
    assert path.exists() == (count == 1000)
    sweep.to_zarr(path, chunks=CHUNKS, resume=True)
    whole = sweep.to_zarr(tmp_path / "whole.zarr", chunks=CHUNKS, settings=settings)
    assert contents(path) == contents(whole)
    refused(
        f'engine: "{engine}" -> "numpy"',
        sweep.to_zarr,
        path,
        chunks=CHUNKS,
        resume=True,
        settings=Settings("numpy"),
    )


def test_overwrite_begins_anew(sweep: Sweep, stopped: Path, tmp_path: Path) -> None:
    sweep.to_zarr(stopped, overwrite=True)
    assert contents(stopped) == contents(sweep.to_zarr(tmp_path / "whole.zarr"))


@cases(
    "scenario, axes, keywords, told",
    ({"node": "dgx-a100"}, {}, {}, r'scenario\.node: "dgx-h100" -> "dgx-a100"'),
    ({"zero_stage": 1}, {}, {}, r"scenario\.zero_stage: unset -> 1"),
    ({}, {"n_gpus": [8, 60, 520]}, {}, r"axes\.n_gpus: \[8, 60, 512\] -> \[8, 60, 520\]"),
    ({}, {}, {"dtype": "float32"}, 'dtype: "float64" -> "float32"'),
    ({}, {}, {"settings": Settings("numba")}, 'engine: "numpy" -> "numba"'),
    ({}, {}, {"chunks": {"gpu_mttf": 3, "n_gpus": 2}}, r"chunks\."),
    ({}, {}, {"settings": Settings(infeasible="exclude")}, 'infeasible: "include" -> "exclude"'),
)
def test_what_was_begun_otherwise_is_refused(
    stopped: Path, scenario: Any, axes: Any, keywords: Any, told: str
) -> None:
    before = contents(stopped.with_name("a.zarr.partial"))
    other = Sweep({**SCENARIO, **scenario}, {**AXES, **axes}, OUTPUTS)
    refused(told, other.to_zarr, stopped, resume=True, **{"chunks": CHUNKS, **keywords})
    assert {**before, LOCK: b""} == {**contents(stopped.with_name("a.zarr.partial")), LOCK: b""}


@pytest.mark.parametrize("part", ["version.numpy", "catalog.node.dgx-h100", "formula.job_time"])
def test_other_versions_and_formulas_are_refused(sweep: Sweep, stopped: Path, part: str) -> None:
    partial = Folder(stopped.with_name("a.zarr.partial"))
    held = examine(partial).plan
    assert held is not None
    assert part in held
    partial.write(PLAN, journal.record_bytes({**held, part: "older"}))
    refused(f'{part}: "older" -> ', sweep.to_zarr, stopped, chunks=CHUNKS, resume=True)


@cases(
    "quantity, change",
    ("pipeline_parallel_tier", ("TIERS", "0 nowhere, 1 node")),  # a table of flags
    ("leaf_gpus", ("__doc__", "gpus_per_switch\n\nSource: Daly 2006")),  # of a row
)
def test_words_outside_of_formulas_are_in_the_fingerprint(
    quantity: str, change: Any, monkeypatch: Patch
) -> None:
    def facts() -> dict[str, Any]:
        read.cache_clear()
        monkeypatch.setattr(plan_module, "_structures", Memo(1))  # whose formulas were read before
        sweep = Sweep({**SCENARIO, "n_gpus": 64}, {}, [quantity])
        return fingerprint(sweep._plan("numpy"), sweep.spec, "float64", {})

    before = facts()
    assert difference(before, facts()) is None
    formula = PHYSICS.quantities[quantity].default
    home = sys.modules[formula.__module__] if change[0] == "TIERS" else formula
    with monkeypatch.context() as patch:
        patch.setattr(home, *change)
        told = difference(before, facts())
    read.cache_clear()
    assert told is not None
    assert told.startswith(f"formula.{quantity}")
    assert "more)" not in told


def test_units_are_in_the_fingerprint(tmp_path: Path, monkeypatch: Patch) -> None:
    sweep = Sweep({**SCENARIO, "n_gpus": 64}, {}, ["leaf_gpus"])

    def facts() -> dict[str, Any]:
        return fingerprint(sweep._plan("numpy"), sweep.spec, "float64", {})

    before, other = facts(), tmp_path / "units.txt"
    other.write_text(units.PATH.read_text("utf-8").replace("= 1e3 =", "= 1024 ="), "utf-8")
    monkeypatch.setattr(fingerprint_module, "UNITS", other)
    told = difference(before, facts())
    assert told is not None
    assert told.startswith("units:")


def test_a_full_disk_loses_nothing(sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    """Whichever sync tells of it: of the record, a chunk, metadata or a folder."""
    sync = os.fsync

    def counted(most: float, folder: str) -> int:
        calls = itertools.count()

        def full(handle: int) -> None:
            if next(calls) >= most:
                raise disk_full()
            sync(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            sweep.to_zarr(tmp_path / folder, chunks=CHUNKS)
        return next(calls)

    count = counted(math.inf, "whole.zarr")
    whole = contents(tmp_path / "whole.zarr")
    for most in range(0, count, 8):
        with pytest.raises(OSError, match=r"No space left on device; .* `run --resume` continues"):
            counted(most, f"{most}.zarr")
        assert not (tmp_path / f"{most}.zarr").exists() or most == count - 1
        path = sweep.to_zarr(tmp_path / f"{most}.zarr", chunks=CHUNKS, resume=True)
        assert contents(path) == whole


def test_a_damaged_cube_is_mended_block_by_block(sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS)
    whole = contents(path)
    block = list(examine(Folder(path)).blocks.values())[3]
    bad = {name for name, _, _ in block.files}
    nodes = {name: (path / name).stat().st_ino for name in whole if "/c/" in name}
    nodes = {n: i for n, i in nodes.items() if n.split("/")[0] in OUTPUTS}
    harmed = path / block.files[0][0]
    harmed.write_bytes(harmed.read_bytes()[:-1] + b"!")
    sweep.to_zarr(path, chunks=CHUNKS, resume=True)
    assert contents(path) == whole
    assert {name for name, node in nodes.items() if (path / name).stat().st_ino != node} == bad
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.slow
def test_kills_leave_no_wrong_cube(tmp_path: Path) -> None:
    script = Path(__file__).with_name("kill.py")
    given = dict(capture_output=True, text=True, timeout=900)
    done = subprocess.run([sys.executable, str(script), "3", str(tmp_path)], **given)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 tries, 0 wrong" in done.stdout


def killed(path: str, ends_after: int) -> None:
    """Overwrite a cube, and be killed after one of the steps."""
    steps = itertools.count(1)

    def step(call: Any, *arguments: Any, **named: Any) -> None:
        call(*arguments, **named)
        if next(steps) == ends_after:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        no_exchange(patch)
        discard = Folder.discard
        patch.setattr(os, "rename", functools.partial(step, os.rename))
        patch.setattr(Folder, "discard", lambda *places: step(discard, *places))
        Sweep(SCENARIO, AXES, OUTPUTS).to_zarr(
            path, chunks=CHUNKS, overwrite=True, settings=Settings(threads=1)
        )


@pytest.mark.slow
@pytest.mark.parametrize("ends_after", range(1, 4))
@pytest.mark.parametrize("again", [{}, {"resume": True}, {"overwrite": True}])
def test_a_name_that_cannot_be_exchanged_is_not_lost(
    sweep: Sweep, tmp_path: Path, ends_after: int, again: Any
) -> None:
    """As on an NFS, and killed after one of the steps: two renames, and the removal."""
    new = contents(sweep.to_zarr(tmp_path / "b.zarr", chunks=CHUNKS))
    before = Sweep({**SCENARIO, "restart_time": 1}, AXES, OUTPUTS)
    path = Path(before.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS))
    old = contents(path)
    (tmp_path / "a.zarr.old").mkdir()
    (tmp_path / "a.zarr.old" / "notes").touch()
    with pytest.MonkeyPatch.context() as patch:
        no_exchange(patch)
        # not forked: JAX, which an earlier test may have loaded, warns of it
        words = f"from tests.grid.test_resume import killed; killed({str(path)!r}, {ends_after})"
        done = subprocess.run([sys.executable, "-c", words], cwd=ROOT, timeout=600, check=False)
        assert (done.returncode, path.exists()) == (-signal.SIGKILL, ends_after > 1)
        if again:
            sweep.to_zarr(path, chunks=CHUNKS, **again)
        else:
            refused("exists", sweep.to_zarr, path, chunks=CHUNKS)
    found = contents(path)
    found.pop(LOCK, None)
    assert found == (old if ends_after == 1 and not again else new)
    left = {"a.zarr", "b.zarr", "a.zarr.old"} | ({"a.zarr.partial"} if found == old else set())
    assert {entry.name for entry in tmp_path.iterdir()} == left
    assert contents(tmp_path / "a.zarr.old") == {"notes": b""}


def test_a_name_is_given_back(sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    path = Path(sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS))
    old = contents(path)
    no_exchange(monkeypatch)
    rename, calls = os.rename, itertools.count()

    def stopped(*arguments: Any, **named: Any) -> None:
        if next(calls) == 1:
            raise KeyboardInterrupt
        rename(*arguments, **named)

    monkeypatch.setattr(os, "rename", stopped)
    with pytest.raises(KeyboardInterrupt, match="are kept"):
        sweep.to_zarr(path, chunks=CHUNKS, overwrite=True)
    assert contents(path) == old


def test_what_is_not_replaceable(sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    path = Path(sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS))
    access = os.access
    monkeypatch.setattr(os, "access", lambda at, mode: Path(at) != path and access(at, mode))
    refused("is read-only", sweep.to_zarr, path, overwrite=True)


def test_a_removal_that_was_killed_is_no_foreign_folder(sweep: Sweep, tmp_path: Path) -> None:
    """Of the cube that was replaced: what is left is ours to remove, whichever file went last."""
    path = Path(sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS))
    partial = Path(f"{path}.partial")
    unlink = os.unlink
    for most in range(1, len(contents(path)), 7):
        shutil.copytree(path, partial, dirs_exist_ok=True)
        removed = itertools.count()

        def stopped(*arguments: Any, removed: Any = removed, most: int = most, **at: Any) -> None:
            if next(removed) == most:
                raise SystemError
            unlink(*arguments, **at)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "unlink", stopped)
            with pytest.raises(SystemError):
                cube_module._discard(Folder(partial), Folder(path))
        assert examine(Folder(partial)).is_ours
    other = Sweep({**SCENARIO, "restart_time": 1}, AXES, OUTPUTS)
    other.to_zarr(path, chunks=CHUNKS, overwrite=True)
    assert not partial.exists()
