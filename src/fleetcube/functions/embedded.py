"""Programs called inside other functions that numba compiles; imports numba."""

import functools
from collections import namedtuple
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target
from numba.extending import NativeValue, intrinsic, models, overload, register_model, unbox

from fleetcube.kernels.engines import scalar
from fleetcube.kernels.engines.program import Program


class Embedded(types.Function):
    """The numba type of a function of a program, which may also be passed as an argument."""


register_model(Embedded)(models.OpaqueModel)


def _called(program: Program) -> Any:
    """The machine code of a program as a function inside others; never freed, as they are not.

    An address keeps numba from caching callers on disk by the user's file name: with another
    scenario in the same variable they would still call the earlier function.
    """
    kernel = scalar.compiled(program)
    kinds = [types.int8 if name in program.flags else types.float64 for name in program.outputs]
    tuple_of: Any = types.Tuple
    returns = tuple_of(kinds) if len(kinds) > 1 else kinds[0]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        convention, parameters = context.call_conv, signature.args
        address = context.add_dynamic_addr(builder, kernel.address, info="fleetcube")
        opaque = ir.FunctionType(ir.VoidType(), [address.type])
        builder.asm(opaque, "", "r", [address], side_effect=True)  # else it is optimised away
        kind = convention.get_function_type(returns, parameters)
        function = builder.bitcast(address, kind.as_pointer())
        return convention.call_function(builder, function, returns, parameters, arguments)[1]

    scope = {"made": (returns(*[types.float64] * len(program.inputs)), generate)}
    exec(f"def kernel(context, {', '.join(program.inputs)}): return made", scope)
    return intrinsic(scope["kernel"])


def _unboxed(kind: Any, value: Any, context: Any) -> Any:
    native: Any = NativeValue
    return native(context.context.get_dummy_value())


decorate: Any = unbox
decorate(Embedded)(_unboxed)


@functools.cache  # numba never releases what its compiler has seen
def type_of(program: Program) -> Embedded:
    """The numba type of a program's function, of numbers or arrays that broadcast."""
    scope: dict[str, Any] = {"np": np, "kernel": _called(program)}
    if len(program.outputs) > 1:
        scope["Outputs"] = namedtuple("Outputs", program.outputs)
    exec(compile(_source(program), "<fleetcube function>", "exec"), scope)

    def choose(*arguments: Any) -> Any:
        arrays = any(isinstance(argument, types.Array) for argument in arguments)
        return scope["over" if arrays else "point"]

    scope["choose"] = choose
    names = ", ".join(program.inputs)
    exec(f"def typed({names}): return choose({names})", scope)  # numba compares the names
    overload(scope["function"])(scope["typed"])
    cpu_target.typing_context.refresh()
    function_type = cpu_target.typing_context.resolve_value_type(scope["function"])
    return Embedded(function_type.templates[0])


def _source(program: Program) -> str:
    """Source of a stub, of the function of numbers, and of that of arrays."""
    names = ", ".join(program.inputs)
    shapes = ", ".join(f"np.shape({name})" for name in program.inputs)
    point = ", ".join(f"{name}[at]" for name in program.inputs)
    outs = [f"out{k}" for k in range(len(program.outputs))]
    several = len(outs) > 1
    lines = [
        f"def function({names}): pass",
        f"def point({names}):",
        f"    return {f'Outputs(*kernel({names}))' if several else f'kernel({names})'}",
        f"def over({names}):",
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
