"""Serving: caches, requests and replicas counted one by one."""

import math
from collections import deque

import numpy as np

from ... import formulas
from ...evaluated import computed
from ..check import Pairs, check
from ..model.models import MIXTRAL


@check(
    "concurrent_requests serving_replicas serving_gpus",
    by="simulator",
    source="a request every 0.1 s for an hour, each there for its latency, counted every second",
)
def requests() -> Pairs:
    """latencies of 2.5 and 20 s, batches of 16 and 64, replicas of 8 GPUs"""
    for latency, batch in ((2.5, 16), (20.0, 64)):
        inside: deque[float] = deque()
        counts = []
        for tick in range(36_000):
            inside.append(tick / 10 + latency)
            while inside[0] <= tick / 10 + 1e-9:
                inside.popleft()
            counts.append(len(inside))
        there = float(np.mean(counts[1000:]))
        ours = formulas.concurrent_requests(10.0, latency)
        yield ours, there
        replicas = formulas.serving_replicas(ours, batch, 0)
        yield replicas, sum(1 / batch for _ in range(round(there)))
        gpus = 0
        while gpus / 8 * batch < there:
            gpus += 8
        yield formulas.serving_gpus(replicas, 8), gpus


@check(
    "decode_tokens_per_second serving_cost_per_million_tokens",
    by="simulator",
    source="batches answered one after the other, step by step, until a million tokens are out",
)
def price_of_answers() -> Pairs:
    """batches of 1 and 64 on 1 and 8 GPUs at 2 USD an hour; no room: no price"""
    for t, batch, output, prefill, step in ((1, 1, 250, 0.5, 0.004), (8, 64, 125, 2.0, 0.03125)):
        clock, tokens, decoded = 0.0, 0, 0.0
        while tokens < 1_000_000:
            clock += prefill
            tokens += batch  # the first of each answer
            for _ in range(output - 1):
                clock, tokens, decoded = clock + step, tokens + batch, decoded + step
        latency = prefill + (output - 1) * step
        ours = formulas.serving_cost_per_million_tokens(t, 2.0, latency, batch, output, 0)
        yield ours, t * 2.0 * clock / 3600 * 1_000_000 / tokens
        yield formulas.serving_cost_per_million_tokens(t, 2.0, latency, batch, output, 1), math.inf
        rate = formulas.decode_tokens_per_second(batch, step)
        yield rate, tokens * (output - 1) / output / decoded


@check(
    "divided_serving_weights_memory decode_tokens_per_second decode_step_time",
    by="table",
    source="Fleet Foundations, the single-accelerator roofline: 8.03B in BF16, 208.6 tokens/s on "
    "an H100",
    tolerance=3e-4,
)
def tokens_of_one_gpu() -> Pairs:
    """one GPU and one sequence; two GPUs hold half of the weights each"""
    weights = formulas.divided_serving_weights_memory(8.03e9 * 2, 1)
    step = formulas.decode_step_time(weights, 2 * 8.03e9, 0.0, 1, 3.35e12, 989e12, 989e12)
    yield formulas.decode_tokens_per_second(1, step), 208.6
    held = [2 * 8.03e9 / 100 for _ in range(100)]
    yield formulas.divided_serving_weights_memory(8.03e9 * 2, 2), sum(held[::2])


@check(
    "request_kv_cache kv_cache_memory largest_serving_batch",
    by="simulator",
    source="requests let in until the next one does not fit",
)
def caches() -> Pairs:
    """8B and 70B caches on 1 to 8 GPUs of 80 GB; no room at all"""
    for t, weights, token in ((1, 16e9, 131072), (8, 141e9, 327680), (1, 141e9, 327680)):
        one = sum(token for _ in range(1024 + 256))
        yield formulas.request_kv_cache(1024 + 256, token), one
        left, batch = t * (80e9 - 2e9) - weights, 0
        while left >= one:
            left, batch = left - one, batch + 1
        yield formulas.largest_serving_batch(80e9, 2e9, weights / t, one, t), batch
        yield formulas.kv_cache_memory(batch, one), sum(one for _ in range(batch))


@check(
    "expert_unvisited_weights_memory decode_weights_bytes",
    by="simulator",
    source="20,000 batches routed at random (fixed seed), experts that are visited counted",
    tolerance=1e-2,
)
def visited_experts() -> Pairs:
    """Mixtral 8x7B on 1 and 4 GPUs, BF16 and FP8, batches of 1, 4 and 16; every expert visited"""
    draw = np.random.default_rng(5)
    everything, one, layers = 46_702_792_704, 3 * 4096 * 14336, 32
    for batch in (1, 4, 16):
        ranks = draw.random((20_000, batch, 8)).argsort(axis=2)[:, :, :2]
        visited = np.zeros((20_000, 8), bool)
        for k in range(batch):
            for j in range(2):
                visited[np.arange(20_000), ranks[:, k, j]] = True
        read = everything - layers * one * (8 - float(visited.sum(axis=1).mean()))
        for t in (1, 4):
            point = {**MIXTRAL, "serving_batch_size": batch, "tensor_parallel": t}
            yield computed(point, "decode_weights_bytes")[0], 2 * read / t
            # in FP8, all but two tables, the norms of each layer and the last one in one byte
            others = 2 * 32000 * 4096 + (2 * 32 + 1) * 4096
            point["precision"] = "fp8"
            yield computed(point, "decode_weights_bytes")[0], (read + others) / t
    yield formulas.expert_unvisited_weights_memory(32, 8, 8, one, 1, 2, 1), 0
