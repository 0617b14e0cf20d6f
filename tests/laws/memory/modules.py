"""Layers built tensor by tensor, run forward and back with modules that run again."""

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ... import formulas
from ...evaluated import values
from ..check import Pairs, check
from .memory import cast

H, HEADS, KV, D = 1024, 16, 4, 64
RQ, RKV, ROTARY, DV = 384, 128, 32, 48  # latent attention: keys of 80, values of 48
FFN, EXPERT, EXPERTS, VISITS, SHARED, TOKENS = 4096, 512, 16, 4, 2, 512
ALL = ("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")


@dataclass
class Run:
    """A layer's forward pass: what autograd keeps, and what a checkpointed module does again."""

    again: frozenset[str]
    kept: dict[str, float] = field(default_factory=dict)
    weights: float = 0.0  # elements of products done again, per token
    moved: float = 0.0  # bytes read and written again around products
    scores: int = 0
    reduced: int = 0  # exchanges of tensor ranks done again
    sent: int = 0  # all-to-alls
    inside: bool = False  # a module that runs again

    def keep(self, name: str, size: float) -> None:
        if not self.inside:
            self.kept[name] = size  # a tensor that two modules keep is kept once

    def product(self, weights: float) -> None:
        self.weights += weights * self.inside

    def passed(self, *sizes: float) -> None:
        self.moved += sum(sizes) * self.inside

    def module(self, name: str, *inputs: tuple[str, float]) -> "Module":
        return Module(self, name in self.again, inputs)


@dataclass
class Module:
    run: Run
    again: bool
    inputs: tuple[tuple[str, float], ...]

    def __enter__(self) -> None:
        self.before = self.run.inside
        if self.again and not self.before:
            for name, size in self.inputs:
                self.run.keep(name, size)
        self.run.inside = self.before or self.again

    def __exit__(self, *_: object) -> None:
        self.run.inside = self.before


def side(rows: int, columns: int, form: str, apart: bool = False) -> float:
    """A product's input as its gradient of weights needs it; gathered ones keep rows, too."""
    sizes = cast(rows, columns, form)
    both = apart and form == "nvfp4"
    return sizes["columns"] + (sizes["rows"] if both else 0)


def layer(
    again: frozenset[str], sparse: bool, latent: bool, form: str, t: int, apart: bool, shared: int
) -> Run:
    """One layer of Megatron-Core with Transformer Engine, on one of t tensor ranks."""
    run = Run(again)
    here = TOKENS // t if apart else TOKENS
    x, norm = 2 * here * H, 2 * here * H
    run.keep("x", x)
    if not latent:  # the norm is fused to the projection
        run.keep("norm 1", side(here, H, form, apart))
        for name, heads in (("q", HEADS), ("k", KV), ("v", KV)):
            run.keep(name, 2 * TOKENS * max(heads // t, 1) * D)
        width = D
    else:
        with run.module("layernorm"):
            run.passed(x, norm)
            run.keep("norm 1", side(here, H, form, apart))
        run.keep("latent q", 2 * here * RQ)
        run.keep("latent kv", 2 * here * (RKV + ROTARY))
        with run.module("mla_up_proj"):
            run.keep("normed q", side(here, RQ, form, apart))
            run.keep("normed kv", side(here, RKV, form, apart))
            key = 2 * D - DV
            run.product(RQ * HEADS * key + RKV * HEADS * (key - ROTARY + DV))
            for name, size in (("q", key), ("k", key), ("v", DV)):
                run.keep(name, 2 * TOKENS * HEADS // t * size)
        width = DV
    with run.module("core_attn"):
        run.scores += run.inside
    run.keep("o", 2 * TOKENS * HEADS // t * width)
    run.keep("x 2", x)
    hidden = FFN // t
    if not sparse:
        with run.module("mlp", ("x 2", x)):
            run.passed(x, norm)
            run.keep("norm 2", side(here, H, form, apart))
            run.product(3 * H * FFN)
            run.keep("gate and up", 2 * TOKENS * 2 * hidden)
            run.passed(2 * TOKENS * 3 * hidden)
            run.keep("act", cast(TOKENS, hidden, form)["columns"])
            run.reduced += run.inside
        return run
    with run.module("layernorm"):
        run.passed(x, norm)
        run.keep("norm 2", norm)  # the router's, in 16 bits
    if "layernorm" in again:
        run = discard(run, "norm 2")
    before = dict(run.kept)
    with run.module("moe", ("norm 2", norm)):
        run.product(H * EXPERTS)
        run.sent += 2 * run.inside
        run.reduced += run.inside and not shared  # counted as the block's, where experts exchange
        copies = here * VISITS * (t if apart else 1)  # an expert on all t GPUs
        run.keep("copies", cast(copies, H, form)["columns"])
        run.product(VISITS * 3 * H * EXPERT)
        run.keep("expert gate and up", 2 * copies * 2 * EXPERT // t)
        with run.module("moe_act"):
            run.passed(2 * copies * 3 * EXPERT / t)
            run.keep("expert act", cast(copies, EXPERT // t, form)["columns"])
        with run.module("shared_experts", ("norm 2", norm)):
            run.product(shared * 3 * H * EXPERT)
            run.keep("shared gate and up", 2 * TOKENS * 2 * shared * EXPERT // t)
            run.passed(2 * TOKENS * 3 * shared * EXPERT / t)
            run.keep("shared act", cast(TOKENS, shared * EXPERT // t, form)["columns"])
            run.reduced += run.inside and shared > 0
    if "layernorm" in again:
        run = discard(run, "norm 2")
    assert before.keys() <= run.kept.keys() | {"norm 2"}
    return run


def discard(run: Run, name: str) -> Run:
    run.kept.pop(name, None)  # whoever reads it finds it made again
    return run


def drawn(count: int, seed: int) -> Iterator[tuple[dict[str, Any], list[Run]]]:
    """Jobs of four layers, with the runs of each of their layers."""
    draw = random.Random(seed)
    for _ in range(count):
        sparse, latent = draw.random() < 0.7, draw.random() < 0.5
        dense = draw.choice((0, 1, 2)) if sparse else 4
        form = draw.choice(("bf16", "fp8", "mxfp8", "nvfp4"))
        t, apart = draw.choice(((1, False), (2, True), (4, True), (2, False)))
        shared = draw.choice((0, SHARED)) if sparse else 0
        again = frozenset(name for name in ALL if draw.random() < 0.35)
        job: dict[str, Any] = {
            "hidden_size": H, "attention_heads": HEADS, "kv_heads": HEADS if latent else KV,
            "head_size": D, "ffn_hidden_size": FFN, "gated_ffn": True, "layers": 4,
            "tensor_parallel": t, "sequence_parallel": apart, "precision": form,
            "sequence_length": TOKENS, "micro_batch_size": 1, "n_gpus": t, "recompute": "modules",
            "sixteen_bit_layers_share": 0.0, "vocab_size": 1000,
        }  # fmt: skip
        if latent:
            job |= {"kv_elements_per_layer": RKV + ROTARY, "rotary_key_size": ROTARY}
            job |= {"query_latent_size": RQ, "value_head_size": DV}
            key = 2 * D - DV
            down, out = H * (RQ + RKV + ROTARY), HEADS * DV * H
            up = RQ * HEADS * key + RKV * HEADS * (key - ROTARY + DV)
            job["attention_parameters_per_layer"] = down + up + out
        if sparse:
            job |= {"experts": EXPERTS, "experts_per_token": VISITS, "shared_experts": shared}
            job |= {"expert_ffn_hidden_size": EXPERT, "dense_layers": dense}
            job |= {"expert_tensor_parallel": t}
        job |= {f"recompute_{name}": float(name in again) for name in ALL}
        layers = [number >= dense for number in range(4)]
        yield job, [layer(again, kind, latent, form, t, apart, shared) for kind in layers]


@check(
    "module_activation_memory_per_layer latent_freed_mixer_activations_per_token "
    "dense_freed_ffn_activations_per_token expert_freed_ffn_activations_per_token "
    "freed_ffn_norm_output_per_token expert_activation_output_per_token "
    "latent_attention_inputs_per_token latent_latents_per_token kv_latent_size value_head_size "
    "norm_inputs_per_token mixer_norm_output_per_token ffn_norm_output_per_token "
    "attention_output_per_token few_dense_ffn_activations_per_token "
    "expert_routed_ffn_activations_per_token expert_shared_ffn_activations_per_token "
    "ffn_bytes_per_width activation_input_bytes ffn_activations_per_token "
    "mixer_activations_per_token dense_ffn_activations_per_token",
    by="simulator",
    source="a layer's tensors as Megatron-Core's modules and Transformer Engine keep them: "
    "multi_latent_attention.py, transformer_layer.py, moe/moe_layer.py, moe/experts.py, "
    "moe/shared_experts.py, tensor_parallel/random.py (CheckpointWithoutOutput)",
    tolerance=1e-12,
)
def layers_with_modules() -> Pairs:
    """500 drawn jobs: dense, experts, latents, four formats, 1 to 4 ranks, any modules again"""
    for job, runs in drawn(500, 39):
        ours = values(["activation_memory_per_layer"], **job)["activation_memory_per_layer"]
        yield ours, sum(sum(run.kept.values()) for run in runs) / 4


@check(
    "module_matrix_recompute_passes latent_recomputed_mixer_parameters "
    "dense_recomputed_ffn_parameters expert_recomputed_ffn_parameters "
    "recomputed_exchanges_per_layer_recompute_modules expert_recomputed_ffn_blocks "
    "expert_recompute_passes_recompute_modules attention_recompute_passes_recompute_modules "
    "tensor_parallel_all_reduces_per_layer",
    by="simulator",
    source="what the same layers compute, reduce and send again",
    tolerance=1e-12,
)
def work_of_modules() -> Pairs:
    """100 drawn jobs: products, attention, exchanges of tensor ranks and of experts"""
    names = ["matrix_recompute_passes", "layer_matrix_flops_per_token"]
    names += ["attention_recompute_passes", "recomputed_exchanges_per_layer"]
    names += ["tensor_parallel_all_reduces_per_layer", "expert_recompute_passes"]
    for job, runs in drawn(100, 40):
        got = values(names, **job)
        once = got["layer_matrix_flops_per_token"] / 3
        yield got["matrix_recompute_passes"] * once, 2 * sum(run.weights for run in runs)
        yield got["attention_recompute_passes"], sum(run.scores for run in runs) / 4
        reduced = sum(run.reduced for run in runs) / 4
        yield got["recomputed_exchanges_per_layer"], reduced
        yield got["tensor_parallel_all_reduces_per_layer"], 4 + reduced
        sparse = 4 - job.get("dense_layers", 4)
        if sparse:
            yield 2 * got["expert_recompute_passes"] * sparse, sum(run.sent for run in runs)


@check(
    "module_layer_recompute_time latent_recomputed_mixer_time dense_recomputed_ffn_time "
    "expert_recomputed_ffn_time recomputed_elementwise_time shared_recompute_passes "
    "latent_recomputed_mixer_norms expert_recomputed_ffn_norms dense_recomputed_activation_width "
    "expert_recomputed_activation_width",
    by="simulator",
    source="products of the same layers at a GPU's peak, and what they read and write beside them",
    tolerance=1e-9,
)
def time_of_modules() -> Pairs:
    """100 drawn jobs on a GPU without a memory's limit, and on one without a peak"""
    perfect = {"compute_model": "roofline", "gemm_half_depth": 0.0, "gemm_efficiency": 1.0}
    perfect |= {"attention_efficiency": 1.0, "memory_efficiency": 1.0, "expert_launch_time": 0.0}
    for job, runs in drawn(100, 41):
        peaks = {"peak_flops": 1e15, "attention_peak_flops": 1e40, "hbm_bandwidth": 1e40}
        ours = values(["layer_recompute_time"], **job, **perfect, **peaks)["layer_recompute_time"]
        router = H * EXPERTS * (job["recompute_moe"] > 0)  # counted, without a time of its own
        sparse = 4 - job.get("dense_layers", 4)
        weights = sum(run.weights for run in runs) - router * sparse
        yield ours, 2 * TOKENS * weights / job["tensor_parallel"] / 1e15 / 4
        got = values(
            ["recomputed_elementwise_time"], **job, **perfect, **peaks | {"hbm_bandwidth": 1e12}
        )
        yield got["recomputed_elementwise_time"], sum(run.moved for run in runs) / 1e12 / 4


@check(
    "module_layer_activation_memory",
    by="simulator",
    source="what runs again in the backward pass of each block, and the gradients of its tensors",
)
def peak_of_modules() -> Pairs:
    """150 drawn jobs: the larger of both blocks' moments, for layers of one kind"""
    for job, runs in drawn(150, 42):
        if job.get("dense_layers", 4) not in (0, 4):
            continue  # means of two kinds
        names = ["layer_activation_memory", "ffn_gradients_memory"]
        got = values(names, **job)
        run = runs[0]
        nothing = layer(
            frozenset(), "experts" in job, "query_latent_size" in job, job["precision"],
            job["tensor_parallel"], job["sequence_parallel"], job.get("shared_experts", 0),
        )  # fmt: skip
        gone = {name: nothing.kept[name] for name in nothing.kept if name not in run.kept}
        mixer = {
            name for name in nothing.kept if name in ("norm 1", "q", "k", "v") or "normed" in name
        }
        first = sum(size for name, size in gone.items() if name not in mixer)
        second = sum(size for name, size in gone.items() if name in mixer)
        heads = [nothing.kept[n] for n in (*"qkvo", "normed q", "normed kv") if n in nothing.kept]
        yield (
            got["layer_activation_memory"],
            max(got["ffn_gradients_memory"] + first, sum(heads) + second),
        )


@check(
    "recomputed_piece_layers recomputed_unit_layers full_recompute_share saved_inputs_per_layer "
    "full_activation_memory_per_layer "
    "full_layer_activation_memory matrix_recompute_passes_recompute_full "
    "full_recomputed_exchanges_per_layer expert_all_to_alls_per_layer",
    by="simulator",
    source="layers of each piece of a model walked through: Megatron-LM, "
    "megatron/core/transformer/transformer_block.py (_checkpointed_forward)",
)
def blocks_and_units() -> Pairs:
    """pieces of 3 to 16 layers: the first N of each again, or all in units of N"""
    whole = layer(frozenset(), True, False, "bf16", 2, True, SHARED)
    all_kept = sum(whole.kept.values())
    job: dict[str, Any] = next(
        job for job, _ in drawn(99, 7) if "experts" in job and "query_latent_size" not in job
    ) | {"recompute": "full", "dense_layers": 0, "shared_experts": SHARED, "precision": "bf16"}
    job |= {"tensor_parallel": 2, "sequence_parallel": True, "expert_tensor_parallel": 2}
    names = ["activation_memory_per_layer", "layer_activation_memory", "ffn_gradients_memory"]
    names += ["matrix_recompute_passes", "recomputed_exchanges_per_layer"]
    names += ["expert_all_to_alls_per_layer", "saved_inputs_per_layer"]
    for (stages, chunks, piece), n, unit in itertools.product(
        ((1, 1, 3), (2, 1, 8), (2, 2, 4), (1, 1, 16)), (0, 1, 2, 3, math.inf), (1, 2, 3, 5, 99)
    ):
        layers = stages * chunks * piece
        run = job | {"layers": layers, "pipeline_parallel": stages, "virtual_stages": chunks}
        run |= {"recomputed_layers": n, "recompute_unit_layers": unit, "n_gpus": 2 * stages}
        got = values(names, **run)
        inputs, kept, again = 0, 0.0, 0
        for _ in range(stages * chunks):
            first = min(n, piece)  # of them run again, in units
            for number in range(piece):
                if number >= first:
                    kept += all_kept
                    continue
                again += 1
                if number % unit == 0:
                    inputs += 1
                    kept += 2 * TOKENS // 2 * H
        yield got["activation_memory_per_layer"], kept / layers
        yield got["matrix_recompute_passes"], again / layers
        yield got["recomputed_exchanges_per_layer"], 2 * again / layers
        yield got["expert_all_to_alls_per_layer"], 4 + 2 * again / layers
        if again:
            yield got["saved_inputs_per_layer"], inputs / again
        peak = got["layer_activation_memory"] - got["ffn_gradients_memory"]
        yield peak, min(unit, n, piece) * all_kept


MOVED = {  # tensors of a module's input
    "attn_norm": ("x",),
    "qkv_linear": ("norm 1", "latent q", "latent kv"),
    "core_attn": ("q", "k", "v", "normed q", "normed kv"),
    "attn_proj": ("o",),
    "mlp_norm": ("x 2",),
    "expert_fc1": ("copies",),
    "moe_act": ("expert gate and up",),
}


@check(
    "module_moved_activations_per_layer grouped_moved_mixer_activations "
    "latent_moved_mixer_activations expert_moved_ffn_activations expert_copies_per_token "
    "resident_activations_per_layer host_activation_memory whole_offloaded_activations_per_layer",
    by="simulator",
    source="tensors of the same layers moved by the module that reads them: Megatron-LM, "
    "docs/user-guide/features/fine_grained_activation_offloading.md",
    tolerance=1e-12,
)
def tensors_moved() -> Pairs:
    """200 drawn jobs of layers of one kind, with modules that run again; or 0 to 3 whole layers"""
    draw = random.Random(44)
    names = ["offloaded_activations_per_layer", "resident_activations_per_layer"]
    names.append("host_activation_memory")
    for job, runs in drawn(200, 43):
        if job.get("dense_layers", 4) not in (0, 4):
            continue
        latent, sparse = "query_latent_size" in job, "experts" in job
        chosen = [name for name in MOVED if draw.random() < 0.5]
        run = job | {f"offload_{name}": float(name in chosen) for name in MOVED}
        run |= {"activation_offload": "modules"}
        moved = kept = 0.0
        for number, of in enumerate(runs):
            for name in chosen:
                if name == "mlp_norm" and not sparse:
                    continue  # the norm is fused to a matrix, as before attention without latents
                if name == "attn_norm" and not latent:
                    continue
                tensors = MOVED[name]
                if name == "qkv_linear" and not latent:
                    tensors += ("x",)
                if number < 3:  # the last group of each name stays
                    moved += sum(of.kept.get(tensor, 0.0) for tensor in tensors)
            kept += sum(of.kept.values())
        got = values(names, **run, stage_split=False)
        yield got["offloaded_activations_per_layer"], moved / 4
        yield got["resident_activations_per_layer"], (kept - moved) / 4
        yield got["host_activation_memory"], moved
        for layers in range(4):
            got = values(names, **job, activation_offload="layers", offloaded_layers=layers)
            each = sum(runs[0].kept.values())
            yield got["resident_activations_per_layer"], each * (4 - layers) / 4


@check(
    "moved_activation_offload_wait moved_activation_offload_time offload_time",
    by="simulator",
    source="layers and transfers on two in-order streams, forward and back",
    tolerance=0.06,
)
def transfers_beside_layers() -> Pairs:
    """40 layers of a micro-batch, 4 to 38 moved over links from slow to fast: within 2 layers; they
    compute for 3 s, of which collectives that hold processors cause 0.6"""
    layers, compute = 40, 3.0
    job: dict[str, Any] = {"layers": layers, "pipeline_parallel": 1, "num_microbatches": 1}
    job |= {"layer_compute_time": 2.4, "processor_contention_time": 0.6}
    job |= {"exposed_layer_communication_time": 0.0}
    job |= {"exposed_pipeline_parallel_time": 0.0, "exposed_data_parallel_time": 0.0}
    job |= {"contention_time": 0.0}
    job |= {"recompute_flops_factor": 1.0, "activation_memory_per_layer": 1.0}
    job |= {"activation_offload": "layers", "optimizer_offload_time": 0.0}
    names = ["offload_time", "activation_offload_time"]
    for moved, ratio in itertools.product((4, 20, 38), (0.2, 0.9, 1.5, 4.0, 12.0)):
        forward = compute / 3 / layers
        each = forward * ratio  # to move a layer
        got = values(names, **job, offloaded_layers=moved, offload_bandwidth=1 / each)
        yield got["activation_offload_time"], moved * each
        clock = link = 0.0
        for number in range(layers):  # the first ones leave, each once it is done
            clock += forward
            if number < moved:
                link = max(link, clock) + each
        clock = max(clock, link)
        link, loaded = clock, {}
        for number in reversed(range(moved)):  # back in the order in which they are needed
            link += each
            loaded[number] = link
        for number in reversed(range(layers)):
            clock = max(clock, loaded.get(number, 0.0)) + 2 * forward
        yield compute + got["offload_time"], clock


@check(
    "layers_activation_offload_reason overlapped_shared_recompute_reason",
    by="table",
    source="assertions of Megatron-LM's megatron/core/transformer/transformer_config.py: "
    "cpu_offloading_num_layers < num_layers, one stage, nothing recomputed; shared_experts not "
    "beside --moe-shared-expert-overlap",
)
def refused() -> Pairs:
    """one stage and two, 0 to 5 of 4 layers, nothing, attention and layers again; shared experts"""
    for stages, layers, matrices, attention in itertools.product(
        (1, 2), (0, 3, 4, 5), (0.0, 1.0), (0.0, 1.0)
    ):
        ours = formulas.layers_activation_offload_reason(stages, matrices, attention, layers, 4)
        yield ours, 35.0 * (stages > 1 or layers >= 4 or matrices > 0 or attention > 0)
    for again, shared in itertools.product((0.0, 0.5, 1.0), (0, 1)):
        ours = formulas.overlapped_shared_recompute_reason(again, shared)
        yield ours, 36.0 * (again > 0 and shared > 0)


@check(
    "grouped_attention_width_reason latent_attention_width_reason lora_width_reason "
    "alternate_product_recompute_reason",
    by="derivation",
    source="arrays of heads, and matrices of latent attention and of adapters, made with these "
    "widths: whether they can be, and have the rank; kinds of a layer's blocks, listed",
)
def widths_of_matrices() -> Pairs:
    """1 to 8 heads of 12 and 16, 1 to 6 of keys; keys of -1 to 11, rotary parts of 1 to 8, caches
    of 1 to 9; ranks of 1 to 7 for 5
    """
    draws = np.random.default_rng(0)
    for hidden, heads, keys in itertools.product((12, 16), (1, 3, 4, 6, 8), (1, 2, 3, 6)):
        sizes = hidden, heads, keys, hidden / heads
        try:
            made = np.zeros(hidden).reshape(heads, -1)
            made = made.reshape(keys, -1, made.shape[1]).size > 0
        except ValueError:
            made = False
        yield formulas.grouped_attention_width_reason(*sizes, 2), 37.0 * (not made)
        yield formulas.grouped_attention_width_reason(*sizes, 0), 0.0
    for value, rotary, cached in itertools.product((1, 4, 6, 11, 13), (1, 4, 8), (1, 5, 9)):
        ours = formulas.latent_attention_width_reason(5, 6, value, rotary, cached)
        made = 12 - value > 0 and cached - rotary > 0
        try:
            np.zeros((max(cached - rotary, 1), 12 - value - rotary))  # up, to what is not rotary
        except ValueError:
            made = False
        yield ours, 37.0 * (not made)
    for rank in range(1, 8):
        product = draws.normal(size=(5, rank)) @ draws.normal(size=(rank, 5))
        low = np.linalg.matrix_rank(product) < rank
        yield formulas.lora_width_reason(rank, 5, 0.0), 37.0 * low
    for states, other in itertools.product((0, 1), (0.0, 36.0)):
        ours = formulas.alternate_product_recompute_reason(states, other)
        yield ours, 38.0 if states else other
