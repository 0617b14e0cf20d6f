"""Coefficients that are found from GPU, precision, software and layers, and their intervals."""

import itertools
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import fleetcube
from docs.make import pooled as made
from docs.make import training
from docs.make.hierarchy import at
from fleetcube import InputError, Settings, Sweep
from fleetcube.analysis import ratio, traffic
from fleetcube.analysis.calibrations import calibrations
from fleetcube.analysis.optimize import Range, Search
from fleetcube.calibration.predict import evaluate
from fleetcube.catalog import CatalogError, kind, pooled
from fleetcube.catalog.vendors import of_software, vendor
from fleetcube.cli import cli
from fleetcube.grid.plan.written import result_scenario
from fleetcube.grid.spec.problem import resolve
from fleetcube.grid.store.verify import verify
from fleetcube.kernels.physics.roles import MEMORY
from fleetcube.presentation.explain import explain_traffic
from fleetcube.scenario import auto
from fleetcube.scenario.auto import compressed

from ..draws import generator
from .common import Patch, cases, on_h100, refused, solve, written

JOB = on_h100(
    "gpt-3-175b", n_gpus=1024, precision="bf16", attention_kernel="flash", calibration="auto"
)
JOB |= {"software": "megatron-lm", "tensor_parallel": 8, "pipeline_parallel": 8}
JOB |= {"global_batch_size": 1024, "cuda_graphs": True}  # no host that may be late
ROWS = pooled.posterior().cells["megatron, dense, h100, 8 bits"][0]
TIMES = ("step_time", "step_time_low", "step_time_high")


def answer(**changed: Any) -> Any:
    scenario = {n: v for n, v in {**JOB, **changed}.items() if v is not None}
    return Sweep(scenario, {}, TIMES).evaluate(settings=Settings("numpy"))


def width(**changed: Any) -> float:
    cube = answer(**changed)
    return float(np.log(cube.step_time_high / cube.step_time))


@pytest.mark.slow
def test_every_measured_cell_has_the_coefficients_of_the_fit() -> None:
    of, fitted = made.rows()
    found = made.in_catalog(made.model(of))
    own = pooled.posterior()
    for k in [np.flatnonzero(fitted)[n] for n in range(0, int(fitted.sum()), 45)]:
        row = of[k]
        facts = {name: float(x[0]) for name, x in made.facts([row]).items()}
        cell = pooled.Cell(
            *(made.software(row), made.layers(row), made.gpu(row), made.precision(row)),
            row.inputs.get("attention_kernel", "flash"),
            *(own.content["peak"] * np.exp(facts["rate"]) / pooled.sustained(facts["power"]),) * 2,
            facts["node_link"],
            watts_per_flop=0.0
            if made.unpowered(row)
            else own.content["watts_per_flop"] * np.exp(facts["power"]),
        )
        groups = {level: group(row) for level, group in made.LEVELS.items()}
        groups |= {"cell": cell.name, "table": ""}
        means, covariance = at(found, groups, facts)
        x, root = own.coefficients_of(cell)
        assert np.allclose(x, means, atol=1e-12)
        assert np.allclose(root @ root.T, covariance, atol=1e-12)
        assert own.values(cell)["gemm_efficiency"] <= facts["gemm"]


def test_a_point_of_a_sweep_is_the_scenario_alone() -> None:
    axes = {"node": ["dgx-h100", "dgx-b200"], "software": ["fsdp", "megatron-lm"]}
    axes |= {"precision": ["fp8", "bf16"], "n_gpus": [1024, 32768]}
    scenario = {name: value for name, value in JOB.items() if name not in axes}
    cube = Sweep(scenario, axes, TIMES).evaluate(settings=Settings("numpy"))
    assert cube.step_time.dims == tuple(axes)
    assert cube.gemm_efficiency.dims == ("node", "software", "precision")
    for place in np.random.default_rng(18).permutation(16)[:6]:
        index = np.unravel_index(place, (2, 2, 2, 2))
        point = {name: row[k] for (name, row), k in zip(axes.items(), index, strict=True)}
        alone = answer(**point)
        for name in TIMES:
            assert cube[name].values[index] == alone[name], (name, point)
    high = Sweep({**scenario, "step_time": 4.0}, axes, TIMES[2:])  # one formula to compile
    factors = high.evaluate(settings=Settings("numba")).step_time_high / 4
    assert factors.dims == tuple(axes)
    assert np.allclose(factors, cube.step_time_high / cube.step_time, rtol=1e-15)


def test_a_table_keeps_only_axes_along_which_it_varies() -> None:
    names, found = compressed(("a", "b", "c"), np.array([[[1.0, 2.0]], [[1.0, 2.0]]]))
    assert names == ("c",)
    assert found.tolist() == [1.0, 2.0]
    assert compressed(("a", "b"), np.ones((2, 3)))[0] == ()


def test_an_axis_of_calibrations_may_have_auto_among_others() -> None:
    labels = ["auto", "megatron-h100-fp8"]
    scenario = {**JOB, "precision": "fp8"}
    cube = Sweep(
        {n: v for n, v in scenario.items() if n != "calibration"}, {"calibration": labels}, TIMES
    )
    for label, value in zip(
        labels, cube.evaluate(settings=Settings("numpy")).step_time_high.values, strict=True
    ):
        assert answer(precision="fp8", calibration=label).step_time_high == value
    with pytest.raises(InputError, match="is found from node, which varies along 'node'"):
        Sweep(JOB, {"calibration": labels, "node": ["dgx-h100", "dgx-b200"]}, TIMES)


def test_what_is_given_wins_and_physics_has_no_other_input() -> None:
    values = pooled.posterior()
    cube = answer(gemm_efficiency=0.5)
    entry = json.loads(cube.attrs["fleetcube_catalog"])
    auto = next(one for one in entry if one["label"].startswith("auto"))["values"]
    assert values.digest[:16] in str(entry)
    same = {name: value for name, value in auto.items() if name != "gemm_efficiency"}
    explicit = {n: v for n, v in JOB.items() if n not in ("calibration", "software", "cuda_graphs")}
    own = {"gradient_storage": "fp32"}  # of the software
    given = {**explicit, **own, **same, "gemm_efficiency": 0.5, "cuda_graphs": True}
    by_hand = Sweep(given, {}, TIMES).evaluate(settings=Settings("numpy"))
    assert by_hand.step_time_high == cube.step_time_high
    assert "fleetcube_unused" not in cube.attrs
    eager = {**explicit, "software": "torchtitan-eager", "zero_stage": 3, "calibration": "none"}
    read = Sweep(eager, {}, ["memory_per_gpu"]).evaluate()
    assert "software" not in read.attrs.get("fleetcube_unused", "").split()
    unread = Sweep({**explicit, "software": "nemo", "flops_efficiency": 0.4}, {}, TIMES)
    assert unread.evaluate(settings=Settings("numpy")).attrs["fleetcube_unused"] == "software"


def test_an_interval_widens_with_what_is_not_known() -> None:
    measured = width(precision="fp8")
    assert measured < width(precision="fp8", software="torchtitan", node="dgx-b200", n_gpus=65536)
    assert measured < width(precision="fp8", software=None)
    assert measured < width(precision="fp8", software=None, gpu="mi300x")
    far = [width(n_gpus=n) for n in (16384, 65536, 262144)]
    assert far[0] < far[1] < far[2]
    assert far[0] == pytest.approx(width())
    assert width(layers=960) > far[0]


def test_a_vendor_or_a_kind_of_layers_without_steps_widens_the_interval() -> None:
    found = pooled.posterior()
    about = found.content["unmeasured"]
    spreads = {kind: about[kind]["spread"] for kind in ("vendor", "states")}
    assert 0.2 < spreads["vendor"] < 0.6
    known = width(gpu="rubin", peak_flops_bf16=2.4e15)  # of a vendor with steps
    assert known < 0.3
    for gpu in ("mi300x", "gaudi-3", "trainium-2"):
        alone = width(gpu=gpu)
        assert alone > pooled.NORMAL * spreads["vendor"]
        assert alone < math.hypot(known, pooled.NORMAL * spreads["vendor"]) * 1.05
    layers = {"model": "qwen-3-next-80b-a3b", "tensor_parallel": 1, "pipeline_parallel": 1}
    hybrid = layers | {"model": "nemotron-3-nano"}
    assert width(**layers) > pooled.NORMAL * spreads["states"] > 1.3 * width(**hybrid)
    assert "no step of gated_deltanet is fitted" in answer(**layers).attrs["fleetcube_remarks"]


def test_rows_of_vendors_that_no_fit_has_are_inside() -> None:
    of, fitted = made.rows()
    rows = [r for r, seen in zip(of, fitted, strict=True) if not seen and made.vendor(r) == "AMD"]
    own = {"calibration": "auto", "software": "torchtitan"}
    times = evaluate([(TIMES, {**row.inputs, **own}) for row in rows])
    assert len(rows) == 4
    for row, (_, low, high) in zip(rows, times, strict=True):
        assert low < row.measured < high


def test_a_wait_that_rests_on_an_inferred_overlap_is_named() -> None:
    job = {"software": "fsdp", "zero_stage": 3, "tensor_parallel": 1, "pipeline_parallel": 1}
    slow = job | {"model": "llama-2-70b", "inter_node_bandwidth": "6 GB/s"}
    said = answer(**slow).attrs["fleetcube_remarks"]
    assert "of a step waits for data-parallel traffic: data_parallel_overlap is inferred" in said
    hidden: dict[str, Any] = {"global_batch_size": 8192, "micro_batch_size": 8}
    hidden |= {"inter_node_bandwidth": "600 GB/s"}
    for changed in ({"data_parallel_overlap": 0.4}, hidden):
        assert "waits" not in answer(**(slow | changed)).attrs["fleetcube_remarks"]


def test_every_chip_has_a_vendor_and_software_is_named_where_it_does_not_run() -> None:
    assert {*of_software()} == {*kind("software")}
    assert all(vendor(entry) for entry in kind("gpu").values())
    assert vendor(replace(kind("gpu")["h100-sxm"], title="A chip of ours")) == ""
    said = answer(gpu="tpu-v5p").attrs["fleetcube_remarks"]
    assert "megatron-lm runs on NVIDIA, AMD, Intel, not on Google" in said
    for software, gpu in (("maxtext", "h100-sxm"), ("maxtext", "tpu-v5p"), ("nemo", "h100-sxm")):
        assert "runs on" not in answer(software=software, gpu=gpu).attrs["fleetcube_remarks"]


def test_what_two_jobs_on_chips_of_one_vendor_share_cancels_in_their_ratio() -> None:
    job = {name: value for name, value in JOB.items() if name != "software"}
    sides = {
        gpu: ratio.side({**job, "gpu": gpu}, ["step_time"])
        for gpu in ("mi300x", "mi325x", "h200-sxm")
    }

    def half(a: str, b: str) -> float:
        found = ratio.between(sides[a], sides[b])["step_time"]
        return float(np.log(found.high / found.low)) / 2

    assert half("mi300x", "mi325x") < 0.4 < half("mi300x", "h200-sxm")


def test_a_ratio_to_a_job_on_a_new_fabric_is_wider_unless_both_are_on_it() -> None:
    job = {"model": "llama-3-8b", "tensor_parallel": 1, "pipeline_parallel": 1, "zero_stage": 1}

    def half(a: dict[str, Any], b: dict[str, Any]) -> float:
        sides = (ratio.side({**JOB, **job, "n_gpus": 64, **own}, ["step_time"]) for own in (a, b))
        found = ratio.between(*sides)["step_time"]
        return float(np.log(found.high / found.low)) / 2

    one, two = {"fabric": "infiniband-ndr"}, {"fabric": "infiniband-xdr"}
    new, newer = {"fabric": "slingshot-11"}, {"fabric": "omni-path-100"}
    step = width(**job, n_gpus=64, **one)
    spread = step * math.sqrt(1.3**2 - 1)  # with it, a step's own is 1.3 times as wide
    assert half(one, new) == pytest.approx(math.hypot(half(one, two), spread), rel=0.02)
    assert half(newer, new) == pytest.approx(math.hypot(half(one, two), spread, spread), rel=0.02)
    longer, in_node = {"global_batch_size": 2048}, {"n_gpus": 8}
    assert half(new, new | longer) == pytest.approx(half(one, one | longer), rel=0.02)
    assert half(one | in_node, new | in_node) == pytest.approx(half(one | in_node, two | in_node))


@cases(
    "changed, said",
    ({"precision": "fp8"}, f"from {ROWS} published megatron-lm steps on h100"),
    ({"gpu": "mi300x"}, "no published megatron-lm steps on mi300x"),
    ({"gpu": "mi300x"}, "no step of a chip of AMD is fitted"),
    ({"gpu": "rubin"}, "its power is not known, and taken as an H100's for each FLOP"),
    ({"node": "dgx-a100"}, "ran attention_kernel = standard, here it is flash: give standard for"),
    ({"n_gpus": 65536}, "n_gpus = 65,536 is outside the published steps"),
    ({"calibration": "megatron-a100-fp16"}, "was fitted to other steps (GPU a100 instead of h100)"),
    ({"calibration": "megatron-h100-fp8"}, "to other steps (precision 8 bits instead of 16 bits)"),
    ({"calibration": "aws-p5"}, "aws-p5 is of the network alone, and flops_efficiency is"),
)
def test_a_result_says_what_it_stands_on(changed: dict[str, Any], said: str) -> None:
    assert said in answer(**changed).attrs["fleetcube_remarks"]


def share(**changed: Any) -> float:
    """Of the peak, that large products reach."""
    return float(auto.point_values({**JOB, **changed})[0]["gemm_efficiency"])


def test_a_limit_of_power_takes_from_the_share_of_products() -> None:
    free, same, limited = (answer(**w) for w in ({}, {"gpu_tdp": "700 W"}, {"gpu_tdp": "500 W"}))
    assert float(free.step_time) == float(same.step_time) < float(limited.step_time)
    odds = [each / 0.803 for each in (share(), share(gpu_tdp=500.0))]  # of the best rate
    moved = [math.log(each / (1 - each)) for each in odds]
    slope = (moved[0] - moved[1]) / math.log(700 / 500)
    assert 1.9 < slope < 3.3  # of kernels alone on one chip at two limits (decision 82)
    assert "gpu_tdp" not in limited.attrs.get("fleetcube_unused", "")
    swept = Sweep(JOB, {"gpu_tdp": [500.0, 700.0]}, TIMES).evaluate(settings=Settings("numpy"))
    assert swept.step_time.values.tolist() == [float(x.step_time) for x in (limited, free)]


def test_no_gpu_is_slower_for_a_higher_peak_nor_saves_energy_at_a_lower_limit() -> None:
    """Below the watts for each FLOP of all fitted GPUs, each FLOP takes the same energy."""
    b200 = {"node": "dgx-b200"}
    rates = [p * share(**b200, peak_flops_bf16=p) for p in (2.25e15, 3e15, 5e15)]
    assert rates == pytest.approx([rates[0]] * 3, rel=1e-9)
    shares = [share(**b200, gpu_tdp=watts) for watts in (1000.0, 500.0, 250.0)]
    assert shares == pytest.approx([shares[0], shares[0] / 2, shares[0] / 4], rel=1e-9)
    most = pooled.posterior().content["watts"][1] * 989e12
    assert share(gpu_tdp=2 * most) == share(gpu_tdp=4 * most)
    # GB300: products at 500 W take 0.28 to 0.39 of the rate at 1,400 W
    # (facebookexperimental/triton#2023)
    limited, full = (share(node="gb300-nvl72", gpu_tdp=watts) for watts in (500.0, 1400.0))
    assert 0.28 < limited / full < 0.45


def test_a_gpu_in_the_node_of_another_has_nothing_of_that_one() -> None:
    """A V100 has no peak in BF16, which its calibration took from the node's H100."""
    v100 = {"gpu": "v100-sxm2-32gb", "precision": "fp16"}
    cells = [auto.posterior_cell({**JOB, **v100, "node": n}) for n in ("dgx-h100", "dgx-1-v100")]
    assert {(cell.peak_16, cell.peak) for cell in cells} == {(125e12, 125e12)}


def test_the_gpu_furthest_from_those_fitted_is_named_first() -> None:
    watts = {"gpu_tdp": [700.0, 650.0, 600.0, 1.0]}
    cube = Sweep(JOB, watts, TIMES).evaluate(settings=Settings("numpy"))
    assert "its power for each FLOP is a factor of" in cube.attrs["fleetcube_remarks"]


@pytest.mark.parametrize("node", ["dgx-h100", "dgx-b200", "mi300x-8gpu"])
def test_no_step_is_slower_for_more_watts(node: str) -> None:
    """Neither of long products nor of small ones."""
    experts = {"model": "qwen-3-30b-a3b", "expert_parallel": 8, "sequence_length": 512}
    watts = {"gpu_tdp": [50.0, 200.0, 600.0, 700.0, 850.0, 1270.0, 2885.0, 5000.0]}
    for job in (JOB, on_h100(**experts, n_gpus=64, calibration="auto")):
        cube = Sweep({**job, "node": node}, watts, TIMES).evaluate(settings=Settings("numpy"))
        assert (np.diff(cube.step_time.values) <= 0).all()


@pytest.mark.parametrize("node", ["dgx-h100", "dgx-b200", "gb200-nvl72"])
@pytest.mark.parametrize("software", ["torchtitan", "megatron-lm", "megatron-bridge"])
def test_a_peak_without_power_for_it_takes_nothing(node: str, software: str) -> None:
    """Small products lost 40 % where their half depth followed a peak that no power reaches; 1 % is
    left where a share falls faster than watts for each FLOP."""
    experts = {"model": "gpt-oss-120b", "expert_parallel": 8, "n_gpus": 64}
    experts |= {"global_batch_size": 256}
    job = on_h100(**experts, node=node, software=software, calibration="auto", micro_batch_size=1)
    sheet = fleetcube.catalog.record("gpu", fleetcube.catalog.record("node", node).values["gpu"])
    peak = sheet.values["peak_flops_bf16"]
    peaks = {"peak_flops_bf16": [factor * peak for factor in (1.0, 1.05, 1.5, 2.0, 3.0)]}
    times = Sweep(job, peaks, TIMES).evaluate(settings=Settings("numpy")).step_time.values
    assert (times <= 1.02 * np.minimum.accumulate(times)).all()


def test_steps_of_a_gpu_say_more_than_a_power_that_its_record_lacks() -> None:
    tpu = {"node": None, "gpu": "tpu-v6e", "software": "maxtext", "precision": "bf16"}
    times = [answer(**tpu, **w).step_time.item() for w in ({}, {"gpu_tdp": 300}, {"gpu_tdp": 650})]
    assert len({*times}) == 1


def test_a_gpu_of_unknown_power_is_wider_than_the_same_with_its_watts() -> None:
    watts = answer(gpu="rubin", gpu_tdp="1800 W")
    assert width(gpu="rubin") > width(gpu="rubin", gpu_tdp="1800 W")
    assert "its power is not known" not in watts.attrs["fleetcube_remarks"]


def test_a_calibration_of_such_steps_needs_no_remark() -> None:
    cube = answer(calibration="megatron-h100-fp8", precision="fp8")
    assert "fleetcube_remarks" not in cube.attrs
    assert (
        "fleetcube_remarks"
        not in Sweep(PLAIN, {}, ["cluster_mtbf"]).evaluate(settings=Settings("numpy")).attrs
    )
    of_links = PLAIN | {"calibration": "aws-p5"}
    for axes, given in (({"flops_efficiency": [0.4]}, {}), ({}, {"compute_time": 2.0})):
        cube = Sweep(of_links | given, axes, ["step_time"]).evaluate(settings=Settings("numpy"))
        assert "fleetcube_remarks" not in cube.attrs


@cases(
    "changed, last",
    ({}, "The step takes {:.4g} s; 90 % interval {:.4g} s to {:.4g} s."),
    ({"calibration": "none"}, "Times per step, before any overlap."),  # no width known
)
def test_traffic_of_a_job_ends_with_its_step(changed: dict[str, Any], last: str) -> None:
    scenario = {n: v for n, v in (JOB | changed).items() if v is not None}
    cube = Sweep(scenario, {}, [*traffic.NAMES, *TIMES]).evaluate(settings=Settings("numpy"))
    ends = [float(cube[name]) for name in TIMES]
    assert explain_traffic(cube).splitlines()[-1] == last.format(*ends)
    small = Sweep(
        scenario | {"hbm_capacity": "1 GB"}, {}, [*traffic.NAMES, *TIMES, *MEMORY]
    ).evaluate()
    said = explain_traffic(small)
    assert re.search(r"Memory of a GPU: [\d.]+ of 1.0 GB, [\d.]+% too much; .* within 7%\.", said)
    assert "It cannot run: out_of_memory." in said
    assert "It cannot run" not in explain_traffic(cube)


OWN = """title = "a"
source = "b"
date = "2026-11"
note = "c"
compute_model = "roofline"
gemm_efficiency = 0.5

[fit]
steps_of = "megatron, dense, h100, 16 bits"
"""


@cases(
    "changed, axes, said",
    ({}, {}, ""),
    ({"precision": "fp8"}, {}, "(precision 16 bits instead of 8 bits)"),
    ({"software": "fsdp", "node": "dgx-b200"}, {}, "(GPU h100 instead of b200, software megatron"),
    ({}, {"precision": ["bf16", "fp8"]}, "(precision 16 bits instead of 8 bits)"),
    ({}, {"node": ["dgx-h100", "dgx-a100"]}, "(GPU h100 instead of a100)"),
    ({}, {"n_gpus": [512, 1024]}, ""),
    (
        {"calibration": "megatron-h100-fp8"},
        {"precision": ["fp8", "bf16"]},
        "(precision 8 bits instead of 16 bits)",
    ),
)
def test_a_calibration_of_other_steps_is_remarked_on(
    changed: Any, axes: Any, said: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "own.toml", OWN)
    given = {n: v for n, v in (JOB | {"calibration": str(path)} | changed).items() if n not in axes}
    cube = Sweep(given, axes, ["step_time"]).evaluate(settings=Settings("numpy"))
    remarks = cube.attrs.get("fleetcube_remarks", "")
    assert f"was fitted to other steps {said}" in remarks if said else not remarks


def test_a_file_whose_steps_are_not_named_as_they_are_written_is_taken(tmp_path: Path) -> None:
    for text in ("", "x", "a, b, c, d, e"):
        path = written(tmp_path / "own.toml", OWN.replace("megatron, dense, h100, 16 bits", text))
        assert auto.fitted_to(str(path)) is None


@cases(
    "changed, message",
    ({"software": "megatron"}, "did you mean 'megatron-lm' or 'megatron-bridge'"),
    ({"node": None}, "needs a GPU and has none; give gpu, node or peak_flops_bf16"),
)
def test_bad_input_is_one_line(changed: dict[str, Any], message: str) -> None:
    refused(message, answer, **changed)


def test_attention_is_flash_whatever_older_software_was_measured_with() -> None:
    # Megatron-LM's published steps on A100 are older than FlashAttention
    job = {n: v for n, v in JOB.items() if n != "attention_kernel"} | {"node": "dgx-a100"}
    assert pooled.posterior().cells["megatron, dense, a100, 16 bits"][1] == "standard"

    def steps(**kernel: str) -> list[float]:
        own = {**job, **kernel, "software": "megatron-lm"}
        found = Sweep(own, {}, TIMES).evaluate(settings=Settings("numpy"))
        return [float(found[name]) for name in TIMES]

    plain, older = steps(), steps(attention_kernel="standard")
    assert plain == steps(attention_kernel="flash")
    assert plain[0] < older[0]
    assert plain[2] / plain[1] > older[2] / older[1]


MIXTURE = {
    "model": "qwen-3-30b-a3b", "node": "gb200-nvl72", "n_gpus": 8, "expert_parallel": 8,
    "software": "megatron-bridge", "precision": "mxfp8", "micro_batch_size": 4,
    "global_batch_size": 512, "recompute": False,
}  # fmt: skip


@cases(
    "changed, asks",
    ({}, True),
    ({"grouped_products": "fused"}, False),
    ({"grouped_products": "separate"}, False),
    ({"precision": "bf16"}, False),
    ({"node": "dgx-h100"}, False),
    ({"software": "torchtitan"}, False),
    ({"model": "llama-3-8b", "expert_parallel": 1}, False),
)
def test_an_answer_says_that_products_of_experts_may_be_fused(
    changed: dict[str, Any], asks: bool
) -> None:
    cube = Sweep({**MIXTURE, **changed}, {}, ["step_time"]).evaluate()
    assert ("grouped_products" in cube.attrs["fleetcube_remarks"]) == asks


def test_fused_products_are_faster_along_an_axis_too() -> None:
    both = ["separate", "fused"]
    cube = Sweep(MIXTURE, {"grouped_products": both}, ["step_time"]).evaluate()
    apart = [float(fleetcube.evaluate("step_time", **MIXTURE, grouped_products=n)) for n in both]
    assert cube.step_time.values.tolist() == apart
    assert apart[1] < 0.95 * apart[0]


def test_a_format_that_no_step_has_is_named() -> None:
    job = {**MIXTURE, "model": "llama-3-8b", "expert_parallel": 1}
    for name, is_new in (("mxfp4", True), ("nvfp4", False), ("bf16", False)):
        answer = Sweep({**job, "precision": name}, {}, ["step_time"]).evaluate()
        text = f"no step in {name} is fitted, others of 4 bits are"
        assert (text in answer.attrs["fleetcube_remarks"]) == is_new


@cases(
    "changed, new",
    ({}, ""),
    ({"fabric": "infiniband-xdr"}, ""),
    ({"fabric": "slingshot-11"}, "slingshot-11"),
    ({"fabric": "slingshot-11", "inter_node_bandwidth": "20 GB/s"}, "slingshot-11"),
    ({"fabric": "alibaba-hpn@1"}, "alibaba-hpn"),
    ({"fabric": "slingshot-11", "n_gpus": 8, "pipeline_parallel": 1}, ""),
    ({"fabric": "slingshot-11", "gpus_per_domain": 1024, "n_gpus": 1024}, ""),
    ({"fabric": "slingshot-11", "calibration": "megatron-h100-fp8"}, ""),
    ({"fabric": None, "inter_node_bandwidth": "20 GB/s"}, ""),
    ({"fabric": None, "node": "aws-p5", "gpu": None}, "efa-p5"),  # its own cards
)
def test_a_fabric_between_nodes_that_no_step_has_is_named(
    changed: dict[str, Any], new: str
) -> None:
    cube = answer(**changed)
    text = f"calibration auto: no step on {new} is fitted: between nodes the interval is 1.3 times"
    remarks = cube.attrs["fleetcube_remarks"].splitlines()
    assert [each for each in remarks if "no step on" in each] == [f"{text} as wide"] * bool(new)
    known = {"fabric": "infiniband-ndr"}  # 50 GB/s, of each of these nodes too
    if changed.get("calibration") is None:
        logs = np.log(cube.step_time_high / cube.step_time)
        assert float(logs) == pytest.approx((1.3 if new else 1) * width(**{**changed, **known}))


@cases(
    "own",
    {"error_factor": 1.2},
    {"calibration": "megatron-h100-fp8"},
    {"calibration": "none", "error_factor": 1.2},
)
def test_an_interval_that_auto_did_not_set_is_as_wide_on_any_fabric(own: dict[str, Any]) -> None:
    fabrics = ("infiniband-ndr", "slingshot-11")
    old, new = (width(**own, fabric=fabric, cuda_graphs=True) for fabric in fabrics)
    assert new == pytest.approx(old, rel=1e-12)
    remarks = answer(**own, fabric=fabrics[1]).attrs.get("fleetcube_remarks", "")
    assert ("no step on slingshot-11 is fitted" in remarks) == ("calibration" not in own)
    assert "times as wide" not in remarks


def test_an_option_leaves_the_interval_as_wide_as_on_a_known_fabric() -> None:
    known, new = {"fabric": "infiniband-ndr"}, {"fabric": "slingshot-11"}
    left = {**new, "unmeasured_fabric": False}
    assert width(**left) == pytest.approx(width(**known), rel=1e-12)
    remarks = answer(**left).attrs["fleetcube_remarks"]
    assert "no step on slingshot-11 is fitted" in remarks
    assert "times as wide" not in remarks
    assert width(**new, unmeasured_fabric=True) == width(**new)


def test_ratios_along_sizes_count_a_new_fabric_between_nodes_alone() -> None:
    job = {"model": "llama-3-8b", "tensor_parallel": 1, "pipeline_parallel": 1, "zero_stage": 1}
    axes = {"fabric": ["infiniband-ndr", "slingshot-11"], "n_gpus": [8, 64]}
    shared = {name: value for name, value in {**JOB, **job}.items() if name not in axes}

    def side(fabric: str, n_gpus: int) -> Any:
        return ratio.side({**shared, "fabric": fabric, "n_gpus": n_gpus}, ["step_time"])

    inside, between = ("slingshot-11", 8), ("slingshot-11", 64)
    for base, one, other in (
        ("fabric=infiniband-ndr", ("infiniband-ndr", 8), inside),
        ("n_gpus=8", inside, between),
    ):
        sweep = Sweep(shared, axes, ["step_time"])
        found = sweep.prediction_interval(relative_to=base)
        there = found.sel(fabric=other[0], n_gpus=other[1])
        alone = ratio.between(side(*one), side(*other))["step_time"]
        assert float(there.step_time_ratio_high) == pytest.approx(alone.high)


def test_the_nodes_own_network_is_the_fabric_of_its_name() -> None:
    job = {"model": "llama-3-8b", "tensor_parallel": 1, "pipeline_parallel": 1, "zero_stage": 1}
    job = {**JOB, **job, "node": "aws-p5", "n_gpus": 64}
    cards = {name: value for name, value in job.items() if name != "fabric"}
    sides = [ratio.side(each, ["step_time"]) for each in (cards, {**job, "fabric": "efa-p5"})]
    found = ratio.between(*sides)["step_time"]
    assert (float(found.low), float(found.high)) == (1, 1)


def test_a_new_fabric_widens_at_its_own_points_between_nodes_alone() -> None:
    axes = {"fabric": ["slingshot-11", "infiniband-ndr", "infiniband-xdr"], "n_gpus": [8, 16, 1024]}
    job = {"model": "llama-3-8b", "tensor_parallel": 1, "pipeline_parallel": 1, "zero_stage": 3}
    shared = {name: value for name, value in {**JOB, **job}.items() if name not in axes}
    cube = Sweep(shared, axes, TIMES).evaluate(settings=Settings("numpy"))
    logs = np.log(cube.step_time_high / cube.step_time)
    assert (logs / logs.sel(fabric="infiniband-ndr")).values == pytest.approx(
        np.array([[1, 1.3, 1.3], [1, 1, 1], [1, 1, 1]])
    )
    for fabric in axes["fabric"]:
        for n_gpus in axes["n_gpus"]:
            alone = answer(**job, fabric=fabric, n_gpus=n_gpus).step_time_high
            assert cube.step_time_high.sel(fabric=fabric, n_gpus=n_gpus) == alone
    rows = [(fabric, n) for fabric in axes["fabric"] for n in axes["n_gpus"]]
    frame = pandas.DataFrame(rows, columns=["fabric", "n_gpus"])
    table = fleetcube.evaluate_table(frame, TIMES, scenario=shared)
    assert table.step_time_high.tolist() == cube.step_time_high.values.reshape(-1).tolist()


def test_sizes_tried_between_nodes_of_a_new_fabric_have_its_interval() -> None:
    job = large(fabric="slingshot-11", model="llama-3-8b", tensor_parallel=1, zero_stage=3)
    for limit in ("step_time_high <= 200 s", "step_time_high <= 20 s"):
        found = solve("n_gpus", limit, whole=True, settings=ROOTS, **job)
        alone = Sweep({**job, "n_gpus": int(found.n_gpus)}, {}, TIMES).evaluate()
        assert float(alone.step_time_high) == pytest.approx(float(found.step_time_high), rel=1e-12)
        assert "no step on slingshot-11 is fitted" in found.attrs["fleetcube_remarks"]


def test_layouts_chosen_on_a_new_fabric_have_its_interval() -> None:
    job = {"model": "llama-3-8b", "global_batch_size": 128, "cuda_graphs": True}
    job = {**job, "node": "dgx-h100", "software": "megatron-lm", "precision": "bf16"}
    for n_gpus, wider in ((8, 1.0), (32, 1.3)):
        chosen = []
        for fabric in ("infiniband-ndr", "slingshot-11"):
            sweep = Sweep({**job, "fabric": fabric, "n_gpus": n_gpus}, {}, TIMES)
            chosen.append(sweep.best("step_time", search="tensor_parallel", also=TIMES[1:]))
        logs = [float(np.log(each.step_time_high / each.step_time).squeeze()) for each in chosen]
        assert logs[1] == pytest.approx(wider * logs[0])
        assert ("times as wide" in chosen[1].attrs["fleetcube_remarks"]) == (wider > 1)


def test_new_fabrics_are_named_along_axes() -> None:
    scenario = {name: value for name, value in JOB.items() if name not in ("fabric", "n_gpus")}
    fabrics = ["slingshot-11", "infiniband-ndr", "omni-path-100"]
    for sizes, is_named in (([4, 8], False), ([8, 1024], True)):
        axes = {"fabric": fabrics, "n_gpus": sizes}
        job = scenario | {"tensor_parallel": 1, "pipeline_parallel": 1, "zero_stage": 3}
        cube = Sweep(job, axes, TIMES).evaluate(settings=Settings("numpy"))
        text = "no step on omni-path-100, slingshot-11 is fitted"
        assert (text in cube.attrs["fleetcube_remarks"]) == is_named


@cases(
    "sizes, fabrics, is_named",
    ([8, 64], ["slingshot-11"] * 2, True),
    ([64, 8], ["slingshot-11"] * 2, True),
    ([8, 4], ["slingshot-11"] * 2, False),
    ([8, 64], ["infiniband-ndr"] * 2, False),
)
def test_new_fabrics_are_named_in_tables(
    sizes: list[int], fabrics: list[str], is_named: bool
) -> None:
    job = {name: JOB[name] for name in ("node", "software", "global_batch_size", "calibration")}
    frame = pandas.DataFrame({"n_gpus": sizes, "fabric": fabrics, "model": ["llama-3-8b"] * 2})
    table = fleetcube.evaluate_table(frame, TIMES, scenario=job | {"zero_stage": 3})
    assert ("slingshot-11 is fitted" in table.attrs["fleetcube_remarks"]) == is_named


def test_fabrics_are_those_of_steps_between_nodes() -> None:
    of, fitted = made.rows()
    rows = [row for row, is_fitted in zip(of, fitted, strict=True) if is_fitted]
    found = pooled.posterior().content["fabrics"]
    assert found == sorted({made.fabric(row) for row in rows} - {""})
    # TPU v6e ran in single slices only, 512 chips of v5e in two slices of 256
    assert not {"tpu-dcn-v6e", "megascale"} & {*found}
    assert "tpu-dcn-v5e" in found


@cases("other", {"precision": "bf16"}, {"model": "llama-3-8b", "expert_parallel": 1})
def test_fused_products_change_nothing_where_none_are(other: dict[str, Any]) -> None:
    job = {**MIXTURE, **other}
    kinds = ("separate", "fused")
    separate, fused = (fleetcube.evaluate("step_time", **job, grouped_products=n) for n in kinds)
    assert separate == fused


def test_passes_in_turn_hide_no_traffic_of_experts() -> None:
    for schedule, hides in (("1f1b", False), ("combined_1f1b", True)):
        job = {**MIXTURE, "pipeline_schedule": schedule}
        names = ["exposed_expert_parallel_time", "expert_parallel_time"]
        found = Sweep(job, {}, names).evaluate()
        exposed = float(found[names[0]] / found[names[1]])
        assert exposed < 1 if hides else exposed >= 1


def test_an_edited_posterior_is_refused(tmp_path: Path) -> None:
    text = pooled.PATH.read_text(encoding="utf-8")
    content = json.loads(text)
    assert pooled.seal(content) == content["sha256"]
    edited = written(tmp_path / "pooled.json", text.replace('"rows": ', '"rows": 1', 1))
    with pytest.raises(CatalogError, match=r"pooled.json was edited: its hash is not .*; install"):
        pooled.posterior(edited)
    edited.write_text("{}", encoding="utf-8")
    with pytest.raises(CatalogError, match="is not the posterior"):
        pooled.posterior(edited)


def test_intervals_hold_clusters_that_no_fit_has_seen() -> None:
    of, fitted = made.rows()
    labels = {entry.values["steps_as"]: label for label, entry in kind("software").items()}
    pairs = zip(of, fitted, strict=True)
    rows = [row for row, seen in pairs if not seen and row.id not in training.APART]
    asked = []
    for row in rows:
        software = {"software": labels[made.software(row)]} if made.software(row) in labels else {}
        asked.append((TIMES[::2], {**row.inputs, "calibration": "auto", **software}))
    times = np.array([[float(x) for x in answer] for answer in evaluate(asked)])
    errors = np.abs(np.log(times[:, 0] / [row.measured for row in rows]))
    factors = np.log(times[:, 1] / times[:, 0])
    assert np.expm1(errors).mean() < 0.09
    assert (errors <= factors).mean() >= 0.85
    assert np.median(factors) < 0.25


def test_candidates_are_ranked_by_the_nearest_steps() -> None:
    found = calibrations({**JOB, "precision": "fp8", "calibration": "aws-p5"}, {})
    assert [each.label for each in found[:2]] == ["auto", "megatron-h100-fp8"]
    distances = [each.distance for each in found[1:]]
    assert distances == sorted(distances)
    assert all(0 < each.low < each.step_time < each.high for each in found)
    assert found[0].step_time == answer(precision="fp8").step_time
    assert found[2].differs == ("software megatron-bridge instead of megatron-lm",)
    far = calibrations({**JOB, "gpu": "mi300x"}, {"n_gpus": [512, 1024, 2048]})
    assert (far[0].distance, far[0].step_time) == (4, answer(gpu="mi300x").step_time)
    assert fleetcube.evaluate("step_time", **{**JOB, "gpu": "mi300x"}) == far[0].step_time


def test_commands_say_what_results_rest_on(tmp_path: Path, capsys: Any, monkeypatch: Patch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    spec = tmp_path / "job.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in {**JOB, "precision": "fp8"}.items()]
    spec.write_text("\n".join(['outputs = ["step_time"]', "[scenario]", *lines]), encoding="utf-8")
    stands = f"from {ROWS} published megatron-lm steps on h100"
    for command in (["run"], ["explain"], ["calibrations"]):
        cli.main([*command, str(spec)], standalone_mode=False)
        said = capsys.readouterr()
        assert stands in said.out + said.err, command
    ranked = said.out.splitlines()  # the reason stands below each, folded
    assert max(map(len, ranked)) <= 80
    place = next(k for k, line in enumerate(ranked) if line.startswith("megatron-h100-fp8 "))
    assert ranked[place + 1] == "  Megatron-LM on H100 GPUs in FP8"
    cli.main(["calibrations", str(spec), "--json", "software=fsdp"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)
    assert [each["label"] for each in found[:2]] == ["auto", "fsdp-h100-fp8"]


PLAIN = {n: v for n, v in JOB.items() if n not in ("calibration", "software", "cuda_graphs")}
BARE = {"model": None, "layers": 96, "hidden_size": 12288}
SHEET = {"node": None, "peak_flops_bf16": 989e12, "hbm_bandwidth": 3.35e12}


@cases(
    "changed, same_as",
    ({}, "auto"),
    (BARE, "auto"),
    ({"gpu": "mi300x"}, "auto"),
    ({"gemm_efficiency": 0.5}, "auto"),
    ({"flops_efficiency": 0.4}, "none"),
    ({"compute_model": "roofline"}, "none"),
    ({"compute_time": 1.0}, "none"),
    ({**SHEET, "intra_node_bandwidth": 450e9}, "none"),
)
def test_auto_is_the_default_where_a_shape_is_known(changed: dict[str, Any], same_as: str) -> None:
    job = {n: v for n, v in {**PLAIN, **changed}.items() if v is not None}
    cube = Sweep(job, {}, TIMES).evaluate(settings=Settings("numpy"))
    named = Sweep({**job, "calibration": same_as}, {}, TIMES).evaluate(settings=Settings("numpy"))
    for name in TIMES:
        assert cube[name] == named[name]
    spec = json.loads(cube.attrs["fleetcube_spec"])
    assert spec["scenario"].get("calibration", "none") == same_as
    assert ("fleetcube_remarks" in cube.attrs) == (same_as == "auto")
    again = Sweep(result_scenario(spec), spec["axes"], TIMES).evaluate(settings=Settings("numpy"))
    assert again.step_time_high == cube.step_time_high


def test_a_share_of_peak_that_is_asked_for_is_used() -> None:
    shares = [0.3, 0.45]
    times = (
        Sweep(PLAIN, {"flops_efficiency": shares}, ["step_time"])
        .evaluate(settings=Settings("numpy"))
        .step_time
    )
    assert times[0] > times[1] == fleetcube.evaluate("step_time", **PLAIN, calibration="none")
    of_share = fleetcube.function("step_time", PLAIN, ["flops_efficiency"])
    assert of_share(0.3) == pytest.approx(float(times[0]), rel=1e-12)
    found = solve("flops_efficiency", {"step_time": float(times[0])}, **PLAIN)
    assert float(found.flops_efficiency) == pytest.approx(0.3)


def test_free_inputs_do_not_tell_what_is_found() -> None:
    at = float(fleetcube.evaluate("step_time", **PLAIN))
    of_peak = fleetcube.function("step_time", PLAIN, ["peak_flops_bf16", "sequence_length"])
    assert of_peak(peak_flops_bf16=989e12, sequence_length=2048) == pytest.approx(at, rel=1e-12)


def test_a_row_of_a_table_is_the_scenario_alone() -> None:
    job = {n: v for n, v in PLAIN.items() if n not in ("model", "n_gpus", "pipeline_parallel")}
    rows: dict[str, list[Any]] = {"n_gpus": [64, 1024, 32768, 65536, 1024, 1024]}
    rows |= {"model": [*["llama-3-70b"] * 4, "mixtral-8x7b", "llama-3-8b"]}
    rows |= {"flops_efficiency": [None, 0.4, None, None, None, None]}
    rows |= {"experts": [None, None, None, None, None, 8]}
    rows |= {"peak_flops_bf16": [None, None, 2e15, None, None, None]}
    rows |= {"gpu": [None, None, None, "mi300x", None, None]}
    table = fleetcube.evaluate_table(rows, TIMES, scenario=job)
    for k in range(6):
        own = {**job, **{name: row[k] for name, row in rows.items() if row[k] is not None}}
        alone = fleetcube.evaluate(TIMES, **own)
        assert [table[name][k] for name in TIMES] == [float(alone[name]) for name in TIMES]


def test_cubes_mean_what_they_meant(tmp_path: Path, monkeypatch: Patch) -> None:
    axes: dict[str, Any] = {"node": ["dgx-h100", "dgx-a100"], "n_gpus": [1024, 2048]}
    job = {n: v for n, v in PLAIN.items() if n not in axes}
    with monkeypatch.context() as before:
        before.setattr(auto, "is_default", lambda *_: False)
        old = Sweep(job, axes, ["step_time"]).to_zarr(
            tmp_path / "old.zarr", settings=Settings("numpy")
        )
    report = verify(old)
    assert (report.problems, report.notes) == ([], [])  # its values are computed again
    new = Sweep(job, axes, ["step_time"]).to_zarr(tmp_path / "new.zarr", settings=Settings("numpy"))
    assert (verify(new).problems, verify(new).notes) == ([], [])
    with pytest.raises(InputError, match=r"scenario.calibration: unset -> .auto"):
        Sweep(job, axes, ["step_time"]).to_zarr(old, resume=True, settings=Settings("numpy"))


def test_a_cube_that_an_interval_widens_in_is_not_appended_to(tmp_path: Path) -> None:
    job = {name: value for name, value in PLAIN.items() if name != "n_gpus"}
    place = Sweep(job, {"n_gpus": [1024]}, TIMES).to_zarr(
        tmp_path / "a.zarr", settings=Settings("numpy")
    )
    longer = Sweep(job, {"n_gpus": [1024, 65536]}, TIMES)
    with pytest.raises(InputError, match="error_factor varies along n_gpus, before along nothing"):
        longer.to_zarr(place, append=True)


def test_experts_of_unknown_software_count_its_spread_once_and_ask_for_it() -> None:
    found = pooled.posterior()
    new = pooled.Cell("", "experts", "b200", "8 bits", "flash", 2.25e15, 4.5e15)
    new = replace(new, watts_per_flop=1000 / 2.25e15)
    spreads = {(name, level): value for name, level, value in found.content["spreads"]}
    k = list(found.coefficients).index("gemm_half_depth")
    _, root = found.coefficients_of(new)
    own = spreads["gemm_half_depth", "experts"]
    assert sum(root[k, len(root[0]) - len(root) :] ** 2) == pytest.approx(own**2)
    bridge = replace(new, software="bridge")
    megatron = replace(new, software="megatron")
    assert found.narrowest(megatron) == "megatron-bridge"
    assert not found.narrowest(bridge)
    assert not found.narrowest(replace(new, software="maxtext", layers="dense"))
    assert found.narrowest(replace(new, software="maxtext", vendor="google")) != "megatron-bridge"
    factor = found.values(megatron)["error_factor"]
    assert found.values(bridge)["error_factor"] < factor**pooled.NARROWER


def test_an_interval_takes_what_steps_with_such_layers_needed_when_left_out() -> None:
    found = pooled.posterior()
    needed = {name: about["typical"] for name, about in found.content["unseen"].items()}
    peaks = (2.25e15, 4.5e15)
    for gpu, software, left_out in (
        ("b200", "bridge", "a job"),
        ("b200", "nemo", "a cell"),
        ("h200", "bridge", "software on a GPU"),
        ("vr200", "bridge", "a generation"),
        ("b200", "", "one software"),
    ):
        for layers in ("dense", "experts", "hybrid"):
            cell = pooled.Cell(software, layers, gpu, "8 bits", "flash", *peaks)
            far = found.far(cell)
            if layers == "experts":
                assert left_out in far
            names = (*far, *(f"{name}, {layers}" for name in far))
            assert found.factor(cell) == max(1.0, *(needed.get(name, 0.0) for name in names))
    assert {f"{name}, experts" for name in (made.A_JOB, made.A_CELL, "a GPU")} <= needed.keys()


@cases(
    "name, inside, beyond",
    ("sequence_length", 2048, 4_194_304),
    ("global_batch_size", 1024, 262_144),
    ("layers", 96, 1024),
    ("hidden_size", 12288, 131_072),
    ("hbm_bandwidth", 3.35e12, 22e12),
)
def test_the_interval_widens_beyond_what_is_fitted(name: str, inside: float, beyond: float) -> None:
    widths, remarks = [], []
    for value in (inside, beyond):
        cube = Sweep(JOB | {name: value}, {}, TIMES).evaluate(settings=Settings("numpy"))
        widths.append(float(cube["step_time_high"] / cube["step_time"]))
        remarks.append(cube.attrs["fleetcube_remarks"])
    decades = np.log10(beyond / pooled.posterior().content["ranges"][name][1])
    wider = 1 + pooled.posterior().widening * decades
    assert np.log(widths[1]) == pytest.approx(wider * np.log(widths[0]))
    assert f"{name} = " in remarks[1]
    assert f"{name} = " not in remarks[0]


ROOTS = Settings("numpy", infeasible="mark")  # whether they can run or not
LARGE = {"model": "llama-3-70b", "pipeline_parallel": None, "global_batch_size": 32768}


def large(**changed: Any) -> dict[str, Any]:
    return {n: v for n, v in {**JOB, **LARGE, "n_gpus": None, **changed}.items() if v is not None}


@pytest.mark.parametrize("whole", [False, True])
def test_what_is_solved_for_widens_the_interval_as_its_evaluation_does(whole: bool) -> None:
    axes = {"software": ["megatron-lm", "fsdp"], "global_batch_size": [32768, 131072]}
    target = "step_time_high = 5 s"
    found = solve("n_gpus", target, settings=ROOTS, whole=whole, **large(**axes))
    widest = found["n_gpus"].values.max()
    assert widest > 10 * 16384
    for software in axes["software"]:
        for batch in axes["global_batch_size"]:
            point = found.sel(software=software, global_batch_size=batch)
            own = large(software=software, global_batch_size=batch)
            again = solve("n_gpus", target, between=[1, 1e6], whole=whole, settings=ROOTS, **own)
            assert float(again["n_gpus"]) == pytest.approx(float(point["n_gpus"]))
            if whole:
                cube = Sweep({**own, "n_gpus": int(point["n_gpus"])}, {}, TIMES).evaluate(
                    settings=Settings("numpy")
                )
                assert float(cube["step_time_high"]) == pytest.approx(
                    float(point["step_time_high"]), rel=1e-12
                )
                assert float(cube["step_time_high"]) == pytest.approx(5, rel=1e-3)
    (said,) = [x for x in found.attrs["fleetcube_remarks"].splitlines() if "n_gpus = " in x]
    assert f"n_gpus = {widest:,.12g} is outside" in said
    near = solve("n_gpus", "step_time_high = 100 s", settings=Settings("numpy"), **large())
    assert "n_gpus = " not in near.attrs["fleetcube_remarks"]


def test_what_is_optimised_widens_the_interval_as_its_evaluation_does() -> None:
    sweep = Sweep(large(n_gpus=8), {}, ["step_time_high"])
    asked = dict(sense="max", where=["step_time_high <= 5 s"])
    asked |= {"settings": Settings(infeasible="include")}
    found = sweep.best("step_time", search={"n_gpus": [8, 400_000]}, **asked)
    count = int(found["n_gpus"])
    high, fewer = (
        float(
            Sweep(large(n_gpus=n), {}, TIMES).evaluate(settings=Settings("numpy"))["step_time_high"]
        )
        for n in (count, count - 8)
    )
    assert float(found["step_time_high"]) == pytest.approx(high, rel=1e-12)
    assert high <= 5 < fewer
    assert f"n_gpus = {count:,} is outside" in found.attrs["fleetcube_remarks"]


def test_slopes_of_a_search_go_through_the_width_of_the_interval() -> None:
    between = {"n_gpus": (8, 400_000), "hbm_bandwidth": (1e11, 64e12)}
    ranges = [Range(name, *map(float, ends)) for name, ends in between.items()]
    problem = resolve(large(), {}, list(between))
    search = Search(problem, "step_time_high", ranges, [], "min", (), Settings("numpy"))
    for place in ([30_000.0, 2e13], [3000.0, 5e11], [4000.0, 3e12]):
        values = [np.array([place]) * (1 + h * np.eye(2)[k]) for k in (0, 1) for h in (-1e-5, 1e-5)]
        rows = np.concatenate([[place], *values])
        outs = search.evaluate((), rows, ["step_time_high", *search.slopes.values()])
        for k, name in enumerate(between):
            less, more = outs["step_time_high"][1 + 2 * k : 3 + 2 * k]
            slope = outs[search.slopes["step_time_high", name]][0]
            assert slope == pytest.approx((more - less) / (2e-5 * place[k]), rel=1e-3)


@pytest.mark.parametrize("longest", [8192, 4_194_304])
def test_phases_widen_what_is_solved_for_or_a_line_says_so(longest: int) -> None:
    phases = [{"training_tokens": 1e12}, {"training_tokens": 1e11, "sequence_length": longest}]
    job = large(step_time_error=1, phase=phases, training_tokens=None)
    found = solve("n_gpus", "job_time = 1 d", settings=ROOTS, **job)
    count = int(found["n_gpus"])
    assert count > 16384
    again = Sweep({**job, "n_gpus": count}, {}, ["job_time"]).evaluate(settings=Settings("numpy"))
    differs = "the interval is not widened" in found.attrs["fleetcube_remarks"]
    assert differs == (longest > 2**20)
    off = float(again["job_time"] / found["job_time"]) - 1
    assert off > 1e-4 if differs else abs(off) < 1e-12


def test_a_phase_that_leaves_a_size_to_its_model_has_its_interval() -> None:
    plain = large(n_gpus=512, training_tokens=None)
    jobs = [
        {**plain, "phase": [{"training_tokens": 1e12, **own}, last]}
        for own in ({}, {"sequence_length": 8192})
        for last in [{"training_tokens": 1e11, "sequence_length": 131_072}]
    ]

    def total(job: dict[str, Any], error: int) -> float:
        return float(Sweep({**job, "step_time_error": error}, {}, ["job_time"]).evaluate().job_time)

    lows, highs = ([total(job, error) for job in jobs] for error in (-1, 1))
    assert (lows[0], highs[0]) == (lows[1], highs[1])
    assert lows[0] < 0.9 * highs[0]


def test_every_calibration_of_an_axis_or_a_column_is_remarked_on() -> None:
    labels = ["megatron-h100-fp8", "megatron-a100-fp16", "aws-p5", "auto", "none"]
    said = [
        "calibration megatron-h100-fp8 was fitted to other steps (precision 8 bits instead of",
        "calibration megatron-a100-fp16 was fitted to other steps (GPU a100 instead of h100)",
        "calibration aws-p5 is of the network alone",
        "calibration auto: no published ",
    ]
    plain = {n: v for n, v in JOB.items() if n != "calibration"}
    cube = Sweep(plain, {"calibration": labels}, ["step_time"]).evaluate(settings=Settings("numpy"))
    of_axis = cube.attrs["fleetcube_remarks"].splitlines()
    rows = pandas.DataFrame({"calibration": labels})
    table = fleetcube.evaluate_table(rows, "step_time", scenario=plain, settings=Settings("numpy"))
    for lines in (of_axis, table.attrs["fleetcube_remarks"].splitlines()):
        assert [sum(line.startswith(text) for line in lines) for text in said] == [1] * 4
        assert len(lines) == 4
    own = dict(calibration=labels[:2], precision=["fp8", "fp16"], node=["dgx-h100", "dgx-a100"])
    for axes in ({"both": own}, {"both": {**own, "labels": ["a", "b"]}}):
        cube = Sweep(plain, axes, ["step_time"]).evaluate(settings=Settings("numpy"))
        assert "fleetcube_remarks" not in cube.attrs
    table = fleetcube.evaluate_table(
        pandas.DataFrame(own), "step_time", scenario=plain, settings=Settings("numpy")
    )
    assert "fleetcube_remarks" not in table.attrs
    table = fleetcube.evaluate_table(rows, "peak_flops", scenario=plain, settings=Settings("numpy"))
    assert "fleetcube_remarks" not in table.attrs


def test_what_auto_stands_on_counts_steps_of_the_models_own_layers() -> None:
    found = pooled.posterior()
    of: dict[tuple[str, str], int] = {}
    for name, (rows, _) in found.cells.items():
        _, layers, gpu, _ = name.split(", ")
        of[layers, gpu] = of.get((layers, gpu), 0) + rows
    cell = pooled.Cell("megatron", "dense", "h100", "16 bits", "flash", 989e12, 989e12)
    said = found.provenance(cell)
    factor = found.values(cell)["error_factor"]
    assert said == (
        "no published megatron-lm steps on h100 (dense layers, 16 bits); estimated from similar "
        f"ones, {pooled._width(factor)}"
    )
    for layers, words in (("dense", "dense layers"), ("experts", "mixtures of experts")):
        said = found.provenance(replace(cell, software="", layers=layers))
        assert said.startswith(f"the mean of all software, from {of[layers, 'h100']} published")
        assert f" steps on h100 ({words}), within a factor of 1." in said
    said = found.provenance(replace(cell, software="", gpu="mi300x"))
    assert "with no published step on mi300x" in said
    assert of["dense", "h100"] > of["experts", "h100"] > 0


def test_the_interval_widens_with_a_peak_beyond_those_fitted() -> None:
    found = pooled.posterior()
    cell = pooled.Cell("nemo", "dense", "b200", "8 bits", "flash", 2.25e15, 4.5e15)
    assert found.beyond_gpus(cell) == {}
    most = found.content["peaks"]["8 bits"][1]
    higher = replace(cell, peak=10 * most)
    assert found.beyond_gpus(higher) == {"peak at 8 bits": pytest.approx(1)}
    assert "; its peak at 8 bits is a factor of 10 outside" in found.provenance(higher)
    least = found.content["peaks"]["16 bits"][0]
    lower = replace(cell, peak_16=least / 100)
    assert found.beyond_gpus(lower) == {"peak at 16 bits": pytest.approx(2)}
    least_power = replace(cell, watts_per_flop=found.content["watts"][0])
    limited = replace(least_power, watts_per_flop=least_power.watts_per_flop / 10)
    assert found.beyond_gpus(limited) == {"power for each FLOP": pytest.approx(1)}
    assert found.values(least_power)["error_factor"] < found.values(limited)["error_factor"]


def test_compiled_code_is_never_slower_than_the_same_code_run_eagerly() -> None:
    """Launches that fall away and sums that stay in registers cost nothing: on every GPU, in every
    precision, with and without experts, at drawn sizes."""
    draw = generator(58)
    peaks = {"bf16": "peak_flops_bf16", "fp8": "peak_flops_fp8", "mxfp4": "peak_flops_fp4"}
    for precision, experts in itertools.product(peaks, (False, True)):
        gpus = [n for n, entry in kind("gpu").items() if peaks[precision] in entry.values]
        width = 128 * int(draw.integers(6, 64))
        job: dict[str, Any] = {"layers": 24, "hidden_size": width, "attention_heads": width // 128}
        job |= {"vocab_size": 50304, "n_gpus": 64, "gpus_per_node": 8, "fabric": "infiniband-ndr"}
        job |= {"intra_node_bandwidth": 4e11, "precision": precision, "global_batch_size": 512}
        job |= {"experts": 8, "experts_per_token": 2, "mixture_of_experts": True} if experts else {}
        axes: dict[str, Any] = {"gpu": gpus, "micro_batch_size": [1, int(draw.integers(2, 9))]}
        axes |= {"tensor_parallel": [1, 8], "sequence_length": [512, 8192]}
        compiled, eager = (
            Sweep({**job, "software": software}, axes, ["step_time"])
            .evaluate(settings=Settings("numpy", "include"))["step_time"]
            .values
            for software in ("torchtitan", "torchtitan-eager")
        )
        assert np.isfinite(compiled).all()
        assert (compiled <= eager * (1 + 1e-12)).all(), (
            precision,
            experts,
            (compiled / eager).max(),
        )


def test_a_published_pair_of_compiled_and_eager_steps_keeps_its_sign() -> None:
    rows = {row.id: row for row in made.rows()[0]}
    for eager, compiled in (("000", "001"), ("003", "004")):
        pair = [rows[f"torchtitan/{k}"] for k in (eager, compiled)]
        asked = [
            {**row.inputs, "calibration": "auto", "software": made.software(row)} for row in pair
        ]
        slow, fast = (
            float(found[0]) for found in evaluate([(("step_time",), one) for one in asked])
        )
        assert 1.02 < slow / fast < 1.05 * pair[0].measured / pair[1].measured
