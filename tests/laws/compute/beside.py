"""What a layer spends beside its products: every tensor cast, every sum of gradients."""

import itertools
from typing import Any

from ...evaluated import value, values
from ..check import Pairs, check
from .layers import DENSE, MIXED, Gpu

TOKENS = 512
NONE_SHARED = {**MIXED, "shared_experts": 0}
# Bytes of an element that each kernel of a cast reads, and writes along rows and along columns. A
# tensor's largest value is found by what wrote it, except in NVFP4: columns' is that of the rotated
CASTS: dict[str, list[tuple[float, float, float]]] = {
    "bf16": [],
    "fp8": [(2, 1, 1)],
    "fp8_blockwise": [(2, 1, 1)],
    "mxfp8": [(2, 33 / 32, 33 / 32)],
    "mxfp4": [(2, 1 / 2 + 1 / 32, 1 / 2 + 1 / 32)],
    "nvfp4": [(2, 0, 0), (2, 1 / 2 + 1 / 16, 1 / 2 + 1 / 16)],
}
LATENT: dict[str, Any] = {
    **MIXED, "head_size": 192, "value_head_size": 128, "query_latent_size": 1536,
    "kv_elements_per_layer": 576, "latent_attention": True,
}  # fmt: skip


def tensors(shape: dict[str, Any], number: int, t: int) -> list[float]:
    """Elements of each input and each result's gradient of the products of a layer, on one of t
    tensor ranks: residuals, latents and experts' tokens are split by tokens, the rest by width."""
    h, heads, split = 2048, 16 // t, TOKENS // t
    found: list[float] = [split * h, split * h]  # before attention; gradient of what it returns
    if "query_latent_size" in shape:
        found += [split * width for width in (1536, 512)] * 2 + [split * 64]  # and gradients
        found += [TOKENS * heads * 192, TOKENS * heads * (128 + 128)]  # gradients: q; k and v
    else:
        found += [TOKENS * width for width in (heads * 128, 8 // t * 128, 8 // t * 128)]
    found.append(TOKENS * heads * 128)  # output of attention
    if "experts" not in shape or number < 2:
        blocks = [(TOKENS, split, 6144 // t)]
    else:
        blocks = [(split, split, 1024)] * 3  # each visit to a whole expert
        blocks += [(TOKENS, split, 1024 // t)] * shape["shared_experts"]
    for inside, outside, width in blocks:
        found += [outside * h, inside * width, inside * 2 * width, outside * h]
    return found


@check(
    "grouped_attention_cast_width latent_attention_cast_width expert_routed_cast_width cast_width "
    "few_bit_cast_time two_copy_cast_bytes nvfp4_cast_bytes",
    by="simulator",
    source="each product casts its input forward and its result's gradient backward "
    "(TransformerEngine, pytorch/module/linear.py), tensor by tensor and kernel by kernel "
    "(pytorch/csrc/quantizer.cpp)",
)
def tensors_cast() -> Pairs:
    """dense, mixed and latent layers on 1 and 2 tensor ranks, six formats, layers in 16 bits"""
    for shape, t in itertools.product((DENSE, MIXED, NONE_SHARED, LATENT), (1, 2)):
        given = {**shape, "tensor_parallel": t, "n_gpus": t, "sequence_parallel": t > 1}
        given |= {"expert_tensor_parallel": 1} if "experts" in shape else {}
        given |= {"sequence_length": TOKENS, "hbm_bandwidth": 3.35e12}
        for precision, kernels in CASTS.items():
            shares = (0.0, 1 / 3, 1.0) if precision == "nvfp4" and shape is DENSE else (0.0,)
            for share in shares:
                gpu = Gpu()
                for number in range(round(6 * share), 6):
                    for elements, kernel in itertools.product(tensors(shape, number, t), kernels):
                        gpu.take("cast", elements * sum(kernel) / gpu.bandwidth)
                given["sixteen_bit_layers_share"] = share
                yield 6 * value("cast_time", **given, precision=precision), gpu.clock


# The kernels of both passes that cast a weight, and those that cast an activation or a gradient, in
# torchao's account: bytes read and written. A largest value that costs a kernel is left out
IN_TORCHAO: dict[str, tuple[dict[str, Any], list[tuple[float, float]], list[tuple[float, float]]]]
IN_TORCHAO = {
    "tensor": ({"precision": "fp8"}, [(2, 1), (2, 1)], [(2, 1 + 1)]),
    "tensor, gathered": ({"precision": "fp8"}, [(1, 1)], [(2, 1 + 1)]),  # W of the second product
    "row": (
        {"precision": "fp8", "fp8_scaling": "row"},
        [(2, 1), (2, 2), (2, 1)],
        [(0, 1 + 2), (2, 1)],
    ),
    "blocks of 32": ({"precision": "mxfp8"}, [(2, 33 / 32)] * 2, [(2, 2 * 33 / 32)]),
}


@check(
    "whole_gathered_weight_cast_bytes dense_layer_matrix_parameters expert_layer_matrix_parameters "
    "row_scaled_cast_bytes few_bit_cast_time",
    by="simulator",
    source="each gathered weight is cast for the two products that read it, tensor by tensor and "
    "kernel by kernel (torchao, testing/training/roofline_utils.py)",
)
def gathered_weights_cast() -> Pairs:
    """dense and mixed layers, scales of tensors, rows and blocks, one and two copies, gathers"""
    for shape, t, e in itertools.product((DENSE, MIXED, NONE_SHARED), (1, 2), (1, 2)):
        given = {**shape, "tensor_parallel": t, "n_gpus": 2 * t * e, "sequence_parallel": t > 1}
        if "experts" in shape:
            given |= {"expert_tensor_parallel": 1, "expert_parallel": e}
        given |= {"sequence_length": TOKENS, "hbm_bandwidth": 3.35e12, "zero_stage": 3}
        given["memory_efficiency"] = 1.0
        weights = sum(sum(matrices(shape, number, t, e)) for number in range(6)) / 6
        for name, (stated, of_weights, of_tensors) in IN_TORCHAO.items():
            stated = {**given, **stated, "quantised_parameters": name == "tensor, gathered"}
            moved = sum(weights * (read + written) for read, written in of_weights)
            without = value("cast_time", **{**stated, "zero_stage": 1})
            yield value("cast_time", **stated) - without, moved / 3.35e12
            if "experts" not in shape:
                inside = sum(tensors(shape, 0, t)) * sum(map(sum, of_tensors))
                yield without, inside / 3.35e12
        one = {**given, "precision": "fp8", "fp8_weight_bytes": 1}
        one_again = {**one, "quantised_parameters": False}
        both = [value("weight_cast_bytes", **stated) for stated in (one, one_again)]
        yield both, [0, 2 * (2 + 1) * weights]
        for frozen in ("fp8", "nf4"):
            lora = {**given, "precision": "fp8", "lora_rank": 16, "lora": True}
            yield value("weight_cast_bytes", **lora, frozen_weights=frozen), 0


def matrices(shape: dict[str, Any], number: int, t: int, e: int) -> list[float]:
    """Elements of each weight of a layer that one of t tensor ranks computes with, its router among
    them; experts are whole, on e ranks."""
    h = 2048
    found = [h * 16 * 128 / t, 2 * h * 8 * 128 / t, 16 * 128 * h / t]  # queries, both of keys, out
    if "experts" not in shape or number < 2:
        return [*found, h * 2 * 6144 / t, 6144 * h / t]
    experts = [3 * h * 1024] * (shape["experts"] // e)
    return [*found, h * 16 / t, *experts, shape["shared_experts"] * 3 * h * 1024 / t]


@check(
    "expert_unrouted_ffn_width",
    by="derivation",
    source="TransformerEngine, pytorch/ops/fused/forward_grouped_mlp.py, backward_grouped_mlp.py: "
    "tensors between two grouped products, whose kernels write them in FP8",
)
def tensors_between_fused_products() -> Pairs:
    """mixed layers with and without shared experts, casts and activation functions"""
    for shape in (MIXED, NONE_SHARED):
        given = {**shape, "n_gpus": 1, "sequence_length": TOKENS, "hbm_bandwidth": 3.35e12}
        given |= {"precision": "mxfp8", "memory_efficiency": 1.0}
        kinds = ("separate", "fused")
        names = ("cast_time", "elementwise_time")
        alone, fused = (values(names, **given, grouped_products=kind) for kind in kinds)
        between = TOKENS * 3 * 3 * 1024 * 4 / 6  # of four in six layers, mean
        moved = {"cast_time": 2 + 2 * 33 / 32, "elementwise_time": 2}
        for name in names:
            yield alone[name] - fused[name], between * moved[name] / 3.35e12


@check(
    "latent_rotary_width mixed_state_cast_width",
    by="derivation",
    source="Megatron-LM, multi_latent_attention.py: queries and keys of all heads, put together; "
    "inputs and gradients of both projections of a state",
)
def widths() -> Pairs:
    """16 heads of 192 on 1 and 2 ranks; Nemotron-H 8B"""
    for t in (1, 2):
        yield value("rotary_width", **LATENT, tensor_parallel=t), 16 / t * (192 + 192)
    inner, keys, heads = 128 * 64, 8 * 128, 128  # published: 24 of 52 layers
    projected = 2 * inner + 2 * keys + heads  # gate, inputs, B and C, step sizes
    yield value("state_cast_width", model="nemotron-h-8b"), (projected + inner) * 24 / 52


@check(
    "dense_gradient_sum_time expert_gradient_sum_time routed_gradient_sum_time "
    "separate_expert_start_time",
    by="simulator",
    source="sums of each group of matrices read and written, against its products, each the longer "
    "of operations and bytes",
)
def gradients_added() -> Pairs:
    """dense and mixed layers of few and many tokens, three formats of sums, experts over 1 and 4"""
    stored = {False: 0, "bf16": 2, "fp32": 4}
    flops, memory, start = 0.8 * 989e12, 0.8 * 3.35e12, 1e-5

    def passes(rows: float, columns: int, depth: int) -> float:
        """The mean of a product and those of its two gradients."""
        area = rows * depth + depth * columns + rows * columns  # two operands and the result
        return max(2 * rows * columns * depth / flops, 2 * area / memory)

    for shape, tokens, e in itertools.product((DENSE, MIXED), (64, 512, 8192), (1, 4)):
        given = {**shape, "n_gpus": 4, "sequence_length": tokens, "peak_flops": 989e12}
        given |= {"hbm_bandwidth": 3.35e12, "gemm_half_depth": 0, "expert_launch_time": start}
        given |= {"expert_parallel": e} if shape is MIXED else {}
        for storage, size in stored.items():
            adding, working, late = 0.0, 0.0, 0.0
            for number in range(6):
                mixed = shape is MIXED and number >= 2
                width = 1024 if mixed else 6144
                blocks = [(tokens, (16 + 2 * 8) * 128, 2048), (tokens, 2048, 16 * 128)]
                blocks += [(tokens, 2 * width, 2048), (tokens, 2048, width)]
                working += sum(passes(*one) for one in blocks)
                adding += sum(columns * depth for _, columns, depth in blocks)
                adding += 2048 * 16 if mixed else 0  # the router's
                if mixed:
                    rows = tokens * e * 3 / 16
                    each = passes(rows, 2 * 1024, 2048) + passes(rows, 2048, 1024)
                    routed = 16 // e * (each + 2 * start)
                    sums = 16 // e * 3 * 2048 * 1024 * 2 * size / memory
                    late += max(sums - routed, 0.0)
            late += max(adding * 2 * size / memory - working, 0.0)
            yield 6 * value("gradient_sum_time", **given, gradient_storage=storage), late


@check(
    "held_processor_contention_time",
    by="simulator",
    source="a GPU whose processors work on traffic while there is any, in small steps of time",
    tolerance=1e-3,
)
def processors_held() -> Pairs:
    """0 to 0.9 s hidden behind 1 s of compute and 0 or 0.1 s after it, none to half held"""
    shares, late = (0.0, 0.15, 0.5), (0.0, 0.1)
    for hidden, share, waits in itertools.product((0.0, 0.3, 0.9), shares, late):
        work, sent, clock = 1.0, 0.0, 0.0
        while work > 0:
            busy = sent < hidden
            work -= 1e-4 * (1 - share if busy else 1)
            sent += 1e-4 * busy
            clock += 1e-4
        times = dict.fromkeys(("tensor", "context", "expert", "data"), 0.0)
        given: dict[str, Any] = {f"{kind}_parallel_time": t for kind, t in times.items()}
        given |= {"data_parallel_time": hidden + 0.2 + waits, "exposed_data_parallel_time": 0.2}
        given |= {
            "contention_time": waits,
            "exposed_layer_communication_time": 0.0,
            "communication_processor_share": share,
        }
        ours = values(["processor_contention_time"], compute_model="roofline", **given)
        yield 1 + ours["processor_contention_time"], clock
