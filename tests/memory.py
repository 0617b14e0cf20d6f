"""Memory of a process of tests: what was compiled is forgotten where it grows."""

import ctypes
import gc
import mmap
import platform
import sys
from pathlib import Path

from fleetcube.grid.function import _jitted
from fleetcube.kernels.engines.jax import _program

STATM = Path("/proc/self/statm")
most: float = 1 << 30  # bytes, above which memory is given back


def bound() -> None:
    """Release what was compiled where the process has grown too large."""
    global most
    if resident() > most:
        release()
        most = max(most, 1.2 * resident())  # what cannot be given back is not tried at each test


def resident() -> int:
    return int(STATM.read_text().split()[1]) * mmap.PAGESIZE if STATM.exists() else 0


def release() -> None:
    """Forget what was compiled, and give its memory back."""
    _program.cache_clear()
    _jitted.cache_clear()
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
    gc.collect()
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps what was freed
