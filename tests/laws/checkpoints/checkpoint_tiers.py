"""Checkpoints in several tiers: simulated by failures, in 50 digits, and against papers."""

import itertools
import math
from typing import Any

import mpmath
import numpy as np

from fleetcube.kernels.laws import checkpoint, checkpoint_tiers

from ... import formulas
from ...draws import generator
from ...evaluated import computed
from ..check import Pairs, check

Three = tuple[float, float, float]
# Interval of memory, copies to drives and storage, stalls, restarts, and mean times between
# failures of the three severities
PLAYED: list[tuple[float, int, int, Three, Three, Three]] = [
    (100.0, 5, 4, (1.0, 5.0, 20.0), (10.0, 30.0, 60.0), (1e3, 3e3, 9e3)),
    (300.0, 1, 3, (10.0, 0.0, 60.0), (100.0, 30.0, 600.0), (1e3, math.inf, 2e3)),
    (300.0, 3, 1, (0.0, 20.0, 60.0), (100.0, 30.0, 600.0), (math.inf, 700.0, 2e3)),
    (600.0, 2, 2, (30.0, 60.0, 100.0), (300.0, 300.0, 900.0), (4e3, 8e3, 2e4)),
    (60.0, 10, 1, (2.0, 20.0, 0.0), (60.0, 90.0, 0.0), (2e3, 1e4, math.inf)),  # drives survive all
    (600.0, 1, 1, (0.0, 0.0, 60.0), (0.0, 0.0, 900.0), (math.inf, math.inf, 3e3)),  # one tier
]


def _play(
    interval: float, second: int, third: int, stalls: Three, restarts: Three, mtbfs: Three
) -> tuple[float, float, float]:
    """Useful, stalled and recovering time over wall time, from 60,000 simulated failures.

    A failure in a tier's stall restarts it if a lower tier serves the failure; one in a recovery
    restarts that from the higher tier of the two.
    """
    rng = generator(43)
    rates = np.array([1 / m for m in mtbfs])
    lives = iter(rng.exponential(1 / rates.sum(), 60_000).tolist())
    kinds = iter(rng.choice(3, 60_000, p=rates / rates.sum()).tolist())
    safe, at, clock, recovering = [0, 0, 0], 0, 0.0, 0.0
    begin = [(interval + stalls[0], 0)]
    left, kind, ahead = next(lives), next(kinds), [*begin]
    while True:
        length, tier = ahead[0]
        if left >= length:
            left, clock = left - length, clock + length
            at += tier == 0
            safe[tier] = at
            copies = at % second == 0, at % (second * third) == 0
            above = [(stalls[n], n) for n in (1, 2) if copies[n - 1]] if tier == 0 else []
            ahead = [*ahead[1:], *above] or [*begin]
            continue
        clock, level = clock + left, kind
        for left, kind in zip(lives, kinds, strict=True):
            spent = min(left, restarts[level])
            clock, recovering = clock + spent, recovering + spent
            if left > restarts[level]:
                left -= restarts[level]
                break
            level = max(level, kind)
        else:
            kept = safe[2] * interval
            stalled = safe[2] * (stalls[0] + (stalls[1] + stalls[2] / third) / second)
            return kept / clock, stalled / clock, recovering / clock
        if safe[level] < at or level >= tier > 0:
            at, ahead = safe[level], [*begin]
        safe[:level] = [safe[level]] * level


def _point(
    interval: float, second: int, third: int, stalls: Three, restarts: Three, mtbfs: Three
) -> dict[str, Any]:
    rates = [1 / m for m in mtbfs]
    shares = [rate / sum(rates) for rate in rates]
    point: dict[str, Any] = {"checkpoint_mode": "tiered", "goodput_model": "exact"}
    point |= {"checkpoint_interval": interval, "drive_copy_every": second}
    point |= {"storage_copy_every": third, "cluster_mtbf": 1 / sum(rates), "cluster_uptime": 1.0}
    names = ("memory_tier", "drive_tier", "storage_tier")
    for name, stall, share in zip(names, stalls, shares, strict=True):
        point |= {f"{name}_stall_time": stall, f"{name}_flush_time": 0.0, f"{name}_share": share}
    restores = {"memory_tier_restore_time": restarts[0], "drive_copy_time": restarts[1]}
    point |= restores | {"checkpoint_size": restarts[2], "checkpoint_read_bandwidth": 1.0}
    return point | dict.fromkeys(
        ("detection_time", "drain_time", "effective_provision_time", "reinit_time"), 0.0
    )


@check(
    "tiered_delay memory_tier_period memory_tier_restart_time drive_tier_restart_time "
    "storage_tier_restart_time interruption_delay recoveries equivalent_lost_work "
    "tiered_checkpoint_stall_time tiered_checkpoint_restore_time dearer_recovery",
    by="simulator",
    source="60,000 failures of three severities, nested checkpoints, one after the other",
    tolerance=0.02,
)
def played() -> Pairs:
    """goodput, stalls, recovery of 6 patterns: goodput of 0.2 to 0.9, tiers that serve none"""
    for case in PLAYED:
        kept, stalled, recovering = _play(*case)
        names = ("goodput", "checkpoint_overhead", "recovery_overhead", "rework_overhead")
        good, stalls, recovery, rework = computed(_point(*case), *names)
        yield good, kept
        yield stalls, stalled
        yield recovery, recovering
        yield recovery + rework, 1 - kept - stalled


def _time(duration: Any, rate: Any, graver: Any, restart: Any, whole: Any) -> Any:
    """-log E[e^(-g T)] / g by the equation of renewals, in the working precision.

    E = P + (rate - g) / (g + rate - g) (1 - P) rho E, P = e^(-rate x), rho = E[e^(-g R')]
    """
    kept = mpmath.exp(-rate * duration)
    done = mpmath.exp(-whole * restart)
    own = rate - graver
    recovered = done / (1 - (whole - graver) / whole * (1 - done))
    return -mpmath.log(kept / (1 - own / rate * (1 - kept) * recovered)) / graver


@check(
    "interruption_delay recoveries growth",
    by="derivation",
    source="Laplace transforms of renewals, in 50 digits",
    tolerance=1e-12,
)
def transforms() -> Pairs:
    """durations, recoveries and graver failures from a billionth of the MTBF to thrice it"""
    with mpmath.workdps(50):
        for x, r, g in itertools.product((1e-9, 1e-3, 0.5, 3.0), (0.0, 1e-6, 1.0), (1e-9, 0.4)):
            duration, restart, graver = mpmath.mpf(x), mpmath.mpf(r), mpmath.mpf(g)
            rate = mpmath.mpf(1.0)
            spent = checkpoint_tiers.interrupted_restart(r, 0.0, 1.0, 1.0)
            again = checkpoint_tiers.recoveries(1.0 - g, spent, g)
            yield checkpoint_tiers.growth(x), float(mpmath.expm1(duration) / duration - 1)
            ours = x + checkpoint_tiers.interruption_delay(x, 1.0, g, again)
            yield ours, float(_time(duration, rate, graver, restart, rate))


@check(
    "interruption_delay recoveries tiered_delay equivalent_lost_work",
    by="derivation",
    source="Daly 2006, eq. 13: one tier, whichever it is, is one tier",
    tolerance=1e-12,
)
def one_tier() -> Pairs:
    """goodput of one tier that serves all, as of checkpoint_mode = sync; without failures, 1"""
    for which, mtbf in itertools.product(range(3), (900.0, 1e5, math.inf)):
        serves = [which == n for n in range(3)]
        stalls = tuple(30.0 * on for on in serves)
        rest = tuple(300.0 * on for on in serves)
        mtbfs = tuple(mtbf if on else math.inf for on in serves)
        if mtbf < math.inf:
            point = _point(600.0, 1, 1, stalls, rest, mtbfs)  # type: ignore[arg-type]
            slow = checkpoint.expected_slowdown(600.0, 30.0, 300.0, mtbf)
            yield computed(point, "goodput")[0], 1 / slow
        spent = checkpoint_tiers.interrupted_restart(300.0, 0.0, 1 / mtbf, 1 / mtbf)
        again = checkpoint_tiers.recoveries(1 / mtbf, spent, 0.0)
        one = 630.0 + checkpoint_tiers.interruption_delay(630.0, 1 / mtbf, 0.0, again)
        yield one / 600, checkpoint.expected_slowdown(600.0, 30.0, 300.0, mtbf)
    yield checkpoint_tiers.equivalent_lost_work(0.2, math.inf, 5.0, 30.0, math.inf), 0.0


def _waste(stalls: Three, rates: Three, first: Any, second: Any, third: Any) -> Any:
    """First-order waste of three intervals, each in the shape of a grid."""
    return sum(
        d / tau + rate * tau / 2
        for d, rate, tau in zip(stalls, rates, (first, second, third), strict=True)
    )


@check(
    "tiered_delay equivalent_lost_work",
    by="derivation",
    source="the limit of short intervals: goodput of checkpoints that cost nothing",
    tolerance=1e-9,
)
def free_checkpoints() -> Pairs:
    """intervals of 0 and of a microsecond; tiers that serve all, some and nothing"""
    for *_, restarts, mtbfs in PLAYED:
        at, beside = (
            computed(_point(tau, 1, 1, (0.0, 0.0, 0.0), restarts, mtbfs), "goodput")[0]
            for tau in (0.0, 1e-6)
        )
        yield at, beside


# Stalls and rates of failures of each tier
BEST: list[tuple[Three, Three]] = [
    ((0.5, 4.5, 1051.0), (2.0e-7, 1.8e-6, 4.0e-7)),
    ((10.0, 20.0, 100.0), (1 / 36e3, 1 / 72e3, 1 / 72e4)),
    ((1.0, 40.0, 50.0), (1e-6, 1e-4, 1e-5)),
    ((20.0, 3.0, 600.0), (1e-4, 1e-4, 1e-6)),  # pooled: tiers 1 and 2
    ((20.0, 30.0, 1.0), (1e-5, 1e-5, 1e-4)),  # pooled: all
]


@check(
    "pooled_interval drive_copy_every storage_copy_every tiered_mtbf",
    by="derivation",
    source="the least first-order waste over 64,516 nested patterns",
    tolerance=0.005,
)
def best_patterns() -> Pairs:
    """waste at the closed form's pattern, and over every multiple up to 3,000, 254 of each"""
    for stalls, rates in BEST:
        total = sum(rates)
        shares = [rate / total for rate in rates]
        flushes, mtbf = (0.0, 0.0, 0.0), 1 / total
        second = float(formulas.drive_copy_every(*stalls, *flushes, *shares, mtbf))
        third = float(formulas.storage_copy_every(*stalls, *flushes, *shares, mtbf))
        mean = formulas.tiered_checkpoint_stall_time(*stalls, second, third)
        span = formulas.tiered_mtbf(*shares, second, third, mtbf)
        tau = math.sqrt(2 * mean * span)
        ours = _waste(stalls, rates, tau, tau * second, tau * second * third)
        n = np.unique(np.floor(np.geomspace(1, 3000, 400)))
        two, three = n[:, None], n[None, :]
        stall = stalls[0] + (stalls[1] + stalls[2] / three) / two
        rework = rates[0] + two * (rates[1] + three * rates[2])
        yield ours, float(np.sqrt(2 * stall * rework).min())


@check(
    "pooled_interval drive_copy_every storage_copy_every",
    by="table",
    source="Benoit et al. 2017: the least waste of tiers is the sum of sqrt(2 d lambda)",
    tolerance=0.01,
)
def benoits_sum() -> Pairs:
    """three sets of tiers whose intervals grow from tier to tier, whole multiples taken"""
    for stalls, rates in BEST[:3]:
        total = sum(rates)
        shares = [rate / total for rate in rates]
        second = float(formulas.drive_copy_every(*stalls, 0.0, 0.0, 0.0, *shares, 1 / total))
        third = float(formulas.storage_copy_every(*stalls, 0.0, 0.0, 0.0, *shares, 1 / total))
        stall = stalls[0] + (stalls[1] + stalls[2] / third) / second
        rework = rates[0] + second * (rates[1] + third * rates[2])
        ideal = sum(math.sqrt(2 * d * rate) for d, rate in zip(stalls, rates, strict=True))
        yield math.sqrt(2 * stall * rework), ideal


@check(
    "drive_tier_share storage_tier_share",
    by="derivation",
    source="1,000 failures of drawn gravity: which tier is the first that survives it?",
)
def fallbacks() -> Pairs:
    """tiers that survive nothing, some or all"""
    gravity = (np.arange(1000) + 0.5) / 1000
    for memory, drive in ((0.0, 0.0), (0.6, 0.9), (0.6, 0.0), (0.0, 0.9), (1.0, 1.0), (0.6, 0.6)):
        served = [
            next(tier for tier, most in enumerate((memory, drive, 1.0)) if g < most)
            for g in gravity
        ]
        second = formulas.drive_tier_share(memory, drive)
        yield second, served.count(1) / 1000
        yield formulas.storage_tier_share(memory, second), served.count(2) / 1000


@check(
    "peer_memory_tier_copy_time memory_tier_stall_time drive_tier_stall_time "
    "storage_tier_stall_time memory_tier_flush_time drive_tier_flush_time storage_tier_flush_time "
    "tiered_checkpoint_flush_time",
    by="simulator",
    source="copies sent millisecond by millisecond, on a rail that idles in some of them",
)
def copies() -> Pairs:
    """copies of 80 s, a rail idle for 4 of 10 ms; all, half and nothing waited for"""
    clock, sent = 0, 0
    while sent < 80_000:
        sent += clock % 10 >= 6
        clock += 1
    copy = float(formulas.peer_memory_tier_copy_time(80.0, 0.6))
    yield copy, clock / 1000
    for waited in (0.0, 0.5, 1.0):
        stalled = {"memory": 2.0 + waited * copy, "drive": waited * 9.0, "storage": waited * 400.0}
        later = {"memory": copy, "drive": 9.0, "storage": 400.0}
        yield formulas.memory_tier_stall_time(0.6, copy, 2.0, waited), stalled["memory"]
        yield formulas.drive_tier_stall_time(0.3, 0.6, 9.0, 2.0, waited), stalled["drive"]
        yield formulas.storage_tier_stall_time(0.1, 400.0, 2.0, waited), stalled["storage"]
        memory = formulas.memory_tier_flush_time(0.6, copy, waited)
        drive = formulas.drive_tier_flush_time(0.3, 9.0, waited)
        storage = formulas.storage_tier_flush_time(0.1, 400.0, waited)
        for name, flush in (("memory", memory), ("drive", drive), ("storage", storage)):
            yield flush + stalled[name] - (2.0 if name == "memory" else 0.0), later[name]
        shortest = next(
            tau
            for tau in itertools.count(0.0, 0.25)
            if tau >= memory and 5 * tau >= drive and 15 * tau >= storage
        )
        ours = formulas.tiered_checkpoint_flush_time(memory, drive, storage, 5, 3)
        yield math.ceil(ours * 4) / 4, shortest
    # the lowest tier in use takes the snapshot; tiers that serve nothing are not written
    yield formulas.drive_tier_stall_time(0.3, 0.0, 9.0, 2.0, 0.0), 2.0
    yield formulas.storage_tier_stall_time(1.0, 400.0, 2.0, 0.0), 2.0
    yield formulas.memory_tier_stall_time(0.0, copy, 2.0, 1.0), 0.0
    yield formulas.storage_tier_flush_time(0.0, 400.0, 0.0), 0.0


@check(
    "drive_tier_rework storage_tier_rework memory_tier_rework tier_rework_time",
    by="simulator",
    source="a ledger of one failure in each of 12,000 s, by tier",
    tolerance=1e-3,
)
def ledger() -> Pairs:
    """every 4th checkpoint to drives, every 12th to storage"""
    flushes, shares, spans = (1.0, 10.0, 50.0), (0.5, 0.3, 0.2), (100.0, 400.0, 1200.0)
    lost = [0.0, 0.0, 0.0]
    for second in range(12_000):
        for tier, span in enumerate(spans):
            since = (second + 0.5) % span
            unsafe = span if since < flushes[tier] else 0.0  # the last one is not safe yet
            lost[tier] += shares[tier] * (since + unsafe)
    whole = sum(lost)
    each = formulas.tier_rework_time(*shares, *spans, *flushes)
    yield each, whole / 12_000
    for tier, name in enumerate(("memory", "drive", "storage")):
        law = getattr(formulas, f"{name}_tier_rework")
        yield law(whole, each, shares[tier], spans[tier], flushes[tier]), lost[tier]


@check(
    "drive_copy_time host_memory_tier_bytes peer_memory_tier_bytes drive_tier_bytes "
    "tiered_infeasible_reason",
    by="derivation",
    source="bytes laid out node by node, tiers struck out one after the other",
)
def capacities() -> Pairs:
    """12 GB on 4 nodes of 8 GPUs: 3 GB a node, twice, and a peer's as well"""
    held = {"host": 0.0, "peer": 0.0}
    for _version in ("safe", "on its way"):
        held["host"] += 12e9 / 4
        held["peer"] += 12e9 / 4 + 12e9 / 4
    yield formulas.host_memory_tier_bytes(12e9, 4), held["host"]
    yield formulas.peer_memory_tier_bytes(12e9, 4), held["peer"]
    yield formulas.drive_tier_bytes(12e9, 4), held["host"]
    seconds, left = 0, 12e9
    while left > 0:
        left, seconds = left - 32 * 3e6, seconds + 1
    yield formulas.drive_copy_time(12e9, 32, 3e6), seconds
    for layout, progress, flush, memory, drive, room, disk, code, *shorter in (
        (0.0, 0.0, 5.0, 0.6, 0.9, 12e9, 6e9, 0),
        (10.0, 15.0, 20.0, 0.6, 0.5, 1e9, 1e9, 10),
        (0.0, 15.0, 20.0, 0.6, 0.5, 1e9, 1e9, 33),
        (0.0, 15.0, 20.0, 0.6, 0.9, 1e9, 6e9, 32),
        (0.0, 15.0, 20.0, 0.6, 0.9, 12e9, 1e9, 32),
        (0.0, 15.0, 20.0, 0.6, 0.0, 12e9, 1e9, 11),
        (0.0, 15.0, 20.0, 0.0, 0.9, 1e9, 6e9, 11),
        (0.0, 15.0, 5.0, 0.6, 0.9, 12e9, 6e9, 15),
        (0.0, 15.0, 5.0, 0.6, 0.9, 12e9, 6e9, 33, 9.0),  # storage more often than memory
        (0.0, 0.0, 5.0, 0.6, 0.9, 12e9, 6e9, 0, 10.0),
        (0.0, 0.0, math.nan, 0.6, 0.9, 12e9, 6e9, math.nan),
    ):
        longest = shorter[0] if shorter else math.inf
        yield (
            formulas.tiered_infeasible_reason(
                layout, progress, 10.0, flush, memory, drive, 12e9, 6e9, room, disk, longest
            ),
            code,
        )


@check(
    "storage_tier_stall_time",
    by="table",
    source="Wang et al. 2023 (Gemini): 530 billion parameters to storage of 20 Gb/s take 42 min",
    tolerance=0.012,
)
def geminis_storage() -> Pairs:
    """12 bytes a parameter: weights and moments in FP32"""
    point = {"checkpoint_mode": "tiered", "tier_stall_share": 1.0, "n_gpus": 2240}
    point |= {"parameters": 530e9, "checkpoint_bytes_per_parameter": 12}
    point |= {"checkpoint_write_bandwidth": 20e9 / 8}
    yield computed(point, "storage_tier_stall_time")[0], 42 * 60
