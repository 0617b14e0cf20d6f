"""Memory for results: how much is free, and arrays whose pages are mapped."""

import functools
import math
import os
from typing import Any

import numpy as np

from ...kernels.engines import cgroup
from ...kernels.engines.job import pool
from ..errors import InputError
from ..spec.axis import Array
from .freed import PAGE, POPULATE_WRITE, FreedMemory, madvise

REUSED = "FLEETCUBE_REUSED_BYTES"  # environment: most bytes of freed results kept, 0 for none
WORTH = 1 << 24  # bytes from which pages are mapped before writing
SMALL = 1 << 23  # bytes of a result up to which free memory is not queried
LEAST_KEPT = 1 << 28  # bytes of freed results kept by default, where the system cannot take them


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
    if size > 0.9 * free and freed_memory().nbytes:
        freed_memory().clear()
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
    raw = freed_memory().array(size)
    base: Any = raw.base
    if size >= WORTH and base.is_fresh and (advise := madvise()):
        # one large piece per thread: with smaller ones they wait for each other (decision 2)
        start = raw.ctypes.data
        cuts = [(start + size * k // threads) // PAGE * PAGE for k in range(threads + 1)]
        cuts[0] = -(-start // PAGE) * PAGE
        pool(threads).each(lambda k: advise(cuts[k], cuts[k + 1], POPULATE_WRITE), range(threads))
    array: Array = raw.view(dtype).reshape(shape)
    return array


@functools.cache
def freed_memory() -> FreedMemory:
    """Memory of freed results: by default a quarter of what is free, where the system may take it
    back. Raises InputError for a setting that is no number of bytes."""
    text = os.environ.get(REUSED)
    if text is None:
        return FreedMemory(max(LEAST_KEPT, available() / 4) if madvise() else LEAST_KEPT)
    try:
        most = float(text)
    except ValueError:
        most = math.nan
    if not most >= 0:
        raise InputError(f"{REUSED} = {text!r} is no number of bytes; give 0 to keep none")
    return FreedMemory(most)
