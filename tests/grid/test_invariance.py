"""Values depend on the sweep alone: not on axis order, block shape, threads or neighbours."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetcube import Settings
from fleetcube.grid.plan import tiles
from fleetcube.grid.plan.execute import evaluate_block
from fleetcube.grid.run import evaluation
from fleetcube.kernels.engines import cache_tiles as engine_tiles
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.sweep import Sweep

from ..draws import TIMES, scaled
from .common import on_h100

SCENARIO = on_h100(
    n_gpus=512, global_batch_size=512, straggler_slowdown=0.03, data_parallel_overlap=0.5
)
OUTPUTS = [
    *("job_time", "goodput", "step_time", "dominant_overhead", "communication_overhead"),
    *("checkpoint_interval", "cluster_mtbf"),
]
AXES: dict[str, list[Any]] = {"n_gpus": [8, 24, 64, 1000, 16384], "gpu_mttf": [1e7, 3.3e8, 1e9]}
AXES |= {"tensor_parallel": [1, 2, 8], "pipeline_parallel": [1, 4]}
AXES |= {"checkpoint_write_bandwidth": [1e9, 1e11], "fabric": ["infiniband-hdr", "roce-100g"]}
AXES |= {"all_reduce": ["ring", "auto", "tree", "hierarchical"], "zero_stage": [1, 3]}
AXES |= {"checkpoint_policy": ["young", "exact", "daly"], "recompute": [False, "full"]}


@st.composite
def axes(draw: Any, most: int = 4) -> dict[str, list[Any]]:
    names = draw(st.lists(st.sampled_from(list(AXES)), min_size=1, max_size=most, unique=True))
    chosen = {}
    for name in names:
        points = AXES[name]
        chosen[name] = draw(st.permutations(points))[: draw(st.integers(1, len(points)))]
    return chosen


# What labels of the scenario choose, an overlap implies, and the calibration that is found says
CHOSEN = {"gated_ffn": True, "node_reduction": True, "link_sharing": True}
CHOSEN |= {"compute_model": "roofline", "jitter_model": "normal"}


def brute_force(names: list[str], point: dict[str, Any]) -> dict[str, float]:
    """Quantities at one point, by calling the formulas one after the other."""
    case = Sweep({**SCENARIO, **point}, {}, names)._plan("numpy").cases[0]
    values: dict[str, float] = {k: float(v.item()) for k, v in case.leaves.items()}

    def value(wanted: str) -> float:
        if wanted not in values:
            chosen = {n: i.default for n, i in INPUTS.items() if i.kind == "option"} | CHOSEN
            chosen |= {"stage_split": "whole_layers"} if "pipeline_parallel" in point else {}
            chosen |= {k: v for k, v in point.items() if k in INPUTS}
            formula = PHYSICS.quantities[wanted].formula(chosen)
            arguments = [np.float64(value(p)) for p in parameters(formula)]
            with np.errstate(all="ignore"):
                values[wanted] = float(formula(*arguments))
        return values[wanted]

    return {name: value(name) for name in names}


# JAX compiles for seconds at every example: in the suite it has one that is fixed
SOME_JAX = st.sampled_from(["numpy"] * 7 + ["jax"] * (TIMES > 1))


@settings(max_examples=scaled(24))
@given(axes(), SOME_JAX)
def test_a_sweep_equals_its_points_one_by_one(chosen: dict[str, list[Any]], engine: str) -> None:
    result = Sweep(SCENARIO, chosen, OUTPUTS).evaluate(settings=Settings(engine))
    combinations = list(itertools.product(*[range(len(v)) for v in chosen.values()]))
    for index in combinations[:: max(1, len(combinations) // 5)]:
        at = dict(zip(chosen, index, strict=True))
        point = {name: chosen[name][k] for name, k in at.items()}
        for name, expected in brute_force(OUTPUTS, point).items():
            variable = result[name]
            cell = variable.isel({dim: k for dim, k in at.items() if dim in variable.dims})
            if variable.dtype == np.int8:
                assert int(cell) == (-1 if np.isnan(expected) else int(expected))
            else:
                np.testing.assert_allclose(float(cell), expected, rtol=1e-12, err_msg=name)


def same_bits(first: Any, second: Any) -> None:
    for name in first.variables:
        other = second[name].transpose(*first[name].dims) if first[name].ndim else second[name]
        left, right = first[name].values, other.values
        equal = np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
        assert equal, f"{name} differs: {left[left != right][:3]} {right[left != right][:3]}"


@settings(max_examples=scaled(10))
@given(axes(), st.data(), SOME_JAX)
def test_order_and_cuts_change_no_bit(chosen: dict[str, list[Any]], data: Any, engine: str) -> None:
    order = data.draw(st.permutations(list(chosen)))
    check_order_and_block(chosen, order, data.draw(st.sampled_from([1, 2, 3, 7, 50])), engine)


def check_order_and_block(chosen: Any, order: list[str], block: int, engine: str) -> None:
    reference = Sweep(SCENARIO, chosen, OUTPUTS).evaluate(settings=Settings(engine, threads=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tiles.AT_ONCE, engine, block)
        patch.setattr(evaluation, "together", lambda plan: False)  # JAX's: in blocks, too
        patch.setattr(engine_tiles, "NUMPY_TILE", block)
        other = Sweep(SCENARIO, {name: chosen[name] for name in order}, OUTPUTS)
        same_bits(reference, other.evaluate(settings=Settings(engine, threads=3)))


@pytest.mark.slow
def test_jax_gives_the_points_one_by_one_in_any_order_of_axes() -> None:
    chosen = {"gpu_mttf": AXES["gpu_mttf"], "all_reduce": ["ring", "tree"]}
    one_by_one: Any = test_a_sweep_equals_its_points_one_by_one
    one_by_one.hypothesis.inner_test(chosen, "jax")
    check_order_and_block(chosen, ["all_reduce", "gpu_mttf"], 2, "jax")


SOME = ("n_gpus", "gpu_mttf", "tensor_parallel", "checkpoint_write_bandwidth")
NUMBA_AXES = {name: AXES[name] for name in SOME}


@pytest.mark.slow
@settings(max_examples=scaled(5))
@given(
    st.permutations(list(NUMBA_AXES)),
    st.sampled_from([1, 3, 20, 1 << 20]),
    st.sampled_from([1, 2, 5]),
)
def test_compiled_kernels_change_no_bit_either(order: list[str], block: int, threads: int) -> None:
    names = ["goodput", "checkpoint_overhead"]  # all of the rest would compile for a minute
    reference = Sweep(SCENARIO, NUMBA_AXES, names).evaluate(settings=Settings("numba", threads=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(tiles.AT_ONCE, "numba", block)
        other = Sweep(SCENARIO, {name: NUMBA_AXES[name] for name in order}, names)
        same_bits(reference, other.evaluate(settings=Settings("numba", threads=threads)))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", "numba", "jax"])
def test_any_region_holds_what_the_whole_grid_holds(engine: str) -> None:
    chosen = {name: AXES[name] for name in ("n_gpus", "gpu_mttf", "tensor_parallel")}
    chosen["all_reduce"] = ["ring", "hierarchical"]
    name = "job_time" if engine == "numpy" else "data_parallel_time"  # which compiles sooner
    sweep = Sweep(SCENARIO, chosen, [name])
    plan = sweep._plan(engine)
    (dims,) = [dims for dims, names in plan.groups().items() if name in names]
    whole = sweep.evaluate(settings=Settings(engine))[name].transpose(*dims).values
    generator = np.random.default_rng(7)
    for _ in range(5):
        region = {}
        for dim in dims:
            start, stop = sorted(generator.choice(plan.sizes[dim] + 1, 2, replace=False))
            region[dim] = slice(int(start), int(stop))
        part = np.empty([cut.stop - cut.start for cut in region.values()])
        evaluate_block(plan, dims, region, {name: part}, 2)
        assert np.array_equal(part, whole[tuple(region.values())])


def test_a_result_is_written_into_arrays_of_an_earlier_one() -> None:
    sweep = Sweep(SCENARIO, {"n_gpus": [8, 16, 64], "gpu_mttf": [1e8, 2e8]}, OUTPUTS)
    first = sweep.evaluate()
    kept = first.copy(deep=True)
    for variable in first.data_vars.values():
        variable.values[...] = 0
    second = sweep.evaluate(out=first)
    same_bits(kept, second)
    assert np.shares_memory(first["job_time"].values, second["job_time"].values)
