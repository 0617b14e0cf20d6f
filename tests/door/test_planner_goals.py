"""Questions of a planner in one command: the largest model by a date, GPUs of a site, networks."""

import math
import re
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fleetcube import InputError, Sweep, evaluate
from fleetcube.cli import cli

LAYOUT = ("pipeline_parallel=4", "virtual_stages=1", "context_parallel=1", "zero_stage=1")
LAYOUT = (*LAYOUT, "micro_batch_size=1", "recompute=full", "sequence_parallel=true")
JOB = """[scenario]
model = "llama-3-70b"
node = "dgx-h100"
fabric = "infiniband-ndr"
training_tokens = "1T"
gpu_hour_price = 2.5
n_gpus = 1024
global_batch_size = 1024
"""
# 4 nodes of 10.2 kW in a rack of 45 kW, 64 in a row of 16
SITE = """[site.hall]
title = "A hall"
source = "this test"
date = "2026-11-29"
note = "of nobody"
site_power = "20 MW"
rack_power = "45 kW"
racks_per_row = 16
site_racks = 240
pue = 1.2
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hall.toml").write_text(SITE, encoding="utf-8")
    (tmp_path / "job.toml").write_text(JOB, encoding="utf-8")
    return "job.toml"


def said(*words: str, fails: bool = False) -> str:
    done = CliRunner().invoke(cli, [*words])
    assert isinstance(done.exception, InputError) == fails, done.output
    return f"{done.exception}" if fails else " ".join(done.output.split())


def rows(*words: str) -> list[list[str]]:
    out = CliRunner().invoke(cli, [*words]).stdout
    return [line.split() for line in out.splitlines() if re.match(r" *llama-[23]-[0-9]+b ", line)]


@pytest.mark.slow
def test_the_largest_model_by_the_date_is_first(job: str) -> None:
    """On 1,024 H100 6 N D / (1,024 x 989e12 x MFU) are 4.8 days of llama-3-70b at a MFU of 1, and
    27.8 of llama-3-405b: with an MFU between 0.2 and 0.6, 30 days are enough for
    the first alone."""
    words = ("plan", job, "--of", "max parameters", "model=llama-3-*", "tensor_parallel=8", *LAYOUT)
    found = rows(*words, "--where", "finish <= 2027-01-30 with 90 %", "start_date=2027-01-01")
    assert [row[0] for row in found] == ["llama-3-70b", "llama-3-8b", "llama-3-405b"]
    assert "(none keeps to finish <= 2027-01-30 with 90 %: the least " in " ".join(found[2])


@pytest.mark.slow
def test_goals_along_axes_rank_points_and_the_front_is_of_one_work(job: str) -> None:
    words = ("plan", job, "tensor_parallel=8", *LAYOUT, "model=llama-3-8b,llama-3-70b")
    found = rows(*words, "--of", "min n_gpus", "n_gpus=512,1024,1000")
    assert [row[1] for row in found] == ["512", "512", "1,024", "1,024", "1,000", "1,000"]
    text = said(*words, "--of", "min n_gpus", "n_gpus=512,1024,1000")
    assert "*: no other of this model has less job_time and job_cost" in text
    assert "model llama-3-8b: 1,000 GPUs: " in text
    assert "model llama-3-70b: 1,000 GPUs: " in text
    # each model has its fastest size on its own front
    assert all("*" in row for row in found if row[1] == "1,024")
    refusal = said("plan", job, "--of", "min n_gpus", fails=True)
    assert refusal.startswith("--of n_gpus: an input has no best without values; give n_gpus=")


@pytest.mark.parametrize(
    ("goal", "axis", "order"),
    [
        ("max parameters", "model=llama-3-8b,llama-3-70b", ["llama-3-70b", "llama-3-8b"]),
        ("min n_gpus", "n_gpus=512,1024", ["512", "1,024"]),
        ("max sequence_length", "sequence_length=4096,8192", ["8,192", "4,096"]),
        ("max training_tokens", "training_tokens=4T,2T", ["4e+12", "2e+12"]),
        ("job_cost", "node=dgx-h100,dgx-h200", ["dgx-h200", "dgx-h100"]),
    ],
)
def test_each_goal_of_the_page_ranks_its_axis(
    job: str, goal: str, axis: str, order: list[str]
) -> None:
    words = ("plan", job, "--of", goal, axis, "tensor_parallel=8", *LAYOUT)
    words = (*words, "--where", "finish <= 2028-01-01 with 90 %", "start_date=2027-01-01")
    table = CliRunner().invoke(cli, [*words]).stdout.splitlines()
    assert [row.split()[0] for row in table[1:3]] == order
    answer = f"{axis.partition('=')[0]} {order[0].replace('4e+12', '4T')}"
    assert any(line.startswith(f"assumed in this layout at {answer}, what moves") for line in table)


def test_one_price_of_several_nodes_is_named(job: str) -> None:
    line = "gpu_hour_price does not follow node (dgx-h100, dgx-h200): for a price each, write in a "
    for verb in (("run", "-v", "job_cost"), ("plan", "--of", "job_cost"), ("plan",)):
        words = (verb[0], job, *verb[1:], "tensor_parallel=8", *LAYOUT)
        assert line in said(*words, "node=dgx-h100,dgx-h200")
        assert "does not follow" not in said(*words, "node=dgx-h200")
    offer = '[axes.offer]\nnode = ["dgx-h100", "dgx-h200"]\ngpu_hour_price = [2.5, 2.9]\n'
    kept = [row for row in JOB.splitlines() if row.split(" =")[0] not in ("node", "gpu_hour_price")]
    Path("offer.toml").write_text("\n".join([*kept, offer]), encoding="utf-8")
    text = said("plan", "offer.toml", "--of", "job_cost", "tensor_parallel=8", *LAYOUT)
    assert "dgx-h200 2.9" in text
    assert "does not follow" not in text


def test_conditions_that_are_not_met_show_the_nearest_plans_with_their_chance(job: str) -> None:
    words = ("plan", job, "n_gpus=512,1024", "tensor_parallel=8", *LAYOUT, "--where")
    done = CliRunner().invoke(cli, [*words, "job_time <= 9 d with 90 %"])
    heading, *plans, _ = done.stdout.splitlines()
    for column in ("job_time [d] (90 %)", "job_cost", "job_time_chance", "nearest plan"):
        assert column in heading
    assert [row.split()[0] for row in plans] == ["1,024", "512"]
    median, high = (float(plans[0].split()[k].strip("()")) for k in (1, 4))
    (least,) = re.findall(r"the least job_time with 90 % is ([\d.]+) d;", f"{done.exception}")
    assert median < float(least) < high, "90 % are kept to before the end of the interval"
    # by nearness, though fewer GPUs cost less
    done = CliRunner().invoke(cli, [*words, "job_time <= 9 d", "--of", "job_cost"])
    _, *rows, note = done.stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["1,024", "512"]
    assert float(rows[0].split()[1]) > float(rows[1].split()[1])
    assert note == "first the plan that misses a condition by the smallest share of its bound"
    # halfway between the two sizes, the smaller one has no answer, and its chance
    done = CliRunner().invoke(cli, [*words, f"job_time <= {1.4 * median} d with 90 %"])
    row = done.stdout.splitlines()[2]
    assert re.fullmatch(r" *512 +- +- +(\d+ %|< 1 %) +- \(none keeps to .*\)", row), row
    both = (*words, "job_time <= 9 d", "--where", "job_cost <= 1 USD")
    assert re.search(
        "the least job_time is .*, the least job_cost is .*, each alone; ", said(*both, fails=True)
    )


def test_a_batch_near_by_is_one_that_many_replicas_share(job: str) -> None:
    """768 GPUs of TP8 are 96 groups. 1,023 = 3 x 341 divides over 3 replicas of 32 groups alone;
    1,056, the nearest multiple of 96, over any number of replicas."""
    rest = [word for word in LAYOUT if not word.startswith("pipeline")]
    text = said("plan", job, "n_gpus=768", "tensor_parallel=8", *rest)
    assert "640 GPUs can, or 768 with a batch of 1,056" in text
    assert re.search(r"a batch of 1,023 is nearer, and a sequence takes [\d.]+ times as long", text)


def test_without_a_layout_the_answer_says_so(job: str) -> None:
    words = ("solve", job, "training_tokens=2T", "--for", "n_gpus", "--target", "job_time <= 30 d")
    text = said(*words)
    assert "run (batch_not_divisible): no layout is stated" in text
    assert "no layout is stated: tensor_parallel 1, pipeline_parallel 1, " in text
    assert "; `plan` searches them" in text
    assert re.match(r"n_gpus job_time unsolved_reason ", text), (
        "a column without values has no unit"
    )
    assert "no layout is stated" not in said(*words, "tensor_parallel=8")


def test_a_single_plan_prints_its_chance_and_the_rest_of_the_time(job: str) -> None:
    words = ("plan", job, "tensor_parallel=8", *LAYOUT, "--where", "job_time <= 900 d with 90 %")
    text = said(*words)
    assert " job_time_chance > 99 % " in text
    assert re.search(r"time goes to: [^;]*%; the rest is ideal compute and smaller losses", text)


def test_a_bound_holds_with_its_chance() -> None:
    """A lognormal time of median m, 90 % of it within a factor f, is below L with a probability of
    Phi(ln(L / m) / (ln f / 1.645))."""
    scenario = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    scenario |= {"n_gpus": 1024, "global_batch_size": 1024, "training_tokens": "1T"}
    scenario |= dict(each.split("=") for each in ("zero_stage=1", "recompute=full"))
    scenario |= {"tensor_parallel": 8, "pipeline_parallel": 4, "sequence_parallel": True}
    scenario["zero_stage"] = 1
    sweep = Sweep(scenario)
    plain = sweep.best("step_time", search="layout")
    median, high = float(plain["step_time"]), float(plain["step_time_high"])
    level = 1.1 * median
    chance = NormalDist().cdf(math.log(1.1) * NormalDist().inv_cdf(0.95) / math.log(high / median))
    for share, holds in ((chance - 0.01, True), (chance + 0.01, False)):
        bound = f"step_time <= {level!r} s with {100 * share:.3f} %"
        found = sweep.best("step_time", search="layout", where=bound)
        assert bool(found["step_time"].notnull()) == holds
        # the time that this share keeps to is m exp(z ln f / 1.645), whatever the bound
        z = NormalDist().inv_cdf(round(share, 5)) / NormalDist().inv_cdf(0.95)
        least = median * (high / median) ** z
        assert float(found["closest_step_time"]) == pytest.approx(least, rel=1e-4)
    for way in ("solve", "best"):
        with pytest.raises(InputError, match="one chance of 50 % or more"):
            ask(sweep, way, "job_time <= 30 d with 40 %")
    with pytest.raises(InputError, match="plan and solve answer with a chance"):
        sweep.reduce("count", of="job_time", where="job_time <= 30 d with 90 %")
    drawn = Sweep({**scenario, "gpu_mttf": {"lognormal": ["50_000 h", 2]}})
    with pytest.raises(InputError, match="job_time has a distribution, too"):
        ask(drawn, "best", "job_time <= 30 d with 90 %")


def ask(sweep: Sweep, way: str, bound: str) -> Any:
    if way == "solve":
        return sweep.solve("n_gpus", bound)
    return sweep.best("job_time", search="layout", where=bound)


def test_a_solution_with_95_percent_is_that_of_the_harder_end() -> None:
    """Slow steps make a time larger and an MFU smaller; a lower bound of the former is met less
    easily by fast ones."""
    scenario = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    scenario |= {"tensor_parallel": 8, "global_batch_size": 2048}
    mfu = float(Sweep({**scenario, "n_gpus": 1024}, outputs=["mfu"]).evaluate().mfu)
    ends = {"job_time <= 60 d": 1, "job_time >= 60 d": -1}
    ends |= {f"mfu >= {mfu!r}": 1, f"mfu <= {mfu!r}": -1}
    for bound, end in ends.items():
        harder = Sweep({**scenario, "step_time_error": end}).solve("n_gpus", bound, whole=False)
        sure = Sweep(scenario).solve("n_gpus", f"{bound} with 95 %", whole=False)
        assert int(sure["unsolved_reason"]) == int(harder["unsolved_reason"])
        assert np.allclose(sure["n_gpus"], harder["n_gpus"], rtol=1e-6, equal_nan=True)
    with pytest.raises(InputError, match="one chance"):
        Sweep(scenario).solve("n_gpus", "job_time <= 60 d with 90 % with 80 %")


@pytest.mark.parametrize(
    ("bound", "place"),
    [
        ("job_time >= 60 d", -1),
        ("mfu <= 0.3", -1),
        ("mfu >= 0.25", 1),
        ("job_cost <= 20M USD", 1),
    ],
)
def test_a_chance_takes_the_end_at_which_the_bound_is_nearer(bound: str, place: int) -> None:
    """Times are long, and rates low, at the slow end of steps."""
    scenario = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    scenario |= {"tensor_parallel": 8, "global_batch_size": 2048, "gpu_hour_price": 2.5}
    scenario |= {"n_gpus": 2048, "gpu_mttf": "50000 h"}
    sure = Sweep(scenario).solve("n_gpus", f"{bound} with 95 %", whole=False)
    end = Sweep({**scenario, "step_time_error": place}).solve("n_gpus", bound, whole=False)
    assert float(sure["n_gpus"]) == pytest.approx(float(end["n_gpus"]), rel=1e-6)


def test_a_row_is_not_lost_to_rounding() -> None:
    """100 nodes of 10.2 kW at a PUE of 1.1 draw 1,122 kW: 25 racks of four."""
    site = {"site_power": "1122 kW", "pue": 1.1, "rack_power": "45 kW", "node_power": "10.2 kW"}
    assert float(evaluate("powered_gpus", gpus_per_node=8, **site)) == 800


def test_a_site_is_filled_by_the_nearest_batch(job: str) -> None:
    """15 rows of 64 nodes in 240 racks are 7,680 GPUs, 240 replicas of 32. 2,304 is no multiple of
    240, but of 192 (6,144 GPUs); the nearest multiple is 2,400. 768 nodes of 10.2 kW at a PUE of
    1.2 draw 9.40 MW and fill 192 racks of 4."""
    words = ("solve", job, "--for", "n_gpus", "--target", "allocated_gpus <= powered_gpus")
    words = (*words, "catalog=hall.toml", "site=hall", "tensor_parallel=8", *LAYOUT)
    words = (*words, "global_batch_size=2304")
    text = said(*words)
    assert " 6,144 6,144 solved 7,680 GPUs would meet the target and cannot run " in text
    assert "; 7,680 can with a batch of 2,400 (+4.2%)" in text
    assert "left of the site: facility_power 10.6 MW, racks 48, allocated_gpus 1,536" in text
    text = said(*words, "--adjust-batch")
    left = "left of the site: facility_power 8.25 MW, racks 0, allocated_gpus 0"
    assert f" 7,680 7,680 solved with a batch of 2,400 {left}" in text
    assert "space in a rack, switches and storage are not counted" in text
    hall = Path("hall.toml").read_text(encoding="utf-8").replace('rack_power = "45 kW"\n', "")
    Path("open.toml").write_text(hall, encoding="utf-8")
    opened = said(*(word.replace("hall.toml", "open.toml") for word in words), "--adjust-batch")
    assert "rack_power 70 kW (default): powered_gpus 1,920 if 12 kW; 3,840 if 20.4 kW" in opened
    refusal = said(*words, "--adjust-batch", "pue=1.1,1.2", fails=True)
    assert refusal.startswith("a batch is adjusted for n_gpus at one point")
    # the smallest that ends in time, too, is bound by the batch: the next is seen upwards
    late = said(*words[:4], "--target", "job_time <= 9 d", *words[6:])
    assert "GPUs would meet the target and cannot run (batch_not_divisible)" in late


def test_a_stated_site_binds(job: str) -> None:
    """16,384 GPUs are 2,048 nodes of 10.2 kW: 25.1 MW at a PUE of 1.2, 512 racks of 45 kW."""
    site = ("catalog=hall.toml", "site=hall", "tensor_parallel=8", *LAYOUT)
    text = said("run", job, *site, "-v", "infeasible_reason", "n_gpus=16384", "--no-interval")
    assert "larger_than_site" in text
    text = said("plan", job, *site, "n_gpus=12288", "global_batch_size=2304")
    assert "cannot run: larger_than_site" in text
    words = ("solve", job, *site, "--for", "n_gpus", "--target", "facility_power <= 20 MW")
    text = said(*words)
    assert ' more than the site holds, which "allocated_gpus <= powered_gpus" fills' in text
    text = said(*words, "--infeasible", "mark")
    assert "warning: 169 racks, 5,391 allocated_gpus more than the site has" in text


def test_a_family_is_ordered_by_its_parameters(job: str) -> None:
    words = ("run", job, "-v", "parameters", "--no-interval")
    found = [row[0] for row in rows(*words, "model=llama-[23]-*")]
    assert found == [
        "llama-2-7b",
        "llama-3-8b",
        "llama-2-13b",
        "llama-2-70b",
        "llama-3-70b",
        "llama-3-405b",
    ]
    assert "no model is called 'llama-9-*'" in said(*words, "model=llama-9-*", fails=True)
    powered = said(
        "run", job, "-v", "powered_gpus", "catalog=hall.toml", "site=h*", "--no-interval"
    )
    assert powered.startswith("powered_gpus 7,680 ")


@pytest.mark.slow
def test_networks_that_differ_in_latency_alone_are_named(job: str) -> None:
    words = ("compare", job, "fabric=infiniband-ndr,roce-400g", "tensor_parallel=8", *LAYOUT)
    text = said(*words)
    assert "infiniband-ndr and roce-400g differ in inter_node_latency alone; state what" in text
    text = said(*words, "oversubscription=1,3", "rail_optimized=true,false")
    for entry in ("oversubscription 1 3 ", "rail_optimized true false ", "fabric infiniband-ndr "):
        assert entry in text
    other = said(*(word.replace("roce-400g", "infiniband-xdr") for word in words))
    assert "alone; state what" not in other
