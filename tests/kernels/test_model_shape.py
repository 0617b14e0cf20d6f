"""Shapes that are not stated, and the time of a published run."""

from typing import Any

import pytest

import fleetcube

from ..evaluated import value

Shape = dict[str, Any]

LLAMA_2_7B: Shape = {
    "layers": 32, "hidden_size": 4096, "attention_heads": 32, "ffn_hidden_size": 11008,
    "vocab_size": 32000, "gated_ffn": True,
}  # fmt: skip
LLAMA_3_8B: Shape = {**LLAMA_2_7B, "kv_heads": 8, "ffn_hidden_size": 14336, "vocab_size": 128256}


def test_a_shape_not_stated_is_that_of_the_first_transformers() -> None:
    # heads of 128 (GPT-3), feed-forward of 4 h (GPT) or of 8 h / 3 (the parameters of two matrices)
    shape = {"hidden_size": 6144, "layers": 1}
    names = [
        "attention_heads",
        "head_size",
        "kv_heads",
        "ffn_hidden_size",
        "expert_ffn_hidden_size",
    ]
    plain = fleetcube.evaluate(names, **shape)
    assert [float(plain[name]) for name in names] == [48, 128, 48, 24576, 24576]
    gated = value("ffn_parameters_per_layer", gated_ffn=True, **shape)
    assert gated == value("ffn_parameters_per_layer", **shape) == 8 * 6144 * 6144


def test_a_dense_model_is_shared_by_tensor_ranks_and_stages_only() -> None:
    layout = {"tensor_parallel": 8, "pipeline_parallel": 16, "expert_parallel": 4}
    assert value("local_parameters", parameters=1e12, **layout) == 1e12 / 128
    assert value("active_parameters", parameters=1e12) == 1e12


# Operations


def test_a_recipe_in_few_bits_asks_for_the_peak_in_sixteen() -> None:
    with pytest.raises(ValueError, match="needs it; give peak_flops_bf16"):
        value("compute_time", n_gpus=8, precision="fp8", peak_flops_fp8=2e15, **LLAMA_3_8B)


def test_compute_time_of_a_published_run() -> None:
    # Narayanan et al. 2021, section 5.1: 8 T P / (n X). GPT-3 and 300e9 tokens on 1024 A100 at 140
    # TFLOP/s take 34 days; a trillion parameters and 450e9 tokens on 3072 at 163 take 84.
    for parameters, tokens, gpus, rate, days in (
        (175e9, 300e9, 1024, 140e12, 34),
        (1.008e12, 450e9, 3072, 163e12, 84),
    ):
        given = {"tokens_per_step": tokens, "n_gpus": gpus, "peak_flops": 312e12}
        given |= {"flops_efficiency": rate / 312e12, "kernel_flops_per_token": 6 * parameters}
        given |= {"recompute_flops_factor": 8 / 6}
        time = value("compute_time", **given)
        assert time / 86400 == pytest.approx(days, abs=0.5)
