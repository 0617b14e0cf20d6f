"""Picture of a simulated pipeline schedule: the passes of each stage along time."""

from pathlib import Path
from typing import Any

import numpy as np

from fleetcube.analysis.simulated_step import SimulatedStep
from fleetcube.tables.theme import PARTS

from .areas import ink
from .picture import Boxes, add_title, check_picture, labelled, new_figure, plain, saved, styled

_NAMES = {"F": "forward", "B": "backward", "W": "weight gradient"}
_COLOURS = {"F": PARTS[5], "B": PARTS[1], "W": PARTS[6]}
_MOST_NUMBERS = 1500  # passes; with more, none is numbered
_LABEL = 0.16  # inches for a micro-batch's number


@styled
def draw_schedule(
    played: SimulatedStep, path: Path | None, unit: str = "", point: Any = None
) -> Any:
    """Draw the passes of each stage along time; numbers are micro-batches. Later pieces of the
    model on a stage are darker; overlapping passes have a frame. `of` is the point played."""
    from matplotlib import colors, patches

    check_picture(path)
    count = len(played.stages)
    figure, axes = new_figure(1.3 + 0.28 * count)
    pieces = sorted({op.piece for op in played.stages[0]})
    later = {
        op.piece: sorted({p.piece for p in passes}).index(op.piece) / max(1, len(pieces) - 1)
        for passes in played.stages
        for op in passes
    }
    length = max(passes[-1].end for passes in played.stages)
    ops = [op for passes in played.stages for op in passes]
    widest = len(str(max(op.microbatch for op in ops) + 1))
    room = _LABEL * length / 6.4 * widest / 2  # in time, of a pass wide enough for every number
    narrow = {op.kind for op in ops if op.end - op.start < room}
    numbered = set(_NAMES) - narrow if len(ops) <= _MOST_NUMBERS else set()
    for stage, passes in enumerate(played.stages):
        for op in passes:
            shade = 1 - 0.4 * later[op.piece]
            colour = np.array(colors.to_rgb(_COLOURS[op.kind])) * shade
            width = op.end - op.start
            frame = {"ec": "black", "zorder": 1.5} if op.overlaps else {"ec": "white"}
            axes.barh(stage, width, 0.86, op.start, color=colour, linewidth=0.4, **frame)
            if op.kind in numbered:
                middle = op.start + width / 2
                how = {"ha": "center", "va": "center", "fontsize": 6, "color": ink(colour)}
                axes.text(middle, stage, str(op.microbatch + 1), **how)
    axes.set_xlim(0, length)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_yticks(range(count), [str(stage + 1) for stage in range(count)])
    axes.set_ylabel("stage")
    axes.set_xlabel(labelled("time", unit))
    plain(axes.xaxis)
    axes.spines[["top", "right"]].set_visible(False)
    kinds = [k for k in _NAMES if any(op.kind == k for op in played.stages[0])]
    handles = [patches.Patch(color=_COLOURS[kind], label=_NAMES[kind]) for kind in kinds]
    if any(op.overlaps for op in ops):
        handles.append(patches.Patch(fc="none", ec="black", linewidth=0.4, label="overlapping"))
    figure.legend(handles=handles, loc="outside lower center", fontsize=8, ncols=4)
    add_title(figure, _title(played))
    return saved(figure, path, point)


def schedule_boxes(played: SimulatedStep, unit: str = "") -> Boxes:
    """The passes of each stage along time, as `draw_schedule` draws them."""
    rows = [
        {
            "stage": str(stage + 1),
            "part": _NAMES[op.kind],
            "from": op.start,
            "until": op.end,
            "microbatch": op.microbatch + 1,
            "piece": op.piece + 1,
        }
        for stage, passes in enumerate(played.stages)
        for op in passes
    ]
    shades = {name: _COLOURS[kind] for kind, name in _NAMES.items()}
    heads = {"from": labelled("time", unit)}
    return Boxes(_title(played), rows, ("from", "until"), ("stage",), heads, shades)


def _title(played: SimulatedStep) -> str:
    return f"{played.pipeline_schedule}: bubble ratio {played.bubble_ratio:.3g}"
