"""NumPy at once, and numba as soon as it has compiled: both give the same bits."""

import math

from . import numba as numba_engine
from . import numpy as numpy_engine
from .job import Job

WORTH = 1 << 18  # points from which a kernel saves more time than its compilation costs
WORTH_AGAIN = 1 << 15  # the same for a repeated job


def run(job: Job, threads: int) -> bool:
    """Fill the job's outputs without waiting for a compiler; returns whether a kernel did."""
    return _run(job, threads, math.prod(job.shape) >= WORTH)


def run_again(job: Job, threads: int) -> bool:
    """The same for a repeated job; a mere copy of tables is left to NumPy."""
    return _run(job, threads, bool(job.formulas) and math.prod(job.shape) >= WORTH_AGAIN)


def _run(job: Job, threads: int, large: bool) -> bool:
    if large and numba_engine.run_if_compiled(job, threads):
        return True
    numpy_engine.run(job, threads)
    if large:
        numba_engine.compile_behind(job)
    return False
