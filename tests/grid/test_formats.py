"""Files of frameworks as specs, and back: read as their programs read them."""

import contextlib
import json
import random
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import fleetcube
from fleetcube import InputError, Sweep
from fleetcube.calibration.measurements import read_records
from fleetcube.catalog import huggingface
from fleetcube.formats import megatron_lm, shell
from fleetcube.formats.read import read_job, read_spec, spec_of
from fleetcube.formats.write import changed, export
from fleetcube.presentation.init_spec import starter_spec

from ..draws import generator, scaled
from .common import cases, refused

# The shape and layout of Narayanan et al. 2021 (SC21), table 1, 39.1 billion parameters
SCRIPT = r"""#!/bin/bash
#SBATCH --nodes=64 --ntasks-per-node=8
# --tensor-model-parallel-size 99
SIZE=${SIZE:-39B}
GPUS=8
if [[ "$SIZE" == "1T" ]]; then TP=8; PP=64; elif [ $SIZE = 39B ]; then
    TP=8
    PP=2
else
    exit 1
fi
case ${SIZE} in
    1.7B | 39B) LAYERS=48 ;;
    *) LAYERS=0 ;;
esac
while [[ $# -gt 0 ]]; do case $1 in --tp) TP=$2; shift 2 ;; esac; done
MODEL_ARGS=(
    --num-layers ${LAYERS} --hidden-size $((1024 * (GPUS + 0)))
    --num-attention-heads 64 # heads
    "--seq-length 2048"
    --max-position-embeddings 2048
    --vocab-size 51200
)
MODEL_ARGS+=(--untie-embeddings-and-output-weights)
if [ -n "$WANDB_KEY" ]; then MODEL_ARGS+=(--wandb-project x); fi
cat <<EOF > ds.json
{ "it's": "$GPUS" }
EOF
CMD="pretrain_gpt.py ${MODEL_ARGS[@]} --bf16 --micro-batch-size=4 --global_batch_size 1536 \
  --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \
  --recompute-granularity full --recompute-method block --recompute-num-layers 6 \
  --use-distributed-optimizer --train-iters 500 --data-path $1 --frobnicate 7"
torchrun --nproc_per_node $GPUS --nnodes 64 $CMD > out.log 2>&1
"""
READ = {
    **{"tensor_parallel": 8, "pipeline_parallel": 2, "micro_batch_size": 4, "zero_stage": 1},
    **{"global_batch_size": 1536, "sequence_length": 2048, "n_gpus": 512, "gpus_per_node": 8},
    **{"recompute": "full", "recomputed_layers": 6, "precision": "bf16", "virtual_stages": 1},
    "training_tokens": 500 * 1536 * 2048,
}


def quiet(path: Path, **given: Any) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_spec(path, given)


def test_a_script_is_read_as_a_shell_would() -> None:
    job = megatron_lm.read(SCRIPT, "launch.sh")
    assert {name: job.scenario[name] for name in READ} == READ
    assert job.config["num_hidden_layers"] == 48
    assert job.config["hidden_size"] == 8192
    assert job.unknown == {"frobnicate": "7"}
    assert job.ignored["data-path"] == "files and data"
    assert not job.open_inputs


def test_a_misspelt_field_is_named_with_the_one_that_it_may_be() -> None:
    job = megatron_lm.read(SCRIPT, "a.sh")
    assert job.with_likely("sequence-paralel") == "sequence-paralel (sequence-parallel?)"
    assert job.with_likely("frobnicate") == "frobnicate"
    assert job.with_likely("num-layer") == "num-layer", "the right one is given, too"


def test_its_parameters_are_those_published(tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(SCRIPT)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        sweep = Sweep.from_file(tmp_path / "launch.sh", node="dgx-a100", n_gpus=[512, 1024])
    assert "not understood: frobnicate" in str(said[0].message)
    assert sweep.points == 2
    count = sweep.with_outputs(["parameters"]).evaluate()["parameters"].item()
    # (1 + 13 / 12 h + (V + s) / 12 l h) 12 l h^2, eq. 2 there: 39.1; a second embedding here
    assert count == pytest.approx(39.1e9 + 51200 * 8192, rel=2e-3)


@cases(
    "line, words",
    ("--context-parallel-size 8x", "context-parallel-size = '8x' is not a number"),
    ("--fp8-format hybrid --fp8-recipe odd", "fp8-recipe = 'odd' is not known; use one of delayed"),
    (
        "--fp4-format e2m1 --fp4-recipe odd",
        "fp4-recipe = 'odd' is not known; use one of nvfp4, mxfp4",
    ),
    ("--cp-comm-type ring", "cp-comm-type = 'ring' is not known; use one of p2p"),
    ("--fp8-format odd", "fp8-format = 'odd' is not known; use one of e4m3, hybrid, or give prec"),
    ("--fp4-format odd", "fp4-format = 'odd' is not known; use one of e2m1, or give precision="),
    ("--enable-cuda-graph=maybe", "'maybe' is not known; use one of true, false"),
    ("--cuda-graph-impl odd", "use one of none, .*, or give cuda_graphs=..."),
    ("--moe-layer-freq lambda:0", "moe-layer-freq = 'lambda:0' is no list of layers"),
    ("--heterogeneous-layers-config-path x", "layers of different widths"),
    (
        "--data-parallel-sharding-strategy all --use-megatron-fsdp",
        "'all' is not known; use one of no_shard",
    ),
)
def test_what_cannot_be_read_is_refused(line: str, words: str) -> None:
    text = f"{SCRIPT.replace('--bf16', f'--bf16 {line}')}"
    refused(words, megatron_lm.read, text, "launch.sh")


@cases(
    "flags, graphs",
    ("--cuda-graph-impl local", True),
    ("--cuda-graph-impl full_iteration", True),
    ("--cuda-graph-impl local --cuda-graph-scope full_iteration", True),
    ("--cuda-graph-impl transformer_engine --cuda-graph-scope attn mlp", True),
    ("--cuda-graph-impl transformer_engine --cuda-graph-scope attn", False),
    ("--cuda-graph-impl local --cuda-graph-modules mamba attn moe_router", False),
    ("--cuda-graph-impl none --cuda-graph-scope attn", False),
)
def test_graphs_of_some_modules_count_as_none(flags: str, graphs: bool) -> None:
    text = SCRIPT.replace("--bf16", f"--bf16 {flags}")
    found = megatron_lm.read(text, "launch.sh")
    assert found.scenario.get("cuda_graphs", False) is graphs
    stated = megatron_lm.read(text, "launch.sh", {"cuda_graphs": True})
    assert stated.scenario["cuda_graphs"] is True


@cases(
    "flags, biases",  # megatron/training/arguments.py: --disable-bias-linear stores false
    ("--num-experts 8", True),
    ("--num-experts 8 --disable-bias-linear", False),
    ("--num-experts 8 --disable-bias-linear --use-transformer-engine-op-fuser", False),
    ("", None),
    ("--disable-bias-linear", None),
)
def test_experts_have_biases_unless_disabled(flags: str, biases: bool | None) -> None:
    job = megatron_lm.read(SCRIPT.replace("--bf16", f"--bf16 {flags}"), "launch.sh")
    assert job.config.get("expert_biases") is biases
    assert ("disable-bias-linear" in job.ignored) == (flags == "--disable-bias-linear")
    assert ("biases are not disabled: expert_biases = true" in job.remarks) == bool(biases)


_SHAPE = """model:
  num_layers: 24
  hidden_size: 2880
  num_attention_heads: 64
  num_moe_experts: 32
  ffn_hidden_size: 2880
  micro_batch_size: 1
"""
BRIDGE = f"train:\n  global_batch_size: 64\n{_SHAPE}"
NEMO = f"trainer:\n  num_nodes: 1\n  devices: 8\n  precision: bf16\n{_SHAPE}"


@cases(
    "text, field, biases",  # TransformerConfig.add_bias_linear and NeMo's model.bias are true
    *((BRIDGE, field, biases) for field, biases in (("", True), ("add_bias_linear: true", True))),
    *((BRIDGE, f"add_bias_linear: {word}", word == "null") for word in ("false", "null")),
    *((NEMO, field, biases) for field, biases in (("", True), ("bias: true", True))),
    *((NEMO, f"{field}: false", False) for field in ("bias", "add_bias_linear")),
)
def test_biases_of_configs_are_those_of_their_frameworks(
    tmp_path: Path, text: str, field: str, biases: bool
) -> None:
    (tmp_path / "run.yaml").write_text(text + (field and f"  {field}\n"))
    assert read_job(str(tmp_path / "run.yaml")).config["expert_biases"] is biases


@pytest.mark.parametrize("framework", ["megatron-lm", "megatron-bridge"])
@cases(
    "model, window, every, biases",
    ("gpt-oss-20b", 128, 2, True),
    ("mixtral-8x7b", None, None, False),
    ("mistral-7b", 4096, None, None),
    ("llama-3-8b", None, None, None),
)
def test_biases_and_windows_are_written(
    tmp_path: Path, model: str, window: int, every: int, biases: bool, framework: str
) -> None:
    job = {"model": model, "n_gpus": 64, "global_batch_size": 64, "sequence_length": 8192}
    path = tmp_path / ("run.sh" if framework == "megatron-lm" else "run.yaml")
    text = export(job, framework)
    if framework == "megatron-lm":
        text = f"torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py \\\n{text}"
    path.write_text(text)
    config = read_job(str(path), {"n_gpus": 64}).config
    names = ("sliding_window", "sliding_window_pattern", "expert_biases")
    assert tuple(config.get(name) for name in names) == (window, every, biases)


@cases(
    "size, freq, window, windowed",
    ("(127,0)", "2", 128, 24),
    ("127,0", "[1,1,1,0]*12", 128, 36),
    ("(1023,0)", "([0]*8+[1]*40)", 1024, 40),
    ("(-1,0)", "2", None, None),
)
def test_windows_are_read(size: str, freq: str, window: int, windowed: int) -> None:
    """A window's size is that of keys before the query, which it sees, too."""
    flags = f"--bf16 --window-size {size} --window-attn-skip-freq {freq}"
    job = megatron_lm.read(SCRIPT.replace("--bf16", flags), "launch.sh")
    shape = huggingface.read(json.dumps({"model_type": "megatron-lm", **job.config}))
    assert (shape.get("attention_window"), shape.get("windowed_layers")) == (window, windowed)


@cases(
    "line, is_named",
    *((f"export CUDA_LAUNCH_BLOCKING={value}", value != "0") for value in ("1", '"1"', "0")),
    *((f"{word} CUDA_LAUNCH_BLOCKING=1 true", True) for word in ("", "env")),
    *((f"# CUDA_LAUNCH_BLOCKING={value}", False) for value in ("0", "1")),
)
def test_a_host_that_waits_for_kernels_is_named(tmp_path: Path, line: str, is_named: bool) -> None:
    (tmp_path / "launch.sh").write_text(SCRIPT.replace("GPUS=8", f"GPUS=8\n{line}"))
    remarks = " ".join(read_job(str(tmp_path / "launch.sh")).remarks)
    assert ("CUDA_LAUNCH_BLOCKING" in remarks) == is_named


def test_an_odd_word_is_read_where_what_it_sets_is_stated() -> None:
    line = "--bf16 --fp8-format odd --fp8-recipe odd --cuda-graph-impl odd"
    text, given = SCRIPT.replace("--bf16", line), {"precision": "fp8", "cuda_graphs": True}
    assert given.items() <= megatron_lm.read(text, "launch.sh", given).scenario.items()
    refused("precision=", megatron_lm.read, text, "launch.sh", {"cuda_graphs": True})


@cases(
    "old, new, words",
    ("    TP=8\n", "", "leaves tensor_parallel open: tensor-model-parallel-size is \\$TP; give"),
    ("--vocab-size 51200", "", "leaves vocab_size open: the tokenizer"),
    ("--bf16", "", "leaves precision open: it trains in FP32"),
    ("--num-layers ${LAYERS}", "", "leaves model open: its shape"),
    ("pretrain_gpt.py", "pretrain_t5.py", "runs pretrain_t5.py, which no input counts"),
)
def test_what_a_script_leaves_open_is_asked_for(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    (tmp_path / "launch.sh").write_text(SCRIPT.replace(old, new))
    refused(words, quiet, tmp_path / "launch.sh")
    if name := words.partition("leaves ")[2].partition(" ")[0]:
        one = {"model": "llama-3-8b", "precision": "bf16"}.get(name, 1024)
        assert quiet(tmp_path / "launch.sh", **{name: one})["scenario"]["micro_batch_size"] == 4


@cases(
    "flags, sent, kept",  # megatron/training/arguments.py, validate_args
    ("--bf16", 4, "fp32"),
    ("--bf16 --grad-reduce-in-bf16", None, "bf16"),
    ("--bf16 --main-grads-dtype bf16", None, "bf16"),
    ("--bf16 --megatron-fsdp-main-grads-dtype bf16", None, "bf16"),
    ("--bf16 --megatron-fsdp-grad-comm-dtype bf16", None, "fp32"),
    ("--fp16", None, "bf16"),
    ("--fp16 --accumulate-allreduce-grads-in-fp32", 4, "fp32"),
)
def test_gradients_are_summed_as_the_arguments_say(flags: str, sent: int, kept: str) -> None:
    said = megatron_lm.read(SCRIPT.replace("--bf16", flags), "launch.sh").scenario
    assert (said.get("gradient_bytes_per_element"), said["gradient_storage"]) == (sent, kept)


def test_megatron_fsdp_shards_all_by_default() -> None:
    text = SCRIPT.replace("--bf16", "--bf16 --use-megatron-fsdp")
    assert megatron_lm.read(text, "launch.sh").scenario["zero_stage"] == 3


def test_bars_of_a_hybrid_pattern_are_pieces_of_stages() -> None:
    """Megatron-LM's hybrid_mr_mcore_te_tp1_pp2_vpp2: two stages of two pieces."""
    pattern = "M-M-M-M*-M-|M-M-M*-M-M-|M-M*-M-M-M-|M*-M-M-M-M-"
    text = SCRIPT.replace("--bf16", f"--bf16 --hybrid-layer-pattern {pattern}")
    job = megatron_lm.read(text, "launch.sh")
    assert job.scenario["virtual_stages"] == 2
    assert job.config["hybrid_override_pattern"] == pattern.replace("|", "")


def test_a_script_that_others_run_has_all_of_its_pieces() -> None:
    shape = "--num-layers 2 --hidden-size 64 --num-attention-heads 1 --seq-length 8 --bf16"
    text = f'A="--micro-batch-size 2 --global-batch-size 64"\nB="{shape} --vocab-size 9"\n'
    said = megatron_lm.read(text, "model.sh").scenario
    assert (said["micro_batch_size"], said["global_batch_size"]) == (2, 64)


def test_places_to_fill_in_and_other_attention_are_asked_for() -> None:
    text = SCRIPT.replace("--nodes=64", "--nodes=your_own_num_nodes").replace("--nnodes 64", "")
    assert "n_gpus" not in megatron_lm.read(text, "launch.sh").scenario
    text = SCRIPT.replace("--bf16", "--bf16 --experimental-attention-variant gated_delta_net")
    assert "gated_delta_net" in megatron_lm.read(text, "launch.sh").open_inputs["model"]


def test_the_arguments_that_a_log_prints() -> None:
    rows = {
        **{"num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "swiglu": True},
        **{"group_query_attention": True, "num_query_groups": 8, "ffn_hidden_size": 14336},
        **{"padded_vocab_size": 128256, "seq_length": 8192, "bf16": True, "fp8": None},
        **{"tensor_model_parallel_size": 2, "sequence_parallel": True, "world_size": 16},
        **{"micro_batch_size": 1, "global_batch_size": 128, "recompute_granularity": None},
        **{"use_distributed_optimizer": True, "untie_embeddings_and_output_weights": True},
        **{"pipeline_model_parallel_size": 1, "moe_token_dispatcher_type": "allgather"},
        **{"cp_comm_type": ["p2p"], "rampup_batch_size": ["32", "32", "1000"]},
        **{"use_precision_aware_optimizer": True, "main_grads_dtype": "torch.bfloat16"},
        **{"exp_avg_dtype": "torch.bfloat16", "exp_avg_sq_dtype": "torch.uint8"},
    }
    lines = [f"  {name} {'.' * (48 - len(name))} {value}" for name, value in rows.items()]
    job = megatron_lm.read("\n".join(["---- arguments ----", *lines]), "train.log")
    said = job.scenario
    assert (said["n_gpus"], said["tensor_parallel"], said["precision"]) == (16, 2, "bf16")
    assert said["sequence_parallel"] is True
    assert (said["context_parallel_type"], said["ramp_start_batch_size"]) == ("p2p", 32)
    assert (said["moment_bytes"], said["gradient_storage"]) == (1.5, "bf16")
    assert not job.remarks
    more = "\n  frobnicate ........... 7\n  defrobnicate ........... False"
    job_of_more = megatron_lm.read("\n".join([*lines, more]), "train.log")
    assert job_of_more.remarks == [
        "1 more arguments, with their defaults, are in no table: frobnicate"
    ]
    label = {"model_type": "megatron-lm", **job.config}
    count = fleetcube.evaluate(["parameters"], model=label)["parameters"].item()
    assert count == pytest.approx(8.03e9, rel=1e-3)  # Llama 3 8B


def drawn(draw: random.Random) -> dict[str, Any]:
    """A layout that Megatron-LM can run."""
    tensor, stages = draw.choice([1, 2, 4, 8]), draw.choice([1, 2, 4, 8])
    chunks = draw.choice([1, 2, 5]) if stages > 1 else 1
    kind: dict[str, Any] = draw.choice(
        [
            {"recompute": False},
            {"recompute": "full", "recompute_unit_layers": draw.choice([1, 2])},
            {"recompute": "full", "recomputed_layers": draw.choice([1, 3])},
            {"recompute": "+".join(draw.sample(["core_attn", "layernorm", "mlp"], 2))},
        ]
    )
    precision = draw.choice(["bf16", "fp16", "fp8", "fp8_blockwise", "mxfp8", "mxfp4", "nvfp4"])
    storage = draw.choice(["fp32", "bf16"]) if precision != "fp16" else "bf16"
    return {
        **{"tensor_parallel": tensor, "pipeline_parallel": stages, "virtual_stages": chunks},
        **{"context_parallel": draw.choice([1, 2, 4]), "micro_batch_size": draw.choice([1, 2])},
        **{"global_batch_size": draw.choice([256, 1000]), "sequence_length": 8192},
        **{"zero_stage": draw.choice([0, 1, 2, 3]), "gradient_storage": storage},
        **{"sequence_parallel": tensor > 1 and draw.random() < 0.5, "precision": precision},
        **{"context_parallel_type": draw.choice(["p2p", "all_gather", "a2a", "a2a+p2p"])},
        **{"optimizer": draw.choice(["adam", "muon"]), "model": "llama-3-8b"},
        **({"pipeline_schedule": "interleaved"} if chunks > 1 else {}),
        **kind,
    }


def test_what_is_written_reads_the_same() -> None:
    draw = random.Random(int(generator(41).integers(1 << 30)))
    for _ in range(scaled(30, 200)):
        own = drawn(draw)
        job = megatron_lm.read(export(own, "megatron-lm"), "flags.txt")
        assert not job.unknown
        assert not job.open_inputs
        back = {name: job.scenario.get(name) for name in own if name != "model"}
        assert back == {name: value for name, value in own.items() if name != "model"}
    count = fleetcube.evaluate(["parameters"], model={"model_type": "megatron-lm", **job.config})
    assert count["parameters"].item() == pytest.approx(8.03e9, rel=1e-3)


def test_a_model_of_experts_is_written_as_published() -> None:
    text = export({"model": "deepseek-v3", "pipeline_parallel": 16, "n_gpus": 2048}, "megatron-lm")
    job = megatron_lm.read(text, "flags.txt")
    assert not job.unknown
    # inference/configs/config_671B.json of deepseek-ai/DeepSeek-V3
    said = {
        **{"q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128},
        **{"qk_rope_head_dim": 64, "v_head_dim": 128, "moe_intermediate_size": 2048},
        **{"moe_shared_expert_intermediate_size": 2048, "moe_layer_freq": [0] * 3 + [1] * 58},
    }
    assert {name: job.config.get(name) for name in said} == said
    count = fleetcube.evaluate("parameters", model={"model_type": "megatron-lm", **job.config})
    assert count.item() == pytest.approx(671e9, rel=1e-3)
    assert {"--moe-grouped-gemm \\", "--multi-latent-attention \\"} <= {*text.splitlines()}


@cases(
    "model, stages, chunks, layout",
    ("llama-3-405b", 16, 8, "'E|(t|)*126L'"),  # as pretrained: Llama Team 2024, section 3.3.2
    ("deepseek-v3", 8, 6, None),
    ("gpt-oss-120b", 2, 5, None),
    ("llama-3-70b", 8, 10, ""),
)
def test_layers_that_do_not_divide_are_laid_out(
    model: str, stages: int, chunks: int, layout: str | None
) -> None:
    job = {"model": model, "pipeline_parallel": stages, "virtual_stages": chunks}
    words = shell.options(shell.split(export(job, "megatron-lm").replace("\\\n", " ")))
    told = str(words.get("pipeline-model-parallel-layout", ""))
    assert layout in (None, told and f"'{told}'")
    if told:  # as PipelineParallelLayerLayout.parse_str_to_list unrolls it
        for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
            told = re.sub(pattern, lambda found: found[1] * int(found[2]), told)
        pieces = told.split("|")
        assert len(pieces) == stages * chunks
        layers = int(words["num-layers"])
        assert "".join(pieces) == f"E{'t' * layers}L"
        counts = [sum(piece.count("t") for piece in pieces[at::stages]) for at in range(stages)]
        assert max(counts) == -(-layers // stages)


def test_changes_of_a_script_are_those_of_its_arguments() -> None:
    job = megatron_lm.read(SCRIPT, "launch.sh")
    assert changed(job, {}) == []
    lines = changed(job, {"pipeline_parallel": 1, "recompute": False, "sequence_parallel": True})
    assert lines == [
        "- --pipeline-model-parallel-size 2",
        "- --recompute-granularity full",
        "- --recompute-method block",
        "- --recompute-num-layers 6",
        "+ --sequence-parallel",
    ]


def test_a_framework_that_is_not_written_is_refused() -> None:
    refused("'megatron' is not written; did you mean 'megatron-lm'", export, {}, "megatron")


@pytest.mark.fuzz
def test_changed_scripts_are_read_or_refused_in_one_line() -> None:
    draw = random.Random(int(generator(42).integers(1 << 30)))
    marks = [
        "(",
        ")",
        "$((",
        "${",
        "}",
        '"',
        "'",
        "\n",
        "fi",
        ";;",
        "`",
        "$(",
        "if [",
        "\\",
        "\0",
        "--",
    ]
    for _ in range(scaled(50, 200)):
        text = SCRIPT
        for _ in range(draw.randint(1, 4)):
            at, to = sorted(draw.sample(range(len(text)), 2))
            to = min(to, at + draw.choice([0, 1, 30]))
            text = text[:at] + draw.choice([*marks, text[at:to] * 2, ""]) + text[to:]
        with contextlib.suppress(InputError):  # whose message is one line
            megatron_lm.read(text, "launch.sh")


@cases(
    "lines",
    ("\n".join(f"A{k + 1}=$A{k}$A{k}$A{k}$A{k}" for k in range(40)) + "\nrun $A40"),  # doubles
    ("A=" + "x" * 20_000 + "\nrun " + "$A " * 10_000),  # 200 MB
    ("X=$(( " + "$aaaa" * 12_000),  # each name of one to four letters
    ("<<A\n" * 15_000),  # none ends
    ("\nab ... " + " " * 60_000 + "x"),
    ("if " + "[ a = a ] && " * 4_000 + "[ a = a ]; then"),
    ("y" * 1_000_000),
)
def test_scripts_that_grow_end(lines: str) -> None:
    text = f"A0=--num-layers\nrun --num-layers 4\n{lines}\n"
    with contextlib.suppress(InputError):
        assert megatron_lm.read(text, "x").fields["num-layers"] == "4"


def test_texts_that_a_script_writes_are_read() -> None:
    text = "A=4\ncat << 'X' > f\n{ $A }\nX\nc <<-Z\n$A\n\tZ\n"
    assert shell.read(text, "x").texts == ["{ $A }\n", "4\n"]


# Doors: what a first spec says, examples that are installed, a measured step


def test_a_starter_spec_states_its_source(tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text(SCRIPT)
    own = quiet(tmp_path / "launch.sh")
    own["scenario"]["node"] = "dgx-a100"
    (tmp_path / "first.toml").write_text(starter_spec(own, "first.toml"))
    assert read_spec(tmp_path / "first.toml") == own
    empty = {
        "outputs": ["step_time"],
        "scenario": {"n_gpus": 64},
        "axes": {"tensor_parallel": [1, 2]},
    }
    (tmp_path / "first.toml").write_text(starter_spec(empty, "first.toml"))
    assert read_spec(tmp_path / "first.toml") == empty


def test_examples_are_installed() -> None:
    assert Sweep.from_file("example:h100").spec["scenario"]["model"] == "llama-3-70b"
    refused("'example:h10' is no example; did you mean 'h100'", Sweep.from_file, "example:h10")


JOB = {
    **{"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 512},
    **{"tensor_parallel": 8, "pipeline_parallel": 4, "global_batch_size": 1024},
    **{"sequence_parallel": True, "compute_model": "roofline", "calibration": "none"},
}


def test_each_cause_alone_gives_the_measured_step() -> None:
    sweep = Sweep(JOB, {}, ["step_time"])
    step = sweep.evaluate()["step_time"].item()
    found = fleetcube.diagnose(sweep, step_time=1.2 * step)
    assert found.predicted == pytest.approx(step)
    assert {"gemm_efficiency", "straggler_slowdown"} <= {cause.name for cause in found.causes}
    for cause in found.causes:
        slow = fleetcube.evaluate(["step_time"], **{**JOB, cause.name: cause.needed})
        assert slow["step_time"].item() == pytest.approx(1.2 * step, rel=1e-3), cause.name
    for part in found.parts:
        assert part.needed - part.now == pytest.approx(0.2 * step)
    for change in found.changes:
        faster = fleetcube.evaluate(["step_time", "infeasible_reason"], **JOB | {**change.inputs})
        assert faster["step_time"].item() == pytest.approx(change.step_ratio * step)
        assert faster["infeasible_reason"].item() == 0
    assert found.best is not None
    assert found.best.step_ratio <= min(change.step_ratio for change in found.changes)
    assert "llama-3-70b" in {run.model for run in found.published}


def test_the_best_layout_is_whole_and_causes_are_near(tmp_path: Path) -> None:
    """Without a distributed optimizer, and with a cause that bends: both were wrong."""
    text = SCRIPT.replace("--use-distributed-optimizer", "").replace("--vocab-size 51200", "")
    (tmp_path / "launch.sh").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sweep = Sweep.from_file(tmp_path / "launch.sh", node="dgx-a100", vocab_size=51200)
    said = sweep.spec["scenario"]
    step = sweep.with_outputs(["step_time"]).evaluate()["step_time"].item()
    found = fleetcube.diagnose(sweep, step_time=3 * step)
    for cause in found.causes:
        slow = Sweep({**said, cause.name: cause.needed}, {}, ["step_time"]).evaluate()
        assert slow["step_time"].item() == pytest.approx(3 * step, rel=1e-4), cause.name
    assert found.best is not None
    outputs = ["step_time", "memory_per_gpu"]
    best = Sweep({**said, **found.best.inputs}, {}, outputs).evaluate()
    assert best["step_time"].item() == pytest.approx(found.best.step_ratio * step)
    assert best["memory_per_gpu"].item() == pytest.approx(found.best.memory)
    lines = changed(read_job(str(tmp_path / "launch.sh")), {**said, **found.best.inputs})
    assert "+ --use-distributed-optimizer" in lines
    assert not any("vocab-size" in line for line in lines)


@cases("name, factor", ("tokens_per_second", 0.5), ("step_time", 2.0))
def test_whatever_was_measured_gives_the_same_step(name: str, factor: float) -> None:
    sweep = Sweep(JOB, {}, [*dict.fromkeys(["step_time", name])])
    told = sweep.evaluate()
    found = fleetcube.diagnose(sweep, **{name: factor * told[name].item()})
    assert found.measured == pytest.approx(2 * told["step_time"].item())
    assert found.mfu == pytest.approx(0.5 * fleetcube.evaluate(["mfu"], **JOB)["mfu"].item())


@cases(
    "measured, words",
    ({"mfu": 32}, "mfu = 32 is no measured value; give it above 0, shares up to 1"),
    ({"step_time": -1}, "step_time = -1"),
    ({"goodput": 0.9}, "goodput is not measured of a step"),
    ({}, "give one measured value: step_time"),
)
def test_what_was_not_measured_is_refused(measured: dict[str, Any], words: str) -> None:
    refused(words, fleetcube.diagnose, Sweep(JOB, {}, ["step_time"]), **measured)
    several = Sweep({**JOB}, {"micro_batch_size": [1, 2]}, ["step_time"])
    refused("micro_batch_size has 2 values", fleetcube.diagnose, several, mfu=0.3)


def test_published_runs_are_of_the_same_gpu() -> None:
    pod = {"model": "llama-3-8b", "node": "tpu-v5p-pod", "n_gpus": 256}
    found = fleetcube.diagnose(Sweep(pod, {}, ["step_time"]), mfu=0.3)
    rows = {row.id: row.inputs for row in read_records()[0]}
    assert {rows[run.id]["gpu"] for run in found.published} == {"tpu-v5p"}


def test_numbers_of_fields_keep_their_digits() -> None:
    job = megatron_lm.read(SCRIPT, "launch.sh")
    job.scenario["moment_bytes"] = 2.0000001
    assert spec_of(job)["scenario"]["moment_bytes"] == "2.0000001 B"
