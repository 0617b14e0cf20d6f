"""The values that axes set at a point."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.axis import Axis


def values_at(axis: Axis, k: int) -> dict[str, Any]:
    """Values of an axis at one of its points, without NaN and None, which other sources fill."""
    rows: Iterator[tuple[str, Any]] = itertools.chain(
        axis.numbers.items(), axis.options.items(), axis.records.items()
    )
    return {name: row[k] for name, row in rows if row[k] is not None and row[k] == row[k]}


def values_along(axes: Iterable[Axis], place: Iterable[int]) -> dict[str, Any]:
    """Values that several axes set at a point."""
    values: dict[str, Any] = {}
    for axis, k in zip(axes, place, strict=True):
        values |= values_at(axis, k)
    return values


def point(sweep: Evaluation, place: Mapping[str, int] = MappingProxyType({})) -> dict[str, Any]:
    """The scenario of a sweep at the first point of its axes, but for those at another place."""
    axes = make_axes(sweep.graph, sweep.spec["axes"])
    places = [place.get(name, 0) for name in axes]
    return {**sweep.spec["scenario"], **values_along(axes.values(), places)}
