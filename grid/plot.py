"""Pictures of a cube: a curve over one axis, or a map over two."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.graph import load
from ..kernels.inputs import INPUTS
from .errors import InputError
from .plan import REASON
from .slicing import scale

if TYPE_CHECKING:
    import xarray

ENDINGS = (".png", ".pdf", ".svg")


# Okabe & Ito's palette: told apart by colour-blind readers
PALETTE = ["#999999", "#0072B2", "#E69F00", "#F0E442", "#009E73", "#D55E00", "#CC79A7", "#000000"]
INFEASIBLE = "#d9d9d9"
CROSSING = "reliability_to_communication_ratio"
FEWEST = 3  # points along both axes of a map that has contours


def plot(cube: "xarray.Dataset", name: str, x: str, y: str | None, path: Path) -> Any:
    """Draw one variable over one or two axes of a cut cube; infeasible points are grey.

    Axes other than x and y must have been cut to a point, except one more for curves. A map of
    numbers has contours; a map of flags has the line where reliability costs as much as
    communication, if the cube holds their ratio. Returns the figure.
    """
    check_picture(path)
    if x == y:
        raise InputError(f"x and y are both {x!r}; choose two axes, or leave y out for curves")
    need(cube, [name])
    variable = cube[name]
    for axis in (x, y):
        if axis is not None and axis not in variable.dims:
            told = ", ".join(map(str, variable.dims)) or "none left"
            raise InputError(f"{axis!r} is not an axis of {name}; its axes: {told}")
    rest = check_cut(variable, [x] if y is None else [x, y], 1 if y is None else 0)
    wide = 8.4 if "flag_meanings" in variable.attrs else 7.2  # with a legend beside it
    figure, axes = drawing().subplots(figsize=(wide, 4.8), layout="constrained")
    if y is None:
        _curves(axes, variable, x, rest[0] if rest else None)
    else:
        _map(figure, axes, cube, variable, x, y)
    axes.set_xlabel(heading(cube[x]))
    axes.set_title(title(cube, variable), fontsize=10)
    return saved(figure, path)


# What every picture needs


def check_picture(path: Path) -> None:
    """Refuse a file that a picture cannot be written to, and a missing matplotlib."""
    if path.suffix not in ENDINGS:
        raise InputError(f"{str(path)!r} is not one of {', '.join(ENDINGS)}; change its ending")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {str(path.absolute().parent)!r}; make it first")
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; choose another name")
    drawing()


def drawing() -> Any:
    """The drawing library, without a screen."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("plots need an extra; run: pip install 'fleetcube[plot]'") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def saved(figure: Any, path: Path) -> Any:
    """The figure, written to a file and closed."""
    figure.savefig(path, dpi=150)
    drawing().close(figure)
    return figure


def need(cube: "xarray.Dataset", names: Sequence[str]) -> None:
    """Refuse a cube that lacks variables, and say which outputs to add to its spec."""
    missing = [name for name in names if name not in cube.data_vars]
    if missing:
        listed = ", ".join(f'"{name}"' for name in missing)
        raise InputError(
            f"the cube has no {', '.join(missing)}; add to the outputs of its spec: {listed}"
        )


def check_cut(
    held: "xarray.Dataset | xarray.DataArray", kept: Sequence[str], spare: int = 0
) -> list[str]:
    """Axes beside those kept, of which some may be spare; refuse more."""
    rest = [str(dim) for dim in held.dims if dim not in kept]
    if len(rest) > spare:
        name = f"{getattr(held, 'name', None) or 'the cube'}"
        raise InputError(f"{name} still varies over {', '.join(rest)}; cut them with axis=value")
    return rest


def colours(count: int) -> list[Any]:
    """Colours for lines and dots; beyond six, steps from dark to light."""
    if count <= 6:
        return [*PALETTE[1:3], *PALETTE[4:]][:count]  # yellow is too faint
    from matplotlib import colormaps

    return list(colormaps["viridis"](np.linspace(0, 0.92, count)))


def blocked(cube: "xarray.Dataset", dims: Sequence[str]) -> Any:
    """Which points are infeasible, over axes; none where that takes other axes."""
    sizes = [cube.sizes[dim] for dim in dims]
    if REASON not in cube.coords or not set(cube[REASON].dims) <= set(dims):
        return np.zeros(sizes, bool)
    reason = cube[REASON]
    whole = reason.expand_dims({dim: cube.sizes[dim] for dim in dims if dim not in reason.dims})
    return whole.transpose(*dims).values != 0


# Curves and maps


def _curves(axes: Any, variable: "xarray.DataArray", x: str, family: str | None) -> None:
    numbers, unit = scaled(variable)
    numbers = numbers.transpose(*([family, x] if family else [x]))
    rows = numbers.values.reshape(-1, numbers.sizes[x])
    labels = said(variable[family]) if family else [""]
    at = positions(axes, variable[x], "x")
    for row, label, colour in zip(rows, labels, colours(len(rows)), strict=True):
        axes.plot(at, row, marker="o", markersize=3, label=label, color=colour)
    if family:
        axes.legend(title=heading(variable[family]), fontsize=8, ncols=1 + len(rows) // 16)
    if np.nanmin(rows) > 0 and np.nanmax(rows) / np.nanmin(rows) > 50:
        axes.set_yscale("log")
    plain(axes.yaxis)
    axes.set_ylabel(labelled(str(variable.name), unit))
    axes.grid(alpha=0.3, which="both")


def _map(
    figure: Any, axes: Any, cube: "xarray.Dataset", variable: "xarray.DataArray", x: str, y: str
) -> None:
    from matplotlib import colors

    numbers, unit = scaled(variable.transpose(y, x))
    bad = blocked(cube, [y, x])
    across = positions(axes, variable[x], "x")
    up = positions(axes, variable[y], "y")
    axes.set_ylabel(heading(cube[y]))
    if "flag_meanings" in variable.attrs:
        names = [text.replace("_", " ") for text in str(variable.attrs["flag_meanings"]).split()]
        codes = np.nan_to_num(numbers.values, nan=-1).astype(int)
        regions(figure, axes, (across, up), codes, bad | (codes < 0), names, PALETTE)
        if CROSSING in cube and set(cube[CROSSING].dims) == {x, y}:
            ratio = np.ma.masked_array(cube[CROSSING].transpose(y, x).values, bad)
            _even(axes, across, up, ratio, "reliability = communication")
        return
    cells = (edges(across, axes.get_xscale()), edges(up, axes.get_yscale()))
    values = np.ma.masked_array(numbers.values.astype(float), bad)
    values = np.ma.masked_invalid(values)
    wide = values.min() > 0 and values.max() / values.min() > 50
    norm = colors.LogNorm() if wide else None
    mesh = axes.pcolormesh(*cells, values, cmap="viridis", norm=norm)
    figure.colorbar(mesh, ax=axes, label=labelled(str(variable.name), unit))
    if str(variable.name).endswith("_ratio") and values.min() < 1 < values.max():
        _even(axes, across, up, values, "1")
    elif min(values.shape) >= FEWEST and values.min() < values.max():
        levels = _levels(values, wide)
        lines = axes.contour(across, up, values, levels=levels, colors="white", linewidths=0.8)
        axes.clabel(lines, fmt=lambda level: f"{level:,.10g}", fontsize=7)
    if bad.any():
        regions(figure, axes, (across, up), np.zeros(bad.shape, int), bad, [], [])


def _levels(values: Any, wide: bool) -> Any:
    """Round numbers for about eight contours, inside the range."""
    from matplotlib import ticker

    low, high = float(values.min()), float(values.max())
    if wide:
        levels, inside = ticker.LogLocator(subs=(1, 2, 5)).tick_values(low, high), 1.0
    else:
        levels = ticker.MaxNLocator(10, steps=[1, 2, 5, 10]).tick_values(low, high)
        inside = 0.98  # no specks in the corners
    middle, half = (low + high) / 2, inside * (high - low) / 2
    return [level for level in levels if abs(level - middle) < half]


def _even(axes: Any, across: Any, up: Any, values: Any, told: str) -> None:
    """The line where a ratio is one, black with a white rim."""
    from matplotlib.patheffects import withStroke

    if min(values.shape) > 1 and values.min() < 1 < values.max():
        rim = [withStroke(linewidth=3, foreground="white")]
        line = axes.contour(across, up, values, levels=[1.0], colors="black", linewidths=1.2)
        line.set_path_effects(rim)
        for text in axes.clabel(line, fmt=told, fontsize=8):
            text.set_path_effects(rim)


def regions(
    figure: Any,
    axes: Any,
    points: tuple[Any, Any],
    codes: Any,
    bad: Any,
    names: Sequence[str],
    palette: Sequence[str],
    head: str | None = None,
) -> None:
    """Colour cells by a code, infeasible ones grey, with a legend of the codes that occur."""
    from matplotlib import colors, patches

    cells = (edges(points[0], axes.get_xscale()), edges(points[1], axes.get_yscale()))
    found = [k for k in range(len(names)) if (codes[~bad] == k).any()]
    if found:
        cmap = colors.ListedColormap(list(palette[: len(names)]))
        colour = np.ma.masked_array(codes, bad)
        axes.pcolormesh(*cells, colour, cmap=cmap, vmin=-0.5, vmax=len(names) - 0.5)
    handles = [patches.Patch(color=palette[k]) for k in found]
    labels = [names[k] for k in found]
    if bad.any():
        grey = colors.ListedColormap([INFEASIBLE])
        axes.pcolormesh(*cells, np.ma.masked_equal(bad.astype(float), 0.0), cmap=grey)
        handles.append(patches.Patch(color=INFEASIBLE))
        labels.append("infeasible")
    figure.legend(handles, labels, loc="outside right upper", fontsize=8, title=head)


def positions(axes: Any, coordinate: "xarray.DataArray", side: str) -> Any:
    """Where an axis' points stand: numbers on a linear or log scale, labels evenly spaced."""
    values = coordinate.values
    if values.dtype.kind not in "iuf":
        getattr(axes, f"set_{side}ticks")(range(len(values)), [short(v) for v in values])
        if side == "x" and max(len(short(v)) for v in values) > 8:
            axes.tick_params(axis="x", rotation=20)
        return np.arange(len(values))
    factor, _ = scale(_unit(coordinate), values, str(coordinate.name))
    if values.min() > 0 and values.max() / values.min() >= 16:
        counts = _unit(coordinate) == "1"
        getattr(axes, f"set_{side}scale")("log", base=2 if counts else 10)
        plain(getattr(axes, f"{side}axis"), located=not counts)
        if side == "x":
            axes.tick_params(axis="x", rotation=30)
    return values / factor


def plain(line: Any, located: bool = True) -> None:
    """Write the ticks of an axis as plain numbers, on a log scale at 1, 2 and 5."""
    from matplotlib import ticker

    if line.get_scale() == "log":
        if located:
            line.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        line.set_minor_formatter(ticker.NullFormatter())
    line.set_major_formatter(lambda value, _: f"{value:,.10g}")


def edges(points: Any, axis_scale: str) -> Any:
    """Edges of the cells around points, half way between them on the axis' scale."""
    at = np.log(points) if axis_scale == "log" else np.asarray(points, dtype=float)
    steps = np.diff(at) if len(at) > 1 else np.ones(1)
    edges = np.concatenate([at[:1] - steps[:1] / 2, at[:-1] + steps[: len(at) - 1] / 2])
    edges = np.append(edges, at[-1] + steps[-1] / 2)
    return np.exp(edges) if axis_scale == "log" else edges


def scaled(variable: "xarray.DataArray") -> tuple["xarray.DataArray", str]:
    """A variable in a convenient unit, and that unit."""
    factor, unit = scale(_unit(variable), variable.values, str(variable.name))
    return (variable / factor if factor != 1 else variable).rename(variable.name), unit


def _unit(variable: "xarray.DataArray") -> str:
    return str(variable.attrs.get("units", "1"))


def heading(coordinate: "xarray.DataArray") -> str:
    """Name and unit of an axis."""
    if coordinate.dtype.kind not in "iuf":
        return str(coordinate.name).replace("_", " ")
    return labelled(
        str(coordinate.name), scale(_unit(coordinate), coordinate.values, str(coordinate.name))[1]
    )


def said(coordinate: "xarray.DataArray") -> list[str]:
    """The points of an axis as labels, in the unit of its heading."""
    if coordinate.dtype.kind not in "iuf":
        return [short(value) for value in coordinate.values]
    factor, _ = scale(_unit(coordinate), coordinate.values, str(coordinate.name))
    return [f"{value / factor:,.5g}" for value in coordinate.values.tolist()]


def labelled(name: str, unit: str) -> str:
    """A name and its unit as a label."""
    text = name.replace("_", " ")
    return f"{text} [{unit}]" if unit else text


def title(
    cube: "xarray.Dataset", held: "xarray.Dataset | xarray.DataArray", meaning: str = ""
) -> str:
    """What is drawn, by default the meaning of a variable, and where the other axes were cut."""
    fixed = []
    for name, coordinate in held.coords.items():
        known = name in INPUTS or name in load() or coordinate.dtype.kind not in "iuf"
        if coordinate.ndim == 0 and known and str(name) in _axes_of(cube):
            value = coordinate.values
            if coordinate.dtype.kind in "iuf":
                factor, unit = scale(_unit(coordinate), value, str(name))
                fixed.append(
                    f"{str(name).replace('_', ' ')} {float(value) / factor:,.5g} {unit}".strip()
                )
            else:
                fixed.append(f"{str(name).replace('_', ' ')} {short(value)}")
    told = meaning or str(held.attrs.get("long_name", "")).split(":")[0].split(";")[0]
    lines = [told, *(", ".join(fixed[k : k + 3]) for k in range(0, len(fixed), 3))]
    return "\n".join(lines)


def _axes_of(cube: "xarray.Dataset") -> list[str]:
    import json

    try:
        return list(json.loads(cube.attrs.get("fleetcube_spec", "{}")).get("axes", {}))
    except ValueError:
        return []


def short(value: Any) -> str:
    """A coordinate's value as a label."""
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    return f"{value:g}" if isinstance(value, float) else str(value)
