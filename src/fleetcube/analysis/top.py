"""The best points of a grid under conditions, computed block by block."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.grid.plan import tiles
from fleetcube.grid.plan.labels import coordinates, origin
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.reduce.filtered import Condition, FilteredRoom
from fleetcube.grid.reduce.search import NOWHERE, search
from fleetcube.grid.result import Result
from fleetcube.grid.run import stream
from fleetcube.grid.run.points import values_at
from fleetcube.grid.spec.axis import Array
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import NEAR

from .pareto import Fronts, Points, front_columns, fronts, scanned, sign_of
from .winners import Winners

RANK = "rank"


def top(
    plan: Plan,
    spec: Mapping[str, Any],
    output: str,
    k: int,
    sense: str,
    over: Sequence[str] | None,
    where: Sequence[Condition],
    map_: stream.Map,
    threads: int,
) -> Result:
    """The k best points that meet conditions, along `rank`; see `Sweep.best`."""
    stream.check_output(plan, output)
    names = list(plan.outputs)
    axes = stream.check_over(plan, over)
    signs = [sign_of(sense) if name == output else 1.0 for name in names]
    base = fronts(plan, names, signs, axes, where)
    rooms = FilteredRoom(plan, names, where, [output])
    parts = (base.dims, base.names, base.signs, base.cells, base.steps, rooms)
    work = _Top(*parts, names.index(output), k)
    front = work.searched(plan, sense, where, map_, threads)
    if front is None:
        front = scanned(plan, work, map_)
    variables, labels, cell, rank = front_columns(plan, work, front)
    axes_kept = [axis for axis in stream.user_sizes(plan, base.dims) if axis in base.cells]
    shape = (*plan.shape(axes_kept), int(rank.max(initial=1)))
    stays = coordinates(plan, axes_kept)
    place = [cell // base.cells[axis] % plan.sizes[axis] for axis in axes_kept]

    def gridded(column: tuple[Any, ...]) -> tuple[Any, ...]:
        _, values, about = column
        empty: Any = -1
        if "flag_values" in about:
            values = values.astype(np.int8)
        elif values.size < math.prod(shape):
            values, empty = stream.missing(values)
        array = np.full(shape, empty, values.dtype)
        array[(*place, rank - 1)] = values
        return (*axes_kept, RANK), array, about

    summary = f"{k} of {sense} {output} over {', '.join(axes)}"
    attrs = {**origin(plan, spec), "fleetcube_reduction": summary}
    about = {"long_name": f"place among the {k} best", "units": "1"}
    coords = {name: gridded(column) for name, column in labels.items() if name not in axes_kept}
    coords |= {**stays, RANK: (RANK, np.arange(1, shape[-1] + 1), about)}
    rows = {name: gridded(column) for name, column in variables.items()}
    coords |= {n: rows.pop(n) for n in (REASON, NEAR) if n in rows}
    return Result(rows, coords, attrs)


@dataclass(frozen=True)
class _Top(Fronts):
    """The best points of bundles, for each cell of the axes not reduced."""

    lead: int
    k: int

    @property
    def deciding(self) -> Sequence[int]:
        return [self.lead]

    def searched(
        self,
        plan: Plan,
        sense: str,
        where: Sequence[Condition],
        map_: stream.Map,
        threads: int,
    ) -> Points | None:
        """The best points, by bounds or by scanning one output; None if each may have several."""
        lead, over = self.names[self.lead], stream.user_sizes(plan, self.steps)
        axes_kept = [dim for dim in self.dims if dim in self.cells]
        best = search(plan, lead, sense, axes_kept, over, threads, where, self.k)
        if best is None and self.k == 1:
            scan = Winners(
                self.dims, sense, [lead], axes_kept, over, FilteredRoom(plan, [lead], where)
            )
            one = scan.run(plan, map_)[lead]
            best = one.values[..., None], one.ranks[..., None]
        if best is None:
            return None
        order = [axes_kept.index(axis) for axis in stream.user_sizes(plan, axes_kept)]
        values, ranks = (each.transpose(*order, -1).reshape(-1, self.k) for each in best)
        values = self.signs[self.lead] * values
        cell, position = np.nonzero((ranks != NOWHERE) & (values < np.inf))
        rank, points = ranks[cell, position], np.zeros((len(self.names), cell.size))
        points[self.lead] = values[cell, position]
        for start in range(0, cell.size, tiles.GATHERED):
            part = slice(start, start + tiles.GATHERED)
            places = {
                dim: number[part] // step[dim] % plan.sizes[dim]
                for number, step in ((cell, self.cells), (rank, self.steps))
                for dim in step
            }
            for k, name in enumerate(self.names):
                if k != self.lead and not (name == REASON and plan.mask):  # what is kept can run
                    output_places, shape = (
                        {d: places[d] for d in plan.out_dims[name]},
                        cell[part].shape,
                    )
                    found_there = values_at(
                        plan, [name], output_places, shape, "float64", plan.engine
                    )
                    points[k, part] = self.signs[k] * found_there[name]
        return cell, rank, points

    def thin(self, rows: list[Array]) -> Array:
        """Points not beaten by k points of their cell."""
        good = rows[0] < np.inf  # an infinite time between failures may win, a cost not
        values = np.where(good, rows[0], np.inf)
        if self.k < values.shape[1]:
            good &= values <= np.partition(values, self.k - 1, axis=1)[:, self.k - 1 : self.k]
        return good

    def best(self, cell: Array, rank: Array, points: Array) -> Points:
        """The k best of each cell; of equal points the first."""
        order = np.lexsort((rank, points[self.lead], cell))
        cell, rank, points = cell[order], rank[order], points[:, order]
        first = np.searchsorted(cell, cell)  # cells are sorted
        keep = np.arange(cell.size) - first < self.k
        return cell[keep], rank[keep], points[:, keep]


def ordered(reduced: Result, output: str, k: int) -> Result:
    """The k cells of a reduction with the smallest values, in order; for -k, the largest."""
    dims = reduced[output].dims
    if not dims:
        return reduced
    rows = reduced.rows(dims, [*dims, output])
    values = (1 if k > 0 else -1) * rows[output].values
    order = np.argsort(values, kind="stable")[: abs(k)]  # NaN last
    return rows.isel(row=order[np.isfinite(values[order])])
