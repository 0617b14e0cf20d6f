"""Pipeline schedules simulated event by event: idle time, and micro-batches in flight.

A forward pass of a chunk takes 1; backward takes 2, or 1 for activations (B) and 1 for weights (W).
"""

from collections.abc import Callable
from typing import Any

import pytest

import fleetcube
from fleetcube.kernels.laws.pipeline import bubble_ratio

from ..evaluated import value

Op = tuple[str, int, int]  # F, B or W; chunk; micro-batch


def evaluate(name: str, schedule: str, stages: int, microbatches: int, chunks: int = 1) -> float:
    return value(
        name,
        pipeline_schedule=schedule,
        pipeline_parallel=stages,
        num_microbatches=microbatches,
        virtual_stages=chunks,
        recompute_flops_factor=1.0,
    )


def play(orders: list[list[Op]]) -> tuple[float, int]:
    """End of stages that run their lists in order, and most forward passes held by the first."""
    last = max(chunk for order in orders for _, chunk, _ in order)
    done: dict[Op, float] = {}
    clock, position = [0.0] * len(orders), [0] * len(orders)
    held = peak = 0
    while any(position[s] < len(order) for s, order in enumerate(orders)):
        for stage, order in enumerate(orders):
            if position[stage] == len(order):
                continue
            kind, chunk, i = order[position[stage]]
            if kind == "F":
                needs = [("F", chunk - 1, i)] if chunk else []
            else:
                needs = [("F", chunk, i)] + ([("B", chunk + 1, i)] if chunk < last else [])
            if all(need in done for need in needs):
                start = max([clock[stage], *(done[need] for need in needs)])
                clock[stage] = done[kind, chunk, i] = start + (1 if kind == "F" else 2)
                position[stage] += 1
                if stage == 0:
                    held += 1 if kind == "F" else -1
                    peak = max(peak, held)
    return max(clock), peak


def gpipe(stages: int, microbatches: int) -> list[list[Op]]:
    every = range(microbatches)
    return [[("F", s, i) for i in every] + [("B", s, i) for i in every] for s in range(stages)]


def alternate(forward: list[Op], backward: list[Op], ahead: int) -> list[Op]:
    """Forward passes ahead, then one forward and one backward in turn, then the rest."""
    order = forward[:ahead]
    for one, other in zip(forward[ahead:], backward, strict=False):
        order += [one, other]
    return order + backward[len(forward) - ahead :]


def one_forward_one_backward(stages: int, microbatches: int) -> list[list[Op]]:
    return [
        alternate(
            [("F", s, i) for i in range(microbatches)],
            [("B", s, i) for i in range(microbatches)],
            min(stages - 1 - s, microbatches),
        )
        for s in range(stages)
    ]


def interleaved(stages: int, microbatches: int, chunks: int) -> list[list[Op]]:
    """Megatron-LM's order: groups of p micro-batches run through the chunks in turn."""
    starts = range(0, microbatches, stages)
    turns = [(i + k, v) for i in starts for v in range(chunks) for k in range(stages)]
    orders = []
    for s in range(stages):
        forward: list[Op] = [("F", v * stages + s, i) for i, v in turns]
        backward: list[Op] = [("B", (chunks - 1 - v) * stages + s, i) for i, v in turns]
        ahead = 2 * (stages - 1 - s) + (chunks - 1) * stages
        if microbatches == stages:
            ahead = len(forward)
        orders.append(alternate(forward, backward, min(ahead, len(forward))))
    return orders


SIZES = [(1, 1), (1, 4), (2, 1), (2, 2), (4, 1), (4, 3), (4, 8), (8, 8), (8, 32), (7, 2), (16, 31)]


@pytest.mark.parametrize(("stages", "microbatches"), SIZES)
@pytest.mark.parametrize(
    ("schedule", "orders"), [("gpipe", gpipe), ("1f1b", one_forward_one_backward)]
)
def test_flushed_schedules(
    schedule: str, orders: Callable[[int, int], list[list[Op]]], stages: int, microbatches: int
) -> None:
    time, peak = play(orders(stages, microbatches))
    busy = 3 * microbatches
    ratio = evaluate("bubble_ratio", schedule, stages, microbatches)
    assert ratio == pytest.approx((time - busy) / busy, rel=1e-14)
    fraction = evaluate("bubble_fraction", schedule, stages, microbatches)
    assert fraction == pytest.approx((time - busy) / time, rel=1e-14)
    assert evaluate("microbatches_in_flight", schedule, stages, microbatches) == peak


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved"])
@pytest.mark.parametrize(
    ("stages", "microbatches", "chunks"),
    # as many micro-batches as stages, or a multiple: Megatron-LM's rule
    [(2, 2, 2), (2, 4, 2), (4, 4, 2), (4, 8, 2), (4, 8, 3), (4, 16, 4), (8, 16, 2), (8, 64, 5)],
)
def test_interleaved_schedule(schedule: str, stages: int, microbatches: int, chunks: int) -> None:
    time, peak = play(interleaved(stages, microbatches, chunks))
    busy = 3 * microbatches * chunks
    size = (stages, microbatches, chunks)
    ratio = evaluate("bubble_ratio", schedule, *size)
    assert ratio == pytest.approx((time - busy) / busy, rel=1e-14)
    in_flight = evaluate("microbatches_in_flight", schedule, *size)
    assert in_flight == pytest.approx(peak / chunks, rel=1e-14)  # a chunk is a v-th of a stage


def zero_bubble(stages: int, microbatches: int, *, folded: bool) -> tuple[int, int]:
    """End of the last stage, and the most passes in flight on any stage.

    A stage runs what is ready: B before F before W. ZB-H1 starts no more forward passes than 1F1B.
    Folded (ZB-V), it holds the chunks s and 2 p - 1 - s, and starts a micro-batch where it has room
    for both, up to 2 p.
    """
    chunks = 2 * stages if folded else stages
    mine = [[s, chunks - 1 - s] if folded else [s] for s in range(stages)]
    done: dict[Op, int] = {}
    following = {kind: [0] * chunks for kind in "FBW"}
    held, promised, peak, time = [0] * stages, [0] * stages, 0, 0

    def ready(kind: str, chunk: int, stage: int) -> bool:
        i = following[kind][chunk]
        if i == microbatches:
            return False
        if kind == "F":
            fits = promised[stage] < stages - stage
            if folded:
                fits = chunk >= stages or promised[stage] + 2 <= 2 * stages
            return fits and (chunk == 0 or ("F", chunk - 1, i) in done)
        if kind == "B":
            return ("F", chunk, i) in done and (chunk == chunks - 1 or ("B", chunk + 1, i) in done)
        return ("B", chunk, i) in done

    while len(done) < 3 * chunks * microbatches:
        started = []
        for stage in range(stages):
            for kind in "BFW":
                found = [chunk for chunk in reversed(mine[stage]) if ready(kind, chunk, stage)]
                if found:
                    started.append((stage, kind, found[0]))
                    break
        time += 1
        for stage, kind, chunk in started:
            done[kind, chunk, following[kind][chunk]] = time
            following[kind][chunk] += 1
            if kind == "F":
                held[stage] += 1
                promised[stage] += (2 if chunk < stages else 0) if folded else 1
            elif kind == "B":
                held[stage] -= 1
                promised[stage] -= 1
            peak = max(peak, held[stage])
    return time, peak


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("microbatches", [1, 2, 3, 5, 8, 20])
def test_zb_h1(stages: int, microbatches: int) -> None:
    time, peak = zero_bubble(stages, microbatches, folded=False)
    busy = 3 * microbatches
    ratio = evaluate("bubble_ratio", "zb_h1", stages, microbatches)
    assert ratio == pytest.approx((time - busy) / busy, rel=1e-14)
    assert evaluate("microbatches_in_flight", "zb_h1", stages, microbatches) == peak
    if microbatches >= stages:  # a third of 1F1B's (Qi et al. 2023, table 2)
        third = evaluate("bubble_ratio", "1f1b", stages, microbatches) / 3
        assert ratio == pytest.approx(third, rel=1e-14)


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("microbatches", [1, 2, 3, 5, 8, 20])
def test_zb_v(stages: int, microbatches: int) -> None:
    time, peak = zero_bubble(stages, microbatches, folded=True)
    ratio = evaluate("bubble_ratio", "zb_v", stages, microbatches)
    assert ratio == pytest.approx(time / (6 * microbatches) - 1, rel=1e-14)
    assert evaluate("microbatches_in_flight", "zb_v", stages, microbatches) == peak / 2


def test_interleaving_with_an_uneven_group_is_only_a_bound() -> None:
    # 6 micro-batches on 4 stages: the last group of 2 leaves gaps that (p - 1) / (v m) lacks.
    time, _ = play(uneven := [[op for op in o if op[2] < 6] for o in interleaved(4, 8, 2)])
    assert all(len(order) == 2 * 6 * 2 for order in uneven)
    busy = 3 * 6 * 2
    assert (time - busy) / busy > evaluate("bubble_ratio", "interleaved", 4, 6, 2)


def test_one_stage_never_waits() -> None:
    scenario: dict[str, Any] = {"num_microbatches": 3, "pipeline_parallel": 1}
    scenario["recompute_flops_factor"] = 1.0
    schedules = ["gpipe", "1f1b", "interleaved", "zb_h1", "zb_v"]
    got = fleetcube.evaluate("bubble_ratio", pipeline_schedule=schedules, **scenario)
    assert list(got) == [0] * 5


def test_the_bubble_grows_with_the_stages_and_recurs_every_step() -> None:
    # A tutorial says "proportional to 1/PP stages"; the bubble is (p - 1) / (m + p - 1).
    fractions = fleetcube.evaluate(
        "bubble_fraction", num_microbatches=32, pipeline_parallel=[1, 2, 4, 8, 16]
    )
    assert list(fractions) == sorted(fractions)
    assert fractions[0] == 0
    # "500 steps, 16 stages: 3 %": it needs 500 micro-batches in each step, not 500 steps.
    assert bubble_ratio(16, 500, 1) == pytest.approx(0.03)
