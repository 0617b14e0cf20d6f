"""Virtual cubes: an xarray backend that computes what is sliced."""

import copy
import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from ...catalog.files import parse_toml, read_some
from ...kernels.engines.job import default_threads
from ..errors import InputError
from ..plan import memory
from ..plan.execute import Block
from ..plan.labels import assemble, attributes, dtype_of
from ..plan.plan import REASON, Case, Plan
from ..run.lazy import chunk_sizes
from ..run.recipe import Recipe
from ..spec.axes import Array

if TYPE_CHECKING:
    from ..evaluation import Evaluation

ALONE = 1 << 16  # points up to which threads cost more than they bring
SMALLER = 8  # what is this many times smaller than the slice is evaluated before it
KNOWN = 1 << 12  # points up to which a table of the whole sweep is kept, and looked up
LARGEST_SPEC = 1 << 24  # bytes of a TOML file that is looked into unasked

Places = Mapping[str, Array]  # by dimension: indices, in arrays that broadcast to a shape


class _Part(Plan):
    """A case at chosen places: the plan's formulas over other dimensions, those of the result.

    JAX's values depend on what is a table: that stays as the whole sweep has it.
    """

    def __init__(
        self, whole: Plan, case: Case, places: Places, shape: tuple[int, ...], engine: str
    ) -> None:
        self.__dict__.update(whole.__dict__)
        self.engine = engine
        self._whole, self._of, self._places, self._tables = whole, case, places, {}
        names = tuple(map(str, range(len(shape))))
        self.axes: Any = tuple(SimpleNamespace(name=name) for name in names)
        self.sizes = dict(zip(names, shape, strict=True))
        self.points = math.prod(shape)
        along = {
            dim: {name for name, size in zip(names, at.shape, strict=True) if size > 1}
            for dim, at in places.items()
        }
        shadows = {
            dims: tuple(n for n in names if any(n in along[dim] for dim in dims))
            for dims in set(whole.dims.values())
            if all(dim in places for dim in dims)
        }
        self.dims = {name: shadows[dims] for name, dims in whole.dims.items() if dims in shadows}
        self.case = Case({}, case.formulas, dict(self._leaves(case, places, len(shape))))

    def _leaves(self, case: Case, places: Places, ndim: int) -> Any:
        for name, leaf in case.leaves.items():
            if leaf.size == 1:
                yield name, leaf.reshape((1,) * ndim)
                continue
            axis = self._whole.axes[int(np.argmax(leaf.shape))].name
            if axis in places:
                start = case.runs[axis].start if axis in case.runs else 0
                yield name, leaf.reshape(-1)[places[axis] - start]

    def is_table(self, name: str) -> bool:
        if self.engine == "jax":
            return self._whole.is_table(name)
        return self.size(name) * SMALLER <= self.points or self._is_known(name)

    def _is_known(self, name: str) -> bool:
        whole = self._whole
        return self.engine != "jax" and whole.size(name) <= KNOWN and whole.is_table(name)

    def table(self, case: Case, name: str) -> Array:
        if name not in case.formulas or not self._is_known(name):
            return super().table(case, name)
        if (name, ()) not in self._tables:
            held, runs = self._whole.table(self._of, name), self._of.runs
            index = tuple(
                self._places[axis.name] - (runs[axis.name].start if axis.name in runs else 0)
                if size > 1
                else 0
                for axis, size in zip(self._whole.axes, held.shape, strict=True)
            )
            found = held[index]
            self._tables[name, ()] = found if found.ndim else found.reshape((1,) * len(self.axes))
        return self._tables[name, ()]


def values_at(
    plan: Plan, names: list[str], places: Places, shape: tuple[int, ...], dtype: str, engine: str
) -> dict[str, Array]:
    """Outputs that share dimensions, at the places given for each of these dimensions.

    Index arrays broadcast to `shape`: arrays along an axis each make a grid, arrays along the same
    axis are walked together. Nothing is evaluated but the points asked for. `engine` is the plan's,
    or "auto" for a plan of NumPy: numba as soon as it has compiled.
    """
    whole = shape or (1,)
    places = {dim: at if shape else at.reshape(1) for dim, at in places.items()}
    outs = _room(names, whole, dtype)
    if math.prod(whole):
        for case in plan.cases_of(tuple(places)):
            _fill(plan, case, places, outs, whole, dtype, engine)
        masked = [name for name in names if plan.mask and name in plan.layout_dependent]
        if masked:
            own = {dim: places[dim] for dim in plan.out_dims[REASON]}
            unmasked = copy.copy(plan)
            unmasked.mask = False
            reason = values_at(unmasked, [REASON], own, whole, dtype, engine)[REASON]
            for name in masked:
                lost = -1 if outs[name].dtype == np.int8 else np.nan
                np.copyto(outs[name], lost, where=reason != 0)
    return {name: out.reshape(shape) for name, out in outs.items()}


def _fill(
    plan: Plan,
    case: Case,
    places: Places,
    outs: Mapping[str, Array],
    shape: tuple[int, ...],
    dtype: str,
    engine: str,
) -> None:
    """Evaluate a case where the places fall into it."""
    inside = np.ones((1,) * len(shape), bool)
    for dim, run in case.runs.items():
        if dim in places:
            inside = inside & (places[dim] >= run.start) & (places[dim] < run.stop)
    if not inside.any():
        return
    if inside.all():
        _evaluate(plan, case, places, outs, shape, engine)
        return
    others = [tuple(j for j in range(len(shape)) if j != k) for k in range(len(shape))]
    rows = [np.flatnonzero(inside.any(axis=other)) for other in others]
    target: Any
    if math.prod(map(len, rows)) == np.count_nonzero(inside):  # a grid within the grid
        kept = [
            row if size > 1 else np.arange(full)
            for row, size, full in zip(rows, inside.shape, shape, strict=True)
        ]
        target = np.ix_(*kept)
        part = {
            dim: at[np.ix_(*[k if n > 1 else [0] for k, n in zip(kept, at.shape, strict=True)])]
            for dim, at in places.items()
        }
        size = tuple(map(len, kept))
    else:
        target = np.nonzero(np.broadcast_to(inside, shape))
        part = {dim: np.broadcast_to(at, shape)[target] for dim, at in places.items()}
        size = target[0].shape
    found = _room(list(outs), size, dtype)
    _evaluate(plan, case, part, found, size, engine)
    for name, out in outs.items():
        out[target] = found[name]


def _evaluate(
    plan: Plan,
    case: Case,
    places: Places,
    outs: Mapping[str, Array],
    shape: tuple[int, ...],
    engine: str,
) -> None:
    part = _Part(plan, case, places, shape, engine)
    threads = 1 if math.prod(shape) <= ALONE else default_threads()
    region = {name: slice(0, size) for name, size in part.sizes.items()}
    Block(part, part.case, threads).fill(tuple(region), region, outs)


def _room(names: list[str], shape: tuple[int, ...], dtype: str) -> dict[str, Array]:
    size = sum(math.prod(shape) * dtype_of(name, dtype).itemsize for name in names)
    if size > 1 << 26 and size > 0.9 * memory.available():
        raise InputError(
            f"the slice takes {memory.human(size)} and {memory.human(memory.available())} of "
            "memory are free; take a smaller one, or reduce blocks (Sweep.reduce, Sweep.lazy)"
        )
    return {name: np.empty(shape, dtype_of(name, dtype)) for name in names}


class Output(BackendArray):
    """One output of a sweep, computed where it is indexed."""

    def __init__(self, recipe: Recipe, name: str, dtype: str, engine: str) -> None:
        plan = recipe.plan
        self.recipe, self.name, self.number, self.engine = recipe, name, dtype, engine
        self.dims = plan.user_dims(name)
        self.shape = plan.shape(self.dims)
        self.dtype = dtype_of(name, dtype)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if isinstance(key, indexing.VectorizedIndexer):
            places, shape = _coupled(key, self.shape)
        else:
            places, shape = _outer(key, self.shape)
        at = dict(zip(self.dims, places, strict=True))
        plan, names = self.recipe.plan, [self.name]
        return values_at(plan, names, at, shape, self.number, self.engine)[self.name]


def _outer(
    key: indexing.ExplicitIndexer, sizes: tuple[int, ...]
) -> tuple[list[Array], tuple[int, ...]]:
    """Places of numbers, slices and arrays along one axis each."""
    rows = [_row(part, size) for part, size in zip(key.tuple, sizes, strict=True)]
    ndim = sum(row.ndim for row in rows)
    places, axis = [], 0
    for row in rows:
        shape = [1] * ndim
        if row.ndim:
            shape[axis] = row.size
            axis += 1
        places.append(row.reshape(shape))
    return places, tuple(row.size for row in rows if row.ndim)


def _coupled(
    key: indexing.VectorizedIndexer, sizes: tuple[int, ...]
) -> tuple[list[Array], tuple[int, ...]]:
    """Places of arrays that are walked together, each without the axes that it does not need."""
    arrays = indexing._arrayize_vectorized_indexer(key, sizes).tuple
    places = [_row(part, size) for part, size in zip(arrays, sizes, strict=True)]
    shape = np.broadcast_shapes(*[place.shape for place in places])
    for k, place in enumerate(places):
        for axis in range(place.ndim):
            first = place.take([0], axis) if place.shape[axis] > 1 else place
            if place.shape[axis] > 1 and (place == first).all():
                place = first
        places[k] = place
    return places, shape


def _row(part: Any, size: int) -> Array:
    """Indices from 0, as an array. Raises IndexError."""
    if isinstance(part, slice):
        return np.arange(*part.indices(size))
    row = np.asarray(part)
    if row.dtype.kind == "b":
        row = np.flatnonzero(row)
    row = row.astype(np.int64, copy=False)
    if row.size and (row.min() < -size or row.max() >= size):
        raise IndexError(f"an index is out of bounds for an axis of {size:,} values")
    return np.where(row < 0, row + size, row)


def virtual(sweep: "Evaluation", engine: str, dtype: str, mask_infeasible: bool) -> xarray.Dataset:
    """A Dataset of a sweep's outputs that computes what is sliced."""
    from ..spec.values import check_dtype

    plan = sweep.plan("numpy" if engine == "auto" else engine, mask_infeasible)
    number, recipe = check_dtype(dtype), Recipe(sweep.spec, plan)
    variables: dict[str, xarray.Variable] = {}
    for name in plan.outputs:
        values = indexing.LazilyIndexedArray(Output(recipe, name, number, engine))
        encoding = {"preferred_chunks": chunk_sizes(plan, name, {})}
        variables[name] = xarray.Variable(
            plan.user_dims(name), values, attributes(plan, name), encoding
        )
    return assemble(plan, variables, sweep.spec)


class Backend(BackendEntrypoint):
    """`xarray.open_dataset("sweep.toml", engine="fleetcube")`, or of a Sweep, or of a stored cube.

    Sweeps take `compute_engine` ("auto", "numpy", "numba" or "jax"), `dtype` and `mask_infeasible`,
    as `Sweep.virtual` does; a stored cube is opened by `open_cube`.
    """

    description = "Compute slices of a fleetcube sweep from its TOML spec"
    open_dataset_parameters = (
        "filename_or_obj",
        "drop_variables",
        "compute_engine",
        "dtype",
        "mask_infeasible",
    )

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: Any = None,
        compute_engine: str = "auto",
        dtype: str = "float64",
        mask_infeasible: bool = False,
    ) -> xarray.Dataset:
        """Open a spec, a Sweep or a stored cube; nothing is evaluated."""
        from ..store.cube import open_cube
        from ..sweep import Sweep

        source = filename_or_obj
        if not isinstance(source, str | PathLike | Sweep):
            raise InputError(f"{type(source).__name__} is not a sweep; give a TOML file or a Sweep")
        if not isinstance(source, Sweep) and ("://" in str(source) or Path(source).is_dir()):
            cube = open_cube(source)
        else:
            sweep = source if isinstance(source, Sweep) else Sweep.from_file(source)
            cube = virtual(sweep, compute_engine, dtype, mask_infeasible)
        drop = [drop_variables] if isinstance(drop_variables, str) else drop_variables or []
        return cube.drop_vars(drop, errors="ignore")

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Whether this is a TOML file that names outputs."""
        if not isinstance(filename_or_obj, str | PathLike):
            return False
        path = Path(filename_or_obj)
        try:
            held = read_some(path, LARGEST_SPEC) if path.suffix == ".toml" else b""
            small = len(held) <= LARGEST_SPEC
            return small and "outputs" in parse_toml(held.decode("utf-8-sig"))
        except (OSError, ValueError):
            return False
