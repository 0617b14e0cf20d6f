"""Fields that a file leaves open and its user states: the job is that of the file with the fields
filled in, whichever they are. Drawn for every reader; the filled file is the judge."""

import json
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetcube import InputError, Sweep
from fleetcube.formats.field_table import values_of
from fleetcube.formats.read import _config_of, layout_of, read_job, read_spec, spec_of
from fleetcube.formats.trees import as_toml
from fleetcube.kernels.physics.inputs import INPUTS

from ..draws import SEED, scaled
from .common import refused

Fields = dict[str, Any]
MEGATRON: Mapping[str, list[Any]] = {
    "tensor-model-parallel-size": [1, 2, 4],
    "pipeline-model-parallel-size": [2, 4],
    "context-parallel-size": [1, 2],
    "num-layers-per-virtual-pipeline-stage": [2, 3, 12],
    "micro-batch-size": [1, 2],
    "global-batch-size": [256, None],
    "seq-length": [2048, 8192],
    "num-layers": [24, 48],
    "hidden-size": [2048, 4096],
    "ffn-hidden-size": [8192, None],
    "num-attention-heads": [16, 32],
    "num-query-groups": [4, 8],
    "vocab-size": [32000, 50257],
    "train-iters": [100, None],
    "rampup-batch-size": ["32 32 1000", None],
    "recompute-granularity": ["full", "selective", None],
    "recompute-method": ["block", "uniform"],
    "recompute-num-layers": [1, 2],
    "recompute-modules": ["mlp", None],
    "num-distributed-optimizer-instances": [2, None],
    "fp8-recipe": ["tensorwise", "mxfp8"],
    "fp8-format": ["hybrid", None],
    "exp-avg-dtype": ["bf16", "fp32"],
    "exp-avg-sq-dtype": ["fp8", None],
    "main-params-dtype": ["fp16", None],
    "main-grads-dtype": ["bf16", "fp32", None],
    "decoder-first-pipeline-num-layers": [3, None],
    "moe-token-dispatcher-type": ["alltoall", None],
    "num-experts": [8, None],
    "moe-router-topk": [2, 4],
    "moe-expert-capacity-factor": [1.5, None],
    "mtp-num-layers": [1, None],
}
BARE = (
    *("bf16", "swiglu", "group-query-attention", "untie-embeddings-and-output-weights"),
    *("use-distributed-optimizer", "sequence-parallel", "use-precision-aware-optimizer"),
    *("accumulate-allreduce-grads-in-fp32", "overlap-moe-expert-parallel-comm"),
    *("moe-pad-expert-input-to-capacity", "recompute-activations"),
)
TITAN: Mapping[str, list[Any]] = {
    "model.flavor": ["8B", "70B"],
    "training.local_batch_size": [4, 8],
    "training.global_batch_size": [512, None],
    "training.seq_len": [2048, 8192],
    "training.steps": [10, 1000],
    "parallelism.data_parallel_replicate_degree": [1, 2],
    "parallelism.data_parallel_shard_degree": [4, 8],
    "parallelism.tensor_parallel_degree": [1, 2, 8],
    "parallelism.pipeline_parallel_degree": [1, 4],
    "parallelism.context_parallel_degree": [1, 2],
    "parallelism.pipeline_parallel_schedule": ["1F1B", "Interleaved1F1B"],
    "parallelism.pipeline_parallel_microbatch_size": [1, 2],
    "parallelism.pipeline_parallel_layers_per_stage": [2, 4, None],
    "parallelism.fsdp_reshard_after_forward": ["default", "never"],
    "activation_checkpoint.mode": ["none", "full", "selective"],
    "activation_checkpoint.selective_ac_option": ["2", "op"],
    "compile.enable": [True, False],
    "compile.components": [["loss"], ["model"], ["model", "loss"]],
}
MAXTEXT: Mapping[str, list[Any]] = {
    "base_emb_dim": [2048, 4096],
    "base_num_decoder_layers": [16, 32],
    "base_mlp_dim": [8192, 16384],
    "vocab_size": [32000, 50304],
    "global_parameter_scale": [1, 8],
    "per_device_batch_size": [1, 4],
    "gradient_accumulation_steps": [1, 3],
    "max_target_length": [2048, 8192],
    "steps": [10, 1000],
    "ici_fsdp_parallelism": [4, 16],
    "ici_tensor_parallelism": [1, 2, 8],
    "ici_context_parallelism": [1, 2],
    "dcn_data_parallelism": [1, 4],
    "remat_policy": ["full", "minimal"],
    "quantization": ["fp8", "none"],
    "shard_optimizer_over_data": [True, False],
}
NEMO: Mapping[str, list[Any]] = {
    "trainer.num_nodes": [4, 8],
    "trainer.devices": [8],
    "trainer.precision": ["bf16", "16"],
    "trainer.max_steps": [100, 200],
    "model.micro_batch_size": [1, 4],
    "model.global_batch_size": [256, 512],
    "model.tensor_model_parallel_size": [1, 4],
    "model.pipeline_model_parallel_size": [2, 4],
    "model.virtual_pipeline_model_parallel_size": [2, 3],
    "model.encoder_seq_length": [2048, 8192],
    "model.num_layers": [24, 48],
    "model.hidden_size": [2048, 4096],
    "model.ffn_hidden_size": [8192],
    "model.num_attention_heads": [16, 32],
    "model.override_vocab_size": [32000, 50257],
    "model.activation": ["gelu", "swiglu"],
    "model.sequence_parallel": [True, False],
    "model.share_embeddings_and_output_weights": [True, False],
    "model.activations_checkpoint_granularity": ["full", "selective"],
    "model.activations_checkpoint_method": ["block", "uniform"],
    "model.activations_checkpoint_num_layers": [1, 2],
    "optim.name": ["distributed_fused_adam", "fused_adam"],
}
BRIDGE: Mapping[str, list[Any]] = {
    "dataset.sequence_length": [4096, 8192],
    "ddp.use_distributed_optimizer": [True, False],
    "ddp.grad_reduce_in_fp32": [True, False],
    "mixed_precision": ["bf16_mixed", "bf16_with_mxfp8_mixed"],
    "model.num_layers": [24, 48],
    "model.hidden_size": [1024, 2048],
    "model.ffn_hidden_size": [4096],
    "model.num_attention_heads": [16],
    "model.num_query_groups": [4, 8],
    "model.gated_linear_unit": [True, False],
    "model.share_embeddings_and_output_weights": [True, False],
    "model.vocab_size": [32000, 50257],
    "model.tensor_model_parallel_size": [1, 2],
    "model.pipeline_model_parallel_size": [2, 4],
    "model.virtual_pipeline_model_parallel_size": [2, 3],
    "model.sequence_parallel": [True, False],
    "model.recompute_granularity": ["full", "selective"],
    "model.recompute_num_layers": [1, 2],
    "train.train_iters": [10, 100],
    "train.global_batch_size": [64, 256],
    "train.micro_batch_size": [1, 2],
}
PRIMUS: Mapping[str, list[Any]] = {
    "micro_batch_size": [1, 2],
    "global_batch_size": [128, 256],
    "seq_length": [4096, 8192],
    "train_iters": [50, 100],
    "fp8": ["hybrid", False],
    "tensor_model_parallel_size": [1, 2],
    "pipeline_model_parallel_size": [2, 4],
    "num_layers_per_virtual_pipeline_stage": [2, 4],
    "recompute_granularity": ["full", None],
    "recompute_method": ["block", "uniform"],
    "recompute_num_layers": [1, 2],
    "sequence_parallel": [True, False],
    "overlap_moe_expert_parallel_comm": [True, False],
}
ZERO: Mapping[str, list[Any]] = {
    "train_batch_size": [512, None],
    "train_micro_batch_size_per_gpu": [2, 4],
    "gradient_accumulation_steps": [1, 2, 8],
    "zero_optimization.stage": [0, 1, 2, 3],
    "zero_optimization.offload_optimizer.device": ["cpu", "none"],
    "bf16.enabled": [True],
    "tensor_parallel.autotp_size": [1, 2],
    "data_types.grad_accum_dtype": ["fp32", "bf16", None],
    "communication_data_type": ["fp32", None],
}


def script(fields: Fields) -> str:
    flags = " ".join(
        f"--{name}" if value is True else f"--{name} {value}" for name, value in fields.items()
    )
    return f"torchrun --nproc-per-node 8 --nnodes 4 pretrain_gpt.py {flags}\n"


def tree(fields: Fields) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in fields.items():
        *above, last = name.split(".")
        inner = made
        for part in above:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return made


def functional(fields: Fields) -> str:
    rows = {"nnodes": 4, "nproc-per-node": 8, **fields}
    return str(yaml.safe_dump({"MODEL_ARGS": {f"--{name}": each for name, each in rows.items()}}))


def primus(fields: Fields) -> str:
    trainer = {"framework": "megatron", "config": "a.yaml", "model": "llama3.1_8B.yaml"}
    trainer["overrides"] = {"nnodes": 4, "nproc_per_node": 8, **fields}
    return str(yaml.safe_dump({"modules": {"pre_trainer": trainer}}))


READERS: dict[str, tuple[str, Mapping[str, list[Any]], Callable[[Fields], str]]] = {
    "script": ("launch.sh", MEGATRON, script),
    "functional": (
        "model_config.yaml",
        {**MEGATRON, **{name: [True, None] for name in BARE}},
        functional,
    ),
    "torchtitan": ("job.toml", TITAN, as_toml),
    "maxtext": ("run.yml", MAXTEXT, lambda fields: str(yaml.safe_dump(fields))),
    "nemo": ("nemo.yaml", NEMO, lambda fields: str(yaml.safe_dump(tree(fields)))),
    "bridge": ("bridge.yaml", BRIDGE, lambda fields: str(yaml.safe_dump(tree(fields)))),
    "primus": ("primus.yaml", PRIMUS, primus),
    "deepspeed": ("ds.json", ZERO, lambda fields: json.dumps(tree(fields))),
}


def whole_of(job: Any, given: Fields) -> Fields:
    """All that counts of a job: its model's record, its inputs, and what is given."""
    model = given.get("model", job.scenario.get("model"))
    if model is None or (job.config and "model" not in given):
        model = _config_of(job, job.config)
    return {**values_of(model), **job.scenario, **given, "model": ""}


def compare(found: Fields, want: Fields) -> dict[str, Any]:
    """Inputs that differ, where a missing one has its default."""
    differ = {}
    for name in {*found, *want} - {"pipeline_schedule"}:
        usual = INPUTS[name].default if name in INPUTS else None
        one, other = (row.get(name, usual) for row in (found, want))
        near = isinstance(one, float | int) and isinstance(other, float | int)
        if one != other and not (near and math.isclose(one, other, rel_tol=1e-9)):
            differ[name] = (one, other)
    return differ


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", READERS)
def test_open_fields_with_their_values_stated_are_fields_filled_in(
    kind: str, tmp_path: Path
) -> None:
    dice = random.Random(f"{kind} {SEED}")
    name, choices, text_of = READERS[kind]
    path, tried = tmp_path / name, 0
    for _ in range(scaled(15, 200)):
        fields = {key: one for key, row in choices.items() if (one := dice.choice(row)) is not None}
        if kind == "script":
            fields |= {flag: True for flag in BARE if dice.random() < 0.6} | {"bf16": True}
        base: Fields = {"model": "llama-3-8b", "n_gpus": 64} if kind == "deepspeed" else {}
        path.write_text(text_of(fields), encoding="utf-8")
        want = read_job(str(path), base)
        if want.open_inputs:
            continue
        valued = [key for key in fields if kind != "script" or fields[key] is not True]
        opened = dice.sample(valued, dice.randint(1, min(3, len(valued))))
        path.write_text(text_of({**fields, **dict.fromkeys(opened, "$OPEN")}), encoding="utf-8")
        truth = whole_of(want, base)
        given = dict(base)
        for _ in range(12):
            job = read_job(str(path), given)
            if not (left := [each for each in job.open_inputs if each not in given]):
                break
            usual = INPUTS[left[0]].default if left[0] in INPUTS else None
            config = _config_of(want, want.config) if want.config else want.scenario.get("model")
            given[left[0]] = config if left[0] == "model" else truth.get(left[0], usual)
        assert not job.open_inputs, (opened, fields, job.open_inputs)
        found = whole_of(job, given)
        assert not compare(found, truth), (opened, fields, compare(found, truth), given)
        tried += 1
    assert tried > 4


SHAPE = (
    "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 "
    "--group-query-attention --num-query-groups 8 --seq-length 8192 --swiglu --vocab-size 131072 "
    "--untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 512 --bf16 "
    "--use-distributed-optimizer --sequence-parallel "
)
LAUNCH = f"torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py {SHAPE}"
OPEN_TENSOR = f"{LAUNCH} --tensor-model-parallel-size $TP --pipeline-model-parallel-size 2\n"
OPEN_STAGES = (
    f"{LAUNCH} --tensor-model-parallel-size 4 --pipeline-model-parallel-size $PP "
    "--num-layers-per-virtual-pipeline-stage 5\n"
)
NODE = {"gpu": "h100-sxm", "node": "dgx-h100"}


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sequences_stay_sharded_where_the_tensor_ranks_are_stated(tmp_path: Path) -> None:
    """A 70B script with an open degree: 128.7 GB, as with the degree filled in; 161 without."""
    path = written(tmp_path / "a.sh", OPEN_TENSOR)
    filled = written(tmp_path / "b.sh", OPEN_TENSOR.replace("$TP", "4"))
    one, other = (
        Sweep.from_file(each, **NODE, **given).with_outputs(["memory_per_gpu"]).evaluate()
        for each, given in ((path, {"tensor_parallel": 4}), (filled, {}))
    )
    assert float(one["memory_per_gpu"]) == float(other["memory_per_gpu"])
    assert float(one["memory_per_gpu"]) / 1e9 == pytest.approx(128.7, abs=2)
    shown = layout_of(read_job(path, {"tensor_parallel": "4"})).partition("; ")[2]
    want = "TP4 PP2 DP4; 512 sequences of 8,192 in micro-batches of 1"
    assert shown == want


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_chunks_follow_from_the_stages_that_are_stated(tmp_path: Path) -> None:
    """80 layers on 8 stages by 5: 2 virtual stages; several degrees have no one number."""
    path = written(tmp_path / "a.sh", OPEN_STAGES)
    assert read_job(path, {"pipeline_parallel": "8"}).scenario["virtual_stages"] == 2
    assert read_job(path, {"pipeline_parallel": 8, "layers": 160}).scenario["virtual_stages"] == 4
    assert (
        read_job(path, {"pipeline_parallel": 8, "virtual_stages": 1}).scenario["virtual_stages"]
        == 1
    )
    for several in ("4,8", [4, 8], None):
        words = "leaves virtual_stages open: it follows from pipeline_parallel"
        refused(words, read_spec, path, {"pipeline_parallel": several})
    spec = read_spec(path, {"pipeline_parallel": "4,8", "virtual_stages": 2})
    assert "virtual_stages" not in spec["scenario"]
    labels = {"pipeline_parallel": [4, 8], "virtual_stages": [4, 2]}
    assert Sweep.from_file(path, layout=labels, **NODE).points == 2


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_batch_of_each_replica_is_asked_for_along_axes_that_move_it(tmp_path: Path) -> None:
    text = OPEN_TENSOR.replace("--global-batch-size 512", "")
    path = written(tmp_path / "a.sh", text)
    assert read_job(path, {"tensor_parallel": 4}).scenario["global_batch_size"] == 4
    words = "leaves global_batch_size open: it follows from tensor_parallel"
    refused(words, read_spec, path, {"tensor_parallel": "1,2,4"})
    assert read_spec(path, {"tensor_parallel": "1,2,4", "global_batch_size": 8})
    assert "TP1,2,4 PP2; ? sequences" in layout_of(read_job(path, {"tensor_parallel": "1,2,4"}))


def test_an_open_switch_decides_nothing(tmp_path: Path) -> None:
    for name, asked in (
        ("swiglu", "gated_ffn"),
        ("sequence-parallel", "sequence_parallel"),
        ("untie-embeddings-and-output-weights", "embedding_tables"),
        ("bf16", "precision"),
        ("use-megatron-fsdp", "zero_stage"),
        ("overlap-moe-expert-parallel-comm", "pipeline_schedule"),
    ):
        fields = {
            "num-layers": 8,
            "hidden-size": 1024,
            "num-attention-heads": 8,
            "seq-length": 2048,
        }
        fields |= {"vocab-size": 32000, "micro-batch-size": 1, "global-batch-size": 8, "bf16": True}
        path = written(tmp_path / "model_config.yaml", functional({**fields, name: "$X"}))
        job = read_job(path)
        assert asked in job.open_inputs
        with pytest.raises(InputError, match=f"{name} is \\$X"):
            spec_of(job)


BY_TORCHRUN = """#!/bin/bash
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
torchrun --nproc-per-node $SLURM_GPUS_PER_NODE --nnodes $SLURM_NNODES pretrain_gpt.py \\
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --swiglu \\
  --group-query-attention --num-query-groups 8 --seq-length 8192 --vocab-size 131072 --bf16 \\
  --untie-embeddings-and-output-weights --micro-batch-size 1 --global-batch-size 128 \\
  --use-distributed-optimizer --use-flash-attn --overlap-grad-reduce --overlap-param-gather
"""


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_starters_of_processes_are_no_gpus(tmp_path: Path) -> None:
    """16 nodes of 4: 1.9 s a step; as 16 GPUs, one a node, it took 8.4 s."""
    path = written(tmp_path / "job.sh", BY_TORCHRUN)
    assert "64 GPUs in 16 nodes of 4; TP1 PP1 DP64" in layout_of(read_job(path))
    job = Sweep.from_file(path, gpu="gh200-96gb", fabric="slingshot-11")
    step = float(job.with_outputs(["step_time"]).evaluate()["step_time"])
    assert step == pytest.approx(1.9, rel=0.1)


SMALL = """#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=${GPUS_PER_NODE:-1}
MODEL=(--num-layers 48 --hidden-size 1600 --num-attention-heads 25 --seq-length 1024
  --max-position-embeddings 1024 --attention-backend auto)
TRAINING=(--micro-batch-size ${MBS:-1} --global-batch-size ${GBS:-1} --train-iters 500 --bf16)
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes 1 pretrain_gpt.py ${MODEL[@]} ${TRAINING[@]} \\
  --tokenizer-type GPT2BPETokenizer
"""


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_script_of_one_gpu_takes_the_memory_that_was_reported(tmp_path: Path) -> None:
    """GPT-2 XL on an H100: 34.9 GB with micro-batches of 1, 43 of 4."""
    path = written(tmp_path / "gpt2.sh", SMALL)
    for sequences, reported in ((1, 34.9), (4, 43)):
        batch = {"micro_batch_size": sequences, "global_batch_size": sequences}
        job = Sweep.from_file(path, gpu="h100-sxm", **batch).with_outputs(["memory_per_gpu"])
        assert float(job.evaluate()["memory_per_gpu"]) / 1e9 == pytest.approx(reported, rel=0.03)


def test_sequences_of_a_model_are_in_the_line(tmp_path: Path) -> None:
    """A file that states none has those of the model's record, or of what its user states."""
    path = tmp_path / "ds.json"
    path.write_text('{"train_batch_size": 64, "zero_optimization": {"stage": 3}, "bf16": {}}')
    shown = layout_of(read_job(str(path), {"model": "llama-3-8b"}))
    assert "64 sequences of 8,192 " in shown
    shown = layout_of(read_job(str(path), {"model": "llama-3-8b", "sequence_length": 4096}))
    assert "64 sequences of 4,096 " in shown
