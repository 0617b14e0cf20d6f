"""A sweep evaluated again and again, of a thousand to 300 million points, and JAX alone."""

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from fleetcube.presentation.pictures.picture import new_figure, saved, styled
from fleetcube.sweep import Sweep

from . import question
from .measure import ROOT, interleave, ratio, say
from .peers.contenders import fused_jax
from .tables import Row, Table

PICTURE = ROOT / "docs" / "repeated.png"
SIZES = (  # values of two axes, and rounds; the other three have 108 points
    *((2, 5, 100), (5, 6, 100), (10, 10, 100), (17, 17, 100), (30, 31, 60), (54, 54, 60)),
    *((96, 96, 40), (157, 157, 40), (304, 304, 15), (527, 527, 9), (962, 962, 5), (1666, 1666, 3)),
)
LONGEST_WAIT = 30.0  # seconds for what is compiled behind
CONTENDERS = {
    "new": "fleetcube, a new Sweep",
    "again": "fleetcube, again",
    "out": "fleetcube, again, out=",
    "jax": "JAX alone",
}
COLUMNS = {
    "points": "points",
    **{key: f"{name}, ms" for key, name in CONTENDERS.items()},
    "new_of_jax": "a new Sweep, times JAX",
    "again_of_jax": "again, times JAX",
    "out_of_jax": "again, out=, times JAX",
    "engine": "engine again",
}


def run(quick: bool = False) -> Table:
    """The benchmark: the peers' question at each size."""
    sizes = [(s, m, 5) for s, m, _ in SIZES[:5]] if quick else SIZES
    rows = [compare(storage, mttf, rounds) for storage, mttf, rounds in sizes]
    notes = (
        "Six outputs on their own axes, job time on all five. fleetcube's answers are labelled "
        "Datasets; JAX's are bare arrays of one compiled program, called with other arrays for "
        "inputs each time it likes. `again` is `Sweep.evaluate()` of one Sweep, which keeps what "
        "does not change between calls; its results are dropped. `out=` also reuses its arrays. A "
        "new Sweep with another `training_tokens` is made and evaluated at each call: what a "
        "changed number costs. Times are medians of interleaved calls, after what is compiled "
        "behind is there; ratios are medians of those within a round, below 1 where fleetcube is "
        "faster.",
    )
    return Table("Evaluated again", COLUMNS, rows, notes)


def compare(storage: int, mttf: int, rounds: int) -> Row:
    """Milliseconds of each contender at one size."""
    sweep = question.fleet(storage, mttf)
    say(f"repeated: {sweep.points:,} points")
    result = sweep.evaluate()
    ready(sweep)

    tokens = itertools.count(15e12, 1e9)

    def new() -> Any:
        return question.fleet(storage, mttf, next(tokens)).evaluate()

    calls: dict[str, Callable[[], object]] = {
        "new": new,
        "again": sweep.evaluate,
        "out": lambda: sweep.evaluate(out=result),
        "jax": fused_jax(question.fleet(storage, mttf)),
    }
    for call in calls.values():
        call()
    times = interleave(calls, rounds)
    return {
        "points": sweep.points,
        **{key: 1e3 * median(seconds) for key, seconds in times.items()},
        **{f"{key}_of_jax": ratio(times[key], times["jax"]) for key in ("new", "again", "out")},
        "engine": sweep.evaluate().attrs["fleetcube_engine"],
    }


def ready(sweep: Sweep) -> None:
    """Evaluate again until what is compiled behind is there."""
    plan = sweep._plan()
    tables = plan.full <= plan.most_table
    end = time.monotonic() + LONGEST_WAIT
    while time.monotonic() < end:
        again = sweep.evaluate().attrs["fleetcube_engine"]
        if tables or again == "numba":
            return
        time.sleep(0.3)


@styled
def draw(rows: Sequence[Row], path: Path = PICTURE) -> None:
    """Points per second over the size."""
    figure, axes = new_figure(4.2)
    for key, name in CONTENDERS.items():
        points = [row["points"] for row in rows]
        rates = [1e3 * row["points"] / row[key] for row in rows]
        axes.plot(points, rates, "k--" if key == "jax" else "o-", markersize=4, label=name)
    axes.set(xscale="log", yscale="log", xlabel="points", ylabel="points per second")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    saved(figure, path)
