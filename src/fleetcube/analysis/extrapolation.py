"""Intervals of auto calibration at sizes being searched, as wide as an evaluation would give."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fleetcube.grid.plan.labels import REMARKS
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.plan.tiles import Region
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.problem import Problem
from fleetcube.kernels import elementary
from fleetcube.kernels.calculus.derivatives import name_of
from fleetcube.scenario import auto

from .gradient import reached

FACTOR = auto.FACTOR

Row = tuple[tuple[str, ...], Array]  # numbers, and the axes along which they vary


@dataclass(frozen=True)
class ExtrapolationError:
    """The error factor where some sizes are free. `logs` is its logarithm without them,
    `per_decade` the increase per decade outside the published steps. `through` are slopes, {name:
    (input, the output's slope by the factor)}."""

    sizes: tuple[str, ...]
    logs: Row
    per_decade: Row
    through: Mapping[str, tuple[str, str]]

    def free(self, region: Region, given: Mapping[str, Array]) -> dict[str, Array]:
        """Free inputs over a region, including the factor."""
        logs, rate = (_over(region, row) for row in (self.logs, self.per_decade))
        decades = sum(auto.beyond(name, given[name]) for name in self.sizes)
        shape = next(iter(given.values())).shape
        return {**given, FACTOR: np.broadcast_to(elementary.exp(logs + rate * decades), shape)}

    def along(self, axes: Sequence[Axis]) -> dict[str, Row]:
        """The factor as a table over axes, including those of the sizes."""
        rows = (self.logs, self.per_decade)
        region = {
            axis.name: slice(0, axis.size)
            for axis in axes
            if axis.name in {*rows[0][0], *rows[1][0], *self.sizes}
        }
        given = {}
        for axis in axes:
            for name in self.sizes:
                if name in axis.numbers:
                    row = (axis.name,), axis.numbers[name]
                    shape = [cut.stop for cut in region.values()]
                    given[name] = np.broadcast_to(_over(region, row), shape)
        return {FACTOR: (tuple(region), self.free(region, given)[FACTOR])}

    def also(self, names: Iterable[str]) -> list[str]:
        """The slopes that `names` need."""
        return [self.through[name][1] for name in names if name in self.through]

    def complete(self, outs: dict[str, Array], region: Region, free: Mapping[str, Array]) -> None:
        """Add the effect through the factor to slopes."""
        rate = _over(region, self.per_decade)
        for name in outs.keys() & self.through.keys():
            input_, by_factor = self.through[name]
            low, high = auto.span(input_) or (0.0, math.inf)
            size = free[input_]
            side = np.where(size > high, 1.0, np.where(size < low, -1.0, 0.0))
            slope = free[FACTOR] * rate * side / (math.log(10) * size)
            outs[name] = outs[name] + outs[by_factor] * slope.reshape(outs[name].shape)


def extrapolation_error(
    problem: Problem, plan: Plan, free: Sequence[str], outputs: Iterable[str]
) -> tuple[Problem, ExtrapolationError | None]:
    """The problem without its error factor, and how free sizes widen it (None: not at all)."""
    sizes = tuple(name for name in free if auto.span(name))
    reading = [out for out in outputs if FACTOR in reached(plan, [out])]
    if not (sizes and reading and problem.per_decade) or FACTOR not in problem.inferred.difference(
        free
    ):
        return problem, None
    if _by_phase(problem):
        return problem, None
    along = next((axis for axis in problem.axes if FACTOR in axis.numbers), None)
    if FACTOR in problem.tables:
        names, array = problem.tables[FACTOR]
    elif along:
        names, array = (along.name,), along.numbers[FACTOR]
    else:
        names, array = (), np.array(problem.constants[FACTOR])
    through = {
        name_of("d", out, name): (name, name_of("d", out, FACTOR))
        for out in reading
        for name in sizes
    }
    axes = tuple(auto.without(axis, [FACTOR]) for axis in problem.axes)
    rest = {name: row for name, row in problem.tables.items() if name != FACTOR}
    return (
        replace(problem, axes=axes, tables=rest),
        ExtrapolationError(sizes, (names, elementary.log(array)), problem.per_decade, through),
    )


def remarks(problem: Problem, answers: Mapping[str, Array]) -> list[str]:
    """Remarks on answers outside the published steps, a line each."""
    if problem.per_decade is None or FACTOR not in problem.inferred:
        return []
    lines = [line for name, row in answers.items() for line in auto.outside(name, row.reshape(-1))]
    if lines and _by_phase(problem):
        lines.append(
            "the interval is not widened for the value found, as it differs by phase: "
            "evaluate that value"
        )
    return lines


def with_remarks(attrs: dict[str, Any], lines: Sequence[str]) -> dict[str, Any]:
    earlier = attrs.get(REMARKS, "").splitlines()
    return {**attrs, REMARKS: "\n".join([*earlier, *lines])} if lines else attrs


def _by_phase(problem: Problem) -> bool:
    phase_numbers = problem.phases.numbers if problem.phases else {}
    return FACTOR in {*phase_numbers, *problem.phased}


def _over(region: Region, row: Row) -> Array:
    """Numbers over a region, with a size of 1 along dimensions they lack."""
    names, array = row
    order = [dim for dim in region if dim in names]
    cut = array.transpose([names.index(dim) for dim in order])[tuple(region[dim] for dim in order)]
    sizes = iter(cut.shape)
    return cut.reshape([next(sizes) if dim in names else 1 for dim in region])
