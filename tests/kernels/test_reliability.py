"""Failures, spares and elastic jobs at their limits; `tests/laws/failures` simulates them."""

import math
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import Sweep
from fleetcube.grid.plan.labels import remarks
from fleetcube.kernels.engines import jax as jax_engine
from fleetcube.kernels.laws.reliability import mean_time, weibull_failure_probability

from ..evaluated import value

HOUR = 3600.0
DAY = 24 * HOUR


def test_empirical_mtbf_falls_with_a_power_of_the_size() -> None:
    given = {"mtbf_model": "empirical", "n_gpus": [256, 4096], "reference_mtbf": "10 h"}
    given |= {"reference_gpus": 1024, "mtbf_exponent": [0.5, 1.0, 2.0]}
    got = fleetcube.evaluate("cluster_mtbf", **given)
    expected = [[20, 40, 160], [5, 2.5, 0.625]]
    np.testing.assert_allclose(got / HOUR, expected, rtol=1e-14)


def test_failures_in_groups_interrupt_less_often() -> None:
    # Counted: of 1,000 lost nodes 600 are lost four at a time; 400 + 150 interruptions.
    given = {"n_gpus": [8, 32], "node_mttf": "4 d", "job_duration": "1_000 d"}
    given |= {"correlated_failure_fraction": 0.6, "failure_domain_nodes": 4}
    got = fleetcube.evaluate(["cluster_mtbf", "failed_nodes"], **given)
    assert got.failed_nodes.values == pytest.approx([250, 1000], rel=1e-12)
    # a job of one node is interrupted by each of its losses
    assert 1000 * DAY / got.cluster_mtbf.values == pytest.approx([250, 550], rel=1e-12)


def test_empirical_failures_need_no_parts() -> None:
    got = fleetcube.evaluate(
        ["expected_failures", "failed_nodes"],
        mtbf_model="empirical",
        n_gpus=2048,
        job_duration="79 h",
    )
    assert float(got.expected_failures) == pytest.approx(20, rel=1e-12)
    assert float(got.failed_nodes) == pytest.approx(20, rel=1e-12)


def test_nothing_that_fails_never_stops() -> None:
    never = dict.fromkeys(("gpu_mttf", "nic_mttf", "psu_mttf"), math.inf)
    given = {"n_gpus": 8192, "series_psus_per_node": 2, "job_duration": "30 d", **never}
    got = fleetcube.evaluate(
        ["node_mttf", "cluster_mtbf", "expected_failures", "failed_nodes", "failure_probability"],
        **given,
    )
    assert got.node_mttf == got.cluster_mtbf == math.inf
    assert got.expected_failures == got.failed_nodes == got.failure_probability == 0


def test_gradient_where_nothing_fails_is_a_number() -> None:
    import jax

    law = jax_engine.binding().bind(mean_time)
    with jax.enable_x64(True):
        assert jax.grad(lambda mttf: law(8 / mttf))(math.inf) == 0
        assert jax.grad(law)(0.25) == -16


def test_switches_do_not_fail_in_groups_of_nodes() -> None:
    given = {"n_gpus": 64, "node_mttf": math.inf, "correlated_failure_fraction": 1.0}
    mtbf = value("cluster_mtbf", switch_mttf="100 h", **given)
    assert mtbf == pytest.approx(50 * HOUR, rel=1e-14)  # two switches of 32 GPUs


# Weibull


def test_weibull_limits() -> None:
    times = np.array([0.0, 1e300, math.inf, math.nan])
    got = weibull_failure_probability(times, 1.0, 2.0)
    assert list(got[:3]) == [0, 1, 1]
    assert math.isnan(got[3])
    assert weibull_failure_probability(1.0, math.inf, 0.5) == 0


# Spares


def test_spares_are_counted_once_given() -> None:
    scenario = {"n_gpus": 2048, "node_mttf": "1_000 h", "repair_time": "12 h"}
    assert value("spare_availability", **scenario) == 0
    assert value("missing_nodes", **scenario) == pytest.approx(3.072, rel=1e-12)
    assert value("spare_availability", spare_nodes=0, **scenario) == 0
    assert value("missing_nodes", spare_nodes=0, **scenario) == pytest.approx(3.072, rel=1e-12)
    assert value("spare_availability", spare_nodes=100, **scenario) == pytest.approx(1, abs=1e-12)
    assert value("missing_nodes", spare_nodes=100, **scenario) == pytest.approx(0, abs=1e-12)


def test_repair_in_no_time_always_leaves_a_spare() -> None:
    assert value("spare_availability", n_gpus=8192, spare_nodes=1, repair_time=0) == 1


# Elastic jobs

SHRINKING: dict[str, Any] = {
    "n_gpus": 2048, "node_mttf": "1_000 h", "repair_time": "12 h", "elastic": "shrink",
}  # fmt: skip


def test_a_rigid_job_runs_whole_or_not_at_all() -> None:
    got = fleetcube.evaluate("elastic_capacity", n_gpus=[64, 2048])
    assert got.dims == ()
    assert got == 1


@pytest.mark.parametrize("growth", ["free", "stop", "next_failure", "restart"])
def test_where_nothing_fails_an_elastic_job_is_whole(growth: str) -> None:
    """Checkpoints are then infinitely far apart, and no return begins one's work again."""
    given = {**SHRINKING, "node_mttf": math.inf, "elastic_growth": growth, "parameters": 7e10}
    given |= {"checkpoint_write_bandwidth": 1e11, "inter_node_bandwidth": 5e10}
    assert value("elastic_capacity", **given) == 1


def test_spares_keep_a_shrinking_job_whole() -> None:
    assert value("elastic_capacity", spare_nodes=30, **SHRINKING) == pytest.approx(1, abs=1e-9)


def test_availability_is_what_maintenance_and_repairs_leave() -> None:
    assert value("availability", n_gpus=64) == 1
    assert value("availability", n_gpus=64, maintenance_fraction=0.05) == pytest.approx(0.95)
    given = {"maintenance_fraction": 0.5, "tensor_parallel": 2, "num_microbatches": 1e9}
    got = value("availability", **given, **SHRINKING)
    assert got == pytest.approx(0.5 / 1.012, rel=1e-8)


def test_peers_that_fail_together_are_remarked_where_they_hold_the_only_copies() -> None:
    given: dict[str, Any] = {
        "n_gpus": 64,
        "checkpoint_size": 1e12,
        "inter_node_bandwidth": 5e10,
        "correlated_failure_fraction": 0.1,
    }
    for mode, said in (("in_memory", 2), ("async", 0), ("tiered", 0)):
        plan = Sweep({**given, "checkpoint_mode": mode}, {}, ["goodput"])._plan("numpy")
        assert len(remarks(plan)) == said


def test_a_rate_of_gpus_alone_names_what_else_fails() -> None:
    def said(**given: Any) -> str:
        return " ".join(
            remarks(Sweep({"n_gpus": 2000, **given}, {}, ["cluster_mtbf"])._plan("numpy"))
        )

    assert "nic_mttf = 150,000 h" in said(gpu_mttf="108_000 h")
    assert "psu_mttf" in said(gpu_mttf="108_000 h", series_psus_per_node=2)
    for whole in (
        {"interruption_mttf": "108_000 h"},
        {"gpu_mttf": "108_000 h", "nic_mttf": math.inf},
        {"reliability": "rsc-1"},
        {"node_mttf": 1e6},
        {},
    ):
        assert said(**whole) == ""
