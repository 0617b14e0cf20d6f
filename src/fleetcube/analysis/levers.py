"""What would improve an answer in its layout: inputs that one buys or sets, by effect."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.result import Result
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.grid.spec.axis import Axis
from fleetcube.kernels.calculus.phased_formulas import without_phase
from fleetcube.kernels.graph.formulas import Graph
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import MONEY, RUN_STEPS, STEPS
from fleetcube.scenario.along_axes import point
from fleetcube.tables.tables import meanings, numbers, scale

from .gradient import is_held
from .layouts import FELT, written_value
from .pareto import sign_of
from .sensitivity import BOUGHT, frozen, is_built, kind_of, rank_inputs
from .targets import whole_unit

((_GPUS, (_, _REPLICAS)),), (_BATCH,) = STEPS.items(), RUN_STEPS
_SPARES, _ELASTIC, _POOL, _OPEN = "spare_nodes", "elastic", "node_pool", "open"
_LEAST = 0.01  # relative change of an output that is worth another policy
_CLOSE = 0.1  # share by which a batch may change to divide over other GPUs


def levers(
    sweep: Evaluation, layout: Mapping[str, Any], of: str, sense: str
) -> tuple[list[str], str]:
    """Gains from changing the cluster or its operation at a layout, largest first. Model, workload,
    software and layout are excluded. With a price, each states its effect on the job's cost. Where
    failures wait, policies count: to shrink, or to keep nodes as spares. Also returns why more GPUs
    do not help, if so."""
    ranked = rank_inputs(sweep, of, None, layout)
    plan = sweep._plan("numpy")
    base, sign = ranked[of].item(), sign_of(sense)
    lines = {}
    for k, name in enumerate(ranked["input"].values.tolist()):
        lever = ranked.isel(input=k)
        sides = {
            end: sign * (lever[f"{of}_{end}"].item() - base)
            for end in ("below", "above")
            if math.isfinite(lever[f"value_{end}"].item() * lever[f"{of}_{end}"].item())
        }
        if not is_lever(sweep.graph, name) or not sides:
            continue
        end = min(sides, key=lambda side: sides[side])
        if sides[end] >= -FELT * abs(base):
            continue
        moved, now = lever[f"value_{end}"].item(), lever["value"].item()
        by = f"{moved / now - 1:+.0%}" if now else f"{now:g} -> {moved:g}"
        changes = [_change(lever, name, end) for name in (of, MONEY) if name in ranked]
        remark = " (as calibrated)" if is_held(plan, name) else ""
        lines[name] = sides[end], f"{name} {by}: {', '.join(dict.fromkeys(changes))}{remark}"
    if why := _no_lever(sweep, layout, of, sign, ranked):
        lines.pop(_GPUS, None)
    rows = _policies(_in_layout(sweep, layout), of, sign) if sweep.graph.application else ()
    return [line for _, line in sorted([*lines.values(), *rows])], why


def _in_layout(sweep: Evaluation, layout: Mapping[str, Any]) -> dict[str, Any]:
    return point(sweep) | {name: written_value(name, entry) for name, entry in layout.items()}


def _policies(scenario: Mapping[str, Any], of: str, sign: float) -> Iterator[tuple[float, str]]:
    """What a job that shrinks would gain, and one that keeps nodes of its own as spares."""
    problem, now = frozen(Evaluation(scenario, {}, [of])._plan("numpy"))
    if problem.phases:
        return
    if problem.options.get(_ELASTIC) is False:
        shrinking = Axis(_ELASTIC, np.arange(1), {}, {_ELASTIC: ("shrink",)})
        yield from _best_of(scenario, shrinking, ["elastic shrink"], of, sign)
    if problem.options.get(_POOL, _OPEN) == _OPEN or not {_GPUS, _BATCH} <= now.keys():
        return
    replicas = Evaluation(scenario, {}, [_REPLICAS])._result(Settings("numpy"))[_REPLICAS].item()
    replica, node = now[_GPUS] / replicas, whole_unit(problem, _GPUS)
    counts = now[_GPUS] - math.lcm(round(replica), node) * np.arange(1.0, replicas)
    counts = counts[counts >= now[_GPUS] / 2]
    slices = counts / replica * now["micro_batch_size"]
    slices *= now["pipeline_parallel"] if now.get("virtual_stages", 1.0) > 1 else 1.0
    batches = np.maximum(np.round(now[_BATCH] / slices), 1) * slices
    is_close = abs(batches / now[_BATCH] - 1) <= _CLOSE
    if not is_close.any():
        return
    counts, batches = counts[is_close], batches[is_close]
    spares = (now[_GPUS] - counts) / node
    columns = {_GPUS: counts, _SPARES: now.get(_SPARES, 0.0) + spares, _BATCH: batches}
    texts = [
        f"run on {count / node:,.0f} of the {now[_GPUS] / node:,.0f} nodes, {spare:,.0f} as spares"
        + f", with a batch of {batch:,.0f}" * bool(batch != now[_BATCH])
        for count, spare, batch in zip(counts, spares, batches, strict=True)
    ]
    yield from _best_of(scenario, Axis(_SPARES, counts, columns), texts, of, sign)


def _best_of(
    scenario: Mapping[str, Any], axis: Axis, texts: Sequence[str], of: str, sign: float
) -> Iterator[tuple[float, str]]:
    """The best point of an axis that can run, if it is worth a line."""
    outputs = [of, *(name for name in (MONEY,) if name != of and is_known(scenario, {}, [name]))]
    stated = {name: value for name, value in scenario.items() if name not in axis.inputs}
    now = Evaluation(scenario, {}, outputs)._result(Settings("numpy"))
    try:
        moved = Evaluation(stated, {axis.name: axis}, [*outputs, REASON])._result(Settings("numpy"))
    except InputError:  # not with other policies that are stated
        return
    rows = {n: np.broadcast_to(moved[n].values, axis.size) for n in (*outputs, REASON)}
    gains = sign * np.where(rows[REASON] == 0, rows[of] - now[of].item(), math.nan)
    if np.nanmin(gains, initial=0.0) >= -_LEAST * abs(now[of].item()):
        return
    k = int(np.nanargmin(gains))
    effects = ", ".join(_effect(now[name], name, float(rows[name][k])) for name in outputs)
    yield float(gains[k]), f"{texts[k]}: {effects}"


def is_lever(graph: Graph, name: str) -> bool:
    """Whether an input is what one buys or how one runs it, and not the job or its software."""
    plain = without_phase(name)
    return plain == _GPUS or (kind_of(graph, plain) in BOUGHT and not is_built(graph, plain))


def _change(lever: Result, name: str, end: str) -> str:
    return _effect(lever[name], name, lever[f"{name}_{end}"].item())


def _effect(before: Any, name: str, after: float) -> str:
    """The change of an output; what is left of it where that is less than a third."""
    change = after - (now := before.item())
    shown, sign = (after, "to ") if 0 < after < now / 3 else (change, "+" * (change > 0))
    factor, unit = scale(str(before.attrs["units"]), [shown], name)
    return f"{name} {sign}{numbers([shown / factor])[0]} {unit}".rstrip()


def _no_lever(
    sweep: Evaluation, layout: Mapping[str, Any], output: str, sign: float, best: Result
) -> str:
    """Why more GPUs would not improve an output; empty if they would, or are not an input."""
    inputs = best["input"].values.tolist()
    if _GPUS not in inputs:
        return ""
    lever = best.isel(input=inputs.index(_GPUS))
    now, above = lever["value"].item(), lever["value_above"].item()
    more = above if above > now else 2 * now
    enlarged = _in_layout(sweep, layout) | {_GPUS: more}
    if not is_known(enlarged, {}, [output]):  # a job of one node needs no network
        return f"more GPUs than {now:g} need a fabric"
    moved = Evaluation(enlarged, {}, [output, REASON])._result(Settings("numpy"))
    start = f"{_GPUS} {more / now - 1:+.0%}:"
    if moved[REASON].item():
        why = meanings(moved[REASON].attrs, moved[REASON].values.reshape(1))[0]
        change = "a larger batch or another layout" if "batch" in why else "another layout"
        return f"{more:,.0f} GPUs need {change} ({why}); plan {_GPUS}={more:.0f}"
    if sign * (moved[output].item() - lever[output].item()) >= -FELT * abs(lever[output].item()):
        return f"{start} not better in this layout ({_change(lever, output, 'above')})"
    return ""
