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

from ...catalog import AUTO, pooled, record
from ...kernels.calculus.derivatives import name_of
from ...kernels.roles import ERRORS, OF_JOB, RATIOS_OF_PARTS
from ..errors import InputError
from ..run.evaluation import Evaluation
from ..run.settings import Settings
from ..spec import auto, phases
from ..spec.axis import Array
from ..spec.scenario import said_by
from .gradient import reached

((_STEP, _FACTOR),) = OF_JOB.items()
# Stated, they say where in its interval the step is, or how wide that is
_STATED = {_FACTOR, *ERRORS[_STEP]}
_MOST = math.log(100)  # of half an interval that says something


@dataclass(frozen=True)
class Ratio:
    """Ends of the 90 % interval of B / A, and the probability that B is below A."""

    low: float
    high: float
    below: float


@dataclass(frozen=True)
class Side:
    """Derivatives of outputs' logarithms at a scenario: by coefficients, [coefficient], and by the
    logarithm of the step's factor. `job` is what the factor belongs to; `is_measured` whether it is
    known."""

    source: str
    cell: pooled.Cell
    job: Any
    is_measured: bool
    noise: float
    values: Mapping[str, float]
    slopes: Mapping[str, Array]
    by_factor: Mapping[str, float]


def side(scenario: Mapping[str, Any], names: Sequence[str]) -> Side | None:
    """A scenario, for ratios of its outputs to those of others; None where they are not known."""
    try:
        return _side(scenario, names)
    except InputError:  # a derivative is not known
        return None


def ratios(a: Mapping[str, Any], b: Mapping[str, Any], names: Sequence[str]) -> dict[str, Ratio]:
    """The ratio B / A of each output of two scenarios, where both have auto's coefficients, or
    those of one file of own steps, and the output depends on them; none of shares of a step, as the
    posterior does not know which part is wrong."""
    return between(side(a, names), side(b, names))


def between(first: Side | None, second: Side | None) -> dict[str, Ratio]:
    """The ratios of the outputs of the second scenario to those of the first, as `ratios` does."""
    if first is None or second is None or first.source != second.source:
        return {}
    posterior = pooled.posterior()
    roots = [root for _, root in posterior.together([first.cell, second.cell])]
    if first.source != AUTO:
        roots = [_root(first.source)] * 2
    noise = [first.noise, second.noise]
    found = {}
    for name in first.values:
        values = [of.values[name] for of in (first, second)]
        if not all(0 < value < math.inf for value in values):
            continue
        apart = first.slopes[name] @ roots[0] - second.slopes[name] @ roots[1]
        factors = np.array([first.by_factor[name], second.by_factor[name]])
        if not factors.all():  # not of a training step: the posterior knows nothing of it
            continue
        unknown = factors * [not first.is_measured, not second.is_measured]
        alike = first.job == second.job
        of_jobs = abs(unknown[0] - unknown[1]) if alike else np.linalg.norm(unknown)
        deviation = math.hypot(np.linalg.norm(apart), of_jobs * posterior.job_spread)
        of_noise = np.linalg.norm(factors * noise) / math.sqrt(2)
        half = math.hypot(pooled.NORMAL * deviation, pooled.STUDENTS * of_noise)
        if 0 < half < _MOST:
            ratio = values[1] / values[0]
            below = math.erfc(math.log(ratio) * pooled.NORMAL / half / math.sqrt(2)) / 2
            found[name] = Ratio(ratio * math.exp(-half), ratio * math.exp(half), below)
    return found


def _root(label: str) -> Array:
    """A root of the covariance of a file's coefficients."""
    entry = record("calibration", label)
    deviations = np.array([*entry.standard_errors.values()])
    below = np.zeros((len(deviations), len(deviations)))
    for k, row in enumerate(entry.correlations):
        below[k, :k] = row
    sizes, axes = np.linalg.eigh(below + below.T + np.eye(len(deviations)))
    return np.asarray(deviations[:, None] * axes * np.sqrt(np.maximum(sizes, 0)))


def _side(scenario: Mapping[str, Any], names: Sequence[str]) -> Side | None:
    """The derivatives at a scenario; None if its coefficients are of another source."""
    label = scenario.get("calibration", AUTO)
    entry = record("calibration", label)
    if not (auto.OWN | _STATED).isdisjoint({*scenario} - {"calibration"}) or phases.names(scenario):
        return None
    if label != AUTO and not entry.correlations:
        return None
    said = said_by(scenario)
    cell = auto.cell_of(said)
    posterior = pooled.posterior()
    means, _ = posterior.at(cell)
    if label == AUTO:
        settings = posterior.settings(cell)
        links = [(one.input, one.place, float(one.value(means[one.place])[1])) for one in settings]
        noise = posterior.noise(cell.software)
    else:
        links = [(name, place, 1.0) for place, name in enumerate(entry.standard_errors)]
        noise = entry.noise
    links = [link for link in links if link[0] not in scenario]
    inputs = [*(name for name, *_ in links), _FACTOR]
    measured = auto.measured_job(label, said)
    factor = measured[_FACTOR] if measured else 1.0
    given = {_FACTOR: factor, **scenario}
    plan = Evaluation(given, {}, names)._plan("numpy")
    felt = {name: reached(plan, [name]) for name in names}
    known = {
        (name, wrt): name_of("d", name, wrt)
        for name in names
        if felt[name].isdisjoint(RATIOS_OF_PARTS)
        for wrt in felt[name].intersection(inputs)
    }
    sweep = Evaluation(given, {}, [*names, *dict.fromkeys(known.values())])
    cube = sweep.evaluate(settings=Settings("numpy"))

    def slope(name: str, wrt: str) -> float:
        own = known.get((name, wrt))
        return float(cube[own] / cube[name]) if own else 0.0

    slopes = {}
    for name in names:
        slopes[name] = np.zeros(len(means) if label == AUTO else len(entry.standard_errors))
        for wrt, place, link in links:
            slopes[name][place] = slope(name, wrt) * link
    return Side(
        label,
        cell,
        measured or (auto.job_of(said), cell.name),
        bool(measured),
        noise,
        {name: float(cube[name]) for name in names},
        slopes,
        {name: slope(name, _FACTOR) * given[_FACTOR] for name in names},
    )
