"""Checkpoints: size, time, interval; recovery; goodput and its losses."""

from typing import Any

import numpy as np

from ..alternatives import alternative
from ..checkpoint import daly_interval as daly
from ..checkpoint import (
    effective_training_time_ratio,
    segment_efficiency,
    segment_rework,
    stall_share,
    useful_share,
)
from ..checkpoint import exact_interval as exact
from ..checkpoint import expected_slowdown as slowdown
from ..checkpoint import first_order_waste as waste
from ..checkpoint import rollback_time as rolled_back
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


@alternative("write_bandwidth", storage_scaling="total")
def total_write_bandwidth(checkpoint_write_bandwidth: Any) -> Any:
    """Rate at which a checkpoint is written.

    that of the whole storage system

    Parameters: checkpoint_write_bandwidth [B/s]
    Returns: [B/s] write bandwidth of the job
    Source: Fleet Foundations table 7
    """
    return 1.0 * checkpoint_write_bandwidth


@alternative("write_bandwidth", storage_scaling="per_node")
def per_node_write_bandwidth(
    nodes: Any, per_node_storage_bandwidth: Any, checkpoint_write_bandwidth: Any
) -> Any:
    """Rate at which a checkpoint is written.

    min(nodes x bandwidth of a node, bandwidth of the whole system)

    Parameters: nodes [1], per_node_storage_bandwidth [B/s], checkpoint_write_bandwidth [B/s]
    Returns: [B/s] write bandwidth of the job
    Source: by definition; the narrower of two stages in series
    """
    return np.minimum(nodes * per_node_storage_bandwidth, checkpoint_write_bandwidth)


@alternative("read_bandwidth", storage_scaling="total")
def total_read_bandwidth(checkpoint_read_bandwidth: Any) -> Any:
    """Rate at which a checkpoint is read.

    that of the whole storage system

    Parameters: checkpoint_read_bandwidth [B/s]
    Returns: [B/s] read bandwidth of the job
    Source: Fleet Foundations table 7, for reading
    """
    return 1.0 * checkpoint_read_bandwidth


@alternative("read_bandwidth", storage_scaling="per_node")
def per_node_read_bandwidth(
    nodes: Any, per_node_storage_bandwidth: Any, checkpoint_read_bandwidth: Any
) -> Any:
    """Rate at which a checkpoint is read.

    min(nodes x bandwidth of a node, bandwidth of the whole system)

    Parameters: nodes [1], per_node_storage_bandwidth [B/s], checkpoint_read_bandwidth [B/s]
    Returns: [B/s] read bandwidth of the job
    Source: by definition; the narrower of two stages in series
    """
    return np.minimum(nodes * per_node_storage_bandwidth, checkpoint_read_bandwidth)


def checkpoint_write_time(checkpoint_size: Any, write_bandwidth: Any) -> Any:
    """Time to write one checkpoint.

    size / bandwidth

    Parameters: checkpoint_size [B], write_bandwidth [B/s]
    Returns: [s] write time
    Source: Fleet Foundations table 7
    Example:
        >>> checkpoint_write_time(980e9, 100e9)
        9.8
    """
    return checkpoint_size / write_bandwidth


def snapshot_time(checkpoint_size: Any, n_gpus: Any, snapshot_bandwidth: Any) -> Any:
    """Time in which every GPU copies its part of a checkpoint to the memory of its host.

    size / n / (bandwidth of one GPU)

    Parameters: checkpoint_size [B], n_gpus [1], snapshot_bandwidth [B/s]
    Returns: [s] snapshot time
    Source: two-phase checkpoints (Mohan et al. 2021, CheckFreq, FAST; Jiang et al. 2024,
        MegaScale, arXiv:2402.15627)
    Example:
        >>> round(snapshot_time(1024e9, 1024, 25e9), 6)
        0.04
    """
    return checkpoint_size / n_gpus / snapshot_bandwidth


def peer_copy_time(checkpoint_size: Any, n_gpus: Any, rail_bandwidth: Any) -> Any:
    """Time in which every GPU's part of a checkpoint crosses the fabric to or from a peer's memory.

    size / n / (bandwidth of one rail)

    Parameters: checkpoint_size [B], n_gpus [1], rail_bandwidth [B/s]
    Returns: [s] copy time
    Source: Wang et al. 2023, Gemini, SOSP
    """
    return checkpoint_size / n_gpus / rail_bandwidth


@alternative("checkpoint_stall_time", checkpoint_mode="sync")
def sync_checkpoint_stall_time(checkpoint_write_time: Any) -> Any:
    """Time for which one checkpoint stops training.

    the whole write

    Parameters: checkpoint_write_time [s]
    Returns: [s] stall of one checkpoint
    Source: Young 1974, CACM 17(9)
    """
    return 1.0 * checkpoint_write_time


@alternative("checkpoint_stall_time", checkpoint_mode=("async", "in_memory"))
def async_checkpoint_stall_time(snapshot_time: Any) -> Any:
    """Time for which one checkpoint stops training.

    the snapshot; what follows runs behind training and bounds the interval, not the stall

    Parameters: snapshot_time [s]
    Returns: [s] stall of one checkpoint
    Source: Mohan et al. 2021, CheckFreq, FAST
    """
    return 1.0 * snapshot_time


@alternative("checkpoint_flush_time", checkpoint_mode=("sync", "async"))
def storage_checkpoint_flush_time(checkpoint_write_time: Any) -> Any:
    """Time from a snapshot until it is safe.

    the write to storage

    Parameters: checkpoint_write_time [s]
    Returns: [s] flush time
    Source: Mohan et al. 2021, CheckFreq, FAST
    """
    return 1.0 * checkpoint_write_time


@alternative("checkpoint_flush_time", checkpoint_mode="in_memory")
def in_memory_checkpoint_flush_time(peer_copy_time: Any) -> Any:
    """Time from a snapshot until it is safe.

    the copy to a peer's memory

    Parameters: peer_copy_time [s]
    Returns: [s] flush time
    Source: Wang et al. 2023, Gemini, SOSP
    """
    return 1.0 * peer_copy_time


@alternative("minimum_checkpoint_interval", checkpoint_mode="sync")
def sync_minimum_checkpoint_interval() -> Any:
    """Shortest time between checkpoints.

    0

    Parameters: none
    Returns: [s] shortest interval
    Source: by definition
    """
    return 0.0


@alternative("minimum_checkpoint_interval", checkpoint_mode=("async", "in_memory"))
def async_minimum_checkpoint_interval(checkpoint_flush_time: Any) -> Any:
    """Shortest time between checkpoints.

    the flush of the one before

    Parameters: checkpoint_flush_time [s]
    Returns: [s] shortest interval
    Source: Mohan et al. 2021, CheckFreq, FAST
    """
    return 1.0 * checkpoint_flush_time


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
def young_checkpoint_interval(young_interval: Any, minimum_checkpoint_interval: Any) -> Any:
    """Time between checkpoints that the run uses.

    Young's, or the shortest possible where that is longer

    Parameters: young_interval [s], minimum_checkpoint_interval [s]
    Returns: [s] interval in use
    Source: Young 1974, CACM 17(9)
    """
    return np.maximum(young_interval, minimum_checkpoint_interval)


@alternative("checkpoint_interval", checkpoint_policy="daly")
def daly_checkpoint_interval(daly_interval: Any, minimum_checkpoint_interval: Any) -> Any:
    """Time between checkpoints that the run uses.

    Daly's, or the shortest possible where that is longer

    Parameters: daly_interval [s], minimum_checkpoint_interval [s]
    Returns: [s] interval in use
    Source: Daly 2006, FGCS 22(3), eq. 37
    """
    return np.maximum(daly_interval, minimum_checkpoint_interval)


@alternative("checkpoint_interval", checkpoint_policy="exact")
def exact_checkpoint_interval(exact_interval: Any, minimum_checkpoint_interval: Any) -> Any:
    """Time between checkpoints that the run uses.

    the exact optimum, or the shortest possible where that is longer

    Parameters: exact_interval [s], minimum_checkpoint_interval [s]
    Returns: [s] interval in use
    Source: Daly 2006, FGCS 22(3), eq. 20 set to zero
    """
    return np.maximum(exact_interval, minimum_checkpoint_interval)


@alternative("checkpoint_interval", checkpoint_policy="fixed")
def fixed_policy_checkpoint_interval(fixed_checkpoint_interval: Any) -> Any:
    """Time between checkpoints that the run uses.

    as given

    Parameters: fixed_checkpoint_interval [s]
    Returns: [s] interval in use
    Source: stated by the scenario
    """
    return 1.0 * fixed_checkpoint_interval


@alternative("effective_provision_time", elastic="off")
def rigid_effective_provision_time(provision_time: Any, spare_availability: Any) -> Any:
    """Time that the job waits for a healthy node after a failure, on average.

    provision time x (1 - P(a hot spare is at hand))

    Parameters: provision_time [s], spare_availability [1]
    Returns: [s] wait for a node
    Source: by definition; the law of total expectation, a spare being there at once
    """
    return provision_time * (1 - spare_availability)


@alternative("effective_provision_time", elastic="shrink")
def elastic_effective_provision_time() -> Any:
    """Time that the job waits for a healthy node after a failure, on average.

    0: it goes on with fewer replicas

    Parameters: none
    Returns: [s] wait for a node
    Source: by definition
    """
    return 0.0


@alternative("checkpoint_restore_time", checkpoint_mode=("sync", "async"))
def storage_checkpoint_restore_time(checkpoint_size: Any, read_bandwidth: Any) -> Any:
    """Time to load a checkpoint after a failure.

    size / read bandwidth

    Parameters: checkpoint_size [B], read_bandwidth [B/s]
    Returns: [s] restore time
    Source: Fleet Foundations table 7, for reading
    """
    return checkpoint_size / read_bandwidth


@alternative("checkpoint_restore_time", checkpoint_mode="in_memory")
def in_memory_checkpoint_restore_time(peer_copy_time: Any) -> Any:
    """Time to load a checkpoint after a failure.

    the copy from a peer's memory

    Parameters: peer_copy_time [s]
    Returns: [s] restore time
    Source: Wang et al. 2023, Gemini, SOSP
    """
    return 1.0 * peer_copy_time


def recovery_time(
    detection_time: Any,
    drain_time: Any,
    effective_provision_time: Any,
    checkpoint_restore_time: Any,
    reinit_time: Any,
) -> Any:
    """Time from a failure until training goes on.

    detection + drain + wait for a node + restore + start

    Parameters: detection_time [s], drain_time [s], effective_provision_time [s],
        checkpoint_restore_time [s], reinit_time [s]
    Returns: [s] recovery time, without the rework
    Source: phases as in Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 4
    """
    waits = detection_time + drain_time + effective_provision_time
    return waits + checkpoint_restore_time + reinit_time


@alternative("rollback_time", checkpoint_corruption=False)
def no_rollback_time() -> Any:
    """Work lost at a failure because the latest checkpoints cannot be read, on average.

    0

    Parameters: none
    Returns: [s] time lost beyond the rework since the last checkpoint
    Source: by definition
    """
    return 0.0


@alternative("rollback_time", checkpoint_corruption=True)
def corruption_rollback_time(
    checkpoint_interval: Any, checkpoint_stall_time: Any, corruption_probability: Any
) -> Any:
    """Work lost at a failure because the latest checkpoints cannot be read, on average.

    q / (1 - q) (tau + d)

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s], corruption_probability [1]
    Returns: [s] time lost beyond the rework since the last checkpoint
    Source: mean of the geometric distribution (Feller 1968, An Introduction to Probability Theory)
    """
    return rolled_back(checkpoint_interval, checkpoint_stall_time, corruption_probability)


@alternative("unsafe_time", checkpoint_mode="sync")
def sync_unsafe_time() -> Any:
    """Work lost at a failure because the latest snapshot was not yet safe, on average.

    0: training waits for the write

    Parameters: none
    Returns: [s] time lost beyond the rework since the last checkpoint
    Source: by definition
    """
    return 0.0


@alternative("unsafe_time", checkpoint_mode=("async", "in_memory"))
def async_unsafe_time(checkpoint_flush_time: Any) -> Any:
    """Work lost at a failure because the latest snapshot was not yet safe, on average.

    F: a failure during the flush, a share F/tau of them, falls back by one interval tau

    Parameters: checkpoint_flush_time [s]
    Returns: [s] time lost beyond the rework since the last checkpoint, for intervals of at least F
    Source: by definition; the last safe snapshot has a mean age of tau/2 + F
    """
    return 1.0 * checkpoint_flush_time


def restart_time(recovery_time: Any, rollback_time: Any, unsafe_time: Any) -> Any:
    """Time that a failure costs besides the rework since the last checkpoint.

    recovery + rollback + work that was not yet safe

    Parameters: recovery_time [s], rollback_time [s], unsafe_time [s]
    Returns: [s] restart time
    Source: by definition
    """
    return recovery_time + rollback_time + unsafe_time


@alternative("recovery_overhead", goodput_model="exact")
def exact_recovery_overhead(restart_time: Any, cluster_mtbf: Any) -> Any:
    """Share of the wall time that goes into recovering from failures.

    1 - exp(-R / M)

    Parameters: restart_time [s], cluster_mtbf [s]
    Returns: [1] share of the wall time
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart; the shares add up to one
    """
    return -np.expm1(-restart_time / cluster_mtbf)


@alternative("recovery_overhead", goodput_model="first_order")
def first_order_recovery_overhead(restart_time: Any, cluster_mtbf: Any) -> Any:
    """Share of the wall time that goes into recovering from failures.

    R / M

    Parameters: restart_time [s], cluster_mtbf [s]
    Returns: [1] share of the wall time
    Source: Young 1974, CACM 17(9), with a recovery term
    """
    return restart_time / cluster_mtbf


@alternative("recovery_overhead", goodput_model="additive")
def additive_recovery_overhead(recovery_budget: Any) -> Any:
    """Share of the wall time that goes into recovering from failures.

    as budgeted, rework included

    Parameters: recovery_budget [1]
    Returns: [1] share of the wall time
    Source: Fleet Foundations table 8
    """
    return 1.0 * recovery_budget


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


@alternative("rework_overhead", goodput_model="first_order")
def first_order_rework_overhead(checkpoint_interval: Any, cluster_mtbf: Any) -> Any:
    """Share of the wall time that computes again what failures destroyed.

    tau / (2 M); 0 without failures

    Parameters: checkpoint_interval [s], cluster_mtbf [s]
    Returns: [1] share of the wall time
    Source: Young 1974, CACM 17(9)
    """
    fails = cluster_mtbf < np.inf
    return where(fails, checkpoint_interval / (2 * where(fails, cluster_mtbf, 1.0)), 0.0)


@alternative("rework_overhead", goodput_model="additive")
def additive_rework_overhead() -> Any:
    """Share of the wall time that computes again what failures destroyed.

    0: the budget of recovery holds it

    Parameters: none
    Returns: [1] share of the wall time
    Source: Fleet Foundations table 8
    """
    return 0.0


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


@alternative("checkpoint_overhead", goodput_model="first_order")
def first_order_checkpoint_overhead(checkpoint_interval: Any, checkpoint_stall_time: Any) -> Any:
    """Share of the wall time that training waits for checkpoints.

    d / tau; 0 for a free checkpoint

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s]
    Returns: [1] share of the wall time
    Source: Young 1974, CACM 17(9)
    """
    costs = checkpoint_stall_time > 0
    return where(costs, checkpoint_stall_time / where(costs, checkpoint_interval, 1.0), 0.0)


@alternative("checkpoint_overhead", goodput_model="additive")
def additive_checkpoint_overhead(checkpoint_budget: Any) -> Any:
    """Share of the wall time that training waits for checkpoints.

    as budgeted

    Parameters: checkpoint_budget [1]
    Returns: [1] share of the wall time
    Source: Fleet Foundations table 8
    """
    return 1.0 * checkpoint_budget


@alternative("goodput", goodput_model="exact")
def exact_goodput(
    checkpoint_interval: Any, checkpoint_stall_time: Any, restart_time: Any, cluster_mtbf: Any
) -> Any:
    """Share of the wall time that makes progress.

    tau / (M e^(R/M) (e^((tau + d)/M) - 1))

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s], restart_time [s],
        cluster_mtbf [s]
    Returns: [1] useful time over wall time
    Source: Daly 2006, FGCS 22(3), eq. 13
    """
    kept = segment_efficiency(checkpoint_interval, checkpoint_stall_time, cluster_mtbf)
    useful = useful_share(checkpoint_interval, checkpoint_stall_time)
    return np.exp(-restart_time / cluster_mtbf) * kept * useful


@alternative("goodput", goodput_model="first_order")
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


@alternative("goodput", goodput_model="additive")
def additive_goodput(
    checkpoint_overhead: Any,
    rework_overhead: Any,
    recovery_overhead: Any,
    bubble_budget: Any,
    maintenance_budget: Any,
) -> Any:
    """Share of the wall time that makes progress; undefined where budgets leave nothing.

    1 - checkpoints - rework - recovery - bubbles - maintenance

    The bubble is counted again in step_time, and maintenance in availability where a
    maintenance_fraction is given: set either budget to 0 to count it once.

    Parameters: checkpoint_overhead [1], rework_overhead [1], recovery_overhead [1],
        bubble_budget [1], maintenance_budget [1]
    Returns: [1] useful time over wall time; NaN where the budgets leave nothing
    Source: Fleet Foundations table 8
    Example:
        >>> round(float(additive_goodput(0.03, 0.0, 0.10, 0.05, 0.05)), 2)
        0.77
    """
    lost = checkpoint_overhead + rework_overhead + recovery_overhead
    lost = lost + bubble_budget + maintenance_budget
    return where(lost < 1, 1 - lost, np.nan)


def ettr(
    checkpoint_interval: Any, checkpoint_stall_time: Any, restart_time: Any, cluster_mtbf: Any
) -> Any:
    """Effective training time ratio: expected share of the wall time that makes progress.

    (1 - (u0 + tau/2) / M) / (1 + d / tau), at least 0

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s], restart_time [s],
        cluster_mtbf [s]
    Returns: [1] useful time over wall time, queueing left out
    Source: Kokolis et al. 2025, HPCA, arXiv:2410.21680 (expected ETTR of long jobs)
    """
    return effective_training_time_ratio(
        checkpoint_interval, checkpoint_stall_time, restart_time, cluster_mtbf
    )


def expected_slowdown(
    checkpoint_interval: Any, checkpoint_stall_time: Any, restart_time: Any, cluster_mtbf: Any
) -> Any:
    """Expected wall time over useful time, checkpoints, rework and recovery counted.

    M e^(R/M) (e^((tau + d)/M) - 1) / tau

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s], restart_time [s],
        cluster_mtbf [s]
    Returns: [1] wall time over useful time
    Source: Daly 2006, FGCS 22(3), eq. 13
    """
    return slowdown(checkpoint_interval, checkpoint_stall_time, restart_time, cluster_mtbf)


def first_order_waste(
    checkpoint_interval: Any, checkpoint_stall_time: Any, restart_time: Any, cluster_mtbf: Any
) -> Any:
    """Share of the wall time lost to checkpoints and failures, to first order.

    d / tau + tau / (2 M) + R / M

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s], restart_time [s],
        cluster_mtbf [s]
    Returns: [1] share lost; above 1 where the first order says that nothing is left
    Source: Young 1974, CACM 17(9), with a recovery term
    """
    return waste(checkpoint_interval, checkpoint_stall_time, restart_time, cluster_mtbf)


def checkpoints_written(
    job_duration: Any, checkpoint_interval: Any, checkpoint_stall_time: Any
) -> Any:
    """Checkpoints of a duration in which nothing fails.

    T / (tau + d)

    Parameters: job_duration [s], checkpoint_interval [s], checkpoint_stall_time [s]
    Returns: [1] number of checkpoints
    Source: by definition of the segment (Daly 2006, section 2)
    """
    return job_duration / (checkpoint_interval + checkpoint_stall_time)
