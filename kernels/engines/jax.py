"""JAX in float64, jitted per block shape; devices share a block on one axis (`jax.shard_map`)."""

import functools
import hashlib
import itertools
import math
from typing import Any

import numpy as np

from ..graph.bind import Binding
from ..graph.formulas import Function, parameters
from ..graph.trace import LOOPS
from .job import Job, store

# XLA's algebraic simplifier turns division by a broadcast value into multiplication by its inverse:
# the last bit would depend on a sweep's axes.
_OPTIONS = {"xla_disable_hlo_passes": "algsimp"}
SHARED = 1 << 16  # points from which a block is worth calling several devices
KEPT = 128  # programs kept, about 2 MB each; dropped ones are compiled again when used
SHARE = 1 / 4  # of the devices' memory for the outputs of a block: XLA needs working memory, too


@functools.cache
def binding() -> Binding:
    import jax.numpy as jnp

    return Binding(jnp, jnp.where)


@functools.lru_cache(KEPT)
def _program(
    formulas: tuple[tuple[str, Function], ...],
    wanted: tuple[str, ...],
    ndim: int,
    axis: int | None,
    cut: frozenset[str],
) -> Any:
    """Jitted function from operands to outputs; those in `cut` vary along the shared axis."""
    import jax

    bound = {name: binding().bind(formula) for name, formula in formulas}

    def program(operands: dict[str, Any]) -> list[Any]:
        values = dict(operands)
        for name, formula in formulas:
            values[name] = bound[name](*[values[p] for p in parameters(formula)])
        return [values[name] for name in wanted]

    if axis is None:
        return jax.jit(program, compiler_options=_OPTIONS)
    spec: Any = jax.sharding.PartitionSpec
    whole, part = spec(), spec(*(None if k != axis else "devices" for k in range(ndim)))
    moving = set(cut)
    for name, formula in formulas:
        if moving.intersection(parameters(formula)):
            moving.add(name)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("devices",))

    def shared(cut_operands: dict[str, Any], others: dict[str, Any]) -> list[Any]:
        return program({**cut_operands, **others})

    several = jax.shard_map(
        shared,
        mesh=mesh,
        in_specs=(part, whole),
        out_specs=[part if name in moving else whole for name in wanted],
    )
    return jax.jit(several, compiler_options=_OPTIONS)


def run(job: Job, threads: int) -> None:
    """Fill the job's outputs; XLA brings its own threads."""
    for out, value in zip(job.outs.values(), on_device(job).values(), strict=True):
        store(out, np.asarray(value))


def on_device(job: Job) -> dict[str, Any]:
    """Outputs, of which the job gives names and shape, as JAX arrays; of size 1 where constant."""
    import jax

    formulas, wanted, operands = tuple(job.formulas.items()), tuple(job.outs), dict(job.operands)
    ndim = len(job.shape)
    with jax.enable_x64(True):  # only here: the rest of the process keeps its setting
        axis = _shared_axis(job.shape, len(jax.devices()))
        if axis is None:
            values = _program(formulas, wanted, ndim, None, frozenset())(operands)
            return dict(zip(wanted, values, strict=True))
        size = job.shape[axis]
        missing = -size % len(jax.devices())
        cut = {
            name: np.concatenate([array, *[array.take([-1], axis)] * missing], axis)
            for name, array in operands.items()
            if array.shape[axis] > 1
        }
        others = {name: array for name, array in operands.items() if name not in cut}
        values = _program(formulas, wanted, ndim, axis, frozenset(cut))(cut, others)
        if missing:
            inside = (slice(None),) * axis + (slice(0, size),)
            values = [value[inside] if value.shape[axis] > 1 else value for value in values]
        return dict(zip(wanted, values, strict=True))


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
    """Points of this many outputs that fit in the devices' memory; None where it is the host's."""
    import jax

    limits = [(device.memory_stats() or {}).get("bytes_limit", 0) for device in jax.local_devices()]
    return int(sum(limits) * SHARE / (8 * outputs)) if all(limits) else None
