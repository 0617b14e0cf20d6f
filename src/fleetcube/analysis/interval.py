"""Intervals of outputs, from the error of a prediction and from distributions of inputs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fleetcube.catalog.pooled import NORMAL
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.labels import END_OF, UNUSED
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.reduce.fold import reduce
from fleetcube.grid.result import Result, Variable, along
from fleetcube.grid.run import stream
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axis import Axis
from fleetcube.kernels.laws.statistics import poisson_at_most
from fleetcube.kernels.physics.roles import ENDS, FAILURES

from .gradient import reached
from .uncertainty import DRAW, SAMPLES, asked_of, errors, uncertainty, with_draws

SHARE, SIDES = 0.9, ("low", "high")
_FEW = 100.0  # mean of a count, up to which it is found exactly
# Places in a prediction's interval: the ends are exact for monotonic outputs, others need the rest
_PLACES = np.linspace(-1.0, 1.0, 5)


def is_predicted(plan: Plan) -> bool:
    """True if the interval of a prediction affects any of the outputs."""
    return any(errors(plan, name) for name in stream.numeric(plan))


def interval(sweep: Evaluation, outputs: str | Sequence[str] | None, settings: Settings) -> Result:
    """Outputs with the ends of their intervals; see `Sweep.prediction_interval`."""
    plan = sweep._plan("numpy", settings._mask)
    names = asked_of(plan, outputs)
    values = (sweep if outputs is None else sweep.with_outputs(names))._result(settings)
    uncertain = [name for name in names if reached(plan, [name]) & {*plan.problem.distributions}]
    drawn = [name for name in uncertain if name != FAILURES]
    left = [name for name in names if name not in uncertain]
    moved = [name for name in left if errors(plan, name)]
    bounded = [name for name in left if name in ENDS]
    ends: dict[str, tuple[Any, Any]] = {}
    cubes = [values]
    if drawn:
        tails = ((1 - SHARE) / 2, (1 + SHARE) / 2)
        part = uncertainty(sweep, drawn, tails, "sampled", SAMPLES, 0, settings)
        ends |= {n: (part[n].isel({"quantile": 0}), part[n].isel({"quantile": 1})) for n in drawn}
        cubes.append(part)
    if moved:
        low, high = _moved(sweep, plan, moved, settings)
        ends |= {name: (low[name], high[name]) for name in moved}
        cubes.append(low)
    if FAILURES in ends:
        ends[FAILURES] = _counts(values[FAILURES], *ends[FAILURES])
    if bounded:
        bounds = sweep.with_outputs([end for name in bounded for end in ENDS[name]])
        part = bounds._result(settings)
        ends |= {name: (part[ENDS[name][0]], part[ENDS[name][1]]) for name in bounded}
        cubes.append(part)
    idle = [{*cube.attrs.get(UNUSED, "").split()} for cube in cubes]
    unused = " ".join(sorted(set.intersection(*idle)))
    attrs = {name: text for name, text in values.attrs.items() if name != UNUSED}
    axes = [axis.name for axis in plan.problem.axes]  # of the factor alone: values lack it
    rest = {n: row for n, row in values.coords.items() if n not in axes}
    coords = {n: cube[n] for n in axes for cube in cubes if n in cube.coords}
    variables = {
        f"{name}_{side}": end_of(name, values[name], pair, k, side)
        for name, pair in ends.items()
        for k, side in enumerate(SIDES)
    }
    attrs |= {UNUSED: unused} if unused else {}
    return Result(values.data_vars, {**coords, **rest}, attrs).assign(variables)


def chances(scenario: Mapping[str, Any], conditions: Sequence[Any]) -> dict[str, Any]:
    """The probability that each condition on an output holds at a point, where an error or a
    distribution is known: `<output>_chance`."""
    by_name = {}
    for each in conditions:
        sweep = Evaluation(scenario, {}, [each.of])
        plan = sweep._plan("numpy")
        laws = errors(plan, each.of)
        drawn = reached(plan, [each.of]) & {*plan.problem.distributions}
        if isinstance(each.level, str) or not (laws or drawn):
            continue
        laws |= {name: plan.problem.distributions[name] for name in drawn}
        part = with_draws(sweep, laws, [each.of])._result(Settings("numpy", "include", threads=1))
        values = part[each.of].values
        below = float(np.where(np.isnan(values), np.nan, values <= each.level).mean())
        about = {"units": "1", "long_name": f"probability that {each}"}
        by_name[f"{each.of}_chance"] = (), below if each.relation == "<=" else 1 - below, about
    return by_name


def ends_of_chance(plan: Plan, condition: Any) -> list[dict[str, float]]:
    """Where the error of the prediction is at both ends of a condition's chance: a monotonic output
    keeps to the condition with that chance if it does at both."""
    laws = errors(plan, condition.of)
    if not laws or reached(plan, [condition.of]) & {*plan.problem.distributions}:
        raise InputError(
            f"a chance is of the prediction's error alone, and {condition.of} has "
            f"{'a distribution, too' if laws else 'none here'}; leave out 'with ... %'"
        )
    shares = np.array([condition.chance, 1 - condition.chance])
    return [{n: float(law.quantile(shares)[k]) for n, law in laws.items()} for k in range(2)]


def _moved(
    sweep: Evaluation, plan: Plan, names: Sequence[str], settings: Settings
) -> tuple[Result, Result]:
    """Minimum and maximum of outputs over the intervals of predictions."""
    numbers = {error: _PLACES for name in names for error in errors(plan, name)}
    axis = Axis(DRAW, np.arange(_PLACES.size), numbers)
    moved = sweep.replace(axes={**sweep.spec["axes"], DRAW: axis}, outputs=names)
    plain = replace(settings, infeasible="include")
    with stream.mapping(moved, plain) as (plan, map_):
        low, high = (
            reduce(plan, moved.spec, how, [DRAW], map_, plain._cores) for how in ("min", "max")
        )
    return low, high


def _counts(mean: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Interval of a Poisson count whose lognormal mean lies between `low` and `high`."""
    means = np.asarray(mean.values, float)
    spread = np.broadcast_to(along(np.log(high / low) / (2 * NORMAL), mean.dims), means.shape)
    sides = []
    for place in (-NORMAL, NORMAL):
        ends = np.full(means.shape, np.nan)
        for mask, count in ((means <= _FEW, _of_few), (means > _FEW, _of_many)):
            mask &= np.isfinite(means)
            ends[mask] = count(means[mask], spread[mask], place)
        sides.append(mean.copy(data=ends))
    return sides[0], sides[1]


def _of_few(mean: Any, spread: Any, place: float) -> Any:
    """The quantile at a normal deviate: the least count at or below which the share is, mixed by
    Gauss-Hermite quadrature."""
    share = (1 + math.copysign(SHARE, place)) / 2
    nodes, weights = np.polynomial.hermite_e.hermegauss(31)
    means = mean * np.exp(nodes[:, None] * spread)
    least, most = np.full(mean.shape, -1.0), np.ceil(means[-1] + 10 * np.sqrt(means[-1]) + 10)
    while (most - least > 1).any():
        middle = np.ceil((least + most) / 2)  # a count found stays
        enough = weights @ poisson_at_most(middle, means) >= share * weights.sum()
        least, most = np.where(enough, least, middle), np.where(enough, middle, most)
    return most


def _of_many(mean: Any, spread: Any, place: float) -> Any:
    """The same, where steps of one count are small: N <= n where a gamma variable of shape n + 1 is
    above the mean; its logarithm is nearly normal around log(n + 1 / 2), of variance 1 / (n + 1 /
    2)."""
    count = mean
    for _ in range(30):
        count = mean * np.exp(place * np.sqrt(spread**2 + 1 / count))
    return np.ceil(count - 0.5)


def end_of(name: str, value: Any, pair: Sequence[Any], k: int, side: str) -> Any:
    """An end of an interval, NaN if there is none: zero width is not certainty."""
    low, high = pair
    about = {
        **value.attrs,
        "long_name": f"{'lower' if side == 'low' else 'upper'} end of the {SHARE:.0%} interval: "
        f"{value.attrs['long_name']}",
        END_OF: name,
    }
    end = pair[k].where((low < high) & value.notnull())
    return Variable(end.dims, end.values, about)
