"""Traffic of context, expert and pipeline groups, by placed ranks and simulated hops."""

from collections import Counter
from typing import Any

import numpy as np

from ... import formulas
from ...evaluated import computed
from ..check import Pairs, check
from ..model.models import MIXTRAL
from .collectives import ring

LINKS = {
    "intra_node_bandwidth": 450e9, "intra_node_latency": 1e-6, "inter_node_bandwidth": 50e9,
    "inter_node_latency": 5e-6, "n_gpus": 64, "global_batch_size": 64,
}  # fmt: skip


def ring_attention(ranks: int, repeated: bool) -> int:
    """Messages of keys and values, or of their gradients, that one rank sends for one layer."""
    sent = 0
    for _ in range(2 if repeated else 1):
        seen = [{r} for r in range(ranks)]
        while any(len(blocks) < ranks for blocks in seen):  # forward: blocks go round
            seen = [seen[r] | seen[r - 1] for r in range(ranks)]
            sent += 1
    for block in (0,):  # backward: a block's keys and values, then its gradient behind them
        place, summed = block, {block}
        for _ in range(ranks - 1):
            place = (place + 1) % ranks
            sent += 1
            if place != (block + 1) % ranks:
                sent += 1  # the partial gradient moves on
            summed.add(place)
        sent += ranks > 1  # and home
        assert summed == set(range(ranks))
    return sent


@check(
    "context_message context_send_time context_parallel_time context_exchanges_per_layer",
    by="simulator",
    source="ring attention: keys, values and gradients followed from rank to rank",
)
def context_ring() -> Pairs:
    """1 to 16 ranks, in one node and in two, forward repeated or not"""
    for c in (1, 2, 4, 8, 16):
        for recompute in (False, "full"):
            point = {"layers": 32, "hidden_size": 4096, "kv_heads": 8, "sequence_length": 65536}
            point |= {**LINKS, "context_parallel": c, "recompute": recompute}
            keys = np.dtype("float16").itemsize * (65536 // c) * 8 * 128
            latency, rate = (1e-6, 450e9) if c <= 8 else (5e-6, 50e9)
            once = latency + 2 * keys / rate
            clock = 0.0
            for _ in range(64 // (64 // c)):
                for _ in range(32 * ring_attention(c, recompute == "full")):
                    clock += once
            yield computed(point, "context_parallel_time")[0], clock


@check(
    "node_expert_ranks_per_node per_expert_all_to_all_time routed_expert_parallel_time "
    "expert_all_to_alls_per_layer",
    by="derivation",
    source="ranks placed, every pair's share put on its link; passes through experts listed",
)
def expert_exchange() -> Pairs:
    """Mixtral 8x7B, experts over 2 to 8 ranks with 1 or 4 tensor ranks each"""
    for e in (2, 4, 8):
        for t in (1, 4):
            for recompute in (False, "full"):
                point = {**MIXTRAL, **LINKS, "tensor_parallel": t, "expert_parallel": e}
                point |= {"recompute": recompute}
                message = 4096 * 4096 * 2 * 2  # tokens, width, two experts, BF16
                near, far = Counter[int](), Counter[int]()
                for a in range(e):
                    for b in range(e):
                        if a != b:
                            same = a * t // 8 == b * t // 8
                            (near if same else far)[a] += 1
                bytes_each = message / e
                latency = 5e-6 if far else 1e-6
                busy = max(
                    max(near.values(), default=0) * bytes_each / 450e9,
                    max(far.values(), default=0) * bytes_each / 50e9,
                )
                passes = ["out", "back"] * (3 if recompute == "full" else 2)
                theirs = 32 * t * len(passes) * ((e - 1) * latency + busy)  # t micro-batches
                yield computed(point, "expert_parallel_time")[0], theirs


@check(
    "expert_gradient_ranks node_expert_gradient_ranks_per_node",
    by="derivation",
    source="GPUs that hold the same experts counted, in the cluster and on the first node",
)
def same_experts() -> Pairs:
    """64 GPUs: t 1, 2 and 4, experts over 1 to 8 ranks"""
    for t in (1, 2, 4):
        for e in (1, 2, 8):
            point = {**MIXTRAL, **LINKS, "tensor_parallel": t, "expert_parallel": e}
            same = [gpu for gpu in range(64) if gpu % t == 0 and gpu // t % e == 0]
            names = ("expert_gradient_ranks", "expert_gradient_ranks_per_node")
            ranks, on_node = computed(point, *names)
            yield ranks, len(same)
            yield on_node, sum(1 for gpu in same if gpu < 8)


@check(
    "mean_reduced_expert_parameters expert_mean_reduced_parameters expert_data_parallel_bandwidth "
    "expert_gradient_node_bandwidth expert_gradient_rail_bandwidth",
    by="simulator",
    source="rings of dense and of expert weights played apart, bytes of one rank added up",
)
def expert_rings() -> Pairs:
    """16 ranks, experts over 1, 2, 8 and 16: rings, experts' on half the rails; by levels"""
    for e in (1, 2, 8, 16):
        routed, dense = 32e9, 4e9
        held = routed / e
        bytes_sent = ring(16, dense, 0.0, 1.0) + ring(16 // e, held, 0.0, 1.0)
        share = formulas.ring_routed_reduction_share(e, 1, 1, 16)
        experts = formulas.mean_reduced_expert_parameters(routed, share, 1, 1, 1)
        every = formulas.expert_mean_reduced_parameters(routed + dense, routed, 1, 1, experts, 1)
        yield ring(16, every, 0.0, 1.0), bytes_sent
        both = formulas.expert_data_parallel_bandwidth(16, 1, 450e9, 50e9, every, experts, 25e9)
        seconds = ring(16, dense, 0.0, 50e9) + ring(16 // e, held, 0.0, 25e9)
        yield ring(16, every, 0.0, both), seconds
        # level by level on two nodes of 8, experts on every e-th rank
        here, there = max(8 // e, 1), min(2, 16 // e)
        point = {**LINKS, "mixture_of_experts": True, "parameters": routed + dense}
        point |= {"routed_parameters": routed, "expert_parallel": e, "n_gpus": 16}
        point |= {"tensor_parallel": 1, "intra_node_latency": 0.0, "inter_node_latency": 0.0}
        point |= {"all_reduce": "hierarchical", "zero_stage": 0, "gradient_bytes_per_element": 1}
        inside = ring(8, dense, 0.0, 450e9) + ring(here, held, 0.0, 450e9)
        between = ring(2, dense / 8, 0.0, 50e9) + ring(there, held / here, 0.0, 50e9)
        yield computed(point, "data_parallel_time")[0], inside + between


@check(
    "folded_stage_chunks whole_pipeline_message scattered_pipeline_message pipeline_send_time "
    "scattered_pipeline_gather_time",
    by="simulator",
    source="the parts of an activation sent rank by rank and put together around a ring",
)
def stage_boundary() -> Pairs:
    """t 1 and 8, with and without sequence parallelism, sent whole or in parts"""
    for t in (1, 8):
        for sequence in (False, True):
            for scattered in (False, True):
                point: dict[str, Any] = {**LINKS, "layers": 32, "hidden_size": 4096}
                point |= {"pipeline_parallel": 4, "tensor_parallel": t}
                point |= {"sequence_parallel": sequence, "scatter_gather": scattered}
                whole = np.dtype("float16").itemsize * 4096 * 4096
                parts = t if sequence or scattered else 1
                gather = 0.0
                if scattered and not sequence:
                    gather = ring(t, whole, 1e-6, 450e9) / 2  # its second half
                names = ("pipeline_message", "pipeline_send_time", "pipeline_gather_time")
                message, send, gathered = computed(point, *names)
                yield message, whole / parts
                yield send, 5e-6 + whole / parts / 50e9
                yield gathered, gather
    folded = {**LINKS, "layers": 32, "hidden_size": 4096, "pipeline_parallel": 4}
    there_and_back = [0, 1, 2, 3, 3, 2, 1, 0]
    chunks = computed(folded | {"pipeline_schedule": "zb_v"}, "stage_chunks")[0]
    yield chunks, Counter(there_and_back)[0]


@check(
    "straggler_time",
    by="simulator",
    source="10,000 steps of 256 ranks drawn (fixed seed), the slowest awaited",
    tolerance=1e-2,
)
def slowest_rank() -> Pairs:
    """jitter of 5 %, and a rank slower by 10 %"""
    draws = np.random.default_rng(3).standard_normal((10_000, 256))
    deviation = float(draws.max(axis=1).mean())
    waits = (4.0 * (1 + 0.1 + 0.05 * draws)).max(axis=1) - 4.0
    slowdown = formulas.slowest_rank_slowdown(0.1, 0.05, deviation)
    yield formulas.straggler_time(4.0, slowdown, 0.0), float(waits.mean())
