"""Selectors axis=value: parts of a cube, and changes to a spec."""

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.grid.spec import graphs, values
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.axis import Axis
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.physics.roles import IN_STEPS
from fleetcube.scenario import dates, patterns, phases, policies, user_records
from fleetcube.scenario.token_batches import tokens_of

from .tables import label, scale


def pairs(selectors: Sequence[str]) -> dict[str, str]:
    """Name and value of every selector "axis=value"."""
    text_by_name: dict[str, str] = {}
    for selector in selectors:
        name, equals, text = selector.partition("=")
        if not equals or not text:
            raise InputError(f"{selector!r} is not a selector; write axis=value")
        if name in text_by_name:
            raise InputError(f"{name} is given twice; write {name}={text_by_name[name]},{text}")
        text_by_name[name] = text
    return text_by_name


def select(cube: Any, selectors: Sequence[str]) -> tuple[Any, list[str]]:
    """Cut a cube by "axis=value", "axis=first:last" or "axis=value,value"; numbers may have units.
    Returns the cut at the nearest points of numeric axes, and notes on values off their axes."""
    notes: list[str] = []
    graph = graphs.graph_at(cube.attrs)
    for name, text in pairs(selectors).items():
        if name not in cube.dims:
            axes = [str(dim) for dim in cube.dims]
            hint = nearest(name, axes, f"choose from {', '.join(axes) or 'none'}")
            raise InputError(f"{name!r} is not an axis of the cube; {hint}")
        if name not in cube.coords:
            raise InputError(f"the cube has no coordinate {name!r} and cannot be cut along it")
        cube = cube.isel({name: _index(graph, name, cube[name].values, text, notes)})
    return cube, notes


def position(graph: Graph, axis: Axis, value: Any) -> int:
    """The index of a point on its axis; without a value, of the first."""
    notes: list[str] = []
    text = label(value)
    index = _index(graph, axis.name, axis.labels, text, notes) if text else 0
    if notes or np.ndim(index):
        first = point_of(graph, {axis.name: axis.cut(np.array([0]))})
        raise InputError(f"{axis.name} = {text} is not one of its axis; name one, such as {first}")
    return int(index)


def _index(graph: Graph, name: str, points: Any, text: str, notes: list[str]) -> Any:
    if points.dtype.kind not in "iuf" or (
        name in graph.inputs and graph.inputs[name].kind == "option"
    ):
        return _named(name, [label(point) for point in points], text)
    if ":" in text:
        return _between(graph, name, points, text)
    picks = [_nearest(graph, name, points, part, notes) for part in listed(name, text, notes)]
    return picks if len(picks) > 1 else picks[0]


def listed(name: str, text: str, notes: list[str], labels: Collection[str] = ()) -> list[str]:
    """Values between commas; but a label, "50,000 h", "$1,200" and what is in quotes are one."""
    if text in labels:
        return [text]
    if '"' in text:
        return next(csv.reader([text]))
    grouped = re.fullmatch(r"(\$?)[1-9]\d{0,2}(?:,\d{3})+(?![\d,])(?:\.\d+)?(.*)", text)
    if grouped and "," not in grouped[2]:
        if grouped[1] or grouped[2].strip():
            return [text]
        notes.append(f"{name} = {text} is a list; without its commas it is one number")
    if re.search(" (of|in) ", text):  # counts of failures, with thousands
        return re.split(r"(?<!\d),|,(?!\d{3}\D)", text)
    return text.split(",")


def _named(name: str, labels: list[str], text: str) -> Any:
    chosen = listed(name, text, [], labels)
    for point in chosen:
        if point not in labels:
            choices = ", ".join(f'"{each}"' if "," in each else each for each in labels)
            raise InputError(f"{name} = {point!r} is not on the axis; choose from {choices}")
    picks = [labels.index(point) for point in chosen]
    return picks if len(picks) > 1 else picks[0]


def _between(graph: Graph, name: str, points: Any, text: str) -> Any:
    first, _, last = text.partition(":")
    low = _wanted(graph, name, first) if first else -np.inf
    high = _wanted(graph, name, last) if last else np.inf
    inside = np.flatnonzero((points >= low * (1 - 1e-9)) & (points <= high * (1 + 1e-9)))
    if inside.size == 0:
        raise InputError(
            f"{name} = {text!r} holds no point; the axis runs from "
            f"{_shown(graph, name, points.min())} to {_shown(graph, name, points.max())}"
        )
    return inside


def _nearest(graph: Graph, name: str, points: Any, text: str, notes: list[str]) -> int:
    wanted = _wanted(graph, name, text)
    # unit conversion rounds, so a point may be a few bits away
    slack = 1e-9 * abs(wanted) if np.isfinite(wanted) else 0.0
    if not np.isfinite(wanted):
        if wanted in points:
            return int(np.argmax(points == wanted))
        raise InputError(f"{name} = {text} is not on the axis; choose a finite value")
    number = _shown(graph, name, wanted)
    same = number.replace(" ", "") == text.replace(" ", "")
    value = text if same else f"{text} ({number})"
    if wanted < points.min() - slack or wanted > points.max() + slack:
        raise InputError(
            f"{name} = {value} is outside the axis, {_shown(graph, name, points.min())} to "
            f"{_shown(graph, name, points.max())}; choose a value in it"
        )
    pick = int(np.argmin(np.abs(points - wanted)))
    if abs(points[pick] - wanted) > slack:
        notes.append(
            f"{name} = {value} is not on the axis: taking {_shown(graph, name, points[pick])}"
        )
    return pick


def _wanted(graph: Graph, name: str, text: str) -> float:
    """The number to look up on an axis, in the base unit if the axis is an input."""
    if _is_known(graph, name):
        return values.number(graph, name, _typed(text))
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"{name} = {shown(text)} is not a number; choose one from the axis"
        ) from None


def _is_known(graph: Graph, name: str) -> bool:
    return values.is_known(graph, name) and without_phase(name) not in graph.roles.labels


def _typed(text: str) -> Any:
    """A plain number as a number, anything else as text (with a unit)."""
    if text.startswith("0") and text.isdecimal() and len(text) > 1:  # 4,096 is not 4 and 96
        raise InputError(f"{shown(text)} is not a number; commas separate values, leave them out")
    try:
        return float(text.replace("_", ""))
    except ValueError:
        return text


def _shown(graph: Graph, name: str, value: float) -> str:
    base = values.unit_of(graph, name) if _is_known(graph, name) else "1"
    factor, unit = scale(base, np.array([value]), name)
    return f"{value / factor:.6g} {unit}".strip()


def point_of(graph: Graph, axes: Mapping[str, Axis]) -> str:
    """Text of the values of axes of one point each."""
    coordinates = []
    for name, axis in axes.items():
        value = axis.labels.item()
        number = isinstance(value, float | int) and not isinstance(value, bool)
        coordinates.append(f"{name} = {_shown(graph, name, value) if number else label(value)}")
    return ", ".join(coordinates)


# Changes to a spec

_RANGE = "first:last is for an axis; list the values"
_TABLE = "write distributions and ranges in the spec's file"
_MANY = ("s", "B", "B/s", "FLOP/s", "USD/J", "kg/J")  # base units often replaced by others


def narrow(
    spec: Mapping[str, Any], selectors: Sequence[str], without: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """A spec with other values, and remarks.

    Selectors: "name=value", "name=value,value", "axis=first:last". An axis of one input takes the
    values as given, an axis of several those of its labels; another input becomes a value of the
    scenario, or an axis. `without` leaves axes out.
    """
    wanted, notes = pairs(selectors), list[str]()
    scenario, each = _in_phases(spec, wanted)
    axes: Any = {name: axis for name, axis in spec["axes"].items() if name not in without}
    if record_files := wanted.pop(user_records.NAME, ""):
        scenario[user_records.NAME] = listed(user_records.NAME, record_files, notes)
    # whoever types a selector names them
    scenario = dict(graphs.with_graph(scenario, wanted.pop(graphs.NAME, ())))
    graph = graphs.graph_of(scenario)
    scenario, axes = map(dict, user_records.add_user_records(scenario, axes))
    current = make_axes(graph, axes)
    owners = {name: axis.name for axis in current.values() for name in axis.inputs}
    by_phase = phases.stated_names(scenario)
    for name, text in wanted.items():
        if name in without:
            raise InputError(
                f"{name} is sought; give its range: --search {name}=first:last, or --between"
            )
        if "*" in text and name in graph.roles.labels:
            text = ",".join(user_records.family(name, text, scenario))
        if name in axes:
            axes[name] = _changed(graph, current[name], text, notes)
        elif name in owners:
            raise InputError(
                f"{name} is set by the axis {owners[name]!r}; choose one of its labels"
            )
        elif name in by_phase:
            raise InputError(
                f"{name} is set by phases of the job; change it in one, as {name}__PHASE=VALUE"
            )
        elif (
            name in (patterns.LAYOUT, dates.NAME)
            or (name == patterns.NAME and "," not in text)
            or policies.is_spelled(name, text)
            or tokens_of(name, text) is not None
        ):
            scenario[name] = text
        elif name == patterns.NAME:
            scenario.pop(name, None)
            axes[name] = text.split(",")
        elif not values.is_known(graph, name):
            choices = [*axes, *values.known_names(graph)]
            raise InputError(f"{name!r} is not an input or an axis; {nearest(name, choices)}")
        else:
            if ":" in text and _is_known(graph, name) and not values.is_option(graph, name):
                raise InputError(f"{name} = {text}: {_TABLE if text[0] == '{' else _RANGE}")
            many = _values(graph, name, text, notes)
            if len(many) > 1:
                scenario.pop(name, None)
                axes[name] = many
            else:
                scenario[name] = many[0]
    changed = {**spec, "scenario": scenario, "axes": {**axes, **each}}
    return changed, notes + remarks(changed)


def _in_phases(
    spec: Mapping[str, Any], wanted: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The scenario of the selected phase, or the axis of several; `phase=all` selects all."""
    scenario = dict(spec["scenario"])
    phase_names = phases.names(scenario)
    if not phase_names or phases.NAME not in wanted or phases.NAME in spec["axes"]:
        return scenario, {}
    chosen = wanted.pop(phases.NAME)
    if chosen == phases.EVERY:
        return scenario, {phases.NAME: phase_names}
    if "," in chosen:
        return scenario, {
            phases.NAME: [phases.checked(name, phase_names) for name in chosen.split(",")]
        }
    return phases.single_phase(scenario, chosen), {}


def _changed(graph: Graph, axis: Axis, text: str, notes: list[str]) -> Any:
    """The entry of an axis with other values."""
    if axis.inputs != (axis.name,):
        return axis.cut(np.atleast_1d(_index(graph, axis.name, axis.labels, text, notes)))
    if axis.numbers and ":" in text:
        return axis.cut(_between(graph, axis.name, axis.labels, text))
    return _values(graph, axis.name, text, notes)


def _values(graph: Graph, name: str, text: str, notes: list[str]) -> list[Any]:
    parts = listed(name, text, notes)
    if name in IN_STEPS and any(policies.spelled(name, part) for part in parts):
        steps, policy = IN_STEPS[name]
        words = "".join(f" {option}={choice}" for option, choice in policy.items())
        raise InputError(f"{name} = {text}: several steps are an input; write {steps}=10,20{words}")
    return [_value(graph, name, part) for part in parts]


def _value(graph: Graph, name: str, text: str) -> Any:
    """The spec value of an input written as text."""
    plain = without_phase(name)
    if plain in graph.roles.labels:
        return text
    if values.is_option(graph, plain):
        written = {label(choice): choice for choice in graph.inputs[plain].choices}
        return patterns.choice(name, written.get(text, text))
    value = _typed(text)
    values.number(graph, name, value)
    return value


def remarks(spec: Mapping[str, Any]) -> list[str]:
    """Likely mistakes: numbers without a unit, values overridden by an axis."""
    scenario, axes = spec["scenario"], spec["axes"]
    graph = graphs.graph_of(scenario)
    bare = {**scenario, **axes}
    bare.pop(phases.NAME, None)
    for name, entry in axes.items():
        if isinstance(entry, Mapping) and not _is_known(graph, name):
            bare |= entry
    unitless = []
    for name, entry in bare.items():
        if _is_known(graph, name) and not values.is_option(graph, name):
            numbers = [n for n in _numbers(entry) if n not in (0, np.inf)]
            unit = values.unit_of(graph, name)
            if numbers and unit in _MANY:
                unitless.append(f"{name} = {', '.join(_bare(graph, name, n) for n in numbers[:3])}")
    notes = [f"without a unit, taken in base units: {'; '.join(unitless)}"] if unitless else []
    both = [name for name in axes if name in scenario and name != phases.NAME]
    return notes + [f"{name}: its axis overrides the scenario's value" for name in both]


def _bare(graph: Graph, name: str, number: float) -> str:
    in_base_unit, scaled = (
        f"{number:.10g} {values.unit_of(graph, name)}",
        _shown(graph, name, number),
    )
    return scaled if in_base_unit == scaled else f"{in_base_unit} ({scaled})"


def _numbers(entry: Any) -> list[float]:
    """The bare numbers in a spec entry."""
    if isinstance(entry, Mapping):
        ends = next((entry[key] for key in ("linspace", "geomspace", "arange") if key in entry), ())
        return _numbers(entry.get("values", ends))
    if isinstance(entry, list | tuple):
        return [number for part in entry for number in _numbers(part)]
    return [entry] if isinstance(entry, int | float) and not isinstance(entry, bool) else []
