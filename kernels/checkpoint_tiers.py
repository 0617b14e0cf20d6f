"""Checkpoints in several tiers, each for failures that those below do not survive."""

from typing import Any

from .ops import np, where


def pooled_interval(stall_time: Any, failure_rate: Any, flush_time: Any) -> Any:
    """Best time between checkpoints of tiers written together, to first order.

    max(sqrt(2 d / lambda), F); endless where no failure needs them

    Parameters:
        stall_time [s]: time d for which they stop training, together
        failure_rate [1/s]: rate lambda of the failures that need them, together
        flush_time [s]: time F from the end of the stall until the last of them is safe
    Returns: [s] useful time between two of them
    Source: Young 1974, CACM 17(9); Benoit et al. 2017, IEEE TC 66(7), theorem 2
    """
    needed = failure_rate > 0
    best = np.sqrt(2 * stall_time / where(needed, failure_rate, 1.0))
    return where(needed, np.maximum(best, flush_time), np.inf)


def recoveries(failure_rate: Any, restart_time: Any, graver_rate: Any, all_rate: Any) -> Any:
    """Time in recoveries over time between failures, where no graver failure takes over.

    lambda B / (1 + g B), B = (e^(L R) - 1) / L: a failure in a recovery starts it again

    Parameters:
        failure_rate [1/s]: rate lambda of the failures recovered from
        restart_time [s]: time R that each costs beyond its rework
        graver_rate [1/s]: rate g of failures that take over
        all_rate [1/s]: rate L of failures that start the recovery again, or take over
    Returns: [1] time over time
    Range: L R up to 700: beyond, wall times leave floating point
    Source: Daly 2006, FGCS 22(3), eq. 13; Moody et al. 2010, SC10, section 4
    """
    some = all_rate > 0
    taken = np.expm1(np.minimum(all_rate * restart_time, 700.0)) / where(some, all_rate, 1.0)
    taken = where(some, taken, restart_time)
    return failure_rate * taken / (1 + graver_rate * taken)


def interrupted_time(duration: Any, failure_rate: Any, graver_rate: Any, recovering: Any) -> Any:
    """Wall time of what every failure starts again, where no graver failure comes between.

    log(1 + g (e^(mu x) - 1) / mu (1 + r)) / g: -log E[e^(-g T)] / g of the wall time T, which is
    its mean where g = 0

    Parameters:
        duration [s]: time x that it takes without failures
        failure_rate [1/s]: rate mu of all failures that end it, graver ones among them
        graver_rate [1/s]: rate g of the graver ones, after which more than this is done again
        recovering [1]: time r in recoveries over time between failures
    Returns: [s] wall time
    Range: mu x up to 700: beyond, wall times leave floating point
    Source: Moody et al. 2010, SC10, section 4 (the chain whose times these are); Daly 2006, FGCS
        22(3), eq. 13 (g = 0)
    """
    fails = failure_rate > 0
    grown = np.expm1(np.minimum(failure_rate * duration, 700.0)) / where(fails, failure_rate, 1.0)
    taken = where(fails, grown, duration) * (1 + recovering)
    graver = graver_rate > 0
    between = np.log1p(graver_rate * taken) / where(graver, graver_rate, 1.0)
    return where(graver, between, taken)


def equivalent_lost_work(
    slowdown: Any, interval: Any, write_time: Any, recovery_time: Any, mtbf: Any
) -> Any:
    """Time lost at every failure that makes one tier as slow as several are.

    M log(S / S_1) - R, S_1 = M (e^((tau + d) / M) - 1) / tau; 0 for an infinite M

    Parameters:
        slowdown [1]: wall time over useful time S with all tiers
        interval [s]: useful time tau between two checkpoints of the lowest tier
        write_time [s]: mean time d for which one of them stops training
        recovery_time [s]: mean time R from a failure until training goes on
        mtbf [s]: mean time M between failures
    Returns: [s] time lost beyond the rework since the last checkpoint, at least 0
    Range: (tau + d) / M up to 700
    Source: Daly 2006, FGCS 22(3), eq. 13, solved for the recovery time
    """
    fails = mtbf < np.inf
    mean = where(fails, mtbf, 1.0)
    useful = where(fails, interval, 1.0)
    taken = where(fails, interval + write_time, 1.0)
    z = np.minimum(taken / mean, 700.0)
    grown = where(z > 0, np.expm1(z) * mean / where(useful > 0, useful, 1.0), 1.0)
    lost = mean * np.log(slowdown / where(grown > 0, grown, 1.0)) - recovery_time
    return where(fails, np.maximum(lost, 0.0), 0.0)
