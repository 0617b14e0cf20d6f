"""Statistics, against scipy, sums and integrals."""

import math
from itertools import product

import numpy as np
from scipy import special

import fleetcube
from fleetcube.kernels.laws import statistics

from ...order_statistics import EXTREME, GUMBEL, NORMAL, order_statistic
from ..check import Pairs, check


@check("normal_quantile", by="peer", source="scipy.special.ndtri", tolerance=1e-13)
def normal_quantile() -> Pairs:
    """2,000 probabilities from 1e-300 to 1 - 1e-15"""
    tails = np.concatenate([np.geomspace(1e-300, 0.5, 1000), 1 - np.geomspace(1e-15, 0.5, 1000)])
    yield statistics.normal_quantile(tails), special.ndtri(tails)
    yield statistics.normal_quantile(np.array([0.0, 1.0])), np.array([-np.inf, np.inf])


@check("log_gamma", by="peer", source="scipy.special.gammaln", tolerance=2e-14)
def log_gamma() -> Pairs:
    """1,000 values from 1 to 101"""
    x = np.linspace(1, 101, 1000)
    scale = np.maximum(special.gammaln(x), 1.0)  # zeros at 1 and 2
    yield 1 + (statistics.log_gamma(x) - special.gammaln(x)) / scale, 1.0


BACKUPS = [*product((4, 16, 64), (1, 8, 64), (1, 3, 8)), (1, 64, 1), (8, 1, 3)]


@check(
    "expected_maximum",
    by="derivation",
    source="density of the order statistic, integrated",
    tolerance=0.026,
    absolute=True,
)
def expected_maximum() -> Pairs:
    """1 to 100,000 ranks, 0 to 10 spares, spares below half"""
    for ranks, spares in ((1, 0), (2, 0), (3, 1), (8, 0), (8, 2), (100, 10), (1000, 0), (10**5, 4)):
        theirs = order_statistic(ranks, spares, *NORMAL)
        yield statistics.expected_maximum(ranks - spares, ranks - spares, spares), theirs


@check(
    "expected_maximum_gumbel",
    by="derivation",
    source="density of the order statistic, integrated",
    tolerance=0.02,
    absolute=True,
)
def expected_maximum_gumbel() -> Pairs:
    """1 to 10,000 ranks, 0 to 10 spares, from n = 2.5 b + 1 on"""
    for ranks, spares in ((1, 0), (2, 0), (4, 1), (8, 0), (8, 2), (100, 10), (1000, 0), (10**4, 4)):
        awaited, theirs = ranks - spares, order_statistic(ranks, spares, *EXTREME)
        yield statistics.expected_maximum_gumbel(awaited, awaited, spares), theirs


@check(
    "expected_maximum expected_maximum_gumbel normal_slowest_rank_deviation "
    "gumbel_slowest_rank_deviation",
    by="simulator",
    source="draws of every rank of every replica, the slowest replicas left out",
    tolerance=0.1,
    absolute=True,
)
def replicas_left_out() -> Pairs:
    """1 to 64 replicas of 1 to 64 ranks, and 1 to 8 backups, where the mean is not below 0"""
    rng = np.random.default_rng(41)
    for groups, size, spares in BACKUPS:
        shape = (max(1, 400_000 // (groups + spares) // size), groups + spares, size)
        drawn = rng.standard_normal(shape), (rng.gumbel(size=shape) - np.euler_gamma) / GUMBEL
        laws = statistics.expected_maximum, statistics.expected_maximum_gumbel
        for ranks, law, model in zip(drawn, laws, ("normal", "gumbel"), strict=True):
            theirs = np.sort(ranks.max(axis=2), axis=1)[:, groups - 1].mean()
            yield law(groups * size, groups, spares), max(theirs, 0.0)
            given = {"n_gpus": groups * size, "tensor_parallel": size, "backup_workers": spares}
            given |= {"step_time_jitter": 0.1, "jitter_model": model}
            yield fleetcube.evaluate("slowest_rank_deviation", **given).item(), max(theirs, 0.0)


MEANS = (0.0, 0.01, 0.3, 1.0, 2.0, 4.7, 10.0, 50.0)


@check(
    "poisson_below",
    by="derivation",
    source="the sum of its terms; the incomplete gamma function between whole numbers (scipy)",
    tolerance=0.0131,
    absolute=True,
)
def poisson_below() -> Pairs:
    """counts of 0 to 60, also halves, means of 0 to 50"""
    for count, mean in product((0, 1, 2, 5, 20, 60), MEANS):
        terms = [
            math.exp(-mean) * math.prod(mean / j for j in range(1, k + 1)) for k in range(count)
        ]
        yield statistics.poisson_below(count, mean), math.fsum(terms)
    for count, mean in product((1.5, 2.5, 10.5), MEANS[1:]):
        yield statistics.poisson_below(count, mean), special.gammaincc(count, mean)


@check(
    "poisson_excess",
    by="derivation",
    source="the sum of its terms",
    tolerance=0.0061,
    absolute=True,
)
def poisson_excess() -> Pairs:
    """counts of 0 to 60, means of 0 to 50"""
    for count, mean in product((0, 1, 2, 5, 20, 60), MEANS):
        chance, terms = math.exp(-mean), []
        for k in range(400):
            terms.append(max(0, k - count) * chance)
            chance *= mean / (k + 1)
        yield statistics.poisson_excess(count, mean), math.fsum(terms)
