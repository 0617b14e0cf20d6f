"""Print what was cut as a table, write it for other tools."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import InputError, nearest
from .plan import REASON

if TYPE_CHECKING:
    import xarray

FORMATS = (".csv", ".parquet", ".nc", ".json")
MOST_ROWS = 200  # of a printed table
# unit -> (factor, shown unit), largest first
_SCALES = {
    "s": [(86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us")],
    "B": [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1.0, "B")],
    "B/s": [(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1.0, "B/s")],
    "FLOP": [(1e18, "EFLOP"), (1e12, "TFLOP"), (1.0, "FLOP")],
    "FLOP/s": [(1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1.0, "FLOP/s")],
}


def variables(cube: "xarray.Dataset", names: Sequence[str]) -> "xarray.Dataset":
    """The named variables of a cube; all of them where none is named."""
    check_variables(names, [str(key) for key in cube.data_vars])
    return cube[list(names)] if names else cube


def check_variables(names: Sequence[str], known: Sequence[str]) -> None:
    """Refuse the name of a variable that is not there."""
    for name in names:
        if name not in known:
            hint = nearest(name, known, f"it has {', '.join(known)}")
            raise InputError(f"the cube has no variable {name!r}; {hint}")


def scale(unit: str, numbers: Any, name: str = "") -> tuple[float, str]:
    """A factor and unit in which numbers read well: 86400 s is 1 d, but lifetimes are in hours."""
    if name.endswith(("_mttf", "_mtbf")):
        return 3600.0, "h"
    sizes = np.abs(np.asarray(numbers, dtype=float))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if unit not in _SCALES:
        return 1.0, "" if unit == "1" else unit
    typical = float(np.median(sizes)) if sizes.size else 1.0
    return next((s for s in _SCALES[unit] if typical >= s[0]), _SCALES[unit][-1])


def label(value: Any) -> str:
    """A point of an axis as text."""
    value = value.item() if isinstance(value, np.generic) else value
    return str(value).lower() if isinstance(value, bool) else str(value)


def table(cube: "xarray.Dataset") -> tuple[list[str], list[list[str]]]:
    """A small cube as text: headings with units, and one row for each point.

    Infeasible points are marked in a last column. Raises InputError for more than MOST_ROWS.
    """
    marked = REASON in cube.coords
    whole = cube.reset_coords(REASON) if marked else cube
    dims = [str(dim) for dim in whole.dims if any(dim in v.dims for v in whole.data_vars.values())]
    check_rows({dim: whole.sizes[dim] for dim in dims}, "cut axes (axis=value)")
    columns: list[tuple[str, list[str]]] = []
    for name in [*dims, *(str(v) for v in whole.data_vars)]:
        variable = whole[name]
        spread = (
            variable.broadcast_like(whole[dims].coords.to_dataset()[dims]) if dims else variable
        )
        cells = spread.transpose(*[d for d in dims if d in spread.dims]).values.reshape(-1)
        columns.append(_column(name, variable.attrs, cells))
    headings = [heading for heading, _ in columns]
    return headings, [list(row) for row in zip(*(cells for _, cells in columns), strict=True)]


def check_rows(sizes: Mapping[str, int], remedy: str) -> None:
    """Refuse a table that is too long to print."""
    rows = math.prod(sizes.values())
    if rows > MOST_ROWS:
        told = ", ".join(f"{dim} ({size})" for dim, size in sizes.items())
        raise InputError(
            f"the table has {rows:,} rows over {told}; {remedy}, or write it with -o to a file"
        )


def _column(name: str, attrs: Mapping[str, Any], cells: Any) -> tuple[str, list[str]]:
    if "flag_meanings" in attrs:
        codes = np.atleast_1d(attrs["flag_values"]).tolist()
        meanings = dict(zip(codes, str(attrs["flag_meanings"]).split(), strict=False))
        said = [meanings.get(int(code), "undefined") for code in cells]
        if name == REASON:
            return "feasible", ["yes" if text == "feasible" else f"no: {text}" for text in said]
        return name, said
    if cells.dtype.kind not in "iuf":
        return name, [label(cell) for cell in cells]
    factor, unit = scale(str(attrs.get("units", "1")), cells, name)
    heading = f"{name} [{unit}]" if unit else name
    return heading, [_number(float(cell) / factor) for cell in cells]


def _number(value: float) -> str:
    if not np.isfinite(value):
        return str(value)
    if value == round(value) and abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def check_target(path: Path) -> None:
    """Refuse a file that cannot be exported to."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{str(path)!r} is not one of {', '.join(FORMATS)}; change its ending")
    if path.exists():
        raise InputError(f"{str(path)!r} exists; choose another name or remove it")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {str(path.absolute().parent)!r}; make it first")
    if not os.access(path.absolute().parent, os.W_OK):
        raise InputError(
            f"cannot write into {str(path.absolute().parent)!r}; choose another folder"
        )


def export(cube: "xarray.Dataset", path: Path) -> None:
    """Write a cut of a cube as .csv, .parquet, .nc or .json; values in base units."""
    check_target(path)
    try:
        _write(cube.load(), path)
    except BaseException as error:
        path.unlink(missing_ok=True)  # nothing half-written
        extra = isinstance(error, ImportError)
        if extra or (isinstance(error, ValueError) and "netCDF" in str(error)):
            raise InputError(
                f"writing {path.suffix} needs an extra; run: pip install 'fleetcube[table]'"
            ) from None
        raise


def _write(cube: "xarray.Dataset", path: Path) -> None:
    if path.suffix.lower() == ".nc":
        plain = cube.copy()
        for variable in plain.variables.values():
            variable.encoding = {}
        plain.to_netcdf(path)
    elif path.suffix.lower() == ".json":
        path.write_text(json.dumps(finite(cube.to_dict()), default=str), encoding="utf-8")
    else:
        frame = cube.to_dataframe() if cube.dims else cube.expand_dims("point").to_dataframe()
        frame = frame.reset_index()
        if path.suffix.lower() == ".csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path, index=False)


def finite(value: Any) -> Any:
    """What JSON can hold: it has no NaN, so null stands for it, and text for infinity."""
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
