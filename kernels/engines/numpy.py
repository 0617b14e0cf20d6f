"""The reference engine: plain NumPy broadcasting, nothing compiled."""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, MappingProxyType
from typing import Any

import numpy as np

from .. import elementary
from ..graph.bind import NUMPY, Binding
from ..graph.formulas import Function, parameters
from . import cache_tiles
from .job import Array, Job, pool, store

_NOTHING: Mapping[str, Any] = MappingProxyType({})
COPIED = 1 << 18  # points up to which a copy ends before another thread has woken up


def evaluate(formulas: Mapping[str, Function], operands: Mapping[str, Array]) -> dict[str, Array]:
    """Each formula over the broadcast grid of its operands, and no larger."""
    values: dict[str, Any] = dict(operands)
    with np.errstate(all="ignore"):
        for name, formula in formulas.items():
            values[name] = value(formula, [values[parameter] for parameter in parameters(formula)])
    return {name: values[name] for name in formulas}


def value(formula: Function, operands: Sequence[Array]) -> Array:
    """One formula over the broadcast grid of its operands, and no larger; for many, the caller has
    NumPy ignore divisions by zero and the like."""
    return np.asarray(NUMPY.bind(formula)(*operands), dtype=np.float64)


class Point:
    """Formulas at one point on NumPy scalars: the bits of `evaluate` in half its time or less."""

    def __init__(self, formulas: Mapping[str, Function]) -> None:
        self.formulas = formulas

    @functools.cached_property
    def _steps(self) -> list[tuple[str, Function, tuple[str, ...]]]:
        return [(name, _bound(f), parameters(f)) for name, f in self.formulas.items()]

    @functools.cached_property
    def operands(self) -> tuple[str, ...]:
        read = {name for _, _, names in self._steps for name in names}
        return tuple(sorted(read - self.formulas.keys()))

    def __call__(
        self, operands: Iterable[np.float64], computed: Mapping[str, Any] = _NOTHING
    ) -> dict[str, Any]:
        """All values by name; `operands` in the order of those names. Those `computed` stay."""
        values: dict[str, Any] = {**computed, **dict(zip(self.operands, operands, strict=True))}
        with np.errstate(all="ignore"):
            for name, formula, names in self._steps:
                if name not in computed:
                    values[name] = np.float64(formula(*[values[n] for n in names]))
        return values

    def alike(self, operand: Callable[[str], np.float64], cached: dict[Any, Any]) -> dict[str, Any]:
        """The same, without operands, at one of many points of which most values are equal: those
        `cached` of others, by formula and bits of operands, are not evaluated again."""
        values: dict[str, Any] = {}
        bits: dict[str, bytes] = {}
        with np.errstate(all="ignore"):
            for name, formula in self.formulas.items():
                names = parameters(formula)
                for each in (each for each in names if each not in bits):
                    values[each] = operand(each)
                    bits[each] = values[each].tobytes()
                key = (formula, *[bits[each] for each in names])
                if key not in cached:
                    operands = [values[each] for each in names]
                    cached[key] = np.float64(_bound(formula)(*operands))
                values[name] = cached[key]
                bits[name] = values[name].tobytes()
        return {name: values[name] for name in self.formulas}


def _bound(formula: Function) -> Function:
    """A formula on scalars."""
    return _scalar().bind(formula) if type(formula) is FunctionType else _on_arrays(formula)


def _on_arrays(formula: Function) -> Function:
    """Run a `BuiltFormula` on arrays: it takes a scalar, a Python float, for a constant."""

    def call(*values: np.float64) -> Any:
        result = formula(*[np.array([value]) for value in values])
        return np.asarray(result, np.float64).item()

    return call


@functools.cache
def _scalar() -> Binding:
    return Binding(elementary.numpy, _choose)


def _choose(condition: Any, if_true: Any, if_false: Any) -> Any:
    """`where` of scalars in a tenth of the time; like it, gives a flag only of two flags."""
    flag = isinstance(if_true, bool | np.bool_) and isinstance(if_false, bool | np.bool_)
    return (np.bool_ if flag else np.float64)(if_true if condition else if_false)


def run(job: Job, threads: int) -> None:
    """Fill the job's outputs, tile by tile."""
    size = math.prod(job.shape)
    if size <= (cache_tiles.NUMPY_TILE if job.formulas else COPIED):
        _fill(job.formulas, job.operands, job.outs)
        return
    grid_tiles = cache_tiles.tiles(job.shape, cache_tiles.NUMPY_TILE)
    pool(threads).each(lambda tile: _run_tile(job, tile), grid_tiles)


def _run_tile(job: Job, tile: tuple[slice, ...]) -> None:
    operands = {name: part(array, tile) for name, array in job.operands.items()}
    _fill(job.formulas, operands, {name: out[tile] for name, out in job.outs.items()})


def _fill(
    formulas: Mapping[str, Function], operands: Mapping[str, Array], outs: Mapping[str, Array]
) -> None:
    values = {**operands, **evaluate(formulas, operands)} if formulas else operands
    for name, out in outs.items():
        store(out, values[name])


def part(array: Array, tile: tuple[slice, ...]) -> Array:
    """The part of an operand under a tile of the grid; size-1 axes are kept whole."""
    cuts = zip(tile, array.shape, strict=True)
    return array[tuple(cut if size > 1 else slice(None) for cut, size in cuts)]
