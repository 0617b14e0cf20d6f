"""The foot of a table: the basis of its numbers, and choices made by defaults."""

import json
import textwrap
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.grid.plan.labels import ASSUMED, DEFAULTS, PARTLY, REMARKS
from fleetcube.kernels.physics.roles import (
    CUTS,
    DONE,
    EFFICIENCIES,
    ENDING,
    FAILURES,
    RULES,
    TIME,
    UTILIZATION,
)
from fleetcube.scenario.dates import ENDLESS, NAME
from fleetcube.text import WIDTH

from .tables import label, started

if TYPE_CHECKING:
    import xarray

    from fleetcube.grid.result import Result

_SHORT = 86400.0  # seconds
_MOST_POINTS = 1_000_000  # points
_MEDIANS = "fleetcube_medians"
_STARTS = (
    f"ends on: {TIME} after {NAME}, on which the job has its nodes; {DONE} counts from the "
    "first delivery"
)


def foot_lines(cube: "Result | xarray.Dataset", without: Collection[str] = ()) -> list[str]:
    """Remarks on a table of results, a line each."""
    uncounted = str(cube.attrs.get("fleetcube_uncounted", "")).splitlines()
    two_starts = TIME in cube and DONE in cube and started(cube)[0] is not None
    lines = [*uncounted, *[_STARTS] * two_starts, *_lasting(cube), *_beyond_peak(cube)]
    return [*lines, *_rare(cube), *remarks(cube.attrs, without)]


def _lasting(cube: "Result | xarray.Dataset") -> list[str]:
    """Remarks on jobs longer than 300 years or shorter than a day."""
    times = cube.get(TIME)
    if times is None or times.chunks is not None or times.size > _MOST_POINTS:
        return []
    is_duration = times.dtype.kind == "m"
    seconds = times.values.astype("m8[s]").astype(float) if is_duration else times.values
    short = 0.0 if ENDING in str(cube.attrs.get("fleetcube_spec")) else _SHORT
    lines = []
    for odd, text in (
        (seconds > ENDLESS, "is over 300 years{}: such a job never ends (see goodput)"),
        (seconds < short, "is under a day{}: " + f"{ENDING}=saved counts the save at its end"),
    ):
        count = int(odd.sum())
        where = f" at {count:,} of {times.size:,} points" if times.size > 1 else ""
        lines += [f"{TIME} {text.format(where)}"] * (count > 0)
    return lines


def _beyond_peak(cube: "Result | xarray.Dataset") -> list[str]:
    """A remark if steps would be shorter than their operations take at peak."""
    shares = cube.get(UTILIZATION)
    if shares is None or shares.chunks is not None or not np.any(shares.values > 1):
        return []
    most = np.nanmax(shares.values)
    action = "check the step, model and GPU that are stated"
    return [f"{UTILIZATION} is up to {most:.3g}, and no GPU exceeds its peak: {action}"]


def _rare(cube: "Result | xarray.Dataset") -> list[str]:
    """A remark if failures are too rare for the expected number to mean much."""
    counts = cube.get(FAILURES)
    most = 1.0 if counts is None or counts.chunks is not None else float(counts.max())
    remark = f"at most {most:.1g} failures expected: {100 * most:.1g} % chance of any"
    return [remark] * (0 < most < 0.01)


def remarks(attrs: Mapping[Any, Any], without: Collection[str] = ()) -> list[str]:
    """Remarks on a result's basis, a line each: calibration, medians of distributions, defaults.
    Inputs in `without`, which were searched, are not defaults. Those with a line of their
    own effect have no second one."""
    named = {line.split()[0] for line in str(attrs.get(ASSUMED, "")).splitlines()}
    lines = str(attrs.get(REMARKS, "")).splitlines()
    left_open = {each for each in lines if "is inferred" in each or "is assumed" in each}
    lines = [n for n in lines if n not in left_open or named.isdisjoint(n.split())]
    if _MEDIANS in attrs:
        lines.append(f"uncertain inputs at their medians: {', '.join(json.loads(attrs[_MEDIANS]))}")
    return [*lines, *_decided(attrs, without)]


def _decided(attrs: Mapping[Any, Any], without: Collection[str]) -> list[str]:
    """Remarks on inputs left to defaults."""
    left = {n: v for n, v in json.loads(attrs.get(DEFAULTS, "{}")).items() if n not in without}
    where = dict.fromkeys(str(attrs.get(PARTLY, "")).split(), " where not given")
    lines = []
    for name in [name for name in RULES if name in left]:
        value = left.pop(name)
        equal = "" if value is None else f" = {value:.4g}"
        lines.append(f"{name} by default{where.get(name, '')}: {RULES[name]}{equal}")
    texts = {name: f"{name} {label(value)}{where.get(name, '')}" for name, value in left.items()}
    efficiencies = [texts.pop(name) for name in EFFICIENCIES if name in texts]
    if efficiencies:
        lines.append(f"efficiency by default, not calibrated: {', '.join(efficiencies)}")
    if texts:
        none = texts.keys() >= CUTS  # not even how the model is cut
        head, tail = (
            ("no layout is stated", "; `plan` searches them") if none else ("layout by default", "")
        )
        lines.append(f"{head}: {', '.join(texts.values())}{tail}")
    return lines


def wrapped(lines: Iterable[str], width: int | None = None) -> list[str]:
    """Lines wrapped at a width, by default at 80 columns, continuations indented."""
    how: Any = {"break_long_words": False, "break_on_hyphens": False}
    return [
        part
        for line in lines
        for indent in [" " * (len(line) - len(line.lstrip()) + 2)]
        for part in textwrap.wrap(line, width or WIDTH.get(), subsequent_indent=indent, **how)
    ]
