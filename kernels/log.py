"""The logger "fleetcube", for operators of large runs. Silent until configured.

Levels: DEBUG for each block and each plan; INFO for decisions and progress of a run; WARNING for
faults that it survived. Fatal errors are raised, not logged.
"""

import logging
from typing import Any

_logger = logging.getLogger("fleetcube")
_logger.addHandler(logging.NullHandler())  # else warnings go to standard error by default


def debug(message: str, *values: Any) -> None:
    _log(logging.DEBUG, message, values)


def info(message: str, *values: Any) -> None:
    _log(logging.INFO, message, values)


def warning(message: str, *values: Any) -> None:
    _log(logging.WARNING, message, values)


def _log(level: int, message: str, values: tuple[Any, ...]) -> None:
    if _logger.isEnabledFor(level):
        _logger.log(level, message, *map(_visible, values), stacklevel=3)


def _visible(value: Any) -> Any:
    """Text in one line without control characters: names and paths may be untrusted."""
    if isinstance(value, int | float):
        return value
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
