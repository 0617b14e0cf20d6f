"""`fleetcube plan`: the best layouts of a job, and what to expect of them."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed_spec
from fleetcube.commands.shared.points import check_answered, check_ends, goal
from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.say import say, say_each, say_json, say_wrapped
from fleetcube.commands.shared.table import print_foot, print_table, with_unit
from fleetcube.grid.errors import InputError
from fleetcube.kernels.physics.roles import LOSSES, MEMORY, TIME

if TYPE_CHECKING:
    from fleetcube.formats.field_table import Job
    from fleetcube.presentation.page.report import Question

_LEVERS = 5
_MOST_TRIED = 64  # layouts, for one that a framework can write
_MEMORY = ("memory_margin", "memory_per_gpu")
_TIMES = ("job_time", "job_time_low", "job_time_high")


@click.command()
@complete.spec_and_selectors
@click.option(
    "--of", "objective", default="job_time", help='Goal: "min NAME" or "max NAME".  [job_time]'
)
@click.option(
    "--search",
    default="layout",
    help="Inputs to search: layout,precision.  [layout: those that the spec does not give]",
)
@click.option("--where", multiple=True, help='Condition: "job_time <= 60 d".')
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
    objective: str,
    search: str,
    where: tuple[str, ...],
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
    With start_date=2027-01-31, the day on which the job ends is printed.

    \b
    Example:
      fleetcube plan examples/plan.toml
      fleetcube plan examples/plan.toml n_gpus=4096,8192,16384 -o plan.html
    """
    from fleetcube.analysis.layouts import LAYOUT, candidates
    from fleetcube.formats.write import writer_of
    from fleetcube.presentation.page.page import check_target
    from fleetcube.presentation.page.report import Question
    from fleetcube.scenario import phases
    from fleetcube.sweep import Printed

    if output is not None:
        check_target(output)
    order = objective, sense = goal(objective)
    problem = changed_spec(spec, selectors)
    replaced = {*problem["axes"], *(["software"] if framework else [])}
    given = [word for word in selectors if word.split("=")[0] not in replaced]
    if framework is not None:
        framework = problem["scenario"]["software"] = writer_of(framework).NAME
        given.append(f"software={framework}")
    also = _same_in_layouts(problem, objective)
    if also is not None:  # the fastest layout at each point
        objective, sense = "job_time", "min"
    sweep, names = Printed(problem["scenario"], problem["axes"], [objective]), search.split(",")
    question = Question(sweep, objective, sense, names, where, also or (), order)
    if phases.names(problem["scenario"]):
        return _plan_phases(question, as_json, output, spec, given)
    stated = names == [LAYOUT] and sweep.points == 1 and not candidates(sweep, objective, names)
    if stated and not as_json:
        _plan_stated(question, spec, framework)
        if output is None:
            return
    if sweep.points > 1 and not as_json and output is None and k > 0:
        k = 1  # no more are shown
    layouts = _search(question, k, as_json, output, spec, given)
    if as_json:
        say_json(layouts.to_dict())
    elif not stated:
        _print(question, layouts, spec, framework)
    if output is not None and not as_json:
        say(f"wrote {output}")
    check_answered(layouts[objective].notnull())
    if order == (TIME, "min"):
        check_ends(layouts)


def _same_in_layouts(problem: Mapping[str, Any], name: str) -> list[str] | None:
    """What an answer shows besides the fastest layout, for a goal that no layout moves: an input
    along an axis, or a quantity such as the parameters of a model; None for other goals."""
    from fleetcube.grid.run.evaluation import Evaluation
    from fleetcube.grid.spec.graphs import graph_of
    from fleetcube.grid.spec.values import is_known, is_option

    graph = graph_of(problem["scenario"])
    if name in problem["axes"] and is_known(graph, name) and not is_option(graph, name):
        return []
    if graph.get(name) is None and is_known(graph, name):
        raise InputError(f"--of {name}: an input has no best without values; give {name}=a,b,c")
    plan = Evaluation(problem["scenario"], problem["axes"], [name])._plan("numpy")
    return None if name in plan.layout_dependent else [name]


def _search(
    question: "Question",
    k: int,
    as_json: bool,
    output: str | None,
    spec: str,
    given: Sequence[str],
) -> Any:
    """The best layouts, and their report; refuses conditions that none meets, but in JSON."""
    from fleetcube.analysis.layouts import check_finite
    from fleetcube.presentation.page.page import write
    from fleetcube.presentation.page.report import report

    with progress("planning"):
        layouts = _best(question, k)
        if not as_json and not layouts[question.of].notnull().any():
            if near := _closest(question, layouts):
                bounds = " and ".join(question.where)
                _print_nearest(question, layouts)
                raise InputError(f"no layout keeps to {bounds}: {near}; change a condition")
            check_finite(layouts, question.of)
        if output is not None:
            write(report(question, layouts.to_xarray(), spec, given=given), output)
    return layouts


def _best(question: "Question", k: int) -> Any:
    sweep: Any = question.sweep
    how = {"sense": question.sense, "search": question.search, "where": question.where}
    return sweep.best(question.of, k, **how, also=question.also)


def _print(question: "Question", layouts: Any, spec: str, framework: str | None) -> None:
    """Print the best layouts, and that of one point in a framework's words."""
    if question.sweep.points == 1:
        _print_one(question, layouts)
    else:
        _print_several(question, layouts)
    _print_searched(layouts)
    if framework is not None:
        scenario: Any = question.sweep.spec["scenario"]
        _print_written(question, scenario, layouts, spec, framework)


def _print_written(
    question: "Question",
    scenario: Mapping[str, Any],
    layouts: Any,
    spec: str,
    framework: str,
) -> None:
    """Print the best layout of one point in a framework's words: what changes of its own file, or
    all of it. The framework may have no words for the very best: then the next that it has."""
    from fleetcube.analysis.layouts import WHOLE, inputs_of
    from fleetcube.formats.read import job_at

    dims = [dim for dim in layouts["infeasible_reason"].dims if layouts.sizes[dim] > 1]
    if dims:
        raise InputError(f"--as writes one point, and there are several along {dims[0]}; name one")
    job, goal = job_at(spec), question.of
    refusal = ""
    for best in _running(question, layouts):
        try:
            lines = _written(job, {**scenario, **inputs_of(best)}, framework)
        except InputError as error:
            refusal = refusal or str(error)
            continue
        say("")
        if refusal:
            value = with_unit(best[goal].item(), best[goal].attrs["units"], goal)
            say_wrapped(f"{refusal}; the best that it can: {best[WHOLE].item()}: {goal} {value}")
        say_each(lines or [f"{spec} has the best layout"], err=False)
        return
    if refusal:
        raise InputError(refusal)


def _running(question: "Question", layouts: Any) -> Iterator[Any]:
    """The best layout that can run, then the next ones, searched only if they are asked for."""
    yield from _ranked(layouts.isel(rank=[0]), question.of)
    yield from _ranked(_best(question, _MOST_TRIED), question.of)


def _ranked(layouts: Any, goal: str) -> Iterator[Any]:
    rows = layouts.isel(dict.fromkeys(layouts["infeasible_reason"].dims, 0))
    for rank in range(rows.sizes["rank"]):
        layout = rows.isel(rank=rank)
        if layout["infeasible_reason"].item() == 0 and layout[goal].notnull().item():
            yield layout


def _written(job: "Job | None", scenario: Mapping[str, Any], framework: str) -> list[str]:
    """The lines of a scenario in a framework's words, or those that change in a file of its."""
    from fleetcube.formats.write import changed, export

    if job is None or job.table.software != framework:
        return export(scenario, framework).splitlines()
    lines = changed(job, scenario)
    return [f"changes of {job.path}:", *lines] if lines else []


def _closest(question: "Question", layouts: Any) -> str:
    """How near layouts that run come to each condition; empty where none runs."""
    from fleetcube.analysis.layouts import CLOSEST
    from fleetcube.analysis.targets import conditions_of

    scenario, near = question.sweep.spec["scenario"], []
    for each in conditions_of(scenario, question.where, with_chance=True):
        closest = layouts[f"{CLOSEST}{each.of}"]
        least = each.relation == "<="
        value = (closest.min() if least else closest.max()).item()
        text = with_unit(value, closest.attrs["units"], each.of)
        extreme = "least" if least else "greatest"
        share = f" with {100 * each.chance:.4g} %" if each.chance == each.chance else ""
        near += [f"the {extreme} {each.of}{share} is {text}"] * (value == value)
    return ", ".join(near) + ", each alone" * (len(near) > 1)


def _plan_stated(question: "Question", spec: str, framework: str | None) -> None:
    """Print what a layout that leaves nothing open gives, and what the best one would."""
    from fleetcube.analysis import layouts as planning
    from fleetcube.analysis.assumptions import ASSUMED
    from fleetcube.tables.tables import meanings

    sweep, goal = question.sweep, question.of
    scenario: Any = sweep.spec["scenario"]
    with progress("planning"):
        layout, values, best = planning.stated_and_free(sweep, goal, question.sense, question.where)
    say(f"stated layout: {planning.text(layout)}")
    _print_values(values, scenario)
    say_wrapped(*values.attrs[ASSUMED].splitlines())
    reason = values["infeasible_reason"]
    if reason.item():
        say(f"cannot run: {meanings(reason.attrs, reason.values.reshape(1))[0]}")
    say("")
    _print_limits(values)
    stated_value, best_value = values[goal].item(), best[goal].item()
    if best_value == best_value:
        value = with_unit(best_value, values[goal].attrs["units"], goal)
        change = "" if reason.item() else f" ({best_value / stated_value - 1:+.1%})"
        tried = f"the best of {best.attrs['fleetcube_tried']:,} layouts"
        say_wrapped(f"{tried}: {best[planning.WHOLE].values[0]}: {goal} {value}{change}")
    print_foot(values)
    check_answered((reason == 0) | best[goal].notnull())
    if framework is not None:
        from fleetcube.scenario.along_axes import point

        free = sweep.replace(scenario=planning.without_layout(scenario))
        stated = {**scenario, **planning.unsearched(point(sweep), goal)}
        _print_written(dataclasses.replace(question, sweep=free), stated, best, spec, framework)
    if (goal, question.sense) == (TIME, "min"):
        check_ends(best)


def _plan_phases(
    question: "Question", as_json: bool, output: str | None, spec: str, given: Sequence[str]
) -> None:
    """Plan a job in phases: each separately, then the whole."""
    from fleetcube.analysis.layouts import by_phase
    from fleetcube.presentation.page.page import page, write

    if question.where:
        raise InputError("--where is not for jobs in phases; leave it out")
    with progress("planning"):
        best, job = by_phase(question.sweep, question.of, question.sense, question.search)
        if output is not None:
            title = f"Plan of {Path(spec).name}"
            write(page(job.spec, title, spec, given=given, verb="plan"), output)
    if as_json:
        say_json({name: layout and layout.to_dict() for name, layout in best.items()})
        return
    _print_phases(best, job, question)
    if output is not None:
        say(f"wrote {output}")


def _print_phases(best: Mapping[str, Any], job: Any, question: "Question") -> None:
    """Print the best layout of each phase, its results, and the whole job."""
    from fleetcube.analysis.assumptions import at_last
    from fleetcube.analysis.interval import interval
    from fleetcube.analysis.layouts import WHOLE
    from fleetcube.grid.run.settings import Settings
    from fleetcube.tables.tables import table

    goal, rows = question.of, []
    for name, layout in best.items():
        if layout is None:
            rows.append([name, "as given", "-", "-"])
        else:
            counts = layout.attrs["fleetcube_tried"], layout["feasible_layouts"].item()
            rows.append([name, layout[WHOLE].item(), *(f"{count:,}" for count in counts)])
    print_table(["phase", "best layout", "tried", "can run"], rows)
    say("")
    names = dict.fromkeys([goal, "job_time", "mfu", "memory_per_gpu"])
    each = job.replace(axes={"phase": [*best]}, outputs=[*names])
    phases = interval(each, None, Settings("numpy"))
    shown = [name for name in (*names, f"{goal}_low", f"{goal}_high", *_TIMES) if name in phases]
    print_table(*table(phases[list(dict.fromkeys(shown))]))
    say("")
    whole = interval(job, None, Settings("numpy"))
    _print_values(whole, job.spec["scenario"])
    say_wrapped(*at_last(job.with_outputs([goal, MEMORY[0]])))
    say("")
    _print_limits(whole)
    _print_levers(job, {}, goal, question.sense)
    searched = dict.fromkeys(n for layout in best.values() if layout for n in _open(layout))
    text = f"{question.sense}imum {goal} of each phase; searched: {', '.join(searched)}"
    if len({row[1] for row in rows}) > 1:
        text += "; changing layout between phases takes the transition_time given"
    say_wrapped(text)
    print_foot(whole, searched)


def _open(layouts: Any) -> list[str]:
    return str(layouts.attrs["fleetcube_open"]).split()


def _print_one(question: "Question", layouts: Any) -> None:
    """Print the best layout of one point with its intervals, the next ones, losses and levers."""
    from fleetcube.analysis.assumptions import ASSUMED
    from fleetcube.analysis.layouts import WHOLE

    sweep, goal = question.sweep, question.of
    point = layouts.isel(dict.fromkeys(layouts["infeasible_reason"].dims, 0))
    if point["infeasible_reason"].item():
        _print_none(point, layouts.attrs)
        return
    names = [*_open(layouts), WHOLE]
    ranked = point.isel(rank=point[goal].notnull().values)
    outputs = [n for n, row in ranked.data_vars.items() if row.dims == ("rank",) and n not in names]
    best = ranked[outputs].isel(rank=0)
    say(f"best layout: {ranked[WHOLE].values[0]}")
    _print_values(best, sweep.spec["scenario"])
    say_wrapped(*layouts.attrs[ASSUMED].splitlines())
    if ranked.sizes["rank"] > 1:
        _print_next(question, ranked)
    say("")
    _print_limits(best)
    _print_without_memory(point["without_memory_limit"].item(), best[goal], goal)
    layout = {name: ranked[name].values[0] for name in _open(layouts)}
    _print_levers(sweep, layout, goal, question.sense)


def _print_none(point: Any, attrs: Mapping[Any, Any]) -> None:
    """Print why no layout can run, and how near the nearest comes."""
    margin = point["nearest_memory_margin"].item()
    near = f"; the nearest takes {1 - margin:.3g} times a GPU's memory" if margin < 1 else ""
    near += ", which the error of the model exceeds" if margin >= 0 else ""
    say_wrapped(f"no layout can run: {attrs['fleetcube_infeasible']}{near}")
    say_wrapped(attrs.get("fleetcube_nearest", ""))


def _print_next(question: "Question", ranked: Any) -> None:
    """Print the layouts after the best one."""
    from fleetcube.analysis.layouts import WHOLE
    from fleetcube.grid.result import Result
    from fleetcube.tables.tables import table

    shown = list(dict.fromkeys([question.of, "job_time", "memory_per_gpu"]))
    dim, labels = "next layouts", ranked[WHOLE].values.tolist()
    others: dict[str, Any] = {n: (dim, ranked[n].values[1:], ranked[n].attrs) for n in shown}
    if chances := _chances(question, ranked):
        others["may beat it"] = dim, chances
    say("")
    print_table(*table(Result(others, {dim: labels[1:]})))


def _print_without_memory(free: float, best: Any, goal: str) -> None:
    """Print what the best layout would give if memory were no limit, where that differs."""
    from fleetcube.analysis.layouts import FELT
    from fleetcube.tables.tables import numbers, scale

    value = best.item()
    if abs(free - value) > FELT * abs(value):
        factor, unit = scale(str(best.attrs["units"]), [value], goal)
        text = f"{numbers([free / factor])[0]} {unit}".rstrip()
        say(f"if memory were no limit: {goal} {text} ({free / value - 1:+.1%})")


def _chances(question: "Question", ranked: Any) -> list[str]:
    """How likely each of the next layouts is better than the first; empty where one is unknown."""
    from fleetcube.analysis.layouts import inputs_of
    from fleetcube.analysis.ratio import between, side
    from fleetcube.scenario.along_axes import point
    from fleetcube.tables.tables import chance

    scenario, goal = point(question.sweep), question.of
    layouts = [inputs_of(ranked.isel(rank=k)) for k in range(ranked.sizes["rank"])]
    first, *others = (side({**scenario, **layout}, [goal]) for layout in layouts)
    ratios = [between(first, other).get(goal) for other in others]
    below = [ratio.below for ratio in ratios if ratio is not None]
    if len(below) < len(others):
        return []
    return [chance(share if question.sense == "min" else 1 - share) for share in below]


def _print_values(values: Any, scenario: Mapping[str, Any]) -> None:
    """Print a job's results with intervals, and its end date; losses are printed elsewhere."""
    from fleetcube.grid.plan.labels import END_OF
    from fleetcube.scenario.dates import end, start_of
    from fleetcube.tables.tables import (
        CHANCE,
        INTERVAL,
        chance,
        counted,
        estimate,
        memory_use,
        numbers,
        scale,
    )

    rows = []
    for name, value in values.data_vars.items():
        if name in (*LOSSES, "memory_margin") or value.attrs.keys() & {"flag_values", END_OF}:
            continue
        number = value.item()
        if name.endswith(CHANCE):
            rows.append([name, chance(number)])
            continue
        factor, unit = scale(str(value.attrs["units"]), [number], str(name))
        ends = [values.get(f"{name}_{side}", value).item() for side in ("low", "high")]
        scaled = [number / factor for number in (number, *ends)]
        heading = f"{name} [{unit}]" if unit else str(name) + counted(value.attrs)
        rows.append([heading, estimate(numbers(scaled[:1])[0], *scaled)])
    print_table(["", f"value {INTERVAL}"], rows)
    if use := memory_use(values):
        say_wrapped(f"memory of a GPU: {use}")
    if (start := start_of(scenario)) is not None:
        days = [end(start, values[name].item()) for name in _TIMES if name in values]
        interval = f" (90 %: {' to '.join(days[1:])})" if days[1:] else ""
        never = f"started on {start} it never ends"
        say(never if days[0] == "never" else f"started on {start} it ends on {days[0]}{interval}")


def _print_levers(sweep: Any, layout: dict[str, Any], goal: str, sense: str) -> None:
    """Print what would improve the output most, and why more GPUs would not."""
    from fleetcube.analysis.levers import levers

    better, no_lever = levers(sweep, layout, goal, sense)
    if better:
        say(f"what would improve {goal} in this layout:")
    say_wrapped(*(f"  {line}" for line in better[:_LEVERS]))
    say_wrapped(no_lever)


def _print_limits(best: Any) -> None:
    """Print the three largest losses of the wall time."""

    shares = [(best[name].item(), name) for name in LOSSES if name in best]
    largest = sorted((pair for pair in shares if pair[0] >= 0.005), reverse=True)[:3]
    if largest:
        losses = ", ".join(
            f"{name.removesuffix('_overhead').replace('_', ' ')} {share:.0%}"
            for share, name in largest
        )
        say_wrapped(
            f"the wall time goes to: {losses}; the rest is ideal compute and smaller losses"
        )


def _print_several(question: "Question", layouts: Any) -> None:
    """Print the best at each point, the best first, or why there is none, in one table."""
    import numpy as np

    from fleetcube.analysis.assumptions import ASSUMED
    from fleetcube.analysis.layouts import FRONT, NEAREST, WHOLE, assumed_at_best
    from fleetcube.tables.tables import CHANCE, table

    goal, (first, sense) = question.of, question.order
    assumed = layouts.attrs[ASSUMED].splitlines()
    if first != goal:
        assumed = assumed_at_best(layouts, question.sweep, goal, question.order)
    best = layouts.isel(rank=0)
    axes = [str(name) for name in best["infeasible_reason"].dims]
    rows = best.rows(axes, [*axes, *best.data_vars])
    none = np.isnan(rows[goal].values)
    value = np.where(none, np.nan, rows[first].values * (-1 if sense == "max" else 1))
    rows = rows.isel(row=np.lexsort((rows[goal].values, value)))
    none = np.isnan(rows[goal].values)
    reasons = _reasons(question, rows)
    layout = np.where(none, [f"- ({reason})" for reason in reasons], rows[WHOLE].values)
    rows = rows.assign({"layout": ("row", layout)})
    rows = rows.assign({"front": ("row", np.where(rows[FRONT].values, "*", ""))})
    for name in [n for n in rows.data_vars if f"{NEAREST}{n}" in rows and n.endswith(CHANCE)]:
        shares = np.where(none, rows[f"{NEAREST}{name}"].values, rows[name].values)
        rows = rows.assign({name: ("row", shares, rows[name].attrs)})
    shown = [] if none.all() else [first, *_shown(question, rows), "front"]
    names = dict.fromkeys([*axes, *shown, "layout"])
    print_table(*table(rows[[name for name in names if name in rows]]))
    if not none.all():
        say_wrapped(f"*: {best[FRONT].attrs['long_name']}")
    nearest: str = layouts.attrs.get("fleetcube_nearest", "")
    say_wrapped(*assumed, *nearest.splitlines())
    if f"{goal}_low" in names and f"{goal}_low" in rows:
        say("rows share a part of the model's error: compare has the interval of a ratio")


def _shown(question: "Question", rows: Any) -> list[str]:
    """The columns of a table of plans: the goal, time, cost, chances, ends of intervals."""
    from fleetcube.analysis.layouts import NEAREST
    from fleetcube.tables.tables import CHANCE

    cost = "job_cost" if "job_cost" in rows else "gpu_hours"
    likely = [n for n in rows.data_vars if n.endswith(CHANCE) and not n.startswith(NEAREST)]
    ends = [f"{name}_{side}" for name in (question.of, "job_time") for side in ("low", "high")]
    names = dict.fromkeys([question.of, "job_time", cost, *likely, *ends])
    return [name for name in names if name in rows]


def _print_nearest(question: "Question", layouts: Any) -> None:
    """Print what misses the conditions least at each point where a layout runs, the nearest first,
    of equal misses by the goal."""
    import numpy as np

    from fleetcube.analysis.layouts import MISS, NEAREST, WHOLE
    from fleetcube.tables.tables import table

    rows = layouts.drop_vars(layouts.data_vars).assign(
        {str(n).removeprefix(NEAREST): row for n, row in layouts.data_vars.items() if NEAREST in n}
    )
    axes = [str(name) for name in layouts["infeasible_reason"].dims]
    rows = rows.rows(axes, [*axes, *rows.data_vars])
    goal = rows[question.of].values * (-1 if question.sense == "max" else 1)
    order = np.lexsort((goal, rows[MISS.removeprefix(NEAREST)].values))
    rows = rows.isel(row=order[: (goal == goal).sum()])
    rows = rows.assign({"nearest plan": rows[WHOLE]})
    print_table(*table(rows[[*axes, *_shown(question, rows), "nearest plan"]]))
    if len(rows["nearest plan"].values) > 1:
        say_wrapped("first the plan that misses a condition by the smallest share of its bound")


def _reasons(question: "Question", rows: Any) -> list[str]:
    """Why each row has no answer: no layout runs, or how near those that do come to a condition."""
    from fleetcube.tables.tables import meanings

    codes = rows["infeasible_reason"]
    why = meanings(codes.attrs, codes.values)
    for k in (k for k, reason in enumerate(why) if reason == "feasible"):
        near = _closest(question, rows.isel(row=[k]))
        keeps = f"none keeps to {' and '.join(question.where)}: {near}"
        why[k] = keeps if near else f"{question.of} is infinite"
    return why


def _print_searched(layouts: Any) -> None:
    """Print how many layouts were tried, how near memory is to its limit, and remarks."""
    from fleetcube.analysis.layouts import searched

    say(searched(layouts))
    best = layouts.isel(rank=0)
    if "near_memory_limit" in best and (near := best["near_memory_limit"].values == 1).any():
        margin, need = min(zip(*(best[name].values[near] for name in _MEMORY), strict=True))
        sizes = f"{need / 1e9:.1f} GB needed, {need / (1 - margin) / 1e9:.1f} available"
        say(f"{sizes}: {'likely' if margin < 0 else 'possibly'} out of memory", err=True)
    print_foot(layouts, _open(layouts))
