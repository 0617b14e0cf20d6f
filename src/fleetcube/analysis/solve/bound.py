"""What keeps a number of GPUs from coming as near to a target as the target alone allows, and the
batch that would free it."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.analysis.layouts import in_command
from fleetcube.analysis.nearest import BATCH, GPUS, nearest_batch
from fleetcube.analysis.sensitivity import frozen
from fleetcube.analysis.targets import Target, whole_unit
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axes import make_axes
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import STEPS
from fleetcube.scenario.along_axes import point
from fleetcube.tables.tables import meanings

from .solve import solve_spec

_FELT = 0.01  # share of the count that is worth a line
_MOST_POINTS = 3
_TRIED = 4  # whole replicas, from the target inwards


@dataclass(frozen=True)
class Bound:
    """GPUs that a target alone allows, why they cannot run, and the next that can with a batch near
    the stated one; NaN where none was found."""

    alone: float
    reason: str
    count: float
    batch: float
    stated: float

    def __str__(self) -> str:
        text = f"the target alone allows {self.alone:,.0f} GPUs; {self.reason} there"
        if math.isnan(self.batch):
            return f"{text}, with each batch up to a factor of two from {self.stated:,.0f}"
        share = self.batch / self.stated - 1
        return f"{text}, and {self.count:,.0f} run with a batch of {self.batch:,.0f} ({share:+.1%})"


def bounds(spec: Mapping[str, Any], unknown: str, target: Target, found: Any) -> dict[str, Bound]:
    """`bound` at the first points of a spec, by their labels."""
    axes = {name: axis for name, axis in spec["axes"].items() if name != unknown}
    if unknown != GPUS or not is_known({**spec["scenario"], GPUS: 8}, axes, [REASON]):
        return {}
    sweep = Evaluation({**spec["scenario"], GPUS: 8}, axes, target.outputs)
    each, by_name = found[unknown], make_axes(sweep.graph, axes)
    lines = {}
    for place in itertools.islice(np.ndindex(*each.shape), _MOST_POINTS):
        at = dict(zip(map(str, each.dims), place, strict=True))
        one = bound(point(sweep, at), target, float(each.values[place]))
        labels = (f"{n} {in_command(by_name[n].labels[k])}" for n, k in at.items())
        lines |= {", ".join(labels): one} if one else {}
    return lines


def bound(scenario: Mapping[str, Any], target: Target, answer: float) -> Bound | None:
    """What binds the GPUs that `solve` answers at a point, NaN for none; None if the target does."""
    replicas = STEPS[GPUS][1]
    stated = {name: value for name, value in scenario.items() if name != GPUS}
    if not is_known({**stated, GPUS: 8}, {}, [REASON, replicas]):
        return None
    spec = {"scenario": stated, "axes": {}, "outputs": target.outputs}
    alone = float(solve_spec(spec, GPUS, target, None, False, Settings())[GPUS].item())
    if math.isnan(alone):
        return None
    sweep = Evaluation({**stated, GPUS: math.ceil(alone)}, {}, [replicas, REASON])
    problem, numbers = frozen(sweep._plan("numpy"))
    replica = round(math.ceil(alone) / float(sweep._result(Settings())[replicas].item()))
    unit = math.lcm(max(replica, 1), whole_unit(problem, GPUS))
    inwards, whole = (-1, math.floor) if not answer > alone else (1, math.ceil)
    first = whole(round(alone / unit, 9)) * unit
    if first <= 0 or abs(answer - first) <= _FELT * first:
        return None
    reasons = Evaluation({**stated, GPUS: first}, {}, [REASON])._result(Settings())[REASON]
    why = meanings(reasons.attrs, reasons.values.reshape(1))[0]
    batch = numbers[BATCH]
    for count in (first + inwards * unit * k for k in range(_TRIED)):
        near = nearest_batch({**stated, GPUS: count}, batch) if count > 0 else None
        if near is not None:
            return Bound(alone, why, count, near, batch)
    return Bound(alone, why, math.nan, math.nan, batch)
