"""Goodput: useful share of the wall time, and a breakdown of the losses."""

import numpy as np

from ...alternatives import alternative, family, row
from ...laws.checkpoint import (
    effective_training_time_ratio,
    segment_efficiency,
    segment_rework,
    stall_share,
    useful_share,
)
from ...laws.checkpoint import expected_slowdown as slowdown
from ...laws.checkpoint import first_order_waste as waste
from ...ops import where


def checkpoints_written(working_time, goodput, checkpoint_interval):
    """Checkpoints written over a duration.

    T goodput / tau: one per interval of useful work

    Returns: [1] number of checkpoints
    Range: checkpoints rewritten after lost work are not counted
    Source: by definition of the segment (Daly 2006, section 2)
    """
    return working_time * goodput / checkpoint_interval


def tier_rework_time(
    memory_tier_share,
    drive_tier_share,
    storage_tier_share,
    checkpoint_interval,
    drive_write_interval,
    storage_write_interval,
    memory_tier_flush_time,
    drive_tier_flush_time,
    storage_tier_flush_time,
):
    """Work lost per failure, mean over tiers, to first order.

    sum of p_l (tau_l / 2 + F_l)

    Returns: [s] rework
    Range: checkpoint_mode = tiered; rare failures
    Source: Benoit et al. 2017, IEEE TC 66(7)
    """
    memory = _lost(memory_tier_share, checkpoint_interval, memory_tier_flush_time)
    drive = _lost(drive_tier_share, drive_write_interval, drive_tier_flush_time)
    return (
        memory + drive + _lost(storage_tier_share, storage_write_interval, storage_tier_flush_time)
    )


def memory_tier_rework(
    rework_overhead,
    tier_rework_time,
    memory_tier_share,
    checkpoint_interval,
    memory_tier_flush_time,
):
    """Share of the wall time spent on rework after failures served by memory.

    rework_overhead x p (tau / 2 + F) / sum of p_l (tau_l / 2 + F_l) over tiers

    Returns: [1] share of the wall time
    Range: checkpoint_mode = tiered; first-order split between tiers; the sum is rework_overhead
    Source: Benoit et al. 2017, IEEE TC 66(7)
    """
    tier_rework = _lost(memory_tier_share, checkpoint_interval, memory_tier_flush_time)
    return _part(rework_overhead, tier_rework, tier_rework_time)


for _tier, _words in (("drive", "by local drives"), ("storage", "by storage")):
    family(
        {
            "memory_tier_rework": f"{_tier}_tier_rework",
            "memory_tier_share": f"{_tier}_tier_share",
            "checkpoint_interval": f"{_tier}_write_interval",
            "memory_tier_flush_time": f"{_tier}_tier_flush_time",
            "by memory": _words,
        },
        memory_tier_rework,
    )


def _lost(share, interval, flush):
    """Work lost to the failures of one tier, per failure of any tier, to first order."""
    return share * (where(interval < np.inf, interval, 0.0) / 2 + flush)


def _part(whole, part, total):
    """Part of a whole in the proportion part / total; 0 if the total is 0."""
    return where(total > 0, whole * part / where(total > 0, total, 1.0), 0.0)


def in_process_recovery_overhead(
    recovery_overhead,
    cluster_uptime,
    recovering_share,
    in_process_share,
    in_process_recovery_time,
    cluster_mtbf,
):
    """Share of the wall time spent on in-process restarts, waits for repairs excluded.

    (recovery_overhead - (1 - u)) x p (1 - e^(-R / M)) / sum of the same over all kinds

    Returns: [1] share of the wall time
    Range: recovery_model = kinds; includes the rework that a recovery_budget contains
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart; the shares add up to one
    """
    some = recovering_share > 0
    recovering = recovery_overhead - (1 - cluster_uptime)
    in_process = recovering * -in_process_share * np.expm1(-in_process_recovery_time / cluster_mtbf)
    return where(some, in_process / where(some, recovering_share, 1.0), 0.0)


for _kind, _words in (
    ("in_job", "in-job restarts"),
    ("node_swap", "node swaps"),
    ("requeue", "requeues"),
):
    family(
        {
            "in_process_recovery_overhead": f"{_kind}_recovery_overhead",
            "in_process_share": f"{_kind}_share",
            "in_process_recovery_time": f"{_kind}_recovery_time",
            "in-process restarts": _words,
        },
        in_process_recovery_overhead,
    )


def restart_overhead(restart_time, cluster_mtbf, cluster_uptime):
    """Share of the wall time from a failure to the end of its cost, rework excluded.

    1 - u + u (1 - exp(-R' / M)), R' = R + U: waits for repairs, in which no failures occur,
    recovery, and work lost beyond the last checkpoint

    Returns: [1] share of the wall time
    Range: below 0 where restart_time is, which several tiers of checkpoints allow
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart; the shares add up to one
    """
    return (1 - cluster_uptime) - cluster_uptime * np.expm1(-restart_time / cluster_mtbf)


@alternative("recovery_overhead", goodput_model="exact")
def exact_recovery_overhead(counted_recovery_time, cluster_mtbf, cluster_uptime):
    """Share of the wall time spent recovering from failures, waits for repairs included.

    1 - u + u (1 - exp(-R / M)): recovery takes M (1 - exp(-R / M)) of a time M between failures

    Returns: [1] share of the wall time
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart; the shares add up to one
    """
    return (1 - cluster_uptime) - cluster_uptime * np.expm1(-counted_recovery_time / cluster_mtbf)


@alternative("recovery_overhead", goodput_model="first_order")
def first_order_recovery_overhead(recovery_time, cluster_mtbf, cluster_uptime):
    """1 - u + u R / M

    Source: Young 1974, CACM 17(9), with a recovery term
    """
    return (1 - cluster_uptime) + cluster_uptime * recovery_time / cluster_mtbf


@alternative("recovery_overhead", goodput_model="additive")
def additive_recovery_overhead(recovery_budget, cluster_uptime):
    """1 - u + u budget: the budget, which includes rework, applies while the cluster is whole

    Source: Fleet Foundations table 8
    """
    return (1 - cluster_uptime) + cluster_uptime * recovery_budget


@alternative("rework_overhead", goodput_model="exact")
def exact_rework_overhead(
    checkpoint_interval, checkpoint_stall_time, cluster_mtbf, restart_overhead, recovery_overhead
):
    """Share of the wall time spent on rework: repeating work that failures destroyed.

    u [e^(-R'/M) (1 - z / (e^z - 1)) + e^(-R/M) - e^(-R'/M)], z = (tau + d) / M

    Returns: [1] share of the wall time
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart; the shares add up to one
    """
    lost = segment_rework(checkpoint_interval, checkpoint_stall_time, cluster_mtbf)
    return (1 - restart_overhead) * lost + (restart_overhead - recovery_overhead)


@alternative("rework_overhead", goodput_model="first_order")
def first_order_rework_overhead(checkpoint_interval, lost_work_time, cluster_mtbf, cluster_uptime):
    """u (tau / 2 + U) / M; 0 without failures

    Source: Young 1974, CACM 17(9)
    """
    fails = cluster_mtbf < np.inf
    lost = where(fails, checkpoint_interval, 0.0) / 2 + lost_work_time
    return where(fails, cluster_uptime * lost / where(fails, cluster_mtbf, 1.0), 0.0)


row(
    "rework_overhead",
    0.0,
    "the budget of recovery holds it",
    source="Fleet Foundations table 8",
    goodput_model="additive",
)


@alternative("checkpoint_overhead", goodput_model="exact")
def exact_checkpoint_overhead(
    checkpoint_interval, checkpoint_stall_time, recovery_overhead, rework_overhead
):
    """Share of the wall time lost to checkpoint stalls.

    u e^(-R'/M) z / (e^z - 1) d / (tau + d), z = (tau + d) / M, R' = R + U

    Returns: [1] share of the wall time
    Source: Daly 2006, FGCS 22(3), eq. 13, taken apart; the shares add up to one
    """
    left = 1 - recovery_overhead - rework_overhead
    return left * stall_share(checkpoint_interval, checkpoint_stall_time)


@alternative("checkpoint_overhead", goodput_model="first_order")
def first_order_checkpoint_overhead(checkpoint_interval, checkpoint_stall_time, cluster_uptime):
    """u d / tau; 0 for a free checkpoint

    Source: Young 1974, CACM 17(9)
    """
    costs = checkpoint_stall_time > 0
    stalled = checkpoint_stall_time / where(costs, checkpoint_interval, 1.0)
    return where(costs, cluster_uptime * stalled, 0.0)


@alternative("checkpoint_overhead", goodput_model="additive")
def additive_checkpoint_overhead(checkpoint_budget, cluster_uptime):
    """u budget: the budget applies while the cluster is whole

    Source: Fleet Foundations table 8
    """
    return cluster_uptime * checkpoint_budget


@alternative("goodput", goodput_model="exact")
def exact_goodput(
    checkpoint_interval, checkpoint_stall_time, restart_time, cluster_mtbf, cluster_uptime
):
    """Useful share of the wall time.

    u tau / (M e^(R'/M) (e^((tau + d)/M) - 1))

    u = cluster_uptime, tau = checkpoint_interval, d = checkpoint_stall_time, R' = restart_time,
    M = cluster_mtbf

    Returns: [1] useful time over wall time
    Range: failures are a Poisson process, as they are for many components with any lifetimes
        (Drenick 1960): with Weibull lifetimes of shape 0.7, goodput of 0.90 is 0.004 higher for one
        component, 0.001 for 8, 0.0003 from 32 on (0.76: 0.024, 0.007, 0.002). Not valid for an
        all-new fleet, which fails 2.4 times as often in the first tenth of a mean lifetime and 1.4
        times in the first lifetime; give the MTBF at its age
    Source: Daly 2006, FGCS 22(3), eq. 13; Drenick 1960, J. SIAM 8(4)
    """
    efficiency = segment_efficiency(checkpoint_interval, checkpoint_stall_time, cluster_mtbf)
    useful = useful_share(checkpoint_interval, checkpoint_stall_time)
    return cluster_uptime * np.exp(-restart_time / cluster_mtbf) * efficiency * useful


@alternative("goodput", goodput_model="first_order")
def first_order_goodput(checkpoint_overhead, rework_overhead, recovery_overhead):
    """Useful share of the wall time; undefined where first-order losses reach 1.

    1 - checkpoints - rework - recovery = u (1 - d / tau - (tau / 2 + U + R) / M)

    Returns: [1] useful time over wall time; NaN if nothing is left to first order
    Range: stall, interval and recovery well below the MTBF: at losses of 0.1 it is 0.004 too low,
        at 0.2 0.02, at 0.4 0.08 to 0.1; NaN where first-order losses reach 1, though the exact
        model has a goodput. Same failure assumptions as the exact model
    Source: Young 1974, CACM 17(9), with a recovery term
    """
    left = 1 - (checkpoint_overhead + rework_overhead + recovery_overhead)
    return where(left > 1e-12, left, np.nan)


@alternative("goodput", goodput_model="additive")
def additive_goodput(
    checkpoint_overhead,
    rework_overhead,
    recovery_overhead,
    bubble_budget,
    maintenance_budget,
    cluster_uptime,
):
    """Useful share of the wall time; undefined where budgets leave nothing.

    1 - checkpoints - rework - recovery - u (bubbles + maintenance)

    The bubble is counted again in step_time, and maintenance in availability where a
    maintenance_fraction is given: set either budget to 0 to count it once.

    Returns: [1] useful time over wall time; NaN if the budgets leave nothing
    Range: budgets include the cost of late-detected corruption; waits of a closed pool that
        detection latency hides are counted, so a longer latency may seem to gain 1e-4
    Source: Fleet Foundations table 8
    Example:
        >>> round(float(additive_goodput(0.03, 0.0, 0.10, 0.05, 0.05, 1.0)), 2)
        0.77
    """
    lost = checkpoint_overhead + rework_overhead + recovery_overhead
    left = 1 - (lost + cluster_uptime * (bubble_budget + maintenance_budget))
    return where(left > 1e-12, left, np.nan)  # beyond the rounding of budgets that add up to 1


def ettr(checkpoint_interval, checkpoint_stall_time, restart_time, cluster_mtbf, cluster_uptime):
    """Effective training time ratio (ETTR): expected useful share of the wall time.

    u (1 - (u0 + tau/2) / M) / (1 + d / tau), at least 0

    Returns: [1] useful time over wall time, queueing excluded
    Range: within 0.03 of the exact model up to losses of 0.5; 0 where restart time and half the
        interval exceed the MTBF. Same failure assumptions as goodput
    Source: Kokolis et al. 2025, HPCA, arXiv:2410.21680 (expected ETTR of long jobs)
    """
    return cluster_uptime * effective_training_time_ratio(
        checkpoint_interval, checkpoint_stall_time, restart_time, cluster_mtbf
    )


def expected_slowdown(
    checkpoint_interval, checkpoint_stall_time, restart_time, cluster_mtbf, cluster_uptime
):
    """Expected wall time over useful time, with checkpoints, rework and recovery.

    M e^(R'/M) (e^((tau + d)/M) - 1) / (u tau): 1 / goodput

    Returns: [1] wall time over useful time
    Range: same as goodput with goodput_model = exact, for any goodput_model
    Source: Daly 2006, FGCS 22(3), eq. 13
    """
    whole = slowdown(checkpoint_interval, checkpoint_stall_time, restart_time, cluster_mtbf)
    return whole / cluster_uptime


def first_order_waste(
    checkpoint_interval, checkpoint_stall_time, restart_time, cluster_mtbf, cluster_uptime
):
    """Share of the wall time lost to checkpoints and failures, to first order.

    1 - u + u [d / tau + tau / (2 M) + R' / M]

    Returns: [1] share lost
    Range: losses well below 1; above 1, nothing is left to first order
    Source: Young 1974, CACM 17(9), with a recovery term
    """
    lost = waste(checkpoint_interval, checkpoint_stall_time, restart_time, cluster_mtbf)
    return (1 - cluster_uptime) + cluster_uptime * lost
