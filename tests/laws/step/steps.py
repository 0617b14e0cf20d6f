"""Simulated pipeline steps, and the traffic of groups in them."""

import itertools
from typing import Any

import fleetcube
from fleetcube import simulate_schedule

from ... import formulas
from ...evaluated import ENDS, value, values
from ..check import Pairs, check
from ..network.collectives import ring
from ..network.traffic import _go_round

PLAYED = "every pass and every send of a step played in the published order"


def played(step: dict[str, Any], send: float) -> float:
    """Time of a step whose stages work 1 s per micro-batch, a third of it forward."""
    given = {"forward_time": 1 / 3, "input_gradient_time": 1 / 3, "weight_gradient_time": 1 / 3}
    given |= {"send_time": send, **step}
    return simulate_schedule(**given).step_time


def layouts() -> list[dict[str, Any]]:
    """1F1B with blocking sends, interleaved schedules with asynchronous ones; m above p and not."""
    return [
        {"pipeline_parallel": p, "num_microbatches": m, "virtual_stages": v}
        for p, m, v in (
            *((1, 4, 1), (2, 8, 1), (4, 4, 1), (4, 24, 1), (8, 32, 1)),
            *((2, 8, 2), (4, 16, 2), (4, 24, 3), (8, 16, 2)),
        )
    ]


@check(
    "usual_awaited_pipeline_sends awaited_pipeline_time exposed_pipeline_parallel_time "
    "even_bubble_time schedules.bubble_fraction",
    by="simulator",
    source=PLAYED,
)
def sends_and_bubbles() -> Pairs:
    """nine layouts of 1 to 8 stages, 1 to 3 chunks: idle time without sends, and with them"""
    for layout in layouts():
        m, send = layout["num_microbatches"], 0.02
        alone, longer = played(layout, 0.0), played(layout, send)
        names = ["awaited_pipeline_time", "exposed_pipeline_parallel_time"]
        got = values(
            [*names, "bubble_time", "bubble_fraction"],
            **layout,
            stage_split=False,
            pipeline_send_time=0.015,
            pipeline_gather_time=0.005,
            compute_time=0.5 * m,  # 1 s with the layers' traffic and the slowest rank
            straggler_time=0.2 * m,
            exposed_layer_communication_time=0.3 * m,
            exposed_data_parallel_time=0.0,
        )
        yield got["bubble_time"], alone - m
        yield got["bubble_fraction"], (alone - m) / alone
        for name in names:  # offset by m: a single stage waits for nothing
            yield m + got[name], m + longer - alone


@check("fixed_step_time", by="simulator", source=PLAYED)
def what_more_gpus_leave() -> Pairs:
    """twice the GPUs at half the micro-batches: what of a step does not halve; m above p, below"""
    below = [
        {"pipeline_parallel": p, "num_microbatches": m, "virtual_stages": v}
        for p, m, v in ((8, 4, 1), (8, 4, 2), (4, 2, 3))
    ]
    above = [x for x in layouts() if x["num_microbatches"] >= 2 * x["pipeline_parallel"]]
    for layout in [*above, *below]:
        p, m, v = layout.values()
        more = {"pipeline_scheduler": "pytorch"} if m < p else {}
        for send in (0.0, 0.002):
            if send and m < p and v > 1:
                continue  # sends in a pipeline that is not full: only a bound
            step = played({**layout, **more}, send) + 0.25
            half = played({**layout, **more, "num_microbatches": m // 2}, send) + 0.25
            alone = played({**layout, **more}, 0.0)
            busiest = 2 * v if p > 2 else 2 * v - 1 if p > 1 else 0  # sends: ends send one way
            ours = formulas.fixed_step_time(
                alone - m,
                0.0,
                0.25,
                p,
                m,
                v,
                0.5 * m,
                0.2 * m,
                0.3 * m,
                sum(busiest * send for _ in range(m)),
                step - 0.25 - alone,
            )
            yield ours, 2 * half - step


@check(
    "reduced_exchanged_message sharded_exchanged_message",
    by="simulator",
    source="blocks passed round rings, bytes through a port counted",
)
def exchanges() -> Pairs:
    """2 to 16 ranks; gradients in FP32, weights in BF16"""
    for ranks in (2, 5, 16):
        share = (ranks - 1) / ranks  # of a message that a port sees
        both = ring(ranks, 16e9, 0.0, 1.0)
        yield share * formulas.reduced_exchanged_message(16e9), both
        there, back = _go_round(ranks, 16e9, 0.0, 1.0), _go_round(ranks, 8e9, 0.0, 1.0)
        yield share * formulas.sharded_exchanged_message(16e9, 8e9), there + back


@check(
    "split_distributed_input_gathers full_recompute_saved_input_gather_time",
    by="simulator",
    source="rings of each layer's passes played; a rank without the whole saved input gathers it",
)
def saved_inputs() -> Pairs:
    """2 to 16 ranks, full recompute, inputs kept whole, in parts, or kept and used in parts"""
    for ranks, kept, sequence in itertools.product((2, 5, 16), (False, True), (False, True)):
        both = ring(ranks, 16e9, 0.0, 1e9)
        once = _go_round(ranks, 16e9, 0.0, 1e9)
        used = 1 if sequence else ranks  # parts of an input that a rank works on
        saved = 1 if kept or sequence else ranks
        played = 2 * both + (saved < used) * once + 4 * both
        given = {"all_reduce": "ring", "recompute": "full"}
        given |= {"distribute_saved_activations": kept, "sequence_parallel": sequence}
        given |= {"tensor_parallel": ranks, "gpus_per_node": 16, "layers": 1, "num_microbatches": 1}
        given |= {"activation_message": 16e9, "intra_node_bandwidth": 1e9}
        given |= {"inter_node_bandwidth": 1e9, "inter_node_latency": 0.0, "intra_node_latency": 0.0}
        given |= {"regather_time": 0.0, **ENDS}
        got = fleetcube.evaluate("tensor_parallel_time", **given)
        yield float(got), played


@check(
    "layer_compute_time exposed_tensor_parallel_time routed_exposed_expert_parallel_time "
    "traffic_window",
    by="simulator",
    source="a step's products played one by one: traffic of a layer runs beside its products, of "
    "tensor ranks a share of it, and none beside the vocabulary's product after the last layer",
)
def traffic_beside_layers() -> Pairs:
    """1 and 2 stages, 32,000 and 256,000 words, overlaps of 0 to 1, traffic 0.3 and 1 x compute"""
    hidden, layers, tokens = 2048, 8, 2048
    for stages, words, overlap in itertools.product((1, 2), (32000, 256000), (0.0, 0.5, 1.0)):
        point: dict[str, Any] = {"hidden_size": hidden, "layers": layers, "vocab_size": words}
        point |= {"sequence_length": tokens, "n_gpus": stages, "pipeline_parallel": stages}
        point |= {"global_batch_size": 4, "peak_flops_bf16": 1e12, "flops_efficiency": 0.5}
        point |= {"mixture_of_experts": True, "experts": 2, "experts_per_token": 1}
        compute = value("compute_time", **point)
        head = 4 * 6 * tokens * hidden * words / 0.5e12 / stages  # of the mean stage
        for kind, sent in itertools.product(("tensor", "expert"), (0.3, 1.0)):
            none = {f"{other}_parallel_time": 0.0 for other in ("tensor", "context", "expert")}
            run = {**point, **none, f"{kind}_parallel_time": sent * compute}
            run |= {f"{kind}_parallel_overlap": overlap, "regather_time": 0.0}
            run |= ENDS
            clock = 0.0
            for _ in range(4 * layers // stages):  # layers of the micro-batches on a stage
                product = (compute - head) / (4 * layers // stages)
                traffic = sent * compute / (4 * layers // stages)
                if kind == "tensor":  # a share of products is cut, and sent meanwhile
                    late = overlap * max(0.0, traffic - product) + (1 - overlap) * traffic
                else:
                    late = max(0.0, traffic - overlap * product)
                clock += product + late
            waits = value(f"exposed_{kind}_parallel_time", **run)
            yield compute + waits, clock + head
            if overlap:
                window = value("traffic_window", **run, data_parallel_overlap=0.0)
                yield window, overlap * (compute - head)


@check(
    "fsdp_units expert_ffn_regathers_per_layer",
    by="derivation",
    source="layers of a stage wrapped one by one; blocks whose input is a whole sequence, counted",
)
def blocks() -> Pairs:
    """32 and 61 layers on 1 to 8 stages, 0 to all of them dense"""
    for layers, stages in ((32, 1), (32, 4), (32, 8)):
        wrapped = [layer for layer in range(layers) if layer * stages // layers == 0]
        yield formulas.fsdp_units(layers, stages), len(wrapped)
    for layers, dense in ((32, 0), (61, 3), (32, 32)):
        kinds = ["mlp"] * dense + ["experts"] * (layers - dense)
        ours = formulas.expert_ffn_regathers_per_layer(dense, layers)
        yield ours * layers, kinds.count("mlp")
