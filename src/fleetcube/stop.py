"""Stopped by Ctrl-C or SIGTERM: one exception, once, whatever is sent while it is handled."""

import math
import signal
import time
from typing import Any

_PATIENCE = 10.0  # seconds after which a stop that was not enough can be repeated
_last = -math.inf


class Terminated(KeyboardInterrupt):
    """SIGTERM. After a plain KeyboardInterrupt inside `exec`, Python would end itself by SIGINT."""


def listen() -> None:
    """From now on a signal raises; one that is ignored, as in the background of a script, stays so.

    Batch schedulers send SIGTERM, some of them twice.
    """
    again()
    signal.signal(signal.SIGTERM, _stop)
    if is_heard():
        signal.signal(signal.SIGINT, _stop)


def is_heard() -> bool:
    """Whether Ctrl-C reaches this process."""
    return signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def again() -> None:
    """The next signal raises at once: the exception of the last one was dropped."""
    global _last
    _last = -math.inf


def end() -> None:
    """Nothing is left to stop but the last line and the exit status."""
    for code in (signal.SIGINT, signal.SIGTERM):
        signal.signal(code, signal.SIG_IGN)


def _stop(code: int, _: Any) -> None:
    global _last
    if time.monotonic() - _last > _PATIENCE:
        _last = time.monotonic()
        raise Terminated if code == signal.SIGTERM else KeyboardInterrupt
