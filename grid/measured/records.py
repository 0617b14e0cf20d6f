"""Measurements as inputs and measured values, and why some cannot be predicted."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...catalog import KINDS, NONE, CatalogError, record
from ..errors import InputError, shown
from ..spec import patterns, values
from . import own
from .published import collectives, runs, training
from .published.calibration import calibration_for, in_catalog
from .published.facts import LONGEST, Facts, Reading, UnreadableError
from .published.memory import memory_rows
from .published.tables import own_tables, read_file
from .row import LeftOut, Row

_STEPS = {**training.READERS, **runs.READERS}
# Groups of records without an output at known inputs
_NOT_PREDICTED: Mapping[str, str] = {
    "korthikanti_fig1_memory": "model.name has no known layout",
    "korthikanti_fig7_memory": "model.name has no known layout",
    "llama3_table5": "counts of causes are inputs (reliability = llama-3-405b-components)",
    "llama3_reliability": "its count of failures is an input (reliability = llama-3-405b-run)",
    "megascale_ops": "its figures are bounds (above 90 %, below 15 min), or not outputs",
    "reliability_other": "times to failure are inputs (gpu_mttf); of the ETTR, an upper end, the "
    "time lost at an incident is not published",
}


def read_records(
    path: str | Path | Sequence[str | Path] | None = None,
    calibrated: Callable[[str], bool] = in_catalog,
) -> tuple[list[Row], list[LeftOut]]:
    """Rows and left-out records of files, or of the project's own tables.

    A file is a JSON list of records, a CSV, or vTrain's table of one node; a record states inputs
    and measured values by their public names, or in the keys of a published table. Every record
    yields rows or is left out with a reason. Raises InputError for other files.
    """
    paths = [path] if isinstance(path, str | Path) else path
    files = own_tables() if paths is None else paths
    rows: list[Row] = []
    left_out: list[LeftOut] = []
    taken: set[tuple[str, str]] = set()
    records = [
        (file, place, entry) for file in files for place, entry in enumerate(read_file(file), 1)
    ]
    for number, (file, place, entry) in enumerate(records):
        name, group = _named(entry)
        try:
            if own.is_own(entry):
                name, group = name or f"{file}:{place}"[-LONGEST:], group or Path(file).stem
                own_rows, reasons = _stated(entry, name, group, taken)
            else:
                name = name or f"record {number}"
                if (name, "") in taken:
                    raise UnreadableError("its id appears twice")
                taken.add((name, ""))
                own_rows, reasons = _rows(entry, name, group, calibrated)
        except (UnreadableError, InputError, CatalogError) as error:
            own_rows, reasons = [], [str(error)]
        rows += own_rows
        left_out += [LeftOut(name, group, reason) for reason in reasons]
    return rows, left_out


def _stated(
    entry: Mapping[str, Any], name: str, group: str, taken: set[tuple[str, str]]
) -> tuple[list[Row], list[str]]:
    """The rows of a record by public names, one for each output, and why others have none."""
    readings, reasons = own.readings(entry)
    twice = [r.of for r in readings if (name, r.of) in taken]
    taken |= {(name, reading.of) for reading in readings}
    source = _source(entry)
    rows = [
        Row(name, group, source, reading.inputs, reading.of, reading.measured, reading.notes)
        for reading in readings
        if reading.of not in twice
    ]
    return rows, [*reasons, *(f"{of}: its id appears twice" for of in twice)]


def _source(entry: Mapping[str, Any]) -> str:
    source = entry.get("source")
    return source if isinstance(source, str) else ""


def _named(entry: Any) -> tuple[str, str]:
    """Id and group of a record, "" if missing."""
    fields = entry if isinstance(entry, Mapping) else {}
    names = [fields.get("id"), fields.get("group")]
    name, group = (x if isinstance(x, str) and 0 < len(x) <= LONGEST else None for x in names)
    return name or "", group or ""


def _rows(
    entry: Any, name: str, group: str, calibrated: Callable[[str], bool]
) -> tuple[list[Row], list[str]]:
    """The rows of a record, and why parts of it have none."""
    if not isinstance(entry, Mapping):
        raise UnreadableError(f"{shown(entry)} is not a record")
    if not group:
        raise UnreadableError(f"group = {shown(entry.get('group'))} is not a name")
    readings: list[Reading] = []
    reasons: list[str] = []
    try:
        readings += _readings(entry, group, calibrated)
    except (UnreadableError, InputError, CatalogError) as error:
        reasons.append(str(error))
    for reading in _memory(entry, readings[0].inputs if readings else {}):
        try:
            _check(reading)
            readings.append(reading)
        except (UnreadableError, InputError, CatalogError) as error:
            reasons.append(f"{reading.of}: {error}")
    if readings and group in _NOT_PREDICTED:
        reasons = reasons[1:]  # only its memory was measured
    several = {r.of for r in readings if sum(other.of == r.of for other in readings) > 1}
    rows = [
        Row(
            f"{name}:{reading.variant}" if reading.of in several else name,
            reading.group or group,
            _source(entry),
            reading.inputs,
            reading.of,
            float(reading.measured),
            reading.notes,
            str(entry.get("where") or ""),
        )
        for reading in readings
    ]
    return rows, reasons


def _readings(
    entry: Mapping[str, Any], group: str, calibrated: Callable[[str], bool]
) -> list[Reading]:
    """A record's measured values, with inputs that resolve."""
    if group in _STEPS:
        readings = _STEPS[group](Facts(entry))
        labels = [calibration_for(entry, reading.inputs, calibrated) for reading in readings]
        readings = [
            replace(r, inputs={**r.inputs, "calibration": label or NONE})
            for r, label in zip(readings, labels, strict=True)
        ]
    elif group in collectives.READERS:
        readings = collectives.READERS[group](Facts(entry))
    elif group in _NOT_PREDICTED:
        raise UnreadableError(_NOT_PREDICTED[group])
    else:
        raise UnreadableError(
            f"nothing in it is measured by the name of an output, and group = {shown(group)} "
            "has no reader"
        )
    for reading in readings:
        _check(reading)
    return readings


def _check(reading: Reading) -> None:
    """Raise if a name is not an input, a value is out of bounds, or nothing was measured."""
    if not 0 < reading.measured < math.inf:
        raise UnreadableError(f"{reading.of} = {reading.measured:g} is not finite and above 0")
    for name, value in reading.inputs.items():
        if name in own.MESSAGES and reading.of == "all_reduce_time":
            continue
        values.check_name(name)
        if name == "calibration":  # known to exist, though possibly not in the catalog
            continue
        if name in KINDS:
            record(name, value)
        elif values.is_option(name):
            patterns.choice(name, value)
        else:
            values.number(name, value)


def _memory(entry: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Reading]:
    return [
        Reading(at, measured, of, variant=f"memory {number}")
        for number, (at, of, measured) in enumerate(memory_rows(entry, inputs))
    ]
