"""From arrays to an xarray Dataset with coordinates, units and sources."""

import functools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.calculus.derivatives import derivative, is_quantity, quantity
from ...kernels.calculus.phased_formulas import without_phase
from ...kernels.graph.bind import definitions
from ...kernels.graph.docstrings import read
from ...kernels.graph.formulas import Graph, parameters
from ...kernels.graph.roles import REASON
from ..result import Result, called
from ..spec import graphs
from ..spec.application import application
from ..spec.axis import Array, Axis
from ..spec.values import choice_labels, is_whole
from .plan import Plan
from .written import written

if TYPE_CHECKING:
    import xarray

CITATIONS = "fleetcube_citations"  # attribute: keys of the works that a result rests on
REMARKS = "fleetcube_remarks"  # attribute: what a result stands on, a line each
ASSUMED = "fleetcube_assumed"  # attribute: what decides an answer and nobody stated, likewise
UNUSED = "fleetcube_unused"  # attribute: inputs that nothing depends on
DEFAULTS = "fleetcube_defaults"  # attribute: inputs left to defaults
PARTLY = "fleetcube_defaults_partly"  # attribute: those left to defaults at some points only
MOST_COMPARED = 1 << 16  # bytes of coordinates that plans may share
END_OF = "interval_of"  # attribute of an interval's end: the variable of the interval
FILL = "_FillValue"  # encoding of flags: what stands for no value in files of xarray
ERROR_OF = "error_of"  # attribute of an estimated error: the variable


def dtype_of(graph: Graph, name: str, dtype: Any) -> Any:
    """Type of an output: flags are int8, numbers as requested."""
    return np.dtype(np.int8) if quantity(graph, name).unit == "flag" else np.dtype(dtype)


def flags(meanings: Mapping[int, str]) -> dict[str, Any]:
    """Codes and meanings of a flag, CF style."""
    codes = np.array(list(meanings), np.int8)
    codes.flags.writeable = False  # shared by results
    return {"flag_values": codes, "flag_meanings": " ".join(meanings.values())}


def attributes(plan: Plan, name: str) -> dict[str, Any]:
    """CF-style units, meaning, sources, flags and conventions of a name, for formulas in use."""
    if not is_quantity(plan.graph, name):
        plain = without_phase(name)
        if plain not in plan.graph.inputs:
            return attributes(plan, plain)
        return {
            "units": plan.graph.inputs[plain].unit,
            "long_name": plan.graph.inputs[plain].description,
        }
    notes = plan.structure.notes
    if ("attributes", name) not in notes:
        notes["attributes", name] = _attributes(plan, name)
    return dict(notes["attributes", name])


def _attributes(plan: Plan, name: str) -> dict[str, Any]:
    in_use = {case.formulas[name]: None for case in plan.cases if name in case.formulas}
    used = {function: None for formula in in_use for function in definitions(formula)}
    docs = [quantity(plan.graph, name).doc]
    if used and not derivative(plan.graph, name):
        docs = [read(formula) for formula in used]
    doc = docs[0]
    sources = "; ".join(dict.fromkeys(doc.source for doc in docs)) if used else "given"
    attrs: dict[str, Any] = {"long_name": doc.summary.rstrip("."), "references": sources}
    if doc.flags:
        return attrs | flags(doc.flags)
    attrs["units"] = doc.unit
    if conventions := _conventions(plan).get(name):
        attrs["convention"] = ", ".join(conventions)
    return attrs


def _conventions(plan: Plan) -> Mapping[str, Mapping[str, None]]:
    """Counting conventions by result: choices of such options among its formulas."""
    graph, notes = plan.graph, plan.structure.notes
    conventions: dict[str, dict[str, None]] | None = notes.get("conventions")
    if conventions is not None:
        return conventions
    conventions = {}
    counted = {
        name: quantity.formulas
        for name, quantity in graph.quantities.items()
        if quantity.option and graph.inputs[quantity.option].convention
    }
    for row in {id(case.formulas): case.formulas for case in plan.cases}.values():
        by_name: dict[str, dict[str, None]] = {}
        for name, formula in row.items():
            choices = counted.get(without_phase(name), {}).items()
            chosen = {str(choice): None for choice, one in choices if one in definitions(formula)}
            for parameter in parameters(formula):
                chosen |= by_name.get(parameter, {})
            by_name[name] = chosen
        for name, chosen in by_name.items():
            conventions.setdefault(name, {}).update(chosen)
    notes["conventions"] = conventions  # once whole: other threads read it
    return conventions


def ordered(plan: Plan, dims: Sequence[str], array: Array) -> tuple[list[str], Array]:
    """The first dimensions of an array, and the array, in the order in which axes were written."""
    order = [axis.name for axis in plan.problem.axes if axis.name in dims]
    rest = range(len(dims), array.ndim)
    return order, array.transpose([*(dims.index(dim) for dim in order), *rest])


def coordinates(plan: Plan, dims: Iterable[str] | None = None) -> dict[str, Any]:
    """Coordinates of every axis that an output has, or of `dims`, and the inputs along it."""
    coords: dict[str, Any] = {}
    used = {dim for name in plan.outputs for dim in plan.out_dims[name]} if dims is None else dims
    hidden = {*plan.outputs, *(plan.problem.inferred - plan.structure.used)}
    for axis in plan.problem.axes:
        if axis.name in used:
            coords[axis.name] = (axis.name, _whole(plan.graph, axis), axis_attributes(plan, axis))
            for name, row in axis.numbers.items():
                if name != axis.name and name not in hidden:
                    coords[name] = (axis.name, row.copy(), attributes(plan, name))
            for name, choices in {**axis.options, **axis.records}.items():
                if name != axis.name:
                    coords[name] = (
                        axis.name,
                        choice_labels(plan.graph, name, choices),
                        {"long_name": name},
                    )
    for name, (names, row) in plan.problem.tables.items():
        if {*names} <= {*coords} and name not in hidden and without_phase(name) == name:
            coords[name] = (names, row.copy(), attributes(plan, name))
    return coords


def _whole(graph: Graph, axis: Axis) -> Array:
    """The labels of an axis; counts as whole numbers."""
    labels = axis.labels
    if axis.name not in axis.numbers or not is_whole(graph, axis.name) or labels.dtype.kind != "f":
        return labels
    counts = np.abs(labels) < 2.0**53
    return labels.astype(np.int64) if (counts & (labels == np.rint(labels))).all() else labels


def axis_attributes(plan: Plan, axis: Axis) -> dict[str, Any]:
    if axis.name in axis.numbers:
        return attributes(plan, axis.name)
    if axis.name in plan.graph.inputs:
        return {"long_name": plan.graph.inputs[axis.name].description}
    names = ", ".join(axis.inputs)
    return {"long_name": f"{names} together" if axis.name not in axis.records else axis.name}


def origin(
    plan: Plan,
    spec: Mapping[str, Any],
    stored_axes: Collection[str] | None = None,
    varied: Collection[str] = (),
) -> dict[str, Any]:
    """Attributes that record a result's origin and allow recomputing it, as `called` takes them.
    `stored_axes` is as in `written`; `varied` are inputs set outside the plan."""
    module = application(plan.graph)
    defaults, partly = module.defaults(plan, varied) if module else ({}, [])
    unused, lines = plan.unused(), remarks(plan)
    medians_used = plan.problem.distributions.keys() - {*varied}
    medians = {n: value for n, value in plan.problem.constants.items() if n in medians_used}
    return {
        "Conventions": "CF-1.11",
        "fleetcube_version": own_version,
        "fleetcube_engine": plan.engine,
        "fleetcube_spec": json.dumps(written(plan, spec, stored_axes), default=plain),
        "fleetcube_catalog": f"[{', '.join(entry.json for entry in plan.problem.records)}]",
        CITATIONS: functools.partial(_citations, plan),
        **({UNUSED: " ".join(unused)} if unused else {}),
        **({REMARKS: "\n".join(lines)} if lines else {}),
        **({DEFAULTS: json.dumps(defaults)} if defaults else {}),
        **({PARTLY: " ".join(partly)} if partly else {}),
        **({"fleetcube_medians": json.dumps(medians)} if medians else {}),
    }


def remarks(plan: Plan) -> tuple[str, ...]:
    """Remarks on a result, a line each: by the graph's application, and on others' formulas."""
    module = application(plan.graph)
    lines = module.remarks(plan) if module else ()
    return (*lines, *graphs.remarks(plan.graph))


def _citations(plan: Plan) -> str:
    notes, module = plan.structure.notes, application(plan.graph)
    if CITATIONS not in notes:
        notes[CITATIONS] = module.citation_keys(plan) if module else "fleetcube"
    return str(notes[CITATIONS])


@functools.cache
def own_version() -> str:
    from importlib.metadata import version  # here: it loads what reads e-mails

    return version("fleetcube")


def plain(value: Any) -> Any:
    """A value of a spec in a form that JSON can represent."""
    if isinstance(value, np.ndarray):
        return value.astype(float).tolist() if value.dtype.kind == "f" else value.tolist()
    if isinstance(value, np.generic):
        return float(value) if value.dtype.kind == "f" else str(value)
    if isinstance(value, Axis):
        return {"values": value.labels.tolist()}
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Iterable) else str(value)


def dataset(
    plan: Plan, arrays: Mapping[str, Array], spec: Mapping[str, Any], engine: str | None = None
) -> "xarray.Dataset":
    """Arrays (dimensions in the plan's order) as a Dataset, not copied; axes in user order."""
    if "template" not in plan.notes:
        plan.notes["template"] = _shared(plan)
    template, rows = plan.notes["template"]
    named = plan.notes.get("origin")
    if named is None or named[0] is not spec:
        named = plan.notes["origin"] = spec, called(origin(plan, spec))
    result: xarray.Dataset = template.copy()  # a fifth of the time of creating one
    variables = result.variables
    for name in rows:
        variables[name].data = template.variables[name].values.copy()
    for name, array in arrays.items():
        variables[name].data = ordered(plan, plan.out_dims[name], array)[1]
    result.attrs = {**named[1], "fleetcube_engine": engine or plan.engine}
    return result


def _shared(plan: Plan) -> tuple["xarray.Dataset", list[str]]:
    """The template of a plan, or of one before it with the same structure and coordinates."""
    problem, notes = plan.problem, plan.structure.notes
    rows = [row for axis in problem.axes for row in (axis.labels, *axis.numbers.values())]
    rows += [row for _, row in problem.tables.values()]
    if sum(row.nbytes for row in rows) > MOST_COMPARED or any(row.dtype.hasobject for row in rows):
        return _template(plan)
    texts = [
        (*axis.inputs, *axis.options.values(), *axis.records.values()) for axis in problem.axes
    ]
    values = [(row.dtype.str, row.shape, row.tobytes()) for row in rows]
    key = (problem.inferred - plan.structure.used, {*problem.tables}, repr(texts), values)
    cached: tuple[Any, tuple[xarray.Dataset, list[str]]] | None = notes.get("template")
    if cached is None or cached[0] != key:
        cached = notes["template"] = key, _template(plan)
    return cached[1]


def _template(plan: Plan) -> tuple["xarray.Dataset", list[str]]:
    """A Dataset of a plan's outputs without values; names of coordinates that may be written to."""
    shapes = {name: plan.shape(plan.out_dims[name]) for name in plan.outputs}
    nothing = {name: np.broadcast_to(np.int8(0), shape) for name, shape in shapes.items()}
    template = _labelled(plan, variables_of(plan, nothing), {}).to_xarray()
    with_missing(plan.mask, template)
    coords = (name for name in template.coords if name not in template.dims)
    return template, [str(name) for name in coords if name not in plan.outputs]


def with_missing(excluded: bool, cube: "xarray.Dataset") -> "xarray.Dataset":
    """A cube whose flags are -1 where points are excluded, for files in which that is missing."""
    for variable in cube.data_vars.values() if excluded else ():
        if "flag_values" in variable.attrs:
            variable.encoding[FILL] = variable.dtype.type(-1)
    return cube


def result(
    plan: Plan, variables: Mapping[str, Any], spec: Mapping[str, Any], engine: str | None = None
) -> Result:
    """Variables of a plan's outputs with coordinates (also the reason) and attributes."""
    attrs = {**origin(plan, spec), "fleetcube_engine": engine or plan.engine}
    return _labelled(plan, variables, attrs)


def variables_of(plan: Plan, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Arrays, dimensions in the plan's order, as variables with axes in user order; not copied."""
    return {
        name: (*ordered(plan, plan.out_dims[name], array), attributes(plan, name))
        for name, array in arrays.items()
    }


def _labelled(plan: Plan, variables: Mapping[str, Any], attrs: Mapping[str, Any]) -> Result:
    data, coords = dict(variables), coordinates(plan)
    if REASON in data:
        coords[REASON] = data.pop(REASON)
    return Result(data, coords, attrs)
