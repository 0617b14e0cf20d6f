"""Checkpoints and failures: Daly's model integrated, played and searched."""

import math
import random
from collections.abc import Callable

import numpy as np
from scipy import integrate
from scipy.optimize import minimize_scalar
from scipy.special import lambertw

from fleetcube.kernels import checkpoint, reliability
from fleetcube.kernels.quantities import checkpoint as quantities
from fleetcube.kernels.quantities import goodput, recovery

from .check import Pairs, check

CASES = ((30.0, 600.0, 86400.0), (5.0, 0.0, 3600.0), (300.0, 900.0, 7200.0), (1.0, 60.0, 1e7))


def wall_of_a_segment(length: float, recovers: float, mtbf: float) -> float:
    """Expected time to get through a segment: the chance to get through, and where it breaks."""

    def mean_of_break(until: float) -> float:
        weight = integrate.quad(lambda t: t * math.exp(-t / mtbf) / mtbf, 0, until)[0]
        return float(weight / -math.expm1(-until / mtbf))

    fails = -math.expm1(-length / mtbf)
    tries = fails / (1 - fails)  # failures before it is done
    again = 0.0
    if recovers:
        failed = -math.expm1(-recovers / mtbf)  # recovering can fail, too
        again = recovers + failed / (1 - failed) * mean_of_break(recovers)
    return length + tries * (mean_of_break(length) + again)


@check(
    "segment_efficiency",
    "segment_rework",
    by="derivation",
    source="expected time of a segment from its chance to break and the mean time of a break, integrated",
    tolerance=1e-8,
)
def segments() -> Pairs:
    """intervals of 0.01 to 5 times the time between failures, and no failures"""
    for share in (0.01, 0.0999, 0.1001, 1.0, 5.0):
        length = share * 7200.0
        kept = length / wall_of_a_segment(length, 0.0, 7200.0)
        yield checkpoint.segment_efficiency(length - 60, 60.0, 7200.0), kept
        yield checkpoint.segment_rework(length - 60, 60.0, 7200.0), 1 - kept
    yield checkpoint.segment_efficiency(3600.0, 60.0, math.inf), 1.0
    yield checkpoint.segment_rework(3600.0, 60.0, math.inf), 0.0


@check("useful_share", "stall_share", by="derivation", source="a segment drawn second by second")
def shares_of_a_segment() -> Pairs:
    """intervals of 1 s to an hour, free checkpoints, an endless interval"""
    for work, stall in ((1, 1), (3600, 30), (600, 0)):
        drawn = "w" * work + "s" * stall
        yield checkpoint.useful_share(work, stall), drawn.count("w") / len(drawn)
        yield checkpoint.stall_share(work, stall), drawn.count("s") / len(drawn)
    yield checkpoint.useful_share(math.inf, 30.0), 1.0
    yield checkpoint.stall_share(math.inf, 30.0), 0.0


@check(
    "expected_slowdown",
    by="derivation",
    source="segments and recoveries that break and begin anew, means integrated",
    tolerance=1e-7,
)
def slowdown() -> Pairs:
    """four clusters, three intervals each"""
    for stall, recovers, mtbf in CASES:
        for work in (0.3, 1.0, 3.0):
            useful = work * math.sqrt(2 * stall * mtbf)
            theirs = wall_of_a_segment(useful + stall, recovers, mtbf) / useful
            yield checkpoint.expected_slowdown(useful, stall, recovers, mtbf), theirs


@check(
    "exact_interval",
    by="peer",
    source="scipy.special.lambertw",
    tolerance=1e-7,
)
def exact_interval() -> Pairs:
    """stalls of 1e-4 to 10 times the time between failures"""
    for ratio in np.geomspace(1e-4, 10, 60):
        theirs = 1e4 * (1 + lambertw(-math.exp(-ratio - 1)).real)
        yield checkpoint.exact_interval(ratio * 1e4, 1e4), theirs


@check(
    "daly_interval",
    by="table",
    source="Daly 2006, FGCS 22(3), figures 3 to 5: 117 minutes for M = 24 h, d = 5 min",
    tolerance=5e-3,
)
def printed_by_daly() -> Pairs:
    """one printed optimum; M where d > 2 M"""
    yield checkpoint.daly_interval(5.0, 1440.0), 117
    yield checkpoint.daly_interval(100.0, 40.0), 40.0


def best_interval(time: Callable[[float], float], low: float, high: float) -> float:
    bounds = (math.log(low), math.log(high))
    found = minimize_scalar(lambda x: time(math.exp(x)), bounds=bounds, options={"xatol": 1e-12})
    return math.exp(found.x)


@check(
    "daly_interval",
    "daly_checkpoint_interval",
    by="derivation",
    source="Daly's eq. 13 minimised by search",
    tolerance=1.5e-2,
)
def dalys_series() -> Pairs:
    """stalls of 1e-4 to 0.5 times the time between failures; the shortest interval possible"""
    for ratio in (1e-4, 1e-3, 1e-2, 0.1, 0.5):
        theirs = best_interval(lambda t, d=ratio: math.expm1(t + d) / t, ratio / 10, 10.0)
        yield checkpoint.daly_interval(ratio, 1.0), theirs
        yield quantities.daly_checkpoint_interval(theirs, 3.0), max(theirs, 3.0)


@check(
    "young_interval",
    "first_order_waste",
    "young_checkpoint_interval",
    "exact_checkpoint_interval",
    by="derivation",
    source="stalls and half intervals added up over ten years, minimised by search",
    tolerance=1e-4,
)
def first_order() -> Pairs:
    """four clusters"""
    years = 3.15e8
    for stall, recovers, mtbf in CASES:

        def lost(interval: float, d: float = stall, r: float = recovers, m: float = mtbf) -> float:
            return years / interval * d + years / m * (interval / 2 + r)

        best = best_interval(lost, 1.0, 1e8)
        yield checkpoint.young_interval(stall, mtbf), best
        yield checkpoint.first_order_waste(best, stall, recovers, mtbf), lost(best) / years
        for used in (quantities.young_checkpoint_interval, quantities.exact_checkpoint_interval):
            yield used(best, 0.5 * best), best
            yield used(best, 2 * best), 2 * best
    yield checkpoint.first_order_waste(3600.0, 0.0, 0.0, math.inf), 0.0


@check(
    "effective_training_time_ratio",
    by="table",
    source="Kokolis et al. 2025, arXiv:2410.21680: 2,000 nodes, 6.5 failures in 1,000 node-days, 0.93",
    tolerance=6e-3,
)
def printed_ettr() -> Pairs:
    """one printed ratio: checkpoints of 5 minutes, restarts of 5 minutes"""
    mtbf = 86400 / (2000 * 6.5e-3)
    yield checkpoint.effective_training_time_ratio(300.0, 0.0, 300.0, mtbf), 0.93


@check(
    "rollback_time",
    by="derivation",
    source="bad checkpoints counted one by one, their chances added up",
)
def rollback() -> Pairs:
    """chances of 0 to 0.5 that a checkpoint cannot be read"""
    for bad in (0.0, 0.01, 0.5):
        theirs = math.fsum(k * 600.0 * bad**k * (1 - bad) for k in range(1, 400))
        yield checkpoint.rollback_time(540.0, 60.0, bad), theirs
    yield checkpoint.rollback_time(math.inf, 60.0, 0.5), 0.0


@check(
    "checkpoint_size",
    "checkpoint_write_time",
    by="table",
    source="Fleet Foundations table 7: 70B parameters of 14 bytes, 980 GB, 9.8 s at 100 GB/s",
)
def printed_sizes() -> Pairs:
    """size and time as printed; the bytes of BF16 weights and three FP32 copies"""
    yield quantities.checkpoint_size(70e9, 14), 980e9
    yield quantities.checkpoint_write_time(980e9, 100e9), 9.8
    element = np.dtype("float16").itemsize + 3 * np.dtype("float32").itemsize
    yield quantities.checkpoint_size(1e9, 14), element * 1e9


@check(
    "snapshot_time",
    "peer_copy_time",
    "per_node_read_bandwidth",
    "per_node_write_bandwidth",
    "checkpoints_written",
    "storage_checkpoint_restore_time",
    by="simulator",
    source="shards copied GPU by GPU, nodes added until the system is full, segments counted",
)
def copies() -> Pairs:
    """8 to 64 GPUs, 1 to 20 nodes, a day"""
    for gpus in (8, 64):
        shards = [0.0] * gpus
        for block in range(640):
            shards[block % gpus] += 1e9
        yield quantities.snapshot_time(640e9, gpus, 25e9), max(shards) / 25e9
        yield quantities.peer_copy_time(640e9, gpus, 50e9), max(shards) / 50e9
    for nodes in (1, 7, 20):
        rate = 0.0
        for _ in range(nodes):
            rate = rate + 2e9 if rate + 2e9 < 15e9 else 15e9
        yield quantities.per_node_write_bandwidth(nodes, 2e9, 15e9), rate
        yield quantities.per_node_read_bandwidth(nodes, 2e9, 15e9), rate
        left, seconds = 300e9, 0
        while left > 0:
            left, seconds = left - 3e9, seconds + 1
        yield recovery.storage_checkpoint_restore_time(300e9, 3e9), seconds
    clock = written = 0
    while clock + 3600 <= 86400:
        clock, written = clock + 3600, written + 1
    yield quantities.checkpoints_written(86400, 3570, 30), written


@check(
    "failure_probability",
    "weibull_failure_probability",
    by="derivation",
    source="density of the lifetime integrated, its mean too",
    tolerance=1e-7,
)
def lifetimes() -> Pairs:
    """windows of 0 to 3 mean lives, shapes of 0.7 to 2"""
    for window in (0.0, 0.1, 1.0, 3.0):
        chance = integrate.quad(lambda t: math.exp(-t), 0, window)[0]
        yield reliability.failure_probability(window * 50.0, 50.0), chance
        for shape in (0.7, 1.0, 2.0):
            mean = integrate.quad(lambda t, k=shape: math.exp(-(t**k)), 0, math.inf)[0]
            chance = integrate.quad(
                lambda u: math.exp(-u), 0, (window * mean) ** shape
            )[0]
            yield reliability.weibull_failure_probability(window * 50.0, 50.0, shape), chance


@check(
    "failure_probability",
    by="table",
    source="Fleet Foundations table 6: 256 GPUs of 50,000 h fail within a day with 11.6 %",
    tolerance=5e-3,
)
def printed_probability() -> Pairs:
    """one printed probability"""
    yield reliability.failure_probability(24.0, 50_000 / 256), 0.116


@check(
    "interruptions_per_failure",
    by="simulator",
    source="losses of parts counted: alone, or a whole domain at once",
)
def domains() -> Pairs:
    """domains of 1 to 8 parts, none to all of the losses correlated"""
    for size in (1, 4, 8):
        for groups, alone in ((0, 8), (2, 8), (5, 0)):
            lost = groups * size + alone
            interruptions = sum(1 for _ in range(groups)) + sum(1 for _ in range(alone))
            ours = reliability.interruptions_per_failure(groups * size / lost, size)
            yield ours, interruptions / lost


@check(
    "mean_time",
    "power_law_mtbf",
    by="simulator",
    source="events of independent parts put in one row, their gaps averaged",
)
def events() -> Pairs:
    """rates of 0 to 4 a second; clusters halved and doubled"""
    for each_second in (1, 4):
        times = sorted(s + k / each_second for s in range(100) for k in range(each_second))
        yield reliability.mean_time(each_second), float(np.mean(np.diff(times)))
    yield reliability.mean_time(0.0), math.inf
    for nodes in (512, 1024, 2048):
        rate = math.fsum(1 / (7.9 * 1024) for _ in range(nodes))
        yield reliability.power_law_mtbf(7.9, 1024.0, nodes, 1.0), 1 / rate
        yield reliability.power_law_mtbf(7.9, 1024.0, nodes, 0.0), 7.9


def played_shares(
    useful: float, stall: float, recovers: float, mtbf: float
) -> tuple[float, float, float, float]:
    """Shares of kept work, checkpoints, rework and recovery over 400,000 segments, failures drawn."""
    draw, spent = random.Random(7), [0.0, 0.0, 0.0, 0.0]
    for _ in range(400_000):
        while (fails := draw.expovariate(1 / mtbf)) < useful + stall:
            spent[2] += fails
            while (fails := draw.expovariate(1 / mtbf)) < recovers:
                spent[3] += fails
            spent[3] += recovers
        spent[0] += useful
        spent[1] += stall
    total = sum(spent)
    return spent[0] / total, spent[1] / total, spent[2] / total, spent[3] / total


@check(
    "exact_goodput",
    "exact_checkpoint_overhead",
    "exact_rework_overhead",
    "exact_recovery_overhead",
    "restart_overhead",
    by="simulator",
    source="400,000 segments with failures drawn (fixed seed)",
    tolerance=4e-3,
    absolute=True,
)
def goodput_played() -> Pairs:
    """two clusters; shares of kept work, checkpoints, rework and recovery"""
    for useful, stall, recovers, mtbf in ((2000.0, 30.0, 600.0, 20000.0), (900.0, 120.0, 900.0, 3600.0)):
        kept, stalled, again, recovered = played_shares(useful, stall, recovers, mtbf)
        restarting = goodput.restart_overhead(recovers, mtbf)
        recovering = goodput.exact_recovery_overhead(restarting, recovers, recovers)
        rework = goodput.exact_rework_overhead(useful, stall, mtbf, restarting, recovering)
        yield restarting, recovered
        yield recovering, recovered
        yield rework, again
        yield goodput.exact_checkpoint_overhead(useful, stall, recovering, rework), stalled
        yield goodput.exact_goodput(useful, stall, recovers, mtbf), kept


@check(
    "first_order_checkpoint_overhead",
    "first_order_rework_overhead",
    "first_order_recovery_overhead",
    "first_order_goodput",
    "additive_goodput",
    "recovery_time",
    "rigid_effective_provision_time",
    by="derivation",
    source="stalls, half intervals and waits of ten years added up failure by failure",
)
def budgets() -> Pairs:
    """1,000 failures; losses of 1 and more are undefined"""
    years = 3.6e8
    stalled = math.fsum(30.0 for _ in range(int(years / 3600)))
    lost = math.fsum(1800.0 + 40.0 for _ in range(1000))
    waits = [30.0 + 30.0 + (300.0 if k % 4 == 0 else 0.0) + 60.0 + 30.0 for k in range(1000)]
    provision = recovery.rigid_effective_provision_time(300.0, 0.75)
    wait = recovery.recovery_time(30.0, 30.0, provision, 60.0, 30.0)
    yield provision * 1000, math.fsum(300.0 for k in range(1000) if k % 4 == 0)
    yield wait, math.fsum(waits) / 1000
    shares = [
        goodput.first_order_checkpoint_overhead(3600.0, 30.0),
        goodput.first_order_rework_overhead(3600.0, 40.0, years / 1000),
        goodput.first_order_recovery_overhead(wait, years / 1000),
    ]
    sums = [stalled, lost, math.fsum(waits)]
    yield np.array(shares), np.array(sums) / years
    yield goodput.first_order_goodput(*shares), (years - math.fsum(sums)) / years
    yield goodput.additive_goodput(0.03, 0.0, 0.10, 0.05, 0.05), 1 - 23 / 100
    yield goodput.additive_goodput(0.5, 0.2, 0.2, 0.1, 0.1), math.nan
    yield goodput.first_order_goodput(0.5, 0.3, 0.3), math.nan
