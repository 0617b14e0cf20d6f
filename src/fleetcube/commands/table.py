"""Print tables and numbers, and write tables."""

import itertools
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from fleetcube.commands.say import say, say_each

REPLACES = "fleetcube.replaces"  # of a command's context: whether a file that exists is replaced
_INTERVAL = "90 %"  # heading of a column that belongs to the one before
_NUMERIC = re.compile(r"-|[-+]?(inf|nan|[\d,]*\.?\d+(e[-+]?\d+)?)( .*)?")  # a unit may follow
_PARTS = re.compile(r"\[[^\]]*\]|[^_ ]*(?:[_ ]|$)")  # units stay whole


def _replaces(context: click.Context, _: Any, overwrite: bool) -> None:
    context.meta[REPLACES] = overwrite


def _writable(context: click.Context, _: Any, output: str | None) -> str | None:
    """Refuse a file that cannot be written before anything is computed."""
    from fleetcube.grid.show.tables import check_target

    if output is not None:
        check_target(Path(output), context.meta[REPLACES])
    return output


def to_file(command: Any) -> Any:
    """The options of a table's file, which `write_table` writes."""
    written = "Write .csv, .parquet, .xlsx, .nc, .json; - prints CSV."
    command = click.option(
        "--overwrite",
        is_flag=True,
        is_eager=True,  # before the file is checked
        expose_value=False,
        callback=_replaces,
        help="Replace an existing file.",
    )(command)
    path = click.option("-o", "--output", type=click.Path(), callback=_writable, help=written)
    return path(command)


every_column = click.option(
    "--all", "every", is_flag=True, help="In files, also columns of values that labels set."
)


def print_table(headings: list[str], rows: list[list[str]]) -> None:
    """Print a table in aligned columns, in which no number is ever broken or cut.

    A table wider than the terminal gets headings broken at underscores, then is transposed, then
    words of its cells are broken as well. If nothing fits, columns come in blocks, each after those
    that tell rows apart. A pipe's only width is that of COLUMNS. A cell is always one line.
    """
    flat = [[" ".join(cell.splitlines()) for cell in row] for row in rows]
    layouts = _layouts(headings, flat)
    lines = next(layouts)
    if width := columns():
        while lines and max(map(len, lines)) > width:
            lines = next(layouts, [])
        lines = lines or _in_blocks(headings, flat, width)
    say_each(lines, err=False)


def _in_blocks(headings: list[str], rows: list[list[str]], width: int) -> list[str]:
    """The lines of a table in blocks of columns that fit, an interval beside its value."""
    starts = [k for k, heading in enumerate(headings) if heading != _INTERVAL or not k]
    groups = [[*range(*ends)] for ends in itertools.pairwise([*starts, len(headings)])]
    few = (first for first, *_ in groups[1:])
    alone = len(groups[0])
    keys = next((k for k in few if len({tuple(row[:k]) for row in rows}) == len(rows)), alone)

    def lines(columns: list[int]) -> list[str]:
        shown = [[row[k] for k in (*range(keys), *columns)] for row in (headings, *rows)]
        numeric = [all(map(_NUMERIC.fullmatch, cells[1:])) for cells in zip(*shown, strict=True)]
        return aligned(shown, numeric)

    blocks: list[list[int]] = [[]]
    for own in (group for group in groups if group[0] >= keys):
        if blocks[-1] and max(map(len, lines([*blocks[-1], *own]))) > width:
            blocks.append([])
        blocks[-1] += own
    return [line for block in blocks for line in ("", *lines(block))][1:]


def columns() -> int | None:
    """Columns of the terminal, or those of COLUMNS; None in a pipe without it."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return shutil.get_terminal_size().columns if known else None


def _layouts(headings: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
    """The lines of a table, in ever narrower layouts."""
    columns = list(zip(*rows, strict=True)) or [()] * len(headings)
    numeric = [all(map(_NUMERIC.fullmatch, cells)) for cells in columns]
    transposed = [list(cells) for cells in zip(headings, *rows, strict=True)]
    for least in (_longest, _longest_number):
        yield from _narrowed([headings, *rows], numeric, [least(cells) for cells in columns])
        yield from _narrowed(transposed, [False, *(True for _ in rows)], [0, *map(least, rows)])


def _longest(cells: Iterable[str]) -> int:
    return max(map(len, cells), default=0)


def _longest_number(cells: Iterable[str]) -> int:
    return _longest(cell for cell in cells if _NUMERIC.fullmatch(cell))


def _narrowed(table: list[list[str]], right: list[bool], least: list[int]) -> Iterator[list[str]]:
    """A table in ever narrower columns, each at least as wide as its `least`."""
    for most in range(max(1, *map(_longest, table)), 0, -1):
        limits = [max(most, own) for own in least]
        yield aligned([line for row in table for line in _broken(row, limits)], right)


def _broken(row: list[str], limits: list[int]) -> list[list[str]]:
    """A row as lines whose cells respect the limits, except for unbreakable parts."""
    cells = []
    for text, most in zip(row, limits, strict=True):
        lines = [""]
        for part in _PARTS.findall(text) if len(text) > most else [text]:
            if lines[-1] and len((lines[-1] + part).rstrip()) > most:
                lines.append("")
            lines[-1] += part
        cells.append([line.rstrip() for line in lines])
    return [list(line) for line in itertools.zip_longest(*cells, fillvalue="")]


def aligned(rows: list[list[str]], right: list[bool]) -> list[str]:
    columns = []
    for cells, to_right in zip(zip(*rows, strict=True), right, strict=True):
        width = max(map(len, cells))
        columns.append([cell.rjust(width) if to_right else cell.ljust(width) for cell in cells])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def print_foot(found: Any, without: Collection[str] = (), err: bool = True) -> None:
    """Print the basis of a table's numbers, and choices made by defaults."""
    from fleetcube.grid.show.table_notes import foot

    say_each(foot(found, without), err)


def with_unit(value: float, unit: str, name: str) -> str:
    from fleetcube.grid.show.tables import numbers, scale

    factor, shown = scale(unit, [value], name)
    return f"{numbers([value / factor])[0]} {shown}".rstrip()


def write_table(dataset: Any, output: str, every: bool = False) -> None:
    """Export a Dataset and report it; to standard output ("-") nothing else is printed."""
    from fleetcube.grid.show.tables import export, left_out

    export(dataset, Path(output), every, click.get_current_context().meta.get(REPLACES, False))
    if output != "-":
        left = left_out(dataset, Path(output))
        say(f"wrote {output}{f', without {left:,} rows that cannot run' if left else ''}")
