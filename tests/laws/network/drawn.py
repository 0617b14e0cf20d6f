"""Jobs drawn at random, all their groups seated rank by rank: tiers crossed, bytes on each link."""

import math
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ...evaluated import computed
from ..check import Pairs, check
from ..model.models import MIXTRAL
from .meshes import FREE, NODE, ORDERS, RATES, group, mesh, scattered

KINDS = ("tensor", "context", "expert", "data", "pipeline")


def jobs(count: int, seed: int) -> Iterator[tuple[dict[str, Any], dict[str, list[list[int]]]]]:
    """Scenarios of up to 512 GPUs that can be laid out, and the groups of each kind of traffic."""
    rng = random.Random(seed)
    while count:
        sizes = {name: rng.choice((1, 2, 4, 8)) for name in ("tp", "shard", "pp")}
        sizes |= {"cp": rng.choice((1, 2, 4)), "replicate": 1, "ep": 1}
        gpus = math.prod(sizes.values())
        apart, spread = rng.choice((1, sizes["tp"])), rng.choice((1, 2, 4, 8))
        width = gpus // sizes["pp"] // apart // spread
        whole = width * apart * spread * sizes["pp"] == gpus
        if not whole or not NODE < gpus <= 512 or gpus % NODE:
            continue
        order = rng.choice([*ORDERS])
        experts = sizes | {"tp": apart, "cp": 1, "ep": spread, "shard": width}
        ours, theirs = (mesh(each, ORDERS[order]) for each in (sizes, experts))
        leaf = NODE * rng.choice((1, 2, 4))
        point: dict[str, Any] = {**MIXTRAL, **RATES, **FREE, "n_gpus": gpus, "rank_order": order}
        point |= {"tensor_parallel": sizes["tp"], "context_parallel": sizes["cp"]}
        point |= {"pipeline_parallel": sizes["pp"], "sequence_parallel": True, "zero_stage": 1}
        point |= {"expert_parallel": spread, "expert_tensor_parallel": apart}
        point |= {"all_reduce": "hierarchical", "stage_split": False, "gpus_per_switch": leaf}
        point |= {"gpus_per_pod": leaf * rng.choice((1, 2, 4)), "network_tiers": True}
        point |= {"global_batch_size": 8 * sizes["shard"], "oversubscription": 1.0}
        if computed(point, "expert_layout_reason")[0]:
            continue
        count -= 1
        yield (
            point,
            {
                kind: [group(ranks, rank, *along) for rank in range(gpus)]
                for kind, ranks, along in (
                    ("tensor", ours, ("tp",)),
                    ("context", ours, ("cp",)),
                    ("expert", theirs, ("ep",)),
                    ("data", ours, ("cp", "shard")),
                    ("pipeline", ours, ("pp",)),
                )
            },
        )


def most_sent(kind: str, groups: list[list[int]]) -> tuple[float, float]:
    """Messages that a rank sends to its node and to others, at most of all ranks."""
    sent: Counter[tuple[int, str]] = Counter()
    for rank, members in enumerate(groups):
        if kind in ("tensor", "data") and rank == members[0]:
            sent.update(scattered(members))
        elif kind == "expert":
            for other in members:
                if other != rank:
                    link = "node" if other // NODE == rank // NODE else "fabric"
                    sent[rank, link] += 1 / len(members)
        elif kind == "context" and len(members) > 1:
            other = members[(members.index(rank) + 1) % len(members)]
            sent[rank, "node" if other // NODE == rank // NODE else "fabric"] += 1
        elif kind == "pipeline" and rank != members[-1]:
            other = members[members.index(rank) + 1]
            sent[rank, "node" if other // NODE == rank // NODE else "fabric"] += 1
    return tuple(  # type: ignore[return-value]
        max((count for (_, own), count in sent.items() if own == link), default=0.0)
        for link in ("node", "fabric")
    )


LINKED = ("tensor", "context", "expert", "pipeline")  # data's, with experts apart: `folded_experts`
NAMES = (
    "token_gather_time",
    *(f"{kind}_parallel_tier" for kind in KINDS),
    *(f"{kind}_{link}_time" for kind in LINKED for link in ("node", "fabric")),
)


@check(
    "tensor_parallel_tier context_parallel_tier expert_parallel_tier pipeline_parallel_tier "
    "whole_data_parallel_tier tensor_fabric_time tensor_node_time context_fabric_time "
    "context_node_time pipeline_fabric_time pipeline_node_time routed_expert_fabric_time "
    "routed_expert_node_time",
    by="simulator",
    source="groups of drawn jobs seated rank by rank, the smallest unit that holds each, and their "
    "collectives played, bytes inside a node and out",
)
def drawn_jobs() -> Pairs:
    """150 jobs of 16 to 512 GPUs, both orders, experts folded over all ranks of a stage"""
    for point, groups in jobs(150, 1):
        units = (NODE, point["gpus_per_switch"], point["gpus_per_pod"], point["n_gpus"])
        point |= {"hidden_logits_exchange_time": 0.0}
        found = dict(zip(NAMES, computed(point, *NAMES), strict=True))
        for kind in KINDS:
            crossed = 0
            for members in groups[kind]:
                if len(members) > 1:
                    held = [len({rank // unit for rank in members}) == 1 for unit in units]
                    crossed = max(crossed, 1 + held.index(True))
            yield found[f"{kind}_parallel_tier"], crossed
        for kind in LINKED:
            near, far = most_sent(kind, groups[kind])
            gathers = found["token_gather_time"] if kind == "tensor" else 0.0
            inside = (found[f"{kind}_node_time"] - gathers) * RATES["intra_node_bandwidth"]
            outside = found[f"{kind}_fabric_time"] * RATES["inter_node_bandwidth"]
            yield 1 + outside * near, 1 + inside * far
            yield inside > 0, near > 0
