"""The logger "fleetcube": what an operator of a large run wants to know. Silent until asked.

Levels: DEBUG for each block and each plan; INFO for what a run decides and reaches; WARNING for
what it survived. What stops it is raised, not logged.
"""

import logging
from typing import Any

_logger = logging.getLogger("fleetcube")
_logger.addHandler(logging.NullHandler())  # else warnings go to standard error unasked


def debug(message: str, *values: Any) -> None:
    """Log a detail."""
    _log(logging.DEBUG, message, values)


def info(message: str, *values: Any) -> None:
    """Log a step of a run."""
    _log(logging.INFO, message, values)


def warning(message: str, *values: Any) -> None:
    """Log a fault that was survived."""
    _log(logging.WARNING, message, values)


def _log(level: int, message: str, values: tuple[Any, ...]) -> None:
    if _logger.isEnabledFor(level):
        _logger.log(level, message, *map(_visible, values), stacklevel=3)


def _visible(value: Any) -> Any:
    """Text in one line that steers no terminal: names and paths may be anybody's."""
    if isinstance(value, int | float):
        return value
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text)
