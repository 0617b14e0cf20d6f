"""What selectors make of a spec and of a cube."""

import json
import re
from typing import Any

import numpy as np
import pytest

from fleetcube import InputError, Sweep
from fleetcube.tables.selectors import narrow, remarks, select

from .common import cases, refused

SPEC: dict[str, Any] = {"outputs": ["job_time"]}
SPEC |= {"scenario": {"model": "llama-3-8b", "node": "dgx-h100", "gpu_mttf": "40_000 h"}}
SPEC |= {"axes": {"n_gpus": [64, 128, 256, 512], "fabric": ["infiniband-ndr", "roce-100g"]}}
SPEC["axes"]["layout"] = {"labels": ["wide", "deep"], "tensor_parallel": [8, 4]}
SPEC["axes"]["layout"] |= {"pipeline_parallel": [1, 2]}


def job_time(spec: dict[str, Any]) -> Any:
    return Sweep(spec["scenario"], spec["axes"], spec["outputs"]).evaluate()["job_time"]


def direct(**inputs: Any) -> float:
    given = {**SPEC["scenario"], "tensor_parallel": 8, "pipeline_parallel": 1, **inputs}
    return float(Sweep(given, {}, ["job_time"]).evaluate()["job_time"])


def test_values_need_not_be_on_the_axis() -> None:
    told, notes = narrow(SPEC, ["n_gpus=96", "fabric=roce-400g", "layout=wide", "gpu_mttf=9000h"])
    assert notes == []
    found = job_time(told)
    assert found.sizes == {"n_gpus": 1, "fabric": 1, "layout": 1}
    assert found.item() == direct(n_gpus=96, fabric="roce-400g", gpu_mttf="9000 h")


def test_several_values_make_an_axis() -> None:
    told, _ = narrow(SPEC, ["n_gpus=64,96", "gpu_mttf=9000h,10000h", "fabric=roce-100g"])
    found = job_time(told)
    assert found.sizes == {"n_gpus": 2, "fabric": 1, "layout": 2, "gpu_mttf": 2}
    assert "gpu_mttf" not in told["scenario"]
    one = found.sel(n_gpus=96, layout="deep", gpu_mttf=36e6).item()
    deep = {"tensor_parallel": 4, "pipeline_parallel": 2}
    assert one == direct(n_gpus=96, fabric="roce-100g", gpu_mttf="10000 h", **deep)


def test_a_range_keeps_the_points_of_an_axis() -> None:
    told, _ = narrow(SPEC, ["n_gpus=100:300"])
    assert job_time(told)["n_gpus"].values.tolist() == [128, 256]
    told, _ = narrow(SPEC, ["layout=deep"], without=["n_gpus"])
    one = {**told, "scenario": {**told["scenario"], "n_gpus": 64}}
    assert job_time(one).sizes == {"fabric": 2, "layout": 1}


def test_options_are_read_as_they_are_written() -> None:
    told, _ = narrow(SPEC, ["zero_stage=2", "sequence_parallel=true", "checkpoint_policy=young"])
    chosen = {name: told["scenario"][name] for name in ("zero_stage", "sequence_parallel")}
    assert json.dumps(chosen) == '{"zero_stage": 2, "sequence_parallel": true}'


def test_the_spec_itself_is_not_changed() -> None:
    before = json.dumps(SPEC)
    narrow(SPEC, ["n_gpus=96", "gpu_mttf=9000h", "model=llama-3-70b"])
    assert json.dumps(SPEC) == before


@cases(
    "selector, words",
    ("n_gpu=8", "'n_gpu' is not an input or an axis; did you mean 'n_gpus'?"),
    ("tensor_parallel=8", "set by the axis 'layout'; choose one of its labels"),
    ("layout=tall", "choose from wide, deep"),
    ("n_gpus=1:8", "holds no point; the axis runs from 64 to 512"),
    ("n_gpus=4,096", "'096' is not a number; commas separate values, leave them out"),
    ("gpu_mttf=5 GB", "gpu_mttf"),
    ("n_gpus=0", "greater than 0"),
    ("zero_stage=7", "is not one of"),
    ("model=llama-9", "llama"),
    ("n_gpus=", "write axis=value"),
)
def test_bad_selectors_are_refused_in_one_line(selector: str, words: str) -> None:
    refused(re.escape(words), lambda: job_time(narrow(SPEC, [selector])[0]))


def test_numbers_without_a_unit_are_remarked_on() -> None:
    scenario = {"gpu_mttf": 50000, "detection_time": 0, "n_gpus": 8, "repair_time": "2 h"}
    axes: dict[str, Any] = {"both": {"drain_time": [60, 120], "nic_mttf": ["9 h", "8 h"]}}
    speeds = {"checkpoint_write_bandwidth": {"geomspace": [100, "1 TB/s"], "num": 3}}
    (told,) = remarks({"scenario": scenario, "axes": speeds | axes})
    assert told == (
        "without a unit, taken in base units: gpu_mttf = 50000 s (13.8889 h); "
        "checkpoint_write_bandwidth = 100 B/s; drain_time = 60 s (1 min), 120 s (2 min)"
    )
    spec = {"scenario": {"n_gpus": 8}, "axes": {"n_gpus": [8, 16]}}
    assert remarks(spec) == ["n_gpus: its axis overrides the scenario's value"]


def test_a_cube_is_cut_along_axes_that_some_variables_lack() -> None:
    cube = Sweep(SPEC["scenario"], SPEC["axes"], ["job_time", "memory_per_gpu"]).evaluate()
    assert "fabric" not in cube["memory_per_gpu"].dims
    cut, notes = select(cube, ["fabric=roce-100g", "n_gpus=64", "layout=deep"])
    assert (cut.sizes, notes) == ({}, [])
    np.testing.assert_array_equal(cut["memory_per_gpu"], cube["memory_per_gpu"][0, 1])


def test_other_units_are_repeated_in_those_of_the_axis() -> None:
    axes = {"inter_node_bandwidth": ["50 GB/s", "100 GB/s"]}
    cube = Sweep({**SPEC["scenario"], "n_gpus": 64}, axes, ["job_time"]).evaluate()
    _, notes = select(cube, ["inter_node_bandwidth=600Gbit/s"])
    told = "inter_node_bandwidth = 600Gbit/s (75 GB/s) is not on the axis: taking 50 GB/s"
    assert notes == [told]
    with pytest.raises(InputError, match=r"= 70 \(70 B/s\) is outside the axis, 50 GB/s to"):
        select(cube, ["inter_node_bandwidth=70"])


def test_new_names_follow_new_axes() -> None:
    told, _ = narrow(SPEC, ["gpu_mttf=9000h,10000h", "zero_stage=1,2", "layout=wide"])
    assert job_time(told).sizes["gpu_mttf"] == 2
    refused("'seed' is not an input", narrow, SPEC, ["gpu_mttf=9000h,10000h", "seed=3"])


def test_commas_of_thousands_are_one_number_where_that_is_clear() -> None:
    told, notes = narrow(SPEC, ["n_gpus=64,1024"])  # not three digits: a list
    assert (told["axes"]["n_gpus"], notes) == ([64, 1024], [])
    told, notes = narrow(SPEC, ["gpu_mttf=50,000 h", "gpu_hour_price=$1,200/h", "n_gpus=128,256"])
    assert job_time(told)["n_gpus"].values.tolist() == [128, 256]
    assert told["scenario"]["gpu_mttf"] == "50,000 h"
    assert told["scenario"]["gpu_hour_price"] == "$1,200/h"
    assert notes == ["n_gpus = 128,256 is a list; without its commas it is one number"]
    axes = {"gpu_mttf": ["9000 h", "50_000 h"]}
    cube = Sweep({**SPEC["scenario"], "n_gpus": 64}, axes, ["goodput"])
    cut, notes = select(cube.evaluate(), ["gpu_mttf=50,000h"])
    assert (cut["gpu_mttf"].item(), notes) == (50_000 * 3600, [])


def test_labels_with_commas_stay_whole() -> None:
    axis = {"labels": ["8,192 H100", "8", "192 H100", "64"], "n_gpus": [8192, 8, 192, 64]}
    spec = {**SPEC, "axes": {"cluster": axis}}
    for text, sizes in (
        ("8,192 H100", [8192]),
        ('"8,192 H100","64"', [8192, 64]),
        ('64,"8,192 H100"', [64, 8192]),
        ("8,64", [8, 64]),
    ):
        told, _ = narrow(spec, [f"cluster={text}"])
        assert Sweep(told["scenario"], told["axes"], ["nodes"]).evaluate()[
            "nodes"
        ].values.tolist() == [n / 8 for n in sizes]
    refused('choose from "8,192 H100", 8, 192 H100, 64', narrow, spec, ["cluster=64,8,193 H100"])
    told, _ = narrow(SPEC, ['gpu_mttf="50,000 h","10,500 h"'])
    assert told["axes"]["gpu_mttf"] == ["50,000 h", "10,500 h"]


@cases(
    "selectors, words",
    (["n_gpus=64", "n_gpus=96"], "n_gpus is given twice; write n_gpus=64,96"),
    (["pipeline_depth=1"], "is not an input or an axis"),
    (['gpu_mttf={"lognormal": ["5 h", 2]}'], "write distributions and ranges in the spec's file"),
    (["micro_batch_size=1:8"], "first:last is for an axis; list the values"),
)
def test_what_is_no_change_is_refused(selectors: list[str], words: str) -> None:
    refused(re.escape(words), narrow, SPEC, selectors)
    refused("n_gpus is sought; give its range", narrow, SPEC, ["n_gpus=64"], without=["n_gpus"])
