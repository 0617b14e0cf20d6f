"""A bar on a terminal while something long runs; nothing where there is no terminal."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

AFTER = 1.0  # seconds before it is shown


@contextmanager
def progress(what: str, unit: str = "") -> Iterator[Callable[[int, int], None]]:
    """Show time, and what is done, its rate and the time left where the caller tells them.

    Yields a function of what is done and all there is. The bar goes when it is left.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [TextColumn("{task.description}"), BarColumn(16), TextColumn("{task.fields[told]}")]
    clocks = [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()]
    bar = Progress(*columns, *clocks, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None, told="")
    started = time.perf_counter()

    def update(done: int, total: int) -> None:
        rate = done / max(time.perf_counter() - started, 1e-9)
        told = f"{100 * done / max(total, 1):3.0f} %  {rate:.3g} {unit}/s "
        bar.update(task, completed=done, total=total, told=told)

    later = threading.Timer(AFTER, bar.start)
    later.daemon = True
    later.start()
    try:
        yield update
    finally:
        later.cancel()
        later.join()
        bar.stop()
