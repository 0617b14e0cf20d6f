"""Gradients, elasticities and Jacobians of a sweep, as labelled arrays."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.calculus.derivatives import derivative, name_of, quantity, reaches
from ...kernels.graph import formulas as graph
from ...kernels.graph.formulas import parameters
from ...kernels.inputs import INPUTS
from ...kernels.roles import REASON
from ..errors import InputError, nearest, shown
from ..plan import memory
from ..plan.labels import coordinates
from ..plan.plan import Plan
from ..run.evaluation import Evaluation
from ..spec.values import is_option

if TYPE_CHECKING:
    import xarray


def names(sweep: Evaluation, of: Any, wrt: Any, elasticity: bool) -> list[list[str]]:
    """Names of the derivatives of outputs (rows) with respect to inputs (columns).

    Without `wrt`, of every continuous input that one of the outputs depends on.
    """
    outputs = [check_output(name) for name in ([of] if isinstance(of, str) else of)]
    if not outputs:
        raise InputError("of = [] names no quantity; name one")
    plan = sweep.of(outputs).plan()
    inputs = continuous(plan, outputs) if wrt is None else _check_inputs(plan, wrt)
    if not inputs:
        raise InputError(
            f"{', '.join(outputs)} depends on no continuous input here; name a quantity that does, "
            "or whole-numbered inputs with wrt"
        )
    return [[_name(one, other, elasticity) for other in inputs] for one in outputs]


def continuous(plan: Plan, outputs: Sequence[str], kinds: Sequence[str] = ("real",)) -> list[str]:
    """Inputs of some kinds that any of the outputs depends on, in the table's order."""
    found = reached(plan, outputs)
    return [name for name, row in INPUTS.items() if row.kind in kinds and name in found]


def reached(plan: Plan, outputs: Sequence[str]) -> set[str]:
    """Names whose changes reach any of the outputs, in any case."""
    return {name for case in plan.cases for name in reaches(case.formulas, outputs)}


def check_output(name: Any) -> str:
    """The name of a quantity that has a derivative."""
    if not isinstance(name, str) or name not in graph.load():
        raise InputError(
            f"of = {shown(name)} is not a quantity; {nearest(str(name), graph.load())}"
        )
    if graph.load()[name].unit == "flag":
        raise InputError(f"of = {name!r} is a flag, which has no derivative; name a number")
    return name


def check_input(plan: Plan, name: Any) -> str:
    """The name of an input, or of a quantity that is given, that is a number."""
    if not isinstance(name, str) or (name not in INPUTS and name not in graph.load()):
        raise InputError(f"{shown(name)} is not an input; {nearest(str(name), INPUTS)}")
    if is_option(name):
        raise InputError(f"{name!r} is an option, not a number; sweep it as an axis")
    for case in plan.cases:
        if name in case.formulas:
            raise InputError(
                f"{name!r} is computed from {', '.join(parameters(case.formulas[name]))}; "
                "give it in the scenario, or name an input"
            )
    return name


def _check_inputs(plan: Plan, wrt: Any) -> list[str]:
    inputs = [check_input(plan, name) for name in ([wrt] if isinstance(wrt, str) else wrt)]
    if not inputs or len(set(inputs)) < len(inputs):
        raise InputError(f"wrt = {shown(inputs)} is empty or names an input twice; name each once")
    return inputs


def _name(of: str, wrt: str, elasticity: bool) -> str:
    whole = wrt in INPUTS and INPUTS[wrt].kind == "count"
    return name_of(("delta" if whole else "d") + ("ln" if elasticity else ""), of, wrt)


def jacobian(
    sweep: Evaluation, rows: Sequence[Sequence[str]], engine: str, threads: int | None
) -> "xarray.DataArray":
    """Derivatives by (output, input, axes of any of them); see `Sweep.jacobian`."""
    import xarray

    flat = [name for row in rows for name in row]
    plan = sweep.plan(engine)
    held = {dim for name in flat for dim in plan.out_dims[name]}
    dims = [axis.name for axis in plan.problem.axes if axis.name in held]
    order = [axis.name for axis in plan.axes if axis.name in held]  # of memory
    shape = (len(rows), len(rows[0]), *plan.shape(order))
    memory.check(8 * int(np.prod(shape)), "differentiate by fewer inputs, or store it in blocks")
    array = np.empty(shape)
    views: dict[str, Any] = {}
    for i, row in enumerate(rows):
        for j, name in enumerate(row):
            if set(plan.out_dims[name]) == held:
                views[name] = (order, array[i, j, ...])
            else:
                own = plan.out_dims[name]
                views[name] = (own, np.empty(plan.shape(own)))
    if REASON in plan.outputs:
        own = plan.out_dims[REASON]
        views[REASON] = (own, np.empty(plan.shape(own), np.int8))
    result = sweep.evaluate(engine, out=xarray.Dataset(views), threads=threads)
    for i, row in enumerate(rows):
        for j, name in enumerate(row):
            if set(plan.out_dims[name]) != held:
                array[i, j] = (
                    result[name]
                    .broadcast_like(xarray.DataArray(np.empty(plan.shape(order)), dims=order))
                    .transpose(*order)
                    .values
                )
    asked = [[derivative(name) for name in row] for row in rows]
    coords: dict[str, Any] = coordinates(plan, held)
    coords["output"] = [row[0].of for row in asked if row[0]]
    coords["input"] = [one.wrt for one in asked[0] if one]
    coords["kind"] = (
        "input",
        ["difference" if one.kind.startswith("delta") else "derivative" for one in asked[0] if one],
        {"long_name": "exact derivative, or difference between neighbouring whole numbers"},
    )
    coords["units"] = (("output", "input"), [[quantity(name).unit for name in row] for row in rows])
    if REASON in result.coords and set(result.coords[REASON].dims) <= held:
        coords[REASON] = result.coords[REASON].variable
    turned = array.transpose([0, 1, *(2 + order.index(dim) for dim in dims)])
    name = "elasticity" if asked[0][0] and asked[0][0].kind.endswith("ln") else "gradient"
    return xarray.DataArray(turned, coords, ("output", "input", *dims), name, result.attrs)
