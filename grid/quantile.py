"""Exact quantiles in the stream.

Cells (points of the axes that stay) of few points are sorted, some cells at a time. A cell of more
points is evaluated again and again: the order statistics are closed in upon by histograms of the
bits of the numbers, 16 bits in a pass. Floating-point numbers are ordered as integers of the same
bits are, so that four passes after the first find the very number.
"""

import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import stream
from .axes import Array
from .plan import Plan, Region

SMALL = 1 << 20  # points that are sorted at once
CELLS = 16  # cells that are closed in upon at once
BITS = 16
_TOP = np.uint64(1 << 63)


def quantiles(
    plan: Plan,
    dims: tuple[str, ...],
    names: Sequence[str],
    q: float,
    over: tuple[str, ...],
    threads: int,
) -> dict[str, Array]:
    """Quantiles of outputs that share dimensions, linear between numbers; NaN is skipped."""
    kept = [dim for dim in dims if dim not in over]
    found = {name: np.full(plan.shape(kept), np.nan) for name in names}
    each = math.prod(plan.sizes[dim] for dim in dims if dim in over)
    sort = each <= SMALL
    whole = {dim: slice(0, plan.sizes[dim]) for dim in kept}
    tiles = stream.within(whole, SMALL // each if sort else CELLS)
    rest = {dim: slice(0, plan.sizes[dim]) for dim in dims if dim in over}
    room = stream.Room(names)

    def rows(region: Region) -> dict[str, Array]:
        """A row for each cell."""
        outs = room.evaluate(plan, dims, region)
        order = [dims.index(dim) for dim in (*kept, *rest)]
        cells = math.prod(region[dim].stop - region[dim].start for dim in kept)
        return {name: out.transpose(order).reshape(cells, -1) for name, out in outs.items()}

    def put(tile: Region, name: str, values: Array) -> None:
        shape = tuple(cut.stop - cut.start for cut in tile.values())
        target: Any = (*tile.values(), ...)
        found[name][target] = values.reshape(shape)

    def sorted_tile(tile: Region) -> None:
        for name, row in rows({**tile, **rest}).items():
            ordered = np.sort(row, axis=1)  # NaN last
            count = (~np.isnan(row)).sum(axis=1)
            low, high, share = _ranks(count, q)
            first, second = (np.take_along_axis(ordered, k[:, None], 1)[:, 0] for k in (low, high))
            put(tile, name, _between(first, second, share))

    if sort:
        stream.each(plan, threads, sorted_tile, tiles)
        return found
    for tile in tiles:
        cells = math.prod(cut.stop - cut.start for cut in tile.values())
        searches = {name: _Search(cells, q) for name in names}
        while any(search.open for search in searches.values()):

            def add(region: Region, tile: Region = tile, searches=searches) -> None:  # type: ignore[no-untyped-def]
                for name, row in rows({**tile, **region}).items():
                    searches[name].add(row)

            stream.each(plan, threads, add, stream.within(rest, max(1, stream.BLOCK // cells)))
            for search in searches.values():
                search.narrow()
        for name, search in searches.items():
            put(tile, name, search.result())
    return found


def _ranks(count: Array, q: float) -> tuple[Array, Array, Array]:
    """Ranks below and above the quantile, and how far it lies between them."""
    rank = q * np.maximum(count - 1, 0)
    low = np.floor(rank).astype(np.int64)
    return low, np.ceil(rank).astype(np.int64), rank - low


def _between(first: Array, second: Array, share: Array) -> Array:
    return np.where((first == second) | (share == 0), first, first + (second - first) * share)


def _keys(values: Array) -> Array:
    """Unsigned integers in the order of the numbers."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    return np.where(bits & _TOP, ~bits, bits | _TOP)


def _numbers(keys: Array) -> Array:
    return np.where(keys & _TOP, keys ^ _TOP, ~keys).view(np.float64)


class _Search:
    """The two order statistics beside the quantile of each cell, between bounds that close."""

    def __init__(self, cells: int, q: float) -> None:
        self.cells, self.q = cells, q
        self.count = np.zeros(cells, np.int64)
        self.low = np.full((2, cells), np.iinfo(np.uint64).max, np.uint64)
        self.high = np.zeros((2, cells), np.uint64)
        self.below = np.zeros((2, cells), np.int64)  # numbers below the lower bound
        self.shift: Array = np.zeros((2, cells), np.uint64)
        self.hist: Array | None = None
        self.open = True
        self.lock = threading.Lock()

    def add(self, rows: Array) -> None:
        """Take in some points of every cell."""
        valid, keys = ~np.isnan(rows), _keys(rows)
        if self.hist is None:
            least = np.where(valid, keys, np.iinfo(np.uint64).max).min(axis=1)
            most = np.where(valid, keys, 0).max(axis=1)
            with self.lock:
                self.count += valid.sum(axis=1)
                self.low[:] = np.minimum(self.low, least)
                self.high[:] = np.maximum(self.high, most)
            return
        if not self.open:
            return
        cell = np.broadcast_to(np.arange(self.cells)[:, None], keys.shape)
        for k in range(2):
            low, high, shift = (row[k][:, None] for row in (self.low, self.high, self.shift))
            inside = valid & (keys >= low) & (keys <= high)
            bins = ((keys - low) >> shift)[inside].astype(np.int64)
            part = np.bincount((cell[inside] << BITS) + bins, minlength=self.cells << BITS)
            with self.lock:
                self.hist[k] += part.reshape(self.cells, -1)

    def narrow(self) -> None:
        """Close the bounds after a pass."""
        if not self.open:
            return
        if self.hist is None:
            low, high, self.share = _ranks(self.count, self.q)
            self.rank = np.stack([low, high])
            self.high = np.maximum(self.low, self.high)  # cells without a number are closed
            self.low[:, self.count == 0] = self.high[:, self.count == 0]
        else:
            for k, cell in np.ndindex(2, self.cells):
                if self.low[k, cell] == self.high[k, cell]:
                    continue
                sums = np.cumsum(self.hist[k, cell]) + self.below[k, cell]
                at = int(np.searchsorted(sums, self.rank[k, cell], side="right"))
                self.below[k, cell] = sums[at - 1] if at else self.below[k, cell]
                start = int(self.low[k, cell]) + (at << int(self.shift[k, cell]))
                stop = start + (1 << int(self.shift[k, cell])) - 1
                self.high[k, cell] = min(stop, int(self.high[k, cell]))
                self.low[k, cell] = start
        width = self.high - self.low
        bits = [max(0, int(gap).bit_length() - BITS) for gap in width.ravel()]
        self.shift = np.array(bits, np.uint64).reshape(width.shape)
        self.open = bool(width.any())
        self.hist = np.zeros((2, self.cells, 1 << BITS), np.int64)

    def result(self) -> Array:
        """The quantile of every cell."""
        with np.errstate(all="ignore"):
            value = _between(_numbers(self.low[0]), _numbers(self.low[1]), self.share)
        return np.where(self.count == 0, np.nan, value)
