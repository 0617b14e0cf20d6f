"""Failures, spares, checkpoints and their costs: simulated, integrated or read from tables."""

import csv
import heapq
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

from fleetcube.kernels.laws import checkpoint, repair, statistics

from ... import formulas
from ...evaluated import computed, value
from ..check import Pairs, check

TABLE = Path(__file__).parents[2] / "data" / "young_daly.csv"
NEVER = math.inf


# Failure rates of nodes and jobs


@check(
    "measured_node_mttf",
    by="table",
    source="Grattafiori et al. 2024, section 3.3.4: 419 interruptions in 54 days on 16,384 GPUs",
)
def counted_interruptions() -> Pairs:
    """the MTBF of their job, and of one of 2,000 GPUs, without a rate of parts beside it"""
    for gpus in (16384, 2000):
        point = {
            "n_gpus": gpus,
            "interruption_mttf": 54 * 86400 * 16384 / 419,
            "cables_per_node": 8,
        }
        yield computed(point, "cluster_mtbf")[0], 54 * 86400 * 16384 / gpus / 419


@check(
    "parts_mttf",
    by="simulator",
    source="a million nodes, each as old as the first of its parts to fail",
    tolerance=5e-3,
)
def node_lives() -> Pairs:
    """a node of 8 GPUs, 8 cards, 2 power supplies, 16 cables, a host and its software"""
    rng = np.random.default_rng(1)
    parts = [(8, 5e4), (8, 1.5e5), (2, 1e5), (16, 1e6), (1, 3e4), (1, 2e4), (8, 4e5)]
    first = np.full(1_000_000, NEVER)
    for count, mean in parts:
        first = np.minimum(first, rng.exponential(mean / count, len(first)))
    gpu, card, supply, cable, host, software, corruption = (mean for _, mean in parts)
    ours = formulas.parts_mttf(8, gpu, 8, card, 2, supply, 16, cable, host, software, corruption)
    yield ours, first.mean()


@check(
    "component_node_failure_rate component_cluster_mtbf interruptions_per_failure "
    "expected_failures failed_nodes mean_time",
    by="simulator",
    source="events of single nodes, of domains and of switches, drawn for each and counted",
    tolerance=1e-2,
)
def interruptions() -> Pairs:
    """1 to 256 nodes, none to all of their failures in domains of 4, with and without switches"""
    rng = np.random.default_rng(2)
    life, span = 1000.0, 4e4
    for nodes in (1.0, 2.0, 64.0, 256.0):
        for shared in (0.0, 0.4, 1.0):
            for switches, switch_life in ((0.0, NEVER), (8.0, 500.0)):
                rate = formulas.component_node_failure_rate(nodes, life)
                mtbf = formulas.component_cluster_mtbf(
                    rate, shared, 4.0, nodes, switches, switch_life, 0.0
                )
                hit = min(4, nodes)
                repeats = max(1, round(2e6 / (nodes * span / life)))
                lost = hits = 0
                for node_events, mean in (
                    (1, nodes * (1 - shared) / life),
                    (hit, nodes * shared / life / hit),
                    (0, switches / switch_life),
                ):
                    count = rng.poisson(mean * span, repeats).sum()
                    hits += count
                    lost += count * node_events
                yield formulas.expected_failures(span, 1.0, mtbf), hits / repeats
                yield formulas.failed_nodes(span, 1.0, rate), lost / repeats


@check(
    "power_law_mtbf empirical_cluster_mtbf empirical_node_failure_rate",
    by="table",
    source="Kokolis et al. 2025: 6.50 failures in 1,000 node-days; MTBF printed to two digits",
    tolerance=2.2e-2,
)
def projected_mtbf() -> Pairs:
    """16,384 and 131,072 GPUs: 1.8 h and 0.23 h"""
    days = 1000 / 6.5 / 128
    for gpus, hours in ((16384, 1.8), (131072, 0.23)):
        yield formulas.empirical_cluster_mtbf(24 * days, 1024, gpus, 1.0), hours
        yield 1 / formulas.empirical_node_failure_rate(24 * days, 1024, gpus, 1.0), hours


@check(
    "failure_probability exponential_failure_probability weibull_failure_probability",
    by="derivation",
    source="the density of a lifetime of that mean, integrated in 30 digits",
)
def failure_probabilities() -> Pairs:
    """shapes 0.5 to 3, a hundredth of the mean life to three of it"""
    with mpmath.workdps(30):
        for shape in (0.5, 0.7, 1.0, 3.0):
            scale = 1 / mpmath.gamma(1 + 1 / mpmath.mpf(shape))
            for time in (0.01, 0.3, 1.0, 3.0):
                # in u = (t / scale)^k, in which the density is e^-u
                end = (time / scale) ** shape
                theirs = float(mpmath.quad(lambda u: mpmath.exp(-u), [0, end]))
                yield formulas.weibull_failure_probability(time, 1.0, shape), theirs
                if shape == 1:
                    yield formulas.exponential_failure_probability(time, 1.0), theirs


# Nodes in repair


@check(
    "poisson_at_most poisson_below poisson_probability poisson_excess hot_spare_availability "
    "hot_spare_missing_nodes",
    by="derivation",
    source="the incomplete gamma function in 40 digits (mpmath)",
)
def poisson_tails() -> Pairs:
    """0 to 5,000 spares, also fractional ones, 1e-6 to 1e5 nodes in repair"""
    with mpmath.workdps(40):
        for count in (0.0, 0.5, 1.0, 1.3, 5.0, 30.0, 300.0, 5000.0):
            for mean in (1e-6, 0.1, 1.0, 10.5, 100.0, 5000.0, 1e5, count + 1, 1.1 * count + 0.1):
                most = mpmath.gammainc(count + 1, mean, mpmath.inf, regularized=True)
                one = mpmath.exp(count * mpmath.log(mean) - mean - mpmath.loggamma(count + 1))
                excess = (mean - count) * (1 - most) + mean * one
                if most > 1e-290:
                    yield statistics.poisson_at_most(count, mean), float(most)
                    # near 0, as a difference: absolute
                    yield (
                        1 + formulas.hot_spare_availability(count, mean, 1.0),
                        float(1 + (most - one if count else 0)),
                    )
                    yield 1 + formulas.hot_spare_missing_nodes(count, 1.0, mean), float(1 + excess)


@check(
    "erlang_carried closed_idle_safe_whole_cluster_probability",
    by="derivation",
    source="Erlang's recursion 1/B(n) = 1 + n / (a B(n - 1)), from B(0) = 1",
)
def erlang_recursion() -> Pairs:
    """0 to 5,000 spares, 1e-3 to 1e5 nodes in repair"""
    for spares in (0, 1, 5, 50, 1000, 5000):
        for load in (1e-3, 0.5, 1.0, 10.5, 1000.0, 1e5, spares + 0.999, spares + 1.0):
            inverse = 1.0
            for n in range(1, spares + 2):
                inverse = 1 + n / load * inverse if inverse < 1e200 else NEVER
            law = formulas.closed_idle_safe_whole_cluster_probability
            yield law(float(spares), load, 1.0), 1 - 1 / inverse


REPAIRS: tuple[Callable[[Any], float], ...] = (  # of mean 1
    lambda rng: 1.0,
    lambda rng: float(rng.exponential()),
    lambda rng: float(rng.uniform(0, 2)),
)


def _played(
    nodes: int, spares: int, life: float, draw: Callable[[Any], float], idle_fails: bool, seed: int
) -> tuple[float, float]:
    """Share of the time in which `nodes` of all are whole, and how often one of them fails.

    Every node and repair is simulated; where idle nodes fail, their failures count, too.
    """
    rng = np.random.default_rng(seed)
    repaired: list[float] = []
    clock = whole = 0.0
    failed = 0
    end = 20_000 * life / nodes
    while clock < end:
        up = nodes + spares - len(repaired)
        running = up >= nodes
        failing = up if idle_fails else nodes * running
        next_failure = clock + rng.exponential(life / failing) if failing else NEVER
        event = min(next_failure, repaired[0] if repaired else NEVER)
        whole += (event - clock) * running
        clock = event
        if event == next_failure:
            heapq.heappush(repaired, clock + draw(rng))
            failed += 1
        else:
            heapq.heappop(repaired)
    return whole / clock, failed / clock


@check(
    "time_at_risk working_time_multi_site_false",
    by="simulator",
    source="a calendar, hour by hour: made ready, maintained or at work",
    tolerance=1e-9,
)
def hours_at_risk() -> Pairs:
    """100 and 10 hours, none to 20 of them to be made ready, then none, half or all maintained"""
    for hours, ready, maintained in itertools.product((100, 10), (0, 20), (0, 1, 2)):
        calendar = [h >= ready and h % 2 >= maintained for h in range(hours)]
        found = formulas.time_at_risk(hours, ready, maintained / 2)
        yield formulas.working_time_multi_site_false(found), float(sum(calendar))


@check(
    "closed_whole_cluster_probability closed_idle_safe_whole_cluster_probability "
    "expected_failures failed_nodes",
    by="simulator",
    source="a queue of repairs, node by node, of constant, exponential and uniform lengths",
    tolerance=3e-2,
)
def repair_queue() -> Pairs:
    """16 and 256 nodes, 0 to 5 spares, 0.5 to 4 nodes in repair, idle nodes failing or not"""
    seed = 0
    for nodes, spares, busy in ((256, 0, 0.5), (256, 2, 2.0), (256, 5, 4.0), (16, 1, 0.5)):
        life = nodes / busy
        for draw in REPAIRS:
            seed += 1
            failing = formulas.closed_whole_cluster_probability(spares, 1.0, busy, nodes)
            safe = formulas.closed_idle_safe_whole_cluster_probability(spares, 1.0, busy)
            yield failing, _played(nodes, spares, life, draw, True, seed)[0]
            whole, failed = _played(nodes, spares, life, draw, False, seed)
            yield safe, whole
            yield formulas.expected_failures(1.0, safe, life / nodes), failed
            yield formulas.failed_nodes(1.0, safe, nodes / life), failed


@check(
    "closed_whole_cluster_probability",
    by="derivation",
    source="n + S nodes, each in repair with probability R / (R + L): a binomial sum",
    tolerance=3e-4,
)
def binomial_repairs() -> Pairs:
    """8 to 2,048 nodes, repairs of a thousandth to a hundredth of a node's life: 256 nodes of which
    one fails each day, repaired in three days, among them"""
    for nodes, ratio in itertools.product((8, 64, 256, 2048), (1e-3, 3 / 256)):
        for spares in (0, 1, 4, 8):
            away, total = ratio / (1 + ratio), nodes + spares
            theirs = math.fsum(
                math.comb(total, k) * away**k * (1 - away) ** (total - k) for k in range(spares + 1)
            )
            yield formulas.closed_whole_cluster_probability(spares, ratio, nodes, nodes), theirs


def _chain(births: list[float], crews: float, repair: float) -> list[float]:
    """Shares of time with 0, 1, ... nodes in repair, by balance equations of births and deaths."""
    logs = [0.0]
    for k, rate in enumerate(births):
        logs.append(logs[-1] + math.log(rate * repair / min(k + 1, crews)))
    largest = max(logs)
    weights = [math.exp(each - largest) for each in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


@check(
    "erlang_blocked poisson_truncated spare_left whole_of_safe crews_spare_left_probability "
    "crews_whole_safe_pool_probability",
    by="derivation",
    source="the balance of births and deaths, state by state",
    tolerance=2e-8,
)
def crews_and_steady_failures() -> Pairs:
    """1 to 1,000 crews, at work for 0.01 to 0.99 of the time and beyond, 0 to 500 spares"""
    for crews in (1, 2, 10, 100, 1000):
        for busy in (0.01, 0.5, 0.9, 0.99, 1.0, 2.0):
            load = crews * busy
            full = _chain([load] * crews, crews, 1.0)
            yield statistics.erlang_blocked(float(crews), load), full[-1]
            few = crews // 2
            part = math.fsum(full[: few + 1])
            if part > 1e-280:
                yield statistics.poisson_truncated(float(few), float(crews), load), part
            endless = _chain([load] * 9000, crews, 1.0)
            for spares in (0, 1, 5, 20, 500):
                left = math.fsum(endless[:spares]) if busy < 1 else 0.0
                place = (float(spares), float(crews))
                yield 1 + repair.spare_left(*place, load), 1 + left
                yield 1 + formulas.crews_spare_left_probability(*place, 2.0, load / 2), 1 + left
                whole = math.fsum(_chain([load] * (spares + 1), crews, 1.0)[:-1])
                yield repair.whole_of_safe(*place, load), whole
                law = formulas.crews_whole_safe_pool_probability
                yield law(*place, 2.0, load / 2), whole


@check(
    "queue_odds whole_of_pool missing_of_pool crews_whole_pool_probability crews_nodes_in_repair "
    "crews_nodes_beyond_spares",
    by="derivation",
    source="the balance of births and deaths, state by state, of nodes that all fail alike",
    tolerance=2.2e-3,
)
def crews_and_pools() -> Pairs:
    """1 to 2,048 nodes, 0 to 100 spares, 1 to 5,000 crews, repairs of 1e-5 to 1e-2 of a life"""
    for nodes, spares, crews, ratio in itertools.product(
        (1, 16, 2048), (0, 1, 5, 100), (1, 2, 10, 5000), (1e-5, 1e-3, 1e-2)
    ):
        pool = nodes + spares
        shares = _chain([float(pool - k) for k in range(pool)], crews, ratio)
        whole = math.fsum(shares[: spares + 1])
        missing = math.fsum((k - spares) * shares[k] for k in range(spares, pool + 1))
        place = (float(spares), float(crews), float(nodes), ratio)
        yield 1 + repair.whole_of_pool(*place), 1 + whole
        yield 1 + repair.missing_of_pool(*place) / nodes, 1 + missing / nodes
        odds = repair.queue_odds(*place)
        yield 1 + odds / (1 + odds), 1 + math.fsum(shares[crews + 1 :])
        rate = (1e3 * ratio, nodes / 1e3, float(nodes))
        law = formulas.crews_whole_pool_probability
        yield 1 + law(float(spares), float(crews), *rate), 1 + whole
        if spares == 0:
            found = formulas.crews_nodes_in_repair(float(crews), *rate)
            yield 1 + found / nodes, 1 + missing / nodes
        found = formulas.crews_nodes_beyond_spares(float(spares), float(crews), *rate)
        yield 1 + found / nodes, 1 + missing / nodes


@check(
    "crews_whole_pool_probability crews_whole_safe_pool_probability crews_spare_left_probability",
    by="simulator",
    source="nodes that wait for the first crew that is free, each repair by itself",
    tolerance=3e-2,
)
def repair_crews() -> Pairs:
    """16 and 256 nodes, 1 to 4 crews, 0 to 5 spares, crews that keep up and that do not"""
    seed = 0
    for nodes, spares, crews, busy in (
        (256, 2, 1, 0.7),
        (256, 5, 4, 3.0),
        (256, 3, 2, 3.0),
        (16, 0, 1, 0.5),
    ):
        for pool, law in (
            ("closed", formulas.crews_whole_pool_probability),
            ("safe", formulas.crews_whole_safe_pool_probability),
            ("open", formulas.crews_spare_left_probability),
        ):
            seed += 1
            more = (float(nodes),) if pool == "closed" else ()
            ours = law(float(spares), float(crews), 1.0, busy, *more)
            yield 1 + ours, 1 + _played_by_crews(nodes, spares, crews, nodes / busy, pool, seed)


def _played_by_crews(
    nodes: int, spares: int, crews: int, life: float, pool: str, seed: int
) -> float:
    """Share of the time in which the job is whole; in an open pool, of failures with a spare."""
    rng = np.random.default_rng(seed)
    free = [0.0] * crews  # times at which crews become free
    whole_again: list[float] = []
    clock = whole = 0.0
    found = failed = 0
    while clock < 30_000 * life / nodes:
        up = nodes + spares - len(whole_again)
        running = up >= nodes
        failing = nodes if pool == "open" else up if pool == "closed" else nodes * running
        next_failure = clock + rng.exponential(life / failing) if failing else NEVER
        event = min(next_failure, whole_again[0] if whole_again else NEVER)
        whole += (event - clock) * running
        clock = event
        if event == next_failure:
            failed += 1
            found += len(whole_again) < spares
            done = max(heapq.heappop(free), clock) + rng.exponential()
            heapq.heappush(free, done)
            heapq.heappush(whole_again, done)
        else:
            heapq.heappop(whole_again)
    return found / failed if pool == "open" else whole / clock


@check(
    "unspared_missing_nodes fixed_running_replica_share packed_running_replica_share",
    by="simulator",
    source="nodes that fail at random and stop the replicas they belong to, or form new ones",
    tolerance=2e-2,
)
def replicas_that_run() -> Pairs:
    """512 nodes of 8 GPUs, replicas of 4 to 64 GPUs, 2 to 20 nodes in repair"""
    rng = np.random.default_rng(5)
    for tensor, missing in ((8, 2.0), (4, 5.0), (16, 2.0), (64, 20.0)):
        stopped = formed = 0
        replicas, needed = 4096 // tensor, max(tensor // 8, 1)
        for _ in range(4000):
            away = rng.choice(512, rng.poisson(missing), replace=False)
            gpus = (away[:, None] * 8 + np.arange(8)).ravel()
            stopped += len(np.unique(gpus // tensor))
            formed += (512 - len(away)) // needed
        nodes = formulas.unspared_missing_nodes(missing, 1.0)
        ours = formulas.fixed_running_replica_share(nodes, 512, 8, tensor, 1, 1)
        yield 1 - ours, stopped / 4000 / replicas
        whole = math.exp(-missing)
        packed = formulas.packed_running_replica_share(nodes, whole, 512, 8, tensor, 1, 1)
        yield packed, formed / 4000 / (512 / needed)


def elastic_progress(job: dict[str, Any], events: int, rng: Any) -> float:
    """Progress of an elastic job in a unit of time, over that of the whole one: each node fails and
    is repaired by itself. What failures cost is left out; what growing again costs is not. Nodes of
    broken replicas fail, too, and stop nothing."""
    seats = [True] * job["nodes"]
    spares, waiting, back = job["spares"], 0, []
    clock = done = unsaved = stopped = 0.0
    for _ in range(events):
        there = [k for k, seat in enumerate(seats) if seat]
        fails = clock + rng.exponential(job["life"] / len(there))
        at = min(fails, back[0] if back else NEVER)
        gone = {k // job["each"] for k, seat in enumerate(seats) if not seat}
        whole = len(seats) // job["each"]
        running = len(there) // job["each"] if job["packing"] else whole - len(gone)
        rounds = math.ceil(job["rounds"] * whole / running) if running else NEVER
        ran = max(at - max(clock, min(stopped, at)), 0.0) * job["rounds"] / rounds
        done, unsaved, clock = done + ran, (unsaved + ran) % job["interval"], at
        if at == fails:
            struck = int(rng.choice(there))
            idle = struck // job["each"] in gone
            if job["packing"]:
                idle = rng.random() * len(there) > running * job["each"]
            seats[struck] = False
            heapq.heappush(back, clock + job["repair"])
            if not idle:
                unsaved, spares, waiting = 0.0, spares + waiting, 0
        else:
            heapq.heappop(back)
            if job["growth"] == "next_failure" and running:
                waiting += 1
                continue
            spares += 1
            if all(seats):
                continue
            if job["growth"] == "restart":
                done, unsaved = done - unsaved, 0.0
            if job["growth"] in ("stop", "restart"):
                stopped = max(stopped, clock) + job["stop"]
        for k, seat in enumerate(seats):
            if spares and not seat:
                seats[k], spares = True, spares - 1
    return done / clock


@check(
    "shrinking_elastic_capacity whole_job_share late_waiting_nodes node_return_rate "
    "unspared_none_in_repair_share saved_growth_stop_time unsaved_growth_stop_time",
    by="simulator",
    source="elastic jobs played node by node: failures, repairs, returns, stops, work done again",
    tolerance=1.2e-2,
)
def elastic_jobs() -> Pairs:
    """64 to 512 nodes, replicas of 2 to 8, up to 4 in repair, 0 to 3 spares, all ways to grow"""
    rng, hour = np.random.default_rng(6), 3600.0
    for nodes, each, life, away, rounds, interval, spares in (
        (256, 2, 1000, 12, 16, 1800.0, 0),
        (512, 4, 3000, 24, 8, 3600.0, 0),
        (64, 8, 4000, 24, 32, 3600.0, 0),
        (256, 2, 1000, 12, 16, 1800.0, 3),
        (64, 8, 4000, 24, 32, 3600.0, 1),
    ):
        given = {"n_gpus": 8 * nodes, "tensor_parallel": 8, "pipeline_parallel": each}
        given |= {"elastic": "shrink", "node_mttf": life * hour, "repair_time": away * hour}
        given |= {"num_microbatches": rounds, "checkpoint_interval": interval, "detection_time": 0}
        given |= {"drain_time": 40.0, "checkpoint_restore_time": 25.0, "reinit_time": 60.0}
        given |= {"checkpoint_write_time": 30.0, "spare_nodes": spares}
        for growth, packing in itertools.product(
            ("free", "stop", "next_failure", "restart"), (False, True)
        ):
            asked = given | {"elastic_growth": growth, "elastic_packing": packing}
            job = {"nodes": nodes, "each": each, "life": life * hour, "repair": away * hour}
            job |= {"rounds": rounds, "interval": interval, "spares": spares, "packing": packing}
            job |= {"growth": growth, "stop": 155.0 if growth == "stop" else 125.0}
            yield value("elastic_capacity", **asked), elastic_progress(job, 5000, rng)


@check(
    "absent_nodes shrinking_elastic_capacity",
    by="simulator",
    source="nodes that fail while they run and come back repaired to their replicas, each on a "
    "clock of its own; whole replicas and rounds counted",
    tolerance=8e-3,
    absolute=True,
)
def nodes_that_come_back() -> Pairs:
    """64 and 256 nodes, replicas of 2 to 8, repairs of 0.01 to 0.2 of a node's lifetime"""
    rng, hour, rounds, looks = np.random.default_rng(16), 3600.0, 64, 3000
    for (nodes, each), ratio in itertools.product(((64, 8), (64, 4), (256, 2)), (0.01, 0.05, 0.2)):
        given = {"n_gpus": 8 * nodes, "tensor_parallel": 8, "pipeline_parallel": each}
        given |= {"elastic": "shrink", "node_mttf": 24 * hour / ratio, "repair_time": 24 * hour}
        given |= {"num_microbatches": rounds, "elastic_growth": "free"}
        there = np.empty((looks, nodes), bool)
        for node in range(nodes):
            lives = rng.exponential(1 / ratio, int(looks * ratio * 20) + 50)
            starts = np.cumsum(lives + 1.0) - 1.0 - lives  # of lives, in repairs
            at = rng.uniform(0.1, 0.9, looks) * starts[-1]
            last = np.searchsorted(starts, at, side="right") - 1
            there[:, node] = at < starts[last] + lives[last]
        running = there.reshape(looks, -1, each).all(axis=2).sum(axis=1)
        with np.errstate(divide="ignore"):
            speed = rounds / np.ceil(rounds * (nodes // each) / running)
        yield value("elastic_capacity", **given), speed.mean()
        yield value("absent_nodes", **given) / nodes, 1 - there.mean()


@check(
    "shrinking_elastic_capacity",
    by="simulator",
    source="nodes there or not, and whole replicas made of any that are: as much faster as the "
    "Range says, at most",
    absolute=True,
)
def replicas_that_others_fill() -> Pairs:
    """64 to 1,024 nodes, replicas of 4 to 16, repairs of 0.002 to 0.075 of a lifetime"""
    rng, hour, looks = np.random.default_rng(21), 3600.0, 2000
    for (lacking, most), nodes, each, rounds in itertools.product(
        ((0.03, 0.02), (0.1, 0.08), (0.16, 0.14), (0.3, 0.24)), (64, 1024), (4, 16), (16, 256)
    ):
        given = {"n_gpus": 8 * nodes, "tensor_parallel": 8, "pipeline_parallel": each}
        given |= {"elastic": "shrink", "node_mttf": 24 * hour * each / lacking}
        given |= {"repair_time": 24 * hour, "elastic_growth": "free", "num_microbatches": rounds}
        there = rng.random((looks, nodes)) < 1 / (1 + lacking / each)
        running = there.sum(axis=1) // each
        with np.errstate(divide="ignore"):
            played = rounds / np.ceil(rounds * (nodes // each) / running)
        faster = played.mean() - value("elastic_capacity", **given)
        yield np.clip(faster, -0.01, most), faster


# Checkpoints and goodput


def _failures(parts: int, shape: float, mtbf: float, span: float, aged: bool, rng: Any) -> Any:
    """Failure times of many parts with Weibull lives, new at the start or long in use."""
    mean = parts * mtbf
    scale = mean / math.gamma(1 + 1 / shape)
    first = scale * rng.exponential(size=parts) ** (1 / shape)
    if aged:  # the rest of a life in progress, which is met in proportion to its length
        met = scale * rng.gamma(1 + 1 / shape, size=parts) ** (1 / shape)
        first = met * rng.uniform(size=parts)
    found, times = [], first
    while len(times := times[times < span]):
        found.append(times)
        times = times + scale * rng.exponential(size=len(times)) ** (1 / shape)
    return np.sort(np.concatenate(found))


@check(
    "exact_goodput goodput.expected_slowdown",
    by="simulator",
    source="64 and 512 parts, each with lives of its own, and what the job keeps between failures",
    tolerance=2e-3,
)
def many_parts_with_weibull_lives() -> Pairs:
    """parts long in use, shapes 0.7 to 1.5, goodput 0.75 to 0.90"""
    rng = np.random.default_rng(4)
    mtbf, interval = 1e4, 700.0
    for parts, shape in ((64, 1.0), (64, 1.5), (512, 0.7)):
        for stall, recover in ((30.0, 300.0), (30.0, 1500.0)):
            gaps = np.diff(_failures(parts, shape, mtbf, 4e5 * mtbf, True, rng))
            kept = np.floor(np.maximum(gaps - recover, 0) / (interval + stall)) * interval
            share = kept.sum() / gaps.sum()
            yield formulas.exact_goodput(interval, stall, recover, mtbf, 1.0), share
            yield formulas.expected_slowdown(interval, stall, recover, mtbf, 0.5), 2 / share


@check(
    "exact_goodput",
    by="simulator",
    source="512 parts of Weibull shape 0.7, all new: the MTBF they have shown by that age",
    tolerance=5e-3,
)
def a_new_fleet() -> Pairs:
    """a tenth of a mean life, and one: 2.4 and 1.4 times as many failures"""
    rng = np.random.default_rng(7)
    mtbf, interval, stall, recover = 1e4, 700.0, 30.0, 300.0
    for lives, times_as_often in ((0.1, 2.44), (1.0, 1.40)):
        span = lives * 512 * mtbf
        runs = [_failures(512, 0.7, mtbf, span, False, rng) for _ in range(int(400 / lives))]
        own = span * len(runs) / sum(map(len, runs))
        yield mtbf / own, times_as_often
        if lives == 1:
            kept = sum(
                np.floor(
                    np.maximum(np.diff(run, prepend=0) - recover, 0) / (interval + stall)
                ).sum()
                for run in runs
            )
            share = kept * interval / span / len(runs)
            yield formulas.exact_goodput(interval, stall, recover, own, 1.0), share


def _rows() -> list[dict[str, float]]:
    lines = [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    return [{key: float(cell) for key, cell in row.items()} for row in csv.DictReader(lines)]


@check(
    "young_interval daly_interval exact_interval checkpoint.expected_slowdown "
    "goodput.expected_slowdown",
    by="table",
    source="tests/data/young_daly.csv: Lambert W by mpmath, and numerical minimisation of eq. 13",
)
def reference_table() -> Pairs:
    """every row: MTBF of 1 h to 30 d, stalls of 5 s to beyond the MTBF"""
    for row in _rows():
        mtbf, stall = row["mtbf"], row["write_time"]
        for name in ("young", "daly", "exact"):
            yield getattr(formulas, f"{name}_interval")(stall, mtbf), row[name]
            slow = formulas.expected_slowdown(row[name], stall, row["recovery_time"], mtbf, 1.0)
            yield slow, row[f"slowdown_{name}"]
            slow = checkpoint.expected_slowdown(row[name], stall, row["recovery_time"], mtbf)
            yield slow, row[f"slowdown_{name}"]


@check("daly_interval", by="table", source="Daly 2006, figs 3 to 5", tolerance=6e-3)
def dalys_figures() -> Pairs:
    """a write of 5 min, MTBF of 24 h, 6 h and 15 min: 117, 57 and 9.1 min"""
    for mtbf, minutes in ((1440.0, 117.0), (360.0, 57.0), (15.0, 9.1)):
        yield checkpoint.daly_interval(5.0, mtbf), minutes


HARD = [  # MTBF, interval, stall, recovery, flush, chance that a checkpoint cannot be read
    (1e4, 500.0, 20.0, 300.0, 0.0, 0.0),
    (1e4, 500.0, 20.0, 2000.0, 2000.0, 0.0),
    (1e4, 2000.0, 20.0, 300.0, 0.0, 0.5),
    (1e4, 500.0, 20.0, 300.0, 100.0, 0.999),
    (300.0, 500.0, 20.0, 1000.0, 50.0, 0.9),  # recovery and interval beyond the MTBF
    (1e6, 500.0, 0.0, 300.0, 0.0, 0.1),
]


def _cycle(
    mtbf: float, interval: float, stall: float, recover: float, flush: float, corrupt: float
) -> dict[str, float]:
    """Mean segments kept in a time between failures, and its recovery, by summed survivals.

    A life keeps n segments if it lasts for recovery, flush and n + g of them, g unreadable.
    """
    segment = interval + stall
    number = np.arange(1, 600_000)
    kept = np.exp(-(recover + flush + segment * number) / mtbf)
    if corrupt:  # sum over n, g of P(n + g written) (1 - q) q^g, by the number n + g
        kept *= -np.expm1(number * math.log(corrupt))
    points, weights = np.polynomial.legendre.leggauss(60)
    times = (points + 1) / 2 * recover
    recovering = float(np.sum(weights / 2 * recover * np.exp(-times / mtbf)))
    return {"kept": float(kept.sum()) / mtbf, "recovery": recovering / mtbf}


@check(
    "exact_goodput exact_recovery_overhead exact_rework_overhead exact_checkpoint_overhead "
    "checkpoints_written restart_overhead segment_efficiency segment_rework useful_share "
    "stall_share rollback_time corruption_rollback_time rollback_time_checkpoint_corruption_false "
    "unsafe_time_checkpoint_mode_async unsafe_time_checkpoint_mode_sync lost_work_time "
    "restart_time rigid_cluster_uptime latency_uptime_factor_corruption_detection_at_once",
    by="derivation",
    source="renewal reward: segments that a life between failures keeps, its survival summed",
)
def renewal_reward() -> Pairs:
    """recovery, interval and flush from far below the MTBF to beyond it; 0 to 0.999 unreadable"""
    for mtbf, interval, stall, recover, flush, corrupt in HARD:
        found = _cycle(mtbf, interval, stall, recover, flush, corrupt)
        for uptime in (1.0, 0.05):
            back = formulas.corruption_rollback_time(interval, stall, mtbf, corrupt)
            if not corrupt:
                back = back + formulas.rollback_time_checkpoint_corruption_false()
            unsafe = (
                formulas.unsafe_time_checkpoint_mode_async(flush)
                + formulas.unsafe_time_checkpoint_mode_sync()
            )
            restart = formulas.restart_time(recover, formulas.lost_work_time(back, unsafe))
            whole = formulas.rigid_cluster_uptime(
                uptime, formulas.latency_uptime_factor_corruption_detection_at_once()
            )
            good = formulas.exact_goodput(interval, stall, restart, mtbf, whole)
            lost = formulas.restart_overhead(restart, mtbf, whole)
            recovering = formulas.exact_recovery_overhead(recover, mtbf, whole)
            again = formulas.exact_rework_overhead(interval, stall, mtbf, lost, recovering)
            stalled = formulas.exact_checkpoint_overhead(interval, stall, recovering, again)
            useful, stalls = found["kept"] * interval, found["kept"] * stall
            yield good, uptime * useful
            yield recovering, 1 - uptime + uptime * found["recovery"]
            yield stalled, uptime * stalls
            written = formulas.checkpoints_written(1.0, good, interval)
            yield written, uptime * found["kept"]
            yield again, uptime * (1 - useful - stalls - found["recovery"])


@check(
    "checkpoint.first_order_waste goodput.first_order_waste first_order_goodput "
    "first_order_checkpoint_overhead first_order_rework_overhead first_order_recovery_overhead "
    "effective_training_time_ratio ettr",
    by="derivation",
    source="Daly's exact shares in 50 digits, where losses vanish: what is left of them",
    tolerance=1e-5,
)
def first_orders() -> Pairs:
    """losses of a millionth each, in a cluster that is whole for 1 and 0.5 of the time"""
    interval, stall, restart, mtbf = 1e-6, 1e-12, 1e-6, 1.0
    with mpmath.workdps(50):
        a, d, r = (mpmath.mpf(x) for x in (interval, stall, restart))
        share = a * mpmath.exp(-r) / mpmath.expm1(a + d)
        recovering, stalled = 1 - mpmath.exp(-r), share * d / a
        rework = 1 - share - recovering - stalled
    for up in (1.0, 0.5):
        down = 1 - up
        waits = formulas.first_order_recovery_overhead(restart, mtbf, up)
        again = formulas.first_order_rework_overhead(interval, 0.0, mtbf, up)
        stalls = formulas.first_order_checkpoint_overhead(interval, stall, up)
        yield waits - down, float(up * recovering)
        yield again, float(up * rework)
        yield stalls, float(up * stalled)
        yield (
            (1 - formulas.first_order_goodput(stalls, again, waits)) - down,
            float(up * (1 - share)),
        )
        yield (
            formulas.first_order_waste(interval, stall, restart, mtbf, up) - down,
            float(up * (1 - share)),
        )
        waste = checkpoint.first_order_waste(interval, stall, restart, mtbf)
        yield waste, float(1 - share)
        yield up - formulas.ettr(interval, stall, restart, mtbf, up), float(up * (1 - share))


@check(
    "effective_training_time_ratio",
    by="table",
    source="Kokolis et al. 2025: 2,000 nodes, 6.5 failures in 1,000 node-days, 5 min each",
    tolerance=6e-3,
)
def published_ettr() -> Pairs:
    """ETTR 0.93"""
    yield checkpoint.effective_training_time_ratio(300.0, 0.0, 300.0, 86400 / 13), 0.93


@check(
    "spared_wait_for_node unspared_wait_for_node",
    by="simulator",
    source="failures that find a spare or wait, repairs of constant length",
    tolerance=3e-2,
)
def provision() -> Pairs:
    """3 nodes in repair, 0 to 6 spares"""
    rng = np.random.default_rng(6)
    ends = np.cumsum(rng.exponential(1.0, 400_000))
    away = np.arange(len(ends)) - np.searchsorted(ends, ends - 3.0)
    for spares in (0.0, 1.0, 3.0, 6.0):
        at_hand = formulas.hot_spare_availability(spares, 3.0, 1.0)
        waited = 300.0 * float(np.mean(away >= spares))
        yield formulas.spared_wait_for_node(300.0, at_hand, 1e12), waited
        yield formulas.unspared_wait_for_node(300.0, at_hand), waited


@check(
    "spared_wait_for_node",
    by="simulator",
    source="recoveries that wait where no spare is at hand, and begin again at each failure",
    tolerance=2e-2,
)
def interrupted_waits() -> Pairs:
    """waits of a hundredth of the time between failures to three times as long; infinite"""
    rng = np.random.default_rng(7)
    between = 1000.0
    for wait in (10.0, 300.0, 1000.0, 3000.0):
        for at_hand in (0.0, 0.5, 0.9, 1.0):
            total, count = 0.0, 40_000
            left = np.ones(count, bool)
            while left.any():
                needed = np.where(rng.random(count) < at_hand, 0.0, wait)
                until = rng.exponential(between, count)
                total += float(np.minimum(needed, until)[left].sum())
                left &= until < needed
            even = between * np.log1p(total / count / between)  # of the same mean, were it constant
            yield formulas.spared_wait_for_node(wait, at_hand, between), even
    for at_hand in (0.0, 0.4, 1.0):
        ours = formulas.spared_wait_for_node(300.0, at_hand, np.inf)
        yield ours, 300.0 * (1 - at_hand)


@check(
    "checkpoints_written write_bandwidth_storage_scaling_total per_node_write_bandwidth "
    "checkpoint_size checkpoint_write_time snapshot_time peer_copy_time",
    by="simulator",
    source="a clock that works, stops for the slower of nodes and system, and goes on",
    tolerance=1e-9,
)
def a_day_without_failures() -> Pairs:
    """70 billion parameters on 8 and 128 nodes that write 2 GB/s each, up to 100 GB/s"""
    size = formulas.checkpoint_size(70e9, 14)
    yield size, math.fsum([2 * 70e9, 4 * 70e9, 4 * 70e9, 4 * 70e9])
    for nodes in (8, 128):
        rate = formulas.per_node_write_bandwidth(nodes, 2e9, 100e9)
        stall = formulas.checkpoint_write_time(size, rate)
        yield stall, max(980e9 / nodes / 2e9, 980e9 / 100e9)
        clock, written = 0.0, 0
        while clock < 100_000 * (600 + float(stall)) - 1e-3:
            clock += 600 + max(980e9 / nodes / 2e9, 9.8)
            written += 1
        yield formulas.checkpoints_written(clock, 600 / (600 + stall), 600.0), written
        yield formulas.snapshot_time(size, nodes * 8, 25e9), 980e9 / (nodes * 8 * 25e9)
        yield formulas.peer_copy_time(size, nodes * 8, 50e9), 980e9 / (nodes * 8 * 50e9)
    yield formulas.write_bandwidth_storage_scaling_total(100e9), 100e9


@check(
    "first_order_goodput_reason additive_goodput_reason shrinking_progress_reason "
    "sync_infeasible_reason",
    by="derivation",
    source="a day of 1,024 shares handed out to each loss in turn: is any share left for the job?",
)
def shares_left_for_progress() -> Pairs:
    """Losses of none to more than a day, both models; replicas none, a half and all"""
    for rework, bubbles in itertools.product((0, 256, 511, 512, 768), (0, 256, 512)):
        left = {"first_order": 1024, "additive": 1024}
        for loss in (256, rework, 256):
            left = {model: shares - loss for model, shares in left.items()}
        left["additive"] -= bubbles
        lost = (256 / 1024, rework / 1024, 256 / 1024)
        ours = {
            "first_order": formulas.first_order_goodput_reason(*lost),
            "additive": formulas.additive_goodput_reason(*lost, bubbles / 1024, 0.0, 1.0),
        }
        for model, reason in ours.items():
            theirs = 0 if left[model] > 0 else 15
            yield float(formulas.sync_infeasible_reason(0.0, reason)), theirs
            for replicas in (0, 1, 2):
                some = formulas.shrinking_progress_reason(reason, replicas / 2)
                yield float(some), theirs if replicas else 15
