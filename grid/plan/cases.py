"""Cases (decision 4): a sweep split where axes vary options, or which inputs are given.

A *run* is a stretch of such an axis with the same options and given inputs. Each combination of
runs is a case with its own formulas, so that no formula ever tests an option.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.calculus.derivatives import derivative
from ...kernels.calculus.phased_formulas import in_phase, parts, side_by_side
from ...kernels.graph.formulas import Function, Graph, MissingInputError, UnknownNameError
from ..errors import InputError, OpenError
from ..spec.application import application
from ..spec.axis import Array, Axis, phase_keys
from ..spec.problem import Problem, choose

MOST_CASES = 4096  # each may have its own tables and kernels

Formulas = Mapping[str, Function]


def distinct(formulas: Iterable[Formulas]) -> Iterable[tuple[str, Function]]:
    """Every formula that a case has for a name, once: cases share most."""
    rows = {id(row): row for row in formulas}.values()
    return dict.fromkeys(pair for row in rows for pair in row.items())


@dataclass(frozen=True)
class Choice:
    """Options and inputs of one case: all that its formulas depend on."""

    runs: Mapping[str, slice]
    options: Mapping[str, Any]
    rows: Mapping[str, str]  # numbers that axes give: the axis
    given: tuple[str, ...]  # names that have a value, the defaults first
    phases: tuple["Phase", ...] = ()


@dataclass(frozen=True)
class Phase:
    """The choices and inputs of one phase of the job."""

    key: str  # suffix of its names
    options: tuple[tuple[str, Any], ...]
    given: tuple[str, ...]  # as for a case, by their plain names
    inputs: tuple[str, ...]


def choices(problem: Problem, free: Sequence[str]) -> list[Choice]:
    """One for each combination of runs; `free` inputs count as given."""
    runs = {axis.name: runs_of(axis) for axis in problem.axes}
    cutting = {name: row for name, row in runs.items() if len(row) > 1}
    count = math.prod(map(len, cutting.values()))
    if count > MOST_CASES:
        raise InputError(
            f"the option and label axes combine to {count:,} sets of formulas; "
            f"at most {MOST_CASES:,} are allowed: sweep fewer options at once"
        )
    along = {
        (axis.name, run.start): _given(axis, run, free)
        for axis in problem.axes
        for run in runs[axis.name]
    }
    cases = []
    for combination in itertools.product(*cutting.values()):
        chosen = dict(zip(cutting, combination, strict=True))
        options: dict[str, Any] = dict(problem.options)
        rows: dict[str, str] = {}
        for axis in problem.axes:
            start = chosen[axis.name].start if axis.name in chosen else 0
            options |= {name: row[start] for name, row in axis.options.items()}
            rows |= dict.fromkeys(along[axis.name, start], axis.name)
        stated = {*problem.constants, *problem.tables, *free, *rows}
        given = {**_constants(problem, free), **problem.tables, **rows}
        phases = []
        for k, key in enumerate(phase_keys(problem.phases)):
            numbers = _of_phase(problem, k, free)
            chosen_in_phase = choose(
                problem.graph, {**options, **_options_of(problem, k)}, stated | numbers.keys()
            )
            items = tuple(chosen_in_phase.items())
            phases.append(Phase(key, items, tuple({**given, **numbers}), tuple(numbers)))
        given |= _in_phases(problem, free)
        all_chosen = choose(problem.graph, options, stated)
        cases.append(Choice(chosen, all_chosen, rows, tuple(given), tuple(phases)))
    return cases


def _of_phase(problem: Problem, k: int, free: Sequence[str]) -> dict[str, float]:
    """Numbers that a phase sets; those also along other axes are tables of the problem."""
    assert problem.phases is not None
    rows = problem.phases.numbers.items()
    phase_numbers = {n: float(row[k]) for n, row in rows if n not in free and not np.isnan(row[k])}
    return phase_numbers | dict.fromkeys(problem.phased, math.nan)


def _options_of(problem: Problem, k: int) -> dict[str, Any]:
    assert problem.phases is not None
    return {name: row[k] for name, row in problem.phases.options.items()}


def _in_phases(problem: Problem, free: Sequence[str]) -> dict[str, float]:
    """Numbers of all phases, or their defaults, by phase-specific name."""
    usual = defaults(problem.graph)
    moving = problem.phases.numbers.keys() & usual.keys() if problem.phases else ()
    left = {name: usual[name] for name in moving}
    return {
        phase_name: value
        for k, key in enumerate(phase_keys(problem.phases))
        for name, value in {**left, **_of_phase(problem, k, free)}.items()
        if name not in problem.phased and (phase_name := in_phase(name, key)) not in free
    }


def runs_of(axis: Axis) -> list[slice]:
    """Stretches of an axis with constant formulas and given inputs."""
    unset = axis.unset.values()
    if not axis.options and not unset:
        return [slice(0, axis.size)]
    keys = [
        (*(row[k] for row in axis.options.values()), *(bool(mask[k]) for mask in unset))
        for k in range(axis.size)
    ]
    starts = [k for k in range(axis.size) if k == 0 or keys[k] != keys[k - 1]]
    return [slice(a, b) for a, b in itertools.pairwise([*starts, axis.size])]


def formulas_of(
    problem: Problem, choices: Sequence[Choice], outputs: Iterable[str]
) -> list[Formulas]:
    """Formulas of every case; cases with equal choices share theirs, and so their kernels."""
    wanted = ((name, derivative(problem.graph, name)) for name in outputs)
    needed = tuple(dict.fromkeys(slope.output if slope else name for name, slope in wanted))
    by_choice: dict[Any, Formulas] = {}
    formulas = []
    for choice in choices:
        key = (tuple(choice.options.items()), choice.given, choice.phases)
        if key not in by_choice:
            try:
                by_choice[key] = _selected(problem.graph, needed, choice)
            except (MissingInputError, UnknownNameError) as error:
                scenarios, name = application(problem.graph), str(error).partition(" ")[0]
                hint = scenarios.unstated(problem, name) if scenarios else ""
                text = f"{error}{hint}{_where(problem, choice)}"
                missing = isinstance(error, MissingInputError)
                raise (OpenError if missing else InputError)(text) from None
        formulas.append(by_choice[key])
    return formulas


def _selected(graph: Graph, needed: Sequence[str], choice: Choice) -> Formulas:
    """The formulas of a case, with those of its phases side by side."""
    if not choice.phases:
        return graph.select(needed, choice.options, choice.given)
    phases = choice.phases
    rows = [
        graph.select(parts(graph, needed, chosen := dict(phase.options)), chosen, phase.given)
        for phase in phases
    ]
    return side_by_side(graph, needed, [p.key for p in phases], rows, [p.inputs for p in phases])


def leaves(
    problem: Problem, choices: Sequence[Choice], axes: Sequence[Axis], free: Sequence[str]
) -> list[dict[str, Array]]:
    """Values of the given inputs in every case: rows along their axis, axes in memory order."""
    ones, numbers = (1,) * len(axes), {axis.name: axis.numbers for axis in axes}
    shapes = {a.name: (*ones[:k], -1, *ones[k + 1 :]) for k, a in enumerate(axes)}
    single = single_values(problem, free)
    constants = dict(zip(single, np.array(list(single.values())).reshape(-1, *ones), strict=True))
    tables = {name: row for name, row in problem.tables.items() if name not in free}
    return [
        constants
        | {name: _table(*table, axes, choice.runs) for name, table in tables.items()}
        | {
            name: numbers[axis][name][choice.runs.get(axis, slice(None))].reshape(shapes[axis])
            for name, axis in choice.rows.items()
        }
        for choice in choices
    ]


def single_values(problem: Problem, free: Sequence[str]) -> dict[str, float]:
    """Numbers with a single value, in all phases or in one."""
    return {**_constants(problem, free), **_in_phases(problem, free)}


def _table(
    names: Sequence[str], array: Array, axes: Sequence[Axis], runs: Mapping[str, slice]
) -> Array:
    """A case's part of numbers along several axes, in memory order."""
    cut = array[tuple(runs.get(name, slice(None)) for name in names)]
    order = [axis.name for axis in axes if axis.name in names]
    sizes = iter(cut.transpose([names.index(name) for name in order]).shape)
    shape = [next(sizes) if axis.name in names else 1 for axis in axes]
    return cut.transpose([names.index(name) for name in order]).reshape(shape)


def _constants(problem: Problem, free: Sequence[str]) -> dict[str, float]:
    """Numbers with a single value in all phases; NaN for the free inputs."""
    return {**defaults(problem.graph), **problem.constants, **dict.fromkeys(free, math.nan)}


@functools.cache
def defaults(graph: Graph) -> dict[str, float]:
    """Default values of numeric inputs."""
    return {
        name: float(row.default)
        for name, row in graph.inputs.items()
        if row.kind != "option" and row.default is not None
    }


def _given(axis: Axis, run: slice, free: Sequence[str]) -> list[str]:
    """Inputs that an axis gives along a run; those that its labels leave unset are omitted."""
    unset = {name for name, points in axis.unset.items() if points[run].any()}
    return [name for name in axis.numbers if name not in free and name not in unset]


def _where(problem: Problem, choice: Choice) -> str:
    for axis in problem.axes:
        if axis.name in choice.runs:
            return f" (at {axis.name} = {axis.labels[choice.runs[axis.name].start]})"
    return ""
