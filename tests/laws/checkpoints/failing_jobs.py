"""Jobs played failure by failure: their ends, slow copies, and corruption that is found late."""

import itertools

import numpy as np

from fleetcube.kernels import checkpoint

from ...draws import generator
from ...evaluated import value
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
