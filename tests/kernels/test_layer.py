"""The roofline of a layer and of a step, replayed matrix by matrix in plain Python."""

import itertools
from typing import Any

import pytest

import fleetcube
from fleetcube import laws

from ..evaluated import value

BASE: dict[str, Any] = {
    "compute_model": "roofline", "flops_counting": "transformer", "n_gpus": 64,
    "global_batch_size": 128, "micro_batch_size": 2, "sequence_length": 2048, "layers": 24,
    "hidden_size": 4096, "attention_heads": 32, "head_size": 128, "kv_heads": 32,
    "ffn_hidden_size": 16384, "vocab_size": 51200, "gated_ffn": False, "tensor_parallel": 4,
    "pipeline_parallel": 2, "stage_split": False, "context_parallel": 1, "sequence_parallel": False,
    "recompute": False, "attention_kernel": "standard", "zero_stage": 1, "bytes_per_element": 2,
    "precision": "bf16", "peak_flops_bf16": 312e12, "hbm_bandwidth": 2e12,
    "memory_efficiency": 0.85, "gemm_efficiency": 0.9, "gemm_half_depth": 64.0,
    "attention_efficiency": 0.4, "gradient_storage": "fp32", "optimizer_bytes_per_parameter": 12,
}  # fmt: skip
LLAMA = {"gated_ffn": True, "kv_heads": 8, "ffn_hidden_size": 14336, "vocab_size": 128256}
EXPERTS = {
    **LLAMA, "experts": 16, "experts_per_token": 3, "shared_experts": 2, "dense_layers": 4,
    "expert_ffn_hidden_size": 1536, "expert_parallel": 4, "expert_launch_time": 4e-6,
}  # fmt: skip
AGAIN = {"recompute": "modules", "recompute_core_attn": 1}  # attention alone
CASES: dict[str, dict[str, Any]] = {
    "gpt": {},
    "gpt on one GPU": {"n_gpus": 1, "tensor_parallel": 1, "pipeline_parallel": 1},
    "llama": LLAMA,
    "flash": {**LLAMA, "attention_kernel": "flash"},
    "selective": {"recompute": "selective"},
    "attention again": AGAIN,
    "flash attention again": {**AGAIN, "attention_kernel": "flash"},
    "windows": {**LLAMA, "attention_kernel": "flash", "attention_window": 512},
    "windows in some layers": {
        **LLAMA,
        "attention_kernel": "flash",
        "attention_window": 512,
        "windowed_layers": 9,
    },
    "fp8": {**LLAMA, "precision": "fp8", "peak_flops_fp8": 600e12, "recompute": "full"},
    "fp8 by blocks": {**EXPERTS, "precision": "fp8_blockwise", "peak_flops_fp8": 600e12},
    "fp8 bound by memory": {"precision": "mxfp8", "peak_flops_fp8": 600e12, "hbm_bandwidth": 2e10},
    "selective flash": {"recompute": "selective", "attention_kernel": "flash"},
    "full": {"recompute": "full"},
    "sequence parallel": {"sequence_parallel": True},
    "context parallel": {"context_parallel": 4, "attention_kernel": "flash"},
    "wide heads": {"head_size": 256},
    "bound by memory": {"hbm_bandwidth": 2e10},
    "few tokens": {"micro_batch_size": 1, "sequence_length": 32},
    "experts": EXPERTS,
    "experts at home": {**EXPERTS, "expert_parallel": 1, "shared_experts": 0, "dense_layers": 0},
    "plain experts": {**EXPERTS, "gated_ffn": False, "recompute": "full"},
    "experts bound by memory": {**EXPERTS, "hbm_bandwidth": 2e10},
    "replicated optimizer": {"zero_stage": 0, "gradient_storage": "bf16"},
    "gradients twice": {"gradient_storage": "bf16_and_fp32"},
}


def replay(c: dict[str, Any]) -> dict[str, float]:
    """The compute time of a step and its optimizer, by layers, passes and matrices."""
    tensor, context, heads, e = (
        c["tensor_parallel"],
        c["context_parallel"],
        c["attention_heads"],
        c["bytes_per_element"],
    )
    h, width, s = c["hidden_size"], c["head_size"], c["sequence_length"]
    bandwidth = c["hbm_bandwidth"] * c["memory_efficiency"]
    tokens = c["micro_batch_size"] * s // context

    sixteen = c["peak_flops_bf16"]  # attention and logits, whatever the recipe
    recipe, few = sixteen, e
    if c["precision"] != "bf16":
        recipe = c["peak_flops_fp8"]
        few = {"fp8": 1, "fp8_blockwise": (128 + 4) / 128, "mxfp8": (32 + 1) / 32}[c["precision"]]

    def alone(m: float, n: float, k: float, peak: float, read: float) -> float:
        start = c["gemm_half_depth"]
        elements = (m * n + 2500 * start) * (k + start)
        operands = (m * k + k * n) * read
        compute = 2 * elements / (peak * c["gemm_efficiency"])
        return max(compute, (operands + m * n * e) / bandwidth)

    def product(m: float, n: float, k: float, peak: float = recipe, read: float = few) -> float:
        """A pass of three: forward, and the gradients of inputs and of weights."""
        every = (m, n, k), (m, k, n), (k, n, m)
        return sum(alone(*sides, peak, read) for sides in every) / 3

    def feed_forward(rows: float, f: int) -> float:
        """Gate and up side by side, then down."""
        entering = 2 * f if c["gated_ffn"] else f
        return product(rows, entering / tensor, h) + product(rows, h, f / tensor)

    def activation(rows: float, f: int) -> float:
        """The activation function reads what entered and writes what leaves."""
        return rows * ((2 * f if c["gated_ffn"] else f) + f) / tensor * e / bandwidth

    split = tensor if c["sequence_parallel"] else 1
    stored = {"bf16": 2, "fp32": 4, "bf16_and_fp32": 2}[c["gradient_storage"]]

    def is_mixed(index: int) -> bool:
        return "experts" in c and index >= c["dense_layers"]

    def weights(index: int) -> tuple[float, float]:
        """Weights of a layer on this GPU: those of all tokens, and of routed experts."""
        own = h * (heads + 2 * c["kv_heads"]) * width + heads * width * h
        factor = 3 if c["gated_ffn"] else 2
        if not is_mixed(index):
            return (own + factor * h * c["ffn_hidden_size"]) / tensor, 0.0
        expert = factor * h * c["expert_ffn_hidden_size"]
        own += c["experts"] * h + c["shared_experts"] * expert
        return own / tensor, c["experts"] // c["expert_parallel"] * expert / tensor

    def products(index: int) -> tuple[float, float]:
        """Mean times of a pass through the same matrices."""
        columns = (heads + 2 * c["kv_heads"]) * width / tensor
        own = product(tokens, columns, h) + product(tokens, h, heads * width / tensor)
        if not is_mixed(index):
            return own + feed_forward(tokens, c["ffn_hidden_size"]), 0.0
        f, group, routed = c["expert_ffn_hidden_size"], c["expert_parallel"], 0.0
        visits = tokens * group * c["experts_per_token"]  # of all ranks, to all experts
        for _ in range(c["experts"] // group):
            routed += feed_forward(visits / c["experts"], f) + 2 * c["expert_launch_time"]
        for _ in range(c["shared_experts"]):
            own += feed_forward(tokens, f)
        return own, routed

    def late() -> float:
        """What reading and writing the sums of all layers' gradients takes longer than products."""
        moved = 2 * stored / bandwidth
        of_all, behind = 0.0, 0.0
        for index in range(c["layers"]):
            (own, expert), (time, routed) = weights(index), products(index)
            of_all += own * moved - time
            behind += max(0.0, expert * moved - routed)
        return max(0.0, of_all) + behind

    def beside(index: int) -> tuple[float, float]:
        """What a layer does beside its products: in both passes; for each of two or three."""
        cast = 2 * h / split + (2 * heads + 2 * c["kv_heads"]) * width / tensor
        factor = 3 if c["gated_ffn"] else 2
        if not is_mixed(index):
            cast += 2 * h / split + factor * c["ffn_hidden_size"] / tensor
            routing = 0.0
        else:
            f, group, k = c["expert_ffn_hidden_size"], c["expert_parallel"], c["experts_per_token"]
            cast += 2 * k * h + (2 * h if c["shared_experts"] else 0)
            cast += factor * f / tensor * (k + c["shared_experts"])
            routing = tokens * (h * e + 8 * 4 * c["experts"])  # scores in FP32
            way = 1 + k + (2 * k if c["experts"] > group else 0)  # arranged, and by expert
            there = (128 + 4) / 128 if c["precision"] == "fp8_blockwise" else e
            routing += tokens * h * way * (there + e)
        both = 0 if c["precision"] == "bf16" else e + 2 * (few if c["precision"] == "mxfp8" else 1)
        return tokens * cast * both / bandwidth, routing / bandwidth

    def layer(index: int) -> tuple[float, float]:
        """Forward time of a layer: matrices with element-wise traffic, and attention."""
        time = sum(products(index))
        if is_mixed(index):
            for _ in range(c["experts_per_token"] + c["shared_experts"]):
                time += activation(tokens, c["expert_ffn_hidden_size"])
        else:
            time += activation(tokens, c["ffn_hidden_size"])
        streamed = 0.0
        for _ in ("attention", "feed-forward"):
            streamed += tokens * h + tokens * h  # the norm reads and writes
            streamed += 2 * tokens * h + tokens * h  # the residual reads two and writes
        turned = 2 * tokens * (heads + c["kv_heads"]) * width / tensor  # read, written
        time += (streamed / split + turned) * e / bandwidth
        scores = 0.0
        for _ in range(heads):
            keys: float = s
            if c["attention_kernel"] == "flash":
                keys = s / 2  # under the diagonal
                if index < c.get("windowed_layers", c["layers"]) and "attention_window" in c:
                    w = c["attention_window"]
                    keys = w - w * w / 2 / s  # a band, less the corner at its start
                keys += 560  # what edges of blocks cost
            operations = 2 * tokens * keys * width + 2 * tokens * keys * width
            scores += operations / (sixteen * c["attention_efficiency"])
            if c["attention_kernel"] == "standard":
                scores += (1 + 2 + 1) * tokens * s * e / bandwidth  # written, softmax, read
        return time, scores / tensor

    step = 0.0
    replicas = c["n_gpus"] // (tensor * c["pipeline_parallel"] * context)
    shard = c["vocab_size"] / tensor
    for _ in range(c["global_batch_size"] // (replicas * c["micro_batch_size"])):
        step += late()
        for index in range(c["layers"]):
            matrices, attention = layer(index)
            own, routing = beside(index)
            step += 3 * matrices + own + (3 if c["recompute"] == "full" else 2) * routing
            step += attention * (1 + (2.5 if c["attention_kernel"] == "flash" else 2))
            if c["recompute"] == "selective" and c["attention_kernel"] == "standard":
                step += attention  # FlashAttention's factor of 2.5 includes it
            if c["recompute"] == "modules":
                step += attention
            if c["recompute"] == "full":
                step += matrices + attention
        step += 3 * product(tokens, shard, h, sixteen, e)
        step += tokens * (4 * h * e + 3 * 4 * shard) / bandwidth

    gpus = tensor * c["pipeline_parallel"]
    stages = c["pipeline_parallel"]
    held = c["parameters"] / stages / tensor  # the mean stage
    held /= c["n_gpus"] // gpus if c["zero_stage"] else 1
    moved = 5 * stored  # for the norm, scaled (read and written), for the update, set to 0
    moved += 4 + 4 if c["gradient_storage"] == "bf16_and_fp32" else 0
    moved += 12 + 12 + e  # master weights and moments read and written, weights written
    return {
        "compute_time": step / c["pipeline_parallel"],
        "optimizer_time": held * moved / bandwidth,
    }


@pytest.mark.parametrize("change", CASES.values(), ids=CASES)
def test_a_step_is_the_sum_of_its_matrices(change: dict[str, Any]) -> None:
    scenario = {**BASE, **change}
    scenario["parameters"] = value("parameters", **scenario)
    for name, expected in replay(scenario).items():
        assert value(name, **scenario) == pytest.approx(expected, rel=1e-12)


def test_a_share_of_peak_covers_the_optimizer() -> None:
    scenario = {**BASE, "compute_model": "mfu"}
    assert value("optimizer_time", **scenario) == 0


# Limits

IDEAL = {
    **BASE, "hbm_bandwidth": 1e40, "gemm_half_depth": 0.0, "gemm_efficiency": 1.0,
    "attention_efficiency": 1.0,
}  # fmt: skip
RECOMPUTE = [False, "selective", "modules", "full"]
WINDOWS = {"attention_window": 300, "windowed_layers": 7}
FP8 = {"precision": "fp8", "peak_flops_fp8": 600e12}


ATTENTION = {"attention_precision": "fp8", "peak_flops_fp8": 600e12}


@pytest.mark.parametrize(
    "precision",
    [{}, FP8, ATTENTION, {**FP8, **ATTENTION}],
    ids=["bf16", "fp8", "attention in fp8", "both in fp8"],
)
@pytest.mark.parametrize("kernel", ["standard", "flash"])
@pytest.mark.parametrize(
    "shape", [{}, LLAMA, {**LLAMA, **WINDOWS}, EXPERTS], ids=["gpt", "llama", "windows", "experts"]
)
@pytest.mark.parametrize("recompute", RECOMPUTE)
def test_both_models_count_the_same_operations(
    shape: dict[str, Any], recompute: str, kernel: str, precision: dict[str, Any]
) -> None:
    # on a perfect GPU the roofline of matrices equals operations over peak, but for blocks' edges
    scenario = {**IDEAL, **shape, **precision, "recompute": recompute, "attention_kernel": kernel}
    scenario["expert_launch_time"] = 0.0
    scenario |= AGAIN if recompute == "modules" else {}
    counted = {**scenario, "compute_model": "mfu", "flops_efficiency": 1.0}
    found, expected = value("compute_time", **scenario), value("compute_time", **counted)
    if kernel == "flash":  # as much as 560 keys more
        keys = value("kernel_attention_span", **counted)
        expected += value("attention_time", **counted) * 560 / keys
    if "experts" in shape:  # the router's product is counted and takes no time of its own
        passes = 8 if recompute == "full" else 6
        routers = passes * 20 * 4096 * 16 * 128 * 2048
        expected -= routers / (64 * (600e12 if "precision" in precision else 312e12))
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("recompute", "passes"),
    [(False, 3.5), ("selective", 3.5), ("modules", 4.5), ("full", 4.5)],
)
def test_flash_attention_computes_half_of_the_scores(recompute: str, passes: float) -> None:
    # Dao 2023: a causal kernel does half of the operations, its backward pass 2.5 times forward's;
    # cuDNN's times: the edges of its blocks cost as much as 560 keys
    times = {
        kernel: value(
            "compute_time",
            **{**IDEAL, **AGAIN, "attention_kernel": kernel, "recompute": recompute},
        )
        for kernel in ("standard", "flash")
    }
    forward = 4 * 2048 * 4096 * 24 * (128 * 2048) / (64 * 312e12)
    whole = {False: 3, "selective": 4, "modules": 4, "full": 4}[recompute]
    saved = (whole - passes * (1024 + 560) / 2048) * forward
    assert times["standard"] - times["flash"] == pytest.approx(saved, rel=1e-9)


def test_a_product_as_deep_or_as_large_as_its_half_runs_at_half_the_rate() -> None:
    for sides, share in (
        ((1e15, 1e15, 64), 1 / 2),  # sums of 64
        ((64, 2500, 1e15), 1 / 2),  # 2,500 x 64 of them, in any shape
        ((39.0625, 4096, 1e15), 1 / 2),
        ((64, 2500, 64), 1 / 4),
    ):
        got = laws.layer.gemm_rate_share(*sides, 0.9, 64)
        assert got == pytest.approx(0.9 * share, rel=1e-9)
    assert laws.layer.gemm_rate_share(1, 1, 1, 0.9, 0) == 0.9


def test_a_square_product_takes_as_long_in_each_pass() -> None:
    for sides in ((512, 512, 512), (4096, 4096, 4096)):
        one, three = (
            time(*sides, 2, 2, 989e12, 0.8, 200.0, 3.35e12)
            for time in (laws.layer.gemm_time, laws.layer.training_gemm_time)
        )
        assert three == pytest.approx(one, rel=1e-12)


@pytest.mark.parametrize(
    ("rows", "half_depths", "most"),
    [((64, 256), (150, 500), 0.31), ((1024, 8192), (150, 500), 0.11), ((1024, 8192), (200,), 0.05)],
)
def test_a_block_forward_is_near_the_mean_of_its_passes(
    rows: tuple[int, ...], half_depths: tuple[int, ...], most: float
) -> None:
    # experts of 768 to 4,096 and dense blocks, 16 bits on an H100 and FP8 on a B200
    widths = [(768, 2048), (768, 7168), (4096, 7168), (14336, 4096), (28672, 8192)]
    gpus = [(2, 2, 989e12, 2.7e12), (1, 2, 4500e12, 6.4e12)]
    apart = []
    for row, (f, h), gpu, s in itertools.product(rows, widths, gpus, half_depths):
        on_gpu = (*gpu[:3], 0.8, s, gpu[3])
        forward, mean = (
            sum(float(time(*sides, *on_gpu)) for sides in ((row, 2 * f, h), (row, h, f)))
            for time in (laws.layer.gemm_time, laws.layer.training_gemm_time)
        )
        apart.append(abs(forward / mean - 1))
    assert 0.7 * most < max(apart) <= most + 0.005


def test_sums_over_few_rows_slow_the_gradient_of_weights() -> None:
    # 64 rows by 2^20 x 2^20: endless sums forward and for inputs; of 64, the half depth, for
    # weights; 2,500 x 64 results of 2^26 are lost in all
    on_gpu = (2, 2, 989e12, 1.0, 64.0, 1e40)
    ideal = 2 * 64 * 2**40 / 989e12
    passes = laws.layer.training_gemm_time(64, 2**20, 2**20, *on_gpu) / ideal
    assert passes == pytest.approx((1 + 1 + 2) / 3, rel=2e-3)


def test_a_product_of_one_row_takes_as_long_as_its_weights() -> None:
    # decoding: one token times a BF16 matrix of 8192 x 8192, 134 MB at 3.35 TB/s
    time = laws.layer.gemm_time(1, 8192, 8192, 2, 2, 989e12, 1.0, 0.0, 3.35e12)
    assert float(time) == pytest.approx(134.2e6 / 3.35e12, rel=1e-3)


@pytest.mark.parametrize(
    "shape", [{}, {**EXPERTS, "attention_kernel": "flash"}], ids=["gpt", "moe"]
)
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("peak_flops_bf16", [1e14, 3e14, 1e15, 1e16]),
        ("hbm_bandwidth", [1e11, 1e12, 3e12, 1e13]),
        ("memory_efficiency", [0.2, 0.5, 0.9]),
        ("gemm_efficiency", [0.2, 0.5, 0.9]),
        ("attention_efficiency", [0.2, 0.5, 0.9]),
        ("gemm_half_depth", [512.0, 128.0, 16.0, 0.0]),
        ("n_gpus", [64, 128, 256]),
    ],
)
def test_better_hardware_is_never_slower(
    shape: dict[str, Any], name: str, values: list[float]
) -> None:
    got = fleetcube.evaluate(["compute_time", "optimizer_time"], **{**BASE, **shape, name: values})
    total = list((got.compute_time + got.optimizer_time).values)
    assert all(slow > fast for slow, fast in itertools.pairwise(total))


def test_splitting_costs_no_operations() -> None:
    # tensor, pipeline and context ranks of a perfect GPU share one replica's work
    names = ("tensor_parallel", "pipeline_parallel", "context_parallel")
    layouts = [(1, 1, 1), (8, 1, 1), (1, 8, 1), (1, 1, 8), (2, 2, 2)]
    times = [
        value("compute_time", **{**IDEAL, "n_gpus": 8, **dict(zip(names, layout, strict=True))})
        for layout in layouts
    ]
    assert times == pytest.approx([times[0]] * len(layouts), rel=1e-12)


# Measured

# A100 80 GB, 300 GB/s inside a node, 25 GB/s between nodes.
A100 = {"gpu": "a100-sxm-80gb", "fabric": "infiniband-hdr", "precision": "fp16"}
MEGATRON = {
    "compute_model": "roofline", "flops_counting": "transformer", "attention_kernel": "standard",
    "vocab_size": 51200, "sequence_length": 2048, "tensor_parallel": 8, "zero_stage": 0, **A100,
}  # fmt: skip


@pytest.mark.parametrize(
    "row",  # heads, width, layers, stages, chunks, batch; seconds measured
    [
        (64, 6144, 48, 1, 1, 4, 1.42, 1.10),
        (96, 12288, 96, 8, 3, 64, 18.13, 13.75),
        (128, 20480, 105, 35, 3, 280, 49.05, 37.83),
        (160, 25600, 128, 64, 1, 512, 94.42, 71.49),
    ],
    ids=["22B", "175B", "530B", "1T"],
)
def test_measured_steps_are_near_without_calibration(row: tuple[Any, ...]) -> None:
    heads, h, layers, stages, chunks, batch, full, selective = row
    # Korthikanti et al. 2022, table 5: seconds of a step, with full recompute and with sequence
    # parallelism and selective recompute. No coefficient is fitted to them.
    for change, measured in (
        ({"recompute": "full"}, full),
        ({"recompute": "selective", "sequence_parallel": True}, selective),
    ):
        given = {"attention_heads": heads, "hidden_size": h, "layers": layers}
        given |= {"pipeline_parallel": stages, "virtual_stages": chunks, "n_gpus": 8 * stages}
        given |= {"global_batch_size": batch, "micro_batch_size": 4 if layers == 48 else 1}
        given |= {**MEGATRON, **change}
        time = fleetcube.evaluate("step_time", **given)
        assert float(time) == pytest.approx(measured, rel=0.15)


def test_recompute_slows_a_layer_as_measured() -> None:
    # Korthikanti et al. 2022, table 4: forward and backward of a layer of the 22B model take
    # 19.6 ms with its all-reduces, 39 % longer with full recompute and 7 % with selective.
    run = {"attention_heads": 64, "hidden_size": 6144, "layers": 48, "micro_batch_size": 4}
    times = {
        recompute: value("layer_time", recompute=recompute, **run, **MEGATRON)
        for recompute in RECOMPUTE
    }
    assert times[False] == pytest.approx(19.6e-3, rel=0.2)
    assert times["full"] / times[False] - 1 == pytest.approx(0.39, abs=0.07)
    assert times["selective"] / times[False] - 1 == pytest.approx(0.07, abs=0.02)


LLAMA_ON_H100: dict[str, Any] = {
    "model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 64,
    "global_batch_size": 64, "sequence_length": 8192, "gemm_efficiency": 0.7,
    "attention_efficiency": 0.6, "calibration": "none",
}  # fmt: skip


@pytest.mark.parametrize(("precision", "seconds"), [("bf16", 43.811), ("fp8", 38.258)])
def test_attention_in_fp8_saves_its_time(precision: str, seconds: float) -> None:
    # by hand: attention takes 31.876 s in 16 bits, and 1 of 3.5 passes 1 / 1.45 of it in FP8
    job = LLAMA_ON_H100 | {"compute_model": "mfu", "flops_efficiency": 0.5, "precision": precision}
    job |= {"sequence_length": 131072}
    for attention, saved in ((False, 0.0), ("fp8", 31.876 - 29.049)):
        found = value("compute_time", **job, attention_precision=attention)
        assert found == pytest.approx(seconds - saved, abs=2e-3)


@pytest.mark.parametrize(
    "where",
    [
        {"attention_kernel": "standard"},  # kernels in FP8 are fused
        {"model": "gpt-oss-120b", "expert_parallel": 8},  # windowed layers lose by it
        {"peak_flops_bf16": 989e12, "peak_flops_fp8": 989e12},  # as on Gaudi 3 and TPU v5p
    ],
    ids=["standard", "windows", "one peak"],
)
@pytest.mark.parametrize("model", ["roofline", "mfu"])
def test_attention_in_fp8_gains_nothing(where: dict[str, Any], model: str) -> None:
    job = {**LLAMA_ON_H100, "compute_model": model, **where}
    times = [value("compute_time", **job, attention_precision=p) for p in (False, "fp8")]
    assert times[1] == pytest.approx(times[0], rel=1e-14)


@pytest.mark.parametrize("precision", ["bf16", "mxfp8"])
def test_a_dense_model_has_no_products_of_experts_to_fuse(precision: str) -> None:
    job = {**LLAMA_ON_H100, "compute_model": "roofline", "precision": precision}
    names = ["separate_ffn_width", "cast_time", "layer_time"]
    apart, fused = (
        fleetcube.evaluate(names, **job, grouped_products=kind) for kind in ("separate", "fused")
    )
    assert float(fused["separate_ffn_width"]) == 14336
    assert [float(fused[name]) for name in names] == [float(apart[name]) for name in names]


def test_weights_with_a_scale_a_row_are_gathered_in_16_bits() -> None:
    # 8.03e9 weights to and from 64 GPUs: tensors' scales 0.1059 s, others as unquantised ones
    job = {**LLAMA_ON_H100, "precision": "fp8", "zero_stage": 3, "compute_model": "roofline"}
    tensor, row, sixteen = (
        value("data_parallel_time", **job, fp8_scaling=scaling, quantised_parameters=few)
        for scaling, few in (("tensor", True), ("row", True), ("tensor", False))
    )
    assert tensor == pytest.approx(0.10585630, rel=1e-6)
    assert row == sixteen == pytest.approx(0.14020637, rel=1e-6)
