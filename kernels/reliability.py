"""Failures as a Poisson process."""

from typing import Any

import numpy as np


def failure_probability(duration: Any, mtbf: Any) -> Any:
    """Probability of at least one failure within a time.

    P = 1 - exp(-T / M)

    Parameters:
        duration [s]: length T of the window
        mtbf [s]: mean time M between failures
    Returns: [1] probability
    Source: exponential lifetimes; Fleet Foundations table 6
    Example:
        >>> round(100 * float(failure_probability(24.0, 50_000 / 256)), 1)
        11.6
    """
    return -np.expm1(-duration / mtbf)
