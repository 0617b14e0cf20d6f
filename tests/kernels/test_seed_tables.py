"""Numbers that five documents print, through the public API; the right ones where they are wrong.

The documents: a tutorial on reliability at scale (mlsysim), an estimator of training time, a design
of a 100,000-GPU cluster, the appendix "Fleet Foundations", and a blog on training on 1,000 GPUs.
"""

import math
from typing import Any

import numpy as np
import pytest

import fleetcube
from fleetcube.kernels.collectives import ring_all_reduce_time
from fleetcube.kernels.reliability import failure_probability

HOUR = 3600.0
DAY = 24 * HOUR


def prints(value: Any, text: str) -> bool:
    """Whether a value, rounded as the document rounds it, is the number it prints."""
    digits = len(text.partition(".")[2])
    half = 0.5 * 10.0**-digits
    return abs(float(value) - float(text.replace(",", ""))) <= half * (1 + 1e-9)


# Reliability at scale: 8 GPUs of 50,000 h, 8 NICs of 150,000 h, 2 series supplies of 100,000 h

RELIABILITY = {
    # GPUs: cluster MTBF in h, failures in 30 days, Young's interval in h for a write of 60 s
    8: ("4285.7", "0.2", "12.0"),
    32: ("1071.4", "0.7", "6.0"),
    64: ("535.7", "1.3", "4.2"),
    128: ("267.9", "2.7", "3.0"),
    256: ("133.9", "5.4", "2.1"),
    512: ("67.0", "10.8", "1.5"),
    1024: ("33.5", "21.5", "1.1"),
}


@pytest.fixture(scope="module", params=["checkpoint_stall_time", "checkpoint_write_time"])
def reliability(request: pytest.FixtureRequest) -> Any:
    return fleetcube.evaluate(
        ["cluster_mtbf", "expected_failures", "young_interval"],
        n_gpus=list(RELIABILITY),
        series_psus_per_node=2,
        job_duration="30 d",
        **{request.param: 60},
    )


@pytest.mark.parametrize("n_gpus", RELIABILITY)
def test_reliability_table(reliability: Any, n_gpus: int) -> None:
    row = reliability.sel(n_gpus=n_gpus)
    mtbf, failures, interval = RELIABILITY[n_gpus]
    assert prints(row.cluster_mtbf / HOUR, mtbf)
    assert prints(row.expected_failures, failures)
    assert prints(row.young_interval / HOUR, interval)


def test_mtbf_of_gpus_alone() -> None:
    # The text says "~97 hours" at 512 GPUs: 50,000 / 512 = 97.7, GPUs alone; its table prints 67.0.
    mtbf = fleetcube.evaluate("cluster_mtbf", n_gpus=512, nics_per_node=0)
    assert prints(mtbf / HOUR, "97.7")


def test_failures_are_rarer_than_daily_at_a_thousand_gpus() -> None:
    # "At 512+ GPUs, something fails roughly every day": every 2.8 and 1.4 days.
    mtbf = fleetcube.evaluate("cluster_mtbf", n_gpus=[512, 1024], series_psus_per_node=2)
    assert prints(mtbf[0] / DAY, "2.8")
    assert prints(mtbf[1] / DAY, "1.4")


def test_exercise_1_two_thousand_gpus() -> None:
    result = fleetcube.evaluate(
        ["cluster_mtbf", "expected_failures"],
        n_gpus=2048,
        series_psus_per_node=2,
        job_duration="30 d",
    )
    assert float(result.cluster_mtbf) == pytest.approx(30 * DAY / 43.008, rel=1e-12)
    assert prints(result.expected_failures, "43.0")


def test_exercise_2_the_best_interval_is_youngs() -> None:
    # 512 GPUs, 0.5 to 8 h: d / tau + tau / (2 M) is least at sqrt(2 d M) = 1.494 h.
    hours = np.linspace(0.5, 8, 751)
    result = fleetcube.evaluate(
        "goodput",
        n_gpus=512,
        series_psus_per_node=2,
        checkpoint_stall_time=60,
        recovery_time=0,
        checkpoint_policy="fixed",
        goodput_model="first_order",
        fixed_checkpoint_interval=hours * HOUR,
    )
    assert hours[np.argmax(result.values)] == pytest.approx(1.49)


def test_exercise_3_gpus_twice_as_reliable() -> None:
    # 1 / (128 (8/100k + 8/150k + 2/100k)) = 51.0 h; the first cluster's 66.96 h is met at 779 GPUs.
    mtbf = fleetcube.evaluate(
        "cluster_mtbf", n_gpus=[779, 1024], gpu_mttf="100_000 h", series_psus_per_node=2
    )
    assert prints(mtbf[1] / HOUR, "51.0")
    assert float(mtbf[0]) / HOUR == pytest.approx(66.96, rel=1e-3)


@pytest.mark.parametrize(("n_gpus", "hours"), [(8, "4687.5"), (1024, "36.6")])
def test_dgx_h100_has_redundant_supplies(n_gpus: int, hours: str) -> None:
    mtbf = fleetcube.evaluate("cluster_mtbf", node="dgx-h100", n_gpus=n_gpus)
    assert prints(mtbf / HOUR, hours)


def test_checkpoint_of_llama_3_70b_through_one_drive() -> None:
    # 14 B x 70.6e9 / 7 GB/s: the write that the tutorial charges, beside an interval for 60 s.
    time = fleetcube.evaluate("checkpoint_write_time", model="llama-3-70b", storage="nvme-7gbs")
    assert prints(time, "141.2")


# The estimator


@pytest.mark.parametrize(("bytes_each", "gigabytes"), [(2, "350"), (4, "700")])
def test_gradients_of_175_billion_parameters(bytes_each: float, gigabytes: str) -> None:
    # "700 GB of FP16 gradients": that is FP32, FP16 is half of it.
    message = fleetcube.evaluate(
        "gradient_message", parameters=175e9, gradient_bytes_per_element=bytes_each
    )
    assert prints(message / 1e9, gigabytes)


@pytest.mark.parametrize(
    ("message", "gigabytes", "seconds"), [(700e9, "1398.6", "28.0"), (350e9, "699.3", "14.0")]
)
def test_ring_over_a_thousand_gpus(message: float, gigabytes: str, seconds: str) -> None:
    # "1.37 GB per step, 27 ms at 400 Gb/s": that divides by the number of GPUs twice.
    assert prints(ring_all_reduce_time(message, 1024, 0.0, 1e9), gigabytes)
    assert prints(ring_all_reduce_time(message, 1024, 0.0, 50e9), seconds)


def test_young_interval_for_half_a_minute_a_day() -> None:
    interval = fleetcube.evaluate(
        "young_interval", checkpoint_stall_time=[30, 5.12], cluster_mtbf="24 h"
    )
    assert prints(interval[0], "2276.8")
    assert prints(interval[1], "940.6")


def test_expected_failures_a_day() -> None:
    # "1.8 expected failures" in 24 h with an MTBF of 24 h: one.
    failures = fleetcube.evaluate("expected_failures", job_duration="24 h", cluster_mtbf="24 h")
    assert failures == 1


@pytest.mark.parametrize(("minutes", "percent"), [(5, "8.3"), (20, "33.3")])
def test_hourly_checkpoints_of_minutes(minutes: float, percent: str) -> None:
    # "5-20 min, hourly: 2-5 %": 5/60 and 20/60.
    overhead = fleetcube.evaluate(
        "checkpoint_overhead",
        goodput_model="first_order",
        checkpoint_policy="fixed",
        fixed_checkpoint_interval="1 h",
        checkpoint_stall_time=60 * minutes,
    )
    assert prints(100 * overhead, percent)


def test_recovery_and_waste_of_the_worked_example() -> None:
    # Drain 10 s, provision 600 s, restore 1 TB at 100 GB/s, start 20 s = 640 s; the document adds
    # 500 s of rework (half an interval is 1138 s) and 1.8 failures. With one failure a day,
    # d/tau + tau/2M + R/M = 3.38 %, where it prints 3.7 %.
    result = fleetcube.evaluate(
        ["recovery_time", "goodput"],
        detection_time=0,
        drain_time=10,
        provision_time=600,
        reinit_time=20,
        checkpoint_size="1 TB",
        checkpoint_stall_time=30,
        cluster_mtbf="24 h",
        checkpoint_policy="young",
        goodput_model="first_order",
    )
    assert float(result.recovery_time) == pytest.approx(640, rel=1e-15)
    assert prints(100 * (1 - result.goodput), "3.38")


def test_failures_of_ten_thousand_gpus_in_the_field() -> None:
    # "Every 4-6 h" agrees with Llama 3: 16384 GPUs x 54 d / 419 interruptions, at 10,000 GPUs;
    # its own "1.5-3.0 million h per GPU" would give 150 to 300 h.
    mtbf = fleetcube.evaluate("cluster_mtbf", n_gpus=10_000, reliability="llama-3-405b-run")
    assert prints(mtbf / HOUR, "5.07")


# The 100,000-GPU cluster: 1T parameters, TP 8, PP 16, DP 781, 512 sequences of 8192 tokens

LAYOUT: dict[str, Any] = {
    "n_gpus": 99_968,
    "tensor_parallel": 8,
    "pipeline_parallel": 16,
    "parameters": "1e12",
    "layers": 128,
    "hidden_size": 25_600,
    "sequence_length": 8192,
    "global_batch_size": 512,
    "gpu": "h100-sxm",
    "fabric": "infiniband-ndr",
}


def test_the_layout_is_infeasible() -> None:
    # The document presents it as a design, but 781 replicas cannot share 512 sequences.
    result = fleetcube.evaluate(["data_parallel", "num_microbatches"], **LAYOUT)
    assert result.data_parallel == 781
    assert result.num_microbatches < 1
    reason = result.coords["infeasible_reason"]
    meanings = reason.attrs["flag_meanings"].split()
    assert meanings[int(reason)] == "batch_smaller_than_data_parallel"


def test_the_layout_is_feasible_with_a_sequence_for_each_replica() -> None:
    result = fleetcube.evaluate(
        ["bubble_fraction"],
        sequence_parallel=True,
        recompute="full",
        **{**LAYOUT, "global_batch_size": [512, 781, 64 * 781]},
    )
    assert list(result.infeasible_reason) == [4, 0, 0]
    # One micro-batch each leaves 15/16 of the pipeline idle.
    assert result.bubble_fraction[1] == 15 / 16
    assert float(result.bubble_fraction[2]) == pytest.approx(15 / 79)


def test_masking_hides_the_layout() -> None:
    result = fleetcube.evaluate("bubble_fraction", mask_infeasible=True, **LAYOUT)
    assert math.isnan(result)


def test_gradient_all_reduce_of_the_layout() -> None:
    # 2 (d - 1)/d x 2 P/(TP PP) = 31.2 GB, 0.62 s at 50 GB/s: about the whole 0.6 s step.
    result = fleetcube.evaluate(
        ["gradient_message", "data_parallel_all_reduce_time"],
        all_reduce="ring",
        inter_node_latency=0,
        **LAYOUT,
    )
    assert prints(2 * 780 / 781 * result.gradient_message / 1e9, "31.2")
    assert prints(result.data_parallel_all_reduce_time, "0.62")


def test_tokens_of_a_step() -> None:
    assert fleetcube.evaluate("tokens_per_step", **LAYOUT) == 4_194_304


def test_fifteen_trillion_tokens_in_26_days() -> None:
    # 100,000 GPUs at 1 PFLOP/s and 40 %: 6.67 million tokens/s for 6 x 1e12 FLOP each.
    result = fleetcube.evaluate(
        ["compute_time", "training_steps", "tokens_per_step"],
        parameters=1e12,
        n_gpus=100_000,
        peak_flops="1 PFLOP/s",
        flops_efficiency=0.4,
        recompute="none",
        training_tokens=15e12,
    )
    assert prints(result.tokens_per_step / result.compute_time / 1e6, "6.67")
    assert prints(result.compute_time * result.training_steps / DAY, "26.04")


def test_peak_of_a_hundred_thousand_gpus() -> None:
    # "~100 EFLOP/s": 98.9 dense.
    flops = fleetcube.evaluate("peak_flops", gpu="h100-sxm")
    assert prints(1e5 * flops / 1e18, "98.9")


def test_mtbf_of_a_hundred_thousand_gpus() -> None:
    # "5e4 h per node, 1e5 nodes: 0.5 h"; there are 12,500 nodes: 4.0 h, or 0.5 h per GPU.
    by_node = fleetcube.evaluate("cluster_mtbf", n_gpus=100_000, node_mttf="50_000 h")
    assert prints(by_node / HOUR, "4.0")


@pytest.mark.parametrize(("bytes_each", "terabytes"), [(14, "14"), (16, "16")])
def test_training_state_of_a_trillion_parameters(bytes_each: float, terabytes: str) -> None:
    # A checkpoint holds no gradients: 14 B each (Fleet Foundations), not 16 B as resident state.
    size = fleetcube.evaluate(
        "checkpoint_size", parameters=1e12, checkpoint_bytes_per_parameter=bytes_each
    )
    assert prints(size / 1e12, terabytes)


def test_one_stream_takes_hours() -> None:
    time = fleetcube.evaluate(
        "checkpoint_write_time", checkpoint_size="16 TB", checkpoint_write_bandwidth="2 GB/s"
    )
    assert prints(time / HOUR, "2.2")


def test_recovery_of_twenty_minutes_every_two_hours() -> None:
    share = fleetcube.evaluate(
        "recovery_overhead",
        recovery_time="20 min",
        cluster_mtbf="2 h",
        goodput_model=["first_order", "exact"],
    )
    assert prints(100 * share[0], "17")
    # Failures also strike while recovering: 1 - exp(-1/6).
    assert prints(100 * share[1], "15.4")


# Fleet Foundations

TABLE_6 = {
    # GPUs: MTBF of GPUs alone in h, in min, probability of a failure in 24 h in %
    256: ("195.3", "11,718.8", "11.6"),
    2_048: ("24.4", "1,464.8", "62.6"),
    8_192: ("6.1", "366.2", "98.04"),
    100_000: ("0.50", "30", "100"),
}


@pytest.fixture(scope="module")
def table_6() -> Any:
    return fleetcube.evaluate(
        ["cluster_mtbf", "failure_probability"],
        n_gpus=list(TABLE_6),
        nics_per_node=0,
        job_duration="24 h",
    )


@pytest.mark.parametrize("n_gpus", TABLE_6)
def test_table_6(table_6: Any, n_gpus: int) -> None:
    row = table_6.sel(n_gpus=n_gpus)
    hours, minutes, percent = TABLE_6[n_gpus]
    assert prints(row.cluster_mtbf / HOUR, hours)
    assert prints(row.cluster_mtbf / 60, minutes)
    assert prints(100 * row.failure_probability, percent)


TABLE_7 = {
    # parameters: checkpoint in GB, write time in s at 100 GB/s
    7e9: ("98", "0.98"),
    70e9: ("980", "9.8"),
    175e9: ("2450", "24.5"),
    1e12: ("14000", "140"),  # printed as 14 TB and 2.3 min
}


@pytest.fixture(scope="module")
def table_7() -> Any:
    return fleetcube.evaluate(
        ["checkpoint_size", "checkpoint_write_time"],
        parameters=list(TABLE_7),
        storage="reference-100gbs",
    )


@pytest.mark.parametrize("parameters", TABLE_7)
def test_table_7(table_7: Any, parameters: float) -> None:
    row = table_7.sel(parameters=parameters)
    size, time = TABLE_7[parameters]
    assert prints(row.checkpoint_size / 1e9, size)
    assert prints(row.checkpoint_write_time, time)


def test_ridge_point_of_h100() -> None:
    assert prints(fleetcube.evaluate("ridge_point", gpu="h100-sxm"), "295.2")


def test_decoding_one_token_at_a_time() -> None:
    # One token reads every weight: 1 FLOP/B, 3.35 TB/s over 2 x 8.03e9 FLOP a token.
    result = fleetcube.evaluate(
        ["arithmetic_intensity", "attainable_flops"],
        gpu="h100-sxm",
        micro_batch_size=1,
        sequence_length=1,
    )
    assert result.arithmetic_intensity == 1
    assert prints(result.attainable_flops / (2 * 8.03e9), "208.6")


def test_nvlink_against_infiniband() -> None:
    # 9 in one direction of each; its table lists the duplex 900 GB/s beside 50 GB/s, and other
    # documents say 7-14 and 25.
    gpu = fleetcube.catalog.record("gpu", "h100-sxm").values["intra_node_bandwidth"]
    fabric = fleetcube.catalog.record("fabric", "infiniband-ndr").values["inter_node_bandwidth"]
    assert gpu / fabric == 9


def all_reduce(parameters: float) -> float:
    """Ring all-reduce of BF16 gradients over 256 lone GPUs on InfiniBand NDR, in seconds."""
    return float(
        fleetcube.evaluate(
            "data_parallel_all_reduce_time",
            parameters=parameters,
            n_gpus=256,
            gpus_per_node=1,
            all_reduce="ring",
            fabric="infiniband-ndr",
            intra_node_bandwidth=450e9,
        )
    )


def test_table_11_all_reduce_of_7_billion_parameters() -> None:
    assert prints(1e3 * all_reduce(7e9), "560.4")
    assert prints(100 * all_reduce(7e9) / 5, "11.2")  # of 5 s of computing


def test_table_11_row_350m_was_computed_for_340m() -> None:
    assert prints(1e3 * all_reduce(340e6), "29.6")  # as printed
    assert prints(1e3 * all_reduce(350e6), "30.4")  # as the row is labelled


# A thousand GPUs


def test_any_of_128_nodes_fails() -> None:
    # 1 - (1 - p)^128 at p = 1 %: the same as exponential lifetimes with exp(-T/M) = 0.99.
    node_mttf = -1 / math.log(0.99)
    assert prints(100 * failure_probability(1.0, node_mttf / 128), "72.37")
    result = fleetcube.evaluate(
        "failure_probability", n_gpus=1024, node_mttf=node_mttf, job_duration=1
    )
    assert float(result) == pytest.approx(1 - 0.99**128, rel=1e-12)
