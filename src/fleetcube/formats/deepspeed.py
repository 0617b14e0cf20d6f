"""DeepSpeed's JSON, and the launch scripts of Megatron-DeepSpeed that name one."""

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from fleetcube.grid.errors import InputError
from fleetcube.scenario.bounded import read_bytes

from . import megatron_lm, shell
from .field_table import NOTHING, Job, is_open, table, whole
from .megatron_aliases import dotted, renamed_job
from .trees import LARGEST, flat, parsed

NAME = "deepspeed"
format_table = partial(table, "deepspeed")
_KEYS = ("zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu")
_PLACE = re.compile(r":\s*([A-Z][A-Z0-9_]{3,40})(?=\s*[,}\n])")  # of a template
_JSON = {
    *("train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization.stage"),
    *("zero_optimization.offload_optimizer.device", "zero_optimization.mics_shard_size"),
    *("bf16.enabled", "fp16.enabled", "data_types.grad_accum_dtype", "communication_data_type"),
    *("pipeline.pipe_partitioned", "pipeline.grad_partitioned"),
}
_PARTS = ("pipe-partitioned", "grad-partitioned")  # what stages send; true if missing
_ONLY = (  # in the JSON
    *("offloaded-optimizer", "sharding-group", "gradient-sums", "gradient-wire"),
    *_PARTS,
)
_SPELLED = {"num-query-groups": "num-key-value-heads"}
_NOT_HERE = (
    *("use-megatron-fsdp", "data-parallel-sharding-strategy", "group-query-attention"),
    *("grad-reduce-in-bf16", "accumulate-allreduce-grads-in-fp32", "moe-token-dispatcher-type"),
    *("moe-grouped-gemm", "moe-layer-freq", "moe-ffn-hidden-size"),
    "pipeline-model-parallel-layout",
)
_FUSED = "use-flash-attn"  # and -v1, -v2, -triton, -builder
_KINDS = ("tensor", "pipeline", "context")
_FILE = "ds_config.json"
_ROUNDS = "gradient-accumulation-steps"
_AUTO = "<auto>"  # left to the trainer, as a place to fill in


def recognizes(text: str) -> bool:
    """Whether a text is a JSON of DeepSpeed's, or a script with its arguments."""
    if text.lstrip().startswith("{"):
        return any(f'"{key}"' in text for key in _KEYS)
    return megatron_lm.recognizes(text) and bool(
        re.search(r"--(deepspeed|zero-stage|deepspeed[-_]config)\b", text)
    )


def read(text: str, path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of a JSON or a script. Raises InputError."""
    if text.lstrip().startswith("{"):
        fields: dict[str, Any] = {}
        remarks = ["the training script sets recomputation: taken as false"]
        values = _json(text, path)
    else:
        fields, left = megatron_lm.arguments(text, path)
        values, remarks = _named(text, fields, path)
        remarks += left + _stated_twice(fields, values)
        _as_megatron(fields)
    job = _completed(renamed_job({**fields, **values}, path, format_table(), given))
    job.remarks += remarks
    return job


def job_from(fields: Mapping[str, Any], path: str, given: Mapping[str, Any]) -> Job:
    """The job of arguments by Megatron-LM's names. Raises InputError."""
    return _completed(megatron_lm.job_from(fields, path, given, format_table()))


def _completed(job: Job) -> Job:
    _batch(job)
    _otherwise(job)
    _attention(job)
    _between_stages(job)
    return job


def _as_megatron(fields: dict[str, Any]) -> None:
    """What Megatron-DeepSpeed does where an argument is missing (megatron/arguments.py)."""
    fields.setdefault("zero-stage", 1)
    if str(fields.get("num-experts", 1)) == "1":
        fields.pop("num-experts", None)
    else:
        fields.setdefault("expert-interval", 2)
        fields.setdefault("topk", 1)


def _stated_twice(fields: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """Arguments of a script that its JSON states otherwise."""
    names = format_table().names
    return [
        f"{name} {fields[name]} of the script, for {key} {value} of its JSON"
        for key, value in values.items()
        if isinstance(name := names.get(key), str) and name in fields
        if not (is_open(value) or is_open(fields[name]) or str(fields[name]) == str(value))
    ]


def _json(text: str, path: str) -> dict[str, Any]:
    values = flat(parsed(_PLACE.sub(r': "<\1>"', text), path, "json"))
    for name in ("pipeline.pipe_partitioned", "pipeline.grad_partitioned"):
        if values.get(name) is False:  # of a switch that is on where it is missing
            values[name] = "false"
    return {name: _AUTO if value == "auto" else value for name, value in values.items()}


def _named(text: str, fields: Mapping[str, Any], path: str) -> tuple[dict[str, Any], list[str]]:
    """The DeepSpeed JSON a script refers to or creates, and the keys we ignore."""
    written = (each for each in shell.read(text, path).texts if each.lstrip().startswith("{"))
    if (config := next(written, None)) is not None:
        try:
            return _json(config, path), []
        except InputError:
            return {}, ["not read: the JSON that the script writes"]
    name = str(fields.get("deepspeed-config", ""))
    if not name or name == "True":
        return {}, []
    file = Path(path).parent / name
    if not re.fullmatch(r"[\w.+-]+(/[\w.+-]+)*", name) or ".." in name or not file.is_file():
        return {}, [f"not read: {name[:60]}, which is not in the folder of the script"]
    data = read_bytes(str(file), LARGEST, "a JSON of DeepSpeed's", "give one job's")
    return _json(data.decode(errors="replace"), str(file)), []


def _batch(job: Job) -> None:
    """Samples of a replica and micro-batch, where the other numbers give them."""
    scenario, step, part = job.scenario, "global_batch_size", "micro_batch_size"
    rounds, batch = job.number(_ROUNDS, 1, part), scenario.get(step)
    gpus = scenario.get("n_gpus")
    if part not in {*scenario, *job.open_inputs} and rounds and batch and gpus:
        job.add_inputs({part: whole(batch * job.replica_gpus / gpus / rounds)})
    for name in (step, part):
        if name not in scenario:
            job.ask("it depends on the number of replicas", name)


def _otherwise(job: Job) -> None:
    """Tokens, recomputation, and the storage of gradients (DeepSpeedEngine.get_data_types)."""
    scenario = job.scenario
    if tokens := job.number("train-tokens", 1, "training_tokens"):  # whichever ends it first
        first = min(tokens, scenario.get("training_tokens", tokens))
        job.set("train-tokens", {"training_tokens": first})
    if scenario.get("recompute") == "core_attn":
        job.add_inputs({"recompute": "selective"})
    if "gradient-wire" not in job.fields and "gradient_bytes_per_element" not in job.given:
        scenario.pop("gradient_bytes_per_element", None)  # of 16 bits
    plain = scenario.get("precision") == "bf16" and scenario.get("zero_stage") == 0
    sums = job.fields.get("gradient-sums", "fp32" if plain else "bf16")
    job.add_inputs({"gradient_storage": "fp32" if sums == "fp32" else "bf16"})


def _attention(job: Job) -> None:
    """Unfused where a script does not ask for more (ParallelAttention, megatron/model)."""
    is_script = "num-layers" in job.fields  # of a JSON alone, the trainer decides
    if is_script and not any(name.startswith(_FUSED) for name in job.fields):
        job.add_inputs({"attention_kernel": "standard"})


def _between_stages(job: Job) -> None:
    """Activations and gradients of which only one is sent in parts: fleetcube has one switch."""
    if {job.fields.get(name, True) for name in _PARTS} == {True, False}:
        job.add_inputs({"scatter_gather": False})
        name = next(part for part in _PARTS if job.fields.get(part) is False)
        job.uncounted[job.source.get(name, name)] = "which of both directions is sent whole"


def to_fields(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scenario: those of the JSON, and the arguments of Megatron-DeepSpeed."""
    _check(scenario, shape)
    fields = megatron_lm.to_fields(scenario, shape, format_table())
    if scenario.get("pipeline_parallel", 1) == 1:
        fields["no-pipeline-parallel"] = True
    for name in _NOT_HERE:
        fields.pop(name, None)
    fields["zero-stage"] = int(scenario.get("zero_stage", 1))
    if scenario.get("recompute") == "selective":
        fields["recompute-granularity"] = "selective"
    if "num-experts" in fields:
        layers, dense = shape["layers"], shape.get("dense_layers", 0)
        fields["expert-interval"] = round(layers / max(1, layers - dense))
    if fields.get("fp16"):
        fields["gradient-sums"] = "fp16"
    if fields.pop("attention-backend", None) is None:
        fields[f"{_FUSED}-v2"] = True
    return fields | {name: False for name in _PARTS if fields.get(name) == "false"}


def _check(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> None:
    """Refuse layouts that Megatron-DeepSpeed refuses or lacks (megatron/core/parallel_state.py)."""
    width, narrow = shape.get("ffn_hidden_size"), shape.get("expert_ffn_hidden_size")
    tensor, stages, context = (scenario.get(f"{name}_parallel", 1) for name in _KINDS)
    why = {
        "latent attention": shape.get("query_latent_size"),
        "shared experts": shape.get("shared_experts"),
        "experts narrower than dense layers": narrow not in (None, width),
        "context_parallel with tensor_parallel": min(context, tensor) > 1,
        "context_parallel in a pipeline": min(context, stages) > 1,
        "experts in a pipeline": shape.get("experts") and stages > 1,
    }
    if lacks := [name for name, holds in why.items() if holds]:
        raise InputError(
            f"Megatron-DeepSpeed has no {lacks[0]}; choose another layout or framework"
        )


def as_text(fields: Mapping[str, Any]) -> str:
    """A script that writes the JSON and names it; of one field, that field alone."""
    names = {format_table().names[name] for name in _JSON}
    tree = dotted({name: fields[name] for name in fields if name in names}, format_table(), "")
    rest = {_SPELLED.get(name, name): fields[name] for name in fields if name not in _ONLY}
    if len(fields) == 1:
        return json.dumps(tree) if tree else megatron_lm.as_text(rest)
    flags = megatron_lm.as_text({"deepspeed": True, "deepspeed_config": _FILE, **rest})
    body = json.dumps(tree, indent=2)
    return f"cat << JSON > {_FILE}\n{body}\nJSON\ndeepspeed pretrain_gpt.py \\\n{flags}"
