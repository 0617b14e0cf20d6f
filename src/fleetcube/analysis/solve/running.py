"""Feasible solutions: try all counts that divide; bisect other values between the root and a
feasible value."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.plan.execute import evaluate_block
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.plan.tiles import Region
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.problem import Problem
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import LAYOUT_REASON

MULTIPLES = 1 << 14  # of a replica, tried as clusters
MOST = 512  # counts that can be laid out, up to which each is evaluated
HALVES = 64
_TRIED = "tried"

Judge = Callable[[Region, Array], tuple[Array, Array]]  # the excess, and whether they run


@dataclass
class Nearest:
    """The feasible value that meets the target or comes nearest to it; NaN if there is none."""

    score: Array
    values: Array

    def keep(self, values: Array, score: Array, good: Array) -> None:
        better = good & (score < self.score)
        self.values, self.score = (
            np.where(better, values, self.values),
            np.where(better, score, self.score),
        )


def nothing(shape: tuple[int, ...]) -> Nearest:
    return Nearest(np.full(shape, np.inf), np.full(shape, np.nan))


class Counts:
    """Whole numbers of an input at which the groups of a job divide, for each point."""

    def __init__(self, problem: Problem, unknown: str) -> None:
        self.unknown = unknown
        self.plan: Plan | None = None
        if not values.is_whole(problem.graph, unknown):
            return
        tried = Axis(_TRIED, np.arange(1.0, MULTIPLES + 1))
        for self.reason in (LAYOUT_REASON, REASON):  # of phases, only the second is known
            with contextlib.suppress(InputError):
                varying = Plan(problem, [self.reason], "numpy", free=[unknown]).dims[self.reason]
                axes = tuple(a for a in problem.axes if a.name in varying or a.options)
                judged = replace(problem, axes=(*axes, tried))
                self.plan = Plan(judged, [self.reason], "numpy", free=[unknown])
                return

    def rows(self, tile: Region, step: Array, first: float, last: float) -> list[Array] | None:
        """Counts over a tile, one after the other, NaN where a point has fewer; None if many."""
        plan = self.plan
        if plan is None:
            return None
        dims = tuple(plan.sizes)
        region = {d: tile.get(d, slice(0, MULTIPLES)) for d in dims}
        cells = [d for d in dims if d != _TRIED]
        unit = step[tuple(slice(None) if d in cells else 0 for d in tile)]
        unit = unit.transpose([[d for d in tile if d in cells].index(d) for d in cells])
        multiples = unit[..., None] * np.arange(1.0, MULTIPLES + 1)
        place = dims.index(_TRIED)
        code = np.empty([cut.stop - cut.start for cut in region.values()], np.int8)
        free = {self.unknown: np.ascontiguousarray(np.moveaxis(multiples, -1, place))}
        evaluate_block(plan, dims, region, {self.reason: code}, 1, free)
        valid = (np.moveaxis(code, place, -1) == 0) & (multiples >= first) & (multiples <= last)
        count = int(valid.sum(-1).max(initial=0))
        if count > MOST:
            return None
        counts = np.sort(np.where(valid, multiples, np.nan), axis=-1)[..., :count]  # NaN last
        shape = [1 if d not in cells else tile[d].stop - tile[d].start for d in tile]
        back = [cells.index(d) for d in tile if d in cells]
        return [counts[..., k].transpose(back).reshape(shape) for k in range(count)]


def nearest(
    judge: Judge,
    tile: Region,
    root: Array,
    rows: Sequence[Array],
    meets: Callable[[Array], Array],
    equal: bool,
) -> tuple[Nearest, Nearest]:
    """Among feasible values: the one nearest to the root that meets the target, and the one whose
    output comes nearest to the target."""
    best, close = nothing(root.shape), nothing(root.shape)
    for row in rows:
        values = np.broadcast_to(row, root.shape)
        excess, runs = judge(tile, values)
        runs = runs & np.isfinite(excess)
        close.keep(values, np.abs(excess), runs)
        far = np.abs(excess) if equal else np.abs(np.log(values / root))
        best.keep(values, far, runs & meets(excess))
    return best, close


def bisected(
    judge: Judge,
    tile: Region,
    root: Array,
    best: Nearest,
    meets: Callable[[Array], Array],
    whole: bool,
) -> Array:
    """Bisect from a feasible value that meets the target toward an infeasible root, with one limit
    between them; return the last feasible value."""
    good, bad = best.values, np.where(np.isnan(best.values), np.nan, root)
    for _ in range(HALVES):
        middle = 0.5 * (good + bad)
        middle = np.where(good < bad, np.floor(middle), np.ceil(middle)) if whole else middle
        excess, runs = judge(tile, middle)
        runs = runs & meets(excess)
        good, bad = np.where(runs, middle, good), np.where(runs, bad, middle)
    return good
