"""Reductions in the stream: blocks are evaluated, folded in and forgotten."""

import math
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import stream
from .axes import Array
from .blocks import blocks
from .dataset import attributes, coordinates, root_attributes
from .errors import InputError
from .plan import Plan, Region
from .quantile import quantiles
from .winners import winners

if TYPE_CHECKING:
    import xarray

HOW = ("min", "max", "mean", "sum", "count", "quantile", "argmin", "argmax")


def reduce(
    plan: Plan,
    spec: Mapping[str, Any],
    how: str,
    over: Sequence[str] | None,
    threads: int,
    of: str | None = None,
    q: float | None = None,
) -> "xarray.Dataset":
    """Reduce the outputs of a plan over axes; see `Sweep.reduce`."""
    import xarray

    if how not in HOW:
        raise InputError(f"how = {how!r} is unknown; choose one of {', '.join(HOW)}")
    axes = stream.check_over(plan, over)
    names = stream.numeric(plan) if of is None else [stream.check_output(plan, of)]
    share = _check_share(how, q)
    variables: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    if how in ("argmin", "argmax"):
        variables, labels = winners(plan, how[3:], names, of is not None, axes, threads)
    else:
        for dims, group in plan.groups().items():
            wanted = [name for name in group if name in names]
            if not wanted:
                continue
            kept = [dim for dim in dims if dim not in axes]
            if how == "quantile":
                found = quantiles(plan, dims, wanted, share, axes, threads)
            else:
                found = _Fold(plan, dims, wanted, how, axes).run(threads)
            for name in wanted:
                attrs = attributes(plan, name)
                if how == "count":
                    attrs = {"units": "1", "long_name": f"points where {name} is finite"}
                order = [dim for dim in plan.user_dims(name) if dim in kept]
                value = found[name].transpose([kept.index(dim) for dim in order])
                variables[name] = (order, value, attrs)
    held = {dim for dims, *_ in [*variables.values(), *labels.values()] for dim in dims}
    coords = {name: row for name, row in coordinates(plan).items() if row[0] in held}
    said = f"{how} {share:g}" if how == "quantile" else how
    attrs = {**root_attributes(plan, spec), "fleetcube_reduction": f"{said} over {', '.join(axes)}"}
    return xarray.Dataset(variables, {**coords, **labels}, attrs)


def _check_share(how: str, q: Any) -> float:
    if how != "quantile":
        if q is not None:
            raise InputError(f"q = {q!r} is for how = 'quantile', not {how!r}; leave it out")
        return math.nan
    if isinstance(q, bool) or not isinstance(q, int | float | np.number) or not 0 <= q <= 1:
        raise InputError(f"q = {q!r} is not a share; give one from 0 to 1")
    return float(q)


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
        # with nothing to reduce, keep the value
        self.extreme = how in ("min", "max") or (how != "count" and not self.axes)
        start = np.nan if self.extreme else 0.0
        self.values = {name: np.full(shape, start) for name in names}
        self.counts = {name: np.zeros(shape, np.int64) for name in names}
        self.waiting: dict[int, tuple[tuple[slice, ...], dict[str, tuple[Any, Any]]]] = {}
        self.next = 0
        self.lock = threading.Lock()
        self.room = stream.Room(names)

    def run(self, threads: int) -> dict[str, Array]:
        """The reduced values of every output."""
        sizes = {dim: self.plan.sizes[dim] for dim in self.dims}
        tasks = enumerate(blocks(sizes, stream.BLOCK))
        stream.each(self.plan, threads, self.add, tasks)
        return {name: self.result(name) for name in self.names}

    def add(self, block: tuple[int, Region]) -> None:
        """Evaluate one numbered block and fold it in, after those before it."""
        number, region = block
        outs = self.room.evaluate(self.plan, self.dims, region)
        parts = {name: self._part(out) for name, out in outs.items()}
        target = tuple(region[dim] for dim in self.kept)
        with self.lock:
            self.waiting[number] = (target, parts)
            while self.next in self.waiting:
                self._fold(*self.waiting.pop(self.next))
                self.next += 1

    def _part(self, out: Array) -> tuple[Any, Any]:
        if self.how == "count":
            return 0.0, np.isfinite(out).sum(axis=self.axes)
        if self.extreme:
            function = np.fmin if self.how == "min" else np.fmax
            return function.reduce(out, axis=self.axes), 0
        missing = np.isnan(out)
        if not missing.any():
            return out.sum(axis=self.axes), math.prod(out.shape[k] for k in self.axes)
        return np.where(missing, 0.0, out).sum(axis=self.axes), (~missing).sum(axis=self.axes)

    def _fold(self, target: tuple[slice, ...], parts: dict[str, tuple[Any, Any]]) -> None:
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
        if self.how == "count":
            return self.counts[name]
        if self.how != "mean" or self.extreme:
            return self.values[name]
        with np.errstate(all="ignore"):
            return np.asarray(self.values[name] / self.counts[name])
