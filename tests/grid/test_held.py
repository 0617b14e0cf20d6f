"""What people hold goes in as it is: pandas, xarray, JAX, Polars, durations."""

import dataclasses
import datetime
import pickle
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray

import fleetcube
from fleetcube import Settings, Sweep

from .common import cases, refused

JOB: dict[str, Any] = {"node": "dgx-h100", "gpu_mttf": "48_000 h"}
SIZES = [64, 256, 128]


def mtbf(sizes: Any, **given: Any) -> xarray.Dataset:
    return Sweep(JOB | given, {"n_gpus": sizes}, "cluster_mtbf").evaluate()


@cases(
    "held",
    np.array(SIZES),
    pd.Index(SIZES),
    pd.Series(SIZES, index=[7, 8, 9]),
    xarray.DataArray(SIZES, dims="n_gpus"),
    ids=lambda held: type(held).__name__,
)
def test_axes_of_any_kind(held: Any) -> None:
    assert mtbf(held).identical(mtbf(SIZES))


def test_axes_of_jax() -> None:
    numbers = pytest.importorskip("jax.numpy")
    assert mtbf(numbers.array(SIZES)).identical(mtbf(SIZES))


@cases(
    "duration",
    pd.Timedelta("2000D"),
    np.timedelta64(2000, "D"),
    datetime.timedelta(days=2000),
    ids=lambda duration: type(duration).__name__,
)
def test_durations_are_seconds(duration: Any) -> None:
    found = mtbf(SIZES, gpu_mttf=duration)
    assert found.cluster_mtbf.equals(mtbf(SIZES, gpu_mttf="48_000 h").cluster_mtbf)
    refused(
        "hbm_capacity = .* is a duration; give it in B", lambda: mtbf([8], hbm_capacity=duration)
    )


def test_an_axis_of_durations() -> None:
    axes = {"gpu_mttf": pd.to_timedelta([1000, 2000], unit="D")}
    found = Sweep({"node": "dgx-h100", "n_gpus": 64}, axes, "cluster_mtbf").evaluate()
    assert found.gpu_mttf.values.tolist() == [8.64e7, 1.728e8]
    refused("gpu_mttf = NaT", mtbf, [64], gpu_mttf=pd.NaT)


def test_arrays_of_two_dimensions_keep_them() -> None:
    grid = xarray.DataArray([[64, 128], [256, 8]], dims=("b", "a"), coords={"b": ["y", "x"]})
    found = fleetcube.evaluate("cluster_mtbf", n_gpus=grid, **JOB)
    assert found.dims == ("b", "a")
    assert found.b.values.tolist() == ["y", "x"]
    assert "a" not in found.coords
    for at in np.ndindex(2, 2):
        alone = fleetcube.evaluate("cluster_mtbf", n_gpus=int(grid.values[at]), **JOB)
        assert found.values[at] == float(alone)
    other = xarray.DataArray([1.5e8, 3e8], dims="a")
    both = fleetcube.evaluate("cluster_mtbf", n_gpus=grid, node="dgx-h100", gpu_mttf=other)
    assert both.dims == ("b", "a")
    refused(
        "is both an input and a dimension",
        lambda: fleetcube.evaluate(
            "cluster_mtbf", n_gpus=grid.rename(a="gpu_mttf"), gpu_mttf=[1e8], node="dgx-h100"
        ),
    )


def test_a_lazy_frame_of_polars_is_collected() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"n_gpus": SIZES})
    found = fleetcube.evaluate_table(frame.lazy(), "cluster_mtbf", scenario=JOB)
    assert found.equals(fleetcube.evaluate_table(frame, "cluster_mtbf", scenario=JOB))


def test_counts_are_whole_numbers() -> None:
    assert mtbf(SIZES).n_gpus.dtype == np.int64
    assert mtbf([64.0, 1e6]).n_gpus.dtype == np.int64


def test_interpolation_takes_one_label_exactly() -> None:
    axes = {"node": ["dgx-h100", "dgx-a100"], "n_gpus": [64, 128, 256]}
    cube = Sweep({"gpu_mttf": 1e8}, axes, ["cluster_mtbf", "node_mttf"]).evaluate()
    found = fleetcube.interp(cube, {"node": "dgx-a100", "n_gpus": 96})
    assert found.identical(fleetcube.interp(cube.sel(node="dgx-a100"), {"n_gpus": 96}))
    refused("did you mean 'dgx-a100'", fleetcube.interp, cube, {"node": "dgx-a10"})
    refused("is not one label", fleetcube.interp, cube, {"node": ["dgx-a100"]})


def test_what_comes_out_shows_itself() -> None:
    text = fleetcube.explain("goodput")
    assert repr(text) == text
    assert text._repr_html_().startswith("<pre>goodput")
    record = fleetcube.catalog.record("gpu", "h100-sxm")
    page = record._repr_html_()
    # 3.35 TB/s, as on NVIDIA's data sheet
    cells = ("hbm_bandwidth", "3.35e+12", "B/s")
    assert "".join(re.findall("<tr>.*?</tr>", page)).count("hbm_") == 2
    row = next(row for row in re.findall("<tr>(.*?)</tr>", page) if cells[0] in row)
    assert tuple(re.findall(">([^<]+)</td>", row)) == cells
    assert record.source in page
    assert f"{fleetcube.catalog.kind('gpu')}".count(record.source) == 0, "a line for each record"
    bad = dataclasses.replace(record, title="<script>", source="a & b", values={"gpu_tdp": "<b>"})
    page = bad._repr_html_()
    assert not re.findall("<script>|a & b", page)
    assert "&lt;b&gt;" in page
    page = fleetcube.simulate_schedule(pipeline_parallel=2, num_microbatches=3)._repr_html_()
    assert "<summary>stages 2 (6)</summary>" in page  # a forward and a backward pass of each
    # 3 micro-batches fill and drain one more stage: 1 / 3
    assert re.search("bubble ratio</td><td>0.3333<", page)


def test_xarray_collapses_the_spec_in_a_notebook() -> None:
    """A Dataset's attributes hold the spec, which is long; docs name the option that hides it."""
    cube = mtbf(SIZES)
    shown = []
    for expand in (True, False):
        with xarray.set_options(display_expand_attrs=expand):
            shown.append(cube._repr_html_())
    boxes = [re.search(r"<input [^>]*><label [^>]*>Attributes:", page) for page in shown]
    assert [" checked" in box[0] for box in boxes if box] == [True, False]


def test_arrays_that_cannot_be_taken_are_refused() -> None:
    grid = xarray.DataArray([[64, 128]], dims=("a", "b"))
    index = pd.MultiIndex.from_product([[1], ["x", "y"]], names=("p", "q"))
    coords = xarray.Coordinates.from_pandas_multiindex(index, "s")
    named = xarray.DataArray([64, 128], dims="s", coords=coords)
    other = xarray.DataArray([1e8, 2e8, 3e8], dims="a")
    for words, given in (
        ("rename the dimension", {"n_gpus": grid.rename(a="cluster_mtbf")}),
        ("or no text", {"n_gpus": grid.rename(a=0)}),
        ("has a MultiIndex", {"n_gpus": named}),
        ("is not a DataArray", {"n_gpus": grid.to_dataset(name="x")}),
        ("align them", {"n_gpus": grid, "gpu_mttf": other}),
    ):
        refused(words, lambda given=given: fleetcube.evaluate("cluster_mtbf", **JOB | given))
    nodes = xarray.DataArray([["dgx-h100", "dgx-b200"]], dims=("a", "b"))
    assert fleetcube.evaluate("cluster_mtbf", n_gpus=64, node=nodes).shape == (1, 2)


def test_durations_keep_their_size_and_their_dimensions() -> None:
    years = datetime.timedelta(days=600 * 365)  # more than int64 has nanoseconds
    for long in (years, np.timedelta64(years, "s")):
        found = mtbf([64], gpu_mttf=long)
        assert found.cluster_mtbf.equals(mtbf([64], gpu_mttf=600 * 365 * 86400.0).cluster_mtbf)
    with warnings.catch_warnings(action="ignore"):  # NumPy is about to refuse it, too
        bare = np.timedelta64(5)
        refused("without a unit", mtbf, [64], gpu_mttf=bare)
    hours = xarray.DataArray(pd.to_timedelta([1000, 2000], unit="h"), dims="x")
    sizes = xarray.DataArray([64, 128], dims="x")
    found = fleetcube.evaluate("cluster_mtbf", node="dgx-h100", n_gpus=sizes, gpu_mttf=hours)
    plain = xarray.DataArray([3.6e6, 7.2e6], dims="x")
    wanted = fleetcube.evaluate("cluster_mtbf", node="dgx-h100", n_gpus=sizes, gpu_mttf=plain)
    assert found.dims == ("x",)
    np.testing.assert_array_equal(found, wanted)


def test_quantities_in_two_dimensions_keep_their_unit() -> None:
    unit = pytest.importorskip("pint").UnitRegistry()
    hours = xarray.DataArray(np.array([[1000.0, 2000.0]]) * unit.hour, dims=("a", "b"))
    plain = xarray.DataArray(np.array([[3.6e6, 7.2e6]]), dims=("a", "b"))
    both = [
        fleetcube.evaluate("cluster_mtbf", node="dgx-h100", n_gpus=64, gpu_mttf=held)
        for held in (hours, plain)
    ]
    np.testing.assert_array_equal(*both)


def test_a_sweep_without_outputs_is_copied_and_pickled() -> None:
    sweep = Sweep(JOB, {"n_gpus": [64]})
    assert pickle.loads(pickle.dumps(sweep)) == sweep
    assert sweep.replace(settings=Settings("numpy")).with_outputs("nodes").evaluate()["nodes"] == 8
