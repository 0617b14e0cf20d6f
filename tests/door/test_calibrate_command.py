"""`fleetcube calibrate`, as a user types it."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetcube.catalog import record

from .command import fleetcube

TRUTH = (60e-6, 350e9, 2e-8)


def log() -> str:
    """16 ranks on two hosts, out of order, a few per cent of noise, junk between."""
    random = np.random.default_rng(3)
    lines = ["# Collective test starting: all_reduce_perf"]
    for k in range(16):
        lines.append(f"#  Rank {k:2d} Group  0 Pid   1{k:02d} on host{k // 8} device {k % 8:2d} x")
    sizes = 2 ** np.arange(3, 33)
    random.shuffle(sizes)
    for size in sizes:
        exact = TRUTH[0] + 1.875 * size / TRUTH[1] + TRUTH[2] * size**0.5
        line = f"{size:12d} {size // 4:12d}     float     sum      -1"
        for time in exact * random.lognormal(0, 0.02, 2):
            speed = size / time / 1e9
            line += f"  {time * 1e6:7.2f}  {speed:6.2f}  {speed * 1.875:6.2f}       0"
        lines += [line, "host0:101:140 [0] NCCL INFO Connected all rings"]
    return "\n".join(lines) + "\n"


STEPS = """\
n_gpus,global_batch_size,step_time [s],perplexity
32,128,4.0,3
64,128,2.0,3
64,256,4.0,3
bad,256,4.0,3
"""
SPEC = """\
outputs = ["step_time"]
[scenario]
model = "llama-3-8b"
node = "dgx-h100"
fabric = "infiniband-ndr"
n_gpus = 64
"""
TRAIN = "".join(  # Megatron-LM, megatron/training/training.py
    f" iteration {k:8d}/      50 | consumed samples: {128 * k:12d} | elapsed time per iteration "
    f"(ms): {9000.0 if k == 1 else 2000.0 + k:.1f} | global batch size:   128 |\n"
    for k in range(1, 12)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calibrate")
    (folder / "all_reduce.log").write_text(log(), encoding="utf-8")
    (folder / "steps.csv").write_text(STEPS, encoding="utf-8")
    (folder / "ms.csv").write_text(STEPS.replace("[s]", "[ms]"), encoding="utf-8")
    (folder / "share.csv").write_text("gpus,mfu\n32,35\n", encoding="utf-8")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    (folder / "train.log").write_text(TRAIN, encoding="utf-8")
    (folder / "routing.csv").write_text("layer,0,1,2,3\n0,10,20,30,40\n", encoding="utf-8")
    (folder / "empty.log").write_text("nothing\n", encoding="utf-8")
    (folder / "there.toml").write_text("x = 1\n", encoding="utf-8")
    return folder


def test_a_log_becomes_json_in_base_units(folder: Path) -> None:
    done = fleetcube("calibrate", "all_reduce.log", "--ranks", "16", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    for name, value in zip(("latency", "bandwidth", "sqrt_coefficient"), TRUTH, strict=True):
        low, high = told["intervals_90"][name]
        assert low < told[name] < high
        assert told[name] == pytest.approx(value, rel=0.1)
        assert 0 < told["standard_errors"][name] < 0.1 * told[name]
    assert told["median_error"] < 0.02
    assert (told["ranks"], told["rows"], told["dropped"]) == (16, 60, {})


def test_a_log_becomes_a_table_a_file_and_a_picture(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    arguments = ["all_reduce.log", "-o", "my.toml", "--plot", "residuals.png"]
    done = fleetcube("calibrate", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows[1:4]] == ["latency", "bandwidth", "sqrt_coefficient"]
    assert "[us]" in rows[1]
    assert "[GB/s]" in rows[2]
    assert "median error" in done.stdout
    assert (folder / "residuals.png").stat().st_size > 20_000
    values = record("calibration", str(folder / "my.toml")).values
    assert values["all_reduce"] == "fitted"
    assert values["inter_node_latency"] == pytest.approx(TRUTH[0], rel=0.1)
    # eight GPUs of a node share what the law calls its bandwidth
    assert values["inter_node_bandwidth"] == pytest.approx(TRUTH[1] / 8, rel=0.1)
    again = fleetcube("calibrate", *arguments[:3], folder=folder)
    assert again.returncode == 2
    assert "exists; choose another name, or --overwrite" in again.stderr
    inside = [*arguments[:3], "--overwrite", "--gpus-per-node", "16"]
    assert fleetcube("calibrate", *inside, folder=folder).returncode == 0
    values = record("calibration", str(folder / "my.toml")).values
    assert values["intra_node_bandwidth"] == pytest.approx(TRUTH[1], rel=0.1)


@pytest.mark.parametrize(
    ("fit", "name"),
    [([], "gemm_efficiency"), (["--fit", "flops_efficiency"], "flops_efficiency")],
    ids=["from published steps", "alone"],
)
def test_a_table_of_steps_becomes_a_file_with_an_interval(
    folder: Path, fit: list[str], name: str
) -> None:
    arguments = ["steps.csv", "--spec", "spec.toml", "-o", "steps.toml", "--overwrite"]
    done = fleetcube("calibrate", *arguments, *fit, folder=folder)
    assert done.returncode == 0, done.stderr
    assert name in done.stdout
    assert "dropped 1: n_gpus cannot be read" in done.stdout
    assert "'perplexity' is not used" in done.stderr
    entry = record("calibration", str(folder / "steps.toml"))
    assert 0 < entry.standard_errors[name] < entry.values[name] < 1
    whose = "a" if fit else "another job's"
    factor = re.search(f"90 % interval of {whose} step: x or / ([\\d.]+)", done.stdout)
    assert factor
    assert 1 < entry.values["error_factor"] == pytest.approx(float(factor[1]), rel=0.01)
    assert ("from published steps" in done.stdout) == (not fit)


def test_a_training_log_is_a_row_of_its_median(folder: Path) -> None:
    table = "n_gpus,global_batch_size,step_time\n64,128,2.0065\n"  # of 2.002 to 2.011
    (folder / "row.csv").write_text(table, encoding="utf-8")
    made = []
    for name in ("train.log", "row.csv"):
        arguments = [name, "--spec", "spec.toml", "-o", "logged.toml", "--overwrite"]
        done = fleetcube("calibrate", *arguments, folder=folder)
        assert done.returncode == 0, done.stderr
        made.append(dict(record("calibration", str(folder / "logged.toml")).values))
        if name == "train.log":
            assert "Megatron-LM: median of 10 2.0065 s per step +- " in done.stderr
            assert "left out: 1 of warm-up" in done.stderr
    assert made[0] == made[1]
    arguments = ["--records", "train.log", "--spec", "spec.toml"]
    (row,) = [
        line.split()
        for line in fleetcube("validate", *arguments, folder=folder).stdout.splitlines()
        if line.startswith("train.log  ")
    ]
    assert row[:4] == ["train.log", "step_time", "2.006", "s"]


def test_tokens_by_expert_become_lines_of_a_spec(folder: Path) -> None:
    done = fleetcube("calibrate", "routing.csv", "--ranks", "2", folder=folder)
    assert done.stdout.splitlines()[0].startswith("expert_load_imbalance = 1.4  # busiest of 2")
    assert "\n# capacity_factor = 1.6  # drops 0 % of tokens" in done.stdout
    told = json.loads(fleetcube("calibrate", "routing.csv", "--json", folder=folder).stdout)
    assert (told["ranks"], told["expert_load_imbalance"]) == (4, 1.6)
    (folder / "experts.toml").write_text("[scenario]\nexperts = 8\n", encoding="utf-8")
    done = fleetcube("calibrate", "routing.csv", "--spec", "experts.toml", folder=folder)
    assert "the file has 4 experts, the spec 8" in done.stderr


def test_a_wrong_unit_is_asked_about(folder: Path) -> None:
    done = fleetcube("calibrate", "ms.csv", "--spec", "spec.toml", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "measured 0.004 s: is the unit right?" in done.stderr


BAD = [
    (["missing.log"], "cannot read 'missing.log'"),
    (["empty.log"], "holds no usable row of nccl-tests"),
    (["all_reduce.log", "--ranks", "8"], "the log is of 16 ranks, not 8"),
    (["all_reduce.log", "--collective", "all_gather"], "holds all_reduce, not all_gather"),
    (["all_reduce.log", "--collective", "x"], "has no law;"),
    (["all_reduce.log", "--spec", "spec.toml"], "--spec is not for a log"),
    (["train.log", "--of", "mfu"], "--of is not for a training log"),
    (["routing.csv", "-o", "z.toml"], "-o is not for tokens counted by expert"),
    (["steps.csv", "--ranks", "8"], "--ranks is not for a CSV"),
    (["steps.csv", "--out-of-place"], "--in-place is not for a CSV"),
    (["steps.csv"], "needs a GPU and has none; give gpu, node or peak_flops_bf16"),
    (["steps.csv", "--fit", "flops_efficiency"], "is missing"),
    (["steps.csv", "--fit", "n_gpus"], "cannot be fitted"),
    (["steps.csv", "--of", "goodputs"], "is not a measured quantity"),
    (["share.csv", "--of", "mfu"], "mfu is a share, not above 1: write 35 % or 0.35"),
    (["share.csv", "--of", "mfu"], "the column 'gpus' is not used: did you mean"),
    (["ms.csv", "--spec", "spec.toml", "-o", "z.toml"], "s: is the unit right?"),
    (["all_reduce.log", "-o", "there.toml"], "'there.toml' exists"),
    (["all_reduce.log", "-o", "x.json"], "does not end in .toml"),
    (["all_reduce.log", "-o", "none/x.toml"], "there is no folder"),
    (["all_reduce.log", "--plot", "x.bmp"], "is not one of .png"),
    (["all_reduce.log", "--gpus-per-node", "16"], "add -o"),
    (
        ["all_reduce.log", "-o", "y.toml", "--gpus-per-node", "32"],
        "has 16 ranks; give 1 to 16",
    ),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=[" ".join(a) for a, _ in BAD])
def test_bad_usage_is_exit_two_and_one_line(folder: Path, arguments: list[str], words: str) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    done = fleetcube("calibrate", *arguments, folder=folder)
    assert done.returncode == 2, done.stdout
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("note:")]
    assert words in line
    assert done.stdout == ""
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_help_has_an_example(folder: Path) -> None:
    done = fleetcube("calibrate", "--help", folder=folder)
    assert "fleetcube calibrate" in done.stdout.split("Example:")[1]


def test_a_log_of_failures_becomes_a_record(folder: Path) -> None:
    (folder / "events.csv").write_text("cause,count,downtime\ngpu,40,12 min\nNIC,3,1 h\n")
    asked = ["calibrate", "events.csv", "--gpus", "1024", "--hours", "90 d"]
    done = fleetcube(*asked, "-o", "reliability.toml", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "43 events in 2,212,000 GPU hours" in done.stdout
    assert "1,024 GPUs were stopped every 50.23 h" in done.stdout
    assert "recovery_time: median 36 min" in done.stdout
    values = record("reliability", str(folder / "reliability.toml")).values
    assert values["gpu_mttf"] == {"events": 40, "hours": "2.21184e+06 h"}
    assert values["host_mttf"] == float("inf")
    told = json.loads(fleetcube(*asked, "--json", folder=folder).stdout)
    assert told["gpu_mttf"]["events"] == 40
    for words, arguments in (
        ("has no number of GPUs", asked[:2]),
        ("go together", asked[:4]),
        ('--hours = "5"', [*asked[:5], "5"]),
        ("write RECORD=N", [*asked, "--prior", "rsc-1"]),
        ("--plot is not for a log of failures", [*asked, "--plot", "x.png"]),
        ("exists; choose another name", [*asked, "-o", "there.toml"]),
        ("holds no failures", ["calibrate", "steps.csv", *asked[2:]]),
    ):
        refused = fleetcube(*arguments, folder=folder)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
        assert words in refused.stderr
