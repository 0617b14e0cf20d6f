"""Invert an output: the value of an input at which it meets a target, at every point of a grid.

Each point's range is first scanned at SCAN values for the first two with the target between them.
There Newton's method takes over, in the logarithms of both if they have one: most relations of the
field are close to powers, which it solves in a step or two. The first slope is exact; later ones
are secants through the last two points, which cost a third. A step that leaves the bracket, or that
does not halve the error, is replaced by bisection.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ....catalog import KINDS
from ....kernels.calculus.derivatives import derivative, is_quantity, name_of
from ....kernels.engines.job import pool
from ....kernels.graph import formulas as graph
from ....kernels.roles import NEAR, REASON, STEPS
from ...errors import InputError, nearest, shown
from ...plan import memory, tiles
from ...plan.execute import evaluate_block
from ...plan.labels import attributes, coordinates, flags, ordered, root_attributes
from ...plan.plan import Plan
from ...plan.tiles import Region, extent
from ...progress import expected
from ...run.settings import Settings
from ...spec import values
from ...spec.arguments import scenario_and_axes
from ...spec.axes import Array, Axis
from ...spec.scenario import Problem, resolve
from .bracket import Bracket, Near, Solution, box, put
from .scan import scan_values

if TYPE_CHECKING:
    import xarray

MOST_STEPS = 80
SOON = 8  # steps before a bracket may have shrunk to two neighbouring numbers
TIGHT, LOOSE = 1e-13, 1e-9  # relative errors: of a solved point, and of one that jumps the target
DIPS = 9  # steps to the bottom of a dip
ROUND = 1e-9  # relative distance at which a root is a whole number
REASONS = {
    0: "solved",
    1: "always_above_target",
    2: "always_below_target",
    3: "undefined",
    4: "jumps_over_target",
    5: "met_everywhere",
}
MET = {"<=": 2, ">=": 1}  # the reason that means an inequality is met everywhere
CROSSINGS, NEXT = "crossings", "next_above"
_TARGET = re.compile(r"\s*(\w+)\s*(<=|>=|==|=)\s*(.*\S)\s*")


@dataclass(frozen=True)
class Target:
    """A condition to meet: an output, a relation ("=", "<=", ">="), and a number or an output."""

    of: str
    relation: str
    level: float | str

    @property
    def outputs(self) -> list[str]:
        """The outputs that it names."""
        return [self.of, self.level] if isinstance(self.level, str) else [self.of]

    def __str__(self) -> str:
        level = self.level if isinstance(self.level, str) else f"{self.level:g}"
        unit = "" if isinstance(self.level, str) else values.unit_of(self.of)
        return f"{self.of} {self.relation} {level} {'' if unit == '1' else unit}".strip()


def read_target(target: Any) -> Target:
    """A target from text ("job_time <= 30 d", "step_time = compute_time") or {name: value}."""
    relation = "="
    if isinstance(target, Mapping) and len(target) == 1:
        ((of, level),) = target.items()
    elif isinstance(target, str) and (match := _TARGET.fullmatch(target)):
        of, relation, level = match.groups()
    else:
        raise InputError(f'target = {shown(target)} is not a condition; write "job_time = 30 d"')
    if not isinstance(of, str) or not is_quantity(of) or values.unit_of(of) == "flag":
        known = [name for name in graph.load() if values.unit_of(name) != "flag"]
        raise InputError(f"target: {shown(of)} is not a numeric output; {nearest(str(of), known)}")
    if isinstance(level, str) and is_quantity(level):
        if values.unit_of(level) != values.unit_of(of):
            raise InputError(
                f"target: {of} is in {values.unit_of(of)} and {level} in "
                f"{values.unit_of(level)}; compare like with like"
            )
        return Target(of, relation.replace("==", "="), level)
    number = 0.0 if level == "0" else values.number(of, level)
    if not math.isfinite(number):
        raise InputError(f"target: {of} = {shown(level)} is not finite; give a finite target")
    return Target(of, relation.replace("==", "="), number)


def solve(
    for_: str,
    target: str | Mapping[str, Any],
    *,
    between: Sequence[Any] | None = None,
    whole: bool | None = None,
    engine: str = "auto",
    threads: int | None = None,
    **inputs: Any,
) -> "xarray.Dataset":
    """The value of an input at which an output meets a target; see `Sweep.solve`.

    `inputs` are those of `evaluate`; sequences become axes of the result.

    Example:
        >>> import fleetcube
        >>> solved = fleetcube.solve("n_gpus", "cluster_mtbf = 10 h", gpu_mttf="100_000 h")
        >>> int(solved["n_gpus"])
        6000
    """
    scenario, axes = scenario_and_axes(inputs)
    aim = read_target(target)
    spec = {"outputs": aim.outputs, "scenario": scenario, "axes": axes}
    return solve_spec(spec, for_, aim, between, whole, Settings(engine, threads=threads))


def solve_spec(
    spec: Mapping[str, Any],
    for_: str,
    target: Target,
    between: Sequence[Any] | None,
    whole: bool | None,
    settings: Settings,
) -> "xarray.Dataset":
    """The values of an input at which a target is met; see `Sweep.solve`."""
    import xarray

    check_free(for_)
    problem = resolve(spec["scenario"], spec["axes"])
    search = Solver(problem, for_, target, between, settings.engine)
    plan, dims = search.plan, tuple(search.plan.sizes)
    shape = plan.shape(dims)
    memory.check(8 * math.prod(shape) * 8, "solve on fewer points")
    about = _about(search)
    answers = {
        name: np.empty(shape, np.int8 if "flag_values" in attrs or name == CROSSINGS else float)
        for name, attrs in about.items()
    }
    round_ = values.is_whole(for_) if whole is None else bool(whole)
    everything = plan.whole(dims)

    def fill(tile: Region) -> None:
        cut = tiles.inside(everything, tile, dims)
        with np.errstate(all="ignore"):  # here, not around the pool: each thread has its own
            for name, answer in search.answers(tile, round_).items():
                answers[name][cut] = answer

    parts = list(tiles.blocks(everything, tiles.SOLVED))
    # Tiles share the cores; JAX uses all of them for each
    cores = settings.cores if plan.engine != "jax" and len(parts) > 1 else 1
    done = expected(math.prod(shape), "points")
    for tile, _ in zip(parts, pool(cores).map(fill, parts), strict=True):
        done(math.prod(extent(tile, dims, dims)))
    variables = {name: (*ordered(plan, dims, answers[name]), about[name]) for name in about}
    coords = coordinates(plan, dims)
    coords |= {name: variables.pop(name) for name in search.judged}
    return xarray.Dataset(variables, coords, root_attributes(plan, spec))


def _about(search: "Solver") -> dict[str, dict[str, Any]]:
    """Names and attributes of the answers."""
    for_, of, plan = search.for_, search.target.of, search.plan
    input_, output = attributes(plan, for_), attributes(plan, of)
    near = "where there is no such value, "
    return {
        for_: {**input_, "long_name": f"{for_} at which {search.target}"},
        of: output,
        "unsolved_reason": {"long_name": "why there is no such value", **flags(REASONS)},
        CROSSINGS: {"units": "1", "long_name": f"times that {of} was seen to cross the target"},
        NEXT: {**input_, "long_name": f"{for_} below the next that meets the target"},
        f"nearest_{for_}": {**input_, "long_name": f"{near}the nearest one of those scanned"},
        f"nearest_{of}": {
            **output,
            "long_name": f"{near}the {of} that comes nearest to the target",
        },
        **{name: attributes(plan, name) for name in search.judged},
    }


def check_free(name: Any) -> None:
    """Refuse an input that takes no numbers."""
    if values.is_option(values.check_name(name)) or name in KINDS:
        raise InputError(f"for: {name} takes named values, not numbers; sweep it as an axis")


class Solver:
    """Solves the points of a sweep for one input."""

    def __init__(
        self,
        problem: Problem,
        for_: str,
        target: Target,
        between: Any,
        engine: str,
    ) -> None:
        self.for_, self.target = for_, target
        self.grid = scan_values(for_, between, problem)
        self.log = bool(self.grid[0] > 0)
        problem = without(problem, for_)
        axis = Axis(for_, self.grid, numbers={for_: self.grid})
        scan = Plan(replace(problem, axes=(*problem.axes, axis)), target.outputs, engine)
        needed = {dim for of in target.outputs for dim in scan.dims[of]}
        if for_ not in needed:
            raise InputError(f"{target} does not depend on {for_}; solve for another input")
        # Axes that do not matter to the target would only multiply the searches
        problem = replace(
            problem, axes=tuple(a for a in problem.axes if a.name in needed or _sets(a))
        )
        self.scan = Plan(replace(problem, axes=(*problem.axes, axis)), target.outputs, engine)
        self.slopes = {
            of: name_of("d", of, for_) for of in target.outputs if derivative(of) is None
        }
        steps = STEPS[for_][1] if for_ in STEPS else None
        self.steps = steps if steps in scan.cases[0].formulas else None
        outputs = [*target.outputs, *self.slopes.values()]
        if self.steps and self.steps not in outputs:
            outputs.append(self.steps)
        judged = REASON in scan.outputs and set(scan.dims[REASON]) <= needed
        near = [NEAR] if judged and NEAR not in outputs else []
        self.plan = Plan(problem, [*outputs, *near], engine, free=[for_])
        self.judged = [REASON, *near] if judged and REASON in self.plan.outputs else []

    def evaluate(
        self, tile: Region, at: Array, names: Sequence[str], threads: int = 1
    ) -> dict[str, Array]:
        """Outputs over a tile, the input at some values."""
        outs = {name: np.empty(at.shape, np.int8 if name == REASON else float) for name in names}
        evaluate_block(self.plan, tuple(tile), tile, outs, threads, {self.for_: at})
        return outs

    def answers(self, tile: Region, whole: bool) -> dict[str, Array]:
        """The answers of `solve` over a tile, by name."""
        solution, of = self.roots(tile), self.target.of
        root, nearest = solution.root, solution.nearest
        if whole:
            root = self.whole(tile, root)
        met = self.evaluate(tile, root, [of])
        judged = self.evaluate(tile, root, self.judged) if self.judged else {}
        near = nearest
        if not np.isnan(nearest).all():
            nearest = self.whole(tile, nearest) if whole else nearest
            near = self.evaluate(tile, nearest, [of])[of]
        return {
            self.for_: root,
            of: np.where(np.isnan(root), np.nan, met[of]),
            "unsolved_reason": solution.reason,
            CROSSINGS: solution.crossings,
            NEXT: solution.next_above,
            f"nearest_{self.for_}": nearest,
            f"nearest_{of}": near,
            **{name: np.where(np.isnan(root), -1, reason) for name, reason in judged.items()},
        }

    def roots(self, tile: Region) -> Solution:
        """The first value that meets the target over a tile, or why there is none."""
        bracket, solution = self._scan(tile)
        reason = solution.reason
        open_ = reason == 0
        at = self._secant(bracket)
        near = np.full(at.shape, np.inf)
        spread = np.abs(bracket.left) + np.abs(bracket.right)
        last: tuple[Array, Array] | None = None
        for count in range(MOST_STEPS):
            if not open_.any():
                break
            here = self._near(tile, at, exact=last is None)
            size, scale = np.abs(here.excess), np.where(here.size > 0, here.size, spread)
            bracket.shrink(at, here.excess, open_)
            met = size <= TIGHT * scale
            bracket.close(at, open_ & met)
            open_ &= ~met
            if count >= SOON:
                # No number is left between the ends: solved, or the output jumps over the target
                stuck = bracket.high - bracket.low <= 4 * np.spacing(np.abs(bracket.high))
                reason[open_ & stuck & (size > LOOSE * scale)] = 4
                open_ &= ~stuck
            place = self._place(at)
            slope = here.slope if last is None else (here.gap - last[1]) / (place - last[0])
            step = self._value(place - here.gap / slope)
            good = (step > bracket.low) & (step < bracket.high) & (size < 0.5 * near)
            near = np.where(good, size, np.inf)
            last = place, here.gap
            at = step if (good | ~open_).all() else np.where(good, step, self._middle(bracket))
        root = np.where((reason == 0) | (reason == 4), bracket.high, np.nan)
        return replace(solution, root=root)

    def _near(self, tile: Region, at: Array, exact: bool) -> Near:
        """The output against its target at some values of the input; `exact` adds the slope."""
        of, level = self.target.of, self.target.level
        exact = exact and bool(self.slopes)
        slopes = list(self.slopes.values()) if exact else []
        outs = self.evaluate(tile, at, [*self.target.outputs, *slopes])
        value = outs[of]
        aim = outs[level] if isinstance(level, str) else np.full(value.shape, level)
        size = np.maximum(np.abs(aim), np.abs(value)) if isinstance(level, str) else np.abs(aim)
        excess = value - aim
        logs = (value > 0) & (aim > 0) if self.log else np.zeros(value.shape, bool)
        # Both branches are computed; `fill` silences logarithms of what is not above 0
        gap = np.where(logs, np.log(value / aim), excess)
        slope = np.full(value.shape, np.nan)
        if exact:
            drift = outs[self.slopes[level]] if isinstance(level, str) else np.zeros(value.shape)
            rise = outs[self.slopes[of]]
            slope = np.where(logs, rise / value - drift / aim, rise - drift)
            slope = slope * at if self.log else slope
        return Near(excess, size, gap, slope)

    def _middle(self, bracket: Bracket) -> Array:
        """The middle of a bracket."""
        low, high = bracket.low, bracket.high
        # Two roots: the product of the ends may overflow
        half = np.sqrt(low) * np.sqrt(high) if self.log else 0.5 * (low + high)
        return np.where((half > low) & (half < high), half, 0.5 * (low + high))

    def _secant(self, bracket: Bracket) -> Array:
        """Where a line through the ends of a bracket meets the target."""
        low, high = self._place(bracket.low), self._place(bracket.high)
        share = bracket.left / (bracket.left - bracket.right)
        at = self._value(low + (high - low) * np.where(np.isfinite(share), share, 0.5))
        return np.where((at > bracket.low) & (at < bracket.high), at, self._middle(bracket))

    def _place(self, value: Array) -> Array:
        return np.log(value) if self.log else value

    def _value(self, place: Array) -> Array:
        return np.exp(place) if self.log else place

    def _scan(self, tile: Region) -> tuple[Bracket, Solution]:
        """Brackets of the first crossing along the range, and what else the scan saw."""
        shape = tuple(cut.stop - cut.start for cut in tile.values())
        left, right, before, above = (np.full(shape, np.nan) for _ in range(4))
        at = np.full(shape, -1)  # number of the value at or after the crossing
        crossings = np.zeros(shape, np.int8)
        closest, best, open_ = np.full(shape, np.inf), np.zeros(shape, np.int64), True
        for k in range(len(self.grid)):
            excess = self._scanned(tile, k).reshape(shape)
            change, zero = before * excess, excess == 0
            turned = change < 0  # not beside NaN
            if turned.any():
                again = turned & (crossings > 0) & np.isnan(above)
                above[again & self._meets(excess)] = self.grid[k - 1]
                crossings += turned
            if open_:
                first = (turned | zero) & (at < 0)
                at[first], left[first], right[first] = k, before[first], excess[first]
                size = np.abs(excess)
                closer = size < np.abs(closest)
                closest, best = np.where(closer, excess, closest), np.where(closer, k, best)
                open_ = bool((at < 0).any())
            # On the target there is no side: the next value is compared with the one before
            before = np.where(zero, before, excess) if zero.any() else excess
        low, high = np.array(self.grid[np.maximum(at - 1, 0)]), np.array(self.grid[at])
        bracket = Bracket(low, high, left, right)
        reason = np.where(closest > 0, 1, 2).astype(np.int8)
        reason[np.isinf(closest) & np.isnan(before)] = 3
        reason[at >= 0] = 0
        dips = (reason > 0) & (reason < 3) & (best > 0) & (best < len(self.grid) - 1)
        if self.slopes and dips.any():
            again = dips & self._meets(closest)  # at both ends of a dip out of what meets it
            self._dip(tile, dips, best, bracket, reason)
            crossings[dips & (reason == 0)] = 2
            above = np.where(again & (reason == 0), bracket.high, above)
        if self.target.relation != "=":
            touched = (reason == 0) & (crossings == 0)  # met exactly, and never crossed
            worst = np.where(np.isnan(before), left, before)
            meets = self._meets(worst) | np.isnan(worst)
            reason[(touched & meets) | (reason == MET[self.target.relation])] = 5
        np.maximum(crossings, reason == 0, out=crossings)
        nearest = np.where((reason == 0) | (reason == 3), np.nan, self.grid[best])
        return bracket, Solution(nearest, reason, crossings, above, nearest)

    def _meets(self, excess: Array) -> Array:
        """Where a crossing to this excess begins another solution: for "=" every one does."""
        if self.target.relation == "=":
            return np.ones(excess.shape, bool)
        return excess <= 0 if self.target.relation == "<=" else excess >= 0

    def _scanned(self, tile: Region, k: int) -> Array:
        """Output minus target over a tile, at one value of the range."""
        region = {dim: tile.get(dim, slice(k, k + 1)) for dim in self.scan.sizes}
        outs: dict[str, Array] = {}
        for of in self.target.outputs:
            own = self.scan.out_dims[of]
            out = np.empty(extent(region, own, own))
            evaluate_block(self.scan, own, {dim: region[dim] for dim in own}, {of: out}, 1)
            dims = tuple(self.scan.sizes)
            order = [dims.index(dim) for dim in (*tile, self.for_)]
            outs[of] = out.reshape(extent(region, own, dims)).transpose(order)
        level = self.target.level
        excess = outs[self.target.of] - (outs[level] if isinstance(level, str) else level)
        shape = (*(cut.stop - cut.start for cut in tile.values()), 1)
        return np.broadcast_to(excess, shape)

    def _dip(self, tile: Region, dips: Array, best: Array, bracket: Bracket, reason: Array) -> None:
        """Look for a crossing between the scan's values, where the output turns near the target.

        Its slope is followed to 0 by the secant method, halving where that is slow, as long as
        tangents at both ends allow a crossing: an output that turns once lies above them.
        """
        part = box(dips)
        tile = {
            dim: slice(cut.start + own.start, cut.start + own.stop)
            for (dim, cut), own in zip(tile.items(), part[:-1], strict=True)
        }
        dips, best = dips[part], best[part]
        start = self.grid[np.maximum(best - 1, 0)]
        low = self._place(start)
        high = self._place(self.grid[np.minimum(best + 1, len(self.grid) - 1)])
        ends = [self._near(tile, self._value(place), exact=True) for place in (low, high)]
        first, falls, rises = ends[0].excess, ends[0].slope, ends[1].slope
        left, right = ends[0].gap, ends[1].gap
        for step in range(DIPS):
            meet = (right - left + falls * low - rises * high) / (falls - rises)
            lowest = left + falls * (meet - low)
            dips = dips & (reason[part] > 0) & (falls * rises < 0) & (lowest * left <= 0)
            if not dips.any():
                return
            share = falls / (falls - rises) if step % 3 else np.full(low.shape, 0.5)
            place = low + (high - low) * np.where(np.isfinite(share), share, 0.5)
            at = self._value(place)
            here = self._near(tile, at, exact=True)
            crossed = dips & (here.excess * first <= 0)
            bracket.cut(part).replace(start, at, first, here.excess, crossed)
            reason[part][crossed] = 0
            before = here.slope * falls > 0
            low, falls = put(low, place, before), put(falls, here.slope, before)
            left, right = put(left, here.gap, before), put(right, here.gap, ~before)
            high, rises = put(high, place, ~before), put(rises, here.slope, ~before)

    def whole(self, tile: Region, root: Array) -> Array:
        """The whole number next to a root that meets the target, or comes closest to it."""
        step = np.ones(root.shape)
        if self.steps:
            count = self.evaluate(tile, root, [self.steps])[self.steps]
            step = np.where(np.isfinite(count), np.rint(root / count), 1.0)
        low = np.floor(root / step * (1 + ROUND)) * step
        high = np.ceil(root / step * (1 - ROUND)) * step
        low = np.maximum(low, np.minimum(self.grid[0], high))
        below, above = (self._near(tile, at, exact=False).excess for at in (low, high))
        if self.target.relation == "=":
            lower = np.abs(below) <= np.abs(above)
        else:
            lower = below <= 0 if self.target.relation == "<=" else below >= 0
        return np.where(np.isnan(root), np.nan, np.where(lower, low, high))


def _sets(axis: Axis) -> bool:
    """Whether an axis chooses formulas although nothing varies along it."""
    return bool(axis.options) and all(len(set(row)) == 1 for row in axis.options.values())


def without(problem: Problem, for_: str) -> Problem:
    """The problem without an input or its axis; an axis of one point keeps its other inputs."""
    axes = []
    for axis in problem.axes:
        others = len(axis.inputs) > 1
        if for_ in axis.inputs and others and axis.size > 1:
            raise InputError(
                f"{for_} is set along the axis {axis.name!r} with other inputs; "
                "remove it from that axis, or choose one point of it, to solve for it"
            )
        if for_ not in axis.inputs:
            axes.append(axis)
        elif others:
            numbers = {name: row for name, row in axis.numbers.items() if name != for_}
            axes.append(replace(axis, numbers=numbers))
    constants = {name: value for name, value in problem.constants.items() if name != for_}
    return replace(problem, axes=tuple(axes), constants=constants)
