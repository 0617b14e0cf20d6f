"""Policies as people state them, event by event: tiers due by the clock, repairs by tails."""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

import fleetcube
from fleetcube.kernels.laws import repair

from ... import formulas
from ...draws import generator
from ...evaluated import value
from ..check import Pairs, check

Three = tuple[float, float, float]
POLICIES = 24


class Policy(NamedTuple):
    """Tiers of memory, drives and storage; drives without a share are not there."""

    intervals: Three
    stalls: Three
    flushes: Three
    restarts: Three
    shares: Three
    mtbf: float


def drawn(rng: np.random.Generator) -> Policy:
    """Intervals from 1/15 to 1/150 of the MTBF in memory, each tier's up to 12 times the last."""
    mtbf = math.exp(rng.uniform(math.log(1800), math.log(40_000)))
    first = mtbf / math.exp(rng.uniform(math.log(15), math.log(150)))
    second = first * math.exp(rng.uniform(0, 2.5))
    third = second * math.exp(rng.uniform(0, 2.5))
    memory = rng.uniform(0.5, 0.95)
    drives = rng.uniform(0, 1 - memory) if rng.random() < 0.5 else 0.0
    waits = rng.random() < 0.5
    stalls = (rng.uniform(0.05, 1), *(rng.uniform(0.5, 8) * waits, rng.uniform(2, 60) * waits))
    flushes = (0.0, 0.0 if waits else 0.2 * second, 0.0 if waits else 0.2 * third)
    restarts = tuple(np.cumsum(rng.uniform(30, 200, 3)).tolist())
    shares = (memory, drives, 1 - memory - drives)
    return Policy((first, second, third), stalls, flushes, restarts, shares, mtbf)


def between_multiples() -> list[Policy]:
    """Intervals between multiples, whose last ones are cut short, and long stalls."""
    shares = {True: (0.7, 0.2, 0.1), False: (0.7, 0.0, 0.3)}
    return [
        Policy(
            (1000.0, 1000.0 * second, 1000.0 * second * third),
            (20.0, 40.0 * drives, 80.0),
            (0.0, 0.0, 0.0),
            (100.0, 200.0, 300.0),
            shares[drives],
            mtbf,
        )
        for second, third, mtbf in ((1.05, 1.1, 8e3), (1.3, 1.5, 4e3), (2.5, 1.1, 2e4))
        for drives in (True, False)
    ]


class Play:
    """A job: each tier's checkpoint is begun when it is due, and is one of the tiers below, too."""

    def __init__(self, policy: Policy, rng: np.random.Generator) -> None:
        self.policy, self.rng = policy, rng
        self.tiers = [tier for tier in range(3) if policy.shares[tier] > 0]
        self.clock = self.position = 0.0
        self.saved, self.safe = [0.0] * 3, [0.0] * 3
        self.under_way = list[tuple[int, float, float]]()
        self.storage_writes = 0

    def run(self, failures: int) -> tuple[float, float]:
        """Useful time over wall time, and writes to storage per unit of wall time."""
        fails = self.rng.exponential(self.policy.mtbf)
        while failures > 0:
            due = min(self.saved[tier] + self.policy.intervals[tier] for tier in self.tiers)
            if self.clock + due - self.position <= fails:
                self.clock, self.position = self.clock + due - self.position, due
                if self.save(fails):
                    continue
            struck, fails = self.recover(fails)
            failures -= struck
        return self.position / self.clock, self.storage_writes / self.clock

    def save(self, fails: float) -> bool:
        """Begin the checkpoints that are due, from the lowest tier on; False if one is cut off."""
        highest = max(
            tier
            for tier in self.tiers
            if self.saved[tier] + self.policy.intervals[tier] <= self.position + 1e-6
        )
        for tier in (tier for tier in self.tiers if tier <= highest):
            if self.clock + self.policy.stalls[tier] > fails:
                return False
            self.clock += self.policy.stalls[tier]
            self.saved[tier] = self.position
            ready = self.clock + self.policy.flushes[tier]
            self.under_way.append((tier, ready, self.position))
        return True

    def lose(self, level: int) -> None:
        """Copies that are safe by now count; the failure ends those that it is too grave for."""
        for tier, ready, position in self.under_way:
            if ready <= self.clock:
                self.storage_writes += tier == 2
                self.safe[tier] = max(self.safe[tier], position)
        self.under_way = [c for c in self.under_way if c[1] > self.clock and c[0] > level]

    def recover(self, fails: float) -> tuple[int, float]:
        """Recover from the tier that survives; failures strike meanwhile. Their number, and the
        time of the next."""
        level, struck = 0, 0
        while True:
            self.clock, struck = fails, struck + 1
            kind = int(self.rng.choice(3, p=self.policy.shares))
            self.lose(kind)
            level = max(level, kind)
            fails = self.clock + self.rng.exponential(self.policy.mtbf)
            if fails >= self.clock + self.policy.restarts[level]:
                break
        self.clock += self.policy.restarts[level]
        self.lose(-1)
        self.position = max(self.safe[level:])
        self.safe[:level] = [self.position] * level
        self.saved = [min(saved, self.position) for saved in self.saved]
        return struck, fails


def scenario(policy: Policy) -> dict[str, Any]:
    """The policy as a person states it, with times in place of bandwidths."""
    names = ("memory", "drive", "storage")
    point: dict[str, Any] = {"checkpoint_interval": policy.intervals[0], "memory_tier": "host"}
    point |= {"storage_tier_interval": policy.intervals[2], "cluster_mtbf": policy.mtbf}
    point |= {"memory_tier_survival": policy.shares[0], "n_gpus": 8, "nodes": 1}
    for name, stall, flush in zip(names, policy.stalls, policy.flushes, strict=True):
        point |= {f"{name}_tier_stall_time": stall, f"{name}_tier_flush_time": flush}
    memory, drives, storage = policy.restarts
    point |= {"memory_tier_restore_time": memory, "drive_copy_time": drives}
    point |= {"checkpoint_size": storage * 1e9, "checkpoint_read_bandwidth": 1e9}
    if policy.shares[1] > 0:
        point |= {"drive_tier_survival": policy.shares[0] + policy.shares[1]}
        point |= {"drive_tier_interval": policy.intervals[1]}
    none = ("detection_time", "drain_time", "provision_time", "reinit_time")
    return point | dict.fromkeys(none, 0.0)


@check(
    "drive_multiple storage_multiple longest_checkpoint_interval least_stated_interval "
    "drive_write_interval storage_write_interval storage_duty tiered_storage_duty "
    "tuned_stall_time_of_multiples shortest_checkpoint_interval_of_multiples",
    by="simulator",
    source="4,000 failures of each policy, every checkpoint begun as its tier's clock says",
    tolerance=0.012,
    absolute=True,
)
def clocks() -> Pairs:
    """goodput and storage's duty of 24 drawn policies, copies waited for and under way, and of 6
    whose intervals are between multiples"""
    rng = generator(62)
    for policy in [drawn(rng) for _ in range(POLICIES)] + between_multiples():
        played, writes = Play(policy, rng).run(4000)
        point = scenario(policy) | {"checkpoint_write_time": policy.restarts[2]}
        yield value("goodput", **point), played
        yield value("storage_duty", **point), writes * policy.restarts[2]


def stretches(policy: Policy) -> list[tuple[float, int, int]]:
    """Of one interval of storage: time that a failure cuts off, and where the two tiers below
    begin again then."""
    parts, position, drives, (memory, drive, storage) = [], 0.0, 0.0, policy.intervals
    saved = last = 0
    while position < storage:
        due = min(position + memory, drives + drive, storage)
        tiers = [0] + [1] * bool(due >= min(drives + drive, storage)) + [2] * bool(due >= storage)
        useful = due - position
        for tier in tiers:
            parts.append((useful * (tier == 0) + policy.stalls[tier], saved, last))
            saved += 1
            last = saved if tier == 1 else last
        drives, position = due if 1 in tiers else drives, due
    return parts


def expected_goodput(policy: Policy) -> float:
    """Goodput by the linear equations of the mean time from each stretch to the end of the last."""
    parts, shares, mtbf = stretches(policy), policy.shares, policy.mtbf
    recovering, reached = np.zeros(3), np.zeros((3, 3))
    for tier in (2, 1, 0):  # a failure meanwhile starts a recovery again, from the higher tier
        fails = -math.expm1(-policy.restarts[tier] / mtbf)
        ended = 1 - fails * sum(shares[: tier + 1])
        above = [fails * shares[higher] for higher in range(tier + 1, 3)]
        recovering[tier] = (mtbf * fails + above @ recovering[tier + 1 :]) / ended
        reached[tier] = ((1 - fails) * np.eye(3)[tier] + above @ reached[tier + 1 :]) / ended
    equations, times = np.eye(len(parts) + 1), np.zeros(len(parts) + 1)
    for at, (duration, *saved) in enumerate(parts):
        fails = -math.expm1(-duration / mtbf)
        times[at] = mtbf * fails + fails * shares @ recovering
        equations[at, at + 1] -= 1 - fails
        for begins, share in zip((*saved, 0), shares @ reached, strict=True):
            equations[at, begins] -= fails * share
    return float(policy.intervals[2] / np.linalg.solve(equations, times)[0])


@check(
    "tiered_delay equivalent_lost_work interruption_delay recoveries",
    by="derivation",
    source="linear equations of the mean time from each stretch of work or stall to the end",
    tolerance=1e-4,
)
def equations() -> Pairs:
    """goodput of 24 drawn policies with an MTBF of 0.3 to 30 intervals of memory, recoveries of
    0.002 to 0.3 MTBF, stalls of 0.01 to 0.3 of an interval, 0.5 to 0.97 survived by memory"""
    rng = generator(64)
    for _ in range(POLICIES):
        first, second, third = np.cumprod([1000.0, *rng.uniform(1.05, 4, 2)])
        mtbf = first * math.exp(rng.uniform(math.log(0.3), math.log(30)))
        stalls = np.array([first, second, third]) * rng.choice([0.03, 0.3]) * rng.uniform(0.3, 1, 3)
        restarts = mtbf * np.sort(np.exp(rng.uniform(math.log(0.002), math.log(0.3), 3)))
        memory = rng.choice([0.5, 0.8, 0.97])
        shares = np.array([memory, (1 - memory) * 0.6, (1 - memory) * 0.4])
        no_flush = (0.0, 0.0, 0.0)
        policy = Policy((first, second, third), stalls, no_flush, restarts, shares, mtbf)
        yield value("goodput", **scenario(policy)), expected_goodput(policy)


@check(
    "memory_tier_mtbf target_drive_interval tiered_exact_interval tiered_young_interval "
    "tiered_daly_interval",
    by="derivation",
    source="the least of goodput's closed form over 161 intervals on each side",
    tolerance=0.002,
)
def best_intervals() -> Pairs:
    """goodput with the intervals left open, and the most at any; with drives and without"""
    spans = np.geomspace(5.0, 7200.0, 161)
    for storage, drives, stalls in (
        (3600.0, 0.0, (0.4, 0.0, 9.0)),
        (1800.0, 0.15, (0.4, 6.0, 20.0)),
        (7200.0, 0.15, (3.0, 0.5, 20.0)),  # drives so cheap that they get each checkpoint
    ):
        shares, restarts = (0.8, drives, 0.2 - drives), (60.0, 90.0, 200.0)
        policy = Policy((0.0, 0.0, storage), stalls, (0.0, 0.0, 0.0), restarts, shares, 9000.0)
        point = scenario(policy)
        del point["checkpoint_interval"]
        others = spans[::4] if point.pop("drive_tier_interval", None) is not None else [storage]
        most = max(
            fleetcube.evaluate(
                "goodput", checkpoint_interval=spans, drive_tier_interval=other, **point
            ).max()
            for other in others
        )
        for chosen in ("exact", "daly", "young"):
            yield value("goodput", checkpoint_policy=chosen, **point), most


@check(
    "lognormal_mean lognormal_spread slow_repair_time",
    by="simulator",
    source="1,000,000 drawn repairs: their mean, median and a percentile",
    tolerance=0.01,
)
def repairs() -> Pairs:
    """median 6 h and p95 3 d, p90 of 8 h, p99 of a week"""
    rng = generator(63)
    for percent, high in ((95, 72.0), (90, 8.0), (99, 168.0)):
        spread = repair.lognormal_spread(6.0, high, NormalDist().inv_cdf(percent / 100))
        times = rng.lognormal(math.log(6.0), spread, 1_000_000)
        yield repair.lognormal_mean(6.0, spread), times.mean()
        yield high, np.percentile(times, percent)
        mean = repair.lognormal_mean(6.0, spread)
        yield formulas.slow_repair_time(mean, spread), np.percentile(times, 95)


@check(
    "storage_bytes checkpoint_storage_cost stepped_checkpoint_interval stepped_drive_interval "
    "stepped_storage_interval",
    by="derivation",
    source="a shelf of checkpoints, counted hour by hour and step by step",
)
def shelf() -> Pairs:
    """a write every hour, of which three are kept, for ten days at a price a byte and second"""
    shelf, most, paid = list[int](), 0, 0.0
    for hour in range(240):
        most = max(most, len(shelf) + 1)  # the new one is written before the oldest goes
        shelf = [*shelf, hour][-3:]
        paid += most * 5e9 * 2e-16 * 3600 if hour > 2 else 4 * 5e9 * 2e-16 * 3600
    yield formulas.storage_bytes(3, 5e9), most * 5e9
    yield formulas.checkpoint_storage_cost(most * 5e9, 2e-16, 240 * 3600.0), paid
    for law in ("checkpoint", "drive", "storage"):
        stepped = getattr(formulas, f"stepped_{law}_interval")
        yield stepped(500, 6.5), sum(6.5 for _ in range(500))
