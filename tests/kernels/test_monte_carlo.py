"""The Monte Carlo against renewal theory, Daly 2006, Poisson tails and an event-by-event walk."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fleetcube.kernels import monte_carlo
from fleetcube.kernels.monte_carlo import LOSSES, MOST_FAILURES, PARAMETERS, STATISTICS

JOB = dict.fromkeys(PARAMETERS, 0.0) | {
    "mtbf": 1e4, "shape": 1.0, "interval": 500.0, "stall": 20.0, "work": 1e6, "recovery": 300.0,
    "fails_in_recovery": 1.0, "pool": monte_carlo.OPEN, "nodes": 1.0,
}  # fmt: skip
KINDS = {
    "in_process": 0.4, "in_process_recovery": 50.0, "in_job": 0.2, "in_job_recovery": 200.0,
    "requeue": 0.1, "requeue_recovery": 3000.0,
}  # fmt: skip
MASK = (1 << 64) - 1


def job(**changed: float) -> dict[str, float]:
    return {**JOB, **changed}


def rows(*jobs: dict[str, float]) -> Any:
    return np.array([[each[name] for name in PARAMETERS] for each in jobs])


def simulate(*jobs: dict[str, float], trials: int = 1000, seed: int = 0) -> dict[str, Any]:
    found, verdicts = monte_carlo.run(rows(*jobs), trials, seed, 2)
    assert (verdicts == monte_carlo.DONE).all()
    return dict(zip(STATISTICS, found.T, strict=True))


def score(found: dict[str, Any], name: str, expected: Any) -> Any:
    """Deviation of a statistic in standard errors; without an error it must be exact."""
    off, error = found[name] - expected, found[f"{name}_error"]
    assert (abs(off[error == 0]) <= 1e-9 * abs(np.asarray(expected) + 0 * off)[error == 0]).all()
    return off / np.where(error == 0, 1.0, error)


def survival(each: dict[str, float]) -> Callable[[Any], Any]:
    scale = each["mtbf"] / math.gamma(1 + 1 / each["shape"])
    return lambda time: np.exp(-((time / scale) ** each["shape"]))


def integral(function: Callable[[Any], Any], end: float) -> float:
    """Integral from 0 over x = end u^4, which smooths a Weibull's steep start at shape < 1."""
    points, weights = np.polynomial.legendre.leggauss(400)
    u = (points + 1) / 2
    return float(np.sum(weights / 2 * function(end * u**4) * end * 4 * u**3))


# Random numbers


def test_streams_start_with_the_words_of_splitmix64() -> None:
    # Seed 1234567, as printed at rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64
    state = np.empty(4, np.uint64)
    monte_carlo.seed_stream(state, np.uint64(1234567))
    assert state.tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
    ]


def word(state: list[int]) -> int:
    """xoshiro256++ in whole numbers (Blackman & Vigna 2021)."""
    total = state[0] + state[3] & MASK
    result = ((total << 23 | total >> 41) & MASK) + state[0] & MASK
    shifted = state[1] << 17 & MASK
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << 45 | state[3] >> 19) & MASK
    return result


def test_words_are_those_of_xoshiro() -> None:
    state = np.array([1, 2, 3, 4], np.uint64)
    plain = [1, 2, 3, 4]
    # rotl(1 + 4, 23) + 1, by hand
    assert int(monte_carlo.next_word(state)) == word(plain) == 5 * 2**23 + 1
    for _ in range(1000):
        assert int(monte_carlo.next_word(state)) == word(plain)


# One trial, walked event by event


def walk(each: dict[str, float], seed: int) -> dict[str, float]:
    """The same job simulated with a clock, a list of segments and a list of nodes in repair."""
    state = np.empty(4, np.uint64)
    monte_carlo.seed_stream(state, np.uint64(seed))
    words = [int(value) for value in state]

    def uniform() -> float:
        return ((word(words) >> 11) + 0.5) / 2**53

    def life() -> float:
        scale = each["mtbf"] / math.gamma(1 + 1 / each["shape"])
        return scale * (-math.log(uniform())) ** (1 / each["shape"])

    whole, last = divmod(each["work"], each["interval"])
    segments = [each["interval"]] * int(whole) + ([last] if last else [])
    clock = rework = recovering = waiting = 0.0
    failures = shortages = 0
    back: list[float] = []
    breaks = life()
    while True:
        ends = (clock + np.cumsum([part + each["stall"] for part in segments])).tolist()
        ends[-1] -= each["unsaved"] * each["stall"]
        if ends[-1] <= breaks:
            break
        readable = [end for end in ends if end + each["flush"] <= breaks]
        if each["corruption"] and readable:
            for _ in range(int(math.log(uniform()) / math.log(each["corruption"]))):
                readable = readable[:-1]
        rework += breaks - (readable[-1] if readable else clock)
        segments = segments[len(readable) :]
        clock = breaks
        struck = True
        while struck:
            failures += 1
            none_free = sum(time > clock for time in back) >= each["spares"]
            back.append(clock + each["repair"])
            shortages += none_free
            away = sorted(time for time in back if time > clock)
            if each["pool"] and len(away) > each["spares"]:
                whole = away[len(away) - int(each["spares"]) - 1]
                waiting += whole - clock
                recovering += whole - clock
                clock = whole
            needed = each["recovery"] + (each["provision"] if none_free else 0.0)
            breaks = clock + life()
            struck = bool(each["fails_in_recovery"]) and breaks < clock + needed
            if not each["fails_in_recovery"]:
                breaks += needed
            recovering += (breaks - clock) if struck else needed
            clock = breaks if struck else clock + needed
    found = {"wall": ends[-1], "rework": rework, "recovery": recovering, "failures": failures}
    return {**found, "shortages": shortages, "waiting": waiting, "shrunk": 0.0}


HARD = {"mtbf": 2e3, "provision": 900.0, "spares": 3.0, "repair": 5e3, "work": 5.02e4}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"work": 1.003e5},
        {"shape": 0.6},
        {"shape": 4.0, "fails_in_recovery": 0.0},
        {"flush": 350.0},
        {"corruption": 0.4},
        {"work": 1.003e5, "unsaved": 1.0, "mtbf": 2e3},
        {"provision": 900.0, "spares": 2.0, "repair": 2e4},
        {**HARD, "shape": 0.8, "flush": 70.0, "corruption": 0.2},
        {**HARD, "interval": 130.0, "flush": 700.0, "fails_in_recovery": 0.0},
        {**HARD, "interval": 1e6, "work": 3e3},
        {**HARD, "pool": monte_carlo.IDLE_SAFE, "repair": 9e3},
        {**HARD, "pool": monte_carlo.IDLE_SAFE, "spares": 0.0, "shape": 0.7},
    ],
    ids=str,
)
def test_a_trial_is_the_walk_from_event_to_event(changed: dict[str, float]) -> None:
    each = job(**changed)
    record, state, failures = monte_carlo.as_jobs(rows(each))[0], np.empty(4, np.uint64), 0.0
    for seed in range(20):
        monte_carlo.seed_stream(state, np.uint64(seed))
        run = np.zeros(1, monte_carlo.TRIAL)[0]
        assert monte_carlo.trial(record, state, np.empty(int(each["spares"]) + 1), run)
        got, expected = {name: run[name] for name in LOSSES}, walk(each, seed)
        checkpoints = math.ceil(each["work"] / each["interval"]) - each["unsaved"]
        wall = each["work"] + checkpoints * each["stall"] + got["rework"] + got["recovery"]
        assert got == pytest.approx({k: expected[k] for k in LOSSES}, rel=1e-9, abs=1e-5)
        assert wall == pytest.approx(expected["wall"], rel=1e-12)
        failures += got["failures"]
    assert failures > 20


# Exponential failures


def daly(each: dict[str, float]) -> dict[str, float]:
    """Shares of the wall time by Daly 2006, eq. 13."""
    mean, segment = each["mtbf"], each["interval"] + each["stall"]
    wall = mean * math.exp(each["recovery"] / mean) * math.expm1(segment / mean)
    return {
        "goodput": each["interval"] / wall,
        "checkpoint_overhead": each["stall"] / wall,
        "rework_overhead": (mean * math.expm1(segment / mean) - segment) / wall,
        "recovery_overhead": -math.expm1(-each["recovery"] / mean),
    }


@pytest.mark.slow
def test_exponential_failures_give_dalys_wall_time_and_its_shares() -> None:
    cases = [
        job(mtbf=mean, stall=x * mean, interval=y * mean, recovery=r * mean, work=n * y * mean)
        for mean in (50.0, 1e4, 3e6)
        for x in (1e-4, 1e-2, 2.0)
        for y in (0.01, 0.3, 3.0)
        for r in (0.0, 0.05, 1.5)
        for n in (3, 30)  # exact for any number of segments
    ]
    found = simulate(*cases, seed=1)
    for name in ("goodput", "checkpoint_overhead", "rework_overhead", "recovery_overhead"):
        expected = np.array([daly(each)[name] for each in cases])
        scores = score(found, name, expected)
        assert abs(scores).max() < 4.5
        assert 0.75 < (scores[scores != 0] ** 2).mean() < 1.33  # independent cases give 1
    whole = sum(found[name] for name in daly(JOB))
    np.testing.assert_allclose(whole, 1, rtol=1e-13)


def test_without_failures_in_recovery_it_costs_its_own_length() -> None:
    # A failure costs R: T = (M + R) (e^z - 1) for each segment
    cases = [
        job(fails_in_recovery=0.0, recovery=r, mtbf=m)
        for r in (0.0, 500.0, 1e4)
        for m in (600.0, 1e4)
    ]
    found = simulate(*cases)
    expected = [
        500 / ((each["mtbf"] + each["recovery"]) * math.expm1(520 / each["mtbf"])) for each in cases
    ]
    assert abs(score(found, "goodput", expected)).max() < 4.5


def test_without_failures_only_checkpoints_cost() -> None:
    never = job(mtbf=math.inf, interval=500.0, work=1000.0)
    cases = [never, {**never, "interval": math.inf}, {**never, "interval": 0.0, "stall": 0.0}]
    found = simulate(*cases, {**never, "work": 1100.0}, {**never, "shape": 0.5})
    expected = [1000 / 1040, 1, 1, 1100 / 1160, 1000 / 1040]
    np.testing.assert_allclose(found["goodput"], expected, rtol=1e-15)
    assert (found["failures"] == 0).all()
    assert np.isnan(found["spare_shortage"]).all()


def test_free_checkpoints_at_every_instant_leave_the_recovery() -> None:
    found = simulate(job(interval=0.0, stall=0.0), job(interval=0.0, stall=0.0, flush=200.0))
    # All time is kept but recovery, and one flush of work before each failure
    expected = [math.exp(-0.03), math.exp(-0.05)]
    assert abs(score(found, "goodput", expected)).max() < 4.5
    assert found["rework_overhead"][0] == 0


# Weibull failures


@pytest.mark.slow
@pytest.mark.parametrize("shape", [0.6, 1.0, 2.5])
@pytest.mark.parametrize("during", [0.0, 1.0])
def test_one_segment_is_tried_until_it_survives(shape: float, during: float) -> None:
    # Renewal: E[T] = int_0^L S + F(L) E[after a failure]. After it: R and the same again, where
    # the clock starts after recovery; else R + L must survive in one go.
    each = job(shape=shape, fails_in_recovery=during, mtbf=700.0, work=500.0, recovery=200.0)
    alive, length = survival(each), 520.0
    if during:
        after = integral(alive, 720.0) / alive(720.0)
        expected = integral(alive, length) + (1 - alive(length)) * after
    else:
        lost = 1 - alive(length)
        expected = (integral(alive, length) + lost * 200.0) / alive(length)
    found = simulate(each, trials=200_000)
    assert abs(score(found, "wall_time", expected)[0]) < 4
    assert found["wall_time_error"][0] < 0.004 * expected


def long_run(each: dict[str, float]) -> dict[str, float]:
    """Renewal reward: mean work kept in a time between failures, over its mean.

    A life y keeps its safe checkpoints, floor((y - R - F) / L), less a geometric number of
    unreadable ones.
    """
    alive, bad = survival(each), each["corruption"]
    segment = each["interval"] + each["stall"]
    n = np.arange(1, 20_000)
    reached = alive(each["recovery"] + each["flush"] + n * segment)  # P(at least n are safe)
    readable = (1 - bad) * sum(bad**g * reached[g:].sum() for g in range(60 if bad else 1))
    return {
        "goodput": each["interval"] * readable / each["mtbf"],
        "checkpoint_overhead": each["stall"] * readable / each["mtbf"],
        "recovery_overhead": integral(alive, each["recovery"]) / each["mtbf"],
    }


@pytest.mark.slow
def test_long_jobs_earn_what_renewal_theory_says() -> None:
    cases = [
        job(shape=shape, flush=flush, corruption=bad, recovery=recovery, work=3e3 * mean, mtbf=mean)
        for shape in (0.5, 0.8, 1.0, 3.0)
        for flush in (0.0, 400.0)
        for bad in (0.0, 0.3)
        for recovery in (50.0, 2000.0)
        for mean in (3e3, 1e5)
    ]
    found = simulate(*cases, trials=100)
    earned = [long_run(each) for each in cases]
    for name in earned[0]:
        expected = np.array([each[name] for each in earned])
        scores = score(found, name, expected)
        assert abs(scores).max() < 4.5
        assert 0.6 < (scores**2).mean() < 1.5
        assert (found[f"{name}_error"] < 0.02 * expected).all()


def test_a_large_shape_fails_at_fixed_times() -> None:
    # By hand: lives of 1000 s, segments of 220 s. Four segments, 120 s lost; 100 s of recovery,
    # four segments, 20 s lost; 100 s of recovery, the last two segments: 2540 s.
    each = job(mtbf=1000.0, shape=1e7, interval=200.0, recovery=100.0, work=2000.0)
    found = simulate(each, trials=10)
    assert found["wall_time"][0] == pytest.approx(2540, abs=0.01)
    assert found["failures"][0] == 2
    assert found["rework_overhead"][0] * 2540 == pytest.approx(140, abs=0.01)
    assert found["recovery_overhead"][0] * 2540 == pytest.approx(200, abs=0.01)


# Flush, corruption, spares


def test_a_rare_failure_costs_half_a_segment_and_the_flush() -> None:
    cases = [job(mtbf=1e6, work=1e9, flush=flush) for flush in (0.0, 100.0, 400.0)]
    found = simulate(*cases, trials=200)
    lost = found["rework_overhead"] * found["wall_time"] / found["failures"]
    # to first order in L / M: 0.05 %
    np.testing.assert_allclose(lost, [260, 360, 660], rtol=5e-3)


def test_each_unreadable_checkpoint_costs_a_segment_more() -> None:
    cases = [job(mtbf=1e6, work=1e9, corruption=bad) for bad in (0.1, 0.5)]
    found = simulate(*cases, trials=200)
    lost = found["rework_overhead"] * found["wall_time"] / found["failures"]
    np.testing.assert_allclose(lost - 260, [520 / 9, 520], rtol=0.03)


def poisson_tail(count: int, mean: float) -> float:
    return 1 - sum(math.exp(-mean) * mean**n / math.factorial(n) for n in range(count))


def test_a_spare_is_missing_as_often_as_all_are_in_repair() -> None:
    # Nodes in repair are Poisson (Palm 1938), and failures see time averages.
    pairs = [(spares, mean) for spares in (0, 1, 2, 5, 10) for mean in (0.1, 1.0, 4.0)]
    cases = [
        job(mtbf=1e4, repair=mean * 1e4, spares=spares, provision=600.0, work=5e7)
        for spares, mean in pairs
    ]
    found = simulate(*cases, trials=300)
    for k, (spares, mean) in enumerate(pairs):
        expected, got = poisson_tail(spares, mean), found["spare_shortage"][k]
        if spares == 0:
            assert got == 1
        elif expected > 1e-4:
            assert abs(got - expected) < 4.5 * found["spare_shortage_error"][k]
            assert abs(got - expected) < 0.05 * expected
        else:
            assert got < 1e-4


def test_a_group_of_nodes_takes_as_many_spares() -> None:
    # Groups and single nodes away are Poisson: a failure finds spares if all its nodes fit
    for pool in (monte_carlo.OPEN, monte_carlo.CLOSED):
        sizes = [(spares, share) for spares in (2, 4, 9, 12) for share in (0.3, 1.0)]
        group = {"group": 4.0, "pool": pool, "nodes": 4000.0}
        cases = [
            job(mtbf=1e4, repair=1e4, spares=spares, provision=600.0, work=4e7, **group)
            | {"group_share": share}
            for spares, share in sizes
        ]
        name = "spare_shortage" if pool == monte_carlo.OPEN else "whole_cluster_probability"
        found = simulate(*cases, trials=100)
        for k, (spares, share) in enumerate(sizes):
            single = [math.exp(share - 1) * (1 - share) ** n / math.factorial(n) for n in range(13)]
            fours = [math.exp(-share) * share**n / math.factorial(n) for n in range(4)]
            most = np.array(
                [sum(single[: spares + 1 - 4 * n]) for n in range(4) if spares >= 4 * n]
            )
            fit = float(most @ fours[: len(most)])
            if pool == monte_carlo.OPEN:
                tight = [sum(single[: max(spares - 3 - 4 * n, 0)]) for n in range(4)]
                short = [sum(single[: max(spares - 4 * n, 0)]) for n in range(4)]
                fit = 1 - share * float(np.dot(tight, fours))
                fit -= (1 - share) * float(np.dot(short, fours))
            off = abs(found[name][k] - fit)
            assert off < 4.5 * found[f"{name}_error"][k] + 2e-3, (pool, spares, share)
    # With crews, of a group that failed a time t ago each is away with probability e^-t, and
    # log E[z^N] is the integral over t of (1 + e^-t (z - 1))^4 - 1
    found = simulate({**cases[-1], "crews": 1e6}, trials=100)
    z = np.exp(2j * np.pi * np.arange(256) / 256)
    generating = np.exp(sum(math.comb(4, k) * (z - 1) ** k / k for k in range(1, 5)))
    fit = float(np.fft.fft(generating).real[:13].sum()) / 256
    assert abs(found[name][0] - fit) < 4.5 * found[f"{name}_error"][0] + 2e-3


def test_no_spare_waits_for_provision_and_many_never_do() -> None:
    none = job(provision=900.0, spares=0.0, repair=1e5)
    found = simulate(none, {**none, "spares": 1e9}, {**none, "spares": 5.0, "repair": 0.0})
    expected = [daly(job(recovery=r))["goodput"] for r in (1200.0, 300.0, 300.0)]
    assert abs(score(found, "goodput", expected)).max() < 4.5
    assert found["spare_shortage"].tolist() == [1, 0, 0]


def closed(spares: int, busy: float, pool: float) -> dict[str, float]:
    """A closed pool of 512 nodes; repairs last as long as `busy` failures take."""
    return job(spares=spares, repair=busy * 1e4, pool=pool, nodes=512.0, work=4e7)


@pytest.mark.slow
def test_a_closed_pool_waits_as_queueing_theory_says() -> None:
    sizes = [(spares, busy) for spares in (0, 1, 2, 5, 10) for busy in (0.1, 1.0, 4.0)]
    for pool in (monte_carlo.CLOSED, monte_carlo.IDLE_SAFE):
        cases = [closed(spares, busy, pool) for spares, busy in sizes]
        found = simulate(*cases, trials=60)
        for k, (spares, busy) in enumerate(sizes):
            if pool == monte_carlo.CLOSED:  # each node is away for R / (R + L) of the time
                away, total = busy / (512 + busy), 512 + spares
                chances = [
                    math.comb(total, n) * away**n * (1 - away) ** (total - n)
                    for n in range(spares + 1)
                ]
                whole = math.fsum(chances)
            else:  # Erlang 1917: a loss system of S + 1 servers
                terms = [busy**n / math.factorial(n) for n in range(spares + 2)]
                whole = sum(terms[:-1]) / sum(terms)
            error = max(found["whole_cluster_probability_error"][k], 1e-6)
            assert abs(found["whole_cluster_probability"][k] - whole) < 4.5 * error
            assert error < 0.02 * whole
            # failures stop while the job waits: its other shares shrink in proportion
            goodput = whole * daly(JOB)["goodput"]
            assert abs(found["goodput"][k] - goodput) < 4.5 * found["goodput_error"][k]


def test_a_closed_pool_that_is_never_whole_is_given_up() -> None:
    _, verdicts = monte_carlo.run(rows(closed(0, 300.0, monte_carlo.CLOSED)), 2, 0, 1)
    assert verdicts.tolist() == [monte_carlo.TOO_MANY_FAILURES]


# Kinds of failures, and corruption found late


def of_kinds(each: dict[str, float]) -> dict[str, float]:
    """Shares by renewal reward: lives outlast recoveries of any kind; delays stop the clock."""
    mean, length = each["mtbf"], each["interval"] + each["stall"]
    rest = 1 - each["in_process"] - each["in_job"] - each["requeue"]
    kinds = [(rest, each["recovery"])]
    kinds += [(each[k], each[f"{k}_recovery"]) for k in ("in_process", "in_job", "requeue")]
    alive = sum(share * math.exp(-time / mean) for share, time in kinds)
    live = 1 / (1 + each["silent"] * each["latency"] / mean)
    kept = live * alive / mean / math.expm1(length / mean)
    return {
        "goodput": kept * each["interval"],
        "checkpoint_overhead": kept * each["stall"],
        "recovery_overhead": live * (1 - alive),
        "rework_overhead": 1 - kept * length - live * (1 - alive),
    }


def test_kinds_and_late_corruption_cost_what_renewal_theory_says() -> None:
    cases = [
        job(**{**KINDS, **kinds}, mtbf=mean, silent=silent, latency=latency, work=3e3 * mean)
        for kinds in ({}, {"in_process": 0.0}, {"requeue": 0.4}, dict.fromkeys(KINDS, 0.0))
        for mean in (1500.0, 1e4, 1e5)
        for silent, latency in ((0.0, 0.0), (0.1, 0.0), (0.1, 5e3), (0.5, 2e4))
    ]
    found = simulate(*cases, trials=100)
    for name in of_kinds(JOB):
        expected = np.array([of_kinds(each)[name] for each in cases])
        scores = score(found, name, expected)
        assert abs(scores).max() < 4.5, name
        assert 0.6 < (scores**2).mean() < 1.5, name


def test_lives_of_one_length_are_played_by_hand() -> None:
    # Lives of 1000 s, segments of 220 s, all of it corruption found 300 s later, recovery of 100 s.
    # The first life keeps four segments and loses 120 s; the next two have 600 s left for work,
    # keep two segments and lose 160 s; the last has what the last two segments need.
    given = {"mtbf": 1000.0, "shape": 1e7, "interval": 200.0, "recovery": 100.0, "work": 2000.0}
    given |= {"silent": 1.0, "latency": 300.0}
    each = job(**given)
    found = simulate(each, trials=10)
    assert found["failures"][0] == 3
    assert found["rework_overhead"][0] * found["wall_time"][0] == pytest.approx(
        3 * 300 + 120 + 2 * 160, abs=0.1
    )
    assert found["wall_time"][0] == pytest.approx(2200 + 1340 + 300, abs=0.1)


def test_restarts_keep_their_nodes() -> None:
    # Nodes in repair are Poisson, of the failures that lose one: 0.4 of them, by Palm 1938
    each = job(repair=2e4, spares=2.0, provision=600.0, work=5e7, **KINDS)
    found = simulate(each, {**each, "in_process": 0.7, "in_job": 0.3, "requeue": 0.0}, trials=300)
    expected = 0.3 * poisson_tail(2, 0.4 * 2)  # a requeue has its own wait
    assert abs(found["spare_shortage"][0] - expected) < 4.5 * found["spare_shortage_error"][0]
    assert found["spare_shortage"][1] == 0


def test_failures_alike_are_one_kind_and_draw_as_before() -> None:
    one = job(shape=0.7, flush=100.0, corruption=0.2)
    unset = simulate({**one, "in_process_recovery": 0.0})
    assert unset["wall_time"] == simulate(one)["wall_time"]
    alike = dict.fromkeys(("in_process_recovery", "in_job_recovery", "requeue_recovery"), 300.0)
    kinds = simulate({**one, **KINDS, **alike}, trials=4000)
    plain = simulate(one, trials=4000)
    error = math.hypot(kinds["goodput_error"][0], plain["goodput_error"][0])
    assert abs(kinds["goodput"][0] - plain["goodput"][0]) < 4.5 * error


# Tiers, ages and parts of a job

TIERS = {"drive_every": 2.0, "storage_every": 2.0, "memory_stall": 10.0, "drive_stall": 20.0}


@pytest.mark.slow
def test_tiers_are_played_by_hand() -> None:
    # Lives of 1000 s, segments of 210 s, 20 s more for each second, on drives: these end at 440 and
    # 880 s. The first life loses 120 s, the next two 410 s of 850 s; the last needs 440 s.
    lives = {"mtbf": 1000.0, "shape": 1e7, "interval": 200.0, "work": 2000.0, "recovery": 100.0}
    drives = job(**lives, **TIERS, drive_share=1.0, drive_restore=50.0)
    # Copies take 400 s: that of 880 s is not safe at 1000 s
    slow = {**drives, "drive_flush": 400.0, "storage_flush": 400.0}
    # Storage's segments are of 900 s, 20 s for its stall: lives of 950 s keep one of two
    storage = job(**lives, **TIERS, storage_stall=20.0, storage_restore=-50.0)
    memory = {**storage, "memory_share": 1.0, "memory_restore": 5.0}
    # without both stalls at the end: lives of 830 s lose 390 s, and 410 s are left for the last
    unsaved = {**drives, "unsaved": 1.0, "recovery": 120.0}
    found = simulate(drives, slow, storage, memory, unsaved, trials=5)
    wall, rework = found["wall_time"], found["rework_overhead"] * found["wall_time"]
    assert found["failures"][0] == 3
    assert rework[0] == pytest.approx(120 + 410 + 410, abs=0.1)
    assert wall[0] == pytest.approx(2200 + 940 + 3 * 150, abs=0.1)
    assert found["failures"][1] == 4
    assert rework[1] == pytest.approx(560 + 3 * 410, abs=0.1)
    # 2240 in all: 900, 900 of 950, then 440 are left
    assert found["failures"][2] == 2
    assert rework[2] == pytest.approx(100 + 50, abs=0.1)
    assert wall[2] == pytest.approx(2240 + 150 + 2 * 50, abs=0.1)
    # memory's end at 210, 420 (440 with that on drives), 650, 860 (880, 900): 895 s is in a stall
    assert found["failures"][3] == 2
    assert rework[3] == pytest.approx(100 + 15, abs=0.1)
    assert rework[4] == pytest.approx(120 + 390 + 390, abs=0.1)
    assert wall[4] == pytest.approx(2200 - 30 + 900 + 3 * 170, abs=0.1)


def test_one_tier_is_the_file_checkpoint() -> None:
    one = {"drive_every": 1.0, "storage_every": 1.0}
    cases = [
        job(**one, storage_stall=20.0),
        job(**one, memory_share=1.0, memory_stall=20.0),
        job(**one, drive_share=1.0, drive_stall=20.0),
    ]
    found = simulate(*cases)
    for name, expected in daly(JOB).items():
        assert abs(score(found, name, np.full(3, expected))).max() < 4.5, name


def test_failures_come_as_often_as_hardware_of_that_age_fails() -> None:
    # Poisson, with the integral of the rate as mean: burn-in, wear-out, both and neither
    free = {"interval": 0.0, "stall": 0.0, "recovery": 0.0, "mtbf": 1e4, "work": 4e5}
    ages = {"steady": 0.3, "ageing": 0.5, "burn_in_time": 1e5, "wear_age": math.inf}
    cases = [
        job(**free, **{**ages, "wear_shape": 3.0, **more})
        for more in (
            {},
            {"burn_in": 4.0},
            {"burn_in": 4.0, "age": 2e5},
            {"wear_age": 2e5},
            {"wear_age": 2e5, "age": 3e5, "burn_in": 2.0, "wear_shape": 1.5},
        )
    ]
    found = simulate(*cases, trials=2000)
    for k, each in enumerate(cases):
        clock = (each["age"] + np.linspace(0, each["work"], 100_001))[:, None]
        rate = 1 + each["burn_in"] * np.exp(-clock / each["burn_in_time"])
        rate += (clock / each["wear_age"]) ** (each["wear_shape"] - 1)
        mean = each["work"] / each["mtbf"] * float(each["steady"] + each["ageing"] * rate.mean())
        assert abs(found["failures"][k] - mean) < 4.5 * found["failures_error"][k]
        spread = found["failures_error"][k] * math.sqrt(2000)
        assert spread == pytest.approx(math.sqrt(mean), rel=0.08)  # Poisson


def test_parts_of_a_job_add_up() -> None:
    parts = [job(), job(mtbf=3e3, work=2e5), job(shape=0.7), job(interval=2e3)]
    alone = simulate(*parts)
    found, verdicts = monte_carlo.run(rows(*parts), 1000, 0, 2, parts=2)
    whole = dict(zip(STATISTICS, found.T, strict=True))
    assert verdicts.tolist() == [0, 0]
    pairs = alone["wall_time"].reshape(2, 2)
    assert whole["wall_time"] == pytest.approx(pairs.sum(axis=1))
    assert whole["goodput"] == pytest.approx([1.2e6 / pairs[0].sum(), 2e6 / pairs[1].sum()])
    errors = np.hypot(*alone["wall_time_error"].reshape(2, 2).T)
    assert whole["wall_time_error"] == pytest.approx(errors, rel=0.1)  # they are independent
    endless = job(mtbf=1.0, interval=100.0)
    found, verdicts = monte_carlo.run(rows(job(), endless), 10, 0, 1, parts=2)
    assert verdicts.tolist() == [monte_carlo.TOO_MANY_FAILURES]
    assert np.isnan(found).all()


# Elastic jobs

SHRINKING = {"mtbf": 1000.0, "shape": 1e7, "interval": 200.0, "work": 1400.0, "recovery": 100.0}
SHRINKING |= {"nodes": 4.0, "replica_nodes": 1.0, "rounds": 3.0, "repair": 500.0}
GROWTHS = (monte_carlo.FREE, monte_carlo.STOP, monte_carlo.NEXT_FAILURE, monte_carlo.RESTART)


def test_elastic_jobs_are_played_by_hand() -> None:
    # The first life keeps 800 s of work, and loses 120 s. From 1100 s on three replicas do the
    # rounds of four in 4 instead of 3: 1000 s of work are saved at 1387 s. Whole again at 1500 s,
    # 85 s of work later, the job goes on; stops for 50 s; waits for the next failure, at 2000 s; or
    # stops for 50 s, and does the 85 s again. Seven checkpoints take 140 s
    slow = 380 / 4  # of 1100 s to 1500 s, less a stall
    jobs = [job(**SHRINKING, growth=growth, growth_stop=50.0) for growth in GROWTHS]
    spared = job(**SHRINKING, spares=1.0)
    switch = job(**SHRINKING, nodeless=1.0)
    kept = job(**SHRINKING, in_process=1.0, in_process_recovery=100.0)
    unsaved = job(**SHRINKING, unsaved=1.0)
    found = simulate(*jobs, spared, switch, kept, unsaved, trials=10)
    shrunk = np.array([slow, slow + 50, 600 / 3, slow + 50 + 85, 0, 0, 0, slow])
    wall = 1400 + 140 + 120 + 100 + shrunk - 20 * np.array([0, 0, 0, 0, 0, 0, 0, 1])
    np.testing.assert_allclose(found["wall_time"], wall, atol=0.1)
    np.testing.assert_allclose(found["elastic_capacity"], 1400 / (1400 + shrunk), atol=1e-4)
    np.testing.assert_allclose(found["goodput"], (1400 + shrunk) / wall, atol=1e-4)
    np.testing.assert_allclose(found["rework_overhead"] * wall, 120, atol=0.1)
    np.testing.assert_allclose(found["recovery_overhead"] * wall, 100, atol=0.1)
    assert (found["failures"] == 1).all()
    assert found["spare_shortage"].tolist() == [1, 1, 1, 1, 0, 0, 0, 1]


def test_an_elastic_job_goes_back_to_what_is_safe() -> None:
    # At 1000 s the checkpoint of 880 s is not safe, that of 660 s is: 340 s are lost. The repair
    # takes as long as the recovery, so that it does not shrink
    asynchronous = job(**{**SHRINKING, "repair": 100.0}, flush=150.0)
    found = simulate(asynchronous, trials=10)
    assert found["rework_overhead"][0] * found["wall_time"][0] == pytest.approx(340, abs=0.1)
    assert found["elastic_capacity"][0] == pytest.approx(1, abs=1e-6)


def test_an_elastic_job_without_replicas_waits_for_one() -> None:
    # One replica of four nodes: it waits from 1100 s to 1500 s, then has the last 400 s of work
    waiting = {**SHRINKING, "work": 1200.0}
    one = job(**{**waiting, "replica_nodes": 4.0})
    # All four nodes fail at once, and are back at once
    four = job(**waiting, group_share=1.0, group=4.0)
    found = simulate(one, four, trials=10)
    np.testing.assert_allclose(found["wall_time"], 1500 + 400 + 2 * 20, atol=0.1)
    waited = (1 - found["whole_cluster_probability"]) * found["wall_time"]
    np.testing.assert_allclose(waited, 400, atol=0.1)
    np.testing.assert_allclose(found["elastic_capacity"], 1200 / 1600, atol=1e-4)


def test_an_elastic_job_that_loses_no_node_is_the_usual_one() -> None:
    given = {"mtbf": 3e3, "flush": 100.0, **KINDS, "in_job": 0.6, "requeue": 0.0}
    usual = simulate(job(**given), job(**given, fails_in_recovery=0.0))
    many = {"nodes": 10.0, "replica_nodes": 2.0, "rounds": 8.0, "spares": 5.0}
    elastic = [job(**given, **many, fails_in_recovery=during) for during in (1.0, 0.0)]
    found = simulate(*elastic, seed=1)
    np.testing.assert_allclose(found["elastic_capacity"], 1, rtol=1e-9)
    assert (found["failures"] > 100).all()
    for name in ("goodput", "rework_overhead", "recovery_overhead", "wall_time", "failures"):
        error = np.hypot(found[f"{name}_error"], usual[f"{name}_error"])
        assert (abs(found[name] - usual[name]) < 4.5 * error).all(), name


# What cannot be simulated


def test_a_job_that_never_ends_is_given_up_and_its_neighbours_are_not() -> None:
    endless = job(mtbf=1.0, interval=100.0)
    found, verdicts = monte_carlo.run(rows(JOB, endless, JOB), 100, 0, 2)
    assert verdicts.tolist() == [0, monte_carlo.TOO_MANY_FAILURES, 0]
    assert np.isnan(found[1]).all()
    assert np.array_equal(found[0], found[2])
    assert MOST_FAILURES > 1e5


@pytest.mark.parametrize(
    "wrong",
    [
        {"mtbf": math.nan},
        {"interval": 0.0},
        {"work": 0.0},
        {"in_process": 0.6, "requeue": 0.6},
        {"silent": 1.5},
        {"replica_nodes": 1.0, "rounds": 1.0, "interval": 0.0, "stall": 0.0},
    ],
    ids=str,
)
def test_a_job_without_meaning_is_undefined(wrong: dict[str, float]) -> None:
    found, verdicts = monte_carlo.run(rows(job(**wrong)), 10, 0, 1)
    assert verdicts.tolist() == [monte_carlo.UNDEFINED]
    assert np.isnan(found).all()


# The same bits


def test_results_do_not_depend_on_threads_neighbours_or_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs = rows(*(job(mtbf=m, shape=s, spares=2.0, repair=1e4) for m in (1e3, 1e5) for s in (1, 2)))
    found, _ = monte_carlo.run(jobs, 500, 7, 1)
    for threads in (2, 3):
        assert np.array_equal(monte_carlo.run(jobs, 500, 7, threads)[0], found)
    assert np.array_equal(monte_carlo.run(jobs[2:3], 500, 7, 1)[0], found[2:3])
    assert np.array_equal(monte_carlo.run(jobs[::-1].copy(), 500, 7, 2)[0], found[::-1])
    monkeypatch.setattr(monte_carlo, "_TRIALS_AT_ONCE", 700)
    assert np.array_equal(monte_carlo.run(jobs, 500, 7, 2)[0], found)


def test_seeds_points_and_trials_have_streams_of_their_own() -> None:
    seeds = [simulate(JOB, seed=seed)["wall_time"][0] for seed in (0, 1, 2**64 - 1)]
    assert len(set(seeds)) == 3
    # nearly the same job with other random numbers: goodput scatters by its error
    near = [job(recovery=300 * (1 + 1e-9 * k)) for k in range(300)]
    found = simulate(*near, trials=50)
    spread = found["goodput"].std(ddof=1) / found["goodput_error"].mean()
    assert 0.85 < spread < 1.15
