"""The fast engine: one generated loop nest per dimension set, compiled by numba, cached on disk.

A grid is walked row by row. A row is one or more trailing axes, long enough to amortise the walk.
What is constant along a row is computed once per row; the rest in loops over tiles that fit in the
first-level cache. exp, log and the like are loops over a tile, compiled once; the arithmetic
between them vectorises. Tiles of outputs are streamed to memory past the cache.

Values are NumPy's to the last bit: the same operations in the same order, also in exp and log.
"""

import contextlib
import functools
import math
import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from ctypes import c_int64
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import log
from ..graph.formulas import Function, parameters
from ..graph.trace import is_heavy as is_heavy
from . import kernel_cache
from . import numpy as numpy_engine
from .cache_tiles import GRAIN, ROW, TILE, cuts
from .codegen import kernel_source
from .job import Array, Job, pool
from .lowering import LINE

# Starting a row costs as much as repeating one operand at this many points, plus some per operand
ROW_COST, OPERAND_COST = 16, 2
# Kernels in memory, 0.06 to 0.2 MB each; others are read from disk again, in 2 ms
MOST_KERNELS = 256
_compile_lock, _request_lock = threading.RLock(), threading.Lock()
Key = tuple[Any, ...]  # the arguments of `_compiled`
_ready: OrderedDict[Key, Any] = OrderedDict()  # compiled kernels, the last used at the end
_requested: set[Key] = set()  # kernels to compile in the background, or that do not compile


@dataclass(frozen=True)
class Split:
    """Axes of a grid: the outer ones, and those that make a row."""

    outer: tuple[int, ...]
    inner: tuple[int, ...]

    @property
    def length(self) -> int:
        return math.prod(self.inner)


@dataclass(frozen=True)
class _Kernel:
    """Machine code, the address of the functions that it calls, and the numbers of its room."""

    call: Callable[..., None]
    loops: int
    size: int

    def __call__(self, task: Sequence[int], given: Sequence[int]) -> None:
        room = np.empty(self.size + LINE)
        self.call(self.loops, *task, *given, _start(room))


@dataclass(frozen=True)
class _Call:
    """A kernel's key, its arguments except the range of rows, and `arrays` kept alive for them."""

    key: Key
    split: Split
    arguments: tuple[Array, ...]
    arrays: list[Array]


def _start(room: Array) -> int:
    """Where the buffers of a thread begin: at a line of the cache."""
    address: int = room.ctypes.data
    return -(-address // LINE) * LINE


def run(job: Job, threads: int) -> None:
    """Fill the job's outputs with a compiled kernel, compiling it first where needed."""
    call = _call(job)
    _walk(call, _kernel(call.key), threads)


def run_if_compiled(job: Job, threads: int) -> bool:
    """Fill the job's outputs if the kernel is compiled already; returns whether it was."""
    call = _call(job)
    kernel = _ready_kernel(call.key)
    if kernel is not None:
        _walk(call, kernel, threads)
    return kernel is not None


def copy(job: Job, threads: int) -> None:
    """Fill outputs with operands of their shapes: one kernel streams each large one past the cache,
    which takes two thirds of the time of NumPy's copy."""
    for name, out in job.outs.items():
        if out.size > numpy_engine.COPIED and out.flags.c_contiguous:
            flat = {"copied": job.operands[name].reshape(-1)}, {"copied": out.reshape(-1)}
            run(Job({}, *flat), threads)
        else:
            numpy_engine.run(Job({}, job.operands, {name: out}), threads)


def filling(job: Job) -> Callable[[], None] | None:
    """What fills the outputs of a job of one point each time; None until its kernel is there."""
    call = _call(job)
    kernel = _ready_kernel(call.key)
    if kernel is None:
        return None
    given = [array.ctypes.data for array in call.arguments]
    room = np.empty(kernel.size + LINE)
    fill = functools.partial(kernel.call, kernel.loops, 0, 1, 0, 1, *given, _start(room))

    def filled(_memory: Any = (call, room)) -> None:  # which the machine code reads and writes
        fill()

    return filled


def _walk(call: _Call, kernel: Any, threads: int) -> None:
    given = [array.ctypes.data for array in call.arguments]
    pool(threads).each(lambda task: kernel(task, given), _tasks(call.split, threads))


def _call(job: Job) -> _Call:
    read = {*job.outs}.union(*map(parameters, job.formulas.values()))
    names = [name for name in job.operands if name in read]
    split = _split(job, [job.operands[name].shape for name in names])
    inner = slice(len(split.outer), None)
    along = {name: any(size > 1 for size in job.operands[name].shape[inner]) for name in names}
    arrays, strides = [], []
    for name in names:
        table, stride = _table(job.operands[name], split, along[name])
        arrays.append(table)
        strides.append(stride)
    for out in job.outs.values():
        arrays.append(out)
        strides.append([step // out.itemsize for step in out.strides[: len(split.outer)]])
    shape = np.array(split.outer, dtype=np.int64)
    steps = np.array(strides, dtype=np.int64).reshape(len(strides), len(split.outer))
    if split.length >= ROW:  # shorter rows are best written in the order of memory
        walk = _walked(steps, [arrays[k].size * along[name] for k, name in enumerate(names)])
        shape, steps = shape[walk], steps[:, walk]
    steps = np.ascontiguousarray(steps)  # the layout that machine code was compiled for
    memory = np.array([array.ctypes.data for array in arrays], dtype=np.int64)
    operands = tuple((name, along[name]) for name in names)
    outs = tuple((name, out.dtype) for name, out in job.outs.items())
    key = (tuple(job.formulas.items()), operands, outs, len(split.outer))
    return _Call(key, split, (shape, steps, memory), arrays)


def _split(job: Job, operands: Sequence[tuple[int, ...]]) -> Split:
    """Trailing axes that make a row, over which outputs are dense.

    As few axes as reach ROW points, or fewer where that avoids repeating operands of these shapes
    in memory. Sizes of outer axes do not count, so that blocks of a sweep share a kernel.
    """
    shape = job.shape
    cut, dense = len(shape), 1
    while cut > 0:
        axis = cut - 1
        strides = {out.strides[axis] // out.itemsize for out in job.outs.values()}
        if shape[axis] > 1 and strides != {dense}:
            break
        if dense >= ROW:
            break
        dense *= shape[axis]
        cut = axis
    splits = [Split(shape[:k], shape[k:]) for k in range(cut, max(cut + 1, len(shape)))]

    def cost(split: Split) -> float:
        start = ROW_COST + OPERAND_COST * len(operands)
        return sum(_is_repeated(operand, split) for operand in operands) + start / split.length

    return min(splits, key=cost)  # the first of equals: the longest row


def _walked(steps: Array, sizes: Sequence[int]) -> Array:
    """The outer axes, outermost first, for operands of these sizes that vary along rows.

    Axes along which large operands do not vary are innermost, so that consecutive rows read the
    same values from the cache; the order of outputs does not matter.
    """
    weights = (steps[: len(sizes)] != 0).T @ np.array(sizes, dtype=np.int64)
    return np.argsort(-weights, kind="stable")


def _is_repeated(operand: tuple[int, ...], split: Split) -> bool:
    """Whether every row needs a different part of an operand, repeated along the row."""
    outer = len(split.outer)
    return (
        operand[:outer] == split.outer
        and operand[outer:] != split.inner
        and any(size > 1 for size in operand[outer:])
    )


def _table(operand: Array, split: Split, along: bool) -> tuple[Array, list[int]]:
    """An operand as a flat table, and its step in elements along each outer axis."""
    outer = operand.shape[: len(split.outer)]
    width = split.length if along else 1
    if along:
        operand = np.broadcast_to(operand, outer + split.inner)
    # kernels get only an address, and read dense float64 there
    table = np.ascontiguousarray(operand, dtype=np.float64).reshape(-1)
    steps, step = [], width
    for size in reversed(outer):
        steps.append(step if size > 1 else 0)
        step *= size
    return table, steps[::-1]


def _tasks(split: Split, threads: int) -> list[tuple[int, int, int, int]]:
    """Ranges of rows and of points in a row, several for each thread."""
    rows = math.prod(split.outer)
    parts = min(threads * 8, max(1, rows * split.length // GRAIN)) if threads > 1 else 1
    if rows >= parts:
        edges = [rows * part // parts for part in range(parts + 1)]
        return [(edges[k], edges[k + 1], 0, split.length) for k in range(parts)]
    step = max(TILE, -(-rows * split.length // parts))
    return [
        (index, index + 1, cut.start, cut.stop)
        for index in range(rows)
        for cut in cuts(0, split.length, step)
    ]


def _kernel(key: Key) -> Any:
    """A compiled kernel; one thread at a time compiles."""
    with _compile_lock:
        kernel = _ready_kernel(key)
        if kernel is None:
            kernel = _ready[key] = _compiled(*key)
            while len(_ready) > MOST_KERNELS:
                _ready.popitem(last=False)  # freed once no thread runs it
        return kernel


def _ready_kernel(key: Key) -> Any:
    kernel = _ready.get(key)
    with contextlib.suppress(KeyError):  # another thread may have dropped it
        _ready.move_to_end(key)
    return kernel


def _compiled(
    formulas: tuple[tuple[str, Function], ...],
    operands: tuple[tuple[str, bool], ...],
    outs: tuple[tuple[str, np.dtype[Any]], ...],
    outer: int,
) -> Any:
    """The kernel, from the cache on disk if an equal one was compiled before."""
    from . import loops, machine_code  # here: they import llvmlite, which NumPy does not need

    source, size = kernel_source(dict(formulas), operands, dict(outs), outer)
    begun = time.perf_counter()
    code, was_kept = kernel_cache.lowered(source)
    call = machine_code.load(code, *[c_int64] * 9).call
    how = "read from the cache" if was_kept else "compiled"
    names, seconds = ", ".join(name for name, _ in outs), time.perf_counter() - begun
    log.info("kernel of %s %s in %.2f s", names, how, seconds)
    return _Kernel(call, loops.address() if " apply(" in source else 0, size)


def compile_behind(job: Job) -> None:
    """Compile the job's kernel in a daemon thread that raises nothing; tries no kernel twice."""
    key = _call(job).key
    with _request_lock:
        if key in _ready or key in _requested:
            return
        _requested.add(key)
        _Compiler.keys.put(key)
        if not _Compiler.started:
            _Compiler.started = True
            threading.Thread(target=_compile_all, name="fleetcube-compile", daemon=True).start()


class _Compiler:
    """The thread that compiles in the background, and its requests."""

    keys: queue.SimpleQueue[Key] = queue.SimpleQueue()
    started = False


def _compile_all() -> None:
    while True:
        key = _Compiler.keys.get()
        with contextlib.suppress(Exception):
            _kernel(key)
            with _request_lock:
                _requested.discard(key)


def _after_fork() -> None:
    _compile_lock.release()
    _Compiler.started = False  # threads do not survive a fork
    _requested.clear()


if hasattr(os, "register_at_fork"):  # a fork during a compilation would leave its locks locked
    os.register_at_fork(
        before=_compile_lock.acquire,
        after_in_parent=_compile_lock.release,
        after_in_child=_after_fork,
    )
