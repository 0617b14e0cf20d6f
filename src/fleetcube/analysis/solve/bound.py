"""What keeps a number of GPUs from coming as near to a target as the target alone allows, and the
batch that would free it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fleetcube.analysis.nearest import BATCH, GPUS, nearest_batch
from fleetcube.analysis.sensitivity import frozen
from fleetcube.analysis.targets import Target, whole_unit
from fleetcube.grid.errors import InputError
from fleetcube.grid.result import Result
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import CUTS, OF_SITE, SITE_REASON, STEPS
from fleetcube.scenario.along_axes import point
from fleetcube.tables.tables import meanings, with_unit

from .solve import solve_spec

_FELT = 0.01  # share of the GPUs that is worth a line
_TRIED = 4  # whole replicas, from the target inwards


def solve_and_bound(
    spec: dict[str, Any],
    unknown: str,
    target: Target,
    between: Sequence[Any] | None,
    whole: bool | None,
    settings: Settings,
    adjust: bool,
) -> tuple[Result, list[str]]:
    """`solve_spec`, and at one point what binds its GPUs besides the target, and what they leave of
    a site; with `adjust` for the batch that frees them, which the spec then has."""
    solutions = solve_spec(spec, unknown, target, between, whole, settings)
    if unknown != GPUS or solutions[unknown].size > 1 or whole is not None or between is not None:
        if adjust:
            raise InputError(f"a batch is adjusted for {GPUS} at one point; name one of each axis")
        return solutions, []
    axes = {name: axis for name, axis in spec["axes"].items() if name != unknown}
    scenario = point(Evaluation({**spec["scenario"], GPUS: 8}, axes, target.outputs))
    answer = float(solutions[unknown].item())
    line, batch, towards = bound(scenario, target, answer)
    if adjust and batch == batch:
        other = {**spec, "scenario": {**scenario, BATCH: batch}, "axes": {}}
        freed = solve_spec(other, unknown, target, between, whole, settings)
        if answer == answer and not freed[unknown].item() * towards < answer * towards:
            return solutions, [f"{line}, which does not come nearer to the target", ""]
        spec["scenario"] = scenario = other["scenario"]
        solutions, line = freed, f"with a batch of {batch:,.0f}"
    return solutions, [line, _left({**scenario, GPUS: solutions[unknown].item()})]


def _left(scenario: Mapping[str, Any]) -> str:
    """What a job leaves of a site whose power is known."""
    outputs = [name for pair in OF_SITE.items() for name in pair if name not in INPUTS]
    if not is_known(scenario, {}, outputs):
        return ""
    job = Evaluation(scenario, {}, outputs)
    (_, numbers), values = frozen(job._plan("numpy")), job._result(Settings("numpy"))
    numbers = {**numbers, **{name: values[name].item() for name in outputs}}
    left = {name: numbers[limit] - numbers[name] for name, limit in OF_SITE.items()}
    units = {name: str(values[name].attrs["units"]) for name in left}
    parts = [f"{n} {with_unit(v, units[n], n)}" for n, v in left.items() if 0 <= v < math.inf]
    over = [f"{with_unit(-v, units[n], n)} {n}" for n, v in left.items() if v < 0]
    lines = [f"left of the site: {', '.join(parts)}"] if parts else []
    lines += [f"warning: {', '.join(over)} more than the site has"] if over else []
    return "; ".join(lines)


def bound(scenario: Mapping[str, Any], target: Target, answer: float) -> tuple[str, float, int]:
    """What binds the GPUs that `solve` answers at a point, NaN for none, and the batch that frees
    them, NaN for none; empty if the target binds them. Last 1 if the fewest GPUs are asked for, -1
    if the most are."""
    _, replicas = STEPS[GPUS]
    stated = {name: value for name, value in scenario.items() if name != GPUS}
    if not is_known({**stated, GPUS: 8}, {}, [REASON, replicas]):
        return "", math.nan, 0
    spec = {"scenario": stated, "axes": {}, "outputs": target.outputs}
    alone = float(solve_spec(spec, GPUS, target, None, False, Settings())[GPUS].item())
    if math.isnan(alone):
        return "", math.nan, 0
    aligned = Evaluation({**stated, GPUS: math.ceil(alone)}, {}, [replicas, REASON])
    problem, numbers = frozen(aligned._plan("numpy"))
    replica = round(math.ceil(alone) / float(aligned._result(Settings())[replicas].item()))
    unit = math.lcm(max(replica, 1), whole_unit(problem, GPUS))
    inwards, whole = (-1, math.floor) if not answer > alone else (1, math.ceil)
    first, batch = whole(round(alone / unit, 9)) * unit, numbers.get(BATCH, 0)  # 0: by phase
    if not batch or first <= 0 or abs(answer - first) <= _FELT * first:
        return "", math.nan, 0
    job = Evaluation({**stated, GPUS: first}, {}, [REASON, SITE_REASON])._result(Settings())
    if job[SITE_REASON].item() > 0:
        text = f"{alone:,.0f} GPUs would meet the target and are more than the site holds"
        return f'{text}, which "allocated_gpus <= powered_gpus" fills', math.nan, 0
    reasons = job[REASON]
    (why,) = meanings(reasons.attrs, reasons.values.reshape(1))
    text = f"{alone:,.0f} GPUs would meet the target and cannot run ({why})"
    for count in (first + inwards * unit * k for k in range(_TRIED)):
        near = nearest_batch({**stated, GPUS: count}, batch) if count > 0 else None
        if near is not None:
            change = f"{near:,.0f} ({near / batch - 1:+.1%})"
            return f"{text}; {count:,} can with a batch of {change}", near, inwards
    if not CUTS & scenario.keys():
        return f"{text}: no layout is stated", math.nan, 0
    return f"{text}, with no batch within a factor of two of {batch:,.0f}", math.nan, 0
