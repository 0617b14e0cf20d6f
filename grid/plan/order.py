"""The order of memory: chosen here, whatever order the axes were written in (decision 1).

So the order written changes neither speed nor value. Datasets and cubes show every output in that
order, as transposed views.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from ...kernels.engines.tiles import ROW
from ...kernels.graph.formulas import parameters
from ..spec.axis import Axis
from .cases import Formulas
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
    """Axes in the order that evaluates fastest, whatever the order written.

    Those that cut the sweep into cases come first, so that what a case covers is dense in memory.
    The last axes make the rows that kernels walk. What varies along a row is read at every
    point, and repeated in memory along the row's other axes; what does not is read once a row.
    Rows that read the same tables follow each other, so that the tables stay in the cache.
    """
    sizes = {axis.name: axis.size for axis in axes}
    cuts = [axis for axis in axes if axis.name in cutting]
    # by name where sizes are equal: the order written must not show
    numeric = sorted(
        (axis for axis in axes if axis.name not in cutting), key=lambda a: (a.size, a.name)
    )

    def points_over(own: Iterable[str]) -> int:
        return math.prod(sizes[dim] for dim in own)

    full = max((dims[name] for name in outputs), key=points_over)
    points = points_over(full)
    read = {
        frozenset(dims[parameter]): None
        for row in formulas
        for name, formula in row.items()
        if dims[name] == full
        for parameter in parameters(formula)
        if 0 < len(dims[parameter]) < len(full)
    }

    def cost(row: tuple[Axis, ...]) -> float:
        inside = {axis.name for axis in row}
        length = math.prod(axis.size for axis in row)
        total = ROW_COST * points / length
        for own in read:
            if inside & own:
                total += READ_COST * points + REPEAT_COST * points_over(own - inside) * length
        return total

    row = min(_rows([axis for axis in numeric if axis.name in full]), key=cost, default=())
    inside = {axis.name for axis in row}
    varying = {dim for own in read if inside & own for dim in own}
    outer = [axis for axis in numeric if axis.name not in inside]
    return (*cuts, *sorted(outer, key=lambda axis: axis.name not in varying), *row)


def _rows(axes: Sequence[Axis]) -> Iterator[tuple[Axis, ...]]:
    """Sets of the longest axes that make a row of ROW points, none of them dispensable."""
    longest = axes[-LONGEST_AXES:]
    for count in range(1, len(longest) + 1):
        for row in itertools.combinations(longest, count):
            length = math.prod(axis.size for axis in row)
            if length // row[0].size < ROW and (length >= ROW or count == len(longest)):
                yield row
