"""Gradients, elasticities and Jacobians of a sweep, as labelled arrays."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.catalog import KINDS
from fleetcube.grid.errors import InputError, check_texts, nearest, shown
from fleetcube.grid.plan import memory
from fleetcube.grid.plan.labels import coordinates, dtype_of
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.values import is_known, is_option, is_whole
from fleetcube.kernels.calculus.derivatives import Derivative, derivative, name_of, reaches
from fleetcube.kernels.calculus.phased_formulas import phase_of, without_phase
from fleetcube.kernels.graph.bind import definitions
from fleetcube.kernels.graph.formulas import Graph, parameters
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import UNCOUNTED
from fleetcube.scenario.auto import CELL_INPUTS

if TYPE_CHECKING:
    import xarray

KINDS_OF = ("gradient", "elasticity")


def named_derivatives(
    sweep: Evaluation, names: Any, wrt: Any, elasticity: bool
) -> list[list[Derivative]]:
    """The derivatives of outputs (rows) by inputs (columns), by default by all continuous ones."""
    outputs = [check_quantity(sweep.graph, name) for name in check_texts("of", names)]
    if not outputs:
        raise InputError("of = [] is empty; name a quantity")
    plan = sweep.with_outputs(outputs)._plan()
    inputs = continuous(plan, outputs) if wrt is None else check_inputs(plan, wrt)
    if wrt is not None and (not inputs or len(set(inputs)) < len(inputs)):
        raise InputError(f"wrt = {shown(inputs)} is empty or names an input twice; name each once")
    if not inputs:
        raise InputError(
            f"{', '.join(outputs)} depends on no continuous input here; name a quantity that does, "
            "or whole-numbered inputs with wrt"
        )
    return [
        [derivative_of(sweep.graph, output, input_, elasticity) for input_ in inputs]
        for output in outputs
    ]


def continuous(plan: Plan, outputs: Sequence[str]) -> list[str]:
    """Continuous inputs that any of the outputs depends on, in the table's order."""
    felt = reached(plan, outputs)
    plain = [name for name, row in plan.graph.inputs.items() if row.kind == "real" and name in felt]
    return plain + [name for name in of_phases(plan, felt) if not is_whole(plan.graph, name)]


def of_phases(plan: Plan, felt: Collection[str]) -> list[str]:
    """Phase-specific inputs among the names in `felt`."""
    names = dict.fromkeys(name for case in plan.cases for name in case.leaves if phase_of(name))
    return [name for name in names if name in felt and without_phase(name) in plan.graph.inputs]


def reached(plan: Plan, outputs: Sequence[str]) -> frozenset[str]:
    """Names that any of the outputs depends on, in any case."""
    notes: dict[Any, frozenset[str]] = plan.structure.notes
    key = ("reached", *outputs)
    if key not in notes:  # formulas are those of the structure
        notes[key] = frozenset[str]().union(*(reaches(c.formulas, outputs) for c in plan.cases))
    return notes[key]


def uncounted(plan: Plan, inputs: Sequence[str]) -> dict[str, str]:
    """An attribute with the effects of inputs that no formula in use counts; empty if none."""
    formulas = {formula for case in plan.cases for formula in case.formulas.values()}
    used = {definition.__name__ for formula in formulas for definition in definitions(formula)}
    lines = [
        f"{name}: {remark}"
        for name, (counting, remark) in UNCOUNTED.items()
        if name in map(without_phase, inputs) and counting not in used
    ]
    lines += [f"{name}: {_CONSTANT}" for name in inputs if is_held(plan, name)]
    return {"fleetcube_uncounted": "\n".join(lines)} if lines else {}


_CONSTANT = "efficiencies stay as calibrated here; a run with another value calibrates anew"


def is_held(plan: Plan, name: str) -> bool:
    """True if calibration "auto" would pick other coefficients if this input changed."""
    return bool(plan.problem.inferred) and without_phase(name) in CELL_INPUTS


def check_quantity(graph: Graph, name: Any) -> str:
    """The name of a quantity, checked to have a derivative."""
    if not isinstance(name, str) or (quantity := graph.get(name)) is None:
        raise InputError(
            f"of = {shown(name)} is not a quantity; {nearest(str(name), graph.quantities)}"
        )
    if quantity.unit == "flag":
        raise InputError(f"of = {name!r} is a flag, which has no derivative; name a number")
    return name


def check_inputs(plan: Plan, wrt: Any) -> list[str]:
    return [_check_input(plan, name) for name in check_texts("wrt", wrt)]


def _check_input(plan: Plan, name: Any) -> str:
    if isinstance(name, str) and name in KINDS:
        leaves = {leaf for case in plan.cases for leaf in case.leaves}
        numbers = [n for n in KINDS[name] if n in leaves and not is_option(plan.graph, n)][:3]
        such = f" that it sets, such as {', '.join(numbers)}" if numbers else ""
        raise InputError(
            f"{name!r} is a label, which has no derivative; name a number{such}, or leave wrt out "
            "for all numbers that vary smoothly"
        )
    if not isinstance(name, str) or not is_known(plan.graph, name):
        raise InputError(f"{shown(name)} is not an input; {nearest(str(name), plan.graph.inputs)}")
    if is_option(plan.graph, name):
        raise InputError(f"{name!r} is an option, not a number; sweep it as an axis")
    for case in plan.cases:
        if name in case.formulas:
            raise InputError(
                f"{name!r} is computed from {', '.join(parameters(case.formulas[name]))}; "
                "give it in the scenario, or name an input"
            )
    return name


def derivative_of(graph: Graph, output: str, wrt: str, elasticity: bool) -> Derivative:
    """The derivative by an input; for a whole-numbered one the difference between neighbours."""
    kind = ("delta" if is_whole(graph, wrt) else "d") + ("ln" if elasticity else "")
    slope = derivative(graph, name_of(kind, output, wrt))
    assert slope is not None  # both are checked by whoever asks
    return slope


def derivatives(
    sweep: Evaluation, names: Any, wrt: Any, kind: str, settings: Settings
) -> "xarray.DataArray":
    """Derivatives by (output, input, axes of any of them); see `Sweep.derivatives`."""
    import xarray

    if kind not in KINDS_OF:
        raise InputError(f"kind = {shown(kind)} is unknown; choose one of {', '.join(KINDS_OF)}")
    rows = named_derivatives(sweep, names, wrt, kind == "elasticity")
    flat = [slope.name for row in rows for slope in row]
    sweep = sweep.with_outputs(flat)
    plan = sweep._plan(settings.engine, False)
    wanted = {dim for name in flat for dim in plan.out_dims[name]}
    dims = [axis.name for axis in plan.problem.axes if axis.name in wanted]
    order = [axis.name for axis in plan.axes if axis.name in wanted]  # in memory order
    shape = (len(rows), len(rows[0]), *plan.shape(order))
    memory.check(8 * int(np.prod(shape)), "differentiate by fewer inputs, or store it in blocks")
    array = np.empty(shape)
    targets = {
        slope.name: array[i, j, ...] for i, row in enumerate(rows) for j, slope in enumerate(row)
    }
    # Evaluated in place if it has every dimension, else into a separate array and broadcast
    views: dict[str, Any] = {}
    for name, varying in plan.out_dims.items():
        direct = name in targets and set(varying) == wanted
        empty = (
            targets[name]
            if direct
            else np.empty(plan.shape(varying), dtype_of(plan.graph, name, float))
        )
        views[name] = (varying, empty)
    out = xarray.Dataset(views)
    result = sweep.evaluate(out, settings=replace(settings, infeasible="include"))
    for name, target in targets.items():
        varying, values = views[name]
        if values is not target:
            target[...] = values.reshape(
                [plan.sizes[dim] if dim in varying else 1 for dim in order]
            )
    coords: dict[str, Any] = coordinates(plan, wanted)
    coords["output"] = [row[0].output for row in rows]
    coords["input"] = [slope.wrt for slope in rows[0]]
    coords["kind"] = (
        "input",
        ["difference" if is_whole(plan.graph, slope.wrt) else "derivative" for slope in rows[0]],
        {"long_name": "exact derivative, or difference between neighbouring whole numbers"},
    )
    coords["units"] = (("output", "input"), [[slope.unit for slope in row] for row in rows])
    if REASON in result.coords and set(result.coords[REASON].dims) <= wanted:
        coords[REASON] = result.coords[REASON].variable
    # Filled in memory order, returned in the order of the axes
    turned = array.transpose([0, 1, *(2 + order.index(dim) for dim in dims)])
    labelled = xarray.DataArray(turned, coords, ("output", "input", *dims), kind, result.attrs)
    return labelled.isel(output=0) if isinstance(names, str) else labelled
