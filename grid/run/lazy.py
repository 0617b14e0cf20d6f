"""Lazy sweeps: Dask-backed Datasets whose blocks are evaluated on demand."""

import math
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..plan.execute import evaluate_block
from ..plan.labels import attributes, dtype_of, result, with_missing
from ..plan.plan import Plan
from ..plan.tiles import chunk_sizes
from ..spec.axis import Array
from .recipe import Recipe

if TYPE_CHECKING:
    import xarray

MOST_BLOCKS = 100_000


def evaluate_task(
    recipe: Recipe,
    sizes: tuple[int, ...],
    names: tuple[str, ...],
    number: str,
    block_id: tuple[int, ...],
) -> Any:
    """One block of outputs that share dimensions, which are in the order of the axes. `block_id` is
    its number along each dimension; whole blocks have `sizes`."""
    plan = recipe.plan
    user, dims = plan.user_dims(names[0]), plan.out_dims[names[0]]
    region = {
        dim: slice(k * size, min((k + 1) * size, plan.sizes[dim]))
        for dim, k, size in zip(user, block_id, sizes, strict=True)
    }
    shape = [region[dim].stop - region[dim].start for dim in dims]
    outs: dict[str, Array] = {
        name: np.empty(shape, dtype_of(plan.graph, name, number)) for name in names
    }
    evaluate_block(plan, dims, region, outs, 1)
    order = [dims.index(dim) for dim in user]
    return {name: out.transpose(order) for name, out in outs.items()}


def lazy(
    plan: Plan, spec: Mapping[str, Any], chunks: Mapping[str, int], dtype: str
) -> "xarray.Dataset":
    """See `Sweep.lazy`."""
    recipe = Recipe(spec, plan)
    variables: dict[str, Any] = {}
    for names in plan.groups().values():
        whole = {dim: plan.sizes[dim] for dim in plan.user_dims(names[0])}
        sides = chunk_sizes(whole, chunks, keep_asked=True)
        _check_blocks(whole, sides)
        for name, array in _arrays(recipe, tuple(names), sides, dtype):
            variables[name] = (plan.user_dims(name), array, attributes(plan, name))
    cube = result(plan, {name: variables[name] for name in plan.outputs}, spec).to_xarray()
    return with_missing(plan.mask, cube)


def _check_blocks(whole: Mapping[str, int], sides: Mapping[str, int]) -> None:
    """Refuse more blocks than Dask lists in seconds; it would hang silently for minutes."""
    count, most = _blocks(whole, sides), math.prod(sides.values())
    if count <= MOST_BLOCKS:
        return
    enough = dict(sides)
    while _blocks(whole, enough) > MOST_BLOCKS:
        most *= 2
        enough = chunk_sizes(whole, {}, keep_asked=True, most=most)
    raise InputError(
        f"{count:,} blocks are too many for Dask; give chunks = {enough} "
        f"(at most {MOST_BLOCKS:,} blocks), or slice Sweep.virtual()"
    )


def _blocks(whole: Mapping[str, int], sides: Mapping[str, int]) -> int:
    return math.prod(-(-whole[dim] // side) for dim, side in sides.items())


def _arrays(
    recipe: Recipe, names: tuple[str, ...], sizes: Mapping[str, int], dtype: str
) -> list[tuple[str, Any]]:
    """Dask arrays over one layer of blocks; the layers are symbolic, for any number of blocks."""
    import dask.array
    from dask.base import tokenize
    from dask.delayed import delayed

    shape, whole = recipe.plan.shape(sizes), tuple(sizes.values())
    parts = tuple(
        (size,) * (length // size) + ((length % size,) if length % size else ())
        for length, size in zip(shape, whole, strict=True)
    )
    none = (0,) * len(shape)
    token = tokenize(recipe, names, parts, dtype)
    # a separate task: as an argument it would be sent with each block
    source = delayed(recipe, name=f"fleetcube-recipe-{token}", traverse=False)
    # arrays only for Dask: a block is a dict of them, from which `getitem` takes one
    blocks = dask.array.map_blocks(
        evaluate_task,
        chunks=parts,
        name=f"fleetcube-block-{token}",
        meta=np.zeros(none, object),
        recipe=source,
        sizes=whole,
        names=names,
        number=dtype,
    )
    return [
        (
            name,
            dask.array.map_blocks(
                operator.getitem,
                blocks,
                name,
                name=f"{name}-{token}",
                meta=np.zeros(none, dtype_of(recipe.plan.graph, name, dtype)),
            ),
        )
        for name in names
    ]
