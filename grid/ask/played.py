"""What playing a pipeline schedule gives: when each stage computes what."""

from dataclasses import dataclass
from typing import NamedTuple


class Pass(NamedTuple):
    """One pass of one micro-batch through one piece of the model.

    `kind` is F (forward), B (backward; the input gradient alone where the schedule splits it) or
    W (weight gradient); `piece` counts the model's pieces from its input. Where a forward and a
    backward pass overlap, each has its share of their time, and both are done at the end of it.
    """

    kind: str
    piece: int
    microbatch: int
    start: float
    end: float
    overlaps: bool = False


@dataclass(frozen=True)
class Played:
    """The times of one step, and the passes of each stage, as a picture needs them."""

    pipeline_schedule: str
    step_time: float
    bubble_ratio: float
    microbatches_in_flight: tuple[float, ...]
    stages: tuple[tuple[Pass, ...], ...]
