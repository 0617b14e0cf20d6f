"""The fast engine: one generated loop nest per dimension set, compiled by numba, cached on disk.

A grid is walked row by row. A row is one or more trailing axes, long enough to amortise the walk.
What does not vary along the row is computed once per row; the rest in loops over tiles that fit in
the first-level cache. Formulas that call the mathematics library (exp, log) get loops of their own
so that the others vectorise. Tiles of outputs are then streamed to memory past the cache.
"""

import functools
import hashlib
import importlib.util
import inspect
import math
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .bind import Binding, dependencies
from .graph import Function, parameters
from .job import Array, Job, pool

ROW = 512  # shortest row worth walking
TILE = 512  # points of one tile
_LIBRARY_CALLS = {"exp", "expm1", "log", "log1p", "log2", "log10", "power", "ceil"}
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
_compile_lock = threading.Lock()


@dataclass(frozen=True)
class Row:
    """How operands meet the rows of a grid: its outer axes, and the length of a row."""

    outer: tuple[int, ...]
    inner: tuple[int, ...]

    @property
    def length(self) -> int:
        """Points of one row."""
        return math.prod(self.inner)


def run(job: Job, threads: int) -> None:
    """Fill the job's outputs with a compiled kernel, compiling it first where needed."""
    row = _row(job)
    names = [name for name in job.operands if _is_needed(name, job)]
    along = {name: _varies(job.operands[name], len(row.outer)) for name in names}
    kernel = _kernel(job, tuple((name, along[name]) for name in names), len(row.outer))
    tables, strides = [], []
    for name in names:
        table, stride = _table(job.operands[name], row, along[name])
        tables.append(table)
        strides.append(stride)
    flats = []
    for out in job.outs.values():
        flat, stride = _flat(out, len(row.outer))
        flats.append(flat)
        strides.append(stride)
    shape = np.array(row.outer, dtype=np.int64)
    steps = np.array(strides, dtype=np.int64).reshape(len(strides), len(row.outer))
    kernel(0, 0, 0, 0, shape, steps, *tables, *flats)  # compiles here, not under the threads
    pool(threads).each(
        lambda task: kernel(*task, shape, steps, *tables, *flats), _tasks(row, threads)
    )


def is_heavy(function: Function) -> bool:
    """Whether a formula calls the mathematics library, so that its loop cannot vectorise."""
    return any(
        name in _LIBRARY_CALLS for used in dependencies(function) for name in used.__code__.co_names
    )


def _is_needed(name: str, job: Job) -> bool:
    return name in job.outs or any(name in parameters(f) for f in job.formulas.values())


def _row(job: Job) -> Row:
    """Trailing axes that make a row: as few as reach ROW points, over which outputs are dense."""
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
    return Row(shape[:cut], shape[cut:])


def _varies(operand: Array, outer: int) -> bool:
    """Whether an operand varies along a row."""
    return any(size > 1 for size in operand.shape[outer:])


def _table(operand: Array, row: Row, along: bool) -> tuple[Array, list[int]]:
    """An operand as a flat table, and its step in elements along each outer axis."""
    outer = operand.shape[: len(row.outer)]
    width = row.length if along else 1
    if along:
        operand = np.broadcast_to(operand, outer + row.inner)
    table = np.ascontiguousarray(operand, dtype=np.float64).reshape(-1)
    steps, step = [], width
    for size in reversed(outer):
        steps.append(step if size > 1 else 0)
        step *= size
    return table, steps[::-1]


def _flat(out: Array, outer: int) -> tuple[Array, list[int]]:
    """An output as one flat array over the memory it spans, and its outer steps in elements."""
    span = sum((size - 1) * step for size, step in zip(out.shape, out.strides, strict=True))
    flat = np.lib.stride_tricks.as_strided(
        out, (span // out.itemsize + 1,), (out.itemsize,), writeable=True
    )
    return flat, [step // out.itemsize for step in out.strides[:outer]]


def _tasks(row: Row, threads: int) -> list[tuple[int, int, int, int]]:
    """Ranges of rows and of points in a row, several for each thread."""
    rows = math.prod(row.outer)
    parts = threads * 8 if threads > 1 else 1
    if rows >= parts:
        edges = [rows * part // parts for part in range(parts + 1)]
        return [(edges[k], edges[k + 1], 0, row.length) for k in range(parts)]
    step = max(TILE, -(-row.length // parts))
    return [
        (index, index + 1, start, min(start + step, row.length))
        for index in range(rows)
        for start in range(0, row.length, step)
    ]


# Generating the source


def _source(
    formulas: Mapping[str, Function],
    operands: tuple[tuple[str, bool], ...],
    outs: Mapping[str, np.dtype[Any]],
    outer: int,
) -> str:
    """Python source of a kernel: rows of the outer axes, tiles of a row, outputs streamed."""
    along = dict(operands)
    for name, formula in formulas.items():
        along[name] = any(along[p] for p in parameters(formula))
    level = _levels(formulas, along)
    arguments = [f"t_{name}" for name, _ in operands] + [f"o_{name}" for name in outs]
    lines = [
        "def kernel(start, stop, first, last, shape, steps,",
        f"           {', '.join(arguments)}):",
    ]
    lines += [f"    b_{name} = np.empty({TILE}, np.{dtype.name})" for name, dtype in outs.items()]
    buffered = _buffered(formulas, along, level, outs)
    lines += [f"    v_{name} = np.empty({TILE})" for name in buffered]
    if outer:
        lines.append("    rest = start")
    for axis in reversed(range(outer)):
        lines += [f"    i{axis} = rest % shape[{axis}]", f"    rest //= shape[{axis}]"]
    lines.append("    for row in range(start, stop):")
    for k, name in enumerate([name for name, _ in operands] + [f"out {name}" for name in outs]):
        offset = " + ".join(f"i{axis} * steps[{k}, {axis}]" for axis in range(outer)) or "0"
        target = name.removeprefix("out ") if name.startswith("out ") else name
        prefix = "d" if name.startswith("out ") else "p"
        lines.append(f"        {prefix}_{target} = {offset}")
    for name, varies in operands:
        if not varies:
            lines.append(f"        {name} = t_{name}[p_{name}]")
    for name, formula in formulas.items():
        if not along[name]:
            lines.append(f"        {name} = f_{name}({', '.join(parameters(formula))})")
    lines.append(f"        for tile in range(first, last, {TILE}):")
    lines.append(f"            size = min({TILE}, last - tile)")
    for name, varies in operands:
        if varies:
            lines.append(
                f"            r_{name} = t_{name}[p_{name} + tile : p_{name} + tile + size]"
            )
    for depth in sorted({*level.values(), 0}):
        lines += _loop(formulas, along, level, depth, dict(operands), buffered, outs)
    for name in outs:
        lines.append(f"            stream(o_{name}, d_{name} + tile, b_{name}, size)")
    for axis in reversed(range(outer)):
        pad = "        " + "    " * (outer - 1 - axis)
        lines.append(f"{pad}i{axis} += 1")
        if axis:
            lines += [f"{pad}if i{axis} == shape[{axis}]:", f"{pad}    i{axis} = 0"]
    return "\n".join(lines) + "\n"


def _levels(formulas: Mapping[str, Function], along: Mapping[str, bool]) -> dict[str, int]:
    """The loop each formula along the row belongs to: heavy ones stand apart from light ones."""
    level: dict[str, int] = {}
    heavy = {name: is_heavy(formula) for name, formula in formulas.items()}
    for name, formula in formulas.items():
        if not along[name]:
            continue
        needed = [p for p in parameters(formula) if p in level]
        same = [level[p] + (1 if heavy[p] != heavy[name] else 0) for p in needed]
        base = max(same, default=0)
        # even loops are light, odd ones heavy
        level[name] = base + (base % 2 != heavy[name])
    return level


def _buffered(
    formulas: Mapping[str, Function],
    along: Mapping[str, bool],
    level: Mapping[str, int],
    outs: Mapping[str, Any],
) -> list[str]:
    """Quantities that a later loop reads, and that must therefore be kept for the tile."""
    return [
        name
        for name in formulas
        if along[name]
        and any(
            name in parameters(other) and level.get(user, -1) > level[name]
            for user, other in formulas.items()
            if along[user]
        )
    ]


def _loop(
    formulas: Mapping[str, Function],
    along: Mapping[str, bool],
    level: Mapping[str, int],
    depth: int,
    operands: Mapping[str, bool],
    buffered: list[str],
    outs: Mapping[str, np.dtype[Any]],
) -> list[str]:
    """One loop over a tile: the formulas of one level, and the outputs they give."""
    here = [name for name in formulas if along[name] and level[name] == depth]
    plain = [name for name in outs if name not in level] if depth == 0 else []
    if not here and not plain:
        return []
    body: list[str] = []
    seen: set[str] = set(here)
    for name in here:
        formula = formulas[name]
        for p in parameters(formula):
            if along[p] and p not in seen:
                seen.add(p)
                body.append(f"{p} = {'r' if p in operands else 'v'}_{p}[j]")
        body.append(f"{name} = f_{name}({', '.join(parameters(formula))})")
        if name in buffered:
            body.append(f"v_{name}[j] = {name}")
    for name in [*plain, *(name for name in here if name in outs)]:
        value = f"r_{name}[j]" if name in plain and along[name] else name
        if outs[name].name == "int8":
            value = f"np.int8(-1 if {value} != {value} else {value})"
        elif outs[name].name == "float32":
            value = f"np.float32({value})"
        body.append(f"b_{name}[j] = {value}")
    return ["            for j in range(size):", *(f"                {line}" for line in body)]


# Compiling it


def _kernel(job: Job, operands: tuple[tuple[str, bool], ...], outer: int) -> Any:
    outs = {name: out.dtype for name, out in job.outs.items()}
    source = _source(job.formulas, operands, outs, outer)
    formulas = tuple(job.formulas.items())
    with _compile_lock:
        return _compiled(source, formulas)


@functools.cache
def _binding() -> Binding:
    import numba

    def choose(condition: Any, if_true: Any, if_false: Any) -> Any:
        return if_true if condition else if_false

    wrap = numba.njit(**_OPTIONS)
    return Binding(np, wrap(choose), wrap)


@functools.cache
def _compiled(source: str, formulas: tuple[tuple[str, Function], ...]) -> Any:
    """The kernel, from the disk cache where an equal one was compiled before."""
    import numba

    from .stream import stream

    scope = {f"f_{name}": _binding().bind(formula) for name, formula in formulas}
    scope.update(np=np, stream=stream)
    folder = _cache_folder(source, formulas)
    path = _write_module(folder, source) if folder else None
    if path is None:
        exec(compile(source, "<fleetcube kernel>", "exec"), scope)
        return numba.njit(**_OPTIONS)(scope["kernel"])
    spec = importlib.util.spec_from_file_location(f"fleetcube_kernel_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__.update(scope)
    sys.modules[spec.name] = module  # numba imports it by name when it reads its cache
    spec.loader.exec_module(module)
    return numba.njit(cache=True, **_OPTIONS)(module.kernel)


def _cache_folder(source: str, formulas: tuple[tuple[str, Function], ...]) -> Path | None:
    """Folder named by a hash of everything the machine code depends on; None where unwritable."""
    import llvmlite
    import numba

    digest = hashlib.sha256()
    for text in (
        source,
        repr(sorted(_OPTIONS.items())),
        f"{numba.__version__} {llvmlite.__version__} {np.__version__} {sys.version}",
        f"{platform.machine()} {llvmlite.binding.get_host_cpu_name()}",
        _code_text(tuple(formula for _, formula in formulas)),
        Path(__file__).with_name("stream.py").read_text(),
    ):
        digest.update(text.encode())
        digest.update(b"\0")
    from platformdirs import user_cache_path

    root = os.environ.get("FLEETCUBE_CACHE")
    base = Path(root) if root else user_cache_path("fleetcube")
    folder = base / "kernels" / digest.hexdigest()[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


def _code_text(formulas: tuple[Function, ...]) -> str:
    functions = {id(f): f for formula in formulas for f in dependencies(formula)}
    return "\0".join(inspect.getsource(function) for function in functions.values())


def _write_module(folder: Path, source: str) -> Path | None:
    path = folder / "kernel.py"
    if not path.exists() or path.read_text() != source:
        temporary = folder / f"kernel.{os.getpid()}.tmp"
        temporary.write_text(source)
        temporary.replace(path)
    return path
