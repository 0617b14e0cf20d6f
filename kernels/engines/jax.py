"""JAX: one jitted program for all jobs of a call; devices share each job on one axis.

Jobs have operands of their own, so that XLA joins nothing across them: a job's bits are those that
it has alone. On one CPU results stay in XLA's memory, which NumPy reads and writes.
"""

import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..graph.bind import Binding
from ..graph.formulas import Function, parameters
from ..graph.trace import LOOPS
from .job import Array, Job, store

# XLA's algebraic simplifier turns division by a broadcast value into multiplication by its inverse:
# the last bit would depend on a sweep's axes.
_OPTIONS = {"xla_disable_hlo_passes": "algsimp"}
SHARED = 1 << 16  # points from which a block is worth calling several devices
WORTH = 1 << 24  # bytes of results from which a program that writes into used memory is compiled
MOST_PROGRAMS = 128  # programs kept, about 2 MB each; dropped ones are compiled again when used
SHARE = 1 / 4  # of the devices' memory for the outputs of a block: XLA needs working memory, too


@functools.cache
def binding() -> Binding:
    import jax.numpy as jnp

    return Binding(SimpleNamespace(**{**vars(jnp), **of_two()}), jnp.where)


def of_two() -> dict[str, Any]:
    """`maximum` and `minimum` with 0 for -0: by a choice, as XLA may leave out a sum with 0."""
    import jax.numpy as jnp

    def without_negative_zero(value: Any) -> Any:
        return jnp.where(value == 0.0, 0.0, value)

    return {
        "maximum": lambda x, y: without_negative_zero(jnp.maximum(x, y)),
        "minimum": lambda x, y: without_negative_zero(jnp.minimum(x, y)),
    }


@dataclass(frozen=True)
class _Step:
    """A job of a program: its formulas and outputs, and the operands cut along a shared axis."""

    formulas: tuple[tuple[str, Function], ...]
    wanted: tuple[str, ...]
    ndim: int
    axis: int | None
    cut: frozenset[str]
    single: bool  # in float32

    def bound(self) -> Callable[..., list[Any]]:
        """The function from operands, those that are cut and the others, to outputs."""
        functions = {name: binding().bind(formula) for name, formula in self.formulas}

        def values(cut: Mapping[str, Any], others: Mapping[str, Any]) -> list[Any]:
            values_by_name = {**cut, **others}
            for name, formula in self.formulas:
                values_by_name[name] = functions[name](
                    *[values_by_name[p] for p in parameters(formula)]
                )
            return [_dense(values_by_name[name], self.ndim) for name in self.wanted]

        if self.axis is None:
            return values
        import jax

        spec: Any = jax.sharding.PartitionSpec
        part = spec(*(None if k != self.axis else "devices" for k in range(self.ndim)))
        moving = set(self.cut)
        for name, formula in self.formulas:
            if moving.intersection(parameters(formula)):
                moving.add(name)
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))
        outs = [part if name in moving else spec() for name in self.wanted]
        shared: Callable[..., list[Any]] = jax.shard_map(
            values, mesh=mesh, in_specs=(part, spec()), out_specs=outs
        )
        return shared


def _dense(value: Any, ndim: int) -> Any:
    """An output as an array of the program's floating-point type; formulas of no operand give
    Python's numbers."""
    import jax.numpy as jnp

    array = jnp.asarray(value, float)
    return array if array.ndim else array.reshape((1,) * ndim)


@functools.lru_cache(MOST_PROGRAMS)
def _program(
    steps: tuple[_Step, ...], kinds: tuple[Any, ...] = (), again: bool = False, ending: Any = None
) -> Any:
    """Jitted function from memory and operands to outputs, arrays of `kinds` where these are given,
    or what `ending` makes of them; with `again` it writes them into the memory."""
    import jax
    import jax.numpy as jnp

    functions = [step.bound() for step in steps]

    def program(memory: Any, operands: Any) -> list[Any]:
        pairs = zip(functions, operands, strict=True)
        values = [value for function, given in pairs for value in function(*given)]
        for k, (shape, kind) in enumerate(kinds):
            if kind == "int8":
                values[k] = jnp.where(jnp.isnan(values[k]), -1.0, values[k])
            values[k] = jnp.broadcast_to(values[k].astype(kind), shape)
        return values if ending is None else ending(values)

    donated: Any = {"donate_argnums": 0, "keep_unused": True} if again else {}
    return jax.jit(program, compiler_options=_OPTIONS, **donated)


def run(job: Job, threads: int, single: bool = False) -> None:
    """Fill the job's outputs; XLA brings its own threads."""
    for out, value in zip(job.outs.values(), on_device([job], single), strict=True):
        store(out, np.asarray(value))


def on_device(jobs: Sequence[Job], single: bool = False, ending: Any = None) -> list[Any]:
    """Outputs of jobs of one shape, as JAX arrays of size 1 where constant, or what a hashable
    function makes of them: in the same program if it is in float64, on one device."""
    import jax

    steps, operands = program_of(jobs, single)
    axis, separate = steps[0].axis, single or steps[0].axis is not None
    with jax.enable_x64(not single):  # only here: the rest of the process keeps its setting
        values = _program(steps, ending=None if separate else ending)((), operands)
    with jax.enable_x64(True):
        values = [value.astype(np.float64) for value in values] if single else values
        if axis is not None:  # without what was added to share it
            inside = (slice(None),) * axis + (slice(0, jobs[0].shape[axis]),)
            values = [value[inside] if value.shape[axis] > 1 else value for value in values]
        return list(_alone(ending)(values) if separate and ending is not None else values)


@functools.lru_cache(MOST_PROGRAMS)
def _alone(ending: Any) -> Any:
    import jax

    return jax.jit(ending)


def resident(array: Array, single: bool) -> Any:
    """An operand of many blocks where they are computed, so that it is sent once; on several
    devices, which share operands by block, it stays here."""
    import jax

    if len(jax.devices()) > 1:
        return array
    with jax.enable_x64(not single):
        return jax.device_put(np.asarray(array, np.float32 if single else None))


def program_of(jobs: Sequence[Job], single: bool) -> tuple[tuple[_Step, ...], list[Any]]:
    """Jobs as the steps of a program, in float32 if `single`, and the steps' operands."""
    import jax

    steps, operands, devices = [], [], len(jax.devices())
    kind = np.float32 if single else None
    for job in jobs:
        axis = _shared_axis(job.shape, devices)
        missing = 0 if axis is None else -job.shape[axis] % devices
        given = job.operands.items()
        arrays = {n: a if isinstance(a, jax.Array) else np.asarray(a, kind) for n, a in given}
        cut = {
            name: np.concatenate([array, *[array.take([-1], axis)] * missing], axis)
            for name, array in arrays.items()
            if axis is not None and array.shape[axis] > 1
        }
        formulas, names = tuple(job.formulas.items()), frozenset(cut)
        steps.append(_Step(formulas, tuple(job.outs), len(job.shape), axis, names, single))
        operands.append((cut, {name: arrays[name] for name in arrays if name not in cut}))
    with jax.enable_x64(not single):  # on one device once, not at each call
        return tuple(steps), jax.device_put(operands) if devices == 1 else operands


def evaluate(steps: Any, operands: Any, outs: Mapping[str, Array]) -> dict[str, Array]:
    """All outputs by one program: in `outs` where these can be written, else in new arrays."""
    import jax

    widened = steps[0].single and any(out.dtype == np.float64 for out in outs.values())
    on_host = stays() and not widened
    kinds = tuple((out.shape, out.dtype.name) for out in outs.values()) if on_host else ()
    memory = [_memory_of(out) for out in outs.values()]
    if on_host and all(memory) and sum(out.nbytes for out in outs.values()) >= WORTH:
        # in a thread: Ctrl-C between a program and its results would free the memory under NumPy
        with ThreadPoolExecutor(1) as thread:
            if thread.submit(_write, steps, operands, kinds, memory).result():
                return dict(outs)
    with jax.enable_x64(not steps[0].single):
        values = [v.block_until_ready() for v in _program(steps, kinds)((), operands)]
    arrays = {}
    for (name, out), value in zip(outs.items(), values, strict=True):
        if on_host and not out.flags.writeable:
            arrays[name] = np.asarray(_Memory(value))
            continue
        arrays[name] = out if out.flags.writeable else np.empty(out.shape, out.dtype)
        store(arrays[name], np.asarray(value)[tuple(slice(0, size) for size in out.shape)])
    return arrays


class _Memory:
    """XLA's memory on the host, for NumPy to read and write; a later result may lie there, too."""

    def __init__(self, value: Any) -> None:
        self.value, self.address = value, value.unsafe_buffer_pointer()
        shown = {"shape": value.shape, "typestr": value.dtype.str, "version": 3}
        self.__array_interface__ = {**shown, "data": (self.address, False)}


def _memory_of(out: Array) -> _Memory | None:
    """The memory of XLA's of which an array is the whole."""
    base: Any = out
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, _Memory) or out.ctypes.data != base.address:
        return None
    same = (out.shape, out.dtype) == (base.value.shape, base.value.dtype)
    return base if same and out.flags.c_contiguous else None


def _write(steps: Any, operands: Any, kinds: tuple[Any, ...], memory: list[Any]) -> bool:
    """Put a program's results into memory of earlier ones; returns whether XLA does so."""
    import jax

    leaves, tree = jax.tree.flatten(operands)
    with jax.enable_x64(not steps[0].single):
        program = _in_place(steps, kinds, tree, tuple((a.shape, a.dtype.name) for a in leaves))
        if program is not None:
            values = program([each.value for each in memory], operands)
            for each, value in zip(memory, values, strict=True):
                each.value = value.block_until_ready()
    return program is not None


@functools.lru_cache(MOST_PROGRAMS)
def _in_place(steps: Any, kinds: tuple[Any, ...], tree: Any, operands: Any) -> Any:
    """The compiled program that writes into memory; None if XLA would take other memory."""
    import jax

    shaped: Any = jax.ShapeDtypeStruct
    given, memory = ([shaped(*one) for one in some] for some in (operands, kinds))
    compiled = _program(steps, kinds, True).lower(memory, tree.unflatten(given)).compile()
    size = sum(math.prod(shape) * np.dtype(kind).itemsize for shape, kind in kinds)
    return compiled if compiled.memory_analysis().alias_size_in_bytes >= size else None


def _shared_axis(shape: tuple[int, ...], devices: int) -> int | None:
    """The axis to share among devices: the first of those with the least padding."""
    if devices == 1 or math.prod(shape) < SHARED:
        return None
    waste = [-size % devices / size if size > 1 else math.inf for size in shape]
    axis = int(np.argmin(waste))
    return axis if waste[axis] < 1 else None


@functools.cache
def processor() -> str:
    """XLA's target, by name and by its results: last bits differ between kinds of device."""
    import jax
    import jax.numpy as jnp

    def program(x: Any) -> Any:
        single = [getattr(jnp, name)(x) for name in LOOPS]
        return [*single, *(value * x + y for value, y in itertools.pairwise(single))]

    with jax.enable_x64(True):
        values = jax.jit(program, compiler_options=_OPTIONS)(1 / np.arange(1.0, 2049.0))
    bits = hashlib.sha256(b"".join(np.asarray(value).tobytes() for value in values))
    return f"{jax.devices()[0].device_kind}, whose exp and log give {bits.hexdigest()[:8]}"


def most_points(outputs: int) -> int | None:
    """Points of this many outputs that fit in the devices' memory; None if that is the host's."""
    import jax

    limits = [(device.memory_stats() or {}).get("bytes_limit", 0) for device in jax.local_devices()]
    return int(sum(limits) * SHARE / (8 * outputs)) if all(limits) else None


def stays() -> bool:
    """Whether results stay where they are computed: on one device, the CPU."""
    import jax

    return [device.platform for device in jax.devices()] == ["cpu"]
