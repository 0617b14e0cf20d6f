"""Costs of a failure besides rework, by mode of its checkpoints, and at their limits."""

import math
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube.kernels.laws.checkpoint import rollback_time

from ..evaluated import computed

RECOVERY = ["recovery_time", "rollback_time", "unsafe_time", "restart_time"]

# 1 TB of state on 1,024 GPUs, one rail of 50 GB/s each, storage of 200 GB/s
JOB: dict[str, Any] = {
    "n_gpus": 1024, "checkpoint_size": 1.024e12, "checkpoint_write_bandwidth": 200e9,
    "checkpoint_read_bandwidth": 400e9, "inter_node_bandwidth": 50e9, "cluster_mtbf": "24 h",
}  # fmt: skip


def values(names: list[str], **given: Any) -> list[float]:
    return computed({**JOB, **given}, *names)


# Modes. A GPU's part is 1 GB: 0.04 s to its host at 25 GB/s, 0.02 s to a peer at 50 GB/s; all parts
# are written in 5.12 s and read in 2.56 s.


@pytest.mark.parametrize(
    ("mode", "stall", "flush", "shortest", "restore"),
    [
        ("sync", 5.12, 5.12, 0.0, 2.56),
        ("async", 0.04, 5.12, 5.12, 2.56),
        ("in_memory", 0.04, 0.02, 0.02, 0.02),
    ],
)
def test_times_of_each_mode(
    mode: str, stall: float, flush: float, shortest: float, restore: float
) -> None:
    got = values(
        [
            "checkpoint_stall_time",
            "checkpoint_flush_time",
            "minimum_checkpoint_interval",
            "checkpoint_restore_time",
        ],
        checkpoint_mode=mode,
    )
    assert got == pytest.approx([stall, flush, shortest, restore], rel=1e-14)


def test_a_flush_behind_training_does_not_stall_it() -> None:
    # An estimator charges max(copy, flush) = 5.12 s: 1.09 % of a day at its interval of 940 s.
    # Training waits only 0.04 s for the copy: the interval shrinks to 83 s and the loss to 0.1 %;
    # the flush costs 5.12 s of unsafe work per failure.
    names = ["checkpoint_interval", "checkpoint_overhead", "rework_overhead", "recovery_overhead"]
    charged = values(names, checkpoint_stall_time=5.12, recovery_time=0)
    interval, *waits = values(names, checkpoint_mode="async", recovery_time=0)
    assert charged[0] == pytest.approx(math.sqrt(2 * 5.12 * 86400), rel=0.005)
    assert sum(charged[1:]) == pytest.approx(0.0109, abs=1e-4)
    assert interval == pytest.approx(math.sqrt(2 * 0.04 * 86400), rel=0.005)
    assert sum(waits) == pytest.approx(math.sqrt(2 * 0.04 / 86400) + 5.12 / 86400, rel=0.005)


@pytest.mark.parametrize("policy", ["young", "daly", "exact"])
@pytest.mark.parametrize("mode", ["async", "in_memory"])
def test_the_flush_bounds_the_interval_from_below(mode: str, policy: str) -> None:
    # sqrt(2 d M) = 83 s for d = 0.04 s; flushes of 30 s fit, of 100 s do not.
    given = {"checkpoint_mode": mode, "checkpoint_policy": policy}
    fits, late = (
        values(["checkpoint_interval"], checkpoint_flush_time=flush, **given)[0]
        for flush in (30, 100)
    )
    assert fits == pytest.approx(83.1, abs=0.1)
    assert late == 100


def test_a_fixed_interval_stays_as_given() -> None:
    got = values(
        ["checkpoint_interval"],
        checkpoint_mode="async",
        checkpoint_policy="fixed",
        fixed_checkpoint_interval=1,
    )
    assert got == [1]


def test_rails_share_an_oversubscribed_fabric() -> None:
    assert values(["checkpoint_restore_time"], checkpoint_mode="in_memory", oversubscription=4) == [
        pytest.approx(0.08, rel=1e-14)
    ]


# Storage


def test_storage_grows_with_the_nodes_up_to_the_system() -> None:
    # 2 GB/s a node: 16, 128 and 1,024 nodes; the system writes 200 GB/s and reads 400 GB/s.
    got = fleetcube.evaluate(
        ["checkpoint_write_time", "checkpoint_restore_time"],
        **{**JOB, "n_gpus": [128, 1024, 8192]},
        per_node_storage_bandwidth=2e9,
    )
    np.testing.assert_allclose(got.checkpoint_write_time, [32, 5.12, 5.12], rtol=1e-14)
    np.testing.assert_allclose(got.checkpoint_restore_time, [32, 4, 2.56], rtol=1e-14)


def test_storage_of_the_system_alone_does_not_depend_on_the_nodes() -> None:
    sizes = {**JOB, "n_gpus": [128, 1024]}
    assert fleetcube.evaluate("checkpoint_write_time", **sizes).dims == ()
    boundless = fleetcube.evaluate(
        "checkpoint_write_time", **sizes, per_node_storage_bandwidth=math.inf
    )
    assert list(boundless) == [5.12, 5.12]


# Recovery


def test_phases_of_a_recovery_add_up() -> None:
    # An estimator's example: 10 + 10 + 600 + 20 s, and a restore, of 1,000 GB at 100 GB/s.
    given = {"detection_time": 10, "drain_time": 10, "provision_time": 600, "reinit_time": 20}
    given |= {"checkpoint_size": 1e12, "checkpoint_read_bandwidth": 100e9}
    got = values(RECOVERY, **given)
    assert got == [650, 0, 0, 650]


def test_a_spare_shortens_the_wait_by_its_chance() -> None:
    waits = [
        values(["effective_provision_time"], provision_time=600, **given)[0]
        for given in (
            {},
            {"spare_availability": 0.25},
            {"spare_nodes": 0},
            {"spare_nodes": 50},
            {"elastic": "shrink"},
            {"elastic": "shrink", "spare_nodes": 2},
        )
    ]
    assert waits == pytest.approx([600, 450, 600, 0, 0, 0], abs=1e-9)


def test_defaults_add_nothing_and_no_dimension() -> None:
    scenario = {**JOB, "cluster_mtbf": [3600.0, 86400.0], "checkpoint_size": [1e12, 2e12]}
    got = fleetcube.evaluate(RECOVERY, **scenario)
    assert got.rollback_time.dims == got.unsafe_time.dims == ()
    assert got.recovery_time.dims == got.restart_time.dims == ("checkpoint_size",)
    assert got.restart_time.equals(got.recovery_time.rename("restart_time"))


# Corrupt checkpoints


@pytest.mark.parametrize("q", [0.0, 0.05, 0.5, 0.9])
def test_rare_failures_roll_back_a_geometric_number_of_segments(q: float) -> None:
    segments = math.fsum(j * (1 - q) * q**j for j in range(2000))
    given = {"corruption_probability": q, "checkpoint_policy": "fixed"}
    given |= {"fixed_checkpoint_interval": 540, "checkpoint_stall_time": 60, "recovery_time": 300}
    given |= {"cluster_mtbf": 1e15}
    got = values(RECOVERY, **given)
    assert got == pytest.approx([300, 600 * segments, 0, 300 + 600 * segments], rel=1e-11)


def test_without_failures_corruption_costs_nothing() -> None:
    got = values(
        ["goodput", "rollback_time"],
        corruption_probability=0.5,
        cluster_mtbf=math.inf,
        checkpoint_stall_time=60,
    )
    assert got == [1, 0]
    assert rollback_time(math.inf, 60.0, math.inf, 0.5) == 0
    assert math.isnan(rollback_time(math.nan, 60.0, math.inf, 0.5))


def test_losses_add_up_with_everything_switched_on() -> None:
    shares = ["goodput", "checkpoint_overhead", "rework_overhead", "recovery_overhead"]
    given = {"checkpoint_mode": "async", "corruption_probability": 0.1, "spare_nodes": 1}
    given |= {"per_node_storage_bandwidth": 1e9, "repair_time": "48 h", "cluster_mtbf": "2 h"}
    got = values(shares, **given)
    assert sum(got) == pytest.approx(1, rel=1e-14)
    assert min(got) > 0
