"""Checkpoints: size, time, interval; recovery; goodput and its losses."""

from typing import Any

import numpy as np

from ..alternatives import alternative
from ..checkpoint import daly_interval as daly
from ..checkpoint import exact_interval as exact
from ..checkpoint import segment_efficiency, segment_rework, stall_share, useful_share
from ..checkpoint import young_interval as young
from ..ops import where


def checkpoint_size(parameters: Any, checkpoint_bytes_per_parameter: Any) -> Any:
    """Bytes of one checkpoint.

    N x bytes per parameter

    Parameters: parameters [1], checkpoint_bytes_per_parameter [B]
    Returns: [B] size of one checkpoint
    Source: Fleet Foundations table 7 (14 B: BF16 weights, FP32 master, momentum, variance)
    Example:
        >>> checkpoint_size(70e9, 14) / 1e9
        980.0
    """
    return parameters * checkpoint_bytes_per_parameter


def checkpoint_write_time(checkpoint_size: Any, checkpoint_write_bandwidth: Any) -> Any:
    """Time to write one checkpoint.

    size / bandwidth

    Parameters: checkpoint_size [B], checkpoint_write_bandwidth [B/s]
    Returns: [s] write time
    Source: Fleet Foundations table 7
    Example:
        >>> checkpoint_write_time(980e9, 100e9)
        9.8
    """
    return checkpoint_size / checkpoint_write_bandwidth


@alternative("checkpoint_stall_time", checkpoint_mode=("sync", "async", "in_memory"))
def sync_checkpoint_stall_time(checkpoint_write_time: Any) -> Any:
    """Time for which one checkpoint stops training.

    the whole write

    Parameters: checkpoint_write_time [s]
    Returns: [s] stall of one checkpoint
    Source: Young 1974, CACM 17(9)
    """
    return 1.0 * checkpoint_write_time


def young_interval(checkpoint_stall_time: Any, cluster_mtbf: Any) -> Any:
    """First-order optimal time between checkpoints.

    sqrt(2 d M)

    Parameters: checkpoint_stall_time [s], cluster_mtbf [s]
    Returns: [s] interval
    Source: Young 1974, CACM 17(9)
    """
    return young(checkpoint_stall_time, cluster_mtbf)


def daly_interval(checkpoint_stall_time: Any, cluster_mtbf: Any) -> Any:
    """Higher-order optimal time between checkpoints.

    sqrt(2 d M) [1 + sqrt(d / 2M) / 3 + d / (18 M)] - d for d < 2 M, else M

    Parameters: checkpoint_stall_time [s], cluster_mtbf [s]
    Returns: [s] interval
    Source: Daly 2006, FGCS 22(3), eq. 37
    """
    return daly(checkpoint_stall_time, cluster_mtbf)


def exact_interval(checkpoint_stall_time: Any, cluster_mtbf: Any) -> Any:
    """Time between checkpoints that minimises the expected wall time exactly.

    M [1 + W0(-exp(-d/M - 1))]

    Parameters: checkpoint_stall_time [s], cluster_mtbf [s]
    Returns: [s] interval
    Source: Daly 2006, FGCS 22(3), eq. 20 set to zero
    """
    return exact(checkpoint_stall_time, cluster_mtbf)


@alternative("checkpoint_interval", checkpoint_policy="young")
def young_checkpoint_interval(young_interval: Any) -> Any:
    """Time between checkpoints that the run uses.

    Young's

    Parameters: young_interval [s]
    Returns: [s] interval in use
    Source: Young 1974, CACM 17(9)
    """
    return 1.0 * young_interval


@alternative("checkpoint_interval", checkpoint_policy="daly")
def daly_checkpoint_interval(daly_interval: Any) -> Any:
    """Time between checkpoints that the run uses.

    Daly's

    Parameters: daly_interval [s]
    Returns: [s] interval in use
    Source: Daly 2006, FGCS 22(3), eq. 37
    """
    return 1.0 * daly_interval


@alternative("checkpoint_interval", checkpoint_policy="exact")
def exact_checkpoint_interval(exact_interval: Any) -> Any:
    """Time between checkpoints that the run uses.

    the exact optimum

    Parameters: exact_interval [s]
    Returns: [s] interval in use
    Source: Daly 2006, FGCS 22(3), eq. 20 set to zero
    """
    return 1.0 * exact_interval


@alternative("checkpoint_interval", checkpoint_policy="fixed")
def fixed_policy_checkpoint_interval(fixed_checkpoint_interval: Any) -> Any:
    """Time between checkpoints that the run uses.

    as given

    Parameters: fixed_checkpoint_interval [s]
    Returns: [s] interval in use
    Source: stated by the scenario
    """
    return 1.0 * fixed_checkpoint_interval


def recovery_time(
    detection_time: Any,
    drain_time: Any,
    provision_time: Any,
    checkpoint_size: Any,
    checkpoint_read_bandwidth: Any,
    reinit_time: Any,
) -> Any:
    """Time from a failure until training goes on.

    detection + drain + provision + size / read bandwidth + start

    Parameters: detection_time [s], drain_time [s], provision_time [s], checkpoint_size [B],
        checkpoint_read_bandwidth [B/s], reinit_time [s]
    Returns: [s] recovery time, without the rework
    Source: phases as in Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 4
    """
    restore = checkpoint_size / checkpoint_read_bandwidth
    return detection_time + drain_time + provision_time + restore + reinit_time


@alternative("recovery_overhead", goodput_model="exact")
def exact_recovery_overhead(recovery_time: Any, cluster_mtbf: Any) -> Any:
    """Share of the wall time that goes into recovering from failures.

    1 - exp(-R / M)

    Parameters: recovery_time [s], cluster_mtbf [s]
    Returns: [1] share of the wall time
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart; the shares add up to one
    """
    return -np.expm1(-recovery_time / cluster_mtbf)


@alternative("recovery_overhead", goodput_model=("first_order", "additive"))
def first_order_recovery_overhead(recovery_time: Any, cluster_mtbf: Any) -> Any:
    """Share of the wall time that goes into recovering from failures.

    R / M

    Parameters: recovery_time [s], cluster_mtbf [s]
    Returns: [1] share of the wall time
    Source: Young 1974, CACM 17(9), with a recovery term
    """
    return recovery_time / cluster_mtbf


@alternative("rework_overhead", goodput_model="exact")
def exact_rework_overhead(
    checkpoint_interval: Any,
    checkpoint_stall_time: Any,
    cluster_mtbf: Any,
    recovery_overhead: Any,
) -> Any:
    """Share of the wall time that computes again what failures destroyed.

    e^(-R/M) (1 - z / (e^z - 1)), z = (tau + d) / M

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s], cluster_mtbf [s],
        recovery_overhead [1]
    Returns: [1] share of the wall time
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart; the shares add up to one
    """
    lost = segment_rework(checkpoint_interval, checkpoint_stall_time, cluster_mtbf)
    return (1 - recovery_overhead) * lost


@alternative("rework_overhead", goodput_model=("first_order", "additive"))
def first_order_rework_overhead(checkpoint_interval: Any, cluster_mtbf: Any) -> Any:
    """Share of the wall time that computes again what failures destroyed.

    tau / (2 M); 0 without failures

    Parameters: checkpoint_interval [s], cluster_mtbf [s]
    Returns: [1] share of the wall time
    Source: Young 1974, CACM 17(9)
    """
    fails = cluster_mtbf < np.inf
    return where(fails, checkpoint_interval / (2 * where(fails, cluster_mtbf, 1.0)), 0.0)


@alternative("checkpoint_overhead", goodput_model="exact")
def exact_checkpoint_overhead(
    checkpoint_interval: Any,
    checkpoint_stall_time: Any,
    recovery_overhead: Any,
    rework_overhead: Any,
) -> Any:
    """Share of the wall time that training waits for checkpoints.

    e^(-R/M) z / (e^z - 1) d / (tau + d), z = (tau + d) / M

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s], recovery_overhead [1],
        rework_overhead [1]
    Returns: [1] share of the wall time
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart; the shares add up to one
    """
    kept = 1 - recovery_overhead - rework_overhead
    return kept * stall_share(checkpoint_interval, checkpoint_stall_time)


@alternative("checkpoint_overhead", goodput_model=("first_order", "additive"))
def first_order_checkpoint_overhead(checkpoint_interval: Any, checkpoint_stall_time: Any) -> Any:
    """Share of the wall time that training waits for checkpoints.

    d / tau; 0 for a free checkpoint

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s]
    Returns: [1] share of the wall time
    Source: Young 1974, CACM 17(9)
    """
    costs = checkpoint_stall_time > 0
    return where(costs, checkpoint_stall_time / where(costs, checkpoint_interval, 1.0), 0.0)


@alternative("goodput", goodput_model="exact")
def exact_goodput(
    checkpoint_interval: Any, checkpoint_stall_time: Any, recovery_time: Any, cluster_mtbf: Any
) -> Any:
    """Share of the wall time that makes progress.

    tau / (M e^(R/M) (e^((tau + d)/M) - 1))

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s], recovery_time [s],
        cluster_mtbf [s]
    Returns: [1] useful time over wall time
    Source: Daly 2006, FGCS 22(3), eq. 13
    """
    kept = segment_efficiency(checkpoint_interval, checkpoint_stall_time, cluster_mtbf)
    useful = useful_share(checkpoint_interval, checkpoint_stall_time)
    return np.exp(-recovery_time / cluster_mtbf) * kept * useful


@alternative("goodput", goodput_model=("first_order", "additive"))
def first_order_goodput(
    checkpoint_overhead: Any, rework_overhead: Any, recovery_overhead: Any
) -> Any:
    """Share of the wall time that makes progress; undefined where first-order losses reach 1.

    1 - (d / tau + tau / (2 M) + R / M)

    Parameters: checkpoint_overhead [1], rework_overhead [1], recovery_overhead [1]
    Returns: [1] useful time over wall time; NaN where the first order says nothing is left
    Source: Young 1974, CACM 17(9), with a recovery term
    """
    waste = checkpoint_overhead + rework_overhead + recovery_overhead
    return where(waste < 1, 1 - waste, np.nan)
