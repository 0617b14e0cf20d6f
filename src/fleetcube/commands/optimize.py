"""The command `fleetcube optimize`."""

import click

from fleetcube.commands import complete
from fleetcube.commands.changed import changed_spec
from fleetcube.commands.progress import progress
from fleetcube.commands.table import print_foot, print_table, to_file, write_table


@click.command()
@click.argument("spec", type=click.Path())
@click.argument("selectors", nargs=-1, shell_complete=complete.selectors)
@click.option("--minimize", shell_complete=complete.quantities, help="Output to minimize.")
@click.option("--maximize", shell_complete=complete.quantities, help="Output to maximize.")
@click.option(
    "--over",
    multiple=True,
    required=True,
    shell_complete=complete.ranges,
    help="Input and range: name=first:last; or choices: name=a,b,c.",
)
@click.option("--subject-to", multiple=True, help='Condition: "job_time <= 30 d".')
@click.option("--infeasible", is_flag=True, help="Allow layouts that do not divide or fit.")
@to_file
def optimize(
    spec: str,
    selectors: tuple[str, ...],
    minimize: str | None,
    maximize: str | None,
    over: tuple[str, ...],
    subject_to: tuple[str, ...],
    infeasible: bool,
    output: str | None,
) -> None:
    """Find the best values of several inputs under conditions, at every point of a spec.

    Axes of these inputs, and their values in the spec, are ignored. Of choices (gpu=a,b), each
    combination is searched, and the best is shown. SELECTORS choose values of the other axes,
    axis=value or axis=value,value, before anything is computed.

    \b
    Example:
      fleetcube optimize examples/scaling-and-reliability.toml \\
          --maximize goodput --over n_gpus=64:16384 \\
          --subject-to "job_time <= 60 d" gpu_mttf=50000h \\
          checkpoint_write_bandwidth=100GB/s layout=pp1
    """
    from fleetcube.grid.ask.optimize import optimize as best
    from fleetcube.grid.errors import InputError
    from fleetcube.grid.show.tables import table

    if (minimize is None) == (maximize is None):
        raise InputError("give either --minimize or --maximize, and one output")
    between, choices = {}, {}
    for text in over:
        name, equals, ends = text.partition("=")
        if equals and "," in ends:
            choices[name] = text
        elif equals and len(ends.split(":")) == 2:
            between[name] = ends.split(":")
        else:
            raise InputError(
                f"--over {text!r} is neither a range nor choices; write name=first:last or name=a,b"
            )
    if not between:
        raise InputError(
            f"--over names only choices ({', '.join(choices)}); for these alone, use "
            f"`fleetcube reduce SPEC arg{'min' if minimize else 'max'} --of {minimize or maximize} "
            f"{' '.join(choices.values())}`"
        )
    if both := between.keys() & choices.keys():
        raise InputError(f"{min(both)} has a range and choices; keep one")
    problem = changed_spec(spec, [*selectors, *choices.values()], between)
    of, sense = (minimize, "min") if minimize is not None else (str(maximize), "max")
    with progress("optimizing"):
        answer = best(problem, of, between, subject_to, sense, not infeasible, "auto", [*choices])
    if output is not None:
        write_table(answer, output)
        return
    status = answer["optimum_status"]
    names = str(status.attrs["flag_meanings"]).split()
    if not (status == names.index("no_feasible_point")).any():
        answer = answer.drop_vars("infeasible_reason", errors="ignore")
    print_table(*table(answer))
    print_foot(answer, between)
