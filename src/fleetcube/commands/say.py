"""What the command line prints: every character is seen, and none steers the terminal."""

import click

from fleetcube.grid.text import visible


def say(text: str = "", err: bool = False) -> None:
    """Print text, wherever it comes from."""
    click.echo(visible(text), err=err)
