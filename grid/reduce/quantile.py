"""Exact quantiles, computed block by block.

Cells (points of the axes not reduced) with few points are sorted, some cells at a time. A larger
cell is evaluated once per pass: histograms of the numbers' bits, 16 per pass, narrow the bounds of
the order statistics. Floating-point numbers sort like the integers of the same bits, so four passes
after the first find the number exactly.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.engines import on_device as device
from ...kernels.engines.on_device import BITS
from ..plan import memory, tiles
from ..plan.plan import Plan
from ..plan.tiles import Region, extent
from ..run import stream
from ..spec.axis import Array
from .filtered import FilteredRoom

_TOP = np.uint64(1 << 63)


def quantiles(
    plan: Plan,
    dims: tuple[str, ...],
    names: Sequence[str],
    q: float,
    over: tuple[str, ...],
    map_: stream.Map,
    room: stream.Room | FilteredRoom,
) -> dict[str, Array]:
    """Quantiles of outputs that share dimensions, linear between numbers; NaN is skipped."""
    dims_kept = [dim for dim in dims if dim not in over]
    rest = plan.whole([dim for dim in dims if dim in over])
    whole = plan.whole(dims_kept)
    memory.check(8 * len(names) * plan.points_over(dims_kept))
    results = {name: np.full(plan.shape(dims_kept), np.nan) for name in names}
    rows = _Rows(dims, dims_kept, rest, q, room)
    each = plan.points_over(rest)
    if each <= tiles.SORTED:
        for tile, block in map_(rows.sorted, tiles.blocks(whole, tiles.SORTED // each)):
            for name, values in block.items():
                results[name][tiles.inside(whole, tile, dims_kept)] = values
        return results
    for tile in tiles.blocks(whole, tiles.NARROWED):
        shape = extent(tile, dims_kept, dims_kept)
        cells = math.prod(shape)
        bounds = {name: _Bounds(cells, q) for name in names}
        most = max(1, tiles.BLOCK // cells)
        while any(bound.open for bound in bounds.values()):
            work = functools.partial(rows.bundle_part, tile, most, bounds)
            for _, parts in map_(work, tiles.bundles(rest, (), most)):
                for name, part in parts.items():
                    bounds[name].fold(part)
            for bound in bounds.values():
                bound.narrow()
        for name, bound in bounds.items():
            results[name][tiles.inside(whole, tile, dims_kept)] = bound.result().reshape(shape)
    return results


@dataclass(frozen=True)
class _Rows:
    """Outputs as a row of points for each cell."""

    dims: tuple[str, ...]
    dims_kept: list[str]
    rest: Region  # the reduced axes
    q: float
    room: stream.Room | FilteredRoom

    def rows(self, plan: Plan, region: Region) -> dict[str, Array]:
        outs = self.room.evaluate(plan, self.dims, region)
        order = [self.dims.index(dim) for dim in (*self.dims_kept, *self.rest)]
        cells = math.prod(extent(region, self.dims_kept, self.dims_kept))
        return {name: out.transpose(order).reshape(cells, -1) for name, out in outs.items()}

    def sorted(self, plan: Plan, tile: Region) -> dict[str, Array]:
        """The quantiles of a tile's cells, by sorting their points."""
        results = {}
        for name, row in self.rows(plan, {**tile, **self.rest}).items():
            ordered = np.sort(row, axis=1)  # NaN last
            low, high, share = _ranks((~np.isnan(row)).sum(axis=1), self.q)
            first, second = (np.take_along_axis(ordered, k[:, None], 1)[:, 0] for k in (low, high))
            shape = extent(tile, self.dims_kept, self.dims_kept)
            results[name] = between(first, second, share).reshape(shape)
        return results

    def bundle_part(
        self, tile: Region, most: int, bounds: Mapping[str, "_Bounds"], plan: Plan, bundle: Region
    ) -> dict[str, Any]:
        """The contribution of a bundle of the reduced axes to a pass over a tile."""
        parts: dict[str, Any] = {}
        for block in tiles.blocks(bundle, most):
            for name, (part, add) in self.added(plan, {**tile, **block}, bounds).items():
                parts[name] = add(parts[name], part) if name in parts else part
        return {name: bounds[name].packed(part) for name, part in parts.items()}

    def added(self, plan: Plan, region: Region, bounds: Mapping[str, "_Bounds"]) -> dict[str, Any]:
        """A region's contribution to each output's pass and how to add it, on a device if any."""
        open_ = [name for name in self.room.names if bounds[name].open]
        outs = self.room.on_device(plan, self.dims, region, open_)
        if outs is None:
            rows = self.rows(plan, region)
            return {name: (bounds[name].part(rows[name]), bounds[name].add) for name in open_}
        order = tuple(self.dims.index(dim) for dim in (*self.dims_kept, *self.rest))
        how = {
            "order": order,
            "shape": extent(region, self.dims, self.dims),
            "cells": math.prod(extent(region, self.dims_kept, self.dims_kept)),
        }
        return {name: (bounds[name].on_device(outs[name], how), bounds[name].add) for name in open_}


def _ranks(count: Array, q: float) -> tuple[Array, Array, Array]:
    """Ranks below and above the quantile, and its fraction between them."""
    rank = q * np.maximum(count - 1, 0)
    low = np.floor(rank).astype(np.int64)
    return low, np.ceil(rank).astype(np.int64), rank - low


def between(first: Array, second: Array, share: Any) -> Array:
    """Linear interpolation between numbers, which may be infinite."""
    # inf - inf and 0 times inf are NaN: at an end the number itself is the result
    return np.where((first == second) | (share == 0), first, first + (second - first) * share)


def _keys(values: Array) -> Array:
    """Unsigned integers that sort like the numbers."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    # bits of negative numbers sort backwards, and above those of positive ones
    return np.where(bits & _TOP, ~bits, bits | _TOP)


def _numbers(keys: Array) -> Array:
    return np.where(keys & _TOP, keys ^ _TOP, ~keys).view(np.float64)


def _wider(first: Any, second: Any) -> Any:
    return first[0] + second[0], np.minimum(first[1], second[1]), np.maximum(first[2], second[2])


class _Bounds:
    """The two order statistics around the quantile of each cell, with narrowing bounds."""

    def __init__(self, cells: int, q: float) -> None:
        self.cells, self.q = cells, q
        self.count = np.zeros(cells, np.int64)
        self.low = np.full((2, cells), np.iinfo(np.uint64).max, np.uint64)
        self.high = np.zeros((2, cells), np.uint64)
        self.below = np.zeros((2, cells), np.int64)  # numbers below the lower bound
        self.shift: Array = np.zeros((2, cells), np.uint64)
        self.hist: Array | None = None
        self.open = True

    def __getstate__(self) -> dict[str, Any]:
        # workers need the bounds, and whether it is the first pass; not 1 MiB of counts a cell
        hist = None if self.hist is None else np.zeros(0, np.int64)
        return {**self.__dict__, "hist": hist}

    def part(self, rows: Array) -> Any:
        """Contribution of some points of every cell: ends in the first pass, then a histogram."""
        valid, keys = ~np.isnan(rows), _keys(rows)
        if self.hist is None:
            least = np.where(valid, keys, np.iinfo(np.uint64).max).min(axis=1)
            return valid.sum(axis=1), least, np.where(valid, keys, 0).max(axis=1)
        hist = np.zeros((2, self.cells << BITS), np.int64)
        cell = np.broadcast_to(np.arange(self.cells)[:, None], keys.shape)
        for k in range(2):
            low, high, shift = (row[k][:, None] for row in (self.low, self.high, self.shift))
            inside = valid & (keys >= low) & (keys <= high)
            bins = ((keys - low) >> shift)[inside].astype(np.int64)
            hist[k] = np.bincount((cell[inside] << BITS) + bins, minlength=hist.shape[1])
        return hist

    def on_device(self, array: Any, how: Mapping[str, Any]) -> Any:
        """The same for an array on JAX's device."""
        if self.hist is None:
            return device.ends(array, **how)
        return device.histogram(array, self.low, self.high, self.shift, **how)

    def add(self, one: Any, other: Any) -> Any:
        return _wider(one, other) if self.hist is None else one + other

    def packed(self, part: Any) -> Any:
        """A part as sent between processes: non-empty bins of a histogram, and their counts."""
        if self.hist is None:
            return part
        bins = np.flatnonzero(part)
        return bins, part.reshape(-1)[bins]

    def fold(self, part: Any) -> None:
        if self.hist is None:
            ends = (self.count, self.low[0], self.high[0])
            self.count, low, high = _wider(ends, part)
            self.low[:], self.high[:] = low, high
        else:
            bins, counts = part
            self.hist.reshape(-1)[bins] += counts

    def narrow(self) -> None:
        if not self.open:
            return
        if self.hist is None:
            low, high, self.share = _ranks(self.count, self.q)
            self.rank = np.stack([low, high])
            self.high = np.maximum(self.low, self.high)  # cells without a number are finished
            self.low[:, self.count == 0] = self.high[:, self.count == 0]
        else:
            for k, cell in np.ndindex(2, self.cells):
                if self.low[k, cell] == self.high[k, cell]:
                    continue
                sums = np.cumsum(self.hist[k, cell]) + self.below[k, cell]
                position = int(np.searchsorted(sums, self.rank[k, cell], side="right"))
                self.below[k, cell] = sums[position - 1] if position else self.below[k, cell]
                start = int(self.low[k, cell]) + (position << int(self.shift[k, cell]))
                stop = start + (1 << int(self.shift[k, cell])) - 1
                self.high[k, cell] = min(stop, int(self.high[k, cell]))
                self.low[k, cell] = start
        width = self.high - self.low
        bits = [max(0, int(gap).bit_length() - BITS) for gap in width.ravel()]
        self.shift = np.array(bits, np.uint64).reshape(width.shape)
        self.open = bool(width.any())
        self.hist = np.zeros((2, self.cells, 1 << BITS), np.int64)

    def result(self) -> Array:
        with np.errstate(all="ignore"):
            value = between(_numbers(self.low[0]), _numbers(self.low[1]), self.share)
        return np.where(self.count == 0, np.nan, value)
