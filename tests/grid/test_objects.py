"""Cubes on an object store: the bytes of a folder's, never half there, one writer at a time."""

import contextlib
import http.server
import itertools
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from fleetcube import Settings, Sweep, open_cube
from fleetcube.grid.errors import InputError
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.names import JOURNAL, LOCK, PARTS, PLAN, ROOT, SEAL
from fleetcube.grid.store.places import objects
from fleetcube.grid.store.places.address import place_of
from fleetcube.grid.store.places.objects import Objects
from fleetcube.grid.store.places.place import Folder
from fleetcube.grid.store.verify import verify

from ..door.command import fleetcube
from .common import Patch, cases, refused
from .proxy import KINDS, Faults, proxy
from .stores import object_store, reached, served
from .test_cube import assert_same
from .test_places import SPEC, held, plain
from .test_resume import (
    AXES,
    CHUNKS,
    OUTPUTS,
    SCENARIO,
    blocks_written,
    contents,
    disk_full,
    stop_after,
    stopped_at,
)

_numbers = itertools.count()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with object_store() as url:
        yield url


@pytest.fixture
def url(bucket: str) -> str:
    return f"{bucket}/cubes/{next(_numbers)}.zarr"


@pytest.fixture
def sweep() -> Sweep:
    return Sweep(SCENARIO, AXES, OUTPUTS)


@pytest.fixture
def stopped(url: str) -> str:
    return str(stopped_at(url))


@pytest.mark.parametrize("outputs", [["mfu"], ["mfu", "goodput"]])
def test_cubes_in_memory_and_of_single_points(outputs: list[str]) -> None:
    url = f"memory://{next(_numbers)}/a.zarr"
    training = {**SCENARIO, "n_gpus": 64, "fabric": "infiniband-ndr", "gpu_mttf": 1e8}
    point = Sweep(training, {}, outputs)
    point.to_zarr(url)
    assert_same(point.evaluate(), open_cube(url))
    assert verify(url).problems == []


@pytest.mark.slow
def test_a_cube_in_a_folder_is_read_over_http(sweep: Sweep, tmp_path: Path) -> None:
    sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS)

    class Static(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path))

        def log_message(self, *_: Any) -> None:
            pass

    with serving(Static) as endpoint:
        url = f"{endpoint}/a.zarr"
        assert_same(sweep.evaluate(), open_cube(url))
        assert verify(url, samples=2).problems == []
        refused("can only be read", sweep.to_zarr, url, overwrite=True)
        refused("there is no cube", open_cube, f"{endpoint}/b.zarr")
        (tmp_path / "a.zarr/job_time/c/0/1/2").unlink()
        refused("job_time/c/0/1/2' is missing", lambda: open_cube(url)["job_time"].load())


@contextmanager
def serving(handler: type[http.server.BaseHTTPRequestHandler]) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_no_reader_is_misled_by_what_is_missing(sweep: Sweep, url: str, monkeypatch: Patch) -> None:
    """After each write of a sealing, an array that opens has its values, and the root is last."""
    seen: list[str] = []
    write = Objects.write
    truth = sweep.evaluate()

    def watched(self: Objects, name: str, data: Any) -> None:
        names = Objects(url).sizes() or ()
        assert ROOT not in names
        for array in (name for name in names if name.endswith("/zarr.json") and name[0] != "."):
            stored: Any = zarr.open_array(plain(url), path=array[: -len("/zarr.json")], mode="r")
            np.testing.assert_array_equal(stored[...], truth[stored.path].values)
        seen.append(name)
        write(self, name, data)

    monkeypatch.setattr(Objects, "write", watched)
    sweep.to_zarr(url, settings=Settings(threads=1))
    assert seen[-1] == ROOT
    assert seen.index(SEAL) < min(k for k, n in enumerate(seen) if n.endswith("zarr.json"))


def test_only_cubes_are_overwritten_root_first(sweep: Sweep, url: str, monkeypatch: Patch) -> None:
    Objects(url).write("notes.txt", b"keep me")
    for keywords in ({"overwrite": True}, {"resume": True}):
        refused("is not a cube and is not overwritten", sweep.to_zarr, url, **keywords)
    refused("exists; choose another name", sweep.to_zarr, url)
    assert held(url) == {"notes.txt": b"keep me"}
    Objects(url).delete("notes.txt")
    sweep.to_zarr(url)
    refused("exists; choose another name or use --overwrite", sweep.to_zarr, url)
    refused("lies in the cube", sweep.to_zarr, f"{url}/inner/b.zarr")
    remove = Objects.remove

    def watched(self: Objects, names: set[str]) -> None:
        assert ROOT not in held(url)
        remove(self, names)

    monkeypatch.setattr(Objects, "remove", watched)
    Sweep({}, {"n_gpus": [8]}, ["cluster_mtbf"]).to_zarr(url, overwrite=True)
    assert list(open_cube(url).data_vars) == ["cluster_mtbf"]


def test_overwriting_goes_in_a_safe_order(sweep: Sweep, url: str, monkeypatch: Patch) -> None:
    sweep.to_zarr(url, chunks=CHUNKS)
    gone: list[list[str]] = []
    monkeypatch.setattr(
        type(Objects(url).client), "delete", lambda _, names: gone.append(names), raising=True
    )
    Objects(url).remove(set(held(url)) - {LOCK})
    root, metadata, chunks, record = gone
    assert (root, {name.rpartition("/")[2] for name in metadata}) == ([ROOT], {"zarr.json"})
    assert ({name.split("/")[1] for name in chunks}, record) == ({"c"}, [JOURNAL, PLAN, SEAL])


def taken_from(first: Objects, monkeypatch: Patch) -> Any:
    """The lock of another writer, to whom that of the first is stale: of two, one has it."""
    monkeypatch.setattr(objects, "STALE_SECONDS", -10.0)
    second = objects._Lease(Objects(first.url), LOCK)
    monkeypatch.setattr(objects, "STALE_SECONDS", 60.0)
    assert first._lease is not None
    assert not first._lease._write(first._lease._written)
    return second


def renewed(place: Objects) -> None:
    """Wait until a lock was renewed three times, and have its thread end."""
    end = time.monotonic() + 600
    while json.loads(place.read(LOCK))["count"] < 3 and time.monotonic() < end:
        time.sleep(0.02)
    assert json.loads(place.read(LOCK))["count"] >= 3
    assert place._lease is not None
    place._lease._ended.set()
    place._lease._thread.join()


def test_a_second_writer_awaits_staleness(sweep: Sweep, stopped: str, monkeypatch: Patch) -> None:
    first = Objects(stopped)
    with first.one_writer():
        for keywords in ({"resume": True}, {"overwrite": True}, {}):
            told = rf"process {os.getpid()} on .* renewed its lock \d+ s ago; .* counts for 60 s"
            refused(told, sweep.to_zarr, stopped, chunks=CHUNKS, **keywords)  # type: ignore[arg-type]
        second = taken_from(first, monkeypatch)
        assert first._lease is not None
        second.check()
        second.release()
        first._lease._lost = "another writer took it"
        with pytest.raises(ConnectionError, match="the lock was lost"):
            first.write("job_time/c/9", b"late")
    sweep.to_zarr(stopped, chunks=CHUNKS, resume=True)


def test_a_lock_that_cannot_be_renewed_ends_the_writing(url: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(objects, "RENEW_SECONDS", 0.05)
    place = Objects(url)
    with place.one_writer():
        renewed(place)
        monkeypatch.setattr(objects, "STALE_SECONDS", 0.0)
        with pytest.raises(ConnectionError, match="could not be renewed"):
            place.write("x", b"")


def test_a_lock_that_goes_while_it_is_asked_for_is_taken(url: str, monkeypatch: Patch) -> None:
    look = objects._Lease._look
    with Objects(url).one_writer():

        def gone(self: Any) -> Any:
            Objects(url).delete(LOCK)
            return look(self)

        monkeypatch.setattr(objects._Lease, "_look", gone)
        with Objects(url).one_writer():
            Objects(url).write("a", b"")


@pytest.mark.slow
def test_a_killed_run_gives_the_same_bytes(url: str, tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    script = "from fleetcube.grid.store.places import objects; objects.BATCH_SECONDS = 0.1; "
    script += "from fleetcube.__main__ import main; main()"
    chunks = ("--chunks", "n_gpus=4,gpu_mttf=6")
    run = [sys.executable, "-c", script, "run", "spec.toml", "-o", url, *chunks]
    running = subprocess.Popen(run, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    place = Objects(url)
    end = time.monotonic() + 600
    while len(place.sizes(PARTS) or ()) < 2 and time.monotonic() < end:
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    running.kill()
    running.communicate(timeout=600)
    done = len(examine(place).blocks)
    assert done > 0
    assert ROOT not in held(url)
    sweep = Sweep.from_file(tmp_path / "spec.toml")
    sizes = {"n_gpus": 4, "gpu_mttf": 6}
    refused("is being written by process", sweep.to_zarr, url, chunks=sizes, resume=True)
    monkeypatch.setattr(objects, "STALE_SECONDS", 1.5)
    monkeypatch.setattr(objects, "RENEW_SECONDS", 0.2)
    time.sleep(2.6)  # the store tells whole seconds
    with monkeypatch.context() as patch:
        wrote = blocks_written(patch)
        sweep.to_zarr(url, chunks=sizes, resume=True)
    assert len(wrote) == len(examine(place).blocks) - done
    assert held(url) == contents(Path(sweep.to_zarr(tmp_path / "a.zarr", chunks=sizes)))


@pytest.mark.parametrize("words", [("run", "spec.toml", "-o"), ("show",), ("verify",)])
def test_what_cannot_be_reached_is_one_line(bucket: str, tmp_path: Path, words: Any) -> None:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    for url, environment, told in [
        ("s3://nowhere/a.zarr", {}, "there is no bucket 'nowhere'; create it"),
        (f"{bucket}/a.zarr", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "there is no answer"),
        (f"{bucket}/a.zarr", {"AWS_ALLOW_HTTP": "false"}, "set AWS_ALLOW_HTTP=true"),
        ("s3://bucket", {}, "names no cube"),
        ("ftp://bucket/a.zarr", {}, "use s3://, gs://, az://"),
        (f"{bucket}/none.zarr", {}, None if words[0] == "run" else "there is no cube"),
    ]:
        if told is None:
            continue
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            done = fleetcube(*words, url, folder=tmp_path)
        assert done.returncode in (1, 2)
        assert told in done.stderr
        assert done.stderr.startswith("fleetcube: ")
        assert done.stderr.count("\n") == 1


def test_refused_access_is_one_line(bucket: str, sweep: Sweep, monkeypatch: Patch) -> None:
    class Refusing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    with serving(Refusing) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        for ask in (open_cube, sweep.to_zarr):
            with pytest.raises(ConnectionError, match="access was refused"):
                ask(f"{bucket}/a.zarr")


def test_cubes_open_with_few_requests(sweep: Sweep, url: str, caplog: Any) -> None:
    """Each file beside the chunks is read once, and the chunks are listed once."""
    sweep.to_zarr(url, chunks=CHUNKS)
    sealed = examine(Objects(url)).sealed
    assert sealed is not None
    with caplog.at_level("INFO", "werkzeug"):
        caplog.clear()
        cube = open_cube(url)
        asked = [record.getMessage() for record in caplog.records]
        assert sum("list-type" in line for line in asked) == 1
        assert len(asked) == len(sealed) + 2  # and the seal, and a list
        caplog.clear()
        cube["job_time"].drop_vars("infeasible_reason").isel(n_gpus=0, gpu_mttf=0).load()
        assert len(caplog.records) == 1


def test_a_place_is_as_one_wrote_it(tmp_path: Path) -> None:
    assert place_of(tmp_path) == Folder(tmp_path)
    place = Objects("s3://bucket/a.zarr")
    assert pickle.loads(pickle.dumps(place)) == place  # sent to workers
    assert str(place_of("s3://bucket/a.zarr/")) == "s3://bucket/a.zarr"


@pytest.fixture(scope="module")
def _behind() -> Iterator[tuple[int, Faults]]:
    with served("moto") as port, proxy(port) as served_to:
        yield served_to


@pytest.fixture
def between(_behind: tuple[int, Faults]) -> Iterator[tuple[str, Faults]]:
    """A place in a bucket behind a proxy, and what that does amiss."""
    port, faults = _behind
    with reached(port) as bucket:
        yield f"{bucket}/{next(_numbers)}.zarr", faults


def _ignoring(name: str) -> Any:
    def change(method: str, headers: dict[str, str]) -> int | None:
        if method == "PUT":
            headers.pop(name, None)
        return None

    return change


def _refusing(method: str, headers: dict[str, str]) -> int | None:
    return 501 if method == "PUT" and "if-match" in headers else None


@cases(
    "change, told",
    (_ignoring("if-none-match"), "it ignores If-None-Match"),
    (_ignoring("if-match"), "it ignores If-Match"),
    (_refusing, "it has not implemented them"),
)
def test_a_store_without_conditional_writes_is_refused(
    between: Any, sweep: Sweep, change: Any, told: str, tmp_path: Path
) -> None:
    url, faults = between
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "change", change)
        refused(f"no conditional writes .{told}.* write to a folder", sweep.to_zarr, url)
        assert not examine(Objects(url)).exists
        sweep.to_zarr(tmp_path / "a.zarr")
        for name, data in contents(tmp_path / "a.zarr").items():
            Objects(url).write(name, data)
        assert_same(sweep.evaluate(), open_cube(url))


def test_a_lock_of_tags_without_quotes(between: tuple[str, Faults], monkeypatch: Patch) -> None:
    """As in Ceph 16: a condition with the quotes that the standard wants never holds."""

    def change(method: str, headers: dict[str, str]) -> int | None:
        tag = headers.get("if-match", "")
        if method == "PUT" and tag:
            headers["if-match"] = f'"not {tag}"' if tag.startswith('"') else f'"{tag}"'
        return None

    url, faults = between
    monkeypatch.setattr(faults, "change", change)
    monkeypatch.setattr(objects, "RENEW_SECONDS", 0.05)
    place = Objects(url)
    with place.one_writer():
        renewed(place)
        taken_from(place, monkeypatch).release()


@pytest.mark.slow
def test_a_lock_outlives_lost_answers(between: tuple[str, Faults], monkeypatch: Patch) -> None:
    """What was written, and its answer lost, is asked for again: the lock is ours all the same."""
    url, faults = between
    monkeypatch.setattr(faults, "kinds", ("unanswered", "503"))
    monkeypatch.setattr(faults, "rate", 0.3)
    held = 0
    for number in range(4):
        place = Objects(f"{url}.{number}.zarr")
        with contextlib.suppress(OSError), place.one_writer():
            assert place._lease is not None
            held += place._lease._write(place._lease._written)
    assert held > 0


@pytest.mark.slow
def test_a_stale_list_hides(between: Any, sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    """Blocks of a run that was stopped are there, and no list has them, when it is overwritten."""
    url, _ = between
    other = Sweep({**SCENARIO, "restart_time": 700.0}, AXES, OUTPUTS)
    for begun, how, stale in ((sweep, {}, False), (other, {"overwrite": True}, True)):
        with monkeypatch.context() as patch:
            stop_after(5 if begun is sweep else 1, disk_full, patch)
            if stale:
                patch.setattr(Objects, "_list", lambda *_: iter(()))
            with pytest.raises(OSError, match="No space left"):
                begun.to_zarr(url, chunks=CHUNKS, settings=Settings(threads=1), **how)
    assert len(Objects(url).sizes(PARTS) or ()) == 2
    other.to_zarr(url, chunks=CHUNKS, resume=True)
    assert held(url) == contents(Path(other.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS)))


@pytest.mark.slow
def test_cubes_are_read_through_faults(between: Any, sweep: Sweep, monkeypatch: Patch) -> None:
    url, faults = between
    sweep.to_zarr(url)
    truth, told = sweep.evaluate(), list[str]()
    for kind in KINDS:
        with monkeypatch.context() as patch:
            patch.setattr(faults, "kinds", (kind,))
            patch.setattr(faults, "rate", 0.1)
            try:
                assert_same(truth, open_cube(url))
            except (InputError, OSError) as error:
                told.append(str(error))
    assert len(told) < len(KINDS)
    assert all("\n" not in text for text in told)
