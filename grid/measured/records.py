"""Published measurements as inputs and measured values, and why some cannot be predicted."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...catalog import KINDS, CatalogError, record
from ..errors import InputError, shown
from ..spec import values
from .published import collectives as record_collectives
from .published import runs as record_runs
from .published import training as record_training
from .published.calibration import calibration_for, in_catalog
from .published.facts import LONGEST, Facts, Reading, UnreadableError
from .published.memory import memory_rows
from .published.tables import own_tables, read_file

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
_ONLY_OF_MESSAGES = ("message_bytes", "ranks", "nodes")


@dataclass(frozen=True)
class Row:
    """One measured value, and the inputs at which it is predicted.

    `inputs` are names that a scenario may set; those of an `all_reduce_time` [s] are
    `message_bytes` [B], `ranks`, `nodes` and a calibration or bandwidths. `measured` is in the base
    unit of `of`. `notes` list what the record does not state, and what was assumed. If several rows
    of one record have the same `of`, their ids have a suffix, as in "group/001:full".
    """

    id: str
    group: str
    source: str
    inputs: Mapping[str, Any] = field(hash=False)
    of: str
    measured: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A record, or part of one, that gave no row, and why."""

    id: str
    group: str
    reason: str


def read_records(
    path: str | Path | None = None, calibrated: Callable[[str], bool] = in_catalog
) -> tuple[list[Row], list[LeftOut]]:
    """Rows and left-out records of a file, or of the project's own tables.

    A file is a JSON list of records, a CSV with a column for each dotted key, or vTrain's table of
    one node. Every record gives rows or is left out with a reason; `calibrated` tells which
    calibrations exist. Raises InputError for a file of another kind or size.
    """
    files = own_tables() if path is None else [path]
    rows: list[Row] = []
    left_out: list[LeftOut] = []
    taken: set[str] = set()
    for number, entry in enumerate(entry for file in files for entry in read_file(file)):
        name, group = _named(entry, number)
        try:
            if name in taken:
                raise UnreadableError("its id appears twice")
            taken.add(name)
            own_rows, reasons = _rows(entry, name, group, calibrated)
        except UnreadableError as error:
            own_rows, reasons = [], [str(error)]
        rows += own_rows
        left_out += [LeftOut(name, group, reason) for reason in reasons]
    return rows, left_out


def _named(entry: Any, number: int) -> tuple[str, str]:
    """Id and group of a record, or substitutes for them."""
    fields = entry if isinstance(entry, Mapping) else {}
    names = [fields.get("id"), fields.get("group")]
    name, group = (x if isinstance(x, str) and 0 < len(x) <= LONGEST else None for x in names)
    return name or f"record {number}", group or ""


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
        reasons = reasons[1:]  # its memory is all that it measures
    source = entry.get("source")
    several = {r.of for r in readings if sum(other.of == r.of for other in readings) > 1}
    rows = [
        Row(
            f"{name}:{reading.variant}" if reading.of in several else name,
            reading.group or group,
            source if isinstance(source, str) else "",
            reading.inputs,
            reading.of,
            reading.measured,
            reading.notes,
        )
        for reading in readings
    ]
    return rows, reasons


def _readings(
    entry: Mapping[str, Any], group: str, calibrated: Callable[[str], bool]
) -> list[Reading]:
    """What a record measured, with inputs that resolve."""
    steps = next((room for room in (record_training, record_runs) if room.reads(group)), None)
    if steps is not None:
        readings: list[Reading] = steps.readings(Facts(entry))
        labels = [calibration_for(entry, reading.inputs, calibrated) for reading in readings]
        readings = [
            replace(r, inputs={**r.inputs, "calibration": label}) if label else r
            for r, label in zip(readings, labels, strict=True)
        ]
    elif record_collectives.reads(group):
        readings = record_collectives.readings(Facts(entry))
    elif group in _NOT_PREDICTED:
        raise UnreadableError(_NOT_PREDICTED[group])
    else:
        raise UnreadableError(f"group = {shown(group)} has no reader")
    for reading in readings:
        _check(reading)
    return readings


def _check(reading: Reading) -> None:
    """Raise if a name is no input, a value is out of bounds, or nothing was measured."""
    if not 0 < reading.measured < math.inf:
        raise UnreadableError(f"{reading.of} = {reading.measured:g} is not finite and above 0")
    for name, value in reading.inputs.items():
        if name in _ONLY_OF_MESSAGES and reading.of == "all_reduce_time":
            continue
        values.check_name(name)
        if name == "calibration":  # known to exist, though perhaps not in the catalog
            continue
        if name in KINDS:
            record(name, value)
        elif values.is_option(name):
            values.option(name, value)
        else:
            values.number(name, value)


def _memory(entry: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Reading]:
    """The memory that a record measured."""
    return [
        Reading(at, measured, of, variant=f"memory {number}")
        for number, (at, of, measured) in enumerate(memory_rows(entry, inputs))
    ]
