"""Cubes read for tables, without Zarr and xarray: the same as `open_cube` reads."""

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from fleetcube import InputError, Sweep, open_cube
from fleetcube.grid.store.cube import stored_cube

from .common import on_h100
from .test_resume import AXES, CHUNKS, OUTPUTS, SCENARIO

PHASES = [{"name": "first", "training_tokens": 1e11}, {"name": "second", "training_tokens": 1e12}]
CUBES: dict[str, tuple[Any, dict[str, Any]]] = {
    "chunks": (lambda: Sweep(SCENARIO, AXES, OUTPUTS), {"chunks": CHUNKS}),
    "float32": (lambda: Sweep(SCENARIO, AXES, OUTPUTS), {"chunks": CHUNKS, "dtype": "float32"}),
    "one point": (lambda: Sweep(on_h100(n_gpus=64), {}, ["job_time", "memory_per_gpu"]), {}),
    "texts and switches": (
        lambda: Sweep(
            on_h100(n_gpus=64),
            {
                "gated_ffn": [True, False],
                "pair": {"fabric": ["roce-100g", "infiniband-ndr"], "labels": ["Größe", "b"]},
                "tensor_parallel": [1, 2, 4],
            },
            ["job_time", "step_time", "dominant_overhead"],
        ),
        {"chunks": {"tensor_parallel": 2}},
    ),
    "phases": (
        lambda: Sweep(on_h100(n_gpus=64), {"phase": ["first", "second"]}, ["job_time"], PHASES),
        {},
    ),
}


@pytest.fixture(params=CUBES)
def cube(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    sweep, options = CUBES[request.param]
    return Path(sweep().to_zarr(tmp_path / "a.zarr", **options))


def test_a_cube_is_the_same_without_xarray(cube: Path) -> None:
    unread, expected = stored_cube(str(cube)), open_cube(cube).load()
    assert [*unread.data_vars] == [*expected.data_vars]
    assert [*unread.coords] == [*expected.coords]
    assert unread.sizes == dict(expected.sizes)
    xarray.testing.assert_identical(unread.to_xarray(), expected)
    for name, row in unread.variables.items():
        assert row.values.dtype.kind in ("O", expected[name].dtype.kind)


def test_cuts_are_the_same_in_any_order(cube: Path) -> None:
    expected, drawn = open_cube(cube).load(), np.random.default_rng(7)
    for _ in range(20):
        cut = stored_cube(str(cube))
        same = expected
        for dim in drawn.permutation([*expected.dims]):
            size = cut.sizes[dim]
            some = np.sort(drawn.choice(size, max(1, size // 2), replace=False))
            places: Any = [
                int(drawn.integers(size)),
                some,
                some.tolist(),
                slice(None, size // 2 + 1),
            ]
            place = places[drawn.integers(4)]
            cut, same = cut.isel({dim: place}), same.isel({dim: place})
        xarray.testing.assert_identical(cut.to_xarray(), same)


def test_only_chunks_that_are_asked_for_are_read(tmp_path: Path) -> None:
    path = Path(Sweep(SCENARIO, AXES, OUTPUTS).to_zarr(tmp_path / "a.zarr", chunks=CHUNKS))
    cut = stored_cube(str(path)).isel(dict.fromkeys(AXES, 0))
    name = OUTPUTS[0]
    kept = "/".join([name, "c", *"0" * len(AXES)])
    for other in [*path.glob("*/c/**/*")]:
        if other.is_file() and other != path / kept:
            other.unlink()
    assert cut[name].values == Sweep(SCENARIO, AXES, OUTPUTS).evaluate()[name].values.flat[0]


@pytest.mark.parametrize("change", ["bytes", "length", "gone", "pipe"])
def test_a_chunk_that_changed_is_refused(tmp_path: Path, change: str) -> None:
    import os

    path = Path(Sweep(SCENARIO, AXES, OUTPUTS).to_zarr(tmp_path / "a.zarr", chunks=CHUNKS))
    unread, name = stored_cube(str(path)), OUTPUTS[0]
    chunk = next(each for each in sorted((path / name / "c").rglob("*")) if each.is_file())
    data = bytearray(chunk.read_bytes())
    chunk.unlink()
    if change == "bytes":
        data[len(data) // 2] ^= 1
        chunk.write_bytes(data)
    elif change == "length":
        chunk.write_bytes(data + b"0")
    elif change == "pipe":
        os.mkfifo(chunk)
    with pytest.raises(InputError, match=r"the cube is damaged") as error:
        _ = unread[name].values
    assert "\n" not in str(error.value)


def test_what_is_no_cube_is_refused_alike(tmp_path: Path) -> None:
    path = Path(Sweep(SCENARIO, AXES, OUTPUTS).to_zarr(tmp_path / "a.zarr"))
    shutil.copytree(path, tmp_path / "b.zarr")
    (tmp_path / "b.zarr" / OUTPUTS[0] / "zarr.json").write_text("{}")
    shutil.copytree(path, tmp_path / "c.zarr")
    shutil.rmtree(tmp_path / "c.zarr" / OUTPUTS[0] / "c")
    said = []
    for name, read in product(("b.zarr", "c.zarr", "d.zarr"), (open_cube, stored_cube)):
        with pytest.raises(InputError) as error:
            read(str(tmp_path / name))
        said.append(str(error.value))
    assert said[::2] == said[1::2]
