"""Exact extremes by branch and bound: boxes that cannot contain the best point are not evaluated.

The result equals that of a scan, to the bit (decision 25); the search gives up if it would take
more than a small share of the scan's time.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...kernels.calculus.derivatives import derivative
from ..plan import tiles
from ..plan.engine import JAX, pick_engine
from ..plan.execute import REUSE
from ..plan.grid import Case
from ..plan.plan import Plan
from ..plan.tiles import Region
from ..spec.axis import Array
from .boxes import Layout, Space, needed
from .filtered import Condition

WORTH = 1 << 26  # points from which a search is tried: a fifth of a second of scanning
MOST_SHARE = 0.16  # of the scan's time, after which the search gives up
CELLS = 4  # a search for several cells, which cut fewer boxes, may take this many times less
# Measured costs in points scanned: about 3 ns each
RANKED = 10  # each point of which several are kept
BOX = 40  # per table and formula
CALL = 30_000  # per formula, to bound some boxes
SPACE = 1 << 23
TABLE = 10  # per point
FORMULA = 3  # per point of each quantity that NumPy computes for a table
COMPILED = 0.1  # the same of a compiled engine, there and in a scan
LEAST, MOST = 16, 1 << 13  # boxes split at once: few at first, to find a good point early
NOWHERE = np.iinfo(np.int64).max  # rank of no point


def search(
    plan: Plan,
    name: str,
    how: str,
    dims_kept: Collection[str],
    reduced: Mapping[str, int],
    threads: int,
    where: Sequence[Condition] | None = None,
    k: int = 1,
) -> tuple[Array, Array] | None:
    """The k best values of each cell, along a last axis, and the ranks of their points, of equals
    the first; None if a scan is cheaper. Cells are of `kept`, in memory order; ranks number the
    points over `reduced`. Points are those that `FilteredRoom` keeps if `where` is given."""
    dims = tuple(dim for dim in plan.sizes if dim in dims_kept or dim in reduced)
    ranked = plan.points_over(dims) * (1 if k == 1 else RANKED)
    read = {name, *(each for condition in where or () for each in condition.outputs)}
    if (
        ranked < WORTH
        or not reduced
        or plan.engine in JAX
        or any(derivative(plan.graph, each) for each in read)
    ):
        return None
    cases, cells = (
        plan.cases_of(dims),
        plan.points_over(dim for dim in dims if dim in dims_kept),
    )
    whole = [{d: case.runs.get(d, slice(0, plan.sizes[d])) for d in dims} for case in cases]
    scan = ranked + COMPILED * sum(
        _computed(plan, case, region, read) for case, region in zip(cases, whole, strict=True)
    )
    most = MOST_SHARE * scan / (1 if cells == 1 else CELLS)
    if SPACE * len(cases) + BOX * cells * k > most:
        return None
    dims_held = [dim for dim in dims if dim in dims_kept]
    layouts = [
        Layout(plan, case, name, region, dims_held, where)
        for case, region in zip(cases, whole, strict=True)
    ]
    work = [count for layout in layouts for count in layout.work]
    engine = plan.engine
    if engine != "numpy":
        engine = pick_engine("auto", work, max(work, default=1))
    searched = _Search(plan, dims, how, dims_kept, reduced, engine, threads, k)
    searched.left = most
    try:
        for layout in layouts:
            searched.charge(TABLE * layout.tables)
            searched.charge(BOX * cells * k * sum(digit.radix for digit in layout.digits))
        searched.charge((FORMULA if engine == "numpy" else COMPILED) * sum(work))
        for layout in layouts:
            searched.enter(layout)
    except _TooDearError:
        return None
    shape = (*plan.shape(dims_held), k)
    nowhere = searched.ranks == NOWHERE
    values = np.where(nowhere, np.nan, searched.sign * searched.values)
    return values.reshape(shape), searched.ranks.reshape(shape)


def _computed(plan: Plan, case: Case, region: Region, read: Collection[str]) -> int:
    """Points of all quantities that a scan computes: again at each, unless they are far fewer."""
    sizes = tiles.sizes(region)
    whole = math.prod(sizes.values())
    points = (
        math.prod(sizes.get(dim, 1) for dim in plan.dims[name])
        for name in needed(case.formulas, read)
    )
    return sum(count if count * REUSE <= whole else whole for count in points)


class _TooDearError(Exception):
    """The search costs too much compared with a scan."""


class _Search:
    """The best values known in each cell, and the ranks of the first points that have them."""

    def __init__(
        self,
        plan: Plan,
        dims: tuple[str, ...],
        how: str,
        dims_kept: Collection[str],
        reduced: Mapping[str, int],
        engine: str,
        threads: int,
        k: int,
    ) -> None:
        cells = {dim: plan.sizes[dim] for dim in dims if dim in dims_kept}
        self.sign = 1.0 if how == "min" else -1.0  # negated to find maxima
        self.values = np.full((math.prod(cells.values()), k), np.inf)
        self.ranks = np.full(self.values.shape, NOWHERE)
        self.left = math.inf
        self._rank, self._cell = (
            np.array([tiles.strides(group).get(dim, 0) for dim in dims], np.int64)
            for group in (reduced, cells)
        )
        self._engine, self._threads = engine, threads

    def charge(self, cost: float) -> None:
        self.left -= cost
        if self.left < 0:
            raise _TooDearError

    def enter(self, layout: Layout) -> None:
        self.charge(SPACE)
        space = Space(layout, self._engine, self._threads)
        self._cut(space, np.zeros((1, 0), np.int64))

    def _cut(self, space: Space, boxes: Array) -> None:
        """Search boxes with the same number of fixed digits."""
        layout = space.layout
        children = layout.divided(boxes)
        first = layout.first(children) + layout.starts
        rank, cell = first @ self._rank, first @ self._cell
        parts = len(layout.formulas) + len(layout.read)
        self.charge(BOX * parts * len(children) + CALL * len(layout.formulas))
        with np.errstate(all="ignore"):
            if children.shape[1] == len(layout.digits):
                self._offer(self.sign * space.values(children), rank, cell)
                return
            low, high, some = space.bounds(children)
        least = low if self.sign > 0 else -high
        if children.shape[1] < layout.held_digits:
            # A box of several cells: a value worse than one cell's best may be another's best
            least = np.full(len(children), np.nan)
        left_boxes = np.flatnonzero(some & ~self._lost(least, rank, cell))
        order = left_boxes[np.lexsort((rank[left_boxes], least[left_boxes]))]
        start, count = 0, LEAST
        while start < len(order):
            part = order[start : start + count]
            start, count = start + count, min(4 * count, MOST)
            part = part[~self._lost(least[part], rank[part], cell[part])]
            if children.shape[1] != layout.cut:
                if part.size:
                    self._cut(space, children[part])
                continue
            for k in part:
                if not self._lost(least[k], rank[k], cell[k]):
                    self.enter(layout.part(children[k]))

    def _lost(self, least: Array, rank: Array, cell: Array) -> Any:
        """Boxes with nothing better than the last value kept, nor an equal point of lower rank."""
        last = self.values[cell, -1]
        return (least > last) | ((least == last) & (rank >= self.ranks[cell, -1]))

    def _offer(self, values: Array, rank: Array, cell: Array) -> None:
        """Take better points, the first of equals."""
        better = np.flatnonzero(~np.isnan(values) & ~self._lost(values, rank, cell))
        cells, k = np.unique(cell[better]), self.values.shape[1]
        values = np.concatenate([values[better], self.values[cells].ravel()])
        rank = np.concatenate([rank[better], self.ranks[cells].ravel()])
        cell = np.concatenate([cell[better], np.repeat(cells, k)])
        order = np.lexsort((rank, values, cell))
        picks = order[np.searchsorted(cell[order], cells)[:, None] + np.arange(k)]
        self.values[cells], self.ranks[cells] = values[picks], rank[picks]
