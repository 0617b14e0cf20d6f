"""Targets and conditions, and the one rule of every answer.

An answer is a point whose `infeasible_reason` is 0, that fits in memory even if the model of it is
wrong by its error where the search decides that, and that keeps to the conditions asked for.
`Settings(infeasible=...)` chooses otherwise (decision 57).
"""

import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from fleetcube.grid.errors import InputError, check_texts, nearest, shown
from fleetcube.grid.plan import tiles
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.reduce.search import WORTH
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.run.stream import Room
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.grid.spec.problem import Problem
from fleetcube.kernels.calculus.derivatives import is_quantity
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import ALSO_REASONS, FACTORS, HEADROOM, LIMITS, NEAR, UNITS
from fleetcube.scenario import dates

Kind = TypeVar("Kind", bound=Evaluation)
Names = str | Sequence[str]
_SHARE = 1000  # points searched, for each that is judged beforehand
_TARGET = re.compile(r"\s*(\w+)\s*(<=|>=|==|=)\s*(.*\S)\s*")
_CHANCE = re.compile(r"(.*\S)\s+with\s+([0-9]+(?:\.[0-9]+)?)\s*%\s*")


@dataclass(frozen=True)
class Target:
    """A condition: an output, a relation ("=", "<=", ">="), a number or an output, and the
    probability with which it must hold; without one the predicted value must."""

    of: str
    relation: str
    level: float | str
    unit: str  # of a level that is a number
    chance: float = math.nan

    @property
    def outputs(self) -> list[str]:
        return [self.of, self.level] if isinstance(self.level, str) else [self.of]

    def __str__(self) -> str:
        level = self.level if isinstance(self.level, str) else f"{self.level:g}"
        return f"{self.of} {self.relation} {level} {'' if self.unit == '1' else self.unit}".strip()


def read_target(graph: Graph, target: Any) -> Target:
    """Read a target from text ("job_time <= 30 d", "step_time = compute_time", "job_time <= 30 d
    with 90 %") or {name: value}."""
    relation = "="
    if isinstance(target, str) and (match := _CHANCE.fullmatch(target)):
        aim, chance = read_target(graph, match[1]), float(match[2]) / 100
        one = aim.chance != aim.chance and not isinstance(aim.level, str)
        if aim.relation == "=" or not one or not 0.5 <= chance < 1:
            rule = "a bound that is a number holds with one chance of 50 % or more, below 100 %"
            raise InputError(f'{shown(target)}: {rule}; write "job_time <= 30 d with 90 %"')
        return replace(aim, chance=chance)
    if isinstance(target, Mapping) and len(target) == 1:
        ((name, level),) = target.items()
    elif isinstance(target, str) and (match := _TARGET.fullmatch(target)):
        name, relation, level = match.groups()
    else:
        raise InputError(
            f"{shown(target)} is not a condition: an output, one of <=, >= and =, and a value; "
            'write "job_time <= 30 d"'
        )
    is_output = isinstance(name, str) and is_quantity(graph, name)
    if not is_output or values.unit_of(graph, name) == "flag":
        if name in graph.inputs:
            raise InputError(
                f"target: {name} is an input, not an output; choose its values: {name}=..."
            )
        choices = [n for n in graph.quantities if values.unit_of(graph, n) != "flag"]
        raise InputError(
            f"target: {shown(name)} is not a numeric output; {nearest(str(name), choices)}"
        )
    if isinstance(level, str) and is_quantity(graph, level):
        if values.unit_of(graph, level) != values.unit_of(graph, name):
            raise InputError(
                f"target: {name} is in {values.unit_of(graph, name)} and {level} in "
                f"{values.unit_of(graph, level)}; compare like with like"
            )
        return Target(name, relation.replace("==", "="), level, "")
    number = 0.0 if level == "0" else values.number(graph, name, level)
    if not math.isfinite(number):
        raise InputError(f"target: {name} = {shown(level)} is not finite; give a finite target")
    return Target(name, relation.replace("==", "="), number, values.unit_of(graph, name))


def read_condition(graph: Graph, argument: str, text: Any) -> Target:
    """Read a bound, such as "job_time <= 30 d", for an argument that takes no equations."""
    condition = read_target(graph, text)
    if condition.relation == "=":
        raise InputError(f"{argument}: {shown(text)} is an equation; write <= or >=")
    return condition


def conditions_of(
    scenario: Mapping[str, Any], where: Names, with_chance: bool = False
) -> list[Target]:
    """Read the bounds of `where`; a date of `finish` counts from the start of the scenario."""
    since, graph = dates.start_of(scenario), graph_of(scenario)
    texts = check_texts("where", where)
    bounds = [read_condition(graph, "where", dates.as_time(text, since)) for text in texts]
    if not with_chance and any(each.chance == each.chance for each in bounds):
        raise InputError("where: plan and solve answer with a chance; leave out 'with ... %' here")
    return bounds


def other_reasons(problem: Problem, plan: Plan) -> list[str]:
    """Feasibility reasons other than the layout's that apply to these outputs."""
    reasons = []
    for reason, size in ALSO_REASONS.items():
        if size in plan.structure.used and judges(problem, reason):
            reasons.append(reason)
    return reasons


def factors(plan: Plan) -> list[str]:
    """Quantities without which those asked for mislead: the speed of an elastic job."""
    return [
        factor
        for name, (option, factor) in FACTORS.items()
        if name in plan.outputs and any(case.options.get(option) for case in plan.cases)
        if judges(plan.problem, factor)
    ]


def judges(problem: Problem, reason: str, *free: str) -> bool:
    """True if a reason can be evaluated, given the free inputs."""
    with contextlib.suppress(InputError):
        return bool(Plan(problem, [reason], "numpy", free=free).outputs)
    return False


def whole_unit(problem: Problem, name: str) -> int:
    """The step of a count: GPUs come in whole nodes of `gpus_per_node`."""
    unit = UNITS.get(without_phase(name), "")
    rows: list[Any] = [problem.constants.get(unit, 1.0)]
    rows += [axis.numbers[unit] for axis in problem.axes if unit in axis.numbers]
    sizes = {round(size) for row in rows for size in np.ravel(row) if size >= 1}
    return math.lcm(*sizes)


def check_trains(sweep: Evaluation, question: str, action: str = "; leave it out") -> None:
    """Refuse a question that only training jobs have for a graph of others."""
    if not sweep.graph.application:
        raise InputError(f"{question} is for training jobs, not for {sweep.graph.name}{action}")


def with_headroom(sweep: Kind, searched: Mapping[str, Any]) -> Kind:
    """The sweep with `memory_headroom` on, if the searched inputs decide whether a job fits in
    memory and the spec does not state it."""
    spec: Any = sweep.spec
    scenario = {name: value for name, value in spec["scenario"].items() if name not in searched}
    axes = {**spec["axes"], **searched}
    stated = HEADROOM in {*scenario, *axes} or HEADROOM not in sweep.graph.inputs
    if stated or not is_known(scenario, axes, [NEAR]):
        return sweep
    plan = sweep.replace(scenario=scenario, axes=axes, outputs=[NEAR])._plan("numpy")
    decided = not searched.keys().isdisjoint(plan.out_dims[NEAR])
    return sweep.replace(scenario={**spec["scenario"], HEADROOM: True}) if decided else sweep


def with_memory_margin(sweep: Kind) -> Kind:
    """The sweep with `near_memory_limit`, where `infeasible_reason` rests on a limit of memory."""
    plan = sweep._plan()
    bounds = {bound for bound, _ in LIMITS.values()} if NEAR in plan.graph.quantities else ()
    limited = REASON in plan.outputs and any(
        np.isfinite(leaf).any()
        for case in plan.cases
        for name, leaf in case.leaves.items()
        if without_phase(name) in bounds
    )
    if not limited or NEAR in sweep._outputs:
        return sweep
    return sweep.with_outputs([*sweep._outputs, NEAR])


def near_memory(sweep: Evaluation, most: float = math.inf) -> dict[str, Any]:
    """A coordinate that marks points near the memory limit; empty without a limit, or if it has
    more than `most` points."""
    if with_memory_margin(sweep) is sweep:
        return {}
    near = sweep.with_outputs([NEAR])
    if near._plan("numpy").size(NEAR) > most:
        return {}
    return {NEAR: near.evaluate(settings=Settings("numpy"))[NEAR]}


def judged(
    sweep: Kind, names: Sequence[str], where: Names, settings: Settings, only: bool
) -> tuple[Kind, list[Target]]:
    """A sweep with the outputs, those of conditions and the feasibility reason, and the conditions;
    with `only` also conditions on reasons that the plan does not mask by."""
    spec: Any = sweep.spec
    conditions = conditions_of(spec["scenario"], where)
    read = [*names, *(name for each in conditions for name in each.outputs)]
    if settings.infeasible in ("exclude", "mark") and is_known(
        spec["scenario"], spec["axes"], [REASON]
    ):
        read.append(REASON)
    moved = sweep.with_outputs(list(dict.fromkeys(read)))
    plan = moved._plan(settings.engine, settings._mask)
    also = other_reasons(moved._problem, plan) if only else []
    conditions += [Target(name, "<=", 0.0, "1") for name in also]
    return moved.with_outputs([*moved._outputs, *also]) if also else moved, conditions


def narrowed(sweep: Kind, over: Names | None) -> Kind:
    """The sweep cut to one point of each searched axis if no point can run. This is quick to see if
    few axes decide it; a search would see it only at its end."""
    if sweep.points < WORTH or REASON not in sweep._plan().outputs:
        return sweep
    plan = sweep.with_outputs(REASON)._plan()
    if plan.size(REASON) * _SHARE > sweep.points or _some_run(plan):
        return sweep
    searched = sweep._sizes if over is None else check_texts("over", over)
    axes = make_axes(plan.graph, sweep.spec["axes"])
    one = {n: axis.cut(np.arange(1)) if n in searched else axis for n, axis in axes.items()}
    return sweep.replace(axes=one)


def _some_run(plan: Plan) -> bool:
    """True if any point can run; stops at the first block with one."""
    dims, room = plan.out_dims[REASON], Room([REASON])
    with np.errstate(all="ignore"):
        return any(
            (room.evaluate(plan, dims, block)[REASON] == 0).any()
            for block in tiles.blocks(plan.whole(dims), tiles.BLOCK)
        )
