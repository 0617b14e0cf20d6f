"""Print text with every character visible, so that none controls the terminal."""

import json
import os
import sys
from collections.abc import Iterable
from typing import Any

import click

from fleetcube.text import visible


def say(text: str = "", err: bool = False) -> None:
    click.echo(visible(text), err=err)


def say_json(value: Any) -> None:
    """Print a value as JSON, with null for numbers that are not finite."""
    from fleetcube.tables.tables import finite

    say(json.dumps(finite(value), default=str))


def say_each(lines: Iterable[str], err: bool = True) -> None:
    """Print lines, by default to standard error."""
    for line in lines:
        say(line, err=err)


def columns() -> int | None:
    """Columns of the terminal, or those of COLUMNS; None in a pipe without it."""
    has_width = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    if not has_width:
        return None
    import shutil  # here: it loads what packs files

    return shutil.get_terminal_size().columns


def say_wrapped(*texts: str, err: bool = False) -> None:
    """Print sentences wrapped at 80 columns, or those of a narrower terminal."""
    from fleetcube.tables.table_notes import wrapped

    say_each(wrapped(texts), err)
