"""Extremes found by bounds against scans of the whole grid, to the bit."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fleetcube import Settings, Sweep
from fleetcube.analysis import top, winners
from fleetcube.grid.reduce import boxes, fold, search

from ..draws import scaled
from .common import Patch, on_h100


def forbid_scans(patch: Patch) -> None:
    patch.setattr(fold._Fold, "run", None)
    patch.setattr(winners.Winners, "run", None)
    patch.setattr(top, "scanned", None)


SCENARIO = on_h100(sequence_parallel=True, checkpoint_policy="exact", goodput_model="exact")
SCENARIO |= {"gpu_hour_price": 2.0, "n_gpus": 64, "global_batch_size": 64}
SCENARIO |= {"memory_headroom": False}  # as scans judge
AXES: dict[str, Any] = {
    "n_gpus": [16, 8, 64, 60, 32],
    "tensor_parallel": [2, 16, 4],
    "pipeline_parallel": [4, 1, 3],
    "gpu_mttf": [3e7, np.inf, 9e7, 1e5],
    "checkpoint_write_bandwidth": [1e9, 1e11, 1e10],
    "spare_nodes": [2, 0, 1],
    "zero_stage": [1, 0, 3],  # options cut the sweep into cases
    "goodput_model": ["exact", "first_order"],  # undefined where too much is lost
    "set": {"labels": ["late", "soon"], "training_tokens": [1e12, 1e12]},  # all points are equal
}
WHERE = ["goodput >= 0.9", "memory_per_gpu <= 60 GB", "mfu <= goodput", "step_time >= 1 h"]
OUTPUTS = ["job_time", "job_cost", "goodput", "step_time", "memory_per_gpu", "mfu", "bubble_ratio"]


@st.composite
def questions(draw: Any) -> tuple[Sweep, dict[str, Any]]:
    order = draw(st.permutations(list(AXES)))[:5]
    outputs = draw(st.permutations(OUTPUTS))[:2]
    asked = {"sense": draw(st.sampled_from(["min", "max"])), "at": draw(st.booleans())}
    asked |= {"over": draw(st.sampled_from([order, order[1:], order[:3]]))}
    asked |= {"of": outputs[0] if asked["at"] else draw(st.sampled_from([None, outputs[0]]))}
    asked |= {"infeasible": draw(st.sampled_from(["include", "exclude"]))}
    asked |= {"where": draw(st.sampled_from([None, *WHERE, WHERE[:2]])) if asked["of"] else None}
    asked |= {"k": draw(st.sampled_from([None, 1, 3])) if asked["at"] else None}
    scenario = {name: value for name, value in SCENARIO.items() if name not in order}
    return Sweep(scenario, {name: AXES[name] for name in order}, outputs), asked


def answer(
    sweep: Sweep,
    sense: Any,
    over: Any,
    of: Any,
    at: bool,
    infeasible: Any,
    where: Any = None,
    k: int | None = None,
) -> Any:
    """The extremes of a sweep, with the points that have them or without."""
    how = Settings("numpy", infeasible, threads=1)
    if not at:
        return sweep.reduce(sense, over, of=of, where=where, settings=how)
    also = [name for name in sweep.spec["outputs"] if name != of]
    chosen = {"where": where or (), "also": also, "k": k}
    return sweep.best(of, sense=sense, over=over, **chosen, settings=how)


@given(
    questions(),
    st.sampled_from([2, 3, 32]),
    st.sampled_from([(100, 20), (400, 60), (1 << 24, 1 << 21)]),
    st.sampled_from([1, 16]),
)
@settings(max_examples=scaled(10), suppress_health_check=list(HealthCheck))
def test_searches_equal_scans(question: Any, radix: int, kept: tuple[int, int], least: int) -> None:
    sweep, asked = question
    dims, names = sweep._plan().out_dims, [asked["of"]] if asked["of"] else OUTPUTS
    # There is nothing to search in an output that has none of these axes
    assume(all(set(dims[name]) & set(asked["over"]) for name in names if name in dims))
    found = searched(sweep, asked, radix, kept, least)
    assert found.identical(answer(sweep, **asked))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(top._Top, "searched", lambda *_: None)  # all outputs at all points
        assert found.identical(answer(sweep, **asked))


def test_cells_have_winners_of_their_own() -> None:
    """A point worse than the best for one count of GPUs may be the best for another."""
    fixed = {name: value for name, value in SCENARIO.items() if name not in AXES}
    axes = {name: AXES[name] for name in ("zero_stage", "n_gpus", "tensor_parallel")}
    sweep = Sweep(fixed, axes, ["memory_per_gpu"])
    asked = {"sense": "max", "at": True, "of": "memory_per_gpu", "over": ["zero_stage"]}
    asked |= {"infeasible": "exclude"}
    assert searched(sweep, asked).identical(answer(sweep, **asked))


@pytest.mark.parametrize("by_bounds", [False, True])
@pytest.mark.parametrize("k", [1, 2])
def test_cells_have_their_own_best_under_a_condition(by_bounds: bool, k: int) -> None:
    """Against the grid itself, sorted; the cells' axes are not in the order of memory."""
    fixed = {name: value for name, value in SCENARIO.items() if name not in AXES}
    axes = {n: AXES[n] for n in ("gpu_mttf", "n_gpus", "checkpoint_write_bandwidth")}
    sweep = Sweep(fixed, axes, ["job_time", "goodput"])
    asked = {"sense": "min", "at": True, "of": "job_time", "over": ["n_gpus"], "k": k}
    asked |= {"infeasible": "exclude", "where": "goodput <= 0.999"}
    found = searched(sweep, asked) if by_bounds else answer(sweep, **asked)
    grid: Any = sweep.evaluate(settings=Settings(infeasible="exclude"))
    times = grid["job_time"].where(grid["goodput"] <= 0.999)
    order = np.argsort(times.transpose(..., "n_gpus").values, axis=-1, kind="stable")
    sorted_ = np.sort(times.transpose(..., "n_gpus").values, axis=-1)[..., :k]
    np.testing.assert_array_equal(found["job_time"].values, sorted_)
    gpus = np.where(np.isnan(sorted_), np.nan, grid["n_gpus"].values[order[..., :k]])
    np.testing.assert_array_equal(found["n_gpus"].values, gpus)


def searched(
    sweep: Sweep, asked: Any, radix: int = 32, kept: Any = (1 << 24, 1 << 21), least: int = 16
) -> Any:
    """The result of a search without a limit on its cost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "WORTH", 0)
        patch.setattr(search, "MOST_SHARE", np.inf)
        patch.setattr(search, "LEAST", least)
        patch.setattr(boxes, "RADIX", radix)
        patch.setattr(boxes, "MOST_POINTS", kept[0])
        patch.setattr(boxes, "COARSE", kept[1])
        forbid_scans(patch)
        return answer(sweep, **asked)


BEST: dict[str, Any] = {"n_gpus": [128, 256, 384, 512, 640, 768, 896, 1024]}
BEST |= {"global_batch_size": [256, 512, 768, 1024], "tensor_parallel": [1, 2, 4, 8]}
BEST |= {"pipeline_parallel": [1, 2, 4, 8], "micro_batch_size": [1, 2, 4]}
LIVES: dict[str, Any] = {"n_gpus": BEST["n_gpus"]}
LIVES |= {"gpu_mttf": {"geomspace": ["5_000 h", "50_000 h"], "num": 32}}
LIVES |= {"checkpoint_write_bandwidth": {"geomspace": ["1 GB/s", "100 GB/s"], "num": 32}}
TOKENS = np.linspace(1e12, 2e12, 1000)
PRICES = np.linspace(4.0, 2.0, 1000)


def test_a_trillion_layouts(monkeypatch: Patch) -> None:
    """Against the same minimum in steps: layouts, then failures, then tokens and prices."""
    fixed = {**SCENARIO, "model": "llama-3-70b"}
    del fixed["n_gpus"], fixed["global_batch_size"], fixed["gpu_hour_price"]
    axes = {"training_tokens": TOKENS, "gpu_hour_price": PRICES, **BEST, **LIVES}
    sweep = Sweep(fixed, axes, ["job_cost", "step_time"])
    assert sweep.points > 1e12
    forbid_scans(monkeypatch)  # one would take an hour
    found: Any = sweep.best("job_cost", also=["step_time"])

    some = {**fixed, "gpu_hour_price": 2.0, "training_tokens": 1e12, "gpu_mttf": "50_000 h"}
    layouts: Any = Sweep(some, BEST, ["step_time"]).evaluate(
        settings=Settings(infeasible="exclude")
    )["step_time"]
    layout = ["tensor_parallel", "pipeline_parallel", "micro_batch_size"]
    goodput: Any = Sweep({**some, "global_batch_size": 256}, LIVES, ["goodput"]).evaluate()
    lives = ["gpu_mttf", "checkpoint_write_bandwidth"]
    gpus = layouts["n_gpus"]
    steps = layouts.min(layout) / layouts["global_batch_size"]
    costs = gpus * steps / goodput["goodput"].max(lives)
    best = costs.argmin(...)
    at = {name: costs[name].values[int(k)] for name, k in best.items()}
    step = layouts.sel(at)
    at |= {name: step[name].values[int(k)] for name, k in step.argmin(...).items()}
    kept = goodput["goodput"].sel(n_gpus=at["n_gpus"])
    at |= {name: kept[name].values[int(k)] for name, k in kept.argmax(...).items()}
    at |= {"training_tokens": 1e12, "gpu_hour_price": 2.0}
    assert {name: found[name].item() for name in axes} == at
    there = {**fixed, **{name: float(value) for name, value in at.items()}}
    point: Any = Sweep(there, {}, ["job_cost", "step_time"]).evaluate()
    for name in ("job_cost", "step_time"):
        assert found[name].item() == point[name].item()


def test_a_search_that_costs_too_much_leaves_it_to_the_scan(monkeypatch: Patch) -> None:
    fixed = {name: value for name, value in SCENARIO.items() if name not in AXES}
    sweep = Sweep(fixed, {name: AXES[name] for name in itertools.islice(AXES, 5)}, ["job_time"])
    asked = ("min", [*sweep.spec["axes"]], "job_time", True, "include")
    scanned = answer(sweep, *asked)
    monkeypatch.setattr(search, "WORTH", 0)
    for share in (0.0, 1e4, 1e5, 3e5, 1e6):  # given up before it begins, and while it runs
        monkeypatch.setattr(search, "MOST_SHARE", share)
        assert answer(sweep, *asked).identical(scanned)


def test_an_output_without_axes_has_a_winner() -> None:
    scenario = {**SCENARIO, "gpu_mttf": 1e8}
    found = Sweep(scenario, {"spare_nodes": [0, 1]}, ["step_time"]).best("step_time")
    assert found["step_time"].dims == ()
    assert found["step_time"].item() > 0
