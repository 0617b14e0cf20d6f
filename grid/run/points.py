"""Evaluate a plan only at chosen points of its grid."""

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...kernels.engines.job import threads_for
from ...kernels.graph.roles import REASON
from ..plan import memory
from ..plan.engine import JAX
from ..plan.execute import Piece
from ..plan.grid import Case, Grid
from ..plan.labels import dtype_of
from ..plan.plan import Plan
from ..spec.axis import Array

SMALLER = 8  # a quantity this many times smaller than the slice is evaluated before it
MOST_TABLE = 1 << 12  # points up to which a table of the whole sweep is kept and looked up

Places = Mapping[str, Array]  # by dimension: indices, in arrays that broadcast to a shape
Outs = Mapping[str, Array]  # by name: arrays of that shape


class _Part(Grid):
    """A case at chosen places: the plan's formulas over the result's dimensions. Tables are those
    of the whole sweep, since JAX's values depend on them."""

    def __init__(
        self, whole: Plan, case: Case, places: Places, shape: tuple[int, ...], engine: str
    ) -> None:
        super().__init__()
        self.engine, self.full = engine, whole.full
        self._whole, self._case, self._places = whole, case, places
        names = tuple(map(str, range(len(shape))))
        self.axes: Any = tuple(SimpleNamespace(name=name) for name in names)
        self.sizes = dict(zip(names, shape, strict=True))
        self.points = math.prod(shape)
        along = {
            dim: {name for name, size in zip(names, index.shape, strict=True) if size > 1}
            for dim, index in places.items()
        }
        shadows = {
            dims: tuple(n for n in names if any(n in along[dim] for dim in dims))
            for dims in set(whole.dims.values())
            if all(dim in places for dim in dims)
        }
        self.dims = {name: shadows[dims] for name, dims in whole.dims.items() if dims in shadows}
        self.case = Case({}, case.formulas, dict(self._leaves(case, places, len(shape))))

    def _leaves(self, case: Case, places: Places, ndim: int) -> Any:
        for name, leaf in case.leaves.items():
            if leaf.size == 1:
                yield name, leaf.reshape((1,) * ndim)
                continue
            sizes = zip(self._whole.axes, leaf.shape, strict=True)
            varying = [axis.name for axis, size in sizes if size > 1]
            if all(axis in places for axis in varying):
                starts = [case.runs[axis].start if axis in case.runs else 0 for axis in varying]
                index = [places[axis] - start for axis, start in zip(varying, starts, strict=True)]
                yield name, np.squeeze(leaf)[tuple(index)]

    def is_table(self, name: str) -> bool:
        if self.engine in JAX:
            return self._whole.is_table(name)
        return self.size(name) * SMALLER <= self.points or self._is_known(name)

    def _is_known(self, name: str) -> bool:
        whole = self._whole
        return whole.size(name) <= MOST_TABLE and whole.is_table(name)

    def _table(self, case: Case, name: str) -> Array:
        if name not in case.formulas or not self._is_known(name):
            return super()._table(case, name)
        if (name, ()) not in self._tables:
            table, runs = self._whole.table(self._case, name), self._case.runs
            index = tuple(
                self._places[axis.name] - (runs[axis.name].start if axis.name in runs else 0)
                if size > 1
                else 0
                for axis, size in zip(self._whole.axes, table.shape, strict=True)
            )
            values = table[index]
            self._tables[name, ()] = (
                values if values.ndim else values.reshape((1,) * len(self.axes))
            )
        return self._tables[name, ()]


def values_at(
    plan: Plan, names: list[str], places: Places, shape: tuple[int, ...], dtype: str, engine: str
) -> dict[str, Array]:
    """Outputs that share dimensions, at the places given for each of these dimensions.

    Index arrays broadcast to `shape`: arrays along different axes form a grid, arrays along one
    axis vary together. Only these points are evaluated. `engine` is the plan's, or "auto" for a
    NumPy plan: numba as soon as it has compiled.
    """
    whole = shape or (1,)
    places = {dim: index if shape else index.reshape(1) for dim, index in places.items()}
    outs = _room({name: dtype_of(plan.graph, name, dtype) for name in names}, whole)
    if math.prod(whole):
        for case in plan.cases_of(tuple(places)):
            _fill(plan, case, places, outs, engine)
        masked = [name for name in names if plan.mask and name in plan.layout_dependent]
        if masked:
            reason_places = {dim: places[dim] for dim in plan.out_dims[REASON]}
            reason = values_at(plan, [REASON], reason_places, whole, dtype, engine)[REASON]
            for name in masked:
                lost = -1 if outs[name].dtype == np.int8 else np.nan
                np.copyto(outs[name], lost, where=reason != 0)
    return {name: out.reshape(shape) for name, out in outs.items()}


def _fill(plan: Plan, case: Case, places: Places, outs: Outs, engine: str) -> None:
    """Evaluate a case at the places that fall into it."""
    shape = next(iter(outs.values())).shape
    inside = np.ones((1,) * len(shape), bool)
    for dim, run in case.runs.items():
        if dim in places:
            inside = inside & (places[dim] >= run.start) & (places[dim] < run.stop)
    if not inside.any():
        return
    if inside.all():
        _evaluate(plan, case, places, outs, engine)
        return
    others = [tuple(j for j in range(len(shape)) if j != k) for k in range(len(shape))]
    rows = [np.flatnonzero(inside.any(axis=other)) for other in others]
    target: Any
    if math.prod(map(len, rows)) == np.count_nonzero(inside):  # a grid within the grid
        picks = [
            row if size > 1 else np.arange(full)
            for row, size, full in zip(rows, inside.shape, shape, strict=True)
        ]
        target = np.ix_(*picks)
        part = {
            dim: index[
                np.ix_(*[k if n > 1 else [0] for k, n in zip(picks, index.shape, strict=True)])
            ]
            for dim, index in places.items()
        }
        size = tuple(map(len, picks))
    else:
        target = np.nonzero(np.broadcast_to(inside, shape))
        part = {dim: np.broadcast_to(index, shape)[target] for dim, index in places.items()}
        size = target[0].shape
    arrays = _room({name: out.dtype for name, out in outs.items()}, size)
    _evaluate(plan, case, part, arrays, engine)
    for name, out in outs.items():
        out[target] = arrays[name]


def _evaluate(plan: Plan, case: Case, places: Places, outs: Outs, engine: str) -> None:
    shape = next(iter(outs.values())).shape
    part = _Part(plan, case, places, shape, engine)
    threads = threads_for(math.prod(shape))
    region = {name: slice(0, size) for name, size in part.sizes.items()}
    Piece(part, part.case, threads).fill(tuple(region), region, outs)


def _room(dtypes: Mapping[str, Any], shape: tuple[int, ...]) -> dict[str, Array]:
    size = sum(math.prod(shape) * dtype.itemsize for dtype in dtypes.values())
    if size > memory.SMALL:
        memory.check(size, "take a smaller slice, or reduce blocks (Sweep.reduce, Sweep.lazy)")
    return {name: np.empty(shape, dtype) for name, dtype in dtypes.items()}
