"""Reductions of blocks on the device where JAX computed them, so that only results leave it.

Arrays are those of `jax.on_device`: of size 1 along dimensions where they are constant. Order
statistics compare values with themselves, so they have a program of their own: formulas computed
twice, and fused differently, differ in the last bit.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

BITS = 16  # of a number that one pass of a quantile resolves
_TOP = np.uint64(1 << 63)


@dataclass(frozen=True)
class Ending:
    """What a block's program does after the formulas: NaN into arrays where the last of them, the
    reason, is not 0; then `how` it reduces each along axes, if at all.

    The least, largest or sum of an array's numbers comes with their count ("count" leaves out the
    infinite), by one pass, in which XLA computes the array, too: one of them alone it would reduce
    in two steps, from an array in memory.
    """

    masked: tuple[int, ...]
    how: str = ""
    axes: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        import jax.numpy as jnp

        arrays = list(values)
        reason = arrays.pop() if self.masked else None
        for k in self.masked:
            arrays[k] = jnp.where(reason != 0, jnp.nan, arrays[k])
        return [self._reduced(array) for array in arrays] if self.how else arrays

    def _reduced(self, array: Any) -> Any:
        import jax
        import jax.numpy as jnp

        array = jnp.broadcast_to(array, self.shape)
        valid = jnp.isfinite(array) if self.how == "count" else ~jnp.isnan(array)
        first = {"min": np.inf, "max": -np.inf}.get(self.how, 0.0)
        join: Any = {"min": jnp.minimum, "max": jnp.maximum}.get(self.how, jnp.add)
        return jax.lax.reduce(
            (jnp.where(valid, array, first), valid.astype(np.int64)),
            (first, np.int64(0)),
            lambda one, other: (join(one[0], other[0]), one[1] + other[1]),
            self.axes,
        )


def _jitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function in float64, its keywords static, its results on the host."""
    cache: dict[str, Any] = {}

    @functools.wraps(function)
    def call(*arrays: Any, **static: Any) -> Any:
        import jax

        if not cache:
            cache["jitted"] = jax.jit(function, static_argnames=tuple(static))
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, cache["jitted"](*arrays, **static))

    return call


@_jitted
def winners(
    array: Any,
    riders: Mapping[str, Any],
    starts: Sequence[Any],
    *,
    how: str,
    cell_axes: tuple[int, ...],
    steps: tuple[tuple[int, int], ...],
    shape: tuple[int, ...],
    nowhere: int,
) -> Any:
    """The extreme of each cell, the rank of its first point, and other values there.

    `steps` are the reduced axes and the rank's increment along each; `starts` their first indices.
    Where all values are NaN the rank is `nowhere`.
    """
    import jax.numpy as jnp

    order = (*cell_axes, *(axis for axis, _ in steps))
    cells = tuple(shape[axis] for axis in cell_axes)

    def rows(values: Any) -> Any:
        return jnp.broadcast_to(values, shape).transpose(order).reshape((*cells, -1))

    rank = jnp.zeros((), jnp.int64)
    for (axis, step), start in zip(steps, starts, strict=True):
        rank = rank[..., None] + (jnp.arange(shape[axis]) + start) * step
    values = rows(array)
    best = (jnp.nanmin if how == "min" else jnp.nanmax)(values, axis=-1)
    ranks = jnp.where(values == best[..., None], rank.reshape(-1), nowhere)
    place = ranks.argmin(axis=-1, keepdims=True)
    others = {name: jnp.take_along_axis(rows(r), place, -1)[..., 0] for name, r in riders.items()}
    return best, jnp.take_along_axis(ranks, place, -1)[..., 0], others


def _rows(array: Any, order: tuple[int, ...], shape: tuple[int, ...], cells: int) -> Any:
    import jax.numpy as jnp

    return jnp.broadcast_to(array, shape).transpose(order).reshape((cells, -1))


def _keys(values: Any) -> Any:
    """Unsigned integers in the same order as the numbers."""
    import jax
    import jax.numpy as jnp

    bits = jax.lax.bitcast_convert_type(values, jnp.uint64)
    return jnp.where(bits & _TOP != 0, ~bits, bits | _TOP)


@_jitted
def ends(array: Any, *, order: tuple[int, ...], shape: tuple[int, ...], cells: int) -> Any:
    """The count of numbers in each cell, and their least and largest key."""
    import jax.numpy as jnp

    rows = _rows(array, order, shape, cells)
    valid, keys = ~jnp.isnan(rows), _keys(rows)
    least = jnp.where(valid, keys, ~np.uint64(0)).min(axis=1)
    return valid.sum(axis=1), least, jnp.where(valid, keys, np.uint64(0)).max(axis=1)


@_jitted
def histogram(
    array: Any,
    low: Any,
    high: Any,
    shift: Any,
    *,
    order: tuple[int, ...],
    shape: tuple[int, ...],
    cells: int,
) -> Any:
    """Histogram of each cell's keys between bounds, for two pairs of bounds."""
    import jax.numpy as jnp

    rows = _rows(array, order, shape, cells)
    valid, keys = ~jnp.isnan(rows), _keys(rows)
    length = cells << BITS
    counts = []
    for k in range(2):
        first = low[k][:, None]
        inside = valid & (keys >= first) & (keys <= high[k][:, None])
        bins = ((keys - first) >> shift[k][:, None]).astype(jnp.int64)
        bins = bins + (jnp.arange(cells) << BITS)[:, None]
        bins = jnp.where(inside, bins, length).reshape(-1)  # one bin more, for the others
        counts.append(jnp.bincount(bins, length=length + 1)[:length])
    return jnp.stack(counts)
