"""Process groups of a machine built rank by rank, and the bytes that their collectives send."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from .check import Pairs, check
from .models import computed

NODE = 8
USUAL = ("tp", "cp", "shard", "replicate", "pp")  # the innermost first
RATES = {"intra_node_bandwidth": 400e9, "inter_node_bandwidth": 50e9}
FREE = {"intra_node_latency": 0.0, "inter_node_latency": 0.0, "gpus_per_switch": 8}
MODEL = {"parameters": 7e9, "layers": 32, "hidden_size": 4096, "sequence_length": 2048}

Seats = dict[tuple[int, ...], int]


def mesh(sizes: Mapping[str, int], order: Iterable[str] = USUAL) -> list[dict[str, int]]:
    """Coordinates of every rank: the first dimension of the order changes from rank to rank."""
    outermost = list(order)[::-1]
    places = itertools.product(*(range(sizes[name]) for name in outermost))
    return [dict(zip(outermost, place, strict=True)) for place in places]


def group(ranks: list[dict[str, int]], of: int, *along: str) -> list[int]:
    """Ranks that differ from one along these dimensions only."""
    fixed = {name: at for name, at in ranks[of].items() if name not in along}
    return [k for k, place in enumerate(ranks) if fixed.items() <= place.items()]


def scattered(members: list[int]) -> Counter[tuple[int, str]]:
    """Share of its buffer that each rank sends in a reduce-scatter, by the link it takes.

    Blocks go round each node, then between the nodes on the rail of each place. An all-gather goes
    the same ways back.
    """
    nodes = defaultdict(list)
    for rank in members:
        nodes[rank // NODE].append(rank)
    here = {len(seats) for seats in nodes.values()}
    assert len(here) == 1
    seats, rings = list(nodes.values()), here.pop()
    added = {(rank, block): {rank} for rank in members for block in members}
    sent: Counter[tuple[int, str]] = Counter()

    def go_round(ring: list[int], blocks: list[list[int]], link: str) -> None:
        for hop in range(len(ring) - 1):
            for chunk, inside in enumerate(blocks):
                start, end = (
                    ring[(chunk + 1 + hop) % len(ring)],
                    ring[(chunk + 2 + hop) % len(ring)],
                )
                sent[start, link] += len(inside)
                for block in inside:
                    added[end, block] |= added[start, block]

    for ring in seats:
        go_round(ring, [[node[place] for node in seats] for place in range(rings)], "node")
    for place in range(rings):
        ring = [node[place] for node in seats]
        go_round(ring, [[rank] for rank in ring], "fabric")
    assert all(added[rank, rank] == set(members) for rank in members)
    return Counter({at: blocks / len(members) for at, blocks in sent.items()})


LAYOUTS = (  # tp, cp, shard, replicate, pp
    (1, 1, 8, 4, 1), (1, 1, 4, 8, 1), (1, 1, 16, 2, 1), (2, 1, 4, 4, 1), (4, 1, 2, 2, 2),
    (1, 2, 4, 4, 1), (2, 2, 2, 2, 2), (1, 1, 2, 2, 4), (1, 1, 1, 16, 1), (1, 1, 16, 1, 1),
)  # fmt: skip


def counted(
    ranks: list[dict[str, int]], stage: int, sync: str, reshard: bool, microbatches: int
) -> tuple[float, float, Counter[str]]:
    """Parameters whose gradients and weights a rank keeps at most, and bytes by kind of link.

    The weights are those of a stage, in BF16; the step is played micro-batch by micro-batch.
    """
    at = ranks[0]
    sizes = {name: 1 + max(place[name] for place in ranks) for name in at}
    held = MODEL["parameters"] / sizes["tp"] / sizes["pp"]
    shards, copies = group(ranks, 0, "cp", "shard"), group(ranks, 0, "replicate")
    inside, across = scattered(shards), scattered(copies)
    total: Counter[str] = Counter()

    def move(shares: Counter[tuple[int, str]], bytes_: float, times: int = 1) -> None:
        for link in ("node", "fabric"):
            total[link] += times * bytes_ * shares[0, link]

    gathered, summed = stage < 3, 0.0
    for microbatch in range(microbatches):
        last = microbatch == microbatches - 1
        for _ in ("forward", "backward"):
            if not gathered:
                move(inside, 2 * held)
            gathered = stage < 3 or not reshard
        reduces = last or (stage >= 2 and sync != "step")
        summed = max(summed, held / len(shards) if stage >= 2 and sync != "step" else held)
        if reduces:
            move(inside, 2 * held, 2 if stage == 0 else 1)
            gathered = stage < 3
        if last or (reduces and sync == "microbatch"):
            move(across, 2 * held / len(shards), 2)
    if stage in (1, 2):
        move(inside, 2 * held)
    return summed, held / len(shards), total


@check(
    "shard_gradient_ranks",
    "repeated_gathers_per_reduction",
    "hybrid_replica_reduce_time",
    "shard_replicas",
    "replica_message",
    "replica_ranks_per_node",
    "hybrid_data_fabric_time",
    "hybrid_data_node_time",
    "replica_bytes",
    "replica_fabric_share",
    "replica_node_share",
    "sharded_gradients_memory",
    "held_accumulated_parameters",
    by="simulator",
    source="groups of a mesh built rank by rank, a step's collectives played block by block",
)
def sharding_groups() -> Pairs:
    """10 meshes of 16 to 32 GPUs, every ZeRO stage, gradients reduced in three ways"""
    for sizes, stage, sync, reshard in itertools.product(
        LAYOUTS, (0, 1, 2, 3), ("microbatch", "two_hop", "step"), (True, False)
    ):
        degrees = dict(zip(USUAL, sizes, strict=True))
        ranks = mesh(degrees)
        tensor, context, shard, replicate, stages = sizes
        point: dict[str, Any] = {**RATES, **FREE, **MODEL, "n_gpus": math.prod(sizes)}
        point |= {"tensor_parallel": tensor, "context_parallel": context}
        point |= {"pipeline_parallel": stages, "data_parallel_shard": shard}
        point |= {"zero_stage": stage, "gradient_sync": sync, "reshard_after_forward": reshard}
        point |= {"global_batch_size": 3 * shard * replicate, "all_reduce": "hierarchical"}
        names = ("data_fabric_time", "data_node_time", "data_parallel_time", "gradients_memory")
        fabric, node, whole, gradients = computed(point, *names)
        summed, share, total = counted(ranks, stage, sync, reshard, 3)
        yield node, total["node"] / RATES["intra_node_bandwidth"]
        yield fabric, total["fabric"] / RATES["inter_node_bandwidth"]
        yield whole, node + fabric
        yield gradients, 2 * summed
        optimizer = computed(point, "optimizer_memory")[0]
        yield optimizer, 12 * (share if stage else MODEL["parameters"] / tensor / stages)
