"""The command `fleetcube best`."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed_spec
from fleetcube.commands.shared.points import answer, check_answered, check_ends, goal
from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.say import say_wrapped
from fleetcube.commands.shared.table import print_foot, print_table, to_file, write_table
from fleetcube.grid.errors import InputError
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import TIME

if TYPE_CHECKING:
    import xarray

    from fleetcube.grid.run.settings import Engine, Infeasible


@click.command()
@complete.spec_and_selectors
@click.option(
    "--of", multiple=True, required=True, help='Goal: "min NAME", "max NAME"; 2 or 3: Pareto front.'
)
@click.option("--over", help="Axes to search: name,name.  [all]")
@click.option(
    "--search",
    multiple=True,
    shell_complete=complete.ranges,
    help="Range of an input, name=first:last; or choices, name=a,b.",
)
@click.option("--where", multiple=True, help='Condition: "job_time <= 60 d".')
@click.option("-k", type=int, help="Points to list, the best first.  [1; fronts: all]")
@complete.variables("Output to show as well.")
@complete.infeasible("exclude")
@complete.engine
@to_file
def best(
    spec: str,
    selectors: tuple[str, ...],
    of: tuple[str, ...],
    over: str | None,
    search: tuple[str, ...],
    where: tuple[str, ...],
    k: int | None,
    variable: tuple[str, ...],
    infeasible: "Infeasible",
    engine: "Engine",
    output: str | None,
) -> None:
    """Find the best points of a spec's axes, or the best values of inputs in ranges.

    The least of an output is the best; write --of "max goodput" for the greatest. Points that
    cannot be run are left out. With --search, inputs take any value of a range, whatever the spec
    states for them. SELECTORS override the spec. For the best layouts see `fleetcube plan`.

    \b
    Example:
      fleetcube best examples/scaling-and-reliability.toml --of job_time \\
          --over n_gpus,layout gpu_mttf=50000h checkpoint_write_bandwidth=100GB/s
      fleetcube best examples/scaling-and-reliability.toml \\
          --of "max goodput" --search n_gpus=64:16384 --where "job_time <= 60 d" \\
          gpu_mttf=50000h checkpoint_write_bandwidth=100GB/s layout=pp1
    """
    from fleetcube.grid.run.settings import Settings
    from fleetcube.sweep import Sweep

    goals = [goal(text) for text in of]
    names = [name for name, _ in goals]
    between, choices = _searched(search)
    problem = changed_spec(spec, [*selectors, *choices.values()], between)
    settings = Settings(engine, None if infeasible == "exclude" else infeasible)
    axes = over.split(",") if over is not None else None
    also = [name for name in dict.fromkeys(variable) if name not in names]
    if between:
        if len(names) > 1 or k is not None:
            raise InputError("--search has one answer, of one output: leave out -k and other --of")
        chosen = [*(axes or ()), *choices]
        with progress("searching"):
            ranges = Sweep(problem["scenario"], problem["axes"], settings=settings)
            points = ranges.best(
                names[0],
                sense=goals[0][1],
                over=chosen or None,
                search=between,
                where=where,
                also=also,
            )
        _print_optimum(points, between, output)
        check_answered(points["optimum_status"] == 0)
        return
    sweep = Sweep(problem["scenario"], problem["axes"], names, settings=settings)
    asked: dict[str, Any] = {"of": names[0], "sense": goals[0][1]}
    if len(names) > 1:
        asked = {"of": names, "sense": [sense for _, sense in goals]}
    with progress("searching"):
        points = sweep.best(**asked, k=k, over=axes, where=where, also=also)
    marked = [REASON] if infeasible == "mark" else []
    points = rows(points, sweep.spec["axes"], [*names, *also], marked)
    answer(points, sweep, where, infeasible, output, names[0])
    if goals[0] == (TIME, "min"):
        check_ends(points)


def rows(
    points: "xarray.Dataset",
    axes: Collection[str],
    outputs: Sequence[str],
    reasons: Collection[str] = (),
) -> Any:
    """The best points as a table: axes that stay, those searched, outputs; without empty rows."""
    searched = [n for n in axes if n in points.coords and n not in points.dims]
    flat = points.reset_coords(searched)
    flat = flat[[*searched, *dict.fromkeys([*outputs, *flat.data_vars])]]
    if "rank" in flat.dims and flat.sizes["rank"] > 1:
        flat = flat.where(flat[outputs[0]].notnull(), drop=True)
    keep = {*flat.dims, *reasons}
    return flat.drop_vars([n for n in flat.coords if n not in keep])


def _searched(search: Sequence[str]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Ranges, and choices as selectors."""

    between: dict[str, list[str]] = {}
    choices: dict[str, str] = {}
    for text in search:
        name, equals, ends = text.partition("=")
        if name in (choices if "," in ends else between):
            raise InputError(f"--search names {name} twice; keep one")
        if equals and "," in ends:
            choices[name] = text
        elif equals and len(ends.split(":")) == 2:
            between[name] = ends.split(":")
        else:
            raise InputError(
                f"--search {text!r} is neither a range nor choices; write name=first:last or "
                "name=a,b"
            )
    if choices and not between:
        raise InputError(
            f"--search names only choices; give them as axes: {' '.join(choices.values())}"
        )
    if both := between.keys() & choices.keys():
        raise InputError(f"{min(both)} has a range and choices; keep one")
    return between, choices


def _print_optimum(
    answer: "xarray.Dataset", between: Mapping[str, Any], output: str | None
) -> None:
    from fleetcube.tables.tables import table

    if output is not None:
        write_table(answer, output)
        return
    status = answer["optimum_status"]
    names = str(status.attrs["flag_meanings"]).split()
    if not (status == names.index("no_feasible_point")).any():
        answer = answer.drop_vars("infeasible_reason", errors="ignore")
    print_table(*table(answer))
    say_wrapped(str(answer.attrs.get("fleetcube_nearest", "")))
    print_foot(answer, between)
