"""Convert cubes to other units and types, and select parts by values with units."""

import datetime
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.catalog.units import UnitError, carried, converted, factor, parse, ratio
from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.grid.plan.labels import END_OF, ERROR_OF, with_missing
from fleetcube.kernels.declare import written
from fleetcube.kernels.graph.roles import REASON

from .tables import SCALES, scale

if TYPE_CHECKING:
    import xarray

_SLACK = 1e-9  # unit conversion rounds, so a point may be a few bits away
_PER_SECOND = 1_000_000_000  # of a timedelta64[ns]


def in_units(cube: "xarray.Dataset", units: Mapping[str, str]) -> "xarray.Dataset":
    """A cube with some variables and coordinates in other units, with the ends of their intervals
    and their errors. Raises InputError."""
    changed, units = {}, dict(units)
    for name in sorted(map(str, cube.variables), key=len):  # an end before its error
        about = cube.variables[name].attrs
        whose = about.get(ERROR_OF, about.get(END_OF))
        if whose in units and _fits(cube.variables[name], units[whose]):
            units.setdefault(name, units[whose])
    for name, unit in units.items():
        variable = _variable(cube, name)
        share = _ratio(name, unit, unit_of(name, variable))
        numbers = np.result_type(variable.dtype, 0.0)
        given = _mapped(functools.partial(_over, share), variable, numbers)
        given.attrs |= {"units": unit}
        changed[name] = given
    return _with(cube, changed)


def everything_in(cube: "xarray.Dataset", unit: str) -> "xarray.Dataset":
    """A cube with all variables (not coordinates) of a unit's kind in that unit."""
    if unit in ("1", "%"):
        raise InputError(
            f"{unit!r} fits every plain number; name the variables: {{name: {unit!r}}}"
        )
    names = [str(name) for name in cube.data_vars if _fits(cube.variables[name], unit)]
    if not names:
        raise InputError(f"no variable can be given in {unit!r}; {_stated(cube)}")
    return in_units(cube, dict.fromkeys(names, unit))


def _variable(cube: "xarray.Dataset", name: str) -> "xarray.Variable":
    if name not in cube.variables:
        hint = nearest(str(name), list(map(str, cube.variables)))
        raise InputError(f"there is no {shown(name)}; {hint}")
    return cube.variables[name]


def _mapped(
    function: Callable[..., Any],
    variable: "xarray.Variable",
    dtype: Any,
    *others: "xarray.Variable",
    dims: Sequence[str] = (),
) -> "xarray.Variable":
    """A function of a variable and others, with the attributes of the first."""
    from .elementwise import elementwise

    axes = [str(dim) for dim in variable.dims]
    result = elementwise(function, [variable.to_base_variable(), *others], dims or axes, dtype)
    result.attrs, result.encoding = dict(variable.attrs), dict(variable.encoding)
    return result


def _with(cube: "xarray.Dataset", changed: Mapping[str, "xarray.Variable"]) -> "xarray.Dataset":
    coords = {name: variable for name, variable in changed.items() if name in cube.coords}
    rest = {name: variable for name, variable in changed.items() if name not in cube.coords}
    return cube.assign_coords(coords).assign(rest)


def unit_of(name: str, variable: "xarray.Variable") -> str:
    """The unit attribute of a variable. Raises InputError if it has none."""
    unit = variable.attrs.get("units")
    if "flag_meanings" in variable.attrs:
        raise InputError(f"{name} is a flag; name another")
    if variable.dtype.kind == "m":
        raise InputError(f"{name} is a duration; convert units before to_timedelta")
    if not isinstance(unit, str):
        raise InputError(f"{name} has no unit; set its attribute units")
    return unit


def _ratio(name: str, unit: Any, base: str) -> Fraction:
    try:
        return ratio(unit, base) if isinstance(unit, str) else ratio(repr(unit), base)
    except UnitError:
        others = [other for _, other in SCALES.get(base, ()) if other not in (base, "M USD")]
        hint = f"write for example {', '.join(others)}" if others else "keep its unit"
        raise InputError(f"{name} is in {base} and not in {shown(unit)}; {hint}") from None


def _fits(variable: "xarray.Variable", unit: str) -> bool:
    base = variable.attrs.get("units")
    if not isinstance(base, str) or "flag_meanings" in variable.attrs:
        return False
    try:
        return bool(ratio(unit, base))
    except UnitError:
        return False


def _stated(cube: "xarray.Dataset") -> str:
    units = {
        name: "duration" if array.dtype.kind == "m" else array.attrs.get("units")
        for name, array in cube.data_vars.items()
    }
    stated = [f"{name} [{unit}]" for name, unit in units.items() if unit]
    return f"it has {', '.join(stated) or 'no units'}"


def _over(share: Fraction, numbers: Any) -> Any:
    """Numbers over a ratio of units, rounded once where that is a whole number or one over it."""
    if share.numerator == 1:
        return numbers * float(share.denominator)
    return numbers / float(share)


def as_timedelta(cube: "xarray.Dataset", names: Iterable[str] | None) -> "xarray.Dataset":
    """A cube with variables and coordinates, by default time variables, as durations. NaT where
    they are infinite, NaN or longer than 292 years. Raises InputError."""
    if names is None:
        names = [str(name) for name in cube.data_vars if _fits(cube.variables[name], "s")]
        if not names:
            raise InputError(f"no variable is a time; {_stated(cube)}")
    changed = {}
    for name in names:
        variable = _variable(cube, name)
        share = _ratio(name, "s", unit_of(name, variable))
        duration = _mapped(functools.partial(_durations, share), variable, "timedelta64[ns]")
        duration.attrs = {key: text for key, text in duration.attrs.items() if key != "units"}
        duration.encoding = {}  # the encoding is that of floating-point numbers
        if name in cube.dims and np.isnat(duration.values).any():
            raise InputError(
                f"{name} holds points that are infinite or longer than 292 years; "
                "cut the axis to the others, or keep its numbers"
            )
        changed[name] = duration
    return _with(cube, changed)


def _durations(share: Fraction, numbers: Any) -> Any:
    with np.errstate(over="ignore"):
        nanoseconds = np.rint(_over(share, np.asarray(numbers, float)) * _PER_SECOND)
    finite = np.abs(nanoseconds) < 2.0**63  # False for NaN
    whole = np.where(finite, nanoseconds, 0).astype(np.int64)
    return np.where(finite, whole.view("timedelta64[ns]"), np.timedelta64("NaT", "ns"))


def feasible(cube: "xarray.Dataset", drop: bool) -> "xarray.Dataset":
    """A cube without infeasible points; see `Accessor.feasible`."""
    reason = reasons(cube).variable
    axes = list(map(str, dict.fromkeys([*(n for n in cube.coords if n in cube.dims), *cube.dims])))
    changed = {}
    for key, array in cube.data_vars.items():
        variable = array.variable
        if key == REASON:
            continue
        blank, dtype = _blank(variable)
        if blank is None:
            continue
        dims = [axis for axis in axes if axis in variable.dims or axis in reason.dims]
        judged = functools.partial(_judged, blank)
        changed[str(key)] = _mapped(judged, variable, dtype, reason, dims=dims)
    result = with_missing(True, _with(cube, changed))
    if not drop:
        return result
    ok = (_blockwise(cube[REASON]) == 0).compute()
    places = {dim: np.flatnonzero(ok.any([d for d in ok.dims if d != dim])) for dim in ok.dims}
    return result.isel(places)


def reasons(cube: "xarray.Dataset") -> "xarray.DataArray":
    """Infeasibility reasons. Raises InputError if a cube has none."""
    if REASON not in cube.variables:
        raise InputError(
            f"there is no {REASON}; add it to the outputs of the sweep, or keep it when you select"
        )
    return cube[REASON]


def count_reasons(cube: "xarray.Dataset") -> dict[str, int]:
    """Number of points by reason, in the order of the codes."""
    import xarray

    reason = reasons(cube)
    meanings = str(reason.attrs.get("flag_meanings", "")).split()
    codes = np.atleast_1d(reason.attrs.get("flag_values", [])).tolist()
    if not codes or len(codes) != len(meanings):
        raise InputError(f"{REASON} has no meanings of its codes; keep its attributes")
    blocks = _blockwise(reason)
    sums = xarray.Dataset({m: (blocks == c).sum() for m, c in zip(meanings, codes, strict=True)})
    sums = sums.compute()
    return {meaning: int(sums[meaning]) for meaning in meanings if sums[meaning]}


def _blockwise(array: "xarray.DataArray") -> "xarray.DataArray":
    """The array, in blocks if it is not in memory and may exceed it."""
    from .elementwise import is_read_when_sliced

    whole = array.chunks is None and is_read_when_sliced(array.variable)
    return array.chunk("auto") if whole else array


def _blank(variable: "xarray.Variable") -> tuple[Any, Any]:
    """The missing value of a variable and the type that holds it; None if values stay."""
    kind = variable.dtype.kind
    if "flag_meanings" in variable.attrs:
        return np.int8(-1), variable.dtype
    if kind == "m":
        return np.timedelta64("NaT", "ns"), variable.dtype
    if kind in "iu":
        return np.nan, np.dtype(float)
    return (variable.dtype.type(np.nan), variable.dtype) if kind == "f" else (None, None)


def _judged(blank: Any, numbers: Any, reason: Any) -> Any:
    return np.where(reason == 0, numbers, blank)


def located(cube: "xarray.Dataset", name: str, value: Any) -> Any:
    """The position to look up along an axis, in its unit; snaps to a point a few bits away. Texts
    and quantities (pint, astropy, unyt) have units, alone, in lists, or as ends of slices; anything
    else is returned unchanged."""
    if name not in cube.dims:
        axes = list(map(str, cube.dims))
        hint = nearest(str(name), axes, f"choose from {', '.join(axes) or 'none'}")
        raise InputError(f"{shown(name)} is not an axis; {hint}")
    if name in cube.coords and cube[name].dtype.kind in "OUTb":
        return _as_choice(value, cube[name].dtype.kind == "b")
    if name not in cube.coords or cube[name].dtype.kind not in "iufm":
        return value
    read = functools.partial(_read, name, cube.variables[name])
    if isinstance(value, slice):
        return slice(read(value.start), read(value.stop), value.step)
    if isinstance(value, list | tuple):
        return [read(part) for part in value]
    if hasattr(value, "dims") and isinstance(getattr(value, "attrs", {}).get("units"), str):
        base, unit = unit_of(name, cube.variables[name]), value.attrs["units"]
        return (
            value if unit == base else value.copy(data=_over(_ratio(name, base, unit), value.data))
        )
    return read(value)


def _as_choice(value: Any, switch: bool) -> Any:
    """An option's value as spelled on its axis: True and False as words, or words as these."""
    if isinstance(value, list | tuple):
        parts = [_as_choice(part, switch) for part in value]
        return np.array(parts, object) if switch else parts  # a list of booleans would be a mask
    if switch:
        return {"true": True, "false": False}.get(str(value).lower(), value)
    return written(bool(value)) if isinstance(value, bool | np.bool_) else value


def distance(cube: "xarray.Dataset", asked: Iterable[str], tolerance: Any) -> Any:
    """A tolerance along an axis, in its unit; None and plain numbers unchanged."""
    if not isinstance(tolerance, str):
        return tolerance
    names = list(asked)
    if len(names) != 1:
        raise InputError(f"tolerance = {tolerance!r} is for one axis; select along one at a time")
    return _number(names[0], cube.variables[names[0]], tolerance)


def missing(cube: "xarray.Dataset", asked: Mapping[str, Any], positions: Mapping[str, Any]) -> None:
    """Refuse values with units that are not on their axis, naming the nearest."""
    for name, value in asked.items():
        if not isinstance(value, str) or not isinstance(positions[name], float):
            continue
        points = cube[name].values
        if not (points == positions[name]).any():
            near = points[np.argmin(np.abs(points - positions[name]))]
            share, unit = scale(str(cube[name].attrs.get("units", "1")), [near], name)
            nearest_point = f"{near / share:.10g} {unit}".strip()
            raise InputError(
                f"{name} = {value!r} is not on the axis; the nearest is {nearest_point}: give it, "
                'or method="nearest"'
            )


def _read(name: str, axis: "xarray.Variable", value: Any) -> Any:
    """A value in the axis' unit, snapped to an axis point a few bits away."""
    number = _number(name, axis, value)
    if number is value or np.ndim(number):
        return number
    if axis.dtype.kind == "m":
        return number
    points = axis.values
    near = points[np.isclose(points, number, _SLACK, 0)]
    return near[np.argmin(np.abs(near - number))] if near.size > 1 else (*near, number)[0]


def _number(name: str, axis: "xarray.Variable", value: Any) -> Any:
    duration = axis.dtype.kind == "m"
    if isinstance(value, np.timedelta64 | datetime.timedelta) and not duration:
        seconds = np.timedelta64(value) / np.timedelta64(1, "s")
        try:  # a bare count would be taken by xarray as a number in the axis' unit
            return converted(float(seconds), "s", unit_of(name, axis))
        except UnitError as error:
            raise InputError(f"{name} = {shown(value)} {error}; give another value") from None
    if isinstance(value, str):
        base = "s" if duration else unit_of(name, axis)
        try:
            ratio(base, base)  # checked before parsing: it may come from a file
            number = parse(value, base, name)
        except UnitError as error:
            raise InputError(str(error)) from None
    elif (pair := carried(value)) is not None and not hasattr(value, "dims"):
        base = "s" if duration else unit_of(name, axis)
        try:
            many = np.ndim(pair[0]) > 0
            number = (
                pair[0] * factor(pair[1], base)
                if many
                else converted(float(pair[0]), pair[1], base)
            )
        except UnitError as error:
            raise InputError(f"{name} = {shown(value)} {error}; give it in {base}") from None
    else:
        return value
    return _durations(Fraction(1), number)[()] if duration else number
