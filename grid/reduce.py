"""Reductions in the stream: blocks are evaluated, folded in and forgotten."""

import math
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.graph import load
from ..kernels.job import pool
from .axes import Array
from .blocks import blocks
from .dataset import attributes, coordinates, root_attributes
from .errors import InputError
from .execute import evaluate_block
from .plan import Plan, Region, extent

if TYPE_CHECKING:
    import xarray

BLOCK = 1 << 20  # points of one block
HOW = ("min", "max", "mean", "sum")


def reduce(
    plan: Plan,
    spec: Mapping[str, Any],
    how: str,
    over: Sequence[str] | None,
    threads: int,
) -> "xarray.Dataset":
    """Reduce the outputs of a plan over axes; see `Sweep.reduce`."""
    import xarray

    if how not in HOW:
        raise InputError(f"how = {how!r} is unknown; choose one of {', '.join(HOW)}")
    axes = tuple(plan.sizes) if over is None else tuple([over] if isinstance(over, str) else over)
    for axis in axes:
        if axis not in plan.sizes:
            raise InputError(f"over: {axis!r} is not an axis; choose from {', '.join(plan.sizes)}")
    variables = {}
    for dims, names in plan.groups().items():
        numeric = [name for name in names if load()[name].unit != "flag"]
        fold = _Fold(plan, dims, numeric, how, axes)
        sizes = {dim: plan.sizes[dim] for dim in dims}
        if numeric:
            tasks = enumerate(blocks(sizes, BLOCK))
            pool(1 if plan.engine == "jax" else threads).each(fold.add, tasks)
        for name in numeric:
            kept = [dim for dim in plan.user_dims(name) if dim not in axes]
            order = [fold.kept.index(dim) for dim in kept]
            variables[name] = (kept, fold.result(name).transpose(order), attributes(plan, name))
    held = {dim for dims, *_ in variables.values() for dim in dims}
    coords = {name: row for name, row in coordinates(plan).items() if row[0] in held}
    attrs = {**root_attributes(plan, spec), "fleetcube_reduction": f"{how} over {', '.join(axes)}"}
    return xarray.Dataset(variables, coords, attrs)


class _Fold:
    """Running reductions of outputs that share dimensions; order does not change a result.

    Sums are kept by block and added in the order of the blocks, whatever thread came first.
    """

    def __init__(
        self, plan: Plan, dims: tuple[str, ...], names: list[str], how: str, over: tuple[str, ...]
    ) -> None:
        self.plan, self.dims, self.names, self.how = plan, dims, names, how
        self.kept = [dim for dim in dims if dim not in over]
        self.axes = tuple(k for k, dim in enumerate(dims) if dim in over)
        shape = plan.shape(self.kept)
        self.extreme = how in ("min", "max") or not self.axes  # nothing to reduce: keep the value
        start = np.nan if self.extreme else 0.0
        self.values = {name: np.full(shape, start) for name in names}
        self.counts = {name: np.zeros(shape) for name in names}
        self.waiting: dict[int, tuple[tuple[slice, ...], dict[str, tuple[Array, Array]]]] = {}
        self.next = 0
        self.lock = threading.Lock()
        self.scratch = threading.local()

    def _room(self, shape: tuple[int, ...]) -> dict[str, Array]:
        """Arrays of a block, in memory that each thread uses again: new pages cost more."""
        size = math.prod(shape)
        if not hasattr(self.scratch, "flats") or self.scratch.flats[0].size < size:
            self.scratch.flats = [np.empty(size) for _ in self.names]
        flats = self.scratch.flats
        return {
            name: flat[:size].reshape(shape) for name, flat in zip(self.names, flats, strict=True)
        }

    def add(self, block: tuple[int, Region]) -> None:
        """Evaluate one numbered block and fold it in, after those before it."""
        number, region = block
        shape = extent(region, self.dims, self.dims)
        outs = self._room(shape)
        evaluate_block(self.plan, self.dims, region, outs, 1)
        parts = {name: self._part(out) for name, out in outs.items()}
        target = tuple(region[dim] for dim in self.kept)
        with self.lock:
            self.waiting[number] = (target, parts)
            while self.next in self.waiting:
                self._fold(*self.waiting.pop(self.next))
                self.next += 1

    def _part(self, out: Array) -> tuple[Array, Array]:
        if self.extreme:
            function = np.fmin if self.how == "min" else np.fmax
            return function.reduce(out, axis=self.axes), np.zeros(())
        missing = np.isnan(out)
        if not missing.any():
            count = math.prod(out.shape[k] for k in self.axes)
            return out.sum(axis=self.axes), np.array(float(count))
        return np.where(missing, 0.0, out).sum(axis=self.axes), (~missing).sum(axis=self.axes)

    def _fold(self, target: tuple[slice, ...], parts: dict[str, tuple[Array, Array]]) -> None:
        for name, (value, count) in parts.items():
            held = self.values[name]
            if self.how == "min":
                held[target] = np.fmin(held[target], value)
            elif self.extreme:
                held[target] = np.fmax(held[target], value)
            else:
                held[target] += value
                self.counts[name][target] += count

    def result(self, name: str) -> Array:
        """The reduced values of an output."""
        if self.how != "mean" or self.extreme:
            return self.values[name]
        with np.errstate(all="ignore"):
            return np.asarray(self.values[name] / self.counts[name])
