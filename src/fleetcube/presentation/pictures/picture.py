"""Shared parts of all pictures: files, style, colours, words and ticks."""

import contextlib
import functools
import html
import io
import itertools
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from fleetcube.analysis.layouts import SHORT
from fleetcube.analysis.layouts import text as layout_text
from fleetcube.grid.errors import InputError, check_path, imported
from fleetcube.grid.result import along, called
from fleetcube.grid.spec.graphs import graph_at
from fleetcube.grid.spec.values import is_known
from fleetcube.kernels.calculus.phased_formulas import phase_of, without_phase
from fleetcube.kernels.graph.roles import REASON
from fleetcube.tables.tables import scale
from fleetcube.tables.theme import GREY, LINES

if TYPE_CHECKING:
    import xarray

ENDINGS = (".png", ".pdf", ".svg")
WIDTH = 7.2  # inches: two columns of a paper
DPI = 150
_SIZES = (2, 40)  # min and max, inches
_DPIS = (30, 1200)
_MOST_PIXELS = 100_000_000

MARKERS = "osD^vP"
CANNOT = "cannot run"
INFEASIBLE: dict[str, Any] = {
    "facecolor": GREY,
    "edgecolor": "white",
    "hatch": "////",
    "linewidth": 0,
}

# Regardless of matplotlibrc: text stays text, and a redrawn picture has the same bytes
_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "fleetcube", "pdf.fonttype": 42}
_UNDATED: dict[str, dict[str, None]] = {
    ".png": {},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}
_UPPER = (
    *("gpu", "nic", "psu", "mttf", "mtbf", "mfu", "hfu", "hbm", "kv", "ffn", "pue", "tdp"),
    *("usl", "ettr", "fsdp", "bf16", "fp16", "fp8", "fp4"),
)
_SPELLED = {name: name.upper() for name in _UPPER}
_SPELLED |= {"gpus": "GPUs", "nics": "NICs", "psus": "PSUs", "nvme": "NVMe", "flops": "FLOPs"}
_MOST_TICKS = 12
_TICKED = 0.07  # least distance of ticks at points, as a share of the axis
_NAMED = ("model", "node", "gpu", "fabric", "software")
_ROUND = [1, 2, 5, 10]  # steps between ticks
_ENOUGH = 3  # ticks at 1, 2 and 5, otherwise at even steps
_GAP = 4  # least pixels between labels
_PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))


@dataclass
class Look:
    """A picture's first line, size in inches and pixels per inch; its remarks and advice."""

    title: str | None = None
    size: tuple[float, float] | None = None
    dpi: int = DPI
    remarks: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


_LOOK: ContextVar[Look | None] = ContextVar("look", default=None)


@contextlib.contextmanager
def picture_options(
    title: str | None = None, size: str | Sequence[float] | None = None, dpi: int = DPI
) -> Iterator[Look]:
    """Draw pictures with a title, a size ("8x5" or two numbers, inches) and pixels per inch."""
    inches = None if size is None else _inches(size)
    if isinstance(dpi, bool) or not isinstance(dpi, int) or not _DPIS[0] <= dpi <= _DPIS[1]:
        raise InputError(f"dpi = {dpi}: give a whole number from {_DPIS[0]} to {_DPIS[1]:,}")
    across, up = inches or (WIDTH, WIDTH)
    if across * dpi * up * dpi > _MOST_PIXELS:
        raise InputError(
            f"{across:g} x {up:g} inches at {dpi} dpi are {across * dpi * up * dpi / 1e6:,.0f} "
            f"million pixels, more than {_MOST_PIXELS // 1_000_000}; give a smaller size or dpi"
        )
    token = _LOOK.set(chosen := Look(title, inches, dpi))
    try:
        yield chosen
    finally:
        _LOOK.reset(token)


def _inches(size: str | Sequence[float]) -> tuple[float, float]:
    parts = size.lower().split("x") if isinstance(size, str) else size
    with contextlib.suppress(TypeError, ValueError):
        across, up = (float(part) for part in parts)
        if all(_SIZES[0] <= side <= _SIZES[1] for side in (across, up)):
            return across, up
    raise InputError(
        f"size = {size!r}: give inches across and up, such as 8x5, each from {_SIZES[0]} to "
        f"{_SIZES[1]}"
    )


def look() -> Look:
    return _LOOK.get() or Look()


@dataclass(frozen=True)
class Boxes:
    """A picture made of boxes, as text and numbers: one row per box, and the specification's needs.
    `across` and `up` name a column of words, or two of numbers: where boxes begin and end. `heads`
    are column titles, `shades` the colours of the boxes' `part` column."""

    title: str
    rows: list[dict[str, Any]]
    across: tuple[str, ...]
    up: tuple[str, ...]
    heads: dict[str, str]
    shades: dict[str, str]


def check_picture(path: Path | None) -> None:
    """Refuse a file that a picture cannot be written to, and a missing matplotlib."""
    if path is not None:
        check_file(path, ENDINGS)
    imported("matplotlib")


def check_file(path: Path, endings: Sequence[str]) -> None:
    """Refuse a file with another ending, or one that cannot be created."""
    if path.suffix not in endings:
        raise InputError(f"{str(path)!r} is not one of {', '.join(endings)}; change its ending")
    check_path(path)
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {str(path.absolute().parent)!r}; make it first")
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; choose another name")


_Arguments = ParamSpec("_Arguments")


def styled(draw: Callable[_Arguments, Any]) -> Callable[_Arguments, Any]:
    """Draw in the common style, without changing the caller's settings."""

    @functools.wraps(draw)
    def drawn(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> Any:
        options = picture_options() if _LOOK.get() is None else contextlib.nullcontext()
        with options, imported("matplotlib.style").context(["default", _STYLE]):
            return draw(*args, **kwargs)

    return drawn


def new_figure(height: float, rows: int = 1, columns: int = 1, **how: Any) -> tuple[Any, Any]:
    """A figure that needs no screen, as wide as a page, and its panels as from `subplots`."""
    from .figure import Picture

    width = how.pop("width", WIDTH)
    # not pyplot, which keeps every figure and may need a screen
    figure = Picture(figsize=look().size or (width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **how)


def labels_of(scenario: Mapping[str, Any]) -> list[str]:
    """Labels in a scenario: its model, machines, fabric and software."""
    given = [str(scenario[kind]) for kind in _NAMED if isinstance(scenario.get(kind), str)]
    return ["own model" if label.startswith("{") else label[-40:] for label in given]


def caption(cube: Any) -> str:
    """Caption of a cube or a point of it: labels, degrees of parallelism, and the release; no
    date, so that the same cube gives the same bytes."""
    scenario = json.loads(cube.attrs.get("fleetcube_spec", "{}")).get("scenario", {})
    if scenario:
        scenario |= {str(name): v.item() for name, v in cube.coords.items() if v.ndim == 0}
    labels = labels_of(scenario)
    degrees = {n: scenario[n] for n in SHORT if isinstance(scenario.get(n), int | float)}
    words = [*labels, *filter(None, [layout_text(degrees)])]
    version = called(cube.attrs)["fleetcube_version"] if words else ""
    return ", ".join([*words, f"fleetcube {version}"]) if words else ""


def saved(figure: Any, path: Path | None, cube: Any = None) -> Any:
    """Return the figure with the caption of its cube, written to `path` if given; overlapping
    tick labels are rotated."""
    if cube is not None and (words := caption(cube)):
        small: dict[str, Any] = {"fontsize": 7, "color": "0.3", "parse_math": False}
        wrapped = "\n".join(textwrap.wrap(words, 2 * _across()))
        if figure.legends and figure.axes[-1].get_xlabel():  # a legend may be below the panels
            last = figure.axes[-1]
            small |= {"xytext": (0, -2), "textcoords": "offset points", "ha": "center", "va": "top"}
            for text, across in ((" \n" * wrapped.count("\n") + " ", last), (wrapped, figure)):
                spot = (across.bbox if across is figure else last.xaxis.label, last.xaxis.label)
                last.annotate(text, (0.5, 0), xycoords=spot, **small).set_in_layout(across is last)
        else:
            figure.supxlabel(wrapped, **small)
    figure.draw_without_rendering()  # labels have no extents before this
    for axes in figure.axes:
        low, high = sorted(axes.get_xlim())
        labels = [text for text in axes.get_xticklabels() if low <= text.get_position()[0] <= high]
        boxes = [text.get_window_extent() for text in labels if text.get_text()]
        if any(left.x1 + _GAP > right.x0 for left, right in itertools.pairwise(boxes)):
            for text in axes.get_xticklabels():
                text.set(rotation=25, ha="right", rotation_mode="anchor")
    if path is not None:
        _write(figure, path)
    return figure


def _write(figure: Any, path: Path) -> None:
    """Write the figure with its title and, for screen readers, a description in words."""
    title = figure.get_suptitle().replace("\n", ", ").replace("\N{NO-BREAK SPACE}", " ")
    metadata: dict[str, str | None] = {"Title": title, **_UNDATED[path.suffix]}
    dpi = look().dpi
    if path.suffix == ".png":
        metadata["Description"] = described(figure)
    if path.suffix != ".svg":
        figure.savefig(path, dpi=dpi, metadata=metadata)
        return
    text = io.StringIO()
    figure.savefig(text, format="svg", dpi=dpi, metadata=metadata)
    named, about = "</title>", f"<desc>{html.escape(described(figure))}</desc>"
    written = text.getvalue().replace("<svg ", '<svg role="img" ', 1)
    path.write_text(written.replace(named, f"{named}\n {about}", 1), encoding="utf-8")


def described(figure: Any) -> str:
    """Describe a picture in words: its axes, their ranges and the entries of its legend."""
    parts = []
    for axes in figure.axes:
        for side, line in (("across", axes.xaxis), ("up", axes.yaxis)):
            name = line.get_label_text()
            low, high = sorted(line.get_view_interval())
            ticks = zip(line.get_ticklocs(), line.get_majorticklabels(), strict=False)
            shown = [text.get_text() for position, text in ticks if low <= position <= high]
            if name and shown:
                span = f", {shown[0]} to {shown[-1]}" if len(shown) > 1 else f", {shown[0]}"
                parts.append(f"{side}: {name}{span}")
    for legend in [*figure.legends, *(a.get_legend() for a in figure.axes if a.get_legend())]:
        head = legend.get_title().get_text()
        names = [text.get_text() for text in legend.get_texts()]
        parts.append(f"{head or 'shown'}: {', '.join(names)}")
    for axes in figure.axes:  # names at the ends of curves
        names = [text.get_text() for text in axes.texts if text.get_label()]
        parts += [f"{axes.texts[0].get_label()[1:]}: {', '.join(names)}"] if names else []
    parts += look().remarks
    return " ".join("; ".join(parts).replace("\N{NO-BREAK SPACE}", " ").split())


def require_variables(cube: "xarray.Dataset", names: Sequence[str]) -> None:
    """Refuse a cube that lacks variables, naming the outputs to add to its spec."""
    missing = [name for name in names if name not in cube.data_vars]
    if missing:
        listed = ", ".join(f'"{name}"' for name in missing)
        raise InputError(
            f"the cube has no {', '.join(missing)}; add to the outputs of its spec: {listed}"
        )


def cut(cube: "xarray.Dataset", keep: Sequence[str | None]) -> "xarray.Dataset":
    """A cube without its one-point axes, except those in `kept`."""
    return cube.squeeze([dim for dim, size in cube.sizes.items() if size == 1 and dim not in keep])


def check_cut(
    drawn: "xarray.Dataset | xarray.DataArray", keep: Sequence[str], spare: int = 0
) -> list[str]:
    """Axes not in `kept`; refuse more than `spare` of them."""
    rest = [str(dim) for dim in drawn.dims if dim not in keep]
    if len(rest) > spare:
        name = f"{getattr(drawn, 'name', None) or 'the cube'}"
        raise InputError(f"{name} still varies over {', '.join(rest)}; cut them with axis=value")
    return rest


def blocked(cube: "xarray.Dataset", dims: Sequence[str]) -> Any:
    """Which points are infeasible, over `dims`; none if the reason varies over other axes."""
    sizes = [cube.sizes[dim] for dim in dims]
    if REASON not in cube.coords or not set(cube[REASON].dims) <= set(dims):
        return np.zeros(sizes, bool)
    return np.broadcast_to(along(cube[REASON], dims), sizes) != 0


def count_infeasible(bad: Any, how: str) -> None:
    """Remark how many of the points drawn are infeasible, and how the picture shows them."""
    if np.any(bad):
        look().remarks.append(
            f"infeasible: {np.count_nonzero(bad):,} of {np.size(bad):,} points, {how}"
        )


def is_number(axis: "xarray.DataArray") -> bool:
    return axis.dtype.kind in "iuf"


def words(name: str) -> str:
    """A name as shown in a picture: n_gpus is GPUs, n_gpus__ramp is GPUs in ramp."""
    parts = without_phase(name).removeprefix("n_").split("_")
    text = " ".join(_SPELLED.get(part, part) for part in parts)
    phase = phase_of(name).replace("_", " ")
    return f"{text} in {phase}" if phase else text


def number(value: float) -> str:
    """A number as shown by ticks and labels: 4,096, 0.05, 15 T, 1e-06."""
    for size, prefix in _PREFIXES:
        if abs(value) >= size:
            return f"{value / size:,.6g} {prefix}"
    return f"{value:,.10g}"


def short(value: Any) -> str:
    """An axis label, broken into lines if long."""
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    text = number(value) if isinstance(value, float) else str(value)
    return "\n".join(textwrap.wrap(text, 20)) or text


def point_labels(coordinate: "xarray.DataArray") -> list[str]:
    """The points of an axis as labels, in the unit of its heading."""
    if not is_number(coordinate):
        return [short(value) for value in coordinate.values]
    factor, _ = scale(_unit(coordinate), coordinate.values, str(coordinate.name))
    values = [value / factor for value in coordinate.values.tolist()]
    few = [number(v if float(v).is_integer() else float(f"{v:.5g}")) for v in values]
    return few if len({*few}) == len({*values}) else [f"{v:,.15g}" for v in values]


def labelled(name: str, unit: str) -> str:
    return f"{words(name)} [{unit}]" if unit else words(name)


def heading(coordinate: "xarray.DataArray") -> str:
    if not is_number(coordinate):
        return words(str(coordinate.name))
    _, unit = scale(_unit(coordinate), coordinate.values, str(coordinate.name))
    return labelled(str(coordinate.name), unit)


def scaled(variable: "xarray.DataArray") -> tuple["xarray.DataArray", str]:
    """A variable in a convenient unit, and that unit."""
    factor, unit = scale(_unit(variable), variable.values, str(variable.name))
    return (variable / factor if factor != 1 else variable).rename(variable.name), unit


def _unit(variable: "xarray.DataArray") -> str:
    return str(variable.attrs.get("units", "1"))


def lines(parts: Sequence[str]) -> list[str]:
    """Join parts by commas, in lines that fit above a picture."""
    unbroken = [part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts]
    return textwrap.wrap(", ".join(unbroken), _across(), break_on_hyphens=False)


def _across() -> int:
    """Characters of a title that fit across a picture."""
    size = look().size
    return round(88 * (size[0] if size else WIDTH) / WIDTH)


def title(
    cube: "xarray.Dataset", drawn: "xarray.Dataset | xarray.DataArray", meaning: str = ""
) -> str:
    """The subject (by default the variable's meaning) and the point where other axes were cut."""
    fixed, graph = [], graph_at(cube.attrs)
    for key, coordinate in drawn.coords.items():
        name = str(key)
        is_shown = is_known(graph, name) or not is_number(coordinate)
        if coordinate.ndim == 0 and is_shown and name in _axes_of(cube):
            unit = ""
            if is_number(coordinate):
                _, unit = scale(_unit(coordinate), coordinate.values, name)
            (value,) = point_labels(coordinate.expand_dims("point"))
            fixed.append(f"{words(name)} {value} {unit}".strip().replace("\n", ""))
    first = meaning or str(drawn.attrs.get("long_name", "")).split(":")[0].split(";")[0]
    return "\n".join([first, *lines(fixed)])


def _axes_of(cube: "xarray.Dataset") -> list[str]:
    import json

    try:
        return list(json.loads(cube.attrs.get("fleetcube_spec", "{}")).get("axes", {}))
    except ValueError:
        return []


def colours(count: int) -> list[Any]:
    """Colours for lines and dots; beyond six, a dark-to-light scale."""
    if count <= len(LINES):
        return list(LINES[:count])
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0, 0.92, count)))


def measured(coordinate: "xarray.DataArray") -> tuple[Any, bool]:
    """The numbers of an axis in the unit of its heading, and whether it is logarithmic."""
    values = coordinate.values
    factor, _ = scale(_unit(coordinate), values, str(coordinate.name))
    return values / factor, bool(values.min() > 0 and values.max() / values.min() >= 16)


def positions(axes: Any, coordinate: "xarray.DataArray", side: str) -> Any:
    """Positions of an axis' points: numbers on a linear or log scale, labels evenly spaced. Ticks
    are at the points if few, round and well separated, otherwise at round numbers."""
    values = coordinate.values
    line = getattr(axes, f"{side}axis")
    if not is_number(coordinate):
        line.set_ticks(range(len(values)), [short(v) for v in values])
        return np.arange(len(values))
    points, log = measured(coordinate)
    if log:
        getattr(axes, f"set_{side}scale")("log")
    plain(line, (points.min(), points.max()))
    if _few(np.log(points) if log else points, points):
        line.set_ticks(points)
        line.set_ticks([], minor=True)
    return points


def _few(places: Any, points: Any) -> bool:
    """Whether points are few, separated and round enough for a tick at each."""
    if points.size > _MOST_TICKS:
        return False
    steps = np.diff(np.sort(places))
    are_legible = steps.size == 0 or steps.min() > _TICKED * (places.max() - places.min())
    return bool(are_legible and all(map(_is_round, points.tolist())) and np.abs(points).max() < 1e6)


def _is_round(value: float) -> bool:
    """Whether a number has at most two digits before its zeros, or so has its odd part."""
    odd = int(value) // (int(value) & -int(value) or 1)
    near = np.isclose(value, float(f"{value:.2g}"), 1e-9, 0)
    return bool(near or (value.is_integer() and abs(odd) < 100))


def plain(line: Any, ends: tuple[float, float] | None = None) -> None:
    """Write ticks as plain numbers, at round ones; on a log scale at 1, 2 and 5 if enough fit."""
    from matplotlib import ticker

    even = ticker.MaxNLocator("auto", steps=_ROUND)
    if line.get_scale() == "log":
        low, high = ends or sorted(line.get_view_interval())
        subs = (1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)
        marks = np.outer(10.0 ** np.arange(np.floor(np.log10(low)), np.log10(high) + 1), subs)
        few = np.count_nonzero((low <= marks) & (marks <= high)) < _ENOUGH
        line.set_major_locator(even if few else ticker.LogLocator(subs=subs))
        line.set_minor_formatter(ticker.NullFormatter())
    else:
        line.set_major_locator(even)
    line.set_major_formatter(lambda value, _: number(value))


def edges(points: Any, axis_scale: str) -> Any:
    """Edges of the cells around points, halfway between them on the axis' scale."""
    mids = np.log(points) if axis_scale == "log" else np.asarray(points, dtype=float)
    steps = np.diff(mids) if len(mids) > 1 else np.ones(1)
    edges = np.concatenate([mids[:1] - steps[:1] / 2, mids[:-1] + steps[: len(mids) - 1] / 2])
    edges = np.append(edges, mids[-1] + steps[-1] / 2)
    return np.exp(edges) if axis_scale == "log" else edges


def stretches(mask: Any) -> list[slice]:
    """Runs of neighbouring known points."""
    turns = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]])))
    return [slice(start, stop) for start, stop in turns.reshape(-1, 2).tolist()]


def is_wide(low: float, high: float) -> bool:
    """Whether values span more than a factor of 10, and so need a log scale."""
    return bool(low > 0 and np.isfinite(high) and high > 10 * low)


def cannot_run() -> Any:
    """The legend's entry of points that cannot run."""
    from matplotlib.patches import Patch

    return Patch(label=CANNOT, **INFEASIBLE)


def add_title(figure: Any, text: str) -> None:
    """Put a title above a picture; the first line may be the user's."""
    first, *rest = text.split("\n")
    given = look().title
    first_line = first if given is None else given
    wrapped = [part for line in first_line.splitlines() for part in textwrap.wrap(line, _across())]
    # not math text: prices have dollar signs
    figure.suptitle("\n".join([*wrapped, *rest]), fontsize=10, parse_math=False)


def legend_right(figure: Any, *args: Any, **kwargs: Any) -> None:
    """Put a legend to the right of a picture, below its title."""
    figure.legend(*args, loc="outside right center", fontsize=8, **kwargs)
