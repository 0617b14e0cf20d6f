"""How engines cut their blocks to fit a processor's caches.

`grid/plan/tiles.py` cuts sweeps, by memory, workers and files; kernels know nothing of sweeps, and
an engine must take a block of any size. What both share is here. No value depends on these numbers.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

NUMPY_TILE = 1 << 16  # points: a formula's temporaries, 0.5 MB each, stay in the second-level cache
TILE = 256  # points of a kernel's buffers, 2 kB each, which are computed while others are stored
ROW = 512  # points of the shortest row worth walking: a shorter one leaves its tile partly empty
GRAIN = 1 << 13  # points that are worth a task on a thread


def steps(shape: Sequence[int], most: int) -> list[int]:
    """Sides of boxes of at most `most` points; trailing axes, dense in memory, are cut last."""
    return [min(size, max(1, most // max(1, prod(shape[k + 1 :])))) for k, size in enumerate(shape)]


def tiles(shape: Sequence[int], most: int) -> list[tuple[slice, ...]]:
    """A grid cut into boxes of these sides."""
    sides = zip(shape, steps(shape, most), strict=True)
    return list(product(*(cuts(0, size, step) for size, step in sides)))


def cuts(start: int, stop: int, step: int) -> list[slice]:
    """An axis cut into parts of one length, the last cut short."""
    return [slice(k, min(k + step, stop)) for k in range(start, stop, step)]
