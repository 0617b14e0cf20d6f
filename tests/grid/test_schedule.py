"""Simulating pipeline schedules: refusals, properties of all schedules, the picture."""

import itertools
import math
from pathlib import Path
from typing import Any

import pint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fleetcube
from fleetcube import InputError, Settings, simulate_schedule
from fleetcube.kernels.physics.inputs import INPUTS

from ..draws import scaled
from .common import cases


def runs(layout: dict[str, Any]) -> dict[str, Any]:
    """The layout with numbers of micro-batches and stages that its schedule runs."""
    p, m = layout["pipeline_parallel"], layout["num_microbatches"]
    match layout["pipeline_schedule"]:
        case "dualpipe" | "dualpipev":
            p += p % 2
            m = 2 * (p + m % 5)
        case "combined_1f1b":
            layout = {**layout, "pipeline_scheduler": "megatron", "recompute_time": 0.0}
            layout["virtual_stages"] = max(2, layout["virtual_stages"])
            m = p * (1 + m % 3)
        case _:
            m -= m % max(1, m // p)
    return {**layout, "pipeline_parallel": p, "num_microbatches": m}


SCHEDULES = INPUTS["pipeline_schedule"].choices
LAYOUTS = st.fixed_dictionaries(
    {
        **{
            "pipeline_schedule": st.sampled_from(SCHEDULES),
            "pipeline_parallel": st.integers(2, 12),
        },
        **{"num_microbatches": st.integers(1, 32), "virtual_stages": st.integers(1, 4)},
        **{"pipeline_scheduler": st.just("pytorch"), "recompute_time": st.sampled_from([0.0, 1.0])},
    }
).map(runs)


@given(LAYOUTS)
def test_every_pass_is_played_once_and_none_before_its_input(layout: dict[str, Any]) -> None:
    played = simulate_schedule(send_time=0.25, pipeline_sends="asynchronous", **layout)
    ends: dict[Any, float] = {}
    home: dict[Any, int] = {}
    for stage, passes in enumerate(played.stages):
        for before, after in itertools.pairwise(passes):
            assert before.end <= after.start
        for part in passes:
            assert (part.kind, part.piece, part.microbatch) not in ends
            ends[part.kind, part.piece, part.microbatch] = part.end
            home[part.piece, part.microbatch] = stage
    for passes in played.stages:
        for part in passes:
            here = part.piece, part.microbatch
            before = part.piece - 1 if part.kind == "F" else part.piece + 1, part.microbatch
            if part.kind in "FB" and before in home:
                arrived = ends[part.kind, *before] + 0.25 * (home[before] != home[here])
                assert part.start >= arrived
            if part.kind != "F":
                assert part.start >= ends["F" if part.kind == "B" else "B", *here]


@settings(max_examples=scaled(40, 100))
@given(LAYOUTS, st.sampled_from(["blocking", "asynchronous"]), st.floats(0, 0.2))
def test_the_laws_hold_where_they_say(layout: dict[str, Any], sends: str, send: float) -> None:
    # Bubble and exposed sends match a simulated step, or exceed it where a law is a bound.
    played = simulate_schedule(send_time=send, pipeline_sends=sends, **layout)
    m = layout["num_microbatches"]
    given = {key: value for key, value in layout.items() if key != "recompute_time"}
    found = fleetcube.evaluate(
        ["bubble_ratio", "awaited_pipeline_sends"],
        pipeline_sends=sends,
        recompute_flops_factor=4 / 3 if layout["recompute_time"] else 1.0,
        settings=Settings("numpy"),
        **given,
    )
    work = m * (3 + layout["recompute_time"])
    law = work * (1 + float(found.bubble_ratio)) + send * float(found.awaited_pipeline_sends)
    assert played.step_time <= law * (1 + 1e-9)
    alone = layout["virtual_stages"] == 1
    if layout["pipeline_schedule"] == "gpipe" or (layout["pipeline_schedule"] == "1f1b" and alone):
        assert played.step_time == pytest.approx(law, rel=1e-9)


def test_with_as_few_microbatches_as_stages_a_step_is_nearly_flat() -> None:
    # One more micro-batch costs 1/v of itself: its chunks follow those of the others.
    def step(m: int) -> float:
        given = dict(virtual_stages=8, pipeline_scheduler="pytorch", pipeline_sends="asynchronous")
        return simulate_schedule(pipeline_parallel=16, num_microbatches=m, **given).step_time

    times = {m: step(m) for m in (1, 2, 8, 16, 32)}
    assert times[16] - times[8] == pytest.approx(8 * 3 / 8)
    assert times[8] - times[2] == pytest.approx(6 * 3 / 8)
    assert times[32] - times[16] == pytest.approx(16 * 3)


def test_a_slow_boundary_is_waited_for() -> None:
    layout = {"pipeline_parallel": 3, "num_microbatches": 1, "pipeline_sends": "asynchronous"}
    even = simulate_schedule(send_time=1.0, **layout).step_time
    assert simulate_schedule(send_time=[1.0, 3.0, 0.0], **layout).step_time == even + 4


def test_passes_that_overlap_take_their_time_together() -> None:
    # One stage: of 4 micro-batches 3 pairs; the first forward and the last backward pass are alone.
    given = dict(pipeline_parallel=1, num_microbatches=4, overlapped_time=2.0)
    played = simulate_schedule("combined_1f1b", **given)
    assert played.step_time == 1 + 3 * 2 + 2
    assert [part.overlaps for part in played.stages[0]] == [False, *6 * [True], False]
    assert played.microbatches_in_flight == (2,)
    # Ranks of DualPipe mirror each other, in time and in the stages that they hold
    both = simulate_schedule("dualpipe", pipeline_parallel=4, num_microbatches=8)
    for near, far in ((0, 3), (1, 2)):
        for one, other in zip(both.stages[near], both.stages[far], strict=True):
            assert (one.kind, one.start, one.end) == (other.kind, other.start, other.end)
            assert (one.piece, one.microbatch) == (other.piece, (other.microbatch + 4) % 8)


def test_pieces_take_times_of_their_own() -> None:
    # A slow last stage waits only for the first micro-batch; then the last goes back up.
    played = simulate_schedule(pipeline_parallel=3, num_microbatches=5, piece_times=[1, 1.5, 2])
    assert played.step_time == (1 + 1.5) + 5 * 2 * 3 + 2 * (1 + 1.5)
    assert played.bubble_ratio == pytest.approx(7.5 / 30)  # of the stage that works longest
    given = dict(pipeline_parallel=2, num_microbatches=1, piece_times=[1, 2, 3, 4])
    folded = simulate_schedule("zb_v", **given, weight_gradient_time=0.0)
    assert folded.step_time == (1 + 2 + 3 + 4) * (0.5 + 0.5)


PAIRS: dict[str, Any] = {"pipeline_schedule": "combined_1f1b", "virtual_stages": 2}


@cases(
    "change, told",
    *(({"num_microbatches": n}, "whole number") for n in (0, math.nan, math.inf, True, "8", None)),
    ({"pipeline_parallel": 2.5}, "whole number"),
    ({"pipeline_schedule": "1b1f"}, "1f1b"),
    ({"send_time": -1.0}, "negative"),
    ({"num_microbatches": 1_000_000_000}, "1,000,000"),
    *(({"forward_time": time}, "plain number") for time in ("1 ms", True)),
    *(({name: -1.0}, f"{name} = -1.0") for name in ("recompute_time", "input_gradient_time")),
    ({"weight_gradient_time": None}, "plain number"),
    ({"send_time": pint.UnitRegistry().Quantity(1, "ms")}, "plain number"),
    ({"send_time": "1 ms"}, "plain number"),
    ({"send_time": 1e308}, "too large"),
    ({"pipeline_flush": "False"}, "True or False"),
    ({"virtual_stages": 2, "microbatch_group_size": "4"}, "whole number"),
    (dict(virtual_stages=2, microbatch_group_size=2, pipeline_scheduler="pytorch"), "groups of 4"),
    ({"send_time": [1.0]}, "boundaries"),
    ({"piece_times": [1.0]}, "4 pieces"),
    ({"piece_times": [1.0, 1.0, 1.0, -1.0]}, "piece_times = -1.0"),
    ({"virtual_stages": 2, "num_microbatches": 3}, "as many as stages"),
    ({"virtual_stages": 2, "num_microbatches": 9}, "groups"),
    ({"virtual_stages": 2, "microbatch_group_size": 3}, "groups"),
    ({"virtual_stages": 2, "pipeline_parallel": 1}, "one stage"),
    ({"pipeline_schedule": "dualpipe", "num_microbatches": 6}, "twice theirs"),
    ({"pipeline_schedule": "dualpipe", "num_microbatches": 9}, "even"),
    ({"pipeline_schedule": "dualpipe", "pipeline_parallel": 3}, "even"),
    ({"pipeline_schedule": "dualpipev", "num_microbatches": 7}, "twice as many"),
    ({"pipeline_schedule": "combined_1f1b"}, "virtual_stages > 1"),
    ({**PAIRS, "num_microbatches": 3}, "as many as stages"),
    ({**PAIRS, "pipeline_scheduler": "pytorch"}, "PyTorch"),
    ({**PAIRS, "overlapped_time": -1.0}, "overlapped_time = -1.0"),
    ({"virtual_stages": 2, "num_microbatches": 13, "pipeline_scheduler": "pytorch"}, "rounds"),
)
def test_what_cannot_be_played_is_refused(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        simulate_schedule(**{"pipeline_parallel": 4, "num_microbatches": 8, **change})


@pytest.mark.parametrize("schedule", ["gpipe", "interleaved", "zb_v", "dualpipe"])
def test_the_picture_has_a_bar_for_every_pass(schedule: str, tmp_path: Path) -> None:
    played = simulate_schedule(schedule, pipeline_parallel=2, num_microbatches=6, virtual_stages=2)
    (axes,) = played.plot(tmp_path / "schedule.png").axes
    parts = [part for passes in played.stages for part in passes]
    assert len(axes.patches) == len(parts)
    framed = [bar for bar in axes.patches if bar.get_edgecolor()[:3] == (0, 0, 0)]
    assert len(framed) == sum(part.overlaps for part in parts)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1", "2"]
    assert (tmp_path / "schedule.png").stat().st_size > 1000
