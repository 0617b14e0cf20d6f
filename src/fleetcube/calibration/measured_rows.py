"""Measured rows in the documented format: inputs by their public names, and measured values.

A CSV has a column for each input and each measured output, or `of` and `measured`; JSON is the same
as a list of objects, optionally with `inputs` and `measured` as nested objects.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.grid.spec import values
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import COUNTS, RUN_STEPS, STEPS

from . import csv_columns
from .row import Reading

LONGEST = 2000  # characters of a text
MESSAGES = ("message_bytes", "ranks", "nodes")
_TEXTS = (*("id", "group", "source", "where", "status", "printed", "note", "notes", "left_out"),)
# Names of all-reduces, which are not inputs of a job -> the input with the same bounds
_LIKE = {"message_bytes": "bucket_message", "ranks": "n_gpus", "nodes": "n_gpus"}
_ALL_REDUCE, _PER_GPU = "all_reduce_time", "tokens_per_second_per_gpu"
# Of a layout: stated by a run, not measured
_LAID_OUT = {*COUNTS, *RUN_STEPS.values(), *(steps for _, steps in STEPS.values())}
_LIKE |= {_ALL_REDUCE: "step_time", _PER_GPU: "tokens_per_second"}


def is_table(text: str) -> bool:
    """Whether a CSV has a column of measured values."""
    return any(
        name == "of" or _is_output(name)
        for name, _ in map(csv_columns.named, csv_columns.headings_of(text))
    )


def _is_output(name: str) -> bool:
    if name in (*MESSAGES, *_LAID_OUT):
        return False
    return name in (_ALL_REDUCE, _PER_GPU) or (
        name in PHYSICS.quantities and PHYSICS.quantities[name].unit != "flag"
    )


def from_csv(path: str, text: str) -> list[Any]:
    """The rows of a CSV as records, unchecked; empty cells are left out."""
    rows = csv_columns.rows_of(path, text)
    columns = [
        (name or heading, unit)
        for heading in rows[0]
        for name, unit in [csv_columns.named(heading)]
    ]
    csv_columns.check_once([name for name, _ in columns if name.strip()])
    return [_entry(columns, row) for row in rows[1:]]


def _entry(columns: Sequence[tuple[str, str]], row: Sequence[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    for k in range(max(len(columns), len(row))):
        name, unit = columns[k] if k < len(columns) else ("", "")
        cell = row[k].strip() if k < len(row) else ""
        if cell:
            entry[name] = cell if name in _TEXTS else csv_columns.written(name, unit, cell)
        elif name == "of" or _is_output(name):
            entry[name] = None  # still a row of this format
    return entry


def readings(entry: Any) -> tuple[list[Reading], list[str]]:
    """Readings of a record, and problems with the rest, or why it is left out. Raises InputError or
    CatalogError if nothing can be read."""
    if not isinstance(entry, Mapping):
        raise InputError(f"{shown(entry)} is not a record; write an object of inputs")
    if isinstance(reason := entry.get("left_out"), str):
        return [], [reason]
    stated, measured = _parts(entry)
    if len(stated) + len(measured) > csv_columns.MOST_COLUMNS:
        raise InputError(f"it has more than {csv_columns.MOST_COLUMNS:,} values; give fewer")
    inputs = {}
    for name, value in stated.items():
        if not str(name).strip():
            raise InputError(f"{shown(value)} has no heading; name its column, or remove it")
        of_a_job = name not in MESSAGES or [*measured] != [_ALL_REDUCE]
        if of_a_job and (refusal := _refusal(name)):
            raise InputError(refusal)
        if name in measured:
            raise InputError(f"{name} is both given and measured; remove one")
        inputs[name] = _value(name, value)
    note = entry.get("note", entry.get("notes"))
    texts = note if isinstance(note, list) else [note]
    notes = tuple(text for text in texts if isinstance(text, str) and 0 < len(text) <= LONGEST)
    if not measured:
        raise InputError("nothing in it is measured; name an output, such as step_time")
    rows, reasons = [], []
    for output, value in measured.items():
        try:
            rows.append(_reading(inputs, output, value, notes))
        except InputError as error:
            reasons.append(str(error))
    return rows, reasons


@lru_cache(maxsize=csv_columns.MOST_COLUMNS)  # such a column recurs in each of many rows
def _refusal(name: str) -> str:
    try:
        values.check_name(PHYSICS, name)
    except InputError as error:
        return str(error)
    return ""


def _parts(entry: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and measured values of a record, as written."""
    inputs, measured, output = (entry.get(key) for key in ("inputs", "measured", "of"))
    flat = {k: v for k, v in entry.items() if k not in (*_TEXTS, "of", "inputs", "measured")}
    if "of" in entry:
        if not isinstance(output, str):
            raise InputError(f"of = {shown(output)} names no output; write one, such as step_time")
        outputs = {output: measured}
    elif isinstance(measured, Mapping):
        outputs = dict(measured)
    else:
        outputs = {name: flat.pop(name) for name in [*flat] if _is_output(name)}
        if measured is not None:
            raise InputError(f"measured = {shown(measured)} is of no output; name it in of")
    if inputs is not None and not isinstance(inputs, Mapping):
        raise InputError(f"inputs = {shown(inputs)} is not an object of inputs; write one")
    inputs = inputs or {}
    csv_columns.check_once([*flat, *inputs])
    stated = {name: value for name, value in {**flat, **inputs}.items() if value is not None}
    return stated, {name: value for name, value in outputs.items() if value is not None or output}


def _reading(inputs: Mapping[str, Any], name: str, value: Any, notes: tuple[str, ...]) -> Reading:
    if not _is_output(name):
        raise InputError(
            f"of = {shown(name)} is not a measured quantity; {nearest(name, PHYSICS.quantities)}"
        )
    if value is None:
        raise InputError(f"measured has no value of {name}; give one")
    measured: float = _value(name, value)
    if name == _PER_GPU:
        if "n_gpus" not in inputs:
            raise InputError(f"{name} is compared by that of all GPUs; state n_gpus")
        measured, name = (
            measured * values.number(PHYSICS, "n_gpus", inputs["n_gpus"]),
            "tokens_per_second",
        )
    csv_columns.check_measured(name, measured)
    return Reading(inputs, name, measured, notes)


def _value(name: str, value: Any) -> Any:
    like = _LIKE.get(name, name)
    try:
        return csv_columns.checked(like, value)
    except InputError as error:
        raise InputError(str(error).replace(like, name)) from None
