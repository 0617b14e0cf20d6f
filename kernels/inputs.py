"""The one table of inputs: name, unit, default, bounds, kind. Everything is in SI base units."""

import math
from dataclasses import dataclass
from typing import Any

HOUR = 3600.0


@dataclass(frozen=True)
class Input:
    """One name that a scenario may set.

    `kind` is "real", "count" (whole in reality, continuous in the formulas) or "option" (one of
    `choices`). `default` is None where the value must be given or come from a label.
    """

    name: str
    unit: str
    default: Any
    description: str
    kind: str = "real"
    low: float = 0.0
    high: float = math.inf
    positive: bool = True
    may_be_infinite: bool = False
    choices: tuple[Any, ...] = ()


def _real(
    name: str,
    unit: str,
    default: float | None,
    description: str,
    *,
    positive: bool = True,
    high: float = math.inf,
    may_be_infinite: bool = False,
) -> Input:
    return Input(
        name,
        unit,
        default,
        description,
        positive=positive,
        high=high,
        may_be_infinite=may_be_infinite,
    )


def _count(
    name: str, default: float | None, description: str, *, low: float = 1.0, unit: str = "1"
) -> Input:
    return Input(name, unit, default, description, kind="count", low=low, positive=low > 0)


def _option(name: str, default: Any, choices: tuple[Any, ...], description: str) -> Input:
    return Input(name, "1", default, description, kind="option", choices=choices)


def _mttf(name: str, default: float, component: str) -> Input:
    description = f"mean time to failure of one {component} (infinite: not counted)"
    return _real(name, "s", default, description, may_be_infinite=True)


_ROWS = [
    # Cluster
    _count("n_gpus", None, "accelerators of the job"),
    _count("gpus_per_node", 8, "accelerators of one node"),
    _count("nics_per_node", 8, "network cards of one node", low=0),
    _count("series_psus_per_node", 0, "power supplies whose loss stops the node", low=0),
    _count("cables_per_node", 0, "network cables of one node", low=0),
    _real("peak_flops_fp16", "FLOP/s", None, "dense FP16 peak of one GPU"),
    _real("peak_flops_bf16", "FLOP/s", None, "dense BF16 peak of one GPU"),
    _real("peak_flops_fp8", "FLOP/s", None, "dense FP8 peak of one GPU"),
    _real("peak_flops_fp4", "FLOP/s", None, "dense FP4 peak of one GPU"),
    _real("hbm_bandwidth", "B/s", None, "memory bandwidth of one GPU"),
    _real("intra_node_bandwidth", "B/s", None, "per GPU and direction, inside a node"),
    _real("intra_node_latency", "s", 0.5e-6, "one hop inside a node", positive=False),
    _real("inter_node_bandwidth", "B/s", None, "per GPU and direction, between nodes"),
    _real("inter_node_latency", "s", 5e-6, "one hop between nodes", positive=False),
    _real("oversubscription", "1", 1.0, "downlink over uplink bandwidth of the fabric"),
    # Model and workload
    _real("parameters", "1", None, "parameters of the model"),
    _count("layers", None, "transformer layers"),
    _count("hidden_size", None, "width of the residual stream"),
    _count("sequence_length", 4096, "tokens of one sequence"),
    _count("global_batch_size", 1024, "sequences of one step"),
    _count("micro_batch_size", 1, "sequences of one micro-batch"),
    _real("bytes_per_element", "B", 2, "size of an activation or weight"),
    _real("gradient_bytes_per_element", "B", 2, "size of a gradient on the wire"),
    _option("precision", "bf16", ("bf16", "fp16", "fp8", "fp4"), "number format: chooses the peak"),
    # Layout
    _count("tensor_parallel", 1, "GPUs that share each layer"),
    _count("pipeline_parallel", 1, "pipeline stages"),
    _count(
        "context_parallel", 1, "GPUs that share each sequence (their exchanges are not counted yet)"
    ),
    _count("virtual_stages", 1, "model chunks on each pipeline stage"),
    _option("zero_stage", 1, (0, 1, 2, 3), "what data-parallel ranks shard"),
    _option(
        "sequence_parallel", False, (False, True), "shard norms and residuals over tensor ranks"
    ),
    _option("recompute", "selective", ("none", "selective", "full"), "activations computed twice"),
    _option(
        "all_reduce",
        "auto",
        ("auto", "ring", "tree", "double_binary_tree", "hierarchical"),
        "algorithm of every all-reduce",
    ),
    _real(
        "data_parallel_overlap",
        "1",
        0.0,
        "share of its window that hides gradient traffic",
        positive=False,
        high=1.0,
    ),
    _real(
        "tensor_parallel_overlap",
        "1",
        0.0,
        "share of compute that hides tensor traffic",
        positive=False,
        high=1.0,
    ),
    # Efficiency
    _option("compute_model", "mfu", ("mfu",), "how compute time is predicted"),
    _real(
        "flops_efficiency",
        "1",
        0.45,
        "share of peak while computing: no bubble, no communication",
        high=1.0,
    ),
    _real("straggler_slowdown", "1", 0.0, "extra compute time of the slowest rank", positive=False),
    # Reliability
    _mttf("gpu_mttf", 50_000 * HOUR, "GPU"),
    _mttf("nic_mttf", 150_000 * HOUR, "network card"),
    _mttf("psu_mttf", 100_000 * HOUR, "power supply"),
    _mttf("cable_mttf", math.inf, "network cable"),
    _mttf("host_mttf", math.inf, "host (CPU, board, memory)"),
    _real("detection_time", "s", 30, "failure until it is noticed", positive=False),
    _real("drain_time", "s", 30, "stopping the other ranks", positive=False),
    _real("provision_time", "s", 300, "getting a healthy node", positive=False),
    _real("reinit_time", "s", 30, "starting the job again", positive=False),
    # Checkpoints and goodput
    _real("checkpoint_bytes_per_parameter", "B", 14, "BF16 weights, FP32 master, two moments"),
    _real("checkpoint_write_bandwidth", "B/s", 100e9, "of the whole storage system"),
    _real("checkpoint_read_bandwidth", "B/s", 100e9, "of the whole storage system"),
    _option("checkpoint_mode", "sync", ("sync",), "whether training stops while writing"),
    _option(
        "checkpoint_policy", "exact", ("exact", "daly", "young", "fixed"), "how the interval is set"
    ),
    _real("fixed_checkpoint_interval", "s", None, "interval under checkpoint_policy = fixed"),
    _option("goodput_model", "exact", ("exact", "first_order"), "how losses combine"),
]

INPUTS: dict[str, Input] = {row.name: row for row in _ROWS}
