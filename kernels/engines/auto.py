"""NumPy at once, and numba as soon as it has compiled: both give the same bits."""

import math

from . import numba as numba_engine
from . import numpy as numpy_engine
from .job import Job

WORTH = 1 << 18  # points from which a kernel saves more than its compilation disturbs


def run(job: Job, threads: int) -> None:
    """Fill the job's outputs without waiting for a compiler."""
    large = math.prod(job.shape) >= WORTH
    if large and numba_engine.run_if_compiled(job, threads):
        return
    numpy_engine.run(job, threads)
    if large:
        numba_engine.compile_behind(job)
