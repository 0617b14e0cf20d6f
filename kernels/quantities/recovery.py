"""What a failure costs besides the rework since the last checkpoint."""

from typing import Any

from ..alternatives import alternative, same_as
from ..checkpoint import rollback_time as rolled_back


@alternative("node_provision_time", node_pool="open")
def open_node_provision_time(provision_time: Any) -> Any:
    """Time that it takes to get a healthy node from outside.

    as given

    Parameters: provision_time [s]
    Returns: [s] wait for a node
    Source: stated by the scenario
    """
    return 1.0 * provision_time


@alternative("node_provision_time", node_pool=("closed", "closed_idle_safe"))
def closed_node_provision_time() -> Any:
    """Time that it takes to get a healthy node from outside.

    0: none comes from there; cluster_uptime counts the wait for a repair

    Parameters: none
    Returns: [s] wait for a node
    Source: by definition
    """
    return 0.0


@alternative("effective_provision_time", elastic="off")
def rigid_effective_provision_time(node_provision_time: Any, spare_availability: Any) -> Any:
    """Time that the job waits for a healthy node after a failure, on average.

    provision time x (1 - P(a hot spare is at hand))

    Parameters: node_provision_time [s], spare_availability [1]
    Returns: [s] wait for a node
    Source: by definition; the law of total expectation, a spare being there at once
    """
    return node_provision_time * (1 - spare_availability)


@alternative("effective_provision_time", elastic="shrink")
def elastic_effective_provision_time() -> Any:
    """Time that the job waits for a healthy node after a failure, on average.

    0: the job continues with fewer replicas

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
    Range: a failure during recovery, which then starts again, is counted by goodput, not here
    Source: phases as in Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 4
    """
    waits = detection_time + drain_time + effective_provision_time
    return waits + checkpoint_restore_time + reinit_time


@alternative("rollback_time", checkpoint_corruption=False)
def no_rollback_time() -> Any:
    """Work lost at a failure because the latest checkpoints cannot be read.

    0

    Parameters: none
    Returns: [s] time lost beyond the rework since the last checkpoint
    Source: by definition
    """
    return 0.0


@alternative("rollback_time", checkpoint_corruption=True)
@same_as(rolled_back)
def corruption_rollback_time(*operands: Any) -> Any:
    """Work lost at a failure because the latest checkpoints cannot be read.

    M log(1 + q / (1 - q) (1 - e^-z)), z = (tau + d) / M: the recovery that costs as much;
    q / (1 - q) (tau + d) where failures are rare

    Parameters: checkpoint_interval [s], checkpoint_stall_time [s], cluster_mtbf [s],
        corruption_probability [1]
    Returns: [s] time lost beyond the rework since the last checkpoint
    Range: a checkpoint that was read once stays readable, and all are kept; the intervals of the
        policies are those without corruption
    Source: geometric distribution (Feller 1968, An Introduction to Probability Theory)
    """


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
    Returns: [s] time lost beyond the rework since the last checkpoint
    Range: flushes follow each other, which takes intervals of at least F; below,
        interval_below_flush_time
    Source: by definition; the last safe snapshot has a mean age of tau/2 + F
    """
    return 1.0 * checkpoint_flush_time


def lost_work_time(rollback_time: Any, unsafe_time: Any) -> Any:
    """Work lost at a failure beyond what was done since the last checkpoint.

    rollback + work that was not yet safe

    Parameters: rollback_time [s], unsafe_time [s]
    Returns: [s] work to be done again
    Source: by definition
    """
    return rollback_time + unsafe_time


def restart_time(recovery_time: Any, lost_work_time: Any) -> Any:
    """Time that a failure costs besides the rework since the last checkpoint.

    recovery + work lost beyond it

    Parameters: recovery_time [s], lost_work_time [s]
    Returns: [s] restart time
    Source: by definition
    """
    return recovery_time + lost_work_time
