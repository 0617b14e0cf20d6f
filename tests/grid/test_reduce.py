"""Streaming reductions against plain loops over the whole grid."""

import itertools
from typing import Any

import numpy as np
import pytest
import xarray
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fleetcube import Settings, Sweep
from fleetcube.grid.plan import tiles
from fleetcube.grid.reduce import quantile
from fleetcube.grid.reduce.fold import HOW

from ..draws import TIMES, scaled
from .common import Patch, cases, on_h100, refused

SCENARIO: dict[str, Any] = {"model": "llama-3-8b", "node": "dgx-h100", "sequence_parallel": True}
SCENARIO |= {"global_batch_size": 64, "virtual_stages": 1, "memory_headroom": False}
AXES: dict[str, Any] = {
    "n_gpus": [16, 8, 64],
    "tensor_parallel": [2, 16, 4],
    "pipeline_parallel": [4, 1, 3],
    "fabric": ["roce-100g", "infiniband-ndr"],
    "gpu_mttf": [3e7, 9e7],
    "all_reduce": ["ring", "auto"],  # options cut the sweep into cases; some points are equal
    "set": {"labels": ["late", "soon"], "training_tokens": [1e12, 1e12]},  # all points are equal
}
OUTPUTS = ["job_time", "step_time", "memory_per_gpu", "cluster_mtbf", "dominant_overhead"]
FOLDS = [how for how in HOW if how != "quantile"]  # tested elsewhere
NUMBERS = ["job_time", "step_time", "memory_per_gpu"]  # of the layout
SLOW = settings(max_examples=scaled(8), suppress_health_check=list(HealthCheck))


@st.composite
def questions(draw: Any) -> tuple[Sweep, list[str], str, int, int, bool]:
    """A sweep, axes to reduce, an engine, points of a block, threads, whether to mask."""
    order = draw(st.permutations(list(AXES)))
    over = [axis for axis in order if draw(st.booleans())]
    # XLA compiles for seconds per example: a fixed one is below
    engine = draw(st.sampled_from(["numpy"] * 5 + ["jax"] * (TIMES > 1)))
    block, threads = draw(st.sampled_from([5, 40, 300, 1 << 20])), draw(st.sampled_from([1, 3]))
    sweep = Sweep(SCENARIO, {name: AXES[name] for name in order}, OUTPUTS)
    return sweep, over, engine, block, threads, draw(st.booleans())


FEW = {"n_gpus": [16, 8, 64, 32], "pipeline_parallel": [4, 1], "gpu_mttf": [3e7, 9e7]}
ROCE = Sweep({**SCENARIO, "fabric": "roce-100g"}, FEW, OUTPUTS)
ON_JAX = (ROCE, ["n_gpus", "gpu_mttf"], "jax", 8, 3, True)


def both(question: Any, ask: Any, **patched: int) -> tuple[Any, Any]:
    """The whole grid of a question, and the answer from its sweep block by block."""
    sweep, over, engine, block, threads, mask = question
    given = Settings(engine, "exclude" if mask else "include", threads)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"BLOCK": block, **patched}.items():
            patch.setattr(tiles, name, value)
        return sweep.evaluate(settings=given), ask(sweep, over, settings=given)


def cells(whole: xarray.DataArray, over: list[str]) -> Any:
    """For each cell, its position and the points reduced into it, in the order of the axes."""
    kept = [dim for dim in whole.dims if dim not in over]
    away = [dim for dim in whole.dims if dim in over]
    for place in itertools.product(*(range(whole.sizes[dim]) for dim in kept)):
        cell = whole.isel(dict(zip(kept, place, strict=True))).transpose(*away).values
        indices = itertools.product(*(range(whole.sizes[dim]) for dim in away))
        yield place, [(cell[at], dict(zip(away, at, strict=True))) for at in indices]


def first_best(points: Any, how: str) -> Any:
    best: Any = (np.nan, None)
    for value, at in points:
        if value != value:
            continue
        beats = value < best[0] if how == "min" else value > best[0]
        if best[1] is None or beats:
            best = (value, at)
    return best


@SLOW
@given(questions(), st.sampled_from(NUMBERS), st.sampled_from(["min", "max"]))
def test_winners_are_those_of_a_loop(question: Any, name: str, sense: str) -> None:
    over = question[1]
    whole, found = both(
        question, lambda sweep, over, **how: sweep.best(name, sense=sense, over=over, **how)
    )
    for place, points in cells(whole[name], over):
        value, at = first_best(points, sense)
        assert_array_equal(found[name].values[place], value)
        for axis in set(over) & set(whole[name].dims):
            label = found[axis]
            assert label.dims == found[name].dims
            missing: Any = "" if label.dtype.kind == "U" else np.nan
            wanted = missing if at is None else whole[axis].values[at[axis]]
            assert_array_equal(label.values[place], wanted)


@pytest.mark.slow
@SLOW
@given(questions())
def test_the_other_outputs_are_read_at_the_winner(question: Any) -> None:
    over = question[1]
    whole, found = both(
        question,
        lambda sweep, over, **how: sweep.best("step_time", over=over, also=OUTPUTS, **how),
    )
    assert {*found.data_vars} == {*OUTPUTS}
    lead = whole["step_time"]
    kept = [dim for dim in lead.dims if dim not in over]
    for place, points in cells(lead, over):
        at = first_best(points, "min")[1]
        for name in [*OUTPUTS, "infeasible_reason"]:
            moving = set(whole[name].dims) & set(over)
            cut = {d: k for d, k in zip(kept, place, strict=True) if d in found[name].dims}
            got = found[name].isel(cut)
            if at is None and moving & set(lead.dims):
                nothing = -1 if got.dtype == np.int8 else np.nan
                assert_array_equal(got, np.full(got.shape, nothing))
                continue
            # along axes without effect on step_time the first point counts
            index = {**dict.fromkeys(moving, 0), **({} if at is None else at)}
            index |= dict(zip(kept, place, strict=True))
            own = {dim: k for dim, k in index.items() if dim in whole[name].dims}
            assert_array_equal(got, whole[name].isel(own).transpose(*got.dims))


@SLOW
@given(questions(), st.sampled_from(FOLDS))
def test_folds_are_those_of_numpy(question: Any, how: str) -> None:
    over = question[1]
    whole, found = both(question, lambda sweep, *of, **given: sweep.reduce(how, *of, **given))
    for name in found.data_vars:
        for place, points in cells(whole[name], over):
            values = [value for value, _ in points if value == value]
            got = found[name].values[place]
            if how == "count":
                assert got == sum(np.isfinite(value) for value in values)
            elif not values:
                assert_array_equal(got, 0.0 if how == "sum" and len(points) > 1 else np.nan)
            else:
                assert_allclose(got, getattr(np, how)(values), rtol=1e-12)


@SLOW
@given(questions(), st.sampled_from([0, 0.1, 0.5, 0.83, 1]), st.sampled_from([1, 30, 1 << 20]))
def test_quantiles_are_those_of_numpy(question: Any, q: float, small: int) -> None:
    over = question[1]
    with pytest.MonkeyPatch.context() as patch:
        if question[2] != "jax":  # whose BITS are compiled in
            patch.setattr(quantile, "BITS", 11)
        whole, found = both(
            question,
            lambda sweep, *of, **how: sweep.reduce("quantile", *of, q=q, **how),
            SORTED=small,
        )
    for name in found.data_vars:
        for place, points in cells(whole[name], over):
            values = [value for value, _ in points if value == value]
            wanted = np.quantile(values, q) if values else np.nan
            assert_allclose(found[name].values[place], wanted, rtol=1e-13)


@pytest.mark.slow
@cases(
    "test, more",
    (test_winners_are_those_of_a_loop, ["job_time", "min"]),
    (test_the_other_outputs_are_read_at_the_winner, []),
    *((test_folds_are_those_of_numpy, [how]) for how in FOLDS),
    (test_quantiles_are_those_of_numpy, [0.83, 1]),
)
def test_jax_reduces_alike(test: Any, more: list[Any]) -> None:
    test.hypothesis.inner_test(ON_JAX, *more)


@pytest.mark.slow
def test_several_quantiles_are_along_their_shares() -> None:
    job = on_h100("llama-3-70b", tensor_parallel=8, pipeline_parallel=4)
    axes = {"n_gpus": [512, 1024, 4096], "gpu_mttf": {"geomspace": [1e7, 1e9], "num": 9}}
    sweep = Sweep(job, axes, ["job_time", "cluster_mtbf"])
    shares = [0.9, 0.1, 0.5]
    found = sweep.reduce("quantile", "gpu_mttf", q=np.array(shares))
    assert found["job_time"].dims == ("quantile", "n_gpus")
    assert found["quantile"].values.tolist() == shares
    assert found.attrs["fleetcube_reduction"] == "quantiles 0.9, 0.1, 0.5 over gpu_mttf"
    for share in shares:
        one = sweep.reduce("quantile", "gpu_mttf", q=share)
        xarray.testing.assert_equal(found.sel(quantile=share, drop=True), one)
    theirs = sweep.evaluate()["job_time"].quantile(shares, "gpu_mttf")
    assert_allclose(found["job_time"], theirs, rtol=1e-12)
    for wrong in ([], [0.5, 2], ["a"], "0.5"):
        refused(
            "is not a share; give one from 0 to 1, or a list", sweep.reduce, "quantile", q=wrong
        )


def test_compiled_blocks_give_the_same_winners_and_quantiles(monkeypatch: Patch) -> None:
    scenario = {**SCENARIO, "memory_per_gpu": "60 GB"}  # given, so that few formulas are compiled
    sweep = Sweep(scenario, {name: AXES[name] for name in list(AXES)[:5]}, ["data_parallel_time"])
    whole = sweep.evaluate(settings=Settings("numba", infeasible="exclude"))["data_parallel_time"]
    monkeypatch.setattr(tiles, "BLOCK", 20)
    monkeypatch.setattr(tiles, "SORTED", 1)
    over = ["tensor_parallel", "pipeline_parallel"]
    how = Settings("numba", infeasible="exclude", threads=2)
    found = sweep.best("data_parallel_time", over=over, settings=how)
    middle = sweep.reduce("quantile", over, q=0.4, settings=Settings("numba", infeasible="exclude"))
    for place, points in cells(whole, over):
        value, at = first_best(points, "min")
        assert found["data_parallel_time"].values[place] == value
        label = found["pipeline_parallel"].values[place]
        assert label == AXES["pipeline_parallel"][at["pipeline_parallel"]]
        wanted = np.quantile([value for value, _ in points if value == value], 0.4)
        assert_allclose(middle["data_parallel_time"].values[place], wanted, rtol=1e-13)
