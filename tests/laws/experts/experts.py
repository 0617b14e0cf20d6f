"""Mixture of experts at run time: tokens routed one by one, sent, sorted and computed."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np

from fleetcube.kernels.laws.layer import gemm_time
from fleetcube.kernels.laws.topology import distinct_groups

from ...evaluated import computed, value
from ..check import Pairs, check
from ..compute.layers import MIXED, Gpu, feed_forward


@check(
    "distinct_groups",
    by="derivation",
    source="binomials: the chance that none of k items drawn is in a group, exactly",
    tolerance=7e-3,
)
def groups_of_items_drawn() -> Pairs:
    """8 to 512 items in 1 to 64 groups, 1 to 32 drawn"""
    for items in (8, 16, 60, 128, 512):
        for groups in (n for n in (1, 2, 3, 4, 8, 16, 64) if items % n == 0):
            for drawn in (1, 2, 3, 6, 8, 10, 32):
                if drawn <= items:
                    none = math.comb(items - items // groups, drawn) / math.comb(items, drawn)
                    yield distinct_groups(drawn, items, groups), groups * (1 - none)


def _route(tokens: int, experts: int, visits: int, nodes: int, most: int) -> np.ndarray:
    """Experts of each token: the best on the nodes that hold the best of all."""
    scores = np.random.default_rng(0).random((tokens, experts))
    of_node = scores.reshape(tokens, nodes, -1).max(2)
    kept = np.argsort(-of_node, 1) < 0
    np.put_along_axis(kept, np.argsort(-of_node, 1)[:, :most], True, 1)
    masked = np.where(np.repeat(kept, experts // nodes, 1), scores, -1.0)
    return np.argsort(-masked, 1)[:, :visits]


def _hit(experts: np.ndarray, each: int, groups: int) -> np.ndarray:
    """Which groups of `each` experts every token visits."""
    hit = np.zeros((len(experts), groups), bool)
    np.put_along_axis(hit, experts // each, True, 1)
    return hit


@check(
    "open_nodes node_visits_per_token rank_visits_per_token per_node_fabric_bytes "
    "per_node_node_bytes per_node_all_to_all_time",
    by="simulator",
    source="tokens routed to the best experts of the best nodes; each copy put on its link: to the "
    "GPU of the same place on each node, and on from there",
    tolerance=4e-2,
)
def tokens_spread_over_nodes() -> Pairs:
    """256 and 64 experts, 8 and 6 a token, on 1 to 8 nodes of 8, limits of 1 node to all"""
    tokens, width, here = 4000, 7168, 8
    for experts, visits, nodes, most in (
        (256, 8, 8, 4), (256, 8, 8, 8), (256, 8, 8, 1), (256, 8, 8, 6), (256, 8, 4, 4),
        (256, 8, 2, 2), (256, 8, 1, 1), (64, 6, 4, 3), (64, 6, 8, 8), (64, 6, 8, 2),
    ):  # fmt: skip
        ranks = nodes * here
        chosen = _route(tokens, experts, visits, nodes, most)
        on_node, on_rank = (
            _hit(chosen, experts // nodes, nodes),
            _hit(chosen, experts // ranks, ranks),
        )
        source = np.arange(tokens) % ranks
        node, place = source // here, source % here
        across = on_node.sum() - on_node[np.arange(tokens), node].sum()
        # each copy arrives at `place` of a node, which keeps its own tokens
        kept = on_rank.reshape(tokens, nodes, here)[np.arange(tokens), :, place].sum()
        size = width * 2
        far, near = across * size / tokens, (on_rank.sum() - kept) * size / tokens
        names = ["node_visits_per_token", "rank_visits_per_token"]
        names += ["expert_fabric_bytes", "expert_node_bytes", "expert_all_to_all_time"]
        given = {"n_gpus": ranks, "experts": experts, "experts_per_token": visits}
        given |= {"expert_parallel": ranks, "routing_nodes": most, "hidden_size": width}
        given |= {"sequence_length": 1, "intra_node_bandwidth": 160e9, "inter_node_bandwidth": 50e9}
        given |= {"intra_node_latency": 2e-9, "inter_node_latency": 3e-9}
        got = computed(given, *names)
        time = 2e-9 * (here - 1) + 3e-9 * (nodes - 1) + max(far / 50e9, near / 160e9)
        theirs = (on_node.sum() / tokens, on_rank.sum() / tokens, far, near, time)
        yield from zip(got, theirs, strict=True)


def _dispatched(
    t: int, apart: int, spread: int, here: int, dispatcher: str
) -> tuple[float, float, float, float]:
    """Tokens that a rank sends to other nodes and to GPUs of its own in the dispatch of a layer, in
    the gather of experts' GPUs after it, and tokens that its experts get, means per token it holds.

    Each rank holds other tokens (sequence parallelism); experts' GPUs are `apart` neighbours.
    """
    experts, ranks = 16, range(apart * spread)
    routed = list(itertools.combinations(range(experts), 2))  # a token for each pair of experts
    owned = {x: range(x // apart * experts // spread, (x // apart + 1) * experts // spread)
             for x in ranks}  # fmt: skip
    sent: Counter[str] = Counter()
    held: dict[int, Counter[tuple[int, int]]] = {x: Counter() for x in ranks}

    def move(a: int, b: int, inside: str = "near") -> None:
        if a != b:
            sent["far" if a // here != b // here else inside] += 1

    for rank in ranks:
        for number, chosen in enumerate(routed):
            if dispatcher == "all_gather":  # to all ranks of both groups, rail by rail
                nodes = {x // here for x in ranks}
                for node in nodes:
                    first = node * here + rank % here if len(nodes) > 1 else rank
                    move(rank, first)
                    for x in (x for x in ranks if x // here == node):
                        move(first, x)
                        held[x].update((rank, number) for e in chosen if e in owned[x])
                continue
            wanted = [x for x in ranks for e in chosen if e in owned[x]]
            if dispatcher == "per_expert":  # to the owner with the same place in its expert's group
                for x in wanted:
                    if x % apart == rank % apart:
                        move(rank, x)
                        held[x][rank, number] += 1
                continue
            for node in {x // here for x in wanted}:  # once to a node, and on from there
                first = node * here + rank % here if node != rank // here else rank
                move(rank, first)
                for x in {x for x in wanted if x // here == node}:
                    move(first, x)
                    held[x][rank, number] += sum(w == x for w in wanted)
    if dispatcher == "per_expert":
        received = {x: Counter(tokens) for x, tokens in held.items()}
        for x in ranks:
            for other in range(x // apart * apart, (x // apart + 1) * apart):
                if other != x:
                    sent["gather"] += received[other].total()
                    held[x] += received[other]
    for x in ranks:  # all tokens of all ranks that chose its experts, on each of an expert's GPUs
        assert held[x] == held[x // apart * apart]
    share = len(routed) * len(ranks)
    got = sum(tokens.total() for tokens in held.values())
    return sent["far"] / share, sent["near"] / share, sent["gather"] / share, got / share


@check(
    "expert_token_ranks per_expert_gather_time per_expert_fabric_bytes per_expert_node_bytes "
    "per_node_node_bytes per_node_fabric_bytes gathered_fabric_bytes gathered_node_bytes "
    "per_node_all_to_all_time expert_ffn_input_width",
    by="simulator",
    source="every copy of every token sent from rank to rank, as in Megatron-LM, "
    "megatron/core/transformer/moe/token_dispatcher.py (alltoall, flex, allgather)",
    tolerance=7e-3,
)
def tokens_of_every_rank() -> Pairs:
    """2 to 8 tensor ranks, experts on 1 to 8 GPUs over 2 and 4 groups, nodes of 4 and 8"""
    width, each = 1024, 4096
    for t, apart, spread, here, dispatcher in itertools.product(
        (2, 8), (1, 2, 4, 8), (2, 4), (8, 16), ("per_expert", "per_node", "all_gather")
    ):
        if t * spread * apart > 64 or apart > here:
            continue
        far, near, gather, got = _dispatched(t, apart, spread, here, dispatcher)
        point: dict[str, Any] = {"n_gpus": 64, "experts": 16, "experts_per_token": 2, "layers": 4}
        point |= {"tensor_parallel": t, "sequence_parallel": True, "expert_parallel": spread}
        point |= {"expert_tensor_parallel": apart, "gpus_per_node": here, "hidden_size": width}
        point |= {"attention_heads": 8, "sequence_length": each * t, "recompute": False}
        point |= {"expert_dispatch": dispatcher, "global_batch_size": 64, "scale_up_gpus": here}
        point |= {"intra_node_latency": 0.0, "inter_node_latency": 0.0, "regather_time": 0.0}
        point |= {"intra_node_bandwidth": 100.0, "inter_node_bandwidth": 100.0}
        size = width * 2 * each
        names = ["expert_fabric_bytes", "expert_node_bytes", "expert_gather_time"]
        names += ["ffn_input_width", "expert_all_to_all_time"]
        ours = computed(point, *names)
        yield ours[0], far * size
        yield ours[1], near * size
        yield ours[2] * 100, gather * size
        yield ours[3] / t, width / t + got * width / t
        yield ours[4], size * max(far, near) / 100


# DeepEP, docs/legacy.md: #EP -> GB/s of dispatch in FP8 and of combine in BF16
_DEEPEP = {8: (153, 158), 16: (43, 43), 32: (58, 57), 64: (51, 50)}


@check(
    "per_node_all_to_all_time",
    by="table",
    source="DeepEP, docs/legacy.md, normal kernels on H800 (160 GB/s NVLink, 50 GB/s InfiniBand); "
    "bandwidths count what stays on a rank or node, as in its tests",
    tolerance=0.23,
)
def deepep_kernels() -> Pairs:
    """4,096 tokens of 7,168, top 8 of 256 experts on 4 nodes, 8 to 64 ranks, both ways"""
    for ranks, printed in _DEEPEP.items():
        nodes = ranks // 8
        chosen = _route(4096, 256, 8, nodes, min(nodes, 4))
        copies = _hit(
            chosen, 256 // (ranks if nodes == 1 else nodes), ranks if nodes == 1 else nodes
        )
        for size, rate in zip((1 + 4 / 128, 2.0), printed, strict=True):
            given = {"n_gpus": ranks, "experts": 256, "experts_per_token": 8}
            given |= {"expert_parallel": ranks, "routing_nodes": 4, "hidden_size": 7168}
            given |= {"sequence_length": 4096, "dispatch_bytes_per_element": size}
            given |= {"combine_bytes_per_element": size, "intra_node_bandwidth": 160e9}
            given |= {"inter_node_bandwidth": 50e9}
            ours = value("expert_all_to_all_time", **given)
            yield ours, copies.sum() * 7168 * size / (rate * 1e9)


# DeepGEMM 1.0, README: groups, rows of a group, columns, depth -> TFLOP/s on H800
_DEEPGEMM = {
    (4, 8192, 4096, 7168): 1297, (8, 4096, 4096, 7168): 1288, (1, 1024, 4096, 7168): 1233,
    (2, 512, 4096, 7168): 1040, (4, 256, 4096, 7168): 932,
    (4, 8192, 7168, 2048): 1099, (8, 4096, 7168, 2048): 1093, (1, 1024, 7168, 2048): 925,
    (2, 512, 7168, 2048): 916, (4, 256, 7168, 2048): 815,
}  # fmt: skip


@check(
    "gemm_rate_share",
    by="table",
    source="DeepGEMM's README (first release), grouped products of DeepSeek-V3's experts in FP8",
    tolerance=0.13,
)
def grouped_products() -> Pairs:
    """rates at 256 to 4,096 tokens an expert over that at 8,192: two shapes, half depth 198"""

    def rate(rows: int, columns: int, depth: int) -> float:
        on = (1 + 4 / 128, 2, 1979e12, 0.8, 198.0, 0.8 * 3.35e12)
        return float(2 * rows * columns * depth / gemm_time(rows, columns, depth, *on))

    for (_, rows, columns, depth), measured in _DEEPGEMM.items():
        most = _DEEPGEMM[4, 8192, columns, depth]
        yield rate(rows, columns, depth) / rate(8192, columns, depth), measured / most


@check(
    "unlimited_routed_visits_per_token padded_routed_visits_per_token "
    "dropped_routed_visits_per_token tokens_per_expert",
    by="simulator",
    source="tokens put into the experts' buffers one by one, the busiest rank's counted",
)
def tokens_in_buffers() -> Pairs:
    """16 experts on 4 ranks, 2 a token: even and uneven loads, buffers of 1 to 2 means"""
    tokens, ranks, experts = 480, 4, 16
    for extra in (0, 96, 240):
        loads = [0] * experts
        places = [e for _ in range(2 * tokens * ranks // experts) for e in range(experts)]
        for number, expert in enumerate(places):  # `extra` of each expert go to the first rank
            moved = expert >= 4 and number // experts < extra * 4 // 12
            loads[expert % 4 if moved else expert] += 1
        mean = sum(loads) / experts
        for held in (ranks, 1):  # the largest imbalance: all visit the same rank
            given = {"expert_load_imbalance": 100, "experts": experts, "experts_per_token": 2}
            got = computed(given | {"expert_parallel": held}, "routed_visits_per_token")
            yield got[0], min(2, experts / held) * held  # at most the experts of the rank
        for factor in (1.0, 1.25, 2.0):
            for capacity in ("unlimited", "padded", "dropped"):
                room = {"unlimited": math.inf}.get(capacity, factor * mean)
                taken = [room if capacity == "padded" else min(load, room) for load in loads]
                scenario: dict[str, Any] = {"capacity_factor": factor, "expert_capacity": capacity}
                given = {**scenario, "expert_load_imbalance": sum(loads[:4]) / 4 / mean}
                given |= {"experts": experts, "experts_per_token": 2, "expert_parallel": ranks}
                given |= {"sequence_length": tokens}
                got = computed(given, "tokens_per_expert", "routed_visits_per_token")
                yield got[0], max(taken)
                yield got[1], max(sum(taken[at : at + 4]) for at in (0, 4, 8, 12)) / tokens


@check(
    "per_expert_sorted_copies_per_token per_node_sorted_copies_per_token token_permutation_time",
    by="simulator",
    source="every array that a dispatcher reads or writes to sort tokens, on the clock of a GPU",
)
def tokens_sorted() -> Pairs:
    """a mixed model: experts over 1, 4 and 16 ranks, each on 1 GPU and 2"""
    tokens, width = 4096, 2048
    for e, w in itertools.product((1, 4, 16), (1, 2)):
        for dispatch in ("per_expert", "per_node", "all_gather"):
            point: dict[str, Any] = {**MIXED, "n_gpus": 32, "expert_parallel": e}
            point |= {"tensor_parallel": w, "sequence_parallel": True}
            point |= {"sequence_length": tokens, "compute_model": "roofline"}
            point |= {"expert_dispatch": dispatch, "hbm_bandwidth": 3.35e12}
            point |= {"dispatch_bytes_per_element": 1.0, "intra_node_bandwidth": 450e9}
            reached = value("rank_visits_per_token", **point)
            gpu = Gpu()
            for size in (1, 2):  # there in one byte, back in two
                if dispatch != "per_expert":  # received or picked, copied for each expert
                    gpu.move("sort", tokens * width * reached, tokens * width * 3, size=size)
                else:  # copied for each expert, in the order of ranks
                    own = tokens * width / w
                    gpu.move("sort", own, own * 3, size=size)
                    if e < 16:  # and sorted by expert where a rank has several
                        gpu.move("sort", *[tokens * width * 3] * 2, size=size)
            yield value("token_permutation_time", **point), 4 / 6 * gpu.clock


# Bytes of all operands of PyTorch 2.13's operators for an element of 3 experts' results, 1,000
# tokens of 800 columns in BF16, forward and backward, by a TorchDispatchMode around the sum
_BIAS_BYTES = {"per_expert": (12, 16), "per_node": (28.01, 40.06)}  # weights in BF16; in FP32


@check(
    "eager_bias_bytes float_eager_bias_bytes separate_expert_bias_time expert_routing_time",
    by="table",
    source="bytes of the operands of PyTorch 2.13's operators that add biases in Megatron-LM's "
    "TEGroupedMLP, and of its gradients, counted as they ran",
    tolerance=0.002,
)
def biases_of_results() -> Pairs:
    """a mixed model on 1 GPU and 2 of an expert; products that add them, XLA, and no biases"""
    tokens, width, visits = 4096, 2048, 3
    for dispatch, counted in _BIAS_BYTES.items():
        for w in (1, 2):
            point: dict[str, Any] = {**MIXED, "n_gpus": 32, "tensor_parallel": w}
            point |= {"sequence_length": tokens, "compute_model": "roofline"}
            point |= {"hbm_bandwidth": 3.35e12, "intra_node_bandwidth": 450e9, "precision": "bf16"}
            point |= {"expert_dispatch": dispatch, "sequence_parallel": True}
            gpu = Gpu()
            gpu.move("biases", tokens * width * visits * sum(counted) / 2, size=1)
            plain = value("routing_time", **point)
            biased = point | {"expert_biases": True}
            yield value("expert_bias_time", **biased), 4 / 6 * gpu.clock
            yield value("routing_time", **biased), plain + 4 / 6 * gpu.clock
            for without in (
                {"grouped_products": "fused", "precision": "mxfp8"},
                {"whole_program": True},
                {"expert_biases": False},
            ):
                yield value("expert_bias_time", **(biased | without)), 0.0
            fused = biased | {"grouped_products": "fused"}  # which only kernels of MXFP8 are
            yield value("expert_bias_time", **fused), 4 / 6 * gpu.clock


@check(
    "shared_expert_flops_share shared_expert_overlap_share routed_exposed_expert_parallel_time",
    by="simulator",
    source="products of shared experts done one by one, forward, again and for both gradients",
)
def shared_experts_beside() -> Pairs:
    """a mixed model on 1 and 2 stages, with and without recomputation, overlaps of 0 and 0.5"""
    for stages in (1, 2):
        for recompute in (False, "full"):
            point: dict[str, Any] = {**MIXED, "n_gpus": 8, "pipeline_parallel": stages}
            point |= {"sequence_length": 4096, "global_batch_size": 24 // stages}
            point |= {"peak_flops_bf16": 989e12, "recompute": recompute}
            point |= {"intra_node_bandwidth": 450e9, "inter_node_bandwidth": 50e9}
            names = ["compute_time", "kernel_flops_per_token", "recompute_flops_factor"]
            compute, once, again = computed(point, *names)
            gpu = Gpu()
            for _ in range(4 // stages * 3):
                for _ in range(4 if recompute == "full" else 3):
                    for product in feed_forward(4096, 2048, 1024):
                        gpu.multiply("shared", product)
            beside = compute * gpu.operations / (once * again * 4096 * 3 / stages)
            for overlap in (0.0, 0.5):
                traffic = {"expert_parallel_time": 2 * compute, "shared_expert_overlap": True}
                traffic |= {"expert_parallel_overlap": overlap}
                waits = value("exposed_expert_parallel_time", **point, **traffic)
                head = compute * 6 * 2048 * 32000 / (once * again)  # after all layers
                yield waits, 2 * compute - max(beside, overlap * (compute - head))


@check("per_node_dispatch_reason", by="derivation", source="nodes listed, their experts counted")
def nodes_for_tokens() -> Pairs:
    """8 to 64 ranks on nodes of 8 and 12, limits of 1, 1.5 and 4 nodes, 1 to 16 experts a token"""
    for ranks in (8, 16, 24, 64):
        for here in (8, 12):
            for most in (1, 1.5, 4):
                for visits in (1, 4, 16):
                    nodes = [ranks] if ranks <= here else [here] * (ranks // here)
                    theirs = 0
                    if sum(nodes) != ranks or (most < len(nodes) and most != int(most)):
                        theirs = 21
                    elif sum(nodes[: math.ceil(most)]) * 2 < visits:
                        theirs = 20
                    given = {"n_gpus": 192, "gpus_per_node": here, "experts": 2 * ranks}
                    given |= {"experts_per_token": visits, "expert_parallel": ranks}
                    given |= {"routing_nodes": most}
                    yield value("dispatch_reason", **given), theirs
