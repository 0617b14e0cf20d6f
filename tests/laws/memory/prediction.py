"""Multi-token prediction: a pipeline's tensors placed stage by stage, and published counts."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import fleetcube

from ...draws import generator, scaled
from ...evaluated import computed, value
from ..check import Pairs, check
from ..pipeline.stages import kept, split

SCHEDULES = ("1f1b", "1f1b", "gpipe", "zb_h1", "zb_v", "dualpipe", "interleaved")
EXACT = ("1f1b", "gpipe", "dualpipe")  # the others keep at most what the law says


def jobs(number: int) -> Iterator[tuple[dict[str, Any], list[int]]]:
    """Jobs that predict one or two further tokens, and the layers of each of their stages."""
    draws = generator(58)
    for _ in range(number):
        p = int(draws.choice([1, 2, 3, 4, 6, 8]))
        schedule = str(draws.choice(SCHEDULES)) if p > 1 else "1f1b"
        p += p % 2 if schedule == "dualpipe" else 0
        chunks = {"interleaved": int(draws.integers(2, 4)), "zb_v": 2}.get(schedule, 1)
        t, d, h = (int(draws.choice(some)) for some in ((1, 2, 4), (1, 2, 4), (512, 1024)))
        layers = p * chunks * int(draws.integers(1, 4))
        if chunks == 1 and schedule != "dualpipe":  # whose middle stages count as the larger
            layers += int(draws.integers(p))
        job: dict[str, Any] = {"layers": layers, "hidden_size": h, "attention_heads": 8}
        job |= {"kv_heads": int(draws.choice([2, 8])), "ffn_hidden_size": 3 * h, "gated_ffn": True}
        job |= {"vocab_size": int(draws.choice([4096, 32000])), "sequence_length": 1024}
        job |= {"embedding_tables": int(draws.choice([1, 2])), "n_gpus": t * d * p}
        job |= {"tensor_parallel": t, "pipeline_parallel": p, "pipeline_schedule": schedule}
        job |= {"global_batch_size": 4 * p * d, "prediction_layers": int(draws.integers(1, 3))}
        job |= {"recompute": [False, "selective", "full"][draws.integers(3)]}
        job |= {"sequence_parallel": bool(t > 1 and draws.random() < 0.5), "zero_stage": 1}
        if schedule == "interleaved":
            job["virtual_stages"] = chunks
        yield job, split(layers, p)


def placed(job: dict[str, Any], each: list[int]) -> tuple[list[float], list[float]]:
    """Parameters of each stage, and the values of logits that a micro-batch leaves there."""
    p, layers, h, further = len(each), sum(each), job["hidden_size"], job["prediction_layers"]
    projections = h * h // 8 * (2 * 8 + 2 * job["kv_heads"])
    block = projections + 3 * h * job["ffn_hidden_size"] + 2 * h + h / layers  # with the last norm
    table = job["vocab_size"] * h
    loss = 0 if job["pipeline_schedule"] == "zb_v" else p - 1  # and behind it the modules
    held = [size * block for size in each]
    held[0] += table
    held[loss] += further * (block + 2 * h * h)
    if p > 1:
        held[loss] += table  # of the head, even if tied
        if loss > 0 and job["pipeline_schedule"] != "dualpipe":
            held[loss] += table  # that the modules look up, even if tied
    elif job["embedding_tables"] == 2:
        held[0] += table
    if mirrored := job["pipeline_schedule"] == "dualpipe":
        held = [one + other for one, other in zip(held, held[::-1], strict=True)]
    ends = {loss, p - 1 - loss} if mirrored else {loss}
    values = (1 + further) * 1024 * job["vocab_size"]
    return held, [values * float(stage in ends) for stage in range(p)]


def layers_kept(job: dict[str, Any], each: list[int]) -> list[float]:
    """Peak number of layers whose activations each stage keeps, its schedule played."""
    p, further, schedule = len(each), job["prediction_layers"], job["pipeline_schedule"]
    chunks = job.get("virtual_stages", 2 if schedule == "zb_v" else 1)
    sizes = [size // chunks for size in each * chunks]  # alike in each piece of a stage
    if p == 1:
        return [sizes[0] + further]
    sizes[-1] += further
    more = {"virtual_stages": chunks} if schedule == "interleaved" else {}
    name = "1f1b" if schedule == "interleaved" else schedule
    return kept(sizes, p, 4 * p, pipeline_schedule=name, **more)


@check(
    "staged_held_parameters first_stage_held_layers last_stage_held_layers staged_logits_memory "
    "first_stage_table_parameters last_stage_table_parameters predicting_last_stage_tables "
    "some_projection_parameters predicting_microbatch_logits staged_activation_memory",
    by="simulator",
    source="layers, tables, projections and logits put on stages as Megatron-LM's GPTModel "
    "allocates them (pre_process, post_process and mtp_process; process_mtp_loss), passes played",
)
def modules_on_stages() -> Pairs:
    """drawn dense models on 1 to 8 stages: 1 or 2 modules, tied or not, six schedules"""
    for job, each in jobs(scaled(40)):
        held, logits = placed(job, each)
        (one,) = computed(job, "activation_memory_per_layer")
        names = ("held_parameters", "logits_memory", "activation_memory")
        stages = list(range(1, len(each) + 1))
        got = fleetcube.evaluate(names, **job, pipeline_stage=stages)
        parameters, last, memory = (np.broadcast_to(got[name], len(each)) for name in names)
        yield parameters, np.array(held) / job["tensor_parallel"]
        yield last, 4 * np.array(logits) / job["tensor_parallel"]
        ours, played = memory - last, np.array(layers_kept(job, each)) * one
        exact = job["pipeline_schedule"] in EXACT
        yield (ours if exact else np.minimum(ours, played)), played


@check(
    "some_projection_parameters last_stage_held_layers staged_held_parameters",
    by="table",
    source="DeepSeek-AI, DeepSeek-V3, README_WEIGHTS.md: 11.5e9 parameters in the module, beside "
    "the embedding and the head of 0.9e9 each that it shares",
    tolerance=0.02,
)
def published_module() -> Pairs:
    """DeepSeek-V3 on one stage and on the last of 16"""
    job: dict[str, Any] = {"model": "deepseek-v3", "n_gpus": 2048, "global_batch_size": 15360}
    for p, table in ((1, 0.0), (16, 0.9e9)):
        there = {**job, "pipeline_parallel": p, "pipeline_stage": p, "tensor_parallel": 1}
        alone = value("held_parameters", **there, stage_split="whole_layers")
        with_module = value("held_parameters", **there, prediction_layers=1)
        yield with_module - alone, 11.5e9 + table


@check(
    "nvfp4_copied_weight_bytes quantised_cached_weight_bytes nvfp4_two_way_bytes_per_element "
    "nvfp4_norm_output_bytes nvfp4_packed_weight_bytes nvfp4_peak_flops",
    by="derivation",
    source="a model all of whose layers stay in 16 bits is that in BF16, whatever is asked of it",
    tolerance=1e-12,
)
def all_layers_in_16_bits() -> Pairs:
    """drawn jobs of Llama 3 8B and of Qwen3-30B-A3B: memory, messages and steps"""
    names = ("memory_per_gpu", "activation_memory", "working_memory", "weights_memory")
    names += ("weight_bytes_on_wire", "serving_weight_bytes", "step_time")
    draws = generator(59)
    for _ in range(scaled(30)):
        t, experts = int(draws.choice([1, 2, 4])), draws.random() < 0.4
        job: dict[str, Any] = {"model": "qwen-3-30b-a3b" if experts else "llama-3-8b"}
        job |= {"expert_parallel": int(draws.choice([1, 4]))} if experts else {}
        job |= {"node": "dgx-b200", "n_gpus": 64, "global_batch_size": 256, "tensor_parallel": t}
        job |= {"sequence_parallel": bool(t > 1 and draws.random() < 0.6), "calibration": "none"}
        job |= {"zero_stage": int(draws.integers(4)), "compute_model": "roofline"}
        job |= {"quantised_parameters": bool(draws.random() < 0.5)}
        job |= {"recompute": [False, "selective", "full", "products"][draws.integers(4)]}
        job |= {"gradient_storage": ["bf16", "fp32", "bf16_and_fp32"][draws.integers(3)]}
        four = {**job, "precision": "nvfp4", "sixteen_bit_layers_share": 1.0}
        yield from zip(computed(four, *names), computed(job, *names), strict=True)
