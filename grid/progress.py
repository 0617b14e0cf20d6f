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
EVERY = 0.1  # seconds between two texts

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
    with shown(*_bar()):
        yield


@contextmanager
def shown(tell: Tell, close: Callable[[], None]) -> Iterator[None]:
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
        return line()
    bar = tqdm(delay=AFTER, leave=False, unit_scale=True)

    def tell(done: int, total: int, unit: str) -> None:
        bar.total, bar.unit = total, f" {unit}"
        bar.update(done - bar.n)

    return tell, bar.close


def line(what: str = "") -> tuple[Tell, Callable[[], None]]:
    """The same as text on standard error, written by a thread: the time taken and, once known, the
    share done, its rate and the time left."""
    ended, progress = threading.Event(), ("", "")
    started = begun = time.perf_counter()

    def tell(done: int, total: int, unit: str) -> None:
        nonlocal started, progress
        now = time.perf_counter()
        started = now if done == 0 else started
        left = f", {spoken((total - done) * (now - started) / done)} left" if done else ""
        progress = f"{pace(done, total, unit, now - started)} ", left

    def show() -> None:
        import shutil  # here: it loads what packs files

        width, pause = 0, AFTER
        while not ended.wait(pause):
            text = what + f"{spoken(time.perf_counter() - begun)} elapsed".join(progress)
            text = text[: shutil.get_terminal_size().columns - 1]
            print(end=f"\r{text:<{width}}", file=sys.stderr, flush=True)
            width, pause = len(text), EVERY
        print(end=f"\r{'':<{width}}\r" * bool(width), file=sys.stderr, flush=True)

    shower = threading.Thread(target=show, daemon=True)
    shower.start()

    def close() -> None:
        ended.set()
        shower.join()

    return tell, close


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
