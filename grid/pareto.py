"""Pareto fronts of two or three outputs, in the stream.

A point is on the front unless another is at least as good in every output and better in one; of
equal points the first stays. What is dominated is so by a point of the front, so blocks may be
thinned in any order.
"""

import bisect
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import stream
from .axes import Array
from .dataset import attributes, coordinates, root_attributes
from .errors import InputError
from .plan import Plan, Region, extent

if TYPE_CHECKING:
    import xarray

SENSES = ("min", "max")
EMPHASIS = 8.0  # weight of one output beside the others, where a point is sought to thin a block


def pareto(
    plan: Plan,
    spec: Mapping[str, Any],
    of: Sequence[str],
    senses: Sequence[str],
    over: Sequence[str] | None,
    threads: int,
) -> "xarray.Dataset":
    """The points that no other beats, with their labels; see `Sweep.pareto`."""
    import xarray

    if isinstance(of, str) or not 2 <= len(of) <= 3 or len(set(of)) < len(of):
        raise InputError(f"of = {of!r} is not a list of two or three outputs; give one")
    names = [stream.check_output(plan, name) for name in of]
    if isinstance(senses, str) or len(senses) != len(names) or not set(senses) <= set(SENSES):
        raise InputError(f"senses = {senses!r}: give 'min' or 'max' for each of {', '.join(names)}")
    axes = stream.check_over(plan, over)
    search = _Front(plan, names, [1.0 if sense == "min" else -1.0 for sense in senses], axes)
    search.run(threads)
    cell, rank, points = search.found
    variables = {
        name: ("front", sign * row, attributes(plan, name))
        for name, sign, row in zip(names, search.signs, points, strict=True)
    }
    labels = {}
    for axis in stream.user_sizes(plan, search.dims):
        row = stream.labels_of(plan, axis)
        number, step = (rank, search.steps) if axis in search.steps else (cell, search.cells)
        index = number // step[axis] % plan.sizes[axis]
        labels[axis] = ("front", row[index], coordinates(plan, [axis])[axis][2])
    said = ", ".join(f"{sense} {name}" for name, sense in zip(names, senses, strict=True))
    attrs = {
        **root_attributes(plan, spec),
        "fleetcube_reduction": f"pareto ({said}) over {', '.join(axes)}",
    }
    return xarray.Dataset(variables, labels, attrs)


class _Front:
    """Running fronts, one for each cell of the axes that stay, best values lowest."""

    def __init__(
        self, plan: Plan, names: Sequence[str], signs: Sequence[float], over: Sequence[str]
    ) -> None:
        self.plan, self.signs = plan, signs
        used = {dim for name in names for dim in plan.out_dims[name]}
        self.dims = tuple(dim for dim in plan.sizes if dim in used)
        self.kept = [dim for dim in self.dims if dim not in over]
        self.reduced = [dim for dim in self.dims if dim in over]
        self.steps = stream.strides(stream.user_sizes(plan, self.reduced))
        self.cells = stream.strides(stream.user_sizes(plan, self.kept))
        self.found = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((len(names), 0)))
        self.names, self.lock = names, threading.Lock()
        groups = [(d, [n for n in row if n in names]) for d, row in plan.groups().items()]
        self.groups = [(dims, row, stream.Room(row)) for dims, row in groups if row]

    def run(self, threads: int) -> None:
        """Search the grid."""
        whole = {dim: slice(0, self.plan.sizes[dim]) for dim in self.dims}
        stream.each(self.plan, threads, self.add, stream.within(whole, stream.BLOCK))

    def add(self, region: Region) -> None:
        """Thin a block, and merge what is left with what was found."""
        shape = extent(region, self.dims, self.dims)
        order = [self.dims.index(dim) for dim in (*self.kept, *self.reduced)]
        outs: dict[str, Array] = {}
        for dims, names, room in self.groups:
            got = room.evaluate(self.plan, dims, {dim: region[dim] for dim in dims})
            for name in names:
                spread = got[name].reshape(extent(region, dims, self.dims))
                outs[name] = np.broadcast_to(spread, shape).transpose(order)
        count = int(np.prod([region[dim].stop - region[dim].start for dim in self.kept]))
        rows = [
            sign * outs[name].reshape(count, -1)
            for name, sign in zip(self.names, self.signs, strict=True)
        ]
        left = np.flatnonzero(_thin(rows))
        turned = {dim: extent(region, [dim], [dim])[0] for dim in (*self.kept, *self.reduced)}
        places = np.unravel_index(left, tuple(turned.values())) if turned else ()
        cell, rank = np.zeros(left.size, np.int64), np.zeros(left.size, np.int64)
        for dim, place in zip(turned, places, strict=True):
            number, step = (rank, self.steps) if dim in self.steps else (cell, self.cells)
            number += (place + region[dim].start) * step[dim]
        points = np.stack([row.reshape(-1)[left] for row in rows])
        own = _front(cell, rank, points)
        with self.lock:
            both = [np.concatenate(pair, axis=-1) for pair in zip(self.found, own, strict=True)]
            self.found = _front(*both)


def _thin(rows: list[Array]) -> Array:
    """Points of a block (a row for each cell) that a few good points do not dominate."""
    open_ = np.isfinite(rows[0])
    for row in rows[1:]:
        open_ &= np.isfinite(row)
    scaled = []
    for row in rows:
        low = row.min(where=open_, initial=np.inf)
        width = row.max(where=open_, initial=-np.inf) - low
        scaled.append((row - low) / (width if 0 < width < np.inf else 1.0))
    for heavy in (None, *range(len(rows))):
        score = np.where(open_, 0.0, np.inf)
        for k, part in enumerate(scaled):
            score += part * (EMPHASIS if k == heavy else 1.0)
        score[~open_] = np.inf
        best = score.argmin(axis=1)[:, None]
        usable = np.take_along_axis(open_, best, 1)
        no_worse, better = usable, np.zeros(1, bool)
        for row in rows:
            good = np.take_along_axis(row, best, 1)
            no_worse = no_worse & (good <= row)
            better = better | (good < row)
        open_ &= ~(no_worse & better)
    return open_


def _front(cell: Array, rank: Array, points: Array) -> tuple[Array, Array, Array]:
    """The points that none of the same cell beats, by cell and by value."""
    order = np.lexsort((rank, *points[::-1], cell))
    cell, rank, points = cell[order], rank[order], points[:, order]
    keep = _stairs2(cell, points[1]) if len(points) == 2 else _stairs3(cell, points)
    return cell[keep], rank[keep], points[:, keep]


def _stairs2(cell: Array, second: Array) -> Array:
    """Which of points sorted by cell and first value have a lower second value than all before."""
    level = np.unique(second, return_inverse=True)[1]
    group = np.cumsum(np.diff(cell, prepend=cell[:1]) > 0)
    fall = level - group * (second.size + 1)  # each cell lies below those before it
    keep = np.ones(second.size, bool)
    keep[1:] = fall[1:] < np.minimum.accumulate(fall)[:-1]
    return keep


def _stairs3(cell: Array, points: Array) -> Array:
    """The same for three values: against the steps of the second and third of those before."""
    keep = np.zeros(cell.size, bool)
    now, across, down = -1, [], []  # type: ignore[var-annotated]
    for k, (own, b, c) in enumerate(
        zip(cell.tolist(), points[1].tolist(), points[2].tolist(), strict=True)
    ):
        if own != now:
            now, across, down = own, [], []
        at = bisect.bisect_right(across, b)
        if at and down[at - 1] <= c:
            continue
        start = bisect.bisect_left(across, b)
        stop = start
        while stop < len(down) and down[stop] >= c:
            stop += 1
        across[start:stop], down[start:stop] = [b], [c]
        keep[k] = True
    return keep
