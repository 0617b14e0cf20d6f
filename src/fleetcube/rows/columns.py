"""Cells: numbers in SI, choices of options, labels of the catalog; NaN and -1 where missing.

Each distinct text is read once, and numbers never one by one.
"""

import decimal
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.catalog import CatalogError, record
from fleetcube.catalog.units import UnitError, factor
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec import values
from fleetcube.grid.spec.application import application
from fleetcube.grid.spec.axis import Array
from fleetcube.kernels.graph.formulas import Graph

from .frames import Frame

if TYPE_CHECKING:
    import pandas


def numbers(graph: Graph, frame: Frame, name: str) -> Array:
    """A column of an input in its base unit, checked; NaN where a cell is missing."""
    from pandas.api import types

    column = frame.column(graph, name)
    scale = _scale(
        graph, name, getattr(column.dtype, "units", frame.unit(name))
    )  # pint-pandas sets them
    if types.is_any_real_numeric_dtype(column.dtype):
        row: Array = column.to_numpy(np.float64, na_value=np.nan)
        if scale != 1:
            row = row * scale
        present = row if not np.isnan(row).any() else row[~np.isnan(row)]
        for extreme in (float(present.min()), float(present.max())) if present.size else ():
            _read(frame, row, extreme, functools.partial(values.number, graph), name, extreme)
        return row

    def read(_: str, cell: Any) -> float:
        number = float(cell) if isinstance(cell, decimal.Decimal) else cell
        plain = isinstance(number, int | float) and not isinstance(number, bool)
        return values.number(graph, name, number * scale if plain and scale != 1 else number)

    codes, cells = _distinct(frame, name, column, read)
    return np.array([*cells, np.nan]).take(codes)  # the last one for -1


def choices(graph: Graph, frame: Frame, name: str) -> tuple[Array, list[Any]]:
    """A column of an option or catalog kind: codes, and the distinct choices."""
    read = _label if name in graph.roles.labels else functools.partial(_option, graph)
    return _distinct(frame, name, frame.column(graph, name), read)


def _label(kind: str, cell: Any) -> Any:
    try:
        record(kind, cell)
    except CatalogError as error:
        raise InputError(str(error)) from None
    return cell


def _option(graph: Graph, name: str, cell: Any) -> Any:
    numbered = any(type(choice) is int for choice in graph.inputs[name].choices)
    if numbered and isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # most frames turn whole numbers with missing cells into floats
    module = application(graph)
    return module.choice(name, cell) if module else values.option(graph, name, cell)


def _scale(graph: Graph, name: str, unit: Any) -> float:
    """A column's stated unit in the base unit."""
    if unit is None:
        return 1.0
    try:
        return factor(str(unit), values.unit_of(graph, name))
    except UnitError as error:
        raise InputError(
            f"column {name!r} {error}; state its unit, {values.unit_of(graph, name)}, or none"
        ) from None


def _distinct(
    frame: Frame, name: str, column: "pandas.Series[Any]", read: Callable[[str, Any], Any]
) -> tuple[Array, list[Any]]:
    """Code of each row's cell, -1 where missing, and the distinct cells as `read`."""
    import pandas

    if isinstance(column.dtype, pandas.CategoricalDtype):
        codes: Array = column.cat.codes.to_numpy()
        distinct = column.cat.categories.tolist()
        used = np.zeros(len(distinct) + 1, bool)
        used[codes] = True
        if not used[:-1].all():  # a category without rows may be anything
            codes = np.where(codes < 0, -1, (np.cumsum(used) - 1)[codes])
            distinct = [cell for cell, is_used in zip(distinct, used[:-1], strict=True) if is_used]
    elif column.dtype == object and pandas.api.types.infer_dtype(column) not in _ALIKE:
        codes, distinct = _told_apart(frame, name, column)
    else:
        codes, uniques = pandas.factorize(column)
        distinct = list(uniques.tolist())
    cells = [_read(frame, codes, k, read, name, cell) for k, cell in enumerate(distinct)]
    return codes, cells


_ALIKE = ("string", "boolean")  # for these, equal cells are identical


def _told_apart(frame: Frame, name: str, column: "pandas.Series[Any]") -> tuple[Array, list[Any]]:
    """Distinct cells of mixed types: True is not 1."""
    import pandas

    codes_of: dict[Any, int] = {}
    codes = np.full(len(column), -1)
    for row, (cell, missing) in enumerate(zip(column, pandas.isna(column), strict=True)):
        if not missing:
            try:
                codes[row] = codes_of.setdefault((type(cell), cell), len(codes_of))
            except TypeError:  # a list, say
                raise InputError(
                    f"{frame.place(row)}: {name} = {cell!r} is not one value; give one a cell"
                ) from None
    return codes, [cell for _, cell in codes_of]


def _read(frame: Frame, column: Array, key: Any, read: Any, name: str, cell: Any) -> Any:
    """A cell; an error names the first row whose column has the key."""
    try:
        return read(name, cell)
    except InputError as error:
        raise InputError(f"{frame.place(int(np.argmax(column == key)))}: {error}") from None
