"""Print text with every character visible: none controls the terminal."""

import click

from fleetcube.grid.text import visible


def say(text: str = "", err: bool = False) -> None:
    """Print text of any origin."""
    click.echo(visible(text), err=err)
