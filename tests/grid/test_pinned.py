"""Readers concurrent with writers: an open cube stays as opened, or fails in one line."""

import functools
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr

from fleetcube import Sweep
from fleetcube.grid.store.cube import open_cube
from fleetcube.presentation.page.view import View

from .common import refused
from .races import CHUNKS, WAYS, WRITERS, answers, beside, read, sweep, truth


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "a.zarr")
    sweep(20).to_zarr(path, chunks=CHUNKS)
    return path


told = functools.partial(refused, ".")  # the message, in one line


@pytest.mark.parametrize("chunks", [None, {}])
def test_an_overwritten_cube_is_not_read_as_the_other(path: str, chunks: Any) -> None:
    cube = open_cube(path, chunks=chunks)
    first = cube["goodput"].isel(gpu_mttf=0).values
    sweep(9).to_zarr(path, overwrite=True, chunks=CHUNKS)
    told(lambda: cube["job_time"].values)
    assert np.array_equal(first, truth(20)["goodput"].isel(gpu_mttf=0))
    xarray.testing.assert_equal(open_cube(path).load(), truth(9))


def test_a_lost_chunk_is_no_number(path: str) -> None:
    cube = open_cube(path)
    next(file for file in (Path(path) / "goodput" / "c").rglob("*") if file.is_file()).unlink()
    assert "is missing" in told(lambda: cube["goodput"].values)
    assert "chunks are there" in told(lambda: open_cube(path))


def test_a_changed_bit_is_named_with_its_file(path: str) -> None:
    cube = open_cube(path)
    files = sorted((Path(path) / "goodput" / "c").rglob("*"))
    file = next(file for file in files if file.is_file())
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    said = told(lambda: cube["goodput"].values)
    assert str(file) in said
    assert "`run --resume` of its sweep repairs it" in said


def test_chunks_that_change_places_are_no_numbers(path: str) -> None:
    """Each has a valid checksum, but is another chunk or from an earlier cube."""
    one, other = sorted((Path(path) / "goodput" / "c").rglob("[0-9]/[0-9]"))[:2]
    data = one.read_bytes(), other.read_bytes()
    one.write_bytes(data[1])
    other.write_bytes(data[0])
    cube = open_cube(path)
    told = refused(
        "does not match its checksum: the cube is damaged", lambda: cube["goodput"].values
    )
    assert "since" not in told  # it was so before
    plain = zarr.open_group(path, mode="r")["goodput"][...]  # see the warning in cubes.md
    assert not np.array_equal(plain, truth(20)["goodput"])


def test_an_appended_cube_goes_on_being_read(path: str) -> None:
    cube = open_cube(path)
    more = sweep(20).spec
    axes = {**more["axes"], "n_gpus": [*more["axes"]["n_gpus"], 4096]}
    Sweep(more["scenario"], axes, more["outputs"]).to_zarr(path, append=True)
    xarray.testing.assert_equal(cube["goodput"].load(), truth(20)["goodput"])
    assert open_cube(path).sizes["n_gpus"] == 4


def test_a_pickled_cube_is_pinned_too(path: str) -> None:
    cube = pickle.loads(pickle.dumps(open_cube(path, chunks={})))
    sweep(9).to_zarr(path, overwrite=True, chunks=CHUNKS)
    told(lambda: cube["job_time"].values)


def test_a_changed_coordinate_is_an_error_in_every_reader(path: str) -> None:
    names = [str(name) for name in open_cube(path).coords]
    assert {"n_gpus", "gpu_mttf", "layout"} <= set(names)
    for name in names:
        for file in sorted(file for file in (Path(path) / name / "c").rglob("*") if file.is_file()):
            data = file.read_bytes()
            for at in range(len(data)):
                harmed = bytearray(data)
                harmed[at] ^= 1 << at % 8
                file.write_bytes(harmed)
                with pytest.raises((ValueError, RuntimeError)):
                    zarr.open_group(path, mode="r")[name][...]
            file.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_no_read_beside_a_writer_is_wrong(path: str, writer: str) -> None:
    """Two cubes alternate in one place: a read gives one of them, whole, or a one-line error."""
    for how in WAYS:
        answers(how)  # while nobody writes
    with beside(path, writer):
        outcomes = {read(path, how) for how in WAYS for _ in range(3)}
    assert "wrong" not in outcomes
    assert outcomes & {"first", "second"}


def test_the_explorer_says_that_its_cube_changed(path: str) -> None:
    view = View.open(path)
    shutil.rmtree(path)
    sweep(9).to_zarr(path, chunks=CHUNKS)
    assert "restart `fleetcube explore`" in told(lambda: view.slice("variable=goodput&x=n_gpus"))
