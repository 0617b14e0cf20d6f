"""torchtitan's job files: TOML, or the same fields as flags of a launch script."""

import math
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from fleetcube.grid.errors import InputError
from fleetcube.scenario.spec_file import has_tables

from . import shell
from .field_table import (
    NOTHING,
    REPLICA,
    SWITCH,
    Job,
    fields_of,
    job_of,
    one_of,
    table,
    whole_counts,
    with_open_words,
)
from .trees import as_toml, flat, parsed

NAME = "torchtitan"
format_table = partial(table, "torchtitan")
_FIELD = re.compile(
    r"^[ \t]*\[(model|training|parallelism|experimental|activation_checkpoint|optimizer|job)\]",
    re.M,
)
_FLAG = re.compile(r"--(training|parallelism|experimental|activation_checkpoint|model)\.\w")
_DEGREES = re.compile(r"(?:training|experimental)\.(\w*parallel\w*|fsdp_\w+)")
_OLD = {
    "parallelism.data_parallel_degree": "parallelism.data_parallel_shard_degree",
    "parallelism.sequence_parallel_degree": "parallelism.tensor_parallel_degree",
    "training.batch_size": "training.local_batch_size",
    "training.compile": "compile.enable",
    "compile.enable_async_tensor_parallel": "parallelism.enable_async_tensor_parallel",
}
_VARIANT = re.compile(r"_(flex|varlen|flex_attn|irope|deepep)$")  # of the same shape
_GATHERED = re.compile(r"(float8|quantize|training)\..*enable_fsdp_(float8|fp8)_all_gather")
_FLOAT8 = (
    "float8.enable_float8_linear",
    *(f"training.{name}" for name in ("enable_float8_linear", "enable_fp8_linear", "fp8_linear")),
)
_CONVERTERS = {"fp8": "quantize.linear.float8", "mxfp8": "quantize.linear.mx"}
_COMPILED = {part: part for part in ("model", "loss")}
_RECIPES = {"tensorwise": False, "rowwise": True, "rowwise_with_gw_hp": False}  # a scale a row
_RECIPE = re.compile(r"(quantize\.linear\.)?float8\.recipe_name")
_SHARD, _REPLICATE = (f"parallelism.data_parallel_{each}_degree" for each in ("shard", "replicate"))
_RESHARD = "parallelism.fsdp_reshard_after_forward"
_MICROBATCH = "parallelism.pipeline_parallel_microbatch_size"
_MICROBATCHES = "parallelism.pipeline_parallel_microbatches"  # until April 2025
_PER_STAGE = "parallelism.pipeline_parallel_layers_per_stage"
_MODE, _OPTION = "activation_checkpoint.mode", "activation_checkpoint.selective_ac_option"
_LOCAL, _BATCH = "training.local_batch_size", "training.global_batch_size"
_ENDS = ("embedding_split_layers", "loss_split_layers")


def recognizes(text: str) -> bool:
    """Whether a text holds a job of torchtitan, and no spec."""
    fields = len({*_FIELD.findall(text)}) > 1 or bool(_FLAG.search(text))
    return fields and not has_tables(text)


def read(text: str, path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of a file, or of a launch script's flags. Raises InputError."""
    if _FIELD.search(text):
        return job_from(flat(parsed(text, path, "toml")), path, given)
    script = shell.read(text, path)
    rows = [shell.options(words) for words in script.commands]
    best = max(rows, key=lambda row: sum("." in name for name in row), default={})
    first = {name: str(value).split(" ")[0] for name, value in best.items() if "." not in name}
    fields = {n if n in first else n.replace("-", "_"): v for n, v in (best | first).items()}
    job = job_from(fields, path, given)
    job.remarks += [f"line {line} {why}" for line, why in script.stray.items()]
    if named := job.fields.get("job.config_file"):
        job.remarks.append(f"not read: {named}, whose fields the flags replace")
    return job


def job_from(fields: Mapping[str, Any], path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of fields by dotted names, old ones too. Raises InputError."""
    named = {_DEGREES.sub(r"parallelism.\1", name): value for name, value in fields.items()}
    named = {_OLD.get(name, name): value for name, value in named.items()}
    if named.get(_MODE) == "none":
        named[_MODE] = "off"  # a word, no missing field
    model = str(named.pop("model.name", "llama3"))
    flavor = _VARIANT.sub("", str(named.pop("model.flavor", "debugmodel")))
    if model == "llama":  # until 2025: both
        model = "llama2" if flavor in ("7B", "13B", "70B") else "llama3"
    named["model.flavor"] = f"{model} {flavor}"
    job = job_of(format_table(), with_open_words(format_table(), named), path, given)
    _compile(job)
    for name in REPLICA:
        job.scenario.setdefault(name, 1)
    _pipeline(job)
    _sharding(job)
    _batch(job, _MICROBATCHES in named or "experimental.pipeline_parallel_degree" in fields)
    _precision(job)
    _recompute(job)
    if shapes := [name for name in job.unknown if name.startswith("model.")]:
        job.ask(f"{shapes[0]} may change its shape", "model")
    return job


def _compile(job: Job) -> None:
    """Software, by what is compiled: the model, the loss alone, or nothing."""
    named = job.take("compile.components", "software logit_bytes")
    words = re.findall(r"[^\s,]+", named) if isinstance(named, str) else named
    parts = [*_COMPILED] if words is None else words if isinstance(words, list) else [words]
    parts = [one_of(_COMPILED, "compile.components", part, job.path) for part in parts]
    is_on = job.take("compile.enable", "software" + " logit_bytes" * (len({*parts}) < 2))
    is_on = one_of(SWITCH, "compile.enable", is_on or "false", job.path)
    compiled = {*parts} if is_on else set()
    job.add_inputs({"software": NAME if "model" in compiled else f"{NAME}-eager"})
    if len(compiled) == 1:
        job.add_inputs({"logit_bytes": 4 if "loss" in compiled else 12})


def _pipeline(job: Job) -> None:
    """Pieces of each stage, and inputs that need stages or experts."""
    inputs, per_stage = job.scenario, job.number(_PER_STAGE, 1, "virtual_stages")
    schedule = inputs.pop("pipeline_schedule", "1f1b")
    if inputs.get("expert_parallel", 1) > 1:
        inputs.setdefault("expert_tensor_parallel", 1)
    else:
        job.scenario = inputs = {n: v for n, v in inputs.items() if n not in _OF_EXPERTS}
    if inputs["pipeline_parallel"] == 1:
        job.scenario = {n: v for n, v in inputs.items() if n not in _ENDS}
        return
    inputs |= {"pipeline_scheduler": "pytorch", "pipeline_schedule": schedule}
    job.add_inputs({"virtual_stages": 1 if schedule in ("1f1b", "gpipe") else 2})
    ends = sum(inputs.setdefault(name, 1) for name in _ENDS)
    if per_stage and job.layers:
        pieces = math.ceil((job.layers + ends) / per_stage)
        chunks = max(1, round(pieces / inputs["pipeline_parallel"]))
        job.set(_PER_STAGE, {"virtual_stages": chunks})
    elif per_stage:
        job.ask(f"the file has {per_stage:g} layers in each piece", "virtual_stages")


_OF_EXPERTS = ("expert_tensor_parallel", "expert_dispatch")


def _sharding(job: Job) -> None:
    """Groups that shard or replicate, and the number of GPUs that follows."""
    inputs, groups = job.scenario, "n_gpus hybrid_sharding data_parallel_shard"
    replicas, shard = job.number(_REPLICATE, 1, groups) or 1, job.number(_SHARD, -1, "n_gpus") or -1
    others = job.replica_gpus
    nodes, each = (job.number(name, 1, "n_gpus") for name in ("nnodes", "nproc-per-node"))
    if shard > 0 and "n_gpus" not in {*job.open_inputs, *job.given}:
        job.set(_SHARD, {"n_gpus": shard * replicas * others})
    elif nodes and each:
        job.set("nproc-per-node", {"n_gpus": nodes * each, "gpus_per_node": each})
    elif "n_gpus" not in inputs:
        job.ask("the launcher states it", "n_gpus")
    shard = inputs.get("n_gpus", shard * replicas * others) / replicas / others
    alone = shard * inputs["context_parallel"] == 1
    reshard = job.take(_RESHARD, "zero_stage") or "default"
    if reshard not in ("default", "always", "never", True, False):
        raise InputError(f"{job.path!r}: {_RESHARD} is one of default, always, never; correct it")
    stages = inputs["pipeline_parallel"] > 1
    gathered = reshard in ("never", False) or (reshard == "default" and stages)
    job.add_inputs({"zero_stage": 0 if alone else 2 if gathered else 3})
    if stages and not alone:
        job.add_inputs({"gradient_sync": "step"})
    if replicas > 1 and not alone:
        job.set(_REPLICATE, {"hybrid_sharding": True})
        job.set_per_gpu("data_parallel_shard", 1 / replicas / others)


def _batch(job: Job, old: bool) -> None:
    """Sequences of a micro-batch and of a step, and tokens of the training."""
    inputs, whole = job.scenario, job.scenario["pipeline_parallel"] == 1
    micro, step, tokens = "micro_batch_size", "global_batch_size", "training_tokens"
    batch = job.number(_BATCH, -1, step) or -1
    local = job.number(_LOCAL, 1, micro if whole else step) or 8
    if whole:
        job.add_inputs({micro: local})
        local = inputs[micro]
    elif old:
        count = job.number(_MICROBATCHES, 1, micro) or inputs["pipeline_parallel"]
        job.add_inputs({micro: local / count})
    else:
        job.add_inputs({micro: job.number(_MICROBATCH, 1, micro) or 1})
    if batch > 0:
        steps = max(0, job.number("training.steps", -1, tokens) or 0)
        job.add_inputs({step: batch})
        if count := steps * inputs[step] * inputs.get("sequence_length", 0):
            job.add_inputs({tokens: count})
    else:
        job.set_batch(local / job.replica_gpus, "training.steps")


def _precision(job: Job) -> None:
    """Formats of the products, as converters set them."""
    names = [job.take(f"model.{name}", "precision") for name in ("converters", "handlers")]
    words = {*re.findall(r"\w+", " ".join(str(each) for each in names))}
    float8 = {"float8", "fp8"} & words or any(job.take(name, "precision") for name in _FLOAT8)
    kind = job.given.get("precision", "mxfp8" if "mx" in words else "fp8" if float8 else "")
    if kind == "fp8":
        gathered = any(value for name, value in job.fields.items() if _GATHERED.fullmatch(name))
        weights = {"master_weight_bytes": 3} if gathered else {"quantised_parameters": False}
        names = [name for name in job.fields if _RECIPE.fullmatch(name)]
        recipes = {name: job.take(name, "fp8_scaling") for name in names}
        row = any(recipe and one_of(_RECIPES, n, recipe, job.path) for n, recipe in recipes.items())
        job.add_inputs({"precision": "fp8", "fp8_weight_bytes": 1, **weights})
        job.add_inputs({"fp8_scaling": "row"} if row else {})
    elif kind:
        job.add_inputs({"precision": kind})


def _recompute(job: Job) -> None:
    """Whole layers, each k-th layer, or all but every other product."""
    kind = job.take(_MODE, "recompute recomputed_layers")
    option = str(job.take(_OPTION, "recompute recomputed_layers") or "2")
    word = kind or "selective"
    every = int(option[:9]) if option.isdigit() and word == "selective" else 1
    if word == "selective" and option == "op":
        job.set(_MODE, {"recompute": "alternate_products"})
    elif word not in ("off", "full", "selective") or (word == "selective" and not option.isdigit()):
        job.ask(f"{_MODE} is {word}, {_OPTION} is {option}", "recompute")
    else:
        job.set(_MODE, {"recompute": False if word == "off" else "full"})
        pieces = job.scenario.get("virtual_stages", 1) * job.scenario["pipeline_parallel"]
        if every > 1 and job.layers:
            job.set(_OPTION, {"recomputed_layers": job.layers // every / pieces})
        elif every > 1:
            job.ask(f"one of {every} layers of each piece runs again", "recomputed_layers")


def to_fields(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scenario, by dotted names. Raises InputError."""
    fields = fields_of(format_table(), scenario)
    name, _, flavor = str(fields.pop("model.flavor", "")).partition(" ")
    flavor = flavor if name in ("llama4", "gpt_oss") or "_" in flavor else flavor.upper()
    model = scenario.get("model")
    unknown = f"<{model if isinstance(model, str) else 'your model'}: no flavor is known>"
    model_row = {"model.name": name, "model.flavor": flavor} if name else {"model.flavor": unknown}
    fields = model_row | fields
    fields |= whole_counts(_batch_fields(scenario) | _pipeline_fields(scenario, shape))
    fields |= _recompute_fields(scenario, shape)
    kind = str(scenario.get("precision"))
    fields |= {"model.converters": [_CONVERTERS[kind]]} if kind in _CONVERTERS else {}
    gathers = kind == "fp8" and scenario.get("quantised_parameters", True)
    if row := kind == "fp8" and scenario.get("fp8_scaling") == "row":
        fields[f"{_CONVERTERS[kind]}.recipe_name"] = "rowwise"
    if gathers and row:
        raise InputError(
            "torchtitan gathers no FP8 weights that have a scale a row; state "
            "quantised_parameters=false, or fp8_scaling=tensor"
        )
    if gathers:
        fields[f"{_CONVERTERS[kind]}.enable_fsdp_float8_all_gather"] = True
    compiled = scenario.get("software", NAME) == NAME and scenario.get("compile", True)
    return {**fields, "compile.enable": compiled}


def _batch_fields(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Degrees of data parallelism and the batch."""
    gpus, batch = scenario.get("n_gpus"), scenario.get("global_batch_size")
    stage = scenario.get("zero_stage", 3)
    fields: dict[str, Any] = {_LOCAL: scenario.get("micro_batch_size", 1)}
    if gpus is not None:
        replicas = gpus / math.prod(scenario.get(name, 1) for name in REPLICA)
        shard = scenario.get("data_parallel_shard", replicas) if stage else 1
        fields |= {_REPLICATE: replicas / shard, _SHARD: shard}
        if batch is not None and scenario.get("pipeline_parallel", 1) > 1:
            fields[_LOCAL] = batch / replicas
    fields |= {_RESHARD: "never" if stage == 2 else "always"} if stage else {}
    if batch is not None:
        fields[_BATCH] = batch
        if tokens := scenario.get("training_tokens"):
            each = batch * scenario.get("sequence_length", 2048)
            fields["training.steps"] = math.ceil(tokens / each)
    return fields


def _pipeline_fields(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """Sequences of a micro-batch, and layers of a piece."""
    stages, pieces = scenario.get("pipeline_parallel", 1), scenario.get("virtual_stages", 1)
    if stages == 1:
        return {}
    fields: dict[str, Any] = {_MICROBATCH: scenario.get("micro_batch_size", 1)}
    if scenario.get("pipeline_schedule") == "interleaved" and pieces != 2:
        layers = shape.get("layers", 0) + sum(scenario.get(name, 1) for name in _ENDS)
        fields[_PER_STAGE] = math.ceil(layers / stages / pieces)
        if math.ceil(layers / fields[_PER_STAGE]) != stages * pieces:
            cut = f"{layers:g} layers, with its ends, into {stages * pieces:g} pieces"
            raise InputError(f"torchtitan cannot cut {cut} alike; choose virtual_stages=2")
    return fields


def _recompute_fields(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    kind, some = scenario.get("recompute", "alternate_products"), scenario.get("recomputed_layers")
    if not kind or (kind == "full" and (some in (None, math.inf) or not shape.get("layers"))):
        return {_MODE: "full" if kind else "none"}
    pieces = scenario.get("virtual_stages", 1) * scenario.get("pipeline_parallel", 1)
    every = str(max(1, round(shape["layers"] / pieces / some))) if kind == "full" else "op"
    return {_MODE: "selective", _OPTION: every}


as_text = as_toml
