"""Each argument of Megatron-LM and of launchers is of one kind: read, without effect, or known and
not counted. The list of names is of its arguments.py of 2026-08 and of five older releases."""

import re
from pathlib import Path

import pytest

from fleetcube.formats import megatron_lm
from fleetcube.formats.read import field_report, read_job, summary

from .common import cases

NAMES = (Path(__file__).parents[1] / "data" / "megatron_lm_arguments.txt").read_text().split()
BASE = (
    "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --bf16 "
    "--num-attention-heads 8 --seq-length 2048 --vocab-size 32000 --micro-batch-size 1 "
    "--global-batch-size 64 "
)


@pytest.mark.parametrize("part", ["without", "uncounted"])
def test_each_pattern_is_of_a_real_argument(part: str) -> None:
    for why, row in getattr(megatron_lm.format_table(), part).items():
        for pattern in re.split(r"\s\|\s", row):
            name = pattern.split("=")[0]
            assert any(re.fullmatch(name, each) for each in NAMES), (why, pattern)


def test_no_argument_is_of_two_kinds() -> None:
    table = megatron_lm.format_table()
    read = {*table.inputs, *table.model, *table.switches, *table.words}
    uncounted = [re.compile(row, re.VERBOSE) for row in table.uncounted.values()]
    for name in NAMES:
        known = any(row.fullmatch(name) for row in uncounted)
        kinds = [name in read, bool(table.why_ignored(name)), known]
        assert sum(kinds) <= 1, (name, kinds)


@cases(
    "flags, uncounted",
    ("--attention-backend flash --transformer-impl transformer_engine --use-flash-attn", []),
    ("--cuda-graph-impl none --empty-unused-memory-level 0", []),
    ("--cuda-graph-impl local", []),
    ("--cuda-graph-impl local --cuda-graph-scope full", ["cuda-graph-scope"]),
    ("--cuda-graph-impl local --cuda-graph-scope attn", []),
    ("--empty-unused-memory-level 2", ["empty-unused-memory-level"]),
    ("--moe-flex-dispatcher-backend deepep", []),
    ("--moe-flex-dispatcher-backend hybridep", ["moe-flex-dispatcher-backend"]),
    ("--fp8-output-proj --tp-comm-overlap", ["fp8-output-proj", "tp-comm-overlap"]),
    (
        "--no-masked-softmax-fusion --cross-entropy-loss-fusion",
        ["cross-entropy-loss-fusion", "no-masked-softmax-fusion"],
    ),
    ("--optimizer-offload-fraction 0.5", ["optimizer-offload-fraction"]),
    ("--optimizer-offload-fraction 1.0", []),
    (
        "--use-transformer-engine-op-fuser --moe-permute-fusion",
        ["moe-permute-fusion", "use-transformer-engine-op-fuser"],
    ),
)
def test_values_say_whether_a_field_changes_what_is_not_counted(
    tmp_path: Path, flags: str, uncounted: list[str]
) -> None:
    path = tmp_path / "launch.sh"
    path.write_text(BASE + flags)
    job = read_job(str(path))
    assert sorted(job.uncounted) == uncounted
    assert not job.unknown
    assert ("known and not counted" in summary(job)) == bool(uncounted)
    assert ("Known and not counted, with what they change" in field_report(job)) == bool(uncounted)


@cases(
    "flags, inputs",
    ("--attention-backend unfused", {"attention_kernel": "standard"}),
    ("--transformer-impl local", {"attention_kernel": "standard"}),
    ("--fp8-dot-product-attention", {"attention_precision": "fp8"}),
    ("--fp8-format hybrid", {"quantised_parameters": False}),
    ("--fp8-format hybrid --fp8-param-gather", {"quantised_parameters": True}),
    ("--use-torch-fsdp2 --torch-fsdp2-no-reshard-after-forward", {"zero_stage": 2}),
    (
        "--fp4-format e2m1 --first-last-layers-bf16 --num-layers-at-end-in-bf16 3",
        {"sixteen_bit_layers_share": 0.5},
    ),
    ("--cpu-offloading-num-layers 2", {"activation_offload": "layers", "offloaded_layers": 2}),
    (
        "--fine-grained-activation-offloading --offload-modules attn_norm,moe_act",
        {"offload_attn_norm": 1, "offload_moe_act": 1},
    ),
)
def test_what_inputs_say_is_read(tmp_path: Path, flags: str, inputs: dict[str, object]) -> None:
    path = tmp_path / "launch.sh"
    path.write_text(BASE + flags)
    job = read_job(str(path))
    assert inputs.items() <= job.scenario.items()
    assert not {*job.uncounted, *job.unknown}


EXPERTS = "--num-experts 8 --expert-model-parallel-size 8 --use-transformer-engine-op-fuser "


def test_products_of_experts_are_fused_and_passes_overlap(tmp_path: Path) -> None:
    path = tmp_path / "launch.sh"
    path.write_text(BASE + EXPERTS + "--overlap-moe-expert-parallel-comm")
    job = read_job(str(path))
    read = {"grouped_products": "fused", "pipeline_schedule": "combined_1f1b"}
    assert read.items() <= job.scenario.items()
    assert "use-transformer-engine-op-fuser" not in job.uncounted


@cases("stated, found", ("1", "fp8"), ("true", "fp8"), ("0", None), ("false", None), ("null", None))
def test_attention_in_fp8_is_read_from_yaml(tmp_path: Path, stated: str, found: str | None) -> None:
    fields = {"encoder_seq_length": 4096, "num_layers": 4, "hidden_size": 1024, "fp8": "true"}
    fields |= {"num_attention_heads": 8, "micro_batch_size": 1, "global_batch_size": 64}
    fields |= {"tensor_model_parallel_size": 1, "fp8_dot_product_attention": stated}
    path = tmp_path / "job.yaml"
    lines = ["trainer:", "  num_nodes: 1", "  devices: 8", "  precision: bf16", "model:"]
    path.write_text("\n".join([*lines, *(f"  {name}: {v}" for name, v in fields.items())]))
    assert read_job(str(path)).scenario.get("attention_precision") == found


@cases(
    "flag, unread",
    ("--bf16", True),
    ("--log-throughput", True),
    ("--no-masked-softmax-fusion", True),
    ("--tp-comm-overlap", True),
    ("--use-flash-attn", True),
    ("--finetune", True),
    ("--moe-grouped-gemm", True),
    ("--exit-signal-handler", True),
    ("--global-batch-size 64", True),
    ("--lr", False),  # its value, on which nothing depends
    ("--log-interval", False),
    ("--tokenizer-model", False),
)
def test_an_open_word_is_no_value_of_a_flag_that_takes_none(
    tmp_path: Path, flag: str, unread: bool
) -> None:
    path = tmp_path / "launch.sh"
    path.write_text(f"{BASE} {flag} $EXTRA_ARGS")
    left = "not read: $EXTRA_ARGS, which may hold arguments"
    assert (left in read_job(str(path)).remarks) == unread


OVERLAP = "--overlap-grad-reduce", "--overlap-param-gather"


@cases(
    "flags, inputs",
    ("", {"data_parallel_overlap": 0}),
    (f"--use-distributed-optimizer {OVERLAP[1]}", {"data_parallel_overlap": 0}),
    (OVERLAP[0], {}),  # weights are not gathered without sharding
    (f"--use-distributed-optimizer {OVERLAP[0]}", {"weight_gather_overlap": 0}),
    (f"--use-distributed-optimizer {' '.join(OVERLAP)}", {}),
    ("--use-megatron-fsdp", {}),  # which always hides it
)
def test_traffic_without_its_flag_is_not_hidden(
    tmp_path: Path, flags: str, inputs: dict[str, object]
) -> None:
    path = tmp_path / "launch.sh"
    path.write_text(BASE + flags)
    job = read_job(str(path))
    read = {name: value for name, value in job.scenario.items() if name.endswith("_overlap")}
    assert read == inputs
    assert [remark.rpartition(": ")[2] for remark in job.remarks] == [
        f"{name} = 0" for name in inputs
    ]
    fields = megatron_lm.to_fields(job.scenario, {})
    assert {f"--{name}" for name in fields} & {*OVERLAP} <= {*flags.split()}


def test_a_flag_of_overlap_that_may_be_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "launch.sh"
    path.write_text(f'MORE=\nif [ "$(date)" = y ]; then MORE={OVERLAP[0]}; fi\n{BASE} $MORE')
    job = read_job(str(path))
    assert "data_parallel_overlap" not in job.scenario
    assert (
        "--overlap-grad-reduce may be there; data_parallel_overlap=0 is without it" in job.remarks
    )


def test_steps_between_checkpoints_are_read(tmp_path: Path) -> None:
    path = tmp_path / "launch.sh"
    path.write_text(f"{BASE} --save-interval 500")
    assert "checkpoint_steps" not in read_job(str(path)).scenario  # without a folder none is saved
    path.write_text(f"{BASE} --save /c --save-interval 500")
    read = {"checkpoint_steps": 500, "checkpoint_policy": "steps"}
    assert read.items() <= read_job(str(path)).scenario.items()
    job = read_job(str(path), {"checkpoint_interval": "1 h"})
    assert not read.keys() & job.scenario.keys()
