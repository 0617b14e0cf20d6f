"""Errors of float32 against float64 for every quantity: docs/float32.md."""

import math
from functools import cache

import numpy as np

from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from tests.kernels.test_engines import POINTS, points

from .text import DOCS, table

PAGE = DOCS / "float32.md"
Array = np.ndarray
FINE = 1e-5  # quantities with smaller errors are not listed
TINY, HUGE = 1e-37, 1e38  # about the range of float32
INTRODUCTION = f"""# What float32 costs

JAX computes in float32 unless `jax_enable_x64` is set, and some accelerators have nothing else.
A [function](howto/call-from-programs.md) of engine `"jax"` then computes in float32, too. Sweeps
do so with `Settings("jax-float32")` (`--engine jax-float32`), else they compute in float64; their
`dtype="float32"` only rounds what they store.

Below is the relative error of float32, measured against float64: every quantity but a
few that are drawn themselves, with each choice of each option in turn, at {POINTS} drawn
points, many of them far from any real cluster. "Typical"
is the median of the points, "worst" the largest, both rounded up to a power of ten. Points are
left out whose right value float32 cannot hold (below {TINY:g} or above {HUGE:g}). Three things
lose digits:

- **Small differences**: what is exposed is traffic less what hides it, and the last digits remain.
- **Counts that jump**: rounding moves a quotient across a whole number, such as the buckets of a
  gradient.
- **Underflow**: a cluster that fails every few minutes has a goodput of 1e-40 and a `job_time` of
  1e45 s; float32 has 0 and infinity.

`python -m docs.make docs/float32.md` writes this page; a test holds its bounds, for JAX as well.
"""


@cache
def errors() -> dict[str, tuple[float, float]]:
    """Median and largest relative error of each quantity; for a code, the share of wrong points."""
    defaults = {name: row.default for name, row in INPUTS.items() if row.kind == "option"}
    cases = [defaults]
    cases += [
        {**defaults, name: choice}
        for name in defaults
        for choice in INPUTS[name].choices
        if choice != defaults[name]
    ]
    pairs: dict[str, tuple[float, float]] = {}
    for options in cases:
        exact, short = (evaluated(options, kind) for kind in (np.float64, np.float32))
        for name, right in exact.items():
            found = _errors(
                right, short[name].astype(float), PHYSICS.quantities[name].unit == "flag"
            )
            known = pairs.get(name, (0.0, 0.0))
            pairs[name] = (max(known[0], found[0]), max(known[1], found[1]))
    return pairs


def evaluated(options: dict[str, object], kind: type) -> dict[str, Array]:
    given = {
        name: row.default
        for name, row in INPUTS.items()
        if row.kind != "option" and row.default is not None
    }
    values = {
        name: np.broadcast_to(np.asarray(value, kind), POINTS)
        for name, value in {**given, **points()}.items()
    }
    formulas = PHYSICS.select(PHYSICS.quantities, options, values)
    with np.errstate(all="ignore"):
        for name, formula in formulas.items():
            result = formula(*[values[p] for p in parameters(formula)])
            values[name] = np.broadcast_to(np.asarray(result, kind), POINTS)
    return {name: values[name] for name in formulas}


def _errors(right: Array, found: Array, flag: bool) -> tuple[float, float]:
    if flag:
        wrong = float(np.mean((right != found) & ~(np.isnan(right) & np.isnan(found))))
        return wrong, wrong
    held = (np.abs(right) > TINY) & (np.abs(right) < HUGE)
    if not held.any():
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        relative = np.abs(found - right)[held] / np.abs(right)[held]
    relative = np.where(np.isfinite(relative), relative, math.inf)
    return float(np.median(relative)), float(relative.max())


def bound(error: float) -> float:
    return 10.0 ** math.ceil(math.log10(error)) if 0 < error < math.inf else error


def page() -> str:
    found = errors()
    listed = {name: pair for name, pair in found.items() if pair[1] > FINE}
    fine = len(found) - len(listed)
    rows = [
        (f"`{name}`", *(_written(PHYSICS.quantities[name].unit == "flag", error) for error in pair))
        for name, pair in sorted(listed.items(), key=lambda item: (-bound(item[1][1]), item[0]))
    ]
    text = f"{fine} of {len(found)} quantities are right to {FINE:g} at every point. The others:"
    return f"{INTRODUCTION}\n{text}\n\n{table(('quantity', 'typical', 'worst'), rows, ' rr')}\n"


def _written(flag: bool, error: float) -> str:
    if flag:
        return f"{error:.1%} of points"
    return "infinite" if error == math.inf else f"{bound(error):.0e}" if error else "0"
