"""Play a pipeline schedule pass by pass: a check of the closed forms, and data for pictures."""

import itertools
import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fleetcube.analysis.simulated_step import Pass, SimulatedStep
from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.kernels.physics.inputs import INPUTS

_SPLIT = ("zb_h1", "zb_v", "dualpipe", "dualpipev")  # weight gradients are separate passes
MOST_MICROBATCHES = 1_000_000  # micro-batches x stages x pieces: a minute, and a gigabyte
_LONGEST = 1e200  # so that sums of times stay finite
_STEPS = 4  # played back to back, until steps follow each other at an even pace

Key = tuple[str, int, int]  # F, B, W or BW (both at once); position in the model; micro-batch
Orders = list[list[Key]]
Turn = tuple[Key, ...]  # one pass, or a forward and a backward pass that overlap
Turns = list[list[Turn]]


class PlayedSchedule(SimulatedStep):
    """Result of `simulate_schedule`: the times of one step, and when each stage computed what.

    `bubble_ratio` is the step time over the compute time of the busiest stage, minus 1, and so
    includes waiting for sends. `microbatches_in_flight` is each stage's peak of stored activations,
    in units of one micro-batch on the whole stage (in dualpipe on one of the rank's two stages).
    """

    def _repr_html_(self) -> str:
        from fleetcube.tables.html import record_html

        return record_html(self)

    def plot(self, path: str | Path, **look: Any) -> Any:
        """Draw the schedule into a file (.png, .pdf, .svg) and return the figure. `look` takes
        `title`, `size` and `dpi`."""
        from fleetcube.presentation.pictures.picture import picture_options
        from fleetcube.presentation.pictures.schedule_picture import draw_schedule

        with picture_options(**look):
            return draw_schedule(self, Path(path).expanduser())


def simulate_schedule(
    pipeline_schedule: str = "1f1b",
    *,
    pipeline_parallel: int,
    num_microbatches: int,
    virtual_stages: int = 1,
    microbatch_group_size: int | None = None,
    pipeline_scheduler: str = "megatron",
    forward_time: float = 1.0,
    input_gradient_time: float = 1.0,
    weight_gradient_time: float = 1.0,
    recompute_time: float = 0.0,
    overlapped_time: float | None = None,
    send_time: float | Sequence[float] = 0.0,
    piece_times: Sequence[float] | None = None,
    pipeline_sends: str = "auto",
    pipeline_flush: bool = True,
) -> PlayedSchedule:
    """Play a pipeline schedule: every pass starts when its stage is free and its input has arrived.

    No closed form behind `bubble_ratio` is used. Stages run their passes in the published order:
    GPipe and 1F1B; interleaved 1F1B of Megatron-Core or PyTorch, and Megatron-Core's with
    overlapped passes; hand-drawn ZB-H1; ZB-V as its authors' scheduler plans it for these times;
    DualPipe and DualPipeV of their authors. In dualpipe the first half of the micro-batches runs
    down the stages, the second half up.

    Args:
        pipeline_schedule: gpipe, 1f1b, interleaved, combined_1f1b, zb_h1, zb_v, dualpipe or
            dualpipev.
        pipeline_parallel: stages.
        num_microbatches: micro-batches of one step.
        virtual_stages: pieces of the model on each stage (1f1b, interleaved and combined_1f1b).
        microbatch_group_size: micro-batches that run through one piece after the other; by default
            pipeline_parallel, or PyTorch's own choice.
        pipeline_scheduler: megatron or pytorch; raises InputError for what it cannot run.
        forward_time: of one micro-batch through a whole stage, split evenly over its pieces.
        input_gradient_time: likewise.
        weight_gradient_time: likewise; part of the backward pass except in zb_h1, zb_v and some
            passes of dualpipe and dualpipev.
        recompute_time: of recomputed activations, right before the input gradient.
        overlapped_time: of an overlapped forward and backward pass through a whole stage (in
            combined_1f1b, dualpipe and dualpipev); by default the sum of both.
        send_time: of one activation or gradient over a boundary between stages; or one for each
            boundary, the last of them from the last stage to the first.
        piece_times: factors on the times above where pieces of the model differ, from the input on:
            1.5 for 50 % longer. One for each stage, or for each piece where stages hold several
            (those of interleaved stage s are s, s + p...).
        pipeline_sends: blocking (a stage that sends does nothing else), asynchronous, or auto:
            blocking if stages hold one piece of the model.
        pipeline_flush: False lets the next step begin on stages that are done; step_time is then
            the time between two steps.
    """
    p = _count("pipeline_parallel", pipeline_parallel)
    m = _count("num_microbatches", num_microbatches)
    chunks = _count("virtual_stages", virtual_stages)
    if microbatch_group_size is not None:
        microbatch_group_size = _count("microbatch_group_size", microbatch_group_size)
    _check_flag("pipeline_flush", pipeline_flush)
    _check_choice("pipeline_schedule", pipeline_schedule)
    _check_choice("pipeline_scheduler", pipeline_scheduler)
    _check_choice("pipeline_sends", pipeline_sends)
    pieces = dict.fromkeys(("1f1b", "interleaved", "combined_1f1b"), chunks)
    pieces |= {"zb_v": 2, "dualpipev": 2}
    v = pieces.get(pipeline_schedule, 1)
    _check_passes(p, m, v)
    sends = _each("send_time", send_time, p, "boundaries")
    scales = _each("piece_times", 1.0 if piece_times is None else piece_times, p * v, "pieces")
    weight = _time("weight_gradient_time", weight_gradient_time)
    backward = _time("recompute_time", recompute_time)
    backward += _time("input_gradient_time", input_gradient_time)
    backward += 0.0 if pipeline_schedule in _SPLIT else weight
    whole = {"F": _time("forward_time", forward_time), "B": backward, "W": weight}
    times = {kind: time / v for kind, time in {**whole, "BW": backward + weight}.items()}
    if pipeline_schedule == "combined_1f1b":
        turns = _combined(p, m, v, microbatch_group_size, pipeline_scheduler)
    elif v > 1 and pipeline_schedule in ("1f1b", "interleaved"):
        group = _group(p, m, microbatch_group_size, pipeline_scheduler)
        turns = _alone(_interleaved(p, m, v, group))
    else:
        turns = _published_order(pipeline_schedule, p, m, times)
    pair = times["F"] + times["BW" if pipeline_schedule in _SPLIT else "B"]
    several = v > 1 or pipeline_schedule == "dualpipe"
    blocks = pipeline_sends == "blocking" or (pipeline_sends == "auto" and not several)
    costs = Costs(times, scales, sends, _squeeze(overlapped_time, v, pair))
    stages = play(turns, costs, blocking=blocks)
    step = _ends(stages) if pipeline_flush else _flushless_step(turns, costs, blocks)
    work = max(sum(pass_.end - pass_.start for pass_ in passes) for passes in stages)
    return PlayedSchedule(
        pipeline_schedule,
        step,
        step / work - 1 if work else math.nan,
        tuple(_most_in_flight(order) / v for order in turns),
        tuple(tuple(passes) for passes in stages),
    )


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} = {shown(value)} is not True or False; give one")


def _check_passes(p: int, m: int, v: int) -> None:
    if p * m * v > MOST_MICROBATCHES:
        raise InputError(
            f"{m} micro-batches through {v} pieces on each of {p} stages are more than "
            f"{MOST_MICROBATCHES:,} forward passes to play; give fewer, or evaluate 'bubble_ratio'"
        )


def _squeeze(overlapped_time: float | None, pieces: int, pair: float) -> float:
    """Time of two overlapped passes over their sum."""
    if overlapped_time is None or not pair:
        return 1.0
    return _time("overlapped_time", overlapped_time) / pieces / pair


def _check_choice(name: str, choice: Any) -> None:
    if choice not in INPUTS[name].choices:
        listed = ", ".join(map(str, INPUTS[name].choices))
        hint = nearest(str(choice), INPUTS[name].choices, "choose one")
        raise InputError(f"{name} = {shown(choice)} is not one of {listed}; {hint}")


def _published_order(schedule: str, p: int, m: int, times: Mapping[str, float]) -> Turns:
    """The order of passes on each stage, where no group of micro-batches changes it."""
    if schedule == "dualpipe":
        return _dualpipe(p, m)
    if schedule == "dualpipev":
        return _dualpipev(p, m)
    if schedule == "zb_v":
        return _alone(_zb_v(p, m, times))
    orders = {"gpipe": _gpipe, "zb_h1": _zb_h1}
    return _alone(orders.get(schedule, _one_forward_one_backward)(p, m))


def _count(name: str, value: Any) -> int:
    plain = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not plain or not value >= 1 or value % 1:
        raise InputError(f"{name} = {shown(value)} is not a whole number from 1; change it")
    return int(value)


def _time(name: str, value: Any) -> float:
    """A number from 0; all times share one unit, whichever it is."""
    plain = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not plain or not 0 <= value <= _LONGEST:
        raise InputError(
            f"{name} = {shown(value)} is negative, too large or not a plain number; give all times "
            "as numbers in the same unit"
        )
    return float(value)


def _each(name: str, value: Any, count: int, places: str) -> list[float]:
    """One time for each of `count`; a single number applies to all."""
    several = isinstance(value, Iterable) and not isinstance(value, str | bytes)
    times = [
        _time(name, time) for time in (value if several and np.ndim(value) else [value] * count)
    ]
    if len(times) != count:
        raise InputError(f"{name} has {len(times)} times for {count} {places}; give one each")
    return times


def _ends(stages: Iterable[Sequence[Pass]]) -> float:
    return max(passes[-1].end for passes in stages)


def _most_in_flight(order: Iterable[Turn]) -> int:
    """The largest number of forward passes whose backward passes are pending at once."""
    steps = ({"F": 1, "W": 0}.get(kind, -1) for turn in order for kind, _, _ in turn)
    return max(itertools.accumulate(steps))


class Costs(NamedTuple):
    times: Mapping[str, float]  # by kind of pass
    scales: Sequence[float]  # by piece
    sends: Sequence[float]  # by boundary
    squeeze: float = 1.0  # of overlapped passes


def _flushless_step(turns: Turns, costs: Costs, blocks: bool) -> float:
    """Time between two steps where the next begins on stages that are done."""
    before, after = (
        _ends(play(turns, costs, blocking=blocks, steps=steps)) for steps in (_STEPS, _STEPS + 1)
    )
    return after - before


def play(turns: Turns, costs: Costs, *, blocking: bool, steps: int = 1) -> list[list[Pass]]:
    """Run each stage's list in order, each pass waiting for its inputs; return the passes by stage.
    A link between two stages takes one message at a time in each direction."""
    home = {key[1:]: stage for stage, order in enumerate(turns) for turn in order for key in turn}
    last = max(piece for piece, _ in home)
    ring = home.get((len(turns), 0)) == 0  # from the last stage on to the first
    done: dict[tuple[int, Key], tuple[float, float]] = {}  # end; arrival at the next stage
    link: dict[tuple[int, int], float] = defaultdict(float)
    clock = [0.0] * len(turns)
    played: list[list[Pass]] = [[] for _ in turns]
    left = [deque((step, turn) for step in range(steps) for turn in order) for order in turns]
    while any(left):
        before = sum(map(len, left))
        # Each stage advances as far as it can; a round without progress is a deadlock
        for stage, todo in enumerate(left):
            while todo:
                step, turn = todo[0]
                try:
                    inputs = [
                        done[step, need][home[need[1:]] != stage]
                        for key in turn
                        for need in _needs(key, last)
                    ]
                except KeyError:  # some inputs are missing
                    break
                todo.popleft()
                start = max([clock[stage], *inputs])
                squeeze = costs.squeeze if len(turn) > 1 else 1.0
                for kind, piece, microbatch in turn:
                    end = start + costs.times[kind] * costs.scales[piece] * squeeze
                    played[stage].append(
                        Pass(kind[0], piece, microbatch, start, end, len(turn) > 1)
                    )
                    start = end
                clock[stage] = end
                for kind, piece, microbatch in turn:
                    arrival = end
                    target = piece + {"F": 1, "W": 0}.get(kind, -1)
                    target_stage = home.get((target, microbatch), stage)
                    if target_stage != stage:
                        lower = stage if kind == "F" else target_stage
                        boundary = lower if ring else min(stage, target_stage)
                        way = (boundary, target_stage)
                        arrival = link[way] = max(end, link[way]) + costs.sends[boundary]
                        if blocking:
                            clock[stage] = max(clock[stage], arrival)
                    done[step, (kind[0], piece, microbatch)] = end, arrival
        if sum(map(len, left)) == before:
            raise InputError("the stages deadlock: each waits for another; change the schedule")
    return played


def _needs(key: Key, last: int) -> Iterator[Key]:
    kind, piece, microbatch = key
    if kind == "F" and piece:
        yield "F", piece - 1, microbatch
    if kind[0] == "B":
        yield "F", piece, microbatch
        if piece < last:
            yield "B", piece + 1, microbatch
    if kind == "W":
        yield "B", piece, microbatch


def _alone(orders: Orders) -> Turns:
    return [[(key,) for key in order] for order in orders]


def _gpipe(stages: int, microbatches: int) -> Orders:
    every = range(microbatches)
    return [[(kind, s, i) for kind in "FB" for i in every] for s in range(stages)]


def _alternating(forward: list[Key], backward: list[Key], ahead: int) -> list[Key]:
    """Run `ahead` forward passes, then alternate forward and backward, then drain the rest."""
    ahead = min(ahead, len(forward))
    turns = zip(forward[ahead:], backward, strict=False)
    drained = backward[len(forward) - ahead :]
    return [*forward[:ahead], *itertools.chain.from_iterable(turns), *drained]


def _one_forward_one_backward(stages: int, microbatches: int) -> Orders:
    return [
        _alternating(
            [("F", s, i) for i in range(microbatches)],
            [("B", s, i) for i in range(microbatches)],
            stages - 1 - s,
        )
        for s in range(stages)
    ]


def _group(stages: int, microbatches: int, size: int | None, scheduler: str) -> int:
    """Micro-batches per group, as the scheduler forms it; InputError for what it refuses."""
    if stages == 1:
        raise InputError("no scheduler runs virtual_stages > 1 on one stage; set it to 1")
    if scheduler == "pytorch":
        rounds = max(1, microbatches // stages)
        if microbatches % rounds:
            raise InputError(
                f"PyTorch runs {microbatches} micro-batches in {rounds} rounds, which do not "
                "divide them; change num_microbatches"
            )
        if size not in (None, microbatches // rounds):
            raise InputError(
                f"PyTorch runs {microbatches} micro-batches on {stages} stages in groups of "
                f"{microbatches // rounds}, not {size}: remove microbatch_group_size"
            )
        return microbatches // rounds
    if microbatches < stages:
        raise InputError(
            f"Megatron-Core cannot interleave {microbatches} micro-batches on {stages} stages; "
            "give at least as many as stages, or pipeline_scheduler = 'pytorch'"
        )
    group = stages if size is None else size
    if not stages <= group <= microbatches or 0 < microbatches % group < stages:
        raise InputError(
            f"Megatron-Core runs {microbatches} micro-batches on {stages} stages in groups of "
            f"{stages} to {microbatches}, with a remainder of 0 or at least {stages}, not {group}: "
            "change microbatch_group_size or num_microbatches"
        )
    return group


def _interleaved(stages: int, microbatches: int, chunks: int, group: int) -> Orders:
    """Groups of micro-batches that run through one chunk after the other."""
    turns = [
        (chunk, i)
        for first in range(0, microbatches, group)
        for chunk in range(chunks)
        for i in range(first, min(first + group, microbatches))
    ]
    return [
        _alternating(
            [("F", chunk * stages + s, i) for chunk, i in turns],
            [("B", (chunks - 1 - chunk) * stages + s, i) for chunk, i in turns],
            2 * (stages - 1 - s) + (chunks - 1) * group,
        )
        for s in range(stages)
    ]


def _combined(
    stages: int, microbatches: int, chunks: int, size: int | None, scheduler: str
) -> Turns:
    """Interleaved with one more warm-up pass; later forward passes overlap with backward passes."""
    if scheduler == "pytorch":
        raise InputError("PyTorch has no combined_1f1b; set pipeline_scheduler = 'megatron'")
    if stages > 1 and chunks == 1:
        raise InputError(
            "Megatron-Core overlaps passes of several stages where each holds several pieces of "
            "the model; set virtual_stages > 1"
        )
    group = 1 if stages == chunks == 1 else _group(stages, microbatches, size, scheduler)
    turns: Turns = []
    for s, order in enumerate(_interleaved(stages, microbatches, chunks, group)):
        forward = [key for key in order if key[0] == "F"]
        backward = [key for key in order if key[0] == "B"]
        ahead = min(2 * (stages - 1 - s) + (chunks - 1) * group + 1, len(forward))
        turns.append(
            [
                *((key,) for key in forward[:ahead]),
                *zip(forward[ahead:], backward, strict=False),
                *((key,) for key in backward[len(forward) - ahead :]),
            ]
        )
    return turns


def _zb_h1(stages: int, microbatches: int) -> Orders:
    """1F1B with weight gradients delayed by one micro-batch for each preceding stage."""
    orders = []
    for s, passes in enumerate(_one_forward_one_backward(stages, microbatches)):
        order: list[Key] = []
        for kind, piece, i in passes:
            order.append((kind, piece, i))
            if kind == "B" and i >= s:
                order.append(("W", piece, i - s))
        late = range(max(microbatches - s, 0), microbatches)
        orders.append(order + [("W", s, i) for i in late])
    return orders


def _zb_v(stages: int, microbatches: int, times: Mapping[str, float]) -> Orders:
    """ZB-V as planned by the scheduler of Qi et al., for the memory of 1F1B."""
    plan = _Folded(stages, microbatches, times)
    plan.warm_up()
    for _ in range(2 * microbatches):
        for stage, leg in plan.backward_turns():
            plan.append_pass("B", stage, leg, fill=True)
        for stage in range(stages):
            forward = plan.forward_leg(stage)
            if forward is not None:
                plan.append_pass("F", stage, forward, fill=True)
    for stage in range(stages):
        while plan.waiting[stage]:
            plan.put_weight(stage)
    return plan.orders


def _dualpipe(stages: int, microbatches: int) -> Turns:
    """Half of the micro-batches run down the stages, half up; a rank has one stage of each way."""
    if stages % 2 or microbatches % 2 or microbatches < 2 * stages:
        raise InputError(
            f"DualPipe runs an even number of stages, and an even number of micro-batches that is "
            f"at least twice theirs, not {microbatches} on {stages}: change num_microbatches or "
            "pipeline_parallel"
        )
    half = microbatches // 2
    turns: Turns = []
    for s in range(stages):
        outer = min(s, stages - 1 - s)  # distance from the nearer end of the pipeline
        ways = ((s, 0), (stages - 1 - s, half))  # its piece of each way, and the first micro-batch
        turns.append(_dual(stages // 2, outer, half, ways if s == outer else ways[::-1]))
    return turns


def _dualpipev(stages: int, microbatches: int) -> Turns:
    """One half of DualPipe, whose micro-batches return up the stages in place of the other half."""
    if microbatches < 2 * stages:
        raise InputError(
            f"DualPipeV runs at least twice as many micro-batches as stages, not {microbatches} on "
            f"{stages}; change num_microbatches or pipeline_parallel"
        )
    ends = 2 * stages - 1
    return [_dual(stages, s, microbatches, ((s, 0), (ends - s, 0))) for s in range(stages)]


def _dual(
    stages: int, stage: int, microbatches: int, ways: tuple[tuple[int, int], tuple[int, int]]
) -> list[Turn]:
    """A stage's passes of both ways, as DualPipe's authors list them. `ways`: piece of the model
    and number of the first micro-batch, for each direction."""
    count: Counter[tuple[str, int]] = Counter()
    waiting: deque[Key] = deque()
    turns: list[Turn] = []

    def key(kind: str, way: int) -> Key:
        piece, first = ways[way]
        count[kind[0], way] += 1
        return kind, piece, first + count[kind[0], way] - 1

    def place(kind: str, way: int) -> None:
        turns.append((key(kind, way),))
        if kind == "B":
            waiting.append(("W", *turns[-1][0][1:]))

    def pair(forward: int, backward: int) -> None:
        turns.append((key("F", forward), key("BW", backward)))

    def weight() -> None:
        turns.append((waiting.popleft(),))

    after = stages - 1 - stage
    for _ in range(2 * after):
        place("F", 0)
    for way in (0, 1) * (stage + 1):
        place("F", way)
    for _ in range(after):
        place("B", 1)
        weight()
        place("F", 1)
    for i in range(microbatches - 2 * stages + stage + 1):
        if i == 0 and after == 0:  # not overlapped, for a smaller bubble
            place("F", 0)
            place("BW", 1)
        else:
            pair(0, 1)
        pair(1, 0)
    for _ in range(after):
        place("BW", 1)
        pair(1, 0)
    # From the middle of these, weight gradients are delayed
    for i in range(2 * (stage + 1)):
        place("B" if i > stage else "BW", 1 - i % 2)
    for _ in range(after):
        weight()
        place("B", 0)
    while waiting:
        weight()
    return turns


class _Folded:
    """A pipeline down (leg 0) and back up (leg 1) the stages, planned pass by pass. Memory counts
    half activations of a piece: a forward pass takes two, each gradient frees one."""

    def __init__(self, stages: int, microbatches: int, times: Mapping[str, float]) -> None:
        self.stages, self.microbatches, self.times = stages, microbatches, times
        self.orders: Orders = [[] for _ in range(stages)]
        self.clock = [0.0] * stages
        self.in_flight = [0] * stages
        self.idle = [0.0] * stages
        self.end: dict[tuple[str, int, int, int], float] = {}  # kind, stage, leg, micro-batch
        self.count: Counter[tuple[str, int, int]] = Counter()  # passes by kind, stage and leg
        self.waiting: list[deque[tuple[int, int]]] = [deque() for _ in range(stages)]

    def awaited(self, kind: str, stage: int, leg: int) -> float | None:
        """When a leg's previous stage delivers the next input; None at the leg's first stage."""
        other = stage + 1 if leg else stage - 1
        if not 0 <= other < self.stages:
            return None
        return self.end.get((kind, other, leg, self.count[kind, stage, leg]), math.inf)

    def append_pass(self, kind: str, stage: int, leg: int, *, fill: bool = False) -> None:
        """Append a pass, preceded by weight gradients that fit in the gap or must free its memory.
        One more precedes a gradient on its way down if its stage would otherwise idle the longest.
        """
        awaited = self.awaited(kind, stage, leg)
        waiting, width = self.waiting[stage], self.times["W"]
        room = 4 * self.stages - (2 if kind == "F" else 0)
        while fill and waiting and self.in_flight[stage] > room:
            self.put_weight(stage)
        while fill and waiting and awaited is not None and awaited >= self.clock[stage] + width:
            self.put_weight(stage)
        spare = max(self.idle) - self.idle[stage]
        late = awaited is not None and awaited - self.clock[stage] > spare
        if fill and waiting and late and (kind, leg) == ("B", 1):
            self.put_weight(stage)
        number = self.count[kind, stage, leg]
        start = max(self.clock[stage], awaited or 0.0)
        if self.orders[stage]:
            self.idle[stage] += start - self.clock[stage]
        self.clock[stage] = self.end[kind, stage, leg, number] = start + self.times[kind]
        self.count[kind, stage, leg] += 1
        self.in_flight[stage] += 2 if kind == "F" else -1
        up = leg if kind == "F" else 1 - leg  # gradients come down where activations went up
        piece = 2 * self.stages - 1 - stage if up else stage
        self.orders[stage].append((kind, piece, number))
        if kind == "B":
            waiting.append((piece, number))

    def put_weight(self, stage: int) -> None:
        """Append the longest-waiting weight gradient."""
        self.orders[stage].append(("W", *self.waiting[stage].popleft()))
        self.clock[stage] += self.times["W"]
        self.in_flight[stage] -= 1

    def warm_up(self) -> None:
        """Forward passes until the first input gradient: required ones and those that fill gaps."""
        count, most = self.count, self.microbatches
        for stage in range(self.stages):
            self.append_pass("F", stage, 0)
        for stage in reversed(range(self.stages)):
            arrives = self.awaited("F", stage, 1)
            while (
                arrives is not None
                and self.in_flight[stage] + 4 * (stage + 1) <= 4 * self.stages
                and self.clock[stage] + self.times["F"] <= arrives
                and count["F", stage, 0] < most
            ):
                for above in range(stage + 1):
                    self.append_pass("F", above, 0)
            self.append_pass("F", stage, 1)
        leg = 0
        for stage in range(1, self.stages):

            def behind(stage: int = stage) -> bool:
                mine, theirs = ([count["F", s, way] for way in (0, 1)] for s in (stage, stage - 1))
                return sum(mine) < sum(theirs) or mine[1] <= theirs[1] < most

            while behind():
                for below in reversed(range(stage, self.stages)):
                    if count["F", below, leg] < most:
                        self.append_pass("F", below, leg)
                leg = 1 - leg

    def backward_turns(self) -> list[tuple[int, int]]:
        """The stages' next input gradients: first those going up the stages, then those down."""
        down: list[tuple[int, int]] = []
        up: list[tuple[int, int]] = []
        for stage in range(self.stages):
            goes_up = self.count["B", stage, 1] < self.count["B", stage, 0]
            if goes_up and stage < self.stages - 1:
                ready = self.awaited("B", stage, 1) != math.inf
                goes_up = ready or self.count["B", stage, 0] >= self.microbatches
            (up if goes_up else down).append((stage, int(goes_up)))
        return up[::-1] + down

    def forward_leg(self, stage: int) -> int | None:
        """The leg of a stage's next forward pass; None if there is none to run."""
        down, up = (self.count["F", stage, leg] for leg in (0, 1))
        if up >= self.microbatches:
            return None
        if up >= down:
            return 0
        if self.awaited("F", stage, 1) != math.inf:
            return 1
        free = down < self.microbatches and self.awaited("F", stage, 0) != math.inf
        return 0 if free else None
