"""Lazy sweeps: Dask-backed Datasets whose blocks are evaluated when they are needed."""

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plan.execute import evaluate_block
from ..plan.labels import assemble, attributes, dtype_of
from ..plan.plan import Plan
from ..plan.tiles import chunk_sizes
from ..spec.axes import Array
from .recipe import Recipe

if TYPE_CHECKING:
    import xarray


def evaluate_task(recipe: Recipe, cut: tuple[slice, ...], names: list[str], dtype: str) -> Any:
    """One block of the outputs that share dimensions, which are in the order of the axes."""
    plan = recipe.plan
    user, dims = plan.user_dims(names[0]), plan.out_dims[names[0]]
    region = dict(zip(user, cut, strict=True))
    shape = [region[dim].stop - region[dim].start for dim in dims]
    outs: dict[str, Array] = {name: np.empty(shape, dtype_of(name, dtype)) for name in names}
    evaluate_block(plan, dims, region, outs, 1)
    order = [dims.index(dim) for dim in user]
    return {name: out.transpose(order) for name, out in outs.items()}


def lazy(
    plan: Plan, spec: Mapping[str, Any], chunks: Mapping[str, int], dtype: str
) -> "xarray.Dataset":
    """A Dask-backed Dataset of a plan's outputs; see `Sweep.lazy`."""
    recipe = Recipe(spec, plan)
    variables: dict[str, Any] = {}
    for names in plan.groups().values():
        whole = {dim: plan.sizes[dim] for dim in plan.user_dims(names[0])}
        sides = chunk_sizes(whole, chunks, keep_asked=True)
        for name, array in _arrays(recipe, names, sides, dtype):
            variables[name] = (plan.user_dims(name), array, attributes(plan, name))
    return assemble(plan, {name: variables[name] for name in plan.outputs}, spec)


def _arrays(
    recipe: Recipe, names: list[str], sizes: Mapping[str, int], dtype: str
) -> list[tuple[str, Any]]:
    """Dask arrays over one layer of blocks; the layers are symbolic, whatever the number."""
    import dask.array
    from dask._task_spec import DataNode, TaskRef
    from dask.base import tokenize
    from dask.blockwise import blockwise
    from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
    from dask.layers import ArraySliceDep

    shape = recipe.plan.shape(sizes)
    parts = dask.array.core.normalize_chunks(tuple(sizes.values()), shape)
    numblocks = tuple(map(len, parts))
    index = tuple(range(len(shape)))
    token = tokenize(recipe, names, parts, dtype)
    source, block = f"fleetcube-recipe-{token}", f"fleetcube-block-{token}"
    layers: dict[str, Any] = {
        source: MaterializedLayer({source: DataNode(source, recipe)}),
        block: blockwise(
            evaluate_task,
            block,
            index,
            TaskRef(source),
            None,
            ArraySliceDep(parts),
            index,
            numblocks={},
            names=names,
            dtype=dtype,
        ),
    }
    arrays = []
    for name in names:
        key = f"{name}-{token}"
        pick = blockwise(
            operator.getitem, key, index, block, index, name, None, numblocks={block: numblocks}
        )
        graph = HighLevelGraph(
            {**layers, key: pick}, {source: set(), block: {source}, key: {block}}
        )
        arrays.append((name, dask.array.Array(graph, key, parts, dtype=dtype_of(name, dtype))))
    return arrays
