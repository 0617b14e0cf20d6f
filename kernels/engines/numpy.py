"""The reference engine: plain NumPy broadcasting, nothing compiled."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph.formulas import Function, parameters
from . import tiles
from .job import Array, Job, pool, store


def evaluate(formulas: Mapping[str, Function], operands: Mapping[str, Array]) -> dict[str, Array]:
    """Each formula over the broadcast grid of what it needs, and no larger."""
    values: dict[str, Any] = dict(operands)
    with np.errstate(all="ignore"):
        for name, formula in formulas.items():
            result = formula(*[values[parameter] for parameter in parameters(formula)])
            values[name] = np.asarray(result, dtype=np.float64)
    return {name: values[name] for name in formulas}


def run(job: Job, threads: int) -> None:
    """Fill the job's outputs, tile by tile."""
    grid_tiles = tiles.tiles(job.shape, tiles.NUMPY_TILE)
    pool(threads).each(lambda tile: _run_tile(job, tile), grid_tiles)


def _run_tile(job: Job, tile: tuple[slice, ...]) -> None:
    operands = {name: part(array, tile) for name, array in job.operands.items()}
    values = {**operands, **evaluate(job.formulas, operands)}
    for name, out in job.outs.items():
        store(out[tile], values[name])


def part(array: Array, tile: tuple[slice, ...]) -> Array:
    """The part of an operand under a tile of the grid; size-1 axes are kept whole."""
    cuts = zip(tile, array.shape, strict=True)
    return array[tuple(cut if size > 1 else slice(None) for cut, size in cuts)]
