"""Published training steps as public inputs: one reader for each published table."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from ....catalog import record
from ....kernels.inputs import INPUTS
from ...errors import shown
from ...run.settings import Settings
from ...spec.patterns import modules, stages
from . import hardware
from .facts import Facts, Reading, UnreadableError

Inputs = dict[str, Any]

A100_PEAK = 312e12  # FLOP/s, FP16 and BF16
# layers -> micro-batch, chunks of a stage: Megatron-LM, examples/sc21/run_table_1.sh
_SC21 = {
    24: (16, 1),
    30: (16, 1),
    36: (16, 1),
    40: (8, 1),
    48: (4, 1),
    60: (2, 3),
    80: (2, 2),
    96: (1, 2),
    105: (1, 3),
    128: (1, 1),
}
# model -> layers, hidden, heads, pipeline ranks, batch of a replica, micro-batch, chunks of a stage
_KORTHIKANTI = {  # Korthikanti et al. 2022, table 3; 8 tensor ranks
    "22B": (48, 6144, 64, 1, 4, 4, 1),
    "175B": (96, 12288, 96, 8, 64, 1, 3),
    "530B": (105, 20480, 128, 35, 280, 1, 3),
    "1T": (128, 25600, 160, 64, 512, 1, 1),
}
_BLOOM_VOCABULARIES = (51200, 250880)  # before and after its own tokenizer
# Chronicle lines headed by a batch of 512: the column repeats 2048, but time and FLOP/s fit 512
_BLOOM_512 = ("line 658", "line 659", "line 660")
# Intel-HabanaLabs's GPT-3, README and run_gpt.sh of each MLPerf round: micro-batch, number format,
# sequence parallelism with fused attention; 8 tensor ranks, and 8 stages but in one run
_GAUDI = {
    "training_results_v3.0": (1, "bf16", False),
    "training_results_v3.1": (2, "fp8", True),
    "training_results_v4.0": (2, "fp8", True),
}
_GAUDI_STAGES = {("training_results_v3.1", 48): 6}  # by nodes
# Google's scripts of v4.0 (MaxText, quantization=int8); those of v4.1 were not found
# Of a recipe in NVFP4: the last 14 of 88 layers (Megatron-Bridge, training/mixed_precision.py)
_IN_16_BITS = {"nemotron-3-super": {"sixteen_bit_layers_share": 14 / 88}}
_TPU_INT8 = "TPU: some products are INT8, whose rate no precision states"
# The v4.0 run on 1452 nodes, relisted in v4.1 without its layout
_EOS = "eos-dfw_n1452_ngc24.04_nemo"
_EOS_PARALLEL: Inputs = {
    **{"tp": 4, "pp": 6, "cp": 1, "vp": 8, "mbs": 1, "precision": "FP8"},
    **{"dist_optimizer": True, "sequence_parallel": True},
}
# Megatron-Bridge's row with 2 sequences and 1 chunk: 1 and 5 in the recipe (v0.3.1,
# llama3_workload_base_configs.py) and in the same run of 26.02 and 26.04
_BRIDGE_MISPRINT = "line 401; 26.02.01 NeMo Container; Pre-Training Performance"
_WITHOUT_RECIPES = ("25.09", "25.11")  # releases whose rows without one are left out
# Columns of its recipes (`config`: scripts/performance/configs; v0.6.0: perf_recipes), as inputs
_RECIPE: tuple[tuple[str, str, Inputs], ...] = (
    ("parallel.offloaded_layers", "offloaded_layers", {"activation_offload": "layers"}),
    ("parallel.optimizer_bytes", "optimizer_bytes_per_parameter", {}),
    ("model.prediction_layers", "prediction_layers", {}),
    ("parallel.data_parallel_shard", "data_parallel_shard", {"zero_stage": 3}),
    ("parallel.recompute_full_layers", "recomputed_layers", {"recompute": "full"}),
)
_APART = 0.2  # relative difference from which two figures of one record contradict each other
_CLOSE = 0.02
# Sequences of a GPU and step stated by a table's caption, not its rows, and recomputation:
# torchtitan, benchmarks/llama3_h100_202412 and asyncTP_llama3_h100_2025-06; what is selective there
# is selective_ac_option = 'op' (train_configs/llama3_8b.toml)
_TITAN_TABLES = {"Table 2": 1, "Table 6": 8}
_TITAN_ASYNC = {"llama-3-70b": (16, "full"), "llama-3-8b": (12, "selective")}
# Why a row of Chowdhery et al. 2022, table 3, is not predicted
_PALM_TABLE3 = {
    "GPT-3": "the layout, batch and number of V100 of GPT-3's run are unpublished",
    "Gopher": "Gopher's layout on 4096 TPU v3, and its batch, are not in the record",
    "PaLM": "it is the run of palm_540b, which is predicted",
}

# DeepSeek-AI 2024, arXiv:2412.19437, sections 3.2 (overlap, links), 3.2.3 (what runs again),
# 3.3.3 (moments; inputs of SwiGLU in FP8, with 4 bytes of scale for 128), 3.5.1 (processors that
# send) and 4.2
_DEEPSEEK_RUN: Inputs = {
    **{"intra_node_bandwidth": 160e9, "prediction_layers": 1, "zero_stage": 1},
    **{"pipeline_schedule": "dualpipe", "expert_parallel_overlap": 1.0},
    **modules("layernorm+mla_up_proj+moe_act"),
    **{"activation_input_bytes": 1 + 4 / 128},
    **{"routing_nodes": 4, "communication_processor_share": 20 / 132},
    **{"moment_bytes": 2, "gradient_storage": "fp32"},
}
_DEEPSEEK_NOTES = (
    "layout, batch, routing and hidden all-to-alls are those of the report, sections 3.2 and 4.2",
    "one sequence a micro-batch: DeepEP's README (4096 tokens per batch)",
    "attention's output in E5M6 is not counted",
)


def _sc21(facts: Facts) -> list[Reading]:
    inputs = _gpt(facts) | a100("standard") | _layout(facts)
    layers = inputs["layers"]
    if layers not in _SC21:
        raise UnreadableError(f"model.layers = {layers} has no published micro-batch")
    micro_batch, chunks = _SC21[layers]
    inputs |= _network(facts) | chunked(chunks)
    inputs |= {"micro_batch_size": micro_batch, "recompute": "full", "zero_stage": 0}
    seconds = facts.number("derived.iteration_time_s", None)
    if seconds is None:
        rate = facts.number("measured.tflops_per_gpu") * 1e12
        seconds = gpt_flops(inputs, recomputed=True) / (rate * inputs["n_gpus"])
    note = "micro-batch and chunks of a stage are those of Megatron-LM's examples/sc21"
    return [Reading(inputs, seconds, notes=(note, "time is that of the printed FLOP/s"))]


def _korthikanti(facts: Facts) -> list[Reading]:
    known = _KORTHIKANTI.get(facts.text("model.name", ""))
    notes: tuple[str, ...] = ()
    if facts.raw("model.layers") is None and known:
        layers, hidden, heads, stages, batch, micro_batch, chunks = known
        gpus = facts.whole("system.gpus")
        if gpus < 8 * stages:
            raise UnreadableError("system.gpus holds no replica of the published layout")
        inputs = gpt_shape(layers, hidden, heads, 51200, 2048) | {
            "n_gpus": gpus,
            "tensor_parallel": 8,
            "pipeline_parallel": stages,
            "global_batch_size": batch * gpus / (8 * stages),
            "micro_batch_size": micro_batch,
        }
        notes = ("shape, layout and batch of a replica are those of the paper's table 3",)
    else:
        inputs = _gpt(facts) | _layout(facts)
        chunks = facts.whole("parallel.vp", 1)
    inputs |= a100("standard") | chunked(chunks) | {"zero_stage": 0}
    full = inputs | {"recompute": "full"}
    selective = inputs | {"recompute": "selective", "sequence_parallel": True}
    steps = []
    for key, run, variant in (
        ("measured.iter_s_full_recompute", full, "full"),
        ("measured.iter_s_seqpar_selective", selective, "selective"),
    ):
        seconds = facts.number(key, None)
        if seconds is not None:
            steps.append(Reading(run, seconds, notes=notes, variant=variant))
    if steps:
        return steps
    share = facts.number("measured.mfu_pct") / 100
    seconds = gpt_flops(inputs) / (share * A100_PEAK * inputs["n_gpus"])
    return [Reading(selective, seconds, notes=(*notes, "time is that of the printed MFU"))]


def _vtrain(facts: Facts) -> list[Reading]:
    inputs = _gpt(facts) | a100("standard") | _layout(facts) | _network(facts)
    inputs |= {"inter_node_bandwidth": 12.5e9} if "inter_node_bandwidth" not in inputs else {}
    seconds, notes = _seconds(facts, inputs)
    # in one node models of width 2048 reach the model FLOP/s of those of 12288 in many
    recompute = False if facts.record["group"] == "vtrain_single" else "full"
    inputs |= {"recompute": recompute, "zero_stage": 1}
    notes = (f"recomputation is not stated: {recompute or 'none'}", *notes)
    return [Reading(inputs, seconds, notes=notes)]


def _bloom(facts: Facts) -> list[Reading]:
    notes = []
    inputs = _gpt(facts, heads=64) | a100("standard") | _layout(facts) | _network(facts)
    if facts.text("where", "") in _BLOOM_512 and facts.text("model.size", "") == "18B":
        inputs["global_batch_size"] = 512
        notes.append("the batch is that of the heading above the table: 512")
    if facts.raw("model.heads") is None:
        notes.append("heads are not stated: 64")
    if facts.raw("model.vocab") is None:
        layers, vocabulary = _bloom_shape(facts, inputs)
        if layers != inputs["layers"]:
            notes.append(f"{layers} of {inputs['layers']} layers: whole on each stage, as the size")
        notes.append(f"vocabulary is not stated: {vocabulary}, as the size")
        inputs |= {"layers": layers, "vocab_size": vocabulary}
    seconds, more = _seconds(facts, inputs)
    rate = facts.number("measured.tflops_per_gpu_hw", None)
    if rate is not None:
        ratio = rate * 1e12 * inputs["n_gpus"] * seconds / gpt_flops(inputs, recomputed=True)
        if abs(ratio - 1) > _APART:
            raise UnreadableError(
                f"measured.tflops_per_gpu_hw is {ratio:.2f} times what the step of the record does"
            )
    stage = facts.whole("parallel.zero", facts.whole("parallel.zs", 1, least=0), least=0)
    inputs |= {"recompute": "full", "zero_stage": stage}
    if inputs["global_batch_size"] % (_replicas(inputs) * inputs["micro_batch_size"]):
        notes.append("the batch is not whole micro-batches: a mean of them")
    return [Reading(inputs, seconds, notes=(*notes, *more))]


def _bloom_shape(facts: Facts, inputs: Inputs) -> tuple[int, int]:
    """Layers (a whole number per stage) and vocabulary that give a GPT its stated size."""
    layers, stages = inputs["layers"], inputs["pipeline_parallel"]
    match = re.fullmatch(r"(\d{1,5}(?:\.\d{1,3})?)B", facts.text("model.size", ""))
    if match is None or not float(match[1]):
        return layers, _BLOOM_VOCABULARIES[1]
    stated = float(match[1]) * 1e9
    best = (math.inf, layers, _BLOOM_VOCABULARIES[1])
    for count in dict.fromkeys((layers, layers // stages * stages)):
        for words in _BLOOM_VOCABULARIES:
            size = gpt_parameters(inputs | {"layers": count, "vocab_size": words})
            best = min(best, (abs(size / stated - 1), count, words))
        if best[0] < _CLOSE / 2 + 0.5e9 / stated:  # printed sizes are rounded
            return best[1:]
    if best[0] > _APART:
        raise UnreadableError(f"model.size = {stated:.4g} is not that of its layers and width")
    return best[1:]


def _mosaic(facts: Facts) -> list[Reading]:
    name = facts.text("model.name")
    shape = hardware.MPT.get(name.lower().removeprefix("mpt-"))
    if shape is None:
        raise UnreadableError(f"model.name = {shown(name)} has no published shape")
    inputs = gpt_shape(*shape, 50368, facts.whole("model.seq"))
    stated = facts.number("model.params", None)
    if stated is not None and abs(gpt_parameters(inputs) / stated - 1) > _CLOSE:
        raise UnreadableError(f"model.params = {stated:.4g} is not that of {shown(name)}")
    accelerator = facts.text("system.accel")
    _, fabric = hardware.system_of(accelerator)
    where = facts.text("where", "")
    inputs |= _run(precision=facts.text("parallel.precision")) | _layout(facts)
    inputs |= {"gpu": hardware.gpu_of(accelerator), "fabric": fabric, "gpus_per_node": 8}
    stated_bandwidth = hardware.bandwidth_of(where)
    if stated_bandwidth is not None:
        inputs["inter_node_bandwidth"] = stated_bandwidth
    sharding = facts.text("parallel.sharding", "FULL_SHARD")
    stages = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}
    if sharding not in stages:
        raise UnreadableError(f"parallel.sharding = {shown(sharding)} is not one of {[*stages]}")
    recompute = "full" if facts.flag("parallel.act_ckpt") else False
    inputs |= {"zero_stage": stages[sharding], "recompute": recompute}
    seconds, notes = _seconds(facts, inputs)
    return [Reading(inputs, seconds, notes=notes)]


def _bridge(facts: Facts) -> list[Reading]:
    where = facts.text("where", "")
    for kind, why in (("LoRA", "it trains adapters"), ("SFT", "it packs sequences")):
        if kind in where:
            raise UnreadableError(f"where: {kind} is not pre-training: {why}")
    if facts.text("model.token_drop", ""):
        raise UnreadableError("model.token_drop: experts drop what exceeds the mean, as in no run")
    if where.startswith(_WITHOUT_RECIPES, where.find(";") + 2) and not facts.text("config", ""):
        raise UnreadableError("config: no recipe with its layout is published")
    node, fabric = hardware.system_of(facts.text("system.accel"))
    label = hardware.model_of(facts.text("model.name"))
    inputs: Inputs = {"model": label, "node": node, "fabric": fabric}
    inputs |= {"sequence_length": facts.whole("model.seq")}
    inputs |= _run(precision=facts.text("parallel.precision")) | _layout(facts)
    notes = [] if facts.text("config", "") else ["recomputation is not stated: none"]
    if where == _BRIDGE_MISPRINT:
        inputs |= {"micro_batch_size": 1, "virtual_stages": 5}
        notes.append("micro-batch and chunks are the recipe's: the table misprints them")
    if inputs["precision"] == "nvfp4":
        inputs |= _IN_16_BITS.get(label, {})
    sharded = facts.whole("parallel.fsdp", 0, least=0) > 0
    inputs |= {"zero_stage": 3 if sharded else 1, "recompute": False} | _recipe(facts)
    inputs |= chunked(inputs.pop("virtual_stages")) | _sequence_parallel(inputs)
    layer = inputs["tensor_parallel"] * inputs["pipeline_parallel"]
    if inputs["expert_parallel"] * layer > inputs["n_gpus"]:
        # more expert ranks than replicas: they are folded over tensor ranks, as the recipes state
        inputs |= {"expert_tensor_parallel": 1}
    seconds, more = _seconds(facts, inputs)
    return [Reading(inputs, seconds, notes=(*notes, *more))]


def _recipe(facts: Facts) -> Inputs:
    """What a recipe computes again, keeps on the host, and states beside its printed row."""
    moved = facts.text("parallel.offload_modules", "none")
    inputs: Inputs = modules(facts.text("parallel.recompute", "none"))
    inputs |= {f"offload_{name}": 1 for name in moved.split("+") if moved != "none"}
    for key, name, more in _RECIPE:
        stated = facts.raw(key)
        inputs |= {} if stated is None else {name: stated, **more}
    layout = facts.text("parallel.layout", None)
    return inputs | (stages(layout, facts.whole("parallel.vp", 1)) if layout else {})


def _gaudi(facts: Facts, nodes: int) -> list[Reading]:
    """GPT-3 on Gaudi 2, as launched by its submitter's commands; nothing is fitted to such runs."""
    known = next((name for name in _GAUDI if name in facts.text("source", "")), None)
    if known is None:
        raise UnreadableError(f"source = {shown(facts.raw('source'))} has no published layout")
    micro_batch, precision, fused = _GAUDI[known]
    inputs = _gpt(facts) | _run(precision, "flash" if fused else "standard")
    inputs |= {"node": "hls-gaudi-2", "fabric": "gaudi-2-scale-out", "n_gpus": 8 * nodes}
    inputs |= {"pipeline_parallel": _GAUDI_STAGES.get((known, nodes), 8), "tensor_parallel": 8}
    inputs |= {"micro_batch_size": micro_batch, "zero_stage": 0}
    inputs |= {"global_batch_size": facts.whole("parallel.gbs")}
    inputs |= {"recompute": "selective", "sequence_parallel": fused}
    seconds, more = _seconds(facts, inputs)
    notes = ("layout and recomputation are those of the submission's commands", *more)
    return [Reading(inputs, seconds, notes=notes, group="mlperf_gpt3_gaudi")]


def _mlperf(facts: Facts) -> list[Reading]:
    accelerator = facts.text("system.accel")
    cards = re.fullmatch(r"HLS-Gaudi2-N(\d{1,5})-PT", accelerator)
    if cards:
        return _gaudi(facts, int(cards[1]))
    if "tpu" in accelerator:
        raise UnreadableError(_TPU_INT8)
    if accelerator == _EOS:
        parallel = _EOS_PARALLEL | {"gbs": facts.raw("parallel.gbs")}
        system = {"accel": "H100-SXM", "gpus": 1452 * 8}
        facts = Facts({**facts.record, "system": system, "parallel": parallel})
    facts.whole("system.gpus")
    facts.whole("parallel.tp")
    node, fabric = hardware.system_of(facts.text("system.accel"))
    inputs = _gpt(facts) | {"node": node, "fabric": fabric} | _submitted(facts)
    seconds, notes = _seconds(facts, inputs)
    return [Reading(inputs, seconds, notes=("recomputation is not stated: none", *notes))]


def _submitted(facts: Facts) -> Inputs:
    """How NVIDIA's and its partners' submissions lay a model out, without recomputation."""
    inputs = _run(precision=facts.text("parallel.precision")) | _layout(facts)
    inputs |= chunked(inputs.pop("virtual_stages"))
    inputs |= {"recompute": False, "zero_stage": 1 if facts.flag("parallel.dist_optimizer") else 0}
    return inputs | {"sequence_parallel": facts.flag("parallel.sequence_parallel")}


def _mlperf_llama(facts: Facts) -> list[Reading]:
    """Llama 3.1 405B as submitted: no recomputation, and Mixtral's tokenizer of 32,000 words."""
    node, fabric = hardware.system_of(facts.text("system.accel"))
    label = hardware.model_of(facts.text("model.name"))
    inputs: Inputs = {"model": label, "node": node, "fabric": fabric}
    inputs |= {"vocab_size": facts.whole("model.vocab")}
    inputs |= {"sequence_length": facts.whole("model.seq")} | _submitted(facts)
    seconds, notes = _seconds(facts, inputs)
    return [Reading(inputs, seconds, notes=notes)]


def _simumax(facts: Facts) -> list[Reading]:
    node, fabric = hardware.system_of(facts.text("system.accel"))
    label = hardware.model_of(facts.text("model.name"))
    inputs: Inputs = {"model": label, "node": node, "fabric": fabric}
    inputs |= {"layers": facts.whole("model.layers"), "sequence_length": facts.whole("model.seq")}
    replicas, each = facts.whole("parallel.dp"), facts.whole("parallel.mbs")
    batch = replicas * each * facts.whole("parallel.microbatches")
    inputs |= _run(precision="bf16") | _layout(facts, batch)
    inputs |= chunked(inputs.pop("virtual_stages")) | _sequence_parallel(inputs)
    inputs |= {"recompute": False, "zero_stage": 1, "gradient_bytes_per_element": 4}
    notes = ["optimizer, gradients and recomputation are those of its launch scripts"]
    if label.startswith("deepseek"):
        inputs["dense_layers"] = 1
        notes.append("one dense layer, as in its notes")
    if label == "llama-3-405b":
        inputs["kv_heads"] = 16
        notes.append("16 key and value heads, as in its configuration of the model")
    seconds, more = _seconds(facts, inputs)
    return [Reading(inputs, seconds, notes=(*notes, *more))]


def _torchtitan(facts: Facts) -> list[Reading]:
    system, where = facts.text("system.accel"), facts.text("where", "")
    node, fabric = hardware.system_of(system)
    label = hardware.model_of(facts.text("model.name"))
    inputs: Inputs = {"model": label, "node": node, "fabric": fabric} | _memory(system)
    bandwidth = hardware.bandwidth_of(system)
    inputs |= {"inter_node_bandwidth": bandwidth} if bandwidth else {}
    inputs["sequence_length"] = facts.whole("model.seq", facts.whole("parallel.seq", 8192))
    variant = facts.text("parallel.variant", "")
    if "selective layer" in variant:
        raise UnreadableError("parallel.variant: how many layers are recomputed is not stated")
    notes = []
    each, recompute = facts.whole("parallel.mbs", None), facts.text("parallel.recompute", None)
    if where.startswith("asyncTP") and label in _TITAN_ASYNC:
        each, recompute = _TITAN_ASYNC[label]
        notes.append("batch and recomputation are those of the commands")
    elif each is None:
        each = next((n for table, n in _TITAN_TABLES.items() if table in where), None)
        notes.append("batch of a GPU is that of the table's caption")
    if each is None or recompute is None:
        raise UnreadableError("parallel.mbs or parallel.recompute is missing")
    recompute = "alternate_products" if recompute == "selective" else recompute
    batch = facts.whole("parallel.gbs", each * facts.whole("parallel.fsdp"))
    precision = facts.text("parallel.precision", "float8" if "float8" in variant else "bf16")
    inputs |= _run(precision=precision) | _layout(facts, batch)
    stages = inputs["pipeline_parallel"]
    if stages > 1:
        notes.append(f"each batch of a GPU is cut into {stages} micro-batches, as by default")
    inputs |= {"micro_batch_size": max(each / stages, 1), "zero_stage": 3, "recompute": recompute}
    if "interleaved" in variant:
        inputs |= chunked(2)
        notes.append("two chunks a stage, as by default")
    inputs |= _sequence_parallel(inputs)
    hidden = inputs | {"tensor_parallel_overlap": 1.0}
    overlap_note = "tensor traffic hidden: asynchronous tensor parallelism"
    steps: list[Reading] = []
    for key, run, variant_name in (
        ("measured.tps_vanilla_tp", inputs, "vanilla"),
        ("measured.tps_async_tp", hidden, "async"),
    ):
        rate = facts.number(key, None)
        if rate is not None:
            tokens = float(inputs["global_batch_size"] * inputs["sequence_length"])
            seconds = tokens / (rate * inputs["n_gpus"])
            run_notes = [*notes, overlap_note] if run is hidden else notes
            steps.append(Reading(run, seconds, notes=tuple(run_notes), variant=variant_name))
    if steps:
        return steps
    seconds, more = _seconds(facts, inputs)
    if "asynctp" in variant.lower().replace(" ", "") or (
        stages > 1 and inputs["tensor_parallel"] > 1
    ):
        return [Reading(hidden, seconds, notes=(*notes, overlap_note, *more))]
    return [Reading(inputs, seconds, notes=(*notes, *more))]


def _maxtext(facts: Facts) -> list[Reading]:
    generation = facts.text("system.accel").removeprefix("TPU ")
    sizes = [int(size) for size in facts.text("system.topology").split("x")]
    chips, ranks = facts.whole("system.gpus"), facts.whole("parallel.tp")
    inputs: Inputs = {
        "layers": facts.whole("model.layers"),
        "hidden_size": facts.whole("model.hidden"),
        "attention_heads": facts.whole("model.heads"),
        "kv_heads": facts.whole("model.heads"),
        "head_size": facts.whole("model.head_size"),
        "ffn_hidden_size": facts.whole("model.ffn"),
        "gated_ffn": facts.flag("model.gated"),
        "vocab_size": facts.whole("model.vocab"),
        "sequence_length": facts.whole("model.seq"),
    }
    each = facts.whole("parallel.batch_per_chip")
    layout = Facts({"system": {"gpus": chips}, "parallel": {"tp": ranks, "mbs": each * ranks}})
    inputs |= _run(precision="bf16") | _layout(layout, each * chips) | _slice(generation, sizes)
    inputs |= _sharded_in_slices(inputs) | _sequence_parallel(inputs)
    inputs |= {"data_parallel_overlap": 1.0, "tensor_parallel_overlap": 1.0 if ranks > 1 else 0.0}
    remat = facts.text("parallel.remat")
    inputs |= {"recompute": "products" if remat == "minimal" else "full"}
    rate = facts.number("measured.tflops_per_chip") * 1e12
    notes = [
        "collectives overlap compute, as the script's flags ask",
        "time is that of the printed FLOP/s: 6 N D and attention without what a mask hides",
    ]
    if remat == "qkv_proj_offloaded":
        notes.append("projections of queries, keys and values are kept by the host: recomputed")
    if generation == "v4":
        notes.append("heads of 256 and plain layers, defaults of its day, as the name's size")
    seconds = _maxtext_flops(inputs) / (rate * chips)
    return [Reading(inputs, seconds, notes=tuple(notes))]


def _maxtext_flops(inputs: Mapping[str, Any]) -> float:
    """6 (N + l h_a s) tokens: FLOP of a step as counted by MaxText's calculate_tflops."""
    width, hidden = inputs["attention_heads"] * inputs["head_size"], inputs["hidden_size"]
    matrices = 3 if inputs["gated_ffn"] else 2
    layer = 4 * hidden * width + matrices * hidden * inputs["ffn_hidden_size"]
    weights = inputs["layers"] * layer + 2 * hidden * inputs["vocab_size"]
    tokens = float(inputs["global_batch_size"] * inputs["sequence_length"])
    return float(6 * tokens * (weights + inputs["layers"] * width * inputs["sequence_length"]))


def _slice(generation: str, sizes: list[int]) -> Inputs:
    """A slice of TPUs: the longest dimension, which has the tensor ranks, first."""
    x, y, *_ = sorted(sizes, reverse=True)
    slice_inputs: Inputs = {"gpu": f"tpu-{generation}", "fabric": f"tpu-dcn-{generation}"}
    return slice_inputs | {"gpus_per_node": math.prod(sizes), "torus_x": x, "torus_y": y}


def _sharded_in_slices(inputs: Mapping[str, Any]) -> Inputs:
    """Weights sharded within a slice, and replicas in each slice where that can be stated."""
    whole = inputs["n_gpus"] == inputs["gpus_per_node"]
    if whole or "data_parallel_shard" not in INPUTS:
        return {"zero_stage": 3}
    shard = inputs["gpus_per_node"] / inputs["tensor_parallel"]
    return {"zero_stage": 3, "data_parallel_shard": shard}


def _palm(facts: Facts) -> list[Reading]:
    hidden = facts.whole("model.hidden")
    inputs: Inputs = {
        "layers": facts.whole("model.layers"),
        "hidden_size": hidden,
        "attention_heads": facts.whole("model.heads"),
        "kv_heads": 1,
        "head_size": facts.whole("model.head_size"),
        "ffn_hidden_size": 4 * hidden,
        "gated_ffn": True,
        "vocab_size": facts.whole("model.vocab"),
        "embedding_tables": 1,
        "sequence_length": facts.whole("model.seq"),
    }
    inputs |= _run(precision="bf16") | _layout(facts) | _slice("v4", [12, 16, 16])
    inputs |= {"torus_x": 12, "torus_y": 16, "micro_batch_size": 4, "recompute": "full"}
    inputs |= _sharded_in_slices(inputs) | _sequence_parallel(inputs)
    inputs |= {"tensor_parallel_all_reduces_per_layer": 3}
    inputs |= {"data_parallel_overlap": 1.0, "tensor_parallel_overlap": 1.0}
    seconds, more = _seconds(facts, inputs)
    notes = (
        "attention and feed-forward layers stand side by side: half of the all-reduces",
        "recomputation is not stated: full (HFU is 1.25 times MFU, full counts 1.33)",
        "the network between the pods is not stated: 25 GB/s of a host; slices of 12 x 16 x 16",
        "one micro-batch, collectives overlap compute: not stated",
    )
    return [Reading(inputs, seconds, notes=(*notes, *more))]


def _palm_table3(facts: Facts) -> list[Reading]:
    name = facts.text("model.name")
    if name != "MT-NLG":
        why = _PALM_TABLE3.get(name, f"model.name = {shown(name)} is not in the paper's table 3")
        raise UnreadableError(why)
    run = {"gpus": 2240}, {"tp": 8, "pp": 35, "gbs": 1920}
    layout = _layout(Facts(dict(zip(("system", "parallel"), run, strict=True))))
    inputs = gpt_shape(105, 20480, 128, 51200, 2048) | a100("standard") | layout
    inputs |= {"recompute": "full", "zero_stage": 1}
    share = facts.number("measured.mfu_pct") / 100
    seconds = gpt_flops(inputs) / (share * A100_PEAK * inputs["n_gpus"])
    notes = (
        "shape, layout and batch are those of Smith et al. 2022, arXiv:2201.11990, section 2.4",
        "time is that of the printed MFU; micro-batch is not stated: 1",
    )
    return [Reading(inputs, seconds, notes=notes)]


def _deepseek(facts: Facts) -> list[Reading]:
    tokens, gpus = facts.whole("model.seq", 4096), facts.whole("system.gpus")
    inputs: Inputs = {
        "model": hardware.model_of(facts.text("model.name", "DeepSeek-V3")),
        "node": "h800-8gpu",
        "fabric": "infiniband-ndr",
        "sequence_length": tokens,
        "n_gpus": gpus,
        "pipeline_parallel": facts.whole("parallel.pp", 16),
        "expert_parallel": facts.whole("parallel.ep", 64),
        "global_batch_size": facts.whole("parallel.gbs", 15360),
        "micro_batch_size": facts.whole("parallel.mbs", 1),
    }
    inputs |= _DEEPSEEK_RUN | _run(precision="fp8") | {"precision": "fp8_blockwise"}
    seconds = facts.number("measured.iteration_time_s", None)
    if seconds is None:
        hours = facts.number("measured.gpu_hours_per_T_tokens_k") * 1e3 / 1e12  # per token
        seconds = hours * 3600 * inputs["global_batch_size"] * tokens / gpus
    return [Reading(inputs, seconds, notes=_DEEPSEEK_NOTES)]


def _memory(text: str) -> Inputs:
    """Capacity and bandwidth of an unusual GPU memory, as stated in a text."""
    size = re.search(r"(\d{2,4}) ?GB(?![A-Za-z/])", text)
    rate = re.search(r"(\d{1,2}(?:\.\d{1,3})?) ?TB/s", text)
    return ({"hbm_capacity": float(size[1]) * 1e9} if size else {}) | (
        {"hbm_bandwidth": float(rate[1]) * 1e12} if rate else {}
    )


def _nemo(facts: Facts) -> list[Reading]:
    name = facts.text("model.name")
    node, fabric = hardware.system_of(facts.text("system.accel"))
    label = hardware.model_of(re.sub(r"[ _-]?(FP8|BF16)$", "", name))
    inputs: Inputs = {"model": label, "node": node, "fabric": fabric}
    inputs |= {"sequence_length": facts.whole("model.seq")}
    # the layout gives the batch of a replica; on B200 the printed GPUs are four times as many, and
    # with 512 and more of them replicas would have no sequence
    gpus = math.prod(facts.whole(f"parallel.{key}") for key in ("tp", "pp", "dp", "cp"))
    inputs |= _run(precision=name) | _layout(facts, gpus=gpus)
    inputs |= {"recompute": False, "zero_stage": 1} | _sequence_parallel(inputs)
    rate = facts.number("measured.tflops_per_gpu_with_cp") * 1e12
    seconds = _model_flops(inputs) / (rate * inputs["n_gpus"])
    notes: tuple[str, ...] = (
        "time is that of the printed FLOP/s, whole attention counted",
        "micro-batch and recomputation are not stated: 1, none",
    )
    if facts.whole("system.gpus") != gpus:
        notes = (*notes, f"system.gpus is not tp x pp x dp x cp: {gpus}, which is taken")
    return [Reading(inputs, seconds, notes=notes)]


def _model_flops(inputs: Mapping[str, Any]) -> float:
    """FLOP of a step of a catalog model, matrix by matrix, ignoring its stated counts."""
    from ...run.evaluation import Evaluation

    shape = {name: inputs[name] for name in ("sequence_length", "global_batch_size")}
    stated = ("parameters", "active_parameters", "looked_up_parameters", "training_tokens")
    values = record("model", inputs["model"]).values
    shape |= {k: v for k, v in values.items() if k not in (*stated, *shape)}
    counted = Evaluation({**shape, "flops_counting": "transformer"}, {}, ["model_flops_per_step"])
    return float(counted.evaluate(settings=Settings("numpy"))["model_flops_per_step"])


def _gpt(facts: Facts, heads: int | None = None) -> Inputs:
    heads = facts.whole("model.heads") if heads is None else facts.whole("model.heads", heads)
    hidden = facts.whole("model.hidden")
    shape = gpt_shape(
        facts.whole("model.layers"),
        hidden,
        heads,
        facts.whole("model.vocab", 51200),
        facts.whole("model.seq"),
    )
    return shape | {"ffn_hidden_size": facts.number("model.ffn_mult", 4.0) * hidden}


def gpt_shape(layers: int, hidden: int, heads: int, vocabulary: int, tokens: int) -> Inputs:
    return {
        "layers": layers,
        "hidden_size": hidden,
        "attention_heads": heads,
        "kv_heads": heads,
        "ffn_hidden_size": 4 * hidden,
        "gated_ffn": False,
        "vocab_size": vocabulary,
        "sequence_length": tokens,
    }


def _run(precision: str, attention: str = "flash") -> Inputs:
    return {
        "compute_model": "roofline",
        "attention_kernel": attention,
        "precision": hardware.precision_of(precision),
    }


def a100(attention: str) -> Inputs:
    """A node of 8 A100 with 8 network cards of 200 Gbit/s."""
    system = {"gpu": "a100-sxm-80gb", "gpus_per_node": 8, "fabric": "infiniband-hdr"}
    return system | _run("fp16", attention)


def _network(facts: Facts) -> Inputs:
    """Bandwidth between nodes as stated by the record."""
    texts = [facts.text("system.fabric", None), facts.text("system.accel", None)]
    rates = filter(None, (hardware.bandwidth_of(text) for text in texts if text))
    bandwidth = next(rates, None)
    return {} if bandwidth is None else {"inter_node_bandwidth": bandwidth}


def _layout(facts: Facts, batch: int | None = None, gpus: int | None = None) -> Inputs:
    """GPUs, ranks and batch of a run; unstated ranks are 1."""
    inputs = {
        "n_gpus": facts.whole("system.gpus") if gpus is None else gpus,
        "tensor_parallel": facts.whole("parallel.tp", 1),
        "pipeline_parallel": facts.whole("parallel.pp", 1),
        "context_parallel": facts.whole("parallel.cp", 1),
        "expert_parallel": facts.whole("parallel.ep", 1),
        "virtual_stages": facts.whole("parallel.vp", 1),
        "micro_batch_size": facts.whole("parallel.mbs", 1),
        "global_batch_size": facts.whole("parallel.gbs") if batch is None else batch,
    }
    replicas = _replicas(inputs)
    if replicas < 1:
        raise UnreadableError("parallel.tp x pp x cp is more than system.gpus")
    if facts.whole("parallel.dp", replicas) != replicas:
        raise UnreadableError("parallel.dp x tp x pp x cp is not system.gpus")
    return inputs


def chunked(chunks: int) -> Inputs:
    """Chunks of a pipeline stage; with several, Megatron-LM scatters and gathers its sends."""
    several = {"scatter_gather": True} if chunks > 1 and "scatter_gather" in INPUTS else {}
    return {"virtual_stages": chunks, **several}


def _sequence_parallel(inputs: Mapping[str, Any]) -> Inputs:
    return {"sequence_parallel": inputs["tensor_parallel"] > 1}


def _replicas(inputs: Mapping[str, Any]) -> float:
    group = inputs["tensor_parallel"] * inputs["pipeline_parallel"] * inputs["context_parallel"]
    return float(inputs["n_gpus"] / group)


def _seconds(facts: Facts, inputs: Mapping[str, Any]) -> tuple[float, tuple[str, ...]]:
    """Time of a step, from the most direct figure measured, and notes on it."""
    for key, unit in (("iteration_time_s", 1.0), ("step_time_s", 1.0), ("iteration_time_ms", 1e-3)):
        seconds = facts.number(f"measured.{key}", None)
        if seconds is not None:
            return seconds * unit, ()
    tokens = float(inputs["global_batch_size"] * inputs["sequence_length"])
    for key, gpus, notes in (
        ("tokens_per_s_per_gpu", inputs["n_gpus"], ()),
        ("tokens_per_s", 1, ()),
        ("throughput_logged", 1, ()),
        ("tokens_per_s_incl_eval", 1, ("time includes evaluation",)),
    ):
        rate = facts.number(f"measured.{key}", None)
        if rate is not None:
            return tokens / (rate * gpus), notes
    raise UnreadableError("measured has neither a time of a step nor a rate of tokens")


def gpt_parameters(inputs: Mapping[str, Any]) -> float:
    """12 l h^2 + V h + s h: weights of a GPT without small terms (Narayanan et al. 2021, eq. 2)."""
    layers, hidden = float(inputs["layers"]), float(inputs["hidden_size"])
    rows = float(inputs["vocab_size"] + inputs["sequence_length"])
    return hidden * (12 * layers * hidden + rows)


def gpt_flops(inputs: Mapping[str, Any], recomputed: bool = False) -> float:
    """72 B s l h^2 (1 + s / 6h + V / 12lh): FLOP of a step (Narayanan et al. 2021, eq. 3). With
    layers recomputed, 96 in place of 72, but logits are not recomputed: V / 16lh."""
    layers, hidden = float(inputs["layers"]), float(inputs["hidden_size"])
    tokens, passes = inputs["sequence_length"], 4 if recomputed else 3
    more = tokens / (6 * hidden) + inputs["vocab_size"] / (4 * passes * layers * hidden)
    batch = inputs["global_batch_size"]
    return float(24 * passes * batch * tokens * layers * hidden * hidden * (1 + more))


READERS: Mapping[str, Callable[[Facts], list[Reading]]] = {
    "sc21_table1": _sc21,
    "korthikanti_table5": _korthikanti,
    "vtrain_multi": _vtrain,
    "vtrain_single": _vtrain,
    "bloom_prequel": _bloom,
    "bloom_176b": _bloom,
    "mosaic": _mosaic,
    "megatron_bridge": _bridge,
    "mlperf_gpt3": _mlperf,
    "mlperf_llama31_405b": _mlperf_llama,
    "nemo_summary": _bridge,
    "simumax_b200": _simumax,
    "torchtitan": _torchtitan,
    "nemo_longseq": _nemo,
    "maxtext_tpu": _maxtext,
    "palm_540b": _palm,
    "palm_table3": _palm_table3,
    "deepseek_v3": _deepseek,
}
