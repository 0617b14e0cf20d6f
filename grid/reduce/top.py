"""The best points of a grid under conditions, in the stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..plan.labels import root_attributes
from ..plan.plan import Plan
from ..run import stream
from ..spec.axes import Array
from .pareto import SENSES, Fronts, Points, found, fronts

if TYPE_CHECKING:
    import xarray


def top(
    plan: Plan,
    spec: Mapping[str, Any],
    of: str,
    k: int,
    sense: str,
    over: Sequence[str] | None,
    where: Sequence[Any],
    map_: stream.Map,
) -> "xarray.Dataset":
    """The k best points that keep to conditions, with their labels; see `Sweep.top`."""
    import xarray

    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(f"k = {k!r} is not a number of points; give 1 or more")
    if sense not in SENSES:
        raise InputError(f"sense = {sense!r} is unknown; choose 'min' or 'max'")
    names = [stream.check_output(plan, name) for name in stream.numeric(plan)]
    axes = stream.check_over(plan, over)
    signs = [-1.0 if name == of and sense == "max" else 1.0 for name in names]
    base = fronts(plan, names, signs, axes)
    parts = (base.dims, base.names, base.signs, base.cells, base.steps, base.rooms)
    variables, labels = found(plan, _Top(*parts, names.index(of), k, tuple(where)), map_)
    said = f"{k} of {sense} {of} over {', '.join(axes)}"
    attrs = {**root_attributes(plan, spec), "fleetcube_reduction": said}
    return xarray.Dataset(variables, labels, attrs).rename(front="rank")


@dataclass(frozen=True)
class _Top(Fronts):
    """The best points of bundles, for each cell of the axes that stay."""

    lead: int
    k: int
    where: tuple[Any, ...]  # targets of `solve`

    def thin(self, rows: list[Array]) -> Array:
        """Points that keep to the conditions, and are not beaten by k of their cell."""
        outs = {n: s * row for n, s, row in zip(self.names, self.signs, rows, strict=True)}
        good = np.isfinite(rows[self.lead])
        for each in self.where:
            level = outs[each.level] if isinstance(each.level, str) else each.level
            value = outs[each.of]
            good &= value <= level if each.relation == "<=" else value >= level
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
