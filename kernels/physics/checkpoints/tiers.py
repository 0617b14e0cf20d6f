"""Tiered checkpoints: host or peer memory, local drives, shared storage."""

import numpy as np

from ...alternatives import alternative, family, row, same_as
from ...laws.checkpoint import daly_interval as daly
from ...laws.checkpoint import exact_interval as exact
from ...laws.checkpoint import young_interval as young
from ...laws.checkpoint_tiers import (
    dearer_recovery,
    equivalent_lost_work,
    interrupted_restart,
    interruption_delay,
    pooled_interval,
    recoveries,
)
from ...ops import where

row(
    "memory_tier_share",
    "memory_tier_survival",
    "as stated: the lowest tier serves all failures that it survives",
    summary="Share of failures recovered from the memory tier.",
    returns="[1] share of failures",
    source="stated by the scenario",
    corruption_detection="at_once",
)


@alternative("memory_tier_share", corruption_detection="late")
def late_memory_tier_share(
    memory_tier_survival, corruption_latency, n_gpus, silent_corruption_mttf, cluster_mtbf
):
    """survival x (1 - M n / MTTF): what memory holds was written after a corruption found late

    Range: latencies beyond an interval and a flush, as memory holds one checkpoint. A copy that is
        under way then counts as lost: goodput is too low by about the corruptions' share of F / M
    Source: Moody et al. 2010, SC10
    """
    fails = cluster_mtbf < np.inf
    share = np.minimum(where(fails, cluster_mtbf, 0.0) * (n_gpus / silent_corruption_mttf), 1.0)
    return memory_tier_survival * (1 - where(corruption_latency > 0, share, 0.0))


def drive_tier_share(memory_tier_share, drive_tier_survival):
    """Share of failures recovered from local drives, which the memory tier does not serve.

    survival of drives - share of memory; 0 without drives

    Returns: [1] share of failures
    Range: drives survive at least what memory does, or nothing (no drives): else tiers_out_of_order
    Source: Moody et al. 2010, SC10
    """
    return np.maximum(0.0, drive_tier_survival - memory_tier_share)


def storage_tier_share(memory_tier_share, drive_tier_share):
    """Share of failures recovered from remote storage, which survives all.

    1 - those that memory and drives serve

    Returns: [1] share of failures
    Source: Moody et al. 2010, SC10
    """
    return 1 - memory_tier_share - drive_tier_share


row("memory_tier_copy_time", 0.0, "the snapshot is what it holds", memory_tier="host")


@alternative("memory_tier_copy_time", memory_tier="peer")
def peer_memory_tier_copy_time(peer_copy_time, rail_busy_share):
    """Time to copy a snapshot from the host's memory into the memory tier.

    copy to a peer / (1 - share of the time in which training traffic occupies the rail)

    Returns: [s] copy time
    Range: copies use the rail while it idles, and delay no training traffic
    Source: Wang et al. 2023, Gemini, SOSP (checkpoint traffic in idle spans)
    """
    return peer_copy_time / (1 - rail_busy_share)


row("memory_tier_restore_time", "snapshot_time", "the copy from the host", memory_tier="host")
row(
    "memory_tier_restore_time",
    "peer_copy_time",
    "the copy from a peer's memory",
    summary="Time to load a checkpoint of the memory tier after a failure.",
    returns="[s] restore time",
    source="Wang et al. 2023, Gemini, SOSP",
    memory_tier="peer",
)


def drive_copy_time(checkpoint_size, n_gpus, nvme_bandwidth):
    """Time to write a checkpoint to, or read it from, local drives, all GPUs in parallel.

    size / n / (bandwidth of one GPU's drives)

    Returns: [s] copy time
    Source: Moody et al. 2010, SC10
    """
    return checkpoint_size / n_gpus / nvme_bandwidth


def memory_tier_stall_time(
    memory_tier_share, memory_tier_copy_time, snapshot_time, tier_stall_share
):
    """Training stall of one checkpoint to the memory tier.

    snapshot + awaited share x copy; 0 if the tier serves no failures, and so is not written

    Returns: [s] stall of one checkpoint
    Source: Mohan et al. 2021, CheckFreq, FAST
    """
    stall = snapshot_time + tier_stall_share * memory_tier_copy_time
    return where(memory_tier_share > 0, stall, 0.0)


def drive_tier_stall_time(
    drive_tier_share, memory_tier_share, drive_copy_time, snapshot_time, tier_stall_share
):
    """Training stall of one checkpoint to local drives, beyond that of lower tiers.

    awaited share x copy + (1 - awaited share) x snapshot, the latter unless a lower tier takes it;
    0 if the tier serves no failures, and so is not written

    Returns: [s] stall of one checkpoint
    Source: Mohan et al. 2021, CheckFreq, FAST
    """
    snapshot = where(memory_tier_share > 0, 0.0, snapshot_time)
    stall = tier_stall_share * drive_copy_time + (1 - tier_stall_share) * snapshot
    return where(drive_tier_share > 0, stall, 0.0)


def storage_tier_stall_time(
    storage_tier_share, checkpoint_write_time, snapshot_time, tier_stall_share
):
    """Training stall of one checkpoint to storage, beyond that of lower tiers.

    awaited share x write + (1 - awaited share) x snapshot, if no lower tier takes one; 0 if the
    tier serves no failures, and so is not written

    Returns: [s] stall of one checkpoint
    Source: Mohan et al. 2021, CheckFreq, FAST
    """
    snapshot = where(storage_tier_share < 1, 0.0, snapshot_time)
    stall = tier_stall_share * checkpoint_write_time + (1 - tier_stall_share) * snapshot
    return where(storage_tier_share > 0, stall, 0.0)


def memory_tier_flush_time(memory_tier_share, memory_tier_copy_time, tier_stall_share):
    """Time from the end of a stall until the memory tier's checkpoint is safe.

    (1 - awaited share) x copy; 0 if the tier serves no failures

    Returns: [s] flush time
    Source: Mohan et al. 2021, CheckFreq, FAST
    """
    return where(memory_tier_share > 0, (1 - tier_stall_share) * memory_tier_copy_time, 0.0)


def memory_tier_restart_time(
    recovery_time,
    checkpoint_restore_time,
    memory_tier_restore_time,
    memory_tier_flush_time,
    memory_copy_loss_share,
    cluster_mtbf,
):
    """Mean time that a failure costs beyond its rework, when recovered from memory.

    interrupted_restart of R = recovery, its mean restore replaced by that of the tier, by all
    failures, and of F = flush by those that lose a copy

    Returns: [s] restart time
    Source: Moody et al. 2010, SC10
    """
    rest = np.maximum(recovery_time - checkpoint_restore_time + memory_tier_restore_time, 0.0)
    rate = 1 / cluster_mtbf
    return interrupted_restart(rest, memory_tier_flush_time, rate * memory_copy_loss_share, rate)


for _tier, _copy, _restore, _words in (
    ("drive", "drive_copy_time", "drive_copy_time", "local drives"),
    ("storage", "checkpoint_write_time", "storage_restore_time", "storage"),
):
    family(
        {
            "memory_tier_flush_time": f"{_tier}_tier_flush_time",
            "memory_tier_restart_time": f"{_tier}_tier_restart_time",
            "memory_tier_share": f"{_tier}_tier_share",
            "memory_tier_copy_time": _copy,
            "memory_tier_restore_time": _restore,
            "memory_copy_loss_share": f"{_tier}_copy_loss_share",
            "the memory tier's checkpoint": f"the checkpoint on {_words}",
            "from memory": f"from {_words}",
        },
        memory_tier_flush_time,
        memory_tier_restart_time,
    )

_copy_loss = {
    "summary": "Share of failures that lose a copy on its way.",
    "returns": "[1] failures",
}
row("memory_copy_loss_share", 1.0, **_copy_loss, tier_copies=("kept", "repeated"))
row("drive_copy_loss_share", 1.0, tier_copies="repeated")
row("storage_copy_loss_share", 1.0, **_copy_loss, tier_copies="repeated")
row("storage_copy_loss_share", "storage_tier_share", tier_copies="kept")


@alternative("drive_copy_loss_share", tier_copies="kept")
def kept_drive_copy_loss_share(memory_tier_share):
    """Share of failures that lose a copy on its way to local drives: those it cannot outlive.

    1 - share served by memory

    Returns: [1] share of failures
    Source: Moody et al. 2010, SC10
    """
    return 1 - memory_tier_share


def drive_copy_every(
    memory_tier_stall_time,
    drive_tier_stall_time,
    storage_tier_stall_time,
    memory_tier_flush_time,
    drive_tier_flush_time,
    storage_tier_flush_time,
    memory_tier_share,
    drive_tier_share,
    storage_tier_share,
    cluster_mtbf,
):
    """Number of checkpoints per copy to local drives.

    tau_2 / tau_1 to the nearest whole number, at least 1: the intervals sqrt(2 d_l / lambda_l), no
    shorter than the flush; tiers whose intervals do not increase are written together

    Returns: [1] number of checkpoints
    Range: optimal to first order
    Source: Benoit et al. 2017, IEEE TC 66(7)
    """
    first, second, _ = _intervals(
        (memory_tier_stall_time, drive_tier_stall_time, storage_tier_stall_time),
        (memory_tier_flush_time, drive_tier_flush_time, storage_tier_flush_time),
        (memory_tier_share, drive_tier_share, storage_tier_share),
        cluster_mtbf,
    )
    return _multiple(first, second)


def storage_copy_every(
    memory_tier_stall_time,
    drive_tier_stall_time,
    storage_tier_stall_time,
    memory_tier_flush_time,
    drive_tier_flush_time,
    storage_tier_flush_time,
    memory_tier_share,
    drive_tier_share,
    storage_tier_share,
    cluster_mtbf,
):
    """Number of copies to local drives per copy to storage.

    tau_3 / tau_2 to the nearest whole number, at least 1: the intervals sqrt(2 d_l / lambda_l), no
    shorter than the flush; tiers whose intervals do not increase are written together

    Returns: [1] number of copies
    Range: optimal to first order; without a drive tier, copies to drives are counted but not made
    Source: Benoit et al. 2017, IEEE TC 66(7)
    """
    _, second, third = _intervals(
        (memory_tier_stall_time, drive_tier_stall_time, storage_tier_stall_time),
        (memory_tier_flush_time, drive_tier_flush_time, storage_tier_flush_time),
        (memory_tier_share, drive_tier_share, storage_tier_share),
        cluster_mtbf,
    )
    return _multiple(second, third)


row("target_drive_interval", "timed_drive_interval", drive_timing=True)
row("stated_drive_interval", "timed_drive_interval", drive_timing=True)
row(
    "stated_drive_interval",
    np.inf,
    "left open",
    summary="Interval of local drives that the job states.",
    returns="[s] interval",
    drive_timing=False,
)
row(
    "timed_drive_interval",
    "drive_tier_interval",
    summary="Stated time between checkpoints on local drives.",
    returns="[s] interval",
    drive_steps=False,
)
row(
    "target_storage_interval",
    "storage_tier_interval",
    summary="Stated time between checkpoints on storage.",
    returns="[s] interval",
    storage_steps=False,
)


@alternative("target_drive_interval", drive_timing=False)
def target_drive_interval(
    memory_tier_stall_time,
    drive_tier_stall_time,
    memory_tier_flush_time,
    drive_tier_flush_time,
    memory_tier_share,
    drive_tier_share,
    target_storage_interval,
    cluster_mtbf,
):
    """Time between checkpoints on local drives where it is left open: it divides storage's.

    max(sqrt(2 d_2 M / p_2), F_2, that of memory and drives together), to the nearest that divides

    Returns: [s] interval
    Range: the best to first order, while losses are well below 1
    Source: Benoit et al. 2017, IEEE TC 66(7)
    """
    best = _intervals(
        (memory_tier_stall_time, drive_tier_stall_time, 0.0),
        (memory_tier_flush_time, drive_tier_flush_time, 0.0),
        (memory_tier_share, drive_tier_share, 0.0),
        cluster_mtbf,
    )[1]
    return _dividing(best, target_storage_interval)


@alternative("longest_checkpoint_interval", tier_intervals="stated")
def longest_checkpoint_interval(target_drive_interval, target_storage_interval):
    """Time after which the tier above memory gets a checkpoint.

    min(target of drives, interval of storage)

    Returns: [s] interval
    Source: by definition: a checkpoint on storage is one on drives, too
    """
    return np.minimum(target_drive_interval, target_storage_interval)


row("longest_checkpoint_interval", np.inf, "multiples follow", tier_intervals="tuned")


@alternative("least_stated_interval", tier_intervals="stated")
def least_stated_interval(stated_drive_interval, target_storage_interval):
    """Shortest interval that the job states for a tier above memory.

    min(that of drives, that of storage)

    Returns: [s] interval
    Source: by definition: memory's may not be longer
    """
    return np.minimum(stated_drive_interval, target_storage_interval)


row("least_stated_interval", np.inf, "multiples follow", tier_intervals="tuned")


@alternative("drive_multiple", tier_intervals="stated")
def drive_multiple(longest_checkpoint_interval, checkpoint_interval):
    """Checkpoints per checkpoint on local drives, as the job runs.

    tau_2 / tau_1, at least 1 and not rounded: a copy is due by the clock, with one in memory

    Returns: [1] number of checkpoints
    Range: checkpoint_interval above 0
    Source: by definition
    """
    return _ratio(checkpoint_interval, longest_checkpoint_interval)


@alternative("storage_multiple", tier_intervals="stated")
def storage_multiple(target_storage_interval, longest_checkpoint_interval, checkpoint_interval):
    """Checkpoints on local drives per checkpoint on storage, as the job runs.

    tau_3 / max(tau_2, tau_1), at least 1 and not rounded: a copy is due by the clock, with others

    Returns: [1] number of copies
    Source: by definition; a best interval of drives below memory's is memory's
    """
    drives = np.maximum(longest_checkpoint_interval, checkpoint_interval)
    return _ratio(drives, target_storage_interval)


row("drive_multiple", "drive_copy_every", tier_intervals="tuned")
row("storage_multiple", "storage_copy_every", tier_intervals="tuned")


def drive_write_interval(checkpoint_interval, drive_multiple):
    """Time between checkpoints written to local drives.

    interval x checkpoints per copy to drives

    Returns: [s] interval
    Source: by definition
    """
    return checkpoint_interval * drive_multiple


@alternative("storage_write_interval", checkpoint_mode="tiered")
def storage_write_interval(drive_write_interval, storage_multiple):
    """Time between checkpoints written to remote storage.

    interval of drives x copies to drives per copy to storage

    Returns: [s] interval
    Source: by definition
    """
    return drive_write_interval * storage_multiple


row("storage_write_interval", "checkpoint_interval", checkpoint_mode=("sync", "async"))
row("storage_write_interval", np.inf, "none is written", checkpoint_mode="in_memory")
row("tuned_stall_time", "memory_tier_stall_time", tier_intervals="stated")
row("shortest_checkpoint_interval", "memory_tier_flush_time", tier_intervals="stated")
row("minimum_checkpoint_interval", "shortest_checkpoint_interval", checkpoint_mode="tiered")


@alternative("checkpoint_stall_time", checkpoint_mode="tiered")
def tiered_checkpoint_stall_time(
    memory_tier_stall_time,
    drive_tier_stall_time,
    storage_tier_stall_time,
    drive_multiple,
    storage_multiple,
):
    """Mean training stall of one checkpoint.

    (n_1 d_1 + n_2 d_2 + d_3) / (k_2 k_3) for each interval of memory, n_l the checkpoints of a tier
    per checkpoint on storage: the last of them may come after a shorter interval

    Returns: [s] stall of one checkpoint
    Source: Benoit et al. 2017, IEEE TC 66(7)
    """
    whole, rest = _parts(storage_multiple)
    drives = whole + np.ceil(rest)
    memory = whole * _writes(drive_multiple) + _writes(rest * drive_multiple)
    stalls = memory * memory_tier_stall_time + drives * drive_tier_stall_time
    return (stalls + storage_tier_stall_time) / (drive_multiple * storage_multiple)


@alternative("checkpoint_flush_time", checkpoint_mode="tiered")
def tiered_checkpoint_flush_time(
    memory_tier_flush_time,
    drive_tier_flush_time,
    storage_tier_flush_time,
    drive_multiple,
    storage_multiple,
):
    """Time from a snapshot until it is safe.

    max(F_1, F_2 / k_2, F_3 / (k_2 k_3)): that of the tier that limits the interval

    Returns: [s] flush time
    Source: Mohan et al. 2021, CheckFreq, FAST (one checkpoint in flight), of each tier
    """
    above = np.maximum(drive_tier_flush_time, storage_tier_flush_time / storage_multiple)
    return np.maximum(memory_tier_flush_time, above / drive_multiple)


for _quantity, _name, _formula in (
    ("checkpoint_stall_time", "tuned_stall_time", tiered_checkpoint_stall_time),
    ("checkpoint_flush_time", "shortest_checkpoint_interval", tiered_checkpoint_flush_time),
):
    family(
        {
            _quantity: _name,
            f"tiered_{_quantity}": f"{_name}_of_multiples",
            "drive_multiple": "drive_copy_every",
            "storage_multiple": "storage_copy_every",
            "one checkpoint": "one checkpoint, to tune to",
            "a snapshot": "each snapshot",
        },
        _formula,
        tier_intervals="tuned",
    )


@alternative("tiered_mtbf", tier_intervals="tuned")
def tiered_mtbf(
    memory_tier_share,
    drive_tier_share,
    storage_tier_share,
    drive_copy_every,
    storage_copy_every,
    cluster_mtbf,
):
    """MTBF at which a single tier has the same rework as the tiers together.

    M / (p_1 + k_2 (p_2 + k_3 p_3)): each failure weighted by the checkpoints that it rolls back

    Returns: [s] mean time
    Range: first order: its interval is optimal for the pattern while losses are well below 1
    Source: Benoit et al. 2017, IEEE TC 66(7)
    """
    above = drive_tier_share + storage_copy_every * storage_tier_share
    return cluster_mtbf / (memory_tier_share + drive_copy_every * above)


@alternative("tiered_mtbf", tier_intervals="stated")
def memory_tier_mtbf(memory_tier_share, cluster_mtbf):
    """M / p_1: only memory's failures depend on its interval; infinite if it serves none"""
    some = memory_tier_share > 0
    return where(some, cluster_mtbf / where(some, memory_tier_share, 1.0), np.inf)


@alternative("young_interval", checkpoint_mode="tiered")
def tiered_young_interval(tuned_stall_time, tiered_mtbf, longest_checkpoint_interval):
    """sqrt(2 d M), d the tuned stall, M `tiered_mtbf`; next to it, of those that divide the tier
    above's"""
    return _dividing(young(tuned_stall_time, tiered_mtbf), longest_checkpoint_interval)


@alternative("daly_interval", checkpoint_mode="tiered")
def tiered_daly_interval(tuned_stall_time, tiered_mtbf, longest_checkpoint_interval):
    """as without tiers, with the tuned stall; next to it, of those that divide the tier above's"""
    return _dividing(daly(tuned_stall_time, tiered_mtbf), longest_checkpoint_interval)


@alternative("exact_interval", checkpoint_mode="tiered")
def tiered_exact_interval(tuned_stall_time, tiered_mtbf, longest_checkpoint_interval):
    """M [1 + W0(-exp(-d/M - 1))] with the tuned stall; next to it, of those that divide the tier
    above's"""
    return _dividing(exact(tuned_stall_time, tiered_mtbf), longest_checkpoint_interval)


@alternative("checkpoint_restore_time", checkpoint_mode="tiered")
def tiered_checkpoint_restore_time(
    memory_tier_share,
    storage_tier_share,
    memory_tier_restore_time,
    drive_copy_time,
    storage_restore_time,
    detection_time,
    drain_time,
    effective_provision_time,
    reinit_time,
    cluster_mtbf,
):
    """restore time at which one recovery costs as much as the tiers': memory's + dearer_recovery
    for failures that fall back to drives, and again for storage; the mean if failures are rare

    Range: a failure during recovery restarts it, from the higher tier of the two
    Source: Moody et al. 2010, SC10; Daly 2006, FGCS 22(3), eq. 13
    """
    rest = detection_time + drain_time + effective_provision_time + reinit_time
    low, middle, high = memory_tier_restore_time, drive_copy_time, storage_restore_time
    fallen = dearer_recovery(1 - memory_tier_share, rest + low, middle - low, cluster_mtbf)
    lowest = dearer_recovery(storage_tier_share, rest + middle, high - middle, cluster_mtbf)
    return low + fallen + lowest


def memory_tier_period(checkpoint_interval, memory_tier_stall_time):
    """Failure-free time from one checkpoint to the next, without the stalls of higher tiers.

    interval + stall of memory; the stall alone for an infinite interval

    Returns: [s] time
    Source: by definition
    """
    useful = where(checkpoint_interval < np.inf, checkpoint_interval, 0.0)
    return useful + memory_tier_stall_time


def tiered_delay(
    memory_tier_period,
    drive_multiple,
    storage_multiple,
    memory_tier_stall_time,
    drive_tier_stall_time,
    storage_tier_stall_time,
    memory_tier_restart_time,
    drive_tier_restart_time,
    storage_tier_restart_time,
    memory_tier_share,
    drive_tier_share,
    storage_tier_share,
    cluster_mtbf,
):
    """Time lost to failures over failure-free time, waits for repairs excluded.

    x_l = sum of x_(l-1) + delay_(l-1) over the intervals of the tier below, of which the last may
    be shorter, + d_l + the stall's delay; delay_l = interruption_delay of x_l by failures that
    tier l or a higher one serves; failures that lower tiers serve restart a stall

    Returns: [1] time lost over time of work and checkpoints
    Range: exact where training waits for copies; in 40 drawn jobs, with flushes up to the MTBF,
        goodput is within 0.005 of play, the median 0.0003, for copies kept or repeated. Where
        a copy dies with the job, and is not repeated, it is too high by 0.001 at a flush of 0.04
        MTBF, 0.005 at 0.23, 0.02 at 0.47. Kinds of recovery count as one of the same cost; of
        unreadable checkpoints, only the lowest tier's count
    Source: Moody et al. 2010, SC10; Daly 2006, FGCS 22(3), eq. 13
    """
    rate = 1 / cluster_mtbf
    rate1, rate2 = rate * memory_tier_share, rate * drive_tier_share
    rate3 = rate * storage_tier_share
    above = rate2 + rate3
    lower = recoveries(rate1, memory_tier_restart_time, above)
    middle = recoveries(rate2, drive_tier_restart_time, rate3)
    highest = recoveries(rate3, storage_tier_restart_time, 0.0)
    # work without checkpoints is the limit of short intervals: recoveries alone
    free = (1 + lower) * (1 + middle) * (1 + highest) - 1
    whole, rest = _parts(storage_multiple)
    stalls = memory_tier_stall_time, drive_tier_stall_time
    rates = rate, above, rate3
    recovering = lower, middle
    second, lost = _to_drives(drive_multiple, memory_tier_period, stalls, rates, recovering)
    last, last_lost = _to_drives(
        rest * drive_multiple, memory_tier_period, stalls, rates, recovering
    )
    third = whole * second + where(rest > 0, last, 0.0) + storage_tier_stall_time
    lower = recoveries(rate1, memory_tier_restart_time, rate3) + middle
    lost = whole * lost + where(rest > 0, last_lost, 0.0)
    lost = lost + interruption_delay(storage_tier_stall_time, rate, rate3, lower)
    lost = lost + interruption_delay(third + lost, rate3, 0.0, highest)
    return where(third > 0, lost / where(third > 0, third, 1.0), free)


@alternative("unsafe_time", checkpoint_mode="tiered")
@same_as(equivalent_lost_work)
def tiered_unsafe_time(
    tiered_delay, checkpoint_interval, checkpoint_stall_time, recovery_time, cluster_mtbf
):
    """Mean work lost at a failure because the latest snapshot was not yet safe.

    recovery time of the same cost as the work lost beyond the last memory checkpoint, by falling
    back to an older one on a higher tier or failing during a flush

    Returns: [s] time lost beyond the rework since the last checkpoint
    Range: same as tiered_delay; for rare failures, mean rollback beyond half an interval + flushes
    Source: Daly 2006, FGCS 22(3), eq. 13, solved for the recovery time
    """


@alternative("memory_tier_bytes", memory_tier="host")
def host_memory_tier_bytes(checkpoint_size, nodes):
    """2 x size / nodes: one safe checkpoint and one being written

    Source: Wang et al. 2023, Gemini, SOSP
    """
    return 2 * checkpoint_size / nodes


@alternative("memory_tier_bytes", memory_tier="peer")
def peer_memory_tier_bytes(checkpoint_size, nodes):
    """Host memory that the memory tier takes on each node.

    4 x size / nodes: the node's own and a peer's, each one safe checkpoint and one being written

    Returns: [B] memory of one node
    Source: Wang et al. 2023, Gemini, SOSP (two replicas)
    """
    return 4 * checkpoint_size / nodes


@alternative("drive_tier_bytes", corruption_detection="at_once")
def drive_tier_bytes(checkpoint_size, nodes):
    """Drive space that the drive tier takes on each node.

    2 x size / nodes: one safe checkpoint and one being written

    Returns: [B] drives of one node
    Source: Moody et al. 2010, SC10
    """
    return 2 * checkpoint_size / nodes


@alternative("drive_tier_bytes", corruption_detection="late")
def late_drive_tier_bytes(checkpoint_size, nodes, corruption_latency, drive_write_interval):
    """(2 + D / tau_2) x size / nodes: those written since a corruption, too"""
    some = drive_write_interval > 0
    since = where(some, corruption_latency / where(some, drive_write_interval, 1.0), 0.0)
    return (2 + since) * checkpoint_size / nodes


def _intervals(stalls, flushes, shares, mtbf):
    """Best intervals of three tiers, each at least the lower one's (pooled adjacent violators)."""
    (d1, d2, d3), (f1, f2, f3) = stalls, flushes
    p1, p2, p3 = shares[0] / mtbf, shares[1] / mtbf, shares[2] / mtbf
    two, three = np.maximum(f1, f2), np.maximum(f1, np.maximum(f2, f3))
    all_of_them = pooled_interval(d1 + d2 + d3, p1 + p2 + p3, three)
    lower = pooled_interval(d1 + d2, p1 + p2, two)
    first = np.minimum(pooled_interval(d1, p1, f1), np.minimum(lower, all_of_them))
    upper = pooled_interval(d2 + d3, p2 + p3, np.maximum(f2, f3))
    second = np.maximum(first, np.minimum(pooled_interval(d2, p2, f2), upper))
    return first, second, np.maximum(second, pooled_interval(d3, p3, f3))


def _ratio(shorter, longer):
    """Ratio of intervals, at least 1; 1 if one is infinite or 0."""
    both = (shorter > 0) & (longer < np.inf)
    return np.maximum(1.0, where(both, longer, 1.0) / where(both, shorter, 1.0))


def _multiple(shorter, longer):
    """That ratio rounded to a whole number."""
    return np.floor(_ratio(shorter, longer) + 0.5)


def _dividing(best, longest):
    """The interval nearest to the best that divides the one of the tier above."""
    some = longest < np.inf
    return where(some, where(some, longest, 0.0) / _multiple(best, longest), best)


def _parts(multiple):
    """Whole part and rest of a multiple; no rest within its rounding."""
    whole = np.floor(multiple * (1 + 1e-9))
    rest = multiple - whole
    return whole, where(rest > 1e-9 * multiple, rest, 0.0)


def _writes(multiple):
    """Checkpoints of a tier in so many of its intervals."""
    whole, rest = _parts(multiple)
    return whole + np.ceil(rest)


def _to_drives(intervals, period, stalls, rates, recovering):
    """Time and delay of so many intervals of memory, and of the checkpoint on drives after them."""
    (memory_stall, drive_stall), (rate, above, graver), (lower, middle) = stalls, rates, recovering
    whole, rest = _parts(intervals)
    useful = period - memory_stall
    last = interruption_delay(rest * useful + memory_stall, rate, above, lower)
    lost = whole * interruption_delay(period, rate, above, lower) + where(rest > 0, last, 0.0)
    lost = lost + interruption_delay(drive_stall, rate, above, lower)
    time = intervals * useful + (whole + np.ceil(rest)) * memory_stall + drive_stall
    return time, lost + interruption_delay(time + lost, above, graver, middle)
