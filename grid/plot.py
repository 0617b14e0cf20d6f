"""Pictures of a cube: a curve over one axis, or a map over two."""

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


def plot(cube: "xarray.Dataset", name: str, x: str, y: str | None, path: Path) -> None:
    """Draw one variable over one or two axes of a cut cube; infeasible points are grey.

    Axes other than x and y must have been cut to a point, except one more for curves.
    """
    check_picture(path)
    if x == y:
        raise InputError(f"x and y are both {x!r}; choose two axes, or leave y out for curves")
    variable = cube[name]
    for axis in (x, y):
        if axis is not None and axis not in variable.dims:
            told = ", ".join(map(str, variable.dims)) or "none left"
            raise InputError(f"{axis!r} is not an axis of {name}; its axes: {told}")
    rest = [str(dim) for dim in variable.dims if dim not in (x, y)]
    if len(rest) > (1 if y is None else 0):
        raise InputError(f"{name} still varies over {', '.join(rest)}; cut them with axis=value")
    pyplot = drawing()
    figure, axes = pyplot.subplots(figsize=(7.2, 4.8), layout="constrained")
    if y is None:
        _curves(axes, variable, x, rest[0] if rest else None)
    else:
        _map(figure, axes, cube, variable, x, y)
    axes.set_xlabel(heading(cube[x]))
    axes.set_title(_title(cube, variable), fontsize=10)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def check_picture(path: Path) -> None:
    """Refuse a file that a picture cannot be written to."""
    if path.suffix not in ENDINGS:
        raise InputError(f"{str(path)!r} is not one of {', '.join(ENDINGS)}; change its ending")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {str(path.absolute().parent)!r}; make it first")


def drawing() -> Any:
    """The drawing library, without a screen."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("plots need an extra; run: pip install 'fleetcube[plot]'") from None
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def _curves(axes: Any, variable: "xarray.DataArray", x: str, family: str | None) -> None:
    numbers, unit = _scaled(variable)
    numbers = numbers.transpose(*([family, x] if family else [x]))
    rows = numbers.values.reshape(-1, numbers.sizes[x])
    labels = numbers[family].values if family else [""]
    at = positions(axes, variable[x], "x")
    for row, label in zip(rows, labels, strict=True):
        axes.plot(at, row, marker="o", markersize=3, label=_short(label))
    if family:
        axes.legend(title=family.replace("_", " "), fontsize=8)
    if np.nanmin(rows) > 0 and np.nanmax(rows) / np.nanmin(rows) > 50:
        axes.set_yscale("log")
    axes.set_ylabel(_labelled(str(variable.name), unit))
    axes.grid(alpha=0.3, which="both")


def _map(
    figure: Any, axes: Any, cube: "xarray.Dataset", variable: "xarray.DataArray", x: str, y: str
) -> None:
    from matplotlib import colors, patches

    numbers, unit = _scaled(variable.transpose(y, x))
    values = np.ma.masked_invalid(numbers.values.astype(float))
    across = positions(axes, variable[x], "x")
    up = positions(axes, variable[y], "y")
    cells = (edges(across, axes.get_xscale()), edges(up, axes.get_yscale()))
    if "flag_meanings" in variable.attrs:
        names = str(variable.attrs["flag_meanings"]).split()
        palette = colors.ListedColormap(PALETTE[: len(names)])
        mesh = axes.pcolormesh(*cells, values, cmap=palette, vmin=-0.5, vmax=len(names) - 0.5)
        bar = figure.colorbar(mesh, ax=axes, ticks=range(len(names)))
        bar.ax.set_yticklabels([text.replace("_", " ") for text in names])
    else:
        wide = values.min() > 0 and values.max() / values.min() > 50
        norm = colors.LogNorm() if wide else None
        mesh = axes.pcolormesh(*cells, values, cmap="viridis", norm=norm)
        figure.colorbar(mesh, ax=axes, label=_labelled(str(variable.name), unit))
        if str(variable.name).endswith("_ratio") and values.min() < 1 < values.max():
            line = axes.contour(across, up, values, levels=[1.0], colors="white", linewidths=1.5)
            axes.clabel(line, fmt="1", fontsize=8)
    if REASON in cube.coords:
        reason = cube[REASON].broadcast_like(variable).transpose(y, x).values
        if (reason != 0).any():
            blocked = np.ma.masked_equal((reason != 0).astype(float), 0.0)
            grey = colors.ListedColormap([INFEASIBLE])
            axes.pcolormesh(*cells, blocked, cmap=grey)
            axes.legend([patches.Patch(color=INFEASIBLE)], ["infeasible"], fontsize=8, loc=2)
    axes.set_ylabel(heading(cube[y]))


# Okabe & Ito's palette: told apart by colour-blind readers
PALETTE = ["#999999", "#0072B2", "#E69F00", "#F0E442", "#009E73", "#D55E00", "#CC79A7", "#000000"]
INFEASIBLE = "#d9d9d9"


def positions(axes: Any, coordinate: "xarray.DataArray", side: str) -> Any:
    """Where an axis' points stand: numbers on a linear or log scale, labels evenly spaced."""
    values = coordinate.values
    if values.dtype.kind not in "iuf":
        getattr(axes, f"set_{side}ticks")(range(len(values)), [_short(v) for v in values])
        if side == "x" and max(len(_short(v)) for v in values) > 8:
            axes.tick_params(axis="x", rotation=20)
        return np.arange(len(values))
    factor, _ = scale(_unit(coordinate), values, str(coordinate.name))
    if values.min() > 0 and values.max() / values.min() >= 16:
        from matplotlib import ticker

        counts = _unit(coordinate) == "1"
        getattr(axes, f"set_{side}scale")("log", base=2 if counts else 10)
        line = getattr(axes, f"{side}axis")
        if not counts:
            line.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        line.set_major_formatter(lambda value, _: f"{value:,.6g}")
        line.set_minor_formatter(ticker.NullFormatter())
        if side == "x":
            axes.tick_params(axis="x", rotation=30)
    return values / factor


def edges(points: Any, axis_scale: str) -> Any:
    """Edges of the cells around points, half way between them on the axis' scale."""
    at = np.log(points) if axis_scale == "log" else np.asarray(points, dtype=float)
    steps = np.diff(at) if len(at) > 1 else np.ones(1)
    edges = np.concatenate([at[:1] - steps[:1] / 2, at[:-1] + steps[: len(at) - 1] / 2])
    edges = np.append(edges, at[-1] + steps[-1] / 2)
    return np.exp(edges) if axis_scale == "log" else edges


def _scaled(variable: "xarray.DataArray") -> tuple["xarray.DataArray", str]:
    factor, unit = scale(_unit(variable), variable.values, str(variable.name))
    return (variable / factor if factor != 1 else variable).rename(variable.name), unit


def _unit(variable: "xarray.DataArray") -> str:
    return str(variable.attrs.get("units", "1"))


def heading(coordinate: "xarray.DataArray") -> str:
    """Name and unit of an axis."""
    if coordinate.dtype.kind not in "iuf":
        return str(coordinate.name).replace("_", " ")
    return _labelled(
        str(coordinate.name), scale(_unit(coordinate), coordinate.values, str(coordinate.name))[1]
    )


def _labelled(name: str, unit: str) -> str:
    text = name.replace("_", " ")
    return f"{text} [{unit}]" if unit else text


def _title(cube: "xarray.Dataset", variable: "xarray.DataArray") -> str:
    """What the variable means, and where the other axes were cut."""
    fixed = []
    for name, coordinate in variable.coords.items():
        known = name in INPUTS or name in load() or coordinate.dtype.kind not in "iuf"
        if coordinate.ndim == 0 and known and str(name) in _axes_of(cube):
            value = coordinate.values
            if coordinate.dtype.kind in "iuf":
                factor, unit = scale(_unit(coordinate), value, str(name))
                fixed.append(
                    f"{str(name).replace('_', ' ')} {float(value) / factor:,.5g} {unit}".strip()
                )
            else:
                fixed.append(f"{str(name).replace('_', ' ')} {_short(value)}")
    meaning = str(variable.attrs.get("long_name", variable.name)).split(":")[0]
    lines = [meaning, *(", ".join(fixed[k : k + 3]) for k in range(0, len(fixed), 3))]
    return "\n".join(lines)


def _axes_of(cube: "xarray.Dataset") -> list[str]:
    import json

    try:
        return list(json.loads(cube.attrs.get("fleetcube_spec", "{}")).get("axes", {}))
    except ValueError:
        return []


def _short(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    return f"{value:g}" if isinstance(value, float) else str(value)
