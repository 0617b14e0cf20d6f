"""Operations of functions of one point as numba intrinsics, NumPy's to the bit.

numba's own use branches and its ufunc machinery, which compile slowly. exp and the like call the
kernels' loops by a symbol resolved when machine code is loaded, so that it can be cached.
"""

import functools
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from ..elementary import INSTRUCTIONS
from ..graph.trace import LOOPS
from . import loops

_SYMBOL = "fleetcube_elementary"
_WORD, _NUMBER = ir.IntType(64), ir.DoubleType()


@intrinsic
def select(typing_context: Any, condition: Any, if_true: Any, if_false: Any) -> Any:
    """One of two values, both computed already."""
    flags = if_true == if_false == types.boolean
    kind = types.boolean if flags else types.float64
    signature = kind(types.boolean, kind, kind)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return signature, generate


def _instruction(name: str) -> Any:

    @intrinsic
    def function(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            code = builder.module.declare_intrinsic(f"llvm.{name}", [_NUMBER])
            return builder.call(code, arguments)

        return types.float64(types.float64), generate

    return function


@intrinsic
def maximum(typing_context: Any, x: Any, y: Any) -> Any:
    """The larger of two numbers, NaN where one is."""
    return types.float64(types.float64, types.float64), _ordered(">=")


@intrinsic
def minimum(typing_context: Any, x: Any, y: Any) -> Any:
    """The smaller of two numbers, NaN where one is."""
    return types.float64(types.float64, types.float64), _ordered("<=")


def _ordered(order: str) -> Any:
    """The first of two numbers where it is a NaN or the order holds, else the second."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y = arguments
        holds = builder.fcmp_ordered(order, x, y)
        return builder.select(builder.or_(builder.fcmp_unordered("uno", x, x), holds), x, y)

    return generate


def _called(which: int) -> Any:

    @intrinsic
    def function(typing_context: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            room: Any = cgutils.alloca_once
            insert: Any = cgutils.get_or_insert_function
            source, target = (room(builder, _NUMBER) for _ in range(2))
            builder.store(arguments[0], source)
            kinds = [_WORD, source.type, target.type, _WORD]
            code = insert(builder.module, ir.FunctionType(ir.VoidType(), kinds), _SYMBOL)
            builder.call(code, [_WORD(which), source, target, _WORD(1)])
            return builder.load(target)

        return types.float64(types.float64), generate

    return function


@functools.cache
def called() -> dict[str, Any]:
    """`LOOPS` on single numbers."""
    llvmlite.binding.add_symbol(_SYMBOL, loops.address())
    return {name: _called(which) for which, name in enumerate(LOOPS)}


SCOPE = {  # names in the source of a function
    **{"float64": types.float64, "int8": types.int8},
    **{"select": select, "maximum": maximum, "minimum": minimum},
    **{name: _instruction(code) for name, code in INSTRUCTIONS.items()},
}
