"""Links planted in an unfinished cube: nothing outside it is written."""

import os
from pathlib import Path
from typing import Any

import pytest

from fleetcube import InputError, Settings, Sweep
from fleetcube.grid.store.names import JOURNAL, LOCK, PLAN, RECORD

from .common import refused
from .races import CHUNKS, sweep
from .test_resume import contents, disk_full, stop_after

HELD = b"what is not ours"


@pytest.fixture
def victims(tmp_path: Path) -> Path:
    folder = tmp_path / "victims"
    for name in ("file", "c/0/0", "record/lock", "record/plan", "zarr.json"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(HELD)
    return folder


@pytest.fixture
def asked() -> Sweep:
    return sweep(20)


# What is replaced by a link, and the link's target
PLANTED = {"the folder": ("", ""), "the lock": (LOCK, "file"), "the journal": (JOURNAL, "file")}
PLANTED |= {"the record": (RECORD, "record"), "an array": ("goodput", "")}
PLANTED |= {"its chunks": ("goodput/c", "c"), "a chunk": ("goodput/c/0/0", "file")}
PLANTED |= {"metadata": ("job_time/zarr.json", "zarr.json"), "the root": ("zarr.json", "zarr.json")}


@pytest.mark.parametrize("again", ["resume", "overwrite"])
@pytest.mark.parametrize("what", PLANTED)
def test_no_link_counts(tmp_path: Path, victims: Path, what: str, again: str, asked: Any) -> None:
    path = tmp_path / "a.zarr"
    with pytest.MonkeyPatch.context() as patch:
        stop_after(3, disk_full, patch)
        with pytest.raises(OSError, match="finished blocks are kept"):
            asked.to_zarr(path, chunks=CHUNKS, settings=Settings(threads=1))
    name, target = PLANTED[what]
    place = path.with_name("a.zarr.partial") / name
    if place.exists():
        place.rename(tmp_path / "aside")
    place.parent.mkdir(parents=True, exist_ok=True)
    Path(str(place).rstrip("/")).symlink_to(victims / target)
    before = contents(victims)
    said = ""
    try:
        asked.to_zarr(path, chunks=CHUNKS, **{again: True})
    except (InputError, OSError) as error:
        said = str(error)
    assert "\n" not in said
    assert path.exists() == (not said)
    if path.exists():
        assert contents(path) == contents(asked.to_zarr(tmp_path / "whole.zarr", chunks=CHUNKS))
        assert not [file for file in path.rglob("*") if file.is_symlink()]
    assert (contents(victims), set(before.values())) == (before, {HELD})


def test_a_linked_place_is_one_place(tmp_path: Path, asked: Sweep) -> None:
    """Users may link to the folder of their cubes."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "cubes").symlink_to("disk")
    path = asked.to_zarr(tmp_path / "cubes" / "a.zarr", chunks=CHUNKS)
    assert contents(path) == contents(asked.to_zarr(tmp_path / "b.zarr", chunks=CHUNKS))


@pytest.mark.parametrize("mode", [{}, {"overwrite": True}])
def test_a_link_in_the_place_of_a_cube_stays(tmp_path: Path, asked: Sweep, mode: Any) -> None:
    """A rename removes the link, and leaves its target unchanged."""
    (tmp_path / "disk").mkdir()
    if mode:
        sweep(9).to_zarr(tmp_path / "disk" / "a.zarr", chunks=CHUNKS)
    (tmp_path / "a.zarr").symlink_to("disk/a.zarr")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"is a link to .*/disk/a.zarr'; write to that"):
        asked.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS, **mode)
    assert contents(tmp_path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_folder_of_another_user_is_refused(tmp_path: Path, asked: Sweep) -> None:
    partial = tmp_path / "a.zarr.partial"
    (partial / RECORD).mkdir(parents=True)
    (partial / PLAN).write_bytes(b"")
    os.chown(partial, 12345, 12345)
    refused("belongs to another user", asked.to_zarr, tmp_path / "a.zarr", overwrite=True)
    assert set(contents(partial)) == {PLAN}
