"""Shared by the reductions: execution of blocks and bundles, reused memory, and name checks.

A reduction is a pure function from a bundle to its part of the result, for any thread or process,
and a fold of the parts in the order of the bundles. The cut of a grid does not depend on what
computes it, and so neither does any bit of the result.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.calculus.derivatives import quantity
from ...kernels.engines.job import pool
from ...kernels.graph.roles import REASON
from ..errors import InputError, check_texts, nearest, shown
from ..plan import tiles
from ..plan.engine import JAX
from ..plan.execute import evaluate_block, on_device
from ..plan.labels import attributes, dtype_of, ordered
from ..plan.plan import Plan
from ..plan.tiles import Region, extent
from ..plan.workspace import Workspace
from ..progress import expected, watched
from ..spec.axis import Array
from .evaluation import Evaluation
from .recipe import Recipe, Work
from .settings import Settings

if TYPE_CHECKING:
    from .cluster import Cluster

Map = Callable[[Work, Iterable[Any]], Iterator[tuple[Any, Any]]]  # tasks with results, in order


@contextlib.contextmanager
def mapping(sweep: Evaluation, settings: Settings) -> Iterator[tuple[Plan, Map]]:
    """A sweep's plan, and its executor: threads of this process, or a Dask cluster's workers."""
    plan = sweep._plan(settings.engine, settings._mask)
    with cluster_of(plan, sweep.spec, settings.dask) as cluster:
        alone = functools.partial(_on_threads, plan, settings._cores)
        map_: Map = cluster.map if cluster else alone
        yield plan, functools.partial(_counted, map_) if watched() else map_


@contextlib.contextmanager
def cluster_of(plan: Plan, spec: Mapping[str, Any], dask: Any) -> Iterator["Cluster | None"]:
    if dask is None:
        yield None
        return
    from .cluster import Cluster

    with Cluster(dask, Recipe(spec, plan)) as cluster:
        yield cluster


def _counted(map_: Map, work: Work, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    """Tasks with results; points are reported as progress."""
    tasks = list(tasks)
    done = expected(sum(map(_covered, tasks)), "points")
    for task, result in map_(work, tasks):
        yield task, result
        done(_covered(task))


def _covered(task: Any) -> int:
    """Grid points covered by a task that is a region; else 0."""
    return math.prod(tiles.sizes(task).values()) if isinstance(task, dict) else 0


def _on_threads(
    plan: Plan, threads: int, work: Work, tasks: Iterable[Any]
) -> Iterator[tuple[Any, Any]]:
    """The tasks' results, on all threads unless the engine has its own."""

    def quiet(task: Any) -> tuple[Any, Any]:
        with np.errstate(all="ignore"):  # of this thread alone: set around it, it would not hold
            return task, work(plan, task)

    return pool(1 if plan.engine in JAX else threads).map(quiet, tasks)


class Room:
    """Arrays of a block, in memory reused by each thread."""

    def __init__(self, names: Sequence[str], most: int | None = None) -> None:
        self.names, self._memory = list(names), Workspace()
        # points of a block: workers cut like the sending process
        self.most = tiles.BLOCK if most is None else most

    def arrays(self, plan: Plan, shape: tuple[int, ...]) -> dict[str, Array]:
        """One array for each name; flags are int8."""
        dtypes = [dtype_of(plan.graph, name, float) for name in self.names]
        return dict(zip(self.names, self._memory.arrays(shape, dtypes), strict=True))

    def evaluate(self, plan: Plan, dims: tuple[str, ...], region: Region) -> dict[str, Array]:
        """The outputs over a region, valid until this thread's next evaluation."""
        outs = self.arrays(plan, extent(region, dims, dims))
        evaluate_block(plan, dims, region, outs, 1)
        return outs

    def on_device(
        self,
        plan: Plan,
        dims: tuple[str, ...],
        region: Region,
        names: Sequence[str],
        *reduction: Any,
    ) -> dict[str, Any] | None:
        """Outputs over a region, or their reductions, which stay on a device; None if the host has
        the outputs."""
        values = on_device(plan, dims, region, names, *reduction)
        return None if values is None else dict(zip(names, values, strict=True))


class Rooms:
    """`Room`s of outputs with different dimensions."""

    def __init__(self, plan: Plan, names: Collection[str]) -> None:
        groups = {
            dims: [name for name in group if name in names] for dims, group in plan.groups().items()
        }
        self._rooms = {dims: Room(group) for dims, group in groups.items() if group}
        self.most = tiles.BLOCK

    @property
    def dims(self) -> set[str]:
        return {dim for dims in self._rooms for dim in dims}

    def evaluate(self, plan: Plan, dims: Sequence[str], region: Region) -> dict[str, Array]:
        """The outputs over a region, of length 1 along dimensions that they lack."""
        outs = {}
        for room_dims, room in self._rooms.items():
            part = room.evaluate(plan, room_dims, {dim: region[dim] for dim in room_dims})
            for name, array in part.items():
                outs[name] = array.reshape(extent(region, room_dims, dims))
        return outs


def user_sizes(plan: Plan, dims: Collection[str]) -> dict[str, int]:
    """Sizes of dimensions, in the order in which the axes were written."""
    return {axis.name: axis.size for axis in plan.problem.axes if axis.name in dims}


def missing(labels: Array) -> tuple[Array, Any]:
    """Labels of which some may be missing, and what stands for these: an empty text, or NaN."""
    if labels.dtype.kind == "b":
        labels = np.where(labels, "true", "false")
    return (labels, "") if labels.dtype.kind == "U" else (labels.astype(float), np.nan)


def check_over(plan: Plan, over: Any) -> tuple[str, ...]:
    if over is None:
        return tuple(user_sizes(plan, plan.sizes))
    axes = tuple(check_texts("over", over))
    for axis in axes:
        if axis not in plan.sizes:
            raise InputError(f"over: {axis!r} is not an axis; choose from {', '.join(plan.sizes)}")
    return axes


def numeric(plan: Plan) -> list[str]:
    """Outputs that are not flags."""
    return [name for name in plan.outputs if quantity(plan.graph, name).unit != "flag"]


def reason(plan: Plan, dims: Collection[str], threads: int) -> dict[str, Any]:
    """The infeasibility reason as a coordinate over some dimensions, where known."""
    if REASON not in plan.outputs or not set(plan.out_dims[REASON]) <= set(dims):
        return {}
    reason_dims = plan.out_dims[REASON]
    codes = np.empty(plan.shape(reason_dims), np.int8)
    for block in tiles.blocks(plan.whole(reason_dims), tiles.BLOCK):
        cut: Any = (*block.values(), ...)
        evaluate_block(plan, reason_dims, block, {REASON: codes[cut]}, threads)
    return {REASON: (*ordered(plan, reason_dims, codes), attributes(plan, REASON))}


def check_output(plan: Plan, name: Any) -> str:
    numbers = numeric(plan)
    if name == REASON or (isinstance(name, str) and name in plan.outputs and name not in numbers):
        raise InputError(f"of = {name!r} is a flag; name a number: {', '.join(numbers)}")
    if not isinstance(name, str) or name not in numbers:
        raise InputError(f"of = {shown(name)} is not an output; {nearest(str(name), numbers)}")
    return name
