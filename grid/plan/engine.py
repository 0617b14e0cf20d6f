"""Which engine evaluates a sweep, and what it keeps in tables.

Both are fixed for the whole sweep: a choice by block would let the shape of a block change a value.
"""

import importlib.util
import os
from collections.abc import Collection, Iterable

from ..errors import InputError
from .cases import Formulas

ENGINES = ("auto", "numpy", "numba", "jax")
MOST_TABLE = 1 << 20  # points of the largest table kept for the whole sweep: 8 MB
MOST_TABLES = 1 << 24  # points of all tables of NumPy's: 128 MB
TABLE_SHARE = 256  # a table has at most one point for so many of the largest output
SECONDS_PER_POINT = 10e-9  # of one quantity in NumPy, measured
COMPILE_WORTH = 0.3  # seconds of NumPy above which a sweep compiles, or, if it is more,
COMPILE_EACH = 10e-3  # seconds of NumPy for each formula that would be compiled


def check_engine(engine: str) -> None:
    """Refuse an unknown engine, numba where nothing may be compiled, and JAX where it is not."""
    if engine not in ENGINES:
        raise InputError(f"engine = {engine!r} is unknown; choose one of {', '.join(ENGINES)}")
    if engine == "numba" and not compiles():
        raise InputError("engine = 'numba' needs a compiler; unset NUMBA_DISABLE_JIT")
    if engine == "jax" and importlib.util.find_spec("jax") is None:
        raise InputError("engine = 'jax' needs an extra; run: pip install 'fleetcube[jax]'")
    if engine == "jax" and (platforms := os.environ.get("JAX_PLATFORMS")):
        import jax

        try:
            jax.devices()
        except Exception:  # JAX raises an AssertionError without words, too
            raise InputError(
                f"JAX_PLATFORMS = {platforms!r} names no device that JAX finds here; unset it, or "
                "set it to cpu"
            ) from None


def pick_engine(engine: str, points: Collection[int], full: int) -> str:
    """The engine asked for; for "auto" numba where compiling costs less than it saves.

    `points` are those of each quantity, `full` those of the largest output. This changes speed
    alone (decision 8).
    """
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
    """Points up to which a quantity is evaluated once for the whole sweep, with NumPy.

    JAX has none: its bits are its own, and a quantity must not be NumPy's in one sweep and JAX's in
    a larger one. With NumPy all of a sweep's tables together are bounded, however many there are.
    """
    if engine == "jax":
        return 0
    if engine == "numpy":
        return min(MOST_TABLE, MOST_TABLES // max(1, max(map(len, formulas))))
    return min(MOST_TABLE, full // TABLE_SHARE)


def compiles() -> bool:
    """Whether numba may compile."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
