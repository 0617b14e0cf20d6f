"""Reductions in the stream: blocks are evaluated, folded in and forgotten."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..plan import memory, tiles
from ..plan.labels import attributes, coordinates, ordered, root_attributes
from ..plan.plan import Plan
from ..plan.tiles import Region, extent
from ..run import stream
from ..spec.axes import Array
from .quantile import quantiles
from .winners import winners

if TYPE_CHECKING:
    import xarray

Held = dict[str, tuple[Array, ...]]

HOW = ("min", "max", "mean", "sum", "count", "quantile", "argmin", "argmax")


def reduce(
    plan: Plan,
    spec: Mapping[str, Any],
    how: str,
    over: Sequence[str] | None,
    map_: stream.Map,
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
        variables, labels = winners(plan, how[3:], names, of is not None, axes, map_)
    else:
        for dims, group in plan.groups().items():
            wanted = [name for name in group if name in names]
            if not wanted:
                continue
            kept = [dim for dim in dims if dim not in axes]
            if how == "quantile":
                found = quantiles(plan, dims, wanted, share, axes, map_)
            else:
                found = _Fold(dims, how, kept, stream.Room(wanted)).run(plan, map_)
            for name in wanted:
                attrs = attributes(plan, name)
                if how == "count":
                    attrs = {"units": "1", "long_name": f"points where {name} is finite"}
                variables[name] = (*ordered(plan, kept, found[name]), attrs)
    held = {dim for dims, *_ in [*variables.values(), *labels.values()] for dim in dims}
    said = f"{how} {share:g}" if how == "quantile" else how
    attrs = {**root_attributes(plan, spec), "fleetcube_reduction": f"{said} over {', '.join(axes)}"}
    return xarray.Dataset(variables, coordinates(plan, held) | labels, attrs)


def _check_share(how: str, q: Any) -> float:
    if how != "quantile":
        if q is not None:
            raise InputError(f"q = {q!r} is for how = 'quantile', not {how!r}; leave it out")
        return math.nan
    if isinstance(q, bool) or not isinstance(q, int | float | np.number) or not 0 <= q <= 1:
        raise InputError(f"q = {q!r} is not a share; give one from 0 to 1")
    return float(q)


@dataclass(frozen=True)
class _Fold:
    """Reductions of outputs that share dimensions, bundle by bundle.

    A result is held as arrays over the axes that stay: the number, and for a mean how many numbers
    it sums. Sums are added block by block to that of a bundle, and bundle by bundle.
    """

    dims: tuple[str, ...]
    how: str
    kept: list[str]
    room: stream.Room

    @property
    def axes(self) -> tuple[int, ...]:
        """Positions of the reduced dimensions."""
        return tuple(k for k, dim in enumerate(self.dims) if dim not in self.kept)

    @property
    def extreme(self) -> bool:
        """Whether a number is chosen; with nothing to reduce, it is kept."""
        return self.how in ("min", "max") or (self.how != "count" and not self.axes)

    def run(self, plan: Plan, map_: stream.Map) -> dict[str, Array]:
        """The reduced values of every output."""
        whole = plan.whole(self.dims)
        arrays = 2 if self.how == "mean" and not self.extreme else 1
        memory.check(8 * arrays * len(self.room.names) * math.prod(plan.shape(self.kept)))
        held = self.start(plan.shape(self.kept))
        for bundle, found in map_(self.part, tiles.bundles(whole, self.kept)):
            self.fold(held, tiles.inside(whole, bundle, self.kept), found)
        return {name: self.result(*arrays) for name, arrays in held.items()}

    def part(self, plan: Plan, bundle: Region) -> Held:
        """The reduction of one bundle."""
        held: Held = {}
        for block, outs in self.room.each(plan, self.dims, bundle):
            found = {name: self.block(out) for name, out in outs.items()}
            if block == bundle:
                return found
            held = held or self.start(extent(bundle, self.kept, self.kept))
            self.fold(held, tiles.inside(bundle, block, self.kept), found)
        return held

    def start(self, shape: tuple[int, ...]) -> Held:
        """The reduction of nothing."""
        if self.how == "count":
            return {name: (np.zeros(shape, np.int64),) for name in self.room.names}
        if self.extreme:
            return {name: (np.full(shape, np.nan),) for name in self.room.names}
        if self.how == "sum":
            return {name: (np.zeros(shape),) for name in self.room.names}
        return {name: (np.zeros(shape), np.zeros(shape, np.int64)) for name in self.room.names}

    def block(self, out: Array) -> tuple[Any, ...]:
        """The reduction of one block of an output."""
        if self.how == "count":
            return (np.isfinite(out).sum(axis=self.axes),)
        if self.extreme:
            function = np.fmin if self.how == "min" else np.fmax
            return (function.reduce(out, axis=self.axes),)
        missing = np.isnan(out)
        if missing.any():
            total = np.where(missing, 0.0, out).sum(axis=self.axes)
            count = (~missing).sum(axis=self.axes)
        else:
            total = out.sum(axis=self.axes)
            count = math.prod(out.shape[k] for k in self.axes)
        return (total,) if self.how == "sum" else (total, count)

    def fold(self, held: Held, target: Any, found: Mapping[str, tuple[Any, ...]]) -> None:
        """Take a part into what is held."""
        function: Any = np.add
        if self.extreme:
            function = np.fmin if self.how == "min" else np.fmax
        for name, parts in found.items():
            for array, part in zip(held[name], parts, strict=True):
                array[target] = function(array[target], part)

    def result(self, value: Array, count: Array | None = None) -> Array:
        """The reduced values of an output."""
        if count is None:
            return value
        with np.errstate(all="ignore"):
            return np.asarray(value / count)
