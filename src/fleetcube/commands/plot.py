"""`fleetcube plot`: pictures of a cube."""

from pathlib import Path
from typing import Any, NamedTuple

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import by_phase, step, traffic, with_ends
from fleetcube.commands.shared.picture import drawing, look, looks
from fleetcube.commands.shared.say import say, say_each
from fleetcube.grid.errors import InputError
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import CROSSING, LOSSES

# The options that each kind of picture requires, and those that it allows
_NEEDED = {
    "curves": ("-v", "-x"),
    "map": ("-v", "-x", "-y"),
    "losses": ("-x",),
    "surface": ("-x", "-y"),
    "flips": ("-x", "-y"),
    "roofline": (),
    "pareto": ("-x", "-y"),
    "schedule": (),
    "topology": (),
    "step": (),
    "timeline": (),
}
_ALLOWED = {
    "curves": ("--best",),
    "surface": ("-v",),
    "flips": ("-v",),
    "roofline": ("--by",),
    "pareto": ("--by", "--best"),
}


class _Asked(NamedTuple):
    kind: str
    named: tuple[str, ...]
    x: str | None
    y: str | None
    by: str | None
    best: str | None

    @property
    def senses(self) -> list[str]:
        """Best end ("min" or "max") of each output, for pareto."""
        return (self.best or "min,min").split(",")


@click.command()
@click.argument("cube", type=click.Path())
@click.argument("selectors", nargs=-1, shell_complete=complete.selectors)
@click.option(
    "--kind",
    type=complete.OneOf(tuple(_NEEDED)),
    metavar="KIND",
    help="Kind of picture: see above.  [curves; map with -y]",
)
@click.option(
    "-v",
    "--variable",
    "named",
    multiple=True,
    shell_complete=complete.quantities,
    help="Variable to draw in curves and map; in flips, losses to compare.",
)
@click.option("-x", shell_complete=complete.both, help="Horizontal axis; for pareto an output.")
@click.option(
    "-y", shell_complete=complete.both, help="Vertical axis, for a map; for pareto an output."
)
@click.option(
    "--by",
    shell_complete=complete.inputs,
    help="Axis to colour by, in roofline and pareto.",
)
@click.option(
    "--best",
    help="For pareto min or max of -x and -y  [min,min]; for curves min or max: draw ratios to the "
    "lowest or highest.",
)
@look
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(),
    help="A .png, .pdf or .svg; or .json, a spec of Vega-Lite with its data.",
)
def plot(
    cube: str,
    selectors: tuple[str, ...],
    kind: str | None,
    named: tuple[str, ...],
    x: str | None,
    y: str | None,
    by: str | None,
    best: str | None,
    output: str,
    **given: Any,
) -> None:
    """Draw a cube, with its other axes cut by axis=value.

    \b
    curves    -v over -x, a curve for each point of one more axis; bands of 90 %
              where a calibration gives intervals
    map       -v over -x and -y, with contours; surface is the map of goodput
    losses    where the wall time goes along -x, stacked, with job_time above
    flips     which loss is the largest over -x and -y, the GPUs' own inefficiency
              left out; -v, repeated, names the losses to compare
    roofline  the rates that GPUs could reach and do reach, for each point of --by
    pareto    the best points in two outputs, -x and -y
    schedule  which pipeline stage computes what, and when, in a step of one point
    topology  of a spec, not a cube: the tiers of its network, and which traffic
              crosses them
    step      of a spec: the parts of one step, part within part
    timeline  of a spec with phases: how long each takes, and where its time goes

    \b
    Example:
      fleetcube plot cubes/scaling.zarr -v goodput -x n_gpus -y gpu_mttf \\
          -o goodput.png checkpoint_write_bandwidth=100GB/s
      fleetcube plot cubes/scaling.zarr --kind flips -x n_gpus -y gpu_mttf \\
          -v communication_overhead -v reliability_overhead -o flips.png \\
          checkpoint_write_bandwidth=100GB/s fabric=infiniband-ndr layout=pp1
    """
    from fleetcube.presentation.pictures.vega import check_drawn

    asked = _Asked(kind or ("curves" if y is None else "map"), named, x, y, by, best)
    _check(asked)
    path = Path(output)
    with drawing(looks(given, {"-o": output})):
        check_drawn(path)
        _draw(cube, selectors, asked, path)
    say(f"wrote {output}")


def _draw(cube: str, selectors: tuple[str, ...], asked: _Asked, path: Path) -> None:
    from fleetcube.grid.store.cube import open_cube
    from fleetcube.presentation.pictures import kinds as plot_kinds
    from fleetcube.presentation.pictures.picture import require_variables
    from fleetcube.presentation.pictures.plot import plot as draw
    from fleetcube.presentation.pictures.schedule_picture import draw_schedule
    from fleetcube.presentation.pictures.step_picture import step_boxes, step_picture
    from fleetcube.presentation.pictures.timeline import NAMES as TIMELINE
    from fleetcube.presentation.pictures.timeline import timeline, timeline_boxes
    from fleetcube.presentation.pictures.topology_picture import topology, topology_boxes
    from fleetcube.presentation.pictures.vega import SPEC, box_spec, write_spec
    from fleetcube.schedules.job_schedule import schedule_at
    from fleetcube.tables.selectors import select
    from fleetcube.tables.tables import check_variables

    kind, x, y = asked.kind, asked.x or "", asked.y or ""
    specified = path.suffix == SPEC
    of_specs: dict[str, Any] = {  # inputs read from a spec, their picture and their boxes
        "topology": (lambda: traffic(cube, selectors), topology, topology_boxes),
        "step": (lambda: step(cube, selectors), step_picture, step_boxes),
        "timeline": (lambda: by_phase(cube, selectors, TIMELINE), timeline, timeline_boxes),
    }
    if kind in of_specs:
        read, picture, boxes = of_specs[kind]
        if specified:
            write_spec(box_spec(boxes(read().to_xarray())), path)
        else:
            picture(read().to_xarray(), path)
        return
    dataset = open_cube(cube)
    if REASON in asked.named and REASON in dataset.coords:
        dataset = dataset.reset_coords(REASON)
    check_variables(asked.named, [str(name) for name in dataset.data_vars])
    drawn, more = _variables(asked)
    require_variables(dataset, drawn)
    dataset, notes = select(dataset, selectors)
    if kind == "schedule":
        drawn = [str(name) for name in dataset.data_vars]  # with all axes
    cut = dataset[[*drawn, *(name for name in more if name in dataset)]]
    say_each(notes)
    if specified:
        write_spec(_specification(asked, cut, drawn), path)
    elif kind == "losses":
        plot_kinds.losses(cut, x, path)
    elif kind == "flips":
        plot_kinds.flips(cut, x, y, path, drawn)
    elif kind == "roofline":
        plot_kinds.roofline(cut, path, asked.by)
    elif kind == "pareto":
        plot_kinds.pareto(cut, x, y, path, asked.senses, asked.by)
    elif kind == "schedule":
        draw_schedule(schedule_at(cut), path, "s", cut)
    else:
        if asked.y is None and asked.best is None:
            cut = with_ends(cut, drawn, asked=False)
        draw(cut, drawn[0], x, asked.y, path, asked.best)


def _specification(asked: _Asked, cut: Any, drawn: list[str]) -> dict[str, Any]:
    """A kind of picture of a cube, as a Vega-Lite specification."""
    from fleetcube.presentation.pictures import kinds as plot_kinds
    from fleetcube.presentation.pictures.schedule_picture import schedule_boxes
    from fleetcube.presentation.pictures.vega import box_spec, pareto_spec, roofline_spec, vega_lite
    from fleetcube.schedules.job_schedule import schedule_at

    kind, x, y = asked.kind, asked.x or "", asked.y
    if kind == "roofline":
        return roofline_spec(cut, asked.by)
    if kind == "pareto":
        return pareto_spec(cut, x, y or "", asked.senses, asked.by)
    if kind == "losses":
        return box_spec(plot_kinds.losses_boxes(cut, x))
    if kind == "schedule":
        return box_spec(schedule_boxes(schedule_at(cut), "s"))
    if kind == "flips":
        return vega_lite(plot_kinds.with_flips(cut, drawn), plot_kinds.FLIPS, x, y)
    return vega_lite(cut, drawn[0], x, y, asked.best)


def _check(asked: _Asked) -> None:
    """Refuse a kind with missing options, and options that it does not take."""

    kind, named, *others = asked
    options = {
        "-v": named or None,
        **dict(zip(("-x", "-y", "--by", "--best"), others, strict=True)),
    }
    given = [name for name, value in options.items() if value is not None]
    lacking = [name for name in _NEEDED[kind] if name not in given]
    if lacking:
        raise InputError(f"a picture of {kind} needs {', '.join(lacking)}; give it")
    spare = [name for name in given if name not in (*_NEEDED[kind], *_ALLOWED.get(kind, ()))]
    if spare:
        raise InputError(f"a picture of {kind} does not take {', '.join(spare)}; leave it out")
    if len(named) > 1 and kind != "flips":
        raise InputError(
            f"a picture of {kind} draws one variable, not {', '.join(named)}; give one"
        )


def _variables(asked: _Asked) -> tuple[list[str], list[str]]:
    """The variables that a kind needs, and those that it draws if present."""
    from fleetcube.presentation.pictures import kinds as plot_kinds

    kind, named = asked.kind, asked.named
    if kind == "losses":
        return list(LOSSES), ["job_time"]
    if kind == "roofline":
        return list(plot_kinds.ROOFLINE), [plot_kinds.NETWORK]
    if kind == "pareto":
        return [str(asked.x), str(asked.y)], []
    if kind == "flips":
        return list(named or plot_kinds.WAITS), [CROSSING]
    if kind == "schedule":
        return [], []
    return list(named or ["goodput"]), []
