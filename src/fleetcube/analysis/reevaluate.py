"""Reevaluate a cut of a cube: the sweep of its points, and the ends of its intervals."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.functions.arguments import POINTS
from fleetcube.grid.errors import InputError, nearest
from fleetcube.grid.plan.labels import ERROR_OF, own_version
from fleetcube.grid.plan.written import COORDINATE, result_scenario
from fleetcube.grid.result import Result, Variable
from fleetcube.grid.run import stream
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axes import is_coupled, make_axis
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.graphs import graph_at, graph_of
from fleetcube.grid.spec.values import is_known, unit_of
from fleetcube.grid.store.cube import spec_of
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.scenario.citations import records
from fleetcube.scenario.user_records import add_user_records
from fleetcube.tables.arrays import in_units
from fleetcube.tables.tables import label

from .interval import interval, is_predicted
from .uncertainty import errors

if TYPE_CHECKING:
    import xarray

MOST = 100_000  # points whose intervals are evaluated
# Values this close are of the same formulas: engines differ by less, corrections by more
_SAME = {"float64": 1e-9, "float32": 1e-4}  # relative


def sweep_of(cut: "xarray.Dataset") -> Evaluation:
    """The sweep of a cut's points. Raises InputError if the cut does not determine it."""
    try:
        spec = spec_of(cut.attrs)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the cube does not state its spec ({error})") from None
    if POINTS in spec["axes"]:
        raise InputError("points of arrays of several dimensions are not kept; give arrays of one")
    scenario, entries = add_user_records(result_scenario(spec), spec["axes"])
    graph = graph_of(scenario)
    axes = {name: _axis(graph, name, entry, cut) for name, entry in entries.items()}
    return Evaluation(scenario, axes, spec["outputs"])


def _axis(graph: Graph, name: str, entry: Any, cut: "xarray.Dataset") -> Axis:
    """The points of an axis in a cut; the whole axis if none of the cut's variables has it."""
    parts = entry if is_coupled(entry) else {name: entry}
    listed = any(isinstance(e, Mapping) and e.get("values") == COORDINATE for e in parts.values())
    if listed:  # long lists are in coordinates, which were cut like the axis
        points = {key: _points(cut, name if key == "labels" else key) for key in parts}
        return make_axis(graph, name, points if is_coupled(entry) else points[name])
    whole = make_axis(graph, name, entry)
    if name not in cut.coords:
        if name in cut.dims:  # which of its points these are, and in what order, is unknown
            raise InputError(f"the cut has no labels of {name!r}; cut it by its labels")
        return whole
    places = {label(point): k for k, point in reversed([*enumerate(whole.labels)])}
    given = np.asarray(_points(cut, name))
    if {given.dtype.kind, whole.labels.dtype.kind} <= {*"iuf"}:  # counts are whole numbers there
        given = _snapped(given, whole.labels)
    wanted = [label(point) for point in given]
    if others := [point for point in wanted if point not in places]:
        raise InputError(
            f"{name} = {others[0]} is no label of the cube's spec: values between its points have "
            "no interval; evaluate the sweep there"
        )
    return whole.cut(np.asarray([places[point] for point in wanted], dtype=np.int64))


def _snapped(points: Array, labels: Array) -> Array:
    """Points as on their axis, where they differ by the rounding of units only."""
    ordered = np.sort(labels)
    places = np.searchsorted(ordered, points - 1e-9 * np.abs(points))
    near = ordered[np.minimum(places, ordered.size - 1)]
    return np.where(np.isclose(near, points, 1e-9, 0), near, points)


def _points(cut: "xarray.Dataset", name: str) -> Any:
    if name not in cut.coords:
        raise InputError(f"the cut does not have the coordinate {name!r} of its spec; keep it")
    values = np.atleast_1d(cut[name].values)
    return values if values.dtype.kind == "f" else values.tolist()


def predicted(cube: "xarray.Dataset") -> list[str]:
    """The variables of a cube that have intervals; empty if its spec is refused today."""
    try:
        sweep = sweep_of(cube)
        plan = sweep.with_outputs([n for n in sweep.spec["outputs"] if n in cube.data_vars])._plan(
            "numpy"
        )
    except InputError:
        return []
    return [name for name in stream.numeric(plan) if errors(plan, name)]


def with_interval(cut: "xarray.Dataset", outputs: Sequence[str] | None = None) -> "xarray.Dataset":
    """A cut of any cube with the ends of 90 % intervals; see `Sweep.prediction_interval`.

    They are evaluated now, at the points of the cut alone, by default for all numeric variables, in
    their units; a cut without any interval is returned unchanged. Raises InputError for more than
    MOST points, and if today's formulas and records give other values.
    """
    given, cut = cut, _in_base_units(cut)
    sweep = sweep_of(cut)
    wanted = cut.data_vars if outputs is None else outputs
    if outputs is not None and (unknown := {*outputs} - {*sweep.spec["outputs"]}):
        raise InputError(
            f"{min(unknown)!r} is no output of the cube's spec; "
            f"{nearest(min(unknown), sweep.spec['outputs'])}"
        )
    sweep = sweep.with_outputs([name for name in sweep.spec["outputs"] if name in wanted])
    plan = sweep._plan("numpy")
    if not is_predicted(plan):
        return given
    names = stream.numeric(plan)
    if sweep.points > MOST:
        raise InputError(
            f"the cut has {sweep.points:,} points, and intervals are evaluated at {MOST:,} "
            "at most; cut more axes"
        )
    intervals = interval(sweep, names, Settings("numpy"))
    points = {name: 0 for name in intervals.dims if name in cut.coords and name not in cut.dims}
    intervals = intervals.isel(points).drop_vars(points)
    _check_same(cut, intervals, names)
    ends: dict[str, Any] = {}
    for name in names:
        for end in (f"{name}_low", f"{name}_high"):
            if end in intervals:  # no value, no interval: cubes may have only feasible points
                stored = Variable(cut[name].dims, ~np.isnan(cut[name].values))
                ends[end] = intervals[end].where(stored).parts
    along = [dim for dims, *_ in ends.values() for dim in dims if dim not in cut.dims]
    # of the interval alone
    labels = {dim: intervals[dim].parts for dim in along if dim in intervals.coords}
    if given is not cut:
        units = {name: str(given[name].attrs["units"]) for name in names}
        ends = {end: in_units(cut.assign(ends), units)[end].variable for end in ends}
    return given.assign(ends).assign_coords(labels)


def _in_base_units(cut: "xarray.Dataset") -> "xarray.Dataset":
    """A cut as its spec gives it; the same where no unit was converted."""
    graph, bases = graph_at(cut.attrs), {}
    for name, row in cut.variables.items():
        if "units" in row.attrs and ERROR_OF not in row.attrs and is_known(graph, name):
            bases[str(name)] = unit_of(graph, str(name))
    bases = {name: unit for name, unit in bases.items() if cut[name].attrs["units"] != unit}
    return in_units(cut, bases) if bases else cut


def _check_same(cut: "xarray.Dataset", intervals: Result, names: Sequence[str]) -> None:
    """Refuse a cube whose records or values no longer match its spec."""
    written = cut.attrs.get("fleetcube_version", "the version")
    now = f"fleetcube {own_version()} than in {written}, which wrote the cube; evaluate it again"
    before = {(r["kind"], r["label"]): _same_record(r) for r in records(cut.attrs)}
    for record in records(intervals.attrs):
        if before.get((record["kind"], record["label"])) != _same_record(record):
            raise InputError(f"{record['kind']} {record['label']} is another in {now}")
    for name in names:
        stored, again = Variable(cut[name].dims, cut[name].values), intervals[name]
        if str(stored.dtype) not in _SAME:
            raise InputError(
                f"{name} is of {stored.dtype} here; keep the cube's own float64 or float32"
            )
        near = abs(stored - again) <= _SAME[str(stored.dtype)] * abs(again)
        if not (near | (stored == again) | np.isnan(stored)).all():
            if written == own_version():
                raise InputError(
                    f"{name} is not that of the spec at these points: it was changed since "
                    "(averaged, scaled, cut without its labels?), and has no interval; evaluate "
                    "it again"
                )
            raise InputError(f"{name} is another number in {now}")


def _same_record(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """The part of a record that decides values and intervals: auto's source is its posterior."""
    fitted = record["kind"] == "calibration"
    return record.get("digest"), record.get("source") if fitted else None
