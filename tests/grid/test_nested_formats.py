"""Files of frameworks that say Megatron-LM's arguments otherwise. Expected values: sums by hand."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetcube import InputError, Sweep, evaluate
from fleetcube.catalog import record
from fleetcube.formats.read import read_job, read_spec
from fleetcube.formats.write import changed, export

from ..draws import SEED, scaled
from .common import cases, refused

PRIMUS = """
work_group: ${PRIMUS_TEAM:amd}
modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: ${PRIMUS_MODEL:llama3.1_8B}.yaml
    overrides:
      micro_batch_size: 2
      global_batch_size: 128
      seq_length: ${PRIMUS_SEQ_LENGTH:8192}
      train_iters: 50
      fp8: hybrid
      overlap_grad_reduce: true
      use_turbo_attention: true
"""
BRIDGE = """
_target_: megatron.bridge.training.config.ConfigContainer
dataset: {sequence_length: 4096, random_seed: 1}
ddp: {use_distributed_optimizer: true, grad_reduce_in_fp32: false}
mixed_precision: bf16_with_fp8_subchannel_scaling_mixed
model:
  _target_: megatron.bridge.models.mla_provider.MLAModelProvider
  num_layers: 4
  hidden_size: 1024
  ffn_hidden_size: 4096
  num_attention_heads: 16
  num_query_groups: 4
  gated_linear_unit: true
  share_embeddings_and_output_weights: false
  vocab_size: 1000
  fp8_recipe: delayed
  tensor_model_parallel_size: 2
  sequence_parallel: true
  pipeline_model_parallel_size: 2
  pipeline_model_parallel_layout: [[embedding, decoder, decoder], [decoder, decoder, loss]]
  recompute_granularity: selective
  recompute_modules: [core_attn, mlp]
  init_method: null
train: {train_iters: 10, global_batch_size: 64, micro_batch_size: 2}
tokenizer: {vocab_size: 32000}
"""
NEMO = """
trainer: {num_nodes: 4, devices: 8, precision: bf16, max_steps: 100}
model:
  micro_batch_size: 4
  global_batch_size: 512
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
  virtual_pipeline_model_parallel_size: 3
  encoder_seq_length: 2048
  num_layers: 24
  hidden_size: 4096
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 32
  activation: gelu
  activations_checkpoint_granularity: full
  activations_checkpoint_method: block
  activations_checkpoint_num_layers: 2
  tokenizer: {library: megatron, type: GPT2BPETokenizer}
  optim: {name: distributed_fused_adam, grad_sync_dtype: bf16}
  data: {seq_length: 2048}
"""
FUNCTIONAL = """
MODEL_ARGS:
  --num-layers: 24
  --hidden-size: 1024
  --num-attention-heads: 16
  --vocab-size: 50000
  --micro-batch-size: 4
  --global-batch-size: 128
  --seq-length: 512
  --tensor-model-parallel-size: 2
  --recompute-granularity: selective
  --recompute-modules: "[layernorm mlp]"
  --bf16: true
"""
ZERO = {
    "train_batch_size": 512,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
}
MEGATRON_DEEPSPEED = """
ZERO=1
cat <<EOT > ds.json
{"train_batch_size": 64, "zero_optimization": {"stage": $ZERO}, "fp16": {"enabled": true}}
EOT
deepspeed --num_nodes 2 --num_gpus 8 pretrain_gpt.py --deepspeed --deepspeed_config ds.json \\
  --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --num-key-value-heads 4 \\
  --micro-batch-size 4 --seq-length 2048 --ds-sequence-parallel-size 2 --vocab-size 50000 \\
  --train-iters 10 --num-experts 1 --swiglu --untie-embeddings-and-output-weights
"""
FILES = {
    "primus.yaml": PRIMUS,
    "bridge.yaml": BRIDGE,
    "nemo.yaml": NEMO,
    "model_config.yaml": FUNCTIONAL,
    "ds.json": json.dumps(ZERO),
    "run.sh": MEGATRON_DEEPSPEED,
}
SAID: dict[str, dict[str, Any]] = {
    "primus.yaml": dict(
        model="llama-3-8b", precision="fp8", zero_stage=1, training_tokens=50 * 128 * 8192
    ),
    "bridge.yaml": dict(
        software="megatron-bridge",
        precision="fp8_blockwise",
        gradient_storage="bf16",
        pipeline_layout="Ett|ttL",
        recompute="core_attn+mlp",
        training_tokens=10 * 64 * 4096,
    ),
    "nemo.yaml": dict(
        software="nemo",
        n_gpus=32,
        virtual_stages=3,
        pipeline_schedule="interleaved",
        recompute="full",
        recomputed_layers=2,
        zero_stage=1,
        gradient_storage="bf16",
        training_tokens=100 * 512 * 2048,
    ),
    "model_config.yaml": dict(
        software="megatron-lm", zero_stage=0, recompute="layernorm+mlp", tensor_parallel=2
    ),
    "ds.json": dict(
        software="deepspeed", zero_stage=3, offload="cpu", micro_batch_size=4, precision="bf16"
    ),
    "run.sh": dict(
        software="deepspeed",
        n_gpus=16,
        zero_stage=1,
        context_parallel=2,
        context_parallel_type="a2a",
        global_batch_size=64,
        precision="fp16",
        gradient_storage="bf16",
        attention_kernel="standard",
    ),
}
# Layers x (attention + feed-forward) + two embeddings; or Narayanan et al. 2021, equation 2
PARAMETERS = {
    "bridge.yaml": 4 * (2 * 1024**2 + 2 * 1024 * 256 + 3 * 1024 * 4096) + 2 * 1000 * 1024,
    "nemo.yaml": 24 * (12 * 4096**2 + 13 * 4096) + (50257 + 2048) * 4096,
    "model_config.yaml": 24 * (12 * 1024**2 + 13 * 1024) + (50000 + 512) * 1024,
    "run.sh": 24 * (2 * 2048**2 + 2 * 2048 * 512 + 3 * 2048 * 5440) + 2 * 50000 * 2048,
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", FILES)
def test_a_file_says_its_job(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    assert not read_job(str(path)).unknown
    scenario = read_spec(path, {"model": "llama-3-8b"} if name == "ds.json" else {})["scenario"]
    assert {key: scenario.get(key) for key in SAID[name]} == SAID[name]
    if name in PARAMETERS:
        model = {key: scenario[key] for key in ("model", "n_gpus") if key in scenario}
        found = Sweep({"n_gpus": 8, **model}, {}, ["parameters"]).evaluate()["parameters"]
        assert float(found) == pytest.approx(PARAMETERS[name], rel=1e-3)


def test_megatron_deepspeed_ends_at_its_tokens(tmp_path: Path) -> None:
    """Its train() ends at train_tokens, with three times as many samples in its examples."""
    path = tmp_path / "ds.sh"
    more = "--num-layers 24 --train-samples 300 --train-tokens 204800"
    path.write_text(MEGATRON_DEEPSPEED.replace("--num-layers 24", more))
    assert read_job(str(path)).scenario["training_tokens"] == 204800


@cases(
    "flag, kernel",
    ("", "standard"),
    *((f"--use-flash-attn{kind}", None) for kind in ("", "-v1", "-v2", "-triton", "-builder")),
)
def test_megatron_deepspeed_fuses_attention_where_asked(
    flag: str, kernel: str | None, tmp_path: Path
) -> None:
    """megatron/model/transformer.py, ParallelAttention: else CoreAttention; a JSON alone is of any
    trainer."""
    path = tmp_path / "ds.sh"
    path.write_text(MEGATRON_DEEPSPEED.replace("--swiglu", f"--swiglu {flag}"))
    assert read_job(str(path)).scenario.get("attention_kernel") == kernel
    assert read_job(str(path), {"attention_kernel": "flash"}).scenario.get("attention_kernel") in (
        None,
        "flash",
    )
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(ZERO))
    job = read_job(str(path), {"model": "llama-3-8b"})
    assert "attention_kernel" not in job.scenario


def test_fused_attention_is_written_for_megatron_deepspeed() -> None:
    stated = {"model": "llama-3-8b", "n_gpus": 8, "global_batch_size": 8}
    assert "--use-flash-attn-v2" in export(stated, "deepspeed")
    assert "flash" not in export({**stated, "attention_kernel": "standard"}, "deepspeed")


def test_a_json_that_differs_from_its_script_is_named(tmp_path: Path) -> None:
    """The JSON's batch of 64 is the engine's; the script's counts samples alone."""
    path = tmp_path / "ds.sh"
    for batch, remarks in (
        (64, []),
        (128, ["global-batch-size 128 of the script, for train_batch_size 64 of its JSON"]),
    ):
        more = f"--swiglu --global-batch-size {batch}"
        path.write_text(MEGATRON_DEEPSPEED.replace("--swiglu", more))
        job = read_job(str(path))
        assert job.scenario["global_batch_size"] == 64
        assert job.remarks == remarks


def test_a_padded_vocabulary_is_not_asked_for(tmp_path: Path) -> None:
    """BigScience's fork pads the tokenizer's 250,680 words to those that BLOOM's weights have."""
    path = tmp_path / "ds.sh"
    path.write_text(
        MEGATRON_DEEPSPEED.replace(
            "--vocab-size 50000",
            "--pad-vocab-size-to 250880 --tokenizer-type PretrainedFromHF",
        )
    )
    job = read_job(str(path))
    assert (job.open_inputs, job.unknown) == ({}, {})
    width, layers = 2048, 24 * (2 * 2048**2 + 2 * 2048 * 512 + 3 * 2048 * 5440)
    found = Sweep({**read_spec(path)["scenario"]}, {}, ["parameters"]).evaluate()["parameters"]
    assert float(found) == pytest.approx(layers + 2 * 250880 * width, rel=1e-3)


WHOLE = 4 * 2048 * 2048 * 2  # bytes between stages: sequences, tokens, width, FP16


@pytest.mark.filterwarnings("ignore::UserWarning")
@cases(
    "pipeline, parts, uncounted",
    ({}, 4, []),
    ({"pipe_partitioned": True}, 4, []),
    ({"pipe_partitioned": False, "grad_partitioned": False}, 1, []),
    ({"pipe_partitioned": False}, 1, ["pipeline.pipe_partitioned"]),
    ({"pipe_partitioned": True, "grad_partitioned": False}, 1, ["pipeline.grad_partitioned"]),
    ({"pipe_partitioned": False, "grad_partitioned": True}, 1, ["pipeline.pipe_partitioned"]),
)
def test_stages_of_deepspeed_send_a_part_per_tensor_rank(
    pipeline: dict[str, bool], parts: int, uncounted: list[str], tmp_path: Path
) -> None:
    """deepspeed/runtime/pipe/engine.py, is_pipe_partitioned and is_grad_partitioned."""
    config: dict[str, Any] = {"train_batch_size": 64, "fp16": {"enabled": True}}
    if pipeline:
        config["pipeline"] = pipeline
    layout = "--pipeline-model-parallel-size 2 --tensor-model-parallel-size"
    for tensor, sent in ((4, WHOLE / parts), (1, WHOLE)):
        path = tmp_path / "ds.sh"
        text = re.sub(r"\{.*\}\n", json.dumps(config) + "\n", MEGATRON_DEEPSPEED)
        text = text.replace("--ds-sequence-parallel-size 2", f"{layout} {tensor}")
        path.write_text(text, encoding="utf-8")
        job = read_job(str(path))
        assert ([*job.uncounted], job.unknown) == (uncounted, {})
        scenario = read_spec(path)["scenario"]
        assert float(evaluate("pipeline_message", **scenario)) == sent


def test_deepspeed_sends_parts_by_its_record_too() -> None:
    stated = {"tensor_parallel": 4, "pipeline_parallel": 2, "precision": "fp16"}
    stated |= {"hidden_size": 2048, "sequence_length": 2048, "micro_batch_size": 4}
    for software in ("deepspeed", "deepspeed-jean-zay"):
        sent = evaluate("pipeline_message", **stated, software=software)
        assert float(sent) == WHOLE / 4
        sent = evaluate("pipeline_message", **stated, software=software, scatter_gather=False)
        assert float(sent) == WHOLE


def test_primus_runs_nothing_again_on_torchtitan_by_default(tmp_path: Path) -> None:
    path = tmp_path / "primus.yaml"
    path.write_text(
        "modules: {\n pre_trainer: {framework: torchtitan, model: qwen3_8b.yaml,\n"
        " overrides: {training: {seq_len: 4096}}}}\n"
    )
    said = read_job(str(path)).scenario
    assert (said["recompute"], said["software"]) == (False, "torchtitan")


def test_files_of_primus_that_lie_in_its_repository_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "primus" / "configs" / "models" / "megatron"
    folder.mkdir(parents=True)
    (tmp_path / "examples").mkdir()
    (folder / "base.yaml").write_text("swiglu: true\nnum_layers: 1\ntokenizer_type: null\n")
    shape = "extends: [base.yaml, ../../secret.yaml, llama3.1_8B.yaml]\nnum_layers: 2\nodd: 3\n"
    more = "hidden_size: 64\nnum_attention_heads: 4\ntokenizer_model: meta-llama/Llama-3.1-8B\n"
    (folder / "llama3.1_8B.yaml").write_text(shape + more)
    (tmp_path / "primus" / "secret.yaml").write_text("num_layers: 99\n")
    path = tmp_path / "examples" / "job.yaml"
    path.write_text(PRIMUS)
    job = read_job(str(path))
    assert (job.config["num_hidden_layers"], job.config["vocab_size"]) == (2, 128_256)
    assert list(job.unknown) == ["odd"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("primus.yaml", "framework: megatron", "framework: jax", "no trainer with framework"),
        ("primus.yaml", "llama3.1_8B", "other", "leaves model open"),
        ("primus.yaml", "fp8: hybrid", "num_layers: 4", "leaves model open: its file"),
        ("primus.yaml", "size: 2", "size: two", "'two' is not a number"),
        ("primus.yaml", "  fp8: hybrid", "  fp8: *x", "is not read as YAML"),
        ("bridge.yaml", "_subchannel_scaling_mixed", "", "is not known; use one of bf16_mixed"),
        ("bridge.yaml", "num_layers: 4", "n: 4", "leaves model open: the recipe"),
        ("bridge.yaml", "train_iters: 10", "train_iters: -3", "-3 is not a number from 1"),
        ("bridge.yaml", "hidden_size: 1024", "hidden_size: !!python/name:os", "a tag in line"),
        ("nemo.yaml", "precision: bf16", "precision: 64", "trainer.precision = 64 is not known"),
        ("nemo.yaml", "GPT2BPETokenizer", "own", "leaves vocab_size open"),
        ("ds.json", '"stage": 3', '"stage": 4', "is not known; use one of 0, 1, 2, 3"),
        ("ds.json", '_size": 512', '_size": "auto"', "open: train_batch_size is <auto>"),
        ("ds.json", '{"enabled": true}', '{"enabled": "auto"}', "leaves precision open"),
        ("ds.json", '"cpu"', '"tape"', "'tape' is not known; use one of none, cpu, nvme"),
        ("ds.json", "3", "NaN", "is not known"),
    ],
)
def test_wrong_values_are_one_line(
    name: str, old: str, new: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(FILES[name].replace(old, new), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_spec(path, {"model": "llama-3-8b"} if name == "ds.json" else {})
    assert told in str(error.value)
    assert "\n" not in str(error.value)


# Fields of ConfigContainer (src/megatron/bridge/training/config.py)
SECTIONS = {
    "model",
    "train",
    "dataset",
    "ddp",
    "dist",
    "mixed_precision",
    "optimizer",
    "comm_overlap",
}


def drawn(chosen: random.Random, software: str) -> dict[str, Any]:
    """A layout that the software can run."""
    can = record("software", software).values
    model = chosen.choice(["llama-3-8b", "mixtral-8x7b"])
    bridge = software == "megatron-bridge"
    tensor, stages = chosen.choice([1, 2, 4, 8]), chosen.choice([1, 2, 4])
    pieces = chosen.choice([1, 2, 4]) if bridge and stages > 1 else 1
    stage = chosen.choice(can["has"]["zero_stage"])
    formats = ["bf16", "fp16", *(("fp8", "fp8_blockwise", "mxfp8", "nvfp4") if bridge else ())]
    made: dict[str, Any] = {
        "software": software,
        "model": model,
        "tensor_parallel": tensor,
        "sequence_parallel": tensor > 1 and chosen.random() < 0.5,
        "pipeline_parallel": stages,
        "virtual_stages": pieces,
        "context_parallel": chosen.choice([1, 2, 4]),
        "context_parallel_type": chosen.choice(can["has"]["context_parallel_type"]),
        "micro_batch_size": chosen.choice([1, 2, 3]),
        "global_batch_size": chosen.choice([48, 96, 4096]),
        "sequence_length": chosen.choice([2048, 8192, 131_072]),
        "zero_stage": min(stage, 1) if stages > 1 else stage,
        "recompute": chosen.choice([False, "layernorm+mlp" if bridge else "selective"]),
        "precision": chosen.choice(formats),
        "optimizer": chosen.choice(["adam", "muon"]),
    }
    made["gradient_storage"] = (
        "bf16" if made["precision"] == "fp16" else chosen.choice(["fp32", "bf16"])
    )
    if pieces > 1:
        made["pipeline_schedule"] = chosen.choice(["interleaved", "combined_1f1b"])
    if chosen.random() < 0.3:
        name = chosen.choice(["recomputed_layers", "recompute_unit_layers"])
        made |= {"recompute": "full", name: chosen.choice([1, 2, 5])}
    if model == "mixtral-8x7b":
        made["expert_parallel"] = chosen.choice([1, 2, 8])
    if made["gradient_storage"] == "fp32" and chosen.random() < 0.3:
        made["gradient_bytes_per_element"] = 4
    if bridge and model == "mixtral-8x7b":
        made["expert_dispatch"] = chosen.choice(can["has"]["expert_dispatch"])
    if chosen.random() < 0.3:
        made["offload"] = chosen.choice(["cpu"] if bridge else ["cpu", "nvme"])
        if bridge and chosen.random() < 0.5:
            made["optimizer_offload_overlap"] = 1  # a switch of Megatron-LM's
    if not bridge and chosen.random() < 0.3:
        made["data_parallel_shard"] = chosen.choice([2, 8])
    if not bridge:
        made["scatter_gather"] = chosen.choice([True, False])
    if not bridge:
        made["pipeline_parallel"] = 1 if model == "mixtral-8x7b" else stages
        alone = max(tensor, made["pipeline_parallel"]) == 1
        made["context_parallel"] = made["context_parallel"] if alone else 1
    return made


@cases(
    "scenario, words",
    ({"context_parallel": 2, "tensor_parallel": 2}, "no context_parallel with tensor_parallel"),
    ({"model": "mixtral-8x7b", "pipeline_parallel": 2}, "no experts in a pipeline"),
    (
        {"model": "mixtral-8x7b", "expert_ffn_hidden_size": 768},
        "no experts narrower than dense layers",
    ),
    ({"model": "deepseek-v3"}, "no latent attention"),
)
def test_what_megatron_deepspeed_lacks_is_not_written(scenario: dict[str, Any], words: str) -> None:
    refused(words, export, {"model": "llama-3-8b", **scenario}, "deepspeed")


@pytest.mark.parametrize(
    ("software", "name"), [("megatron-bridge", "a.yaml"), ("deepspeed", "a.sh")]
)
def test_what_is_written_is_read_back(software: str, name: str, tmp_path: Path) -> None:
    chosen = random.Random(SEED)
    path = tmp_path / name
    for _ in range(scaled(25, 200)):
        scenario = drawn(chosen, software)
        path.write_text(export(scenario, software), encoding="utf-8")
        if name == "a.yaml":
            assert {*yaml.safe_load(path.read_text())} <= SECTIONS
        job = read_job(str(path))
        assert not job.unknown
        assert not job.open_inputs
        read = {**job.scenario, "software": software, "model": scenario["model"]}
        assert {key: read.get(key) for key in scenario} == scenario
        shape = record("model", scenario["model"]).values
        assert job.config["num_hidden_layers"] == shape["layers"]
        assert job.config["num_key_value_heads"] == shape["kv_heads"]
        assert job.config["gated_ffn"] is True
        assert job.config.get("moe_layer_freq", 1) == 1


def test_a_change_is_told_in_one_line_each(tmp_path: Path) -> None:
    path = tmp_path / "bridge.yaml"
    path.write_text(BRIDGE)
    job = read_job(str(path))
    lines = changed(job, {**job.scenario, "model": job.config, "zero_stage": 0})
    assert lines == [
        "- ddp: {use_distributed_optimizer: true}",
        "+ ddp: {use_distributed_optimizer: false}",
    ]


@pytest.mark.parametrize("name", FILES)
def test_edited_files_are_read_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    chosen = random.Random(f"{name} {SEED}")
    path, text = tmp_path / name, FILES[name]
    pieces = [*text.split(), "null", "[1]", "{}", "-1", "1e999", "${x:}", "<<", '"', "\x00", "é"]
    for _ in range(scaled(200, 200) // len(FILES)):
        held = text
        for _ in range(chosen.randint(1, 4)):
            at = chosen.randrange(len(held) + 1)
            held = held[:at] + chosen.choice(pieces) + held[at + chosen.randint(0, 12) :]
        path.write_text(held, encoding="utf-8")
        try:
            read_job(str(path))
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert len(str(error)) < 1000  # noqa: PT017
