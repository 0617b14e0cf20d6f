"""A calibration in a spec: what it sets, what overrides it, where it is found, its changes."""

import json
from pathlib import Path
from typing import Any

import pytest

import fleetcube
from fleetcube import InputError, Sweep
from fleetcube.catalog import CatalogError, record
from fleetcube.catalog.user_records import LARGEST_FILE
from fleetcube.grid.store.verify import verify

from .common import Patch, on_h100, written

FILE = """\
title = "My cluster"
source = "fleetcube calibrate all_reduce.log"
date = "2026-11-21"
note = "two nodes"
all_reduce = "fitted"
inter_node_latency = "100 us"
inter_node_bandwidth = "40 GB/s"
sqrt_coefficient = "1e-8 s/B^0.5"
flops_efficiency = 0.6

[standard_errors]
inter_node_latency = "2 us"
flops_efficiency = 0.01

[fit]
rows = 40
median_error = 0.04
"""
SPEC = """\
outputs = ["data_parallel_all_reduce_time", "step_time"]
[scenario]
model = "llama-3-8b"
node = "dgx-h100"
fabric = "infiniband-ndr"
tensor_parallel = 8
calibration = "my-cluster.toml"
[axes]
n_gpus = [64, 128]
"""
SCENARIO = on_h100(tensor_parallel=8, n_gpus=64)
STATED = {"all_reduce": "fitted", "inter_node_latency": 1e-4, "inter_node_bandwidth": 40e9}
STATED |= {"sqrt_coefficient": 1e-8, "flops_efficiency": 0.6}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "specs"
    folder.mkdir()
    (folder / "my-cluster.toml").write_text(FILE, encoding="utf-8")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    return folder


def step_time(**scenario: Any) -> float:
    named = {"calibration": "none", **SCENARIO, **scenario}  # else one would be found
    return float(fleetcube.evaluate("step_time", **named))


def test_a_file_is_a_record_with_standard_errors(folder: Path) -> None:
    entry = record("calibration", str(folder / "my-cluster.toml"))
    assert dict(entry.values) == STATED
    assert dict(entry.standard_errors) == {"inter_node_latency": 2e-6, "flops_efficiency": 0.01}
    assert entry.title == "My cluster"


def test_a_calibration_stands_over_other_labels_and_under_the_scenario(folder: Path) -> None:
    path = str(folder / "my-cluster.toml")
    assert step_time(calibration=path) == step_time(**STATED)
    inside = record("calibration", "b200-nvlink-node").values
    for labels in ({}, {"gpu": "a100-sxm-80gb"}):
        assert step_time(calibration="b200-nvlink-node", **labels) == step_time(**labels, **inside)
    slower = {"inter_node_bandwidth": 10e9, "flops_efficiency": 0.3}
    assert step_time(calibration=path, **slower) == step_time(**{**STATED, **slower})


def test_labels_of_the_catalog_leave_to_others_what_they_do_not_say() -> None:
    labels = ["aws-p5", "b200-nvlink-node"]
    swept = fleetcube.evaluate("step_time", **SCENARIO, calibration=labels)
    for label, time in zip(labels, swept, strict=True):
        assert float(time) == step_time(calibration=label)
        assert float(time) == step_time(**record("calibration", label).values)


def test_a_spec_finds_a_file_from_its_own_folder(folder: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(folder.parent)
    expected = [step_time(**STATED, n_gpus=n) for n in (64, 128)]
    assert Sweep.from_file("specs/spec.toml").evaluate()["step_time"].values.tolist() == expected
    axis = SPEC.replace('calibration = "my-cluster.toml"\n', "")
    axis = axis.replace("n_gpus = [64, 128]", 'n_gpus = [64]\ncalibration = ["my-cluster.toml"]')
    (folder / "axis.toml").write_text(axis, encoding="utf-8")
    swept = Sweep.from_file("specs/axis.toml").evaluate()["step_time"]
    assert swept.values.ravel().tolist() == expected[:1]
    with pytest.raises(InputError, match="cannot be read: No such file"):
        step_time(calibration="my-cluster.toml")  # from the working directory


def test_a_cube_refuses_a_file_that_changed_since(folder: Path, monkeypatch: Patch) -> None:
    cube = folder / "cube.zarr"
    Sweep.from_file(folder / "spec.toml").to_zarr(cube)
    held = json.loads(fleetcube.open_cube(cube).attrs["fleetcube_catalog"])
    (used,) = [entry for entry in held if entry["kind"] == "calibration"]
    assert used["values"] == STATED
    assert used["digest"] == record("calibration", str(folder / "my-cluster.toml")).digest
    assert "my-cluster.toml, dated 2026-11-21" in fleetcube.citations(fleetcube.open_cube(cube))
    monkeypatch.chdir(folder.parent)  # the path is kept whole
    assert verify(cube).samples > 0
    Sweep.from_file(folder / "spec.toml").to_zarr(cube, resume=True)
    (folder / "my-cluster.toml").write_text(FILE.replace("40 GB/s", "41 GB/s"), encoding="utf-8")
    report = verify(cube)
    assert report.samples == 0
    assert "this changed: catalog.calibration." in report.notes[0]
    with pytest.raises(InputError, match=r"catalog\.calibration\."):
        Sweep.from_file(folder / "spec.toml").to_zarr(cube, resume=True)
    (folder / "my-cluster.toml").unlink()
    assert "cannot be read" in verify(cube).notes[0]


FACTORS = "step_time_factor = 1.2\nerror_factor = 1.1\n"
JOB = f"\n[[jobs]]\nnode = 'dgx-h100'\nlayers = 8\nhidden_size = 512\n{FACTORS}"
BAD = [
    ("= = 1", "is not TOML"),
    ("x = 1\n", "has no title"),
    (FILE.replace('"100 us"', "100"), "has no unit"),
    (FILE.replace('"100 us"', '"-1 us"'), "is not positive"),
    (FILE.replace("efficiency = 0.6", "efficiency = 1.2"), "is not at most 1"),
    ("error_factor = 0.5\n" + FILE, "error_factor = 0.5 is not at least 1"),
    (FILE.replace("efficiency = 0.6", "efficiency = 0.0"), "is not positive"),
    (FILE.replace("efficiency = 0.6", "efficiency = nan"), "is not positive"),
    (FILE.replace("efficiency = 0.6", f"efficiency = 1{'0' * 400}"), "is too large"),
    (FILE.replace('"fitted"', '"best"'), "is not one of"),
    (FILE.replace('"40 GB/s"', '"inf GB/s"'), "is not finite"),
    (FILE.replace("flops_efficiency = 0.6\n", "gpu_mttf = 5\n"), "unknown key 'gpu_mttf'"),
    (
        FILE.replace("flops_efficiency", "gemm_half_size"),
        "unknown key 'gemm_half_size'; did you mean 'gemm_half_depth'?",
    ),
    (FILE.replace("[standard_errors]", "[standard_error]"), "unknown key 'standard_error'"),
    (FILE.replace("efficiency = 0.01", "efficiency = -0.01"), "is not 0 or more"),
    (FILE.replace('latency = "2 us"', "bandwidths = 2"), "'inter_node_bandwidths' is not one of"),
    ("fit = 3\n" + FILE.partition("[standard")[0], "fit is not a table"),
    ("[" * 50_000, "is not TOML"),
    (f"jobs = 3\n{FILE}", "jobs = 3 is not a list"),
    (f"jobs = [3]\n{FILE}", "jobs has 3, which is not a table"),
    (f"{FILE}\n[[jobs]]\nlayers = 8\nhidden_size = 9\n", "one of jobs has no step_time_factor"),
    (f"{FILE}\n[[jobs]]\nlayers = 8\n{FACTORS}", "one of jobs has no hidden_size"),
    (f"{FILE}{JOB.replace('node', 'fabric')}", "one of jobs has no node or gpu"),
    (f"{FILE}{JOB}{JOB}", "'layers': 8.0, 'hidden_size': 512.0} twice; take one out"),
    (f"{FILE}{JOB * 101}", "jobs has more than 100; give fewer"),
    (f"{FILE}{JOB}", "has jobs and no error_factor of others; give it"),
    (f"{FILE}{JOB.replace('1.2', '1e308')}", "step_time_factor = 1e.308 is not at most 1000"),
    (f"{FILE}\n[[jobs]]\nlayer = 8\n{FACTORS}", "one of jobs has an unknown key 'layer'"),
    (f"{FILE}\n[[jobs]]\nnode = 8\n{FACTORS}", "node = 8 of a job is not text"),
    (f"{FILE}\n[[jobs]]\nlayers = -8\n{FACTORS}", "layers = -8 is not at least 1"),
    (
        f"{FILE}\n[[jobs]]\n{FACTORS.replace('1.2', 'inf')}",
        "step_time_factor = inf is not at most 1000",
    ),
    (f"{FILE}\n[[jobs]]\n{FACTORS.replace('1.1', '0.9')}", "error_factor = 0.9 is not at least 1"),
    (f"{FILE}correlations = 1\n", "correlations are not the 2 rows below a diagonal"),
    (f"{FILE}correlations = [[], [0.1, 1]]\n", "not the 2 rows below a diagonal"),
    (f"{FILE}correlations = [[], [1.1]]\n", "correlations are not between -1 and 1"),
    (f"{FILE}noise = 'x'\n", "noise = 'x' is not a number from 0 to 10"),
    (f"{FILE}noise = inf\n", "noise = inf is not a number from 0 to 10"),
    (f"{FILE}noise = -5\n", "noise = -5 is not a number from 0 to 10"),
]


@pytest.mark.parametrize(("text", "rule"), BAD, ids=[rule for _, rule in BAD])
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, rule: str) -> None:
    path = written(tmp_path / "bad.toml", text)
    with pytest.raises(CatalogError, match=rule) as error:
        record("calibration", str(path))
    assert "bad.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_text("#" * (LARGEST_FILE + 1), encoding="utf-8")
    (tmp_path / "odd.toml").write_bytes(b"\xff")
    (tmp_path / "folder.toml").mkdir()
    rules = {"none.toml": "No such file", "large.toml": "more than 1,048,576 bytes"}
    rules |= {"odd.toml": "not UTF-8", "folder.toml": "Is a directory"}
    for name, rule in {**rules, "a\0b.toml": "cannot be read"}.items():
        with pytest.raises(CatalogError, match=rule):
            record("calibration", str(tmp_path / name))


def test_a_latency_of_zero_is_a_measurement(tmp_path: Path) -> None:
    text = FILE.replace('"100 us"', '"0 us"').replace('"1e-8 s/B^0.5"', '"0 s/B^0.5"')
    path = written(tmp_path / "zero.toml", text)
    zero = {"inter_node_latency": 0.0, "sqrt_coefficient": 0.0}
    assert step_time(calibration=str(path)) == step_time(**{**STATED, **zero})


def test_another_file_of_jobs_is_a_change_and_no_damage(tmp_path: Path) -> None:
    cube, path = tmp_path / "c.zarr", tmp_path / "my.toml"
    own = "compute_model = 'roofline'\ngemm_efficiency = 0.6\nerror_factor = 1.2\n"
    head = FILE.partition("\nall_reduce")[0] + "\n" + own
    job = "layers = 32\nhidden_size = 4096\nnode = 'dgx-h100'\n"
    path.write_text(f"{head}[[jobs]]\n{job}{FACTORS}", encoding="utf-8")
    made = Sweep(
        {**SCENARIO, "calibration": str(path)},
        {"model": ["llama-3-8b", "llama-3-70b"]},
        ["step_time"],
    )
    made.to_zarr(cube)
    held = fleetcube.open_cube(cube)
    assert held.step_time_factor.values.tolist() == [1.2, 1.0]
    assert verify(cube).samples > 0
    path.write_text(f"{head}[[jobs]]\n{job}{FACTORS.replace('1.2', '1.3')}", encoding="utf-8")
    report = verify(cube)
    assert report.problems == []
    assert "this changed: catalog.calibration." in report.notes[0]


def test_a_factor_of_one_is_a_factor_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    head = FILE.partition("\nall_reduce")[0] + "\ncompute_model = 'roofline'\nerror_factor = 1.2\n"
    job = "[[jobs]]\nlayers = 32\nhidden_size = 4096\nnode = 'dgx-h100'\nstep_time_factor = 1.0\n"
    path.write_text(f"{head}gemm_efficiency = 0.6\n{job}error_factor = 1.1\n", encoding="utf-8")
    sweep = Sweep(
        {**SCENARIO, "calibration": str(path)},
        {"model": ["llama-3-8b", "llama-3-70b"]},
        ["step_time", "step_time_high"],
    )
    cube = sweep.evaluate()
    error = cube.step_time_high / cube.step_time
    assert error.values == pytest.approx([1.1, 1.2])
    assert (
        "steps of this job, 1 times what its coefficients give; other jobs"
        in cube.attrs["fleetcube_remarks"]
    )
