"""Merge the values that labels set, over axes, in order of precedence."""

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
from fleetcube.scenario.along_axes import values_at

_CALIBRATION = "calibration"
_PLAIN = ", as of plain attention"  # latent attention differs
# Kinds whose labels set the same input: measurements over data sheets, gpu over node
_PRECEDENCE = (
    *(_CALIBRATION, "gpu", "node", "fabric", "model", "storage", "reliability", "site"),
    *("contract", framework.KIND),
)
Rows = Mapping[str, tuple[tuple[str, ...], Array]]  # values over the axes named before them
_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Request(NamedTuple):
    """A scenario and its axes as written, before labels set anything."""

    graph: Graph
    axes: tuple[Axis, ...]
    labels: Mapping[str, str]
    constants: Mapping[str, float]
    options: Mapping[str, Any]
    explicit: frozenset[str]  # stated by the scenario or an axis
    free: Collection[str]


class Merged(NamedTuple):
    """Values set so far, and the inputs that later records may not set."""

    request: Request
    axes: Mapping[str, Axis]
    constants: Mapping[str, float]
    options: Mapping[str, Any]
    fixed: frozenset[str]  # later records do not set these
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
    """Apply the catalog records below `first` and explicit values. Raises InputError."""
    open_along = _open_along(request.axes)
    void, partly_void = _void_totals(request, open_along)
    axes, fixed = {axis.name: axis for axis in request.axes}, request.explicit | void
    single = request.constants, request.options
    state = _with_rows(Merged(request, axes, *single, fixed, void, partly_void, open_along), first)
    for kind in _PRECEDENCE:
        if kind == _CALIBRATION and request.labels.get(kind) == AUTO:
            state = _with_auto(state)
        elif kind in request.labels:
            state = _with_label(state, kind)
        for name, axis in state.axes.items():
            if kind in axis.records:
                state = _with_labels_along(state, kind, name)
    return _with_defaults(state)


def _with_auto(state: Merged) -> Merged:
    """Set the coefficients of calibration = "auto"."""
    request = state.request
    result = auto.infer(
        [*state.axes.values()], request.labels, state.constants, state.options, request.free
    )
    entries = {(_CALIBRATION, name): entry for name, entry in result.records.items()}
    state = state._replace(
        inferred=state.inferred | (result.rows.keys() - state.fixed),
        records={**state.records, **entries},
        remarks=(*state.remarks, *result.remarks),
        per_decade=result.per_decade,
    )
    return _with_record(state, result.rows)


def _with_label(state: Merged, kind: str) -> Merged:
    """Set the values of the scenario's label of a kind."""
    request, label = state.request, state.request.labels[kind]
    state, sheet = _with_sheet(state, kind, label)
    if kind == _CALIBRATION:
        job = [*state.axes.values()], state.single, request.explicit
        doubt = auto.mismatch(label, *job)
        rows, remarks = auto.factors_of_job(label, *job, request.free)
        state = state._replace(remarks=(*state.remarks, *filter(None, [doubt]), *remarks))
        state = _with_rows(state, rows)
    return _with_record(state, {name: ((), np.array(value)) for name, value in sheet.items()})


def _with_labels_along(state: Merged, kind: str, axis_name: str) -> Merged:
    """Set the values of labels of a kind along an axis."""
    axis, fixed = state.axes[axis_name], state.fixed
    sheets = []
    for label in axis.records[kind]:
        state, sheet = _with_sheet(state, kind, label)
        sheets.append(sheet)
    if kind == _CALIBRATION:
        state, sheets = _with_points(state, axis, sheets)
    names = dict.fromkeys(name for sheet in sheets for name in sheet)
    options = {name for name in names if values.is_option(state.request.graph, name)}
    state = _with_record(
        state,
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
        return state
    rows = state.axes[axis_name].numbers
    left = {name for name in names.keys() - fixed - options if np.isnan(rows[name]).any()}
    return state._replace(open_along={**state.open_along, **dict.fromkeys(left, axis_name)})


def _with_points(
    state: Merged, axis: Axis, sheets: list[dict[str, Any]]
) -> tuple[Merged, list[dict[str, Any]]]:
    """Calibrations along an axis, with inferred values and the factors of their own jobs."""
    request, labels = state.request, axis.records[_CALIBRATION]
    others = [other for other in state.axes.values() if other is not axis]
    if AUTO in labels:
        _check_alone(axis, others)
    sheets, entries, remarks = [*sheets], {}, []
    for k in (k for k, label in enumerate(labels) if label == AUTO):
        sheets[k], entries[_CALIBRATION, f"{AUTO} {k}"], remark = auto.point_values(
            state.single, axis, k
        )
        remarks.append(remark)
    auto.check_jobs_alone(axis, others)
    for k, label in enumerate(labels):
        point, explicit = {**state.single, **values_at(axis, k)}, request.explicit
        doubt = label != AUTO and auto.mismatch(label, others, point, explicit - {_CALIBRATION})
        remarks += [doubt] if doubt else []
        rows, _ = auto.factors_of_job(label, [], point, explicit, request.free)
        sheets[k] = {**sheets[k], **{name: value.item() for name, (_, value) in rows.items()}}
    records = {**state.records, **entries}
    return state._replace(records=records, remarks=(*state.remarks, *remarks)), sheets


def _check_alone(axis: Axis, others: Iterable[Axis]) -> None:
    """Refuse auto on an axis of calibrations if inputs that it depends on vary along other axes."""
    for other in others:
        if reason := auto.input_auto_depends_on(other):
            raise InputError(
                f'calibration = "auto" on the axis {axis.name!r} is found from {reason}, which '
                f"varies along {other.name!r}; sweep one of them"
            )


def _with_record(state: Merged, rows: Rows) -> Merged:
    """Set the values of records, also at points that phases leave open."""
    state, rows = _without_void(state, rows)
    axes, open_along = {**state.axes}, {**state.open_along}
    for name in sorted(rows.keys() & open_along.keys() - state.void):
        along, array = rows[name]
        axis = axes[open_along[name]]
        if along and along != (axis.name,):
            raise InputError(f"{name} is set along {along[0]!r} and by some phases; give it in all")
        row = array.tolist() if along else [array.item()] * axis.size
        axes[axis.name] = phases.fill_open_points(axis, name, row)
        if not along:
            del open_along[name]
    return _with_rows(state._replace(axes=axes, open_along=open_along), rows)


def _without_void(state: Merged, rows: Rows) -> tuple[Merged, Rows]:
    """Rows without totals at points with a stated part."""
    partly_void, rows = {**state.partly_void}, {**rows}
    for name in sorted(rows.keys() & partly_void.keys()):
        axis_name, points = partly_void.pop(name)
        along, array = rows[name]
        if along and along != (axis_name,):
            part = min(WHOLES[name] & state.request.explicit)
            raise InputError(
                f"{part} is stated by some phases and voids {name}, which is set along "
                f"{along[0]!r}; give {part} in all phases"
            )
        rows[name] = (axis_name,), np.where(points, np.nan, array)
    return state._replace(partly_void=partly_void), rows


def _with_rows(state: Merged, rows: Rows) -> Merged:
    """Set rows not fixed yet: as constants, as rows of an axis, or as tables over several."""
    graph = state.request.graph
    constants, options, tables = {**state.constants}, {**state.options}, {**state.tables}
    choices = {**state.choices}
    axes, numbers = {**state.axes}, dict[str, dict[str, Array]]()
    for name in sorted(rows.keys() - state.fixed):
        along, array = rows[name]
        is_option = values.is_option(graph, name)
        if not along:
            (options if is_option else constants)[name] = array.item()
        elif len(along) == 1 and is_option:
            choices[name] = along[0], tuple(array.tolist())
        elif len(along) == 1:
            numbers.setdefault(along[0], {**axes[along[0]].numbers})[name] = array
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
    for name, row in numbers.items():
        if row.keys() != axes[name].numbers.keys():
            axes[name] = replace(axes[name], numbers=row)
    state = state._replace(
        axes=axes, choices=choices, tables=tables, fixed=state.fixed | rows.keys()
    )
    return state._replace(constants=constants, options=options)


def _with_sheet(state: Merged, kind: str, label: str) -> tuple[Merged, dict[str, Any]]:
    """The values of a label; its record is noted."""
    request = state.request
    has_gpu = "gpu" in request.labels or any("gpu" in axis.records for axis in request.axes)
    sheet, entries = _sheet(request.graph, kind, label, has_gpu)
    return state._replace(records={**state.records, **entries}), sheet


def _sheet(
    graph: Graph, kind: str, label: str, has_gpu: bool
) -> tuple[dict[str, Any], dict[tuple[str, str], Record]]:
    """A label's values and records; for a node also its GPU's, unless a GPU is named."""
    entry = record(kind, label)
    # "none" is not noted: a spec without a label means the same
    entries = {(kind, label): entry} if entry.values else {}
    spelled = patterns.spelled_out(framework.set_by(entry), {})
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


def voided_totals(request: Request) -> dict[str, str]:
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


def _with_defaults(state: Merged) -> Merged:
    """Fill what labels leave open with defaults, except for inputs that imply an option."""
    graph = state.request.graph
    axes = {name: _fill_defaults(graph, axis) for name, axis in state.axes.items()}
    result = {}
    for name, axis in axes.items():
        rows = {option: row for option, (along, row) in state.choices.items() if along == name}
        rows |= phases.implied_rows(axis)
        if rows:
            others = (each for each in axes.values() if each is not axis)
            elsewhere = {*state.constants}.union(*(each.numbers for each in others))
            axis = replace(axis, options={**axis.options, **_imply(graph, axis, rows, elsewhere)})
        result[name] = axis
    return state._replace(axes=result)


@functools.cache
def _implying(graph: Graph) -> frozenset[str]:
    """Inputs that imply a choice of an option."""
    return frozenset(name for row in graph.inputs.values() for name in row.implied_by)


def _fill_defaults(graph: Graph, axis: Axis) -> Axis:
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


def _imply(
    graph: Graph, axis: Axis, rows: Mapping[str, tuple[Any, ...]], elsewhere: Collection[str]
) -> dict[str, tuple[Any, ...]]:
    """Options along an axis; where labels leave one open, it is implied or the default."""
    everywhere = {*elsewhere, *(axis.numbers.keys() - axis.unset.keys())}
    names = [
        frozenset(name for name, points in axis.unset.items() if not points[k])
        for k in range(axis.size)
    ]
    chosen = {given: choose(graph, {}, everywhere | given) for given in {*names}}
    return {
        option: tuple(
            chosen[given][option] if choice is None else choice
            for choice, given in zip(row, names, strict=True)
        )
        for option, row in rows.items()
    }
