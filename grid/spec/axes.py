"""Axes of a spec: what varies along one dimension of a sweep."""

import math
import operator
import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, localcontext
from itertools import accumulate, repeat
from typing import Any

import numpy as np

from ...kernels.calculus.phased_formulas import without_phase
from ...kernels.graph.formulas import Graph
from ..errors import InputError, nearest, shown
from . import values
from .application import application
from .axis import LONGEST, MOST_SPELLED, Array, Axis, check_length
from .designs import design_axis
from .memo import Memo

MOST_AXES = 63  # one dimension each; NumPy has 64, and a block of points takes one more
MOST_GIVEN = 1 << 24  # values of an axis given as an array
LONGEST_KNOWN = 4096  # points of an axis up to which it is cached for other sweeps
PHASE = "phase"  # an axis of the job's phases, which the scenario states
_OF_ANSWERS = ("front", "input", "output", "quantile", "rank")  # dimensions that questions add
_GENERATORS = ("values", "linspace", "geomspace", "arange")

_axes_read: Memo[Axis] = Memo(128)  # about 32 kB for each input along them


def make_axis(graph: Graph, name: str, spec: Any) -> Axis:
    """Read one entry of `axes`.

    `spec` is a list or array of values; a table that generates them ({linspace = [a, b], num = n},
    {geomspace = ...}, {arange = [start, stop, step]}, {values = [...]}, each with round = true); a
    table of inputs that vary together ({tensor_parallel = [1, 2], pipeline_parallel = [2, 1]}),
    whose points may be named by `labels`; or a table that draws points of several inputs ({design =
    "sobol", num = 1024, gpu_mttf = {geomspace = [a, b]}}; see `designs`); or an `Axis`, unchanged.
    """
    if isinstance(spec, Axis):
        return spec
    key = _content(name, spec)
    cached = None if key is None else _axes_read.get(key)
    if cached is not None:
        return cached
    axis = _read(graph, name, spec)
    if key is not None and not axis.records and axis.size <= LONGEST_KNOWN:
        for row in (axis.labels, *axis.numbers.values()):
            row.flags.writeable = False
        _axes_read.keep(key, axis)
    return axis


def _content(name: str, spec: Any) -> bytes | None:
    """Cache key of an axis that is short and consists of plain numbers and texts; else None."""
    parts = list(spec.values()) if type(spec) is dict else [spec]
    for part in parts:
        if type(part) is np.ndarray and part.dtype.kind in "iuf" and part.ndim:
            entries: Any = part
        else:
            entries = part if type(part) in (list, tuple) else (part,)
            if not {int, float, str, bool}.issuperset(map(type, entries)):
                return None
        if len(entries) > LONGEST_KNOWN:
            return None
    return pickle.dumps((name, spec))  # distinguishes 1, 1.0 and True, and 0.0 from -0.0


def _read(graph: Graph, name: str, spec: Any) -> Axis:
    if name in _OF_ANSWERS:
        raise InputError(f"axis {name!r} has the name of a dimension of answers; choose another")
    if isinstance(spec, Mapping) and "design" in spec:
        return design_axis(graph, name, spec)
    if is_coupled(spec):
        return _coupled(graph, name, spec)
    if name == PHASE and graph.roles.phased:
        points = _points(graph, name, spec)
        _check_distinct(name, points)
        return Axis(name, np.array(points, dtype=str))
    if name not in graph.roles.texts or name not in application(graph).TEXT_AXES:
        _check_swept(graph, name)
    return _single(graph, name, _points(graph, name, spec))


def _check_swept(graph: Graph, name: str) -> str:
    """The name, if a spec may sweep it: for one phase only numbers can be swept."""
    plain = without_phase(values.check_name(graph, name))
    if plain != name and (plain in graph.roles.labels or values.is_option(graph, plain)):
        raise InputError(f"axis {name!r}: {plain} of one phase takes one name; put it in the phase")
    return name


def is_coupled(spec: Any) -> bool:
    """Whether an entry of `axes` is a table of inputs that vary together."""
    return isinstance(spec, Mapping) and not set(spec) & {*_GENERATORS, "num", "round", "design"}


def are_tables(value: Any) -> bool:
    """Whether a value is a list of phases rather than of their names."""
    return isinstance(value, Sequence) and any(isinstance(table, Mapping) for table in value)


def with_phase_tables(scenario: Mapping[str, Any], tables: Any) -> dict[str, Any]:
    """A scenario with separately given phases added. Raises InputError if it already has phases."""
    if PHASE in scenario:
        raise InputError("phases are given, and the scenario has some; give them once")
    return {**scenario, PHASE: tables}


def make_axes(graph: Graph, specs: Mapping[str, Any]) -> dict[str, Axis]:
    """Read the entries of `axes`; refuse them if they have too many values in total."""
    axes: dict[str, Axis] = {}
    total = 0
    if len(specs) > MOST_AXES:
        raise InputError(
            f"{len(specs)} axes are more than the {MOST_AXES} that an array can have here; give "
            "inputs with one value in the scenario, or several that move together as one axis"
        )
    for name, spec in specs.items():
        axes[name] = make_axis(graph, name, spec)
        if isinstance(spec, Mapping):  # arrays are in memory already
            total += axes[name].size * max(1, len(axes[name].inputs))
        if total > LONGEST:
            raise InputError(
                f"the axes up to {name!r} hold {total:,} values; "
                f"at most {LONGEST:,} are generated: give fewer"
            )
    return axes


def coupled_axis(graph: Graph, name: str, labels: Array, inputs: Mapping[str, Any]) -> Axis:
    """An axis of several inputs with its own coordinate."""
    rows = _rows(graph, name, inputs)
    size = len(next(iter(rows.values())))
    check_length(name, size, MOST_GIVEN)
    if len(labels) != size:
        raise InputError(f"axis {name!r} has {len(labels)} labels for {size} points")
    if labels.dtype.kind not in "iufU":
        labels = labels.astype(str)
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise InputError(f"axis {name!r} has a coordinate that is not a number; fix it")
    _check_distinct(name, labels)
    return _together(graph, name, labels, rows)


def _points(graph: Graph, name: str, spec: Any) -> list[Any] | Array:
    """The values of an axis, generated if the spec has a rule for them."""
    if isinstance(spec, Mapping):
        return _generate(graph, name, spec)
    if isinstance(spec, np.ndarray):
        if np.ma.isMaskedArray(spec):
            raise InputError(f"axis {name!r} is a masked array; give its valid values")
        if spec.ndim != 1:
            raise InputError(f"axis {name!r} has {spec.ndim} dimensions; give a 1-D array")
        return spec if spec.dtype.kind in "iuf" else list(spec)
    if isinstance(spec, str | bytes) or not isinstance(spec, Sequence):
        value = shown(spec)
        raise InputError(f"axis {name!r} = {value} is not a list; write [{value}, ...]")
    return list(spec)


def _generate(graph: Graph, name: str, spec: Mapping[str, Any]) -> list[Any] | Array:
    chosen = [key for key in _GENERATORS if key in spec]
    unknown = set(spec) - {*_GENERATORS, "num", "round"}
    if len(chosen) != 1 or unknown:
        extra = f"unknown key {min(unknown)!r}; " if unknown else ""
        raise InputError(
            f"axis {name!r}: {extra}give exactly one of {', '.join(_GENERATORS)}, "
            "with num for linspace and geomspace and round if wanted"
        )
    kind = chosen[0]
    if values.is_option(graph, name) or name in graph.roles.labels:
        if kind != "values":
            raise InputError(f"axis {name!r} takes named values; write {name} = [...]")
        return _points(graph, name, spec["values"])
    ends = spec[kind]
    if not isinstance(ends, Sequence) or isinstance(ends, str):
        raise InputError(f"axis {name!r}: {kind} = {ends!r} is not a list")
    if kind == "values":
        points = np.array([values.number(graph, name, value) for value in ends])
    else:
        points = _space(name, kind, [values.number(graph, name, end) for end in ends], spec)
    if not isinstance(spec.get("round", False), bool):
        raise InputError(f"axis {name!r}: round = {spec['round']!r} is not true or false")
    if spec.get("round", False):
        points = np.rint(points)
        points = points[np.sort(np.unique(points, return_index=True)[1])]
    return points


def _space(name: str, kind: str, ends: list[float], spec: Mapping[str, Any]) -> Array:
    if kind == "arange":
        if len(ends) not in (2, 3) or "num" in spec:
            raise InputError(f"axis {name!r}: arange takes [start, stop] or [start, stop, step]")
        start, stop, step = (*ends, 1.0)[:3]
        if not all(map(math.isfinite, ends)):
            raise InputError(f"axis {name!r}: arange = {ends} is not finite; give finite ends")
        if step <= 0:
            raise InputError(f"axis {name!r}: arange has step {step:g}; give a step above 0")
        count = math.ceil(min(max((stop - start) / step, 0.0), 1e18))
        check_length(name, count)
        return start + step * np.arange(count)
    number = spec.get("num")
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"axis {name!r}: {kind} needs num, a whole number above 0")
    check_length(name, number)
    if len(ends) != 2:
        raise InputError(f"axis {name!r}: {kind} takes [first, last]")
    if not all(map(math.isfinite, ends)):
        raise InputError(f"axis {name!r}: {kind} = {ends} is not finite; give finite ends")
    if kind == "geomspace":
        if min(ends) <= 0:
            raise InputError(f"axis {name!r}: geomspace starts or ends at 0; use linspace")
        return _geomspace(ends[0], ends[1], number)
    return np.linspace(ends[0], ends[1], number)


def _geomspace(first: float, last: float, number: int) -> Array:
    """Geometric points, each rounded once: by decimal numbers, the same on every machine."""
    with localcontext(Context(prec=40)):
        ratio = (Decimal(last) / Decimal(first)) ** (1 / Decimal(max(number - 1, 1)))
        points = accumulate(repeat(ratio, number - 1), operator.mul, initial=Decimal(first))
        return np.array([float(point) for point in points])


def _single(graph: Graph, name: str, points: list[Any] | Array) -> Axis:
    """An axis of one input, option or kind of labels."""
    if len(points) == 0:
        raise InputError(f"axis {name!r} is empty; give at least one value")
    is_label, is_option = name in graph.roles.labels, values.is_option(graph, name)
    if is_label or is_option:
        check_length(name, len(points), MOST_SPELLED)
    if is_label:
        _check_distinct(name, application(graph).record_names(name, points))
        labels = tuple(points)  # as written: with or without an edition
        return Axis(name, np.array(labels), records={name: labels})
    if graph.application and (spelled := application(graph).spelled_axis(graph, name, points)):
        _check_distinct(name, spelled.distinct)
        return _together(graph, name, spelled.labels, spelled.rows)
    if is_option:
        choices = tuple(values.option(graph, name, point) for point in points)
        _check_distinct(name, choices)
        return Axis(name, values.choice_labels(graph, name, choices), options={name: choices})
    check_length(name, len(points), MOST_GIVEN)
    numbers = _numbers(graph, name, points)
    _check_distinct(name, numbers)
    return Axis(name, numbers, numbers={name: numbers})


def _numbers(graph: Graph, name: str, points: list[Any] | Array) -> Array:
    """Values of an input in its base unit."""
    if not isinstance(points, np.ndarray):
        return np.array([values.number(graph, name, point) for point in points])
    numbers = points.astype(np.float64)
    for extreme in (numbers.min(), numbers.max()) if numbers.size else ():
        values.number(graph, name, float(extreme))  # NaN is an extreme, too, and is refused
    return numbers


def _check_distinct(name: str, points: Any) -> None:
    if len(same := _repeated(points)):
        raise InputError(f"axis {name!r} holds {same[0]} twice; remove the duplicate")


def _repeated(points: Any) -> Sequence[Any] | Array:
    """Some points that occur more than once."""
    if isinstance(points, np.ndarray):
        ordered = np.sort(points)
        repeated: Array = ordered[1:][ordered[1:] == ordered[:-1]]
        return repeated
    return [point for point, count in Counter(points).items() if count > 1][:1]


def _coupled(graph: Graph, name: str, spec: Mapping[str, Any]) -> Axis:
    """An axis of several inputs, with points named by their values or by `labels`."""
    labels = spec.get("labels")
    rows = _rows(graph, name, {key: entry for key, entry in spec.items() if key != "labels"})
    size = len(next(iter(rows.values())))
    check_length(name, size, MOST_SPELLED)
    if labels is None:
        texts = [" ".join(map(_text, point)) for point in zip(*rows.values(), strict=True)]
    else:
        texts = _labels(name, labels, size)
    if same := _repeated(texts):
        raise InputError(f"axis {name!r} holds ({same[0]}) twice; remove the duplicate")
    return _together(graph, name, np.array(texts), rows)


def _rows(graph: Graph, name: str, spec: Mapping[str, Any]) -> dict[str, list[Any] | Array]:
    """The points of inputs that vary together, the same number of each."""
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"axis {name!r} is not a name; use letters, digits and underscores")
    if values.is_known(graph, name):
        raise InputError(
            f"axis {name!r} has the name of an input but is a table of "
            f"{', '.join(map(str, spec)) or 'nothing'}; give a list, one of "
            f"{', '.join(_GENERATORS)}, or give the coupled axis another name"
        )
    if not spec:
        raise InputError(f"axis {name!r} is empty; give lists of inputs that move together")
    unknown = [key for key in spec if not values.is_known(graph, key)]
    if unknown:
        hint = nearest(unknown[0], [*values.known_names(graph), *_GENERATORS])
        raise InputError(f"axis {name!r}: {unknown[0]!r} is not an input; {hint}")
    rows = {_check_swept(graph, key): _points(graph, key, entry) for key, entry in spec.items()}
    sizes = {key: len(row) for key, row in rows.items()}
    if len(set(sizes.values())) != 1:
        lengths = ", ".join(f"{key} has {size}" for key, size in sizes.items())
        raise InputError(
            f"axis {name!r}: inputs that move together need equal lengths, but {lengths}"
        )
    if not min(sizes.values()):
        raise InputError(f"axis {name!r} is empty; give at least one value")
    return rows


def _together(
    graph: Graph, name: str, labels: Array, rows: Mapping[str, list[Any] | Array]
) -> Axis:
    """An axis along which inputs vary together."""
    numbers: dict[str, Array] = {}
    options: dict[str, tuple[Any, ...]] = {}
    records: dict[str, tuple[str, ...]] = {}
    if graph.application:
        rows = application(graph).spelled_rows(graph, rows)
    for key, row in rows.items():
        if key in graph.roles.labels:
            application(graph).record_names(key, row)
            records[key] = tuple(row)
        elif values.is_option(graph, key):
            options[key] = tuple(values.option(graph, key, point) for point in row)
        else:
            numbers[key] = _numbers(graph, key, row)
    return Axis(name, labels, numbers, options, records)


def _labels(name: str, labels: Any, size: int) -> list[str]:
    if not isinstance(labels, Sequence) or isinstance(labels, str):
        raise InputError(f"axis {name!r}: labels = {labels!r} is not a list of texts")
    if len(labels) != size:
        raise InputError(f"axis {name!r} has {len(labels)} labels for {size} points; give one each")
    for label in labels:
        if not (isinstance(label, str) and label and label.isprintable()):
            raise InputError(
                f"axis {name!r}: the label {label!r} is not a text of printable characters; "
                "give it another name"
            )
    return list(labels)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, int | float | np.number) else str(value)
