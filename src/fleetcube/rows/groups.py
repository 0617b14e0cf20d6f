"""Group rows, in any order, by their choices and by which inputs they give.

Rows with the same labels, options and given inputs are a *combination*, which is resolved once.
Combinations that leave the same formulas are a *class* and share one plan.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.cases import MOST_CASES, defaults
from fleetcube.grid.spec.application import application
from fleetcube.grid.spec.axis import Array
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.grid.spec.problem import choose, resolve

from .frames import Frame


@dataclass(frozen=True)
class Cells:
    """Column contents: numbers in SI, and choices as codes with their distinct values."""

    numbers: Mapping[str, Array]  # NaN: not given
    choices: Mapping[str, tuple[Array, list[Any]]]  # -1: not given


@dataclass(frozen=True)
class Class:
    """Rows with the same formulas, and their values where no column sets them."""

    options: Mapping[str, Any]
    given: Mapping[str, float | Array]  # an array: one value for each combination
    combination: Array | None  # by row; None if there is only one
    rows: Array | slice  # in ascending order
    size: int
    inferred: bool  # whether calibrations are inferred
    fitted: frozenset[str]  # inputs set by calibrations
    remarks: tuple[str, ...]  # on calibrations
    notes: Mapping[str, str]  # remarks on inputs that are read

    @property
    def first(self) -> int:
        return 0 if isinstance(self.rows, slice) else int(self.rows[0])

    def part(self, part: slice) -> Any:
        """Positions of some of the class's rows in the frame."""
        return part if isinstance(self.rows, slice) else self.rows[part]

    def values(self, name: str, cells: Cells, part: slice) -> Array:
        otherwise: Any = self.given[name]
        if isinstance(otherwise, np.ndarray):
            assert self.combination is not None
            otherwise = otherwise.take(self.combination[part])
        if name not in cells.numbers:
            return np.asarray(otherwise)
        column: Array = cells.numbers[name][self.part(part)]
        missing = np.isnan(column)
        return np.where(missing, otherwise, column) if missing.any() else column


def classes(
    frame: Frame,
    scenario: Mapping[str, Any],
    cells: Cells,
    sizes: bool = False,
    telling: Mapping[str, tuple[Array, Array]] | None = None,
) -> list[Class]:
    """The classes of a frame's rows, which may override a scenario. Raises InputError. `telling`
    columns, as codes and distinct values, determine the inferred calibration; with `sizes` also the
    width of its interval."""
    by_value, graph = telling or {}, graph_of(scenario)
    # if given, these affect others: they imply options, or the application lists them
    affecting = {name for row in graph.inputs.values() for name in row.implied_by}
    scenarios = application(graph)
    if scenarios:
        affecting |= scenarios.AFFECTING
    fallback = {*defaults(graph), *scenario} - affecting  # a gap is a value like any other
    deciding = {name: row for name, row in cells.numbers.items() if name not in fallback}
    parts = [(codes, len(choices)) for codes, choices in cells.choices.values()]
    gaps = [np.isnan(column) for column in deciding.values()]
    parts += [(-gap.astype(np.int8), 1) for gap in gaps if gap.any()]
    parts += [(codes, len(distinct)) for codes, distinct in by_value.values()]
    combination, examples = _combined(parts, frame.rows)
    if by_value:
        scenarios.check_inferred(len(examples), by_value)
    kinds: dict[Any, _Kind] = {}
    for number, row in enumerate(examples):
        row_values = _row_values(row, cells.choices, deciding, by_value)
        try:
            problem = resolve({**scenario, **row_values}, {})
        except InputError as error:
            raise InputError(f"{frame.place(row)}: {error}") from None
        if problem.phases:
            raise InputError("rows have no phases; give each phase a row, and add up")
        tell = {}
        if problem.inferred and telling is None:
            tell = scenarios.inferring_columns(cells.numbers, sizes)
        for name in cells.numbers.keys() & problem.by_value - by_value.keys():
            distinct, codes = np.unique(cells.numbers[name], return_inverse=True)
            tell[name] = np.where(np.isnan(cells.numbers[name]), -1, codes), distinct
        if tell:
            return classes(frame, scenario, cells, sizes, {**by_value, **tell})
        options = choose(graph, problem.options, problem.constants)
        given = {**defaults(graph), **problem.constants}
        has = bool(problem.inferred)
        key = (has, *((type(choice), choice) for choice in options.values()), frozenset(given))
        kind = kinds.setdefault(key, _Kind(options, sorted(given), [], [], has, set(), {}, {}))
        kind.fitted.update(*(e.values for e in problem.records if e.kind == "calibration"))
        kind.remarks.update(dict.fromkeys(problem.remarks))
        kind.notes.update(problem.notes)
        kind.members.append(number)
        kind.values.append(np.array([given[name] for name in kind.names]))
        if len(kinds) > MOST_CASES:
            raise InputError(
                f"the rows need more than {MOST_CASES:,} sets of formulas; at most so many are "
                "allowed: give tables with fewer options and missing cells one by one"
            )
    return list(_members(kinds.values(), combination, len(examples), frame.rows)) if kinds else []


def _row_values(
    row: int,
    choices: Mapping[str, tuple[Array, list[Any]]],
    numbers: Mapping[str, Array],
    by_value: Mapping[str, tuple[Array, Array]],
) -> dict[str, Any]:
    """Values that the columns give a row."""
    stated = {n: labels[codes[row]] for n, (codes, labels) in choices.items() if codes[row] >= 0}
    for name, column in numbers.items():
        if not np.isnan(column[row]):  # any value would do
            stated[name] = float(column[row])
    for name, (codes, distinct) in by_value.items():
        if codes[row] >= 0:
            stated[name] = float(distinct[codes[row]])
    return stated


@dataclass(frozen=True)
class _Kind:
    """A class to which combinations are still being added."""

    options: Mapping[str, Any]
    names: list[str]
    members: list[int]  # its combinations
    values: list[Array]  # by name, one for each member
    inferred: bool
    fitted: set[str]
    remarks: dict[str, None]
    notes: dict[str, str]


def _members(
    kinds: Collection[_Kind], combination: Array | None, count: int, rows: int
) -> Iterator[Class]:
    within, class_of = np.zeros(count, np.int64), np.zeros(count, np.int16)
    for number, kind in enumerate(kinds):
        within[kind.members] = np.arange(len(kind.members))
        class_of[kind.members] = number
    parts: list[Array | slice] = [slice(0, rows)]
    if len(kinds) > 1 and combination is not None:
        owner = class_of[combination]
        order = np.argsort(owner, kind="stable")
        parts = list(np.split(order, np.cumsum(np.bincount(owner))[:-1]))
    for kind, cut in zip(kinds, parts, strict=True):
        table = np.array(kind.values)
        same = (table == table[0]).all(axis=0)
        given = {
            name: float(column[0]) if single else column
            for name, column, single in zip(kind.names, table.T.copy(), same, strict=True)
        }
        local = None if combination is None else within[combination[cut]]
        size = rows if isinstance(cut, slice) else len(cut)
        labels = frozenset(kind.fitted), tuple(kind.remarks), kind.notes
        yield Class(kind.options, given, local, cut, size, kind.inferred, *labels)


def _combined(parts: Iterable[tuple[Array, int]], rows: int) -> tuple[Array | None, list[int]]:
    """Number rows by their combination of codes (from -1 on); also a row of each combination."""
    import pandas

    whole: Any = None
    size = 1
    for codes, count in parts:
        if whole is None:
            whole = np.zeros(rows, np.int64)
        if size * (count + 1) >= 2**62:
            whole, distinct = pandas.factorize(whole)
            size = len(distinct)
        whole = whole * (count + 1) + codes + 1
        size *= count + 1
    if whole is None:
        return None, [0] if rows else []
    numbers, distinct = pandas.factorize(whole)  # in order of appearance
    some = np.empty(len(distinct), np.int64)
    some[numbers] = np.arange(rows)
    return (None if len(distinct) == 1 else numbers), some.tolist()
