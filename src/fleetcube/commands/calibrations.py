"""`fleetcube calibrations`: rank the calibrations of a job, the nearest measured ones first."""

import dataclasses
import textwrap

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed_spec
from fleetcube.commands.shared.say import columns, say, say_json
from fleetcube.commands.shared.table import aligned

_SHOWN = 10
SCALE = "distance: 1 for another precision, 2 software, 4 GPU, 8 layers, added"


@click.command()
@complete.spec_and_selectors
@click.option("--all", "every", is_flag=True, help=f"List all; by default the {_SHOWN} nearest.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def calibrations(spec: str, selectors: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Rank the calibrations that a spec may take, with their predictions.

    The nearest measured steps come first: of the same layers, GPU, software and precision. Axes
    without a value are taken at their middle.

    \b
    Example:
      fleetcube calibrations examples/h100.toml n_gpus=4096
    """
    from fleetcube.analysis.calibrations import calibrations as ranked
    from fleetcube.tables.tables import INTERVAL, estimate

    read = changed_spec(spec, selectors)
    ranking = ranked(read["scenario"], read["axes"])
    if as_json:
        rows = [
            {**dataclasses.asdict(each), "distance": each.distance, "nearness": each.nearness}
            for each in ranking
        ]
        say_json(rows)
        return
    shown = ranking if every else ranking[:_SHOWN]
    cells = []
    for each in shown:
        time = estimate(f"{each.step_time:.4g}", each.step_time, each.low, each.high)
        cells.append([each.label, time, f"{each.distance} {each.nearness}"])
    heads = ["calibration", f"step_time [s] {INTERVAL}", "distance"]
    first, *lines = aligned([heads, *cells], [False, True, True])
    say(first)
    width = columns() or 80
    for line, each in zip(lines, shown, strict=True):
        say(line)
        say(textwrap.fill(each.why, width, initial_indent="  ", subsequent_indent="  "))
    say(SCALE)
    if len(shown) < len(ranking):
        say(f"and {len(ranking) - len(shown)} more: --all")
