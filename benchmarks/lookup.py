"""Table look-ups: seconds and errors, compared with xarray and the formulas."""

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from fleetcube.grid.spec.axes import coupled_axis
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.sweep import Sweep
from fleetcube.tables.lookup import interp

from .measure import interleave, ratio, say
from .tables import Row, Table

OUTPUTS = ("goodput", "job_time")
SCENARIO = {
    "model": "llama-3-70b",
    "node": "dgx-h100",
    "fabric": "infiniband-ndr",
    "calibration": "none",
}
RANGES = {
    "n_gpus": (64.0, 16384.0),
    "gpu_mttf": (2e7, 2e9),
    "checkpoint_write_bandwidth": (1e10, 1e12),
    "detection_time": (10.0, 1000.0),
}
SIDE = 33
COLUMNS = {
    "of": "output",
    "axes": "axes",
    "cells": "points of the table",
    "contender": "way",
    "rate": "points/s",
    "of_ours": "seconds, interp = 1",
    "error": "median error",
    "worst": "99 % below",
    "covered": "within its estimate",
}


def run(quick: bool = False) -> Table:
    points = 10_000 if quick else 1_000_000
    rows = [
        row
        for output in OUTPUTS
        for axes in (2, 4)
        for row in compare(output, axes, points, 3 if quick else 7)
    ]
    notes = (
        f"{points:,} random points, evenly in logarithms, in a table of {SIDE} points on "
        "each axis, in memory; errors are relative to the formulas. interp gives values and "
        "estimates of their errors; xarray's is linear in values and axes and gives values alone. "
        "Kernels are compiled before the clock starts.",
    )
    return Table("Looking values up", COLUMNS, rows, notes)


def compare(output: str, axes: int, points: int, rounds: int) -> list[Row]:
    """Rows for the table's lookup, xarray's, and the evaluation of every point."""
    import xarray

    say(f"lookup: {output} over {axes} axes")
    ranges = dict(list(RANGES.items())[:axes])
    grid = {name: np.geomspace(*ends, SIDE) for name, ends in ranges.items()}
    cube = Sweep(SCENARIO, grid, [output]).evaluate()[[output]]
    random = np.random.default_rng(0)
    points_at = {
        name: xarray.DataArray(np.exp(random.uniform(*np.log(ends), points)), dims="point")
        for name, ends in ranges.items()
    }
    numbers = {name: row.values for name, row in points_at.items()}
    axis = coupled_axis(PHYSICS, "point", np.arange(points), numbers)
    direct = Sweep(SCENARIO, {"point": axis}, [output])
    contenders: dict[str, Callable[[], Any]] = {
        "fleetcube.interp": lambda: interp(cube, numbers),
        "xarray interp": lambda: cube.interp(points_at),
        "the formulas": direct.evaluate,
    }
    answers = {name: contender() for name, contender in contenders.items()}
    true = answers["the formulas"][output].values
    seconds = interleave(contenders, rounds)
    rows: list[Row] = []
    for name, row_seconds in seconds.items():
        wrong = np.abs(answers[name][output].values - true)
        row: dict[str, Any] = {
            "of": output,
            "axes": axes,
            "cells": SIDE**axes,
            "contender": name,
            "rate": points / median(row_seconds),
            "of_ours": ratio(row_seconds, seconds["fleetcube.interp"]),
        }
        if name != "the formulas":
            row["error"] = float(np.median(wrong / true))
            row["worst"] = float(np.quantile(wrong / true, 0.99))
        if name == "fleetcube.interp":
            estimate = answers[name][f"{output}_error"].values
            row["covered"] = f"{100 * (wrong <= estimate).mean():.2f} %"
        rows.append(row)
    return rows
