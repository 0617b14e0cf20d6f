"""Serving: caches, requests and replicas counted one by one."""

import math
from collections import deque

import numpy as np

from fleetcube.kernels.laws import collectives

from ... import formulas
from ...evaluated import computed
from ..check import Pairs, check
from ..model.models import MIXTRAL


@check(
    "concurrent_requests",
    by="simulator",
    source="a request every 0.1 s for an hour, each there for its latency, counted every second",
)
def requests() -> Pairs:
    """latencies of 2.5 and 20 s"""
    for latency in (2.5, 20.0):
        inside: deque[float] = deque()
        counts = []
        for tick in range(36_000):
            inside.append(tick / 10 + latency)
            while inside[0] <= tick / 10 + 1e-9:
                inside.popleft()
            counts.append(len(inside))
        yield formulas.concurrent_requests(10.0, latency), float(np.mean(counts[1000:]))


@check(
    "output_tokens_per_second shared_time_per_output_token request_latency "
    "decode_tokens_per_second serving_cost_per_million_tokens serving_replicas serving_gpus "
    "disaggregated_serving_gpus disaggregated_time_per_output_token",
    by="simulator",
    source="a loop of continuous batching: a request that ends makes room for the next, whose "
    "prompt stops the others; answers begun at different times",
)
def continuous_batching() -> Pairs:
    """batches of 1, 4 and 16, answers of 17 and 65 tokens on 1 and 8 GPUs; no room; apart"""
    for batch, output, prompt, step, t in ((1, 17, 0.5, 0.004, 1), (16, 65, 0.25, 0.03125, 8)):
        clock = decoding = out = 0.0
        left = [output - 1 - (output - 1) // batch * k for k in range(batch)]
        begun, first, lives, gaps = [0.0] * batch, [0.0] * batch, [], []
        for _ in range(40 * (output - 1)):
            clock, out, decoding = clock + step, out + batch, decoding + step
            for k in range(batch):
                left[k] -= 1
            for k in [k for k in range(batch) if not left[k]]:
                lives.append(clock - begun[k])
                gaps.append((clock - first[k]) / (output - 1))
                begun[k], clock, out, left[k] = clock, clock + prompt, out + 1, output - 1
                first[k] = clock
        whole = batch * prompt
        first_token = first[0] - begun[0]  # its prompt's alone: see `drawn_servers`
        token = formulas.shared_time_per_output_token(step, whole, batch, output, 0)
        yield token, float(np.mean(gaps[2 * batch :]))
        yield formulas.shared_time_per_output_token(step, whole, batch, output, 1), math.inf
        latency = formulas.request_latency(first_token, 0, output, token)
        yield latency, float(np.mean(lives[2 * batch :]))
        rate = formulas.output_tokens_per_second(batch, output, whole, step, 0)
        yield rate, out / clock
        yield formulas.output_tokens_per_second(batch, output, whole, step, 1), 0
        yield formulas.decode_tokens_per_second(batch, step, 0), out * (1 - 1 / output) / decoding
        yield formulas.decode_tokens_per_second(batch, step, 1), 0
        price = t * 2.0 * clock / 3600 / out * 1_000_000
        yield formulas.serving_cost_per_million_tokens(t, 2.0, rate, 0), price
        yield formulas.serving_cost_per_million_tokens(t, 2.0, rate, 1), math.inf
        replicas = formulas.serving_replicas(100.0, output, rate, 0)
        yield replicas, 100.0 * output / (out / clock)
        yield formulas.serving_replicas(100.0, output, rate, 1), math.inf
        enough = 0
        while enough / t < replicas:
            enough += t
        yield formulas.serving_gpus(replicas, t), enough
        # apart: seconds of work for 100 prompts, and for 100 answers b at a time
        busy = 100 * prompt, 100 * (output - 1) * step / batch
        apart = formulas.disaggregated_serving_gpus(replicas, t, whole, output, step)
        yield apart, sum(math.ceil(seconds) for seconds in busy) * t
        yield formulas.disaggregated_time_per_output_token(step, 0), step
        yield formulas.disaggregated_time_per_output_token(step, 2), math.inf


@check(
    "direct_all_reduce_time",
    by="table",
    source="SGLang pull request 2904, custom all-reduces of 512 B to 32 KB on 2, 4 and 8 H100",
    tolerance=0.45,
)
def small_all_reduces() -> Pairs:
    """3.7 to 7.8 us, with a start of 5 us"""
    printed = {512: (3.7, 4.8, 5.9), 4096: (3.9, 3.7, 5.7), 32768: (4.5, 4.8, 7.8)}
    for size, times in printed.items():
        for ranks, time in zip((2, 4, 8), times, strict=True):
            yield collectives.direct_all_reduce_time(size, ranks, 5e-6, 450e9), time * 1e-6


@check(
    "direct_all_reduce_time tensor_decode_exchange_time tensor_prefill_exchange_time "
    "prefill_tokens prompt_positions",
    by="simulator",
    source="every read of every rank, layer by layer, in one shot or two; then, or between them, "
    "every message of a ring on each rail",
)
def messages() -> Pairs:
    """160 blocks and an embedding on 1 to 16 GPUs of 8-GPU nodes; 1 to 100,000 tokens"""
    start, inner, hop, rail = 5e-6, 450e9, 5e-6, 50e9
    for ranks, tokens in (
        (1, 1),
        (2, 1),
        (8, 1),
        (8, 64),
        (8, 100_000),
        (16, 1),
        (16, 4),
        (16, 16),
        (16, 2048),
    ):
        held, message, total = min(ranks, 8), tokens * 8192 * 2, 0.0
        for _block in range(1 + 2 * 80):
            shots = [start, 2 * start]
            for _peer in range(held - 1):
                shots[0] += message / inner
                shots[1] += 2 * (message / held) / inner
            total += min(shots) if held > 1 else 0.0
            nodes, both = ranks // held, [shots[0], shots[1]]
            for _message in range(2 * (nodes - 1)):
                both[0] += hop + message / nodes / rail  # each GPU has the node's whole sum
                both[1] += hop + message / held / nodes / rail
            total += min(both) - min(shots) if nodes > 1 else 0.0
        links = start, inner, hop, rail if ranks > 8 else math.nan
        positions = formulas.prompt_positions(0)
        given = formulas.prefill_tokens(tokens, positions), 8192, 2, 160, ranks, held, *links
        yield formulas.tensor_decode_exchange_time(*given), total
        yield formulas.tensor_prefill_exchange_time(*given), total
    beyond = formulas.tensor_decode_exchange_time(
        1, 8192, 2, 160, 16, 8, start, inner, hop, math.nan
    )
    yield beyond, math.nan


@check(
    "disaggregated_kv_transfer_time serving_time_in_interval",
    by="derivation",
    source="a prompt's keys, values and states sent head by head over the rails of those that "
    "answer; the ends of an interval",
)
def transfers() -> Pairs:
    """70B, 2,048 tokens, states of 64 heads, 1 to 16 rails; half and whole ways to both ends"""
    for ranks in (1, 8, 16):
        rails = [0.0] * ranks
        for _layer in range(80):
            for rank in range(ranks):
                heads = {rank * 64 // ranks // 8, ((rank + 1) * 64 // ranks - 1) // 8}
                rails[rank] += 2048 * (max(heads) - min(heads) + 1) * 2 * 128 * 2 / 50e9
        for head in range(64):
            rails[head * ranks // 64] += 1e6 / 50e9
        given = 2048, 80, 2048, 2, min(ranks, 8), 64e6, ranks, 50e9
        yield formulas.disaggregated_kv_transfer_time(*given), max(rails)
    for place, ratio in ((-1, 1 / 1.9), (0, 1), (0.5, math.sqrt(1.9)), (1, 1.9)):
        yield formulas.serving_time_in_interval(place, 1.9), ratio


@check(
    "serving_weights_memory decode_tokens_per_second decode_step_time",
    by="table",
    source="Fleet Foundations, the single-accelerator roofline: 8.03B in BF16, 208.6 tokens/s on "
    "an H100",
    tolerance=3e-4,
)
def tokens_of_one_gpu() -> Pairs:
    """one GPU and one sequence; two GPUs hold half of the weights each"""
    shape = 32, 41_943_040, 0, 0, 0, 2048, 128_256, 4096, 2, 2
    weights = formulas.serving_weights_memory(8.03e9 * 2, *shape, 1, 1, 1)
    peaks = 989e12, 989e12, 989e12, 1  # kernels as fast as the hardware
    work = 1, 8.03e9, 0, 0, 0.0
    step = formulas.decode_step_time(weights, weights, *work, 1, 3.35e12, *peaks, 0, 1)
    yield formulas.decode_tokens_per_second(1, step, 0), 208.6
    held = [2 * 8.03e9 / 100 for _ in range(100)]
    yield formulas.serving_weights_memory(8.03e9 * 2, *shape, 2, 2, 2), sum(held[::2])


@check(
    "request_kv_cache largest_serving_batch",
    by="simulator",
    source="requests let in until the next one does not fit",
)
def caches() -> Pairs:
    """8B and 70B caches on 1 to 8 GPUs of 80 GB; no room at all"""
    for t, weights, token in ((1, 16e9, 131072), (8, 141e9, 327680), (1, 141e9, 327680)):
        one = sum(token for _ in range(1024 + 256))
        yield formulas.request_kv_cache(1024 + 256, 1, token / 2, 2, 0), one
        left, batch = t * (80e9 - 2e9) - weights, 0
        while left >= one:
            left, batch = left - one, batch + 1
        yield formulas.largest_serving_batch(80e9, 2e9, weights / t, one, 0, t, t, t), batch


@check(
    "expert_decode_weights_bytes read_weights_memory",
    by="simulator",
    source="20,000 batches routed at random (fixed seed), experts that are visited counted",
    tolerance=1e-2,
)
def visited_experts() -> Pairs:
    """Mixtral 8x7B on 1 and 4 GPUs, BF16 and FP8, batches of 1, 4 and 16; every expert visited"""
    draw = np.random.default_rng(5)
    everything, one, layers = 46_702_792_704 - 32000 * 4096, 3 * 4096 * 14336, 32
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
            # in FP8, all but the head, the norms of each layer and the last one in one byte
            others = 32000 * 4096 + (2 * 32 + 1) * 4096
            point["precision"] = "fp8"
            yield computed(point, "decode_weights_bytes")[0], (read + others) / t
    given = 46.7e9, 46.7e9, 0, 1, 32000, 4096, 8, 8, 1, 2, 1
    yield formulas.expert_decode_weights_bytes(2 * 46.7e9, *given), 2 * 46.7e9
