"""Means of order statistics of many ranks, by integration."""

import math
from collections.abc import Callable

import numpy as np
from scipy import integrate

GUMBEL = math.pi / math.sqrt(6)  # the standard deviation of its standard form


def order_statistic(
    ranks: int, spares: int, density: Callable[[float], float], below: Callable[[float], float]
) -> float:
    """Mean of the (b + 1)-th largest of n, by quadrature."""
    log_ways = math.lgamma(ranks + 1) - math.lgamma(spares + 1) - math.lgamma(ranks - spares)

    def weighted(x: float) -> float:
        under, over = below(x), 1 - below(x)
        if under <= 0 or over <= 0:
            return 0.0
        log_chance = (ranks - 1 - spares) * math.log(under) + spares * math.log(over)
        return x * math.exp(log_ways + log_chance) * density(x)

    grid = np.linspace(-8, 30, 40_001)
    return float(integrate.simpson([weighted(x) for x in grid], x=grid))


# Density and distribution, both of mean 0 and standard deviation 1
NORMAL: tuple[Callable[[float], float], ...] = (
    lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    lambda x: 0.5 * math.erfc(-x / math.sqrt(2)),
)
EXTREME: tuple[Callable[[float], float], ...] = (
    lambda x: math.exp(-(y := GUMBEL * x + np.euler_gamma) - math.exp(-y)) * GUMBEL,
    lambda x: math.exp(-math.exp(-(GUMBEL * x + np.euler_gamma))),
)
