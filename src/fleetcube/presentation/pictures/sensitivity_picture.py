"""Pictures of sensitivity: a tornado at a point, a map of the input that matters most."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.physics.roles import BEST_HIGH, BEST_LOW
from fleetcube.tables.tables import scale
from fleetcube.tables.theme import LINES

from . import picture
from .plot import REGIONS, regions

if TYPE_CHECKING:
    import xarray

_BLUE, _ORANGE = LINES[0], LINES[3]
_SMOOTH = "inputs 10 % smaller and larger"
_STEPPED = "whole numbers: the nearest valid ones below and above"
_LABEL_STYLE: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 8}
MOST_COLOURS = 7  # inputs with their own colour in a map; the others share one


@picture.styled
def tornado(levers: "xarray.Dataset", output: str, path: Path, most: int = 15) -> Any:
    """Draw the swing of an output with each input of `Sweep.rank_inputs`, the largest first."""
    picture.check_picture(path)
    from matplotlib.patches import Patch

    boxes = tornado_boxes(levers, output, most)
    names = {
        change: list(dict.fromkeys(r["input"] for r in boxes.rows if r["change"] == change))[::-1]
        for change in dict.fromkeys(row["change"] for row in boxes.rows)
    }
    bars = [max(2, len(inputs)) for inputs in names.values()] or [4]
    height = 1.1 + 0.7 * len(bars) + 0.3 * sum(bars)
    # scales of their own: halving a cluster would dwarf 10 % of anything
    figure, panels = picture.new_figure(height, len(bars), squeeze=False, height_ratios=bars)
    for axes, (change, inputs) in zip(panels[:, 0], names.items(), strict=bool(names)):
        for row in (row for row in boxes.rows if row["change"] == change):
            width, place = row["until"] - row["from"], inputs.index(row["input"])
            axes.barh(place, width, left=row["from"], color=boxes.shades[row["part"]])
            axes.axvline(row["from"], color="black", linewidth=0.8)
        for (name, right), ends in _ends_of(boxes.rows, change).items():
            side = {"ha": "left" if right else "right", "xytext": (3 if right else -3, 0)}
            text = ", ".join(row["said"] for row in ends)
            tip = max((row["until"] for row in ends), key=lambda end: abs(end - ends[0]["from"]))
            axes.annotate(text, (tip, inputs.index(name)), **side, **_LABEL_STYLE)
        axes.margins(x=0.3)
        axes.set_yticks(range(len(inputs)), inputs)
        axes.set_title(change, fontsize=9)
        picture.plain(axes.xaxis)
        axes.grid(alpha=0.3, axis="x")
        axes.set_axisbelow(True)
    axes = panels[-1, 0]
    axes.set_xlabel(boxes.heads["from"])
    picture.add_title(figure, boxes.title)
    patches = [Patch(color=colour) for colour in boxes.shades.values()]
    figure.legend(patches, [*boxes.shades], loc="outside lower center", fontsize=8, ncols=2)
    return picture.saved(figure, path, levers)


def _ends_of(rows: list[Any], change: str) -> dict[tuple[str, bool], list[Any]]:
    """The ends of a panel's bars, by input and by whether they are to the right."""
    ends: dict[tuple[str, bool], list[Any]] = {}
    for row in rows:
        if row["change"] == change and row["until"] != row["from"]:
            ends.setdefault((row["input"], row["until"] > row["from"]), []).append(row)
    return ends


def tornado_boxes(levers: "xarray.Dataset", output: str, most: int = 15) -> picture.Boxes:
    """A quantity's values with each input smaller and larger, the wider bar of each first."""
    base = float(levers[output])
    factor, unit = scale(str(levers[output].attrs["units"]), np.array([base]), output)
    ends = np.stack([levers[f"{output}_below"].values, levers[f"{output}_above"].values]) / factor
    finite = np.isfinite(ends)
    ends = np.where(finite, ends, base / factor)
    tried = np.stack([levers["value_below"].values, levers["value_above"].values])
    moved = np.isfinite(tried)
    lacking = np.asarray((moved & ~finite).any(axis=0))
    swing = np.abs(ends - base / factor).max(axis=0)
    order = [k for k in np.argsort(-swing, kind="stable") if swing[k] > 0 or lacking[k]][:most]
    stepped = levers["kind"].values == "difference"
    parts, sign = ["input smaller", "input larger"], _sense(output)
    if sign:
        ways = zip(("better", "worse"), ("higher", "lower")[::sign], strict=True)
        parts = [f"{effect}: {way} {picture.words(output)}" for effect, way in ways]

    def end_text(k: int, side: int) -> str:
        change = f"at {tried[side, k]:,.6g}" if stepped[k] else ("-10 %", "+10 %")[side]
        return f"{change}: {picture.number(float(f'{ends[side, k]:.4g}'))}"

    rows = [
        {
            "input": picture.words(str(levers["input"].values[k])),
            "change": _STEPPED if stepped[k] else _SMOOTH,
            "part": parts[bool(ends[side, k] * sign < base / factor * sign) if sign else side],
            "from": base / factor,
            "until": ends[side, k],
            "said": end_text(k, side) if moved[side, k] else "",
        }
        for k in sorted(order, key=lambda k: bool(stepped[k]))
        for side in sorted((0, 1), key=lambda side: -abs(ends[side, k] - base / factor))
    ]
    title = (
        f"{picture.words(output)} = {picture.number(float(f'{base / factor:.4g}'))} {unit}".rstrip()
    )
    lacks = ["a missing bar: no progress there, or no such layout"] * bool(lacking[order].any())
    lines_ = [title, *lacks, *_point_lines(levers.attrs["fleetcube_point"])]
    shades = dict(zip(parts, (_BLUE, _ORANGE), strict=True))
    heads = {"from": picture.labelled(output, unit)}
    return picture.Boxes("\n".join(lines_), rows, ("from", "until"), ("input",), heads, shades)


def _sense(output: str) -> int:
    """Whether more of an output is better (1) or less (-1); 0 if neither is known."""
    name = without_phase(output)
    return 1 if name in BEST_HIGH else -1 if name.endswith(BEST_LOW) else 0


@picture.styled
def dominance_map(
    dominance: "xarray.Dataset", output: str, x: str, y: str, point: str, path: Path
) -> Any:
    """Draw which input has the largest elasticity over the two axes of `Sweep.dominant_inputs`.

    Infeasible points are grey; inputs beyond the most frequent ones share a colour.
    """
    picture.check_picture(path)
    for axis in (x, y):
        if axis not in dominance["dominant"].dims:
            varying = ", ".join(map(str, dominance["dominant"].dims)) or "no axis"
            raise InputError(f"no elasticity of {output} varies along {axis}, but along {varying}")
    grid = dominance["dominant"].squeeze([d for d in dominance["dominant"].dims if d not in (x, y)])
    codes = grid.transpose(y, x).values
    names = str(dominance["dominant"].attrs["flag_meanings"]).split()
    bad = picture.blocked(
        dominance.squeeze([d for d in dominance.dims if d not in (x, y, "input")]), [y, x]
    )
    counts = np.bincount(codes[~bad], minlength=len(names))
    ranked = [int(k) for k in np.argsort(-counts, kind="stable") if counts[k]]
    shown, rest = ranked, []
    if len(ranked) > MOST_COLOURS:
        shown, rest = ranked[: MOST_COLOURS - 1], ranked[MOST_COLOURS - 1 :]
    places = np.full(len(names), len(shown))
    places[shown] = range(len(shown))
    labels = [_label(dominance, names[k]) for k in shown] + (
        [f"{len(rest)} others"] if rest else []
    )
    figure, axes = picture.new_figure(4.8)
    across = picture.positions(axes, dominance[x], "x")
    up = picture.positions(axes, dominance[y], "y")
    shades = dict(enumerate(REGIONS))
    regions(figure, axes, (across, up), places[codes], bad, labels, shades, "input")
    axes.set_xlabel(picture.heading(dominance[x]))
    axes.set_ylabel(picture.heading(dominance[y]))
    title = f"Input with the largest elasticity of {picture.words(output)}"
    picture.add_title(figure, "\n".join([title, *_point_lines(point)]))
    return picture.saved(figure, path, dominance)


def _label(dominance: "xarray.Dataset", name: str) -> str:
    """An input in the legend, with inputs indistinguishable from it."""
    if name not in dominance["input"].values:
        return picture.words(name)
    like = dominance["input"].values[dominance["same_as"].values == name]
    return "\n= ".join(
        [picture.words(name), *(picture.words(str(other)) for other in like if other != name)]
    )


def _point_lines(point: str) -> list[str]:
    """Title lines from a point, "gpu_mttf = 50000 h, fabric = roce-100g"."""
    entries = []
    for name, _, value in (part.partition(" = ") for part in point.split(", ") if part):
        first, space, unit = value.partition(" ")
        with contextlib.suppress(ValueError):  # values that are labels
            first = picture.number(float(first))
        entries.append(f"{picture.words(name)} {first}{space}{unit}")
    return picture.lines(entries)
