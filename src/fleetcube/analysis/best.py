"""Find the best points of a grid, the best layouts, or the best values in ranges."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleetcube.grid.errors import InputError, check_count, check_texts, shown
from fleetcube.grid.plan.labels import coordinates, origin
from fleetcube.grid.result import Result, in_memory
from fleetcube.grid.run import stream
from fleetcube.grid.run.evaluation import Evaluation, is_known
from fleetcube.grid.run.settings import Settings
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import NEAR
from fleetcube.scenario import phases

from .layouts import ALWAYS, best_layouts, by_phase
from .nearest import NEAREST, nearest_of_grid, nearest_of_points, nearest_of_ranges
from .optimize import NONE_RUNS, optimize
from .pareto import pareto, sign_of
from .targets import Kind, Names, check_trains, judged, narrowed, with_headroom, with_memory_margin
from .top import RANK, top
from .winners import winners

Search = Names | Mapping[str, Sequence[Any]]


def best(
    sweep: Kind,
    outputs: str | Sequence[str] | None,
    k: int | None,
    sense: str | Sequence[str],
    over: Names | None,
    search: Search | None,
    where: Names | None,
    also: Names | None,
    settings: Settings,
) -> Result:
    """See `Sweep.best`."""
    k = None if k is None else check_count("k", k)
    over = None if over is None else [*dict.fromkeys(check_texts("over", over))]
    where, also = check_texts("where", where), check_texts("also", also)
    if search is None:
        answer = _best_on_grid(sweep, outputs, k, sense, over, where, also, settings)
        first, way = (row if isinstance(row, str) else row[0] for row in (outputs or "", sense))
        if settings._answers_run and not answer[first].notnull().any():
            answer.attrs[NEAREST] = nearest_of_grid(sweep, first, way, bool(where))
        return answer
    if not isinstance(search, Mapping):
        search = check_texts("search", search)
    if not search:
        raise InputError("search is empty; name inputs, or {input: [first, last]}")
    outputs = ALWAYS[0] if outputs is None else outputs
    if not settings._answers_run and not isinstance(search, Mapping):
        raise InputError("a layout that cannot run is never the best; leave infeasible out")
    if not isinstance(outputs, str) or not isinstance(sense, str):
        raise InputError("a front is searched over axes alone; leave search out, or name one of")
    if isinstance(search, Mapping):
        if k is not None:
            raise InputError(f"k = {k}: a search of ranges has one answer; leave k out")
        sure = with_headroom(sweep, search) if settings._answers_run else sweep
        spec = sure._spec_of([outputs])
        answer = optimize(spec, outputs, sense, search, where, also, over or (), settings)
        if settings._answers_run and (answer["optimum_status"] == NONE_RUNS).all():
            answer.attrs[NEAREST] = nearest_of_ranges(sure, outputs, search)
        return answer
    if over:
        raise InputError("over is for axes; layouts are searched at each point: leave it out")
    check_trains(sweep, "a search of layouts", "; give ranges, search={input: [first, last]}")
    if not phases.names(sweep.spec["scenario"]):
        answer = best_layouts(sweep, outputs, sense, search, where, also, k or 1, settings)
        if answer[REASON].any():
            answer.attrs[NEAREST] = nearest_of_points(sweep, outputs, search, answer)
        return answer if k is not None else answer.isel({RANK: 0}).drop_vars(RANK)
    if k is not None or where or also:
        raise InputError("each phase has one best layout; leave out k, where and also")
    return _phase_layouts(by_phase(sweep, outputs, sense, search)[0])


def _phase_layouts(layouts: Mapping[str, Result | None]) -> Result:
    """The layouts of phases along `phase`; phases that leave nothing open have none."""
    import xarray

    some = {n: one.isel({RANK: 0}).drop_vars(RANK) for n, one in layouts.items() if one is not None}
    rows = [one.to_xarray() for one in some.values()]
    together = xarray.concat(rows, "phase", combine_attrs="drop_conflicts")
    return in_memory(together.assign_coords(phase=[*some]))


def _best_on_grid(
    sweep: Evaluation,
    outputs: str | Sequence[str] | None,
    k: int | None,
    sense: str | Sequence[str],
    over: Sequence[str] | None,
    where: Sequence[str],
    also: Sequence[str],
    settings: Settings,
) -> Result:
    """The best points, or the fronts, over axes."""
    if outputs is None:
        raise InputError("of is missing; name an output, or search='layout'")
    names = check_texts("of", outputs)
    spec: Any = sweep.spec
    if settings.infeasible is None and is_known(spec["scenario"], spec["axes"], [REASON]):
        settings = replace(settings, infeasible="exclude")
    if settings._mask:
        searched = {n: row for n, row in spec["axes"].items() if over is None or n in over}
        sweep = with_headroom(sweep, searched)
    asked = [*names, *also]
    moved, conditions = judged(sweep, asked, where, settings, settings._answers_run)
    # no name depends on the layout, so that infeasible points are left out by their reason
    masks_by_reason = settings._mask and not {*names} & {
        *moved._plan(settings.engine, True).layout_dependent
    }
    some = narrowed(moved, over) if settings._mask else moved
    if not isinstance(outputs, str):
        if also:
            raise InputError(
                f"also = {shown(also)} is for one output; add it to of, or leave it out"
            )
        with stream.mapping(some, settings) as (plan, map_):
            senses = [sense] * len(names) if isinstance(sense, str) else sense
            return pareto(
                plan,
                moved.spec,
                names,
                senses,
                over,
                map_,
                conditions if conditions or masks_by_reason else None,
                k,
            )
    sign = sign_of(sense)
    if k is None and not conditions and not masks_by_reason and some is moved:
        near = with_memory_margin(moved)
        with stream.mapping(near, settings) as (plan, map_):
            winner = _winner(near, plan, outputs, str(sense), over, map_, settings)
        if not (sign * winner[outputs] == math.inf).any():  # no cell has only the worst there is
            return winner
    with stream.mapping(some, settings) as (plan, map_):
        cores = settings._cores
        ranked = top(plan, moved.spec, outputs, k or 1, str(sense), over, conditions, map_, cores)
    return ranked if k is not None else ranked.isel({RANK: 0}).drop_vars(RANK)


def _winner(
    sweep: Evaluation,
    plan: Any,
    output: str,
    sense: str,
    over: Sequence[str] | None,
    map_: stream.Map,
    settings: Settings,
) -> Result:
    """The best point of each cell of the remaining axes, searched if bounds allow."""
    axes = stream.check_over(plan, over)
    name = stream.check_output(plan, output)
    variables, labels = winners(plan, sense, name, axes, map_, settings._cores)
    remaining = {dim for dims, *_ in [*variables.values(), *labels.values()] for dim in dims}
    reduction = f"{sense} {output} over {', '.join(axes)}"
    attrs = {**origin(plan, sweep.spec), "fleetcube_reduction": reduction}
    if NEAR in variables:
        labels[NEAR] = variables.pop(NEAR)
    return Result(variables, coordinates(plan, remaining) | labels, attrs)
