"""Output of commands on a terminal."""

import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fcntl import ioctl
from typing import Any, TextIO


def sent(command: list[str], width: int = 0, **how: Any) -> tuple[int, str]:
    """Exit status and output of a command on a terminal of some width (0: default)."""
    ours, theirs = pty.openpty()
    if width:
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, **how)
    os.close(theirs)
    text = _read(ours)
    return process.wait(timeout=600), text


def sent_inside(print_to: Callable[[TextIO], object]) -> str:
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor(1) as reader:
        text = reader.submit(_read, ours)
        with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
            print_to(terminal)
        return text.result()


def _read(ours: int) -> str:
    found = b""
    try:
        while data := os.read(ours, 65536):
            found += data
    except OSError:
        pass
    os.close(ours)
    return found.decode("utf-8", "replace")
