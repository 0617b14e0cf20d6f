"""Which engine evaluates a sweep, and which quantities are tables.

Both are fixed for the whole sweep: with a choice by block, a block's shape could change a value.
"""

import importlib.util
import os
from collections.abc import Collection, Iterable

from ..errors import EXTRA, InputError
from .cases import Formulas

JAX = ("jax", "jax-float32")  # which computes in float32: docs/float32.md
ENGINES = ("auto", "numpy", "numba", *JAX)
MOST_TABLE = 1 << 20  # points of the largest table of a sweep: 8 MB
MOST_TABLES = 1 << 24  # points of all NumPy tables: 128 MB
TABLE_SHARE = 256  # the largest output has at least this many points for each point of a table
SECONDS_PER_POINT = 10e-9  # of one quantity in NumPy, measured
COMPILE_WORTH = 0.3  # a sweep compiles if NumPy would take more seconds than this,
COMPILE_EACH = 10e-3  # and more than this for each formula to compile


def check_engine(engine: str) -> None:
    """Refuse an unknown engine, numba with compilation disabled, and JAX if unavailable."""
    if engine not in ENGINES:
        raise InputError(f"engine = {engine!r} is unknown; choose one of {', '.join(ENGINES)}")
    if engine == "numba" and not compiles():
        raise InputError("engine = 'numba' needs a compiler; unset NUMBA_DISABLE_JIT")
    if engine in JAX and importlib.util.find_spec("jax") is None:
        raise InputError(f"engine = {engine!r} needs {EXTRA.format('jax')}")
    if engine in JAX and (platforms := os.environ.get("JAX_PLATFORMS")):
        import jax

        try:
            jax.devices()
        except Exception:  # JAX may also raise an AssertionError without a message
            raise InputError(
                f"JAX_PLATFORMS = {platforms!r} names no device that JAX finds here; unset it, or "
                "set it to cpu"
            ) from None


def pick_engine(engine: str, points: Collection[int], full: int) -> str:
    """The requested engine; for "auto" numba if compiling costs less than it saves. `points` are
    those of each quantity, `full` those of the largest output. Affects only speed (decision 52)."""
    if engine != "auto":
        return engine
    if not compiles():
        return "numpy"
    seconds = sum(points) * SECONDS_PER_POINT
    if seconds < COMPILE_WORTH:
        return "numpy"
    compiled = sum(size * TABLE_SHARE > full for size in points)
    return "numpy" if seconds < COMPILE_EACH * compiled else "numba"


def largest_table(engine: str, formulas: Iterable[Formulas], full: int) -> int:
    """Points up to which a quantity is evaluated once for the whole sweep, with NumPy: to the same
    bits for NumPy, which has a bound for all, and for numba; JAX takes its values (decision 77)."""
    if engine == "numpy":
        return min(MOST_TABLE, MOST_TABLES // max(1, max(map(len, formulas))))
    return max(engine in JAX, min(MOST_TABLE, full // TABLE_SHARE))


def compiles() -> bool:
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
