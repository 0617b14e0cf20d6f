"""The best points of a grid, the best layouts, the best values in ranges: one question."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ...kernels.roles import NEAR, REASON
from ..errors import InputError, shown
from ..plan.labels import coordinates, root_attributes
from ..reduce.pareto import check_k, pareto
from ..reduce.top import top
from ..reduce.winners import winners
from ..run import stream
from ..run.evaluation import Evaluation, is_known
from ..run.settings import Settings
from ..spec import phases
from .layouts import ALWAYS, RANK, best_layouts, by_phase
from .optimize import optimize
from .solve.solve import Target, read_condition

if TYPE_CHECKING:
    import xarray

Kind = TypeVar("Kind", bound=Evaluation)
Search = str | Sequence[str] | Mapping[str, Sequence[Any]]


def best(
    sweep: Kind,
    of: str | Sequence[str] | None,
    k: int | None,
    sense: str | Sequence[str],
    over: str | Sequence[str] | None,
    search: Search | None,
    where: str | Sequence[str],
    also: str | Sequence[str],
    settings: Settings,
) -> "xarray.Dataset":
    """The best there is; see `Sweep.best`."""
    if k is not None:
        check_k(k)
    over, where, also = (listed(row) for row in (over, where, also))
    if search is None:
        return _of_grid(sweep, of, k, sense, over, where, also, settings)
    of = ALWAYS[0] if of is None else of
    if settings.infeasible == "include" and not isinstance(search, Mapping):
        raise InputError("a layout that cannot run is never the best; leave infeasible out")
    if not isinstance(of, str) or not isinstance(sense, str):
        raise InputError("a front is searched over axes alone; leave search out, or name one of")
    if isinstance(search, Mapping):
        if k is not None:
            raise InputError(f"k = {k}: a search of ranges has one answer; leave k out")
        return optimize(sweep._spec_of([of]), of, sense, search, where, also, over or (), settings)
    if over:
        raise InputError("over is for axes; layouts are searched at each point: leave it out")
    if not phases.names(sweep.spec["scenario"]):
        found = best_layouts(sweep, of, sense, search, where, also, k or 1, settings)
        return found if k is not None else found.isel({RANK: 0}).drop_vars(RANK)
    if k is not None or where or also:
        raise InputError("each phase has one best layout; leave out k, where and also")
    return _of_phases(by_phase(sweep, of, sense, search)[0])


def _of_phases(found: "Mapping[str, xarray.Dataset | None]") -> "xarray.Dataset":
    """The layouts of phases along `phase`; those that leave nothing open have none."""
    import xarray

    some = {n: own.isel({RANK: 0}).drop_vars(RANK) for n, own in found.items() if own is not None}
    together = xarray.concat([*some.values()], "phase", combine_attrs="drop_conflicts")
    return together.assign_coords(phase=[*some])


def _of_grid(
    sweep: Evaluation,
    of: str | Sequence[str] | None,
    k: int | None,
    sense: str | Sequence[str],
    over: Sequence[str] | None,
    where: Sequence[str],
    also: Sequence[str],
    settings: Settings,
) -> "xarray.Dataset":
    """The best points, or the fronts, over axes."""
    if of is None:
        raise InputError("of is missing; name an output, or search='layout'")
    names = [of] if isinstance(of, str) else [*of]
    spec: Any = sweep.spec
    if settings.infeasible is None and is_known(spec["scenario"], spec["axes"], [REASON]):
        settings = replace(settings, infeasible="exclude")
    moved, conditions = judged(sweep, [*names, *also], where, settings)
    if not isinstance(of, str):
        if also:
            raise InputError(
                f"also = {shown(also)} is for one output; add it to of, or leave it out"
            )
        known = moved._plan("numpy", True).layout_dependent if settings._mask else names
        apart = not {*names} & {*known}  # of the layout: what cannot run is left out by its reason
        with stream.mapping(moved, settings) as (plan, map_):
            senses = [sense] * len(names) if isinstance(sense, str) else sense
            return pareto(
                plan,
                moved.spec,
                names,
                senses,
                over,
                map_,
                conditions if where or apart else None,
                k,
            )
    if sense not in ("min", "max"):
        raise InputError(f"sense = {shown(sense)} is unknown; choose min or max")
    everywhere = settings._mask and of not in moved._plan("numpy", True).layout_dependent
    if k is not None or where or everywhere:  # a condition, or the layout of other outputs, counts
        with stream.mapping(moved, settings) as (plan, map_):
            ranked = top(plan, moved.spec, of, k or 1, sense, over, conditions, map_)
        return ranked if k is not None else ranked.isel({RANK: 0}).drop_vars(RANK)
    moved = moved._with_memory_margin
    with stream.mapping(moved, settings) as (plan, map_):
        return _winner(moved, plan, of, sense, over, map_, settings)


def _winner(
    sweep: Evaluation,
    plan: Any,
    of: str,
    sense: str,
    over: Sequence[str] | None,
    map_: stream.Map,
    settings: Settings,
) -> "xarray.Dataset":
    """The best point of each cell of the axes that stay, searched where bounds allow."""
    import xarray

    axes = stream.check_over(plan, over)
    name = stream.check_output(plan, of)
    variables, labels = winners(plan, sense, name, axes, map_, settings._cores)
    remaining = {dim for dims, *_ in [*variables.values(), *labels.values()] for dim in dims}
    said = f"{sense} {of} over {', '.join(axes)}"
    attrs = {**root_attributes(plan, sweep.spec), "fleetcube_reduction": said}
    found = xarray.Dataset(variables, coordinates(plan, remaining) | labels, attrs)
    return found.set_coords(NEAR) if NEAR in found else found


def listed(row: Any) -> Any:
    """One name or condition as a list of them."""
    return [row] if isinstance(row, str) else row


def judged(
    sweep: Kind, names: Sequence[str], where: str | Sequence[str], settings: Settings
) -> tuple[Kind, list[Target]]:
    """A sweep of some outputs, those of conditions, and reasons if these are known."""
    conditions = [read_condition("where", text) for text in listed(where)]
    read = [*names, *(name for each in conditions for name in each.outputs)]
    if settings._mask and is_known(sweep.spec["scenario"], sweep.spec["axes"], [REASON]):
        read.append(REASON)
    return sweep.with_outputs(list(dict.fromkeys(read))), conditions
