"""Derivatives of whole graphs: against 80 digits, by hand, at the edges, on axes and engines."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import fleetcube
from fleetcube import Settings, Sweep
from fleetcube.kernels.calculus import derivatives
from fleetcube.kernels.calculus.built import Partial
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.laws import checkpoint, reliability, scaling
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import MEASURED

from ..draws import scaled
from .differentiated import NUMBERS, Point

INF = float("inf")
JOB: dict[str, Any] = {
    "n_gpus": 256, "model": "llama-3-70b", "node": "dgx-b200", "fabric": "infiniband-ndr",
    "tensor_parallel": 8, "pipeline_parallel": 2, "training_tokens": 1e12, "peak_flops_fp16": 1e15,
    "peak_flops_fp8": 2e15, "peak_flops_fp4": 4e15, "electricity_price": 2e-8,
    "grid_carbon_intensity": 1e-7, "gpu_hour_price": 2.0, "node_price": 3e5,
    "depreciation_time": 1.3e8, "fixed_checkpoint_interval": 600, "checkpoint_policy": "exact",
    "linear_heads": 64, "torus_x": 4, "torus_y": 2, "all_reduce": "auto", "site_bandwidth": 1e11,
    "checkpoint_mode": "sync",  # tiers would change this; without them, their shares have kinks
    "memory_tier_survival": 0.6, "drive_tier_survival": 0.9, "tier_stall_share": 0.3,
    "slow_node_slowdown": 0.1, "slow_node_mttf": 1e8, "slow_node_detection_time": 1e4,
    "slow_node_check_interval": 1e5, "latent_kv_elements": 576, "latent_weights": 187e6,
    "storage_tier_interval": 3600, "drive_tier_interval": 900, "tier_intervals": "tuned",
    "drive_timing": False, "drive_steps": False, "storage_steps": False, "kept_checkpoints": 3,
    "storage_rent": 2.7e-16, "contract_nodes": 600, "contract_time": 8e6, "delivery_time": 2e6,
    "site_power": 2e9, "checkpoint_steps": 10, "drive_tier_steps": 100, "storage_tier_steps": 500,
}  # fmt: skip
OPTIONS = {name: row.choices for name, row in INPUTS.items() if row.kind == "option"}
OUTPUTS = [
    *("job_time", "goodput", "step_time", "memory_per_gpu", "job_cost", "sync_wall_gpus"),
    *("checkpoint_interval", "failure_probability", "availability", "electricity_cost"),
]


# Drawn scenarios


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(max(map(len, OPTIONS.values()))))
def test_every_quantity_under_every_option(turn: int) -> None:
    chosen = {name: choices[turn % len(choices)] for name, choices in OPTIONS.items()}
    if chosen["mfu_scope"] == "node":
        chosen["scaling_efficiency"] = 0.7
    model = "mixtral-8x7b" if chosen["mixture_of_experts"] else "llama-3-70b"
    given = {**JOB, **chosen, **ORDINARY, "model": model}
    if chosen["all_causes"]:  # instead of the rates of parts
        given = {name: value for name, value in given.items() if name != "software_mttf"}
        given["interruption_mttf"] = 1e8
    wrong, right = Point(given).wrong()
    assert wrong == []
    assert right > 5000


# Inputs without defaults that options need; options are stated, too, as these imply some of them
NEEDED = {
    "slow_node_share": 0.01, "node_price": 3e5, "repair_crews": 20, "document_length": 700,
    "lora_rank": 16,
}  # fmt: skip
ORDINARY = {
    **NEEDED, "step_time_jitter": 0.05, "serial_time_per_step": 0.02, "data_parallel_overlap": 0.4,
    "tensor_parallel_overlap": 0.02, "spare_nodes": 2, "corruption_probability": 0.02,
    "failure_shape": 0.8, "serial_fraction": 1e-4, "sqrt_coefficient": 1e-9,
    "bucket_bytes": 2.5e7, "per_node_storage_bandwidth": 1e10, "rail_busy_share": 0.4,
    "software_mttf": 1e9,
}  # fmt: skip


def drawn(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))


SCENARIOS = st.fixed_dictionaries(
    {
        **{name: st.sampled_from(choices) for name, choices in OPTIONS.items()},
        **{name: st.just(value) for name, value in NEEDED.items()},
        "all_causes": st.just(False),  # refused beside the rates of parts
        "mfu_scope": st.just("step"),
        "mixture_of_experts": st.just(False),
        "n_gpus": st.sampled_from([16, 256, 4096, 65536]),
        "tensor_parallel": st.sampled_from([1, 4, 8]),
        "pipeline_parallel": st.sampled_from([1, 2, 8]),
        "gpu_mttf": drawn(1e6, 1e10),
        "switch_mttf": drawn(1e7, 1e12),
        "checkpoint_write_bandwidth": drawn(1e8, 1e13),
        "inter_node_latency": drawn(1e-7, 1e-4),
        "inter_node_bandwidth": drawn(1e9, 1e12),
        "step_time_jitter": st.floats(0.001, 0.3),
        "failure_shape": st.floats(0.5, 2),
        "spare_nodes": st.integers(0, 9),
        "repair_time": drawn(1e2, 1e6),
        "corruption_probability": st.floats(0, 0.5),
        "data_parallel_overlap": st.floats(0, 1),
        "tensor_parallel_overlap": st.floats(0, 1),
        "bucket_bytes": drawn(1e6, 1e10),
        "provision_time": drawn(1, 1e5),
        "fixed_checkpoint_interval": drawn(10, 1e5),
    }
)


# a tree over 32,768 ranks: log2 is 15 in floats, slightly more in 80 digits, and was rounded up
STEPS = {
    "n_gpus": 65536, "tensor_parallel": 1, "all_reduce": "tree", "bucket_bytes": 999999.9999999995,
    "inter_node_latency": 1e-7,
}  # fmt: skip


@pytest.mark.slow
@given(SCENARIOS)
@example(STEPS)
@settings(max_examples=scaled(15))
def test_gradients_are_the_slopes_in_80_digits(scenario: dict[str, Any]) -> None:
    point = Point({**JOB, **scenario}, OUTPUTS)
    assume(point.values["goodput"] > 1e-100)  # beyond, terms of the chain rule overflow
    wrong, right = point.wrong()
    assert wrong == []
    assert right > 0


def test_gradients_are_the_differences_of_evaluate() -> None:
    # through the public interface, by fourth-order differences at steps of 0.1 %
    names = ["gpu_mttf", "inter_node_bandwidth", "checkpoint_write_bandwidth", "provision_time"]
    outputs = ["job_time", "goodput", "sync_wall_gpus", "checkpoint_interval"]
    found = Sweep(JOB, {}, outputs).derivatives(outputs, names)
    values = Sweep(JOB, {}, outputs).evaluate()
    for name in names:
        here = Point(JOB, outputs).leaves[name]
        steps = here * (1 + 1e-3 * np.array([-2, -1, 1, 2]))
        at = fleetcube.evaluate(outputs, **{**JOB, name: steps})
        for of in outputs:
            weights = np.array([1, -8, 8, -1]) / (12e-3 * here)
            slope = float(np.dot(weights, np.broadcast_to(at[of].values, 4)))
            rounding = 1e-11 * abs(float(values[of])) / here
            assert abs(float(found.sel(output=of, input=name)) - slope) <= (
                1e-6 * abs(slope) + rounding
            )


# Edges

NEVER = {name: INF for name in {*INPUTS} - {*MEASURED} if name.endswith("_mttf")}
OVERLAPS = [
    name for name, row in INPUTS.items() if name.endswith("_overlap") and row.kind != "option"
]
EDGES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "no latency": {"inter_node_latency": 0, "intra_node_latency": 0},
    "one GPU": {"n_gpus": 1, "tensor_parallel": 1, "pipeline_parallel": 1},
    "one rank": {"n_gpus": 16},
    "one stage": {"pipeline_parallel": 1},
    "no failures": NEVER,
    "no failures, free checkpoints": {**NEVER, "checkpoint_stall_time": 0},
    "no failures, young": {**NEVER, "checkpoint_policy": "young"},
    "no failures, daly": {**NEVER, "checkpoint_policy": "daly"},
    "no failures, fixed": {**NEVER, "checkpoint_policy": "fixed"},
    "no failures, first order": {**NEVER, "goodput_model": "first_order"},
    "no failures, weibull": {**NEVER, "failure_shape": 0.7},
    "no failures, spares": {**NEVER, "spare_nodes": 1, "elastic": "shrink"},
    "no failures, corruption": {**NEVER, "corruption_probability": 0.1},
    "no failures, behind": {**NEVER, "checkpoint_mode": "async"},
    "free checkpoints": {"checkpoint_stall_time": 0},
    "free checkpoints, young": {"checkpoint_stall_time": 0, "checkpoint_policy": "young"},
    "free checkpoints, daly": {"checkpoint_stall_time": 0, "checkpoint_policy": "daly"},
    "free, first order": {"checkpoint_stall_time": 0, "goodput_model": "first_order"},
    "nothing to recover": {"recovery_time": 0, "checkpoint_stall_time": 0},
    "failing all the time": {"gpu_mttf": 1.0},
    "short": {"job_duration": 1e-6},
    "short, weibull": {"job_duration": 1e-6, "failure_shape": 0.7},
    "long": {"job_duration": 1e12},
    "long, weibull": {"job_duration": 1e12, "failure_shape": 2},
    "weibull 1": {"failure_shape": 1},
    "infinite bandwidths": {"per_node_storage_bandwidth": INF, "bucket_bytes": INF},
    "no budgets": {
        "goodput_model": "additive",
        **dict.fromkeys([name for name in INPUTS if name.endswith("_budget")], 0),
    },
    "nothing overlaps": dict.fromkeys(OVERLAPS, 0),
    "all overlaps": dict.fromkeys(OVERLAPS, 1),
    "serial": {"serial_fraction": 1},
    "no jitter": {"step_time_jitter": 0},
    "no jitter, gumbel": {"step_time_jitter": 0, "jitter_model": "gumbel"},
    "jitter of one": {"step_time_jitter": 0.1, "n_gpus": 16},
    "no spares": {"spare_nodes": 0, "repair_time": 0, "elastic": "shrink"},
    "no repair": {"spare_nodes": 1, "repair_time": 0},
    "no corruption": {"corruption_probability": 0},
    "all corrupt": {"corruption_probability": 0.999, "maintenance_fraction": 0.999},
    "correlated": {"correlated_failure_fraction": 1, "failure_domain_nodes": 1},
    "no root": {"all_reduce": "fitted", "sqrt_coefficient": 0},
    "no losses": {"compute_model": "roofline", "gemm_half_depth": 0},
    "every expert": {"model": "mixtral-8x7b", "experts_per_token": 8},
    "no prompt": {"prompt_tokens": 0},
    "no optimizer": {"optimizer_bytes_per_parameter": 0, "offload": "nvme"},
    "rates of 1": {name: 1 for name in INPUTS if name.endswith("_efficiency")},
}


def moved(scenario: dict[str, Any]) -> list[str]:
    """Quantities that an edge changes; the others are those of "defaults"."""
    edge, plain = (
        Sweep(given, {}, [name for name in NUMBERS if name not in given])._plan("numpy").cases[0]
        for given in (scenario, JOB)
    )
    unlike = {
        name
        for name, leaf in edge.leaves.items()
        if name not in plain.leaves or not np.array_equal(leaf, plain.leaves[name])
    }
    for name, formula in edge.formulas.items():
        if formula is not plain.formulas.get(name) or not unlike.isdisjoint(parameters(formula)):
            unlike.add(name)
    return [name for name in NUMBERS if name in unlike]


@pytest.mark.slow
@pytest.mark.parametrize("edge", EDGES)
def test_derivatives_at_edges_are_finite_and_a_side(edge: str) -> None:
    scenario = {**JOB, **EDGES[edge]}
    wrong, right = Point(scenario, moved(scenario) if EDGES[edge] else NUMBERS).wrong()
    assert wrong == []
    assert right > (0 if EDGES[edge] else 5000)


def test_what_is_not_sent_is_not_hidden() -> None:
    # max(0, 0 - 0 x) is a kink along the overlap: one rank of tensors has nothing to hide
    alone = {**JOB, "tensor_parallel": 1}
    found = Sweep(alone, {}, ["job_time"]).derivatives("job_time", "tensor_parallel_overlap")
    assert float(found[0]) == 0


@pytest.mark.parametrize("way", OPTIONS["context_parallel_type"])
def test_a_ring_with_one_rank_has_no_slope(way: str) -> None:
    # its sends are divided by c - 1
    alone = {**JOB, "context_parallel_type": way}
    names = ["exposed_context_parallel_time", "context_ring_window"]
    inputs = ["inter_node_bandwidth", "sequence_length", "context_parallel"]
    found = Sweep(alone, {}, names).derivatives(names, inputs)
    assert (found.sel(input=inputs[:2]).values == 0).all()
    assert np.isfinite(found.values).all()  # to two ranks, which exchange


def test_an_optimum_at_no_cost_has_no_slope() -> None:
    # the slope of sqrt(2 d M) is infinite at d = 0: given as 0 for any interval
    free = {**JOB, "checkpoint_stall_time": 0.0}
    names = ["young_interval", "daly_interval", "exact_interval"]
    found = Sweep(free, {}, names).derivatives(names, "checkpoint_stall_time")
    assert found.values.ravel().tolist() == [0, 0, 0]


def test_a_failure_that_is_certain_stays_certain() -> None:
    # exp(-T / M) underflows to 0, and T / M^2 overflows
    with np.errstate(all="ignore"):
        for name in ("duration", "mtbf"):
            made = derivatives.partial(reliability.failure_probability, name)
            assert isinstance(made, Partial)
            assert float(made(np.float64(1e200), np.float64(1e-160))) == 0


# By hand


def test_exact_interval_has_the_slopes_of_its_equation() -> None:
    # -u - ln(1 - u) = x with x = d / M: du/dx = (1 - u) / u, so that d tau / dd = (1 - u) / u
    # and d tau / dM = u - x (1 - u) / u
    mtbf = 86400.0
    stalls = mtbf * np.geomspace(1e-12, 10, 500)
    with mpmath.workdps(60):
        x = [mpmath.mpf(float(d)) / mtbf for d in stalls]
        u = [1 + mpmath.lambertw(-mpmath.exp(-y - 1)).real for y in x]
        by_hand = {
            "write_time": [float((1 - v) / v) for v in u],
            "mtbf": [float(v - y * (1 - v) / v) for v, y in zip(u, x, strict=True)],
        }
    for name, expected in by_hand.items():
        made = derivatives.partial(checkpoint.exact_interval, name)
        assert isinstance(made, Partial)
        found = made(stalls, np.full_like(stalls, mtbf))
        np.testing.assert_allclose(found, expected, rtol=5e-15)


WALL = ("parallel_time_gpus", "fixed_time", "time_per_gpu", "stall_time", "recovery_time")
WALLS = [
    (1e4, 1.0, 1e-4, 30.0, 600.0, 2e8),
    (3e5, 0.2, 1e-5, 5.0, 60.0, 5e9),
    (1e3, 2.0, 1e-2, 300.0, 60.0, 1e7),
    (1e5, 0.0, 0.0, 30.0, 600.0, 1.8e8),
]


@pytest.mark.parametrize("given", WALLS)
def test_sync_wall_has_the_slopes_of_its_equation(given: tuple[float, ...]) -> None:
    # b(n) = D n - A / n + T h = 0, T = A / n + C + D n, h = (R n + w(y) K) / K, y = d n / K,
    # w = y / u(y), w' = 1 / u - y (1 - u) / u^3: dn = -(db at n) / (db / dn)
    with mpmath.workdps(50):
        a, c, d, s, r, k = map(mpmath.mpf, given)

        def parts(n: Any) -> tuple[Any, Any, Any, Any]:
            y = s * n / k
            u = 1 + mpmath.lambertw(-mpmath.exp(-y - 1)).real
            slope = 1 / u - y * (1 - u) / u**3
            return a / n + c + d * n, r * n / k + y / u, y, slope

        def balance(log_n: Any) -> Any:
            n = mpmath.exp(log_n)
            step, h, _, _ = parts(n)
            return d * n - a / n + step * h

        n = mpmath.exp(mpmath.findroot(balance, np.log(float(scaling.sync_wall(*given)))))
        step, h, y, slope = parts(n)
        rise = d + a / n**2 + (d - a / n**2) * h + step * (r / k + slope * s / k)
        changes = {
            "parallel_time_gpus": (h - 1) / n, "fixed_time": h, "time_per_gpu": n * (1 + h),
            "stall_time": step * slope * n / k, "recovery_time": step * n / k,
            "gpu_time_per_failure": -step * (r * n / k**2 + slope * y / k),
        }  # fmt: skip
    for name, change in changes.items():
        made = derivatives.partial(scaling.sync_wall, name)
        assert isinstance(made, Partial)
        found = float(made(*map(np.float64, given)))
        assert found == pytest.approx(float(-change / rise), rel=1e-12), name


# Axes, engines, whole numbers

AXES: dict[str, Any] = {
    "gpu_mttf": ["5_000 h", "50_000 h", "inf h"], "checkpoint_policy": ["exact", "young"],
    "fabric": ["infiniband-ndr", "ethernet-100g"], "recovery_time": [60.0, 900.0],
}  # fmt: skip
SWEPT = {name: value for name, value in JOB.items() if name not in AXES}
WRT = ["gpu_mttf", "inter_node_bandwidth", "recovery_time", "prompt_tokens", "spare_nodes"]


def swept(axes: dict[str, Any], base: dict[str, Any]) -> Any:
    return Sweep(base, axes, ["job_time"]).derivatives("job_time", WRT, settings=Settings("numpy"))


def test_a_grid_holds_what_its_points_have() -> None:
    found = swept(AXES, SWEPT)
    assert found.dims == ("input", *AXES)
    assert found.sel(input="prompt_tokens").values.tolist() == np.zeros((3, 2, 2, 2)).tolist()
    assert found.kind.values.tolist() == ["derivative"] * 3 + ["difference"] * 2
    for index in np.ndindex(3, 2, 2, 2):
        at = {name: AXES[name][k] for (name, k) in zip(AXES, index, strict=True)}
        alone = swept({}, {**SWEPT, **at})
        assert alone.dims == ("input",)
        np.testing.assert_allclose(found.values[:, *index], alone.values, rtol=1e-12, atol=0)


@pytest.mark.parametrize("engine", ["numba", "jax"])
@pytest.mark.parametrize("of", ["goodput", pytest.param("job_time", marks=pytest.mark.slow)])
def test_gradients_agree_between_engines(of: str, engine: str) -> None:
    found, expected = (
        Sweep(SWEPT, AXES, [of]).derivatives(of, ["gpu_mttf", "spare_nodes"], settings=Settings(e))
        for e in (engine, "numpy")
    )
    np.testing.assert_allclose(found, expected, rtol={"numba": 0, "jax": 1e-12}[engine], atol=0)


def test_axes_that_no_derivative_depends_on_are_absent() -> None:
    sweep = Sweep(SWEPT, AXES, ["job_time"])
    assert sweep.derivatives("checkpoint_interval", "gpu_mttf").dims == (
        *("input", "gpu_mttf", "checkpoint_policy"),
    )
    assert sweep.derivatives("job_time", "prompt_tokens").dims == ("input",)


def test_an_elasticity_is_the_derivative_of_the_logarithm() -> None:
    sweep = Sweep(SWEPT, AXES, ["job_time"])
    found = sweep.derivatives("job_time", "recovery_time", "elasticity")[0]
    slope = sweep.derivatives("job_time", "recovery_time")[0]
    time = sweep.evaluate().job_time
    expected = slope * np.array(AXES["recovery_time"]) / time
    np.testing.assert_allclose(found, expected.transpose(*found.dims), rtol=1e-14)


BETWEEN = [  # input, other inputs, value, valid numbers on both sides: None where there is none
    ("n_gpus", {}, 256, 128, 512),  # 15 or 17 replicas do not divide 1,024 sequences
    ("n_gpus", {"global_batch_size": 720}, 256, 240, None),  # 15 divides 720; 17 and 32 do not
    ("n_gpus", {}, 16, None, 32),
    ("n_gpus", {"contract_nodes": 6000}, 16384, 8192, None),
    ("tensor_parallel", {}, 8, 4, 16),
    ("pipeline_parallel", {}, 1, None, 2),
    ("pipeline_parallel", {}, 2, 1, 4),
    ("micro_batch_size", {}, 2, 1, 4),
    ("spare_nodes", {}, 0, None, 1),
    ("spare_nodes", {}, 3, 2, 4),
    ("prompt_tokens", {}, 100, 99, 101),
]


@pytest.mark.parametrize(("name", "others", "here", "below", "above"), BETWEEN)
def test_whole_numbers_have_the_slope_between_their_neighbours(
    name: str, others: dict[str, Any], here: int, below: int | None, above: int | None
) -> None:
    of = "time_to_first_token" if name == "prompt_tokens" else "job_time"
    job = {**JOB, **others}
    job = {k: v for k, v in job.items() if k != name}
    low, high = (here if side is None else side for side in (below, above))
    ends = Sweep(job, {name: [low, high]}, [of, "arrangement_reason"]).evaluate()
    assert (ends.arrangement_reason == 0).all()
    values = np.broadcast_to(ends[of].values, 2)
    sweep = Sweep({**job, name: here}, {}, [of])
    slope = (values[1] - values[0]) / (high - low)
    assert float(sweep.derivatives(of, name)[0]) == pytest.approx(slope, rel=1e-12)
    ratio = np.log(values[1] / values[0]) / np.log(high / low) if low > 0 else None
    if ratio is not None:
        assert float(sweep.derivatives(of, name, "elasticity")[0]) == pytest.approx(
            ratio, rel=1e-9, abs=1e-12
        )
