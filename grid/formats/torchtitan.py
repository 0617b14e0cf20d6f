"""torchtitan's job files: TOML, or the same fields as flags of a launch script."""

import math
import re
from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from . import shell
from .table import Job, Table, fields_of, is_open, job_of, listed, table, values_of, with_open_words
from .trees import as_toml, flat, parsed

NAME = "torchtitan"
_TABLES = "model training parallelism experimental activation_checkpoint optimizer job float8"
_OWN = re.compile(rf"^[ \t]*\[({_TABLES.replace(' ', '|')})\]", re.MULTILINE)
_SPEC = re.compile(r"^[ \t]*(outputs[ \t]*=|\[{1,2}(scenario|axes|phase)\b)", re.MULTILINE)
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
_CASE = {"llama4": str.lower, "gpt_oss": str.lower}  # of flavors; upper in others
_CONVERTERS = {"fp8": "quantize.linear.float8", "mxfp8": "quantize.linear.mx"}
_GATHERED = re.compile(r"(float8|quantize|training)\..*enable_fsdp_(float8|fp8)_all_gather")
_GATHERS = "quantize.linear.float8.enable_fsdp_float8_all_gather"
_RESHARD = "parallelism.fsdp_reshard_after_forward"
_SHARD, _REPLICATE = (f"parallelism.data_parallel_{each}_degree" for each in ("shard", "replicate"))
_MICROBATCH = "parallelism.pipeline_parallel_microbatch_size"
_MICROBATCHES = "parallelism.pipeline_parallel_microbatches"  # until April 2025
_SCHEDULE = "parallelism.pipeline_parallel_schedule"
_PER_STAGE = "parallelism.pipeline_parallel_layers_per_stage"
_MODE, _OPTION = "activation_checkpoint.mode", "activation_checkpoint.selective_ac_option"
_BATCH = "training.global_batch_size"
_SEVERAL = ("interleaved", "zb_v", "dualpipev")  # schedules of two pieces a stage unless stated


def of() -> Table:
    return table("torchtitan")


def is_own(text: str, path: str) -> bool:
    """Whether a text holds a job of torchtitan, and no spec."""
    del path
    own = {*_OWN.findall(text)}
    return (len(own) > 1 or bool(_FLAG.search(text))) and not _SPEC.search(text)


def read(text: str, path: str) -> Job:
    """The job of a file, or of a launch script's flags. Raises InputError."""
    if _OWN.search(text):
        return made(flat(parsed(text, path, "toml")), path)
    script = shell.read(text, path)
    rows = [shell.options(words) for words in script.commands]
    best = max(rows, key=lambda row: sum("." in name for name in row), default={})
    fields = {name.replace("-", "_") if "." in name else name: best[name] for name in best}
    job = made(fields, path)
    if named := fields.get("job.config_file"):
        job.remarks.append(f"not read: {listed([str(named)])}, whose fields the flags replace")
    return job


def made(fields: Mapping[str, Any], path: str) -> Job:
    """The job of fields by dotted names, old ones too. Raises InputError."""
    named = {_DEGREES.sub(r"parallelism.\1", name): value for name, value in fields.items()}
    named = {_OLD.get(name, name): value for name, value in named.items()}
    flavor = _VARIANT.sub("", str(named.pop("model.flavor", "debugmodel")))
    named["model.flavor"] = f"{named.pop('model.name', 'llama3')} {flavor}"
    job = job_of(of(), with_open_words(of(), named), path)
    compiled = bool(job.take("compile.enable", "software"))
    job.scenario["software"] = NAME if compiled else f"{NAME}-eager"
    if not any(name.startswith("parallelism.pipeline") for name in fields):
        named.setdefault(_MICROBATCHES, job.scenario["pipeline_parallel"])  # older ones
    _pipeline(job)
    _sharding(job)
    _batch(job, old=_MICROBATCHES in named)
    _precision(job)
    _recompute(job)
    return job


def _pipeline(job: Job) -> None:
    """Pieces of each stage, and what needs stages, or experts."""
    said = job.scenario
    per_stage = job.number(_PER_STAGE)
    schedule = said.pop("pipeline_schedule", "1f1b")
    if said["expert_parallel"] == 1:
        for name in ("expert_tensor_parallel", "expert_dispatch"):
            said.pop(name, None)
    elif "expert_tensor_parallel" not in said:
        said["expert_tensor_parallel"] = 1
    if (stages := said["pipeline_parallel"]) == 1:
        for name in ("embedding_split_layers", "loss_split_layers"):
            said.pop(name, None)
        return
    said |= {"pipeline_scheduler": "pytorch", "pipeline_schedule": schedule}
    ends = [said.setdefault(f"{end}_split_layers", 1) for end in ("embedding", "loss")]
    said["virtual_stages"] = 2 if schedule in _SEVERAL else 1
    if per_stage and (layers := _layers(said)):
        pieces = math.ceil((layers + sum(ends)) / per_stage)
        job.set(_PER_STAGE, {"virtual_stages": max(1, round(pieces / stages))})
    elif per_stage:
        job.asked["virtual_stages"] = f"the file has {per_stage:g} layers in each piece"


def _layers(said: Mapping[str, Any]) -> int:
    """Layers of the model; 0 where it is not known."""
    return int(values_of(said.get("model")).get("layers", 0))


def _sharding(job: Job) -> None:
    """Groups that shard or replicate, and what all of it makes of the number of GPUs."""
    said = job.scenario
    replicas, shard = job.number(_REPLICATE) or 1, job.number(_SHARD, -1) or -1
    others = math.prod(said[name] for name in _SIZES)
    nodes, each = job.number("nnodes"), job.number("nproc-per-node")
    if shard > 0:
        job.set(_SHARD, {"n_gpus": shard * replicas * others})
    elif nodes and each:
        job.set("nproc-per-node", {"n_gpus": nodes * each, "gpus_per_node": each})
    else:
        job.asked["n_gpus"] = "the launcher states it"
    alone = shard * said["context_parallel"] == 1
    kept = job.take(_RESHARD, "zero_stage") or "default"
    if kept not in ("default", "always", "never", True, False):
        raise InputError(f"{job.path!r}: {_RESHARD} is one of default, always, never; correct it")
    whole = kept in ("never", False) or (kept == "default" and said["pipeline_parallel"] > 1)
    said["zero_stage"] = 0 if alone else 2 if whole else 3
    if said["zero_stage"] and said["pipeline_parallel"] > 1:
        said["gradient_sync"] = "step"
    if replicas > 1 and not alone:
        job.set(_REPLICATE, {"hybrid_sharding": True})
        job.set_per_gpu("data_parallel_shard", 1 / replicas / others)


_SIZES = ("tensor_parallel", "pipeline_parallel", "context_parallel")


def _batch(job: Job, old: bool) -> None:
    """Sequences of a micro-batch and of a step, and tokens of the training."""
    said = job.scenario
    stages = said["pipeline_parallel"]
    for name in ("training.local_batch_size", _BATCH):
        if is_open(job.fields.get(name)):
            job.asked["global_batch_size"] = f"{name} is {job.fields[name]}"
            job.asked["micro_batch_size"] = job.asked["global_batch_size"]
    local = job.number("training.local_batch_size") or 8
    pieces = job.number(_MICROBATCHES) or stages
    size = job.number(_MICROBATCH) or 1
    said["micro_batch_size"] = local if stages == 1 else local / pieces if old else size
    steps = max(0, job.number("training.steps", -1) or 0) * said.get("sequence_length", 0)
    batch = job.number(_BATCH, -1) or -1
    if "global_batch_size" in job.asked:
        return
    if batch > 0:
        job.set(_BATCH, {"global_batch_size": batch})
        said |= {"training_tokens": steps * batch} if steps else {}
        return
    share = local / math.prod(said[name] for name in _SIZES)
    job.set_per_gpu("global_batch_size", share)
    if steps:
        job.set_per_gpu("training_tokens", share * steps)


def _precision(job: Job) -> None:
    """Formats of the products: what converters swap."""
    names = [job.take(f"model.{name}", "precision") for name in ("converters", "handlers")]
    words = {*re.findall(r"\w+", " ".join(str(each) for each in names))}
    old = ("float8.enable_float8_linear", *(f"training.{name}" for name in _FLOAT8))
    if "mx" in words:
        job.scenario["precision"] = "mxfp8"
    elif words & {"float8", "fp8"} or any(job.take(name, "precision") for name in old):
        gathered = any(value for name, value in job.fields.items() if _GATHERED.fullmatch(name))
        kept = {"master_weight_bytes": 3} if gathered else {"quantised_parameters": False}
        job.scenario |= {"precision": "fp8", "fp8_weight_bytes": 1, **kept}


_FLOAT8 = ("enable_float8_linear", "enable_fp8_linear", "fp8_linear")


def _recompute(job: Job) -> None:
    """Whole layers, each k-th layer, or all but every other product."""
    kind, option = job.take(_MODE, "recompute"), job.take(_OPTION, "recompute")
    kind, option = kind or ("none" if _MODE in job.fields else "selective"), str(option or "2")
    pieces = job.scenario.get("virtual_stages", 1) * job.scenario["pipeline_parallel"]
    if kind not in ("none", "full", "selective") or not (option == "op" or option.isdigit()):
        job.asked["recompute"] = f"{_MODE} is {kind}, {_OPTION} is {option}"
    elif kind == "selective" and option == "op":
        job.set(_MODE, {"recompute": "alternate_products"})
    elif kind == "none":
        job.set(_MODE, {"recompute": False})
    else:
        job.set(_MODE, {"recompute": "full"})
        every = int(option[:9]) if kind == "selective" else 1
        if every > 1 and (layers := _layers(job.scenario)):
            job.set(_OPTION, {"recomputed_layers": layers // every / pieces})
        elif every > 1:
            job.asked["recomputed_layers"] = f"one of {every} layers of each piece runs again"


def written(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scenario, by dotted names. Raises InputError."""
    made = fields_of(of(), scenario)
    name, _, flavor = str(made.pop("model.flavor", "")).partition(" ")
    head = {"model.name": name, "model.flavor": _CASE.get(name, str.upper)(flavor)}
    made = (head if name else {}) | made
    made |= _batch_fields(scenario) | _pipeline_fields(scenario, shape)
    made |= _recompute_fields(scenario, shape) | _precision_fields(scenario)
    made["compile.enable"] = scenario.get("software", NAME) == NAME
    return made


def _batch_fields(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Degrees of data parallelism and the batch."""
    others = math.prod(scenario.get(name, 1) for name in _SIZES)
    stages, gpus = scenario.get("pipeline_parallel", 1), scenario.get("n_gpus")
    batch, each = scenario.get("global_batch_size"), scenario.get("micro_batch_size", 1)
    made: dict[str, Any] = {"training.local_batch_size": each}
    if gpus is not None:
        replicas = gpus / others
        if batch is not None and stages > 1:
            made["training.local_batch_size"] = batch / replicas
        stage = scenario.get("zero_stage", 3)
        shard = 1 if not stage else scenario.get("data_parallel_shard", replicas)
        made |= {_REPLICATE: replicas / shard, _SHARD: shard}
    if scenario.get("zero_stage", 3):
        made[_RESHARD] = "never" if scenario.get("zero_stage", 3) == 2 else "always"
    if batch is not None:
        made[_BATCH] = batch
        tokens = batch * scenario.get("sequence_length", 2048)
        if scenario.get("training_tokens"):
            made["training.steps"] = math.ceil(scenario["training_tokens"] / tokens)
    return {name: _counted(name, value) for name, value in made.items()}


def _counted(name: str, value: Any) -> Any:
    if isinstance(value, str) or value == int(value):
        return value if isinstance(value, str) else int(value)
    raise InputError(f"{name} = {value:g} is no whole number; choose GPUs, degrees, batch that fit")


def _pipeline_fields(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """The schedule's word and layers of a piece."""
    stages, pieces = scenario.get("pipeline_parallel", 1), scenario.get("virtual_stages", 1)
    if stages == 1:
        return {}
    made: dict[str, Any] = {_MICROBATCH: _counted(_MICROBATCH, scenario.get("micro_batch_size", 1))}
    word = scenario.get("pipeline_schedule", "1f1b")
    made[_SCHEDULE] = {"interleaved": "Interleaved1F1B", "zb_v": "ZBVZeroBubble"}.get(
        word, {"gpipe": "GPipe", "dualpipev": "DualPipeV"}.get(word, "1F1B")
    )
    if word == "interleaved" and pieces != 2:
        ends = sum(scenario.get(f"{end}_split_layers", 1) for end in ("embedding", "loss"))
        layers = shape.get("layers", 0) + ends
        made[_PER_STAGE] = math.ceil(layers / stages / pieces)
        if math.ceil(layers / made[_PER_STAGE]) != stages * pieces:
            cut = f"{layers:g} layers (its ends count as {ends:g}) into {stages * pieces:g} pieces"
            raise InputError(f"torchtitan cannot cut {cut} alike; choose virtual_stages=2")
    return made


def _recompute_fields(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    kind, some = scenario.get("recompute", "alternate_products"), scenario.get("recomputed_layers")
    if not kind:
        return {_MODE: "none"}
    if kind == "alternate_products":
        return {_MODE: "selective", _OPTION: "op"}
    if some in (None, math.inf) or not shape.get("layers"):
        return {_MODE: "full"}
    pieces = scenario.get("virtual_stages", 1) * scenario.get("pipeline_parallel", 1)
    return {_MODE: "selective", _OPTION: str(max(1, round(shape["layers"] / pieces / some)))}


def _precision_fields(scenario: Mapping[str, Any]) -> dict[str, Any]:
    kind = scenario.get("precision", "bf16")
    if kind not in _CONVERTERS:
        return {}
    made: dict[str, Any] = {"model.converters": [_CONVERTERS[kind]]}
    if kind == "fp8" and scenario.get("quantised_parameters", True):
        made[_GATHERS] = True
    return made


def as_text(fields: Mapping[str, Any]) -> str:
    """Fields as a job file; one alone in one line."""
    return as_toml(fields)
