"""JAX in float64, jitted per block shape, on whatever device JAX finds."""

import functools
from typing import Any

import numpy as np

from ..graph.bind import Binding
from ..graph.formulas import Function, parameters
from .job import Job, store

# XLA's algebraic simplifier turns a division by a broadcast value into a multiplication by its
# inverse, so that the last bit would depend on which axes a sweep has.
_OPTIONS = {"xla_disable_hlo_passes": "algsimp"}


@functools.cache
def binding() -> Binding:
    import jax.numpy as jnp

    return Binding(jnp, jnp.where)


@functools.cache
def _program(formulas: tuple[tuple[str, Function], ...], wanted: tuple[str, ...]) -> Any:
    """One jitted function from operands to outputs."""
    import jax

    bound = {name: binding().bind(formula) for name, formula in formulas}

    def program(operands: dict[str, Any]) -> list[Any]:
        values = dict(operands)
        for name, formula in formulas:
            values[name] = bound[name](*[values[p] for p in parameters(formula)])
        return [values[name] for name in wanted]

    return jax.jit(program, compiler_options=_OPTIONS)


def run(job: Job, threads: int) -> None:
    """Fill the job's outputs; XLA brings its own threads."""
    import jax

    program = _program(tuple(job.formulas.items()), tuple(job.outs))
    with jax.enable_x64(True):  # here alone: the rest of the process keeps its own setting
        for out, value in zip(job.outs.values(), program(dict(job.operands)), strict=True):
            store(out, np.asarray(value))
