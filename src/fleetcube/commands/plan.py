"""The command `fleetcube plan`."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands import complete
from fleetcube.commands.changed import changed_spec
from fleetcube.commands.progress import progress
from fleetcube.commands.say import say, say_wrapped
from fleetcube.commands.table import print_foot, print_table

if TYPE_CHECKING:
    from datetime import date

    import xarray

_LEVERS = 5
_TIMES = ("job_time", "job_time_low", "job_time_high")
_FELT = 5e-4  # relative difference worth a line


@click.command()
@click.argument("spec", type=click.Path())
@click.argument("selectors", nargs=-1, shell_complete=complete.selectors)
@click.option("--minimize", shell_complete=complete.quantities, help="Output.  [job_time]")
@click.option("--maximize", shell_complete=complete.quantities, help="Output, instead.")
@click.option("--open", "open_", help="Inputs to search: name,name.  [what the spec leaves open]")
@click.option("--also", help="More of them: precision,pipeline_schedule.")
@click.option("--start", help="Day of the start, to say when it ends.  [start_date]")
@click.option(
    "--top", default=3, help="Layouts of a point: shown of one, in JSON and reports.  [3]"
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in base units.")
@click.option("-o", "--output", type=click.Path(), help="Report: a page that computes (.html).")
def plan(
    spec: str,
    selectors: tuple[str, ...],
    minimize: str | None,
    maximize: str | None,
    open_: str | None,
    also: str | None,
    start: str | None,
    top: int,
    as_json: bool,
    output: str | None,
) -> None:
    """Find the best layout at every point of a spec, and what to expect of it.

    What the spec leaves open of the layout is searched: tensor, pipeline, context and expert
    parallelism, virtual stages, micro-batches, ZeRO, recompute, sequence parallelism. What it
    states stays. SELECTORS change the spec: name=value, or name=value,value for several points.

    \b
    Example:
      fleetcube plan examples/plan.toml
      fleetcube plan examples/plan.toml n_gpus=4096,8192,16384 -o plan.html
    """
    from fleetcube.grid.ask.layouts import searched
    from fleetcube.grid.errors import InputError
    from fleetcube.grid.live.page import check_target, write
    from fleetcube.grid.live.report import report
    from fleetcube.grid.show.tables import finite
    from fleetcube.grid.spec import phases
    from fleetcube.grid.spec.dates import NAME, start_of
    from fleetcube.grid.sweep import Sweep

    if output is not None:
        check_target(output)
    if minimize is not None and maximize is not None:
        raise InputError("give --minimize or --maximize, not both")
    of, sense = (maximize, "max") if maximize is not None else (minimize or "job_time", "min")
    problem = changed_spec(spec, selectors)
    if start is not None:
        problem["scenario"] |= {NAME: start}
    since = start_of(problem["scenario"])
    sweep = Sweep(problem["scenario"], problem["axes"], [of])
    names = None if open_ is None else open_.split(",")
    more = [] if also is None else also.split(",")
    if sweep.points > 1 and not as_json and output is None and top > 0:
        top = 1  # no more are shown
    if phases.names(problem["scenario"]):
        _plan_phases(sweep, of, sense, (names, more), as_json, output, spec)
        return
    with progress("planning"):
        found = sweep.best_layouts(of, sense=sense, inputs=names, also=more, top=top)
        said = searched(found, of, sense)
        if output is not None:
            write(report(sweep, found, of, said, spec), output)
    if as_json:
        say(json.dumps(finite(found.to_dict()), default=str))
        return
    if sweep.points == 1:
        _print_one(sweep, found, of, sense, since)
    else:
        _print_several(found, of)
    _print_foot(found, said)
    if output is not None:
        say(f"wrote {output}")


def _plan_phases(
    sweep: Any,
    of: str,
    sense: str,
    searched: tuple[list[str] | None, list[str]],
    as_json: bool,
    output: str | None,
    spec: str,
) -> None:
    """Plan a job in phases: each separately, then the whole."""
    from fleetcube.grid.live.page import page, write
    from fleetcube.grid.show.tables import finite
    from fleetcube.grid.spec.dates import start_of

    with progress("planning"):
        inputs, also = searched
        found, job = sweep.best_layouts_by_phase(of, sense=sense, inputs=inputs, also=also)
        if output is not None:
            write(page(job.spec, f"Plan of {spec}", spec), output)
    if as_json:
        told = {name: own and own.to_dict() for name, own in found.items()}
        say(json.dumps(finite(told), default=str))
        return
    _print_phases(found, job, of, sense, start_of(job.spec["scenario"]))
    if output is not None:
        say(f"wrote {output}")


def _print_phases(
    found: Mapping[str, Any], job: Any, of: str, sense: str, since: "date | None"
) -> None:
    """Print the best layout of each phase, its results, and the whole job."""
    from fleetcube.grid.show.tables import table

    rows = []
    for name, own in found.items():
        if own is None:
            rows.append([name, "as stated", "-", "-"])
        else:
            counts = own.attrs["fleetcube_tried"], own["feasible_layouts"].item()
            rows.append([name, _layouts(own, of).item(), *(f"{count:,}" for count in counts)])
    print_table(["phase", "best of what it leaves open", "tried", "can run"], rows)
    say("")
    names = dict.fromkeys([of, "job_time", "mfu", "memory_per_gpu"])
    each = job.of([*names]).replace(axes={"phase": [*found]}).interval(engine="numpy")
    shown = [name for name in (*names, f"{of}_low", f"{of}_high", *_TIMES) if name in each]
    print_table(*table(each[list(dict.fromkeys(shown))]))
    say("")
    whole = job.interval(engine="numpy")
    _print_values(whole, since)
    _print_limits(whole)
    _print_levers(job, {}, of, sense)
    open_ = dict.fromkeys(n for own in found.values() if own for n in _open(own))
    said = f"{sense}imum {of} of each phase, over what it leaves open of {', '.join(open_)}"
    changes = "; a change of layout between phases takes their transition_time, as stated"
    say_wrapped(said + changes * (len({row[1] for row in rows}) > 1))
    print_foot(whole, open_)


def _open(found: "xarray.Dataset") -> list[str]:
    return str(found.attrs["fleetcube_open"]).split()


def _layouts(found: "xarray.Dataset", of: str) -> Any:
    """The layouts in short notation, over the axes and ranks."""
    import numpy as np

    from fleetcube.grid.ask.layouts import text

    names = _open(found)
    rows = [found[name].values for name in names]
    made = np.empty(rows[0].shape, object)
    for place in np.ndindex(made.shape):
        there = found[of].values[place] == found[of].values[place]
        own = {name: row[place] for name, row in zip(names, rows, strict=True)}
        made[place] = (text(own) or "one GPU a replica") if there else "-"
    return made.astype(str)


def _print_one(
    sweep: Any, found: "xarray.Dataset", of: str, sense: str, since: "date | None"
) -> None:
    """Print the best layout of one point with its intervals, the next ones, losses and levers."""
    from fleetcube.grid.show.tables import numbers, scale, table

    point = found.squeeze(list(found["infeasible_reason"].dims), drop=True)
    if point["infeasible_reason"].item():
        margin = point["nearest_memory_margin"].item()
        near = f"; the nearest takes {1 - margin:.3g} times a GPU's memory" if margin < 0 else ""
        say_wrapped(f"no layout can run: {found.attrs['fleetcube_infeasible']}{near}")
        return
    names = _open(found)
    there = point[of].notnull().values
    best = point.isel(rank=there)
    labels = _layouts(found, of).reshape(-1)[there].tolist()
    told = [n for n, own in best.data_vars.items() if own.dims == ("rank",) and n not in names]
    first = best[told].isel(rank=0)
    say(f"best layout: {labels[0]}")
    _print_values(first, since)
    shown = list(dict.fromkeys([of, "job_time", "memory_per_gpu"]))
    if len(labels) > 1:
        say("")
        others = best[shown].isel(rank=slice(1, None)).assign_coords(rank=labels[1:])
        print_table(*table(others.rename(rank="next layouts")))
    say("")
    _print_limits(first)
    free, now = point["without_memory_limit"].item(), best[of].values[0]
    if abs(free - now) > _FELT * abs(now):
        factor, unit = scale(str(best[of].attrs["units"]), [now], of)
        shown_free = f"{numbers([free / factor])[0]} {unit}".rstrip()
        say(f"if memory were no limit: {of} {shown_free} ({free / now - 1:+.1%})")
    layout = {name: best[name].values[0] for name in names}
    _print_levers(sweep, layout, of, sense)


def _print_values(one: "xarray.Dataset", since: "date | None") -> None:
    """Print a job's results with intervals, and its end date; losses are printed elsewhere."""
    from fleetcube.grid.plan.labels import END_OF
    from fleetcube.grid.show.tables import counted, numbers, scale, span
    from fleetcube.grid.spec.dates import end
    from fleetcube.kernels.roles import LOSSES

    rows = []
    for name, value in one.data_vars.items():
        if name in (*LOSSES, "memory_margin") or value.attrs.keys() & {"flag_values", END_OF}:
            continue
        number = value.values.reshape(1)
        factor, unit = scale(str(value.attrs["units"]), number, str(name))
        ends = ""
        if f"{name}_low" in one:
            pair = [one[f"{name}_{side}"].item() / factor for side in ("low", "high")]
            low, high = numbers(pair)
            ends = span(low, high, "")
        heading = f"{name} [{unit}]" if unit else str(name) + counted(value.attrs)
        rows.append([heading, numbers(number / factor)[0], ends])
    print_table(["", "value", "90 %"], rows)
    if since is not None:
        days = [end(since, one[name].item()) for name in _TIMES if name in one]
        interval = f" (90 %: {' to '.join(days[1:])})" if days[1:] else ""
        say(f"started on {since} it ends on {days[0]}{interval}")


def _print_levers(sweep: Any, layout: dict[str, Any], of: str, sense: str) -> None:
    """Print what would improve the output most, and why more GPUs would not."""
    from fleetcube.grid.ask.layouts import levers

    better, no_lever = levers(sweep, layout, of, sense)
    if better:
        say(f"what would better {of} in this layout:")
    say_wrapped(*(f"  {line}" for line in better[:_LEVERS]))
    if no_lever:
        say(no_lever)


def _print_limits(best: "xarray.Dataset") -> None:
    """Print the three largest losses of the wall time."""
    from fleetcube.kernels.roles import LOSSES

    known = [(best[name].item(), name) for name in LOSSES if name in best]
    largest = sorted((pair for pair in known if pair[0] >= 0.005), reverse=True)[:3]
    if largest:
        said = ", ".join(
            f"{name.removesuffix('_overhead').replace('_', ' ')} {share:.0%}"
            for share, name in largest
        )
        say(f"the wall time goes to: {said}")


def _print_several(found: "xarray.Dataset", of: str) -> None:
    """Print the best at each point: its results, layout and memory, or why there is none."""
    from fleetcube.grid.show.tables import table

    best = found.isel(rank=0, drop=True)
    axes = list(best["infeasible_reason"].dims)
    names = dict.fromkeys([of, "job_time", "mfu", "job_cost" if "job_cost" in best else "goodput"])
    ends = [f"{name}_{side}" for name in (of, "job_time") for side in ("low", "high")]
    shown = best[list(dict.fromkeys([*names, *(name for name in ends if name in best)]))]
    for variable in shown.data_vars.values():
        variable.attrs.pop("convention", None)  # given by explain; columns are narrow here
    print_table(*table(shown))
    if f"{of}_low" in shown:
        say("rows share a part of the model's error: their ratios are surer than 90 % of each")
    say("")
    layouts = (axes, _layouts(found, of)[..., 0], {"long_name": "layout"})
    there = best[["memory_per_gpu"]].assign(layout=layouts)
    if best["infeasible_reason"].any():
        there["infeasible_reason"] = best["infeasible_reason"]
    print_table(*table(there))


def _print_foot(found: "xarray.Dataset", said: str) -> None:
    """Print what was searched, and remarks."""
    say(said)
    if "near_memory_limit" in found and (found["near_memory_limit"].isel(rank=0) == 1).any():
        say("near_memory_limit: a best layout fits within the error of predicted memory", err=True)
    print_foot(found, _open(found))
