"""Picture of where adding GPUs stops helping."""

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.analysis.wall import SIZE

from .kinds import losses, losses_boxes
from .picture import Boxes, add_title, number, saved, styled

if TYPE_CHECKING:
    import xarray

_FREE = 4  # sizes drawn before the first limit
_NARROW = 10  # characters of a layout below its size


@styled
def wall_picture(scaling: "xarray.Dataset", path: Path | None) -> Any:
    """Draw job time and losses over sizes, with a line where a limit begins to bind, and the layout
    of each size. Of the smaller sizes, which scale alike, the last few are drawn."""
    from matplotlib.patheffects import withStroke

    rim = [withStroke(linewidth=2.6, foreground="white")]  # dark areas lie below
    starts = scaling["binds_from"].values
    bound = np.unique(starts[np.isfinite(starts)])
    first = np.searchsorted(scaling[SIZE].values, bound[0]) if bound.size else _FREE
    shown = scaling.isel({SIZE: slice(max(0, first - _FREE), None)})
    figure = losses(shown, SIZE, None)
    upper, lower = figure.axes[:2]
    if "layout" in scaling:
        layouts = [textwrap.fill(text, _NARROW) for text in shown["layout"].values.tolist()]
        ticks = [
            f"{size:,}\n{layout}" for size, layout in zip(shown[SIZE].values, layouts, strict=True)
        ]
        lower.set_xticks(shown[SIZE].values, ticks, fontsize=7.5)
    for row, start in enumerate(bound.tolist()):
        named = scaling["limit"].values[starts == start]
        for axes in (upper, lower):
            axes.axvline(start, color="black", linestyle=":", linewidth=1.2, path_effects=rim)
        place: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "ha": "right", "va": "top"}
        position = (start, 0.95 - 0.13 * row)
        upper.annotate(f"{', '.join(named)} ", position, fontsize=8, **place)
    add_title(figure, _title(scaling))
    return saved(figure, path, scaling)


def wall_boxes(scaling: "xarray.Dataset") -> Boxes:
    """The losses over sizes, and the size from which each limit binds, in words."""
    limits = zip(scaling["limit"].values, scaling["binds_from"].values, strict=True)
    binding = [
        f"{limit} from {number(float(first))} GPUs on" for limit, first in limits if first == first
    ]
    title = "\n".join([_title(scaling), *binding])
    return replace(losses_boxes(scaling, SIZE), title=title)


def _title(scaling: "xarray.Dataset") -> str:
    return f"Fastest with {number(float(scaling['fastest_gpus']))} GPUs"
