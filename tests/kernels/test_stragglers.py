"""Slow nodes in whole scenarios: corners, sums, refusals and published fleets."""

import math
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube import Sweep

from ..evaluated import value

JOB: dict[str, Any] = {
    "model": "llama-3-70b", "gpu": "h100-sxm", "fabric": "infiniband-ndr", "tensor_parallel": 8,
    "n_gpus": 1024, "step_time_jitter": 0.01, "slow_node_slowdown": 0.1,
}  # fmt: skip
SLOW: dict[str, dict[str, Any]] = {
    "share": {"slow_node_share": 0.005},
    "detected": {"slow_node_mttf": "5000 h", "slow_node_detection_time": "12 h"},
    "checked": {
        "slow_node_mttf": "5000 h",
        "slow_node_check_interval": "12 h",
        "slow_node_check_time": "1 min",
    },
}


@pytest.mark.parametrize("tail", ["fixed", "exponential"])
@pytest.mark.parametrize("slow_nodes", SLOW)
def test_overheads_add_up_to_one_with_slow_nodes(slow_nodes: str, tail: str) -> None:
    parts = ["compute_inefficiency", "communication", "bubble", "straggler", "reliability"]
    names = [*(f"{part}_overhead" for part in parts), "useful_compute_share"]
    given = {**JOB, **SLOW[slow_nodes], "slow_nodes": slow_nodes, "slow_node_tail": tail}
    given["slow_node_swap_time"] = "10 min"
    got = Sweep({**given, "calibration": "none"}, {}, names).evaluate()
    assert math.fsum(float(got[name]) for name in names) == pytest.approx(1, rel=1e-12)
    without = Sweep({**JOB, "calibration": "none"}, {}, names).evaluate()
    assert got.straggler_overhead > without.straggler_overhead


def wait(**given: Any) -> float:
    given = {"compute_time": 1.0, "slow_node_slowdown": 0.1, "n_gpus": 64, **given}
    return value("straggler_time", **given)


@pytest.mark.parametrize("tail", ["fixed", "exponential"])
@pytest.mark.parametrize("jitter", [{}, {"step_time_jitter": 0.01}])
def test_without_slow_nodes_jitter_alone_is_waited_for(tail: str, jitter: dict[str, float]) -> None:
    alone = value("straggler_time", compute_time=1.0, n_gpus=64, **jitter)
    assert wait(slow_node_share=0.0, slow_node_tail=tail, **jitter) == alone
    equal = wait(slow_node_share=0.5, slow_node_slowdown=0.0, slow_node_tail=tail, **jitter)
    assert equal == pytest.approx(alone, abs=1e-14)
    never = {"slow_nodes": "detected", "slow_node_mttf": np.inf, "slow_node_detection_time": np.inf}
    assert wait(**never, slow_node_tail=tail, **jitter) == alone


def test_all_slow_shift_the_whole_job() -> None:
    jitter = {"step_time_jitter": 0.01}
    alone = value("straggler_time", compute_time=1.0, n_gpus=64, **jitter)
    assert wait(slow_node_share=1.0) == pytest.approx(0.1, rel=1e-12)
    assert wait(slow_node_share=1.0, **jitter) == pytest.approx(alone + 0.1, rel=1e-12)
    never_found = {"slow_nodes": "detected", "slow_node_detection_time": np.inf}
    assert wait(**never_found, slow_node_mttf=1e8) == pytest.approx(0.1, rel=1e-12)
    unchecked = {"slow_nodes": "checked", "slow_node_check_interval": np.inf}
    assert wait(**unchecked, slow_node_mttf=1e8) == pytest.approx(0.1, rel=1e-12)
    all_exponential = wait(slow_node_share=1.0, slow_node_tail="exponential")
    assert all_exponential == pytest.approx(0.1 * sum(1 / j for j in range(1, 9)), rel=1e-9)


def test_one_node_is_slow_as_often_as_it_is() -> None:
    for tail in ("fixed", "exponential"):
        assert wait(n_gpus=8, slow_node_share=0.3, slow_node_tail=tail) == pytest.approx(0.03)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"slow_node_share": 1.5}, "slow_node_share = 1.5 must be at most 1"),
        ({"slow_node_share": -0.1}, "slow_node_share = -0.1"),
        ({"slow_nodes": "detected", "slow_node_mttf": 1e8}, "slow_node_detection_time is missing"),
        ({"slow_nodes": "checked", "slow_node_mttf": 0.0}, "slow_node_mttf = 0"),
    ],
)
def test_shares_and_times_that_cannot_be_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(fleetcube.InputError, match=says) as refused:
        wait(**given)
    assert "\n" not in str(refused.value)


def test_detection_buys_what_it_shortens() -> None:
    # Found ten times sooner, a tenth of the nodes is slow, and swaps stop the job as often.
    job = {"slow_nodes": "detected", "slow_node_mttf": 1e9, "slow_node_swap_time": 600.0}
    late, soon = (
        [
            value(name, n_gpus=64, slow_node_detection_time=time, **job)
            for name in ("slow_node_fraction", "slow_node_stops")
        ]
        for time in (1e5, 1e4)
    )
    assert late[0] / soon[0] == pytest.approx(10, rel=1e-3)
    assert late[1] == pytest.approx(soon[1], rel=1e-3) == pytest.approx(8 * 600 / 1e9, rel=1e-3)


def test_nothing_slow_is_never_checked_for() -> None:
    given = {"n_gpus": 64, "slow_node_check_time": [0.0, 60.0]}
    for slowdown, mttf in ((0.0, 1e8), (0.1, np.inf)):
        more = {"slow_node_slowdown": slowdown, "slow_node_mttf": mttf}
        best = fleetcube.evaluate("best_slow_node_check_interval", **given, **more)
        np.testing.assert_array_equal(best, np.inf)


def test_megascale_and_bytedance_fleets() -> None:
    # Jiang et al. 2024, sections 5.1 and 6.3: 0.5 % of the machines, 10 % slower. Of jobs on 12,288
    # GPUs less than one in 2,000 has none; on 256 GPUs six of seven: peak MFUs that differ by run.
    hosts = {"slow_node_share": 0.005, "gpus_per_node": 8}
    sizes = fleetcube.evaluate("no_slow_node_probability", n_gpus=[128, 256, 12288], **hosts)
    np.testing.assert_allclose(sizes, [0.9229, 0.8518, 0.000453], rtol=1e-3)
    # Almost sure to wait 10 %, such a job gains 5 of its 55.2 points of MFU by their removal; they
    # report 0.7: seven times less, as jobs of 27 nodes gain here.
    large, small = (wait(n_gpus=8 * nodes, **hosts) for nodes in (1536, 27))
    assert 0.552 * (1 - 1 / (1 + large)) == pytest.approx(0.050, rel=0.01)
    assert 0.552 * (1 - 1 / (1 + small)) == pytest.approx(0.007, rel=0.02)
    # Lin et al. 2025, section 5.1: after health checks, workers explain 1.7 % of the 42.5 % of jobs
    # (of 128 GPUs and more) that straggle. That is at most a tenth of MegaScale's share of hosts.
    explained = {"slow_node_share": 0.00045, "gpus_per_node": 8, "n_gpus": 128}
    some = 1 - value("no_slow_node_probability", **explained)
    assert some == pytest.approx(0.017 * 0.425, rel=0.01)
