"""Megatron-LM's arguments: in a launch script, a list of flags, a YAML, or a training log."""

import itertools
import re
import shlex
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from fleetcube.catalog.huggingface import COUNTS
from fleetcube.grid.errors import InputError
from fleetcube.scenario.patterns import pieces_of

from . import shell
from .field_table import (
    NOTHING,
    Job,
    Table,
    fields_of,
    is_open,
    job_of,
    listed,
    model_fields,
    table,
)
from .trees import parsed

NAME = "megatron-lm"
format_table = partial(table, "megatron_lm")
_PRINTED = re.compile(r"^(?:.*\]:)?[ \t]*+(\w{2,60}) \.{3,} (.*)$", re.MULTILINE)
_YAML = re.compile(r"^MODEL_ARGS:", re.MULTILINE)  # of its own functional tests
_NODES = ("nnodes", "num-nodes", "nodes", "N")
_PROCESSES = ("nproc-per-node", "num-gpus", "ntasks-per-node", "gpus-per-node")
SBATCH = re.compile(r"^#SBATCH\s+(-\S.*)$", re.MULTILINE)
_PRECISIONS = {
    "delayed": "fp8",
    "tensorwise": "fp8",
    "blockwise": "fp8_blockwise",
    "mxfp8": "mxfp8",
}
_FOUR_BITS = {"nvfp4": "nvfp4", "mxfp4": "mxfp4"}  # the latter with ROCm's fork
_FP8 = dict.fromkeys(("e4m3", "hybrid"))
_FORMATS = {"fp4-format": {"e2m1": None}, "fp8-format": _FP8, "fp8": _FP8}
_OFF = ("false", "0", "0.0", "[]", "")  # a False of a log is as good as none
_SHAPE = {*COUNTS, "gated_ffn", "embedding_tables"}  # inputs that a model's record has
_NEEDED = ("num_hidden_layers", "hidden_size", "num_attention_heads")
_OTHERS = re.compile(r"\bpretrain_(bert|t5|ict|retro|vision\w*|realm|biencoder)\.py\b")
_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
_TORCH = {"torch.float32": "fp32", "torch.bfloat16": "bf16", "torch.float16": "fp16"}
_TORCH |= {"torch.uint8": "fp8"}
_SPLITS = ("first_stage_layers", "last_stage_layers", "embedding_split_layers", "loss_split_layers")
_CHUNK = "num-layers-per-virtual-pipeline-stage"
_SPLIT = "pipeline-model-parallel-layout"
_MOST_PIECES = 4096
_WITH = "read with others"
_MARKS = re.compile(r"[|()*]")  # of a shell
_OVERLAPS = {0: ("data_parallel_overlap",), 1: ("data_parallel_overlap", "weight_gather_overlap")}
_MODULES = {"attn", "mamba", "mlp", "moe", "moe_router", "moe_preprocess"}  # of graphs
_SHARDED = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}


def recognizes(text: str) -> bool:
    """Whether a text holds arguments of Megatron-LM."""
    names = ("num-layers", "tensor-model-parallel-size", "micro-batch-size", "hidden-size")
    flags = any(f"--{name}" in text or f"--{name.replace('-', '_')}" in text for name in names)
    printed = sum(f"{name.replace('-', '_')} ." in text for name in names)
    return flags or printed > 2 or bool(_YAML.search(text))


def read(text: str, path: str, given: Mapping[str, Any] = NOTHING) -> Job:
    """The job of a script, a YAML or a log's list of arguments. Raises InputError."""
    printed = {
        name.replace("_", "-"): _argument(value.strip()) for name, value in _PRINTED.findall(text)
    }
    if len(printed) > 20:
        return job_from(printed, path, given, printed=True)
    if _YAML.search(text):
        return job_from(_of_yaml(text, path), path, given)
    if other := _OTHERS.search(text):
        raise InputError(f"{path!r} runs {other[0]}, which no input counts; give a decoder's")
    fields, remarks = arguments(text, path)
    job = job_from(fields, path, given)
    job.remarks += remarks
    return job


def _of_yaml(text: str, path: str) -> dict[str, Any]:
    """The arguments of a table in YAML; false ones are left out."""
    fields: dict[str, Any] = {}
    arguments = parsed(text, path, "yaml").get("MODEL_ARGS")
    for name, value in arguments.items() if isinstance(arguments, dict) else ():
        words = " ".join(map(str, value)) if isinstance(value, list) else value
        if words is not False:
            is_list = isinstance(words, str) and words.startswith("[")
            name = str(name).lstrip("-").replace("_", "-")
            fields[name] = words.strip("[]") if is_list else words
    return fields


def _argument(printed: str) -> str:
    """Undo a log's formatting of a value (lists, enum names)."""
    if printed.startswith("['"):
        return re.sub(r"[\[\]',]", "", printed)
    return _TORCH.get(printed, printed.removeprefix("AttnBackend."))


def arguments(text: str, path: str) -> tuple[dict[str, Any], list[str]]:
    """Arguments by name of the program that a script launches, and remarks on unread parts.
    Raises InputError."""
    batch = slurm_options(text)
    names = format_table()
    counted_names = {*names.inputs, *names.model, *names.switches, *names.words}
    # As it runs alone; where that launches nothing, whatever the environment has
    anything = {name: shell.unknown(name) for name in re.findall(r"\$\{?([A-Za-z_]\w*)", text)}
    for environment in ({}, anything):
        script = shell.read(text, path, {**environment, **slurm(batch)})
        launched = [(shell.options(words), words) for words in script.commands]
        most = max((len(counted_names & row.keys()) for row, _ in launched), default=0)
        launched = [
            each for each in launched if 2 * len(counted_names & each[0].keys()) >= most > 0
        ]
        if launched:
            break
    sourced = dict.fromkeys(script.sourced)
    remarks = [f"not read: {listed(sourced)}, which the script reads"] if sourced else []
    if script.not_understood:
        remarks.append(f"not understood: lines {listed(map(str, script.not_understood))}")
    remarks += [f"line {line} {why}" for line, why in script.stray.items()]
    if not launched:
        every = [shell.options(shell.split(value)) for value in script.variables.values()]
        row = {name: value for each in every for name, value in each.items()}
        if not counted_names & row.keys():
            raise InputError(
                f"{path!r} launches nothing with arguments of Megatron-LM as it is read; give the "
                "line that does, or what fleetcube record -- bash SCRIPT writes"
            )
        remarks.append("it launches nothing: arguments are those of its variables")
        launched = [(row, [])]
    fields: dict[str, Any] = {}
    for name in dict.fromkeys(name for row, _ in launched for name in row):
        values = {str(row.get(name)) for row, _ in launched}
        fields[name] = launched[0][0][name] if len(values) == 1 else f"$UNDECIDED_{name}"
    fields = _without_values(fields, names)
    words = [word for _, row in launched for word in row]
    open_words = (shell.shown(word) for word in words if shell.stands_alone(word))
    left = dict.fromkeys(word for word in open_words if word not in fields.values())
    remarks += [f"not read: {listed(left)}, which may hold arguments"] if left else []
    alone = {f"${name}": f"${{{name}:-{value}}}" for name, value in script.alone.items()}
    fields = {name: alone.get(str(value), value) for name, value in fields.items()}
    return {**_launcher(batch, words), **fields}, remarks


def _without_values(fields: dict[str, Any], names: Table) -> dict[str, Any]:
    """Flags that take no value do not hold an open word that follows them."""
    opened = re.compile(r"\$(?!UNDECIDED_)\w+")
    return {
        name: True if opened.fullmatch(str(value)) and names.is_bare(name) else value
        for name, value in fields.items()
    }


def slurm_options(text: str) -> dict[str, Any]:
    """The options that the lines #SBATCH of a script give."""
    rows = [shell.options(line.split(" #")[0].split()) for line in SBATCH.findall(text)]
    return {name: value for row in rows for name, value in row.items()}


def slurm(batch: Mapping[str, Any]) -> dict[str, str]:
    """Slurm's variables that the lines #SBATCH determine."""

    def number(*options: str) -> int | None:
        texts = [str(batch[name]).rpartition(":")[2] for name in options if name in batch]
        return int(texts[-1]) if texts and texts[-1].isdigit() else None

    nodes, each = number("nodes", "N"), number("ntasks-per-node")
    tasks = number("ntasks", "n") or (nodes * each if nodes and each else None)
    gpus = number("gpus-per-node")
    variables = {
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), tasks),
        "SLURM_NTASKS_PER_NODE": each,
        "SLURM_GPUS_PER_NODE": gpus,
        "SLURM_GPUS_ON_NODE": gpus or number("gres"),
    }
    return {name: str(value) for name, value in variables.items() if value is not None}


def _launcher(batch: Mapping[str, Any], words: list[str]) -> dict[str, Any]:
    """The options of a batch script that set nodes and GPUs. Where torchrun or DeepSpeed starts
    processes, Slurm's tasks are the starters and no GPUs."""
    starts = any(
        re.search(r"(^|/)torchrun$|torch\.distributed|^deepspeed$|^accelerate$", word)
        for word in words
    )
    names = _NODES if starts else (*_NODES, "ntasks-per-node")
    gpus = slurm(batch).get("SLURM_GPUS_ON_NODE")
    counts = {name: batch[name] for name in names if name in batch}
    return counts | ({"gpus-per-node": gpus} if gpus else {})


def job_from(
    fields: Mapping[str, Any],
    path: str,
    given: Mapping[str, Any],
    names: Table | None = None,
    printed: bool = False,
) -> Job:
    """The job of arguments by name, without dashes in front. Raises InputError."""
    job = job_of(names or format_table(), fields, path, given)
    _cluster(job)
    _model(job)
    _layout(job)
    _precision(job)
    _memory(job)
    _graphs(job)
    _overlaps(job)
    _tokens(job)
    _checkpoints(job)
    if printed:  # a log prints all, with defaults: those set on purpose cannot be told apart
        left = [name for name, value in job.unknown.items() if value not in _OFF]
        more = f"{len(left)} more arguments, with their defaults, are in no table: {listed(left)}"
        job.unknown, job.remarks = {}, [more] if left else []
    return job


def _model(job: Job) -> None:
    """Fields of a config.json that several arguments set, or a rule."""
    config, shape_from_file = job.config, "model" not in job.given
    open_ = {word for name in {*job.open_inputs} & {*COUNTS} for word in COUNTS[name].split()}
    if not ({*config, *open_} >= {*_NEEDED} or "hybrid_override_pattern" in config):
        job.open_inputs = {name: why for name, why in job.open_inputs.items() if name not in _SHAPE}
        job.ask("its shape is not in the file", "model")
        job.config = {}
        return
    hidden = config.get("hidden_size")
    gates = [job.take(name, "gated_ffn") for name in ("swiglu", "quick-geglu")]
    config["gated_ffn"] = gated = job.given.get("gated_ffn", any(gates))
    if not job.take("group-query-attention", "kv_heads") and "kv_heads" not in job.given:
        config.pop("num_key_value_heads", None)
    if shape_from_file and config.get("hybrid_override_pattern"):
        config |= {"model_type": "nemotron_h", **_STATE, **config}
        _pieces_of_pattern(job)
        config.pop("num_hidden_layers", None)
        if isinstance(hidden, int):
            config.setdefault("mamba_num_heads", 2 * hidden // config["mamba_head_dim"])
    if "intermediate_size" not in config and isinstance(hidden, int) and hidden:
        config["intermediate_size"] = int(4 * hidden * 2 / 3) // 64 * 64 if gated else 4 * hidden
    untied = job.take("untie-embeddings-and-output-weights", "embedding_tables")
    config["tie_word_embeddings"] = not untied
    _latents(job)
    _windows(job)
    if variant := job.take("experimental-attention-variant", "model"):
        job.open_inputs["model"] = f"its attention is {str(variant)[:40]}"
    _experts(job)
    if layers := job.number("mtp-num-layers", 0, "prediction_layers multi_token_prediction"):
        job.set("mtp-num-layers", {"prediction_layers": layers, "multi_token_prediction": True})
    _vocabulary(job)
    if not shape_from_file:  # nothing of the file's shape counts
        job.open_inputs = {name: why for name, why in job.open_inputs.items() if name not in _SHAPE}
        job.config = {}


def _latents(job: Job) -> None:
    """Latent attention, with MLATransformerConfig's defaults."""
    config = job.config
    if job.take("multi-latent-attention", "model"):
        job.config |= {name: config.get(name, size) for name, size in _LATENT.items()}
        config.pop("head_dim", None)
        return
    for name in ("q_lora_rank", *_LATENT):
        config.pop(name, None)


def _experts(job: Job) -> None:
    """Which layers have experts, and how many tokens visit."""
    config = job.config
    frequency = job.take("moe-layer-freq", "model")
    if frequency is not None:
        config["moe_layer_freq"] = _pattern("moe-layer-freq", str(frequency), job.path)
    if config.get("num_experts"):
        if job.take("use-transformer-engine-op-fuser", "grouped_products"):
            job.add_inputs({"grouped_products": "fused"})
        config["expert_biases"] = _has_biases(job)
        config.setdefault("num_experts_per_tok", 2)
        config.setdefault("moe_intermediate_size", config.get("intermediate_size"))
        return
    for name in [name for name in config if name.startswith(("moe_", "num_experts"))]:
        del config[name]
    if not {"experts", "model"} & {*job.given, *job.open_inputs}:
        job.scenario.pop("expert_dispatch", None)


def _has_biases(job: Job) -> bool:
    """Whether products have biases: unless disabled, as Megatron-LM has them."""
    framework = job.table.framework
    if framework == "DeepSpeed":
        return False  # deepspeed/moe/experts.py leaves them out
    disabled = job.take("disable-bias-linear", "expert_biases")
    added = job.take("add-bias-linear", "expert_biases")
    default = framework == "Megatron-LM" if added is None else str(added).lower() not in _OFF
    if default and not disabled:
        job.remarks.append("biases are not disabled: expert_biases = true")
    return bool(default and not disabled)


def _vocabulary(job: Job) -> None:
    """The size of the vocabulary, from its tokenizer if no argument sets it."""
    if "vocab_size" in job.config:
        return
    kinds = [str(job.take(f"tokenizer-{name}", "vocab_size")) for name in ("type", "model")]
    sizes = job.table.vocabularies.items()
    matches = [size for row, size in sizes for kind in kinds if re.match(row, kind[:200])]
    if matches:
        job.config["vocab_size"] = matches[0]
    elif "padded_vocab_size" not in job.config:
        job.ask("the tokenizer is not in the file", "vocab_size")


# Defaults of MLATransformerConfig and of Mamba's layers (megatron/training/arguments.py)
_STATE = {"mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128}
_LATENT = {"kv_lora_rank": 32, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}


def _pieces_of_pattern(job: Job) -> None:
    """Stages' pieces of a pattern, which bars divide (hybrid_layer_allocation.py)."""
    parts = str(job.config["hybrid_override_pattern"]).split("|")
    job.config["hybrid_override_pattern"] = "".join(parts)
    if len(parts) > 1:
        stages = job.scenario.get("pipeline_parallel", 1)
        job.add_inputs({"virtual_stages": max(1, len(parts) // stages)})


def _windows(job: Job) -> None:
    """Layers whose queries see a window, and itself: all, but each n-th, or by a list."""
    window = re.match(r"[^-\d]*(-?\d+)", str(job.take("window-size", "model") or ""))
    name = "window-attn-skip-freq"
    freq = job.take(name, "model")
    if window is None or int(window[1]) < 0:
        return
    job.config |= {"sliding_window": int(window[1]) + 1, "use_sliding_window": True}
    layers = _pattern(name, str(freq), job.path) if freq else None
    if isinstance(layers, int):
        job.config["sliding_window_pattern"] = layers
    elif layers:
        kinds = ("full_attention", "sliding_attention")
        job.config["layer_types"] = [kinds[each] for each in layers]


def _pattern(name: str, text: str, path: str) -> Any:
    """Layers of one kind of two: a number, or a list as ([0]*3+[1]*58)."""
    if text.strip().isdigit():
        return int(text)
    row: list[int] = []
    for part in re.sub(r"[\s()'\"]", "", text).split("+"):
        match = re.fullmatch(r"\[([01](?:,[01])*)\](?:\*(\d{1,4}))?", part)
        if not match or len(row) > 10_000:
            raise InputError(
                f"{path!r}: {name} = {text[:60]!r} is no list of layers; write it as ([0]*3+[1]*58)"
            )
        row += [int(each) for each in match[1].split(",")] * int(match[2] or 1)
    return row


def _cluster(job: Job) -> None:
    """GPUs of the launcher. A placeholder leaves `n_gpus` open."""
    starts = "nproc-per-node" in job.fields
    each = _first(job, ("nproc-per-node",) if starts else _PROCESSES)
    if starts and str(job.fields["nproc-per-node"]) in ("gpu", "auto"):
        each = _first(job, ("gpus-per-node",))
    nodes = _first(job, _NODES)
    world = _first(job, ("world-size", "np", *(() if starts else ("ntasks",))))
    if each and nodes:
        job.set("nproc-per-node", {"n_gpus": nodes * each, "gpus_per_node": each})
    elif world and not starts:
        job.set("world-size", {"n_gpus": world})
    elif each and starts and not any(name in job.fields for name in _NODES):
        job.set("nproc-per-node", {"n_gpus": each, "gpus_per_node": each})
    else:
        left = [
            f"{n} is {job.fields[n]}" for n in (*_NODES, *_PROCESSES) if is_open(job.fields.get(n))
        ]
        if left:
            count = re.search(r":-(\d+)\}$", left[0])
            takes = f", which n_gpus={int(count[1]) * each:g} takes" if count and each else ""
            job.ask(f"{left[0]}{takes}", "n_gpus")


def _first(job: Job, names: Iterable[str]) -> float | None:
    """The first number of several arguments; None where one before it is open."""
    for name in names:
        value = job.fields.get(name)
        if value in (None, "gpu", "auto"):
            continue
        return None if is_open(value) else job.number(name)
    return None


def _layout(job: Job) -> None:
    """Layout inputs that follow from several arguments together."""
    stages = job.scenario.get("pipeline_parallel", 1)
    chunk = job.number(_CHUNK, 1, "virtual_stages")
    if chunk and "pipeline_parallel" in job.open_inputs:
        job.take(_CHUNK, "virtual_stages")  # an answer to the first has the second
    elif chunk and job.layers:
        job.set(_CHUNK, {"virtual_stages": max(1, round(job.layers / stages / chunk))})
    elif chunk:
        job.ask(f"{_CHUNK} = {chunk:g} cuts layers that are not known", "virtual_stages")
    split = job.take(_SPLIT, "pipeline_layout or virtual_stages")
    if isinstance(split, str):
        pieces = len(pieces_of(job.given.get("pipeline_layout", split)))
        job.add_inputs({"pipeline_layout": split, "virtual_stages": max(1, pieces // stages)})
    for name, end in (("decoder-first", "first"), ("decoder-last", "last")):
        field, layers = f"{name}-pipeline-num-layers", f"{end}_stage_layers"
        if (count := job.number(field, 1, layers)) is not None:
            job.set(field, {layers: count})
    together = job.take("overlap-moe-expert-parallel-comm", "pipeline_schedule")
    if together or job.scenario.get("virtual_stages", 1) > 1:
        job.add_inputs({"pipeline_schedule": "combined_1f1b" if together else "interleaved"})
    if job.take("transformer-impl", "attention_kernel") == "local":
        job.add_inputs({"attention_kernel": "standard"})
    _recompute(job)
    _offloads(job)
    factor = job.number("moe-expert-capacity-factor", 0, "capacity_factor or expert_capacity")
    if factor:
        padded = job.take("moe-pad-expert-input-to-capacity", "expert_capacity")
        capacity = "padded" if padded else "dropped"
        job.set(
            "moe-expert-capacity-factor", {"capacity_factor": factor, "expert_capacity": capacity}
        )


def _offloads(job: Job) -> None:
    """Activations that the host keeps: of some layers, or of modules."""
    field = "cpu-offloading-num-layers"
    if some := job.number(field, 0, "activation_offload or offloaded_layers"):
        job.set(field, {"activation_offload": "layers", "offloaded_layers": some})
    if job.take("fine-grained-activation-offloading", "activation_offload"):
        names = re.split(r"[\s,]+", str(job.take("offload-modules", "activation_offload") or ""))
        job.set("offload-modules", {f"offload_{name}": 1 for name in filter(None, names)})


def _recompute(job: Job) -> None:
    kind = job.take("recompute-granularity", "recompute")
    if job.take("recompute-activations", "recompute"):
        kind = kind or "selective"
    for name in ("checkpoint-activations", "activations-checkpoint-method"):
        kind = kind or ("full" if job.take(name, "recompute") else None)
    kind = job.given.get("recompute", kind)
    counted = "recomputed_layers or recompute_unit_layers" if kind == "full" else _WITH
    method = job.take("recompute-method", counted)
    some = "recomputed_layers" if method == "block" else "recompute_unit_layers"
    number = job.number("recompute-num-layers", 0, some if kind == "full" else _WITH)
    if kind is None or kind is False or number == 0:
        job.add_inputs({"recompute": False})
    elif kind == "full":
        job.set("recompute-granularity", {"recompute": "full", some: number or 1})
    else:
        names = str(job.take("recompute-modules", "recompute") or "core_attn")
        job.set("recompute-granularity", {"recompute": "+".join(names.replace(",", " ").split())})


def _precision(job: Job) -> None:
    """Formats of the products, and of the sums."""
    kinds = {name: job.take(name, "precision") for name in ("bf16", "fp16")}
    sixteen = next((name for name, on in kinds.items() if on), None)
    recipes = {bits: job.take(f"{bits}-recipe", "precision") for bits in ("fp8", "fp4")}
    formats = {name: job.take(name, "precision") for name in _FORMATS}
    for name in filter(formats.get, formats):
        job.word(_FORMATS[name], name, formats[name], "precision")
    if formats["fp4-format"]:
        recipe = recipes["fp4"] or "nvfp4"
        job.add_inputs({"precision": job.word(_FOUR_BITS, "fp4-recipe", recipe, "precision")})
    elif formats["fp8-format"] or formats["fp8"]:
        recipe = recipes["fp8"] or "delayed"
        job.add_inputs({"precision": job.word(_PRECISIONS, "fp8-recipe", recipe, "precision")})
    elif sixteen:
        job.add_inputs({"precision": sixteen})
    else:
        job.ask("it trains in FP32 (neither bf16 nor fp16)", "precision")
    stated = job.given.get("precision")
    _gradients(job, stated if stated in kinds else sixteen)
    _few_bits(job, str(job.scenario.get("precision")))


def _few_bits(job: Job, kind: str) -> None:
    """The format of weights in few bits, and the share of layers with 16."""
    bits = "fp4" if kind in _FOUR_BITS else "fp8" if kind in _PRECISIONS.values() else ""
    if not bits:
        return
    gathered = job.take(f"{bits}-param-gather", "quantised_parameters")
    job.add_inputs({"quantised_parameters": bool(gathered)})
    share = "sixteen_bit_layers_share"
    if bits == "fp4" and job.layers and job.take("first-last-layers-bf16", share):
        fields = (f"num-layers-at-{end}-in-bf16" for end in ("start", "end"))
        ends = (job.number(name, 0, share) for name in fields)
        job.add_inputs({share: sum(1 if each is None else each for each in ends) / job.layers})


def _gradients(job: Job, sixteen: str | None) -> None:
    """Gradient dtype, stored and sent: FP32 with BF16 training unless set (validate_args)."""
    storage, sends = "gradient_storage", "gradient_bytes_per_element"
    main = job.take("main-grads-dtype", storage)
    added = job.take("accumulate-allreduce-grads-in-fp32", storage)
    wide = bool(added) or (sixteen != "fp16" and main != "bf16")
    wide = wide and not job.take("grad-reduce-in-bf16", storage)
    main = job.take("megatron-fsdp-main-grads-dtype", storage)
    sent = job.take("megatron-fsdp-grad-comm-dtype", sends)
    wide = wide if main in (None, "auto") else main == "fp32"
    wide = job.given.get(storage, "fp32" if wide else "bf16") == "fp32"
    job.add_inputs({storage: "fp32" if wide else "bf16"})
    if (sent in (None, "auto") and wide) or sent == "fp32":
        job.add_inputs({sends: 4})


def _memory(job: Job) -> None:
    """Sharding, and the optimizer's state."""
    sharding = job.take("data-parallel-sharding-strategy", "zero_stage")
    fsdp = [job.take(name, "zero_stage") for name in ("use-megatron-fsdp", "use-custom-fsdp")]
    if any(fsdp):
        word = sharding or "optim_grads_params"
        stage = job.word(_SHARDED, "data-parallel-sharding-strategy", word, "zero_stage")
        job.add_inputs({"zero_stage": stage})
    elif job.take("use-torch-fsdp2", "zero_stage"):
        unsharded = job.take("torch-fsdp2-no-reshard-after-forward", "zero_stage")
        job.add_inputs({"zero_stage": 2 if unsharded else 3})
    groups = "num-distributed-optimizer-instances"
    if (instances := job.number(groups, 1, "data_parallel_shard") or 1) > 1:
        job.set_per_gpu("data_parallel_shard", 1 / job.replica_gpus / instances)
    first, second = (
        job.take(f"{name}-dtype", "moment_bytes") for name in ("exp-avg", "exp-avg-sq")
    )
    master = job.take("main-params-dtype", "master_weight_bytes")
    if job.take("use-precision-aware-optimizer", "moment_bytes or master_weight_bytes"):
        sizes = [_BYTES.get(str(kind), 4) for kind in (first, second)]
        main = _BYTES.get(str(master), 4)
        job.add_inputs({"moment_bytes": sum(sizes) / 2, "master_weight_bytes": main})


def _graphs(job: Job) -> None:
    """Graphs of some modules count as none: launches of the others, and their waits, stay."""
    for name in ("cuda-graph-scope", "cuda-graph-modules"):
        some = _MODULES & {*re.findall(r"\w+", str(job.fields.get(name)))}
        whole = "attn" in some and some & {"mlp", "moe"}
        if some and not whole and job.scenario.get("cuda_graphs"):
            job.set(name, {"cuda_graphs": False})


def _overlaps(job: Job) -> None:
    """Traffic without its flag is not hidden (DistributedDataParallelConfig); FSDP hides it."""
    inputs = _OVERLAPS.get(job.scenario.get("zero_stage", 0), ())
    for flag, overlap in zip(job.table.overlaps, inputs, strict=False):
        if job.take(flag, "hides traffic as the calibration has it") or overlap in job.given:
            continue
        if is_open(job.fields.get(flag)):
            job.remarks.append(f"--{flag} may be there; {overlap}=0 is without it")
            continue
        job.add_inputs({overlap: 0})
        job.remarks.append(f"without --{flag}: {overlap} = 0")
        return  # weights are not hidden without gradients, which Megatron-LM refuses


def _checkpoints(job: Job) -> None:
    """Steps between checkpoints, which are saved where a folder is given."""
    steps = "checkpoint_steps"
    if job.fields.get("save") and not {"checkpoint_interval", "checkpoint_policy"} & {*job.given}:
        for name in ("persistent-save-interval", "save-interval"):
            if (number := job.number(name, 1, steps)) is not None:
                job.set(name, {steps: number, "checkpoint_policy": "steps"})


def _tokens(job: Job) -> None:
    """Tokens of the whole training, and its batch."""
    scenario, tokens = job.scenario, "training_tokens"
    sequence = scenario.get("sequence_length")
    samples, steps = (job.number(f"train-{name}", 1, tokens) for name in ("samples", "iters"))
    unstated = "global_batch_size" not in {*scenario, *job.open_inputs}
    rounds = job.number("gradient-accumulation-steps", 1, "global_batch_size" * unstated) or 1
    if unstated:
        replicas = scenario.get("n_gpus", 0) // job.replica_gpus
        batch = replicas * scenario.get("micro_batch_size", 1) * rounds
        if batch and "global_batch_size" not in job.open_inputs:
            job.add_inputs({"global_batch_size": batch})
        else:
            job.ask("it is a micro-batch of each replica where unstated", "global_batch_size")
    batch = scenario.get("global_batch_size")
    ramp = str(job.take("rampup-batch-size", "ramp_tokens ramp_start_batch_size") or "").split()
    if sequence and len(ramp) == 3 and all(word.isdigit() for word in ramp):
        start, _, number = map(int, ramp)
        job.add_inputs({"ramp_start_batch_size": start, "ramp_tokens": number * sequence})
    if sequence and samples:
        job.set("train-samples", {tokens: samples * sequence})
    elif sequence and steps and batch:
        job.set("train-iters", {tokens: steps * batch * sequence})
    elif (samples or steps) and not sequence:
        job.ask("the length of its sequences is not in the file", "sequence_length")


def to_fields(
    scenario: Mapping[str, Any], shape: Mapping[str, Any], names: Table | None = None
) -> dict[str, Any]:
    """The arguments of a scenario, and of a model's record, without dashes; True is a bare one."""
    names = names or format_table()
    fields = model_fields(names, shape) | fields_of(names, scenario)
    fields |= _narrow_fields(scenario) | _recompute_fields(scenario) | _sharding_fields(scenario)
    if shape.get("gated_ffn"):
        fields["swiglu"] = True
    if "num-query-groups" in fields:
        fields["group-query-attention"] = True
    if shape and shape.get("embedding_tables", 2) == 2:
        fields["untie-embeddings-and-output-weights"] = True
    if "seq-length" in fields:
        fields["max-position-embeddings"] = fields["seq-length"]  # which it does not run without
    flags = zip(names.overlaps, _OVERLAPS.get(scenario.get("zero_stage", 1), ()), strict=False)
    hides = itertools.takewhile(lambda row: scenario.get(row[1]) != 0, flags)
    fields |= {flag: True for flag, _ in hides}
    fields |= _expert_fields(shape) | _window_fields(shape)
    if "num-experts" not in fields:
        fields.pop("moe-token-dispatcher-type", None)
    if shape.get("kv_elements_per_layer") and shape.get("value_head_size"):
        fields |= _latent_fields(shape)
        for name in ("num-query-groups", "group-query-attention", "kv-channels"):
            fields.pop(name, None)
    if layout := scenario.get("pipeline_layout") or _uneven(scenario, shape):
        fields["pipeline-model-parallel-layout"] = layout
        fields.pop("num-virtual-stages-per-pipeline-rank", None)
    if scenario.get("pipeline_schedule") == "combined_1f1b":
        fields["overlap-moe-expert-parallel-comm"] = True
    if scenario.get("grouped_products") == "fused":
        fields["use-transformer-engine-op-fuser"] = True
    if scenario.get("prediction_layers"):
        fields["mtp-num-layers"] = int(scenario["prediction_layers"])
    return fields


def as_text(fields: Mapping[str, Any]) -> str:
    """Arguments as a script writes them, one a line."""
    quoted = {n: shlex.quote(v) if _MARKS.search(str(v)) else v for n, v in fields.items()}
    lines = [f"--{name}" + ("" if value is True else f" {value}") for name, value in quoted.items()]
    return " \\\n".join(lines)


def _expert_fields(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a model with experts that follow rules of their own."""
    if not shape.get("experts"):
        return {}
    fields: dict[str, Any] = {"moe-grouped-gemm": True}  # without it some modules do not run again
    if not shape.get("expert_biases"):
        fields["disable-bias-linear"] = True
    layers, dense = int(shape.get("layers", 0)), int(shape.get("dense_layers", 0))
    if dense:
        every = layers // (layers - dense)
        fields["moe-layer-freq"] = every if every > 1 else f"([0]*{dense}+[1]*{layers - dense})"
    if shared := shape.get("shared_experts"):
        width = shape.get("expert_ffn_hidden_size", shape["ffn_hidden_size"])
        fields["moe-shared-expert-intermediate-size"] = int(shared * width)
    return fields


def _window_fields(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Layers whose queries see a window: all, or all but each n-th."""
    if not shape.get("sliding_window"):
        return {}
    fields: dict[str, Any] = {"window-size": f"{int(shape['attention_window']) - 1},0"}
    layers = int(shape["layers"])
    windowed = int(shape.get("windowed_layers", layers))
    if whole := layers - windowed:
        fields["window-attn-skip-freq"] = (
            f"[1]*{windowed}+[0]*{whole}" if layers % whole else layers // whole
        )
    return fields


def _latent_fields(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Latent attention, from the size of the cache and the mean width of heads."""
    cached, value = int(shape["kv_elements_per_layer"]), int(shape["value_head_size"])
    rotary = _LATENT["qk_rope_head_dim"]
    latent = int(shape.get("kv_latent_size") or cached - rotary)
    rotary = cached - latent if cached - latent <= value else rotary  # or keys of an indexer
    fields = {"multi-latent-attention": True, "kv-lora-rank": latent}
    if queries := shape.get("query_latent_size"):
        fields["q-lora-rank"] = int(queries)
    fields["qk-head-dim"] = int(2 * shape["head_size"]) - value - rotary
    return fields | {"qk-pos-emb-head-dim": rotary, "v-head-dim": value}


def _uneven(scenario: Mapping[str, Any], shape: Mapping[str, Any]) -> str:
    """A pipeline layout of layers that its pieces do not divide, those in the middle with one more;
    empty if they do, or if the scenario places them on stages."""
    pieces = int(scenario.get("pipeline_parallel", 1) * scenario.get("virtual_stages", 1))
    layers = int(shape.get("layers", 0))
    if not layers % pieces or pieces > _MOST_PIECES or any(map(scenario.get, _SPLITS)):
        return ""
    each, more = divmod(layers, pieces)
    first = (pieces - more + 1) // 2
    rows = ["t" * (each + (first <= piece < first + more)) for piece in range(pieces)]
    runs = [(row, len([*same])) for row, same in itertools.groupby(rows[1:-1])]
    between = "".join(f"({row}|)*{count}" if count > 1 else f"{row}|" for row, count in runs)
    modules = "m" * int(scenario.get("prediction_layers") or 0)
    return f"E{rows[0]}|{between}{rows[-1]}{modules}L"


def _narrow_fields(scenario: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(scenario.get("precision", "bf16"))
    fields: dict[str, Any] = {"fp16" if kind == "fp16" else "bf16": True}
    recipe = next((recipe for recipe, name in _PRECISIONS.items() if name == kind), None)
    if recipe is not None:
        fields |= {"fp8-format": "hybrid" if kind == "fp8" else "e4m3", "fp8-recipe": recipe}
    if kind in _FOUR_BITS:
        fields |= {"fp4-format": "e2m1"}
    if (recipe or kind in _FOUR_BITS) and scenario.get("quantised_parameters", True):
        fields[f"{'fp4' if kind in _FOUR_BITS else 'fp8'}-param-gather"] = True
    if kind == "mxfp4":
        fields |= {"fp4-recipe": kind}
    if scenario.get("gradient_storage") == "bf16" and kind != "fp16":
        fields["grad-reduce-in-bf16"] = True
    return fields


def _recompute_fields(scenario: Mapping[str, Any]) -> dict[str, Any]:
    kind = scenario.get("recompute")
    if not kind or kind == "selective":  # scores alone, of which flash attention has none
        return {}
    if kind == "full":
        some = scenario.get("recomputed_layers")
        number = some if some is not None else scenario.get("recompute_unit_layers", 1)
        method = "uniform" if some is None or some == float("inf") else "block"
        number = 1 if number == float("inf") else int(number)
        return {
            "recompute-granularity": "full",
            "recompute-method": method,
            "recompute-num-layers": number,
        }
    modules = str(kind).replace("+", " ")
    return {"recompute-granularity": "selective", "recompute-modules": modules}


def _sharding_fields(scenario: Mapping[str, Any]) -> dict[str, Any]:
    stage = scenario.get("zero_stage", 1)
    if stage in (2, 3):
        word = next(word for word, number in _SHARDED.items() if number == stage)
        return {"use-megatron-fsdp": True, "data-parallel-sharding-strategy": word}
    return {}
