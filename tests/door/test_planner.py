"""A planner's questions, asked by command. Layouts are checked rank by rank by rules written out in
tests/grid/test_drawn_answers.py, other numbers by hand."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from click.testing import CliRunner

import fleetcube
from fleetcube.cli import cli

from ..grid.test_drawn_answers import MODELS, NODES, broken, inputs

pytestmark = pytest.mark.slow
OWN = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "vocab_size": 128256}
OWN |= {"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336}
# Layers, heads, heads of keys and values, experts, as published
SHAPES = {
    "own": (32, 32, 8, 1),
    "llama-3-405b": (126, 128, 8, 1),
    "deepseek-v3": (61, 128, 128, 256),
}
MACHINES = {"dgx-h200": (8, 143771), "a100": (8, 40960)}  # MiB, as nvidia-smi says


@pytest.fixture(autouse=True)
def _shapes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(OWN), encoding="utf-8")
    for table, more in ((MODELS, SHAPES), (NODES, MACHINES)):
        for name, row in more.items():
            monkeypatch.setitem(table, name, row)  # type: ignore[arg-type]


def said(*words: str) -> str:
    done = CliRunner().invoke(cli, [*words])
    assert done.exit_code == 0, done.exception or done.output
    return done.stdout


def planned(model: str, node: str, n_gpus: int, *words: str, **job: Any) -> dict[str, Any]:
    """The best layout that `plan` prints, as a job that keeps to the rules."""
    text = said("plan", *words, f"n_gpus={n_gpus}")
    layout = inputs(re.findall(r"best layout: (.+)", text)[0])
    found = {
        "model": model,
        "node": node,
        "n_gpus": n_gpus,
        "sequence_length": 8192,
        **layout,
        **job,
    }
    used = float(re.findall(r"memory_per_gpu \[GB\] +([\d.]+)", text)[0]) * 1e9
    assert not [*broken({"global_batch_size": 1024, **found}, used)]
    return found


def spec(name: str = "job.toml", **scenario: Any) -> str:
    said("init", name, *(f"{key}={value}" for key, value in scenario.items()))
    return name


def test_my_own_model_on_512_h200() -> None:
    words = ("config.json", "node=dgx-h200", "training_tokens=10T", "software=megatron-lm")
    planned("own", "dgx-h200", 512, *words, "sequence_length=8192", software="megatron-lm")


def test_32_percent_of_peak_on_2048_h100() -> None:
    text = said("diagnose", "example:h100", "n_gpus=2048", "pipeline_parallel=4", "mfu=0.32")
    step, mfu = re.findall(r"measured: a step of ([\d.]+) s, MFU ([\d.]+)", text)[0]
    flops = 6 * 70.6e9 * 2048 * 8192  # and attention's, a few per cent
    peak = 2048 * 989.4e12
    assert float(mfu) == 0.32
    assert 1 < float(step) * 0.32 / (flops / peak) < 1.15
    assert "one of these alone would explain it" in text


def test_90_days_of_failures() -> None:
    Path("events.csv").write_text("cause,count\nGPU,90\nNIC,30\n", encoding="utf-8")
    text = said("calibrate", "events.csv", "--gpus", "2048", "--hours", "90 d", "-o", "own.toml")
    assert "2,048 GPUs were stopped every 17.9" in text or "every 18" in text  # 2160 h / 120
    job = spec(model="llama-3-70b", node="dgx-h100", n_gpus=2048, reliability="own.toml")
    assert "cluster_mtbf" in said("uncertainty", job, "-v", "cluster_mtbf")


def test_671_billion_on_1024_gb200() -> None:
    node = "gb200-nvl72-tray"
    job = spec(model="deepseek-v3", node=node, precision="mxfp8", software="megatron-lm")
    planned("deepseek-v3", node, 1024, job, sequence_length=4096, software="megatron-lm")


def test_8_billion_on_8_a100_of_40_gb() -> None:
    job = spec(model="llama-3-8b", gpu="a100-sxm-40gb", training_tokens="100e9")
    planned("llama-3-8b", "a100", 8, job, "global_batch_size=512", global_batch_size=512)


def test_sequences_of_a_million_tokens() -> None:
    length = 1 << 20
    job = spec(model="llama-3-8b", node="dgx-h100", sequence_length=length, global_batch_size=16)
    found = planned(
        "llama-3-8b", "dgx-h100", 512, job, sequence_length=length, global_batch_size=16
    )
    assert (
        found["context_parallel"] * found["tensor_parallel"] >= 16
    )  # 2 x 2^20 x 4096 B x 32 / 80 GB


def test_serving_70_billion_in_50_ms() -> None:
    job = spec(
        model="llama-3-70b", node="dgx-h100", n_gpus=8, tensor_parallel=8, prompt_tokens=2048
    )
    text = said(
        "solve", job, "--for", "serving_batch_size", "--target", "decode_step_time <= 50 ms"
    )
    batch, time = re.findall(r"^ +(\d+) +([\d.]+) +solved", text, re.MULTILINE)[0]
    held = 8 * 81559 * 2**20 - 70.6e9 * 2  # beside the weights in 16 bits
    cache = int(batch) * (2048 + 256) * 2 * 80 * 8 * 128 * 2  # keys and values of 8 heads
    assert cache < held
    assert 1000 * (70.6e9 * 2 + cache * 0.5) / (8 * 3.35e12) < float(time) <= 50


def test_which_of_three_machines_under_12_mw() -> None:
    job = spec(model="llama-3-70b", training_tokens="15T", n_gpus=8192)
    text = said(
        "plan", job, "node=dgx-h200,gb300-nvl72-tray", "n_gpus=4096,8192", "--where",
        "facility_power <= 12 MW",
    )  # fmt: skip
    rows = [line for line in text.splitlines() if re.match(r" *(dgx|gb300)", line)]
    for line in rows:
        node, count = line.split()[:2]
        n = int(count.replace(",", ""))
        layout = re.findall(r"((?:TP|PP|CP|MBS)\d.*)$", line)
        watts = {"dgx-h200": 10200 / 8, "gb300-nvl72-tray": 1400}[node]  # a node's of 8; a GPU's
        assert not layout or n * watts < 12e6


def test_many_rows_for_another_team() -> None:
    words = ("n_gpus=512,1024,2048", "pipeline_parallel=1,4", "tensor_parallel=1,8")
    words = (*words, "-v", "job_time", "--infeasible", "exclude", "--interval")
    said("run", "example:h100", *words, "-o", "rows.parquet")
    table = pyarrow.parquet.read_table("rows.parquet").to_pydict()
    ends = (table["job_time_low"], table["job_time"], table["job_time_high"])
    assert all(low <= value <= high for low, value, high in zip(*ends, strict=True))
    layouts = {*zip(table["tensor_parallel"], table["pipeline_parallel"], strict=True)}
    assert (1, 1) not in layouts, "weights and gradients of 70B take 4 x 70 GB there"
    assert (8, 4) in layouts


def test_twice_the_memory_bandwidth_and_a_domain_of_72() -> None:
    words = ("n_gpus=1024", "pipeline_parallel=4", "gpu_mttf=50000h", "-v", "step_time")
    text = said("run", "example:h100", *words, "hbm_bandwidth=3.35TB/s,6.7TB/s", "--no-interval")
    rows = [line.split() for line in text.splitlines()[1:]]
    now, more = (float(row[-1]) for row in rows)
    assert 0.9 < more / now < 1, "kernels that wait for memory are a few per cent of a step"
    wide = fleetcube.Sweep.from_file(
        "example:h100", n_gpus=1152, pipeline_parallel=4, gpu_mttf="50_000 h",
        global_batch_size=2304, gpus_per_domain=[8, 72], intra_node_bandwidth="450 GB/s",
    )  # fmt: skip
    times = wide.with_outputs(["data_parallel_time"]).evaluate()["data_parallel_time"]
    assert times.sel(gpus_per_domain=72).item() < times.sel(gpus_per_domain=8).item()


def test_405_billion_on_16384() -> None:
    planned("llama-3-405b", "dgx-h100", 16384, "example:plan", global_batch_size=2048)


def test_my_script_and_what_to_change() -> None:
    text = said("plan", "example:pretrain-llama-3-70b", "node=dgx-h100", "--as", "megatron-lm")
    changes = [line for line in text.splitlines() if line[:3] in ("+ -", "- -")]
    assert any("tensor-model-parallel-size" in line or "recompute" in line for line in changes)
