"""`cube.fleetcube`: the accessor that fleetcube adds to xarray's Datasets and DataArrays.

Registered where fleetcube makes or opens a cube (`datasets`), where xarray opens one with its
engine (`backend`), by `import fleetcube.xarray`, and by `import fleetcube` after xarray. Nothing
else of fleetcube is imported before first use.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack

import xarray

if TYPE_CHECKING:
    from fleetcube.presentation.explain import Explanation

_Cube = TypeVar("_Cube", xarray.Dataset, xarray.DataArray)
_VALUES = "values of the array"  # name in a Dataset: the array may have none, or that of its axis


def _selected(given: Any, places: Mapping[Any, Any], **how: Any) -> Any:
    from fleetcube.grid.errors import InputError, shown  # lazily: registering imports nothing

    try:
        return given.sel(places, **how)
    except KeyError:
        asked = ", ".join(f"{name} = {shown(value)}" for name, value in places.items())
        raise InputError(
            f"{asked} is not on its axis; give one of its labels, or for numbers "
            'method="nearest" and a wider tolerance'
        ) from None


class Accessor(Generic[_Cube]):
    """Units, durations, feasible points, meanings and pictures of a cube or one of its arrays.

    Lazy data (Dask, read or evaluated on slicing) stays lazy. Raises InputError in one line.
    """

    def __init__(self, cube: _Cube) -> None:
        self._given: _Cube = cube

    @property
    def _cube(self) -> xarray.Dataset:
        """The cube, or the array in a Dataset."""
        raise NotImplementedError

    def _like_given(self, cube: xarray.Dataset) -> _Cube:
        """A changed cube in the form of the given object."""
        raise NotImplementedError

    def _keys(self, names: Sequence[str]) -> list[str]:
        """Names as they are in the Dataset."""
        return list(names)

    def feasible(self, drop: bool = False) -> _Cube:
        """Mask the cube (NaN, -1 in flags) where `infeasible_reason` is not 0.

        Every variable gets the axes of `infeasible_reason`. With `drop`, labels of an axis along
        which nothing is feasible are left out. `reasons` counts the points.
        """
        from fleetcube.tables.arrays import feasible

        return self._like_given(feasible(self._cube, drop))

    def reasons(self) -> dict[str, int]:
        """Count the feasible points, and the infeasible ones by reason."""
        from fleetcube.tables.arrays import count_reasons

        return count_reasons(self._cube)

    def sel(
        self,
        indexers: Mapping[Any, Any] | None = None,
        method: str | None = None,
        tolerance: Any = None,
        drop: bool = False,
        **axes: Any,
    ) -> _Cube:
        """Select as xarray's `sel` does, also by values with units: `sel(gpu_mttf="50_000 h")`.

        Texts with a unit, and pint quantities, may be given alone, in lists, as ends of slices and
        as `tolerance`. A point that differs only by rounding (1e-9 relative) is found without a
        `method`. Plain numbers are in the unit of the axis.
        """
        from fleetcube.tables.arrays import distance, located, missing

        asked = {**(indexers or {}), **axes}
        places = {name: located(self._cube, name, value) for name, value in asked.items()}
        if method is None:
            missing(self._cube, asked, places)
        within = distance(self._cube, places, tolerance)
        given: Any = self._given  # mypy cannot type either kind
        if method is not None:  # names have no nearest neighbour
            named = {axis: v for axis, v in places.items() if self._cube[axis].dtype.kind in "OUT"}
            given = _selected(given, named, drop=drop)
            places = {axis: value for axis, value in places.items() if axis not in named}
        part: _Cube = _selected(given, places, method=method, tolerance=within, drop=drop)
        return part

    def to_timedelta(self, names: str | Sequence[str] | None = None) -> _Cube:
        """Convert times to `timedelta64[ns]`: by default all time variables, no coordinates.

        Rounded to a nanosecond; NaT if infinite, NaN or over 292 years, which an axis may not have.
        """
        from fleetcube.tables.arrays import as_timedelta

        listed = [names] if isinstance(names, str) else names
        return self._like_given(as_timedelta(self._cube, listed and self._keys(listed)))


class DatasetAccessor(Accessor[xarray.Dataset]):
    """`Dataset.fleetcube`; in a notebook, a table in convenient units with its basis."""

    def _repr_html_(self) -> str:
        from fleetcube.tables.html import cube_html

        return cube_html(self._given)

    @property
    def _cube(self) -> xarray.Dataset:
        return self._given

    def _like_given(self, cube: xarray.Dataset) -> xarray.Dataset:
        return cube

    def explain(self, name: str) -> "Explanation":
        """Explain a name as `fleetcube.explain` does.

        A variable that only this cube has (`goodput_error`) is explained by its attributes.
        """
        return _explained(name, self._given)

    def to_parquet(self, folder: str | PathLike[str], by: str | Sequence[str]) -> list[Path]:
        """Write Parquet into hive folders (`fabric=infiniband-ndr/`), by the labels of some axes.

        Called again on a larger cube, it adds the partitions that are missing, and returns their
        files; what is there stays. Raises InputError, before writing, where a partition has other
        rows. Needs the extra `table`.
        """
        from fleetcube.tables.partitions import partition

        return partition(self._given, folder, by)

    def to_units(self, units: str | Mapping[str, str]) -> xarray.Dataset:
        """Convert the cube to other units, stated in its `units` attributes.

        `units` are units by name, of variables and coordinates ({"job_time": "d", "gpu_mttf":
        "h"}), or one unit for all variables (not coordinates) of its kind. Flags have none.
        """
        from fleetcube.tables.arrays import everything_in, in_units

        if isinstance(units, Mapping):
            return in_units(self._given, units)
        return everything_in(self._given, units)

    def prediction_interval(self, of: str | Sequence[str] | None = None) -> xarray.Dataset:
        """The cube with the ends of its variables' 90 % intervals; see `Sweep.prediction_interval`.

        They are evaluated now, at the points of this cut alone (100,000 at most); raises an error
        if today's formulas or records give values other than the cube's.
        """
        from fleetcube.analysis.reevaluate import with_interval
        from fleetcube.tables.tables import check_variables

        names = [of] if isinstance(of, str) else of
        check_variables(names or (), [*map(str, self._given.data_vars)])
        return with_interval(self._given, names)

    @property
    def plot(self) -> "Pictures":
        """Pictures: `plot("n_gpus", of="goodput")`, `plot.losses("n_gpus")` and others."""
        return Pictures(self._given, None)


class DataArrayAccessor(Accessor[xarray.DataArray]):
    """`DataArray.fleetcube`."""

    @property
    def _key(self) -> str:
        name = self._given.name
        return _VALUES if name is None or name in self._given.coords else str(name)

    @property
    def _cube(self) -> xarray.Dataset:
        return self._given.to_dataset(name=self._key)

    def _like_given(self, cube: xarray.Dataset) -> xarray.DataArray:
        return cube[self._key].rename(self._given.name)

    def _keys(self, names: Sequence[str]) -> list[str]:
        """Names as they are in the Dataset; an axis as an array is also its own coordinate."""
        given = self._given
        keys = [self._key if name == given.name else name for name in names]
        is_coordinate = given.name in given.coords and given.identical(given.coords[given.name])
        return [*keys, str(given.name)] if is_coordinate and self._key in keys else keys

    def explain(self, name: str | None = None) -> "Explanation":
        """Explain a name, by default the array's, as `fleetcube.explain` does.

        A variable that only this cube has (`goodput_error`) is explained by its attributes.
        """
        return _explained(self._given.name if name is None else name, self._cube)

    def to_units(self, units: str | Mapping[str, str]) -> xarray.DataArray:
        """Convert the array to another unit, stated in its `units` attribute.

        `units` is the unit, or units by name, of the array and of coordinates ({"job_time": "d",
        "gpu_mttf": "h"}).
        """
        from fleetcube.tables.arrays import in_units

        given: Mapping[Any, str]
        given = units if isinstance(units, Mapping) else {self._given.name: units}
        wanted = {key: unit for name, unit in given.items() for key in self._keys([name])}
        return self._like_given(in_units(self._cube, wanted))

    def to_timedelta(self, names: str | Sequence[str] | None = None) -> xarray.DataArray:
        """Convert the array, or the coordinates and arrays named, to `timedelta64[ns]`.

        Rounded to a nanosecond; NaT if infinite, NaN or over 292 years, which an axis may not have.
        """
        array_name: Any = self._given.name
        return super().to_timedelta([array_name] if names is None else names)

    @property
    def plot(self) -> "Pictures":
        """Pictures of the array: `plot("n_gpus")`, `plot("n_gpus", "gpu_mttf")`."""
        return Pictures(self._cube, self._key)


def _explained(name: Any, cube: xarray.Dataset) -> "Explanation":
    from fleetcube.grid.spec.graphs import graph_at
    from fleetcube.grid.spec.values import known_names
    from fleetcube.kernels.calculus.derivatives import is_quantity
    from fleetcube.presentation.explain import Explanation, explain

    graph = graph_at(cube.attrs)
    if name not in cube.variables or name in known_names(graph) or is_quantity(graph, name):
        return explain(name, graph=graph)
    about = cube.variables[name].attrs
    meaning = about.get("long_name", "Its attributes give no meaning.")
    return Explanation(f"{name} [{about.get('units', '1')}]\n\n{meaning}")


class Looks(TypedDict, total=False):
    """Options of every picture: first line, inches ("8x5", (8, 5)), pixels per inch of a file."""

    title: str
    size: str | Sequence[float]
    dpi: int


class Pictures:
    """The pictures of `fleetcube plot`, for a cube cut along its other axes.

    Each returns a matplotlib figure, and writes it if `path` is given (.png, .pdf, .svg). All take
    `title`, `size` (inches: "8x5" or two numbers) and `dpi`. Infeasible points are marked or left
    out.
    """

    def __init__(self, cube: xarray.Dataset, default_variable: str | None) -> None:
        self._cube, self._default_variable = cube, default_variable

    def __call__(
        self,
        x: str | None = None,
        y: str | None = None,
        *,
        of: str | None = None,
        best: str | None = None,
        path: str | PathLike[str] | None = None,
        **look: Unpack[Looks],
    ) -> Any:
        """Draw curves of a variable over one axis, or a map over two; by default over all its axes.

        With `best`, "min" or "max", curves are ratios to the lowest or highest at each point.
        """
        from fleetcube.presentation.pictures.picture import picture_options
        from fleetcube.presentation.pictures.plot import plot

        name, x, y = self._over(x, y, of)
        with picture_options(**look):
            return plot(self._cube, name, x, y, _path(path), best)

    def vega_lite(
        self,
        x: str | None = None,
        y: str | None = None,
        *,
        of: str | None = None,
        best: str | None = None,
        **look: Unpack[Looks],
    ) -> dict[str, Any]:
        """The same picture as a Vega-Lite specification with its data, for other programs."""
        from fleetcube.presentation.pictures.picture import picture_options
        from fleetcube.presentation.pictures.vega import vega_lite
        from fleetcube.tables.tables import finite

        name, x, y = self._over(x, y, of)
        with picture_options(**look):
            spec: dict[str, Any] = finite(vega_lite(self._cube, name, x, y, best))
            return spec

    def _over(self, x: str | None, y: str | None, of: str | None) -> tuple[str, str, str | None]:
        """The variable and the axes to draw, with defaults filled in."""
        from fleetcube.grid.errors import InputError

        name = of or self._default_variable
        if name is None and len(self._cube.data_vars) == 1:
            (name,) = map(str, self._cube.data_vars)
        if name is None:
            some = ", ".join(map(str, self._cube.data_vars))
            raise InputError(f"nothing is named to be drawn; give of, one of {some}")
        if x is None and name in self._cube:
            dims = [str(dim) for dim in self._cube[name].dims]
            if not 1 <= len(dims) <= 2 or y is not None:
                listed = ", ".join(dims) or "no axis"
                raise InputError(f"{name} varies along {listed}; give x, and y for a map")
            x, y = [*dims, None][:2]
        return name, x or "", y

    def losses(
        self, x: str, *, path: str | PathLike[str] | None = None, **look: Unpack[Looks]
    ) -> Any:
        """Draw where the wall time goes along an axis."""
        from fleetcube.presentation.pictures.kinds import losses
        from fleetcube.presentation.pictures.picture import picture_options

        with picture_options(**look):
            return losses(self._cube, x, _path(path))

    def flips(
        self,
        x: str,
        y: str,
        *,
        of: Sequence[str] | None = None,
        path: str | PathLike[str] | None = None,
        **look: Unpack[Looks],
    ) -> Any:
        """Draw which loss is the largest over two axes; `of` names the losses compared."""
        from fleetcube.presentation.pictures.kinds import WAITS, flips
        from fleetcube.presentation.pictures.picture import picture_options

        with picture_options(**look):
            return flips(self._cube, x, y, _path(path), of or WAITS)

    def roofline(
        self,
        by: str | None = None,
        *,
        path: str | PathLike[str] | None = None,
        **look: Unpack[Looks],
    ) -> Any:
        """Draw the roofline and the rate that GPUs reach, for each point of an axis."""
        from fleetcube.grid.spec.graphs import graph_at
        from fleetcube.grid.spec.values import unit_of
        from fleetcube.presentation.pictures.kinds import NETWORK, ROOFLINE, roofline
        from fleetcube.presentation.pictures.picture import picture_options
        from fleetcube.tables.arrays import in_units

        names = [name for name in (*ROOFLINE, NETWORK) if name in self._cube.data_vars]
        graph = graph_at(self._cube.attrs)
        in_base_units = in_units(self._cube, {name: unit_of(graph, name) for name in names})
        with picture_options(**look):
            return roofline(in_base_units, _path(path), by)

    def pareto(
        self,
        x: str,
        y: str,
        best: Sequence[str] = ("min", "min"),
        *,
        by: str | None = None,
        path: str | PathLike[str] | None = None,
        **look: Unpack[Looks],
    ) -> Any:
        """Draw two outputs of all points against each other, and their Pareto front."""
        from fleetcube.presentation.pictures.kinds import pareto
        from fleetcube.presentation.pictures.picture import picture_options

        with picture_options(**look):
            return pareto(self._cube, x, y, _path(path), best, by)

    def schedule(self, *, path: str | PathLike[str] | None = None, **look: Unpack[Looks]) -> Any:
        """Draw which pipeline stage computes what and when, in a step of a one-point cube."""
        from fleetcube.presentation.pictures.picture import picture_options
        from fleetcube.presentation.pictures.schedule_picture import draw_schedule
        from fleetcube.schedules.job_schedule import schedule_at

        with picture_options(**look):
            return draw_schedule(schedule_at(self._cube), _path(path), "s")

    def timeline(self, *, path: str | PathLike[str] | None = None, **look: Unpack[Looks]) -> Any:
        """Draw how long each phase of a job takes; `phase` is the cube's only axis."""
        from fleetcube.presentation.pictures.picture import picture_options
        from fleetcube.presentation.pictures.timeline import timeline

        with picture_options(**look):
            return timeline(self._cube, _path(path))


def _path(path: str | PathLike[str] | None) -> Path | None:
    return None if path is None else Path(path).expanduser()


class _Attribute:
    """`.fleetcube` of an xarray class, created anew on each access."""

    def __init__(self, accessor: type[Any]) -> None:
        self._accessor = accessor

    def __get__(self, cube: Any, owner: type[Any]) -> Any:
        return self._accessor if cube is None else self._accessor(cube)


# Not register_dataset_accessor: its reference cycle keeps arrays alive, and pickles need fleetcube
setattr(xarray.Dataset, "fleetcube", _Attribute(DatasetAccessor))  # noqa: B010
setattr(xarray.DataArray, "fleetcube", _Attribute(DataArrayAccessor))  # noqa: B010
