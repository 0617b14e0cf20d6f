"""Cubes in Icechunk repositories: on a disk and on an object store, complete or not on `main`."""

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import icechunk
import pytest
import xarray
import zarr

from fleetcube import Sweep, open_cube
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.names import JOURNAL, RECORD
from fleetcube.grid.store.places import icechunk as icechunk_store
from fleetcube.grid.store.places.icechunk import UNFINISHED, Icechunk
from fleetcube.grid.store.places.wait import wait

from . import races
from .common import Patch, refused
from .stores import object_store
from .test_cube import assert_same
from .test_places import SPEC, held, plain
from .test_resume import AXES, OUTPUTS, SCENARIO, blocks_written, contents, stopped_at

_numbers = itertools.count()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with object_store() as url:
        yield url


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, bucket: str, tmp_path: Path) -> str:
    if request.param == "folder":
        return f"icechunk://{tmp_path}/a"
    return f"icechunk+{bucket}/ice/{next(_numbers)}"


@pytest.fixture
def sweep() -> Sweep:
    return Sweep(SCENARIO, AXES, OUTPUTS)


@pytest.fixture
def stopped(url: str) -> str:
    return str(stopped_at(url))


def test_record_files_are_arrays_as_long(sweep: Sweep, stopped: str, tmp_path: Path) -> None:
    """Neither a zarr reader nor Icechunk finds a chunk that does not fit its array."""
    partial = Icechunk(stopped, UNFINISHED)
    session = partial._open().readonly_session(UNFINISHED)
    with partial.one_writer():
        for name in ("plan", "journal", "parts-0"):
            array = zarr.open_array(session.store, path=f".fleetcube/{name}", mode="r")
            assert array[:].tobytes() == partial.read(f"{RECORD}/{name.replace('-', '/')}")
            assert array.nchunks_initialized == (array.size > 0)
        for data in (b"longer than the next", b"short", b"", b"again"):
            partial.write(JOURNAL, data)
            assert partial.read(JOURNAL) == data
        partial.delete(JOURNAL)
        with pytest.raises(FileNotFoundError):
            partial.read(JOURNAL)


def test_overwriting_keeps_the_older_version(sweep: Sweep, url: str) -> None:
    sweep.to_zarr(url)
    (tag,) = Icechunk(url)._open().list_tags()
    refused("exists; choose another name", sweep.to_zarr, url)
    other = Sweep({}, {"n_gpus": [8]}, ["cluster_mtbf"])
    other.to_zarr(url, overwrite=True)
    assert_same(other.evaluate(), open_cube(url))
    assert_same(sweep.evaluate(), xarray.open_zarr(plain(url, tag=tag), consolidated=False))
    assert Icechunk(url)._open().list_branches() == {"main"}


def test_of_two_who_commit_one_fails(stopped: str) -> None:
    """As when a lock was taken from a writer that was only slow."""
    slow = Icechunk(stopped, UNFINISHED)
    with slow.one_writer():
        other = slow._repository.writable_session(UNFINISHED)
        slow.delete(JOURNAL)
        slow.write(JOURNAL, b"of the slow one")
        wait(other.store.delete(f"{icechunk_store._array(JOURNAL)}/zarr.json"))
        other.commit("faster")
        with pytest.raises(ConnectionError, match="was written by another process"):
            slow.commit("slower")


def test_what_is_not_ours_is_left_alone(sweep: Sweep, url: str, tmp_path: Path) -> None:
    refused("there is no cube", open_cube, url)
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(f"{tmp_path}/b"))
    session = repository.writable_session("main")
    zarr.create_group(session.store)
    session.commit("something else")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "notes").write_text("keep me", encoding="utf-8")
    for name in "bc":
        for keywords in ({"overwrite": True}, {"resume": True}):
            place = f"icechunk://{tmp_path}/{name}"
            refused("is not a cube and is not overwritten", sweep.to_zarr, place, **keywords)
    refused("use icechunk:///folder or", open_cube, "icechunk+ftp://a/b")


KILLED = """
import os, signal
from fleetcube.__main__ import main
from fleetcube.grid.store.places import icechunk
commit, messages = icechunk.Icechunk.commit, []
def killed(place, message):
    commit(place, message)
    messages.append(message)
    if len(messages) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
icechunk.Icechunk.commit, icechunk.COMMIT_SECONDS = killed, 0.0
main()
"""


def test_newer_formats_are_refused(sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    """As Icechunk 1 refuses repositories of Icechunk 2."""
    monkeypatch.setattr(icechunk.Repository, "exists", lambda *_: False)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "repo").touch()
    for use in (open_cube, sweep.to_zarr):
        refused("does not know; use Icechunk 2", use, f"icechunk://{tmp_path}/a")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["repo"]


@pytest.mark.slow
def test_a_killed_run_is_continued(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    url = f"icechunk://{tmp_path}/a"
    chunks = ("--chunks", "n_gpus=4,gpu_mttf=6")
    run = [sys.executable, "-c", KILLED, "run", "spec.toml", "-o", url, *chunks]
    running = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert running.returncode == -signal.SIGKILL, running.stderr
    done = len(examine(Icechunk(url, UNFINISHED)).blocks)
    sweep = Sweep.from_file(tmp_path / "spec.toml")
    sizes = {"n_gpus": 4, "gpu_mttf": 6}
    monkeypatch.setattr(icechunk_store, "COMMIT_SECONDS", 0.05)  # commits amid the writing
    with monkeypatch.context() as patch:
        wrote = blocks_written(patch)
        sweep.to_zarr(url, chunks=sizes, resume=True)
    assert 0 < done == len(examine(Icechunk(url)).blocks) - len(wrote)
    assert held(url) == contents(Path(sweep.to_zarr(tmp_path / "whole.zarr", chunks=sizes)))


@pytest.mark.slow
def test_no_damaged_object_is_another_number(tmp_path: Path) -> None:
    """Every file of a repository on disk: lost, truncated, and with one bit flipped."""
    url = f"icechunk://{tmp_path}/a"
    races.sweep(300).to_zarr(url)
    whole, good = held(url), races.answer(url, "eagerly")
    lost: list[Path] = []  # files of chunks, not of the record
    for file in sorted(file for file in (tmp_path / "a").rglob("*") if file.is_file()):
        data = file.read_bytes()
        for harmed in (None, data[: len(data) // 2], bytes([*data[:-1], data[-1] ^ 16])):
            if harmed is None:
                file.unlink()
            else:
                file.write_bytes(harmed)
            try:
                assert races.answer(url, "eagerly") == good
                said = ""
            except (ValueError, OSError) as error:
                said = str(error)
            assert "\n" not in said
            if harmed is None and "/c/" in said:
                lost.append(file)
            file.write_bytes(data)
    assert lost
    for file in lost:
        file.unlink()
    races.sweep(300).to_zarr(url, resume=True)
    assert held(url) == whole
