"""The command `fleetcube plan`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands import complete
from fleetcube.commands.changed import changed_spec
from fleetcube.commands.points import check_answered, goal
from fleetcube.commands.progress import progress
from fleetcube.commands.say import say, say_each, say_json, say_wrapped
from fleetcube.commands.table import print_foot, print_table, with_unit

if TYPE_CHECKING:
    from datetime import date

    import xarray

    from fleetcube.formats.field_table import Job

_LEVERS = 5
_MOST_TRIED = 64  # layouts, for one that a framework can write
_MEMORY = ("memory_margin", "memory_per_gpu")
_TIMES = ("job_time", "job_time_low", "job_time_high")


@click.command()
@complete.spec_and_selectors
@click.option("--of", default="job_time", help='Goal: "min NAME" or "max NAME".  [job_time]')
@click.option(
    "--search",
    default="layout",
    help="Inputs to search: layout,precision.  [layout: those that the spec does not give]",
)
@click.option("--where", multiple=True, help='Condition: "job_time <= 60 d".')
@click.option("--start", help="Start date, to print the end date.  [start_date]")
@click.option("-k", default=3, help="Best layouts to list; of several points in files.  [3]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in base units.")
@click.option(
    "--as",
    "framework",
    shell_complete=complete.frameworks,
    help="Print the best layout in words of: megatron-lm, torchtitan, ...",
)
@click.option("-o", "--output", type=click.Path(), help="Write an interactive report (.html).")
def plan(
    spec: str,
    selectors: tuple[str, ...],
    of: str,
    search: str,
    where: tuple[str, ...],
    start: str | None,
    k: int,
    as_json: bool,
    framework: str | None,
    output: str | None,
) -> None:
    """Find the best layout at every point of a spec, and what to expect of it.

    What the spec does not give of the layout is searched: tensor, pipeline, context and expert
    parallelism, virtual stages, micro-batches, ZeRO, recompute, sequence parallelism. What it
    gives stays. SELECTORS change the spec: name=value, or name=value,value for several points,
    each planned by itself: one table, the best first, in which * marks the front of cost and time.

    \b
    Example:
      fleetcube plan examples/plan.toml
      fleetcube plan examples/plan.toml n_gpus=4096,8192,16384 -o plan.html
    """
    from fleetcube.analysis.layouts import (
        LAYOUT,
        candidates,
        check_finite,
        point,
        searched,
        unsearched,
        without_layout,
    )
    from fleetcube.formats.write import writer_of
    from fleetcube.grid.errors import InputError
    from fleetcube.presentation.page.page import check_target, write
    from fleetcube.presentation.page.report import Question, report
    from fleetcube.scenario import phases
    from fleetcube.scenario.dates import NAME, start_of
    from fleetcube.sweep import Sweep

    if output is not None:
        check_target(output)
    of, sense = goal(of)
    problem = changed_spec(spec, selectors)
    if framework is not None:
        framework = writer_of(framework).NAME
    options = {n: v for n, v in {NAME: start, "software": framework}.items() if v is not None}
    problem["scenario"] |= options
    stays = [w for w in selectors if w.split("=")[0] not in {*problem["axes"], *options}]
    stays += [f"{name}={value}" for name, value in options.items()]
    since = start_of(problem["scenario"])
    sweep = Sweep(problem["scenario"], problem["axes"], [of])
    names = search.split(",")
    if sweep.points > 1 and not as_json and output is None and k > 0:
        k = 1  # no more are shown
    if phases.names(problem["scenario"]):
        if where:
            raise InputError("--where is not for jobs in phases; leave it out")
        _plan_phases(sweep, of, sense, names, as_json, output, spec, stays)
        return
    stated = names == [LAYOUT] and sweep.points == 1 and not candidates(sweep, of, names)
    if stated and not as_json:
        best = _plan_stated(sweep, of, sense, where, since)
        if framework is not None:
            free = sweep.replace(scenario=without_layout(sweep.spec["scenario"]))
            kept = {**problem["scenario"], **unsearched(point(sweep), of)}
            more = partial(free.best, of, _MOST_TRIED, sense=sense, search=LAYOUT, where=where)
            _print_written(spec, kept, best, framework, of, more)
        if output is None:
            return
    with progress("planning"):
        found = sweep.best(of, k, sense=sense, search=names, where=where)
        if not as_json and not found[of].notnull().any():
            _check_reached(sweep, names, where)
            check_finite(found, of)
        said = searched(found)
        if output is not None:
            asked = Question(sweep, of, sense, names, where)
            write(report(asked, found, spec, given=stays), output)
    if as_json:
        say_json(found.to_dict())
        check_answered(found[of].notnull())
        return
    if not stated:
        if sweep.points == 1:
            _print_one(sweep, found, of, sense, since)
        else:
            _print_several(found, of, sense, where)
        _print_foot(found, said)
        if framework is not None:
            more = partial(sweep.best, of, _MOST_TRIED, sense=sense, search=names, where=where)
            _print_written(spec, problem["scenario"], found, framework, of, more)
    if output is not None:
        say(f"wrote {output}")
    check_answered(found[of].notnull())


def _print_written(
    path: str,
    scenario: Mapping[str, Any],
    found: "xarray.Dataset",
    framework: str,
    of: str,
    more: Callable[[], "xarray.Dataset"],
) -> None:
    """Print the best layout of one point in a framework's words: what changes of its own file, or
    all of it. The framework may have no words for the very best: then the next that it has."""
    from fleetcube.analysis.layouts import WHOLE, inputs_of
    from fleetcube.formats.read import job_at
    from fleetcube.grid.errors import InputError

    dims = [dim for dim in found["infeasible_reason"].dims if found.sizes[dim] > 1]
    if dims:
        raise InputError(f"--as writes one point, and there are several along {dims[0]}; name one")
    job = job_at(path)
    refused = ""
    for best in _running(found, of, more):
        try:
            lines = _written(job, {**scenario, **inputs_of(best)}, framework)
        except InputError as error:
            refused = refused or str(error)
            continue
        say("")
        if refused:
            value = with_unit(best[of].item(), best[of].attrs["units"], of)
            say_wrapped(f"{refused}; the best that it can: {best[WHOLE].item()}: {of} {value}")
        say_each(lines or [f"{path} has the best layout"], err=False)
        return
    if refused:
        raise InputError(refused)


def _running(
    found: "xarray.Dataset", of: str, more: Callable[[], "xarray.Dataset"]
) -> Iterator["xarray.Dataset"]:
    """The best layout that can run, then the next ones, searched where they are asked for."""
    yield from _ranked(found.isel(rank=[0]), of)
    yield from _ranked(more(), of)


def _ranked(found: "xarray.Dataset", of: str) -> Iterator["xarray.Dataset"]:
    rows = found.squeeze(list(found["infeasible_reason"].dims), drop=True)
    for rank in range(rows.sizes["rank"]):
        best = rows.isel(rank=rank)
        if best["infeasible_reason"].item() == 0 and best[of].notnull().item():
            yield best


def _written(job: "Job | None", scenario: Mapping[str, Any], framework: str) -> list[str]:
    """The lines of a scenario in a framework's words, or those that change in a file of its."""
    from fleetcube.formats.write import changed, export

    if job is None or job.table.software != framework:
        return export(scenario, framework).splitlines()
    lines = changed(job, scenario)
    return [f"changes of {job.path}:", *lines] if lines else []


def _check_reached(sweep: Any, search: list[str], where: Sequence[str]) -> None:
    """Refuse conditions that no layout meets, and say how near layouts come to each."""
    from fleetcube.analysis.targets import conditions_of
    from fleetcube.grid.errors import InputError
    from fleetcube.grid.reduce.kept import met

    parts = []
    for condition in conditions_of(sweep.spec["scenario"], where):
        of, sense = condition.of, "min" if condition.relation == "<=" else "max"
        alone = sweep.with_outputs(condition.outputs)
        moved = {*condition.outputs} & {*alone._plan("numpy").layout_dependent}
        found = sweep.best(of, 1, sense=sense, search=search) if moved else alone.evaluate()
        best = found[of]
        if not moved and met(condition, found).any():
            continue
        if best.notnull().any():  # else nothing can run, which is said as without conditions
            value = (best.min() if sense == "min" else best.max()).item()
            word = "least" if sense == "min" else "greatest"
            which = f"the {word} {of}" if moved or best.size > 1 else of
            said = f"{which} is {with_unit(value, best.attrs['units'], of)}"
            parts.append(said if moved else f"{said} in every layout")
    if parts:
        raise InputError(
            f"no layout keeps to {' and '.join(where)}: {', '.join(parts)}; change a condition"
        )


def _plan_stated(
    sweep: Any, of: str, sense: str, where: Sequence[str], since: "date | None"
) -> "xarray.Dataset":
    """Print what a layout that leaves nothing open gives, and what the best one would."""
    from fleetcube.analysis.assumed import ASSUMED
    from fleetcube.analysis.layouts import WHOLE, stated_and_free, text
    from fleetcube.tables.tables import meanings

    with progress("planning"):
        layout, values, best = stated_and_free(sweep, of, sense, where)
    say(f"stated layout: {text(layout)}")
    _print_values(values, since)
    say_wrapped(values.attrs[ASSUMED])
    reason = values["infeasible_reason"]
    if reason.item():
        say(f"cannot run: {meanings(reason.attrs, reason.values.reshape(1))[0]}")
    say("")
    _print_limits(values)
    now, then = values[of].item(), best[of].item()
    if then == then:
        attrs = values[of].attrs["units"]
        change = "" if reason.item() else f" ({then / now - 1:+.1%})"
        said = f"the best of {best.attrs['fleetcube_tried']:,} layouts: {best[WHOLE].values[0]}"
        say_wrapped(f"{said}: {of} {with_unit(then, attrs, of)}{change}")
    print_foot(values)
    check_answered((reason == 0) | best[of].notnull())
    return best


def _plan_phases(
    sweep: Any,
    of: str,
    sense: str,
    search: list[str],
    as_json: bool,
    output: str | None,
    spec: str,
    given: Sequence[str],
) -> None:
    """Plan a job in phases: each separately, then the whole."""
    from fleetcube.analysis.layouts import by_phase
    from fleetcube.presentation.page.page import page, write
    from fleetcube.scenario.dates import start_of

    with progress("planning"):
        found, job = by_phase(sweep, of, sense, search)
        if output is not None:
            title = f"Plan of {Path(spec).name}"
            write(page(job.spec, title, spec, given=given, verb="plan"), output)
    if as_json:
        say_json({name: own and own.to_dict() for name, own in found.items()})
        return
    _print_phases(found, job, of, sense, start_of(job.spec["scenario"]))
    if output is not None:
        say(f"wrote {output}")


def _print_phases(
    found: Mapping[str, Any], job: Any, of: str, sense: str, since: "date | None"
) -> None:
    """Print the best layout of each phase, its results, and the whole job."""
    from fleetcube.analysis.layouts import WHOLE
    from fleetcube.grid.run.settings import Settings
    from fleetcube.tables.tables import table

    rows = []
    for name, own in found.items():
        if own is None:
            rows.append([name, "as given", "-", "-"])
        else:
            counts = own.attrs["fleetcube_tried"], own["feasible_layouts"].item()
            rows.append([name, own[WHOLE].item(), *(f"{count:,}" for count in counts)])
    print_table(["phase", "best layout", "tried", "can run"], rows)
    say("")
    names = dict.fromkeys([of, "job_time", "mfu", "memory_per_gpu"])
    each = (
        job.with_outputs([*names])
        .replace(axes={"phase": [*found]})
        .prediction_interval(settings=Settings("numpy"))
    )
    shown = [name for name in (*names, f"{of}_low", f"{of}_high", *_TIMES) if name in each]
    print_table(*table(each[list(dict.fromkeys(shown))]))
    say("")
    whole = job.prediction_interval(settings=Settings("numpy"))
    _print_values(whole, since)
    _print_limits(whole)
    _print_levers(job, {}, of, sense)
    open_ = dict.fromkeys(n for own in found.values() if own for n in _open(own))
    said = f"{sense}imum {of} of each phase; searched: {', '.join(open_)}"
    changes = "; changing layout between phases takes the transition_time given"
    say_wrapped(said + changes * (len({row[1] for row in rows}) > 1))
    print_foot(whole, open_)


def _open(found: "xarray.Dataset") -> list[str]:
    return str(found.attrs["fleetcube_open"]).split()


def _print_one(
    sweep: Any, found: "xarray.Dataset", of: str, sense: str, since: "date | None"
) -> None:
    """Print the best layout of one point with its intervals, the next ones, losses and levers."""
    from fleetcube.analysis.assumed import ASSUMED
    from fleetcube.analysis.layouts import FELT, WHOLE
    from fleetcube.tables.tables import numbers, scale, table

    point = found.squeeze(list(found["infeasible_reason"].dims), drop=True)
    if point["infeasible_reason"].item():
        margin = point["nearest_memory_margin"].item()
        near = f"; the nearest takes {1 - margin:.3g} times a GPU's memory" if margin < 1 else ""
        near += ", which the error of the model exceeds" if margin >= 0 else ""
        say_wrapped(f"no layout can run: {found.attrs['fleetcube_infeasible']}{near}")
        say_wrapped(found.attrs.get("fleetcube_nearest", ""))
        return
    names = _open(found)
    there = point[of].notnull().values
    best = point.isel(rank=there)
    labels = best[WHOLE].values.tolist()
    told = [
        n for n, own in best.data_vars.items() if own.dims == ("rank",) and n not in (*names, WHOLE)
    ]
    first = best[told].isel(rank=0)
    say(f"best layout: {labels[0]}")
    _print_values(first, since)
    say_wrapped(found.attrs[ASSUMED])
    shown = list(dict.fromkeys([of, "job_time", "memory_per_gpu"]))
    if len(labels) > 1:
        say("")
        others = best[shown].isel(rank=slice(1, None)).assign_coords(rank=labels[1:])
        if chances := _chances(sweep, best, of, sense):
            others["better"] = "rank", chances
        print_table(*table(others.rename(rank="next layouts")))
    say("")
    _print_limits(first)
    free, now = point["without_memory_limit"].item(), best[of].values[0]
    if abs(free - now) > FELT * abs(now):
        factor, unit = scale(str(best[of].attrs["units"]), [now], of)
        shown_free = f"{numbers([free / factor])[0]} {unit}".rstrip()
        say(f"if memory were no limit: {of} {shown_free} ({free / now - 1:+.1%})")
    layout = {name: best[name].values[0] for name in names}
    _print_levers(sweep, layout, of, sense)


def _chances(sweep: Any, best: "xarray.Dataset", of: str, sense: str) -> list[str]:
    """How likely each of the next layouts is better than the first; empty where not known."""
    from fleetcube.analysis.layouts import inputs_of, point
    from fleetcube.analysis.ratio import between, side
    from fleetcube.tables.tables import chance

    at = point(sweep)
    layouts = [inputs_of(best.isel(rank=k)) for k in range(best.sizes["rank"])]
    first, *others = (side({**at, **layout}, [of]) for layout in layouts)
    found = [between(first, other).get(of) for other in others]
    known = [ratio for ratio in found if ratio is not None]
    if len(known) < len(others):
        return []
    return [chance(ratio.below if sense == "min" else 1 - ratio.below) for ratio in known]


def _print_values(one: "xarray.Dataset", since: "date | None") -> None:
    """Print a job's results with intervals, and its end date; losses are printed elsewhere."""
    from fleetcube.grid.plan.labels import END_OF
    from fleetcube.kernels.physics.roles import LOSSES
    from fleetcube.scenario.dates import end
    from fleetcube.tables.tables import INTERVAL, counted, estimate, memory_use, numbers, scale

    rows = []
    for name, value in one.data_vars.items():
        if name in (*LOSSES, "memory_margin") or value.attrs.keys() & {"flag_values", END_OF}:
            continue
        number = value.item()
        factor, unit = scale(str(value.attrs["units"]), [number], str(name))
        ends = [one.get(f"{name}_{side}", value).item() for side in ("low", "high")]
        told = [own / factor for own in (number, *ends)]
        heading = f"{name} [{unit}]" if unit else str(name) + counted(value.attrs)
        rows.append([heading, estimate(numbers(told[:1])[0], *told)])
    print_table(["", f"value {INTERVAL}"], rows)
    if used := memory_use(one):
        say_wrapped(f"memory of a GPU: {used}")
    if since is not None:
        days = [end(since, one[name].item()) for name in _TIMES if name in one]
        interval = f" (90 %: {' to '.join(days[1:])})" if days[1:] else ""
        say(f"started on {since} it ends on {days[0]}{interval}")


def _print_levers(sweep: Any, layout: dict[str, Any], of: str, sense: str) -> None:
    """Print what would improve the output most, and why more GPUs would not."""
    from fleetcube.analysis.layouts import levers

    better, no_lever = levers(sweep, layout, of, sense)
    if better:
        say(f"what would improve {of} in this layout:")
    say_wrapped(*(f"  {line}" for line in better[:_LEVERS]))
    say_wrapped(no_lever)


def _print_limits(best: "xarray.Dataset") -> None:
    """Print the three largest losses of the wall time."""
    from fleetcube.kernels.physics.roles import LOSSES

    known = [(best[name].item(), name) for name in LOSSES if name in best]
    largest = sorted((pair for pair in known if pair[0] >= 0.005), reverse=True)[:3]
    if largest:
        said = ", ".join(
            f"{name.removesuffix('_overhead').replace('_', ' ')} {share:.0%}"
            for share, name in largest
        )
        say_wrapped(f"the wall time goes to: {said}")


def _print_several(found: "xarray.Dataset", of: str, sense: str, where: Sequence[str]) -> None:
    """Print the best at each point, the best first, or why there is none, in one table."""
    import numpy as np

    from fleetcube.analysis.assumed import ASSUMED
    from fleetcube.analysis.layouts import FRONT, WHOLE
    from fleetcube.tables.tables import meanings, table

    best = found.isel(rank=0, drop=True)
    axes = [str(name) for name in best["infeasible_reason"].dims]
    rows = best.stack(row=axes).reset_index("row").reset_coords(axes)
    value = rows[of].values
    rows = rows.isel(row=np.argsort(-value if sense == "max" else value, kind="stable"))
    reasons = rows["infeasible_reason"]
    why = np.array(meanings(reasons.attrs, reasons.values), object)
    none = rows[of].isnull().values
    why[none & (why == "feasible")] = (
        f"none keeps to {' and '.join(where)}" if where else f"{of} is infinite"
    )
    rows["layout"] = "row", np.where(none, [f"- ({reason})" for reason in why], rows[WHOLE])
    rows["front"] = "row", np.where(rows[FRONT], "*", "")
    cost = "job_cost" if "job_cost" in best else "gpu_hours"
    ends = [f"{name}_{side}" for name in (of, "job_time") for side in ("low", "high")]
    names = [] if none.all() else [of, "job_time", cost, *ends, "front"]
    names = [name for name in dict.fromkeys([*axes, *names, "layout"]) if name in rows]
    print_table(*table(rows[names]))
    if not none.all():
        say_wrapped(f"*: {best[FRONT].attrs['long_name']}")
    say_wrapped(found.attrs[ASSUMED], found.attrs.get("fleetcube_nearest", ""))
    if f"{of}_low" in names:
        say("rows share model errors: differences between them are surer than the intervals")


def _print_foot(found: "xarray.Dataset", said: str) -> None:
    """Print what was searched, and remarks."""
    say(said)
    best = found.isel(rank=0)
    if "near_memory_limit" in best and (near := best["near_memory_limit"].values == 1).any():
        margin, need = min(zip(*(best[name].values[near] for name in _MEMORY), strict=True))
        sizes = f"{need / 1e9:.1f} GB needed, {need / (1 - margin) / 1e9:.1f} available"
        say(f"{sizes}: {'likely' if margin < 0 else 'possibly'} out of memory", err=True)
    print_foot(found, _open(found))
