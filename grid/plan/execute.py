"""Run a plan: one pure function from a region of the grid to arrays."""

import functools
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.engines import jax as jax_engine
from ...kernels.engines import numba as numba_engine
from ...kernels.engines import numpy as numpy_engine
from ...kernels.engines import numpy_first as auto_engine
from ...kernels.engines.job import Job
from ...kernels.engines.on_device import Ending
from ...kernels.graph.formulas import Function, parameters
from ...kernels.graph.roles import REASON
from ..spec.axis import Array
from . import memory
from .engine import JAX, MOST_TABLE
from .grid import Case, Grid, by_dims
from .plan import Plan
from .tiles import AT_ONCE, Region, common, extent, inside, seen_from

Run = Callable[[Job, int], bool | None]  # true if a kernel compiled in the background was used
RUN: dict[str, Run] = {
    "auto": auto_engine.run,
    "numpy": numpy_engine.run,
    "numba": numba_engine.run,
    "jax": jax_engine.run,
    "jax-float32": functools.partial(jax_engine.run, single=True),
}
# A quantity this many times smaller than the grid is stored, not recomputed: reading it back then
# costs less than its arithmetic, and repays a separate kernel and array
REUSE = 8
MOST_KEPT = 1 << 27  # bytes of intermediate results that a plan caches for the next call


def evaluate_block(
    plan: Plan,
    dims: tuple[str, ...],
    region: Region,
    outs: Mapping[str, Array],
    threads: int,
    free: Mapping[str, Array] | None = None,
) -> None:
    """Evaluate outputs that share dimensions over a region of the grid.

    `dims` are those dimensions in the plan's order, and `region` cuts each; arrays of `outs`, and
    of `free`, the plan's free inputs, have the region's shape. Values depend only on the plan and
    these, not on the region, the threads, or previous evaluations.
    """
    results: dict[Any, Array] = {}
    for case in plan.cases_of(dims):
        runs = {dim: case.runs.get(dim, slice(0, plan.sizes[dim])) for dim in dims}
        shared = common(runs, region)
        if shared is not None:
            cut = inside(region, shared, dims)
            views = {name: out[cut] for name, out in outs.items()}
            piece = Piece(plan, case, threads, results)
            for name, array in (free or {}).items():
                piece.cached[piece.key(name)] = np.ascontiguousarray(array[cut])
            piece.fill(dims, seen_from(runs, shared), views)
    if plan.mask:
        _mask(plan, dims, region, outs, threads, free)


def on_device(
    plan: Plan, dims: tuple[str, ...], region: Region, names: Sequence[str], *reduction: Any
) -> list[Any] | None:
    """A block's outputs on JAX's devices, of size 1 where constant, or what an `Ending` reduces
    them to, by one program; None if the host has them: those of several cases, and tables."""
    cases = plan.cases_of(dims)
    if plan.engine not in JAX or len(cases) > 1:
        return None
    masked = [k for k, name in enumerate(names) if plan.mask and name in plan.layout_dependent]
    piece, groups = Piece(plan, cases[0], 1), [[*names], *([[REASON]] if masked else [])]
    steps = [piece.last(dims, region, group) for group in groups]
    if not steps[0].formulas:
        return None
    out = np.broadcast_to(0.0, extent(region, dims, dims))  # a shape without memory
    jobs = [step.job(dict.fromkeys(group, out)) for step, group in zip(steps, groups, strict=True)]
    ending = Ending(tuple(masked), *reduction)
    return jax_engine.on_device(jobs, plan.engine == "jax-float32", ending)


def together(plan: Plan) -> bool:
    """Whether one program of JAX's evaluates all outputs over the whole grid: where it has one
    case, and results fit where they are computed."""
    if plan.engine not in JAX or len(plan.cases) > 1:
        return False
    most = jax_engine.most_points(len(plan.outputs)) or AT_ONCE[plan.engine]
    return jax_engine.stays() or plan.full <= most


def evaluate_together(plan: Plan, outs: Mapping[str, Array], threads: int) -> dict[str, Array]:
    """All outputs, in `outs` where these can be written, else in new arrays of their shapes."""
    groups, arrays = plan.groups(), {n: out.reshape(out.shape or (1,)) for n, out in outs.items()}
    computed = {dims: group for dims, group in groups.items() if not all(map(plan.is_table, group))}
    program: Any = plan.notes.get("program")
    if computed and program is None:
        piece = Piece(plan, plan.cases[0], threads)
        steps = {d: piece.last(d, plan.whole(d), group) for d, group in computed.items()}
        jobs = [steps[d].job({n: arrays[n] for n in group}) for d, group in computed.items()]
        program = jax_engine.program_of(jobs, plan.engine == "jax-float32")
        if sum(step.nbytes for step in steps.values()) <= MOST_KEPT:
            plan.notes["program"] = program
    if computed:
        ordered = {name: arrays[name] for group in computed.values() for name in group}
        arrays |= jax_engine.evaluate(program[0], program[1], ordered)
    for name, array in arrays.items():
        if not array.flags.writeable:  # a table's
            arrays[name] = np.empty(array.shape, array.dtype)
    arrays = {name: arrays[name].reshape(out.shape) for name, out in outs.items()}
    for dims, group in groups.items():
        values = {name: arrays[name] for name in group}
        if dims not in computed:
            evaluate_whole(plan, dims, values, threads, True, {})
        elif plan.mask:
            _mask(plan, dims, plan.whole(dims), values, threads, None)
    return arrays


def _mask(
    plan: Plan,
    dims: tuple[str, ...],
    region: Region,
    outs: Mapping[str, Array],
    threads: int,
    free: Mapping[str, Array] | None,
) -> None:
    """Put NaN (-1 in flags) into layout-dependent outputs at infeasible points."""
    masked = [name for name in outs if name in plan.layout_dependent]
    if not masked:
        return
    reason_dims = plan.out_dims[REASON]
    reason = np.empty(extent(region, reason_dims, reason_dims), np.int8)
    values = free if reason_dims == dims else None  # free inputs have all dimensions: it reads none
    evaluate_block(
        plan,
        reason_dims,
        {dim: region[dim] for dim in reason_dims},
        {REASON: reason},
        threads,
        values,
    )
    where = (reason != 0).reshape(extent(region, reason_dims, dims))
    for name in masked:
        np.copyto(outs[name], -1 if outs[name].dtype == np.int8 else np.nan, where=where)


@dataclass(frozen=True)
class FusedStep:
    """The last step to some outputs: the computation from operands already available."""

    engine: Run
    formulas: Mapping[str, Function]
    operands: Mapping[str, Array]

    @property
    def nbytes(self) -> int:
        """Upper bound of the operands' memory, and about 500 bytes of overhead each."""
        return sum(operand.nbytes + 500 for operand in self.operands.values())

    def run(self, outs: Mapping[str, Array], threads: int) -> bool:
        """Fill arrays over the region; return whether a background-compiled kernel did."""
        return bool(self.engine(self.job(outs), threads))

    def without(self, names: Collection[str]) -> "FusedStep":
        """A step of copies, for other outputs than some."""
        operands = {name: array for name, array in self.operands.items() if name not in names}
        return FusedStep(self.engine, self.formulas, operands)

    def job(self, outs: Mapping[str, Array]) -> Job:
        outs = {name: out if out.ndim else out.reshape((1,)) for name, out in outs.items()}
        return Job(self.formulas, self.operands, outs)


def evaluate_whole(
    plan: Plan,
    dims: tuple[str, ...],
    outs: Mapping[str, Array],
    threads: int,
    keep: bool,
    intermediate: dict[Any, Array],
) -> bool:
    """Evaluate outputs that share dimensions over their whole grid; return whether a kernel ran.

    Values are those of `evaluate_block`. With `keep`, the plan caches what is constant between
    calls, up to MOST_KEPT bytes besides its tables: small outputs, and the last step's operands.
    `intermediate` takes what larger outputs, evaluated next, will read.
    """
    compiled, size = False, 0
    cached: list[tuple[Any, FusedStep]] | None = plan.notes.get(dims)
    read = [] if cached else [name for name in _read_later(plan, dims) if name not in outs]
    more = {name: memory.allocate(plan.shape(dims), np.float64, threads) for name in read}
    arrays = {**outs, **more}
    steps = []
    for cut, step in cached or _steps(plan, dims, list(arrays), threads, keep, intermediate):
        compiled |= step.run({name: out[cut] for name, out in arrays.items()}, threads)
        if keep and cached is None:
            step = step.without(more)
            steps.append((cut, step))
            size += step.nbytes
    if more:
        case = Piece(plan, plan.cases[0], 1)
        intermediate.update({case.key(name): array for name, array in more.items()})
    if steps and plan.notes.get("kept", 0) + size <= MOST_KEPT:
        plan.notes["kept"] = plan.notes.get("kept", 0) + size
        plan.notes[dims] = steps
    if plan.mask:
        _mask(plan, dims, plan.whole(dims), outs, threads, None)
    return compiled


def _is_small(plan: Plan, dims: tuple[str, ...]) -> bool:
    return plan.points_over(dims) * REUSE <= plan.full


def _read_later(plan: Plan, dims: tuple[str, ...]) -> list[str]:
    """Quantities of these dimensions that outputs of more dimensions read: one kernel evaluates
    them with the outputs here, whose formulas they share."""
    if plan.engine != "numba" or len(plan.cases) > 1 or not _is_small(plan, dims):
        return []
    piece = Piece(plan, plan.cases[0], 1)
    others = {key: names for key, names in plan.groups().items() if key != dims}
    read = {name for key, names in others.items() for name in piece.steps_before(key, names)}
    return sorted(name for name in read if plan.dims[name] == dims)


def _steps(
    plan: Plan,
    dims: tuple[str, ...],
    names: list[str],
    threads: int,
    keep: bool,
    intermediate: Mapping[Any, Array],
) -> Iterator[tuple[Any, FusedStep]]:
    """The last step of each case, and the part of the outputs that it fills."""
    results = dict(intermediate)
    for case in plan.cases_of(dims):
        runs = {dim: case.runs.get(dim, slice(0, plan.sizes[dim])) for dim in dims}
        step = Piece(plan, case, threads, results).last(dims, seen_from(runs, runs), names)
        if keep and _is_small(plan, dims) and step.formulas:
            arrays = {name: np.empty(extent(runs, dims, dims)) for name in names}
            step.run(arrays, threads)
            waits = plan.engine == "numba" and not plan.compiles_in_background
            step = FusedStep(
                numba_engine.copy if waits else RUN["numpy"],
                {},
                {name: np.atleast_1d(array) for name, array in arrays.items()},
            )
        yield (*runs.values(), ...), step


class Piece:
    """The share of one case in a block: cached results, and how to evaluate more."""

    def __init__(
        self, plan: Grid, case: Case, threads: int, shared: dict[Any, Array] | None = None
    ) -> None:
        self.plan, self.case, self.threads = plan, case, threads
        self.cached: ChainMap[Any, Array] = ChainMap({}, {} if shared is None else shared)

    def key(self, name: str) -> tuple[Any, ...]:
        """By what cases share a result: those that do not differ along its dimensions."""
        dims = self.plan.dims[name]
        return (name, *(run.start for dim, run in self.case.runs.items() if dim in dims))

    def fill(self, dims: tuple[str, ...], region: Region, outs: Mapping[str, Array]) -> None:
        """Evaluate quantities over a region of some dimensions into arrays."""
        self.last(dims, region, list(outs)).run(outs, self.threads)

    def last(self, dims: tuple[str, ...], region: Region, outs: list[str]) -> "FusedStep":
        """Run all steps but the last to quantities over a region, and return the last."""
        formulas, needed = self._fused(dims, outs)
        self._keep(dims, region, [name for name in needed if not self._is_given(name)])
        operands = {name: self._operand(name, dims, region) for name in needed}
        if not dims:  # kernels iterate over a last axis
            operands = {name: operand.reshape((1,)) for name, operand in operands.items()}
        run = auto_engine.run_again if self.plan.compiles_in_background else RUN[self.plan.engine]
        minor = self.plan.is_minor(dims, len(formulas) or len(outs))
        if (minor and self.plan.engine == "numba") or (not formulas and self.plan.engine in JAX):
            run = numpy_engine.run  # same bits
        if formulas and self.plan.engine in JAX:
            operands = {n: self._sent(n, region, array) for n, array in operands.items()}
        return FusedStep(run, formulas, operands)

    def _is_given(self, name: str) -> bool:
        return name not in self.case.formulas or self.plan.is_table(name)

    def steps_before(self, dims: tuple[str, ...], outputs: Sequence[str]) -> list[str]:
        """What is evaluated before the last step to outputs of some dimensions."""
        return [name for name in self._fused(dims, outputs)[1] if not self._is_given(name)]

    def _fused(
        self, dims: tuple[str, ...], outputs: Sequence[str]
    ) -> tuple[dict[str, Function], list[str]]:
        """Formulas to fuse, in order, and the names of the operands they need."""
        fused: dict[str, Function] = {}
        needed: dict[str, None] = {}

        def visit(name: str, wanted: bool) -> None:
            if name in fused or name in needed:
                return
            if self._is_given(name) or (not wanted and self._is_kept(name, dims)):
                needed[name] = None
                return
            formula = self.case.formulas[name]
            for parameter in parameters(formula):
                visit(parameter, False)
            fused[name] = formula

        for name in outputs:
            visit(name, True)
        return fused, list(needed)

    def _is_kept(self, name: str, dims: tuple[str, ...]) -> bool:
        """Whether a quantity of fewer dimensions is evaluated first and read back. Only with numba:
        NumPy evaluates every formula over its own dimensions anyway, and XLA would round fused
        formulas differently."""
        its_dims = self.plan.dims[name]
        if self.plan.engine != "numba" or its_dims == dims:
            return False
        if numba_engine.is_heavy(self.case.formulas[name]):
            return True
        # kernels already compute once per row what is constant along the last axis
        smaller = self.plan.points_over(dim for dim in dims if dim not in its_dims)
        return dims[-1] in its_dims and smaller > REUSE

    def _keep(self, dims: tuple[str, ...], region: Region, names: Sequence[str]) -> None:
        """Evaluate and cache quantities of fewer dimensions over the region's projection."""
        missing = [name for name in names if self.key(name) not in self.cached]
        for own_dims, group in by_dims(missing, self.plan.dims).items():
            shadow = {dim: region[dim] for dim in own_dims}
            shape = extent(region, own_dims, own_dims)
            arrays = {name: memory.allocate(shape, np.float64, self.threads) for name in group}
            self.fill(own_dims, shadow, arrays)
            alone, shared = self.cached.maps
            cache = alone if self.case.runs.keys() <= {*own_dims} else shared
            cache.update({self.key(name): array for name, array in arrays.items()})

    def _sent(self, name: str, region: Region, array: Array) -> Any:
        """An operand where JAX computes, kept there for other blocks if small."""
        plan, sent = self.plan, self.plan.sent
        if sent is None or self.key(name) in self.cached or plan.size(name) > MOST_TABLE:
            return array
        cuts = ((region[dim].start, region[dim].stop) for dim in plan.dims[name])
        key = (*self.key(name), array.shape, *cuts)
        if key not in sent:
            sent[key] = jax_engine.resident(array, plan.engine == "jax-float32")
        return sent[key]

    def _operand(self, name: str, dims: tuple[str, ...], region: Region) -> Array:
        if (cached := self.cached.get(self.key(name))) is not None:
            return cached.reshape(extent(region, self.plan.dims[name], dims))
        table = self.plan.table(self.case, name)
        index = tuple(
            (region[axis.name] if size > 1 else slice(None)) if axis.name in dims else 0
            for axis, size in zip(self.plan.axes, table.shape, strict=True)
        )
        return table[index]
