"""Cut grids: the only module that does so, with all sizes.

A *region* is any box of a grid. A *block* is a region evaluated at once, a *bundle* a few blocks
reduced by one task, a *chunk* one file of a cube. Engines cut a block further, into tiles that fit
the processor's caches (`kernels/engines/cache_tiles.py`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from math import prod
from typing import Any

from ...kernels.engines.cache_tiles import cuts, steps

Region = Mapping[str, slice]

# Sizes. No value of a sweep depends on them; sums, and so means, depend in their last bit on BLOCK,
# BUNDLES, LEAN and LONGEST, and the bytes of cubes on CHUNK: changing these changes results.

# Points that `Sweep.evaluate` passes to an engine at once, in memory already allocated: numba and
# NumPy cut them for their threads, so larger ones only save starts; XLA needs its results in
# addition to the arrays that they are copied to, 32 MB for each output
AT_ONCE = {"numpy": 1 << 25, "numba": 1 << 25, "jax": 1 << 22, "jax-float32": 1 << 22}
BLOCK = 1 << 20  # points whose values are then dropped: 8 MB for each output, times the threads
ON_DEVICE = 1 << 28  # points at once where an accelerator reduces its own results: 2 GB an output
BUNDLES = 256  # of a grid, at least: so that the last ones keep all workers of a cluster busy
LEAN = 8  # points of a block for each kept cell: with fewer, bundles are this many times longer,
# because their results are not small compared with what they compute
LONGEST = 64  # blocks of one bundle, for any grid: a lost worker's bundle is recomputed
CHUNK = 1_000_000  # points: 8 MB of float64, fast to write and to slice (docs/benchmarks.md)
SOLVED = 1 << 17  # points that `solve` narrows down together: forty arrays of 1 MB
GATHERED = 1 << 16  # winners at which other outputs are evaluated together: points taken one by one
SORTED = 1 << 20  # points sorted at once for quantiles: 8 MB, like a block
NARROWED = 16  # cells whose quantiles are narrowed down together: 2 histograms of 0.5 MB in each


def blocks(region: Region, most: int) -> Iterator[Region]:
    """Cut a region into blocks of at most `most` points, leading axes first."""
    return cells(region, steps(list(sizes(region).values()), most))


def cells(region: Region, sides: Iterable[int]) -> Iterator[Region]:
    """Cut a region into boxes with the given sides; the last along each axis may be shorter."""
    for combination in product(*cuts_of(region, sides)):
        yield dict(zip(region, combination, strict=True))


def cuts_of(region: Region, sides: Iterable[int]) -> list[list[slice]]:
    along = zip(region.values(), sides, strict=True)
    return [cuts(cut.start, cut.stop, side) for cut, side in along]


def bundles(
    region: Region, dims_kept: Collection[str], most: int | None = None
) -> Iterator[Region]:
    """Cut a region into boxes of whole blocks of at most `most` points, as `blocks` cuts them.
    There are about BUNDLES or more, if there are as many blocks. Along the kept dimensions, a
    bundle covers at most the points of a block (or what one block covers)."""
    most = BLOCK if most is None else most
    whole = sizes(region)
    block = dict(zip(whole, steps(list(whole.values()), most), strict=True))
    counts = {dim: -(-size // block[dim]) for dim, size in whole.items()}
    lean = LEAN * prod(block[dim] for dim in dims_kept) <= prod(block.values())
    length = min(LONGEST, max(1, prod(counts.values()) // (BUNDLES if lean else BUNDLES // LEAN)))
    while True:
        bundle, left = dict(block), length
        for dim in reversed(list(whole)):
            bundle[dim] = min(whole[dim], block[dim] * min(left, counts[dim]))
            left //= counts[dim]
            if left <= 1:
                break
        if length == 1 or prod(bundle[dim] for dim in dims_kept) <= most:
            return cells(region, bundle.values())
        length //= 2


def chunk_sizes(
    whole: Mapping[str, int], asked: Mapping[str, int], keep_asked: bool, most: int | None = None
) -> dict[str, int]:
    """Sides of chunks: as asked, else near-isotropic, so that slices along any axis are fast. The
    longest side is halved until a chunk has at most `most` points, by default CHUNK; requested
    sides are halved as well, unless all are given or `keep_asked`."""
    most = CHUNK if most is None else most
    sides = {dim: min(asked.get(dim, size), size) for dim, size in whole.items()}
    if all(dim in asked for dim in whole):
        return sides
    free = [dim for dim in whole if not (keep_asked and dim in asked)]
    while prod(sides.values()) > most and sides[longest := max(free, key=sides.__getitem__)] > 1:
        sides[longest] = -(-sides[longest] // 2)
    return sides


def sizes(region: Region) -> dict[str, int]:
    return {dim: cut.stop - cut.start for dim, cut in region.items()}


def extent(region: Region, varies: Iterable[str], dims: Iterable[str]) -> tuple[int, ...]:
    """Shape over `dims` of an array that varies along `own` within a region: 1 along the others."""
    varying = set(varies)
    return tuple(region[dim].stop - region[dim].start if dim in varying else 1 for dim in dims)


def common(one: Region, other: Region) -> Region | None:
    """The intersection of two regions of the same dimensions; None if empty."""
    shared = {
        dim: slice(max(cut.start, other[dim].start), min(cut.stop, other[dim].stop))
        for dim, cut in one.items()
    }
    return shared if all(cut.start < cut.stop for cut in shared.values()) else None


def seen_from(region: Region, part: Region) -> Region:
    """A part of a region, with indices relative to the region's start."""
    return {
        dim: slice(cut.start - region[dim].start, cut.stop - region[dim].start)
        for dim, cut in part.items()
    }


def inside(region: Region, part: Region, dims: Iterable[str]) -> Any:
    """Index of a part of a region in the region's array over `dims`."""
    return (*seen_from(region, {dim: part[dim] for dim in dims}).values(), ...)


def strides(whole: Mapping[str, int]) -> dict[str, int]:
    """Strides of a grid's flat index, the last axis fastest."""
    steps_along: dict[str, int] = {}
    step = 1
    for dim in reversed(list(whole)):
        steps_along[dim] = step
        step *= whole[dim]
    return steps_along
