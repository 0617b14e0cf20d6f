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
# First parameters of kinds, tiers, ...
KINDS, TIERS, AGES, CREWS, GROUPS, ENDS = 14, 22, 34, 41, 42, 45
_PARTS = (KINDS, TIERS, CREWS, GROUPS, ENDS, len(PARAMETERS))  # draws differ if one is not all 0
WINDOW = CREWS - AGES  # of the ages, in a trial: bounds of the rate near now
OPEN, CLOSED, IDLE_SAFE = 0.0, 1.0, 2.0
FREE, STOP, NEXT_FAILURE, RESTART = 0.0, 1.0, 2.0, 3.0
_TRAINS, _SAVES, _RECOVERS, _GROWS = range(4)  # what an elastic job does
LOSSES = ("rework", "recovery", "failures", "shortages", "waiting", "shrunk")  # of one trial
# With `detailed`, beyond those: failures and recovery of each kind, in the order of `_kind`,
# restarts from each tier and their rework
OF_KINDS, OF_TIERS = len(LOSSES), len(LOSSES) + 8
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
    aged = ages is not None and ages[1] > 0 and mtbf < np.inf
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
    at = ages[2] + now
    early = ages[3] * math.exp(-at / ages[4]) if ages[3] > 0 else 0.0
    worn = (at / ages[5]) ** (ages[6] - 1) if ages[5] < np.inf else 0.0
    return early, worn


@_inlined
def _look_ahead(now: Any, mtbf: Any, ages: Any) -> Any:
    """Set a window from now on, and bounds of the rate in it: burn-in falls, and wear rises."""
    early, worn = _pace(now, ages)
    span = 16 * mtbf / (ages[0] + ages[1] * (1 + early + worn))
    for _ in range(100):
        later, more = _pace(now + span, ages)
        least = ages[0] + ages[1] * (1 + later + worn)
        most = ages[0] + ages[1] * (1 + early + more)
        if most <= 1.2 * least or span * most <= mtbf:
            break
        span *= 0.5
    ages[WINDOW] = now
    ages[WINDOW + 1] = now + span
    ages[WINDOW + 2] = least
    ages[WINDOW + 3] = most


@_inlined
def _thinned(state: Any, mtbf: Any, now: Any, ages: Any) -> Any:
    """Time to the next failure at a varying rate, by thinning failures at its upper bound."""
    clock, strikes = now, False
    while not strikes:
        exponential, kept = -math.log(uniform(state)), uniform(state)
        if not ages[WINDOW] <= clock < ages[WINDOW + 1]:
            _look_ahead(clock, mtbf, ages)
        clock += exponential * mtbf / ages[WINDOW + 3]
        if clock >= ages[WINDOW + 1]:
            clock = ages[WINDOW + 1]
            strikes = clock <= ages[WINDOW]  # the window is below the clock's resolution
        elif kept * ages[WINDOW + 3] < ages[WINDOW + 2]:
            strikes = True
        else:
            early, worn = _pace(clock, ages)
            strikes = kept * ages[WINDOW + 3] < ages[0] + ages[1] * (1 + early + worn)
    return clock - now


@_inlined
def _aged(life: Any, now: Any, ages: Any) -> Any:
    """Time in which the failures' clock advances by `life`, by bracketed Newton steps."""
    steady, ageing, start, excess = ages[0], ages[1], ages[2] + now, ages[3]
    decay, wear_age, wear_shape = ages[4], ages[5], ages[6]
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
    if uniform(state) * (failing + repaired) < failing:
        more: int = min(_together(state, shop[3], shop[4]), int(idle) - away)
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
def _checkpoints(point: Any) -> Any:
    """Intervals of the job, each with a checkpoint at its end; 0 where these are free."""
    interval, stall, work = point[2], point[3], point[5]
    if interval == np.inf or (interval == 0 and stall == 0):
        return 0.0
    if interval >= work:
        return 1.0
    exact = work / interval
    nearest = np.rint(exact)
    # a whole number of intervals, or a shorter one at the end
    return nearest if abs(exact - nearest) <= 1e-9 * nearest else math.ceil(exact)


@_compiled
def _saves(point: Any) -> Any:
    """Checkpoints that a job without failures writes."""
    return max(_checkpoints(point) - point[ENDS], 0.0)


@_compiled
def _length(point: Any) -> Any:
    """The job's work and stalls in tiers; the last interval may be shorter, its stalls not."""
    memory, drive, storage = point[TIERS + 2 : TIERS + 5]
    every = point[TIERS + 10]
    checkpoints = _saves(point)
    copies = math.floor(checkpoints / every)
    stored = math.floor(checkpoints / (every * point[TIERS + 11]))
    return point[5] + checkpoints * memory + copies * drive + stored * storage


@_compiled
def _stalls(point: Any) -> Any:
    """Time for which checkpoints stop a job that does not fail."""
    if point[TIERS + 10] > 0:
        return _length(point) - point[5]
    checkpoints = _saves(point)
    return checkpoints * point[3] if checkpoints > 0 else 0.0


@_compiled
def _held(at: Any, level: int, interval: Any, tiers: Any) -> Any:
    """End of the last checkpoint in a tier or above: 0 memory, 1 drives, 2 storage."""
    if interval == 0 or interval == np.inf:
        return at if interval == 0 else 0.0
    first = interval + tiers[2]
    second = tiers[10] * first + tiers[3]
    third = tiers[11] * second + tiers[4]
    stored = math.floor(at / third)
    end = stored * third
    if level == 2:
        return end
    copies = math.floor((at - end) / second)
    end += copies * second
    if level == 1 or copies >= tiers[11]:  # storage's stall has begun
        return end
    return end + min(math.floor((at - end) / first), tiers[10]) * first


@_compiled
def _fall_back(
    safe: Any, at: Any, life: Any, level: int, late: bool, flush: Any, interval: Any, tiers: Any
) -> Any:
    """Where the job resumes after a failure; writes what each tier holds then into `safe`."""
    for tier in range(3):
        unsafe = 0.0
        if not late:
            unsafe = flush if tier == 0 else tiers[4 + tier]
        if life >= unsafe:
            safe[tier] = max(safe[tier], _held(at - unsafe, tier, interval, tiers))
    return _restored(safe, level)


@_compiled
def _begin_copies(held: Any, safe: Any, at: Any, now: Any, interval: Any, tiers: Any) -> None:
    """Copies under way, begun since training resumed: their ends, and when they are safe."""
    for tier in range(1, 3):
        end = _held(at, tier, interval, tiers)
        if end > safe:
            if held[4 + tier] <= now:
                held[tier] = max(held[tier], held[2 + tier])
            held[2 + tier] = end
            held[4 + tier] = now - (at - end) + tiers[4 + tier]


@_compiled
def _lose_copies(held: Any, now: Any, level: int) -> None:
    """Copies under way at a failure: those that are safe by now count, and it ends the others."""
    for tier in range(1, 3):
        if held[4 + tier] <= now:
            held[tier] = max(held[tier], held[2 + tier])
        if held[4 + tier] <= now or level >= tier:
            held[4 + tier] = np.inf


@_compiled
def _restored(safe: Any, level: int) -> Any:
    """The newest checkpoint in a tier or above, which tiers below then hold as well."""
    for tier in range(1, -1, -1):
        safe[tier] = max(safe[tier], safe[tier + 1])
    for tier in range(level):
        safe[tier] = safe[level]
    return safe[level]


@_compiled
def _level(state: Any, tiers: Any, late: bool, silent: Any) -> int:
    """The tier that serves a failure: not memory, whose share is of all, if it is found late."""
    share = uniform(state)
    if not late and share * (1 - silent) < tiers[0]:
        return 0
    return 1 if tiers[1] > 0 and share < tiers[0] + tiers[1] else 2


@_compiled
def _room(point: Any) -> int:
    """Number of loss times to keep: enough to decide whether a spare is free, or of all nodes."""
    spares = min(math.floor(point[8]), float(MOST_FAILURES))
    if point[12] == CLOSED:
        spares = min(spares + max(math.floor(point[13]), 1.0), float(MOST_FAILURES))
    if point[ENDS + 1] > 0:  # of an elastic job: its buffer, which has four numbers for each node
        spares += 4 * min(max(math.ceil(point[13]), 1), MOST_EVENTS)
    return int(spares) + (1 if point[12] == IDLE_SAFE else 0)


@_compiled
def _kind(state: Any, kinds: Any) -> int:
    """Kind of a failure: 0 in-process restart, 1 in-job restart, 2 requeue, 3 node swap."""
    share = uniform(state)
    for kind in range(3):
        share -= kinds[2 * kind]
        if share < 0:
            return kind
    return 3


@_compiled
def trial(
    point: Any, state: Any, lost_nodes: Any, losses: Any, held: Any = None, ages: Any = None
) -> bool:
    """Run one job to its end, its losses into `losses`; False if it fails too often.

    `lost_nodes` is a ring buffer of the last loss times (`_room`). `held` is a buffer for what each
    tier holds, `ages` are parameters of ageing. Without tiers, crews and groups `held` is None, and
    `ages` without ageing: neither then costs time.
    """
    mtbf, shape, interval, stall, flush, work = point[0:6]
    recovery, provision, spares, repair, corruption, fails_in_recovery = point[6:12]
    pool, nodes = point[12], max(math.floor(point[13]), 1.0)
    kinds, tiers = point[KINDS:TIERS], point[TIERS:AGES]
    tiered, crewed, crews, grouped, group = False, False, 0.0, 0.0, 1
    if held is not None:
        tiered, crews = tiers[10] > 0, point[CREWS]
        grouped = point[GROUPS]
        group = int(min(max(math.floor(point[GROUPS + 1]), 1.0), nodes)) if grouped > 0 else 1
        crewed = crews > 0
    level = 0
    several = kinds[0] + kinds[2] + kinds[4] > 0
    detailed = len(losses) > OF_KINDS
    losses[:] = 0.0
    silent, latency = kinds[6], kinds[7]
    log_scale = math.log(mtbf) - math.lgamma(1 + 1 / shape)

    # Work becomes safe in steps: an interval and its checkpoint, or 1 s where it is continuous.
    checkpoints = _checkpoints(point)
    continuous = interval == 0
    step, steps, rest = 1.0, work, 0.0
    if held is not None:
        held[:3], held[3:] = 0.0, np.inf
    if tiered:
        steps = _length(point)
    elif not continuous:
        steps = max(checkpoints - 1, 0.0)
        rest = work
        if steps > 0:
            step = interval + stall
            rest = work - steps * interval
        if _saves(point) > steps:
            rest += stall

    room = min(_room(point), len(lost_nodes))
    times = lost_nodes[:room]
    spare = int(min(math.floor(spares), room))
    leaving = 1 - kinds[0] - kinds[2]  # failures that cost a node
    pace = leaving / (nodes * mtbf) if pool == CLOSED else 0.0
    shop = (pace, crews, repair, grouped, group)
    now = rework = recovering = waiting = safe = seen = 0.0
    failures = shortages = lost = away = 0
    life = _time_to_failure(state, mtbf, shape, log_scale, now, ages)
    while life < (steps - safe) * step + rest:
        late = silent > 0 and uniform(state) < silent
        gained = max(life - (0.0 if late else flush), 0.0) / step
        if held is not None and tiered:
            level = _level(state, tiers, late, silent)
            if point[GROUPS + 2] > 0:
                _begin_copies(held, safe, safe + life, now + life, interval, tiers)
                _lose_copies(held, now + life, level)
            back = _fall_back(held, safe + life, life, level, late, flush, interval, tiers)
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
            losses[OF_TIERS + 3 + level] += max(life - gained * step, 0.0)
        now += life
        while True:  # until no failure strikes the recovery itself
            left = 0.0
            if late:
                left = _time_to_failure(state, mtbf, shape, log_scale, now, ages)
                found = now + latency
                while left < found - now:  # a failure before the corruption is found
                    now += left
                    failures += 1
                    kind = _kind(state, kinds) if several else 3
                    lasting = kind > 1
                    if detailed:
                        losses[OF_KINDS + kind] += 1
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
                    losses[OF_TIERS + 3 + level] += latency
            kind = _kind(state, kinds) if several else 3
            failures += 1
            if detailed:
                losses[OF_KINDS + kind] += 1
            count = _together(state, grouped, group) if kind > 1 else 1
            if held is not None and crewed:
                away = _repaired(state, away, seen, now, float(spare), shop)
                short = away + count > spare
                away += count if kind > 1 else 0
            else:
                if pace > 0:
                    lost = _lose_idle(state, times, lost, seen, now, float(spare), shop)
                free = spare - count + 1  # limit of nodes away that leaves a spare for each loss
                short = lost >= free
                short = short and (free <= 0 or now - times[(lost - free) % room] < repair)
            if kind > 1 and not crewed:
                lost = _lose(times, room, lost, count, now)
            if max(lost, failures) >= MOST_FAILURES:
                return False
            needed = recovery if kind == 3 else kinds[2 * kind + 1]
            if held is not None and tiered:
                needed = max(needed + tiers[7 + level], 0.0)
            if short and kind == 3:
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
            elif pool != OPEN and (kind > 1 or late) and lost > spare:
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
                losses[OF_KINDS + 4 + kind] += life
            if held is not None and tiered:
                late = silent > 0 and uniform(state) < silent
                struck = _level(state, tiers, late, silent)
                level = max(level, struck)
                _lose_copies(held, now, struck)
                back = _restored(held, level)
                rework += safe - back
                if detailed:
                    losses[OF_TIERS + 3 + level] += safe - back
                safe = back
            else:
                late = silent > 0 and uniform(state) < silent
        recovering += needed
        now += needed
        if detailed:
            losses[OF_KINDS + 4 + kind] += needed
            losses[OF_TIERS + level] += 1
    losses[0] = rework
    losses[1] = recovering
    losses[2] = failures
    losses[3] = shortages
    losses[4] = waiting
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
def _elastic_trial(point: Any, state: Any, buffer: Any, losses: Any, ages: Any) -> bool:
    """Run one elastic job, event by event; `losses` and the result are as those of `trial`.

    A failure strikes a node's seat drawn at random, and nothing where it is empty; nodes of broken
    replicas fail, too, but do not stop the job. A failed node's seat goes to a spare, or else to
    the next node taken back, the longest empty first. A checkpoint is skipped while the one before
    is not safe yet. What is neither work, stalls, rework nor recovery is `shrunk`: the time that
    the job takes longer than a whole one, stops to grow and what they lose included.
    """
    mtbf, shape, interval, stall, flush, work = point[0:6]
    repair, kinds, crews = point[9], point[KINDS:TIERS], point[CREWS]
    each, packing, growth, growth_stop, rounds, nodeless = point[ENDS + 1 :]
    seats, replicas = max(math.ceil(point[13]), 1), max(int(point[13] / each + 1e-9), 1)
    empty, vacant = buffer[:seats], buffer[2 * seats : 3 * seats]
    absent, returns = buffer[seats : seats + replicas], buffer[3 * seats :]
    buffer[: 2 * seats] = 0.0
    several = kinds[0] + kinds[2] + kinds[4] > 0
    group = int(min(max(math.floor(point[GROUPS + 1]), 1.0), seats))
    log_scale = math.log(mtbf) - math.lgamma(1 + 1 / shape)
    checkpoints, saves = _checkpoints(point), _saves(point)
    losses[:] = 0.0
    now = at = safe = taken = busy = earlier = until = 0.0
    done = kept = marked = 0.0  # checkpoints: written, safe, and on the way
    sure = back = np.inf
    free, waiting = int(min(math.floor(point[8]), float(MOST_FAILURES))), 0
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
            if away > 0 and crews > 0:
                back = now - repair / min(away, crews) * math.log(uniform(state))
        there, running = seats - (lost - filled), replicas - broken
        if packing > 0:
            running = min(int(there / each + 1e-9), replicas)
        ends, due = until, work if done + 1 >= checkpoints else (done + 1) * interval
        if doing == _TRAINS:
            speed = rounds / math.ceil(rounds * replicas / max(running, 1) * (1 - 1e-9))
            speed = 1.0 if running == replicas else speed * min(running, 1)
            ends = now + (due - at) / speed if speed > 0 else np.inf
            event = min(ends, fails, back)
            at = due if event == ends else at + (event - now) * speed
        event = min(ends, fails, back)
        if doing == _RECOVERS:
            losses[1] += event - now
            if len(losses) > OF_KINDS:
                losses[OF_KINDS + 4 + kind] += event - now
        elif running == 0:
            losses[4] += event - now
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
                taken, marked, earlier, sure = at, done, busy, now + flush
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
                until += growth_stop
        else:
            fails = now + _time_to_failure(state, mtbf, shape, log_scale, now, ages)
            struck, before, strikes = running > 0, lost, _kind(state, kinds) if several else 3
            hit = 0
            if nodeless == 0 or uniform(state) >= nodeless:
                struck, hit = False, _together(state, point[GROUPS], group)
            start = int(uniform(state) * seats) // max(hit, 1) * hit
            for seat in range(start, min(start + hit, seats)):
                if empty[seat] > 0:
                    continue
                more = _change(absent, seat, each, 1)
                active = uniform(state) * there < running * each if packing > 0 else more > 0
                struck = struck or active
                if strikes < 2:
                    _change(absent, seat, each, -1)
                    continue
                broken += more
                vacant[lost % seats], empty[seat], lost = seat, 1.0, lost + 1
                returns[sent % len(returns)], sent = now + repair, sent + 1
            if not struck:
                continue
            kind = strikes
            losses[0], losses[2] = losses[0] + busy, losses[2] + 1
            free, waiting = free + waiting, 0
            losses[3] += 1 if kind == 3 and lost - filled > free and lost > before else 0
            at, done, busy, sure = safe, kept, 0.0, np.inf
            doing, until = _RECOVERS, now + (point[6] if kind == 3 else kinds[2 * kind + 1])
            if len(losses) > OF_KINDS:
                losses[OF_KINDS + kind] += 1
            if point[11] == 0:
                fails += until - now
    else:
        return False
    losses[5] = max(now - work - _stalls(point) - losses[0] - losses[1], 0.0)
    return True


@_compiled
def _trials(points: Any, first: int, last: int, seed: Any, losses: Any, verdicts: Any) -> None:
    """Trials `first` to `last` of all points, each with its own random stream."""
    trials = losses.shape[1]
    most = 0
    for row in range(first // trials, (last - 1) // trials + 1):
        most = max(most, _room(points[row]))
    lost_nodes, held, ages = np.empty(most), np.empty(7), np.empty(WINDOW + 4)
    state = np.empty(4, np.uint64)
    for index in range(first, last):
        row, number = index // trials, index % trials
        if verdicts[row] != DONE:
            continue
        key = np.uint64(seed)
        # the parameters that the job depends on
        read = 12 if points[row, 12] == OPEN and points[row, ENDS + 1] == 0 else KINDS
        for word in points[row, :read].view(np.uint64):
            key = mix((key ^ word) + _GOLDEN)
        for k in range(len(_PARTS) - 1):
            further = points[row, _PARTS[k] : _PARTS[k + 1]]
            if further.any():
                for word in further.view(np.uint64):
                    key = mix((key ^ word) + _GOLDEN)
        seed_stream(state, mix(key ^ mix(np.uint64(number) + _GOLDEN)))
        point, lost = points[row], losses[row, number]
        ages[:WINDOW] = point[AGES:CREWS]
        ages[WINDOW:] = 0.0
        if point[ENDS + 1] > 0:
            ended = _elastic_trial(point, state, lost_nodes, lost, ages)
        elif point[TIERS:AGES].any() or point[CREWS:ENDS].any():
            ended = trial(point, state, lost_nodes, lost, held, ages)
        elif point[AGES:CREWS].any():
            ended = trial(point, state, lost_nodes, lost, None, ages)
        else:
            ended = trial(point, state, lost_nodes, lost)
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
    rework, recovery = losses[:, 0].copy(), losses[:, 1].copy()
    failures, shortages = losses[:, 2].copy(), losses[:, 3].copy()
    training = work + losses[:, 5]
    wall = training + stalls + rework + recovery
    statistics[0], statistics[1] = _ratio(training, wall)
    statistics[2], statistics[3] = _ratio(stalls, wall)
    statistics[4], statistics[5] = _ratio(rework, wall)
    statistics[6], statistics[7] = _ratio(recovery, wall)
    statistics[8], statistics[9] = _ratio(failures, ones)
    statistics[10], statistics[11] = _ratio(shortages, failures)
    statistics[12], statistics[13] = _ratio(wall - losses[:, 4], wall)
    statistics[14], statistics[15] = _ratio(wall, ones)
    statistics[16] = np.sort(wall)[min(math.ceil(0.95 * count), count) - 1]
    statistics[17], statistics[18] = _ratio(work, training)
    for k in range(OF_KINDS, losses.shape[1]):
        counted = k - OF_KINDS < 4 or 0 <= k - OF_TIERS < 3
        column = len(STATISTICS) + 2 * (k - OF_KINDS)
        mean = _ratio(losses[:, k].copy(), ones if counted else wall)
        statistics[column], statistics[column + 1] = mean


@_compiled
def _judge(point: Any) -> int:
    for value in point:
        if np.isnan(value):
            return UNDEFINED
    if point[ENDS + 1] > 0 and point[13] > MOST_EVENTS:  # nodes, beyond the buffer
        return TOO_MANY_FAILURES
    endless = point[2] == 0 and point[3] + point[ENDS + 1] > 0
    if endless or not 0 < point[5] < np.inf or point[1] <= 0 or point[0] <= 0:
        return UNDEFINED
    if point[14] + point[16] + point[18] > 1 + 1e-9 or point[20] > 1 + 1e-9:
        return UNDEFINED
    return DONE


@_compiled
def _finish(
    points: Any, parts: int, first: int, last: int, losses: Any, verdicts: Any, statistics: Any
) -> None:
    """Statistics of jobs `first` to `last`, each of `parts` points; NaN for those given up."""
    for job in range(first, last):
        begin, end = job * parts, (job + 1) * parts
        work = stalls = 0.0
        for row in range(begin, end):
            work += points[row, 5]
            stalls += _stalls(points[row])
        if (verdicts[begin:end] == DONE).all():
            whole = losses[begin] if parts == 1 else losses[begin:end].sum(axis=0)
            _summarise(work, stalls, whole, statistics[job])
        else:
            statistics[job] = np.nan


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
    verdicts = np.array([_judge(point) for point in points], np.int8)
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
    word = np.uint64(seed)
    cuts = _edges(len(points) * trials, threads, 64)
    simulated = pool(threads).map(lambda ends: _trials(points, *ends, word, losses, verdicts), cuts)
    for (first, last), _ in zip(cuts, simulated, strict=True):
        done(last - first)
    pool(threads).each(
        lambda ends: _finish(points, parts, *ends, losses, verdicts, statistics),
        _edges(len(statistics), threads, 1),
    )


def _edges(size: int, threads: int, least: int) -> Sequence[tuple[int, int]]:
    """A range cut into several parts for each thread."""
    step = max(least, -(-size // (16 * threads)))
    return [(start, min(start + step, size)) for start in range(0, size, step)]
