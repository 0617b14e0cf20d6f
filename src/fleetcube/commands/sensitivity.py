"""Which inputs matter: at a point, at each point of a cube, or all at once."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed, changed_and_cut
from fleetcube.commands.shared.picture import drawing, look, looks
from fleetcube.commands.shared.points import left_out
from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.say import say, say_each, say_wrapped
from fleetcube.commands.shared.table import print_foot, print_table, to_file, with_unit, write_table
from fleetcube.grid.errors import InputError
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import MONEY

_OPTIONS = (
    complete.spec_and_selectors,
    click.option(
        "--of", required=True, shell_complete=complete.quantities, help="Output to explain."
    ),
    click.option(
        "--wrt", multiple=True, shell_complete=complete.inputs, help="Input to rank.  [all]"
    ),
    click.option(
        "--without",
        multiple=True,
        shell_complete=complete.inputs,
        help="Input, or kind of inputs, to leave out.",
    ),
    click.option(
        "--kind",
        help="Kinds of inputs: hardware,operations; topics; or all.  [all but the model's]",
    ),
    click.option("--top", default=15, help="Inputs to print; files hold all.  [15]"),
)


def _ranks(command: Any) -> Any:
    """The arguments and options of all three commands."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return to_file(command)


@click.command()
@_ranks
@click.option("--tornado", type=click.Path(), help="Draw the effect of +/-10 % of each input.")
@look
def sensitivity(
    spec: str,
    selectors: tuple[str, ...],
    of: str,
    tornado: str | None,
    title: str | None,
    size: str | None,
    dpi: int | None,
    **asked: Any,
) -> None:
    """Rank the inputs of a spec by their effect on an output, at one point (axis=value).

    --kind all adds inputs of the model, formulas and nodes as sold. Axes without a value are taken
    at their middle. Files are in base units. An elasticity of -0.9 means that 1 % more of the input
    makes the output 0.9 % smaller.

    \b
    Example:
      fleetcube sensitivity examples/scaling-and-reliability.toml \\
          --of job_time n_gpus=4096
      fleetcube sensitivity examples/scaling-and-reliability.toml \\
          --of job_time --kind hardware,fabric,operations
    """
    from fleetcube.analysis.assumptions import at_last
    from fleetcube.analysis.sensitivity import cut
    from fleetcube.presentation.pictures.sensitivity_picture import tornado as draw_tornado
    from fleetcube.presentation.pictures.sensitivity_picture import tornado_boxes
    from fleetcube.presentation.pictures.vega import SPEC, box_spec, check_drawn, write_spec

    if tornado is not None:
        check_drawn(Path(tornado))
    look_options = looks({"title": title, "size": size, "dpi": dpi}, {"--tornado": tornado})
    sweep, point = changed_and_cut(spec, selectors, [of])
    at_point = cut(sweep, point)[0]
    chosen, left = _chosen(at_point, of, asked)
    with progress("evaluating"):
        ranking = sweep.rank_inputs(of, chosen, at=point)
    _output_ranking(ranking, of, asked, left, _print_levers)
    if asked["output"] is None:
        say_wrapped(*at_last(at_point), err=True)
    if tornado is not None:
        drawn, top = Path(tornado), asked["top"]
        with drawing(look_options):
            if drawn.suffix == SPEC:
                write_spec(box_spec(tornado_boxes(ranking.to_xarray(), of, top)), drawn)
            else:
                draw_tornado(ranking.to_xarray(), of, drawn, top)
        say(f"wrote {tornado}", err=_is_quiet(asked))


@click.command("dominant-inputs")
@_ranks
@click.option("--map", "picture", type=click.Path(), help="Draw a map of it over axes -x and -y.")
@click.option("-x", shell_complete=complete.inputs, help="Horizontal axis, for --map.")
@click.option("-y", shell_complete=complete.inputs, help="Vertical axis, for --map.")
@complete.infeasible("exclude")
@look
def dominant_inputs(
    spec: str,
    selectors: tuple[str, ...],
    of: str,
    picture: str | None,
    x: str | None,
    y: str | None,
    infeasible: Any,
    title: str | None,
    size: str | None,
    dpi: int | None,
    **asked: Any,
) -> None:
    """Find the input with the largest elasticity at each point of a spec's axes.

    SELECTORS override the spec. With --map, axes other than -x and -y that have no value are taken
    at their middle.

    \b
    Example:
      fleetcube dominant-inputs examples/scaling-and-reliability.toml --of goodput
      fleetcube dominant-inputs examples/scaling-and-reliability.toml \\
          --of goodput --map lever.png -x n_gpus -y gpu_mttf
    """
    from fleetcube.analysis.sensitivity import cut
    from fleetcube.grid.run.settings import Settings
    from fleetcube.presentation.pictures.picture import check_picture
    from fleetcube.presentation.pictures.sensitivity_picture import dominance_map

    if (picture is None) != (x is None) or (x is None) != (y is None) or (x and x == y):
        raise InputError("--map FILE goes with two axes: -x AXIS -y AXIS")
    if picture is not None:
        check_picture(Path(picture))
    look_options = looks({"title": title, "size": size, "dpi": dpi}, {"--map": picture})
    if picture is None:
        sweep, place = changed(spec, selectors, [of]), ""
    else:
        sweep, place = cut(*changed_and_cut(spec, selectors, [of]), free=[str(x), str(y)])
    chosen, left = _chosen(sweep, of, asked)
    judged = REASON in sweep._plan("numpy").outputs
    with progress("evaluating"):
        dominance = sweep.dominant_inputs(
            of, chosen, settings=Settings(infeasible=infeasible if judged else "mark")
        )
    if not dominance["elasticity_median"].notnull().any():
        raise InputError("; ".join(filter(None, ["no point is left", left_out(sweep)])))
    order = dominance["share"].values.argsort(kind="stable")[::-1]
    _output_ranking(dominance.isel(input=order), of, asked, left, _print_cube)
    if picture is not None:
        with drawing(look_options):
            dominance_map(dominance.to_xarray(), of, str(x), str(y), place, Path(picture))
        say(f"wrote {picture}", err=_is_quiet(asked))


@click.command("global-sensitivity")
@_ranks
@click.option(
    "--method",
    type=complete.OneOf(["sobol", "morris"]),
    default="sobol",
    help="Sobol indices or Morris effects.  [sobol]",
)
@click.option("--samples", type=int, default=100_000, help="Points to evaluate.  [100000]")
@click.option(
    "--range", "spread", default="20%", help="Range of inputs without a distribution.  [20%]"
)
@click.option("--seed", type=int, default=0, help="Seed of the samples.  [0]")
def global_sensitivity(
    spec: str,
    selectors: tuple[str, ...],
    of: str,
    method: Any,
    samples: int,
    spread: str,
    seed: int,
    **asked: Any,
) -> None:
    """Rank inputs by how much of an output's variance they explain when all of them vary.

    At one point (axis=value); axes without a value are taken at their middle. All inputs vary,
    but for whole numbers without a distribution.

    \b
    Example:
      fleetcube global-sensitivity examples/scaling-and-reliability.toml \\
          --of job_time
    """
    from fleetcube.analysis.sensitivity import ALL, cut

    named = bool(asked["wrt"] or asked["without"] or asked["kind"])
    sweep, point = changed_and_cut(spec, selectors, [of])
    chosen, left = _chosen(cut(sweep, point)[0], of, asked, ALL)
    with progress("evaluating"):
        ranking = sweep.global_sensitivity(
            of,
            chosen if named else None,
            method=method,
            at=point,
            samples=samples,
            spread=_share(spread),
            seed=seed,
        )
    _output_ranking(ranking, of, asked, left, _print_global)


def _output_ranking(
    ranking: Any,
    quantity: str,
    asked: dict[str, Any],
    left: int,
    printed: Callable[[Any, str, int], None],
) -> None:
    """Print a ranking, or write it."""
    output, top = asked["output"], asked["top"]
    if output is not None:
        rows = [n for n, variable in ranking.data_vars.items() if {*variable.dims} <= {"input"}]
        write_table(ranking[rows], output)
    else:
        printed(ranking, quantity, top)
        print_foot(ranking)
    if left:
        remark = f"{left} inputs of the model, formulas and nodes as sold not shown: --kind all"
        say_wrapped(remark, err=_is_quiet(asked))


def _is_quiet(asked: dict[str, Any]) -> bool:
    """Whether the output format is for programs."""
    return bool(asked["output"] == "-")


def _chosen(
    sweep: Any, quantity: str, asked: dict[str, Any], default: str | None = None
) -> tuple[list[str], int]:
    """The inputs to rank, and how many are omitted because no kind was named."""
    from fleetcube.analysis.sensitivity import ALL, among, check_levers

    if asked["top"] < 1:
        raise InputError(f"--top {asked['top']} shows nothing; give a number above 0")
    kind, wrt, without = asked["kind"] or default, asked["wrt"], asked["without"]
    kinds = None if kind is None else kind.split(",")
    plan = sweep._plan("numpy")
    inputs = check_levers(plan, quantity, wrt or None)
    if not inputs:
        raise InputError(
            f"{quantity} depends on no number here (it may be given); name another quantity"
        )
    named = [ALL] if wrt and kinds is None else kinds
    chosen = among(plan, inputs, named, without)
    whole = among(plan, inputs, [ALL], without) if named is None else chosen
    return chosen, len(whole) - len(chosen)


def _share(text: str) -> float:

    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise InputError(f"--range {text} is not a share; give one such as 20% or 0.2")
    return share


def _place(ranking: Any) -> str:
    """The point, in words."""
    point = ranking.attrs.get("fleetcube_point")
    reason = ranking.attrs.get("fleetcube_infeasible")
    place = f"at {point}" if point else ""
    return f"{place} (infeasible: {reason})" if reason else place


def _print_levers(ranking: Any, quantity: str, top: int) -> None:
    """Print what people choose or buy, then what a calibration measures."""
    from fleetcube.catalog.entry import FITTED, KINDS

    unit = ranking[quantity].attrs["units"]
    if not math.isfinite(ranking[quantity].item()):
        place = f"{quantity} is not finite {_place(ranking)}".rstrip()
        raise InputError(f"{place}: nothing ranks its inputs; change the scenario")
    value_text = with_unit(ranking[quantity].item(), unit, quantity)
    say(f"{quantity} = {value_text} {_place(ranking)}".rstrip())
    rows = []
    for row in _each(ranking, top):
        name, value = row["input"], row["value"]
        cells = [name, row["topic"], with_unit(value, row["units"], name)]
        cells.append(f"{row['elasticity']:z.3g}")
        for side, step in (("below", 0.9), ("above", 1.1)):
            moved_to = row[f"value_{side}"]
            moved = row[f"{quantity}_{side}"]
            cell = with_unit(moved, unit, quantity) if moved == moved else "cannot run"
            if moved_to == value:
                cell = "-"
            elif row["kind"] == "difference" or abs(moved_to / value - step) > 1e-9:
                cell += f" (at {with_unit(moved_to, row['units'], name)})"
            cells.append(cell)
        rows.append(cells)
    measured = [cells for cells in rows if cells[1] == "software" and cells[0] in KINDS[FITTED]]
    parts = [cells for cells in rows if cells not in measured], measured
    for part, heading in zip(parts, ("", "measured, for nobody to choose:"), strict=True):
        say_each([heading] * bool(heading and part), err=False)
        heads = ["input", "kind", "value", "elasticity", f"{quantity}: -10 %", "+10 %"]
        print_table(heads, part) if part else None
    say_wrapped(
        f"elasticity: change of {quantity} in % for 1 % more of the input; "
        "whole numbers move to the nearest that divide"
    )
    if MONEY in ranking and quantity != MONEY and math.isfinite(ranking[MONEY].item()):
        _print_money(ranking, quantity, top)
    _rest(ranking, top)


def _print_money(ranking: Any, quantity: str, top: int) -> None:
    """Print the effect of the same moves, in units and in money."""

    rows = []
    for row in _each(ranking, top):
        cells = [row["input"]]
        for name in (quantity, MONEY):
            for side in ("below", "above"):
                moved = row[f"{name}_{side}"] - ranking[name].item()
                still = row[f"value_{side}"] == row["value"] or math.isnan(moved)  # cannot run
                text = with_unit(moved, ranking[name].attrs["units"], name)
                cells.append("-" if still else text if moved <= 0 else f"+{text}")
        rows.append(cells)
    say("")
    money = with_unit(ranking[MONEY].item(), ranking[MONEY].attrs["units"], MONEY)
    say(f"the same as changes; {MONEY} = {money}")
    print_table(["input", f"{quantity}: -10 %", "+10 %", f"{MONEY}: -10 %", "+10 %"], rows)


def _print_global(ranking: Any, quantity: str, top: int) -> None:
    from fleetcube.analysis.sensitivity import kind_of
    from fleetcube.kernels.physics.graph import PHYSICS
    from fleetcube.tables.tables import estimate

    sobol = "total" in ranking
    place = _place(ranking)
    around = f", around {place.removeprefix('at ')}" if place else ""
    say(f"{quantity} over {ranking.attrs['fleetcube_evaluations']:,} samples{around}")
    shown = ["first_order", "total"] if sobol else ["effect"]
    rows = []
    for row in _each(ranking, top):
        name = row["input"]
        ends = (with_unit(row[end], row["units"], name) for end in ("low", "high"))
        cells = [name, kind_of(PHYSICS, name), *ends]
        if sobol:
            both = [(row[n], row[f"{n}_error"]) for n in shown]
            cells += [estimate(f"{v:.3f}", v, v - error, v + error) for v, error in both]
        else:
            unit = ranking["effect"].attrs["units"]
            cells += [
                with_unit(row[n], unit, quantity) for n in ("effect", "mean_effect", "effect_std")
            ]
        rows.append(cells)
    headings = ["first order", "total"] if sobol else ["effect", "mean", "std. dev."]
    print_table(["input", "kind", "from", "to", *headings], rows)
    if sobol:
        say_wrapped(
            f"first order: share of the variance of {quantity} that the input explains alone; "
            "total: with its interactions (95 % intervals)"
        )
    else:
        say_wrapped(
            f"effect: mean size of the change of {quantity} when the input crosses its range; a "
            "large standard deviation means interactions with others, or nonlinearity"
        )
    still = str(ranking.attrs["fleetcube_left_out"]).split()
    if still:
        say_wrapped(
            f"{len(still)} inputs do not vary (whole, 0 or infinite): give one a distribution "
            "in the spec"
        )
    _rest(ranking, top)


def _print_cube(ranking: Any, quantity: str, top: int) -> None:
    from fleetcube.analysis.sensitivity import kind_of
    from fleetcube.kernels.physics.graph import PHYSICS

    rows = []
    for row in _each(ranking, top):
        ends = [f"{row[f'elasticity_{n}']:.3g}" for n in ("min", "median", "max")]
        same = row["same_as"] if row["same_as"] != row["input"] else ""
        share = f"{100 * row['share']:.1f} %"
        rows.append([row["input"], kind_of(PHYSICS, row["input"]), share, *ends, same])
    print_table(["input", "kind", "dominates", "elasticity: min", "median", "max", "same as"], rows)
    say_wrapped(
        f"dominates: share of the points at which it has the largest elasticity of {quantity}; of "
        "equal inputs the first is named"
    )
    _rest(ranking, top)


def _each(ranking: Any, top: int) -> list[dict[str, Any]]:
    """The first `top` inputs as rows, by column."""
    columns = {
        n: variable for n, variable in ranking.variables.items() if variable.dims == ("input",)
    }
    first = range(ranking.sizes["input"])[:top]
    return [{name: variable.values[k].item() for name, variable in columns.items()} for k in first]


def _rest(ranking: Any, top: int) -> None:
    more = ranking.sizes["input"] - top
    if more > 0:
        say(f"{more} more inputs: --top {top + more} shows them")
