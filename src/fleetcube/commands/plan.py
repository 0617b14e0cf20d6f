"""The command `fleetcube plan`."""

import json
import textwrap
from pathlib import Path
from typing import Any

import click

from fleetcube.commands import complete
from fleetcube.commands.changed import changed_spec
from fleetcube.commands.progress import progress
from fleetcube.commands.say import say
from fleetcube.commands.table import aligned, print_table

_MOST_POINTS = 200  # of a printed table


@click.command()
@click.argument("spec", type=click.Path())
@click.argument("selectors", nargs=-1, shell_complete=complete.selectors)
@click.option("--of", default="job_time", shell_complete=complete.quantities, help="[job_time]")
@click.option(
    "--open",
    "opened",
    multiple=True,
    shell_complete=complete.ranges,
    help="Search this, too: name, or name=value,value.",
)
@click.option("--top", default=1, help="Layouts of each point, the best first.  [1]")
@complete.engine
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in base units.")
@click.option("-o", "--output", type=click.Path(), help="Write .html (a report) or .json.")
def plan(
    spec: str,
    selectors: tuple[str, ...],
    of: str,
    opened: tuple[str, ...],
    top: int,
    engine: str,
    as_json: bool,
    output: str | None,
) -> None:
    """Plan a job: the best layout at every point of a spec, and what follows from it.

    What the spec leaves open of tensor, pipeline, context and expert parallel ranks, virtual
    stages, micro-batch, recompute, ZeRO stage and sequence parallel is searched over; what it
    states is kept, unless --open names it. SELECTORS change the spec: name=value.

    \b
    Example:
      fleetcube plan examples/h100.toml n_gpus=1024 gpu_mttf=50000h \\
          --open tensor_parallel --open pipeline_parallel -o plan.html
    """
    from fleetcube.grid.ask.best_layouts import best_layouts, foot, points_of
    from fleetcube.grid.ask.report import report
    from fleetcube.grid.errors import InputError
    from fleetcube.grid.show.tables import finite

    names: dict[str, Any] = {}
    for text in opened:
        name, equals, listed = text.partition("=")
        if equals and not all(listed.split(",")):
            raise InputError(f"--open {text!r} has an empty value; write name=value,value")
        names[name] = listed.split(",") if equals else None
    if output is not None:
        _check(Path(output))
    problem = changed_spec(spec, selectors, [])
    with progress("planning"):
        found = best_layouts(problem, of, names, top, engine)
    content = json.dumps(finite(found.to_dict()), default=str)
    if output is not None:
        made = ["fleetcube", "plan", spec, *selectors, *(("--of", of) if of != "job_time" else ())]
        made += [word for text in opened for word in ("--open", text)]
        made += ["--top", str(top)] if top > 1 else []
        text = content if Path(output).suffix == ".json" else report(found, problem, made)
        Path(output).write_text(text, encoding="utf-8")
    if as_json:
        say(content)
        return
    points = list(points_of(found))
    if len(points) > _MOST_POINTS:
        raise InputError(f"the table has {len(points):,} rows; cut axes (axis=value), or write -o")
    if len(points) == 1:
        _card(*points[0])
    else:
        _table(points)
    say("")
    for line in textwrap.wrap(foot(found), 80):
        say(line)
    for line in found.attrs.get("fleetcube_remarks", "").splitlines():
        say(line, err=True)
    if "fleetcube_uncounted" in found.attrs:
        say(found.attrs["fleetcube_uncounted"], err=True)
    if output is not None:
        say(f"wrote {output}")


def _check(path: Path) -> None:
    from fleetcube.grid.errors import InputError

    if path.suffix not in (".html", ".json"):
        raise InputError(f"{str(path)!r} is not .html or .json; change its ending")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {str(path.absolute().parent)!r}; create it first")
    if path.is_dir() or (path.exists() and path.suffix == ".json"):
        raise InputError(f"{str(path)!r} exists; choose another name or remove it")


def _card(words: dict[str, str], point: Any) -> None:
    """One point, a line for each thing."""
    from fleetcube.grid.ask.best_layouts import is_known, layout_of, rows_of, why_none

    lines = [[name, text] for name, text in words.items()]
    best = point.isel(rank=0)
    if not is_known(best):
        for line in aligned(lines, [False, False]):
            say(line)
        say(why_none(best))
        return
    lines += [[name, text] for name, text in layout_of(best).items()]
    lines += [[name, text] for name, text in rows_of(best)]
    for line in aligned(lines, [False, False]):
        say(line)
    if point.sizes["rank"] > 1:
        say("")
        _table([(words, point)])


def _table(points: Any) -> None:
    """A row for each point and rank."""
    from fleetcube.grid.ask.best_layouts import summary

    print_table(*summary(points))
