"""Mean times between failures by part, from events, with the uncertainty of few events."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fleetcube.catalog import CatalogError, record
from fleetcube.formats.event_log import NO_FAILURE, Event, Log
from fleetcube.grid.errors import InputError, imported, nearest, shown
from fleetcube.grid.spec.distributions import distribution, of_events
from fleetcube.grid.spec.problem import resolve
from fleetcube.kernels.declare import HOUR
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import ALL_CAUSES, LOST, PARTS_MTTF, SHARED_BY

from .calibration_file import quoted

WINDOW = 600.0  # seconds: lines of one node that follow within are one event
MOST_VALUES = 20  # of an empirical distribution that is written
ENDS = (0.05, 0.5, 0.95)
THREE = -math.log(ENDS[0])  # events that are none in 5 % of the cases
_UNKNOWN = "host"  # takes the events of kinds that no one knows: a node's failure


@dataclass(frozen=True)
class Rate:
    """A mean time by name: its events and the time of its components, those of a prior included."""

    name: str
    events: float
    seconds: float

    @property
    def quantiles(self) -> list[float]:
        """The mean time at ENDS. Its own mean is infinite after no event, and never shown."""
        law = of_events(PHYSICS, self.name, self.events, f"{self.seconds} s")
        return [float(each) for each in law.quantile(np.array(ENDS))]

    @property
    def written(self) -> str:
        return f'{{ events = {self.events:g}, hours = "{self.seconds / HOUR:.6g} h" }}'


@dataclass(frozen=True)
class Failures:
    """The rates of a log, its events, the GPU time watched, times lost in seconds, and remarks."""

    rates: tuple[Rate, ...]
    events: int
    gpus: int  # 0 where their number changes
    gpu_seconds: float
    lost: Mapping[str, Sequence[float]]
    notes: tuple[str, ...]

    @property
    def whole(self) -> Rate:
        """All causes together, without a record's."""
        return Rate(ALL_CAUSES[0], self.events, self.gpu_seconds)

    @property
    def again(self) -> tuple[float, float]:
        """90 of 100 times so many events are counted in as many GPU hours again."""
        low, high = imported("scipy.stats").nbinom.ppf(ENDS[::2], self.events + 0.5, 0.5)
        return float(low), float(high)


def failures(
    log: Log,
    scenario: Mapping[str, Any],
    watched: tuple[int, float] | None,
    parts: Mapping[str, str],
    prior: str | None,
) -> Failures:
    """Rates of a log: of `watched` GPUs and seconds, else of the time that it states; with the
    parts that some kinds are of, and "RECORD=N", N events more of each. Raises InputError."""
    gpu_seconds = math.prod(watched) if watched else log.gpu_seconds
    if not 0 < gpu_seconds < math.inf:
        raise InputError(
            'the log has no number of GPUs and no time watched; add --gpus 16384 --hours "54 d"'
        )
    per_gpu = _per_gpu(scenario, None if watched else log)
    events, notes = _unique_events(log, parts)
    counts = _by_part(events, per_gpu, notes)
    shares = {PARTS_MTTF[part][0]: share for part, share in per_gpu.items()} | {ALL_CAUSES[0]: 1.0}
    rates = {name: Rate(name, n, gpu_seconds * shares[name]) for name, n in counts.items()}
    if prior is not None:
        notes.append(_add_record(rates, prior, shares, gpu_seconds))
    if not events:
        ends = f"{gpu_seconds / HOUR / THREE:,.4g} GPU hours (rule of three)"
        notes.append(f"no event: 95 % sure of a mean above {ends}; the table is of Jeffreys' prior")
    whole, gpus = sum(event.count for event in events), watched[0] if watched else 0
    return Failures(
        tuple(rates.values()), whole, gpus, gpu_seconds, _lost(log, events), tuple(notes)
    )


def _unique_events(log: Log, parts: Mapping[str, str]) -> tuple[list[Event], list[str]]:
    """The events of a log, each once, and remarks on those left out."""
    labelled = [replace(e, part=parts.get(e.kind.lower(), e.part)) for e in log.events]
    failed = [event for event in labelled if event.part != NO_FAILURE and event.count]
    events, repeated = merged(failed)
    within = f"of one node within {WINDOW / 60:.0f} minutes"
    notes = [f"{repeated:,} lines repeat an event, {within}, and do not count"] if repeated else []
    if idle := sum(event.count for event in labelled) - sum(event.count for event in failed):
        notes.append(f"{idle:,} lines are of no failure, such as jobs that ended, or plans")
    return events, notes + [f"{n:,} left out: {why}" for why, n in log.dropped.items() if n]


def _lost(log: Log, events: Sequence[Event]) -> dict[str, list[float]]:
    lost = {
        name: [*log.lost.get(column, ()), *(e.lost[column] for e in events if column in e.lost)]
        for column, name in LOST.items()
    }
    return {name: seconds for name, seconds in lost.items() if seconds}


def merged(events: Sequence[Event]) -> tuple[list[Event], int]:
    """Events in order of time, lines that repeat one joined to it, and the number of these."""
    unique: list[Event] = []
    last: dict[str, tuple[float, int]] = {}  # by node: its last line, and the event of that
    for event in sorted(events, key=lambda each: each.time or 0.0):
        time, position = last.get(event.node, (-math.inf, -1))
        if event.time is None or not event.node:
            unique.append(event)
            continue
        if event.time - time <= WINDOW:
            unique[position] = _join_events(unique[position], event)
        else:
            position = len(unique)
            unique.append(event)
        last[event.node] = event.time, position
    return unique, len(events) - len(unique)


def _join_events(first: Event, second: Event) -> Event:
    lost = {
        name: max(event.lost.get(name, 0.0) for event in (first, second))
        for name in {*first.lost, *second.lost}
    }
    named = first if first.part else second
    return replace(named, time=first.time, count=max(first.count, second.count), lost=lost)


def _per_gpu(scenario: Mapping[str, Any], log: Log | None) -> dict[str, float]:
    """Number of each part per GPU, from the scenario; GPUs per node from the log."""
    given = resolve(scenario, {}).constants if scenario else {}

    def number(name: str) -> float:
        return float(given.get(name, INPUTS[name].default))

    _, by_node = ALL_CAUSES
    gpus = log.gpu_seconds / log.node_seconds if log and log.node_seconds else number(by_node)
    on_node = {"": 1.0, by_node: gpus}
    return {
        part: 1 / number(SHARED_BY[part])
        if part in SHARED_BY
        else (on_node[by] if by in on_node else number(by)) / gpus
        for part, (_, by, _) in PARTS_MTTF.items()
    }


def _by_part(
    events: Sequence[Event], per_gpu: Mapping[str, float], notes: list[str]
) -> Counter[str]:
    """Events by the name of their mean time; a part that is not counted adds to its parent."""
    counts: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    moved: Counter[tuple[str, str]] = Counter()
    if not any(event.part for event in events):
        counts[ALL_CAUSES[0]] = sum(event.count for event in events)
        return counts
    for event in events:
        part = event.part or _UNKNOWN
        while not per_gpu[part]:
            part = PARTS_MTTF[part][2]
        counts[PARTS_MTTF[part][0]] += event.count
        if not event.part:
            unknown[event.kind or "no kind"] += event.count
        elif part != event.part:
            moved[event.part, part] += event.count
    if unknown:
        named = ", ".join(f"{shown(kind)} {n:,}" for kind, n in unknown.most_common(5))
        more = f" and {len(unknown) - 5:,} more" * (len(unknown) > 5)
        notes.append(f"unknown kinds count as {_UNKNOWN} (--kind NAME=PART): {named}{more}")
    for (part, other), n in moved.items():
        by = PARTS_MTTF[part][1]
        notes.append(f"{n:,} {part} events count as {other}: {by} is 0; --spec may give it")
    return counts


def _add_record(
    rates: dict[str, Rate], prior: str, shares: Mapping[str, float], watched: float
) -> str:
    """Add some events at the rates of a record, each in the time that it has for them."""
    label, _, number = prior.rpartition("=")
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", number) or not (weight := float(number)):
        raise InputError(
            f"--prior {shown(prior)} has no number of events that the record counts as; "
            "write RECORD=N, as llama-3-405b-components=10"
        )
    try:
        record_values = record("reliability", label).values
    except CatalogError as error:
        raise InputError(str(error)) from None
    means = {
        name: distribution(PHYSICS, name, value).median if isinstance(value, Mapping) else value
        for name, value in record_values.items()
        if name in shares
    }
    means = {name: mean for name, mean in means.items() if mean < math.inf and shares[name]}
    if not means:
        raise InputError(f"the record {label!r} has no MTTF of a part; name another")
    whole = ALL_CAUSES[0]
    if whole in rates:
        means = {whole: 1 / sum(shares[name] / mean for name, mean in means.items())}
    for name, mean in means.items():
        rate = rates.get(name, Rate(name, 0, watched * shares[name]))
        rates[name] = Rate(name, rate.events + weight, rate.seconds + weight * mean)
    return f"the record {label} counts as {weight:g} events more of each rate"


def kinds_of(given: Sequence[str]) -> dict[str, str]:
    """Parts by kind, as in "gremlins=host". Raises InputError."""
    parts = {**dict.fromkeys(PARTS_MTTF), "none": None}
    parts_by_kind = {}
    for each in given:
        kind, _, part = each.rpartition("=")
        if part not in parts or not kind:
            rule = f"write NAME=PART, with one of {', '.join(parts)}"
            raise InputError(f"--kind {shown(each)}: {nearest(part, parts, rule)}")
        parts_by_kind[kind.strip().lower()] = NO_FAILURE if part == "none" else part
    return parts_by_kind


def quantiles(seconds: Sequence[float]) -> list[float]:
    return [float(each) for each in np.quantile(seconds, ENDS)]


def text(measured: Failures, about: Mapping[str, str], watched: Mapping[str, str]) -> str:
    """A record of reliability as TOML. Parts without an event are not counted: none is known."""
    lines = [f"{name} = {quoted(value)}" for name, value in about.items()]
    lines += [f"{rate.name} = {rate.written}" for rate in measured.rates]
    rate_names = {rate.name for rate in measured.rates}
    if ALL_CAUSES[0] not in rate_names:
        names = [name for name, _, _ in PARTS_MTTF.values() if name not in rate_names]
        lines += [f'{name} = "inf h"' for name in names]
    for name, seconds in measured.lost.items():
        some = seconds
        if len(seconds) > MOST_VALUES:
            some = np.quantile(seconds, (np.arange(MOST_VALUES) + 0.5) / MOST_VALUES).tolist()
        lines.append(f"{name} = {{ empirical = [{', '.join(f'{each:.5g}' for each in some)}] }}")
    lines += ["", "[fit]", *(f"{name} = {quoted(value)}" for name, value in watched.items())]
    return "\n".join([*lines, f"events = {measured.events}"]) + "\n"
