"""Picture of a job in phases: how long each takes, and where its time goes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.spec.axes import PHASE
from fleetcube.kernels.physics.roles import LOSSES
from fleetcube.scenario.dates import end
from fleetcube.tables.tables import scale, started
from fleetcube.tables.theme import GREY

from . import picture
from .areas import label_areas
from .kinds import PARTS

if TYPE_CHECKING:
    import xarray

NAMES = ("job_time", "transition_share", *LOSSES)


@picture.styled
def timeline(cube: "xarray.Dataset", path: Path | None) -> Any:
    """Draw when each phase of a job runs and, to the right, where its time goes. `cube` has NAMES
    along `phase` alone. An infeasible phase is hatched."""
    from matplotlib import patches, ticker

    picture.check_picture(path)
    base, factor, unit, widths, bad = _lengths(cube)
    rows, starts = np.arange(widths.size), np.cumsum(widths) - widths
    figure, (left, right) = picture.new_figure(1.9 + 0.4 * widths.size, 1, 2, width_ratios=[3, 5])
    left.barh(rows, widths, 0.8, starts, color="0.3")
    handles: list[Any] = []
    areas, ends = [], np.zeros(widths.size)
    for text, colour, _, width, low, high in _cut(cube, widths, bad):
        share = np.divide(width * (high - low), widths, out=0 * widths, where=widths > 0)
        right.barh(rows, share, 0.8, ends, color=colour, edgecolor="white", linewidth=0.6)
        boxes = [*zip(ends, rows - 0.4, ends := ends + share, rows + 0.4, strict=True)]
        areas.append((text, colour, boxes))
        handles.append(patches.Patch(color=colour, label=text))
    for k in np.flatnonzero(bad & (widths > 0)).tolist():
        right.barh(k, 1, 0.8, zorder=0, **picture.INFEASIBLE)
    if bad.any():
        handles.append(picture.cannot_run())
    since, until = _days(cube)
    names = [str(name) for name in cube[PHASE].values]
    for k, width in enumerate((widths * factor).tolist()):
        each, its_unit = scale(base, width)
        length = f"{picture.number(float(f'{width / each:.3g}'))} {its_unit}".rstrip()
        names[k] += "\n" + ", ".join([length, *until[k : k + 1]])
    left.set_yticks(rows, names, fontsize=8)
    left.set_xlim(0, max(widths.sum(), 1e-12))
    left.set_xlabel(f"time since {since} [{unit}]")
    picture.plain(left.xaxis)
    right.set_yticks([])
    right.set_xlim(0, 1)
    right.set_xlabel("share of the wall time")
    right.xaxis.set_major_formatter(ticker.PercentFormatter(1, symbol=" %"))
    for axes in (left, right):
        axes.set_ylim(widths.size - 0.5, -0.5)
        axes.spines[["top", "right"]].set_visible(False)
    picture.add_title(figure, _title(widths, unit, until))
    figure.legend(handles=handles, loc="outside lower center", fontsize=8, ncols=3)
    label_areas(right, areas)
    return picture.saved(figure, path, cube)


def timeline_boxes(cube: "xarray.Dataset") -> picture.Boxes:
    """A job's phases, each divided by where its time goes, as `timeline` draws them."""
    _, _, unit, widths, bad = _lengths(cube)
    since, until = _days(cube)
    names = [str(name) for name in cube[PHASE].values]
    rows: list[dict[str, Any]] = []
    parts = _cut(cube, widths, bad)
    for text, _, *sides in parts:
        rows += [
            {"phase": name, "part": text, "from": left, "until": left + width, "low": a, "high": b}
            for name, left, width, a, b in zip(names, *sides, strict=True)
            if width > 0 and b > a
        ]
    ends = np.cumsum(widths)
    rows += [
        {"phase": names[k], "part": picture.CANNOT, "from": ends[k] - widths[k], "until": ends[k]}
        | {"low": 0.0, "high": 1.0}
        for k in np.flatnonzero(bad & (widths > 0))
    ]
    heads = {"from": f"time since {since} [{unit}]", "low": "share of the wall time"}
    shades = {text: colour for text, colour, *_ in parts} | {picture.CANNOT: GREY}
    title = _title(widths, unit, until)
    return picture.Boxes(title, rows, ("from", "until"), ("low", "high"), heads, shades)


def _lengths(cube: "xarray.Dataset") -> tuple[str, float, str, Any, Any]:
    """The base unit of times, a factor and unit to show, phase lengths, and infeasible phases."""
    picture.require_variables(cube, NAMES)
    if cube["job_time"].dims != (PHASE,):
        raise InputError("a timeline needs one point, with phases; give the other axes a value")
    widths = np.asarray(cube["job_time"].values, float)
    base = str(cube["job_time"].attrs.get("units", "1"))
    factor, unit = scale(base, np.nansum(np.where(np.isfinite(widths), widths, 0.0)))
    bad = picture.blocked(cube, [PHASE]) | ~np.isfinite(widths)
    return base, factor, unit, np.where(np.isfinite(widths), widths / factor, 0.0), bad


def _cut(cube: "xarray.Dataset", widths: Any, bad: Any) -> list[tuple[Any, ...]]:
    """Parts of all phases: a name, a colour, left ends, widths, lower and upper ends."""
    starts = np.cumsum(widths) - widths
    ready = np.broadcast_to(np.nan_to_num(cube["transition_share"].values), widths.shape) * widths
    low, high = np.zeros(widths.size), np.ones(widths.size)
    parts = [("making ready", GREY, starts, ready, low, high)] if ready.any() else []
    for name, (text, colour) in zip([*LOSSES, ""], PARTS, strict=True):
        share = np.broadcast_to(cube[name].values, widths.shape) if name else 1 - low
        high = low + np.where(bad, 0.0, share)
        parts.append((text, colour, starts + ready, widths - ready, low, high))
        low = high
    return parts


def _days(cube: "xarray.Dataset") -> tuple[str, list[str]]:
    """The job's start, and the end days of its phases, if its spec states a date."""
    since, _ = started(cube)
    if since is None:
        return "the start", []
    times = np.cumsum(cube["job_time"].values).tolist()
    return str(since), [f"until {end(since, seconds)}" for seconds in times]


def _title(widths: Any, unit: str, until: Sequence[str]) -> str:
    whole = f"The job's phases: {widths.sum():,.4g} {unit} in all"
    return ", ".join([whole, *until[-1:]])
