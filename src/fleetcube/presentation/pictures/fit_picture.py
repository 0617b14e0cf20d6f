"""Pictures of fits: measured and fitted values, with residuals below."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fleetcube.calibration.fit import CollectiveFit
from fleetcube.calibration.steps import StepFit
from fleetcube.grid.spec.values import unit_of
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.tables.tables import scale
from fleetcube.tables.theme import LINES

from .picture import add_title, check_picture, labelled, new_figure, plain, saved, styled, words

_OUT, _IN, _LINE = *LINES[:2], "black"


@styled
def plot_fit(fit: CollectiveFit | StepFit, path: Path) -> None:
    """Draw measured and fitted values, with relative residuals below."""
    check_picture(path)
    figure, (top, below) = new_figure(6.0, 2, sharex=True, height_ratios=(3, 2))
    in_bytes = isinstance(fit, CollectiveFit)
    draw: Callable[..., None] = _collective if in_bytes else _steps
    draw(top, below, fit)
    below.axhline(0.0, color=_LINE, linewidth=1)
    below.set_ylabel("measured over fitted - 1 [%]")
    for axes in (top, below):
        axes.grid(alpha=0.3)
    plain(top.yaxis)
    if not in_bytes:
        plain(top.xaxis)
    add_title(figure, _title(fit))
    saved(figure, path)


def _collective(top: Any, below: Any, fit: CollectiveFit) -> None:
    fitted = fit.fitted(fit.sizes)
    factor, unit = scale("s", fit.times)
    line = np.geomspace(fit.sizes.min(), fit.sizes.max(), 400)
    top.plot(line, fit.fitted(line) / factor, color=_LINE, linewidth=1.2, label="fitted", zorder=1)
    for mask, label, color, marker in (
        (~fit.in_place, "out of place", _OUT, "o"),
        (fit.in_place, "in place", _IN, "^"),
    ):
        if mask.any():
            marks = {"color": color, "marker": marker, "s": 22, "linewidths": 0}
            top.scatter(fit.sizes[mask], fit.times[mask] / factor, label=label, **marks)
            residuals = 100 * (fit.times[mask] / fitted[mask] - 1)
            below.scatter(fit.sizes[mask], residuals, **marks)
    top.set_xscale("log", base=2)
    top.set_yscale("log")
    top.set_ylabel(f"time [{unit}]")
    top.legend(fontsize=9)
    _bytes(below)
    below.set_xlabel("message")


def _steps(top: Any, below: Any, fit: StepFit) -> None:
    factor, unit = scale(unit_of(PHYSICS, fit.of), fit.measured, fit.of)
    ends = [min(fit.measured.min(), fit.fitted.min()), max(fit.measured.max(), fit.fitted.max())]
    ends = [ends[0] / factor / 1.05, ends[1] / factor * 1.05]
    top.plot(ends, ends, color=_LINE, linewidth=1.2, label="equal", zorder=1)
    marks = {"color": _OUT, "marker": "o", "s": 22, "linewidths": 0}
    top.scatter(fit.fitted / factor, fit.measured / factor, label="rows", **marks)
    below.scatter(fit.fitted / factor, 100 * (fit.measured / fit.fitted - 1), **marks)
    if ends[1] / ends[0] > 20:
        top.set_xscale("log")
        top.set_yscale("log")
    top.set_ylabel(f"measured {labelled(fit.of, unit)}")
    below.set_xlabel(f"fitted {labelled(fit.of, unit)}")
    top.legend(fontsize=9)


def _bytes(axes: Any) -> None:
    """Label sizes on the horizontal axis in powers of 1024: 4 KiB, 1 MiB, 16 GiB."""
    from matplotlib import ticker

    def shown(size: float, _: Any) -> str:
        for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")):
            if size >= 1 << power:
                return f"{size / (1 << power):g} {unit}"
        return f"{size:g} B"

    axes.xaxis.set_major_locator(ticker.LogLocator(base=2, numticks=9))
    axes.xaxis.set_major_formatter(shown)
    axes.xaxis.set_minor_locator(ticker.NullLocator())


def _title(fit: CollectiveFit | StepFit) -> str:
    errors = f"{fit.rows} measurements, median error {100 * fit.median_error:.2g} %"
    if isinstance(fit, CollectiveFit):
        return f"{fit.collective.replace('_', '-')} on {fit.ranks} ranks: {errors}"
    return f"{', '.join(map(words, fit.values))}: {errors}"
