"""Points per second next to other tools, and to simpler ways to the same numbers."""

import json
from collections.abc import Callable
from statistics import median
from typing import Any

from fleetcube import Settings
from fleetcube.sweep import Sweep

from .. import question
from ..measure import interleave, say
from ..tables import Table
from . import contenders, environments

TARGET = 1_000_000.0
COLUMNS = {
    "tool": "tool",
    "outputs": "answers",
    "points": "points timed",
    "points_per_s": "points/s",
    "slower": "fleetcube is faster by",
    "target": "target",
    "met": "met",
}
NOTES = (
    "One question, one run: Llama 3 70B on DGX H100, cluster size x layout x fabric x GPU "
    "reliability x checkpoint storage; step time, communication share, cluster MTBF, checkpoint "
    "interval, goodput and job time at every point. fleetcube, xarray and JAX give each output on "
    "its own dimensions; job time has all of them.",
    "mlsysim is called as its interface is meant, one configuration a call, with no memory between "
    "calls. Its step does not depend on failures or storage: a user who keeps the step of each "
    "configuration and re-evaluates only reliability reaches about ten times its rate on such a "
    "grid (4,400 to 4,800 points/s where it was tried). llm-analysis has no failures or "
    "checkpoints and answers the step time only.",
    "JAX alone and xarray evaluate the same formulas as arrays that broadcast, JAX compiled as one "
    "program. Naive NumPy evaluates every formula on arrays of the full grid.",
)


def run(quick: bool = False, install: bool = True) -> Table:
    """The benchmark. `install` makes the peers' environments if they are missing."""
    small, large = ((24, 24), (64, 64)) if quick else ((128, 128), (512, 512))
    rows = compare(small, large, rounds=3 if quick else 7)
    if install:
        sweep = question.fleet(*large)
        sweep.evaluate()
        rows += [compare_peer(name, sweep, 100 if quick else 300) for name in PEERS]
    return Table("Beside peers, on the same question", COLUMNS, rows, NOTES)


def compare(small: tuple[int, int], large: tuple[int, int], rounds: int) -> list[dict[str, Any]]:
    """Contenders in this process, in turn. Naive NumPy takes the small grid, to fit in memory."""
    dense, sweep = question.fleet(*small), question.fleet(*large)
    say("peers: contenders in this process")
    result, on_jax = sweep.evaluate(), sweep.evaluate(settings=Settings("jax"))
    entries: dict[str, tuple[Sweep, Callable[[], object]]] = {
        "fleetcube": (sweep, sweep.evaluate),
        "fleetcube, reused arrays": (sweep, lambda: sweep.evaluate(out=result)),
        "fleetcube, NumPy engine": (sweep, lambda: sweep.evaluate(settings=Settings("numpy"))),
        "fleetcube, JAX engine": (sweep, lambda: sweep.evaluate(settings=Settings("jax"))),
        "fleetcube, JAX engine, reused arrays": (
            sweep,
            lambda: sweep.evaluate(out=on_jax, settings=Settings("jax")),
        ),
        "JAX alone, one jit": (sweep, contenders.fused_jax(sweep)),
        "xarray broadcasting": (sweep, contenders.broadcast_xarray(sweep)),
        "naive NumPy, full grid": (dense, contenders.dense_numpy(dense)),
    }
    for _, contender in entries.values():
        contender()
    seconds = interleave({name: contender for name, (_, contender) in entries.items()}, rounds)
    rates = {name: entries[name][0].points / median(seconds[name]) for name in entries}
    return [
        row(name, "all", entries[name][0].points, rate, rates["fleetcube"])
        for name, rate in rates.items()
    ]


PEERS = {
    "mlsysim": ("mlsysim_points.py", ("mlsysim==0.3.0",), "all", TARGET),
    "llm-analysis": (
        "llm_analysis_points.py",
        ("--no-deps", "llm-analysis==0.2.2", "fire==0.7.1", "termcolor"),
        "step time",
        None,
    ),
}


def compare_peer(name: str, sweep: Sweep, points: int) -> dict[str, Any]:
    """A peer in its own environment, three processes in turn with the sweep.

    If it cannot be installed, its row says why.
    """
    say(f"peers: {name}")
    script, requirements, answers, target = PEERS[name]
    rates, factors, release = [], [], ""
    try:
        interpreter = environments.ready(name, requirements)
        for _ in range(3):
            ours = sweep.points / median(interleave({"sweep": sweep.evaluate}, 3)["sweep"])
            run = json.loads(environments.script(interpreter, script, "--points", str(points)))
            release = run["version"]
            rates.append(float(run["points_per_second"]))
            factors.append(ours / rates[-1])
    except (RuntimeError, ValueError, KeyError) as error:
        return {"tool": f"{name}: skipped, {error}", "outputs": answers}
    rate = median(rates)
    return row(f"{name} {release}", answers, points, rate, median(factors) * rate, target)


def row(
    tool: str, answers: str, points: int, rate: float, ours: float, target: float | None = None
) -> dict[str, Any]:
    """One line of the table."""
    return {
        "tool": tool,
        "outputs": answers,
        "points": points,
        "points_per_s": rate,
        "slower": ours / rate,
        "target": target,
        "met": None if target is None else ours / rate >= target,
    }
