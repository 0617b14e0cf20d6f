"""Operations of kernels as numba intrinsics: pointers, choices, and operations on tiles.

`stream` copies a tile to memory past the cache, with non-temporal stores. An ordinary store first
reads the line it overwrites; a sweep writes each line once and whole, so streaming saves that read:
measured 31 against 20 GB/s on two cores into reused float64 arrays.

`apply` calls exp or the like on a tile. `select`, `maximum` and the others are NumPy's to the bit;
numba's own use branches and its ufunc machinery, which compile slowly.
"""

import math
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from ..elementary import FRACTION, ONE, RAISED, TWO_TO_52, WIDTH

LINE = 64  # bytes of a cache line
WORD = ir.IntType(64)


def _pointer_to(dtype: Any) -> Any:
    kind: Any = types.CPointer
    return kind(dtype.dtype)


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """The address of an array's numbers."""
    proxy: Any = cgutils.create_struct_proxy
    return proxy(kind)(context, builder, array).data


@intrinsic
def pointer(typing_context: Any, addresses: Any, which: Any, dtype: Any) -> Any:
    """A pointer to numbers of a type at addresses[which]."""
    signature = _pointer_to(dtype)(addresses, types.intp, dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table = _data(context, builder, signature.args[0], arguments[0])
        address = builder.load(builder.gep(table, [arguments[1]]))
        return builder.inttoptr(address, context.get_value_type(signature.return_type))

    return signature, generate


@intrinsic
def part(typing_context: Any, room: Any, start: Any, dtype: Any) -> Any:
    """A pointer to numbers of a type from an element of an array on."""
    signature = _pointer_to(dtype)(room, types.intp, dtype)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = _data(context, builder, signature.args[0], arguments[0])
        place = builder.gep(array, [arguments[1]])
        return builder.bitcast(place, context.get_value_type(signature.return_type))

    return signature, generate


@intrinsic
def after(typing_context: Any, memory: Any, offset: Any) -> Any:
    """A pointer moved by a number of elements."""
    signature = memory(memory, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return signature, generate


@intrinsic
def select(typing_context: Any, condition: Any, if_true: Any, if_false: Any) -> Any:
    """One of two values, both computed already."""
    flags = if_true == if_false == types.boolean
    kind = types.boolean if flags else types.float64
    signature = kind(types.boolean, kind, kind)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return signature, generate


@intrinsic
def floor(typing_context: Any, x: Any) -> Any:
    return types.float64(types.float64), _intrinsic("llvm.floor")


@intrinsic
def ceil(typing_context: Any, x: Any) -> Any:
    return types.float64(types.float64), _intrinsic("llvm.ceil")


def _intrinsic(name: str) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = builder.module.declare_intrinsic(name, [ir.DoubleType()])
        return builder.call(function, arguments)

    return generate


@intrinsic
def two_to(typing_context: Any, k: Any) -> Any:
    """2^k of a whole k for which that is a normal number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        raised = builder.fadd(arguments[0], ir.DoubleType()(RAISED))
        bits = builder.shl(builder.bitcast(raised, WORD), WORD(WIDTH))
        return builder.bitcast(bits, ir.DoubleType())

    return types.float64(types.float64), generate


@intrinsic
def exponent(typing_context: Any, x: Any) -> Any:
    """The whole k of a normal number between 2^k and 2^(k+1)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        upper = builder.lshr(builder.bitcast(arguments[0], WORD), WORD(WIDTH))
        bits = builder.or_(upper, WORD(TWO_TO_52))
        return builder.fsub(builder.bitcast(bits, ir.DoubleType()), ir.DoubleType()(RAISED))

    return types.float64(types.float64), generate


@intrinsic
def significand(typing_context: Any, x: Any) -> Any:
    """A normal number over 2^k, between 1 and 2."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        fraction = builder.and_(builder.bitcast(arguments[0], WORD), WORD(FRACTION))
        return builder.bitcast(builder.or_(fraction, WORD(ONE)), ir.DoubleType())

    return types.float64(types.float64), generate


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


@intrinsic
def stream(typing_context: Any, target: Any, tile: Any, size: Any) -> Any:
    """target[:size] = tile[:size], written around the cache."""
    signature = types.void(target, tile, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.call(_streaming(context, builder.module, signature.args[0].dtype), arguments)
        return context.get_dummy_value()

    return signature, generate


def _streaming(context: Any, module: Any, dtype: Any) -> Any:
    """A function of the module: inlined, its loops took long to compile, once for each output."""
    element = context.get_data_type(dtype)
    memory = element.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [memory, memory, WORD])
    insert: Any = cgutils.get_or_insert_function
    function = insert(module, kind, f"fleetcube_stream_{dtype}")
    if not function.is_declaration:
        return function
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    into, source, size = function.args
    width = dtype.bitwidth // 8
    lanes = LINE // width
    vector = ir.VectorType(element, lanes).as_pointer()

    # a non-temporal store must be an aligned, whole line: ordinary stores before and after these
    past = builder.and_(builder.ptrtoint(into, WORD), WORD(LINE - 1))
    missing = builder.and_(builder.sub(WORD(LINE), past), WORD(LINE - 1))
    head = builder.udiv(missing, WORD(width))
    head = builder.select(builder.icmp_signed("<", size, head), size, head)
    lines = builder.udiv(builder.sub(size, head), WORD(lanes))
    with cgutils.for_range(builder, head) as loop:
        value = builder.load(builder.gep(source, [loop.index]))
        builder.store(value, builder.gep(into, [loop.index]))
    hint = module.add_metadata([ir.IntType(32)(1)])
    with cgutils.for_range(builder, lines) as loop:
        at = builder.add(head, builder.mul(loop.index, WORD(lanes)))
        line = builder.load(builder.bitcast(builder.gep(source, [at]), vector), align=width)
        stored = builder.store(line, builder.bitcast(builder.gep(into, [at]), vector), align=LINE)
        stored.set_metadata("nontemporal", hint)
    done = builder.add(head, builder.mul(lines, WORD(lanes)))
    with cgutils.for_range(builder, size, start=done) as loop:
        value = builder.load(builder.gep(source, [loop.index]))
        builder.store(value, builder.gep(into, [loop.index]))
    builder.ret_void()
    return function


@intrinsic
def apply(typing_context: Any, loops: Any, which: Any, source: Any, target: Any, size: Any) -> Any:
    """target[:size] = f(source[:size]), f one of `LOOPS`, whose code is at an address."""
    signature = types.void(loops, types.intp, source, target, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code = builder.inttoptr(arguments[0], loops_type(context).as_pointer())
        call_loops(builder, code, arguments[1:])
        return context.get_dummy_value()

    return signature, generate


def loops_type(context: Any) -> Any:
    """LLVM's type of the loops, by numba's calling convention."""
    return context.call_conv.get_function_type(types.void, LOOPS_SIGNATURE.args)


def call_loops(builder: Any, code: Any, arguments: Any) -> None:
    """Call the loops, which also take pointers for their result and an error."""
    room: Any = cgutils.alloca_once
    unused = [room(builder, kind.pointee) for kind in code.type.pointee.args[:2]]
    builder.call(code, [*unused, *arguments])


_NUMBERS = types.Array(types.int64, 1, "C")
_TABLE = types.Array(types.int64, 2, "C")
SIGNATURE = types.void(*[types.int64] * 5, _NUMBERS, _TABLE, _NUMBERS)  # of every kernel
_MEMORY = _pointer_to(types.DType(types.float64))
LOOPS_SIGNATURE = types.void(types.int64, _MEMORY, _MEMORY, types.int64)
_OPERATIONS: tuple[Any, ...] = (
    *(pointer, part, after, select, floor, ceil, maximum, minimum, stream, apply),
    *(two_to, exponent, significand),
)
SCOPE = {  # names in the source of a kernel
    **{name: getattr(types, name) for name in ("float64", "float32", "int8")},
    **{"abs": math.fabs, "sqrt": math.sqrt},
    **{operation.__name__: operation for operation in _OPERATIONS},
}
