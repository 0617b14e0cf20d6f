"""Pareto fronts against plain loops over the whole grid."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetcube import Settings, Sweep
from fleetcube.analysis.pareto import _thin, unbeaten

from .common import refused
from .test_reduce import AXES, ON_JAX, OUTPUTS, SCENARIO, SLOW, both, questions


def front(points: list[tuple[float, ...]]) -> list[int]:
    """Compare every point with every other."""
    found = []
    for i, p in enumerate(points):
        beaten = any(
            all(b <= a for a, b in zip(p, q, strict=True)) and (q != p or j < i)
            for j, q in enumerate(points)
            if j != i and all(map(math.isfinite, q))
        )
        if not beaten and all(map(math.isfinite, p)):
            found.append(i)
    return found


LEVELS = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, np.inf, np.nan])
POINTS = (st.lists(st.tuples(*[LEVELS] * k), min_size=1, max_size=40) for k in (2, 3))
ASKED = st.tuples(
    st.sampled_from([name for name in OUTPUTS if name != "dominant_overhead"]),
    st.sampled_from(["min", "max"]),
)


@given(st.one_of(*POINTS))
def test_fronts_of_points_with_ties_are_those_of_a_loop(points: list[tuple[float, ...]]) -> None:
    wanted = front(points)
    rows = [np.array(row)[None, :] for row in zip(*points, strict=True)]
    with np.errstate(all="ignore"):
        left = np.flatnonzero(_thin(rows))
    assert set(wanted) <= set(left)
    values = np.stack([row[0][left] for row in rows])
    _, rank, _ = unbeaten(np.zeros(left.size, np.int64), left, values)
    assert sorted(rank.tolist()) == wanted


@pytest.mark.slow
@SLOW
@given(questions(), st.lists(ASKED, min_size=2, max_size=3, unique_by=lambda pair: pair[0]))
def test_fronts_are_those_of_a_loop(question: Any, asked: list[tuple[str, str]]) -> None:
    sweep, over, *_ = question
    names, senses = zip(*asked, strict=True)
    whole, found = both(
        question, lambda sweep, over, **how: sweep.best(names, sense=senses, over=over, **how)
    )
    used = [axis for axis in sweep._sizes if any(axis in whole[name].dims for name in names)]
    kept = [axis for axis in used if axis not in over]
    away = [axis for axis in used if axis in over]
    wanted = []
    for place in itertools.product(*(range(sweep._sizes[axis]) for axis in kept)):
        cell = dict(zip(kept, place, strict=True))
        points, labels = [], []
        for at in itertools.product(*(range(sweep._sizes[axis]) for axis in away)):
            index = {**cell, **dict(zip(away, at, strict=True))}
            values = []
            for name, sense in asked:
                own = {dim: k for dim, k in index.items() if dim in whole[name].dims}
                value = float(whole[name].isel(own))
                values.append(value if sense == "min" else -value)
            points.append(tuple(values))
            labels.append(tuple(whole[axis].values[index[axis]] for axis in used))
        best = [(points[k], labels[k]) for k in front(points)]
        wanted += sorted(best, key=lambda pair: pair[0])
    assert found.sizes["front"] == len(wanted)
    for k, (point, label) in enumerate(wanted):
        signs = [1 if sense == "min" else -1 for sense in senses]
        got = [sign * float(found[n][k]) for n, sign in zip(names, signs, strict=True)]
        assert (tuple(got), tuple(found[axis].values[k] for axis in used)) == (point, label)


@pytest.mark.slow
def test_jax_finds_fronts_alike() -> None:
    fronts: Any = test_fronts_are_those_of_a_loop
    fronts.hypothesis.inner_test(ON_JAX, [("job_time", "min"), ("memory_per_gpu", "max")])


def test_bad_questions_are_refused() -> None:
    sweep = Sweep(SCENARIO, AXES, OUTPUTS)
    refused("two or three outputs", sweep.best, ["job_time"])
    refused(
        "'min' or 'max' for each", sweep.best, ["job_time", "step_time"], sense=["min", "least"]
    )
    refused("is a flag", sweep.best, ["job_time", "dominant_overhead"])
    refused("did you mean 'job_time'", sweep.best, "job_tme")
    refused("choose min or max", sweep.best, "job_time", sense="least")
    refused("k = 0 is not a whole number above 0", sweep.best, "job_time", 0)
    for argument in ("over", "where", "also", "search"):
        refused(f"{argument} = 3 is not a list of texts", sweep.best, "job_time", **{argument: 3})
    refused("of = 3 is not a list of texts", sweep.best, 3)
    refused("of = 3 is not a list of texts", sweep.derivatives, 3)
    refused("names an input twice", sweep.derivatives, "job_time", ["gpu_mttf", "gpu_mttf"])
    refused("is not sizes by axis", sweep.lazy, "n_gpus")
    refused("is not an axis", sweep.best, "job_time", over="gpus")
    refused("of is missing", sweep.best)
    refused("has one answer", sweep.best, "job_time", 2, search={"n_gpus": [8, 16]})
    refused("over axes alone", sweep.best, ["job_time", "step_time"], search="layout")
    refused("never the best", sweep.best, search="layout", settings=Settings(infeasible="include"))
    refused("choose one of min, max", sweep.reduce, "argmin")
    refused("did you mean 'job_time'", sweep.reduce, "min", of="job_tme")
    refused("give one from 0 to 1", sweep.reduce, "quantile", q=1.5)
    refused("leave it out", sweep.reduce, "min", q=0.5)


def test_the_best_are_rows_of_a_sorted_table() -> None:
    """With conditions, per cell: what pandas finds among all points, infeasible ones left out."""
    axes = {"n_gpus": [16, 32, 64], "tensor_parallel": [1, 2, 4, 8], "gpu_mttf": [3e7, 9e7]}
    sweep = Sweep({**SCENARIO, "fabric": "roce-100g"}, axes, ["job_time", "goodput"])
    rows = sweep.evaluate().to_dataframe().reset_index()
    found = sweep.best("job_time", 3, over=["n_gpus", "tensor_parallel"], where=["goodput >= 0.9"])
    for mttf in axes["gpu_mttf"]:
        there = rows[(rows.gpu_mttf == mttf) & (rows.infeasible_reason == 0)]
        there = there[there.goodput >= 0.9].sort_values("job_time", kind="stable")[:3]
        own = found.sel(gpu_mttf=mttf)
        for name in ("job_time", "n_gpus", "tensor_parallel", "goodput"):
            values = own[name].values[: len(there)]
            np.testing.assert_array_equal(values, there[name].to_numpy())
        assert np.isnan(own["job_time"].values[len(there) :]).all()
    one = sweep.best("job_time", over=["n_gpus", "tensor_parallel"], where=["goodput >= 0.9"])
    assert one["job_time"].equals(found["job_time"].isel(rank=0, drop=True))
    assert (found["infeasible_reason"].values[found["job_time"].notnull().values] == 0).all()
    flagged = sweep.best("job_time", 3, also=["dominant_overhead"])["dominant_overhead"]
    assert flagged.dtype == np.int8
    there = [float(sweep.best("job_time", 3)[name][2]) for name in axes]
    point = Sweep(
        {**SCENARIO, "fabric": "roce-100g"},
        dict(zip(axes, ([x] for x in there), strict=True)),
        "dominant_overhead",
    )
    assert flagged.values[2] == point.evaluate()["dominant_overhead"].item()
    # what cannot run is no best of an output either that does not depend on the layout
    apart = sweep.best("cluster_mtbf", sense="max")
    mtbf = sweep.with_outputs(["cluster_mtbf", "job_time"]).evaluate().to_dataframe().reset_index()
    runs = mtbf[mtbf.infeasible_reason == 0]
    assert float(apart["cluster_mtbf"]) == runs.cluster_mtbf.max()
    assert float(apart["n_gpus"]) == runs.loc[runs.cluster_mtbf.idxmax()].n_gpus


def test_the_worst_there_is_never_wins_and_the_best_there_is_may() -> None:
    """Failures every second leave no progress: the job never ends, whatever the cluster."""
    job = {**SCENARIO, "fabric": "roce-100g", "tensor_parallel": 8}
    job |= {"psu_mttf": np.inf, "nic_mttf": np.inf}
    sweep = Sweep(job, {"gpu_mttf": [1.0, 1e9, np.inf], "n_gpus": [16, 32]}, "job_time")
    assert np.isinf(sweep.evaluate()["job_time"].sel(gpu_mttf=1.0)).all()
    for k in (None, 1):
        found = sweep.best("job_time", k, over="n_gpus").squeeze()
        never = found.sel(gpu_mttf=1.0)
        assert np.isnan(never["job_time"])
        assert np.isnan(never["n_gpus"])
        assert found["job_time"].notnull().sum() == 2
        longest = sweep.best("cluster_mtbf", k, sense="max").squeeze()
        assert np.isinf(longest["cluster_mtbf"])
        assert np.isinf(longest["gpu_mttf"])


def test_labels_of_the_best_can_be_given_back() -> None:
    axes = {"zero_stage": [1, 2], "sequence_parallel": [True, False], "n_gpus": [32, 64]}
    sweep = Sweep({**SCENARIO, "fabric": "roce-100g", "tensor_parallel": 8}, axes)
    for k in (None, 1):
        found = sweep.best("job_time", np.int64(1) if k else None).squeeze()
        kinds = {name: found[name].dtype.kind for name in axes}
        assert kinds == {"zero_stage": "i", "sequence_parallel": "b", "n_gpus": "i"}
        there = {name: [found[name].item()] for name in axes}
        again = sweep.replace(axes=there, outputs="job_time").evaluate()["job_time"]
        assert again.item() == found["job_time"].item()


def test_what_cannot_run_is_on_no_front() -> None:
    """Even of outputs that do not depend on the layout: 1,000 GPUs do not divide the batch."""
    job = {**SCENARIO, "fabric": "roce-100g", "tensor_parallel": 8, "global_batch_size": 1024}
    job |= {"checkpoint_write_bandwidth": "100 GB/s"}
    axes = {"n_gpus": [64, 1000, 512], "gpu_mttf": ["5_000 h", "50_000 h"]}
    found = Sweep(job, axes).best(["goodput", "cluster_mtbf"])
    assert 1000 not in found["n_gpus"].values
    every = Sweep(job, axes).best(
        ["goodput", "cluster_mtbf"], settings=Settings(infeasible="include")
    )
    assert 1000 in every["n_gpus"].values
    refused("is for one output", Sweep(job, axes).best, ["goodput", "mfu"], also="job_time")
