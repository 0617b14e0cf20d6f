"""A sweep: a scenario, its axes and the requested outputs, with every query it supports.

Its values in memory are `Evaluation`'s. Every other method is a few lines that hand the sweep to
its module, which is imported only then: a script loads the modules it uses.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from fleetcube.analysis.content import content
from fleetcube.functions.arguments import scenario_and_axes
from fleetcube.grid.errors import InputError
from fleetcube.grid.result import Result
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.run.stream import cluster_of, mapping
from fleetcube.grid.spec.application import application
from fleetcube.grid.spec.graphs import NAME as GRAPH
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.grid.spec.values import DType, check_dtype

if TYPE_CHECKING:
    import xarray

Sense = Literal["min", "max"]


class Sweep(Evaluation):
    """Outputs at every combination of the axes' values, and queries of them.

    Args:
        scenario: inputs by name: numbers in SI base units, text with a unit ("400 Gbit/s"),
            choices of options, catalog labels (gpu, node, fabric, model, storage, reliability), a
            calibration file (calibration = "my-cluster.toml"), or a model's config.json of Hugging
            Face (model = "path/config.json", its folder, or a mapping of its fields).
        axes: what varies: name -> values, or a table as in a spec file (see `make_axis`). An axis
            overrides the scenario's value of the same name.
        outputs: a quantity, or a list of them; see `fleetcube explain`. `solve` and `best` need
            none.
        phases: parts of the job, one after the other: what each does not share with the scenario,
            its `training_tokens` and, if wanted, a `name`. Times, costs and the like add up, shares
            are means over time. `scenario["phase"]` is the same; an axis `phase` of their names
            has a value for each.
        settings: engine, threads, Dask cluster and the like, for all methods; each takes others
            for one call.
        graph: modules of formulas, or their names, to use in place of the physics (a module with
            INPUTS) or in addition to it; they are imported.

    Raises InputError (a ValueError) with a one-line message for unusable arguments.

    Sweeps are equal where they ask for the same outputs of the same inputs, in the same order of
    outputs and of axes, however their values are written: an array, a list and texts with units
    are the same axis if they give the same numbers, bit by bit. Equal sweeps have equal hashes;
    settings do not count. A pickle holds what was written, and what calibration files held, not
    what was computed, nor settings.
    """

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], settings: Settings | None = None, **inputs: Any
    ) -> Self:
        """Read a TOML spec with `outputs`, `[scenario]` and `[axes]`, a model's config.json, or a
        framework's file; `inputs` are what it does not say, or other values. Paths of calibration
        files and of models' config.json are relative to the spec's folder."""
        spec = application(graph_of({})).read_spec(path, inputs)  # no file names another graph's
        if inputs:
            stated, swept = scenario_and_axes(inputs)
            axes = {name: axis for name, axis in spec["axes"].items() if name not in stated}
            scenario = {
                name: entry for name, entry in spec["scenario"].items() if name not in swept
            }
            spec |= {"scenario": {**scenario, **stated}, "axes": {**axes, **swept}}
        if not spec["outputs"]:
            raise InputError(f'{str(path)!r} names no outputs; write outputs = ["job_time"]')
        parts = spec["scenario"], spec["axes"], spec["outputs"]
        return cls(*parts, settings=settings or Settings())

    def __eq__(self, other: object) -> bool:
        return self._content == other._content if isinstance(other, Sweep) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    @functools.cached_property
    def _content(self) -> Hashable:
        return tuple(self._outputs), content(self._problem)

    def __reduce__(self) -> tuple[Any, ...]:
        spec = self.spec
        given = (spec["scenario"], spec["axes"], spec["outputs"] or ())
        named = spec["scenario"].get(GRAPH)
        return (functools.partial(type(self), graph=named) if named else type(self)), given

    def _repr_html_(self) -> str:
        from fleetcube.tables.html import sweep_html

        return sweep_html(self._plan(), self.spec)

    def _answer(self, result: Result) -> "xarray.Dataset":
        return result.to_xarray()

    def to_zarr(
        self,
        path: str | PathLike[str],
        *,
        overwrite: bool = False,
        resume: bool = False,
        append: bool = False,
        force: bool = False,
        dtype: DType = "float64",
        chunks: Mapping[str, int] | None = None,
        compressor: Literal["lz4", "zstd"] = "lz4",
        settings: Settings | None = None,
    ) -> Path | str:
        """Compute every output at every point into a Zarr v3 cube, in bounded memory.

        Args:
            path: a folder, or a URL such as "s3://bucket/cubes/a.zarr". The cube appears there only
                when it is complete; until then it is built next to it in `path` + ".partial", on an
                object store in its place, where every finished block survives a failure or a kill.
            overwrite: replace a cube that is there, once the new one is complete; one with files or
                attributes that others added is refused.
            resume: complete an unfinished cube to the same bytes, check a complete one and write
                its damaged blocks again, begin where there is none; a cube of another spec,
                catalog, code or version is refused.
            append: add to a complete cube the labels at the end of its axes: its blocks are kept,
                and only new ones computed, in its own chunks.
            force: with `overwrite`, remove also what others added.
            dtype: of the numbers; flags are int8.
            chunks: sizes by axis; by default chunks hold 8 MB and are cut alike along every axis,
                so that slices along each are fast.
            compressor: "lz4", in Blosc, or "zstd", which GDAL reads, too; both with checksums.
            settings: instead of the sweep's. Workers of a Dask cluster write into the folder, which
                they must share, one block at a time; `threads` is for runs without Dask.

        Raises OSError, with how much is kept, for what fails while it runs, and InputError where
        the target exists, cannot be written, or is larger than the disk. Returns the path or the
        URL.
        """
        from fleetcube.grid.store.chunks import check_compressor
        from fleetcube.grid.store.cube import Mode, check_chunks, contents_for_run, engine_of, store
        from fleetcube.grid.store.places.address import place_of

        place, mode = place_of(path), Mode(overwrite, resume, append, force)
        codec = check_compressor(compressor)
        with self._asked(settings) as asked:
            contents, begun = contents_for_run(place, mode)
            engine: str = asked.engine
            if engine == "auto":  # the cube's own: a larger one might suggest another
                engine = engine_of(contents, begun, mode)
            plan = self._plan(engine, asked._mask)
            with cluster_of(plan, self.spec, asked.dask) as cluster:
                store(
                    plan,
                    self.spec,
                    contents,
                    begun,
                    mode,
                    dtype=check_dtype(dtype),
                    chunks=check_chunks(plan, chunks),
                    compressor=codec,
                    threads=asked._cores,
                    cluster=cluster,
                )
        return place.path or str(place)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The grid's rows for DuckDB, Polars, pyarrow: a million are computed at a time."""
        from fleetcube.tables.tables import stream

        return stream(self.virtual()).__arrow_c_stream__(requested_schema)

    def to_html(self, path: "str | PathLike[str] | None" = None, title: str = "") -> str:
        """A page of HTML in one file that computes this sweep in a browser, without Python.

        Its formulas are written as JavaScript. Axes of one number are sliders, as are all other
        numbers that the outputs depend on; points of other axes are choices in a table. Intervals
        are shown as far as sizes keep to those measured. Derivatives are left out.

        Args:
            path: a file to write, .html, which must not exist.
            title: its heading.

        Returns its text. Raises InputError where it would be larger than 1 MB.
        """
        from fleetcube.presentation.page.page import page, write

        text = page(self.spec, title or "A sweep of fleetcube")
        if path is not None:
            write(text, path)
        return text

    def to_salib(self, of: str) -> tuple[dict[str, Any], Callable[[Any], Any]]:
        """For SALib's methods: a `problem` dict, and a function from its samples to an output.

        A linspace varies evenly between its ends, a geomspace in logarithms; of values that are
        listed each is as likely, and a sample is its place in the list, from 0 and up to their
        number. Distributions of the scenario are as they are (a lognormal one is not cut at the
        bounds of its input). All is in base units. Samples of whole numbers are rounded, and those
        that cannot run are counted in a warning. Raises InputError for axes of labels and
        empirical distributions.

        The function takes samples, (samples, inputs), as `SALib.ProblemSpec.evaluate` wants it.
        """
        from fleetcube.analysis.salib import salib

        return salib(self, of)

    def lazy(
        self,
        chunks: Mapping[str, int] | None = None,
        *,
        dtype: DType = "float64",
        settings: Settings | None = None,
    ) -> "xarray.Dataset":
        """Return a Dask-backed Dataset whose blocks are evaluated on compute, by any scheduler.

        One task evaluates all outputs that share dimensions over one block, on one thread. `chunks`
        are sizes by axis; by default blocks hold a million points, cut alike along every axis.
        """
        from fleetcube.grid.run.lazy import lazy
        from fleetcube.grid.store.cube import check_chunks

        with self._asked(settings) as asked:
            plan = self._plan(asked.engine, asked._mask)
            return lazy(plan, self.spec, check_chunks(plan, chunks), check_dtype(dtype))

    def virtual(
        self, *, dtype: DType = "float64", settings: Settings | None = None
    ) -> "xarray.Dataset":
        """A Dataset of the whole grid, of any size, that computes what is sliced when it is read.

        Engine "auto" evaluates with NumPy at once and compiles for large slices meanwhile; both
        give the same bits. What `xarray.open_dataset("sweep.toml", engine="fleetcube")` gives for a
        file.
        """
        from fleetcube.grid.run.virtual import virtual

        with self._asked(settings) as asked:
            return virtual(self, asked, dtype)

    def reduce(
        self,
        how: Literal["min", "max", "mean", "sum", "count", "quantile"],
        over: str | Sequence[str] | None = None,
        *,
        q: float | Sequence[float] | None = None,
        of: str | None = None,
        where: str | Sequence[str] | None = None,
        settings: Settings | None = None,
    ) -> "xarray.Dataset":
        """Reduce outputs over axes as they are computed, without keeping the grid.

        Args:
            how: "min", "max", "mean", "sum" or "quantile", which skip NaN; "count" of the finite
                points. Flags are left out. For the point of an extreme see `best`.
            over: axes to reduce; all of them by default. An output keeps its other axes, and is
                reduced over those axes only that it depends on.
            q: share of the points below the quantile, from 0 to 1, or several, which are the first
                dimension of the result, `quantile`. They are exact, linear between order
                statistics; more than a million points under one are evaluated up to five times.
            of: reduce this output only.
            where: conditions on the points of `of` that count, such as "job_time <= 60 d". Points
                are then those of the axes of all outputs named, and where infeasible points are
                excluded, they are left out of every output, also of one that does not depend on the
                layout; an empty list does only this.

        Extremes of billions of points are searched, not scanned, where bounds from the formulas
        show that most points cannot be the best: 10^12 layouts take seconds, with the values of a
        scan, to the bit (decision 25).

        Returns a Dataset. Memory: a few blocks; for bounded searches, tables of 16 million points.
        """
        from fleetcube.analysis.targets import judged, narrowed
        from fleetcube.grid.reduce.fold import reduce

        with self._asked(settings) as asked:
            sweep, conditions = self._for_outputs(of), None
            if where is not None:
                if of is None:
                    raise InputError("where is for one output; name it with of")
                sweep, conditions = judged(self, [of], where, asked, asked._mask)
            if asked._mask and of is not None:
                dependent = sweep._plan(asked.engine, True).layout_dependent
                if conditions is not None or of in dependent:
                    sweep = narrowed(sweep, over)
            with mapping(sweep, asked) as (plan, map_):
                return self._answer(
                    reduce(plan, self.spec, how, over, map_, asked._cores, of, q, conditions)
                )

    def best(
        self,
        of: str | Sequence[str] | None = None,
        k: int | None = None,
        *,
        sense: Sense | Sequence[Sense] = "min",
        over: str | Sequence[str] | None = None,
        search: str | Sequence[str] | Mapping[str, Sequence[Any]] | None = None,
        where: str | Sequence[str] | None = None,
        also: str | Sequence[str] | None = None,
        settings: Settings | None = None,
    ) -> "xarray.Dataset":
        """Find the best feasible points of axes, layouts, or values in ranges.

        Args:
            of: an output; of layouts and ranges job_time by default. Two or three outputs ask for
                the points of axes that no other beats in all of them.
            k: how many, the best first, along `rank` (at most so many of each front, along
                `front`). By default one, without `rank`, and whole fronts.
            sense: "min" or "max"; of several outputs, for each or for all.
            over: axes of the sweep to search. By default all of them, and with `search` none:
                there is an answer for each point of the axes that stay.
            search: what to search beyond axes. "layout": tensor, pipeline, context and expert
                parallelism, virtual stages, micro-batches, ZeRO, recompute and sequence
                parallelism, as far as the sweep states none. Names of inputs, such as
                ["layout", "precision"]: those. Ranges, {"n_gpus": [64, 16384]}: the values between,
                whatever the sweep states of these inputs; counts come out whole.
            where: conditions on outputs, such as "job_time <= 60 d".
            also: further outputs to return with one output; a front has `of` alone.
            settings: instead of the sweep's.

        Returns a Dataset over the axes that stay: `of` and the outputs of `where` and `also`, and
        what was searched, as coordinates of axes, as variables of inputs. NaN and empty text where
        nothing is found. Of equal points the first wins, in the order in which axes and values were
        written. Where what is searched decides whether a job fits in memory, it must do so even if
        the model is wrong by its error: memory_headroom = False in the scenario takes that risk.

        Over axes, extremes of billions of points are searched, not scanned, where bounds from the
        formulas allow (decision 25). Points without a value are left out, as are those with the
        worst there is, such as an infinite job_time; of fronts, all that are not finite.

        Of layouts, candidates are powers of two within a node (a scale-up domain), and within what
        the model has of heads, layers, experts and sequence; divisors of the layers; each choice of
        an option. All that can run are tried, so the answer is exact over them. With them come job
        and step time, MFU, goodput, memory, and what is known of failures, checkpoints, energy,
        cost and losses, with the ends of their intervals; `infeasible_reason` (why most candidates
        fail, where none can run), `feasible_layouts`, `without_memory_limit` (the best if memory
        were no limit) and, where none can run, `nearest_memory_margin`. Of a job in phases there is
        a layout for each, along `phase`.

        Of ranges, SciPy's SLSQP starts from the best of 256 Sobol points, with exact gradients;
        each point of the grid takes about a second. `optimum_status` says what was found, and
        `infeasible_reason` why nothing can run.
        """
        from fleetcube.analysis.best import best

        with self._asked(settings) as asked:
            return self._answer(best(self, of, k, sense, over, search, where, also, asked))

    def solve(
        self,
        unknown: str,
        target: str | Mapping[str, Any],
        *,
        between: Sequence[Any] | None = None,
        whole: bool | None = None,
        settings: Settings | None = None,
    ) -> "xarray.Dataset":
        """The value of an input at which an output meets a target, at every point of the others.

        Args:
            unknown: the input, or any quantity, which is then given instead of computed. Its value
                in the scenario, and its axis, do not count.
            target: "job_time <= 30 d", "goodput = 0.95", an equation of two outputs
                ("data_parallel_time = compute_time"), or {"job_time": "30 d"}.
            between: the range to search, [first, last]; by default a millionth to a million times
                the value at hand, 1 to 10^9 for counts, and all of a share.
            whole: round to a whole number, of whole replicas and nodes for n_gpus: the first that
                keeps to "<=" or ">=", the one that comes nearest for "="; by default for
                whole-numbered inputs. Where this is False, counts are not judged.
            settings: instead of the sweep's.

        Returns a Dataset over the other axes: `unknown`, the output there, and `unsolved_reason`.
        Values that cannot run are no solution: where no value that meets the target can run,
        `unsolved_reason` is `none_can_run`, and `infeasible_reason` why. With infeasible = "mark"
        solutions are given all the same, with their `infeasible_reason`. Of several
        solutions the smallest is given: `crossings` counts how often the output was seen to cross
        the target, `next_above` lies between this solution and the next. NaN where there is none in
        the range: `nearest_...` are then the value scanned, and the output there, that come
        nearest. Where the output jumps over the target, the value after the jump.
        """
        from fleetcube.analysis.solve.solve import solve_spec
        from fleetcube.analysis.targets import read_target

        aim = read_target(self.graph, target)
        with self._asked(settings) as asked:
            return self._answer(
                solve_spec(self._spec_of(aim.outputs), unknown, aim, between, whole, asked)
            )

    def scaling_limit(
        self,
        between: Sequence[Any] | None = None,
        *,
        batch_grows: bool = False,
        search: str | Sequence[str] = (),
        where: str | Sequence[str] = (),
        day_price: Any = None,
        settings: Settings | None = None,
    ) -> "xarray.Dataset":
        """Where adding GPUs stops helping, and why, at the one point of this sweep.

        Args:
            between: the range of n_gpus, [first, last]; by default from the smallest size that can
                run to one beyond the fastest, and to 1,048,576 at most. Sizes are whole replicas,
                each twice the one before. The sweep's own n_gpus do not count.
            batch_grows: the batch is stated for the first size, and grows with the GPUs.
            search: "layout", or names of inputs: each size gets the fastest `layout` of what the
                sweep leaves open of it (see `best`). By default the layout is that of the sweep.
            where: conditions on outputs, such as "facility_power <= 12 MW".
            day_price: the most that a day saved may add to job_cost.
            settings: instead of the sweep's.

        Returns a Dataset over `n_gpus`: job_time, `speedup` over the first size, `doubling_gain`,
        cost, shares of the wall time, and `lost`, the GPU time that the doubling added, of that
        before, for each `loss`; over `limit`: `binds_from`, the size where it begins to bind (NaN:
        nowhere), and `why`. A loss binds from the first size to which doubling brought less than
        1.9 times, mostly because of it; batch and layout from the first size that cannot run for
        them; a condition (by the name of its output) from the first size that breaks it after one
        that keeps to it, and the price from the first beyond it. `fastest_gpus` is the size of
        least job time, `fastest_time`, among whole replicas on whole nodes that keep to the
        conditions, and `sync_wall_gpus` the closed form there. Raises InputError where none does.
        """
        from fleetcube.analysis.targets import check_trains
        from fleetcube.analysis.wall import wall

        check_trains(self, "scaling_limit")
        with self._asked(settings) as asked:
            return wall(self.spec, between, batch_grows, where, day_price, asked, search)

    def derivatives(
        self,
        of: str | Sequence[str],
        wrt: str | Sequence[str] | None = None,
        kind: Literal["gradient", "elasticity"] = "gradient",
        *,
        settings: Settings | None = None,
    ) -> "xarray.DataArray":
        """Exact derivatives of quantities with respect to inputs, at every point.

        Args:
            of: a quantity, or a list of them.
            wrt: inputs, or quantities that are given; by default every continuous input that `of`
                depends on. For whole-numbered inputs the slope between the valid whole numbers on
                both sides is given, which the coordinate `kind` calls "difference".
            kind: "gradient", dy/dx in SI base units; or "elasticity", d ln y / d ln x: 0.5 means
                that 1 % more of the input gives 0.5 % more of the quantity.
            settings: instead of the sweep's.

        Returns the derivatives over `input` and the axes that any of them depends on, and over
        `output` where `of` is a list; 0 where an input has no effect. At kinks see
        docs/gradients.md. To store or reduce derivatives of any size, name them as outputs:
        "d_job_time_d_n_gpus", "dln_job_time_dln_gpu_mttf".
        """
        from fleetcube.analysis.gradient import derivatives

        with self._asked(settings) as asked:
            return derivatives(self, of, wrt, kind, asked)

    def rank_inputs(
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
        from fleetcube.analysis.sensitivity import rank_inputs

        return self._answer(rank_inputs(self, of, wrt, at))

    def dominant_inputs(
        self,
        of: str,
        wrt: str | Sequence[str] | None = None,
        *,
        settings: Settings | None = None,
    ) -> "xarray.Dataset":
        """Find which input has the largest absolute elasticity at every point of the grid.

        `of` and `wrt` are those of `rank_inputs`. Engine "auto" is NumPy here: compiling pays from
        a hundred million points. Of inputs whose elasticities are equal the first in the order of
        `fleetcube explain` leads; where they are equal everywhere, the coordinate `same_as` names
        the first one.

        Returns a Dataset: `dominant`, a flag over the axes (0: none), and over `input` the share of
        the points that each dominates and the range of its elasticity.
        """
        from fleetcube.analysis.sensitivity import dominant_inputs

        with self._asked(settings) as asked:
            return self._answer(dominant_inputs(self, of, wrt, asked))

    def global_sensitivity(
        self,
        of: str,
        wrt: str | Sequence[str] | None = None,
        *,
        method: Literal["sobol", "morris"] = "sobol",
        at: Mapping[str, Any] | None = None,
        samples: int = 100_000,
        spread: float = 0.2,
        seed: int = 0,
        settings: Settings | None = None,
    ) -> "xarray.Dataset":
        """Attribute the variance of a quantity to inputs that all vary at once.

        Args:
            of, wrt, at: as for `rank_inputs`, without whole-numbered inputs that have no
                distribution.
            method: "sobol" (first-order and total indices) or "morris" (elementary effects).
            samples: evaluations, about.
            spread: inputs without a distribution vary evenly by this factor about their value.
            seed: of the samples.
            settings: instead of the sweep's.

        Returns a Dataset over `input`, with 95 % confidence intervals. Needs the extra `sens`.
        """
        from fleetcube.analysis.global_sensitivity import global_sensitivity

        with self._asked(settings) as asked:
            return self._answer(
                global_sensitivity(self, of, method, wrt, at, samples, spread, seed, asked)
            )

    def uncertainty(
        self,
        of: str | Sequence[str] | None = None,
        q: Sequence[float] = (0.05, 0.5, 0.95),
        *,
        method: Literal["sampled", "first_order", "draws"] = "sampled",
        samples: int = 4096,
        seed: int = 0,
        settings: Settings | None = None,
    ) -> "xarray.Dataset":
        """Propagate distributions in the scenario, and the error of a prediction, to outputs.

        Args:
            of: outputs; by default all that are numbers.
            q: shares of the probability, for quantiles.
            method: "sampled" evaluates `samples` draws (scrambled Sobol points of `seed`, the same
                at every point); "first_order" propagates variances along exact slopes at the
                medians, and takes an output as lognormal where all its uncertain inputs are, else
                as normal; "draws" returns the draws themselves, over `draw`: joint over outputs
                and points, without `q`.
            samples, seed: of "sampled" and "draws".
            settings: instead of the sweep's.

        Returns a Dataset of each output over its axes and `quantile`, with `<output>_mean` and
        `<output>_std`; NaN where any draw is NaN. Everything else that a sweep does takes the
        median of each distribution. An axis overrides a distribution of the same input. Where
        `error_factor` is above 1 (a calibration sets it), the step's time is a lognormal of which
        90 % are within that factor; `step_time_error` or an axis of it overrides that.
        """
        from fleetcube.analysis.uncertainty import uncertainty

        with self._asked(settings) as asked:
            return self._answer(
                uncertainty(self._for_outputs(of), of, q, method, samples, seed, asked)
            )

    def prediction_interval(
        self,
        of: str | Sequence[str] | None = None,
        *,
        relative_to: str | Sequence[str] | Mapping[str, Any] | None = None,
        settings: Settings | None = None,
    ) -> "xarray.Dataset":
        """Outputs with the ends of their 90 % intervals, `<output>_low` and `<output>_high`.

        `of` names outputs; by default all. Ends are given where an interval is known: of what
        depends on the step's time where `error_factor` is above 1 (a calibration sets it), of what
        distributions in the scenario reach (then by `uncertainty`), and of `memory_per_gpu`.
        Without distributions, they are the least and the most of an output while the step's time is
        in its interval, at five places of it: exact where the output rises or falls with it, else
        with at least 90 % between them. NaN at points where no interval is known. Shares of a step
        have none: how an error of the whole is shared among its parts is not known.

        `relative_to` is a base on some axes, {"n_gpus": 1024} or "n_gpus=1024", or an axis whose
        first point is meant, "n_gpus"; on other axes it lies at each point's own place. It adds
        `<output>_ratio`, with ends and `<output>_chance_below`, the probability that the output is
        below that of the base, where `compare` knows them. Distributions are at their medians.
        """
        from fleetcube.analysis.assumptions import at_last, noted, running
        from fleetcube.analysis.interval import interval
        from fleetcube.analysis.ratio import base_of, relative

        sweep = self._for_outputs(of)
        base = base_of(sweep, relative_to)
        with self._asked(settings) as asked:
            intervals = interval(sweep, of, asked)
            intervals.attrs.update(noted(at_last(sweep, running(intervals))))
            if base:
                intervals = intervals.assign(relative(sweep, of, intervals, base))
            return self._answer(intervals)


class Printed(Sweep):
    """A sweep whose answers are printed: results, without xarray."""

    def evaluate(self, settings: Settings | None = None) -> Any:  # type: ignore[override]
        return self._result(settings)

    def _answer(self, answer: Any) -> Any:
        return answer
