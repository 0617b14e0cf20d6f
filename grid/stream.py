"""What the reductions share: numbered blocks in memory that is used again, and checked names."""

import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..kernels.graph import load
from ..kernels.job import pool
from .axes import Array
from .blocks import blocks
from .dataset import dtype_of
from .errors import InputError, nearest, shown
from .execute import evaluate_block
from .plan import REASON, Plan, Region, extent

BLOCK = 1 << 20  # points of one block


class Room:
    """Arrays of a block, in memory that each thread uses again: new pages cost more."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self._local = names, threading.local()

    def arrays(self, shape: tuple[int, ...]) -> dict[str, Array]:
        """One array for each name; flags are int8."""
        size = math.prod(shape)
        if getattr(self._local, "size", -1) < size:
            self._local.flats = [np.empty(size, dtype_of(name, float)) for name in self.names]
            self._local.size = size
        flats = zip(self.names, self._local.flats, strict=True)
        return {name: flat[:size].reshape(shape) for name, flat in flats}

    def evaluate(self, plan: Plan, dims: tuple[str, ...], region: Region) -> dict[str, Array]:
        """The outputs over a region, until this thread evaluates the next one."""
        outs = self.arrays(extent(region, dims, dims))
        evaluate_block(plan, dims, region, outs, 1)
        return outs


def each(plan: Plan, threads: int, function: Callable[[Any], None], tasks: Iterator[Any]) -> None:
    """Call the function with each task, on all threads where the engine has none of its own."""

    def quiet(task: Any) -> None:
        with np.errstate(all="ignore"):
            function(task)

    pool(1 if plan.engine == "jax" else threads).each(quiet, tasks)


def within(region: Region, most: int) -> Iterator[Region]:
    """Cut a region into blocks."""
    for block in blocks({dim: cut.stop - cut.start for dim, cut in region.items()}, most):
        yield {
            dim: slice(region[dim].start + cut.start, region[dim].start + cut.stop)
            for dim, cut in block.items()
        }


def strides(sizes: Mapping[str, int]) -> dict[str, int]:
    """Steps of a number that counts the points of a grid, the last axis fastest."""
    found: dict[str, int] = {}
    step = 1
    for dim in reversed(list(sizes)):
        found[dim] = step
        step *= sizes[dim]
    return found


def user_sizes(plan: Plan, dims: Collection[str]) -> dict[str, int]:
    """Sizes of dimensions, in the order in which the axes were written."""
    return {axis.name: axis.size for axis in plan.problem.axes if axis.name in dims}


def labels_of(plan: Plan, name: str) -> Array:
    """The coordinate of an axis."""
    (labels,) = (axis.labels for axis in plan.problem.axes if axis.name == name)
    return labels


def check_over(plan: Plan, over: Any) -> tuple[str, ...]:
    """Names of axes; all of them where none is given."""
    if over is None:
        return tuple(user_sizes(plan, plan.sizes))
    axes = (over,) if isinstance(over, str) else tuple(over)
    for axis in axes:
        if axis not in plan.sizes:
            raise InputError(f"over: {axis!r} is not an axis; choose from {', '.join(plan.sizes)}")
    return axes


def numeric(plan: Plan) -> list[str]:
    """Outputs that are not flags."""
    return [name for name in plan.outputs if load()[name].unit != "flag"]


def check_output(plan: Plan, of: Any) -> str:
    """The name of a numeric output."""
    known = numeric(plan)
    if of == REASON or (isinstance(of, str) and of in plan.outputs and of not in known):
        raise InputError(f"of = {of!r} is a flag; name a number: {', '.join(known)}")
    if not isinstance(of, str) or of not in known:
        raise InputError(f"of = {shown(of)} is not an output; {nearest(str(of), known)}")
    return of
