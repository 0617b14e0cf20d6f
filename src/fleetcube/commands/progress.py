"""A progress bar for long operations, only on a terminal."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fleetcube.grid.progress import AFTER, pace, spoken, watching


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show the time taken and, once known, the share done, its rate and the time left. The bar
    disappears at the end."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class Clocks(ProgressColumn):
        def render(self, task: Task) -> Text:
            left = task.time_remaining
            ahead = "" if left is None or not task.completed else f", {spoken(left)} left"
            return Text(f"{spoken(task.elapsed or 0.0)} elapsed{ahead}")

    columns = [TextColumn("{task.description}"), BarColumn(16), TextColumn("{task.fields[speed]}")]
    bar = Progress(*columns, Clocks(), console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=None, speed="")
    started = time.perf_counter()

    def tell(done: int, total: int, unit: str) -> None:
        nonlocal started
        if done == 0:
            started = time.perf_counter()
        speed = pace(done, total, unit, time.perf_counter() - started)
        bar.update(task, completed=done, total=total, speed=f"{speed} ")

    later = threading.Timer(AFTER, bar.start)
    later.daemon = True
    later.start()
    try:
        with watching(tell):
            yield
    finally:
        later.cancel()
        later.join()  # otherwise the bar might start after it was stopped
        bar.stop()
