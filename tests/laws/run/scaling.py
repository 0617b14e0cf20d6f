"""Speed-up: work distributed to workers, and the best size of a cluster by search."""

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from fleetcube.kernels.laws import scaling

from ... import formulas
from ..check import Pairs, check
from ..network.collectives import ring

SHARES = (Fraction(0), Fraction(1, 1000), Fraction(1, 10), Fraction(1, 2), Fraction(1))


@check("amdahl_speedup", by="simulator", source="tasks dealt out, serial ones first")
def amdahl() -> Pairs:
    """1 to 25 workers, serial shares of 0 to 1, in exact fractions"""
    for n in (1, 2, 10, 25):
        for serial in SHARES:
            queues = [Fraction(0)] * n
            queues[0] += serial
            start = queues[0]
            for _ in range(n):  # the rest in n equal tasks, to the first free worker
                free = min(range(n), key=lambda k: max(queues[k], start))
                queues[free] = max(queues[free], start) + (1 - serial) / n
            yield scaling.amdahl_speedup(float(serial), n), float(1 / max(queues))


@check("gustafson_speedup", by="simulator", source="work of a unit of time, worker by worker")
def gustafson() -> Pairs:
    """1 to 1,000 workers, serial shares of 0 to 1, in exact fractions"""
    for n in (1, 2, 10, 1000):
        for serial in SHARES:
            done = serial + sum((1 - serial for _ in range(n)), Fraction(0))
            yield scaling.gustafson_speedup(float(serial), n), float(done)


def slowdown(stall: float, recovery: float, mtbf: float) -> float:
    """Daly's expected wall time over useful time, minimised over intervals by search."""
    if math.isinf(mtbf):
        return 1.0
    if stall == 0:
        return math.exp(recovery / mtbf)
    best = minimize_scalar(
        lambda x: math.log(math.expm1((math.exp(x) + stall) / mtbf)) - x,
        bounds=(math.log(stall * 1e-3), math.log(3 * mtbf)),
        options={"xatol": 1e-12},
    )
    return mtbf * math.exp(recovery / mtbf + best.fun)


def least(time: Any, low: float = 1.0, high: float = 1e8) -> float:
    """Size at which a time is least: a scan of 400 sizes, then Brent's search around the best."""
    sizes = np.geomspace(low, high, 400)
    times = [time(n) for n in sizes]
    k = int(np.argmin(times))
    bounds = (math.log(sizes[max(k - 1, 0)]), math.log(sizes[min(k + 1, 399)]))
    best = minimize_scalar(
        lambda x: math.log(time(math.exp(x))), bounds=bounds, options={"xatol": 1e-10}
    )
    return low if k == 0 else math.exp(best.x)


@check(
    "sync_wall",
    by="derivation",
    source="job time by Daly's eq. 13, minimised over interval and size by scan and search",
    tolerance=1e-5,
)
def sync_wall() -> Pairs:
    """six jobs: with and without failures, stalls, recovery; also where each GPU more costs"""
    for case in (
        (1e4, 1.0, 1e-4, 0.0, 0.0, math.inf),
        (1e4, 1.0, 1e-6, 30.0, 600.0, 1.8e8),
        (1e4, 0.1, 0.0, 30.0, 600.0, 1.8e8),
        (1e5, 5.0, 1e-5, 300.0, 0.0, 1e9),
        (3e3, 0.0, 1e-5, 0.0, 900.0, 1e9),
        (1e-3, 1.0, 1e-3, 30.0, 600.0, 1.8e8),
    ):
        shared, fixed, each, stall, recovery, life = case

        def time(n: float, case: tuple[float, ...] = case) -> float:
            shared, fixed, each, stall, recovery, life = case
            return (shared / n + fixed + each * n) * slowdown(stall, recovery, life / n)

        law = scaling.sync_wall(shared, fixed, each, stall, recovery, life)
        yield law, least(time, high=1e7)


COMPUTE, SERIAL, LATENCY, RATE, STALL, RECOVERY = 5.0, 0.05, 5e-6, 4e10, 20.0, 500.0


@check(
    "sync_wall_gpus shared_step_time_of_shifted",
    by="derivation",
    source="step and failures written out for each size, minimised by scan and search",
    tolerance=1e-5,
)
def sync_wall_gpus() -> Pairs:
    """three layouts on 1,024 GPUs, gradients of 2 to 35 GB, an MTBF of 8 hours to 2 days; steps as
    computed, and 2.5 and 0.4 times as long
    """
    for t, p, message, bubble, mtbf in (
        (8, 1, 17.5e9, 0.0, 17e4),
        (8, 4, 2e9, 0.3, 3e4),
        (1, 1, 35e9, 0.0, 17e4),
    ):
        k0 = 1024 // (t * p)
        exchange = ring(min(k0, 32), message, 0.0, RATE)  # linear in 1 - 1/k: taken to k0
        exchange *= (1 - 1 / k0) / (1 - 1 / min(k0, 32))
        exposed, fixed = exchange + 2 * (k0 - 1) * LATENCY, bubble + SERIAL

        def time(
            n: float, ratio: float, shard: int = t * p, m: float = message, at: Any = (bubble, mtbf)
        ) -> float:
            k = n / shard
            sent = 2 * (k - 1) * LATENCY + 2 * (m - m / k) / RATE
            step = COMPUTE * 1024 / n + at[0] + SERIAL + sent
            return ratio * step * slowdown(STALL, RECOVERY, at[1] * 1024 / n)

        whole = COMPUTE + fixed + exposed
        beside = (fixed, formulas.gradient_ring_time(2 * message, RATE), LATENCY)
        failing = (STALL, RECOVERY, mtbf, 1)
        shared = formulas.shared_step_time(whole, fixed, exposed)
        wall = formulas.sync_wall_gpus(1024, t, p, 1, shared, *beside, *failing)
        yield wall, least(partial(time, ratio=1.0), low=t * p, high=1e7)
        for ratio in (2.5, 0.4):
            shared = formulas.shared_step_time_of_shifted(whole * ratio, fixed, exposed, ratio)
            wall = formulas.sync_wall_gpus(1024, t, p, 1, shared, *beside, *failing)
            yield wall, least(partial(time, ratio=ratio), low=t * p, high=1e7)


def sent_by_a_rank(ranks: int, message: float) -> float:
    """Bytes that one rank of a ring sends: its time at one byte a second, without latency."""
    return ring(ranks, message, 0.0, 1.0)


@check("gradient_bytes_sent", by="simulator", source="bytes through a port of the played ring")
def bytes_sent() -> Pairs:
    """1 to 31 ranks"""
    for ranks in (1, 2, 8, 31):
        yield formulas.gradient_bytes_sent(14e9, ranks), sent_by_a_rank(ranks, 14e9)


@check("rho", by="table", source="Fleet Foundations: 11.2 % for 560.4 ms over 5 s", tolerance=5e-3)
def communication_over_computing() -> Pairs:
    """one printed ratio, 0.112"""
    yield formulas.rho(0.5604, 5.0), 0.112


@check(
    "step_effective_flops node_effective_flops",
    by="table",
    source="Fleet Foundations, compound loss: 1,024 GPUs of 989 TFLOP/s, 0.50, 0.50, 0.77",
    tolerance=1e-6,
)
def compound_loss() -> Pairs:
    """194,951.7 TFLOP/s as printed, losses counted beside the step and in it"""
    yield formulas.node_effective_flops(1024, 989e12, 0.5, 0.5, 0.77), 194951.7e12
    yield formulas.step_effective_flops(1024, 989e12, 0.25, 0.77), 194951.7e12


@check("network_intensity", by="derivation", source="operations and bytes of all GPUs, added up")
def operations_per_byte() -> Pairs:
    """1 to 31 ranks of one GPU each"""
    for ranks in (1, 2, 8, 31):
        sent = sum(sent_by_a_rank(ranks, 14e9) for _ in range(ranks))
        theirs = 6e18 / sent if sent else math.inf
        yield formulas.network_intensity(6e18, ranks, sent / ranks), theirs


@check("utilization_reading", by="table", source="the guide's thresholds: 70 % and 85 %")
def reading() -> Pairs:
    """five utilisations, at both thresholds and beside them, and an undefined one"""
    for share, code in ((0.2, 0), (0.7, 1), (0.8, 1), (0.85, 1), (0.86, 2), (math.nan, math.nan)):
        yield formulas.utilization_reading(share), code
