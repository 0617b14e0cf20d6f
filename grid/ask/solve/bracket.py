"""Points solved at once: what is known of each of them, as arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...spec.axes import Array


@dataclass(frozen=True)
class Near:
    """How far an output is from its target, and how that changes along the range.

    A place is the input's logarithm where its range is above 0, else the input itself; a gap is the
    logarithm of output over target where both are above 0, else the excess.
    """

    excess: Array
    size: Array  # of the target
    gap: Array
    slope: Array  # of the gap over the place


@dataclass(frozen=True)
class Found:
    """What a search found at every point; values of the input are NaN where there is none."""

    root: Array
    reason: Array  # why there is no root
    crossings: Array  # times that the output was seen to cross the target
    next_above: Array  # a value between the root and the next solution, where one was seen
    nearest: Array  # where there is no root: the value scanned that comes nearest to the target


@dataclass
class Bracket:
    """Two values with the target between them, and what the output exceeds it by at each."""

    low: Array
    high: Array
    left: Array
    right: Array

    def shrink(self, at: Array, excess: Array, where: Array) -> None:
        """Put a value in the place of the end on its side of the target."""
        same = np.sign(excess) == np.sign(self.left)
        self.low, self.left = (
            put(self.low, at, where & same),
            put(self.left, excess, where & same),
        )
        other = where & ~same
        self.high, self.right = put(self.high, at, other), put(self.right, excess, other)

    def close(self, at: Array, where: Array) -> None:
        """Let both ends be one value."""
        self.low, self.high = put(self.low, at, where), put(self.high, at, where)

    def cut(self, part: tuple[Any, ...]) -> "Bracket":
        """Some of its points, in place."""
        return Bracket(self.low[part], self.high[part], self.left[part], self.right[part])

    def replace(self, low: Array, high: Array, left: Array, right: Array, where: Array) -> None:
        """Other ends, in place."""
        ends = (self.low, low), (self.high, high), (self.left, left), (self.right, right)
        for own, new in ends:
            own[where] = new[where]


def box(where: Array) -> tuple[Any, ...]:
    """The smallest block that holds all points where something is so, as an index of a view."""
    box: list[Any] = []
    for k in range(where.ndim):
        held = np.flatnonzero(where.any(axis=tuple(j for j in range(where.ndim) if j != k)))
        box.append(slice(int(held[0]), int(held[-1]) + 1))
    return (*box, ...)


def put(array: Array, value: Array, where: Array) -> Array:
    """An array with other values where something is so."""
    return np.where(where, value, array)
