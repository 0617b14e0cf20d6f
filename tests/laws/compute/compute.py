"""Operations counted independently: query-key pairs, matrix by matrix, published tables."""

import itertools
import math
from typing import Any

import numpy as np

from ... import formulas
from ...evaluated import computed, value, values
from ..check import Pairs, check


def pairs_seen(sequence: int, window: int) -> int:
    """Query-key pairs, one by one: keys neither later than the query nor before its window."""
    return sum(
        1
        for query in range(sequence)
        for key in range(sequence)
        if key <= query and query - key < window
    )


@check(
    "windowed_causal_attention_span windowed_layer_span full_layer_span",
    by="derivation",
    source="every pair of a query and a key under the mask, counted one by one",
)
def keys_of_a_query() -> Pairs:
    """sequences of 1 to 96 tokens, windows of 1 to 200, 0 to 6 of 6 layers windowed"""
    for sequence in (1, 2, 7, 32, 96):
        whole = pairs_seen(sequence, sequence) / sequence
        yield formulas.full_layer_span(sequence) + 0.5, whole
        for window in (1, 2, 5, 32, 95, 96, 97, 200):
            band = pairs_seen(sequence, window) / sequence
            width = min(window, sequence)
            seen = formulas.windowed_layer_span(sequence, window)
            for windowed in range(7):
                for layers in (6, 9):  # three more have a state instead of keys
                    shares = (windowed, 6, layers)
                    spans = formulas.full_layer_span(sequence), seen
                    ours = formulas.windowed_causal_attention_span(*spans, *shares)
                    # the law is continuous: w / (2 s) of a key short in a window, half without
                    ours += (windowed * width / (2 * sequence) + (6 - windowed) / 2) / layers
                    yield ours, (windowed * band + (6 - windowed) * whole) / layers


@check(
    "windowed_attention_span attention_span_sliding_window_false",
    by="derivation",
    source="columns of the band that each layer's attention has, layer by layer",
)
def keys_in_front() -> Pairs:
    """Gemma 2 (23 of 46 layers, 4096), gpt-oss (18 of 36, 128), Mistral (all, 4096)"""
    for layers, windowed, window in ((46, 23, 4096), (36, 18, 128), (32, 32, 4096)):
        for sequence in (64, 4096, 8192, 131072):
            columns = [min(window, sequence) if k < windowed else sequence for k in range(layers)]
            yield (
                formulas.windowed_attention_span(sequence, window, windowed, layers, layers),
                sum(columns) / layers,
            )
            some = formulas.windowed_attention_span(sequence, window, windowed, layers, 2 * layers)
            yield some, sum(columns) / (2 * layers)
            yield formulas.attention_span_sliding_window_false(sequence), sequence


GPTS = [(24, 2304, 24), (64, 8192, 48), (96, 12288, 80), (160, 25600, 128)]  # SC21, table 1


def gpt(heads: int, width: int, layers: int, **options: Any) -> dict[str, Any]:
    return {
        "attention_heads": heads,
        "hidden_size": width,
        "layers": layers,
        "vocab_size": 51200,
        "sequence_length": 2048,
        "global_batch_size": 512,
        **options,
    }


@check(
    "kernel_flops_per_token kernel_flops_per_step model_flops_per_step recompute_flops_factor "
    "attention_flops_per_token kernel_attention_span_attention_kernel_standard "
    "matrix_recompute_passes_recompute_full attention_recompute_passes_recompute_modules "
    "matrix_recompute_passes_recompute_false attention_recompute_passes_recompute_false",
    by="table",
    source="Narayanan et al. 2021, eq. 3 and appendix: 96 and 72 B s l h^2 (1 + s / 6h + ...)",
    tolerance=1e-12,
)
def operations_of_gpts() -> Pairs:
    """four shapes of SC21's table 1, with and without recomputing layers"""
    for shape in GPTS:
        _, h, layers = shape
        for recompute, factor, logits in ((False, 72, 12), ("full", 96, 16)):
            run = gpt(*shape, recompute=recompute, attention_kernel="standard")
            done = value("kernel_flops_per_step", **run) * value("recompute_flops_factor", **run)
            inner = 1 + 2048 / (6 * h) + 51200 / (logits * layers * h)
            yield done, factor * 512 * 2048 * layers * h * h * inner
            if recompute is False:
                reported = value("model_flops_per_step", flops_counting="transformer", **run)
                yield reported, factor * 512 * 2048 * layers * h * h * inner


def products(s: int, width: int, kernel: str, recompute: str | bool) -> float:
    """Operations of a head's attention products on a sequence, product by product."""
    one = 2 * s * s * width / (2 if kernel == "flash" else 1)
    forward, backward = ["q k", "p v"], ["dp", "dv", "dq", "dk"]
    if kernel == "flash":
        backward.append("q k")  # scores never reach memory
    again = {
        False: [],
        "selective": forward if kernel == "standard" else [],
        "modules": forward,
        "full": forward,
    }[recompute]
    return one * len(forward + backward + again)


@check(
    "recompute_flops_factor kernel_attention_span_attention_kernel_flash "
    "score_recompute_passes_attention_kernel_standard "
    "score_recompute_passes_attention_kernel_flash attention_recompute_passes_recompute_selective "
    "attention_flops_per_token",
    by="derivation",
    source="every matrix product of a layer listed: Dao 2023, algorithm 2 (five backward products)",
    tolerance=1e-12,
)
def products_of_a_layer() -> Pairs:
    """Llama 3 8B and 70B at 8k and 128k tokens, every recompute, both kernels"""
    for h, heads, groups, f, layers in ((4096, 32, 8, 14336, 32), (8192, 64, 8, 28672, 80)):
        for s in (8192, 131072):
            for kernel in ("standard", "flash"):
                for recompute in (False, "selective", "modules", "full"):
                    scenario = {
                        "hidden_size": h, "attention_heads": heads, "kv_heads": groups,
                        "ffn_hidden_size": f, "gated_ffn": True, "layers": layers,
                        "vocab_size": 128256, "sequence_length": s, "attention_kernel": kernel,
                        "recompute": recompute, "recompute_core_attn": 1,
                    }  # fmt: skip
                    ours = value("kernel_flops_per_token", **scenario)
                    ours *= value("recompute_flops_factor", **scenario)
                    matrices = [h * h, h * groups * 128, h * groups * 128, h * h] + [h * f] * 3
                    passes = 4 if recompute == "full" else 3
                    each = sum(passes * 2 * size for size in matrices)
                    each += heads * products(s, 128, kernel, recompute) / s
                    yield ours, layers * each + 3 * 2 * h * 128256


@check(
    "transformer_model_flops_per_token parameters_model_flops_per_token mfu model_flops_per_gpu "
    "ideal_compute_time",
    by="table",
    source="Chowdhery et al. 2022 (PaLM), section 4.1 and appendix B: 46.2 %, 45.7 % by 6 N",
    tolerance=2e-3,
)
def utilisation_of_palm() -> Pairs:
    """PaLM 540B on 6,144 TPU v4 at 238,300 tokens/s"""
    run = {
        "model": "palm-540b", "n_gpus": 6144, "peak_flops": 275e12, "global_batch_size": 2048,
        "step_time": 2048 * 2048 / 238.3e3,
    }  # fmt: skip
    for counting, mfu in (("transformer", 0.462), ("parameters", 0.457)):
        yield value("mfu", flops_counting=counting, **run), mfu
        yield value("model_flops_per_gpu", flops_counting=counting, **run), mfu * 275e12


@check(
    "mfu hfu recompute_flops_factor",
    by="table",
    source="Korthikanti et al. 2022, table 5: MFU of steps printed to 0.01 s (of 1.10 s, 22B)",
    tolerance=5e-3,
)
def utilisation_of_megatron() -> Pairs:
    """22B, 175B, 530B and 1T with selective recomputation"""
    rows = [
        (64, 6144, 48, 4, 8, 1.10, 0.415),
        (96, 12288, 96, 64, 64, 13.75, 0.514),
        (128, 20480, 105, 280, 280, 37.83, 0.560),
        (160, 25600, 128, 512, 512, 71.49, 0.563),
    ]
    for heads, h, layers, batch, gpus, seconds, mfu in rows:
        run = gpt(heads, h, layers) | {
            "global_batch_size": batch,
            "n_gpus": gpus,
            "step_time": seconds,
            "peak_flops": 312e12,
            "flops_counting": "transformer",
            "attention_kernel": "standard",
        }
        yield value("mfu", **run), mfu
        # the table's HFU counts 12 B s^2 h for recomputation; a forward pass is 4
        extra = 4 * 2048 * h * layers * batch * 2048 / (gpus * 312e12 * seconds)
        yield value("hfu", **run), mfu + extra


@check(
    "causal_model_flops_per_token",
    by="derivation",
    source="matrices of the shape and pairs under the mask, one by one",
    tolerance=1e-3,
)
def causal_operations() -> Pairs:
    """a Llama of two layers, 1,024 tokens, with and without a window of 100 in one layer"""
    h, heads, f, vocabulary, s = 512, 4, 1376, 1000, 1024
    shape = {
        "hidden_size": h, "attention_heads": heads, "ffn_hidden_size": f, "gated_ffn": True,
        "layers": 2, "vocab_size": vocabulary, "sequence_length": s,
        "flops_counting": "transformer_causal",
    }  # fmt: skip
    matrices = 2 * (4 * h * h + 3 * h * f) + h * vocabulary
    for window in (s, 100):
        seen = pairs_seen(s, s) + pairs_seen(s, window)
        given = {} if window == s else {"attention_window": window, "windowed_layers": 1}
        expected = 6 * matrices + 3 * 2 * 2 * h * seen / s
        yield value("model_flops_per_token", **shape, **given), expected


@check(
    "mixed_kernel_peak_flops nvfp4_peak_flops attention_peak_flops "
    "logits_peak_flops_precision_fp8 mfu_compute_time",
    by="derivation",
    source="each product of a step in the format that its recipe gives it, times added up",
    tolerance=1e-12,
)
def time_by_recipe() -> Pairs:
    """Llama 3 8B in every recipe and recompute at 8k and 128k tokens"""
    peaks = {"bf16": 1e15, "fp16": 1.1e15, "fp8": 2e15, "fp4": 4e15}
    h, f, layers, heads, words = 4096, 14336, 32, 32, 128256
    layer_matrix = h * h * 2 + 2 * h * 1024 + 3 * h * f
    recipes: list[tuple[str, list[tuple[float, str]], str]] = [
        ("bf16", [(1.0, "bf16")], "bf16"),
        ("fp16", [(1.0, "fp16")], "fp16"),
        ("fp8", [(1.0, "fp8")], "bf16"),
        ("fp8_blockwise", [(1.0, "fp8")], "bf16"),
        ("mxfp8", [(1.0, "fp8")], "bf16"),
        ("mxfp4", [(1.0, "fp4")], "bf16"),
        ("nvfp4", [(1.0, "fp4"), (0.0, "bf16")], "bf16"),
        ("nvfp4", [(0.85, "fp4"), (0.15, "bf16")], "bf16"),
    ]
    for recipe, linear, others in recipes:
        for recompute in (False, "full"):
            for s in (8192, 131072):
                passes = 4 if recompute == "full" else 3
                tokens = 64 * s
                seconds = sum(
                    share * passes * 2 * layers * layer_matrix * tokens / peaks[kind]
                    for share, kind in linear
                )
                attention = heads * products(s, 128, "flash", recompute) * layers * 64
                logits = 3 * 2 * h * words * tokens
                seconds += (attention + logits) / peaks[others]
                given = {"hidden_size": h, "attention_heads": heads, "kv_heads": 8}
                given |= {"ffn_hidden_size": f, "gated_ffn": True, "layers": layers}
                given |= {"vocab_size": words, "sequence_length": s, "global_batch_size": 64}
                given |= {"n_gpus": 16, "recompute": recompute, "precision": recipe}
                given |= {"flops_efficiency": 0.5}
                if recipe == "nvfp4":
                    given |= {"sixteen_bit_layers_share": linear[1][0]}
                given |= {**{f"peak_flops_{kind}": peak for kind, peak in peaks.items()}}
                ours = value("compute_time", **given)
                yield ours, seconds / 16 / 0.5


@check(
    "attention_peak_flops",
    by="derivation",
    source="tiles of matrix units, filled up with zeros, that attention's products pass through",
)
def tiles_of_attention() -> Pairs:
    """heads of 64, 128 and 256 through units of 16, 128 and 256"""
    for d, unit in itertools.product((64, 128, 256), (16, 128, 256)):
        tiles = math.ceil(512 / unit) ** 2 * math.ceil(d / unit)  # of 512 queries and keys
        seconds = 2 * 2 * tiles * unit**3 / 1e15
        done = 2 * 2 * 512 * 512 * d
        given = {"peak_flops_bf16": 1e15, "head_size": d, "matrix_unit_size": unit}
        yield value("attention_peak_flops", **given), done / seconds


@check(
    "expert_bytes_share dispatch_bytes_per_element_precision_fp8_blockwise expert_message",
    by="derivation",
    source="DeepSeek-AI 2024, section 3.3.3: all-to-alls of a layer in the formats they travel in",
)
def bytes_to_experts() -> Pairs:
    """DeepSeek-V3's layer: a token of 7,168 in FP8 with a scale for 128 to 8 experts, BF16 back"""
    there = 7168 + 7168 / 128 * 4
    back = 2 * 7168
    given = {"hidden_size": 7168, "sequence_length": 1, "micro_batch_size": 1, "experts": 256}
    given |= {"experts_per_token": 8, "precision": "fp8_blockwise"}
    ours = value("expert_message", **given)
    yield 4 * ours, 8 * (there + back + there + back)  # forward, and gradients the same way


def copies(rows: int, columns: int, form: str) -> tuple[float, float, float]:
    """Bytes of a matrix as sent, as kept for both passes, and as kept for products alone."""
    n = rows * columns
    if form == "nvfp4":  # two elements in a byte; a byte of scale to 16, along each side
        along = n / 2 + rows * (columns / 16)
        across = n / 2 + columns * (rows / 16)
        return n / 2, along + across, along
    if form.startswith("mx"):  # cast after they are sent; a byte of scale to 32, along each side
        data = n if form == "mxfp8" else n / 2
        along = data + rows * (columns / 32)
        return 2 * n, along + data + columns * (rows / 32), along
    if form == "fp8":  # with its transpose
        return n, n + n, n
    return 2 * n, 2 * n, 2 * n


@check(
    "quantised_weight_bytes_on_wire nvfp4_packed_weight_bytes layer_matrix_share "
    "block_two_way_bytes_per_element nvfp4_two_way_bytes_per_element "
    "serving_weight_bytes quantised_primary_weight_bytes",
    by="derivation",
    source="tensors of Llama 3 8B and 70B one by one: matrices of layers in few bits, with scales "
    "of each copy, the rest in two bytes",
)
def bytes_of_weights() -> Pairs:
    """Llama 3 8B and 70B in four formats, a quarter of the layers in 16 bits or none"""
    words = 128256
    for (h, f, layers, heads), (precision, sixteen) in itertools.product(
        ((4096, 14336, 32, 32), (8192, 28672, 80, 64)),
        (("fp8", 0.0), ("mxfp8", 0.0), ("mxfp4", 0.0), ("nvfp4", 0.25), ("nvfp4", 0.0)),
    ):
        sent = kept = served = n = 0.0
        for layer in range(layers):
            form = "bf16" if layer < sixteen * layers else precision
            for columns in (h, h, 1024, 1024, f, f, f):
                sizes = copies(h, columns, form)
                sent, kept, served = sent + sizes[0], kept + sizes[1], served + sizes[2]
                n += h * columns
        others = [h] * (2 * layers + 1) + [words * h] * 2
        given = {"precision": precision, "hidden_size": h, "attention_heads": heads, "kv_heads": 8}
        given |= {"ffn_hidden_size": f, "gated_ffn": True, "layers": layers, "vocab_size": words}
        given |= {"sixteen_bit_layers_share": sixteen, "tensor_parallel": 8, "n_gpus": 8}
        names = ("weight_bytes_on_wire", "trained_weight_bytes", "serving_weights_memory")
        ours = computed(given | {"zero_stage": 0}, *names, "weights_memory")
        n += sum(others)
        yield ours[0], (sent + 2 * sum(others)) / n
        yield ours[1], (kept + 2 * sum(others)) / n
        yield ours[2], (served + 2 * sum(others)) / 8
        yield ours[3], (kept + 2 * sum(others)) / 8


@check(
    "parameters gpt_non_matmul_parameters llama_non_matmul_parameters "
    "embedding_tables_gated_ffn_false untied_embedding_tables",
    by="table",
    source="released weights and reports: GPT-2, Llama 3, Mistral 7B, Gemma (tied), Gemma 2 (tied)",
    tolerance=2e-5,  # norms: the last one of GPT-2, two more a layer in Gemma 2
)
def parameters_of_models() -> Pairs:
    """five models, embeddings tied and untied"""
    llama = {"gated_ffn": True, "attention_heads": 32, "kv_heads": 8, "ffn_hidden_size": 14336}
    gemma = {"gated_ffn": True, "embedding_tables": 1, "vocab_size": 256000}
    run = {"layers": 48, "hidden_size": 1600, "attention_heads": 25, "vocab_size": 50257}
    run |= {"sequence_length": 1024}
    yield (value("parameters", **run), 1_557_611_200)
    yield (
        value("parameters", layers=32, hidden_size=4096, vocab_size=128256, **llama),
        8_030_261_248,
    )
    yield (
        value("parameters", layers=32, hidden_size=4096, vocab_size=32000, **llama),
        7_241_732_096,
    )
    given = {"layers": 28, "hidden_size": 3072, "attention_heads": 16, "head_size": 256}
    given |= {"ffn_hidden_size": 24576, **gemma}
    yield (value("parameters", **given), 8_537_680_896)
    given = {"layers": 46, "hidden_size": 4608, "attention_heads": 32, "kv_heads": 16}
    given |= {"head_size": 128, "ffn_hidden_size": 36864, **gemma}
    yield (value("parameters", **given), 26_047_480_320 + 256000 * 4608)


@check(
    "flash_attention_backward_ratio attention_backward_ratio_attention_kernel_standard",
    by="derivation",
    source="products of a backward pass over those of a forward pass, listed",
)
def backward_over_forward() -> Pairs:
    """both kernels"""
    for kernel, ours in (
        ("flash", formulas.flash_attention_backward_ratio(64, 64)),
        ("standard", formulas.attention_backward_ratio_attention_kernel_standard()),
    ):
        whole = products(64, 128, kernel, False)
        forward = products(64, 128, kernel, "modules") - whole
        yield ours, (whole - forward) / forward


@check(
    "flash_attention_backward_ratio recompute_flops_factor",
    by="simulator",
    source="algorithms 1 and 2 of Dao 2023 in blocks, every product counted; gradients agree with "
    "differences of the loss",
)
def latent_backward_over_forward() -> Pairs:
    """keys of 24 and values of 16, as DeepSeek-V3's 192 and 128, and equal and narrower ones"""
    rng = np.random.default_rng(4)
    for keys, values_, tokens in ((24, 16, 32), (16, 16, 32), (8, 24, 16)):
        q, k = rng.normal(size=(2, tokens, keys))
        v, given = rng.normal(size=(2, tokens, values_))
        done = {"forward": 0, "backward": 0}

        def times(a: Any, b: Any, passing: str, done: dict[str, int] = done) -> Any:
            done[passing] += 2 * a.shape[0] * a.shape[1] * b.shape[1]
            return a @ b

        def loss(q: Any, k: Any, v: Any, given: Any = given) -> float:
            scores = np.exp(q @ k.T)
            return float(np.sum(given * (scores / scores.sum(1, keepdims=True) @ v)))

        total, out = np.zeros((tokens, 1)), np.zeros((tokens, values_))
        for part in np.split(np.arange(tokens), 4):
            scores = np.exp(times(q, k[part].T, "forward"))
            total, out = (
                total + scores.sum(1, keepdims=True),
                out + times(scores, v[part], "forward"),
            )
        rows = np.sum(given * out / total, axis=1, keepdims=True)
        dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
        for part in np.split(np.arange(tokens), 4):
            shares = np.exp(times(q, k[part].T, "backward")) / total
            dv[part] = times(shares.T, given, "backward")
            change = shares * (times(given, v[part].T, "backward") - rows)
            dq += times(change, k[part], "backward")
            dk[part] = times(change.T, q, "backward")
        for at, gradient in enumerate((dq, dk, dv)):
            moved = [[q, k, v], [q, k, v]]
            for sign, operands in zip((1, -1), moved, strict=True):
                operands[at] = operands[at] + sign * 1e-5 * (
                    np.arange(operands[at].size) == 5
                ).reshape(operands[at].shape)
            slope = (loss(*moved[0]) - loss(*moved[1])) / 2e-5
            np.testing.assert_allclose(gradient.ravel()[5], slope, rtol=1e-4, atol=1e-7)
        ratio = done["backward"] / done["forward"]
        head = {"head_size": (keys + values_) / 2, "value_head_size": values_}
        yield value("attention_backward_ratio", **head), ratio
        job = {**head, "attention_kernel": "flash", "latent_attention": True, "layers": 1}
        job |= {"layer_matrix_flops_per_token": 0.0, "logits_flops_per_token": 0.0}
        job |= {"attention_heads": 4, "sequence_length": 64}
        yield value("recompute_flops_factor", **job), (1 + ratio) / 3


# ms of a layer's attention, forward and backward, in BF16 and in FP8, on GB200 and GB300; H200
CUDNN = {
    "llama-3-70b": (
        ((1.397, 4.127), (1.074, 3.781)),
        ((1.185, 3.832), (0.759, 3.087)),
        ((1.708, 5.083), (1.141, 6.392)),
    ),
    "deepseek-v3": (
        ((3.470, 11.984), (2.294, 7.296)),
        ((3.013, 11.074), (1.758, 6.188)),
    ),
}


@check(
    "fp8_attention_peak_flops attention_backward_time_ratio "
    "flash_operand_bytes_attention_precision_fp8",
    by="table",
    source="NVIDIA, cudnn-frontend, benchmark/sdpa_benchmark_training/results, llama3.1, dsv3 (64 "
    "and 128 heads, 8,192 tokens, causal; cuDNN 9.22, 9.19); bytes: queries, keys, values counted",
    tolerance=0.03,
)
def attention_in_fp8() -> Pairs:
    """geometric means of GPUs: forward and backward, Llama 3.1 and DeepSeek-V3; bytes that stay"""
    for model, times in CUDNN.items():
        job = {"model": model, "gpu": "gb200", "n_gpus": 8, "sequence_length": 8192}
        job |= {"compute_model": "roofline", "precision": "fp8", "attention_efficiency": 0.5}
        names = ("attention_core_time", "attention_backward_time_ratio")
        sixteen, eight = (values(names, **job, attention_precision=p) for p in (False, "fp8"))
        forward, backward = (
            math.prod(bf16[k] / fp8[k] for bf16, fp8 in times) ** (1 / len(times)) for k in (0, 1)
        )
        yield sixteen[names[0]] / eight[names[0]], forward
        yield math.prod(sixteen.values()) / math.prod(eight.values()), backward
    job |= {"model": "llama-3-70b", "attention_precision": "fp8"}
    yield value("attention_inputs_per_token", **job), np.zeros((64 + 8 + 8, 128), np.int8).nbytes


@check(
    "windowed_fp8_attention_peak_flops fp8_attention_peak_flops",
    by="derivation",
    source="cudnn-frontend: windowed layers in FP8 are slower backward; matrix units with one peak",
    tolerance=1e-14,
)
def attention_that_fp8_does_not_speed_up() -> Pairs:
    """a window in one of two layers; equal peaks, heads of 64, 128 and 256 in units of 128"""
    for d, windows in itertools.product((64, 128, 256), ({}, {"attention_window": 128})):
        given = {"peak_flops_bf16": 1e15, "head_size": d, "matrix_unit_size": 128, **windows}
        given |= {"attention_precision": "fp8", "peak_flops_fp8": 2e15 if windows else 1e15}
        given |= {"attention_kernel": "flash", "hidden_size": 8 * d, "attention_heads": 8}
        given |= {"layers": 2, "windowed_layers": 1} if windows else {"layers": 2}
        yield value("kernel_attention_peak_flops", **given), 1e15 * min(d / 128, 1.0)
        given |= {"sequence_length": 1024}
        yield value("attention_backward_time_ratio", **given), 2.5


@check(
    "operand_bytes_per_element_precision_fp8_blockwise "
    "operand_bytes_per_element_precision_mxfp4 nvfp4_operand_bytes_per_element",
    by="derivation",
    source="bits of a block of elements and of its scale: 128 and FP32, 32 and E8M0, 16 and E4M3",
)
def bytes_of_operands() -> Pairs:
    """four formats, and layers kept in 16 bits"""
    four = formulas.operand_bytes_per_element_precision_mxfp4()
    yield four, (32 * 4 + 8) / 32 / 8
    eight = formulas.operand_bytes_per_element_precision_fp8_blockwise()
    yield eight, (128 * 8 + 32) / 128 / 8
    yield eight, (32 * 8 + 8) / 32 / 8
    yield formulas.nvfp4_operand_bytes_per_element(0.0, 2), (16 * 4 + 8) / 16 / 8
    mixed = math.fsum([0.85 * (16 * 4 + 8) / 16 / 8, 0.15 * 2])
    yield formulas.nvfp4_operand_bytes_per_element(0.15, 2), mixed
