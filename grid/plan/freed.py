"""Memory of freed results, used again: the system zeroes fresh pages, which takes two thirds of the
time of a fresh result (decision 73)."""

import ctypes
import functools
import mmap
import os
from collections import deque
from typing import Any

import numpy as np

from ..spec.axis import Array

LINE = 64  # bytes of a cache line
PAGE = mmap.PAGESIZE
STEP = 1 << 16  # bytes: kept sizes are multiples, so that results of nearly one size share memory
LAZY = 1 << 24  # bytes from which the system may take back a buffer: the call costs microseconds
POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14
FREE = 8  # MADV_FREE, Linux 4.5: the system may take pages until they are written again


class FreedMemory:
    """Memory of freed arrays by size, up to `most` bytes; sizes asked for longest ago go first.

    Nothing here locks: a garbage collection may free an array in the middle of any line. Where two
    threads meet, memory is freed that could have been used again.
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self._by_size: dict[int, deque[Array]] = {}  # a deque's append and pop are atomic
        self._madvise = madvise()
        if hasattr(os, "register_at_fork"):  # a child would copy each page that it writes
            os.register_at_fork(after_in_child=self.clear)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that is kept."""
        return sum(size * len(queue) for size, queue in self._by_size.copy().items())

    def array(self, size: int) -> Array:
        """Bytes from a cache line on, of any values."""
        if size < STEP:  # the allocator keeps these itself
            memory = np.empty(size + LINE, np.uint8)
            return memory[(skip := -memory.ctypes.data % LINE) : skip + size]
        whole = -(-(size + LINE) // STEP) * STEP
        freed = self._take(whole)
        buffer = Buffer(np.empty(whole, np.uint8) if freed is None else freed, size, self)
        buffer.is_fresh = freed is None
        return np.asarray(buffer)

    def _take(self, size: int) -> Array | None:
        queue = self._by_size.pop(size, None)
        if queue is None:
            return None
        self._by_size[size] = queue  # the last of them: dropped last
        try:
            return queue.pop()
        except IndexError:  # not `if queue`, between which and the pop another thread may take it
            return None

    def put_back(self, memory: Array) -> None:
        """Keep the memory of an array that nothing views any more."""
        size = memory.nbytes
        if size > self.most:
            return
        if size >= LAZY and self._madvise:
            # not `ctypes`, which NumPy imports at each use: a result may outlive imports
            start = memory.__array_interface__["data"][0]
            self._madvise(-(-start // PAGE) * PAGE, (start + size) // PAGE * PAGE, FREE)
        self._by_size.setdefault(size, deque()).append(memory)
        while self.nbytes > self.most:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        for size, queue in self._by_size.copy().items():
            try:
                queue.popleft()
            except IndexError:
                self._by_size.pop(size, None)
            else:
                return

    def clear(self) -> None:
        """Give all memory back to the system."""
        self._by_size.clear()


class Buffer:
    """The base of a result's arrays: its memory is used again once nothing views it. A finalizer on
    an array would come too early, since views of it keep only what it views."""

    __slots__ = ("__array_interface__", "_freed", "_memory", "is_fresh")
    is_fresh: bool  # whether the system has still to map its pages

    def __init__(self, memory: Array, size: int, freed: FreedMemory) -> None:
        self._memory, self._freed = memory, freed
        start = memory.ctypes.data
        self.__array_interface__ = {
            "data": (start + -start % LINE, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self._freed.put_back(self._memory)


@functools.cache
def madvise() -> Any:
    """A function of first and last address and advice; None if the system has none."""
    if not hasattr(os, "uname") or os.uname().sysname != "Linux":
        return None
    try:
        advise = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError):
        return None
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def call(start: int, stop: int, advice: int) -> None:
        if stop > start:
            advise(start, stop - start, advice)  # best effort: all of it works without

    return call
