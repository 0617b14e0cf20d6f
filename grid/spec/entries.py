"""Entries of a spec that other libraries hold: arrays of pandas, xarray and JAX, with units."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...kernels.graph.formulas import Graph
from ..errors import InputError
from .values import check_name, is_known, is_option, number, unit_of, without_unit


def plain(graph: Graph, name: str, entry: Any) -> Any:
    """An entry of axes as lists and NumPy arrays, also if pandas, xarray or JAX holds it."""
    if isinstance(entry, Mapping):
        return {
            key: plain(graph, key if is_known(graph, key) else name, part)
            for key, part in entry.items()
        }
    if hasattr(entry, "dims") and hasattr(entry, "coords"):
        if entry.ndim != 1:
            raise InputError(f"axis {name!r} is not a DataArray of one dimension; give one")
        return (in_base_unit(graph, name, entry) if is_known(graph, name) else entry).values
    if not hasattr(entry, "__array__") or isinstance(entry, np.ndarray | np.generic):
        return entry
    stated = hasattr(getattr(entry, "dtype", None), "units")  # a column of pint-pandas
    return without_unit(graph, name, entry.array.quantity) if stated else np.asarray(entry)


def in_base_unit(graph: Graph, name: str, value: Any) -> Any:
    """A DataArray in the base unit, from the unit of its array or its attribute `units`."""
    if name in graph.roles.labels or is_option(graph, check_name(graph, name)):
        return value
    if (data := without_unit(graph, name, value.data)) is not value.data:
        return value.copy(data=data)
    base, unit = unit_of(graph, check_name(graph, name)), value.attrs.get("units")
    if unit is None or str(unit) == base:
        return value
    return value * number(graph, name, f"1 {unit}")
