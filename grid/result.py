"""A result: arrays with dimensions, units and attributes, named as xarray names them. xarray, which
takes longer to load than a table to compute, is made of it only where Python gets it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .datasets import load_accessor

if TYPE_CHECKING:
    import xarray


class Variable(NDArrayOperatorsMixin):
    """An array whose dimensions have names, by which operations of NumPy broadcast."""

    chunks = None  # in memory

    def __init__(self, dims: Any, values: Any, attrs: Any = ()) -> None:
        self.dims: tuple[str, ...] = (dims,) if isinstance(dims, str) else tuple(dims)
        whole = hasattr(values, "dtype") and not isinstance(
            values, str
        )  # np.str_ has no dimensions
        self.values = values if whole else np.asarray(values)
        self.attrs: dict[str, Any] = dict(attrs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.values, dtype)

    def __array_ufunc__(self, function: Any, method: str, *values: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        dims = dict.fromkeys(dim for value in values for dim in getattr(value, "dims", ()))
        with np.errstate(all="ignore"):  # as xarray: infinities and NaNs are values
            return Variable(dims, function(*(along(value, dims) for value in values)))

    def __getattr__(self, name: str) -> Any:
        if name in ("dtype", "size", "shape", "ndim", "all", "any", "sum", "item"):
            return getattr(self.values, name)
        raise AttributeError(name)

    def __float__(self) -> float:
        return float(self.values)

    def __int__(self) -> int:
        return int(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    @property
    def parts(self) -> tuple[Any, Any, Any]:
        return self.dims, self.values, self.attrs

    def copy(self, data: Any) -> "Variable":
        return Variable(self.dims, data, self.attrs)

    def notnull(self) -> "Variable":
        return Variable(self.dims, ~np.isnan(self.values))

    def min(self) -> Any:
        return np.fmin.reduce(self.values, axis=None)

    def max(self) -> Any:
        return np.fmax.reduce(self.values, axis=None)

    def median(self, function: Any = np.median) -> Any:
        numbers = self.values[~np.isnan(self.values)]
        return function(numbers) if numbers.size else np.nan

    def mean(self) -> Any:
        return self.median(np.mean)

    def where(self, condition: "Variable") -> "Variable":
        """NaN where a condition is not met."""
        dims = dict.fromkeys((*self.dims, *condition.dims))
        chosen = np.where(along(condition, dims), along(self, dims), np.nan)
        return Variable(dims, chosen, self.attrs)

    def cumsum(self, dim: str) -> "Variable":
        return Variable(self.dims, self.values.cumsum(self.dims.index(dim)), self.attrs)

    def isel(self, places: Mapping[str, Any]) -> "Variable":
        """The part at some places of dimensions: one, a list, a slice or a mask."""
        values, dims = self.values, [*self.dims]
        for k in reversed(range(len(dims))):
            place = places.get(dims[k], slice(None))
            values = values[(slice(None),) * k + (place,)]
            if not isinstance(place, slice) and not np.ndim(place):
                del dims[k]
        return Variable(dims, values, self.attrs)


def along(value: Any, dims: Iterable[str]) -> Any:
    """The array of a variable, with the given dimensions, of length 1 where it lacks them."""
    if not hasattr(value, "dims"):
        return value
    array = value.values.transpose([value.dims.index(dim) for dim in dims if dim in value.dims])
    return array[tuple(slice(None) if dim in value.dims else None for dim in dims)]


def stacked(dim: str, parts: Sequence[Variable], attrs: Mapping[str, Any]) -> Variable:
    """Variables along a new dimension, the first."""
    dims = [*dict.fromkeys(row for part in parts for row in part.dims)]
    rows = np.broadcast_arrays(*(along(part, dims) for part in parts))
    return Variable([dim, *dims], np.stack(rows), attrs)


def _variables(named: Mapping[str, Any]) -> dict[str, Variable]:
    """Variables of (dimensions, values, attributes), of labels, or of xarray's variables."""
    return {str(name): _variable(str(name), row) for name, row in named.items()}


def _variable(name: str, row: Any) -> Variable:
    if isinstance(row, Variable):
        return row
    if isinstance(row, tuple):
        return Variable(*row)
    if hasattr(row, "dims"):  # xarray's
        return Variable(row.dims, row.values, row.attrs)
    return Variable(name if np.ndim(row) else (), row)  # labels of an axis, or a number


class Result:
    """Variables in order, some of them coordinates, and attributes."""

    def __init__(
        self,
        data_vars: Mapping[Any, Any],
        coords: Mapping[str, Any] | Collection[str] = (),
        attrs: Mapping[Any, Any] = MappingProxyType({}),
    ) -> None:
        more = coords if isinstance(coords, Mapping) else {}  # else names
        self.variables = _variables({**data_vars, **more})
        self._names, self.attrs = {*coords}, dict(attrs)

    @property
    def data_vars(self) -> dict[str, Variable]:
        return {name: row for name, row in self.variables.items() if name not in self._names}

    @property
    def coords(self) -> dict[str, Variable]:
        return {name: row for name, row in self.variables.items() if name in self._names}

    @property
    def sizes(self) -> dict[str, int]:
        rows = self.variables.values()
        return {dim: n for row in rows for dim, n in zip(row.dims, row.shape, strict=True)}

    dims = sizes

    def __contains__(self, name: object) -> bool:
        return name in self.variables

    def __getitem__(self, name: Any) -> Any:
        """A variable, or the result of a list of them with the coordinates along them."""
        if isinstance(name, str):
            return self.variables[name]
        chosen = {each: self.variables[each] for each in name}
        dims = {dim for row in chosen.values() for dim in row.dims}
        coords = {n: row for n, row in self.coords.items() if {*row.dims} <= dims}
        return Result(chosen, coords, self.attrs)

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.variables.get(name, otherwise)

    def assign(self, data_vars: Mapping[str, Any]) -> "Result":
        return Result({**self.variables, **data_vars}, self._names, self.attrs)

    def assign_coords(self, coords: Mapping[str, Any]) -> "Result":
        return Result({**self.variables, **coords}, self._names | {*coords}, self.attrs)

    def drop_vars(self, names: str | Collection[str]) -> "Result":
        dropped = {names} if isinstance(names, str) else {*names}
        rows = {name: row for name, row in self.variables.items() if name not in dropped}
        return Result(rows, self._names - dropped, self.attrs)

    def reset_coords(self, names: str | Collection[str]) -> "Result":
        """The same with some coordinates as variables."""
        reset = {names} if isinstance(names, str) else {*names}
        return Result(self.variables, self._names - reset, self.attrs)

    def isel(self, places: Mapping[str, Any] = MappingProxyType({}), **more: Any) -> "Result":
        places = {**places, **more}
        rows = {name: row.isel(places) for name, row in self.variables.items()}
        return Result(rows, self._names, self.attrs)

    def rows(self, dims: Sequence[str], names: Iterable[str]) -> "Result":
        """Some variables with one row for each point of some dimensions, the last fastest."""
        shape = [self.sizes[dim] for dim in dims]
        cells = {n: np.broadcast_to(along(self[n], dims), shape).reshape(-1) for n in names}
        return Result({n: ("row", row, self[n].attrs) for n, row in cells.items()}, {}, self.attrs)

    def to_dict(self) -> dict[str, Any]:
        return self.to_xarray().to_dict()

    def to_xarray(self) -> "xarray.Dataset":
        import pandas
        import xarray

        load_accessor()  # so that it has `.fleetcube`
        data = {name: row.parts for name, row in self.data_vars.items()}
        coords = {name: row.parts for name, row in self.coords.items()}
        # as indexes: of arrays xarray asks whether they are Dask's, and imports it for that
        for name, (dims, labels, attrs) in coords.items():
            if dims == (name,) and labels.dtype.kind in "iuf":
                coords[name] = dims, pandas.Index(labels), attrs
        return xarray.Dataset(data, coords, called(self.attrs))


def called(attrs: Mapping[Any, Any]) -> dict[Any, Any]:
    """Attributes with values: of those that take long and tables lack there is a function."""
    return {name: value() if callable(value) else value for name, value in attrs.items()}


def in_memory(cube: Any) -> Result:
    """A result, or what a Dataset holds as one."""
    if isinstance(cube, Result):
        return cube
    return Result(cube.variables, [str(name) for name in cube.coords], cube.attrs)
