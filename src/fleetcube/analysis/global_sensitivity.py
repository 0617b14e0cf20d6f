"""Global sensitivity: all inputs vary at once; Sobol indices and Morris effects, with SALib."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError, check_count, imported
from fleetcube.grid.plan import memory
from fleetcube.grid.plan.labels import attributes, origin
from fleetcube.grid.progress import expected
from fleetcube.grid.result import Result
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axis import Array
from fleetcube.grid.spec.distributions import Distribution
from fleetcube.grid.spec.values import is_whole
from fleetcube.kernels.calculus.derivatives import unit_of
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.graph.formulas import Graph

from .gradient import uncounted
from .sensitivity import check_levers, cut, frozen, outputs_at
from .uncertainty import sobol_points

METHODS = ("sobol", "morris")
MOST_SAMPLES = 1 << 28
FEWEST = 16  # base points of a Sobol estimate, trajectories of a Morris estimate
PIECE = 1 << 18  # points evaluated at once
RESAMPLED = 10_000_000  # numbers resampled for confidence intervals: inputs x base points x times
LEVELS = 4
TAIL = 0.01  # probability truncated at each end of a distribution for Morris effects

Ranges = Mapping[str, Distribution]
Model = Callable[[Array], Array]  # a quantity at rows of points between 0 and 1


def global_sensitivity(
    sweep: Evaluation,
    output: str,
    method: str,
    wrt: str | Sequence[str] | None,
    place: Mapping[str, Any] | None,
    samples: int,
    spread: float,
    seed: int,
    settings: Settings,
) -> Result:
    """See `Sweep.global_sensitivity`."""
    if method not in METHODS:
        raise InputError(f"method = {method!r} is unknown; choose one of {', '.join(METHODS)}")
    _check(samples, spread)
    check_count("seed", seed, 0)
    point, point_text = cut(sweep.with_outputs([output]), place or {})
    plan = point._plan("numpy")
    problem, values = frozen(plan)
    inputs = check_levers(plan, output, wrt)
    ranges = _ranges(
        sweep.graph, inputs, values, plan.problem.distributions, spread, wrt is not None
    )
    if not ranges:
        raise InputError(
            f"{output} depends on no number that could vary here; name another quantity"
        )

    def model(rows: Array) -> Array:
        drawn = zip(ranges.items(), rows.T, strict=True)
        columns = {name: distribution.quantile(column) for (name, distribution), column in drawn}
        return outputs_at(problem, columns, output, settings)

    work = _sobol if method == "sobol" else _morris
    indices, count = work(model, ranges, output, samples, seed)
    key = next(iter(indices)) if method == "morris" else "total"
    rank = np.argsort(-indices[key], kind="stable")
    names = [list(ranges)[k] for k in rank]
    unit = "1" if method == "sobol" else attributes(plan, output)["units"]
    variables: dict[str, Any] = {
        name: ("input", numbers[rank], {"units": unit, "long_name": _MEANING[name]})
        for name, numbers in indices.items()
    }
    for name, share in (("low", 0.05), ("high", 0.95)):
        ends = [_end(ranges[n], name, share) for n in names]
        variables[name] = ("input", ends, {"long_name": f"{name} end of the range (90 % of it)"})
    coords = {"input": names, "units": ("input", [unit_of(sweep.graph, n) for n in names])}
    attrs = {
        **origin(plan, sweep.spec, varied=names),
        **uncounted(plan, names),
        "fleetcube_point": point_text,
        "fleetcube_evaluations": count,
        "fleetcube_left_out": " ".join(n for n in inputs if n not in ranges),
    }
    return Result(variables, coords, attrs)


_MEANING = {
    "first_order": "share of the variance that the input explains alone",
    "first_order_error": "half width of its 95 % confidence interval",
    "total": "share of the variance that would be gone if the input were known",
    "total_error": "half width of its 95 % confidence interval",
    "effect": "mean size of the change when the input crosses its range",
    "effect_error": "half width of its 95 % confidence interval",
    "mean_effect": "mean change when the input crosses its range",
    "effect_std": "standard deviation of that change: other inputs matter, or it is not linear",
}


def _check(samples: Any, spread: Any) -> None:
    whole = isinstance(samples, int) and not isinstance(samples, bool)
    if not whole or not 1 <= samples <= MOST_SAMPLES:
        raise InputError(
            f"samples = {samples!r} is not a whole number from 1 to {MOST_SAMPLES:,}; give one"
        )
    number = isinstance(spread, int | float | np.number) and not isinstance(spread, bool)
    if not number or not 0 < spread < 1:
        raise InputError(f"spread = {spread!r} is not a share between 0 and 1; give 0.2 for 20 %")


def _ranges(
    graph: Graph,
    inputs: Sequence[str],
    values: Mapping[str, float],
    distributions: Ranges,
    spread: float,
    by_user: bool,
) -> dict[str, Distribution]:
    """Sampling distributions of inputs; those that cannot vary are omitted, or refused if named."""
    ranges: dict[str, Distribution] = {}
    for name in inputs:
        value = values[name]
        plain = without_phase(name)
        high = graph.inputs[plain].high if plain in graph.inputs else math.inf
        if name in distributions:
            ranges[name] = distributions[name]
        elif not is_whole(graph, name) and 0 < value < math.inf:
            ends = (value * (1 - spread), min(value * (1 + spread), high))
            ranges[name] = Distribution("uniform", ends)
        elif by_user:
            why = "a whole number" if is_whole(graph, name) else f"{value:g}"
            raise InputError(f"{name} is {why} and has no range; give it a distribution")
    return ranges


def _end(distribution: Distribution, name: str, share: float) -> float:
    if distribution.kind == "uniform":
        return distribution.values[0 if name == "low" else 1]
    return float(distribution.quantile(np.array([share]))[0])


def _checked(output: str, out: Array) -> Array:
    """The values; refused if SALib cannot analyse them."""
    wrong = int((~np.isfinite(out)).sum())
    if wrong:
        raise InputError(
            f"{output} is not finite at {wrong:,} of {out.size:,} samples; narrow the ranges"
        )
    if out.min() == out.max():
        raise InputError(f"{output} is the same at all samples; widen the ranges, or name others")
    return out


def _sobol(
    model: Model, ranges: Ranges, output: str, samples: int, seed: int
) -> tuple[dict[str, Array], int]:
    """Sobol indices (Saltelli et al. 2010) from base points and points with one input changed."""
    inputs = len(ranges)
    fewest = FEWEST * (inputs + 2)
    if samples < fewest:
        raise InputError(
            f"samples = {samples} are too few for {inputs} inputs; give at least {fewest:,}"
        )
    analyze = imported("SALib.analyze.sobol").analyze
    # Sobol points are evenly spread only at powers of two
    base = 1 << int(math.log2(samples / (inputs + 2)))
    memory.check(8 * (2 * base * inputs + base * (inputs + 2)), "take fewer samples")
    points = sobol_points(base, 2 * inputs, seed)
    out = np.empty((base, inputs + 2))
    done = expected(out.size, "points")
    step = max(1, PIECE // (inputs + 2))
    for start in range(0, base, step):
        first, second = np.split(points[start : start + step], 2, axis=1)
        rows = np.repeat(first[:, None], inputs + 2, axis=1)  # A, A with a column of B each, B
        each = np.arange(inputs)
        rows[:, each + 1, each] = second
        rows[:, -1] = second
        values = model(rows.reshape(-1, inputs))
        out[start : start + step] = values.reshape(-1, inputs + 2)
        done(values.size)
    resamples = int(np.clip(RESAMPLED // (base * inputs), 10, 100))
    analysis = analyze(
        _salib_problem(ranges),
        _checked(output, out.reshape(-1)),
        calc_second_order=False,
        num_resamples=resamples,
        seed=seed + 1,  # SALib treats 0 as no seed, and would draw differently at every call
    )
    named = {"first_order": "S1", "first_order_error": "S1_conf"}
    named |= {"total": "ST", "total_error": "ST_conf"}
    return {name: np.asarray(analysis[key]) for name, key in named.items()}, out.size


def _morris(
    model: Model, ranges: Ranges, output: str, samples: int, seed: int
) -> tuple[dict[str, Array], int]:
    """Elementary effects (Morris 1991), per width of the range of each input."""
    inputs = len(ranges)
    trajectories = samples // (inputs + 1)
    if trajectories < FEWEST:
        raise InputError(
            f"samples = {samples} are too few for {inputs} inputs; give at least "
            f"{FEWEST * (inputs + 1):,}"
        )
    sample, analyze = (imported(f"SALib.{part}.morris") for part in ("sample", "analyze"))
    memory.check(8 * 8 * samples * inputs, "take fewer samples")
    problem = _salib_problem(ranges)
    points = sample.sample(problem, trajectories, num_levels=LEVELS, seed=seed)
    out = np.empty(len(points))
    done = expected(len(points), "points")
    for start in range(0, len(points), PIECE):
        rows = points[start : start + PIECE]
        out[start : start + PIECE] = model(rows)
        done(len(rows))
    analysis = analyze.analyze(
        problem, points, _checked(output, out), num_levels=LEVELS, num_resamples=100, seed=seed
    )
    named = {"effect": "mu_star", "effect_error": "mu_star_conf", "mean_effect": "mu"}
    named["effect_std"] = "sigma"
    return {name: np.asarray(analysis[key], float) for name, key in named.items()}, out.size


def _salib_problem(ranges: Ranges) -> dict[str, Any]:
    tails = [0.0 if drawn.kind in ("uniform", "empirical") else TAIL for drawn in ranges.values()]
    bounds = [[tail, 1 - tail] for tail in tails]
    return {"num_vars": len(ranges), "names": list(ranges), "bounds": bounds}
