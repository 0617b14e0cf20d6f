"""A cube is plain Zarr v3: readers without fleetcube read the same numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import xarray

from fleetcube import Sweep, open_cube

from .test_resume import AXES, CHUNKS, OUTPUTS, SCENARIO


@pytest.fixture(params=["float64", "float32"])
def cube(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    sweep = Sweep(SCENARIO, AXES, OUTPUTS)
    return sweep.to_zarr(tmp_path / "a.zarr", chunks=CHUNKS, dtype=request.param)


def read(path: Path) -> Any:
    store = {"driver": "file", "path": str(path)}
    return tensorstore.open({"driver": "zarr3", "kvstore": store}).result()


def test_tensorstore_reads_every_number(cube: Path) -> None:
    expected = open_cube(cube)
    for name in [*OUTPUTS, "infeasible_reason", "n_gpus", "gpu_mttf"]:
        array = read(cube / name)
        assert array.domain.labels == expected[name].dims
        assert array.dtype.numpy_dtype == expected[name].dtype
        assert np.array_equal(array.read().result(), expected[name].values)


def test_tensorstore_refuses_a_changed_chunk(cube: Path) -> None:
    chunk = cube / "job_time/c/0/1/2"
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(ValueError, match=r"Digest mismatch"):
        read(cube / "job_time").read().result()


def test_plain_xarray_reads_dimensions_coordinates_and_units(cube: Path) -> None:
    plain = xarray.open_zarr(cube, consolidated=False, chunks=None)
    xarray.testing.assert_identical(plain.load(), open_cube(cube).load())
    assert plain["job_time"].dims == tuple(AXES)
    assert list(plain["fabric"].values) == AXES["fabric"]
    assert plain["job_time"].attrs["units"] == "s"
    assert plain["gpu_mttf"].values[0] == 10_000 * 3600
    held = json.loads(plain.attrs["fleetcube_spec"])
    assert held["scenario"] == SCENARIO | {"calibration": "auto"}  # which was found


def test_every_stored_array_is_zarr_version_3(cube: Path) -> None:
    for name in [*OUTPUTS, *AXES]:
        meta = json.loads((cube / name / "zarr.json").read_text(encoding="utf-8"))
        assert (meta["zarr_format"], meta["node_type"]) == (3, "array")
        assert len(meta["dimension_names"]) == len(meta["shape"])
