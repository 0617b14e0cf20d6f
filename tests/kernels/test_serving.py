"""Serving: a batch token by token, limits and refusals; `tests/laws/serving` replays servers."""

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


def test_stated_active_parameters_are_what_one_token_reads() -> None:
    # Kimi K2: 1e12 and 32e9 are rounded, 1e12 without the experts that it does not visit 6e9
    kimi = {"model": "kimi-k2", "bytes_per_element": 1}
    assert value("decode_weights_bytes", **kimi) == pytest.approx(32e9, rel=1e-12)


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


# Windows and precision


def test_without_limits() -> None:
    endless = value("decode_step_time", **{**SCENARIO, "hbm_bandwidth": 1e30})
    flops = 16 * (2 * READ + 4 * 32 * 4096 * (700 + 88 / 2))
    assert endless == pytest.approx(flops / 989e12, rel=1e-14)
    assert math.isinf(value("largest_serving_batch", **{**SCENARIO, "hbm_capacity": math.inf}))


@pytest.mark.parametrize("name", ["request_kv_cache", "decode_step_time", "prefill_time"])
@pytest.mark.parametrize("prompt", [0, 1, 700, 131_072])
def test_an_infinite_window_is_none(name: str, prompt: int) -> None:
    at = {**SCENARIO, "prompt_tokens": prompt}
    infinite = value(name, **at, attention_window=math.inf)
    assert infinite == pytest.approx(value(name, **at), rel=1e-14)


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


@pytest.mark.parametrize("more", [{}, {"prompt_tokens": 0}, {"tensor_parallel": 8}])
def test_the_first_token_takes_a_prefill_of_one_with_its_interval(more: dict[str, Any]) -> None:
    at = {**SCENARIO, "prompt_tokens": 40, "serving_traffic": True, "gpus_per_node": 8}
    at |= {"intra_node_bandwidth": 450e9, **more}
    alone = {**at, "serving_batch_size": 1}
    for place in (-1, 0, 1):  # bound by weights, a length at which its interval had no width
        first = value("time_to_first_token", **at, serving_time_error=place)
        assert first == value("prefill_time", **alone, serving_time_error=place)
        assert first == pytest.approx(2.3**place * value("time_to_first_token", **at), rel=1e-12)
