"""Wait for a store's coroutines from any thread, even one whose own loop is running (Jupyter)."""

import asyncio
import functools
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def wait(work: Coroutine[Any, Any, T]) -> T:
    """Return or raise what a coroutine does."""
    return asyncio.run_coroutine_threadsafe(work, _loop(os.getpid())).result()


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """A loop in a separate thread, one per process, since a fork does not inherit the thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop
