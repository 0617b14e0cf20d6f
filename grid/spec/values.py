"""Check the values of inputs: numbers in SI, strings with a unit, choices of options."""

import datetime
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ...catalog.units import UnitError, carried, converted, factor, parse
from ...kernels.calculus import derivatives
from ...kernels.calculus.phased_formulas import without_phase
from ...kernels.declare import OFF, Input, written
from ...kernels.engines.job import default_threads
from ...kernels.graph.formulas import Graph
from ..errors import InputError, check_count, nearest, shown
from .application import application

DTYPES = ("float64", "float32")
MOST_EXACT = 2**53  # whole numbers below are exact as floats


def known_names(graph: Graph) -> list[str]:
    """Every name that a scenario may set: inputs, quantities and kinds of labels."""
    return [*graph.inputs, *graph.quantities, *graph.roles.labels]


def is_known(graph: Graph, name: Any) -> bool:
    plain = without_phase(name) if isinstance(name, str) else name
    return plain in graph.inputs or graph.get(plain) is not None or plain in graph.roles.labels


def check_name(graph: Graph, name: Any) -> str:
    """The name, if a scenario may set it. Raises InputError."""
    if not isinstance(name, str):
        raise InputError(f"{shown(name)} is not a name; write it as text")
    if name in graph.roles.texts:
        hint = graph.roles.texts[name]
        raise InputError(f"{name} is one text of the scenario; {hint}")
    if not is_known(graph, name):
        raise InputError(f"{shown(name)} is not an input; {nearest(name, known_names(graph))}")
    quantity = graph.get(without_phase(name))
    if quantity is not None and quantity.unit == "flag":
        raise InputError(f"{name!r} is a result and cannot be given; remove it from the scenario")
    return name


def is_option(graph: Graph, name: str) -> bool:
    """Whether an input takes one of a few named choices."""
    plain = without_phase(name)
    return plain in graph.inputs and graph.inputs[plain].kind == "option"


def is_whole(graph: Graph, name: str) -> bool:
    return row_of(graph, name).kind == "count"


def option(graph: Graph, name: str, value: Any) -> Any:
    """The choice as spelled in the table of inputs."""
    name = without_phase(name)
    value = value.item() if isinstance(value, np.generic) else value
    for choice in graph.inputs[name].choices:
        if type(choice) is type(value) and choice == value:
            return choice
        if _is_text(value) and not _is_text(choice) and value.lower() == written(choice):
            return choice  # as spelled in results, commands, and (False) arrays and tables of text
    if graph.inputs[name].means_off(value):
        raise InputError(f"{name} = {shown(value)}: {OFF}")
    choices = ", ".join(map(written, graph.inputs[name].choices))
    hint = "choose one of these"
    if _is_text(value) and (spelling := graph.roles.synonyms.get(name, {}).get(value.lower())):
        hint = f"write {spelling} for {value.lower()}"
    elif _is_text(value):
        hint = nearest(value, filter(_is_text, graph.inputs[name].choices), hint)
    raise InputError(f"{name} = {shown(value)} is not one of {choices}; {hint}")


def choice_labels(graph: Graph, name: str, choices: Sequence[Any]) -> "np.ndarray[Any, Any]":
    """Choices of an option, or labels, as a coordinate: text if any possible choice is a word."""
    plain = without_phase(name)
    worded = plain in graph.roles.labels or any(map(_is_text, graph.inputs[plain].choices))
    return np.array([written(choice) for choice in choices] if worded else choices)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def row_of(graph: Graph, name: str) -> Input:
    """The bounds of an input, or of a given quantity."""
    plain = without_phase(name)
    if plain in (counts := graph.roles.counts):
        return Input(name, "1", None, "", "count", counts[plain], positive=counts[plain] > 0)
    row = Input(name, "1", None, "", positive=plain in graph.roles.positive, may_be_infinite=True)
    if plain in graph.inputs:
        return graph.inputs[plain] if plain == name else replace(graph.inputs[plain], name=name)
    return row


def unit_of(graph: Graph, name: str) -> str:
    return derivatives.unit_of(graph, name)


def is_traced(value: Any) -> bool:
    """Whether JAX traces a value, which is then not yet known."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def without_unit(graph: Graph, name: Any, entry: Any) -> Any:
    """A spec entry in base units; numbers, also in lists, may have units (pint, astropy, unyt)."""
    if entry is None or isinstance(entry, int | float | str):
        return entry
    if name in graph.roles.labels and isinstance(entry, os.PathLike | Mapping):
        entry = application(graph).label_of(name, entry)
        if isinstance(entry, str):
            return entry
    if isinstance(entry, Mapping):
        return {
            key: without_unit(graph, key if is_known(graph, key) else name, part)
            for key, part in entry.items()
        }
    if isinstance(entry, list | tuple):
        return [without_unit(graph, name, part) for part in entry]
    if is_traced(entry):
        raise InputError(
            f"{name or 'a value'} is traced by JAX, and has no value while a sweep is planned; "
            f"trace fleetcube.function(outputs, scenario, [{name!r}], engine = 'jax') instead"
        )
    if isinstance(entry, datetime.timedelta) or (
        getattr(getattr(entry, "dtype", None), "kind", "") == "m" and not hasattr(entry, "dims")
    ):
        return _seconds(graph, name, entry)
    carried_pair = carried(entry)
    if carried_pair is None or not is_known(graph, name):
        return entry
    if name in graph.roles.labels or is_option(graph, name):
        raise InputError(f"{name} = {shown(entry)} has a unit but takes names; give one")
    magnitude, unit = np.asanyarray(carried_pair[0]), carried_pair[1]
    base = unit_of(graph, name)
    remedy = "give a plain number" if base == "1" else f"give it in {base}"
    if magnitude.dtype.kind not in "iuf":
        raise InputError(f"{name} = {shown(entry)} is not a plain number of {unit}; give one")
    try:
        if magnitude.ndim:
            return magnitude * factor(unit, base)
        return converted(magnitude.item(), unit, base)
    except UnitError as error:
        raise InputError(f"{name} = {shown(entry)} {error}; {remedy}") from None


def _seconds(graph: Graph, name: Any, entry: Any) -> Any:
    """Durations of Python, NumPy or pandas in seconds."""
    if not is_known(graph, name) or name in graph.roles.labels or is_option(graph, name):
        return entry
    if (base := unit_of(graph, name)) != "s":
        raise InputError(f"{name} = {shown(entry)} is a duration; give it in {base}")
    if isinstance(entry, datetime.timedelta):
        return entry.total_seconds()
    durations = np.asarray(entry)
    if np.datetime_data(durations.dtype)[0] == "generic":
        raise InputError(f"{name} = {shown(entry)} is a duration without a unit; give one")
    seconds = durations / np.timedelta64(1, "s")  # not by nanoseconds, which end after 292 years
    return seconds if seconds.ndim else seconds.item()


def owned(entry: Any) -> Any:
    """A spec entry with copied arrays, independent of later changes by the caller."""
    if isinstance(entry, Mapping):
        return {key: owned(part) for key, part in entry.items()}
    return entry.copy() if isinstance(entry, np.ndarray) else entry


def number(graph: Graph, name: str, value: Any) -> float:
    """The value in the base unit, checked against the input's bounds."""
    value = without_unit(graph, name, value)
    if isinstance(value, str):
        if value.rstrip().endswith("%") and row_of(graph, name).kind == "count":
            raise InputError(f"{name} = {shown(value)} is a share, not a count; give a number")
        try:
            result = parse(value, unit_of(graph, name), name, _example(graph, name))
        except UnitError as error:
            raise InputError(str(error)) from None
    elif isinstance(value, bool | np.bool_ | np.timedelta64 | np.complexfloating) or not isinstance(
        value, int | float | np.number
    ):
        unit = unit_of(graph, name)
        kind = "a plain number" if unit == "1" else f"a number in {unit} or text with a unit"
        raise InputError(f"{name} = {shown(value)} is not {kind}; write one")
    else:
        try:
            result = float(value)
        except (OverflowError, TypeError, ValueError):
            raise InputError(
                f"{name} = {shown(value)} is not a floating-point number; give a smaller one"
            ) from None
    _check_bounds(graph, name, value, result)
    return result


def _example(graph: Graph, name: str) -> str:
    """An example value for a plain number, its default; other units are self-explanatory."""
    row = graph.inputs.get(name)
    if row is None or row.unit != "1":
        return ""
    low = "0.1" if row.high == 1 else "8" if row.kind == "count" else ""
    return f"{row.default:,.12g}" if row.default else low


def _check_bounds(graph: Graph, name: str, written: Any, value: float) -> None:
    row = row_of(graph, name)
    if math.isnan(value) or (math.isinf(value) and not row.may_be_infinite):
        raise InputError(f"{name} = {shown(written)} is not finite; give a finite number")
    if row.positive and value <= 0:
        raise InputError(f"{name} = {shown(written)} must be greater than 0; give a positive value")
    if value < row.low:
        raise InputError(
            f"{name} = {shown(written)} must be at least {row.low:g}; give a larger value"
        )
    if value > row.high:
        raise InputError(
            f"{name} = {shown(written)} must be at most {row.high:g}; give a smaller value"
        )
    if row.kind == "count" and MOST_EXACT <= value < math.inf:
        raise InputError(
            f"{name} = {shown(written)} must be below 2^53, from where on floating point has not "
            "every whole number; give a smaller value"
        )


DType = Literal["float64", "float32"]


def check_dtype(dtype: Any) -> str:
    if str(dtype) not in DTYPES:
        raise InputError(f"dtype = {dtype!r} is unknown; choose one of {', '.join(DTYPES)}")
    return str(dtype)


def check_threads(threads: int | None) -> int:
    return default_threads() if threads is None else check_count("threads", threads)
