"""Find where an output is best: its extreme, the labels of that point, the other outputs there."""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.grid.plan import memory, tiles
from fleetcube.grid.plan.labels import attributes, coordinates, dtype_of, ordered
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.plan.tiles import Region, extent
from fleetcube.grid.reduce.filtered import FilteredRoom
from fleetcube.grid.reduce.search import NOWHERE, search
from fleetcube.grid.run import stream
from fleetcube.grid.spec.axis import Array
from fleetcube.kernels.engines import on_device as device
from fleetcube.kernels.engines.job import store
from fleetcube.kernels.graph.roles import REASON

DEAR = 32  # points of a grid that cost as much as one separate winner
MOST = 1 << 24  # points of a grid that is stored for its winners: 128 MiB

Variables = dict[str, Any]
Task = tuple[Region, Mapping[str, Array]]  # along the kept axes, and indices along the others


def winners(
    plan: Plan,
    how: str,
    name: str,
    over: tuple[str, ...],
    map_: stream.Map,
    threads: int,
) -> tuple[Variables, Variables]:
    """The extreme of an output with the others there, and the labels of the axes searched."""
    dims = plan.out_dims[name]
    dims_kept = [dim for dim in dims if dim not in over]
    reduced = stream.user_sizes(plan, [dim for dim in dims if dim in over])
    extremes = search(plan, name, how, dims_kept, reduced, threads)
    if extremes is not None:
        riders: list[str] = []
        scan = Winners(dims, how, [], dims_kept, reduced, stream.Room([]))
        best = _Best(extremes[0][..., 0], extremes[1][..., 0], {})
    else:
        riders = [other for other in plan.groups()[dims] if other != name]
        scan = Winners(dims, how, [name], dims_kept, reduced, stream.Room([name, *riders]))
        best = scan.run(plan, map_)[name]
    values = {other: (scan.dims_kept, array) for other, array in best.others.items()}
    rest = {n: output_dims for n, output_dims in plan.out_dims.items() if n not in (name, *riders)}
    for other, output_dims in rest.items():
        values[other] = _gather(plan, other, output_dims, scan, best, over, map_)
    values[name] = (scan.dims_kept, best.values)
    variables = {
        n: (*ordered(plan, *values[n]), attributes(plan, n)) for n in plan.outputs if n in values
    }
    labels: Variables = {}
    for axis in stream.user_sizes(
        plan,
        [
            *scan.reduced,
            *(dim for output_dims in rest.values() for dim in output_dims if dim in over),
        ],
    ):
        column = _labels(plan, axis, scan.index(best, axis), best.nowhere)
        attrs = {**coordinates(plan, [axis])[axis][2]}
        attrs["long_name"] = f"{axis} where {name} is at its {how}imum"
        labels[axis] = (*ordered(plan, scan.dims_kept, column), attrs)
    if REASON in variables:
        labels[REASON] = variables.pop(REASON)
    return variables, labels


def _labels(plan: Plan, axis: str, index: Array, nowhere: Array) -> Array:
    """Labels along an axis, as its coordinate has them; NaN or an empty text without a winner."""
    labels = coordinates(plan, [axis])[axis][1]
    if not nowhere.any():
        return np.asarray(labels[index])
    labels, none = stream.missing(labels)
    return np.where(nowhere, none, labels[index])


@dataclass
class _Best:
    """The extreme of each cell, the rank of its point, and other outputs there."""

    values: Array
    ranks: Array
    others: dict[str, Array]

    @property
    def nowhere(self) -> Array:
        """Cells without a winner."""
        return np.asarray(self.ranks == NOWHERE)


@dataclass(frozen=True)
class Winners:
    """Where outputs that share dimensions are best, bundle by bundle. A rank numbers the points
    over the reduced axes as written; of equal points the lowest wins, in any order of blocks."""

    dims: tuple[str, ...]
    how: str
    leads: list[str]
    dims_kept: list[str]
    reduced: dict[str, int]
    room: stream.Room | FilteredRoom

    def run(self, plan: Plan, map_: stream.Map) -> dict[str, _Best]:
        shape = plan.shape(self.dims_kept)
        memory.check(16 * len(self.room.names) * math.prod(shape))
        whole = plan.whole(self.dims)
        best = self.start(plan, shape)
        for bundle, new in map_(self.part, tiles.bundles(whole, self.dims_kept)):
            self.fold(best, tiles.inside(whole, bundle, self.dims_kept), new)
        return best

    def part(self, plan: Plan, bundle: Region) -> dict[str, _Best]:
        best: dict[str, _Best] = {}
        for block in tiles.blocks(bundle, self.room.most):
            new = self.best(plan, block)
            if block == bundle:
                return new
            best = best or self.start(plan, extent(bundle, self.dims_kept, self.dims_kept))
            self.fold(best, tiles.inside(bundle, block, self.dims_kept), new)
        return best

    def start(self, plan: Plan, shape: tuple[int, ...]) -> dict[str, _Best]:
        riders = self.room.names[len(self.leads) :]
        return {
            name: _Best(
                np.full(shape, np.nan),
                np.full(shape, NOWHERE),
                {other: nothing(plan, other, shape) for other in riders},
            )
            for name in self.leads
        }

    def fold(self, best: dict[str, _Best], target: Any, new: dict[str, _Best]) -> None:
        """Keep what is better than the best so far."""
        for name, block in new.items():
            old = best[name]
            # views, so that `copyto` fills the arrays of `old`
            values, ranks = old.values[target], old.ranks[target]
            beats = block.values < values if self.how == "min" else block.values > values
            first = (block.values == values) & (block.ranks < ranks)
            # the first one beats NaN, which compares as false
            better = beats | first | ((ranks == NOWHERE) & (block.ranks != NOWHERE))
            np.copyto(values, block.values, where=better)
            np.copyto(ranks, block.ranks, where=better)
            for other, candidate in block.others.items():
                np.copyto(old.others[other][target], candidate, where=better)

    def best(self, plan: Plan, block: Region) -> dict[str, _Best]:
        """The best of each cell of a block, found on JAX's device if computed there."""
        outs = self.room.on_device(plan, self.dims, block, self.room.names)
        if outs is None:
            outs = self.room.evaluate(plan, self.dims, block)
            return {name: self.block(name, outs, block) for name in self.leads}
        steps = tiles.strides(self.reduced)
        riders = {name: outs[name] for name in self.room.names[len(self.leads) :]}
        best = {}
        for name in self.leads:
            values, ranks, others_on_device = device.winners(
                outs[name],
                riders,
                [block[dim].start for dim in steps],
                how=self.how,
                cell_axes=tuple(map(self.dims.index, self.dims_kept)),
                steps=tuple((self.dims.index(dim), step) for dim, step in steps.items()),
                shape=extent(block, self.dims, self.dims),
                nowhere=int(NOWHERE),
            )
            others = {}
            for other, array in others_on_device.items():
                others[other] = np.empty(array.shape, dtype_of(plan.graph, other, float))
                store(others[other], array)
            best[name] = _Best(values, ranks, others)
        return best

    def block(self, name: str, outs: Mapping[str, Array], region: Region) -> _Best:
        """The best of each cell of a block."""
        out = outs[name]
        axes = tuple(k for k, dim in enumerate(self.dims) if dim in self.reduced)
        extreme = (np.fmin if self.how == "min" else np.fmax).reduce(out, axis=axes, keepdims=True)
        shape = tuple(out.shape[self.dims.index(dim)] for dim in self.dims_kept)
        hits = np.flatnonzero(out == extreme)
        # NumPy's unravel_index takes no array without axes
        places_of = np.unravel_index(hits, out.shape) if out.ndim else ()
        points = dict(zip(self.dims, places_of, strict=True))
        rank = np.zeros(hits.size, np.int64)
        for dim, step in tiles.strides(self.reduced).items():
            rank += (points[dim] + region[dim].start) * step
        cell = np.zeros(hits.size, np.int64)
        for dim, size in zip(self.dims_kept, shape, strict=True):
            cell = cell * size + points[dim]
        ranks = np.full(int(np.prod(shape)), NOWHERE)
        np.minimum.at(ranks, cell, rank)  # unbuffered: a cell may be hit more than once
        places = np.zeros(ranks.size, np.int64)
        wins = ranks[cell] == rank
        places[cell[wins]] = hits[wins]
        places = places.reshape(shape)
        riders = self.room.names[len(self.leads) :]
        others = {other: outs[other].reshape(-1)[places] for other in riders}
        return _Best(extreme.reshape(shape), ranks.reshape(shape), others)

    def index(self, best: _Best, axis: str) -> Array:
        """Index of the winners along an axis; 0 if the output does not depend on it."""
        ranks = np.where(best.nowhere, 0, best.ranks)
        if axis not in self.reduced:
            return np.zeros_like(ranks)
        step = tiles.strides(self.reduced)[axis]
        return np.asarray(ranks // step % self.reduced[axis])


def nothing(plan: Plan, name: str, shape: tuple[int, ...]) -> Array:
    """An output without values: NaN, and -1 in flags."""
    dtype = dtype_of(plan.graph, name, float)
    return np.full(shape, -1 if dtype == np.int8 else np.nan, dtype)


def _gather(
    plan: Plan,
    name: str,
    dims: tuple[str, ...],
    scan: Winners,
    best: _Best,
    over: tuple[str, ...],
    map_: stream.Map,
) -> tuple[list[str], Array]:
    """An output of other dimensions at the winners: evaluated there only, or read from its grid."""
    moving = [dim for dim in dims if dim in scan.reduced]
    dims_kept = {dim for dim in dims if dim not in over} | (
        set(scan.dims_kept) if moving else set()
    )
    left_dims = [dim for dim in plan.sizes if dim in dims_kept]
    whole = plan.whole(left_dims)
    memory.check(8 * plan.points_over(left_dims))
    gathered = nothing(plan, name, plan.shape(left_dims))
    indices = {dim: scan.index(best, dim) for dim in moving}
    spread = tuple(slice(None) if dim in scan.dims_kept else None for dim in left_dims)

    def tasks() -> Iterator[Task]:
        for tile in tiles.blocks(whole, tiles.GATHERED):
            cut = tiles.inside(whole, tile, scan.dims_kept) if moving else ...
            yield tile, {dim: index[cut][spread] for dim, index in indices.items()}

    folded = {dim for dim in dims if dim in over} - set(moving)
    region = {dim: slice(0, 1 if dim in folded else plan.sizes[dim]) for dim in dims}
    shape = extent(region, dims, dims)
    if math.prod(shape) <= min(MOST, max(tiles.BLOCK, DEAR * gathered.size)):
        grid = np.empty(shape, gathered.dtype)
        work = functools.partial(_grid, name, dims, stream.Room([name]))
        for block, values in map_(work, tiles.blocks(region, tiles.BLOCK)):
            grid[tiles.inside(region, block, dims)] = values
        pairs: Any = (
            (task, grid[tuple(_places(dims, left_dims, task).values())]) for task in tasks()
        )
    else:
        pairs = map_(functools.partial(_at_points, name, dims, left_dims), tasks())
    for (tile, _), values in pairs:
        target = tiles.inside(whole, tile, left_dims)
        gathered[target] = values
        if moving:
            nowhere = best.nowhere[tiles.inside(whole, tile, scan.dims_kept)][spread]
            np.copyto(gathered[target], nothing(plan, name, ()), where=nowhere)
    return left_dims, gathered


def _grid(name: str, dims: tuple[str, ...], room: stream.Room, plan: Plan, block: Region) -> Array:
    return room.evaluate(plan, dims, block)[name].copy()  # the room's memory is reused


def _at_points(
    name: str, dims: tuple[str, ...], dims_kept: Sequence[str], plan: Plan, task: Task
) -> Array:
    """An output at a tile's points only."""
    from fleetcube.grid.run.points import values_at

    shape = extent(task[0], dims_kept, dims_kept)
    places = _places(dims, dims_kept, task)
    return values_at(plan, [name], places, shape, "float64", plan.engine)[name]


def _places(dims: tuple[str, ...], dims_kept: Sequence[str], task: Task) -> dict[str, Array]:
    """Indices along each dimension of an output, in arrays that broadcast to a tile."""
    tile, indices = task
    places: dict[str, Array] = {}
    for dim in dims:
        if dim in indices:
            places[dim] = indices[dim]
        elif dim in tile:  # a kept axis
            shape = [-1 if other == dim else 1 for other in dims_kept]
            places[dim] = np.arange(tile[dim].start, tile[dim].stop).reshape(shape)
        else:  # reduced, and the winners do not depend on it: any point will do
            places[dim] = np.zeros((1,) * len(dims_kept), np.int64)
    return places
