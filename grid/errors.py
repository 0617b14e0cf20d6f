"""The error of bad input: one line with the value, the rule and the next action."""

from collections.abc import Iterable
from typing import Any

from ..catalog.records import one_line
from ..catalog.spelling import hint, near


class InputError(ValueError):
    """A spec, scenario, axis or request that cannot be used as it is."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ChangedError(InputError):
    """What was opened has changed since, or is gone."""


def shown(value: Any) -> str:
    """A value as it was written, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def nearest(
    name: str, known: Iterable[str], otherwise: str = "see `fleetcube explain` for all names"
) -> str:
    """A hint: the known spellings nearest to a name, or what to do where none is near."""
    return hint(near(str(name), known), otherwise)
