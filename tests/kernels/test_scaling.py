"""Ceilings and the sync wall: their limits, and the wall by brute force."""

import math
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube.kernels.engines import jax as jax_engine
from fleetcube.kernels.laws.collectives import ring_all_reduce_time
from fleetcube.kernels.laws.roofline import iron_law_time, network_roofline_flops, roofline_flops
from fleetcube.kernels.laws.scaling import sync_wall

# Ceilings


NETWORK: dict[str, Any] = {
    "arithmetic_intensity": 4096.0, "peak_flops": 989e12, "hbm_bandwidth": 3.35e12,
    "kernel_flops_per_step": 6 * 7e9 * 4e6, "gradient_message": 14e9,
}  # fmt: skip


def test_network_is_the_lowest_ceiling_where_it_binds() -> None:
    # Attained operations take at least the time of the exchange, and no longer.
    work = NETWORK["kernel_flops_per_step"] / 256
    exchange = 2 * 255 / 256 * 14e9 / 5e9
    given = {"n_gpus": 256, "data_parallel": 256, "data_parallel_bandwidth": 5e9, **NETWORK}
    got = fleetcube.evaluate("network_attainable_flops", **given)
    assert work / float(got) == pytest.approx(exchange, rel=1e-13)
    assert exchange > work / 989e12


@pytest.mark.parametrize(
    "free",
    [
        {"n_gpus": 1, "data_parallel": 1, "data_parallel_bandwidth": 1.0},
        {"data_parallel_bandwidth": 1e30},
    ],
)
def test_a_free_network_leaves_the_roofline(free: dict[str, float]) -> None:
    got = fleetcube.evaluate(
        "network_attainable_flops", **{"n_gpus": 256, "data_parallel": 256, **NETWORK, **free}
    )
    assert float(got) == 989e12
    assert network_roofline_flops(1.0, 989e12, 3.35e12, math.inf, 1.0) == roofline_flops(
        1.0, 989e12, 3.35e12
    )


def test_iron_law_is_compute_and_a_ring() -> None:
    scenario: dict[str, Any] = {
        "n_gpus": 64, "gradient_message": 16e9, "data_parallel_latency": 5e-6,
        "data_parallel_bandwidth": 50e9, "peak_flops": 989e12, "flops_efficiency": 0.4,
        "kernel_flops_per_step": 1e19,
    }  # fmt: skip
    ring = ring_all_reduce_time(16e9, 64, 5e-6, 50e9)
    got = fleetcube.evaluate("iron_law_time", data_parallel=64, **scenario)
    assert float(got) == pytest.approx(1e19 / 64 / (0.4 * 989e12) + ring, rel=1e-13)


def test_iron_law_without_work_or_data() -> None:
    assert iron_law_time(0.0, 1.0, 0.0, 1.0, 1.0, 3e-6) == 3e-6
    assert iron_law_time(1e9, math.inf, 1e12, math.inf, 0.5, 0.0) == 0.0


# Throughput of the fleet


STEP: dict[str, Any] = {
    "calibration": "none", "gpu": "h100-sxm", "model": "llama-3-70b", "fabric": "infiniband-ndr",
    "n_gpus": 512, "tensor_parallel": 8,
}  # fmt: skip


def test_utilisation_of_whole_steps_holds_the_scaling_loss() -> None:
    # Model operations of the run over its wall time, including all losses.
    got = fleetcube.evaluate(
        ["effective_flops", "model_flops_per_step", "training_steps", "job_time"], **STEP
    )
    operations = got.model_flops_per_step * got.training_steps
    assert float(got.effective_flops) == pytest.approx(float(operations / got.job_time), rel=1e-12)


def test_without_losses_the_run_takes_the_ideal_time() -> None:
    free = {"intra_node_bandwidth": 1e30, "intra_node_latency": 0, "inter_node_latency": 0}
    got = fleetcube.evaluate(
        ["utilization_efficiency", "ideal_job_time", "job_time"],
        **{**STEP, "inter_node_bandwidth": 1e30, "cluster_mtbf": math.inf, **free},
    )
    assert float(got.utilization_efficiency) == pytest.approx(1, rel=1e-12)
    assert float(got.ideal_job_time) == pytest.approx(float(got.job_time), rel=1e-12)


# The sync wall


def test_nothing_ends_the_gain() -> None:
    assert float(sync_wall(1e4, 1.0, 0.0, 0.0, 0.0, 1e8)) == math.inf
    assert float(sync_wall(1e4, 1.0, 0.0, 30.0, 600.0, math.inf)) == math.inf


def test_every_gpu_costs_time() -> None:
    assert float(sync_wall(0.0, 1.0, 1e-3, 30.0, 600.0, 1e8)) == 1
    assert float(sync_wall(-5.0, 10.0, 0.0, 0.0, 0.0, math.inf)) == 1
    assert math.isnan(float(sync_wall(math.nan, 1.0, 1e-3, 30.0, 600.0, 1e8)))


WALLS = [
    (1e4, 1.0, 1e-4, 30.0, 600.0, 1.8e8),
    (3e6, 0.0, 1e-9, 10.0, 1500.0, 1.8e8),
    (5e3, 20.0, 1e-6, 120.0, 300.0, 1e7),
    (1e5, 0.02, 1e-5, 0.0, 900.0, 1e9),
    (1e5, 0.02, 1e-5, 300.0, 0.0, 1e6),
]


@pytest.mark.slow
def test_wall_has_derivatives() -> None:
    # n = sqrt(A / D): dn/dA = n / 2A, dn/dD = -n / 2D, dn/dC = 0.
    import jax

    law = jax_engine.binding().bind(sync_wall)
    with jax.enable_x64(True):
        slopes = jax.grad(law, (0, 1, 2))(1e4, 1.0, 1e-4, 0.0, 0.0, math.inf)
        both = jax.grad(law, (0, 1, 2, 3, 4, 5))(*WALLS[0])
    np.testing.assert_allclose(slopes, [0.5, 0.0, -5e7], rtol=1e-9, atol=1e-9)
    for k, slope in enumerate(both):
        step = [value * (1 + 1e-5 * (i == k)) for i, value in enumerate(WALLS[0])]
        back = [value * (1 - 1e-5 * (i == k)) for i, value in enumerate(WALLS[0])]
        secant = (sync_wall(*step) - sync_wall(*back)) / (step[k] - back[k])
        assert float(slope) == pytest.approx(float(secant), rel=1e-6)


BASE: dict[str, Any] = {
    "gpu": "h100-sxm", "parameters": 8e9, "layers": 32, "hidden_size": 4096, "gpus_per_node": 8,
    "tensor_parallel": 8, "inter_node_bandwidth": "50 GB/s", "inter_node_latency": "5 us",
    "all_reduce": "ring", "global_batch_size": 2048, "training_tokens": 1e12,
    "data_parallel_overlap": 0, "tensor_parallel_overlap": 0, "step_time_jitter": 0,
}  # fmt: skip
SWEEPS: dict[str, dict[str, Any]] = {
    "latency and failures": {},
    "no failures": {"cluster_mtbf": "inf h"},
    "frail": {"gpu_mttf": "300 h", "inter_node_latency": 0},
    "pipeline and context": {"pipeline_parallel": 4, "context_parallel": 2, "gpu_mttf": "5_000 h"},
    "slow links": {
        "inter_node_bandwidth": "1 GB/s",
        "inter_node_latency": "50 ms",
        "gpu_mttf": "100 h",
    },
    "stragglers": {"straggler_slowdown": 0.2, "recompute": "full", "virtual_stages": 2},
}


@pytest.mark.parametrize("name", SWEEPS)
def test_wall_is_the_least_job_time_of_a_sweep(name: str) -> None:
    scenario = {**BASE, **SWEEPS[name]}
    sizes = np.geomspace(32, 4e6, 40_001)
    times = fleetcube.evaluate("job_time", **scenario, n_gpus=sizes)
    best = float(sizes[np.nanargmin(times.values)])
    assert sizes[0] < best < sizes[-1]
    for n_gpus in (256, 4096):  # the wall does not depend on the current size
        wall = fleetcube.evaluate("sync_wall_gpus", **scenario, n_gpus=n_gpus)
        assert float(wall) == pytest.approx(best, rel=1e-3)


def test_jitter_moves_the_wall_little_and_it_is_said() -> None:
    jitter = {**BASE, "step_time_jitter": 0.027}
    sizes = np.geomspace(32, 4e6, 40_001)
    times = fleetcube.evaluate("job_time", **jitter, n_gpus=sizes)
    best = float(sizes[np.nanargmin(times.values)])
    wall, still = (
        fleetcube.evaluate(["sync_wall_gpus"], **scenario, n_gpus=4096)
        for scenario in (jitter, BASE)
    )
    assert float(wall.sync_wall_gpus) == pytest.approx(best, rel=0.02)
    assert "step_time_jitter: sync_wall_gpus" in wall.attrs["fleetcube_remarks"]
    assert "step_time_jitter" not in still.attrs.get("fleetcube_remarks", "")


def test_wall_with_fewer_microbatches_than_stages() -> None:
    # Interleaved, 4,096 / n micro-batches on 8 stages: a step hardly shrinks beyond n = 512, and
    # the wall is found from any size there.
    scenario = {
        **BASE, "pipeline_parallel": 8, "virtual_stages": 4, "pipeline_scheduler": "pytorch",
        "global_batch_size": 64, "gpu_mttf": "5_000 h", "inter_node_latency": "200 us",
    }  # fmt: skip
    sizes = np.geomspace(520, 4096, 10_001)
    times = fleetcube.evaluate("job_time", **scenario, n_gpus=sizes)
    best = float(sizes[np.nanargmin(times.values)])
    assert 1.5 * sizes[0] < best < sizes[-1] / 2
    walls = fleetcube.evaluate("sync_wall_gpus", **scenario, n_gpus=[1024, 4096])
    assert walls.values == pytest.approx(best, rel=1e-3)


def test_at_least_one_replica() -> None:
    # Extremely unreliable GPUs: even the smallest cluster is too large.
    scenario = {**BASE, "gpu_mttf": "0.001 h", "tensor_parallel": 64, "n_gpus": 128}
    assert float(fleetcube.evaluate("sync_wall_gpus", **scenario)) == 64
