"""Values between the points of a cube: exact cases, error estimates, refusals."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import fleetcube
from fleetcube import Sweep, interp

from .common import cases, refused

HOUR = 3600.0
N_GPUS = [64.0, 300.0, 1024.0, 5000.0, 16384.0]
GPU_MTTF = [1e7, 3e7, 2e8, 1e9]


def cube(of: Any, **axes: Any) -> xarray.Dataset:
    axes = axes or {"n_gpus": N_GPUS, "gpu_mttf": GPU_MTTF}
    grids = np.meshgrid(*axes.values(), indexing="ij")
    return xarray.Dataset({"y": (tuple(axes), np.asarray(of(*grids)), {"units": "s"})}, axes)


def inside(axis: list[float], count: int, seed: int) -> Any:
    return np.exp(np.random.default_rng(seed).uniform(*np.log([axis[0], axis[-1]]), count))


def test_a_power_law_is_exact_and_its_error_none() -> None:
    def law(n: Any, m: Any) -> Any:
        return 3 * n**-1.5 * m**0.7

    at = {"n_gpus": inside(N_GPUS, 200, 1), "gpu_mttf": inside(GPU_MTTF, 200, 2)}
    found = interp(cube(law), at)
    np.testing.assert_allclose(found.y, law(*at.values()), rtol=1e-12)
    assert (found.y_error < 1e-12 * found.y).all()
    assert found.y.attrs["units"] == found.y_error.attrs["units"] == "s"


def test_values_of_either_sign_are_linear_in_the_logarithm() -> None:
    def law(n: Any, m: Any) -> Any:
        return np.log(n / 800) + 0.1 * np.log(m / 1e8)  # changes sign from 300 to 1024

    found = interp(cube(law), {"n_gpus": 700.0})
    np.testing.assert_allclose(found.y, law(700, np.array(GPU_MTTF)), rtol=1e-12)
    assert found.y.dims == ("gpu_mttf",)


def test_an_axis_from_zero_is_taken_as_it_is() -> None:
    table = cube(lambda x: np.exp(2 * x), data_parallel_overlap=[0.0, 0.3, 0.5, 1.0])
    found = interp(table, {"data_parallel_overlap": [0.1, 0.4, 0.9]})
    np.testing.assert_allclose(found.y, np.exp([0.2, 0.8, 1.8]), rtol=1e-12)


def test_points_of_the_grid_have_its_values_to_the_bit_whatever_is_beside() -> None:
    table = cube(lambda n, m: np.sin(n) * m)
    table.y[2, 1] = np.nan
    table.y[0, 0] = np.inf
    found = interp(table, {"n_gpus": table.n_gpus, "gpu_mttf": table.gpu_mttf})
    np.testing.assert_array_equal(found.y, table.y)
    assert (found.y_error == 0).sum() == table.y.size - 2


def test_nan_counts_only_where_its_corner_does() -> None:
    table = cube(lambda n, m: n * m)
    table.y[2, 1] = np.nan
    at = {"n_gpus": [1024.0, 2000.0, 300.0], "gpu_mttf": [5e7, 3e7, 5e7]}
    np.testing.assert_array_equal(np.isnan(interp(table, at).y), [True, True, False])
    np.testing.assert_allclose(interp(table, at).y[2], 300 * 5e7, rtol=1e-12)


@cases(
    "bent",
    lambda n: n + 1e5 / n,  # convex in logarithms
    lambda n: np.maximum(1e3 / n, n / 700),  # a kink inside a cell
    lambda n: 1 / (1 + n / 2000),  # concave
    lambda n: n - 2000 * np.log(n),  # changes sign, convex in log n
)
def test_the_error_bounds_what_bends_one_way(bent: Any) -> None:
    points = np.geomspace(300, 5000, 999)  # each cell has a neighbour on both sides
    found = interp(cube(bent, n_gpus=N_GPUS), {"n_gpus": points})
    wrong = np.abs(found.y - bent(points))
    assert (wrong <= found.y_error * (1 + 1e-9) + 1e-9).all()
    assert wrong.max() > found.y_error.max() / 8  # and the bound is not vacuous


def test_the_error_of_a_smooth_function_is_four_times_too_large() -> None:
    axis = np.geomspace(100, 10_000, 41)
    points = np.geomspace(150, 7000, 500)
    found = interp(cube(lambda n: 1 + n / 900, n_gpus=axis), {"n_gpus": points})
    wrong = np.abs(found.y - (1 + points / 900))
    ratio = (found.y_error / wrong.where(wrong > 1e-6)).dropna("point")
    np.testing.assert_allclose(ratio, 4, rtol=0.15)


def test_goodput_between_points_is_that_of_the_formulas_within_the_error() -> None:
    scenario = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "roce-100g"}
    axes = {"n_gpus": {"geomspace": [64, 16384], "num": 10}}
    axes |= {"gpu_mttf": {"geomspace": ["5_000 h", "500_000 h"], "num": 10}}
    held = Sweep(scenario, axes, ["goodput", "job_time"]).evaluate()
    ends = [[64.0, 16384.0], [5000 * HOUR, 500_000 * HOUR]]
    at = {name: inside(end, 500, k) for k, (name, end) in enumerate(zip(axes, ends, strict=True))}
    found = interp(held, at)
    arrays = {name: xarray.DataArray(row, dims="point") for name, row in at.items()}
    true = fleetcube.evaluate(["goodput", "job_time"], **scenario, **arrays)
    for name in ("goodput", "job_time"):
        wrong = np.abs(found[name] - true[name])
        assert (wrong <= found[f"{name}_error"]).mean() > 0.99
        assert (wrong / true[name]).median() < 0.01


def test_two_points_tell_no_error_one_is_itself_and_none_have_no_values() -> None:
    two = interp(cube(lambda n: n, n_gpus=[8.0, 32.0]), {"n_gpus": [8, 16]})
    np.testing.assert_allclose(two.y, [8, 16])
    np.testing.assert_array_equal(two.y_error, [0, np.nan])
    one = interp(cube(lambda n: n + 1, n_gpus=[8.0]), {"n_gpus": 8})
    assert (float(one.y), float(one.y_error)) == (9, 0)
    none = interp(cube(lambda n, m: n * m), {"n_gpus": []})
    assert none.y.shape == none.y_error.shape == (0, len(GPU_MTTF))


def test_flags_and_reasons_are_those_of_the_nearest_point() -> None:
    given = dict(n_gpus=[8, 60, 512], node="dgx-h100", fabric="roce-100g", model="llama-3-8b")
    held = fleetcube.evaluate(["dominant_overhead", "step_time"], **given)
    found = interp(held, {"n_gpus": [20.0, 24.0, 170.0, 180.0]})
    picks = [0, 1, 1, 2]  # geometric means: 21.9 and 175.3
    np.testing.assert_array_equal(found.dominant_overhead, held.dominant_overhead[picks])
    np.testing.assert_array_equal(found.infeasible_reason, held.infeasible_reason[picks])
    assert found.dominant_overhead.dtype == held.dominant_overhead.dtype
    assert "dominant_overhead_error" not in found


def test_order_units_and_other_axes_do_not_matter() -> None:
    table = cube(lambda n, m: n + m / 1e6).expand_dims(fabric=["a", "b"], axis=1)
    plain = interp(table, {"n_gpus": 700.0, "gpu_mttf": 40_000 * HOUR})
    assert plain.y.dims == ("fabric",)
    mixed = table.isel(n_gpus=[3, 0, 4, 2, 1], gpu_mttf=[2, 1, 3, 0])
    said = interp(mixed, {"gpu_mttf": "40_000 h", "n_gpus": "700"})
    xarray.testing.assert_identical(plain.y, said.y)
    days = xarray.DataArray([40_000 / 24], dims="point", attrs={"units": "day"})
    listed = interp(mixed, {"gpu_mttf": days, "n_gpus": [700]})
    np.testing.assert_array_equal(listed.y[0], plain.y)


def test_arrays_with_dimensions_of_their_own_make_a_grid() -> None:
    table = cube(lambda n, m: n * m)
    finer = {"n_gpus": xarray.DataArray([100.0, 200.0, 400.0], dims="n_gpus")}
    finer |= {"gpu_mttf": xarray.DataArray([[2e7, 4e7], [6e7, 8e7]], dims=("u", "v"))}
    found = interp(table, finer)
    assert found.y.dims == ("n_gpus", "u", "v")
    np.testing.assert_allclose(found.y, finer["n_gpus"] * finer["gpu_mttf"], rtol=1e-12)
    turned = interp(table.transpose("gpu_mttf", "n_gpus"), dict(reversed(finer.items())))
    np.testing.assert_allclose(turned.y.transpose("n_gpus", "u", "v"), found.y, rtol=1e-14)


def test_many_points_are_those_looked_up_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    table = cube(lambda n, m: 1 / (1 + n * m / 1e10))
    at = {"n_gpus": inside(N_GPUS, 50, 3), "gpu_mttf": inside(GPU_MTTF, 50, 4)}
    whole = interp(table, at)
    monkeypatch.setattr("fleetcube.tables.lookup.PIECE", 7)
    xarray.testing.assert_identical(interp(table, at), whole)
    for k in (0, 20, 49):  # which read less of the cube
        one = interp(table, {name: row[k] for name, row in at.items()})
        assert (float(one.y), float(one.y_error)) == (whole.y[k], whole.y_error[k])


def test_a_stored_and_a_virtual_cube_are_read_where_looked_up(tmp_path: Path) -> None:
    axes = {"n_gpus": {"geomspace": [64, 16384], "num": 30}, "fabric": ["roce-100g"]}
    sweep = Sweep({"node": "dgx-h100", "model": "llama-3-8b"}, axes, ["step_time"])
    at = {"n_gpus": [100.0, 9000.0]}
    want = interp(sweep.evaluate(), at)
    path = sweep.to_zarr(tmp_path / "a.zarr")
    np.testing.assert_array_equal(interp(fleetcube.open_cube(path), at).step_time, want.step_time)
    np.testing.assert_array_equal(interp(sweep.virtual(), at).step_time, want.step_time)


OPTIONS = {"sequence_parallel": [False, True], "recompute": [False, "full"], "zero_stage": [1, 2]}
OPTIONS |= {"gpu_mttf": [1e8, np.inf], "how": {"labels": ["a", "b"], "n_gpus": [512, 1024]}}
SPELLED: list[tuple[str, list[Any]]] = [  # spellings of the last label of an axis
    ("sequence_parallel", [True, np.True_, np.array(True), "true", "True"]),
    ("zero_stage", [2, 2.0, np.int8(2), np.array(2)]),
    ("recompute", ["full", np.str_("full"), np.array("full"), xarray.DataArray("full")]),
    ("gpu_mttf", [np.inf, "inf", np.float32(np.inf), np.array(np.inf)]),
    ("how", ["b", np.array("b")]),
]


@pytest.mark.parametrize("origin", ["evaluate", "virtual", "lazy", "stored"])
def test_every_label_that_sel_takes_is_looked_up(origin: str, tmp_path: Path) -> None:
    scenario = {"node": "dgx-h100", "fabric": "roce-100g", "model": "llama-3-8b"}
    sweep = Sweep(scenario, OPTIONS, ["job_time", "memory_per_gpu"])
    if origin == "stored":
        held = fleetcube.open_cube(sweep.to_zarr(tmp_path / "a.zarr"))
    else:
        held = getattr(sweep, origin)()
    for name, spellings in SPELLED:
        want = held.isel({name: -1}).drop_vars(name)
        for value in spellings:
            for found in (held.fleetcube.sel({name: value}), interp(held, {name: value})):
                assert name not in found.dims, (name, value)
                xarray.testing.assert_equal(found[[*want.data_vars]].drop_vars(name), want)
    off = interp(held, {"recompute": False, "sequence_parallel": np.False_})
    xarray.testing.assert_equal(off, held.isel(recompute=0, sequence_parallel=0))
    both = held.fleetcube.sel(sequence_parallel=["true", False])
    xarray.testing.assert_equal(both, held.isel(sequence_parallel=[1, 0]))


def test_a_quantity_is_a_label_and_a_point_between() -> None:
    pint = pytest.importorskip("pint")
    hours = pint.UnitRegistry().hour
    table = cube(lambda n, m: n * m, n_gpus=N_GPUS, gpu_mttf=[10_000 * HOUR, 50_000 * HOUR])
    label = interp(table, {"gpu_mttf": 50_000 * hours})
    np.testing.assert_array_equal(label.y, table.y[:, 1])
    between = interp(table, {"gpu_mttf": 20_000 * hours, "n_gpus": 1024})
    assert float(between.y) == pytest.approx(1024 * 20_000 * HOUR)


TABLE = cube(lambda n, m: n * m)
LABELLED = (
    TABLE.expand_dims(fabric=["a", "b"]).expand_dims(layout=[0, 1]).expand_dims(zero_stage=[0, 1])
)
BAD: list[tuple[Any, Any, str]] = [
    (TABLE.y, {}, "a DataArray is not a cube"),
    (TABLE, ["n_gpus"], "write {axis: value}"),
    (TABLE, {"n_gpu": 8}, "did you mean 'n_gpus'?"),
    (TABLE, {"n_gpus": 63}, "n_gpus = 63 is outside the axis, 64 to 16384"),
    (TABLE, {"n_gpus": [100, 2e4]}, "n_gpus = 20000 is outside the axis"),
    (TABLE, {"n_gpus": np.array([100, np.nan])}, "n_gpus = nan is outside the axis"),
    (TABLE, {"gpu_mttf": "4 GB"}, "gpu_mttf"),
    (TABLE, {"gpu_mttf": [[4e7]]}, "has 2 dimensions"),
    (TABLE, {"gpu_mttf": [4e7, [5e7]]}, "is not a number"),
    (TABLE, {"gpu_mttf": None}, "gpu_mttf = None is not a number"),
    (TABLE, {"n_gpus": [100, 200], "gpu_mttf": [4e7]}, "give as many for each"),
    (TABLE, {"n_gpus": xarray.DataArray([100.0], dims="gpu_mttf")}, "rename one"),
    (LABELLED, {"fabric": "z"}, "is not one label of its axis"),
    (LABELLED, {"fabric": ["a", "b"]}, "is not one label of its axis"),
    (LABELLED, {"fabric": None}, "choose from a, b"),
    (LABELLED, {"layout": 0.5}, "layout = 0.5 is not one label"),
    (LABELLED, {"zero_stage": True}, "is not one label of its axis; choose from 0, 1"),
    (LABELLED.drop_vars("layout"), {"layout": 1}, "cube.isel(layout=...)"),
    (TABLE.isel(n_gpus=[0, 0, 1]), {"n_gpus": 64}, "holds a point twice"),
    (cube(lambda m: m, gpu_mttf=[1e8, np.inf]), {"gpu_mttf": 2e8}, "is not finite"),
]


@pytest.mark.parametrize(("table", "at", "words"), BAD)
def test_what_cannot_be_looked_up_is_refused_in_one_line(table: Any, at: Any, words: str) -> None:
    refused(re.escape(words), interp, table, at)
