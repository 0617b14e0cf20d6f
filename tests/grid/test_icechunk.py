"""Cubes in Icechunk repositories: on a disk and on an object store, complete or not on `main`."""

import itertools
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import icechunk
import pytest
import xarray
import zarr

from fleetcube import Sweep, open_cube
from fleetcube.grid.errors import InputError
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.names import JOURNAL, RECORD
from fleetcube.grid.store.places import icechunk as icechunk_store
from fleetcube.grid.store.places.address import place_of
from fleetcube.grid.store.places.icechunk import UNFINISHED, Icechunk
from fleetcube.grid.store.places.wait import wait
from fleetcube.grid.store.verify import verify
from fleetcube.grid.store.writer import Writer

from ..door.command import fleetcube
from . import races
from .common import Patch, refused
from .stores import object_store
from .test_cube import assert_same
from .test_objects import SPEC
from .test_resume import AXES, CHUNKS, OUTPUTS, SCENARIO, blocks_written, contents, stopped_at

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


FIRST_IN_A_FOLDER = pytest.mark.parametrize(
    "url", ["folder", pytest.param("s3", marks=pytest.mark.slow)], indirect=True
)


@pytest.fixture
def sweep() -> Sweep:
    return Sweep(SCENARIO, AXES, OUTPUTS)


def held(url: str) -> dict[str, bytes]:
    place = Icechunk(url)
    return {name: place.read(name) for name in place.sizes()}


def plain(url: str, **version: str) -> Any:
    """Open as a reader without fleetcube."""
    return Icechunk(url)._open().readonly_session(**(version or {"branch": "main"})).store


@pytest.fixture
def stopped(url: str) -> str:
    return str(stopped_at(url))


@pytest.mark.slow
def test_a_repository_holds_the_bytes_of_a_folder(sweep: Sweep, url: str, tmp_path: Path) -> None:
    assert sweep.to_zarr(url, chunks=CHUNKS) == url
    assert held(url) == contents(Path(sweep.to_zarr(tmp_path / "whole.zarr", chunks=CHUNKS)))
    assert_same(sweep.evaluate(), open_cube(url))
    assert_same(sweep.evaluate(), xarray.open_zarr(plain(url), consolidated=False))
    assert verify(url).problems == []
    lazy = pickle.loads(pickle.dumps(open_cube(url, chunks={})))
    assert float(lazy["job_time"].max()) == float(sweep.evaluate()["job_time"].max())
    assert isinstance(place_of(url), Icechunk)


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


def test_an_unfinished_cube_is_not_on_main(stopped: str) -> None:
    refused("its run has not finished", open_cube, stopped)
    with pytest.raises(FileNotFoundError):
        xarray.open_zarr(plain(stopped), consolidated=False)


@FIRST_IN_A_FOLDER
@pytest.mark.parametrize("harm", [False, True])
def test_a_stopped_run_goes_on(
    sweep: Sweep, stopped: str, tmp_path: Path, harm: bool, monkeypatch: Patch
) -> None:
    refused("--resume continues it", sweep.to_zarr, stopped, chunks=CHUNKS)
    with pytest.raises(InputError, match="cannot be continued, because this changed: dtype"):
        sweep.to_zarr(stopped, chunks=CHUNKS, dtype="float32", resume=True)
    if harm:
        partial = Icechunk(stopped, UNFINISHED)
        name = list(examine(partial).blocks.values())[2].files[0][0]
        with partial.one_writer():
            partial.write(name, b"other bytes")
            partial.commit("harm")
    wrote = blocks_written(monkeypatch)
    sweep.to_zarr(stopped, chunks=CHUNKS, resume=True)
    assert len(wrote) == len(examine(Icechunk(stopped)).blocks) - 5 + harm
    assert held(stopped) == contents(Path(sweep.to_zarr(tmp_path / "whole.zarr", chunks=CHUNKS)))


def test_overwriting_keeps_the_older_version(sweep: Sweep, url: str) -> None:
    sweep.to_zarr(url)
    (tag,) = Icechunk(url)._open().list_tags()
    refused("exists; choose another name", sweep.to_zarr, url)
    other = Sweep({}, {"n_gpus": [8]}, ["cluster_mtbf"])
    other.to_zarr(url, overwrite=True)
    assert_same(other.evaluate(), open_cube(url))
    assert_same(sweep.evaluate(), xarray.open_zarr(plain(url, tag=tag), consolidated=False))
    assert Icechunk(url)._open().list_branches() == {"main"}


@FIRST_IN_A_FOLDER
def test_a_damaged_version_is_mended(sweep: Sweep, url: str, monkeypatch: Patch) -> None:
    sweep.to_zarr(url, chunks=CHUNKS)
    whole = held(url)
    session = Icechunk(url)._open().writable_session("main")
    wait(session.store.delete("job_time/c/0/1/2"))
    session.commit("harm")
    assert [problem.split()[0] for problem in verify(url).problems] == ["job_time/c/0/1/2"]
    refused("7 of its 8 chunks are there", open_cube, url)
    wrote = blocks_written(monkeypatch)
    sweep.to_zarr(url, chunks=CHUNKS, resume=True)
    assert (len(wrote), held(url)) == (1, whole)
    monkeypatch.setattr(Writer, "run", lambda *_: pytest.fail("ran again"))
    sweep.to_zarr(url, chunks=CHUNKS, resume=True)


def test_a_second_writer_is_refused(sweep: Sweep, stopped: str) -> None:
    told = f"is being written by process {os.getpid()}"
    with Icechunk(stopped, UNFINISHED).one_writer():
        refused(told, sweep.to_zarr, stopped, chunks=CHUNKS, resume=True)
    sweep.to_zarr(stopped, chunks=CHUNKS, resume=True)


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


def test_the_commands_take_repositories(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    for words in (
        ("run", "spec.toml", "-o", "icechunk://cubes/a"),  # next to it, as a path would be
        ("show", "icechunk://cubes/a"),
        ("verify", "icechunk://cubes/a"),
        ("slice", "icechunk://cubes/a", "n_gpus=512", "gpu_mttf=10000h"),
    ):
        done = fleetcube(*words, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "WARN" not in done.stdout
    assert (tmp_path / "cubes" / "a").is_dir()


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
