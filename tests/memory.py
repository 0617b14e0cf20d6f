"""Bounds the memory of a test process by releasing compiled code."""

import ctypes
import gc
import mmap
import platform
import sys
from pathlib import Path

from fleetcube.functions.function import _jitted
from fleetcube.kernels.engines.jax import _in_place, _program

STATM = Path("/proc/self/statm")
most: float = 1 << 30  # bytes above which memory is released


def bound() -> None:
    global most
    if resident() > most:
        release()
        most = max(most, 1.2 * resident())  # do not retry at each test what cannot be released


def resident() -> int:
    return int(STATM.read_text().split()[1]) * mmap.PAGESIZE if STATM.exists() else 0


def release() -> None:
    """Drop compiled code, and return its memory."""
    _program.cache_clear()
    _in_place.cache_clear()
    _jitted.cache_clear()
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
    gc.collect()
    gc.freeze()  # what is left stays; it took the next collections a third of a second each
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps what was freed
