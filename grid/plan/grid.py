"""Quantities on the grids of their own dimensions, over which blocks are evaluated."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...kernels.engines.numpy import Point, value
from ...kernels.graph.formulas import Function, parameters
from ..spec.axis import Array
from .tiles import Region

# The largest output has at least this many points for each point of a formula not worth compiling:
# NumPy then takes little time compared with the outputs, and gives the same bits (decision 52)
MINOR = 100


@dataclass(frozen=True)
class Case:
    """One combination of runs along the axes that vary options: formulas, and given values."""

    runs: Mapping[str, slice]
    formulas: Mapping[str, Function]
    leaves: Mapping[str, Array] = field(repr=False)
    fixed: Point | None = field(default=None, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


class Grid:
    """Dimensions, the quantities over each, and their tables, of a sweep or of some points."""

    engine: str
    # Kernels are compiled in the background; NumPy evaluates meanwhile, to the same bits
    compiles_in_background = False
    axes: Sequence[Any]  # in memory order, each with a name
    sizes: Mapping[str, int]
    dims: Mapping[str, tuple[str, ...]]  # of every quantity and input
    full: int  # points of the sweep's largest output
    sent: dict[Any, Any] | None = None  # operands on JAX's device, by name and region

    def __init__(self) -> None:
        self._tables: dict[tuple[str, tuple[tuple[str, int], ...]], Array] = {}
        self._points: dict[tuple[int, ...], dict[str, Any]] = {}
        self._cached: dict[Any, Any] = {}  # of these points

    def size(self, name: str) -> int:
        """Points of the grid of a quantity's own dimensions."""
        return self.points_over(self.dims[name])

    def points_over(self, dims: Iterable[str]) -> int:
        """Points of the grid of some dimensions."""
        return math.prod(self.shape(dims))

    def shape(self, dims: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.sizes[dim] for dim in dims)

    def whole(self, dims: Iterable[str]) -> Region:
        return {dim: slice(0, self.sizes[dim]) for dim in dims}

    def is_minor(self, dims: tuple[str, ...], formulas: int) -> bool:
        """Whether NumPy evaluates some formulas in a negligible part of the sweep's time."""
        return self.points_over(dims) * formulas * MINOR <= self.full

    def is_table(self, name: str) -> bool:
        """Whether a quantity is evaluated once for the whole grid, with NumPy."""
        raise NotImplementedError

    def table(self, case: Case, name: str) -> Array:
        """A given value or a table over its own grid within a case, size-1 axes elsewhere.

        Cases that differ along other dimensions share it. It always covers the whole grid, never a
        block, so that cutting the grid cannot change it.
        """
        with np.errstate(all="ignore"):
            return self._table(case, name)

    def _table(self, case: Case, name: str) -> Array:
        if name in case.leaves and name not in case.formulas:
            return case.leaves[name]
        runs = case.runs
        key = (
            name,
            tuple((d, runs[d].start) for d in self.dims[name] if d in runs) if runs else (),
        )
        table = self._tables.get(key)
        if table is None:
            if case.fixed and name in case.fixed.formulas:
                table = np.asarray(self._fixed(case, case.fixed)[name])
            else:
                formula = case.formulas[name]
                table = value(formula, [self._table(case, p) for p in parameters(formula)])
            if table.ndim == 0:
                table = table.reshape((1,) * len(self.axes))
            self._tables[key] = table
        return table

    def _fixed(self, case: Case, fixed: Point) -> dict[str, Any]:
        """Values of a case's quantities that have one there."""
        key, corner = (id(fixed), *(run.start for run in case.runs.values())), (0,) * len(self.axes)
        values = self._points.get(key, {})
        if case.runs and len(values) < len(fixed.formulas):
            values = fixed.alike(lambda name: case.leaves[name][corner], self._cached)
        elif not case.runs and len(values) < len(fixed.operands) + len(fixed.formulas):
            values = fixed([case.leaves[name][corner] for name in fixed.operands], values)
        self._points[key] = values
        return values


def by_dims(
    names: Iterable[str], dims: Mapping[str, tuple[str, ...]]
) -> dict[tuple[str, ...], list[str]]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        groups.setdefault(dims[name], []).append(name)
    return groups
