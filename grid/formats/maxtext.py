"""MaxText's configurations: YAML, or fields as name=value in a launch script."""

import math
import re
from collections.abc import Mapping
from typing import Any

from ..errors import InputError
from . import shell
from .table import (
    Job,
    Table,
    fields_of,
    is_open,
    job_of,
    listed,
    model_fields,
    table,
    whole,
    with_open_words,
)
from .trees import flat, parsed

NAME = "maxtext"
_NAMES = (
    r"(?:per_device_batch_size|(?:ici|dcn)_\w+_parallelism|base_(?:emb|mlp)_dim|remat_policy"
    r"|max_target_length|base_num_decoder_layers)"
)
_YAML = re.compile(rf"^{_NAMES}[ \t]*:", re.MULTILINE)
_OWN = re.compile(rf"(?:^|[\s\"'\\]){_NAMES}=", re.MULTILINE)
_FIELD = re.compile(r"([A-Za-z]\w{1,79})=(.*)", re.DOTALL)
# base.yml's model, and what of it global_parameter_scale doubles (get_individual_scales)
_BASE = {
    **{"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16},
    **{"num_key_value_heads": 16, "intermediate_size": 7168, "head_dim": 128},
    **{"vocab_size": 32000, "tie_word_embeddings": False},
}
_SCALED = {
    **{"hidden_size": 1, "num_hidden_layers": 0, "num_attention_heads": 2},
    **{"num_key_value_heads": 2, "intermediate_size": 2},
}
_LATENT = {
    **{"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
    "q_lora_rank": 0,
}
# Axes of the mesh, by what they do; any other than these has one device
_AXES = {
    "tensor_parallel": ("tensor", "tensor_transpose", "tensor_sequence"),
    "context_parallel": ("context", "context_usp_ulysses"),
    "expert_parallel": ("expert",),
    "shard": ("fsdp", "fsdp_transpose"),
    "data": ("data",),
}
_TOPOLOGY = re.compile(r"(v4|v5p|v5e|v6e|a3)-?(\d{1,6})?")
_CORES = {"v4": 2, "v5p": 2}  # which their names count, of a chip


def of() -> Table:
    return table("maxtext")


def is_own(text: str, path: str) -> bool:
    """Whether a text holds fields of MaxText."""
    del path
    return bool(_YAML.search(text) or _OWN.search(text))


def read(text: str, path: str) -> Job:
    """The job of a configuration or of a launch script. Raises InputError."""
    if _YAML.search(text) and not _OWN.search(text):
        return made(flat(parsed(text, path, "yaml")), path)
    script = shell.read(text, path)
    texts = [*script.commands, *map(shell.split, script.variables.values())]
    rows = [
        dict((found[1], found[2].rstrip(";")) for word in row if (found := _FIELD.fullmatch(word)))
        for row in texts
    ]
    names = of()
    known = {*names.inputs, *names.model, *names.words, "per_device_batch_size"}
    trains = [
        ("train" in " ".join(row[:6]), len(known & fields.keys()))
        for row, fields in zip(texts, rows, strict=True)
    ]
    best = max(range(len(rows)), key=lambda at: trains[at], default=None)
    if best is None or not trains[best][1]:
        raise InputError(f"{path!r} has no fields of MaxText; give its launch script or YAML file")
    job = made(rows[best], path)
    files = [word for word in texts[best] if word.endswith((".yml", ".yaml"))]
    if other := [word for word in files if not word.endswith("base.yml") and "=" not in word]:
        job.remarks.append(f"not read: {listed(other)}, whose fields these replace")
    return job


def made(fields: Mapping[str, Any], path: str) -> Job:
    """The job of fields by name. Raises InputError."""
    if (heads := fields.get("base_num_heads")) is not None:  # until 2023-11
        both = dict.fromkeys(("base_num_query_heads", "base_num_kv_heads"), heads)
        fields = both | {name: fields[name] for name in fields if name != "base_num_heads"}
    job = job_of(of(), with_open_words(of(), fields), path)
    job.scenario.setdefault("precision", "bf16")
    if str(fields.get("quantization") or "").lower() not in ("", "none"):
        job.scenario |= of().words["quantization"].get(str(fields["quantization"]).lower(), {})
    _model(job)
    _mesh(job)
    _batch(job)
    off = [name for name, value in job.unknown.items() if value in _OFF]
    job.ignored |= {name: "off" for name in off if job.unknown.pop(name)}
    return job


_OFF = ("false", "0", "0.0", "-1", "-1.0", "", "[]", "{}")


def _model(job: Job) -> None:
    """What a config.json says otherwise, with base.yml's model where none is named."""
    config = job.config
    if job.take("decoder_block", "model") in _OTHER_BLOCKS:
        job.asked["model"] = f"decoder_block is {job.fields['decoder_block']}"
    kind, scale = job.take("attention_type", "model"), job.number("global_parameter_scale") or 1
    gate = re.findall(r"\w+", str(job.take("mlp_activations", "gated_ffn") or "silu linear"))
    if job.fields.get("model_name") not in (None, "", "default"):
        if config and job.take("override_model_config") and "model" in job.scenario:
            job.asked["model"] = "fields of a named model are replaced"
        config.clear()
        return
    for name, value in _BASE.items():
        config.setdefault(name, value)
    levels, left = divmod(round(math.log2(scale)), 3)
    for name, after in _SCALED.items():
        if isinstance(config[name], int | float):
            config[name] *= 2 ** (levels + (left >= 3 - after))
    config["gated_ffn"] = len(gate) > 1
    for name, value in _LATENT.items():
        config.setdefault(name, value) if kind == "mla" else config.pop(name, None)
    if kind == "mla":
        config.pop("head_dim", None)
    if config.get("num_experts", 1) in (0, 1):
        for name in [name for name in config if name in _EXPERTS]:
            del config[name]
    else:
        config.setdefault("num_experts_per_tok", 1)
        if (factor := job.number("capacity_factor", -1) or -1) > 0:
            job.set("capacity_factor", {"capacity_factor": factor, "expert_capacity": "padded"})
        if config.get("moe_intermediate_size", -1) in (-1, None):
            config["moe_intermediate_size"] = config["intermediate_size"]


_OTHER_BLOCKS = ("qwen3_next", "qwen3_5", "simple", "simple_mlp", "gemma4", "deepseek4", "envy")
_EXPERTS = (
    *("num_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts"),
    *("first_k_dense_replace", "interleave_moe_layer_step"),
)


def _mesh(job: Job) -> None:
    """Degrees of the axes within slices (ici) and between them (dcn), and the number of chips."""
    sizes: dict[str, float] = {}
    open_ = {"ici": "", "dcn": ""}
    within = {"ici": 1.0, "dcn": 1.0}
    roles = {axis: role for role, axes in _AXES.items() for axis in axes}
    _topology(job)
    for name in {*(name for name in job.fields if _PARALLEL.fullmatch(name)), *_DEFAULTS}:
        kind, axis = _PARALLEL.fullmatch(name).groups()  # type: ignore[union-attr]
        degree = _degree(job, name)
        role = roles.get(axis)
        if role is None and degree != 1:
            raise InputError(
                f"{job.path!r}: {name} = {degree:g} has no counterpart here; set it to 1"
            )
        if degree < 0:
            open_[kind] = role or ""
        else:
            within[kind] *= degree
            sizes[role] = sizes.get(role, 1) * degree
    sizes = {role: sizes.get(role, 1) for role in _AXES}
    slices = job.number("num_slices", -1) or job.number("compile_topology_num_slices", -1) or 1
    _fill(job, sizes, open_, within, max(slices, 1))
    _degrees(job, sizes, open_["ici"])


_PARALLEL = re.compile(r"(ici|dcn)_(\w+)_parallelism")
_DEFAULTS = {"ici_fsdp_parallelism": -1, "dcn_data_parallelism": -1}


def _degree(job: Job, name: str) -> float:
    if is_open(job.fields.get(name)):
        job.asked["n_gpus"] = f"{name} is {job.fields[name]}"
        job.take(name)
        return 1
    degree = job.number(name, -1)
    return _DEFAULTS.get(name, 1) if degree is None else degree or 1


def _topology(job: Job) -> None:
    """The chip and their number, of the slices that a file compiles for."""
    found = _TOPOLOGY.fullmatch(str(job.take("compile_topology", "gpu") or ""))
    slices = job.number("compile_topology_num_slices", -1) or 1
    if found and found[1] == "a3":
        job.set("compile_topology", {"gpu": "h100-sxm", "n_gpus": 8 * max(slices, 1)})
    elif found and found[2]:
        chips = int(found[2]) // _CORES.get(found[1], 1) * max(slices, 1)
        job.set("compile_topology", {"gpu": f"tpu-{found[1]}", "n_gpus": chips})


def _fill(
    job: Job,
    sizes: dict[str, float],
    open_: Mapping[str, str],
    within: Mapping[str, float],
    slices: float,
) -> None:
    """The degrees that are left open, from the chips or for one slice."""
    said = job.scenario
    if "n_gpus" in said:
        each = said["n_gpus"] / (slices if open_["dcn"] else within["dcn"])
        rest = {"ici": each / within["ici"], "dcn": slices / within["dcn"]}
        for kind, role in open_.items():
            if role:
                sizes[role] *= max(rest[kind], 1)
    elif not open_["ici"]:
        if open_["dcn"]:
            sizes[open_["dcn"]] *= slices
        said["n_gpus"] = whole(math.prod(sizes.values()))
    else:
        job.asked.setdefault("n_gpus", "the launcher states it")


def _degrees(job: Job, sizes: Mapping[str, float], left: str) -> None:
    """Inputs of the axes' degrees; the one left open grows with the chips."""
    said = job.scenario
    known = "n_gpus" in said
    for name in ("tensor_parallel", "context_parallel", "expert_parallel"):
        said[name] = whole(sizes[name])
        if left == name and not known:
            job.asked[name] = "its axis of the mesh takes what is left of n_gpus"
    said["sequence_parallel"] = said["tensor_parallel"] > 1
    if said["expert_parallel"] == 1 and left != "expert_parallel":
        said.pop("expert_dispatch", None)
    shard, others = sizes["shard"] * sizes["expert_parallel"], math.prod(sizes.values())
    sharded = shard * sizes["context_parallel"] > 1 or (
        left in ("shard", "expert_parallel") and not known
    )
    over_data = job.take("shard_optimizer_over_data", "zero_stage")
    said["zero_stage"] = 3 if sharded else 1 if over_data else 0
    if not sharded or (sizes["data"] == 1 and left != "data"):
        return
    said["hybrid_sharding"] = True
    if known or left == "data":
        said["data_parallel_shard"] = whole(shard)
    else:
        job.set_per_gpu("data_parallel_shard", shard / others)


def _batch(job: Job) -> None:
    """Sequences of a micro-batch and of a step, and tokens of the training."""
    said, steps = job.scenario, job.number("steps", -1) or -1
    if is_open(job.take("per_device_batch_size")) or is_open(
        job.take("gradient_accumulation_steps")
    ):
        why = "per_device_batch_size or gradient_accumulation_steps is a variable"
        job.asked |= {"global_batch_size": why, "micro_batch_size": why}
        return
    each = job.number("per_device_batch_size", 1e-6) or 12
    rounds = job.number("gradient_accumulation_steps") or 1
    micro = whole(each * said["tensor_parallel"] * said["context_parallel"])
    if not isinstance(micro, int):
        raise InputError(
            f"{job.path!r}: per_device_batch_size = {each:g} makes {micro:g} sequences of a "
            "replica; use a whole number"
        )
    said["micro_batch_size"] = micro
    job.set_per_gpu("global_batch_size", each * rounds)
    if steps > 0 and said.get("sequence_length"):
        job.set_per_gpu("training_tokens", each * rounds * steps * said["sequence_length"])


def written(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scenario. Raises InputError."""
    made = fields_of(of(), scenario)
    made.pop("dtype", None)
    if scenario.get("precision") == "fp16":
        made["dtype"] = "float16"
    if "model_name" not in made:
        made = model_fields(of(), shape) | made
        made["mlp_activations"] = ["silu", "linear"] if shape.get("gated_ffn") else ["gelu"]
        made["logits_via_embedding"] = shape.get("embedding_tables", 2) == 1
    degrees = {name: scenario.get(name, 1) for name in list(_AXES)[:3]}
    tensor, context, expert = degrees.values()
    each = scenario.get("micro_batch_size", 1) / tensor / context
    made |= {f"ici_{name.partition('_')[0]}_parallelism": n for name, n in degrees.items()}
    made["per_device_batch_size"] = each
    if (gpus := scenario.get("n_gpus")) is not None:
        replicas = gpus / tensor / context
        shard = (
            scenario.get("data_parallel_shard", replicas)
            if scenario.get("zero_stage", 3) == 3
            else expert
        )
        made |= {"ici_fsdp_parallelism": shard / expert, "ici_data_parallelism": replicas / shard}
        made["dcn_data_parallelism"] = 1
        batch = scenario.get("global_batch_size", gpus * each)
        made["gradient_accumulation_steps"] = batch / gpus / each
        if scenario.get("training_tokens"):
            tokens = batch * scenario.get("sequence_length", 2048)
            made["steps"] = math.ceil(scenario["training_tokens"] / tokens)
    if scenario.get("zero_stage", 3) == 1:
        made["shard_optimizer_over_data"] = True
    for name in made:
        if name.endswith("_parallelism") or name == "gradient_accumulation_steps":
            made[name] = whole(made[name])
            if not isinstance(made[name], int):
                raise InputError(
                    f"{name} = {made[name]:g} is no whole number; choose GPUs that fit"
                )
    return made


def as_text(fields: Mapping[str, Any]) -> str:
    """Fields as a YAML file."""
    return "\n".join(f"{name}: {_yaml(value)}" for name, value in fields.items())


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value!r}".strip("'") or '""'
