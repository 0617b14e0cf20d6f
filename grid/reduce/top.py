"""The best points of a grid under conditions, computed block by block."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.roles import NEAR, REASON
from ..plan.labels import coordinates, root_attributes
from ..plan.plan import Plan
from ..run import stream
from ..run.points import values_at
from ..spec.axis import Array
from .kept import Condition
from .pareto import Fronts, Points, found, fronts, scanned, sign_of
from .search import NOWHERE, search

RANK = "rank"

if TYPE_CHECKING:
    import xarray


def top(
    plan: Plan,
    spec: Mapping[str, Any],
    of: str,
    k: int,
    sense: str,
    over: Sequence[str] | None,
    where: Sequence[Condition],
    map_: stream.Map,
    threads: int,
) -> "xarray.Dataset":
    """The k best points that meet conditions, along `rank`; see `Sweep.best`."""
    import xarray

    stream.check_output(plan, of)
    names = list(plan.outputs)
    axes = stream.check_over(plan, over)
    signs = [sign_of(sense) if name == of else 1.0 for name in names]
    base = fronts(plan, names, signs, axes, where)
    parts = (base.dims, base.names, base.signs, base.cells, base.steps, base.rooms)
    work = _Top(*parts, names.index(of), k)
    front = work.searched(plan, sense, where, threads)
    if front is None:
        front = scanned(plan, work, map_)
    variables, labels, cell, rank = found(plan, work, front)
    kept = [axis for axis in stream.user_sizes(plan, base.dims) if axis in base.cells]
    shape = (*plan.shape(kept), int(rank.max(initial=1)))
    stays = coordinates(plan, kept)
    place = [cell // base.cells[axis] % plan.sizes[axis] for axis in kept]

    def gridded(column: tuple[Any, ...]) -> tuple[Any, ...]:
        _, values, about = column
        empty: Any = -1
        if "flag_values" in about:
            values = values.astype(np.int8)
        elif values.size < math.prod(shape):
            values, empty = stream.missing(values)
        array = np.full(shape, empty, values.dtype)
        array[(*place, rank - 1)] = values
        return (*kept, RANK), array, about

    said = f"{k} of {sense} {of} over {', '.join(axes)}"
    attrs = {**root_attributes(plan, spec), "fleetcube_reduction": said}
    about = {"long_name": f"place among the {k} best", "units": "1"}
    coords = {name: gridded(column) for name, column in labels.items() if name not in kept}
    coords |= {**stays, RANK: (RANK, np.arange(1, shape[-1] + 1), about)}
    whole = xarray.Dataset({n: gridded(column) for n, column in variables.items()}, coords, attrs)
    return whole.set_coords([name for name in (REASON, NEAR) if name in whole])


@dataclass(frozen=True)
class _Top(Fronts):
    """The best points of bundles, for each cell of the axes not reduced."""

    lead: int
    k: int

    def searched(
        self, plan: Plan, sense: str, where: Sequence[Condition], threads: int
    ) -> Points | None:
        """The best points, found by bounds; None if a scan is cheaper."""
        over, held = stream.user_sizes(plan, self.steps), stream.user_sizes(plan, self.cells)
        best = search(plan, self.names[self.lead], sense, held, over, threads, where, self.k)
        if best is None:
            return None
        order = [[dim for dim in self.dims if dim in held].index(axis) for axis in held]
        values, ranks = (each.transpose(*order, -1).reshape(-1, self.k) for each in best)
        cell, at = np.nonzero((ranks != NOWHERE) & (self.signs[self.lead] * values < np.inf))
        rank = ranks[cell, at]
        places = {
            dim: number // step[dim] % plan.sizes[dim]
            for number, step in ((cell, self.cells), (rank, self.steps))
            for dim in step
        }
        columns = []
        for name, sign in zip(self.names, self.signs, strict=True):
            own = {dim: places[dim] for dim in plan.out_dims[name]}
            columns.append(sign * values_at(plan, [name], own, cell.shape, "float64", plan.engine)[name])
        return cell, rank, np.stack(columns)

    def thin(self, rows: list[Array]) -> Array:
        """Points not beaten by k points of their cell."""
        good = rows[self.lead] < np.inf  # an infinite time between failures may win, a cost not
        values = np.where(good, rows[self.lead], np.inf)
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


def ordered(found: "xarray.Dataset", of: str, k: int) -> "xarray.Dataset":
    """The k cells of a reduction with the smallest values, in order; for -k, the largest."""
    dims = [str(dim) for dim in found[of].dims]
    if not dims:
        return found
    rows = found.stack(row=dims).reset_index("row")
    values = (1 if k > 0 else -1) * rows[of].values
    order = np.argsort(values, kind="stable")[: abs(k)]  # NaN last
    return rows.isel(row=order[np.isfinite(values[order])]).reset_coords()[[*dims, of]]
