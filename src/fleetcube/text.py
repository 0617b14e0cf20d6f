"""Make text from files safe for terminals and spreadsheets, which could run it as a command."""

import unicodedata
from contextvars import ContextVar

WIDTH = ContextVar("width", default=80)  # of a line of prose; less in a narrower terminal
_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, direction marks, line breaks
_RUN = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001


def visible(text: str) -> str:
    """Text with terminal control characters written as codes, except line ends."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(
        f"\\u{ord(char):04x}" if unicodedata.category(char) in _STEERING and char != "\n" else char
        for char in text
    )


def guarded(cell: str) -> str:
    """A CSV cell that no spreadsheet takes for a formula.

    Source: OWASP, CSV injection (a single quote before what would be run)
    """
    return f"'{cell}" if _is_run(cell) else cell


def unguarded(cell: str) -> str:
    """Inverse of `guarded`."""
    return cell[1:] if cell[:1] == "'" and _is_run(cell[1:]) else cell


def _is_run(cell: str) -> bool:
    # some spreadsheets strip spaces first
    return any(text.startswith((*_RUN, "'")) for text in (cell, cell.lstrip()))
