"""Threshold crossings and Pareto fronts against plain loops over the whole grid."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetcube import InputError, Sweep
from fleetcube.grid.reduce.crossing import _first
from fleetcube.grid.reduce.pareto import _thin, unbeaten

from .common import refused
from .test_reduce import AXES, ON_JAX, OUTPUTS, SCENARIO, SLOW, both, questions


def first_crossing(axis: list[float], row: list[float], at: float, log: bool) -> float:
    if log:
        axis, row, at = [math.log(x) for x in axis], [math.log(y) for y in row], math.log(at)
    found = math.nan
    for k, value in enumerate(row):
        if value == at:
            found = axis[k]
            break
        if k + 1 < len(row) and (value - at) * (row[k + 1] - at) < 0:
            found = axis[k] + (at - value) / ((row[k + 1] - value) / (axis[k + 1] - axis[k]))
            break
    return math.exp(found) if log else found


@SLOW
@given(questions(), st.sampled_from(["n_gpus", "gpu_mttf", "pipeline_parallel"]), st.booleans())
def test_crossings_are_those_of_a_walk(question: Any, along: str, log: bool) -> None:
    sweep, _, engine, _, _, mask = question
    at = float(np.nanmedian(sweep.evaluate(engine, mask_infeasible=mask)["job_time"])) * 1.01
    asked = {"interpolate": "log" if log else "linear"}
    whole, found = both(
        question, lambda sweep, _, **how: sweep.crossing("job_time", along, at, **asked, **how)
    )
    whole = whole["job_time"]
    kept = [dim for dim in whole.dims if dim != along]
    assert found.dims == tuple(kept)
    for place in itertools.product(*(range(whole.sizes[dim]) for dim in kept)):
        row = whole.isel(dict(zip(kept, place, strict=True)))
        wanted = first_crossing(row[along].values.tolist(), row.values.tolist(), at, log)
        np.testing.assert_allclose(found.values[place], wanted, rtol=1e-9)


def test_a_crossing_by_hand() -> None:
    line, nan, inf = np.array([1.0, 2.0, 4.0, 8.0]), np.nan, np.inf
    rows = {
        (0.0, 10.0, 0.0, 0.0): 1.5,
        (0.0, 5.0, 9.0, 0.0): 2.0,  # it touches at a point
        (9.0, 9.0, 1.0, 9.0): 3.0,
        (0.0, nan, 9.0, 1.0): 6.0,  # the gap is not bridged
        (0.0, 0.0, 0.0, 5.0): 8.0,
        (0.0, 0.0, 0.0, 0.0): nan,
        (nan, nan, nan, nan): nan,
        (inf, 0.0, 9.0, 0.0): 2.0,
        (0.0, -inf, inf, 0.0): 4.0,
    }
    with np.errstate(all="ignore"):
        found = _first(np.array(list(rows)), line, 5.0)[0]
    np.testing.assert_array_equal(found, list(rows.values()))


def test_a_power_law_is_crossed_exactly_in_logarithms() -> None:
    # cluster_mtbf = node_mttf / nodes: half the GPUs, twice the time
    sweep = Sweep({"gpus_per_node": 8}, {"n_gpus": [8, 80_000]}, ["cluster_mtbf"])
    ends = sweep.evaluate()["cluster_mtbf"].values
    for threads in (1, 2):
        at = f"{ends[0] / 1000} s"
        found = sweep.crossing("cluster_mtbf", "n_gpus", at, interpolate="log", threads=threads)
        assert float(found) == pytest.approx(8000, rel=1e-12)


def front(points: list[tuple[float, ...]]) -> list[int]:
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
    whole, found = both(question, lambda sweep, *o, **how: sweep.pareto(names, senses, *o, **how))
    used = [axis for axis in sweep.sizes if any(axis in whole[name].dims for name in names)]
    kept = [axis for axis in used if axis not in over]
    away = [axis for axis in used if axis in over]
    wanted = []
    for place in itertools.product(*(range(sweep.sizes[axis]) for axis in kept)):
        cell = dict(zip(kept, place, strict=True))
        points, labels = [], []
        for at in itertools.product(*(range(sweep.sizes[axis]) for axis in away)):
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
def test_jax_finds_fronts_and_crossings_alike() -> None:
    fronts: Any = test_fronts_are_those_of_a_loop
    fronts.hypothesis.inner_test(ON_JAX, [("job_time", "min"), ("memory_per_gpu", "max")])
    crossings: Any = test_crossings_are_those_of_a_walk
    crossings.hypothesis.inner_test(ON_JAX, "gpu_mttf", True)


def test_bad_questions_are_refused() -> None:
    sweep = Sweep(SCENARIO, AXES, OUTPUTS)
    with pytest.raises(InputError, match="does not vary along 'gpu_mttf', but along n_gpus"):
        sweep.crossing("step_time", "gpu_mttf", 1.0)
    refused("has names, not numbers", sweep.crossing, "step_time", "fabric", 1.0)
    refused("at above 0", sweep.crossing, "step_time", "n_gpus", 0.0, interpolate="log")
    refused("choose linear or log", sweep.crossing, "step_time", "n_gpus", 1.0, interpolate="cubic")
    refused("two or three outputs", sweep.pareto, ["job_time"], ["min"])
    refused("'min' or 'max' for each", sweep.pareto, ["job_time", "step_time"], ["min", "least"])
    refused("is a flag", sweep.pareto, ["job_time", "dominant_overhead"], ["min", "min"])
    refused("did you mean 'job_time'", sweep.reduce, "argmin", of="job_tme")
    refused("give one from 0 to 1", sweep.reduce, "quantile", q=1.5)
    refused("leave it out", sweep.reduce, "min", q=0.5)
