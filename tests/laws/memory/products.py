"""Layers of which only products are kept: differentiated by JAX, and played op by op."""

import itertools
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from ...evaluated import values
from ..check import Pairs, check

TOKENS, LAYERS = 32, 3
NAMES = {
    "keep_qkv_proj": ["query_proj", "key_proj", "value_proj"],
    "keep_context": ["context"],
    "keep_out_proj": ["out_proj"],
    "keep_mlpwi": ["mlpwi_0", "mlpwi_1"],
}


def drawn(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Dense jobs, whose heads may be wider or narrower together than a layer."""
    draw = random.Random(seed)
    for _ in range(count):
        heads = draw.choice((4, 8))
        yield {
            "hidden_size": draw.choice((64, 96)), "attention_heads": heads, "vocab_size": 100,
            "kv_heads": draw.choice((2, heads)), "head_size": draw.choice((16, 24)),
            "ffn_hidden_size": draw.choice((128, 176)), "gated_ffn": True, "layers": LAYERS,
            "sequence_length": TOKENS, "micro_batch_size": 1, "n_gpus": 1, "precision": "bf16",
            "attention_kernel": draw.choice(("flash", "standard")),
        }  # fmt: skip


def attention(queries: jax.Array, keys: jax.Array, values_: jax.Array) -> jax.Array:
    scores = jax.nn.softmax(jnp.einsum("tkgd,skd->kgts", queries, keys), -1)
    return checkpoint_name(jnp.einsum("kgts,skd->tkgd", scores, values_), "context")


@jax.custom_vjp
def fused(queries: jax.Array, keys: jax.Array, values_: jax.Array) -> jax.Array:
    return attention(queries, keys, values_)


def fused_forward(*heads: jax.Array) -> Any:
    out = attention(*heads)
    return out, (*heads, out)


def fused_backward(kept: Any, slope: jax.Array) -> Any:
    """Of a kernel that reads its output, too, as flash attention's does."""
    *heads, out = kept
    return jax.vjp(attention, *heads)[1](slope + 0 * out)


fused.defvjp(fused_forward, fused_backward)


def block(x: jax.Array, weights: list[jax.Array], heads: int, kv: int, flash: bool) -> jax.Array:
    """A layer of MaxText, with its names of what a policy may keep."""
    q, k, v, out, gate, up, down = weights

    def norm(x: jax.Array) -> jax.Array:
        whole = x.astype(jnp.float32)
        return (whole * jax.lax.rsqrt((whole * whole).mean(-1, keepdims=True))).astype(x.dtype)

    read = norm(x)
    queries = checkpoint_name((read @ q).reshape(TOKENS, kv, heads // kv, -1), "query_proj")
    keys = checkpoint_name((read @ k).reshape(TOKENS, kv, -1), "key_proj")
    values_ = checkpoint_name((read @ v).reshape(TOKENS, kv, -1), "value_proj")
    read = (fused if flash else attention)(queries, keys, values_).reshape(TOKENS, -1)
    x = x + checkpoint_name(read @ out, "out_proj")
    read = norm(x)
    gates = checkpoint_name(read @ gate, "mlpwi_0")
    inner = jax.nn.silu(gates) * checkpoint_name(read @ up, "mlpwi_1")
    return x + checkpoint_name(inner @ down, "mlpwo")


def stacked(run: Any, shape: Any, x: jax.Array, weights: list[jax.Array]) -> jax.Array:
    return jax.lax.scan(lambda x, layer: (run(x, layer, *shape), None), x, weights)[0]


def products(jaxpr: Any) -> float:
    """Operations of all products in a program, whose loops run LAYERS times."""
    done = 0.0
    for line in jaxpr.eqns:
        if line.primitive.name == "dot_general":
            contracted, _ = line.params["dimension_numbers"][0]
            inner = 1.0
            for axis in contracted:
                inner *= line.invars[0].aval.shape[axis]
            done += 2 * inner * line.outvars[0].aval.size
        for inside in line.params.values():
            inner_program = getattr(inside, "jaxpr", inside)
            if hasattr(inner_program, "eqns"):
                done += products(inner_program)
    return done


@check(
    "tensor_activation_memory_per_layer ffn_block_input_per_token "
    "ffn_activation_output_per_token activation_inputs_per_token tensor_matrix_recompute_passes "
    "tensor_attention_recompute_passes compiled_full_recompute_passes",
    by="peer",
    source="jax.checkpoint with MaxText's policies (src/maxtext/layers/decoders.py)",
    tolerance=1e-12,
)
def what_jax_keeps() -> Pairs:
    """16 drawn layers, scanned, with each set of names that are kept: bytes that their backward
    pass reads, and products done again"""
    choices = [*itertools.product((0.0, 1.0), repeat=len(NAMES))]
    for job, shares in zip(drawn(16, 50), choices, strict=True):
        h, f, d = job["hidden_size"], job["ffn_hidden_size"], job["head_size"]
        heads, kv = job["attention_heads"], job["kv_heads"]
        shapes = [(h, heads * d), (h, kv * d), (h, kv * d), (heads * d, h), (h, f), (h, f), (f, h)]
        weights = [jax.ShapeDtypeStruct((LAYERS, *shape), jnp.bfloat16) for shape in shapes]
        x = jax.ShapeDtypeStruct((TOKENS, h), jnp.bfloat16)
        keep = dict(zip(NAMES, shares, strict=True))
        names = [name for kept, several in NAMES.items() if keep[kept] for name in several]
        policy = jax.checkpoint_policies.save_only_these_names("mlpwo", *names)
        flash = job["attention_kernel"] == "flash"
        again = []
        for run in (block, jax.checkpoint(block, policy=policy, static_argnums=(2, 3, 4))):
            layers = partial(stacked, run, (heads, kv, flash))
            y, backward = jax.eval_shape(partial(jax.vjp, layers), x, weights)  # nothing is run
            again.append(products(jax.make_jaxpr(lambda pull, y: pull(y))(backward, y).jaxpr))
        kept = [leaf for leaf in jax.tree_util.tree_leaves(backward) if leaf.ndim > 1]
        size = sum(leaf.size * leaf.dtype.itemsize for leaf in kept)
        size -= sum(leaf.size * leaf.dtype.itemsize for leaf in weights)
        names = ["activation_memory_per_layer", "matrix_recompute_passes"]
        names += ["attention_recompute_passes"]
        got = values(names, **job, recompute="products", **keep)
        yield got["activation_memory_per_layer"], size / LAYERS
        scores, each = 4 * TOKENS * TOKENS * heads * d, sum(a * b for a, b in shapes)
        matrices = got["matrix_recompute_passes"] * 2 * TOKENS * each
        yield matrices + got["attention_recompute_passes"] * scores, again[1] - again[0]
        if not any(shares):
            whole = values(names[1:], **job, recompute="full", whole_program=True)
            yield whole["matrix_recompute_passes"], got["matrix_recompute_passes"]
            yield whole["attention_recompute_passes"], got["attention_recompute_passes"]


@check(
    "tensor_moved_activations_per_layer tensor_expert_recompute_passes "
    "tensor_recomputed_exchanges_per_layer",
    by="simulator",
    source="tensors of a layer by name, kept or not, moved or not: JAX, "
    "save_and_offload_only_these_names",
    tolerance=1e-12,
)
def tensors_moved_by_name() -> Pairs:
    """64 drawn layers of which some tensors are kept, and some of these moved"""
    draw = random.Random(53)
    names = ["offloaded_activations_per_layer", "expert_recompute_passes"]
    names.append("recomputed_exchanges_per_layer")
    for job in drawn(64, 54):
        heads, kv, d = (job[name] for name in ("attention_heads", "kv_heads", "head_size"))
        h = job["hidden_size"]
        widths = {
            "keep_qkv_proj": ("offload_core_attn", (heads + 2 * kv) * d),
            "keep_context": ("offload_attn_proj", heads * d),
            "keep_out_proj": ("offload_mlp_norm", h),
            "keep_mlpwi": ("offload_moe_act", 2 * job["ffn_hidden_size"]),
        }
        run = job | {"recompute": "products", "offload_attn_norm": 1.0}
        moved, exchanges = h, 0.0
        for keep, (offload, width) in widths.items():
            kept, goes = draw.random() < 0.5, draw.random() < 0.5
            run |= {keep: float(kept), offload: float(goes)}
            moved += width * (kept and goes)
            exchanges += 0.5 * (not kept and keep != "keep_context")  # a gather or a scatter
        got = values(names, **run)
        yield got["offloaded_activations_per_layer"], 2 * TOKENS * moved
        yield got["expert_recompute_passes"], 1 - run["keep_mlpwi"]
        yield got["recomputed_exchanges_per_layer"], exchanges


@check(
    "planned_transient_memory",
    by="simulator",
    source="tensors alive at the loss and in a layer's backward pass, product by product",
    tolerance=1e-12,
)
def live_ranges() -> Pairs:
    """24 drawn layers under ZeRO-3, with few and many logits"""
    names = ["transient_memory", "layer_activation_memory", "layer_state_memory"]
    for job, vocabulary in itertools.product(drawn(24, 55), (100, 20000)):
        run = job | {"vocab_size": vocabulary, "zero_stage": 3, "recompute": "full"}
        got = values(names, **run, whole_program=True)
        logits = 4 * TOKENS * vocabulary
        matrix = 2 * job["hidden_size"] * job["ffn_hidden_size"]
        alive, sizes = {"logits": logits}, []
        sizes.append(sum(alive.values()))
        del alive["logits"]
        alive["activations"] = got["layer_activation_memory"]
        alive |= dict.fromkeys(("down", "up", "gradient of down"), matrix)  # the next is on its way
        sizes.append(sum(alive.values()))
        head = 2 * vocabulary * job["hidden_size"]  # gathered, next to the logits
        yield got["transient_memory"], max(sizes[0] + head, sizes[1]) - logits


@check(
    "compiled_read_exchanges_per_layer dense_unread_product_parameters "
    "expert_unread_product_parameters expert_read_result_share table_memory even_stage_tables "
    "staged_stage_tables widest_matrix_parameters unsharded_planned_state_memory "
    "sharded_planned_state_memory resharded_planned_weights_memory resharded_planned_head_memory",
    by="derivation",
    source="matrices of published models, and of these what MaxText's unpermute reads",
    tolerance=1e-4,
)
def whole_programs() -> Pairs:
    """products that run again and gathered weights of Llama 3 8B and 70B, and of Mixtral 8x7B"""
    dense: dict[str, Any] = {
        "model": "llama-3-8b", "n_gpus": 64, "global_batch_size": 64, "sequence_length": 512,
        "micro_batch_size": 1, "zero_stage": 3, "calibration": "none",
    }  # fmt: skip
    whole = {"recompute": "full", "whole_program": True}
    some = {"recompute": "products", "keep_qkv_proj": 0, "keep_out_proj": 0, "keep_mlpwi": 0}
    names = ["matrix_recompute_passes", "recomputed_exchanges_per_layer"]
    attention, block = 4096 * 2 * 5120, 3 * 4096 * 14336
    sparse = dense | {"model": "mixtral-8x7b", "expert_parallel": 8}
    for again in (whole, some):
        got = values(names, **dense, **again)
        yield got[names[0]], (attention + block * 2 / 3) / (attention + block)
        yield got[names[1]], 1.5
        got = values(names, **sparse, **again)
        yield got[names[0]], 1.0  # unpermute reads wo's results
        yield got[names[1]], 2.0
    moved, table = ["transient_memory"], 2 * 128256 * 4096
    stays = values(moved, **dense, **whole, reshard_after_forward=False)
    yield stays["transient_memory"], 2 * 8.03e9
    yield values(moved, **dense, **whole)["transient_memory"], table
    lora = dense | {"model": "llama-3-70b", "lora_rank": 16}
    yield values(moved, **lora, **whole)["transient_memory"], 2 * table
    yield (
        values(["planned_state_memory"], **dense | {"zero_stage": 2}, **whole)[
            "planned_state_memory"
        ],
        3 * 2 * 4096 * 14336,
    )
    gathered = ["gathered_weights_memory"]
    layer = 2 * (attention + block)
    for stage, tables in ((1, 1), (2, 0), (4, 1)):
        run = dense | {"pipeline_parallel": 4, "pipeline_stage": stage, "gathered_tables": 2}
        yield values(gathered, **run)["gathered_weights_memory"], layer + tables * table
    tied = dense | {"gathered_tables": 2, "embedding_tables": 1}
    yield values(gathered, **tied)["gathered_weights_memory"], layer + table
    for frozen, each in ((False, 2), ("fp8", 1)):
        run = dense | {"lora_rank": 16, "frozen_weights": frozen}
        yield values(gathered, **run)["gathered_weights_memory"], layer / 2 * each


@check(
    "norm_copy_bytes activation_output_bytes",
    by="derivation",
    source="copies that autograd keeps of a block go as the block runs again",
    tolerance=1e-12,
)
def copies_again() -> Pairs:
    """Llama 3 8B op by op, with nothing kept, and with feed-forward blocks that run again"""
    job: dict[str, Any] = {"model": "llama-3-8b", "n_gpus": 64, "sequence_length": 8192}
    job |= {"micro_batch_size": 1, "compile": False}
    name = "activation_memory_per_layer"
    some = {"recompute": "products", "keep_qkv_proj": 0, "keep_out_proj": 0, "keep_mlpwi": 0}
    for again in (some, {"recompute": "full"}):
        yield values([name], **job, **again)[name], 2 * 8192 * 4096
    run = job | {"recompute": "modules", "recompute_mlp": 1}
    fused = values([name], **run | {"compile": True})[name]
    yield values([name], **run)[name] - fused, 4 * 8192 * 4096  # of the first norm
    run = job | {"whole_program": True, "recompute": False}
    fused = values([name], **run | {"compile": True})[name]
    yield values([name], **run)[name], fused


def op_by_op(job: dict[str, Any], t: int, fused: bool) -> dict[str, Any]:
    """torchtitan's block as it dispatches ops: what its policy keeps of one, and does again."""
    h, f, d = job["hidden_size"], job["ffn_hidden_size"] // t, job["head_size"]
    heads, kv = job["attention_heads"] // t, max(job["kv_heads"] // t, 1)
    ops: list[tuple[str, str, int, float]] = [("norm", "norm 1", h // t, 0)]
    ops += [("mm", name, n * d, h * n * d) for name, n in (("q", heads), ("k", kv), ("v", kv))]
    ops += [("sdpa", "attention", heads * d, 0), ("mm", "out", h, heads * d * h)]
    ops += [("reduce_scatter", "out here", h // t, 0)] * (t > 1)
    ops += [("add", "x 2", h // t, 0), ("norm", "norm 2", h // t, 0)]
    ops += [("mm", "gate", f, h * f), ("silu", "silu", f, 0), ("mm", "up", f, h * f)]
    ops += [("mul", "act", f, 0), ("mm", "down", h, f * h)]
    ops += [("reduce_scatter", "down here", h // t, 0)] * (t > 1)
    kept, again, seen, unkept, sums = h // t, 0.0, 0, 0, 0
    for kind, name, width, weights in ops:
        seen += kind == "mm"
        if kind in ("sdpa", "reduce_scatter") or (kind == "mm" and seen % 2):
            if name == "down" and fused:
                continue  # a compiled backward pass reads it not
            kept += width
            sums += width * (kind == "reduce_scatter" or name == "down")
        else:
            again += weights
            # x 2; silu's output, which a fused gate does not write; of a norm its FP32 input in
            # place of x, too, and what its weights scale: 4 bytes more
            unkept += width * (name != "out" and (name != "silu" or not fused))
            unkept += 2 * width * (kind == "norm" and not fused)
    return {"kept": kept, "again": again, "unkept": unkept, "sums": sums}


@check(
    "alternate_activation_memory_per_layer alternate_matrix_recompute_passes "
    "product_layer_activation_memory "
    "attention_recompute_passes_recompute_selective",
    by="simulator",
    source="ops of a Llama block as torchtitan's parallelize_llama.py (_save_list) counts them",
    tolerance=1e-12,
)
def every_second_product() -> Pairs:
    """24 drawn layers on 1, 2 and 4 tensor ranks with sequence parallelism, compiled and eager"""
    names = ["activation_memory_per_layer", "matrix_recompute_passes", "attention_recompute_passes"]
    names += ["layer_matrix_flops_per_token", "layer_activation_memory", "ffn_gradients_memory"]
    for job, t, fused in itertools.product(drawn(24, 51), (1, 2, 4), (True, False)):
        run = job | {"recompute": "alternate_products", "tensor_parallel": t, "n_gpus": t}
        run |= {"compile": fused}
        got = values(names, **run | {"sequence_parallel": True, "attention_kernel": "flash"})
        played = op_by_op(job, t, fused)
        yield got["activation_memory_per_layer"], 2 * TOKENS * played["kept"]
        peak = got["layer_activation_memory"] - got["ffn_gradients_memory"]
        yield peak, 2 * TOKENS * (played["unkept"] - played["sums"])
        if job["kv_heads"] >= t:
            again = got["matrix_recompute_passes"] * got["layer_matrix_flops_per_token"] / 3
            yield again, 2 * LAYERS * t * played["again"]
        yield got["attention_recompute_passes"], 0.0


def mixture_op_by_op(job: dict[str, Any], fused: bool) -> Iterator[tuple[str, str, int, float]]:
    """Ops of torchtitan's DeepSeek-V3 block with experts: kind, name, width, weights."""
    h, a, k = job["hidden_size"], job["attention_heads"], job["experts_per_token"]
    latent, rotary, value = job["kv_latent"], job["rotary_key_size"], job["value_head_size"]
    key, rank = 2 * job["head_size"] - value, job["query_latent_size"]
    if rank:
        yield "mm", "wq_a", rank, h * rank
    yield "mm", "q", a * key, (rank or h) * a * key
    yield "mm", "wkv_a", latent + rotary, h * (latent + rotary)
    yield "mm", "wkv_b", a * (key - rotary + value), latent * a * (key - rotary + value)
    yield "sdpa", "attention", a * value, 0
    yield "mm", "out", h, a * value * h
    f, shared = job["expert_ffn_hidden_size"], job["shared_experts"]
    yield "router", "router", job["experts"], h * job["experts"]
    if job["expert_parallel"] > 1:
        yield "all_to_all", "dispatch", k * h, 0
    yield "grouped", "experts", k * h, 3 * k * h * f
    if job["expert_parallel"] > 1:
        yield "all_to_all", "combine", k * h, 0
    for name, width in (("gate", shared * f), ("up", shared * f), ("down", h)):
        yield "mm", name, width, h * shared * f


@check(
    "alternate_activation_memory_per_layer alternate_matrix_recompute_passes "
    "latent_alternate_attention_parameters expert_alternate_ffn_parameters "
    "latent_kept_projections_per_token kept_projections_per_token alternate_ffn_parameters "
    "expert_exchanged_copies_per_token latent_kept_wide_products alternate_attention_parameters",
    by="simulator",
    source="ops of a DeepSeek-V3 block as torchtitan's activation_checkpoint.py (SelectiveAC) "
    "counts them",
    tolerance=1e-12,
)
def every_second_product_of_mixtures() -> Pairs:
    """latent attention with and without queries projected down, shared experts, experts on one
    rank and on four, compiled and eager"""
    names = ["activation_memory_per_layer", "matrix_recompute_passes"]
    names += ["layer_matrix_flops_per_token"]
    cases = itertools.product((0, 48), (1, 4), (True, False))
    for rank, ranks, fused in cases:
        job: dict[str, Any] = {
            "hidden_size": 64, "attention_heads": 4, "head_size": 20, "value_head_size": 16,
            "query_latent_size": rank, "rotary_key_size": 8, "vocab_size": 100,
            "experts": 8, "experts_per_token": 3, "expert_ffn_hidden_size": 40,
            "shared_experts": 2, "expert_parallel": ranks,
        }  # fmt: skip
        run = job | {"latent_kv_elements": 32 + 8, "dense_layers": 0, "layers": LAYERS}
        job["kv_latent"] = 32
        run |= {"latent_attention": True, "gated_ffn": True, "ffn_hidden_size": 128, "n_gpus": 4}
        run |= {"sequence_length": TOKENS, "micro_batch_size": 1, "precision": "bf16"}
        ops = [*mixture_op_by_op(job, fused)]
        run["latent_weights"] = sum(row[3] for row in ops[: 5 + (rank > 0)])
        run |= {"recompute": "alternate_products", "attention_kernel": "flash", "compile": fused}
        got = values(names, **run)
        kept, again, seen = job["hidden_size"], 0.0, 0
        for kind, name, width, weights in ops:
            seen += kind == "mm"
            if kind in ("sdpa", "all_to_all") or (kind == "mm" and seen % 2):
                kept += width * (name != "down" or not fused)  # which a compiled pass reads not
            elif name != "down":  # behind an odd number of products, not counted op by op
                again += weights
        yield got["activation_memory_per_layer"], 2 * TOKENS * kept
        passes = got["matrix_recompute_passes"] * got["layer_matrix_flops_per_token"] / 3
        yield passes, 2 * LAYERS * again


@check(
    "product_layer_recompute_time product_layer_activation_memory",
    by="derivation",
    source="roofline of what runs again: products at a peak, the rest through memory",
    tolerance=1e-12,
)
def time_again() -> Pairs:
    """24 drawn layers on a GPU whose products take no time, on one whose memory takes none"""
    perfect: dict[str, Any] = {"compute_model": "roofline", "gemm_half_depth": 0.0}
    perfect |= dict.fromkeys(("gemm_efficiency", "attention_efficiency", "memory_efficiency"), 1.0)
    fast = {"peak_flops": 1e40, "attention_peak_flops": 1e40, "hbm_bandwidth": 1e12}
    slow = {"peak_flops": 1e15, "attention_peak_flops": 1e15, "hbm_bandwidth": 1e40}
    for job in drawn(24, 52):
        run = job | perfect | {"attention_kernel": "flash"}
        h, f, d = job["hidden_size"], job["ffn_hidden_size"], job["head_size"]
        a, kv = job["attention_heads"], job["kv_heads"]
        name = "layer_recompute_time"
        for recompute, matrices, attention in (
            ("products", 0, 1),
            ("alternate_products", h * d * kv + a * d * h + h * f, 0),
        ):
            ours = values([name], **run, **slow, recompute=recompute)[name]
            # those below the diagonal, and edges that cost as much as 560 keys
            scores = 4 * TOKENS * (TOKENS / 2 + 560) * a * d * attention
            yield ours, (2 * TOKENS * matrices + scores) / 1e15
        ours = values([name], **run, **fast, recompute="products")[name]
        turned = 2 * (a + kv) * d  # queries and keys
        yield ours, TOKENS * 2 * (2 * 2 * h + 2 * 3 * h + 3 * f + turned) / 1e12
        names = ["layer_activation_memory", "ffn_gradients_memory"]
        got = values(names, **run, recompute="products")
        peak = got["layer_activation_memory"] - got["ffn_gradients_memory"]
        yield peak, 2 * TOKENS * (h + a * d + h + f)  # of norm, attention, norm, activation
