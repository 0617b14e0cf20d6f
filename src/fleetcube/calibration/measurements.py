"""Measurements as inputs and measured values, and why some cannot be predicted."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fleetcube.catalog import CatalogError
from fleetcube.grid.errors import InputError
from fleetcube.scenario.bounded import read_bytes

from . import measured_rows
from .row import LeftOut, Row

LARGEST = 1 << 26  # bytes of a file
MOST = 100_000  # records


def published_tables() -> list[Path]:
    """The files of the project's own table: one for each published source."""
    from fleetcube import catalog

    return sorted((Path(catalog.__path__[0]) / "data" / "measured").glob("*.csv"))


def read_records(
    path: str | Path | Sequence[str | Path] | None = None,
) -> tuple[list[Row], list[LeftOut]]:
    """Rows and left-out records of files, or of the published tables.

    A file is a JSON list of records or a CSV that name inputs and measured outputs. Every record
    yields rows or is left out with a reason. Raises InputError for other files.
    """
    paths = [path] if isinstance(path, str | Path) else path
    rows: list[Row] = []
    left_out: list[LeftOut] = []
    ids: set[tuple[str, str]] = set()
    for file in published_tables() if paths is None else paths:
        for place, record in enumerate(read_file(file), 1):
            name, group, source, where = (
                _short_text(record, key) for key in ("id", "group", "source", "where")
            )
            name, group = (
                name or f"{file}:{place}"[-measured_rows.LONGEST :],
                group or Path(file).stem,
            )
            try:
                readings, reasons = measured_rows.readings(record)
            except (InputError, CatalogError) as error:
                readings, reasons = [], [str(error)]
            for reading in readings:
                if (name, reading.of) in ids:
                    reasons = [*reasons, f"{reading.of}: its id appears twice"]
                    continue
                ids.add((name, reading.of))
                rows.append(Row(name, group, source, *reading, where=where))
            left_out += [LeftOut(name, group, reason) for reason in reasons]
    return rows, left_out


def read_file(path: str | Path) -> list[Any]:
    """The records of a file, unchecked. Raises InputError for other files."""
    name = str(path)
    content = read_bytes(path, LARGEST, "records", "give fewer records")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name!r} is not UTF-8 text; give JSON or CSV") from None
    if text.lstrip()[:1] in ("[", "{"):
        records = _from_json(name, text)
    elif measured_rows.is_table(text):
        records = measured_rows.from_csv(name, text)
    else:
        raise InputError(
            f"{name!r} is not a table of records; name what was measured: a column step_time, or of"
        )
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


def _short_text(record: Any, key: str) -> str:
    """A text of a record; "" if it has none."""
    value = record.get(key) if isinstance(record, Mapping) else None
    return value if isinstance(value, str) and len(value) <= measured_rows.LONGEST else ""
