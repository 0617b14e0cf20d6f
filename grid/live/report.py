"""The report of a plan: a page that plans again as sizes move, among layouts that won nearby."""

import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.roles import SIZES, TIME
from ..ask.layouts import (
    LAYOUT,
    OPEN,
    REPORTED,
    WHOLE,
    Search,
    best_layouts,
    fewest_tokens,
    in_command,
    inputs_of,
    searched,
)
from ..ask.runs import conditions_of
from ..errors import InputError
from ..reduce.pareto import sign_of
from ..run.evaluation import Evaluation
from ..run.settings import Settings
from ..spec import auto
from ..spec.axes import make_axes, make_axis
from ..spec.axis import Axis
from .page import MOST_CHOICES, Planned, is_slider, page

if TYPE_CHECKING:
    import xarray

# Sizes are moved to these multiples of what the plan says
_MULTIPLES = 2.0 ** np.arange(-4, 5)
_TOGETHER = 4.0 ** np.arange(-1, 2)  # all at once
_HARDWARE = {"gpu", "node", "fabric", "reliability"}  # of which none makes a layout invalid


@dataclass(frozen=True)
class Question:
    """What a plan searched: a sweep, its goal, what was open, and conditions."""

    sweep: Evaluation
    of: str
    sense: str = "min"
    search: Search = "layout"
    where: Sequence[str] = ()


def report(
    asked: Question, found: "xarray.Dataset", spec: str, point: str = "", given: Sequence[str] = ()
) -> str:
    """The page's HTML; `spec` is the file `point` its arguments besides the
    layout, and `given` those of them that a slider may replace."""
    own: Any = asked.sweep.spec
    axes = make_axes(own["axes"])
    sliders = [axis.name for axis in axes.values() if is_slider(axis)]
    apart = [axis for axis in axes.values() if axis.name not in sliders]
    value = found[asked.of] * sign_of(asked.sense)
    if not value.notnull().any():
        raise InputError("no layout can run, so that there is nothing to report")
    at = {str(dim): int(place) for dim, place in value.argmin(...).items()}
    start = {name: axes[name].labels[at[name]].item() for name in sliders}
    most = MOST_CHOICES // max(1, int(np.prod([axis.size for axis in apart])))
    order = sorted(
        itertools.product(*(range(axis.size) for axis in apart)),
        key=lambda place: place != tuple(at[axis.name] for axis in apart),
    )
    settings: list[dict[str, Any]] = []
    labels: list[tuple[str, ...]] = []
    goal = ["--of", f"{asked.sense} {asked.of}"] if asked.of != TIME else []
    goal += [word for each in asked.where for word in ("--where", each)]
    won = {}
    for place in order:
        here = found.isel({axis.name: k for axis, k in zip(apart, place, strict=True)})
        moved = {**own["scenario"], **start, **_set_by(apart, place)}
        rows = _winners(here, asked.of, {name: at[name] for name in sliders})
        won[place] = [*rows, *(row for row in _nearby(asked, moved) if row not in rows)]
    every: list[Any] = []
    named = [asked.search] if isinstance(asked.search, str) else asked.search
    if {*named} <= {LAYOUT, *OPEN} and {axis.name for axis in apart} <= _HARDWARE:
        every = [row for rows in won.values() for row in rows]
    for place in order:
        cluster = {axis.name: axis.labels[k].item() for axis, k in zip(apart, place, strict=True)}
        rows = won[place]
        for row in every:  # what wins on other machines may win on these at other sizes
            rows = rows if row in rows else [*rows, row]
        said = [f"{name}={in_command(label)}" for name, label in cluster.items()]
        for layout, text in rows[:most]:
            layout = layout or {n: own["scenario"][n] for n in OPEN if n in own["scenario"]}
            settings.append({**_set_by(apart, place), **layout})
            own_layout = [f"{n}={in_command(v)}" for n, v in layout.items()]
            both = [
                f"{point} {shlex.join(row)}".strip()
                for row in ([*said, *own_layout], [*goal, *said])
            ]
            labels.append((" ".join(said), text, *both))
    clusters, layouts, commands, searches = zip(*labels, strict=True)
    together = {name: [row[name] for row in settings] for name in settings[0]}
    choices = {"layout": {"labels": [f"{k}" for k in range(len(settings))], **together}}
    conditions = conditions_of(own["scenario"], asked.where)
    read = [*REPORTED, *(name for each in conditions for name in each.outputs)]
    outputs = [*dict.fromkeys([asked.of, *(name for name in read if name in found)])]
    made = {
        "scenario": own["scenario"],
        "axes": {**{n: _stops(axes[n], start[n]) for n in sliders}, **choices},
        "outputs": outputs,
    }
    shortest = [fewest_tokens(row) for row in settings]
    planned = Planned(
        *(asked.of, asked.sense, conditions, start, clusters, layouts, commands, searches),
        *(shortest, searched(found), given),
    )
    return page(made, f"Plan of {Path(spec).name}", spec, planned)


def _stops(axis: Axis, start: float) -> list[float]:
    """The values of an axis, and multiples of where it begins where these are few."""
    few = axis.name in SIZES and axis.size < _MULTIPLES.size
    more = [x for x in (start * _MULTIPLES).tolist() if x.is_integer()] if few else []
    return [*map(float, np.union1d(axis.numbers[axis.name], more))]


def _set_by(axes: Sequence[Any], place: Sequence[int]) -> dict[str, Any]:
    return {n: v for axis, k in zip(axes, place, strict=True) for n, v in auto.at(axis, k).items()}


def _winners(
    found: "xarray.Dataset", of: str, first: Mapping[str, int]
) -> list[tuple[dict[str, Any], str]]:
    """The layouts of all points, those of the first point first."""
    rows: list[tuple[dict[str, Any], str]] = []
    places = sorted(np.ndindex(*found[WHOLE].shape), key=lambda p: p[:-1] != tuple(first.values()))
    for place in places:
        one = found.isel(dict(zip(found[WHOLE].dims, place, strict=True)))
        if one[of].isnull():
            continue
        row = inputs_of(one), str(one[WHOLE].item())
        if row not in rows:
            rows.append(row)
    return rows


def _nearby(asked: Question, scenario: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """The layouts that win as one size after the other is moved, and then as all are."""
    stated = {
        name: make_axis(name, [scenario[name]]).numbers[name][0]
        for name in SIZES
        if name in scenario
    }
    moved: list[dict[str, Any]] = [{name: _MULTIPLES} for name in stated]
    rows: list[tuple[dict[str, Any], str]] = []
    for multiples in [*moved, dict.fromkeys(stated, _TOGETHER)]:
        sizes = {
            name: [size for size in (stated[name] * by).tolist() if size.is_integer()]
            for name, by in multiples.items()
        }
        try:
            one = asked.sweep.replace(scenario=scenario, axes=sizes)
            found = best_layouts(
                *(one, asked.of, asked.sense, asked.search, asked.where, (), 1, Settings())
            )
        except InputError:  # such as a size that the machines cannot have
            continue
        own = _winners(found, asked.of, {name: len(row) // 2 for name, row in sizes.items()})
        rows += [row for row in own if row not in rows]
    return rows
