"""Parts of a step: products, bytes moved, states and tensors of a layer, the timeline."""

from itertools import product

import numpy as np

from fleetcube.kernels.laws import layer

from ... import formulas
from ..check import Pairs, check


@check("gemm_flops", by="simulator", source="operations of the three loops, counted")
def products() -> Pairs:
    """products of 1 to 7 rows, columns and depth"""
    for rows, columns, depth in product((1, 3, 7), repeat=3):
        done = 0
        for _ in range(rows):
            for _ in range(columns):
                for _ in range(depth):
                    done += 2
        yield layer.gemm_flops(rows, columns, depth), done


@check(
    "gemm_rate_share",
    by="derivation",
    source="start-ups of s elements for each sum, and of 2,500 s sums for all (Hockney)",
)
def rates() -> Pairs:
    """sides of 16 to 8,192, half depths of 0 to 500"""
    starts = ((0.0, 0.0), (100.0, 250e3), (200.0, 500e3), (500.0, 1.25e6))
    for rows, columns, depth in product((16, 512, 8192), repeat=3):
        for start, sums in starts:
            useful = float(rows * columns * depth)
            slots = (sums + rows * columns) * (start + depth)  # of the time of an element
            yield layer.gemm_rate_share(rows, columns, depth, 0.8, start), 0.8 * useful / slots


@check("gemm_time", by="derivation", source="operations and bytes moved, the slower one")
def product_times() -> Pairs:
    """sides of 16 to 8,192, bound by memory and by arithmetic"""
    for rows, columns, depth in product((16, 512, 8192), repeat=3):
        moved = sum(2 * a * b for a, b in ((rows, depth), (depth, columns), (rows, columns)))
        times = [2.0 * rows * columns * depth / (0.8 * 989e12), moved / 3e12]
        yield layer.gemm_time(rows, columns, depth, 2, 2, 989e12, 0.8, 0.0, 3e12), max(times)


@check(
    "training_gemm_time",
    by="derivation",
    source="y = x w, and its gradients dy w^T and x^T dy: shapes and bytes of the arrays",
)
def passes_of_products() -> Pairs:
    """sides of 64 to 8,192, half depths of 0 and 200, operands of 1 and 2 bytes: three products"""
    cases = product(*[(64, 1000, 8192)] * 3, (0.0, 200.0), (1, 2))
    for rows, columns, depth, start, size in cases:
        x, w, dy = (
            np.broadcast_to(0.0, shape)
            for shape in ((rows, depth), (depth, columns), (rows, columns))
        )
        spent = []
        for a, b in ((x, w), (dy, w.T), (x.T, dy)):
            results = len(a) * len(b[0])
            slots = (2500 * start + results) * (start + len(b))
            moved = (a.size + b.size) * size + results * 2
            spent.append(max(2.0 * slots / (0.8 * 989e12), moved / 3e12))
        on_gpu = (size, 2, 989e12, 0.8, start, 3e12)
        yield layer.training_gemm_time(rows, columns, depth, *on_gpu), np.mean(spent)


@check(
    "elementwise_time fused_elementwise_time roofline_optimizer_time reached_hbm_bandwidth",
    by="simulator",
    source="every read and write of a layer's arrays and of the update listed",
)
def moved_bytes() -> Pairs:
    """a GPT and a gated layer, t 1 and 8; Adam in mixed precision"""
    rate = formulas.reached_hbm_bandwidth(3.35e12, 0.8)
    yield rate, 3.35e12 - 3.35e12 * 2 / 10
    for ranks, t, matrices in ((1, 1, 2), (8, 8, 2), (1, 8, 3)):
        tokens, h, f = 4096, 8192, 28672
        outer = ["norm read", "norm written"] * 2 + ["residual read", "branch read", "written"] * 2
        inner = ["read"] * (matrices - 1) + ["written"]
        width = 96 * 128 / t
        turned = width * len(["read", "written"])  # queries and keys
        moved = 2 * tokens * (len(outer) * h / ranks + len(inner) * f / t + turned)
        ours = formulas.elementwise_time(tokens, h, 6, 3, ranks, matrices, f, t, width, 2, rate)
        yield ours, moved / rate
        # products read what enters them through norms and functions, and write sums themselves
        left = [*(["norm's sum read", "residual read"] * 2), *(["gate read"] * (matrices - 2))]
        moved = sum(2 * tokens * (f / t if name == "gate read" else h / ranks) for name in left)
        ours = formulas.fused_elementwise_time(tokens, h, 6, 3, ranks, matrices, f, t, 2, rate)
        yield ours, moved / rate
    update = {"gradient read": 4, "weight written": 2, "read for the norm": 4, "set to 0": 4}
    update |= {"read to be scaled": 4, "scaled": 4}
    for state in ("master", "momentum", "variance"):
        update |= {f"{state} read": 4, f"{state} written": 4}
    ours = formulas.roofline_optimizer_time(1e9, 4, 12, 2, rate, 0.0)
    yield ours, sum(update.values()) * 1e9 / rate


@check(
    "dense_layer_parameters expert_layer_parameters expert_gradient_buffer_parameters "
    "sharded_layer_state_memory sharded_gradient_layer_state_memory fp32_gradient_buffer_memory",
    by="derivation",
    source="tensors that are whole on a GPU while a layer is worked on, listed",
)
def layer_states() -> Pairs:
    """a Llama layer and a Mixtral layer, t 2, experts over 4"""
    h, f, t = 4096, 14336, 2
    attention = [h * h // t, h * 1024 // t, h * 1024 // t, h * h // t]
    expert = [h * f // t] * 3
    dense = formulas.dense_layer_parameters(sum(attention) * t, 3 * h * f, t)
    yield dense, sum(attention + expert)
    ours = formulas.expert_layer_parameters(sum(attention) * t, 8, 4, 1, 3 * h * f, t, t)
    yield ours, sum(attention + expert * 2 + expert)  # two routed, one shared
    ours = formulas.expert_layer_parameters(sum(attention) * t, 8, 4, 1, 3 * h * f, 1, t)
    yield ours, sum(attention + [h * f] * 3 * 2 + expert)  # routed ones whole
    buffers = formulas.expert_gradient_buffer_parameters
    ours = buffers(sum(attention) * t, 1, 3 * h * f, t, t)
    yield ours, sum(attention + expert + expert)  # experts alike share a buffer
    ours = buffers(sum(attention) * t, 1, 3 * h * f, 1, t)
    yield ours, sum(attention + [h * f] * 3 + expert)
    held = np.zeros(1000, np.float16)
    gathered = np.zeros(7000, np.float16)  # weights of a stage, gradients of a layer
    both = gathered.nbytes + held.nbytes
    yield formulas.sharded_layer_state_memory(7000 * 2, 1000, 2), both
    yield formulas.sharded_gradient_layer_state_memory(1000, 2), held.nbytes
    yield formulas.fp32_gradient_buffer_memory(1000, 2), held.nbytes


@check(
    "full_layer_activation_memory selective_layer_activation_memory ffn_gradients_memory "
    "working_memory one_site_memory_per_gpu",
    by="derivation",
    source="tensors alive in the backward pass of one layer, listed; parts of a GPU's memory added",
)
def alive() -> Pairs:
    """a gated layer in BF16, 1,000 tokens, t 4, with and without sequence parallelism"""
    tokens, h, f, t = 1000, 4096, 14336, 4
    for ranks in (1, t):
        gradients = [2 * tokens * h // ranks, *[2 * tokens * f // t] * 3]
        ours = formulas.ffn_gradients_memory(tokens, h, ranks, 3, f, t, 2, 4, 4, 0)
        yield ours, sum(gradients)
        kept = {"norms": 80, "attention": 50, "feed-forward": 70, "scores": 500}  # bytes a token
        again = sum(tokens * each for each in kept.values())
        for layers in (1, 3):
            whole = formulas.whole_layer_activation_memory(tokens, *kept.values())
            held = formulas.full_layer_activation_memory(ours, layers, whole)
            yield held, sum(gradients) + sum(again for _ in range(layers))
    for gradient in (3e5, 7e5):
        ours = formulas.selective_layer_activation_memory(gradient, tokens, 500)
        yield ours, sorted([gradient, tokens * 500.0])[-1]
    yield formulas.working_memory(3.0, 4.0), 7.0
    parts = (1e9, 2e9, 4e9, 8e9, 16e9, 32e9)  # each bit once
    yield formulas.one_site_memory_per_gpu(*parts), 63e9


@check(
    "one_site_communication_time one_site_exposed_communication_time step_time mfu step_time_low "
    "step_time_high",
    by="simulator",
    source="a timeline of one step, part after part",
)
def timeline() -> Pairs:
    """parts of 1, 2, 4, ... s, so that each counts once"""
    bits = [float(2**k) for k in range(6)]
    yield formulas.one_site_communication_time(*bits), 63
    yield formulas.one_site_exposed_communication_time(*bits), 63
    clock = 0.0
    for part in bits:
        clock += part
    yield formulas.step_time(*bits, 0.0), clock
    useful = 0.0  # operations a second of a GPU of 100, half of the computing second at peak
    for _ in range(50):
        useful += 1.0
    yield formulas.mfu(useful / 100, clock), useful / clock / 100
    yield formulas.step_time_low(clock, 1.25) * 1.25, clock
    yield formulas.step_time_high(clock, 1.25) / 1.25, clock
