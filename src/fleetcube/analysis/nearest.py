"""The nearest feasible cluster, batch or layout, if nothing can run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.result import along
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.axis import Array
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import HEADROOM, RUN_STEPS, STEPS
from fleetcube.scenario.along_axes import point
from fleetcube.tables.tables import meanings

from .layouts import ALWAYS, LAYOUT, WHOLE, best_layouts, candidates, freed, in_command
from .pareto import sign_of
from .sensitivity import frozen
from .targets import whole_unit

NEAREST = "fleetcube_nearest"  # the attribute that holds the line
MOST = 1 << 22  # points evaluated for each of cluster and batch
EACH = 1 << 14  # whole multiples tried on each side of a value before they are thinned out
MOST_POINTS = 100_000  # of a grid without an answer
_FAR = 2.0  # factor up to which clusters and batches are tried
(GPUS,), (BATCH,) = STEPS, RUN_STEPS
_CLOSE, _ALIKE = 0.1, 1.02  # batches compared, times that are the same
_NONE = "none tried within"
_WORDS = {GPUS: "GPUs", BATCH: "sequences"}
_MOST_LINES = 3  # points without an answer, each with a line
_MEMORY = "out_of_memory"
_TOO_LARGE = {  # reasons of the size alone
    "larger_than_site": "more than the site powers, cools or has racks for",
    "larger_than_contract": "more than the contract has",
}
_NOT_DIVIDED = {"gpus_not_divisible", "batch_not_divisible", "batch_smaller_than_data_parallel"}


def nearest(
    scenario: Mapping[str, Any],
    output: str,
    search: Sequence[str] = (),
    fixed: str = "",
    why: Mapping[str, int] | None = None,
) -> str:
    """Why a point cannot run, and the nearest that can, in one line; empty if it can run, or that
    is unknown. `search` names the inputs that are searched at the point (see `Sweep.best`), `fixed`
    one that stays; `why` has the reasons of what was searched with their counts, where known."""
    sweep = Evaluation(scenario, {}, [output])
    if not is_known(scenario, {}, [REASON]):
        return ""
    tried = candidates(sweep, output, search, alone=False) if search else {}
    sure = {HEADROOM: True, **scenario} if tried else dict(scenario)
    if why is None:
        reasons = _reasons(sure, tried)
        if reasons is None or (reasons == 0).any():
            return ""
        codes, counts = np.unique(reasons.values, return_counts=True)
        why = dict(zip(meanings(reasons.attrs, codes), counts.tolist(), strict=True))
    problem, numbers = frozen(sweep._plan("numpy"))
    now = {name: numbers[name] for name in (GPUS, BATCH) if name in numbers}
    runnable, thinned = {}, ""
    each = max(1, min(EACH, MOST // (8 * math.prod(map(len, tried.values())))))
    for name, value in ((name, value) for name, value in now.items() if name != fixed):
        unit = whole_unit(problem, name)
        is_too_large = name == GPUS and not _TOO_LARGE.keys().isdisjoint(why)
        around, step = _around(value, unit, each, math.inf if is_too_large else _FAR)
        first = _first(sure, output, search, name, around)
        if first is None:
            continue
        runnable[name], slower = first, ""
        if tried:
            runnable[name], slower = _quicker(sure, output, search, now, name, first)
        thinned += slower
        if step > unit and abs(runnable[name] - value) > each * unit:
            thinned += (
                f"; more than {each * unit:,} {_WORDS[name]} off, only multiples of {step:,.0f} "
                "were tried"
            )
    layout = _other(sure, output) if not tried else ""
    return _line(now, _why(why, now, bool(tried)), runnable, layout) + thinned


def nearest_batch(scenario: Mapping[str, Any], batch: float) -> float | None:
    """The batch nearest to one, up to a factor of two, with which a scenario can run."""
    return _first(scenario, REASON, (), BATCH, _around(batch, 1, EACH)[0])


def nearest_of_points(sweep: Evaluation, output: str, search: Sequence[str], layouts: Any) -> str:
    """`nearest` at the first points at which no layout can run, a line each."""
    axes, lines, reasons = make_axes(sweep.graph, sweep.spec["axes"]), [], layouts[REASON]
    rows = [row.split() for row in layouts.attrs["fleetcube_infeasible"].split(", ")]
    why = {word: int(count.replace(",", "")) for count, word in rows} if reasons.size == 1 else None
    for place in np.argwhere(reasons.values != 0)[:_MOST_LINES].tolist():
        place_of = dict(zip(map(str, reasons.dims), place, strict=True))
        several = (n for n in place_of if n != GPUS and axes[n].size > 1)
        labels = [f"{n} {in_command(axes[n].labels[place_of[n]])}: " for n in several]
        line = nearest(point(sweep, place_of), output, search, why=why)
        lines += ["".join(labels) + line] * bool(line)
    return "\n".join(lines)


def nearest_of_ranges(sweep: Evaluation, output: str, ranges: Mapping[str, Sequence[Any]]) -> str:
    """`nearest` at the last values of ranges, or at the first if none can run near these."""
    lines = []
    for end in (-1, 0):
        inputs = {name: values.number(sweep.graph, name, row[end]) for name, row in ranges.items()}
        ends = {
            n: math.floor(v) if values.is_whole(sweep.graph, n) else v for n, v in inputs.items()
        }
        lines.append(nearest({**point(sweep), **ends}, output))
    return next((line for line in lines if line and _NONE not in line), lines[0])


def nearest_of_grid(sweep: Evaluation, output: str, sense: str, bound: bool = False) -> str:
    """`nearest` at the best point regardless of feasibility; of more than MOST_POINTS only the ends
    of axes count. Empty if some can run but none meets the conditions (`bound`)."""
    if not is_known(sweep.spec["scenario"], sweep.spec["axes"], [REASON]):
        return ""
    axes = make_axes(sweep.graph, sweep.spec["axes"])
    if sweep.points > MOST_POINTS:
        ends = {n: axis.cut(np.unique([0, axis.size - 1])) for n, axis in axes.items()}
        sweep = sweep.replace(axes=ends)
    if sweep.points > MOST_POINTS:
        return ""
    cube = sweep.with_outputs([output, REASON]).evaluate(settings=Settings("numpy", "include"))
    if (fits := int(((cube[REASON] == 0) & np.isfinite(cube[output])).sum())) > 0:
        share = f"{fits:,} of {cube[REASON].size:,} points"
        text = f"{share} fit in memory if the model of it is right: {HEADROOM} = false counts them"
        return "" if bound else text
    row = sign_of(sense) * cube[output].values
    if not np.isfinite(row).any():
        return ""
    index = np.unravel_index(np.where(np.isfinite(row), row, np.inf).argmin(), row.shape)
    place = {str(name): int(k) for name, k in zip(cube[output].dims, index, strict=True)}
    axes = make_axes(sweep.graph, sweep.spec["axes"])
    labels = {n: axis.labels[place.get(n, 0)] for n, axis in axes.items() if axis.size > 1}
    line = nearest(point(sweep, place), output)
    return at_place(labels, line)


def at_place(place: Mapping[str, Any], line: str) -> str:
    """A line on a point, after its values along the axes; empty without a line."""
    where = ", ".join(f"{name} {in_command(value)}" for name, value in place.items())
    return f"at {where}: {line}" if where and line else line


def _reasons(scenario: Mapping[str, Any], axes: Mapping[str, Any]) -> Any:
    try:
        values = Evaluation(scenario, axes, [REASON]).evaluate(settings=Settings("numpy"))
    except InputError:
        return None
    return values[REASON]


def _around(value: float, unit: int, each: int, below: float = _FAR) -> tuple[Array, float]:
    """Whole multiples of a unit from a value over `below` up to _FAR times it, nearest first, and
    the step of those farther than `each` units."""
    first, last = max(1, value / below // unit), min(value * _FAR, values.MOST_EXACT - 1) // unit
    coarse = 2.0 ** math.ceil(math.log2(max(1, (last - first) / each)))
    near = value // unit + np.arange(-each, each + 1.0)
    far = coarse * np.arange(math.ceil(first / coarse), last // coarse + 1)
    every = unit * np.union1d(near[(near >= first) & (near <= last)], far)
    every = every[every != value]
    order = np.argsort(np.abs(np.log(every / value)), kind="stable")
    return every[order], coarse * unit


def _first(
    scenario: Mapping[str, Any], output: str, search: Sequence[str], name: str, values: Array
) -> float | None:
    """The first of some values of an input at which any candidate can run."""
    others = {key: value for key, value in scenario.items() if key != name}
    start, size, done = 0, 32, 0
    while start < len(values):
        part = values[start : start + size]
        tried = {}
        if search:
            part_of = Evaluation(others, {name: part}, [output])
            tried = candidates(part_of, output, search, alone=False)
        done += len(part) * math.prod(map(len, tried.values()))
        if done > MOST:
            return None
        reasons = _reasons(others, {name: part, **{n: [*row] for n, row in tried.items()}})
        if reasons is None:
            return None
        if name not in reasons.dims:
            return float(part[0]) if (reasons == 0).any() else None
        runs = (reasons == 0).any([dim for dim in reasons.dims if dim != name]).values
        if runs.any():
            return float(part[runs.argmax()])
        start, size = start + size, 4 * size
    return None


def _quicker(
    scenario: Mapping[str, Any],
    output: str,
    search: Sequence[str],
    now: Mapping[str, float],
    name: str,
    first: float,
) -> tuple[float, str]:
    """What runs sooner than the nearest that can run, `first`, within a tenth of what is asked for,
    and a remark on that; else `first`: fewer GPUs for the same batch, or a batch that more replicas
    share, whose sequences take less time each."""
    gpus, batch, value = now.get(GPUS, 0), now.get(BATCH, 0), now[name]
    whole = batch if name == GPUS else gpus
    units = [whole / 2**k for k in range(64) if whole and whole / 2**k % 1 == 0]
    tried = {unit * side(value / unit) for unit in units for side in (math.floor, math.ceil)}
    near = {v for v in tried if abs(v - value) <= _CLOSE * value and (name == BATCH or v < first)}
    row = sorted({first, *near})
    others = {key: value for key, value in scenario.items() if key != name}
    if len(row) == 1 or not is_known(scenario, {}, [ALWAYS[1]]):
        return first, ""
    part = Evaluation(others, {name: row}, [output])
    axes = {name: row, **candidates(part, output, search, alone=False)}
    if math.prod(map(len, axes.values())) > MOST:
        return first, ""
    cube = Evaluation(others, axes, [REASON, ALWAYS[1]])._result(Settings("numpy", "include"))
    sizes = tuple(map(len, axes.values()))
    steps, reasons = (np.broadcast_to(along(cube[n], axes), sizes) for n in (ALWAYS[1], REASON))
    least = np.where(reasons == 0, steps, np.inf).reshape(len(row), -1).min(axis=1)
    least = least / row if name == BATCH else least
    quick = min(
        (v for v, time in zip(row, least, strict=True) if time <= _ALIKE * least.min()),
        key=lambda v: abs(v - value),
    )
    ratio = float(least[row.index(first)] / least[row.index(quick)])
    if ratio < _ALIKE:
        return first, ""
    subject = f"a batch of {first:,.0f} is" if name == BATCH else f"{first:,.0f} GPUs are"
    takes = "a sequence takes" if name == BATCH else "their step takes"
    return quick, f"; {subject} nearer, and {takes} {ratio:.2f} times as long"


def _why(words: Mapping[str, int], now: Mapping[str, float], many: bool) -> str:
    subject, does = ("no layout", "s") if many else ("this layout does not", "")
    if too_large := [text for word, text in _TOO_LARGE.items() if word in words]:
        return too_large[0]
    if _MEMORY in words:
        return f"{subject} fit{does} in memory"
    if words.keys() & _NOT_DIVIDED and BATCH in now:
        return f"{subject} divide{does} a batch of {now[BATCH]:,.0f}"
    commonest = max(words, key=words.__getitem__)
    return f"{'no layout can' if many else 'this layout cannot'} run ({commonest})"


def _other(scenario: Mapping[str, Any], output: str) -> str:
    """A feasible layout in place of the stated one; empty if there is none."""
    try:
        best = best_layouts(freed(scenario, output), output, "min", LAYOUT, (), (), 1, Settings())
    except InputError:
        return ""
    return str(best[WHOLE].values.item()) if best[output].notnull().any() else ""


def _line(now: Mapping[str, float], why: str, close: Mapping[str, float], layout: str) -> str:
    gpus = f"{now[GPUS]:,.0f}" if GPUS in now else ""
    ways = [(f"{close[GPUS]:,.0f} GPUs", "")] if GPUS in close else []
    ways += [(gpus or "it", f" with a batch of {close[BATCH]:,.0f}")] if BATCH in close else []
    ways += [(gpus or "it", f" with the layout {layout}")] if layout else []
    texts = [f"{who}{' can' * (k == 0)}{how}" for k, (who, how) in enumerate(ways)]
    nearest = ", or ".join(texts) or f"{_NONE} a factor of {_FAR:g} can either"
    return f"{gpus and gpus + ' GPUs: '}{why}; {nearest}"
