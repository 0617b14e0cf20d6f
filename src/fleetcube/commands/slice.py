"""`fleetcube slice`: cut a cube, and print or write what is left."""

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import assumed_of, with_ends
from fleetcube.commands.shared.say import say_each, say_wrapped
from fleetcube.commands.shared.table import (
    every_column,
    print_foot,
    print_table,
    to_file,
    write_table,
)


@click.command("slice")
@click.argument("cube", type=click.Path())
@click.argument("selectors", nargs=-1, shell_complete=complete.selectors)
@complete.variables("Variable to show; may be repeated.  [all]")
@click.option(
    "--interval/--no-interval",
    default=None,
    help="With 90 % intervals.  [in tables, where a calibration gives one]",
)
@to_file
@every_column
def slice_cube(
    cube: str,
    selectors: tuple[str, ...],
    variable: tuple[str, ...],
    interval: bool | None,
    output: str | None,
    every: bool,
) -> None:
    """Cut a cube: axis=value, axis=first:last or axis=value,value.

    Numbers may carry units. Of a numeric axis the nearest point is taken, and reported. A cube
    holds values: their intervals are evaluated here, where the formulas are still those of it.

    \b
    Example:
      fleetcube slice cubes/scaling.zarr n_gpus=1024 layout=pp4 \\
          fabric=infiniband-ndr checkpoint_write_bandwidth=100GB/s \\
          gpu_mttf=50000h -v goodput -v job_time
    """
    from fleetcube.analysis.assumptions import noted
    from fleetcube.grid.store.cube import stored_cube
    from fleetcube.tables.selectors import select
    from fleetcube.tables.tables import table, variables

    whole = stored_cube(cube)
    variables(whole, variable)  # names first
    cut, notes = select(whole, selectors)
    say_each(notes)
    if interval or (interval is None and output is None):
        cut = with_ends(cut, variable, asked=bool(interval))
    cut = variables(cut, variable)
    if output is not None:
        cut.attrs.update(noted(assumed_of(cut)))
        write_table(cut, output, every)
        return
    print_table(*table(cut))
    say_wrapped(*assumed_of(cut), err=True)
    print_foot(cut)
