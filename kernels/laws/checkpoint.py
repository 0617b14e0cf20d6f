"""Checkpoint intervals and what checkpoints and failures cost, for exponential failures.

Parameters:
    write_time [s]: time d for which one checkpoint stops training
    mtbf [s]: mean time M between failures
    interval [s]: useful time tau between two checkpoints
    recovery_time [s]: time R from a failure until training resumes
"""

from typing import Any

from ..ops import np, where


def young_interval(write_time, mtbf) -> Any:
    """First-order optimal time between checkpoints.

    tau = sqrt(2 d M); infinite for an infinite M

    Returns: [s] useful time between two checkpoints
    Source: Young 1974, CACM 17(9)
    Example:
        >>> round(float(young_interval(30.0, 86400.0)))
        2277
    """
    fails = mtbf < np.inf  # of a free checkpoint, 0 x inf would be NaN
    return where(fails, np.sqrt(2 * write_time * where(fails, mtbf, 1.0)), mtbf)


def daly_interval(write_time, mtbf) -> Any:
    """Higher-order optimal time between checkpoints.

    tau = sqrt(2 d M) [1 + sqrt(d / 2M) / 3 + d / (18 M)] - d for d < 2 M < inf, else M

    Returns: [s] useful time between two checkpoints
    Source: Daly 2006, FGCS 22(3), eq. 37; figs 3-5 print 117 min for M = 24 h, d = 5 min
    Example:
        >>> round(float(daly_interval(5.0, 1440.0)))
        117
    """
    fails = mtbf < np.inf
    mean = where(fails, mtbf, 1.0)
    half = write_time / (2 * mean)
    root = np.sqrt(2 * write_time * mean)
    series = root * (1 + np.sqrt(half) / 3 + half / 9) - write_time
    return where(fails & (half < 1), where(root > 0, series, root), mtbf)


def exact_interval(write_time, mtbf) -> Any:
    """Time between checkpoints that minimises the expected wall time exactly.

    u = tau / M solves -u - log(1 - u) = d / M, that is tau = M [1 + W0(-exp(-d/M - 1))]

    In p = sqrt(2 (1 - e^(-d/M))), which unfolds the branch point of W0, u is analytic but for a cut
    along p < -sqrt(2). So a ratio u = p P(p) / Q(p) of degrees 6 and 6 is as good as W0: fitted by
    Remez' exchange in 50 digits, it is off by at most 6e-18 of u for 0 <= p <= sqrt(2), where d / M
    goes from 0 to infinity. All coefficients are positive, so that nothing cancels.

    Parameters: mtbf [s]: mean time M between failures (infinite: never checkpoint)
    Returns: [s] useful time between two checkpoints
    Source: Daly 2006, FGCS 22(3), eq. 20 set to zero; p: Corless et al. 1996, On the Lambert W
        function, section 4
    Example:
        >>> round(float(exact_interval(30.0, 86400.0)), 2)
        2256.88
    """
    fails = mtbf < np.inf
    x = where(fails, write_time, 1.0) / where(fails, mtbf, 1.0)
    p = np.sqrt(-2 * np.expm1(-x))
    above = 0.03425346291220777655 + p * (0.0012362670416685777397 + p * 3.2029437011468425812e-6)
    above = 1.0901470898094057625 + p * (0.29909751604149483356 + p * above)
    above = 1 + p * (1.7375001511459285839 + p * above)
    below = 0.10761548993182376874 + p * (0.0081297642147875102545 + p * 0.00018006125658326711317)
    below = 1.6276471401914941616 + p * (0.60489885449261287615 + p * below)
    below = 1 + p * (2.0708334844792598865 + p * below)
    return where(fails, where(fails, mtbf, 1.0) * (p * above / below), mtbf)


def _segment(interval, write_time, mtbf) -> Any:
    """Length of a segment, interval and checkpoint, in units of the time between failures.

    z = (tau + d) / M; 0 for an infinite M

    Returns: [1] z
    Source: Daly 2006, FGCS 22(3), section 2
    """
    fails = mtbf < np.inf
    # without failures the best interval is infinite: inf / inf would be NaN
    length = where(fails, interval + write_time, 0.0)
    return length / where(fails, mtbf, 1.0)


def segment_efficiency(interval, write_time, mtbf) -> Any:
    """Share of the time between restarts that is not lost to rework.

    q = z / (e^z - 1), z = (tau + d) / M; 1 for an infinite M

    Returns: [1] time kept over time spent
    Source: Daly 2006, FGCS 22(3), eq. 13, rearranged
    """
    z = _segment(interval, write_time, mtbf)
    bounded = np.minimum(where(z > 0, z, 1.0), 700.0)  # beyond, e^z leaves floating point
    return where(z > 0, where(z < 700, bounded / np.expm1(bounded), 0.0), 1.0)


def segment_rework(interval, write_time, mtbf) -> Any:
    """Share of the time between restarts that is lost to rework.

    1 - z / (e^z - 1) = z/2 - z^2/12 + z^4/720 - z^6/30240 + ..., z = (tau + d) / M

    The series keeps the digits that the difference loses for small z.

    Returns: [1] time lost over time spent
    Source: Daly 2006, FGCS 22(3), eq. 13, rearranged; Abramowitz & Stegun 1964, 23.1
    """
    z = _segment(interval, write_time, mtbf)
    small = np.minimum(z, 0.1)
    square = small * small
    series = small / 2 - square * (1 / 12 - square * (1 / 720 - square / 30240))
    return where(z < 0.1, series, 1 - segment_efficiency(interval, write_time, mtbf))


def _segment_time(interval, write_time, mtbf) -> Any:
    """Time M (e^z - 1) of a segment without its recoveries; slopes square it, so z <= 300."""
    z = np.minimum(_segment(interval, write_time, mtbf), 300.0)
    longer = where(z > 0, np.expm1(z) / where(z > 0, z, 1.0), 1.0)
    return (interval + write_time) * longer


def ending_share(useful_time, interval, write_time, last_write_time, mtbf) -> Any:
    """Goodput of a job that ends over that of a long one: its last segment is another one.

    W / tau (e^((tau + d)/M) - 1) / [(n - 1) (e^((tau + d)/M) - 1) + e^((w + d')/M) - 1],
    n = ceil(W / tau), at least 1, w = W - (n - 1) tau; 1 for an interval of 0

    Parameters:
        useful_time [s]: useful time W of the job
        last_write_time [s]: time d' for which the one at the end does; 0 without
    Returns: [1] goodput over goodput
    Range: n counts whole intervals as such within 1e-9; its slope is 0, and where it steps the
        share jumps by about d / W. Segments up to 300 M
    Source: Daly 2006, FGCS 22(3), eq. 13, of each segment
    """
    writes = (interval > 0) & (interval < np.inf)
    tau = where(writes, interval, useful_time)
    more = np.maximum(np.ceil(useful_time / tau * (1 - 1e-9)) - 1, 0.0)
    whole = _segment_time(tau, where(writes, write_time, 0.0), mtbf)
    spent = more * whole + _segment_time(useful_time - more * tau, last_write_time, mtbf)
    return where(interval > 0, useful_time / tau * whole / spent, 1.0)


def useful_share(interval, write_time) -> Any:
    """Share of a segment that is not the checkpoint itself.

    tau / (tau + d); 1 for an infinite interval or a free checkpoint

    Returns: [1] useful time over segment
    Source: by definition of the segment (Daly 2006, section 2)
    """
    # an infinite interval has no checkpoint: inf / inf would be NaN
    counted = where(write_time > 0, interval < np.inf, False)
    useful = where(counted, interval, 1.0)
    return where(counted, useful / (useful + where(counted, write_time, 1.0)), 1.0)


def stall_share(interval, write_time) -> Any:
    """Share of a segment that is the checkpoint itself.

    d / (tau + d); 0 for an infinite interval or a free checkpoint

    Returns: [1] checkpoint over segment
    Source: by definition of the segment (Daly 2006, section 2)
    """
    counted = where(write_time > 0, interval < np.inf, False)
    stall = where(counted, write_time, 0.0)
    return stall / where(counted, interval + write_time, 1.0)


def expected_slowdown(interval, write_time, recovery_time, mtbf) -> Any:
    """Expected wall time over useful time, with checkpoints, rework and recovery.

    T / T_s = M e^(R/M) (e^((tau + d)/M) - 1) / tau

    Returns: [1] wall time over useful time, at least 1
    Source: Daly 2006, FGCS 22(3), eq. 13
    Example:
        >>> round(float(expected_slowdown(2276.839915, 30.0, 600.0, 86400.0)), 8)
        1.03397854
    """
    useful = segment_efficiency(interval, write_time, mtbf) * useful_share(interval, write_time)
    return np.exp(recovery_time / mtbf) / useful


def first_order_waste(interval, write_time, recovery_time, mtbf) -> Any:
    """Share of the wall time lost to checkpoints and failures, to first order.

    d / tau + tau / (2 M) + R / M; least at Young's interval, where it is sqrt(2 d / M) + R / M

    Returns: [1] share lost; above 1 where the first order leaves nothing
    Source: Young 1974, CACM 17(9), with a recovery term
    Example:
        >>> round(float(first_order_waste(2276.839915, 30.0, 600.0, 86400.0)), 8)
        0.03329676
    """
    costs = write_time > 0
    fails = mtbf < np.inf
    stalled = where(costs, write_time / where(costs, interval, 1.0), 0.0)
    rework = where(fails, where(fails, interval, 0.0) / (2 * where(fails, mtbf, 1.0)), 0.0)
    return stalled + rework + recovery_time / mtbf


def effective_training_time_ratio(interval, write_time, restart_time, mtbf) -> Any:
    """Expected share of the wall time of a job that makes progress (ETTR), without its queueing.

    (1 - (u0 + tau/2) / M) / (1 + d / tau), at least 0

    Parameters: restart_time [s]: time u0 from a failure until training resumes
    Returns: [1] useful time over wall time
    Source: Kokolis et al. 2025, HPCA, arXiv:2410.21680 (expected ETTR of long jobs)
    Example:
        >>> mtbf = 86400 / (2000 * 6.5e-3)  # 2,000 nodes, 6.5 failures in 1,000 node-days
        >>> round(float(effective_training_time_ratio(300.0, 0.0, 300.0, mtbf)), 2)
        0.93
    """
    fails = mtbf < np.inf
    rework = where(fails, interval, 0.0) / (2 * where(fails, mtbf, 1.0))
    progress = np.maximum(1 - restart_time / mtbf - rework, 0.0)
    return progress * useful_share(interval, write_time)


def rollback_time(interval, write_time, mtbf, corruption_probability) -> Any:
    """Recovery time that costs as much as unreadable checkpoints.

    M log(1 + q / (1 - q) (1 - e^-z)), z = (tau + d) / M: q / (1 - q) (tau + d) for an infinite M; 0
    for an infinite interval

    A failure loses G of the N segments written since the last that was read, both geometric: of
    N, the share (1 - q) / (1 - q e^-z) is kept.

    Parameters: corruption_probability [1]: probability q that the first read of a checkpoint fails
    Returns: [s] time lost beyond the rework since the last checkpoint
    Source: geometric distribution (Feller 1968, An Introduction to Probability Theory)
    Example:
        >>> float(rollback_time(540.0, 60.0, float("inf"), 0.5))
        600.0
    """
    fails = mtbf < np.inf
    segment = where(interval == np.inf, 0.0, interval + write_time)
    odds = corruption_probability / (1 - corruption_probability)
    mean = where(fails, mtbf, 1.0)
    return where(fails, mean * np.log1p(-odds * np.expm1(-segment / mean)), odds * segment)
