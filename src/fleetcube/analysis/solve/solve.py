"""Invert an output: the input value at which it meets a target, at every point of a grid.

Each point's range is scanned at SCAN values for the first two that bracket the target. Inverse
quadratic interpolation follows, in the logarithms of both where they exist: most relations of the
field are close to power laws, solved in a few steps. It needs no derivatives, each of which costs
at least one evaluation. A step that leaves the bracket, or a bracket that lags too far behind
bisection, is replaced by a bisection step.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fleetcube.analysis.extrapolation import FACTOR, extrapolation_error, remarks, with_remarks
from fleetcube.analysis.gradient import uncounted
from fleetcube.analysis.interval import ends_of_chance
from fleetcube.analysis.layouts import DEGREES
from fleetcube.analysis.targets import Target, judges, other_reasons, whole_unit
from fleetcube.catalog import KINDS
from fleetcube.grid.errors import InputError
from fleetcube.grid.plan import memory, tiles
from fleetcube.grid.plan.engine import JAX
from fleetcube.grid.plan.execute import evaluate_block
from fleetcube.grid.plan.labels import attributes, coordinates, flags, ordered, origin
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.plan.tiles import Region, extent
from fleetcube.grid.progress import expected
from fleetcube.grid.result import Result
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.grid.spec.problem import Problem, resolve
from fleetcube.kernels.calculus.derivatives import derivative, name_of
from fleetcube.kernels.engines.job import pool
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import ALSO_REASONS, NEAR, RUN_STEPS, STEPS
from fleetcube.scenario import auto

from .bracket import Bracket, Near, Solution, box, replaced, within
from .running import Counts, bisected, nothing
from .running import nearest as nearest_of
from .scan import scan_values

MOST_STEPS = 80  # of a search, and whole numbers on each side of two that break a bound
SOON = 8  # steps before a bracket may have shrunk to two adjacent floats
SLACK = 8  # steps allowed beyond those of bisection
FEW = 4  # below 1 in this many still open, their block is cut out
TIGHT, LOOSE = 1e-13, 1e-9  # relative errors: of a solved point; of an output jump
DIPS = 9  # steps to the bottom of a dip
ROUND = 1e-9  # relative distance at which a root counts as a whole number
REASONS = {
    0: "solved",
    1: "always_above_target",
    2: "always_below_target",
    3: "undefined",
    4: "jumps_over_target",
    5: "met_everywhere",
    6: "none_can_run",
}
MET = {"<=": 2, ">=": 1}  # the reason code that means the inequality holds everywhere
CROSSINGS, NEXT = "crossings", "next_above"


def solve_spec(
    spec: Mapping[str, Any],
    unknown: str,
    target: Target,
    between: Sequence[Any] | None,
    whole: bool | None,
    settings: Settings,
) -> Result:
    """`Sweep.solve` for a spec."""
    graph = graph_of(spec["scenario"])
    check_free(graph, unknown)
    problem = resolve(spec["scenario"], spec["axes"], (unknown,))
    if target.chance == target.chance:
        places = ends_of_chance(Plan(problem, [target.of], "numpy", free=[unknown]), target)
        ends = [{**spec, "scenario": {**spec["scenario"], **place}} for place in places]
        spec = _harder(ends, unknown, target, between)
        problem = resolve(spec["scenario"], spec["axes"], (unknown,))
    round_ = values.is_whole(problem.graph, unknown) if whole is None else bool(whole)
    # a count that is not rounded is a relaxation, which no reason judges
    runs = settings._answers_run and (round_ or not values.is_whole(problem.graph, unknown))
    search = Solver(problem, unknown, target, between, settings.engine, runs)
    plan, dims = search.plan, tuple(search.plan.sizes)
    shape = plan.shape(dims)
    memory.check(8 * math.prod(shape) * 8, "solve on fewer points")
    about = _about(search)
    answers = {
        name: np.empty(shape, np.int8 if "flag_values" in attrs or name == CROSSINGS else float)
        for name, attrs in about.items()
    }
    everything = plan.whole(dims)

    def fill(tile: Region) -> None:
        cut = tiles.inside(everything, tile, dims)
        with np.errstate(all="ignore"):  # here, not around the pool: errstate is per thread
            for name, answer in search.answers(tile, round_).items():
                answers[name][cut] = answer

    parts = list(tiles.blocks(everything, tiles.SOLVED))
    # Tiles run in parallel on the cores; JAX uses all cores for each tile
    cores = settings._cores if plan.engine not in JAX and len(parts) > 1 else 1
    done = expected(math.prod(shape), "points")
    for tile, _ in zip(parts, pool(cores).map(fill, parts), strict=True):
        done(math.prod(extent(tile, dims, dims)))
    variables = {name: (*ordered(plan, dims, answers[name]), about[name]) for name in about}
    coords = coordinates(plan, dims)
    codes = {name: variables.pop(name) for name in search.judged}
    coords |= codes if settings.infeasible != "include" else {}
    attrs = origin(plan, spec) | uncounted(plan, [unknown])
    warnings = [f"not judged: whether a job runs at this {unknown}; no layout is given, see plan"]
    warnings = [
        *remarks(problem, {unknown: answers[unknown]}),
        *(warnings if search.unjudged else []),
    ]
    attrs = with_remarks(attrs, warnings)
    return Result(variables, coords, attrs)


def _harder(
    ends: Sequence[Mapping[str, Any]], unknown: str, target: Target, between: Any
) -> Mapping[str, Any]:
    """Of a spec with steps as slow and as fast as published ones are at a chance, the one in which
    the target is harder to meet."""
    problems = [resolve(end["scenario"], end["axes"], (unknown,)) for end in ends]
    slow, fast = (Solver(problem, unknown, target, between, "numpy") for problem in problems)
    dims, grid = tuple(slow.plan.sizes), slow.grid
    rises = falls = False
    for tile in tiles.blocks(slow.plan.whole(dims), tiles.SOLVED):
        for value in grid[[0, grid.size // 2, -1]]:
            row = np.full(extent(tile, dims, dims), value)
            with np.errstate(all="ignore"):
                outs = [each.evaluate(tile, row, [target.of])[target.of] for each in (slow, fast)]
            rises |= bool((outs[0] > outs[1]).any())
            falls |= bool((outs[0] < outs[1]).any())
    if rises and falls:
        raise InputError(
            f"{target.of} is larger with slower steps at some points, and smaller at others; leave "
            "out 'with ... %'"
        )
    return ends[int(rises == (target.relation == ">="))]


def _about(search: "Solver") -> dict[str, dict[str, Any]]:
    """Names and attributes of the answers."""
    unknown, aim, plan = search.unknown, search.target.of, search.plan
    input_, output = attributes(plan, unknown), attributes(plan, aim)
    near = "where there is no such value, "
    return {
        unknown: {**input_, "long_name": f"{unknown} at which {search.target}"},
        aim: output,
        "unsolved_reason": {"long_name": "why there is no such value", **flags(REASONS)},
        CROSSINGS: {"units": "1", "long_name": f"times that {aim} was seen to cross the target"},
        NEXT: {**input_, "long_name": f"{unknown} below the next that meets the target"},
        f"nearest_{unknown}": {**input_, "long_name": f"{near}the nearest one of those scanned"},
        f"nearest_{aim}": {
            **output,
            "long_name": f"{near}the {aim} that comes nearest to the target",
        },
        **{name: attributes(plan, name) for name in search.judged},
    }


def check_free(graph: Graph, name: Any) -> None:
    """Refuse an input that takes no numbers."""
    if values.is_option(graph, values.check_name(graph, name)) or name in KINDS:
        raise InputError(f"{name} takes names, not numbers; compare several: {name}=a,b")


_DEPENDENCES = {
    auto.POWER: ", or by efficiencies of calibration auto alone, which a search keeps (sweep it)"
}


class Solver:
    """Solves the points of a sweep for one input."""

    def __init__(
        self,
        problem: Problem,
        unknown: str,
        target: Target,
        between: Any,
        engine: str,
        runs: bool = False,
    ) -> None:
        self.unknown, self.target = unknown, target
        self.grid = scan_values(unknown, between, problem)
        self.log = bool(self.grid[0] > 0)
        self.cells = float(self._place(self.grid[2]) - self._place(self.grid[0]))
        problem = without(problem, unknown)
        axis = Axis(unknown, self.grid, numbers={unknown: self.grid})
        scan = Plan(replace(problem, axes=(*problem.axes, axis)), target.outputs, engine)
        needed = {dim for name in target.outputs for dim in scan.dims[name]}
        if unknown not in needed:
            but = _DEPENDENCES.get(unknown, "")
            raise InputError(f"{target} does not depend on {unknown}{but}; solve for another input")
        also = other_reasons(problem, scan)
        needs_layout = runs and unknown in {*STEPS, *RUN_STEPS} and REASON not in scan.outputs
        needs_layout = needs_layout and judges(problem, REASON, unknown)
        laid = any(name in problem.numbers for name in DEGREES)
        also = [*also, *([REASON] if needs_layout and laid else [])]
        self.unjudged = needs_layout and not laid
        if runs:  # what a target does not depend on may decide whether a job can run
            judged = Plan(scan.problem, [*target.outputs, *also], engine)
            reasons = [n for n in (REASON, *also) if n in judged.outputs]
            needed |= {dim for name in reasons for dim in judged.dims[name]}
        # Axes that matter to neither would only multiply the searches
        axes = tuple(a for a in problem.axes if a.name in needed or _sets(a))
        problem = replace(problem, axes=axes)
        problem, self.extrapolation = extrapolation_error(problem, scan, [unknown], target.outputs)
        scanned = replace(problem, axes=(*problem.axes, axis))
        if self.extrapolation:
            scanned = replace(
                scanned, tables={**problem.tables, **self.extrapolation.along(scanned.axes)}
            )
        self.scan = Plan(scanned, target.outputs, engine)
        underived = [n for n in target.outputs if derivative(problem.graph, n) is None]
        self.slopes = {name: name_of("d", name, unknown) for name in underived}
        steps = STEPS[unknown][1] if unknown in STEPS else None
        self.steps = steps if steps in scan.cases[0].formulas else None
        outputs = [*target.outputs, *self.slopes.values()]
        free = [unknown, *([FACTOR] if self.extrapolation else [])]
        outputs += self.extrapolation.also(outputs) if self.extrapolation else []
        if self.steps and self.steps not in outputs:
            outputs.append(self.steps)
        laid_out = REASON in scan.outputs and set(scan.dims[REASON]) <= needed
        is_judged = (laid_out or REASON in also) and NEAR in problem.graph.quantities
        near = [NEAR] if is_judged and NEAR not in outputs else []
        outputs += [name for name in also if name not in outputs]
        self.plan = Plan(problem, [*outputs, *near], engine, free=free)
        self.reasons = [REASON] * (laid_out and REASON in self.plan.outputs) + also
        self.judged = [*self.reasons, *(near if REASON in self.reasons else [])]
        self.runs = runs and bool(self.reasons)
        self.unit = whole_unit(problem, unknown) if runs else 1
        self.counts = Counts(problem, unknown)

    def evaluate(
        self, tile: Region, values: Array, names: Sequence[str], threads: int = 1
    ) -> dict[str, Array]:
        """Outputs over a tile, at given values of the input."""
        free = {self.unknown: values}
        if self.extrapolation:
            free = self.extrapolation.free(tile, free)
            names = [*names, *self.extrapolation.also(names)]
        flags = (REASON, *ALSO_REASONS)
        outs = {name: np.empty(values.shape, np.int8 if name in flags else float) for name in names}
        evaluate_block(self.plan, tuple(tile), tile, outs, threads, free)
        if self.extrapolation:
            self.extrapolation.complete(outs, tile, free)
        return outs

    def answers(self, tile: Region, whole: bool) -> dict[str, Array]:
        """The answers of `solve` over a tile, by name."""
        solution, output = self.roots(tile), self.target.of
        root, nearest, met = solution.root, solution.nearest, solution.value
        reason = solution.reason
        if whole:
            solved, root = ~np.isnan(root), self._keeping(tile, self.whole(tile, root), root)
            reason = np.where(solved & np.isnan(root), 4, reason).astype(reason.dtype)
        if whole and not np.isnan(nearest).all():
            nearest = self.whole(tile, nearest)
        wanted = root
        if self.runs:
            rows = self._rows(tile, np.where(np.isnan(root), nearest, root)) if whole else None
            if rows and self.target.relation != "=":
                root, nearest, reason = self._first(tile, rows, root, nearest, reason)
            else:
                root, nearest, reason = self._running(tile, root, nearest, reason, whole)
        unknown = ~np.isnan(root) & (whole | self.runs | np.isnan(met))
        self._fill(tile, root, met, unknown)
        wanted = np.where(reason == 6, wanted, root)  # why none runs is that of the first
        judged = self.evaluate(tile, wanted, self.judged) if self.judged else {}
        near, above = np.full(nearest.shape, np.nan), solution.next_above >= root
        self._fill(tile, nearest, near, ~np.isnan(nearest))
        return {
            self.unknown: root,
            output: np.where(np.isnan(root), np.nan, met),
            "unsolved_reason": reason,
            CROSSINGS: np.maximum(solution.crossings, reason == 0),
            NEXT: np.where(above, solution.next_above, np.nan),
            f"nearest_{self.unknown}": nearest,
            f"nearest_{output}": near,
            **{name: np.where(np.isnan(wanted), -1, code) for name, code in judged.items()},
        }

    def _rows(self, tile: Region, values: Array) -> list[Array] | None:
        """Counts over a tile that can be laid out, increasing; None if unknown or many."""
        step = self._step(tile, np.where(np.isnan(values), self.grid[-1], values))
        return self.counts.rows(tile, step, self.grid[0], self.grid[-1])

    def _first(
        self, tile: Region, rows: list[Array], root: Array, nearest: Array, reason: Array
    ) -> tuple[Array, Array, Array]:
        """Of all counts that run, the first that meets an inequality; where the first of all does
        and the next comes closer to the limit, the last before the limit is crossed."""
        sign = 1.0 if self.target.relation == "<=" else -1.0
        first, close = np.full(root.shape, np.nan), nothing(root.shape)
        rising, crossed, before = np.zeros((3, *root.shape))
        for row in rows:
            row = np.broadcast_to(row, root.shape)
            excess, runs = self._judge(tile, row)
            runs = runs & np.isfinite(excess)
            meets, worse = runs & self._meets(excess), sign * excess
            close.keep(row, np.abs(excess), runs)
            on = np.where(crossed == 1, ~np.isnan(first) & (worse > before), rising > 0) & meets
            rising, crossed = np.where(runs, on, rising), crossed + runs
            first = np.where(meets & (np.isnan(first) | on), row, first)
            before = np.where(runs, worse, before)
        first[(rising > 0) & (reason == 5)] = np.nan  # no limit is crossed
        none = np.isnan(first)
        reason = np.where(none, np.where(reason == 0, 6, reason), 0).astype(reason.dtype)
        return first, np.where(none, close.values, np.nan), reason

    def _running(
        self, tile: Region, root: Array, nearest: Array, reason: Array, whole: bool
    ) -> tuple[Array, Array, Array]:
        """Solutions and nearest values that run, instead of those that do not."""
        solved = ~np.isnan(root)
        asked = np.where(solved, root, nearest)
        bad = ~np.isnan(asked) & ~self._runs(tile, asked)
        if not bad.any():
            return root, nearest, reason
        part = box(bad)
        cut, values, bad, has_root = within(tile, part), asked[part], bad[part], solved[part]
        rows = self._rows(cut, values) if whole else None
        equal = self.target.relation == "="
        if rows is None:
            tried = np.unique(np.rint(self.grid)) if whole else self.grid
            every = [np.full(values.shape, value) for value in tried]
            rows, few = [row for row in every if self._runs(cut, row).any()], True
        else:
            few = False
        best, close = nearest_of(self._judge, cut, values, rows, self._meets, equal)
        if few and rows and not equal:
            best.values = bisected(self._judge, cut, values, best, self._meets, whole)
        none = bad & has_root & (np.isnan(best.values) | (equal & few))
        root, nearest, reason = root.copy(), nearest.copy(), reason.copy()
        root[part] = np.where(bad & has_root, np.where(none, np.nan, best.values), root[part])
        nearest[part] = np.where(bad & (none | ~has_root), close.values, nearest[part])
        reason[part] = np.where(none, 6, np.where(bad & has_root, 0, reason[part]))
        return root, nearest, reason

    def _judge(self, tile: Region, values: Array) -> tuple[Array, Array]:
        """The excess over the target at some values, and whether these can run: NaN cannot."""
        outs = self.evaluate(tile, np.where(np.isnan(values), 1.0, values), self.target.outputs)
        level = self.target.level
        aim = outs[level] if isinstance(level, str) else level
        return outs[self.target.of] - aim, self._runs(tile, values)

    def _runs(self, tile: Region, inputs: Array) -> Array:
        outs = self.evaluate(tile, np.where(np.isnan(inputs), 1.0, inputs), self.reasons)
        runs = [~np.isnan(inputs), *(code == 0 for code in outs.values())]
        return np.asarray(np.all(runs, axis=0))

    def _step(self, tile: Region, values: Array) -> Array:
        """The step from one whole number to the next: whole replicas, and whole nodes."""
        step = np.ones(values.shape)
        if self.steps:
            count = self.evaluate(tile, values, [self.steps])[self.steps]
            step = np.where(np.isfinite(count) & (count > 0), np.rint(values / count), 1.0)
        step = np.where(np.isfinite(step), step, 1.0)
        return np.lcm(step.astype(np.int64), self.unit).astype(float)

    def _fill(self, tile: Region, values: Array, outs: Array, where: Array) -> None:
        """Evaluate the output into `outs` where a condition holds."""
        if where.any():
            part, output = box(where), self.target.of
            new = self.evaluate(within(tile, part), values[part], [output])[output]
            np.copyto(outs[part], new, where=where[part])

    def roots(self, tile: Region) -> Solution:
        """The first value that meets the target over a tile, or the reason for none."""
        bracket, solution = self._scan(tile)
        reason, root, value = solution.reason, solution.root, solution.value
        low, high, before, last = bracket.low, bracket.high, bracket.left, bracket.right
        open_, over = reason == 0, before > 0
        # Scale for a target of 0; an undefined or infinite end gives no information
        ends = [np.where(np.isfinite(gap), np.abs(gap), 0.0) for gap in (before, last)]
        spread = ends[0] + ends[1]
        # Interpolate the inverse function, place over gap, through its last points
        place = self._place(high)
        slope = (place - self._place(low)) / (last - before)
        values, step = self._inside(place - last * slope, low, high, open_, 0)
        values = replaced(values, high, np.isnan(before))  # undefined below, on the target here
        for count in range(MOST_STEPS):
            left = np.count_nonzero(open_)
            if left == 0:
                break
            if FEW * left < open_.size:  # the last open points are often neighbours
                part = box(open_)
                tile = within(tile, part)
                reason, root, value, low, high = (
                    array[part] for array in (reason, root, value, low, high)
                )
                open_, over, spread, before, last = (
                    array[part] for array in (open_, over, spread, before, last)
                )
                place, slope, values, step = (array[part] for array in (place, slope, values, step))
            near = self._near(tile, values)
            size = np.abs(near.excess)
            scale = (
                near.size if np.all(near.size > 0) else replaced(spread, near.size, near.size > 0)
            )
            met = open_ & (size <= TIGHT * scale)
            np.copyto(root, values, where=met)
            np.copyto(value, near.value, where=met)
            open_ = open_ & ~met
            same = (near.excess > 0) & over | (near.excess < 0) & ~over
            low, high = replaced(low, values, same), replaced(values, high, same)
            if count >= SOON:
                # No float is left between the ends: solved, or the output jumps over the target
                stuck = open_ & (high - low <= 4 * np.spacing(np.abs(high)))
                np.copyto(root, high, where=stuck)
                reason[stuck & (size > LOOSE * scale)] = 4
                open_ = open_ & ~stuck
            was, slope = slope, (step - place) / (near.gap - last)
            bend = (slope - was) / (near.gap - before)
            before, last, place = last, near.gap, step
            step = step - last * (slope - before * bend)
            values, step = self._inside(step, low, high, open_, count)
        np.copyto(root, high, where=open_)
        return solution

    def _inside(
        self, step: Array, low: Array, high: Array, open_: Array, count: int
    ) -> tuple[Array, Array]:
        """A step's value and place; the middle if it leaves the bracket or the bracket stays wide.
        From SLACK steps on, a bracket as wide as bisection's SLACK steps earlier is halved: the
        search takes at most SLACK + 1 steps more than bisection."""
        values = self._value(step)
        good = (values > low) & (values < high)
        if count >= SLACK:
            width = self.cells * 0.5 ** (count - SLACK)
            good &= high <= (low * math.exp(width) if self.log else low + width)
        if (good | ~open_).all():
            return values, step
        # Product of two roots: the product of the ends may overflow
        half = np.sqrt(low) * np.sqrt(high) if self.log else 0.5 * (low + high)
        half = np.where((half > low) & (half < high), half, 0.5 * (low + high))
        return replaced(half, values, good), replaced(self._place(half), step, good)

    def _near(self, tile: Region, inputs: Array, exact: bool = False) -> Near:
        """The output relative to its target at some input values; `exact` adds the slope."""
        output, level = self.target.of, self.target.level
        slopes = list(self.slopes.values()) if exact else []
        outs = self.evaluate(tile, inputs, [*self.target.outputs, *slopes])
        value = outs[output]
        aim = outs[level] if isinstance(level, str) else np.full((), level)
        size = np.maximum(np.abs(aim), np.abs(value)) if isinstance(level, str) else np.abs(aim)
        slope = np.full((), np.nan)
        if exact:
            drift = outs[self.slopes[level]] if isinstance(level, str) else np.zeros(())
            rise = outs[self.slopes[output]]
            slope = np.where(self._logs(value, aim), rise / value - drift / aim, rise - drift)
            slope = slope * inputs if self.log else slope
        return Near(value, value - aim, size, self._gap(value, aim), slope)

    def _logs(self, value: Array, aim: Array) -> Array:
        """Where a gap is a logarithm."""
        return (value > 0) & (aim > 0) if self.log else np.zeros(np.shape(value), bool)

    def _gap(self, value: Array, aim: Array) -> Array:
        """Distance from the target, chosen so that most outputs are linear in place."""
        logs = self._logs(value, aim)
        # Both branches are computed; `fill` silences logarithms of numbers not above 0
        return (
            np.log(value / aim) if logs.all() else np.where(logs, np.log(value / aim), value - aim)
        )

    def _place(self, value: Array) -> Array:
        return np.log(value) if self.log else value

    def _value(self, place: Array) -> Array:
        return np.exp(place) if self.log else place

    def _scan(self, tile: Region) -> tuple[Bracket, Solution]:
        """Brackets of the first crossing along the range, and the scan's other findings."""
        shape = extent(tile, tuple(tile), tuple(tile))
        above, root = np.full(shape, np.nan), np.full(shape, np.nan)
        upper = np.full(shape, -1, np.int8)  # index of the value at or after the crossing
        crossings = np.zeros(shape, np.int8)
        up = down = np.zeros(shape, bool)
        excesses = []
        for k in range(len(self.grid)):
            value, aim = self._scanned(tile, k)
            excesses.append((value, aim))
            excess = value - aim
            zero, over, under = excess == 0, excess > 0, excess < 0
            turned = (up & under) | (down & over)  # not next to NaN
            if turned.any():
                again = turned & (crossings > 0) & np.isnan(above)
                above[again & self._meets(excess)] = self.grid[k - 1]
                crossings += turned
            np.copyto(upper, k, where=(turned | zero) & (upper < 0), casting="unsafe")
            # A value on the target has no side: the next one is compared with the previous one
            up, down = over | (zero & up), under | (zero & down)
        left, right = np.full(shape, np.nan), np.full(shape, np.nan)
        for k in range(len(self.grid)):
            if (is_bracket := upper == k).any():
                ends = (excesses[j] for j in (max(k - 1, 0), k))
                left[is_bracket], right[is_bracket] = (
                    self._gap(v[is_bracket], a[is_bracket]) for v, a in ends
                )
        # A line through an end on the target would lead there, past a smaller solution
        right = np.where(right == 0, -left, right)
        low, high = np.array(self.grid[np.maximum(upper - 1, 0)]), np.array(self.grid[upper])
        bracket = Bracket(low, high, left, right)
        best, closest, lost = upper.copy(), np.zeros(shape), upper < 0
        if lost.any():
            best[lost], closest[lost] = _closest(
                [value[lost] - aim[lost] for value, aim in excesses]
            )
        before = np.where(up, 1.0, np.where(down, -1.0, np.nan))
        reason = np.where(closest > 0, 1, 2).astype(np.int8)
        reason[np.isinf(closest) & np.isnan(before)] = 3
        reason[upper >= 0] = 0
        dips = (reason > 0) & (reason < 3) & (best > 0) & (best < len(self.grid) - 1)
        if self.slopes and dips.any():
            again = dips & self._meets(closest)  # its ends meet the target
            self._dip(tile, dips, best, bracket, reason)
            crossings[dips & (reason == 0)] = 2
            above = np.where(again & (reason == 0), bracket.high, above)
        if self.target.relation != "=":
            touched = (reason == 0) & (crossings == 0)  # equal to the target without crossing it
            worst = np.where(np.isnan(before), left, before)
            meets = self._meets(worst) | np.isnan(worst)
            reason[(touched & meets) | (reason == MET[self.target.relation])] = 5
        np.maximum(crossings, reason == 0, out=crossings)
        nearest = np.where((reason == 0) | (reason == 3), np.nan, self.grid[best])
        return bracket, Solution(root, root.copy(), reason, crossings, above, nearest)

    def _meets(self, excess: Array) -> Array:
        """Where crossing to this excess starts another solution: always, for "="."""
        if self.target.relation == "=":
            return np.ones(excess.shape, bool)
        return excess <= 0 if self.target.relation == "<=" else excess >= 0

    def _scanned(self, tile: Region, k: int) -> tuple[Array, Array]:
        """The output and its target over a tile, at one value of the range."""
        region = {dim: tile.get(dim, slice(k, k + 1)) for dim in self.scan.sizes}
        outs: dict[str, Array] = {}
        for output in self.target.outputs:
            output_dims = self.scan.out_dims[output]
            out = np.empty(extent(region, output_dims, output_dims))
            evaluate_block(
                self.scan, output_dims, {dim: region[dim] for dim in output_dims}, {output: out}, 1
            )
            dims = tuple(self.scan.sizes)
            order = [dims.index(dim) for dim in (*tile, self.unknown)]
            outs[output] = out.reshape(extent(region, output_dims, dims)).transpose(order)[..., 0]
        level, shape = self.target.level, extent(tile, tuple(tile), tuple(tile))
        aim = outs[level] if isinstance(level, str) else np.full((), level)
        return np.broadcast_to(outs[self.target.of], shape), np.broadcast_to(aim, shape)

    def _dip(self, tile: Region, dips: Array, best: Array, bracket: Bracket, reason: Array) -> None:
        """Look for a crossing between scanned values, where the output turns near the target. The
        bottom is sought by halves, by the secant method for a slope of zero, and where the tangents
        at both ends meet, as at a kink, as long as these allow a crossing: an output with one
        turning point lies above them."""
        part = box(dips)
        tile, bracket = within(tile, part), bracket.cut(part)
        dips, reason, best = dips[part], reason[part], best[part]
        start = np.array(self.grid[np.maximum(best - 1, 0)])
        low = self._place(start)
        high = self._place(self.grid[np.minimum(best + 1, len(self.grid) - 1)])
        ends = [self._near(tile, self._value(place), exact=True) for place in (low, high)]
        first = ends[0].gap
        left, right = (end.gap for end in ends)
        falls, rises = (end.slope for end in ends)
        for step in range(DIPS):
            meet = (right - left + falls * low - rises * high) / (falls - rises)
            lowest = left + falls * (meet - low)
            dips = dips & (reason > 0) & (falls * rises < 0) & (lowest * left <= 0)
            if not dips.any():
                return
            part = box(dips)
            tile, bracket = within(tile, part), bracket.cut(part)
            dips, reason, low, high, left, right, falls, rises, start, first = (
                array[part]
                for array in (dips, reason, low, high, left, right, falls, rises, start, first)
            )
            # Halved; where the slope is 0, as if it changed evenly; where the tangents meet: a kink
            even = falls / (falls - rises)
            kink = (right - left + falls * low - rises * high) / (falls - rises) - low
            share = (np.full(low.shape, 0.5), even, kink / (high - low))[step % 3]
            share = np.where((share > 0) & (share < 1), share, 0.5)
            place = low + (high - low) * share
            values = self._value(place)
            near_values = self._near(tile, values, exact=True)
            crossed = dips & (near_values.gap * first <= 0)
            bracket.replace(start, values, first, near_values.gap, crossed)
            reason[crossed] = 0
            before = near_values.slope * falls > 0
            low, falls = replaced(low, place, before), replaced(falls, near_values.slope, before)
            left, right = (
                replaced(left, near_values.gap, before),
                replaced(right, near_values.gap, ~before),
            )
            high, rises = (
                replaced(high, place, ~before),
                replaced(rises, near_values.slope, ~before),
            )

    def whole(self, tile: Region, root: Array) -> Array:
        """The whole number next to a root that meets the target or comes closest; NaN if none."""
        step = self._step(tile, root)
        low = np.floor(root / step * (1 + ROUND)) * step
        high = np.ceil(root / step * (1 - ROUND)) * step
        first, last = self.grid[0], self.grid[-1]
        low, high = np.where(low < first, high, low), np.where(high > last, low, high)
        below, above = (self._near(tile, values, exact=False).excess for values in (low, high))
        if self.target.relation == "=":
            lower = np.abs(below) <= np.abs(above)
        else:
            lower = self._meets(below)
        near = np.where(lower, low, high)
        missed = (near < first) | (near > last)
        if self.target.relation != "=":  # the only one of the two within the range
            missed |= (low == high) & ~lower & (np.abs(low - root) > ROUND * root)
        return np.where(np.isnan(root) | missed, np.nan, near)

    def _keeping(self, tile: Region, near: Array, root: Array) -> Array:
        """Whole numbers next to roots, where they keep to the bound, or the nearest that does, as
        layers that do not divide evenly may break it on both sides; NaN if none is seen."""
        broken = ~self._meets(self._near(tile, near).excess) & (np.abs(near - root) > ROUND * root)
        step = self._step(tile, near)
        for k in (side * k for k in range(1, MOST_STEPS) for side in (-1, 1)):
            if not broken.any():
                break
            neighbour = near + k * step
            inside = broken & (neighbour >= self.grid[0]) & (neighbour <= self.grid[-1])
            is_better = inside & self._meets(
                self._near(tile, np.where(inside, neighbour, root)).excess
            )
            near, broken = np.where(is_better, neighbour, near), broken & ~is_better
        return np.where(broken, np.nan, near)


def _closest(excesses: list[Array]) -> tuple[Array, Array]:
    """Index of the smallest absolute excess, and that excess; infinity if none is finite."""
    every = np.stack(excesses)
    every[~np.isfinite(every)] = np.inf
    best = np.abs(every).argmin(0)
    return best, np.take_along_axis(every, best[None], 0)[0]


def _sets(axis: Axis) -> bool:
    """Whether an axis selects formulas although no option varies along it."""
    return bool(axis.options) and all(len(set(row)) == 1 for row in axis.options.values())


def without(problem: Problem, unknown: str) -> Problem:
    """The problem without an input or its axis; a one-point axis keeps its other inputs."""
    axes = []
    for axis in problem.axes:
        others = len(axis.inputs) > 1
        if unknown in axis.inputs and others and axis.size > 1:
            raise InputError(
                f"{unknown} is set along the axis {axis.name!r} with other inputs; "
                "remove it from that axis, or choose one point of it, to solve for it"
            )
        if unknown not in axis.inputs:
            axes.append(axis)
        elif others:
            numbers = {name: row for name, row in axis.numbers.items() if name != unknown}
            axes.append(replace(axis, numbers=numbers))
    constants = {name: value for name, value in problem.constants.items() if name != unknown}
    return replace(problem, axes=tuple(axes), constants=constants)
