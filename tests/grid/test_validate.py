"""Predictions compared with measurements: errors by hand, and no row is lost."""

import math
from typing import Any

import pytest
from scipy.stats import spearmanr

from fleetcube.calibration.predict import Compared
from fleetcube.calibration.row import LeftOut, Row
from fleetcube.calibration.validate import accuracy, validate
from fleetcube.catalog import record
from fleetcube.kernels.physics.graph import PHYSICS

from .common import cases, on_h100

JOB: dict[str, Any] = {"parameters": 1e9, "layers": 10, "hidden_size": 2048}
JOB |= {"kernel_flops_per_token": 6e9, "recompute_flops_factor": 1.0}  # no attention
JOB |= {"fabric": "infiniband-hdr"}  # nothing is looked up
JOB |= {"sequence_length": 1000, "gpu": "a100-sxm-80gb", "n_gpus": 1, "global_batch_size": 8}
JOB |= {"flops_efficiency": 0.5}


def step(name: str, measured: float = 1.0, **inputs: Any) -> Row:
    return Row(name, "jobs", "invented", JOB | inputs, "step_time", measured)


def all_reduce(measured: float = 1.0, **inputs: Any) -> Row:
    return Row("a", "reduced", "invented", inputs, "all_reduce_time", measured)


ROWS = [
    Compared("a", "g", "step_time", 2.0, 1.0, 0.5, 1.5, ideal_time=1.0, tokens_per_gpu=10.0),
    Compared("b", "g", "step_time", 4.0, 5.0, 4.0, 6.0, ideal_time=1.0, tokens_per_gpu=40.0),
    Compared("c", "g", "step_time", 10.0, 10.0, ideal_time=4.0, tokens_per_gpu=90.0),
    Compared("d", "g", "step_time", 8.0, 6.0, 4.0, 9.0, ideal_time=4.0, tokens_per_gpu=16.0),
]


def test_errors_are_those_of_a_hand() -> None:
    found = accuracy(ROWS)  # -50 %, 25 %, 0 %, -25 %
    assert (found.group, found.of, found.n) == ("g", "step_time", 4)
    assert (found.mean_percent, found.median_percent, found.max_percent) == (25, 25, 50)
    assert found.bias_percent == -12.5


def test_the_dummy_reaches_the_median_share_of_the_peak_everywhere() -> None:
    # shares 1/2, 1/4, 2/5, 1/2: median 0.45; times 1 / 0.45 (twice), 4 / 0.45 (twice)
    sizes = sorted(abs(x / 0.45 - 1) for x in (1 / 2, 1 / 4, 4 / 10, 4 / 8))
    found = accuracy(ROWS)
    assert found.dummy_mean_percent == pytest.approx(100 * sum(sizes) / 4)
    assert found.dummy_median_percent == pytest.approx(100 * (sizes[1] + sizes[2]) / 2)


def test_steps_are_ranked_by_tokens_per_second_and_gpu() -> None:
    # measured 5, 10, 9, 2: ranks 2, 4, 3, 1; predicted 10, 8, 9, 2.7: ranks 4, 2, 3, 1
    assert accuracy(ROWS).rank_correlation == pytest.approx(1 - 6 * (4 + 4) / (4 * 15))


def test_other_outputs_are_ranked_by_their_values() -> None:
    # measured 2, 4, 10, 8 and predicted 1, 5, 10, 6 rise together
    rows = [Compared(r.id, "g", "memory_per_gpu", r.measured, r.predicted) for r in ROWS]
    found = accuracy(rows)
    assert found.rank_correlation == pytest.approx(1.0)
    assert math.isnan(found.dummy_mean_percent)


def test_equal_values_share_their_ranks() -> None:
    pairs = [(3.0, 1.0), (3.0, 2.0), (5.0, 2.0), (1.0, 2.0), (4.0, 9.0), (0.5, 0.1)]
    rows = [Compared(f"{k}", "g", "memory_per_gpu", *pair) for k, pair in enumerate(pairs)]
    expected = spearmanr(*zip(*pairs, strict=True)).statistic
    assert accuracy(rows).rank_correlation == pytest.approx(expected, rel=1e-12)


def test_two_rows_or_equal_ones_have_no_ranks() -> None:
    assert math.isnan(accuracy(ROWS[:2]).rank_correlation)
    assert math.isnan(accuracy(ROWS[:1] * 3).rank_correlation)


def test_coverage_counts_rows_with_an_interval() -> None:
    assert accuracy(ROWS).coverage == pytest.approx(2 / 3)  # b and d of a, b, d
    assert accuracy(ROWS[2:3]).coverage is None


def test_a_step_is_predicted_as_on_paper() -> None:
    # 6 N D / (P u): 6 x 1e9 x 8 x 1000 FLOP on one GPU of 312 TFLOP/s at one half
    rows = [step("one"), step("two", global_batch_size=16, precision="fp16"), step("half", 0.5)]
    found = validate(rows)
    assert found.left_out == ()
    once = 6e9 * 8000 / 312e12 / 0.5
    assert [row.id for row in found.rows] == ["one", "two", "half"]
    for row, share in zip(found.rows, (1, 2, 1), strict=True):
        assert row.predicted == pytest.approx(share * once, rel=1e-12)
        assert row.ideal_time == pytest.approx(share * once / 2, rel=1e-12)
        assert row.tokens_per_gpu == 8000 * share
    (row,) = validate([step("two", n_gpus="2", tensor_parallel=2)]).rows
    assert row.tokens_per_gpu == 4000


def test_every_row_is_compared_or_left_out_with_its_reason() -> None:
    told = LeftOut("before", "elsewhere", "not a step")
    rows = [step("good"), step("label", gpu="no-such-gpu"), step("bound", n_gpus=-1)]
    rows += [step("choice", precision="fp3"), step("name", no_such_input=1)]
    rows += [step("shape", n_gpus=[1, 2]), step("zero", 0.0), step("not a number", math.nan)]
    rows += [step("infinite", peak_flops_bf16=math.inf)]
    rows += [Row("empty", "jobs", "invented", {}, "step_time", 1.0)]
    rows += [Row("output", "jobs", "invented", JOB, "no_such_output", 1.0)]
    rows += [step("last", n_gpus="2", tensor_parallel=2)]
    found = validate(rows, [told])
    assert found.left_out[0] is told
    reasons = {record.id: record.reason for record in found.left_out[1:]}
    assert [row.id for row in found.rows] == ["good", "last"]
    assert {*reasons, "good", "last"} == {row.id for row in rows}
    for name, said in {
        **{"label": "no-such-gpu", "bound": "n_gpus = -1", "choice": "fp3"},
        **{"name": "no_such_input", "shape": "n_gpus = [1, 2]"},
        "zero": "measured step_time = 0 is not a positive number",
        **{"not a number": "measured step_time = nan", "infinite": "peak_flops_bf16 = inf"},
        **{"empty": "is missing", "output": "no_such_output"},
    }.items():
        assert said in reasons[name], name
        assert "\n" not in reasons[name]
        assert "row" not in reasons[name].split(), "alone, not as a row of ours"


def test_rows_together_are_rows_alone() -> None:
    rows = [
        step(f"{precision} {n}", 1.0, precision=precision, n_gpus=n, **more)
        for precision in ("bf16", "fp16")
        for n, more in ((1, {}), (8, on_h100("llama-3-8b")), (16, on_h100("llama-3-70b")))
    ]
    together = validate(rows)
    assert together.left_out == ()
    alone = [repr(row) for one in rows for row in validate([one]).rows]  # NaN is not itself
    assert list(map(repr, together.rows)) == alone


def test_groups_and_outputs_are_told_apart() -> None:
    other = Row("m", "jobs", "invented", JOB, "ideal_compute_time", 1.0)
    found = validate([step("a"), other, step("b")])
    assert {g.group for g in found.groups} == {"jobs"}
    assert [(g.of, g.n) for g in found.groups] == [("step_time", 2), ("ideal_compute_time", 1)]
    found = validate([])
    assert (found.groups, found.rows, found.left_out) == ((), (), ())


@pytest.mark.skipif("step_time_low" not in PHYSICS.quantities, reason="steps have no interval yet")
def test_an_interval_follows_from_the_error_factor() -> None:
    once = 6e9 * 8000 / 312e12 / 0.5
    wide = [step("in", 1.1 * once, error_factor=1.2), step("out", 1.5 * once, error_factor=1.2)]
    found = validate([*wide, step("none", once)])
    assert [row.low < row.predicted < row.high for row in found.rows] == [True, True, False]
    assert found.groups[0].coverage == 0.5


def test_a_calibration_holds_for_other_ranks() -> None:
    # inter-node bandwidth in the record is one GPU's share of the node's
    fit = record("calibration", "aws-p5").values
    bus = 8 * fit["inter_node_bandwidth"]
    message, root = 1e9, fit["sqrt_coefficient"] * 1e9**0.5
    for ranks in (16, 64):
        given = dict(ranks=ranks, nodes=ranks / 8, calibration="aws-p5")
        found = validate([all_reduce(message_bytes=m, **given) for m in (message, 4 * message)])
        wire = 2 * (ranks - 1) / ranks * message / bus
        start = fit["inter_node_latency"]
        expected = [start + wire + root, start + 4 * wire + 2 * root]
        assert [row.predicted for row in found.rows] == pytest.approx(expected, rel=1e-9)


def test_a_calibration_inside_a_node() -> None:
    fit = record("calibration", "a100-nvlink-node").values
    given = dict(ranks=4, nodes=1, calibration="a100-nvlink-node")
    found = validate([all_reduce(message_bytes=1e9, **given)])
    expected = fit["intra_node_latency"] + 1.5e9 / fit["intra_node_bandwidth"]
    expected += fit["sqrt_coefficient"] * 1e9**0.5
    assert found.rows[0].predicted == pytest.approx(expected, rel=1e-9)


def test_without_a_calibration_the_law_is_ideal() -> None:
    ring = {"all_reduce": "ring", "intra_node_latency": 1e-6, "intra_node_bandwidth": 300e9}
    found = validate([all_reduce(message_bytes=6e9, ranks=8, nodes=1, **ring)])
    assert found.rows[0].predicted == pytest.approx(14 * (1e-6 + 6e9 / 8 / 300e9), rel=1e-9)


@cases(
    "inputs, said",
    ({"ranks": 8, "nodes": 1}, "message_bytes is missing"),
    ({"message_bytes": 1, "ranks": 8, "nodes": 0}, "must be greater than 0"),
    ({"message_bytes": 1, "ranks": "x", "nodes": 1}, 'ranks = "x"'),
    ({"message_bytes": 1, "ranks": 8, "nodes": 1, "calibration": "x"}, "calibration = 'x'"),
    ({"message_bytes": 1, "ranks": 8, "nodes": 1, "calibration": "aws-p5"}, "inside a node"),
    (dict(message_bytes=1, ranks=8, nodes=2, calibration="a100-nvlink-node"), "between nodes"),
    ({"message_bytes": 1, "ranks": 8, "nodes": 1}, "intra_node_bandwidth is missing"),
    ({"message_bytes": 1, "ranks": 8, "nodes": 1, "odd": 1}, "'odd'"),
    ({"message_bytes": 1, "ranks": 1, "nodes": 1, "intra_node_bandwidth": 1}, "is 0"),
)
def test_an_all_reduce_that_cannot_be_predicted_says_why(inputs: dict[str, Any], said: str) -> None:
    found = validate([all_reduce(**inputs)])
    assert found.rows == ()
    assert said in found.left_out[0].reason
