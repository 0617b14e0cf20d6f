"""Pictures of a cut cube that answer one question: losses, flips, roofline, Pareto front."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.analysis.pareto import SENSES, unbeaten
from fleetcube.grid.errors import InputError
from fleetcube.kernels.physics.roles import LOSSES
from fleetcube.tables.tables import scale
from fleetcube.tables.theme import GREY, LINES
from fleetcube.tables.theme import PARTS as SHADES

from . import picture
from .areas import label_areas
from .plot import plot

if TYPE_CHECKING:
    import xarray

WAITS = LOSSES[1:]  # without the GPUs' own inefficiency, the largest nearly everywhere
FLIPS = "largest_loss"
_SHARES = (*LOSSES, "reliability_overhead")  # each with its colour in the palette
ROOFLINE = ("arithmetic_intensity", "ridge_point", "peak_flops", "mfu")
NETWORK = "network_attainable_flops"
INTENSITY = "arithmetic intensity [FLOP/B]"
_LOST = "Where the wall time goes"
MOST_DOTS = 20_000  # points drawn behind a front
_BEST = {"min": "lowest", "max": "highest"}
REST = "#999999"
_DOT = 0.09  # inches between dots that would hide each other
# Labels and colours of the shares of the wall time, from the bottom: losses, then the remainder
_NAMES = [picture.words(name.removesuffix("_overhead")) for name in LOSSES]
PARTS = tuple(zip([*_NAMES, "model operations at peak"], SHADES, strict=True))


@picture.styled
def losses(cube: "xarray.Dataset", x: str, path: Path | None) -> Any:
    """Draw the shares of the wall time that each loss takes, stacked along an axis of a cut cube.
    The remainder is the model's operations at peak: MFU x goodput. job_time, if present, is drawn
    above; along n_gpus a dashed line shows ideal scaling. Infeasible points are grey."""
    picture.check_picture(path)
    drawn, shares, bad = _shares(cube, x)
    cube = picture.cut(cube, [x])
    top = "job_time" in drawn
    ratios = [2, 3] if top else [1]
    figure, rows = picture.new_figure(
        6.4 if top else 4.8, len(ratios), sharex=True, squeeze=False, height_ratios=ratios
    )
    panels = list(rows[:, 0])
    points = picture.positions(panels[-1], cube[x], "x")
    if top:
        _job_time(panels[0], cube, x, points, bad)
    handles, areas = _stacked(panels[-1], cube[x], points, shares, bad)
    panels[-1].set_xlabel(picture.heading(cube[x]))
    picture.add_title(figure, picture.title(cube, drawn, _LOST))
    figure.legend(handles=handles, loc="outside lower center", fontsize=8, ncols=3)
    label_areas(panels[-1], areas)
    return picture.saved(figure, path, cube)


def losses_boxes(cube: "xarray.Dataset", x: str) -> picture.Boxes:
    """The shares of the wall time along an axis, as `losses` stacks them."""
    drawn, shares, bad = _shares(cube, x)
    ends = _ends(shares)
    rows: list[dict[str, Any]] = []
    for k, label in enumerate(picture.point_labels(drawn[x])):
        column = {"at": label.replace("\n", " ")}
        if bad[k]:
            rows.append({**column, "part": picture.CANNOT, "from": 0.0, "until": 1.0})
            continue
        rows += [
            {**column, "part": name, "from": low, "until": high}
            for (name, _), (low, high) in zip(PARTS, itertools.pairwise(ends[:, k]), strict=True)
            if np.isfinite(high)
        ]
    heads = {"at": picture.heading(drawn[x]), "from": "share of the wall time"}
    shades = {**dict(PARTS), picture.CANNOT: GREY}
    return picture.Boxes(
        picture.title(cube, drawn, _LOST), rows, ("at",), ("from", "until"), heads, shades
    )


def _shares(cube: "xarray.Dataset", x: str) -> tuple["xarray.Dataset", Any, Any]:
    """The data of `losses` along an axis, the shares, and which points are infeasible."""
    picture.require_variables(cube, LOSSES)
    cube = picture.cut(cube, [x])
    drawn = cube[[*LOSSES, *(["job_time"] if "job_time" in cube else [])]]
    if x not in drawn.dims:
        dims = ", ".join(map(str, drawn.dims)) or "none left"
        raise InputError(f"{x!r} is not an axis of the losses; their axes: {dims}")
    picture.check_cut(drawn, [x])
    bad = picture.blocked(cube, [x])
    shares = np.stack([_along(cube[name], x, bad) for name in LOSSES])
    picture.count_infeasible(bad, "grey")
    if not np.isfinite(shares).all(axis=0).any():
        raise InputError(f"no point along {x} has all losses; cut the cube elsewhere")
    return drawn, shares, bad


def _ends(shares: Any) -> Any:
    """Lower ends of the stacked shares and of the remainder, and the top at 1."""
    ends = np.concatenate([np.zeros((1, shares.shape[1])), np.cumsum(shares, axis=0)])
    return np.concatenate([ends, np.where(np.isnan(ends[-1:]), np.nan, 1.0)])


def _stacked(axes: Any, x: "xarray.DataArray", points: Any, shares: Any, bad: Any) -> Any:
    """Draw areas or bars; return legend entries, and areas for `label_areas`."""
    from matplotlib import patches, ticker

    ends = _ends(shares)
    cells = picture.edges(points, axes.get_xscale())
    gapless = not bad.any() and points.size > 1  # areas from the first point to the last
    handles: list[Any] = []
    areas: list[Any] = []
    for low, high, (name, colour) in zip(ends, ends[1:], PARTS, strict=False):
        if picture.is_number(x):
            for stretch in picture.stretches(np.isfinite(high)):
                places, rows = points[stretch], np.stack([low, high])[:, stretch]
                if not gapless:  # up to the cell edges, to meet the grey of infeasible points
                    places = [cells[stretch.start], *places, cells[stretch.stop]]
                    rows = np.pad(rows, ((0, 0), (1, 1)), mode="edge")
                edge = {"edgecolor": "white", "linewidth": 0.6}  # where areas touch
                axes.fill_between(places, *rows, facecolor=colour, **edge)
        else:
            axes.bar(points, high - low, 0.8, low, color=colour)
        areas.append((name, colour, _boxes(points, low, high, picture.is_number(x))))
        handles.append(patches.Patch(color=colour, label=name))
    for k in np.flatnonzero(bad):
        axes.axvspan(cells[k], cells[k + 1], zorder=0, **picture.INFEASIBLE)
    if bad.any():
        handles.append(picture.cannot_run())
    axes.set_xlim(
        (points[0], points[-1]) if picture.is_number(x) and gapless else (cells[0], cells[-1])
    )
    axes.set_ylim(0, 1)
    axes.set_ylabel("share of the wall time")
    axes.yaxis.set_major_formatter(ticker.PercentFormatter(1, symbol=" %"))
    return handles, areas


def _boxes(points: Any, low: Any, high: Any, smooth: bool) -> list[Any]:
    """Boxes inside an area, the highest first: between the neighbours of a point, or its bar."""
    if smooth:
        sides = [slice(max(0, k - 1), k + 2) for k in range(points.size)]
        inside = [(points[s][0], low[s].max(), points[s][-1], high[s].min()) for s in sides]
    else:
        inside = [*zip(points - 0.4, low, points + 0.4, high, strict=True)]
    return sorted(inside, key=lambda box: box[1] - box[3])


def _job_time(axes: Any, cube: "xarray.Dataset", x: str, points: Any, bad: Any) -> None:
    numbers, unit = picture.scaled(cube["job_time"])
    times = _along(numbers, x, bad)
    drawn = "-" if picture.is_number(cube[x]) else "none"
    style = {"color": "black", "linestyle": drawn, "marker": "o", "markersize": 3, "clip_on": False}
    axes.plot(points, times, label="job time", **style)
    finite = np.flatnonzero(np.isfinite(times))
    if x == "n_gpus" and finite.size > 1:
        span = points[finite[0] : finite[-1] + 1]
        ideal = times[finite[0]] * span[0] / span
        axes.plot(span, ideal, "--", color=LINES[0], label="in proportion to 1 / GPUs")
        axes.legend(fontsize=8)
    if finite.size and picture.is_wide(times[finite].min(), times[finite].max()):
        axes.set_yscale("log")
    picture.plain(axes.yaxis)
    axes.set_ylabel(picture.labelled("job_time", unit))
    axes.grid(alpha=0.3)


def _along(variable: "xarray.DataArray", x: str, bad: Any) -> Any:
    """A variable along an axis, NaN where it is infeasible."""
    return np.where(bad, np.nan, variable.values if x in variable.dims else float(variable))


def flips(
    cube: "xarray.Dataset", x: str, y: str, path: Path | None, of: Sequence[str] = WAITS
) -> Any:
    """Draw which loss takes the largest share of the wall time, over two axes of a cut cube.

    `of` are two or more of the losses and reliability_overhead (the first wins ties); by default
    all but compute_inefficiency_overhead, the largest nearly everywhere. With
    reliability_to_communication_ratio, a line shows where both cost the same.
    """
    return plot(with_flips(cube, of), FLIPS, x, y, path)


def with_flips(cube: "xarray.Dataset", compared: Sequence[str] = WAITS) -> "xarray.Dataset":
    odd = [name for name in compared if name not in _SHARES]
    if odd or len(set(compared)) < 2:
        problem = f"{odd[0]!r} is not one of them" if odd else "one loss has no rival"
        raise InputError(f"{problem}; compare two or more of {', '.join(_SHARES)}")
    picture.require_variables(cube, compared)
    shares = cube[list(compared)].to_array("loss")
    values = shares.fillna(-np.inf).values  # argmax would choose NaN
    codes = np.array([_SHARES.index(name) for name in compared], np.int8)[values.argmax(axis=0)]
    names = [name.removesuffix("_overhead") for name in _SHARES]
    meaning = "Which loss is the largest, compute inefficiency left out"
    if set(compared) != set(WAITS):
        listed = ", ".join(picture.words(name.removesuffix("_overhead")) for name in compared)
        meaning = f"Which is the largest of {listed}"
    # -1, which is no code, where any of the losses is unknown
    flag = shares.isel(loss=0, drop=True).copy(data=np.where(np.isinf(values).any(0), -1, codes))
    flag.attrs = {"flag_meanings": " ".join(names), "long_name": meaning}
    return cube.assign({FLIPS: flag})


@picture.styled
def roofline(cube: "xarray.Dataset", path: Path | None, by: str | None = None) -> Any:
    """Draw the roofline of a cut cube's GPUs, with a dot for each point of an axis. Dots lie at the
    arithmetic intensity of the micro-batch and at MFU x peak, hollow if infeasible. With
    network_attainable_flops, triangles mark the ceiling set by the gradient exchange."""
    picture.check_picture(path)
    title_text, rows, labels, bad = rooflines(cube, by)
    figure, axes = picture.new_figure(4.8)
    factor, unit = scale("FLOP/s", rows["peak"])
    shades = picture.colours(len(labels))
    for place, several, (across, heights) in roofs(rows):  # in the colours of their points
        shade = shades[place] if several else "black"
        axes.plot(across, heights / factor, color=shade, linewidth=1.2, label="_")
    dots: list[Any] = []
    for k, (label, shade) in enumerate(zip(labels, shades, strict=True)):
        mark = {"edgecolor": shade, "s": 36, "zorder": 3}
        face = "none" if bad[k] else shade
        position = rows["across"][k], rows["reached"][k] / factor
        dots.append(axes.scatter(*position, facecolor=face, label=label or "reached", **mark))
    triangle: Any = {"marker": "v", "facecolor": "none", "s": 36, "zorder": 3}
    ceilings = rows.get("network", rows["reached"][:0]) / factor
    for across, ceiling, shade in zip(rows["across"], ceilings, shades, strict=False):
        dots.append(axes.scatter(across, ceiling, edgecolor=shade, label="_", **triangle))
    if ceilings.size:
        axes.scatter([], [], edgecolor="black", label="network allows", **triangle)
    if bad.any():
        axes.scatter([], [], color="none", edgecolor="black", label=picture.CANNOT)
    axes.set(xscale="log", yscale="log")
    # the foot of the roof would leave no room for the dots
    axes.set_ylim(bottom=min([np.nanmin(rows["reached"]) / factor, *ceilings]) / 2)
    for line in (axes.xaxis, axes.yaxis):
        picture.plain(line)
    axes.set_xlabel(INTENSITY)
    axes.set_ylabel(f"rate of one GPU [{unit}]")
    picture.add_title(figure, title_text)
    axes.grid(alpha=0.3)
    picture.legend_right(figure, title=None if by is None else picture.heading(cube[by]))
    if _spread(figure, axes, dots):
        axes.set_xlabel(f"{INTENSITY}; dots side by side have that of the leftmost")
    return picture.saved(figure, path, cube)


def _spread(figure: Any, axes: Any, dots: Sequence[Any]) -> bool:
    """Move dots that would hide each other to the right; return whether there are any."""
    from matplotlib.transforms import ScaledTranslation

    figure.draw_without_rendering()  # needed for places in pixels
    size = _DOT * figure.dpi
    placed: list[Any] = []
    moved = False
    for dot in dots:
        start = position = axes.transData.transform(dot.get_offsets().data[0])
        while any(np.abs(position - other).max() < 0.9 * size for other in placed):
            position = position + np.array((size, 0.0))
        placed.append(position)
        if right := (position - start)[0] / figure.dpi:
            offset = ScaledTranslation(right, 0, figure.dpi_scale_trans)
            dot.set_offset_transform(axes.transData + offset)
            moved = True
    return moved


def rooflines(cube: "xarray.Dataset", by: str | None) -> tuple[str, dict[str, Any], list[str], Any]:
    """Data of a roofline: title, numbers and a label of each point, and which cannot run."""
    picture.require_variables(cube, ROOFLINE)
    names = [*ROOFLINE, *([NETWORK] if NETWORK in cube else [])]
    cube = picture.cut(cube, [by])
    drawn = cube[names]
    dims = [] if by is None else [by]
    if by is not None and by not in drawn.dims:
        choices = ", ".join(map(str, drawn.dims)) or "none left"
        raise InputError(f"{by!r} is not an axis of the roofline's numbers; their axes: {choices}")
    picture.check_cut(drawn, dims)
    flat: Any = drawn.expand_dims("point") if by is None else drawn.broadcast_like(drawn[by])
    values = [flat[name].values.astype(float).reshape(-1) for name in names]
    across, ridge, peak, share, *ceiling = values
    rows = {"across": across, "reached": share * peak, "ridge": ridge, "peak": peak}
    rows |= {"network": ceiling[0]} if ceiling else {}
    labels = [""] if by is None else picture.point_labels(cube[by])
    bad = picture.blocked(cube, dims).reshape(-1)
    picture.count_infeasible(bad, "hollow")
    return (
        picture.title(cube, drawn, "Roofline, and what is reached: MFU x peak"),
        rows,
        labels,
        bad,
    )


def roofs(rows: Mapping[str, Any]) -> Iterator[tuple[int, bool, Any]]:
    """Each distinct roof once: memory up to the ridge, arithmetic beyond it. Yields its first
    point, whether there are several roofs, and its line: intensities and rates."""
    ridges = rows["ridge"]
    low = min(rows["across"].min(), ridges.min()) / 16
    high = max(rows["across"].max(), ridges.max()) * 4
    pairs = list(zip(ridges.tolist(), rows["peak"].tolist(), strict=True))
    for ridge, peak in dict.fromkeys(pairs):
        line = np.array([[low, ridge, high], [peak * low / ridge, peak, peak]])
        yield pairs.index((ridge, peak)), len(set(pairs)) > 1, line


@picture.styled
def pareto(
    cube: "xarray.Dataset",
    x: str,
    y: str,
    path: Path | None,
    best: Sequence[str] = ("min", "min"),
    by: str | None = None,
) -> Any:
    """Draw two outputs of all feasible points against each other, and their Pareto front. A point
    is on the front unless another is at least as good in both ("min" or "max") and better in one.
    Front points are coloured by the axis `by`."""
    picture.check_picture(path)
    points = front(cube, x, y, best, by)
    figure, axes = picture.new_figure(4.8)
    others = points.others[:, :: 1 + points.others.shape[1] // MOST_DOTS]
    few = others.shape[1] <= 1000
    how: dict[str, Any] = {"s": 14, "alpha": 0.9} if few else {"s": 6, "alpha": 0.4}
    axes.scatter(*others, color=REST, linewidths=0, rasterized=not few, **how)
    axes.plot(*points.edge, color="black", linewidth=1, zorder=2, drawstyle="steps-post")
    if by is None:
        axes.scatter(*points.edge, s=24, color=LINES[3], zorder=3)
    else:
        for name, shade in zip(points.names, picture.colours(len(points.names)), strict=True):
            chosen = [label == name for label in points.labels]
            if any(chosen):
                axes.scatter(*points.edge[:, chosen], s=24, color=shade, label=name, zorder=3)
    for side, wide, head in zip("xy", points.wide, points.heads, strict=True):
        if wide:
            getattr(axes, f"set_{side}scale")("log")
        picture.plain(getattr(axes, f"{side}axis"))
        getattr(axes, f"set_{side}label")(head)
    picture.add_title(figure, points.title)
    axes.grid(alpha=0.3)
    if by is not None:
        picture.legend_right(figure, title=picture.heading(cube[by]))
    return picture.saved(figure, path, cube)


@dataclass(frozen=True)
class Front:
    """Two outputs of all feasible points, and their front, in the units of the headings."""

    title: str
    heads: tuple[str, str]
    others: Any  # both outputs of every point
    edge: Any  # both outputs of the front, from one end to the other
    labels: list[str]  # of the front, by the axis that colours it
    names: list[str]  # all labels of that axis
    wide: list[bool]  # whether each spans too much for a linear scale


def front(
    cube: "xarray.Dataset",
    x: str,
    y: str,
    best: Sequence[str] = ("min", "min"),
    by: str | None = None,
) -> Front:
    if x == y:
        raise InputError(f"x and y are both {x!r}; choose two outputs")
    if isinstance(best, str) or len(best) != 2 or not set(best) <= set(SENSES):
        raise InputError(f"best = {best!r}: give 'min' or 'max' for each of {x}, {y}")
    picture.require_variables(cube, [x, y])
    drawn = cube[[x, y]]
    dims = [str(dim) for dim in drawn.dims]
    if by is not None and by not in [*dims, *cube.coords]:
        raise InputError(f"{by!r} is not an axis of {x} and {y}; their axes: {', '.join(dims)}")
    across, across_unit = picture.scaled(cube[x])
    up, up_unit = picture.scaled(cube[y])
    shape = drawn.to_array().transpose("variable", *dims)
    bad = picture.blocked(cube, dims).reshape(-1)
    picture.count_infeasible(bad, "left out")
    ok = ~bad & np.isfinite(shape.values.reshape(2, -1)).all(axis=0)
    places = np.flatnonzero(ok)
    if not places.size:
        raise InputError(f"no point has both {x} and {y}; cut the cube elsewhere")
    template = shape.isel(variable=0, drop=True)
    both = np.stack(
        [part.broadcast_like(template).transpose(*dims).values.reshape(-1) for part in (across, up)]
    )
    signs = np.array([[1.0 if sense == "min" else -1.0] for sense in best])
    _, picks, edge = unbeaten(np.zeros(places.size, np.int64), places, signs * both[:, places])
    sides = [
        f"{_BEST[sense]} {picture.words(name)}" for sense, name in zip(best, (x, y), strict=True)
    ]
    summary = f"The {sides[0]}, the {sides[1]}: {len(picks):,} of {places.size:,} points are best"
    labels, names = [""] * len(picks), [""]
    if by is not None:
        spread = cube[by].broadcast_like(template).transpose(*template.dims).values.reshape(-1)
        texts = dict(zip(cube[by].values.tolist(), picture.point_labels(cube[by]), strict=True))
        labels, names = [texts[value] for value in spread[picks].tolist()], [*texts.values()]
    return Front(
        picture.title(cube, drawn, summary),
        (picture.labelled(x, across_unit), picture.labelled(y, up_unit)),
        both[:, places],
        signs * edge,
        labels,
        names,
        [picture.is_wide(side.min(), side.max()) for side in both[:, places]],
    )
