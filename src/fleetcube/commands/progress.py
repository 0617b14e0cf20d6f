"""A line of progress for long operations, only on a terminal."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fleetcube.grid.progress import line, shown


@contextmanager
def progress(operation: str) -> Iterator[None]:
    """Show how far an operation is, until it ends."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    with shown(*line(f"{operation} ")):
        yield
