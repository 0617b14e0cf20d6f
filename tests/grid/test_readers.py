"""A cube is plain Zarr v3: readers without fleetcube read the same numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import xarray

from docs.make.readers import PAGE, page
from fleetcube import Settings, Sweep, open_cube
from fleetcube.grid.spec.values import DType
from fleetcube.grid.store.chunks import Compressor
from fleetcube.grid.store.verify import verify
from tests.readers import READERS, RESULTS, cubes, expected, found

from .common import Patch, refused
from .test_append import GROWN
from .test_resume import AXES, CHUNKS, OUTPUTS, SCENARIO, contents, disk_full, stop_after

Made = tuple[DType, Compressor]


@pytest.fixture(params=[("float64", "lz4"), ("float32", "lz4"), ("float64", "zstd")])
def cube(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    made: Made = request.param
    how: Any = dict(zip(("dtype", "compressor"), made, strict=True))
    return Path(Sweep(SCENARIO, AXES, OUTPUTS).to_zarr(tmp_path / "a.zarr", chunks=CHUNKS, **how))


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
    with pytest.raises(ValueError, match=r"Digest mismatch|match checksum"):
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


INSTALLED = ["zarr", "tensorstore", "icechunk", "xarray", "netcdf"]


@pytest.mark.parametrize("name", INSTALLED)
def test_readers_installed_here_read_what_the_table_says(name: str, tmp_path: Path) -> None:
    """As `python -m tests.readers` finds them, each in an environment of its own."""
    reader = READERS[name]
    pytest.importorskip({"netcdf": "netCDF4"}.get(name, name))
    scope: dict[str, Any] = {}
    exec(compile(reader.code, name, "exec"), scope)
    paths = cubes(tmp_path, {"lz4", *reader.places})
    values = expected(paths["lz4"])

    def told(path: Path, each: str) -> Any:
        try:
            got = np.asarray(scope["read"](str(path), each)).reshape(-1).tolist()
            return [v if isinstance(v, str) else float(v).hex() for v in got]
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    read = {(place, each): told(path, each) for place, path in paths.items() for each in values}
    held = json.loads(RESULTS.read_text(encoding="utf-8"))[name]["places"]
    for place in reader.places:
        words = found(read, place, values)
        assert words == held[place] or (words[0] not in ("numbers", "texts") and name == "netcdf")


def test_the_page_has_what_readers_read() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), f"run `python -m docs.make {PAGE.name}`"


def test_a_cube_of_zstd_is_as_safe_as_another(tmp_path: Path, monkeypatch: Patch) -> None:
    """Stopped and resumed to the same bytes, appended to, each changed byte found, and mended."""
    sweep = Sweep(SCENARIO, AXES, OUTPUTS, settings=Settings("numpy"))
    how: Any = {"compressor": "zstd", "chunks": CHUNKS}
    whole = contents(Path(sweep.to_zarr(tmp_path / "whole.zarr", **how)))
    path = tmp_path / "a.zarr"
    stop_after(5, disk_full, monkeypatch)
    with pytest.raises(OSError, match="finished blocks are kept"):
        sweep.to_zarr(path, **how)
    monkeypatch.undo()
    sweep.to_zarr(path, resume=True, **how)
    assert contents(path) == whole
    chunk = path / "job_time/c/0/1/2"
    for place in (0, 9, len(whole["job_time/c/0/1/2"]) - 1):
        data = bytearray(whole["job_time/c/0/1/2"])
        data[place] ^= 1
        chunk.write_bytes(data)
        assert "does not match its checksum" in "".join(verify(path).problems)
        refused("job_time", lambda: open_cube(path).load())
    refused("compressor", sweep.to_zarr, path, resume=True, chunks=CHUNKS)
    sweep.to_zarr(path, resume=True, **how)
    assert contents(path) == whole
    grown = Sweep(SCENARIO, GROWN, OUTPUTS, settings=Settings("numpy"))
    refused("compressor", grown.to_zarr, path, append=True)
    grown.to_zarr(path, append=True, compressor="zstd")
    values = grown.evaluate()
    for name in OUTPUTS:
        assert np.array_equal(open_cube(path)[name], values[name])
    assert verify(path).problems == []
    refused("compressor = 'lzma' is unknown", sweep.to_zarr, path, compressor="lzma")
