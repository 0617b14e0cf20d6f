"""Stated inputs: what they override in labels, and inputs without effect."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fleetcube
from fleetcube import InputError, Settings, Sweep

from .common import cases, on_h100

JOB = on_h100("llama-3-70b", n_gpus=1024, tensor_parallel=8)


def test_a_model_of_another_shape_has_the_parameters_of_that_shape() -> None:
    # Llama 3 70B: 855,654,400 weights in each layer, and 2 x 128,256 x 8192 + 8192.
    layer = 8192 * 128 * (64 + 8 + 8 + 64) + 3 * 8192 * 28672 + 2 * 8192
    beside = (2 * 128_256 + 1) * 8192
    both = ["parameters", "active_parameters"]
    found = fleetcube.evaluate(both, model="llama-3-70b", layers=[40, 160])
    assert found.parameters.values.tolist() == [40 * layer + beside, 160 * layer + beside]
    assert found.active_parameters.equals(found.parameters.rename("active_parameters"))
    # what does not depend on the shape stays as published
    same = fleetcube.evaluate("parameters", model="llama-3-70b", sequence_length=2048)
    assert same == fleetcube.evaluate("parameters", model="llama-3-70b")
    stated = fleetcube.evaluate(both, model="llama-3-70b", layers=40, parameters=1e9)
    assert stated.parameters == stated.active_parameters == 1e9


@cases(
    "change, more",
    ({"kv_heads": 64}, 80 * 8192 * 128 * 2 * 56),
    ({"head_size": 256}, 80 * 8192 * 128 * 2 * (64 + 8)),
    ({"vocab_size": 512_000}, 2 * 8192 * (512_000 - 128_256)),
    ({"embedding_tables": 1}, -8192 * 128_256),
    ({"mixture_of_experts": True, "experts": 8}, 80 * (7 * 3 * 8192 * 28672 + 8 * 8192)),
    ({"mixture_of_experts": True}, 80 * (7 * 3 * 8192 * 28672 + 8 * 8192)),
)
def test_heads_words_and_experts_are_part_of_the_shape(change: dict[str, Any], more: float) -> None:
    asked = ["parameters", "model_flops_per_step"]
    whole = fleetcube.evaluate(asked, model="llama-3-70b", layers=80)
    other = fleetcube.evaluate(asked, model="llama-3-70b", **change)
    assert other.parameters - whole.parameters == more
    tables = "embedding_tables" in change
    assert tables or other.model_flops_per_step > whole.model_flops_per_step


def test_a_token_visits_no_more_experts_than_there_are() -> None:
    job = {"model": "mixtral-8x7b", "node": "dgx-h100", "n_gpus": 64}
    verdict = fleetcube.evaluate("expert_layout_reason", **job, experts_per_token=[8, 9])
    assert verdict.values.tolist() == [0, 9]
    active = fleetcube.evaluate("active_parameters", model="mixtral-8x7b", experts_per_token=[2, 4])
    assert active[1] - active[0] == 32 * 2 * 3 * 4096 * 14336


def test_a_model_cut_down_counts_both_of_its_embeddings() -> None:
    asked = ["parameters", "non_matmul_parameters"]
    cut = fleetcube.evaluate(asked, model="deepseek-v3", layers=4, dense_layers=4)
    layer = 187105280 + 3 * 7168 * 18432
    norms = (2 * 4 + 1) * 7168
    assert cut.parameters == 4 * layer + 2 * 129280 * 7168 + norms
    assert cut.non_matmul_parameters == 129280 * 7168 + norms


def test_another_gpu_changes_the_power_of_the_node() -> None:
    power = fleetcube.evaluate("node_power", node="dgx-h100", gpu=["h100-sxm", "b200-sxm"])
    rest = 10_200 - 8 * 700  # fans, CPUs and network adapters stay
    assert power.values.tolist() == [10_200, 8 * 1000 + rest]
    assert fleetcube.evaluate("node_power", node="dgx-h100", gpu_tdp=[350]) == 8 * 350 + rest
    assert fleetcube.evaluate("node_power", node="dgx-h100") == 10_200
    assert fleetcube.evaluate("node_power", node="dgx-h100", node_overhead_power=1000) == 6_600


@cases("stated", {"gpu_tdp": "700 W"}, {"gpus_per_node": 8}, {"gpu": "h100-sxm"})
def test_what_a_node_says_may_be_stated_too(stated: dict[str, object]) -> None:
    job = {"model": "deepseek-v3", "node": "dgx-h100", "n_gpus": 1024, "expert_parallel": 8}
    job |= {"tensor_parallel": 8, "pipeline_parallel": 4, "calibration": "none"}
    asked = ["node_power", "model_flops_per_step", "memory_per_gpu", "active_parameters"]
    plain, anew = (fleetcube.evaluate(asked, **each) for each in (job, {**job, **stated}))
    assert {n: float(plain[n]) for n in asked} == {n: float(anew[n]) for n in asked}


@pytest.mark.parametrize("sizes", [[7168.0, 4096.0], [4096.0, 7168.0]])
def test_a_stated_shape_counts_alike_alone_along_an_axis_and_in_a_table(sizes: Any) -> None:
    asked = ["parameters", "kv_elements_per_layer", "attention_parameters_per_layer"]
    job = {"model": "deepseek-v3"}  # 7168 is the label's value: stating it matters, not its value
    axis = fleetcube.evaluate(asked, **job, hidden_size=sizes)
    table = fleetcube.evaluate_table(pd.DataFrame({"hidden_size": sizes}), asked, scenario=job)
    assert "parameters of deepseek-v3 is left out" in table.attrs["fleetcube_remarks"]
    for k, size in enumerate(sizes):
        alone = fleetcube.evaluate(asked, **job, hidden_size=size)
        assert "parameters of deepseek-v3 is left out" in alone.attrs["fleetcube_remarks"]
        for name in asked:
            assert float(axis[name].broadcast_like(axis.hidden_size)[k]) == float(alone[name])
            assert table[name][k] == float(alone[name])
        assert alone["kv_elements_per_layer"] == 2 * 128 * 160  # keys and values of all heads


@pytest.mark.parametrize("part", [{"attention_heads": 64}, {"experts_per_token": 4}])
def test_a_part_that_one_phase_states_leaves_the_others_their_totals(part: dict[str, int]) -> None:
    job = {"model": "deepseek-v3"}
    asked = ["active_parameters", "kv_elements_per_layer"]
    tokens = {"training_tokens": 1e12}
    phases = [{"name": "a", **tokens, **part}, {"name": "b", **tokens}]
    both = Sweep(job, {"phase": ["a", "b"]}, asked, phases=phases).evaluate(
        settings=Settings("numpy")
    )
    for name in asked:
        for own, k in ((part, 0), ({}, 1)):
            alone = float(fleetcube.evaluate(name, **job, **own))
            assert float(both[name].broadcast_like(both.phase)[k]) == alone
    assert float(both["active_parameters"][1]) == 37e9  # the label's
    stated = [phases[0], {**phases[1], "active_parameters": 4e10}, {"name": "c", **tokens}]
    three = Sweep(job, {"phase": ["a", "b", "c"]}, asked, phases=stated).evaluate(
        settings=Settings("numpy")
    )
    with pytest.raises(InputError, match=f"{min(part)} is stated by some phases and voids"):
        Sweep({}, {"model": ["deepseek-v3", "mixtral-8x7b"]}, ["job_time"], phases=phases)
    first = float(both["active_parameters"][0])
    assert three["active_parameters"].values.tolist() == [first, 4e10, 37e9]


def test_totals_that_are_left_out_are_remarked_on() -> None:
    job = {"model": "deepseek-v3", "hidden_size": 7168}
    said = Sweep(job, {}, ["parameters"]).evaluate().attrs["fleetcube_remarks"].splitlines()
    for whole in ("parameters", "attention_parameters_per_layer"):
        assert any(line.startswith(f"{whole} of deepseek-v3 is left out") for line in said)
    kept = Sweep({**job, "attention_parameters_per_layer": 1.9e8}, {}, ["parameters"]).evaluate()
    assert "attention_parameters_per_layer" not in kept.attrs["fleetcube_remarks"]
    unread = Sweep({**job, "n_gpus": 8}, {}, ["cluster_mtbf"]).evaluate()
    assert "left out" not in unread.attrs.get("fleetcube_remarks", "")
    along = Sweep({"hidden_size": 4096}, {"model": ["deepseek-v3"]}, ["parameters"]).evaluate()
    assert "parameters of deepseek-v3 is left out" in along.attrs["fleetcube_remarks"]
    models = {"model": ["deepseek-v3", "llama-3-70b"]}
    two = Sweep({"layers": 40}, models, ["parameters"]).evaluate()
    assert "parameters of deepseek-v3, llama-3-70b is left out" in two.attrs["fleetcube_remarks"]


def test_a_fixed_interval_is_used_unless_another_policy_is_chosen() -> None:
    failing = {"cluster_mtbf": 86400, "checkpoint_stall_time": 30, "fixed_checkpoint_interval": 600}
    assert fleetcube.evaluate("checkpoint_interval", **failing) == 600
    young = fleetcube.evaluate("checkpoint_interval", checkpoint_policy="young", **failing)
    assert float(young) == pytest.approx(2276.84, abs=0.01)


def test_what_nothing_depends_on_is_told(tmp_path: Path) -> None:
    idle = {"snapshot_bandwidth": "10 GB/s", "all_reduce": "ring", "sqrt_coefficient": 1e-9}
    told = Sweep({**JOB, **idle}, {}, ["job_time"]).evaluate().attrs["fleetcube_unused"]
    assert told == "snapshot_bandwidth sqrt_coefficient"
    used = {**idle, "checkpoint_mode": "async", "all_reduce": "fitted"}
    assert "fleetcube_unused" not in Sweep({**JOB, **used}, {}, ["job_time"]).evaluate().attrs

    # giving spares turns them on; their number is used
    found = Sweep({**JOB, "spare_nodes": 4}, {}, ["goodput"]).evaluate()
    assert "spare_nodes" not in found.attrs.get("fleetcube_unused", "").split()
    sweep = Sweep({**JOB, "virtual_stages": 5, "pipeline_schedule": "gpipe"}, {}, ["mfu"])
    path = sweep.to_zarr(tmp_path / "a.zarr")
    assert "virtual_stages" in fleetcube.open_cube(path).attrs["fleetcube_unused"].split()


def test_a_quantity_without_continuous_inputs_has_no_gradient() -> None:
    with pytest.raises(InputError, match="depends on no continuous input"):
        Sweep(JOB, {}, ["bubble_ratio"]).derivatives("bubble_ratio")
