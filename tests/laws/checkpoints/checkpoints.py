"""Checkpoint intervals in use, restores, and budgets of lost time."""

import math

from fleetcube.kernels.physics.graph import PHYSICS

from ... import formulas
from ...evaluated import computed
from ..check import Pairs, check


@check(
    "young_checkpoint_interval daly_checkpoint_interval exact_checkpoint_interval",
    by="simulator",
    source="checkpoints begun when the interval is over and the one before is safe",
)
def intervals_in_use() -> Pairs:
    """flushes shorter and longer than the interval wanted"""
    for wanted, flush in ((600.0, 60.0), (600.0, 900.0), (60.0, 60.0)):
        clock, begun, safe = 0.0, [], 0.0
        for _ in range(10):
            clock = max(clock + wanted, safe)
            begun.append(clock)
            safe = clock + flush
        for law in ("young", "daly", "exact"):
            used = getattr(formulas, f"{law}_checkpoint_interval")(wanted, flush)
            yield used, begun[-1] - begun[-2]


@check(
    "young_interval daly_interval exact_interval checkpoints_written",
    by="simulator",
    source="a day of work, saved at each interval of some; the longest of those that lose least",
)
def nothing_fails() -> Pairs:
    """free checkpoints and some of a minute, in a job that never fails, at intervals up to none"""
    for write in (0.0, 60.0):
        walls = {}
        for hours in (1, 6, 12, math.inf):
            saves = sum(hour % hours == 0 for hour in range(1, 25))
            walls[24 * 3600.0 + saves * write, -hours] = saves
        *_, longest = min(walls)
        point = {"checkpoint_stall_time": write, "cluster_mtbf": math.inf, "n_gpus": 8}
        point |= {"working_time": 86400.0, "recovery_time": 600.0}
        for policy in ("young", "daly", "exact"):
            tau, saves = computed(
                point | {"checkpoint_policy": policy}, "checkpoint_interval", "checkpoints_written"
            )
            yield tau, -3600 * longest
            yield saves, walls[min(walls)]


@check(
    "per_node_read_bandwidth storage_restore_time",
    by="simulator",
    source="nodes added until the storage is full, a checkpoint read second by second",
)
def reads() -> Pairs:
    """1 to 20 nodes of 2 GB/s on storage of 15 GB/s, 300 GB at 3 GB/s"""
    for nodes in (1, 7, 20):
        rate = 0.0
        for _ in range(nodes):
            rate = rate + 2e9 if rate + 2e9 < 15e9 else 15e9
        yield formulas.per_node_read_bandwidth(nodes, 2e9, 15e9), rate
    left, seconds = 300e9, 0
    while left > 0:
        left, seconds = left - 3e9, seconds + 1
    yield formulas.storage_restore_time(300e9, 3e9), seconds


@check("recovery_time", by="simulator", source="the phases of a recovery, one after the other")
def phases() -> Pairs:
    """phases of 1, 2, 4, ... s, so that each counts once"""
    clock = 0.0
    for phase in (1.0, 2.0, 4.0, 8.0, 16.0):
        clock += phase
    yield formulas.recovery_time(1.0, 2.0, 4.0, 8.0, 16.0), clock


@check(
    "additive_goodput additive_checkpoint_overhead additive_recovery_overhead "
    "one_site_availability",
    by="table",
    source="Fleet Foundations table 8: 77 % of the time is useful; a ledger of 1,000 h",
)
def budgets() -> Pairs:
    """the printed budget, also in a cluster that is whole half of the time, half of it there"""
    point = {"goodput_model": "additive", "n_gpus": 8, "recovery_budget": 0.10}
    point |= {"checkpoint_budget": 0.03, "bubble_budget": 0.05, "maintenance_budget": 0.05}
    yield computed(point, "goodput")[0], 0.77
    yield computed(point | {"recovery_budget": 0.9}, "goodput")[0], math.nan
    for whole in (1000, 500):
        spent = {"waits": 1000.0 - whole, "checkpoints": 0.0, "recovery": 0.0}
        for _ in range(whole):
            spent["checkpoints"] += 0.03
            spent["recovery"] += 0.10
        names = ("checkpoint_overhead", "recovery_overhead")
        stalled, recovering = computed(point | {"cluster_uptime": whole / 1000}, *names)
        yield stalled, spent["checkpoints"] / 1000
        yield recovering, (spent["waits"] + spent["recovery"]) / 1000
    replicas = 0
    for hour in range(1000):
        for replica in range(16):
            replicas += hour >= 50 and replica < 12  # 50 h of maintenance, 4 replicas stopped
    yield formulas.one_site_availability(0.05, 12 / 16), replicas / 16_000


@check(
    "additive_goodput_reason first_order_goodput_reason shrinking_progress_reason "
    "sync_infeasible_reason",
    by="derivation",
    source="hours of 1,024 struck out one loss after the other: is one left, and who works in it?",
)
def hours_left() -> Pairs:
    """losses of 0 to all of the time, none to all replicas stopped, a job that does not fit"""
    codes = {
        reason: code for code, reason in PHYSICS.quantities["infeasible_reason"].doc.flags.items()
    }
    stops, fits_not = codes["makes_no_progress"], codes["out_of_memory"]
    for losses in (
        (0, 0, 0, 0, 0),
        (32, 128, 16, 64, 64),
        (256, 256, 256, 255, 0),
        (1024, 0, 0, 0, 0),
        (256, 256, 256, 128, 128),
        (512, 512, 128, 0, 0),
        (0, 0, 0, 512, 513),
    ):
        left = list(range(1024))
        for k, loss in enumerate(losses):
            if k == 3:
                first = stops * (not left)
            left = left[loss:]
        shares = [loss / 1024 for loss in losses]
        additive = formulas.additive_goodput_reason(*shares, 1.0)
        yield additive, stops * (not left)
        yield formulas.first_order_goodput_reason(*shares[:3]), first
        for replicas in (0, 3):
            working = left if replicas else []
            ours = formulas.shrinking_progress_reason(additive, replicas / 4)
            yield ours, stops * (not working)
            yield formulas.sync_infeasible_reason(0.0, ours), stops * (not working)
            yield formulas.sync_infeasible_reason(fits_not, ours), fits_not
