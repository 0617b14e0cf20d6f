"""Waiting for other threads and processes."""

import time
from typing import Any


def until(holds: Any, told: Any, seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, told()
        time.sleep(0.05)
