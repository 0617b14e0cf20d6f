"""An account of any quantity at a point: its formula, its operands, and so on down to inputs."""

import math
import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.problem import Problem
from fleetcube.grid.spec.values import is_whole
from fleetcube.kernels.calculus.derivatives import quantity, reaches, unit_of
from fleetcube.kernels.calculus.phased_formulas import phase_of, without_phase
from fleetcube.kernels.engines.numpy import evaluate
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.graph.formulas import Function, parameters
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import CHECKS, COUNTING, ERRORS, WHOLES
from fleetcube.scenario import auto, framework
from fleetcube.tables.tables import label

from .gradient import derivative_of, reached
from .interval import interval
from .nearest import nearest
from .spreadsheet import Expression, expression
from .uncertainty import errors

CARRIED = 0.95  # of a value, by the operands that are listed first
_CHANGE = 1e-6  # relative, of an operand, for its elasticity


@dataclass(frozen=True)
class Row:
    """A name of the account. `origin` is where its value comes from; a formula's operands have
    their elasticities, largest first. `weight` is the elasticity of the asked quantity."""

    name: str
    value: float
    unit: str
    meaning: str
    origin: str
    weight: float
    expression: Expression | None = None
    maths: str = ""
    operands: Mapping[str, float] | None = None

    @property
    def carrying(self) -> list[str]:
        """The operands that together carry most of the value."""
        return carrying(self.operands or {})


@dataclass(frozen=True)
class Account:
    """All that a quantity is computed from: rows by name, each after what it needs. `checks` are
    quantities with expressions for them; options have their choice and its origin.
    A change of inputs that are `tied` would change more than their values. `cannot_run` is a line
    that says why the point cannot run; `reasons` are the words of REASON, whose row tells."""

    name: str
    rows: Mapping[str, Row]
    options: Mapping[str, tuple[str, str]]
    checks: Mapping[str, str]
    interval: tuple[float, float] | None
    uncertain: Mapping[str, str]
    tied: Set[str]
    cannot_run: str
    reasons: Mapping[int, str]


def carrying(elasticities: Mapping[str, float]) -> list[str]:
    """Names by the size of their elasticities, until these add up to CARRIED of all."""
    whole = sum(map(abs, elasticities.values()))
    names: list[str] = []
    carried = 0.0
    for name in sorted(elasticities, key=lambda name: -abs(elasticities[name])):
        if carried < CARRIED * whole or not whole:
            names.append(name)
        carried += abs(elasticities[name])
    return names


def account(scenario: Mapping[str, Any], name: str) -> Account:
    """The account of a quantity of a job with one value for each input. Raises InputError."""
    plan = _plan(scenario, [name])
    checks = _checks(plan, name)
    factors = _words(" ".join(checks.values()))
    wanted = [name, *sorted(factors - plan.graph.inputs.keys() - {name})]
    plan = _plan(scenario, wanted if is_known(scenario, {}, wanted) else [name])
    wanted += [REASON] * (REASON in plan.outputs and name != REASON)
    formulas = _formulas(plan)
    if name not in formulas:
        raise InputError(f"{name} is stated by the spec; leave it out to have it computed")
    values = values_of(plan)
    elasticities = {each: _elasticities(formulas[each], values) for each in formulas}
    weights = {**dict.fromkeys(wanted, 0.0), name: 1.0}
    for each in reversed(list(formulas)):
        for operand, elasticity in elasticities[each].items():
            weights[operand] = weights.get(operand, 0.0) + weights.get(each, 0.0) * elasticity
    weights |= _by_counts(scenario, plan, name, weights.keys() - formulas.keys())
    rows = {
        each: row_of(plan, each, values[each], weights[each], elasticities.get(each))
        for each in values
        if each in weights
    }
    ends = _interval(scenario, name)
    checks = {each: text for each, text in checks.items() if _words(text) <= values.keys()}
    more = tied(plan.problem, plan.cases[0].options)
    ties = {each for each in rows if without_phase(each) in more}
    reasons = quantity(plan.graph, REASON).doc.flags if REASON in rows else {}
    why = (
        _cannot_run(scenario, name, reasons[int(values[REASON])])
        if reasons and values[REASON] > 0
        else ""
    )
    return Account(
        name, rows, _options(plan), checks, ends, uncertain(plan, name), ties, why, reasons
    )


def _cannot_run(scenario: Mapping[str, Any], name: str, reason: str) -> str:
    hints = nearest(scenario, name), "fleetcube plan SPEC seeks a layout that can"
    return f"cannot run: {reason} ({'; '.join(filter(None, hints))})"


def _plan(scenario: Mapping[str, Any], names: list[str]) -> Plan:
    return Evaluation(scenario, {}, names)._plan("numpy")


def _formulas(plan: Plan) -> Mapping[str, Function]:
    return plan.cases[0].formulas


def _checks(plan: Plan, name: str) -> dict[str, str]:
    """What a quantity depends on and a person can multiply out, with the expressions."""
    table = CHECKS.get(plan.cases[0].options.get(COUNTING, ""), {})
    felt = {*reaches(_formulas(plan), [name])}
    return {each: text for each, text in table.items() if each in felt}


def _words(text: str) -> set[str]:
    return {*re.findall("[a-z]\\w+", text)}


def values_of(plan: Plan) -> dict[str, float]:
    """The inputs and quantities of a plan of one point, inputs first, in the order of formulas."""
    given = {name: np.array(row.item()) for name, row in plan.cases[0].leaves.items()}
    computed = evaluate(_formulas(plan), given)
    return {name: float(row) for name, row in {**given, **computed}.items()}


def _elasticities(formula: Function, values: Mapping[str, float]) -> dict[str, float]:
    """Relative change of a formula's value over that of each operand, towards the side where it is
    smaller, as values may jump; 0 where it has none."""
    names = parameters(formula)
    steps = _CHANGE * np.kron(np.eye(len(names)), [0.0, 1.0, -1.0])
    moved = {n: values[n] * (1 + row) for n, row in zip(names, steps, strict=True)}
    results = evaluate({"result": formula}, moved)["result"] * np.ones(3 * len(names))
    with np.errstate(all="ignore"):
        now, above, below = results.reshape(-1, 3).T
        both = (above / now - 1) / _CHANGE, (1 - below / now) / _CHANGE
    slopes = np.where(np.abs(both[0]) < np.abs(both[1]), *both)
    slopes[~np.isfinite(slopes)] = 0.0
    return dict(sorted(zip(names, slopes.tolist(), strict=True), key=lambda row: -abs(row[1])))


def _by_counts(
    scenario: Mapping[str, Any], plan: Plan, name: str, inputs: Set[str]
) -> dict[str, float]:
    """Elasticities by counts between their valid neighbours, as `Sweep.rank_inputs` has them: a
    chain of slopes would be of a fraction of a stage."""
    counts = [n for n in inputs if is_whole(plan.graph, n) and unit_of(plan.graph, name) != "flag"]
    named = {n: derivative_of(plan.graph, name, n, elasticity=True).name for n in counts}
    slopes = values_of(_plan(scenario, [*named.values()])) if named else {}
    return {n: slopes[s] if math.isfinite(slopes[s]) else 0.0 for n, s in named.items()}


def row_of(
    plan: Plan, name: str, value: float, weight: float, operands: Mapping[str, float] | None
) -> Row:
    """A line of the account; an input has no operands."""
    graph, plain = plan.graph, without_phase(name)
    unit = unit_of(graph, name)
    if operands is None:
        declared = graph.inputs.get(plain)
        meaning = declared.description if declared else quantity(graph, plain).doc.summary
        return Row(name, value, unit, meaning, _origin(plan, name, value), weight)
    formula = _formulas(plan)[name]
    doc = quantity(graph, plain if graph.get(plain) else name).doc
    if isinstance(formula, FunctionType):
        doc = read(formula)
    facts = (unit, doc.summary, doc.source, weight, expression(formula), doc.maths)
    return Row(name, value, *facts, operands)


def _origin(plan: Plan, name: str, value: Any) -> str:
    """Where the value of an input or option comes from."""
    problem, plain = plan.problem, without_phase(name)
    if name != plain and problem.phases:
        return f"phase {phase_of(name)}"
    if name in problem.stated:
        return "the spec"
    for record in problem.records:
        entry = framework.set_by(record)
        if name in entry and (entry[name] == value or name in problem.inferred):
            return f"{record.kind} {record.label}"
    row = plan.graph.inputs.get(plain)
    return "default" if row and row.default == value else "implied by the spec"


def _options(plan: Plan) -> dict[str, tuple[str, str]]:
    """The options that chose the formulas: the choice, and where it comes from."""
    named = (plan.graph.get(without_phase(name)) for name in _formulas(plan))
    used = dict.fromkeys(each.option for each in named if each and each.option)
    choice = {name: plan.cases[0].options[name] for name in used}
    return {name: (label(each), _origin(plan, name, each)) for name, each in choice.items()}


def _interval(scenario: Mapping[str, Any], name: str) -> tuple[float, float] | None:
    """The ends of a quantity's interval, if it has one."""
    sweep = Evaluation(scenario, {}, [name])
    try:
        ends = interval(sweep, [name], Settings("numpy"))
    except InputError:  # flags, and quantities whose share of an error is unknown
        return None
    sides = [f"{name}_low", f"{name}_high"]
    if not all(side in ends for side in sides):
        return None
    low, high = (float(ends[side].values) for side in sides)
    return (low, high) if low < high else None


def uncertain(plan: Plan, name: str) -> dict[str, str]:
    """The factors of prediction errors and the distributions on which a quantity depends, and
    where they come from."""
    felt, problem = errors(plan, name), plan.problem
    factors = [factor for error, factor in ERRORS.values() if error in felt]
    drawn = reached(plan, [name]) & {*problem.distributions}
    values = {factor: problem.constants.get(factor, math.nan) for factor in factors}
    origins = {n: f"{value:.4g}, {_origin(plan, n, value)}" for n, value in values.items()}
    return origins | dict.fromkeys(sorted(drawn), "a distribution of the spec")


def tied(problem: Problem, options: Mapping[str, Any]) -> set[str]:
    """Numbers that affect more than their value: an option, what a label sets, what auto infers."""
    inputs = problem.graph.inputs
    names = {row.name for row in inputs.values() if row.kind == "option"}
    for whole, its_parts in WHOLES.items():
        if problem.gives(whole) and whole not in problem.stated:
            names |= its_parts
    for row in inputs.values():
        if row.implied_by and row.name not in problem.stated and options[row.name] != row.implied:
            names |= {*row.implied_by}
    if problem.phases:
        names |= {*problem.phases.inputs}
    return names | {*auto.CELL_INPUTS} if problem.inferred else names
