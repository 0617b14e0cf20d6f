"""Print tables and numbers, and write tables."""

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from fleetcube.commands.shared.say import columns, say, say_each, say_wrapped

REPLACES = "fleetcube.replaces"  # of a command's context: whether a file that exists is replaced
_NUMERIC = re.compile(r"-|[-+]?(inf|nan|[\d,]*\.?\d+(e[-+]?\d+)?)( .*)?")  # a unit may follow
_PARTS = re.compile(r"\[[^\]]*\]|\(\d+ %\)|[^_ ]*(?:[_ ]|$)")  # units stay whole
_SHORT = 12  # characters of a word that is not broken


def _replaces(context: click.Context, _: Any, overwrite: bool) -> None:
    context.meta[REPLACES] = overwrite


def _writable(context: click.Context, _: Any, output: str | None) -> str | None:
    """Refuse a file that cannot be written before anything is computed."""
    from fleetcube.tables.tables import check_target

    if output is not None:
        check_target(Path(output), context.meta[REPLACES])
    return output


def to_file(command: Any) -> Any:
    """The options of a table's file, which `write_table` writes."""
    written = "Write .csv, .parquet, .xlsx, .nc, .json, or one variable as code that looks it up: "
    written += ".c, .mjs, .sql; - prints CSV."
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
    its cells are broken as well. If nothing fits, a column of one value becomes a line, the others
    come in blocks, each after those that tell rows apart. A pipe's only width is that of COLUMNS. A
    cell is always one line.
    """
    flat = [[" ".join(cell.splitlines()) for cell in row] for row in rows]
    width = columns()
    lines = _fitting(_layouts(headings, flat), width) if width else next(_layouts(headings, flat))
    say_each(lines or _in_blocks(headings, flat, width or 0), err=False)


def _fitting(layouts: Iterable[list[str]], width: int) -> list[str]:
    """The first layout that fits, or nothing."""
    return next((lines for lines in layouts if max(map(len, lines)) <= width), [])


def _in_blocks(headings: list[str], rows: list[list[str]], width: int) -> list[str]:
    """The lines of a table in blocks of columns that fit, below the values that all rows share."""
    from fleetcube.tables.table_notes import wrapped

    cells = list(zip(*rows, strict=True))
    varied = [k for k, column in enumerate(cells) if len({*column}) > 1] or [*range(len(headings))]
    same = [f"{headings[k]}: {cells[k][0]}" for k in range(len(headings)) if k not in varied]
    grid = [[row[k] for k in varied] for row in (headings, *rows)]
    few = range(1, len(varied))
    keys = next((k for k in few if len({tuple(row[:k]) for row in grid}) == len(grid)), 1)

    def layouts(block: list[int]) -> Iterator[list[str]]:
        head, *others = [[row[k] for k in (*range(keys), *block)] for row in grid]
        return (lines for least in (_longest, _unbroken) for lines in _upright(head, others, least))

    blocks: list[list[int]] = [[]]
    for k in range(keys, len(varied)):
        if blocks[-1] and not _fitting(layouts([*blocks[-1], k]), width):
            blocks.append([])
        blocks[-1].append(k)
    body = [_fitting(layouts(block), width) or [*layouts(block)][-1] for block in blocks]
    return [*wrapped(same, width), *(line for lines in body for line in ("", *lines))][not same :]


def _layouts(headings: list[str], rows: list[list[str]]) -> Iterator[list[str]]:
    """The lines of a table, in ever narrower layouts, some of them transposed."""
    transposed = [list(cells) for cells in zip(headings, *rows, strict=True)]
    right = [False, *(True for _ in rows)]
    for least in (_longest, _unbroken):
        yield from _upright(headings, rows, least)
        yield from _narrowed(transposed, right, [0, *map(least, rows)])


def _upright(
    headings: list[str], rows: list[list[str]], least: Callable[[Iterable[str]], int]
) -> Iterator[list[str]]:
    """The lines of a table with its headings on top, in ever narrower layouts."""
    columns = list(zip(*rows, strict=True)) or [()] * len(headings)
    numeric = [all(map(_NUMERIC.fullmatch, cells)) for cells in columns]
    yield from _narrowed([headings, *rows], numeric, [*map(least, columns)])


def _longest(cells: Iterable[str]) -> int:
    return max(map(len, cells), default=0)


def _unbroken(cells: Iterable[str]) -> int:
    """Width in which no number is broken, and no word more than about once."""
    words = [word for cell in cells if not _NUMERIC.fullmatch(cell) for word in cell.split()]
    halves = (max(min(len(word), _SHORT), -(-len(word) // 2)) for word in words)
    return max(_longest(filter(_NUMERIC.fullmatch, cells)), *halves, 0)


def _narrowed(table: list[list[str]], right: list[bool], least: list[int]) -> Iterator[list[str]]:
    """A table in ever narrower columns, each at least as wide as its `least`."""
    for most in range(max(1, *map(_longest, table)), 0, -1):
        limits = [max(most, width) for width in least]
        yield aligned([line for row in table for line in _broken(row, limits)], right)


def _broken(row: list[str], limits: list[int]) -> list[list[str]]:
    """A row as lines whose cells respect the limits, except for unbreakable parts."""
    cells = []
    for text, most in zip(row, limits, strict=True):
        lines = [""]
        for part in filter(None, _PARTS.findall(text)) if len(text) > most else [text]:
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


def print_foot(result: Any, without: Collection[str] = (), err: bool = True) -> None:
    """Print the basis of a table's numbers, and choices by default."""
    from fleetcube.tables.table_notes import foot_lines

    say_wrapped(*foot_lines(result, without), err=err)


def with_unit(value: float, unit: str, name: str) -> str:
    """One number as people read it; `--help` of a command does not load what formats it."""
    from fleetcube.tables.tables import with_unit as formatted

    return formatted(value, unit, name)


def write_table(dataset: Any, output: str, every: bool = False) -> None:
    """Export a Dataset and report it; to standard output ("-") nothing else is printed."""
    from fleetcube.tables.tables import export, left_out

    export(dataset, Path(output), every, click.get_current_context().meta.get(REPLACES, False))
    if output != "-":
        left = left_out(dataset, Path(output))
        say(f"wrote {output}{f', without {left:,} rows that cannot run' if left else ''}")
