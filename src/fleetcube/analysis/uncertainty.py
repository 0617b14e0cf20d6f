"""Uncertainty: from distributions of inputs to quantiles of outputs, sampled or to first order."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError, check_count, check_texts, imported
from fleetcube.grid.plan import memory, tiles
from fleetcube.grid.plan.labels import UNUSED, attributes, coordinates, ordered, origin
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.plan.tiles import Region
from fleetcube.grid.reduce.quantile import between
from fleetcube.grid.result import Result
from fleetcube.grid.run import stream
from fleetcube.grid.run.evaluation import Evaluation
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.distributions import ERROR, Distribution
from fleetcube.grid.spec.values import is_whole
from fleetcube.kernels.calculus.derivatives import name_of
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.laws.statistics import normal_quantile
from fleetcube.kernels.physics.roles import ERRORS, RATIOS_OF_PARTS

from .gradient import reached

METHODS = ("sampled", "first_order", "draws")
DRAW = "(draw)"  # no axis of a spec can have this name
SAMPLES = 4096  # default number of draws
MOST_SAMPLES = 1 << 20
_STILL = 1e-12  # deviation over mean that is only rounding
BITS = 30  # of a Sobol point

Statistics = dict[str, tuple[Array, Array, Array]]  # quantiles (last), mean and deviation by output


def uncertainty(
    sweep: Evaluation,
    outputs: str | Sequence[str] | None,
    q: Sequence[float],
    method: str,
    samples: int,
    seed: int,
    settings: Settings,
) -> Result:
    """See `Sweep.uncertainty`."""
    plan = sweep._plan("numpy", settings._mask)
    names = asked_of(plan, outputs)
    shares = _check_shares(q)
    if method not in METHODS:
        raise InputError(f"method = {method!r} is unknown; choose one of {', '.join(METHODS)}")
    how = f"{samples} draws, seed {seed}" if method == "sampled" else "first order"
    by_laws = _by_laws(plan, names, asked=outputs is not None)
    names = [name for name in names if any(name in group for _, group in by_laws)]
    if method == "draws":
        return _joint(sweep, by_laws, names, samples, seed, settings)
    variables: dict[str, Any] = {}
    dims: dict[str, tuple[str, ...]] = {}
    idle: list[set[str]] = []
    plans: list[Plan] = []
    for laws, members in by_laws:
        slopes: dict[str, dict[str, str]] = {}
        if method == "sampled":
            moved = with_draws(sweep, laws, members, samples, seed)
        else:
            moved, slopes = _differentiated(sweep, laws, members)
        with stream.mapping(moved, settings) as (plan_of, map_):
            plans.append(plan_of)
            dims |= {n: tuple(dim for dim in plan_of.out_dims[n] if dim != DRAW) for n in members}
            for axes in dict.fromkeys(dims[name] for name in members):
                group = [name for name in members if dims[name] == axes]
                work: _Draws | _Slopes = _Draws(axes, shares, stream.Rooms(plan_of, group))
                if method == "first_order":
                    rows = {name: slopes[name] for name in group}
                    needed = {*group, *(d for row in rows.values() for d in row.values())}
                    work = _Slopes(axes, shares, stream.Rooms(plan_of, needed), rows, laws)
                variables |= _variables(plan_of, axes, group, shares, work, map_)
            idle.append({*plan_of.unused()})
        if laws.keys() <= {error for error, _ in ERRORS.values()}:
            variables |= _without_still(variables, members)
    unused = " ".join(sorted(set.intersection(*idle)))
    dims_used = {dim for axes in dims.values() for dim in axes}
    coords: dict[str, Any] = {}
    for plan_of in plans:
        coords |= coordinates(plan_of, dims_used)
        if REASON not in coords:
            coords |= stream.reason(plan_of, dims_used, settings._cores)
    coords["quantile"] = ("quantile", shares, {"long_name": "share of the probability below"})
    drawn = origin(plan, sweep.spec, varied=[*plan.problem.distributions])
    attrs = {**drawn, UNUSED: unused, "fleetcube_uncertainty": how}
    attrs = {name: text for name, text in attrs.items() if text}
    ends = ("", "_mean", "_std")
    variables = {name + end: variables[name + end] for name in names for end in ends}
    return Result(variables, coords, attrs)


def _joint(
    sweep: Evaluation,
    by_laws: Sequence[tuple[dict[str, Distribution], list[str]]],
    names: Sequence[str],
    samples: Any,
    seed: Any,
    settings: Settings,
) -> Result:
    """Outputs at each draw, all at the same draws of all that is uncertain."""
    if "draw" in sweep._sizes:
        raise InputError("axis 'draw' has the name of the dimension of draws; choose another")
    every: dict[str, Distribution] = {}
    for laws, _ in by_laws:
        every |= laws
    draws: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for laws, members in by_laws:
        drawn = with_draws(sweep, every, members, samples, seed, varied=laws)
        cube = drawn._result(settings)
        for name in members:
            dims, values, about = cube[name].parts
            draws[name] = ["draw" if dim == DRAW else dim for dim in dims], values, about
        coords |= {name: cube.coords[name] for name in sweep._sizes if name in cube.coords}
    how = {"fleetcube_uncertainty": f"{samples} joint draws, seed {seed}"}
    return Result({name: draws[name] for name in names}, coords, {**cube.attrs, **how})


def errors(plan: Plan, name: str) -> dict[str, Distribution]:
    """Distributions of the prediction errors that affect an output, where an interval is known.
    Empty if it depends on parts of a prediction besides the whole: their shares are unknown."""
    problem = plan.problem
    laws: dict[str, Distribution] = {}
    felt = set(map(without_phase, reached(plan, [name])))
    if not felt.isdisjoint(RATIOS_OF_PARTS):
        return laws
    for quantity, (error, factor) in ERRORS.items():
        if quantity not in felt or problem.gives(error) or not problem.may_exceed(factor):
            continue
        if any(quantity in map(without_phase, case.formulas) for case in plan.cases):
            laws[error] = ERROR
    return laws


def _by_laws(
    plan: Plan, names: Sequence[str], asked: bool
) -> list[tuple[dict[str, Distribution], list[str]]]:
    """Outputs, grouped by the distributions and prediction errors that affect them."""
    groups: dict[tuple[str, ...], tuple[dict[str, Distribution], list[str]]] = {}
    for name in names:
        laws = {**plan.problem.distributions, **errors(plan, name)}
        groups.setdefault(tuple(laws), (laws, []))[1].append(name)
    certain = groups.pop((), ({}, []))[1]
    if certain and (asked or not groups):
        raise InputError(
            f"the scenario has no distribution that {certain[0]} could feel; give one, as in "
            'gpu_mttf = {lognormal = ["50_000 h", 1.5]}'
        )
    return list(groups.values())


def asked_of(plan: Plan, names: Any) -> list[str]:
    """The outputs named, by default all that are numbers."""
    out = stream.numeric(plan)
    return (
        out if names is None else [stream.check_output(plan, n) for n in check_texts("of", names)]
    )


def _check_shares(q: Any) -> Array:
    try:
        shares = np.atleast_1d(np.asarray(q, float))
    except (TypeError, ValueError):
        shares = np.array([np.nan])
    if shares.ndim != 1 or not shares.size or not ((shares > 0) & (shares < 1)).all():
        raise InputError(f"q = {q!r} is not a list of shares; give numbers between 0 and 1")
    return shares


def sobol_points(samples: int, dimensions: int, seed: int) -> Array:
    """Scrambled Sobol points between 0 and 1, one per row; never 0 or 1."""
    qmc = imported("scipy.stats.qmc")  # slow to import: only for draws
    sampler = qmc.Sobol(dimensions, bits=BITS, rng=np.random.default_rng(seed))
    # Shifted by half a cell: a point may be 0, where a normal quantile is infinite
    return np.asarray(sampler.random(samples)) + 0.5 ** (BITS + 1)


def with_draws(
    sweep: Evaluation,
    laws: Mapping[str, Distribution],
    names: Sequence[str],
    samples: Any = SAMPLES,
    seed: Any = 0,
    varied: Collection[str] | None = None,
) -> Evaluation:
    """The sweep with an axis of draws of the uncertain inputs, or of those in `varied`."""
    whole = isinstance(samples, int) and not isinstance(samples, bool)
    # Sobol points are evenly spread only at powers of two
    if not whole or not 2 <= samples <= MOST_SAMPLES or samples & (samples - 1):
        raise InputError(
            f"samples = {samples!r} is not a power of 2 from 2 to {MOST_SAMPLES:,}; give one, "
            "such as 4096"
        )
    check_count("seed", seed, 0)
    middles = (np.arange(samples) + 0.5) / samples  # the quantiles of one law need no draws
    columns = sobol_points(samples, len(laws), seed).T if len(laws) > 1 else [middles]
    drawn = zip(laws, columns, strict=True)
    numbers = {
        name: laws[name].quantile(u) for name, u in drawn if varied is None or name in varied
    }
    axis = Axis(DRAW, np.arange(samples), numbers)
    return sweep.replace(axes={**sweep.spec["axes"], DRAW: axis}, outputs=names)


def _differentiated(
    sweep: Evaluation, laws: Mapping[str, Distribution], names: Sequence[str]
) -> tuple[Evaluation, dict[str, dict[str, str]]]:
    """A sweep of the outputs and their derivatives by the uncertain inputs."""
    slopes: dict[str, dict[str, str]] = {}
    predicted = {error: 0.0 for error, _ in ERRORS.values() if error in laws}
    sweep = sweep.replace(scenario={**predicted, **sweep.spec["scenario"]}, outputs=names)
    plan = sweep._plan("numpy")
    for name in names:
        slopes[name] = {}
        felt = reached(plan, [name])
        for wrt, distribution in laws.items():
            if wrt in felt:
                _check_smooth(sweep.graph, wrt, distribution)
                slopes[name][wrt] = name_of("d", name, wrt)
    derivatives = dict.fromkeys(d for row in slopes.values() for d in row.values())
    return sweep.with_outputs([*names, *derivatives]), slopes


def _check_smooth(graph: Graph, name: str, distribution: Distribution) -> None:
    if is_whole(graph, name):
        raise InputError(f"{name} is a whole number, without a slope; use method = 'sampled'")
    if not math.isfinite(distribution.deviation):
        raise InputError(f"{name} may be infinite; use method = 'sampled'")


@dataclass(frozen=True)
class _Draws:
    """Statistics of outputs that share dimensions, over the draws."""

    dims: tuple[str, ...]
    shares: Array
    rooms: stream.Rooms

    def part(self, plan: Plan, tile: Region) -> Statistics:
        dims = [axis.name for axis in plan.axes if axis.name in (*self.dims, DRAW)]
        region = {**tile, DRAW: slice(0, plan.sizes[DRAW])}
        statistics: Statistics = {}
        for name, out in self.rooms.evaluate(plan, dims, region).items():
            rows = np.sort(np.moveaxis(out, dims.index(DRAW), -1), axis=-1)
            statistics[name] = (self._quantiles(rows), rows.mean(axis=-1), rows.std(axis=-1))
        return statistics

    def _quantiles(self, rows: Array) -> Array:
        """Linear between order statistics; NaN if any draw is NaN (sorted last)."""
        position = self.shares * (rows.shape[-1] - 1)
        low = np.floor(position).astype(int)
        values = between(rows[..., low], rows[..., np.ceil(position).astype(int)], position - low)
        return np.where(np.isnan(rows[..., -1:]), np.nan, values)


@dataclass(frozen=True)
class _Slopes:
    """Statistics of outputs that share dimensions, from their slopes at the medians."""

    dims: tuple[str, ...]
    shares: Array
    rooms: stream.Rooms
    slopes: Mapping[str, Mapping[str, str]]
    distributions: Mapping[str, Distribution]

    def part(self, plan: Plan, tile: Region) -> Statistics:
        outs = self.rooms.evaluate(plan, self.dims, tile)
        return {name: self._statistics(outs, name, row) for name, row in self.slopes.items()}

    def _statistics(
        self, outs: Mapping[str, Array], name: str, row: Mapping[str, str]
    ) -> tuple[Array, Array, Array]:
        """Quantiles, mean and deviation; lognormal if above 0 and all inputs multiply."""
        out, variance = outs[name], np.zeros_like(outs[name])
        for wrt, slope in row.items():
            variance = variance + (outs[slope] * self.distributions[wrt].scale) ** 2
        deviation, z = np.sqrt(variance), normal_quantile(self.shares)
        values = out[..., None] + deviation[..., None] * z
        mean = out.copy()  # the room's array is refilled by the next tile
        if row and all(self.distributions[wrt].multiplies for wrt in row):
            above = out > 0
            # 1 and 0 elsewhere, so that the branch not taken neither divides nor overflows
            spread = np.where(above, deviation / np.where(above, out, 1.0), 0.0)
            raised = out[..., None] * np.exp(spread[..., None] * z)
            values = np.where(above[..., None], raised, values)
            mean = out * np.exp(spread * spread / 2)
            deviation = np.where(above, mean * np.sqrt(np.expm1(spread * spread)), deviation)
        return values, mean, deviation


def _without_still(variables: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Mask statistics of predictions without an interval by NaN: no width is not certainty."""
    masked: dict[str, Any] = {}
    for name in names:
        mean, deviation = (variables[f"{name}_{end}"] for end in ("mean", "std"))
        still = deviation[1] <= _STILL * np.abs(mean[1])
        for key, mask in (
            (name, still[..., None]),
            (f"{name}_mean", still),
            (f"{name}_std", still),
        ):
            dims, values, attrs = variables[key]
            masked[key] = dims, np.where(mask, np.nan, values), attrs
    return masked


def _variables(
    plan: Plan,
    axes: tuple[str, ...],
    names: Sequence[str],
    shares: Array,
    work: _Draws | _Slopes,
    map_: stream.Map,
) -> dict[str, Any]:
    """Variables of outputs that share dimensions, tile by tile."""
    shape = plan.shape(axes)
    memory.check(8 * (len(shares) + 2) * len(names) * math.prod(shape))
    arrays = {
        name: (np.empty((*shape, len(shares))), np.empty(shape), np.empty(shape)) for name in names
    }
    whole = plan.whole(axes)
    # A tile has all draws of its points: quantiles need them together
    most = max(1, tiles.BLOCK // plan.sizes.get(DRAW, 1))
    for tile, statistics in map_(work.part, tiles.blocks(whole, most)):
        cut = tiles.inside(whole, tile, axes)
        for name in names:
            for array, values in zip(arrays[name], statistics[name], strict=True):
                array[cut] = values
    variables: dict[str, Any] = {}
    for name, (quantiles, mean, deviation) in arrays.items():
        attrs = attributes(plan, name)
        order, turned = ordered(plan, axes, quantiles)
        variables[name] = ([*order, "quantile"], turned, attrs)
        for end, meaning, values in (
            ("mean", "mean", mean),
            ("std", "standard deviation", deviation),
        ):
            about = {**attrs, "long_name": f"{meaning}: {attrs['long_name']}"}
            variables[f"{name}_{end}"] = (*ordered(plan, axes, values), about)
    return variables
