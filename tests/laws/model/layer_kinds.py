"""Kinds of layers: tensors, products and arrays of each block, states computed in chunks."""

from typing import Any

import numpy as np

from fleetcube.catalog import record
from fleetcube.scenario.patterns import counts

from ... import formulas
from ...evaluated import ENDS, value, values
from ..check import Pairs, check
from ..compute.layers import START, Gpu, feed_forward, route

# Sizes of a mixer with a state: heads, their width, heads of keys, width of keys
STATE = {"H": 8, "P": 64, "G": 4, "N": 32}
WIDE = {"H": 4, "P": 64, "G": 4, "N": 64}  # as many heads of keys as of values
HIDDEN, HEADS, KV, SIZE, FFN, VOCABULARY = 512, 8, 2, 64, 1536, 4096
EXPERTS, VISITED, SHARED, NARROW, EXPERT_FFN = 16, 3, 2, 128, 256
MIXTURE = {
    "experts": EXPERTS, "experts_per_token": VISITED, "shared_experts": SHARED,
    "expert_ffn_hidden_size": EXPERT_FFN, "expert_input_width": NARROW,
}  # fmt: skip
PATTERNS = ("M-M*-M-", "MEM*EME*-", "M*M*", "MMEE")


def sizes(kind: str) -> dict[str, int]:
    return STATE if kind in ("mamba2", "gated_deltanet") else WIDE


def shape(kind: str, pattern: str, **more: Any) -> dict[str, Any]:
    of = sizes(kind)
    return {
        **counts(pattern),
        "linear_attention": kind,
        "linear_heads": of["H"],
        "linear_head_size": of["P"],
        "linear_key_heads": of["G"],
        "linear_state_size": of["N"],
        "linear_chunk_size": 32,
        "hidden_size": HIDDEN,
        "attention_heads": HEADS,
        "kv_heads": KV,
        "head_size": SIZE,
        "ffn_hidden_size": FFN,
        "gated_ffn": True,
        "vocab_size": VOCABULARY,
        **(MIXTURE if "E" in pattern else {}),
        **more,
    }


# Weights


def mixer_tensors(kind: str) -> dict[str, tuple[int, ...]]:
    """Tensors of a mixer with a state, as weight files name and shape them."""
    of, h = sizes(kind), HIDDEN
    inner, keys, heads = of["H"] * of["P"], of["G"] * of["N"], of["H"]
    if kind == "mamba2":
        return {
            "in_proj": (inner + inner + keys + keys + heads, h),  # z, x, B, C, dt
            "conv1d.weight": (inner + 2 * keys, 1, 4),
            "conv1d.bias": (inner + 2 * keys,),
            "A_log": (heads,),
            "D": (heads,),
            "dt_bias": (heads,),
            "norm": (inner,),
            "out_proj": (h, inner),
        }
    if kind == "gated_deltanet":
        return {
            "in_proj_qkvz": (2 * keys + 2 * inner, h),
            "in_proj_ba": (2 * heads, h),
            "conv1d.weight": (2 * keys + inner, 1, 4),
            "A_log": (heads,),
            "dt_bias": (heads,),
            "norm": (of["P"],),
            "out_proj": (h, inner),
        }
    if kind == "lightning":
        return {
            "qkv_proj": (3 * inner, h),
            "output_gate": (inner, h),
            "norm": (inner,),
            "out_proj": (h, inner),
        }
    return {
        **{f"{name}_proj": (inner, h) for name in "qkv"},
        **{f"{name}_conv1d": (inner, 1, 4) for name in "qkv"},
        "b_proj": (heads, h),
        "A_log": (heads,),
        "dt_bias": (inner,),
        "f_a_proj": (of["P"], h),
        "f_b_proj": (inner, of["P"]),
        "g_a_proj": (of["P"], h),
        "g_b_proj": (inner, of["P"]),
        "o_norm": (of["P"],),
        "o_proj": (h, inner),
    }


def block_tensors(letter: str, kind: str) -> dict[str, tuple[int, ...]]:
    """Tensors of the block that a letter of a pattern stands for, with its norm."""
    h = HIDDEN
    norm = {"norm_in": (h,)}
    if letter == "M":
        return norm | mixer_tensors(kind)
    if letter == "*":
        kv = dict.fromkeys(("k", "v"), (KV * SIZE, h))
        return norm | {"q": (HEADS * SIZE, h), **kv, "o": (h, HEADS * SIZE)}
    if letter == "-":
        return norm | {"gate": (FFN, h), "up": (FFN, h), "down": (h, FFN)}
    made: dict[str, tuple[int, ...]] = {"router": (EXPERTS, h)}
    made |= {"to_latent": (NARROW, h), "from_latent": (h, NARROW)}
    for expert in range(EXPERTS):
        made |= {f"{name}{expert}": (EXPERT_FFN, NARROW) for name in ("gate", "up", "down")}
    for name in ("gate", "up", "down"):
        made[f"shared_{name}"] = (SHARED * EXPERT_FFN, h)
    return norm | made


def elements(tensors: dict[str, tuple[int, ...]], matrices: bool | None = None) -> int:
    """Parameters of all tensors, of the matrices, or of the others."""
    return sum(
        int(np.prod(dims))
        for dims in tensors.values()
        if matrices is None or (len(dims) == 2) is matrices
    )


@check(
    "mamba2_parameters_per_layer gated_deltanet_parameters_per_layer "
    "lightning_parameters_per_layer kimi_delta_parameters_per_layer mamba2_vector_parameters "
    "gated_deltanet_vector_parameters kimi_delta_vector_parameters short_linear_convolution_width",
    by="derivation",
    source="tensors of a mixer as the weight files of Nemotron-H, Qwen3-Next, MiniMax-Text-01 and "
    "Kimi Linear name them",
)
def mixers_tensor_by_tensor() -> Pairs:
    """a mixer of each kind: its matrices, and its other parameters"""
    for kind in ("mamba2", "gated_deltanet", "lightning", "kimi_delta"):
        tensors = mixer_tensors(kind)
        given = shape(kind, "M*-")
        yield value("linear_parameters_per_layer", **given), elements(tensors, True)
        yield value("linear_vector_parameters", **given), elements(tensors, False)
        convolved = sum(dims[0] for dims in tensors.values() if len(dims) == 3)
        yield value("linear_convolution_width", **given), convolved


@check(
    "mixed_parameters mixed_non_matmul_parameters expert_layers expert_latent_parameters "
    "latent_expert_parameters mixer_and_ffn_blocks mixed_layer_matrix_share",
    by="derivation",
    source="tensors of every block of a pattern, letter by letter",
)
def patterns_tensor_by_tensor() -> Pairs:
    """four patterns of two kinds of states, dense and with experts; all parameters, visited ones"""
    for kind in ("mamba2", "kimi_delta"):
        for pattern in PATTERNS:
            blocks = [block_tensors(letter, kind) for letter in pattern]
            everything = sum(map(elements, blocks)) + HIDDEN + 2 * VOCABULARY * HIDDEN
            given = shape(kind, pattern)
            yield value("parameters", **given), everything
            idle = (EXPERTS - VISITED) * 3 * EXPERT_FFN * NARROW * pattern.count("E")
            yield value("active_parameters", **given), everything - idle
            vectors = sum(elements(block, False) for block in blocks)
            yield (value("looked_up_parameters", **given), vectors + HIDDEN + VOCABULARY * HIDDEN)
            yield value("mixer_and_ffn_blocks", **given), len(pattern)
            products = sum(map(elements, blocks)) - vectors
            yield value("layer_matrix_share", **given), products / everything


@check(
    "some_leading_dense_layers",
    by="derivation",
    source="tensors of the blocks of each stage, where all stages hold the same letters",
)
def stages_of_patterns() -> Pairs:
    """four stages with the same letters, dense and with experts: the first, with its embedding"""
    for letters in ("M-*-", "MEM*"):
        stage = sum(elements(block_tensors(letter, "mamba2")) for letter in letters)
        run = {"pipeline_parallel": 4, "n_gpus": 4, "vocab_size": 64}
        ours = value("held_parameters", **{**shape("mamba2", letters * 4), **run})
        yield ours, stage + 64 * HIDDEN + HIDDEN / 4  # the last norm counts with the layers


@check(
    "mixed_parameters mixed_non_matmul_parameters mamba2_parameters_per_layer "
    "gated_deltanet_parameters_per_layer lightning_parameters_per_layer "
    "kimi_delta_parameters_per_layer",
    by="table",
    source="billions of parameters that model cards and reports print: Nemotron-H, Nemotron 3, "
    "Qwen3-Next, MiniMax-01",
    tolerance=6e-3,
)
def hybrids_as_published() -> Pairs:
    """seven models from their shapes alone, and MiniMax-01's 45.9 billion for one token"""
    for label, printed in (
        ("nemotron-h-47b", 47.0),
        ("nemotron-h-56b", 56.0),
        ("nemotron-3-nano", 31.6),
        ("nemotron-3-super", 120.6),
        ("nemotron-3-ultra", 550.0),
        ("qwen-3-next-80b-a3b", 80.0),
        ("minimax-01", 456.0),
    ):
        known = record("model", label).values
        stated = ("parameters", "training_tokens")
        given = {name: entry for name, entry in known.items() if name not in stated}
        yield value("parameters", **given) / 1e9, printed
    embeddings = 2 * given["vocab_size"] * given["hidden_size"]
    yield (value("active_parameters", **given) - embeddings) / 1e9, 45.9


# States in chunks: every product is counted, and outputs are those of the recurrence


class Counter:
    def __init__(self) -> None:
        self.operations = 0.0

    def times(self, a: Any, b: Any, share: float = 1.0) -> Any:
        """a b; a kernel may compute a share of a triangular one."""
        self.operations += 2 * share * a.shape[-2] * a.shape[-1] * b.shape[-1]
        return a @ b


def mamba2_in_chunks(draw: np.random.Generator, chunk: int, tokens: int) -> float:
    """Operations of a Mamba-2 layer: B and C are shared by the heads of a group."""
    of, counter = STATE, Counter()
    h, p, g, n = of["H"], of["P"], of["G"], of["N"]
    x = draw.normal(size=(tokens, h, p))
    b, c = draw.normal(size=(2, tokens, g, n))
    decay = draw.uniform(0.8, 1.0, size=(tokens, h))
    out, states = np.zeros((tokens, h, p)), np.zeros((h, n, p))
    for start in range(0, tokens, chunk):
        part = slice(start, start + chunk)
        scores = [counter.times(c[part, k], b[part, k].T) for k in range(g)]
        for head in range(h):
            k = head * g // h
            log = np.cumsum(np.log(decay[part, head]))
            mask = np.tril(np.exp(log[:, None] - log[None, :]))
            inside = counter.times(scores[k] * mask, x[part, head], share=0.5)
            before = counter.times(np.exp(log)[:, None] * c[part, k], states[head])
            out[part, head] = inside + before
            left = np.exp(log[-1] - log)[:, None] * b[part, k]
            states[head] = np.exp(log[-1]) * states[head] + counter.times(left.T, x[part, head])
    state = np.zeros((h, n, p))
    for token in range(tokens):
        for head in range(h):
            k = head * g // h
            state[head] = decay[token, head] * state[head] + np.outer(b[token, k], x[token, head])
            np.testing.assert_allclose(out[token, head], c[token, k] @ state[head], atol=1e-9)
    return counter.operations


def delta_in_chunks(draw: np.random.Generator, chunk: int, tokens: int) -> float:
    """Operations of one head of the gated delta rule, with the WY representation of a chunk."""
    p, n, counter = WIDE["P"], WIDE["N"], Counter()
    q, k = draw.normal(size=(2, tokens, n))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    v, strength = draw.normal(size=(tokens, p)), draw.uniform(0, 1, size=tokens)
    decay = draw.uniform(0.9, 1.0, size=tokens)
    out, state = np.zeros((tokens, p)), np.zeros((n, p))
    for start in range(0, tokens, chunk):
        part = slice(start, start + chunk)
        log = np.cumsum(np.log(decay[part]))
        between = np.tril(np.exp(log[:, None] - log[None, :]))
        past = np.exp(log)[:, None]
        weighted = strength[part, None] * k[part]
        lower = np.tril(counter.times(weighted, k[part].T) * between, -1)
        inverse = np.linalg.inv(np.eye(chunk) + lower)
        counter.operations += chunk**3 / 3  # of a triangular matrix
        keys = counter.times(inverse, weighted * past)
        new = counter.times(inverse, strength[part, None] * v[part])
        new = new - counter.times(keys, state)
        scores = counter.times(q[part], k[part].T) * between
        out[part] = counter.times(scores, new) + counter.times(past * q[part], state)
        left = np.exp(log[-1] - log)[:, None] * k[part]
        state = np.exp(log[-1]) * state + counter.times(left.T, new)
    state = np.zeros((n, p))
    for token in range(tokens):
        state = decay[token] * state
        change = strength[token] * (v[token] - k[token] @ state)
        state = state + np.outer(k[token], change)
        np.testing.assert_allclose(out[token], q[token] @ state, atol=1e-9)
    return counter.operations


def lightning_in_blocks(draw: np.random.Generator, block: int, tokens: int) -> float:
    """Operations of one head of lightning attention."""
    p, n, counter = WIDE["P"], WIDE["N"], Counter()
    q, k = draw.normal(size=(2, tokens, n))
    v, out, state = draw.normal(size=(tokens, p)), np.zeros((tokens, p)), np.zeros((n, p))
    for start in range(0, tokens, block):
        part = slice(start, start + block)
        scores = np.tril(counter.times(q[part], k[part].T))
        out[part] = counter.times(scores, v[part]) + counter.times(q[part], state)
        state = state + counter.times(k[part].T, v[part])
    np.testing.assert_allclose(out, np.tril(q @ k.T) @ v, atol=1e-9)
    return counter.operations


@check(
    "mamba2_state_flops_per_token delta_state_flops_per_token lightning_state_flops_per_token",
    by="simulator",
    source="the algorithms of the papers, run in chunks with every product counted; outputs agree "
    "with the recurrence, token by token",
)
def states_in_chunks() -> Pairs:
    """Mamba-2, gated delta rule and lightning attention, chunks of 16 and 64 tokens"""
    draw = np.random.default_rng(0)
    for chunk in (16, 64):
        more = {"linear_chunk_size": chunk}
        done = mamba2_in_chunks(draw, chunk, 128) / 128
        yield value("linear_state_flops_per_token", **shape("mamba2", "M-", **more)), done
        done = WIDE["H"] * delta_in_chunks(draw, chunk, 128) / 128
        yield value("linear_state_flops_per_token", **shape("kimi_delta", "M-", **more)), done
        done = WIDE["H"] * lightning_in_blocks(draw, chunk, 128) / 128
        yield value("linear_state_flops_per_token", **shape("lightning", "M-", **more)), done


@check(
    "mamba2_state_flops_per_token delta_state_flops_per_token",
    by="peer",
    source="Megatron-LM, megatron/training/training.py, num_floating_point_operations (7 H P N for "
    "Mamba-2, 8 H P N for gated DeltaNet: the recurrences, token by token)",
    tolerance=0.45,
)
def states_as_megatron_counts() -> Pairs:
    """Nemotron-H 8B in chunks of 128, Qwen3-Next in chunks of 64"""
    mamba, delta = {"model": "nemotron-h-8b"}, {"model": "qwen-3-next-80b-a3b"}
    yield value("linear_state_flops_per_token", **mamba), 7 * 128 * 64 * 128
    yield value("linear_state_flops_per_token", **delta), 8 * 32 * 128 * 128


@check(
    "layer_matrix_flops_per_token",
    by="peer",
    source="Megatron-LM, megatron/training/training.py, num_floating_point_operations: mamba, "
    "attention, mlp and moe layers, logits",
    tolerance=0.02,
)
def steps_as_megatron_counts() -> Pairs:
    """operations of one token of 8,192: Nemotron-H 8B and 56B, Nemotron 3 Nano, Super and Ultra"""
    models = [f"nemotron-{name}" for name in ("h-8b", "h-56b", "3-nano", "3-super", "3-ultra")]
    for label in models:
        run = {"sequence_length": 8192, "flops_counting": "transformer_causal"}
        yield value("model_flops_per_token", **named(label), **run), megatron_flops(label)


def named(label: str) -> dict[str, Any]:
    """The shape of a catalog model without its stated parameter counts."""
    known = record("model", label).values
    left = ("parameters", "training_tokens", "sequence_length")
    return {name: entry for name, entry in known.items() if name not in left}


def megatron_flops(label: str) -> float:
    """Operations of one token, forward and backward, as Megatron-LM counts them."""
    of: dict[str, Any] = named(label)
    of = {**of, **(counts(of["layer_pattern"]) if "layer_pattern" in of else {})}
    h, inner = of["hidden_size"], of["linear_heads"] * of["linear_head_size"]
    groups = 2 * of["linear_key_heads"] * of["linear_state_size"]
    mamba = 2 * h * (2 * inner + groups + of["linear_heads"]) + 2 * inner * h
    mamba += 7 * inner * of["linear_state_size"]
    p = of["head_size"] * of["attention_heads"] / h
    attention = 4 * h * p * h * (1 + of["kv_heads"] / of["attention_heads"]) + 2 * 8192 * h * p
    dense = 4 * of["ffn_hidden_size"] * h
    routed = 0.0
    if "expert_ffn_hidden_size" in of:
        w, f = of.get("expert_input_width", h), of["expert_ffn_hidden_size"]
        routed = 4 * w * f * of["experts_per_token"] + (4 * h * w if w < h else 0)
        routed += 4 * h * of["shared_experts"] * f
    mixers = of["attention_layers"] * attention + of["linear_layers"] * mamba
    moe = of["ffn_layers"] - of["dense_layers"]
    return 3 * (mixers + of["dense_layers"] * dense + moe * routed + 2 * h * of["vocab_size"])


# Times, arrays and messages, block by block

TOKENS, T = 2048, 2


def block(letter: str) -> tuple[Gpu, float]:
    """A GPU after the forward pass of a Mamba-2 hybrid's block, and its saved activations [B]."""
    gpu, h, of = Gpu(), HIDDEN, STATE
    saved = 0.0
    gpu.move("elementwise", *[TOKENS * h] * 5)  # norm: read, written; residual: two reads, a write
    saved += 2 * TOKENS * 2 * h  # inputs of the norm and of what follows
    if letter == "M":
        inner, keys, heads = of["H"] * of["P"] // T, of["G"] * of["N"] // T, of["H"] // T
        projected = 2 * inner + 2 * keys + heads
        gpu.multiply("projections", (TOKENS, projected, h))
        gpu.multiply("projections", (TOKENS, h, inner))
        per_token = 32 * (2 * keys + inner) + 4 * of["N"] * inner
        rate = 0.08 * gpu.peak  # of kernels in Triton
        compute = TOKENS * per_token / rate
        passed = 4 * 4 * of["N"] * inner * TOKENS / 32  # written, read, written, read in FP32
        moved = 2 * TOKENS * (inner + 2 * keys + inner) + passed  # x, B, C read, y written
        gpu.take("state", max(compute, moved / gpu.bandwidth))
        gpu.move("state", *[TOKENS * (inner + 2 * keys)] * 2)  # convolution: read, written
        gpu.move("state", *[TOKENS * inner] * 3)  # gate and y read, their product written
        gpu.move("state", *[TOKENS * inner] * 2)  # norm: read, written
        # Backward: C by B, states and the gradient of outputs by inputs once more; the convolution
        # again, its outputs read, states written, read and written
        compute -= TOKENS * 2 * of["N"] * inner / rate
        channels = inner + 2 * keys
        again = max(compute, (2 * TOKENS * channels + passed * 3 / 4) / gpu.bandwidth)
        gpu.seconds["states again"] = again + 2 * TOKENS * 2 * channels / gpu.bandwidth
        saved += 2 * TOKENS * (projected + inner + inner)
    elif letter == "*":
        queries, keys = HEADS // T, KV // T
        gpu.multiply("projections", (TOKENS, (queries + 2 * keys) * SIZE, h))
        gpu.multiply("projections", (TOKENS, h, queries * SIZE))
        gpu.move("elementwise", *[TOKENS * (queries + keys) * SIZE] * 2)  # turned by positions
        visited = TOKENS / 2 + 560  # under the diagonal, and what edges of its blocks cost
        gpu.take("attention", 4 * TOKENS * visited * queries * SIZE / (0.5 * gpu.peak))
        saved += 2 * TOKENS * SIZE * (2 * queries + 2 * keys)
    elif letter == "-":
        for product in feed_forward(TOKENS, h, FFN / T):
            gpu.multiply("ffn", product)
        gpu.move("elementwise", *[TOKENS * FFN / T] * 3)
        saved += 2 * TOKENS * 3 * FFN / T
    else:
        begun = gpu.clock
        gpu.multiply("ffn", (TOKENS, NARROW, h))
        gpu.multiply("ffn", (TOKENS, h, NARROW))
        for _ in range(EXPERTS):
            for product in feed_forward(TOKENS * VISITED / EXPERTS, NARROW, EXPERT_FFN / T):
                gpu.take("ffn", START)
                gpu.multiply("ffn", product)
        products = gpu.clock - begun
        for _ in range(SHARED):
            for product in feed_forward(TOKENS, h, EXPERT_FFN / T):
                gpu.multiply("ffn", product)
        visited = (VISITED + SHARED) * EXPERT_FFN / T
        gpu.move("elementwise", *[TOKENS * visited] * 3)
        route(gpu, TOKENS, h, EXPERTS, VISITED, NARROW)
        weights = EXPERTS * 3 * NARROW * EXPERT_FFN / T  # whose gradients are read and written
        gpu.seconds["sums"] = max(0.0, weights * 2 * 2 / gpu.bandwidth - products)
        saved += 2 * TOKENS * (VISITED * NARROW + 3 * visited)
    return gpu, saved


@check(
    "triton_state_kernel_flops",
    by="table",
    source="vLLM, pull request 27299: tokens a second of Mamba-2's five kernels in Triton on one "
    "H100",
    tolerance=0.04,
)
def states_in_triton() -> Pairs:
    """4,096, 8,192 and 16,384 tokens of 128 heads"""
    inner, states, chunk = 128 * 64, 128, 256  # 128 heads of 64, one group
    operations = chunk * (2 * states + inner) + 4 * states * inner  # half of the mask's blocks
    for tokens_per_second in (12.06409e6, 12.62327e6, 12.92440e6):
        yield formulas.triton_state_kernel_flops(989e12), tokens_per_second * operations


@check(
    "triton_state_kernel_flops",
    by="table",
    source="cuLA, BENCHMARK_H200.md, BENCHMARK_GB200.md and BENCHMARK_GB300.md: Kimi Delta "
    "Attention in Triton, 64 heads of 128 elements, two sequences of 16,384 tokens, in 6.94, 5.34 "
    "and 5.51 ms",
    tolerance=0.45,
)
def delta_states_in_triton() -> Pairs:
    """three GPUs; Mamba-2's rate, assumed of this kind: furthest off on the H200"""
    heads, width, chunk = 64, 128, 64
    inside = chunk * (10 * width + chunk / 3)  # products of chunks, and a triangular inverse
    operations = heads * (inside + 6 * width * width) * 2 * 16384
    for peak, seconds in ((989e12, 6.9413e-3), (2.5e15, 5.340e-3), (2.5e15, 5.510e-3)):
        yield formulas.triton_state_kernel_flops(peak), operations / seconds


@check(
    "lightning_state_kernel_flops",
    by="table",
    source="cuLA, BENCHMARK_GB200.md and BENCHMARK_GB300.md: Lightning Attention in Triton, 64 "
    "heads of 128 elements, two sequences of 16,384 tokens, in 1.129 and 1.175 ms",
    tolerance=0.05,
)
def lightning_states_in_triton() -> Pairs:
    """operations of blocks of 256 tokens, as counted here"""
    heads, width, chunk = 64, 128, 256
    operations = heads * (4 * chunk * width + 4 * width * width) * 2 * 16384
    for seconds in (1.129e-3, 1.175e-3):
        yield formulas.lightning_state_kernel_flops(2.5e15), operations / seconds


@check(
    "linear_projection_time linear_state_time mixed_layer_matrix_time elementwise_time "
    "mixed_state_recompute_time "
    "latent_expert_ffn_time latent_projection_time latent_routed_ffn_time "
    "linear_activations_per_token mixer_activations_per_token windowed_causal_attention_span",
    by="simulator",
    source="products done, arrays moved and arrays kept of each block of a pattern, on one clock",
)
def blocks_on_one_clock() -> Pairs:
    """four patterns on two tensor ranks: a micro-batch forward, backward and the bytes it keeps"""
    for pattern in PATTERNS:
        run = {"n_gpus": 2, "tensor_parallel": T, "sequence_length": TOKENS}
        run |= {"num_microbatches": 1, "compute_model": "roofline", "logits_time": 0.0}
        run |= {"peak_flops": 989e12, "attention_peak_flops": 989e12, "hbm_bandwidth": 3.35e12}
        names = ["compute_time", "activation_memory_per_layer"]
        got = values(names, **shape("mamba2", pattern), **run, recompute=False)
        blocks = [block(letter) for letter in pattern]
        busy = sum(3 * gpu.clock + 0.5 * gpu.seconds.get("attention", 0.0) for gpu, _ in blocks)
        busy -= sum(gpu.seconds.get("routing", 0.0) for gpu, _ in blocks)  # as much backward
        busy += sum(gpu.seconds.get("sums", 0.0) for gpu, _ in blocks)
        busy += sum(gpu.seconds.get("states again", 0.0) for gpu, _ in blocks)
        yield got["compute_time"], busy
        yield got["activation_memory_per_layer"], sum(kept for _, kept in blocks) / len(pattern)


@check(
    "ffn_gradients_memory",
    by="derivation",
    source="gradients of the block whose activations are widest, of all blocks of a pattern",
)
def widest_blocks() -> Pairs:
    """patterns with one kind of feed-forward block, wide and narrow"""
    for pattern, wide in (("M-M*-M-", FFN), ("M-M*-M-", 64), ("M*M*", 0)):
        given = shape("mamba2", pattern, ffn_hidden_size=wide or FFN)
        run = {"tensor_parallel": T, "sequence_length": TOKENS, "micro_batch_size": 1}
        of = STATE
        inner, keys = of["H"] * of["P"], of["G"] * of["N"]
        state = (2 * inner + 2 * keys + of["H"] + 2 * inner) / T
        feed = HIDDEN + 3 * wide / T
        yield value("ffn_gradients_memory", **given, **run), 2 * TOKENS * max(state, feed)


@check(
    "shared_layer_exchange_time mixed_context_message linear_state_message latent_expert_message",
    by="simulator",
    source="messages of every block of a pattern, summed",
)
def messages_of_blocks() -> Pairs:
    """four patterns: all-reduces of a step, bytes sent round a ring, bytes sent to experts"""
    for pattern in PATTERNS:
        given = shape("mamba2", pattern) | {"sequence_length": TOKENS, "micro_batch_size": 2}
        run = {"tensor_parallel": T, "num_microbatches": 3, "tensor_parallel_exchange_time": 1e-3}
        run |= ENDS
        waits = sum(3 * 1e-3 for _ in pattern for _ in ("forward", "backward"))
        yield value("shared_layer_exchange_time", **given, **run), waits
        sent = 0.0
        for letter in pattern:
            if letter == "*":
                sent += 2 * 2 * (2 * TOKENS // 4) * SIZE * KV / T  # two bytes; keys and values
            if letter == "M":
                sent += 4 * 2 * STATE["H"] / T * STATE["P"] * STATE["N"]  # FP32, two sequences
        ring = {"tensor_parallel": T, "context_parallel": 4}
        yield value("context_message", **given, **ring), sent / len(pattern)
        if "E" in pattern:
            sent = 2 * 2 * TOKENS * NARROW * VISITED
            yield value("expert_message", **given), sent
            uneven = {"expert_load_imbalance": 1.5, "expert_parallel": 2}
            yield value("expert_message", **given, **uneven), 1.5 * sent


@check(
    "recurrent_linear_state_bytes kv_cache_bytes_per_token request_kv_cache decode_bytes "
    "windowed_cached_tokens windowed_decode_context",
    by="simulator",
    source="caches of every layer of a request, token by token",
)
def caches_of_layers() -> Pairs:
    """a request of 100 and 30 tokens on two patterns: caches at its end, bytes of a mean step"""
    of = STATE
    state = of["H"] * of["P"] * of["N"] + 3 * (of["H"] * of["P"] + 2 * of["G"] * of["N"])
    for pattern in ("M-M*-M-", "M*M*"):
        given = shape("mamba2", pattern) | {"prompt_tokens": 100, "output_tokens": 30}
        kept = states = 0.0
        for letter in pattern:
            kept += 130 * 2 * KV * SIZE * 2 if letter == "*" else 0
            states += state * 2 if letter == "M" else 0
        yield value("request_kv_cache", **given), kept + states
        yield value("linear_state_bytes", **given), states
        yield 130 * value("kv_cache_bytes_per_token", **given), kept
        weights = value("decode_weights_bytes", **given, tensor_parallel=2)
        read = sum(2 * KV * SIZE * 2 * (100 + step) for step in range(29)) / 29
        read *= pattern.count("*")
        ours = value("decode_bytes", **given, tensor_parallel=2, serving_batch_size=5)
        yield ours, weights + 5 * (read / 2 + 2 * states / 2)


@check(
    "mixed_layer_kinds_reason plain_layer_kinds_reason arrangement_reason",
    by="derivation",
    source="layers of each kind put into a row, one after the other",
)
def kinds_in_a_row() -> Pairs:
    """numbers of layers with attention, a state and a feed-forward block, 0 to 5 of 4"""
    for states in range(6):  # of no kind
        yield formulas.plain_layer_kinds_reason(states), 0 if states == 0 else 26
    for attention in range(-1, 6):
        for states in range(6):
            for blocks in range(6):
                fits = attention >= 0 and attention + states <= 4 and blocks <= 4
                given = {"layers": 4, "linear_layers": states, "linear_heads": 6}
                given |= {"attention_layers": attention, "ffn_layers": blocks}
                for t in (2, 4):
                    run = {**given, "tensor_parallel": t, "head_sharing_ranks": 1}
                    ours = formulas.mixed_layer_kinds_reason(**run, attending_layers=attention)
                    yield ours, (7 if t == 4 else 0) if fits else 26
                    everywhere = formulas.mixed_layer_kinds_reason(**run, attending_layers=4)
                    yield everywhere, ours if attention == 4 else 26
                    for layout, memory in ((0, 1.0), (3, 1.0), (0, 9.0), (3, 9.0)):
                        laid = formulas.arrangement_reason(layout, 0.0, ours, *[0.0] * 11)
                        grave = formulas.capacity_reason(laid, memory, 8.0)
                        yield grave, layout or int(ours) or (10 if memory > 8 else 0)
