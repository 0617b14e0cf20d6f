"""The memory order of axes, independent of the order in which they were written (decision 1).

So the written order changes neither speed nor value. Datasets and cubes show outputs in the written
order, as transposed views.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from ...kernels.engines.cache_tiles import ROW
from ...kernels.graph.formulas import parameters
from ..spec.axis import Axis
from .cases import Formulas, distinct
from .dims import Dims

# Relative costs of reading a point along a row, of repeating one there, and of starting a row
READ_COST, REPEAT_COST, ROW_COST = 1.0, 10.0, 100.0
LONGEST_AXES = 6  # axes considered for a row: 2^6 sets of them are tried


def fastest_order(
    axes: Sequence[Axis],
    cutting: Iterable[str],
    dims: Dims,
    formulas: Sequence[Formulas],
    outputs: Sequence[str],
) -> tuple[Axis, ...]:
    """Axes in the fastest order, independent of the order written.

    Axes that split the sweep into cases come first, so that a case is contiguous in memory. The
    last axes form the rows that kernels iterate over. Operands that vary along a row are read at
    every point, and repeated in memory along the row's other axes; others are read once a row. Rows
    that read the same tables are adjacent, so that the tables stay in the cache.
    """
    sizes = {axis.name: axis.size for axis in axes}
    cuts = [axis for axis in axes if axis.name in cutting]
    # by name where sizes are equal, so that the written order has no effect
    numeric = sorted(
        (axis for axis in axes if axis.name not in cutting), key=lambda a: (a.size, a.name)
    )

    def points_over(dims: Iterable[str]) -> int:
        return math.prod(sizes[dim] for dim in dims)

    full = max((dims[name] for name in outputs), key=points_over)
    points = points_over(full)
    read = {
        frozenset(dims[parameter]): None
        for name, formula in distinct(formulas)
        if dims[name] == full
        for parameter in parameters(formula)
        if 0 < len(dims[parameter]) < len(full)
    }

    def cost(row: tuple[Axis, ...]) -> float:
        inside = {axis.name for axis in row}
        length = math.prod(axis.size for axis in row)
        total = ROW_COST * points / length
        for axes_read in read:
            if inside & axes_read:
                total += READ_COST * points + REPEAT_COST * points_over(axes_read - inside) * length
        return total

    row = min(_rows([axis for axis in numeric if axis.name in full]), key=cost, default=())
    inside = {axis.name for axis in row}
    varying = {dim for axes_read in read if inside & axes_read for dim in axes_read}
    outer = [axis for axis in numeric if axis.name not in inside]
    return (*cuts, *sorted(outer, key=lambda axis: axis.name not in varying), *row)


def _rows(axes: Sequence[Axis]) -> Iterator[tuple[Axis, ...]]:
    """Minimal sets of the longest axes that form a row of ROW points."""
    longest = axes[-LONGEST_AXES:]
    for count in range(1, len(longest) + 1):
        for row in itertools.combinations(longest, count):
            length = math.prod(axis.size for axis in row)
            if length // row[0].size < ROW and (length >= ROW or count == len(longest)):
                yield row
