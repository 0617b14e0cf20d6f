"""Derivatives of whole graphs: against 80 digits, by hand, at the edges, on axes and engines."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fleetcube
from fleetcube import Sweep
from fleetcube.kernels import checkpoint, derivatives, scaling
from fleetcube.kernels.inputs import INPUTS

from .differentiated import Point

INF = float("inf")
JOB: dict[str, Any] = {
    "n_gpus": 256,
    "model": "llama-3-70b",
    "node": "dgx-b200",
    "fabric": "infiniband-ndr",
    "tensor_parallel": 8,
    "pipeline_parallel": 2,
    "training_tokens": 1e12,
    "peak_flops_fp16": 1e15,
    "peak_flops_fp8": 2e15,
    "peak_flops_fp4": 4e15,
    "electricity_price": 2e-8,
    "grid_carbon_intensity": 1e-7,
    "gpu_hour_price": 2.0,
    "fixed_checkpoint_interval": 600,
    "checkpoint_policy": "exact",
}
OPTIONS = {name: row.choices for name, row in INPUTS.items() if row.kind == "option"}
OUTPUTS = [
    *("job_time", "goodput", "step_time", "memory_per_gpu", "job_cost", "sync_wall_gpus"),
    *("checkpoint_interval", "failure_probability", "availability", "energy_cost"),
]


# Drawn scenarios


@pytest.mark.parametrize("turn", range(max(map(len, OPTIONS.values()))))
def test_every_quantity_under_every_option(turn: int) -> None:
    chosen = {name: choices[turn % len(choices)] for name, choices in OPTIONS.items()}
    if chosen["mfu_scope"] == "node":
        chosen["scaling_efficiency"] = 0.7
    model = "mixtral-8x7b" if chosen["mixture_of_experts"] else "llama-3-70b"
    wrong, right = Point({**JOB, **chosen, **ORDINARY, "model": model}).wrong()
    assert wrong == []
    assert right > 5000


ORDINARY = {
    "step_time_jitter": 0.05,
    "serial_time_per_step": 0.02,
    "data_parallel_overlap": 0.4,
    "tensor_parallel_overlap": 0.02,
    "spare_nodes": 2,
    "corruption_probability": 0.02,
    "failure_shape": 0.8,
    "coherency": 1e-8,
    "serial_fraction": 1e-4,
    "sqrt_coefficient": 1e-9,
    "bucket_bytes": 2.5e7,
    "per_node_storage_bandwidth": 1e10,
    "software_mttf": 1e9,
}


def drawn(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))


SCENARIOS = st.fixed_dictionaries(
    {
        **{name: st.sampled_from(choices) for name, choices in OPTIONS.items()},
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


@given(SCENARIOS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_gradients_are_the_slopes_in_80_digits(scenario: dict[str, Any]) -> None:
    wrong, right = Point({**JOB, **scenario}, OUTPUTS).wrong()
    assert wrong == []
    assert right > 100


def test_gradients_are_the_differences_of_evaluate() -> None:
    # the whole way through the door, at steps of 0.1 %, of fourth order
    names = ["gpu_mttf", "inter_node_bandwidth", "checkpoint_write_bandwidth", "provision_time"]
    outputs = ["job_time", "goodput", "sync_wall_gpus", "checkpoint_interval"]
    found = Sweep(JOB, {}, outputs).jacobian(outputs, names)
    values = Sweep(JOB, {}, names_given(outputs)).evaluate()
    for name in names:
        here = Point(JOB, outputs).leaves[name]
        steps = here * (1 + 1e-3 * np.array([-2, -1, 1, 2]))
        at = fleetcube.evaluate(outputs, **{**JOB, name: steps})
        for of in outputs:
            weights = np.array([1, -8, 8, -1]) / (12e-3 * here)
            slope = float(np.dot(weights, at[of].values))
            rounding = 1e-11 * abs(float(values[of])) / here
            assert abs(float(found.sel(output=of, input=name)) - slope) <= (
                1e-6 * abs(slope) + rounding
            )


def names_given(outputs: list[str]) -> list[str]:
    return outputs


# Edges

NEVER = {name: INF for name in INPUTS if name.endswith("_mttf")}
OVERLAPS = [name for name in INPUTS if name.endswith("_overlap")]
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
    "serial": {"serial_fraction": 1, "coherency": 0},
    "no jitter": {"step_time_jitter": 0},
    "no jitter, gumbel": {"step_time_jitter": 0, "jitter_model": "gumbel"},
    "jitter of one": {"step_time_jitter": 0.1, "n_gpus": 16},
    "no spares": {"spare_nodes": 0, "repair_time": 0, "elastic": "shrink"},
    "no repair": {"spare_nodes": 1, "repair_time": 0},
    "no corruption": {"corruption_probability": 0},
    "all corrupt": {"corruption_probability": 0.999, "maintenance_fraction": 0.999},
    "correlated": {"correlated_failure_fraction": 1, "failure_domain_nodes": 1},
    "no root": {"all_reduce": "fitted", "sqrt_coefficient": 0},
    "no losses": {"compute_model": "roofline", "gemm_half_size": 0},
    "every expert": {"model": "mixtral-8x7b", "experts_per_token": 8},
    "no prompt": {"prompt_tokens": 0},
    "no optimizer": {"optimizer_bytes_per_parameter": 0, "offload": "nvme"},
    "rates of 1": {name: 1 for name in INPUTS if name.endswith("_efficiency")},
}


@pytest.mark.parametrize("edge", EDGES)
def test_derivatives_at_edges_are_finite_and_a_side(edge: str) -> None:
    wrong, right = Point({**JOB, **EDGES[edge]}).wrong()
    assert wrong == []
    assert right > 5000


def test_what_is_not_sent_is_not_hidden() -> None:
    # max(0, 0 - 0 x) is a kink along the overlap: one stage of context has nothing to hide
    found = Sweep(JOB, {}, ["job_time"]).gradient("job_time", "context_parallel_overlap")
    assert float(found[0]) == 0


def test_an_optimum_at_no_cost_has_no_slope() -> None:
    # sqrt(2 d M) rises without bound at d = 0: told as 0, whichever interval
    free = {**JOB, "checkpoint_stall_time": 0.0}
    names = ["young_interval", "daly_interval", "exact_interval"]
    found = Sweep(free, {}, names).jacobian(names, "checkpoint_stall_time")
    assert found.values.ravel().tolist() == [0, 0, 0]


def test_a_failure_that_is_certain_stays_certain() -> None:
    # exp(-T / M) is 0, and T / M^2 beyond floating point
    with np.errstate(all="ignore"):
        for name in ("duration", "mtbf"):
            made = derivatives.partial(scaling_free_probability, name)
            assert float(made(*[np.float64(1e200), np.float64(1e-160)])) == 0


def scaling_free_probability(duration: Any, mtbf: Any) -> Any:
    return -np.expm1(-duration / mtbf)
