"""Optimise several inputs under conditions, at every point of a grid.

Sobol points over the box locate where the conditions hold and the output is good; from the best of
them SciPy's SLSQP descends with exact gradients, in logarithms if the range is above 0. Counts are
continuous until then: the best feasible whole numbers around the optimum are improved by local
search, and the other inputs optimised again. Of counts alone, all that can be laid out are tried
where they are no more than 2 million.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError, imported, shown
from fleetcube.grid.plan.execute import evaluate_block
from fleetcube.grid.plan.grid import by_dims
from fleetcube.grid.plan.labels import (
    attributes,
    coordinates,
    dtype_of,
    flags,
    ordered,
    origin,
)
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.plan.tiles import extent
from fleetcube.grid.progress import expected
from fleetcube.grid.result import Result, in_memory
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.grid.spec.problem import Problem, resolve
from fleetcube.kernels.calculus.derivatives import name_of
from fleetcube.kernels.graph.formulas import Graph, parameters
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import LIMITS, NEAR, RUN_STEPS, STEPS
from fleetcube.tables.tables import label

from .extrapolation import FACTOR, extrapolation_error, remarks, with_remarks
from .gradient import check_quantity, uncounted
from .pareto import sign_of
from .solve.solve import check_free, without
from .targets import Target, conditions_of, whole_unit
from .winners import nothing

SAMPLES, STARTS = 256, 3  # Sobol points, and number of the best from which SLSQP starts
CANDIDATES = 4096  # whole numbers tried around an optimum
ALL = 2**21  # combinations of counts up to which all are tried
ROWS = 65_536  # evaluated at a time
MOST_POINTS = 10_000  # of the grid: each takes about a second
SLACK = 1e-9  # relative violation of a condition allowed for rounding
STATUS = {0: "found", 1: "no_point_keeps_to_the_conditions", 2: "no_feasible_point", 3: "undefined"}
NONE_RUNS = 2
_START, _CHOICE = "start", "choice"


@dataclass(frozen=True)
class Range:
    """The range of an input: `place` 0 is the first value, 1 the last; logarithmic if above 0."""

    name: str
    first: float
    last: float

    @property
    def log(self) -> bool:
        return self.first > 0

    def value(self, place: Array) -> Array:
        if self.log:
            value = self.first * (self.last / self.first) ** place
        else:
            value = self.first + (self.last - self.first) * place
        return np.clip(value, self.first, self.last)

    def place(self, value: Array) -> Array:
        if self.log:
            return np.log(value / self.first) / math.log(self.last / self.first)
        return (value - self.first) / (self.last - self.first)

    def slope(self, value: Array) -> Array:
        if self.log:
            return value * math.log(self.last / self.first)
        return np.full_like(value, self.last - self.first)


def _check_over(over: Sequence[str], axes: Sequence[str]) -> None:
    for name in over:
        if name not in axes:
            listed = ", ".join(axes) or "none"
            raise InputError(f"over: {shown(name)} is not an axis; choose from {listed}")


def _check_points(count: int) -> None:
    if count > MOST_POINTS:
        raise InputError(
            f"the grid has {count:,} points; at most {MOST_POINTS:,} are optimised one "
            "by one: shorten its axes, or make the inputs axes and leave search out"
        )


def optimize(
    spec: Mapping[str, Any],
    of: str,
    sense: str,
    between: Mapping[str, Sequence[Any]],
    where: Sequence[str],
    also: Sequence[str],
    over: Sequence[str],
    settings: Settings,
) -> Result:
    """The best values of inputs at every point; see `Sweep.best`."""
    _check_over(over, [name for name in spec["axes"] if name not in between])
    sign, graph = sign_of(sense), graph_of(spec["scenario"])
    check_quantity(graph, of)
    conditions = conditions_of(spec["scenario"], where)
    ranges = [_range(graph, name, ends) for name, ends in between.items()]
    problem = resolve(spec["scenario"], spec["axes"], [span.name for span in ranges])
    for span in ranges:
        problem = without(problem, span.name)
    search = Search(problem, of, ranges, conditions, sign, also, settings)
    plan, dims, shape = search.plan, search.dims, search.plan.shape(search.dims)
    _check_points(math.prod(shape))
    asked = dict.fromkeys([of, *(n for c in conditions for n in c.outputs), *also])
    shown_outputs = [name for name in asked if name not in (*search.near, *search.reason)]
    best_values = {span.name: np.full(shape, np.nan) for span in ranges}
    outputs = {name: nothing(plan, name, shape) for name in shown_outputs}
    status, reason = np.zeros(shape, np.int8), np.zeros(shape, np.int8)
    near = np.full(shape, -1, np.int8)
    done = expected(math.prod(shape), "points")
    for point in np.ndindex(shape):
        best = search.best(point)
        done(1)
        if isinstance(best, Failure):
            status[point], reason[point] = best.status, best.reason
            continue
        at_best = search.evaluate(point, best[None, :], [*shown_outputs, *search.near])
        for name in search.near:
            near[point] = at_best[name][0]
        for k, span in enumerate(ranges):
            best_values[span.name][point] = best[k]
        for name in shown_outputs:
            outputs[name][point] = at_best[name][0]
    variables: dict[str, Any] = {
        name: (*ordered(plan, dims, array), attributes(plan, name))
        for name, array in {**best_values, **outputs}.items()
    }
    variables["optimum_status"] = (
        *ordered(plan, dims, status),
        {"long_name": "whether an optimum was found", **flags(STATUS)},
    )
    coords = coordinates(plan, dims)
    for name in search.reason:
        coords[name] = (*ordered(plan, dims, reason), attributes(plan, name))
    for name in search.near:
        coords[name] = (*ordered(plan, dims, near), attributes(plan, name))
    attrs = origin(plan, spec) | uncounted(plan, list(between))
    attrs = with_remarks(attrs, remarks(problem, best_values))
    whole = Result(variables, coords, attrs)
    return _best_choices(whole, of, search.sign, over) if over else whole


def _best_choices(answers: Result, of: str, sign: float, over: Sequence[str]) -> Result:
    """The best answer along some axes, whose labels become variables; the first of equals. Without
    an answer, the status is that of the closest choices."""
    import xarray

    optima = answers.to_xarray()
    each = optima.stack({_CHOICE: list(over)}).reset_index(_CHOICE)
    status = each["optimum_status"].transpose(..., _CHOICE).values
    value = sign * each[of].transpose(..., _CHOICE).values
    places = np.lexsort((np.where(np.isnan(value), np.inf, value), status), axis=-1)[..., 0]
    rest = [dim for dim in each["optimum_status"].dims if dim != _CHOICE]
    chosen = each.isel({_CHOICE: xarray.DataArray(places, dims=rest)}).reset_coords(list(over))
    solved = (chosen["optimum_status"] == 0).values
    for name in over:
        column = chosen[name].values
        if column.dtype.kind in "iuf":
            column = np.where(solved, column, np.nan)
        else:
            column = np.where(solved, np.vectorize(label, otypes=[object])(column), "").astype(str)
        chosen[name] = (rest, column, optima[name].attrs)
    along = [n for n, coord in optima.coords.items() if {*coord.dims} & {*over} and n not in over]
    others = [name for name in chosen.data_vars if name not in over]
    dropped = [n for n in along if n not in (REASON, NEAR)]
    return in_memory(chosen.drop_vars(dropped)[[*over, *others]])


@dataclass(frozen=True)
class Failure:
    """Why there is no optimum: a STATUS, and the infeasible_reason checked last."""

    status: int
    reason: int


class Search:
    """Optimises each point of a grid separately."""

    def __init__(
        self,
        problem: Problem,
        of: str,
        ranges: Sequence[Range],
        conditions: Sequence[Target],
        sign: float,
        also: Sequence[str],
        settings: Settings,
    ) -> None:
        self.of, self.ranges, self.conditions = of, list(ranges), list(conditions)
        self.sign = sign
        names, engine, self.threads = [s.name for s in ranges], settings.engine, settings._cores
        starts = Axis(_START, np.arange(float(ROWS)))
        problem = replace(problem, axes=(*problem.axes, starts))
        rated = list(dict.fromkeys([of, *(name for c in conditions for name in c.outputs)]))
        plan = Plan(problem, rated, engine, free=names)
        for unused in set(names) - _ancestors(plan, rated):
            raise InputError(f"{of} and its conditions do not depend on {unused}; leave it out")
        problem, self.extrapolation = extrapolation_error(problem, plan, names, rated)
        judged = settings._answers_run and REASON in plan.outputs
        self.limits = {
            name: most
            for name, (_, most) in LIMITS.items()
            if judged and all(name in case.formulas for case in plan.cases)
        }
        rated = list(dict.fromkeys([*rated, *self.limits, *self.limits.values()]))
        self.slopes = {(y, x): name_of("d", y, x) for y in rated for x in names}
        computable = {*rated, *(name for case in plan.cases for name in case.formulas)}
        valid = {x: steps for x, (_, steps) in STEPS.items()} | dict(RUN_STEPS if judged else {})
        self.steps = {x: steps for x, steps in valid.items() if x in names and steps in computable}
        outputs = [*rated, *self.slopes.values(), *self.steps.values(), *also]
        self.near = [NEAR] if self.limits else []
        free = [*names, *([FACTOR] if self.extrapolation else [])]
        outputs += self.extrapolation.also(outputs) if self.extrapolation else []
        self.plan = Plan(problem, list(dict.fromkeys([*outputs, *self.near])), engine, free=free)
        self.reason = [REASON] if judged else []
        self.rated = rated
        self.units = [whole_unit(problem, name) if judged else 1 for name in names]
        self.dims = tuple(dim for dim in self.plan.sizes if dim != _START)
        self.whole = [values.is_whole(problem.graph, name) for name in names]
        # the valid numbers of these depend on the others
        last = {name: k for k, name in enumerate(self.steps, 1)}
        counts = [k for k, whole in enumerate(self.whole) if whole]
        self.counts = sorted(counts, key=lambda k: last.get(names[k], 0))

    def evaluate(
        self, point: tuple[int, ...], rows: Array, names: Sequence[str]
    ) -> dict[str, Array]:
        """Outputs at a point of the grid, for rows of input values."""
        where = dict(zip(self.dims, point, strict=True))
        region = {
            dim: slice(0, len(rows)) if dim == _START else slice(where[dim], where[dim] + 1)
            for dim in self.plan.sizes
        }
        shape = tuple(cut.stop - cut.start for cut in region.values())
        free = {span.name: rows[:, k].reshape(shape) for k, span in enumerate(self.ranges)}
        if self.extrapolation:
            free = self.extrapolation.free(region, free)
            names = [*names, *self.extrapolation.also(names)]
        outs: dict[str, Array] = {}
        for along, group in by_dims(names, self.plan.out_dims).items():
            cut = {dim: region[dim] for dim in along}
            shape = extent(cut, along, along)
            arrays = {
                name: np.empty(shape, dtype_of(self.plan.graph, name, float)) for name in group
            }
            free_values = free if set(along) == set(region) else None
            evaluate_block(self.plan, along, cut, arrays, self.threads, free_values)
            outs |= {n: np.broadcast_to(out.reshape(-1), len(rows)) for n, out in arrays.items()}
        if self.extrapolation:
            self.extrapolation.complete(outs, region, free)
        return outs

    def _rate(self, point: tuple[int, ...], rows: Array) -> tuple[Array, Array]:
        """The output to minimise, and the margin of each condition (below 0: violated)."""
        outs = self.evaluate(point, rows, self.rated)
        excesses = [_margin(c, outs) for c in self._conditions(point)]
        return self.sign * outs[self.of], np.array(excesses).reshape(len(excesses), len(rows))

    def _conditions(self, point: tuple[int, ...]) -> list[Target]:
        """The user's conditions, and the model's finite limits."""
        limits = self.limits
        most = self.evaluate(
            point, self._values(np.zeros((1, len(self.ranges)))), [*limits.values()]
        )
        bounds = [Target(n, "<=", by, "") for n, by in limits.items() if math.isfinite(most[by][0])]
        return [*self.conditions, *bounds]

    def best(self, point: tuple[int, ...]) -> "Array | Failure":
        """The best values at a point, or why there are none."""
        with np.errstate(all="ignore"):
            every = self._every(point) if all(self.whole) else np.empty((0, 0))
            if len(every):
                best = self._choose(point, every)
                return self._failure(point, every) if best is None else best

            # Not scrambled, so that every run starts from the same points
            sobol = imported("scipy.stats.qmc").Sobol(len(self.ranges), scramble=False)
            places = np.clip(sobol.random(SAMPLES), 1e-6, 1 - 1e-6)
            rated, excess = self._rate(point, self._values(places))
            broken = -np.minimum(excess, 0).sum(axis=0) if len(excess) else np.zeros(len(places))
            # By violation, then by output; NaN last
            rank = np.lexsort((rated, np.where(np.isnan(broken + rated), np.inf, broken)))
            ends = [self._descend(point, places[k], None) for k in rank[:STARTS]]
            tried = self._values(np.array([*ends, *places[rank[:STARTS]]]))
            if not any(self.whole):
                best = self._choose(point, tried)
                return self._failure(point, self._values(places)) if best is None else best
            options = np.concatenate([self._whole_near(point, row) for row in tried[:STARTS]])
            best = self._climb(point, self._choose(point, options))
            if best is None:
                nearest = np.where(self.whole, np.rint(tried), tried)
                return self._failure(point, np.concatenate([options, nearest]))
            if all(self.whole):
                return best
            places = np.array([s.place(v) for s, v in zip(self.ranges, best, strict=True)])
            refined = self._values(self._descend(point, places, best)[None, :])
            refined[:, self.whole] = best[self.whole]
            chosen = self._choose(point, np.array([best, refined[0]]))
            return best if chosen is None else chosen

    def _failure(self, point: tuple[int, ...], tried: Array) -> Failure:
        """Why no row is an optimum; of several reasons the one checked last (the highest code)."""
        worst, some = 0, not self.reason
        for start in range(0, len(tried), ROWS):
            rows = tried[start : start + ROWS]
            for name in self.reason:
                reason = self.evaluate(point, rows, [name])[name]
                worst, some, rows = max(worst, reason.max()), some or 0 in reason, rows[reason == 0]
            if len(rows) and np.isfinite(self._rate(point, rows)[0]).any():
                return Failure(1, -1)
        return Failure(2, int(worst)) if worst > 0 and not some else Failure(3, -1)

    def _values(self, places: Array) -> Array:
        columns = [span.value(places[:, k]) for k, span in enumerate(self.ranges)]
        return np.stack(columns, axis=1)

    def _descend(self, point: tuple[int, ...], place: Array, fixed: Array | None) -> Array:
        """End point of SLSQP from `place`; whole-numbered inputs are frozen if `fixed` is given."""
        conditions = self._conditions(point)
        # SLSQP's tolerance is absolute: scale the output to about 1
        scale = max(abs(float(self._rate(point, self._values(place[None, :]))[0][0])), 1e-300)

        def evaluated_at(p: Array) -> tuple[float, Array, Array, Array]:
            key = p.tobytes()
            if key not in cache:
                value = self._values(p[None, :])
                outs = self.evaluate(point, value, [*self.rated, *self.slopes.values()])
                pace = np.array([span.slope(value[0, k]) for k, span in enumerate(self.ranges)])
                slopes = {
                    y: pace * [float(outs[self.slopes[y, s.name]][0]) for s in self.ranges]
                    for y in self.rated
                }
                rows = [_kept_slope(c, outs, slopes) for c in conditions]
                margins = [float(_margin(c, outs)[0]) for c in conditions]
                aim = self.sign * float(outs[self.of][0]) / scale
                cache[key] = (
                    aim,
                    self.sign * slopes[self.of] / scale,
                    np.array(margins),
                    np.array(rows),
                )
            return cache[key]

        # SLSQP requests value, gradient and conditions of one place in four calls
        cache: dict[bytes, tuple[float, Array, Array, Array]] = {}
        bounds = [
            (p, p) if fixed is not None and whole else (0.0, 1.0)
            for p, whole in zip(place, self.whole, strict=True)
        ]
        optimum = imported("scipy.optimize").minimize(
            lambda p: evaluated_at(p)[0],
            place,
            jac=lambda p: evaluated_at(p)[1],
            bounds=bounds,
            constraints=[
                {
                    "type": "ineq",
                    "fun": lambda p: evaluated_at(p)[2],
                    "jac": lambda p: evaluated_at(p)[3],
                }
            ]
            if conditions
            else (),
            method="SLSQP",
            options={"maxiter": 100, "ftol": 1e-12},
        )
        end = np.clip(optimum.x, 0, 1)
        return end if np.isfinite(end).all() else place  # SLSQP may follow a NaN slope

    def _whole_near(self, point: tuple[int, ...], values_: Array) -> Array:
        """Rows with whole counts: all in their ranges if few, else the nearest."""
        rows = values_[None, :]
        radius = int(CANDIDATES ** (1 / len(self.counts)) / STARTS / 2)
        for left, k in zip(range(len(self.counts), 0, -1), self.counts, strict=True):
            span, few = self.ranges[k], (CANDIDATES / max(1, len(rows))) ** (1 / left)
            neighbours = []
            for row, step in zip(rows, self._steps(point, rows, k), strict=True):
                low, high = math.ceil(span.first / step), math.floor(span.last / step)
                if high - low < few:
                    near = step * np.arange(low, high + 1.0)
                else:
                    around = math.floor(row[k] / step) + np.arange(-radius, radius + 1)
                    powers = 2.0 ** np.arange(math.ceil(math.log2(max(span.first, 1))), 40)
                    near = np.unique(np.concatenate([around * step, powers]))
                    near = near[(near >= span.first) & (near <= span.last)]
                neighbours.append(np.repeat(row[None, :], len(near), axis=0))
                neighbours[-1][:, k] = near
            rows = np.concatenate(neighbours) if neighbours else rows
        return rows

    def _every(self, point: tuple[int, ...]) -> Array:
        """All counts in their ranges, each at its valid multiples; none if these are too many."""
        rows = np.array([[span.first for span in self.ranges]])
        for k in self.counts:
            span, steps = self.ranges[k], self._steps(point, rows, k)
            low = np.ceil(span.first / steps)
            many = np.maximum(np.floor(span.last / steps) - low + 1, 0).astype(np.int64)
            if many.sum() > ALL:
                return rows[:0]
            rows, step = np.repeat(rows, many, axis=0), np.repeat(steps, many)
            place = np.arange(len(rows)) - np.repeat(np.cumsum(many) - many, many)
            rows[:, k] = step * (np.repeat(low, many) + place)
        return rows

    def _climb(self, point: tuple[int, ...], best: Array | None) -> Array | None:
        """Counts that no change of one, and no trade of a factor 2 or 3 between two, improves."""
        whole = np.flatnonzero(self.whole)
        while best is not None:
            rows = [best]
            for k in whole:
                span, step = self.ranges[k], self._steps(point, best[None, :], int(k))[0]
                line = best[k] + step * np.arange(-CANDIDATES // 2, CANDIDATES // 2)
                for count in line[(line >= span.first) & (line <= span.last)]:
                    rows.append(np.where(np.arange(len(best)) == k, count, best))
                for other, factor in itertools.product(whole[whole != k], (2, 3)):
                    trade = best.copy()
                    trade[k], trade[other] = best[k] * factor, best[other] / factor
                    if (
                        trade[k] <= span.last
                        and trade[other] >= self.ranges[other].first
                        and trade[other] % 1 == 0
                    ):
                        rows.append(trade)
            better = self._choose(point, np.array(rows))
            if better is None or (better == best).all():
                break
            best = better
        return best

    def _steps(self, point: tuple[int, ...], rows: Array, k: int) -> Array:
        """The step from one valid whole number to the next, for each row."""
        steps = self.steps.get(self.ranges[k].name)
        lengths = np.ones(len(rows))
        for start in range(0, len(rows) if steps else 0, ROWS):
            part = rows[start : start + ROWS]
            ratio = part[:, k] / self.evaluate(point, part, [str(steps)])[str(steps)]
            lengths[start : start + ROWS] = np.where(np.isfinite(ratio), np.rint(ratio), 1.0)
        return np.lcm(np.maximum(lengths, 1.0).astype(np.int64), self.units[k]).astype(float)

    def _choose(self, point: tuple[int, ...], tried: Array) -> Array | None:
        """The best row that meets every condition; None if none does."""
        if len(tried) == 0:
            return None
        chosen: list[tuple[float, Array]] = []
        for start in range(0, len(tried), ROWS):
            rows = tried[start : start + ROWS]
            for name in self.reason:
                rows = rows[self.evaluate(point, rows, [name])[name] <= 0]
            if len(rows) == 0:
                continue
            rated, excess = self._rate(point, rows)
            good = np.isfinite(rated) & (excess >= -SLACK).all(axis=0)
            if good.any():
                k = int(np.where(good, rated, np.inf).argmin())
                chosen.append((float(rated[k]), rows[k]))
        return min(chosen, key=lambda pair: pair[0])[1] if chosen else None


def _ancestors(plan: Plan, outputs: Sequence[str]) -> set[str]:
    ancestors = set(outputs)
    for case in plan.cases:
        for name in reversed(list(case.formulas)):
            if name in ancestors:
                ancestors |= set(parameters(case.formulas[name]))
    return ancestors


def _margin(condition: Target, outs: Mapping[str, Array]) -> Array:
    """The margin of a condition: relative, in logarithms where both sides are above 0."""
    value, aim = outs[condition.of], _aim(condition, outs)
    sign = 1.0 if condition.relation == "<=" else -1.0
    both = (value > 0) & (aim > 0)  # elsewhere 1, where the logarithm is unused
    logs = np.log(np.where(both, aim, 1.0) / np.where(both, value, 1.0))
    plain = (aim - value) / np.maximum(np.maximum(np.abs(aim), np.abs(value)), 1e-300)
    return sign * np.where(both, logs, plain)


def _kept_slope(condition: Target, outs: Mapping[str, Array], slopes: Mapping[str, Array]) -> Array:
    """Derivatives of the margin with respect to the inputs' places."""
    value, aim = float(outs[condition.of][0]), float(_aim(condition, outs)[0])
    sign = 1.0 if condition.relation == "<=" else -1.0
    level = condition.level
    drift = slopes[level] if isinstance(level, str) else np.zeros_like(slopes[condition.of])
    if value > 0 and aim > 0:
        return sign * (drift / aim - slopes[condition.of] / value)
    return sign * (drift - slopes[condition.of]) / max(abs(aim), abs(value), 1e-300)


def _aim(condition: Target, outs: Mapping[str, Array]) -> Array:
    level = condition.level
    return outs[level] if isinstance(level, str) else np.full(outs[condition.of].shape, level)


def _range(graph: Graph, name: str, ends: Any) -> Range:
    check_free(graph, name)
    if isinstance(ends, str) or not isinstance(ends, Sequence) or len(ends) != 2:
        raise InputError(f"between: {name} = {shown(ends)} is not a range; give [first, last]")
    first, last = (values.number(graph, name, end) for end in ends)
    if not first < last < math.inf:
        raise InputError(f"between: {name} = {shown(ends)} does not increase; give [first, last]")
    if values.is_whole(graph, name) and math.ceil(first) > math.floor(last):
        raise InputError(f"between: {name} = {shown(ends)} has no whole number; give a wider range")
    return Range(name, first, last)
