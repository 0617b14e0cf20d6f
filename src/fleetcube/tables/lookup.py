"""Interpolate between the points of a cube, and estimate the error."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.grid.datasets import load_accessor
from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.grid.plan import memory
from fleetcube.grid.plan.labels import ERROR_OF
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axis import Array
from fleetcube.grid.spec.entries import in_base_unit
from fleetcube.grid.spec.graphs import graph_at
from fleetcube.kernels.declare import written
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.graph.roles import REASON

if TYPE_CHECKING:
    import xarray

PIECE = 1 << 14  # values interpolated at once, to bound the memory of temporaries
POINT = "point"  # dimension of points given as lists


def interp(cube: "xarray.Dataset", point: Mapping[str, Any]) -> "xarray.Dataset":
    """Interpolate a cube's variables between the points of its axes, each with an error estimate.

    Args:
        cube: a Dataset as `open_cube`, `Sweep.evaluate` or `Sweep.virtual` return it; name
            variables to have fewer (`cube[["goodput"]]`).
        point: where, by axis: a number in the base unit or text with a unit; a list or 1-D array of
            them (such axes vary together along `point`); or a DataArray, whose dimensions replace
            the axis in the result; of an axis of labels (also of options that are numbers, and of
            numbers that are not finite), one label. Other axes stay as they are.

    Between points, the logarithm of a variable is linear in the logarithm of each axis: a power law
    is exact. Linear interpolation is used instead for an axis or a cell with values not above 0.
    Grid points keep their values. Flags, whole numbers and `infeasible_reason` are those of the
    nearest point. NaN at any corner that counts gives NaN.

    Returns a Dataset in the units of the cube. `<name>_error` is what the change of slope from each
    cell to its neighbours allows: along one axis a bound where the variable bends one way through
    the cell and both neighbours, and about 4 times the error where it is smooth; over several axes
    their sum, an estimate. NaN where an axis has two points, which show no bend.

    Raises InputError for a point outside an axis, a label that is not on it, and more values than
    memory allows.

    Example:
        >>> import fleetcube
        >>> cube = fleetcube.evaluate(["cluster_mtbf"], n_gpus=[1024, 4096, 16384])
        >>> between = fleetcube.interp(cube, {"n_gpus": 3000})
        >>> round(float(between["cluster_mtbf"]) / 3600, 2)
        12.5
    """
    import xarray

    load_accessor()  # so that the result has `.fleetcube`
    if not isinstance(cube, xarray.Dataset):
        raise InputError(
            f"a {type(cube).__name__} is not a cube; give a Dataset, as open_cube returns it"
        )
    if not isinstance(point, Mapping):
        raise InputError(f"point = {shown(point)} is not a table; write {{axis: value}}")
    picks = {name: _pick(cube, name, value) for name, value in point.items()}
    cube = cube.isel({name: pick for name, pick in picks.items() if pick is not None})
    places = {n: _place(cube, n, value) for n, value in point.items() if picks[n] is None}
    _check_dims(cube, places)
    variables: dict[str, Any] = {}
    data = cube.reset_coords(REASON) if REASON in cube.coords else cube
    for key, variable in data.data_vars.items():
        variables |= _looked_up(str(key), variable, places)
    other_coords = {
        name: old.variable for name, old in data.coords.items() if not {*old.dims} & places.keys()
    }
    new = {name: (place.dims, place.points) for name, place in places.items()}
    result = xarray.Dataset(variables, {**other_coords, **new}, cube.attrs)
    for name in places:
        result[name].attrs = cube[name].attrs
    return result.set_coords(REASON) if REASON in cube.coords else result


@dataclass(frozen=True)
class _Place:
    """Position of points along one axis: cell, and fraction of the cell."""

    dims: tuple[str, ...]
    points: Array  # in the base unit
    picks: Array  # axis labels that are read, in ascending order
    coordinates: Array  # these labels, or their logarithms
    cell: Array  # index in `picks` of the lower end
    share: Array  # 0 at the lower end, 1 at the upper


def _place(cube: "xarray.Dataset", name: Any, value: Any) -> _Place:
    labels = _labels(graph_at(cube.attrs), cube, name)
    dims, points = _requested(graph_at(cube.attrs), name, value)
    order = np.argsort(labels)
    nodes = labels[order]
    if (np.diff(nodes) <= 0).any():
        raise InputError(f"{name} holds a point twice; remove one to look values up along it")
    slack = 1e-9 * np.abs(points)  # tolerance for rounded axis ends
    outside = ~((points >= nodes[0] - slack) & (points <= nodes[-1] + slack))
    if outside.any():
        wrong = float(points[outside][0])
        raise InputError(
            f"{name} = {wrong:.6g} is outside the axis, {nodes[0]:.6g} to {nodes[-1]:.6g}; "
            "give a value in it, or a cube with a longer axis"
        )
    inside = np.clip(points, nodes[0], nodes[-1])
    if nodes[0] > 0:
        nodes, inside = np.log(nodes), np.log(inside)
    lower = np.clip(np.searchsorted(nodes, inside, side="right") - 1, 0, max(0, nodes.size - 2))
    upper = np.minimum(lower + 1, nodes.size - 1)
    width = np.where(upper > lower, nodes[upper] - nodes[lower], 1.0)  # 1: an axis of one point
    share = (inside - nodes[lower]) / width
    picked = np.zeros(nodes.size, bool)  # cells and their neighbours
    for step in (-1, 0, 1, 2):
        picked[np.clip(lower + step, 0, nodes.size - 1)] = True
    cell = (np.cumsum(picked) - 1)[lower]
    return _Place(dims, points, order[picked], nodes[picked], cell, share)


def _pick(cube: "xarray.Dataset", name: Any, value: Any) -> int | None:
    """The index of a label that is taken as it is; None along an axis of finite numbers."""
    if name not in cube.dims or name not in cube.coords:
        return None
    graph, labels = graph_at(cube.attrs), cube[name].values
    numbers = labels.dtype.kind in "iuf" and values.is_known(graph, name)
    if numbers and not values.is_option(graph, name):
        dims, points = (
            ((POINT,), labels) if np.isfinite(labels).all() else _requested(graph, name, value)
        )
        return None if dims or points not in labels else int(np.argmax(labels == points))
    value = value.item() if np.ndim(value) == 0 and hasattr(value, "item") else value
    for k, each in enumerate(labels.tolist()):
        if isinstance(each, str) != isinstance(value, str):  # a switch or a number, and its word
            if written(each).lower() == written(value).lower():
                return k
        elif isinstance(each, bool) == isinstance(value, bool) and each == value:
            return k
    words = [*map(written, labels.tolist())]
    hint = nearest(str(value), words, f"choose from {', '.join(words)}")
    raise InputError(f"{name} = {shown(value)} is not one label of its axis; {hint}")


def _labels(graph: Graph, cube: "xarray.Dataset", name: Any) -> Array:
    """The coordinate of an axis along which values can be interpolated."""
    if name not in cube.dims:
        axes = [str(dim) for dim in cube.dims]
        hint = nearest(name, axes, f"choose from {', '.join(axes)}")
        raise InputError(f"{shown(name)} is not an axis of the cube; {hint}")
    if name not in cube.coords:
        raise InputError(f"{name} has no labels; cut it first: cube.isel({name}=...)")
    labels: Array = cube[name].values
    if (unit := cube[name].attrs.get("units", base := values.unit_of(graph, name))) != base:
        hint = f"cube.fleetcube.to_units({{{name!r}: {base!r}}})"
        raise InputError(f"{name} is in {unit}; give the cube with it in {base}: {hint}")
    if not np.isfinite(labels).all():
        raise InputError(f"{name} holds a point that is not finite; cut the axis to the others")
    return labels.astype(float)


def _requested(graph: Graph, name: str, value: Any) -> tuple[tuple[str, ...], Array]:
    """Dimensions and values of the requested points, in the base unit."""
    value = values.without_unit(graph, name, value)
    many = hasattr(value, "__array__") or isinstance(value, Sequence)
    if isinstance(value, str | bytes) or not many:
        return (), np.array(values.number(graph, name, value))
    if hasattr(value, "dims") and hasattr(value, "coords"):  # a DataArray
        value = in_base_unit(graph, name, value)
        dims, array = tuple(map(str, value.dims)), value.values
    else:
        array = np.array(value, object if isinstance(value, Sequence) else None)
        dims = (POINT,) * array.ndim
    if len(set(dims)) < len(dims):
        raise InputError(f"{name} has {len(dims)} dimensions; give a list or a DataArray")
    if array.dtype.kind not in "iuf":
        flat = [values.number(graph, name, item) for item in array.reshape(-1).tolist()]
        array = np.array(flat).reshape(array.shape)
    return dims, array.astype(float)


def _check_dims(cube: "xarray.Dataset", places: Mapping[str, _Place]) -> None:
    """Refuse points whose count differs between axes, or that lie along another axis."""
    lengths: dict[str, int] = {}
    for name, place in places.items():
        for dim, size in zip(place.dims, place.points.shape, strict=True):
            if lengths.setdefault(dim, size) != size:
                raise InputError(
                    f"{name} has {size} values along {dim!r}, another axis {lengths[dim]}; "
                    "give as many for each"
                )
            if dim in cube.dims and dim not in places:
                raise InputError(
                    f"{dim!r} is an axis of the cube and a dimension of the points; rename one"
                )


def _looked_up(
    name: str, variable: "xarray.DataArray", places: Mapping[str, _Place]
) -> dict[str, Any]:
    """A variable at the points, and its error where it is interpolated."""
    axes = [str(dim) for dim in variable.dims if dim in places]
    if not axes:
        return {name: variable.variable}
    if variable.dtype.kind == "m":
        raise InputError(f"{name} is a duration; look values up before to_timedelta")
    axis_places = [places[axis] for axis in axes]
    dims = tuple(dict.fromkeys(dim for place in axis_places for dim in place.dims))
    sizes = {
        d: n for place in axis_places for d, n in zip(place.dims, place.points.shape, strict=True)
    }
    shape = tuple(sizes.values())
    rest = [str(dim) for dim in variable.dims if dim not in places]
    others = math.prod(variable.sizes[dim] for dim in rest)
    box = math.prod(place.picks.size for place in axis_places) * others
    memory.check(
        16 * (2 + len(axes)) * box + 16 * math.prod(shape) * others, "look up fewer points at once"
    )
    cut = variable.isel({axis: place.picks for axis, place in zip(axes, axis_places, strict=True)})
    cells: Array = cut.transpose(*axes, *rest).values
    flat = [_spread(place, sizes, dims) for place in axis_places]
    final = (*shape, *(variable.sizes[dim] for dim in rest))
    if cells.dtype.kind != "f" or "flag_meanings" in variable.attrs:
        out = cells[tuple(cell + (share > 0.5) for cell, share in flat)]
        return {name: ((*dims, *rest), out.reshape(final), variable.attrs)}
    rows = cells.reshape(-1, others).astype(float)
    table = _Table(rows, [place.coordinates for place in axis_places])
    out, error = (np.empty((math.prod(shape), others), cells.dtype) for _ in range(2))
    step = max(1, PIECE // max(1, others))
    for start in range(0, len(out), step):
        part = slice(start, start + step)
        out[part], error[part] = table.interpolated(
            [(cell[part], share[part]) for cell, share in flat]
        )
    unit = variable.attrs.get("units", "1")
    about = {"units": unit, "long_name": f"estimated error of {name}", ERROR_OF: name}
    return {
        name: ((*dims, *rest), out.reshape(final), variable.attrs),
        f"{name}_error": ((*dims, *rest), error.reshape(final), about),
    }


def _spread(place: _Place, sizes: Mapping[str, int], dims: Sequence[str]) -> tuple[Array, Array]:
    """Cells and shares of a place, flattened, at every point of all dimensions."""
    order = sorted(range(len(place.dims)), key=lambda k: dims.index(place.dims[k]))
    shape = [sizes[dim] if dim in place.dims else 1 for dim in dims]

    def flat(array: Array) -> Array:
        aligned = np.transpose(array, order).reshape(shape)
        return np.broadcast_to(aligned, tuple(sizes[dim] for dim in dims)).reshape(-1)

    return flat(place.cell), flat(place.share)


class _Table:
    """Values on a grid of coordinates, with interpolation."""

    def __init__(self, cells: Array, coordinates: Sequence[Array]) -> None:
        self.sizes = [x.size for x in coordinates]
        self.strides = [math.prod(self.sizes[k + 1 :]) for k in range(len(self.sizes))]
        self.cells = cells
        positive = cells > 0
        self.grids = []  # values or logarithms; their bends along each axis; which of the two
        with np.errstate(all="ignore"):
            if positive.any():
                logs = np.log(np.where(positive, cells, np.nan))
                self.grids.append((logs, self._bends(logs, coordinates), True))
            if not (positive | np.isnan(cells)).all() or not positive.any():
                self.grids.append((cells, self._bends(cells, coordinates), False))

    def _bends(self, grid: Array, coordinates: Sequence[Array]) -> list[Array]:
        """By axis: cell width times |change of slope| to the cells below and above."""
        box = grid.reshape(*self.sizes, grid.shape[-1])
        bends = []
        for k, x in enumerate(coordinates):
            rows = np.moveaxis(box, k, 0)
            width = np.diff(x).reshape(-1, *(1 for _ in self.sizes))
            out = np.full(rows.shape, np.nan)  # beyond the last cell too
            change = np.full((max(0, x.size - 2) + 2, *rows.shape[1:]), np.nan)
            change[1:-1] = np.abs(np.diff(np.diff(rows, axis=0) / width, axis=0))
            below, above = change[: x.size - 1], change[1 : x.size]
            single = 2 * np.fmax(below, above)  # at an end, or next to NaN
            out[:-1] = width * np.where(np.isnan(below + above), single, below + above)
            bends.append(np.moveaxis(out, 0, k).reshape(grid.shape))
        return bends

    def interpolated(self, places: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Values and errors at points, given as cells and shares along each axis."""
        near = [cell + (share > 0.5) for cell, share in places]
        index = self._index(near)
        nearest = self.cells.take(index, axis=0)
        out, error = np.full((2, *nearest.shape), np.nan)
        with np.errstate(all="ignore"):
            for grid, bends, logarithmic in self.grids:
                value = self._linear(grid, places)
                bend: Any = 0.0
                for (cell, share), table, place, stride in zip(
                    places, bends, near, self.strides, strict=True
                ):
                    s = (share * (1 - share))[:, None]
                    most = table.take(index + (cell - place) * stride, axis=0)
                    bend = bend + np.where(s == 0, 0.0, s * most)  # 0 times NaN is NaN
                if logarithmic:
                    value = np.exp(value)
                    bend = value * np.expm1(bend)
                missing = np.isnan(out)
                out, error = np.where(missing, value, out), np.where(missing, bend, error)
        node = np.all([(share == 0) | (share == 1) for _, share in places], axis=0)[:, None]
        # exact values: exp(log(x)) may differ from x in the last digit
        return np.where(node, nearest, out), np.where(np.isnan(out), np.nan, error)

    def _index(self, cells: Sequence[Array]) -> Any:
        return sum(cell * stride for cell, stride in zip(cells, self.strides, strict=True))

    def _linear(self, grid: Array, places: Sequence[tuple[Array, Array]]) -> Array:
        """Multilinear interpolation; a corner of weight 0 is ignored, even NaN or infinity."""
        total: Any = 0.0
        lowest = self._index([cell for cell, _ in places])
        finite = bool(np.isfinite(grid).all())
        for corner in itertools.product((0, 1), repeat=len(places)):
            weight: Any = 1.0
            step = 0
            for side, (_, share), size, stride in zip(
                corner, places, self.sizes, self.strides, strict=True
            ):
                weight = weight * (share if side else 1 - share)
                step += stride * min(side, size - 1)
            term = weight[:, None] * grid.take(lowest + step, axis=0)
            total = total + (term if finite else np.where(weight[:, None] == 0, 0.0, term))
        return np.asarray(total)
