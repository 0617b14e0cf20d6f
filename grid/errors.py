"""The error for bad input: one line with the value, the rule and the next action."""

import errno
import importlib
import numbers
import os
from collections.abc import Iterable
from typing import Any

from ..catalog.entry import one_line
from ..catalog.spelling import hint, near

EXTRA = "an extra; run: pip install 'fleetcube[{}]'"


class InputError(ValueError):
    """An unusable spec, scenario, axis or request."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


# Features that need a package that is not always installed, and its extra
_EXTRAS = {
    "SALib": ("global sensitivity needs", "sens"),
    "distributed": ("Dask needs", "distributed"),
    "icechunk": ("Icechunk needs", "icechunk"),
    "matplotlib": ("plots need", "plot"),
    "obstore": ("an object store needs", "cloud"),
    "pyarrow": ("Arrow tables need", "table"),
    "scipy": ("a fit, a search over ranges or a Sobol, Latin or gamma draw needs", "stats"),
    "xlsxwriter": ("Excel files need", "table"),
}


class OpenError(InputError):
    """An input that a request needs and nothing states."""


class ChangedError(InputError):
    """An opened cube has changed since, or is gone."""


def imported(module: str, what: str = "") -> Any:
    """A module of an extra. Raises InputError, which names the extra and `what` needs it."""
    needs, extra = _EXTRAS[module.partition(".")[0]]
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f"{what or needs} {EXTRA.format(extra)}") from None


def shown(value: Any) -> str:
    """A value as written, truncated if long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_count(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least 0 or 1, of any library."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        rule = "above 0" if least else "from 0"
        raise InputError(f"{name} = {shown(value)} is not a whole number {rule}; give one")
    return int(value)


def check_texts(name: str, given: Any) -> list[str]:
    """One text, or several, as a list."""
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    texts = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(each, str) for each in texts):
        raise InputError(f"{name} = {shown(given)} is not a list of texts; give one")
    return texts


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
    name: str, spellings: Iterable[str], otherwise: str = "see `fleetcube explain` for all names"
) -> str:
    """A hint: the known spellings nearest to a name, or `otherwise` if none is near."""
    return hint(near(str(name), spellings), otherwise)
