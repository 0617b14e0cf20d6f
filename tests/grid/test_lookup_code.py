"""Files of code that look a variable up give the values of `interp`, and errors that bound them."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from fleetcube import Settings, Sweep, interp
from fleetcube.tables.lookup_code import MOST
from fleetcube.tables.tables import export

from .common import cases, refused

SCENARIO: dict[str, Any] = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
SCENARIO |= {"tensor_parallel": 8}
MAIN = """
#include <stdio.h>
#include "a.c"
int main(void) {
    double point[COUNT], error;
    for (;;) {
        for (int k = 0; k < COUNT; k++) if (scanf("%lf", point + k) != 1) return 0;
        double value = NAME_lookup(point, &error);
        printf("%.17g %.17g\\n", value, error);
    }
}
"""


def c(folder: Path, name: str, points: Any) -> Any:
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    main = MAIN.replace("COUNT", str(points.shape[1])).replace("NAME", name)
    (folder / "main.c").write_text(main, encoding="utf-8")
    build = ["cc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-o", "a", "main.c", "-lm"]
    subprocess.run(build, cwd=folder, check=True)
    lines = "\n".join(" ".join(f"{number:.17g}" for number in point) for point in points.tolist())
    done = subprocess.run(["./a"], cwd=folder, input=lines, capture_output=True, text=True)
    return np.array([line.split() for line in done.stdout.splitlines()], float)


def mjs(folder: Path, name: str, points: Any) -> Any:
    if not shutil.which("node"):
        pytest.skip("no Node")
    rows = f"{json.dumps(points.tolist())}.map(p => Object.values(lookup(...p)).map(String))"
    code = f'import("./a.mjs").then(({{lookup}}) => console.log(JSON.stringify({rows})))'
    done = subprocess.run(["node", "-e", code], cwd=folder, capture_output=True, text=True)
    return np.array(json.loads(done.stdout or done.stderr), float)


def asked(name: str, points: Any) -> str:
    rows = ", ".join(f"({', '.join(map(repr, point))})" for point in points.tolist())
    return f"INSERT INTO {name}_asked VALUES {rows}"


def in_order(rows: Any, points: Any) -> Any:
    """Values and errors at the points; a row that there is not has neither."""
    found = {tuple(map(float, row[:-2])): row[-2:] for row in rows}
    none = (np.nan, np.nan)
    return np.array([found.get(tuple(point), none) for point in points.tolist()], float)


def sqlite(folder: Path, name: str, points: Any) -> Any:
    import sqlite3

    table = sqlite3.connect(":memory:")
    if ("ENABLE_MATH_FUNCTIONS",) not in table.execute("PRAGMA compile_options").fetchall():
        pytest.skip("SQLite has no logarithms")
    table.executescript((folder / "a.sql").read_text(encoding="utf-8"))
    table.execute(asked(name, points))
    return in_order(table.execute(f"SELECT * FROM {name}_lookup").fetchall(), points)


def duckdb(folder: Path, name: str, points: Any) -> Any:
    table = pytest.importorskip("duckdb").connect()
    table.execute((folder / "a.sql").read_text(encoding="utf-8"))
    table.execute(asked(name, points))
    return in_order(table.execute(f"FROM {name}_lookup").fetchall(), points)


READERS: dict[str, Callable[[Path, str, Any], Any]] = {
    each.__name__: each for each in (c, mjs, sqlite, duckdb)
}
AXES: dict[str, Any] = {
    "n_gpus": {"geomspace": [64, 16384], "num": 17},
    "gpu_mttf": {"geomspace": ["5_000 h", "500_000 h"], "num": 9},
}
TABLES: dict[str, tuple[dict[str, Any], str, Settings]] = {
    "two axes": (AXES, "goodput", Settings("numpy")),
    "one axis, from 0, downwards": (
        {"restart_time": {"linspace": [3600, 0], "num": 5}, "n_gpus": [1024]},
        "job_time",
        Settings("numpy"),
    ),
    "below 0": (AXES, "d_job_time_d_gpu_mttf", Settings("numpy")),
    "not everywhere": (
        AXES | {"n_gpus": [60, 64, 128, 512], "recovery_time": [0, 60, 3600]},
        "job_time",
        Settings("numpy", "exclude"),
    ),
}


@cases("what", *TABLES)
@cases("reader", *READERS)
def test_the_code_looks_up_what_interp_does(tmp_path: Path, reader: str, what: str) -> None:
    axes, name, settings = TABLES[what]
    cube = Sweep(SCENARIO, axes, [name]).evaluate(settings=settings).squeeze()
    ending = {"c": ".c", "mjs": ".mjs"}.get(reader, ".sql")
    export(cube, tmp_path / f"a{ending}")
    dims, drawn = [str(dim) for dim in cube[name].dims], np.random.default_rng(0)
    nodes = [np.sort(cube[dim].values) for dim in dims]
    points = np.array([drawn.uniform(x[0], x[-1], 30) for x in nodes]).T
    points = np.vstack(
        [points, [x[0] for x in nodes], [x[-1] for x in nodes], [x[1] for x in nodes]]
    )
    at = {dim: xarray.DataArray(row, dims="point") for dim, row in zip(dims, points.T, strict=True)}
    whole = interp(cube[[name]], at)
    found = READERS[reader](tmp_path, name, points)
    np.testing.assert_allclose(found[:, 0], whole[name], rtol=1e-12)
    assert np.isnan(found[:, 0]).any() == (what == "not everywhere")
    least = np.abs(whole[f"{name}_error"].values)
    known = np.isfinite(found).all(axis=1) & np.isfinite(least)
    assert known.sum() > 5
    assert (np.abs(found[known, 1]) >= least[known] * 0.99).all()
    outside = points[:3] * np.array([[0.5], [-1], [2]])
    outside[0, 1:], outside[2, 1:] = points[0, 1:], points[2, 1:]
    outside[0, 0], outside[2, 0] = nodes[0][0] - 1, nodes[0][-1] + 1
    assert np.isnan(READERS[reader](tmp_path, name, outside)).all()


def test_the_head_states_axes_and_the_error(tmp_path: Path) -> None:
    cube = Sweep(SCENARIO, AXES, ["job_time"]).evaluate()
    for ending in (".c", ".mjs", ".sql"):
        export(cube, tmp_path / f"a{ending}")
        head = (tmp_path / f"a{ending}").read_text(encoding="utf-8")[:900]
        assert "job_time [s] by" in head
        assert "calibration auto: " in head  # a remark of the cube
        assert "gpu_mttf [s], 9 from 1.8e+07 to 1.8e+09" in head
        drawn = np.random.default_rng(1).uniform(size=(2, 2000))
        ends = [np.log(cube[axis].values[[0, -1]]) for axis in AXES]
        at = [np.exp(low + (high - low) * u) for (low, high), u in zip(ends, drawn, strict=True)]
        cells = interp(cube, dict(zip(AXES, at, strict=True)))
        most = 100 * float((cells["job_time_error"] / cells["job_time"]).max())
        stated = float(head.split("at most ")[1].split()[0])
        assert most <= stated * 1.05 < 1.5 * most


def test_the_head_states_the_job_and_the_points_that_cannot_run(tmp_path: Path) -> None:
    axes = {"n_gpus": [64, 100, 128], "gpu_mttf": ["5_000 h", "50_000 h"]}  # 100: no whole nodes
    job = {**SCENARIO, "precision": "fp8", "fabric": "infiniband-ndr"}
    axes |= {"fabric": ["roce-400g", "infiniband-ndr"]}
    cube = Sweep(job, axes, ["job_time"]).evaluate().sel(fabric="roce-400g")
    export(cube, tmp_path / "a.c")
    head = (tmp_path / "a.c").read_text(encoding="utf-8").partition("*/")[0]
    assert "model llama-3-8b, node dgx-h100, fabric roce-400g, tensor_parallel 8, pre" in head
    assert " * 2 of 6 points cannot run: their values are as computed\n" in head
    left = Sweep(job, axes, ["job_time"]).evaluate(settings=Settings("numpy", "exclude"))
    export(left.sel(fabric="roce-400g"), tmp_path / "b.c")
    assert "cannot run" not in (tmp_path / "b.c").read_text(encoding="utf-8")


@cases(
    "axes, outputs, told",
    (AXES, ["goodput", "job_time"], "holds one number, not goodput, job_time; name it: -v NAME"),
    (AXES, ["dominant_overhead"], "holds one number"),
    ({**AXES, "fabric": ["roce-100g", "infiniband-ndr"]}, ["job_time"], "cut it: fabric=LABEL"),
    ({**AXES, "gpu_mttf": ["50_000 h"]}, ["goodput"], "gpu_mttf is no axis of numbers"),
    ({"n_gpus": {"arange": [8, 8 * MOST + 16, 8]}}, ["cluster_mtbf"], "from 2 to 100,000"),
)
def test_what_has_no_code_is_refused(
    tmp_path: Path, axes: dict[str, Any], outputs: list[str], told: str
) -> None:
    cube = Sweep(SCENARIO, axes, outputs).evaluate()
    refused(told, export, cube, tmp_path / "a.c")
    assert not list(tmp_path.iterdir())


def test_values_that_cannot_be_interpolated_alike_are_refused(tmp_path: Path) -> None:
    cube = Sweep(SCENARIO, AXES, ["job_time"]).evaluate()
    for value in (np.inf, 0.0, -1.0):
        cube["job_time"][0, 0] = value
        refused("not finite everywhere, or above 0 in some", export, cube, tmp_path / "a.sql")
