"""Slow nodes: how many there are at a time, and how long the slowest delays the others.

Parameters:
    mttf [s]: M, mean time until a node becomes slow, exponential
    interval [s]: c, time between checks
    probability [1]: p, chance that a node is slow
    nodes [1]: N, independent nodes
    jitter [1]: sigma, standard deviation of a rank's delay
    all_deviation [1]: e_all, expected largest of all ranks, in standard deviations
    slowdown [1]: s, mean delay of a slow node, exponential
"""

from typing import Any

from ..ops import np, where
from .statistics import _gauss_rule


def share_slow(mttf, slow_time) -> Any:
    """Steady-state share of slow nodes, each replaced some time after it becomes slow.

    T / (M + T), whatever the distributions of both times

    Parameters: slow_time [s]: T, mean time for which a slow node stays, above 0
    Returns: [1] share; 1 where slow nodes are never found, 0 where none becomes slow
    Range: steady state; an upper bound for jobs that begin with sound nodes, not much longer than T
    Source: Barlow & Proschan 1975, Statistical Theory of Reliability, chapter 7 (unavailability of
        an alternating renewal process)
    Example:
        >>> round(float(share_slow(199.0, 1.0)), 10)
        0.005
    """
    never = mttf == np.inf
    return where(never, 0.0, 1 / (1 + where(never, 1.0, mttf) / slow_time))


def share_slow_between_checks(mttf, interval) -> Any:
    """Share of slow nodes at a time where regular checks replace all of them.

    1 - (1 - e^-x) / x, x = c / M; c / (2 M) where checks are frequent

    Returns: [1] share, the mean over an interval; 1 without checks, 0 where none becomes slow
    Source: Barlow & Proschan 1975, Statistical Theory of Reliability, chapter 7 (mean
        unavailability of a part that is inspected)
    Example:
        >>> round(float(share_slow_between_checks(100.0, 1.0)), 6)
        0.004983
    """
    never = mttf == np.inf
    x = where(never, 0.0, interval / where(never, 1.0, mttf))
    few = x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6))))
    some = where(x < 0.01, 1.0, x)
    return where(x < 0.01, few, 1 + np.expm1(-some) / some)


def no_slow_node(probability, nodes) -> Any:
    """Chance that none of a job's nodes is slow.

    (1 - p)^N

    Returns: [1] probability
    Source: Dean & Barroso 2013, CACM 56(2) (of many servers, one is slow)
    Example:
        >>> round(float(no_slow_node(0.005, 1536)), 6)
        0.000453
    """
    all_slow = probability >= 1
    sound = np.exp(nodes * np.log1p(-where(all_slow, 0.5, probability)))
    return where(all_slow, 0.0, sound)


def longest_of_some(probability, nodes) -> Any:
    """Expected maximum of many variables that are exponential with some probability, else 0.

    sum over j to N of (1 - (1 - p)^j) / j, which is the integral of (1 - (1 - v)^N) / v up to p:
    by Gauss' rule, below v = p / (1 + N p) on v and above it on log v. 1 + 1/2 + ... + 1/N for
    p = 1

    Parameters:
        probability [1]: p, chance that a variable is not 0
        nodes [1]: N, number of variables
    Returns: [1] in means of the exponential variables
    Range: within 5e-7 relative for N up to 1e6
    Source: Renyi 1953, Acta Math. Hung. 4 (spacings of exponential variables), with some left out
    Example:
        >>> round(float(longest_of_some(1.0, 4)), 6)  # 1 + 1/2 + 1/3 + 1/4
        2.083333
    """
    split = 1 + nodes * probability
    middle = np.log(split) / 2
    total = 0.0
    for node, weight in _gauss_rule():
        for w in ((1 - node) / 2, (1 + node) / 2):
            v = w * probability / split
            total = total - weight / 2 / w * np.expm1(nodes * np.log1p(-v))
        for y in (middle * (1 - node), middle * (1 + node)):
            far = np.log1p(-probability * np.exp(-y))
            total = total - weight * middle * np.expm1(nodes * far)
    return total


def longest_between_checks(late, nodes, mttf, interval) -> Any:
    """Expected maximum of the exponential delays of nodes that stay slow until the next check.

    1/x times the integral, u from 0 to x, of L(k (1 - e^-u), N), x = c / M, L that of
    `longest_of_some`: by parts, that of (1 - (1 - v)^N) / v k e^-u (1 - u / x), v = k (1 - e^-u),
    by Gauss' rule, below u = x / (1 + N k x) on u and above it on log u, x at most 30 there

    Parameters: late [1]: k, chance that the delay of a slow node counts
    Returns: [1] in means of the exponential variables, the mean over an interval
    Range: within 2e-6 relative for N up to 1e5; without checks all nodes are slow
    Source: Renyi 1953, Acta Math. Hung. 4; Barlow & Proschan 1975, chapter 7 (inspections)
    Example:
        >>> round(float(longest_between_checks(1.0, 1.0, 1.0, 1.0)), 6)  # 1/e
        0.367879
    """
    never = mttf == np.inf
    x = where(never, 1.0, interval / where(never, 1.0, mttf))
    end = np.minimum(x, 30.0)
    split = 1 + nodes * late * end
    middle = np.log(split) / 2
    total = 0.0
    for node, weight in _gauss_rule():
        for w in ((1 - node) / 2, (1 + node) / 2):
            near = _density_of_longest(w * end / split, late, nodes, x)
            total = total + weight / 2 * end / split * near
        for y in (middle * (1 - node), middle * (1 + node)):
            far = end * np.exp(-y)
            total = total + weight * middle * far * _density_of_longest(far, late, nodes, x)
    return where(never, 0.0, total)


def _density_of_longest(time, late, nodes, x) -> Any:
    """Integrand of `longest_between_checks` at a time since the last check."""
    slow = -late * np.expm1(-time)
    some = slow > 0
    one_of_them = -np.expm1(nodes * np.log1p(-slow)) / where(some, slow, 1.0)
    return where(some, one_of_them, nodes) * late * np.exp(-time) * (1 - time / x)


def slowest_of_some_slow(
    probability, sound, slowdown, jitter, all_deviation, slow_deviation
) -> Any:
    """Expected delay of the slowest rank with equally slow nodes and jitter.

    a + (1 - P) h log(1 - f + f e^(s/h)), f = p / (1 - P), a = sigma e_all,
    h = sigma (e_all - e_slow) / log(1/f); s (1 - P) without jitter

    Where a node is slow, a share f of all ranks starts later by s. The maximum over both groups is
    that of Gumbel variables of scale h, which is right for s = 0 and for s far above sigma.

    Parameters:
        sound [1]: P, chance that no node is slow
        slowdown [1]: s, delay of a slow node
        slow_deviation [1]: e_slow, expected largest of the ranks of slow nodes, where there are any
    Returns: [1] delay
    Range: exact without jitter; within 0.2 sigma of what independent draws give, and 0.25 where
        regular checks replace slow nodes
    Source: Gumbel 1958, Statistics of Extremes (the largest of two groups); Dean & Barroso 2013,
        CACM 56(2)
    """
    some = 1 - sound
    slow = where(some > 0, probability / where(some > 0, some, 1.0), 1.0)
    mixed = (slow < 1) & (jitter > 0) & (all_deviation > slow_deviation)
    f = where(mixed, slow, 0.5)
    scale = where(mixed, jitter * (all_deviation - slow_deviation), 1.0) / -np.log(f)
    later = slowdown + where(mixed, scale * np.log(f + (1 - f) * np.exp(-slowdown / scale)), 0.0)
    return jitter * all_deviation + some * later


def slowest_of_some_exponential(longest, slowdown, jitter, all_deviation) -> Any:
    """Expected delay of the slowest rank with exponential delays of slow nodes and jitter.

    a + s L, a = sigma e_all, L the largest delay beyond that of jitter alone, in means

    Parameters: longest [1]: L
    Returns: [1] delay
    Range: exact without jitter; with it a lower bound, within 0.35 sigma for shares of slow nodes
        up to 0.05 and 0.9 sigma beyond
    Source: Renyi 1953, Acta Math. Hung. 4 (exponential order statistics; their memory is none)
    """
    return jitter * all_deviation + slowdown * longest


def later_than_jitter(slowdown, jitter, all_deviation, node_deviation) -> Any:
    """Probability that a slow node's delay exceeds that of the slowest rank by jitter alone.

    e^-x, x = sigma (e_all - e_node) / s, at least 0; the excess is exponential again

    Parameters: node_deviation [1]: e_node, expected largest of one node's ranks
    Returns: [1] probability; 1 without jitter
    Range: the node's ranks are taken at their expected largest, which bounds the wait from below
    Source: Renyi 1953, Acta Math. Hung. 4 (exponential variables have no memory)
    """
    ahead = np.maximum(jitter * (all_deviation - node_deviation), 0.0)
    return np.exp(-ahead / where(slowdown > 0, slowdown, 1.0))
