"""Picture of one step of a job: parts are drawn below the whole that they compose."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.analysis.step_parts import REST, SERIAL, STEP, STOPS, Part, step_parts
from fleetcube.analysis.traffic import duration
from fleetcube.tables.tables import scale
from fleetcube.tables.theme import GREY, PARTS

from . import picture
from .areas import ink

if TYPE_CHECKING:
    import xarray

_COLOURS = {  # as in the picture of losses
    STEP: GREY,
    "compute_time": "#a6a6a6",
    "ideal_compute_time": PARTS[7],
    REST: PARTS[0],
    "straggler_time": PARTS[3],
    "bubble_time": PARTS[2],
    "exposed_communication_time": PARTS[1],
    "optimizer_time": PARTS[5],
    SERIAL: PARTS[6],
    STOPS: PARTS[4],
}
_WORDS = {
    "exposed_layer_communication_time": "in layers",
    "ideal_compute_time": "model operations at peak",
    REST: "below peak and recomputed",
    "processor_contention_time": "processors held",
}
_DARKEST, _PALEST = (8, 74, 145), (171, 207, 229)  # range of blues, as RGB
_CLEAR = 4  # free pixels on both sides of a name in its bar
_COLUMNS = 3  # of the legend


@picture.styled
def step_picture(point: "xarray.Dataset", path: Path | None) -> Any:
    """Draw one step as rows of bars, each divided into its parts in the row below. `point` has
    `analysis.step_parts.NAMES`. The legend has the parts without further parts."""
    from matplotlib import colors, patches

    picture.check_picture(path)
    whole = step_parts(point)
    bars = list(_bars(whole, 0.0, 0))
    factor, unit = scale("s", whole.seconds, STEP)
    depth = 1 + max(row for _, _, row in bars)
    leaves = [part for part, _, _ in bars if not part.parts]
    figure, axes = picture.new_figure(1.4 + 0.5 * depth + 0.2 * (len(leaves) // _COLUMNS))
    shades = _shades([part.name for part, _, _ in bars])
    names = []
    for part, start, row in bars:
        shade = colors.to_rgb(shades[part.name])
        box: dict[str, Any] = {"color": shade, "edgecolor": "white", "linewidth": 0.8}
        axes.barh(row, part.seconds / factor, 0.94, start / factor, **box)
        how: Any = {"ha": "center", "va": "center", "fontsize": 8, "color": ink(shade)}
        middle = (start + part.seconds / 2) / factor
        names.append((axes.text(middle, row, _named(part), **how), part))
    axes.set_xlim(0, whole.seconds / factor)
    axes.set_ylim(depth - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlabel(f"time of one step [{unit}]")
    picture.plain(axes.xaxis)
    axes.spines[["top", "right", "left"]].set_visible(False)
    handles = [
        patches.Patch(
            color=shades[leaf.name],
            label=f"{_named(leaf)}: {duration(leaf.seconds, 3)}, "
            + _share(leaf.seconds / whole.seconds),
        )
        for leaf in leaves
    ]
    picture.add_title(figure, _title(point, whole))
    figure.legend(handles=handles, loc="outside lower center", fontsize=8, ncols=_COLUMNS)
    figure.draw_without_rendering()  # needed for widths in pixels
    across = axes.get_window_extent().width
    for text, part in names:
        if text.get_window_extent().width + _CLEAR > across * part.seconds / whole.seconds:
            text.remove()
    return picture.saved(figure, path, point)


def step_boxes(point: "xarray.Dataset") -> picture.Boxes:
    """One step as rows of bars, as `step_picture` draws it."""
    whole = step_parts(point)
    bars = list(_bars(whole, 0.0, 0))
    factor, unit = scale("s", whole.seconds, STEP)
    rows = [
        {
            "depth": str(row),
            "part": _named(part),
            "from": start / factor,
            "until": (start + part.seconds) / factor,
            "takes": f"{duration(part.seconds, 3)}, {_share(part.seconds / whole.seconds)}",
        }
        for part, start, row in bars
    ]
    shades = _shades([part.name for part, _, _ in bars])
    names = {_named(part): shades[part.name] for part, _, _ in bars}
    heads = {"from": f"time of one step [{unit}]"}
    return picture.Boxes(_title(point, whole), rows, ("from", "until"), ("depth",), heads, names)


def _title(point: "xarray.Dataset", whole: Part) -> str:
    summary = f"A step takes {duration(whole.seconds, 4)}"
    if picture.blocked(point, []).any():
        summary += ", but this point cannot be run"
        picture.look().remarks.append("infeasible: this point cannot be run")
    return picture.title(point, point[STEP], summary)


def _shades(names: Sequence[str]) -> dict[str, str]:
    """Colours of parts: those without a fixed one get blues, darkest first."""
    others = [name for name in names if name not in _COLOURS]
    blues = np.linspace(_DARKEST, _PALEST, max(1, len(others))).round().astype(np.uint8)
    return {**_COLOURS, **{n: f"#{b.tobytes().hex()}" for n, b in zip(others, blues, strict=False)}}


def _share(part: float) -> str:
    return f"{100 * part:.2g} %" if part >= 1e-3 else "< 0.1 %"


def _named(part: Part) -> str:
    name = part.name.removeprefix("exposed_").removesuffix("_time").removesuffix("_parallel")
    return _WORDS.get(part.name, picture.words(name.removesuffix("_time_per_step")))


def _bars(part: Part, start: float, row: int) -> Iterator[tuple[Part, float, int]]:
    """Each part, where it begins, and its depth."""
    yield part, start, row
    for inner in part.parts:
        yield from _bars(inner, start, row + 1)
        start += inner.seconds
