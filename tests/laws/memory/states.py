"""States of training: what frameworks allocate for each tensor of a model, as arrays added up."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from fleetcube.laws import layer

from ... import formulas
from ...evaluated import computed
from ..check import Pairs, check

SHAPE = {"layers": 2, "hidden_size": 1024, "attention_heads": 8, "kv_heads": 2}
SHAPE |= {"ffn_hidden_size": 2048, "gated_ffn": True, "vocab_size": 4096}
NUMBER = {"fp32": np.float32, "bf16": np.uint16, "byte": np.uint8}


def tensors() -> Iterator[tuple[tuple[int, ...], bool]]:
    """Shapes of a small model's parameters, and whether they are matrices of a layer."""
    for _ in range(2):
        for rows in (1024, 256, 256, 1024):  # queries, keys, values, output; heads of 128
            yield (rows, 1024), True
        yield from (((2048, 1024), True), ((2048, 1024), True), ((1024, 2048), True))
        yield from (((1024,), False), ((1024,), False))
    yield from (((4096, 1024), False), ((4096, 1024), False), ((1024,), False))


def array(shape: tuple[int, ...], kind: str) -> int:
    return np.empty(shape, NUMBER[kind]).nbytes


def casts(shape: tuple[int, ...], form: str) -> int:
    """What Transformer Engine keeps of a weight in few bits: rows, columns, a scale for each."""
    rows, columns = shape
    if form == "blackwell":  # FP8 without a transpose
        return array(shape, "byte")
    if form == "fp8":  # and its transpose
        return array(shape, "byte") + array((columns, rows), "byte")
    data = (rows, columns if form == "mxfp8" else columns // 2)
    block = 32 if form.startswith("mx") else 16
    scales = array((rows, columns // block), "byte") + array((columns, rows // block), "byte")
    return 2 * array(data, "byte") + scales


def weights(form: str, few: bool) -> int:
    """Weights and their copies: in few bits alone, or in BF16 with the copies of each module."""
    held = 0
    for shape, matrix in tensors():
        if matrix and form not in ("bf16", "fp32"):
            held += casts(shape, form) + (0 if few else array(shape, "bf16"))
        else:
            held += array(shape, "fp32" if form == "fp32" else "bf16")
    return held


def updates(optimizer: str, master: str, moment: str) -> int:
    """The optimizer's own copy of each parameter, and its moments."""
    held = 0
    for shape, matrix in tensors():
        held += array(shape, master) if master else 0
        moments = 1 if optimizer == "muon" and matrix else 2
        blocks = (int(np.prod(shape)) // 256,)  # bitsandbytes: a scale in FP32 for each block
        held += moments * (array(shape, moment) + (array(blocks, "fp32") * (moment == "byte")))
    return held


@check(
    "adam_optimizer_bytes_per_parameter muon_optimizer_bytes_per_parameter "
    "trained_weight_bytes_zero_stage_0 whole_weight_bytes quantised_primary_weight_bytes "
    "quantised_cached_weight_bytes quantised_weight_bytes_precision_fp8 layer_matrix_share "
    "gradient_storage_bytes_gradient_storage_fp32 copied_gradient_optimizer_state_bytes "
    "state_bytes_per_parameter",
    by="simulator",
    source="arrays that Megatron-LM (param_and_grad_buffer.py, distrib_optimizer.py), Transformer "
    "Engine (module/base.py, quantize_weight) and bitsandbytes allocate, one by one",
)
def states_allocated() -> Pairs:
    """1, 2 and 8 ranks; weights in 32, 16, 8 and 4 bits; five recipes of optimizers"""
    recipes: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        ("adam", "fp32", "fp32", {}),
        ("adam", "bf16", "fp32", {"master_weight_bytes": 2}),  # store_param_remainders
        ("adam", "fp32", "bf16", {"moment_bytes": 2}),  # exp_avg_dtype
        ("adam", "fp32", "byte", {"moment_bytes": 1 + 4 / 256}),
        ("muon", "fp32", "fp32", {"optimizer": "muon"}),
        ("adam", "", "fp32", {"master_weight_bytes": 0}),  # weights are in FP32
    )
    for ranks, form, (optimizer, master, moment, given), few, storage in itertools.product(
        (1, 2, 8), ("bf16", "fp32", "fp8", "blackwell", "mxfp8", "mxfp4", "nvfp4"), recipes,
        (True, False),
        ("bf16", "fp32", "bf16_and_fp32"),
    ):  # fmt: skip
        if (form == "fp32") != (not master):
            continue
        point = {**SHAPE, **given, "n_gpus": ranks, "global_batch_size": 8, "zero_stage": 1}
        point |= {"gradient_storage": storage, "quantised_parameters": few}
        known: dict[str, dict[str, Any]] = {"fp32": {"bytes_per_element": 4}}
        known["blackwell"] = {"gpu": "gb200", "precision": "fp8"}
        point |= known.get(form, {"precision": form})
        names = ("weights_memory", "gradients_memory", "optimizer_memory", "parameters")
        kept, gradients, states, count = computed(point, *names)
        grads = sum(array(shape, storage[:4]) for shape, _ in tensors())
        own = updates(optimizer, master, moment)
        if storage == "bf16_and_fp32":
            own += sum(array(shape, "fp32") for shape, _ in tensors())
        yield kept, weights(form, few)
        yield gradients, grads
        yield states, own / ranks
        each = computed(point, "state_bytes_per_parameter")[0]
        yield each * count, weights(form, few) + grads + own
        sharded = computed(point | {"zero_stage": 3}, "weights_memory")[0]  # nothing is cast yet
        yield (
            sharded,
            (weights(form, True) if few else weights("bf16", True)) / ranks
            if (form != "fp32")
            else weights("fp32", True) / ranks,
        )


@check(
    "nvfp4_copied_weight_bytes quantised_cached_weight_bytes nvfp4_operand_bytes_per_element",
    by="derivation",
    source="a model whose layers are all kept in 16 bits is that in BF16; copies are of the others",
)
def layers_in_16_bits() -> Pairs:
    """weights of 1 and 8 ranks, ZeRO-0 to 3, with and without weights in 16 bits beside them"""
    for ranks, stage, few in itertools.product((1, 8), (0, 1, 2, 3), (True, False)):
        point = {**SHAPE, "n_gpus": ranks, "global_batch_size": 8, "zero_stage": stage}
        point |= {"quantised_parameters": few}
        four = {**point, "precision": "nvfp4"}
        names = ("weights_memory", "gradients_memory", "optimizer_memory")
        all_wide = computed({**four, "sixteen_bit_layers_share": 1}, *names)
        yield from zip(all_wide, computed({**point, "precision": "bf16"}, *names), strict=True)
        none, half, whole = (
            computed({**four, "sixteen_bit_layers_share": share}, "weights_memory")[0]
            for share in (0, 0.5, 1)
        )
        yield half, (none + whole) / 2  # each layer keeps what it keeps alone


def newton_schulz(update: Any) -> float:
    """Operations of the products by which Muon's polynomial makes a matrix nearly orthogonal."""
    counted = 0.0

    def product(a: Any, b: Any) -> Any:
        nonlocal counted
        counted += 2 * a.shape[0] * a.shape[1] * b.shape[1]
        return a @ b

    x = update / np.linalg.norm(update)
    x = x.T if update.shape[0] > update.shape[1] else x
    for _ in range(5):
        a = product(x, x.T)
        x = 3.4445 * x + product(-4.7750 * a + 2.0315 * product(a, a), x)
    assert np.linalg.svd(x, compute_uv=False).max() < 1.5  # of 1 where the start was not near 0
    return counted


@check(
    "newton_schulz_flops attention_orthogonalisation_flops dense_ffn_orthogonalisation_flops "
    "expert_ffn_orthogonalisation_flops muon_orthogonalisation_time",
    by="simulator",
    source="products of Newton-Schulz on each matrix of a small model, done and counted: Jordan et "
    "al. 2024, newtonschulz5",
)
def orthogonal_updates() -> Pairs:
    """a dense model and one of three experts and a shared one, on 1 and 4 ranks, ZeRO-0 and 1"""
    draws = np.random.default_rng(0)
    small = {"layers": 2, "hidden_size": 32, "attention_heads": 4, "kv_heads": 2, "head_size": 8}
    small |= {"ffn_hidden_size": 48, "gated_ffn": True, "vocab_size": 64, "optimizer": "muon"}
    small |= {"compute_model": "roofline", "gpu": "h100-sxm", "global_batch_size": 8}
    mixture = {"experts": 3, "shared_experts": 1, "dense_layers": 1, "expert_ffn_hidden_size": 16}
    attention = [(32, 32), (32, 16), (32, 16), (32, 32)] * 2
    for more, blocks in (
        ({}, [(32, 48)] * 6),
        (mixture | {"experts_per_token": 1}, [(32, 48)] * 3 + [(32, 16)] * 12),
    ):
        done = sum(newton_schulz(draws.normal(size=shape)) for shape in [*attention, *blocks])
        for ranks, stage in ((1, 0), (4, 0), (4, 1)):
            run = {**small, **more, "n_gpus": ranks, "zero_stage": stage}
            time, all_ = computed(run, "orthogonalisation_time", "optimizer_time")
            rate = 989e12 * 0.8
            yield time, done / (ranks if stage else 1) / rate
            plain = computed(run | {"orthogonalisation_time": 0}, "optimizer_time")[0]
            yield all_ - plain, time


@check(
    "newton_schulz_flops",
    by="table",
    source="Jordan et al. 2024, section on runtime: 0.7 % of a step of NanoGPT (width 768, 524288 "
    "tokens), 0.5 % of Llama 405B (width 16384, 16 million tokens)",
    tolerance=0.1,
)
def printed_overhead() -> Pairs:
    """square matrices, over six operations a weight and token"""
    for width, tokens, share in ((768, 524288, 0.007), (16384, 16e6, 0.005)):
        yield layer.newton_schulz_flops(width, width) / (6 * width * width * tokens), share


@check(
    "adam_optimizer_bytes_per_parameter trained_weight_bytes_zero_stage_0 whole_weight_bytes "
    "state_bytes_per_parameter copied_gradient_optimizer_state_bytes",
    by="table",
    source="Megatron-LM, docs of the distributed optimizer (20, 18, 16; 4 + 16 / d, 6 + 12 / d, "
    "8 + 8 / d); DeepSeek-AI 2024, section 3.3.3; Dettmers et al. 2022, section 1 (a model of 1B: "
    "8 GB of Adam's moments in 32 bits, 2 GB in 8)",
)
def printed_states() -> Pairs:
    """three rows of Megatron-LM, d 1 to 64; moments of two reports"""
    single: dict[str, Any] = {"bytes_per_element": 4, "master_weight_bytes": 0}
    for given, storage, whole, split in (
        ({}, "bf16_and_fp32", 20, (4, 16)),
        ({}, "fp32", 18, (6, 12)),
        (single, "fp32", 16, (8, 8)),
    ):
        for ranks in (1, 4, 64):
            point = {**SHAPE, **given, "n_gpus": ranks, "global_batch_size": 64}
            point |= {"gradient_storage": storage}
            states = ("weights_memory", "gradients_memory", "optimizer_memory")
            for stage, printed in ((0, whole), (1, split[0] + split[1] / ranks)):
                count, *memory = computed(point | {"zero_stage": stage}, "parameters", *states)
                yield sum(memory) / count, printed
            yield computed(point, "state_bytes_per_parameter")[0], whole
    adam = formulas.adam_optimizer_bytes_per_parameter
    yield adam(4, 2), 4 + 2 + 2  # DeepSeek-V3: BF16 moments beside an FP32 copy
    for moment, printed in ((4, 8), (1, 2)):
        yield adam(0, moment) * 1e9, printed * 1e9


@check(
    "optimizer_bytes_per_parameter_optimizer_adafactor",
    by="derivation",
    source="sums of rows and columns of each matrix in FP32 (Shazeer & Stern 2018, algorithm 4)",
    tolerance=2e-3,
)
def factored_moments() -> Pairs:
    """matrices of a small model, of 256 to 4096 rows"""
    held = sum(array(shape, "fp32") for shape, _ in tensors())
    factors = sum(array((sum(shape),), "fp32") for shape, _ in tensors())
    point = {**SHAPE, "optimizer": "adafactor", "n_gpus": 1, "global_batch_size": 1}
    yield computed(point, "optimizer_memory")[0], held + factors
