"""Where an output first crosses a threshold along an axis, computed block by block."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..plan import memory, tiles
from ..plan.labels import coordinates, ordered, root_attributes
from ..plan.plan import Plan
from ..plan.tiles import Region
from ..run import stream
from ..spec import values
from ..spec.axis import Array

if TYPE_CHECKING:
    import xarray

INTERPOLATE = ("linear", "log")


def crossing(
    plan: Plan,
    spec: Mapping[str, Any],
    of: str,
    along: str,
    at: Any,
    interpolate: str,
    map_: stream.Map,
) -> "xarray.DataArray":
    """See `Sweep.crossing`."""
    import xarray

    of = stream.check_output(plan, of)
    if interpolate not in INTERPOLATE:
        raise InputError(f"interpolate = {interpolate!r} is unknown; choose linear or log")
    points = _positions(plan, of, along)
    level = _level(of, at)
    logs = interpolate == "log"
    if logs and (points.min() <= 0 or level <= 0):
        raise InputError(f"logarithms need {along} and at above 0; use interpolate = 'linear'")
    dims = plan.out_dims[of]
    kept = [dim for dim in dims if dim != along]
    memory.check(8 * math.prod(plan.shape(kept)))
    crossings = np.full(plan.shape(kept), np.nan)
    whole = plan.whole(kept)
    work = _Crossings(dims, along, points, level, logs, stream.Room([of]))
    parts = tiles.blocks(whole, max(1, tiles.BLOCK // points.size))
    for tile, crossed in map_(work.part, parts):
        crossings[tiles.inside(whole, tile, kept)] = crossed
    attrs = {**coordinates(plan, [along])[along][2]}
    attrs["long_name"] = f"{along} where {of} first crosses {level:g} {values.unit_of(of)}"
    attrs |= root_attributes(plan, spec)
    order, turned = ordered(plan, kept, crossings)
    return xarray.DataArray(turned, coordinates(plan, kept), order, f"{along}_at_{of}", attrs)


@dataclass(frozen=True)
class _Crossings:
    """Crossings of the rows of an output along an axis."""

    dims: tuple[str, ...]
    along: str
    points: Array
    level: float
    logs: bool
    room: stream.Room

    def part(self, plan: Plan, tile: Region) -> Array:
        region = {**tile, self.along: slice(0, self.points.size)}
        (out,) = self.room.evaluate(plan, self.dims, region).values()
        lines = np.moveaxis(out, self.dims.index(self.along), -1)
        line = np.log(self.points) if self.logs else self.points
        level = float(np.log(self.level)) if self.logs else self.level
        first, place = _first(np.log(lines) if self.logs else lines, line, level)
        between = np.exp(first) if self.logs else first
        # at a point its own label, which exp(log(x)) may miss by a digit
        return np.where(first == line[place], self.points[place], between)


def _positions(plan: Plan, of: str, along: str) -> Array:
    if along not in plan.out_dims[of]:
        own = ", ".join(plan.user_dims(of)) or "no axis"
        raise InputError(f"along: {of} does not vary along {along!r}, but along {own}; choose one")
    labels = stream.labels_of(plan, along)
    if labels.dtype.kind == "U":
        raise InputError(f"along: axis {along!r} has names, not numbers; choose another axis")
    return labels.astype(float)


def _level(of: str, at: Any) -> float:
    level = values.number(of, at)
    if not np.isfinite(level):
        raise InputError(f"at = {at!r} is not finite; give a finite threshold")
    return level


def _first(lines: Array, line: Array, level: float) -> tuple[Array, Array]:
    """Where rows first meet a level, as a coordinate of `line`, and the point at or before it."""
    touch, reach = lines == level, lines.shape[-1]
    a, b = lines[..., :-1], lines[..., 1:]
    cross = ((a < level) & (b > level)) | ((a > level) & (b < level))
    when_touch = np.where(touch.any(axis=-1), touch.argmax(axis=-1), reach)
    if reach == 1:
        return np.where(when_touch < reach, line[0], np.nan), np.zeros_like(when_touch)
    when_cross = np.where(cross.any(axis=-1), cross.argmax(axis=-1), reach)
    k = np.minimum(when_cross, reach - 2)
    low, high = (np.take_along_axis(lines, at[..., None], axis=-1)[..., 0] for at in (k, k + 1))
    share = (level - low) / (high - low)
    # next to an infinite end the share is NaN; the crossing is at the finite one
    share = np.where(np.isinf(low), 1.0, np.where(np.isinf(high), 0.0, share))
    between = line[k] + (line[k + 1] - line[k]) * share
    touched = when_touch < np.minimum(when_cross + 1, reach)
    place = np.where(touched, np.minimum(when_touch, reach - 1), k)
    met = np.where(touched, line[place], between)
    return np.where(~touched & (when_cross == reach), np.nan, met), place
