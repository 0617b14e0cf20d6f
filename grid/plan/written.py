"""A spec as stored in results: long axes refer to coordinates instead of repeating values."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...kernels.graph.formulas import Graph
from ..spec.application import application
from ..spec.axes import is_coupled, make_axis
from ..spec.axis import Axis
from ..spec.graphs import graph_of
from .plan import Plan

FEW = 100  # values that are written out
COORDINATE = "coordinate"  # in place of values held by a coordinate
_LABELS = "labels"


def written(
    plan: Plan, spec: Mapping[str, Any], stored_axes: Collection[str] | None = None
) -> dict[str, Any]:
    """A spec with {values = "coordinate", size = n, sha256 = ...} in place of long lists.

    The coordinate is that of the axis; inputs that vary together have one each, and their labels
    are the axis'. With `kept`, the available coordinates, lists that are in none of them stay. What
    a scenario implies is stated.
    """
    by_name = {axis.name: axis for axis in plan.problem.axes}
    axes = spec["axes"].items()
    if plan.problem.implied:  # so that it means the same under another rule
        spec = {**spec, "scenario": {**spec["scenario"], **plan.problem.implied}}
    return {
        **spec,
        "axes": {
            name: _entry(plan.graph, name, entry, by_name.get(name), stored_axes)
            for name, entry in axes
        },
    }


def _entry(
    graph: Graph, name: str, entry: Any, axis: Axis | None, stored_axes: Collection[str] | None
) -> Any:
    if isinstance(entry, Mapping) and "design" in entry:
        return entry
    coupled = is_coupled(entry)
    lists = {key: _listed(each) for key, each in (entry if coupled else {name: entry}).items()}
    long = {key: row for key, row in lists.items() if row is not None and len(row) > FEW}
    if not long or not (stored_axes is None or {name, *long} - {_LABELS} <= {*stored_axes}):
        return entry
    if not (isinstance(entry, np.ndarray) and entry.dtype.kind in "iuf"):
        size = len(next(iter(long.values())))
        if axis is None or axis.size != size:  # the plan covers only some points of the sweep
            axis = make_axis(graph, name, entry)
        rows = {**axis.numbers, **axis.options, **axis.records, name: axis.labels}
        long = {key: rows[key] for key in long if key != _LABELS}
        if coupled:
            # always: labels made of the values as written cannot be rebuilt from the values
            long[_LABELS] = axis.labels
            if not all(map(str.isprintable, axis.labels.tolist())):
                return entry
    references = {key: _reference(row) for key, row in long.items()}
    return {**entry, **references} if coupled else references[name]


def _listed(entry: Any) -> Any:
    """The values in an entry that lists them, else None."""
    values = entry.get("values") if isinstance(entry, Mapping) else entry
    if isinstance(values, Axis):
        return values.labels
    listed = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str | bytes)
    return values if listed else None


def _reference(row: Any) -> dict[str, Any]:
    return {"values": COORDINATE, "size": len(row), "sha256": _digest(row)}


def _digest(row: Any) -> str:
    """sha256 of values: of numbers as little-endian float64, of others as a JSON list."""
    row = np.asarray(row)
    if row.dtype.kind in "iuf":
        return hashlib.sha256(np.ascontiguousarray(row, "<f8").data).hexdigest()
    return hashlib.sha256(json.dumps(row.tolist()).encode()).hexdigest()


def result_scenario(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario of a result's spec, stating what it meant when it was written."""
    module = application(graph_of(spec["scenario"]))
    scenario: dict[str, Any] = module.result_scenario(spec) if module else dict(spec["scenario"])
    return scenario


def restored(axes: Mapping[str, Any], cube: Any) -> dict[str, Any]:
    """The axes of a spec with the values of the coordinates to which they refer. Raises ValueError
    if a coordinate differs from what the spec was written with."""
    return {
        name: {key: _values(cube, name, key, part) for key, part in entry.items()}
        if is_coupled(entry)
        else _values(cube, name, name, entry)
        for name, entry in axes.items()
    }


def _values(cube: Any, axis: str, name: str, entry: Any) -> Any:
    if not isinstance(entry, Mapping) or entry.get("values") != COORDINATE:
        return entry
    name = axis if name == _LABELS else name
    if name not in cube.coords or cube[name].dims != (axis,):
        raise ValueError(f"its spec refers to a coordinate {name!r}, which it does not have")
    values = cube[name].values
    if (values.size, _digest(values)) != (entry.get("size"), entry.get("sha256")):
        raise ValueError(f"the labels {name!r} are not those of its spec")
    return values if values.dtype.kind == "f" else values.tolist()
