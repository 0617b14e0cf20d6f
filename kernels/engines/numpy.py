"""The reference engine: plain NumPy broadcasting, nothing compiled."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..graph.formulas import Function, parameters
from .job import Array, Job, pool, store

BLOCK = 1 << 16  # points per block: temporaries stay in the second-level cache


def evaluate(formulas: Mapping[str, Function], operands: Mapping[str, Array]) -> dict[str, Array]:
    """Each formula over the broadcast grid of what it needs, and no larger."""
    values: dict[str, Any] = dict(operands)
    with np.errstate(all="ignore"):
        for name, formula in formulas.items():
            result = formula(*[values[parameter] for parameter in parameters(formula)])
            values[name] = np.asarray(result, dtype=np.float64)
    return {name: values[name] for name in formulas}


def run(job: Job, threads: int) -> None:
    """Fill the job's outputs, in blocks over the leading axes."""
    pool(threads).each(lambda block: _run_block(job, block), _blocks(job.shape))


def _run_block(job: Job, block: tuple[slice, ...]) -> None:
    operands = {name: part(array, block) for name, array in job.operands.items()}
    values = {**operands, **evaluate(job.formulas, operands)}
    for name, out in job.outs.items():
        store(out[block], values[name])


def part(array: Array, block: tuple[slice, ...]) -> Array:
    """The part of an operand under a block of the grid; size-1 axes are kept whole."""
    return array[
        tuple(
            cut if size > 1 else slice(None) for cut, size in zip(block, array.shape, strict=True)
        )
    ]


def _blocks(shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Cut a grid into blocks of about BLOCK points, splitting the leading axes first."""
    blocks: list[tuple[slice, ...]] = [()]
    for axis, size in enumerate(shape):
        inner = math.prod(shape[axis + 1 :])
        step = min(size, max(1, BLOCK // max(inner, 1)))
        cuts = [slice(start, min(start + step, size)) for start in range(0, size, step)]
        blocks = [(*block, cut) for block in blocks for cut in cuts]
    return blocks
