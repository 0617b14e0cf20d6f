"""Counts of a layout that are stated with all that they follow from."""

from collections.abc import Collection
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.spec.problem import Problem
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import EXACT


def check_counts(problem: Problem, free: Collection[str]) -> None:
    """Refuse a count that differs from what the values given with it make it: other formulas read
    those values, and the answer would be of two jobs at once."""
    for name in (name for name in EXACT if name in problem.numbers):
        operands = parameters(PHYSICS.quantities[name].default)
        if sought := [operand for operand in operands if operand in free]:
            raise InputError(f"{name} follows from {sought[0]}, which is sought; leave {name} out")
        given, follows = _given(problem, name, free), _follows(problem, name, free)
        if given is None or follows is None:
            continue
        with np.errstate(all="ignore"):
            differs = abs(given / follows - 1) > 1e-9  # NaN: another check names it
        if differs.any():
            first = np.argmax(differs)
            one, other = (
                np.broadcast_to(row, differs.shape).flat[first] for row in (given, follows)
            )
            raise InputError(
                f"{name} = {one:,.9g} contradicts {', '.join(operands)}, which make it "
                f"{other:,.9g}; leave {name} out, or change those"
            )


def _follows(problem: Problem, name: str, free: Collection[str]) -> Any:
    """A count by its formula over the axes; None where an operand is not known."""
    formula = PHYSICS.quantities[name].default
    operands = [_value(problem, operand, free) for operand in parameters(formula)]
    if any(operand is None for operand in operands):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(formula(*operands))


def _value(problem: Problem, name: str, free: Collection[str]) -> Any:
    """A number as given, or as it follows; of defaults only a degree, of which 1 is none."""
    if name in problem.numbers or name in free:
        return _given(problem, name, free)
    if name in EXACT:
        return _follows(problem, name, free)
    default = PHYSICS.inputs[name].default
    return default if default == 1 else None


def _given(problem: Problem, name: str, free: Collection[str]) -> Any:
    """Values that a scenario, a label or one axis gives, over the axes; None of others."""
    if name in free or name in problem.phased or name in problem.tables:
        return None
    if name in problem.constants:
        return np.asarray(problem.constants[name])
    rows = [(k, axis.numbers[name]) for k, axis in enumerate(problem.axes) if name in axis.numbers]
    if len(rows) != 1:
        return None
    ((k, row),) = rows
    return row.reshape([-1 if other == k else 1 for other in range(len(problem.axes))])
