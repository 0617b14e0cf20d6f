"""Files of measurements as records: JSON, rows by public names, the project's CSV, or vTrain's.

The project's CSV has a column for every dotted key ("model.hidden"); lines "# key = value" before
the heading apply to all rows.
"""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...spec.bounded import read_bytes
from .. import own
from .facts import SECTIONS

LARGEST = 1 << 26  # bytes of a file
MOST = 100_000  # records
MOST_CONSTANTS = 100  # that apply to all of them
_CONSTANT = re.compile(r"#\s*([A-Za-z_][\w.]*)\s*=\s*(.*?)\s*")
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,3})?")
_TEXTS = ("id", "group", "source", "where", "status", "notes")
_VTRAIN = {
    "GPUs": "system.gpus",
    "global batch": "parallel.gbs",
    "micro batch": "parallel.mbs",
    "hidden size": "model.hidden",
    "attention heads": "model.heads",
    "layers": "model.layers",
    "sequence length": "model.seq",
    "tensor parallelism": "parallel.tp",
    "data parallelism": "parallel.dp",
    "pipeline parallelism": "parallel.pp",
    "iteration time (ms)": "measured.iteration_time_ms",
}


def own_tables() -> list[Path]:
    from .... import catalog

    return sorted((Path(catalog.__path__[0]) / "data" / "measured").glob("*.csv"))


def read_file(path: str | Path) -> list[Any]:
    """The records of a file, unchecked. Raises InputError for other files."""
    name = str(path)
    content = read_bytes(path, LARGEST, "records", "give fewer records")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name!r} is not UTF-8 text; give JSON or CSV") from None
    begins = text.lstrip()[:1]
    if begins in ("[", "{"):
        records = _from_json(name, text)
    else:
        records = own.from_csv(name, text) if own.is_table(text) else _from_csv(name, text)
    if len(records) > MOST:
        raise InputError(f"{name!r} has more than {MOST:,} records; give fewer")
    return records


def _from_json(name: str, text: str) -> list[Any]:
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, json.JSONDecodeError) else "it cannot be parsed"
        raise InputError(f"{name!r} is not JSON: {reason}; give a list of records") from None
    if isinstance(records, dict) and isinstance(records.get("records"), list):
        records = records["records"]
    if not isinstance(records, list):
        raise InputError(f"{name!r} is not a list of records; write [{{...}}, ...]")
    return records


def _from_csv(name: str, text: str) -> list[Any]:
    constants: dict[str, str] = {}
    lines = io.StringIO(text.replace("\0", ""), newline=None).read().split("\n")
    start = 0
    while start < len(lines):
        constant = _CONSTANT.fullmatch(lines[start])
        if constant:
            constants[constant[1]] = constant[2]
            if len(constants) > MOST_CONSTANTS:
                raise InputError(
                    f"{name!r} has more than {MOST_CONSTANTS} '# key = value'; drop some"
                )
        elif lines[start].strip():
            break
        start += 1
    try:
        rows = [row for row in csv.reader(lines[start:]) if any(map(str.strip, row))]
    except csv.Error as error:
        raise InputError(f"{name!r} is not CSV: {error}; fix that line") from None
    heading = [cell.strip() for cell in rows[0]] if rows else []
    plain = [cell.lstrip("# ") for cell in heading]
    if set(_VTRAIN) <= set(plain):
        constants |= {
            "group": "vtrain_single",
            "source": "vTrain (MICRO24) data/ground_truth_single.csv",
        }
        heading = [_VTRAIN.get(cell, "") for cell in plain]
    elif "group" not in {*heading, *constants}:
        raise InputError(
            f"{name!r} is not a table of records; name what was measured: a column step_time, or of"
        )
    if len(set(heading) - {""}) < len([cell for cell in heading if cell]):
        raise InputError(f"{name!r} has the same column twice; remove one")
    records: list[Any] = []
    for number, row in enumerate(rows[1:], 2):
        cells = constants | {key: cell for key, cell in zip(heading, row, strict=False) if key}
        cells.setdefault("id", f"{cells.get('group', '')}/line-{number}")
        records.append(_nested(cells))
    return records


def _nested(cells: dict[str, str]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for key, cell in _filled(cells):
        section, _, name = key.partition(".")
        if section in SECTIONS and name:
            record.setdefault(section, {})[name] = _value(cell)
        else:
            record[key] = cell if key in _TEXTS else _value(cell)
    return record


def _filled(cells: dict[str, str]) -> Iterator[tuple[str, str]]:
    for key, cell in cells.items():
        if cell.strip():
            yield key, cell.strip()


def _value(cell: str) -> Any:
    if cell in ("true", "false"):
        return cell == "true"
    return json.loads(cell) if _NUMBER.fullmatch(cell) else cell
