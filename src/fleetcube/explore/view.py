"""The explore page's data: slices of a cube, as JSON and as files."""

import base64
import contextlib
import functools
import html
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

from fleetcube.grid.errors import ChangedError, InputError, check_path, nearest, shown
from fleetcube.grid.plan.labels import own_version
from fleetcube.grid.spec.axes import make_axis
from fleetcube.grid.spec.axis import Array
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.declare import written
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.presentation.pictures.picture import words
from fleetcube.tables.tables import as_read, export, scale

if TYPE_CHECKING:
    import xarray

    from fleetcube.sweep import Sweep

MOST_ACROSS = 400  # points shown along an axis, about one per pixel
MOST_OPTIONS = 100  # longest axis of labels offered as a list
MOST_SAVED = 1_000_000  # points of a downloaded slice
MOST_READ = 4e9  # bytes of the chunks that a slice of a stored cube touches
MOST_TRIED = 20_000  # points searched for a feasible one
MOST_BAND = 65  # points of an interval band along an axis
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
    def from_cube(cls, cube: "xarray.Dataset", name: str) -> Self:
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
            "base": [self.value(k) for k in picks],
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
    indices: Mapping[str, int]


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
        self.axes = {str(dim): Points.from_cube(cube, str(dim)) for dim in cube.dims}
        self.stored = False

    @classmethod
    def open(cls, source: str) -> Self:
        """Open a spec (a TOML file, evaluated on view) or a stored cube."""
        from fleetcube.sweep import Sweep

        check_path(source)
        if source.startswith("example:") or source.endswith(".toml") or Path(source).is_file():
            spec_sweep = Sweep.from_file(source)
            return cls(spec_sweep.virtual(), source, spec_sweep)
        from fleetcube.grid.plan.written import restored, result_scenario
        from fleetcube.grid.store.cube import open_cube, spec_of

        cube = open_cube(source)
        spec = spec_of(cube.attrs)
        try:
            sweep = Sweep(result_scenario(spec), restored(spec["axes"], cube), spec["outputs"])
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
            "decides": self.sweep is not None,
        }

    def link(self, query: str) -> dict[str, Any]:
        """The state that a link describes, and notes on the unknown parts.
        "variable=goodput&x=n_gpus&at.gpu_mttf=50000 h" has values, not indices; the nearest point
        is taken, with a note."""
        notes: list[str] = []
        try:
            fields = _fields(query)
        except InputError as error:
            fields = {}
            notes.append(str(error))
        indices: dict[str, int] = {}
        for key in [key for key in fields if key.startswith("at.")]:
            try:
                indices[key[3:]], note = self.index_of(key[3:], fields.pop(key))
                notes += [note] if note else []
            except ValueError as error:
                notes.append(str(error))
        names = {"variable": self.variables, "x": [*self.axes], "y": [*self.axes]}
        state: dict[str, str] = {}
        for key, allowed in names.items():
            text = fields.pop(key, "")
            if text and text not in allowed:
                notes.append(f"{key} = {shown(text)} is not here; {nearest(text, allowed)}")
            elif text:
                state[key] = text
        notes += [f"{shown(key)} is not understood" for key in fields]
        variable = state.get("variable", self.first)
        return {
            **self.description(),
            "state": {
                **state,
                "variable": variable,
                "at": {**({} if indices else self.start), **indices},
            },
            "notes": notes,
        }

    @functools.cached_property
    def first(self) -> str:
        """The variable shown first: the first output that varies, a number if there is one."""
        varying = [name for name in self.variables if self.cube[name].ndim]
        plain = [name for name in varying if "flag_meanings" not in self.cube[name].attrs]
        first: str = [*plain, *varying, *self.variables][0]
        return first

    @functools.cached_property
    def start(self) -> dict[str, int]:
        """The middle of all axes, or a feasible point near it, of labels that run most often."""
        indices = {name: axis.values.size // 2 for name, axis in self.axes.items()}
        if REASON not in self.cube.coords:
            return indices
        reason = self.cube.variables[REASON]
        dims = list(map(str, reason.dims))
        middle = reason.isel({dim: indices[dim] for dim in dims})
        large = self.stored and reason.size > MOST_SAVED
        if not dims or (large and (reason.size > 1e8 or int(middle.values) == 0)):
            return indices
        most = max(2, int(MOST_TRIED ** (1 / len(dims))))
        rows = [
            np.unique([*np.linspace(0, n - 1, min(n, most)).round().astype(int), indices[dim]])
            for n, dim in zip(reason.shape, dims, strict=True)
        ]
        able = np.asarray(reason.isel(dict(zip(dims, rows, strict=True))).load().values) == 0
        numbers = tuple(k for k, dim in enumerate(dims) if self.axes[dim].scale != "labels")
        count = able.sum(axis=numbers, keepdims=True)
        feasible = np.argwhere(able & (count == count.max()))
        if not feasible.size:
            return indices
        away = sum(
            ((row[feasible[:, k]] - indices[dim]) / reason.shape[k]) ** 2
            for k, (dim, row) in enumerate(zip(dims, rows, strict=True))
        )
        best = feasible[int(np.argmin(away))]
        return indices | {dim: int(row[k]) for dim, row, k in zip(dims, rows, best, strict=True)}

    def index_of(self, name: str, text: str) -> tuple[int, str]:
        """The index of the axis point that a text names, or of the nearest, with a note."""
        if name not in self.axes:
            raise InputError(f"{shown(name)} is not an axis here; {nearest(name, self.axes)}")
        axis = self.axes[name]
        if axis.scale == "labels":
            labels = [axis.label(k) for k in range(axis.values.size)]
            if text not in labels:
                raise InputError(
                    f"{name} = {shown(text)} is not on the axis; {nearest(text, labels)}"
                )
            return labels.index(text), ""
        plain = re.sub(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))", "", text.strip())  # as a page shows it
        if without_phase(name) in INPUTS:
            value = float(make_axis(PHYSICS, name, [_number(plain)]).numbers[name][0])
        else:
            try:
                value = float(plain.split()[0]) * axis.factor
            except (ValueError, IndexError):
                raise InputError(f"{name} = {shown(text)} is not a number; give one") from None
        k = int(np.argmin(np.abs(axis.values - value)))
        near = abs(axis.values[k] - value) <= 1e-9 * abs(value)
        note = f"{name} = {shown(text)} is not a point; {axis.text(k)} is the nearest"
        return k, "" if near else note

    def request(self, query: str) -> Request:
        """Read "variable=job_time&x=n_gpus&y=gpu_mttf&at.fabric=2"; indices count from 0. Axes
        without an index are cut in the middle."""
        fields = _fields(query)
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
        indices = {name: axis.values.size // 2 for name, axis in self.axes.items()}
        for key, text in fields.items():
            name = key.removeprefix("at.")
            if name == key or name not in indices:
                hint = f"give variable, x, y and at.AXIS, of {', '.join(indices) or 'no axis'}"
                raise InputError(f"parameter {shown(key)} is not known; {hint}")
            indices[name] = _index(name, text, self.axes[name].values.size)
        return Request(variable, x, y, indices)

    def slice(self, query: str) -> dict[str, Any]:
        """A map or curve as JSON, at most MOST_ACROSS points an axis; numbers as base64 float64."""
        request = self.request(query)
        shown_axes = [name for name in (request.y, request.x) if name is not None]
        picks = {name: self.axes[name].picks for name in shown_axes}
        started = time.perf_counter()
        with self._unchanged():
            numbers = self._read(request.variable, request, picks)
            reason = self._reason(request, picks)
        attrs = self.cube[request.variable].attrs
        factor, unit = 1.0, ""
        if "flag_meanings" not in attrs:
            factor, unit = as_read(attrs, numbers, request.variable)
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
                for name, k in request.indices.items()
            },
            "units": {name: axis.unit for name, axis in self.axes.items()},
            "link": {name: self.axes[name].text(k) for name, k in request.indices.items()},
            "base": {name: self.axes[name].value(k) for name, k in request.indices.items()},
            "seconds": time.perf_counter() - started,
        }

    def band(self, query: str) -> dict[str, Any]:
        """The ends of the variable's 90 % interval along x, in base units, as JSON."""
        request = self.request(query)
        if request.x is None or request.y is not None:
            raise InputError("an interval is along one axis; give x alone")
        if "flag_meanings" in self.cube[request.variable].attrs:
            raise InputError("a flag has no interval; choose a number")
        from fleetcube.analysis.reevaluate import with_interval

        picks = self.axes[request.x].picks
        places = np.unique(np.linspace(0, picks.size - 1, min(picks.size, MOST_BAND)).round())
        places = places.astype(np.int64)
        cut = self.cube.isel({**request.indices, request.x: picks[places]})
        with self._unchanged():
            interval = with_interval(cut, [request.variable])
        ends = [f"{request.variable}_{side}" for side in ("low", "high")]
        along = all(name in interval and request.x in interval[name].dims for name in ends)
        rows = [np.squeeze(interval[name].values) for name in ends] if along else [None, None]
        return {
            "places": places.tolist(),
            "low": None if rows[0] is None else _packed(np.atleast_1d(rows[0]), "<f8"),
            "high": None if rows[1] is None else _packed(np.atleast_1d(rows[1]), "<f8"),
        }

    def code(self, query: str) -> dict[str, str]:
        """The slice as a shell command and as Python code."""
        request = self.request(query)
        dims = list(map(str, self.cube[request.variable].dims))
        fixed = {
            n: k
            for n, k in request.indices.items()
            if n in dims and n not in (request.x, request.y)
        }
        points = [f"{name}={self.axes[name].text(k)}" for name, k in fixed.items()]
        verb = "slice" if self.stored else "run"
        command = shlex.join(["fleetcube", verb, self.source, *points, "-v", request.variable])
        opened = f"open_cube({self.source!r})"
        opened = opened if self.stored else f"Sweep.from_file({self.source!r}).virtual()"
        text = f"cube[{request.variable!r}]"
        named = {
            n: self.axes[n].value(k) for n, k in fixed.items() if self.axes[n].scale == "labels"
        }
        near = {n: self.axes[n].value(k) for n, k in fixed.items() if n not in named}
        text += f".sel({named!r})" if named else ""
        text += f".sel({near!r}, method='nearest')" if near else ""
        lines = ["import fleetcube", "", f"cube = fleetcube.{opened}", f"print({text})", ""]
        return {"command": command, "python": "\n".join(lines)}

    @functools.cached_property
    def decision(self) -> str:
        """The page of the spec, whose formulas compute in the browser."""
        from fleetcube.presentation.page.page import page

        why = self.why
        if self.sweep is not None:
            try:
                return page(self.sweep.spec, self.source, "" if self.stored else self.source)
            except InputError as error:
                why = str(error)
        return (
            f"<!doctype html><html lang=en><title>fleetcube</title><p>{html.escape(why)}</p>"
            "<p><a href='/'>Maps and curves of the axes</a></p></html>"
        )

    def saved(self, query: str, ending: str) -> tuple[str, bytes]:
        """A slice as a .csv or .nc file, with all points in base units: name and bytes."""
        request = self.request(query)
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
        fixed = {
            dim: k for dim, k in request.indices.items() if dim in cut.dims and dim not in names
        }
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
            dim: picks.get(str(dim), request.indices[str(dim)]) for dim in variable.dims
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
        reason_dims = self.cube.variables[REASON].dims
        if not set(reason_dims) <= set(self.cube[request.variable].dims):
            return None
        reason = self._read(REASON, request, picks)
        spread = reason.reshape(
            [rows.size if dim in reason_dims else 1 for dim, rows in picks.items()]
        )
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


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


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
