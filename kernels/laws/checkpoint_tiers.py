"""Checkpoints in several tiers, each for failures that the tiers below do not survive.

Parameters:
    mtbf [s]: mean time M between failures
"""

from typing import Any

from ..ops import np, where


def pooled_interval(stall_time, failure_rate, flush_time) -> Any:
    """Best time between checkpoints of tiers written together, to first order.

    max(sqrt(2 d / lambda), F); infinite where no failure needs them

    Parameters:
        stall_time [s]: time d for which they stop training in total
        failure_rate [1/s]: total rate lambda of the failures that need them
        flush_time [s]: time F from the end of the stall until the last of them is safe
    Returns: [s] useful time between two of them
    Source: Young 1974, CACM 17(9); Benoit et al. 2017, IEEE TC 66(7)
    """
    needed = failure_rate > 0
    best = np.sqrt(2 * stall_time / where(needed, failure_rate, 1.0))
    return where(needed, np.maximum(best, flush_time), np.inf)


def recoveries(failure_rate, restart_time, graver_rate) -> Any:
    """Time in recoveries over time between failures, without graver failures that take over.

    lambda B / (1 + g B)

    Parameters:
        failure_rate [1/s]: rate lambda of the failures recovered from
        restart_time [s]: mean time B that each costs beyond its rework, as of interrupted_restart
        graver_rate [1/s]: rate g of failures that take over
    Returns: [1] time over time
    Source: Daly 2006, FGCS 22(3), eq. 13; Moody et al. 2010, SC10
    """
    return failure_rate * restart_time / (1 + graver_rate * restart_time)


def growth(exponent) -> Any:
    """Growth of an exponential beyond its exponent, relative to the exponent.

    (e^y - 1) / y - 1 = y/2 + y^2/6 + y^3/24 + ...; the series keeps the digits of a small y

    Parameters: exponent [1]: y, up to 500: beyond, results and slopes leave floating point
    Returns: [1] relative growth beyond the first order
    Source: Abramowitz & Stegun 1964, 4.2.1
    """
    y = np.minimum(exponent, 0.1)
    series = 1 + y / 7 * (1 + y / 8 * (1 + y / 9 * (1 + y / 10)))
    series = y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6 * series))))
    large = np.maximum(np.minimum(exponent, 500.0), 0.1)
    return where(exponent < 0.1, series, np.expm1(large) / large - 1)


def interrupted_restart(restart_time, flush_time, losing_rate, all_rate) -> Any:
    """Mean time that a failure costs beyond its rework where failures interrupt that, too.

    e^(g' F) (e^(L R) - 1) / L + (e^(g' F) - 1) / g': any failure starts a recovery again, but work
    that was not yet safe is done again from the start only after failures that lose the copy

    Parameters:
        restart_time [s]: time R of a recovery without failures
        flush_time [s]: time F from a checkpoint until its copy is safe: as much work is lost
        losing_rate [1/s]: rate g' of failures that lose a copy under way
        all_rate [1/s]: rate L of all failures
    Returns: [s] time
    Range: L R and g' F up to 500: beyond, wall times leave floating point
    Source: Daly 2006, FGCS 22(3), eq. 13; Moody et al. 2010, SC10
    """
    again = losing_rate * flush_time
    restart = restart_time * (1 + growth(all_rate * restart_time))
    return np.exp(np.minimum(again, 500.0)) * restart + flush_time * (1 + growth(again))


def interruption_delay(duration, failure_rate, graver_rate, recovering) -> Any:
    """Wall time lost by a task that every failure restarts, without graver failures in between.

    log(1 + g A) / g - x, A = (e^(mu x) - 1) / mu (1 + r): -log E[e^(-g T)] / g - x of the wall
    time T; where g = 0, A - x, the mean of T - x

    Parameters:
        duration [s]: time x that it takes without failures
        failure_rate [1/s]: rate mu of all failures that end it, graver ones among them
        graver_rate [1/s]: rate g of the graver ones, which cost more than this task
        recovering [1]: time r in recoveries over time between failures
    Returns: [s] wall time lost
    Range: mu x up to 500: beyond, wall times leave floating point
    Source: Moody et al. 2010, SC10 (a Markov chain of such tiers); Daly 2006, FGCS
        22(3), eq. 13 (g = 0)
    """
    more = growth(failure_rate * duration)
    spent = duration * (1 + more) * (1 + recovering)
    graver = graver_rate * spent
    y = np.minimum(graver, 0.03)
    less = 1 / 9 - y * (1 / 10 - y * (1 / 11 - y / 12))
    less = 1 / 5 - y * (1 / 6 - y * (1 / 7 - y * (1 / 8 - y * less)))
    less = -y * (1 / 2 - y * (1 / 3 - y * (1 / 4 - y * less)))  # log(1 + y) / y - 1
    few = duration * (more + recovering * (1 + more)) + spent * less
    often = np.log1p(graver) / where(graver_rate > 0, graver_rate, 1.0) - duration
    return where(graver < 0.03, few, often)


def dearer_recovery(share, recovery_time, extra_time, mtbf) -> Any:
    """Time added to every recovery that costs as much as longer recoveries after some failures.

    M log(1 + Q (e^(x / M) - 1) / (Q + (1 - Q) e^(-R / M))); Q x for an infinite M

    Parameters:
        share [1]: share Q of the failures that take longer
        recovery_time [s]: time R of the others' recovery, which any failure starts again
        extra_time [s]: time x that they take longer
    Returns: [s] time added, between 0 and x
    Range: R / M and x / M up to 700
    Source: Daly 2006, FGCS 22(3), eq. 13; Feller 1968, An Introduction to Probability Theory
    """
    fails = mtbf < np.inf
    mean = where(fails, mtbf, 1.0)
    added = share * np.expm1(np.minimum(extra_time / mean, 700.0))
    spent = share + (1 - share) * np.exp(-np.minimum(recovery_time / mean, 700.0))
    return where(fails, mean * np.log1p(added / spent), share * extra_time)


def equivalent_lost_work(delay, interval, write_time, recovery_time, mtbf) -> Any:
    """Time lost per failure that makes one tier as slow as several.

    M [log(1 + D) - log((e^z - 1) / z)] - R, z = (tau + d) / M; 0 for an infinite M

    Parameters:
        delay [1]: time D lost with all tiers over time without failures
        interval [s]: useful time tau between two checkpoints of the lowest tier
        write_time [s]: mean time d for which one of them stops training
        recovery_time [s]: mean time R from a failure until training resumes
    Returns: [s] time lost beyond the rework since the last checkpoint; below 0 where one tier would
        lose more: by failures in stalls of higher tiers, which memory survives, or because memory's
        last interval is shorter; below -R, too, where failures are frequent and recovery is short
    Range: z up to 500; 0 below 1e-13 of recovery and interval, where it is rounding
    Source: Daly 2006, FGCS 22(3), eq. 13, solved for the recovery time
    """
    fails = where(mtbf < np.inf, interval < np.inf, False)
    mean = where(fails, mtbf, 1.0)
    redone = where(fails, interval + write_time, 0.0)
    spent = recovery_time + redone
    grown = growth(redone / mean)
    lost = mean * np.log1p((delay - grown) / (1 + grown)) - recovery_time
    return where(fails, where(np.abs(lost) > 1e-13 * spent, lost, 0.0), 0.0)
