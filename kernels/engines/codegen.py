"""Source of compiled kernels: rows, tiles, loops that vectorise, streamed outputs.

It is Python of few words, which `lowering` puts into LLVM's language. Operands, outputs and
buffers are plain pointers, and choices are `select`, not branches. Buffers are parts of one array,
the room, a constant distance apart, so that LLVM knows without run-time checks that they do not
overlap, and vectorises.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph.formulas import Function, parameters
from ..graph.trace import LOOPS, Operation, Trace, Value, written
from .cache_tiles import TILE
from .lowering import LINE

_HEAD = (
    "def kernel(loops: loops, start: word, stop: word, first: word, last: word, "
    "shape: words, steps: words, addresses: words, room: room):"
)
# Copies a tile past the cache. An ordinary store first reads the line that it overwrites; a sweep
# writes each line once and whole, so this saves that read: measured 31 against 20 GB/s on two cores
# into reused float64 arrays. A function, not inlined: its loops took long to compile.
_STREAM = """
def stream_{kind}(into: {kind}s, tile: {kind}s, size: word):
    head = min(missing(into), size)
    for j in range(head):
        into[j] = tile[j]
    done = head + (size - head) // {lanes} * {lanes}
    for j in range(head, done, {lanes}):
        line(after(into, j), after(tile, j))
    for j in range(done, size):
        into[j] = tile[j]
"""


def kernel_source(
    formulas: Mapping[str, Function],
    operands: tuple[tuple[str, bool], ...],
    outs: Mapping[str, np.dtype[Any]],
    outer: int,
) -> tuple[str, int]:
    """Python source of a kernel, and the numbers of its room; `operands` are pairs: a name, whether
    it varies along a row."""
    trace = Trace()
    values: dict[str, Any] = {name: Value(trace, name) for name, _ in operands}
    for name, formula in formulas.items():
        values[name] = trace.run(formula, [values[p] for p in parameters(formula)])
    results = {name: values[name] for name in outs}
    writer = _Writer(trace.operations, dict(operands), results, outs, outer)
    return writer.source(), writer.room


class _Writer:
    """Sorts operations into those of a row and, by level, those of a tile."""

    def __init__(
        self,
        operations: Mapping[str, Operation],
        operands: Mapping[str, bool],
        results: Mapping[str, Any],
        outs: Mapping[str, np.dtype[Any]],
        outer: int,
    ) -> None:
        self.operations, self.operands, self.outer = operations, operands, outer
        self.results = {name: written(value) for name, value in results.items()}
        self.outs = outs
        self.along = dict(operands)
        for name, operation in operations.items():
            self.along[name] = any(self.along[read] for read in operation.reads)
        self.level = self._levels()
        self.buffered = self._buffered_names()
        self.buffers = {f"b_{name}": dtype.name for name, dtype in outs.items()}
        self.buffers |= {f"v_{name}": "float64" for name in self.buffered}
        # of one buffer of float64 twice as many points stay near: measured 6.4 against 6.9 ms
        self.tile = 2 * TILE if [*self.buffers.values()] == ["float64"] else TILE
        self.room = len(self.buffers) * self.tile

    def source(self) -> str:
        kinds = sorted({dtype.name for dtype in self.outs.values()})
        lines = [_STREAM.format(kind=kind, lanes=LINE // np.dtype(kind).itemsize) for kind in kinds]
        lines.append(_HEAD)
        for k, name in enumerate(self.operands):
            lines.append(f"    t_{name} = pointer(addresses, {k}, float64)")
        for k, (name, dtype) in enumerate(self.outs.items(), len(self.operands)):
            lines.append(f"    o_{name} = pointer(addresses, {k}, {dtype.name})")
        for k, (name, kind) in enumerate(self.buffers.items()):
            lines.append(f"    {name} = part(room, {k * self.tile}, {kind})")
        for k in range(self.outer * (len(self.operands) + len(self.outs))):
            lines.append(f"    s{k} = steps[{k}]")
        if self.outer:
            lines.append("    rest = start")
        for axis in reversed(range(self.outer)):
            lines += [f"    n{axis} = shape[{axis}]"]
            lines += [f"    i{axis} = rest % n{axis}", f"    rest //= n{axis}"]
        lines.append("    for row in range(start, stop):")
        lines += [f"        {line}" for line in self._row()]
        lines.append(f"        for tile in range(first, last, {self.tile}):")
        lines += [f"            {line}" for line in self._tile()]
        for axis in reversed(range(self.outer)):
            pad = "        " + "    " * (self.outer - 1 - axis)
            lines.append(f"{pad}i{axis} += 1")
            if axis:
                lines += [f"{pad}if i{axis} == n{axis}:", f"{pad}    i{axis} = 0"]
        return "\n".join(lines) + "\n"

    def _levels(self) -> dict[str, int]:
        """The pass over a tile of each operation: even passes are arithmetic, odd ones loops."""
        level: dict[str, int] = {}
        for name, operation in self.operations.items():
            if self.along[name]:
                heavy = bool(operation.loop)
                after = [
                    level[read] + (bool(self.operations[read].loop) != heavy)
                    for read in operation.reads
                    if read in level
                ]
                base = max(after, default=0)
                level[name] = base + (base % 2 != heavy)
        return level

    def _buffered_names(self) -> list[str]:
        """Values in buffers: results of loops, and values that later passes read."""
        names = {name for name, operation in self.operations.items() if operation.loop}
        for name, operation in self.operations.items():
            for read in operation.reads:
                if read in self.level and self.level.get(name, -1) > self.level[read]:
                    names.add(read)
        return [name for name in self.operations if name in names]

    def _row(self) -> list[str]:
        lines = []
        addresses = [f"p_{name}" for name in self.operands] + [f"d_{name}" for name in self.outs]
        for k, address in enumerate(addresses):
            steps = (f"i{axis} * s{k * self.outer + axis}" for axis in range(self.outer))
            lines.append(f"{address} = {' + '.join(steps) or '0'}")
        lines += [f"{name} = t_{name}[p_{name}]" for name, on in self.operands.items() if not on]
        for name, operation in self.operations.items():
            if self.along[name]:
                continue
            if operation.loop:
                buffer = f"v_{name}"
                lines.append(f"{buffer}[0] = {operation.reads[0]}")
                lines.append(f"apply(loops, {LOOPS.index(operation.loop)}, {buffer}, {buffer}, 1)")
                lines.append(f"{name} = {buffer}[0]")
            else:
                lines.append(f"{name} = {operation.text}")
        return lines

    def _tile(self) -> list[str]:
        """Statements executed per tile: the passes in order, then the outputs."""
        lines = [f"size = min({self.tile}, last - tile)"]
        for name, varies in self.operands.items():
            if varies:
                lines.append(f"r_{name} = after(t_{name}, p_{name} + tile)")
        for depth in range(max(self.level.values(), default=-1) + 1):
            of_pass = [name for name in self.operations if self.level.get(name) == depth]
            if depth % 2:
                for name in of_pass:
                    operation = self.operations[name]
                    source = self._array(operation.reads[0])
                    which = LOOPS.index(operation.loop)
                    lines.append(f"apply(loops, {which}, {source}, v_{name}, size)")
            elif of_pass:
                lines += self._pass(of_pass)
        lines += self._pass([])
        for name, dtype in self.outs.items():
            into = f"after(o_{name}, d_{name} + tile)"
            lines.append(f"stream_{dtype.name}({into}, b_{name}, size)")
        return lines

    def _pass(self, of_pass: list[str]) -> list[str]:
        """A loop over a tile: operations `here` and outputs they yield; if none, other outputs."""
        body: list[str] = []
        written: set[str] = set()

        def read(name: str) -> None:
            if self.along.get(name) and name not in written:
                written.add(name)
                flag = name in self.operations and self.operations[name].flag
                body.append(f"{name} = {self._array(name)}[j]{' != 0.0' if flag else ''}")

        for name in of_pass:
            for operand in self.operations[name].reads:
                read(operand)
            body.append(f"{name} = {self.operations[name].text}")
            written.add(name)
            if name in self.buffered:  # buffers are float64: flags become 0.0 and 1.0
                value = f"float64({name})" if self.operations[name].flag else name
                body.append(f"v_{name}[j] = {value}")
        for name, value in self.results.items():
            light = value in self.level and not self.operations[value].loop
            if (value in of_pass) if of_pass else not light:
                read(value)
                body.append(f"b_{name}[j] = {_converted(value, self.outs[name].name)}")
        return ["for j in range(size):", *(f"    {line}" for line in body)] if body else []

    def _array(self, name: str) -> str:
        return f"r_{name}" if name in self.operands else f"v_{name}"


def _converted(value: str, dtype: str) -> str:
    """A value converted to its output's type; -1 in flags where undefined."""
    if dtype == "int8":
        return f"int8(select({value} != {value}, -1.0, {value}))"
    return f"{dtype}({value})"
