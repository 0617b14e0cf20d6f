"""States of training: what frameworks allocate for each tensor of a model, as arrays added up."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

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
    data, block = ((rows, columns), 32) if form == "mxfp8" else ((rows, columns // 2), 16)
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
        (1, 2, 8), ("bf16", "fp32", "fp8", "blackwell", "mxfp8", "nvfp4"), recipes, (True, False),
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
