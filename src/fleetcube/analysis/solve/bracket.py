"""State of many points that are solved together, as arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.grid.plan.tiles import Region
from fleetcube.grid.spec.axis import Array


@dataclass(frozen=True)
class Near:
    """Distance of an output from its target, and its slope along the range. A place is the input's
    logarithm if its range is above 0, else the input itself; a gap is the logarithm of output over
    target where both are above 0, else the excess."""

    value: Array  # of the output
    excess: Array
    size: Array  # of the target
    gap: Array
    slope: Array  # of the gap over the place, NaN if not requested


@dataclass(frozen=True)
class Solution:
    """The result of a search at every point; input values are NaN without a solution."""

    root: Array
    value: Array  # the output at the root
    reason: Array  # why there is no root
    crossings: Array  # crossings of the target seen by the scan
    next_above: Array  # a value between the root and the next solution, if the scan saw one
    nearest: Array  # without a root: the scanned value nearest to the target


@dataclass
class Bracket:
    """Two values with the target between them, and the gaps from the scan."""

    low: Array
    high: Array
    left: Array
    right: Array

    def cut(self, part: tuple[Any, ...]) -> "Bracket":
        """Views of a bracket at some points, for in-place changes."""
        return Bracket(self.low[part], self.high[part], self.left[part], self.right[part])

    def replace(self, low: Array, high: Array, left: Array, right: Array, where: Array) -> None:
        """Set the ends, in place."""
        ends = (self.low, low), (self.high, high), (self.left, left), (self.right, right)
        for end, new in ends:
            end[where] = new[where]


def box(where: Array) -> tuple[Any, ...]:
    """The smallest block that contains every true point, as an index of a view."""
    ranges: list[Any] = []
    for k in range(where.ndim):
        inside = np.flatnonzero(where.any(axis=tuple(j for j in range(where.ndim) if j != k)))
        ranges.append(slice(int(inside[0]), int(inside[-1]) + 1))
    return (*ranges, ...)


def within(tile: Region, part: tuple[Any, ...]) -> Region:
    return {
        dim: slice(cut.start + piece.start, cut.start + piece.stop)
        for (dim, cut), piece in zip(tile.items(), part[:-1], strict=True)
    }


def replaced(array: Array, value: Array, where: Array) -> Array:
    """A copy of an array with values replaced where a condition holds."""
    return np.where(where, value, array)
