"""A variable as source code that looks it up: its table, how to interpolate, and the error."""

import itertools
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.labels import ASSUMED, DEFAULTS, REMARKS
from fleetcube.grid.spec.axis import Array
from fleetcube.kernels.declare import written
from fleetcube.kernels.graph.roles import REASON

from .lookup import interp

if TYPE_CHECKING:
    import xarray

MOST = 100_000  # points, whose numbers are code
_C = """\
#include <math.h>

{axes}
static const double *const axes[] = {{{axis_names}}};
static const int nodes[] = {{{nodes}}};
static const double values[] = {{ /* {scale} */
{values}}};
static const double errors[] = {{ /* of the cell that begins at a point */
{errors}}};

/* The value at a point, and in *error that of the interpolation; NaN outside. */
double {name}_lookup(const double *point, double *error) {{
    double share[{count}], sum = 0;
    int steps[{count}], first = 0, step = 1;
    for (int k = {count} - 1; k >= 0; step *= nodes[k--]) {{
        const double *x = axes[k];
        int cell = 0;
        if (!(point[k] >= x[0] && point[k] <= x[nodes[k] - 1])) return *error = NAN;
        while (cell + 2 < nodes[k] && x[cell + 1] <= point[k]) cell++;
        share[k] = x[0] > 0 ? log(point[k] / x[cell]) / log(x[cell + 1] / x[cell])
                            : (point[k] - x[cell]) / (x[cell + 1] - x[cell]);
        steps[k] = step;
        first += cell * step;
    }}
    for (int corner = 0; corner < 1 << {count}; corner++) {{
        double weight = 1;
        int row = first;
        for (int k = 0; k < {count}; k++) {{
            int upper = corner >> k & 1;
            weight *= upper ? share[k] : 1 - share[k];
            row += upper * steps[k];
        }}
        if (weight != 0) sum += weight * values[row];
    }}
    double value = {value};
    *error = errors[first] * {error_of};
    return value;
}}
"""
_JS = """\
const axes = [{axes}];
const values = [ // {scale}
{values}];
const errors = [ // of the cell that begins at a point
{errors}];

/** The value at a point, and the error of the interpolation; NaN outside. */
export function lookup(...point) {{
  let first = 0, step = 1;
  const steps = [], share = [];
  for (let k = axes.length - 1; k >= 0; step *= axes[k--].length) {{
    const x = axes[k];
    if (!(point[k] >= x[0] && point[k] <= x.at(-1))) return {{ value: NaN, error: NaN }};
    let cell = 0;
    while (cell + 2 < x.length && x[cell + 1] <= point[k]) cell++;
    share[k] = x[0] > 0 ? Math.log(point[k] / x[cell]) / Math.log(x[cell + 1] / x[cell])
                        : (point[k] - x[cell]) / (x[cell + 1] - x[cell]);
    steps[k] = step;
    first += cell * step;
  }}
  let sum = 0;
  for (let corner = 0; corner < 1 << axes.length; corner++) {{
    const upper = axes.map((_, k) => (corner >> k) & 1);
    const weight = share.reduce((w, s, k) => w * (upper[k] ? s : 1 - s), 1);
    if (weight) sum += weight * values[upper.reduce((row, up, k) => row + up * steps[k], first)];
  }}
  const value = {value};
  return {{ value, error: errors[first] * {error_of} }};
}}
"""
_SQL = """\
CREATE TABLE {name}_points ({columns}, value DOUBLE PRECISION, error DOUBLE PRECISION);
INSERT INTO {name}_points VALUES
{rows};
-- Insert the points to look up here, and read {name}_lookup; outside there is no row.
CREATE TABLE {name}_asked ({columns});
CREATE VIEW {name}_lookup AS
WITH cell AS (
    SELECT {dims},
{ends}
    FROM {name}_asked AS a
), place AS (
    SELECT *, {shares}
    FROM cell WHERE {inside}
), corner AS (
    SELECT {place_dims}, value, {weight} AS weight,
        CASE WHEN {first} THEN error END AS error
    FROM place JOIN {name}_points AS p ON {joined}
), found AS (
    SELECT {dims}, max(error) AS error,
        CASE WHEN count(CASE WHEN weight <> 0 AND value IS NULL THEN 1 END) = 0
            THEN {value} END AS value
    FROM corner GROUP BY {dims}
)
SELECT {dims}, value, error * {error_of} AS error FROM found;
"""


class _Table(NamedTuple):
    name: str
    dims: list[str]
    nodes: list[Array]  # by dimension, in ascending order
    values: Array
    errors: Array  # of the cell that begins at a point; a share of the value if logarithmic
    logarithmic: bool


def source(cube: "xarray.Dataset", ending: str) -> str:
    """Source code in C, JavaScript or SQL, by a file's ending. Raises InputError."""
    names = [str(name) for name in cube.data_vars if name != REASON]
    if len(names) != 1 or cube[names[0]].dtype.kind != "f":  # flags are codes
        raise InputError(f"{ending} holds one number, not {', '.join(names)}; name it: -v NAME")
    (name,) = names
    dims = [str(dim) for dim in cube[name].dims]
    for dim in dims:
        if dim not in cube.coords or cube[dim].dtype.kind not in "iuf" or cube.sizes[dim] < 2:
            raise InputError(f"{ending}: {dim} is no axis of numbers; cut it: {dim}=LABEL")
    if foreign := [each for each in (name, *dims) if not (each.isidentifier() and each.isascii())]:
        raise InputError(f"{ending}: {foreign[0]!r} is no name in code; rename it")
    if not dims or cube[name].size > MOST:
        raise InputError(
            f"{ending}: {name} has {cube[name].size:,} points; from 2 to {MOST:,} are written"
        )
    table = cube[[name]].sortby(dims).load()
    values = table[name].values
    logarithmic = bool((values > 0).any())
    if np.isinf(values).any() or (logarithmic and (values <= 0).any()):
        raise InputError(
            f"{ending}: {name} is not finite everywhere, or above 0 in some points only; cut the "
            "cube to these"
        )
    nodes = [table[dim].values.astype(float) for dim in dims]
    errors = _errors(table, name, dims, logarithmic)
    lookup = _Table(name, dims, nodes, values, errors, logarithmic)
    write, mark = {".c": (_c, " *"), ".mjs": (_js, "//"), ".sql": (_sql, "--")}[ending]
    lines = [f"{mark} {line}" for line in _about(table, lookup)]
    return "\n".join([*(["/*", *lines, " */"] if ending == ".c" else lines), write(lookup)])


def _errors(table: Any, name: str, dims: list[str], logarithmic: bool) -> Array:
    """The largest error of the cell that begins at each point, as a share of the value if that is
    interpolated in logarithms: at the middle, where `interp` takes the bends of a corner's side."""
    import xarray

    errors: Any = np.nan
    for corner in itertools.product((1 - 1e-9, 1 + 1e-9), repeat=len(dims)):
        middles = {}
        for dim, side in zip(dims, corner, strict=True):
            x = table[dim].values.astype(float)
            middle = np.sqrt(x[:-1] * x[1:]) if x[0] > 0 else (x[:-1] + x[1:]) / 2
            middles[dim] = xarray.DataArray(np.append(middle * side, x[-1]), dims=dim)
        cells = interp(table, middles)
        error = cells[f"{name}_error"] / (cells[name] if logarithmic else 1)
        errors = np.fmax(errors, error.transpose(*dims).values)
    return np.asarray(errors)


def _about(table: Any, lookup: _Table) -> list[str]:
    """What the file holds, and how large the error of its interpolation is."""

    def unit(each: str) -> str:
        return re.sub(r"[^\w/^.%-]", "", str(table[each].attrs.get("units", "1")))

    inner = lookup.errors[(slice(-1),) * len(lookup.nodes)]
    finite = inner[np.isfinite(inner)]
    scale, end = (100, " % of the value") if lookup.logarithmic else (1, " in its unit")
    most, half = (scale * (np.quantile(finite, q) if finite.size else np.nan) for q in (1, 0.5))
    axes = zip(lookup.dims, lookup.nodes, strict=True)
    remarks = str(table.attrs.get(REMARKS, "")).splitlines()
    decided = json.loads(table.attrs.get(DEFAULTS, "{}")).items()
    texts = [f"{n} {'differs' if value is None else written(value)}" for n, value in decided]
    default = [f"by default {', '.join(texts)}"] * bool(texts)
    unknown = f"; unknown in {inner.size - finite.size:,}" * (finite.size < inner.size)
    job = [*_job(table), *_stopped(table, lookup), *str(table.attrs.get(ASSUMED, "")).splitlines()]
    return [
        f"{lookup.name} [{unit(lookup.name)}] by",
        *(f"{dim} [{unit(dim)}], {len(x)} from {x[0]:.6g} to {x[-1]:.6g}" for dim, x in axes),
        f"Error of the interpolation, estimated: at most {most:.2g}{end},",
        f"below {half:.2g}{end} in half of {inner.size:,} cells{unknown}",
        *(re.sub(r"\*/|[^ -~]", " ", line) for line in [*job, *remarks, *default]),
    ]


def _job(table: Any) -> list[str]:
    """What the scenario of a cube states, and where axes were cut: a line, if its spec is kept."""
    spec = json.loads(table.attrs.get("fleetcube_spec", "{}"))
    cut = {
        n: table[n].item() for n in spec.get("axes", ()) if n in table.coords and not table[n].ndim
    }
    stated = {**spec.get("scenario", {}), **cut}
    texts = (f"{name} {written(value)}" for name, value in stated.items())
    return [f"of {', '.join(texts)}"] * bool(stated)


def _stopped(table: Any, lookup: _Table) -> list[str]:
    """How many of the table's values are of jobs that cannot run."""
    if REASON not in table.coords:
        return []
    reasons = table[REASON].broadcast_like(table[lookup.name]).transpose(*lookup.dims).values
    count = int(((reasons > 0) & np.isfinite(lookup.values)).sum())
    line = f"{count:,} of {lookup.values.size:,} points cannot run: their values are as computed"
    return [line] * (count > 0)


def _numbers(values: Array, missing: str, form: str = ".17g") -> list[str]:
    return [missing if np.isnan(v) else format(v, form) for v in values.reshape(-1).tolist()]


def _lines(texts: list[str]) -> str:
    return ",\n".join(", ".join(texts[k : k + 8]) for k in range(0, len(texts), 8))


def _parts(lookup: _Table, missing: str, exp: str) -> dict[str, str]:
    """What C and JavaScript share."""
    logarithmic = lookup.logarithmic
    return {
        "scale": "logarithms" if logarithmic else "as they are",
        "values": _lines(
            _numbers(np.log(lookup.values) if logarithmic else lookup.values, missing)
        ),
        "errors": _lines(_numbers(lookup.errors, missing, ".3g")),
        "value": f"{exp}(sum)" if logarithmic else "sum",
        "error_of": "value" if logarithmic else "1",
    }


def _c(lookup: _Table) -> str:
    axes = [
        f"static const double axis{k}[] = {{ /* {dim} */\n{_lines(_numbers(x, 'NAN'))}}};"
        for k, (dim, x) in enumerate(zip(lookup.dims, lookup.nodes, strict=True))
    ]
    return _C.format(
        name=lookup.name,
        count=len(axes),
        axes="\n".join(axes),
        axis_names=", ".join(f"axis{k}" for k in range(len(axes))),
        nodes=", ".join(str(len(x)) for x in lookup.nodes),
        **_parts(lookup, "NAN", "exp"),
    )


def _js(lookup: _Table) -> str:
    pairs = zip(lookup.dims, lookup.nodes, strict=True)
    axes = (f"\n[ // {dim}\n{_lines(_numbers(x, 'NaN'))}]" for dim, x in pairs)
    return _JS.format(axes=", ".join(axes), **_parts(lookup, "NaN", "Math.exp"))


def _sql(lookup: _Table) -> str:
    quoted = [f'"{dim}"' for dim in lookup.dims]
    places = np.meshgrid(*lookup.nodes, indexing="ij")
    columns = [_numbers(each, "NULL") for each in (*places, lookup.values)]
    rows = zip(*columns, _numbers(lookup.errors, "NULL", ".3g"), strict=True)
    points = f"FROM {lookup.name}_points WHERE"
    ends = [
        f"        (SELECT max({q}) {points} {q} <= a.{q} AND {q} < {x[-1]!r}) AS lo{k},\n"
        f"        (SELECT min({q}) {points} {q} > a.{q} OR {q} = {x[-1]!r}) AS hi{k}"
        for k, (q, x) in enumerate(zip(quoted, (n.tolist() for n in lookup.nodes), strict=True))
    ]
    shares = [
        f"ln({q} / lo{k}) / ln(hi{k} / lo{k}) AS s{k}"
        if x[0] > 0
        else f"({q} - lo{k}) / (hi{k} - lo{k}) AS s{k}"
        for k, (q, x) in enumerate(zip(quoted, lookup.nodes, strict=True))
    ]
    each = [*enumerate(quoted)]
    return _SQL.format(
        name=lookup.name,
        columns=", ".join(f"{q} DOUBLE PRECISION" for q in quoted),
        rows=",\n".join(f"({', '.join(row)})" for row in rows),
        dims=", ".join(quoted),
        ends=",\n".join(ends),
        shares=", ".join(shares),
        inside=" AND ".join(f"{q} BETWEEN lo{k} AND hi{k}" for k, q in each),
        place_dims=", ".join(f"place.{q}" for q in quoted),
        weight=" * ".join(f"CASE WHEN p.{q} = lo{k} THEN 1 - s{k} ELSE s{k} END" for k, q in each),
        first=" AND ".join(f"p.{q} = lo{k}" for k, q in each),
        joined=" AND ".join(f"p.{q} IN (lo{k}, hi{k})" for k, q in each),
        value="exp(sum(weight * ln(value)))" if lookup.logarithmic else "sum(weight * value)",
        error_of="value" if lookup.logarithmic else "1",
    )
