"""The work of an engine: formulas over a grid, from operands into arrays."""

import math
import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph.formulas import Function
from . import cgroup

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Job:
    """Evaluate `formulas` (each after what it needs) over a grid.

    `operands` are float64 arrays that broadcast against the grid, with a size-1 axis wherever they
    do not vary. `outs` are the arrays to fill: each has the grid's shape, and its last axis is
    contiguous. int8 arrays take flags, -1 where undefined.
    """

    formulas: Mapping[str, Function]
    operands: Mapping[str, Array]
    outs: Mapping[str, Array]

    @property
    def shape(self) -> tuple[int, ...]:
        out = next(iter(self.outs.values()))
        return tuple(out.shape)


def default_threads() -> int:
    """Cores that this process may use; a container's share of one counts as one."""
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return math.ceil(min(cores, cgroup.cores()))


ALONE = 1 << 16  # points up to which threads cost more time than they save


def threads_for(points: int) -> int:
    """Default number of threads for a call."""
    return default_threads() if points > ALONE else 1


class Pool:
    """Threads that share work; a pool of one runs it in the caller's thread."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._executor = ThreadPoolExecutor(threads) if threads > 1 else None

    def each(self, function: Any, tasks: Any) -> None:
        """Call the function with each task; the first error stops and is raised."""
        left = deque(tasks)

        def work() -> None:
            try:
                while True:
                    try:
                        task = left.popleft()
                    except IndexError:
                        return
                    function(task)
            except BaseException:
                left.clear()
                raise

        # this thread works, too: a small job ends before another thread has woken up
        others = []
        if self._executor is not None:
            others = [self._executor.submit(work) for _ in range(min(self.threads, len(left)) - 1)]
        try:
            work()
        finally:
            running = [other for other in others if not other.cancel()]
            wait(running)  # the caller's arrays must not be written after this returns
        for other in running:
            other.result()

    def map(self, function: Any, tasks: Any) -> Iterator[Any]:
        """Yield the function's result for each task, in order, computed a few ahead."""
        if self._executor is None:
            yield from map(function, tasks)
            return
        running: deque[Future[Any]] = deque()
        try:
            for task in tasks:
                if len(running) >= 4 * self.threads:
                    yield running.popleft().result()
                running.append(self._executor.submit(function, task))
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()
            wait(running)  # the caller's arrays must not be written after this returns


_pools: dict[int, Pool] = {}


def pool(threads: int) -> Pool:
    """A pool of that many threads, kept for the life of the process."""
    if threads not in _pools:
        _pools[threads] = Pool(threads)
    return _pools[threads]


def _forget_pools() -> None:
    _pools.clear()


if hasattr(os, "register_at_fork"):  # a child has the pools, but not their threads
    os.register_at_fork(after_in_child=_forget_pools)


def store(out: Array, value: Any) -> None:
    """Copy a value into an output; NaN becomes -1 in a flag array."""
    if out.dtype == np.int8:
        value = np.where(np.isnan(value), -1.0, value)
    np.copyto(out, value, casting="unsafe")
