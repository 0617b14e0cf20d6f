"""Picture of a job in phases: how long each takes, and where its time goes."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.roles import LOSSES
from ..errors import InputError
from ..spec.axes import PHASE
from .kinds import PARTS
from .picture import (
    INFEASIBLE,
    blank,
    blocked,
    check_picture,
    headed,
    need,
    saved,
    scaled,
    styled,
)

if TYPE_CHECKING:
    import xarray

NAMES = ("job_time", "transition_share", *LOSSES)
_NARROW = 0.06  # of the job: a phase whose name stands beside the others, not above it


@styled
def timeline(cube: "xarray.Dataset", path: Path | None) -> Any:
    """Draw the phases of a job as boxes along its time, each cut into where its time goes.

    `cube` holds NAMES along the dimension `phase` alone. An infeasible phase is hatched. Returns
    the figure.
    """
    from matplotlib import patches, ticker

    check_picture(path)
    need(cube, NAMES)
    if cube["job_time"].dims != (PHASE,):
        raise InputError("a timeline needs one point, with phases; give the other axes a value")
    times, unit = scaled(cube["job_time"])
    widths = np.asarray(times.values, float)
    bad = blocked(cube, [PHASE]) | ~np.isfinite(widths)
    widths = np.where(np.isfinite(widths), widths, 0.0)
    starts = np.concatenate([[0.0], np.cumsum(widths)])
    figure, axes = blank(4.8)
    ready = np.broadcast_to(np.nan_to_num(cube["transition_share"].values), widths.shape) * widths
    handles = []
    if ready.any():
        axes.bar(starts[:-1], np.ones(widths.size), ready, align="edge", color="0.8")
        handles.append(patches.Patch(color="0.8", label="making ready"))
    bottom = np.zeros(widths.size)
    for name, (text, colour) in zip([*LOSSES, ""], PARTS, strict=True):
        share = np.broadcast_to(cube[name].values, widths.shape) if name else 1 - bottom
        share = np.where(bad, 0.0, share)
        axes.bar(starts[:-1] + ready, share, widths - ready, bottom, align="edge", color=colour)
        bottom = bottom + share
        handles.append(patches.Patch(color=colour, label=text))
    for k in np.flatnonzero(bad & (widths > 0)):
        axes.axvspan(starts[k], starts[k + 1], zorder=0, **INFEASIBLE)
    if bad.any():
        handles.append(patches.Patch(label="infeasible", **INFEASIBLE))
    _named(axes, cube[PHASE].values, starts, widths, unit)
    axes.set_xlim(0, max(starts[-1], 1e-12))
    axes.set_ylim(0, 1)
    axes.set_xlabel(f"time since the start [{unit}]")
    axes.set_ylabel("share of the wall time")
    axes.yaxis.set_major_formatter(ticker.PercentFormatter(1, symbol=" %"))
    headed(figure, f"The job's phases: {starts[-1]:,.4g} {unit} in all")
    figure.legend(handles=handles, loc="outside lower center", fontsize=8, ncols=3)
    return saved(figure, path)


def _named(axes: Any, names: Any, starts: Any, widths: Any, unit: str) -> None:
    """Write each phase's name and length above it; those of narrow ones at a slant."""
    for k, name in enumerate(names):
        narrow = widths[k] < _NARROW * starts[-1]
        text = f"{name}, {widths[k]:,.3g} {unit}" if narrow else f"{name}\n{widths[k]:,.3g} {unit}"
        how: Any = {"ha": "left", "rotation": 45} if narrow else {"ha": "center"}
        middle = starts[k] + widths[k] / 2
        axes.text(middle, 1.02, text, va="bottom", fontsize=8, rotation_mode="anchor", **how)
        if k:
            axes.axvline(starts[k], color="white", linewidth=1.5)
