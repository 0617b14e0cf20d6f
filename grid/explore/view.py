"""The explore page's data: slices of a cube and the levers at a point, as JSON and as files."""

import base64
import contextlib
import functools
import math
import re
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl

import numpy as np

from ...kernels.calculus.phases import without_phase
from ...kernels.declare import written
from ...kernels.inputs import INPUTS
from ...kernels.roles import MONEY, REASON
from ..errors import ChangedError, InputError, check_path, nearest, shown
from ..plan.labels import own_version
from ..plots.picture import words
from ..show.selectors import narrow
from ..show.tables import export, finite, label, scale
from ..spec.axes import make_axes, make_axis
from ..spec.axis import Array
from ..spec.values import is_whole
from .layouts import Found, search, without

if TYPE_CHECKING:
    import xarray

    from ..sweep import Sweep

MOST_ACROSS = 400  # points shown along an axis, about one per pixel
MOST_OPTIONS = 100  # longest axis of labels offered as a list
MOST_SAVED = 1_000_000  # points of a downloaded slice
MOST_READ = 4e9  # bytes of the chunks that a slice of a stored cube touches
MOST_TRIED = 20_000  # points searched for a feasible one
MOST_BAND = 65  # points of an interval band along an axis
MOST_ADDED = 8  # sliders
STEPS = 101  # of an added slider
KEPT = 8  # cached changed views
CHANGES = ("add.", "put.", "set.")  # prefixes of query fields that change the view
TOP = 10  # levers
LONGEST = 8000  # characters of a query


@dataclass(frozen=True)
class Points:
    """The points of an axis, in a convenient unit."""

    name: str
    values: Array
    factor: float
    unit: str
    scale: str  # "linear", "log" or "labels"

    @classmethod
    def of(cls, cube: "xarray.Dataset", name: str) -> Self:
        """An axis of a cube; its indices if it has no coordinate."""
        if name not in cube.coords:
            return cls(name, np.arange(cube.sizes[name]), 1.0, "", "linear")
        values = np.asarray(cube[name].values)
        option = name in INPUTS and INPUTS[name].kind == "option"
        if values.dtype.kind not in "iuf" or option:
            return cls(name, values, 1.0, "", "labels")
        factor, unit = scale(str(cube[name].attrs.get("units", "1")), values, name)
        return cls(name, values, factor, unit, spacing(values))

    def label(self, k: int) -> str:
        value = self.value(k)
        return value if isinstance(value, str) else number(value / self.factor, digits=6)

    def text(self, k: int) -> str:
        """A point with its unit, with 12 digits and without commas, as in links."""
        value = self.value(k)
        return (
            value if isinstance(value, str) else f"{value / self.factor:.12g} {self.unit}".rstrip()
        )

    def value(self, k: int) -> float | str:
        """A point as a spec writes it."""
        value = self.values[k : k + 1].tolist()[0]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        return written(value)

    @functools.cached_property
    def picks(self) -> Array:
        """Indices of the points shown: at most MOST_ACROSS, evenly spread."""
        size = self.values.size
        if size <= MOST_ACROSS:
            return np.arange(size)
        return np.linspace(0, size - 1, MOST_ACROSS).round().astype(np.int64)

    @functools.cached_property
    def as_json(self) -> dict[str, Any]:
        picks = self.picks
        plotted = self.scale != "labels"
        return {
            "name": self.name,
            "unit": self.unit,
            "scale": self.scale,
            "picks": picks.tolist(),
            "title": words(self.name),
            "labels": [self.label(k) for k in picks],
            "links": [self.text(k) for k in picks],
            "values": (self.values[picks] / self.factor).tolist() if plotted else None,
        }


def spacing(values: Array) -> str:
    """The scale on which numbers are more evenly spaced; "labels" if they do not ascend."""
    numbers = values.astype(float)
    if not np.isfinite(numbers).all() or not (np.diff(numbers) > 0).all():
        return "labels"
    if numbers.size < 3 or numbers[0] <= 0:
        return "linear"
    spread = [
        np.ptp(steps) / steps.mean() for steps in (np.diff(numbers), np.diff(np.log(numbers)))
    ]
    return "log" if spread[1] < spread[0] - 1e-9 else "linear"


@dataclass(frozen=True)
class Request:
    """A requested slice: a variable, up to two axes, and indices on the others."""

    variable: str
    x: str | None
    y: str | None
    at: Mapping[str, int]


class View:
    """A stored or virtual cube for the page, its name, and its sweep, or `why` there is none."""

    def __init__(
        self, cube: "xarray.Dataset", source: str, sweep: "Sweep | None", why: str = ""
    ) -> None:
        self.cube, self.source, self.sweep, self.why = cube, source, sweep, why
        names = [str(name) for name in cube.data_vars]
        order: Any = [] if sweep is None else sweep.spec["outputs"]
        self.variables = [name for name in order if name in names]
        self.variables += [name for name in names if name not in order]
        if REASON in cube.coords:
            self.variables.append(REASON)
        if not self.variables:
            raise InputError(f"{source!r} holds no variable; name outputs in its spec")
        self.axes = {str(dim): Points.of(cube, str(dim)) for dim in cube.dims}
        self.stored = False
        self._changed: dict[Any, View] = {}
        self._found: Any = None  # last search: its point, its view and the layouts

    @classmethod
    def open(cls, source: str) -> Self:
        """Open a spec (a TOML file, evaluated on view) or a stored cube."""
        from ..sweep import Sweep

        check_path(source)
        if source.endswith(".toml") or Path(source).is_file():
            own = Sweep.from_file(source)
            return cls(own.virtual(), source, own)
        from ..plan.written import as_it_was, restored
        from ..store.cube import open_cube, spec_of

        cube = open_cube(source)
        spec = spec_of(cube.attrs)
        try:
            sweep = Sweep(as_it_was(spec), restored(spec["axes"], cube), spec["outputs"])
            view = cls(cube, source, sweep)
        except ValueError as error:
            view = cls(cube, source, None, f"the cube's spec is refused: {error}")
        view.stored = True
        return view

    def description(self) -> dict[str, Any]:
        options = {
            name: [axis.label(k) for k in range(axis.values.size)]
            for name, axis in self.axes.items()
            if axis.scale == "labels" and axis.values.size <= MOST_OPTIONS
        }
        return {
            "source": self.source,
            "version": own_version(),
            "axes": [
                {
                    "name": name,
                    "title": words(name),
                    "size": axis.values.size,
                    "numeric": axis.scale != "labels",
                    "options": options.get(name),
                }
                for name, axis in self.axes.items()
            ],
            "variables": [
                {
                    "name": name,
                    "title": words(name),
                    "dims": list(map(str, self.cube[name].dims)),
                    "meaning": str(self.cube[name].attrs.get("long_name", "")),
                    "flag": "flag_meanings" in self.cube[name].attrs,
                }
                for name in self.variables
            ],
            "inputs": self.inputs,
            "kinds": self.kinds,
            "plans": self.sweep is not None and not self.stored,
        }

    @functools.cached_property
    def kinds(self) -> list[str]:
        """Kinds of inputs that levers can be restricted to; empty if there are no sensitivities."""
        from ..ask.sensitivity import ALL, GIVEN, kinds

        return [] if self.sweep is None else [ALL, *kinds(), GIVEN]

    @functools.cached_property
    def inputs(self) -> list[dict[str, str]]:
        """Candidate sliders: inputs that matter here and are no axis, with a range for each."""
        if self.sweep is None or self.stored:
            return []
        from ..ask.gradient import of_phases, reached
        from ..ask.sensitivity import cut, frozen

        try:
            plan = cut(self.sweep, {})[0]._plan("numpy")
            problem, values = frozen(plan)
        except ValueError:  # more than one case, as when phases have different options
            return []
        felt = reached(plan, list(plan.outputs)) | {*problem.options}
        owned = {
            name for axis in make_axes(self.sweep.spec["axes"]).values() for name in axis.inputs
        }
        rows = []
        for name in [*(name for name in INPUTS if name in felt), *of_phases(plan, felt)]:
            row = INPUTS[without_phase(name)]
            if name in owned or not math.isfinite(values.get(name, 0)):
                continue
            if row.kind == "option":
                ends = ",".join(label(choice) for choice in row.choices)
            else:
                ends = _around(values.get(name, math.nan), row)
            rows.append({"name": name, "title": words(name), "range": ends})
        return rows

    def changed(self, fields: dict[str, str]) -> "View":
        """The view with a query's sliders and typed values, which are removed from `fields`.
        "add.gpu_price=1:5" adds an axis, "put.n_gpus=5000" a point to one; "set.zero_stage=3"
        states an input in place of axes."""
        adds, puts, sets = (
            {key[4:]: fields.pop(key) for key in sorted(fields) if key.startswith(start)}
            for start in CHANGES
        )
        if not adds and not puts and not sets:
            return self
        if self.sweep is None or self.stored:
            raise InputError("a stored cube has only its own points; explore its spec for others")
        if len(adds) > MOST_ADDED:
            raise InputError(f"{len(adds)} sliders are added and at most {MOST_ADDED} can be")
        key = (*adds.items(), None, *puts.items(), None, *sets.items())
        if key not in self._changed:
            scenario, axes = dict(self.sweep.spec["scenario"]), dict(self.sweep.spec["axes"])
            if sets:
                axes = without(axes, *sets)
                scenario = {name: value for name, value in scenario.items() if name not in sets}
                own = {**self.sweep.spec, "scenario": scenario, "axes": axes}
                stated = narrow(own, [f"{name}={text}" for name, text in sets.items()])[0]
                scenario = stated["scenario"]
                for name in sets.keys() & stated["axes"].keys():
                    raise InputError(f"{name} = {shown(sets[name])} is a list; give one value")
            for name, text in adds.items():
                if name in axes:
                    raise InputError(f"{shown(name)} is an axis already; move its slider")
                axes[name] = _slider(self.sweep.spec, name, text)
            for name, text in puts.items():
                axes[name] = _with_point({**self.sweep.spec, "axes": axes}, name, text)
            sweep = self.sweep.replace(scenario=scenario, axes=axes)
            if len(self._changed) >= KEPT:
                self._changed.pop(next(iter(self._changed)))
            self._changed[key] = View(sweep.virtual(), self.source, sweep)
        return self._changed[key]

    def link(self, query: str) -> dict[str, Any]:
        """The state that a link describes, and notes on the parts that were not understood.
        "variable=goodput&x=n_gpus&at.gpu_mttf=50000 h" has values, not indices. Values missing from
        a spec's axes are added; for a stored cube the nearest is taken, with a note."""
        notes: list[str] = []
        try:
            fields = _fields(query)
        except InputError as error:
            fields = {}
            notes.append(str(error))
        own: View = self
        kept: dict[str, str] = {}
        for key in [key for key in sorted(fields) if key.startswith(CHANGES)]:
            text = fields.pop(key)
            try:
                own = self.changed({**kept, key: text})
                kept[key] = text
            except ValueError as error:
                notes.append(str(error))
        at: dict[str, int] = {}
        for key in [key for key in fields if key.startswith("at.")]:
            name, text = key[3:], fields.pop(key)
            try:
                at[name] = own.index_of(name, text)
                continue
            except LookupError as error:
                note = str(error.args[0])
            except ValueError as error:
                notes.append(str(error))
                continue
            try:
                own = self.changed({**kept, f"put.{name}": text})
                kept[f"put.{name}"] = text
                at[name] = own.index_of(name, text)
            except (LookupError, ValueError) as error:
                notes.append(note if own.stored else str(error))
        # an inserted point shifts the indices above it
        values = {
            n: v for k, v in _fields_of(query) if (n := k.removeprefix("at.")) in at and n != k
        }
        for name, text in values.items():
            with contextlib.suppress(LookupError, ValueError):
                at[name] = own.index_of(name, text)
        names = {"variable": own.variables, "x": [*own.axes], "y": [*own.axes]}
        state: dict[str, str] = {}
        for key, known in names.items():
            text = fields.pop(key, "")
            if text and text not in known:
                notes.append(f"{key} = {shown(text)} is not here; {nearest(text, known)}")
            elif text:
                state[key] = text
        kind = fields.pop("kind", "")
        if kind in own.kinds:
            state["kind"] = kind
        elif kind:
            notes.append(f"kind = {shown(kind)} is not here; {nearest(kind, own.kinds)}")
        notes += [f"{shown(key)} is not understood" for key in fields]
        variable = state.get("variable", own.first)
        return {
            **own.description(),
            "changes": kept,
            "state": {
                **state,
                "variable": variable,
                "at": {**({} if at else own.start(variable)), **at},
            },
            "notes": notes,
        }

    @functools.cached_property
    def first(self) -> str:
        """The variable shown first: goodput, or the first ratio that varies."""
        if "goodput" in self.variables:
            return "goodput"
        wide = [
            name
            for name in self.variables
            if "flag_meanings" not in self.cube[name].attrs and self.cube[name].ndim > 1
        ]
        ratios = [name for name in wide if self.cube[name].attrs.get("units") == "1"]
        first: str = [*ratios, *wide, *self.variables][0]
        return first

    def start(self, variable: str) -> dict[str, int]:
        """The middle of all axes, or a feasible point near it."""
        at = {name: axis.values.size // 2 for name, axis in self.axes.items()}
        if REASON not in self.cube.coords:
            return at
        reason = self.cube.variables[REASON]
        if self.stored and reason.size > 1e8:
            return at
        dims = list(map(str, reason.dims))
        if not dims or int(reason.isel({dim: at[dim] for dim in dims}).values) == 0:
            return at
        most = max(2, int(MOST_TRIED ** (1 / len(dims))))
        rows = [
            np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int)) for n in reason.shape
        ]
        found = np.argwhere(
            np.asarray(reason.isel(dict(zip(dims, rows, strict=True))).load().values) == 0
        )
        if not found.size:
            return at
        away = sum(
            ((row[found[:, k]] - at[dim]) / reason.shape[k]) ** 2
            for k, (dim, row) in enumerate(zip(dims, rows, strict=True))
        )
        best = found[int(np.argmin(away))]
        return at | {dim: int(row[k]) for dim, row, k in zip(dims, rows, best, strict=True)}

    def index_of(self, name: str, text: str) -> int:
        """The index of the axis point that a text names; LookupError if there is none."""
        if name not in self.axes:
            raise InputError(f"{shown(name)} is not an axis here; {nearest(name, self.axes)}")
        axis = self.axes[name]
        if axis.scale == "labels":
            labels = [axis.label(k) for k in range(axis.values.size)]
            if text not in labels:
                raise InputError(
                    f"{name} = {shown(text)} is not on the axis; {nearest(text, labels)}"
                )
            return labels.index(text)
        plain = _plain(text)
        if without_phase(name) in INPUTS:
            value = float(make_axis(name, [_number(plain)]).numbers[name][0])
        else:
            try:
                value = float(plain.split()[0]) * axis.factor
            except (ValueError, IndexError):
                raise InputError(f"{name} = {shown(text)} is not a number; give one") from None
        k = int(np.argmin(np.abs(axis.values - value)))
        if abs(axis.values[k] - value) > 1e-9 * abs(value):
            raise LookupError(
                f"{name} = {shown(text)} is not a point; {axis.text(k)} is the nearest"
            )
        return k

    def request(self, query: str) -> tuple["View", Request]:
        """Read "variable=job_time&x=n_gpus&y=gpu_mttf&at.fabric=2"; indices count from 0. Axes
        without an index are cut in the middle; the view includes the query's sliders."""
        fields = _fields(query)
        view = self.changed(fields)
        return view, view._request(fields)

    def _request(self, fields: dict[str, str]) -> Request:
        variable = fields.pop("variable", "")
        if variable not in self.variables:
            hint = nearest(variable, self.variables, f"choose from {', '.join(self.variables)}")
            raise InputError(f"variable = {shown(variable)} is not in the cube; {hint}")
        dims = list(map(str, self.cube[variable].dims))
        x, y = fields.pop("x", "") or None, fields.pop("y", "") or None
        for axis in (x, y):
            if axis is not None and axis not in dims:
                choices = ", ".join(dims) or "none"
                raise InputError(f"{shown(axis)} is not an axis of {variable}; its axes: {choices}")
        if y is not None and (x is None or x == y):
            raise InputError(f"x and y are {x!r} and {y!r}; choose two axes, or x alone")
        at = {name: axis.values.size // 2 for name, axis in self.axes.items()}
        for key, text in fields.items():
            name = key.removeprefix("at.")
            if name == key or name not in at:
                hint = f"give variable, x, y and at.AXIS, of {', '.join(at) or 'no axis'}"
                raise InputError(f"parameter {shown(key)} is not known; {hint}")
            at[name] = _index(name, text, self.axes[name].values.size)
        return Request(variable, x, y, at)

    def slice(self, query: str) -> dict[str, Any]:
        """A map or curve as JSON, at most MOST_ACROSS points an axis; numbers as base64 float64."""
        view, request = self.request(query)
        return view._slice(request)

    def _slice(self, request: Request) -> dict[str, Any]:
        shown_axes = [name for name in (request.y, request.x) if name is not None]
        picks = {name: self.axes[name].picks for name in shown_axes}
        started = time.perf_counter()
        with self._unchanged():
            numbers = self._read(request.variable, request, picks)
            reason = self._reason(request, picks)
        attrs = self.cube[request.variable].attrs
        factor, unit = 1.0, ""
        if "flag_meanings" not in attrs:
            factor, unit = scale(str(attrs.get("units", "1")), numbers, request.variable)
        axes = {name: self.axes[name].as_json for name in picks}
        return {
            "variable": request.variable,
            "title": words(request.variable),
            "unit": unit,
            "factor": factor,
            "flags": _flags(attrs),
            "values": _packed(numbers / factor, "<f8"),
            "reason": None if reason is None else _packed(reason, "i1"),
            "reasons": {} if reason is None else _flags(self.cube[REASON].attrs),
            "x": axes.get(request.x or ""),
            "y": axes.get(request.y or ""),
            "at": {
                name: f"{self.axes[name].label(k)} {self.axes[name].unit}".rstrip()
                for name, k in request.at.items()
            },
            "units": {name: axis.unit for name, axis in self.axes.items()},
            "link": {name: self.axes[name].text(k) for name, k in request.at.items()},
            "seconds": time.perf_counter() - started,
        }

    def band(self, query: str) -> dict[str, Any]:
        """The ends of the variable's 90 % interval along x, in base units, as JSON."""
        view, request = self.request(query)
        if request.x is None or request.y is not None:
            raise InputError("an interval is along one axis; give x alone")
        if "flag_meanings" in self.cube[request.variable].attrs:
            raise InputError("a flag has no interval; choose a number")
        from ..ask.reevaluate import with_interval

        picks = view.axes[request.x].picks
        places = np.unique(np.linspace(0, picks.size - 1, min(picks.size, MOST_BAND)).round())
        places = places.astype(np.int64)
        cut = view.cube.isel({**request.at, request.x: picks[places]})
        with self._unchanged():
            found = with_interval(cut, [request.variable])
        ends = [f"{request.variable}_{side}" for side in ("low", "high")]
        known = all(name in found and request.x in found[name].dims for name in ends)
        rows = [np.squeeze(found[name].values) for name in ends] if known else [None, None]
        return {
            "places": places.tolist(),
            "low": None if rows[0] is None else _packed(np.atleast_1d(rows[0]), "<f8"),
            "high": None if rows[1] is None else _packed(np.atleast_1d(rows[1]), "<f8"),
        }

    def code(self, query: str) -> dict[str, str]:
        """The slice as a shell command and as Python code."""
        fields = _fields(query)
        changes = {k: v for k, v in fields.items() if k.startswith(CHANGES)}
        view, request = self.request(query)
        dims = list(map(str, view.cube[request.variable].dims))
        fixed = {
            n: k for n, k in request.at.items() if n in dims and n not in (request.x, request.y)
        }
        points = [f"{name}={view.axes[name].text(k)}" for name, k in fixed.items()]
        kept = [name for name in (request.x, request.y) if name and f"add.{name}" in changes]
        points += [
            f"{name}={','.join(map(view.axes[name].text, view.axes[name].picks))}" for name in kept
        ]
        sets = {key[4:]: text for key, text in changes.items() if key.startswith("set.")}
        points += [f"{name}={text}" for name, text in sets.items()]
        verb = "slice" if self.stored else "run"
        command = shlex.join(["fleetcube", verb, self.source, *points, "-v", request.variable])
        if sets and self.sweep is not None:
            try:
                narrow(self.sweep.spec, [f"{name}={text}" for name, text in sets.items()])
            except InputError as error:
                command = f"# no command changes what an axis of labels sets: {error}"
        lines = ["import fleetcube", ""]
        if self.stored:
            lines.append(f"cube = fleetcube.open_cube({self.source!r})")
        else:
            lines.append(f"sweep = fleetcube.Sweep.from_file({self.source!r})")
            if changes and view.sweep is not None:
                own = {key[4:] for key in changes if not key.startswith("set.")}
                rows = {n: [view.axes[n].value(k) for k in view.axes[n].picks] for n in sorted(own)}
                rows = {
                    n: [view.axes[n].value(request.at[n])] if n in fixed else r
                    for n, r in rows.items()
                }
                axes = "**sweep.spec['axes']"
                if sets:
                    was, now = (own.sweep.spec["axes"] for own in (self, view) if own.sweep)
                    rows |= {
                        n: row
                        for n, row in now.items()
                        if isinstance(row, Mapping) and row.keys() != was[n].keys()
                    }
                    scenario = {n: view.sweep.spec["scenario"][n] for n in sets}
                    lines.append(f"scenario = {{**sweep.spec['scenario'], **{scenario!r}}}")
                    gone = [name for name in was if name not in now]
                    axes = f"**{{n: a for n, a in sweep.spec['axes'].items() if n not in {gone!r}}}"
                with_it = "scenario=scenario, " if sets else ""
                lines.append(f"sweep = sweep.replace({with_it}axes={{{axes}, **{rows!r}}})")
            lines.append("cube = sweep.virtual()")
        text = f"cube[{request.variable!r}]"
        named = {
            n: view.axes[n].value(k) for n, k in fixed.items() if view.axes[n].scale == "labels"
        }
        near = {n: view.axes[n].value(k) for n, k in fixed.items() if n not in named}
        text += f".sel({named!r})" if named else ""
        text += f".sel({near!r}, method='nearest')" if near else ""
        return {"command": command, "python": "\n".join([*lines, f"print({text})", ""])}

    def levers(self, query: str) -> dict[str, Any]:
        """Top inputs at a point, as JSON: of all kinds, one kind, or those a plan may change."""
        fields = _fields(query)
        kind = fields.pop("kind", "")
        view = self.changed(fields)
        return view._levers(view._request(fields), kind)

    def _levers(self, request: Request, kind: str) -> dict[str, Any]:
        if self.sweep is None:
            raise InputError(f"there are no sensitivities: {self.why}")
        from ..ask.sensitivity import among, check_levers, cut

        plan = cut(self.sweep.with_outputs([request.variable]), self._point(request))[0]._plan(
            "numpy"
        )
        inputs = check_levers(plan, request.variable, None)
        chosen = among(plan, inputs, kind.split(",") if kind else None) if inputs else []
        levers = self.sweep.rank_inputs(request.variable, chosen or None, at=self._point(request))
        of, unit = request.variable, str(levers[request.variable].attrs["units"])
        money = MONEY in levers and of != MONEY
        rows = []
        for k in range(min(TOP, levers.sizes["input"])):
            row = levers.isel(input=k)
            name = str(row["input"].item())
            rows.append(
                {
                    "input": name,
                    "title": words(name),
                    "meaning": INPUTS[name].description if name in INPUTS else "",
                    "kind": str(row["topic"].item()),
                    "value": with_unit(row["value"].item(), str(row["units"].item()), name),
                    "elasticity": finite(row["elasticity"].item()),
                    "below": _moved(row, of, unit, "below"),
                    "above": _moved(row, of, unit, "above"),
                    "money": [_gained(row, end) for end in ("below", "above")] if money else [],
                }
            )
        version = str(self.cube.attrs.get("fleetcube_version", own_version()))
        return {
            "variable": of,
            "value": with_unit(levers[of].item(), unit, of),
            "point": levers.attrs["fleetcube_point"],
            "infeasible": levers.attrs["fleetcube_infeasible"],
            "near": levers.attrs["fleetcube_near_memory_limit"] == 1,
            "rows": rows,
            "more": max(0, levers.sizes["input"] - TOP),
            "left": 0 if kind else len(inputs) - len(chosen),
            "money": words(MONEY) if money else "",
            "note": ""
            if version == own_version()
            else f"evaluated again by fleetcube {own_version()}; the cube was written by {version}",
        }

    def saved(self, query: str, ending: str) -> tuple[str, bytes]:
        """A slice as a .csv or .nc file, with all points in base units: name and bytes."""
        view, request = self.request(query)
        return view._saved(request, ending)

    def plan(self, query: str) -> dict[str, Any]:
        """The best layouts at a point, as JSON."""
        found, view, _ = self._planned(query)
        kept = self._left(view, found)
        return {**found.as_json(), "drops": [name for name in view.axes if name not in kept]}

    def report(self, query: str) -> tuple[str, bytes]:
        """The plan of a point as a one-file page: name and bytes."""
        found, view, request = self._planned(query)
        axes = self._left(view, found)
        point = [f"{name}={view.axes[name].text(request.at[name])}" for name in axes]
        return "plan.html", found.report(self.source, shlex.join(point)).encode()

    def _left(self, view: "View", found: Found) -> dict[str, Any]:
        """Axes that remain when a layout is applied."""
        axes = {} if view.sweep is None else view.sweep.spec["axes"]
        return without(axes, *found.present, *found.held)

    def _planned(self, query: str) -> "tuple[Found, View, Request]":
        """The best layouts at a point; the last search is cached for its report."""
        view, request = self.request(query)
        if view.sweep is None or view.stored:
            raise InputError("layouts are searched for a spec; explore the spec")
        key = (id(view), tuple(request.at.items()))
        if self._found is None or self._found[0] != key:
            self._found = key, view, search(view.sweep, request.at)
        return self._found[2], view, request

    def _point(self, request: Request) -> dict[str, Any]:
        """The requested point, as values of the sweep's axes."""
        sizes = {} if self.sweep is None else self.sweep._sizes
        return {name: self.axes[name].value(k) for name, k in request.at.items() if name in sizes}

    def _saved(self, request: Request, ending: str) -> tuple[str, bytes]:
        names = [name for name in (request.x, request.y) if name is not None]
        points = int(np.prod([self.cube.sizes[name] for name in names], dtype=float))
        if points > MOST_SAVED:
            raise InputError(
                f"the slice has {points:,} points and at most {MOST_SAVED:,} can be downloaded; "
                "use `fleetcube slice`, or one axis"
            )
        whole = {name: np.arange(self.cube.sizes[name]) for name in names}
        self._check_read(request.variable, whole)
        cut = self.cube[[request.variable]]
        fixed = {dim: k for dim, k in request.at.items() if dim in cut.dims and dim not in names}
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", "-".join([request.variable, *names]))[:100] + ending
        with self._unchanged(), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / plain
            export(cut.isel(fixed), path)
            return plain, path.read_bytes()

    @contextlib.contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Advise a restart if the cube was overwritten or removed meanwhile."""
        try:
            yield
        except ChangedError as error:
            raise InputError(
                f"{self.source!r} has changed since it was opened; restart `fleetcube explore` "
                f"({error})"
            ) from None

    def _read(self, name: str, request: Request, picks: Mapping[str, Array]) -> Array:
        """A variable over the axes shown, y before x, at one index of each other axis."""
        variable = self.cube.variables[name]
        self._check_read(name, picks)
        key: dict[Any, Any] = {
            dim: picks.get(str(dim), request.at[str(dim)]) for dim in variable.dims
        }
        for dim, rows in picks.items():
            if dim in key and rows.size == self.cube.sizes[dim]:
                key[dim] = slice(None)
        cut = variable.isel(key).load()  # first: transposed, it is read point by point
        return np.asarray(cut.transpose(*[dim for dim in picks if dim in cut.dims]).values, float)

    def _reason(self, request: Request, picks: Mapping[str, Array]) -> Array | None:
        """Infeasibility codes, if the variable varies over all axes that determine them."""
        if REASON not in self.cube.coords or request.variable == REASON:
            return None
        own = self.cube.variables[REASON].dims
        if not set(own) <= set(self.cube[request.variable].dims):
            return None
        reason = self._read(REASON, request, picks)
        spread = reason.reshape([rows.size if dim in own else 1 for dim, rows in picks.items()])
        return np.broadcast_to(spread, [rows.size for rows in picks.values()])

    def _check_read(self, name: str, picks: Mapping[str, Array]) -> None:
        """Refuse a slice that would read too much of a stored cube."""
        variable = self.cube.variables[name]
        chunks = variable.encoding.get("chunks")
        if not chunks:
            return
        size = float(variable.dtype.itemsize)
        for dim, chunk in zip(variable.dims, chunks, strict=True):
            rows = picks.get(str(dim))
            size *= chunk * (1 if rows is None else np.unique(rows // chunk).size)
        if size > MOST_READ:
            raise InputError(
                f"a slice of {name} over {', '.join(picks)} reads {size / 1e9:,.0f} GB of the "
                f"cube, and at most {MOST_READ / 1e9:g} GB may be read; choose other axes"
            )


def with_unit(value: float, unit: str, name: str) -> str:
    factor, text = scale(unit, [value], name)
    return f"{number(value / factor)} {text}".rstrip()


def _moved(row: "xarray.Dataset", of: str, unit: str, side: str) -> str:
    """The variable after an input is moved, and the new input value if it is not 10 % away."""
    name, value, to = (str(row["input"].item()), row["value"].item(), row[f"value_{side}"].item())
    if to == value:
        return "-"
    text = with_unit(row[f"{of}_{side}"].item(), unit, of)
    step = 0.9 if side == "below" else 1.1
    if value and abs(to / value - step) < 1e-9:
        return text
    return f"{text} (at {with_unit(to, str(row['units'].item()), name)})"


def _gained(row: "xarray.Dataset", side: str) -> str:
    """Change of the job's cost when an input is moved."""
    if row[f"value_{side}"].item() == row["value"].item():
        return "-"
    change = row[f"{MONEY}_{side}"].item() - row[MONEY].item()
    told = with_unit(change, str(row[MONEY].attrs["units"]), MONEY)
    return f"+{told}" if change > 0 else told


def _slider(spec: Mapping[str, Any], name: str, text: str) -> Any:
    """An axis for an input: first:last in even (linear or log) steps, or the values of a list."""
    first, colon, last = text.partition(":")
    if not colon:
        return make_axis(
            name, narrow(spec, [f"{name}={text}"])[0]["axes"].get(name, [_number(text)])
        )
    ends = narrow(spec, [f"{name}={_plain(first)},{_plain(last)}"])[0]["axes"].get(name, [])
    low, high = make_axis(name, ends).numbers.get(name, np.zeros(2)) if len(ends) == 2 else (0, 0)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"{name} = {shown(text)} is no range; give two numbers, the smaller first")
    steps = np.geomspace if low > 0 and high / low >= 20 else np.linspace
    values = steps(low, high, STEPS)
    return make_axis(name, np.unique(values.round()) if is_whole(name) else values)


def _with_point(spec: Mapping[str, Any], name: str, text: str) -> Any:
    """An axis of one number with an added point."""
    axis = make_axes(spec["axes"]).get(name)
    if axis is None or axis.inputs != (name,) or name not in axis.numbers:
        raise InputError(f"{shown(name)} is not an axis of numbers; choose one of its points")
    values = np.asarray(axis.numbers[name])
    point = make_axis(name, [_number(_plain(text))]).numbers[name]
    if not np.isfinite(point).all():
        raise InputError(f"{name} = {shown(text)} cannot be a point here; give a finite number")
    return make_axis(name, np.union1d(values, point))


def _plain(text: str) -> str:
    """A number as the page shows it, without thousands separators."""
    return re.sub(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", "", text.strip())


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _around(value: float, row: Any) -> str:
    """A range around an input's value, within its bounds."""
    if not math.isfinite(value):
        return ""
    low, high = (value / 2, value * 2) if value > 0 else (0.0, 1.0)
    low, high = max(low, row.low), min(high, row.high)
    if row.kind == "count":
        low, high = max(low, 1.0), max(high, min(4.0, row.high))
        return f"{math.floor(low)}:{math.ceil(high)}"
    factor, name = scale(row.unit, [value], row.name)
    return ":".join(f"{end / factor:.4g} {name}".rstrip() for end in (low, high))


def _fields_of(query: str) -> list[tuple[str, str]]:
    try:
        return list(_fields(query).items())
    except InputError:
        return []


def number(value: float, digits: int = 4) -> str:
    """A number to `digits` significant digits; whole numbers in full, up to ten million."""
    if not 1e3 <= abs(value) < 1e7:
        return f"{value:.{digits}g}"
    if abs(value - round(value)) < 1e-9 * abs(value):
        return f"{value:,.0f}"
    text = f"{value:,.{max(0, digits - 1 - int(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _fields(query: str) -> dict[str, str]:
    if len(query) > LONGEST:
        raise InputError(f"the query has {len(query):,} characters; at most {LONGEST:,} are read")
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError:
        raise InputError(f"{shown(query)} is not a query; write variable=NAME&x=AXIS") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise InputError(f"{shown(query)} gives a parameter twice; give it once")
    return fields


def _index(name: str, text: str, size: int) -> int:
    whole = text.isascii() and text.isdecimal() and len(text) <= 12
    if not whole or int(text) >= size:
        raise InputError(
            f"at.{name} = {shown(text)} is not an index of the axis; give 0 to {size - 1}"
        )
    return int(text)


def _flags(attrs: Mapping[Any, Any]) -> dict[str, str] | None:
    """Meaning of each code; None for a numeric variable."""
    if "flag_meanings" not in attrs:
        return None
    codes = np.atleast_1d(attrs["flag_values"]).tolist()
    return dict(zip(map(str, codes), str(attrs["flag_meanings"]).split(), strict=False))


def _packed(numbers: Array, kind: str) -> str:
    # not a list: JSON has no NaN and no infinity
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode("ascii")
