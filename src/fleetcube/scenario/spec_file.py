"""Read a spec: a TOML file of outputs, a scenario and axes."""

import re
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any

from fleetcube.catalog.files import parse_toml
from fleetcube.grid.errors import InputError, nearest
from fleetcube.grid.spec.axes import with_phase_tables
from fleetcube.scenario import dates, phases
from fleetcube.scenario.user_records import add_user_records, located

from .bounded import read_bytes

LARGEST = 1 << 24  # bytes of a spec
_TABLES = re.compile(r"^ *(outputs *= *\[|\[ *(scenario|axes) *[\].]|\[\[ *phase *]])", re.M)


def read_spec(path: str | PathLike[str]) -> dict[str, Any]:
    """The tables of a TOML spec, empty if missing. Raises InputError."""
    return tables_of(text_of(path), path)


def has_tables(text: str) -> bool:
    """Whether a text has tables of a spec."""
    return _TABLES.search(text) is not None


def text_of(path: str | PathLike[str]) -> str:
    """The text of a file that may be a spec, which may be a pipe: read once. Raises InputError."""
    data = read_bytes(Path(path), LARGEST, "a TOML file", "give axes by their ends")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"cannot read {str(path)!r}: it is not UTF-8 text; give a spec, or a framework's file"
        ) from None


def tables_of(text: str, path: str | PathLike[str]) -> dict[str, Any]:
    """The tables of a spec's text. Raises InputError."""
    try:
        spec = parse_toml(text)
    except ValueError as error:
        raise InputError(f"{str(path)!r} is not TOML: {error}; fix that line") from None
    keys = ("outputs", "scenario", "axes", phases.NAME)
    for key in spec:
        if key not in keys:
            hint = nearest(key, keys, f"it may hold {', '.join(keys)}")
            raise InputError(f"{str(path)!r}: unknown table {key[:40]!r}; {hint}")
    parts: dict[str, Any] = {"outputs": [], "scenario": {}, "axes": {}}
    parts |= located(spec, Path(path).parent)
    tables = parts.pop(phases.NAME, None)
    if tables is not None and isinstance(parts["scenario"], dict):
        parts["scenario"] = with_phase_tables(parts["scenario"], tables)
    if isinstance(parts["scenario"], dict):
        parts["scenario"] |= {
            key: value.isoformat()  # a TOML date as text, for results
            for key, value in parts["scenario"].items()
            if key == dates.NAME and isinstance(value, date)
        }
        if isinstance(parts["axes"], dict):
            parts["scenario"], parts["axes"] = add_user_records(parts["scenario"], parts["axes"])
    return parts
