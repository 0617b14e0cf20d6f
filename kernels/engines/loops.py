"""The compiled loops of exp, log and similar functions, which kernels and functions call.

They are compiled once, not in each kernel. Kernels call them on tiles by address, functions of one
point by a symbol resolved when machine code is loaded, so that it can be cached.
"""

import functools
from ctypes import c_int64
from types import SimpleNamespace
from typing import Any

from .. import elementary
from ..graph.trace import LOOPS, Trace, Value, where
from . import kernel_cache
from .job import Array


def source() -> str:
    """target[:size] = f(source[:size]), f = LOOPS[which]."""
    lines = ["def kernel(which: word, source: float64s, target: float64s, size: word):"]
    for which, name in enumerate(LOOPS):
        trace = Trace()
        result = elementary.FUNCTIONS[name](_library(trace), Value(trace, "x"))
        lines += [f"    if which == {which}:", "        for j in range(size):"]
        lines.append("            x = source[j]")
        for value, operation in trace.operations.items():
            lines.append(f"            {value} = {operation.text}")
        lines.append(f"            target[j] = {result.name}")
    return "\n".join([*lines, ""])


def _library(trace: Trace) -> Any:
    """The operations of a trace, by their names in `lowering`."""

    def recorded(name: str, count: int) -> Any:
        template = f"{name}({', '.join(['{}'] * count)})"
        return lambda *values: trace.record(template, values)

    arity = {"two_to": 1, "exponent": 1, "significand": 1, "minimum": 2, "maximum": 2}
    return SimpleNamespace(where=where, **{name: recorded(name, n) for name, n in arity.items()})


@functools.cache
def _loaded() -> Any:
    from . import machine_code

    return machine_code.load(kernel_cache.lowered(source())[0], *[c_int64] * 4)


def address() -> int:
    """The address of the loops' machine code, which is never freed."""
    return int(_loaded().address)


def call(which: int, source: Array, target: Array) -> None:
    """target[:] = f(source), f = LOOPS[which]; both dense float64."""
    _loaded().call(which, source.ctypes.data, target.ctypes.data, source.size)
