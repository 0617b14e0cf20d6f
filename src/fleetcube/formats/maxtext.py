"""MaxText's configurations: YAML, or fields as name=value in a launch script."""

import math
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from fleetcube.grid.errors import InputError

from . import shell
from .field_table import (
    NOTHING,
    Job,
    fields_of,
    is_open,
    job_of,
    join_model,
    model_fields,
    one_of,
    table,
    whole,
    whole_counts,
    with_open_words,
)
from .trees import flat, parsed

NAME = "maxtext"
format_table = partial(table, "maxtext")
_NAMES = (
    r"(?:per_device_batch_size|(?:ici|dcn)_\w+_parallelism|base_(?:emb|mlp)_dim|remat_policy"
    r"|max_target_length|base_num_decoder_layers)"
)
_YAML = re.compile(rf"^{_NAMES}[ \t]*:", re.M)
_ARGUMENT = re.compile(rf"(?:^|[\s\"'\\]){_NAMES}=", re.M)
_FIELD = re.compile(r"([A-Za-z]\w{1,79})=(.*?);?", re.S)
_OFF = ("false", "0", "0.0", "-1", "-1.0", "", "[]", "{}")
# base.yml's model, and after how many of three doublings global_parameter_scale doubles each
# (get_individual_scales); fields of experts and of latent attention
_BASE = {
    **{"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16},
    **{"num_key_value_heads": 16, "intermediate_size": 7168, "head_dim": 128},
    **{"vocab_size": 32000, "tie_word_embeddings": False},
}
_SCALED = {
    **{"num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 1},
    **{"hidden_size": 2, "num_hidden_layers": 3},
}
_LATENT = {
    **{"q_lora_rank": 0, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64},
    "v_head_dim": 128,
}
_EXPERTS = (
    *("num_experts", "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts"),
    *("first_k_dense_replace", "interleave_moe_layer_step"),
)
_OTHER_BLOCKS = ("qwen3_next", "qwen3_5", "simple", "simple_mlp", "gemma4", "deepseek4", "envy")
_PARALLEL = re.compile(r"(ici|dcn)_(\w+)_parallelism")
_REST = {"ici_fsdp_parallelism": -1, "dcn_data_parallelism": -1}  # take the rest
_AXES = {
    **dict.fromkeys(("tensor", "tensor_transpose", "tensor_sequence"), "tensor_parallel"),
    **dict.fromkeys(("context", "context_usp_ulysses"), "context_parallel"),
    **dict.fromkeys(("fsdp", "fsdp_transpose"), "data_parallel_shard"),
    **{"expert": "expert_parallel", "data": "data"},
}
_OF_DATA = ("data_parallel_shard", "data")
_POLICY, _INPUT = "remat_policy", "decoder_layer_input"
_QUERIES = ("query_proj", "key_proj", "value_proj")
# Tensors that a policy may name: our input, names that are all of them, and the input that moves
# them. No gradient reads mlpwo of a dense block; experts' is kept with moe_mlpwi
_TENSORS = (
    ("keep_qkv_proj", (_QUERIES, ("qkv_proj",)), "offload_core_attn"),
    ("keep_context", (("context",),), "offload_attn_proj"),
    ("keep_out_proj", (("out_proj",),), "offload_mlp_norm"),
    (
        "keep_mlpwi",
        (("mlpwi_0", "mlpwi_1"), ("mlpwi",), ("moe_mlpwi_0", "moe_mlpwi_1")),
        "offload_moe_act",
    ),
)
_PLACES = {place: place for place in ("device", "offload", "remat")}
_OTHERS = ("kv_proj", "query_wa_proj", "kv_wa_proj", "mla_q", "mla_kv", "attention_out", "engram")
_TOPOLOGY = re.compile(r"(v4|v5p|v5e|v6e)-(\d{1,6})")
_CORES = {"v4": 2, "v5p": 2}  # of a chip, which names count


def recognizes(text: str) -> bool:
    """Whether a text holds fields of MaxText."""
    return bool(_YAML.search(text) or _ARGUMENT.search(text))


def read(text: str, path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of a configuration or of a launch script. Raises InputError."""
    if not _ARGUMENT.search(text):
        return job_from(flat(parsed(text, path, "yaml")), path, given)
    script = shell.read(text, path)
    ours = format_table()
    names = {*ours.inputs, *ours.model, *ours.words, "per_device_batch_size"}
    best: tuple[tuple[bool, int], dict[str, str], str] = ((False, 0), {}, "")
    for row in [*script.commands, *map(shell.split, script.variables.values())]:
        words = [*map(shell.plain, row)]
        fields = {match[1]: match[2] for word in words if (match := _FIELD.fullmatch(word))}
        rank = ("train" in " ".join(words[:6]), len(names & fields.keys()))
        file = next((word for word in words if word.endswith(".yml")), "base.yml")
        best = (rank, fields, file) if rank[1] and rank > best[0] else best
    if not best[1]:
        raise InputError(f"{path!r} has no fields of MaxText; give its launch script or YAML file")
    job = job_from(best[1], path, given)
    if not best[2].endswith("base.yml"):
        job.remarks.append(f"not read: {best[2][-60:]}, whose fields these replace")
        if "model_name" not in job.fields:
            job.ask("the YAML that is not read names it", "model")
    return job


def job_from(fields: Mapping[str, Any], path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of fields by name. Raises InputError."""
    if (heads := fields.get("base_num_heads")) is not None:  # until November 2023
        fields = {"base_num_query_heads": heads, "base_num_kv_heads": heads, **fields}
    job = job_of(format_table(), with_open_words(format_table(), fields), path, given)
    job.take("base_num_heads")
    quantization = str(job.fields.get("quantization", "")).lower()
    inputs = job.table.words["quantization"].get(quantization, {})
    job.add_inputs(inputs if inputs.get("precision") != "bf16" else {})
    _tensors(job)
    _model(job)
    _mesh(job)
    _batch(job)
    off = [name for name, value in job.unknown.items() if value in _OFF]
    job.ignored |= {name: "off" for name in off if job.unknown.pop(name) in _OFF}
    return job


def _tensors(job: Job) -> None:
    """Products that are kept, or go to the host, where a policy names tensors
    (get_save_and_offload_names)."""
    if job.fields.get(_POLICY) != "<custom>":
        return
    names = [name for _, ways, _ in _TENSORS for way in ways for name in way]
    names += [_INPUT, "mlpwo", "moe_mlpwo", *_OTHERS]
    given = {name: job.take(name, "recompute") for name in names}
    where = {n: one_of(_PLACES, n, place or "remat", job.path) for n, place in given.items()}
    products, moved = [], {"offload_attn_norm": 1} if where[_INPUT] == "offload" else {}
    unclear = any(where[name] in ("device", "offload") for name in _OTHERS)
    for share, ways, offload in _TENSORS:
        places = [{where[name] for name in way} for way in ways]
        some = {place for way in places for place in way} & {"device", "offload"}
        unclear |= bool(some) and not (len(some) == 1 and some in places)
        products += [share] * bool(some)
        moved |= {offload: 1} if "offload" in some else {}
    if not unclear and not any(is_open(job.fields.get(name)) for name in where):
        for name in ("recompute", *(offload for *_, offload in _TENSORS)):
            job.open_inputs.pop(name, None)
        nothing = "keep_none" if moved else "full"
        job.set(_POLICY, {"recompute": "+".join(products) or nothing, **moved})


def _model(job: Job) -> None:
    """Model shape: from the named config, else base.yml's default model."""
    config, latent = job.config, job.take("attention_type", "model") == "mla"
    scale = job.number("global_parameter_scale", 1, "model") or 1
    gate = re.findall(r"\w+", str(job.take("mlp_activations", "gated_ffn") or "silu linear"))
    block, forced = job.take("decoder_block", "model"), job.take("override_model_config", "model")
    named = job.fields.get("model_name") not in (None, "", "default")
    if block in _OTHER_BLOCKS or (named and config and forced and "model" in job.scenario):
        job.ask(f"decoder_block is {block}" if block else "its fields are replaced", "model")
    capacity = "capacity_factor or expert_capacity"
    if (factor := job.number("capacity_factor", -1, capacity) or -1) > 0:
        job.set("capacity_factor", {"capacity_factor": factor, "expert_capacity": "padded"})
    if named or "model" in job.given:
        config.clear()
        return
    job.config = config = {**_BASE, **(_LATENT if latent else {}), **config}
    config["gated_ffn"] = len(gate) > 1
    levels, more = divmod(round(math.log2(scale)), 3)
    for name, after in _SCALED.items():
        if isinstance(config[name], int | float):
            config[name] *= 2 ** (levels + (more >= after))
    experts = config.get("num_experts", 1) not in (0, 1)
    dropped = [*([] if latent else _LATENT), *([] if experts else _EXPERTS)]
    for name in [*dropped, *(["head_dim"] if latent else [])]:
        config.pop(name, None)
    join_model(job)
    if experts and config.get("moe_intermediate_size", -1) == -1:
        config["moe_intermediate_size"] = config["intermediate_size"]


def _mesh(job: Job) -> None:
    """Degrees of the axes within slices (ici) and between them (dcn), and the number of chips."""
    inputs, sizes = job.scenario, dict.fromkeys(_AXES.values(), 1.0)
    within, left, slices = {"ici": 1.0, "dcn": 1.0}, dict[str, str](), _slices(job)
    open_axes = False
    for name in dict.fromkeys([*_REST, *job.fields]):
        if not (match := _PARALLEL.fullmatch(name)):
            continue
        kind, role = match[1], _AXES.get(match[2])
        opens = "model" if role is None else "n_gpus" if role in _OF_DATA else role
        open_ = job.number(name, -1, opens) is None and name in job.fields
        degree = 1 if open_ else job.number(name, -1) or _REST.get(name, 1)
        if open_ and "n_gpus" in inputs and role in _OF_DATA:
            if several := open_axes or kind in left:  # which of them takes how much of the GPUs
                job.ask(f"{name} is {job.fields[name]}", "data_parallel_shard", "hybrid_sharding")
            open_axes = True
            left |= {} if several else {kind: role}
        elif role and degree < 0:
            left[kind] = role
        elif role:
            sizes[role], within[kind] = sizes[role] * degree, within[kind] * degree
        elif degree != 1:
            raise InputError(f"{job.path!r}: {name} = {degree:g} is not counted; set it to 1")
    for role in sizes.keys() & job.given.keys() - {"data_parallel_shard"}:
        left = {kind: other for kind, other in left.items() if other != role}
        within["ici"] *= job.given[role] / sizes[role]
        sizes[role] = job.given[role]
    gpus = inputs.get("n_gpus")
    if gpus is not None and "ici" not in left:
        slices = gpus / within["ici"]
    rest = {"dcn": slices / within["dcn"] if "dcn" in left else 1}
    if gpus is not None:
        rest["ici"] = gpus / (slices if "dcn" in left else within["dcn"]) / within["ici"]
    for kind, role in left.items():
        sizes[role] *= max(rest.get(kind, 1), 1)
    if gpus is None and "ici" not in left:
        job.add_inputs({"n_gpus": whole(math.prod(sizes.values()))})
    _degrees(job, sizes, left.get("ici", "") if "n_gpus" not in inputs else "")


def _slices(job: Job) -> float:
    """Slices, and their chips where a file compiles for some."""
    topology = _TOPOLOGY.fullmatch(str(job.take("compile_topology", "gpu") or ""))
    counts = [job.number(name, -1) or -1 for name in ("num_slices", "compile_topology_num_slices")]
    slices = max(1, *counts)
    if topology:
        chips = int(topology[2]) // _CORES.get(topology[1], 1) * slices
        job.set("compile_topology", {"gpu": f"tpu-{topology[1]}", "n_gpus": chips})
    return slices


def _degrees(job: Job, sizes: Mapping[str, float], left: str) -> None:
    """Inputs from the degrees of the axes; the open degree grows with the chips."""
    stated, rest = job.scenario, "its axis of the mesh takes the rest of n_gpus"
    if left:
        job.ask("the launcher states it", "n_gpus")
        inputs = {"data_parallel_shard": (), "data": (), "expert_parallel": (left,)}
        job.ask(rest, *inputs.get(left, (left, "micro_batch_size")))
    parallel = ("tensor_parallel", "context_parallel", "expert_parallel")
    job.add_inputs({name: whole(sizes[name]) for name in parallel})
    job.add_inputs({"pipeline_parallel": 1, "sequence_parallel": stated["tensor_parallel"] > 1})
    if stated["expert_parallel"] == 1 and left != "expert_parallel":
        stated.pop("expert_dispatch", None)
    shard = sizes["data_parallel_shard"] * sizes["expert_parallel"]
    grows = left in ("data_parallel_shard", "expert_parallel")
    over_data = job.take("shard_optimizer_over_data", "zero_stage")
    spread = grows or shard * sizes["context_parallel"] > 1
    job.add_inputs({"zero_stage": 3 if spread else 1 if over_data else 0})
    if spread and (sizes["data"] > 1 or left == "data"):
        job.add_inputs({"hybrid_sharding": True})
        if grows:
            job.set_per_gpu("data_parallel_shard", shard / math.prod(sizes.values()))
        else:
            job.add_inputs({"data_parallel_shard": whole(shard)})


def _batch(job: Job) -> None:
    """Sequences of a micro-batch and of a step, and tokens of the training."""
    inputs, step, part = job.scenario, "global_batch_size", "micro_batch_size"
    replica = inputs["tensor_parallel"] * inputs["context_parallel"]
    each = job.number("per_device_batch_size", 1e-6, part) or 12
    micro = whole(each * replica)
    if not isinstance(micro, int) and part not in {*job.open_inputs, *job.given}:
        message = f"per_device_batch_size = {each:g} makes {micro:g} sequences of a replica"
        raise InputError(f"{job.path!r}: {message}; use a whole number")
    job.add_inputs({part: micro})
    rounds = job.number("gradient_accumulation_steps", 1, step) or 1
    job.set_batch(inputs[part] / replica * rounds, "steps")


def to_fields(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a scenario. Raises InputError."""
    fields = fields_of(format_table(), scenario)
    fields.pop("dtype", None)
    if "model_name" not in fields:
        fields = model_fields(format_table(), shape) | fields
        fields["mlp_activations"] = ["silu", "linear"] if shape.get("gated_ffn") else ["gelu"]
        fields["logits_via_embedding"] = shape.get("embedding_tables", 2) == 1
    parallel = ("tensor", "context", "expert")
    tensor, context, expert = (scenario.get(f"{name}_parallel", 1) for name in parallel)
    each, stage = scenario.get("micro_batch_size", 1) / tensor / context, scenario.get("zero_stage")
    degrees = dict(zip(parallel, (tensor, context, expert), strict=True))
    if (gpus := scenario.get("n_gpus")) is not None:
        replicas = gpus / tensor / context
        shard = expert if stage in (0, 1) else scenario.get("data_parallel_shard", replicas)
        degrees |= {"fsdp": shard / expert, "data": replicas / shard}
        batch = scenario.get("global_batch_size", gpus * each)
        fields |= whole_counts({"gradient_accumulation_steps": batch / gpus / each})
        if tokens := scenario.get("training_tokens"):
            fields["steps"] = math.ceil(tokens / batch / scenario.get("sequence_length", 2048))
    fields |= whole_counts({f"ici_{axis}_parallelism": n for axis, n in degrees.items()})
    fields |= _policy_fields(scenario)
    fields |= {"shard_optimizer_over_data": True} if stage == 1 else {}
    fields |= {"dtype": "float16"} if scenario.get("precision") == "fp16" else {}
    return {**fields, "dcn_data_parallelism": 1, "per_device_batch_size": each}


def _policy_fields(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a policy that names tensors, where it keeps some of them."""
    words, fields = str(scenario.get("recompute")).split("+"), dict[str, Any]()
    for share, (way, *_), offload in _TENSORS:
        place = "offload" if scenario.get(offload) else "device"
        fields |= dict.fromkeys(way, place) if share in words else {}
    fields |= {_INPUT: "offload"} if scenario.get("offload_attn_norm") else {}
    return {_POLICY: "custom", **fields} if fields else {}


def as_text(fields: Mapping[str, Any]) -> str:
    """Fields as a YAML file."""
    words = {True: "true", False: "false"}
    rows = {n: words[v] if isinstance(v, bool) else v for n, v in fields.items()}
    return "\n".join(f"{name}: {value}" for name, value in rows.items())
