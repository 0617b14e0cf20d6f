"""calculon and fleetcube on the same configurations: the results of each, and why they differ.

A line compares one quantity. What differs is the sum of named differences, each an amount that
follows from the configuration (or from another line), never from the two numbers compared: so an
explanation that is wrong, or incomplete, fails.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import xarray

import fleetcube
from fleetcube import Settings

from . import environments

PEAK, INSIDE, RAIL, LIMITLESS = 1e15, 1e11, 1e10, 1e40
VOCABULARY = 51200
ELEMENT = 2
COMMUNICATION = {"whole": "ar", "scattered": "p2p_rs_ag", "sequence": "rs_ag"}
RECOMPUTE: dict[str | bool, str] = {False: "none", "selective": "attn_only", "full": "full"}


@dataclass(frozen=True)
class Point:
    """One configuration that both tools take: a GPT and its layout."""

    heads: int = 32
    head_size: int = 128
    hidden: int = 4096
    ffn: int = 16384
    multi_query: bool = False
    chunk_layers: int = 2
    sequence: int = 2048
    tensor: int = 8
    pipeline: int = 4
    chunks: int = 1
    replicas: int = 2
    micro_batch: int = 1
    micro_batches: int = 8
    recompute: str | bool = "selective"
    traffic: str = "sequence"
    gathers_again: bool = True
    fused: bool = False
    sharded: bool = False

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return 1 if self.multi_query else self.heads

    @property
    def kept_kv_heads(self) -> float:
        """Heads of keys and values on one rank."""
        return max(self.kv_heads / self.tensor, 1)

    @property
    def stage_layers(self) -> int:
        """Layers of one stage."""
        return self.chunk_layers * self.chunks

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.micro_batch * self.sequence

    @property
    def activation(self) -> float:
        """Bytes of a layer's input for one micro-batch, unshared."""
        return self.tokens * self.hidden * ELEMENT

    @property
    def residual_ranks(self) -> int:
        """Ranks that share norms and residuals."""
        return self.tensor if self.traffic == "sequence" else 1

    @property
    def width(self) -> float:
        """Width of a rank's heads."""
        return self.heads * self.head_size / self.tensor

    @property
    def scores(self) -> float:
        """Elements of a rank's attention scores for one micro-batch."""
        return self.tokens * self.sequence * self.heads / self.tensor

    @property
    def wire(self) -> float:
        """Bytes a rank sends to gather one activation over the tensor ranks."""
        return self.activation * (self.tensor - 1) / self.tensor

    def scenario(self, **more: Any) -> dict[str, Any]:
        """For fleetcube: one kind of link between nodes, no latency, nothing but peak limits."""
        return {
            "layers": self.stage_layers * self.pipeline,
            "hidden_size": self.hidden,
            "attention_heads": self.heads,
            "head_size": self.head_size,
            "kv_heads": self.kv_heads,
            "ffn_hidden_size": self.ffn,
            "gated_ffn": False,
            "vocab_size": VOCABULARY,
            "sequence_length": self.sequence,
            "n_gpus": self.tensor * self.pipeline * self.replicas,
            "gpus_per_node": self.tensor,
            "tensor_parallel": self.tensor,
            "pipeline_parallel": self.pipeline,
            "virtual_stages": self.chunks,
            "micro_batch_size": self.micro_batch,
            "global_batch_size": self.micro_batch * self.micro_batches * self.replicas,
            "recompute": self.recompute,
            "sequence_parallel": self.traffic == "sequence",
            "scatter_gather": self.traffic == "scattered",
            "zero_stage": 1 if self.sharded else 0,
            "attention_kernel": "standard",
            "all_reduce": "ring",
            "flops_counting": "transformer",
            "pipeline_sends": "blocking",
            "peak_flops_bf16": PEAK,
            "hbm_bandwidth": LIMITLESS,
            "intra_node_bandwidth": INSIDE,
            "inter_node_bandwidth": RAIL,
            "intra_node_latency": 0.0,
            "inter_node_latency": 0.0,
            "flops_efficiency": 1.0,
            **more,
        }

    def theirs(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """For calculon: an application and an execution."""
        application = {
            "hidden": self.hidden,
            "feedforward": self.ffn,
            "seq_size": self.sequence,
            "attn_heads": self.heads,
            "attn_size": self.head_size,
            "num_blocks": self.stage_layers * self.pipeline,
        }
        execution = {
            "num_procs": self.tensor * self.pipeline * self.replicas,
            "tensor_par": self.tensor,
            "pipeline_par": self.pipeline,
            "data_par": self.replicas,
            "tensor_par_net": 0,
            "pipeline_par_net": 1,
            "data_par_net": 1,
            "batch_size": self.micro_batch * self.micro_batches * self.replicas,
            "microbatch_size": self.micro_batch,
            "datatype": "float16",
            "fused_activation": self.fused,
            "attention_type": "multiquery" if self.multi_query else "multihead",
            "activation_recompute": RECOMPUTE[self.recompute],
            "pipeline_interleaving": self.chunks,
            "optimizer_sharding": self.sharded,
            "tensor_par_comm_type": COMMUNICATION[self.traffic],
            "tensor_par_overlap": "none",
            "seq_par_ag_redo": self.gathers_again,
            "data_par_overlap": False,
            "weight_offload": False,
            "activations_offload": False,
            "optimizer_offload": False,
            "training": True,
        }
        return application, execution


def system() -> dict[str, Any]:
    """calculon's machine: the scenario's."""
    memory = {"GiB": LIMITLESS, "GBps": LIMITLESS, "MB_efficiency": [[0, 1.0]]}

    def engine(rate: float) -> dict[str, Any]:
        return {"float16": {"tflops": rate / 1e12, "gflops_efficiency": [[0, 1.0]]}}

    def network(rate: float) -> dict[str, Any]:
        return {
            "bandwidth": rate / 1e9,
            "efficiency": 1.0,
            "size": 1 << 30,
            "latency": 0.0,
            "ops": {
                "p2p": [1.0, None],
                "reduce_scatter": [1.0, -1],
                "all_gather": [1.0, -1],
                "all_reduce": [2.0, -1],
            },
            "must_be_filled": False,
            "processor_usage": 0.0,
        }

    return {
        "matrix": engine(PEAK),
        "vector": engine(LIMITLESS),
        "mem1": memory,
        "mem2": memory,
        "processing_mode": "no_overlap",
        "networks": [network(INSIDE), network(RAIL)],
    }


def draw(count: int, seed: int = 2023) -> list[Point]:
    """Random configurations valid for both tools."""
    rng = random.Random(seed)
    return [_draw(rng) for _ in range(count)]


def _draw(rng: random.Random) -> Point:
    tensor = rng.choice((1, 2, 4, 8))
    heads, head_size = rng.choice((24, 32, 40, 64, 96, 128)), rng.choice((64, 80, 96, 128))
    hidden = heads * head_size * rng.choice((1, 1, 1, 2))
    pipeline = rng.choice((1, 2, 3, 4, 8, 12, 16))
    traffic = "whole" if tensor == 1 else rng.choice(tuple(COMMUNICATION))
    recompute = rng.choice(tuple(RECOMPUTE))
    replicas = rng.choice((1, 2, 4, 7, 16))
    few = rng.randint(1, max(1, pipeline - 1))
    return Point(
        heads=heads,
        head_size=head_size,
        hidden=hidden,
        ffn=rng.choice((4 * hidden, 4 * hidden, hidden * 8 // 3 // 64 * 64)),
        multi_query=rng.random() < 0.15,
        chunk_layers=rng.choice((1, 2, 3, 4, 6, 10)),
        sequence=rng.choice((1024, 2048, 4096)),
        tensor=tensor,
        pipeline=pipeline,
        chunks=1 if pipeline == 1 else rng.choice((1, 2, 3, 4)),
        replicas=replicas,
        micro_batch=rng.choice((1, 2, 4)),
        micro_batches=rng.choice((few, pipeline, 2 * pipeline, 5 * pipeline, rng.randint(1, 64))),
        recompute=recompute,
        traffic=traffic,
        gathers_again=traffic == "sequence" and recompute != "full" and rng.random() < 0.6,
        fused=rng.random() < 0.3,
        sharded=replicas > 1 and rng.random() < 0.6,
    )


STEP = (
    "model_flops_per_step",
    "compute_time",
    "weights_memory",
    "gradients_memory",
    "optimizer_memory",
    "activation_memory_per_layer",
    "microbatches_in_flight",
    "logits_memory",
    "activation_memory",
    "working_memory",
    "memory_per_gpu",
    "bubble_ratio",
    "tensor_parallel_time",
    "pipeline_message",
    "pipeline_parallel_time",
    "exposed_pipeline_parallel_time",
    "gradient_message",
    "data_parallel_time",
    "bubble_time",
    "exposed_tensor_parallel_time",
    "step_time",
    "infeasible_reason",
)
LAYER = (
    "attention_projection_time",
    "ffn_time",
    "attention_score_flops",
    "layer_time",
    "layer_recompute_time",
)
ROOFLINE = {
    "compute_model": "roofline",
    "gemm_efficiency": 1.0,
    "gemm_half_depth": 0.0,
    "attention_efficiency": 1.0,
    "memory_efficiency": 1.0,
}


class Case(NamedTuple):
    """A configuration and the numbers of both tools."""

    point: Point
    ours: Mapping[str, float]
    theirs: Mapping[str, float]


def ours(points: Sequence[Point]) -> list[dict[str, float]]:
    """fleetcube's numbers: of the step by the mfu model, of a layer by the roofline.

    Points of the same options are evaluated together.
    """
    answers: list[dict[str, float]] = [{} for _ in points]
    options: dict[tuple[object, ...], list[int]] = {}
    for index, point in enumerate(points):
        options.setdefault((point.recompute, point.traffic, point.sharded), []).append(index)
    for outputs, more in ((STEP, {}), (LAYER, ROOFLINE)):
        for group in options.values():
            scenarios = [points[index].scenario(**more) for index in group]
            inputs = {name: _column([each[name] for each in scenarios]) for name in scenarios[0]}
            values = fleetcube.evaluate(outputs, settings=Settings("numpy"), **inputs)
            for name in outputs:
                column = numpy.broadcast_to(values[name].values, len(group))
                for index, value in zip(group, column, strict=True):
                    answers[index][name] = float(value)
    return answers


def _column(values: list[Any]) -> Any:
    """One input of many points: a scalar if all agree, else along a common dimension."""
    return values[0] if len(set(values)) == 1 else xarray.DataArray(values, dims="point")


def theirs(points: Sequence[Point], checkout: Path) -> list[dict[str, float]]:
    """calculon's numbers of the points."""
    return ask(checkout, system(), [point.theirs() for point in points])


def ask(
    checkout: Path,
    machine: Mapping[str, Any],
    configurations: Sequence[Sequence[Mapping[str, Any]]],
) -> list[dict[str, float]]:
    """calculon's numbers, from an environment of its own; RuntimeError where there are none."""
    interpreter = environments.ready("calculon", ("numpy", "pandas", "psutil"))
    question = {"system": machine, "configurations": configurations}
    printed = environments.script(
        interpreter, "calculon_points.py", "--checkout", str(checkout), stdin=json.dumps(question)
    )
    numbers: list[dict[str, float]] = json.loads(printed)
    return numbers


Amount = Callable[[Case], float]


@dataclass(frozen=True)
class Difference:
    """A named part of theirs - ours; 0 where it does not apply."""

    name: str
    right: str
    why: str
    amount: Amount

    def times(self, factor: Callable[[Case], float]) -> "Difference":
        """The same reason in another line."""
        return replace(self, amount=lambda c: self.amount(c) * factor(c))


@dataclass(frozen=True)
class Line:
    """One quantity: the number of each tool, and the differences."""

    quantity: str
    ours: Amount
    theirs: Amount
    differences: Sequence[Difference] = ()

    def left(self, case: Case) -> float:
        """What no difference explains, over the larger of the two."""
        mine, other = self.ours(case), self.theirs(case)
        explained = sum(difference.amount(case) for difference in self.differences)
        scale = max(abs(mine), abs(other))
        return abs(other - mine - explained) / scale if scale else 0.0


KV = Difference(
    "one key-value head on every rank",
    "convention",
    "with fewer key-value heads than tensor ranks calculon has whole heads on each rank; fleetcube "
    "divides them by t, as Megatron-Core does since 0.16 (up to 0.15 it refuses them), whose "
    "gather of what they give neither counts",
    lambda c: (
        2 * c.point.hidden * c.point.head_size * max(0.0, 1 - c.point.kv_heads / c.point.tensor)
    ),
)
NO_PV = Difference(
    "P V not computed again",
    "fleetcube",
    "Megatron checkpoints the core attention as a whole: both products run again "
    "(Korthikanti et al. 2022, section 5); calculon repeats Q K^T only",
    lambda c: (
        -2 * c.point.tokens * c.point.sequence * c.point.width * (c.point.recompute == "selective")
    ),
)


def _micro_batch_flops(c: Case) -> float:
    """From one layer and micro-batch to the step of one GPU."""
    return c.point.stage_layers * c.point.micro_batches


def _kv_flops(passes: Callable[[Case], float]) -> Difference:
    return KV.times(lambda c: 2 * c.point.tokens * passes(c))


def _full(c: Case) -> float:
    return 1.0 * (c.point.recompute == "full")


def _elementwise(c: Case) -> float:
    """Operations of a layer outside matrix products, as calculon counts them, and the update's."""
    p = c.point
    whole = p.tokens * p.hidden
    reduced = 2 * whole * (p.tensor - 1) / p.tensor
    norms_dropout_residuals = (2 * (9 + 14 + 7) + 2 * (1 + 1) + 2 * (1 + 2) + 2 * 2) * (
        whole / p.residual_ranks
    )
    softmax_dropout = (5 + 8 + 1 + 1) * p.scores
    gelu = (8 + 13) * p.tokens * p.ffn / p.tensor
    update = 11 * _layer_weights(c) / (p.replicas if p.sharded else 1)
    return norms_dropout_residuals + 3 * whole + 2 * reduced + softmax_dropout + gelu + update


def _layer_weights(c: Case) -> float:
    """calculon's weights of a layer on one rank."""
    p = c.point
    matrices = 2 * p.hidden * p.width + 2 * p.hidden * p.ffn / p.tensor
    kv = 2 * p.hidden * (p.head_size if p.multi_query else p.width)
    return matrices + kv + 4 * p.hidden


LOGITS_FLOPS = Difference(
    "logits",
    "fleetcube",
    "calculon has neither embedding nor logits: 6 V h operations of a token (Narayanan et al. "
    "2021, appendix), spread over the stages here",
    lambda c: (
        -6
        * c.point.tokens
        * VOCABULARY
        * c.point.hidden
        / (c.point.tensor * c.point.pipeline)
        * c.point.micro_batches
    ),
)
PARAMETERS = (
    Difference(
        "embeddings",
        "fleetcube",
        "calculon holds none: (V + s) h parameters are missing from its weights, states and "
        "gradients. fleetcube spreads them over all stages, where the first and the last hold them",
        lambda c: (
            -(VOCABULARY + c.point.sequence) * c.point.hidden / (c.point.tensor * c.point.pipeline)
        ),
    ),
    Difference(
        "biases",
        "fleetcube",
        "in Narayanan et al. 2021, eq. 2; calculon counts them in a model's size and not in its "
        "memory",
        lambda c: (
            -c.point.stage_layers
            * (
                c.point.head_size * (c.point.heads + 2 * c.point.kv_heads)
                + c.point.ffn
                + 2 * c.point.hidden
            )
            / c.point.tensor
        ),
    ),
    Difference(
        "norms on every rank",
        "calculon",
        "tensor ranks hold norm weights whole; fleetcube divides all parameters by t (1e-5 of the "
        "total)",
        lambda c: c.point.stage_layers * 4 * c.point.hidden * (1 - 1 / c.point.tensor),
    ),
    KV.times(lambda c: c.point.stage_layers),
)


def _parameters(bytes_each: Callable[[Case], float]) -> tuple[Difference, ...]:
    return tuple(difference.times(bytes_each) for difference in PARAMETERS)


def _shards(c: Case) -> float:
    return c.point.replicas if c.point.sharded else 1


GRADIENTS = (
    Difference(
        "one layer's gradients in FP32",
        "convention",
        "calculon adds up in FP32 for the layer at work and keeps the rest in 16 bits; "
        "`gradient_storage` states the format of all",
        lambda c: 2 * _layer_weights(c),
    ),
    Difference(
        "gradients sharded with the optimizer",
        "fleetcube",
        "calculon divides gradients by d where optimizer states are sharded, and still sends them "
        "once a step: the memory of ZeRO-2 at the traffic of ZeRO-1. Gradients of several "
        "micro-batches cannot be added up without a whole copy",
        lambda c: -ELEMENT * _layer_weights(c) * (c.point.stage_layers - 1) * (1 - 1 / _shards(c)),
    ),
)
ACTIVATIONS = (
    Difference(
        "whole input kept under sequence parallelism",
        "fleetcube",
        "with full recompute a rank keeps its part of a layer's input (Korthikanti et al. 2022, "
        "section 4.2.2); calculon keeps all of it on every rank",
        lambda c: c.point.activation * (1 - 1 / c.point.residual_ranks) * _full(c),
    ),
    Difference(
        "gathered inputs kept",
        "convention",
        "without `seq_par_ag_redo` calculon keeps inputs of matrices as gathered; Megatron keeps "
        "parts and gathers again, as fleetcube counts",
        lambda c: (
            c.point.activation
            * {False: 2, "selective": 1, "full": 0}[c.point.recompute]
            * (c.point.traffic == "sequence" and not c.point.gathers_again)
        ),
    ),
    Difference(
        "input of Q, K, V left out",
        "fleetcube",
        "calculon drops it under attn_only as if it were gathered again, also where nothing is "
        "gathered: 2 s b h of Korthikanti's 34 (eq. 6)",
        lambda c: (
            -c.point.activation
            * (c.point.recompute == "selective" and c.point.traffic != "sequence")
        ),
    ),
    Difference(
        "input of GeLU left out",
        "fleetcube",
        "a fused activation keeps nothing in calculon; its derivative needs the input, which does "
        "not follow from the output",
        lambda c: (
            -c.point.tokens
            * c.point.ffn
            / c.point.tensor
            * ELEMENT
            * (c.point.fused and c.point.recompute != "full")
        ),
    ),
    Difference(
        "keys and values of every query head",
        "fleetcube",
        "calculon keeps multi-query keys and values once for each query head; a rank keeps one",
        lambda c: (
            2
            * ELEMENT
            * c.point.tokens
            * (c.point.width - c.point.kept_kv_heads * c.point.head_size)
            * (1 - _full(c))
        ),
    ),
)


def _their_layer(c: Case) -> float:
    key = "block_act_checkpoint_size" if _full(c) else "block_act_storage_space"
    return c.theirs[key]


def _their_flight(c: Case) -> float:
    """Micro-batches in flight that calculon multiplies activations with."""
    layers, layer = c.point.stage_layers, _their_layer(c)
    if _full(c):
        return c.theirs["act_checkpoint_size"] / layers / layer
    return ((c.theirs["act_space"] - c.theirs["block_act_working_space"]) / layer + 1) / layers


FLIGHT = (
    Difference(
        "more micro-batches in flight than there are",
        "fleetcube",
        "calculon multiplies min(m, p) by 1 + (p - 1) / (p v), past m where m < p + (p - 1) / v",
        lambda c: (
            max(
                0.0,
                min(c.point.micro_batches, c.point.pipeline)
                * (1 + (c.point.pipeline - 1) / (c.point.pipeline * c.point.chunks))
                - c.point.micro_batches,
            )
            * (c.point.chunks > 1)
        ),
    ),
)


def _input_gradients(c: Case) -> tuple[float, float]:
    """Seconds of a layer's products for the gradients of its entering matrices' inputs."""
    p = c.point
    kv = 2 * p.head_size * p.kv_heads / p.tensor
    each = 2 * p.tokens * p.hidden / PEAK
    return each * (p.width + kv), each * p.ffn / p.tensor


BUBBLE = (
    Difference(
        "a last, incomplete group of micro-batches",
        "neither",
        "calculon adds (v - 1) (p - m mod p) chunks where p does not divide m > p. Megatron's "
        "order played with groups of p (p 2 to 8, v 2 to 4, m up to 29): 88 of 270 such points "
        "stall, the others take 0.75 to 2.2 times calculon's bubble. fleetcube refuses them "
        "(microbatch_group_does_not_fit); its number there is a bound from below",
        lambda c: (
            (c.point.chunks - 1)
            * (-c.point.micro_batches % c.point.pipeline)
            / (c.point.chunks * c.point.micro_batches)
            * (c.point.micro_batches > c.point.pipeline)
        ),
    ),
)
HALVES = (
    Difference(
        "inputs not gathered again",
        "fleetcube",
        "Megatron gathers the input of both entering matrices again in the backward pass, with "
        "full recompute too: 10 and 14 halves (Korthikanti et al. 2022, section 4.2.2); calculon 8 "
        "without `seq_par_ag_redo`, 9 with attn_only, 12 with full, where it forbids the option",
        lambda c: (
            -c.point.wire
            * {False: 2, "selective": 1, "full": 2}[c.point.recompute]
            * (c.point.traffic == "sequence" and not c.point.gathers_again)
        ),
    ),
    Difference(
        "a gather again for attention at the edge of a chunk",
        "fleetcube",
        "calculon repeats the attention block's gather under attn_only, though only Q K^T and "
        "softmax run again",
        lambda c: (
            c.point.wire
            / c.point.chunk_layers
            * (c.point.traffic == "scattered" and c.point.recompute == "selective")
        ),
    ),
)
HIDDEN = Difference(
    "gathers again during products",
    "fleetcube",
    "the repeated gather runs during the product for the input's gradient (Korthikanti et al. "
    "2022, section 4.2.2) and is waited for only as far as it is longer; calculon waits for all",
    lambda c: (
        sum(min(c.point.wire / INSIDE, product) for product in _input_gradients(c))
        * _micro_batch_flops(c)
        * (c.point.traffic == "sequence")
    ),
)
GATHER = Difference(
    "gather after a scattered send",
    "convention",
    "Megatron's scatter/gather keeps the all-reduce and adds a gather (Narayanan et al. 2021, "
    "section 4.1); calculon's p2p_rs_ag sends between the all-reduce's two halves",
    lambda c: -_all_sends(c) * c.point.wire / INSIDE * (c.point.traffic == "scattered"),
)
ENDS = Difference(
    "two stages are two ends",
    "fleetcube",
    "the first chunk receives no activation and the last sends none: on two stages every stage has "
    "one of them, and (2 v - 1) m sends carry all; calculon counts 2 v m",
    lambda c: c.point.micro_batches * c.theirs["block_fw_pp_size"] / RAIL * (c.point.pipeline == 2),
)


def _all_sends(c: Case) -> float:
    """Sends of the busiest stage in one step."""
    inner = 2 * c.point.chunks * c.point.micro_batches
    return (inner - c.point.micro_batches * (c.point.pipeline == 2)) * (c.point.pipeline > 1)


def _sends(c: Case) -> float:
    """Sends that a step waits for, where stages that send do nothing else, as schedules play."""
    m, p, v = c.point.micro_batches, c.point.pipeline, c.point.chunks
    if p == 1:
        return 0.0
    if v > 1:
        return 2 * (v * m + (v - 1) * max(0, p - m) + p - 2)
    return m + 1 if p == 2 else 2 * (m + p - 2) - min(1, m - 1)


def _their_sends(c: Case) -> float:
    """Sends in calculon's step: two a chunk and micro-batch, in the bubble too."""
    m, p, v = c.point.micro_batches, c.point.pipeline, c.point.chunks
    return 2 * (m * v + p - 1 + (v - 1) * (-m % p)) * (p > 1)


SENDS = Difference(
    "sends that a step waits for",
    "fleetcube",
    "calculon charges every chunk of work and of bubble a send each way, also at the ends of the "
    "pipeline. Played, a step with one chunk on a stage waits for three fewer, with two stages for "
    "half; with several chunks both are bounds from above",
    lambda c: (_their_sends(c) - _sends(c)) * c.theirs["block_fw_pp_size"] / RAIL,
)
GATHERS = Difference(
    "gather after a scattered send",
    GATHER.right,
    GATHER.why,
    lambda c: -_sends(c) * c.point.wire / INSIDE * (c.point.traffic == "scattered"),
)


def _all_gradients(c: Case) -> float:
    """Gradients of all activations of a layer, as calculon keeps them."""
    p = c.point
    whole, part = p.activation, p.activation / p.residual_ranks
    entering = 0.0 if p.tensor == 1 else p.activation / p.residual_ranks
    leaving = entering if p.traffic == "sequence" else 0.0
    kv = 2 * p.tokens * (p.head_size if p.multi_query else p.width)
    attention = ELEMENT * (2 * p.tokens * p.width + kv + 2 * p.scores) + p.scores
    ffn = ELEMENT * p.tokens * p.ffn / p.tensor * (1 if p.fused else 2)
    block = part + entering + leaving + whole + part / ELEMENT + part
    return 2 * block + attention + ffn


def _widest_gradients(c: Case) -> float:
    """Gradients of the feed-forward block: its input, and both sides of the activation."""
    p = c.point
    inside = 2 * ELEMENT * p.tokens * p.ffn / p.tensor
    return p.activation / p.residual_ranks + inside


def _all_activations(c: Case) -> float:
    """Activations of the layer at work in calculon: inputs of every operation, as gathered."""
    p = c.point
    whole, part = p.activation, p.activation / p.residual_ranks
    entering = part if p.traffic == "sequence" else 0.0
    leaving = 0.0 if p.tensor == 1 else part
    attention = 4 * ELEMENT * p.tokens * p.width + (2 * ELEMENT + 1) * p.scores
    ffn = ELEMENT * p.tokens * p.ffn / p.tensor * (1 if p.fused else 2)
    return 2 * (part + part / ELEMENT + whole + entering + leaving) + attention + ffn


def _published_activations(c: Case) -> float:
    """Korthikanti et al. 2022, eq. 2 and 4, with grouped keys and values."""
    p = c.point
    residual = 5 * p.activation / p.residual_ranks
    kv = 2 * p.tokens * p.head_size * p.kept_kv_heads
    inside = ELEMENT * (2 * p.tokens * p.width + kv + 2 * p.tokens * p.ffn / p.tensor)
    return residual + inside + (2 * ELEMENT + 1) * p.scores


def _stored_activations(c: Case) -> float:
    """calculon's activations of a layer that are held, by the differences above."""
    if _full(c):
        return 0.0
    scores = (2 * ELEMENT + 1) * c.point.scores * (c.point.recompute == "selective")
    ours = _published_activations(c) - scores
    return ours + sum(difference.amount(c) for difference in ACTIVATIONS)


WORKING = (
    Difference(
        "gradients of all activations at once",
        "neither",
        "calculon keeps them all until the layer is done; autograd frees each when it has been "
        "used, so that fleetcube counts the widest: the feed-forward block's",
        lambda c: _all_gradients(c) - _widest_gradients(c),
    ),
    Difference(
        "buffers of gathered and reduced activations",
        "neither",
        "besides what is kept calculon holds inputs of one layer as gathered, and those of its "
        "reductions; under attn_only its scores",
        lambda c: (_all_activations(c) - _stored_activations(c)) * (1 - _full(c)),
    ),
    Difference(
        "scores or gradients",
        "fleetcube",
        "scores computed again and the widest gradients are not held at the same time: the larger "
        "counts",
        lambda c: (
            min(0.0, _widest_gradients(c) - (2 * ELEMENT + 1) * c.point.scores)
            * (c.point.recompute == "selective")
        ),
    ),
    Difference(
        "buffers in the layer computed again",
        "neither",
        "calculon's block with gathered inputs and inputs of reductions, against what the layer "
        "would keep (Korthikanti et al. 2022, eq. 2 and 4)",
        lambda c: (_all_activations(c) - _published_activations(c)) * _full(c),
    ),
)


def _their_working(c: Case) -> float:
    """What calculon holds for the layer at work beyond what it holds of every layer."""
    block_storage = 0.0 if _full(c) else c.theirs["block_act_storage_space"]
    return c.theirs["block_act_working_space"] - block_storage + c.theirs["act_grad_space"]


def _their_activations(c: Case) -> float:
    return c.point.stage_layers * _their_flight(c) * _their_layer(c)


def _together(differences: Sequence[Difference]) -> Amount:
    return lambda c: sum(difference.amount(c) for difference in differences)


def _above(name: str, amount: Amount) -> Difference:
    return Difference(name, "-", "the lines of that name", amount)


def _mine(name: str) -> Amount:
    return lambda c: c.ours[name]


def _other(name: str) -> Amount:
    return lambda c: c.theirs[name]


def _scaled(amount: Amount, factor: Callable[[Case], float]) -> Amount:
    return lambda c: amount(c) * factor(c)


def _their_bubble_ratio(c: Case) -> float:
    busy = ("fw_time", "bw_time", "recompute_time", "tp_comm_exposed_time", "recomm_exposed_time")
    return c.theirs["bubble_time"] / (
        sum(c.theirs[name] for name in busy) + c.theirs["pp_comm_exposed_time"]
    )


def _per_layer(c: Case) -> float:
    """From the step's seconds inside a node to bytes of a layer and micro-batch."""
    return INSIDE / _micro_batch_flops(c)


def _logits_memory(c: Case) -> float:
    return -4 * c.point.tokens * VOCABULARY / c.point.tensor * (c.point.pipeline == 1)


def _per_step(c: Case) -> float:
    return _micro_batch_flops(c) / PEAK


def _replicated(c: Case) -> float:
    return 1.0 * (c.point.replicas > 1)


def _reduced(c: Case) -> float:
    """From parameters to bytes on the wire of an all-reduce, or of its two halves."""
    return ELEMENT * 2 * (c.point.replicas - 1) / c.point.replicas


def _lines() -> list[Line]:
    recompute = (NO_PV, _kv_flops(_full))
    compute = tuple(
        difference.times(factor)
        for difference, factor in (
            (NO_PV, _per_step),
            (_kv_flops(lambda c: 3 + _full(c)), _per_step),
            (LOGITS_FLOPS, lambda c: 1 / PEAK),
        )
    )
    weights, optimizer = _parameters(lambda c: ELEMENT), _parameters(lambda c: 12 / _shards(c))
    gradients = (*_parameters(lambda c: ELEMENT), *GRADIENTS)
    activations = (
        _above(
            "activations of a layer",
            lambda c: (
                _together(ACTIVATIONS)(c) * c.point.stage_layers * c.ours["microbatches_in_flight"]
            ),
        ),
        _above(
            "micro-batches in flight",
            lambda c: _together(FLIGHT)(c) * c.point.stage_layers * _their_layer(c),
        ),
        Difference(
            "logits",
            "fleetcube",
            "in one stage the last layer's FP32 logits stand next to the first layer's activations "
            "(Korthikanti et al. 2022, section 4.3); calculon has none",
            _logits_memory,
        ),
    )
    tensor = tuple(d.times(lambda c: 1 / _per_layer(c)) for d in HALVES)
    data = tuple(d.times(lambda c: _reduced(c) / RAIL) for d in PARAMETERS)
    exposed = (*tensor, HIDDEN)
    work = _together((*compute, *exposed))
    idle = (
        _above("compute and tensor traffic", lambda c: _their_bubble_ratio(c) * work(c)),
        _above(
            "bubble over ideal",
            lambda c: (
                _together(BUBBLE)(c)
                * (c.ours["compute_time"] + c.ours["exposed_tensor_parallel_time"])
            ),
        ),
    )
    memory = (weights, gradients, optimizer, activations, WORKING)
    bubble = (
        Difference(
            "sends inside the bubble",
            "convention",
            "stages that idle wait for the sends of others too: in calculon a part of the bubble, "
            "in fleetcube of `exposed_pipeline_parallel_time`",
            lambda c: _their_bubble_ratio(c) * c.theirs["pp_comm_link_time"],
        ),
        *idle,
    )
    step = (compute, exposed, (SENDS, GATHERS), data, idle)
    return [
        Line(
            "forward products with weights, a layer",
            lambda c: (c.ours["attention_projection_time"] + c.ours["ffn_time"]) * PEAK,
            _other("weight_flops"),
            (_kv_flops(lambda c: 1),),
        ),
        Line(
            "forward attention products, a layer",
            _mine("attention_score_flops"),
            lambda c: c.theirs["forward_flops"] - c.theirs["weight_flops"],
        ),
        Line(
            "forward and backward products, a layer",
            lambda c: (c.ours["layer_time"] - c.ours["layer_recompute_time"]) * PEAK,
            lambda c: c.theirs["forward_flops"] + c.theirs["backward_flops"],
            (_kv_flops(lambda c: 3),),
        ),
        Line(
            "products computed again, a layer",
            lambda c: c.ours["layer_recompute_time"] * PEAK,
            _other("matrix_recompute_flops"),
            recompute,
        ),
        Line(
            "operations computed again, as reported",
            lambda c: c.ours["layer_recompute_time"] * PEAK,
            _other("block_re_flops"),
            (
                *recompute,
                Difference(
                    "element-wise operations",
                    "convention",
                    "norms, softmax, dropout, GeLU and sums: fleetcube takes their time from the "
                    "memory they move and counts no operations",
                    lambda c: c.theirs["recompute_flops"] - c.theirs["matrix_recompute_flops"],
                ),
                Difference(
                    "running totals added up",
                    "fleetcube",
                    "for each operation that runs again calculon adds the operations of all up to "
                    "it, so that the sum is too large; its times are right, its memory time of "
                    "recompute, which shortens the window of data-parallel traffic, is not",
                    lambda c: c.theirs["running_recompute_flops"] - c.theirs["recompute_flops"],
                ),
            ),
        ),
        Line(
            "useful operations, a layer, as reported",
            lambda c: (c.ours["layer_time"] - c.ours["layer_recompute_time"]) * PEAK,
            _other("useful_flops"),
            (
                _kv_flops(lambda c: 3),
                Difference(
                    "element-wise operations and the update",
                    "convention",
                    "norms, softmax, dropout, GeLU, sums and Adam",
                    _elementwise,
                ),
            ),
        ),
        Line(
            "model operations of a step, a GPU",
            lambda c: (
                c.ours["model_flops_per_step"]
                / (c.point.tensor * c.point.pipeline * c.point.replicas)
            ),
            lambda c: (
                (c.theirs["forward_flops"] + c.theirs["backward_flops"]) * _micro_batch_flops(c)
            ),
            (LOGITS_FLOPS, _kv_flops(lambda c: 3 * _micro_batch_flops(c))),
        ),
        Line(
            "compute time of a step, at peak",
            _mine("compute_time"),
            lambda c: c.theirs["fw_time"] + c.theirs["bw_time"] + c.theirs["recompute_time"],
            compute,
        ),
        Line("weights", _mine("weights_memory"), _other("weight_space"), weights),
        Line("gradients", _mine("gradients_memory"), _other("weight_grad_space"), gradients),
        Line("optimizer states", _mine("optimizer_memory"), _other("optimizer_space"), optimizer),
        Line(
            "activations of a layer",
            _mine("activation_memory_per_layer"),
            _their_layer,
            ACTIVATIONS,
        ),
        Line("micro-batches in flight", _mine("microbatches_in_flight"), _their_flight, FLIGHT),
        Line("activations of a stage", _mine("activation_memory"), _their_activations, activations),
        Line("layer at work", _mine("working_memory"), _their_working, WORKING),
        Line(
            "memory of a GPU",
            _mine("memory_per_gpu"),
            _other("proc_mem_tier1_cap_req"),
            [_above("all parts", _together([one for part in memory for one in part]))],
        ),
        Line("bubble over ideal time", _mine("bubble_ratio"), _their_bubble_ratio, BUBBLE),
        Line("bubble of a step", _mine("bubble_time"), _other("bubble_time"), bubble),
        Line(
            "bytes of tensor traffic, a layer",
            _scaled(_mine("tensor_parallel_time"), _per_layer),
            _scaled(
                lambda c: c.theirs["tp_comm_link_time"] + c.theirs["recomm_link_time"], _per_layer
            ),
            HALVES,
        ),
        Line(
            "time a step waits for tensor traffic",
            _mine("exposed_tensor_parallel_time"),
            lambda c: c.theirs["tp_comm_exposed_time"] + c.theirs["recomm_exposed_time"],
            exposed,
        ),
        Line(
            "bytes of a send between stages",
            lambda c: c.ours["pipeline_message"] * (c.point.pipeline > 1),
            _other("block_fw_pp_size"),
        ),
        Line(
            "time of sends, a step",
            _mine("pipeline_parallel_time"),
            _other("pp_comm_link_time"),
            (ENDS, GATHER),
        ),
        Line(
            "time a step waits for sends",
            _mine("exposed_pipeline_parallel_time"),
            lambda c: c.theirs["pp_comm_link_time"] * (1 + _their_bubble_ratio(c)),
            (SENDS, GATHERS),
        ),
        Line(
            "bytes of gradients, a step",
            lambda c: c.ours["gradient_message"] * _replicated(c),
            lambda c: c.theirs["block_dp_size"] * c.point.stage_layers,
            _parameters(lambda c: ELEMENT * _replicated(c)),
        ),
        Line(
            "time of gradients and ZeRO-1's weights, a step",
            _mine("data_parallel_time"),
            _other("dp_comm_link_time"),
            data,
        ),
        Line(
            "time of a step, nothing hidden",
            _mine("step_time"),
            _other("total_time"),
            [_above("all parts", _together([one for part in step for one in part]))],
        ),
    ]


LINES = _lines()
