"""Failure rates, and the probability of a failure within a time.

Parameters:
    mtbf [s]: mean time M between failures
"""

from typing import Any

from ..ops import np, where
from .statistics import log_gamma


def failure_probability(duration, mtbf) -> Any:
    """Probability of at least one failure within a time.

    P = 1 - exp(-T / M)

    Parameters: duration [s]: length T of the window
    Returns: [1] probability
    Source: exponential lifetimes; Fleet Foundations table 6
    Example:
        >>> round(100 * float(failure_probability(24.0, 50_000 / 256)), 1)
        11.6
    """
    return -np.expm1(-duration / mtbf)


def weibull_failure_probability(duration, mtbf, shape) -> Any:
    """Probability that a Weibull lifetime ends within a time.

    P = 1 - exp(-(T Gamma(1 + 1/k) / M)^k): mean M; exponential for k = 1

    Parameters:
        duration [s]: length T of the window, from the start or the last failure
        shape [1]: Weibull shape k (below 1: most failures are early)
    Returns: [1] probability
    Source: Weibull 1951, J. Appl. Mech. 18; shapes near 0.7: Schroeder & Gibson 2006, DSN
    Example:
        >>> round(float(weibull_failure_probability(24.0, 24.0, 1.0)), 6)  # 1 - 1/e
        0.632121
    """
    ratio = duration / mtbf
    never = ratio <= 0
    scaled = np.log(where(never, 1.0, ratio)) + log_gamma(1 + 1 / shape)
    hazard = np.exp(np.minimum(shape * scaled, 700.0))  # beyond, e^x leaves floating point
    return where(never, 0.0, -np.expm1(-hazard))


def power_law_mtbf(mtbf, size, new_size, exponent) -> Any:
    """MTBF of a cluster, from that measured at another size.

    M' = M (n / n')^e

    Parameters:
        mtbf [s]: measured mean time M between failures
        size [1]: size n of what was measured
        new_size [1]: size n' in question
        exponent [1]: e; 1 where parts fail independently
    Returns: [s] mean time between failures
    Source: power-law reading of field data (Kokolis et al. 2025, HPCA, arXiv:2410.21680)
    Example:
        >>> round(float(power_law_mtbf(7.9, 1024.0, 2048.0, 1.0)), 2)
        3.95
    """
    return mtbf * np.exp(exponent * np.log(size / new_size))


def interruptions_per_failure(correlated_fraction, domain_size) -> Any:
    """Interruptions of a job per failed part, where some parts fail in groups.

    1 - f (1 - 1/k)

    Parameters:
        correlated_fraction [1]: share f of the failures that come k at a time
        domain_size [1]: parts k that fail together
    Returns: [1] interruptions over failed parts
    Source: beta-factor of common-cause failures (Fleming 1975, General Atomic, GA-A13284)
    Example:
        >>> float(interruptions_per_failure(0.5, 4.0))  # 8 losses: 4 alone, 4 at once
        0.625
    """
    return 1 - correlated_fraction * (1 - 1 / domain_size)


def bathtub_factor(age, window, excess, decay, wear_age, wear_shape) -> Any:
    """Failure rate of hardware at an age over that of mature hardware: burn-in and wear-out.

    The mean over ages a to a + w of 1 + b e^(-a/T) + (a / L)^(k-1); at age a where w = 0

    Parameters:
        age [s]: age a at the start
        window [s]: time w over which the rate is averaged
        excess [1]: b, excess failure rate of new hardware
        decay [s]: time T in which that falls to 1/e
        wear_age [s]: age L at which wear doubles the rate (infinite: never)
        wear_shape [1]: Weibull shape k of wear-out
    Returns: [1] failure rate over that of mature hardware, at least 1
    Source: Weibull 1951, J. Appl. Mech. 18; Barlow & Proschan 1975, ch. 3
    Example:
        >>> never = float("inf")
        >>> float(bathtub_factor(0.0, 0.0, 2.0, 30.0, never, 3.0))
        3.0
    """
    x = window / decay
    small = where(x < 1e-4, 1 - x / 2 + x * x / 6, -np.expm1(-x) / where(x < 1e-4, 1.0, x))
    early = excess * np.exp(-age / decay) * small
    # (a + w)^k - a^k over k w, in e = a + w: e^(k-1) (1 - r^k) / (k (1 - r)), r = a / e
    end = (age + window) / wear_age
    worn = end > 0
    less = window / where(worn, age + window, 1.0)
    left = np.minimum(less, 0.5)
    log_ratio = where(less < 0.5, np.log1p(-left), np.log(where(less < 1, 1 - less, 1.0)))
    drop = where(less < 1, -np.expm1(wear_shape * log_ratio), 1.0)
    mean = where(less > 0, drop / (wear_shape * where(less > 0, less, 1.0)), 1.0)
    late = np.exp((wear_shape - 1) * np.log(where(worn, end, 1.0))) * mean
    return 1 + early + where(worn, late, 0.0)


def mean_time(rate) -> Any:
    """Mean time between events of a given rate.

    1 / rate; infinite for a rate of 0

    Parameters: rate [1/s]: events per unit of time
    Returns: [s] mean time between events
    Source: renewal of exponential lifetimes (Barlow & Proschan 1975, ch. 3)
    Example:
        >>> float(mean_time(0.25)), float(mean_time(0.0))
        (4.0, inf)
    """
    never = rate <= 0
    return where(never, np.inf, 1 / where(never, 1.0, rate))
