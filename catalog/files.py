"""Files of untrusted kind and size: reads are bounded and do not block."""

import errno
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

_WITHOUT_WAITING = getattr(os, "O_NONBLOCK", 0)  # Windows has no pipes among its files
# Keys on which tomllib takes quadratic time, and numbers that Python refuses to print
_ENDLESS = re.compile(
    r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){64} | \b0[xob][0-9a-fA-F_]{1000}""", re.VERBOSE
)


def expanded(path: str | os.PathLike[str]) -> str:
    """A path with the home folder in place of `~`."""
    return os.path.expanduser(os.fspath(path))


def read_some(path: str | Path, most: int) -> bytes:
    """The first bytes of a file; `most` and one more if it is larger.

    A pipe without a writer is refused, not waited for. Raises OSError, and ValueError for an
    invalid file name.
    """
    with open(expanded(path), "rb", opener=_at_once) as file:
        if _WITHOUT_WAITING:
            os.set_blocking(file.fileno(), True)
        data = file.read(most + 1)
        if not data and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EPIPE, "nothing writes to this pipe")
    return data


def _at_once(path: str, flags: int) -> int:
    """Open a pipe without waiting for its writer."""
    return os.open(path, flags | _WITHOUT_WAITING)


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML file. Raises ValueError."""
    if _ENDLESS.search(text):
        raise ValueError("it holds a key of more than 64 parts, or a number of 1,000 digits")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its tables or lists are nested too deeply") from None
