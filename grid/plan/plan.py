"""The plan of a sweep: its formulas, their dimensions, and which are tables or run in kernels.

Every quantity is evaluated on the grid of its own dimensions. `Plan.__init__` lists the steps, each
a function of the previous results: `cases` (formulas), `dims`, `order` (of memory), `masking`,
`engine` (and tables).
"""

import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...catalog import CONFIGURED, is_path
from ...kernels.calculus.derivatives import derivative, is_quantity
from ...kernels.calculus.phases import without_phase
from ...kernels.declare import HOUR
from ...kernels.engines.numpy import Point
from ...kernels.graph.bind import definitions
from ...kernels.graph.formulas import Graph, parameters
from ...kernels.graph.roles import REASON
from ...kernels.physics.roles import BESIDE_IT, DECIDED, EXCEEDED, FITTED, LEFT_OUT
from ..errors import InputError, nearest
from ..spec import graphs
from ..spec.hardware import NODES_PER_RACK, oversized, powered
from ..spec.memo import Memo
from ..spec.scenario import Problem
from .cases import Choice, Formulas, choices, formulas_of, leaves
from .dims import depending, differentiated, find_dims, option_of, ordered
from .engine import check_engine, largest_table, pick_engine
from .grid import Case, Grid, by_dims
from .masking import layout_dependent, out_dims
from .order import fastest_order

MOST_KNOWN = 64  # cases up to which a structure is cached for other plans


class Plan(Grid):
    """What to evaluate, and how; caches its tables. Values of `free` come with each evaluation."""

    def __init__(
        self,
        problem: Problem,
        outputs: Sequence[str],
        engine: str,
        mask: bool = False,
        free: Sequence[str] = (),
    ) -> None:
        super().__init__()
        check_outputs(outputs, problem)
        check_engine(engine)
        self.problem, self.graph, self.mask = problem, problem.graph, mask
        chosen = choices(problem, free)
        made = _structure(problem, chosen, tuple(outputs), mask, tuple(free))
        self.structure, self.outputs = made, list(made.outputs)
        by_name = {axis.name: axis for axis in problem.axes}
        self.axes = tuple(by_name[name] for name in made.axes)
        self.layout_dependent = made.layout_dependent
        given = leaves(problem, chosen, self.axes, free)
        self.cases = [
            Case(choice.runs, row, values, fixed, choice.options)
            for choice, row, values, fixed in zip(
                chosen, made.formulas, given, made.fixed, strict=True
            )
        ]
        self.sizes = {axis.name: axis.size for axis in self.axes}
        self.dims, self.out_dims, self.full = made.dims, made.out_dims, made.full
        self.engine = pick_engine(engine, made.points, self.full)
        self.most_table = largest_table(self.engine, made.formulas, self.full)
        self.moving = made.moving
        self.notes: dict[Any, Any] = {}

    def groups(self) -> dict[tuple[str, ...], list[str]]:
        """Outputs by their dimensions, in memory order."""
        return by_dims(self.outputs, self.out_dims)

    def user_dims(self, name: str) -> tuple[str, ...]:
        """Dimensions of an output in the order in which the axes were written."""
        return tuple(axis.name for axis in self.problem.axes if axis.name in self.out_dims[name])

    def cases_of(self, dims: tuple[str, ...]) -> list[Case]:
        """One case for each combination of runs along `dims`; the others are equivalent there."""
        first: dict[tuple[int, ...], Case] = {}
        for case in self.cases:
            key = tuple(case.runs[dim].start for dim in dims if dim in case.runs)
            first.setdefault(key, case)
        return list(first.values())

    def unused(self) -> list[str]:
        """Inputs of the scenario that no formula in use reads and that imply no option."""
        stated, used, inputs = self.problem.stated, self.structure.used, self.graph.inputs
        implied = (used & inputs.keys()) - stated
        read = used.union(*(inputs[name].implied_by for name in implied))
        return sorted(
            stated - read - {*self.graph.roles.before}
        )  # those that a phase takes from earlier phases

    def defaults(self, varied: Collection[str] = ()) -> tuple[dict[str, Any], list[str]]:
        """Inputs of `DECIDED` left to a default, with values; and those so at some points only.
        Formulas in use read them, and nothing sets them; those in `varied` are set point by point.
        """
        some = self.problem.numbers | self.problem.choices
        open_ = self.problem.defaulted
        decided: dict[str, Any] = {}
        partly = []
        for name, beside in DECIDED.items():
            if name in varied or (name in some and name not in open_):
                continue
            axis, row = open_.get(name, ("", np.array([True])))
            at = [
                row[case.runs.get(axis, slice(None))] if name in read else row[:0]
                for case, read in zip(self.cases, self.structure.read, strict=True)
            ]
            if any(map(np.any, at)) and (not beside or beside in some | self.moving):
                row = self.graph.inputs.get(name)
                decided[name] = row.default if row else self._same(name, varied)
                partly += [] if all(part.size and part.all() for part in at) else [name]
        return decided, partly

    def _same(self, name: str, varied: Collection[str]) -> float | None:
        """A quantity's value, if it is a table and the same at all points."""
        if name in depending(self.structure.formulas, on=varied):
            return None
        if not all(name in case.formulas and self.is_table(name) for case in self.cases):
            return None
        values = {float(x) for case in self.cases for x in self.table(case, name).flat}
        return values.pop() if len(values) == 1 else None

    def remarks(self) -> tuple[str, ...]:
        """Remarks on what formulas in use read: calibrations, fits, labels and omissions."""
        fitted = [entry for entry in self.problem.records if entry.kind == "calibration"]
        read = any(self.structure.used & entry.values.keys() for entry in fitted)
        used = self.structure.named
        left_out = [
            f"{name}: {said}"
            for name, formulas, said in LEFT_OUT
            if used & formulas and self.problem.most_together({name}) > 0
        ]
        left_out += [*self._added(used), *self._short_intervals()]
        notes = {**self.problem.notes, **powered(self.problem.numbers)}
        left_out += [said for name, said in notes.items() if name in used]
        if NODES_PER_RACK in used and self.is_table(NODES_PER_RACK):
            left_out += oversized(self.table(case, NODES_PER_RACK) for case in self.cases)
        left_out += [
            f"{entry.kind} {entry.title}: {entry.note}"
            for entry in self.problem.records
            if entry.kind == CONFIGURED and is_path(entry.kind, entry.label)
            if used & entry.values.keys()
        ]
        told = (*(self.problem.remarks if read else ()), *self._beyond_fits(), *left_out)
        return (*told, *graphs.remarks(self.graph))

    def _added(self, used: AbstractSet[str]) -> Iterator[str]:
        """What is counted beside an input given alone, by default, a line each."""
        for name, others in BESIDE_IT.items():
            added = [
                f"{other} = {self.graph.inputs[other].default / HOUR:,g} h"
                for other, count in others.items()
                if other in used - self.problem.numbers
                and any(np.any(c.leaves.get(count, 0) > 0) for c in self.cases)
            ]
            if added and name in self.problem.numbers:
                alone = " alone" * ({*others} - self.problem.numbers == {*others})
                yield (
                    f"{name} is given{alone}, and other parts fail, too, by default: "
                    f"{', '.join(added)}; for a rate of all causes give interruption_mttf"
                )

    def _beyond_fits(self) -> list[str]:
        """Where formulas in use go beyond the runs that they were fitted to, a line each."""
        lines: dict[str, None] = {}
        for at, name, choice in self.structure.fitted:
            case, option = self.cases[at], option_of(self.graph, name)
            quantity = without_phase(name)
            for operand, (low, high) in FITTED[quantity][choice].items():
                own = operand + name.removeprefix(quantity)  # of the same phase, if it has one
                read = own if own in case.leaves or own in case.formulas else operand
                known = read in case.leaves or read in case.formulas
                if not known or not self.is_table(read):
                    continue
                table = self.table(case, read)
                least, most = np.nanmin(table), np.nanmax(table)
                if least < low or most > high:
                    far = most if most > high else least
                    lines[
                        f"{option} = {choice} was fitted to {operand} from {low:g} to "
                        f"{high:g}: {far:.4g} is an extrapolation"
                    ] = None
        return list(lines)

    def _short_intervals(self) -> Iterator[str]:
        """Where checkpoints follow within a time that their interval should exceed, a line each."""
        for (interval, time), said in EXCEEDED.items():
            least = math.inf
            for name in (n for n in self.dims if without_phase(n) == interval):
                own = time + name.removeprefix(interval)  # of the same phase
                for case in (c for c in self.cases if {name, own} <= c.formulas.keys() | c.leaves):
                    if self.is_table(name) and self.is_table(own):
                        with np.errstate(all="ignore"):  # both may be infinite
                            share = self.table(case, name) / self.table(case, own)
                        least = float(np.fmin.reduce(share, axis=None, initial=least))
            if least <= 1:
                yield f"{interval} {said.format(least)}"

    def is_table(self, name: str) -> bool:
        """Whether a quantity is evaluated once for the whole sweep, with NumPy."""
        return self.size(name) <= self.most_table and name not in self.moving


@dataclass(frozen=True, eq=False)
class Structure:
    """The part of a plan that depends on names, options and sizes: everything but numbers. Shared
    by plans that differ only in numbers. Immutable except for `notes`, a cache of derived results.
    """

    outputs: tuple[str, ...]
    formulas: Sequence[Formulas]  # by case
    fixed: Sequence[Point]  # by case, those without dimensions
    axes: tuple[str, ...]  # in memory order
    layout_dependent: Sequence[str]
    dims: Mapping[str, tuple[str, ...]]
    out_dims: Mapping[str, tuple[str, ...]]
    full: int
    points: Sequence[int]  # by quantity
    moving: frozenset[str]
    graph: Graph
    notes: dict[Any, Any] = field(default_factory=dict)

    @functools.cached_property
    def used(self) -> frozenset[str]:
        """Inputs and quantities that formulas read or are selected by, and the outputs."""
        return frozenset(self.outputs).union(*{id(read): read for read in self.read}.values())

    @functools.cached_property
    def named(self) -> set[str]:
        """What is used, of any phase, and the formulas by their own names."""
        own = {formula.__name__ for row in self.formulas for formula in row.values()}
        return own.union(map(without_phase, self.used))

    @functools.cached_property
    def read(self) -> list[frozenset[str]]:
        """By case, what its formulas read or are selected by."""
        known: dict[int, frozenset[str]] = {}
        for row in {id(row): row for row in self.formulas}.values():
            own = [
                {*parameters(formula), option_of(self.graph, n) or n} for n, formula in row.items()
            ]
            known[id(row)] = frozenset(map(without_phase, set[str]().union(*own)))
        return [known[id(row)] for row in self.formulas]

    @functools.cached_property
    def fitted(self) -> list[tuple[int, str, Any]]:
        """Formulas fitted to runs: the case, the quantity, and the choice of its option."""
        return [
            (at, name, choice)
            for at, row in enumerate(self.formulas)
            for name in sorted(name for name in row if without_phase(name) in FITTED)
            for choice in FITTED[without_phase(name)]
            if self.graph.quantities[without_phase(name)].formulas[choice] in definitions(row[name])
        ]


_known: Memo[Structure] = Memo(128)  # about 0.1 MB each


def _structure(
    problem: Problem,
    chosen: Sequence[Choice],
    outputs: tuple[str, ...],
    mask: bool,
    free: tuple[str, ...],
) -> Structure:
    """The structure of a plan, cached from an earlier plan like it."""

    if len(chosen) > MOST_KNOWN:
        return _made(problem, chosen, outputs, mask, free)
    axes = tuple(
        (
            axis.name,
            axis.size,
            tuple((name, bool(np.isnan(row).any())) for name, row in axis.numbers.items()),
            tuple(axis.options),
        )
        for axis in problem.axes
    )
    cases = tuple(
        (
            tuple((name, run.start, run.stop) for name, run in choice.runs.items()),
            tuple(choice.options.items()),
            choice.given,
            choice.phases,
        )
        for choice in chosen
    )
    tables = tuple((name, names) for name, (names, _) in problem.tables.items())
    key = (outputs, mask, free, axes, cases, tables, problem.graph)
    if (made := _known.get(key)) is None:
        made = _made(problem, chosen, outputs, mask, free)
        _known.keep(key, made)
    return made


def _made(
    problem: Problem,
    chosen: Sequence[Choice],
    outputs: tuple[str, ...],
    mask: bool,
    free: tuple[str, ...],
) -> Structure:
    formulas, dims = _formulas_and_dims(problem, chosen, outputs, free)
    # Before a reason is added: the order must not depend on whether the layout can be checked
    axes = fastest_order(problem.axes, chosen[0].runs, dims, formulas, outputs)
    dependent = layout_dependent(problem.graph, formulas, outputs)
    if dependent and REASON not in outputs:
        try:
            formulas, dims = _formulas_and_dims(problem, chosen, [*outputs, REASON], free)
            outputs = (*outputs, REASON)
        except InputError as error:  # the layout is not known well enough
            if mask:
                raise InputError(
                    f"infeasible = 'exclude' cannot judge the layout: {error}"
                ) from None
    own = ordered(dims, axes)
    spread = out_dims(axes, dims, outputs, dependent if mask else ())
    sizes = {axis.name: axis.size for axis in axes}

    def size(names: Sequence[str]) -> int:
        return math.prod(sizes[name] for name in names)

    moving = depending(formulas, on=free)
    fixed = {
        id(row): Point({n: f for n, f in row.items() if not own[n] and n not in moving})
        for row in formulas
    }
    return Structure(
        outputs,
        formulas,
        [fixed[id(row)] for row in formulas],
        tuple(sizes),
        dependent,
        own,
        spread,
        max(size(own[name]) for name in outputs),
        [size(own[name]) for name in {name for row in formulas for name in row}],
        moving,
        problem.graph,
    )


def _formulas_and_dims(
    problem: Problem, chosen: Sequence[Choice], outputs: Sequence[str], free: Sequence[str]
) -> tuple[list[Formulas], Mapping[str, set[str]]]:
    """Formulas of every case, and the dimensions of every name; derivatives need both first."""
    formulas = formulas_of(problem, chosen, outputs)
    tables = {name: names for name, (names, _) in problem.tables.items()}
    dims = find_dims(problem.graph, problem.axes, chosen, formulas, free, tables)
    if wanted := [slope for name in outputs if (slope := derivative(problem.graph, name))]:
        phased = problem.phases.numbers if problem.phases else ()
        formulas = differentiated(
            problem.graph, formulas, dims, wanted, [n for n in phased if n not in free]
        )
        dims = find_dims(problem.graph, problem.axes, chosen, formulas, free, tables)
    return formulas, dims


def check_outputs(outputs: Sequence[str], problem: Problem) -> None:
    if isinstance(outputs, str) or not isinstance(outputs, Sequence) or not outputs:
        raise InputError(
            f"outputs = {outputs!r} is not a list of names; name at least one quantity"
        )
    for name in outputs:
        if not isinstance(name, str):
            raise InputError(f"outputs: {name!r} is not a name; write it as text")
        if name in problem.graph.inputs:
            raise InputError(f"outputs: {name!r} is an input; name a quantity that depends on it")
        if not is_quantity(problem.graph, name):
            hint = nearest(name, problem.graph.quantities)
            raise InputError(f"outputs: {name!r} is not a quantity; {hint}")
        if list(outputs).count(name) > 1:
            raise InputError(f"outputs: {name!r} appears twice; remove one")
        for axis in problem.axes:
            if name == axis.name:
                raise InputError(f"outputs: {name!r} is an axis; remove it from outputs")
