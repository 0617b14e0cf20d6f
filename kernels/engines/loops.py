"""The compiled loops of exp, log and similar functions, which kernels and functions call.

They are compiled once, not in each kernel. Kernels call them on tiles by address, functions of one
point by a symbol resolved when machine code is loaded, so that it can be cached.
"""

import ctypes
import functools
from types import SimpleNamespace
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from .. import elementary
from ..graph.trace import LOOPS, Trace, Value, where
from . import intrinsics, kernel_cache
from .job import Array

_SYMBOL = "fleetcube_elementary"


def source() -> str:
    """target[:size] = f(source[:size]), f = LOOPS[which]."""
    lines = ["def kernel(which, source, target, size):"]
    for which, name in enumerate(LOOPS):
        trace = Trace()
        result = elementary.FUNCTIONS[name](_library(trace), Value(trace, "x"))
        lines += [f"    if which == {which}:", "        for j in range(size):"]
        lines.append("            x = source[j]")
        for own, operation in trace.operations.items():
            lines.append(f"            {own} = {operation.text}")
        lines.append(f"            target[j] = {result.name}")
    return "\n".join([*lines, ""])


def _library(trace: Trace) -> Any:
    """The operations of a trace, by their names in `intrinsics`."""

    def recorded(name: str, count: int) -> Any:
        template = f"{name}({', '.join(['{}'] * count)})"
        return lambda *values: trace.record(template, values)

    arity = {"two_to": 1, "exponent": 1, "significand": 1, "minimum": 2, "maximum": 2}
    return SimpleNamespace(where=where, **{name: recorded(name, n) for name, n in arity.items()})


@functools.cache
def _loaded() -> Any:
    scope = {"np": np, **intrinsics.SCOPE}
    return kernel_cache.jitted(source(), scope, intrinsics.LOOPS_SIGNATURE)[0]


def address() -> int:
    """The address of the loops' machine code, which is never freed."""
    return int(_loaded().address)


def call(which: int, source: Array, target: Array) -> None:
    """target[:] = f(source), f = LOOPS[which]; both dense float64."""
    unused = ctypes.byref(ctypes.c_void_p())
    _function()(unused, unused, which, source.ctypes.data, target.ctypes.data, source.size)


@functools.cache
def _function() -> Any:
    place, word = ctypes.c_void_p, ctypes.c_int64
    return ctypes.CFUNCTYPE(ctypes.c_int32, place, place, word, place, place, word)(address())


def _called(which: int) -> Any:

    @intrinsic
    def function(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            room: Any = cgutils.alloca_once
            insert: Any = cgutils.get_or_insert_function
            source, target = (room(builder, ir.DoubleType()) for _ in range(2))
            builder.store(arguments[0], source)
            code = insert(builder.module, intrinsics.loops_type(context), _SYMBOL)
            word = intrinsics.WORD
            intrinsics.call_loops(builder, code, [word(which), source, target, word(1)])
            return builder.load(target)

        return types.float64(types.float64), generate

    return function


@functools.cache
def called() -> dict[str, Any]:
    """`LOOPS` on single numbers."""
    llvmlite.binding.add_symbol(_SYMBOL, address())
    return {name: _called(which) for which, name in enumerate(LOOPS)}
