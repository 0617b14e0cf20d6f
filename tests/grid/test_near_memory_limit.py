"""Both sides of the memory limit: refused, accepted with a note, or far from it."""

from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import Settings, Sweep
from fleetcube.tables.tables import table

from .common import cases

# Llama 3's 8k phase (arXiv:2407.21783, table 4): nothing recomputed, gradients sharded (3.3.2)
LLAMA_3: dict[str, Any] = {"model": "llama-3-405b", "node": "dgx-h100"}
LLAMA_3 |= {"inter_node_bandwidth": "400 Gbit/s", "n_gpus": 8192, "tensor_parallel": 8}
LLAMA_3 |= {"pipeline_parallel": 16, "virtual_stages": 8, "global_batch_size": 2048}
LLAMA_3 |= {"sequence_length": 8192, "sequence_parallel": True, "recompute": False, "zero_stage": 2}
NEED = float(fleetcube.evaluate("memory_per_gpu", settings=Settings("numpy"), **LLAMA_3))


def test_the_published_run_of_405b_fits() -> None:
    found = fleetcube.evaluate(
        ["memory_margin", "infeasible_reason"], settings=Settings("numpy"), **LLAMA_3
    )
    assert found["infeasible_reason"] == 0
    assert abs(found["memory_margin"]) < 0.05  # 83.2 GB of tensors and 3.5 of 84.9


@cases(
    "capacity, reason, near",
    (0.5, 10, 0),
    (1 / 1.0701, 10, 0),
    (1 / 1.0699, 0, 1),
    (0.9999, 0, 1),
    (1.0, 0, 1),
    (1.0699, 0, 1),
    (1.0701, 0, 0),
    (np.inf, 0, 0),
)
def test_both_sides_of_the_limit(capacity: float, reason: int, near: int) -> None:
    asked = ["infeasible_reason", "near_memory_limit", "memory_margin"]
    found = fleetcube.evaluate(
        asked, hbm_capacity=capacity * NEED, settings=Settings("numpy"), **LLAMA_3
    )
    assert (found["infeasible_reason"], found["near_memory_limit"]) == (reason, near)
    np.testing.assert_allclose(found["memory_margin"], 1 - 1 / capacity, rtol=1e-12, atol=1e-15)


def test_without_an_error_the_limit_is_sharp() -> None:
    for capacity, reason in ((0.999 * NEED, 10), (NEED, 0)):
        given = {**LLAMA_3, "memory_error_factor": 1, "hbm_capacity": capacity}
        asked = ["infeasible_reason", "near_memory_limit"]
        found = fleetcube.evaluate(asked, settings=Settings("numpy"), **given)
        assert (found["infeasible_reason"], found["near_memory_limit"]) == (reason, 0)


@pytest.mark.parametrize(("capacity", "near"), [(0.99, 1), (1.01, 1), (1.5, 0)])
def test_searches_say_what_is_near(capacity: float, near: int) -> None:
    sweep = Sweep({**LLAMA_3, "hbm_capacity": capacity * NEED}, {}, ["step_time"])
    best = sweep.best(
        "step_time", search={"network_efficiency": [0.5, 1]}, settings=Settings("numpy")
    )
    root = sweep.solve("network_efficiency", "step_time <= 1000 s", settings=Settings("numpy"))
    for found in (best, root):
        assert found["near_memory_limit"] == near
        assert ("near_memory_limit" in table(found)[0]) == bool(near)
    assert sweep.rank_inputs("step_time").attrs["fleetcube_near_memory_limit"] == near
    scenario = {**LLAMA_3, "hbm_capacity": capacity * NEED}
    plan = Sweep(scenario, {"network_efficiency": [0.5, 1.0]}, ["step_time"])
    won = plan.best("step_time", settings=Settings("numpy"))
    assert won.coords["near_memory_limit"] == near
    assert (
        "near_memory_limit"
        not in plan.reduce("min", of="step_time", settings=Settings("numpy")).coords
    )


def test_what_decides_whether_it_fits_is_recommended_with_headroom() -> None:
    shape = {**LLAMA_3, "hbm_capacity": 1.02 * NEED}
    sweep = Sweep(shape, {"zero_stage": [2, 3]}, ["step_time"], settings=Settings("numpy"))
    near = sweep.with_outputs("near_memory_limit").evaluate()
    assert near["near_memory_limit"].values.tolist() == [1, 0]
    assert sweep.best("step_time")["zero_stage"] == 3
    assert sweep.best("step_time", 2)["zero_stage"].values.tolist() == [3]
    stated = sweep.replace(scenario={**shape, "memory_headroom": False})
    assert stated.best("step_time")["zero_stage"] == 2
    ranges = Sweep({**shape, "zero_stage": 3}, {}, ["step_time"], settings=Settings("numpy"))
    found = ranges.best("mfu", sense="max", search={"micro_batch_size": [1, 4]})
    assert found["near_memory_limit"] == 0


def test_a_winner_without_a_limit_has_no_word_on_it() -> None:
    sweep = Sweep(LLAMA_3 | {"hbm_capacity": np.inf}, {"network_efficiency": [0.5, 1]}, ["mfu"])
    assert (
        "near_memory_limit" not in sweep.best("mfu", sense="max", settings=Settings("numpy")).coords
    )


def test_a_search_refuses_what_even_the_error_cannot_save() -> None:
    sweep = Sweep({**LLAMA_3, "hbm_capacity": 0.93 * NEED}, {}, ["step_time"])
    found = sweep.best(
        "step_time", search={"network_efficiency": [0.5, 1]}, settings=Settings("numpy")
    )
    assert (found["infeasible_reason"], found["near_memory_limit"]) == (10, -1)
