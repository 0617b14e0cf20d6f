"""Descriptions of cubes: axes, variables, why points cannot run, sources."""

import json
from typing import TYPE_CHECKING, Any

from fleetcube.commands.shared.say import say, say_wrapped
from fleetcube.commands.shared.table import print_foot, print_table

if TYPE_CHECKING:
    import xarray

_MOST_COUNTED = 10_000_000  # points whose reasons are counted


def describe(cube: Any, sources: bool = False) -> None:
    """Print the axes, variables and remarks of a cube."""
    from fleetcube.analysis.reevaluate import predicted
    from fleetcube.tables.tables import counted

    order = list(json.loads(cube.attrs["fleetcube_spec"])["axes"])
    sizes = sorted(cube.sizes.items(), key=lambda item: order.index(item[0]))
    say(f"axes: {' x '.join(f'{name} ({size})' for name, size in sizes) or 'no axes'}")
    rows = []
    for name, variable in cube.data_vars.items():
        unit = "flag" if "flag_meanings" in variable.attrs else variable.attrs.get("units", "")
        dims = ", ".join(map(str, variable.dims)) or "-"
        unit = "-" if unit == "1" else unit
        rows.append([str(name), f"{unit}{counted(variable.attrs)}", dims])
    print_table(["variable", "unit", "axes"], rows)
    reason = cube.coords.get("infeasible_reason")
    if reason is not None and reason.size <= _MOST_COUNTED:
        say_wrapped(f"infeasible: {_infeasible(reason)}")
    print_remarks(cube)
    if names := predicted(cube):
        say_wrapped(f"slice and plot show 90 % intervals of: {', '.join(names)}")
    if sources:
        _print_sources(cube.attrs)


def print_remarks(values: "xarray.Dataset", err: bool = False) -> None:
    """Print unused inputs, the basis of the numbers, and choices made by defaults."""
    if "fleetcube_unused" in values.attrs:
        from fleetcube.presentation.explain import unused

        say_wrapped(unused(values.attrs), err=err)
    print_foot(values, err=err)


def _print_sources(attrs: dict[str, Any]) -> None:
    from fleetcube.catalog.entry import one_line
    from fleetcube.scenario.citations import records

    version, engine = (attrs.get(f"fleetcube_{name}") for name in ("version", "engine"))
    say(one_line(f"fleetcube {version}, engine {engine}"))
    for record in records(attrs):
        edition = f", edition {record['edition']}" if "edition" in record else ""
        source = f"{record['source']} ({record['date']}{edition})"
        say(one_line(f"{record['kind']} {record['label']}: {source}"))


def _infeasible(reason: "xarray.DataArray") -> str:
    """How many points cannot run, and why."""
    meanings = str(reason.attrs["flag_meanings"]).split()
    codes = reason.values.ravel().tolist()
    counts = {code: codes.count(code) for code in sorted(set(codes) - {0})}
    listed = ", ".join(
        f"{count} {meanings[code] if code > 0 else 'undefined'}" for code, count in counts.items()
    )
    dims = " x ".join(map(str, reason.dims))
    where = f" combinations of {dims}" if len(codes) > 1 else ""
    return f"{sum(counts.values())} of {len(codes)}{where}" + (f" ({listed})" if listed else "")
