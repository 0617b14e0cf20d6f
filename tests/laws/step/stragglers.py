"""Slow nodes and jitter: fleets simulated node by node, draws for every rank, published fleets."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from scipy import optimize, stats

from fleetcube.kernels.laws import statistics, stragglers

from ...evaluated import value
from ..check import Pairs, check

GPUS = 8  # of a node
DEVIATIONS = {
    False: lambda ranks: 0.0,
    "normal": lambda ranks: statistics.expected_maximum(ranks, ranks, 0),
    "gumbel": lambda ranks: statistics.expected_maximum_gumbel(ranks, ranks, 0),
}


def evaluated(name: str, **given: Any) -> float:
    return value(name, gpus_per_node=GPUS, **given)


def drawn_wait(
    share: float | Callable[[Any], Any],
    nodes: int,
    slowdown: float,
    jitter: float,
    tail: str,
    model: str,
) -> float:
    """Mean delay of the slowest rank, drawing slow nodes (`share` fixed or drawn) and jitter."""
    rng = np.random.default_rng(19)
    rounds, waits = max(1, 2_000_000 // (nodes * GPUS * 50)), []
    for _ in range(50):
        shape = (rounds, nodes, GPUS)
        slow = share(rng.random((rounds, 1))) if callable(share) else share
        later = np.where(rng.random((rounds, nodes)) < slow, slowdown, 0.0)
        if tail == "exponential":
            later = later * rng.exponential(size=(rounds, nodes))
        if model == "normal":
            moved = rng.standard_normal(shape)
        elif model == "gumbel":
            moved = (rng.gumbel(size=shape) - np.euler_gamma) * np.sqrt(6) / np.pi
        else:
            moved = np.zeros(shape)
        waits.append((later[..., None] + jitter * moved).max(axis=(1, 2)).mean())
    return float(np.mean(waits))


def played_fleet(
    mttf: float, sojourn: float | None = None, interval: float | None = None
) -> tuple[float, float]:
    """Share of time that a node is slow, and its onsets per time, over 20,000 onsets.

    Slow nodes stay for a lognormal time of mean `sojourn`, or until the next check.
    """
    rng = np.random.default_rng(23)
    clock = slow = 0.0
    turns = 20_000
    for lifetime in rng.exponential(mttf, turns):
        clock += lifetime
        if sojourn is not None:
            stays = sojourn * rng.lognormal(-0.5, 1.0)
        else:
            stays = (np.floor(clock / interval) + 1) * interval - clock
        slow += stays
        clock += stays
    return slow / clock, turns / clock


@check(
    "share_slow detected_slow_node_stops",
    by="simulator",
    source="a node played through 20,000 turns, lognormal times until it is found",
    tolerance=0.03,
)
def found_and_replaced() -> Pairs:
    """detection after 0.01 to 3 times the time until slow, or never; nodes that never slow down"""
    for mttf, sojourn in ((1e6, 1e4), (1e6, 3e5), (1e5, 3e5)):
        share, rate = played_fleet(mttf, sojourn=sojourn)
        given = {"slow_nodes": "detected", "slow_node_mttf": mttf, "n_gpus": 64 * GPUS}
        given |= {"slow_node_detection_time": sojourn, "slow_node_swap_time": 60.0}
        yield stragglers.share_slow(mttf, sojourn), share
        yield evaluated("slow_node_fraction", **given), share
        yield evaluated("slow_node_stops", **given), 64 * rate * 60.0
    yield stragglers.share_slow(1e5, np.inf), 1.0
    yield stragglers.share_slow(np.inf, np.array([1e3, np.inf])), 0.0


@check(
    "share_slow_between_checks",
    by="simulator",
    source="a node played through 20,000 turns, slow until the next check",
    tolerance=0.03,
)
def slow_until_checked() -> Pairs:
    """checks every 0.01 to 3 times the time until slow, or never; nodes that never slow down"""
    for mttf, interval in ((1e6, 1e4), (1e6, 3e5), (1e5, 3e5)):
        share, _ = played_fleet(mttf, interval=interval)
        yield stragglers.share_slow_between_checks(mttf, interval), share
    yield stragglers.share_slow_between_checks(1e5, np.inf), 1.0
    yield stragglers.share_slow_between_checks(np.inf, np.array([1e3, np.inf])), 0.0
    tiny = np.array([1e-12, 0.9e-4, 1.1e-4])
    yield stragglers.share_slow_between_checks(1.0, tiny), tiny / 2 - tiny * tiny / 6


@check(
    "checked_slow_node_stops",
    by="simulator",
    source="64 nodes played from check to check",
    tolerance=0.03,
)
def stops_of_checks() -> Pairs:
    """checks of 30 s and swaps of 600 s, every 0.001 to 0.3 times the time until slow, or never"""
    rng = np.random.default_rng(29)
    given = {"slow_nodes": "checked", "slow_node_mttf": 1e6, "n_gpus": 64 * GPUS}
    given |= {"slow_node_check_time": 30.0, "slow_node_swap_time": 600.0}
    for interval in (1e3, 1e4, 3e5):
        found = (rng.exponential(1e6, (20_000, 64)) < interval).any(axis=1)
        theirs = (30.0 + 600.0 * found.mean()) / interval
        yield evaluated("slow_node_stops", slow_node_check_interval=interval, **given), theirs
    yield evaluated("slow_node_stops", slow_node_check_interval=np.inf, **given), 0.0


@check(
    "no_slow_node ranks_of_slow_nodes awaited_nodes",
    by="derivation",
    source="sums over the binomial distribution of slow nodes (scipy)",
    tolerance=1e-9,
)
def binomial_counts() -> Pairs:
    """1 to 2,000 nodes, shares of 0 to 1"""
    for nodes, share in product((1, 2, 7, 2000), (0.0, 1e-6, 0.005, 0.4, 1.0)):
        counts = np.arange(nodes + 1)
        chances = stats.binom.pmf(counts, nodes, share)
        yield stragglers.no_slow_node(share, nodes), chances[0]
        some = (counts[1:] * chances[1:]).sum() / chances[1:].sum() if share else 1.0
        given = {"slow_nodes": "share", "slow_node_share": share, "n_gpus": nodes * GPUS}
        yield evaluated("slow_ranks", **given), GPUS * some
    half = {"slow_node_share": 0.3, "n_gpus": GPUS // 2}  # part of a node is as slow as the node
    yield evaluated("no_slow_node_probability", **half), 0.7
    yield evaluated("awaited_nodes", **half), 1.0


@check("longest_of_some", by="derivation", source="the sum of its terms", tolerance=5e-7)
def harmonic_sums() -> Pairs:
    """1 to 1,000,000 variables, chances of 1e-9 to 1"""
    for number, share in product((1, 2, 7, 1000, 10**6), (0.0, 1e-9, 0.005, 0.5, 1.0)):
        j = np.arange(1, number + 1)
        theirs = (-np.expm1(j * np.log1p(-share)) / j).sum() if share < 1 else (1 / j).sum()
        yield stragglers.longest_of_some(share, number), theirs


MIXED = tuple(product((1, 4, 50, 400), (0.003, 0.05, 0.5, 1.0), (0.3, 1.0, 2.0, 4.0)))


@check(
    "slowest_of_some_slow",
    by="simulator",
    source="draws of every rank of every node",
    tolerance=0.2,
    absolute=True,
)
def some_slow_and_all_jittering() -> Pairs:
    """1 to 400 nodes of 8, shares of 0.003 to 1, slowdowns of 0.3 to 4 deviations, or no jitter"""
    for model, (nodes, share, slowdown) in product(DEVIATIONS, MIXED):
        jitter = float(model is not False)
        slow_ranks = nodes * GPUS * share / (1 - (1 - share) ** nodes)
        deviations = [DEVIATIONS[model](ranks) for ranks in (nodes * GPUS, slow_ranks)]
        sound = stragglers.no_slow_node(share, nodes)
        ours = stragglers.slowest_of_some_slow(share, sound, slowdown, jitter, *deviations)
        yield ours, drawn_wait(share, nodes, slowdown, jitter, "fixed", model)


@check(
    "slowest_of_some_exponential later_than_jitter",
    by="simulator",
    source="draws of every rank of every node",
    tolerance=0.35,
    absolute=True,
)
def some_very_slow_and_all_jittering() -> Pairs:
    """1 to 400 nodes of 8, shares to 0.05, mean slowdowns of 0.3 to 4 deviations, or no jitter"""
    for model, (nodes, share, slowdown) in product(DEVIATIONS, MIXED):
        jitter = float(model is not False)
        deviations = [DEVIATIONS[model](ranks) for ranks in (nodes * GPUS, GPUS)]
        late = stragglers.later_than_jitter(slowdown, jitter, *deviations)
        longest = stragglers.longest_of_some(share * late, nodes)
        ours = stragglers.slowest_of_some_exponential(longest, slowdown, jitter, deviations[0])
        theirs = drawn_wait(share, nodes, slowdown, jitter, "exponential", model)
        if share <= 0.05 or model is False:
            yield ours, theirs
        else:  # a lower bound, within the precision of draws and deviations
            yield max(float(ours) - theirs, 0.06), 0.06


@check(
    "checked_no_slow_node_probability fixed_slow_node_wait exponential_slow_node_wait "
    "longest_slowdown_between_checks late_slow_node_probability",
    by="simulator",
    source="draws of every rank of every node, at times since the last check",
    tolerance=1e-2,
    absolute=True,
)
def slow_until_the_next_check() -> Pairs:
    """1 to 400 nodes, checks every 0.001 to 30 lives, 10 % slower, jitter of 0 and 1 %"""
    for tail, nodes, interval in product(("fixed", "exponential"), (1, 50, 400), (1e-3, 0.05, 30)):
        for model in (False, "normal"):
            jitter = 0.01 * (model is not False)
            given = {"n_gpus": nodes * GPUS, "slow_nodes": "checked", "slow_node_mttf": 1e6}
            given |= {"slow_node_check_interval": interval * 1e6, "slow_node_slowdown": 0.1}
            given |= {"slow_node_tail": tail, "jitter_model": model, "step_time_jitter": jitter}

            def share(turn: Any, interval: float = interval) -> Any:
                return -np.expm1(-interval * turn)

            theirs = drawn_wait(share, nodes, 0.1, jitter, tail, model)
            yield evaluated("slow_node_wait", **given), theirs


@check(
    "longest_between_checks longest_slowdown_of_some",
    by="derivation",
    source="the sum of its terms, at 4,000 times since the last check",
    tolerance=1e-5,
)
def harmonic_sums_between_checks() -> Pairs:
    """1 to 1,000 nodes, checks every 1e-9 to 1e4 times until slow; chances to count of 1e-3 to 1"""
    points, weights = np.polynomial.legendre.leggauss(400)
    for nodes, late, x in product((1, 7, 1000), (1e-3, 0.3, 1.0), (1e-9, 0.1, 5.0, 1e4)):
        times = x * np.exp((points - 1) / 2 * 45)  # on a logarithmic scale
        each = stragglers.longest_of_some(-late * np.expm1(-times), nodes)
        theirs = float(np.sum(weights * each * times)) * 45 / 2 / x
        yield stragglers.longest_between_checks(late, nodes, 1.0, x), theirs
    yield stragglers.longest_between_checks(1.0, 4.0, 1.0, np.inf), 1 + 1 / 2 + 1 / 3 + 1 / 4
    yield stragglers.longest_between_checks(1.0, 4.0, np.inf, np.array([1.0, np.inf])), 0.0
    yield stragglers.longest_between_checks(0.0, 4.0, 1.0, np.array([1e-9, 1.0, np.inf])), 0.0


@check(
    "normal_slow_rank_deviation gumbel_slow_rank_deviation slowest_rank_slowdown "
    "slowest_rank_slowdown_of_some",
    by="simulator",
    source="draws of every rank of every node",
    tolerance=0.002,
    absolute=True,
)
def the_whole_wait() -> Pairs:
    """64 nodes, shares of 0 to 1 slower by 10 %, jitter of 1 %, normal and Gumbel"""
    given = {"n_gpus": 64 * GPUS, "compute_time": 1.0, "slow_node_slowdown": 0.1}
    for model, share in product(("normal", "gumbel"), (0.0, 0.005, 0.1, 1.0)):
        jittering = {"step_time_jitter": 0.01, "jitter_model": model, "straggler_slowdown": 0.02}
        theirs = 0.02 + drawn_wait(share, 64, 0.1, 0.01, "fixed", model)
        yield evaluated("straggler_time", slow_node_share=share, **jittering, **given), theirs
        if share == 0:
            yield (
                evaluated("straggler_time", n_gpus=64 * GPUS, compute_time=1.0, **jittering),
                theirs,
            )


@check(
    "best_slow_node_check_interval",
    by="derivation",
    source="least of checks and slow steps together, by search",
    tolerance=0.03,
)
def best_checks() -> Pairs:
    """8 to 2,000 nodes, checks of 1 to 60 s, 10 % slower nodes, slow once in 1e8 to 1e9 s"""
    for nodes, check_time, mttf in product((8, 2000), (1.0, 60.0), (1e8, 1e9)):
        given = {"slow_nodes": "checked", "slow_node_mttf": mttf, "slow_node_slowdown": 0.1}
        given |= {"slow_node_check_time": check_time, "n_gpus": nodes * GPUS}
        ours = evaluated("best_slow_node_check_interval", **given)

        def cost(log_interval: float, given: dict[str, Any] = given) -> float:
            at = given | {"slow_node_check_interval": np.exp(log_interval), "compute_time": 1.0}
            return evaluated("straggler_time", **at) + evaluated("slow_node_stops", **at)

        near = (np.log(ours / 10), np.log(ours * 10))
        found = optimize.minimize_scalar(cost, bounds=near, method="bounded")
        if nodes * ours / mttf < 0.05:
            yield ours, np.exp(found.x)
        else:  # a lower bound
            yield min(1.0, np.exp(found.x) / ours), 1.0


@check(
    "step_time straggler_overhead slow_node_stop_time batch_independent_time "
    "batch_independent_time_of_shifted step_time_in_interval straggler_overhead_of_shifted",
    by="simulator",
    source="1,000,000 steps played, a stop after each that a slow node is found in",
    tolerance=0.01,
)
def stopped_steps() -> Pairs:
    """stops of 300 s at one step in 50, and none"""
    rng = np.random.default_rng(31)
    parts = {"compute_time": 4.0, "straggler_time": 0.2, "bubble_time": 0.5}
    parts |= {"exposed_communication_time": 0.3, "optimizer_time": 0.1, "serial_time_per_step": 0.1}
    alone = sum(parts.values())
    for chance in (0.0, 0.02):
        stopped = 300.0 * (rng.random(1_000_000) < chance).mean()
        given = parts | {"slow_node_stops": 300.0 * chance / alone, "goodput": 0.9, "n_gpus": 8}
        given |= {"slow_nodes": "detected", "exposed_layer_communication_time": 0.3}
        growing = 4.5 * (1 + stopped / alone)
        yield evaluated("step_time", **given), alone + stopped
        yield evaluated("batch_independent_time", **given), alone + stopped - growing
        share = 0.9 * (0.2 + stopped) / (alone + stopped)
        yield evaluated("straggler_overhead", **given), share
        later = given | {"step_time_error": 1.0, "error_factor": 1.2, "shifted_step_time": True}
        yield evaluated("step_time", **later), 1.2 * (alone + stopped)
        rest = 1.2 * (alone + stopped - growing)
        yield evaluated("batch_independent_time", **later), rest
        yield evaluated("straggler_overhead", **later), share  # stops take as much longer


@check(
    "unmeasured_fabric_error_factor",
    by="derivation",
    source="5 and 95 % points of steps that miss more, of jobs whose ranks are dealt out to nodes",
)
def jobs_on_a_new_fabric() -> Pairs:
    """1 to 1,024 GPUs on nodes of 8 and racks of 72; logarithms that miss 1 and 1.3 times as far"""
    for gpus, size, more in product((1, 8, 9, 72, 144, 1024), (8, 72), (1.0, 1.3)):
        nodes = {rank // size for rank in range(gpus)}
        deviation = np.log(1.2) / stats.norm.ppf(0.95) * (more if len(nodes) > 1 else 1.0)
        given = {"n_gpus": gpus, "error_factor": 1.2, "step_time": 4.0}
        given |= {"gpus_per_domain": size} if size > 8 else {}
        given |= {"fabric_error_exponent": more}
        low, high = 4.0 * stats.lognorm.ppf((0.05, 0.95), s=deviation)
        yield evaluated("step_time_low", **given), low
        yield evaluated("step_time_high", **given), high
