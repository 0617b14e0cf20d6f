"""Keyword arguments as a scenario and axes: numbers, texts, sequences, arrays with dimensions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from . import phases
from .axes import coupled_axis
from .distributions import is_distribution
from .values import check_name, is_known, number, unit_of, without_unit

if TYPE_CHECKING:
    import xarray

    Unstack = Callable[[xarray.Dataset], xarray.Dataset]

POINTS = "points"  # the dimension of arrays of several dimensions


def scenario_and_axes(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the keyword arguments of `evaluate` into a scenario and axes."""
    scenario: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    together: dict[str, dict[str, Any]] = {}
    labels: dict[str, Any] = {}
    for name, value in without_unit("", inputs).items():
        if hasattr(value, "dims") and hasattr(value, "coords"):  # a DataArray
            if not hasattr(value, "ndim") or value.ndim > 1:
                raise InputError(f"{name} is a Dataset; give a DataArray")
            value = in_base_unit(name, value)
            if value.ndim == 0:
                scenario[name] = value.values.item()
            else:
                (dim,) = value.dims
                together.setdefault(dim, {})[name] = value.values
                if dim in value.coords:
                    row = value.coords[dim].values
                    if not np.array_equal(labels.setdefault(dim, row), row):
                        raise InputError(f"{name} has other coordinates along {dim!r}; align them")
        elif hasattr(value, "__array__"):  # an array, or a series of another library
            array = np.asanyarray(value)  # a masked array stays one, and is refused
            if array.ndim == 0:
                scenario[name] = array.item()
            else:
                axes[name] = array
        elif is_distribution(value) or (name == phases.NAME and phases.are_tables(value)):
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
        axes[dim] = _moving(dim, moving, labels.get(dim))
    return scenario, axes


def plain(name: str, entry: Any) -> Any:
    """An entry of axes as lists and NumPy arrays, also if pandas, xarray or JAX holds it."""
    if isinstance(entry, Mapping):
        return {key: plain(key if is_known(key) else name, part) for key, part in entry.items()}
    if hasattr(entry, "dims") and hasattr(entry, "coords"):
        if entry.ndim != 1:
            raise InputError(f"axis {name!r} is not a DataArray of one dimension; give one")
        return (in_base_unit(name, entry) if is_known(name) else entry).values
    if not hasattr(entry, "__array__") or isinstance(entry, np.ndarray | np.generic):
        return entry
    stated = hasattr(getattr(entry, "dtype", None), "units")  # a column of pint-pandas
    return without_unit(name, entry.array.quantity) if stated else np.asarray(entry)


def stacked(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], "Unstack"]:
    """DataArrays of several dimensions as one dimension, and what gives results theirs back."""
    arrays = {n: v for n, v in inputs.items() if hasattr(v, "dims") and hasattr(v, "coords")}
    several = {dim for array in arrays.values() if array.ndim > 1 for dim in array.dims}
    if not several:
        return dict(inputs), lambda result: result
    import xarray

    own = {name: array for name, array in arrays.items() if several & {*array.dims}}
    for name in several & inputs.keys():
        raise InputError(f"{name!r} is both an input and a dimension; rename one")
    dims = list(dict.fromkeys(dim for array in own.values() for dim in array.dims))
    units = {name: array.attrs for name, array in own.items()}
    together = xarray.broadcast(*own.values())
    flat = {
        name: array.transpose(*dims).stack({POINTS: dims}).assign_attrs(units[name])
        for name, array in zip(own, together, strict=True)
    }
    (first, *_) = flat.values()
    index = xarray.Coordinates.from_pandas_multiindex(first.indexes[POINTS], POINTS)
    bare = {name: array.drop_vars([POINTS, *dims]) for name, array in flat.items()}
    unlabelled = [dim for dim in dims if not any(dim in array.coords for array in own.values())]
    return {
        **inputs,
        **bare,
    }, lambda result: result.assign_coords(index).unstack(POINTS).drop_vars(unlabelled)


def in_base_unit(name: str, value: Any) -> Any:
    """A DataArray in the base unit, from the unit of its array or its attribute `units`."""
    if (data := without_unit(name, value.data)) is not value.data:
        return value.copy(data=data)
    base, unit = unit_of(check_name(name)), value.attrs.get("units")
    if unit is None or str(unit) == base:
        return value
    return value * number(name, f"1 {unit}")


def _moving(dim: str, inputs: dict[str, Any], labels: Any) -> Any:
    """DataArrays along one dimension: a plain axis, or inputs that vary together."""
    if list(inputs) == [dim]:
        return inputs[dim]
    if dim in inputs:
        labels = inputs[dim]
    size = len(next(iter(inputs.values())))
    return coupled_axis(dim, np.arange(size) if labels is None else labels, inputs)
