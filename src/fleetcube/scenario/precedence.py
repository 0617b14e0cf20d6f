"""What labels set: values of their records over axes, merged in order of precedence."""

import functools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fleetcube.catalog import AUTO, Record, record
from fleetcube.grid.errors import InputError
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.distributions import distribution
from fleetcube.grid.spec.problem import choose
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.physics.roles import BESIDE_GPUS, HEADS, WHOLES
from fleetcube.scenario import auto, framework, patterns, phases

_CALIBRATION = "calibration"
_PLAIN = ", as of plain attention"  # latent attention differs
# Kinds whose labels set the same input: measurements over data sheets, gpu over node
_PRECEDENCE = (
    *(_CALIBRATION, "gpu", "node", "fabric", "model", "storage", "reliability", "site"),
    framework.KIND,
)
Rows = Mapping[str, tuple[tuple[str, ...], Array]]  # values over the axes named before them
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Request(NamedTuple):
    """What a scenario and its axes state, before labels set anything."""

    graph: Graph
    axes: tuple[Axis, ...]
    labels: Mapping[str, str]
    constants: Mapping[str, float]
    options: Mapping[str, Any]
    explicit: frozenset[str]  # stated by the scenario or an axis
    free: Collection[str]


class Merged(NamedTuple):
    """Values that are set so far, and what later records may set."""

    request: Request
    axes: Mapping[str, Axis]
    constants: Mapping[str, float]
    options: Mapping[str, Any]
    taken: frozenset[str]  # later records do not set these
    void: frozenset[str]  # totals of which a part is stated
    partly_void: Mapping[str, tuple[str, Array]]  # at some points of an axis only
    open_along: Mapping[str, str]  # inputs that an axis sets at some of its points only
    choices: Mapping[str, tuple[str, tuple[Any, ...]]] = _NOTHING  # along an axis
    tables: Rows = _NOTHING
    records: Mapping[tuple[str, str], Record] = _NOTHING
    remarks: tuple[str, ...] = ()
    inferred: frozenset[str] = frozenset()  # by calibration = "auto"
    per_decade: tuple[tuple[str, ...], Array] | None = None

    @property
    def single(self) -> dict[str, Any]:
        """Labels, numbers and options that vary along no axis."""
        return {**self.request.labels, **self.constants, **self.options}


def merged(request: Request, first: Rows) -> Merged:
    """Everything that labels set, below `first` and what is explicit. Raises InputError."""
    open_along = _open_along(request.axes)
    void, partly_void = _void_totals(request, open_along)
    axes, taken = {axis.name: axis for axis in request.axes}, request.explicit | void
    single = request.constants, request.options
    made = _with_rows(Merged(request, axes, *single, taken, void, partly_void, open_along), first)
    for kind in _PRECEDENCE:
        if kind == _CALIBRATION and request.labels.get(kind) == AUTO:
            made = _with_auto(made)
        elif kind in request.labels:
            made = _with_label(made, kind)
        for name, axis in made.axes.items():
            if kind in axis.records:
                made = _with_labels_along(made, kind, name)
    return _with_defaults(made)


def _with_auto(made: Merged) -> Merged:
    """The coefficients of calibration = "auto"."""
    request = made.request
    result = auto.find(
        [*made.axes.values()], request.labels, made.constants, made.options, request.free
    )
    if left := sorted(result.rows.keys() & made.open_along.keys()):
        raise InputError(f"{left[0]} is found by calibration; say it in every phase")
    entries = {(_CALIBRATION, name): entry for name, entry in result.records.items()}
    made = made._replace(
        inferred=made.inferred | (result.rows.keys() - made.taken),
        records={**made.records, **entries},
        remarks=(*made.remarks, *result.remarks),
        per_decade=result.per_decade,
    )
    return _with_rows(made, result.rows)


def _with_label(made: Merged, kind: str) -> Merged:
    """What the scenario's label of a kind sets."""
    request, label = made.request, made.request.labels[kind]
    made, sheet = _with_sheet(made, kind, label)
    if kind == _CALIBRATION:
        job = [*made.axes.values()], made.single, request.explicit
        doubt = auto.doubt(label, *job)
        rows, remarks = auto.factors_of_job(label, *job, request.free)
        made = made._replace(remarks=(*made.remarks, *filter(None, [doubt]), *remarks))
        made = _with_rows(made, rows)
    return _with_record(made, {name: ((), np.array(value)) for name, value in sheet.items()})


def _with_labels_along(made: Merged, kind: str, axis_name: str) -> Merged:
    """What labels of a kind along an axis set."""
    axis, taken = made.axes[axis_name], made.taken
    sheets = []
    for label in axis.records[kind]:
        made, sheet = _with_sheet(made, kind, label)
        sheets.append(sheet)
    if kind == _CALIBRATION:
        made, sheets = _with_points(made, axis, sheets)
    names = dict.fromkeys(name for sheet in sheets for name in sheet)
    options = {name for name in names if values.is_option(made.request.graph, name)}
    made = _with_record(
        made,
        {
            name: (
                (axis_name,),
                np.array([sheet.get(name) for sheet in sheets], dtype=object)
                if name in options
                else np.array([sheet.get(name, np.nan) for sheet in sheets]),
            )
            for name in names
        },
    )
    if kind != _CALIBRATION:
        return made
    rows = made.axes[axis_name].numbers
    left = {name for name in names.keys() - taken - options if np.isnan(rows[name]).any()}
    return made._replace(open_along={**made.open_along, **dict.fromkeys(left, axis_name)})


def _with_points(
    made: Merged, axis: Axis, sheets: list[dict[str, Any]]
) -> tuple[Merged, list[dict[str, Any]]]:
    """Calibrations along an axis with what is inferred, and with factors of own jobs."""
    request, labels = made.request, axis.records[_CALIBRATION]
    others = [other for other in made.axes.values() if other is not axis]
    if AUTO in labels:
        _check_alone(axis, others)
    sheets, entries, remarks = [*sheets], {}, []
    for k in (k for k, label in enumerate(labels) if label == AUTO):
        sheets[k], entries[_CALIBRATION, f"{AUTO} {k}"], remark = auto.point_values(
            made.single, axis, k
        )
        remarks.append(remark)
    auto.check_jobs_alone(axis, others)
    for k, label in enumerate(labels):
        point, explicit = {**made.single, **auto.at(axis, k)}, request.explicit
        doubt = label != AUTO and auto.doubt(label, others, point, explicit - {_CALIBRATION})
        remarks += [doubt] if doubt else []
        rows, _ = auto.factors_of_job(label, [], point, explicit, request.free)
        sheets[k] = {**sheets[k], **{name: value.item() for name, (_, value) in rows.items()}}
    records = {**made.records, **entries}
    return made._replace(records=records, remarks=(*made.remarks, *remarks)), sheets


def _check_alone(axis: Axis, others: Iterable[Axis]) -> None:
    """Refuse auto on an axis of calibrations if inputs that it depends on vary along other axes."""
    for other in others:
        if reason := auto.telling(other):
            raise InputError(
                f'calibration = "auto" on the axis {axis.name!r} is found from {reason}, which '
                f"varies along {other.name!r}; sweep one of them"
            )


def _with_record(made: Merged, rows: Rows) -> Merged:
    """The values of a record or of records along an axis, also where axes are open."""
    made, rows = _without_void(made, rows)
    axes, open_along = {**made.axes}, {**made.open_along}
    for name in sorted(rows.keys() & open_along.keys() - made.void):
        along, array = rows[name]
        axis = axes[open_along[name]]
        if along and along != (axis.name,):
            raise InputError(f"{name} is set along {along[0]!r}, and by some phases; say it in all")
        row = array.tolist() if along else [array.item()] * axis.size
        axes[axis.name] = phases.filled(axis, name, row)
        if not along:
            del open_along[name]
    return _with_rows(made._replace(axes=axes, open_along=open_along), rows)


def _without_void(made: Merged, rows: Rows) -> tuple[Merged, Rows]:
    """Rows without totals at points where a part of them is stated."""
    partly_void, rows = {**made.partly_void}, {**rows}
    for name in sorted(rows.keys() & partly_void.keys()):
        axis_name, points = partly_void.pop(name)
        along, array = rows[name]
        if along and along != (axis_name,):
            part = min(WHOLES[name] & made.request.explicit)
            raise InputError(
                f"{part} is stated by some phases and voids {name}, which is set along "
                f"{along[0]!r}; say {part} in all phases"
            )
        rows[name] = (axis_name,), np.where(points, np.nan, array)
    return made._replace(partly_void=partly_void), rows


def _with_rows(made: Merged, rows: Rows) -> Merged:
    """Rows of what is not taken: constants, rows of an axis, tables over several."""
    graph = made.request.graph
    constants, options, tables = {**made.constants}, {**made.options}, {**made.tables}
    choices = {**made.choices}
    numbers = {name: {**axis.numbers} for name, axis in made.axes.items()}
    for name in sorted(rows.keys() - made.taken):
        along, array = rows[name]
        is_option = values.is_option(graph, name)
        if not along:
            (options if is_option else constants)[name] = array.item()
        elif len(along) == 1 and is_option:
            choices[name] = along[0], tuple(array.tolist())
        elif len(along) == 1:
            numbers[along[0]][name] = array
        elif is_option:
            raise InputError(
                f'calibration = "auto" finds different choices of {name} along '
                f"{' and '.join(along)}; give {name}"
            )
        elif np.isnan(array).any():
            raise InputError(
                f'calibration = "auto" finds {name} at some points along {" and ".join(along)} '
                f"only; give {name}"
            )
        else:
            tables[name] = along, array
    axes = {
        name: axis if numbers[name].keys() == axis.numbers.keys() else replace(axis, numbers=row)
        for (name, axis), row in zip(made.axes.items(), numbers.values(), strict=True)
    }
    made = made._replace(axes=axes, choices=choices, tables=tables, taken=made.taken | rows.keys())
    return made._replace(constants=constants, options=options)


def _with_sheet(made: Merged, kind: str, label: str) -> tuple[Merged, dict[str, Any]]:
    """What a label sets, with its record noted."""
    request = made.request
    has_gpu = "gpu" in request.labels or any("gpu" in axis.records for axis in request.axes)
    sheet, entries = _sheet(request.graph, kind, label, has_gpu)
    return made._replace(records={**made.records, **entries}), sheet


def _sheet(
    graph: Graph, kind: str, label: str, has_gpu: bool
) -> tuple[dict[str, Any], dict[tuple[str, str], Record]]:
    """What a label sets, and its records; for a node also its GPU's, unless a GPU is named."""
    entry = record(kind, label)
    # "none" is not noted: a spec without a label means the same
    entries = {(kind, label): entry} if entry.values else {}
    spelled = patterns.spelled_out({**entry.values, **entry.values.get("own", {})}, {})
    sheet = {
        name: distribution(graph, name, value).median if isinstance(value, Mapping) else value
        for name, value in spelled.items()
        if name in graph.inputs or graph.get(name)
    }
    gpu = entry.values.get("gpu")
    if not isinstance(gpu, str):
        return sheet, entries
    for whole, (rest, count, each) in BESIDE_GPUS.items():
        if whole in sheet:
            each_gpu = record("gpu", gpu).values.get(each, np.inf)  # an own one may state none
            others = sheet.pop(whole) - sheet[count] * each_gpu
            sheet |= {rest: others} if others >= 0 else {}
    if has_gpu:
        return sheet, entries
    of_gpu, gpu_entries = _sheet(graph, "gpu", gpu, has_gpu)
    return {**of_gpu, **sheet}, {**entries, **gpu_entries}


def _open_along(axes: Iterable[Axis]) -> dict[str, str]:
    """Inputs set at only some points of an axis, by phases: the axis."""
    return {name: axis.name for axis in axes for name in phases.left_open(axis)}


def _void_totals(
    request: Request, open_along: Mapping[str, str]
) -> tuple[frozenset[str], dict[str, tuple[str, Array]]]:
    """Totals of labels that are void because a part of them is stated; and those void in part. The
    latter only at some points of an axis, such as phases that state a part: axis and points."""
    axes = {axis.name: axis for axis in request.axes}
    void: set[str] = set()
    partly_void: dict[str, tuple[str, Array]] = {}
    for whole, parts in WHOLES.items():
        if whole in request.explicit and whole not in open_along:
            continue
        stated = parts & request.explicit
        along = {open_along.get(part, "") for part in stated}
        if len(along) == 1 and "" not in along:
            (name,) = along
            numbers = axes[name].numbers
            rows = [numbers[part] for part in stated if part in numbers]
            if len(rows) == len(stated):
                partly_void[whole] = name, np.asarray(~np.isnan(rows).all(axis=0))
                continue
        if stated:
            void.add(whole)
    return frozenset(void), partly_void


def recounted(request: Request) -> dict[str, str]:
    """Totals of models' labels that are void because a part is stated, with a remark on each."""
    void, partly_void = _void_totals(request, _open_along(request.axes))
    left_out: dict[str, dict[str, None]] = {}

    def leave_out(model: str, axis_name: str = "", k: int = 0) -> None:
        sheet = record("model", model).values
        for whole in (whole for whole in WHOLES if whole in sheet):
            along, points = partly_void.get(whole, ("", np.array([whole in void])))
            if points[k] if along and along == axis_name else points.any():
                left_out.setdefault(whole, {})[model] = None

    for axis in request.axes:
        for k, model in enumerate(axis.records.get("model", ())):
            leave_out(model, axis.name, k)
    if "model" in request.labels:
        leave_out(request.labels["model"])
    return {
        whole: f"{whole} of {', '.join(models)} is left out where "
        f"{min(WHOLES[whole] & request.explicit)} is stated: it is counted from the shape"
        f"{_PLAIN * (WHOLES[whole] == HEADS)}; state it, too, to keep it"
        for whole, models in left_out.items()
    }


def _with_defaults(made: Merged) -> Merged:
    """Axes with defaults where labels set nothing, except for inputs that imply an option."""
    graph = made.request.graph
    axes = {name: _defaulted(graph, axis) for name, axis in made.axes.items()}
    result = {}
    for name, axis in axes.items():
        rows = {option: row for option, (along, row) in made.choices.items() if along == name}
        rows |= phases.implied_rows(axis)
        if rows:
            others = (each for each in axes.values() if each is not axis)
            elsewhere = {*made.constants}.union(*(each.numbers for each in others))
            axis = replace(axis, options={**axis.options, **_implied(graph, axis, rows, elsewhere)})
        result[name] = axis
    return made._replace(axes=result)


@functools.cache
def _implying(graph: Graph) -> frozenset[str]:
    """Inputs that imply a choice of an option."""
    return frozenset(name for row in graph.inputs.values() for name in row.implied_by)


def _defaulted(graph: Graph, axis: Axis) -> Axis:
    numbers = dict(axis.numbers)
    for name, points in axis.unset.items():
        default = graph.inputs[name].default if name in graph.inputs else None
        if default is not None and name not in _implying(graph):
            numbers[name] = np.where(points, default, numbers[name])
    implied = {
        name: np.array([choice is None for choice in row])
        for name, row in phases.implied_rows(axis).items()
    }
    return replace(axis, numbers=numbers, defaults=axis.unset | implied)


def _implied(
    graph: Graph, axis: Axis, rows: Mapping[str, tuple[Any, ...]], elsewhere: Collection[str]
) -> dict[str, tuple[Any, ...]]:
    """Options along an axis; where labels leave one open, it is implied or the default."""
    by_point = [
        {*elsewhere, *(name for name, row in axis.numbers.items() if not np.isnan(row[k]))}
        for k in range(axis.size)
    ]
    return {
        option: tuple(
            choose(graph, {}, names)[option] if choice is None else choice
            for choice, names in zip(row, by_point, strict=True)
        )
        for option, row in rows.items()
    }
