"""Picture of a job in phases: how long each takes, and where its time goes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.roles import LOSSES
from ..errors import InputError
from ..show.tables import scale, started
from ..spec.axes import PHASE
from ..spec.dates import end
from . import picture
from .kinds import PARTS

if TYPE_CHECKING:
    import xarray

NAMES = ("job_time", "transition_share", *LOSSES)
_NARROW = 0.08  # of the job: narrower phases have upright names
_LINE = 0.025  # of the picture's width, for an upright name


@picture.styled
def timeline(cube: "xarray.Dataset", path: Path | None) -> Any:
    """Draw a job's phases as boxes along its time, each divided by where its time goes. `cube` has
    NAMES along `phase` alone. An infeasible phase is hatched."""
    from matplotlib import patches, ticker

    picture.check_picture(path)
    base, factor, unit, widths, bad = _lengths(cube)
    starts = np.concatenate([[0.0], np.cumsum(widths)])
    figure, axes = picture.blank(4.8)
    handles = []
    for text, colour, left, width, low, high in _cut(cube, widths, bad):
        axes.bar(left, high - low, width, low, align="edge", color=colour)
        handles.append(patches.Patch(color=colour, label=text))
    for k in np.flatnonzero(bad & (widths > 0)):
        axes.axvspan(starts[k], starts[k + 1], zorder=0, **picture.INFEASIBLE)
    if bad.any():
        handles.append(patches.Patch(label="infeasible", **picture.INFEASIBLE))
    lengths = []
    for width in (widths * factor).tolist():
        each, its_unit = scale(base, width)
        lengths.append(f"{picture.number(float(f'{width / each:.3g}'))} {its_unit}".rstrip())
    since, until = _days(cube)
    _named(axes, cube[PHASE].values, starts, lengths, until)
    axes.set_xlim(0, max(starts[-1], 1e-12))
    axes.set_ylim(0, 1)
    axes.set_xlabel(f"time since {since} [{unit}]")
    axes.set_ylabel("share of the wall time")
    axes.yaxis.set_major_formatter(ticker.PercentFormatter(1, symbol=" %"))
    picture.plain(axes.xaxis)
    picture.headed(figure, _title(widths, unit, until))
    figure.legend(handles=handles, loc="outside lower center", fontsize=8, ncols=3)
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
    starts = np.cumsum(widths) - widths
    rows += [
        {"phase": names[k], "part": "infeasible", "from": starts[k], "until": starts[k] + widths[k]}
        | {"low": 0.0, "high": 1.0}
        for k in np.flatnonzero(bad & (widths > 0))
    ]
    heads = {"from": f"time since {since} [{unit}]", "low": "share of the wall time"}
    shades = {text: colour for text, colour, *_ in parts} | {"infeasible": picture.GREY}
    title = _title(widths, unit, until)
    return picture.Boxes(title, rows, ("from", "until"), ("low", "high"), heads, shades)


def _lengths(cube: "xarray.Dataset") -> tuple[str, float, str, Any, Any]:
    """The base unit of times, a factor and unit to show, phase lengths, and infeasible phases."""
    picture.need(cube, NAMES)
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
    parts = [("making ready", "#cccccc", starts, ready, low, high)] if ready.any() else []
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


def _named(
    axes: Any, names: Any, starts: Any, lengths: Sequence[str], until: Sequence[str]
) -> None:
    """Write each phase's name, length and end above it; narrow ones upright, with lines to them. If
    known, narrow ones show their end instead of the length."""
    widths, whole = np.diff(starts), max(starts[-1], 1e-12)
    narrow = [k for k in range(widths.size) if widths[k] < _NARROW * whole]
    middles = starts[:-1] + widths / 2
    places = _apart(middles[narrow] / whole, _LINE) * whole
    for k, (name, length) in enumerate(zip(names, lengths, strict=True)):
        if k in narrow:
            last = until[k] if until else length
            text, at, how = f"{name}, {last}", places[narrow.index(k)], {"rotation": 90}
            axes.plot([middles[k], at], [1.0, 1.06], color="#999999", linewidth=0.6, clip_on=False)
        else:
            text, at, how = "\n".join([f"{name}", length, *until[k : k + 1]]), middles[k], {}
        axes.text(at, 1.07, text, ha="center", va="bottom", fontsize=8, **how)
        if k:
            axes.axvline(starts[k], color="white", linewidth=1.5)


def _apart(places: Any, gap: float) -> Any:
    """Places moved so that neighbours are at least `gap` apart, and none is beyond 1."""
    moved = np.array(places, float)
    for k in range(1, moved.size):
        moved[k] = max(moved[k], moved[k - 1] + gap)
    for k in range(moved.size - 1, -1, -1):
        moved[k] = min(moved[k], 1.0 if k + 1 == moved.size else moved[k + 1] - gap)
    return moved
