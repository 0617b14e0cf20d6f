"""Memory of a GPU: tensors placed rank by rank, and published tables."""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from fleetcube.calibration.measurements import read_records
from fleetcube.calibration.validate import validate
from fleetcube.kernels.physics.inputs import INPUTS

from ... import formulas
from ...evaluated import value
from ..check import Pairs, check


@check(
    "one_site_memory_per_gpu staged_activation_memory even_activation_memory "
    "full_activation_memory_per_layer",
    by="table",
    source="Korthikanti et al. 2022, arXiv:2205.05198, figures 1 and 7; SimuMax's B200 table "
    "(Megatron-LM, most allocated on any rank)",
    tolerance=0.025,
)
def published_memories() -> Pairs:
    """61 published memories: 22B to 1T, Llama-3, DeepSeek-V2 and V3, 4k to 128k tokens"""
    asked = ("memory_per_gpu", "activation_memory", "activation_memory_per_layer")
    others = ("megatron_llama2", "torchtitan")
    known = [row for row in read_records()[0] if row.of in asked and row.group not in others]
    for row in validate(known).rows:
        yield row.predicted, row.measured


@check(
    "one_site_memory_per_gpu",
    by="table",
    source="messages of PyTorch when memory ran out: Megatron-LM issue 525, DeepSpeed issue 3312, "
    "LLaMA-Factory issue 7532, compressed-tensors pull request 587",
    tolerance=0.03,
)
def memory_in_use_at_failures() -> Pairs:
    """four jobs on V100, A100 and H100: what they had allocated, and all that was in use"""
    reserved = INPUTS["reserved_memory"].default
    for in_use, allocated in (
        (31.74 - 577.12 / 1024, 28.82),
        (31.75 - 137.69 / 1024, 28.05),
        (76.92, 73.28),
        (78.09, 75.31),
    ):
        ours = formulas.one_site_memory_per_gpu(allocated * 2**30, 0, 0, 0, 0, reserved)
        yield ours, in_use * 2**30


@check(
    "replicated_weights_memory sharded_weights_memory replicated_gradients_memory "
    "sharded_gradients_memory optimizer_parameters_zero_stage_1 optimizer_memory "
    "even_sharded_parameters even_held_parameters",
    by="table",
    source="Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, table 1: 7.5B, 128B and 1T, GB of "
    "states on 1 to 1024 ranks",
    tolerance=5e-3,
)
def zero_states() -> Pairs:
    """table 1: three models, stages 1 to 3, groups of 1, 4, 16, 64, 256 and 1024"""
    table = {  # parameters: ranks: stages 1, 2, 3
        7.5e9: {
            1: (120, 120, 120),
            4: (52.5, 41.3, 30),
            16: (35.6, 21.6, 7.5),
            64: (31.4, 16.6, 1.88),
        },
        128e9: {
            1: (2048, 2048, 2048),
            16: (608, 368, 128),
            256: (518, 263, 8),
            1024: (513, 257, 2),
        },
        1e12: {4: (7000, 5500, 4000), 64: (4187, 2218, 250), 1024: (4011, 2013, 15.6)},
    }
    for parameters, rows in table.items():
        for ranks, printed in rows.items():
            share = formulas.even_sharded_parameters(parameters, 1, 1, ranks, 1)
            held = formulas.even_held_parameters(parameters, 1)
            states = formulas.optimizer_memory(
                formulas.optimizer_parameters_zero_stage_1(share), 12
            )
            whole = formulas.replicated_weights_memory(held, 2)
            grads = formulas.replicated_gradients_memory(held, 2)
            parted = formulas.sharded_gradients_memory(share, 2)
            stages = (
                whole + grads,
                whole + parted,
                formulas.sharded_weights_memory(share, 2) + parted,
            )
            for state, theirs in zip(stages, printed, strict=True):
                yield (state + states) / 1e9, theirs


def cast(rows: int, columns: int, form: str) -> dict[str, int]:
    """Bytes of a tensor quantised for a product, by the side along which a scale is shared."""
    n = rows * columns
    if form in ("bf16", "fp8"):
        return dict.fromkeys(("rows", "columns"), 2 * n if form == "bf16" else n)
    data = n if form == "mxfp8" else n // 2
    block = 32 if form.startswith("mx") else 16
    return {
        "rows": data + rows * (columns // block),
        "columns": data + columns * (rows // block),
    }


def _saved(
    shape: tuple[int, int, int, int, int], tokens: int, ranks: int, apart: bool, form: str
) -> Iterator[tuple[str, int]]:
    """What Transformer Engine's modules save of a layer of RMSNorm and SwiGLU, each tensor once."""
    hidden, heads, groups, size, ffn = shape
    here = tokens // ranks if apart else tokens
    for fused in ("queries, keys and values", "gate and up"):  # LayerNormLinear
        yield f"{fused}: input of the norm", 2 * here * hidden
        sides = cast(here, hidden, form)
        kept = ["columns"]  # what the gradient of weights sums over
        if apart and form == "nvfp4":  # with rows, as neither is dropped before a gather
            kept = ["rows", "columns"]
        if apart and form == "fp8":  # rows alone can be gathered
            kept = ["rows"]
        for side in kept:
            yield f"{fused}: output of the norm, {side}", sides[side]
    for name, count in (("query", heads), ("key", groups), ("value", groups), ("output", heads)):
        yield f"attention: {name}", 2 * tokens * count // ranks * size  # the projection's, too
    yield "activation: gate and up", 2 * tokens * 2 * ffn // ranks
    yield "down: input", cast(tokens, ffn // ranks, form)["columns"]


@check(
    "mixer_activations_per_token ffn_activations_per_token nvfp4_norm_output_bytes",
    by="derivation",
    source="tensors saved by TransformerEngine's modules, transformer_engine/pytorch/module/"
    "layernorm_linear.py and linear.py, with the projection's input kept in 16 bits "
    "(Megatron-LM, megatron/core/transformer/attention.py)",
)
def tensors_saved_by_modules() -> Pairs:
    """Llama 3 8B, 70B and 405B, 1 to 8 tensor ranks, BF16, FP8, MXFP8 and NVFP4, in parts or not"""
    shapes = ((4096, 32, 8, 128, 14336), (8192, 64, 8, 128, 28672), (16384, 128, 8, 128, 53248))
    for shape, ranks, apart, form in itertools.product(
        shapes, (1, 2, 8), (False, True), ("bf16", "fp8", "mxfp8", "mxfp4", "nvfp4")
    ):
        hidden, heads, groups, size, ffn = shape
        point = {"hidden_size": hidden, "attention_heads": heads, "kv_heads": groups, "layers": 4}
        point |= {"ffn_hidden_size": ffn, "gated_ffn": True, "tensor_parallel": ranks, "n_gpus": 8}
        point |= {"sequence_parallel": apart, "precision": form, "sequence_length": 8192}
        point |= {"sixteen_bit_layers_share": 0.25, "global_batch_size": 8, "recompute": False}
        forms = ["bf16" if form == "nvfp4" else form] + [form] * 3  # of four layers
        theirs = [
            sum(bytes_ for _, bytes_ in _saved(shape, 8192, ranks, apart and ranks > 1, one))
            for one in forms
        ]
        ours = value("activation_memory_per_layer", head_size=size, **point)
        yield ours, sum(theirs) / 4


@check(
    "ffn_activations_per_token expert_ffn_input_width expert_router_input_bytes",
    by="derivation",
    source="the same with the 16-bit output of the norm that the router saves, and each expert's "
    "copies of tokens: Megatron-LM, megatron/core/transformer/moe/router.py and experts.py",
)
def tensors_saved_by_experts() -> Pairs:
    """Qwen3-235B: 1 to 8 tensor ranks, experts on as many GPUs or on one, four formats"""
    hidden, heads, groups, size, ffn, visits, tokens = 4096, 64, 4, 128, 1536, 8, 8192
    for ranks, form in itertools.product((1, 2, 4), ("bf16", "fp8", "mxfp8", "nvfp4")):
        for gpus in {1, ranks}:
            apart, shape = ranks > 1, (hidden, heads, groups, size, ranks)
            point = {"hidden_size": hidden, "attention_heads": heads, "kv_heads": groups}
            point |= {"head_size": size, "expert_ffn_hidden_size": ffn, "gated_ffn": True}
            point |= {"experts": 128, "experts_per_token": visits, "layers": 4, "n_gpus": 8}
            point |= {"tensor_parallel": ranks, "expert_tensor_parallel": gpus}
            point |= {"sequence_parallel": apart, "precision": form, "sequence_length": tokens}
            point |= {"sixteen_bit_layers_share": 0.0, "global_batch_size": 8, "recompute": False}
            kept = 2 * tokens // ranks * hidden  # the router's
            for name, bytes_ in _saved(shape, tokens, ranks, apart, form):
                if not name.startswith(("gate and up: output", "activation", "down")):
                    kept += bytes_
            copies = tokens // ranks * visits * gpus  # from all GPUs of an expert
            kept += cast(copies, hidden, form)["columns"]
            kept += 2 * copies * 2 * (ffn // gpus) + cast(copies, ffn // gpus, form)["columns"]
            yield value("activation_memory_per_layer", **point), kept


@check(
    "grouped_attention_inputs_per_token attention_output_per_token",
    by="simulator",
    source="heads of keys and values placed where the query heads of each tensor rank read them",
)
def copied_keys_and_values() -> Pairs:
    """1 to 64 ranks, 1 to 8 heads of keys and values under 64 query heads"""
    for ranks, heads in itertools.product((1, 4, 8, 16, 64), (1, 2, 8)):
        mine, group = 64 // ranks, 64 // heads
        held = len({query // group for query in range(mine)})
        ours = formulas.grouped_attention_inputs_per_token(2, 128, 64, heads, ranks, 1, 1)
        ours += formulas.attention_output_per_token(2, 128, 64, ranks, 1, 1)
        yield ours, 2 * 128 * (2 * mine + 2 * held)


@check(
    "near_memory_limit memory_margin memory_per_gpu_low memory_per_gpu_high capacity_reason "
    "possible_memory_limit sure_memory_limit",
    by="derivation",
    source="the ratio of what is needed to what is there, against the factor and its inverse",
)
def sides_of_the_limit() -> Pairs:
    """needs of 0.5 to 2 capacities, factors of 1 to 1.1"""
    for need, factor in itertools.product(
        (0.5, 0.95, 0.99, 1.0, 1.01, 1.05, 2.0), (1.0, 1.02, 1.1)
    ):
        yield formulas.memory_margin(need * 80e9, 80e9), (80 - need * 80) / 80
        refused, safe = need > factor, need * factor <= 1
        # half the interval, in logarithms, is the factor
        for end, sign in ((formulas.memory_per_gpu_low, -1), (formulas.memory_per_gpu_high, 1)):
            yield end(need, factor), math.exp(math.log(need) + sign * math.log(factor))
        yield formulas.near_memory_limit(need * 80e9, factor, 80e9), float(not refused and not safe)
        for limit, wrong in (
            (formulas.possible_memory_limit(80e9, factor), refused),
            (formulas.sure_memory_limit(80e9, factor), not safe),
        ):
            yield formulas.capacity_reason(0.0, need * 80e9, limit), 10.0 * wrong


@check(
    "working_memory sharded_layer_state_memory dense_layer_parameters ffn_gradients_memory "
    "layer_activation_memory_recompute_false",
    by="derivation",
    source="the tensors alive in the backward pass of a gated block, listed one by one",
)
def tensors_at_work() -> Pairs:
    """Llama-3-70B's layer on 1 and 8 ranks, ZeRO-3"""
    for ranks in (1, 8):
        attention, ffn = 2 * 8192 * 128 * (64 + 8), 3 * 8192 * 28672
        held = formulas.dense_layer_parameters(attention, ffn, ranks)
        states = formulas.sharded_layer_state_memory(2 * held, held, 2)
        gathered = sum(2 * 2 * count / ranks for count in (attention, ffn))
        yield states, gathered
        grads = formulas.ffn_gradients_memory(4096, 8192, ranks, 3, 28672, ranks, 2, 4, 4, 0)
        alive = sum(4096 * 2 * width / ranks for width in (8192, 28672, 28672, 28672))
        yield grads, alive
        kept = formulas.layer_activation_memory_recompute_false(grads)
        yield formulas.working_memory(states, kept), gathered + alive


@check(
    "plain_microbatch_logits",
    by="derivation",
    source="arrays of a loss on 16-bit logits, one by one: PyTorch, LossNLL.cpp and SoftMax.cpp "
    "(log-probabilities, their gradient, that of the FP32 logits) and tensor/parallel/loss.py "
    "(log-probabilities, targets, both added, their product with the loss's gradient); Korthikanti "
    "et al. 2022, section 4.3 (FP32 alone)",
)
def arrays_of_a_loss() -> Pairs:
    """1,024 tokens of 32,000 words on 1 and 4 ranks: one FP32 buffer, PyTorch, its loss_parallel"""
    for ranks in (1, 4):
        shape = (1024, 32000 // ranks)
        half, single = (np.zeros(shape, form).nbytes for form in (np.float16, np.float32))
        for logit_bytes, kept in (
            (4, [single]),
            (2, [half]),  # the gradient in place of the logits
            (12, [single, single, single]),
            (16, [single, single, single, single]),
        ):
            yield formulas.plain_microbatch_logits(logit_bytes, 1024, 32000, ranks), sum(kept)
