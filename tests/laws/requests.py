"""Serving: caches filled, requests answered and replicas counted one by one."""

from collections import deque

import numpy as np

from fleetcube.kernels.quantities import serving

from .check import Pairs, check
from .models import MIXTRAL, computed


@check(
    "concurrent_requests",
    "serving_replicas",
    "serving_gpus",
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
        ours = serving.concurrent_requests(10.0, latency)
        yield ours, there
        replicas = serving.serving_replicas(ours, batch, 0)
        yield replicas, sum(1 / batch for _ in range(round(there)))
        gpus = 0
        while gpus / 8 * batch < there:
            gpus += 8
        yield serving.serving_gpus(replicas, 8), gpus


@check(
    "request_kv_cache",
    "kv_cache_memory",
    "largest_serving_batch",
    by="simulator",
    source="requests let in until the next one does not fit",
)
def caches() -> Pairs:
    """8B and 70B caches on 1 to 8 GPUs of 80 GB; no room at all"""
    for t, weights, token in ((1, 16e9, 131072), (8, 141e9, 327680), (1, 141e9, 327680)):
        one = sum(token for _ in range(1024 + 256))
        yield serving.request_kv_cache(1024 + 256, token), one
        left, batch = t * (80e9 - 2e9) - weights, 0
        while left >= one:
            left, batch = left - one, batch + 1
        yield serving.largest_serving_batch(80e9, 2e9, weights / t, one, t), batch
        yield serving.kv_cache_memory(batch, one), sum(one for _ in range(batch))


@check(
    "expert_unvisited_weights_memory",
    "decode_weights_bytes",
    by="simulator",
    source="20,000 batches routed at random (fixed seed), experts that are visited counted",
    tolerance=1e-2,
)
def visited_experts() -> Pairs:
    """Mixtral 8x7B on 1 and 4 GPUs, batches of 1, 4 and 16; every expert visited"""
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
    yield serving.expert_unvisited_weights_memory(32, 8, 8, one, 1, 2, 1), 0
