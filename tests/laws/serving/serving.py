"""Serving: caches placed head by head, batches replayed token by token."""

import math

from ... import formulas
from ..check import Pairs, check


def _copies(ranks: int, heads: int) -> list[set[int]]:
    """Key-value heads on each tensor rank, as its query heads need them."""
    queries = 2 * max(ranks, heads)
    mine = queries // ranks
    group = queries // heads
    return [{q // group for q in range(r * mine, (r + 1) * mine)} for r in range(ranks)]


@check(
    "shared_kv_head_ranks context_message",
    by="simulator",
    source="heads of keys and values placed where grouped query heads read them; Pope et al. 2022, "
    "arXiv:2211.05102, section 3.3",
)
def heads_on_ranks() -> Pairs:
    """1 to 64 tensor ranks, 1 to 64 heads of keys and values"""
    for ranks in (1, 2, 4, 8, 16, 64):
        for heads in (1, 2, 4, 8, 64):
            held = max(len(own) for own in _copies(ranks, heads))
            yield heads / formulas.shared_kv_head_ranks(ranks, heads), held
            message = formulas.context_message(1024, heads, 128, ranks, 2)
            yield message, 1024 * held * 128 * 2 * 2


@check(
    "largest_serving_batch serving_memory_reason serving_weights_memory "
    "kv_head_ranks_latent_attention_true",
    by="derivation",
    source="requests admitted one by one to the emptiest GPU until one finds no room",
)
def admitted_requests() -> Pairs:
    """DeepSeek-V3 on 8 H200 in FP8, latent caches whole on each GPU and by request; 4,096 tokens"""
    cache, layers, attention, weights, table = 4096 * 70_272, 61, 187e6, 671e9, 129_280 * 7168
    shape = layers, attention, 0, 0, 1536, 576, 129_280, 7168, 1, 2
    apart_, divided = layers * attention + 2 * table, layers * 7168 * (1536 + 576)
    for apart, held in (
        (False, sum([divided, (weights - divided) / 8])),
        (True, sum([apart_, (weights - apart_) / 8])),
    ):
        ranks = 1 if apart else 8
        yield formulas.serving_weights_memory(weights, *shape, ranks, 1, 8), held
        used, admitted = [held] * 8, 0
        while True:
            targets = [used.index(min(used))] if apart else range(8)
            if any(used[k] + cache > 141e9 for k in targets):
                break
            for k in targets:
                used[k] += cache
            admitted += 1
        whole = formulas.kv_head_ranks_latent_attention_true()
        most = formulas.largest_serving_batch(141e9, 0.0, held, cache, 0, whole, ranks, 8)
        yield most - most % (8 if apart else 1), admitted
        yield formulas.serving_memory_reason(most, most), 0
        yield formulas.serving_memory_reason(most + 1, most), 1


@check(
    "full_decode_context windowed_decode_context prompt_attention_span "
    "windowed_prompt_attention_span decode_bytes decode_attention_flops "
    "prompt_attention_flops_per_token prompt_flops_per_token decode_step_time "
    "prefill_time",
    by="simulator",
    source="every token of an answer replayed, layer by layer: what is read of each earlier one, "
    "and multiplied",
)
def replayed_answers() -> Pairs:
    """8B on 1 to 16 GPUs; prompts to 131,072, answers to 300; windows of 1 to 800 in some layers"""
    layers, heads, size, kv, parameters = 32, 32, 128, 8, 8.03e9
    table = 128_256, 4096
    head = table[0] * table[1]
    each = layers * 2 * kv * size * 2
    bandwidth, peak, slow, reached, wire, shift = 2.7e12, 1979e12, 989e12, 0.75, 1e-3, 1.5
    speeds = slow, reached, wire, shift
    for ranks, window, windowed in ((1, math.inf, 0), (16, 1, 32), (8, 512, 24), (8, 800, 24)):
        width = windowed, layers, layers
        for prompt, output in ((0, 1), (0, 300), (700, 1), (700, 2), (700, 300), (131_072, 90)):
            share = 1 / min(ranks, kv)
            begin = max(prompt, 1)
            triangle = begin * begin / 2  # half is masked
            band = triangle - max(begin - window, 0) ** 2 / 2
            pairs = (layers - windowed) * triangle + windowed * band
            attention, products = 2 * 2 * heads * size * pairs, begin * 2 * parameters + 2 * head
            products -= 2 * head
            read = 2 * (parameters - head) / ranks / bandwidth, 2 * head / ranks / bandwidth
            first = max(products / peak / reached / ranks, read[0]) + wire
            first += max(2 * head / slow / reached / ranks, read[1])
            first = (first + attention / slow / reached / ranks) * shift
            clock = first
            for token in range(1, output):
                earlier = prompt + token - 1
                near = min(earlier, window - 1)
                seen = earlier + (near - earlier) * windowed / layers
                work = 2 * (parameters / peak + head / slow) / (reached * ranks)
                matrices = max(2 * parameters / ranks / bandwidth, work)
                work = 2 * 2 * layers * heads * size * seen / (slow * reached * ranks)
                clock += (matrices + max(seen * each * share / bandwidth, work) + wire) * shift
            context = formulas.full_decode_context(prompt, output)
            span = formulas.prompt_attention_span(begin)
            if windowed:
                context = formulas.windowed_decode_context(prompt, output, window, *width)
                span = formulas.windowed_prompt_attention_span(begin, window, *width)
            weights, kept = 2 * parameters / ranks, (layers, 2 * kv * size, 2, 0, min(ranks, kv))
            read = formulas.decode_bytes(weights, 1, context, *kept, ranks, ranks)
            some = formulas.decode_attention_flops(layers, heads, size, 1, context)
            work = 1, parameters, *table, some, ranks
            step = formulas.decode_step_time(read, weights, *work, bandwidth, peak, slow, *speeds)
            some = formulas.prompt_attention_flops_per_token(layers, heads, size, span, 0, 0)
            done = formulas.prompt_flops_per_token(parameters, *table, begin, some)
            yield begin * done, products + 2 * head + attention
            work = begin, parameters, done, some, ranks, bandwidth, peak, slow
            shape = *table, 2, 1, ranks, 0, 0, 2
            prefill = formulas.prefill_time(weights, *shape, *work, *speeds)
            yield prefill, first
            yield prefill + (output - 1) * step, clock


@check(
    "windowed_cached_tokens",
    by="table",
    source="Jiang et al. 2023 (Mistral 7B), arXiv:2310.06825, section 2: an eighth of the cache at "
    "32k tokens; gpt-oss: half of the layers see 128 tokens, half of the cache (model card)",
    tolerance=0.005,
)
def published_windows() -> Pairs:
    """Mistral 7B at 32,768 tokens, gpt-oss-120b and 20b at 131,072"""
    yield formulas.windowed_cached_tokens(32_512, 256, 4096, 32, 32, 32), 32_768 / 8
    for layers in (36, 24):
        kept = formulas.windowed_cached_tokens(130_816, 256, 128, layers / 2, layers, layers)
        yield kept, 131_072 / 2


@check(
    "kv_elements_per_layer kv_cache_bytes_per_token full_cached_tokens request_kv_cache",
    by="table",
    source="Kwon et al. 2023 (vLLM), arXiv:2309.06180, section 3 (800 KB a token, up to 1.6 GB for "
    "2,048); DeepSeek-AI 2025, arXiv:2505.09343, table 1",
    tolerance=0.05,
)
def published_caches() -> Pairs:
    """OPT-13B, Llama-3.1-405B, Qwen-2.5-72B, DeepSeek-V3"""
    opt = formulas.kv_cache_bytes_per_token(40, formulas.kv_elements_per_layer(40, 128), 2)
    yield opt, 800 * 1024
    tokens = formulas.full_cached_tokens(2000, 48)
    yield formulas.request_kv_cache(tokens, 40, 2 * 5120, 2, 0), 1.6e9
    for layers, elements, printed in ((126, 2048, 516.096e3), (80, 2048, 327.68e3)):
        ours = formulas.kv_elements_per_layer(8, 128)
        yield ours, elements
        yield formulas.kv_cache_bytes_per_token(layers, ours, 2), printed
    yield formulas.kv_cache_bytes_per_token(61, 576, 2), 70.272e3
