"""A line of progress for long operations, only on a terminal."""

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fleetcube.grid.progress import AFTER, pace, spoken, watching

_EACH = 0.1  # seconds between updates
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
        now = time.perf_counter()
        started = now if done == 0 else started
        left = f", {spoken((total - done) * (now - started) / done)} left" if done else ""
        told = f"{pace(done, total, unit, now - started)} ", left

    def show() -> None:
        pause = AFTER
        while not ended.wait(pause):
            elapsed = f"{spoken(time.perf_counter() - begun)} elapsed"
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
