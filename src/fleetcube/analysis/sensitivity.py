"""Which inputs matter: ranked at a point, mapped over a cube."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.grid.plan import memory, tiles
from fleetcube.grid.plan.cases import choices
from fleetcube.grid.plan.execute import evaluate_block
from fleetcube.grid.plan.labels import attributes, coordinates, ordered, origin
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.plan.tiles import Region
from fleetcube.grid.result import Result
from fleetcube.grid.run import stream
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axes import PHASE, make_axes, make_axis
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.problem import Problem
from fleetcube.grid.spec.values import is_whole, without_unit
from fleetcube.kernels.calculus.derivatives import unit_of
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.declare import CHANGERS
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.inputs import BY_TOPIC
from fleetcube.kernels.physics.roles import DECIDING, MONEY, NEAR
from fleetcube.tables.selectors import narrow, point_of
from fleetcube.tables.tables import meanings

from .gradient import check_inputs, check_quantity, derivative_of, of_phases, reached, uncounted

Kind = TypeVar("Kind", bound=Evaluation)

STEP = 0.1  # relative change of an input, down and up
SAME = 1e-9  # relative difference below which elasticities are equal
THIN = 100_000  # points over which medians are taken
NONE = "none"  # flag of a point where no input matters
ROW = "(row)"  # no axis of a spec can have this name


def cut(sweep: Kind, at: Mapping[str, Any], free: Sequence[str] = ()) -> tuple[Kind, str]:
    """A sweep at one point of its grid, and that point in words. `at` gives values of axes or of
    other inputs, as numbers or text; other axes are cut in the middle, those in `free` stay whole.
    """
    spec: Any = sweep.spec
    for name in free:
        if name not in spec["axes"]:
            axis_names = ", ".join(spec["axes"]) or "none"
            raise InputError(f"{name!r} is not an axis; choose from {axis_names}")
    wanted = {n: without_unit(sweep.graph, n, value) for n, value in at.items() if n not in free}
    narrowed, _ = narrow(spec, [f"{name}={value}" for name, value in wanted.items()])
    axes = make_axes(sweep.graph, narrowed["axes"])
    for name, axis in axes.items():
        if name in wanted and axis.size > 1:
            raise InputError(f"{name} = {wanted[name]} is more than one point; give one value")
        if name not in free:
            axes[name] = axis.cut(np.array([axis.size // 2]))
    point = {name: axis for name, axis in axes.items() if name not in free}
    point |= {
        n: make_axis(sweep.graph, n, [wanted[n] if n == PHASE else narrowed["scenario"][n]])
        for n in wanted
        if n not in axes
    }
    return sweep.replace(scenario=narrowed["scenario"], axes=axes), point_of(sweep.graph, point)


def check_levers(plan: Plan, of: Any, wrt: str | Sequence[str] | None) -> list[str]:
    """The inputs named, or all numbers that `of` depends on, given quantities included."""
    of = check_quantity(plan.graph, of)
    leaves = {name for case in plan.cases for name in case.leaves}
    given = {
        name for name in leaves if name not in plan.graph.inputs and name == without_phase(name)
    }
    given -= {name for case in plan.cases for name in case.formulas}
    if wrt is not None:
        return list(dict.fromkeys(check_inputs(plan, wrt)))
    reaching = reached(plan, [of])
    input_names = [name for name, row in plan.graph.inputs.items() if row.kind != "option"]
    felt = [name for name in input_names if name in reaching] + of_phases(plan, reaching)
    return felt + [n for n in plan.graph.quantities if n in reaching & given - {of}]


GIVEN = "given"  # the kind of quantities stated by a spec or a label
ALL = "all"  # all kinds
AS_IT_IS = "model"  # the kind that a plan does not change
BOUGHT = CHANGERS[:3]  # kinds of what one buys, or how one runs it


def kinds(graph: Graph) -> dict[str, set[str]]:
    """Inputs by who can change them, and by topic."""
    topics = {topic: {row.name for row in rows} for topic, rows in BY_TOPIC.items()}
    changed = {
        who: {name for name, row in graph.inputs.items() if row.changed_by == who}
        for who in CHANGERS
    }
    # "model" is both a changer and a topic: here it means what a plan does not change
    return {**changed, **{topic: names for topic, names in topics.items() if topic not in changed}}


def kind_of(graph: Graph, name: str) -> str:
    """Who can change an input (also a phase's); GIVEN for a quantity."""
    row = graph.inputs.get(without_phase(name))
    return row.changed_by if row else GIVEN


def is_built(graph: Graph, name: str) -> bool:
    """Whether a count comes as machines and networks are sold, such as the GPUs of a node."""
    return is_whole(graph, name) and kind_of(graph, name) in ("hardware", "fabric")


def among(
    plan: Plan, inputs: Sequence[str], wanted: Sequence[str] | None, without: Sequence[str] = ()
) -> list[str]:
    """Inputs of the kinds in `wanted`, except those named or of a kind in `without`. By default
    those that a person may choose or buy, if any: none of the model, the formulas or a node as
    sold, and quantities that the spec states or that decide. Raises InputError for an unknown
    kind, and if no input is left."""
    plain = {name: without_phase(name) for name in inputs}
    by_kind = {**kinds(plan.graph), GIVEN: {*plain.values()} - plan.graph.inputs.keys()}
    for kind in wanted or ():
        if kind not in by_kind and kind != ALL:
            hint = nearest(str(kind), by_kind, f"choose of {', '.join(by_kind)}, {ALL}")
            raise InputError(f"kind {shown(kind)} is unknown; {hint}")
    for name in without:
        if name not in inputs and name not in by_kind:
            raise InputError(
                f"--without {name}: no such input matters here, and no kind of inputs; "
                f"{nearest(name, [*inputs, *by_kind])}"
            )
    if wanted is None:
        candidates = [name for name in inputs if _may_change(plan, name)] or [*inputs]
    else:
        chosen = (
            {*plain.values()} if ALL in wanted else set().union(*(by_kind[kind] for kind in wanted))
        )
        candidates = [name for name in inputs if plain[name] in chosen]
        if not candidates:
            raise InputError(f"no input of the kinds {', '.join(wanted)} matters here; name others")
    excluded = set().union(*(by_kind.get(name, ()) for name in without))
    left = [name for name in candidates if name not in without and plain[name] not in excluded]
    if candidates and not left:
        raise InputError("--without leaves no input; name fewer")
    return left


def _may_change(plan: Plan, name: str) -> bool:
    """Whether a person may choose an input or buy it: the cluster, its operation, the job."""
    kind = kind_of(plan.graph, name)
    if kind == GIVEN:
        axis_inputs = {input_name for axis in plan.axes for input_name in axis.inputs}
        if plan.problem.phases:
            axis_inputs |= {*plan.problem.phases.inputs}
        return without_phase(name) in plan.problem.stated | axis_inputs | {*DECIDING}
    return kind != AS_IT_IS and not is_built(plan.graph, name)


def _elasticities(plan: Plan, of: str, wrt: str | Sequence[str] | None) -> dict[str, str]:
    """Inputs, with the name of the quantity's elasticity by each."""
    inputs = check_levers(plan, of, wrt)
    if not inputs:
        raise InputError(
            f"{of} depends on no number in this sweep (it may be given); name another quantity"
        )
    return {name: derivative_of(plan.graph, of, name, elasticity=True).name for name in inputs}


def frozen(plan: Plan) -> tuple[Problem, dict[str, float]]:
    """The problem of a one-point plan with every option fixed, and the value of every input."""
    (case,), (choice,) = plan.cases, choices(plan.problem, ())
    values = {name: float(leaf.item()) for name, leaf in case.leaves.items()}
    phases = plan.problem.phases
    if phases:  # one phase may imply an option that others do not
        rows = [dict(phase.options) for phase in choice.phases]
        differ = [
            n for n, chosen in choice.options.items() if any(row[n] != chosen for row in rows)
        ]
        options = {name: tuple(row[name] for row in rows) for name in differ}
        phases = replace(phases, options={**phases.options, **options})
    fixed = dict(choice.options)
    point = replace(plan.problem, constants=values, options=fixed, axes=(), phases=phases)
    return point, values


def outputs_at(
    problem: Problem, columns: Mapping[str, Array], of: str, settings: Settings
) -> Array:
    """A quantity of a frozen problem, with some inputs set row by row from columns."""
    size = len(next(iter(columns.values())))
    axis = Axis(ROW, np.arange(size), columns)
    plan = Plan(replace(problem, axes=(axis,)), [of], settings.engine)
    if not plan.out_dims[of]:
        constant = np.empty(())
        evaluate_block(plan, (), {}, {of: constant}, settings._cores)
        return np.full(size, constant)
    out = np.empty(size)
    for region in tiles.blocks(plan.whole([ROW]), tiles.BLOCK):
        evaluate_block(plan, (ROW,), region, {of: out[region[ROW]]}, settings._cores)
    return out


def rank_inputs(
    sweep: Evaluation, of: str, wrt: str | Sequence[str] | None, at: Mapping[str, Any] | None
) -> Result:
    """Inputs ranked by their effect at one point; see `Sweep.rank_inputs`."""
    point, point_text = cut(sweep.with_outputs([of]), at or {})
    named = _elasticities(point._plan("numpy"), of, wrt)
    inputs = list(named)
    is_judged = REASON in point._plan("numpy").outputs and NEAR in point.graph.quantities
    judged = [NEAR] if is_judged else []
    priced = _priced(point, of)
    plan = point.with_outputs([of, *named.values(), *judged, *priced])._plan("numpy")
    (case,) = plan.cases
    problem, values = frozen(plan)
    with np.errstate(all="ignore"):
        elasticity = {name: plan.table(case, d).item() for name, d in named.items()}
        reason = int(plan.table(case, REASON).item()) if REASON in plan.outputs else 0
        near = any(plan.table(case, name).item() == 1 for name in judged)
        sides = {name: _sides(plan, name, values[name]) for name in inputs}
        columns = {name: np.full(2 * len(inputs) + 1, values[name]) for name in inputs}
        for k, name in enumerate(inputs):
            columns[name][[2 * k + 1, 2 * k + 2]] = sides[name]
        sizes = {
            name: outputs_at(problem, columns, name, Settings("numpy", threads=1))
            for name in (of, *priced)
        }
        if judged and not reason:  # a neighbour that cannot run has no value
            code = outputs_at(problem, columns, REASON, Settings("numpy", threads=1))
            sizes = {name: np.where(code > 0, np.nan, row) for name, row in sizes.items()}
    rank = sorted(range(len(inputs)), key=lambda k: -_size(elasticity[inputs[k]]))
    names = [inputs[k] for k in rank]
    why = meanings(attributes(plan, REASON), np.atleast_1d(reason))[0] if reason else ""
    return Result(
        {
            "elasticity": _row(
                [elasticity[n] for n in names],
                f"relative change of {of} over that of the input",
                {"units": "1"},
            ),
            "value": _row([values[n] for n in names], "value of the input", {}),
            "value_below": _row([sides[n][0] for n in names], "smaller value of the input", {}),
            "value_above": _row([sides[n][1] for n in names], "larger value of the input", {}),
            **_outcomes(plan, sizes, rank),
        },
        {
            "input": names,
            "units": ("input", [unit_of(sweep.graph, n) for n in names]),
            "kind": (
                "input",
                ["difference" if is_whole(plan.graph, n) else "derivative" for n in names],
            ),
            "topic": ("input", [kind_of(sweep.graph, n) for n in names]),
        },
        {
            **origin(plan, sweep.spec),
            **uncounted(plan, inputs),
            "fleetcube_point": point_text,
            "fleetcube_infeasible": why,
            "fleetcube_near_memory_limit": int(near),
        },
    )


def _priced(point: Evaluation, output: str) -> list[str]:
    """The job's cost, if it is known and not the output itself."""
    spec: Any = point.spec
    has_price = output != MONEY and is_known(spec["scenario"], spec["axes"], [MONEY])
    return [MONEY] if has_price else []


def _row(numbers: Sequence[float], meaning: str, attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    return "input", np.array(numbers, float), {**attrs, "long_name": meaning}


def _outcomes(plan: Plan, sizes: Mapping[str, Array], rank: Sequence[int]) -> dict[str, Any]:
    """Outputs at the point, and with each input below and above its value there."""
    step = f"{STEP * 100:g} %, or the nearest valid whole number"
    outcomes: dict[str, Any] = {}
    for name, (base, *moved) in sizes.items():
        about = attributes(plan, name)
        unit = {"units": about["units"]}
        ends = [moved[2 * k] for k in rank], [moved[2 * k + 1] for k in rank]
        outcomes[name] = (), base, about
        outcomes[f"{name}_below"] = _row(ends[0], f"{name} at -{step}", unit)
        outcomes[f"{name}_above"] = _row(ends[1], f"{name} at +{step}", unit)
    return outcomes


def _size(elasticity: float) -> float:
    return -1.0 if np.isnan(elasticity) else abs(elasticity)


def _sides(plan: Plan, name: str, value: float) -> tuple[float, float]:
    """Values 10 % below and above, within bounds; whole numbers take valid steps, as sold none."""
    (case,) = plan.cases
    if is_built(plan.graph, name):
        return value, value
    if not is_whole(plan.graph, name):
        row = plan.graph.inputs.get(without_phase(name))
        low, high = (row.low, row.high) if row else (-np.inf, np.inf)
        return max(value * (1 - STEP), low), min(value * (1 + STEP), high)
    ends = []
    for side in ("below", "above"):
        has_step = f"{name}_{side}" in case.formulas
        has_step = has_step and np.isfinite(value)  # of all layers there are none more
        step = plan.table(case, f"{name}_{side}").item() - value if has_step else 0.0
        times = round(STEP * value / abs(step)) if step else 1
        ends.append(value + max(1, times) * step)
    return ends[0], ends[1]


def dominant_inputs(
    sweep: Evaluation, of: str, wrt: str | Sequence[str] | None, settings: Settings
) -> Result:
    """Which input matters most at every point; see `Sweep.dominant_inputs`."""
    settings = replace(settings, engine="numpy") if settings.engine == "auto" else settings
    named = _elasticities(sweep.with_outputs([of])._plan("numpy"), of, wrt)
    inputs, slopes = list(named), list(named.values())
    moved = sweep.with_outputs(slopes)
    code = np.int8 if len(inputs) < 127 else np.int16  # 0 is NONE: inputs count from 1
    ranges = _Ranges(len(inputs))
    with stream.mapping(moved, settings) as (plan, map_):
        rooms = stream.Rooms(plan, slopes)
        dims = [axis.name for axis in plan.axes if axis.name in rooms.dims]
        memory.check(np.dtype(code).itemsize * int(np.prod(plan.shape(dims), dtype=float)))
        lead = np.zeros(plan.shape(dims), code)
        whole = plan.whole(dims)
        work = _Leaders(tuple(dims), slopes, rooms, code)
        for tile, (codes, summary) in map_(work.part, tiles.blocks(whole, tiles.BLOCK // 8)):
            lead[tiles.inside(whole, tile, dims)] = codes
            ranges.fold(summary)
    counts = np.bincount(lead.reshape(-1), minlength=len(inputs) + 1)[1:]
    same = ranges.same(inputs)
    coords = coordinates(plan, dims) | stream.reason(plan, dims, settings._cores)
    flags = {
        "long_name": f"input with the largest elasticity of {of}, by size",
        "flag_values": np.arange(len(inputs) + 1, dtype=code),
        "flag_meanings": " ".join([NONE, *inputs]),
    }

    def row(numbers: Array, meaning: str) -> tuple[Any, ...]:
        return "input", numbers, {"units": "1", "long_name": meaning}

    return Result(
        {
            "dominant": (*ordered(plan, dims, lead), flags),
            "share": row(
                counts / max(1, int(counts.sum())), "share of the points that it dominates"
            ),
            "elasticity_min": row(ranges.low, f"smallest elasticity of {of}"),
            "elasticity_median": row(
                _medians(moved, slopes, settings),
                f"median elasticity of {of}, over at most {THIN:,} points",
            ),
            "elasticity_max": row(ranges.high, f"largest elasticity of {of}"),
        },
        {
            **coords,
            "input": inputs,
            "same_as": ("input", same, {"long_name": "first input of the same size everywhere"}),
        },
        origin(plan, sweep.spec) | uncounted(plan, inputs),
    )


class _Ranges:
    """Ranges of elasticities, and pairs of inputs with elasticities of equal size."""

    def __init__(self, inputs: int) -> None:
        self.low, self.high = np.full(inputs, np.nan), np.full(inputs, np.nan)
        self.pairs = {(i, j) for j in range(inputs) for i in range(j)}

    def fold(self, summary: tuple[Array, Array, set[tuple[int, int]]]) -> None:
        self.low, self.high = np.fmin(self.low, summary[0]), np.fmax(self.high, summary[1])
        self.pairs &= summary[2]

    def same(self, inputs: Sequence[str]) -> list[str]:
        """For each input the first of equal size: itself if none is, or if it has no effect."""
        still = {k for k in range(len(inputs)) if self.low[k] == self.high[k] == 0}
        self.pairs = {pair for pair in self.pairs if still.isdisjoint(pair)}
        first = {j: min(i for i, k in self.pairs if k == j) for _, j in self.pairs}
        return [inputs[first.get(k, k)] for k in range(len(inputs))]


@dataclass(frozen=True)
class _Leaders:
    dims: tuple[str, ...]
    names: list[str]
    rooms: stream.Rooms
    code: type

    def part(self, plan: Plan, tile: Region) -> tuple[Array, Any]:
        """Codes of the leading inputs over a tile, the first of equals; ranges and equal pairs."""
        shape = tuple(tile[dim].stop - tile[dim].start for dim in self.dims)
        slopes = self.rooms.evaluate(plan, self.dims, tile)
        rows = [slopes[name] for name in self.names]
        low = np.array([np.fmin.reduce(row, axis=None) for row in rows])
        high = np.array([np.fmax.reduce(row, axis=None) for row in rows])
        sizes = [np.nan_to_num(np.abs(row)[...], copy=False, posinf=np.inf) for row in rows]
        best, lead = np.zeros(shape), np.zeros(shape, self.code)
        for k, size in enumerate(sizes):
            # Rounding must not decide between equal inputs, differently from point to point
            more = size > best * (1 + SAME)
            np.copyto(lead, k + 1, where=more)
            np.copyto(best, size, where=more)
        return lead, (low, high, _equal(sizes))


def _equal(sizes: Sequence[Array]) -> set[tuple[int, int]]:
    """Pairs of arrays that are equal within SAME."""
    firsts = [float(size.reshape(-1)[0]) for size in sizes]
    pairs = set()
    for j, second in enumerate(firsts):
        for i, first in enumerate(firsts[:j]):
            # One number rules out most pairs before whole arrays are compared
            near = np.isclose(second, first, rtol=SAME, atol=0)
            if near and np.allclose(sizes[i], sizes[j], rtol=SAME, atol=0):
                pairs.add((i, j))
    return pairs


def _medians(sweep: Evaluation, names: Sequence[str], settings: Settings) -> Array:
    """Medians of elasticities over an evenly thinned grid of at most THIN points."""
    axes = make_axes(sweep.graph, sweep.spec["axes"])
    while np.prod([axis.size for axis in axes.values()]) > THIN:
        longest = max(axes, key=lambda name: axes[name].size)
        axes[longest] = axes[longest].cut(np.arange(0, axes[longest].size, 2))
    thin = sweep.replace(axes=axes)
    cube = thin._result(replace(settings, engine="numpy"))
    return np.array([cube[name].median() for name in names])
