"""Text from files, made safe for terminals and spreadsheets: neither takes it for a command."""

import unicodedata

_STEERING = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # controls, marks of direction, breaks of lines
_RUN = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001


def visible(text: str) -> str:
    """Text with characters that steer a terminal written as codes, except line ends."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(
        f"\\u{ord(char):04x}" if unicodedata.category(char) in _STEERING and char != "\n" else char
        for char in text
    )


def guarded(cell: str) -> str:
    """A cell of CSV that no spreadsheet takes for a formula.

    Source: OWASP, CSV injection (a single quote before what would be run)
    """
    return f"'{cell}" if _is_run(cell) else cell


def unguarded(cell: str) -> str:
    """What `guarded` was given."""
    return cell[1:] if cell[:1] == "'" and _is_run(cell[1:]) else cell


def _is_run(cell: str) -> bool:
    # some spreadsheets cut spaces off first
    return any(text.startswith((*_RUN, "'")) for text in (cell, cell.lstrip()))
