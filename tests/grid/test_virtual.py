"""Virtual cubes: slices are what the whole grid holds, and nothing else is computed."""

import os
import pickle
import subprocess
import sys
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetcube import Settings
from fleetcube.backend import Backend
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan import execute
from fleetcube.grid.run import points
from fleetcube.kernels.engines import numba as numba_engine
from fleetcube.kernels.engines import numpy as numpy_engine
from fleetcube.kernels.engines import numpy_first as auto_engine
from fleetcube.sweep import Sweep

from ..draws import scaled
from .common import Patch, on_h100, refused, written

SCENARIO = on_h100(n_gpus=512, global_batch_size=512)
AXES: dict[str, Any] = dict(
    n_gpus=[8, 24, 64, 1000, 16384],
    all_reduce=["ring", "auto", "tree", "hierarchical"],
    gpu_mttf=[1e7, 3.3e8, 1e9],
    layout={"tensor_parallel": [1, 8, 2], "pipeline_parallel": [1, 2, 4], "zero_stage": [1, 3, 3]},
    checkpoint_policy=["young", "exact", "daly"],
)
OUTPUTS = ["job_time", "step_time", "cluster_mtbf", "dominant_overhead", "tokens_per_step"]
SPEC = """
outputs = ["job_time", "goodput", "step_time"]
scenario = { model = "llama-3-8b", fabric = "infiniband-ndr", node = "dgx-h100", n_gpus = 512 }
[axes]
gpu_mttf = { linspace = ["10_000 h", "100_000 h"], num = 10_000 }
checkpoint_write_bandwidth = { geomspace = ["1 GB/s", "1 TB/s"], num = 10_000 }
restart_time = { linspace = [10, 1000], num = 10_000 }
"""


@pytest.fixture(scope="module")
def whole() -> dict[Any, xarray.Dataset]:
    sweep = Sweep(SCENARIO, AXES, OUTPUTS)
    return {
        mask: sweep.evaluate(
            settings=Settings("numpy", infeasible="exclude" if mask else "include")
        )
        for mask in (False, True)
    }


@pytest.fixture(scope="module")
def cubes() -> dict[Any, xarray.Dataset]:
    sweep = Sweep(SCENARIO, AXES, OUTPUTS)
    return {
        mask: sweep.virtual(settings=Settings(infeasible="exclude" if mask else "include"))
        for mask in (False, True)
    }


@pytest.fixture
def evaluated(monkeypatch: Patch) -> list[int]:
    """Points of every block that is filled."""
    points: list[int] = []
    fill = execute.Piece.fill

    def counted(self: Any, dims: Any, region: Any, outs: Any) -> None:
        points.extend(out.size for out in outs.values())
        fill(self, dims, region, outs)

    monkeypatch.setattr(execute.Piece, "fill", counted)
    return points


@st.composite
def indexers(draw: Any) -> dict[str, Any]:
    """For some axes: a number, a slice with any step, a list with duplicates, or a mask."""
    found: dict[str, Any] = {}
    for name, entry in AXES.items():
        size = len(entry) if isinstance(entry, list) else 3
        kind = draw(st.sampled_from(["all", "number", "slice", "list", "mask"]))
        if kind == "number":
            found[name] = draw(st.integers(-size, size - 1))
        elif kind == "slice":
            # xarray 2026.9 reads slice(-4, None, -1) of 3 as all: it starts before the axis
            starts = st.none() | st.integers(-size, size + 1)
            stops = st.none() | st.integers(-size - 1, size + 1)
            step = draw(st.sampled_from([None, 1, 2, -1, -2]))
            found[name] = slice(draw(starts), draw(stops), step)
        elif kind == "list":
            found[name] = draw(st.lists(st.integers(-size, size - 1), max_size=6))
        elif kind == "mask":
            found[name] = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    return found


def same(part: xarray.Dataset, expected: xarray.Dataset) -> None:
    """The same to the last bit."""
    xarray.testing.assert_identical(part.load(), expected)


@pytest.mark.slow
@settings(
    max_examples=scaled(20, 60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(index=indexers(), mask=st.booleans(), again=st.booleans())
def test_slices_hold_the_grid(whole: Any, cubes: Any, index: Any, mask: bool, again: bool) -> None:
    part, expected = cubes[mask].isel(index), whole[mask].isel(index)
    if again:  # a slice of a slice
        turn = {dim: slice(None, None, -1) for dim in part.sizes}
        part, expected = part.isel(turn), expected.isel(turn)
    same(part, expected)


@settings(max_examples=scaled(10, 80))
@given(st.data(), st.booleans())
def test_points_hold_what_the_grid_holds(whole: Any, cubes: Any, data: Any, mask: bool) -> None:
    names = data.draw(st.lists(st.sampled_from(list(AXES)), min_size=1, unique=True))
    shape = data.draw(st.sampled_from([(1,), (4,), (7,), (2, 3), (0,)]))
    dims = ("point", "other")[: len(shape)]
    index: dict[str, Any] = {}
    for name in names:
        size = len(AXES[name]) if isinstance(AXES[name], list) else 3
        flat = [data.draw(st.integers(0, size - 1)) for _ in range(int(np.prod(shape)))]
        index[name] = xarray.DataArray(np.array(flat, int).reshape(shape), dims=dims)
    part, expected = cubes[mask].isel(index), whole[mask].isel(index)
    if data.draw(st.booleans()):
        part, expected = part.transpose(), expected.transpose()
    same(part, expected)


@pytest.mark.machine
@pytest.mark.parametrize("engine", [pytest.param("numba", marks=pytest.mark.slow), "jax"])
def test_every_engine_gives_its_own_values(engine: str) -> None:
    layout = {name: AXES["layout"][name] for name in ("tensor_parallel", "pipeline_parallel")}
    axes = {"n_gpus": AXES["n_gpus"], "layout": layout}
    scenario = {**SCENARIO, "memory_per_gpu": "60 GB"}  # given, for few formulas to compile
    sweep = Sweep(scenario, {**axes, "all_reduce": ["ring", "tree"]}, ["data_parallel_time"])
    whole = sweep.evaluate(settings=Settings(engine, infeasible="exclude"))
    cube = sweep.virtual(settings=Settings(engine, infeasible="exclude"))
    index: dict[str, Any] = {"n_gpus": [3, 3, 0], "all_reduce": slice(None, None, -1)}
    same(cube.isel(index), whole.isel(index))
    points = {name: xarray.DataArray([0, 2, 1, 1], dims="point") for name in ("n_gpus", "layout")}
    same(cube.isel(points), whole.isel(points))


def test_points_are_computed_without_the_box_around_them(evaluated: list[int]) -> None:
    axes = {"gpu_mttf": np.linspace(1e7, 1e9, 5000), "restart_time": np.linspace(1, 99, 5000)}
    cube = Sweep(SCENARIO, axes, ["goodput"]).virtual()
    at = xarray.DataArray(np.arange(5000), dims="point")
    diagonal = cube["goodput"].isel(gpu_mttf=at, restart_time=at).values
    assert sum(evaluated) == 5000
    corner = cube["goodput"].isel(gpu_mttf=[0, 4999], restart_time=[0, 4999]).values
    assert np.array_equal(diagonal[[0, -1]], np.diag(corner))


def test_a_file_opens_without_evaluation_and_computes_what_is_sliced(
    tmp_path: Path, evaluated: list[int], monkeypatch: Patch
) -> None:
    path = written(tmp_path / "sweep.toml", SPEC)
    tables: list[int] = []
    table = points.Grid.table

    def seen(*given: Any) -> Any:
        values = table(*given)
        tables.append(values.size)
        return values

    monkeypatch.setattr(points.Grid, "table", seen)
    with xarray.open_dataset(path, engine="fleetcube") as cube:
        assert cube["job_time"].size == 10**12
        repr(cube)
        part = cube.isel(gpu_mttf=slice(0, 9000, 3000), restart_time=[7], drop=False)
        part = part.sel(checkpoint_write_bandwidth=1e12, method="nearest")
        assert not evaluated
        assert set(tables) <= {1, 10_000}  # what remarks compare, along one axis
        values = part["job_time"].values
    assert 0 < sum(evaluated) <= 2 * values.size
    axes = {"gpu_mttf": part["gpu_mttf"].values}
    axes |= {"checkpoint_write_bandwidth": part["checkpoint_write_bandwidth"].values[None]}
    axes |= {"restart_time": part["restart_time"].values}
    expected = Sweep(on_h100(n_gpus=512), axes, ["job_time"]).evaluate(settings=Settings("numpy"))[
        "job_time"
    ]
    assert np.array_equal(values, expected.values[:, 0])


def test_the_engine_is_guessed_for_sweeps_alone(tmp_path: Path) -> None:
    xarray.open_dataset(written(tmp_path / "sweep.toml", SPEC)).close()
    backend = Backend()
    for name, text in {"other.toml": "a = 1", "bad.toml": "outputs =", "outputs.nc": SPEC}.items():
        (tmp_path / name).write_text(text)
        assert not backend.guess_can_open(tmp_path / name)
    for source in (tmp_path / "none.toml", tmp_path, "http://host/x.toml", b"outputs", 3):
        assert not backend.guess_can_open(source)


def test_what_the_backend_takes() -> None:
    sweep = Sweep(SCENARIO, {"gpu_mttf": [1e7, 1e8]}, ["goodput", "cluster_mtbf"])
    cube = xarray.open_dataset(
        sweep,
        engine="fleetcube",
        dtype="float32",
        drop_variables="goodput",
        settings=Settings("jax"),
    )
    assert cube.attrs["fleetcube_engine"] == "jax"
    assert "goodput" not in cube
    same(cube, sweep.evaluate(dtype="float32", settings=Settings("jax")).drop_vars("goodput"))
    refused("TOML file or a Sweep", xarray.open_dataset, b"", engine="fleetcube")
    sweep = Sweep(SCENARIO, {"gpu_mttf": [1e7, 1e8]}, ["step_time", "job_time"])
    same(
        sweep.virtual(), sweep.evaluate(settings=Settings("numpy"))
    )  # one without dimensions, and whole cubes


def test_a_slice_larger_than_memory_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "sweep.toml", SPEC)
    with (
        xarray.open_dataset(path, engine="fleetcube") as cube,
        pytest.raises(InputError, match="take a smaller slice"),
    ):
        cube["job_time"].load()


def test_an_index_out_of_bounds_is_an_index_error(cubes: Any) -> None:
    with pytest.raises(IndexError):
        cubes[False]["job_time"].variable.isel(n_gpus=[5]).load()


def test_an_output_travels_to_another_process(whole: Any, cubes: Any) -> None:
    cube = pickle.loads(pickle.dumps(cubes[False].isel(n_gpus=[2, 0])))
    same(cube, whole[False].isel(n_gpus=[2, 0]))


def compile_at_once(monkeypatch: Patch) -> None:
    monkeypatch.setattr(auto_engine, "WORTH", 1)
    monkeypatch.setattr(numba_engine, "_requested", set())
    monkeypatch.setattr(numba_engine, "_ready", OrderedDict())


def wait_for_kernels() -> None:
    for _ in range(12_000):
        if not numba_engine._requested:
            return
        time.sleep(0.05)
    raise AssertionError("nothing was compiled in ten minutes")


@pytest.mark.slow
@pytest.mark.parametrize("mask", [False, True])
def test_compiling_in_the_background_changes_no_bit(mask: bool, monkeypatch: Patch) -> None:
    compile_at_once(monkeypatch)
    axes = {"n_gpus": [8, 24, 64, 1000], "gpu_mttf": np.linspace(1e7, 1e9, 700)}
    sweep = Sweep(SCENARIO, {**axes, "tensor_parallel": [1, 8]}, ["job_time", "dominant_overhead"])
    cube, whole = (
        sweep.virtual(settings=Settings(infeasible="exclude" if mask else "include")),
        sweep.evaluate(settings=Settings("numpy", infeasible="exclude" if mask else "include")),
    )
    index = {"gpu_mttf": slice(3, None, 2), "n_gpus": [2, 0]}
    first = cube.isel(index).copy(deep=True)
    same(first, whole.isel(index))
    wait_for_kernels()
    monkeypatch.delattr(numpy_engine, "run")  # what is asked again needs no NumPy engine
    same(cube.isel(index), first)


def test_what_does_not_compile_is_evaluated_all_the_same(monkeypatch: Patch) -> None:
    def broken(*key: Any) -> Any:
        tried.append(key)
        raise ValueError("no compiler")

    tried: list[Any] = []
    compile_at_once(monkeypatch)
    monkeypatch.setattr(numba_engine, "_compiled", broken)
    sweep = Sweep(SCENARIO, {"gpu_mttf": np.linspace(1e7, 1e9, 900)}, ["goodput"])
    for _ in range(200):
        same(sweep.virtual(), sweep.evaluate(settings=Settings("numpy")))
        if tried:
            break
        time.sleep(0.05)
    time.sleep(0.1)
    same(sweep.virtual(), sweep.evaluate(settings=Settings("numpy")))
    assert len(tried) == 1  # and not asked again


@pytest.mark.slow
def test_a_process_ends_while_a_kernel_compiles(tmp_path: Path) -> None:
    path = written(tmp_path / "sweep.toml", SPEC)
    script = (
        "import sys, time, xarray; from fleetcube.kernels.engines import numba as numba_engine\n"
        "started, made = [], numba_engine._compiled\n"
        "numba_engine._compiled = lambda *key: (started.append(1), made(*key))[1]\n"
        f"cube = xarray.open_dataset({str(path)!r}, engine='fleetcube')\n"
        "cube['job_time'].isel(restart_time=0)[:600, :600].values\n"
        "while not started: time.sleep(0.01)\n"
    )
    environment = {**os.environ, "FLEETCUBE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not list(tmp_path.glob("cache/**/*.kernel"))  # it did not wait for the compiler
