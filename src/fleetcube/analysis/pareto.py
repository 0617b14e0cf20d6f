"""Pareto fronts of two or three outputs, computed block by block.

A point is on the front unless another is at least as good in every output and better in one, or
equal and earlier. One on the front dominates each point off it, so blocks can be thinned freely.
"""

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError, shown
from fleetcube.grid.plan import tiles
from fleetcube.grid.plan.labels import attributes, coordinates, origin
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.plan.tiles import Region, extent
from fleetcube.grid.reduce.filtered import Condition, FilteredRoom
from fleetcube.grid.result import Result
from fleetcube.grid.run import stream
from fleetcube.grid.spec.axis import Array

Points = tuple[Array, Array, Array]  # cells, ranks, and a row of values for each output

SENSES = ("min", "max")
EMPHASIS = 8.0  # weight of one output against the others when choosing points that thin a block


def pareto(
    plan: Plan,
    spec: Mapping[str, Any],
    outputs: Sequence[str],
    senses: Sequence[str],
    over: Sequence[str] | None,
    map_: stream.Map,
    where: Sequence[Condition] | None = None,
    k: int | None = None,
) -> Result:
    """The points that no other beats, with their labels; see `Sweep.best`."""
    if isinstance(outputs, str) or not 2 <= len(outputs) <= 3 or len(set(outputs)) < len(outputs):
        raise InputError(f"of = {shown(outputs)} is not a list of two or three outputs; give one")
    names = [stream.check_output(plan, name) for name in outputs]
    if isinstance(senses, str) or len(senses) != len(names) or not set(senses) <= set(SENSES):
        raise InputError(f"senses = {senses!r}: give 'min' or 'max' for each of {', '.join(names)}")
    axes = stream.check_over(plan, over)
    work = fronts(plan, names, [sign_of(sense) for sense in senses], axes, where)
    variables, labels, _, rank = front_columns(plan, work, scanned(plan, work, map_))
    goals = ", ".join(f"{sense} {name}" for name, sense in zip(names, senses, strict=True))
    summary = f"pareto ({goals}) over {', '.join(axes)}"
    attrs = {**origin(plan, spec), "fleetcube_reduction": summary}
    whole = Result(variables, labels, attrs)
    return whole if k is None else whole.isel(front=rank <= k)


def sign_of(sense: Any) -> float:
    """The factor of an output that makes its least value the best."""
    if sense not in SENSES:
        raise InputError(f"sense = {shown(sense)} is unknown; choose min or max")
    return 1.0 if sense == "min" else -1.0


def scanned(plan: Plan, work: "Fronts", map_: stream.Map) -> Points:
    """The best points of all bundles."""
    front: Points = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((len(work.names), 0)))
    for _, block_front in map_(work.part, tiles.bundles(plan.whole(work.dims), ())):
        front = work.merged([front, block_front])
    return front


def front_columns(
    plan: Plan, work: "Fronts", front: Points
) -> tuple[dict[str, Any], dict[str, Any], Array, Array]:
    """Variables and labels of the best points along `front`, their cells, and ranks in these."""
    cell, rank, points = front
    variables = {
        name: ("front", sign * column, attributes(plan, name))
        for name, sign, column in zip(work.names, work.signs, points, strict=True)
    }
    labels: dict[str, Any] = {}
    for axis in stream.user_sizes(plan, work.dims):
        number, step = (rank, work.steps) if axis in work.steps else (cell, work.cells)
        index = number // step[axis] % plan.sizes[axis]
        _, column, about = coordinates(plan, [axis])[axis]
        labels[axis] = ("front", column[index], about)
    first = np.searchsorted(cell, cell)  # cells are sorted
    return variables, labels, cell, np.arange(cell.size) - first + 1


@dataclass(frozen=True)
class Fronts:
    """Fronts of bundles, one for each cell of the axes not reduced, best values lowest. A cell
    numbers the points of the kept axes, a rank those of the reduced axes."""

    dims: tuple[str, ...]
    names: Sequence[str]
    signs: Sequence[float]
    cells: dict[str, int]  # strides of the cell's number along the kept axes
    steps: dict[str, int]  # strides of the rank along the reduced axes
    rooms: stream.Rooms | FilteredRoom

    @property
    def deciding(self) -> Sequence[int]:
        """Outputs that decide which points are kept."""
        return range(len(self.names))

    def part(self, plan: Plan, bundle: Region) -> Points:
        blocks = tiles.blocks(bundle, self.rooms.most)
        return self.merged([self.block(plan, block) for block in blocks])

    def block(self, plan: Plan, region: Region) -> Points:
        shape = extent(region, self.dims, self.dims)
        dims_kept = [dim for dim in self.dims if dim in self.cells]
        turned = [*dims_kept, *(dim for dim in self.dims if dim in self.steps)]
        order = [self.dims.index(dim) for dim in turned]
        outs = {
            name: np.broadcast_to(out, shape).transpose(order)
            for name, out in self.rooms.evaluate(plan, self.dims, region).items()
        }
        count = math.prod(extent(region, dims_kept, dims_kept))
        rows = [self.signs[k] * outs[self.names[k]].reshape(count, -1) for k in self.deciding]
        left = np.flatnonzero(self.thin(rows))
        places = np.unravel_index(left, extent(region, turned, turned)) if turned else ()
        cell, rank = np.zeros(left.size, np.int64), np.zeros(left.size, np.int64)
        for dim, place in zip(turned, places, strict=True):
            number, step = (rank, self.steps) if dim in self.steps else (cell, self.cells)
            number += (place + region[dim].start) * step[dim]
        columns = [
            sign * (outs[name][places] if turned else outs[name].reshape(1)[left])
            for name, sign in zip(self.names, self.signs, strict=True)
        ]
        return self.best(cell, rank, np.stack(columns))

    def thin(self, rows: list[Array]) -> Array:
        """Points of a block that may be among the best."""
        return _thin(rows)

    def best(self, cell: Array, rank: Array, points: Array) -> Points:
        return unbeaten(cell, rank, points)

    def merged(self, parts: Sequence[Points]) -> Points:
        return self.best(*(np.concatenate(rows, axis=-1) for rows in zip(*parts, strict=True)))


def fronts(
    plan: Plan,
    names: Sequence[str],
    signs: Sequence[float],
    over: Sequence[str],
    where: Sequence[Condition] | None = None,
) -> Fronts:
    """The work that finds the fronts of some outputs."""
    rooms = stream.Rooms(plan, names) if where is None else FilteredRoom(plan, names, where)
    dims = tuple(dim for dim in plan.sizes if dim in rooms.dims)
    cells = tiles.strides(stream.user_sizes(plan, [dim for dim in dims if dim not in over]))
    steps = tiles.strides(stream.user_sizes(plan, [dim for dim in dims if dim in over]))
    return Fronts(dims, names, signs, cells, steps, rooms)


def _thin(rows: list[Array]) -> Array:
    """Points of a block (a row for each cell) that a few good points do not dominate."""
    open_ = np.isfinite(rows[0])
    for row in rows[1:]:
        open_ &= np.isfinite(row)
    scaled = []
    for row in rows:
        low = row.min(where=open_, initial=np.inf)
        width = row.max(where=open_, initial=-np.inf) - low
        scaled.append((row - low) / (width if 0 < width < np.inf else 1.0))  # no 0/0
    for heavy in (None, *range(len(rows))):
        score = np.where(open_, 0.0, np.inf)
        for k, column in enumerate(scaled):
            score += column * (EMPHASIS if k == heavy else 1.0)
        score[~open_] = np.inf  # again: NaN was added there
        best = score.argmin(axis=1)[:, None]
        no_worse, better = np.take_along_axis(open_, best, 1), np.zeros(1, bool)
        for row in rows:
            good = np.take_along_axis(row, best, 1)
            no_worse = no_worse & (good <= row)
            better = better | (good < row)
        open_ &= ~(no_worse & better)
    return open_


def unbeaten(cell: Array, rank: Array, points: Array) -> Points:
    """The points that none of the same cell dominates, by cell and by value."""
    order = np.lexsort((rank, *points[::-1], cell))
    cell, rank, points = cell[order], rank[order], points[:, order]
    keep = _stairs2(cell, points[1]) if len(points) == 2 else _stairs3(cell, points)
    return cell[keep], rank[keep], points[:, keep]


def _stairs2(cell: Array, second: Array) -> Array:
    """Points, sorted by cell and first value, whose second value is below all previous ones."""
    level = np.unique(second, return_inverse=True)[1]
    group = np.cumsum(np.diff(cell, prepend=cell[:1]) > 0)
    fall = level - group * (second.size + 1)  # each cell lies below the previous ones
    keep = np.ones(second.size, bool)
    keep[1:] = fall[1:] < np.minimum.accumulate(fall)[:-1]
    return keep


def _stairs3(cell: Array, points: Array) -> Array:
    """The same for three values: against the staircase of previous second and third values."""
    keep = np.zeros(cell.size, bool)
    # the current cell and its staircase: second values rise while third ones fall
    now, across, down = -1, [], []  # type: ignore[var-annotated]
    for k, (value, b, c) in enumerate(
        zip(cell.tolist(), points[1].tolist(), points[2].tolist(), strict=True)
    ):
        if value != now:
            now, across, down = value, [], []
        position = bisect.bisect_right(across, b)
        if position and down[position - 1] <= c:
            continue
        start = bisect.bisect_left(across, b)
        stop = start
        while stop < len(down) and down[stop] >= c:
            stop += 1
        across[start:stop], down[start:stop] = [b], [c]
        keep[k] = True
    return keep
