"""The plan of a sweep: its formulas, their dimensions, and which are tables or run in kernels.

Every quantity is evaluated on the grid of its own dimensions. `Plan.__init__` lists the steps, each
a function of the previous results: `cases` (formulas), `dims`, `order` (of memory), `masking`,
`engine` (and tables).
"""

import copy
import functools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...kernels.calculus.derivatives import derivative, is_quantity
from ...kernels.calculus.phased_formulas import without_phase
from ...kernels.engines.numpy import Point
from ...kernels.graph.formulas import Graph, parameters
from ...kernels.graph.roles import REASON
from ..errors import InputError, nearest
from ..spec.application import application
from ..spec.axis import Array, phase_keys
from ..spec.memo import Memo
from ..spec.problem import Problem
from .cases import Choice, Formulas, choices, distinct, formulas_of, leaves, single_values
from .dims import depending, differentiated, find_dims, option_of, ordered
from .engine import check_engine, largest_table, pick_engine
from .grid import Case, Grid, by_dims
from .masking import layout_dependent, out_dims
from .order import fastest_order

MOST_REUSED = 1 << 22  # bytes of a sweep's quantities up to which another takes over its tables
MOST_KNOWN = 64  # cases up to which a structure is cached for other plans


class Plan(Grid):
    """Outputs to evaluate, in steps; caches its tables. Each evaluation has values of `free`."""

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
        shared = _structure(problem, tuple(outputs), mask, tuple(free))
        self.structure, self.outputs = shared, list(shared.outputs)
        by_name = {axis.name: axis for axis in problem.axes}
        self.axes = tuple(by_name[name] for name in shared.axes)
        self.layout_dependent = shared.layout_dependent
        given = leaves(problem, shared.choices, self.axes, free)
        self.cases = [
            Case(choice.runs, row, values, fixed, choice.options)
            for choice, row, values, fixed in zip(
                shared.choices, shared.formulas, given, shared.fixed, strict=True
            )
        ]
        self.sizes = {axis.name: axis.size for axis in self.axes}
        self.dims, self.out_dims, self.full = shared.dims, shared.out_dims, shared.full
        self.engine = pick_engine(engine, shared.points, self.full)
        self.most_table = largest_table(self.engine, shared.formulas, self.full)
        self.moving = shared.moving
        self._free = tuple(free)
        self.notes: dict[Any, Any] = {}
        self.sent = {}

    def with_engine(self, engine: str) -> "Plan":
        """The same for another engine, with tables that both share."""
        other = copy.copy(self)
        other.engine, other.notes, other.sent = engine, {}, {}
        other.most_table = largest_table(engine, self.structure.formulas, self.full)
        return other

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
        stated, shared = self.problem.stated, self.structure
        read = shared.used.union(*(by for name, by in shared.implied.items() if name not in stated))
        by_label = shared.used - stated
        read |= {
            entry.kind
            for entry in self.problem.records
            if by_label.intersection(entry.values.get("own", ()))
        }
        if self.problem.inferred and (module := application(self.graph)):
            read |= {*module.INFERRED_FROM}
        return sorted(
            stated - read - {*self.graph.roles.before}
        )  # those that a phase takes from earlier phases

    def is_table(self, name: str) -> bool:
        """Whether a quantity is evaluated once for the whole sweep, with NumPy."""
        return self.size(name) <= self.most_table and name not in self.moving

    def table(self, case: Case, name: str) -> Array:
        first = name in case.formulas and not self._tables
        if first and self.structure.nbytes <= MOST_REUSED:
            self._reuse()
        return super().table(case, name)

    def _reuse(self) -> None:
        """Take over the tables of the last plan like this one that no other number reaches."""
        single = single_values(self.problem, self._free)
        bits = np.array([*single.values()], np.float64).view(np.int64)
        arrays = [item for axis in self.problem.axes for item in axis.numbers.items()]
        arrays += [(name, array) for name, (_, array) in self.problem.tables.items()]
        rows = [(name, array.tobytes()) for name, array in arrays]
        latest = _latest.get(self.structure)
        if latest is not None and latest.names == [*single]:
            changed = {latest.names[k] for k in np.flatnonzero(bits != latest.bits)}
            changed |= {new[0] for new, old in zip(rows, latest.rows, strict=True) if new != old}
            reached = _reached(self.structure, frozenset(changed))
            tables = latest.tables.copy().items()
            self._tables |= {key: table for key, table in tables if key[0] not in reached}
            for key, values in latest.points.copy().items():
                self._points[key] = {n: values[n] for n in values.keys() - reached}
        last = _Evaluated([*single], bits, rows, self._tables, self._points)
        _latest.keep(self.structure, last)


@dataclass(frozen=True, eq=False)
class Structure:
    """The part of a plan that depends on names, options and sizes: everything but numbers. Shared
    by plans that differ only in numbers. Immutable except for `notes`, a cache of derived results.
    """

    outputs: tuple[str, ...]
    choices: Sequence[Choice]
    formulas: Sequence[Formulas]  # by case
    fixed: Sequence[Point]  # by case, those with one value in it
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
    def nbytes(self) -> int:
        """Memory of all quantities."""
        return 8 * sum(self.points)

    @functools.cached_property
    def used(self) -> frozenset[str]:
        """Inputs and quantities that formulas read or are selected by, and the outputs."""
        return frozenset(self.outputs).union(*{id(read): read for read in self.read}.values())

    @functools.cached_property
    def implied(self) -> dict[str, Collection[str]]:
        """The inputs that imply a choice, by option in use."""
        inputs = self.graph.inputs
        rows = {name: inputs[name].implied_by for name in self.used & inputs.keys()}
        return {name: row for name, row in rows.items() if row}

    @functools.cached_property
    def read(self) -> list[frozenset[str]]:
        """By case, what its formulas read or are selected by."""
        by = {
            pair: {*parameters(pair[1]), option_of(self.graph, pair[0]) or pair[0]}
            for pair in distinct(self.formulas)
        }
        names: dict[int, frozenset[str]] = {}
        for row in {id(row): row for row in self.formulas}.values():
            parts = [by[pair] for pair in row.items()]
            names[id(row)] = frozenset(map(without_phase, set[str]().union(*parts)))
        return [names[id(row)] for row in self.formulas]


_structures: Memo[Structure] = Memo(128)  # about 0.1 MB each


class _Evaluated(NamedTuple):
    """The numbers of a plan, to the bit, and what was computed of them."""

    names: list[str]  # with a single value
    bits: Array
    rows: list[tuple[str, bytes]]
    tables: dict[Any, Array]
    points: dict[tuple[int, ...], dict[str, Any]]


_latest: Memo[_Evaluated] = Memo(16)  # by structure, of the plan that was evaluated last


@functools.lru_cache(256)
def _reached(structure: Structure, changed: frozenset[str]) -> frozenset[str]:
    """Names that depend on some numbers, and these."""
    return depending(structure.formulas, on=changed)


def _structure(
    problem: Problem, outputs: tuple[str, ...], mask: bool, free: tuple[str, ...]
) -> Structure:
    """The structure of a plan, cached from an earlier plan like it."""
    phases = problem.phases
    axes = tuple(
        (
            *(axis.name, axis.size, tuple(axis.numbers), tuple(axis.options.items())),
            tuple((name, points.tobytes()) for name, points in axis.unset.items()),
        )
        for axis in (*problem.axes, *([phases] if phases else []))
    )
    given = tuple(problem.constants), tuple(phase_keys(phases)), problem.phased
    tables = tuple((name, names) for name, (names, _) in problem.tables.items())
    options = tuple(problem.options.items())
    key = (outputs, mask, free, axes, given, options, tables, problem.graph)
    if (structure := _structures.get(key)) is None:
        chosen = choices(problem, free)
        structure = _new_structure(problem, chosen, outputs, mask, free)
        if len(chosen) <= MOST_KNOWN:
            _structures.keep(key, structure)
    return structure


def _new_structure(
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
    dims_of = ordered(dims, axes)
    spread = out_dims(axes, dims, outputs, dependent if mask else ())
    sizes = {axis.name: axis.size for axis in axes}

    def size(names: Sequence[str]) -> int:
        return math.prod(sizes[name] for name in names)

    moving = depending(formulas, on=free)
    return Structure(
        outputs,
        chosen,
        formulas,
        _at_points(chosen, formulas, dims_of, moving),
        tuple(sizes),
        dependent,
        dims_of,
        spread,
        max(size(dims_of[name]) for name in outputs),
        [size(dims_of[name]) for name in {name for row in formulas for name in row}],
        moving,
        problem.graph,
    )


def _at_points(
    chosen: Sequence[Choice],
    formulas: Sequence[Formulas],
    dims: Mapping[str, tuple[str, ...]],
    moving: frozenset[str],
) -> list[Point]:
    """By case, the formulas that have one value in it."""
    runs = (choice.runs.items() for choice in chosen)
    one = [frozenset(dim for dim, run in row if run.stop - run.start == 1) for row in runs]
    rows = {(id(row), cut): row for row, cut in zip(formulas, one, strict=True)}
    points = {
        (key, cut): Point({n: row[n] for n in row if cut.issuperset(dims[n]) and n not in moving})
        for (key, cut), row in rows.items()
    }
    return [points[id(row), cut] for row, cut in zip(formulas, one, strict=True)]


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
