"""Published memory figures as rows: inputs to evaluate, the output, and the published bytes.

Figures are read if they state what they count. BLOOM's chronicles are left out: the cache of their
allocator cannot be counted. torchtitan prints what PyTorch reserved, too, but blocks of freed
logits are most of what tensors do not hold.
"""

from collections.abc import Callable, Mapping
from typing import Any

GIB = 2**30
Row = tuple[Mapping[str, Any], str, float]

# Korthikanti et al. 2022, table 3: model, its heads and width, stages, chunks of each, micro-batch
# size, batch size; eight tensor ranks, one replica, sequences of 2048 tokens
_KORTHIKANTI = {
    "22B": ("megatron-22b", 64, 6144, 1, 1, 4, 4),
    "175B": ("gpt-3-175b", 96, 12288, 8, 3, 1, 64),
    "530B": ("megatron-530b", 128, 20480, 35, 3, 1, 280),
    "1T": ("megatron-1t", 160, 25600, 64, 1, 1, 512),
}
# Techniques of figure 7, against tensor parallelism alone
_TECHNIQUES: Mapping[str, Mapping[str, Any]] = {
    "pct_seq": {"recompute": False, "sequence_parallel": True},
    "pct_sel": {"recompute": "selective", "sequence_parallel": False},
    "pct_seqsel": {"recompute": "selective", "sequence_parallel": True},
    "pct_full": {"recompute": "full", "sequence_parallel": False},
}
# SimuMax's models of the B200 table, and their differences from the published ones (configs/models,
# and the note of docs/b200/b200_release_v1.2_summary.md on DeepSeek-V3)
_SIMUMAX: Mapping[str, Mapping[str, Any]] = {
    "llama3_70b": {"model": "llama-3-70b"},
    "llama3_405b": {"model": "llama-3-405b", "kv_heads": 16},
    "deepseekv2": {"model": "deepseek-v2", "dense_layers": 1},
    "deepseekv3": {"model": "deepseek-v3", "dense_layers": 1},
}
# Its launchers (simu_tools/megatron_scripts/scripts): distributed optimizer, gradients summed in
# FP32, no recomputation; the figure is PyTorch's peak of allocated memory on any rank
_MEGATRON = {
    **{"zero_stage": 1, "gradient_storage": "fp32", "recompute": False},
    **{"sequence_parallel": True, "attention_kernel": "flash"},
}
# torchtitan at 9dec370, December 2024: weights (a float8 layer gathers one byte), gradients and
# moments in FP32; with pipelines FSDP keeps weights gathered (parallelize_llama.py) and FP32
# gradients unreduced until the last micro-batch (PyTorch, distributed/pipelining/stage.py)
_TITAN = {"gradient_storage": "fp32", "master_weight_bytes": 2}
_TITAN_FLOAT8 = {"master_weight_bytes": 3, "fp8_weight_bytes": 1}
_TITAN_PIPELINE = {"gradient_sync": "step", "reshard_after_forward": False}
# All print what the framework allocated: no context, no buffers of NCCL, no gaps
_ALLOCATED = {"reserved_memory": 0.0}


def memory_rows(record: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Row]:
    """Rows to compare for a published record, with inputs extended by its memory settings. Outputs
    are `memory_per_gpu`, `activation_memory` and `activation_memory_per_layer`, in bytes; empty if
    the model predicts none of the record's figures."""
    group = record.get("group")
    reader = _READERS.get(group) if isinstance(group, str) else None
    rows = reader(record, inputs) if reader else []
    return [({**run, **_ALLOCATED}, of, value) for run, of, value in rows]


def _figure_1(record: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Row]:
    """Korthikanti et al. 2022, figure 1: states, and activations of the layers."""
    layout = _layout(record)
    if layout is None:
        return []
    layers_only = {**inputs, **layout, "logits_memory": 0.0, "pipeline_stage": 1}
    states_only = {**inputs, **layout, "activation_memory": 0.0, "working_memory": 0.0}
    states_only["stage_split"] = False  # the figure shows the mean stage
    both = {"recompute": "selective", "sequence_parallel": True}
    alone = {"recompute": False, "sequence_parallel": False}
    figures: dict[str, tuple[Mapping[str, Any], str]] = {
        "gib_params_optimizer": (states_only, "memory_per_gpu"),
        "gib_activations_tp_baseline": ({**layers_only, **alone}, "activation_memory"),
        "gib_activations_seqpar_selective": ({**layers_only, **both}, "activation_memory"),
    }
    published = [(*row, _positive(record, "measured", key)) for key, row in figures.items()]
    return [(run, of, value * GIB) for run, of, value in published if value]


def _figure_7(record: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Row]:
    """Korthikanti et al. 2022, figure 7: one layer, in per cent of equation 2."""
    layout = _layout(record)
    if layout is None:
        return []
    heads, width = layout["attention_heads"], layout["hidden_size"]
    tokens = layout["micro_batch_size"] * layout["sequence_length"]
    scores = 5 * heads * layout["sequence_length"] / width
    baseline = tokens * width * (10 + (24 + scores) / layout["tensor_parallel"])
    published = [(how, _positive(record, "measured", key)) for key, how in _TECHNIQUES.items()]
    of = "activation_memory_per_layer"
    return [
        ({**inputs, **layout, **how}, of, percent / 100 * baseline)
        for how, percent in published
        if percent
    ]


def _layout(record: Mapping[str, Any]) -> dict[str, Any] | None:
    name = _part(record, "model").get("name")
    if not isinstance(name, str) or name not in _KORTHIKANTI:
        return None
    model, heads, width, stages, chunks, sequences, batch = _KORTHIKANTI[name]
    return {
        **{"model": model, "attention_heads": heads, "hidden_size": width},
        **{"vocab_size": 51200, "sequence_length": 2048, "n_gpus": 8 * stages},
        **{"tensor_parallel": 8, "pipeline_parallel": stages, "virtual_stages": chunks},
        **{"micro_batch_size": sequences, "global_batch_size": batch, "zero_stage": 0},
        **{"gradient_storage": "fp32", "attention_kernel": "standard"},
    }


def _simumax(record: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Row]:
    name = _part(record, "model").get("name")
    known = _SIMUMAX.get(name) if isinstance(name, str) else None
    gib = _positive(record, "measured", "mem_alloc_gib")
    keys = {
        "layers": ("model", "layers"),
        "sequence_length": ("model", "seq"),
        "n_gpus": ("system", "gpus"),
        "tensor_parallel": ("parallel", "tp"),
        "pipeline_parallel": ("parallel", "pp"),
        "context_parallel": ("parallel", "cp"),
        "expert_parallel": ("parallel", "ep"),
        "micro_batch_size": ("parallel", "mbs"),
    }
    stated = {of: _positive(record, *where) for of, where in keys.items()}
    replicas = _positive(record, "parallel", "dp")
    microbatches = _positive(record, "parallel", "microbatches")
    if known is None or not (gib and replicas and microbatches and all(stated.values())):
        return []
    batch = replicas * microbatches * stated["micro_batch_size"]
    run = {**inputs, **stated, "global_batch_size": batch, **known, **_MEGATRON}
    return [(run, "memory_per_gpu", gib * GIB)]


def _torchtitan(record: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Row]:
    gib = _positive(record, "measured", "mem_gib")
    if not (gib and inputs):
        return []
    run = {**inputs, **_TITAN, **(_TITAN_FLOAT8 if inputs["precision"] == "fp8" else {})}
    # blocks for logits in 16 bits, and three in FP32 (train.py), four where tensor ranks share
    # them (PyTorch, tensor/parallel/loss.py)
    run["logit_bytes"] = 2 + (16 if inputs["tensor_parallel"] > 1 else 12)
    if (microbatches := inputs["pipeline_parallel"]) > 1:  # outputs of all are kept, then joined
        run |= {**_TITAN_PIPELINE, "logit_bytes": run["logit_bytes"] - 2 + 4 * microbatches}
    return [(run, "memory_per_gpu", gib * GIB)]


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = record.get(name)
    return part if isinstance(part, Mapping) else {}


def _positive(record: Mapping[str, Any], part: str, key: str) -> float:
    """A positive number of a record; 0 if missing, or larger than any machine's."""
    value = _part(record, part).get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return value if 0 < value < 1e15 else 0.0


_READERS: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], list[Row]]] = {
    "korthikanti_fig1_memory": _figure_1,
    "korthikanti_fig7_memory": _figure_7,
    "simumax_b200": _simumax,
    "torchtitan": _torchtitan,
}
