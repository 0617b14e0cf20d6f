"""Serving: published cache sizes and rates, a replica simulated step by step, Little's law."""

import math
from typing import Any

import pytest

from ..evaluated import value

H100: dict[str, Any] = {  # kernels as fast as the hardware, all-reduces at once
    "peak_flops": 989e12, "hbm_bandwidth": 3.35e12, "hbm_capacity": 80e9, "gemm_efficiency": 1,
    "memory_efficiency": 1, "serving_traffic": False,
}  # fmt: skip
LLAMA_8B: dict[str, Any] = {
    "parameters": 8.03e9, "layers": 32, "hidden_size": 4096, "attention_heads": 32, "kv_heads": 8,
    "vocab_size": 128_256, "embedding_tables": 2, "looked_up_parameters": 128_256 * 4096,
}  # fmt: skip
TABLE = 128_256 * 4096  # looked up, beside the head
READ = 8.03e9 - TABLE  # parameters that a pass reads, the head among them
SCENARIO: dict[str, Any] = {
    **H100, **LLAMA_8B, "serving_batch_size": 16, "prompt_tokens": 700, "output_tokens": 90,
}  # fmt: skip


CACHES: dict[str, tuple[dict[str, Any], float]] = {
    # Kwon et al. 2023 (vLLM), section 3: 2 x 5120 x 40 x 2 bytes, 800 KB.
    "opt-13b": ({"layers": 40, "hidden_size": 5120, "attention_heads": 40}, 800 * 1024),
    # DeepSeek-AI 2025, arXiv:2505.09343, table 1, in units of 1000 bytes.
    "llama-3.1-405b": (
        {"layers": 126, "hidden_size": 16384, "attention_heads": 128, "kv_heads": 8},
        516_096,
    ),
    "qwen-2.5-72b": (
        {"layers": 80, "hidden_size": 8192, "attention_heads": 64, "kv_heads": 8},
        327_680,
    ),
    "deepseek-v3": ({"layers": 61, "kv_elements_per_layer": 512 + 64}, 70_272),
    # llama.cpp allocates 640 MiB and 256 MiB for 2048 tokens.
    "llama-3-70b": ({"model": "llama-3-70b"}, 640 * 2**20 / 2048),
    "llama-3-8b": ({"model": "llama-3-8b"}, 256 * 2**20 / 2048),
}


@pytest.mark.parametrize("name", CACHES)
def test_cache_of_one_token(name: str) -> None:
    shape, printed = CACHES[name]
    assert value("kv_cache_bytes_per_token", **shape) == printed


def test_narrow_numbers_halve_what_is_read_and_kept() -> None:
    narrow = {"bytes_per_element": 1, "kv_bytes_per_element": 1}
    for name in ("decode_bytes", "weights_bytes", "request_kv_cache"):
        assert value(name, **SCENARIO) == 2 * value(name, **SCENARIO, **narrow)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"tensor_parallel": 4},
        {"tensor_parallel": 16},  # more ranks than heads of keys and values: two copies of each
        {"output_tokens": 1},
        {"serving_batch_size": 1, "prompt_tokens": 10},  # prefill bound by the weights
        # decoding bound by arithmetic
        {"serving_batch_size": 4000, "prompt_tokens": 0, "hbm_capacity": 1e12},
    ],
)
def test_a_batch_replayed_token_by_token(change: dict[str, Any]) -> None:
    scenario = {**SCENARIO, **change}
    batch, prompt = scenario["serving_batch_size"], scenario["prompt_tokens"]
    ranks = scenario.get("tensor_parallel", 1)
    bandwidth, peak = ranks * 3.35e12, ranks * 989e12
    kept = 32 * 2 * 8 * 128 * 2  # bytes of each token
    kept_here = kept * max(1, ranks / 8) / ranks  # 8 heads of keys and values
    copied = 32 * 2 * 8 * 128 * 4096 * (max(1, ranks / 8) - 1)  # parameters that project to them
    weights = 2 * (READ + copied)
    begin = max(prompt, 1)  # a start token
    scores = 2 * 32 * 4096 * begin * begin  # causal products of queries, keys and values

    def prefill(prompts: int) -> float:
        layers = 2 * (READ - TABLE) * begin * prompts
        time = max(layers / peak, (weights - 2 * TABLE) / bandwidth) + scores * prompts / peak
        return time + max(
            2 * TABLE * prompts / peak, 2 * TABLE / bandwidth
        )  # one position's logits

    clock, alone = prefill(batch), prefill(1)
    assert value("prefill_time", **scenario) == pytest.approx(clock, rel=1e-12)
    assert value("time_to_first_token", **scenario) == pytest.approx(alone, rel=1e-12)
    for done in range(scenario["output_tokens"] - 1):  # the prefill gave the first token
        seen = batch * (prompt + done)
        clock += max(weights / bandwidth, batch * 2 * READ / peak)
        clock += max(seen * kept_here / 3.35e12, seen * 4 * 32 * 4096 / peak)
    rate = value("output_tokens_per_second", **scenario)
    assert rate == pytest.approx(batch * scenario["output_tokens"] / clock, rel=1e-12)


def test_a_large_batch_is_bound_by_arithmetic() -> None:
    # A weight of 2 B does 2 FLOP for each sequence: the ridge, 295.2 FLOP/B, is at 295.2 of them.
    scenario = {**H100, **LLAMA_8B, "prompt_tokens": 0, "output_tokens": 1, "hbm_capacity": 1e15}
    rates = [
        value("decode_tokens_per_second", **scenario, serving_batch_size=batch)
        for batch in (295, 296, 4096)
    ]
    assert rates[0] == pytest.approx(295 * 3.35e12 / (2 * READ), rel=1e-12)
    assert rates[1] == pytest.approx(989e12 / (2 * READ), rel=1e-12)
    assert rates[2] == pytest.approx(rates[1], rel=1e-12)


MIXTRAL: dict[str, Any] = {
    "model": "mixtral-8x7b", "experts": 8, "experts_per_token": 2, "expert_layers": 32,
}  # fmt: skip


def test_one_token_reads_the_active_parameters_and_many_read_all() -> None:
    # Mixtral 8x7B (arXiv:2401.04088) prints 12.9e9 active parameters, its embedding among them.
    total = value("parameters", **MIXTRAL) - 32_000 * 4096
    active = 12.9e9 - 32_000 * 4096
    assert value("decode_weights_bytes", **MIXTRAL) == pytest.approx(2 * active, rel=3e-3)
    many = value("decode_weights_bytes", **MIXTRAL, serving_batch_size=1000)
    assert many == pytest.approx(2 * total, rel=1e-12)
    dense = value("decode_weights_bytes", **{**MIXTRAL, "experts_per_token": 8})
    assert dense == 2 * total


def test_stated_active_parameters_are_what_one_token_reads() -> None:
    # Kimi K2: 1e12 and 32e9 are rounded, 1e12 without the experts that it does not visit 6e9
    kimi = {"model": "kimi-k2", "bytes_per_element": 1}
    assert value("decode_weights_bytes", **kimi) == pytest.approx(32e9, rel=1e-12)


def test_largest_batch_fits_and_one_more_does_not() -> None:
    batch = value("largest_serving_batch", **SCENARIO)
    room = 76.5e9 - value("weights_bytes", **SCENARIO)
    assert batch == int(batch) > 100
    one = value("request_kv_cache", **SCENARIO)
    assert batch * one <= room < (batch + 1) * one


def test_weights_that_do_not_fit_leave_no_room() -> None:
    big = {**SCENARIO, "parameters": 70e9}
    assert value("largest_serving_batch", **big) == 0
    assert value("largest_serving_batch", **big, tensor_parallel=4) > 0
    reserved = value("largest_serving_batch", **SCENARIO, reserved_memory=80e9 - 16.06e9)
    assert reserved == 0


def test_caches_are_copied_beyond_their_heads() -> None:
    grouped = {**LLAMA_8B, "hbm_capacity": 80e9, "bytes_per_element": 0.125}  # small weights
    at = {t: value("largest_serving_batch", **grouped, tensor_parallel=t) for t in (1, 8, 16)}
    assert at[8] == pytest.approx(8 * at[1], rel=0.02)
    assert at[16] == pytest.approx(at[8], rel=0.002)


def test_every_rank_keeps_a_latent_cache() -> None:
    # DeepSeek-V3 in FP8 on 8 H200, 4096 tokens of 70,272 B: 671/8 GB of weights on each GPU.
    given = {
        "model": "deepseek-v3", "bytes_per_element": 1, "hbm_capacity": 141e9, "tensor_parallel": 8,
        "prompt_tokens": 4000, "output_tokens": 96, "kv_bytes_per_element": 2,
    }  # fmt: skip
    down = 61 * 7168 * (1536 + 576)  # to the latent vectors: on every GPU
    room, cache = 137.5e9 - 671e9 / 8, 4096 * 70_272
    heads = 8 * (room - 61 * 7168 * 1536 * 7 / 8) // cache
    assert value("largest_serving_batch", **given, latent_attention=False) == heads
    room -= down * 7 / 8
    assert value("largest_serving_batch", **given) == room // cache
    # Each GPU has its own requests, and copies of attention's 61 x 187e6 weights and the embedding.
    apart = {**given, "data_parallel_attention": True}
    copied = 61 * value("attention_parameters_per_layer", **given) + 129_280 * 7168
    room -= (copied - down) * 7 / 8
    assert value("largest_serving_batch", **apart) == 8 * room // cache


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("request_kv_cache", "kv_elements_per_layer"),
        ("serving_weights_memory", "attention_parameters_per_layer"),
        ("parameters", "attention_parameters_per_layer"),
    ],
)
def test_latent_attention_asks_for_what_its_widths_do_not_give(name: str, missing: str) -> None:
    shape = {"layers": 61, "hidden_size": 7168, "attention_heads": 128, "vocab_size": 129_280}
    with pytest.raises(ValueError, match=f"{name} needs it; give {missing}"):
        value(name, **shape, latent_attention=True, kv_latent_size=512)


@pytest.mark.parametrize(("more", "reason"), [(0, 0), (1, 1)])
def test_a_batch_without_room_has_a_reason_and_no_price(more: int, reason: int) -> None:
    batch = value("largest_serving_batch", **SCENARIO) + more
    at = {**SCENARIO, "serving_batch_size": batch, "gpu_hour_price": 2}
    assert value("serving_memory_reason", **at) == reason
    assert math.isinf(value("serving_cost_per_million_tokens", **at)) == bool(reason)
    assert math.isinf(value("serving_gpus", **at)) == bool(reason)


def test_weights_without_room_have_a_reason_of_their_own() -> None:
    assert value("serving_memory_reason", **{**SCENARIO, "parameters": 70e9}) == 2


def test_long_prompts_are_bound_by_attention() -> None:
    # 128k tokens through 8B, logits of the last, and 32 x 2 x 131,072^2 x 4096 for a causal mask.
    at = {**SCENARIO, "serving_batch_size": 1, "prompt_tokens": 131_072}
    matrices = 2 * (READ - TABLE) * 131_072 + 2 * TABLE
    flops = 131_072 * value("prompt_flops_per_token", **at)
    assert flops == pytest.approx(matrices + 64 * 131_072**2 * 4096, rel=1e-12)
    assert flops > 3 * 2 * 8.03e9 * 131_072


def test_replicas_carry_the_rate_and_no_fewer_would() -> None:
    fleet = {**SCENARIO, "tensor_parallel": 2, "request_rate": 500.0}
    gpus = value("serving_gpus", **fleet)
    whole = value("prefill_time", **fleet) + 89 * value("decode_step_time", **fleet)
    carried_by_each = 16 / whole  # a batch in that time
    replicas = gpus / 2
    assert replicas == int(replicas)
    assert (replicas - 1) * carried_by_each < 500 <= replicas * carried_by_each
    assert value("serving_replicas", **fleet) * carried_by_each == pytest.approx(500, rel=1e-12)


def test_price_of_tokens_is_that_of_the_fleet() -> None:
    # What the busy replicas cost in an hour over the tokens of that hour.
    fleet = {**SCENARIO, "tensor_parallel": 2, "request_rate": 500.0}
    hourly = value("serving_replicas", **fleet) * 2 * 3.0
    tokens = 500.0 * 90 * 3600
    got = value("serving_cost_per_million_tokens", **fleet, gpu_hour_price="3 USD/h")
    assert got == pytest.approx(hourly / tokens * 1e6, rel=1e-12)


def test_without_limits() -> None:
    endless = value("decode_step_time", **{**SCENARIO, "hbm_bandwidth": 1e30})
    flops = 16 * (2 * READ + 4 * 32 * 4096 * (700 + 88 / 2))
    assert endless == pytest.approx(flops / 989e12, rel=1e-14)
    assert math.isinf(value("largest_serving_batch", **{**SCENARIO, "hbm_capacity": math.inf}))


# Windows and precision


def test_windows_bound_the_cache_and_the_keys_read() -> None:
    # gpt-oss-120b: 36 layers, 18 of which see 128 tokens; 2 x 8 x 64 numbers of 2 bytes each.
    at = {"model": "gpt-oss-120b", "prompt_tokens": 100_000, "output_tokens": 2}
    assert value("request_kv_cache", **at) == 18 * 2048 * (100_002 + 128)
    assert value("decode_context", **at) == (100_000 + 127) / 2
    assert value("request_kv_cache", **at, sliding_window=False) == 36 * 2048 * 100_002
    short = {**at, "prompt_tokens": 60}
    assert value("request_kv_cache", **short) == 36 * 2048 * 62


@pytest.mark.parametrize("name", ["request_kv_cache", "decode_step_time", "prefill_time"])
@pytest.mark.parametrize("prompt", [0, 1, 700, 131_072])
def test_an_infinite_window_is_none(name: str, prompt: int) -> None:
    at = {**SCENARIO, "prompt_tokens": prompt}
    infinite = value(name, **at, attention_window=math.inf)
    assert infinite == pytest.approx(value(name, **at), rel=1e-14)


def test_attention_keeps_its_rate_in_few_bits() -> None:
    at = {**SCENARIO, "serving_batch_size": 1, "prompt_tokens": 131_072, "peak_flops_bf16": 989e12}
    fp8 = {**at, "peak_flops": 1979e12, "precision": "fp8", "gemm_efficiency": 1}
    attention = 64 * 131_072**2 * 4096
    layers = 131_072 * value("prompt_flops_per_token", **at) - attention - 2 * TABLE
    expected = layers / 1979e12 + attention / 989e12 + 2 * TABLE / 3.35e12  # the head is read
    assert value("prefill_time", **fp8) == pytest.approx(expected, rel=1e-12)


def test_every_format_is_that_of_the_recipe() -> None:
    # 70B on one GPU of 3.35 TB/s: its layers' 68.4e9 weights in one byte, the head of 128,256 x
    # 8192 in two, no embedding; keys and values of 80 x 2 x 8 x 128 numbers
    at = {**H100, "model": "llama-3-70b", "precision": "fp8", "prompt_tokens": 1000}
    at |= {
        "peak_flops": 1979e12,
        "peak_flops_bf16": 989e12,
        "output_tokens": 2,
        "hbm_capacity": 1e12,
    }
    layers = value("parameters", **at) - 2 * 128_256 * 8192 - 161 * 8192
    read = layers + 2 * (128_256 * 8192 + 161 * 8192)
    for precision, each in (("bf16", 2), ("fp8", 1)):
        moved = read + 1000 * 80 * 2 * 8 * 128 * each
        step = value("decode_step_time", **at, kv_cache_precision=precision)
        assert step == pytest.approx(moved / 3.35e12, rel=1e-6)


def test_all_reduces_take_a_fifth_of_a_small_step() -> None:
    # 161 all-reduces of 16 KB on 8 GPUs: 5 us each, and 7 x 16 KB at 450 GB/s
    at = {"model": "llama-3-70b", "node": "dgx-h100", "tensor_parallel": 8, "precision": "fp8"}
    at |= {"intra_node_bandwidth": 450e9}
    traffic = value("decode_exchange_time", **at)
    assert traffic == pytest.approx(161 * (5e-6 + 7 * 16384 / 450e9), rel=1e-12)
    assert 0.15 < traffic / value("decode_step_time", **at) < 0.3
    beyond = {**at, "serving_batch_size": value("largest_serving_batch", **at) + 1}
    assert value("output_tokens_per_second", **beyond) == 0
    assert math.isinf(value("time_per_output_token", **beyond))
    # two nodes without a fabric have no link; with one, a ring on each rail
    alone = {"gpu": "h100-sxm", "gpus_per_node": 8, "tensor_parallel": 16}
    assert math.isnan(value("decode_exchange_time", model="llama-3-70b", **alone))
    apart = {**at, "tensor_parallel": 16, "fabric": "infiniband-ndr"}
    assert value("decode_exchange_time", **apart) > 160 * 2 * 5e-6


def test_prompts_read_elsewhere_stop_nobody() -> None:
    at = {**SCENARIO, "inter_node_bandwidth": 50e9, "tensor_parallel": 2}
    apart = {**at, "disaggregated_prefill": True}
    assert value("time_per_output_token", **apart) == value("decode_step_time", **at)
    assert value("time_per_output_token", **at) > value("decode_step_time", **at)
    sent = 700 * 32 * 2 * 8 * 128 * 2 / (2 * 50e9)  # its prompt's cache over two rails
    assert value("kv_transfer_time", **apart) == pytest.approx(sent, rel=1e-12)
    same = value("output_tokens_per_second", **at)
    assert value("output_tokens_per_second", **apart) == same


def test_states_are_shared_by_ranks_that_share_no_more_heads() -> None:
    # Nemotron-H 47B has 8 heads of keys and values, and states of 5 x 256 heads: on 16 GPUs caches
    # are on two each, states on one
    at = {"model": "nemotron-h-47b", "hbm_capacity": 80e9, "tensor_parallel": 16}
    names = ("serving_weights_memory", "request_kv_cache", "linear_state_bytes")
    weights, whole, states = (value(name, **at) for name in names)
    room = 80e9 - 3.5e9 - weights
    expected = room // ((whole - states) / 8 + states / 16)
    assert value("largest_serving_batch", **at) == expected > 1.2 * (room * 8 // whole)


@pytest.mark.parametrize("more", [{}, {"prompt_tokens": 0}, {"tensor_parallel": 8}])
def test_the_first_token_takes_a_prefill_of_one_with_its_interval(more: dict[str, Any]) -> None:
    at = {**SCENARIO, "prompt_tokens": 40, "serving_traffic": True, "gpus_per_node": 8}
    at |= {"intra_node_bandwidth": 450e9, **more}
    alone = {**at, "serving_batch_size": 1}
    for place in (-1, 0, 1):  # bound by weights, a length at which its interval had no width
        first = value("time_to_first_token", **at, serving_time_error=place)
        assert first == value("prefill_time", **alone, serving_time_error=place)
        assert first == pytest.approx(2.1**place * value("time_to_first_token", **at), rel=1e-12)


def test_windows_and_states_are_what_is_sent_of_a_prompt() -> None:
    at = {"fabric": "infiniband-ndr", "node": "dgx-h100", "disaggregated_prefill": True}
    at |= {"prompt_tokens": 10_000, "tensor_parallel": 4}
    # gpt-oss-120b: 128 tokens in 18 of 36 layers
    sent = 18 * (10_000 + 128) * 2 * 8 * 64 * 2 / 4
    at["model"] = "gpt-oss-120b"
    got = value("kv_transfer_time", **at)
    assert got == pytest.approx(sent / value("rail_bandwidth", **at), rel=1e-12)
    # DeepSeek-V3: all that each GPU keeps; with attention of their own, from one GPU to one
    for apart in (False, True):
        more = {**at, "data_parallel_attention": apart, "model": "deepseek-v3"}
        got = value("kv_transfer_time", **more)
        assert got == pytest.approx(70_272 * 10_000 / value("rail_bandwidth", **more), rel=1e-12)
