"""Programs as JAX functions, with the project's own derivatives of every order."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fleetcube.kernels.calculus.derivatives import name_of
from fleetcube.kernels.engines.jax import of_two
from fleetcube.kernels.engines.program import Program
from fleetcube.kernels.engines.scalar import source
from fleetcube.kernels.graph.trace import LIGHT, LOOPS

Values = dict[str, Any]


@functools.lru_cache(maxsize=256)
def traceable(program: Program) -> Callable[[Values], Values]:
    """A function from inputs to outputs that JAX transforms.

    Both are by name; inputs have one floating-point type and broadcast. JAX's own differentiation
    would give NaN where a branch not taken is undefined; here each derivative is again a program,
    made from dual numbers and differentiated in the same way.
    """
    import jax
    import jax.numpy as jnp

    # From the trace: formulas bound to JAX repeat shared operations, many times in derivatives
    scope: dict[str, Any] = {name: getattr(jnp, name) for name in (*LOOPS, *LIGHT)}
    scope |= of_two() | {"select": jnp.where, "float64": _as_it_is, "int8": _as_it_is, "np": np}
    exec(compile(source(program), "<fleetcube function>", "exec"), scope)
    kernel, several = scope["kernel"], len(program.outputs) > 1

    def compute(operands: Values) -> Values:
        arrays = [operands[name] for name in program.inputs]
        shape = jnp.broadcast_shapes(*(array.shape for array in arrays))
        outs = kernel(*arrays) if several else [kernel(*arrays)]
        return {
            name: jnp.broadcast_to(jnp.asarray(out, arrays[0].dtype), shape)
            for name, out in zip(program.outputs, outs, strict=True)
        }

    function = jax.custom_jvp(compute)

    def rule(primals: tuple[Values], tangents: tuple[Values]) -> tuple[Values, Values]:
        (operands,), (changes,) = primals, tangents
        zero = jax.custom_derivatives.SymbolicZero
        moving = tuple(n for n in program.inputs if not isinstance(changes[n], zero))
        values = traceable(program.derivatives(moving, program.outputs))(operands)
        spread: Values = {}
        for output in program.outputs:
            total = jnp.zeros_like(values[output])
            for wrt in moving:
                total = total + values[name_of("d", output, wrt)] * changes[wrt]
            spread[output] = total
        return {output: values[output] for output in program.outputs}, spread

    function.defjvp(rule, symbolic_zeros=True)
    return function


def jitted(program: Program) -> Callable[[Mapping[str, Any]], Values]:
    """The function of numbers and arrays that broadcast, also inside another trace."""
    import jax
    import jax.numpy as jnp

    function = traceable(program)

    def call(given: Mapping[str, Any]) -> Values:
        kind = jnp.result_type(*given.values(), float)
        outs = function({name: jnp.asarray(value, kind) for name, value in given.items()})
        return outs | {name: outs[name].astype(jnp.int8) for name in program.flags}

    return jax.jit(call)


def _as_it_is(value: Any) -> Any:
    return value
