"""Pictures of sensitivity: a tornado at a point, a map of the input that matters most."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..show.tables import scale
from .picture import (
    PALETTE,
    blank,
    blocked,
    check_picture,
    headed,
    heading,
    labelled,
    lines,
    number,
    plain,
    positions,
    saved,
    styled,
    words,
)
from .plot import regions

if TYPE_CHECKING:
    import xarray

LOWER, HIGHER = "#0072B2", "#E69F00"  # of the input; Okabe & Ito's blue and orange
MOST_COLOURS = 7  # inputs told apart by colour in a map; the others are one


@styled
def tornado(found: "xarray.Dataset", of: str, path: Path, most: int = 15) -> Any:
    """Draw what a quantity becomes where each input is smaller and larger, the largest swing first.

    `found` is what `Sweep.levers` returns. Inputs that change nothing are left out. Returns the
    figure.
    """
    check_picture(path)
    from matplotlib.patches import Patch

    base = float(found[of])
    factor, unit = scale(str(found[of].attrs["units"]), np.array([base]), of)
    ends = np.stack([found[f"{of}_below"].values, found[f"{of}_above"].values]) / factor
    swing = np.nan_to_num(np.abs(ends - base / factor).max(axis=0), posinf=0.0)
    order = [k for k in np.argsort(-swing, kind="stable") if swing[k] > 0][:most][::-1]
    figure, axes = blank(1.5 + 0.3 * max(4, len(order)))
    names = [str(name) for name in found["input"].values]
    whole = found["kind"].values == "difference"
    for at, k in enumerate(order):
        for row in sorted((0, 1), key=lambda row: -abs(ends[row, k] - base / factor)):
            width = ends[row, k] - base / factor
            axes.barh(at, width, left=base / factor, color=(LOWER, HIGHER)[row])
    axes.axvline(base / factor, color="black", linewidth=0.8)
    ticks = [f"{words(names[k])}{' *' if whole[k] else ''}" for k in order]
    axes.set_yticks(range(len(order)), ticks)
    axes.set_xlabel(labelled(of, unit))
    told = "inputs 10 % smaller and larger"
    if any(whole[k] for k in order):
        told += " (*: the valid whole numbers nearest to that)"
    title = f"{words(of)} = {number(float(f'{base / factor:.4g}'))} {unit}".rstrip()
    headed(figure, "\n".join([title, told, *_told(found.attrs["fleetcube_point"])]))
    patches = [Patch(color=colour) for colour in (LOWER, HIGHER)]
    axes.legend(patches, ["input smaller", "input larger"], fontsize=8, loc="lower right")
    axes.locator_params(axis="x", nbins=5)
    plain(axes.xaxis)
    axes.grid(alpha=0.3, axis="x")
    axes.set_axisbelow(True)
    return saved(figure, path)


@styled
def dominance_map(found: "xarray.Dataset", of: str, x: str, y: str, told: str, path: Path) -> Any:
    """Draw which input has the largest elasticity over two axes; infeasible points are grey.

    `found` is what `Sweep.dominance` returns for a sweep that varies along no other axis. Inputs
    beyond the most frequent ones share a colour. Returns the figure.
    """
    check_picture(path)
    for axis in (x, y):
        if axis not in found["dominant"].dims:
            told = ", ".join(map(str, found["dominant"].dims)) or "no axis"
            raise InputError(f"no elasticity of {of} varies along {axis}, but along {told}")
    grid = found["dominant"].squeeze([d for d in found["dominant"].dims if d not in (x, y)])
    codes = grid.transpose(y, x).values
    names = str(found["dominant"].attrs["flag_meanings"]).split()
    bad = blocked(found.squeeze([d for d in found.dims if d not in (x, y, "input")]), [y, x])
    counts = np.bincount(codes[~bad], minlength=len(names))
    ranked = [int(k) for k in np.argsort(-counts, kind="stable") if counts[k]]
    shown, rest = ranked, []
    if len(ranked) > MOST_COLOURS:
        shown, rest = ranked[: MOST_COLOURS - 1], ranked[MOST_COLOURS - 1 :]
    places = np.full(len(names), len(shown))
    places[shown] = range(len(shown))
    labels = [_label(found, names[k]) for k in shown] + ([f"{len(rest)} others"] if rest else [])
    figure, axes = blank(4.8)
    across = positions(axes, found[x], "x")
    up = positions(axes, found[y], "y")
    regions(figure, axes, (across, up), places[codes], bad, labels, _PALETTE, "lever")
    axes.set_xlabel(heading(found[x]))
    axes.set_ylabel(heading(found[y]))
    title = f"Input with the largest elasticity of {words(of)}"
    headed(figure, "\n".join([title, *_told(told)]))
    return saved(figure, path)


_PALETTE = [*PALETTE[1:7], PALETTE[0]]  # grey last


def _label(found: "xarray.Dataset", name: str) -> str:
    """An input in the legend, with those that cannot be told from it."""
    if name not in found["input"].values:
        return words(name)
    like = found["input"].values[found["same_as"].values == name]
    return "\n= ".join([words(name), *(words(str(other)) for other in like if other != name)])


def _told(point: str) -> list[str]:
    """A point, "gpu_mttf = 50000 h, fabric = roce-100g", in lines of a title."""
    parts = []
    for name, _, value in (part.partition(" = ") for part in point.split(", ") if part):
        first, space, unit = value.partition(" ")
        with contextlib.suppress(ValueError):  # of labels
            first = number(float(first))
        parts.append(f"{words(name)} {first}{space}{unit}")
    return lines(parts)
