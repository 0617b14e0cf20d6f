"""Picture of where adding GPUs stops helping."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ask.wall import SIZE
from .kinds import losses
from .picture import headed, number, saved, styled

if TYPE_CHECKING:
    import xarray


@styled
def wall_picture(found: "xarray.Dataset", path: Path | None) -> Any:
    """Draw job time and losses over the sizes of `Sweep.wall`, with a line where each limit binds.

    Limits that begin at one size share its line. Returns the figure.
    """
    figure = losses(found, SIZE, None)
    upper, lower = figure.axes[:2]
    starts = found["binds_from"].values
    for start in np.unique(starts[np.isfinite(starts)]).tolist():
        named = found["limit"].values[starts == start]
        for axes in (upper, lower):
            axes.axvline(start, color="black", linestyle=":", linewidth=1.2)
        where = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points"}
        upper.annotate(
            ", ".join(named),
            (start, 0.97),
            (-3, 0),
            rotation=90,
            ha="right",
            va="top",
            fontsize=8,
            **where,
        )
    headed(figure, f"Fastest with {number(float(found['fastest_gpus']))} GPUs")
    return saved(figure, path)
