"""What frameworks can run: searches keep to it, stated scenarios outside are told."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import fleetcube
from fleetcube import catalog
from fleetcube.cli import cli

from .common import on_h100

ROOT = Path(__file__).parents[2]
JOB = on_h100("llama-3-8b", n_gpus=64, global_batch_size=256, sequence_length=4096)


def command(*words: str) -> str:
    ran = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return " ".join(ran.output.split())


def written(tmp: Path, job: Any) -> str:
    rows = (f"{name} = {value!r}" for name, value in job.items())
    (tmp / "job.toml").write_text("\n".join(["[scenario]", *rows]))
    return str(tmp / "job.toml")


# Megatron-LM: one stage of ZeRO; torchtitan: FSDP2, sequences sharded with tensor parallelism;
# DeepSpeed: "ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism" (pipe/engine.py);
# FSDP: data-parallel ranks alone
def is_had(software: str, layout: dict[str, Any]) -> bool:
    zero, stages = layout["zero_stage"], layout["pipeline_parallel"]
    if software == "megatron-lm":
        return bool(zero in (0, 1))
    if software == "torchtitan":
        shards = layout["sequence_parallel"] or layout["tensor_parallel"] == 1
        return bool(zero != 1 and shards and layout["recompute"] in FEWER)
    if software == "deepspeed":
        return bool(layout["virtual_stages"] == 1 and (stages == 1 or zero < 2))
    return bool(stages == layout["tensor_parallel"] == layout["context_parallel"] == 1 and zero > 1)


FEWER = ("alternate_products", "full", False)


@pytest.mark.parametrize("software", ["megatron-lm", "torchtitan", "deepspeed", "fsdp"])
def test_the_best_layouts_are_those_that_the_framework_has(software: str) -> None:
    from fleetcube.analysis.layouts import layout_at
    from fleetcube.grid.run.evaluation import Evaluation

    own = {**JOB, "software": software, "hbm_capacity": "60 GB"}
    best = fleetcube.Sweep(own, {}, ["job_time"]).best(search="layout", k=8)
    names = best.attrs["fleetcube_open"].split()
    assert best["job_time"].notnull().any()
    for rank in range(int(best["job_time"].notnull().sum())):
        told = {name: best[name].values[rank] for name in names}
        said = {n: v == "true" if v in ("true", "false") else v for n, v in told.items()}
        said = {n: int(v) if n == "zero_stage" else v for n, v in said.items()}
        assert is_had(software, layout_at(Evaluation({**own, **said}, {}, ["job_time"]))), said


def test_deepspeed_searches_all_of_zero_where_no_pipeline_is() -> None:
    own = {**JOB, "software": "deepspeed"}
    alone = fleetcube.Sweep({**own, "pipeline_parallel": 1}, {}, ["job_time"])
    deep = fleetcube.Sweep({**own, "zero_stage": 3}, {}, ["job_time"])
    assert "zero_stage" in alone.best(search="layout", k=1).attrs["fleetcube_open"].split()
    assert "pipeline_parallel" not in deep.best(search="layout", k=1).attrs["fleetcube_open"]


def test_what_is_stated_outside_is_told_and_what_is_open_is_its_own(tmp_path: Path) -> None:
    spec = written(tmp_path, JOB)
    asked = ("run", spec, "-v", "memory_per_gpu", "-v", "step_time")
    said = command(*asked, "software=megatron-lm", "zero_stage=3")
    assert "megatron-lm (Megatron-Core 0.13) has zero_stage 1, 0, not 3" in said
    assert "has zero_stage" not in command(*asked, "software=megatron-lm", "zero_stage=1")
    said = command(*asked, "software=deepspeed", "zero_stage=2", "pipeline_parallel=2")
    assert "has zero_stage 1, 0, not 2" in said
    assert "has zero_stage" not in command(*asked, "software=deepspeed", "zero_stage=2")
    memory = {
        software: fleetcube.evaluate("memory_per_gpu", **JOB, software=software).item()
        for software in ("megatron-lm", "megatron-bridge")
    }
    # a gradient in FP32 for each of 8.03e9 parameters on a GPU, in place of BF16, and a buffer
    more = memory["megatron-lm"] - memory["megatron-bridge"]
    assert more == pytest.approx(2 * 8.03e9, rel=0.05)
    stated = fleetcube.evaluate(
        "memory_per_gpu", **JOB, software="megatron-lm", gradient_storage="bf16"
    )
    assert stated == memory["megatron-bridge"]


# transformer_config.py of Megatron-Core up to 0.15: "num_query_groups must be a multiple of
# tensor_model_parallel_size"; pytorch/torchtitan#2574: n_kv_heads % TP == 0
@pytest.mark.parametrize(
    ("software", "ranks"),
    [
        ("megatron-lm", [1, 2]),
        ("torchtitan", [1, 2]),
        ("deepspeed", [1, 2]),
        ("maxtext", [1, 2, 4, 8]),
    ],
)
def test_tensor_parallelism_divides_kv_heads(software: str, ranks: list[int]) -> None:
    from fleetcube.analysis.layouts import candidates
    from fleetcube.grid.run.evaluation import Evaluation

    own = {**JOB, "software": software}
    few = Evaluation(own, {"kv_heads": [8, 2]}, ["job_time"])
    assert candidates(few, "job_time", "layout")["tensor_parallel"] == ranks
    many = Evaluation(own, {}, ["job_time"])
    assert candidates(many, "job_time", "layout")["tensor_parallel"] == [1, 2, 4, 8]


def test_tensor_parallelism_above_the_kv_heads_is_told(tmp_path: Path) -> None:
    asked = ("run", written(tmp_path, JOB), "software=torchtitan", "-v", "step_time")
    said = command(*asked, "tensor_parallel=8,16")
    assert "torchtitan (torchtitan 0.3) has tensor_parallel that divides kv_heads 8, not 16" in said
    assert "divides kv_heads" not in command(*asked, "tensor_parallel=8")


@pytest.mark.slow
def test_changes_of_a_plan_say_what_the_best_layout_has(tmp_path: Path) -> None:
    """The best of a script without a distributed optimizer has one."""
    flags = "--num-layers 24 --hidden-size 2304 --num-attention-heads 24 --seq-length 2048 --fp16"
    more = "--vocab-size 51200 --micro-batch-size 1 --global-batch-size 512 --train-iters 9"
    (tmp_path / "run.sh").write_text(
        f"torchrun --nnodes 4 --nproc-per-node 8 a.py {flags} {more}\n"
    )
    said = command("plan", str(tmp_path / "run.sh"), "node=dgx-a100", "--as", "megatron-lm")
    assert "ZeRO-1" in said
    assert "+ --use-distributed-optimizer" in said


def test_explain_lists_where_inputs_come_from(tmp_path: Path) -> None:
    said = command("explain", written(tmp_path, {**JOB, "software": "torchtitan"}))
    assert "stated: " in said
    assert "software torchtitan: zero_stage 3, sequence_parallel true, recompute alternate" in said
    assert "gpu h100-sxm: peak_flops_fp16" in said


def test_records_name_choices_that_there_are() -> None:
    for record in catalog.kind("software").values():
        assert record.values["version"]
        for name, own in record.values.get("own", {}).items():
            assert own in record.values["has"].get(name, [own])
        for name, row in record.values.get("pipelined", {}).items():
            assert {*row} < {*record.values["has"][name]}
