"""What a terminal is sent by a command."""

import os
import pty
import struct
import subprocess
import termios
from fcntl import ioctl
from typing import Any


def sent(command: list[str], width: int = 0, **how: Any) -> tuple[int, str]:
    """Exit status of a command on a terminal of some width (0: as it comes), and all it printed."""
    ours, theirs = pty.openpty()
    if width:
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, **how)
    os.close(theirs)
    found = b""
    try:
        while data := os.read(ours, 65536):
            found += data
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return process.wait(timeout=600), found.decode("utf-8", "replace")
