"""Where an output is best: the extreme, the labels of the point that has it, the others there."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import stream
from .axes import Array
from .blocks import blocks
from .dataset import attributes, coordinates, dtype_of
from .plan import REASON, Plan, Region

NOWHERE = np.iinfo(np.int64).max  # the rank of no point

Rows = dict[str, Any]


def winners(
    plan: Plan, how: str, names: Sequence[str], alone: bool, over: tuple[str, ...], threads: int
) -> tuple[Rows, Rows]:
    """Variables and coordinates of `Sweep.reduce("argmin")` and of "argmax".

    Where one output is asked for (`alone`), the others are read at its winners.
    """
    variables: Rows = {}
    labels: Rows = {}
    for dims, group in plan.groups().items():
        leads = [name for name in group if name in names]
        if not leads:
            continue
        riders = [name for name in group if name not in leads] if alone else []
        search = _Search(plan, dims, leads, riders, how, over)
        search.run(threads)
        for name in leads:
            axes = dict.fromkeys(search.reduced)
            if alone:
                rest = {n: d for n, d in plan.out_dims.items() if n not in (name, *riders)}
                for other, found in search.others.items():
                    variables[other] = _row(plan, other, search.kept, found)
                for other, own in rest.items():
                    kept, found = _gather(plan, other, own, search, over, threads)
                    variables[other] = _row(plan, other, kept, found)
                axes |= dict.fromkeys(d for own in rest.values() for d in own if d in over)
            variables[name] = _row(plan, name, search.kept, search.values[name])
            for axis in stream.user_sizes(plan, axes):
                said = _labels(plan, axis, search.index(name, axis), search.ranks[name] == NOWHERE)
                row = _ordered(plan, search.kept, said)
                attrs = {**coordinates(plan, [axis])[axis][2]}
                attrs["long_name"] = f"{axis} where {name} is at its {how}imum"
                labels[f"{axis}_at_{how}_{name}"] = (*row, attrs)
    ordered = {name: variables[name] for name in plan.outputs if name in variables}
    if REASON in ordered:
        labels[REASON] = ordered.pop(REASON)
    return ordered, labels


def _ordered(plan: Plan, kept: Sequence[str], values: Array) -> tuple[list[str], Array]:
    """Dimensions in the order of the axes."""
    order = list(stream.user_sizes(plan, kept))
    return order, values.transpose([kept.index(dim) for dim in order])


def _row(plan: Plan, name: str, kept: Sequence[str], values: Array) -> tuple[Any, ...]:
    return (*_ordered(plan, kept, values), attributes(plan, name))


def _labels(plan: Plan, axis: str, index: Array, nowhere: Array) -> Array:
    """Labels along an axis; NaN or an empty text where there is no winner."""
    labels = stream.labels_of(plan, axis)
    if labels.dtype.kind == "U":
        return np.where(nowhere, "", labels[index])
    return np.where(nowhere, np.nan, labels[index])


class _Search:
    """Running extremes of outputs that share dimensions, and the rank of the point of each.

    A rank numbers the points over the reduced axes, in the order in which the axes were written;
    of equal points the one of the lowest rank wins. Neither threads nor blocks change a result.
    """

    def __init__(
        self,
        plan: Plan,
        dims: tuple[str, ...],
        leads: Sequence[str],
        riders: Sequence[str],
        how: str,
        over: tuple[str, ...],
    ) -> None:
        self.plan, self.dims, self.how = plan, dims, how
        self.kept = [dim for dim in dims if dim not in over]
        self.axes = tuple(k for k, dim in enumerate(dims) if dim in over)
        self.reduced = stream.user_sizes(plan, [dim for dim in dims if dim in over])
        self.steps = stream.strides(self.reduced)
        shape = plan.shape(self.kept)
        self.values = {name: np.full(shape, np.nan) for name in leads}
        self.ranks = {name: np.full(shape, NOWHERE) for name in leads}
        self.others = {name: _nothing(name, shape) for name in riders}
        self.lock = threading.Lock()
        self.room = stream.Room([*leads, *riders])

    def run(self, threads: int) -> None:
        """Search the grid."""
        sizes = {dim: self.plan.sizes[dim] for dim in self.dims}
        stream.each(self.plan, threads, self.add, blocks(sizes, stream.BLOCK))

    def add(self, region: Region) -> None:
        """Evaluate a block and keep what is better than what was found."""
        outs = self.room.evaluate(self.plan, self.dims, region)
        target: Any = (*(region[dim] for dim in self.kept), ...)
        for name in self.values:
            value, rank, place = self._best(outs[name], region)
            riding = {other: outs[other].reshape(-1)[place] for other in self.others}
            with self.lock:
                held, held_rank = self.values[name][target], self.ranks[name][target]
                beats = value < held if self.how == "min" else value > held
                first = (value == held) & (rank < held_rank)
                better = beats | first | ((held_rank == NOWHERE) & (rank != NOWHERE))
                np.copyto(held, value, where=better)
                np.copyto(held_rank, rank, where=better)
                for other, found in riding.items():
                    np.copyto(self.others[other][target], found, where=better)

    def _best(self, out: Array, region: Region) -> tuple[Array, Array, Array]:
        """Of each cell of a block: the extreme, the rank of its first point, its place."""
        extreme = (np.fmin if self.how == "min" else np.fmax).reduce(
            out, axis=self.axes, keepdims=True
        )
        shape = tuple(out.shape[self.dims.index(dim)] for dim in self.kept)
        hits = np.flatnonzero(out == extreme)
        points = dict(zip(self.dims, np.unravel_index(hits, out.shape), strict=True))
        rank = np.zeros(hits.size, np.int64)
        for dim, step in self.steps.items():
            rank += (points[dim] + region[dim].start) * step
        cell = np.zeros(hits.size, np.int64)
        for dim, size in zip(self.kept, shape, strict=True):
            cell = cell * size + points[dim]
        ranks = np.full(int(np.prod(shape)), NOWHERE)
        np.minimum.at(ranks, cell, rank)
        places = np.zeros(ranks.size, np.int64)
        wins = ranks[cell] == rank
        places[cell[wins]] = hits[wins]
        return extreme.reshape(shape), ranks.reshape(shape), places.reshape(shape)

    def index(self, name: str, axis: str) -> Array:
        """Index of the winner along an axis; 0 where the output does not depend on it."""
        ranks = np.where(self.ranks[name] == NOWHERE, 0, self.ranks[name])
        if axis not in self.steps:
            return np.zeros_like(ranks)
        return np.asarray(ranks // self.steps[axis] % self.reduced[axis])


def _nothing(name: str, shape: tuple[int, ...]) -> Array:
    dtype = dtype_of(name, float)
    return np.full(shape, -1 if dtype == np.int8 else np.nan, dtype)


def _gather(
    plan: Plan,
    name: str,
    dims: tuple[str, ...],
    search: _Search,
    over: tuple[str, ...],
    threads: int,
) -> tuple[list[str], Array]:
    """An output of other dimensions at the winners: only blocks that hold some are evaluated."""
    (lead,) = search.values
    moving = [dim for dim in dims if dim in search.steps]
    apart = {dim for dim in dims if dim in over} - set(moving)  # the lead does not vary there
    held = {dim for dim in dims if dim not in over} | (set(search.kept) if moving else set())
    kept = [dim for dim in plan.sizes if dim in held]
    found = _nothing(name, plan.shape(kept))
    at = {dim: search.index(lead, dim) for dim in moving}
    room = stream.Room([name])

    def add(region: Region) -> None:
        cells = {dim: region.get(dim, slice(0, plan.sizes[dim])) for dim in kept}
        shape = tuple(cut.stop - cut.start for cut in cells.values())
        inside = np.ones(shape, bool)
        spread = tuple(slice(None) if dim in search.kept else None for dim in kept)
        index = {}
        if moving:
            cut: Any = (*(cells[dim] for dim in search.kept), ...)
            inside &= (search.ranks[lead][cut] != NOWHERE)[spread]
        for dim in moving:
            index[dim] = np.broadcast_to((at[dim][cut] - region[dim].start)[spread], shape)
            inside &= (index[dim] >= 0) & (index[dim] < region[dim].stop - region[dim].start)
        if not inside.any():
            return
        out = room.evaluate(plan, dims, region)[name]
        points = dict(zip(kept, np.nonzero(inside) if kept else (), strict=True))
        place = []
        for dim in dims:
            if dim in index:
                place.append(index[dim][inside])
            else:
                place.append(points[dim] if dim in points else np.zeros((), np.int64))
        target: Any = (*cells.values(), ...)
        found[target][inside] = out[tuple(place)]

    whole = {dim: slice(0, 1 if dim in apart else plan.sizes[dim]) for dim in dims}
    stream.each(plan, threads, add, stream.within(whole, stream.BLOCK))
    return kept, found
