"""The report of a plan: a page that plans again as sizes move, among layouts that won nearby."""

import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.analysis import layouts
from fleetcube.analysis.pareto import sign_of
from fleetcube.analysis.targets import conditions_of
from fleetcube.grid.errors import InputError
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axes import make_axes, make_axis
from fleetcube.grid.spec.axis import Axis
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import SIZES, TIME
from fleetcube.scenario.along_axes import values_along

from .page import MOST_CHOICES, Planned, is_slider, page

if TYPE_CHECKING:
    import xarray

# Sizes are moved to these multiples of the plan's
_MULTIPLES = 2.0 ** np.arange(-4, 5)
# All at once; the length of sequences, which changes most layouts, in finer steps
_TOGETHER = dict(zip(SIZES, (2.0 ** np.arange(-2, 3, step) for step in (2, 1, 2)), strict=True))
_HARDWARE = {"gpu", "node", "fabric", "reliability"}  # none makes a layout invalid


@dataclass(frozen=True)
class Question:
    """The search of a plan: a sweep, its goal, open inputs, conditions, what else to show."""

    sweep: Evaluation
    of: str
    sense: str = "min"
    search: layouts.Search = "layout"
    where: Sequence[str] = ()
    also: Sequence[str] = ()
    order: tuple[str, str] = ("", "min")  # of the points: their goal, which no layout may move


@dataclass(frozen=True)
class _Choice:
    """A cluster in a layout: its inputs, its names, and its arguments on the command line."""

    sets: Mapping[str, Any]
    cluster: Sequence[str]
    layout: str
    arguments: Sequence[str]


def report(asked: Question, winners: "xarray.Dataset", spec: str, given: Sequence[str] = ()) -> str:
    """The page's HTML; `spec` is the file, and `given` its arguments besides the layout."""
    value = winners[asked.of] * sign_of(asked.sense)
    if not value.notnull().any():
        raise InputError("no layout can run, so there is nothing to report")
    scenario: Any = asked.sweep.spec["scenario"]
    axes = make_axes(asked.sweep.graph, asked.sweep.spec["axes"])
    best_place = {str(dim): int(place) for dim, place in value.argmin(...).items()}
    start = {
        name: axes[name].labels[best_place[name]].item()
        for name in axes
        if is_slider(asked.sweep.graph, axes[name])
    }
    rows = _choices(asked, winners, best_place, start)
    goal = ["--of", f"{asked.sense} {asked.of}"] if asked.of != TIME else []
    names = asked.search if isinstance(asked.search, str) else ",".join(asked.search)
    goal += ["--search", names] if names != layouts.LAYOUT else []
    goal += [word for each in asked.where for word in ("--where", each)]
    conditions = conditions_of(scenario, asked.where)
    read = [*layouts.REPORTED, *(name for each in conditions for name in each.outputs)]
    choices = {"labels": [f"{k}" for k in range(len(rows))]}
    choices |= {name: [row.sets[name] for row in rows] for name in rows[0].sets}
    problem = {
        "scenario": scenario,
        "axes": {**{n: _stops(axes[n], start[n]) for n in start}, "layout": choices},
        "outputs": [*dict.fromkeys([asked.of, *(name for name in read if name in winners)])],
    }
    planned = Planned(
        goal=asked.of,
        sense=asked.sense,
        where=conditions,
        start=start,
        choices={
            "clusters": [" ".join(row.cluster) for row in rows],
            "layouts": [row.layout for row in rows],
            "commands": [shlex.join([*row.cluster, *row.arguments]) for row in rows],
            "searches": [shlex.join([*goal, *row.cluster]) for row in rows],
            "shortest": [layouts.fewest_tokens(row.sets) for row in rows],
        },
        summary=layouts.searched(winners),
    )
    return page(problem, f"Plan of {Path(spec).name}", spec, planned, given)


def _choices(
    asked: Question,
    winners: "xarray.Dataset",
    best_place: Mapping[str, int],
    start: Mapping[str, Any],
) -> list[_Choice]:
    """The layouts of each cluster, of the best first."""
    scenario: Any = asked.sweep.spec["scenario"]
    cluster_axes = [
        a for a in make_axes(PHYSICS, asked.sweep.spec["axes"]).values() if a.name not in start
    ]
    first = tuple(best_place[axis.name] for axis in cluster_axes)
    places = itertools.product(*(range(axis.size) for axis in cluster_axes))
    won = {}
    for place in sorted(places, key=lambda place: place != first):
        cluster_winners = winners.isel(
            {axis.name: k for axis, k in zip(cluster_axes, place, strict=True)}
        )
        near = _nearby(asked, {**scenario, **start, **values_along(cluster_axes, place)})
        winning = _winners(cluster_winners, asked.of, {name: best_place[name] for name in start})
        won[place] = [*winning, *(row for row in near if row not in winning)]
    named = [asked.search] if isinstance(asked.search, str) else asked.search
    shared = {*named} <= {layouts.LAYOUT, *layouts.OPEN}
    shared &= {axis.name for axis in cluster_axes} <= _HARDWARE
    most, stated = MOST_CHOICES // len(won), {n: scenario[n] for n in layouts.OPEN if n in scenario}
    choices = []
    for place, winning in won.items():
        # the winner on other machines may win on these at other sizes
        every = [*winning]
        for row in (row for rows in won.values() for row in rows if shared):
            every += [] if row in every else [row]
        cluster = [
            f"{axis.name}={layouts.in_command(axis.labels[k].item())}"
            for axis, k in zip(cluster_axes, place, strict=True)
        ]
        for searched_for, text in every[:most]:
            layout = searched_for or stated
            arguments = [f"{name}={layouts.in_command(value)}" for name, value in layout.items()]
            sets = {**values_along(cluster_axes, place), **layout}
            choices.append(_Choice(sets, cluster, text, arguments))
    return choices


def _stops(axis: Axis, start: float) -> list[float]:
    """Slider values: the axis's own, or multiples of its first value if there are few."""
    few = axis.name in SIZES and axis.size < _MULTIPLES.size
    more = [x for x in (start * _MULTIPLES).tolist() if x.is_integer()] if few else []
    return [*map(float, np.union1d(axis.numbers[axis.name], more))]


def _winners(
    best: "xarray.Dataset", output: str, first: Mapping[str, int]
) -> list[tuple[dict[str, Any], str]]:
    """The layouts of all points, those of the first point first."""
    rows: list[tuple[dict[str, Any], str]] = []
    whole = best[layouts.WHOLE]
    for place in sorted(np.ndindex(*whole.shape), key=lambda p: p[:-1] != tuple(first.values())):
        one = best.isel(dict(zip(whole.dims, place, strict=True)))
        if one[output].isnull():
            continue
        row = layouts.inputs_of(one), str(one[layouts.WHOLE].item())
        if row not in rows:
            rows.append(row)
    return rows


def _nearby(asked: Question, scenario: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """The layouts that win as one size after the other is moved, and then as all are."""
    stated = {
        name: make_axis(PHYSICS, name, [scenario[name]]).numbers[name][0]
        for name in SIZES
        if name in scenario
    }
    moved: list[dict[str, Any]] = [{name: _MULTIPLES} for name in stated]
    rows: list[tuple[dict[str, Any], str]] = []
    for multiples in [*moved, {name: _TOGETHER[name] for name in stated}]:
        sizes = {
            name: [size for size in (stated[name] * by).tolist() if size.is_integer()]
            for name, by in multiples.items()
        }
        try:
            one = asked.sweep.replace(scenario=scenario, axes=sizes)
            best = layouts.best_layouts(
                *(one, asked.of, asked.sense, asked.search, asked.where, (), 1, Settings())
            )
        except InputError:  # such as a size that the machines cannot have
            continue
        winning = _winners(
            best.to_xarray(), asked.of, {name: len(row) // 2 for name, row in sizes.items()}
        )
        rows += [row for row in winning if row not in rows]
    return rows
