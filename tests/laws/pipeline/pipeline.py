"""Pipeline bubbles, micro-batches in flight and exposed sends, against simulated schedules."""

import itertools
from collections.abc import Iterator
from functools import cache, partial
from typing import Any

from fleetcube import InputError, simulate_schedule
from fleetcube.kernels.laws import pipeline

from ... import formulas
from ..check import Pairs, check

PLAYED = "every pass of every stage played in the published order (fleetcube.simulate_schedule)"
against_schedules = partial(check, by="simulator", source=PLAYED)
# forward, input gradient, weight gradient, recompute
TIMES = ((1.0, 1.0, 1.0, 0.0), (1.0, 2.0, 0.5, 1.0), (3.0, 1.0, 0.25, 0.0))
SENDS = (0.01, 0.3)  # over a chunk's shortest pass: laws of asynchronous sends need short sends
STAGES = (2, 3, 4, 7, 8)
MICROBATCHES = (*range(1, 10), 12, 21, 24)  # multiples of all stages, and remainders


@cache
def played(times: tuple[float, ...] = TIMES[0], **layout: Any) -> Any:
    forward, gradient, weight, recompute = times
    given = {"forward_time": forward, "input_gradient_time": gradient}
    given |= {"weight_gradient_time": weight, "recompute_time": recompute, **layout}
    return simulate_schedule(**given)


def interleaved() -> Iterator[dict[str, Any]]:
    """Layouts that schedulers run: Megatron-Core's groups, and PyTorch with fewer micro-batches."""
    for p, v, m in itertools.product(STAGES, (2, 5), MICROBATCHES):
        layout = {"pipeline_parallel": p, "num_microbatches": m, "virtual_stages": v}
        if m % max(1, m // p) == 0:
            yield {**layout, "pipeline_scheduler": "pytorch"}
        for group in range(p, m + 1):
            if m % group == 0 or m % group >= p:
                yield {**layout, "microbatch_group_size": group}


@against_schedules(
    "bubble_ratio pipeline.bubble_fraction schedules.bubble_fraction flushed_bubble_ratio"
)
def plain_bubbles() -> Pairs:
    """GPipe and 1F1B: 1 to 8 stages, 1 to 24 micro-batches, three mixes of pass times"""
    for p, m, schedule, times in itertools.product(
        (1, *STAGES), MICROBATCHES, ("gpipe", "1f1b"), TIMES
    ):
        theirs = played(
            times, pipeline_schedule=schedule, pipeline_parallel=p, num_microbatches=m
        ).bubble_ratio
        yield 1 + formulas.flushed_bubble_ratio(p, m, 1), 1 + theirs
        yield pipeline.bubble_fraction(p, m, 1), theirs / (1 + theirs)
        yield (
            formulas.bubble_fraction(formulas.flushed_bubble_ratio(p, m, 1)),
            theirs / (1 + theirs),
        )


@against_schedules("bubble_ratio flushed_bubble_ratio")
def interleaved_bubbles() -> Pairs:
    """interleaved: 2 to 8 stages, 2 to 5 chunks, 1 to 24 micro-batches, every group that runs"""
    for layout in interleaved():
        p, m, v = (
            layout[name] for name in ("pipeline_parallel", "num_microbatches", "virtual_stages")
        )
        theirs = played(TIMES[1], pipeline_sends="asynchronous", **layout).bubble_ratio
        yield pipeline.bubble_ratio(p, m, v), theirs


@against_schedules(
    "one_forward_one_backward_microbatches_in_flight "
    "microbatches_in_flight_pipeline_schedule_gpipe zero_bubble_microbatches_in_flight "
    "pytorch_microbatch_group_size"
)
def microbatches_in_flight() -> Pairs:
    """all schedules: 1 to 8 stages, 1 to 24 micro-batches; interleaved in every group that runs"""
    for layout in interleaved():
        p, m, v = (
            layout[name] for name in ("pipeline_parallel", "num_microbatches", "virtual_stages")
        )
        group = layout.get("microbatch_group_size", formulas.pytorch_microbatch_group_size(p, m))
        held = played(TIMES[1], pipeline_sends="asynchronous", **layout).microbatches_in_flight
        law = formulas.one_forward_one_backward_microbatches_in_flight(p, m, v, group)
        yield law, max(held)
    for p, m in itertools.product((1, *STAGES), MICROBATCHES):
        layout = {"pipeline_parallel": p, "num_microbatches": m}
        yield (
            formulas.microbatches_in_flight_pipeline_schedule_gpipe(m),
            max(played(pipeline_schedule="gpipe", **layout).microbatches_in_flight),
        )
        yield (
            formulas.one_forward_one_backward_microbatches_in_flight(p, m, 1, p),
            max(played(**layout).microbatches_in_flight),
        )
        for schedule in ("zb_h1", "zb_v"):
            yield (
                formulas.zero_bubble_microbatches_in_flight(p, m),
                max(played(pipeline_schedule=schedule, **layout).microbatches_in_flight),
            )


@against_schedules("zb_h1_bubble_ratio")
def zb_h1_bubbles() -> Pairs:
    """1 to 8 stages, 1 to 24 micro-batches, none to all of the forward pass recomputed"""
    for p, m, again in itertools.product((1, *STAGES), MICROBATCHES, (0.0, 0.1, 0.5, 1.0)):
        theirs = played(
            (1.0, 1.0, 1.0, again),
            pipeline_schedule="zb_h1",
            pipeline_parallel=p,
            num_microbatches=m,
        ).bubble_ratio
        yield 1 + formulas.zb_h1_bubble_ratio(p, m, 1 + again / 3), 1 + theirs


def zb_v(again: float, microbatches: tuple[int, ...]) -> Pairs:
    laws = {True: formulas.flushed_folded_idle_passes, False: formulas.bypassed_folded_idle_passes}
    for p, m, flush in itertools.product((1, *STAGES), microbatches, (True, False)):
        given = {"pipeline_schedule": "zb_v", "pipeline_parallel": p, "num_microbatches": m}
        given |= {"pipeline_flush": flush, "pipeline_sends": "asynchronous"}
        theirs = played((1.0, 1.0, 1.0, again), **given).bubble_ratio
        factor = 1 + again / 3
        yield 1 + formulas.zb_v_bubble_ratio(laws[flush](p, m, factor), m, factor), 1 + theirs


@against_schedules("zb_v_bubble_ratio flushed_folded_idle_passes bypassed_folded_idle_passes")
def zb_v_bubbles() -> Pairs:
    """1 to 8 stages, 1 to 16 micro-batches, with flush and without, no recompute and full"""
    yield from zb_v(0.0, MICROBATCHES[:-2])
    yield from zb_v(1.0, MICROBATCHES[:-2])


@against_schedules(
    "zb_v_bubble_ratio flushed_folded_idle_passes bypassed_folded_idle_passes", tolerance=0.05
)
def zb_v_bubbles_between() -> Pairs:
    """step times, 1 to 9 micro-batches, an eighth and a half of the forward pass computed again"""
    yield from zb_v(0.125, MICROBATCHES[:-3:2])
    yield from zb_v(0.5, MICROBATCHES[:-3:2])


def waited(sends: str, **layout: Any) -> Iterator[float]:
    """Exposed sends of a step, simulated with and without them."""
    for times in TIMES[:2]:
        alone = played(times, **layout).step_time
        for send in SENDS:
            send *= min(times[0], sum(times[1:])) / layout.get("virtual_stages", 1)
            longer = played(times, send_time=send, pipeline_sends=sends, **layout).step_time
            yield (longer - alone) / send


@against_schedules(
    "gpipe_blocking_pipeline_sends one_forward_one_backward_blocking_pipeline_sends "
    "gpipe_asynchronous_pipeline_sends one_forward_one_backward_asynchronous_pipeline_sends"
)
def sends_waited_for() -> Pairs:
    """GPipe and 1F1B, 2 to 8 stages, 1 to 24 micro-batches, sends of 0.01 and 0.3 of a pass"""
    t = formulas
    for p, m in itertools.product(STAGES, MICROBATCHES):
        layout = {"pipeline_parallel": p, "num_microbatches": m}
        laws = (
            ("blocking", "gpipe", t.gpipe_blocking_pipeline_sends(p, m)),
            ("asynchronous", "gpipe", t.gpipe_asynchronous_pipeline_sends(p)),
            ("blocking", "1f1b", t.one_forward_one_backward_blocking_pipeline_sends(p, m, 1)),
            (
                "asynchronous",
                "1f1b",
                t.one_forward_one_backward_asynchronous_pipeline_sends(p, m, 1),
            ),
        )
        for sends, schedule, law in laws:
            for theirs in waited(sends, pipeline_schedule=schedule, **layout):
                yield law, theirs


@against_schedules("one_forward_one_backward_asynchronous_pipeline_sends")
def interleaved_sends_waited_for() -> Pairs:
    """interleaved with asynchronous sends, groups of p micro-batches, or fewer than p in all"""
    law = formulas.one_forward_one_backward_asynchronous_pipeline_sends
    for layout in interleaved():
        p, m, v = (
            layout[name] for name in ("pipeline_parallel", "num_microbatches", "virtual_stages")
        )
        if layout.get("microbatch_group_size", min(p, m)) == p and (m <= p or m % p == 0):
            for theirs in waited("asynchronous", **layout):
                yield law(p, m, v), theirs


@against_schedules(
    "one_forward_one_backward_blocking_pipeline_sends "
    "one_forward_one_backward_asynchronous_pipeline_sends zero_bubble_blocking_pipeline_sends "
    "zero_bubble_asynchronous_pipeline_sends"
)
def bounds_of_sends() -> Pairs:
    """interleaved and zero bubbles, 2 to 7 stages: simulated sends do not exceed the bound"""
    t = formulas
    for p, m, v in itertools.product((2, 4, 7), (1, 3, 8, 14), (2, 3)):
        layout = {"pipeline_parallel": p, "num_microbatches": m - m % max(1, m // p)}
        m = layout["num_microbatches"]
        laws = {
            "blocking": t.one_forward_one_backward_blocking_pipeline_sends(p, m, v),
            "asynchronous": t.one_forward_one_backward_asynchronous_pipeline_sends(p, m, v),
        }
        layout |= {"virtual_stages": v, "pipeline_scheduler": "pytorch"}
        for sends, law in laws.items():
            yield max(law, *waited(sends, **layout)), law
    for p, m, (schedule, v) in itertools.product(STAGES, MICROBATCHES, (("zb_h1", 1), ("zb_v", 2))):
        laws = {
            "blocking": t.zero_bubble_blocking_pipeline_sends(p, m, v),
            "asynchronous": t.zero_bubble_asynchronous_pipeline_sends(p, v),
        }
        layout = {"pipeline_parallel": p, "num_microbatches": m, "pipeline_schedule": schedule}
        for sends, law in laws.items():
            longer, alone = (
                played(send_time=send, pipeline_sends=sends, **layout).step_time
                for send in (0.125 / v, 0.0)
            )
            yield max(law, (longer - alone) * 8 * v), law


@check(
    "megatron_interleaving_reason pytorch_interleaving_reason interleaved_schedule_reason "
    "microbatch_group_size_pipeline_scheduler_megatron",
    by="simulator",
    source="megatron/core/pipeline_parallel/schedules.py and "
    "torch/distributed/pipelining/schedules.py, whose refusals the simulator repeats",
)
def what_no_scheduler_runs() -> Pairs:
    """1 to 7 stages, 1 to 11 micro-batches, 1 or 2 chunks, groups of 1 to 12: feasible if played"""
    t = f = formulas
    for p, m, v in itertools.product((1, 2, 4, 7), (1, 3, 4, 8, 11), (1, 2)):
        layout = {"pipeline_parallel": p, "num_microbatches": m, "virtual_stages": v}
        default = t.microbatch_group_size_pipeline_scheduler_megatron(p)
        cases = [
            (
                {"pipeline_scheduler": "pytorch"},
                f.pytorch_interleaving_reason(p, m, t.pytorch_microbatch_group_size(p, m)),
            ),
            ({}, f.megatron_interleaving_reason(p, m, default)),
        ]
        cases += [
            ({"microbatch_group_size": n}, f.megatron_interleaving_reason(p, m, n))
            for n in range(1, 13)
        ]
        cases += [
            (
                {"microbatch_group_size": n, "pipeline_scheduler": "pytorch"},
                f.pytorch_interleaving_reason(p, m, n),
            )
            for n in range(1, 13)
        ]
        for more, reason in cases:
            runs = True
            try:
                simulate_schedule(**layout, **more)
            except InputError:
                runs = False
            yield f.interleaved_schedule_reason(p, v, reason) == 0, runs


@check(
    "megatron_interleaving_reason pytorch_interleaving_reason pytorch_microbatch_group_size",
    by="derivation",
    source="the sentences that Megatron-LM (schedules.py) and PyTorch (pipelining/schedules.py) "
    "refuse a number of micro-batches with, as predicates of whole numbers",
)
def refusals() -> Pairs:
    """1 to 16 stages, 1 to 24 micro-batches, groups of 1 to 24"""
    f = t = formulas
    for p, m in itertools.product((1, 2, 3, 4, 8, 16), range(1, 25)):
        for group in range(1, 25):
            last = [k for k in range(m) if k // group == (m - 1) // group]
            ranges_in_p_to_m = group in range(p, m + 1)
            remainder_is_a_whole_pipeline = len(last) in (group, *range(p, group))
            runs = ranges_in_p_to_m and remainder_is_a_whole_pipeline
            yield f.megatron_interleaving_reason(p, m, group) == 0, runs
        rounds = len(range(p, m + 1, p)) or 1
        shared = [m // rounds] * rounds  # micro-batches of each round
        group = t.pytorch_microbatch_group_size(p, m)
        multiple_of_the_rounds = sum(shared) == m
        yield f.pytorch_interleaving_reason(p, m, group) == 0, multiple_of_the_rounds
        if multiple_of_the_rounds:
            yield group, shared[0]


@against_schedules("awaited_pipeline_time exposed_pipeline_parallel_time pipeline_parallel_time")
def steps_with_sends() -> Pairs:
    """GPipe and 1F1B, blocking, 2 to 8 stages, 1 to 24 micro-batches, sends of 0.01 to 3 passes"""
    t = formulas
    for p, m, send in itertools.product(STAGES, MICROBATCHES, (0.01, 0.3, 3.0)):
        compute, bubble = 3.0 * m, 3.0 * m * formulas.flushed_bubble_ratio(p, m, 1)
        for schedule, sends in (
            ("gpipe", t.gpipe_blocking_pipeline_sends(p, m)),
            ("1f1b", t.one_forward_one_backward_blocking_pipeline_sends(p, m, 1)),
        ):
            awaited = t.awaited_pipeline_time(sends, send, 0.0)
            every = t.pipeline_parallel_time(p, 1, m, send, 0.0)
            waits = t.exposed_pipeline_parallel_time(awaited, every, compute, 0.0, bubble, 0.0, 0.0)
            given = {"pipeline_schedule": schedule, "pipeline_parallel": p, "num_microbatches": m}
            given |= {"send_time": send, "pipeline_sends": "blocking"}
            theirs = played(TIMES[0], **given).step_time
            yield compute + bubble + waits, theirs
