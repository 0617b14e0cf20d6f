"""Features beyond values: gradients, the best layout, files."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fleetcube.analysis.gradient import derivative_of
from fleetcube.sweep import Sweep

from . import question
from .gradients import moved
from .measure import interleave, say
from .peers import contenders
from .tables import Row, Table

OUTPUT, OVER = "job_time", "pipeline_parallel"
INPUTS = ("gpu_mttf", "checkpoint_write_bandwidth", "inter_node_bandwidth")
SIZES, QUICK = (24, 24, 24, 24, 8), (8, 8, 8, 8, 8)
TOOLS = ("fleetcube", "JAX alone", "xarray", "naive NumPy")
COLUMNS = {
    "asked": "asked for",
    "points": "points",
    **{tool: f"{tool}, points/s" for tool in TOOLS},
}

Ways = dict[str, Callable[[], Any]]  # by tool


def run(quick: bool = False) -> Table:
    notes = (
        f"{OUTPUT} over five axes, points per second; each tool as its users would write it, with "
        "the same formulas. fleetcube's answers are labelled Datasets, made in 2 to 3 ms at each "
        "call; the others' are bare arrays, JAX's in memory that it uses again (at 28 million "
        "points, where peers are compared, memory decides). JAX alone compiles the formulas as one "
        "program; its gradient is reverse mode on arrays of the grid. xarray and NumPy take "
        f"central differences, two evaluations for each of {len(INPUTS)} inputs, good to 1e-6 or "
        "so; the other two are "
        f"exact. The best layout is the {OVER} with the least {OUTPUT} at every point of the other "
        "axes, for which fleetcube keeps no grid. Files are Zarr, float64: fleetcube's with "
        "checksums and a journal, the others' as xarray writes them. mlsysim and llm-analysis "
        "answer one point a call, without gradients, search or files: the table of peers has "
        "their rates.",
    )
    return Table(
        "By what is asked for",
        COLUMNS,
        compare(QUICK if quick else SIZES, 3 if quick else 5),
        notes,
    )


def compare(sizes: tuple[int, ...], rounds: int) -> list[Row]:
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        questions = {
            "one output": values(question.full(sizes, outputs=[OUTPUT])),
            "six outputs": values(question.full(sizes, outputs=question.PEER_OUTPUTS)),
            f"gradient by {len(INPUTS)} inputs": gradients(question.full(sizes, outputs=[OUTPUT])),
            "best layout": layouts(question.full(sizes, outputs=[OUTPUT])),
            "a file": files(question.full(sizes, outputs=[OUTPUT]), Path(folder)),
        }
        points = question.full(sizes, outputs=[OUTPUT]).points
        for task, ways in questions.items():
            say(f"features: {task}")
            for way in ways.values():
                way()
            times = interleave(ways, rounds)
            rates = {tool: points / median(seconds) for tool, seconds in times.items()}
            rows.append({"asked": task, "points": points, **rates})
    return rows


def values(sweep: Sweep) -> Ways:
    ours = sweep.evaluate, contenders.fused_jax(sweep)
    return named(*ours, contenders.broadcast_xarray(sweep), contenders.dense_numpy(sweep))


def gradients(sweep: Sweep) -> Ways:
    _, reverse = contenders.dense_jax(sweep, OUTPUT, INPUTS)
    slopes = [derivative_of(sweep.graph, OUTPUT, name, elasticity=False).name for name in INPUTS]
    exact = sweep.with_outputs(slopes)
    return named(
        exact.evaluate,
        reverse,
        differences(sweep, contenders.broadcast_xarray),
        differences(sweep, contenders.dense_numpy),
    )


def differences(sweep: Sweep, build: Callable[[Sweep], Callable[[], Any]]) -> Callable[[], Any]:
    """Central differences with two evaluations per input."""
    pairs = []
    for name in INPUTS:
        ends = [moved(sweep, sweep._plan().problem, name, sign) for sign in (1, -1)]
        width = (ends[0][1] - ends[1][1]).drop_vars(name)
        place = [width.size if axis == name else 1 for axis in sweep._plan("numpy").sizes]
        ways = [build(near) for near, _ in ends if near is not None]
        pairs.append((ways, width, width.values.reshape(place)))

    def slopes() -> Any:
        derivatives = []
        for (above, below), labelled, plain in pairs:
            change = above()[OUTPUT] - below()[OUTPUT]
            derivatives.append(change / (plain if isinstance(change, np.ndarray) else labelled))
        return derivatives

    return slopes


def layouts(sweep: Sweep) -> Ways:
    """The label with the smallest value along one axis, for every point of the others."""
    plan = sweep._plan("numpy")
    labels = np.asarray(sweep.evaluate()[OVER].values)
    axis = list(plan.sizes).index(OVER)
    fused = contenders.fused_jax(sweep, lambda outs: outs[OUTPUT].argmin(axis))
    labelled, dense = contenders.broadcast_xarray(sweep), contenders.dense_numpy(sweep)
    return named(
        lambda: sweep.best(OUTPUT, over=OVER),
        lambda: labels[np.asarray(fused())],
        lambda: labels[labelled()[OUTPUT].argmin(OVER).values],
        lambda: labels[dense()[OUTPUT].argmin(axis)],
    )


def files(sweep: Sweep, folder: Path) -> Ways:
    import xarray

    dims = list(sweep._plan("numpy").sizes)

    def written(evaluate: Callable[[], Any]) -> Callable[[], Any]:
        def way() -> None:
            array = evaluate()[OUTPUT]
            cube = xarray.Dataset({OUTPUT: (dims, np.asarray(array))})
            cube.to_zarr(folder / "other.zarr", mode="w", zarr_format=3, consolidated=False)

        return way

    def ours() -> None:
        shutil.rmtree(folder / "ours.zarr", ignore_errors=True)
        sweep.to_zarr(folder / "ours.zarr")

    others = contenders.fused_jax, contenders.broadcast_xarray, contenders.dense_numpy
    return named(ours, *(written(build(sweep)) for build in others))


def named(*ways: Callable[[], Any]) -> Ways:
    return dict(zip(TOOLS, ways, strict=True))
