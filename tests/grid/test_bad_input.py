"""Every bad input gives one line with the value, the rule and the next action."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import fleetcube
from fleetcube import Settings
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan import memory
from fleetcube.sweep import Sweep

from .common import Patch, cases, refused, written

GOOD: dict[str, Any] = dict(n_gpus=64, model="llama-3-8b", node="dgx-h100", fabric="roce-100g")

LAYOUT = {"tensor_parallel": 8, "global_batch_size": 32, "sequence_length": 8192}
TIMES = ("gpu_mttf", "restart_time", "drain_time")
MILLIONS, THOUSANDS = ({"linspace": [1, 1e6], "num": n} for n in (2_000_000, 400_000))
CASES: list[tuple[dict[str, Any], dict[str, Any], Any, str]] = [
    ({"n_gpu": 8}, {}, ["cluster_mtbf"], "did you mean 'n_gpus'?"),
    ({"spare_nodes": "5%"}, {}, ["job_time"], "'5%' is a share, not a count; give a number"),
    # 8 replicas of 8 GPUs; 4 sequences of 8,192 tokens each; 8 nodes of 8 GPUs
    (LAYOUT | {"data_parallel": 16}, {}, ["job_time"], "make it 8; leave data_parallel out"),
    (LAYOUT, {"data_parallel": [8, 4]}, ["mfu"], "data_parallel = 4 contradicts n_gpus, tensor"),
    (LAYOUT | {"data_parallel": 8}, {"n_gpus": [64, 128]}, ["mfu"], "make it 16; leave"),
    (LAYOUT | {"num_microbatches": 3}, {}, ["mfu"], "make it 4; leave num_microbatches out"),
    (
        LAYOUT | {"tokens_per_step": "4M"},
        {},
        ["mfu"],
        "which make it 262,144; leave tokens_per_step",
    ),
    (LAYOUT | {"nodes": 4}, {}, ["job_time"], "n_gpus, gpus_per_node, which make it 8; leave"),
    ({"layer_pattern": "M-M*", "layers": 5}, {}, ["step_time"], "does not add up"),
    ({"layer_pattern": "M-X*"}, {}, ["step_time"], "has 'X'; write one letter for each layer"),
    ({"layer_pattern": ""}, {}, ["step_time"], "is empty; write one letter for each layer"),
    ({"layer_pattern": 52}, {}, ["step_time"], "is not a pattern; write one letter"),
    ({"layer_pattern": "MG"}, {}, ["step_time"], "two kinds of states; give M or G alone"),
    ({"layer_pattern": "M*/M"}, {}, ["step_time"], "after /; end it before"),
    ({"layer_pattern": "M*"}, {"layers": [2, 4]}, ["step_time"], "and by an axis; keep one"),
    ({}, {"layer_pattern": ["M*", "ME"]}, ["step_time"], "with E and without; sweep them apart"),
    ({}, {"n_gpuss": [8]}, ["cluster_mtbf"], "did you mean 'n_gpus'?"),
    ({"gpu": "h100-smx"}, {}, ["ridge_point"], "did you mean 'h100-sxm'?"),
    ({"gpu": 7}, {}, ["ridge_point"], "is not in the catalog"),
    ({}, {"fabric": ["infiniband-ndr", "infinband-hdr"]}, ["cluster_mtbf"], "'infiniband-hdr'?"),
    ({"inter_node_bandwidth": "400"}, {}, ["job_time"], "has no unit"),
    ({"inter_node_bandwidth": "400 Gbauds"}, {}, ["job_time"], "unknown unit 'Gbauds'"),
    ({"inter_node_bandwidth": "400 W"}, {}, ["job_time"], "is not in B/s"),
    ({"n_gpus": "8 s"}, {}, ["job_time"], "takes no unit"),
    ({"global_batch_size": "many"}, {}, ["job_time"], 'write for example "1,024"'),
    ({"flops_efficiency": "high"}, {}, ["job_time"], 'write for example "0.45"'),
    ({"training_tokens": "15 words"}, {}, ["job_time"], "or 15T"),
    ({"n_gpus": True}, {}, ["job_time"], "is not a plain number"),
    ({"n_gpus": None}, {}, ["job_time"], "is not a plain number"),
    ({"n_gpus": -8}, {}, ["job_time"], "must be greater than 0"),
    ({"n_gpus": 0.5}, {}, ["job_time"], "must be at least 1"),
    ({"memory_tier_survival": 0.6, "drive_tier_survival": 0.5}, {}, ["goodput"], "_survival = 0.6"),
    ({"interruption_mttf": 1e8, "gpu_mttf": 2e8}, {}, ["cluster_mtbf"], "all causes, and gpu_mttf"),
    ({"reliability": "rsc-1"}, {"interruption_mttf": [1e8]}, ["cluster_mtbf"], "and reliability"),
    ({"flops_efficiency": 1.2}, {}, ["job_time"], "must be at most 1"),
    ({"gpu_mttf": float("nan")}, {}, ["job_time"], "is not finite"),
    ({"recompute": "all"}, {}, ["job_time"], "is not one of false, selective, modules"),
    *(({"recompute": word}, {}, ["job_time"], "off is spelled false") for word in ("none", "Off")),
    ({"recompute": None}, {}, ["job_time"], "off is spelled false (False in Python)"),
    ({}, {"stage_split": ["alike"]}, ["job_time"], "stage_split = 'alike': off is spelled false"),
    ({"rail_optimized": "off"}, {}, ["job_time"], "rail_optimized = 'off': off is spelled false"),
    ({"zero_stage": "none"}, {}, ["job_time"], "is not one of 0, 1, 2, 3"),
    ({"recompute": 0}, {}, ["job_time"], "is not one of false, selective"),
    ({"all_reduce": "rings"}, {}, ["job_time"], "did you mean 'ring'?"),
    ({"zero_stage": True}, {}, ["job_time"], "is not one of 0, 1, 2, 3"),
    ({"dominant_overhead": 1}, {}, ["job_time"], "is a result and cannot be given"),
    ({}, {"n_gpus": []}, ["job_time"], "is empty"),
    ({}, {"n_gpus": ["a"]}, ["job_time"], "does not start with a number"),
    ({}, {"n_gpus": [8, 8.0]}, ["job_time"], "twice"),
    ({}, {"n_gpus": [8, float("inf")]}, ["job_time"], "is not finite"),
    ({}, {"n_gpus": np.array([8, np.nan])}, ["job_time"], "is not finite"),
    ({}, {"n_gpus": np.array([-1.0, 8])}, ["job_time"], "must be greater than 0"),
    ({}, {"n_gpus": np.ones((2, 2))}, ["job_time"], "2 dimensions"),
    ({}, {"lay": {"labels": ["a", "b\t"], "n_gpus": [8, 16]}}, ["job_time"], "the label 'b\\t'"),
    ({}, {"lay": {"labels": ["a"], "n_gpus": [8, 16]}}, ["job_time"], "has 1 labels for 2 points"),
    ({}, {"n_gpus": 8}, ["job_time"], "is not a list"),
    ({}, {"n_gpus": "8"}, ["job_time"], "is not a list"),
    ({}, {"n_gpus": {"linspace": [1, 8]}}, ["job_time"], "needs num"),
    ({}, {"n_gpus": {"linspace": [1, 8], "num": 2.5}}, ["job_time"], "needs num"),
    ({}, {"n_gpus": {"linspace": [1], "num": 2}}, ["job_time"], "takes [first, last]"),
    ({}, {"n_gpus": {"linspace": [1, 8], "num": 10**9}}, ["job_time"], "at most 5,000,000"),
    ({}, {"n_gpus": {"arange": [1, 1e12]}}, ["job_time"], "at most 5,000,000"),
    ({}, dict.fromkeys(TIMES, MILLIONS), ["job_time"], "up to 'drain_time' hold 6,000,000 values"),
    ({}, {"both": dict.fromkeys(TIMES[1:], THOUSANDS)}, ["job_time"], "at most 300,000"),
    ({}, {"n_gpus": ["1"] * 99 + [1]}, ["job_time"], "twice"),
    ({}, {"fabric": ["roce-100g"] * 9000}, ["job_time"], "twice"),
    ({}, {"n_gpus": {"arange": [8, 8]}}, ["job_time"], "is empty"),
    ({}, {"n_gpus": {"arange": [1, 8, 0.0]}}, ["job_time"], "greater than 0"),
    ({}, {"n_gpus": {"geomspace": [1, 8], "linspace": [1, 8], "num": 2}}, ["mfu"], "exactly one"),
    ({}, {"n_gpus": {"geomspace": [1, 8], "nums": 2}}, ["job_time"], "nums"),
    ({}, {"fabric": {"linspace": [1, 2], "num": 2}}, ["job_time"], "named values"),
    ({}, {"layout": {"tensor_parallel": [1, 2], "pipeline_parallel": [1]}}, ["job_time"], "equal"),
    ({}, {"layout": {"tensor_paralel": [1, 2]}}, ["job_time"], "'tensor_parallel'?"),
    ({}, {"layout": {}}, ["job_time"], "is empty"),
    ({}, {"layout": {"tensor_parallel": [1, 1]}}, ["job_time"], "twice"),
    ({}, {"n_gpus": [8], "layout": {"n_gpus": [1, 2]}}, ["job_time"], "set by the axes"),
    ({}, {f"axis_{k}": {"n_gpus": [8]} for k in range(64)}, ["job_time"], "64 axes are more than"),
    ({}, {}, [], "is not a list of names"),
    ({}, {}, ["job_tim"], "did you mean 'job_time'?"),
    ({}, {}, ["n_gpus"], "is an input"),
    ({}, {}, ["job_time", "job_time"], "appears twice"),
    ({}, {"goodput": [0.5, 0.9]}, ["goodput"], "is an axis"),
    ({"precision": "nvfp4"}, {}, ["job_time"], "peak_flops_fp4 is missing"),
    (
        {"node": "dgx-a100", "attention_precision": "fp8"},
        {},
        ["compute_time"],
        "peak_flops_fp8 is missing",
    ),
    ({"gpu": "h100-sxm@99"}, {}, ["job_time"], "did you mean 'h100-sxm@3'?"),
    ({"sqrt_coefficient": "1 s/B"}, {}, ["job_time"], 'write for example "1e-8 s/B^0.5"'),
    ({"electricity_price": "8 EUR/kWh"}, {}, ["job_time"], "unknown unit 'EUR/kWh'"),
    # long, broken over lines, or of a type that only looks like a number or a list
    ({"gpu_mttf": "1 h" * 5000}, {}, ["job_time"], "has no known unit"),
    ({"gpu_mttf": "5\n bars"}, {}, ["job_time"], "unknown unit 'bars'"),
    ({"gpu_mttf": 10**5000}, {}, ["job_time"], "is not a floating-point number"),
    ({"gpu_mttf": np.complex128(1)}, {}, ["job_time"], "is not a number in s"),
    ({"gpu": "x" * 5000}, {}, ["job_time"], "is not in the catalog"),
    ({}, {"gpu_mttf": b"1 h"}, ["job_time"], "is not a list"),
    ({"checkpoint_policy": "fixed"}, {}, ["job_time"], "fixed_checkpoint_interval is missing"),
    ({}, {"input": {"gpu_mttf": [1, 2]}}, ["job_time"], "the name of a dimension of answers"),
]


@pytest.mark.parametrize(("scenario", "axes", "outputs", "words"), CASES)
def test_bad_input_is_one_clear_line(scenario: Any, axes: Any, outputs: Any, words: str) -> None:
    assert len(refused(re.escape(words), Sweep, {**GOOD, **scenario}, axes, outputs)) < 300


def test_a_count_of_a_layout_may_be_given_where_it_agrees_or_nothing_else_gives_it() -> None:
    agreeing = LAYOUT | {"data_parallel": 8, "num_microbatches": 4, "nodes": 8}
    job = GOOD | LAYOUT
    same = fleetcube.evaluate("step_time", **{**GOOD, **agreeing})
    assert same == fleetcube.evaluate("step_time", **job)
    assert fleetcube.evaluate("num_microbatches", global_batch_size=32, data_parallel=2) == 16
    words = "data_parallel follows from n_gpus, which is sought; leave data_parallel out"
    refused(words, Sweep(job | {"data_parallel": 8}).solve, "n_gpus", "job_time <= 9 d")


def test_a_missing_input_is_named_with_the_way_to_it() -> None:
    with pytest.raises(InputError, match="inter_node_bandwidth is missing: job_time needs it"):
        fleetcube.evaluate("job_time", n_gpus=64, model="llama-3-8b", gpu="h100-sxm")
    told = r"layers is missing.*give parameters, or a model \(fleetcube catalog model\)"
    refused(told, fleetcube.evaluate, "checkpoint_size")


def test_a_message_stays_short_and_keeps_its_ends() -> None:
    said = r"^engine = 'xxx.*choose one of auto.* jax-float32$"
    with pytest.raises(InputError, match=said) as caught:
        fleetcube.evaluate("node_mttf", settings=Settings("x" * 5000))
    assert len(str(caught.value)) < 600
    refused("gpu_mttf = b'1 h' is not a number", fleetcube.evaluate, "node_mttf", gpu_mttf=b"1 h")


def test_a_label_that_lacks_an_input_is_named() -> None:
    with pytest.raises(InputError, match=r"peak_flops_bf16 is missing.*gpu = v100-sxm2-32gb"):
        fleetcube.evaluate("ridge_point", gpu=["h100-sxm", "v100-sxm2-32gb"])
    result = fleetcube.evaluate("ridge_point", gpu=["h100-sxm", "v100-sxm2-32gb"], precision="fp16")
    assert result.sizes == {"gpu": 2}


def test_a_grid_larger_than_memory_is_refused_before_it_is_computed(monkeypatch: Patch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    axes = {"n_gpus": np.arange(1, 2001), "gpu_mttf": np.arange(1, 1001)}
    with pytest.raises(InputError, match=r"takes 16 MB and 1 MB of memory are free; store it"):
        Sweep({}, axes, ["cluster_mtbf"]).evaluate()


@cases(
    "text, words",
    ("outputs = [", "is not TOML"),
    ("[scenario]\nn_gpus = 8", "names no outputs"),
    ('outputs = ["cluster_mtbf"]\n[axis]\nn_gpus = [8]', "did you mean 'axes'?"),
    ('outputs = ["cluster_mtbf"]\nscenario = 3', "is not a table"),
    ('outputs = ["cluster_mtbf"]\naxes = [1]', "is not a table"),
    ('outputs = ["cluster_mtbf"]\n[scenario]\nn_gpus = 2026-01-01', "is not a plain number"),
    ('outputs = [["cluster_mtbf"]]\n[scenario]\nn_gpus = 8', "is not a name"),
)
def test_bad_specs_are_one_clear_line(tmp_path: Path, text: str, words: str) -> None:
    refused(re.escape(words), Sweep.from_file, written(tmp_path / "spec.toml", text))


def test_files_that_are_no_specs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("binary.toml", "missing.toml", "."):
        refused("cannot read", Sweep.from_file, tmp_path / name)


@cases(
    "arguments, words",
    ({"dtype": "int8"}, "choose one of float64, float32"),
    ({"settings": "numpy"}, "is not a Settings; give fleetcube.Settings"),
    ({"out": Sweep({}, {"n_gpus": [8]}, ["cluster_mtbf"]).evaluate()}, "earlier call"),
)
def test_bad_requests_are_refused(arguments: dict[str, Any], words: str) -> None:
    sweep = Sweep({}, {"n_gpus": [8, 16], "gpu_mttf": [1e8]}, ["cluster_mtbf"])
    refused(words, sweep.evaluate, **arguments)


@cases(
    "arguments, words",
    ({"engine": "fast"}, "choose one of auto, numpy, numba, jax"),
    ({"engine": None}, "choose one of auto, numpy, numba, jax"),
    ({"infeasible": True}, "choose one of exclude, mark, include"),
    ({"threads": 0}, "whole number above 0"),
    ({"progress": 1}, "is not a function"),
)
def test_bad_settings_are_refused(arguments: dict[str, Any], words: str) -> None:
    refused(words, Settings, **arguments)


def along(values: Any, coordinate: Any, **attributes: Any) -> xarray.DataArray:
    return xarray.DataArray(values, dims="k", coords={"k": coordinate}, attrs=attributes)


def test_data_arrays_are_aligned_and_in_their_units() -> None:
    hours = xarray.DataArray([5e4], dims="gpu_mttf", attrs={"units": "h"})
    assert fleetcube.evaluate("node_mttf", gpu_mttf=hours)["gpu_mttf"].values[0] == 5e4 * 3600
    with pytest.raises(InputError, match="is not in s"):
        fleetcube.evaluate("node_mttf", gpu_mttf=hours.assign_attrs(units="W"))
    gpus = along([8.0, 16.0], [1, 2])
    with pytest.raises(InputError, match="other coordinates along 'k'; align them"):
        fleetcube.evaluate("cluster_mtbf", n_gpus=gpus, gpu_mttf=along([1e8, 2e8], [2, 1]))
    with pytest.raises(InputError, match="both an input and the dimension"):
        fleetcube.evaluate("cluster_mtbf", n_gpus=gpus, k=[1, 2])
    refused("twice", lambda: fleetcube.evaluate("cluster_mtbf", n_gpus=along([8.0, 16.0], [1, 1])))


def test_arrays_of_odd_types_are_read_or_refused() -> None:
    wide = np.array([8, 16], np.longdouble)
    assert fleetcube.evaluate("cluster_mtbf", n_gpus=wide).sizes == {"n_gpus": 2}
    for odd in (np.array([1, 2], "m8[h]"), np.ma.array([8, 16], mask=[0, 1]), [10**400]):
        with pytest.raises(InputError):
            fleetcube.evaluate("cluster_mtbf", n_gpus=odd)


def test_outputs_that_share_memory_are_refused() -> None:
    sweep = Sweep({}, {"n_gpus": [8, 16]}, ["cluster_mtbf", "node_mttf", "expected_failures"][:1])
    assert sweep.evaluate(out=sweep.evaluate())["cluster_mtbf"].sizes == {"n_gpus": 2}
    two = Sweep({"job_duration": 1e6}, {"n_gpus": [8, 16]}, ["cluster_mtbf", "expected_failures"])
    held = two.evaluate()
    held["expected_failures"] = held["cluster_mtbf"]
    refused("share memory", two.evaluate, out=held)


def test_an_array_at_an_odd_address_is_no_room_for_an_output() -> None:
    # a kernel that streams cache lines there would end the process
    sweep = Sweep({}, {"n_gpus": list(range(8, 8008, 8))}, ["cluster_mtbf"])
    result = sweep.evaluate()
    result["cluster_mtbf"] = ("n_gpus", np.zeros(8 * 1000 + 4, np.uint8)[4:].view(float))
    refused("multiple of 8 bytes; copy it", sweep.evaluate, out=result, settings=Settings("numba"))
