"""Functions of programs inside other functions that numba compiles; imports numba."""

import ctypes
import functools
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target
from numba.extending import NativeValue, intrinsic, models, overload, register_model, unbox

from . import scalar
from .program import Program

_HERE = ctypes.c_byte()  # what `uncached` refers to, alive as long as the process


class Embedded(types.Function):
    """The numba type of a function of a program, which may also be passed as an argument."""


register_model(Embedded)(models.OpaqueModel)


@intrinsic
def uncached(typing_context: Any) -> Any:
    """Keep numba from caching on disk what calls this; it warns, and compiles in each process.

    numba names machine code by the user's file: with another scenario in the same variable it would
    go on to call the function of before.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = context.add_dynamic_addr(builder, ctypes.addressof(_HERE), info="fleetcube")
        kind = ir.FunctionType(ir.VoidType(), [address.type])
        builder.asm(kind, "", "r", [address], side_effect=True)  # else it is optimised away
        return context.get_dummy_value()

    return types.void(), generate


def _unboxed(kind: Any, value: Any, context: Any) -> Any:
    native: Any = NativeValue
    return native(context.context.get_dummy_value())


decorate: Any = unbox
decorate(Embedded)(_unboxed)


@functools.lru_cache(maxsize=256)
def type_of(program: Program) -> Embedded:
    """What a function of a program is to numba: it takes numbers, or arrays that broadcast."""
    kernel = scalar.compiled(program)
    scope: dict[str, Any] = {**kernel.py_func.__globals__, "np": np, "kernel": kernel}
    scope["uncached"] = uncached
    exec(compile(_source(program), "<fleetcube function>", "exec"), scope)

    def choose(*arguments: Any) -> Any:
        arrays = any(isinstance(argument, types.Array) for argument in arguments)
        return scope["over" if arrays else "point"]

    scope["choose"] = choose
    names = ", ".join(program.inputs)
    exec(f"def typed({names}): return choose({names})", scope)  # numba compares the names
    overload(scope["function"])(scope["typed"])
    cpu_target.typing_context.refresh()
    known = cpu_target.typing_context.resolve_value_type(scope["function"])
    return Embedded(known.templates[0])


def _source(program: Program) -> str:
    """A stub, what it does to numbers, and what it does to arrays."""
    names = ", ".join(program.inputs)
    shapes = ", ".join(f"np.shape({name})" for name in program.inputs)
    point = ", ".join(f"{name}[at]" for name in program.inputs)
    outs = [f"out{k}" for k in range(len(program.outputs))]
    several = len(outs) > 1
    lines = [
        f"def function({names}): pass",
        f"def point({names}):",
        "    uncached()",
        f"    return kernel({names})",
        f"def over({names}):",
        "    uncached()",
        f"    shape = np.broadcast_shapes({shapes})",
    ]
    lines += [f"    {name} = np.broadcast_to({name}, shape)" for name in program.inputs]
    for out, name in zip(outs, program.outputs, strict=True):
        kind = "int8" if name in program.flags else "float64"
        lines.append(f"    {out} = np.empty(shape, np.{kind})")
    lines += ["    for at in np.ndindex(shape):", f"        result = kernel({point})"]
    for k, out in enumerate(outs):
        lines.append(f"        {out}[at] = {f'result[{k}]' if several else 'result'}")
    listed = ", ".join(outs)
    lines.append(f"    return {f'Outputs({listed})' if several else listed}")
    return "\n".join(lines)
