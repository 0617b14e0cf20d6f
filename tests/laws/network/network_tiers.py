"""Tiers and sites: every byte counted on its links, sites simulated step by step."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import fleetcube
from fleetcube.kernels.laws import topology

from ...evaluated import value, values
from ..check import Pairs, check
from .collectives import ring

LEAF, FABRIC, POD = 50e9, 25e9, 5e9  # rates of one GPU below its leaf switch, above it, out of pods
MESSAGE = 1e9


def _slowest(sends: Iterable[tuple[int, int, float]], node: int, leaf: int, pod: int) -> float:
    """Time until all messages (from, to, bytes) that start together have passed their links.

    A GPU has a rail out of its node; a leaf switch and a pod have one link for all their GPUs.
    """
    carried: Counter[tuple[str, int]] = Counter()
    for source, target, size in sends:
        for name, gpus in (("rail", node), ("leaf", leaf), ("pod", pod)):
            if source // gpus != target // gpus:
                carried[name, source if name == "rail" else source // gpus] += size  # type: ignore
    rates = {"rail": LEAF, "leaf": leaf * FABRIC, "pod": pod * POD}
    return max((size / rates[name] for (name, _), size in carried.items()), default=0.0)


def _placed(ranks: int, stride: int) -> Iterator[list[int]]:
    """All groups of a kind on the GPUs they fill; neighbours of a group are `stride` apart."""
    for first in range(stride):
        yield [first + rank * stride for rank in range(ranks)]


def _add_up_tier_by_tier(ranks: int, stride: int, tiers: tuple[int, int, int]) -> float:
    """Inter-node time of a reduce-scatter in each node, leaf switch, pod, then between pods."""
    time = 0.0
    due = {gpu: frozenset(range(ranks)) for group in _placed(ranks, stride) for gpu in group}
    for phase, gpus in enumerate((*tiers, ranks * stride)):
        sends, later = [], dict(due)
        for group in _placed(ranks, stride):
            near: dict[Any, list[int]] = {}
            for gpu in group:  # ranks of the same chunks, below one switch
                near.setdefault((gpu // gpus, due[gpu]), []).append(gpu)
            for (_, chunks), members in near.items():
                for place, gpu in enumerate(members):
                    later[gpu] = frozenset(sorted(chunks)[place :: len(members)])
                for a, b in itertools.permutations(members, 2):
                    sends.append((a, b, len(later[b]) * MESSAGE / ranks))
        due = later
        time += _slowest(sends, *tiers) if phase else 0.0
    assert all(len(chunks) == 1 for chunks in due.values())
    return time


SEATS = [
    (ranks, stride, (node, leaf, pod))
    for ranks, stride in ((16, 1), (32, 2), (64, 4), (32, 8), (8, 4))
    for node, leaf, pod in ((4, 8, 32), (8, 8, 64), (2, 16, 16), (8, 32, 256))
]


def _ranks_on(seat: tuple[int, int, tuple[int, int, int]]) -> list[int]:
    ranks, stride, tiers = seat
    return [
        max(Counter(gpu // size for gpu in next(_placed(ranks, stride))).values()) for size in tiers
    ]


def _law(law: Callable[..., Any], seat: Any) -> float:
    return float(law(seat[0], *_ranks_on(seat), LEAF, FABRIC, POD))


@check(
    "tiered_bandwidth tiered_tensor_rail_bandwidth tiered_data_rail_bandwidth "
    "tiered_replica_rail_bandwidth",
    by="simulator",
    source="chunks sent tier by tier by all groups at once, bytes counted on rails, leaf switches "
    "and pods",
)
def added_up_tier_by_tier() -> Pairs:
    """20 placements of 16 to 256 GPUs, leaf switches 2 : 1 and pods 5 : 1"""
    for ranks, stride, tiers in SEATS:
        near = _ranks_on((ranks, stride, tiers))[0]
        if near == ranks:
            continue
        sent = MESSAGE * (1 / near - 1 / ranks)
        theirs = _add_up_tier_by_tier(ranks, stride, tiers)
        yield sent / _law(topology.tiered_bandwidth, (ranks, stride, tiers)), theirs
        machine: dict[str, Any] = {
            "gpus_per_node": tiers[0], "gpus_per_switch": tiers[1], "gpus_per_pod": tiers[2],
            "inter_node_bandwidth": LEAF, "oversubscription": LEAF / FABRIC,
            "pod_oversubscription": FABRIC / POD, "n_gpus": ranks * stride,
        }  # fmt: skip
        machine |= {"tensor_parallel": stride}
        yield sent / value("data_rail_bandwidth", **machine), theirs
        alone = machine | {"data_parallel_shard": 1}  # every replica holds all
        yield sent / value("replica_rail_bandwidth", **alone), theirs
        if stride == 1:
            machine |= {"tensor_parallel": ranks}
            yield sent / value("tensor_rail_bandwidth", **machine), theirs


@check(
    "tiered_all_to_all_bandwidth tiered_expert_rail_bandwidth",
    by="simulator",
    source="a message from every rank to every other at once, bytes counted on rails, leaf "
    "switches and pods",
)
def all_to_all_over_tiers() -> Pairs:
    """20 placements of 16 to 256 GPUs, leaf switches 2 : 1 and pods 5 : 1"""
    for ranks, stride, tiers in SEATS:
        near = _ranks_on((ranks, stride, tiers))[0]
        if near == ranks:
            continue
        pairs = (itertools.permutations(group, 2) for group in _placed(ranks, stride))
        sends = ((a, b, MESSAGE / ranks) for a, b in itertools.chain(*pairs))
        theirs, sent = _slowest(sends, *tiers), MESSAGE * (1 - near / ranks)
        yield sent / _law(topology.tiered_all_to_all_bandwidth, (ranks, stride, tiers)), theirs
        given = {"gpus_per_node": tiers[0], "gpus_per_switch": tiers[1]}
        given |= {"gpus_per_pod": tiers[2], "inter_node_bandwidth": LEAF}
        given |= {"oversubscription": LEAF / FABRIC, "pod_oversubscription": FABRIC / POD}
        given |= {"tensor_parallel": stride, "expert_parallel": ranks}
        rail = fleetcube.evaluate("expert_rail_bandwidth", **given)
        yield sent / float(rail), theirs


@check(
    "crossing_bandwidth tiered_context_rail_bandwidth tiered_pipeline_rail_bandwidth",
    by="simulator",
    source="stages that send forward or back, whichever leaves the switch or the pod; bytes "
    "counted on rails, leaf switches and pods",
)
def sends_over_tiers() -> Pairs:
    """4 to 16 stages of 1 to 64 GPUs, on leaf switches and pods of 8 to 256 GPUs"""
    for ranks, stride in itertools.product((4, 8, 16), (1, 4, 16, 64)):
        for leaf, pod in ((8, 32), (32, 256), (64, 64)):
            slowest = MESSAGE / LEAF
            for size in (leaf, pod):  # the worst moment of either link
                sends = []
                for group in _placed(ranks, stride):
                    for place, gpu in enumerate(group):
                        both = [group[p] for p in (place + 1, place - 1) if 0 <= p < ranks]
                        out = [other for other in both if other // size != gpu // size]
                        sends += [(gpu, other, MESSAGE) for other in out[:1]]
                # the ends of a job use one link each, so units between them are slower
                slowest = max(slowest, _slowest(sends, 1, leaf, pod))
            machine: dict[str, Any] = {
                "gpus_per_node": 1, "gpus_per_switch": leaf, "gpus_per_pod": pod,
                "inter_node_bandwidth": LEAF, "oversubscription": LEAF / FABRIC,
                "pod_oversubscription": FABRIC / POD,
            }  # fmt: skip
            if ranks * stride <= 2 * leaf or leaf < ranks * stride <= 2 * pod:
                continue  # two units have one end each: the law, with two ends, is a lower bound
            got = fleetcube.evaluate(
                "pipeline_rail_bandwidth",
                n_gpus=ranks * stride,
                pipeline_parallel=ranks,
                tensor_parallel=stride,
                **machine,
            )
            yield MESSAGE / float(got), slowest
            got = fleetcube.evaluate(
                "context_rail_bandwidth", context_parallel=ranks, tensor_parallel=stride, **machine
            )
            yield MESSAGE / float(got), slowest


@check(
    "leaf_bandwidth pod_bandwidth rail_leaf_gpus",
    by="derivation",
    source="servers of 8 wired rail by rail: GPUs that meet on a switch when each changes rails "
    "inside its node; Qian et al. 2024 (Alibaba HPN): 128 hosts are a segment of 1,024 GPUs",
)
def rails() -> Pairs:
    """switches of 4 to 128 ports to GPUs; 400 Gbit/s below them, half of it above, 1 : 7 of pods"""
    for ports in (4, 16, 128):
        wired = {(node, rail): (node // ports, rail) for node in range(256) for rail in range(8)}
        met = {node for (node, _), switch in wired.items() if switch[0] == wired[0, 0][0]}
        names = ["leaf_gpus", "leaf_bandwidth", "pod_bandwidth"]
        given = {"rail_optimized": True, "gpus_per_switch": ports}
        given |= {"inter_node_bandwidth": 50e9, "oversubscription": 2, "pod_oversubscription": 7}
        got = values(names, **given)
        yield got["leaf_gpus"], 8 * len(met)
        if ports == 128:
            yield got["leaf_gpus"], 1024
        yield got["leaf_bandwidth"], 50e9
        yield got["pod_bandwidth"], 50e9 / 2 / 7


@check(
    "crossed_tier tensor_parallel_tier domain_tensor_parallel_ranks_per_node "
    "domain_expert_ranks_per_node domain_expert_gradient_ranks_per_node "
    "domain_pipeline_ranks_per_node expert_parallel_tier pipeline_parallel_tier "
    "hybrid_data_parallel_tier pod_gpus",
    by="derivation",
    source="GPUs seated in Megatron-LM's order; does any group of a kind leave a domain, a leaf "
    "switch, a pod?",
)
def tiers_crossed() -> Pairs:
    """256 GPUs, nodes of 4 in domains of 16, leaf switches of 8 to 64, pods of 96 to 384;
    data parallelism in one group, and in sharding groups of 1 and 4"""
    for tensor, context, stages, experts, (leaf, pod) in itertools.product(
        (1, 4, 8), (1, 4), (1, 2, 16), (1, 4), ((8, 128), (64, 128), (48, 96), (64, 384))
    ):
        data = 256 // (tensor * context * stages)
        if data < experts:
            continue
        groups: dict[Any, list[int]] = {}
        places = itertools.product(range(stages), range(data), range(context), range(tensor))
        for gpu, (p, d, c, t) in enumerate(places):
            for group in (
                ("tensor", p, d, c),
                ("context", p, d, t),
                ("expert", p, (d * context + c) // experts, t),
                ("data", p, t),
                ("pipeline", d, c, t),
                ("routed", p, (d * context + c) % experts, t),
                *((f"{size} shards", p, d // size, t) for size in (1, 4)),
                *((f"{size} shards", "copies", p, d % size, c, t) for size in (1, 4)),
            ):
                groups.setdefault(group, []).append(gpu)
        counts = {"tensor_parallel": "tensor", "context": "context", "expert": "expert"}
        counts |= {"data_parallel": "data", "pipeline": "pipeline", "expert_gradient": "routed"}
        kinds = ("tensor", "context", "expert", "data", "pipeline")
        machine: dict[str, Any] = {
            "n_gpus": 256, "gpus_per_node": 4, "gpus_per_domain": 16,
            "gpus_per_switch": leaf, "gpus_per_pod": pod, "tensor_parallel": tensor,
            "context_parallel": context, "pipeline_parallel": stages, "expert_parallel": experts,
        }  # fmt: skip
        got = fleetcube.evaluate(
            [
                *(f"{kind}_parallel_tier" for kind in kinds),
                *(f"{name}_ranks_per_node" for name in counts),
                "pod_gpus",
            ],
            **machine,
        )
        yield float(got["pod_gpus"]), sum(gpu // pod == 0 for gpu in range(256))
        for name, kind in counts.items():
            members = next(group for key, group in groups.items() if key[0] == kind)
            theirs = Counter(gpu // 16 for gpu in members)[members[0] // 16]
            yield float(got[f"{name}_ranks_per_node"]), theirs
        ours = {kind: got[f"{kind}_parallel_tier"] for kind in kinds}
        for size in (1, 4):
            if data % size == 0:
                parts = machine | {"data_parallel_shard": size}
                ours[f"{size} shards"] = fleetcube.evaluate("data_parallel_tier", **parts)
        for kind, tier in ours.items():
            of_kind = [group for key, group in groups.items() if key[0] == kind]
            held = [
                all(len({gpu // size for gpu in group}) == 1 for group in of_kind)
                for size in (1, 16, leaf, pod)
            ]
            yield float(tier), held.index(True) if any(held) else 4


JOB: dict[str, Any] = {
    "n_gpus": 64, "tensor_parallel": 4, "pipeline_parallel": 2, "parameters": 8e9, "layers": 32,
    "hidden_size": 4096, "inter_node_bandwidth": 50e9, "site_latency": 0.03,
}  # fmt: skip


def _values(names: str, **scenario: Any) -> list[float]:
    got = fleetcube.evaluate(asked := names.split(), **{**JOB, **scenario})
    return [float(got[name]) for name in asked]


@check(
    "several_site_gradient_ranks gradient_site_message outer_site_message site_link_bandwidth "
    "site_exchange_time several_site_parallel_time",
    by="simulator",
    source="GPUs of each site and their parts counted; fragments sent round the sites, hop by hop",
)
def exchanges() -> Pairs:
    """1 to 4 sites, gradients at each step, or weights' moves every 30 steps in 1 to 6 parts"""
    for sites, steps, parts in itertools.product((1, 2, 4), (None, 30), (1, 6)):
        for link in (1e9, 10e9, 1e13):
            local: dict[str, Any] = {} if steps is None else {"inner_steps": steps}
            names = "gradient_ranks site_message site_exchange_time site_parallel_time"
            local |= {"model_fragments": parts, "sites": sites, "outer_bytes_per_element": 0.5}
            ranks, message, exchange, each = _values(names, **local, site_bandwidth=link)
            gpus = [(site, gpu) for site in range(sites) for gpu in range(64 // sites)]
            mine = [gpu for site, gpu in gpus if site == 0]
            yield ranks, len(mine) / (4 * 2)
            per_gpu = 8e9 / (4 * 2) / (len(mine) / 8) * (2 if steps is None else 0.5)
            yield message, per_gpu * len(mine)
            rate = min(link, len(mine) * 50e9)
            theirs = sum(ring(sites, message / parts, 0.03, rate) for _ in range(parts))
            yield exchange, theirs
            yield each, theirs / (steps or 1)


def _play(steps: int, every: int, compute: float, exchange: float, overlap: float) -> float:
    """Time of steps of one site that hands over its update at each exchange and goes on.

    A share of the compute until the next exchange may pass before the site waits for this one.
    """
    clock = 0.0
    for first in range(0, steps, every):
        start = clock
        arrives = start + exchange if first else start  # of the update handed over before
        for step in range(every):
            if step == round(overlap * every):
                clock = max(clock, arrives)
            clock += compute
        clock = max(clock, arrives + (1 - overlap) * every * compute)
    return clock


@check(
    "several_site_exposed_parallel_time several_site_training_steps "
    "several_site_communication_time several_site_exposed_communication_time "
    "local_outer_state_memory local_site_tokens_factor several_site_memory_per_gpu",
    by="simulator",
    source="steps of a site played one after the other, exchanges under way beside them; parts of "
    "a GPU's memory listed",
)
def a_site_at_work() -> Pairs:
    """exchanges every 4 or 20 steps, behind none, half or all of compute; fast and slow links"""
    for every, overlap, link in itertools.product((4, 20), (0.0, 0.5, 1.0), (1e9, 40e9, 1e12)):
        run: dict[str, Any] = {"sites": 2, "inner_steps": every, "site_overlap": overlap}
        run |= {"site_bandwidth": link, "compute_time": 2.0, "training_tokens": 4096 * 1024 * 1e3}
        run |= {"data_parallel_time": 0.25, "exposed_data_parallel_time": 0.0}
        run |= {"exposed_context_parallel_time": 0.0}
        names = "exposed_site_parallel_time site_exchange_time training_steps communication_time "
        names += "exposed_communication_time exposed_layer_communication_time tensor_parallel_time "
        names += "exposed_pipeline_parallel_time pipeline_parallel_time"
        run |= {"intra_node_bandwidth": 450e9, "tokens_factor": 1.25}
        waits, exchange, count, traffic, exposed, layers, tensor, awaited, pipeline = _values(
            names, **run
        )
        rounds = 50
        played = _play(rounds * every, every, 2.0, exchange, overlap)
        yield waits, (played - rounds * every * 2.0) / ((rounds - 1) * every)
        yield count, sum(5 for _ in range(1000)) / 4
        yield traffic, tensor + pipeline + 0.25 + exchange / every
        yield exposed, layers + awaited + waits
    parts = ("weights", "gradients", "optimizer", "activation", "working")
    kept: dict[str, Any] = {f"{part}_memory": 2.0**k for k, part in enumerate(parts)}
    kept |= {"reserved_memory": 32.0, "inner_steps": 10, "optimizer_parameters": 8.0}
    kept |= {"sites": 2, "site_bandwidth": 1e9}
    yield _values("memory_per_gpu", **kept)[0], 63 + sum(4 + 4 for _ in range(8))
    alone = kept | {"sites": 1, "tokens_factor": 1.25, "training_tokens": 4096 * 1024 * 1e3}
    yield _values("memory_per_gpu training_steps site_parallel_time", **alone), (63, 1000, 0)


@check(
    "counted_outage_rate site_uptime running_sites_elastic_false rigid_awaited_sites_uptime "
    "awaited_sites_uptime_elastic_shrink several_site_working_time several_site_availability "
    "several_site_reason local_site_sync_reason",
    by="simulator",
    source="outages of pods, sites and links drawn and counted; times up and down drawn and laid "
    "side by side; replicas dealt out to sites",
    tolerance=2e-2,
)
def outages() -> Pairs:
    """1 to 3 sites with outages every 50 to 200 h, repaired in 10 h; layouts that do not divide"""
    rng, span, repair = np.random.default_rng(5), 4e5, 10.0
    for sites in (1, 2, 3):
        lives = {"pod": (4 * sites, 500.0), "site": (sites, 200.0)}
        if sites > 1:
            lives["link"] = (sites, 100.0)
        counted = sum(rng.poisson(many * span / life) for many, life in lives.values())
        outage = {"pod_mttf": 500.0, "site_mttf": 200.0, "site_link_mttf": 100.0}
        outage |= {"sites": sites, "gpus_per_pod": 16.0 / sites, "site_repair_time": repair}
        yield _values("outage_rate", **outage)[0], counted / span
        clock = np.arange(0.0, span, 0.5)
        up = np.ones((sites, clock.size), bool)
        for site, life in itertools.product(range(sites), (200.0, 100.0)[: 1 + (sites > 1)]):
            ends = np.cumsum(rng.exponential([life, repair], (8000, 2)).ravel())
            up[site] &= np.searchsorted(ends, clock) % 2 == 0
        whole, one = _values("availability site_uptime", **outage, elastic=False)
        yield one, up[0].mean()
        yield whole, up.all(axis=0).mean()
        counted = {**outage, "time_at_risk": span, "maintenance_fraction": 0.0}
        yield _values("working_time", **counted, elastic=False)[0], up.all(axis=0).sum() * 0.5
        yield _values("working_time", **counted, elastic="shrink")[0], span
    flags = fleetcube.evaluate("arrangement_reason", **{**JOB, "sites": 2}).attrs
    codes = dict(zip(flags["flag_meanings"].split(), flags["flag_values"], strict=True))
    for broken, reason in (
        ({"sites": 2}, "feasible"),
        ({"sites": 3}, "replicas_not_divisible_over_sites"),
        ({"sites": 2.5}, "not_a_whole_number"),
        ({"sites": 2, "inner_steps": 4, "model_fragments": 5}, "more_fragments_than_inner_steps"),
        ({"sites": 2, "inner_steps": 4.5}, "not_a_whole_number"),
        ({"sites": 3, "global_batch_size": 1023}, "batch_not_divisible"),
    ):
        yield _values("arrangement_reason", **broken)[0], codes[reason]


@check(
    "whole_domain_reason",
    by="simulator",
    source="nodes put behind one switch until it has all its GPUs",
)
def nodes_of_a_domain() -> Pairs:
    """domains of 1 to 72 GPUs, nodes of 4, 8 and 16"""
    for node in (4, 8, 16):
        for domain in (1, 4, 8, 12, 36, 64, 72):
            seated = 0
            while seated < domain:
                seated += node
            given = {"gpus_per_domain": domain, "gpus_per_node": node}
            reason = value("domain_reason", **given)
            yield reason, 0 if seated == domain else 30


@check(
    "switched_seated_domain_gpus seated_domain_gpus_all_reduce_torus idle_domain_gpus",
    by="simulator",
    source="groups seated one after the other, each in a domain that still has room for all of it; "
    "larger ones in as few domains as hold them, evenly",
)
def groups_seated() -> Pairs:
    """domains of 8 to 72 GPUs; 1 to 8 tensor, 1 and 4 context, 1 to 144 expert ranks; a torus"""
    for domain, t, c, e in itertools.product((8, 16, 36, 72), (1, 4, 8), (1, 4), (1, 8, 64, 144)):
        group = t * max(c, e)  # experts fold over ranks of context
        rooms = [domain]
        if group <= domain:
            for _ in range(2 * (domain // group)):  # as many as two domains hold
                if rooms[-1] < group:
                    rooms.append(domain)
                rooms[-1] -= group
            idle, domains = float(rooms[0]), len(rooms)
        else:
            domains = next(n for n in itertools.count(1) if group <= n * domain)
            idle = domain - group / domains
        n_gpus = domains * (domain - idle)
        layout = {"tensor_parallel": t, "context_parallel": c, "expert_parallel": e}
        layout |= {"n_gpus": n_gpus, "gpus_per_domain": domain, "gpus_per_node": 4}
        names = "scale_up_gpus idle_domain_gpus"
        yield _values(names, **layout, experts=e), (domain - idle, domains * idle)
        torus = {"all_reduce": "torus", "torus_x": 2}
        yield _values(names, **{**layout, **torus, "n_gpus": domain}, experts=e), (domain, 0)
        alone = {**layout, "scale_up_domain": False}  # nodes without a common switch
        yield _values(names, **alone, experts=e), (4, 0)


@check(
    "nested_tier_reason",
    by="derivation",
    source="GPUs numbered in the order of their seats: two of one node, or below one leaf switch, "
    "that are not in one pod",
)
def pods_that_hold_their_parts() -> Pairs:
    """pods of 4 to 4,096 GPUs over nodes of 8, domains of 64 and leaf switches of 16 and 32"""
    for pod, leaf, rails, domain in itertools.product(
        (4, 16, 64, 256, 4096), (16, 32), (False, True), (8, 64)
    ):
        below = leaf * (8 if rails else 1)
        units = (range(8), range(domain), range(below))
        torn = any(gpu // pod for unit in units for gpu in unit)
        network: dict[str, Any] = {"gpus_per_node": 8, "gpus_per_switch": leaf, "gpus_per_pod": pod}
        network |= {"rail_optimized": rails} | ({"gpus_per_domain": domain} if domain > 8 else {})
        (reason,) = _values("tier_reason", **network)
        yield reason, 31 if torn else 0
