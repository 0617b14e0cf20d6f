"""Invert an output: the value of an input at which it meets a target, at every point of a grid.

Each point's range is first scanned at SCAN values, which finds the first two that have the target
between them. There, Newton's method takes over, in the logarithms of both where they have one: most
relations of the field are close to powers, which it solves in a step or two. The first slope is the
exact one; the next are those between the last two points, which cost a third. A step that leaves
the bracket, or that does not halve the error, is replaced by halving the bracket.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..catalog import KINDS
from ..kernels import graph
from ..kernels.derivatives import derivative, is_quantity, name_of
from ..kernels.inputs import INPUTS, Input
from ..kernels.job import pool
from . import memory, stream, values
from .axes import Array, Axis
from .dataset import attributes, coordinates, flags, root_attributes
from .errors import InputError, nearest, shown
from .execute import evaluate_block
from .plan import Plan, Region, extent
from .progress import expected
from .scenario import Problem, resolve

if TYPE_CHECKING:
    import xarray

SCAN = 17  # values of the first scan
TILE = 1 << 17  # points solved at once
MOST_STEPS = 80
SOON = 8  # steps before a bracket may have shrunk to two neighbouring numbers
TIGHT, LOOSE = 1e-13, 1e-9  # relative errors: of a solved point, and of one that jumps the target
DECADES, MOST_COUNT = 6, 1e9  # searched around the value at hand, and for counts
DIPS = 9  # steps to the bottom of a dip
WIDE = (1e-6, 1e12)  # searched where no value is at hand
ROUND = 1e-9  # relative distance at which a root is a whole number
REASONS = {
    0: "solved",
    1: "always_above_target",
    2: "always_below_target",
    3: "undefined",
    4: "jumps_over_target",
}
_TARGET = re.compile(r"\s*(\w+)\s*(<=|>=|==|=)\s*(.*\S)\s*")


@dataclass(frozen=True)
class Target:
    """What is to be met: an output, a relation ("=", "<=", ">="), and a number or an output."""

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
        raise InputError(f"target: {shown(of)} is not a number; {nearest(str(of), known)}")
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
        >>> found = fleetcube.solve("n_gpus", "cluster_mtbf = 10 h", gpu_mttf="100_000 h")
        >>> int(found["n_gpus"])
        7200
    """
    from .evaluate import scenario_and_axes

    scenario, axes = scenario_and_axes(inputs)
    aim = read_target(target)
    spec = {"outputs": aim.outputs, "scenario": scenario, "axes": axes}
    return solve_spec(spec, for_, aim, between, whole, engine, threads)


def solve_spec(
    spec: Mapping[str, Any],
    for_: str,
    target: Target,
    between: Sequence[Any] | None,
    whole: bool | None,
    engine: str,
    threads: int | None,
) -> "xarray.Dataset":
    """The values of an input at which a target is met; see `Sweep.solve`."""
    import xarray

    from .values import check_threads

    check_free(for_)
    problem = resolve(spec["scenario"], spec["axes"])
    search = Search(problem, for_, target, between, engine)
    plan, dims = search.plan, tuple(search.plan.sizes)
    shape = plan.shape(dims)
    memory.check(8 * math.prod(shape) * 4, "solve on fewer points")
    found, met = np.empty(shape), np.empty(shape)
    reason = np.empty(shape, np.int8)
    round_ = INPUTS[for_].kind == "count" if whole is None and for_ in INPUTS else bool(whole)
    everything = stream.whole(plan, dims)

    def fill(tile: Region) -> None:
        cut = stream.inside(everything, tile, dims)
        with np.errstate(all="ignore"):
            root, why = search.roots(tile)
            if round_:
                root = search.whole(tile, root)
            found[cut], reason[cut] = root, why
            met[cut] = search.evaluate(tile, root, [target.of])[target.of]

    tiles = list(stream.within(everything, TILE))
    cores = check_threads(threads) if plan.engine != "jax" and len(tiles) > 1 else 1
    done = expected(found.size, "points")
    for tile, _ in zip(tiles, pool(cores).map(fill, tiles), strict=True):
        done(math.prod(extent(tile, dims, dims)))
    order = [axis.name for axis in plan.problem.axes]
    turn = [dims.index(dim) for dim in order]
    told = f"{for_} at which {target}"
    variables = {
        for_: (order, found.transpose(turn), {**attributes(plan, for_), "long_name": told}),
        target.of: (order, met.transpose(turn), attributes(plan, target.of)),
        "unsolved_reason": (
            order,
            reason.transpose(turn),
            {"long_name": "why there is no such value", **flags(REASONS)},
        ),
    }
    return xarray.Dataset(variables, coordinates(plan, dims), root_attributes(plan, spec))


def check_free(name: Any) -> None:
    """Refuse what is not a number that can be given."""
    if values.is_option(values.check_name(name)) or name in KINDS:
        raise InputError(f"for: {name} takes named values, not numbers; sweep it as an axis")


class Search:
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
        self.grid = _range(for_, between, problem)
        self.log = bool(self.grid[0] > 0)
        problem = without(problem, for_)
        axis = Axis(for_, self.grid, numbers={for_: self.grid})
        scan = Plan(replace(problem, axes=(*problem.axes, axis)), target.outputs, engine)
        held = {dim for of in target.outputs for dim in scan.dims[of]}
        if for_ not in held:
            raise InputError(f"{target} does not depend on {for_}; solve for another input")
        problem = replace(problem, axes=tuple(a for a in problem.axes if a.name in held))
        self.scan = Plan(replace(problem, axes=(*problem.axes, axis)), target.outputs, engine)
        self.slopes = {
            of: name_of("d", of, for_) for of in target.outputs if derivative(of) is None
        }
        self.replicas = for_ == "n_gpus" and "data_parallel" in scan.cases[0].formulas
        outputs = [*target.outputs, *self.slopes.values()]
        if self.replicas and "data_parallel" not in outputs:
            outputs.append("data_parallel")
        self.plan = Plan(problem, outputs, engine, free=[for_])

    def evaluate(
        self, tile: Region, at: Array, names: Sequence[str], threads: int = 1
    ) -> dict[str, Array]:
        """Outputs over a tile, the input at some values."""
        outs = {name: np.empty(at.shape) for name in names}
        evaluate_block(self.plan, tuple(tile), tile, outs, threads, {self.for_: at})
        return outs

    def roots(self, tile: Region) -> tuple[Array, Array]:
        """The first value that meets the target, and why there is none, over a tile."""
        bracket, reason = self._scan(tile)
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
        return np.where((reason == 0) | (reason == 4), bracket.high, np.nan), reason

    def _near(self, tile: Region, at: Array, exact: bool) -> "Near":
        """What the output does at some values of the input; its slope where that is asked for."""
        of, level = self.target.of, self.target.level
        exact = exact and bool(self.slopes)
        slopes = list(self.slopes.values()) if exact else []
        held = self.evaluate(tile, at, [*self.target.outputs, *slopes])
        value = held[of]
        aim = held[level] if isinstance(level, str) else np.full(value.shape, level)
        size = np.maximum(np.abs(aim), np.abs(value)) if isinstance(level, str) else np.abs(aim)
        excess = value - aim
        logs = (value > 0) & (aim > 0) if self.log else np.zeros(value.shape, bool)
        gap = np.where(logs, np.log(value / aim), excess)
        slope = np.full(value.shape, np.nan)
        if exact:
            drift = held[self.slopes[level]] if isinstance(level, str) else np.zeros(value.shape)
            rise = held[self.slopes[of]]
            slope = np.where(logs, rise / value - drift / aim, rise - drift)
            slope = slope * at if self.log else slope
        return Near(excess, size, gap, slope)

    def _middle(self, bracket: "Bracket") -> Array:
        """Half of a bracket."""
        low, high = bracket.low, bracket.high
        half = np.sqrt(low) * np.sqrt(high) if self.log else 0.5 * (low + high)
        return np.where((half > low) & (half < high), half, 0.5 * (low + high))

    def _secant(self, bracket: "Bracket") -> Array:
        """Where a line through the ends of a bracket meets the target."""
        low, high = self._place(bracket.low), self._place(bracket.high)
        share = bracket.left / (bracket.left - bracket.right)
        at = self._value(low + (high - low) * np.where(np.isfinite(share), share, 0.5))
        return np.where((at > bracket.low) & (at < bracket.high), at, self._middle(bracket))

    def _place(self, value: Array) -> Array:
        return np.log(value) if self.log else value

    def _value(self, place: Array) -> Array:
        return np.exp(place) if self.log else place

    def _scan(self, tile: Region) -> tuple["Bracket", Array]:
        """Brackets of the first crossing along the range, and why there is none."""
        shape = tuple(cut.stop - cut.start for cut in tile.values())
        left, right, before = (np.full(shape, np.nan) for _ in range(3))
        at = np.full(shape, -1)  # number of the value at or after the crossing
        closest, best = np.full(shape, np.inf), np.zeros(shape, np.int64)
        for k in range(len(self.grid)):
            excess = self._scanned(tile, k).reshape(shape)
            crossed = ((before * excess <= 0) | (excess == 0)) & (at < 0)  # not beside NaN
            if crossed.any():
                at[crossed], left[crossed] = k, before[crossed]
                right[crossed] = excess[crossed]
                if (at >= 0).all():
                    break
            size = np.abs(excess)
            closer = size < np.abs(closest)
            closest, best = np.where(closer, excess, closest), np.where(closer, k, best)
            before = excess
        low, high = np.array(self.grid[np.maximum(at - 1, 0)]), np.array(self.grid[at])
        bracket = Bracket(low, high, left, right)
        reason = np.where(closest > 0, 1, 2).astype(np.int8)
        reason[np.isinf(closest) & np.isnan(before)] = 3
        reason[at >= 0] = 0
        dips = (reason > 0) & (reason < 3) & (best > 0) & (best < len(self.grid) - 1)
        if self.slopes and dips.any():
            self._dip(tile, dips, best, bracket, reason)
        return bracket, reason

    def _scanned(self, tile: Region, k: int) -> Array:
        """Output less target over a tile, at one value of the range."""
        region = {dim: tile.get(dim, slice(k, k + 1)) for dim in self.scan.sizes}
        held: dict[str, Array] = {}
        for of in self.target.outputs:
            own = self.scan.out_dims[of]
            out = np.empty(extent(region, own, own))
            evaluate_block(self.scan, own, {dim: region[dim] for dim in own}, {of: out}, 1)
            dims = tuple(self.scan.sizes)
            order = [dims.index(dim) for dim in (*tile, self.for_)]
            held[of] = out.reshape(extent(region, own, dims)).transpose(order)
        level = self.target.level
        excess = held[self.target.of] - (held[level] if isinstance(level, str) else level)
        shape = (*(cut.stop - cut.start for cut in tile.values()), 1)
        return np.broadcast_to(excess, shape)

    def _dip(
        self, tile: Region, dips: Array, best: Array, bracket: "Bracket", reason: Array
    ) -> None:
        """Look for a crossing between the scan's values, where the output turns near the target.

        Its slope is followed to 0 by the secant method, halving where that is slow, as long as
        tangents at both ends allow a crossing: an output that turns once lies above them.
        """
        part = _box(dips)
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
            low, falls = _put(low, place, before), _put(falls, here.slope, before)
            left, right = _put(left, here.gap, before), _put(right, here.gap, ~before)
            high, rises = _put(high, place, ~before), _put(rises, here.slope, ~before)

    def whole(self, tile: Region, root: Array) -> Array:
        """The whole number beside a root that keeps to the target, or comes nearer to it."""
        step = np.ones(root.shape)
        if self.replicas:  # whole replicas
            share = self.evaluate(tile, root, ["data_parallel"])["data_parallel"]
            step = np.where(np.isfinite(share), np.rint(root / share), 1.0)
        low = np.floor(root / step * (1 + ROUND)) * step
        high = np.ceil(root / step * (1 - ROUND)) * step
        low = np.maximum(low, np.minimum(self.grid[0], high))
        below, above = (self._near(tile, at, exact=False).excess for at in (low, high))
        if self.target.relation == "=":
            lower = np.abs(below) <= np.abs(above)
        else:
            lower = below <= 0 if self.target.relation == "<=" else below >= 0
        return np.where(np.isnan(root), np.nan, np.where(lower, low, high))


@dataclass(frozen=True)
class Near:
    """How far an output is from its target, and how that changes along the range.

    A place is the input's logarithm where its range is above 0, else the input itself; a gap is the
    logarithm of output over target where both are above 0, else the excess.
    """

    excess: Array
    size: Array  # of the target
    gap: Array
    slope: Array  # of the gap over the place


@dataclass
class Bracket:
    """Two values with the target between them, and what the output exceeds it by at each."""

    low: Array
    high: Array
    left: Array
    right: Array

    def shrink(self, at: Array, excess: Array, where: Array) -> None:
        """Put a value in the place of the end on its side of the target."""
        same = np.sign(excess) == np.sign(self.left)
        self.low, self.left = (
            _put(self.low, at, where & same),
            _put(self.left, excess, where & same),
        )
        other = where & ~same
        self.high, self.right = _put(self.high, at, other), _put(self.right, excess, other)

    def close(self, at: Array, where: Array) -> None:
        """Let both ends be one value."""
        self.low, self.high = _put(self.low, at, where), _put(self.high, at, where)

    def cut(self, part: tuple[Any, ...]) -> "Bracket":
        """Some of its points, in place."""
        return Bracket(self.low[part], self.high[part], self.left[part], self.right[part])

    def replace(self, low: Array, high: Array, left: Array, right: Array, where: Array) -> None:
        """Other ends, in place."""
        ends = (self.low, low), (self.high, high), (self.left, left), (self.right, right)
        for own, new in ends:
            own[where] = new[where]


def _box(where: Array) -> tuple[Any, ...]:
    """The smallest block that holds all points where something is so, as an index of a view."""
    box: list[Any] = []
    for k in range(where.ndim):
        held = np.flatnonzero(where.any(axis=tuple(j for j in range(where.ndim) if j != k)))
        box.append(slice(int(held[0]), int(held[-1]) + 1))
    return (*box, ...)


def _put(array: Array, value: Array, where: Array) -> Array:
    return np.where(where, value, array)


def without(problem: Problem, for_: str) -> Problem:
    """The problem less an input, or less its axis."""
    axes = []
    for axis in problem.axes:
        if for_ in axis.inputs and (len(axis.numbers) > 1 or axis.options or axis.records):
            raise InputError(
                f"{for_} is set along the axis {axis.name!r} with others; "
                "keep it off that axis to solve for it"
            )
        if for_ not in axis.inputs:
            axes.append(axis)
    constants = {name: value for name, value in problem.constants.items() if name != for_}
    return replace(problem, axes=tuple(axes), constants=constants)


def _range(for_: str, between: Any, problem: Problem) -> Array:
    """The values of the scan."""
    row = INPUTS.get(for_, Input(for_, "1", None, ""))
    if between is not None:
        if isinstance(between, str) or len(between) != 2:
            raise InputError(f"between = {shown(between)} is not a range; give [first, last]")
        first, last = (values.number(for_, end) for end in between)
        if not first < last < math.inf:
            raise InputError(f"between = {shown(between)} does not rise; give [first, last]")
    elif row.kind == "count":
        first, last = max(row.low, 1.0), MOST_COUNT
    elif math.isfinite(row.high):
        first, last = row.low, row.high
    else:
        held = [axis.numbers[for_] for axis in problem.axes if for_ in axis.numbers]
        now = problem.constants.get(for_, row.default or math.inf)
        first, last = _around(np.concatenate([[now], *held]))
    if row.positive and first <= 0:
        first = 1e-9 * last
    return np.geomspace(first, last, SCAN) if first > 0 else np.linspace(first, last, SCAN)


def _around(known: Array) -> tuple[float, float]:
    """DECADES to both sides of values at hand."""
    finite = known[np.isfinite(known) & (known > 0)]
    if finite.size == 0:
        return WIDE
    return float(finite.min()) / 10**DECADES, float(finite.max()) * 10**DECADES
