"""Find where adding GPUs stops helping, and why, over cluster sizes that double each time.

n GPUs that take a time T spend n T of GPU time, attributed to losses. Doubling the GPUs halves the
time only if total GPU time stays constant; its growth is attributed to each loss. If the batch
grows, losses are compared per token, and the extra tokens are attributed to the batch.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fleetcube.grid.errors import InputError, shown
from fleetcube.grid.plan.labels import REMARKS
from fleetcube.grid.reduce.filtered import met
from fleetcube.grid.result import Variable
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Engine, Settings
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axes import make_axes
from fleetcube.grid.spec.axis import Array
from fleetcube.grid.spec.graphs import graph_of
from fleetcube.grid.spec.problem import resolve
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import HEADROOM, NEAR
from fleetcube.scenario import phases
from fleetcube.scenario.along_axes import values_at
from fleetcube.tables.tables import meanings, numbers, scale

from .extrapolation import with_remarks
from .gradient import uncounted
from .interval import SIDES, end_of
from .layouts import WHOLE, best_layouts, candidates, check_finite, inputs_of
from .ratio import between, side
from .targets import Names, Target, conditions_of, whole_unit

if TYPE_CHECKING:
    import xarray

MOST = 2.0**20  # GPUs, unless a range is given
HELPS = 1.9  # a doubling with a smaller speed-up counts as limited
TRIED = 4096  # sizes tried: all that can run if they are fewer, else around the best one
TIMED = {  # losses of GPU time besides the GPUs' own work: their shares of the wall time
    "network": ("communication_overhead",),
    "bubble": ("bubble_overhead",),
    "stragglers": ("straggler_overhead",),
    "failures": ("checkpoint_overhead", "rework_overhead", "recovery_overhead"),
}
LOST = ("batch", "compute", *TIMED, "transitions")
SIZE, TIME = "n_gpus", "job_time"
CLUSTER = "cluster"  # an axis along which more than the size varies
_BATCH, _COST = "global_batch_size", "job_cost"
_DEFAULT = Settings()
_TOKENS, _WALL, _REPLICAS = "tokens_to_target", "sync_wall_gpus", "data_parallel"
_SHARES = ("compute_inefficiency_overhead", *(name for names in TIMED.values() for name in names))
_READY = "transition_share"
_NEEDED = (TIME, "gpu_hours", "availability", _READY, *_SHARES)
_REASONS = {  # by the limit that they belong to; any other belongs to the layout
    "batch_smaller_than_data_parallel": "batch",
    "batch_not_divisible": "batch",
    "fewer_microbatches_than_stages": "batch",
    "microbatch_group_does_not_fit": "batch",
    "dual_pipeline_does_not_fit": "batch",
    "makes_no_progress": "failures",
}


def wall(
    spec: Mapping[str, Any],
    between: Sequence[Any] | None = None,
    batch_grows: bool = False,
    where: Names = (),
    day_price: Any = None,
    settings: Settings = _DEFAULT,
    search: Names = (),
) -> "xarray.Dataset":
    """What each doubling of a cluster brings, and its limits; see `Sweep.scaling_limit`."""
    scenario, axes = _one_point(spec)
    phased = bool(phases.names(scenario))
    batch = _batch(scenario, phased) if batch_grows else None
    limits = conditions_of(scenario, where)
    price = None if day_price is None else _positive(_COST, day_price)
    sizes, step, last = _sizes(scenario, axes, between)
    outputs = _outputs(scenario, axes, limits, price is not None)
    open_ = Evaluation(scenario, {**axes, CLUSTER: _axis(sizes, None)}, [TIME])
    best_at = _planned(open_, search)
    scenario = {HEADROOM: True, **scenario} if best_at else scenario  # as the search does
    able = np.empty(0) if best_at else _able(scenario, axes, sizes[0], step, last, settings)
    curve = _scan(scenario, axes, sizes, outputs, settings.engine, None, best_at)
    runs = _runs(curve, settings)
    if between is None and able.size and not runs.any():  # no doubling of one replica runs
        sizes = able[0] * 2.0 ** np.arange(math.floor(math.log2(MOST / able[0])) + 1)
        curve = _scan(scenario, axes, sizes, outputs, settings.engine)
        runs = _runs(curve, settings)
    if between is None and runs.any():
        sizes = sizes[runs.argmax() :]
        curve = curve.isel({SIZE: slice(int(runs.argmax()), None)})
    if batch is not None:
        best_at = _planned(open_.replace(axes={**axes, CLUSTER: _axis(sizes, batch)}), search)
        curve = _scan(scenario, axes, sizes, outputs, settings.engine, batch, best_at)
    runs = _checked_runs(curve, settings)
    times = np.where(runs, curve[TIME].values, np.nan)
    allowed = runs & _keeps(curve, limits)
    least, best = int(np.nanargmin(times)), int(np.where(allowed, times, np.inf).argmin())
    at_best = {**scenario, **(best_at[float(sizes[best])][1] if best_at else {})}
    if best_at and batch is None:
        start, step, last = _sizes(at_best, axes, between)
        able = _able(at_best, axes, start[0], step, last, settings)
    tried = able
    if batch is not None or able.size > TRIED:
        if not allowed.any():
            raise InputError(_nearest_size(curve, runs, limits))
        tried = _sizes_near(able, sizes[best])
    if between is None:  # one more size shows that the job gets slower, or why it cannot run
        curve, times = curve.isel({SIZE: slice(0, least + 2)}), times[: least + 2]
        # Drop remarks about sizes that are not shown
        few = curve[SIZE].values
        curve.attrs = _scan(scenario, axes, few, outputs, settings.engine, batch, best_at).attrs
    curve = _doubled(curve, times)
    if batch is None and not phased:
        curve = curve.assign(_gain_ends(curve, scenario, axes, best_at))
    curve = curve.set_coords(NEAR) if NEAR in curve else curve
    if batch is None:
        curve = _fastest(curve, at_best, axes, tried, settings, limits)
    curve = _with_limits(curve, limits, price)
    if batch is None:
        return curve
    return curve.assign(fastest_gpus=sizes[best], fastest_time=((), times[best], {"units": "s"}))


def _outputs(
    scenario: Mapping[str, Any],
    axes: Mapping[str, Any],
    conditions: Sequence[Target],
    priced: bool,
) -> list[str]:
    """Outputs along the sizes."""
    one_size, phased = {**axes, SIZE: [MOST]}, phases.names(scenario)
    priced = priced or is_known(scenario, one_size, [_COST])
    near = not phased and is_known(scenario, one_size, [NEAR])
    names = [*_NEEDED, *([] if phased else [_TOKENS])]
    names += [name for each in conditions for name in each.outputs]
    names += [*([_COST] if priced else []), *([NEAR] if near else [])]
    return list(dict.fromkeys(names))


def _checked_runs(curve: "xarray.Dataset", settings: Settings) -> Array:
    """Which sizes run. Raises InputError if none does."""
    runs = _runs(curve, settings)
    if not runs.any():
        sizes = curve[SIZE].values
        raise InputError(
            f"none of {SIZE} = {sizes[0]:,.0f} to {sizes[-1]:,.0f}, each twice the one before, can "
            f"be run ({_reason(curve, 0)} at the first, {_reason(curve, -1)} at the last); change "
            "the layout, the batch or the range"
        )
    return runs


def _sizes_near(able: Array, best: float) -> Array:
    """Sizes that can run between half and twice the best one, thinned out."""
    near = able[(able >= best / 2) & (able <= 2 * best)]
    return np.union1d(near[:: math.ceil(near.size / TRIED) or 1], best)


def _with_limits(
    curve: "xarray.Dataset", conditions: Sequence[Target], price: float | None
) -> "xarray.Dataset":
    """Add the size from which each limit binds, and why."""
    ends = _ended(curve, conditions, price) | _lost(curve)  # slowing limits before ending ones
    names = [*LOST, "layout", *(each.of for each in conditions), *(["price"] if price else [])]
    bound = [ends.get(name, (np.nan, "")) for name in names]
    return curve.assign_coords(limit=names).assign(
        binds_from=("limit", [size for size, _ in bound], {"units": "1"}),
        why=("limit", [why for _, why in bound]),
    )


def _one_point(spec: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A scenario and its axes, each of one value. Raises InputError."""
    scenario = dict(spec["scenario"])
    axes = {name: axis for name, axis in spec["axes"].items() if name != SIZE}
    for name, axis in make_axes(graph_of(spec["scenario"]), axes).items():
        if axis.size > 1:
            raise InputError(f"{name} has several values; give one ({name}=value)")
    if SIZE in phases.stated_names(scenario):
        first = phases.names(scenario)[0]
        raise InputError(f"phases set {SIZE}, which is sought; ask for one: phase={first!r}")
    return scenario, axes


def _batch(scenario: Mapping[str, Any], phased: bool) -> float:
    if phased:
        raise InputError(
            "the batch of a job in phases does not grow with its GPUs; ask for a phase"
        )
    if _BATCH not in scenario:
        raise InputError(f"the scenario has no {_BATCH} to grow; state that of the first size")
    return values.number(PHYSICS, _BATCH, scenario[_BATCH])


def _positive(name: str, given: Any) -> float:
    limit = values.number(PHYSICS, name, given)
    if not 0 < limit < math.inf:
        raise InputError(f"a limit of {shown(given)} on {name} is not above 0 and finite; give one")
    return limit


def _sizes(
    scenario: Mapping[str, Any], axes: Mapping[str, Any], between: Sequence[Any] | None
) -> tuple[Array, int, float]:
    """Sizes of whole replicas, each twice the previous one, the step between all, and the most."""
    phase_names = phases.names(scenario)
    phase_axis = {phases.NAME: phase_names} if phase_names else {}
    replicas = Evaluation(scenario, {**axes, **phase_axis, SIZE: [MOST]}, [_REPLICAS]).evaluate(
        settings=Settings("numpy")
    )
    counts = replicas[_REPLICAS].values.ravel()
    if not (counts >= 1).all():
        raise InputError(f"one replica takes more than {MOST:,.0f} GPUs; make its groups smaller")
    node = whole_unit(resolve(scenario, {**axes, SIZE: [MOST]}), SIZE)
    step = math.lcm(node, *(round(MOST / count) for count in counts.tolist()))
    if between is not None and (isinstance(between, str) or len(between) != 2):
        raise InputError(f"between = {shown(between)} is not a range; give [first, last]")
    first, last = (
        (step, MOST) if between is None else (values.number(PHYSICS, SIZE, v) for v in between)
    )
    start = math.ceil(max(first, 1) / step) * step
    if not start <= last < math.inf:
        raise InputError(
            f"{SIZE} from {first:,.10g} to {last:,.10g} holds no multiple of {step:,} GPUs, whole "
            "replicas and nodes; give another range"
        )
    return start * 2.0 ** np.arange(math.floor(math.log2(last / start)) + 1), step, last


def _able(
    scenario: Mapping[str, Any],
    axes: Mapping[str, Any],
    first: float,
    step: int,
    last: float,
    settings: Settings,
) -> Array:
    """All sizes of whole replicas that can run, up to a number of them."""
    every = first + step * np.arange(min((last - first) // step + 1, MOST))
    curve = _scan(scenario, axes, every, [REASON], settings.engine)
    return np.asarray(every[_runs(curve, settings)])


def _planned(sweep: Evaluation, search: Names) -> dict[float, tuple[str, dict[str, Any]]]:
    """By size, the fastest layout in words and as inputs, of what a scenario leaves open. Where
    none can run, that of the size before is tried. Empty if nothing is searched."""
    if not search or phases.names(sweep.spec["scenario"]) or not candidates(sweep, TIME, search):
        return {}
    layouts = best_layouts(sweep, TIME, "min", search, (), (), 1, Settings())
    check_finite(layouts, TIME)
    layouts = layouts.isel({dim: 0 for dim in layouts.dims if dim != CLUSTER})
    sizes = [layouts.isel({CLUSTER: k}) for k in range(layouts.sizes[CLUSTER])]
    layout = next((inputs_of(row) for row in sizes if row[WHOLE].item()), {})
    best_at = {}
    for row in sizes if layout else []:
        layout = inputs_of(row) if row[WHOLE].item() else layout
        best_at[float(row[SIZE])] = str(row[WHOLE].item()) or "-", layout
    return best_at


def _axis(
    sizes: Array, batch: float | None, layouts: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Sizes as an axis, with the batch that grows with them and the layout of each."""
    grown = {} if batch is None else {_BATCH: batch * sizes / sizes[0]}
    columns = {name: [row[name] for row in layouts] for name in (layouts[0] if layouts else ())}
    return {"labels": [f"{size:.0f}" for size in sizes], SIZE: sizes, **grown, **columns}


def _scan(
    scenario: Mapping[str, Any],
    axes: Mapping[str, Any],
    sizes: Array,
    outputs: Sequence[str],
    engine: Engine,
    batch: float | None = None,
    best_at: Mapping[float, tuple[str, dict[str, Any]]] | None = None,
) -> "xarray.Dataset":
    """Outputs along the sizes; the batch is constant, or grows from that of the first size."""
    axis: Any = sizes
    name = SIZE if batch is None and not best_at else CLUSTER
    rows = [best_at[float(size)] for size in sizes] if best_at else []
    if name == CLUSTER:
        axis = _axis(sizes, batch, [layout for _, layout in rows])
    sweep = Evaluation(scenario, {**axes, name: axis}, outputs)
    curve = sweep.evaluate(settings=Settings(engine))
    curve = curve.isel({dim: 0 for dim in curve.dims if dim != name})
    if name == SIZE:
        return curve
    curve = curve.assign_coords({SIZE: curve[SIZE].astype(np.int64)})
    curve = curve.swap_dims({name: SIZE}).drop_vars(name)
    if batch is not None:
        curve.attrs |= uncounted(sweep._plan(engine), [_BATCH])
        curve = curve.reset_coords(_BATCH)
    return curve.assign(layout=(SIZE, [words for words, _ in rows])) if rows else curve


def _doubled(curve: "xarray.Dataset", times: Array) -> "xarray.Dataset":
    """Add each size's speed-up, the gain of doubling, and the GPU time that each loss added."""
    sizes = curve[SIZE].values
    if not np.isfinite(times).any():
        raise InputError(
            f"job_time is without end at each of {sizes.size} sizes from {sizes[0]:,.0f} GPUs on: "
            "failures leave no progress; name longer times between them, or faster checkpoints"
        )
    spent = sizes * times
    tokens = np.broadcast_to(curve[_TOKENS].values if _TOKENS in curve else 1.0, spent.shape)
    available = np.broadcast_to(curve["availability"].values, spent.shape)
    on = {
        limit: spent * available * sum(curve[name].values for name in names)
        for limit, names in TIMED.items()
    }
    on["transitions"] = spent * np.broadcast_to(curve[_READY].values, spent.shape)
    waits = spent * (1 - available) - on["transitions"]  # for a complete cluster
    on["failures"] = on["failures"] + waits
    on["compute"] = spent - sum(on.values())
    lost = np.full((sizes.size, len(LOST)), np.nan)
    for k, limit in enumerate(LOST):
        if limit == "batch":
            lost[1:, k] = (1 - tokens[:-1] / tokens[1:]) * spent[1:] / spent[:-1]
        else:
            each = on[limit] / tokens
            lost[1:, k] = tokens[:-1] * np.diff(each) / spent[:-1]
    gains = np.concatenate([[np.nan], times[:-1] / times[1:]])
    about = {"units": "1", "long_name": "GPU time that a doubling adds, of that before"}
    ratio = {"units": "1"}
    first_time = times[np.isfinite(times)][0]
    return curve.assign_coords(loss=list(LOST)).assign(
        speedup=(SIZE, first_time / times, {**ratio, "long_name": "over the first size"}),
        doubling_gain=(SIZE, gains, {**ratio, "long_name": "what doubling to this size brought"}),
        lost=((SIZE, "loss"), lost, about),
        most_lost_to=(SIZE, _largest(lost)),
    )


def _gain_ends(
    curve: "xarray.Dataset",
    scenario: Mapping[str, Any],
    axes: Mapping[str, Any],
    best_at: Mapping[float, tuple[str, dict[str, Any]]] | None,
) -> dict[str, Any]:
    """Ends of the 90 % interval of what each doubling brought, where the ratio's is known."""
    stated = dict(scenario)
    for axis in make_axes(PHYSICS, axes).values():
        stated |= values_at(axis, 0)
    name = "doubling_gain"
    gains = Variable(curve[name].dims, curve[name].values, curve[name].attrs)
    runs = np.isfinite(curve[TIME].values)
    sides = [
        side({**stated, **(best_at[n][1] if best_at else {}), SIZE: n}, [TIME])
        if feasible
        else None
        for n, feasible in zip(curve[SIZE].values.tolist(), runs, strict=True)
    ]
    ratios = [None, *(between(a, b).get(TIME) for a, b in itertools.pairwise(sides))]
    pair = [
        gains.copy([1 / (p.high if upper else p.low) if p else np.nan for p in ratios])
        for upper in (True, False)
    ]
    ends = [end_of(name, gains, pair, k, end) for k, end in enumerate(SIDES)]
    rows = zip(SIDES, ends, strict=True)
    return {f"{name}_{end}": variable.parts for end, variable in rows}


def _largest(lost: Array) -> list[str]:
    most = np.where(np.isnan(lost), -np.inf, lost).argmax(axis=1)
    return [
        LOST[k] if row.sum() > 0 else "-" for k, row in zip(most, np.nan_to_num(lost), strict=True)
    ]


def _lost(curve: "xarray.Dataset") -> dict[str, tuple[float, str]]:
    """Losses that bind, from where and why: each took most of a doubling that gained too little."""
    limits: dict[str, tuple[float, str]] = {}
    for k in np.flatnonzero(curve["doubling_gain"].values < HELPS).tolist():
        name = str(curve["most_lost_to"].values[k])
        row = curve["lost"].values[k]
        part = row[LOST.index(name)] / row.sum()
        gain = float(curve["doubling_gain"][k])
        why = f"doubling gave {gain:.2f} x the speed; {part:.0%} of the shortfall"
        limits.setdefault(name, (float(curve[SIZE][k]), why))
    return limits


def _ended(
    curve: "xarray.Dataset", conditions: Sequence[Target], price: float | None
) -> dict[str, tuple[float, str]]:
    """Limits that end the growth: from which size they bind, and why."""
    limits: dict[str, tuple[float, str]] = {}
    runs = curve[REASON].values == 0
    last = int(np.flatnonzero(runs)[-1])
    if last + 1 < runs.size and curve.get("fastest_gpus", 0) < curve[SIZE][last + 1]:
        reason = _reason(curve, last + 1)
        limits[_REASONS.get(reason, "layout")] = float(curve[SIZE][last + 1]), reason
    for each in conditions:
        allowed = _keeps(curve, [each])
        before = np.cumsum(allowed & runs) > 0  # growth ends what smaller sizes keep to
        for k in np.flatnonzero(runs & ~allowed & (before | (~(allowed & runs).any())))[:1]:
            limits[each.of] = float(curve[SIZE][k]), f"{each.of} is {_shown(curve, each.of, k)}"
    if price is not None:
        costs, times = (np.where(runs, curve[name].values, np.nan) for name in (_COST, TIME))
        dearer, days = np.diff(costs), -np.diff(times) / 86400
        for k in np.flatnonzero(dearer > price * days)[:1]:
            why = (
                f"a day saved costs {dearer[k] / days[k]:,.4g} USD"
                if days[k] > 0
                else "no day saved"
            )
            limits["price"] = float(curve[SIZE][k + 1]), why
    return limits


def _runs(curve: "xarray.Dataset", settings: Settings) -> Array:
    return np.asarray((curve[REASON].values == 0) | (not settings._answers_run))


def _keeps(curve: "xarray.Dataset", conditions: Sequence[Target]) -> Array:
    """Which sizes keep to all conditions."""
    outs = {name: curve[name].values for each in conditions for name in each.outputs}
    allowed = np.ones(curve[SIZE].size, bool)
    for each in conditions:
        allowed &= met(each, outs)
    return allowed


def _nearest_size(curve: "xarray.Dataset", runs: Array, conditions: Sequence[Target]) -> str:
    """That no size keeps to conditions, and how near they come to each."""
    parts = []
    for each in conditions:
        sign = 1.0 if each.relation == "<=" else -1.0
        k = int(np.nanargmin(np.where(runs, sign * curve[each.of].values, np.nan)))
        most = "least" if sign > 0 else "greatest"
        size = f"{curve[SIZE].values[k]:,.0f} GPUs"
        parts.append(f"the {most} {each.of} is {_shown(curve, each.of, k)}, at {size}")
    return (
        f"no size that can run keeps to {' and '.join(map(str, conditions))}: {', '.join(parts)}; "
        "change a condition"
    )


def _shown(curve: "xarray.Dataset", name: str, k: int) -> str:
    value = float(np.broadcast_to(curve[name].values, curve[SIZE].shape)[k])
    factor, unit = scale(str(curve[name].attrs["units"]), [value], name)
    return f"{numbers([value / factor])[0]} {unit}".rstrip()


def _reason(curve: "xarray.Dataset", k: int) -> str:
    return meanings(curve[REASON].attrs, curve[REASON].values[[k]])[0]


def _fastest(
    curve: "xarray.Dataset",
    scenario: Mapping[str, Any],
    axes: Mapping[str, Any],
    tried: Array,
    settings: Settings,
    conditions: Sequence[Target],
) -> "xarray.Dataset":
    """Add the fastest of some sizes."""
    around = {**axes, SIZE: tried}
    outputs = [TIME, *([_WALL] if is_known(scenario, around, [_WALL]) else [])]
    outputs = list(dict.fromkeys([*outputs, *(n for each in conditions for n in each.outputs)]))
    near = _scan(scenario, axes, tried, outputs, settings.engine)
    runs = _runs(near, settings)
    allowed = runs & _keeps(near, conditions)
    if not allowed.any():
        raise InputError(_nearest_size(near, runs, conditions))
    times = np.where(allowed, near[TIME].values, np.inf)
    fastest = near.isel({SIZE: int(times.argmin())})
    if _WALL in fastest:
        curve = curve.assign({_WALL: fastest[_WALL].variable})
        size = tried[[int(times.argmin())]]
        before, after = (
            _scan(scenario, axes, size, [name], settings.engine).attrs.get(REMARKS, "").splitlines()
            for name in (TIME, _WALL)
        )
        more = [line for line in after if line not in before]  # of the closed form alone
        curve.attrs = with_remarks(curve.attrs, more)
    return curve.assign(
        fastest_gpus=((), float(fastest[SIZE]), {"units": "1"}),
        fastest_time=((), float(fastest[TIME]), {"units": "s"}),
    )
