"""The command `fleetcube scaling-limit`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed_spec
from fleetcube.commands.shared.picture import drawing, look, looks
from fleetcube.commands.shared.points import check_ends
from fleetcube.commands.shared.say import say, say_json, say_wrapped
from fleetcube.commands.shared.table import print_foot, print_table, with_unit
from fleetcube.grid.errors import InputError

if TYPE_CHECKING:
    import xarray

    from fleetcube.grid.run.settings import Engine, Infeasible


@click.command("scaling-limit")
@complete.spec_and_selectors
@click.option("--between", help="GPUs, first:last.  [all that can run, and one past the fastest]")
@click.option("--batch-grows", is_flag=True, help="Grow the given batch with the GPUs.")
@click.option("--search", default="layout", help="Search at each size; none: as given.  [layout]")
@click.option("--where", multiple=True, help='Condition: "facility_power <= 12 MW".')
@click.option("--day-price", help='Most to pay for a day saved, such as "500000 USD".')
@complete.infeasible("exclude")
@complete.engine
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in base units.")
@click.option(
    "-o", "--output", type=click.Path(), help="Picture: .png, .pdf or .svg; .json, of Vega-Lite."
)
@look
def scaling_limit(
    spec: str,
    selectors: tuple[str, ...],
    between: str | None,
    batch_grows: bool,
    search: str,
    where: tuple[str, ...],
    day_price: str | None,
    infeasible: "Infeasible",
    engine: "Engine",
    as_json: bool,
    output: str | None,
    **given: Any,
) -> None:
    """Find where adding GPUs stops helping, and which limit ends it.

    Each size is twice the one before, in the fastest layout of what the spec leaves open of it.
    most_lost_to is the largest reason why doubling gave less than twice the speed. A loss binds
    from the first size where doubling gave less than 1.9 times the speed, mostly because of it;
    batch and layout from the first size that they rule out. SELECTORS change the spec to one
    point: name=value.

    \b
    Example:
      fleetcube scaling-limit examples/h100.toml gpu_mttf=50000h \\
          pipeline_parallel=4 --where "facility_power <= 10 MW"
    """
    from fleetcube.analysis.wall import wall as find
    from fleetcube.grid.run.settings import Settings
    from fleetcube.presentation.pictures.vega import SPEC, box_spec, check_drawn, write_spec
    from fleetcube.presentation.pictures.wall_picture import wall_boxes, wall_picture

    if output is not None:
        check_drawn(Path(output))
    look_options = looks(given, {"-o": output})
    ends = None if between is None else between.split(":")
    if ends is not None and len(ends) != 2:
        raise InputError(f"--between {between!r} is not a range; write first:last")
    problem = changed_spec(spec, selectors, ["n_gpus"])
    how = Settings(engine, infeasible)
    names = [] if search == "none" else search.split(",")
    limits = find(problem, ends, batch_grows, where, day_price, how, names)
    if output is not None:
        path = Path(output)
        with drawing(look_options):
            if path.suffix == SPEC:
                write_spec(box_spec(wall_boxes(limits)), path)
            else:
                wall_picture(limits, path)
    if as_json:
        say_json(limits.to_dict())
        return
    _print(limits)
    print_foot(limits)
    if output is not None:
        say(f"wrote {output}")
    check_ends(limits)


def _print(limits: "xarray.Dataset") -> None:
    """Print the sizes, the limits that bind, and the fastest size."""
    from fleetcube.tables.tables import table

    shown = ["job_time", "speedup", "doubling_gain"]
    spent = ["job_cost" if "job_cost" in limits else "gpu_hours"]
    asked = [str(name) for name in limits["limit"].values]
    spent += [n for n in ("global_batch_size", *asked, "layout") if n in limits and n not in spent]
    ends = [n for n in ("doubling_gain_low", "doubling_gain_high") if n in limits]
    print_table(*table(limits[list(dict.fromkeys([*shown, *ends, *spent, "most_lost_to"]))]))
    binding = limits.isel(limit=limits["binds_from"].notnull().values).sortby("binds_from")
    if binding.sizes["limit"]:
        heads = ["limit", "binds_from", "why"]
        cells = zip(*(binding[head].values for head in heads), strict=True)
        say("")
        print_table(heads, [[str(name), f"{start:,.0f}", str(why)] for name, start, why in cells])
    say("")
    time = with_unit(float(limits["fastest_time"]), "s", "job_time")
    last = f"fastest: {float(limits['fastest_gpus']):,.0f} GPUs, {time}"
    if "sync_wall_gpus" in limits:
        last += (
            f" (sync_wall_gpus, were any count possible: {float(limits['sync_wall_gpus']):,.0f})"
        )
    say_wrapped(last)
