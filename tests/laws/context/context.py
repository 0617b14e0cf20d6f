"""Context parallelism: blocks under a causal mask, messages rank by rank."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ... import formulas
from ...evaluated import value, values
from ..check import Pairs, check

# One sequence of a micro-batch through one layer: tokens, heads, heads of keys and values, width
TOKENS, HEADS, KV, SIZE, LAYERS, BATCHES = 8192, 16, 4, 64, 6, 3
LINKS = {
    "intra_node_latency": 1e-6, "inter_node_latency": 7e-6, "intra_node_bandwidth": 200e9,
    "inter_node_bandwidth": 25e9,
}  # fmt: skip
MODEL = {
    "layers": LAYERS, "hidden_size": HEADS * SIZE, "attention_heads": HEADS, "kv_heads": KV,
    "num_microbatches": BATCHES, "sequence_length": TOKENS, "peak_flops": 1e15,
    "attention_peak_flops": 1e15, "hbm_bandwidth": 3e12, "pipeline_parallel": 2,
}  # fmt: skip


def pairs_of(queries: Any, keys: Any) -> int:
    """Pairs of a block under a causal mask, its diagonal counted half."""
    before = np.subtract.outer(queries, keys)
    return int(np.sum(2 * (before > 0) + (before == 0)))


@check(
    "unbalanced_straggler_time roofline_attention_time mfu_attention_time",
    by="simulator",
    source="a ring of ranks in step: blocks of queries and keys of a causal mask, token by token; "
    "each exchange waits for the rank with most",
)
def rings_under_a_mask() -> Pairs:
    """1, 2, 4 and 8 ranks, sequences cut in a row and in zigzag; times of roofline and MFU"""
    for ranks in (1, 2, 4, 8):
        for balance in ("contiguous", "zigzag"):
            parts = parts_of(ranks, balance)
            work = np.array(
                [
                    [pairs_of(parts[r], parts[(r - step) % ranks]) for r in range(ranks)]
                    for step in range(ranks)
                ]
            )
            slowest = work.max(axis=1).sum() / (work.sum() / ranks)
            if balance == "zigzag":
                slowest = work.sum(axis=0).max() / (work.sum() / ranks)  # all but the diagonal even
            for model in ("roofline", "mfu"):
                run = {**MODEL, **LINKS, "n_gpus": 16, "context_parallel": ranks}
                run |= {"compute_model": model, "context_balance": balance, "recompute": "full"}
                run |= {"global_batch_size": BATCHES * 8 / ranks}
                got = values(["straggler_time", "attention_time"], **run)
                edges = 560 if model == "roofline" else 0  # keys that each query costs besides
                growing = TOKENS / 2 / (TOKENS / 2 + edges)
                yield (
                    got["attention_time"] + got["straggler_time"],
                    got["attention_time"] * (growing * slowest + 1 - growing),
                )
                replicas = 16 / (2 * ranks)
                flops = 2 * 2 * TOKENS * TOKENS / 2 * HEADS * SIZE  # forward, one layer
                flops *= (1 + 2.5 + 1) / growing * LAYERS * BATCHES * replicas
                yield got["attention_time"], flops / (0.5 if model == "roofline" else 0.45) / 16e15


def ring_time(blocks: Any, send: float, backward: bool = False) -> tuple[float, float]:
    """Seconds until the last rank is done, and the longest blocks during which something passes.

    blocks[step][rank] take seconds. An exchange starts when both of its ranks have begun the step,
    and a rank begins the next one when its block is done and all has come and gone. Forward, keys
    and values pass during all steps but the last; backward also gradients, from the second on.
    """
    steps, began, covered = len(blocks), np.zeros(len(blocks)), 0.0
    for step, block in enumerate(blocks):
        messages = (step < steps - 1) + (backward and step > 0)
        done = began + block
        if steps > 1 and messages:
            covered += max(block)
            arrived = np.maximum(began, np.roll(began, 1)) + messages * send
            done = np.maximum(done, np.maximum(arrived, np.roll(arrived, -1)))
        began = done
    return float(began.max()), covered


def layer_time(
    parts: Any, send: float, attention: float, growing: float, ratio: float, passes: float
) -> Any:
    """Seconds of a layer's passes round a ring of ranks with these parts of a sequence, and of
    blocks that something passes behind; `attention` is a forward pass of the mean rank, of which a
    share is growing with pairs, the rest as long in each block."""
    ranks = len(parts)
    pairs = np.array([[pairs_of(queries, keys) for keys in parts] for queries in parts])
    seconds = attention * (growing * ranks / pairs.sum() * pairs + (1 - growing) / ranks)
    rank = np.arange(ranks)
    there = [seconds[rank, (rank - step) % ranks] for step in range(ranks)]
    back = [ratio * seconds[rank, (rank + 1 + step) % ranks][::-1] for step in range(ranks)]
    forward, backward = ring_time(there, send), ring_time(back, send, backward=True)
    return [passes * once + last for once, last in zip(forward, backward, strict=True)]


def parts_of(ranks: int, balance: str) -> list[Any]:
    tokens, size = np.arange(64), 32 // ranks
    halves = tokens.reshape(2 * ranks, size)
    if balance == "contiguous":
        return [tokens[2 * size * r : 2 * size * (r + 1)] for r in range(ranks)]
    return [np.concatenate([halves[r], halves[-1 - r]]) for r in range(ranks)]


@check(
    "exposed_context_parallel_time passing_context_ring_window unbalanced_later_block_ratio",
    by="simulator",
    source="a ring of ranks event by event, as TransformerEngine's "
    "attention/dot_product_attention/context_parallel.py: blocks of a causal mask, token by token, "
    "each with the exchanges issued before it",
)
def rings_behind_attention() -> Pairs:
    """1 to 8 ranks, in a row and in zigzag, sends of 0.1 to 20 blocks, backward 2 to 4 forward"""
    repeated = (False, "full", "selective")  # scores, of a kernel that keeps them
    shapes = ((2.0, 0.6), (2.5, 1.0), (4.0, 0.9))
    cases = product((1, 2, 4, 8), ("zigzag", "contiguous"), shapes, repeated)
    for ranks, balance, (ratio, growing), recompute in cases:
        for blocks in (0.1, 0.6, 0.95, 1.05, 1.2, 1.7, 2.1, 2.6, 4.2, 20.0):
            passes, through = (2 if recompute else 1), LAYERS / 2 * BATCHES
            send, attention = 1e-3 * blocks, 1e-3 * ranks  # of one layer and micro-batch
            run = {**MODEL, **LINKS, "n_gpus": 16, "context_parallel": ranks}
            run |= {"context_balance": balance, "recompute": recompute, "context_send_time": send}
            run |= {"attention_kernel": "standard" if recompute == "selective" else "flash"}
            run |= {"attention_time": through * attention * (passes + ratio)}
            run |= {"attention_backward_time_ratio": ratio, "attention_key_share": growing}
            names = ["attention_time", "straggler_time", "exposed_context_parallel_time"]
            got = values([*names, "context_ring_window"], **run)
            parts = parts_of(ranks, balance)
            total, covered = layer_time(parts, send, attention, growing, ratio, passes)
            yield sum(got[name] for name in names), through * total
            yield got["context_ring_window"], through * covered


def layouts() -> Iterator[tuple[int, int, int, int]]:
    """Ranks of context and tensor, GPUs of a node, ranks that share heads in a node."""
    for ranks, tensor, node in ((2, 1, 8), (4, 2, 8), (4, 1, 2), (8, 2, 8), (8, 1, 4), (1, 2, 8)):
        yield ranks, tensor, node, max(1, min(node // tensor, ranks))


class Wires:
    """Bytes that each rank sends inside its node and out of it, and the rounds it takes."""

    def __init__(self, ranks: int, near: int) -> None:
        self.near, self.inside, self.across = near, np.zeros(ranks), np.zeros(ranks)

    def send(self, source: int, target: int, size: float) -> None:
        same = source // self.near == target // self.near
        (self.inside if same else self.across)[source] += size


def heads_handed_out(ranks: int, tensor: int, near: int, group: int) -> tuple[Wires, float]:
    """One pass of all-to-alls: every rank distributes each tensor's heads in a group, and back."""
    wires, waited = Wires(ranks, near), 0.0
    rows, kv = TOKENS / ranks, max(KV / tensor, group) / group
    latency = LINKS["inter_node_latency" if group > near else "intra_node_latency"]
    for heads in (HEADS / tensor / group, kv, kv, HEADS / tensor / group):  # queries, keys, ...
        for source in range(ranks):
            first = source // group * group
            for target in range(first, first + group):
                if target != source:
                    wires.send(source, target, rows * heads * SIZE * 2)
        waited += (group - 1) * latency
    return wires, waited


@check(
    "attention_head_message head_exchange_time head_context_collective_time context_passes "
    "head_context_parallel_time switched_head_ring_send_time "
    "head_ring_message head_ring_exchanges head_context_fabric_time head_context_node_time "
    "exposed_context_parallel_time",
    by="simulator",
    source="every message of every rank, in its node and out of it; rings step at the slowest link",
)
def heads_and_rings() -> Pairs:
    """Ulysses and Ulysses in a node with a ring across, six layouts, forward once and twice"""
    for (ranks, tensor, node, near), recompute in product(layouts(), (False, "full")):
        passes = 3 if recompute == "full" else 2
        for kind, group in (("a2a", ranks), ("a2a+p2p", near)):
            wires, waited = heads_handed_out(ranks, tensor, near, group)
            busy = max(
                wires.inside.max() / LINKS["intra_node_bandwidth"],
                wires.across.max() / LINKS["inter_node_bandwidth"],
            )
            hops = (passes + 1) * (ranks // group - 1)
            block = 2 * (TOKENS / ranks * group) * max(KV / tensor / group, 1) * SIZE * 2
            tier = "intra" if near >= ranks else "inter"
            hop = LINKS[f"{tier}_node_latency"] + block / LINKS[f"{tier}_node_bandwidth"]
            through = LAYERS / 2 * BATCHES
            run = {**MODEL, **LINKS, "gpus_per_node": node, "recompute": recompute}
            run |= {"context_parallel": ranks, "tensor_parallel": tensor, "n_gpus": 64}
            run |= {"context_parallel_type": kind, "attention_backward_time_ratio": 2.5}
            run |= {"attention_time": through * 6e-5 * (passes + 1.5)}
            names = ["context_parallel_time", "exposed_context_parallel_time"]
            got = values([*names, "context_fabric_time", "context_node_time"], **run)
            first, ring = through * passes * (busy + waited), through * hops * hop
            yield got["context_parallel_time"], first + ring
            parts = parts_of(ranks // group, "zigzag")
            played, _ = layer_time(parts, hop, 6e-5, 1.0, 2.5, passes - 1)
            waits = through * (played - 6e-5 * (passes + 1.5))
            yield got["exposed_context_parallel_time"], first + waits
            out = passes * wires.across.max() + (hops * block if near < ranks else 0)
            yield got["context_fabric_time"], through * out / LINKS["inter_node_bandwidth"]
            here = passes * wires.inside.max() + (hops * block if near > group else 0)
            yield got["context_node_time"], through * here / LINKS["intra_node_bandwidth"]


@check(
    "gathered_context_collective_time switched_context_gather_step_time "
    "gathered_context_fabric_time gathered_context_node_time gathered_layer_tensor_memory "
    "head_layer_tensor_memory",
    by="simulator",
    source="a ring of all ranks for each card of a node, a part of the keys and values on each; "
    "arrays of a whole sequence",
)
def gathered_keys() -> Pairs:
    """six layouts, forward once and twice; memory of a layer at work"""
    for (ranks, tensor, node, near), recompute in product(layouts(), (False, "full")):
        rounds = 4 if recompute == "full" else 3  # gathered, gathered, gradients scattered
        block = 2 * TOKENS / ranks * max(KV / tensor, 1) * SIZE * 2
        wires, hop = Wires(ranks, near), 0.0
        for card in range(near):  # the ring of this card leaves the node here
            for source in range(ranks):
                turned = source // near * near + (source + card) % near
                last = (source + 1) % near == 0 and near < ranks
                target = (source + near) % ranks if last else source // near * near
                target += 0 if last else (source + 1) % near
                wires.send(turned, target, block / near)
        crossing = wires.across.max() / LINKS["inter_node_bandwidth"]
        inner = block / LINKS["intra_node_bandwidth"]
        hop = max(crossing, inner) if ranks > 1 else 0.0
        hop += LINKS["intra_node_latency" if near >= ranks else "inter_node_latency"]
        through = LAYERS / 2 * BATCHES * rounds * (ranks - 1)
        run = {**MODEL, **LINKS, "gpus_per_node": node, "recompute": recompute}
        run |= {"context_parallel": ranks, "tensor_parallel": tensor, "n_gpus": 64}
        run |= {"layer_state_memory": 1e6, "layer_activation_memory": 2e6}
        got = values(
            [
                *("context_parallel_time", "exposed_context_parallel_time", "context_ring_window"),
                *("context_fabric_time", "context_node_time", "working_memory"),
            ],
            **run,
            context_parallel_type="all_gather",
        )
        yield got["context_parallel_time"], through * hop
        yield got["exposed_context_parallel_time"], through * hop
        yield got["context_ring_window"], 0.0
        yield got["context_fabric_time"], through * crossing
        here = inner if near > 1 else 0.0
        yield got["context_node_time"], through * here
        whole = 2 * 2 * TOKENS * max(KV / tensor, 1) * SIZE * 2 if ranks > 1 else 0
        yield got["working_memory"], 3e6 + whole
        given, _ = heads_handed_out(ranks, tensor, near, ranks)
        sent = (given.inside + given.across).max()
        arrived = sent * ranks / (ranks - 1) if ranks > 1 else 0.0
        ours = value("working_memory", **run, context_parallel_type="a2a")
        yield ours, 3e6 + arrived


@check(
    "mixed_head_message",
    by="derivation",
    source="columns that each block projects and puts out, as Megatron-LM's Mamba context parallel "
    "exchanges them",
)
def heads_of_hybrids() -> Pairs:
    """Nemotron-H 8B on 4 and 8 ranks of context, 1 and 2 of tensor"""
    for ranks, tensor in ((4, 1), (8, 2)):
        tokens = 8192 / ranks
        mamba = 2 * 8192 + 2 * 1024 + 128 + 8192  # z, x, B, C, dt; y
        attention = 128 * (2 * 32 + 2 * max(8, ranks * tensor))
        mean = (24 * mamba + 4 * attention) / 52
        run = {"model": "nemotron-h-8b", "tensor_parallel": tensor, "context_parallel": ranks}
        ours = value("head_message", **run, context_parallel_type="a2a")
        yield ours, 2 * tokens * mean / tensor


@check(
    "shared_head_reason",
    by="derivation",
    source="heads dealt out to the ranks of tensor and context, one by one",
)
def heads_dealt_out() -> Pairs:
    """1 to 24 heads on 1 to 8 ranks of context, 1 and 2 of tensor, in groups of 1 to 8"""
    for heads, ranks, tensor in product((1, 6, 8, 16, 24), (1, 2, 4, 8), (1, 2)):
        for group in (1, 2, 3, 4, 8):
            dealt = np.bincount(np.arange(heads) % (tensor * group), minlength=tensor * group)
            even = len({*dealt}) == 1 and ranks % group == 0
            theirs = 0 if even else 27
            ours = formulas.shared_head_reason(heads, tensor, ranks, group)
            yield ours, theirs


@check(
    "paired_sequence_parts sequence_parts_context_balance_contiguous",
    by="simulator",
    source="parts dealt out: one to each rank, or going and coming back",
)
def parts_dealt_out() -> Pairs:
    """1 to 8 ranks"""
    for ranks in (1, 2, 3, 8):
        rows = {"contiguous": [range(ranks)], "zigzag": [range(ranks), range(ranks)[::-1]]}
        for balance, dealt in rows.items():
            parts = 1 if ranks == 1 else sum(len(row) for row in dealt)
            given = {"context_parallel": ranks, "context_balance": balance}
            yield value("sequence_parts", **given), parts
