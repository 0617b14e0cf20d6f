"""Progress of long operations: a line on a terminal, and a log."""

import os
import sys
from collections.abc import Callable, Iterator
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


def log_to_stderr(verbose: int) -> Callable[[], None]:
    """Write the log to standard error; returns the function that ends it."""
    import logging

    logger, handler = logging.getLogger("fleetcube"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = logger.level
    logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    logger.addHandler(handler)

    def end() -> None:
        logger.setLevel(level)
        logger.removeHandler(handler)

    return end
