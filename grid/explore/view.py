"""The data of the page: slices of a cube and the levers at a point, as JSON and as files."""

import base64
import contextlib
import functools
import math
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl

import numpy as np

from ...kernels.inputs import INPUTS
from ...kernels.roles import REASON
from ..errors import ChangedError, InputError, nearest, shown
from ..plan.labels import own_version
from ..show.tables import export, finite, scale
from ..spec.axes import Array

if TYPE_CHECKING:
    import xarray

    from ..sweep import Sweep

MOST_ACROSS = 400  # points shown along an axis, about one a pixel
MOST_OPTIONS = 100  # labels of an axis that are a list to choose from
MOST_SAVED = 1_000_000  # points of a slice that is downloaded
MOST_READ = 4e9  # bytes in the chunks that a slice of a stored cube touches
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
        """An axis of a cube; its indices where it has no coordinate."""
        if name not in cube.coords:
            return cls(name, np.arange(cube.sizes[name]), 1.0, "", "linear")
        values = np.asarray(cube[name].values)
        option = name in INPUTS and INPUTS[name].kind == "option"
        if values.dtype.kind not in "iuf" or option:
            return cls(name, values, 1.0, "", "labels")
        factor, unit = scale(str(cube[name].attrs.get("units", "1")), values, name)
        return cls(name, values, factor, unit, spacing(values))

    def label(self, k: int) -> str:
        """A point, without its unit."""
        value = self.value(k)
        return value if isinstance(value, str) else number(value / self.factor, digits=6)

    def value(self, k: int) -> float | str:
        """A point as a spec states it."""
        value = self.values[k : k + 1].tolist()[0]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
        return str(value).lower() if isinstance(value, bool) else str(value)

    @functools.cached_property
    def picks(self) -> Array:
        """The points shown: at most MOST_ACROSS, evenly spread."""
        size = self.values.size
        if size <= MOST_ACROSS:
            return np.arange(size)
        return np.linspace(0, size - 1, MOST_ACROSS).round().astype(np.int64)

    @functools.cached_property
    def as_json(self) -> dict[str, Any]:
        """The points shown, as JSON."""
        picks = self.picks
        plotted = self.scale != "labels"
        return {
            "name": self.name,
            "unit": self.unit,
            "scale": self.scale,
            "picks": picks.tolist(),
            "labels": [self.label(k) for k in picks],
            "values": (self.values[picks] / self.factor).tolist() if plotted else None,
        }


def spacing(values: Array) -> str:
    """The scale on which numbers are more evenly spaced; labels if they do not ascend."""
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
    """A cube as the page sees it.

    Args:
        cube: stored or virtual.
        source: its name.
        sweep: what the cube is evaluated from; None if unknown, and `why`.
    """

    def __init__(
        self,
        cube: "xarray.Dataset",
        source: str,
        sweep: "Sweep | None",
        why: str = "",
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

    @classmethod
    def open(cls, source: str) -> Self:
        """View a spec (a TOML file, evaluated where it is viewed) or a stored cube."""
        from ..sweep import Sweep

        if source.endswith(".toml") or Path(source).is_file():
            own = Sweep.from_file(source)
            return cls(own.virtual(), source, own)
        from ..plan.written import as_it_was, restored
        from ..store.cube import open_cube, spec_of

        cube = open_cube(source)
        spec = spec_of(cube.attrs)
        sweep: Sweep | None = None
        why = ""
        try:
            sweep = Sweep(as_it_was(spec), restored(spec["axes"], cube), spec["outputs"])
        except ValueError as error:
            why = f"the cube's spec is refused: {error}"
        return cls(cube, source, sweep, why)

    def description(self) -> dict[str, Any]:
        """The axes and variables to choose from."""
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
                    "size": axis.values.size,
                    "numeric": axis.scale != "labels",
                    "options": options.get(name),
                }
                for name, axis in self.axes.items()
            ],
            "variables": [
                {
                    "name": name,
                    "dims": list(map(str, self.cube[name].dims)),
                    "meaning": str(self.cube[name].attrs.get("long_name", "")),
                    "flag": "flag_meanings" in self.cube[name].attrs,
                }
                for name in self.variables
            ],
        }

    def request(self, query: str) -> Request:
        """Read "variable=job_time&x=n_gpus&y=gpu_mttf&at.fabric=2"; indices count from 0.

        Axes without an index are cut in the middle; `at` of the axes shown is ignored.
        """
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
        at = {name: axis.values.size // 2 for name, axis in self.axes.items()}
        for key, text in fields.items():
            name = key.removeprefix("at.")
            if name == key or name not in at:
                hint = f"give variable, x, y and at.AXIS, of {', '.join(at) or 'no axis'}"
                raise InputError(f"parameter {shown(key)} is not known; {hint}")
            at[name] = _index(name, text, self.axes[name].values.size)
        return Request(variable, x, y, at)

    def slice(self, query: str) -> dict[str, Any]:
        """A map or a curve as JSON; its numbers as base64 of little-endian float64, row by row.

        Long axes are thinned evenly to MOST_ACROSS points.
        """
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
            factor, unit = scale(str(attrs.get("units", "1")), numbers, request.variable)
        axes = {name: self.axes[name].as_json for name in picks}
        return {
            "variable": request.variable,
            "unit": unit,
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
            "seconds": time.perf_counter() - started,
        }

    def levers(self, query: str) -> dict[str, Any]:
        """The inputs that matter most to the variable at a point, as JSON."""
        request = self.request(query)
        if self.sweep is None:
            raise InputError(f"there are no sensitivities: {self.why}")
        at = {
            name: self.axes[name].value(k)
            for name, k in request.at.items()
            if name in self.sweep.sizes
        }
        levers = self.sweep.levers(request.variable, at=at)
        of, unit = request.variable, str(levers[request.variable].attrs["units"])
        rows = []
        for k in range(min(TOP, levers.sizes["input"])):
            row = levers.isel(input=k)
            name = str(row["input"].item())
            rows.append(
                {
                    "input": name,
                    "meaning": INPUTS[name].description if name in INPUTS else "",
                    "value": with_unit(row["value"].item(), str(row["units"].item()), name),
                    "elasticity": finite(row["elasticity"].item()),
                    "below": with_unit(row[f"{of}_below"].item(), unit, of),
                    "above": with_unit(row[f"{of}_above"].item(), unit, of),
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
            "note": ""
            if version == own_version()
            else f"evaluated again by fleetcube {own_version()}; the cube was written by {version}",
        }

    def saved(self, query: str, ending: str) -> tuple[str, bytes]:
        """A slice as a file, .csv or .nc, with all points in base units: name and bytes."""
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
        fixed = {dim: k for dim, k in request.at.items() if dim in cut.dims and dim not in names}
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", "-".join([request.variable, *names]))[:100] + ending
        with self._unchanged(), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / plain
            export(cut.isel(fixed), path)
            return plain, path.read_bytes()

    @contextlib.contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Say what to do if the cube was overwritten or removed meanwhile."""
        try:
            yield
        except ChangedError as error:
            raise InputError(
                f"{self.source!r} has changed since it was opened; restart `fleetcube explore` "
                f"({error})"
            ) from None

    def _read(self, name: str, request: Request, picks: Mapping[str, Array]) -> Array:
        """A variable over the axes shown, y before x, at one index of the others."""
        variable = self.cube.variables[name]
        self._check_read(name, picks)
        key: dict[Any, Any] = {
            dim: picks.get(str(dim), request.at[str(dim)]) for dim in variable.dims
        }
        for dim, rows in picks.items():
            if dim in key and rows.size == self.cube.sizes[dim]:
                key[dim] = slice(None)
        cut = variable.isel(key).load()  # transposed first, it would be read point by point
        return np.asarray(cut.transpose(*[dim for dim in picks if dim in cut.dims]).values, float)

    def _reason(self, request: Request, picks: Mapping[str, Array]) -> Array | None:
        """Why points are infeasible, if the variable varies over all axes that decide it."""
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
    """A number in a convenient unit."""
    factor, text = scale(unit, [value], name)
    return f"{number(value / factor)} {text}".rstrip()


def number(value: float, digits: int = 4) -> str:
    """A number to some digits; whole numbers in full, up to ten million."""
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
    """Meaning of each code; None for a variable of numbers."""
    if "flag_meanings" not in attrs:
        return None
    codes = np.atleast_1d(attrs["flag_values"]).tolist()
    return dict(zip(map(str, codes), str(attrs["flag_meanings"]).split(), strict=False))


def _packed(numbers: Array, kind: str) -> str:
    # not a list: JSON has no NaN and no infinity
    return base64.b64encode(np.ascontiguousarray(numbers, dtype=kind).tobytes()).decode("ascii")
