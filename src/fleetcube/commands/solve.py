"""The command `fleetcube solve`."""

from pathlib import Path

import click

from fleetcube.commands.progress import progress
from fleetcube.commands.table import print_table, to_file, write_table


@click.command()
@click.argument("spec", type=click.Path())
@click.argument("selectors", nargs=-1)
@click.option("--for", "for_", required=True, help="Input to find.")
@click.option("--target", required=True, help='Condition: "job_time <= 30 d", "a = b" of outputs.')
@click.option("--between", help="Range to search, first:last.  [around the value at hand]")
@click.option("--relaxed", is_flag=True, help="Do not round counts to whole numbers.")
@click.option("--engine", default="auto", help="auto, numpy, numba or jax.  [auto: by size]")
@click.option("--threads", type=int, help="Cores to use.  [all]")
@to_file
def solve(
    spec: str,
    selectors: tuple[str, ...],
    for_: str,
    target: str,
    between: str | None,
    relaxed: bool,
    engine: str,
    threads: int | None,
    output: str | None,
) -> None:
    """Find the value of an input at which an output meets a target, at every point of a spec.

    An axis of that input, and its value in the spec, are left out. SELECTORS choose values of
    the other axes: axis=value, axis=first:last or axis=value,value.

    \b
    Example:
      fleetcube solve examples/scaling-and-reliability.toml --for n_gpus \\
          --target "job_time <= 30 d" gpu_mttf=50000h \\
          checkpoint_write_bandwidth=100GB/s
    """
    from fleetcube.grid.errors import InputError
    from fleetcube.grid.slicing import check_target, narrow, table
    from fleetcube.grid.solve import read_target, solve_spec
    from fleetcube.grid.spec import read_spec

    if output is not None:
        check_target(Path(output))
    ends = None if between is None else between.split(":")
    if ends is not None and len(ends) != 2:
        raise InputError(f"--between {between!r} is not a range; write first:last")
    aim = read_target(target)
    told, notes = narrow(read_spec(spec), selectors, [for_])
    for note in notes:
        click.echo(note, err=True)
    told["outputs"] = aim.outputs
    with progress("solving"):
        found = solve_spec(told, for_, aim, ends, False if relaxed else None, engine, threads)
    if output is not None:
        write_table(found, output)
        return
    print_table(*table(found))
    unsolved = int((found["unsolved_reason"] != 0).sum())
    if unsolved:
        click.echo(f"{unsolved} of {found['unsolved_reason'].size} points have no such {for_}")
