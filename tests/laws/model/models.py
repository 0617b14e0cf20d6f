"""Models, tensor by tensor: weights, activations and states, and sizes that papers print.

These run whole scenarios, so that callers of formulas are checked as well.
"""

import math
from typing import Any

import numpy as np

import fleetcube

from ...evaluated import computed
from ..check import Pairs, check

# Sizes

MEGATRON = (  # billions, layers, hidden size, heads
    (1.7, 24, 2304, 24),
    (3.6, 30, 3072, 32),
    (7.5, 36, 4096, 32),
    (18.4, 40, 6144, 48),
    (39.1, 48, 8192, 64),
    (76.1, 60, 10240, 80),
    (145.6, 80, 12288, 96),
    (310.1, 96, 16384, 128),
    (529.6, 105, 20480, 128),
    (1008.0, 128, 25600, 160),
)
LLAMAS = (  # parameters in the published files; layers, hidden, heads, kv heads, ffn, vocabulary
    (6_738_415_616, 32, 4096, 32, 32, 11008, 32000),
    (13_015_864_320, 40, 5120, 40, 40, 13824, 32000),
    (8_030_261_248, 32, 4096, 32, 8, 14336, 128256),
    (70_553_706_496, 80, 8192, 64, 8, 28672, 128256),
    (405_853_388_800, 126, 16384, 128, 8, 53248, 128256),
)
MIXTRAL = {
    "layers": 32, "hidden_size": 4096, "attention_heads": 32, "kv_heads": 8,
    "ffn_hidden_size": 14336, "vocab_size": 32000, "gated_ffn": True, "experts": 8,
    "experts_per_token": 2,
}  # fmt: skip


def llama(row: tuple[int, ...]) -> dict[str, Any]:
    names = (
        "layers",
        "hidden_size",
        "attention_heads",
        "kv_heads",
        "ffn_hidden_size",
        "vocab_size",
    )
    return {"gated_ffn": True, **dict(zip(names, row[1:], strict=True))}


@check(
    "gpt_non_matmul_parameters plain_ffn_hidden_size plain_ffn_matrices head_size",
    by="table",
    source="Narayanan et al. 2021 (SC21), table 1",
)
def megatron_sizes() -> Pairs:
    """ten models, 1.7 to 1,008 billion parameters, to the digits printed"""
    for printed, layers, hidden, heads in MEGATRON:
        shape = {"layers": layers, "hidden_size": hidden, "attention_heads": heads}
        ours = computed(shape | {"sequence_length": 2048}, "parameters")[0]
        yield round(ours / 1e9, 1), printed


@check(
    "llama_non_matmul_parameters attention_parameters_per_layer dense_ffn_parameters "
    "ffn_parameters_per_layer gated_ffn_matrices",
    by="table",
    source="parameters in the weight files of Llama 2 7B and 13B, Llama 3.1 8B, 70B, 405B",
)
def llama_sizes() -> Pairs:
    """five models, to the last parameter"""
    for row in LLAMAS:
        yield computed(llama(row), "parameters")[0], row[0]


@check(
    "llama_non_matmul_parameters expert_ffn_parameters expert_parameters routed_parameters "
    "skipped_parameters expert_active_parameters expert_layers",
    by="table",
    source="Mixtral 8x7B: parameters in its weight files, 12.9 billion active (arXiv:2401.04088)",
    tolerance=2e-3,
)
def mixtral_size() -> Pairs:
    """all and active parameters"""
    everything, active = computed(MIXTRAL, "parameters", "active_parameters")
    yield everything, 46_702_792_704
    yield active, 12.9e9


@check(
    "attention_heads",
    by="table",
    source="Brown et al. 2020, arXiv:2005.14165, table 2.1: 13B, 175B",
)
def heads_of_gpt3() -> Pairs:
    """two models"""
    for hidden, heads in ((12288, 96), (5120, 40)):
        yield computed({"layers": 1, "hidden_size": hidden}, "attention_heads")[0], heads


@check(
    "gated_ffn_hidden_size",
    by="table",
    source="Shazeer 2020, arXiv:2002.05202, section 3.1: 2,048 for 3,072 with d_model = 768",
)
def gated_width() -> Pairs:
    """one model; as many parameters as two matrices of 4 h"""
    ours = computed({"layers": 1, "hidden_size": 768, "gated_ffn": True}, "ffn_hidden_size")[0]
    yield ours, 2048
    yield 3 * ours * 768, 2 * 3072 * 768


@check(
    "training_tokens",
    by="table",
    source="Hoffmann et al. 2022, arXiv:2203.15556, table 3: 10 to 175 billion parameters",
    tolerance=0.11,
)
def chinchilla_tokens() -> Pairs:
    """four sizes, 205 billion to 3.7 trillion tokens"""
    for parameters, tokens in ((10e9, 205.1e9), (67e9, 1.5e12), (175e9, 3.7e12), (280e9, 5.9e12)):
        yield computed({"parameters": parameters}, "training_tokens")[0], tokens


# Weights, laid out GPU by GPU


def weights(shape: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Matrices of a Llama or Mixtral layer: kind, expert (or -1), elements."""
    h, f = shape["hidden_size"], shape["ffn_hidden_size"]
    kv = h // shape["attention_heads"] * shape["kv_heads"]
    made = [
        ("dense", -1, h * h),
        ("dense", -1, h * kv),
        ("dense", -1, h * kv),
        ("dense", -1, h * h),
    ]
    for expert in range(shape.get("experts", 0)):
        made += [("expert", expert, h * f)] * 3
    made += (
        [("dense", -1, h * shape["experts"])] if "experts" in shape else [("dense", -1, h * f)] * 3
    )
    return [*made, ("dense", -1, h), ("dense", -1, h)]


@check(
    "dense_local_parameters expert_local_parameters",
    by="derivation",
    source="tensors put on the GPUs of a stage one by one, mean over GPUs",
)
def laid_out() -> Pairs:
    """8B and Mixtral 8x7B on 32 GPUs, t 2, p 2, experts over 4"""
    for shape, e in ((llama(LLAMAS[2]), 1), (MIXTRAL, 4)):
        held = np.zeros((2, 2, e))  # tensor, stage, expert rank
        for layer in range(shape["layers"]):
            for kind, expert, elements in weights(shape):
                where = expert % e if kind == "expert" else slice(None)
                held[:, layer % 2, where] += elements / 2
        held += (2 * shape["vocab_size"] + 1) * shape["hidden_size"] / 4  # the stages alike
        layout = {"tensor_parallel": 2, "pipeline_parallel": 2, "expert_parallel": e}
        ours = computed({**shape, **layout, "n_gpus": 32}, "local_parameters")[0]
        yield ours, float(held.mean())
        assert float(held.max()) == float(held.min())


@check(
    "replicated_weights_memory sharded_weights_memory replicated_gradients_memory "
    "sharded_gradients_memory optimizer_memory even_sharded_parameters "
    "gradient_storage_bytes_gradient_storage_bf16",
    by="table",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, figure 1: 7.5B on 64 GPUs",
    tolerance=2e-2,
)
def zero_stages() -> Pairs:
    """120, 31.4, 16.6 and 1.9 GB, as printed"""
    for stage, printed in enumerate((120e9, 31.4e9, 16.6e9, 1.9e9)):
        point = {"parameters": 7.5e9, "layers": 36, "hidden_size": 4096, "n_gpus": 64}
        point |= {"global_batch_size": 64, "zero_stage": stage}
        states = ("weights_memory", "gradients_memory", "optimizer_memory")
        yield math.fsum(computed(point, *states)), printed


@check(
    "state_bytes_per_parameter min_gpus_for_state gradient_storage_bytes_gradient_storage_bf16 "
    "gradient_storage_bytes_gradient_storage_fp32 "
    "copied_gradient_optimizer_state_bytes",
    by="table",
    source="Megatron-LM, docs of the distributed optimizer: 16, 18 and 20 bytes a parameter",
)
def state_bytes() -> Pairs:
    """three storages; GPUs of 80 GB filled with a trillion parameters one by one"""
    for storage, printed in (("bf16", 16), ("fp32", 18), ("bf16_and_fp32", 20)):
        names = ("state_bytes_per_parameter", "min_gpus_for_state")
        point = {"parameters": 1e12, "gradient_storage": storage, "hbm_capacity": 80e9}
        bytes_each, gpus = computed(point, *names)
        yield bytes_each, printed
        left, filled = printed * 1e12, 0.0
        while left > 0:
            filled += min(1.0, left / 80e9)
            left -= 80e9
        yield gpus, filled


# Activations


def kept(
    h: int, a: int, s: int, t: int, sequence: bool, recompute: str | bool, flash: bool
) -> float:
    """Bytes of a GPT layer's activations of one sequence, tensor by tensor, in BF16."""
    outer = [2 * s * h] * 4 + [s * h] * 2  # two norms, attention and MLP in; two dropout masks
    inner = [2 * s * h] * 3 + [2 * s * h]  # queries, keys, values; in of the output projection
    inner += [2 * s * 4 * h] * 2  # in and out of GeLU
    if recompute is False and not flash:
        inner += [2 * a * s * s, a * s * s, 2 * a * s * s]  # softmax, its mask, what is left
    return sum(outer) / (t if sequence else 1) + sum(inner) / t


@check(
    "whole_layer_activation_memory selective_activation_memory_per_layer "
    "mixer_activations_per_token ffn_activations_per_token "
    "standard_score_activations_per_token",
    by="derivation",
    source="tensors of a layer listed one by one (Korthikanti et al. 2022, section 4.1)",
)
def activations() -> Pairs:
    """GPT-3 and 22B, t 1 and 8, with and without sequence parallelism, flash, recompute"""
    for h, a in ((12288, 96), (6144, 64)):
        for t, sequence in ((1, False), (8, False), (8, True)):
            for recompute, flash in ((False, False), (False, True), ("selective", False)):
                point = {
                    "layers": 96, "hidden_size": h, "attention_heads": a, "sequence_length": 2048,
                    "tensor_parallel": t, "sequence_parallel": sequence, "recompute": recompute,
                    "attention_kernel": "flash" if flash else "standard", "n_gpus": 64,
                }  # fmt: skip
                ours = computed(point, "activation_memory_per_layer")[0]
                yield ours, kept(h, a, 2048, t, sequence, recompute, flash)


@check(
    "even_logits_memory expert_ffn_input_width expert_active_ffn_width tokens_per_expert "
    "microbatch_tokens activation_message",
    by="simulator",
    source="tokens of one micro-batch routed evenly and counted, widths added up",
)
def tokens_routed() -> Pairs:
    """Mixtral 8x7B, experts over 1 and 4 ranks, two sequences of 4,096"""
    for e in (1, 4):
        point = {**MIXTRAL, "micro_batch_size": 2, "expert_parallel": e, "n_gpus": 64}
        got, inputs, widths = np.zeros(8), 0, 0
        for token in range(2 * 4096):
            inputs += 4096  # the router's
            for k in range(2):
                got[(token + 4 * k) % 8] += e
                inputs += 4096
                widths += 14336
        names = ("tokens_per_expert", "ffn_input_width", "active_ffn_width", "microbatch_tokens")
        each, wide, active, tokens = computed(point, *names)
        yield each, float(got.max())
        yield wide * tokens, inputs
        yield active * tokens, widths
        yield tokens, 2 * 4096
        message = np.zeros((2, 4096, 1), np.float16).nbytes * 4096
        yield computed(point, "activation_message")[0], message
        logits = np.zeros((2, 4096, 1), np.float32).nbytes * 32000
        yield computed(point, "logits_memory")[0], logits
        alike = {**point, "pipeline_parallel": 2, "stage_split": False}
        yield computed(alike, "logits_memory")[0], 0


@check(
    "kv_elements_per_layer kv_cache_bytes_per_token",
    by="table",
    source="Kwon et al. 2023 (vLLM), section 3: OPT-13B, 800 KB a token, 1.6 GB for 2,048",
    tolerance=2.5e-2,
)
def cache_of_opt() -> Pairs:
    """a token and a request of 2,048 tokens, as printed"""
    point = {"layers": 40, "hidden_size": 5120, "attention_heads": 40}
    point |= {"prompt_tokens": 1024, "output_tokens": 1024}
    token = computed(point, "kv_cache_bytes_per_token")[0]
    yield token, 800 * 1024
    yield 2048 * token, 1.6e9 * 1.024


# Layout


@check(
    "gradient_message weight_message whole_gradient_buckets bucket_message "
    "one_site_gradient_ranks gradient_ranks_hybrid_sharding_false data_parallel num_microbatches "
    "node_pipeline_ranks_per_node outer_pipeline_stride node_tensor_parallel_ranks_per_node",
    by="simulator",
    source="GPUs numbered in Megatron's order, gradients cut into buckets until none is left",
)
def layout() -> Pairs:
    """8B on 128 GPUs: t 2, c 2, p 4, buckets of 40 MB; and t 2, p 64"""
    point = {"parameters": 8e9, "layers": 32, "hidden_size": 4096, "n_gpus": 128}
    point |= {"tensor_parallel": 2, "context_parallel": 2, "pipeline_parallel": 4}
    point |= {"stage_split": False, "global_batch_size": 64, "bucket_bytes": 40e6}
    places = {}  # tensor innermost, then context, data, pipeline
    for gpu in range(128):
        places[gpu] = (gpu % 2, gpu // 2 % 2, gpu // 4 % 8, gpu // 32)
    same_weights = [g for g, (t, _, _, p) in places.items() if (t, p) == (0, 0)]
    replicas = {d for _, _, d, _ in places.values()}
    names = ("gradient_ranks", "data_parallel", "num_microbatches", "gradient_message")
    ranks, data, microbatches, message = computed(point, *names)
    yield ranks, len(same_weights)
    yield data, len(replicas)
    turns = left = 0
    left = 64
    while left > 0:
        left, turns = left - len(replicas), turns + 1
    yield microbatches, turns
    bytes_held = 8e9 / len({(t, p) for t, _, _, p in places.values()}) * 2
    yield message, bytes_held
    yield computed(point, "weight_message")[0], bytes_held
    sent = pieces = 0.0
    while sent < bytes_held:
        sent, pieces = sent + 40e6, pieces + 1
    yield computed(point, "gradient_buckets")[0], pieces
    yield computed(point, "bucket_message")[0], bytes_held / pieces
    yield computed(point, "pipeline_ranks_per_node")[0], 1
    deep = {**point, "pipeline_parallel": 64, "context_parallel": 1, "layers": 64}
    stages = [stage for stage in range(64) if stage * 2 // 8 == 0]
    yield computed(deep, "pipeline_ranks_per_node")[0], len(stages)
    yield computed(deep, "tensor_parallel_ranks_per_node")[0], 2


@check(
    "layout_reason hybrid_sharding_reason even_stage_reason whole_stage_reason "
    "dense_expert_layout_reason routed_expert_layout_reason flushed_infeasible_reason "
    "capacity_reason feasible",
    by="derivation",
    source="layouts broken in one way each, reasons by the table of codes in words",
)
def reasons() -> Pairs:
    """eighteen layouts of 64 GPUs"""
    good = {"layers": 32, "hidden_size": 4096, "n_gpus": 64, "global_batch_size": 64}
    flag = fleetcube.evaluate("infeasible_reason", **good).attrs
    codes = dict(zip(flag["flag_meanings"].split(), flag["flag_values"], strict=True))
    for broken, reason in (
        ({}, "feasible"),
        ({"n_gpus": 64.5}, "not_a_whole_number"),
        ({"tensor_parallel": 128, "attention_heads": 128}, "group_larger_than_cluster"),
        ({"pipeline_parallel": 3, "layers": 33}, "gpus_not_divisible"),
        ({"global_batch_size": 32}, "batch_smaller_than_data_parallel"),
        ({"global_batch_size": 65}, "batch_not_divisible"),
        ({"layers": 33, "pipeline_parallel": 2, "stage_split": False}, "layers_not_divisible"),
        ({"layers": 33, "pipeline_parallel": 2}, "feasible"),
        ({"layers": 33.5, "pipeline_parallel": 2}, "layers_not_divisible"),
        ({"layers": 12, "pipeline_parallel": 16}, "stage_without_layers"),
        ({"attention_heads": 6, "tensor_parallel": 4}, "heads_not_divisible"),
        ({"sequence_length": 4097, "context_parallel": 2}, "sequence_not_divisible"),
        ({"expert_parallel": 2}, "experts_not_divisible"),
        ({"mixture_of_experts": True, "expert_parallel": 4}, "feasible"),
        ({"mixture_of_experts": True, "expert_parallel": 3}, "experts_not_divisible"),
        ({"data_parallel_shard": 16}, "feasible"),
        ({"data_parallel_shard": 24}, "replicas_not_divisible_into_sharding_groups"),
        ({"hbm_capacity": 1e9}, "out_of_memory"),
    ):
        code, verdict = computed(good | broken, "infeasible_reason", "feasible")
        yield code, codes[reason]
        yield verdict, float(reason == "feasible")
    timed = good | {"checkpoint_mode": "async", "checkpoint_policy": "fixed"}
    timed |= {"checkpoint_write_bandwidth": 1e9, "parameters": 1e9}  # 14 GB: 14 s
    for interval, reason in ((13.0, "interval_below_flush_time"), (15.0, "feasible")):
        code = computed(timed | {"fixed_checkpoint_interval": interval}, "infeasible_reason")[0]
        yield code, codes[reason]


@check(
    "arithmetic_intensity ridge_point",
    by="simulator",
    source="multiply-adds of a 64 x 64 matrix in BF16, read once; peaks of the data sheet",
    tolerance=1e-3,
)
def intensity() -> Pairs:
    """1 to 4,096 tokens; H100 SXM turns at 295 operations a byte"""
    for tokens in (1, 2, 4096):
        done, read = 0, 0
        for _ in range(64 * 64):
            read += 2
            done += 2 * tokens
        point = {"layers": 1, "hidden_size": 64, "sequence_length": tokens}
        yield computed(point, "arithmetic_intensity")[0], done / read
    point = {"peak_flops_bf16": 989e12, "hbm_bandwidth": 3.35e12}
    yield computed(point, "ridge_point")[0], 295.2
