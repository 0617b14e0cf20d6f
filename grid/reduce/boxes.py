"""Boxes of a grid, and bounds of an output in each, from ranges of its formulas.

The index along an axis is written in *digits*, like a number, and the digits of all axes are put in
one order. A box is the set of points that share the first few digits. Near the end of the graph
quantities are tables with known minimum and maximum in every box; from there on, formulas run on
ranges (`kernels/calculus/ranges.py`).
"""

import copy
import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.calculus import ranges
from ...kernels.engines.numpy import evaluate
from ...kernels.graph.formulas import Function, parameters
from ...kernels.graph.roles import REASON
from ...kernels.graph.trace import Trace, Value
from ..plan.execute import Piece
from ..plan.grid import Case, Grid, by_dims
from ..plan.plan import Plan
from ..plan.tiles import Region, extent, seen_from
from ..spec.axis import Array
from .filtered import Condition, met

RADIX = 32  # about the values of a digit
MOST_POINTS = 1 << 24  # points of all tables together: 128 MB, and twice that during construction
COARSE = 1 << 21  # the same for a space split into smaller ones with their own tables


@dataclass(frozen=True)
class Digit:
    """A digit of the index along an axis: its number of values, and the index step of each."""

    axis: int
    radix: int
    step: int


def digits_of(axis: int, size: int) -> list[Digit]:
    """The digits of an axis, the leading one first."""
    count = 1
    while RADIX**count < size:
        count += 1
    radix = next(r for r in range(1, RADIX + 1) if r**count >= size)
    digits, step = [], 1
    for k in range(count):
        base = radix if k < count - 1 else -(-size // step)
        digits.append(Digit(axis, base, step))
        step *= base
    return digits[::-1]


class Layout:
    """A region of an output's grid inside one case, and which quantities are tables there.

    After `cut` digits boxes have their own tables, because those of the whole region do not fit
    into memory; None if they do. `dims_kept` are not reduced. `tables` counts the points of all
    tables, `work` those of each quantity in them.
    """

    def __init__(
        self,
        plan: Plan,
        case: Case,
        name: str,
        region: Region,
        dims_kept: Sequence[str],
        where: Sequence[Condition] | None = None,
    ) -> None:
        self.plan, self.case, self.name, self.region = plan, case, name, region
        self.dims_kept, self.where = tuple(dims_kept), where
        wanted = list(dict.fromkeys([name, *(n for each in where or () for n in each.outputs)]))
        judged = where is not None and REASON in plan.outputs  # as `FilteredRoom` does
        self.masked = plan.mask and (judged or any(n in plan.layout_dependent for n in wanted))
        self.dims = tuple(region)
        self.starts = np.array([cut.start for cut in region.values()], np.int64)
        self.sizes = [cut.stop - cut.start for cut in region.values()]
        self._positions = {  # positions of each name's axes
            quantity: [self.dims.index(dim) for dim in dims]
            for quantity, dims in plan.dims.items()
            if set(dims) <= set(self.dims)
        }
        wanted += [REASON] if self.masked else []
        above, self.read = self._frontier(wanted, MOST_POINTS, loose=False)
        self.digits = self._order()
        self.held_digits = sum(self.dims[digit.axis] in self.dims_kept for digit in self.digits)
        self.tables = self.points(self.read)
        self.work = [self.points([n]) for n in needed(case.formulas, self.read)]
        self.cut: int | None = None
        if self.tables > MOST_POINTS:
            self.cut = self._depth()
            above, self.read = self._frontier(wanted, COARSE, loose=True)
        self.formulas = {n: formula for n, formula in case.formulas.items() if n in above}

    def points(self, names: Iterable[str], sizes: Sequence[int] | None = None) -> int:
        """Total points of the tables of `names`."""
        sizes = sizes or self.sizes
        return sum(math.prod(sizes[k] for k in self._positions[name]) for name in names)

    def _frontier(
        self, wanted: Sequence[str], most: int, loose: bool
    ) -> tuple[set[str], list[str]]:
        """Formulas to run on ranges, and the tables that they read, of `most` points in total. A
        range is tight if the formula reads each operand once; others stay tables unless `loose`."""
        formulas, above, read = self.case.formulas, set[str](), dict.fromkeys(wanted)
        while self.points(read) > most:
            name = max(read, key=lambda n: (n in formulas) * self.points([n]))
            if name not in formulas or not (loose or reads_once(formulas[name])):
                break
            above.add(name)
            del read[name]
            read |= dict.fromkeys(p for p in parameters(formulas[name]) if p not in above)
        return above, list(read)

    def _order(self) -> list[Digit]:
        """The digits of all axes: first of kept axes, then of those that most tables share."""
        weight = [0.0] * len(self.dims)
        for name in self.read:
            for k in self._positions[name]:
                weight[k] += math.log(self.points([name]))
        axes = sorted(
            range(len(self.dims)), key=lambda k: (self.dims[k] not in self.dims_kept, -weight[k])
        )
        return [digit for k in axes for digit in digits_of(k, self.sizes[k])]

    def _depth(self) -> int:
        """Number of fixed digits at which the tables fit."""
        sizes = list(self.sizes)
        for k, digit in enumerate(self.digits):
            if k > 0 and self.points(self.read, sizes) <= MOST_POINTS:
                return k
            sizes[digit.axis] = digit.step
        return len(self.digits)

    def first(self, boxes: Array) -> Array:
        """Index of each box's first point along each axis; `boxes` has a row of digits for each."""
        first = np.zeros((len(boxes), len(self.dims)), np.int64)
        for column, digit in zip(boxes.T, self.digits, strict=False):
            first[:, digit.axis] += column * digit.step
        return first

    def divided(self, boxes: Array) -> Array:
        """Boxes split by the next digit, without those past the end of the axis."""
        digit = self.digits[boxes.shape[1]]
        children = np.empty((len(boxes), digit.radix, boxes.shape[1] + 1), np.int64)
        children[:, :, :-1], children[:, :, -1] = boxes[:, None, :], np.arange(digit.radix)
        children = children.reshape(-1, children.shape[2])
        begins = self.first(children)[:, digit.axis]
        return np.asarray(children[begins < self.sizes[digit.axis]])

    def part(self, box: Array) -> "Layout":
        """One box as a separate region."""
        sizes = list(self.sizes)
        for digit in self.digits[: len(box)]:
            sizes[digit.axis] = digit.step
        starts = self.first(box[None, :])[0]
        stops = np.minimum(starts + sizes, self.sizes)
        region = {
            dim: slice(int(start), int(stop))
            for dim, start, stop in zip(
                self.dims, starts + self.starts, stops + self.starts, strict=True
            )
        }
        return Layout(self.plan, self.case, self.name, region, self.dims_kept, self.where)


class Space:
    """A layout with its tables: ranges of an output in boxes, and its values at points."""

    def __init__(self, layout: Layout, engine: str, threads: int) -> None:
        self.layout = layout
        arrays, reason = self._arrays(engine, threads), REASON
        feasible = arrays[reason] == 0 if layout.masked and reason in arrays else None
        self._tables = {
            name: _Table(array, layout.digits, feasible) for name, array in arrays.items()
        }
        bind = ranges.library().binding.bind
        self._bound = {name: bind(formula) for name, formula in layout.formulas.items()}

    def _arrays(self, engine: str, threads: int) -> dict[str, Array]:
        """The formulas' operands over all axes of the region: size 1 along constant axes."""
        layout, plan, case = self.layout, self.layout.plan, self.layout.case
        runs = {dim: case.runs.get(dim, slice(0, plan.sizes[dim])) for dim in layout.dims}
        inside = seen_from(runs, layout.region)
        arrays = {}
        for name in layout.read:
            if name not in case.formulas:
                leaf = case.leaves[name]
                axes = [(axis.name, size) for axis, size in zip(plan.axes, leaf.shape, strict=True)]
                cut = tuple(inside[dim] if size > 1 else slice(None) for dim, size in axes)
                varying = [dim for dim, size in axes if size > 1]
                arrays[name] = leaf[cut].reshape(extent(layout.region, varying, layout.dims))
        computed = [name for name in layout.read if name in case.formulas]
        grid: Grid = copy.copy(plan)  # same formulas, engine by number of points
        grid.engine, grid.full = engine, layout.points(computed)
        for dims, group in by_dims(computed, plan.dims).items():
            part = {dim: inside[dim] for dim in dims}
            outs = {name: np.empty(extent(part, dims, dims)) for name in group}
            Piece(grid, case, threads).fill(dims, part, outs)
            shape = extent(layout.region, dims, layout.dims)
            arrays |= {name: out.reshape(shape) for name, out in outs.items()}
        return arrays

    def bounds(self, boxes: Array) -> tuple[Array, Array, Array]:
        """Minimum and maximum in each box, and whether it may have any value."""
        some: Any = np.ones(len(boxes), bool)
        values: dict[str, Any] = {}
        for name, table in self._tables.items():
            values[name], present = table.range(boxes)
            some = some & present
        for name, formula in self._bound.items():
            operands = [values[p] for p in parameters(self.layout.formulas[name])]
            values[name] = formula(*operands)
        if self.layout.masked:
            some = some & (ranges.as_range(values[REASON]) == 0.0).holds
        for each in self.layout.where or ():
            some = some & met(each, {n: ranges.as_range(values[n]) for n in each.outputs}).holds
        out = ranges.as_range(values[self.layout.name])
        return np.broadcast_to(out.low, some.shape), np.broadcast_to(out.high, some.shape), some

    def values(self, points: Array) -> Array:
        """The output at points with all digits fixed, with the bits of the engines."""
        operands = {name: table.values_at(points) for name, table in self._tables.items()}
        quantities = {**operands, **evaluate(self.layout.formulas, operands)}
        values = np.array(np.broadcast_to(quantities[self.layout.name], len(points)))
        if self.layout.masked:
            values[np.broadcast_to(quantities[REASON] != 0, values.shape)] = np.nan
        for each in self.layout.where or ():
            values[np.broadcast_to(~met(each, quantities), values.shape)] = np.nan
        return values


class _Table:
    """A quantity's minimum and maximum in every box, for any number of leading digits. Values that
    belong to no `feasible` point are excluded."""

    def __init__(self, array: Array, digits: Sequence[Digit], feasible: Array | None) -> None:
        self._columns = [k for k, digit in enumerate(digits) if array.shape[digit.axis] > 1]
        table_digits = [digits[k] for k in self._columns]
        self._radix = [digit.radix for digit in table_digits]
        low, high = array, array
        if feasible is not None and table_digits:
            away = tuple(k for k, size in enumerate(array.shape) if size == 1)
            possible = feasible.any(axis=away, keepdims=True)
            if not possible.all():
                low, high = np.where(possible, array, np.inf), np.where(possible, array, -np.inf)
        self._low = _pyramid(_by_digits(low, table_digits, np.inf), np.fmin)
        self._high = _pyramid(_by_digits(high, table_digits, -np.inf), np.fmax)
        self._nan = None
        if np.isnan(self._low[-1]).any():
            self._nan = _pyramid(_by_digits(np.isnan(low), table_digits, False), np.logical_or)

    def _place(self, boxes: Array) -> tuple[int, Any]:
        """How many of the table's digits are fixed, and each box's index among their values."""
        columns = [k for k in self._columns if k < boxes.shape[1]]
        place: Any = np.zeros(1, np.int64)
        for column, radix in zip(columns, self._radix, strict=False):
            place = place * radix + boxes[:, column]
        return len(columns), place

    def range(self, boxes: Array) -> tuple[ranges.Range, Array]:
        """The range in each box, and whether there is any value."""
        given, place = self._place(boxes)
        low, high = self._low[given][place], self._high[given][place]
        some, nan = low <= high, np.False_
        if self._nan is not None:
            nan = self._nan[given][place]
        if not np.all(some):
            low, high = np.where(some, low, 0.0), np.where(some, high, 0.0)
        return ranges.Range(low, high, nan), some | nan

    def values_at(self, points: Array) -> Array:
        given, place = self._place(points)
        return np.asarray(self._low[given][place])


def _by_digits(array: Array, digits: Sequence[Digit], beyond: Any) -> Array:
    """An array over digits instead of axes, padded with `beyond` past the end of an axis."""
    for axis, size in enumerate(array.shape):
        full = math.prod(digit.radix for digit in digits if digit.axis == axis)
        if size > 1 and full > size:
            widths = [(0, full - size if k == axis else 0) for k in range(array.ndim)]
            array = np.pad(array, widths, constant_values=beyond)
    written = sorted(digits, key=lambda digit: (digit.axis, -digit.step))
    array = array.reshape([digit.radix for digit in written])
    return array.transpose([written.index(digit) for digit in digits])


def _pyramid(array: Array, function: Any) -> list[Array]:
    """The array reduced over its last axes: over all of them, all but the first, and so on."""
    levels = [np.ascontiguousarray(array)]
    while levels[-1].ndim:
        finer = levels[-1]
        coarser = np.array(finer[..., 0])
        for k in range(1, finer.shape[-1]):  # NumPy's reductions of short rows are slow
            function(coarser, finer[..., k], out=coarser)
        levels.append(coarser)
    return [level.reshape(-1) for level in reversed(levels)]


@functools.cache
def reads_once(formula: Function) -> bool:
    """Whether a formula uses each operand and intermediate result at most once."""
    trace, names = Trace(), parameters(formula)
    trace.run(formula, [Value(trace, name) for name in names])
    texts = [operation.text for operation in trace.operations.values()]
    used = Counter(word for text in texts for word in re.findall(r"\w+", text))
    return all(used[name] <= 1 for name in (*names, *trace.operations))


def needed(formulas: Mapping[str, Function], wanted: Iterable[str]) -> list[str]:
    """Formulas that `wanted` need, including their own."""
    names: set[str] = set()
    stack = list(wanted)
    while stack:
        name = stack.pop()
        if name in formulas and name not in names:
            names.add(name)
            stack += parameters(formulas[name])
    return [name for name in formulas if name in names]
