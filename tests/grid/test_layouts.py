"""The best layouts of a full search agree with `run` there."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fleetcube import InputError, Settings, Sweep
from fleetcube.analysis.layouts import best_layouts, by_phase
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


def command(*words: str, status: int = 0) -> str:
    ran = CliRunner().invoke(cli, ["plan", *words], catch_exceptions=False)
    assert ran.exit_code == status, ran.output
    return ran.output


def test_the_best_are_those_that_all_of_the_grid_has() -> None:
    found = Sweep(JOB, {"n_gpus": [256, 512]}, ["job_time"]).best(search="layout", k=4)
    sure = JOB | {"memory_headroom": True}
    whole = Sweep(sure, {"n_gpus": [256, 512], **TRIED}, ["job_time"])
    times = whole.evaluate(settings=Settings("numpy", infeasible="exclude"))["job_time"]
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


def test_each_sequence_length_is_searched_as_it_is_alone() -> None:
    job = {**JOB, "n_gpus": 256, "global_batch_size": 128}
    lengths = [4096, 32768]  # 8 ranks for one would have 512 tokens each of the other
    beside = Sweep(job, {"sequence_length": lengths}, ["job_time"]).best(search="layout")
    for k, length in enumerate(lengths):
        alone = Sweep({**job, "sequence_length": length}, {}, ["job_time"]).best(search="layout")
        assert beside["whole_layout"].values[k] == alone["whole_layout"].item()
        assert beside["feasible_layouts"].values[k] == alone["feasible_layouts"].item()


def test_an_answer_is_what_a_sweep_says_there_interval_included() -> None:
    found = Sweep(JOB, {}, ["job_time"]).best("step_time", 1, search="layout").squeeze()
    job = {**JOB, **{n: found[n].item() for n in TRIED}}
    names = ["job_time", "mfu", "memory_per_gpu", "goodput", "expected_failures"]
    there = Sweep(job, {}, names).prediction_interval(settings=Settings("numpy"))
    for name in [*names, "job_time_low", "job_time_high", "memory_per_gpu_high"]:
        np.testing.assert_allclose(found[name].item(), there[name].item(), 1e-12, err_msg=name)
    assert found["infeasible_reason"].item() == 0


def test_what_is_stated_stays_and_what_is_named_is_searched() -> None:
    sweep = Sweep({**JOB, "tensor_parallel": 8}, {}, ["job_time"])
    assert "tensor_parallel" not in sweep.best(search="layout", k=1)
    only = sweep.best(k=1, search=["pipeline_parallel", "pipeline_schedule"])
    assert only.attrs["fleetcube_open"] == "pipeline_parallel pipeline_schedule"
    refused("tensor_parallel is stated", sweep.best, search=["tensor_parallel"])
    refused("no values of gpu_mttf are known to try", sweep.best, search=["layout", "gpu_mttf"])
    found = Sweep(JOB, {}, ["job_time"]).best(search=["precision"], k=1)
    assert found.attrs["fleetcube_tried"] == 5  # not FP4, which an H100 lacks


def test_experts_are_spread_where_there_are_some() -> None:
    job = {**JOB, "model": "deepseek-v3", "n_gpus": 2048, "global_batch_size": 15360}
    found = Sweep(job, {}, ["job_time"]).best(search="layout", k=1)
    assert 1 < found["expert_parallel"].item() <= 64  # the most that a published step had
    assert "expert_parallel" not in Sweep(JOB, {}, ["job_time"]).best(search="layout", k=1)


def test_where_nothing_can_run_the_commonest_reason_is_said() -> None:
    found = Sweep({**JOB, "n_gpus": 8}, {}, ["job_time"]).best(search="layout", k=2)
    grid = Sweep({**JOB, "n_gpus": 8}, TRIED, ["job_time"]).evaluate(settings=Settings("numpy"))
    reasons = grid["infeasible_reason"].values.ravel()
    assert found["infeasible_reason"].item() == np.bincount(reasons).argmax() > 0
    assert found["job_time"].isnull().all()
    most = found.attrs["fleetcube_infeasible"].split(", ")[0]
    word = found["infeasible_reason"].attrs["flag_meanings"].split()[np.bincount(reasons).argmax()]
    assert most.split()[1] == word
    told = r"no layout can run: [\d,]+ group_larger_than_cluster, "
    assert re.search(told, command(str(PLAN), "n_gpus=8", status=2))


def test_what_the_limit_of_memory_costs_is_that_of_a_gpu_with_more() -> None:
    found = Sweep(JOB, {}, ["job_time"]).best("step_time", 1, search="layout")
    larger = Sweep({**JOB, "hbm_capacity": "100 TB"}, {}, ["job_time"]).best(
        "step_time", 1, search="layout"
    )
    free = larger["step_time"].item()
    assert found["without_memory_limit"].item() == free < found["step_time"].item()
    said = command(str(PLAN), "n_gpus=512", "hbm_capacity=100TB")
    assert "if memory were no limit" not in said
    none = Sweep({**JOB, "n_gpus": 8}, {}, ["job_time"]).best(search="layout", k=1)
    grid = Sweep({**JOB, "n_gpus": 8}, TRIED, ["memory_margin"]).evaluate(
        settings=Settings("numpy")
    )
    lacking = grid["infeasible_reason"] == 10  # out_of_memory
    nearest = grid["memory_margin"].where(lacking).max().item()
    assert none["nearest_memory_margin"].item() == nearest < 0


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [60.0, 70.0, 80.0, 84.93])
def test_what_is_recommended_fits_even_if_the_model_is_wrong(capacity: float) -> None:
    scenario = {**tomllib.loads(PLAN.read_text())["scenario"], "hbm_capacity": capacity * 1e9}
    sweep = Sweep(scenario, {}, ["job_time"])
    found = sweep.best("job_time", 20, search="layout", also=["memory_per_gpu_high"])
    assert found["memory_per_gpu"].max() * 1.07 == pytest.approx(found["memory_per_gpu_high"].max())
    assert found["memory_per_gpu_high"].max() <= capacity * 1e9
    # a spec may state that it takes the risk
    risky = sweep.replace(scenario={**scenario, "memory_headroom": False})
    assert risky.best("job_time", 20, search="layout")["near_memory_limit"].max() == 1
    if capacity > 80:
        said = command(str(PLAN))
        used = re.search(r"memory of a GPU: ([\d.]+) of 84.9 GB, ([\d.]+)% free; .* 7%", said)
        assert used
        assert float(used[1]) == pytest.approx(found["memory_per_gpu"].values[0] / 1e9, abs=0.06)
        assert float(used[2]) == pytest.approx(100 * (1 - float(used[1]) / 84.93), abs=0.2)


def test_conditions_leave_out_layouts() -> None:
    found = Sweep(JOB).best("step_time", search="layout", where=["memory_per_gpu <= 60 GB"])
    grid = Sweep(JOB, TRIED, ["step_time", "memory_per_gpu"])
    values = grid.evaluate(settings=Settings("numpy", infeasible="exclude"))
    small = values["step_time"].where(values["memory_per_gpu"] <= 60e9)
    assert found["step_time"].item() == small.min().item() > values["step_time"].min().item()
    none = Sweep(JOB).best("step_time", search="layout", where=["memory_per_gpu <= 1 GB"])
    assert none["step_time"].isnull()
    assert none["infeasible_reason"].item() == 0


@cases(
    "changed, how, said",
    ({}, {"sense": "best"}, "choose min or max"),
    ({}, {"k": 0}, "whole number above 0"),
    ({}, {"k": 101}, "more than 100 layouts"),
    ({}, {"over": ["n_gpus"]}, "searched at each point"),
    ({}, {"where": ["job_time = 1 d"]}, "write <= or >="),
    ({}, {"of": "cluster_mtbf"}, "does not depend on the layout"),
    ({}, {"of": "job_tim"}, "did you mean"),
    ({}, {"search": ["layout", "gpu_mtbf"]}, "is not an input"),
    ({}, {"also": ["dominant_overhead"]}, "is a flag"),
)
def test_bad_questions_are_refused(changed: Any, how: Any, said: str) -> None:
    ask = {"search": "layout", **how}
    refused(said, lambda: Sweep({**JOB, **changed}, {}, ["job_time"]).best(**ask))


def test_phases_are_asked_one_by_one() -> None:
    phases = [{"name": "a", "training_tokens": 1e12}, {"name": "b", "training_tokens": 1e11}]
    sweep = Sweep(JOB, {}, ["job_time"], phases=phases)
    refused("one best layout", sweep.best, k=2, search="layout")
    refused("phase='a'", best_layouts, sweep, "job_time", "min", "layout", (), (), 1, Settings())
    refused("has no phases", by_phase, Sweep(JOB, {}, ["job_time"]), "job_time", "min", "layout")


@pytest.mark.slow
def test_the_command_prints_a_plan_and_writes_a_report(tmp_path: Path) -> None:
    report = tmp_path / "plan.html"
    text = command(str(PLAN), "-k", "2", "-o", str(report))
    assert text.startswith("best layout: TP8 ")
    table = text.partition("calibration auto")[0]  # the rest is a remark, which terminals wrap
    assert max(map(len, table.splitlines())) <= 80
    assert "the wall time goes to: compute inefficiency" in text
    assert "what would improve job_time in this layout:\n  n_gpus +100%: job_time -" in text
    assert ", job_cost +" in text
    limited = command(str(PLAN), "n_gpus=32768", "-k", "1")
    # 2,048 sequences over 65,536 / (8 x 16 x 2) replicas are 8 micro-batches for 16 stages
    reason = "65,536 GPUs need a larger batch or another layout (fewer_microbatches_than_stages);"
    assert f"{reason} plan n_gpus=65536" in " ".join(limited.split())
    assert "  n_gpus" not in limited
    page = report.read_text(encoding="utf-8")
    assert '"commands":["tensor_parallel=8 ' in page
    assert len(page) < 1_000_000
    said = json.loads(command(str(PLAN), "--json", "--of", "max mfu"))
    assert said["data_vars"]["mfu"]["data"][0] < 0.6
    several = command(str(PLAN), "n_gpus=4096,8192")
    assert "rows share a part" in several
    # the fastest first; no other has less time, nor less cost
    assert [line.split()[0] for line in several.splitlines()[1:3]] == ["8,192", "4,096"]
    assert several.splitlines()[1].count(" * ") == several.splitlines()[2].count(" * ") == 1


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
zero_stage = 1, recompute = false, sequence_parallel = true, reserved_memory = 0, \
memory_headroom = false }
"""


@pytest.mark.slow
def test_each_phase_of_a_job_has_a_best_layout(tmp_path: Path) -> None:
    spec = written(tmp_path / "spec.toml", IN_PHASES)
    told = command(str(spec)).splitlines()
    found = {line.split()[0]: line for line in told[1:4]}
    assert "as given" in found["last"]
    # every pair of layouts of the whole job
    tried = {"pipeline_parallel": [1, 2, 4, 8, 16, 32], "micro_batch_size": [1, 2, 4, 8, 16]}
    pairs = {f"{name}__{key}": row for key in ("short", "long") for name, row in tried.items()}
    sweep = Sweep.from_file(spec)
    times = sweep.replace(axes=pairs).evaluate(settings=Settings("numpy", infeasible="exclude"))[
        "job_time"
    ]
    best = times.argmin([*pairs])
    for phase in ("short", "long"):
        own = [name for name in pairs if name.endswith(f"__{phase}")]
        stages, batch = (times[name][best[name]].item() for name in own)
        layout = f"PP{stages:g} MBS{batch:g}".removeprefix("PP1 ")
        assert found[phase].split()[1:-2] == f"TP2 {layout} ZeRO-1 SP".split()
    (days,) = [float(line.split()[2]) for line in told if line.startswith("job_time [d]  ")]
    assert days == pytest.approx(times.min().item() / 86400, rel=1e-3)
    each, job = by_phase(sweep, "job_time", "min", "layout")
    assert each["last"] is None
    assert job.with_outputs("job_time").evaluate()["job_time"].item() == times.min().item()
    together = sweep.best(search="layout")
    assert together["phase"].values.tolist() == ["short", "long"]
    assert together["pipeline_parallel"].values.tolist() == [
        each[phase]["pipeline_parallel"].item() for phase in ("short", "long")
    ]
    as_json = json.loads(command(str(spec), "--json"))
    assert (as_json["last"], as_json["short"]["dims"]) == (None, {"rank": 1})


@pytest.mark.slow
def test_phases_are_planned_where_their_times_add_up(tmp_path: Path) -> None:
    spec = written(tmp_path / "spec.toml", IN_PHASES)
    for words, said in (
        (["--of", "max mfu"], "mfu does not add up over phases"),
        (["gpu_mttf=10000h,20000h"], "give one value of gpu_mttf"),
        (["n_gpus__long=3"], "phase 'long': no layout can run"),
    ):
        ran = CliRunner().invoke(cli, ["plan", str(spec), *words])
        assert isinstance(ran.exception, InputError)
        assert said in str(ran.exception)
    page = tmp_path / "page.html"
    command(str(spec), "-o", str(page))
    assert "Plan of" in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_conditions_that_no_layout_meets_are_told_with_the_nearest() -> None:
    for words, told in (
        ([], r"no layout keeps to job_time <= 9 d: the least job_time is [\d.]+ d; change"),
        (["n_gpus=4096,8192"], r"the least job_time is [\d.]+ d"),
        (["n_gpus=8"], ""),  # nothing can run at all
    ):
        ran = CliRunner().invoke(cli, ["plan", str(PLAN), "--where", "job_time <= 9 d", *words])
        assert re.search(told or "no layout can run", f"{ran.exception}{ran.output}"), words


def test_a_stated_layout_is_answered_beside_the_best() -> None:
    layout = ["tensor_parallel=8", "pipeline_parallel=16", "virtual_stages=4", "zero_stage=1"]
    layout += ["context_parallel=1", "expert_parallel=1", "micro_batch_size=1"]
    layout += ["recompute=selective", "sequence_parallel=true"]
    told = command(str(PLAN), *layout)
    assert told.startswith("stated layout: TP8 PP16 VPP4 MBS1 ZeRO-1 recompute=selective SP\n")
    (days,) = [float(line.split()[2]) for line in told.splitlines() if "job_time [d]  " in line]
    (best,) = re.findall(r"the best of [\d,]+ layouts: TP8 .*?: job_time\s+([\d.]+) d", told, re.S)
    assert float(best) < days
    assert f"best layout: {re.findall('layouts: (.*?):', told)[0]}\n" in command(str(PLAN))
    small = command(str(PLAN), *layout, "hbm_capacity=40GB")
    assert "cannot run: out_of_memory" in small


def test_each_combination_is_planned_as_by_itself() -> None:
    axes: dict[str, Any] = {"software": ["megatron-lm", "torchtitan"], "n_gpus": [64, 512]}
    axes |= {"price": {"labels": ["dear", "cheap"], "gpu_hour_price": [3.0, 2.0]}}
    scenario = {n: v for n, v in JOB.items() if n in ("model", "node", "fabric", "gpu_mttf")}
    scenario |= {"global_batch_size": 512, "checkpoint_write_bandwidth": "100 GB/s"}
    found = Sweep(scenario, axes, ["job_time"]).best(search="layout")
    assert found["job_time"].dims == ("software", "n_gpus", "price")
    for software in axes["software"]:
        for gpus in axes["n_gpus"]:
            one = Sweep({**scenario, "software": software, "n_gpus": gpus}, {}, ["job_time"])
            alone = one.best(search="layout")
            at = found.sel(software=software, n_gpus=gpus, price="cheap")
            assert at["job_time"].item() == alone["job_time"].item()
            assert at["whole_layout"].item() == alone["whole_layout"].item()
    # torchtitan shards gradients at least, which Megatron-LM never does
    own = found["whole_layout"].sel(n_gpus=512, price="cheap")
    assert "ZeRO-1" in own.sel(software="megatron-lm").item()
    assert "ZeRO-1" not in own.sel(software="torchtitan").item()
    flat = found.stack(row=["software", "n_gpus", "price"])
    pairs = list(zip(flat["job_time"].values, flat["job_cost"].values, strict=True))
    assert len(set(pairs)) == len(pairs)
    beaten = [
        any(t <= time and c <= cost for t, c in pairs if (t, c) != (time, cost))
        for time, cost in pairs
    ]
    assert flat["on_cost_time_front"].values.tolist() == [not each for each in beaten]
    assert 0 < sum(beaten) < len(beaten)


@pytest.mark.slow
def test_one_table_answers_for_all_choices() -> None:
    words = ["n_gpus=8,4096,8192", "node=dgx-h100,dgx-b200", "--of", "job_cost"]
    lines = command(str(PLAN), *words, "--where", "job_time <= 200 d").splitlines()
    costs = [float(line.split()[2]) for line in lines[1:4]]
    assert costs == sorted(costs)
    why = sorted(line.partition(" - (")[2] for line in lines[4:7])
    assert why[:2] == ["group_larger_than_cluster)"] * 2
    assert re.fullmatch(
        r"none keeps to job_time <= 200 d: the least job_time is [\d.]+ d\)", why[2]
    )
    assert all(line.split()[2] == "-" for line in lines[4:7])
    assert lines[7] == "*: no other has less job_time and job_cost"
    assert "8 GPUs: no layout fits in memory" in command(str(PLAN), "n_gpus=8,16", status=2)


def test_chips_that_are_no_slice_leave_other_choices_their_answers() -> None:
    machines = {"labels": ["h100", "v5p"], "gpu": ["h100-sxm", "tpu-v5p"], "gpus_per_node": [8, 4]}
    job = {"model": "llama-3-8b", "fabric": "infiniband-ndr", "n_gpus": 40, "zero_stage": 1}
    job |= {"global_batch_size": 40, "recompute": "full", "micro_batch_size": 1}
    found = Sweep(job, {"machine": machines}).best(search="layout")
    assert found["job_time"].notnull().values.tolist() == [True, False]  # 32 or 64 chips are slices
    assert found["whole_layout"].values[1] == ""


@pytest.mark.slow
def test_the_whole_layout_and_what_is_assumed_stand_beside_an_answer(tmp_path: Path) -> None:
    text = """outputs = ["job_time"]
scenario = { model = "llama-3-405b", node = "dgx-h100", fabric = "roce-400g", n_gpus = 16384, \
tensor_parallel = 8, pipeline_parallel = 4, virtual_stages = 5 }
"""
    spec = written(tmp_path / "spec.toml", text)
    told = command(str(spec), "-k", "1", "-o", str(tmp_path / "open.html"))
    assert told.startswith("best layout: TP8 PP4 VPP5 ")
    # Grattafiori et al. 2024, sections 3.2 and 3.4: 15.6T tokens, sequences of 8K
    assert "\n  training_tokens 15.6T (llama-3-405b): job_time " in told
    assert "\n  node_pool open (default): job_time " in told
    stated = ["training_tokens=1T", "sequence_length=8192", "global_batch_size=2048"]
    stated += ["checkpoint_write_bandwidth=100GB/s"]
    told = command(str(spec), "-k", "1", *stated)
    assert "\n  node_pool open (default): job_time " in told
    assert "(llama-3-405b)" not in told
    modules = "layernorm+mlp"  # modules by their names are a layout to write, too
    rest = ["context_parallel=2", "micro_batch_size=1", "zero_stage=1", f"recompute={modules}"]
    rest += ["sequence_parallel=true", "expert_parallel=1"]
    page = tmp_path / "stated.html"
    told = command(str(spec), *rest, "-o", str(page))
    layout = f"TP8 PP4 VPP5 CP2 MBS1 ZeRO-1 recompute={modules} SP"
    assert told.startswith(f"stated layout: {layout}\n")
    assert layout in page.read_text(encoding="utf-8")
