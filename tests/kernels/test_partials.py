"""Partial derivatives of every formula: against 80 digits, JAX's own, and on all engines."""

import itertools
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

from fleetcube.kernels.calculus import derivatives
from fleetcube.kernels.calculus.built import Chain, Partial, Renamed
from fleetcube.kernels.calculus.smooth import followed
from fleetcube.kernels.engines import jax as jax_engine
from fleetcube.kernels.engines.job import Job
from fleetcube.kernels.graph.docstrings import read
from fleetcube.kernels.graph.formulas import parameters
from fleetcube.kernels.physics.graph import PHYSICS

from .. import table
from ..draws import TIMES, generator
from ..table import each
from .precise import slopes
from .test_engines import FORMULAS, POINTS, RUN, operands

Arrays = dict[str, np.ndarray[Any, Any]]

SMOOTH = {n: f for n, f in FORMULAS.items() if read(f).unit != "flag" and table.only in n}
PARTIALS = [
    (name, parameter)
    for name, f in SMOOTH.items()
    for parameter, unit in PHYSICS.units(f).items()
    if unit != "flag"
]
TOLERANCE = 1e-8  # relative
SLOW = {"sync_wall_gpus"}  # to compile: its chain is in test_derivatives
EPS = np.finfo(float).eps
ROWS = max(len(parameters(f)) for f in FORMULAS.values())
DRAWN = 8  # points at which every formula is differentiated in 80 digits


@cache
def values() -> Arrays:
    """Operands at every point, each perturbed so that few are equal."""
    rng = generator(21)
    moved = {}
    for name, array in operands().items():
        share = rng.uniform(0.002, 0.02, POINTS)
        finite = np.where(np.isinf(array), 1e9, array)
        moved[name] = finite * np.where(finite < 1, 1 - share, 1 + share)
    return moved


def partial_of(name: str, parameter: str) -> np.ndarray[Any, Any]:
    made = derivatives.partial(SMOOTH[name], parameter)
    with np.errstate(all="ignore"):
        found = made if isinstance(made, float) else made(*[values()[p] for p in made.parameters])
    return np.broadcast_to(found, POINTS)


def of_a_tail(name: str, arguments: list[float]) -> bool:
    """Whether a pool's wait hangs on a P(N > S) of which 1 - P(N <= S) has no digits: it is right
    to 0.1 repair times then, of a share of the time that is as small."""
    if name != "pool_hidden_wait_time":
        return False
    given = dict(zip(parameters(SMOOTH[name]), arguments, strict=True))
    ratio = given["repair_time"] * given["node_repair_rate"] / given["nodes"]
    load = (max(given["nodes"], 1.0) + given["spare_nodes"]) * ratio / (1 + ratio)
    return bool(special.gammainc(given["spare_nodes"] + 1, load) < 1e-9)


@cache
def compared(name: str) -> tuple[list[str], dict[str, int]]:
    """A formula's partials against differences in 80 digits: wrong ones, and compared points."""
    formula, wrong = SMOOTH[name], []
    counts = dict.fromkeys((*parameters(formula), "left out"), 0)
    for point in generator(22).choice(POINTS, DRAWN, replace=False):
        arguments = [float(values()[p][point]) for p in parameters(formula)]
        if np.isnan(arguments).any() or of_a_tail(name, arguments):
            continue
        with np.errstate(all="ignore"):
            size = np.abs(formula(*map(np.float64, arguments)))
        for k, parameter in enumerate(parameters(formula)):
            below, above = slopes(formula, arguments, k)
            if not mpmath.isfinite(below) or not mpmath.isfinite(above):
                continue
            if abs(above - below) > 1e-12 * max(abs(above), abs(below)):
                counts["left out"] += 1
                continue
            counts[parameter] += 1
            found = float(partial_of(name, parameter)[point])
            usual = size / abs(arguments[k]) if arguments[k] else 0.0
            if not abs(found - above) <= TOLERANCE * abs(above) + 1e-15 * usual:
                spread = spread_of(name, parameter, arguments)
                if abs(found - above) <= 4 * spread < 1e-6 * usual:  # at kinks it is more
                    continue  # terms far larger than their sum: only rounding is left
                wrong.append(f"{parameter} at {arguments}: {found}, not {float(above)}")
    return wrong, counts


def spread_of(name: str, parameter: str, arguments: list[float]) -> float:
    """Change of a partial where each argument changes by a rounding or two."""
    made = derivatives.partial(SMOOTH[name], parameter)
    if isinstance(made, float):
        return 0.0
    ulps = generator(23).integers(-2, 3, (len(arguments), 64))
    given = dict(
        zip(parameters(SMOOTH[name]), np.array(arguments)[:, None] * (1 + EPS * ulps), strict=True)
    )
    with np.errstate(all="ignore"):
        return float(np.ptp(np.broadcast_to(made(*[given[p] for p in made.parameters]), 64)))


@pytest.mark.slow
@pytest.mark.fuzz
def test_partials_are_the_slopes_in_80_digits() -> None:
    """Every partial is compared, and few points lie at kinks."""
    found = {name: compared(name) for name in SMOOTH}
    assert {name: wrong for name, (wrong, _) in found.items() if wrong} == {}
    assert {(name, p) for name, p in PARTIALS if found[name][1][p] == 0} == set(), (
        "draw what they need in points() of test_engines.py"
    )
    left_out = sum(counts["left out"] for _, counts in found.values())
    assert left_out <= 0.01 * DRAWN * len(PARTIALS)


@pytest.mark.slow
@pytest.mark.fuzz
@each("name", SMOOTH)
def test_partials_are_those_of_jax(name: str) -> None:
    import jax

    formula, few = SMOOTH[name], slice(0, 64)
    given = [np.broadcast_to(values()[p], POINTS)[few] for p in parameters(formula)]
    # all directions at once, in rows of one shape, so that JAX compiles each operation once
    rows = [np.broadcast_to(row, (ROWS, 64)) for row in given]
    along = [np.zeros((ROWS, 64)) for _ in given]
    for k, direction in enumerate(along):
        direction[k] = 1.0
    with jax.enable_x64(True):
        bound = jax_engine.binding().bind(formula)
        results, slopes = map(np.asarray, jax.jvp(bound, rows, along))
        for k, parameter in enumerate(parameters(formula)):
            result, expected = results[k], slopes[k]
            found = partial_of(name, parameter)[few]
            with np.errstate(all="ignore"):
                scale = np.maximum(np.abs(expected), np.abs(result / given[k]))
                usable = np.isfinite(result) & np.isfinite(given[k])
                off = np.abs(found - expected) > 1e-10 * scale
            assert usable.any(), "no point has a value: draw its inputs in points()"
            assert not (off & usable & np.isfinite(expected)).any(), parameter
            assert np.isfinite(found[usable]).all(), parameter
            assert np.isfinite(expected[usable]).mean() > 0.9, parameter


def some(every: int) -> list[tuple[str, str]]:
    """Partials to jit or compile, up to a second each: all of `--only`, more in `make fuzz`."""
    names = [name for name in PARTIALS if name[0] not in SLOW]
    return names if table.only else names[:: max(1, every // TIMES)]


# Of engines that round otherwise: the last of a job's 7 million segments loses seven digits
LOSES = {"ending_job_goodput": 1e-10}


def agree(engine: str, names: list[tuple[str, str]], tolerance: float) -> None:
    """Compare an engine with NumPy, one job per module; tolerance of derivative and y / x."""
    for _, group in itertools.groupby(names, key=lambda name: SMOOTH[name[0]].__module__):
        made = {name: derivatives.partial(SMOOTH[name[0]], name[1]) for name in group}
        asked = {name: m for name, m in made.items() if isinstance(m, Partial)}
        formulas = {f"slope_of_{name}_along_{p}": m for (name, p), m in asked.items()}
        outs = {name: np.empty(POINTS) for name in formulas}
        RUN[engine](Job(formulas, values(), outs), 1) if outs else None
        for (name, p), found in zip(asked, outs.values(), strict=True):
            expected = partial_of(name, p)
            with np.errstate(all="ignore"):
                result = SMOOTH[name](*[values()[q] for q in parameters(SMOOTH[name])])
                scale = np.abs(expected) + np.abs(result / values()[p])
                most = max(tolerance, LOSES.get(name, 0.0)) if tolerance else 0.0
                off = ~(np.abs(found - expected) <= most * scale)
            assert not (off & np.isfinite(scale)).any(), (name, p)


@pytest.mark.slow
def test_partials_agree_on_jax() -> None:
    agree("jax", some(16), 1e-11)  # a ramp between sizes that differ by 1e-5 loses digits


@pytest.mark.slow
def test_partials_have_the_bits_of_numpy_on_numba() -> None:
    agree("numba", some(120), 0.0)


def _slopes(formula: Any) -> set[str]:
    return {name for name in parameters(formula) if derivatives.partial(formula, name) != 0.0}


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_formula_follows_the_parameters_whose_partial_is_not_zero(every: int) -> None:
    known = [f for own in PHYSICS.quantities.values() for f in own.formulas.values()]
    for formula in dict.fromkeys(known[::every]):
        assert followed(formula) == _slopes(formula), formula


def test_formulas_made_of_others_follow_what_those_do() -> None:
    formula = PHYSICS.quantities["step_time"].default
    renamed = Renamed(formula, tuple(f"own_{name}" for name in parameters(formula)))
    slope = derivatives.partial(formula, "compute_time")
    assert isinstance(slope, Partial)
    for made in (renamed, slope, Chain((("one", "other"), (2.0, "third"))), Chain(())):
        assert followed(made) == _slopes(made) <= {*parameters(made)}
