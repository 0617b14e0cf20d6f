"""Distributions of inputs that a scenario does not know exactly."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels import elementary
from ...kernels.graph.formulas import Graph
from ...kernels.laws.statistics import normal_quantile
from ..errors import InputError, imported, nearest, shown
from . import values
from .axis import Array

KINDS = {
    "normal": "[mean, standard deviation]",
    "lognormal": "[median, factor of one standard deviation]",
    "uniform": "[low, high]",
    "empirical": "[value, value, ...]",
    "events": 'number, hours = "component time"',
}
LIFETIMES = ("_mttf", "_mtbf")  # ends of names of mean times between events
_OF_LOGARITHMS = ("lognormal", "events")  # their deviation is that of the logarithm
_NOT_CUT = ("uniform", "empirical", "events")
MOST_OUTSIDE = 0.01  # probability allowed outside the bounds of an input

MOST_EVENTS = 10**9

INSIDE_90 = 1.6448536269514722  # standard deviations: 90 % of a normal distribution are within


@dataclass(frozen=True)
class Distribution:
    """A distribution, its values in the input's base unit.

    `values` are mean and standard deviation (normal), median and factor of one standard deviation
    (lognormal), the ends (uniform) or sorted values (empirical). A normal or lognormal one is
    truncated at `low` and `high`, and rescaled to a probability of 1. Of `events` they are shape
    and time of the mean time T / G between events, where G is of the gamma distribution: k events
    in the time T leave the shape k + 1/2 (Jeffreys 1946, Proc. R. Soc. A 186).
    """

    kind: str
    values: tuple[float, ...]
    low: float = -math.inf
    high: float = math.inf
    of_logarithm: bool = False  # its exponential multiplies the outputs

    @property
    def median(self) -> float:
        """The value for single evaluations: the median, the lower one of empirical values."""
        return float(self.quantile(np.array([0.5]))[0])

    @property
    def deviation(self) -> float:
        """Standard deviation as written: of the logarithm for lognormal ones and events."""
        first, last = self.values[0], self.values[-1]
        if self.kind == "events":
            return math.sqrt(imported("scipy.special").polygamma(1, first))
        if self.kind == "empirical":
            return float(np.std(self.values)) if math.isfinite(last) else math.inf
        if self.kind == "uniform":
            return (last - first) / math.sqrt(12)
        return math.log(last) if self.kind == "lognormal" else last

    @property
    def multiplies(self) -> bool:
        """Whether quantities proportional to it, or to its exponential, are lognormal."""
        return self.kind in _OF_LOGARITHMS or self.of_logarithm

    @property
    def scale(self) -> float:
        """Factor from a slope to a standard deviation; x d/dx is d/dln x."""
        return self.deviation * (self.median if self.kind in _OF_LOGARITHMS else 1.0)

    def quantile(self, share: Array) -> Array:
        """The inverse CDF."""
        first, last = self.values[0], self.values[-1]
        if self.kind == "uniform":
            return np.asarray(first + share * (last - first))
        if self.kind == "empirical":
            place = np.ceil(share * len(self.values)).astype(int) - 1
            return np.asarray(np.array(self.values)[np.maximum(place, 0)])
        if self.kind == "events":
            drawn = imported("scipy.special").gammainccinv(first, share)
            with np.errstate(divide="ignore"):
                return np.asarray(np.clip(last / drawn, self.low, self.high))
        below, inside = self._inside()
        z = self.deviation * normal_quantile(below + share * inside)
        quantiles = first + z if self.kind == "normal" else first * elementary.exp(z)
        return np.asarray(np.clip(quantiles, self.low, self.high))

    def _inside(self) -> tuple[float, float]:
        """Probability below the lower bound, and between the bounds."""

        def z(bound: float) -> float:
            if self.kind == "normal":
                return (bound - self.values[0]) / self.deviation
            if bound <= 0:
                return -math.inf
            return float(elementary.log(bound) - elementary.log(self.values[0])) / self.deviation

        below, up_to = (math.erfc(-z(end) / math.sqrt(2)) / 2 for end in (self.low, self.high))
        return below, up_to - below

    @property
    def outside(self) -> float:
        """Probability that is truncated."""
        return 0.0 if self.kind in _NOT_CUT else 1.0 - self._inside()[1]


# Of a prediction error: 90 % within -1 and 1
ERROR = Distribution("normal", (0.0, 1 / INSIDE_90), of_logarithm=True)


def is_distribution(value: Any) -> bool:
    """Whether a scenario value is meant as a distribution."""
    return isinstance(value, Mapping) and not KINDS.keys().isdisjoint(value)


def distribution(graph: Graph, name: str, spec: Mapping[str, Any]) -> Distribution:
    """Read a distribution of an input: a table of its kind and numbers. Raises InputError."""
    if name in graph.roles.labels or values.is_option(graph, name):
        raise InputError(f"{name} takes names, not a distribution; sweep it as an axis")
    if spec.keys() == {"events", "hours"}:
        return of_events(graph, name, spec["events"], spec["hours"])
    kind = next(iter(spec), None)
    if len(spec) != 1 or kind not in KINDS or kind == "events":
        wrong = [key for key in spec if key not in {*KINDS, "hours"}]
        only = "give both" if len(spec) == 1 else "keep one"
        hint = nearest(str(wrong[0]), KINDS, "choose one") if wrong else only
        forms = ", ".join(f"{{{key} = {takes}}}" for key, takes in KINDS.items())
        raise InputError(f"{name} = {shown(dict(spec))} is not one of {forms}; {hint}")
    numbers = spec[kind]
    listed = isinstance(numbers, Sequence | np.ndarray) and not isinstance(numbers, str | bytes)
    if not listed or len(numbers) < 1 or (kind != "empirical" and len(numbers) != 2):
        raise InputError(f"{name}: {kind} = {shown(numbers)} is not {KINDS[kind]}; give that list")
    if kind != "empirical" and values.is_whole(graph, name):
        raise InputError(f"{name} is a whole number; give {{empirical = [value, value, ...]}}")
    first = values.number(graph, name, numbers[0])
    if kind == "empirical":
        return Distribution(
            kind, tuple(sorted(values.number(graph, name, value) for value in numbers))
        )
    if not math.isfinite(first):
        raise InputError(f"{name}: {kind} = {shown(numbers)} is not finite; give finite numbers")
    return _continuous(graph, name, kind, first, numbers)


def of_events(graph: Graph, name: str, events: Any, hours: Any) -> Distribution:
    """A mean time between events, as a number of events in a component time leave it."""
    if not name.endswith(LIFETIMES) or values.unit_of(graph, name) != "s":
        raise InputError(f"{name} is no mean time between failures; give another distribution")
    number = isinstance(events, int | float | np.number) and not isinstance(events, bool)
    if not number or not 0 <= events <= MOST_EVENTS:
        raise InputError(
            f"{name}: events = {shown(events)} is not a number from 0 to {MOST_EVENTS:,}; "
            "give how many were counted"
        )
    if not isinstance(hours, str):
        raise InputError(f'{name}: hours = {shown(hours)} has no unit; write it as "2.1e7 h"')
    time = values.number(graph, name, hours)
    if not math.isfinite(time):
        raise InputError(f"{name}: hours = {shown(hours)} is not finite; give a finite time")
    low, high = _bounds(graph, name)
    return Distribution("events", (float(events) + 0.5, time), low, high)


def _bounds(graph: Graph, name: str) -> tuple[float, float]:
    """The least and the most that an input may be; above 0, the bound itself is not valid."""
    row = graph.inputs.get(name)
    low, high = (row.low, row.high) if row else (-math.inf, math.inf)
    return (max(low, float(np.nextafter(0, 1))) if row and row.positive else low), high


def _continuous(
    graph: Graph, name: str, kind: str, first: float, numbers: Sequence[Any]
) -> Distribution:
    row = graph.inputs.get(name)
    if kind == "lognormal":
        last = numbers[1]
        number = isinstance(last, int | float | np.number) and not isinstance(last, bool)
        if not number or not 1 < last < math.inf:
            raise InputError(
                f"{name}: lognormal has the factor {shown(last)}; give a plain number above 1"
            )
        if first <= 0:
            raise InputError(f"{name}: lognormal has the median {first:g}; give one above 0")
    else:
        last = values.number(graph, name, numbers[1])
        if kind == "normal" and not 0 < last < math.inf:
            raise InputError(
                f"{name}: normal has the standard deviation {shown(numbers[1])}; give one above 0"
            )
        if kind == "uniform" and not first < last < math.inf:
            raise InputError(
                f"{name}: uniform from {shown(numbers[0])} to {shown(numbers[1])} is not a range; "
                "give [low, high], finite, low below high"
            )
    low, high = _bounds(graph, name)
    cut = Distribution(kind, (first, float(last)), low, high)
    if cut.outside > MOST_OUTSIDE:
        ends = f"{row.low:g} to {row.high:g}" if row else "its bounds"
        raise InputError(
            f"{name}: {kind} = {shown(numbers)} has a probability of {cut.outside:.2g} outside "
            f"{ends}; give a smaller spread, or uniform or empirical"
        )
    return cut
