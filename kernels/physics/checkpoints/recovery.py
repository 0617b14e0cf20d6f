"""Cost of a failure beyond the rework since the last checkpoint."""

import numpy as np

from ...alternatives import alternative, row, same_as
from ...laws.checkpoint import rollback_time as rolled_back
from ...ops import where

row(
    "node_provision_time",
    "provision_time",
    summary="Time that it takes to get a healthy node from outside.",
    returns="[s] wait for a node",
    node_pool="open",
)
row(
    "node_provision_time",
    0.0,
    "none comes from there; cluster_uptime counts the wait for a repair",
    node_pool=("closed", "closed_idle_safe"),
)


@alternative("wait_for_node", sparing=False)
def unspared_wait_for_node(node_provision_time, spare_availability):
    """Mean wait for a healthy node after a failure.

    provision time x (1 - P(hot spare available))

    Returns: [s] wait for a node
    Range: exact without spares: their probability is 0 here unless given
    Source: by definition; the law of total expectation, a spare being there at once
    """
    return node_provision_time * (1 - spare_availability)


@alternative("wait_for_node", sparing="hot")
def spared_wait_for_node(node_provision_time, spare_availability, cluster_mtbf):
    """Constant wait for a healthy node after a failure that costs as much as the random wait.

    -M ln(1 - p (1 - e^(-w / M))), p = 1 - P(hot spare available), w the provision time: p w for
    short waits. An interrupted recovery restarts, with a new draw of whether a spare is available

    Range: exact if spare availability is independent of the previous failure: with no spares or one
        per failure; between, goodput within 0.009 over the 376 such scenarios of docs/simulated.md
    Source: by definition; the mean time of recoveries that begin again, Daly 2006, FGCS 22(3), eq.
        13, is M (1 / E[e^(-R / M)] - 1) where R is drawn anew
    """
    short = 1 - spare_availability
    slow = node_provision_time / cluster_mtbf
    between = where(slow > 0, cluster_mtbf, 1.0)  # where nothing fails, waits have no effect
    wait = -between * np.log1p(short * np.expm1(-slow))
    return where((slow > 0) & (short < 1), wait, node_provision_time * short)


row(
    "effective_provision_time",
    "wait_for_node",
    "as it is without elasticity",
    summary=("Time that the job waits for a healthy node after a failure, on average."),
    returns="[s] wait for a node",
    elastic=False,
)
row("effective_provision_time", 0.0, "the job continues with fewer replicas", elastic="shrink")


def storage_restore_time(checkpoint_size, read_bandwidth):
    """Time to load a checkpoint from storage.

    size / read bandwidth

    Returns: [s] restore time
    Source: Fleet Foundations table 7, for reading
    """
    return checkpoint_size / read_bandwidth


row(
    "checkpoint_restore_time",
    "storage_restore_time",
    "the load from storage",
    summary="Time to load a checkpoint after a failure.",
    returns="[s] restore time",
    source="Fleet Foundations table 7, for reading",
    checkpoint_mode=("sync", "async"),
)
row(
    "checkpoint_restore_time",
    "peer_copy_time",
    "the copy from a peer's memory",
    source="Wang et al. 2023, Gemini, SOSP",
    checkpoint_mode="in_memory",
)


@alternative("recovery_time", recovery_model=False)
def recovery_time(
    detection_time, drain_time, effective_provision_time, checkpoint_restore_time, reinit_time
):
    """Time from a failure until training resumes.

    detection + drain + wait for a node + restore + start

    Returns: [s] recovery time, rework excluded
    Range: failures during recovery, which restart it, are counted by goodput, not here
    Source: phases as in Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 4
    """
    waits = detection_time + drain_time + effective_provision_time
    return waits + checkpoint_restore_time + reinit_time


def in_process_recovery_time(detection_time, in_process_restart_time, checkpoint_restore_time):
    """Recovery time of an in-process restart.

    detection + restart + restore

    Returns: [s] recovery time, rework excluded
    Source: by definition
    """
    return detection_time + in_process_restart_time + checkpoint_restore_time


def in_job_recovery_time(detection_time, drain_time, checkpoint_restore_time, reinit_time):
    """Recovery time of an in-job restart.

    detection + drain + restore + start

    Returns: [s] recovery time, rework excluded
    Source: phases as in Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 4
    """
    return detection_time + drain_time + checkpoint_restore_time + reinit_time


def node_swap_recovery_time(in_job_recovery_time, effective_provision_time):
    """Recovery time of a node swap.

    in-job restart + wait for a node

    Returns: [s] recovery time, rework excluded
    Source: phases as in Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 4
    """
    return in_job_recovery_time + effective_provision_time


def requeue_recovery_time(detection_time, requeue_time, checkpoint_restore_time, reinit_time):
    """Recovery time of a job that is requeued.

    detection + queue + restore + start

    Returns: [s] recovery time, rework excluded
    Source: phases as in Jiang et al. 2024 (MegaScale), arXiv:2402.15627, section 4
    """
    return detection_time + requeue_time + checkpoint_restore_time + reinit_time


@alternative("recovery_time", recovery_model="kinds")
def kinds_recovery_time(
    in_process_share,
    in_process_recovery_time,
    in_job_share,
    in_job_recovery_time,
    node_swap_share,
    node_swap_recovery_time,
    requeue_share,
    requeue_recovery_time,
    cluster_mtbf,
):
    """constant time that costs as much as all kinds: -M log sum(p_i e^(-R_i / M)), so that the
    exact goodput contains E[e^(-R/M)]; the mean if failures are rare

    Returns: [s] recovery time, rework excluded; at most the mean of the kinds
    Range: a failure during recovery is of an independent kind. The mean is not enough for times
        long against M: shares of 0.9 at 0.1 M and 0.1 at 2 M keep 0.83 of the time, their mean 0.75
    Source: Daly 2006, FGCS 22(3), eq. 13, and the renewal of exponential lifetimes (Barlow &
        Proschan 1975, ch. 3)
    """
    fails = cluster_mtbf < np.inf
    mean = where(fails, cluster_mtbf, 1.0)
    # relative to the shortest time that occurs, so that nothing overflows
    restart = where(in_process_share > 0, in_process_recovery_time, np.inf)
    restart = np.minimum(restart, where(in_job_share > 0, in_job_recovery_time, np.inf))
    swap = where(node_swap_share > 0, node_swap_recovery_time, np.inf)
    swap = np.minimum(swap, where(requeue_share > 0, requeue_recovery_time, np.inf))
    least = np.minimum(restart, swap)
    one, two = in_process_recovery_time - least, in_job_recovery_time - least
    three, four = node_swap_recovery_time - least, requeue_recovery_time - least
    lost = in_process_share * np.expm1(np.minimum(-one / mean, 700.0))
    lost = lost + in_job_share * np.expm1(np.minimum(-two / mean, 700.0))
    lost = lost + node_swap_share * np.expm1(np.minimum(-three / mean, 700.0))
    lost = lost + requeue_share * np.expm1(np.minimum(-four / mean, 700.0))
    rare = in_process_share * one + in_job_share * two + node_swap_share * three
    exact = -mean * np.log1p(np.maximum(lost, -1 + 1.2e-16))
    beyond = where(fails, exact, rare + requeue_share * four)
    return least + beyond


def recovering_share(
    in_process_share,
    in_process_recovery_time,
    in_job_share,
    in_job_recovery_time,
    node_swap_share,
    node_swap_recovery_time,
    requeue_share,
    requeue_recovery_time,
    cluster_mtbf,
):
    """Share of the time between failures spent in recovery, over all kinds.

    sum of p_i (1 - e^(-R_i / M)): mean time M (1 - e^(-R_i / M)) until recovery or the next failure

    Returns: [1] share
    Range: recovery_model = kinds
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart
    """
    restart = -in_process_share * np.expm1(-in_process_recovery_time / cluster_mtbf)
    restart = restart - in_job_share * np.expm1(-in_job_recovery_time / cluster_mtbf)
    swap = -node_swap_share * np.expm1(-node_swap_recovery_time / cluster_mtbf)
    return restart + swap - requeue_share * np.expm1(-requeue_recovery_time / cluster_mtbf)


@alternative("rollback_time", checkpoint_corruption=True, off=0.0)
@same_as(rolled_back)
def corruption_rollback_time(
    checkpoint_interval, checkpoint_stall_time, cluster_mtbf, corruption_probability
):
    """Work lost at a failure because the latest checkpoints are unreadable.

    M log(1 + q / (1 - q) (1 - e^-z)), z = (tau + d) / M: the recovery time of the same cost;
    q / (1 - q) (tau + d) if failures are rare

    Returns: [s] time lost beyond the rework since the last checkpoint
    Range: a checkpoint read once stays readable, all are kept; intervals ignore corruption
    Source: geometric distribution (Feller 1968, An Introduction to Probability Theory)
    """


row("unsafe_time", 0.0, "training waits for the write", checkpoint_mode="sync")
row(
    "unsafe_time",
    "checkpoint_flush_time",
    ("F: a failure during the flush, a share F/tau of them, falls back by one interval tau"),
    source="by definition; the last safe snapshot has a mean age of tau/2 + F",
    holds=(
        "flushes follow each other, which takes intervals of at least F; below, "
        "interval_below_flush_time. A corruption that is found late leaves the snapshot "
        "under way readable, and costs no flush"
    ),
    checkpoint_mode=("async", "in_memory"),
)


def late_corruption_time(corruption_latency, silent_corruption_mttf, n_gpus, cluster_mtbf):
    """Work lost to late detection of silent corruption, as the recovery time of the same cost.

    M log(1 + D n / MTTF): all work from a corruption until its detection, D later, and the part of
    the interval before it; D x the share of corruptions among failures if both are rare

    Returns: [s] time lost beyond the rework since the last checkpoint
    Range: any delay distribution of mean D; failures in it add no cost; checkpoints are kept that
        long. M counts every corruption. A closed pool's waits within D: latency_uptime_factor
    Source: renewal of exponential lifetimes (Barlow & Proschan 1975, ch. 3): the delays stop the
        clock of Daly 2006, FGCS 22(3), eq. 13
    """
    fails = cluster_mtbf < np.inf
    mean = where(fails, cluster_mtbf, 1.0)
    delay = corruption_latency * (n_gpus / silent_corruption_mttf)
    return where(fails, mean * np.log1p(delay), 0.0)


row("undetected_time", "corruption_latency", corruption_detection="late")
row(
    "undetected_time",
    0.0,
    summary="Time from a silent corruption until it is found, on average.",
    returns="[s] time",
    corruption_detection="at_once",
)
row("counted_recovery_time", "recovery_time", corruption_detection="at_once")


@alternative("counted_recovery_time", corruption_detection="late")
def late_counted_recovery_time(recovery_time, late_corruption_time, cluster_mtbf):
    """Recovery time that enters the recovery share of the wall time.

    -M log(1 - e^(-U_c / M) (1 - e^(-R / M))): no recovery while a corruption is undetected

    Returns: [s] recovery time
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart; the shares add up to one
    """
    fails = cluster_mtbf < np.inf
    mean = where(fails, cluster_mtbf, 1.0)
    share = np.exp(-late_corruption_time / mean) * np.expm1(-recovery_time / mean)
    # at most all but 2^-53 of the time
    return where(fails, -mean * np.log1p(np.maximum(share, -1 + 1.2e-16)), recovery_time)


@alternative("lost_work_time", corruption_detection="at_once")
def lost_work_time(rollback_time, unsafe_time):
    """Work lost at a failure beyond that since the last checkpoint.

    rollback + work not yet safe

    Returns: [s] rework
    Source: by definition
    """
    return rollback_time + unsafe_time


@alternative("lost_work_time", corruption_detection="late")
def late_lost_work_time(rollback_time, unsafe_time, late_corruption_time):
    """rollback + work not yet safe + work since a corruption that was detected late"""
    return rollback_time + unsafe_time + late_corruption_time


def restart_time(recovery_time, lost_work_time):
    """Time that a failure costs beyond the rework since the last checkpoint.

    recovery + work lost beyond that rework

    Returns: [s] restart time
    Range: of several tiers, that of one tier as slow: below 0 where its intervals are longer than
        the time between failures; goodput and the overheads of rework and recovery are not
    Source: by definition
    """
    return recovery_time + lost_work_time
