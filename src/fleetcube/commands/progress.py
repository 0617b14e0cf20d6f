"""Progress of long operations in one line, only on a terminal."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fleetcube.grid.progress import watching

AFTER = 1.0  # seconds before it is shown
_EACH = 0.1  # and between its updates
_CLEAR = "\r\x1b[K"


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show the time taken and, once known, the share done, its rate and the time left. The line
    disappears at the end."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    ended, told = threading.Event(), ("", "")
    started = begun = time.perf_counter()

    def tell(done: int, total: int, unit: str) -> None:
        nonlocal started, told
        if done == 0:
            started = time.perf_counter()
        rate = done / max(time.perf_counter() - started, 1e-9)
        figure = f"{float(f'{rate:.3g}'):,.0f}" if rate >= 100 else f"{rate:.3g}"
        left = f", {_spoken((total - done) / rate)} left" if done else ""
        told = f"{100 * done / max(total, 1):3.0f} %  {figure} {unit}/s ", left

    def show() -> None:
        pause = AFTER
        while not ended.wait(pause):
            elapsed = f"{_spoken(time.perf_counter() - begun)} elapsed"
            line = f"{what} {elapsed.join(told)}"
            shown = line[: shutil.get_terminal_size().columns - 1]
            print(end=_CLEAR + shown, file=sys.stderr, flush=True)
            pause = _EACH
        if pause == _EACH:
            print(end=_CLEAR, file=sys.stderr, flush=True)

    shower = threading.Thread(target=show, daemon=True)
    shower.start()
    try:
        with watching(tell):
            yield
    finally:
        ended.set()
        shower.join()


def _spoken(seconds: float) -> str:
    """A duration in whole seconds, minutes or hours: 7 s, 4 min, 1.5 h."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
