"""Pictures of a cube: a curve over one axis, or a map over two."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.analysis.pareto import SENSES
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.labels import END_OF
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import CROSSING, ERRORS, RATIOS_OF_PARTS
from fleetcube.tables.tables import scale
from fleetcube.tables.theme import PARTS

from . import picture
from .areas import ink, label_areas

if TYPE_CHECKING:
    import xarray

FEWEST = 3  # points along both axes of a map with contours
MOST_NAMED = 12  # curves in a legend
MOST_BANDS = 2  # curves; more get bars, and more than have markers get no intervals
_BAR_SPACING = 0.06  # spacing of the curves' bars, relative to that of points
_RASTERED = 20_000  # cells above which a map is one image in a .pdf or .svg
FAR = 20  # infeasible values beyond this multiple of the feasible ones are left out
_HIDDEN = 0.03  # of the height: curves closer than this count as one
_LABEL = (5.6, 12.0)  # pixels: width of a character of a contour's label, and its height
_TRIES = 41  # positions tried for it along a contour
_STEP = 4.0  # pixels between points along a contour
_LINE = 0.16  # inches from one name of a curve to the next
_WIDER = 0.7  # points by which a curve is wider than the next, which covers it
_ADVICE = "curves hide each other; --best min or max draws their ratios to the best"
FEASIBLE = 0  # code of more flags than there are colours
REGIONS = tuple(PARTS[k] for k in (1, 4, 3, 6, 0, 5, 2))  # the first far apart
_HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oo")


@picture.styled
def plot(
    cube: "xarray.Dataset",
    name: str,
    x: str,
    y: str | None,
    path: Path | None,
    best: str | None = None,
) -> Any:
    """Draw one variable over one or two axes of a cut cube.

    Other axes must have been cut to a point, except one more for curves. A map of numbers has
    contours; a map of flags has the line where reliability costs as much as communication, if the
    cube has their ratio. Where the cube has intervals of 90 %, one or two curves have bands, and up
    to six have bars. Infeasible points are hatched in maps; in curves they are hollow, crosses at
    the bottom if distant, and a band where no curve can run. With `best`, "min" or "max", curves
    are ratios to the lowest or highest feasible one at each point.
    """
    picture.check_picture(path)
    if best is not None and (best not in SENSES or y is not None):
        raise InputError(f"best = {best!r}: give 'min' or 'max', for curves")
    cube, variable, ends, family = chosen(cube, name, x, y)
    figure, axes = picture.new_figure(4.8)
    if y is None:
        _curves(axes, cube, variable, x, family, ends, best)
    else:
        _map(figure, axes, cube, variable, x, y)
    axes.set_xlabel(picture.heading(cube[x]))
    picture.add_title(figure, picture.title(cube, variable))
    return picture.saved(figure, path, cube)


def chosen(
    cube: "xarray.Dataset", name: str, x: str, y: str | None
) -> tuple["xarray.Dataset", "xarray.DataArray", list["xarray.DataArray"], str | None]:
    """The cube as predicted, a variable over axes, its interval's ends, and the axis of curves."""
    if x == y:
        raise InputError(f"x and y are both {x!r}; choose two axes, or leave y out for curves")
    if name == REASON and name in cube.coords:
        cube = cube.reset_coords(name)
    picture.require_variables(cube, [name])
    cube, ends = _with_ends(picture.cut(cube, [x, y]), name, [x] if y is None else [x, y])
    variable = cube[name]
    for axis in (x, y):
        if axis is not None and axis not in variable.dims:
            choices = ", ".join(map(str, variable.dims)) or "none left"
            raise InputError(f"{axis!r} is not an axis of {name}; its axes: {choices}")
    rest = picture.check_cut(variable, [x] if y is None else [x, y], 1 if y is None else 0)
    return cube, variable, ends, rest[0] if rest else None


def _curves(
    axes: Any,
    cube: "xarray.Dataset",
    variable: "xarray.DataArray",
    x: str,
    family: str | None,
    ends: Sequence["xarray.DataArray"] = (),
    best: str | None = None,
) -> None:
    """Draw one variable over x, a curve for each point of `family`."""
    numbers, unit = picture.scaled(variable)
    dims = [family, x] if family else [x]
    flags = flags_of(variable)
    rows = numbers.transpose(*dims).values.reshape(-1, numbers.sizes[x]).astype(float)
    rows[(rows < 0) & bool(flags)] = np.nan
    if not np.isfinite(rows).any():
        raise InputError(f"no point has {variable.name}; cut the cube elsewhere")
    bad = picture.blocked(cube, dims).reshape(rows.shape)
    name = picture.labelled(str(variable.name), unit)
    if best:
        if not family or flags:
            raise InputError(f"best = {best!r} needs curves of numbers; leave one more axis uncut")
        name = f"{picture.words(str(variable.name))} / {'lowest' if best == 'min' else 'highest'}"
        rows, ends = rows / best_of(rows, bad, best, str(variable.name)), ()
    places = picture.positions(axes, variable[x], "x")
    if flags:  # codes that occur, evenly spaced
        codes = np.unique(rows[np.isfinite(rows)]).astype(int).tolist()
        rows = np.where(np.isfinite(rows), np.searchsorted(codes, rows), np.nan)
        axes.set_yticks(range(len(codes)), [flags[code] for code in codes])
    near = _near(rows, bad, bool(flags))
    named = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), MOST_NAMED)).astype(int))
    labels = picture.point_labels(variable[family]) if family else [""]
    direct = bool(family) and not flags and len(rows) <= len(picture.MARKERS)
    keys = ["_" if direct or k not in named else label for k, label in enumerate(labels)]
    smooth = picture.is_number(cube[x])
    line = "-" if smooth and not flags else ":"
    looks = _draw_rows(axes, places, rows, bad, near, keys, line)
    if ends and len(rows) > len(picture.MARKERS):
        picture.look().remarks.append(f"{len(rows)} curves: their intervals are not drawn")
        ends = ()
    bounds = _bounds(variable, ends, dims, bad)
    banded = bool(bounds) and _bands(axes, places, bounds[0], bounds[1], smooth)
    if not flags:
        shown = rows[np.isfinite(rows) & (~bad | near)]
        if picture.is_wide(shown.min(), shown.max()):
            axes.set_yscale("log")
        picture.plain(axes.yaxis)
        if best is None and _hidden(np.where(bad, np.nan, rows), axes):
            _part(axes.lines[: 2 * len(rows) : 2] if direct else ())
    picture.count_infeasible(bad, "hollow where they have a value")
    _unable(axes, places, bad, bad & np.isfinite(rows), near, looks)
    if direct:
        values = np.where(bad & ~near, np.nan, rows)
        _name_curves(axes, places, values, labels, looks, picture.heading(variable[family]))
    elif family:
        few = f"\n({len(named)} of {len(rows)} named)" if len(named) < len(rows) else ""
        picture.legend_right(axes.figure, title=picture.heading(variable[family]) + few)
    if (direct or not family) and (bad.any() or banded):
        axes.legend(fontsize=8)
    axes.set_ylabel(name)
    axes.grid(alpha=0.3)


def _bounds(
    variable: "xarray.DataArray", ends: Sequence["xarray.DataArray"], dims: Sequence[str], bad: Any
) -> list[Any]:
    """Ends of intervals in the unit of the curves, NaN where infeasible."""
    factor, _ = scale(str(variable.attrs.get("units", "1")), variable.values, str(variable.name))
    scaled = (end.transpose(*dims).values.reshape(bad.shape) / factor for end in ends)
    return [np.where(bad, np.nan, end) for end in scaled]


def _part(curves: Sequence[Any]) -> None:
    """Draw curves that hide each other in widths that let all be seen, and advise ratios."""
    picture.look().advice.append(_ADVICE)
    for k, curve in enumerate(curves):
        curve.set_linewidth(curve.get_linewidth() + _WIDER * (len(curves) - 1 - k))


def _near(rows: Any, bad: Any, flags: bool) -> Any:
    """Infeasible values that are drawn: those of flags, and numbers not far from feasible ones."""
    hollow = bad & np.isfinite(rows)
    feasible = rows[np.isfinite(rows) & ~bad]
    if flags or not feasible.size or feasible.min() <= 0:
        return hollow
    return hollow & (rows >= feasible.min() / FAR) & (rows <= feasible.max() * FAR)


def _draw_rows(
    axes: Any, places: Any, rows: Any, bad: Any, near: Any, labels: Sequence[str], line: str
) -> list[dict[str, Any]]:
    """Draw curves, hollow where they are infeasible; returns the looks of each."""
    shades, few = picture.colours(len(rows)), len(rows) <= len(picture.MARKERS)
    looks = [
        {"color": shades[k], "marker": picture.MARKERS[k] if few else "o", "markersize": 4}
        for k in range(len(rows))
    ]
    for k, row in enumerate(rows):
        solid, hollow = np.where(bad[k], np.nan, row), np.where(near[k], row, np.nan)
        axes.plot(places, solid, linestyle=line, label=labels[k], **looks[k])
        axes.plot(places, hollow, linestyle="", fillstyle="none", **looks[k])
    return looks


def _name_curves(
    axes: Any, places: Any, rows: Any, labels: Sequence[str], looks: Sequence[Any], head: str
) -> None:
    """Write the names of curves at their right ends, spread so that none covers another."""
    step = _LINE / (axes.figure.get_figheight() * axes.get_position().height)
    ends, heights = [], []
    for row in rows:
        valued = np.flatnonzero(np.isfinite(row))
        ends.append((places[valued[-1]], row[valued[-1]]) if valued.size else None)
        point = axes.transData.transform(ends[-1]) if ends[-1] else axes.transAxes.transform((1, 0))
        heights.append(axes.transAxes.inverted().transform(point)[1])
    order = sorted(range(len(rows)), key=heights.__getitem__)
    spots = spread([heights[k] for k in order], step, 1 - step)
    for k, spot in zip(order, spots, strict=True):
        line = {
            "arrowstyle": "-",
            "relpos": (0, 0.5),
            "color": looks[k]["color"],
            "lw": 0.8,
            "shrinkA": 1,
            "shrinkB": 3,
        }
        text = axes.annotate(
            labels[k].replace("\n", " ") + ("" if ends[k] else f": {picture.CANNOT}"),
            ends[k] or (1, 0),
            (1.03, spot),
            xycoords="data" if ends[k] else "axes fraction",
            textcoords="axes fraction",
            arrowprops=line if ends[k] else None,
            annotation_clip=False,
            **{"va": "center", "fontsize": 8, "parse_math": False},
        )
        text.set_label(f"_{head}")  # a legend skips it
    axes.text(
        1.03, spots[-1] + step, head, transform=axes.transAxes, va="center", fontsize=8, color="0.3"
    )


def spread(heights: Sequence[float], step: float, most: float) -> list[float]:
    """Ascending heights moved as little as an even push allows, a step apart, from 0 to `most`."""
    spots = list(heights)
    for _ in range(200):
        for k in range(len(spots) - 1):
            lack = step - (spots[k + 1] - spots[k])
            if lack > 1e-9:
                spots[k], spots[k + 1] = spots[k] - lack / 2, spots[k + 1] + lack / 2
        spots = [
            min(max(spot, k * step), most - (len(spots) - 1 - k) * step)
            for k, spot in enumerate(spots)
        ]
    return spots


def _unable(axes: Any, places: Any, bad: Any, hollow: Any, near: Any, looks: Sequence[Any]) -> None:
    """Say why curves stop: a band where none can run, crosses at the bottom where one cannot."""
    nowhere = bad.all(axis=0)
    cells, foot = (
        picture.edges(places, axes.get_xscale()),
        {"transform": axes.get_xaxis_transform()},
    )
    for k, run in enumerate(picture.stretches(nowhere)):
        label = "_" if k else picture.CANNOT
        ends = cells[run.start], cells[run.stop]
        axes.axvspan(*ends, zorder=0, label=label, **picture.INFEASIBLE)
        axes.set_xlim(
            ends[0] if run.start == 0 else None, ends[1] if run.stop == places.size else None
        )
    mark: dict[str, Any] = {"color": "black", "linestyle": "", "markersize": 4}
    crossed = bad & ~near & ~nowhere
    for k, look in enumerate(looks if crossed.any() else ()):
        height = np.full(crossed[k].sum(), 0.02 + 0.025 * (k % len(picture.MARKERS)))
        axes.plot(places[crossed[k]], height, **foot, **mark | look | {"marker": "x"})
    if crossed.any():
        axes.plot([], [], "x", label="this curve cannot run", **mark)
    if hollow.any():
        far = np.count_nonzero(hollow & ~near)
        label = "computed, but cannot run" + (f" ({far} far off)" if far else "")
        axes.plot([], [], "o", fillstyle="none", label=label, **mark)


def best_of(rows: Any, bad: Any, best: str, name: str) -> Any:
    """The lowest or highest feasible value at each point of curves, NaN if there is none."""
    able = np.where(bad | ~np.isfinite(rows), np.inf if best == "min" else -np.inf, rows)
    extremes = able.min(axis=0) if best == "min" else able.max(axis=0)
    extremes = np.where(np.isfinite(extremes), extremes, np.nan)
    if (extremes <= 0).any():
        raise InputError(f"{name} is not positive everywhere, and has no ratios; leave best out")
    return extremes


def _hidden(rows: Any, axes: Any) -> bool:
    """Whether curves coincide at most points, as drawn."""
    both = np.isfinite(rows).sum(axis=0) > 1
    if not both.any():
        return False
    low, high = axes.get_ylim()
    log = axes.get_yscale() == "log"
    shown, span = (np.log(rows), np.log(high / low)) if log else (rows, high - low)
    spread = np.nanmax(shown[:, both], axis=0) - np.nanmin(shown[:, both], axis=0)
    return bool(np.median(spread) < _HIDDEN * span and spread.max() > 0)


def _with_ends(
    cube: "xarray.Dataset", name: str, drawn_axes: Sequence[str]
) -> tuple["xarray.Dataset", list["xarray.DataArray"]]:
    """A cube as predicted, and the ends of a variable's 90 % interval; none if it has none.

    They are variables (`Sweep.prediction_interval`), or along an axis of the error from -1 to 1.
    """
    ends = [f"{name}_{side}" for side in ("low", "high")]
    if all(end in cube and END_OF in cube[end].attrs for end in ends) and (
        {*cube[ends[0]].dims} <= {*cube[name].dims}  # an axis of the interval alone is not drawn
    ):
        return cube, [cube[end] for end in ends]
    for error, _ in ERRORS.values():
        if error not in cube[name].dims or error in drawn_axes:
            continue
        places = cube[error].values
        if {-1.0, 0.0, 1.0} <= {*places.tolist()}:
            inside = cube[name].isel({error: abs(places) <= 1})
            bounds = [] if name in RATIOS_OF_PARTS else [inside.min(error), inside.max(error)]
            return cube.sel({error: 0.0}, drop=True), bounds
    return cube, []


def _bands(axes: Any, x: Any, low: Any, high: Any, smooth: bool) -> bool:
    """Draw intervals as bands of few curves, or as bars; return whether there are any."""
    uncertain = low < high
    if not uncertain.any():
        return False
    shades = picture.colours(len(low))
    low, high = np.where(uncertain, low, np.nan), np.where(uncertain, high, np.nan)
    shade_in_legend, label = shades[0] if len(shades) == 1 else "black", "90 % interval"
    if smooth and x.size > 1 and len(shades) <= MOST_BANDS:
        for k, shade in enumerate(shades):
            axes.fill_between(x, low[k], high[k], color=shade, alpha=0.2, linewidth=0)
        axes.fill_between([], [], [], color=shade_in_legend, alpha=0.2, linewidth=0, label=label)
        return True
    log = axes.get_xscale() == "log"
    places = np.log(x) if log else x
    step = _BAR_SPACING * (np.diff(places).min() if x.size > 1 else 1.0)
    for k, shade in enumerate(shades):  # side by side
        shifted = places + step * (k - (len(shades) - 1) / 2)
        shifted = np.exp(shifted) if log else shifted
        axes.vlines(shifted, low[k], high[k], color=shade, linewidth=1.2)
    axes.vlines([], [], [], color=shade_in_legend, linewidth=1.2, label=label)
    return True


def flags_of(variable: "xarray.DataArray") -> list[str]:
    """Meaning of each code of a flag, empty if none; an empty list for a number."""
    meanings = str(variable.attrs.get("flag_meanings", "")).split()
    codes = np.atleast_1d(variable.attrs.get("flag_values", range(len(meanings)))).tolist()
    meaning_by_code = dict(zip(codes, meanings, strict=True))
    return [
        meaning_by_code.get(code, "").replace("_", " ")
        for code in range(max(codes, default=-1) + 1)
    ]


def _map(
    figure: Any, axes: Any, cube: "xarray.Dataset", variable: "xarray.DataArray", x: str, y: str
) -> None:
    numbers, unit = picture.scaled(variable.transpose(y, x))
    bad = picture.blocked(cube, [y, x])
    points = (picture.positions(axes, variable[x], "x"), picture.positions(axes, variable[y], "y"))
    axes.set_ylabel(picture.heading(cube[y]))
    smooth = picture.is_number(cube[x]) and picture.is_number(cube[y])
    picture.count_infeasible(bad, "hatched")
    flags = flags_of(variable)
    if flags:
        codes = np.nan_to_num(numbers.values, nan=-1).astype(int)
        lines = []
        if smooth and CROSSING in cube and set(cube[CROSSING].dims) == {x, y}:
            ratio = np.ma.masked_array(cube[CROSSING].transpose(y, x).values, bad)
            lines = _even(axes, points, np.ma.masked_invalid(ratio), named=False)
        for line in lines:
            line.set_label("reliability =\ncommunication")
        shades, hatches = shades_of(flags, codes[(codes >= 0) & ~bad])
        regions(figure, axes, points, codes, bad, flags, shades, lines=lines, hatches=hatches)
        return
    valued = np.isfinite(numbers.values) & ~bad
    handles = _absent(axes, points, bad, valued)
    if handles:
        figure.legend(handles=handles, loc="outside lower right", fontsize=8, ncols=2)
    if not valued.any():
        return
    values = np.ma.masked_array(numbers.values.astype(float), ~valued)
    wide = picture.is_wide(values.min(), values.max())
    mesh = _cells(axes, points, values, cmap="viridis", norm="log" if wide else "linear")
    bar = figure.colorbar(mesh, ax=axes, label=picture.labelled(str(variable.name), unit))
    picture.plain(bar.ax.yaxis)
    if not smooth:
        return
    if str(variable.name).endswith("_ratio") and values.min() < 1 < values.max():
        _even(axes, points, values, named=True)
    elif min(values.shape) >= FEWEST and values.min() < values.max():
        levels = _levels(values, wide)
        inks = ["black" if mesh.norm(level) > 0.6 else "white" for level in levels]
        drawn = axes.contour(*points, values, levels=levels, colors=inks, linewidths=0.8)
        bar.add_lines(drawn)
        bar.set_ticks(levels)  # names contours without room for a label
        bar.ax.yaxis.set_ticks([], minor=True)
        figure.draw_without_rendering()  # needed for places in pixels
        axes.clabel(drawn, manual=_places(axes, drawn), fmt=picture.number, fontsize=8)


def shades_of(flags: Sequence[str], codes: Any) -> tuple[dict[int, Any], dict[int, str]]:
    """Colours of codes, and hatches of those that share a colour."""
    if len(flags) <= len(PARTS):
        return dict(enumerate(PARTS)), {}
    present = sorted({*np.asarray(codes).ravel().tolist()} - {FEASIBLE})
    several = [(hatch, shade) for hatch in _HATCHES for shade in REGIONS]
    given = dict(zip(present, several, strict=False))
    hatches = {code: hatch for code, (hatch, _) in given.items() if hatch}
    return {code: shade for code, (_, shade) in given.items()} | {FEASIBLE: PARTS[-1]}, hatches


def _cells(axes: Any, points: tuple[Any, Any], values: Any, **how: Any) -> Any:
    across = picture.edges(points[0], axes.get_xscale())
    up = picture.edges(points[1], axes.get_yscale())
    return axes.pcolormesh(across, up, values, rasterized=values.size > _RASTERED, **how)


def _absent(axes: Any, points: tuple[Any, Any], bad: Any, valued: Any) -> list[Any]:
    """Hatch infeasible cells, leave those without a value white; return legend entries for both."""
    from matplotlib import patches

    handles = []
    unknown = ~valued & ~bad
    if bad.any():
        axes.patch.set(**picture.INFEASIBLE)
        handles.append(picture.cannot_run())
    if unknown.any():
        handles.append(patches.Patch(facecolor="white", edgecolor="black", label="no value"))
    white = np.ma.masked_array(np.zeros(bad.shape), ~unknown)
    _cells(axes, points, white, cmap="gray_r", vmin=0, vmax=1)
    return handles


def _levels(values: Any, wide: bool) -> Any:
    """Round numbers for about eight contours, within the range."""
    from matplotlib import ticker

    low, high = float(values.min()), float(values.max())
    if wide:
        subs = (1, 2, 5) if high / low < 1e4 else (1,)
        levels, inside = ticker.LogLocator(subs=subs).tick_values(low, high), 1.0
    else:
        levels = ticker.MaxNLocator(10, steps=[1, 2, 5, 10]).tick_values(low, high)
        inside = 0.98  # no specks in the corners
    middle, half = (low + high) / 2, inside * (high - low) / 2
    return [level for level in levels if abs(level - middle) < half]


def _places(axes: Any, drawn: Any) -> list[Any]:
    """Positions for contour labels, clear of other lines, labels and the edges."""
    lines = [
        [
            _even_steps(axes.transData.transform(piece))
            for piece in path.to_polygons(closed_only=False)
        ]
        for path in drawn.get_paths()
    ]
    whole = [np.concatenate(pieces) if pieces else np.empty((0, 2)) for pieces in lines]
    box = axes.get_window_extent()
    chosen_places: list[Any] = []
    halves: list[float] = []
    for k, (level, pieces) in enumerate(zip(drawn.levels, lines, strict=True)):
        longest = max(pieces, key=len, default=np.empty((0, 2)))
        half = _LABEL[0] * len(picture.number(level)) / 2
        if len(longest) * _STEP < 3 * half:
            continue
        tries = np.linspace(0, len(longest) - 1, _TRIES).astype(int)[1:-1]
        candidates = longest[tries]
        others = np.concatenate([*whole[:k], *whole[k + 1 :], np.empty((0, 2))])
        room = np.minimum.reduce(
            [
                *(candidates[:, 0] - box.x0 - half, box.x1 - candidates[:, 0] - half),
                *(candidates[:, 1] - box.y0 - half, box.y1 - candidates[:, 1] - half),
                _nearest(candidates, others) - _LABEL[1],
                *(
                    np.hypot(*(candidates - place_before).T) - half - half_before - _LABEL[1]
                    for place_before, half_before in zip(chosen_places, halves, strict=True)
                ),
            ]
        )
        middle = np.abs(tries / len(longest) - 0.5)
        place = int(np.argmax(np.minimum(room, 2 * half) - half * middle))
        if room[place] > 0:
            chosen_places.append(candidates[place])
            halves.append(half)
    return list(axes.transData.inverted().transform(chosen_places)) if chosen_places else []


def _even_steps(line: Any) -> Any:
    """Points along a line, a few pixels apart."""
    along = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
    steps = np.arange(0.0, along[-1] + _STEP, _STEP).clip(max=along[-1])
    return np.stack([np.interp(steps, along, line[:, side]) for side in (0, 1)], axis=1)


def _nearest(points: Any, others: Any) -> Any:
    """The distance of each point to the nearest of `others`; infinite if there are none."""
    return np.array([np.hypot(*(others - point).T).min(initial=np.inf) for point in points], float)


def _even(axes: Any, points: tuple[Any, Any], values: Any, named: bool) -> list[Any]:
    """Draw the line where a ratio is 1, labelled if `named`; return its legend entry."""
    from matplotlib.lines import Line2D
    from matplotlib.patheffects import withStroke

    if min(values.shape) < 2 or not values.min() < 1 < values.max():
        return []
    rim = [withStroke(linewidth=3, foreground="white")]
    line = axes.contour(*points, values, levels=[1.0], colors="black", linewidths=1.2)
    line.set_path_effects(rim)
    for text in axes.clabel(line, fmt="1", fontsize=8) if named else []:
        text.set_path_effects(rim)
    return [Line2D([], [], color="black", linewidth=1.2)]


def regions(
    figure: Any,
    axes: Any,
    points: tuple[Any, Any],
    codes: Any,
    bad: Any,
    names: Sequence[str],
    palette: Mapping[int, Any],
    head: str | None = None,
    lines: Sequence[Any] = (),
    hatches: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Colour cells by code, hatch infeasible ones; the legend has the codes present and `lines`."""
    from matplotlib import collections, colors, patches

    valued = (codes >= 0) & ~bad
    present = [k for k in range(len(names)) if (codes[valued] == k).any()]
    handles = [
        patches.Patch(fc=palette[k], ec=ink(palette[k]), lw=0, hatch=hatches.get(k), label=names[k])
        for k in present
    ]
    handles += _absent(axes, points, bad, valued)
    picture.legend_right(figure, handles=[*handles, *lines], title=head)
    if present:
        cmap = colors.ListedColormap([palette.get(k, "black") for k in range(len(names))])
        shown = np.ma.masked_array(codes, ~valued)
        _cells(axes, points, shown, cmap=cmap, vmin=-0.5, vmax=len(names) - 0.5)
    areas = []
    for k in present:
        cells = valued & (codes == k)
        if k in hatches:
            boxes = _boxes(axes, points, cells, 1)
            how: Any = {"fc": "none", "ec": ink(palette[k]), "lw": 0, "hatch": hatches[k]}
            corners = [patches.Rectangle(b[:2], b[2] - b[0], b[3] - b[1]) for b in boxes]
            axes.add_collection(collections.PatchCollection(corners, **how), autolim=False)
        else:
            every = [
                box
                for power in range(len(codes).bit_length())
                for box in _boxes(axes, points, cells, len(codes) >> power or 1)
            ]
            areas.append((names[k].split("\n")[0], palette[k], every))
    label_areas(axes, areas)


def _boxes(axes: Any, points: tuple[Any, Any], cells: Any, height: int) -> list[Any]:
    """Boxes of cells, so many rows high, as left, low, right and high; the widest first."""
    across = picture.edges(points[0], axes.get_xscale())
    up = picture.edges(points[1], axes.get_yscale())
    runs = [
        (run.stop - run.start, run, low)
        for low in range(0, len(cells) - height + 1, -(-height // 4))
        for run in picture.stretches(cells[low : low + height].all(axis=0))
    ]
    runs.sort(key=lambda stretch: -stretch[0])
    return [(across[r.start], up[low], across[r.stop], up[low + height]) for _, r, low in runs]
