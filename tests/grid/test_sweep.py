"""Axes, labels, precedence, dimensions, and a result's metadata."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import xarray

import fleetcube
from fleetcube import Settings, Sweep, catalog
from fleetcube.grid.plan import execute, fingerprint
from fleetcube.grid.plan.engine import ENGINES
from fleetcube.grid.plan.tiles import AT_ONCE
from fleetcube.grid.spec.axes import make_axis
from fleetcube.kernels.physics.graph import PHYSICS

from .common import cases, on_h100, written

TRAINING = on_h100("llama-3-70b", n_gpus=512, tensor_parallel=8, sequence_parallel=True)


def test_generated_axes() -> None:
    assert make_axis(PHYSICS, "n_gpus", {"arange": [8, 40, 8]}).labels.tolist() == [8, 16, 24, 32]
    halves = make_axis(PHYSICS, "n_gpus", {"linspace": [1, 3], "num": 5}).labels
    assert halves.tolist() == [1, 1.5, 2, 2.5, 3]
    rounded = make_axis(PHYSICS, "n_gpus", {"geomspace": [1, 4], "num": 5, "round": True})
    assert rounded.labels.tolist() == [1, 2, 3, 4]  # 1, 1.41, 2, 2.83, 4: duplicates dropped
    assert make_axis(PHYSICS, "gpu_mttf", {"values": ["1 h", "2 h"]}).labels.tolist() == [
        3600,
        7200,
    ]


def test_every_output_has_its_own_dimensions_in_the_order_of_the_axes() -> None:
    axes = {"fabric": ["infiniband-ndr", "roce-100g"], "gpu_mttf": [1e8, 2e8], "n_gpus": [64, 128]}
    outputs = ["job_time", "step_time", "cluster_mtbf", "node_mttf", "checkpoint_size"]
    result = Sweep(TRAINING, axes, outputs).evaluate()
    assert result["job_time"].dims == ("fabric", "gpu_mttf", "n_gpus")
    assert result["step_time"].dims == ("fabric", "n_gpus")
    assert result["cluster_mtbf"].dims == ("gpu_mttf", "n_gpus")
    assert result["node_mttf"].dims == ("gpu_mttf",)
    assert result["checkpoint_size"].dims == ()
    assert result["infeasible_reason"].dims == ("n_gpus",)
    assert "infeasible_reason" in result.coords
    assert result["job_time"].attrs["units"] == "s"
    assert result["fabric"].values.tolist() == axes["fabric"]
    assert result["inter_node_bandwidth"].dims == ("fabric",)
    for variable in result.data_vars.values():
        assert variable.attrs["long_name"]
        assert variable.attrs["references"]


def test_axis_over_scenario_explicit_over_label_gpu_over_node() -> None:
    h100, h200 = (catalog.record("gpu", name).values for name in ("h100-sxm", "h200-sxm"))
    node = {"node": "dgx-h100"}

    def ridge(**inputs: Any) -> Any:
        return fleetcube.evaluate("ridge_point", **inputs)

    assert ridge(**node) == h100["peak_flops_bf16"] / h100["hbm_bandwidth"]
    assert ridge(gpu="h200-sxm", **node) == h200["peak_flops_bf16"] / h200["hbm_bandwidth"]
    assert ridge(gpu="h200-sxm", hbm_bandwidth="1 TB/s", **node) == h200["peak_flops_bf16"] / 1e12
    swept = Sweep({**node, "hbm_bandwidth": 5e12}, {"hbm_bandwidth": [1e12, 2e12]}, ["ridge_point"])
    assert swept.evaluate()["ridge_point"].values.tolist() == [989.0, 494.5]
    labels = ridge(gpu=["h100-sxm", "h200-sxm"], hbm_bandwidth=1e12)
    assert labels.values.tolist() == [989.0, 989.0]


def test_a_gpu_replaces_that_of_the_node_with_all_its_values() -> None:
    # an A100 has no FP8 peak: that of the node's H100 must not be used
    with pytest.raises(fleetcube.InputError, match="peak_flops_fp8 is missing"):
        fleetcube.evaluate("peak_flops", gpu="a100-sxm-80gb", node="dgx-h100", precision="fp8")


@cases(
    "output, scenario, axes",
    # given experts make a mixture of every model whose label does not set them
    ("layer_matrix_time", {"experts": 64}, {"model": ["llama-3-8b", "mixtral-8x7b"]}),
    # a label that sets what others leave to the default, and one that implies an option
    ("job_time", {}, {"fabric": ["infiniband-ndr-sharp", "roce-100g"]}),
    ("checkpoint_write_time", {}, {"storage": ["reference-100gbs", "node-nvme-7gbs"]}),
    ("cluster_mtbf", {}, {"reliability": ["rsc-1-empirical", "mlsysim-reference"]}),
    ("peak_flops", {}, {"gpu": ["a100-sxm-80gb", "h100-sxm@1"], "node": ["dgx-h100"]}),
)
def test_labels_along_an_axis_are_those_of_a_point(output: str, scenario: Any, axes: Any) -> None:
    scenario = {**TRAINING, "n_gpus": 64, **scenario}
    swept = Sweep(scenario, axes, [output]).evaluate()[output]
    for labels in itertools.product(*axes.values()):
        point = dict(zip(axes, labels, strict=True))
        held = {dim: label for dim, label in point.items() if dim in swept.dims}
        alone = Sweep({**scenario, **point}, {}, [output]).evaluate()[output]
        assert float(swept.sel(held)) == float(alone), point


def test_an_axis_tells_the_defaults_that_its_labels_leave() -> None:
    result = fleetcube.evaluate("ridge_point", gpu=["h100-sxm", "trainium-1"])
    assert not np.isnan(result["intra_node_latency"]).any()


def test_labels_that_set_different_inputs_share_an_axis() -> None:
    # Mixtral's label states active parameters; Llama's does not, so all are active
    models = ["llama-3-70b", "mixtral-8x7b", "llama-3-8b"]
    result = fleetcube.evaluate(["active_parameters", "training_tokens"], model=models)
    mixtral = catalog.record("model", "mixtral-8x7b").values
    active = [70.6e9, mixtral["active_parameters"], 8.03e9]
    assert result["active_parameters"].values.tolist() == active
    assert result["training_tokens"].values.tolist() == [15e12, 20 * mixtral["parameters"], 15e12]


def test_a_given_quantity_cuts_the_graph() -> None:
    given = dict(cluster_mtbf="24 h", checkpoint_write_time=30, recovery_time=600)
    result = fleetcube.evaluate(["young_interval", "goodput"], **given, checkpoint_policy="young")
    assert round(float(result["young_interval"]), 3) == 2276.84
    # data/young_daly: slowdown at Young's interval, M = 24 h, d = 30 s, R = 600 s
    assert float(1 / result["goodput"]) == pytest.approx(1.03397854, rel=1e-8)


def test_coupled_axes_move_inputs_together() -> None:
    layout = {"tensor_parallel": [1, 8], "pipeline_parallel": [8, 1], "labels": ["deep", "wide"]}
    together = Sweep(TRAINING, {"layout": layout}, ["step_time"]).evaluate()
    assert together["layout"].values.tolist() == ["deep", "wide"]
    assert together["pipeline_parallel"].values.tolist() == [8, 1]
    for k, (tensor, stages) in enumerate([(1, 8), (8, 1)]):
        point = {**TRAINING, "tensor_parallel": tensor, "pipeline_parallel": stages}
        alone = Sweep(point, {}, ["step_time"]).evaluate()["step_time"]
        assert float(together["step_time"][k]) == float(alone)


def test_coupled_axes_may_hold_options_and_labels() -> None:
    case = {"fabric": ["roce-100g", "infiniband-ndr", "infiniband-ndr"]}
    case |= {"recompute": ["full", "full", False], "gpu_mttf": [1e8, 2e8, 3e8]}
    result = Sweep(TRAINING, {"case": case}, ["job_time"]).evaluate()["job_time"]
    for k in range(3):
        point = {**TRAINING, **{name: row[k] for name, row in case.items()}}
        assert float(result[k]) == float(Sweep(point, {}, ["job_time"]).evaluate()["job_time"])


def test_data_arrays_and_series_become_axes() -> None:
    gpus = xarray.DataArray([8.0, 16.0], dims="size", coords={"size": ["small", "large"]})
    mttf = xarray.DataArray([1e8, 2e8], dims="size")
    result = fleetcube.evaluate("cluster_mtbf", n_gpus=gpus, gpu_mttf=mttf)
    assert result.dims == ("size",)
    assert result["size"].values.tolist() == ["small", "large"]
    plain = fleetcube.evaluate("cluster_mtbf", n_gpus=xarray.DataArray([8.0, 16.0], dims="n_gpus"))
    assert plain.dims == ("n_gpus",)
    series = fleetcube.evaluate("cluster_mtbf", n_gpus=pandas.Series([8, 16]))
    assert series.sizes == {"n_gpus": 2}


def test_scalars_give_zero_dimensional_results() -> None:
    value = fleetcube.evaluate("cluster_mtbf", n_gpus=1024, series_psus_per_node=2)
    assert value.shape == ()
    assert round(float(value) / 3600, 1) == 33.5  # reliability tutorial, last row


def test_options_are_outer_loops_over_plans() -> None:
    axes = {"checkpoint_policy": ["young", "exact"], "zero_stage": [1, 3], "n_gpus": [64, 512]}
    result = Sweep(TRAINING, axes, ["step_time", "goodput", "cluster_mtbf"]).evaluate()
    assert result["step_time"].dims == ("zero_stage", "n_gpus")
    assert result["goodput"].dims == ("checkpoint_policy", "n_gpus")
    assert result["cluster_mtbf"].dims == ("n_gpus",)
    assert result["zero_stage"].values.tolist() == [1, 3]


def test_infeasible_points_are_marked_and_masked_on_request() -> None:
    # 781 replicas, 512 sequences: the 100,000-GPU layout that cannot be run
    axes = {"n_gpus": [128, 99_968], "gpu_mttf": [1e8, 2e8]}
    sweep = Sweep(
        {**TRAINING, "pipeline_parallel": 16, "global_batch_size": 512}, axes, ["job_time"]
    )
    plain = sweep.evaluate()
    reason = plain["infeasible_reason"].attrs
    names = dict(zip(reason["flag_values"].tolist(), reason["flag_meanings"].split(), strict=True))
    found = [names[int(code)] for code in plain["infeasible_reason"]]
    assert found == ["feasible", "batch_smaller_than_data_parallel"]
    assert plain["infeasible_reason"].dtype == np.int8
    assert np.isfinite(plain["job_time"]).all()  # the continuous relaxation
    masked = sweep.evaluate(settings=Settings(infeasible="exclude"))
    assert np.isfinite(masked["job_time"].sel(n_gpus=128)).all()
    assert np.isnan(masked["job_time"].sel(n_gpus=99_968)).all()


@cases(
    "inputs, reason",
    ({"n_gpus": 512.5}, "not_a_whole_number"),
    ({"n_gpus": 4}, "group_larger_than_cluster"),
    ({"n_gpus": 516}, "gpus_not_divisible"),
    ({"n_gpus": 65536, "global_batch_size": 1024}, "batch_smaller_than_data_parallel"),
    ({"n_gpus": 24}, "batch_not_divisible"),
    ({"pipeline_parallel": 32, "stage_split": False}, "layers_not_divisible"),
    ({"pipeline_parallel": 32, "virtual_stages": 4}, "stage_without_layers"),
    # Llama 3 405B ran 126 layers on 16 stages (arXiv:2407.21783, section 3.3.2)
    ({"layers": 126, "pipeline_parallel": 16}, "feasible"),
    ({"tensor_parallel": 128, "n_gpus": 512}, "heads_not_divisible"),
    ({"context_parallel": 64, "sequence_length": 8191}, "sequence_not_divisible"),
    ({"expert_parallel": 2}, "experts_not_divisible"),
    ({"model": "mixtral-8x7b", "expert_parallel": 3}, "experts_not_divisible"),
    ({"model": "mixtral-8x7b", "expert_parallel": 8}, "feasible"),
    ({"model": "mixtral-8x7b", "dense_layers": 40}, "experts_not_divisible"),
    ({"sequence_parallel": False}, "out_of_memory"),
    ({"hbm_capacity": "58 GB"}, "out_of_memory"),
    (
        dict(checkpoint_mode="async", checkpoint_policy="fixed", fixed_checkpoint_interval=5),
        "interval_below_flush_time",
    ),
    ({}, "feasible"),
)
def test_each_reason_is_found(inputs: dict[str, Any], reason: str) -> None:
    result = Sweep({**TRAINING, **inputs}, {}, ["step_time"]).evaluate()["infeasible_reason"]
    assert result.attrs["flag_meanings"].split()[int(result)] == reason


def test_masking_spreads_an_output_over_the_axes_that_decide_and_keeps_the_reason() -> None:
    sweep = Sweep(TRAINING, {"attention_heads": [64, 60]}, ["step_time", "infeasible_reason"])
    plain = sweep.evaluate()["infeasible_reason"].values
    for masked in (
        sweep.evaluate(settings=Settings(infeasible="exclude")),
        sweep.virtual(settings=Settings(infeasible="exclude")),
    ):
        assert masked["infeasible_reason"].values.tolist() == plain.tolist()
        assert np.isnan(masked["step_time"].values).tolist() == [False, True]


@pytest.mark.slow
def test_float32_holds_the_rounded_values() -> None:
    axes = {"n_gpus": [64, 512], "gpu_mttf": [1e8, 2e8]}
    given = {"memory_per_gpu": "60 GB", "step_time": 5.0, "straggler_overhead": 0.01}
    given |= {"communication_overhead": 0.1, "bubble_overhead": 0.05}  # compiles few formulas
    sweep = Sweep({**TRAINING, **given}, axes, ["job_time", "dominant_overhead"])
    for engine in ("numpy", "numba", "jax"):
        full, half = (
            sweep.evaluate(settings=Settings(engine)),
            sweep.evaluate(dtype="float32", settings=Settings(engine)),
        )
        assert half["job_time"].dtype == np.float32
        assert half["dominant_overhead"].dtype == np.int8
        assert (half["job_time"].values == full["job_time"].values.astype(np.float32)).all()


def test_every_engine_has_its_entries() -> None:
    engines = {*ENGINES} - {"auto"}
    assert {*execute.RUN} == {*ENGINES}, "add it to RUN in grid/plan/execute.py"
    assert {*AT_ONCE} == engines, "add it to AT_ONCE in grid/plan/tiles.py"
    held = fingerprint.ENGINE_CODE, fingerprint.PACKAGES
    assert all({*table} == engines for table in held), "add it in grid/plan/fingerprint.py"


def test_auto_picks_by_size() -> None:
    assert Sweep(TRAINING, {"n_gpus": [64, 512]}, ["job_time"])._plan().engine == "numpy"
    axes = {"n_gpus": np.arange(8, 2008), "gpu_mttf": np.arange(1e7, 2e7, 1e3)}
    assert Sweep(TRAINING, axes, ["job_time"])._plan().engine == "numba"


def test_a_spec_file_says_the_same_as_python(tmp_path: Path) -> None:
    text = """
        outputs = ["cluster_mtbf", "goodput"]
        scenario = { model = "llama-3-70b", checkpoint_write_bandwidth = "100 GB/s" }
        [axes]
        n_gpus = { geomspace = [8, 16384], num = 12, round = true }
        gpu_mttf = { linspace = ["10_000 h", "100_000 h"], num = 3 }
        """
    told = Sweep.from_file(written(tmp_path / "spec.toml", text))
    assert (told._sizes, told.points) == ({"n_gpus": 12, "gpu_mttf": 3}, 36)
    result = told.evaluate()
    given = dict(model="llama-3-70b", n_gpus=[2**k for k in range(3, 15)])
    again = fleetcube.evaluate(
        ["cluster_mtbf", "goodput"], **given, gpu_mttf=["10_000 h", "55_000 h", "100_000 h"]
    )
    xarray.testing.assert_identical(result.drop_attrs(), again.drop_attrs())


def test_less_than_one_replica_is_not_defined() -> None:
    result = Sweep(TRAINING, {"n_gpus": [4, 8]}, ["step_time", "cluster_mtbf"]).evaluate()
    assert np.isnan(result["step_time"].values).tolist() == [True, False]
    assert np.isfinite(result["cluster_mtbf"]).all()


def test_a_pattern_of_layers_is_its_counts() -> None:
    shape = {"hidden_size": 4096, "linear_heads": 128, "gated_ffn": True, "n_gpus": 8}
    counts = {"layers": 7, "linear_layers": 3, "attention_layers": 1, "ffn_layers": 3}
    counts |= {"dense_layers": 3, "experts": 1, "experts_per_token": 1, "mixture_of_experts": True}
    outputs = ["parameters", "model_flops_per_token", "request_kv_cache"]
    spelled = Sweep({**shape, **counts}, {}, outputs).evaluate()
    for pattern in ("M-M*-M-", "M-M|*-M-"):
        drawn = Sweep({**shape, "layer_pattern": pattern}, {}, outputs).evaluate()
        for name in outputs:
            assert float(drawn[name]) == float(spelled[name])
    swept = Sweep(shape, {"layer_pattern": ["M-M*-M-", "G-G-"]}, outputs).evaluate()
    assert float(swept["parameters"].sel(layer_pattern="M-M*-M-")) == float(spelled["parameters"])
    other = Sweep({**shape, "layer_pattern": "G-G-"}, {}, outputs).evaluate()
    assert float(swept["parameters"].sel(layer_pattern="G-G-")) == float(other["parameters"])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_outputs_that_share_formulas_have_the_bits_that_each_has_alone(
    dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One kernel evaluates what larger outputs read; later calls stream copies of small outputs."""
    monkeypatch.setattr("fleetcube.kernels.engines.numpy.COPIED", 100)
    axes = {"fabric": ["infiniband-ndr", "roce-100g"], "pipeline_parallel": [1, 2, 4, 8, 16]}
    axes |= {"gpu_mttf": np.geomspace(1e7, 1e9, 30), "n_gpus": [512, 1024]}
    axes |= {"checkpoint_write_bandwidth": np.geomspace(1e9, 1e12, 40)}
    outputs = ["job_time", "goodput", "cluster_mtbf", "checkpoint_interval"]
    sweep = Sweep({**TRAINING, "checkpoint_policy": "young"}, axes, outputs)
    read = execute._read_later(sweep._plan("numba"), sweep._plan("numba").dims["goodput"])
    assert read == ["attempted_steps"]
    alone = {
        name: sweep.with_outputs([name]).evaluate(dtype=dtype, settings=Settings("numpy"))[name]
        for name in outputs
    }
    for _ in range(3):
        result = sweep.evaluate(dtype=dtype, settings=Settings("numba", threads=2))
        for name in outputs:
            assert result[name].dtype == dtype
            assert np.array_equal(result[name].values, alone[name].values), name
