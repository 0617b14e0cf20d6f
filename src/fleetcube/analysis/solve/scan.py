"""Initial scan of a search: the input values at which the output is first evaluated."""

import math
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError, shown
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axis import Array
from fleetcube.grid.spec.problem import Problem
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.declare import Input

SCAN = 17  # values of the first scan
DECADES, MOST_COUNT = 6, 1e9  # searched around known values; the largest count
WIDE = (1e-6, 1e12)  # searched if no value is known


def scan_values(unknown: str, between: Any, problem: Problem) -> Array:
    """The values of the scan."""
    plain = without_phase(unknown)
    row = problem.graph.inputs.get(plain, Input(plain, "1", None, ""))
    if between is not None:
        between = values.without_unit(problem.graph, unknown, between)
        if isinstance(between, str) or not hasattr(between, "__len__") or len(between) != 2:
            raise InputError(f"between = {shown(between)} is not a range; give [first, last]")
        first, last = (values.number(problem.graph, unknown, end) for end in between)
        if not first < last < math.inf:
            raise InputError(f"between = {shown(between)} does not increase; give [first, last]")
    elif row.kind == "count":
        first, last = max(row.low, 1.0), MOST_COUNT
    elif math.isfinite(row.high):
        first, last = row.low, row.high
    else:
        on_axes = [axis.numbers[unknown] for axis in problem.axes if unknown in axis.numbers]
        now = problem.constants.get(unknown, row.default or math.inf)
        in_phases: Any = problem.phases.numbers.get(plain, []) if problem.phases else []
        first, last = _around(np.concatenate([[now], in_phases, *on_axes]))
    # A range above 0 is searched in logarithms, where most relations are linear
    if row.positive and first <= 0:
        first = 1e-9 * last
    return np.geomspace(first, last, SCAN) if first > 0 else np.linspace(first, last, SCAN)


def _around(near: Array) -> tuple[float, float]:
    """DECADES on both sides of known values."""
    finite = near[np.isfinite(near) & (near > 0)]
    if finite.size == 0:
        return WIDE
    return float(finite.min()) / 10**DECADES, float(finite.max()) * 10**DECADES
