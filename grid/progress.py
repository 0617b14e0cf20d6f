"""Progress of long evaluations."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Tell = Callable[[int, int, str], None]  # done, total, and the unit: "points"

_watcher: ContextVar["_Meter | None"] = ContextVar("watcher", default=None)


class _Meter:
    """Work done and total, summed over consecutive evaluations."""

    def __init__(self, tell: Tell) -> None:
        self._tell, self._lock = tell, threading.Lock()
        self._done, self._total, self._unit = 0, 0, ""

    def add(self, done: int, total: int, unit: str) -> None:
        """Count; a new unit starts from zero."""
        with self._lock:
            if unit != self._unit:
                self._done, self._total, self._unit = 0, 0, unit
            self._done, self._total = self._done + done, self._total + total
            self._tell(self._done, self._total, unit)


@contextmanager
def watching(tell: Tell) -> Iterator[None]:
    """Call a function with the work done, the total and the unit, at every step.

    It covers evaluations started by this thread inside the `with`, and may be called from another
    thread. An exception that it raises ends the evaluation.
    """
    token = _watcher.set(_Meter(tell))
    try:
        yield
    finally:
        _watcher.reset(token)


def watched() -> bool:
    return _watcher.get() is not None


def expected(total: int, unit: str) -> Callable[[int], None]:
    """Announce work; returns a function, callable from any thread, to report what is done."""
    meter = _watcher.get()
    if meter is None:
        return lambda done: None
    meter.add(0, total, unit)
    return lambda done: meter.add(done, 0, unit)
