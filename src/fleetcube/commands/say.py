"""Print text with every character visible, so that none controls the terminal."""

from collections.abc import Iterable

import click

from fleetcube.grid.text import visible


def say(text: str = "", err: bool = False) -> None:
    click.echo(visible(text), err=err)


def say_each(lines: Iterable[str], err: bool = True) -> None:
    """Print lines, by default to standard error."""
    for line in lines:
        say(line, err=err)


def say_wrapped(*texts: str, err: bool = False) -> None:
    """Print sentences wrapped at 80 columns."""
    from fleetcube.grid.show.table_notes import wrapped

    say_each(wrapped(texts), err)
