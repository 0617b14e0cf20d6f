"""Jobs played failure by failure: their ends, slow copies, and corruption that is found late."""

import itertools
import math
from typing import Any

import numpy as np

from fleetcube.kernels.laws import checkpoint
from fleetcube.kernels.physics.graph import PHYSICS

from ... import formulas
from ...draws import generator
from ...evaluated import computed, value
from ..check import Pairs, check


def _job(
    rng: np.random.Generator,
    work: float,
    interval: float,
    write: float,
    last: float,
    recovery: float,
    mtbf: float,
) -> float:
    """Wall time of one job: it works, saves after each interval and at its end, and fails."""
    clock, kept = 0.0, 0.0
    fails = rng.exponential(mtbf)
    while kept < work:
        done = min(kept + interval, work)
        ends = clock + done - kept + (write if done < work else last)
        if ends <= fails:
            clock, kept = ends, done
            continue
        clock, fails = fails, fails + rng.exponential(mtbf)
        while clock + recovery > fails:  # a failure in a recovery begins it again
            clock, fails = fails, fails + rng.exponential(mtbf)
        clock += recovery
    return clock


# Useful hours; intervals, writes, recoveries and times between failures in minutes
ENDS = [
    *((hours, 176.0, 5.0, 10.0, 3240.0) for hours in (0.5, 1.0, 2.9, 3.1, 24.0)),
    *((hours, 30.0, 3.0, 6.0, 120.0) for hours in (0.1, 0.6, 2.0, 12.0)),
]


@check(
    "ending_share ending_job_goodput attempted_steps job_time",
    by="simulator",
    source="4,000 jobs, interval by interval and failure by failure, from the start to the end",
    tolerance=0.02,
)
def ends() -> Pairs:
    """half an hour to a day of work, fewer and more than one interval; with a last save, without"""
    rng = generator(91)
    for (hours, interval, write, recovery, mtbf), saved in itertools.product(ENDS, (True, False)):
        job = (60 * hours, interval, write, write * saved, recovery, mtbf)
        played = np.mean([_job(rng, *job) for _ in range(4000)])
        point = {"training_steps": 60 * hours, "step_time": 60.0, "checkpoint_policy": "fixed"}
        point |= {"fixed_checkpoint_interval": 60 * interval, "checkpoint_stall_time": 60 * write}
        point |= {"recovery_time": 60 * recovery, "cluster_mtbf": 60 * mtbf, "n_gpus": 8}
        ending = value("job_time", job_end="saved" if saved else "unsaved", **point)
        yield ending / 60, played


@check(
    "ending_share",
    by="derivation",
    source="no end to be seen: whole intervals, an endless job, checkpoints that cost nothing",
)
def no_ends() -> Pairs:
    """goodput of 3 and of a million intervals; intervals of 0 and infinite ones"""
    for mtbf, count in itertools.product((3e4, np.inf), (3, 1_000_000)):
        yield checkpoint.ending_share(count * 600.0, 600.0, 30.0, 30.0, mtbf), 1.0
    yield checkpoint.ending_share(1e5, 0.0, 0.0, 0.0, 3e4), 1.0
    yield checkpoint.ending_share(900.0, np.inf, 30.0, 100.0, np.inf), 0.9


Three = tuple[float, float, float]
SILENT = 0.2  # share of the failures, where some are silent corruptions


class _Tiered:
    """A job that writes every copy to memory, some to drives, and some of those to storage."""

    def __init__(self, shares: Three, flushes: Three, restores: Three, every: Three) -> None:
        self.shares, self.flushes, self.restores, self.every = shares, flushes, restores, every
        self.safe, self.under_way = [0, 0, 0], list[tuple[int, float, int]]()

    def settle(self, now: float) -> None:
        for tier, safe, mark in [copy for copy in self.under_way if copy[1] <= now]:
            self.safe[tier] = max(self.safe[tier], mark)
            self.under_way.remove((tier, safe, mark))

    def fails(self, level: int, now: float, kept: bool) -> int:
        """The copy that the job goes back to; faster tiers hold it as well, then."""
        self.settle(now)
        self.under_way = [
            (tier, safe if kept else now + self.restores[level] + self.flushes[tier], mark)
            for tier, safe, mark in self.under_way
            if level < tier
        ]
        best = max(self.safe[level:])
        self.safe[:level] = [best] * level
        return best

    def goodput(
        self, interval: float, mtbf: float, kept: bool, failures: int, late: float = 0.0
    ) -> float:
        """Some failures may be corruptions, `late` of them in time: memory holds none before."""
        rng = generator(92)
        lives = iter(np.cumsum(rng.exponential(mtbf, failures + 1)).tolist())
        levels = iter(rng.choice(3, failures + 1, p=self.shares).tolist())
        silent = iter((rng.random(failures + 1) < SILENT * (late > 0)).tolist())
        slower = [tier for tier in range(1, 3) if self.shares[tier] > 0]
        clock, at, fails = 0.0, 0, next(lives)
        try:
            while True:
                if clock + interval <= fails:
                    clock, at = clock + interval, at + 1
                    for tier in range(3):
                        if at % self.every[tier] == 0:
                            self.under_way.append((tier, clock + self.flushes[tier], at))
                    continue
                level, again, clock = 0, fails, fails
                while again <= clock + self.restores[level]:
                    struck = next(levels)
                    found = again
                    if next(silent):
                        struck, found = max(struck, slower[0]), again + late
                        self.settle(found)  # copies under way were taken before it
                    at = min(at, self.fails(struck, again, kept))
                    level, clock = max(level, struck), found
                    while (again := next(lives)) <= found:  # in vain, and repaired meanwhile
                        next(levels), next(silent)
                clock, fails = clock + self.restores[level], again
        except StopIteration:
            return at * interval / fails


@check(
    "interrupted_restart memory_tier_restart_time drive_tier_restart_time "
    "storage_tier_restart_time recoveries "
    "kept_drive_copy_loss_share tiered_delay equivalent_lost_work",
    by="simulator",
    source="20,000 failures of three severities, copies under way that outlive the lesser ones",
    tolerance=0.02,
)
def slow_copies() -> Pairs:
    """copies of half and all of the MTBF, kept in lesser failures or begun again after them"""
    mtbf, interval, restores = 7200.0, 1200.0, (120.0, 150.0, 300.0)
    for shares, flush, kept in itertools.product(
        ((0.8, 0.0, 0.2), (0.6, 0.3, 0.1)), (3384.0, 7200.0), (True, False)
    ):
        flushes, every = (20.0, 60.0, flush), (1, 2, 2 * math.ceil(flush / interval / 2))
        played = _Tiered(shares, flushes, restores, every).goodput(interval, mtbf, kept, 20_000)
        point = _point(mtbf, interval, every[2], flush, restores)
        point |= {"tier_copies": "kept" if kept else "repeated"}
        point |= {"memory_tier_survival": shares[0], "drive_tier_survival": 1 - shares[2]}
        yield computed(point, "goodput")[0], played


def _point(
    mtbf: float, interval: float, stored: float, flush: float, restores: Three
) -> dict[str, Any]:
    point: dict[str, Any] = {"checkpoint_mode": "tiered", "cluster_uptime": 1.0, "n_gpus": 1000}
    point |= {"checkpoint_interval": interval, "cluster_mtbf": mtbf}
    point |= {"drive_copy_every": 2, "storage_copy_every": stored / 2}
    names = ("memory_tier", "drive_tier", "storage_tier")
    for name, copy in zip(names, (20.0, 60.0, flush), strict=True):
        point |= {f"{name}_flush_time": copy, f"{name}_stall_time": 0.0}
    names = ("memory_tier_restore_time", "drive_copy_time", "storage_restore_time")
    point |= dict(zip(names, restores, strict=True))
    rest = ("detection_time", "drain_time", "effective_provision_time", "reinit_time")
    return point | dict.fromkeys(rest, 0.0)


@check(
    "late_memory_tier_share drive_tier_share storage_tier_share tiered_delay late_corruption_time",
    by="simulator",
    source="20,000 failures, some found hours later: what memory held by then came after them",
    tolerance=0.02,
)
def late_corruptions() -> Pairs:
    """corruptions found after half the MTBF, copies in memory and storage, and on drives as well"""
    mtbf, interval, restores = 7200.0, 1200.0, (120.0, 150.0, 300.0)
    for shares, stored in (((0.9, 0.0, 0.1), 8), ((0.9, 0.0, 0.1), 4), ((0.6, 0.3, 0.1), 8)):
        job = _Tiered(shares, (20.0, 60.0, 90.0), restores, (1, 2, stored))
        played = job.goodput(interval, mtbf, True, 20_000, late=3600.0)
        point = _point(mtbf, interval, stored, 90.0, restores)
        point |= {"silent_corruption_mttf": 1000 * mtbf / SILENT, "corruption_latency": 3600.0}
        driven = 0.0 if shares[1] == 0 else 1 - shares[2]
        point |= {"memory_tier_survival": shares[0], "drive_tier_survival": driven}
        yield computed(point, "goodput")[0], played


@check(
    "late_drive_tier_bytes",
    by="simulator",
    source="copies written one after the other, the last before a corruption still kept",
)
def kept_copies() -> Pairs:
    """a copy each 600 s on 4 nodes, a corruption found at once and after 1 to 10 of them"""
    for late in (0, 1, 5, 10):
        held = ["before the corruption"] + ["after it"] * late + ["being written"]
        ours = formulas.late_drive_tier_bytes(12e9, 4, 600.0 * late, 600.0)
        yield ours, sum(12e9 / 4 for _ in held)


@check(
    "in_memory_infeasible_reason",
    by="simulator",
    source="memory that holds one copy, each written over the last; corruptions found later",
)
def memory_after_a_corruption() -> Pairs:
    """copies each 600 s, safe 60 s later; a corruption after one, found in 0 to 900 s"""
    codes = {
        reason: code for code, reason in PHYSICS.quantities["infeasible_reason"].doc.flags.items()
    }
    for late in (0.0, 500.0, 659.0, 661.0, 900.0):
        safe, struck = 0.0, 0.0  # the state that memory holds, and when the corruption struck
        for written in np.arange(600.0, 3000.0, 600.0):
            safe = written if written + 60.0 < struck + late else safe
        lost = codes["no_checkpoint_before_corruption"] * (safe > struck)
        yield formulas.in_memory_infeasible_reason(0.0, 0.0, 600.0, 60.0, late, 1e9), lost
        yield formulas.in_memory_infeasible_reason(10.0, 0.0, 600.0, 60.0, late, 1e9), 10.0
