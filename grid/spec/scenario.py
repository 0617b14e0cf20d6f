"""Resolve a scenario and axes: labels become inputs, inputs become constants or axes in SI."""

import importlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...catalog import AUTO, CONFIGURED, KINDS, CatalogError, Record, record
from ...kernels.calculus.phases import in_phase, without_phase
from ...kernels.graph.formulas import Graph
from ...kernels.physics.roles import BESIDE_GPUS, ERRORS, GROWING, HEADS, MEASURED, SHARES, WHOLES
from ..errors import InputError
from . import auto, dates, framework, graphs, hardware, own_records, patterns, phases, values
from .axes import make_axes
from .axis import Array, Axis
from .distributions import Distribution, distribution

_PLAIN = ", as of plain attention"  # latent attention differs
# Precedence of kinds whose labels set the same input: measurements over data sheets, gpu over node
_PRECEDENCE = (
    *("calibration", "gpu", "node", "fabric", "model", "storage", "reliability", "site"),
    framework.KIND,
)


@dataclass(frozen=True)
class Problem:
    """A sweep in numbers: constants in SI, options chosen, axes, catalog records used. `tables` are
    numbers that vary along several axes: their names, and the array over them."""

    graph: Graph
    constants: Mapping[str, float]
    options: Mapping[str, Any]
    axes: tuple[Axis, ...]
    records: tuple[Record, ...]
    stated: frozenset[str] = frozenset()  # inputs that the scenario itself sets
    distributions: Mapping[str, Distribution] = field(default_factory=dict)  # medians: constants
    tables: Mapping[str, tuple[tuple[str, ...], Array]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    found: frozenset[str] = frozenset()  # inputs and options set by calibration = "auto"
    notes: Mapping[str, str] = field(default_factory=dict)  # remarks on inputs that are read
    by_value: frozenset[str] = frozenset()  # numbers on which others depend through the catalog
    # What each decade outside the published sizes adds to the log of the error factor
    per_decade: tuple[tuple[str, ...], Array] | None = None
    auto_by_default: bool = False  # the scenario does not name it
    phases: Axis | None = None  # of the job, which are added up
    phased: frozenset[str] = frozenset()  # numbers in `tables` with values by phase

    def gives(self, name: str) -> bool:
        """Whether a scenario, a label or an axis sets a number."""
        return name in self.numbers

    @property
    def numbers(self) -> set[str]:
        """Names of the numbers set by a scenario, a label or an axis."""
        given = {*self.constants, *self.tables, *self.phased}
        return given.union(*(axis.numbers for axis in self._along()))

    @property
    def defaulted(self) -> dict[str, tuple[str, Array]]:
        """Inputs set at only some points of an axis or phases: the axis, and the points not set."""
        return {
            name: (axis.name, row) for axis in self._along() for name, row in axis.defaults.items()
        }

    @property
    def choices(self) -> set[str]:
        """Options set by a scenario, a label or an axis."""
        return {*self.options}.union(*(axis.options for axis in self._along()))

    def _along(self) -> tuple[Axis, ...]:
        return (*self.axes, self.phases) if self.phases else self.axes

    def may_exceed(self, factor: str) -> bool:
        """Whether a factor is above 1 anywhere."""
        rows: list[Any] = [self.constants[factor]] if factor in self.constants else []
        rows += [axis.numbers[factor] for axis in self._along() if factor in axis.numbers]
        rows += [row for name, (_, row) in self.tables.items() if without_phase(name) == factor]
        rows = rows or [self.graph.inputs[factor].default]
        return any(bool(np.any(np.asarray(row) > 1)) for row in rows)

    def most_together(self, names: AbstractSet[str]) -> float:
        """The largest sum of some numbers at any point; unset ones count as 0."""
        rows = [
            np.nansum([axis.numbers[name] for name in held], axis=0).max()
            for axis in self._along()
            if (held := names & axis.numbers.keys())
        ]
        swept = float(sum(rows))
        return swept + sum(self.constants.get(name, 0.0) for name in names)


def resolve(
    scenario: Mapping[str, Any], axes: Mapping[str, Any], free: Collection[str] = ()
) -> Problem:
    """Read a scenario and its axes. Raises InputError. Precedence: axis over scenario, explicit
    over label, calibration over gpu over node. Values of `free` (solved for) inputs are ignored."""
    for key, table in (("scenario", scenario), ("axes", axes)):
        if not isinstance(table, Mapping):
            raise InputError(f"{key} = {table!r} is not a table; write [{key}]")
    graph = graphs.graph_of(scenario)
    if not graph.application:
        return _plain(graph, scenario, axes, free)
    module = importlib.import_module(graph.application)
    problem: Problem = module.resolve(graph, scenario, axes, free)
    return problem


def resolve_labels(
    graph: Graph, scenario: Mapping[str, Any], axes: Mapping[str, Any], free: Collection[str]
) -> Problem:
    """The problem of a scenario of the physics, whose labels set inputs."""
    dates.start_of(scenario)
    scenario, axes = own_records.with_catalog(scenario, axes)
    scenario, axes, added_up = phases.with_phases(scenario, axes, free)
    swept = list(make_axes(graph, axes).values())
    owner = _owners(swept, added_up)
    models = [label for axis in swept for label in axis.records.get("model", ())]
    scenario = patterns.spelled_out(scenario, owner, models)
    constants, options, labels, distributions = _constants(graph, scenario, owner)
    stated = frozenset({*constants, *options})
    explicit = {*stated, *owner}
    for whole, parts in MEASURED.items():
        said = {*labels}.union(explicit, *(axis.records for axis in swept))
        own = {kind for kind in labels if whole in record(kind, labels[kind]).values}
        if whole in said and (beside := sorted(parts & said - own)):
            raise InputError(
                f"{whole} is of all causes, and {beside[0]} would count some again; keep one"
            )
    auto_by_default = auto.is_default(swept, labels, explicit.union(free))
    if auto_by_default:
        labels["calibration"] = AUTO
    asks = any(
        label == AUTO or "jobs" in record("calibration", label).values
        for label in _calibrations(labels, swept)
    )
    idle = frozenset() if asks else labels.keys() & {auto.SOFTWARE}
    swept, cards, notes = hardware.own_cards(swept, labels, explicit)
    labels |= cards
    torus = hardware.in_slices(swept, labels, constants, explicit, free)
    used: dict[tuple[str, str], Record] = {}
    tables: dict[str, tuple[tuple[str, ...], Array]] = {}
    remarks: list[str] = []
    found: set[str] = set()
    notes |= _recounted(labels, swept, explicit) | dict(torus.notes)
    swept, per_decade = _set_by_labels(
        graph,
        swept,
        labels,
        constants,
        options,
        explicit,
        free,
        used,
        tables,
        remarks,
        found,
        torus.rows,
    )
    distributions |= {
        name: distribution(graph, name, value)
        for entry in (record(kind, label) for kind, label in labels.items())
        for name, value in entry.values.items()
        if isinstance(value, Mapping) and name not in explicit and values.is_known(graph, name)
    }
    counted = hardware.counted(swept, constants, free)
    if hardware.CHIPS in free or hardware.CHIPS in counted.notes:
        notes |= hardware.trays(swept, labels)
    notes |= hardware.nodes(swept, constants, explicit)
    kinds = ((kind, label) for a in swept for kind, row in a.records.items() for label in row)
    constants |= {name: row.item() for name, (_, row) in counted.rows.items()}
    job = next((axis for axis in swept if added_up and axis.name == phases.NAME), None)
    parted, phased = phases.parted(tables, job)
    if job and (sought := sorted({*job.inputs}.intersection(free))):
        raise InputError(
            f"{sought[0]} is set by phases of the job; ask for it in one, as "
            f"{in_phase(sought[0], phases.keys(job)[0])}"
        )
    problem = Problem(
        graph,
        constants=constants,
        options=options,
        axes=tuple(axis for axis in swept if axis is not job),
        records=tuple(used.values()),
        stated=stated | idle,
        distributions=distributions,
        tables=parted,
        phases=job,
        phased=phased,
        remarks=tuple(dict.fromkeys(remarks)),
        found=frozenset(found),
        notes={
            **notes,
            **counted.notes,
            **hardware.shared(kinds, stated),
            **framework.notes(used.values(), constants | options, swept),
        },
        by_value=hardware.COUNTED if torus.rows or counted.rows else frozenset(),
        per_decade=per_decade,
        auto_by_default=auto_by_default,
    )
    for upper, lower in GROWING.items():
        least, given = constants.get(lower, 0.0), constants.get(upper, 0.0)
        if 0 < given < least:
            raise InputError(
                f"{upper} = {given:g} must be at least {lower} = {least:g}, or 0 for no such tier; "
                "give a larger value"
            )
    for shares in SHARES:
        if (most := problem.most_together(shares)) > 1 + 1e-9:
            raise InputError(
                f"{', '.join(sorted(shares))} are up to {most:g} together, and shares of one whole "
                "are 1 at most; lower one, or put those that vary together on one axis"
            )
    for error, factor in ERRORS.values():
        if error in explicit and not problem.may_exceed(factor):
            raise InputError(
                f"{error} is given, and {factor} is 1: no interval is known; name a calibration "
                f"that sets {factor}, or give it above 1"
            )
    return problem


def _plain(
    graph: Graph, scenario: Mapping[str, Any], axes: Mapping[str, Any], free: Collection[str]
) -> Problem:
    """The problem of a graph without labels: numbers, choices and distributions alone."""
    swept = tuple(make_axes(graph, axes).values())
    owner = _owners(swept)
    constants, options, _, distributions = _constants(graph, scenario, owner)
    for name in free:
        values.check_name(graph, name)
    stated = frozenset({*constants, *options})
    return Problem(graph, constants, options, swept, (), stated, distributions)


def _owners(axes: Sequence[Axis], added_up: bool = False) -> dict[str, str]:
    """The axis that sets each input. Raises InputError where two do."""
    owner: dict[str, str] = {}
    for axis in axes:
        for name in axis.inputs:
            if name in owner:
                hint = "keep one"
                if added_up and owner[name] == phases.NAME:
                    one = in_phase(name, phases.keys(axes[0])[0])
                    hint = f"vary it in one phase, as {one}"
                raise InputError(
                    f"{name} is set by the axes {owner[name]!r} and {axis.name!r}; {hint}"
                )
            owner[name] = axis.name
    return owner


def _calibrations(labels: Mapping[str, str], axes: Sequence[Axis]) -> list[str]:
    """Labels of the calibrations of a scenario and its axes."""
    own = [labels["calibration"]] if "calibration" in labels else []
    return [*own, *(label for a in axes for label in a.records.get("calibration", ()))]


def said_by(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Labels, options, and numbers in base units, as the scenario itself states them."""
    graph = graphs.graph_of(scenario)
    constants, options, labels, _ = _constants(
        graph, patterns.spelled_out(phases.apart(scenario)[0], {}), {}
    )
    return {**labels, **constants, **options}


def _constants(
    graph: Graph, scenario: Mapping[str, Any], swept: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, Any], dict[str, str], dict[str, Distribution]]:
    constants: dict[str, float] = {}
    options: dict[str, Any] = {}
    labels: dict[str, str] = {}
    distributions: dict[str, Distribution] = {}
    for name, value in scenario.items():
        if name in (dates.NAME, own_records.NAME, graphs.NAME):
            continue  # not an input of any formula
        values.check_name(graph, name)
        if name == CONFIGURED:
            value = values.without_unit(graph, name, value)  # a table of a file, as one label
        if isinstance(value, Mapping):
            law = distribution(graph, name, value)  # read even if overridden: errors show
            if name not in swept:
                distributions[name], constants[name] = law, law.median
        elif name in KINDS:
            try:
                record(name, value)
            except CatalogError as error:
                raise InputError(str(error)) from None
            if name not in swept:
                labels[name] = value
        elif values.is_option(graph, name):
            if name not in swept:
                options[name] = values.option(graph, name, value)
            else:
                values.option(graph, name, value)
        else:
            number = values.number(graph, name, value)
            if name not in swept:
                constants[name] = number
    return constants, options, labels, distributions


def _set_by_labels(
    graph: Graph,
    axes: list[Axis],
    labels: Mapping[str, str],
    constants: dict[str, float],
    options: dict[str, Any],
    explicit: set[str],
    free: Collection[str],
    used: dict[tuple[str, str], Record],
    tables: dict[str, tuple[tuple[str, ...], Array]],
    remarks: list[str],
    found: set[str],
    first: Mapping[str, tuple[tuple[str, ...], Array]],
) -> tuple[list[Axis], tuple[tuple[str, ...], Array] | None]:
    """Fill in what labels set, in order of precedence, below `first`; return the axes and auto's
    `per_decade`."""
    per_decade = None
    own = "gpu" in labels or any("gpu" in axis.records for axis in axes)
    chosen: list[dict[str, tuple[Any, ...]]] = [{} for _ in axes]
    # Inputs set at only some points of an axis, by calibrations or phases -> the axis
    open_on = {name: k for k, axis in enumerate(axes) for name in phases.left_open(axis)}
    void, partly = _void_totals(axes, explicit, open_on)
    taken = explicit | void
    taken |= _set_rows(graph, first, axes, chosen, constants, options, taken, tables)
    for kind in _PRECEDENCE:
        if kind == "calibration" and labels.get(kind) == AUTO:
            made = auto.find(axes, labels, constants, options, free)
            if left := sorted(made.rows.keys() & open_on.keys()):
                raise InputError(f"{left[0]} is found by calibration; say it in every phase")
            found |= made.rows.keys() - taken
            taken |= _set_rows(graph, made.rows, axes, chosen, constants, options, taken, tables)
            used |= {(kind, name): entry for name, entry in made.records.items()}
            remarks += made.remarks
            per_decade = made.per_decade
        elif kind in labels:
            label_values = _values_of(graph, kind, labels[kind], used, own)
            if kind == "calibration":
                said = {**labels, **constants, **options}
                remarks += filter(None, [auto.doubt(labels[kind], axes, said, explicit)])
                rows, told = auto.factors_of_job(labels[kind], axes, said, explicit, free)
                remarks += told
                taken |= _set_rows(graph, rows, axes, chosen, constants, options, taken, tables)
            for name in sorted(label_values.keys() & open_on.keys() - void - partly.keys()):
                k = open_on.pop(name)
                axes[k] = phases.filled(axes[k], name, [label_values[name]] * axes[k].size)
            for name in sorted(label_values.keys() & partly.keys()):
                k, points = partly.pop(name)
                row = np.where(points, np.nan, label_values[name])
                own_row = axes[k].numbers.get(name, row)
                row = np.where(np.isnan(own_row), row, own_row)
                axes[k] = replace(axes[k], numbers={**axes[k].numbers, name: row})
                taken.add(name)
            for name in label_values.keys() - taken:
                (options if values.is_option(graph, name) else constants)[name] = label_values[name]
            taken |= set(label_values)
        for k, axis in enumerate(axes):
            if kind not in axis.records:
                continue
            by_point = [_values_of(graph, kind, label, used, own) for label in axis.records[kind]]
            if kind == "calibration" and AUTO in axis.records[kind]:
                _check_alone(axis, axes)
                said = {**labels, **constants, **options}
                for at in [k for k, label in enumerate(axis.records[kind]) if label == AUTO]:
                    by_point[at], entry, remark = auto.point_values(said, axis, at)
                    used[kind, f"{AUTO} {at}"] = entry
                    remarks.append(remark)
            if kind == "calibration":
                auto.check_jobs_alone(axis, axes)
                others = [other for other in axes if other is not axis]
                for at, label in enumerate(axis.records[kind]):
                    said = {**labels, **constants, **options, **auto.at(axis, at)}
                    doubts = label != AUTO and auto.doubt(label, others, said, explicit - {kind})
                    remarks += [doubts] if doubts else []
                    of_job, _ = auto.factors_of_job(label, [], said, explicit, free)
                    by_point[at] |= {name: value.item() for name, (_, value) in of_job.items()}
            names = {name for point in by_point for name in point}
            for name in sorted(names & partly.keys()):
                on, points = partly.pop(name)
                if on != k:
                    part = min(WHOLES[name] & explicit)
                    raise InputError(
                        f"{part} is stated by some phases and voids {name}, which is set along "
                        f"{axis.name!r}; say {part} in all phases"
                    )
                by_point = [
                    {n: v for n, v in point.items() if n != name or not here}
                    for point, here in zip(by_point, points, strict=True)
                ]
            for name in sorted(names & open_on.keys() - void):
                if open_on[name] != k:
                    raise InputError(
                        f"{name} is set along {axis.name!r}, and by some phases; say it in all"
                    )
                axes[k] = axis = phases.filled(axis, name, [point.get(name) for point in by_point])
            names -= taken
            chosen[k] |= {
                name: tuple(point.get(name) for point in by_point)
                for name in sorted(names)
                if values.is_option(graph, name)
            }
            numbers = {
                name: np.array([point.get(name, np.nan) for point in by_point])
                for name in sorted(names - chosen[k].keys())
            }
            axes[k] = replace(axis, numbers={**axis.numbers, **numbers})
            taken |= names
            if kind == "calibration":  # other labels set what it leaves open
                open_on |= {name: k for name, row in numbers.items() if np.isnan(row).any()}
    axes = [_with_defaults(graph, axis) for axis in axes]
    return [
        replace(
            axis,
            options={
                **axis.options,
                **_closed(graph, axis, {**choices, **phases.implied_rows(axis)}, axes, constants),
            },
        )
        for axis, choices in zip(axes, chosen, strict=True)
    ], per_decade


def _set_rows(
    graph: Graph,
    rows: Mapping[str, tuple[tuple[str, ...], Array]],
    axes: list[Axis],
    chosen: list[dict[str, tuple[Any, ...]]],
    constants: dict[str, float],
    options: dict[str, Any],
    taken: set[str],
    tables: dict[str, tuple[tuple[str, ...], Array]],
) -> set[str]:
    """Set inputs not in `taken` and return their names; numbers over several axes are tables."""
    place = {axis.name: k for k, axis in enumerate(axes)}
    for name in sorted(rows.keys() - taken):
        names, array = rows[name]
        is_option = values.is_option(graph, name)
        if not names:
            (options if is_option else constants)[name] = array.item()
        elif len(names) > 1 and is_option:
            raise InputError(
                f'calibration = "auto" finds different choices of {name} along '
                f"{' and '.join(names)}; give {name}"
            )
        elif len(names) > 1 and np.isnan(array).any():
            raise InputError(
                f'calibration = "auto" finds {name} at some points along {" and ".join(names)} '
                f"only; give {name}"
            )
        elif len(names) > 1:
            tables[name] = names, array
        elif is_option:
            chosen[place[names[0]]][name] = tuple(array.tolist())
        else:
            k = place[names[0]]
            axes[k] = replace(axes[k], numbers={**axes[k].numbers, name: array})
    return {*rows}


def _check_alone(axis: Axis, axes: Iterable[Axis]) -> None:
    """Refuse auto on an axis of calibrations if inputs that it depends on vary along other axes."""
    for other in axes:
        if other is not axis and (told := auto.telling(other)):
            raise InputError(
                f'calibration = "auto" on the axis {axis.name!r} is found from {told}, which '
                f"varies along {other.name!r}; sweep one of them"
            )


def _with_defaults(graph: Graph, axis: Axis) -> Axis:
    """An axis with defaults where labels set nothing, except for inputs that imply an option."""
    implying = {name for row in graph.inputs.values() for name in row.implied_by}
    numbers = dict(axis.numbers)
    open_ = {name: np.isnan(row) for name, row in axis.numbers.items() if np.isnan(row).any()}
    for name, missing in open_.items():
        default = graph.inputs[name].default if name in graph.inputs else None
        if default is not None and name not in implying:
            numbers[name] = np.where(missing, default, numbers[name])
    chosen = {
        name: np.array([choice is None for choice in row])
        for name, row in axis.options.items()
        if None in row
    }
    return replace(axis, numbers=numbers, defaults=open_ | chosen)


def _closed(
    graph: Graph,
    axis: Axis,
    choices: Mapping[str, tuple[Any, ...]],
    axes: Iterable[Axis],
    constants: Mapping[str, float],
) -> dict[str, tuple[Any, ...]]:
    """Options along an axis; where labels leave one open, it is implied or the default."""
    if not choices:
        return {}
    elsewhere = {*constants, *(n for other in axes if other is not axis for n in other.numbers)}
    by_point = [
        elsewhere | {name for name, row in axis.numbers.items() if not np.isnan(row[k])}
        for k in range(axis.size)
    ]
    return {
        option: tuple(
            choose(graph, {}, names)[option] if choice is None else choice
            for choice, names in zip(row, by_point, strict=True)
        )
        for option, row in choices.items()
    }


def _values_of(
    graph: Graph, kind: str, label: str, used: dict[tuple[str, str], Record], own_gpu: bool
) -> dict[str, Any]:
    """What a label sets; for a node also its GPU's inputs, unless the scenario names a GPU."""
    entry = record(kind, label)
    if entry.values:  # "none" is not recorded: a spec without a label means the same
        used.setdefault((kind, label), entry)
    spelled = patterns.spelled_out({**entry.values, **entry.values.get("own", {})}, {})
    own = {
        key: distribution(graph, key, value).median if isinstance(value, Mapping) else value
        for key, value in spelled.items()
        if key in graph.inputs or graph.get(key)
    }
    gpu = entry.values.get("gpu")
    for whole, (rest, count, each) in BESIDE_GPUS.items():
        if isinstance(gpu, str) and whole in own:
            each_gpu = record("gpu", gpu).values.get(each, np.inf)  # an own one may state none
            beside = own.pop(whole) - own[count] * each_gpu
            own |= {rest: beside} if beside >= 0 else {}
    if isinstance(gpu, str) and not own_gpu:
        return {**_values_of(graph, "gpu", gpu, used, own_gpu), **own}
    return own


def _void_totals(
    axes: Sequence[Axis], explicit: Collection[str], open_on: Mapping[str, int]
) -> tuple[set[str], dict[str, tuple[int, Array]]]:
    """Totals of labels that are void because a part of them is stated; and those void in part. The
    latter only at some points of an axis, such as phases that state a part: axis and points."""
    void: set[str] = set()
    partly: dict[str, tuple[int, Array]] = {}
    for whole, parts in WHOLES.items():
        if whole in explicit and whole not in open_on:
            continue
        stated = parts.intersection(explicit)
        at = {open_on.get(part, -1) for part in stated}
        if len(at) == 1 and -1 not in at:
            (k,) = at
            rows = [axes[k].numbers[part] for part in stated if part in axes[k].numbers]
            if len(rows) == len(stated):
                partly[whole] = k, np.asarray(~np.isnan(rows).all(axis=0))
                continue
        if stated:
            void.add(whole)
    return void, partly


def _recounted(
    labels: Mapping[str, str], axes: Sequence[Axis], stated: Collection[str]
) -> dict[str, str]:
    """Totals of models' labels that are void because a part is stated, with a remark on each."""
    open_on = {name: k for k, axis in enumerate(axes) for name in phases.left_open(axis)}
    everywhere, partly = _void_totals(axes, stated, open_on)
    void: dict[str, list[str]] = {}

    def leave_out(model: str, k: int = -1, at: int = 0) -> None:
        for whole in WHOLES.keys() & record("model", model).values.keys():
            on, points = partly.get(whole, (-1, np.array([whole in everywhere])))
            if (points[at] if on == k >= 0 else points.any()) and model not in void.get(whole, ()):
                void.setdefault(whole, []).append(model)

    for k, axis in enumerate(axes):
        for at, model in enumerate(axis.records.get("model", ())):
            leave_out(model, k, at)
    if "model" in labels:
        leave_out(labels["model"])
    return {
        whole: f"{whole} of {', '.join(of)} is left out where {min(WHOLES[whole] & {*stated})} is "
        f"stated: it is counted from the shape{_PLAIN * (WHOLES[whole] == HEADS)}; state it, too, "
        "to keep it"
        for whole, of in void.items()
    }


def choose(graph: Graph, given_options: Mapping[str, Any], given: Iterable[str]) -> dict[str, Any]:
    """The choice of every option: as given, else implied by a given input, else the default."""
    names = frozenset(given)
    return {
        name: given_options.get(
            name, row.implied if names.intersection(row.implied_by) else row.default
        )
        for name, row in graph.inputs.items()
        if row.kind == "option"
    }
