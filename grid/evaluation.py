"""A sweep's values: evaluated in memory, stored, reduced, or computed where they are sliced."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .errors import InputError
from .plan import memory
from .plan.execute import evaluate_block
from .plan.labels import dataset, dtype_of
from .plan.plan import NEAR, REASON, Plan
from .plan.tiles import blocks
from .spec.axes import Array
from .spec.file import read_spec
from .spec.scenario import resolve
from .spec.values import check_dtype, check_threads, without_unit

if TYPE_CHECKING:
    import xarray

BLOCK = {"numpy": 1 << 25, "numba": 1 << 25, "jax": 1 << 22}  # points evaluated at once


class Evaluation:
    """What a sweep evaluates, and what it does with the values; see `Sweep`."""

    def __init__(
        self, scenario: Mapping[str, Any], axes: Mapping[str, Any], outputs: Sequence[str]
    ) -> None:
        scenario, axes = without_unit("", scenario), without_unit("", axes)
        self.spec = {"outputs": outputs, "scenario": scenario, "axes": axes}
        self._problem = resolve(scenario, axes)
        self._outputs = outputs
        self._plans: dict[tuple[str, bool], Plan] = {}
        self.plan()  # everything that is wrong is found before anything is computed

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> Self:
        """Read a TOML spec with `outputs`, `[scenario]` and `[axes]`.

        Calibration files are found from the folder of the spec.
        """
        spec = read_spec(path)
        if not spec["outputs"]:
            raise InputError(f'{str(path)!r} names no outputs; write outputs = ["job_time"]')
        return cls(spec["scenario"], spec["axes"], spec["outputs"])

    @property
    def sizes(self) -> dict[str, int]:
        """Length of every axis, in the order written."""
        return {axis.name: axis.size for axis in self._problem.axes}

    @property
    def points(self) -> int:
        """Points of the full grid."""
        return math.prod(self.sizes.values())

    def plan(self, engine: str = "auto", mask_infeasible: bool = False) -> Plan:
        """The plan of an engine; plans and their tables are kept."""
        if not isinstance(engine, str) or not isinstance(mask_infeasible, bool):
            raise InputError(
                f"engine = {engine!r} or mask_infeasible = {mask_infeasible!r} is not usable; "
                "give the name of an engine, and True or False"
            )
        key = (engine, mask_infeasible)
        if key not in self._plans:
            self._plans[key] = Plan(self._problem, self._outputs, engine, mask_infeasible)
        return self._plans[key]

    def evaluate(
        self,
        engine: str = "auto",
        out: "xarray.Dataset | None" = None,
        *,
        dtype: str = "float64",
        mask_infeasible: bool = False,
        threads: int | None = None,
    ) -> "xarray.Dataset":
        """Compute every output at every point, in memory.

        Args:
            engine: "numpy" (nothing compiled), "numba", "jax", or "auto" (by size).
            out: a Dataset of an earlier call, whose arrays are used again.
            dtype: "float64" or "float32"; flags are int8.
            mask_infeasible: NaN (-1 in flags) in layout-dependent outputs where
                `infeasible_reason` is not 0.
            threads: cores to use; all that the process may use by default.

        Returns a Dataset in which every output has its own dimensions only. Memory order is the
        plan's; dimensions are in the order of the axes. Raises InputError for a result that does
        not fit in memory.
        """
        plan = self.plan(engine, mask_infeasible)
        threads = check_threads(threads)
        arrays = self._arrays(plan, check_dtype(dtype), out, threads)
        for dims, names in plan.groups().items():
            sizes = {dim: plan.sizes[dim] for dim in dims}
            for region in blocks(sizes, BLOCK[plan.engine]):
                cut: Any = (*region.values(), ...)
                views = {name: arrays[name][cut] for name in names}
                evaluate_block(plan, dims, region, views, threads)
        return dataset(plan, arrays, self.spec)

    def _arrays(
        self, plan: Plan, dtype: str, out: "xarray.Dataset | None", threads: int
    ) -> dict[str, Array]:
        types = {name: dtype_of(name, dtype) for name in plan.outputs}
        shapes = {name: plan.shape(plan.out_dims[name]) for name in plan.outputs}
        if out is not None:
            arrays = {name: _reused(plan, out, name, shapes[name], types[name]) for name in types}
            for one, other in itertools.combinations(arrays, 2):
                if np.may_share_memory(arrays[one], arrays[other]):
                    raise InputError(f"out[{one!r}] and out[{other!r}] share memory; separate them")
            return arrays
        size = sum(math.prod(shapes[name]) * types[name].itemsize for name in types)
        memory.check(
            size,
            "store it (Sweep.store, fleetcube run), reduce it (Sweep.reduce) or shorten an axis",
        )
        return {name: memory.allocate(shapes[name], types[name], threads) for name in types}

    def store(
        self,
        path: str | PathLike[str],
        *,
        engine: str = "auto",
        overwrite: bool = False,
        resume: bool = False,
        append: bool = False,
        dtype: str = "float64",
        chunks: Mapping[str, int] | None = None,
        mask_infeasible: bool = False,
        threads: int | None = None,
        dask: Any = None,
    ) -> Path | str:
        """Compute every output at every point into a Zarr v3 cube, in bounded memory.

        `path` is a folder, or a URL such as "s3://bucket/cubes/a.zarr". The cube appears there
        only when it is complete; until then it is built beside it in `path` + ".partial", on an
        object store in its place, where every finished block survives a failure or a kill. With
        `resume`, an unfinished cube is continued to the same bytes, a complete one is checked and
        its damaged blocks are written again, and where there is none the sweep begins; a cube of
        another spec, catalog, code or version is refused. With `append`, a complete cube gets the
        labels that axes have now after those it has: its blocks are kept, and only new ones are
        computed, in its own chunks. `chunks` are sizes by axis; by default
        chunks hold 8 MB and are cut alike along every axis, so that slices along each are fast.

        `dask` has a cluster's workers evaluate the blocks and write them into the folder, which
        they must share: a number of processes to start here, with a thread each (`threads` is for
        runs without Dask); a scheduler's address; or a `distributed.Client`. A worker thread holds
        one block at a time: its outputs, and a chunk as it is written. The bytes are the same.

        Raises OSError for what fails while it runs, and says how much is kept, and InputError where
        the target exists, cannot be written, or is larger than the disk. Returns the path or the
        URL.
        """
        from .run.threads import cluster_of
        from .store.append import engine_of
        from .store.cube import check_chunks, store
        from .store.places.place import Folder, place_of

        place = place_of(path)
        if append and engine == "auto":  # whatever the size is now
            engine = engine_of(place)
        plan = self.plan(engine, mask_infeasible)
        with cluster_of(plan, self.spec, dask) as cluster:
            store(
                plan,
                self.spec,
                place,
                overwrite=overwrite,
                resume=resume,
                append=append,
                dtype=check_dtype(dtype),
                chunks=check_chunks(plan, chunks),
                threads=check_threads(threads),
                cluster=cluster,
            )
        return place.path if isinstance(place, Folder) else str(place)

    def reduce(
        self,
        how: str,
        over: Sequence[str] | None = None,
        *,
        of: str | None = None,
        q: float | None = None,
        engine: str = "auto",
        mask_infeasible: bool = False,
        threads: int | None = None,
        dask: Any = None,
    ) -> "xarray.Dataset":
        """Reduce outputs over axes as they are computed, without keeping the grid.

        Args:
            how: "min", "max", "mean", "sum" or "quantile", which skip NaN; "count" of the finite
                points (with `mask_infeasible`, of the feasible ones); "argmin" or "argmax", the
                extreme with the labels of the point that has it. Flags are left out.
            over: axes to reduce; all of them by default. An output keeps its other axes, and is
                reduced over those axes only that it depends on.
            of: reduce this output only.
            q: share of the points below the quantile, from 0 to 1. Quantiles are exact, linear
                between order statistics; more than a million points under one quantile are
                evaluated up to five times.
            dask: compute with a Dask cluster instead of threads, to the same bits: a number of
                processes to start here, a scheduler's address, or a `distributed.Client`.

        "argmin" and "argmax" put the labels into coordinates `<axis>_at_min_<output>` (or `_max_`).
        Of equal points the first wins, in the order in which axes and values were written. Where
        all is NaN, the value is NaN and the label NaN or an empty text. With `of`, the other
        outputs, flags included, are given at the winner, and `near_memory_limit` where memory is
        limited.

        Returns a Dataset of the reduced outputs, in about the memory of a few blocks.
        """
        from .reduce.fold import reduce
        from .run import threads as stream

        asked = self.judged if how in ("argmin", "argmax") and of is not None else self
        plan = asked.plan(engine, mask_infeasible)
        with stream.mapping(plan, asked.spec, check_threads(threads), dask) as map_:
            found = reduce(plan, self.spec, how, over, map_, of, q)
        return found if asked is self else found.set_coords(NEAR)

    def crossing(
        self,
        of: str,
        along: str,
        at: float | str,
        *,
        interpolate: str = "linear",
        engine: str = "auto",
        mask_infeasible: bool = False,
        threads: int | None = None,
        dask: Any = None,
    ) -> "xarray.DataArray":
        """Where an output first crosses a threshold along an axis of numbers.

        Args:
            of: the output.
            along: the axis, followed in the order of its values as written.
            at: the threshold, a number in the base unit or text with a unit.
            interpolate: "linear" between neighbouring points, or "log": linear in the logarithms
                of both, which must be above 0.
            dask: as for `reduce`.

        Returns the axis' value over the output's other axes: NaN where the output does not cross.
        Nothing is crossed beside a point that is NaN.
        """
        from .reduce.crossing import crossing
        from .run import threads as stream

        plan = self.plan(engine, mask_infeasible)
        with stream.mapping(plan, self.spec, check_threads(threads), dask) as map_:
            return crossing(plan, self.spec, of, along, at, interpolate, map_)

    def pareto(
        self,
        of: Sequence[str],
        senses: Sequence[str],
        over: Sequence[str] | None = None,
        *,
        engine: str = "auto",
        mask_infeasible: bool = False,
        threads: int | None = None,
        dask: Any = None,
    ) -> "xarray.Dataset":
        """The points that no other beats in two or three outputs, with their labels.

        Args:
            of: two or three outputs.
            senses: "min" or "max" for each.
            over: axes to search; all of them by default. There is one front for each point of the
                others.
            dask: as for `reduce`.

        Returns a Dataset along `front`: the outputs, and every axis that they depend on as a
        coordinate. Fronts follow each other in the order of the axes; each is sorted by the first
        output, best first. Of equal points the first is listed; points where one of the outputs is
        not finite are left out.
        """
        from .reduce.pareto import pareto
        from .run import threads as stream

        plan = self.plan(engine, mask_infeasible)
        with stream.mapping(plan, self.spec, check_threads(threads), dask) as map_:
            return pareto(plan, self.spec, of, senses, over, map_)

    def of(self, outputs: Sequence[str]) -> Self:
        """The same scenario and axes, for other outputs."""
        scenario: Any = self.spec["scenario"]
        axes: Any = self.spec["axes"]
        return type(self)(scenario, axes, outputs)

    @functools.cached_property
    def judged(self) -> Self:
        """With `near_memory_limit`, where `infeasible_reason` rests on a limit of memory."""
        plan = self.plan()
        limited = REASON in plan.outputs and any(
            np.isfinite(case.leaves.get("hbm_capacity", np.inf)).any() for case in plan.cases
        )
        return self.of([*self._outputs, NEAR]) if limited and NEAR not in self._outputs else self

    def lazy(
        self,
        chunks: Mapping[str, int] | None = None,
        *,
        engine: str = "auto",
        dtype: str = "float64",
        mask_infeasible: bool = False,
    ) -> "xarray.Dataset":
        """A Dask-backed Dataset: blocks are evaluated when they are computed, by any scheduler.

        One task evaluates all outputs that share dimensions over one block, on one thread.
        `chunks` are sizes by axis; by default blocks hold a million points and are cut alike along
        every axis.
        """
        from .run.lazy import lazy
        from .store.cube import check_chunks

        plan = self.plan(engine, mask_infeasible)
        return lazy(plan, self.spec, check_chunks(plan, chunks), check_dtype(dtype))

    def virtual(
        self, *, engine: str = "auto", dtype: str = "float64", mask_infeasible: bool = False
    ) -> "xarray.Dataset":
        """A Dataset of the whole grid, of any size, that computes what is sliced when it is read.

        `engine` "auto" evaluates with NumPy at once and compiles for large slices meanwhile; both
        give the same bits. What `xarray.open_dataset("sweep.toml", engine="fleetcube")` gives for a
        file.
        """
        from .read.virtual import virtual

        return virtual(self, engine, dtype, mask_infeasible)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size}" for name, size in self.sizes.items())
        return f"<fleetcube.Sweep ({sizes}) {self.points:,} points -> {', '.join(self._outputs)}>"


def _reused(
    plan: Plan, out: "xarray.Dataset", name: str, shape: tuple[int, ...], dtype: Any
) -> Array:
    """An output's array in an earlier result, its dimensions in the plan's order."""
    if not hasattr(out, "variables") or not hasattr(out, "data_vars"):
        raise InputError(f"out is {type(out).__name__}; give a Dataset of an earlier call")
    if name not in out.variables:
        raise InputError(f"out has no {name!r}; give a Dataset of an earlier call of this sweep")
    variable = out.variables[name]
    dims = plan.out_dims[name]
    if set(variable.dims) != set(dims) or variable.dtype != dtype:
        raise InputError(
            f"out[{name!r}] is {variable.dtype} over {variable.dims}, not {dtype} over {dims}; "
            "give a Dataset of an earlier call of this sweep"
        )
    array = variable.transpose(*dims).values
    if (
        array.shape != shape
        or not array.flags.writeable
        or not np.shares_memory(array, variable.values)
    ):
        raise InputError(f"out[{name!r}] cannot be reused: shape {array.shape}, not {shape}")
    return array
