"""Keyword arguments as a scenario and axes: numbers, texts, sequences, arrays with dimensions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from . import phases
from .axes import coupled_axis
from .distributions import is_distribution
from .values import check_name, number, unit_of, without_unit


def scenario_and_axes(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the keyword arguments of `evaluate` into a scenario and axes."""
    scenario: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    together: dict[str, dict[str, Any]] = {}
    labels: dict[str, Any] = {}
    for name, value in without_unit("", inputs).items():
        if hasattr(value, "dims") and hasattr(value, "coords"):  # a DataArray
            if not hasattr(value, "ndim") or value.ndim > 1:
                raise InputError(f"{name} is not a DataArray of one dimension; give one")
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
