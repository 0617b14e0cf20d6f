"""Warm sweeps of full-dimension outputs against the speed at which memory can be filled."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median

import numpy as np

from fleetcube import Settings
from fleetcube.grid.spec.axis import Array
from fleetcube.kernels.engines.job import default_threads, pool
from fleetcube.sweep import Sweep

from . import question
from .measure import interleave, ratio, say
from .tables import Row, Table

TARGETS = {"fresh": 0.85, "reused": 0.75}
COLUMNS = {
    "grid": "axes",
    "dtype": "type",
    "order": "order of axes",
    "arrays": "arrays",
    "sweep_gb_per_s": "sweep GB/s",
    "fill_gb_per_s": "fill GB/s",
    "ratio": "ratio",
    "target": "target",
    "met": "met",
    "points_per_s": "grid points/s",
    "values_per_s": "values/s",
}


def run(quick: bool = False) -> Table:
    """The benchmark: two grids, two types, best and worst order, fresh and reused arrays."""
    grids = {"unequal": question.UNEVEN, "equal": question.EVEN}
    if quick:
        grids = {"unequal": (16, 32, 32, 16, 8)}
    rows: list[Row] = []
    for grid, sizes in grids.items():
        for dtype in ("float64", "float32"):
            rows += compare(grid, sizes, dtype, tries=6 if quick else 24, rounds=5 if quick else 15)
    return table(rows)


def table(rows: Sequence[Row]) -> Table:
    """The rows with their headings and notes."""
    points = max((int(row["points"]) for row in rows), default=0)
    return Table(
        "Against the memory's limit: "
        f"{points / 1e6:.3g} million points, {len(question.OUTPUTS)} outputs on all five axes",
        COLUMNS,
        rows,
        (
            f"The fill writes a constant into as many arrays with {default_threads()} threads in "
            "the same process, in turn with the sweep: fresh arrays are allocated by both each "
            "time, reused ones are not (`out=`). Ordinary stores first read the line that they "
            "overwrite; the sweep streams past the cache, which is how it can exceed the fill. "
            "Best and worst are of the orders tried in a first pass. Values are grid points times "
            "outputs. Equal axes leave the plan no long axis to put last.",
        ),
    )


def compare(grid: str, sizes: Sequence[int], dtype: str, tries: int, rounds: int) -> list[Row]:
    """Rows for the best and the worst order of the axes, into fresh and into reused arrays."""
    say(f"speed: {grid} axes, {dtype}, orders of axes")
    orders = rank(sizes, dtype, tries)
    rows: list[Row] = []
    for label, order in (("best", orders[0]), ("worst", orders[-1])):
        say(f"speed: {grid} axes, {dtype}, {label} order")
        for arrays, row in measure(question.full(sizes, order), dtype, rounds).items():
            goal = TARGETS[arrays]
            facts = {"grid": grid, "dtype": dtype, "order": label, "arrays": arrays, **row}
            rows.append({**facts, "target": goal, "met": row["ratio"] >= goal, "axes": order})
    return rows


def rank(sizes: Sequence[int], dtype: str, tries: int) -> list[tuple[str, ...]]:
    """Some orders of the axes, evenly spaced among all, fastest against a fill first."""
    every = list(itertools.permutations(question.AXES))
    scores: dict[tuple[str, ...], float] = {}
    for order in every[:: max(1, len(every) // tries)]:
        sweep = question.full(sizes, order)
        result = sweep.evaluate(dtype=dtype, settings=Settings("numba"))
        contenders: dict[str, Callable[[], object]] = {
            "fill": partial(fill, fresh(sweep, dtype)),
            "sweep": partial(sweep.evaluate, result, dtype=dtype, settings=Settings("numba")),
        }
        seconds = interleave(contenders, 4)
        scores[order] = ratio(seconds["sweep"], seconds["fill"])
    return sorted(scores, key=lambda order: scores[order])


def measure(sweep: Sweep, dtype: str, rounds: int) -> dict[str, dict[str, float]]:
    """Rates and ratio into fresh and into reused arrays."""
    result = sweep.evaluate(dtype=dtype, settings=Settings("numba"))
    reused = fresh(sweep, dtype)
    fill(reused)
    seconds = interleave(
        {
            "fill fresh": lambda: fill(fresh(sweep, dtype)),
            "sweep fresh": lambda: sweep.evaluate(dtype=dtype, settings=Settings("numba")),
            "fill reused": lambda: fill(reused),
            "sweep reused": lambda: sweep.evaluate(result, dtype=dtype, settings=Settings("numba")),
        },
        rounds,
    )
    size = sum(array.nbytes for array in reused)
    values = sweep.points * len(question.OUTPUTS)
    rows = {}
    for arrays in TARGETS:
        swept, filled = seconds[f"sweep {arrays}"], seconds[f"fill {arrays}"]
        rows[arrays] = {
            "sweep_gb_per_s": size / median(swept) / 1e9,
            "fill_gb_per_s": size / median(filled) / 1e9,
            "ratio": ratio(filled, swept),
            "points_per_s": sweep.points / median(swept),
            "values_per_s": values / median(swept),
            "points": sweep.points,
        }
    return rows


def fresh(sweep: Sweep, dtype: str) -> list[Array]:
    """Arrays as large as the outputs, not yet touched."""
    return [np.empty(sweep.points, dtype) for _ in question.OUTPUTS]


def fill(arrays: Sequence[Array]) -> Sequence[Array]:
    """Write a constant into every array, each thread its part; the arrays outlive the timing."""
    threads = default_threads()

    def fill_share(k: int) -> None:
        for array in arrays:
            array[k * array.size // threads : (k + 1) * array.size // threads].fill(1.5)

    pool(threads).each(fill_share, range(threads))
    return arrays
