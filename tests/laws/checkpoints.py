"""Checkpoints: intervals in use, restores, and budgets of lost time."""

import math

from fleetcube.kernels.quantities import checkpoint, goodput, recovery

from .check import Pairs, check


@check(
    "young_checkpoint_interval",
    "daly_checkpoint_interval",
    "exact_checkpoint_interval",
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
            used = getattr(checkpoint, f"{law}_checkpoint_interval")(wanted, flush)
            yield used, begun[-1] - begun[-2]


@check(
    "per_node_read_bandwidth",
    "storage_checkpoint_restore_time",
    by="simulator",
    source="nodes added until the storage is full, a checkpoint read second by second",
)
def reads() -> Pairs:
    """1 to 20 nodes of 2 GB/s on storage of 15 GB/s, 300 GB at 3 GB/s"""
    for nodes in (1, 7, 20):
        rate = 0.0
        for _ in range(nodes):
            rate = rate + 2e9 if rate + 2e9 < 15e9 else 15e9
        yield checkpoint.per_node_read_bandwidth(nodes, 2e9, 15e9), rate
    left, seconds = 300e9, 0
    while left > 0:
        left, seconds = left - 3e9, seconds + 1
    yield recovery.storage_checkpoint_restore_time(300e9, 3e9), seconds


@check(
    "recovery_time",
    by="simulator",
    source="the phases of a recovery, one after the other",
)
def phases() -> Pairs:
    """phases of 1, 2, 4, ... s, so that each counts once"""
    clock = 0.0
    for phase in (1.0, 2.0, 4.0, 8.0, 16.0):
        clock += phase
    yield recovery.recovery_time(1.0, 2.0, 4.0, 8.0, 16.0), clock


@check(
    "additive_goodput", by="table", source="Fleet Foundations table 8: 77 % of the time is useful"
)
def budgets() -> Pairs:
    """the printed budget; losses that leave nothing are undefined"""
    yield goodput.additive_goodput(0.03, 0.0, 0.10, 0.05, 0.05), 0.77
    yield goodput.additive_goodput(0.5, 0.2, 0.2, 0.1, 0.1), math.nan
