"""Options of every command that draws: a picture's first line, size and pixels."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import click

from fleetcube.commands.shared.say import say_each
from fleetcube.grid.errors import InputError

_OPTIONS = (
    click.option("--title", help="Title of the picture."),
    click.option("--size", metavar="WxH", help="Width and height in inches, such as 8x5."),
    click.option("--dpi", type=int, help="Pixels per inch, of a .png.  [150]"),
)


def look(command: Any) -> Any:
    """The options --title, --size and --dpi, which `looks` reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def looks(given: Mapping[str, Any], drawn: Mapping[str, str | None]) -> dict[str, Any]:
    """The looks given, validated before drawing; `drawn` are files by option."""
    from fleetcube.presentation.pictures.picture import picture_options

    look_options = {name: value for name, value in given.items() if value is not None}
    if look_options and not any(drawn.values()):
        options = " or ".join(f"{option} FILE" for option in drawn)
        raise InputError(f"--{next(iter(look_options))} is for a picture; draw one: {options}")
    with picture_options(**look_options):
        return look_options


@contextlib.contextmanager
def drawing(look_options: Mapping[str, Any]) -> Iterator[None]:
    """Draw with these looks, and print the picture's remarks."""
    from fleetcube.presentation.pictures.picture import picture_options

    with picture_options(**look_options) as chosen:
        yield
    say_each([*chosen.remarks, *chosen.advice])
