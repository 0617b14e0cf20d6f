"""A scenario and its axes as numbers in SI, options and axes: what is to be evaluated."""

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...kernels.calculus.phased_formulas import in_phase, without_phase
from ...kernels.graph.formulas import Graph
from ..errors import InputError
from . import graphs, values
from .application import application
from .axes import PHASE, make_axes
from .axis import Array, Axis, phase_keys
from .distributions import Distribution, distribution


@dataclass(frozen=True)
class Problem:
    """A sweep in numbers: constants in SI, options chosen, axes, records used. `tables` are
    numbers that vary along several axes: their names, and the array over them."""

    graph: Graph
    constants: Mapping[str, float]
    options: Mapping[str, Any]
    axes: tuple[Axis, ...]
    records: tuple[Any, ...]
    stated: frozenset[str] = frozenset()  # inputs that the scenario itself sets
    distributions: Mapping[str, Distribution] = field(default_factory=dict)  # medians: constants
    tables: Mapping[str, tuple[tuple[str, ...], Array]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    inferred: frozenset[str] = frozenset()  # inputs and options set by calibration = "auto"
    notes: Mapping[str, str] = field(default_factory=dict)  # remarks on inputs that are read
    by_value: frozenset[str] = frozenset()  # numbers on which others depend through the catalog
    # Growth of the log of the error factor with each decade outside the published sizes
    per_decade: tuple[tuple[str, ...], Array] | None = None
    implied: Mapping[str, Any] = field(default_factory=dict)  # entries that it does not state
    phases: Axis | None = None  # of the job, which are added up
    phased: frozenset[str] = frozenset()  # numbers in `tables` with values by phase

    def gives(self, name: str) -> bool:
        """Whether a scenario, a label or an axis sets a number."""
        return name in self.numbers

    @functools.cached_property
    def numbers(self) -> frozenset[str]:
        """Names of the numbers set by a scenario, a label or an axis."""
        given = frozenset([*self.constants, *self.tables, *self.phased])
        return given.union(*(axis.numbers for axis in self._along()))

    @property
    def defaulted(self) -> dict[str, tuple[str, Array]]:
        """Inputs set at only some points of an axis or phases: the axis, and the points not set."""
        return {
            name: (axis.name, row) for axis in self._along() for name, row in axis.defaults.items()
        }

    @property
    def choices(self) -> set[str]:
        """Options set by a scenario, a label or an axis."""
        return {*self.options}.union(*(axis.options for axis in self._along()))

    def _along(self) -> tuple[Axis, ...]:
        return (*self.axes, self.phases) if self.phases else self.axes

    def may_exceed(self, factor: str) -> bool:
        """Whether a factor is above 1 anywhere."""
        rows: list[Any] = [self.constants[factor]] if factor in self.constants else []
        rows += [axis.numbers[factor] for axis in self._along() if factor in axis.numbers]
        rows += [row for name, (_, row) in self.tables.items() if without_phase(name) == factor]
        if not rows and factor in self.graph.inputs:
            rows.append(self.graph.inputs[factor].default)
        return any(bool(np.any(np.asarray(row) > 1)) for row in rows)

    def most_together(self, names: AbstractSet[str]) -> float:
        """The largest sum of some numbers at any point; unset ones count as 0."""
        rows = [
            np.nansum([axis.numbers[name] for name in swept_names], axis=0).max()
            for axis in self._along()
            if (swept_names := names & axis.numbers.keys())
        ]
        swept = float(sum(rows))
        return swept + sum(self.constants.get(name, 0.0) for name in names)


class Stated(NamedTuple):
    """The values in a scenario itself, by kind; numbers in SI."""

    constants: dict[str, float]
    options: dict[str, Any]
    labels: dict[str, str]
    distributions: dict[str, Distribution]


def resolve(
    scenario: Mapping[str, Any], axes: Mapping[str, Any], free: Collection[str] = ()
) -> Problem:
    """Read a scenario and its axes. Raises InputError. An axis precedes the scenario. Values of
    `free` (solved for) inputs are ignored."""
    for key, table in (("scenario", scenario), ("axes", axes)):
        if not isinstance(table, Mapping):
            raise InputError(f"{key} = {table!r} is not a table; write [{key}]")
    graph = graphs.graph_of(scenario)
    if graph.application:
        problem: Problem = application(graph).resolve(graph, scenario, axes, free)
        return problem
    swept = tuple(make_axes(graph, axes).values())
    constants, options, _, distributions = stated_values(graph, scenario, owners(swept))
    for name in free:
        values.check_name(graph, name)
    stated = frozenset({*constants, *options})
    return Problem(graph, constants, options, swept, (), stated, distributions)


def stated_values(graph: Graph, scenario: Mapping[str, Any], swept: Collection[str] = ()) -> Stated:
    """The values of a scenario. Those that axes set, too, are checked and left out."""
    stated = Stated({}, {}, {}, {})
    for name, value in scenario.items():
        if name == graphs.NAME:
            continue
        values.check_name(graph, name)
        is_label = name in graph.roles.labels
        if is_label:
            value = values.without_unit(graph, name, value)  # a table of a file, as one label
        if isinstance(value, Mapping):
            law = distribution(graph, name, value)  # read even if overridden: errors show
            if name not in swept:
                stated.distributions[name], stated.constants[name] = law, law.median
            continue
        row: dict[str, Any]
        if is_label:
            application(graph).record_names(name, [value])
            row = stated.labels
        elif values.is_option(graph, name):
            row, value = stated.options, values.option(graph, name, value)
        else:
            row, value = stated.constants, values.number(graph, name, value)
        if name not in swept:
            row[name] = value
    return stated


def owners(axes: Sequence[Axis], added_up: bool = False) -> dict[str, str]:
    """The axis that sets each input. Raises InputError where two do."""
    owner: dict[str, str] = {}
    for axis in axes:
        for name in axis.inputs:
            if name in owner:
                hint = "keep one"
                if added_up and owner[name] == PHASE:
                    one = in_phase(name, phase_keys(axes[0])[0])
                    hint = f"vary it in one phase, as {one}"
                raise InputError(
                    f"{name} is set by the axes {owner[name]!r} and {axis.name!r}; {hint}"
                )
            owner[name] = axis.name
    return owner


def choose(graph: Graph, given_options: Mapping[str, Any], given: Iterable[str]) -> dict[str, Any]:
    """The choice of every option: as given, else implied by a given input, else the default."""
    names = frozenset(given)
    rows = ((name, graph.inputs[name]) for name in graph.options)
    return {
        name: given_options[name]
        if name in given_options
        else (row.implied if names.intersection(row.implied_by) else row.default)
        for name, row in rows
    }
