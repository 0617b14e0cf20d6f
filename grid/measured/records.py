"""Published measurements as public inputs: what can be predicted, and why the rest cannot."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...catalog import KINDS, CatalogError, record
from ..errors import InputError, shown
from ..spec import values
from .published import collectives as record_collectives
from .published import training as record_training
from .published.calibration import calibration_for, in_catalog
from .published.facts import LONGEST, Facts, Reading, UnreadableError
from .published.memory import memory_rows
from .published.tables import own_tables, read_file

# Groups of records that state no output at stated inputs.
_NOT_PREDICTED: Mapping[str, str] = {
    "sc21_misc": "its figures are not outputs at stated inputs",
    "korthikanti_table4": "times of one layer's passes with their communication are not an output",
    "korthikanti_fig1_memory": "model.name has no known layout",
    "korthikanti_fig7_memory": "model.name has no known layout",
    "llama3_table5": "shares of causes of failures are inputs",
    "llama3_reliability": "its count of failures is an input (reliability = llama-3-405b-run)",
    "training_cost": "layout and batch are not in the record",
    "megascale_fig9": "layout and batch are not in the record",
    "megascale_ops": "its figures are bounds, or not outputs",
    "palm_table3": "layout and batch are not in the record",
    "palm_540b": "recomputation and the network between the pods are not in the record",
    "opt_175b": "layout and batch are not in the record",
    "deepseek_v3": "layout and batch are not in the record",
    "reliability_other": "its figures are inputs, or their inputs are not in the record",
    "maxtext_tpu": "shape, layout and batch are not in the record",
}
_ONLY_OF_MESSAGES = ("message_bytes", "ranks", "nodes")


@dataclass(frozen=True)
class Row:
    """One measured value, and the inputs at which it is predicted.

    `inputs` are names that a scenario may set; those of an `all_reduce_time` [s] are
    `message_bytes` [B], `ranks`, `nodes` and a calibration or bandwidths. `measured` is in the base
    unit of `of`. `notes` say what the record does not, and what was taken instead. Several rows of
    one record with the same `of` have a suffix to its id, as in "group/001:full".
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
    """A record without a row, or a part of one, and why."""

    id: str
    group: str
    reason: str


def read_records(
    path: str | Path | None = None, calibrated: Callable[[str], bool] = in_catalog
) -> tuple[list[Row], list[LeftOut]]:
    """Rows and left-out records of a file; of the project's own tables without one.

    A file is a JSON list of records, a CSV with a column for each dotted key, or vTrain's table of
    one node. Every record gives rows or is left out with a reason; `calibrated` says which labels
    of calibrations there are. Raises InputError for a file of another kind or size.
    """
    files = own_tables() if path is None else [path]
    rows: list[Row] = []
    left_out: list[LeftOut] = []
    taken: set[str] = set()
    for number, held in enumerate(held for file in files for held in read_file(file)):
        name, group = _named(held, number)
        try:
            if name in taken:
                raise UnreadableError("its id stands twice")
            taken.add(name)
            found, reasons = _rows(held, name, group, calibrated)
        except UnreadableError as error:
            found, reasons = [], [str(error)]
        rows += found
        left_out += [LeftOut(name, group, reason) for reason in reasons]
    return rows, left_out


def _named(held: Any, number: int) -> tuple[str, str]:
    """Id and group of a record, or what stands for them."""
    told = held if isinstance(held, Mapping) else {}
    said = [told.get("id"), told.get("group")]
    name, group = (x if isinstance(x, str) and 0 < len(x) <= LONGEST else None for x in said)
    return name or f"record {number}", group or ""


def _rows(
    held: Any, name: str, group: str, calibrated: Callable[[str], bool]
) -> tuple[list[Row], list[str]]:
    """The rows of a record, and why a part of it has none."""
    if not isinstance(held, Mapping):
        raise UnreadableError(f"{shown(held)} is not a record")
    if not group:
        raise UnreadableError(f"group = {shown(held.get('group'))} is not a name")
    found: list[Reading] = []
    reasons: list[str] = []
    try:
        found += _readings(held, group, calibrated)
    except (UnreadableError, InputError, CatalogError) as error:
        reasons.append(str(error))
    for reading in _memory(held, found[0].inputs if found else {}):
        try:
            _check(reading)
            found.append(reading)
        except (UnreadableError, InputError, CatalogError) as error:
            reasons.append(f"{reading.of}: {error}")
    if found and group in _NOT_PREDICTED:
        reasons = reasons[1:]  # its memory is all that it measures
    source = held.get("source")
    several = {r.of for r in found if sum(other.of == r.of for other in found) > 1}
    rows = [
        Row(
            f"{name}:{reading.variant}" if reading.of in several else name,
            group,
            source if isinstance(source, str) else "",
            reading.inputs,
            reading.of,
            reading.measured,
            reading.notes,
        )
        for reading in found
    ]
    return rows, reasons


def _readings(
    held: Mapping[str, Any], group: str, calibrated: Callable[[str], bool]
) -> list[Reading]:
    """What a record measured, with inputs that resolve."""
    if record_training.reads(group):
        found = record_training.readings(Facts(held))
        labels = [calibration_for(held, reading.inputs, calibrated) for reading in found]
        found = [
            Reading({**r.inputs, "calibration": label}, r.measured, r.of, r.notes, r.variant)
            if label
            else r
            for r, label in zip(found, labels, strict=True)
        ]
    elif record_collectives.reads(group):
        found = record_collectives.readings(Facts(held))
    elif group in _NOT_PREDICTED:
        raise UnreadableError(_NOT_PREDICTED[group])
    else:
        raise UnreadableError(f"group = {shown(group)} is not one that is read")
    for reading in found:
        _check(reading)
    return found


def _check(reading: Reading) -> None:
    """Raise where an input is none or out of its bounds, or nothing was measured."""
    if not 0 < reading.measured < math.inf:
        raise UnreadableError(f"{reading.of} = {reading.measured:g} is not finite and above 0")
    for name, value in reading.inputs.items():
        if name in _ONLY_OF_MESSAGES and reading.of == "all_reduce_time":
            continue
        values.check_name(name)
        if name == "calibration":  # one of those said to be there
            continue
        if name in KINDS:
            record(name, value)
        elif values.is_option(name):
            values.option(name, value)
        else:
            values.number(name, value)


def _memory(held: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Reading]:
    """The memory that a record measured."""
    return [
        Reading(at, measured, of, variant=f"memory {number}")
        for number, (at, of, measured) in enumerate(memory_rows(held, inputs))
    ]
