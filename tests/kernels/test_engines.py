"""Engines agree: every formula in numba and JAX against NumPy; binding; the kernel cache."""

import math
import os
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import fleetcube
from fleetcube import Settings
from fleetcube.functions import javascript, traceable
from fleetcube.kernels import elementary, ops
from fleetcube.kernels.calculus.built import Chain
from fleetcube.kernels.engines import jax as jax_engine
from fleetcube.kernels.engines import kernel_cache, scalar
from fleetcube.kernels.engines import numba as numba_engine
from fleetcube.kernels.engines import numpy as numpy_engine
from fleetcube.kernels.engines.codegen import kernel_source
from fleetcube.kernels.engines.job import Job, pool
from fleetcube.kernels.engines.program import Program
from fleetcube.kernels.graph import trace
from fleetcube.kernels.graph.bind import Binding, dependencies
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.graph.formulas import Function, parameters
from fleetcube.kernels.laws import checkpoint, collectives, topology
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS

from .. import table
from ..draws import generator
from ..table import each
from . import javascript as node

Arrays = dict[str, np.ndarray[Any, Any]]

RUN = {"numpy": numpy_engine.run, "numba": numba_engine.run, "jax": jax_engine.run}
COMPILED = ("numba", "jax")
GRAPH = PHYSICS.quantities
FORMULAS: dict[str, Function] = {
    function.__name__: function
    for quantity in GRAPH.values()
    for function in quantity.formulas.values()
}

# numba has NumPy's bits; XLA has its own exp and log, and contracts a x + b.
TOLERANCE = {"numba": 0.0, "jax": 1e-12}

POINTS = 600  # more than one tile of the numba engine; the last one is cut short


def points() -> dict[str, Any]:
    """Inputs of each point: layouts that can be run and others, in and across nodes."""
    rng = generator(20)

    def pick(*values: float) -> Any:
        return rng.choice(values, POINTS)

    def between(low: float, high: float) -> Any:
        return rng.uniform(low, high, POINTS)

    return {
        "n_gpus": pick(1.0, 1.5, 3.0) * 2.0 ** rng.integers(0, 15, POINTS),
        "gpus_per_node": 2.0 ** rng.integers(0, 4, POINTS),
        "tensor_parallel": pick(1.0, 2.0, 3.0, 8.0, 16.0),
        "pipeline_parallel": pick(1.0, 2.0, 3.0, 16.0), "context_parallel": pick(1.0, 2.0),
        "data_parallel_shard": pick(1.0, 4.0, 8.0, 2.5),
        "sequence_length": rng.choice([4096.0, 4095.0], POINTS, p=[0.8, 0.2]),
        "virtual_stages": pick(1.0, 10.0), "micro_batch_size": pick(1.0, 4.0),
        "gpu_mttf": between(1e6, 3e8), "checkpoint_write_bandwidth": 10.0 ** between(6, 12),
        "peak_flops_fp16": between(1e14, 1e15), "peak_flops_bf16": between(1e14, 1e15),
        "peak_flops_fp8": between(1e15, 1e16), "peak_flops_fp4": between(1e15, 1e16),
        "hbm_bandwidth": 3.35e12, "intra_node_bandwidth": between(1e11, 1e12),
        "inter_node_bandwidth": between(1e9, 1e11), "parameters": 70e9, "layers": 80.0,
        "hidden_size": 8192.0, "linear_layers": pick(0.0, 20.0), "linear_heads": 64.0,
        "cables_per_node": 8.0, "cable_mttf": 1e9, "data_parallel_overlap": between(0, 1),
        "tensor_parallel_overlap": between(0, 1), "straggler_slowdown": 0.05,
        "fixed_checkpoint_interval": between(60, 7200), "switch_mttf": between(1e7, 1e9),
        "software_mttf": 1e9, "silent_corruption_mttf": 1e10, "failure_shape": between(0.5, 2),
        "correlated_failure_fraction": between(0, 1), "mtbf_exponent": between(0.5, 1.2),
        "spare_nodes": pick(0.0, 1.0, 8.0), "repair_crews": [1.0, 3.0, 1e5] * (POINTS // 3),
        "maintenance_fraction": between(0, 0.2), "corruption_probability": between(0, 0.5),
        "per_node_storage_bandwidth": 10.0 ** between(8, 10), "serial_fraction": between(0, 1),
        # one draw for nothing, which leaves those below as they were
        "hbm_capacity": (pick(0.0, 0.0, 0.0), between(4e10, 3e11))[1],
        "gpu_tdp": between(300, 1200), "rack_power": pick(12e3, 30e3, 70e3, 120e3),
        "grid_carbon_intensity": 1e-7, "electricity_price": 2e-8, "gpu_hour_price": 2.0,
        "site_power": 2e7, "contract_nodes": 600, "contract_time": 8e6, "delivery_time": 2e6,
        "node_price": 3e5, "nic_price": 1e3, "switch_port_price": 5e2, "leaf_link_price": 1e3,
        "pod_link_price": 2e3, "depreciation_time": 1.2e8, "backup_workers": pick(0.0, 2.0),
        "serving_batch_size": pick(1.0, 16.0, 256.0), "prompt_tokens": pick(0.0, 100.0, 30_000.0),
        "experts": pick(8.0, 64.0), "experts_per_token": pick(1.0, 2.0, 8.0),
        "expert_parallel": pick(1.0, 2.0, 8.0), "shared_experts": pick(0.0, 1.0),
        "sqrt_coefficient": between(0, 1e-8), "bucket_bytes": pick(25e6, np.inf),
        "gradient_compression": (pick(1.0, 4.0), between(0, 0.1))[0],  # as above
        "expert_parallel_overlap": between(0, 0.1), "step_time_jitter": between(0, 0.1),
        "slow_node_share": pick(0.0, 0.005, 0.3, 1.0), "slow_node_slowdown": between(0, 0.5),
        "slow_node_mttf": between(1e6, 1e9), "slow_node_detection_time": pick(600.0, 1e5, np.inf),
        "slow_node_check_interval": pick(600.0, 1e5, np.inf),
        "slow_node_check_time": between(0, 60), "slow_node_swap_time": pick(0.0, 600.0),
        "latent_kv_elements": 576.0, "latent_weights": 187e6, "routed_parameters": 60e9,
        "skipped_parameters": 45e9,
        "serial_time_per_step": between(0, 0.1), "attention_window": pick(512.0, np.inf),
        "torus_x": pick(1.0, 2.0, 4.0), "torus_y": pick(1.0, 2.0),
        "torus_ring_multiple": pick(1.0, 4.0), "largest_slice": pick(4.0, np.inf),
        "routing_nodes": pick(1.0, 4.0, np.inf), "expert_load_imbalance": between(1, 2),
        "capacity_factor": between(1, 2), "gpus_per_pod": pick(4.0, 32.0, 512.0, np.inf),
        "gpus_per_domain": pick(12.0, 64.0), "ramp_tokens": pick(0.0, 1e9, 1e15),
        "reference_batch_tokens": pick(0.0, 4e6), "lifetime_inference_tokens": 1e12,
        "pod_oversubscription": pick(1.0, 7.0), "pod_mttf": 1e9, "sites": pick(1.0, 2.0, 3.0),
        "site_bandwidth": 10.0 ** between(9, 12), "site_overlap": between(0, 0.1), "site_mttf": 1e8,
        "model_fragments": pick(1.0, 4.0, 600.0), "memory_tier_survival": pick(0.0, 0.8, 0.95),
        "drive_tier_survival": pick(0.0, 0.6, 0.9, 1.0), "tier_stall_share": pick(0.0, 0.3, 1.0),
        "rail_busy_share": between(0, 0.9), "checkpoint_memory_capacity": pick(1e6, np.inf),
        "checkpoint_drive_capacity": pick(1e11, np.inf), "corruption_latency": pick(0.0, 1e4, 1e6),
        "fleet_age": pick(0.0, 1e7), "aging_window": pick(0.0, 1e7),
        "burn_in_excess": between(0, 2), "wear_out_age": pick(1e8, np.inf),
        "in_process_share": pick(0.0, 0.5), "in_job_share": pick(0.0, 0.3),
        "requeue_share": pick(0.0, 0.2), "interest_rate": pick(0.0, 0.08),
        "earlier_tokens": pick(0.0, 1e13), "transition_time": pick(0.0, 1e5),
        "slowest_rank_deviation": pick(0.0, 3.5, 4.5), "slow_rank_deviation": pick(0.0, 1.5, 4.0),
        "reduced_layer_parameters": between(1e6, 1e9), "interruption_mttf": between(1e7, 1e9),
        "undetected_time": pick(0.0, 0.0, 0.0, 1e6),
        "recompute_shared_experts": pick(0.0, 0.0, 0.0, 1.0), "recompute_moe": between(0, 1),
        "recompute_core_attn": pick(0.0, 0.0, 1.0), "offloaded_layers": pick(0.0, 10.0, 100.0),
        "recomputed_layers": pick(np.inf, 3.0), "recompute_unit_layers": pick(1.0, 2.0),
        "host_memory_bandwidth": 10.0 ** between(11, 13),
        "query_latent_size": pick(0.0, 1536.0), "offload_core_attn": between(0, 1),
        "document_length": pick(300.0, 3e3, 1e5),
        "lora_rank": pick(4.0, 64.0, 64.0, 1e4),
        "serving_rail_bandwidth": between(1e9, 1e11), "repair_spread": pick(0.0, 1.5),
        "drive_tier_interval": between(60, 7200), "storage_tier_interval": between(600, 14400),
        "drive_tier_steps": pick(20.0, 100.0), "storage_tier_steps": pick(100.0, 1000.0),
        "checkpoint_steps": pick(1.0, 20.0), "kept_checkpoints": 3.0, "storage_rent": 2.7e-16,
    }  # fmt: skip


@cache
def operands() -> Arrays:
    """A value of every input and quantity at every point, from the reference engine."""
    options = {name: row.default for name, row in INPUTS.items() if row.kind == "option"}
    given = {name: row.default for name, row in INPUTS.items() if name not in options}
    leaves = {
        name: np.atleast_1d(np.asarray(value, float))
        for name, value in {**given, **points()}.items()
    }
    values = numpy_engine.evaluate(PHYSICS.select(GRAPH, options, leaves), leaves)
    return {**leaves, **{name: np.atleast_1d(value) for name, value in values.items()}}


def test_every_input_has_a_value() -> None:
    unset = [name for name in INPUTS.keys() & operands() if np.isnan(operands()[name]).all()]
    assert not unset, "draw it in points()"


def results(engine: str, functions: list[Function]) -> Arrays:
    """Formulas, alternatives included, over the same operands: one job."""
    formulas = {f"{function.__name__}_": function for function in functions}
    outs = {
        name: np.empty(POINTS, np.int8 if read(function).unit == "flag" else np.float64)
        for name, function in formulas.items()
    }
    RUN[engine](Job(formulas, operands(), outs), 2)
    return {name.removesuffix("_"): array for name, array in outs.items()}


# Unrolled loops of thousands of operations, which take seconds to a minute to compile
LONG = {
    *("crews_nodes_beyond_spares", "crews_nodes_in_repair", "crews_whole_pool_probability"),
    *("crews_spare_left_probability", "crews_whole_safe_pool_probability"),
    *("pool_hidden_wait_time", "safe_pool_hidden_wait_time", "longest_slowdown_between_checks"),
    *("closed_idle_safe_whole_cluster_probability", "closed_whole_cluster_probability"),
    *("hot_spare_availability", "hot_spare_missing_nodes"),
    *("longest_slowdown_of_some", "sync_wall_gpus", "tiered_delay"),
}
BY_TOPIC: dict[str, list[Function]] = {}  # one kernel each; with `--only`, the selected formulas
for _name, _function in FORMULAS.items():
    if table.only in _name:
        _topic = _name if _name in LONG else _function.__module__.split(".")[-2]
        BY_TOPIC.setdefault(_topic, []).append(_function)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("engine", COMPILED)
@pytest.mark.parametrize("topic", BY_TOPIC)
def test_formulas_agree_with_numpy(topic: str, engine: str) -> None:
    found, reference = (results(name, BY_TOPIC[topic]) for name in (engine, "numpy"))
    for name, values in reference.items():
        np.testing.assert_allclose(
            found[name], values, TOLERANCE[engine], equal_nan=True, err_msg=name
        )


# JAX: constants of Python have no type; flags and numbers, in float64 and in float32


def in_one_program(functions: list[Function], single: bool) -> Arrays:
    """Formulas as the jobs of one program of JAX's, which evaluates a whole sweep."""
    jobs, outs = [], {}
    for function in functions:
        kind = np.int8 if read(function).unit == "flag" else np.float32 if single else np.float64
        out = {function.__name__: np.empty(POINTS, kind)}
        given = {name: operands()[name] for name in parameters(function)}
        jobs.append(Job({function.__name__: function}, given, out))
        outs |= out
    with np.errstate(over="ignore"):  # some operands drawn are beyond float32
        return jax_engine.evaluate(*jax_engine.program_of(jobs, single), outs)


def assert_alone_as_together(functions: list[Function], single: bool) -> None:
    together = in_one_program(functions, single)
    for function in functions:
        name = function.__name__
        alone = in_one_program([function], single)[name]
        assert alone.dtype == together[name].dtype
        np.testing.assert_array_equal(alone, together[name], err_msg=name)
        if single and parameters(function):
            continue
        expected = results("numpy", [function])[name]
        tolerance = 1e-7 if single else TOLERANCE["jax"]
        np.testing.assert_allclose(alone, expected, tolerance, equal_nan=True, err_msg=name)


CONSTANT = [formula for formula in FORMULAS.values() if not parameters(formula)]


@pytest.mark.parametrize("single", [False, True])
def test_jax_evaluates_constants_and_flags(single: bool) -> None:
    flags = [made for made in FORMULAS.values() if read(made).unit == "flag"]
    drawn = dict.fromkeys([*CONSTANT[::20], *flags[::9]])  # some flags are constants
    assert_alone_as_together([*drawn], single)
    options = {name: row.default for name, row in INPUTS.items() if row.kind == "option"}
    chosen = PHYSICS.select(GRAPH, options, dict.fromkeys(INPUTS))
    names = [name for name, formula in chosen.items() if formula in CONSTANT]
    engine: Any = "jax-float32" if single else "jax"
    for outputs in (names, names[:1], names[-1:]):
        made = fleetcube.Sweep({"calibration": "none"}, {"n_gpus": [8, 64]}, outputs)
        found, expected = (made.evaluate(settings=Settings(e)) for e in (engine, "numpy"))
        for name in outputs:
            np.testing.assert_allclose(found[name], expected[name], 1e-7, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("topic", BY_TOPIC)
def test_jax_evaluates_every_formula_alone_and_together(topic: str, single: bool) -> None:
    assert_alone_as_together(BY_TOPIC[topic], single)


@pytest.mark.fuzz
@pytest.mark.skipif(node.NODE is None, reason="node is not installed")
@pytest.mark.parametrize("topic", BY_TOPIC)
def test_javascript_agrees_with_numpy(topic: str, tmp_path: Path) -> None:
    reference = results("numpy", BY_TOPIC[topic])
    formulas = tuple((f"{f.__name__}_", f) for f in BY_TOPIC[topic])
    inputs = tuple(dict.fromkeys(name for _, f in formulas for name in parameters(f)))
    flags = frozenset(name for name, f in formulas if read(f).unit == "flag")
    program = Program(inputs, tuple(name for name, _ in formulas), formulas, (), (), flags)
    source = javascript.HEAD + javascript.source(program, "evaluate")
    rows = [np.broadcast_to(operands()[name], POINTS) for name in inputs]
    found = node.run(source, np.stack(rows, axis=1), len(formulas), tmp_path)
    for column, (name, values) in zip(found.T, reference.items(), strict=True):
        np.testing.assert_allclose(column, values, 1e-12, equal_nan=True, err_msg=name)


@pytest.mark.slow
@pytest.mark.machine
def test_scalars_have_the_bits_of_arrays() -> None:
    formulas = {f"{name}_": function for name, function in FORMULAS.items()}
    formulas |= {"product_": Chain((("goodput", "n_gpus"), ("mfu", 2.0)))}  # 0 if one factor is
    point = numpy_engine.Point(formulas)
    drawn = [{name: row[k % row.size] for name, row in operands().items()} for k in range(0, 60, 2)]
    same = [dict.fromkeys(operands(), np.float64(value)) for value in (0, 1, -1, np.inf, np.nan)]
    zero = {"goodput": np.float64(0), "n_gpus": np.float64(np.inf), "mfu": np.float64(0.25)}
    mixed = [{**drawn[0], **zero}]
    for values in [*drawn, *same, *mixed]:
        found = point([values[name] for name in point.operands])
        arrays = {name: np.array([value]) for name, value in values.items()}
        for name, expected in numpy_engine.evaluate(formulas, arrays).items():
            assert type(found[name]) is np.float64
            np.testing.assert_array_equal(found[name], expected.item(), err_msg=name)
            assert np.isnan(found[name]) or np.signbit(found[name]) == np.signbit(expected), name
    assert found["product_"] == 0.5


def test_threads_share_tasks_and_stop_at_the_first_error() -> None:
    done: list[int] = []
    for threads in (1, 2, 5):
        pool(threads).each(done.append, iter(range(40)))
    assert sorted(done) == sorted([*range(40)] * 3)

    def fail(task: int) -> None:
        done.append(task)
        if task == 3:
            raise ZeroDivisionError

    done.clear()
    with pytest.raises(ZeroDivisionError):
        pool(2).each(fail, range(100_000))
    seen = len(done)
    assert seen < 100_000
    time.sleep(0.01)
    assert len(done) == seen  # no array is written after it returns


def test_rows_are_cut_into_few_tasks_that_cover_them() -> None:
    for outer, inner in (((9,), (24649,)), ((1,), (10**6,)), ((200,), (512,)), ((3, 5), (70_000,))):
        tasks = numba_engine._tasks(numba_engine.Split(outer, inner), 2)
        rows, length = math.prod(outer), math.prod(inner)
        assert len(tasks) <= max(16, 2 * rows)
        covered = np.zeros((rows, length), int)
        for start, stop, first, last in tasks:
            covered[start:stop, first:last] += 1
        assert (covered == 1).all()


def test_the_points_reach_every_reason_and_most_losses() -> None:
    reference = results("numpy", list(FORMULAS.values()))
    codes = set(read(FORMULAS["flushed_infeasible_reason"]).flags)
    reasons = [name for name, made in FORMULAS.items() if set(read(made).flags) == codes]
    # -1: unknown, where a replica takes more than the cluster
    found = {code for name in reasons for code in reference[name].tolist()} - {-1}
    assert found == codes, "in points(), draw what gives these, at few points: reasons hide others"
    assert set(reference["flushed_infeasible_reason"].tolist()) >= set(range(12))
    assert len(set(reference["dominant_overhead"].tolist())) >= 4


# Signs of zeros, NaN and infinities: one definition for all engines

EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, math.inf, -math.inf, math.nan)
ONE = (
    "np.abs({})",
    "np.ceil({})",
    "np.floor({})",
    "np.sqrt({})",
    "(-{})",
    "(1.0 / {})",
    "(0.0 * {})",
)
TWO = ("np.maximum({}, {})", "np.minimum({}, {})", "({} + {})", "({} - {})", "({} * {})")
TWO += tuple(f"where({{0}} {order} {{1}}, {{1}}, {{0}})" for order in ("<", "<=", ">", "==", "!="))
TWO += ("np.maximum({}, 0.0)", "np.minimum(-0.0, {})", "np.maximum({}, np.maximum(-0.0, {}))")


def expressions(count: int) -> list[str]:
    """Each operation alone, and drawn ones of several, over x, y and z."""
    rng, found = generator(31), [*ONE, *TWO]
    found = [text.format("x", "y") for text in found]
    for _ in range(count):
        parts = ["x", "y", "z", "-0.0"]
        for _ in range(rng.integers(3, 9)):
            text = (*ONE, *TWO, *TWO)[rng.integers(len(ONE) + 2 * len(TWO))]
            parts.append(text.format(*rng.choice(parts[-6:], 2, replace=False)))
        found.append(parts[-1] if "z" in parts[-1] else f"np.maximum({parts[-1]}, z)")
    return found


@cache
def at_edges() -> tuple[Job, dict[str, Function]]:
    """A job of drawn formulas where every pair of edges meets, at odd and even places of a tile."""
    scope: dict[str, Any] = {"np": ops.np, "where": ops.where, "__name__": __name__}
    for k, text in enumerate(expressions(60)):
        exec(f"def f{k}(x, y, z):\n    return 1.0 * {text}", scope)
    formulas = {name: made for name, made in scope.items() if name[0] == "f"}
    x, y, z = (part.reshape(-1) for part in np.meshgrid(EDGES, EDGES, EDGES))
    outs = {name: np.empty(x.size) for name in formulas}
    return Job(formulas, {"x": x, "y": y, "z": z}, outs), formulas


def edges(engine: str, folder: Path) -> Any:
    """Values of the drawn formulas on an engine, or point by point; one row for each formula."""
    job, formulas = at_edges()
    points = np.stack(list(job.operands.values()), axis=1)
    program = Program(tuple(job.operands), tuple(formulas), tuple(formulas.items()), ())
    if engine in RUN:
        RUN[engine](job, 1)
        return np.array(list(job.outs.values()))
    if engine == "javascript":
        source = javascript.HEAD + javascript.source(program, "evaluate")
        return node.run(source, points, len(formulas), folder).T
    if engine == "point":
        point = numpy_engine.Point(formulas)
        rows = [point([*map(np.float64, row)]) for row in points]
        return np.array([[row[name] for name in formulas] for row in rows]).T
    if engine == "traced by JAX":
        with jax.enable_x64(True):
            traced = traceable.jitted(program)(job.operands)
        return np.array([np.asarray(traced[name]) for name in formulas])
    interpreted = engine == "interpreted"
    call = scalar.interpreted(program) if interpreted else scalar.compiled(program).call
    return np.array([call(*row) for row in points]).T


@pytest.mark.fuzz
@pytest.mark.machine
@pytest.mark.parametrize(
    "engine",
    [
        *(*COMPILED, "point", "interpreted", "javascript"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("compiled", "traced by JAX")),
    ],
)
def test_signs_of_zeros_are_those_of_numpy(engine: str, tmp_path: Path) -> None:
    if engine == "javascript" and node.NODE is None:
        pytest.skip("node is not installed")
    expected, found = edges("numpy", tmp_path).copy(), edges(engine, tmp_path)
    known = ~np.isnan(expected)
    assert (np.isnan(found) == ~known).all()
    same = (found == expected) & (np.signbit(found) == np.signbit(expected)) | ~known
    assert same.all(), expressions(60)[np.argwhere(~same)[0, 0]]


def test_the_larger_of_two_zeros_is_positive() -> None:
    for one, other in ((0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0)):
        for function in (ops.np.maximum, ops.np.minimum):
            pair = function(np.full(9, one), np.full(9, other)), function(one, other)
            assert not any(np.signbit(value).any() for value in pair)


# Whole sweeps: what a user asks for, chained through fused kernels

SCENARIO: dict[str, Any] = {
    "gpu": "h100-sxm", "model": "llama-3-70b", "data_parallel_overlap": 0.5,
    "series_psus_per_node": 2,
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "others": {
        "all_reduce": "hierarchical",
        "checkpoint_policy": "young",
        "goodput_model": "first_order",
        "precision": "fp8",
        "recompute": "full",
        "sequence_parallel": True,
        "zero_stage": 3,
    },
}
OUTPUTS = ["job_time", "mfu", "goodput", "dominant_overhead", "reliability_to_communication_ratio"]


def sweep(engine: Any, options: dict[str, Any]) -> Any:
    given = {
        "settings": Settings(engine),
        "n_gpus": [64.0, 512.0, 4096.0],
        "tensor_parallel": [1, 8],
    }
    given |= {"fabric": ["ethernet-100g", "infiniband-ndr"]}
    given |= {"gpu_mttf": ["5_000 h", "50_000 h", "inf h"], **SCENARIO, **options}
    return fleetcube.evaluate(OUTPUTS, **given)


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("numba", "defaults"),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in (("jax", "defaults"), ("numba", "others"), ("jax", "others"))
        ),
    ],
)
def test_sweep_agrees_with_numpy(engine: str, options: str) -> None:
    got, expected = (sweep(each, OPTIONS[options]) for each in (engine, "numpy"))
    for name in (*OUTPUTS, "infeasible_reason"):
        assert got[name].dims == expected[name].dims
        assert got[name].dtype == expected[name].dtype
        np.testing.assert_allclose(
            got[name], expected[name], rtol=TOLERANCE[engine], atol=0, equal_nan=True
        )


@pytest.mark.parametrize("engine", RUN)
def test_points_do_not_touch_each_other(engine: str) -> None:
    # An infinite MTBF or an undefined value stays where it is.
    mtbf = np.array([900.0, math.inf, 86400.0, 1e9])
    together, alone = (
        [
            fleetcube.evaluate(
                "goodput",
                goodput_model="first_order",
                cluster_mtbf=part,
                checkpoint_stall_time=30,
                recovery_time=900,
                settings=Settings(engine),
            ).values
            for part in parts
        ]
        for parts in ([mtbf], mtbf.reshape(4, 1))
    )
    np.testing.assert_array_equal(np.concatenate(together), np.concatenate(alone))


# Binding


def test_binding_runs_the_same_code_over_other_names() -> None:
    stand_in, choose = object(), object()
    bound = Binding(stand_in, choose).bind(collectives.double_binary_tree_all_reduce_time)
    original = collectives.double_binary_tree_all_reduce_time
    assert bound is not original
    assert bound.__code__ is original.__code__
    assert bound.__globals__["np"] is stand_in
    assert bound.__globals__["where"] is choose
    assert original.__globals__["np"] is ops.np


def test_binding_reaches_the_functions_that_a_formula_calls() -> None:
    binding = Binding(object(), object())
    bound = binding.bind(checkpoint.expected_slowdown)
    inner = bound.__globals__["segment_efficiency"]
    assert inner is binding.bind(checkpoint.segment_efficiency)
    assert inner.__code__ is checkpoint.segment_efficiency.__code__
    assert inner is not checkpoint.segment_efficiency


@each("name", FORMULAS)
def test_binding_to_numpy_changes_last_bits_alone(name: str) -> None:
    bound = Binding(elementary.numpy, ops.where).bind(FORMULAS[name])
    values = operands()
    arguments = [values[p] for p in parameters(FORMULAS[name])]
    with np.errstate(all="ignore"):
        # after cancellation, as in 1 - e^-x, the last bit of exp is a larger share
        np.testing.assert_allclose(bound(*arguments), FORMULAS[name](*arguments), 1e-9, 1e-15)


# Dependencies and the cache of compiled kernels


def test_dependencies_are_the_functions_called() -> None:
    found = dependencies(collectives.hierarchical_all_reduce_time)
    assert [function.__name__ for function in found] == [
        "hierarchical_all_reduce_time",
        "ring_all_reduce_time",
        "reduce_scatter_time",
    ]
    assert ops.where in dependencies(topology.flat_latency)


def test_formulas_with_exponentials_and_logarithms_are_heavy() -> None:
    assert numba_engine.is_heavy(FORMULAS["exponential_failure_probability"])
    assert numba_engine.is_heavy(FORMULAS["tree_data_parallel_all_reduce_time"])  # by a callee
    assert not numba_engine.is_heavy(FORMULAS["component_cluster_mtbf"])


def cache_file(formula: Function) -> Path:
    trace._binding.cache_clear()  # so that the patched callee is seen
    operands = tuple((name, True) for name in parameters(formula))
    source, _ = kernel_source({"value": formula}, operands, {"value": np.dtype(float)}, 0)
    trace._binding.cache_clear()
    return kernel_cache.path_of(source)


def test_a_kernel_says_what_it_needs_without_the_formulas() -> None:
    # equal operations appear once; a library function ends a pass; constants are folded
    def formula(first: Any, second: Any) -> Any:
        return np.exp(first * second) / (first * second) + np.exp(np.float64(0))

    found = trace.Trace()
    result = found.run(formula, [trace.Value(found, "first"), trace.Value(found, "second")])
    assert [operation.text for operation in found.operations.values()] == [
        "(first * second)",
        "exp(k0)",
        "(k1 / k0)",
        "(k2 + (1.0))",
    ]
    assert result.name == "k3"
    with pytest.raises(TypeError, match="use where"):
        found.run(lambda first: 1.0 if first else 2.0, [trace.Value(found, "first")])


@pytest.mark.parametrize(
    ("steps", "time", "length"),
    [
        ((1, 20, 40), (1, 20, 40), 800),  # read as they are
        ((1, 20, 1), (1, 1, 40), 800),  # repeated once for all rows
        ((6, 20, 1), (6, 1, 40), 40),  # repeating would fill a grid for each
        ((6, 20, 40), (6, 1, 1), 800),  # one number in a row
    ],
)
def test_rows_are_short_where_operands_would_be_repeated(
    steps: tuple[int, ...], time: tuple[int, ...], length: int
) -> None:
    rng = generator(11)
    given = {"attempted_steps": rng.uniform(1, 2, steps), "step_time": rng.uniform(1, 2, time)}
    calls = []
    for size in (6, 3):  # a sweep's last block may be smaller than the others
        operands = {name: array[:size] for name, array in given.items()}
        job = Job(
            {"job_time": FORMULAS["job_time"]}, operands, {"job_time": np.empty((size, 20, 40))}
        )
        numba_engine.run(job, 1)
        expected = operands["attempted_steps"] * operands["step_time"]
        assert np.array_equal(job.outs["job_time"], np.broadcast_to(expected, job.shape))
        calls.append(numba_engine._call(job))
    assert [call.split.length for call in calls] == [length] * 2
    assert calls[0].key == calls[1].key


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_share_tables_follow_each_other(threads: int) -> None:
    rng = generator(12)
    operands = {
        "attempted_steps": rng.uniform(1, 2, (1, 5, 4, 600)),
        "step_time": rng.uniform(1, 2, (3, 1, 4, 600)),
    }
    job = Job({"job_time": FORMULAS["job_time"]}, operands, {"job_time": np.zeros((3, 5, 4, 600))})
    # both vary along the axis of 4, the larger one along that of 5: the outermost axis is innermost
    assert numba_engine._call(job).arguments[0].tolist() == [4, 5, 3]
    numba_engine.run(job, threads)
    expected = operands["attempted_steps"] * operands["step_time"]
    assert np.array_equal(job.outs["job_time"], expected)


def test_a_changed_callee_changes_the_cache_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLEETCUBE_CACHE", str(tmp_path))
    before = cache_file(FORMULAS["ring_data_parallel_all_reduce_time"])
    assert before == cache_file(FORMULAS["ring_data_parallel_all_reduce_time"])
    assert tmp_path in before.parents
    # two calls below the formula
    monkeypatch.setattr(collectives, "reduce_scatter_time", lambda *given: 3.0 * given[0])
    assert before != cache_file(FORMULAS["ring_data_parallel_all_reduce_time"])


def test_a_kernel_is_compiled_without_a_folder_to_cache_it_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("FLEETCUBE_CACHE", str(blocked))
    monkeypatch.setattr(kernel_cache, "_warned", threading.Event())  # once in a process
    # a unique axis length, so that no other test has compiled the same kernel
    axes = {"gpu_mttf": np.array([1e6, 2e6]), "nics_per_node": [1.0, 2.0, 3.0]}
    with pytest.warns(RuntimeWarning, match="not kept"):
        got = fleetcube.evaluate("node_mttf", settings=Settings("numba"), **axes)
    expected = fleetcube.evaluate("node_mttf", settings=Settings("numpy"), **axes)
    np.testing.assert_array_equal(got, expected)


FREED = """
import numpy as np
from fleetcube import Settings, Sweep
job = {"model": "llama-3-70b", "gpu": "h100-sxm", "fabric": "infiniband-ndr", "n_gpus": 1024,
       "tensor_parallel": 8, "global_batch_size": 1024, "calibration": "none"}
outputs = ["job_time", "goodput", "availability", "checkpoint_overhead", "rework_overhead",
           "recovery_overhead", "expected_failures", "cluster_mtbf", "gpu_hours", "energy", "mfu",
           "exact_interval", "checkpoint_interval", "ettr"]
sweep = Sweep(job, {"gpu_mttf": np.geomspace(1e6, 1e9, 4000)}, outputs)
compiled = sweep.evaluate(settings=Settings("numba", threads=1))
reference = sweep.evaluate(settings=Settings("numpy"))
for name in outputs:
    np.testing.assert_array_equal(compiled[name], reference[name])
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="how glibc frees memory")
def test_kernels_keep_their_buffers_to_the_end() -> None:
    # unmap freed memory at once, so that using it after it was freed always faults
    freeing = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", FREED], env=freeing, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
