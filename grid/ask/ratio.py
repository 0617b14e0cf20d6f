"""How well the ratio of two answers is known.

Two predictions from one posterior share most of what is wrong with them: coefficients move both
alike, and so does the factor of a job. What is left is how unlike they depend on coefficients, and
the noise of each.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...catalog import AUTO, pooled
from ...kernels.calculus.derivatives import name_of
from ...kernels.roles import OF_JOB
from ..errors import InputError
from ..run.evaluation import Evaluation, is_known
from ..run.settings import Settings
from ..spec import auto
from ..spec.axis import Array
from ..spec.scenario import said_by

(_FACTOR,) = OF_JOB.values()


@dataclass(frozen=True)
class Ratio:
    """Ends of the 90 % interval of B / A, and the probability that B is below A."""

    low: float
    high: float
    below: float


@dataclass(frozen=True)
class _Side:
    """Derivatives of outputs' logarithms by coefficients before their links, and by the logarithm
    of the step's factor: [coefficient] and a number by output."""

    cell: pooled.Cell
    job: Mapping[str, Any]
    values: Mapping[str, float]
    slopes: Mapping[str, Array]
    by_factor: Mapping[str, float]


def ratios(a: Mapping[str, Any], b: Mapping[str, Any], names: Sequence[str]) -> dict[str, Ratio]:
    """The ratio B / A of each output of two scenarios, where both have auto's coefficients and the
    output depends on them."""
    try:
        sides = [_side(scenario, names) for scenario in (a, b)]
    except InputError:  # a derivative is not known
        return {}
    first, second = sides
    if first is None or second is None:
        return {}
    posterior = pooled.posterior()
    roots = [root for _, root in posterior.together([first.cell, second.cell])]
    noise = [posterior.noise(side.cell.software) for side in (first, second)]
    found = {}
    for name in names:
        values = [side.values[name] for side in (first, second)]
        if not all(0 < value < math.inf for value in values):
            continue
        apart = first.slopes[name] @ roots[0] - second.slopes[name] @ roots[1]
        factors = np.array([first.by_factor[name], second.by_factor[name]])
        of_jobs = abs(factors[0] - factors[1]) if first.job == second.job else np.hypot(*factors)
        deviation = math.hypot(np.linalg.norm(apart), of_jobs * posterior.job_spread)
        of_noise = np.linalg.norm(factors * noise) / math.sqrt(2)
        half = math.hypot(pooled.NORMAL * deviation, pooled.STUDENTS * of_noise)
        if half > 0:
            ratio = values[1] / values[0]
            below = math.erfc(math.log(ratio) * pooled.NORMAL / half / math.sqrt(2)) / 2
            found[name] = Ratio(ratio * math.exp(-half), ratio * math.exp(half), below)
    return found


def _side(scenario: Mapping[str, Any], names: Sequence[str]) -> _Side | None:
    """The derivatives at a scenario; None if its coefficients are not auto's."""
    if not scenario.keys().isdisjoint(auto.OWN) and scenario.get("calibration") != AUTO:
        return None
    said = said_by(scenario)
    cell = auto.cell_of(said)
    posterior = pooled.posterior()
    means, _ = posterior.at(cell)
    settings = [one for one in posterior.settings(cell) if one.input not in scenario]
    inputs = [*(one.input for one in settings), _FACTOR]
    given = {**scenario, _FACTOR: 1.0}
    wanted = {(name, wrt): name_of("d", name, wrt) for name in names for wrt in inputs}
    known = {pair: own for pair, own in wanted.items() if is_known(given, {}, [own])}
    cube = Evaluation(given, {}, [*names, *dict.fromkeys(known.values())]).evaluate(
        settings=Settings("numpy")
    )

    def slope(name: str, wrt: str) -> float:
        own = known.get((name, wrt))
        return float(cube[own] / cube[name]) if own else 0.0

    slopes = {}
    for name in names:
        slopes[name] = np.zeros(len(means))
        for one in settings:
            slopes[name][one.place] = slope(name, one.input) * one.value(means[one.place])[1]
    return _Side(
        cell,
        auto.job_of(said),
        {name: float(cube[name]) for name in names},
        slopes,
        {name: slope(name, _FACTOR) for name in names},
    )
