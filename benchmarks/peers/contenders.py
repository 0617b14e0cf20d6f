"""The same formulas evaluated in simpler ways."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fleetcube.grid.sweep import Sweep
from fleetcube.kernels import numpy_engine
from fleetcube.kernels.bind import Binding
from fleetcube.kernels.graph import Function, parameters


def dense_numpy(sweep: Sweep) -> Callable[[], object]:
    """Every formula on columns of the full grid, one value for each point."""
    plan = sweep.plan("numpy")
    (case,) = plan.cases
    shape = plan.shape(plan.sizes)
    columns = {
        name: np.broadcast_to(leaf, shape).copy() if leaf.size > 1 else leaf
        for name, leaf in case.leaves.items()
    }

    def evaluate() -> object:
        values = numpy_engine.evaluate(case.formulas, columns)
        return {name: values[name] for name in plan.outputs}

    return evaluate


def broadcast_xarray(sweep: Sweep) -> Callable[[], object]:
    """Every formula on labelled arrays, each of its own dimensions."""
    import xarray

    plan = sweep.plan("numpy")
    (case,) = plan.cases
    dims = list(plan.sizes)
    inputs = {}
    for name, leaf in case.leaves.items():
        own = [dim for dim, size in zip(dims, leaf.shape, strict=True) if size > 1]
        inputs[name] = xarray.DataArray(leaf.reshape([plan.sizes[dim] for dim in own]), dims=own)
    formulas = bound(Binding(np, xarray.where), case.formulas)

    def evaluate() -> object:
        with np.errstate(all="ignore"):
            values = chain(formulas, inputs)
        return xarray.Dataset({name: values[name] for name in plan.outputs})

    return evaluate


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
