"""Pointwise functions of variables, evaluated in the same way as the variables."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from fleetcube.grid.plan import memory


def elementwise(
    function: Callable[..., Any],
    variables: Sequence[xarray.Variable],
    dims: Sequence[str],
    dtype: Any,
) -> xarray.Variable:
    """A function of variables broadcast over `dims`, their dimensions in any order. Computed
    at once in memory, by Dask for Dask arrays, and on slicing for variables read on slicing."""
    chunked = any(variable.chunks is not None for variable in variables)
    if not chunked and any(is_read_when_sliced(variable) for variable in variables):
        backed = Elementwise(function, variables, dims, dtype)
        return xarray.Variable(dims, indexing.LazilyIndexedArray(backed))
    if not chunked and len(variables) > 1:
        sizes = {dim: size for variable in variables for dim, size in variable.sizes.items()}
        memory.check(math.prod(sizes.values()) * np.dtype(dtype).itemsize, "cut the cube first")
    computed: xarray.Variable = _called(function, variables, dtype).transpose(*dims)
    return computed


def is_read_when_sliced(variable: xarray.Variable) -> bool:
    """Whether values are yet to be read or computed, also by Dask."""
    return not variable._in_memory  # no public name reports it, and `data` would read them


def _called(function: Callable[..., Any], variables: Sequence[Any], dtype: Any) -> Any:
    return xarray.apply_ufunc(function, *variables, dask="parallelized", output_dtypes=[dtype])


class Elementwise(BackendArray):
    """The values of a function, computed only for what is indexed."""

    def __init__(
        self,
        function: Callable[..., Any],
        variables: Sequence[xarray.Variable],
        dims: Sequence[str],
        dtype: Any,
    ) -> None:
        self.function, self.variables, self.dims = function, tuple(variables), tuple(dims)
        sizes = {dim: size for variable in variables for dim, size in variable.sizes.items()}
        self.shape = tuple(sizes[dim] for dim in dims)
        self.dtype = np.dtype(dtype)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        places: dict[str, Any] = dict(zip(self.dims, key.tuple, strict=True))
        walked: tuple[str, ...] = ()  # dimensions of arrays indexed together
        if isinstance(key, indexing.VectorizedIndexer):
            along = [dim for dim, place in places.items() if not isinstance(place, slice)]
            arrays = np.broadcast_arrays(*(places[dim] for dim in along))
            walked = tuple(f"walked {k}" for k in range(arrays[0].ndim))
            for dim, array in zip(along, arrays, strict=True):
                places[dim] = xarray.Variable(walked, array)
            dims_kept = [dim for dim in self.dims if dim not in along]
        else:
            dims_kept = [
                d for d, place in places.items() if isinstance(place, slice) or np.ndim(place)
            ]
        parts = [
            variable.isel({dim: places[str(dim)] for dim in variable.dims})
            for variable in self.variables
        ]
        sizes = {dim: size for part in parts for dim, size in part.sizes.items()}
        order = [dim for dim in (*walked, *dims_kept) if dim in sizes]
        return _called(self.function, parts, self.dtype).transpose(*order).values
