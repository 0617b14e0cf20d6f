"""Waiting for coroutines of a store from any thread, also of one whose own loop runs (Jupyter)."""

import asyncio
import functools
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def wait(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns or raises."""
    return asyncio.run_coroutine_threadsafe(work, _loop(os.getpid())).result()


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """A loop in a thread of its own; a process that was forked has no such thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop
