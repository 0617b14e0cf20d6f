"""Idioms of xarray, NumPy, pandas and others with the texts of a cube, wherever it comes from."""

import copy
import io
import json
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import xarray

import fleetcube
from fleetcube import Sweep
from fleetcube.grid.store.cube import stored_cube

from .common import on_h100

AXES: dict[str, Any] = {"recompute": [False, "selective", "full"], "n_gpus": [512, 1024]}
AXES |= {"how": {"labels": ["few", "many"], "gpu_mttf": [1e8, 1e9], "fabric": ["roce-100g"] * 2}}
SWEEP = Sweep(on_h100("llama-3-70b", tensor_parallel=8), AXES, ["job_time", "memory_per_gpu"])
ORIGINS: dict[str, Callable[[Path], xarray.Dataset]] = {
    "evaluated": lambda path: SWEEP.evaluate(),
    "virtual": lambda path: SWEEP.virtual(),
    "lazy": lambda path: SWEEP.lazy(),
    "stored": fleetcube.open_cube,
    "chunked": lambda path: fleetcube.open_cube(path, chunks={}),
    "unchecked": lambda path: fleetcube.open_cube(path, verify=False),
    "opened by xarray": lambda path: xarray.open_dataset(path, engine="fleetcube"),
    "netCDF": lambda path: fleetcube.open_cube(path.with_suffix(".nc"), verify=False),
}


def saved(function: Callable[..., Any], *values: Any) -> Any:
    buffer = io.BytesIO()
    function(buffer, *values)
    return np.load(io.BytesIO(buffer.getvalue()), allow_pickle=False)


def pictured(draw: Callable[[], Any]) -> list[str]:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.close("all")
    draw()
    axes = pyplot.gca()
    found = [text.get_text() for text in (*axes.get_xticklabels(), *axes.get_yticklabels())]
    pyplot.close("all")
    return found


def written(cube: xarray.Dataset) -> Any:
    pytest.importorskip("netCDF4")
    with tempfile.TemporaryDirectory() as folder:
        cube.to_netcdf(f"{folder}/a.nc", engine="netcdf4")
        return xarray.load_dataset(f"{folder}/a.nc", engine="netcdf4")["recompute"].values


def table(cube: xarray.Dataset) -> Any:
    return cube["job_time"].isel(how=0)


IDIOMS: dict[str, Callable[[xarray.Dataset], Any]] = {
    "type": lambda c: c["recompute"].dtype.str,
    "type of a coordinate": lambda c: c["fabric"].dtype.str,
    "plot of two axes": lambda c: pictured(lambda: table(c).plot()),
    "plot of lines": lambda c: pictured(lambda: table(c).plot.line(x="recompute")),
    "plot of hues": lambda c: pictured(lambda: table(c).plot.line(hue="recompute")),
    "scatter": lambda c: pictured(lambda: c.isel(how=0).plot.scatter(x="n_gpus", y="job_time")),
    "astype U": lambda c: c["recompute"].astype("U"),
    "astype S": lambda c: c["recompute"].values.astype("S"),
    "astype str": lambda c: c["recompute"].astype(str),
    "astype object": lambda c: c["recompute"].astype(object).values,
    "np.save": lambda c: saved(np.save, c["recompute"].values),
    "np.savez": lambda c: saved(np.savez, c["recompute"].values)["arr_0"],
    "np.rec": lambda c: np.rec.fromarrays([c["recompute"].values, range(3)]).tolist(),  # type: ignore[call-overload]
    "structured": lambda c: np.array([*zip(c["how"].values, "ab", strict=True)], "U4,U1").tolist(),
    "memoryview": lambda c: bytes(memoryview(c["recompute"].values).cast("B")),
    "tobytes": lambda c: c["recompute"].values.tobytes(),
    "np.char": lambda c: np.char.upper(c["recompute"].values),
    "np.strings": lambda c: np.strings.find(c["recompute"].values, "l"),
    "str accessor": lambda c: c["recompute"].str.upper(),
    "str contains": lambda c: c["recompute"].str.contains("l"),
    "np.unique": lambda c: np.unique(c["recompute"].values),
    "np.isin": lambda c: np.isin(c["recompute"].values, ["full"]),
    "np.argsort": lambda c: np.argsort(c["recompute"].values),
    "np.searchsorted": lambda c: np.searchsorted(np.sort(c["recompute"].values), "full"),
    "np.concatenate": lambda c: np.concatenate([c["recompute"].values, ["a"]]),
    "np.where": lambda c: np.where(c["recompute"] == "full", "yes", c["recompute"]),
    "np.savetxt": lambda c: np.loadtxt(
        io.StringIO("\n".join(f"{word}" for word in c["recompute"].values)), dtype=str
    ),
    "sel": lambda c: c["job_time"].sel(recompute="full", how=["many"]),
    "sel by array": lambda c: c["job_time"].sel(recompute=c["recompute"][[2, 0]]),
    "where": lambda c: c["job_time"].where(c["recompute"] != "full", drop=True),
    "groupby": lambda c: c["job_time"].groupby("recompute").mean(),
    "groupby a coordinate": lambda c: c["job_time"].groupby("fabric").first(),
    "sortby": lambda c: c["job_time"].sortby("recompute"),
    "idxmin": lambda c: table(c).idxmin("recompute").values.tolist(),
    "concat": lambda c: xarray.concat([table(c), table(c)], pandas.Index(["a", "b"], name="of")),
    "merge": lambda c: xarray.merge([c[["job_time"]], c[["memory_per_gpu"]]], compat="override")[
        "job_time"
    ],
    "reindex": lambda c: table(c).reindex(recompute=["full", "none"]),
    "stack": lambda c: table(c).stack(row=["recompute", "n_gpus"]).values,
    "dataframe": lambda c: c["job_time"].to_dataframe().reset_index()["recompute"].tolist(),
    "unstack": lambda c: table(c).to_series().unstack().to_numpy(),
    "categories": lambda c: pandas.Categorical(c["recompute"].values).codes,
    "json": lambda c: json.dumps(c["recompute"].values.tolist()),
    "to_dict": lambda c: table(c).to_dict()["coords"]["recompute"]["data"],
    "pickle": lambda c: pickle.loads(pickle.dumps(table(c).load())),
    "deepcopy": lambda c: copy.deepcopy(table(c)),
    "netCDF": lambda c: written(c[["job_time"]]),
    "arrow": lambda c: pytest.importorskip("pyarrow").array(c["recompute"].values).to_pylist(),
    "item": lambda c: f"{c['recompute'].values[-1]:>9}|{c['recompute'][2].item()!r}",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = Path(SWEEP.to_zarr(tmp_path_factory.mktemp("idioms") / "a.zarr"))
    SWEEP.evaluate().to_netcdf(target.with_suffix(".nc"))
    return target


@pytest.mark.parametrize("origin", list(ORIGINS)[1:])
def test_idioms_work_the_same_wherever_a_cube_comes_from(origin: str, path: Path) -> None:
    wanted, given = SWEEP.evaluate(), ORIGINS[origin](path)
    wrong = {}
    for name, idiom in IDIOMS.items():
        try:
            want = idiom(wanted)
            found = idiom(given)
            if isinstance(want, xarray.DataArray):
                xarray.testing.assert_equal(found, want)
                assert found.dtype == want.dtype
            else:
                np.testing.assert_array_equal(found, want)
        except Exception as error:  # every idiom that fails is named
            wrong[name] = f"{type(error).__name__}: {error}"[:200]
    assert not wrong


def test_a_cube_opened_for_tables_has_the_types_of_results_and_reads_no_value(path: Path) -> None:
    cube = stored_cube(str(path))
    assert {name: row.dtype.str for name, row in cube.variables.items()} == {
        name: row.dtype.str for name, row in SWEEP.evaluate().variables.items()
    }
    for name in cube.data_vars:
        assert "values" not in vars(cube[name]), name
