"""Streaming reductions: blocks are evaluated, folded in and dropped."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.engines import jax as jax_engine
from ..errors import InputError
from ..plan import memory, tiles
from ..plan.engine import JAX
from ..plan.labels import attributes, coordinates, ordered, origin
from ..plan.plan import Plan
from ..plan.tiles import Region, extent
from ..result import Result, stacked
from ..run import stream
from ..spec.axis import Array
from .filtered import Condition, FilteredRoom
from .quantile import quantiles
from .search import search

Folded = dict[str, tuple[Array, ...]]

HOW = ("min", "max", "mean", "sum", "count", "quantile")


def reduce(
    plan: Plan,
    spec: Mapping[str, Any],
    how: str,
    over: Sequence[str] | None,
    map_: stream.Map,
    threads: int,
    of: str | None = None,
    q: float | Sequence[float] | None = None,
    where: Sequence[Condition] | None = None,
) -> Result:
    """See `Sweep.reduce`."""
    if how == "quantile" and np.ndim(shares := np.array(q, object)) and shares.size:
        one = functools.partial(reduce, plan, spec, how, over, map_, threads, of, where=where)
        return _along_shares([*shares], [one(q=share) for share in shares])
    if how not in HOW:
        raise InputError(f"how = {how!r} is unknown; choose one of {', '.join(HOW)}")
    axes = stream.check_over(plan, over)
    names = stream.numeric(plan) if of is None else [stream.check_output(plan, of)]
    share = _check_share(how, q)
    variables: dict[str, Any] = {}
    for dims, outputs, chosen in _groups(plan, names, where):
        dims_kept = [dim for dim in dims if dim not in axes]
        if how == "quantile":
            room = chosen or stream.Room(outputs)
            reduced = quantiles(plan, dims, outputs, share, axes, map_, room)
        else:
            reduced = _extremes(plan, dims, how, outputs, dims_kept, threads, where)
            scanned = [name for name in outputs if name not in reduced]
            if scanned:
                room = chosen or stream.Room(scanned, _most(plan, len(scanned)))
                reduced |= _Fold(dims, how, dims_kept, room).run(plan, map_)
        for name in outputs:
            attrs = attributes(plan, name)
            if how == "count":
                attrs = {"units": "1", "long_name": f"points where {name} is finite"}
            variables[name] = (*ordered(plan, dims_kept, reduced[name]), attrs)
    remaining = {dim for dims, *_ in variables.values() for dim in dims}
    kind = f"{how} {share:g}" if how == "quantile" else how
    attrs = {**origin(plan, spec), "fleetcube_reduction": f"{kind} over {', '.join(axes)}"}
    return Result(variables, coordinates(plan, remaining), attrs)


def _along_shares(shares: Sequence[float], parts: Sequence[Result]) -> Result:
    """Quantiles along their shares, the first dimension."""
    rows = {
        name: stacked("quantile", [part[name] for part in parts], row.attrs)
        for name, row in parts[0].data_vars.items()
    }
    over = parts[0].attrs["fleetcube_reduction"].partition(" over ")[2]
    about = f"quantiles {', '.join(f'{share:g}' for share in shares)} over {over}"
    coords = {**parts[0].coords, "quantile": np.array(shares, float)}
    return Result(rows, coords, {**parts[0].attrs, "fleetcube_reduction": about})


def _groups(
    plan: Plan, names: Sequence[str], where: Sequence[Condition] | None
) -> list[tuple[tuple[str, ...], list[str], FilteredRoom | None]]:
    """Outputs reduced together: their dimensions, and the filter of points."""
    if where is not None:
        filtered = FilteredRoom(plan, names, where)
        return [(tuple(dim for dim in plan.sizes if dim in filtered.dims), [*names], filtered)]
    groups = [(dims, [n for n in group if n in names]) for dims, group in plan.groups().items()]
    return [(dims, outputs, None) for dims, outputs in groups if outputs]


def _most(plan: Plan, outputs: int) -> int:
    """Points of a block: more if they stay on an accelerator, which idles over small ones."""
    if plan.engine not in JAX or len(plan.cases) > 1:
        return tiles.BLOCK
    return max(tiles.BLOCK, min(jax_engine.most_points(outputs) or 0, tiles.ON_DEVICE))


def _extremes(
    plan: Plan,
    dims: tuple[str, ...],
    how: str,
    names: Sequence[str],
    dims_kept: Sequence[str],
    threads: int,
    where: Sequence[Condition] | None,
) -> dict[str, Array]:
    """Minima or maxima of outputs that need no scan."""
    if how not in ("min", "max"):
        return {}
    away = stream.user_sizes(plan, [dim for dim in dims if dim not in dims_kept])
    extremes = {name: search(plan, name, how, dims_kept, away, threads, where) for name in names}
    return {name: best[0][..., 0] for name, best in extremes.items() if best is not None}


def _check_share(how: str, q: Any) -> float:
    if how != "quantile":
        if q is not None:
            raise InputError(f"q = {q!r} is for how = 'quantile', not {how!r}; leave it out")
        return math.nan
    if isinstance(q, bool) or not isinstance(q, int | float | np.number) or not 0 <= q <= 1:
        raise InputError(f"q = {q!r} is not a share; give one from 0 to 1, or a list")
    return float(q)


@dataclass(frozen=True)
class _Fold:
    """Reductions of outputs that share dimensions, bundle by bundle, over the kept axes. A mean
    also counts. Sums are added block by block, then bundle by bundle: in one order, and so with the
    same bits on any number of threads and workers."""

    dims: tuple[str, ...]
    how: str
    dims_kept: list[str]
    room: stream.Room | FilteredRoom

    @property
    def axes(self) -> tuple[int, ...]:
        """Positions of the reduced dimensions."""
        return tuple(k for k, dim in enumerate(self.dims) if dim not in self.dims_kept)

    @property
    def extreme(self) -> bool:
        """Whether one number is selected; with nothing to reduce, the only one."""
        return self.how in ("min", "max") or (self.how != "count" and not self.axes)

    def run(self, plan: Plan, map_: stream.Map) -> dict[str, Array]:
        whole = plan.whole(self.dims)
        arrays = 2 if self.how == "mean" and not self.extreme else 1
        memory.check(8 * arrays * len(self.room.names) * plan.points_over(self.dims_kept))
        folded = self.start(plan.shape(self.dims_kept))
        for bundle, reduced in map_(
            self.part, tiles.bundles(whole, self.dims_kept, self.room.most)
        ):
            self.fold(folded, tiles.inside(whole, bundle, self.dims_kept), reduced)
        return {name: self.result(*arrays) for name, arrays in folded.items()}

    def part(self, plan: Plan, bundle: Region) -> Folded:
        folded: Folded = {}
        for block in tiles.blocks(bundle, self.room.most):
            reduced = self.reduced(plan, block)
            if block == bundle:
                return reduced
            folded = folded or self.start(extent(bundle, self.dims_kept, self.dims_kept))
            self.fold(folded, tiles.inside(bundle, block, self.dims_kept), reduced)
        return folded

    def reduced(self, plan: Plan, block: Region) -> Folded:
        """The reduction of one block, on JAX's device if computed there: only results leave it."""
        how = "min" if self.extreme and self.how not in ("min", "max") else self.how
        then = how, self.axes, extent(block, self.dims, self.dims)
        reduced = self.room.on_device(plan, self.dims, block, self.room.names, *then)
        if reduced is not None:
            return {name: self.folded(*map(np.asarray, two)) for name, two in reduced.items()}
        outs = self.room.evaluate(plan, self.dims, block)
        return {name: self.block(out) for name, out in outs.items()}

    def folded(self, value: Array, count: Array) -> tuple[Array, ...]:
        """What a block adds, from a device's minimum, maximum or sum, and count of numbers."""
        if self.extreme:
            return (np.where(count == 0, np.nan, value),)
        return {"mean": (value, count), "count": (count,)}.get(self.how, (value,))

    def start(self, shape: tuple[int, ...]) -> Folded:
        if self.how == "count":
            return {name: (np.zeros(shape, np.int64),) for name in self.room.names}
        if self.extreme:
            return {name: (np.full(shape, np.nan),) for name in self.room.names}
        if self.how == "sum":
            return {name: (np.zeros(shape),) for name in self.room.names}
        return {name: (np.zeros(shape), np.zeros(shape, np.int64)) for name in self.room.names}

    def block(self, out: Array) -> tuple[Any, ...]:
        if self.how == "count":
            return (np.isfinite(out).sum(axis=self.axes),)
        if self.extreme:
            function = np.fmin if self.how == "min" else np.fmax
            return (function.reduce(out, axis=self.axes),)
        missing = np.isnan(out)
        count: Any = math.prod(out.shape[k] for k in self.axes)
        if missing.any():  # only then: it is too slow for every block
            np.copyto(out, 0.0, where=missing)
            count = count - missing.sum(axis=self.axes)
        total = out.sum(axis=self.axes)
        return (total,) if self.how == "sum" else (total, count)

    def fold(self, folded: Folded, target: Any, reduced: Mapping[str, tuple[Any, ...]]) -> None:
        function: Any = np.add
        if self.extreme:
            function = np.fmin if self.how == "min" else np.fmax
        for name, parts in reduced.items():
            for array, part in zip(folded[name], parts, strict=True):
                array[target] = function(array[target], part)

    def result(self, value: Array, count: Array | None = None) -> Array:
        if count is None:
            return value
        with np.errstate(all="ignore"):  # 0/0: the mean of no points is NaN
            return np.asarray(value / count)
