"""Stop by Ctrl-C or SIGTERM: a single exception, even if more signals arrive during handling."""

import contextlib
import math
import os
import signal
import sys
import time
from typing import Any, NoReturn

STOPPED = (130, 143)  # exit statuses of Ctrl-C and SIGTERM
_PATIENCE = 10.0  # seconds after which an unsuccessful stop can be repeated
_last = -math.inf


class Terminated(KeyboardInterrupt):
    """SIGTERM. After a plain KeyboardInterrupt inside `exec`, Python would end itself by SIGINT."""


def listen() -> None:
    """Raise on signals from now on, except on ignored ones, as in a script's background. Batch
    schedulers send SIGTERM, some of them twice."""
    again()
    signal.signal(signal.SIGTERM, _stop)
    if is_heard():
        signal.signal(signal.SIGINT, _stop)


def is_heard() -> bool:
    """Whether Ctrl-C reaches this process."""
    return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def again() -> None:
    """Raise at once on the next signal: the last exception was dropped."""
    global _last
    _last = -math.inf


def end() -> None:
    """Ignore signals: only the last line and the exit status remain."""
    for code in (signal.SIGINT, signal.SIGTERM):
        signal.signal(code, signal.SIG_IGN)


def leave(status: int) -> NoReturn:
    """Exit without waiting for threads: a signal while a pool starts one leaves a worker that is
    never told to end, for which Python's exit would wait."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, or a full disk
            stream.flush()
    os._exit(status)


def _stop(code: int, _: Any) -> None:
    global _last
    if time.monotonic() - _last > _PATIENCE:
        _last = time.monotonic()
        raise Terminated if code == signal.SIGTERM else KeyboardInterrupt
