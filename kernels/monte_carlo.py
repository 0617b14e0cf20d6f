"""Monte Carlo of a job that fails, loses work, recovers and resumes.

It shares no formula with `checkpoint.py`, which it checks, and covers what closed forms cannot:
non-exponential times between failures, and spares that run out.

The job computes `work` seconds; after every `interval` of them, and at its end unless `unsaved`, a
checkpoint stops it for `stall`. Failures are a renewal process: the time between failures is
Weibull with mean `mtbf`, whatever happens in between, so a failure may strike during recovery,
which then restarts (Daly 2006). A failure loses the work since the last safe checkpoint. A
checkpoint is safe `flush` after its stall (flushes may overlap); its first read fails with
probability `corruption`, and once read it stays readable.

A failure is of one of four kinds, drawn by their shares: in-process and in-job restarts, which keep
the node; a requeue, which loses it without waiting for another; else a node swap, with `recovery`.
A share `silent` of the failures is corruption found `latency` later: until then work is lost and
failures are repaired as usual; checkpoints safe when it struck are kept, but not in memory.

With tiers (`drive_every` at least 1) each `drive_every`-th checkpoint is also written to drives,
and each `storage_every`-th of those to storage; between whole multiples the last interval of a
tier is shorter. Memory, drives or storage survive a failure, drawn
by their shares; it loses the work since the last checkpoint that is safe there or above. A failure
that lower tiers survive ends a stall without loss; a failure in a recovery restarts it, from the
higher tier of the two; an interrupted copy is repeated once training resumes, or goes on where
copies are kept, unless the failure is one that only its tier or a higher one survives.

With an age of the hardware, the failures' clock runs at the failure rate of that age; exponential
failures are drawn at the highest rate in a window and thinned (Lewis & Shedler 1979).

A share of the failures that cost a node takes a group of nodes, which needs as many spares. A
failed node is away for `repair`, then whole; with a `repair_spread`, for a log-normal time of that
mean. One of the `spares` is free while fewer nodes are away
(Palm 1938; Feeney & Sherbrooke 1966); if none is free, recovery takes `provision` longer. With
`pool` CLOSED or IDLE_SAFE recovery begins only when `nodes` nodes are whole; with CLOSED, spares
and waiting nodes fail at random at the same rate as the job's. `crews` nodes are repaired at a
time, each for an exponential time, or the log-normal one; the others wait for a crew, first come
first served.

With `replica_nodes` the job is elastic (`_elastic_trial`): it waits for no node, but goes on with
the replicas that are whole, until repaired nodes are taken back.

Self-contained, as numba's cache checks this file only.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numba
import numpy as np

from .engines.job import Array, pool

PARAMETERS = (
    "mtbf",
    "shape",
    "interval",
    "stall",
    "flush",
    "work",
    "recovery",
    "provision",
    "spares",
    "repair",
    "corruption",
    "fails_in_recovery",  # 1, or 0: the time to the next failure starts after recovery
    "pool",  # OPEN, CLOSED or IDLE_SAFE
    "nodes",
    "in_process",  # share of the failures
    "in_process_recovery",
    "in_job",
    "in_job_recovery",
    "requeue",
    "requeue_recovery",
    "silent",
    "latency",
    "memory_share",  # of the failures
    "drive_share",
    "memory_stall",
    "drive_stall",
    "storage_stall",
    "drive_flush",
    "storage_flush",
    "memory_restore",  # added to recovery; may be negative
    "drive_restore",
    "storage_restore",
    "drive_every",  # 0: one tier, with `stall` and `flush`
    "storage_every",
    "steady",  # share of the failures, at mean rates, that age does not affect
    "ageing",  # that of the others, at the rate of mature hardware; 0: no ageing
    "age",  # at the start, in seconds
    "burn_in",  # excess failure rate of new hardware
    "burn_in_time",
    "wear_age",
    "wear_shape",
    "crews",  # nodes repaired at a time; 0: all that failed
    "group_share",  # of the failures that cost a node: these cost `group` nodes
    "group",
    "copies_kept",  # 1: copies go on through failures that lower tiers survive
    "unsaved",  # 1: no checkpoint at the end of the job
    "replica_nodes",  # at least 1; 0: the job is not elastic
    "packing",  # 1: nodes of broken replicas form others
    "growth",  # FREE, STOP, NEXT_FAILURE or RESTART: how repaired nodes are taken back
    "growth_stop",
    "rounds",  # micro-batches of a step, of each replica of the whole job
    "nodeless",  # share of the failures that strike no node, but all of the job
    "repair_spread",  # standard deviation of the logarithm of repair times; 0: all take `repair`
)
JOB = np.dtype([(name, np.float64) for name in PARAMETERS])  # compiled code reads job.mtbf, ...
# First parameters of kinds, tiers, ...
KINDS, TIERS, AGES, CREWS, GROUPS, ENDS, SPREAD = 14, 22, 34, 41, 42, 45, 52
_PARTS = (
    KINDS,
    TIERS,
    CREWS,
    GROUPS,
    ENDS,
    SPREAD,
    len(PARAMETERS),
)  # draws differ if one is not all 0
OPEN, CLOSED, IDLE_SAFE = 0.0, 1.0, 2.0
FREE, STOP, NEXT_FAILURE, RESTART = 0.0, 1.0, 2.0, 3.0
_TRAINS, _SAVES, _RECOVERS, _GROWS, _ENDED = range(5)  # stages of an elastic job
IN_PROCESS, IN_JOB, REQUEUE, NODE_SWAP = range(4)  # kinds of failures; from REQUEUE a node is lost
MEMORY, DRIVES, STORAGE = range(3)  # tiers
REWORK, RECOVERY, FAILURES, SHORTAGES, WAITING, SHRUNK = range(6)
LOSSES = ("rework", "recovery", "failures", "shortages", "waiting", "shrunk")  # of one trial
# With `detailed`, beyond those: failures and recovery of each kind, in the order of `_kind`,
# restarts from each tier and their rework
DETAILS = (
    *(f"{kind}_failures" for kind in ("in_process", "in_job", "requeue", "node_swap")),
    *(f"{kind}_recovery_overhead" for kind in ("in_process", "in_job", "requeue", "node_swap")),
    *(f"{tier}_tier_restarts" for tier in ("memory", "drive", "storage")),
    *(f"{tier}_tier_rework" for tier in ("memory", "drive", "storage")),
)
_COUNTED = tuple(name.endswith(("failures", "restarts")) for name in DETAILS)
# What changes in a trial, all 0 at its start: its losses, in the order of LOSSES and DETAILS, ...
_LOST: Any = (
    *((name, np.float64) for name in LOSSES),
    *(("kind_failures", np.float64, 4), ("kind_recovery", np.float64, 4)),
    *(("tier_restarts", np.float64, 3), ("tier_rework", np.float64, 3)),
)
_TIMES = (
    *("now", "log_scale", "safe"),  # work, or its end with stalls, that cannot be lost any more
    "updated",  # when nodes away were last brought up to date
    *("progress", "busy"),  # of an elastic job: work done, and time since the last safe checkpoint
    *("flushing", "flushing_busy", "flush_end"),  # both at the checkpoint on its way, and its end
    *("stage_end", "repair_end", "failure"),  # next events
)
_COUNTS = (
    *("detailed", "tier"),  # 1 for losses of DETAILS; the tier that serves a failure
    *("lost", "away"),  # nodes so far; and now, if crews repair them
    *("stage", "kind"),  # of an elastic job: _TRAINS, ..., and kind of the last failure
    *("checkpoints", "safe_checkpoints", "flushing_checkpoints"),
    *("filled", "sent", "whole"),  # seats filled again, nodes sent to repair and back from it
    *("free", "queued", "broken", "repairing"),  # nodes, and replicas broken
)
TRIAL = np.dtype(
    [*_LOST, *((name, np.float64) for name in _TIMES), *((name, np.int64) for name in _COUNTS)]
)
# Ends of the newest checkpoints: in a tier and safe, and of the copy to it and when that is safe
TIER = np.dtype([(name, np.float64) for name in ("safe", "copy_end", "copy_safe")])
WINDOW = np.dtype([(name, np.float64) for name in ("start", "end", "least_rate", "most_rate")])
_MEANS = (
    *("goodput", "checkpoint_overhead", "rework_overhead", "recovery_overhead", "failures"),
    *("spare_shortage", "whole_cluster_probability", "wall_time"),
)
STATISTICS = (
    *(f"{name}{end}" for name in _MEANS for end in ("", "_error")),
    *("wall_time_p95", "elastic_capacity", "elastic_capacity_error"),
)
MOST_FAILURES = 1_000_000  # of one trial; a point that exceeds it in a trial is given up
MOST_EVENTS = 10 * MOST_FAILURES  # of an elastic job, its checkpoints and repairs included
DONE, TOO_MANY_FAILURES, UNDEFINED = 0, 1, 2
_TRIALS_AT_ONCE = 1 << 20  # kept in memory: 32 MB

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _compiled(function: Any, inlined: bool = False, allocates: bool = False) -> Any:
    """Compile a function; unless it allocates arrays, it counts no references to them.

    Counting at each call of a helper is as slow as a draw: an elastic job would take three times
    as long.
    """
    options: Any = {"nogil": True, "error_model": "numpy", "forceinline": inlined}
    options["_nrt"] = allocates
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to cache in
        return numba.njit(**options)(function)


def _inlined(function: Any) -> Any:
    return _compiled(function, inlined=True)


def _allocating(function: Any) -> Any:
    return _compiled(function, allocates=True)


# Random numbers


@_compiled
def mix(z: Any) -> Any:
    """Scramble 64 bits: the output of SplitMix64 (Steele et al. 2014, OOPSLA)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@_compiled
def seed_stream(state: Any, key: Any) -> None:
    """Seed with four words of SplitMix64, as the authors of xoshiro advise."""
    for k in range(4):
        key = key + _GOLDEN
        state[k] = mix(key)


@_compiled
def next_word(state: Any) -> Any:
    """64 random bits: xoshiro256++ (Blackman & Vigna 2021, ACM TOMS 47(4))."""
    total = state[0] + state[3]
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + state[0]
    shifted = state[1] << np.uint64(17)
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << np.uint64(45)) | (state[3] >> np.uint64(19))
    return word


@_compiled
def uniform(state: Any) -> Any:
    """A number between 0 and 1, both excluded: its logarithm is finite."""
    return (float(next_word(state) >> np.uint64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@_compiled
def _time_to_failure(state: Any, job: Any, log_scale: Any, now: Any, window: Any) -> Any:
    """Weibull: the scale times the root of order `shape` of an exponential."""
    aged = window is not None and job.ageing > 0 and job.mtbf < np.inf
    if window is not None and aged and job.shape == 1.0:
        return _thinned(state, job, now, window)
    exponential = -math.log(uniform(state))
    if job.shape == 1.0:
        return job.mtbf * exponential
    life = math.exp(log_scale + math.log(exponential) / job.shape)
    if window is not None and aged:
        return _aged(life, now, job)
    return life


@_inlined
def _pace(now: Any, job: Any) -> Any:
    """Burn-in and wear at a time, each relative to the failure rate of mature hardware."""
    age = job.age + now
    early = job.burn_in * math.exp(-age / job.burn_in_time) if job.burn_in > 0 else 0.0
    worn = (age / job.wear_age) ** (job.wear_shape - 1) if job.wear_age < np.inf else 0.0
    return early, worn


@_inlined
def _look_ahead(now: Any, job: Any, window: Any) -> None:
    """Set a window from now on, and bounds of the rate in it: burn-in falls, and wear rises."""
    early, worn = _pace(now, job)
    span = 16 * job.mtbf / (job.steady + job.ageing * (1 + early + worn))
    for _ in range(100):
        later, more = _pace(now + span, job)
        least = job.steady + job.ageing * (1 + later + worn)
        most = job.steady + job.ageing * (1 + early + more)
        if most <= 1.2 * least or span * most <= job.mtbf:
            break
        span *= 0.5
    window.start, window.end = now, now + span
    window.least_rate, window.most_rate = least, most


@_inlined
def _thinned(state: Any, job: Any, now: Any, window: Any) -> Any:
    """Time to the next failure at a varying rate, by thinning failures at its upper bound."""
    clock, strikes = now, False
    while not strikes:
        exponential, draw = -math.log(uniform(state)), uniform(state)
        if not window.start <= clock < window.end:
            _look_ahead(clock, job, window)
        clock += exponential * job.mtbf / window.most_rate
        if clock >= window.end:
            clock = window.end
            strikes = clock <= window.start  # the window is below the clock's resolution
        elif draw * window.most_rate < window.least_rate:
            strikes = True
        else:
            early, worn = _pace(clock, job)
            strikes = draw * window.most_rate < job.steady + job.ageing * (1 + early + worn)
    return clock - now


@_inlined
def _aged(life: Any, now: Any, job: Any) -> Any:
    """Time in which the failures' clock advances by `life`, by bracketed Newton steps."""
    steady, ageing, start, decay = job.steady, job.ageing, job.age + now, job.burn_in_time
    early, worn = _pace(now, job)
    least, most = 0.0, np.inf
    span = life / (steady + ageing * (1 + early + worn))
    for _ in range(100):
        less = math.expm1(-span / decay) if early > 0 else 0.0
        passed, pace = span - decay * early * less, 1 + early * (1 + less)
        if job.wear_age < np.inf:
            end = start + span
            rate = (end / job.wear_age) ** (job.wear_shape - 1)
            passed += (end * rate - start * worn) / job.wear_shape
            pace += rate
        passed, pace = steady * span + ageing * passed, steady + ageing * pace
        if passed < life:
            least = span
        else:
            most = span
        before, span = span, span + (life - passed) / pace
        if not least <= span <= most:
            span = 2 * before if most == np.inf else 0.5 * (least + most)
        if abs(span - before) <= 1e-4 * before:  # the next step would be of the order of its square
            break
    return span


# One job


class Shop(NamedTuple):
    """Nodes of a job and their repair."""

    nodes: Any
    spares: int
    repair: Any
    spread: Any  # of the logarithm of repair times; `times` are then those of the last returns
    crews: Any  # of exponential repairs; 0: nodes do not wait for one of these
    crews_free: Any  # when each crew is free, if repair times are drawn
    idle_rate: Any  # failures of one idle node
    group_share: Any
    group: int


@_inlined
def _shop(job: Any, lost_nodes: Any, tiers: Any) -> Shop:
    nodes, crews, group_share, group = max(math.floor(job.nodes), 1.0), 0.0, 0.0, 1
    if tiers is not None:
        crews, group_share = job.crews, job.group_share
        group = _group(job, nodes) if group_share > 0 else 1
    leaving = 1 - job.in_process - job.in_job  # failures that cost a node
    idle_rate = leaving / (nodes * job.mtbf) if job.pool == CLOSED else 0.0
    room = min(_room(job), len(lost_nodes))
    spares = int(min(math.floor(job.spares), room))
    spread, free = job.repair_spread, lost_nodes[room : room + _drawn_crews(job)]
    free[:] = 0.0
    crews = 0.0 if spread > 0 else crews
    return Shop(nodes, spares, job.repair, spread, crews, free, idle_rate, group_share, group)


@_inlined
def _lose(state: Any, run: Any, times: Any, count: int, now: Any, shop: Shop) -> None:
    """Record nodes lost at a time, in a ring buffer; or when drawn repairs end, the last first."""
    for _ in range(count):
        place, room, mark = run.lost % max(len(times), 1), len(times), now
        if shop.spread > 0:
            place, mark = min(run.lost, room), _repaired_at(state, now, shop)
            while place > 0 and times[place - 1] < mark:
                if place < room:
                    times[place] = times[place - 1]
                place -= 1
        if place < room:
            times[place] = mark
        run.lost += 1


@_inlined
def _repaired_at(state: Any, now: Any, shop: Shop) -> Any:
    """When a node that is lost now is whole: its repair begins once a crew is free, if these are
    limited."""
    free, first = shop.crews_free, 0
    if len(free) == 0:
        return now + _repair_time(state, shop)
    for crew in range(1, len(free)):
        if free[crew] < free[first]:
            first = crew
    free[first] = max(now, free[first]) + _repair_time(state, shop)
    return free[first]


@_inlined
def _repair_time(state: Any, shop: Shop) -> Any:
    """A log-normal time of the mean of repairs (Box & Muller 1958)."""
    size, angle = math.sqrt(-2 * math.log(uniform(state))), 2 * math.pi * uniform(state)
    return shop.repair * math.exp(shop.spread * (size * math.cos(angle) - shop.spread / 2))


@_inlined
def _return_time(run: Any, times: Any, away: int, shop: Shop) -> Any:
    """When all of the nodes lost are whole but so many."""
    if shop.spread > 0:
        return times[away]
    return times[(run.lost - 1 - away) % len(times)] + shop.repair


@_inlined
def _together(state: Any, group_share: Any, group: int) -> int:
    return group if group_share > 0 and uniform(state) < group_share else 1


@_compiled
def _lose_idle(state: Any, run: Any, times: Any, end: Any, idle: Any, shop: Shop) -> None:
    """Failures of idle nodes until `end`: `idle` less those away."""
    rate = idle * shop.idle_rate
    if rate == 0:
        return
    clock = run.updated - math.log(uniform(state)) / rate
    while clock < end and run.lost < MOST_FAILURES:
        away, most = 0, min(run.lost, len(times))
        while away < most and _return_time(run, times, away, shop) > clock:
            away += 1
        if uniform(state) * idle < idle - away:
            count = min(_together(state, shop.group_share, shop.group), int(idle) - away)
            _lose(state, run, times, count, clock, shop)
        clock -= math.log(uniform(state)) / rate
    run.updated = end


@_inlined
def _event(state: Any, away: int, failing: Any, repaired: Any, idle: Any, shop: Shop) -> int:
    """Change in the number of nodes away: idle ones fail, or one is repaired."""
    if uniform(state) * (failing + repaired) < failing:
        more: int = min(_together(state, shop.group_share, shop.group), int(idle) - away)
        return more
    return -1


@_compiled
def _repaired(state: Any, away: int, start: Any, end: Any, idle: Any, shop: Shop) -> int:
    """Nodes away at the end of a span in which idle ones fail and crews repair, at random."""
    clock = start
    while True:
        failing = max(idle - away, 0.0) * shop.idle_rate
        repaired = min(away, shop.crews) / max(shop.repair, 1e-300)
        if failing + repaired == 0:
            return away
        clock -= math.log(uniform(state)) / (failing + repaired)
        if clock >= end:
            return away
        away += _event(state, away, failing, repaired, idle, shop)


@_compiled
def _wait(state: Any, away: int, most: int, idle: Any, shop: Shop) -> Any:
    """Time until at most `most` nodes are away; infinite where crews never get there."""
    clock, events = 0.0, 0
    while away > most and events < MOST_FAILURES:
        events += 1
        failing = (idle - away) * shop.idle_rate
        repaired = min(away, shop.crews) / max(shop.repair, 1e-300)
        clock -= math.log(uniform(state)) / (failing + repaired)
        away += _event(state, away, failing, repaired, idle, shop)
    return clock if away <= most else np.inf


@_compiled
def _checkpoints(job: Any) -> Any:
    """Intervals of the job, each with a checkpoint at its end; 0 where these are free."""
    interval, stall, work = job.interval, job.stall, job.work
    if interval == np.inf or (interval == 0 and stall == 0):
        return 0.0
    if interval >= work:
        return 1.0
    exact = work / interval
    nearest = np.rint(exact)
    # a whole number of intervals, or a shorter one at the end
    return nearest if abs(exact - nearest) <= 1e-9 * nearest else math.ceil(exact)


@_compiled
def _saves(job: Any) -> Any:
    """Checkpoints that a job without failures writes."""
    return max(_checkpoints(job) - job.unsaved, 0.0)


@_inlined
def _whole(multiple: Any) -> Any:
    return math.floor(multiple * (1 + 1e-9))


@_inlined
def _rest(multiple: Any) -> Any:
    rest = multiple - _whole(multiple)
    return rest if rest > 1e-9 * multiple else 0.0


@_inlined
def _writes(multiple: Any) -> Any:
    """Checkpoints in so many intervals, of which the last may be shorter."""
    return _whole(multiple) + math.ceil(_rest(multiple))


@_inlined
def _span(intervals: Any, job: Any) -> Any:
    """Time of so many intervals of memory and their checkpoints."""
    return intervals * job.interval + _writes(intervals) * job.memory_stall


@_compiled
def _length(job: Any) -> Any:
    """The job's work and stalls in tiers; the last interval may be shorter, its stalls not."""
    checkpoints, last = _saves(job), _rest(job.storage_every) * job.drive_every
    stored = _whole(checkpoints / (job.drive_every * job.storage_every))
    left = checkpoints - stored * job.drive_every * job.storage_every
    copies = min(_whole(left / job.drive_every), _whole(job.storage_every))
    left = max(left - copies * job.drive_every, 0.0)
    whole = stored * _whole(job.storage_every) + copies
    memory = whole * _writes(job.drive_every) + stored * _writes(last) + _writes(left)
    copies = whole + stored * math.ceil(_rest(job.storage_every))
    written = job.work + memory * job.memory_stall + copies * job.drive_stall
    return written + stored * job.storage_stall


@_compiled
def _stalls(job: Any) -> Any:
    """Time for which checkpoints stop a job that does not fail."""
    if job.drive_every > 0:
        return _length(job) - job.work
    checkpoints = _saves(job)
    return checkpoints * job.stall if checkpoints > 0 else 0.0


@_compiled
def _last_checkpoint(position: Any, tier: int, job: Any) -> Any:
    """End of the last checkpoint in a tier or above."""
    interval, copies_stored = job.interval, job.storage_every
    if interval == 0 or interval == np.inf:
        return position if interval == 0 else 0.0
    first, second = interval + job.memory_stall, _span(job.drive_every, job) + job.drive_stall
    whole, intervals = _whole(copies_stored), _rest(copies_stored) * job.drive_every
    last = _span(intervals, job) + job.drive_stall if intervals > 0 else 0.0
    third = whole * second + last + job.storage_stall
    end = math.floor(position / third) * third
    if tier == STORAGE:
        return end
    copies = min(math.floor((position - end) / second), whole)
    end += copies * second
    if copies == whole and position - end >= last:  # storage's stall has begun
        return end + last
    if tier == DRIVES:
        return end
    intervals = intervals if copies == whole else job.drive_every
    if position - end >= _span(intervals, job):
        return end + _span(intervals, job)
    return end + min(math.floor((position - end) / first), _whole(intervals)) * first


@_inlined
def _flush_time(job: Any, tier: int) -> Any:
    if tier == MEMORY:
        return job.flush
    return job.drive_flush if tier == DRIVES else job.storage_flush


@_inlined
def _restore_time(job: Any, tier: int) -> Any:
    if tier == MEMORY:
        return job.memory_restore
    return job.drive_restore if tier == DRIVES else job.storage_restore


@_compiled
def _fall_back(tiers: Any, position: Any, life: Any, lowest: int, late: bool, job: Any) -> Any:
    """Where the job resumes after a failure; writes what each tier holds then."""
    for tier in range(3):
        unsafe = 0.0 if late else _flush_time(job, tier)
        if life >= unsafe:
            last = _last_checkpoint(position - unsafe, tier, job)
            tiers[tier].safe = max(tiers[tier].safe, last)
    return _restored(tiers, lowest)


@_compiled
def _begin_copies(tiers: Any, safe: Any, position: Any, now: Any, job: Any) -> None:
    """Copies under way, begun since training resumed: their ends, and when they are safe."""
    for tier in range(1, 3):
        end = _last_checkpoint(position, tier, job)
        if end > safe:
            if tiers[tier].copy_safe <= now:
                tiers[tier].safe = max(tiers[tier].safe, tiers[tier].copy_end)
            tiers[tier].copy_end = end
            tiers[tier].copy_safe = now - (position - end) + _flush_time(job, tier)


@_compiled
def _lose_copies(tiers: Any, now: Any, lowest: int) -> None:
    """Copies under way at a failure: those that are safe by now count, and it ends the others."""
    for tier in range(1, 3):
        safe = tiers[tier].copy_safe <= now
        if safe:
            tiers[tier].safe = max(tiers[tier].safe, tiers[tier].copy_end)
        if safe or lowest >= tier:
            tiers[tier].copy_safe = np.inf


@_compiled
def _restored(tiers: Any, lowest: int) -> Any:
    """The newest checkpoint in a tier or above, which tiers below then hold as well."""
    for tier in range(1, -1, -1):
        tiers[tier].safe = max(tiers[tier].safe, tiers[tier + 1].safe)
    for tier in range(lowest):
        tiers[tier].safe = tiers[lowest].safe
    return tiers[lowest].safe


@_compiled
def _lowest_tier(state: Any, job: Any, late: bool) -> int:
    """The tier that serves a failure: not memory, whose share is of all, if corruption is late."""
    share = uniform(state)
    if not late and share * (1 - job.silent) < job.memory_share:
        return MEMORY
    return DRIVES if job.drive_share > 0 and share < job.memory_share + job.drive_share else STORAGE


@_compiled
def _room(job: Any) -> int:
    """Number of loss times to keep: enough to decide whether a spare is free, or of all nodes."""
    spares = min(math.floor(job.spares), float(MOST_FAILURES))
    if job.pool == CLOSED:
        spares = min(spares + max(math.floor(job.nodes), 1.0), float(MOST_FAILURES))
    if job.replica_nodes > 0:  # of an elastic job: its buffer, which has four numbers for each node
        spares += 4 * min(max(math.ceil(job.nodes), 1), MOST_EVENTS)
    return int(spares) + (1 if job.pool == IDLE_SAFE else 0)


@_compiled
def _drawn_crews(job: Any) -> int:
    """Crews whose repair times are drawn one by one."""
    return int(min(job.crews, float(MOST_FAILURES))) if job.repair_spread > 0 else 0


@_compiled
def _kind(state: Any, job: Any) -> int:
    """Kind of a failure, drawn by the shares; without a draw if there is only one."""
    if not job.in_process + job.in_job + job.requeue > 0:
        return NODE_SWAP
    share = uniform(state) - job.in_process
    if share < 0:
        return IN_PROCESS
    share -= job.in_job
    if share < 0:
        return IN_JOB
    return REQUEUE if share - job.requeue < 0 else NODE_SWAP


@_inlined
def _recovery_time(job: Any, kind: int) -> Any:
    if kind == NODE_SWAP:
        return job.recovery
    if kind == REQUEUE:
        return job.requeue_recovery
    return job.in_job_recovery if kind == IN_JOB else job.in_process_recovery


@_inlined
def _group(job: Any, nodes: Any) -> int:
    """Nodes that a failure takes which strikes a group."""
    return int(min(max(math.floor(job.group), 1.0), nodes))


@_inlined
def _steps(job: Any, tiered: bool) -> Any:
    """Steps in which work becomes safe: length and number of them, and the time after the last.

    A step is an interval and its checkpoint, or 1 s where checkpoints are continuous or in tiers.
    """
    if tiered:
        return 1.0, _length(job), 0.0
    if job.interval == 0:
        return 1.0, job.work, 0.0
    step, steps, rest = 1.0, max(_checkpoints(job) - 1, 0.0), job.work
    if steps > 0:
        step = job.interval + job.stall
        rest = job.work - steps * job.interval
    if _saves(job) > steps:
        rest += job.stall
    return step, steps, rest


@_compiled
def trial(
    job: Any, state: Any, lost_nodes: Any, run: Any, tiers: Any = None, window: Any = None
) -> Any:
    """Run one job to its end; False if it fails too often.

    `run` is a record of the type TRIAL, of zeros, and has the losses at the end. `lost_nodes` is a
    ring buffer of the last loss times (`_room`). `tiers` are three records of the type TIER, and
    None without tiers, crews and groups; `window` is a record of the type WINDOW, of zeros, and
    None without ageing: neither then costs time.
    """
    times = lost_nodes[: min(_room(job), len(lost_nodes))]
    shop = _shop(job, lost_nodes, tiers)
    tiered = False
    if tiers is not None:
        tiered = job.drive_every > 0
        for tier in range(3):
            tiers[tier].safe = 0.0
            tiers[tier].copy_end = tiers[tier].copy_safe = np.inf
    step, steps, rest = _steps(job, tiered)
    run.log_scale = math.log(job.mtbf) - math.lgamma(1 + 1 / job.shape)
    life = _time_to_failure(state, job, run.log_scale, 0.0, window)
    while 0 <= life < (steps - run.safe) * step + rest:
        late = _lose_work(job, state, run, tiers, life, step, steps)
        life = _recover(job, state, run, times, shop, tiers, window, late)
    return life >= 0


@_inlined
def _lose_work(job: Any, state: Any, run: Any, tiers: Any, life: Any, step: Any, steps: Any) -> Any:
    """Fall back to the last safe checkpoint at a failure; is it corruption detected late?"""
    late = _is_late(job, state)
    gained = max(life - (0.0 if late else job.flush), 0.0) / step
    if tiers is not None and job.drive_every > 0:
        run.tier = _lowest_tier(state, job, late)
        if job.copies_kept > 0:
            _begin_copies(tiers, run.safe, run.safe + life, run.now + life, job)
            _lose_copies(tiers, run.now + life, run.tier)
        gained = _fall_back(tiers, run.safe + life, life, run.tier, late, job) - run.safe
    elif job.interval != 0:
        gained = math.floor(gained)
        if job.corruption > 0 and gained > 0:
            unreadable = math.floor(math.log(uniform(state)) / math.log(job.corruption))
            gained = max(gained - unreadable, 0.0)
    gained = min(gained, steps - run.safe)
    run.safe += gained
    _rework(run, max(life - gained * step, 0.0))
    run.now += life
    return late


@_inlined
def _is_late(job: Any, state: Any) -> Any:
    return job.silent > 0 and uniform(state) < job.silent


@_inlined
def _rework(run: Any, time: Any) -> None:
    run.rework += time
    if run.detailed:
        run.tier_rework[run.tier] += time


@_inlined
def _recover(
    job: Any, state: Any, run: Any, times: Any, shop: Shop, tiers: Any, window: Any, late: bool
) -> Any:
    """Recover until no failure strikes the recovery; time to the next, -1 if there are too many."""
    while True:
        life = 0.0
        if late:
            life = _detect(job, state, run, times, shop, window)
        kind, count = _failure(job, state, run, shop)
        _update(state, run, times, shop)
        short = kind == NODE_SWAP and _is_short(run, times, shop, count)
        if kind >= REQUEUE:
            _repair(state, run, times, shop, count)
        if max(run.lost, run.failures) >= MOST_FAILURES:
            return -1.0
        needed = _recovery_time(job, kind)
        if tiers is not None and job.drive_every > 0:
            needed = max(needed + _restore_time(job, run.tier), 0.0)
        if short:
            run.shortages += 1
            needed += job.provision
        if job.pool != OPEN and (kind >= REQUEUE or late or shop.crews > 0):
            wait = _wait_for_nodes(state, run, times, shop)
            if wait == np.inf:
                return -1.0
            run.waiting += wait
            run.recovery += wait
        if not late or job.fails_in_recovery == 0:
            life = _time_to_failure(state, job, run.log_scale, run.now, window)
        if job.fails_in_recovery == 0 or not life < needed:
            break
        _spend(run, kind, life)
        late = _restart_recovery(job, state, run, tiers)
    _spend(run, kind, needed)
    if run.detailed:
        run.tier_restarts[run.tier] += 1
    return life if job.fails_in_recovery == 0 else life - needed


@_inlined
def _spend(run: Any, kind: int, time: Any) -> None:
    """Spend time on a recovery."""
    run.recovery += time
    run.now += time
    if run.detailed:
        run.kind_recovery[kind] += time


@_inlined
def _detect(job: Any, state: Any, run: Any, times: Any, shop: Shop, window: Any) -> Any:
    """Lose work until corruption is detected, whatever fails; time to the next failure then."""
    detection = run.now + job.latency
    life = _time_to_failure(state, job, run.log_scale, run.now, window)
    while life < detection - run.now and max(run.lost, run.failures) < MOST_FAILURES:
        run.now += life
        kind, count = _failure(job, state, run, shop)
        if kind >= REQUEUE or shop.crews > 0:
            _update(state, run, times, shop)
        if kind >= REQUEUE:
            _repair(state, run, times, shop, count)
        life = _time_to_failure(state, job, run.log_scale, run.now, window)
    life -= detection - run.now
    run.now = detection
    _rework(run, job.latency)
    return life


@_inlined
def _failure(job: Any, state: Any, run: Any, shop: Shop) -> Any:
    """Kind of a failure, and the nodes that it strikes."""
    kind = _kind(state, job)
    run.failures += 1
    if run.detailed:
        run.kind_failures[kind] += 1
    return kind, _together(state, shop.group_share, shop.group) if kind >= REQUEUE else 1


@_inlined
def _update(state: Any, run: Any, times: Any, shop: Shop) -> None:
    """Bring the nodes away up to date: idle ones fail, and crews repair."""
    if shop.crews > 0:
        run.away = _repaired(state, run.away, run.updated, run.now, float(shop.spares), shop)
    elif shop.idle_rate > 0:
        _lose_idle(state, run, times, run.now, float(shop.spares), shop)
    run.updated = run.now


@_inlined
def _repair(state: Any, run: Any, times: Any, shop: Shop, count: int) -> None:
    """Send nodes to repair."""
    if shop.crews > 0:
        run.away += count
    else:
        _lose(state, run, times, count, run.now, shop)


@_inlined
def _is_short(run: Any, times: Any, shop: Shop, count: int) -> Any:
    """Whether fewer spares are free than nodes are lost now."""
    if shop.crews > 0:
        return run.away + count > shop.spares
    free = shop.spares - count + 1  # limit of nodes away that leaves a spare for each loss
    if run.lost < free:
        return False
    return free <= 0 or _return_time(run, times, free - 1, shop) > run.now


@_inlined
def _wait_for_nodes(state: Any, run: Any, times: Any, shop: Shop) -> Any:
    """Wait until no more nodes are away than there are spares; infinite if that takes too long."""
    failed, spares, nodes = run.now, shop.spares, shop.nodes + shop.spares
    wait = 0.0
    if run.away > spares:
        wait = _wait(state, run.away, spares, nodes, shop)
        run.away = spares
        run.now += wait
    elif run.lost > spares:
        whole = _return_time(run, times, spares, shop)
        while run.now < whole:
            _lose_idle(state, run, times, whole, nodes, shop)
            if run.lost >= MOST_FAILURES:
                return np.inf
            run.now = whole
            whole = _return_time(run, times, spares, shop)
        wait = run.now - failed
    run.updated = run.now
    return wait


@_inlined
def _restart_recovery(job: Any, state: Any, run: Any, tiers: Any) -> Any:
    """A failure strikes the recovery, which restarts, from the higher tier of the two."""
    late = _is_late(job, state)
    if tiers is not None and job.drive_every > 0:
        lowest = _lowest_tier(state, job, late)
        run.tier = max(run.tier, lowest)
        _lose_copies(tiers, run.now, lowest)
        restored = _restored(tiers, run.tier)
        _rework(run, run.safe - restored)
        run.safe = restored
    return late


# An elastic job


class Seats(NamedTuple):
    """Places of an elastic job's nodes, filled again after a failure."""

    empty: Any  # of each seat, 1 or 0
    absent: Any  # nodes that each replica lacks
    vacant: Any  # empty seats in the order of their failures, a ring buffer
    returns: Any  # when nodes in repair are whole, the same


@_inlined
def _seats(job: Any, buffer: Any) -> Seats:
    count = max(math.ceil(job.nodes), 1)
    replicas = max(int(job.nodes / job.replica_nodes + 1e-9), 1)
    buffer[: 2 * count] = 0.0
    vacant, returns = buffer[2 * count : 3 * count], buffer[3 * count :]
    return Seats(buffer[:count], buffer[count : count + replicas], vacant, returns)


@_inlined
def _change(absent: Any, seat: int, each: Any, nodes: int) -> int:
    """Change the nodes that the replicas of a seat lack; returns how many more are broken."""
    broken, last = 0, math.ceil((seat + 1) / each - 1e-9)
    for replica in range(int(seat / each + 1e-9), min(last, len(absent))):
        broken += 1 if absent[replica] == 0 else 0
        absent[replica] += nodes
        broken -= 1 if absent[replica] == 0 else 0
    return broken


@_compiled
def _elastic_trial(job: Any, state: Any, buffer: Any, run: Any, window: Any) -> bool:
    """Run one elastic job, event by event; `run` and the result are as those of `trial`.

    A failure strikes a node's seat drawn at random, and nothing where it is empty; nodes of broken
    replicas fail, too, but do not stop the job. A failed node's seat goes to a spare, or else to
    the next node taken back, the longest empty first. A checkpoint is skipped while the one before
    is not safe yet. What is neither work, stalls, rework nor recovery is `shrunk`: the time that
    the job takes longer than a whole one, stops to grow and what they lose included.
    """
    seats, checkpoints = _seats(job, buffer), _checkpoints(job)
    run.log_scale = math.log(job.mtbf) - math.lgamma(1 + 1 / job.shape)
    run.flush_end = run.repair_end = np.inf
    run.free = int(min(math.floor(job.spares), float(MOST_FAILURES)))
    run.failure = _time_to_failure(state, job, run.log_scale, run.now, window)
    for _ in range(MOST_EVENTS):
        _fill_seats(job, run, seats)
        _look_at_repairs(job, state, run, seats)
        running = _running(job, run, seats)
        end, event = _advance(job, run, checkpoints, running, len(seats.absent))
        if run.flush_end <= run.now:
            run.safe, run.safe_checkpoints = run.flushing, run.flushing_checkpoints
            run.busy -= run.flushing_busy
            run.flush_end = np.inf
        if event == end:
            _end_stage(job, run, checkpoints)
            if run.stage == _ENDED:
                wall = run.now - job.work - _stalls(job)
                run.shrunk = max(wall - run.rework - run.recovery, 0.0)
                return True
        elif event == run.repair_end:
            _take_back(job, run, running)
        else:
            _strike(job, state, run, seats, running, window)
    return False


@_inlined
def _fill_seats(job: Any, run: Any, seats: Seats) -> None:
    """Free nodes take empty seats."""
    while run.free > 0 and run.lost > run.filled:
        seat = int(seats.vacant[run.filled % len(seats.vacant)])
        run.filled += 1
        run.free -= 1
        seats.empty[seat] = 0.0
        run.broken += _change(seats.absent, seat, job.replica_nodes, -1)


@_inlined
def _look_at_repairs(job: Any, state: Any, run: Any, seats: Seats) -> None:
    """When the next node is whole: the first that failed, or one of the crews'."""
    repairing = run.sent - run.whole
    if repairing == run.repairing:
        return
    run.repairing, run.repair_end = repairing, np.inf
    if repairing > 0:
        run.repair_end = seats.returns[run.whole % len(seats.returns)]
        if job.crews > 0:
            mean = job.repair / min(repairing, job.crews)
            run.repair_end = run.now - mean * math.log(uniform(state))


@_inlined
def _running(job: Any, run: Any, seats: Seats) -> Any:
    """Replicas that run."""
    if job.packing > 0:
        occupied = len(seats.empty) - (run.lost - run.filled)
        return min(int(occupied / job.replica_nodes + 1e-9), len(seats.absent))
    return len(seats.absent) - run.broken


@_inlined
def _advance(job: Any, run: Any, checkpoints: Any, running: int, replicas: int) -> Any:
    """Go on to the next event; returns the stage's end and the event's time."""
    end = run.stage_end
    if run.stage == _TRAINS:
        last = run.checkpoints + 1 >= checkpoints
        due = job.work if last else (run.checkpoints + 1) * job.interval
        speed = job.rounds / math.ceil(job.rounds * replicas / max(running, 1) * (1 - 1e-9))
        speed = 1.0 if running == replicas else speed * min(running, 1)
        end = run.now + (due - run.progress) / speed if speed > 0 else np.inf
        event = min(end, run.failure, run.repair_end)
        run.progress = due if event == end else run.progress + (event - run.now) * speed
    event = min(end, run.failure, run.repair_end)
    spent = event - run.now
    if run.stage == _RECOVERS:
        run.recovery += spent
        run.kind_recovery[run.kind] += spent
    elif running == 0:
        run.waiting += spent
    elif run.stage != _GROWS:
        run.busy += spent
    run.now = event
    return end, event


@_inlined
def _end_stage(job: Any, run: Any, checkpoints: Any) -> None:
    """Begin the next stage; what ends is a checkpoint's interval or stall, a recovery or growth."""
    if run.stage == _TRAINS:
        ended = run.checkpoints >= max(checkpoints - job.unsaved, 0.0)
        run.stage, run.stage_end = _ENDED if ended else _SAVES, run.now + job.stall
    elif run.stage == _SAVES:
        run.checkpoints += 1
        run.stage = _ENDED if run.checkpoints >= checkpoints else _TRAINS
        if run.flush_end == np.inf:
            run.flushing, run.flushing_busy = run.progress, run.busy
            run.flushing_checkpoints, run.flush_end = run.checkpoints, run.now + job.flush
    else:
        if run.stage == _GROWS and job.growth == STOP:
            run.safe, run.safe_checkpoints = run.progress, run.checkpoints
            run.busy, run.flush_end = 0.0, np.inf
        run.stage = _TRAINS


@_inlined
def _roll_back(run: Any) -> None:
    """Resume from the last safe checkpoint."""
    run.progress, run.checkpoints = run.safe, run.safe_checkpoints
    run.busy, run.flush_end = 0.0, np.inf


@_inlined
def _take_back(job: Any, run: Any, running: int) -> None:
    """Take back a repaired node, at once or at the next failure."""
    run.whole += 1
    if job.growth == NEXT_FAILURE and running > 0:
        run.queued += 1
        return
    run.free += 1
    stops = job.growth == STOP or job.growth == RESTART
    if stops and run.stage != _RECOVERS and run.lost > run.filled:
        if job.growth == RESTART:
            _roll_back(run)
        if run.stage == _TRAINS or (job.growth == RESTART and run.stage == _SAVES):
            run.stage, run.stage_end = _GROWS, run.now
        run.stage_end += job.growth_stop


@_inlined
def _strike(job: Any, state: Any, run: Any, seats: Seats, running: int, window: Any) -> None:
    """A failure, which stops the job if it strikes a node that trains, or no node but the job."""
    run.failure = run.now + _time_to_failure(state, job, run.log_scale, run.now, window)
    struck, lost, kind, count = running > 0, run.lost, _kind(state, job), 0
    if job.nodeless == 0 or uniform(state) >= job.nodeless:
        struck, count = False, _together(state, job.group_share, _group(job, len(seats.empty)))
    first = int(uniform(state) * len(seats.empty)) // max(count, 1) * count
    occupied = len(seats.empty) - (run.lost - run.filled)
    for seat in range(first, min(first + count, len(seats.empty))):
        if seats.empty[seat] > 0:
            continue
        more = _change(seats.absent, seat, job.replica_nodes, 1)
        active = more > 0
        if job.packing > 0:
            active = uniform(state) * occupied < running * job.replica_nodes
        struck = struck or active
        if kind < REQUEUE:
            _change(seats.absent, seat, job.replica_nodes, -1)
            continue
        run.broken += more
        seats.vacant[run.lost % len(seats.vacant)], seats.empty[seat] = seat, 1.0
        seats.returns[run.sent % len(seats.returns)] = run.now + job.repair
        run.lost += 1
        run.sent += 1
    if struck:
        _stop(job, run, kind, run.lost > lost)


@_inlined
def _stop(job: Any, run: Any, kind: int, nodes_lost: bool) -> None:
    """The job stops, and recovers."""
    run.kind = kind
    run.rework += run.busy
    run.failures += 1
    run.kind_failures[kind] += 1
    run.free, run.queued = run.free + run.queued, 0
    if kind == NODE_SWAP and nodes_lost and run.lost - run.filled > run.free:
        run.shortages += 1
    _roll_back(run)
    run.stage, run.stage_end = _RECOVERS, run.now + _recovery_time(job, kind)
    if job.fails_in_recovery == 0:
        run.failure += run.stage_end - run.now


# Many trials


@_allocating
def _trials(
    points: Any, jobs: Any, first: int, last: int, seed: Any, losses: Any, verdicts: Any
) -> None:
    """Trials `first` to `last` of all points, each with its own random stream."""
    trials = losses.shape[1]
    most = 0
    for row in range(first // trials, (last - 1) // trials + 1):
        most = max(most, _room(jobs[row]) + _drawn_crews(jobs[row]))
    lost_nodes, tiers, window = np.empty(most), np.empty(3, TIER), np.zeros(1, WINDOW)
    runs = np.zeros(1, TRIAL)
    run, numbers = runs[0], runs.view(np.float64)
    state = np.empty(4, np.uint64)
    for index in range(first, last):
        row, number = index // trials, index % trials
        if verdicts[row] != DONE:
            continue
        key = np.uint64(seed)
        # the parameters that the job depends on
        read = 12 if jobs[row].pool == OPEN and jobs[row].replica_nodes == 0 else KINDS
        for word in points[row, :read].view(np.uint64):
            key = mix((key ^ word) + _GOLDEN)
        for k in range(len(_PARTS) - 1):
            further = points[row, _PARTS[k] : _PARTS[k + 1]]
            if further.any():
                for word in further.view(np.uint64):
                    key = mix((key ^ word) + _GOLDEN)
        seed_stream(state, mix(key ^ mix(np.uint64(number) + _GOLDEN)))
        point, job = points[row], jobs[row]
        numbers[:] = 0.0
        run.detailed = losses.shape[2] > len(LOSSES)
        window[0].start = window[0].end = 0.0
        if job.replica_nodes > 0:
            ended = _elastic_trial(job, state, lost_nodes, run, window[0])
        elif point[TIERS:AGES].any() or point[CREWS:ENDS].any():
            ended = trial(job, state, lost_nodes, run, tiers, window[0])
        elif point[AGES:CREWS].any():
            ended = trial(job, state, lost_nodes, run, None, window[0])
        else:
            ended = trial(job, state, lost_nodes, run)
        for k in range(losses.shape[2]):
            losses[row, number, k] = numbers[k]
        if not ended:
            verdicts[row] = TOO_MANY_FAILURES


# Many jobs


@_compiled
def _ratio(above: Any, below: Any) -> Any:
    """A ratio of two means and its standard error, to first order (the delta method)."""
    count = len(above)
    top = bottom = 0.0
    for k in range(count):
        top += above[k]
        bottom += below[k]
    ratio = top / bottom
    squares = 0.0
    for k in range(count):
        squares += (above[k] - ratio * below[k]) ** 2
    return ratio, math.sqrt(squares / (count - 1) / count) / (bottom / count)


@_allocating
def _summarise(work_time: Any, stall_time: Any, losses: Any, statistics: Any) -> None:
    count = len(losses)
    ones = np.ones(count)
    work, stalls = ones * work_time, ones * stall_time
    rework, recovery = losses[:, REWORK].copy(), losses[:, RECOVERY].copy()
    failures, shortages = losses[:, FAILURES].copy(), losses[:, SHORTAGES].copy()
    training = work + losses[:, SHRUNK]
    wall = training + stalls + rework + recovery
    statistics[0], statistics[1] = _ratio(training, wall)
    statistics[2], statistics[3] = _ratio(stalls, wall)
    statistics[4], statistics[5] = _ratio(rework, wall)
    statistics[6], statistics[7] = _ratio(recovery, wall)
    statistics[8], statistics[9] = _ratio(failures, ones)
    statistics[10], statistics[11] = _ratio(shortages, failures)
    statistics[12], statistics[13] = _ratio(wall - losses[:, WAITING], wall)
    statistics[14], statistics[15] = _ratio(wall, ones)
    statistics[16] = np.sort(wall)[min(math.ceil(0.95 * count), count) - 1]
    statistics[17], statistics[18] = _ratio(work, training)
    for k in range(losses.shape[1] - len(LOSSES)):
        column = len(STATISTICS) + 2 * k
        mean = _ratio(losses[:, len(LOSSES) + k].copy(), ones if _COUNTED[k] else wall)
        statistics[column], statistics[column + 1] = mean


@_allocating
def _judge(points: Any, jobs: Any, verdicts: Any) -> None:
    for row in range(len(jobs)):
        job = jobs[row]
        endless = job.interval == 0 and job.stall + job.replica_nodes > 0
        if endless or not 0 < job.work < np.inf or job.shape <= 0 or job.mtbf <= 0:
            verdicts[row] = UNDEFINED
        if job.in_process + job.in_job + job.requeue > 1 + 1e-9 or job.silent > 1 + 1e-9:
            verdicts[row] = UNDEFINED
        if job.replica_nodes > 0 and job.nodes > MOST_EVENTS:  # beyond the buffer
            verdicts[row] = TOO_MANY_FAILURES
        if np.isnan(points[row]).any():
            verdicts[row] = UNDEFINED


@_allocating
def _finish(
    jobs: Any, parts: int, first: int, last: int, losses: Any, verdicts: Any, statistics: Any
) -> None:
    """Statistics of jobs `first` to `last`, each of `parts` points; NaN for those given up."""
    for job in range(first, last):
        begin, end = job * parts, (job + 1) * parts
        work = stalls = 0.0
        for row in range(begin, end):
            work += jobs[row].work
            stalls += _stalls(jobs[row])
        if (verdicts[begin:end] == DONE).all():
            whole = losses[begin] if parts == 1 else losses[begin:end].sum(axis=0)
            _summarise(work, stalls, whole, statistics[job])
        else:
            statistics[job] = np.nan


def as_jobs(points: Array) -> Array:
    """Rows with the columns PARAMETERS as records of the type JOB."""
    return points.view(JOB)[:, 0]


def run(
    points: Array,
    trials: int,
    seed: int,
    threads: int,
    done: Callable[[int], None] = lambda jobs: None,
    parts: int = 1,
    detailed: bool = False,
) -> tuple[Array, Array]:
    """Statistics of jobs, and a verdict on each.

    `points` has a row per job with the columns PARAMETERS. Returns a row of STATISTICS for each
    job, and of DETAILS with their errors if `detailed`; NaN where its verdict, the second result,
    is not DONE. Random numbers depend only on the seed, the job's parameters and the number of the
    trial. Shares are ratios of sums over the trials, so goodput is work over expected wall time;
    errors are standard errors. A job of several consecutive `parts` takes as many rows, whose times
    add up trial by trial. `done` is called with the number of trials simulated since the last call.
    """
    if not isinstance(points, np.ndarray | list | tuple):
        raise TypeError(
            f"points is a {type(points).__name__}, and jobs are played from NumPy arrays alone, "
            "outside jit, vmap and grad: pass numpy.asarray(points)"
        )
    # keys of random streams are made from bits: -0.0 becomes 0.0
    points = np.ascontiguousarray(points, dtype=np.float64) + 0.0
    width = len(STATISTICS) + 2 * len(DETAILS) * detailed
    statistics = np.empty((len(points) // parts, width))
    verdicts = np.full(len(points), DONE, np.int8)
    _judge(points, as_jobs(points), verdicts)
    at_once = max(1, _TRIALS_AT_ONCE // (trials * parts))
    for start in range(0, len(statistics), at_once):
        jobs = slice(start, start + at_once)
        rows = slice(start * parts, (start + at_once) * parts)
        _run(points[rows], parts, trials, seed, threads, verdicts[rows], statistics[jobs], done)
    return statistics, verdicts.reshape(-1, parts).max(axis=1, initial=DONE)


def _run(
    points: Array,
    parts: int,
    trials: int,
    seed: int,
    threads: int,
    verdicts: Array,
    statistics: Array,
    done: Callable[[int], None],
) -> None:
    details = len(DETAILS) * (statistics.shape[1] > len(STATISTICS))
    losses = np.empty((len(points), trials, len(LOSSES) + details))
    word, jobs = np.uint64(seed), as_jobs(points)
    cuts = _edges(len(points) * trials, threads, 64)
    simulated = pool(threads).map(
        lambda ends: _trials(points, jobs, *ends, word, losses, verdicts), cuts
    )
    for (first, last), _ in zip(cuts, simulated, strict=True):
        done(last - first)
    pool(threads).each(
        lambda ends: _finish(jobs, parts, *ends, losses, verdicts, statistics),
        _edges(len(statistics), threads, 1),
    )


def _edges(size: int, threads: int, least: int) -> Sequence[tuple[int, int]]:
    """A range cut into several parts for each thread."""
    step = max(least, -(-size // (16 * threads)))
    return [(start, min(start + step, size)) for start in range(0, size, step)]
