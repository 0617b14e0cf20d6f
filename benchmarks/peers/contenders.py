"""The same formulas evaluated in simpler ways."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fleetcube.kernels.engines import numpy as numpy_engine
from fleetcube.kernels.graph.bind import Binding
from fleetcube.kernels.graph.formulas import Function, parameters
from fleetcube.sweep import Sweep


def dense_numpy(sweep: Sweep) -> Callable[[], Any]:
    """Every formula on columns of the full grid, one value for each point."""
    plan = sweep._plan("numpy")
    (case,) = plan.cases
    shape = plan.shape(plan.sizes)
    columns = {
        name: np.broadcast_to(leaf, shape).copy() if leaf.size > 1 else leaf
        for name, leaf in case.leaves.items()
    }

    def evaluate() -> Any:
        values = numpy_engine.evaluate(case.formulas, columns)
        return {name: values[name] for name in plan.outputs}

    return evaluate


def broadcast_xarray(sweep: Sweep) -> Callable[[], Any]:
    """Every formula on labelled arrays, each of its own dimensions."""
    import xarray

    plan = sweep._plan("numpy")
    (case,) = plan.cases
    dims = list(plan.sizes)
    inputs = {}
    for name, leaf in case.leaves.items():
        dims_of_leaf = [dim for dim, size in zip(dims, leaf.shape, strict=True) if size > 1]
        inputs[name] = xarray.DataArray(
            leaf.reshape([plan.sizes[dim] for dim in dims_of_leaf]), dims=dims_of_leaf
        )
    formulas = bound(Binding(np, xarray.where), case.formulas)

    def evaluate() -> Any:
        with np.errstate(all="ignore"):
            values = chain(formulas, inputs)
        return xarray.Dataset({name: values[name] for name in plan.outputs})

    return evaluate


def fused_jax(sweep: Sweep, then: Callable[[Any], Any] = lambda outs: outs) -> Callable[[], Any]:
    """Every formula, and something after them, in one compiled JAX program.

    Arrays have their own dimensions.
    """
    jax: Any = importlib.import_module("jax")
    plan = sweep._plan("jax")
    (case,) = plan.cases
    formulas = bound(Binding(jax.numpy, jax.numpy.where), case.formulas)
    with jax.enable_x64(True):
        inputs = {name: jax.numpy.asarray(leaf) for name, leaf in case.leaves.items()}

    def outputs(leaves: dict[str, Any]) -> Any:
        values = chain(formulas, leaves)
        return then({name: values[name] for name in plan.outputs})

    compiled = jax.jit(outputs)

    def evaluate() -> Any:
        with jax.enable_x64(True):
            return jax.block_until_ready(compiled(inputs))

    return evaluate


def dense_jax(
    sweep: Sweep, wanted: str, inputs: Sequence[str]
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """JAX on arrays of the whole grid: an output, and its gradient by reverse mode."""
    jax: Any = importlib.import_module("jax")
    plan = sweep._plan("jax")
    (case,) = plan.cases
    formulas = bound(Binding(jax.numpy, jax.numpy.where), case.formulas)
    shape = plan.shape(plan.sizes)
    with jax.enable_x64(True):
        full = {
            name: jax.numpy.asarray(np.broadcast_to(leaf, shape).copy())
            for name, leaf in case.leaves.items()
            if name in inputs or leaf.size > 1
        }
        rest = {name: float(leaf.flat[0]) for name, leaf in case.leaves.items() if leaf.size == 1}

    def output(leaves: dict[str, Any]) -> Any:
        return chain(formulas, {**rest, **leaves})[wanted]

    def gradient(leaves: dict[str, Any]) -> Any:
        value, back = jax.vjp(output, leaves)
        return back(jax.numpy.ones_like(value))

    compiled = [jax.jit(output), jax.jit(gradient)]

    def ready(program: Any) -> Any:
        with jax.enable_x64(True):
            return jax.block_until_ready(program(full))

    return lambda: ready(compiled[0]), lambda: ready(compiled[1])


def bound(
    binding: Binding, formulas: Mapping[str, Function]
) -> list[tuple[str, Function, tuple[str, ...]]]:
    """Formulas in order, bound to an array library, with what each needs."""
    return [
        (name, binding.bind(formula), parameters(formula)) for name, formula in formulas.items()
    ]


def chain(
    formulas: list[tuple[str, Function, tuple[str, ...]]], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Evaluate formulas one after another."""
    values = dict(inputs)
    for name, formula, needed in formulas:
        values[name] = formula(*[values[parameter] for parameter in needed])
    return values
