"""Names inside areas, for prints without colours."""

from collections.abc import Sequence
from typing import Any

import numpy as np

_GAP = 4  # least pixels to the sides of a name


def ink(colour: Any) -> str:
    """Black or white, whichever is better to read on a colour."""
    from matplotlib import colors

    linear = np.array(colors.to_rgb(colour)) ** 2.2
    return "white" if linear @ (0.2126, 0.7152, 0.0722) < 0.18 else "black"


def label_areas(axes: Any, areas: Sequence[tuple[str, Any, Sequence[Any]]]) -> None:
    """Write names inside areas, for prints without colours: each with its colour and boxes (left,
    low, right, high in data), in the first box with room for it. The view must be final."""
    axes.figure.draw_without_rendering()  # needed for sizes in pixels
    for name, colour, boxes in areas:
        how: Any = {"ha": "center", "va": "center", "fontsize": 8, "color": ink(colour)}
        text = axes.text(0, 0, name, clip_on=True, **how)
        extent = text.get_window_extent()
        for left, low, right, high in boxes:
            corners = axes.transData.transform([(left, low), (right, high)])
            room = np.all(np.abs(corners[1] - corners[0]) > (extent.width + _GAP, extent.height))
            if low < high and room:
                text.set_position(axes.transData.inverted().transform(corners.mean(axis=0)))
                break
        else:
            text.remove()
