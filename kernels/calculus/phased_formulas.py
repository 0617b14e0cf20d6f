"""A job in phases: the formulas of all phases side by side, and how they combine for the job.

What differs between phases has a name in each, `step_time__ramp`, `step_time__main`; the rest is
computed once. So engines, derivatives and searches need to know nothing of phases.
"""

import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..graph.bind import Binding, BuiltFormula
from ..graph.formulas import Function, Graph, UnknownNameError, parameters
from ..graph.roles import Roles
from .built import Renamed

_MARK = "__"


def key_of(phase: str, k: int) -> str:
    """The suffix of names in a job's phase k, counted from 0: letters and digits of its name."""
    return re.sub(r"[\W_]+", "_", phase, flags=re.ASCII).strip("_") or str(k + 1)


def in_phase(name: str, key: str) -> str:
    return f"{name}{_MARK}{key}"


def phase_of(name: str) -> str:
    """The key of a name's phase; empty where it is of the whole job."""
    return name.partition(_MARK)[2]


def without_phase(name: str) -> str:
    return name.partition(_MARK)[0]


@dataclass(frozen=True, repr=False)
class Whole(BuiltFormula):
    """A quantity of the whole job; `rows` are its name and its weights' names in each phase."""

    rule: str  # "sum", "mean", "largest", "least" or "first"
    rows: tuple[tuple[str, ...], ...]
    sources: tuple[Function, ...] = ()  # the formulas of the phases

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(itertools.chain(*self.rows)))

    def bound(self, binding: Binding) -> Callable[..., Any]:
        np, where = binding.numpy, binding.choose

        def mean(values: Any) -> Any:
            weights = [functools.reduce(lambda a, b: a * b, factors) for _, *factors in values]
            above = sum(w * row[0] for w, row in zip(weights, values, strict=True))
            return above / sum(weights)

        rules: dict[str, Callable[[Any], Any]] = {
            "sum": lambda values: functools.reduce(lambda a, b: a + b, values),
            "largest": lambda values: functools.reduce(np.maximum, values),
            "least": lambda values: functools.reduce(np.minimum, values),
            "first": lambda values: functools.reduce(
                lambda rest, value: where(value != 0, value, rest), values[::-1]
            ),
        }

        def whole(*operands: Any) -> Any:
            by_name = dict(zip(self.parameters, operands, strict=True))
            values = [[by_name[name] for name in row] for row in self.rows]
            if self.rule == "mean":
                return mean(values)
            return rules[self.rule]([row[0] for row in values])

        return whole


def parts(graph: Graph, outputs: Iterable[str], options: Mapping[str, Any]) -> list[str]:
    """The quantities that a phase must compute for outputs of the whole job."""
    roles = graph.roles
    needed: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in needed:
            needed[name] = None
            for weight in roles.means.get(name, ()):
                needed[weight] = None
            if name in roles.of_wholes:
                for parameter in parameters(graph.quantities[name].formula(options)):
                    visit(parameter)

    for name in outputs:
        visit(name)
    return list(needed)


def side_by_side(
    graph: Graph,
    outputs: Iterable[str],
    keys: Sequence[str],
    phases: Sequence[Mapping[str, Function]],
    phase_inputs: Sequence[Collection[str]],
) -> dict[str, Function]:
    """Formulas of the whole job from those of its phases, each after what it needs.

    `keys` are the suffixes of each phase's names, `own` the names that it sets. Raises
    UnknownNameError for an output that has no value for the whole job.
    """
    roles = graph.roles
    differ = _differing(roles, phases, phase_inputs)
    formulas_of_job: dict[str, Function] = {}
    of_job, before = roles.before
    phases_before: list[tuple[str, ...]] = [(of_job,)]
    for key, row in zip(keys, phases, strict=True):
        for name, formula in row.items():
            if name == before:
                formulas_of_job[in_phase(name, key)] = Whole(
                    "sum", tuple(phases_before), (formula,)
                )
                continue
            operands = tuple(in_phase(p, key) if p in differ else p for p in parameters(formula))
            if name in differ:
                formulas_of_job[in_phase(name, key)] = Renamed(formula, operands)
            else:
                formulas_of_job[name] = formula
        phases_before.append((in_phase(roles.phased, key),))

    def name_in(name: str, key: str) -> str:
        return in_phase(name, key) if name in differ else name

    def add(name: str) -> None:
        if name in formulas_of_job or (name not in differ and name not in roles.sums):
            return
        if name in roles.of_wholes:
            formula = phases[0][name]
            for parameter in parameters(formula):
                add(parameter)
            formulas_of_job[name] = formula
            return
        kind = next((rule for rule, names in _rules(roles).items() if name in names), None)
        if kind is None:
            raise UnknownNameError(
                f"{name} has a value in each phase and none of the whole job; ask for one with "
                "phase = its name, or for each with an axis phase of their names"
            )
        weights = roles.means.get(name, ())
        rows = [tuple(name_in(n, key) for n in (name, *weights)) for key in keys]
        formulas = dict.fromkeys(row[name] for row in phases if name in row)
        formulas_of_job[name] = Whole(kind, tuple(rows), tuple(formulas))

    for name in outputs:
        add(name)
    return formulas_of_job


def _rules(roles: Roles) -> dict[str, Collection[str]]:
    """Quantities by the rule that combines their values over phases."""
    return {
        "sum": roles.sums,
        "mean": roles.means,
        "largest": roles.largest,
        "least": roles.least,
        "first": roles.first,
    }


def _differing(
    roles: Roles, phases: Sequence[Mapping[str, Function]], phase_inputs: Sequence[Collection[str]]
) -> frozenset[str]:
    """Names whose value may differ between phases; all sums do, as each covers one phase."""
    computed = {name for row in phases for name in row}
    names = {name for row in phase_inputs for name in row} | computed.intersection(roles.before)
    names |= {
        name for name in computed if len({id(row.get(name)) for row in phases if name in row}) > 1
    }
    for name in computed.intersection(roles.sums):
        names.add(name)
    count = -1
    while count != (count := len(names)):
        for row in phases:
            names |= {n for n, formula in row.items() if names.intersection(parameters(formula))}
    return frozenset(names)
