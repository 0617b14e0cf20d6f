"""Notebook representations of a sweep and of a small cube."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.grid.plan.labels import attributes, dtype_of, origin
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axis import Axis
from fleetcube.kernels.graph.formulas import Graph

from .table_notes import foot_lines, remarks
from .tables import MOST_ROWS, label, numbers, scale, table

if TYPE_CHECKING:
    import xarray

MOST_SHOWN = 200  # characters of a value of the scenario
# No colours: text and lines are the notebook's, in light and dark themes
_STYLE = """<style>
.fleetcube-sweep { line-height: 1.5; }
.fleetcube-sweep .obj-type { opacity: 0.65; }
.fleetcube-sweep summary { cursor: pointer; font-weight: bold; }
.fleetcube-sweep table {
  border-collapse: collapse; margin: 0.2em 0 0.6em 1em; color: inherit; font: inherit; }
.fleetcube-sweep th, .fleetcube-sweep td {
  text-align: left; vertical-align: top; padding: 0.1em 1.2em 0.1em 0;
  background: transparent; border: none; }
.fleetcube-sweep th { font-weight: normal; opacity: 0.65; border-bottom: 1px solid; }
.fleetcube-sweep .number { text-align: right; white-space: nowrap; }
</style>"""


def sweep_html(plan: Plan, spec: Mapping[str, Any]) -> str:
    """Axes, outputs, scenario and plan of a sweep as HTML, with all text escaped."""
    points = math.prod(axis.size for axis in plan.problem.axes)
    size = sum(
        plan.size(name) * dtype_of(plan.graph, name, float).itemsize for name in plan.outputs
    )
    head = f"{points:,} point{'s' * (points != 1)}, {_bytes(size)} as float64"
    parts = [
        f"<div><span class='obj-type'>fleetcube.Sweep</span> {head}</div>",
        _section(
            "Axes", _AXES, (_axis(plan.graph, axis) for axis in plan.problem.axes), opened=True
        ),
        _section("Outputs", _OUTPUTS, (_output(plan, name) for name in plan.outputs), opened=True),
        _section(
            "Scenario", _SCENARIO, (_set(plan.graph, *entry) for entry in spec["scenario"].items())
        ),
        _section("Plan", _PLAN, _plan_rows(plan)),
        *_lines(remarks(origin(plan, spec))),
    ]
    return _page(parts)


def cube_html(cube: "xarray.Dataset") -> str:
    """A small cube as a table in convenient units, or how to cut a large one; and the foot."""
    points = math.prod(cube.sizes.values())
    if points > MOST_ROWS:
        parts = _lines([f"{points:,} points; cut them to {MOST_ROWS} at most: cube.fleetcube.sel"])
    else:
        headings, rows = table(cube)
        parts = [_table([f"#{heading}" for heading in headings], rows)]
    return _page([*parts, *_lines(foot_lines(cube))])


def record_html(record: Any) -> str:
    """A result's numbers as a table, and each of its lists as one that folds."""
    fields = {name: value for name, value in vars(record).items() if value not in (None, ())}
    lists = {n: v for n, v in fields.items() if isinstance(v, tuple) and not np.isscalar(v[0])}
    one = [[_plain(n), _text(v)] for n, v in fields.items() if n not in lists]
    return _page([_table(("", ""), one), *(_listed(_plain(n), v) for n, v in lists.items())])


def _listed(title: str, rows: Sequence[Any]) -> str:
    if type(rows[0]) is tuple:
        return "".join(_listed(f"{title} {k + 1}", row) for k, row in enumerate(rows))
    each = [
        dict(zip(row._fields, row, strict=True)) if hasattr(row, "_fields") else vars(row)
        for row in rows
    ]
    return _section(title, [*map(_plain, each[0])], ([*map(_text, row.values())] for row in each))


def _plain(name: str) -> str:
    return name.replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_text(entry)}" for name, entry in value.items())
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    if hasattr(value, "__dict__"):
        return _text(vars(value))
    return numbers([value])[0] if type(value) is float else label(value)


def _page(parts: Iterable[str]) -> str:
    return f"{_STYLE}<div class='fleetcube-sweep'>{''.join(parts)}</div>"


def _lines(texts: Iterable[str]) -> list[str]:
    return [f"<div>{escape(text)}</div>" for text in texts]


_AXES = ("axis", "#values", "from", "to", "unit", "meaning")
_OUTPUTS = ("output", "dimensions", "#points", "#bytes", "unit", "meaning")
_SCENARIO = ("input", "value", "base unit")
_PLAN = ("", "")


def _section(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], opened: bool = False
) -> str:
    """A collapsible table under a title."""
    body = [list(row) for row in rows]
    counted = f" ({len(body)})" if any(columns) else ""
    inside = _table(columns, body) if body else ""
    state = " open" if opened else ""
    return f"<details{state}><summary>{title}{counted}</summary>{inside}</details>"


def _table(columns: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table; headings of numeric columns begin with #."""
    kinds = [" class='number'" if column.startswith("#") else "" for column in columns]
    heads = "".join(
        f"<th{kind}>{escape(column.lstrip('#'))}</th>"
        for kind, column in zip(kinds, columns, strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in body
    )
    top = f"<thead><tr>{heads}</tr></thead>" if any(columns) else ""
    return f"<table>{top}<tbody>{lines}</tbody></table>"


def _axis(graph: Graph, axis: Axis) -> list[str]:
    first, last = axis.labels[0], axis.labels[-1]
    number = axis.name in axis.numbers
    ends, unit = [label(first), label(last)], ""
    meaning = ", ".join(name for name in axis.inputs if name != axis.name)
    if number:
        factor, unit = scale(values.unit_of(graph, axis.name), axis.labels, axis.name)
        ends = [numbers(np.array([end / factor]))[0] for end in (first, last)]
    if axis.name in graph.inputs:
        meaning = graph.inputs[axis.name].description
    return [axis.name, f"{axis.size:,}", *(_cut(end) for end in ends), unit, meaning]


def _output(plan: Plan, name: str) -> list[str]:
    about = attributes(plan, name)
    unit = "flag" if "flag_meanings" in about else str(about["units"])
    points, dims = plan.size(name), ", ".join(plan.user_dims(name))
    size = points * dtype_of(plan.graph, name, float).itemsize
    long_name = str(about["long_name"])
    return [name, f"({dims})", f"{points:,}", _bytes(size), "" if unit == "1" else unit, long_name]


def _set(graph: Graph, name: str, value: Any) -> list[str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    unit = values.unit_of(graph, name) if number and not values.is_option(graph, name) else ""
    return [name, _cut(f"{value:,.10g}" if number else label(value)), "" if unit == "1" else unit]


def _plan_rows(plan: Plan) -> list[list[str]]:
    tables = [name for name in plan.outputs if plan.is_table(name)]
    formulas = len({formula for case in plan.cases for formula in case.formulas.values()})
    cases = len(plan.cases)
    rows = [
        ["engine", plan.engine],
        ["formulas", f"{formulas:,} in {cases:,} case{'s' * (cases != 1)}"],
        ["order of memory", ", ".join(axis.name for axis in plan.axes) or "one point"],
        ["outputs computed once, as tables", ", ".join(tables) or "none"],
    ]
    unused = ", ".join(plan.unused())
    return [*rows, *([["set but not used", unused]] if unused else [])]


def _bytes(size: int) -> str:
    factor, unit = scale("B", [size])
    return f"{size / factor:.3g} {unit}" if unit != "B" else f"{size:,} B"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."
