"""Pipelines whose passes overlap, against simulated schedules and the published table."""

import itertools
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from fleetcube import InputError, simulate_schedule
from fleetcube.kernels.laws import pipeline

from ... import formulas
from ...evaluated import computed
from ..check import Pairs, check

PLAYED = "every pass of every rank played in its authors' order (fleetcube.simulate_schedule)"
against_schedules = partial(check, by="simulator", source=PLAYED)
AGAIN = (0.0, 0.1, 0.5, 1.0)  # of the forward pass, computed again


def dual() -> Iterator[tuple[dict[str, Any], int, int, int]]:
    """Layouts that DualPipe and DualPipeV run, with p, m and chunks v on each stage."""
    for p, more in itertools.product((2, 4, 6, 8, 14), (0, 2, 10)):
        m = 2 * p + more
        layout = {"pipeline_parallel": p, "num_microbatches": m, "pipeline_schedule": "dualpipe"}
        yield layout, p, m, 1
    for p, more in itertools.product((1, 2, 3, 5, 8), (0, 1, 7)):
        m = 2 * p + more
        layout = {"pipeline_parallel": p, "num_microbatches": m, "pipeline_schedule": "dualpipev"}
        yield layout, p, m, 2


def combined() -> Iterator[tuple[dict[str, Any], int, int, int, int]]:
    """Layouts that Megatron-Core runs, with p, m, chunks v and groups of N micro-batches."""
    for m in (1, 2, 7):
        yield {"pipeline_parallel": 1, "num_microbatches": m}, 1, m, 1, 1
    for p, v, k in itertools.product((2, 3, 4, 7), (2, 3), (1, 2, 3)):
        m = k * p
        for group in {p, m, p + 1} if m > p + 1 and m % (p + 1) in (0, p) else {p, m}:
            layout = {"pipeline_parallel": p, "num_microbatches": m, "virtual_stages": v}
            yield {**layout, "microbatch_group_size": group}, p, m, v, group


def played(again: float = 0.0, **layout: Any) -> Any:
    layout = {"pipeline_schedule": "combined_1f1b", "pipeline_sends": "asynchronous", **layout}
    return simulate_schedule(recompute_time=again, **layout)


@against_schedules("dual_bubble_ratio dual_idle_passes dual_microbatches_in_flight")
def dual_bubbles() -> Pairs:
    """2 to 14 stages in both directions, 1 to 8 folded, m from 2 p on, none to full recompute"""
    for (layout, p, m, v), again in itertools.product(dual(), AGAIN):
        theirs = played(again, **layout)
        factor = 1 + again / 3
        yield 1 + formulas.dual_bubble_ratio(p, m, v, factor), 1 + theirs.bubble_ratio
        idle = (theirs.step_time - m * (3 + again)) * v
        yield 1 + pipeline.dual_idle_passes(v * p / 2, factor), 1 + idle
        yield formulas.dual_microbatches_in_flight(p, v), max(theirs.microbatches_in_flight)
        yield formulas.dual_microbatches_in_flight(p, v), min(theirs.microbatches_in_flight)


@check(
    "dual_idle_passes dual_microbatches_in_flight",
    by="table",
    source="DeepSeek-AI 2024, arXiv:2412.19437, table 2: bubble (PP/2 - 1) (F&B + B - 3 W), "
    "activations PP + 1; passes F, input and weight gradients of one length",
)
def table_of_deepseek() -> Pairs:
    """2 to 16 stages; with everything computed again the table has a weight gradient more"""
    for p in (2, 4, 8, 16):
        forward = weight = 1
        backward = 1 + weight
        printed = (p / 2 - 1) * (forward + backward + backward - 3 * weight)
        yield pipeline.dual_idle_passes(p / 2, 1.0), printed
        again = (p / 2 - 1) * (forward + 3 + 3 - 3 * weight)
        yield pipeline.dual_idle_passes(p / 2, 4 / 3), max(0, again - weight)
        yield formulas.dual_microbatches_in_flight(p, 1), p + 1


@against_schedules("flushed_bubble_ratio one_forward_one_backward_microbatches_in_flight")
def combined_bubbles() -> Pairs:
    """1 to 7 stages, 1 to 3 chunks, groups of p micro-batches to all of them"""
    for layout, p, m, v, group in combined():
        theirs = played(**layout)
        yield 1 + formulas.flushed_bubble_ratio(p, m, v), 1 + theirs.bubble_ratio
        if v > 1 or p == 1:  # of two passes that overlap one fills what the other empties
            law = formulas.one_forward_one_backward_microbatches_in_flight(p, m, v, group)
            more = played(**{**layout, "num_microbatches": 8 * group * p})
            yield law, min(m, more.microbatches_in_flight[0] - 1 / v)


def with_traffic(
    law: Any, there: float, back: float, share: float, again: float, slots: int, **layout: Any
) -> tuple[float, float]:
    """A step by law and simulated, with traffic per pass; pairs hide as much as they compute."""
    alone = 3 + again
    exposed = max(0.0, there + back - share * alone)
    given = {"forward_time": 1 + there, "input_gradient_time": 1 + back, "recompute_time": again}
    given |= {"overlapped_time": alone + exposed, "pipeline_sends": "asynchronous", **layout}
    theirs = simulate_schedule(**given).step_time
    factor = 1 + again / 3
    exchanges = 2 * (there + back) / there
    whole = [layout["num_microbatches"] * time for time in (there + back, alone)]
    more = law([whole[0], share, whole[1], 0.0, 0.0, exchanges, factor])
    waits = formulas.routed_exposed_expert_parallel_time(whole[0], share, whole[1], 0.0, 0.0, more)
    return whole[1] + waits, theirs


TRAFFIC = (0.1, 0.6, 1.4)  # of a forward pass, during it


@against_schedules("combined_unpaired_expert_time routed_exposed_expert_parallel_time")
def combined_traffic() -> Pairs:
    """1 to 7 stages, traffic of 0.1 to 1.4 forward passes, hidden by none or all of compute"""
    yield from beside_pairs(lambda m, p: p == 1 or m >= 2 * p - 1)


@against_schedules("combined_unpaired_expert_time", tolerance=0.02)
def combined_traffic_of_a_group() -> Pairs:
    """as many micro-batches as stages: fewer pairs wait for backward passes than by the law"""
    yield from beside_pairs(lambda m, p: m == p > 1)


def beside_pairs(asked: Any) -> Pairs:
    for (layout, p, m, v, group), there, share in itertools.product(
        combined(), TRAFFIC, (0.0, 0.4, 1.0)
    ):
        if not asked(m, p):
            continue

        def law(point: list[float], at: Any = (p, m, v, group)) -> Any:
            return formulas.combined_unpaired_expert_time(*point, *at)

        ours, theirs = with_traffic(
            law, there, there, share, 0.0, v * m, pipeline_schedule="combined_1f1b", **layout
        )
        bubble = formulas.flushed_bubble_ratio(p, m, v)
        yield (1 + bubble) * ours, theirs


@against_schedules("dual_unpaired_expert_time routed_exposed_expert_parallel_time")
def dual_traffic() -> Pairs:
    """traffic of 0.1 to 1.4 forward passes, hidden by none or all of compute, some repeated"""
    for (layout, p, m, v), there, share, again in itertools.product(
        dual(), TRAFFIC, (0.0, 0.4, 1.0), (0.0, 1.0)
    ):
        bubble = formulas.dual_bubble_ratio(p, m, v, 1 + again / 3)

        def law(point: list[float], at: Any = (p, m, v, bubble)) -> Any:
            return formulas.dual_unpaired_expert_time(*point, *at)

        back = there * (1 + again)
        ours, theirs = with_traffic(law, there, back, share, again, v * m, **layout)
        yield (1 + bubble) * ours, theirs


def waited(**layout: Any) -> Iterator[float]:
    """Exposed sends of a step, simulated with and without them; passes of 1 and other times."""
    pieces = 2 if layout["pipeline_schedule"] == "dualpipev" else layout.get("virtual_stages", 1)
    for gradient, weight in ((1.0, 1.0), (2.0, 1.0), (2.0, 0.5)):
        times = {"input_gradient_time": gradient, "weight_gradient_time": weight}
        alone = simulate_schedule(**times, **layout).step_time
        send = 0.3 * weight / pieces
        yield (simulate_schedule(send_time=send, **times, **layout).step_time - alone) / send


@against_schedules("combined_asynchronous_pipeline_sends")
def combined_sends() -> Pairs:
    """2 to 7 stages in groups of p micro-batches, twice as many or more in all"""
    for layout, p, m, v, group in combined():
        law = formulas.combined_asynchronous_pipeline_sends(p, m, v)
        if group == p < m or p == 1:
            layout |= {"pipeline_schedule": "combined_1f1b", "pipeline_sends": "asynchronous"}
            for theirs in waited(**layout):
                yield law, theirs


@against_schedules(
    "combined_asynchronous_pipeline_sends dual_asynchronous_pipeline_sends "
    "one_forward_one_backward_blocking_pipeline_sends zero_bubble_blocking_pipeline_sends"
)
def bounds_of_sends() -> Pairs:
    """1 to 14 stages: simulated sends do not exceed the bound"""
    for layout, p, m, v, _ in combined():
        if p == 7 or v == 3:
            continue
        layout |= {"pipeline_schedule": "combined_1f1b"}
        law = formulas.combined_asynchronous_pipeline_sends(p, m, v)
        yield max(law, *waited(pipeline_sends="asynchronous", **layout)), law
        law = formulas.one_forward_one_backward_blocking_pipeline_sends(p, m, v)
        yield max(law, *waited(pipeline_sends="blocking", **layout)), law
    for layout, p, m, v in dual():
        if m > 2 * p + 2:
            continue
        law = formulas.dual_asynchronous_pipeline_sends(p, m, v)
        yield max(law, *waited(pipeline_sends="asynchronous", **layout)), law
        law = formulas.zero_bubble_blocking_pipeline_sends(p, m, v)
        yield max(law, *waited(pipeline_sends="blocking", **layout)), law


@check(
    "combined_schedule_reason dualpipe_schedule_reason dualpipev_schedule_reason",
    by="simulator",
    source="dualpipe/dualpipe.py, dualpipe/dualpipev.py and megatron/core, whose refusals the "
    "simulator repeats",
)
def what_does_not_run() -> Pairs:
    """1 to 5 stages, 1 to 12 micro-batches, 1 or 2 chunks, groups of 1 to 8: feasible if played"""
    f = formulas
    for p, m in itertools.product(range(1, 6), range(1, 13)):
        layout = {"pipeline_parallel": p, "num_microbatches": m}
        cases = [
            ({"pipeline_schedule": "dualpipe"}, f.dualpipe_schedule_reason(p, m)),
            ({"pipeline_schedule": "dualpipev"}, f.dualpipev_schedule_reason(p, m)),
        ]
        for v, group in itertools.product((1, 2), (1, 2, 4, 5, 8)):
            more = {"virtual_stages": v, "microbatch_group_size": group}
            reason = f.combined_schedule_reason(p, m, v, group, 0, 2)
            cases.append(({"pipeline_schedule": "combined_1f1b", **more}, reason))
        for more, reason in cases:
            runs = True
            try:
                simulate_schedule(**layout, **more)
            except InputError:
                runs = False
            yield reason == 0, runs
    yield f.combined_schedule_reason(1, 4, 1, 1, 1, 2) == 17, True  # everything computed again
    yield f.combined_schedule_reason(1, 4, 1, 1, 0, 1) == 17, True  # no experts elsewhere


@check(
    "mirrored_parameter_copies even_held_parameters even_sharded_parameters "
    "dense_mean_reduced_parameters expert_mean_reduced_parameters mean_reduced_expert_parameters "
    "one_site_gradient_ranks even_logits_memory",
    by="derivation",
    source="stages written down for each GPU, and GPUs counted that hold them",
)
def both_ways() -> Pairs:
    """4 stages both ways, 2 to 16 replicas, dense and with experts: GPUs that hold each stage"""
    p = 4
    for replicas in (2, 16):
        holds = [{s, p - 1 - s} for _ in range(replicas) for s in range(p)]
        ranks = Counter(stage for stages in holds for stage in stages)
        point: dict[str, Any] = {"n_gpus": len(holds), "pipeline_parallel": p, "layers": 8}
        point |= {"hidden_size": 1024, "pipeline_schedule": "dualpipe", "stage_split": False}
        names = ["gradient_ranks", "held_parameters", "sharded_parameters", "reduced_parameters"]
        got = computed(point, *names, "parameters", "logits_memory")
        yield got[0], ranks[0]
        yield got[1], len(holds[0]) * got[4] / p
        yield got[2] * len(holds), got[4]  # each optimizer state exists exactly once
        yield got[3], len(holds[0]) * got[4] / p
        yield got[5], 4 * 4096 * 51200  # of the last stage, on the GPUs of the first
        e = 2
        point |= {"experts": 4, "expert_parallel": e}
        more = [*names, "parameters", "routed_parameters", "expert_gradient_ranks"]
        n, held, sharded, reduced, every, routed, experts = computed(point, *more)
        here = len(holds[0]) / p  # of all layers
        yield experts, ranks[0] / e
        yield held, here * (every - routed + routed / e)
        yield sharded * len(holds), every
        sent = here * ((every - routed) * (n - 1) / n + routed / e * (1 - e / n))
        yield reduced * (n - 1) / n, sent
