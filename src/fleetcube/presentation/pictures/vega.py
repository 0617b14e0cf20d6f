"""Curves, maps and boxes as Vega-Lite specifications with their data, for drawing elsewhere.

They need no matplotlib, and name their Vega-Lite version.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.analysis.pareto import SENSES
from fleetcube.grid.errors import InputError
from fleetcube.tables.tables import finite, scale
from fleetcube.tables.theme import GREY, LINES

from . import picture
from .kinds import INTENSITY, REST, front, rooflines, roofs
from .plot import FAR, best_of, chosen, flags_of, shades_of

if TYPE_CHECKING:
    import xarray

SPEC = ".json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
MOST = 20_000  # points in one file
_WIDTH, _HEIGHT, _INCH = 560, 360, 100  # pixels
_STATE = "can_run"
_COLUMNS = (_STATE, "low", "high", "from", "to")  # suffixes of column names


def check_drawn(path: Path) -> None:
    """Refuse a file that neither a specification nor a picture can be written to."""
    if path.suffix == SPEC:
        picture.check_file(path, (SPEC,))
    else:
        picture.check_picture(path)


def write_spec(spec: dict[str, Any], path: Path) -> None:
    text = json.dumps(finite(spec), indent=1, allow_nan=False)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        path.unlink(missing_ok=True)  # leave no partial file
        raise InputError(f"cannot write {str(path)!r} ({error.strerror})") from None


def vega_lite(
    cube: "xarray.Dataset", name: str, x: str, y: str | None = None, best: str | None = None
) -> dict[str, Any]:
    """The curves or map that `plot` draws, as a Vega-Lite specification. Data are in the units of
    the headings; infeasible points are grey or hollow and labelled so."""
    if best is not None and (best not in SENSES or y is not None):
        raise InputError(f"best = {best!r}: give 'min' or 'max', for curves")
    cube, variable, ends, family = chosen(cube, name, x, y)
    if variable.size > MOST:
        raise InputError(
            f"{name} has {variable.size:,} points there, more than the {MOST:,} of a spec; cut axes"
        )
    numbers, unit = picture.scaled(variable)
    dims = [dim for dim in (y or family, x) if dim]
    own_columns = {_STATE, *(f"{field}_{end}" for field in (name, *dims) for end in _COLUMNS)}
    if clash := own_columns.intersection(dims):
        raise InputError(
            f"the axis {min(clash)!r} has the name of a column that the specification makes; "
            "give it another in the spec"
        )
    bad = picture.blocked(cube, dims)
    values = numbers.transpose(*dims).values.astype(float)
    heads = {name: picture.labelled(name, unit)}
    if best:
        if not family or flags_of(variable):
            raise InputError(f"best = {best!r} needs curves of numbers; leave one more axis uncut")
        values, ends = values / best_of(values, bad, best, name), []
        heads[name] = f"{picture.words(name)} / {'lowest' if best == 'min' else 'highest'}"
    columns: dict[str, Any] = {name: values, _STATE: ~bad}
    factor, _ = scale(str(variable.attrs.get("units", "1")), variable.values, name)
    for side, end in zip(("low", "high"), ends, strict=False):
        columns[f"{name}_{side}"] = end.transpose(*dims).values / factor
    feasible = values[np.isfinite(values) & ~bad]
    if not feasible.size:
        raise InputError(f"no feasible point has {name}; cut the cube elsewhere")
    log = picture.is_wide(feasible.min(), feasible.max())
    channel = _flag(columns, name, flags_of(variable)) or {
        "type": "quantitative",
        "scale": {"type": "log" if log else "linear", "zero": False},
    }
    channel |= {"field": name, "title": heads[name]}
    first, rest = _split(picture.title(cube, variable))
    if bad.any():
        shown = "grey" if y else "hollow, those far off left out"
        rest.append(f"{np.count_nonzero(bad):,} of {bad.size:,} points infeasible: {shown}")
        picture.look().remarks.append(rest[-1])
    limits = None
    if channel["type"] == "quantitative" and feasible.min() > 0:
        limits = float(feasible.min()) / FAR, float(feasible.max()) * FAR
    layers = (
        _cells(columns, cube, x, y, channel)
        if y
        else _lines(columns, cube, x, family, channel, limits)
    )
    return _whole(first, rest, layers, _rows(columns, dims, values.shape))


def _whole(
    first: str, rest: list[str], layers: list[Any], rows: list[Any], height: int = _HEIGHT
) -> dict[str, Any]:
    """A specification with its titles, its size and its data."""
    options = picture.look()
    size = options.size or (_WIDTH / _INCH, height / _INCH)
    return {
        "$schema": SCHEMA,
        "title": {"text": options.title if options.title is not None else first, "subtitle": rest},
        "description": " ".join([first, *rest]),
        "width": round(size[0] * _INCH),
        "height": round(size[1] * _INCH),
        "layer": layers,
        "data": {"values": rows},
    }


def roofline_spec(cube: "xarray.Dataset", by: str | None = None) -> dict[str, Any]:
    """The picture of `roofline` as a Vega-Lite specification."""
    title_text, rows, labels, bad = rooflines(cube, by)
    factor, unit = scale("FLOP/s", rows["peak"])
    labels = [label.replace("\n", " ") for label in labels]

    def row(kind: str, k: int, across: float, up: float) -> dict[str, Any]:
        record = {"what": kind, "point": labels[k], "intensity": float(across)}
        return {**record, "rate": float(up / factor), _STATE: not bad[k]}

    records = [row("roof", k, *point) for k, _, line in roofs(rows) for point in line.T]
    for k in range(len(labels)):
        across = rows["across"][k]
        records.append(row("reached", k, across, rows["reached"][k]))
        if "network" in rows:
            records.append(row("network allows", k, across, rows["network"][k]))
    log = {"type": "quantitative", "scale": {"type": "log", "nice": False}}
    shared: dict[str, Any] = {
        "x": {"field": "intensity", "title": INTENSITY, **log},
        "y": {"field": "rate", "title": f"rate of one GPU [{unit}]", **log},
        "color": _points(cube, by, labels),
        "tooltip": [{"field": name} for name in records[0]],
    }
    several = len([*roofs(rows)]) > 1
    roof = {**shared, "color": shared["color"] if several else {"value": "black"}}
    reached = "datum.what === 'reached'"
    layers = [
        ("line", "datum.what === 'roof'", roof),
        ({"type": "point", "filled": True, "size": 60}, f"{reached} && datum.{_STATE}", shared),
        ({"type": "point", "filled": False, "size": 60}, f"{reached} && !datum.{_STATE}", shared),
        (
            {"type": "point", "filled": False, "shape": "triangle-down", "size": 60},
            "datum.what === 'network allows'",
            shared,
        ),
    ]
    return _whole(*_split(title_text), _filtered(layers), records)


def pareto_spec(
    cube: "xarray.Dataset",
    x: str,
    y: str,
    best: Sequence[str] = ("min", "min"),
    by: str | None = None,
) -> dict[str, Any]:
    """The picture of `pareto` as a Vega-Lite specification."""
    points = front(cube, x, y, best, by)
    others = points.others[:, :: 1 + points.others.shape[1] // MOST]
    labels = [label.replace("\n", " ") for label in points.labels]
    names = [name.replace("\n", " ") for name in points.names]
    edge = zip(labels, *points.edge.tolist(), strict=True)
    records = [{"place": -1, "point": "", x: a, y: b} for a, b in others.T.tolist()]
    records += [{"place": k, "point": n, x: a, y: b} for k, (n, a, b) in enumerate(edge)]
    shared: dict[str, Any] = {
        side: {
            **{"field": output, "title": head, "type": "quantitative"},
            "scale": {"type": "log" if wide else "linear", "zero": False},
        }
        for side, output, head, wide in zip("xy", (x, y), points.heads, points.wide, strict=True)
    }
    shared["tooltip"] = [{"field": name} for name in (x, y, "point")]
    shared["order"] = {"field": "place", "type": "quantitative"}  # steps from one end to the other
    best_ones = "datum.place >= 0"
    layers = [
        ({"type": "point", "filled": True, "size": 14}, "datum.place < 0", {"value": REST}),
        ({"type": "line", "interpolate": "step-after"}, best_ones, {"value": "black"}),
        (
            {"type": "point", "filled": True, "size": 40},
            "datum.place >= 0",
            _points(cube, by, names),
        ),
    ]
    return _whole(
        *_split(points.title),
        _filtered([(mark, which, {**shared, "color": colour}) for mark, which, colour in layers]),
        records,
    )


def _points(cube: "xarray.Dataset", by: str | None, labels: list[str]) -> dict[str, Any]:
    """The colour channel of an axis' points, by their labels."""
    if by is None:
        return {"value": LINES[0]}
    kind, colours = _series(labels)
    scaled_ = {"domain": labels, **colours}
    return {"field": "point", "type": kind, "title": picture.heading(cube[by]), "scale": scaled_}


def _series(labels: list[str]) -> tuple[str, dict[str, Any]]:
    """Whether labels are few enough for colours of their own, and a scale of colours."""
    if len(labels) <= len(LINES):
        return "nominal", {"range": list(LINES[: len(labels)])}
    return "ordinal", {"scheme": "viridis"}


def _filtered(layers: list[tuple[Any, str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """Layers restricted to the rows that satisfy an expression."""
    return [
        {"mark": mark, "transform": [{"filter": which}], "encoding": encoding}
        for mark, which, encoding in layers
    ]


def _split(text: str) -> tuple[str, list[str]]:
    """The first line of a title, and the others."""
    first, *rest = text.replace("\N{NO-BREAK SPACE}", " ").split("\n")
    return first, rest


def box_spec(boxes: picture.Boxes) -> dict[str, Any]:
    """A picture of boxes as a Vega-Lite specification: bars, or cells if both sides are numbers."""
    if len(boxes.rows) > MOST:
        raise InputError(
            f"the picture has {len(boxes.rows):,} boxes, more than the {MOST:,} of a spec; draw "
            "fewer"
        )
    if not boxes.rows:
        subject = boxes.title.split("\n")[0]
        raise InputError(f"{subject!r} has nothing to draw; choose other inputs or points")
    drawn = {row["part"] for row in boxes.rows}
    shades = {part: colour for part, colour in boxes.shades.items() if part in drawn}
    encoding: dict[str, Any] = {
        **_side(boxes, "x", boxes.across),
        **_side(boxes, "y", boxes.up),
        "color": {
            **{"field": "part", "type": "nominal", "title": None, "sort": [*shades]},
            "scale": {"domain": [*shades], "range": [*shades.values()]},
        },
        "tooltip": [{"field": name} for name in boxes.rows[0]],
    }
    layer: dict[str, Any] = {
        "mark": "rect" if len(boxes.across) == len(boxes.up) else "bar",
        "transform": [],
        "encoding": encoding,
    }
    lines = 1 if len(boxes.up) > 1 else len({row[boxes.up[0]] for row in boxes.rows})
    height = _HEIGHT if lines == 1 else max(100, 24 * lines)
    rows = [
        {name: float(v) if isinstance(v, float) else v for name, v in row.items()}
        for row in boxes.rows
    ]
    return _whole(*_split(boxes.title), [layer], rows, height)


def _side(boxes: picture.Boxes, side: str, columns: tuple[str, ...]) -> dict[str, Any]:
    """The channels of one side of boxes: words in order, or both ends."""
    head = {"field": columns[0], "title": boxes.heads.get(columns[0], columns[0])}
    if len(columns) == 1:
        order = list(dict.fromkeys(row[columns[0]] for row in boxes.rows))
        return {side: {**head, "type": "nominal", "sort": order}}
    how = {"type": "quantitative", "scale": {"zero": False, "nice": False}}
    return {side: {**head, **how}, f"{side}2": {"field": columns[1]}}


def _flag(columns: dict[str, Any], name: str, meanings: list[str]) -> dict[str, Any] | None:
    """The channel of a flag, whose codes become their meanings; None for a number."""
    if not meanings:
        return None
    codes = np.nan_to_num(columns[name], nan=-1).astype(int)
    texts = np.where(codes < 0, "no value", np.array([*meanings, ""], object)[codes])
    columns[name] = texts
    shades, hatched = shades_of(meanings, codes[codes >= 0])
    present = {text: shades.get(code) for code, text in enumerate(meanings) if text in texts}
    many = {"scheme": "tableau20"}  # cells have no hatches here
    colours = {"domain": [*present], **(many if hatched else {"range": [*present.values()]})}
    return {"type": "nominal", "sort": [*present], "scale": colours}


def _axis(
    columns: dict[str, Any], cube: "xarray.Dataset", dim: str, position: int
) -> dict[str, Any]:
    """The channel of an axis, with its column; `at` is its position among the dimensions."""
    shape = [-1 if k == position else 1 for k in range(columns[_STATE].ndim)]
    head = {"field": dim, "title": picture.heading(cube[dim])}
    if not picture.is_number(cube[dim]):
        labels = [text.replace("\n", " ") for text in picture.point_labels(cube[dim])]
        columns[dim] = np.array(labels, object).reshape(shape)
        return {**head, "type": "nominal", "sort": labels}
    numbers, log = picture.measured(cube[dim])
    columns[dim] = np.asarray(numbers, float).reshape(shape)
    how = {"type": "log" if log else "linear", "zero": False, "nice": False}
    return {**head, "type": "quantitative", "scale": how}


def _lines(
    columns: dict[str, Any],
    cube: "xarray.Dataset",
    x: str,
    family: str | None,
    up: dict[str, Any],
    limits: tuple[float, float] | None,
) -> list[dict[str, Any]]:
    """Bands, lines of feasible points, and hollow infeasible points."""
    name = up["field"]
    shared: dict[str, Any] = {"x": _axis(columns, cube, x, 1 if family else 0)}
    if family:
        labels = [text.replace("\n", " ") for text in picture.point_labels(cube[family])]
        columns[family] = np.array(labels, object).reshape(-1, 1)
        kind, colours = _series(labels)
        head = {"field": family, "type": kind, "sort": labels}
        shared["color"] = {**head, "title": picture.heading(cube[family]), "scale": colours}
    else:
        shared["color"] = {"value": LINES[0]}
    shared["tooltip"] = [{"field": each} for each in (x, family, name) if each]
    if up["type"] == "quantitative":
        line: dict[str, Any] = {"type": "line", "point": True}
    else:  # meanings have no colour scale here
        line, up = {"type": "point", "filled": True}, {k: v for k, v in up.items() if k != "scale"}
    able = {"calculate": f"datum.{_STATE} ? datum.{name} : null", "as": f"{name}_{_STATE}"}
    within = f" && datum.{name} >= {limits[0]!r} && datum.{name} <= {limits[1]!r}" if limits else ""
    layers: list[dict[str, Any]] = [
        {
            "mark": line,
            "transform": [able],  # lines break where nothing can run
            "encoding": {**shared, "y": {**up, "field": f"{name}_{_STATE}"}},
        },
        {
            "mark": {"type": "point", "filled": False},
            "transform": [{"filter": f"!datum.{_STATE}{within}"}],
            "encoding": {**shared, "y": up},
        },
    ]
    low, high = f"{name}_low", f"{name}_high"
    if low in columns:
        ends: dict[str, Any] = {"y": {**up, "field": low}, "y2": {"field": high}}
        band = {"type": "area", "opacity": 0.2}
        feasible_only = [{"filter": f"datum.{_STATE}"}]
        layers.insert(0, {"mark": band, "transform": feasible_only, "encoding": {**shared, **ends}})
    return layers


def _cells(
    columns: dict[str, Any], cube: "xarray.Dataset", x: str, y: str | None, value: dict[str, Any]
) -> list[dict[str, Any]]:
    """Coloured cells, grey where nothing can run."""
    shared: dict[str, Any] = {}
    for side, dim, position in (("x", x, 1), ("y", str(y), 0)):
        shared[side] = _axis(columns, cube, dim, position)
        if picture.is_number(cube[dim]):  # cells reach halfway to their neighbours
            numbers, log = picture.measured(cube[dim])
            ends = picture.edges(numbers, "log" if log else "linear")
            shape = columns[dim].shape
            columns[f"{dim}_from"], columns[f"{dim}_to"] = (
                end.reshape(shape) for end in (ends[:-1], ends[1:])
            )
            shared[side] |= {"field": f"{dim}_from"}
            shared[f"{side}2"] = {"field": f"{dim}_to"}
    shared["tooltip"] = [{"field": each} for each in (x, y, value["field"], _STATE)]
    colour = dict(value)
    if value["type"] == "quantitative":
        colour["scale"] = {**value["scale"], "scheme": "viridis"}
    able, not_able = ({"filter": f"{sign}datum.{_STATE}"} for sign in ("", "!"))
    grey = {**shared, "color": {"value": GREY}}
    return [
        {"mark": "rect", "transform": [not_able], "encoding": grey},
        {"mark": "rect", "transform": [able], "encoding": {**shared, "color": colour}},
    ]


def _rows(columns: dict[str, Any], dims: list[str], shape: tuple[int, ...]) -> list[dict[str, Any]]:
    """One record for each point; non-finite numbers are null."""
    flat = {
        name: np.broadcast_to(column, shape).reshape(-1).tolist()
        for name, column in columns.items()
    }
    order = [*dims, *(name for name in flat if name not in dims)]
    every = zip(*(flat[name] for name in order), strict=True)
    return [
        {
            name: None if isinstance(entry, float) and not np.isfinite(entry) else entry
            for name, entry in zip(order, row, strict=True)
        }
        for row in every
    ]
