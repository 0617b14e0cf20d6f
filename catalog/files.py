"""Files of untrusted kind and size: what is read of them ends, and nothing is waited for."""

import errno
import os
import stat
from pathlib import Path


def read_some(path: str | Path, most: int) -> bytes:
    """The first bytes of a file; `most` and one more where it is larger.

    A pipe that nothing writes to is refused, not waited for. Raises OSError, and ValueError for
    what cannot be the name of a file.
    """
    with open(path, "rb", opener=_at_once) as file:
        os.set_blocking(file.fileno(), True)
        held = file.read(most + 1)
        if not held and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EPIPE, "nothing writes to this pipe")
    return held


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
