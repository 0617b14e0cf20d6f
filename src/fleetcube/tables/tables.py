"""Print a cut of a cube as a table, or write it for other tools."""

import io
import itertools
import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.grid.errors import EXTRA, InputError, check_path, imported, nearest
from fleetcube.grid.plan.labels import END_OF, with_missing
from fleetcube.grid.plan.tiles import blocks
from fleetcube.grid.result import Result, along, in_memory
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axes import PHASE
from fleetcube.grid.spec.axis import Array
from fleetcube.grid.spec.graphs import graph_at
from fleetcube.kernels.declare import written
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import IN_HOURS, MEMORY, NEAR, TIME
from fleetcube.scenario import dates, phases
from fleetcube.text import guarded, visible

if TYPE_CHECKING:
    from datetime import date

    import xarray

LOOKUPS = (".c", ".mjs", ".sql")  # code that looks a variable up
FORMATS = (".csv", ".parquet", ".xlsx", ".nc", ".json", *LOOKUPS)
_WRITERS = {".parquet": "pyarrow", ".xlsx": "xlsxwriter"}  # packages of the extra `table`
_EXTRA = f"needs {EXTRA.format('table')}"
_SHEET = 1_048_576  # rows of an Excel sheet, headings included
STDOUT = Path("-")
MOST_ROWS = 200  # of a printed table
_SPAN = "90 %"
INTERVAL = f"({_SPAN})"  # in the heading of numbers with intervals
BELOW, CHANCE = "_chance_below", "_chance"  # endings of probabilities, which are printed in words
_SHARE = re.compile("share|utili[sz]ation|probability", re.IGNORECASE)  # in a meaning: printed in %
_NO_TIMES = ("sum", "count")  # reductions whose times are not those of a job
# unit -> (factor, shown unit), largest first
SCALES = {
    "s": [(86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us")],
    "B": [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1.0, "B")],
    "B/s": [(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1.0, "B/s")],
    "FLOP": [(1e18, "EFLOP"), (1e12, "TFLOP"), (1.0, "FLOP")],
    "FLOP/s": [(1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1.0, "FLOP/s")],
    "W": [(1e9, "GW"), (1e6, "MW"), (1e3, "kW"), (1.0, "W")],
    "J": [(3.6e12, "GWh"), (3.6e9, "MWh"), (3.6e6, "kWh"), (1.0, "J")],
    "kg": [(1e3, "t"), (1.0, "kg"), (1e-3, "g")],
    "kg/J": [(1e-3 / 3.6e6, "g/kWh")],
    "USD": [(1e6, "M USD"), (1.0, "USD")],
    "USD/J": [(1 / 3.6e6, "USD/kWh")],
}


def variables(cube: Any, names: Sequence[str]) -> Any:
    """The named variables of a cube with the ends of their intervals; by default all."""
    check_variables(names, [str(key) for key in cube.data_vars])
    ends = [str(n) for n, array in cube.data_vars.items() if array.attrs.get(END_OF) in names]
    return cube[[*names, *ends]] if names else cube


def check_variables(names: Sequence[str], choices: Sequence[str]) -> None:
    for name in names:
        if name not in choices:
            hint = nearest(name, choices, f"it has {', '.join(choices)}")
            raise InputError(f"the cube has no variable {name!r}; {hint}")


def scale(unit: str, numbers: Any, name: str = "") -> tuple[float, str]:
    """A readable factor and unit for numbers: 86400 s is 1 d, but lifetimes are in hours."""
    if unit == "s" and name.endswith(IN_HOURS):
        return 3600.0, "h"
    sizes = np.abs(np.asarray(numbers, dtype=float))
    sizes = np.sort(sizes[np.isfinite(sizes) & (sizes > 0)])
    if unit not in SCALES:
        return 1.0, "" if unit == "1" else unit
    # the median, for which NumPy would load masked arrays
    typical = float(sizes[[(sizes.size - 1) // 2, sizes.size // 2]].mean()) if sizes.size else 1.0
    return next((s for s in SCALES[unit] if typical >= s[0]), SCALES[unit][-1])


def as_read(about: Mapping[str, Any], values: Any, name: str) -> tuple[float, str]:
    """A factor and unit as a person writes numbers: shares in %, from a million on in M."""
    factor, unit = scale(str(about.get("units", "1")), values, name)
    finite = np.abs(np.asarray(values, float))
    most = float(finite[np.isfinite(finite)].max(initial=0)) / factor
    if not unit and 0 < most <= 1 and _SHARE.search(str(about.get("long_name", ""))):
        return 0.01, "%"
    return (factor * 1e6, f"M {unit}".rstrip()) if 1e6 <= most < 1e9 else (factor, unit)


def with_unit(value: float, unit: str, name: str) -> str:
    """One number as people read it, with its unit."""
    factor, shown = scale(unit, [value], name)
    return f"{numbers([value / factor])[0]} {shown}".rstrip()


def label(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    return written(value)


def memory_use(one: Any) -> str:
    """The memory of a GPU that a point needs and has, and the margin; empty without a limit."""
    need, margin, most = (float(one[name]) if name in one else math.nan for name in MEMORY)
    if not margin < 1:
        return ""
    free = f"{margin:.1%} free" if margin >= 0 else f"{-margin:.1%} too much"
    sizes = f"{need / 1e9:.1f} of {need / (1 - margin) / 1e9:.1f} GB"
    return f"{sizes}, {free}; the model is within {most / need - 1:.0%}"


def cannot_run(one: Any) -> str:
    """A line with the reason why a point cannot run; empty if it can or no reason is known."""
    if REASON not in one or int(one[REASON]) <= 0:
        return ""
    reason = one[REASON]
    return f"It cannot run: {meanings(reason.attrs, reason.values.reshape(1))[0]}."


def wrong_points(cube: Any, left: bool) -> list[str]:
    """A line on layouts that cannot run, and how `left` treats their values."""
    count = int((cube[REASON].values > 0).sum()) if REASON in cube.coords else 0
    given = "their values are as computed; --infeasible exclude leaves them out"
    values_note = "what depends on them is left out" if left else given
    if not count:
        return []
    hint = "" if count < cube[REASON].size else "; fleetcube plan seeks one that can"
    return [f"{count:,} of {cube[REASON].size:,} layouts cannot run: {values_note}{hint}"]


def table(cube: "Result | xarray.Dataset") -> tuple[list[str], list[list[str]]]:
    """A small cube as text: headings with units, and one row for each point.

    A last column marks infeasible points, if there are any, and those within the model's error of
    the memory limit. Raises InputError for more than MOST_ROWS.
    """
    whole = cube
    if REASON in cube.coords and (not cube.data_vars or (cube[REASON].values != 0).any()):
        whole = cube.reset_coords(REASON)
    if NEAR in cube.coords and (cube[NEAR].values == 1).any():
        whole = whole.reset_coords(NEAR)
    dims = _dims(whole)
    check_rows({dim: whole.sizes[dim] for dim in dims}, "cut axes (axis=value)")
    whole = in_memory(whole)
    columns = []
    shown = [str(name) for name in whole.data_vars if END_OF not in whole[name].attrs]
    for name in [*_labelled(whole, dims), *shown]:
        cells = _cells(whole, name, dims)
        heading, texts = _column(name, whole[name].attrs, cells)
        ends = [f"{name}_low", f"{name}_high"]
        if all(end in whole and END_OF in whole[end].attrs for end in ends):
            factor, _ = scale(str(whole[name].attrs.get("units", "1")), cells, name)
            rows = (cells, *(_cells(whole, end, dims) for end in ends))
            estimates = list(map(estimate, texts, *(row / factor for row in rows)))
            heading, texts = f"{heading} {INTERVAL}" if estimates != texts else heading, estimates
        columns.append((heading, texts))
        if name == TIME:
            columns += _days(whole, dims)
    headings = [heading for heading, _ in columns]
    return headings, [list(row) for row in zip(*(cells for _, cells in columns), strict=True)]


def estimate(shown: str, value: float, low: float, high: float) -> str:
    """A number as shown, with its interval, if known and not within 4 digits: 75.48 (62 to 92), or
    85.4 +- 5.8 where both sides are alike in the digits shown, two of half the width; one where the
    number has no more decimals."""
    ends = numbers([low, high])
    if not low < high or ends[0] == ends[1]:
        return shown
    half = (high - low) / 2
    if "e" in shown or not 1e-6 < half < 1e9:
        return f"{shown} ({' to '.join(ends)})"
    places = 1 - math.floor(math.log10(half))
    places = min(places, max(len(shown.partition(".")[2]), places - 1))
    if float(low).is_integer() and float(high).is_integer():
        places = min(places, 0)  # a count
    below, above, *ends = (
        f"{round(float(n), places):z,.{max(places, 0)}f}"
        for n in (value - low, high - value, low, high)
    )
    return f"{shown} +- {above}" if below == above else f"{shown} ({' to '.join(ends)})"


def started(cube: "Result | xarray.Dataset") -> tuple["date | None", dict[str, Any]]:
    """The start date of a cube's jobs, if its spec has one; and the spec."""
    spec = json.loads(cube.attrs.get("fleetcube_spec", "{}"))
    return dates.start_of(spec.get("scenario", {})), spec


def _days(cube: Result, dims: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Columns of dates, the last with its interval."""
    columns = dict(_dates(cube, dims))
    if spans := columns.pop(_SPAN, None):
        pairs = zip(columns.pop("ends on"), spans, strict=True)
        columns[f"ends on {INTERVAL}"] = [f"{day} ({span})" if span else day for day, span in pairs]
    return list(columns.items())


def _dates(cube: Result, dims: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Columns of the jobs' end dates, if the spec has a start; for phases also start dates."""
    since, spec = started(cube)
    if since is None or str(cube.attrs.get("fleetcube_reduction", "")).startswith(_NO_TIMES):
        return []
    ends = {"ends on": TIME}
    if TIME + "_low" in cube:
        ends |= {"from": TIME + "_low", "to": TIME + "_high"}
    one = phases.names(spec["scenario"]) if PHASE in spec["axes"] else []
    times = {key: cube[name] for key, name in ends.items()}
    columns = []
    if one:
        if PHASE not in cube[TIME].dims or cube[PHASE].values.tolist() != one:
            return []  # earlier phases are missing here
        before = times["ends on"].cumsum(PHASE) - times["ends on"]
        columns.append(("starts on", before, dates.begin))
        times = {key: array.cumsum(PHASE) for key, array in times.items()}
    columns.append(("ends on", times.pop("ends on"), dates.end))
    columns += [(key, array, dates.end) for key, array in times.items()]
    texts = {}
    for key, array, day in columns:
        cells = _cells(cube.assign({TIME: array}), TIME, dims).tolist()
        texts[key] = [day(since, seconds) for seconds in cells]
    if "from" in texts:
        pairs = zip(texts.pop("from"), texts.pop("to"), strict=True)
        texts[_SPAN] = [" to ".join(pair) if len({*pair}) > 1 else "" for pair in pairs]
    return list(texts.items())


def _dims(cube: "Result | xarray.Dataset") -> list[str]:
    """The axes that any variable has, in the order of the coordinates."""
    used = dict.fromkeys(str(dim) for array in cube.data_vars.values() for dim in array.dims)
    return [*(str(n) for n in cube.coords if n in used), *(n for n in used if n not in cube.coords)]


def _labelled(cube: "Result | xarray.Dataset", dims: Sequence[str]) -> list[str]:
    return [dim for dim in dims if dim in cube.coords]


def _cells(cube: Result, name: str, dims: Sequence[str]) -> Any:
    """One value for each point of some axes, the last axis fastest."""
    return np.broadcast_to(along(cube[name], dims), [cube.sizes[d] for d in dims]).reshape(-1)


def check_rows(sizes: Mapping[str, int], remedy: str) -> None:
    rows = math.prod(sizes.values())
    if rows > MOST_ROWS:
        lengths = ", ".join(f"{dim} ({size})" for dim, size in sizes.items())
        raise InputError(
            f"the table has {rows:,} rows over {lengths}; {remedy}, or write it with -o to a file"
        )


def _column(name: str, attrs: Mapping[str, Any], cells: Any) -> tuple[str, list[str]]:
    if "flag_meanings" in attrs:
        words = meanings(attrs, cells)
        if name == REASON:
            marks = {"feasible": "yes", "undefined": "-"}
            return "feasible", [marks.get(text, f"no: {text}") for text in words]
        return name, words
    if cells.dtype.kind not in "iuf":
        return name, [label(cell) for cell in cells]
    if name.endswith((BELOW, CHANCE)):
        return name, [chance(cell) for cell in cells]
    if cells.size and np.isnan(cells).all():  # no number has a unit
        return name, ["-"] * cells.size
    factor, unit = scale(str(attrs.get("units", "1")), cells, name)
    shown = ["-" if cell == "nan" else cell for cell in numbers(cells / factor)]
    return _heading(name, unit) + counted(attrs), shown


def counted(attrs: Mapping[str, Any]) -> str:
    """The convention by which a variable is counted, to print after it; none if the default."""
    usual = {"", *(row.default for row in PHYSICS.inputs.values() if row.convention)}
    return f" ({convention})" if (convention := attrs.get("convention", "")) not in usual else ""


def _heading(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit not in ("", "1") else name


def words_of_codes(attrs: Mapping[Any, Any]) -> dict[int, str]:
    codes = np.atleast_1d(attrs.get("flag_values", [])).tolist()
    return dict(zip(codes, str(attrs.get("flag_meanings", "")).split(), strict=False))


def meanings(attrs: Mapping[str, Any], codes: Any) -> list[str]:
    """Meanings of the codes in a 1-D flag array."""
    words = words_of_codes(attrs)
    return [words.get(code, "undefined") for code in codes.tolist()]


def numbers(column: Any) -> list[str]:
    """Numbers as text in one format. Whole numbers stay whole. Others have the same significant
    digits: 4, or fewer if that changes nothing; no digit before the point is cut. Those below 1e-4
    or from 1e9 have exponents; if most do, all."""
    values = np.asarray(column, dtype=float).tolist()
    sized = [value for value in values if math.isfinite(value) and value != 0]
    digits = 4
    while digits > 1 and all(float(f"{n:.{digits - 2}e}") == float(f"{n:.3e}") for n in sized):
        digits -= 1  # as exact as 4
    plain = [value for value in sized if 1e-4 <= abs(value) < 1e9]
    low, high = (1e-4, 1e9) if 2 * len(plain) >= len(sized) else (0.0, 0.0)
    is_whole = all(value.is_integer() for value in plain)

    def text(value: float) -> str:
        if value == 0 or not math.isfinite(value):
            return f"{value:.0f}"
        shown = f"{value:.{digits - 1}e}"
        if not low <= abs(value) < high:
            return shown
        return f"{value:,.{0 if is_whole else max(0, digits - 1 - int(shown.partition('e')[2]))}f}"

    return [text(value) for value in values]


def check_target(path: Path, overwrite: bool = False) -> None:
    """Refuse a file that cannot be written; "-" is standard output."""
    if path == STDOUT:
        return
    if path.suffix.lower() not in FORMATS:
        raise InputError(
            f"{str(path)!r} is not one of {', '.join(FORMATS)}; change its ending, or write - for "
            "CSV to standard output"
        )
    check_new(path, overwrite, "--overwrite")
    if (writer := _WRITERS.get(path.suffix.lower())) and not find_spec(writer):
        raise InputError(f"writing {path.suffix} {_EXTRA}")


def check_new(path: Path, overwrite: bool = False, instead: str = "remove it") -> None:
    """Refuse a file that exists, and a folder that is not writable."""
    check_path(path)
    if path.exists() and not (overwrite and path.is_file()):
        raise InputError(f"{str(path)!r} exists; choose another name or {instead}")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}; create it first")
    if not os.access(folder, os.W_OK):
        raise InputError(f"cannot write into {str(folder)!r}; choose another folder")


def check_sheet(path: Path, sizes: Mapping[str, int]) -> None:
    rows = math.prod(sizes.values())
    if path.suffix.lower() == ".xlsx" and rows >= _SHEET:
        raise InputError(
            f"the table has {rows:,} rows, and a sheet holds {_SHEET - 1:,}; cut axes "
            "(axis=value), or write .parquet"
        )


def export(
    cube: "Result | xarray.Dataset", path: Path, whole: bool = False, overwrite: bool = False
) -> None:
    """Write a cut of a cube as one of FORMATS, or as CSV to standard output ("-"). Of rows, those
    without a value that cannot run are left out.

    Values are in base units, in Excel also in those of a planner (d, GB), on the first sheet;
    counts are whole numbers. CSV and Excel have units in headings and flags in words, other formats
    flag codes and their meanings. Tables have axes and variables; with `whole`, and in .nc and
    .json, also the values that labels stand for.
    """
    check_target(path, overwrite)
    check_sheet(path, {dim: cube.sizes[dim] for dim in _dims(cube)})
    if path == STDOUT:
        table = _frame_for_people(in_memory(cube), whole).to_csv(index=False)
        sys.stdout.write(visible(table) if sys.stdout.isatty() else table)
        sys.stdout.flush()
        return
    target = path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}") if path.exists() else path
    try:
        _write(in_memory(cube), target, whole)
        if target != path:  # the old one stays until the new one is complete
            os.replace(target, path)
    except BaseException as error:
        target.unlink(missing_ok=True)  # leave no partial file
        extra = isinstance(error, ImportError)
        if extra or (isinstance(error, ValueError) and "netCDF" in str(error)):
            raise InputError(f"writing {path.suffix} {_EXTRA}") from None
        if isinstance(error, OSError | RuntimeError):  # NetCDF raises RuntimeError on a full disk
            why = getattr(error, "strerror", None) or f"{error}; is the disk full?"
            raise InputError(f"cannot write {str(path)!r} ({why}); choose another") from None
        raise


def left_out(cube: "Result | xarray.Dataset", path: Path) -> int:
    """Rows that a file of them leaves out."""
    grid = path.suffix.lower() in (".nc", ".json", *LOOKUPS)
    return 0 if grid or REASON not in cube else int(_blank(in_memory(cube), _dims(cube)).sum())


def _blank(cube: Result, dims: Sequence[str]) -> Array:
    """Which rows over some axes have no value because they cannot run."""
    size = math.prod(cube.sizes[dim] for dim in dims)
    if {*cube.data_vars} == {REASON} or REASON not in cube or {*cube[REASON].dims} - {*dims}:
        return np.zeros(size, bool)
    none = _cells(cube, REASON, dims) > 0
    for name in (str(name) for name in cube.data_vars if name != REASON):
        cells = _cells(cube, name, dims)
        flags = "flag_meanings" in cube[name].attrs
        none &= cells == -1 if flags else np.isnan(cells) if cells.dtype.kind == "f" else False
    return np.asarray(none)


def _write(cube: Result, path: Path, whole: bool) -> None:
    ending = path.suffix.lower()
    if ending == ".nc":
        path.write_bytes(bytes(4096))  # otherwise NetCDF reports a full disk as "Permission denied"
        flags = [row for row in cube.data_vars.values() if "flag_values" in row.attrs]
        excluded = any((row.values == -1).any() for row in flags)
        with_missing(excluded, _with_counts(cube.to_xarray())).to_netcdf(path)
    elif ending == ".json":
        rows = finite(_with_counts(cube.to_xarray()).to_dict())
        path.write_text(json.dumps(rows, default=str), encoding="utf-8")
    elif ending in LOOKUPS:
        from .lookup_code import source

        path.write_text(source(cube.to_xarray(), ending), encoding="utf-8")
    elif ending == ".csv":
        _frame_for_people(cube, whole).to_csv(path, index=False)
    elif ending == ".xlsx":
        frames = [_frame_for_people(cube, whole, si, guard=str) for si in (False, True)]
        _write_sheets(dict(zip(("fleetcube", "SI"), frames, strict=True)), path)
    else:
        from pyarrow.parquet import write_table

        write_table(arrow_table(cube.to_xarray(), whole), path)


def _coords(cube: "Result | xarray.Dataset", dims: Sequence[str], whole: bool) -> list[str]:
    """Coordinates that are columns: axes, even if cut to one value, and those that explain a row.
    With `whole`, also the values that labels stand for."""
    axes = json.loads(cube.attrs.get("fleetcube_spec", "{}")).get("axes", {})
    explaining = [
        str(name)
        for name, coordinate in cube.coords.items()
        if set(coordinate.dims) <= {*dims}
        and (whole or name in axes or not values.is_known(graph_at(cube.attrs), name))
    ]
    return list(dict.fromkeys([*explaining, *_labelled(cube, dims)]))


def _frame_for_people(
    cube: Result, whole: bool, si: bool = True, guard: Callable[[str], str] = guarded
) -> Any:
    """One row for each point, with flags as words, and ends of intervals scaled as their middle."""
    import pandas

    shown = cube.reset_coords(REASON) if REASON in cube.coords else cube
    dims = _dims(shown)
    columns: dict[str, Any] = {}
    for name in dict.fromkeys([*_coords(shown, dims, whole), *map(str, shown.data_vars)]):
        attrs, cells = shown[name].attrs, _cells(shown, name, dims)
        unit = str(attrs.get("units", "1"))
        if "flag_meanings" in attrs:
            cells = list(map(guard, meanings(attrs, cells)))
        elif cells.dtype.kind not in "iuf":
            cells = [guard(label(cell)) for cell in cells]
        elif not si:
            middle = str(attrs.get(END_OF, name))
            typical = _cells(shown, middle, dims) if middle in shown else cells
            factor, unit = scale(unit, typical, middle)
            cells = cells / factor if factor != 1 else cells
        columns[guard(_heading(name, unit))] = _whole(name, cells)
        if name == TIME:
            days = _dates(shown, dims)
            columns |= {f"ends on: {head}" if head == _SPAN else head: row for head, row in days}
    return pandas.DataFrame(columns)[~_blank(shown, dims)]


def _whole(name: str, cells: Any) -> Any:
    """A count as whole numbers, missing where NaN; other cells unchanged."""
    import pandas

    row = PHYSICS.inputs.get(name)
    if row is None or row.kind != "count" or np.asarray(cells).dtype.kind != "f":
        return cells
    finite = np.isfinite(cells)
    if np.isinf(cells).any() or (np.floor(cells[finite]) != cells[finite]).any():
        return cells
    if finite.all():
        return cells.astype(np.int64)
    return pandas.array(np.where(finite, cells, np.nan), dtype="Int64")


def _with_counts(cube: "xarray.Dataset") -> "xarray.Dataset":
    """A copy with counts as whole numbers, except counts with missing values."""
    counts = {name: (var, _whole(str(name), var.values)) for name, var in cube.variables.items()}
    rows = {n: (var.dims, row, var.attrs) for n, (var, row) in counts.items() if row.dtype == "i8"}
    coords = {name: row for name, row in rows.items() if name in cube.coords}
    return cube.assign({n: row for n, row in rows.items() if n not in coords}).assign_coords(coords)


def _write_sheets(frames: Mapping[str, Any], path: Path) -> None:
    """Excel sheets by name, with frozen headings; text is never a formula or a link."""
    import pandas

    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    options["in_memory"] = True  # a full disk would leave temporary files behind
    buffer = io.BytesIO()
    with pandas.ExcelWriter(buffer, "xlsxwriter", engine_kwargs={"options": options}) as writer:
        for name, frame in frames.items():
            frame.to_excel(writer, sheet_name=name, index=False, freeze_panes=(1, 0))
            writer.sheets[name].autofit()
    path.write_bytes(buffer.getvalue())


def stream(cube: "xarray.Dataset", rows: int = 1 << 20) -> Any:
    """The rows of a cube as a `pyarrow.RecordBatchReader`, of which few are in memory at once."""
    pyarrow = imported("pyarrow")
    dims = [*(used := _dims(cube)), *(str(dim) for dim in cube.dims if dim not in used)]
    whole = {dim: slice(0, cube.sizes[dim]) for dim in dims}
    parts = (arrow_table(cube.isel(block), False) for block in blocks(whole, rows))
    first = next(parts)
    kinds = {  # a count is whole in all blocks, or in none
        name: pyarrow.array(_whole(name, cube[name].values.reshape(-1))).type
        for name in first.column_names
        if name in cube.coords and cube[name].dtype.kind == "f"
    }
    fields = [f.with_type(kinds.get(f.name, f.type)) for f in first.schema]
    schema = pyarrow.schema(fields, first.schema.metadata)
    tables = (part.cast(schema) for part in itertools.chain([first], parts))
    batches = (batch for table in tables for batch in table.to_batches())
    return pyarrow.RecordBatchReader.from_batches(schema, batches)


def arrow_table(cube: "xarray.Dataset", whole: bool) -> Any:
    """One row for each point, with attributes as metadata of the columns and the table."""
    import pandas
    import pyarrow

    dims = [*(used := _dims(cube)), *(str(dim) for dim in cube.dims if dim not in used)]
    points = cube if dims else cube.expand_dims("point")
    frame: Any = points.to_dataframe(dim_order=dims or None).reset_index()
    extra = [str(name) for name in cube.coords] if whole else [*_coords(cube, dims, False), REASON]
    more = (name for name in extra if name not in dims and name in cube.coords)
    names = dict.fromkeys([*_labelled(cube, dims), *cube.data_vars, *more])
    frame = frame[~_blank(in_memory(cube), dims)]
    columns = {name: _whole(str(name), frame[name].to_numpy()) for name in names}
    table = pyarrow.Table.from_pandas(pandas.DataFrame(columns), preserve_index=False)
    fields = [f.with_metadata(_metadata(cube[f.name].attrs)) for f in table.schema]
    text = pyarrow.array(pandas.Series([""])).type  # without a row, that of texts is not known
    fields = [f.with_type(text) if pyarrow.types.is_null(f.type) else f for f in fields]
    metadata = table.schema.metadata | _metadata(cube.attrs)
    return table.cast(pyarrow.schema(fields, metadata))


def _metadata(attrs: Mapping[Any, Any]) -> dict[bytes, bytes]:
    """Attributes as text; flag codes separated by spaces, like their meanings."""
    return {
        str(name).encode(): (
            value if isinstance(value, str) else " ".join(map(str, np.atleast_1d(value).tolist()))
        ).encode()
        for name, value in attrs.items()
    }


def finite(value: Any) -> Any:
    """A value for JSON, which has no NaN or infinity: null for NaN, text for infinity."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    if isinstance(value, np.ndarray):
        return finite(value.tolist())
    if isinstance(value, np.generic):
        return finite(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else str(value)
    return value


def chance(share: float) -> str:
    """Text of a probability: 48 %, < 1 %; - of NaN."""
    if math.isnan(share):
        return "-"
    if 0.01 <= share <= 0.99:
        return f"{100 * share:.0f} %"
    return "< 1 %" if share < 0.01 else "> 99 %"
