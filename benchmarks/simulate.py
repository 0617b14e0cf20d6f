"""Simulated failures a second, in jobs of about a hundred failures each."""

import time
from statistics import median

import numpy as np

from fleetcube.kernels.engines.job import default_threads
from fleetcube.kernels.monte_carlo import KINDS, OPEN, PARAMETERS, STATISTICS
from fleetcube.kernels.monte_carlo import run as simulate

from .measure import say
from .tables import Row, Table

COLUMNS = {
    "what": "failures",
    "threads": "threads",
    "jobs": "jobs",
    "seconds": "seconds",
    "jobs_per_s": "jobs/s",
    "failures_per_s": "failures/s",
}
JOB = {
    "mtbf": 1e4,
    "shape": 1.0,
    "interval": 500.0,
    "stall": 20.0,
    "flush": 0.0,
    "work": 1e6,
    "recovery": 300.0,
    "provision": 600.0,
    "spares": 0.0,
    "repair": 1e4,
    "corruption": 0.0,
    "fails_in_recovery": 1.0,
    "pool": OPEN,
    "nodes": 1.0,
    **dict.fromkeys(PARAMETERS[KINDS:], 0.0),
}
CASES: dict[str, dict[str, float]] = {
    "exponential": {},
    "Weibull": {"shape": 0.7},
    "exponential, 8 spares": {"spares": 8.0},
    "exponential, 8 spares, 2 crews": {"spares": 8.0, "crews": 2.0},
    "Weibull, 8 spares, unreadable checkpoints, flush": {
        "shape": 0.7,
        "spares": 8.0,
        "corruption": 0.05,
        "flush": 100.0,
    },
    "exponential, three tiers": {
        "memory_share": 0.6,
        "drive_share": 0.3,
        "memory_stall": 5.0,
        "drive_stall": 20.0,
        "storage_stall": 60.0,
        "drive_every": 3.0,
        "storage_every": 4.0,
    },
    "exponential, a fleet that ages": {
        "steady": 0.3,
        "ageing": 0.5,
        "burn_in": 1.0,
        "burn_in_time": 1e6,
        "wear_age": 3e6,
        "wear_shape": 3.0,
    },
}


def run(quick: bool = False) -> Table:
    points, rounds = (8, 3) if quick else (256, 7)
    rows = [
        measure(what, points, threads, rounds)
        for what in CASES
        for threads in sorted({1, default_threads()})
    ]
    return Table(
        "Monte Carlo of failing jobs (fleetcube.simulate)",
        COLUMNS,
        rows,
        ("Jobs of about 110 failures, 1000 at each point. Medians; compiling is not counted.",),
    )


def measure(what: str, points: int, threads: int, rounds: int, trials: int = 1000) -> Row:
    """One kind of job at many points with different recovery times."""
    say(f"simulate: {what}, threads: {threads}")
    job = {**JOB, **CASES[what]}
    jobs = np.array([[job[name] for name in PARAMETERS]] * points)
    jobs[:, PARAMETERS.index("recovery")] += np.arange(points)
    statistics, _ = simulate(jobs, trials, 0, threads)  # compiles
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        simulate(jobs, trials, 0, threads)
        seconds.append(time.perf_counter() - start)
    middle = median(seconds)
    failures = float(statistics[:, STATISTICS.index("failures")].sum()) * trials
    return {
        "what": what,
        "threads": threads,
        "jobs": points * trials,
        "seconds": middle,
        "jobs_per_s": points * trials / middle,
        "failures_per_s": failures / middle,
    }
