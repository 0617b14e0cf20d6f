"""What a page shows of a cube: its axes and variables, and slices of its values."""

import base64
import contextlib
import functools
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl

import numpy as np

from fleetcube.grid.errors import ChangedError, InputError, check_path, nearest, shown
from fleetcube.grid.plan.written import restored, result_scenario
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.spec.axis import Array
from fleetcube.grid.store.cube import open_cube, spec_of
from fleetcube.kernels.declare import written
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import BEST_HIGH
from fleetcube.presentation.pictures.picture import words
from fleetcube.tables.tables import as_read, export, scale, words_of_codes

from .page import page, page_of_cube

if TYPE_CHECKING:
    import xarray

MOST_ACROSS = 400  # points shown along an axis, about one per pixel
MOST_SAVED = 1_000_000  # points of a downloaded slice
MOST_READ = 4e9  # bytes of the chunks that a slice of a stored cube touches
MOST_TRIED = 20_000  # points searched for a feasible one
LONGEST = 8000  # characters of a query


@dataclass(frozen=True)
class Points:
    """The points of an axis of a cube; its indices if it has no coordinate."""

    name: str
    values: Array
    units: str

    @classmethod
    def from_cube(cls, cube: "xarray.Dataset", name: str) -> Self:
        if name not in cube.coords:
            return cls(name, np.arange(cube.sizes[name]), "")
        values = np.asarray(cube[name].values)
        return cls(name, values, str(cube[name].attrs.get("units", "1")))

    @functools.cached_property
    def scale(self) -> str:
        """The scale on which its numbers are more evenly spaced; "labels" if it is none of
        numbers that ascend."""
        option = self.name in INPUTS and INPUTS[self.name].kind == "option"
        if self.values.dtype.kind not in "iuf" or option:
            return "labels"
        numbers = self.values.astype(float)
        if not np.isfinite(numbers).all() or not (np.diff(numbers) > 0).all():
            return "labels"
        if numbers.size < 3 or numbers[0] <= 0:
            return "linear"
        spread = [
            np.ptp(steps) / steps.mean() for steps in (np.diff(numbers), np.diff(np.log(numbers)))
        ]
        return "log" if spread[1] < spread[0] - 1e-9 else "linear"

    @functools.cached_property
    def picks(self) -> Array:
        """Indices of the points shown: at most MOST_ACROSS, evenly spread."""
        size = self.values.size
        if size <= MOST_ACROSS:
            return np.arange(size)
        return np.linspace(0, size - 1, MOST_ACROSS).round().astype(np.int64)

    def described(self) -> dict[str, Any]:
        shown_values = self.values[self.picks].tolist()
        facts = {"name": self.name, "title": words(self.name), "size": self.values.size}
        if self.values.size > MOST_ACROSS:
            facts["picks"] = self.picks.tolist()
        if self.scale == "labels":
            facts["labels"] = [written(value) for value in shown_values]
            return facts | ({"values": shown_values} if self.values.dtype.kind in "iuf" else {})
        factor, unit = scale(self.units, self.values, self.name)
        log = self.scale == "log"
        return facts | {"values": shown_values, "factor": factor, "unit": unit, "log": log}


@dataclass(frozen=True)
class Request:
    """A requested slice: a variable, up to two axes, and indices on the others."""

    variable: str
    x: str | None
    y: str | None
    indices: Mapping[str, int]


class View:
    """A stored or virtual cube for the page; its spec, or `why` there is none that computes."""

    def __init__(
        self, cube: "xarray.Dataset", source: str, spec: Mapping[str, Any] | None, why: str = ""
    ) -> None:
        self.cube, self.source, self.spec, self.why = cube, source, spec, why
        names = [str(name) for name in cube.data_vars]
        first = [name for name in (spec["outputs"] if spec else ()) if name in names]
        reason = [REASON] if REASON in cube.coords else []
        self.variables = [*dict.fromkeys([*first, *names, *reason])]
        if not self.variables:
            raise InputError(f"{source!r} holds no variable; name outputs in its spec")
        self.axes = {str(dim): Points.from_cube(cube, str(dim)) for dim in cube.dims}
        self.stored = False

    @classmethod
    def open(cls, source: str) -> Self:
        """Open a stored cube."""
        check_path(source)
        cube = open_cube(source)
        spec = spec_of(cube.attrs)
        try:
            axes = restored(spec["axes"], cube)
            view = cls(cube, source, Evaluation(result_scenario(spec), axes, spec["outputs"]).spec)
        except ValueError as error:
            view = cls(cube, source, None, f"the cube's spec is refused: {error}")
        view.stored = True
        return view

    @functools.cached_property
    def page(self) -> str:
        """The page, which computes the cube's spec where one page can hold its formulas."""
        if self.spec is not None:
            try:
                return page(self.spec, self.source, cube=self.described())
            except InputError as error:
                self.why = str(error)
        return page_of_cube(self.source, self.described(), self.why)

    def described(self) -> dict[str, Any]:
        """Axes and variables; numbers in base units."""
        return {
            "source": self.source,
            "stored": self.stored,
            "axes": [axis.described() for axis in self.axes.values()],
            "variables": [self._variable(name) for name in self.variables],
            "start": self.start,
        }

    def _variable(self, name: str) -> dict[str, Any]:
        variable = self.cube[name]
        about = str(variable.attrs.get("long_name", ""))
        facts: dict[str, Any] = {"name": name, "title": words(name), "about": about}
        facts |= {"sense": -1 if name in BEST_HIGH else 1, "varies": bool(variable.dims)}
        reasons = self.cube[REASON].dims if REASON in self.cube.coords else ()
        # hatched where nothing runs: others, such as rates of failures, hold there, too
        facts["masked"] = bool(reasons) and {*reasons} <= {*variable.dims} and name != REASON
        if "flag_meanings" in variable.attrs:
            return facts | {"words": words_of_codes(variable.attrs)}
        return facts | {"factor": 1, "unit": "", "kind": str(variable.dtype)}

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

    def request(self, query: str) -> Request:
        """Read "variable=job_time&x=n_gpus&y=gpu_mttf&at.fabric=2"; indices count from 0. Axes
        without an index are cut in the middle."""
        fields = _fields(query)
        variable = fields.pop("variable", "")
        if variable not in self.variables:
            hint = nearest(variable, self.variables, f"choose from {', '.join(self.variables)}")
            raise InputError(f"variable = {shown(variable)} is not in the cube; {hint}")
        x, y = fields.pop("x", "") or None, fields.pop("y", "") or None
        for axis in (x, y):
            if axis is not None and axis not in self.axes:
                choices = ", ".join(self.axes) or "none"
                raise InputError(f"{shown(axis)} is not an axis here; the axes: {choices}")
        if y is not None and (x is None or x == y):
            raise InputError(f"x and y are {x!r} and {y!r}; choose two axes, or x alone")
        indices = {name: axis.values.size // 2 for name, axis in self.axes.items()}
        for key, text in fields.items():
            name = key.removeprefix("at.")
            if name == key or name not in indices:
                hint = f"give variable, x, y and at.AXIS, of {', '.join(indices) or 'no axis'}"
                raise InputError(f"parameter {shown(key)} is not known; {hint}")
            size = self.axes[name].values.size
            if not (text.isascii() and text.isdecimal() and len(text) <= 12 and int(text) < size):
                raise InputError(
                    f"at.{name} = {shown(text)} is not an index of the axis; give 0 to {size - 1}"
                )
            indices[name] = int(text)
        return Request(variable, x, y, indices)

    def slice(self, query: str) -> dict[str, Any]:
        """A map, curve or point as JSON, at most MOST_ACROSS points an axis: numbers in base units
        as base64 float64, a row after the other, reasons as int8."""
        request = self.request(query)
        picks = {n: self.axes[n].picks for n in (request.y, request.x) if n is not None}
        with self._unchanged():
            numbers = self._read(request.variable, request, picks)
            has_reason = REASON in self.cube.coords and request.variable != REASON
            reason = self._read(REASON, request, picks) if has_reason else None
        attrs = self.cube[request.variable].attrs
        flag = "flag_meanings" in attrs
        factor, unit = (1.0, "") if flag else as_read(attrs, numbers, request.variable)
        return {
            "factor": factor,
            "unit": unit,
            "values": _packed(numbers, "<f8"),
            "reason": None if reason is None else _packed(reason, "i1"),
            "reasons": None if reason is None else words_of_codes(self.cube[REASON].attrs),
        }

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
        """A variable over the axes shown, also those that do not change it, y before x, at one
        index of each other axis."""
        variable = self.cube.variables[name]
        self._check_read(name, picks)
        key: dict[Any, Any] = {
            dim: picks.get(str(dim), request.indices[str(dim)]) for dim in variable.dims
        }
        for dim, rows in picks.items():
            if dim in key and rows.size == self.cube.sizes[dim]:
                key[dim] = slice(None)
        cut = variable.isel(key).load()  # first: transposed, it is read point by point
        values = np.asarray(cut.transpose(*[d for d in picks if d in cut.dims]).values, float)
        sizes = [rows.size if dim in cut.dims else 1 for dim, rows in picks.items()]
        return np.broadcast_to(values.reshape(sizes), [rows.size for rows in picks.values()])

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


def _packed(numbers: Array, kind: str) -> str:
    # not a list: JSON has no NaN and no infinity
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode("ascii")
