"""Result of simulating a pipeline schedule: the passes of each stage and their times."""

from dataclasses import dataclass
from typing import NamedTuple


class Pass(NamedTuple):
    """One pass of one micro-batch through one piece of the model.

    `kind` is F (forward), B (backward; only the input gradient if the schedule splits it) or W
    (weight gradient); `piece` counts the model's pieces from its input. Overlapping forward and
    backward passes each have their share of the time, and both are done at its end.
    """

    kind: str
    piece: int
    microbatch: int
    start: float
    end: float
    overlaps: bool = False


@dataclass(frozen=True)
class SimulatedStep:
    """The times of one step, and the passes of each stage, as needed by pictures."""

    pipeline_schedule: str
    step_time: float
    bubble_ratio: float
    microbatches_in_flight: tuple[float, ...]
    stages: tuple[tuple[Pass, ...], ...]
