"""Memory for results: how much is free, and fresh arrays whose pages are mapped."""

import ctypes
import functools
import math
import os
from typing import Any

import numpy as np

from ...kernels.engines import cgroup
from ...kernels.engines.job import pool
from ..errors import InputError
from ..spec.axis import Array

LINE = 64  # bytes of a cache line
PAGE = 4096
WORTH = 1 << 24  # bytes from which pages are mapped before writing
SMALL = 1 << 23  # bytes of a result up to which free memory is not queried
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14


def available() -> float:
    """Bytes of memory usable without swapping; infinite if the system does not report it."""
    return min(_of_machine(), cgroup.memory())


def _of_machine() -> float:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):  # not MemFree, which lacks the page cache
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    if not hasattr(os, "sysconf"):  # Windows
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check(size: float, advice: str = "reduce over more axes or shorten one") -> None:
    """Raise InputError for a result that does not fit into free memory."""
    free = available()
    if size > 0.9 * free:
        raise InputError(
            f"the result takes {human(size)} and {human(free)} of memory are free; {advice}"
        )


def human(size: float) -> str:
    """Bytes in words: 1.5 GB."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if size < 1000 or unit == "PB":
            return f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError


def allocate(shape: tuple[int, ...], dtype: Any, threads: int) -> Array:
    """An array that starts on a cache line, its pages mapped by several threads in parallel. Pages
    mapped one by one under a kernel's output streams cost more than in bulk: measured 10.2 against
    8.9 GB/s into fresh float64 arrays on two cores."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    raw = np.empty(size + LINE, np.uint8)
    skip = -raw.ctypes.data % LINE
    if size >= WORTH and (populate := _populate()):
        # one large piece per thread: with smaller ones they wait for each other (decision 2)
        cuts = [size * k // threads for k in range(threads + 1)]
        base = raw.ctypes.data
        pool(threads).each(lambda k: populate(base + cuts[k], base + cuts[k + 1]), range(threads))
    array: Array = raw[skip : skip + size].view(dtype).reshape(shape)
    return array


@functools.cache
def _populate() -> Any:
    """A function that maps the pages between two addresses; None if the system has none."""
    try:
        madvise = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError, TypeError):  # TypeError: Windows
        return None
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def populate(start: int, stop: int) -> None:
        start, stop = -(-start // PAGE) * PAGE, stop // PAGE * PAGE
        if stop > start:
            madvise(start, stop - start, _POPULATE_WRITE)  # best effort: a write also maps them

    return populate if os.uname().sysname == "Linux" else None
