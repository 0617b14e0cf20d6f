"""A result: arrays with dimensions, units and attributes, named as xarray names them. xarray itself,
which takes longer to load than most tables to compute, is made of it where Python gets it."""

from collections.abc import Collection, Iterable, Mapping
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

    def __init__(self, dims: str | Iterable[str], values: Any, attrs: Any = ()) -> None:
        self.dims = (dims,) if isinstance(dims, str) else tuple(dims)
        self.values = values if hasattr(values, "dtype") else np.asarray(values)
        self.attrs: dict[str, Any] = dict(attrs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.values, dtype)

    def __array_ufunc__(self, function: Any, method: str, *values: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        dims = dict.fromkeys(dim for value in values for dim in getattr(value, "dims", ()))
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
    def data(self) -> Any:
        return self.values

    def copy(self, data: Any) -> "Variable":
        return Variable(self.dims, data, self.attrs)

    def notnull(self) -> "Variable":
        return Variable(self.dims, ~np.isnan(self.values))

    def where(self, condition: "Variable") -> "Variable":
        """NaN where a condition is not met."""
        dims = dict.fromkeys((*self.dims, *condition.dims))
        return Variable(dims, np.where(along(condition, dims), along(self, dims), np.nan))

    def cumsum(self, dim: str) -> "Variable":
        return Variable(self.dims, self.values.cumsum(self.dims.index(dim)), self.attrs)

    def isel(self, places: Mapping[str, Any]) -> "Variable":
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


def _variables(named: Mapping[str, Any]) -> dict[str, Variable]:
    """Variables of (dimensions, values, attributes), or of what has these."""
    return {
        str(name): own if isinstance(own, Variable)
        else Variable(*own) if isinstance(own, tuple)
        else Variable(own.dims, own.values, own.attrs)
        for name, own in named.items()
    }  # fmt: skip


class Result:
    """Variables, coordinates and attributes."""

    def __init__(
        self,
        data_vars: Mapping[str, Any],
        coords: Mapping[str, Any] = MappingProxyType({}),
        attrs: Mapping[Any, Any] = MappingProxyType({}),
    ) -> None:
        self.data_vars, self.coords = _variables(data_vars), _variables(coords)
        self.attrs = dict(attrs)

    @property
    def variables(self) -> dict[str, Variable]:
        return {**self.data_vars, **self.coords}

    @property
    def sizes(self) -> dict[str, int]:
        rows = self.variables.values()
        return {dim: n for row in rows for dim, n in zip(row.dims, row.shape, strict=True)}

    dims = sizes

    def __contains__(self, name: object) -> bool:
        return name in self.data_vars or name in self.coords

    def __getitem__(self, name: Any) -> Any:
        """A variable, or the result of a list of them with the coordinates along them."""
        if isinstance(name, str):
            return self.data_vars[name] if name in self.data_vars else self.coords[name]
        chosen = {each: self.data_vars[each] for each in name}
        dims = {dim for own in chosen.values() for dim in own.dims}
        coords = {n: own for n, own in self.coords.items() if {*own.dims} <= dims}
        return Result(chosen, coords, self.attrs)

    def get(self, name: str) -> Variable | None:
        return self[name] if name in self else None

    def assign(self, data_vars: Mapping[str, Any]) -> "Result":
        return Result({**self.data_vars, **_variables(data_vars)}, self.coords, self.attrs)

    def assign_coords(self, coords: Mapping[str, Any]) -> "Result":
        return Result(self.data_vars, {**self.coords, **_variables(coords)}, self.attrs)

    def assign_attrs(self, attrs: Mapping[Any, Any]) -> "Result":
        return Result(self.data_vars, self.coords, {**self.attrs, **attrs})

    def drop_vars(self, names: Collection[str]) -> "Result":
        data, coords = ({n: own for n, own in rows.items() if n not in names}
                        for rows in (self.data_vars, self.coords))
        return Result(data, coords, self.attrs)

    def reset_coords(self, name: str) -> "Result":
        """The same with a coordinate as a variable."""
        return Result({**self.data_vars, name: self[name]}, self.drop_vars([name]).coords, self.attrs)

    def isel(self, places: Mapping[str, Any]) -> "Result":
        data, coords = ({n: own.isel(places) for n, own in rows.items()}
                        for rows in (self.data_vars, self.coords))
        return Result(data, coords, self.attrs)

    def to_xarray(self) -> "xarray.Dataset":
        import xarray

        load_accessor()  # so that it has `.fleetcube`
        data, coords = ({n: (own.dims, own.values, own.attrs) for n, own in rows.items()}
                        for rows in (self.data_vars, self.coords))
        return xarray.Dataset(data, coords, self.attrs)


def in_memory(cube: Any) -> Result:
    """A result, or what a Dataset holds as one."""
    return cube if isinstance(cube, Result) else Result(cube.data_vars, cube.coords, cube.attrs)


def in_xarray(found: Any) -> Any:
    return found.to_xarray() if isinstance(found, Result) else found
