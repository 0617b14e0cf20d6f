"""A micro-batch through its layers: every matrix product and array transfer on one clock."""

import itertools
import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ...evaluated import ENDS, value, values
from ..check import Pairs, check

Product = tuple[float, float, float]  # rows, columns, depth


@dataclass
class Gpu:
    """A GPU that runs one operation at a time; products start slowly: sums, and all of them."""

    peak: float = 989e12
    bandwidth: float = 3.35e12 * 0.8
    half_depth: float = 200.0
    clock: float = 0.0
    operations: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    def multiply(self, kind: str, product: Product, gradients: bool = False) -> None:
        """A 16-bit matrix product and those for the gradients of both operands, or their mean."""
        rows, columns, depth = product
        passes = 3 if gradients else 1
        for m, n, k in (product, (rows, depth, columns), (depth, columns, rows)):
            elements = (m * n + 2500 * self.half_depth) * (k + self.half_depth)
            compute = 2 * elements / (0.8 * self.peak)
            moved = 2 * (m * k + k * n + m * n)
            self.take(kind, passes / 3 * max(compute, moved / self.bandwidth))
        self.operations += passes * 2 * rows * columns * depth

    def move(self, kind: str, *counts: float, size: int = 2) -> None:
        self.take(kind, sum(counts) * size / self.bandwidth)

    def take(self, kind: str, seconds: float) -> None:
        self.clock += seconds
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds


MIXED = {
    "layers": 6, "dense_layers": 2, "hidden_size": 2048, "attention_heads": 16, "kv_heads": 8,
    "ffn_hidden_size": 6144, "gated_ffn": True, "vocab_size": 32000, "experts": 16,
    "experts_per_token": 3, "shared_experts": 1, "expert_ffn_hidden_size": 1024,
}  # fmt: skip
START = 1e-5  # of a product of an expert
DENSE = {k: v for k, v in MIXED.items() if "expert" not in k and k != "dense_layers"}


def feed_forward(tokens: float, hidden: float, width: float) -> list[Product]:
    """A gated block: gate and up side by side, then down."""
    return [(tokens, 2 * width, hidden), (tokens, hidden, width)]


def route(
    gpu: Gpu, tokens: float, hidden: int, experts: int, visited: int, width: int, here: int = 2
) -> None:
    """Arrays of a router and of sorting tokens of `width`, with `here` experts on a rank."""
    gpu.move("routing", tokens * hidden)
    scores = ["written", "read", "scored", "read to choose", "map", "weights", "both read", "both"]
    gpu.move("routing", *[tokens * experts for _ in scores], size=4)
    for _ in ("there", "and back"):
        gpu.move("routing", tokens * width, tokens * width * visited)
        if here > 1:  # sorted by expert on arrival
            gpu.move("routing", *[tokens * width * visited] * 2)


@cache
def layer(experts: bool, t: int, e: int, apart: int, tokens: int, kernel: str) -> Gpu:
    gpu = Gpu()
    h, size, queries, keys = 2048, 128, 16 // t, 8 // t
    for product in ((tokens, (queries + 2 * keys) * size, h), (tokens, h, queries * size)):
        gpu.multiply("projections", product)
    for _ in range(queries):
        pairs = tokens * tokens
        if kernel == "flash":  # half of them, and as many more as edges cost
            pairs = sum(query + 1 / 2 + 560 for query in range(tokens))
        for _ in ("queries by keys", "scores by values"):
            gpu.take("attention", 2 * pairs * size / (0.5 * gpu.peak))
        if kernel == "standard":
            gpu.move("attention", *[pairs] * 4)  # written, read, written by softmax, read
    blocks = [(tokens, 6144 / t)]
    if experts:  # every rank of the group sends its tokens to their experts
        chosen = [0] * 16
        for token in range(tokens * e * apart // t):
            for k in range(3):
                chosen[(token * 3 + k) % 16] += 1
        blocks = [(tokens, 1024 / t)]  # the shared one
        for expert in range(0, 16, e):
            blocks.append((chosen[expert], 1024 / apart))
            gpu.take("feed forward", 2 * START)
    for rows, width in blocks:
        for product in feed_forward(rows, h, width):
            gpu.multiply("feed forward", product)
    gpu.move("elementwise", *[tokens * (queries + keys) * size] * 2)  # turned by positions
    if experts:
        route(gpu, tokens, h, 16, 3, h, 16 // e)
    visited = (3 + 1) * 1024 / t if experts else 6144 / t  # gate and up read, their product written
    gpu.move("elementwise", *[tokens * h] * 10, *[tokens * visited] * 3)
    return gpu


def passes(recompute: str, kernel: str) -> tuple[float, float]:
    """Multiples of the forward pass's matrices and attention in a backward pass."""
    matrices, attention = 2.0, 5 / 2 if kernel == "flash" else 4 / 2
    if recompute == "full":
        matrices += 1
    if recompute in ("full", "modules") or (recompute, kernel) == ("selective", "standard"):
        attention += 1
    return matrices, attention


@check(
    "attention_projection_time dense_ffn_time plain_expert_ffn_time routed_ffn_time "
    "shared_ffn_time expert_model_ffn_time flash_attention_core_time "
    "standard_attention_core_time attention_score_flops elementwise_time layer_recompute_time "
    "layer_gpu_time logits_time grouped_rotary_width router_time expert_routing_time "
    "graphed_kernel_wait_time flash_key_share",
    "roofline_compute_time",
    by="simulator",
    source="products, attention head by head and arrays moved of every layer, on one clock",
)
def microbatches_through_layers() -> Pairs:
    """dense and expert layers, t 1 to 4, experts over 1 and 4, whole or split, p 1 and 2"""
    tokens, launches = 4096, 5e-5
    cases = ((DENSE, 1, 1, 1, 1), (DENSE, 4, 1, 2, 4), (MIXED, 2, 4, 2, 2), (MIXED, 1, 1, 1, 1))
    for shape, t, e, p, apart in (*cases, (MIXED, 2, 4, 1, 1)):
        routed = shape is MIXED
        for kernel, recompute in (
            ("flash", False),
            ("flash", "modules"),
            ("flash", "selective"),
            ("standard", "selective"),
            ("standard", "full"),
            ("flash", "full"),
        ):
            names = ["layer_gpu_time", "logits_time", "compute_time", "attention_projection_time"]
            names += ["attention_core_time", "ffn_time", "elementwise_time"]
            given = {**shape, "n_gpus": 8, "tensor_parallel": t}
            given |= {"pipeline_parallel": p, "expert_parallel": e, "expert_tensor_parallel": apart}
            given |= {"sequence_length": tokens, "num_microbatches": 3, "compute_model": "roofline"}
            given |= {"attention_kernel": kernel, "recompute": recompute, "peak_flops": 989e12}
            given |= {"attention_peak_flops": 989e12, "hbm_bandwidth": 3.35e12}
            graphs = recompute == "modules"
            given |= {"layer_overhead_time": launches, "recompute_core_attn": 1}
            given |= {"cuda_graphs": graphs}
            waits = launches / 4 if graphs else launches
            got = values(names, **given)
            matrices, attention = passes(recompute, kernel)
            busy, parts = (
                0.0,
                dict.fromkeys(layer(routed, t, e, apart, tokens, kernel).seconds, 0.0),
            )
            for number in range(6):
                gpu = layer(routed and number >= 2, t, e, apart, tokens, kernel)
                core = gpu.seconds["attention"]
                busy -= gpu.seconds.get("routing", 0.0)  # as much backward as forward
                busy += gpu.clock + matrices * (gpu.clock - core) + attention * core + waits
                for kind, seconds in gpu.seconds.items():
                    parts[kind] += seconds / 6
            yield got["layer_gpu_time"], busy / 6
            last = Gpu()
            last.move("embedding", *[tokens * 2048] * 4)  # read, written, gradients added
            last.multiply("logits", (tokens, 32000 / t, 2048), True)
            last.move("loss", *[tokens * 32000 / t] * 3, size=4)
            yield got["logits_time"], last.clock
            yield got["compute_time"], sum(busy + last.clock for _ in range(3)) / p
            yield got["attention_projection_time"], parts["projections"]
            yield got["attention_core_time"], parts["attention"]
            yield got["ffn_time"], parts["feed forward"]
            yield got["elementwise_time"], parts["elementwise"]


@check(
    "active_matrix_parameters layer_matrix_flops_per_token logits_flops_per_token "
    "kernel_flops_per_step",
    by="simulator",
    source="every product of a step with weights done, forward and for both gradients",
)
def operations_with_weights() -> Pairs:
    """dense and expert layers: one token, and a step of 3 sequences of 64 tokens"""
    h, size = 2048, 128
    for shape in (DENSE, MIXED):
        sizes = []
        for number in range(6):
            sizes += [(h, 16 * size), (h, 8 * size), (h, 8 * size), (16 * size, h)]
            if shape is MIXED and number >= 2:
                sizes += [(h, 16)]  # router
                sizes += [(h, 1024), (h, 1024), (1024, h)] * (3 + 1)
            else:
                sizes += [(h, 6144), (h, 6144), (6144, h)]
        yield value("active_matrix_parameters", **shape), sum(a * b for a, b in sizes)
        gpu, head = Gpu(), Gpu()
        for rows, columns in sizes:
            gpu.multiply("layers", (1, columns, rows), True)
        head.multiply("logits", (1, 32000, h), True)
        yield value("layer_matrix_flops_per_token", **shape), gpu.operations
        yield value("logits_flops_per_token", **shape), head.operations
        done = 0.0
        for _ in range(3):
            done += 64 * (gpu.operations + head.operations)
            for _ in range(6 * 16):  # heads: two products forward, four for gradients
                done += (2 + 4) * 2 * (64 * 64 / 2) * size
        run = {"sequence_length": 64, "global_batch_size": 3, "attention_kernel": "flash"}
        yield value("kernel_flops_per_step", **shape, **run), done


# Milliseconds of a pass of cuDNN with a causal mask, of 2,048, 4,096 ... 32,768 tokens in 16 bits
_PASSES = (
    (0.125, 0.391, 1.397, 5.150, 21.692),  # GB200: forward, backward
    (0.389, 1.198, 4.127, 16.554, 71.756),
    (0.100, 0.323, 1.185, 4.593, 18.014),  # GB300
    (0.356, 1.101, 3.832, 14.593, 59.024),
    (0.142, 0.465, 1.708, 6.531, 25.566),  # H200
    (0.464, 1.450, 5.083, 19.002, 75.688),
    (0.268, 0.864, 3.013, 11.178, 44.189),  # GB300, 128 heads of 192 and 128 elements
    (0.977, 3.127, 11.074, 43.911, 177.494),
)


@check(
    "flash_attention_core_time flash_key_share",
    by="table",
    source="cudnn-frontend, benchmark/sdpa_benchmark_training/results: Llama 3.1 on GB200, GB300 "
    "and H200, DeepSeek-V3 on GB300, of which the first two were fitted",
    tolerance=0.12,
)
def attention_of_longer_sequences() -> Pairs:
    """passes over 2,048 to 32,768 tokens, forward and backward, over those over 16,384"""
    shape = {**DENSE, "n_gpus": 1, "attention_kernel": "flash", "compute_model": "roofline"}
    shape |= {"attention_peak_flops": 989e12, "peak_flops": 989e12, "hbm_bandwidth": 3.35e12}
    ours = [
        value("attention_core_time", **shape, sequence_length=2048 * 2**k, num_microbatches=1)
        for k in range(5)
    ]
    for measured in _PASSES:
        for k in (0, 1, 2, 4):
            yield ours[k] / ours[3], measured[k] / measured[3]


@check(
    "layer_time roofline_step_error_factor step_time_high",
    by="simulator",
    source="kernels in a queue: each starts when it is launched, and the one before it has ended",
)
def launches_ahead() -> Pairs:
    """a host faster, slower, and 1.2 times faster than its GPU, with and without graphs"""
    shape = {**DENSE, "n_gpus": 1, "sequence_length": 1024, "num_microbatches": 1}
    shape |= {"compute_model": "roofline", "peak_flops": 989e12, "hbm_bandwidth": 3.35e12}
    shape |= {"attention_peak_flops": 989e12, "attention_kernel": "flash", "error_factor": 1.2}
    shape |= {"intra_node_bandwidth": 450e9}
    gpu = value("layer_gpu_time", **shape)
    kernels = 50

    def played(host: float) -> float:
        """Time between the ends of two equal layers, long after the first."""
        ends, clock = [], 0.0
        for number in range(10 * kernels):
            clock = max(clock, (number + 1) * host / kernels) + gpu / kernels
            ends.append(clock)
        return ends[-1] - ends[-1 - kernels]

    for share in (0.1, 1 / 1.2, 1.0, 3.0):
        host = share * gpu
        given = {**shape, "layer_host_time": host}
        yield value("layer_time", **given), played(host)
        yield value("layer_time", **given, cuda_graphs=True), played(0.0)
        late = played(1.6 * host) / played(host)
        wider = math.hypot(1.2 - 1, late - 1) + 1
        yield value("step_error_factor", **given), wider
        yield value("step_error_factor", **{**given, "error_factor": 1.0}), 1.0  # nothing known
        step, high = values(["step_time", "step_time_high"], **given).values()
        yield high / step, wider


def queued(steps: list[list[tuple[float, float]]]) -> tuple[list[float], list[float]]:
    """When each step of kernels (time on the GPU, to launch the next) ends, and its waits."""
    clock = launched = 0.0
    ends, waits = [], []
    for kernels in steps:
        waits.append(0.0)
        for busy, launch in kernels:
            waits[-1] += max(0.0, launched - clock)
            clock = max(clock, launched) + busy
            launched += launch
        ends.append(clock)
    return ends, waits


def kernels_of(job: dict[str, float], host: tuple[float, float], kinds: list[float]) -> Any:
    """Kernels of a micro-batch in the order of a stream: two exchanges in each pass of a layer.

    `host` are shares of launches in both passes, `kinds` times of layers over their mean. Of
    a share of the traffic each part runs beside a part of its kernels, the rest after them.
    """
    found = []
    number = 12  # kernels of a block
    for share, launches, layers in ((1 / 3, host[0], kinds), (2 / 3, host[1], kinds[::-1])):
        for kind in layers:
            for _ in ("attention", "feed forward"):
                traffic = job["traffic"] * (share if job["overlap"] else 1 / 2) / 2
                busy = kind * job["gpu"] * share / 2
                found += [(busy / number, job["host"] * launches / 2 / number)] * number
                cut = job["overlap"]  # share of the products that are cut with their traffic
                left = cut * max(0.0, traffic - busy) + (1 - cut) * traffic
                found.append((left, 0.0))
        if share < 0.5:
            found.append((job["logits"], 0.0))
    return found


def step_of(job: dict[str, float], microbatches: int, shared: bool, *more: str) -> list[float]:
    """A step of eight layers by the laws, and further quantities."""
    given = {"layers": 8, "hidden_size": 2048, "n_gpus": 8, "hbm_bandwidth": 3.35e12}
    given |= {"tensor_parallel": 8, "num_microbatches": microbatches}
    given |= {"compute_model": "roofline", "layer_gpu_time": job["gpu"], "regather_time": 0.0}
    given |= {"layer_host_time": job["host"], "logits_time": job["logits"], **ENDS}
    given |= {"tensor_parallel_time": 8 * microbatches * job["traffic"]}
    given |= {"tensor_parallel_overlap": job["overlap"]}
    given |= dict.fromkeys(("straggler_time", "bubble_time", "data_parallel_time"), 0.0)
    kinds = ("context", "expert", "data", "pipeline", "tensor")
    given |= {f"{kind}_{tier}_time": 0.0 for kind in kinds for tier in ("fabric", "node")}
    given |= {"tensor_node_time": given["tensor_parallel_time"], "link_sharing": shared}
    given |= {"exposed_context_parallel_time": 0.0, "context_ring_window": 0.0}
    given |= {"awaited_pipeline_time": 0.0, "exposed_pipeline_parallel_time": 0.0}
    given |= {"intra_node_bandwidth": 450e9}
    parts = ["compute_time", "exposed_tensor_parallel_time", "contention_time"]
    got = values([*parts, *more], **given)
    return [sum(got[part] for part in parts), *map(got.get, more)]


@check(
    "roofline_launch_wait_time exposed_tensor_parallel_time traffic_window",
    by="simulator",
    source="a host that launches kernels ahead; a GPU that runs them and tensor-parallel traffic "
    "in their order",
)
def traffic_between_launches() -> Pairs:
    """a host of 0.3 to 4 times its GPU, traffic of none to twice the compute, overlaps of 0 to 1"""
    for host, traffic, overlap in itertools.product(
        (0.3, 1.0, 1.2, 4.0), (0, 0.1, 0.6, 2), (0, 0.5, 1)
    ):
        job = {"gpu": 1e-2, "host": host * 1e-2, "traffic": traffic * 1e-2, "overlap": overlap}
        job["logits"] = 0.0
        kernels = kernels_of(job, (1 / 3, 2 / 3), [1.0] * 8)
        ends, waits = queued([kernels * 2] * 4)
        for shared in (False, True):  # one kind of traffic shares its links with no other
            step, idle = step_of(job, 2, shared, "launch_wait_time")
            yield step, ends[3] - ends[2]  # long after the first launch
            if not traffic:
                yield idle, waits[3]


@check(
    "roofline_launch_wait_time exposed_tensor_parallel_time layer_time",
    by="simulator",
    source="host and GPU on one clock from standstill: as many launches forward as back, layers of "
    "two kinds",
    tolerance=0.03,
)
def unlike_layers_between_launches() -> Pairs:
    """eight micro-batches, a host of 0.3 to 4 times its GPU, layers of which half take thrice"""
    for kinds in ([1.0] * 8, [0.5] * 4 + [1.5] * 4, [1.5] * 4 + [0.5] * 4, [0.5, 1.5] * 4):
        for host, traffic in itertools.product((0.3, 0.9, 1.1, 1.3, 1.5, 4.0), (0.1, 0.3, 0.6)):
            job = {"gpu": 1e-2, "host": host * 1e-2, "traffic": traffic * 1e-2, "overlap": 0.0}
            job["logits"] = 0.0
            ends, _ = queued([kernels_of(job, (1 / 2, 1 / 2), kinds) * 8])
            yield step_of(job, 8, False)[0], ends[0]


@check(
    "roofline_launch_wait_time exposed_tensor_parallel_time layer_time",
    by="simulator",
    source="host and GPU on one clock; the host waits for each micro-batch to end, and launches on "
    "during logits as long as two layers",
    tolerance=1 / 6,
)
def launches_of_one_microbatch() -> Pairs:
    """one micro-batch, as many launches forward as back: like layers, with and without logits"""
    for host, traffic, logits in itertools.product(
        (0.3, 0.9, 1.1, 1.3, 1.5, 4), (0.1, 0.3, 0.6), (0, 2)
    ):
        job = {"gpu": 1e-2, "host": host * 1e-2, "traffic": traffic * 1e-2, "overlap": 0.0}
        job["logits"] = logits * 1e-2
        ends, _ = queued([kernels_of(job, (1 / 2, 1 / 2), [1.0] * 8)])
        yield step_of(job, 1, False)[0], ends[0]
