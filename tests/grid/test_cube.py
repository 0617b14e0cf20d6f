"""Cubes on disk: stored content, completeness, and refusal of bad targets."""

import errno
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
import zarr

from fleetcube import Settings, Sweep, open_cube
from fleetcube.grid.errors import InputError
from fleetcube.grid.store import writer as writer_module
from fleetcube.grid.store.cube import damage, in_order
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.places.place import Folder
from fleetcube.tables import tables as slicing

from .common import Patch, refused

SCENARIO: dict[str, Any] = {"model": "llama-3-8b", "node": "dgx-h100", "tensor_parallel": 8}
AXES: dict[str, Any] = {"fabric": ["infiniband-ndr", "roce-100g"], "n_gpus": [8, 60, 512]}
AXES |= {"gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 7}}
AXES |= {"layout": {"pipeline_parallel": [1, 2], "virtual_stages": [1, 4]}}
OUTPUTS = ["job_time", "step_time", "cluster_mtbf", "node_mttf", "dominant_overhead", "mfu"]


@pytest.fixture
def sweep() -> Sweep:
    return Sweep(SCENARIO, AXES, OUTPUTS)


def assert_same(left: xarray.Dataset, right: xarray.Dataset) -> None:
    assert (set(left.variables), set(left.coords)) == (set(right.variables), set(right.coords))
    for name in left.variables:
        one, other = left[name], right[name]
        assert one.dims == other.dims, name
        assert np.array_equal(one.values, other.values, equal_nan=one.dtype.kind == "f"), name
        assert one.attrs.get("units") == other.attrs.get("units"), name


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", "numba", "jax"])
def test_cubes_hold_values(sweep: Sweep, tmp_path: Path, engine: str, monkeypatch: Patch) -> None:
    # several along every axis; compiled engines get fewer formulas and fewer axes to cut
    monkeypatch.setattr("fleetcube.grid.plan.tiles.CHUNK", 30 if engine == "numpy" else 4)
    if engine != "numpy":
        scenario = {**SCENARIO, "memory_per_gpu": "60 GB"}
        sweep = Sweep(scenario, AXES, ["data_parallel_time", "cluster_mtbf", "node_mttf"])
    path = sweep.to_zarr(tmp_path / "a.zarr", settings=Settings(engine))
    assert_same(sweep.evaluate(settings=Settings(engine)), open_cube(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zarr"]


def test_outputs_and_axes_are_in_the_order_of_the_spec(sweep: Sweep, tmp_path: Path) -> None:
    cube = open_cube(sweep.to_zarr(tmp_path / "a.zarr"))
    coordinates = [*AXES, "infeasible_reason", "inter_node_bandwidth", "inter_node_latency"]
    coordinates += ["pipeline_parallel", "virtual_stages"]
    assert list(cube.data_vars) == list(sweep.evaluate().data_vars) == OUTPUTS
    assert [name for name in cube.coords if name in coordinates] == coordinates
    coords = {name: cube.variables[name] for name in list(cube.coords)[::-1]}
    arrived = xarray.Dataset(cube[OUTPUTS[::-1]].data_vars, coords, cube.attrs)
    assert list(arrived.data_vars) != OUTPUTS
    again = in_order(arrived)
    assert (list(again.data_vars), list(again.coords)) == (OUTPUTS, list(cube.coords))
    assert list(cube[["mfu", "job_time"]].data_vars) == ["mfu", "job_time"]


def test_plain_readers_and_dask_open_a_cube(sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr", dtype="float32")
    assert_same(sweep.evaluate(dtype="float32"), xarray.open_zarr(path, consolidated=False))
    group = zarr.open_group(path, mode="r")
    assert group.metadata.zarr_format == 3
    array = group["job_time"]
    assert isinstance(array, zarr.Array)
    assert array.metadata.dimension_names == tuple(AXES)
    assert np.isnan(array.fill_value)
    assert group["dominant_overhead"].fill_value == -1
    assert array.attrs["units"] == "s"
    assert "llama-3-8b" in str(group.attrs["fleetcube_spec"])
    assert "NVIDIA" in str(group.attrs["fleetcube_catalog"])
    lazy = open_cube(path, chunks={})  # for Dask
    assert lazy["job_time"].chunks is not None
    assert_same(sweep.evaluate(dtype="float32"), lazy)


def test_masked_cubes_hold_nan(sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr", settings=Settings(infeasible="exclude"))
    assert_same(sweep.evaluate(settings=Settings(infeasible="exclude")), open_cube(path))
    assert np.isnan(open_cube(path)["job_time"].sel(n_gpus=60)).all()


def test_existing_targets_are_kept_and_only_cubes_overwritten(sweep: Sweep, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    sweep.to_zarr(path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    refused(r"exists; choose another name or use --overwrite", sweep.to_zarr, path)
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    Sweep({}, {"n_gpus": [8]}, ["cluster_mtbf"]).to_zarr(path, overwrite=True)
    assert list(open_cube(path).data_vars) == ["cluster_mtbf"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zarr"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "precious.txt").write_text("keep me", encoding="utf-8")
    refused(
        "is not a cube and is not overwritten", sweep.to_zarr, tmp_path / "notes", overwrite=True
    )
    assert (tmp_path / "notes" / "precious.txt").read_text(encoding="utf-8") == "keep me"


def test_a_cube_larger_than_the_disk_is_refused(tmp_path: Path) -> None:
    axes = {name: np.arange(1, 10_001) for name in ("n_gpus", "gpu_mttf", "nic_mttf", "psu_mttf")}
    with pytest.raises(InputError, match=r"takes about .* PB and .* of disk are free"):
        Sweep({"series_psus_per_node": 2}, axes, ["cluster_mtbf"]).to_zarr(tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_what_fits_compressed_is_written(sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    chunks = {"n_gpus": 3}
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=chunks)
    taken = _taken(path, 1)
    for share, fits in ((0.8, False), (1.25, True)):
        monkeypatch.setattr(Folder, "room", lambda _, free=share * taken: (free, math.inf, 1))
        if fits:
            sweep.to_zarr(tmp_path / "b.zarr", chunks=chunks)
        else:
            refused("of disk are free", sweep.to_zarr, tmp_path / "b.zarr", chunks=chunks)


def _taken(cube: Path, unit: int) -> int:
    """Bytes of a cube where each file and folder takes whole units."""
    each = [entry.stat().st_size if entry.is_file() else 1 for entry in Path(cube).rglob("*")]
    return sum(-(-size // unit) * unit for size in each)


@pytest.mark.parametrize(
    ("chunk", "unit"), [(1, 4096), (1, 1), (4, 4096), (20, 65536), (100, 4096)]
)
def test_all_that_a_cube_takes_of_a_disk_is_counted(
    chunk: int, unit: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Files in whole units, folders, labels, metadata and journal, without those of the chunks."""
    axes = {"n_gpus": np.arange(8, 108), "gpu_mttf": [1e7, 2e7, 3e7]}
    sweep = Sweep({"gpus_per_node": 8}, axes, ["cluster_mtbf", "nodes"])
    chunks = {"n_gpus": chunk, "gpu_mttf": 2}
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=chunks)
    taken, files = _taken(path, unit), sum(1 for _ in Path(path).rglob("*"))
    for share, fits in ((0.8, False), (1.25, True)):
        for room in ((share * taken, math.inf, unit), (math.inf, share * files, unit)):
            monkeypatch.setattr(Folder, "room", lambda _, room=room: room)
            if fits:
                sweep.to_zarr(tmp_path / "b.zarr", chunks=chunks, overwrite=True)
            else:
                rule = "of disk are free" if room[1] == math.inf else "the disk has room for"
                refused(rule, sweep.to_zarr, tmp_path / "c.zarr", chunks=chunks)


@pytest.mark.parametrize("how", ["resume", "append"])
def test_what_is_there_has_room(sweep: Sweep, tmp_path: Path, monkeypatch: Patch, how: str) -> None:
    chunks = {"n_gpus": 1}
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=chunks)
    blocks = list(examine(Folder(path)).blocks.values())
    chunks_alone = sum(size for block in blocks for _, size, _ in block.files)
    taken = _taken(path, 1) - 0.4 * chunks_alone
    if how == "resume":
        (Path(path) / blocks[0].files[0][0]).write_bytes(b"harmed")
    else:
        axes = {**sweep.spec["axes"], "n_gpus": [*sweep.spec["axes"]["n_gpus"], 1 << 17]}
        sweep = Sweep(sweep.spec["scenario"], axes, sweep.spec["outputs"])
    monkeypatch.setattr(Folder, "room", lambda _: (taken, math.inf, 1))
    sweep.to_zarr(path, chunks=chunks, **{how: True})
    assert not damage(examine(Folder(path)))


def test_a_failed_run_is_continued(sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writer_module.Writer, "write", full)
        with pytest.raises(OSError, match="No space left on device; 0 finished blocks are kept"):
            sweep.to_zarr(tmp_path / "a.zarr")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zarr.partial"]
    refused("--resume continues it, --overwrite starts over", sweep.to_zarr, tmp_path / "a.zarr")
    assert_same(sweep.evaluate(), open_cube(sweep.to_zarr(tmp_path / "a.zarr", resume=True)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zarr"]


def test_what_is_not_a_complete_cube_is_refused(tmp_path: Path) -> None:
    refused("there is no cube", open_cube, tmp_path / "a.zarr")
    (tmp_path / "b.zarr.partial").mkdir()
    refused("its run has not finished", open_cube, tmp_path / "b.zarr")
    refused("is not complete", open_cube, tmp_path / "b.zarr.partial")
    (tmp_path / "b.zarr.partial" / "notes").touch()
    with pytest.raises(InputError, match="is not an unfinished cube"):
        Sweep({}, {"n_gpus": [8]}, ["cluster_mtbf"]).to_zarr(tmp_path / "b.zarr", overwrite=True)
    with pytest.raises(InputError, match="ends as unfinished cubes do"):
        Sweep({}, {"n_gpus": [8]}, ["cluster_mtbf"]).to_zarr(tmp_path / "d.partial")
    zarr.create_group(tmp_path / "c.zarr")
    refused("is not sealed by fleetcube", open_cube, tmp_path / "c.zarr")


@pytest.mark.parametrize("how", ["min", "max", "mean", "sum"])
@pytest.mark.parametrize("over", [None, ["gpu_mttf"], ["n_gpus", "layout"]])
def test_reductions_are_of_the_whole(sweep: Sweep, how: str, over: Any, monkeypatch: Patch) -> None:
    monkeypatch.setattr("fleetcube.grid.plan.tiles.BLOCK", 20)
    whole = sweep.evaluate(settings=Settings(infeasible="exclude"))
    reduced = sweep.reduce(how, over, settings=Settings(infeasible="exclude"))
    for name in ("job_time", "step_time", "cluster_mtbf", "mfu"):
        dims = [dim for dim in whole[name].dims if over is None or dim in over]
        expected = getattr(whole[name], how)(dims)
        assert reduced[name].dims == expected.dims
        np.testing.assert_allclose(reduced[name], expected, rtol=1e-12)
    assert "dominant_overhead" not in reduced
    refused("choose one of min, max, mean, sum", sweep.reduce, "median", over)
    refused("'psu_mttf' is not an axis", sweep.reduce, how, ["psu_mttf"])


def test_chunks_are_as_asked(sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks={"gpu_mttf": 3, "n_gpus": 100})
    array = zarr.open_group(path, mode="r")["job_time"]
    assert isinstance(array, zarr.Array)
    assert array.chunks == (2, 3, 3, 2)
    assert_same(sweep.evaluate(), open_cube(path))
    for bad in ({"gpu": 3}, {"n_gpus": 0}, {"n_gpus": "x"}):
        refused("chunks:", sweep.to_zarr, tmp_path / "b.zarr", chunks=bad)  # type: ignore[arg-type]


def test_damaged_cubes_are_refused(sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr")
    (path / "job_time" / "zarr.json").write_text("{", encoding="utf-8")
    refused("is damaged", open_cube, path)
    (path / "zarr.json").write_text('{"attributes": []}', encoding="utf-8")
    refused(r"it has no sound zarr.json; `run --resume` .* repairs", open_cube, path)
    sweep.to_zarr(path, resume=True)
    assert_same(sweep.evaluate(), open_cube(path))


def test_outputs_without_axes_are_stored(tmp_path: Path) -> None:
    training = {**SCENARIO, "n_gpus": 64, "fabric": "infiniband-ndr"}
    sweep = Sweep(training, {"gpu_mttf": [1e8, 2e8]}, ["mfu", "goodput"])
    assert_same(sweep.evaluate(), open_cube(sweep.to_zarr(tmp_path / "a.zarr")))
    point = Sweep(training, {}, ["mfu"])
    assert_same(point.evaluate(), open_cube(point.to_zarr(tmp_path / "b.zarr")))


@pytest.mark.parametrize("lost", ["n_gpus", "job_time", "cluster_mtbf", "infeasible_reason"])
def test_a_lost_chunk_is_noticed(sweep: Sweep, tmp_path: Path, lost: str) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr")
    next(file for file in (path / lost / "c").rglob("*") if file.is_file()).unlink()
    refused("is damaged: 0 of its 1 chunks are there", open_cube, path)


def test_a_target_needs_a_name_and_is_not_in_a_cube(sweep: Sweep, tmp_path: Path) -> None:
    for name in ("", ".", "/"):
        refused("names no cube", sweep.to_zarr, name)
    refused("lies in the cube", sweep.to_zarr, sweep.to_zarr(tmp_path / "a.zarr") / "b.zarr")


@pytest.mark.parametrize("name", ["x.csv", "x.json"])
def test_a_failed_export(sweep: Sweep, tmp_path: Path, monkeypatch: Patch, name: str) -> None:
    def full(target: Any, *_: Any, **__: Any) -> None:
        (tmp_path / name).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pandas.DataFrame.to_csv", full)
    monkeypatch.setattr(slicing.Path, "write_text", full)
    with pytest.raises(InputError, match=r"cannot write .* \(No space left"):
        slicing.export(sweep.evaluate()[["mfu"]], tmp_path / name)
    assert list(tmp_path.iterdir()) == []
