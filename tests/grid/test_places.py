"""What every place of cubes keeps: a folder's bytes, nothing half there, damage mended."""

import itertools
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import xarray
import zarr
from zarr.storage import ObjectStore

from fleetcube import Sweep, open_cube
from fleetcube.grid.errors import InputError
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.names import JOURNAL, PARTS
from fleetcube.grid.store.places.address import place_of
from fleetcube.grid.store.places.icechunk import Icechunk
from fleetcube.grid.store.places.objects import Objects
from fleetcube.grid.store.verify import verify
from fleetcube.grid.store.writer import Writer

from ..door.command import fleetcube
from .common import Patch, refused
from .stores import object_store
from .test_cube import assert_same
from .test_resume import AXES, CHUNKS, OUTPUTS, SCENARIO, blocks_written, contents, stopped_at

SPEC = """
outputs = ["job_time", "step_time", "cluster_mtbf"]
[scenario]
model = "llama-3-8b"
node = "dgx-h100"
tensor_parallel = 8
[axes]
n_gpus = { arange = [8, 648, 8] }
gpu_mttf = { linspace = ["10_000 h", "100_000 h"], num = 30 }
fabric = ["infiniband-ndr", "roce-100g"]
"""
_numbers = itertools.count()


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with object_store() as url:
        yield url


KINDS = ["folder", "s3", "icechunk", pytest.param("icechunk+s3", marks=pytest.mark.slow)]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, bucket: str, tmp_path: Path) -> str:
    if request.param in ("folder", "icechunk"):
        return f"{'icechunk://' * (request.param == 'icechunk')}{tmp_path}/a.zarr"
    whole = f"{bucket}/places/{next(_numbers)}.zarr"
    return whole if request.param == "s3" else f"icechunk+{whole}"


@pytest.fixture
def stopped(url: str) -> str:
    return str(stopped_at(url))


@pytest.fixture
def sweep() -> Sweep:
    return Sweep(SCENARIO, AXES, OUTPUTS)


def held(url: str) -> dict[str, bytes]:
    place = place_of(url)
    return {name: place.read(name) for name in place.sizes() or ()}


def plain(url: str, **version: str) -> Any:
    """What a reader that knows nothing of fleetcube opens."""
    place = place_of(url)
    if isinstance(place, Objects):
        return ObjectStore(place.client, read_only=True)
    if isinstance(place, Icechunk):
        return place._open().readonly_session(**(version or {"branch": "main"})).store
    return url


def harm(place: Any, chunk: str, how: str) -> None:
    """Flip a bit of a chunk, remove it, or cut the journal of an unfinished cube."""
    data = bytearray(place.read(chunk))
    data[len(data) // 2] ^= 1
    if isinstance(place, Icechunk):
        place._session = place._open().writable_session(place.branch)
    if how == "journal":
        lines = max(place.sizes(PARTS) or [JOURNAL])
        place.write(lines, place.read(lines)[:-7])
    elif how == "flip":
        place.write(chunk, bytes(data))
    else:
        place.delete(chunk)
    if isinstance(place, Icechunk):
        place._session.commit("harm")
        place._session = None


def test_a_cube_has_a_folders_bytes(sweep: Sweep, url: str, tmp_path: Path) -> None:
    assert str(sweep.to_zarr(url, chunks=CHUNKS)) == url
    assert held(url) == contents(Path(sweep.to_zarr(tmp_path / "whole.zarr", chunks=CHUNKS)))
    truth = sweep.evaluate()
    assert_same(truth, open_cube(url))
    assert_same(truth, xarray.open_zarr(plain(url), consolidated=False))
    assert verify(url).problems == []
    lazy = pickle.loads(pickle.dumps(open_cube(url, chunks={})))
    assert float(lazy["job_time"].max()) == float(truth["job_time"].max())


def test_no_reader_sees_an_unfinished_cube(stopped: str) -> None:
    refused("its run has not finished", open_cube, stopped)
    with pytest.raises(FileNotFoundError):
        xarray.open_zarr(plain(stopped), consolidated=False)
    with pytest.raises(FileNotFoundError):
        zarr.open_array(plain(stopped), path="job_time", mode="r")
    unfinished = place_of(stopped).unfinished()
    assert any(name.startswith("job_time/c/") for name in unfinished.sizes() or ())


@pytest.mark.parametrize("how", [None, "flip", "remove", "journal"])
def test_a_stopped_run_is_continued(
    sweep: Sweep, stopped: str, tmp_path: Path, how: Any, monkeypatch: Patch
) -> None:
    refused("--resume continues it, --overwrite starts over", sweep.to_zarr, stopped, chunks=CHUNKS)
    with pytest.raises(InputError, match="cannot be continued, because this changed: dtype"):
        sweep.to_zarr(stopped, chunks=CHUNKS, dtype="float32", resume=True)
    unfinished = place_of(stopped).unfinished()
    if how == "journal" and isinstance(unfinished, Icechunk):
        pytest.skip("a commit holds a block and its line")
    if how:
        harm(unfinished, list(examine(unfinished).blocks.values())[2].files[0][0], how)
    left = len(examine(unfinished).blocks) - (how in ("flip", "remove"))
    wrote = blocks_written(monkeypatch)
    sweep.to_zarr(stopped, chunks=CHUNKS, resume=True)
    assert len(wrote) == len(examine(place_of(stopped)).blocks) - left
    assert held(stopped) == contents(Path(sweep.to_zarr(tmp_path / "whole.zarr", chunks=CHUNKS)))


@pytest.mark.parametrize("how", ["flip", "remove"])
def test_a_damaged_chunk_is_mended(sweep: Sweep, url: str, how: str, monkeypatch: Patch) -> None:
    sweep.to_zarr(url, chunks=CHUNKS)
    whole = held(url)
    harm(place_of(url), "job_time/c/0/1/2", how)
    assert [problem.split()[0] for problem in verify(url).problems] == ["job_time/c/0/1/2"]
    if how == "remove":
        refused("7 of its 8 chunks are there", open_cube, url)
    wrote = blocks_written(monkeypatch)
    sweep.to_zarr(url, chunks=CHUNKS, resume=True)
    assert (len(wrote), held(url)) == (1, whole)
    monkeypatch.setattr(Writer, "run", lambda *_: pytest.fail("ran again"))
    sweep.to_zarr(url, chunks=CHUNKS, resume=True)


def test_a_second_writer_is_refused(sweep: Sweep, stopped: str) -> None:
    told = f"is being written by process {os.getpid()}"
    with place_of(stopped).unfinished().one_writer():
        for keywords in ({"resume": True}, {"overwrite": True}, {}):
            refused(told, sweep.to_zarr, stopped, chunks=CHUNKS, **keywords)  # type: ignore[arg-type]
    sweep.to_zarr(stopped, chunks=CHUNKS, resume=True)


def test_the_commands_take_it(url: str, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    done = fleetcube("run", "spec.toml", "-o", url, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"wrote {url} (" in done.stdout
    cuts = ("n_gpus=512", "gpu_mttf=10000h")
    for words in (("show", url), ("slice", url, *cuts), ("verify", url)):
        done = fleetcube(*words, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "WARN" not in done.stdout
    assert f"{url} is sound" in done.stdout
