"""Repairs by a limited number of crews: nodes wait for a crew, and the job for nodes.

Repair times are exponential: their distribution matters with few crews, not with one per node.
`load` is the mean number of nodes in repair with unlimited crews.

Parameters:
    spares [1]: S
    crews [1]: c, nodes repaired at a time, at least 1
    load [1]: a, repair time times failures per unit of time
    nodes [1]: n, nodes of the job, at least 1
    ratio [1]: r, repair time over a node's lifetime
"""

from typing import Any

from ..ops import np, where
from .statistics import (
    _tail_ratio,
    erlang_blocked,
    erlang_carried,
    poisson_at_most,
    poisson_below,
    poisson_excess,
    poisson_probability,
    poisson_truncated,
)


def spare_left(spares, crews, load) -> Any:
    """Probability that a spare is available, where nodes fail at a steady rate.

    P(N < S) of the queue M/M/c: 1 - C rho^(S - c) for S > c, else (1 - C) times a Poisson
    variable's, given N < c; rho = a / c, and C is Erlang's chance that all crews are at work

    Returns: [1] probability; 0 without spares, and where crews cannot keep up (a >= c)
    Range: exponential repair times; the steady state, which a job near a = c reaches slowly
    Source: Gross et al. 2008, Fundamentals of Queueing Theory, section 2.3 (M/M/c)
    Example:
        >>> round(float(spare_left(3.0, 1.0, 0.5)), 10)  # 1 - 0.5^3
        0.875
    """
    holds = load < crews
    a = where(holds, load, 0.5 * crews)
    rho, blocked = a / crews, erlang_blocked(crews, a)
    idle = (1 - rho) * (1 - blocked) / (1 - rho * (1 - blocked))  # 1 - C, without loss of digits
    beyond = np.maximum(spares - crews, 0.0)
    queued = -(1 - idle) * np.expm1(beyond * np.log(where(rho > 0, rho, 0.5)))
    some = idle * poisson_below(np.minimum(spares, crews), a) / poisson_below(crews, a)
    return where(holds & (spares > 0), some + where(rho > 0, queued, 0.0), 0.0)


def whole_of_safe(spares, crews, load) -> Any:
    """Share of the time in which a job has all its nodes, where waiting nodes do not fail.

    1 - P(N = S + 1) of the queue M/M/c/S+1: S + 1 nodes in repair stop the job, and thus failures

    Returns: [1] share of the time
    Range: exponential repair times; for c > S any, and Erlang's loss
    Source: Gross et al. 2008, Fundamentals of Queueing Theory, section 2.5 (M/M/c/K)
    Example:
        >>> round(float(whole_of_safe(1.0, 1.0, 2.0)), 10)  # (1 + 2) / (1 + 2 + 4)
        0.4285714286
    """
    busy = np.minimum(crews, spares + 1)
    queue = spares + 1 - busy
    a = where(load > 0, load, 1.0)
    rho, carried = a / busy, erlang_carried(busy, a)
    more = rho > 1
    x = where(more, 1 / rho, rho)
    power = np.exp(queue * np.log(x))
    even = np.abs(x - 1) < 1e-9
    terms = where(even, queue, (1 - power) / where(even, 1.0, 1 - x))  # 1 + x + x^2 + ...
    working = x * terms + carried * (1 - terms)  # x^q + B (terms - 1), without loss of digits
    over = working / (working + 1 - carried)
    under = 1 - (1 - carried) * power / (1 + (1 - carried) * x * terms)
    return where(load > 0, where(more, over, under), 1.0)


def queue_odds(spares, crews, nodes, ratio) -> Any:
    """Odds that more nodes are in repair than there are crews, where waiting nodes fail, too.

    P(N > c) / P(N <= c) = B(c, a) (P - c) / y / B(P - c - 1, y), B Erlang's, P = n + S, y = c / r,
    a = r (P - min(P r / (1 + r), (c - 1) / 2)):
    up to c nodes in repair are nearly Poisson; beyond, the whole ones are

    Parameters:
        nodes [1]: n, nodes of the job
        ratio [1]: r, repair time over a node's lifetime, above 0
    Returns: [1] odds; 0 where crews are as many as nodes
    Range: exponential repair times
    Source: Gross et al. 2008, Fundamentals of Queueing Theory, section 2.8 (finite sources)
    Example:
        >>> float(queue_odds(0.0, 2.0, 2.0, 0.1))
        0.0
    """
    pool, at_most = nodes + spares, crews / ratio
    left = np.maximum(pool - crews, 0.0)
    waiting = erlang_blocked(np.maximum(left - 1, 0.0), at_most)
    # bounded at 1e120, which leaves results equal in double precision, and slopes finite
    tail = left / at_most / np.maximum(waiting, 1e-120)
    whole = pool - np.minimum(pool * ratio / (1 + ratio), (crews - 1) / 2)
    return erlang_blocked(crews, whole * ratio) * tail


def whole_of_pool(spares, crews, nodes, ratio) -> Any:
    """Share of the time in which a job has all its nodes, where waiting nodes fail, too.

    P(N <= S), N nodes in repair: births and deaths of n + S nodes and c crews

    Returns: [1] share of the time
    Range: exponential repair times; within 0.18 r of the sum over all states, r up to 1; below
        1e-11 its derivatives have no correct digits
    Source: Gross et al. 2008, Fundamentals of Queueing Theory, section 2.8 (finite sources)
    Example:
        >>> round(float(whole_of_pool(0.0, 1.0, 1.0, 0.001)), 5)  # 1 / (1 + r)
        0.999
    """
    fails = ratio > 0
    r = where(fails, ratio, 1.0)
    pool = nodes + spares
    odds = queue_odds(spares, crews, nodes, r)
    few = np.minimum(spares, crews)
    a = r * (pool - np.minimum(pool * r / (1 + r), (crews - 1) / 2))
    all_repaired = poisson_truncated(few, np.maximum(crews, few), a)
    last = np.maximum(pool - crews - 1, 0.0)
    queued = 1 - poisson_truncated(np.minimum(nodes - 1, last), last, crews / r)
    whole = (all_repaired + where(crews < spares, odds * queued, 0.0)) / (1 + odds)
    return where(fails, whole, 1.0)


def missing_of_pool(spares, crews, nodes, ratio) -> Any:
    """Mean number of nodes that a job lacks, where spares fail, too.

    E[max(0, N - S)], N nodes in repair: births and deaths of n + S nodes and c crews

    Returns: [1] nodes
    Range: exponential repair times; within 0.17 r n of the sum over all states, r up to 1
    Source: Gross et al. 2008, Fundamentals of Queueing Theory, section 2.8 (finite sources)
    Example:
        >>> round(float(missing_of_pool(0.0, 1.0, 1.0, 0.001)), 5)  # r / (1 + r)
        0.001
    """
    fails = ratio > 0
    r = where(fails, ratio, 1.0)
    pool, y = nodes + spares, crews / r
    a = r * (pool - np.minimum(pool * r / (1 + r), (crews - 1) / 2))
    odds = queue_odds(spares, crews, nodes, r)
    few = np.minimum(spares, crews)
    # E[max(0, N - S)], N Poisson and at most c: by the excess beyond c where that is rare
    keeps_up = a < crews + 1
    equal, tail = poisson_probability(crews, a), _tail_ratio(crews, a)
    rare = poisson_excess(spares, a) - equal * (a + (a - spares) * tail)
    rare = rare / where(keeps_up, 1 - equal * tail, 1.0)
    left_over = few - a * (1 - erlang_blocked(few, a))  # E[S - N], where N <= S
    left_over = poisson_truncated(few, np.maximum(crews, few), a) * left_over
    often = a * (1 - erlang_blocked(crews, a)) - few + left_over
    repaired = where(keeps_up, rare, often)
    last = np.maximum(pool - crews - 1, 0.0)
    running = np.minimum(nodes - 1, last)
    queued = nodes - y * (1 - erlang_blocked(running, y))
    queued = poisson_truncated(running, last, y) * queued
    lacking = where(crews > spares, repaired, 0.0) + odds * queued
    return where(fails, np.maximum(lacking / (1 + odds), 0.0), 0.0)


def settled_time(delay, spares, repair, load) -> Any:
    """Part of a delay in which an initially whole spare pool is in its steady state again.

    integral to D of F(t) = P(N > S at t | N <= S at 0) / P(N > S), N nodes in repair, Poisson of
    mean a. dF/dt falls from p to p^2 times w = a / (P(N <= S) P(N > S)), p = P(N = S), within a
    repair time r, in which all in repair have changed; between, as a power of 1 - t / r, of which
    F(r) = 1 leaves one: F = b y + (1 - b) (1 - (1 - y)^k), y = t / r, b = w p^2,
    k = w p (1 - p) / (1 - b)

    Parameters:
        delay [s]: D
        repair [s]: r
        load [1]: a, nodes in repair on average
    Returns: [s] time, at most the delay
    Range: repairs that take equally long: within 0.1 r of the sum over all states (0 to 16 spares,
        0.05 to 40 nodes in repair); with exponential ones the pool settles later, by up to 0.5 r
    Source: counts of disjoint times are independent Poisson variables (Feller 1968, An Introduction
        to Probability Theory), so that dF/dt = w P(N = S at t and 0)
    Example:
        >>> round(float(settled_time(10.0, 0.0, 1.0, 1e-3)), 3)  # one node in repair, or none
        9.5
    """
    mean = where(load > 0, load, 1.0)
    at_most, equal = poisson_at_most(spares, load), poisson_probability(spares, mean)
    spread = at_most * (1 - at_most) / mean
    least = equal * equal
    remembered = spread > least  # else nearly always whole, or never
    even = where(remembered, least / where(remembered, spread, 1.0), 1.0)
    power = equal * (1 - equal) / where(remembered, spread - least, 1.0)
    some = (repair > 0) & (delay < repair)
    y = where(some, delay / where(some, repair, 1.0), 1.0)
    left = where(some, np.exp((power + 1) * np.log(where(some, 1 - y, 1.0))), 0.0)
    curved = y - (1 - left) / (power + 1)
    within = even * y * y / 2 + (1 - even) * curved
    beyond = np.maximum(delay - repair, 0.0)
    return where(remembered, repair * within + beyond, delay)


def lognormal_spread(median, high, normal_quantile) -> Any:
    """Standard deviation of the logarithm of repair times, from two percentiles.

    log(high / median) / z

    Parameters:
        median [s]: half of the repairs are done by then
        high [s]: a higher percentile of them
        normal_quantile [1]: z, that of the standard normal distribution, 1.645 for 95 %
    Returns: [1] spread
    Source: Kline 1984, Reliability Engineering 9(2)
    """
    return np.log(high / median) / normal_quantile


def lognormal_mean(median, spread) -> Any:
    """Mean of log-normal repair times.

    median e^(s^2 / 2)

    Parameters:
        median [s]: half of the repairs are done by then
        spread [1]: standard deviation s of the logarithm
    Returns: [s] mean
    Source: Kline 1984, Reliability Engineering 9(2)
    """
    return median * np.exp(spread * spread / 2)
