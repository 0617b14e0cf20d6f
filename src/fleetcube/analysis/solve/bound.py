"""What a solution rests on: what keeps it from its target first, what that leaves of a site, and
what nobody stated; and the batch with which more GPUs, or fewer, can run."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fleetcube.analysis.assumptions import at_last, last_true
from fleetcube.analysis.nearest import BATCH, GPUS, at_place, nearest, nearest_batch
from fleetcube.analysis.sensitivity import frozen
from fleetcube.analysis.targets import Target, whole_unit
from fleetcube.formats.field_table import REPLICA
from fleetcube.grid.errors import InputError
from fleetcube.grid.result import Result
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import CUTS, OF_SITE, ROOM_REASONS, STEPS
from fleetcube.scenario.along_axes import values_along
from fleetcube.tables.tables import meanings, with_unit

from .solve import solve_spec

_FELT = 0.01  # share of an answer that is worth a line
_TRIED = 4  # whole replicas, from the target inwards


def solve_and_adjust(
    spec: dict[str, Any],
    unknown: str,
    target: Target,
    between: Sequence[Any] | None,
    whole: bool | None,
    settings: Settings,
    adjust: bool,
) -> tuple[Result, str]:
    """`solve_spec`; with `adjust` with the batch that frees the GPUs of one point, which the spec
    then has, and a line on it."""
    solutions = solve_spec(spec, unknown, target, between, whole, settings)
    if not adjust:
        return solutions, ""
    if unknown != GPUS or solutions[unknown].size > 1 or whole is not None or between is not None:
        raise InputError(f"a batch is adjusted for {GPUS} at one point; name one of each axis")
    scenario, answer = _at_last(spec, unknown, solutions[unknown])
    line, batch, towards = bound(scenario, unknown, target, between, answer)
    if batch != batch:
        return solutions, line
    other = {**spec, "scenario": {**scenario, BATCH: batch}, "axes": {}}
    freed = solve_spec(other, unknown, target, between, whole, settings)
    if answer == answer and not freed[unknown].item() * towards < answer * towards:
        return solutions, f"{line}, which does not come nearer to the target"
    spec["scenario"] = other["scenario"]
    return freed, f"with a batch of {batch:,.0f}"


def basis(
    spec: Mapping[str, Any],
    unknown: str,
    target: Target,
    between: Sequence[Any] | None,
    solved: Any,
    runs: bool,
) -> tuple[list[str], list[str]]:
    """Lines on the last solution: if all must run, what bound it, and what it leaves of a site; and
    lines on the inputs that nobody stated."""
    scenario, answer = _at_last(spec, unknown, solved)
    is_physics = bool(graph_of(scenario).application)
    line = bound(scenario, unknown, target, between, answer)[0] if runs and is_physics else ""
    sizes = dict(zip(map(str, solved.dims), solved.shape, strict=True))
    several = [name for name, size in sizes.items() if size > 1 and name in scenario]
    line = at_place({name: scenario[name] for name in several}, line)
    if answer != answer:
        return [line], []
    axes = {name: axis for name, axis in spec["axes"].items() if name != unknown}
    sweep = Evaluation({**spec["scenario"], unknown: answer}, axes, target.outputs)
    left = _left({**scenario, unknown: answer}) if is_physics and unknown == GPUS else ""
    assumed = at_last(sweep, solved.notnull())
    if assumed and target.chance == target.chance:  # the answer is at that chance
        median = Evaluation({**scenario, unknown: answer}, {}, [target.of])._result()[target.of]
        text = f"the median {with_unit(median.item(), str(median.attrs['units']), target.of)}"
        assumed[0] = assumed[0].replace("the answer", text)
    return [line, left], assumed


def _at_last(spec: Mapping[str, Any], unknown: str, solved: Any) -> tuple[dict[str, Any], float]:
    """The scenario at the last point with a solution, and that solution; NaN for none."""
    answered = solved.notnull()
    numbers = solved.values[answered.values]
    axes = make_axes(graph_of(spec["scenario"]), spec["axes"])
    others = [axis for name, axis in axes.items() if name != unknown]
    last = last_true(answered)
    along = values_along(others, [last.get(axis.name, 0) for axis in others])
    scenario = {**spec["scenario"], **along}
    answer = float(numbers[-1]) if numbers.size else math.nan
    return {name: value for name, value in scenario.items() if name != unknown}, answer


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


def bound(
    scenario: Mapping[str, Any],
    unknown: str,
    target: Target,
    between: Sequence[Any] | None,
    answer: float,
) -> tuple[str, float, int]:
    """Why a point's answer, NaN for none, is not the value that meets the target first, and what
    would let that run; empty if it is. The batch that frees GPUs, NaN for none; and 1 if the least
    value is asked for, -1 if the most."""
    spec = {"scenario": scenario, "axes": {}, "outputs": target.outputs}
    how = Settings("numpy", "include")
    alone = float(solve_spec(spec, unknown, target, between, False, how)[unknown].item())
    if math.isnan(alone) or not is_known({**scenario, unknown: alone}, {}, [REASON]):
        return "", math.nan, 0
    inwards, whole = (-1, math.floor) if not answer > alone else (1, math.ceil)
    first, unit, batch = alone, 1, 0.0
    if values.is_whole(PHYSICS, unknown) and math.isfinite(alone):
        at_first = Evaluation({**scenario, unknown: math.ceil(alone)}, {}, [REASON])
        problem, numbers = frozen(at_first._plan("numpy"))
        replica = math.prod(int(numbers.get(name, 1)) for name in REPLICA)
        unit = math.lcm(whole_unit(problem, unknown), replica if unknown in STEPS else 1)
        first = whole(round(alone / unit, 9)) * unit
        batch = numbers.get(BATCH, 0.0)  # 0: by phase
    if first <= 0 or abs(answer - first) <= _FELT * first:
        return "", math.nan, 0
    target_point = {**scenario, unknown: first}
    if unknown == GPUS and batch:
        return *_bound_gpus(target_point, batch, alone, unit * inwards), inwards
    why = nearest(target_point, target.of, fixed=unknown)
    shown = with_unit(first, values.unit_of(PHYSICS, unknown), unknown)
    text = f"{unknown} {shown} would meet the target and cannot run: {why}" if why else ""
    return text, math.nan, 0


def _bound_gpus(
    scenario: Mapping[str, Any], batch: float, alone: float, unit: int
) -> tuple[str, float]:
    """The same of GPUs, which site, contract or batch bind: by `unit` they leave the target."""
    job = Evaluation(scenario, {}, [REASON, *ROOM_REASONS])._result(Settings())
    for name, holds in ROOM_REASONS.items():
        if job[name].item() > 0:
            text = f"{alone:,.0f} GPUs would meet the target and are more than"
            return f"{text} {holds}", math.nan
    reasons = job[REASON]
    (why,) = meanings(reasons.attrs, reasons.values.reshape(1))
    text = f"{alone:,.0f} GPUs would meet the target and cannot run ({why})"
    for count in (scenario[GPUS] + unit * k for k in range(_TRIED)):
        near = nearest_batch({**scenario, GPUS: count}, batch) if count > 0 else None
        if near is not None:
            change = f"{near:,.0f} ({near / batch - 1:+.1%})"
            return f"{text}; {count:,} can with a batch of {change}", near
    if not CUTS & scenario.keys():
        return f"{text}: no layout is stated", math.nan
    return f"{text}, with no batch within a factor of two of {batch:,.0f}", math.nan
