"""Virtual cubes: xarray variables that evaluate slices on demand."""

from typing import Any

import numpy as np
import xarray
from xarray.backends import BackendArray
from xarray.core import indexing

from ..plan.labels import attributes, dtype_of, result, with_missing
from ..plan.tiles import chunk_sizes
from ..spec.axis import Array
from ..spec.values import check_dtype
from .evaluation import Evaluation
from .points import values_at
from .recipe import Recipe
from .settings import Settings


class Output(BackendArray):
    """One output of a sweep, computed where indexed."""

    def __init__(self, recipe: Recipe, name: str, dtype: str, engine: str) -> None:
        plan = recipe.plan
        self.recipe, self.name, self.number, self.engine = recipe, name, dtype, engine
        self.dims = plan.user_dims(name)
        self.shape = plan.shape(self.dims)
        self.dtype = dtype_of(plan.graph, name, dtype)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if isinstance(key, indexing.VectorizedIndexer):
            places, shape = _coupled(key, self.shape)
        else:
            places, shape = _outer(key, self.shape)
        indices = dict(zip(self.dims, places, strict=True))
        plan, names = self.recipe.plan, [self.name]
        return values_at(plan, names, indices, shape, self.number, self.engine)[self.name]


def _outer(
    key: indexing.ExplicitIndexer, sizes: tuple[int, ...]
) -> tuple[list[Array], tuple[int, ...]]:
    """Places of numbers, slices and arrays along one axis each."""
    rows = [_indices(part, size) for part, size in zip(key.tuple, sizes, strict=True)]
    ndim = sum(row.ndim for row in rows)
    places, axis = [], 0
    for row in rows:
        shape = [1] * ndim
        if row.ndim:
            shape[axis] = row.size
            axis += 1
        places.append(row.reshape(shape))
    return places, tuple(row.size for row in rows if row.ndim)


def _coupled(
    key: indexing.VectorizedIndexer, sizes: tuple[int, ...]
) -> tuple[list[Array], tuple[int, ...]]:
    """Places of arrays indexed together, each cut to 1 along axes where it is constant."""
    places = _of_arrays(key, sizes)
    shape = np.broadcast_shapes(*[place.shape for place in places])
    for k, place in enumerate(places):
        for axis in range(place.ndim):
            first = place.take([0], axis) if place.shape[axis] > 1 else place
            if place.shape[axis] > 1 and (place == first).all():
                place = first
        places[k] = place
    return places, shape


def _of_arrays(key: indexing.VectorizedIndexer, sizes: tuple[int, ...]) -> list[Array]:
    """Places of arrays that broadcast, followed by a dimension for each slice, as in xarray."""
    rows = [_indices(part, size) for part, size in zip(key.tuple, sizes, strict=True)]
    sliced = [isinstance(part, slice) for part in key.tuple]
    count, axis = sum(sliced), 0
    for k, row in enumerate(rows):
        if not sliced[k]:
            rows[k] = row.reshape(*row.shape, *(1,) * count)
            continue
        axis += 1
        rows[k] = row.reshape(-1, *(1,) * (count - axis))
    return rows


def _indices(part: Any, size: int) -> Array:
    """A slice or an index array as indices from 0. Raises IndexError."""
    if isinstance(part, slice):
        return np.arange(*part.indices(size))
    indices = np.asarray(part)
    if indices.dtype.kind == "b":
        indices = np.flatnonzero(indices)
    indices = indices.astype(np.int64, copy=False)
    if indices.size and (indices.min() < -size or indices.max() >= size):
        raise IndexError(f"an index is out of bounds for an axis of {size:,} values")
    return np.where(indices < 0, indices + size, indices)


def virtual(sweep: Evaluation, settings: Settings, dtype: str) -> xarray.Dataset:
    """See `Sweep.virtual`."""
    # NumPy compiles nothing before the first slice, and gives the bits of numba
    engine = settings.engine
    plan = sweep._plan("numpy" if engine == "auto" else engine, settings._mask)
    number, recipe = check_dtype(dtype), Recipe(sweep.spec, plan)
    variables, encodings = {}, {}
    for name in plan.outputs:
        values = indexing.LazilyIndexedArray(Output(recipe, name, number, engine))
        sizes = {dim: plan.sizes[dim] for dim in plan.user_dims(name)}
        encodings[name] = {"preferred_chunks": chunk_sizes(sizes, {}, keep_asked=True)}
        variables[name] = (plan.user_dims(name), values, attributes(plan, name))
    whole = result(plan, variables, sweep.spec).to_xarray()
    for name, encoding in encodings.items():
        whole[name].encoding = encoding
    return with_missing(plan.mask, whole)
