"""LoRA: every tensor of a model and its adapters, its bytes and its products, one by one."""

from typing import Any

import numpy as np

from ...evaluated import value, values
from ..check import Pairs, check

SMALL = {  # two layers
    "layers": 2, "hidden_size": 512, "attention_heads": 8, "kv_heads": 2, "gated_ffn": True,
    "ffn_hidden_size": 1536, "vocab_size": 4096, "sequence_length": 256, "n_gpus": 4,
    "global_batch_size": 8, "peak_flops": 1e15, "attention_peak_flops": 1e15,
    "logits_peak_flops": 1e15, "hbm_bandwidth": 3e12, "memory_efficiency": 1.0,
}  # fmt: skip
ADAPTED = {
    "all": ("q", "k", "v", "o", "gate", "up", "down"),
    "attention": ("q", "k", "v", "o"),
    "query_value": ("q", "v"),
}


def matrices(shape: dict[str, Any], experts: int = 1) -> dict[str, list[tuple[int, int]]]:
    """Inputs and outputs of a layer's matrices by kind, without the router."""
    h, f = shape["hidden_size"], shape["ffn_hidden_size"]
    size = shape.get("head_size", h // shape["attention_heads"])
    queries, keys = shape["attention_heads"] * size, shape["kv_heads"] * size
    found = {"q": [(h, queries)], "k": [(h, keys)], "v": [(h, keys)], "o": [(queries, h)]}
    found |= {"up": [(h, f)] * experts, "down": [(f, h)] * experts}
    return found | ({"gate": [(h, f)] * experts} if shape["gated_ffn"] else {})


def adapters(shape: dict[str, Any], rank: int, kind: str, experts: int = 1) -> int:
    """Elements of a model's adapters, matrix by matrix."""
    layer = matrices(shape, experts)
    sizes = [
        np.zeros((rank, inputs)).size + np.zeros((outputs, rank)).size
        for name in ADAPTED[kind]
        for inputs, outputs in layer.get(name, [])
    ]
    return shape["layers"] * sum(sizes)


LLAMA = {"layers": 32, "hidden_size": 4096, "attention_heads": 32, "kv_heads": 32,
         "ffn_hidden_size": 11008, "gated_ffn": True}  # fmt: skip
LLAMA_13B = {**LLAMA, "layers": 40, "hidden_size": 5120, "attention_heads": 40, "kv_heads": 40}
FALCON = {**LLAMA, "layers": 60, "hidden_size": 8192, "attention_heads": 128, "kv_heads": 8}
LLAMA_3 = {**LLAMA, "kv_heads": 8, "ffn_hidden_size": 14336}
GPT_3 = {**LLAMA, "layers": 96, "hidden_size": 12288, "attention_heads": 96, "kv_heads": 96}


@check(
    "query_value_lora_parameters all_lora_parameters attention_adapter_width "
    "dense_ffn_adapter_width lora_checkpoint_size",
    by="table",
    source="LitGPT, tutorials/resource-tables.md (trainable parameters); PEFT's "
    "print_trainable_parameters of Llama 3 8B; Hu et al. 2022, section 4.2 (35 MB)",
)
def published_adapters() -> Pairs:
    """Llama 2 7B and 13B, Falcon 40B and GPT-3 with queries and values; Llama 3 8B with all"""
    for shape, theirs in ((LLAMA, 4_194_304), (LLAMA_13B, 6_553_600), (FALCON, 12_042_240)):
        yield value("lora_parameters", **shape, lora_rank=8, lora_matrices="query_value"), theirs
    yield value("lora_parameters", **LLAMA_3, lora_rank=16), 41_943_040
    written = {"lora_matrices": "query_value", "checkpoint_bytes_per_parameter": 2}
    ours = value("checkpoint_size", **GPT_3, lora_rank=4, **written)
    yield round(ours / 2**20), 36  # 35 in the paper, of 350 GB over 10,000


@check(
    "all_lora_parameters attention_lora_parameters query_value_lora_parameters "
    "expert_ffn_adapter_width dense_ffn_adapter_width attention_adapter_width",
    by="derivation",
    source="two arrays made for each matrix, and their elements counted",
)
def adapters_counted() -> Pairs:
    """ranks of 1, 16 and 64 at all and at two matrices; 8 and 9 experts"""
    for rank in (1, 16, 64):
        for kind in ADAPTED:
            run = {"lora_rank": rank, "lora_matrices": kind}
            yield value("lora_parameters", **SMALL, **run), adapters(SMALL, rank, kind)
            for experts, shared in ((8, 0), (8, 1)):
                mixed = {**SMALL, "experts": experts, "shared_experts": shared, **run}
                theirs = adapters(SMALL, rank, kind, experts + shared)
                yield value("lora_parameters", **mixed), theirs
    some = {**SMALL, "layers": 3, "experts": 4, "dense_layers": 1, "expert_ffn_hidden_size": 96}
    narrow = {**SMALL, "layers": 2, "ffn_hidden_size": 96}
    theirs = adapters({**SMALL, "layers": 1}, 8, "all") + adapters(narrow, 8, "all", 4)
    yield value("lora_parameters", **some, lora_rank=8), theirs


def tensors(rank: int, kind: str) -> list[tuple[str, int]]:
    """Every tensor of the small model: matrices of layers, others, adapters; and its elements."""
    found = [("other", SMALL["vocab_size"] * 512)] * 2 + [("other", 512)] * 5  # tables, norms
    for _ in range(2):
        for name, shapes in matrices(SMALL).items():
            for inputs, outputs in shapes:
                found.append(("matrix", inputs * outputs))
                if name in ADAPTED[kind]:
                    found += [("adapter", rank * inputs), ("adapter", outputs * rank)]
    return found


@check(
    "lora_kept_weight_bytes quantised_frozen_weight_bytes "
    "lora_updated_weight_bytes "
    "state_bytes_per_parameter lora_kept_gradient_bytes lora_updated_state_bytes "
    "lora_gradient_wire_bytes lora_weight_wire_bytes gradient_message weight_message "
    "lora_host_gradient_bytes lora_host_state_bytes "
    "replicated_gradients_memory roofline_optimizer_time sharded_gradient_layer_state_memory "
    "sharded_layer_state_memory fp32_gradient_buffer_memory",
    by="derivation",
    source="every tensor of the model and of its adapters: bytes that stay, move and are updated",
)
def bytes_of_tensors() -> Pairs:
    """ranks of 4 and 64, all ZeRO stages, frozen weights in 16 bits, FP8 and NF4"""
    names = ["weights_memory", "gradients_memory", "optimizer_memory", "gradient_message"]
    names += ["weight_message", "optimizer_time", "layer_state_memory"]
    for rank, kind in ((4, "query_value"), (64, "all")):
        found = tensors(rank, kind)
        adapted = sum(size for what, size in found if what == "adapter")
        for frozen in (False, "fp8", "nf4"):
            kept = 0.0
            for what, size in found:
                four = size / 2 + size / 64 + 4 * size / 64 / 256  # codes, scales, scales of scales
                few = {False: 2 * size, "fp8": size, "nf4": four}[frozen]
                kept += few if what == "matrix" else 2 * size
            base = kept - 2 * adapted
            for stage in (0, 1, 2, 3):
                shards = 4 if stage else 1
                run = {**SMALL, "zero_stage": stage, "lora_rank": rank, "lora_matrices": kind}
                run |= {"frozen_weights": frozen, "compute_model": "roofline"}
                got = values(names, **run)
                link = {"offload": "cpu", "offload_bandwidth": 1.0, "host_memory_bandwidth": 1e30}
                moved = values(["optimizer_offload_time"], **run, **link)
                yield moved["optimizer_offload_time"], adapted / shards * (4 + 2)
                link |= {"host_memory_bandwidth": 1.0, "host_memory_efficiency": 0.5}
                moved = values(["host_update_time"], **run, **link)
                touched = adapted / shards * (2 * 12 + 4 + 2)  # states, gradients, weights
                yield moved["host_update_time"], min(SMALL["n_gpus"], 8) * touched / 0.5
                yield got["weights_memory"], kept / (4 if stage == 3 else 1)
                yield got["gradients_memory"], 2 * adapted / (4 if stage > 1 else 1)
                yield got["optimizer_memory"], 12 * adapted / shards
                yield got["gradient_message"], 2 * adapted
                yield got["weight_message"], 2 * adapted + (base if stage == 3 else 0)
                touched = adapted / shards * (5 * 2 + 2 * 12 + 2)  # gradients, states, weights
                yield got["optimizer_time"], touched / 3e12
                layer = sum(i * o for shapes in matrices(SMALL).values() for i, o in shapes)
                share = adapted / sum(size for what, size in found if what != "adapter")
                waiting = 2 * layer * share if stage > 1 else 0.0  # as if spread over all weights
                four = layer / 2 + layer / 64 + 4 * layer / 64 / 256
                few = {False: 2 * layer, "fp8": layer, "nf4": four}[frozen]
                gathered = few if stage == 3 else 0.0  # in the format that is kept
                yield got["layer_state_memory"], waiting + gathered


@check(
    "lora_matrix_passes layer_matrix_flops_per_token logits_flops_per_token "
    "recompute_flops_factor lora_layer_passes_time layer_passes_time logits_time",
    by="derivation",
    source="every product of a token with a matrix and its adapters: forward, gradients of "
    "inputs, and of those weights alone that are trained",
)
def products_with_adapters() -> Pairs:
    """ranks of 4 and 64, with and without recompute; times of a layer and of logits"""
    for rank, kind in ((4, "query_value"), (64, "all")):
        frozen = adapted = 0.0
        for name, shapes in matrices(SMALL).items():
            for inputs, outputs in shapes:
                frozen += 2 * inputs * outputs
                if name in ADAPTED[kind]:
                    adapted += 2 * rank * (inputs + outputs)
        logits = 2 * 512 * SMALL["vocab_size"]
        attention = 2 * 2 * 128 * 512 * 2  # half of the keys, both layers
        total = 2 * (2 * frozen + 3 * adapted) + 2 * logits + 3 * attention
        run = {**SMALL, "lora_rank": rank, "lora_matrices": kind}
        yield value("kernel_flops_per_token", **run), total
        once = {**run, "recompute": "full", "attention_kernel": "standard"}
        executed = total + 3 * attention + 2 * frozen + 2 * attention  # all keys; forward again
        got = values(["kernel_flops_per_token", "recompute_flops_factor"], **once)
        yield got["kernel_flops_per_token"] * got["recompute_flops_factor"], executed
        names = ["adapter_time", "layer_passes_time", "layer_matrix_time", "elementwise_time"]
        got = values(names, **run, compute_model="roofline")
        products = got["layer_matrix_time"] - got["elementwise_time"]
        beside = 3 * got["elementwise_time"] + 3 * got["adapter_time"]
        yield got["layer_passes_time"], 2 * products + beside
        names += ["gradient_sum_time"]
        trained = values(names[1:], **SMALL, compute_model="roofline")
        forward_twice_back = sum(trained["layer_matrix_time"] for _ in range(3))
        yield trained["layer_passes_time"], forward_twice_back + trained["gradient_sum_time"]
        unsummed = {**run, "compute_model": "roofline", "gradient_storage": False}
        frozen_layer = value("layer_time", **unsummed)  # no sums of what has no gradient
        yield value("layer_time", **unsummed | {"gradient_storage": "fp32"}), frozen_layer
        whole = value("logits_time", **SMALL, compute_model="roofline")
        less = whole - value("logits_time", **run, compute_model="roofline")
        yield 3 * less, whole - 256 * (4 * 512 * 2 + 12 * SMALL["vocab_size"]) / 3e12


@check(
    "adapter_time",
    by="derivation",
    source="inputs of each adapted matrix read, its outputs read and written; or all products",
    tolerance=0.1,
)
def time_of_adapters() -> Pairs:
    """Llama 3 8B and the small model with ranks of 4 to 4,096, at all and two matrices"""
    for shape in (SMALL, {**SMALL, **LLAMA_3}):
        for rank, kind in ((4, "query_value"), (16, "all"), (4096, "all")):
            some = [one for name in ADAPTED[kind] for one in matrices(shape)[name]]
            moved = 2 * sum(inputs + 2 * outputs for inputs, outputs in some) / 3e12
            done = 2 * rank * sum(inputs + outputs for inputs, outputs in some) / 1e15
            run = {**shape, "lora_rank": rank, "lora_matrices": kind, "compute_model": "roofline"}
            ours = value("adapter_time", **run, gemm_efficiency=1.0)
            yield ours, 256 * max(moved, done)


TORCHTUNE = [  # two sequences of 2,048 tokens, layers recomputed; GiB
    ("llama-3-8b", 1, 8, False, 16.2),
    ("llama-3-8b", 1, 8, "nf4", 7.4),
    ("llama-3-70b", 8, 16, False, 27.6),
]


@check(
    "lora_kept_weight_bytes quantised_frozen_weight_bytes sharded_weights_memory "
    "sharded_layer_state_memory",
    by="table",
    source="torchtune, README.md (peak memory of LoRA and QLoRA; logits in eight chunks); Hu et "
    "al. 2022, section 4.2 (350 GB for 175B)",
    tolerance=0.1,
)
def published_memory_of_lora() -> Pairs:
    """Llama 3.1 8B on one GPU, in 16 bits and NF4; 70B on eight; GPT-3"""
    for model, gpus, rank, frozen, theirs in TORCHTUNE:
        run = {"model": model, "n_gpus": gpus, "sequence_length": 2048, "micro_batch_size": 2}
        run |= {"global_batch_size": 2 * gpus, "recompute": "full", "zero_stage": 3 * (gpus > 1)}
        run |= {"lora_rank": rank, "frozen_weights": frozen, "reserved_memory": 0.0}
        got = values(["memory_per_gpu", "logits_memory"], **run)
        yield (got["memory_per_gpu"] - 7 / 8 * got["logits_memory"]) / 2**30, theirs
    few = {"lora_rank": 4, "lora_matrices": "query_value", "parameters": 175e9}
    yield 175 * value("state_bytes_per_parameter", **{**GPT_3, **few}), 350


@check(
    "active_lora_parameters",
    by="derivation",
    source="adapters of attention and of the experts that a token visits, counted one by one",
    tolerance=0.1,
)
def adapters_of_visited_experts() -> Pairs:
    """Llama 3 8B, Mixtral 8x7B and DeepSeek-V3, rank 16 at all matrices"""
    for model, (hidden, heads, groups, size, layers, dense, wide, narrow, visited) in {
        "llama-3-8b": (4096, 32, 8, 128, 32, 32, 14336, 0, 0),
        "mixtral-8x7b": (4096, 32, 8, 128, 32, 0, 0, 14336, 2),
        "deepseek-v3": (7168, 128, 128, 160, 61, 3, 18432, 2048, 9),
    }.items():
        both = 0
        for layer in range(layers):
            shapes = [(hidden, heads * size), (heads * size, hidden)]
            shapes += [(hidden, groups * size)] * 2
            blocks = [wide] if layer < dense else [narrow] * visited
            shapes += [(hidden, block) for block in blocks for _ in range(3)]
            both += sum(16 * inputs + 16 * outputs for inputs, outputs in shapes)
        yield value("active_lora_parameters", model=model, lora_rank=16), both
