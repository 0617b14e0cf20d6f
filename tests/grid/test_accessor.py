"""`cube.fleetcube`: the same on every kind of cube, against other libraries and the sweep."""

import datetime
import gc
import pickle
import subprocess
import sys
import weakref
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pandas
import pint_xarray  # noqa: F401  gives arrays `.pint`
import pytest
import xarray

import fleetcube
from fleetcube import InputError, Settings, Sweep
from fleetcube.catalog import unit_registry
from fleetcube.kernels.calculus.derivatives import derivative
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.presentation.pictures import kinds
from fleetcube.presentation.pictures.picture import picture_options
from fleetcube.presentation.pictures.plot import plot
from fleetcube.tables.elementwise import is_read_when_sliced

from ..table import each
from .common import Patch, cases, on_h100, refused

HOUR = 3600.0
HOURS = [5_000.0, 50_000.0, 500_000.0]
SCENARIO = on_h100("llama-3-70b", gpu_hour_price="2 USD/h", tensor_parallel=8)
AXES: dict[str, Any] = dict(
    gpu_mttf=[f"{hours} h" for hours in HOURS], n_gpus=[64, 1024, 16384], pipeline_parallel=[1, 2]
)
OUTPUTS = ["job_time", "memory_per_gpu", "dominant_overhead", "cluster_mtbf", "job_cost", "goodput"]
SWEEP = Sweep(SCENARIO, AXES, OUTPUTS)
PLAIN = SWEEP.evaluate(settings=Settings("numpy"))
KINDS = ["evaluated", "narrow", "stored", "chunked", "virtual", "lazy"]
MANY = {"gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 10_000}}
MANY |= {"checkpoint_write_bandwidth": {"geomspace": ["1 GB/s", "1 TB/s"], "num": 10_000}}
MANY |= {"n_gpus": {"linspace": [8, 80_000], "num": 10_000}}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path | str:
    return SWEEP.to_zarr(tmp_path_factory.mktemp("cubes") / "a.zarr", settings=Settings("numpy"))


@pytest.fixture(scope="module")
def cubes(stored: Path) -> dict[str, xarray.Dataset]:
    return {
        "evaluated": PLAIN,
        "narrow": SWEEP.evaluate(dtype="float32", settings=Settings("numpy")),
        "stored": fleetcube.open_cube(stored),
        "chunked": fleetcube.open_cube(stored, chunks={}),
        "virtual": SWEEP.virtual(),
        "lazy": SWEEP.lazy({"n_gpus": 2}),
    }


def _same_kind(found: xarray.Dataset, cube: xarray.Dataset) -> None:
    """Nothing was read, and Dask's blocks are unchanged."""
    for name, variable in cube.variables.items():
        assert found[name].chunks == variable.chunks
        assert is_read_when_sliced(found[name].variable) == is_read_when_sliced(variable)
        assert found[name].dtype == variable.dtype


def _refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("Dask was asked to compute")


def test_units_are_what_pint_makes_of_them(cubes: dict[str, xarray.Dataset]) -> None:
    units = {"job_time": "d", "memory_per_gpu": "GiB", "gpu_mttf": "h", "goodput": "%"}
    pinned = PLAIN.pint.quantify(unit_registry=unit_registry())
    for kind, cube in cubes.items():
        with dask.config.set(scheduler=_refuse):
            found = cube.fleetcube.to_units(units)
        _same_kind(found, cube)
        assert {name: found[name].attrs["units"] for name in units} == units, kind
        assert cube["job_time"].attrs["units"] == "s"
        assert found["job_time"].attrs["references"] == cube["job_time"].attrs["references"]
        close = 1e-6 if kind == "narrow" else 1e-15
        for name in ("job_time", "memory_per_gpu"):
            expected = pinned[name].pint.to(units[name]).pint.magnitude
            np.testing.assert_allclose(found[name].values, expected, rtol=close)
        np.testing.assert_allclose(found["goodput"], 100 * PLAIN["goodput"], rtol=close)
        assert found["gpu_mttf"].values.tolist() == HOURS  # as they were written, to the last bit
        flags = (found["dominant_overhead"].variable, cube["dominant_overhead"].variable)
        xarray.testing.assert_identical(*flags)
        back = found.fleetcube.to_units({name: PLAIN[name].attrs["units"] for name in units})
        xarray.testing.assert_allclose(back, cube, rtol=close)


def test_one_unit_is_for_all_variables_of_its_kind() -> None:
    found = PLAIN.fleetcube.to_units("h")
    changed = {name for name in PLAIN.variables if not found[name].identical(PLAIN[name])}
    assert changed == {"job_time", "cluster_mtbf"}
    np.testing.assert_array_equal(found["cluster_mtbf"], PLAIN["cluster_mtbf"].values / HOUR)


def test_an_array_alone_and_its_coordinates() -> None:
    array = PLAIN["job_time"].fleetcube.to_units("h")
    units = (array.attrs["units"], array["gpu_mttf"].attrs["units"])
    assert (array.name, *units) == ("job_time", "h", "s")
    both = PLAIN["job_time"].fleetcube.to_units({"job_time": "d", "gpu_mttf": "h"})
    np.testing.assert_array_equal(both, PLAIN["job_time"].values / 86400)
    assert both["gpu_mttf"].values.tolist() == HOURS
    nameless = (PLAIN["job_time"].rename(None)).fleetcube.to_units("h")
    assert nameless.name is None
    np.testing.assert_array_equal(nameless, array)
    axis = PLAIN["gpu_mttf"].fleetcube.to_units("h")
    assert axis.values.tolist() == axis["gpu_mttf"].values.tolist() == HOURS
    double = (2 * PLAIN["gpu_mttf"]).assign_attrs(units="s")  # no longer its own coordinate
    twice = double.fleetcube.to_units("h")
    assert (twice / 2).values.tolist() == HOURS
    assert twice["gpu_mttf"].values.tolist() == PLAIN["gpu_mttf"].values.tolist()


@each(
    ("name", "unit", "value", "expected"),
    [
        ("grid_carbon_intensity", "g/kWh", 400e-3 / 3.6e6, 400.0),
        ("electricity_price", "USD/kWh", 0.08 / 3.6e6, 0.08),
        ("inter_node_bandwidth", "Gbit/s", 50e9, 400.0),
        ("hbm_capacity", "GiB", 85899345920.0, 80.0),
        ("goodput", "%", 0.07, 7.000000000000001),  # 0.07 x 100, rounded once
        ("reinit_time", "us", 5e-06, 5.0),
        ("peak_flops", "TFLOP/s", 989e12, 989.0),
    ],
)
def test_units_of_planners(name: str, unit: str, value: float, expected: float) -> None:
    base = INPUTS[name].unit if name in INPUTS else PHYSICS.quantities[name].unit
    found = xarray.DataArray(value, name=name, attrs={"units": base}).fleetcube.to_units(unit)
    assert float(found) == pytest.approx(expected, rel=1e-15, abs=0)
    assert found.fleetcube.to_units(base) == pytest.approx(value, rel=3e-16, abs=0)


@pytest.mark.parametrize(("unit", "each"), [("ms", Fraction(1, 1000)), ("h", Fraction(3600))])
def test_units_of_whole_numbers_of_others_round_once(unit: str, each: Fraction) -> None:
    seconds = np.random.default_rng(1).lognormal(size=200)
    found = xarray.DataArray(seconds, attrs={"units": "s"}).fleetcube.to_units(unit)
    assert found.values.tolist() == [float(Fraction(second) / each) for second in seconds]


def test_cubes_in_other_units_are_drawn_and_looked_up_in_them_or_refused() -> None:
    found = PLAIN.fleetcube.to_units({"gpu_mttf": "yr", "job_time": "h"})
    cut = found.isel(pipeline_parallel=0)
    (axes,) = cut.fleetcube.plot("gpu_mttf", of="job_time").axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("GPU MTTF [yr]", "job time [h]")
    drawn = np.array([line.get_ydata() for line in axes.lines[: 2 * 3]], float)
    whole = cut["job_time"].values.T
    np.testing.assert_array_equal(np.nansum(drawn.reshape(3, 2, 3), axis=1), whole)
    with pytest.raises(InputError, match=r"in yr; .*to_units\(\{'gpu_mttf': 's'\}\)"):
        fleetcube.interp(found, {"gpu_mttf": "10_000 h"})


LINE = xarray.DataArray([50_000.0], dims="k", attrs={"units": "h"})


@each(
    ("asked", "places"),
    [
        ({"gpu_mttf": "50_000 h"}, {"gpu_mttf": 1}),
        ({"gpu_mttf": "1.8e8 s", "n_gpus": "16_384"}, {"gpu_mttf": 1, "n_gpus": 2}),
        ({"gpu_mttf": ["500_000 h", "5000 h"]}, {"gpu_mttf": [2, 0]}),
        ({"gpu_mttf": slice("6_000 h", None)}, {"gpu_mttf": slice(1, None)}),
        ({"gpu_mttf": slice("5_000 h", "50_000 h")}, {"gpu_mttf": slice(0, 2)}),
        ({"gpu_mttf": unit_registry().Quantity(50_000, "h")}, {"gpu_mttf": 1}),
        ({"gpu_mttf": LINE}, {"gpu_mttf": xarray.DataArray([1], dims="k")}),
        ({"gpu_mttf": "60_000 h", "method": "nearest"}, {"gpu_mttf": 1}),
        ({"gpu_mttf": "51_000 h", "method": "nearest", "tolerance": "1_000 h"}, {"gpu_mttf": 1}),
        ({"gpu_mttf": 1.8e8}, {"gpu_mttf": 1}),
        ({"indexers": {"gpu_mttf": "50_000 h"}}, {"gpu_mttf": 1}),
    ],
)
def test_points_are_found_by_values_with_units(asked: Any, places: Any) -> None:
    found = PLAIN.fleetcube.sel(**asked)
    expected = PLAIN.isel(places)
    for name in PLAIN.data_vars:
        np.testing.assert_array_equal(found[name].values, expected[name].values)
    hours = PLAIN.fleetcube.to_units({"gpu_mttf": "h"})
    if asked != {"gpu_mttf": 1.8e8}:  # plain numbers are in the axis's unit
        np.testing.assert_array_equal(hours.fleetcube.sel(**asked)["goodput"], expected["goodput"])
    else:
        found = hours.fleetcube.sel(gpu_mttf=50_000)
        np.testing.assert_array_equal(found["goodput"], expected["goodput"])


def test_points_that_rounding_moved_are_found() -> None:
    axes = {"gpu_mttf": {"linspace": ["1 h", "2 h"], "num": 11}}
    cube = fleetcube.Sweep({"n_gpus": 8}, axes, ["cluster_mtbf"]).evaluate(
        settings=Settings("numpy")
    )
    assert cube["gpu_mttf"].values[1] != 1.1 * HOUR  # else this test proves nothing
    for asked in ("1.1 h", ["1.1 h"], slice("1.1 h", "1.1 h")):
        found = cube.fleetcube.sel(gpu_mttf=asked)
        assert found["gpu_mttf"].values.reshape(-1) == [cube["gpu_mttf"].values[1]]
    far = cube["cluster_mtbf"].fleetcube.sel(gpu_mttf="1.1 h")
    assert float(far) == cube["cluster_mtbf"].values[1]


def test_durations_are_those_of_pandas(cubes: dict[str, xarray.Dataset]) -> None:
    for kind, cube in cubes.items():
        with dask.config.set(scheduler=_refuse):
            found = cube.fleetcube.to_timedelta()
        times = {name for name in found.data_vars if found[name].dtype == "timedelta64[ns]"}
        assert times == {"job_time", "cluster_mtbf"}, kind
        for name in times:
            assert is_read_when_sliced(found[name].variable) == is_read_when_sliced(
                cube[name].variable
            )
            assert "units" not in found[name].attrs
            seconds = cube[name].values.astype(float).reshape(-1)
            expected = pandas.to_timedelta(seconds, unit="s").to_numpy()
            off = np.abs(found[name].values.reshape(-1) - expected) / np.timedelta64(1, "ns")
            assert (off <= 1e-15 * seconds * 1e9 + 1).all()


def test_what_no_duration_can_hold_is_not_a_time(tmp_path: Path) -> None:
    seconds = [np.inf, -np.inf, np.nan, 1e300, 293 * 31557600.0, 292 * 31557600.0, 5e-10, 4.9e-10]
    array = xarray.DataArray(seconds, dims="k", name="job_time", attrs={"units": "s"})
    found = array.fleetcube.to_timedelta()
    assert np.isnat(found.values).tolist() == [True] * 5 + [False] * 3
    assert found.values[5:].astype(int).tolist() == [292 * 31557600 * 10**9, 0, 0]
    axis = xarray.Dataset(coords={"gpu_mttf": ("gpu_mttf", [1.0, np.inf], {"units": "h"})})
    refused("infinite or longer than 292 years", axis.fleetcube.to_timedelta, "gpu_mttf")
    cube = PLAIN.fleetcube.to_timedelta(["gpu_mttf", "job_time"])
    assert cube["gpu_mttf"].values.tolist() == [int(hours * 3600e9) for hours in HOURS]
    for asked in ("50_000 h", unit_registry().Quantity(50_000, "h"), np.timedelta64(50_000, "h")):
        point = cube.fleetcube.sel(gpu_mttf=asked)
        np.testing.assert_array_equal(point["goodput"], PLAIN["goodput"][1])
    cube.to_zarr(tmp_path / "a.zarr", consolidated=False)
    again = xarray.open_zarr(tmp_path / "a.zarr", consolidated=False, decode_timedelta=True)
    np.testing.assert_array_equal(again["job_time"], cube["job_time"])


def test_feasible_points_are_those_that_a_sweep_masks(cubes: dict[str, xarray.Dataset]) -> None:
    masked = SWEEP.evaluate(settings=Settings("numpy", infeasible="exclude"))
    judged = ["job_time", "memory_per_gpu", "job_cost"]
    assert 0 < np.isnan(masked["memory_per_gpu"].values).sum() < masked["memory_per_gpu"].size
    count = Counter(PLAIN["infeasible_reason"].values.reshape(-1).tolist())
    words = PLAIN["infeasible_reason"].attrs["flag_meanings"].split()
    expected = {words[code]: count[code] for code in sorted(count)}
    for kind, cube in cubes.items():
        with dask.config.set(scheduler=_refuse):
            found = cube.fleetcube.feasible()
        close = 1e-6 if kind == "narrow" else 0
        for name in judged:
            xarray.testing.assert_allclose(found[name].variable, masked[name].variable, rtol=close)
            assert found[name].chunks is None or cube[name].chunks is not None
        ok = PLAIN["infeasible_reason"] == 0
        assert found["dominant_overhead"].dtype == np.int8
        flags = xarray.where(ok, PLAIN["dominant_overhead"], -1).transpose(*AXES)
        np.testing.assert_array_equal(found["dominant_overhead"], flags)
        goodput = PLAIN["goodput"].where(ok).transpose(*AXES)
        np.testing.assert_allclose(found["goodput"], goodput, rtol=close)
        assert found["goodput"].dtype == cube["goodput"].dtype
        assert cube.fleetcube.reasons() == expected
        dropped = cube.fleetcube.feasible(drop=True)
        some = PLAIN.where(ok, drop=True)
        assert dict(dropped.sizes) == dict(some.sizes) != dict(PLAIN.sizes)
        cost = some["job_cost"].transpose(*dropped["job_cost"].dims)
        np.testing.assert_allclose(dropped["job_cost"], cost, rtol=close)
    array = PLAIN["job_time"].fleetcube.feasible()
    xarray.testing.assert_identical(array.variable, masked["job_time"].variable)
    assert PLAIN["job_time"].fleetcube.reasons() == expected


def test_slices_of_a_trillion_points_are_all_that_is_computed() -> None:
    sweep = Sweep(SCENARIO, MANY, ["job_time", "dominant_overhead"])
    whole, masked = sweep.virtual(), sweep.virtual(settings=Settings(infeasible="exclude"))
    assert whole["job_time"].size == 10**12
    hours = whole.fleetcube.to_units("h")
    some = whole.fleetcube.feasible()
    durations = whole.fleetcube.to_timedelta()
    ends = xarray.DataArray([0, 9_000], dims="a")
    near, far = xarray.DataArray([1, 2], dims="a"), xarray.DataArray([1, 2, 3], dims="b")
    grid = xarray.DataArray([[0, 5, 9], [3, 77, 1]], dims=("a", "b"))
    cuts: list[dict[str, Any]] = [
        {"gpu_mttf": 5, "checkpoint_write_bandwidth": slice(2, 9, 3), "n_gpus": [-1, 0, 77]},
        {"gpu_mttf": 5, "checkpoint_write_bandwidth": -1, "n_gpus": 9_999},
        dict.fromkeys(MANY, grid),
        {"n_gpus": ends, "gpu_mttf": near, "checkpoint_write_bandwidth": [4, 2]},
        {"n_gpus": ends, "gpu_mttf": far, "checkpoint_write_bandwidth": 4},
    ]
    for cut in cuts:
        plain = whole.isel(cut)
        np.testing.assert_array_equal(hours.isel(cut)["job_time"], plain["job_time"].values / HOUR)
        for name in ("job_time", "dominant_overhead"):
            xarray.testing.assert_equal(some.isel(cut)[name], masked.isel(cut)[name])
            assert some.isel(cut)[name].dims == plain[name].dims
        nanoseconds = durations.isel(cut)["job_time"].values.astype(float)
        np.testing.assert_allclose(nanoseconds / 1e9, plain["job_time"], rtol=1e-12)
    again = pickle.loads(pickle.dumps(some))  # as a worker of Dask gets it
    xarray.testing.assert_equal(again.isel(cuts[0])["job_time"], masked.isel(cuts[0])["job_time"])
    blocks = some.isel(cuts[0]).chunk({"n_gpus": 1})
    xarray.testing.assert_equal(blocks["job_time"].compute(), masked.isel(cuts[0])["job_time"])


def test_names_are_explained() -> None:
    assert PLAIN.fleetcube.explain("goodput") == fleetcube.explain("goodput")
    assert PLAIN["job_time"].fleetcube.explain() == fleetcube.explain("job_time")
    assert PLAIN["job_time"].fleetcube.explain("gpu_mttf") == fleetcube.explain("gpu_mttf")
    between = fleetcube.interp(PLAIN, {"n_gpus": 2_000})
    said = "job_time_error [s]\n\nestimated error of job_time"
    assert between.fleetcube.explain("job_time_error") == said
    assert between["job_time_error"].fleetcube.explain() == said
    assert between.fleetcube.to_units("h")["job_time_error"].attrs["units"] == "h"
    refused("neither an input nor a quantity", PLAIN.fleetcube.explain, "no_such_name")


@pytest.mark.slow
def test_pictures_are_those_of_the_command(tmp_path: Path) -> None:
    names = [*kinds.LOSSES, *kinds.ROOFLINE, "job_time", "goodput"]
    cube = SWEEP.with_outputs(names).evaluate(settings=Settings("numpy")).isel(pipeline_parallel=1)
    line = cube.isel(gpu_mttf=1)
    in_others = line.fleetcube.to_units({"peak_flops": "TFLOP/s"})
    alone = cube[["goodput"]].drop_attrs(deep=False)  # an array has no spec
    file, other, two = tmp_path / "own.svg", tmp_path / "other.svg", kinds.LOSSES[1:3]
    gpus, mttf, best, to = "n_gpus", "gpu_mttf", ("min", "max"), {"path": str(file)}

    def drawn(picture: Any, *given: Any, **named: Any) -> bytes:
        assert picture(*given, **named, **to).axes
        return file.read_bytes()

    def same(draw: Any, *given: Any) -> bytes:
        draw(*given)
        return other.read_bytes()  # a picture drawn again has the same bytes

    own = cube.fleetcube.plot
    assert drawn(own, gpus, mttf, of="goodput") == same(plot, cube, "goodput", gpus, mttf, other)
    array = cube["goodput"].fleetcube.plot
    assert drawn(array, gpus) == same(plot, alone, "goodput", gpus, None, other)
    losses = line.fleetcube.plot.losses
    assert drawn(losses, gpus) == same(kinds.losses, line, gpus, other)
    flips = same(kinds.flips, cube, gpus, mttf, other, two)
    assert drawn(own.flips, gpus, mttf, of=two) == flips
    roofline = in_others.fleetcube.plot.roofline
    assert drawn(roofline, gpus) == same(kinds.roofline, line, other, gpus)
    assert drawn(array) == same(plot, alone, "goodput", *map(str, alone["goodput"].dims), other)
    ratios = same(plot, cube, "job_time", gpus, None, other, "min")
    assert drawn(own, gpus, of="job_time", best="min") == ratios
    with picture_options("Mine", (5, 4)):
        wide = same(kinds.losses, line, gpus, other)
    assert drawn(losses, gpus, title="Mine", size="5x4") == wide
    front = same(kinds.pareto, cube, "job_time", "goodput", other, best, gpus)
    assert drawn(own.pareto, "job_time", "goodput", best, by=gpus) == front


@pytest.mark.parametrize("kind", KINDS)
def test_pint_and_back(cubes: dict[str, xarray.Dataset], kind: str) -> None:
    cube = cubes[kind]
    quantities = cube.pint.quantify(unit_registry=unit_registry())
    assert str(quantities["job_time"].pint.units) == "s"
    xarray.testing.assert_identical(quantities.pint.dequantify().load(), cube.load())


def test_every_unit_is_read_by_pint_and_written_as_it_was() -> None:
    registry = unit_registry()
    known = {row.unit for row in INPUTS.values()} | {
        each.unit for each in PHYSICS.quantities.values()
    }
    for unit in known - {"flag"}:
        assert str(registry.parse_units(unit)) == unit
    slopes = [f"d_job_cost_d_{row.name}" for row in INPUTS.values() if row.kind == "real"]
    for slope in filter(
        None, (derivative(PHYSICS, name) for name in slopes)
    ):  # these come back in shorter form
        unit = registry.parse_units(slope.unit)
        assert registry.parse_units(str(unit)) == unit


@cases(
    "make",
    lambda path: SWEEP.reduce("min"),
    lambda path: SWEEP.solve("gpu_mttf", "goodput = 0.5"),
    lambda path: fleetcube.open_cube(path),
    lambda path: fleetcube.interp(PLAIN, {"n_gpus": 100}),
    ids=["reduce", "solve", "open_cube", "interp"],
)
def test_what_is_made_has_an_accessor(make: Any, stored: Path, monkeypatch: Patch) -> None:
    for kind in (xarray.Dataset, xarray.DataArray):  # without anything cached
        monkeypatch.delattr(kind, "fleetcube")
    monkeypatch.delitem(sys.modules, "fleetcube.accessor")
    monkeypatch.delattr(fleetcube, "accessor")
    assert make(stored).fleetcube.explain("goodput") == fleetcube.explain("goodput")


@pytest.mark.parametrize("last", ["fleetcube", "xarray, fleetcube.xarray"])
def test_what_xarray_opened_has_the_accessor(last: str, stored: Path) -> None:
    first = "xarray" if last == "fleetcube" else "fleetcube, xarray"
    code = (
        f"import {first}; cube = xarray.open_zarr({str(stored)!r}, consolidated=False); "
        f"import {last}; "
        "print(cube.fleetcube.to_units({'gpu_mttf': 'h'})['gpu_mttf'].values.tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str(HOURS), done.stderr


def test_the_accessor_keeps_no_array_alive_and_is_not_pickled() -> None:
    cube = PLAIN.copy(deep=True)
    assert cube.fleetcube.reasons()
    assert b"accessor" not in pickle.dumps(cube)
    alive = weakref.ref(cube)
    gc.disable()
    try:
        del cube
        assert alive() is None
    finally:
        gc.enable()


@each(
    ("call", "rule"),
    [
        (lambda c: c.to_units({"jobtime": "h"}), "there is no 'jobtime'; did you mean 'job_time'"),
        (lambda c: c.to_units({"job_time": "GB"}), "job_time is in s and not in 'GB'; write for"),
        (lambda c: c.to_units({"job_time": "9**9**9"}), "not in '9\\*\\*9\\*\\*9'"),
        (lambda c: c.to_units({"job_time": 3}), "job_time is in s and not in 3"),
        (lambda c: c.to_units({"dominant_overhead": "h"}), "dominant_overhead is a flag; name"),
        (lambda c: c.to_units("GB/s"), "no variable can be given in 'GB/s'; it has job_time"),
        (lambda c: c.to_units("%"), "fits every plain number; name the variables"),
        (lambda c: c.to_timedelta("goodput"), "goodput is in 1 and not in 's'"),
        (lambda c: c.to_timedelta("nothing"), "there is no 'nothing'"),
        (lambda c: c.sel(mttf="5 h"), "'mttf' is not an axis; did you mean 'gpu_mttf'"),
        (lambda c: c.sel(gpu_mttf="5 GB"), 'gpu_mttf = "5 GB" is not in s; write for example'),
        (lambda c: c.sel(gpu_mttf="50_000"), "has no unit"),
        (lambda c: c.sel(gpu_mttf=["50_000 parsec"]), "unknown unit"),
        (lambda c: c.sel(gpu_mttf="60_000 h"), "the nearest is 50000 h: give it, or method="),
        (lambda c: c.sel(gpu_mttf="5 h", n_gpus=64, method="nearest", tolerance="1 h"), "one axis"),
        (lambda c: c.plot("n_gpus"), "nothing is named to be drawn; give of, one of job_time"),
        (lambda c: c.plot("n_gpus", of="goodput", path="/no/such.png"), "there is no folder"),
        (lambda c: c.plot(of="job_time"), "varies along .*n_gpus, .*; give x, and y for a map"),
        (lambda c: c.plot("n_gpus", of="goodput", size="wide"), "such as 8x5"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_used_is_refused_in_one_line(call: Any, rule: str) -> None:
    refused(rule, call, PLAIN.fleetcube)


def test_cubes_without_units_or_reasons_and_units_from_files_are_refused() -> None:
    with pytest.raises(InputError, match="has no unit; set its attribute units"):
        PLAIN["job_time"].drop_attrs().fleetcube.to_units("h")
    with pytest.raises(InputError, match="there is no infeasible_reason; add it"):
        PLAIN.drop_vars("infeasible_reason").fleetcube.feasible()
    silent = PLAIN.copy()
    silent["infeasible_reason"].attrs = {}
    refused("has no meanings of its codes", silent.fleetcube.reasons)
    hostile = PLAIN.copy()
    hostile["gpu_mttf"].attrs["units"] = "9**9**9**9"
    refused("no known unit", hostile.fleetcube.sel, gpu_mttf="5 h")
    refused("is in 9", hostile.fleetcube.to_units, {"gpu_mttf": "h"})


def test_durations_are_no_bare_counts() -> None:
    hours = [5.0, 5000.0, 50_000.0]
    axes = {"gpu_mttf": [hour * 3600 for hour in hours]}
    cube = fleetcube.Sweep({"n_gpus": 64}, axes, ["cluster_mtbf"]).evaluate()
    long = np.timedelta64(50_000, "h")
    for value in (long, datetime.timedelta(hours=50_000), [long]):
        for method in (None, "nearest"):
            found = cube.fleetcube.sel(gpu_mttf=value, method=method)
            assert np.ravel(found["gpu_mttf"]) / 3600 == 50_000
    with pytest.raises(fleetcube.InputError, match="not on its axis"):
        cube.fleetcube.sel(gpu_mttf="6000 h", method="nearest", tolerance="1 h")


def test_names_are_never_near_each_other() -> None:
    axes = {"fabric": ["infiniband-ndr", "roce-400g"], "global_batch_size": [256, 512]}
    job = {"model": "llama-3-8b", "node": "dgx-h100", "n_gpus": 64}
    cube = fleetcube.Sweep(job, axes, ["step_time"]).evaluate()
    found = cube.fleetcube.sel(fabric="roce-400g", global_batch_size=300, method="nearest")
    assert (found["fabric"].item(), found["global_batch_size"].item()) == ("roce-400g", 256)
    refused("fabric = 'nope' is not on its axis", cube.fleetcube.sel, fabric="nope")


def test_accessors_follow_each_other_or_say_why_not() -> None:
    job = on_h100("llama-3-70b", tensor_parallel=8, pipeline_parallel=4)
    axes = {
        "n_gpus": [512, 1024, 2048],
        "gpu_mttf": {"geomspace": ["10_000 h", "90_000 h"], "num": 7},
    }
    cube = Sweep(job, axes, ["job_time", "step_time", "dominant_overhead"]).evaluate()
    plain = cube.fleetcube.prediction_interval()
    days = {"job_time": "d", "gpu_mttf": "h"}
    found = cube.fleetcube.to_units(days).fleetcube.prediction_interval()
    turned = plain.fleetcube.to_units(days)
    assert {name: found[name].attrs["units"] for name in ("job_time_low", "job_time_high")} == {
        "job_time_low": "d",
        "job_time_high": "d",
    }
    xarray.testing.assert_allclose(found, turned, rtol=1e-9)
    assert list(found.gpu_mttf.values) == list(turned.gpu_mttf.values)

    between = fleetcube.interp(plain, {"n_gpus": 700})
    hours = between.fleetcube.to_units({"job_time": "h"})
    for name in ("job_time", "job_time_error", "job_time_low", "job_time_low_error"):
        assert hours[name].attrs["units"] == "h"
        np.testing.assert_allclose(hours[name], between[name] / 3600, rtol=1e-15)
    assert hours.step_time_error.attrs["units"] == "s"
    kept = between.fleetcube.to_units({"job_time": "h", "job_time_error": "min"})
    assert (kept.job_time_error.attrs["units"], kept.job_time_low.attrs["units"]) == ("min", "h")

    refused("values between its points have no interval", between.fleetcube.prediction_interval)
    durations = cube.fleetcube.to_timedelta()
    refused(
        "job_time is a duration; look values up before",
        fleetcube.interp,
        durations,
        {"n_gpus": 700},
    )
    refused("convert units before to_timedelta", durations.fleetcube.to_units, {"job_time": "d"})
    refused(r"it has job_time \[duration\]", durations.fleetcube.to_units, "d")
