"""Picture of a validation: measured over predicted values."""

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.calibration.predict import ALL_REDUCE, Compared
from fleetcube.grid.spec.values import unit_of
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.tables.tables import scale
from fleetcube.tables.theme import GREY, LINES

from .picture import check_picture, labelled, new_figure, plain, saved, styled, words
from .plot import MOST_NAMED

if TYPE_CHECKING:
    from fleetcube.calibration.validate import Validation

_MARKERS = "osD^vPX*"
_BAND = 0.1
_ACROSS = 3  # panels


@styled
def plot_validation(validation: "Validation", path: Path) -> None:
    """Draw measured over predicted values, a panel for each output, a colour for each group."""
    check_picture(path)
    outputs = list(dict.fromkeys(row.of for row in validation.rows)) or ["nothing to compare"]
    across = min(len(outputs), _ACROSS)
    down = math.ceil(len(outputs) / across)
    figure, panels = new_figure(4.8 * down, down, across, width=4.8 * across, squeeze=False)
    for axes, output in itertools.zip_longest(panels.flat, outputs, fillvalue=""):
        _panel(axes, [row for row in validation.rows if row.of == output], output)
    saved(figure, path)


def _panel(axes: Any, rows: list[Compared], output: str) -> None:
    axes.set_title(words(output), fontsize=11)
    if not rows:
        axes.set_axis_off()
        return
    both = np.array([(row.predicted, row.measured) for row in rows])
    middle = math.sqrt(both.min() * both.max())
    factor, unit = scale("s" if output == ALL_REDUCE else unit_of(PHYSICS, output), middle, output)
    ends = np.array([both.min() / 1.4, both.max() * 1.4]) / factor
    axes.fill_between(ends, (1 - _BAND) * ends, (1 + _BAND) * ends, color=GREY, lw=0)
    axes.plot(ends, ends, color="black", linewidth=1)
    sizes = Counter(row.group for row in rows)
    named = {group for group, _ in sizes.most_common(MOST_NAMED)}
    for k, group in enumerate(sizes):
        points = np.array([(row.predicted, row.measured) for row in rows if row.group == group])
        axes.scatter(
            *(points / factor).T,
            s=16,
            linewidths=0,
            alpha=0.7,
            color=LINES[k % len(LINES)],
            marker=_MARKERS[k % len(_MARKERS)],
            label=f"{group} ({len(points)})" if group in named else "_",
            zorder=2 + 1 / len(points),  # small groups over large ones
        )
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    axes.set_xlabel(labelled("predicted", unit))
    axes.set_ylabel(f"{labelled('measured', unit)}; band: ±{_BAND:.0%}")
    for line in (axes.xaxis, axes.yaxis):
        plain(line)
    axes.grid(alpha=0.3)
    if others := sizes.keys() - named:
        label = f"{len(others)} smaller groups ({sum(sizes[group] for group in others)})"
        axes.plot([], [], " ", label=label)
    axes.legend(fontsize=7.5, loc="upper left", framealpha=0.9)
