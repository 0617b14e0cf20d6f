"""Published runs whose layout is stated elsewhere by their authors, as public inputs."""

import re
from collections.abc import Callable, Mapping

from ....catalog import record
from ...errors import shown
from .facts import Facts, Reading, UnreadableError
from .training import A100_PEAK, Inputs, a100, chunked, gpt_flops, gpt_shape

_DAY = 86400.0
# Zhang et al. 2022, section 2.4 and table 1; metaseq, launcher/opt_job_constants.py and
# opt_baselines.py: eight tensor ranks, no pipeline, batches of 2^21 tokens in whole sequences
_OPT_TOKENS, _OPT_BATCH = 300e9, 2**21
# Jiang et al. 2024 (MegaScale), table 1 and section 6.1: layers, width, heads, stages, chunks
_MEGASCALE = {"175B": (96, 12288, 128, 8, 6), "530B": (105, 20480, 160, 35, 3)}
_MEGASCALE_VOCABULARY = 64_000
# Korthikanti et al. 2022, table 4: one layer of the 22B model, tensor parallelism of 8
_LAYER: Mapping[str, Inputs] = {
    "baseline no recompute": {"recompute": False},
    "sequence parallelism": {"recompute": False, "sequence_parallel": True},
    "full recompute": {"recompute": "full"},
    "selective recompute": {"recompute": "selective"},
    "selective+sequence": {"recompute": "selective", "sequence_parallel": True},
}
# Llama 3 Herd of Models, section 3.3: table 4's second row, on which most tokens were trained.
# Chunks have one layer, but the first and last of 16 x 8 have only the embedding and the loss
_LLAMA_3: Inputs = {
    **{"model": "llama-3-405b", "node": "grand-teton-h100", "fabric": "meta-24k-roce"},
    **{"network_tiers": False, "n_gpus": 16384, "tensor_parallel": 8, "sequence_parallel": True},
    **{"pipeline_parallel": 16, "embedding_split_layers": 1, "loss_split_layers": 1},
    **{"global_batch_size": 2048, "micro_batch_size": 1, "zero_stage": 2, "recompute": False},
    **{"precision": "bf16", "compute_model": "roofline", "attention_kernel": "flash"},
    **chunked(8),
}
_LLAMA_NOTES = (
    "chunks of one layer, as the first holds the embedding alone; micro-batch is not stated: 1",
    "no calibration: efficiencies are the defaults",
    "pods are not counted: stages are inside a pod, data parallelism outermost (section 3.3.2)",
)
# Narayanan et al. 2021 (SC21), sections 5.6 to 5.10: why a figure has no prediction
_SC21_MISC = {
    "fusion": "fused operators are no input: the calibrations were fitted to them",
    "scatter_gather": "an upper end, not a figure at stated inputs",
    "bisection": "the bandwidth in use over a bisection is not an output",
    "ckpt_load": "a rate of storage is an input (checkpoint_read_bandwidth)",
    "ckpt_save": "a rate of storage is an input (checkpoint_write_bandwidth)",
    "ckpt_bytes": "bytes of a parameter are an input (checkpoint_bytes_per_parameter)",
    "recompute": "an upper end, not a figure at stated inputs",
}


def _opt(facts: Facts) -> list[Reading]:
    gpus = facts.whole("system.gpus")
    tokens = 2048
    each = _OPT_BATCH // (gpus // 8) // tokens  # sequences of a rank, all at once
    inputs = gpt_shape(96, 12288, 96, 50272, tokens) | a100("standard")
    inputs |= {"n_gpus": gpus, "tensor_parallel": 8, "zero_stage": 3, "recompute": "full"}
    inputs |= {"micro_batch_size": each, "global_batch_size": each * (gpus // 8)}
    notes = ["batch and recomputation are those of metaseq's launcher; network is not stated: HDR"]
    rate = facts.number("measured.tflops_per_gpu", None)
    days = facts.number("measured.ideal_days_1024", None)
    if rate is not None:
        seconds = gpt_flops(inputs, recomputed=True) / (rate * 1e12 * gpus)
        notes.append("time is that of the printed FLOP/s, what is computed again counted")
    elif days is not None and gpus == 1024:
        seconds = days * _DAY * inputs["global_batch_size"] * tokens / _OPT_TOKENS
        notes.append("time is that of the days for 300e9 tokens")
    else:
        raise UnreadableError("measured has neither a rate of a GPU nor days of 1024 GPUs")
    return [Reading(inputs, seconds, notes=tuple(notes))]


def _megascale(facts: Facts) -> list[Reading]:
    """Megatron-LM as run by MegaScale's authors; their own attention has an unstated window."""
    name = facts.text("model.name", "530B")
    if name not in _MEGASCALE:
        raise UnreadableError(f"model.name = {shown(name)} has no published layout")
    layers, hidden, heads, ranks, chunks = _MEGASCALE[name]
    gpus = facts.whole("system.gpus")
    if gpus < 8 * ranks:
        raise UnreadableError("system.gpus holds no replica of the published layout")
    inputs = gpt_shape(layers, hidden, heads, _MEGASCALE_VOCABULARY, 2048) | a100("standard")
    inputs |= {"fabric": "megascale", "n_gpus": gpus, "tensor_parallel": 8}
    inputs |= {"pipeline_parallel": ranks, "micro_batch_size": 1, "zero_stage": 1}
    inputs |= chunked(chunks)
    inputs |= {"global_batch_size": facts.whole("parallel.gbs", gpus)}
    inputs |= {"recompute": "selective", "sequence_parallel": True}
    note = "micro-batch, optimizer and recomputation are not stated: 1, sharded, selective"
    seconds = facts.number("measured.megatron_iteration_time_s", None)
    if seconds is not None:
        return [Reading(inputs, seconds, notes=(note,))]
    share = facts.number("measured.megatron_mfu_pct") / 100
    seconds = gpt_flops(inputs) / (share * A100_PEAK * gpus)
    return [Reading(inputs, seconds, notes=(note, "time is that of the printed MFU"))]


def _layer(facts: Facts) -> list[Reading]:
    """One layer's passes with their traffic: the step of a model of that layer alone."""
    name = facts.text("measured.experiment")
    if name not in _LAYER:
        raise UnreadableError(f"measured.experiment = {shown(name)} is not one of {[*_LAYER]}")
    inputs = gpt_shape(1, 6144, 64, 51200, 2048) | a100("standard") | _LAYER[name]
    inputs |= {"n_gpus": 8, "tensor_parallel": 8, "zero_stage": 0}
    inputs |= {"micro_batch_size": 4, "global_batch_size": 4}
    inputs |= {"logits_time": 0.0, "optimizer_time": 0.0}
    note = "a model of one layer, without logits and optimizer"
    return [Reading(inputs, facts.number("measured.combined_ms") * 1e-3, notes=(note,))]


def _llama_table(facts: Facts) -> list[Reading]:
    tokens = facts.whole("model.seq")
    if tokens > 8192:
        raise UnreadableError(
            "whether the printed FLOP/s count attention whole, which is most of them at "
            f"{tokens} tokens, is not stated"
        )
    inputs = _LLAMA_3 | {"n_gpus": facts.whole("system.gpus"), "sequence_length": tokens}
    inputs |= {"global_batch_size": facts.whole("parallel.gbs")}
    values = record("model", _LLAMA_3["model"]).values
    attention = values["layers"] * values["hidden_size"] * tokens
    flops = 6 * (values["parameters"] + attention) * inputs["global_batch_size"] * tokens
    seconds = flops / (facts.number("measured.tflops_per_gpu") * 1e12 * inputs["n_gpus"])
    note = "time is that of the printed FLOP/s, half of attention counted: 4 % either way"
    return [Reading(inputs, seconds, notes=(*_LLAMA_NOTES, note))]


def _llama_cost(facts: Facts) -> list[Reading]:
    name = facts.text("model.name")
    if not re.fullmatch(r"Llama ?3(\.1)? ?405B", name):
        raise UnreadableError(f"model.name = {shown(name)} has no published layout")
    inputs = _LLAMA_3 | {
        "sequence_length": 8192,
        "training_tokens": facts.number("model.tokens_t") * 1e12,
        "reliability": "llama-3-405b-run",
        "checkpoint_write_bandwidth": 2e12,
        "checkpoint_read_bandwidth": 2e12,
    }
    note = "all tokens as in table 4's second row; storage at the 2 TB/s sustained of section 3.3.1"
    hours = facts.number("measured.gpu_hours_h100_m") * 1e6
    return [Reading(inputs, hours, "gpu_hours", (*_LLAMA_NOTES, note))]


def _sc21_misc(facts: Facts) -> list[Reading]:
    size = facts.number("measured.ckpt_1T_TB", None)
    if size is not None:
        note = "14 B of a parameter: FP16 weights, FP32 weights and two moments"
        inputs = {"model": "megatron-1t", "checkpoint_bytes_per_parameter": 14.0}
        return [Reading(inputs, size * 1e12, "checkpoint_size", (note,))]
    measured = facts.raw("measured")
    names = [str(name) for name in measured] if isinstance(measured, Mapping) else []
    for start, reason in _SC21_MISC.items():
        if names and names[0].startswith(start):
            raise UnreadableError(f"measured.{names[0][:40]}: {reason}")
    raise UnreadableError("its figures are not outputs at stated inputs")


READERS: Mapping[str, Callable[[Facts], list[Reading]]] = {
    "opt_175b": _opt,
    "megascale_fig9": _megascale,
    "megascale_table2": _megascale,
    "korthikanti_table4": _layer,
    "llama3_table4": _llama_table,
    "training_cost": _llama_cost,
    "sc21_misc": _sc21_misc,
}
