"""Laws of speed-up, and the size of the cluster at which a job's time is least.

Parameters:
    workers [1]: number n of workers
"""

from typing import Any

from ..ops import np, where
from .checkpoint import exact_interval


def amdahl_speedup(serial_fraction, workers) -> Any:
    """Speed-up of a fixed piece of work over one worker.

    1 / (s + (1 - s) / n)

    Parameters: serial_fraction [1]: share s of one worker's time that cannot be shared
    Returns: [1] time of one worker over time of all
    Source: Amdahl 1967, AFIPS 30
    Example:
        >>> [round(amdahl_speedup(0.1, n), 1) for n in (32, 256, 1024, 8192)]
        [7.8, 9.7, 9.9, 10.0]
    """
    return 1 / (serial_fraction + (1 - serial_fraction) / workers)


def gustafson_speedup(serial_fraction, workers) -> Any:
    """Speed-up where the work grows with the workers.

    n - s (n - 1)

    Parameters: serial_fraction [1]: share s of the time on all workers that is not shared
    Returns: [1] work done over that of one worker in the same time
    Source: Gustafson 1988, CACM 31(5)
    Example:
        >>> round(gustafson_speedup(0.01, 1024))
        1014
    """
    return workers - serial_fraction * (workers - 1)


def sync_wall(
    parallel_time_gpus, fixed_time, time_per_gpu, stall_time, recovery_time, gpu_time_per_failure
) -> Any:
    """Size of the cluster at which the expected time of a fixed job is least.

    n where d ln(T / g) / d ln n = (D n - A / n) / T + R n / K + (d n / K) / u = 0, with the step
    T = A / n + C + D n, failures every M = K / n, and goodput g = (1 - u) e^(-R/M) at the optimal
    interval u M, where -u - log(1 - u) = d / M

    The condition grows with ln n: halving locates the root, Newton's steps give its digits (and
    derivatives).

    Parameters:
        parallel_time_gpus [s]: GPUs times the part of a step A / n that they share
        fixed_time [s]: part C of a step that does not depend on the cluster
        time_per_gpu [s]: what each GPU adds to a step, D
        stall_time [s]: time d for which one checkpoint stops training
        recovery_time [s]: time R from a failure until training resumes
        gpu_time_per_failure [s]: mean time between failures times GPUs, K (infinite: no failures)
    Returns: [1] GPUs
    Range: 1 to 10^12; 1 where every added GPU costs time, infinite where none does
    Source: Daly 2006, FGCS 22(3), eq. 13 at the interval of eq. 20, minimised over the cluster
    Example:
        >>> round(float(sync_wall(1e4, 1.0, 1e-4, 0.0, 0.0, float("inf"))))
        10000
    """
    shared = parallel_time_gpus
    stall = stall_time / gpu_time_per_failure
    recovery = recovery_time / gpu_time_per_failure
    top = 27.631021115928547  # ln 10^12
    # 0, broadcast to the shape of all operands
    low = 0.0 * (shared + fixed_time + time_per_gpu + stall + recovery)
    high = low + top
    beyond, _ = _sync_balance(high, shared, fixed_time, time_per_gpu, stall, recovery)
    for _ in range(9):
        middle = 0.5 * (low + high)
        balance, _ = _sync_balance(middle, shared, fixed_time, time_per_gpu, stall, recovery)
        low = where(balance < 0, middle, low)
        high = where(balance < 0, high, middle)
    best = 0.5 * (low + high)
    for _ in range(4):
        balance, slope = _sync_balance(best, shared, fixed_time, time_per_gpu, stall, recovery)
        rises = slope > 0
        better = best - where(rises, balance / where(rises, slope, 1.0), top)
        best = np.minimum(np.maximum(better, low), high)
    return where(beyond <= 0, np.inf, np.exp(best))


def _sync_balance(log_gpus, shared, fixed, per_gpu, stall, recovery) -> Any:
    """Balance of what one more GPU costs and saves, times the step, and its slope over ln n.

    b = D n - A / n + T h, h = R n / K + x / u, x = d n / K; db / d ln n = D n + A / n +
    (D n - A / n) h + T (R n / K + x / u - x^2 (1 - u) / u^3), as du / dx = (1 - u) / u

    Parameters:
        log_gpus [1]: ln n
        shared [s]: A
        fixed [s]: C
        per_gpu [s]: D
        stall [1]: d / K
        recovery [1]: R / K
    Returns: [s] b, and its slope
    Source: the derivative of sync_wall's condition
    """
    gpus = np.exp(log_gpus)
    falls, grows = shared / gpus, per_gpu * gpus
    step = falls + fixed + grows
    x = stall * gpus
    stops = x > 0
    u = exact_interval(where(stops, x, 1.0), 1.0)
    wait = where(stops, x / u, 0.0)
    gain = where(stops, wait * wait * (1 - u) / u, 0.0)
    loss = recovery * gpus + wait
    balance = grows - falls + step * loss
    return balance, grows + falls + (grows - falls) * loss + step * (loss - gain)
