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
KEPT = ["query_proj", "key_proj", "value_proj", "out_proj", "mlpwi_0", "mlpwi_1", "mlpwo"]


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


def block(x: jax.Array, weights: list[jax.Array], heads: int, kv: int) -> jax.Array:
    """A layer of MaxText, with its names of what a policy may keep."""
    q, k, v, out, gate, up, down = weights

    def norm(x: jax.Array) -> jax.Array:
        whole = x.astype(jnp.float32)
        return (whole * jax.lax.rsqrt((whole * whole).mean(-1, keepdims=True))).astype(x.dtype)

    read = norm(x)
    queries = checkpoint_name((read @ q).reshape(TOKENS, kv, heads // kv, -1), "query_proj")
    keys = checkpoint_name((read @ k).reshape(TOKENS, kv, -1), "key_proj")
    values_ = checkpoint_name((read @ v).reshape(TOKENS, kv, -1), "value_proj")
    scores = jax.nn.softmax(jnp.einsum("tkgd,skd->kgts", queries, keys), -1)
    read = jnp.einsum("kgts,skd->tkgd", scores, values_).reshape(TOKENS, -1)
    x = x + checkpoint_name(read @ out, "out_proj")
    read = norm(x)
    gates = checkpoint_name(read @ gate, "mlpwi_0")
    inner = jax.nn.silu(gates) * checkpoint_name(read @ up, "mlpwi_1")
    return x + checkpoint_name(inner @ down, "mlpwo")


def stacked(run: Any, heads: int, kv: int, x: jax.Array, weights: list[jax.Array]) -> jax.Array:
    return jax.lax.scan(lambda x, layer: (run(x, layer, heads, kv), None), x, weights)[0]


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
    "product_activation_memory_per_layer matrix_recompute_passes_recompute_false "
    "attention_recompute_passes_recompute_products",
    by="peer",
    source="jax.checkpoint with MaxText's minimal_policy (src/maxtext/layers/decoders.py)",
    tolerance=1e-12,
)
def what_jax_keeps() -> Pairs:
    """12 drawn layers, scanned: bytes that their backward pass reads, and products done again"""
    for job in drawn(12, 50):
        h, f, d = job["hidden_size"], job["ffn_hidden_size"], job["head_size"]
        heads, kv = job["attention_heads"], job["kv_heads"]
        shapes = [(h, heads * d), (h, kv * d), (h, kv * d), (heads * d, h), (h, f), (h, f), (f, h)]
        weights = [jnp.ones((LAYERS, *shape), jnp.bfloat16) for shape in shapes]
        x = jnp.ones((TOKENS, h), jnp.bfloat16)
        policy = jax.checkpoint_policies.save_only_these_names(*KEPT)
        again = []
        for run in (block, jax.checkpoint(block, policy=policy, static_argnums=(2, 3))):
            y, backward = jax.vjp(partial(stacked, run, heads, kv), x, weights)
            again.append(products(jax.make_jaxpr(backward)(y).jaxpr))
        kept = [leaf for leaf in jax.tree_util.tree_leaves(backward) if leaf.ndim > 1]
        size = sum(leaf.nbytes for leaf in kept) - sum(leaf.nbytes for leaf in weights)
        names = ["activation_memory_per_layer", "matrix_recompute_passes"]
        names += ["attention_recompute_passes"]
        got = values(names, **job, recompute="products")
        yield got["activation_memory_per_layer"], size / LAYERS
        yield got["matrix_recompute_passes"], 0.0
        attention = 4 * TOKENS * TOKENS * heads * d
        yield got["attention_recompute_passes"], (again[1] - again[0]) / attention


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
    "unread_product_copies_compile_false product_layer_activation_memory "
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


@check(
    "product_layer_recompute_time product_layer_activation_memory",
    by="derivation",
    source="roofline of what runs again: products at a peak, the rest through memory",
    tolerance=1e-12,
)
def time_again() -> Pairs:
    """24 drawn layers on a GPU whose products take no time, on one whose memory takes none"""
    perfect: dict[str, Any] = {"compute_model": "roofline", "gemm_half_size": 0.0}
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
            scores = 2 * TOKENS * TOKENS * a * d * attention  # those below the diagonal
            yield ours, (2 * TOKENS * matrices + scores) / 1e15
        ours = values([name], **run, **fast, recompute="products")[name]
        turned = 2 * (a + kv) * d  # queries and keys
        yield ours, TOKENS * 2 * (2 * 2 * h + 2 * 3 * h + 3 * f + turned) / 1e12
        names = ["layer_activation_memory", "ffn_gradients_memory"]
        got = values(names, **run, recompute="products")
        peak = got["layer_activation_memory"] - got["ffn_gradients_memory"]
        yield peak, 2 * TOKENS * (h + a * d + h + f)  # of norm, attention, norm, activation
