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
and each `storage_every`-th of those to storage. Memory, drives or storage survive a failure, drawn
by their shares; it loses the work since the last checkpoint that is safe there or above. A failure
that lower tiers survive ends a stall without loss; a failure in a recovery restarts it, from the
higher tier of the two; an interrupted copy is repeated once training resumes, or goes on where
copies are kept, unless the failure is one that only its tier or a higher one survives.

With an age of the hardware, the failures' clock runs at the failure rate of that age; exponential
failures are drawn at the highest rate in a window and thinned (Lewis & Shedler 1979).

A share of the failures that cost a node takes a group of nodes, which needs as many spares. A
failed node is away for `repair`, then whole. One of the `spares` is free while fewer nodes are away
(Palm 1938; Feeney & Sherbrooke 1966); if none is free, recovery takes `provision` longer. With
`pool` CLOSED or IDLE_SAFE recovery begins only when `nodes` nodes are whole; with CLOSED, spares
and waiting nodes fail at random at the same rate as the job's. `crews` nodes are repaired at a
time, each for an exponential time; the others wait for a crew.

With `replica_nodes` the job is elastic (`_elastic_trial`): it waits for no node, but goes on with
the replicas that are whole, until repaired nodes are taken back.

Self-contained, as numba's cache checks this file only.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

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
)
JOB = np.dtype([(name, np.float64) for name in PARAMETERS])  # compiled code reads job.mtbf, ...
# First parameters of kinds, tiers, ...
KINDS, TIERS, AGES, CREWS, GROUPS, ENDS = 14, 22, 34, 41, 42, 45
_PARTS = (KINDS, TIERS, CREWS, GROUPS, ENDS, len(PARAMETERS))  # draws differ if one is not all 0
# Ages of a trial: the parameters, and a window in which the failure rate is between two bounds
STEADY, AGEING, AGE, BURN_IN, BURN_IN_TIME, WEAR_AGE, WEAR_SHAPE, WINDOW = range(8)
WINDOW_END, LEAST_RATE, MOST_RATE = range(WINDOW + 1, WINDOW + 4)
OPEN, CLOSED, IDLE_SAFE = 0.0, 1.0, 2.0
FREE, STOP, NEXT_FAILURE, RESTART = 0.0, 1.0, 2.0, 3.0
_TRAINS, _SAVES, _RECOVERS, _GROWS = range(4)  # what an elastic job does
IN_PROCESS, IN_JOB, REQUEUE, NODE_SWAP = range(4)  # kinds of failures; from REQUEUE a node is lost
MEMORY, DRIVES, STORAGE = range(3)  # tiers
COPY_END, COPY_SAFE = 2, 4  # of drives and storage in `held`, after what each tier holds
REWORK, RECOVERY, FAILURES, SHORTAGES, WAITING, SHRUNK = range(6)
LOSSES = ("rework", "recovery", "failures", "shortages", "waiting", "shrunk")  # of one trial
# With `detailed`, beyond those: failures and recovery of each kind, in the order of `_kind`,
# restarts from each tier and their rework
OF_KINDS = KIND_FAILURES = len(LOSSES)
KIND_RECOVERY, TIER_RESTARTS, TIER_REWORK = OF_KINDS + 4, OF_KINDS + 8, OF_KINDS + 11
DETAILS = (
    *(f"{kind}_failures" for kind in ("in_process", "in_job", "requeue", "node_swap")),
    *(f"{kind}_recovery_overhead" for kind in ("in_process", "in_job", "requeue", "node_swap")),
    *(f"{tier}_tier_restarts" for tier in ("memory", "drive", "storage")),
    *(f"{tier}_tier_rework" for tier in ("memory", "drive", "storage")),
)
STATISTICS = (
    "goodput",
    "goodput_error",
    "checkpoint_overhead",
    "checkpoint_overhead_error",
    "rework_overhead",
    "rework_overhead_error",
    "recovery_overhead",
    "recovery_overhead_error",
    "failures",
    "failures_error",
    "spare_shortage",
    "spare_shortage_error",
    "whole_cluster_probability",
    "whole_cluster_probability_error",
    "wall_time",
    "wall_time_error",
    "wall_time_p95",
    "elastic_capacity",
    "elastic_capacity_error",
)
MOST_FAILURES = 1_000_000  # of one trial; a point that exceeds it in a trial is given up
MOST_EVENTS = 10 * MOST_FAILURES  # of an elastic job, its checkpoints and repairs included
DONE, TOO_MANY_FAILURES, UNDEFINED = 0, 1, 2
_TRIALS_AT_ONCE = 1 << 20  # kept in memory: 32 MB

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _compiled(function: Any, inlined: bool = False) -> Any:
    options: Any = {"nogil": True, "error_model": "numpy", "forceinline": inlined}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to cache in
        return numba.njit(**options)(function)


def _inlined(function: Any) -> Any:
    """Compile into the caller: a call would count references to arrays, as slow as a draw."""
    return _compiled(function, inlined=True)


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
def _time_to_failure(state: Any, mtbf: Any, shape: Any, log_scale: Any, now: Any, ages: Any) -> Any:
    """Weibull: the scale times the root of order `shape` of an exponential."""
    aged = ages is not None and ages[AGEING] > 0 and mtbf < np.inf
    if ages is not None and aged and shape == 1.0:
        return _thinned(state, mtbf, now, ages)
    exponential = -math.log(uniform(state))
    if shape == 1.0:
        return mtbf * exponential
    life = math.exp(log_scale + math.log(exponential) / shape)
    if ages is not None and aged:
        return _aged(life, now, ages)
    return life


@_inlined
def _pace(now: Any, ages: Any) -> Any:
    """Burn-in and wear at a time, each relative to the failure rate of mature hardware."""
    at = ages[AGE] + now
    early = ages[BURN_IN] * math.exp(-at / ages[BURN_IN_TIME]) if ages[BURN_IN] > 0 else 0.0
    worn = (at / ages[WEAR_AGE]) ** (ages[WEAR_SHAPE] - 1) if ages[WEAR_AGE] < np.inf else 0.0
    return early, worn


@_inlined
def _look_ahead(now: Any, mtbf: Any, ages: Any) -> Any:
    """Set a window from now on, and bounds of the rate in it: burn-in falls, and wear rises."""
    early, worn = _pace(now, ages)
    span = 16 * mtbf / (ages[STEADY] + ages[AGEING] * (1 + early + worn))
    for _ in range(100):
        later, more = _pace(now + span, ages)
        least = ages[STEADY] + ages[AGEING] * (1 + later + worn)
        most = ages[STEADY] + ages[AGEING] * (1 + early + more)
        if most <= 1.2 * least or span * most <= mtbf:
            break
        span *= 0.5
    ages[WINDOW] = now
    ages[WINDOW_END] = now + span
    ages[LEAST_RATE] = least
    ages[MOST_RATE] = most


@_inlined
def _thinned(state: Any, mtbf: Any, now: Any, ages: Any) -> Any:
    """Time to the next failure at a varying rate, by thinning failures at its upper bound."""
    clock, strikes = now, False
    while not strikes:
        exponential, kept = -math.log(uniform(state)), uniform(state)
        if not ages[WINDOW] <= clock < ages[WINDOW_END]:
            _look_ahead(clock, mtbf, ages)
        clock += exponential * mtbf / ages[MOST_RATE]
        if clock >= ages[WINDOW_END]:
            clock = ages[WINDOW_END]
            strikes = clock <= ages[WINDOW]  # the window is below the clock's resolution
        elif kept * ages[MOST_RATE] < ages[LEAST_RATE]:
            strikes = True
        else:
            early, worn = _pace(clock, ages)
            strikes = kept * ages[MOST_RATE] < ages[STEADY] + ages[AGEING] * (1 + early + worn)
    return clock - now


@_inlined
def _aged(life: Any, now: Any, ages: Any) -> Any:
    """Time in which the failures' clock advances by `life`, by bracketed Newton steps."""
    steady, ageing, start, excess = ages[STEADY], ages[AGEING], ages[AGE] + now, ages[BURN_IN]
    decay, wear_age, wear_shape = ages[BURN_IN_TIME], ages[WEAR_AGE], ages[WEAR_SHAPE]
    early = excess * math.exp(-start / decay) if excess > 0 else 0.0
    worn = (start / wear_age) ** (wear_shape - 1) if wear_age < np.inf else 0.0
    least, most = 0.0, np.inf
    span = life / (steady + ageing * (1 + early + worn))
    for _ in range(100):
        less = math.expm1(-span / decay) if early > 0 else 0.0
        passed, pace = span - decay * early * less, 1 + early * (1 + less)
        if wear_age < np.inf:
            end = start + span
            rate = (end / wear_age) ** (wear_shape - 1)
            passed += (end * rate - start * worn) / wear_shape
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


@_inlined
def _lose(times: Any, room: int, lost: int, count: int, now: Any) -> int:
    """Record nodes lost at a time; returns the total lost so far."""
    for _ in range(count):
        if room > 0:
            times[lost % room] = now
        lost += 1
    return lost


@_inlined
def _together(state: Any, grouped: Any, group: int) -> int:
    return group if grouped > 0 and uniform(state) < grouped else 1


@_compiled
def _lose_idle(
    state: Any, times: Any, lost: int, start: Any, end: Any, idle: Any, shop: Any
) -> int:
    """Failures of idle nodes, `idle` less those away; returns the total of nodes lost so far."""
    pace, _, repair, grouped, group = shop
    rate = idle * pace
    if rate == 0:
        return lost
    clock = start - math.log(uniform(state)) / rate
    while clock < end and lost < MOST_FAILURES:
        away = 0
        while (
            away < min(lost, len(times)) and times[(lost - 1 - away) % len(times)] > clock - repair
        ):
            away += 1
        if uniform(state) * idle < idle - away:
            count = min(_together(state, grouped, group), int(idle) - away)
            lost = _lose(times, len(times), lost, count, clock)
        clock -= math.log(uniform(state)) / rate
    return lost


@_inlined
def _event(state: Any, away: int, failing: Any, repaired: Any, idle: Any, shop: Any) -> int:
    """Change in the number of nodes away: idle ones fail, or one is repaired."""
    _, _, _, grouped, group = shop
    if uniform(state) * (failing + repaired) < failing:
        more: int = min(_together(state, grouped, group), int(idle) - away)
        return more
    return -1


@_compiled
def _repaired(state: Any, away: int, start: Any, end: Any, idle: Any, shop: Any) -> int:
    """Nodes away at the end of a span in which idle ones fail and crews repair, at random."""
    pace, crews, repair, _, _ = shop
    clock = start
    while True:
        failing, repaired = max(idle - away, 0.0) * pace, min(away, crews) / max(repair, 1e-300)
        if failing + repaired == 0:
            return away
        clock -= math.log(uniform(state)) / (failing + repaired)
        if clock >= end:
            return away
        away += _event(state, away, failing, repaired, idle, shop)


@_compiled
def _wait(state: Any, away: int, most: int, idle: Any, shop: Any) -> Any:
    """Time until at most `most` nodes are away; infinite where crews never get there."""
    pace, crews, repair, _, _ = shop
    clock, events = 0.0, 0
    while away > most and events < MOST_FAILURES:
        events += 1
        failing, repaired = (idle - away) * pace, min(away, crews) / max(repair, 1e-300)
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


@_compiled
def _length(job: Any) -> Any:
    """The job's work and stalls in tiers; the last interval may be shorter, its stalls not."""
    checkpoints = _saves(job)
    copies = math.floor(checkpoints / job.drive_every)
    stored = math.floor(checkpoints / (job.drive_every * job.storage_every))
    written = job.work + checkpoints * job.memory_stall + copies * job.drive_stall
    return written + stored * job.storage_stall


@_compiled
def _stalls(job: Any) -> Any:
    """Time for which checkpoints stop a job that does not fail."""
    if job.drive_every > 0:
        return _length(job) - job.work
    checkpoints = _saves(job)
    return checkpoints * job.stall if checkpoints > 0 else 0.0


@_compiled
def _held(at: Any, level: int, job: Any) -> Any:
    """End of the last checkpoint in a tier or above: 0 memory, 1 drives, 2 storage."""
    interval, copies_stored = job.interval, job.storage_every
    if interval == 0 or interval == np.inf:
        return at if interval == 0 else 0.0
    first = interval + job.memory_stall
    second = job.drive_every * first + job.drive_stall
    third = copies_stored * second + job.storage_stall
    stored = math.floor(at / third)
    end = stored * third
    if level == STORAGE:
        return end
    copies = math.floor((at - end) / second)
    end += copies * second
    if level == DRIVES or copies >= copies_stored:  # storage's stall has begun
        return end
    return end + min(math.floor((at - end) / first), job.drive_every) * first


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
def _fall_back(safe: Any, at: Any, life: Any, level: int, late: bool, job: Any) -> Any:
    """Where the job resumes after a failure; writes what each tier holds then into `safe`."""
    for tier in range(3):
        unsafe = 0.0 if late else _flush_time(job, tier)
        if life >= unsafe:
            safe[tier] = max(safe[tier], _held(at - unsafe, tier, job))
    return _restored(safe, level)


@_compiled
def _begin_copies(held: Any, safe: Any, at: Any, now: Any, job: Any) -> None:
    """Copies under way, begun since training resumed: their ends, and when they are safe."""
    for tier in range(1, 3):
        end = _held(at, tier, job)
        if end > safe:
            if held[COPY_SAFE + tier] <= now:
                held[tier] = max(held[tier], held[COPY_END + tier])
            held[COPY_END + tier] = end
            held[COPY_SAFE + tier] = now - (at - end) + _flush_time(job, tier)


@_compiled
def _lose_copies(held: Any, now: Any, level: int) -> None:
    """Copies under way at a failure: those that are safe by now count, and it ends the others."""
    for tier in range(1, 3):
        if held[COPY_SAFE + tier] <= now:
            held[tier] = max(held[tier], held[COPY_END + tier])
        if held[COPY_SAFE + tier] <= now or level >= tier:
            held[COPY_SAFE + tier] = np.inf


@_compiled
def _restored(safe: Any, level: int) -> Any:
    """The newest checkpoint in a tier or above, which tiers below then hold as well."""
    for tier in range(1, -1, -1):
        safe[tier] = max(safe[tier], safe[tier + 1])
    for tier in range(level):
        safe[tier] = safe[level]
    return safe[level]


@_compiled
def _level(state: Any, job: Any, late: bool) -> int:
    """The tier that serves a failure: not memory, whose share is of all, if it is found late."""
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
def _kind(state: Any, job: Any) -> int:
    """Kind of a failure, drawn by the shares."""
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


@_compiled
def trial(
    job: Any, state: Any, lost_nodes: Any, losses: Any, held: Any = None, ages: Any = None
) -> bool:
    """Run one job to its end, its losses into `losses`; False if it fails too often.

    `lost_nodes` is a ring buffer of the last loss times (`_room`). `held` is a buffer for what each
    tier holds, `ages` are parameters of ageing. Without tiers, crews and groups `held` is None, and
    `ages` without ageing: neither then costs time.
    """
    mtbf, shape, interval, stall, flush = job.mtbf, job.shape, job.interval, job.stall, job.flush
    work, recovery, provision, repair = job.work, job.recovery, job.provision, job.repair
    corruption, fails_in_recovery = job.corruption, job.fails_in_recovery
    pool, nodes = job.pool, max(math.floor(job.nodes), 1.0)
    tiered, crewed, crews, grouped, group = False, False, 0.0, 0.0, 1
    if held is not None:
        tiered, crews = job.drive_every > 0, job.crews
        grouped = job.group_share
        group = _group(job, nodes) if grouped > 0 else 1
        crewed = crews > 0
    level = MEMORY
    several = job.in_process + job.in_job + job.requeue > 0
    detailed = len(losses) > OF_KINDS
    losses[:] = 0.0
    silent, latency = job.silent, job.latency
    log_scale = math.log(mtbf) - math.lgamma(1 + 1 / shape)

    # Work becomes safe in steps: an interval and its checkpoint, or 1 s where it is continuous.
    checkpoints = _checkpoints(job)
    continuous = interval == 0
    step, steps, rest = 1.0, work, 0.0
    if held is not None:
        held[:3], held[3:] = 0.0, np.inf
    if tiered:
        steps = _length(job)
    elif not continuous:
        steps = max(checkpoints - 1, 0.0)
        rest = work
        if steps > 0:
            step = interval + stall
            rest = work - steps * interval
        if _saves(job) > steps:
            rest += stall

    room = min(_room(job), len(lost_nodes))
    times = lost_nodes[:room]
    spare = int(min(math.floor(job.spares), room))
    leaving = 1 - job.in_process - job.in_job  # failures that cost a node
    pace = leaving / (nodes * mtbf) if pool == CLOSED else 0.0
    shop = (pace, crews, repair, grouped, group)
    now = rework = recovering = waiting = safe = seen = 0.0
    failures = shortages = lost = away = 0
    life = _time_to_failure(state, mtbf, shape, log_scale, now, ages)
    while life < (steps - safe) * step + rest:
        late = silent > 0 and uniform(state) < silent
        gained = max(life - (0.0 if late else flush), 0.0) / step
        if held is not None and tiered:
            level = _level(state, job, late)
            if job.copies_kept > 0:
                _begin_copies(held, safe, safe + life, now + life, job)
                _lose_copies(held, now + life, level)
            back = _fall_back(held, safe + life, life, level, late, job)
            gained = back - safe
        if not continuous and not tiered:
            gained = math.floor(gained)
            if corruption > 0 and gained > 0:
                unreadable = math.floor(math.log(uniform(state)) / math.log(corruption))
                gained = max(gained - unreadable, 0.0)
        gained = min(gained, steps - safe)
        safe += gained
        rework += max(life - gained * step, 0.0)
        if detailed:
            losses[TIER_REWORK + level] += max(life - gained * step, 0.0)
        now += life
        while True:  # until no failure strikes the recovery itself
            left = 0.0
            if late:
                left = _time_to_failure(state, mtbf, shape, log_scale, now, ages)
                found = now + latency
                while left < found - now:  # a failure before the corruption is found
                    now += left
                    failures += 1
                    kind = _kind(state, job) if several else NODE_SWAP
                    lasting = kind >= REQUEUE
                    if detailed:
                        losses[KIND_FAILURES + kind] += 1
                    count = _together(state, grouped, group) if lasting else 1
                    if held is not None and crewed:
                        away = _repaired(state, away, seen, now, float(spare), shop)
                        seen = now
                        away += count if lasting else 0
                    elif lasting:
                        if pace > 0:
                            lost = _lose_idle(state, times, lost, seen, now, float(spare), shop)
                        seen = now
                        lost = _lose(times, room, lost, count, now)
                    if max(lost, failures) >= MOST_FAILURES:
                        return False
                    left = _time_to_failure(state, mtbf, shape, log_scale, now, ages)
                left -= found - now
                now = found
                rework += latency
                if detailed:
                    losses[TIER_REWORK + level] += latency
            kind = _kind(state, job) if several else NODE_SWAP
            failures += 1
            if detailed:
                losses[KIND_FAILURES + kind] += 1
            count = _together(state, grouped, group) if kind >= REQUEUE else 1
            if held is not None and crewed:
                away = _repaired(state, away, seen, now, float(spare), shop)
                short = away + count > spare
                away += count if kind >= REQUEUE else 0
            else:
                if pace > 0:
                    lost = _lose_idle(state, times, lost, seen, now, float(spare), shop)
                free = spare - count + 1  # limit of nodes away that leaves a spare for each loss
                short = lost >= free
                short = short and (free <= 0 or now - times[(lost - free) % room] < repair)
            if kind >= REQUEUE and not crewed:
                lost = _lose(times, room, lost, count, now)
            if max(lost, failures) >= MOST_FAILURES:
                return False
            needed = recovery if kind == NODE_SWAP else _recovery_time(job, kind)
            if held is not None and tiered:
                needed = max(needed + _restore_time(job, level), 0.0)
            if short and kind == NODE_SWAP:
                shortages += 1
                needed += provision
            if held is not None and crewed and pool != OPEN and away > spare:
                wait = _wait(state, away, spare, nodes + spare, shop)
                if wait == np.inf:
                    return False
                away = spare
                now += wait
                waiting += wait
                recovering += wait
            elif pool != OPEN and (kind >= REQUEUE or late) and lost > spare:
                failed = now
                whole = times[(lost - 1 - spare) % room] + repair
                while now < whole:
                    lost = _lose_idle(state, times, lost, now, whole, nodes + spare, shop)
                    if lost >= MOST_FAILURES:
                        return False
                    now = whole
                    whole = times[(lost - 1 - spare) % room] + repair
                waiting += now - failed
                recovering += now - failed
            seen = now
            if not late or fails_in_recovery == 0:
                left = _time_to_failure(state, mtbf, shape, log_scale, now, ages)
            life = left
            if fails_in_recovery == 0:
                break
            if not life < needed:
                life -= needed
                break
            recovering += life
            now += life
            if detailed:
                losses[KIND_RECOVERY + kind] += life
            if held is not None and tiered:
                late = silent > 0 and uniform(state) < silent
                struck = _level(state, job, late)
                level = max(level, struck)
                _lose_copies(held, now, struck)
                back = _restored(held, level)
                rework += safe - back
                if detailed:
                    losses[TIER_REWORK + level] += safe - back
                safe = back
            else:
                late = silent > 0 and uniform(state) < silent
        recovering += needed
        now += needed
        if detailed:
            losses[KIND_RECOVERY + kind] += needed
            losses[TIER_RESTARTS + level] += 1
    losses[REWORK] = rework
    losses[RECOVERY] = recovering
    losses[FAILURES] = failures
    losses[SHORTAGES] = shortages
    losses[WAITING] = waiting
    return True


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
def _elastic_trial(job: Any, state: Any, buffer: Any, losses: Any, ages: Any) -> bool:
    """Run one elastic job, event by event; `losses` and the result are as those of `trial`.

    A failure strikes a node's seat drawn at random, and nothing where it is empty; nodes of broken
    replicas fail, too, but do not stop the job. A failed node's seat goes to a spare, or else to
    the next node taken back, the longest empty first. A checkpoint is skipped while the one before
    is not safe yet. What is neither work, stalls, rework nor recovery is `shrunk`: the time that
    the job takes longer than a whole one, stops to grow and what they lose included.
    """
    mtbf, shape, work, stall = job.mtbf, job.shape, job.work, job.stall
    each, packing, growth = job.replica_nodes, job.packing, job.growth
    seats, replicas = max(math.ceil(job.nodes), 1), max(int(job.nodes / each + 1e-9), 1)
    empty, vacant = buffer[:seats], buffer[2 * seats : 3 * seats]
    absent, returns = buffer[seats : seats + replicas], buffer[3 * seats :]
    buffer[: 2 * seats] = 0.0
    several = job.in_process + job.in_job + job.requeue > 0
    group = _group(job, seats)
    log_scale = math.log(mtbf) - math.lgamma(1 + 1 / shape)
    checkpoints, saves = _checkpoints(job), _saves(job)
    losses[:] = 0.0
    now = at = safe = taken = busy = earlier = until = 0.0
    done = kept = marked = 0.0  # checkpoints: written, safe, and on the way
    sure = back = np.inf
    free, waiting = int(min(math.floor(job.spares), float(MOST_FAILURES))), 0
    lost = filled = sent = whole = broken = kind = 0
    doing, away = _TRAINS, 0
    fails = _time_to_failure(state, mtbf, shape, log_scale, now, ages)
    for _ in range(MOST_EVENTS):
        while free > 0 and lost > filled:
            seat = int(vacant[filled % seats])
            filled, free, empty[seat] = filled + 1, free - 1, 0.0
            broken += _change(absent, seat, each, -1)
        if sent - whole != away:  # the first that failed is whole next, or one of the crews'
            away = sent - whole
            back = returns[whole % len(returns)] if away > 0 else np.inf
            if away > 0 and job.crews > 0:
                back = now - job.repair / min(away, job.crews) * math.log(uniform(state))
        there, running = seats - (lost - filled), replicas - broken
        if packing > 0:
            running = min(int(there / each + 1e-9), replicas)
        ends, due = until, work if done + 1 >= checkpoints else (done + 1) * job.interval
        if doing == _TRAINS:
            speed = job.rounds / math.ceil(job.rounds * replicas / max(running, 1) * (1 - 1e-9))
            speed = 1.0 if running == replicas else speed * min(running, 1)
            ends = now + (due - at) / speed if speed > 0 else np.inf
            event = min(ends, fails, back)
            at = due if event == ends else at + (event - now) * speed
        event = min(ends, fails, back)
        if doing == _RECOVERS:
            losses[RECOVERY] += event - now
            if len(losses) > OF_KINDS:
                losses[KIND_RECOVERY + kind] += event - now
        elif running == 0:
            losses[WAITING] += event - now
        elif doing != _GROWS:
            busy += event - now
        now = event
        if sure <= now:
            safe, kept, busy, sure = taken, marked, busy - earlier, np.inf
        if event == ends and doing == _TRAINS:
            if done >= saves:
                break
            doing, until = _SAVES, now + stall
        elif event == ends and doing == _SAVES:
            doing, done = _TRAINS, done + 1
            if done >= checkpoints:
                break
            if sure == np.inf:
                taken, marked, earlier, sure = at, done, busy, now + job.flush
        elif event == ends:
            if doing == _GROWS and growth == STOP:
                safe, kept, busy, sure = at, done, 0.0, np.inf
            doing = _TRAINS
        elif event == back:
            whole += 1
            if growth == NEXT_FAILURE and running > 0:
                waiting += 1
                continue
            free += 1
            if doing != _RECOVERS and lost > filled and growth in (STOP, RESTART):
                if growth == RESTART:
                    at, done, busy, sure = safe, kept, 0.0, np.inf
                if doing == _TRAINS or (growth == RESTART and doing == _SAVES):
                    doing, until = _GROWS, now
                until += job.growth_stop
        else:
            fails = now + _time_to_failure(state, mtbf, shape, log_scale, now, ages)
            struck, before, strikes = running > 0, lost, _kind(state, job) if several else NODE_SWAP
            hit = 0
            if job.nodeless == 0 or uniform(state) >= job.nodeless:
                struck, hit = False, _together(state, job.group_share, group)
            start = int(uniform(state) * seats) // max(hit, 1) * hit
            for seat in range(start, min(start + hit, seats)):
                if empty[seat] > 0:
                    continue
                more = _change(absent, seat, each, 1)
                active = uniform(state) * there < running * each if packing > 0 else more > 0
                struck = struck or active
                if strikes < REQUEUE:
                    _change(absent, seat, each, -1)
                    continue
                broken += more
                vacant[lost % seats], empty[seat], lost = seat, 1.0, lost + 1
                returns[sent % len(returns)], sent = now + job.repair, sent + 1
            if not struck:
                continue
            kind = strikes
            losses[REWORK], losses[FAILURES] = losses[REWORK] + busy, losses[FAILURES] + 1
            free, waiting = free + waiting, 0
            losses[SHORTAGES] += (
                1 if kind == NODE_SWAP and lost - filled > free and lost > before else 0
            )
            at, done, busy, sure = safe, kept, 0.0, np.inf
            doing, until = _RECOVERS, now + _recovery_time(job, kind)
            if len(losses) > OF_KINDS:
                losses[KIND_FAILURES + kind] += 1
            if job.fails_in_recovery == 0:
                fails += until - now
    else:
        return False
    losses[SHRUNK] = max(now - work - _stalls(job) - losses[REWORK] - losses[RECOVERY], 0.0)
    return True


@_compiled
def _trials(
    points: Any, jobs: Any, first: int, last: int, seed: Any, losses: Any, verdicts: Any
) -> None:
    """Trials `first` to `last` of all points, each with its own random stream."""
    trials = losses.shape[1]
    most = 0
    for row in range(first // trials, (last - 1) // trials + 1):
        most = max(most, _room(jobs[row]))
    lost_nodes, held, ages = np.empty(most), np.empty(7), np.empty(MOST_RATE + 1)
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
        point, job, lost = points[row], jobs[row], losses[row, number]
        ages[:WINDOW] = point[AGES:CREWS]
        ages[WINDOW:] = 0.0
        if job.replica_nodes > 0:
            ended = _elastic_trial(job, state, lost_nodes, lost, ages)
        elif point[TIERS:AGES].any() or point[CREWS:ENDS].any():
            ended = trial(job, state, lost_nodes, lost, held, ages)
        elif point[AGES:CREWS].any():
            ended = trial(job, state, lost_nodes, lost, None, ages)
        else:
            ended = trial(job, state, lost_nodes, lost)
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


@_compiled
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
    for k in range(OF_KINDS, losses.shape[1]):
        counted = k < KIND_RECOVERY or TIER_RESTARTS <= k < TIER_REWORK
        column = len(STATISTICS) + 2 * (k - OF_KINDS)
        mean = _ratio(losses[:, k].copy(), ones if counted else wall)
        statistics[column], statistics[column + 1] = mean


@_compiled
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


@_compiled
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
