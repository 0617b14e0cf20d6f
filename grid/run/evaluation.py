"""A scenario, axes and outputs with their plans, and their values in memory."""

import contextlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ...kernels import log
from ...kernels.graph.formulas import Graph
from ..errors import InputError
from ..plan import memory, tiles
from ..plan.engine import compiles
from ..plan.execute import evaluate_block, evaluate_together, evaluate_whole, together
from ..plan.labels import dataset, dtype_of, result, variables_of
from ..plan.plan import Plan
from ..progress import expected
from ..result import Result
from ..spec.application import application
from ..spec.axes import with_phase_tables
from ..spec.axis import Array
from ..spec.entries import plain
from ..spec.graphs import graph_of, with_graph
from ..spec.problem import resolve
from ..spec.values import DType, check_dtype, owned, without_unit
from .settings import Settings, check_settings

if TYPE_CHECKING:
    import xarray

_DEFAULT = Settings()
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def is_known(scenario: Mapping[str, Any], axes: Mapping[str, Any], outputs: Sequence[str]) -> bool:
    """Whether all inputs that some outputs need are given."""
    try:
        Evaluation(scenario, axes, outputs)
    except InputError:
        return False
    return True


class Evaluation:
    """A scenario, axes and outputs; `Sweep` adds the queries."""

    def __init__(
        self,
        scenario: Mapping[str, Any],
        axes: Mapping[str, Any] = _NOTHING,
        outputs: str | Sequence[str] = (),
        phases: Sequence[Mapping[str, Any]] | None = None,
        settings: Settings = _DEFAULT,
        graph: Any = (),
    ) -> None:
        self.settings = check_settings(settings)
        outputs = [outputs] if isinstance(outputs, str) else outputs
        outputs = outputs.tolist() if isinstance(outputs, np.ndarray) else outputs
        if phases is not None:
            scenario = with_phase_tables(scenario, phases)
        if isinstance(scenario, Mapping):  # else `resolve` refuses them
            scenario = with_graph(scenario, graph)
        graph = graph_of(scenario)
        scenario, axes = (owned(without_unit(graph, "", table)) for table in (scenario, axes))
        if isinstance(axes, dict):
            axes = {name: plain(graph, name, entry) for name, entry in axes.items()}
            if module := application(graph):
                scenario, axes = module.add_user_records(scenario, axes)
        self._spec = {"outputs": outputs, "scenario": scenario, "axes": axes}
        self._problem = resolve(scenario, axes)
        self._outputs = outputs
        self._plans: dict[tuple[str, bool], Plan] = {}
        self._evaluated: set[Plan] = set()  # in memory, and as a whole
        if not isinstance(outputs, tuple) or outputs:
            self._plan()  # so that bad input is refused here, before anything is computed
        self._outputs = self._spec["outputs"] = list(outputs)

    @property
    def graph(self) -> Graph:
        """The inputs and formulas of the sweep."""
        return self._problem.graph

    @property
    def spec(self) -> dict[str, Any]:
        """Outputs, scenario and axes as written: a copy, since a sweep is immutable."""
        return {key: _copied(part) for key, part in self._spec.items()}

    def _spec_of(self, outputs: Sequence[str]) -> dict[str, Any]:
        """The spec, with outputs where it names none."""
        return self.spec | ({} if self._outputs else {"outputs": [*outputs]})

    def _for_outputs(self, outputs: str | Sequence[str] | None) -> Self:
        """This sweep; if it names no outputs, one of those that a question names."""
        return self if self._outputs or outputs is None else self.with_outputs(outputs)

    @property
    def _sizes(self) -> dict[str, int]:
        """Length of every axis, in the order written."""
        return {axis.name: axis.size for axis in self._problem.axes}

    @property
    def points(self) -> int:
        """Points of the full grid."""
        return math.prod(self._sizes.values())

    def _plan(self, engine: str | None = None, mask: bool | None = None) -> Plan:
        """The plan for an engine, by default that of the settings; plans and tables are kept."""
        engine = self.settings.engine if engine is None else engine
        mask = self.settings._mask if mask is None else mask
        key = (engine, mask)
        if key not in self._plans:
            plan = Plan(self._problem, self._outputs, engine, mask)
            self._plans[key] = plan
            log.debug(
                "plan: engine %s, %d points, %d outputs",
                plan.engine,
                self.points,
                len(plan.outputs),
            )
        return self._plans[key]

    def evaluate(
        self,
        out: "xarray.Dataset | None" = None,
        *,
        dtype: DType = "float64",
        settings: Settings | None = None,
    ) -> "xarray.Dataset":
        """Compute every output at every point, in memory.

        Args:
            out: a Dataset from an earlier call, whose arrays are reused.
            dtype: "float64" or "float32"; flags are int8.
            settings: instead of the sweep's.

        Returns a Dataset in which every output has its own dimensions only. Memory order is the
        plan's; dimensions are in axis order. Raises InputError if the result exceeds memory.
        """
        with self._asked(settings) as asked:
            plan, arrays, used = self._values(out, dtype, asked)
            return dataset(plan, arrays, self._spec, used)

    def _result(self, settings: Settings | None = None, out: Any = None) -> Result:
        """The same without xarray."""
        with self._asked(settings) as asked:
            plan, arrays, used = self._values(out, "float64", asked)
            return result(plan, variables_of(plan, arrays), self._spec, used)

    @contextlib.contextmanager
    def _asked(self, settings: Settings | None) -> Iterator[Settings]:
        """The settings of a call, whose progress is reported meanwhile."""
        asked = check_settings(settings, self.settings)
        with asked._watched():
            yield asked

    def _values(
        self, out: Any, dtype: str, settings: Settings
    ) -> tuple[Plan, Mapping[str, Array], str]:
        """The plan that is evaluated, its outputs, and the engine that ran."""
        plan = self._plan(settings.engine, settings._mask)
        threads = settings._cores
        # by this sweep, or by one like it: what is compiled for that serves this one, too
        evaluated = plan.structure.notes.setdefault("evaluated", False)
        plan.structure.notes["evaluated"] = True
        if evaluated and settings.engine == "auto":
            plan = self._compiling(plan)
        arrays = self._arrays(plan, check_dtype(dtype), out, threads)
        if together(plan):
            arrays, compiled = evaluate_together(plan, arrays, threads), True
        else:
            compiled = self._fill(plan, arrays, threads)
        self._evaluated.add(plan)
        used = "numpy" if plan.compiles_in_background and not compiled else plan.engine
        return plan, arrays, used

    def _fill(self, plan: Plan, arrays: Mapping[str, Array], threads: int) -> bool:
        """Evaluate group by group; returns whether a kernel compiled in the background ran."""
        again = plan in self._evaluated
        compiled, most = False, tiles.AT_ONCE[plan.engine]
        groups = sorted(plan.groups().items(), key=lambda group: plan.points_over(group[0]))
        large = sum(size for size in map(plan.points_over, dict(groups)) if size > most)
        done = expected(large, "points") if large else int  # the others take no time
        intermediate: dict[Any, Array] = {}
        for dims, names in groups:
            outs = {name: arrays[name] for name in names}
            if plan.points_over(dims) <= most:
                compiled |= evaluate_whole(plan, dims, outs, threads, again, intermediate)
                continue
            for region in tiles.blocks(plan.whole(dims), most):
                cut: Any = (*region.values(), ...)
                views = {name: out[cut] for name, out in outs.items()}
                evaluate_block(plan, dims, region, views, threads)
                done(math.prod(tiles.sizes(region).values()))
        return compiled

    def _compiling(self, plan: Plan) -> Plan:
        """A plan of kernels, if repeated evaluation makes compiling worthwhile. They are compiled
        in the background; NumPy evaluates meanwhile, to the same bits."""
        if plan.engine != "numpy" or plan.full <= plan.most_table or not compiles():
            return plan  # compiled already, or a copy of tables
        key = ("compiling", plan.mask)
        if key not in self._plans:
            compiling = plan.with_engine("numba")
            compiling.compiles_in_background = True
            self._plans[key] = compiling
        return self._plans[key]

    def _arrays(
        self, plan: Plan, dtype: str, out: "xarray.Dataset | None", threads: int
    ) -> dict[str, Array]:
        types = {name: dtype_of(plan.graph, name, dtype) for name in plan.outputs}
        shapes = {name: plan.shape(plan.out_dims[name]) for name in plan.outputs}
        if out is not None:
            arrays = {name: _reused(plan, out, name, shapes[name], types[name]) for name in types}
            for one, other in itertools.combinations(arrays, 2):
                if np.may_share_memory(arrays[one], arrays[other]):
                    raise InputError(f"out[{one!r}] and out[{other!r}] share memory; separate them")
            return arrays
        size = sum(math.prod(shapes[name]) * types[name].itemsize for name in types)
        if size > memory.SMALL:
            memory.check(
                size,
                "store it (Sweep.to_zarr, fleetcube run), reduce it (Sweep.reduce) or shorten an "
                "axis",
            )
        if together(plan):
            return {name: np.broadcast_to(types[name].type(0), shapes[name]) for name in types}
        return {name: memory.allocate(shapes[name], types[name], threads) for name in types}

    def replace(
        self,
        *,
        scenario: Mapping[str, Any] | None = None,
        axes: Mapping[str, Any] | None = None,
        outputs: str | Sequence[str] | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """The same with another scenario, other axes, outputs or settings. For one point with other
        numbers again and again, `fleetcube.function` takes microseconds."""
        spec: Any = self.spec
        return type(self)(
            spec["scenario"] if scenario is None else scenario,
            spec["axes"] if axes is None else axes,
            (spec["outputs"] or ()) if outputs is None else outputs,
            settings=self.settings if settings is None else settings,
        )

    def with_outputs(self, outputs: str | Sequence[str]) -> Self:
        """The same scenario and axes, for other outputs."""
        return self.replace(outputs=outputs)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size}" for name, size in self._sizes.items())
        return f"<fleetcube.Sweep ({sizes}) {self.points:,} points -> {', '.join(self._outputs)}>"


def _copied(part: Any) -> Any:
    """A part of a spec with tables and lists copied."""
    if isinstance(part, dict):
        return {key: _copied(inner) for key, inner in part.items()}
    return list(part) if isinstance(part, list) else part


def _reused(
    plan: Plan, out: "xarray.Dataset", name: str, shape: tuple[int, ...], dtype: Any
) -> Array:
    """An output's array in an earlier result, its dimensions in the plan's order."""
    if not hasattr(out, "variables") or not hasattr(out, "data_vars"):
        raise InputError(f"out is {type(out).__name__}; give a Dataset from an earlier call")
    if name not in out.variables:
        raise InputError(f"out has no {name!r}; give a Dataset from an earlier call of this sweep")
    variable = out.variables[name]
    dims = plan.out_dims[name]
    if set(variable.dims) != set(dims) or variable.dtype != dtype:
        raise InputError(
            f"out[{name!r}] is {variable.dtype} over {variable.dims}, not {dtype} over {dims}; "
            "give a Dataset from an earlier call of this sweep"
        )
    data = variable.data
    if data is not variable.data or not isinstance(data, np.ndarray):
        raise InputError(f"out[{name!r}] is not in memory; give a Dataset from an earlier call")
    array: Array = data.transpose([variable.dims.index(dim) for dim in dims])
    if array.shape != shape or not array.flags.writeable:
        raise InputError(f"out[{name!r}] cannot be reused: shape {array.shape}, not {shape}")
    if not array.flags.aligned:  # kernels stream whole cache lines, which would crash the process
        raise InputError(
            f"out[{name!r}] does not begin at a multiple of {dtype.itemsize} bytes; copy it into "
            "an array of its own"
        )
    return array
