"""`fleetcube verify`: check a cube's files and some of its values."""

import click

from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.say import say, say_each


@click.command()
@click.argument("cube", type=click.Path())
@click.option("--samples", default=16, help="Points of each variable to recompute.  [16]")
def verify(cube: str, samples: int) -> None:
    """Check every file of a cube against its checksum, and recompute some values.

    \b
    Example:
      fleetcube verify cubes/scaling.zarr
    """
    from fleetcube.grid.store.verify import verify as check

    with progress("checking"):
        report = check(cube, samples)
    say_each([*report.notes, *report.problems], err=False)
    if report.guests:
        say(f"not ours, and kept by every run: {report.guests}")
    if report.problems:
        state = "changed" if report.changed else "damaged"
        raise OSError(f"{cube!r} is {state} (problems: {len(report.problems)}); {report.advice}")
    if report.notes:
        say(f"{cube} is as it was sealed: {report.chunks} chunks; no value was recomputed")
    else:
        say(f"{cube} is sound: {report.chunks} chunks and {report.samples} samples")
