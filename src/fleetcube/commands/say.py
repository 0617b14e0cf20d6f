"""Print text with every character visible: none controls the terminal."""

import click

from fleetcube.grid.text import visible


def say(text: str = "", err: bool = False) -> None:
    """Print text of any origin."""
    click.echo(visible(text), err=err)


def say_wrapped(*texts: str, err: bool = False) -> None:
    """Print sentences in lines of 80 columns, cut between words."""
    from fleetcube.grid.show.table_notes import wrapped

    for line in wrapped(texts):
        say(line, err=err)
