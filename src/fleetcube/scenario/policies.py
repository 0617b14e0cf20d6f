"""Policies as people state them: intervals in steps, repairs by percentiles, counted failures."""

import contextlib
import math
import re
from collections.abc import Mapping
from typing import Any

from fleetcube.catalog.units import UnitError, counted_failures
from fleetcube.grid.errors import InputError, shown
from fleetcube.grid.spec import values
from fleetcube.grid.spec.distributions import INSIDE_90
from fleetcube.kernels.declare import HOUR
from fleetcube.kernels.laws.repair import lognormal_mean, lognormal_spread
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import IN_STEPS, REPAIR, REPAIR_SPREAD

_COUNTED = re.compile(r"\s*([1-9][0-9_,.]*)\D* in ")
_STEPS = re.compile(r"\s*([0-9][0-9_,]*)\s+steps?\s*")
_PERCENTILES = re.compile(r"\s*median\s+([^,]+),\s*p([0-9]{2}(?:\.[0-9]+)?)\s+([^,]+)")


def spelled(name: str, value: Any) -> dict[str, Any]:
    """The inputs that a text such as "10 steps" or "median 6 h, p95 3 d" sets; none for others."""
    if not isinstance(value, str):
        return {}
    if name in IN_STEPS and (match := _STEPS.fullmatch(value)):
        steps, policy = IN_STEPS[name]
        return {steps: values.number(PHYSICS, steps, match[1]), **policy}
    if name != REPAIR or not re.search(r"median|\bp[0-9]", value):
        return {}
    from statistics import NormalDist  # here: it loads random numbers

    if not (match := _PERCENTILES.fullmatch(value)):
        raise InputError(f"{name} = {shown(value)} is not read; write 'median 6 h, p95 3 d'")
    median, high = (values.number(PHYSICS, REPAIR, match[n]) for n in (1, 3))
    share = float(match[2]) / 100
    rules = {
        f"has p{match[2]} where one between p50, the median, and p100 is needed": 0.5 < share < 1,
        "has a median of 0": median > 0,
        f"has a p{match[2]} that is not above its median": high > median,
    }
    if broken := [rule for rule, holds in rules.items() if not holds]:
        rule = f"{name} = {shown(value)} {broken[0]}"
        raise InputError(f'{rule}; write for example "median 6 h, p95 3 d"')
    spread = float(lognormal_spread(median, high, NormalDist().inv_cdf(share)))
    return {REPAIR: float(lognormal_mean(median, spread)), REPAIR_SPREAD: spread}


def is_spelled(name: str, text: str) -> bool:
    """Whether a text is one policy, which commas do not part."""
    with contextlib.suppress(UnitError):  # a list of counts, or a wrong one, which is refused later
        if values.is_known(PHYSICS, name) and counted_failures(text, name) is not None:
            return True
    return bool(spelled(name, text))


def conversions(scenario: Mapping[str, Any]) -> dict[str, str]:
    """What texts were converted to, by the input that is read."""
    lines = {}
    for name, value in scenario.items():
        if isinstance(value, str) and (mean_time := counted_failures(value, name)):
            lines[name] = f"{name} {value!r}: {float(mean_time) / HOUR:,.6g} h"
            lines[name] += _by_its_count(value, float(mean_time) / HOUR)
    if repair := spelled(REPAIR, scenario.get(REPAIR)):
        mean = f"{repair[REPAIR] / HOUR:.4g} h on average"
        lines[REPAIR] = (
            f"{REPAIR}: {mean}, log-normal of {REPAIR_SPREAD} {repair[REPAIR_SPREAD]:.4g}"
        )
    return lines


def _by_its_count(text: str, hours: float) -> str:
    """The interval of a mean time that was counted, which no output's interval has."""
    if not (match := _COUNTED.match(text)):  # a rate
        return ""
    count = float(re.sub("[_,]", "", match[1]))
    low, high = (count * hours / mean for mean in reversed(poisson_means(count)))
    return (
        f", by its count {low:,.0f} to {high:,.0f} h (90 %), which intervals of outputs leave out: "
        f'events = {count:g}, hours = "{count * hours:.6g} h" in its place is drawn'
    )


def poisson_means(count: float) -> tuple[float, float]:
    """The ends of the 90 % interval (Garwood 1936, Biometrika 28) of the mean of a Poisson count,
    where as many or more, and as many or fewer, have 5 %: halves of quantiles of chi-squared with
    2 k and 2 k + 2 degrees (Wilson & Hilferty 1931, PNAS 17), within 1 % from 3 on."""
    ends = ((count, -INSIDE_90), (count + 1, INSIDE_90))
    low, high = (k * (1 - 1 / (9 * k) + z / (3 * math.sqrt(k))) ** 3 for k, z in ends)
    return low, high
