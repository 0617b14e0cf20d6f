"""Laws on arrays of other libraries give NumPy's values in the same kind of array."""

import functools
import math
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import dask
import dask.array
import jax
import numba
import numpy as np
import pytest
import xarray
from scipy.optimize import brentq

from fleetcube.kernels import monte_carlo, ops
from fleetcube.kernels.engines import overloads
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.laws import checkpoint, collectives, topology

from ..draws import TIMES, generator
from ..table import each
from .test_docstrings import LAWS

Law = Callable[..., Any]
Array = np.ndarray[Any, Any]
SHAPE, CHUNKS = (6, 8), (6, 5)
LONG = {  # hundreds of operations: they take long to compile
    "scaling.sync_wall",
    *(f"statistics.poisson_{name}" for name in ("at_most", "below", "excess")),
    *("statistics.erlang_carried", "statistics.erlang_blocked", "statistics.poisson_truncated"),
    *(f"repair.{name}" for name in ("spare_left", "whole_of_safe", "queue_odds")),
    *("repair.whole_of_pool", "repair.missing_of_pool"),
}
SOME = set(sorted(LAWS.keys() - LONG)[::3]) if TIMES == 1 else LAWS.keys()  # all in `make fuzz`
SHARES = ("corruption_probability", "correlated_fraction", "contention", "serial_fraction")
MODULES = sorted({name.partition(".")[0] for name in LAWS})

overloads.init()  # automatic where the package is installed: see the last test


# Differences of large logarithms, of which float32 keeps few digits
ROUGH = {"topology.distinct_groups": 1e-3}


@functools.cache
def points(name: str, corners: bool) -> list[Array]:
    """Operands of a law: powers of ten, whole numbers and shares; some 0, 1 or infinite."""
    rng = generator(sum(map(ord, name)))
    drawn = []
    for operand, unit in read(LAWS[name]).parameters.items():
        values = 10 ** rng.uniform(0, 4, SHAPE)
        if unit in ("s", "1/s"):
            values = 10 ** rng.uniform(-2, 5, SHAPE)
        elif unit not in ("1", "s/B", "s/B^0.5"):
            values = 10 ** rng.uniform(3, 12, SHAPE)
        elif operand in SHARES or "probability" in operand:
            values = rng.uniform(0, 1, SHAPE)
        elif corners:
            values = np.round(values)
        if corners:
            values = np.where(rng.uniform(size=SHAPE) < 0.1, 0.0, values)
            values = np.where(rng.uniform(size=SHAPE) < 0.1, 1.0, values)
            if unit == "s":
                values = np.where(rng.uniform(size=SHAPE) < 0.1, np.inf, values)
        drawn.append(values)
    return drawn


def of_numpy(name: str) -> Any:
    with np.errstate(all="ignore"):
        return LAWS[name](*points(name, True))


def whole(module: str) -> dict[str, Law]:
    return {name: law for name, law in LAWS.items() if name.startswith(f"{module}.")}


# JAX


@pytest.mark.slow
@each("module", MODULES)
def test_laws_are_traced(module: str) -> None:
    laws = {name: law for name, law in whole(module).items() if name not in LONG}
    program = jax.jit(lambda operands: {n: law(*operands[n]) for n, law in laws.items()})
    with jax.enable_x64(True):
        found = program({name: points(name, True) for name in laws})
    for name, array in found.items():
        assert array.dtype == np.float64
        np.testing.assert_allclose(array, of_numpy(name), rtol=1e-10, err_msg=name)


@pytest.mark.slow
@each("name", sorted(SOME | LONG))
def test_an_array_of_jax_gives_one_of_its_type(name: str) -> None:
    operands = [operand.astype(np.float32) for operand in points(name, False)]
    with jax.enable_x64(False):
        found = LAWS[name](*map(jax.numpy.asarray, operands))
    assert isinstance(found, jax.Array)
    assert found.dtype == np.float32
    with np.errstate(all="ignore"):
        expected = LAWS[name](*operands)
    rough = ROUGH.get(name, 1e-4)
    np.testing.assert_allclose(found, expected, rtol=rough, atol=1e-37)  # XLA flushes less


DERIVATIVES: dict[str, tuple[tuple[float, ...], int, Callable[..., float]]] = {
    "collectives.ring_all_reduce_time": (
        (14e9, 256.0, 5e-6, 50e9),
        0,
        lambda size, ranks, latency, bandwidth: 2 * (ranks - 1) / (ranks * bandwidth),
    ),
    "collectives.switch_all_reduce_time": ((8e9, 1.0, 1.0, 1e9), 0, lambda *_: 0.0),
    "checkpoint.young_interval": ((30.0, 86400.0), 1, lambda d, m: math.sqrt(d / (2 * m))),
    # of tau = u M, -u - log(1 - u) = d / M: u - (d / M) (1 - u) / u
    "checkpoint.exact_interval": (
        (30.0, 86400.0),
        1,
        lambda d, m: (
            (u := brentq(lambda u: u + math.log1p(-u) + d / m, 1e-3, 0.9)) - d / m * (1 - u) / u
        ),
    ),
    "reliability.failure_probability": ((24.0, 195.0), 0, lambda t, m: math.exp(-t / m) / m),
    "reliability.mean_time": ((0.25,), 0, lambda rate: -1 / rate**2),
    "scaling.amdahl_speedup": ((0.1, 32.0), 1, lambda s, n: (1 - s) / (n * s + 1 - s) ** 2),
}


@each("name", DERIVATIVES)
def test_laws_are_differentiated(name: str) -> None:
    operands, position, slope = DERIVATIVES[name]
    with jax.enable_x64(True):
        found = jax.jit(jax.grad(LAWS[name], position))(*operands)
    np.testing.assert_allclose(found, slope(*operands), rtol=1e-8)


def test_laws_are_mapped_and_differentiated_twice() -> None:
    mtbf = np.array([1e4, 1e5])
    with jax.enable_x64(True):
        curve = jax.vmap(jax.grad(jax.grad(LAWS["checkpoint.young_interval"], 1), 1), (None, 0))
        found = curve(30.0, mtbf)
    np.testing.assert_allclose(found, -np.sqrt(60 * mtbf) / (4 * mtbf * mtbf), rtol=1e-12)


@pytest.mark.parametrize("position", range(3))
def test_any_operand_decides_the_library(position: int) -> None:
    operands: list[Any] = [True, 2.0, np.float64(3.0)]
    operands[position] = jax.numpy.asarray(operands[position])
    assert isinstance(ops.where(*operands), jax.Array)
    assert isinstance(ops.np.minimum(*operands[1:]), jax.Array) == (position > 0)


# Dask and xarray


def refused(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("a law computes a lazy array")


@pytest.mark.slow
@each("name", sorted(SOME))
def test_lazy_arrays_stay_lazy_and_in_their_chunks(name: str) -> None:
    stays_lazy(name)
    operands = points(name, True)
    found = LAWS[name](*[dask.array.from_array(array, CHUNKS) for array in operands])
    assert found.chunks == (CHUNKS[:1], (5, 3))
    with np.errstate(all="ignore"):
        computed = found.compute(scheduler="synchronous")
    np.testing.assert_allclose(computed, of_numpy(name), 1e-10)


@pytest.mark.slow
@each("name", sorted(LAWS.keys() - SOME))
def test_so_do_the_others(name: str) -> None:
    stays_lazy(name)


def stays_lazy(name: str) -> None:
    operands = points(name, True)
    lazy = dask.array.from_array(operands[0], CHUNKS)
    with dask.config.set(scheduler=refused), np.errstate(all="ignore"):
        mixed = LAWS[name](lazy, *[np.float64(3.0)] * (len(operands) - 1))
    assert isinstance(mixed, dask.array.Array)
    assert mixed.chunks == lazy.chunks


@pytest.mark.slow
@each("name", LAWS)
def test_labelled_arrays_keep_their_names(name: str) -> None:
    values = np.linspace(2.0, 9.0, 4)
    along = {dim: xarray.DataArray(values, dims=dim, coords={dim: values}) for dim in "ab"}
    operands: list[Any] = [3.0] * len(points(name, False))
    expected = list(operands)
    operands[0], expected[0] = along["a"], values[:, None]
    if len(operands) > 1:
        operands[-1], expected[-1] = along["b"], values
    with np.errstate(all="ignore"):
        found, values = LAWS[name](*operands), LAWS[name](*expected)
    assert isinstance(found, xarray.DataArray)
    assert set(found.dims) == set(found.coords) == set("ab"[: len(operands)])
    np.testing.assert_allclose(
        found.transpose(*"ab"[: len(operands)]).squeeze(), values.squeeze(), 1e-12
    )


# numba


@pytest.mark.slow
@each("module", sorted({name.partition(".")[0] for name in SOME}))
def test_compiled_functions_call_laws(module: str) -> None:
    laws = {name: law for name, law in whole(module).items() if name in SOME}
    scope: dict[str, Any] = {}
    lines = ["def program(i, operands, found):"]
    operands = []
    for row, (name, law) in enumerate(laws.items()):
        scope[law.__name__] = law
        first = len(operands)
        operands += [operand.ravel() for operand in points(name, True)]
        listed = ", ".join(f"operands[{k}, i]" for k in range(first, len(operands)))
        lines.append(f"    found[{row}, i] = {law.__name__}({listed})")
    exec("\n".join(lines), scope)
    found = np.empty((len(laws), operands[0].size))
    program, columns = numba.njit(scope["program"]), np.array(operands)
    for i in range(columns.shape[1]):  # outside: a compiled loop doubles the time to compile
        program(i, columns, found)
    for name, values in zip(laws, found, strict=True):
        expected = np.ravel(np.broadcast_to(of_numpy(name), SHAPE))
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-300, err_msg=name)


def test_compiled_functions_give_laws_arrays_and_names() -> None:
    @numba.njit
    def program(message: Any, ranks: Any) -> Any:
        return topology.flat_latency(ranks, 8, intra_latency=1, inter_latency=message)

    message = np.array([[1.0], [2.0], [3.0]], np.float32)
    ranks = np.array([4, 8, 16, 32])
    found = program(message, ranks)
    np.testing.assert_array_equal(found, [[1, 1, k, k] for k in (1, 2, 3)])
    assert found.dtype == np.float64
    single = program(2, 16)
    assert isinstance(single, float)
    assert single == 2.0


def test_compiled_functions_divide_by_zero_as_arrays_do() -> None:
    send = collectives.point_to_point_time
    assert numba.njit(lambda size: send(size, 0.0, 0.0))(1.0) == np.inf


def test_what_is_no_law_is_none_in_compiled_functions() -> None:
    def plain(x: float) -> float:
        return x

    segment = checkpoint._segment
    for program in (lambda x: plain(x), lambda x: segment(x, x, x)):
        with pytest.raises(numba.TypingError, match="Cannot determine Numba type"):
            numba.njit(program)(1.0)


@pytest.mark.slow
def test_functions_that_numba_keeps_on_disk_keep_laws(tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(
        "import numba\n"
        "from fleetcube.kernels.laws.checkpoint import exact_interval\n"
        "@numba.njit(cache=True)\n"
        "def program(stall): return exact_interval(stall, 86400.0)\n"
        "print(program(30.0), sum(program.stats.cache_hits.values()))\n"
    )
    for hits in (0, 1):
        run = subprocess.run(
            [sys.executable, tmp_path / "kept.py"], capture_output=True, text=True, check=True
        )
        value, found = run.stdout.split()
        np.testing.assert_allclose(float(value), checkpoint.exact_interval(30.0, 86400.0), 1e-14)
        assert int(found) == hits


def test_numba_finds_laws_by_itself() -> None:
    (found,) = (
        entry
        for entry in entry_points(group="numba_extensions")
        if entry.module.startswith("fleetcube.")
    )
    assert found.load() is overloads.init, "install again: pyproject.toml has changed"


# Refusals of other arrays


def test_jobs_are_played_on_numpy_arrays_alone() -> None:
    point = np.zeros((1, len(monte_carlo.PARAMETERS)))
    others: list[Any] = [dask.array.from_array(point), jax.numpy.asarray(point)]
    for other in others:
        with pytest.raises(TypeError, match=r"^points is a \w+, and jobs are played .*\(points\)$"):
            monte_carlo.run(other, 1, 0, 1)
    with pytest.raises(TypeError, match="points is a DynamicJaxprTracer"):
        jax.jit(lambda points: monte_carlo.run(points, 1, 0, 1))(point)
