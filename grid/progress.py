"""Progress of long evaluations."""

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Tell = Callable[[int, int, str], None]  # done, total, and the unit: "points"
AFTER = 1.0  # seconds before a bar is shown
_EVERY = 0.2  # seconds between two texts

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


@contextmanager
def showing() -> Iterator[None]:
    """Show what is done after a second: the bar of tqdm.auto, which in a notebook is a widget, or
    one line of text if that is not installed. It disappears at the end. Calls inside one that shows
    its progress add to it."""
    if watched():
        yield
        return
    tell, close = _bar()
    try:
        with watching(tell):
            yield
    finally:
        close()


def _bar() -> tuple[Tell, Callable[[], None]]:
    """A function that shows what is done, and one that clears it away."""
    try:
        with warnings.catch_warnings(action="ignore"):  # without ipywidgets it has a bar of text
            from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        return _line()
    bar = tqdm(delay=AFTER, leave=False, unit_scale=True)

    def tell(done: int, total: int, unit: str) -> None:
        bar.total, bar.unit = total, f" {unit}"
        bar.update(done - bar.n)

    return tell, bar.close


def _line() -> tuple[Tell, Callable[[], None]]:
    """The same as text on standard error."""
    started, told, width = time.perf_counter(), 0.0, 0

    def tell(done: int, total: int, unit: str) -> None:
        nonlocal started, told, width
        now = time.perf_counter()
        started = now if done == 0 else started
        if now - max(started + AFTER - _EVERY, told) >= _EVERY:
            text = f"{pace(done, total, unit, now - started)}, {spoken(now - started)} elapsed"
            sys.stderr.write(f"\r{text:<{width}}")
            told, width = now, len(text)

    return tell, lambda: print(f"\r{'':<{width}}\r" * bool(width), end="", file=sys.stderr)


def pace(done: int, total: int, unit: str, seconds: float) -> str:
    """The share done and the rate: 25 %  1,230 points/s."""
    rate = done / max(seconds, 1e-9)
    figure = f"{float(f'{rate:.3g}'):,.0f}" if rate >= 100 else f"{rate:.3g}"
    return f"{100 * done / max(total, 1):3.0f} %  {figure} {unit}/s"


def spoken(seconds: float) -> str:
    """A duration in whole seconds, minutes or hours: 7 s, 4 min, 1.5 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
