"""`fleetcube solve`, as a user types it."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from fleetcube.cli import cli

SPEC = """\
outputs = ["job_time"]
[scenario]
model = "llama-3-405b"
node = "dgx-h100"
fabric = "infiniband-ndr"
gpu_mttf = "50_000 h"
checkpoint_mode = "sync"
[axes]
offer = { n_gpus = [16384, 8192], tensor_parallel = [8, 8], pipeline_parallel = [16, 8], \
labels = ["big", "small"] }
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "job.toml"
    path.write_text(SPEC, encoding="utf-8")
    return str(path)


def lines(*words: str, status: int = 0) -> list[str]:
    done = CliRunner().invoke(cli, ["solve", *words], catch_exceptions=False)
    assert done.exit_code == status, done.output
    return done.stdout.splitlines()


OVERHEAD = ["--for", "checkpoint_write_bandwidth", "--target"]


def test_a_remark_says_how_to_find_the_next_solution(spec: str) -> None:
    heading, row, remark = lines(spec, *OVERHEAD, "checkpoint_overhead <= 2 %", "offer=big")
    assert "next_above" in heading
    assert "MB/s" in heading.split("checkpoint_overhead")[0]
    assert row.split()[0] == "big"
    assert remark.startswith("1 of 1 points meet the target again higher up")
    between = remark.split("--between ")[1].replace("LAST", "100TB/s")
    again = lines(spec, *OVERHEAD, "checkpoint_overhead <= 2 %", "--between", between, "offer=big")
    assert len(again) == 2, "no remark is left"
    assert "[GB/s]" in again[0]


def test_what_holds_everywhere_is_not_counted_as_missing(spec: str) -> None:
    told = lines(spec, *OVERHEAD, "checkpoint_overhead <= 90 %")
    assert "met_everywhere" in told[1]
    assert told[-1] == "2 of 2 points meet the target at every checkpoint_write_bandwidth searched"
    assert not any("meets the target" in line for line in told)
    missed = lines(spec, *OVERHEAD, "goodput >= 99.9 %", status=2)
    assert "nearest_goodput" in missed[0]
    assert missed[-1] == "2 of 2 points: no checkpoint_write_bandwidth meets the target"
    alone = lines(spec, *OVERHEAD, "goodput >= 99.9 %", "offer=big", status=2)
    assert alone[0].startswith(
        "no checkpoint_write_bandwidth meets goodput >= 99.9 %: the nearest, "
    )


def test_a_bundle_cut_to_one_label_is_scenario(spec: str) -> None:
    words = ("--for", "n_gpus", "--target", "job_time <= 300 d", "offer=small")
    heading, row, *_ = lines(spec, *words)
    assert heading.split()[-1] == "unsolved_reason"  # all can run
    assert int(row.split()[1].replace(",", "")) % 64 == 0, "whole replicas of 8 x 8 GPUs"


def test_choices_stand_beside_ranges(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    words = ("model", "llama-3-8b"), ("node", "dgx-h100"), ("fabric", "infiniband-ndr")
    text = "".join(f'{name} = "{label}"\n' for name, label in words)
    path.write_text(f"[scenario]\n{text}gpu_hour_price = 2\ntensor_parallel = 8\n")
    ask = ["best", str(path), "--of", "job_cost", "--search", "n_gpus=8:32"]
    ask += ["--search", "recompute=false,full"]
    done = CliRunner().invoke(cli, ask)
    assert done.exit_code == 0, done.output
    heading, row = done.stdout.splitlines()
    assert heading.split()[:2] == ["recompute", "n_gpus"]
    assert row.split()[0] == "false"
    assert "recompute" not in done.stderr, "it was searched"


def test_a_solution_bound_by_a_batch_says_so_and_what_frees_it(tmp_path: Path) -> None:
    """2,304 sequences divide over 384 and 768 replicas of 32 GPUs, and over none between."""
    path = tmp_path / "job.toml"
    job = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    counts = {"tensor_parallel": 8, "pipeline_parallel": 4, "global_batch_size": 2304}
    text = "".join(f'{name} = "{label}"\n' for name, label in job.items())
    path.write_text(f"[scenario]\n{text}" + "".join(f"{n} = {k}\n" for n, k in counts.items()))
    ask = ["solve", str(path), "--for", "n_gpus", "--target"]
    done = CliRunner().invoke(cli, [*ask, "facility_power <= 20 MW"])
    assert "12,288" in done.stdout
    told = " ".join(done.stdout.split())
    assert "GPUs would meet the target and cannot run (batch_not_divisible)" in told
    assert "13,056 can with a batch of 2,448 (+6.2%)" in told
    free = CliRunner().invoke(cli, [*ask, "facility_power <= 20 MW", "global_batch_size=2448"])
    assert "13,056" in free.stdout
    assert "cannot run" not in free.stdout


def test_a_batch_that_does_not_help_is_not_taken(tmp_path: Path) -> None:
    """The nearest batch was smaller, its bubble longer, and 7,680 GPUs were answered for 4,096."""
    path = tmp_path / "job.toml"
    job = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    job["software"] = "megatron-lm"
    text = "".join(f'{name} = "{label}"\n' for name, label in job.items())
    counts = {"tensor_parallel": 4, "pipeline_parallel": 8, "virtual_stages": 5}
    counts |= {"global_batch_size": 2048}
    text += "".join(f"{name} = {count}\n" for name, count in counts.items())
    path.write_text(f"[scenario]\n{text}training_tokens = '10T'\nsequence_parallel = true\n")
    ask = ["solve", str(path), "--for", "n_gpus", "--target", "job_time <= 59 d with 90 %"]
    plain, adjusted = (CliRunner().invoke(cli, [*ask, *more]) for more in ((), ("--adjust-batch",)))
    assert adjusted.stdout.splitlines()[1] == plain.stdout.splitlines()[1]
    assert "does not come nearer" in " ".join(adjusted.stdout.split())
