"""Pictures of sensitivity: a tornado at a point, a map of the input that matters most."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..show.tables import scale
from . import picture
from .plot import regions

if TYPE_CHECKING:
    import xarray

LOWER, HIGHER = "#0072B2", "#E69F00"  # for the input; Okabe & Ito's blue and orange
_SMOOTH = "10 % smaller and larger"
_STEPPED = "counts: the nearest valid whole numbers below and above"
MOST_COLOURS = 7  # inputs with their own colour in a map; the others share one


@picture.styled
def tornado(levers: "xarray.Dataset", of: str, path: Path, most: int = 15) -> Any:
    """Draw the swing of an output with each input of `Sweep.rank_inputs`, the largest first."""
    picture.check_picture(path)
    from matplotlib.patches import Patch

    boxes = tornado_boxes(levers, of, most)
    names = {
        change: list(dict.fromkeys(r["input"] for r in boxes.rows if r["change"] == change))[::-1]
        for change in dict.fromkeys(row["change"] for row in boxes.rows)
    }
    bars = [max(2, len(own)) for own in names.values()] or [4]
    height = 1.1 + 0.7 * len(bars) + 0.3 * sum(bars)
    # scales of their own: halving a cluster would dwarf 10 % of anything
    figure, panels = picture.blank(height, len(bars), squeeze=False, height_ratios=bars)
    for axes, (change, own) in zip(panels[:, 0], names.items(), strict=bool(names)):
        for row in (row for row in boxes.rows if row["change"] == change):
            width = row["until"] - row["from"]
            shade = boxes.shades[row["part"]]
            axes.barh(own.index(row["input"]), width, left=row["from"], color=shade)
            axes.axvline(row["from"], color="black", linewidth=0.8)
        axes.set_yticks(range(len(own)), own)
        axes.set_title(change, fontsize=9)
        axes.locator_params(axis="x", nbins=5)
        picture.plain(axes.xaxis)
        axes.grid(alpha=0.3, axis="x")
        axes.set_axisbelow(True)
    axes = panels[-1, 0]
    axes.set_xlabel(boxes.heads["from"])
    picture.headed(figure, boxes.title)
    patches = [Patch(color=colour) for colour in boxes.shades.values()]
    axes.legend(patches, [*boxes.shades], fontsize=8, loc="lower right")
    return picture.saved(figure, path, levers)


def tornado_boxes(levers: "xarray.Dataset", of: str, most: int = 15) -> picture.Boxes:
    """A quantity's values with each input smaller and larger, the wider bar of each first."""
    base = float(levers[of])
    factor, unit = scale(str(levers[of].attrs["units"]), np.array([base]), of)
    ends = np.stack([levers[f"{of}_below"].values, levers[f"{of}_above"].values]) / factor
    known = np.isfinite(ends)
    ends = np.where(known, ends, base / factor)
    tried = np.stack([levers["value_below"].values, levers["value_above"].values])
    moved = np.isfinite(tried)
    lacking = np.asarray((moved & ~known).any(axis=0))
    swing = np.abs(ends - base / factor).max(axis=0)
    order = [k for k in np.argsort(-swing, kind="stable") if swing[k] > 0 or lacking[k]][:most]
    stepped = levers["kind"].values == "difference"

    def named(k: int) -> str:
        valid = " or ".join(f"{value:,.6g}" for value in tried[:, k] if np.isfinite(value))
        said = picture.words(str(levers["input"].values[k]))
        return f"{said}: {valid}" if stepped[k] else said

    rows = [
        {
            "input": named(k),
            "change": _STEPPED if stepped[k] else _SMOOTH,
            "part": ("input smaller", "input larger")[side],
            "from": base / factor,
            "until": ends[side, k],
        }
        for k in sorted(order, key=lambda k: bool(stepped[k]))
        for side in sorted((0, 1), key=lambda side: -abs(ends[side, k] - base / factor))
    ]
    title = f"{picture.words(of)} = {picture.number(float(f'{base / factor:.4g}'))} {unit}".rstrip()
    lacks = ["a missing bar: no progress there, or no such layout"] * bool(lacking[order].any())
    lines_ = [title, *lacks, *_point_lines(levers.attrs["fleetcube_point"])]
    shades = {"input smaller": LOWER, "input larger": HIGHER}
    heads = {"from": picture.labelled(of, unit)}
    return picture.Boxes("\n".join(lines_), rows, ("from", "until"), ("input",), heads, shades)


@picture.styled
def dominance_map(
    dominance: "xarray.Dataset", of: str, x: str, y: str, point: str, path: Path
) -> Any:
    """Draw which input has the largest elasticity over the two axes of `Sweep.dominant_inputs`.

    Infeasible points are grey; inputs beyond the most frequent ones share a colour.
    """
    picture.check_picture(path)
    for axis in (x, y):
        if axis not in dominance["dominant"].dims:
            varying = ", ".join(map(str, dominance["dominant"].dims)) or "no axis"
            raise InputError(f"no elasticity of {of} varies along {axis}, but along {varying}")
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
    figure, axes = picture.blank(4.8)
    across = picture.positions(axes, dominance[x], "x")
    up = picture.positions(axes, dominance[y], "y")
    regions(
        figure, axes, (across, up), places[codes], bad, labels, dict(enumerate(_PALETTE)), "lever"
    )
    axes.set_xlabel(picture.heading(dominance[x]))
    axes.set_ylabel(picture.heading(dominance[y]))
    title = f"Input with the largest elasticity of {picture.words(of)}"
    picture.headed(figure, "\n".join([title, *_point_lines(point)]))
    return picture.saved(figure, path, dominance)


_PALETTE = [*picture.PALETTE[1:7], picture.PALETTE[0]]  # grey last


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
