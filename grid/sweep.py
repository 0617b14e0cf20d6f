"""A sweep: a scenario, its axes and the outputs wanted."""

import itertools
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.job import default_threads
from . import memory
from .axes import Array
from .blocks import blocks
from .dataset import dataset, dtype_of
from .errors import InputError, nearest
from .execute import evaluate_block
from .plan import Plan
from .scenario import resolve

if TYPE_CHECKING:
    import xarray

BLOCK = {"numpy": 1 << 25, "numba": 1 << 25, "jax": 1 << 22}  # points evaluated at once
_DTYPES = ("float64", "float32")


class Sweep:
    """Every combination of the axes' values, for some outputs.

    Args:
        scenario: inputs by name: numbers in SI base units, text with a unit ("400 Gbit/s"),
            choices of options, or catalog labels (gpu, node, fabric, model, storage, reliability).
        axes: what varies: name -> values, or a table as in a spec file (see `make_axis`). An axis
            overrides the scenario's value of the same name.
        outputs: names of quantities; see `fleetcube explain`.

    Raises InputError (a ValueError) in one line for anything that cannot be used.
    """

    def __init__(
        self, scenario: Mapping[str, Any], axes: Mapping[str, Any], outputs: Sequence[str]
    ) -> None:
        self.spec = {"outputs": outputs, "scenario": scenario, "axes": axes}
        self._problem = resolve(scenario, axes)
        self._outputs = outputs
        self._plans: dict[tuple[str, bool], Plan] = {}
        self.plan()  # everything that is wrong is found before anything is computed

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> "Sweep":
        """Read a TOML spec with `outputs`, `[scenario]` and `[axes]`."""
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise InputError(f"cannot read {str(path)!r}: {reason}; give a TOML file") from None
        try:
            spec = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{str(path)!r} is not TOML: {error}; mend that line") from None
        keys = ("outputs", "scenario", "axes")
        for key in spec:
            if key not in keys:
                hint = nearest(key, keys, f"it may hold {', '.join(keys)}")
                raise InputError(f"{str(path)!r}: unknown table {key[:40]!r}; {hint}")
        if "outputs" not in spec:
            raise InputError(f'{str(path)!r} names no outputs; write outputs = ["job_time"]')
        return cls(spec.get("scenario", {}), spec.get("axes", {}), spec["outputs"])

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
        progress: Callable[[int, int], None] | None = None,
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
        `progress` is called with the values written and their total.

        `dask` has a cluster's workers evaluate the blocks and write them into the folder, which
        they must share: a number of processes to start here, with a thread each (`threads` is for
        runs without Dask); a scheduler's address; or a `distributed.Client`. A worker thread holds
        one block at a time: its outputs, and a chunk as it is written. The bytes are the same.

        Raises OSError for what fails while it runs, and says how much is kept, and InputError where
        the target exists, cannot be written, or is larger than the disk. Returns the path or the
        URL.
        """
        from .append import engine_of
        from .cube import check_chunks, store
        from .place import Folder, place_of
        from .stream import cluster_of

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
                progress=progress,
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
        outputs, flags included, are given at the winner.

        Returns a Dataset of the reduced outputs, in about the memory of a few blocks.
        """
        from . import stream
        from .reduce import reduce

        plan = self.plan(engine, mask_infeasible)
        with stream.mapping(plan, self.spec, check_threads(threads), dask) as map_:
            return reduce(plan, self.spec, how, over, map_, of, q)

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
        from . import stream
        from .crossing import crossing

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
        from . import stream
        from .pareto import pareto

        plan = self.plan(engine, mask_infeasible)
        with stream.mapping(plan, self.spec, check_threads(threads), dask) as map_:
            return pareto(plan, self.spec, of, senses, over, map_)

    def uncertainty(
        self,
        of: str | Sequence[str] | None = None,
        q: Sequence[float] = (0.05, 0.5, 0.95),
        *,
        method: str = "sampled",
        samples: int = 4096,
        seed: int = 0,
        engine: str = "auto",
        mask_infeasible: bool = False,
        threads: int | None = None,
        dask: Any = None,
    ) -> "xarray.Dataset":
        """What the distributions in the scenario make of outputs, at every point of the grid.

        Args:
            of: outputs; by default all that are numbers.
            q: shares of the probability, for quantiles.
            method: "sampled" evaluates `samples` draws (scrambled Sobol points of `seed`, the same
                at every point); "first_order" propagates variances along exact slopes at the
                medians, and takes an output as lognormal where all its uncertain inputs are, else
                as normal.
            dask: as for `reduce`.

        Returns a Dataset of each output over its axes and `quantile`, with `<output>_mean` and
        `<output>_std`; NaN where any draw is NaN. Everything else that a sweep does takes the
        median of each distribution. An axis stands before a distribution of the same input.
        """
        from .uncertainty import uncertainty

        count = check_threads(threads)
        settings = (samples, seed, engine, mask_infeasible, count, dask)
        return uncertainty(self, of, q, method, *settings)

    def levers(
        self,
        of: str,
        wrt: str | Sequence[str] | None = None,
        *,
        at: Mapping[str, Any] | None = None,
    ) -> "xarray.Dataset":
        """Inputs ranked by the size of their elasticity, at one point of the grid.

        Args:
            of: a quantity.
            wrt: inputs, or quantities that are given; by default every number that `of` depends on.
            at: values of axes, numbers or text with a unit; the middle of the others is taken.

        Returns a Dataset over `input`: elasticity, value, and what the quantity becomes, evaluated
        anew, where the input is 10 % smaller (`<of>_below`) and larger (`<of>_above`), or at the
        nearest valid whole numbers. `fleetcube_point` among its attributes says which point it is.
        """
        from .sensitivity import levers

        return levers(self, of, wrt, at)

    def dominance(
        self,
        of: str,
        wrt: str | Sequence[str] | None = None,
        *,
        engine: str = "numpy",
        mask_infeasible: bool = False,
        threads: int | None = None,
        dask: Any = None,
    ) -> "xarray.Dataset":
        """Which input has the largest elasticity, by size, at every point of the grid.

        Arguments are those of `levers` and `reduce`; to compile pays for a hundred million points.
        Of inputs whose elasticities are equal the first in the order of `fleetcube explain` leads;
        where they are equal everywhere, the coordinate `same_as` names the first one.

        Returns a Dataset: `dominant`, a flag over the axes (0: none), and over `input` the share of
        the points that each dominates and the range of its elasticity.
        """
        from .sensitivity import dominance

        return dominance(self, of, wrt, engine, mask_infeasible, check_threads(threads), dask)

    def global_sensitivity(
        self,
        of: str,
        method: str = "sobol",
        wrt: str | Sequence[str] | None = None,
        *,
        at: Mapping[str, Any] | None = None,
        samples: int = 100_000,
        spread: float = 0.2,
        seed: int = 0,
        engine: str = "auto",
        threads: int | None = None,
    ) -> "xarray.Dataset":
        """How much of the variance of a quantity inputs explain when all of them vary at once.

        Args:
            of, wrt, at: as for `levers`, without whole-numbered inputs that have no distribution.
            method: "sobol" (first-order and total indices) or "morris" (elementary effects).
            samples: evaluations, about.
            spread: inputs without a distribution vary evenly by this factor about their value.

        Returns a Dataset over `input`, with 95 % confidence intervals. Needs the extra `sens`.
        """
        from .global_sensitivity import global_sensitivity

        count = check_threads(threads)
        settings = (samples, spread, seed, engine, count)
        return global_sensitivity(self, of, method, wrt, at, *settings)

    def gradient(
        self,
        of: str,
        wrt: str | Sequence[str] | None = None,
        *,
        engine: str = "auto",
        threads: int | None = None,
    ) -> "xarray.DataArray":
        """Exact derivatives of a quantity with respect to inputs, at every point.

        Args:
            of: a quantity.
            wrt: inputs, or quantities that are given; by default every continuous input that `of`
                depends on. For whole-numbered inputs the slope between the valid whole numbers on
                both sides is given, which the coordinate `kind` calls "difference".

        Returns dy/dx in SI base units over `input` and the axes that any of the derivatives depends
        on; 0 where an input has no effect. At kinks see docs/gradients.md. To store or reduce
        gradients of any size see `derivatives`.
        """
        return self.jacobian([of], wrt, engine=engine, threads=threads).isel(output=0)

    def elasticity(
        self,
        of: str,
        wrt: str | Sequence[str] | None = None,
        *,
        engine: str = "auto",
        threads: int | None = None,
    ) -> "xarray.DataArray":
        """Relative change of a quantity over the relative change of inputs: d ln y / d ln x.

        Arguments and dimensions are those of `gradient`. 0.5 says that 1 % more of the input gives
        0.5 % more of the quantity.
        """
        found = self.jacobian([of], wrt, elasticity=True, engine=engine, threads=threads)
        return found.isel(output=0)

    def jacobian(
        self,
        of: Sequence[str],
        wrt: str | Sequence[str] | None = None,
        *,
        elasticity: bool = False,
        engine: str = "auto",
        threads: int | None = None,
    ) -> "xarray.DataArray":
        """Exact derivatives of several quantities, over `output`, `input` and axes.

        See `gradient`; with `elasticity`, relative ones.
        """
        from .gradient import jacobian, names

        rows = names(self, of, wrt, elasticity)
        flat = [name for row in rows for name in row]
        return jacobian(self.of(flat), rows, engine, check_threads(threads))

    def derivatives(
        self,
        of: str | Sequence[str],
        wrt: str | Sequence[str] | None = None,
        *,
        elasticity: bool = False,
    ) -> "Sweep":
        """The sweep whose outputs are derivatives, to be stored, reduced or sliced like any other.

        Its outputs are `d_<of>_d_<input>`, or `dln_<of>_dln_<input>` with `elasticity`;
        `delta_...` and `deltaln_...` for whole-numbered inputs. A spec may name them, too.
        """
        from .gradient import names

        return self.of([name for row in names(self, of, wrt, elasticity) for name in row])

    def of(self, outputs: Sequence[str]) -> "Sweep":
        """The same sweep of other outputs."""
        return Sweep(self.spec["scenario"], self.spec["axes"], outputs)  # type: ignore[arg-type]

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
        from .cube import check_chunks
        from .lazy import lazy

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
        from .virtual import virtual

        return virtual(self, engine, dtype, mask_infeasible)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size}" for name, size in self.sizes.items())
        return f"<fleetcube.Sweep ({sizes}) {self.points:,} points -> {', '.join(self._outputs)}>"


def check_dtype(dtype: Any) -> str:
    """The name of a supported type."""
    if str(dtype) not in _DTYPES:
        raise InputError(f"dtype = {dtype!r} is unknown; choose one of {', '.join(_DTYPES)}")
    return str(dtype)


def check_threads(threads: int | None) -> int:
    """A whole number of threads, all cores by default."""
    if threads is None:
        return default_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InputError(f"threads = {threads!r} is not a whole number above 0; give one")
    return threads


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
