"""Print tables and numbers."""

import os
import sys

import click


def print_table(headings: list[str], rows: list[list[str]]) -> None:
    """A table that fits a terminal; tab-separated text where there is none."""
    if not sys.stdout.isatty() and os.environ.get("FORCE_COLOR") is None:
        widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
        for row in [headings, *rows]:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
            click.echo("  ".join(cells).rstrip())
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    for k, heading in enumerate(headings):
        numeric = all(row[k][:1].isdigit() or row[k][:1] == "-" for row in rows)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def told_number(value: float, unit: str, name: str) -> str:
    """A number in a convenient unit."""
    from fleetcube.grid.slicing import scale

    factor, shown = scale(unit, [value], name)
    number = value / factor
    text = f"{number:,.0f}" if 1e3 <= abs(number) < 1e7 else f"{number:.4g}"
    return f"{text} {shown}".rstrip()
