"""The command line, as a user types it."""

import csv
import errno
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fleetcube.grid.store import cube, writer

from .command import fleetcube

SPEC = """
outputs = ["job_time", "goodput", "dominant_overhead", "step_time"]
[scenario]
model = "llama-3-8b"
node = "dgx-h100"
tensor_parallel = 8
[axes]
n_gpus = [8, 60, 512]
gpu_mttf = ["10_000 h", "50_000 h"]
fabric = ["infiniband-ndr", "roce-100g"]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("door")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    done = fleetcube("run", "spec.toml", "-o", "cube.zarr", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "12 points" in done.stdout
    assert "wrote cube.zarr" in done.stdout
    assert done.stderr == ""  # a bar is for terminals
    return folder


def test_show_tells_axes_units_and_sources(folder: Path) -> None:
    done = fleetcube("show", "cube.zarr", folder=folder)
    assert done.returncode == 0
    assert "n_gpus (3) x gpu_mttf (2) x fabric (2)" in done.stdout
    assert "gpu h100-sxm: NVIDIA" in done.stdout


def test_slice_prints_a_table_with_units_and_marks_infeasible_points(folder: Path) -> None:
    arguments = ["gpu_mttf=50000h", "fabric=infiniband-ndr", "-v", "goodput", "-v", "step_time"]
    done = fleetcube("slice", "cube.zarr", *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0][:2] == ["n_gpus", "goodput"]
    assert [row[0] for row in rows[1:]] == ["8", "60", "512"]
    assert rows[2][-2:] == ["no:", "gpus_not_divisible"]
    assert rows[3][-1] == "yes"
    assert "not on the axis" not in done.stderr


def test_the_nearest_point_is_taken_and_said(folder: Path) -> None:
    done = fleetcube(
        "slice", "cube.zarr", "n_gpus=500", "fabric=roce-100g", "gpu_mttf=10000h", folder=folder
    )
    assert done.returncode == 0
    assert "n_gpus = 500 is not on the axis: taking 512" in done.stderr


def test_slices_are_written_for_other_tools(folder: Path) -> None:
    for ending in ("csv", "json"):
        done = fleetcube("slice", "cube.zarr", "n_gpus=8:60", "-o", f"x.{ending}", folder=folder)
        assert done.returncode == 0, done.stderr
    lines = (folder / "x.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 2 * 2 * 2
    held = json.loads((folder / "x.json").read_text(encoding="utf-8"))
    assert held["data_vars"]["goodput"]["attrs"]["units"] == "1"
    again = fleetcube("slice", "cube.zarr", "-o", "x.csv", folder=folder)
    assert again.returncode == 2
    assert "exists" in again.stderr


def test_a_dash_prints_csv_and_nothing_else(folder: Path) -> None:
    done = fleetcube("slice", "cube.zarr", "n_gpus=500", "-v", "goodput", "-o", "-", folder=folder)
    assert done.returncode == 0
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["n_gpus"] for row in rows] == ["512"] * len(rows) == ["512"] * 2
    assert "taking 512" in done.stderr
    solved = fleetcube(
        *("solve", "spec.toml", "--for", "n_gpus", "--target", "job_time <= 400 d", "-o", "-"),
        folder=folder,
    )
    assert len(list(csv.DictReader(solved.stdout.splitlines()))) == 4
    assert "wrote" not in solved.stdout
    assert not (folder / "-").exists()


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["-o", "-"]])
def test_a_reader_that_stops_early_is_no_error(folder: Path, more: list[str]) -> None:
    command = [sys.executable, "-m", "fleetcube", "slice", "cube.zarr", *more]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, text=True, env=buffered, **pipes) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == ""


@pytest.mark.parametrize("ending", ["parquet", "nc"])
def test_slices_are_written_with_the_table_extra(folder: Path, ending: str) -> None:
    pytest.importorskip({"parquet": "pyarrow", "nc": "netCDF4"}[ending])
    done = fleetcube("slice", "cube.zarr", "-v", "goodput", "-o", f"y.{ending}", folder=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / f"y.{ending}").stat().st_size > 0


def test_plots_are_pictures(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    base = ["plot", "cube.zarr", "-x", "n_gpus"]
    curve = [*base, "-v", "goodput", "-o", "curve.png"]
    heat = [*base, "-v", "job_time", "-y", "gpu_mttf", "fabric=roce-100g", "-o", "map.png"]
    flags = [*base, "-v", "dominant_overhead", "-y", "gpu_mttf", "fabric=roce-100g", "-o", "f.svg"]
    for arguments in (curve, heat, flags):
        done = fleetcube(*arguments, folder=folder)
        assert done.returncode == 0, done.stderr
        assert (folder / arguments[-1]).stat().st_size > 5000


def test_explain_lists_the_fields_of_a_script_that_leaves_something_open(tmp_path: Path) -> None:
    flags = "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --bf16"
    text = f"torchrun pretrain_gpt.py {flags} --micro-batch-size 1 --global-batch-size $GBS\n"
    (tmp_path / "launch.sh").write_text(text)
    for given, code, why in (
        ((), 0, "(and vocab_size)"),
        (("vocab_size=32000", "global_batch_size=8", "n_gpus=8"), 0, "is missing"),
        (("vocab_sizes=32000",), 2, "did you mean 'vocab_size'?"),
    ):
        done = fleetcube("explain", "launch.sh", *given, folder=tmp_path)
        assert (done.returncode, why in done.stderr) == (code, True), done.stderr
        assert "sequence_length = 1024" in done.stdout


def test_explain_tells_formula_unit_source_and_neighbours(folder: Path) -> None:
    done = fleetcube("explain", "cluster_mtbf", folder=folder)
    formula = "M = 1 / (nodes / MTTF_node"
    for words in ("cluster_mtbf [s]", formula, "switch_mttf [s]", "source:", "feeds:"):
        assert words in done.stdout
    assert "default: 8" in fleetcube("explain", "gpus_per_node", folder=folder).stdout
    listed = fleetcube("explain", folder=folder).stdout
    assert "goodput" in listed
    assert "gpu_mttf" in listed


def test_catalog_lists_kinds_labels_and_values(folder: Path) -> None:
    assert "h100-sxm" in fleetcube("catalog", folder=folder).stdout
    assert "NVIDIA H100" in fleetcube("catalog", "gpu", folder=folder).stdout
    assert " 400 g/kWh\n" in fleetcube("catalog", "site", "texas", folder=folder).stdout
    shown = fleetcube("catalog", "reliability", "rsc-1", folder=folder).stdout
    assert " infinite\n" in shown
    assert " inf " not in shown
    shown = fleetcube("catalog", "gpu", "h100-sxm", folder=folder).stdout
    assert "450 GB/s" in shown
    assert "source:" in shown


BAD: list[tuple[list[str], str]] = [
    (["run", "missing.toml", "-o", "b.zarr"], "cannot read 'missing.toml'"),
    (["run", "spec.toml", "-o", "cube.zarr"], "'cube.zarr' exists"),
    (["run", "spec.toml", "-o", "b.zarr", "--engine", "fast"], "is not one of auto"),
    (["run", "spec.toml", "-o", "b.zarr", "--threads", "0"], "threads = 0"),
    (["run", "spec.toml", "-o", "b.zarr", "--chunks", "n_gpus:3"], "chunks:"),
    (["run"], "Missing argument"),
    *(
        ([verb, "model=llama-3-8b"], "is no spec, which comes first; write one: `fleetcube init")
        for verb in ("run", "plan", "diagnose", "compare", "explore", "probe", "solve")
    ),
    (["diagnose", "spec.toml"], "no measured value of 'spec.toml' is given; add step_time="),
    (["run", "spec.toml", "--resume"], "--resume is for cubes; name one: -o cube.zarr"),
    (["run", "spec.toml", "--resume", "-o", "a.csv"], "--resume is for cubes"),
    (["run", "spec.toml", "n_gpu=8"], "'n_gpu' is not an input or an axis; did you mean 'n_gpus'?"),
    (["run", "spec.toml", "n_gpus=8", "n_gpus=9"], "n_gpus is given twice; write n_gpus=8,9"),
    (["run", "spec.toml", "n_gpus=1,024"], "'024' is not a number; commas separate values"),
    (["run", "spec.toml", "gpu_mttf=5 GB"], "gpu_mttf"),
    (["run", "spec.toml", "zero_stage=9"], "is not one of"),
    (["show", "b.zarr"], "there is no cube"),
    (["slice", "cube.zarr", "n_gpu=8"], "did you mean 'n_gpus'?"),
    (["slice", "cube.zarr", "n_gpus"], "write axis=value"),
    (["slice", "cube.zarr", "n_gpus=x"], "does not start with a number"),
    (["slice", "cube.zarr", "n_gpus=1e9"], "is outside the axis, 8 to 512"),
    (["slice", "cube.zarr", "fabric=ndr"], "choose from infiniband-ndr"),
    (["slice", "cube.zarr", "gpu_mttf=10000"], "is outside the axis, 10000 h to 50000 h"),
    (["slice", "cube.zarr", "-v", "goodputs"], "did you mean 'goodput'?"),
    (["run", "spec.toml", "-o", "b.csv.gz"], "a cube is a folder"),
    (["run", "spec.toml", "-o", "b.zarr.zip"], "leave .zip out, and zip it after"),
    (["run", "spec.toml", "-o", "memory://b"], "ends with this command; name a folder"),
    (["run", "spec.toml", "-o", "file://other/b.zarr"], "write file:///folder/a.zarr"),
    (["run", "spec.toml", "-o", "/".join(["b" * 200] * 25)], "is too long for a path here"),
    (["run", "spec.toml", "-o", "b" * 250], "is too long for a path here"),
    (["slice", "b" * 300], "is too long for a path here"),
    (["slice", "cube.zarr", "-o", "b" * 300 + ".nc"], "is too long for a path here"),
    (["explore", "b" * 300], "is too long for a path here"),
    (["run", "spec.toml", "-o", "b.txt"], "a cube is a folder, and a table one of .csv"),
    (["run", "spec.toml", "n_gpus=9007199254740993"], "must be below 2^53"),
    (["plan", "spec.toml", "-k", "0"], "k = 0 is not a whole number above 0"),
    (
        ["reduce", "spec.toml", "min", "--of", "goodput", "--where", "n_gpus <= 8"],
        "is an input, not an output",
    ),
    (["slice", "cube.zarr", "-o", "x.xls"], "is not one of .csv, .parquet, .xlsx, .nc"),
    (["plot", "cube.zarr", "-v", "goodput", "-x", "fabric", "-o", "x.png"], "is not an axis of"),
    (["plot", "cube.zarr", "-v", "job_time", "-x", "n_gpus", "-o", "x.png"], "still varies over"),
    (["explain", "goodputs"], "did you mean 'goodput'?"),
    (["catalog", "gpu", "h100"], "did you mean 'h100-sxm', 'h100-nvl' or 'h100-pcie'?"),
    (["catalog", "gpus"], "did you mean 'gpu'?"),
    (["catalog", "things"], "choose one of gpu, node"),
    (["xyzzy"], "no such command 'xyzzy'; see `fleetcube --help`"),
    (["train"], "no such command 'train'; try `fleetcube run` or `fleetcube plan`"),
    (["simulte", "spec.toml"], "did you mean 'simulate'?"),
    (["spec.toml"], "try `fleetcube run`"),
    (["run", "spec.toml", "--engin", "numpy"], "no such option --engin; did you mean '--engine'?"),
    (["run", "spec.toml", "--qzx"], "--qzx; see `fleetcube run --help`"),
    (["run"], "Missing argument 'SPEC'; see `fleetcube run --help`"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_bad_usage_is_exit_two_and_one_line(folder: Path, arguments: list[str], words: str) -> None:
    before = sorted(folder.rglob("*"))
    done = fleetcube(*arguments, folder=folder)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    if done.stderr.startswith("fleetcube:"):
        assert done.stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_a_failed_run_is_exit_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer.Writer, "write", full)
    done = fleetcube("run", "spec.toml", "-o", "full.zarr", folder=folder)
    assert done.returncode == 1
    assert "No space left on device; 0 finished blocks are kept" in done.stderr
    assert "`run --resume` continues it" in done.stderr
    assert not (folder / "full.zarr").exists()


def test_a_cube_that_cannot_be_shown_is_said_to_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under an address-space limit that prevents starting another thread."""

    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(cube, "stored_cube", no_thread)
    done = fleetcube("run", "spec.toml", "-o", "unseen.zarr", folder=folder)
    assert done.returncode == 1
    assert done.stderr == (
        "fleetcube: unseen.zarr is written and complete, but cannot be shown: can't start new "
        "thread\n"
    )
    monkeypatch.undo()
    assert fleetcube("verify", "unseen.zarr", folder=folder).returncode == 0


def test_a_terminated_run_says_what_is_kept(folder: Path) -> None:
    big = SPEC.replace("n_gpus = [8, 60, 512]", "n_gpus = { arange = [8, 4_000_000, 8] }")
    (folder / "big.toml").write_text(big, encoding="utf-8")
    command = [sys.executable, "-m", "fleetcube", "run", "big.toml", "-o", "big.zarr"]
    running = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    partial = folder / "big.zarr.partial"
    for _ in range(30_000):
        if partial.exists() or running.poll() is not None:
            break
        time.sleep(0.02)
    running.terminate()
    _, told = running.communicate(timeout=600)
    if running.returncode != 0:  # not already done
        assert running.returncode == 143
        assert "`run --resume` continues it" in told or "nothing was kept" in told
        assert not (folder / "big.zarr").exists()


def test_run_prints_a_table_of_what_is_asked(folder: Path) -> None:
    chosen = ["n_gpus=64,96", "gpu_mttf=20000h", "fabric=roce-100g", "-v", "goodput"]
    done = fleetcube("run", "spec.toml", *chosen, "-v", "n_gpus_out", folder=folder)
    assert done.returncode == 2
    done = fleetcube("run", "spec.toml", *chosen, folder=folder)
    assert done.returncode == 0, done.stderr
    head, *rows = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()]
    assert head == ["n_gpus", "gpu_mttf [h]", "goodput"]
    assert [row[0] for row in rows] == ["64", "96"]
    told = fleetcube("run", "spec.toml", "gpu_mttf=20000", "n_gpus=64", folder=folder)
    assert "without a unit, taken in base units: gpu_mttf = 20000 s (5.55556 h)" in told.stderr


def test_a_changed_run_is_a_cube_like_another(folder: Path) -> None:
    chosen = ["n_gpus=64,96", "gpu_mttf=20000h", "layers=24"]
    done = fleetcube("run", "spec.toml", *chosen, "-o", "changed.zarr", folder=folder)
    assert done.returncode == 0, done.stderr
    assert "4 points" in done.stdout
    assert fleetcube("verify", "changed.zarr", folder=folder).returncode == 0
    shown = fleetcube("slice", "changed.zarr", "fabric=roce-100g", "-v", "goodput", folder=folder)
    assert shown.returncode == 0, shown.stderr  # an axis that goodput lacks


def test_a_damaged_chunk_sends_to_verify(folder: Path) -> None:
    fleetcube("run", "spec.toml", "-o", "worn.zarr", folder=folder)
    chunk = folder / "worn.zarr" / "goodput" / "c" / "0" / "0"
    data = bytearray(chunk.read_bytes())
    data[-1] ^= 1
    chunk.write_bytes(data)
    done = fleetcube("slice", "worn.zarr", "-v", "goodput", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "goodput/c/0/0' does not match its checksum: the cube is damaged" in done.stderr
    assert "`fleetcube verify CUBE` lists all damage" in done.stderr
    told = fleetcube("verify", "worn.zarr", folder=folder)
    assert "goodput/c/0/0 does not match its checksum" in told.stdout


def test_simulate_and_uncertainty_take_other_values(folder: Path) -> None:
    chosen = ["n_gpus=96", "gpu_mttf=20000h", "nic_mttf=inf", "fabric=roce-100g"]
    done = fleetcube("simulate", "spec.toml", *chosen, "--trials", "50", folder=folder)
    assert done.returncode == 0
    assert "cannot run (1 batch_not_divisible): simulated as if" in done.stderr
    assert re.search(r"^ +96 +20,000 ", done.stdout, re.MULTILINE)
    spread = SPEC.replace("[axes]", "detection_time = {uniform = [10, 60]}\n[axes]")
    (folder / "spread.toml").write_text(spread, encoding="utf-8")
    asked = ["spread.toml", *chosen, "-v", "goodput", "-q", "P5,P95"]
    done = fleetcube("uncertainty", *asked, folder=folder)
    assert done.returncode == 0, done.stderr
    assert "5 %" in done.stdout
