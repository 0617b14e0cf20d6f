"""Process groups built rank by rank, and the bytes that their collectives send."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ...evaluated import ENDS, computed
from ..check import Pairs, check
from ..model.models import MIXTRAL

NODE = 8
USUAL = ("tp", "cp", "shard", "replicate", "pp")  # the innermost first
RATES = {"intra_node_bandwidth": 400e9, "inter_node_bandwidth": 50e9}
FREE = {"intra_node_latency": 0.0, "inter_node_latency": 0.0, "gpus_per_switch": 8}
MODEL = {"parameters": 7e9, "layers": 32, "hidden_size": 4096, "sequence_length": 2048}

Seats = dict[tuple[int, ...], int]


def mesh(sizes: Mapping[str, int], order: Iterable[str] = USUAL) -> list[dict[str, int]]:
    """Coordinates of every rank; the first dimension of the order varies fastest."""
    outermost = list(order)[::-1]
    places = itertools.product(*(range(sizes[name]) for name in outermost))
    return [dict(zip(outermost, place, strict=True)) for place in places]


def group(ranks: list[dict[str, int]], of: int, *along: str) -> list[int]:
    """Ranks that differ from one along these dimensions only."""
    fixed = {name: at for name, at in ranks[of].items() if name not in along}
    return [k for k, place in enumerate(ranks) if fixed.items() <= place.items()]


def scattered(members: list[int]) -> Counter[tuple[int, str]]:
    """Share of its buffer that each rank sends in a reduce-scatter, by link.

    Blocks go round each node, then between nodes on the rail of each place. An all-gather takes the
    same paths back.
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
    """Most parameters whose gradients and weights a rank keeps, and bytes by kind of link.

    The weights are those of a stage, in BF16; the step is simulated micro-batch by micro-batch.
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
        # gradients are whole where some wait to be reduced, or none are shared out
        summed = max(summed, held / len(shards) if stage >= 2 and reduces else held)
        if reduces:
            move(inside, 2 * held, 2 if stage == 0 else 1)
            gathered = stage < 3
        if last or (reduces and sync == "microbatch"):
            move(across, 2 * held / len(shards), 2)
    if stage in (1, 2):
        move(inside, 2 * held)
    return summed, held / len(shards), total


@check(
    "shard_gradient_ranks repeated_gathers_per_reduction hybrid_replica_reduce_time "
    "shard_replicas replica_message hybrid_data_fabric_time hybrid_data_node_time replica_bytes "
    "replica_fabric_share replica_node_share sharded_gradients_memory "
    "summed_accumulated_parameters",
    by="simulator",
    source="groups of a mesh built rank by rank, a step's collectives played block by block",
)
def sharding_groups() -> Pairs:
    """10 meshes of 16 to 32 GPUs, every ZeRO stage, gradients reduced in three ways, m 1, 3"""
    for sizes, stage, sync, reshard, m in itertools.product(
        LAYOUTS, (0, 1, 2, 3), ("microbatch", "two_hop", "step"), (True, False), (1, 3)
    ):
        degrees = dict(zip(USUAL, sizes, strict=True))
        ranks = mesh(degrees)
        tensor, context, shard, replicate, stages = sizes
        point: dict[str, Any] = {**RATES, **FREE, **MODEL, "n_gpus": math.prod(sizes)}
        point |= {"tensor_parallel": tensor, "context_parallel": context}
        point |= {"pipeline_parallel": stages, "data_parallel_shard": shard}
        point |= {"stage_split": False}
        point |= {"zero_stage": stage, "gradient_sync": sync, "reshard_after_forward": reshard}
        point |= {"global_batch_size": m * shard * replicate, "all_reduce": "hierarchical"}
        names = ("data_fabric_time", "data_node_time", "data_parallel_time", "gradients_memory")
        fabric, node, whole, gradients = computed(point, *names)
        summed, share, total = counted(ranks, stage, sync, reshard, m)
        yield node, total["node"] / RATES["intra_node_bandwidth"]
        yield fabric, total["fabric"] / RATES["inter_node_bandwidth"]
        yield whole, node + fabric
        yield gradients, 2 * summed
        optimizer = computed(point, "optimizer_memory")[0]
        yield optimizer, 12 * (share if stage else MODEL["parameters"] / tensor / stages)


ORDERS = {
    "tp-cp-ep-dp-pp": ("tp", "cp", "ep", "shard", "replicate", "pp"),
    "tp-cp-ep-pp-dp": ("tp", "cp", "ep", "pp", "shard", "replicate"),
}
FOLDED = (  # tp, cp, shard, replicate, pp, etp, ep
    (2, 1, 8, 2, 2, 1, 8), (2, 1, 4, 4, 2, 1, 2), (4, 1, 4, 2, 2, 2, 8), (4, 1, 4, 4, 1, 1, 4),
    (2, 2, 4, 2, 2, 1, 4), (1, 2, 8, 2, 2, 1, 8), (2, 1, 8, 4, 1, 2, 4), (2, 1, 2, 4, 4, 1, 2),
    (1, 1, 4, 4, 4, 1, 1), (8, 1, 2, 2, 2, 1, 8), (4, 2, 2, 2, 2, 2, 4), (1, 1, 16, 2, 2, 2, 2),
)  # fmt: skip


def on_first_node(members: list[int]) -> int:
    """Members of a group of rank 0 that share its node."""
    return sum(rank < NODE for rank in members)


@check(
    "inner_expert_gradient_stride outer_expert_gradient_stride inner_data_parallel_ranks_per_node "
    "outer_data_parallel_ranks_per_node outer_data_parallel_ranks_per_leaf "
    "outer_data_parallel_ranks_per_pod inner_pipeline_stride replica_ranks_per_node "
    "outer_expert_fold_reason inner_expert_fold_reason expert_gradient_ranks "
    "mean_reduced_expert_parameters expert_mean_reduced_parameters expert_data_fabric_share "
    "expert_data_node_share expert_local_parameters even_replica_parameters",
    by="simulator",
    source="meshes of attention and of experts built rank by rank, their stages compared; a step's "
    "collectives played block by block",
)
def folded_experts() -> Pairs:
    """12 layouts of 32 to 64 GPUs with 1 to 8 GPUs to an expert, both orders"""
    for layout, (order, dimensions) in itertools.product(FOLDED, ORDERS.items()):
        tensor, context, shard, replicate, stages, apart, spread = layout
        n_gpus = math.prod(layout[:5])
        sizes = dict(zip((*USUAL, "ep"), (*layout[:5], 1), strict=True))
        ours = mesh(sizes, dimensions)
        width = n_gpus // (stages * replicate * apart * spread)
        experts_sizes = {"tp": apart, "cp": 1, "ep": spread, "shard": width}
        experts_sizes |= {"replicate": replicate, "pp": stages}
        experts = mesh(experts_sizes, dimensions)
        point: dict[str, Any] = {**MIXTRAL, **RATES, **FREE, "n_gpus": n_gpus}
        point |= {"tensor_parallel": tensor, "context_parallel": context, "rank_order": order}
        point |= {"pipeline_parallel": stages, "data_parallel_shard": shard}
        point |= {"expert_tensor_parallel": apart, "expert_parallel": spread}
        point |= {"sequence_parallel": True, "zero_stage": 1, "all_reduce": "hierarchical"}
        point |= {"stage_split": False, "global_batch_size": 64}
        rows = [[group(ranks, k, "pp") for k in range(n_gpus)] for ranks in (ours, experts)]
        reason = computed(point, "expert_layout_reason")[0]
        yield reason, 0.0 if rows[0] == rows[1] else 19.0
        yield (
            computed(point | {"sequence_parallel": False}, "expert_fold_reason")[0] == 19,
            (reason == 19 or (apart != tensor and tensor > 1)),
        )
        if reason:
            continue
        data, copies = group(ours, 0, "cp", "shard"), group(ours, 0, "replicate")
        same = group(experts, 0, "shard")
        places = {
            "data_parallel": data, "replica": copies, "pipeline": group(ours, 0, "pp"),
            "expert_gradient": same, "expert": group(experts, 0, "ep"),
        }  # fmt: skip
        for kind, members in places.items():
            yield computed(point, f"{kind}_ranks_per_node")[0], on_first_node(members)
        tiers = point | {"gpus_per_switch": 2 * NODE, "gpus_per_pod": 4 * NODE}
        names = ("data_parallel_ranks_per_leaf", "data_parallel_ranks_per_pod")
        for seats, got in zip((2 * NODE, 4 * NODE), computed(tiers, *names), strict=True):
            yield got, sum(rank < seats for rank in data)
        yield computed(point, "expert_gradient_ranks")[0], len(same)
        names = ("parameters", "routed_parameters", "local_parameters")
        everything, routed, local = computed(point, *names)
        own = routed / (apart * spread * stages)
        dense = (everything - routed) / (tensor * stages)
        yield local, dense + own
        sent: Counter[str] = Counter()
        for held, near in ((dense, data), (own, same)):
            for shares, bytes_ in ((scattered(near), 4 * held),):  # gradients there, weights back
                for link in ("node", "fabric"):
                    sent[link] += bytes_ * shares[0, link]
            for link in ("node", "fabric"):
                sent[link] += 4 * held / len(near) * scattered(copies)[0, link]
        names = ("data_node_time", "data_fabric_time", "data_parallel_time")
        node, fabric, whole = computed(point, *names)
        yield node, sent["node"] / RATES["intra_node_bandwidth"]
        yield fabric, sent["fabric"] / RATES["inter_node_bandwidth"]
        yield whole, node + fabric


@check(
    "expert_tensor_parallel_time expert_token_gather_time per_expert_gather_time",
    by="simulator",
    source="exchanges of a layer's passes listed; tokens passed round the GPUs of an expert",
)
def exchanges_of_experts() -> Pairs:
    """4 tensor ranks, experts on 1 to 16 GPUs, with shared experts and dense layers or without"""
    for apart, shared, dense, repeated in itertools.product(
        (1, 2, 4, 16), (0, 1), (0, 4), (False, True)
    ):
        point: dict[str, Any] = {**MIXTRAL, **RATES, "n_gpus": 64, "tensor_parallel": 4}
        point |= {"expert_tensor_parallel": apart, "shared_experts": shared, "dense_layers": dense}
        point |= {"sequence_parallel": True, "tensor_parallel_exchange_time": 7.0}
        point |= {"num_microbatches": 3, "recompute": "full" if repeated else False}
        point |= {"expert_message": 1e9, "regather_time": 0.0, "inter_node_latency": 1.0, **ENDS}
        passed, rate, latency = 0.0, 400e9, 3.4e-6
        if apart > NODE:
            rate, latency = 400e9, 1.0  # eight rails of 50 GB/s
        for _ in range(apart - 1):
            passed += latency + 1e9 / rate
        clock = 0.0
        for layer in range(32):
            for _ in ["forward", "backward"] + ["again"] * repeated:
                clock += 7.0  # attention
                if layer < dense or shared:
                    clock += 7.0
                if layer >= dense:
                    clock += passed + passed  # there, and back
        yield computed(point, "tensor_parallel_time")[0], 3 * clock


@check(
    "weights_held_state_bytes gathered_held_state_bytes staged_replica_parameters "
    "largest_stage_parameters summed_unsharded_gradient_bytes",
    by="derivation",
    source="every stage's memory and shard taken by themselves, the largest kept",
)
def fullest_of_all() -> Pairs:
    """Mixtral 8x7B on 4 stages, ZeRO-2 and 3, gradients and weights kept whole or not"""
    for stage, sync, reshard, dense, batch in itertools.product(
        (2, 3), ("microbatch", "step"), (True, False), (0, 8), (16, 64)
    ):
        point: dict[str, Any] = {**MIXTRAL, **RATES, "n_gpus": 128, "pipeline_parallel": 4}
        point |= {"expert_parallel": 4, "tensor_parallel": 2, "data_parallel_shard": 8}
        point |= {"zero_stage": stage, "gradient_sync": sync, "reshard_after_forward": reshard}
        point |= {"dense_layers": dense, "global_batch_size": batch}
        names = ("memory_per_gpu", "sharded_parameters")
        each = [computed(point | {"pipeline_stage": 1 + k}, *names) for k in range(4)]
        yield computed(point, "memory_per_gpu")[0], max(memory for memory, _ in each)
        yield computed(point, "replica_parameters")[0], max(shard for _, shard in each)
