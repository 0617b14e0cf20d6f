"""`fleetcube simulate`: failing jobs, simulated at every point of a spec."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed
from fleetcube.commands.shared.points import left_out
from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.say import say, say_wrapped
from fleetcube.commands.shared.table import print_foot, print_table, to_file, write_table

if TYPE_CHECKING:
    import xarray

_OVERHEADS = ("checkpoint_overhead", "rework_overhead", "recovery_overhead")
_SIMULATED = {  # columns shown if the spec gives the input
    "job_duration": ("failures", "wall_time", "wall_time_p95"),
    "spare_nodes": ("spare_shortage",),
    "node_pool": ("whole_cluster_probability",),
    "elastic": ("elastic_capacity",),
}


@click.command()
@complete.spec_and_selectors
@click.option("--trials", default=1000, help="Jobs simulated at every point.  [1000]")
@click.option("--seed", default=0, help="Seed of the random numbers.  [0]")
@click.option("--threads", type=int, help="Cores to use.  [all]")
@click.option(
    "-v", "--variable", multiple=True, help="Variable to show.  [the main ones; all with -o]"
)
@to_file
def simulate(
    spec: str,
    selectors: tuple[str, ...],
    variable: tuple[str, ...],
    output: str | None,
    **draws: Any,
) -> None:
    """Simulate failing jobs at every point of a spec: goodput, and where the rest of the time goes.

    If the spec gives job_duration, jobs are that long, and failures and wall time are shown;
    otherwise they are long enough (about 100 failures) for start and end not to matter. With
    spare_nodes in the spec, the table shows how often these run out; with node_pool, how much of
    the time the cluster is whole. Jobs that shrink (elastic, elastic_growth, elastic_packing) show
    their mean speed, elastic_capacity; those of job_end = "unsaved" end without a save. Kinds of
    failures and tiers of checkpoints get a table of the time lost to each, simulated and by
    formula.

    \b
    Example:
      fleetcube simulate examples/scaling-and-reliability.toml --trials 100 \\
          -o failures.csv
    """
    from fleetcube.analysis.simulate import simulate_spec
    from fleetcube.tables.tables import variables

    sweep = changed(spec, selectors, otherwise=["goodput"])
    jobs = sweep.spec
    with progress("simulating"):
        outcome = simulate_spec(
            jobs["scenario"], jobs["axes"], printed=output is None, wanted=variable, **draws
        )
    mark, _, wrong = left_out(sweep).partition(": ")
    if mark == "left out":
        say_wrapped(f"{wrong}: simulated as if; fleetcube plan seeks one that can", err=True)
    if output is not None:
        write_table(variables(outcome, variable), output)
        return
    _print(outcome, jobs["scenario"], jobs["axes"], variable)


def _print(
    outcome: "xarray.Dataset",
    scenario: Mapping[str, Any],
    axes: Mapping[str, Any],
    variable: tuple[str, ...],
) -> None:
    """Print the variables asked for, or the main ones and the time lost by kind and tier."""
    from fleetcube.analysis.simulate import by_kind_and_tier
    from fleetcube.grid.spec.axes import make_axes
    from fleetcube.kernels.physics.graph import PHYSICS
    from fleetcube.scenario.phases import NAME, names
    from fleetcube.tables.tables import MOST_ROWS, table, variables

    moved = (name for axis in make_axes(PHYSICS, axes).values() for name in axis.inputs)
    given = {*scenario, *moved}
    added_up = names(scenario) and NAME not in axes  # each phase states its length
    if not added_up and "job_duration" not in given and {*variable} & {*_SIMULATED["job_duration"]}:
        say("each job lasts about 100 failures; give job_duration for another length", err=True)
    more = [n for key, names in _SIMULATED.items() if key in given for n in names if n in outcome]
    main = ["goodput", "goodput_error", *_OVERHEADS, *more, "outcome"]
    print_table(*table(variables(outcome, variable or main)))
    for lost in [] if variable else by_kind_and_tier(outcome, scenario, axes):
        if lost["time_lost"].size > MOST_ROWS:
            say("time lost by kind and tier is in the file of -o, or with fewer points", err=True)
            break
        say("")
        print_table(*table(lost))
    print_foot(outcome)
