"""A sweep: a scenario, its axes and the requested outputs, with every query it supports.

`Evaluation` computes values in memory. Each other method delegates to a module that it imports on
first use, so that a script loads only what it needs.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..kernels.roles import NEAR, REASON
from .errors import InputError
from .run.evaluation import Evaluation, is_known
from .run.settings import Settings
from .run.stream import cluster_of, mapping
from .spec.content import content
from .spec.scenario import carrying
from .spec.values import check_dtype, check_threads

if TYPE_CHECKING:
    import xarray


class Sweep(Evaluation):
    """Outputs at every combination of the axes' values, and queries of them.

    Args:
        scenario: inputs by name: numbers in SI base units, text with a unit ("400 Gbit/s"), choices
            of options, catalog labels (gpu, node, fabric, model, storage, reliability), or a
            calibration file (calibration = "my-cluster.toml").
        axes: name -> values, or a table as in a spec file (see `make_axis`). An axis overrides the
            scenario's value of the same name.
        outputs: names of quantities; see `fleetcube explain`.
        phases: consecutive parts of the job: for each, the inputs that differ from the scenario,
            its `training_tokens` and optionally a `name`. Times, costs and other totals are summed
            over phases, shares are averaged over time. Equivalent to `scenario["phase"]`; an axis
            `phase` of their names gives results per phase.

    Raises InputError (a ValueError) with a one-line message for unusable arguments.

    Sweeps are equal if they request the same outputs of the same inputs, with outputs and axes in
    the same order. Notation does not matter: an array, a list and texts with units are the same
    axis if their numbers are bitwise equal. Equal sweeps have equal hashes. A pickle stores the
    specification and the contents of calibration files, not results.
    """

    def __eq__(self, other: object) -> bool:
        return self._content == other._content if isinstance(other, Sweep) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    @functools.cached_property
    def _content(self) -> Hashable:
        return tuple(self._outputs), content(self._problem)

    def __reduce__(self) -> tuple[Any, ...]:
        spec = carrying(self.spec, self._problem.records)
        return type(self), (spec["scenario"], spec["axes"], spec["outputs"])

    def _repr_html_(self) -> str:
        from .show.html import sweep_html

        return sweep_html(self.plan(), self.spec)

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

        `path` is a folder, or a URL such as "s3://bucket/cubes/a.zarr". The cube appears there only
        when complete. A folder is built in `path` + ".partial", an object-store cube in place;
        finished blocks survive a failure or a kill. With `resume`, an unfinished cube is completed
        to the same bytes, a complete one is verified and its damaged blocks rewritten, and a
        missing one is started; a cube of another spec, catalog, code or version is refused. With
        `append`, a complete cube gets the labels added at the end of its axes: existing blocks and
        chunk sizes are kept, only new blocks are computed. `chunks` are sizes by axis; by default
        chunks hold 8 MB and are cut alike along every axis, so that slices along each are fast.

        `dask` has a cluster's workers evaluate the blocks and write them, with the same bytes, into
        the folder, which they must share: a number of processes to start here, with one thread each
        (`threads` is for runs without Dask); a scheduler's address; or a `distributed.Client`. A
        worker thread keeps one block in memory: its outputs, and the chunk being written.

        Raises OSError for a failure during the run, stating how much is kept, and InputError if the
        target exists, cannot be written, or is larger than the disk. Returns the path or the URL.
        """
        from .store.append import engine_of
        from .store.cube import check_chunks, store
        from .store.places.address import place_of
        from .store.places.place import Folder

        place = place_of(path)
        if append and engine == "auto":  # keep the cube's engine: the new size could select another
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
        where: Sequence[str] | None = None,
    ) -> "xarray.Dataset":
        """Reduce outputs over axes as they are computed, without keeping the grid.

        Args:
            how: "min", "max", "mean", "sum" or "quantile", which skip NaN; "count" of the finite
                points (with `mask_infeasible`, of the feasible ones); "argmin" or "argmax": the
                extreme and the labels of its point. Flags are left out.
            over: axes to reduce; all by default. Each output is reduced over those of them that it
                depends on, and keeps its other axes.
            of: reduce this output only.
            q: share of the points below the quantile, from 0 to 1. Quantiles are exact, linear
                between order statistics; more than a million points under one quantile are
                evaluated up to five times.
            dask: compute with a Dask cluster instead of threads, to the same bits: a number of
                processes to start here, a scheduler's address, or a `distributed.Client`.
            where: conditions such as "job_time <= 60 d" that select points of `of`; for extremes
                with labels, see `top`. Points then span the axes of all outputs named, and with
                `mask_infeasible` those that cannot be run are left out of every output, even of one
                that does not depend on the layout; an empty list does only this.

        "argmin" and "argmax" put the labels into coordinates `<axis>_at_min_<output>` (or `_max_`).
        Of equal points the first wins, in the order in which axes and values were written. Where
        all is NaN, the value is NaN and the label NaN or an empty text. With `of`, other outputs,
        flags included, are given at the winner, and `near_memory_limit` if memory is limited. An
        output that does not depend on the layout is never masked; the others are then read at the
        first value of the axes that it lacks.

        Extremes over billions of points are found by branch and bound where bounds from the
        formulas rule out most points: 10^12 layouts take seconds, with the values and labels of a
        full scan, to the bit (decision 25).

        Returns a Dataset. Memory: a few blocks; for bounded searches, tables of 16 million points.
        """
        from .reduce.fold import reduce

        settings = Settings(engine, mask_infeasible, threads, dask)
        sweep, conditions = self, None
        if where is not None:
            if of is None:
                raise InputError("where is for one output; name it with of")
            sweep, conditions = self._where([of], where, mask_infeasible)
        elif how in ("argmin", "argmax") and of is not None:
            sweep = self.with_memory_margin
        with mapping(sweep, settings) as (plan, map_):
            reduced = reduce(plan, self.spec, how, over, map_, settings.cores, of, q, conditions)
        return reduced if where is not None or sweep is self else reduced.set_coords(NEAR)

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
        """Find where an output first crosses a threshold along an axis of numbers.

        Args:
            of: the output.
            along: the axis, followed in the order of its values as written.
            at: the threshold, a number in the base unit or text with a unit.
            interpolate: "linear" between neighbouring points, or "log": linear in the logarithms of
                both, which must be above 0.
            dask: as for `reduce`.

        Returns the axis' value over the output's other axes: NaN where the output does not cross.
        There is no crossing next to a point that is NaN.
        """
        from .reduce.crossing import crossing

        with mapping(self, Settings(engine, mask_infeasible, threads, dask)) as (plan, map_):
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
        where: Sequence[str] | None = None,
        k: int | None = None,
    ) -> "xarray.Dataset":
        """Find the Pareto front of two or three outputs, with the labels of its points.

        Args:
            of: two or three outputs.
            senses: "min" or "max" for each.
            over: axes to search; all by default. Each point of the other axes has its own front.
            dask, where: as for `reduce`.
            k: at most this many points of each front, those best in the first output.

        Returns a Dataset along `front`: the outputs, and every axis that they depend on as a
        coordinate. Fronts follow each other in the order of the axes; each is sorted by the first
        output, best first. Of equal points the first is listed; non-finite points are left out.
        """
        from .reduce.pareto import pareto

        sweep, conditions = self, None
        if where is not None:
            sweep, conditions = self._where(of, where, mask_infeasible)
        with mapping(sweep, Settings(engine, mask_infeasible, threads, dask)) as (plan, map_):
            return pareto(plan, self.spec, of, senses, over, map_, conditions, k)

    def top(
        self,
        of: str,
        k: int = 1,
        where: Sequence[str] = (),
        *,
        sense: str = "min",
        over: Sequence[str] | None = None,
        also: Sequence[str] = (),
        engine: str = "auto",
        mask_infeasible: bool = False,
        threads: int | None = None,
        dask: Any = None,
    ) -> "xarray.Dataset":
        """Find the best points under conditions, with their labels.

        Args:
            of: the output; sense: "min" or "max".
            k: how many points, the best first.
            where: conditions, such as "job_time <= 60 d".
            over: axes to search; all by default. Each point of the other axes has its own k.
            also: further numeric outputs to give.
            dask: as for `reduce`.

        Returns a Dataset along `rank`, which restarts at 1 for each point of the axes not searched:
        the output, those of the conditions and of `also`, and every axis that they depend on as a
        coordinate. Of equal points the first is listed; points where the output is not finite are
        left out, and with `mask_infeasible` those that cannot be run.
        """
        from .reduce.top import top

        sweep, conditions = self._where([of, *also], where, mask_infeasible)
        with mapping(sweep, Settings(engine, mask_infeasible, threads, dask)) as (plan, map_):
            return top(plan, self.spec, of, k, sense, over, conditions, map_)

    def _where(
        self, names: Sequence[str], where: Sequence[str], mask: bool
    ) -> tuple["Sweep", list[Any]]:
        """A sweep of `names`, the conditions' outputs and, if known, the infeasibility reason."""
        from .ask.solve.solve import read_condition

        conditions = [read_condition("where", text) for text in where]
        read = [*names, *(name for each in conditions for name in each.outputs)]
        if mask and is_known(self.spec["scenario"], self.spec["axes"], [REASON]):
            read.append(REASON)
        return self.of(list(dict.fromkeys(read))), conditions

    def lazy(
        self,
        chunks: Mapping[str, int] | None = None,
        *,
        engine: str = "auto",
        dtype: str = "float64",
        mask_infeasible: bool = False,
    ) -> "xarray.Dataset":
        """Return a Dask-backed Dataset whose blocks are evaluated on compute, by any scheduler.

        One task evaluates all outputs that share dimensions over one block, on one thread. `chunks`
        are sizes by axis; by default blocks hold a million points, cut alike along every axis.
        """
        from .run.lazy import lazy
        from .store.cube import check_chunks

        plan = self.plan(engine, mask_infeasible)
        return lazy(plan, self.spec, check_chunks(plan, chunks), check_dtype(dtype))

    def virtual(
        self, *, engine: str = "auto", dtype: str = "float64", mask_infeasible: bool = False
    ) -> "xarray.Dataset":
        """Return a Dataset of the whole grid, of any size, that evaluates slices when read.

        `engine` "auto" evaluates with NumPy at once and compiles for large slices meanwhile; both
        give the same bits. For a file: `xarray.open_dataset("sweep.toml", engine="fleetcube")`.
        """
        from .read.virtual import virtual

        return virtual(self, engine, dtype, mask_infeasible)

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
        """Propagate the scenario's distributions and the prediction error to outputs.

        Args:
            of: outputs; by default all that are numbers.
            q: probabilities of the quantiles.
            method: "sampled" evaluates `samples` draws (scrambled Sobol points of `seed`, the same
                at every point); "first_order" propagates variances along exact slopes at the
                medians; an output is lognormal if all its uncertain inputs are, else normal.
            dask: as for `reduce`.

        Returns a Dataset of each output over its axes and `quantile`, with `<output>_mean` and
        `<output>_std`; NaN where any draw is NaN. All other methods use the median of each
        distribution. An axis overrides a distribution of the same input. Where `error_factor` is
        above 1 (a calibration sets it), the step time is a lognormal with 90 % within that factor;
        `step_time_error` or an axis of it overrides that.
        """
        from .ask.uncertainty import uncertainty

        settings = Settings(engine, mask_infeasible, threads, dask)
        return uncertainty(self, of, q, method, samples, seed, settings)

    def interval(
        self,
        of: str | Sequence[str] | None = None,
        *,
        engine: str = "auto",
        mask_infeasible: bool = False,
        threads: int | None = None,
        dask: Any = None,
    ) -> "xarray.Dataset":
        """Outputs with the ends of their 90 % intervals, `<output>_low` and `<output>_high`.

        Args:
            of: outputs; by default all.
            dask: as for `reduce`, for the ends.

        Ends are given where an interval is known: for outputs that depend on the step time, if
        `error_factor` is above 1 (a calibration sets it); for those that depend on distributions in
        the scenario (then by `uncertainty`); and for `memory_per_gpu`. Without distributions, they
        are the minimum and maximum of the output at five step times across its interval: exact if
        the output is monotonic in step time, else covering at least 90 %. NaN at points where no
        interval is known. Shares of a step have none: how its error splits among them is unknown.
        """
        from .ask.interval import interval

        return interval(self, of, Settings(engine, mask_infeasible, threads, dask))

    def levers(
        self,
        of: str,
        wrt: str | Sequence[str] | None = None,
        *,
        at: Mapping[str, Any] | None = None,
    ) -> "xarray.Dataset":
        """Rank inputs by the size of their elasticity, at one point of the grid.

        Args:
            of: a quantity.
            wrt: inputs, or quantities that are given; by default every number that `of` depends on.
            at: values of axes, numbers or text with a unit; other axes are taken at their middle.

        Returns a Dataset over `input`: elasticity, value, and the quantity evaluated again with the
        input 10 % smaller (`<of>_below`) and larger (`<of>_above`), or at the nearest valid whole
        numbers. The attribute `fleetcube_point` names the point.
        """
        from .ask.sensitivity import levers

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
        """Find which input has the largest absolute elasticity at every point of the grid.

        Arguments are those of `levers` and `reduce`; compiling pays from a hundred million points.
        Of inputs with equal elasticities the first in the order of `fleetcube explain` is named;
        where they are equal everywhere, the coordinate `same_as` names the first one.

        Returns a Dataset: `dominant`, a flag over the axes (0: none), and over `input` the share of
        the points that each dominates and the range of its elasticity.
        """
        from .ask.sensitivity import dominance

        return dominance(self, of, wrt, Settings(engine, mask_infeasible, threads, dask))

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
        """Attribute the variance of a quantity to inputs that all vary at once.

        Args:
            of, wrt, at: as for `levers`, without whole-numbered inputs that have no distribution.
            method: "sobol" (first-order and total indices) or "morris" (elementary effects).
            samples: approximate number of evaluations.
            spread: inputs without a distribution vary uniformly by this factor about their value.

        Returns a Dataset over `input`, with 95 % confidence intervals. Needs the extra `sens`.
        """
        from .ask.global_sensitivity import global_sensitivity

        settings = Settings(engine, threads=threads)
        return global_sensitivity(self, of, method, wrt, at, samples, spread, seed, settings)

    def salib(self, of: str) -> tuple[dict[str, Any], Callable[[Any], Any]]:
        """Return SALib's `problem` dict and a function from its samples to an output.

        Axes of numbers vary uniformly between their ends, in logarithms if their values are
        geometric; the scenario's distributions are used as given (a lognormal is not truncated at
        the bounds of its input). All is in base units. Samples of whole numbers are rounded. Raises
        InputError for axes of labels and empirical distributions.

        The function takes samples, (samples, inputs), as `SALib.ProblemSpec.evaluate` expects.
        """
        from .ask.salib import salib

        return salib(self, of)

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
                depends on. For whole-numbered inputs the result is the slope between the valid
                whole numbers on both sides; the coordinate `kind` is then "difference".

        Returns dy/dx in SI base units over `input` and the axes that any derivative depends on; 0
        where an input has no effect. At kinks see docs/gradients.md. For gradients of any size, to
        store or reduce, see `derivatives`.
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

        Arguments and dimensions are those of `gradient`. 0.5: 1 % more input, 0.5 % more quantity.
        """
        elasticities = self.jacobian([of], wrt, elasticity=True, engine=engine, threads=threads)
        return elasticities.isel(output=0)

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
        from .ask.gradient import jacobian

        return jacobian(self, of, wrt, elasticity, Settings(engine, threads=threads))

    def derivatives(
        self,
        of: str | Sequence[str],
        wrt: str | Sequence[str] | None = None,
        *,
        elasticity: bool = False,
    ) -> "Sweep":
        """Return a sweep whose outputs are derivatives, to store, reduce or slice like any other.

        Its outputs are `d_<of>_d_<input>`, or `dln_<of>_dln_<input>` with `elasticity`; `delta_...`
        and `deltaln_...` for whole-numbered inputs. A spec may name them, too.
        """
        from .ask.gradient import derivatives

        rows = derivatives(self, of, wrt, elasticity)
        return self.of([derivative.name for row in rows for derivative in row])

    def solve(
        self,
        for_: str,
        target: str | Mapping[str, Any],
        *,
        between: Sequence[Any] | None = None,
        whole: bool | None = None,
        engine: str = "auto",
        threads: int | None = None,
    ) -> "xarray.Dataset":
        """Find the input value at which an output meets a target, at every point of the other axes.

        Args:
            for_: the input, or any quantity, which is then given instead of computed. Its value in
                the scenario and its axis are ignored.
            target: "job_time <= 30 d", "goodput = 0.95", an equation of two outputs
                ("data_parallel_time = compute_time"), or {"job_time": "30 d"}.
            between: the range to search, [first, last]; by default a millionth to a million times
                the current value, 1 to 10^9 for counts, and the full range of a share.
            whole: round to a whole number, of whole replicas for n_gpus: the one that satisfies
                "<=" or ">=", the nearer one for "="; by default for whole-numbered inputs.

        Returns a Dataset over the other axes: `for_`, the output there, `unsolved_reason`, and
        `infeasible_reason` of the solution if the output depends on the layout. Of several
        solutions the smallest is given: `crossings` counts the crossings of the target that were
        seen, `next_above` lies between this solution and the next. NaN if there is none in the
        range: `nearest_...` are then the scanned value, and its output, closest to the target.
        Where the output jumps over the target, the value after the jump.
        """
        from .ask.solve.solve import read_target, solve_spec

        aim = read_target(target)
        return solve_spec(self.spec, for_, aim, between, whole, Settings(engine, threads=threads))

    def optimize(
        self,
        of: str,
        between: Mapping[str, Sequence[Any]],
        subject_to: Sequence[str] = (),
        *,
        sense: str = "min",
        feasible: bool = True,
        engine: str = "auto",
        over: Sequence[str] = (),
    ) -> "xarray.Dataset":
        """Optimise an output over ranges of several inputs, at every point of the other axes.

        Args:
            of: the output.
            between: ranges of the inputs, {"n_gpus": [64, 16384], ...}. Their values in the
                scenario and their axes are ignored. Counts come out whole.
            subject_to: conditions, such as "job_time <= 30 d".
            sense: "min" or "max".
            feasible: only points with a valid layout that fits in memory.
            over: axes to optimise over as well: choices (GPUs, layouts, precisions) or lists of
                numbers. The search is run for each combination.

        Returns a Dataset over the other axes: the best of `over`, the inputs, the output, the
        outputs of the conditions, `optimum_status`, and `infeasible_reason` if nothing can run.
        SciPy's SLSQP starts from the best of 256 Sobol points, with exact gradients; each point of
        the grid takes about a second.
        """
        from .ask.optimize import optimize

        return optimize(self.spec, of, between, subject_to, sense, feasible, engine, over)

    def best_layouts(
        self,
        of: str | None = None,
        *,
        sense: str = "min",
        inputs: Sequence[str] | None = None,
        also: Sequence[str] = (),
        top: int = 1,
        engine: str = "auto",
        threads: int | None = None,
    ) -> "xarray.Dataset":
        """Find the best layouts at every point of the axes, with the figures to plan with each.

        Args:
            of: the output to optimise, job_time by default; `sense`: "min" or "max".
            inputs: inputs to search: by default tensor, pipeline, context and expert parallelism,
                virtual stages, micro-batches, ZeRO, recompute and sequence parallelism, except
                those that the sweep fixes.
            also: further ones: any option, such as "precision" or "pipeline_schedule".
            top: layouts at each point, the best first, whose outputs differ.

        Candidates: powers of two within a node (a scale-up domain), limited by the model's heads,
        layers, experts and sequence length; divisors of the layers; each choice of an option. All
        feasible candidates are tried, so the answer is exact over them.

        Returns a Dataset over the axes and `rank`: the inputs searched, job and step time, MFU,
        goodput, memory, and, if known, failures, checkpoints, energy, cost and losses, as a sweep
        at that layout gives them, with the ends of their intervals; over the axes,
        `infeasible_reason` (why most candidates fail, where none can run), `feasible_layouts`,
        `without_memory_limit` (the best output if memory were no limit) and, where none can run,
        `nearest_memory_margin`. Engine "auto" is NumPy here.
        """
        from .ask.layouts import best_layouts

        return best_layouts(self, of, sense, inputs, also, top, Settings(engine, threads=threads))

    def best_layouts_by_phase(
        self,
        of: str | None = None,
        *,
        sense: str = "min",
        inputs: Sequence[str] | None = None,
        also: Sequence[str] = (),
    ) -> "tuple[dict[str, xarray.Dataset | None], Sweep]":
        """Find the best layout of each phase of a job at one point, and the job in these layouts.

        Arguments are those of `best_layouts`; `of` must add up over phases, as job_time (the
        default), job_cost and energy do, so that optimising each phase optimises the job. A change
        of layout costs only the transition_time that a phase states.

        Returns the result of `best_layouts` for each phase, None for a phase with nothing to
        search; and a sweep of the whole job, whose outputs are those quantities that apply to jobs.
        """
        from .ask.layouts import ALWAYS, by_phase

        return by_phase(self, of or ALWAYS[0], sense, inputs, also)

    def wall(
        self,
        between: Sequence[Any] | None = None,
        *,
        batch_grows: bool = False,
        power_limit: Any = None,
        day_price: Any = None,
        engine: str = "auto",
    ) -> "xarray.Dataset":
        """Find where adding GPUs stops helping, and why, at the one point of this sweep.

        Args:
            between: the range of n_gpus, [first, last]; by default from the smallest size that can
                run to one beyond the fastest, and to 1,048,576 at most. Sizes are whole replicas,
                each twice the previous one. The sweep's own n_gpus are ignored.
            batch_grows: the batch is stated for the first size, and grows with the GPUs.
            power_limit: of facility_power; day_price: most that a day saved may add to job_cost.

        Returns a Dataset over `n_gpus`: job_time, `speedup` over the first size, `doubling_gain`,
        cost, shares of the wall time, and `lost`, the GPU time added by the doubling for each
        `loss`, as a share of the GPU time before it; over `limit`: `binds_from`, the size from
        which it binds (NaN: nowhere), and `why`. A loss binds from the first size at which doubling
        gained less than a factor of 1.9, mostly because of it; batch and layout from the first size
        that they prevent from running; power and price from the first size that exceeds theirs.
        `fastest_gpus` is the size of least job time, `fastest_time`, among whole replicas, and
        `sync_wall_gpus` the closed form there.
        """
        from .ask.wall import wall

        return wall(self.spec, between, batch_grows, power_limit, day_price, engine)

    def page(self, path: "str | PathLike[str] | None" = None, title: str = "") -> str:
        """Return a one-file HTML page that computes this sweep in a browser, without Python.

        Its formulas are written as JavaScript. Axes of one number are sliders, as are all other
        numbers that the outputs depend on; points of other axes are choices in a table. Intervals
        are shown only for sizes within the measured range. Derivatives are left out.

        Args:
            path: an .html file to write, which must not exist.
            title: its heading.

        Returns the HTML text. Raises InputError if it would be larger than 1 MB.
        """
        from .live.page import page, write

        text = page(self.spec, title or "A sweep of fleetcube", title)
        if path is not None:
            write(text, path)
        return text
