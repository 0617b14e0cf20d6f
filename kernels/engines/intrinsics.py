"""What kernels do to tiles beyond arithmetic, as numba intrinsics.

`stream` copies a tile to memory past the cache, with non-temporal stores. An ordinary store first
reads the line it overwrites. A sweep writes each line once and whole, so streaming saves that read:
measured 31 against 20 GB/s on two cores into reused float64 arrays.

`apply` calls one of NumPy's loops on a tile.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LINE = 64  # bytes of a cache line


@intrinsic
def stream(typing_context: Any, target: Any, offset: Any, tile: Any, size: Any) -> Any:
    """target[offset : offset + size] = tile[:size], written around the cache."""
    signature = types.void(target, types.intp, tile, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, offset, tile, size = arguments
        dtype = signature.args[0].dtype
        width = dtype.bitwidth // 8
        element = context.get_data_type(dtype)
        word, lanes = ir.IntType(64), LINE // width
        vector = ir.VectorType(element, lanes).as_pointer()
        proxy: Any = cgutils.create_struct_proxy
        into = proxy(signature.args[0])(context, builder, target).data
        source = proxy(signature.args[2])(context, builder, tile).data
        into = builder.gep(into, [offset])

        # ordinary stores up to the first whole line, lines around the cache, the rest ordinary
        past = builder.and_(builder.ptrtoint(into, word), word(LINE - 1))
        missing = builder.and_(builder.sub(word(LINE), past), word(LINE - 1))
        head = builder.udiv(missing, word(width))
        head = builder.select(builder.icmp_signed("<", size, head), size, head)
        lines = builder.udiv(builder.sub(size, head), word(lanes))
        with cgutils.for_range(builder, head) as loop:
            value = builder.load(builder.gep(source, [loop.index]))
            builder.store(value, builder.gep(into, [loop.index]))
        hint = builder.module.add_metadata([ir.IntType(32)(1)])
        with cgutils.for_range(builder, lines) as loop:
            at = builder.add(head, builder.mul(loop.index, word(lanes)))
            line = builder.load(builder.bitcast(builder.gep(source, [at]), vector), align=width)
            stored = builder.store(
                line, builder.bitcast(builder.gep(into, [at]), vector), align=LINE
            )
            stored.set_metadata("nontemporal", hint)
        done = builder.add(head, builder.mul(lines, word(lanes)))
        with cgutils.for_range(builder, size, start=done) as loop:
            value = builder.load(builder.gep(source, [loop.index]))
            builder.store(value, builder.gep(into, [loop.index]))
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def apply(typing_context: Any, loops: Any, which: Any, source: Any, target: Any, size: Any) -> Any:
    """target[:size] = f(source[:size]), f the loop whose address and data are in loops[which]."""
    signature = types.void(loops, types.intp, source, target, types.intp)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loops, which, source, target, size = arguments
        word = ir.IntType(64)
        byte = ir.IntType(8).as_pointer()
        proxy: Any = cgutils.create_struct_proxy
        room: Any = cgutils.alloca_once
        table = proxy(signature.args[0])(context, builder, loops).data
        at = builder.mul(which, word(2))
        code = builder.load(builder.gep(table, [at]))
        data = builder.inttoptr(builder.load(builder.gep(table, [builder.add(at, word(1))])), byte)

        ends = room(builder, ir.ArrayType(byte, 2))
        steps = room(builder, ir.ArrayType(word, 2))
        count = room(builder, word)
        for k, array in enumerate((source, target)):
            start = proxy(signature.args[2 + k])(context, builder, array).data
            place = [word(0), word(k)]
            builder.store(builder.bitcast(start, byte), builder.gep(ends, place))
            builder.store(word(8), builder.gep(steps, place))
        builder.store(size, count)
        kind = ir.FunctionType(
            ir.VoidType(), [byte.as_pointer(), word.as_pointer(), word.as_pointer(), byte]
        )
        loop = builder.inttoptr(code, kind.as_pointer())
        first = [word(0), word(0)]
        builder.call(loop, [builder.gep(ends, first), count, builder.gep(steps, first), data])
        return context.get_dummy_value()

    return signature, generate
