"""The best layouts of a job: evaluate all candidates, then the best ones like any spec.

Inputs that the spec leaves open are searched over candidates that depend on the model and the
cluster. Candidates that cannot run are excluded by `infeasible_reason`, so the answer is exact over
the candidates (decision 47).
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError, nearest, shown
from fleetcube.grid.plan.labels import REMARKS, attributes, coordinates, origin
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.reduce.filtered import met
from fleetcube.grid.result import Result, along, in_memory
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axes import make_axes, with_phase_tables
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.inputs import INPUTS
from fleetcube.kernels.physics.roles import (
    HEADROOM,
    LARGEST,
    LOSSES,
    MEANS,
    MEMORY,
    MONEY,
    NEAR,
    SUMS,
)
from fleetcube.scenario import framework, patterns, phases
from fleetcube.scenario.along_axes import point, values_along
from fleetcube.scenario.remarks import shared_prices
from fleetcube.scenario.token_batches import SEQUENCES_KEPT
from fleetcube.tables.tables import label, meanings

from .assumptions import lines, noted
from .gradient import check_quantity, uncounted
from .interval import chances, ends_of_chance, interval
from .pareto import sign_of
from .sensitivity import Kind, frozen
from .targets import Target, conditions_of
from .top import RANK

Search = str | Sequence[str]
MOST = 1 << 26  # layouts tried together
MOST_POINTS = 256  # each with a table of its own
_MOST_RANKS = 100
FELT = 1e-3  # relative change of an output that is worth a line
SAME = 1e-9  # relative difference of outputs that are equal: such layouts differ in nothing here
ALWAYS = ("job_time", "step_time", "mfu", "goodput", "memory_per_gpu")
# Added where their inputs are known
WHERE_KNOWN = (
    *("model_flops_per_gpu", "memory_margin", "expected_failures", "checkpoint_interval"),
    *("gpu_hours", "energy", "job_cost", *LOSSES),
)
REPORTED = (
    *("job_time", "step_time", "mfu", "goodput", "memory_per_gpu", "model_flops_per_gpu"),
    *("expected_failures", "checkpoint_interval", "gpu_hours", "energy", MONEY),
)
FRONT = "on_cost_time_front"
# Axes of these are different work, which no front compares
_WORK = {"model", "parameters", "active_parameters", "training_tokens", "sequence_length"}
NEAREST = "nearest_plan_"  # before an output of the layout that misses the conditions least
MISS = f"{NEAREST}miss"  # by how much: the largest share of a condition's bound
CLOSEST = "closest_"  # before the output of a condition: the least, or greatest, of any layout
WHOLE = "whole_layout"  # as evaluated, searched or stated
LAYOUT = "layout"  # all of OPEN that a spec leaves open
OPEN = (
    *("tensor_parallel", "pipeline_parallel", "virtual_stages", "context_parallel"),
    *("expert_parallel", "micro_batch_size", "zero_stage", "recompute", "sequence_parallel"),
)
_CHOICES: dict[str, tuple[Any, ...]] = {  # of options, the usual first: it wins ties
    "zero_stage": (1, 2, 3),  # 0 needs more memory, and is faster by 0.4 % at most
    "sequence_parallel": (False, True),
}
# Modules that run again, by what a model has: what frees most for its time
_RECOMPUTED: dict[Any, tuple[str, ...]] = {
    "latent_attention": ("mla_up_proj", "layernorm+mla_up_proj+moe_act"),
    "mixture_of_experts": ("moe_act", "layernorm+moe_act"),
    False: ("mlp",),
}
_TORUS = "torus_x"
_GPUS = "n_gpus"
DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
_OF_REPLICA = ("tensor_parallel", "pipeline_parallel", "context_parallel")
_NO_MEMORY, _MARGIN = "out_of_memory", "memory_margin"
_SHORTEST = 4096  # tokens per context-parallel rank
# About the maxima of published steps: beyond, no formula of a step was checked
_MOST_STAGES, _MOST_CHUNKS, _MOST_EXPERT_RANKS, _MOST_MICRO_BATCH = 64, 8, 64, 16


def best_layouts(
    sweep: Evaluation,
    of: str,
    sense: str,
    search: Search,
    where: Sequence[str],
    also: Sequence[str],
    k: int,
    settings: Settings,
) -> Result:
    """The k best layouts at every point; see `Sweep.best`."""
    check_quantity(sweep.graph, of)
    for name in also:
        check_quantity(sweep.graph, name)
    sign = sign_of(sense)
    if k > _MOST_RANKS:
        raise InputError(f"k = {k} is more than {_MOST_RANKS} layouts; give fewer")
    spec: Any = sweep.spec
    conditions = conditions_of(spec["scenario"], where, with_chance=True)
    read = dict.fromkeys([of, *also, *(name for each in conditions for name in each.outputs)])
    # what is unknown is refused before a search names its own axes
    if of not in sweep.with_outputs([*read])._plan("numpy").layout_dependent:
        raise InputError(f"{of} does not depend on the layout; seek {ALWAYS[0]}, with {of} in also")
    if phases.names(spec["scenario"]):
        first = phases.names(spec["scenario"])[0]
        raise InputError(
            "phases have layouts of their own: `fleetcube plan` and `Sweep.best` find all; ask "
            f"here for one: phase={first!r}"
        )
    axes = make_axes(sweep.graph, spec["axes"])
    points = math.prod(axis.size for axis in axes.values())
    if points > MOST_POINTS:
        raise InputError(
            f"the axes have {points:,} points, each with an answer of its own; at most "
            f"{MOST_POINTS} are answered: name fewer"
        )
    # what is tried depends on labels and on the tokens of a rank: each is searched by itself
    labelled = {
        name: axis
        for name, axis in axes.items()
        if axis.size > 1 and (axis.records or "sequence_length" in axis.inputs)
    }
    plain = {name: axis for name, axis in axes.items() if name not in labelled}
    plain_axes = {name: spec["axes"][name] for name in plain}
    parts = [
        sweep.replace(
            scenario={**spec["scenario"], **values_along(labelled.values(), place)}, axes=plain_axes
        )
        for place in itertools.product(*(range(axis.size) for axis in labelled.values()))
    ]
    rows = [candidates(part, of, search, alone=not labelled) for part in parts]
    names = [*dict.fromkeys(name for tried in rows for name in tried)]
    answers = []
    for part, tried in zip(parts, rows, strict=True):
        best, near, reasons, limits = _tried(part, of, sign, plain, tried, conditions, k, settings)
        about = part, of, also, conditions, plain, tried, names
        limits |= _missing(_answers(*about, near, reasons)) if (near >= 0).any() else {}
        answers.append(_answers(*about, best, reasons).assign(limits))
    whole = _together(answers, labelled, sweep, of) if labelled else answers[0]
    whole.attrs.update(noted(assumed_at_best(whole, sweep, of, (of, sense))))
    return _with_front(whole, axes) if points > 1 else whole


def _missing(other: Result) -> dict[str, Any]:
    """Plans that miss the conditions least, by names of their outputs in an answer."""
    names = [name for name in other.data_vars if RANK in other[name].dims]
    return {f"{NEAREST}{name}": other[name].isel({RANK: 0}) for name in names}


def assumed_at_best(whole: Result, sweep: Evaluation, of: str, order: tuple[str, str]) -> list[str]:
    """What the best layout rests on at the point that is first by a goal, a line each."""
    best = whole.isel({RANK: 0})
    axes = make_axes(sweep.graph, sweep.spec["axes"])
    if not (answered := best[of].notnull().values).any():
        return []
    ranked = sign_of(order[1]) * along(best[order[0]], best[of].dims)
    ranked = np.where(answered, np.broadcast_to(ranked, answered.shape), np.inf)
    first = np.lexsort((best[of].values.ravel(), ranked.ravel()))[0]
    indices = np.unravel_index(first, answered.shape)
    place = dict(zip(best[of].dims, map(int, indices), strict=True))
    scenario = point(sweep, place) | inputs_of(best.isel(place))
    return lines(scenario, [of, MEMORY[0]], OPEN, axes)


def _together(
    parts: list[Result], labelled: Mapping[str, Axis], sweep: Evaluation, of: str
) -> Result:
    """The answers of each label as one result."""
    import xarray

    tried = max(part.attrs["fleetcube_tried"] for part in parts)
    remark_lines = "\n".join(str(part.attrs.get(REMARKS, "")) for part in parts).splitlines()
    bare = [part.drop_vars([n for n in part.coords if n not in part.dims]) for part in parts]
    joined = [part.to_xarray() for part in bare]
    for axis in reversed([*labelled.values()]):
        labels = xarray.Variable(axis.name, axis.labels)
        rows = [joined[k : k + axis.size] for k in range(0, len(joined), axis.size)]
        joined = [xarray.concat(row, labels, combine_attrs="override") for row in rows]
    priced = [of, *(name for name in (MONEY,) if name in parts[0] and name != of)]
    remark_lines += shared_prices(sweep.with_outputs(priced)._plan("numpy"))
    plan, axes = sweep.with_outputs([of])._plan("numpy"), make_axes(sweep.graph, sweep.spec["axes"])
    remark_lines += [note for note in plan.problem.notes.values() if note == SEQUENCES_KEPT]
    coords = coordinates(plan, axes)
    point_coords = {n: row for n, row in coords.items() if n not in joined[0].data_vars}
    attrs = {**origin(plan, sweep._spec_of([of])), "fleetcube_tried": tried}
    attrs[REMARKS] = "\n".join(filter(None, dict.fromkeys(remark_lines)))
    whole = joined[0].assign_coords(point_coords).transpose(*axes, ...).assign_attrs(attrs)
    return in_memory(whole)


def _with_front(layouts: Result, axes: Mapping[str, Axis]) -> Result:
    """Mark answers that no other of the same work beats in job time and cost: GPU hours, where no
    price is known."""
    rank, reason = layouts.isel({RANK: 0}), layouts[REASON]
    names = [ALWAYS[0], MONEY if MONEY in layouts else "gpu_hours"]
    pairs = np.stack([np.ravel(rank.get(name, reason * np.nan)) for name in names], axis=1)
    several = [k for k, dim in enumerate(reason.dims) if axes[dim].size > 1]
    work = [k for k in several if {*axes[reason.dims[k]].inputs} & _WORK]
    done = np.indices(reason.shape).reshape(reason.ndim, -1).T[:, work]
    rows = zip(pairs, (done == same for same in done), strict=True)
    beaten = [
        ((pairs <= pair).all(1) & (pairs < pair).any(1) & same.all(1)).any() for pair, same in rows
    ]
    front = (np.isfinite(pairs).all(axis=1) & ~np.array(beaten)).reshape(reason.shape)
    other = "".join(f" of this {reason.dims[k]}" for k in work)
    about = {"units": "1", "long_name": f"no other{other} has less {' and '.join(names)}"}
    return layouts.assign({FRONT: (reason.dims, front, about)})


def by_phase(
    sweep: Kind, of: str, sense: str, search: Search
) -> tuple[dict[str, Result | None], Kind]:
    """The best layout of each phase, None if nothing is open; and the job in them."""
    spec: Any = sweep.spec
    names = phases.names(spec["scenario"])
    if not names:
        raise InputError("the job has no phases")
    if check_quantity(sweep.graph, of) not in SUMS:
        raise InputError(
            f"{of} does not add up over phases, whose layouts are best one by one; ask for "
            f"{ALWAYS[0]}, or for one phase: phase={names[0]!r}"
        )
    if spec["axes"]:
        raise InputError(
            f"phases are planned at one point; give one value of {', '.join(spec['axes'])}"
        )
    shared, tables = phases.split_phases(spec["scenario"])
    answers: dict[str, Result | None] = {}
    answered = []
    for name, table in zip(names, tables, strict=True):
        one = Evaluation(phases.single_phase(spec["scenario"], name), {}, [of])
        answers[name] = answer = (
            best_layouts(one, of, sense, search, (), (), 1, Settings())
            if candidates(one, of, search)
            else None
        )
        if answer is None:
            answered.append(table)
            continue
        if answer[REASON].item():
            raise InputError(
                f"phase {name!r}: no layout can run ({answer.attrs['fleetcube_infeasible']}); give "
                "it more GPUs, or state less"
            )
        answered.append({**table, **inputs_of(answer)})
    job = with_phase_tables(shared, answered)
    evaluable = _outputs(Evaluation(phases.single_phase(job, names[0]), {}, [of]), of)
    of_jobs = SUMS | MEANS.keys() | LARGEST
    return answers, sweep.replace(scenario=job, outputs=[n for n in evaluable if n in of_jobs])


def candidates(
    sweep: Evaluation, of: str, search: Search, alone: bool = True
) -> dict[str, list[Any]]:
    """Values to try of each open input: those that the spec leaves unset, or the inputs named.
    Raises InputError for chips that are no slice, unless other points have answers."""
    spec: Any = sweep.spec
    stated = _stated(spec)
    plan = sweep.with_outputs([of])._plan("numpy")
    facts = _Facts(plan)
    if alone and facts.most(_TORUS) < 1:  # at no point
        raise InputError(f"{plan.problem.notes[_TORUS]}; give {_GPUS} such a number")
    layout = [name for name in OPEN if name not in stated]
    named = [search] if isinstance(search, str) else search
    names = [n for name in named for n in (layout if name == LAYOUT else [name])]
    lists: dict[str, list[Any]] = {}
    for name in dict.fromkeys(names):
        if name in stated:
            raise InputError(f"{name} is stated by the spec; leave it out there, or here")
        row = _candidates(name, facts)
        if name in _OF_REPLICA:  # others do not divide the cluster
            row = [k for k in row if facts.divides(_GPUS, k)]
        if name not in _CHOICES and values.is_option(
            plan.graph, name
        ):  # a precision needs its peak
            row = [k for k in row if is_known({**spec["scenario"], name: k}, spec["axes"], [of])]
        row = framework.supported_values(plan.problem.records, name, row, facts.divides_all)
        if len(row) > 1:
            lists[name] = row
    framework.with_stages(plan.problem.records, lists, spec["scenario"])
    return lists


def layout_at(point: Evaluation, names: Sequence[str] = OPEN) -> dict[str, Any]:
    """The values of a layout's inputs at a point."""
    problem, numbers = frozen(point._plan("numpy"))
    scenario_values = {**numbers, **problem.options}
    scenario_values[patterns.RECOMPUTED] = patterns.policy(scenario_values)
    return {name: scenario_values.get(name, INPUTS[name].default) for name in names}


def stated_and_free(
    sweep: Kind, of: str, sense: str, where: Sequence[str]
) -> tuple[dict[str, Any], Result, Result]:
    """The layout that a spec of one point states, its values, and the best layout instead."""
    scenario = point(sweep)
    conditions = conditions_of(scenario, where, with_chance=True)
    outputs = dict.fromkeys([*_outputs(sweep, of), *(n for c in conditions for n in c.outputs)])
    stated = Evaluation(scenario, {}, [*outputs])
    values = interval(stated, None, Settings("numpy")).assign(chances(scenario, conditions))
    values.attrs.update(noted(lines(scenario, [of, MEMORY[0]], OPEN)))
    best = best_layouts(freed(scenario, of), of, sense, LAYOUT, where, (), 1, Settings())
    return layout_at(stated), values, best


def freed(scenario: Mapping[str, Any], of: str) -> Evaluation:
    """A scenario without what it states of the layout."""
    return Evaluation(without_layout(scenario), {}, [of])


def without_layout(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs that a scenario states and `plan` does not search."""
    return {name: value for name, value in scenario.items() if name not in OPEN}


def unsearched(scenario: Mapping[str, Any], of: str) -> dict[str, Any]:
    """What a scenario states of the layout, at what it is where `freed` leaves it one value."""
    return layout_at(freed(scenario, of), [name for name in OPEN if name in scenario])


def _stated(spec: Mapping[str, Any]) -> set[str]:
    axes = make_axes(graph_of(spec["scenario"]), spec["axes"]).values()
    return {*spec["scenario"], *(name for axis in axes for name in axis.inputs)}


class _Facts:
    """The largest known values of a plan's inputs."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def _rows(self, name: str) -> list[Array]:
        return [case.leaves[name] for case in self._plan.cases if name in case.leaves]

    def most(self, name: str, unknown: float = 1.0) -> float:
        """The largest value at any point."""
        largest = [float(np.nanmax(row)) for row in self._rows(name) if not np.isnan(row).all()]
        return max(largest, default=unknown)

    def divides(self, name: str, divisor: float) -> bool:
        """Whether any value is a multiple of `divisor`, or none is known."""
        rows = self._rows(name)
        return not rows or any((row % divisor == 0).any() for row in rows)

    def divides_all(self, name: str, divisor: float) -> bool:
        """Whether all known values are multiples of `divisor`."""
        return all(((row % divisor == 0) | np.isnan(row)).all() for row in self._rows(name))

    def options(self, name: str) -> set[Any]:
        """Choices of an option at any point, implied ones included."""
        return {case.options.get(name) for case in self._plan.cases}


def _candidates(name: str, facts: _Facts) -> list[Any]:
    """Values to try of an input. Raises InputError for one without candidates."""
    gpus, layers = facts.most("n_gpus"), facts.most("layers", _MOST_STAGES)
    if name in _CHOICES:
        return [*_CHOICES[name]]
    if name == patterns.RECOMPUTED:
        words = _RECOMPUTED[False]
        for option in ("mixture_of_experts", "latent_attention"):
            words = _RECOMPUTED[option] + words if True in facts.options(option) else words
        return [False, "selective", *dict.fromkeys(words), "full"]
    if name == "tensor_parallel":
        joined = facts.most("gpus_per_node", 8.0)
        if True in facts.options("scale_up_domain"):
            joined = max(joined, facts.most("gpus_per_domain", joined))
        return _powers(min(joined, facts.most("attention_heads", joined), gpus))
    if name == "pipeline_parallel":
        most = min(_MOST_STAGES, layers, gpus)
        return sorted({*_powers(most), *_divisors(layers, most)})
    if name == "virtual_stages":
        return sorted({*_powers(_MOST_CHUNKS), *_divisors(layers, _MOST_CHUNKS), 3.0, 5.0, 6.0})
    if name == "context_parallel":
        return _powers(min(facts.most("sequence_length") / _SHORTEST, gpus))
    if name == "expert_parallel":
        routed = True in facts.options("mixture_of_experts")
        return _powers(min(facts.most("experts"), gpus, _MOST_EXPERT_RANKS)) if routed else [1.0]
    if name == "micro_batch_size":
        return _powers(min(_MOST_MICRO_BATCH, facts.most("global_batch_size")))
    if values.is_option(PHYSICS, name):
        return [*INPUTS[name].choices]
    if name in INPUTS:
        raise InputError(f"no values of {name} are known to try; make it an axis: {name}=a,b")
    raise InputError(f"{shown(name)} is not an input; {nearest(str(name), [*INPUTS])}")


def _powers(most: float) -> list[float]:
    return [2.0**k for k in range(math.floor(math.log2(max(1.0, most))) + 1)]


def _divisors(number: float, most: float) -> list[float]:
    return [float(k) for k in range(1, int(min(number, most)) + 1) if number % k == 0]


def fewest_tokens(layout: Mapping[str, Any]) -> float:
    """The shortest sequence with which a layout is tried."""
    ranks = float(layout.get("context_parallel", 1.0))
    return _SHORTEST * ranks if ranks > 1 else 0.0


SHORT = {
    "tensor_parallel": "TP",
    "pipeline_parallel": "PP",
    "virtual_stages": "VPP",
    "context_parallel": "CP",
    "expert_parallel": "EP",
    "micro_batch_size": "MBS",
    "zero_stage": "ZeRO-",
}
SPELLED = (*SHORT, "sequence_parallel")  # what a page has in words


def text(layout: Mapping[str, Any]) -> str:
    """A layout in short field notation: TP8 PP16 VPP4 MBS1 ZeRO-1 SP; degrees of 1 are omitted."""
    parts = []
    for name, value in layout.items():
        if name in ("zero_stage", "micro_batch_size"):
            parts.append(f"{SHORT[name]}{float(value):g}")
        elif name in SHORT:
            parts += [f"{SHORT[name]}{value:g}"] if value > 1 else []
        elif name == "sequence_parallel":
            parts += ["SP"] if value in (True, "true") else []
        elif label(value) != "false" or INPUTS[name].default is True:
            parts.append(f"{name}={value}")
    return " ".join(parts)


def _tried(
    sweep: Evaluation,
    of: str,
    sign: float,
    axes: Mapping[str, Axis],
    tried: Mapping[str, Sequence[Any]],
    conditions: Sequence[Target],
    top: int,
    settings: Settings,
) -> tuple[Array, Array, Array, dict[str, Any]]:
    """Indices of the best layouts at each point, -1 where there are fewer, and without one of that
    which misses the conditions least; all reasons; memory."""
    _check_count(tried, points := math.prod(axis.size for axis in axes.values()))
    read = dict.fromkeys([of, *(name for each in conditions for name in each.outputs)])
    sure = {} if HEADROOM in axes or not tried else {HEADROOM: True, **sweep.spec["scenario"]}
    both = {**axes, **{n: [*row] for n, row in tried.items()}}
    grid = sweep.replace(scenario=sure or None, axes=both, outputs=[*read])
    # compiling every combination of choices takes longer than NumPy does for all that are allowed
    how = replace(settings, engine="numpy") if settings.engine == "auto" else settings
    how = replace(how, infeasible="include")
    cube = grid._result(how)
    sizes = {axis.name: axis.size for axis in axes.values()} | {n: len(r) for n, r in tried.items()}

    def spread(variable: Any) -> Array:
        return np.broadcast_to(along(variable, sizes), tuple(sizes.values())).reshape(points, -1)

    value, reason = spread(cube[of]), spread(cube[REASON])
    outs = {name: spread(cube[name]) for name in read}
    shape, limits, excess = [axis.size for axis in axes.values()], {}, np.zeros_like(value)
    for each in conditions:
        way = sign_of("min" if each.relation == "<=" else "max")
        worst = way * outs[each.of]
        if each.chance == each.chance:
            ends = [spread(end._result(how)[each.of]) for end in _ends(grid, each)]
            worst = np.maximum(*(way * end for end in ends))
        value = np.where(met(each, {**outs, each.of: way * worst}), value, np.nan)
        level = way * (outs[each.level] if isinstance(each.level, str) else each.level)
        excess = np.maximum(excess, (worst - level) / np.where(level == 0, 1, np.abs(level)))
        runs = (reason == 0) & np.isfinite(worst)
        closest = way * np.fmin.reduce(worst, axis=1, where=runs, initial=np.nan).reshape(shape)
        about = {**cube[each.of].attrs, "long_name": f"{each.of} of the layout nearest to {each}"}
        limits[f"{CLOSEST}{each.of}"] = tuple(axes), closest, about
    best, full = np.full((points, top), -1, np.int64), _code(cube[REASON].attrs, _NO_MEMORY)
    unlimited, margin = np.full((2, points), np.nan)
    for k, row in enumerate(value):
        best[k] = _distinct(sign * np.where(reason[k] == 0, row, np.nan), top)
        unlimited[k] = sign * np.fmin.reduce(
            sign * row, where=(reason[k] == 0) | (reason[k] == full), initial=np.nan
        )
    none = best[:, 0] < 0
    near, miss = _least(excess, (reason == 0) & none[:, None] & bool(conditions))
    about = {"units": "1", "long_name": "share of a condition's bound that no layout keeps to"}
    limits |= {MISS: (tuple(axes), miss.reshape(shape), about)} if conditions else {}
    if (reason[none] == full).any():
        free = spread(grid.with_outputs([_MARGIN])._result(how)[_MARGIN])
        for k in np.flatnonzero(none).tolist():
            margin[k] = np.fmax.reduce(free[k], where=reason[k] == full, initial=np.nan)
    about = {**cube[of].attrs, "long_name": f"best {of} if memory were no limit"}
    limits["without_memory_limit"] = tuple(axes), unlimited.reshape(shape), about
    about = {"units": "1", "long_name": f"largest {_MARGIN} where no layout can run"}
    limits["nearest_memory_margin"] = tuple(axes), margin.reshape(shape), about
    return best, near[:, None], reason, limits


def _least(excess: Array, runs: Array) -> tuple[Array, Array]:
    """Indices of the layouts that run and exceed their limits least, and by how much; -1 and NaN
    where none runs."""
    excess = np.where(runs & np.isfinite(excess), excess, np.inf)
    some = np.isfinite(excess).any(axis=1)
    least = np.where(some, excess.min(axis=1), np.nan)
    return np.where(some, excess.argmin(axis=1), -1), least


def _ends(grid: Evaluation, condition: Target) -> list[Evaluation]:
    """The grid at both ends of the chance with which a condition must hold."""
    alone, scenario = grid.with_outputs([condition.of]), grid.spec["scenario"]
    places = ends_of_chance(alone._plan("numpy"), condition)
    return [alone.replace(scenario={**scenario, **place}) for place in places]


def _check_count(tried: Mapping[str, Sequence[Any]], points: int) -> None:
    count = math.prod(map(len, tried.values()))
    if points * count > MOST:
        lists = ", ".join(f"{name} {len(row)}" for name, row in tried.items())
        raise InputError(
            f"{count:,} layouts ({lists}) at {points:,} points are more than {MOST:,}; state some "
            "of these inputs"
        )


def _code(attrs: Mapping[str, Any], meaning: str) -> Any:
    """The number that stands for a reason."""
    names = str(attrs["flag_meanings"]).split()
    return np.atleast_1d(attrs["flag_values"])[names.index(meaning)]


def _distinct(row: Array, top: int) -> Array:
    """Indices of the smallest distinct numbers, the first of equal ones; -1 for none."""
    indices = np.full(top, -1, np.int64)
    left = np.where(np.isnan(row), np.inf, row)
    for k in range(top):
        least = left.min()
        if not math.isfinite(least):
            break
        same = left <= least + SAME * abs(least)
        indices[k] = same.argmax()
        left = np.where(same, np.inf, left)
    return indices


def _answers(
    sweep: Evaluation,
    of: str,
    also: Sequence[str],
    conditions: Sequence[Target],
    axes: Mapping[str, Axis],
    tried: Mapping[str, Sequence[Any]],
    names: Sequence[str],
    best: Array,
    reasons: Array,
) -> Result:
    """Each answer evaluated as a separate sweep, with intervals; `names` are searched anywhere."""
    spec: Any = sweep.spec
    sizes = [axis.size for axis in axes.values()]
    read = [*also, *(name for each in conditions for name in each.outputs)]
    outputs = list(dict.fromkeys([*_outputs(sweep, of), *read]))
    plan = sweep.with_outputs([of])._plan("numpy")
    layouts = [*itertools.product(*tried.values())]
    answers = {}
    for k, cell in enumerate(itertools.product(*map(range, sizes))):
        scenario = {**spec["scenario"], **values_along(axes.values(), cell)}
        for rank, index in enumerate(best[k].tolist()):
            if index >= 0:
                searched = dict(zip(tried, layouts[index], strict=True))
                sought = Evaluation({**scenario, **searched}, {}, outputs)
                answer = interval(sought, None, Settings("numpy", threads=1))
                answer = answer.assign(chances(sought.spec["scenario"], conditions))
                answers[k, rank] = {**layout_at(sought, [*OPEN, *names]), **searched}, answer
    dims, shape = (*axes, RANK), (*sizes, best.shape[1])
    cells = {place: layout for place, (layout, _) in answers.items()}
    columns = _layout_columns(cells, names, best.shape)
    columns |= _output_columns(
        {place: answer for place, (_, answer) in answers.items()},
        {of: attributes(plan, of)},
        best.shape,
    )
    variables: dict[str, Any] = {
        name: (dims, column.reshape(shape), about) for name, (column, about) in columns.items()
    }
    variables[REASON] = tuple(axes), _commonest(best, reasons, sizes), attributes(plan, REASON)
    feasible = (reasons == 0).sum(axis=1).reshape(sizes)
    variables["feasible_layouts"] = tuple(axes), feasible, {"units": "1"}
    return Result(
        variables,
        {**coordinates(plan, axes), RANK: np.arange(1, best.shape[1] + 1)},
        {
            **origin(plan, sweep._spec_of([of])),
            **uncounted(plan, names),
            "fleetcube_tried": reasons.shape[1],
            "fleetcube_open": " ".join(names),
            "fleetcube_infeasible": ", ".join(_counted(reasons, variables[REASON][2])),
        },
    )


def _layout_columns(
    layouts: Mapping[tuple[int, int], Mapping[str, Any]],
    names: Sequence[str],
    shape: tuple[int, ...],
) -> dict[str, tuple[Array, Mapping[str, Any]]]:
    """Layouts as text, and their inputs, by point and rank; attributes of each."""
    words = np.full(shape, "", object)
    for place, layout in layouts.items():
        words[place] = text(layout)
    about = {"long_name": "layout as evaluated, searched or stated", "units": "1"}
    columns: dict[str, tuple[Array, Mapping[str, Any]]] = {WHOLE: (words.astype(str), about)}
    for name in names:
        number = name in INPUTS and INPUTS[name].kind == "count"
        column = np.full(shape, np.nan) if number else np.full(shape, "", object)
        for place, layout in layouts.items():
            column[place] = layout[name] if number else label(layout[name])
        about = {"long_name": INPUTS[name].description, "units": INPUTS[name].unit}
        columns[name] = column if number else column.astype(str), about
    return columns


def _output_columns(
    answers: Mapping[tuple[int, int], Result],
    attrs: Mapping[str, Mapping[str, Any]],
    shape: tuple[int, ...],
) -> dict[str, tuple[Array, Mapping[str, Any]]]:
    """Outputs by point and rank, first those with attributes given; attributes of each."""
    columns: dict[str, tuple[Array, Mapping[str, Any]]] = {}
    for name in dict.fromkeys([*attrs, *(n for row in answers.values() for n in row.data_vars)]):
        column, about = np.full(shape, np.nan), attrs.get(name, {})
        for place, answer in answers.items():
            if name in answer:
                column[place], about = answer[name].item(), answer[name].attrs
        if "flag_values" in about:
            column = np.where(np.isnan(column), -1, column).astype(np.int8)
        columns[name] = column, about
    return columns


def _counted(reasons: Array, about: Mapping[str, Any]) -> list[str]:
    """Reasons why layouts cannot run, with counts, most frequent first."""
    codes, counts = np.unique(reasons[reasons != 0], return_counts=True)
    words = meanings(about, codes)
    return [f"{counts[k]:,} {words[k]}" for k in np.argsort(-counts, kind="stable")]


def searched(layouts: Any) -> str:
    """How many layouts were tried, and how many can run."""
    feasible = layouts["feasible_layouts"]
    ends = dict.fromkeys(f"{end.item():,}" for end in (feasible.min(), feasible.max()))
    count, each = layouts.attrs["fleetcube_tried"], " at each point" if feasible.ndim else ""
    most = "up to " if each and count > 1 else ""
    tried = f"{most}{count:,} layout{'s' if count > 1 else ''}{each}"
    return f"tried {tried}; {' to '.join(ends)} can run"


def check_finite(layouts: Result, of: str) -> None:
    """Refuse a goal without a best: infinite in each layout that can run."""
    if (count := int(layouts["feasible_layouts"].sum())) and not layouts[of].notnull().any():
        raise InputError(
            f"{of} is infinite in all {count:,} layouts that can run, as where failures leave no "
            "time for work (see goodput); change the scenario, or seek what is finite: step_time"
        )


def _commonest(best: Array, reasons: Array, sizes: Sequence[int]) -> Array:
    """0 where any layout can run, else the reason that most candidates fail by."""
    commonest = [
        0 if ranks[0] >= 0 or (row == 0).any() else int(np.bincount(np.maximum(row, 0)).argmax())
        for ranks, row in zip(best, reasons, strict=True)
    ]
    return np.array(commonest, np.int8).reshape(sizes)


def _outputs(sweep: Evaluation, of: str) -> list[str]:
    """Outputs of an answer: the one optimised, and those of the others that are known."""
    spec: Any = sweep.spec
    more = [n for n in (*WHERE_KNOWN, NEAR) if is_known(spec["scenario"], spec["axes"], [n])]
    return list(dict.fromkeys([of, *ALWAYS, *more]))


def inputs_of(layouts: Any) -> dict[str, Any]:
    """What was searched, at one answer, as a scenario writes it."""
    return {n: written_value(n, layouts[n].item()) for n in layouts.attrs["fleetcube_open"].split()}


def in_command(value: Any) -> str:
    """A value in a command: whole numbers without a decimal point."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else label(value)


def written_value(name: str, stated: Any) -> Any:
    """A value of an open input as a spec writes it."""
    if not values.is_option(PHYSICS, name):
        return float(stated)
    return patterns.choice(name, stated)
