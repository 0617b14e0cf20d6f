"""Parameters and operations of published models, counted matrix by matrix in plain Python."""

from typing import Any

import pytest

import fleetcube

from ..evaluated import value

Shape = dict[str, Any]

# Shapes as published (tables of the papers and the released configurations); parameters are the
# exact counts of the released weights, or the totals that the papers state.
GPT_2_XL: Shape = {
    "layers": 48, "hidden_size": 1600, "attention_heads": 25, "vocab_size": 50257,
    "sequence_length": 1024,
}  # fmt: skip
LLAMA_2_7B: Shape = {
    "layers": 32, "hidden_size": 4096, "attention_heads": 32, "ffn_hidden_size": 11008,
    "vocab_size": 32000, "gated_ffn": True,
}  # fmt: skip
LLAMA_3_8B: Shape = {**LLAMA_2_7B, "kv_heads": 8, "ffn_hidden_size": 14336, "vocab_size": 128256}
LLAMA_3_70B: Shape = {
    **LLAMA_3_8B, "layers": 80, "hidden_size": 8192, "attention_heads": 64,
    "ffn_hidden_size": 28672,
}  # fmt: skip
LLAMA_3_405B: Shape = {
    **LLAMA_3_8B, "layers": 126, "hidden_size": 16384, "attention_heads": 128,
    "ffn_hidden_size": 53248,
}  # fmt: skip
MIXTRAL_8X7B: Shape = {
    **LLAMA_2_7B, "kv_heads": 8, "ffn_hidden_size": 14336, "experts": 8, "experts_per_token": 2,
}  # fmt: skip
# Queries of 128 heads x (128 + 64) from a latent of 1536, keys and values of 128 x (128 + 128) from
# one of 512, a rotary key of 64, an output projection of 128 x 128 (DeepSeek-AI 2024, section 4.2).
LATENT_ATTENTION = 7168 * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 512 * 128 * 256
DEEPSEEK_V3: Shape = {
    "layers": 61, "hidden_size": 7168, "attention_heads": 128, "head_size": 160,
    "attention_parameters_per_layer": LATENT_ATTENTION + 128 * 128 * 7168, "ffn_hidden_size": 18432,
    "vocab_size": 129280, "gated_ffn": True, "experts": 256, "experts_per_token": 8,
    "shared_experts": 1, "dense_layers": 3, "expert_ffn_hidden_size": 2048,
}  # fmt: skip
PALM_540B: Shape = {
    "layers": 118, "hidden_size": 18432, "attention_heads": 48, "head_size": 256, "kv_heads": 1,
    "ffn_hidden_size": 4 * 18432, "vocab_size": 256000, "embedding_tables": 1, "gated_ffn": True,
    "sequence_length": 2048,
}  # fmt: skip
MODELS = {
    "gpt-2 xl": GPT_2_XL, "llama 2 7b": LLAMA_2_7B, "llama 3 70b": LLAMA_3_70B,
    "mixtral 8x7b": MIXTRAL_8X7B, "deepseek-v3": DEEPSEEK_V3, "palm 540b": PALM_540B,
}  # fmt: skip
# SC21, table 1: heads, width, layers, tensor ranks, stages, GPUs, sequences, TFLOP/s per GPU,
# billions of parameters, PFLOP/s of the whole.
SC21 = [
    (24, 2304, 24, 1, 1, 32, 512, 137, 1.7, 4.4),
    (32, 3072, 30, 2, 1, 64, 512, 138, 3.6, 8.8),
    (32, 4096, 36, 4, 1, 128, 512, 142, 7.5, 18.2),
    (48, 6144, 40, 8, 1, 256, 1024, 135, 18.4, 34.6),
    (64, 8192, 48, 8, 2, 512, 1536, 138, 39.1, 70.8),
    (80, 10240, 60, 8, 4, 1024, 1792, 140, 76.1, 143.8),
    (96, 12288, 80, 8, 8, 1536, 2304, 148, 145.6, 227.1),
    (128, 16384, 96, 8, 16, 1920, 2160, 155, 310.1, 297.4),
    (128, 20480, 105, 8, 35, 2520, 2520, 163, 529.6, 410.2),
    (160, 25600, 128, 8, 64, 3072, 3072, 163, 1008.0, 502.0),
]
MEGATRON = [
    {
        "attention_heads": heads,
        "hidden_size": width,
        "layers": layers,
        "vocab_size": 51200,
        "sequence_length": 2048,
        "global_batch_size": sequences,
    }
    for heads, width, layers, _, _, _, sequences, *_ in SC21
]


def blocks(shape: Shape) -> list[dict[str, list[int]]]:
    """The weight matrices of each layer: all of them, and those that a token visits."""
    h, heads = shape["hidden_size"], shape["attention_heads"]
    width = shape.get("head_size", h // heads)
    groups = shape.get("kv_heads", heads)
    ffn = [3] if shape.get("gated_ffn") else [2]
    found = []
    for layer in range(shape["layers"]):
        attention = [h * heads * width, h * groups * width, h * groups * width, heads * width * h]
        if "attention_parameters_per_layer" in shape:
            attention = [shape["attention_parameters_per_layer"]]
        block = ffn[0] * h * shape.get("ffn_hidden_size", 4 * h)
        if "experts" in shape and layer >= shape.get("dense_layers", 0):
            expert = ffn[0] * h * shape.get("expert_ffn_hidden_size", shape.get("ffn_hidden_size"))
            shared = [expert] * shape.get("shared_experts", 0) + [h * shape["experts"]]
            held = [expert] * shape["experts"] + shared
            used = [expert] * shape["experts_per_token"] + shared
        else:
            held = used = [block]
        found.append({"held": attention + held, "used": attention + used})
    return found


def count(shape: Shape, kind: str) -> int:
    return sum(sum(block[kind]) for block in blocks(shape))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        # OpenAI's weights have 1,557,611,200; eq. 2 counts all but the final norm's 2 h.
        (GPT_2_XL, 1_557_611_200 - 2 * 1600),
        (LLAMA_2_7B, 6_738_415_616),
        (LLAMA_3_8B, 8_030_261_248),
        (LLAMA_3_70B, 70_553_706_496),
        (LLAMA_3_405B, 405_853_388_800),
        (MIXTRAL_8X7B, 46_702_792_704),
    ],
    ids=["gpt-2 xl", "llama 2 7b", "llama 3 8b", "llama 3 70b", "llama 3 405b", "mixtral 8x7b"],
)
def test_the_shape_yields_the_parameters_of_the_released_weights(
    shape: Shape, expected: int
) -> None:
    assert value("parameters", **shape) == expected


@pytest.mark.parametrize(
    ("shape", "total", "active"),
    [(MIXTRAL_8X7B, 46.7e9, 12.9e9), (DEEPSEEK_V3, 671e9, 37e9)],
    ids=["mixtral 8x7b", "deepseek-v3"],
)
def test_experts_count_once_and_active_ones_again(
    shape: Shape, total: float, active: float
) -> None:
    assert value("parameters", **shape) == pytest.approx(total, rel=0.002)
    # Mistral AI's announcement of Mixtral 8x7B; DeepSeek-AI 2024, abstract: the 37e9 leave one of
    # the two embeddings out (0.93e9)
    assert value("active_parameters", **shape) == pytest.approx(active, rel=0.03)
    skipped = count(shape, "held") - count(shape, "used")
    difference = value("parameters", **shape) - value("active_parameters", **shape)
    assert difference == pytest.approx(skipped, rel=1e-12)


def test_gpts_have_the_parameters_of_equation_2() -> None:
    # Narayanan et al. 2021, eq. 2 and table 1 (printed to 0.1e9)
    for (*_, billions, _), shape in zip(SC21, MEGATRON, strict=True):
        h, layers = shape["hidden_size"], shape["layers"]
        small = 13 / (12 * h) + (51200 + 2048) / (12 * layers * h)
        got = value("parameters", **shape)
        assert got == pytest.approx(12 * layers * h * h * (1 + small), rel=1e-12)
        assert abs(got / 1e9 - billions) < 0.06


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


@pytest.mark.parametrize("shape", MODELS.values(), ids=MODELS)
def test_operations_are_those_of_every_matrix(shape: Shape) -> None:
    # forward: a multiply-add per visited weight, per score and value of s tokens in every head, and
    # for the logits; backward twice that
    context = shape.get("sequence_length", 4096)
    heads = shape["attention_heads"]
    width = shape.get("head_size", shape["hidden_size"] // heads)
    forward = 2 * shape["hidden_size"] * shape["vocab_size"]
    for block in blocks(shape):
        forward += sum(2 * matrix for matrix in block["used"])
        forward += sum(2 * context * width + 2 * context * width for _ in range(heads))
    got = value("model_flops_per_token", flops_counting="transformer", **shape)
    assert got == pytest.approx(3 * forward, rel=1e-12)


def test_hfu_of_table_1_is_the_printed_rate() -> None:
    # SC21, table 1: operations / (GPUs x TFLOP/s) is the time of a step; hfu must give the printed
    # rate, share of peak and aggregate.
    for row, shape in zip(SC21, MEGATRON, strict=True):
        _, _, _, tensor, stages, gpus, sequences, teraflops, _, petaflops = row
        h, layers = shape["hidden_size"], shape["layers"]
        once, again = (  # the appendix, and eq. 3 with full recompute
            factor * sequences * 2048 * layers * h * h
            * (1 + 2048 / (6 * h) + 51200 / (logits * layers * h))
            for factor, logits in ((72, 12), (96, 16))
        )  # fmt: skip
        given = {"flops_counting": "transformer", "attention_kernel": "standard"}
        given |= {"recompute": "full", "step_time": again / (gpus * teraflops * 1e12)}
        given |= {"n_gpus": gpus, "tensor_parallel": tensor, "pipeline_parallel": stages}
        given |= {"peak_flops": 312e12, **shape}
        got = fleetcube.evaluate(["mfu", "hfu"], **given)
        assert float(got.hfu) * 312 == pytest.approx(teraflops, rel=1e-12)
        assert float(got.hfu) * 312 * gpus / 1e3 == pytest.approx(petaflops, rel=0.006)
        assert float(got.mfu / got.hfu) == pytest.approx(once / again, rel=1e-12)
        assert 0.75 <= float(got.mfu / got.hfu) < 0.78  # 72 / 96, and logits are not repeated


@pytest.mark.parametrize(
    ("heads", "h", "layers", "mfu", "hfu"),
    [
        (64, 6144, 48, 41.5, 43.7),
        (96, 12288, 96, 51.4, 52.8),
        (128, 20480, 105, 56.0, 57.0),
        (160, 25600, 128, 56.3, 57.0),
    ],
)
def test_selective_recompute_costs_a_third_of_what_published_hfus_count(
    heads: int, h: int, layers: int, mfu: float, hfu: float
) -> None:
    # Korthikanti et al. 2022, table 5: their hardware operations add 12 B s^2 h a layer, a whole
    # forward and backward pass of the two products; one forward pass is 4 B s^2 h.
    given = {"recompute": "selective", "attention_kernel": "standard", "attention_heads": heads}
    given |= {"hidden_size": h, "layers": layers, "vocab_size": 51200, "sequence_length": 2048}
    factor = value("recompute_flops_factor", **given)
    assert 3 * (factor - 1) == pytest.approx(hfu / mfu - 1, abs=0.1 / mfu + 1e-3)
    model = 72 * layers * h * h * (1 + 2048 / (6 * h) + 51200 / (12 * layers * h))
    assert factor == pytest.approx(1 + layers * 2 * 2 * 2048 * h / model, rel=1e-12)


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
