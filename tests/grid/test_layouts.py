"""The best layouts of a full search agree with `run` there."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fleetcube import InputError, Sweep
from fleetcube.cli import cli

from .common import cases, on_h100, refused, written

PLAN = Path(__file__).parents[2] / "examples" / "plan.toml"
JOB = on_h100("llama-3-70b", software="megatron-lm", n_gpus=512, global_batch_size=512)
JOB |= {"sequence_length": 8192, "recompute": False, "zero_stage": 1, "virtual_stages": 1}
JOB |= {"checkpoint_write_bandwidth": "100 GB/s"}
TRIED: dict[str, list[Any]] = {
    "tensor_parallel": [1, 2, 4, 8],
    "pipeline_parallel": [1, 2, 4, 8, 16, 32, 64],  # 5, 10, 20, 40 divide no cluster here
    "context_parallel": [1, 2],
    "micro_batch_size": [1, 2, 4, 8, 16],
    "sequence_parallel": [False, True],
}


def command(*words: str) -> str:
    ran = CliRunner().invoke(cli, ["plan", *words], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.output


def test_the_best_are_those_that_all_of_the_grid_has() -> None:
    found = Sweep(JOB, {"n_gpus": [256, 512]}, ["job_time"]).best_layouts(top=4)
    whole = Sweep(JOB, {"n_gpus": [256, 512], **TRIED}, ["job_time"])
    times = whole.evaluate("numpy", mask_infeasible=True)["job_time"]
    assert found.attrs["fleetcube_tried"] == times[0].size
    for gpus in (256, 512):
        expected = np.unique(times.sel(n_gpus=gpus).values.round(3))[:4]
        np.testing.assert_allclose(found["job_time"].sel(n_gpus=gpus), expected, 1e-6)
        for rank in range(4):
            layout = {n: found[n].sel(n_gpus=gpus).values[rank] for n in TRIED}
            at = {n: v == "true" if n == "sequence_parallel" else v for n, v in layout.items()}
            # the first of equal layouts is taken
            assert times.sel(n_gpus=gpus, **at).item() == found["job_time"].sel(n_gpus=gpus)[rank]
    able = times.notnull().sum([n for n in times.dims if n != "n_gpus"])
    np.testing.assert_array_equal(found["feasible_layouts"], able)


def test_an_answer_is_what_a_sweep_says_there_interval_included() -> None:
    found = Sweep(JOB, {}, ["job_time"]).best_layouts("step_time").squeeze()
    job = {**JOB, **{n: found[n].item() for n in TRIED}}
    names = ["job_time", "mfu", "memory_per_gpu", "goodput", "expected_failures"]
    there = Sweep(job, {}, names).interval(engine="numpy")
    for name in [*names, "job_time_low", "job_time_high", "memory_per_gpu_high"]:
        np.testing.assert_allclose(found[name].item(), there[name].item(), 1e-12, err_msg=name)
    assert found["infeasible_reason"].item() == 0


def test_what_is_stated_stays_and_what_is_named_is_searched() -> None:
    sweep = Sweep({**JOB, "tensor_parallel": 8}, {}, ["job_time"])
    assert "tensor_parallel" not in sweep.best_layouts()
    only = sweep.best_layouts(inputs=["pipeline_parallel"], also=["pipeline_schedule"])
    assert only.attrs["fleetcube_open"] == "pipeline_parallel pipeline_schedule"
    refused("tensor_parallel is stated", sweep.best_layouts, inputs=["tensor_parallel"])
    refused("no values of gpu_mttf are known to try", sweep.best_layouts, also=["gpu_mttf"])
    found = Sweep(JOB, {}, ["job_time"]).best_layouts(inputs=["precision"])
    assert found.attrs["fleetcube_tried"] == 5  # not FP4, which an H100 lacks


def test_experts_are_spread_where_there_are_some() -> None:
    job = {**JOB, "model": "deepseek-v3", "n_gpus": 2048, "global_batch_size": 15360}
    found = Sweep(job, {}, ["job_time"]).best_layouts()
    assert 1 < found["expert_parallel"].item() <= 64  # the most that a published step had
    assert "expert_parallel" not in Sweep(JOB, {}, ["job_time"]).best_layouts()


def test_where_nothing_can_run_the_commonest_reason_is_said() -> None:
    found = Sweep({**JOB, "n_gpus": 8}, {}, ["job_time"]).best_layouts(top=2)
    grid = Sweep({**JOB, "n_gpus": 8}, TRIED, ["job_time"]).evaluate("numpy")
    reasons = grid["infeasible_reason"].values.ravel()
    assert found["infeasible_reason"].item() == np.bincount(reasons).argmax() > 0
    assert found["job_time"].isnull().all()
    most = found.attrs["fleetcube_infeasible"].split(", ")[0]
    word = found["infeasible_reason"].attrs["flag_meanings"].split()[np.bincount(reasons).argmax()]
    assert most.split()[1] == word
    told = r"no layout can run: [\d,]+ group_larger_than_cluster, "
    assert re.search(told, command(str(PLAN), "n_gpus=8"))


def test_what_the_limit_of_memory_costs_is_that_of_a_gpu_with_more() -> None:
    found = Sweep(JOB, {}, ["job_time"]).best_layouts("step_time")
    larger = Sweep({**JOB, "hbm_capacity": "100 TB"}, {}, ["job_time"]).best_layouts("step_time")
    free = larger["step_time"].item()
    assert found["without_memory_limit"].item() == free < found["step_time"].item()
    said = command(str(PLAN), "n_gpus=512", "hbm_capacity=100TB")
    assert "if memory were no limit" not in said
    none = Sweep({**JOB, "n_gpus": 8}, {}, ["job_time"]).best_layouts()
    grid = Sweep({**JOB, "n_gpus": 8}, TRIED, ["memory_margin"]).evaluate("numpy")
    lacking = grid["infeasible_reason"] == 10  # out_of_memory
    nearest = grid["memory_margin"].where(lacking).max().item()
    assert none["nearest_memory_margin"].item() == nearest < 0


@cases(
    "changed, how, said",
    ({}, {"sense": "best"}, "choose min or max"),
    ({}, {"top": 0}, "not a whole number from 1 to 100"),
    ({}, {"of": "cluster_mtbf"}, "does not depend on the layout"),
    ({}, {"of": "job_tim"}, "did you mean"),
    ({n: row[0] for n, row in TRIED.items()}, {}, "nothing is open"),
    ({}, {"also": ["gpu_mtbf"]}, "is not an input"),
)
def test_bad_questions_are_refused(changed: Any, how: Any, said: str) -> None:
    refused(said, lambda: Sweep({**JOB, **changed}, {}, ["job_time"]).best_layouts(**how))


def test_phases_are_asked_one_by_one() -> None:
    phases = [{"name": "a", "training_tokens": 1e12}, {"name": "b", "training_tokens": 1e11}]
    refused("phase='a'", Sweep(JOB, {}, ["job_time"], phases=phases).best_layouts)
    with pytest.raises(InputError, match="has no phases; call best_layouts"):
        Sweep(JOB, {}, ["job_time"]).best_layouts_by_phase()


def test_the_command_prints_a_plan_and_writes_a_report(tmp_path: Path) -> None:
    report = tmp_path / "plan.html"
    text = command(str(PLAN), "--top", "2", "-o", str(report))
    assert text.startswith("best layout: TP8 ")
    table = text.partition("calibration auto")[0]  # the rest is a remark, which terminals wrap
    assert max(map(len, table.splitlines())) <= 80
    assert "the wall time goes to: compute inefficiency" in text
    assert "what would better job_time in this layout:\n  n_gpus +100%: job_time -" in text
    assert ", job_cost +" in text
    limited = command(str(PLAN), "n_gpus=32768", "--top", "1")
    # 2,048 sequences over 65,536 / (8 x 16 x 2) replicas are 8 micro-batches for 16 stages
    reason = "n_gpus +100%: fewer_microbatches_than_stages in this layout: see n_gpus=65536\n"
    assert reason in limited
    assert "  n_gpus" not in limited
    page = report.read_text(encoding="utf-8")
    assert '"commands":["tensor_parallel=8 ' in page
    assert len(page) < 1_000_000
    said = json.loads(command(str(PLAN), "--json", "--maximize", "mfu"))
    assert said["data_vars"]["mfu"]["data"][0] < 0.6
    several = command(str(PLAN), "n_gpus=4096,8192")
    assert "rows share a part of the model's error" in several
    assert [line.split()[0] for line in several.splitlines()[1:3]] == ["4,096", "8,192"]


IN_PHASES = """
outputs = ["job_time"]
phase = [
  { name = "short", n_gpus = 64, global_batch_size = 128, training_tokens = "50B" },
  { name = "long", n_gpus = 128, global_batch_size = 64, sequence_length = 32768, \
training_tokens = "50B", transition_time = "1 h" },
  { name = "last", n_gpus = 64, training_tokens = "1B", pipeline_parallel = 2, \
micro_batch_size = 1 },
]
scenario = { model = "llama-3-8b", node = "dgx-h100", fabric = "infiniband-ndr", \
calibration = "none", tensor_parallel = 2, context_parallel = 1, virtual_stages = 1, \
zero_stage = 1, recompute = false, sequence_parallel = true }
"""


def test_each_phase_of_a_job_has_a_best_layout(tmp_path: Path) -> None:
    spec = written(tmp_path / "spec.toml", IN_PHASES)
    told = command(str(spec)).splitlines()
    found = {line.split()[0]: line for line in told[1:4]}
    assert "as stated" in found["last"]
    # every pair of layouts of the whole job
    tried = {"pipeline_parallel": [1, 2, 4, 8, 16, 32], "micro_batch_size": [1, 2, 4, 8, 16]}
    pairs = {f"{name}__{key}": row for key in ("short", "long") for name, row in tried.items()}
    sweep = Sweep.from_file(spec)
    times = sweep.replace(axes=pairs).evaluate("numpy", mask_infeasible=True)["job_time"]
    best = times.argmin([*pairs])
    for phase in ("short", "long"):
        own = [name for name in pairs if name.endswith(f"__{phase}")]
        stages, batch = (times[name][best[name]].item() for name in own)
        layout = f"PP{stages:g} MBS{batch:g}".removeprefix("PP1 ")
        assert found[phase].split()[1:-2] == layout.split()
    (days,) = [float(line.split()[2]) for line in told if line.startswith("job_time [d]  ")]
    assert days == pytest.approx(times.min().item() / 86400, rel=1e-3)
    each, job = sweep.best_layouts_by_phase()
    assert each["last"] is None
    assert job.of(["job_time"]).evaluate("numpy")["job_time"].item() == times.min().item()
    as_json = json.loads(command(str(spec), "--json"))
    assert (as_json["last"], as_json["short"]["dims"]) == (None, {"rank": 1})


def test_phases_are_planned_where_their_times_add_up(tmp_path: Path) -> None:
    spec = written(tmp_path / "spec.toml", IN_PHASES)
    for words, said in (
        (["--maximize", "mfu"], "mfu does not add up over phases"),
        (["gpu_mttf=10000h,20000h"], "give one value of gpu_mttf"),
        (["n_gpus__long=3"], "phase 'long': no layout can run"),
    ):
        ran = CliRunner().invoke(cli, ["plan", str(spec), *words])
        assert isinstance(ran.exception, InputError)
        assert said in str(ran.exception)
    page = tmp_path / "page.html"
    command(str(spec), "-o", str(page))
    assert "Plan of" in page.read_text(encoding="utf-8")
