"""Inputs that nobody stated and that decide an answer, with what other values would give."""

import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fleetcube.catalog import kind, pooled
from fleetcube.catalog.assumptions import assumptions
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.grid import Case
from fleetcube.grid.plan.labels import ASSUMED as ASSUMED
from fleetcube.grid.result import Result
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.axis import Axis
from fleetcube.grid.spec.problem import Problem
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import MEMORY
from fleetcube.kernels.reasons import OUT_OF_MEMORY
from fleetcube.scenario import auto, framework
from fleetcube.scenario.along_axes import point
from fleetcube.scenario.reading import stated_inputs
from fleetcube.tables.tables import estimate, label, numbers, scale, with_unit

from .interval import interval

_NEVER = 1000.0  # times the answer, beyond which a number says nothing
MOST = 5  # lines
_CHOICE = "assumption"
LEAST = 0.01  # relative change of an output without an interval that decides it
SHARE = 0.1  # of an output's interval, likewise
_ASKED = Settings("numpy", "mark", threads=1)
_IMPLYING = {name for row in PHYSICS.inputs.values() for name in row.implied_by}
_STOPPED = " (cannot run)"
_STATED = "stated"


@dataclass(frozen=True)
class Assumed:
    """An input that nobody stated: its value, where it comes from, and what each other value, by
    its text, gives for `output` in place of the `answer`. `effect`: the largest logarithm of their
    ratios; `decides`: it is more than a tenth of the output's interval."""

    name: str
    value: str
    source: str
    output: str
    unit: str
    others: Mapping[str, float]
    answer: float
    effect: float
    decides: bool

    def __str__(self) -> str:
        text = f"{self.name} {self.value} ({self.source})"
        if not self.decides:
            return f"{text}: other values change little here"
        rows = sorted(self.others.items(), key=lambda row: row[1])
        few = sum(value <= _NEVER * self.answer for _, value in rows) + 1
        ifs = (f"{self._given(value)} if {other}" for other, value in rows[:few])
        return f"{text}: {self.output} {'; '.join(ifs)}"

    def _given(self, value: float) -> str:
        if value > _NEVER * self.answer:
            return f"over {_NEVER:,.0f} times as much"
        return with_unit(value, self.unit, self.output)


class _Other(NamedTuple):
    """One row of an axis of assumptions: an input, another value as text, and what it changes."""

    name: str
    text: str
    changes: Mapping[str, Any]


def assumed(
    scenario: Mapping[str, Any], outputs: Sequence[str], layout: Collection[str] = ()
) -> list[Assumed]:
    """The inputs of a scenario of one point that nobody stated, the one that moves the outputs most
    first; without those in `layout`."""
    return _assumed(*_answered(scenario, outputs), outputs, layout)


def _answered(scenario: Mapping[str, Any], outputs: Sequence[str]) -> tuple[Evaluation, Result]:
    """A point, and its outputs with their intervals."""
    sweep = Evaluation(scenario, {}, outputs, settings=_ASKED)
    drawn = bool(sweep._problem.distributions)  # whose quantiles take longer than the answer
    return sweep, sweep._result() if drawn else interval(sweep, None, _ASKED)


def _assumed(
    sweep: Evaluation, answer: Result, outputs: Sequence[str], layout: Collection[str]
) -> list[Assumed]:
    before = {
        name: row.values.item()
        for name, row in answer.data_vars.items()
        if name in outputs and row.values.dtype.kind == "f"
    }
    least = {name: _least(answer, name) for name, value in before.items() if 0 < value < math.inf}
    used = dict(_used(sweep, layout))
    problem = sweep._problem
    closed = _closed(problem) - used.keys()
    rows = [
        row
        for name, (_, value) in used.items()
        for row in _others(name, value)
        if closed.isdisjoint(row.changes)
        and assumptions()[name].needs.get(row.changes[name], "") in {"", *problem.numbers}
        and not framework.notes(problem.records, row.changes, ())
    ]
    texts = [*map(_chosen, rows)]
    turns = [texts[:k].count(text) if text else 0 for k, text in enumerate(texts)]
    # rows of numbers side by side, to be evaluated together; each other a point alone, the fastest
    rows = [rows[k] for k in sorted(range(len(rows)), key=lambda k: (turns[k], texts[k]))]
    given = _given(sweep, [*least], {name: value for name, (_, value) in used.items()}, rows)
    ranked: list[Assumed] = []
    for name, (source, value) in used.items():
        others = {other.text: row for other, row in given if other.name == name}
        effects = {
            output: max(_effect(row[output], before[output]) for row in others.values())
            for output in least
            if others
        }
        deciding = {output: size for output, size in effects.items() if size > least[output]}
        output = max(deciding or effects, key=effects.__getitem__, default="")
        if output:
            shown = {t: row[output] for t, row in others.items() if not math.isnan(row[output])}
            unit = values.unit_of(sweep.graph, output)
            about = (name, _shown(name, value), source, output, unit, shown, before[output])
            ranked.append(Assumed(*about, effects[output], bool(deciding)))
    return sorted(ranked, key=lambda each: -each.effect)


def of_ratio(a: Mapping[str, Any], b: Mapping[str, Any], of: str, least: float) -> list[str]:
    """What nobody stated of two scenarios and moves the logarithm of their ratio by more than
    `least`, most first, with what other values of both give."""
    in_a, in_b = ({each.name: each for each in assumed(job, [of])} for job in (a, b))
    ranked_rows: list[tuple[float, str]] = []
    for name in (name for name in in_a if name in in_b):
        before, after = _logs(in_a[name]), _logs(in_b[name])
        moved = {text: after[text] - before[text] for text in before if text in after}
        size = max(map(abs, moved.values()), default=0.0)
        shown = " and ".join(dict.fromkeys((in_a[name].value, in_b[name].value)))
        ifs = "; ".join(f"times {math.exp(log):.4g} if {text}" for text, log in moved.items())
        ranked_rows += [(size, f"  {name} {shown}: B / A {ifs}")] if size > least else []
    rows = [row for _, row in sorted(ranked_rows, reverse=True)[:MOST]]
    return ["assumed of both, what moves B / A most first:", *rows] if rows else []


def _logs(each: Assumed) -> dict[str, float]:
    """The logarithm by which each other value changes an answer, where it stays finite."""
    pairs = ((text.removesuffix(_STOPPED), value) for text, value in each.others.items())
    return {text: math.log(v / each.answer) for text, v in pairs if 0 < v < math.inf}


def noted(shown: Sequence[str]) -> dict[str, str]:
    """Lines as attributes of an answer, and the sources of their other values, a line each."""
    sources = [f"{line.split()[0]}: {source}" for line in shown if (source := source_of(line))]
    return {ASSUMED: "\n".join(shown), f"{ASSUMED}_sources": "\n".join(sources)}


def source_of(line: str) -> str:
    """The source of the other values in a line; empty in one of another kind."""
    row = assumptions().get(line.strip().partition(" ")[0])
    return row.source if row else ""


def at_last(sweep: Evaluation, answered: Any = None) -> list[str]:
    """The lines of a sweep at the last point of its axes, of those that are answered if any is;
    none where a graph has no records."""
    if not sweep.graph.application:
        return []
    axes = make_axes(sweep.graph, sweep.spec["axes"])
    place = {name: axis.size - 1 for name, axis in axes.items()}
    place |= {} if answered is None else last_true(answered)
    return lines(point(sweep, place), sweep._outputs, swept=axes)


def running(answer: Any) -> Any:
    """Where an answer can run; None if that is not known."""
    return answer.coords[REASON] == 0 if REASON in answer.coords else None


def last_true(mask: Any) -> dict[str, int]:
    """The place of the last point where a mask is true, by axis; empty without one."""
    places = np.argwhere(mask.values)
    return dict(zip(mask.dims, places[-1].tolist(), strict=True)) if len(places) else {}


def lines(
    scenario: Mapping[str, Any],
    outputs: Sequence[str],
    layout: Collection[str] = (),
    swept: Mapping[str, Axis] = MappingProxyType({}),
) -> list[str]:
    """What decides an answer at a point and nobody stated, and what is always named: a heading that
    names the point by its inputs along the axes `swept`, and a line each."""
    sweep, answer = _answered(scenario, outputs)
    ranked = _assumed(sweep, answer, outputs, layout)
    named = (each for each in ranked if each.source != _STATED)
    chosen = [each for each in named if _is_first(each)]
    others = [each for each in ranked if each.decides and each not in chosen]
    room = MOST - sum(each.decides for each in chosen)
    chosen += others[:room]
    names = [name for axis in swept.values() if axis.size > 1 for name in axis.inputs]
    place = [f"{name} {_shown(name, scenario[name])}" for name in names if name in scenario]
    where = f" at {', '.join(place)}" if place else ""
    heading = f"assumed{' in this layout' * bool(layout)}{where}, what moves the answer most first:"
    rows = [heading, *(f"  {each}" for each in ranked if each in chosen)] if chosen else []
    if left := [each.name for each in others[room:]]:
        rows.append(f"  and {len(left)} more: {', '.join(left)}")
    if any(auto.SOFTWARE in axis.inputs for axis in swept.values()):
        return rows  # each row has its software's layout
    planned = f"this layout{where}" if layout else ""
    return [*rows, *_of_software(scenario, sweep, answer, planned)]


def _is_first(each: Assumed) -> bool:
    row = assumptions()[each.name]
    return row.always or (row.ahead and each.decides)


def _of_software(
    scenario: Mapping[str, Any], stated: Evaluation, answer: Result, planned: str
) -> list[str]:
    """Lines on the software that can run a planned layout, where none is stated, and on that whose
    interval is much narrower in this layout, with its answer and what to type."""
    if auto.FACTOR not in stated._problem.inferred or stated._problem.phases:
        return []
    inputs = stated_inputs(scenario)
    entries = kind(auto.SOFTWARE).items()
    able = [label for label, entry in entries if not framework.notes([entry], inputs, ())]
    line = (
        f"software not stated: the interval is of {planned}, which {', '.join(able) or 'none'} "
        "of the catalog's software can run"
    )
    rows = [line] if planned and auto.SOFTWARE not in inputs and len(able) < len(entries) else []
    software = pooled.posterior().narrowest(auto.posterior_cell(inputs))
    if software not in able:
        return rows
    try:
        _, other = _answered({**scenario, "software": software}, stated._outputs)
    except InputError:  # that program has not all that is stated
        return rows
    answers = other, answer
    both = (n for n in stated._outputs if all(f"{n}_low" in row for row in answers))
    if not (moved := next(both, "")):
        return rows
    texts = [_with_interval(row, moved) for row in answers]
    surer = f"surer with software={software} in this layout: {moved} {texts[0]}"
    return [*rows, f"{surer}, for {texts[1]} here"]


def _with_interval(answer: Result, name: str) -> str:
    three = np.array([answer[f"{name}{end}"].values.item() for end in ("", "_low", "_high")])
    factor, unit = scale(str(answer[name].attrs["units"]), three[0], name)
    middle, _, ends = estimate(numbers(three[:1] / factor)[0], *three / factor).partition(" ")
    return f"{middle} {unit} {ends}".replace("  ", " ").rstrip()


def _effect(value: float, before: float) -> float:
    """The size of a change; infinite where nothing is left, 0 where the value is undefined."""
    if math.isnan(value):
        return 0.0
    return abs(math.log(value / before)) if 0 < value < math.inf else math.inf


def _least(answer: Result, name: str) -> float:
    """The change of an output's logarithm above which an assumption decides it."""
    if f"{name}_low" not in answer:
        return math.log1p(LEAST)
    low, high = (float(answer[f"{name}_{side}"].values.item()) for side in ("low", "high"))
    return SHARE * math.log(high / low) if high > low > 0 else math.log1p(LEAST)


def _used(sweep: Evaluation, layout: Collection[str]) -> Iterator[tuple[str, tuple[str, Any]]]:
    """The inputs that the outputs read and nobody stated, or not wholly, of those with other
    values: where the value comes from, and the value."""
    plan = sweep._plan()
    (case,) = plan.cases
    closed = _closed(plan.problem)
    frameworks = {each.label for each in plan.problem.records if each.kind == framework.KIND}
    for name, row in assumptions().items():
        if name not in plan.structure.used or name in layout:
            continue
        if row.software and not frameworks <= {*row.software}:
            continue
        value = _value(case, name)
        is_open = name not in closed
        if value is None or not (is_open or value in row.among):
            continue
        if all(_holds(_value(case, n), needed) for n, needed in row.where.items()):
            records = plan.problem.records
            labels = [each.label for each in records if name in framework.set_by(each)]
            by = "calibration auto" if name in plan.problem.inferred else [*labels, "default"][0]
            models = (each.label for each in records if each.label in row.reported)
            reports = (f"; {label} was trained in {row.reported[label]}" for label in models)
            yield name, ((by if is_open else _STATED) + "".join(reports), value)


def _value(case: Case, name: str) -> Any:
    """An input's number, or an option's choice."""
    leaf = case.leaves.get(name)
    return case.options.get(name) if leaf is None else float(np.ravel(leaf)[0])


def _holds(value: Any, needed: Any) -> bool:
    """Whether a choice is one of those needed, or a number above that needed."""
    return bool(value > needed if isinstance(needed, int | float) else value in needed)


def _closed(problem: Problem) -> set[str]:
    """Inputs that somebody stated, or named a record for, as storage is named for its bandwidth,
    and those inferred, but for shares hidden: recipes have none or all, their intervals neither."""
    left = {"model", framework.KIND}
    named = set[str]().union(*(framework.set_by(r) for r in problem.records if r.kind not in left))
    hidden = {name for name in problem.inferred if name.endswith("_overlap")}
    return {*map(without_phase, {*problem.stated, *problem.phased})} | (named - hidden)


def _others(name: str, value: Any) -> Iterator[_Other]:
    """Other values of an input."""
    row = assumptions()[name]
    among = [("", {name: each}) for each in row.among] if value in row.among else row.values
    for text, table in among:
        changes = {key: _read(key, each) for key, each in table.items()}
        if changes != {name: value}:
            yield _Other(name, text or _shown(name, changes[name]), changes)
    for factor in row.factors:
        yield _Other(name, _shown(name, value * factor), {name: value * factor})


@functools.lru_cache(1024, typed=True)
def _read(name: str, value: Any) -> Any:
    read = values.option if values.is_option(PHYSICS, name) else values.number
    return read(PHYSICS, name, value)


def _given(
    sweep: Evaluation, outputs: Sequence[str], used: Mapping[str, Any], rows: Sequence[_Other]
) -> list[tuple[_Other, dict[str, float]]]:
    """The outputs with each row's changes, all at once; without rows that are refused. Undefined
    where a job that can run no longer can, but for memory, if that is why."""
    if not rows or not outputs:
        return []
    plan = sweep._plan()
    judged = REASON in plan.outputs
    runs = judged and not plan.table(plan.cases[0], REASON).any()
    asked = list(dict.fromkeys([*outputs, *[REASON][:judged]]))
    try:
        changed = sweep.replace(axes={_CHOICE: _axis(sweep, used, rows)}, outputs=asked)
        _, given, _ = changed._values(None, "float64", _ASKED)  # no attributes: they take as long
    except InputError:  # such as FP8 on a GPU without it
        half = len(rows) // 2
        parts = (rows[:half], rows[half:]) if half else ()
        return [pair for part in parts for pair in _given(sweep, outputs, used, part)]
    columns = [np.broadcast_to(given[name], len(rows)).tolist() for name in outputs]
    outcomes = [dict(zip(outputs, row, strict=True)) for row in zip(*columns, strict=True)]
    reasons = np.broadcast_to(given.get(REASON, np.zeros(1)), len(rows))
    for row, reason in zip(outcomes, reasons if runs else (), strict=runs):
        shown = MEMORY if reason == OUT_OF_MEMORY else () if reason else outputs
        row |= dict.fromkeys({*outputs} - {*shown}, math.nan)
    marked = [
        row._replace(text=row.text + _STOPPED * bool(reason))
        for row, reason in zip(rows, reasons, strict=True)
    ]
    return [*zip(marked, outcomes, strict=True)]


def _chosen(row: _Other) -> str:
    """What a row changes of the formulas: options, and inputs that imply one."""
    changes = row.changes.items()
    options = [f"{n}={value}" for n, value in changes if values.is_option(PHYSICS, n)]
    return " ".join([*options, *sorted(_IMPLYING & row.changes.keys())])


def _axis(sweep: Evaluation, used: Mapping[str, Any], rows: Sequence[_Other]) -> Axis:
    """An axis of a point for each row, at which its inputs differ from those used. What implies an
    option is left open at the points of other rows, and so is that option."""
    inputs, closed = PHYSICS.inputs, _closed(sweep._problem)
    names = dict.fromkeys(name for row in rows for name in row.changes)
    implied = {
        name: inputs[name].implied_by
        for name in inputs
        if name not in names and {*inputs[name].implied_by} & {*names} and name not in closed
    }
    left_open = dict.fromkeys((name for by in implied.values() for name in by), math.nan)
    coefficients = {about["input"] for about in pooled.posterior().coefficients.values()}
    left_open |= dict.fromkeys(coefficients & names.keys(), math.nan)  # those inferred anew
    before = {n: used[n] if n in used else inputs[n].default for n in names} | left_open
    columns = {name: [row.changes.get(name, before[name]) for row in rows] for name in names}
    options = {n: tuple(row) for n, row in columns.items() if values.is_option(PHYSICS, n)}
    given = {n: np.array(row, float) for n, row in columns.items() if n not in options}
    options |= dict.fromkeys(implied, (None,) * len(rows))
    return Axis(_CHOICE, np.arange(len(rows)), given, options)


@functools.lru_cache(1024, typed=True)
def _shown(name: str, value: Any) -> str:
    if not isinstance(value, float):
        return label(value)
    unit = values.unit_of(PHYSICS, name)
    if math.isinf(value):
        return "infinite"
    return f"{value / 1e12:g}T" if value >= 1e12 and unit == "1" else with_unit(value, unit, name)
