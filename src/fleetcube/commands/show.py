"""`fleetcube show`: describe a cube."""

import click

from fleetcube.commands.shared.description import describe
from fleetcube.commands.shared.say import say


@click.command()
@click.argument("cube", type=click.Path())
@click.option("--bibtex", is_flag=True, help="Print the cube's sources as BibTeX.")
def show(cube: str, bibtex: bool) -> None:
    """Describe a cube: axes, variables, units, sources.

    \b
    Example:
      fleetcube show cubes/scaling.zarr
      fleetcube show cubes/scaling.zarr --bibtex > scaling.bib
    """
    from fleetcube.grid.store.cube import stored_cube
    from fleetcube.scenario.citations import citations

    if bibtex:
        say(citations(stored_cube(cube)))
    else:
        describe(stored_cube(cube), sources=True)
