"""Keyword arguments as a scenario and axes: numbers, texts, sequences, arrays with dimensions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.spec import graphs
from fleetcube.grid.spec.application import application
from fleetcube.grid.spec.axes import PHASE, are_tables, coupled_axis
from fleetcube.grid.spec.distributions import is_distribution
from fleetcube.grid.spec.entries import in_base_unit
from fleetcube.grid.spec.values import without_unit
from fleetcube.kernels.graph.formulas import Graph

if TYPE_CHECKING:
    import xarray

    Unstack = Callable[[xarray.Dataset], xarray.Dataset]

POINTS = "points_of_arrays"  # their one dimension while arrays of several are evaluated


def scenario_and_axes(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the keyword arguments of `evaluate` into a scenario and axes."""
    scenario: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    together: dict[str, dict[str, Any]] = {}
    labels: dict[str, Any] = {}
    graph = graphs.graph_of(graphs.with_graph({}, inputs.get(graphs.NAME, ())))
    lists = {graphs.NAME, *(application(graph).TEXT_LISTS if graph.application else ())}
    for name, value in without_unit(graph, "", inputs).items():
        if name in lists:
            scenario[name] = value
            continue
        if hasattr(value, "dims") and hasattr(value, "coords"):  # a DataArray
            if not hasattr(value, "ndim") or value.ndim > 1:
                raise InputError(f"{name} is a Dataset; give a DataArray")
            value = in_base_unit(graph, name, value)
            if value.ndim == 0:
                scenario[name] = value.values.item()
            else:
                (dim,) = value.dims
                together.setdefault(dim, {})[name] = value.values
                if dim in value.coords:
                    row = value.coords[dim].values
                    if row.dtype.kind == "O" and any(isinstance(each, tuple) for each in row):
                        raise InputError(f"{name} has a MultiIndex along {dim!r}; reset it")
                    if not np.array_equal(labels.setdefault(dim, row), row):
                        raise InputError(f"{name} has other coordinates along {dim!r}; align them")
        elif hasattr(value, "__array__"):  # an array, or a series of another library
            array = np.asanyarray(value)  # a masked array stays one, and is refused
            if array.ndim == 0:
                scenario[name] = array.item()
            else:
                axes[name] = array
        elif is_distribution(value) or (name == PHASE and are_tables(value)):
            scenario[name] = value
        elif isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes):
            axes[name] = value
        else:
            scenario[name] = value
    for dim, moving in together.items():
        if dim in inputs and dim not in moving:
            raise InputError(
                f"{dim!r} is both an input and the dimension of {min(moving)}; keep one"
            )
        axes[dim] = _moving(graph, dim, moving, labels.get(dim))
    named = scenario.pop(graphs.NAME, ())  # a caller names them, so they may be imported
    return {**graphs.with_graph(scenario, named)}, axes


def stacked(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], "Unstack"]:
    """DataArrays of several dimensions as one dimension, and what gives results theirs back."""
    arrays = {n: v for n, v in inputs.items() if hasattr(v, "dims") and hasattr(v, "ndim")}
    graph = graphs.graph_of(graphs.with_graph({}, inputs.get(graphs.NAME, ())))
    several = {dim for array in arrays.values() if array.ndim > 1 for dim in array.dims}
    if not several:
        return dict(inputs), lambda result: result
    import xarray

    stacks = {name: array for name, array in arrays.items() if several & {*array.dims}}
    for name in several:
        if name in inputs or not isinstance(name, str):
            raise InputError(f"{name!r} is both an input and a dimension, or no text; rename it")
    try:  # not by an index, which takes no label twice
        whole = xarray.merge(
            [array.rename(name).drop_attrs() for name, array in stacks.items()], join="exact"
        )
    except ValueError:
        raise InputError(
            f"{', '.join(stacks)} have other sizes or coordinates along a dimension; align them"
        ) from None
    dims = list(dict.fromkeys(dim for array in stacks.values() for dim in array.dims))
    sizes = [whole.sizes[dim] for dim in dims]
    flat = {}
    for name, given in stacks.items():
        array = in_base_unit(graph, name, given).drop_attrs()
        wide = array.expand_dims({d: n for d, n in whole.sizes.items() if d not in array.dims})
        values = wide.transpose(*dims).values.reshape(-1)
        flat[name] = xarray.DataArray(values, dims=POINTS)

    def unstacked(result: "xarray.Dataset") -> "xarray.Dataset":
        for name in {*dims} & {*result.data_vars}:
            raise InputError(f"{name!r} is both an output and a dimension; rename the dimension")

        def back(variable: Any) -> Any:
            if POINTS not in variable.dims:
                return variable
            position = variable.dims.index(POINTS)
            shape = (*variable.shape[:position], *sizes, *variable.shape[position + 1 :])
            names = (*variable.dims[:position], *dims, *variable.dims[position + 1 :])
            return names, variable.values.reshape(shape), variable.attrs

        variables = {name: back(row.variable) for name, row in result.data_vars.items()}
        other_coords = {n: back(row.variable) for n, row in result.coords.items() if n != POINTS}
        return xarray.Dataset(variables, {**whole.coords, **other_coords}, result.attrs)

    return {**inputs, **flat}, unstacked


def _moving(graph: Graph, dim: str, inputs: dict[str, Any], labels: Any) -> Any:
    """DataArrays along one dimension: a plain axis, or inputs that vary together."""
    if list(inputs) == [dim]:
        return inputs[dim]
    if dim in inputs:
        labels = inputs[dim]
    size = len(next(iter(inputs.values())))
    return coupled_axis(graph, dim, np.arange(size) if labels is None else labels, inputs)
