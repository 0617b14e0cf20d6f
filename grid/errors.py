"""The error for bad input: one line with the value, the rule and the next action."""

import errno
import os
from collections.abc import Iterable
from typing import Any

from ..catalog.records import one_line
from ..catalog.spelling import hint, near


class InputError(ValueError):
    """An unusable spec, scenario, axis or request."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ChangedError(InputError):
    """An opened cube has changed since, or is gone."""


def shown(value: Any) -> str:
    """A value as written, truncated if long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path that no file can have here."""
    try:
        os.lstat(path)
    except ValueError:  # a null byte
        raise InputError(f"{shown(os.fspath(path))} is no path; choose another name") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError(
                f"{shown(os.fspath(path))} is too long for a path here; choose a shorter name"
            ) from None


def nearest(
    name: str, known: Iterable[str], otherwise: str = "see `fleetcube explain` for all names"
) -> str:
    """A hint: the known spellings nearest to a name, or `otherwise` if none is near."""
    return hint(near(str(name), known), otherwise)
