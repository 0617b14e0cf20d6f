"""Answers that can run (decision 57): each verb as a planner types it, and drawn questions whose
answers are held against every point of the grid, evaluated and judged one by one."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import fleetcube
from fleetcube import Settings, Sweep
from fleetcube.analysis import nearest as nearest_of
from fleetcube.cli import cli

from ..draws import generator, scaled
from .common import refused

SPEC = """\
outputs = ["job_time", "job_cost"]
[scenario]
model = "llama-3-405b"
node = "dgx-h100"
fabric = "roce-400g"
calibration = "none"
global_batch_size = 1024
sequence_length = 8192
training_tokens = "15.6T"
gpu_mttf = "50_000 h"
checkpoint_write_bandwidth = "2 TB/s"
gpu_hour_price = 2.5
pipeline_parallel = 16
sequence_parallel = true
[axes]
tensor_parallel = [1, 8]
n_gpus = [2000, 4096, 16384]
"""
DAY = 86400.0


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "job.toml"
    path.write_text(SPEC, encoding="utf-8")
    return str(path)


def said(*words: str, fails: bool = False, status: int = 0) -> str:
    done = CliRunner().invoke(cli, [*words])
    assert bool(done.exit_code) if fails else done.exit_code == status, done.output
    return " ".join(done.output.split()) if not fails else str(done.exception or done.output)


def test_the_best_and_the_front_are_of_tp8(spec: str) -> None:
    """TP1 of 405B holds 16 stages of 50 GB weights alone: no GPU of 80 GB runs it."""
    assert " 8 16,384 " in said("best", spec, "--of", "job_time", "--engine", "numpy")
    front = said("best", spec, "--of", "job_time", "--of", "job_cost", "--engine", "numpy")
    assert " 8 16,384 " in front
    assert " 1 16,384 " not in front
    every = said("best", spec, "--of", "max job_time", "--infeasible", "mark")
    assert "no: " in every, "what counts although it cannot run is marked"
    assert "no: " not in said("best", spec, "--of", "max job_time", "--infeasible", "include")


def test_a_reduction_is_of_what_runs(spec: str) -> None:
    words = ("reduce", spec, "--of", "job_time", "--engine", "numpy")
    least = said(*words, "max")
    assert least == said(*words, "max", "--infeasible", "exclude")
    assert least != said(*words, "max", "--infeasible", "include")


def test_what_is_solved_for_runs(spec: str) -> None:
    """Of 8 x 16 GPUs a replica, 1,024 sequences divide over powers of two alone."""
    table = said("solve", spec, "--for", "n_gpus", "--target", "job_time <= 250 d")
    assert " 8 16,384 " in table
    assert "solved" in table
    more = ("solve", spec, "--for", "n_gpus", "--target", "job_time <= 3000 d", "tensor_parallel=1")
    assert "none_can_run" in said(*more, status=2)
    assert "1 of 1 points: no n_gpus that meets" in said(*more, status=2)
    marked = ("solve", spec, "--for", "n_gpus", "--target", "job_time <= 250 d")
    assert "no: batch_not_divisible" in (words := said(*marked, "--infeasible", "mark"))
    assert "1 of 2 points: this n_gpus meets the target and cannot run" in words


def test_gpus_that_are_solved_for_are_whole_nodes() -> None:
    job = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    job |= {"global_batch_size": 960, "calibration": "none", "recompute": "full"}
    job |= {"training_tokens": "1T"}
    found = Sweep(job).solve("n_gpus", "job_time <= 20 d")
    least = next(
        n
        for n in range(8, 961, 8)
        if 960 % n == 0 and fleetcube.evaluate("job_time", **job, n_gpus=n) <= 20 * DAY
    )
    assert float(found["n_gpus"]) == least


@pytest.mark.parametrize("days", [1.5, 7, 365])
@pytest.mark.parametrize("between", [None, [32, 4096]])
def test_the_smallest_count_that_meets_a_deadline_is_found(days: float, between: Any) -> None:
    """Also where it is the smallest that runs, below which the time is undefined."""
    job: dict[str, Any] = {"model": "llama-3-70b", "node": "dgx-h100", "global_batch_size": 512}
    job |= {"training_tokens": "20B", "tensor_parallel": 8, "pipeline_parallel": 4}
    job |= {"sequence_parallel": True, "calibration": "none", "fabric": "infiniband-ndr"}
    sizes = 32 * 2 ** np.arange(10)
    every = Sweep(job, {"n_gpus": sizes}, ["job_time"]).evaluate(settings=Settings("numpy"))
    good = (every["infeasible_reason"] == 0) & (every["job_time"] <= days * DAY)
    found = Sweep(job).solve("n_gpus", f"job_time <= {days} d", between=between)
    assert float(found["n_gpus"]) == sizes[good.values][0]
    assert found["unsolved_reason"] == 0


def test_requests_that_are_solved_for_fit_beside_the_weights(tmp_path: Path) -> None:
    job = {"model": "llama-3-70b", "node": "dgx-h100", "tensor_parallel": 8.0}
    job |= {"prompt_tokens": 1000.0, "output_tokens": 200.0}
    most = float(fleetcube.evaluate("largest_serving_batch", **job))
    found = Sweep(job).solve("serving_batch_size", "decode_step_time <= 200 ms")
    assert float(found["serving_batch_size"]) == most
    path = tmp_path / "serve.toml"
    rows = [f'{n} = "{v}"' if isinstance(v, str) else f"{n} = {v:g}" for n, v in job.items()]
    path.write_text(f'outputs = ["decode_step_time"]\n[scenario]\n{chr(10).join(rows)}\n')
    words = ["solve", str(path), "--for", "serving_batch_size"]
    assert f"{most:,.0f}" in said(*words, "--target", "decode_step_time <= 200 ms")
    axes = {"serving_batch_size": [most / 2, most, most + 1, 2 * most]}
    best = Sweep(job, axes, ["decode_tokens_per_second"]).best(
        sense="max", of="decode_tokens_per_second"
    )
    assert float(best["serving_batch_size"]) == most


def test_the_nearest_cluster_has_layouts_of_its_own() -> None:
    # degrees are powers of 2, stages may be 5 or 10 times one of 80 layers: 5,120, 8,192, 10,240;
    # nothing but 11, 23 and 31 divides 7,843
    job = {"model": "llama-3-70b", "node": "dgx-h100", "n_gpus": 7843, "global_batch_size": 1024}
    found = Sweep({**job, "software": "megatron-lm"}).best("job_time", search="layout")
    assert "no layout divides a batch of 1,024; 8,192 GPUs can" in found.attrs["fleetcube_nearest"]


def test_a_range_and_a_layout_are_searched_among_what_runs(spec: str) -> None:
    table = said(
        "best",
        spec,
        "--of",
        "job_cost",
        "--search",
        "n_gpus=1024:20000",
        "--where",
        "job_time <= 250 d",
    )
    assert " 8 16,384 " in table
    assert "no_feasible_point" in table


def test_the_fastest_size_keeps_to_its_conditions(spec: str) -> None:
    words = ("scaling-limit", spec, "tensor_parallel=8", "gpu_mttf=50000h", "--search", "none")
    free = said(*words)
    kept = said(*words, "--where", "facility_power <= 40 MW")
    assert "fastest: 16,384 GPUs" in kept
    assert "fastest: 32,768 GPUs" in free
    assert "facility_power 32,768" in kept, "where the condition begins to bind"
    refusal = said(*words, "--where", "facility_power <= 0.5 MW", fails=True)
    assert "the least facility_power is" in refusal


def test_a_comparison_and_a_sensitivity_say_what_cannot_run(spec: str) -> None:
    assert "infeasible: out_of_memory" in said(
        "compare", spec, "n_gpus=16384", "tensor_parallel=1,8"
    )
    ranked = Sweep.from_file(spec).rank_inputs(
        "job_time", at={"n_gpus": 16384, "tensor_parallel": 8}
    )
    above = ranked.sel(input="global_batch_size")
    at = {**Sweep.from_file(spec).spec["scenario"], "n_gpus": 16384, "tensor_parallel": 8}
    for side in ("below", "above"):
        batch = float(above[f"value_{side}"])
        reason = fleetcube.evaluate("infeasible_reason", **{**at, "global_batch_size": batch})
        assert math.isnan(float(above[f"job_time_{side}"])) == bool(reason)


def test_a_function_gives_the_reason_beside_a_value() -> None:
    job = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    job |= {"global_batch_size": 1024, "calibration": "none"}
    law = fleetcube.function(["job_time", "infeasible_reason"], job, ["n_gpus"])
    assert law(n_gpus=1000.0)["infeasible_reason"] > 0


def test_the_nearest_that_can_run_is_said(spec: str, tmp_path: Path) -> None:
    job = tmp_path / "plan.toml"
    text = SPEC.split("[axes]")[0].replace("llama-3-405b", "llama-3-70b")
    text = text.replace("pipeline_parallel = 16", "n_gpus = 2000\ntensor_parallel = 8")
    job.write_text(text, encoding="utf-8")
    plan = said("plan", str(job), status=2)
    line = plan[plan.index("2,000 GPUs: ") :]
    assert line.startswith("2,000 GPUs: no layout divides a batch of 1,024; 2,048 GPUs can, or ")
    batch = float(line.split("with a batch of ")[1].split()[0].strip(";").replace(",", ""))
    for size, divides in ((2000, batch), (2048, 1024.0)):
        again = {**Sweep.from_file(str(job)).spec["scenario"], "n_gpus": size}
        best = Sweep({**again, "global_batch_size": divides}).best(search="layout")
        assert best["job_time"].notnull()
    nothing = said("best", spec, "--of", "job_time", "n_gpus=2000", "tensor_parallel=8", fails=True)
    assert "this layout does not divide a batch of 1,024; 2,048 GPUs can" in nothing


def test_fewer_gpus_near_by_that_are_faster_stand_before_the_nearest() -> None:
    """2,200 GPUs: on 2,304 = 9 x 256 nine divides the stages alone, 2,048 leave them all ways."""
    job = {"model": "llama-3-405b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    job |= {"global_batch_size": 1024, "tensor_parallel": 8, "micro_batch_size": 1}
    job |= {"context_parallel": 1}
    line = Sweep({**job, "n_gpus": 2200}).best(search="layout").attrs["fleetcube_nearest"]
    fewer, nearest, ratio = re.findall(
        r"; ([\d,]+) GPUs can.*; ([\d,]+) GPUs are nearer, and their step takes ([\d.]+) times",
        line,
    )[0]
    sizes = [int(size.replace(",", "")) for size in (fewer, nearest)]
    assert sizes[0] < 2200 < sizes[1] < 2 * 2200 - sizes[0]
    assert "were tried" not in line
    steps = [
        float(
            Sweep({**job, "n_gpus": n, "memory_headroom": True})
            .best("step_time", search="layout")
            .step_time
        )
        for n in sizes
    ]
    assert steps[1] / steps[0] == pytest.approx(float(ratio), abs=0.005)
    assert steps[1] > steps[0]


def test_a_chance_stands_beside_a_deadline() -> None:
    """A lognormal of median m, 90 % within a factor f, is below a level with probability
    Phi(ln(level / m) / (ln f / 1.645))."""
    job = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 1024}
    job |= {"global_batch_size": 1024, "training_tokens": "1T"}
    plain = Sweep(job).best("step_time", search="layout")
    median, high = float(plain["step_time"]), float(plain["step_time_high"])
    deadline = median * 1.1
    found = Sweep(job).best("step_time", search="layout", where=f"step_time <= {deadline!r} s")
    scale = math.log(high / median) / 1.6448536269514722
    right = 0.5 * (1 + math.erf(math.log(1.1) / scale / math.sqrt(2)))
    assert float(found["step_time_chance"]) == pytest.approx(right, abs=5e-3)


def test_nothing_is_searched_where_nothing_can_run() -> None:
    """2 x 10^9 points, of which 5 sizes decide: none fits."""
    job = {"model": "llama-3-405b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    job |= {"calibration": "none", "global_batch_size": 1024, "tensor_parallel": 8}
    axes: dict[str, Any] = {"n_gpus": [8, 16, 32, 64, 128]}
    axes |= {
        "gpu_mttf": np.geomspace(1e8, 1e9, 20_000),
        "restart_time": np.linspace(60, 600, 20_000),
    }
    points = []
    how = Settings("numpy", progress=lambda done, total, unit: points.append(done))
    found = Sweep(job, axes, ["job_time"]).best("job_time", settings=how)
    assert math.isnan(float(found["job_time"]))
    assert max(points, default=0) < 1000


def test_a_job_that_no_layout_ends_is_refused_by_its_time(spec: str) -> None:
    """GPUs that last a second leave no time for work, though many layouts can run."""
    never = ("tensor_parallel=8", "gpu_mttf=1s")
    refusal = r"^job_time is infinite in all [\d,]+ layouts that can run, .*; change the scenario"
    assert re.search(refusal, said("plan", spec, "n_gpus=4096", *never, fails=True))
    late = ("--where", "job_time <= 30 d")
    assert re.search(refusal, said("plan", spec, "n_gpus=4096", *never, *late, fails=True))
    assert re.search(refusal, said("scaling-limit", spec, *never, fails=True))
    several = said("plan", spec, "n_gpus=4096", "tensor_parallel=8", "gpu_mttf=1s,50000h")
    assert "- (job_time is infinite)" in several
    best = said("best", spec, "--of", "job_time", *never, fails=True)
    assert "job_time is finite at no point that can run; change the scenario" in best
    assert "memory_headroom" not in best
    assert "TP8" in said("plan", spec, "n_gpus=4096", *never, "--of", "step_time")
    assert " nan" not in said("compare", spec, "best", "n_gpus=4096", *never)
    wide = ("n_gpus=4096", "tensor_parallel=8", "pipeline_parallel=9007199254740991")
    assert re.search("tensor leaf switch .*It cannot run", said("explain", spec, *wide))


def test_a_condition_that_no_layout_moves_is_said_with_its_value(spec: str) -> None:
    words = ("plan", spec, "n_gpus=4096", "tensor_parallel=8", "micro_batch_size=1")
    refusal = said(*words, "--where", "facility_power <= 1 MW", fails=True)
    assert "the least facility_power is 6.267 MW" in refusal  # 512 x 10.2 kW x 1.2
    by = ("start_date=2026-01-01", "--where", "finish <= 2026-01-02")
    assert "no layout keeps to finish <= 2026-01-02: the least job_time" in said(
        *words, *by, fails=True
    )
    late = ("best", spec, "--of", "job_cost", "start_date=2026-01-01", "--where")
    assert " 8 16,384 " in said(*late, "finish <= 2027-01-01")


def test_ranges_and_fronts_name_the_nearest_that_can_run(spec: str) -> None:
    words = ("best", spec, "--of", "job_time", "tensor_parallel=8", "--search")
    line = "16,000 GPUs: this layout does not divide a batch of 1,024; 16,384 GPUs can"
    assert line in said(*words, "n_gpus=15000:16000", status=2)
    front = ("best", spec, "--of", "job_time", "--of", "job_cost", "tensor_parallel=8")
    assert "; 2,048 GPUs can" in said(*front, "n_gpus=2000", fails=True)


def test_what_reads_no_layout_is_solved_in_nodes_and_judged_by_a_layout_given(spec: str) -> None:
    words = ("solve", spec, "--for", "n_gpus", "--target", "facility_power <= 5 MW")
    assert " 8 2,048 " in said(*words)  # 1,024 sequences over powers of two
    job = {"node": "dgx-h100", "model": "llama-3-70b", "global_batch_size": 1024}
    found = Sweep({**job, "fabric": "roce-400g", "calibration": "none"}).solve(
        "n_gpus", "facility_power <= 5 MW"
    )
    assert float(found["n_gpus"]) == 8 * math.floor(5e6 / (10.2e3 * 1.2))
    assert "not judged" in found.attrs["fleetcube_remarks"]


def test_selectors_complete_the_specs_that_are_compared(tmp_path: Path) -> None:
    for name, node in (("a", "dgx-h100"), ("b", "dgx-b200")):
        job = SPEC.split("[axes]")[0].replace("dgx-h100", node) + "tensor_parallel = 8\n"
        (tmp_path / name).write_text(job, encoding="utf-8")
    words = ("compare", str(tmp_path / "a"), str(tmp_path / "b"), "n_gpus=16384")
    assert "at n_gpus = 16384" in said(*words)
    told = said(*words, "gpu_tdp=700W", "--of", "facility_power")
    assert "gpu_tdp is stated once, and the same for dgx-h100, dgx-b200" in told
    chips = said("compare", *words[1:], "node=tpu-v5p-pod", "--of", "facility_power", fails=True)
    assert "the catalog has none of tpu-v5p" in chips


SLOW_HEADS = [  # BigScience's chronicles-prequel.md: width, heads, elements of a slow head
    (13824, 64, None),
    (13824, 96, None),
    (13824, 128, 108),
    (14400, 64, 225),
    (14336, 112, None),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("width", "heads", "slow"), SLOW_HEADS)
def test_heads_that_unfused_attention_is_slow_with_are_named(
    width: int, heads: int, slow: int | None
) -> None:
    """Of 13,824 wide models those with 128 heads alone took 33 to 40 % longer; fused kernels fill
    them up."""
    job = {"gpu": "a100-sxm-80gb", "fabric": "infiniband-hdr", "n_gpus": 384, "layers": 84}
    job |= {"hidden_size": width, "attention_heads": heads, "kv_heads": heads}
    job |= {"compute_model": "roofline", "precision": "fp16"}

    def named(*kernels: str) -> list[str]:
        found = Sweep(job, {"attention_kernel": [*kernels]}, ["step_time"]).evaluate()
        stated = str(found.attrs.get("fleetcube_remarks", ""))
        return re.findall("heads of (.*) elements are no multiple of 16 bytes", stated)

    expected = [f"{slow}"] if slow else []
    assert named("standard") == expected
    assert named("flash") == []
    assert named("standard", "flash") == expected


def test_racks_are_told_from_nodes() -> None:
    job = {"model": "llama-3-70b", "fabric": "roce-400g", "calibration": "none", "n_gpus": 576}
    job |= {"global_batch_size": 1152, "tensor_parallel": 8}

    def remarks(**more: Any) -> str:
        found = Sweep({**job, **more}, {}, ["job_time"]).evaluate(settings=Settings("numpy"))
        return str(found.attrs.get("fleetcube_remarks", ""))

    assert "one domain of fast links" in remarks(gpu="gb200", gpus_per_node=72)
    assert "one domain" not in remarks(gpu="gb200", gpus_per_node=4, gpus_per_domain=72)
    assert "one domain" not in remarks(node="gb200-nvl72")
    assert "give gb200-nvl72-tray" in remarks(node="gb200-nvl72", n_gpus=580)
    found = Sweep({**job, "node": "gb200-nvl72"}).solve("n_gpus", "job_time <= 900 d")
    assert "give gb200-nvl72-tray" in found.attrs["fleetcube_remarks"]


def test_the_account_of_memory_names_what_software_has(spec: str) -> None:
    words = ("explain", "memory_per_gpu", spec, "n_gpus=16384", "tensor_parallel=8")
    assert {"zero_stage = 3", "zero_stage = 2"} <= {*re.findall("zero_stage = [23]", said(*words))}
    assert "zero_stage = 1" in (told := said(*words, "software=megatron-lm"))
    assert not re.findall("zero_stage = [23]", told)


def test_serving_that_does_not_fit_has_its_reason_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "serve.toml"
    rows = 'model = "llama-3-405b"\nnode = "dgx-h100"\ntensor_parallel = 8\n'
    path.write_text(
        f'outputs = ["decode_tokens_per_second"]\n[scenario]\n{rows}prompt_tokens = 1000\n'
        "output_tokens = 200\n",
        encoding="utf-8",
    )
    assert "no_request_fits" in said("run", str(path))  # 810 GB of weights over 8 x 80 GB
    assert "serving_memory_reason" not in said("run", str(path), "model=llama-3-8b")


@pytest.mark.slow  # some 300 questions
def test_drawn_questions_are_answered_as_by_hand() -> None:
    """Every answer is the one that a search of all points, each judged by itself, gives."""
    draw = generator(57)
    verbs = ("best", "rank", "front", "least", "solve", "smallest", "most", "range", "limit")
    asked = dict.fromkeys(verbs, 0)
    for _ in range(scaled(25)):
        job: dict[str, Any] = {
            "node": "dgx-h100",
            "fabric": "infiniband-ndr",
            "calibration": "none",
        }
        job["model"] = str(draw.choice(["llama-3-8b", "llama-3-70b", "llama-2-13b"]))
        job["global_batch_size"] = int(draw.choice([96, 480, 512, 1000, 1024]))
        job["checkpoint_write_bandwidth"] = "100 GB/s"
        job["gpu_hour_price"] = 2.5
        job["sequence_parallel"] = bool(draw.integers(2))
        job["memory_headroom"] = False
        axes = {
            "tensor_parallel": sorted({1, int(draw.choice([2, 4, 8]))}),
            "n_gpus": sorted(
                {int(n) for n in draw.choice([8, 40, 96, 128, 384, 512, 1000, 1024], 4)}
            ),
        }
        sweep = Sweep(job, axes, ["job_time", "job_cost"], settings=Settings("numpy"))
        values = sweep.evaluate()
        runs = (values["infeasible_reason"] == 0).values
        assert values["infeasible_reason"].dims == values["job_time"].dims
        time, cost = (np.where(runs, values[n].values, np.nan) for n in ("job_time", "job_cost"))
        good = np.sort(time[np.isfinite(time)])
        found = sweep.best("job_time")
        assert same(found["job_time"], good[0] if good.size else np.nan)
        asked["best"] += 1
        ranked = sweep.best("job_time", 3)["job_time"].values
        assert np.array_equal(ranked[np.isfinite(ranked)], good[:3])
        asked["rank"] += 1
        front = sweep.best(["job_time", "job_cost"])
        pairs = {
            (t, c) for t, c in zip(time.ravel(), cost.ravel(), strict=True) if t == t and c == c
        }
        best = {p for p in pairs if not any(beats(o, p) for o in pairs)}
        there = zip(front["job_time"].values, front["job_cost"].values, strict=True)
        assert set(there) == best
        asked["front"] += 1
        least = sweep.reduce("min", settings=Settings("numpy", "exclude"))["job_time"]
        assert same(least, good[0] if good.size else np.nan)
        asked["least"] += 1
        target = float(np.exp(draw.uniform(math.log(20), math.log(20_000)))) * DAY
        for tensor in axes["tensor_parallel"]:
            one = {**job, "tensor_parallel": tensor}
            step = math.lcm(tensor, 8)
            sizes = np.arange(step, step * job["global_batch_size"] + 1, step)
            grid = Sweep(one, {"n_gpus": sizes}, ["job_time"]).evaluate(settings=Settings("numpy"))
            able = (grid["infeasible_reason"] == 0).values
            times = np.where(able, grid["job_time"].values, np.nan)
            found = Sweep(one).solve("n_gpus", f"job_time <= {target!r} s")
            met = sizes[able & (times <= target)]
            assert same(found["n_gpus"], met[0] if met.size else np.nan)
            asked["smallest"] += bool(met.size) and met[0] == sizes[able][0]
            asked["solve"] += 1
            found = Sweep(one).best("job_time", search={"n_gpus": [8, float(sizes[-1])]})
            fastest = np.nanmin(times) if able.any() else np.nan
            assert same(found["job_time"], fastest)
            asked["range"] += 1
            if not able.any():
                refused("can be run", Sweep(one).scaling_limit)
                continue
            spent = sizes * times
            budget = float(draw.uniform(0.9, 1.5) * spent[able][0])
            over = able & (spent > budget)  # the work of a GPU grows with their number
            kept = sizes[able & (np.cumsum(over) == 0)]
            most = Sweep(one).solve("n_gpus", f"gpu_hours <= {budget!r} s")
            assert same(most["n_gpus"], kept[-1] if kept.size else np.nan)
            asked["most"] += over.any() and bool(kept.size)
            power = float(draw.choice([0.2e6, 1e6, 5e6]))
            powers = Sweep(one, {"n_gpus": sizes}, ["facility_power"]).evaluate(
                settings=Settings("numpy")
            )["facility_power"]
            where = f"facility_power <= {power!r} W"
            if powers.values[able][0] > power:
                refused("keeps to", Sweep(one).scaling_limit, where=where)
                continue
            limit = Sweep(one).scaling_limit(where=where)
            at = int(np.flatnonzero(sizes == float(limit["fastest_gpus"]))[0])
            assert able[at]
            assert powers[at] <= power
            assert same(limit["fastest_time"], np.nanmin(times[powers.values <= power]))
            asked["limit"] += 1
    assert all(asked.values()), asked


def same(answer: Any, right: float) -> bool:
    value = float(answer)
    return value == pytest.approx(right, rel=1e-12, nan_ok=True)


def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] <= other[0] and one[1] <= other[1]


def test_the_nearest_of_a_billion_sequences_is_sought_in_little_memory() -> None:
    # whole numbers between half and twice of it: 24 GB were made before
    around, step = nearest_of._around(1e9, 8, 1 << 10)
    assert len(around) <= 4 << 10
    assert step > 8
    near = np.sort(around[np.abs(around - 1e9) <= 8 << 10])
    assert np.array_equal(near, 1e9 + 8.0 * np.array([k for k in range(-1024, 1025) if k]))
    assert (around >= 5e8).all()
    assert (around <= 2e9).all()
    assert not (around % 8).any()
    some, all_ = nearest_of._around(100.0, 1, 1 << 10)
    assert (sorted(some), all_) == ([float(k) for k in range(50, 201) if k != 100], 1.0)
    assert len(nearest_of._around(2.0**53 - 1, 1, 1 << 10)[0]) <= 4 << 10
