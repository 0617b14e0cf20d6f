"""Cells of a CSV whose columns are inputs and measured outputs, with their units."""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from fleetcube.catalog import KINDS, record
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec import values
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.scenario import patterns
from fleetcube.text import unguarded

MOST_ROWS = 100_000
MOST_COLUMNS = 1_000
_HEADING = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:[\[(]\s*([^\])]*?)\s*[\])])?\s*")
_NUMBER = re.compile(r"^\s*[+-]?([\d.,]*\d)(?![\d.,-])")  # at the beginning of a cell
_PLAIN = re.compile(r"[+-]?(\d+(_\d+)*\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SHARES = ("share of", "useful time over wall time")  # prefixes of the docstring of a share


def rows_of(path: str, text: str) -> list[list[str]]:
    """Heading and rows of a CSV, without empty lines and comments (#). Raises InputError. With
    semicolons between columns a comma is a decimal point."""
    mark = _mark(_first_line(text))
    text = text.replace("\0", "")
    lines = csv.reader(io.StringIO(text, newline=None), delimiter=mark, skipinitialspace=True)
    try:
        rows = [row for row in lines if any(map(str.strip, row)) and row[0][:1] != "#"]
        rows = [list(map(unguarded, row)) for row in rows]
    except csv.Error as error:
        raise InputError(f"{path!r} is not CSV: {error}; fix that line") from None
    if len(rows) < 2:
        raise InputError(f"{path!r} has no rows; give a heading and measured values")
    if len(rows) - 1 > MOST_ROWS:
        raise InputError(f"{path!r} has more than {MOST_ROWS:,} rows; give fewer")
    if len(rows[0]) > MOST_COLUMNS:
        raise InputError(f"{path!r} has more than {MOST_COLUMNS:,} columns; give fewer")
    if mark == ";":
        rows[1:] = _with_points(rows[1:])
    return rows


def headings_of(text: str) -> list[str]:
    """Headings of a CSV; empty if unreadable."""
    line = _first_line(text)
    try:
        return next(csv.reader([line], delimiter=_mark(line), skipinitialspace=True), [])
    except csv.Error:
        return []


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip() and line[0] != "#"), "")


def _mark(line: str) -> str:
    return ";" if ";" in line and "," not in line else ","


def _with_points(rows: list[list[str]]) -> list[list[str]]:
    """Rows with decimal commas as points; a number with both becomes unreadable."""
    numbers = [match for row in rows for cell in row if (match := _NUMBER.match(cell))]
    if not any("," in match[1] for match in numbers):
        return rows

    def with_point(number: re.Match[str]) -> str:
        return "?" if "." in number[1] else number[0].replace(",", ".")

    return [[_NUMBER.sub(with_point, cell, count=1) for cell in row] for row in rows]


def named(heading: str) -> tuple[str, str]:
    """Name and unit of a column; both are "" if its heading is not a name."""
    match = _HEADING.fullmatch(heading)
    return (match.group(1), match.group(2) or "") if match else ("", "")


def check_once(names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(f"the column {name!r} appears twice; remove one")


def written(name: str, unit: str, text: str) -> Any:
    """A cell's content: a number in the base unit, or text."""
    text = text.strip()
    if name in KINDS or values.is_option(PHYSICS, name) or not _PLAIN.fullmatch(text):
        return text
    return f"{text} {unit}" if unit not in ("", "1") else float(text)


def checked(name: str, value: Any) -> Any:
    """The value of an input or output in the base unit. Raises InputError or CatalogError."""
    if name in KINDS:
        record(name, value)
        return value
    if not values.is_option(PHYSICS, name):
        return values.number(PHYSICS, name, value)
    choices = {str(choice).lower(): choice for choice in INPUTS[name].choices}
    is_choice = isinstance(value, str) and value.lower() in choices
    return choices[value.lower()] if is_choice else patterns.choice(name, value)


def check_measured(output: str, value: float) -> None:
    """Refuse impossible measurements: times that are not finite and above 0, shares above 1."""
    if not 0 < value < math.inf:
        raise InputError(f"{output} = {value:g} is not finite and above 0; give what was measured")
    if (
        value > 1
        and output in PHYSICS.quantities
        and PHYSICS.quantities[output].doc.returns.startswith(_SHARES)
    ):
        raise InputError(f"{output} is a share, not above 1: write 35 % or 0.35")
