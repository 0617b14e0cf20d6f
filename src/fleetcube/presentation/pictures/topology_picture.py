"""Picture of a job's network: its tiers, and the traffic that crosses each."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleetcube.analysis.traffic import Tier, crossings, duration
from fleetcube.tables.theme import LINES, PARTS

from .picture import Boxes, add_title, check_picture, new_figure, saved, styled

if TYPE_CHECKING:
    import xarray

_KINDS = ("tensor", "data", "expert", "pipeline", "context", "sites")
_COLOURS = dict(zip(_KINDS, LINES, strict=True))
_MOST = 12  # most boxes drawn for one tier
_RIGHT_LABEL = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": 7.5}
_GAP = 0.06  # between boxes, relative to the width of one


@styled
def topology(point: "xarray.Dataset", path: Path | None) -> Any:
    """Draw the tiers of a job's network, and how far up each kind of traffic goes.

    Left, each tier is a row of boxes, one for each unit of the job, at most twelve; arrows over
    them rise from the GPUs to the highest tier that a kind crosses. Right, bars are the times in a
    step.
    `point` has the NAMES of `ask.traffic`, and SITES if there are several.
    """
    check_picture(path)
    from matplotlib.patheffects import withStroke

    tiers, traffic = crossings(point)
    moving = [each for each in traffic if each.tier >= 0]
    height = 1.3 + max(0.72 * len(tiers), 0.34 * len(moving))
    figure, (left, right) = new_figure(height, 1, 2, width_ratios=[5, 3])
    for row, tier in enumerate(tiers):
        _boxes(left, row, tier, tiers[-1].gpus)
    left.set_xlim(0, 1)
    left.set_yticks(
        range(len(tiers)),
        [
            f"{tier.name}\n{_units(tier, tiers[-1].gpus)}\n{_rate(tier.bandwidth)} a GPU"
            for tier in tiers
        ],
        fontsize=8,
    )
    left.set_xticks([])
    left.tick_params(length=0)
    for place, each in enumerate(moving):
        offset, colour = (place + 0.5) / len(moving), _COLOURS[each.kind]
        rim = [withStroke(linewidth=6, foreground="white")]  # to stand out from boxes
        arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 3, "path_effects": rim}
        left.annotate("", (offset, each.tier + 0.42), (offset, -0.5), arrowprops=arrow)
        left.text(offset, -0.56, each.kind, ha="center", va="top", fontsize=8, color=colour)
        right.barh(-place, each.seconds, 0.5, color=colour)
        right.annotate(duration(each.seconds, 2), (each.seconds, -place), **_RIGHT_LABEL)
    right.set_yticks([-place for place in range(len(moving))], [each.kind for each in moving])
    right.set_xticks([])
    right.tick_params(axis="both", length=0, labelsize=8)
    right.margins(x=0.35)
    left.set_ylim(-0.8, len(tiers) - 0.5)
    for axes, head in ((left, "tiers, and how far up traffic goes"), (right, "time in a step")):
        axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
        axes.set_title(head, fontsize=9)
    add_title(figure, _title(tiers[-1].gpus))
    return saved(figure, path, point)


def topology_boxes(point: "xarray.Dataset") -> Boxes:
    """The tiers that each kind of traffic crosses, as `topology` draws them, with its time."""
    tiers, traffic = crossings(point)
    job = tiers[-1].gpus
    rows = [
        {
            "traffic": each.kind,
            "tier": f"{tier.name}: {_units(tier, job)}, {_rate(tier.bandwidth)} a GPU",
            "part": each.kind,
            "takes": duration(each.seconds, 2),
        }
        for height, tier in reversed([*enumerate(tiers)])
        for each in traffic
        if each.tier >= height
    ]
    heads = {"traffic": "traffic, with its time of one step"}
    return Boxes(_title(job), rows, ("traffic",), ("tier",), heads, _COLOURS)


def _title(gpus: float) -> str:
    return f"Tiers of {gpus:,.6g} GPUs, and the traffic that crosses them"


def _boxes(axes: Any, row: int, tier: Tier, job: float) -> None:
    """Draw the units of one tier: all of them, or the first few, dots and the last."""
    from matplotlib import patches

    count = max(1, round(job / tier.gpus))
    shown = min(count, _MOST)
    width = 1 / shown
    for place in range(shown):
        if count > shown and place == shown - 2:
            axes.text((place + 0.5) * width, row, "...", ha="center", va="center", fontsize=9)
            continue
        box = (place + _GAP / 2) * width, row - 0.3
        face: dict[str, Any] = {"facecolor": PARTS[-1], "edgecolor": "black", "linewidth": 0.6}
        axes.add_patch(patches.Rectangle(box, (1 - _GAP) * width, 0.6, **face))


def _units(tier: Tier, job: float) -> str:
    count = max(1, round(job / tier.gpus))
    each = f"{tier.gpus:,.6g} GPUs" if tier.gpus != 1 else "1 GPU"
    return f"{count:,} x {each}" if count > 1 else each


def _rate(bandwidth: float) -> str:
    near = bandwidth >= 1e9
    return f"{bandwidth / 1e9:.3g} GB/s" if near else f"{bandwidth / 1e6:.3g} MB/s"
