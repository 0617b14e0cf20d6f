"""`fleetcube sensitivity`: which inputs matter, at a point, over a cube, or all at once."""

import json
from pathlib import Path
from typing import Any

import click

from fleetcube.commands import complete
from fleetcube.commands.changed import changed
from fleetcube.commands.picture import drawing, look, looks
from fleetcube.commands.progress import progress
from fleetcube.commands.say import say, say_wrapped
from fleetcube.commands.table import print_foot, print_table, to_file, with_unit, write_table


@click.command()
@click.argument("spec", type=click.Path())
@click.argument("selectors", nargs=-1, shell_complete=complete.selectors)
@click.option(
    "--of",
    "of",
    required=True,
    shell_complete=complete.quantities,
    help="Quantity that the inputs act on.",
)
@click.option(
    "--wrt",
    multiple=True,
    shell_complete=complete.inputs,
    help="Input to rank; may be repeated.  [all]",
)
@click.option(
    "--without",
    multiple=True,
    shell_complete=complete.inputs,
    help="Input, or kind of inputs, to leave out; may be repeated.",
)
@click.option(
    "--kind",
    help="Who can change them: hardware,operations; or headings, or all.  [all but the model's]",
)
@click.option("--top", default=15, help="Inputs to print; files hold all.  [15]")
@click.option("--tornado", type=click.Path(), help="Draw what +/-10 % of each input does.")
@click.option("--cube", is_flag=True, help="Rank over all points of the spec, not at one.")
@click.option("--map", "picture", type=click.Path(), help="Draw which input matters most, where.")
@click.option("-x", shell_complete=complete.inputs, help="Horizontal axis, for --map.")
@click.option("-y", shell_complete=complete.inputs, help="Vertical axis, for --map.")
@click.option(
    "--global",
    "method",
    type=complete.OneOf(["sobol", "morris"]),
    help="Vary all inputs at once: Sobol indices or Morris effects.",
)
@click.option("--samples", type=int, help="Evaluations, for --global.  [100000]")
@click.option("--range", "spread", help="Range of inputs without a distribution.  [20%]")
@click.option("--seed", type=int, help="Seed of the samples, for --global.  [0]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@look
@to_file
def sensitivity(
    spec: str,
    selectors: tuple[str, ...],
    of: str,
    wrt: tuple[str, ...],
    without: tuple[str, ...],
    kind: str | None,
    top: int,
    tornado: str | None,
    cube: bool,
    picture: str | None,
    x: str | None,
    y: str | None,
    method: str | None,
    samples: int | None,
    spread: str | None,
    seed: int | None,
    as_json: bool,
    output: str | None,
    **given: Any,
) -> None:
    """Rank the inputs of a spec by what they do to a quantity, at one point: axis=value.

    Inputs of the model and of laws are left out: --kind all shows them. Axes without a value are
    cut in the middle. Files are in base units. An elasticity of -0.9 means that 1 % more of the
    input makes the quantity 0.9 % smaller.

    \b
    Example:
      fleetcube sensitivity examples/scaling-and-reliability.toml \\
          --of job_time n_gpus=4096
      fleetcube sensitivity examples/scaling-and-reliability.toml \\
          --of job_time --kind hardware,fabric,operations
      fleetcube sensitivity examples/scaling-and-reliability.toml --of goodput \\
          --map lever.png -x n_gpus -y gpu_mttf
      fleetcube sensitivity examples/scaling-and-reliability.toml \\
          --of job_time --global sobol
    """
    from fleetcube.grid.ask.sensitivity import ALL, cut
    from fleetcube.grid.errors import InputError
    from fleetcube.grid.plots.picture import check_picture
    from fleetcube.grid.plots.sensitivity import dominance_map, tornado_boxes
    from fleetcube.grid.plots.sensitivity import tornado as draw_tornado
    from fleetcube.grid.plots.vega import SPEC, box_spec, check_drawn, write_spec
    from fleetcube.grid.show.selectors import pairs
    from fleetcube.grid.show.tables import finite
    from fleetcube.kernels.roles import REASON

    _check_alone(method, cube, tornado, picture, (samples, spread, seed), selectors)
    if top < 1:
        raise InputError(f"--top {top} shows nothing; give a number above 0")
    if (picture is None) != (x is None) or (x is None) != (y is None) or (x and x == y):
        raise InputError("--map FILE goes with two axes: -x AXIS -y AXIS")
    for name in (tornado, picture):
        if name is not None:
            (check_drawn if name == tornado else check_picture)(Path(name))
    said = looks(given, {"--tornado": tornado, "--map": picture})
    at = pairs(selectors)
    sweep = changed(spec, (), [of])
    kinds = None if kind is None else kind.split(",")
    if method is not None and kind is None:
        kinds = [ALL]  # all uncertain inputs, whoever can change them
    point = sweep if cube else cut(sweep, at)[0]
    chosen, left = _chosen(point, of, wrt, kinds, without)
    with progress("evaluating"):
        if method is not None:
            ranking = sweep.global_sensitivity(
                of,
                method,
                chosen if wrt or without or kind else None,
                at=at,
                samples=100_000 if samples is None else samples,
                spread=_share(spread or "20%"),
                seed=seed or 0,
            )
        elif cube:
            judged = REASON in sweep.plan("numpy").outputs
            ranking = sweep.dominance(of, chosen, mask_infeasible=judged)
            ranking = ranking.sortby("share", ascending=False)
        else:
            ranking = sweep.levers(of, chosen, at=at)
    if output is not None:
        write_table(ranking.drop_dims([dim for dim in ranking.dims if dim != "input"]), output)
    elif as_json:
        say(json.dumps(finite(_each(ranking, top))))
    else:
        _print(ranking, of, top)
        print_foot(ranking)
    quiet = as_json or output == "-"
    if left:
        say(f"inputs of the model and of laws left out: {left}; --kind all shows them", err=quiet)
    if tornado is not None:
        drawn = Path(tornado)
        with drawing(said):
            if drawn.suffix == SPEC:
                write_spec(box_spec(tornado_boxes(ranking, of, top)), drawn)
            else:
                draw_tornado(ranking, of, drawn, top)
        say(f"wrote {tornado}", err=quiet)
    if picture is not None and x is not None and y is not None:
        flat, place = cut(sweep, at, free=[x, y])
        dominant = flat.dominance(of, _chosen(flat, of, wrt, kinds, without)[0])
        with drawing(said):
            dominance_map(dominant, of, x, y, place, Path(picture))
        say(f"wrote {picture}", err=quiet)


def _check_alone(
    method: str | None,
    cube: bool,
    tornado: str | None,
    picture: str | None,
    settings: tuple[Any, ...],
    selectors: tuple[str, ...],
) -> None:
    from fleetcube.grid.errors import InputError

    if method is None and any(setting is not None for setting in settings):
        raise InputError("--samples, --range and --seed are for --global sobol or --global morris")
    if (method is not None and (cube or tornado or picture)) or (cube and tornado):
        raise InputError("--global, --cube and --tornado answer different questions; ask one")
    if cube and selectors:
        raise InputError(f"--cube ranks over all points; leave out {selectors[0]!r}")


def _chosen(
    sweep: Any, of: str, wrt: tuple[str, ...], kinds: list[str] | None, without: tuple[str, ...]
) -> tuple[list[str], int]:
    """The inputs to rank, and how many are omitted because no kind was named."""
    from fleetcube.grid.ask.sensitivity import ALL, among, check_levers
    from fleetcube.grid.errors import InputError

    plan = sweep.plan("numpy")
    inputs = check_levers(plan, of, wrt or None)
    if not inputs:
        raise InputError(f"{of} depends on no number here (it may be given); name another quantity")
    named = [ALL] if wrt and kinds is None else kinds
    chosen = among(plan, inputs, named, without)
    whole = among(plan, inputs, [ALL], without) if named is None else chosen
    return chosen, len(whole) - len(chosen)


def _share(text: str) -> float:
    from fleetcube.grid.errors import InputError

    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise InputError(f"--range {text} is not a share; give one such as 20% or 0.2")
    return share


def _print(ranking: Any, of: str, top: int) -> None:
    point = ranking.attrs.get("fleetcube_point")
    reason = ranking.attrs.get("fleetcube_infeasible")
    place = f"at {point}" if point else ""
    if reason:
        place += f" (infeasible: {reason})"
    if "share" in ranking:
        _print_cube(ranking, of, top)
    elif "value" in ranking:
        base = with_unit(ranking[of].item(), ranking[of].attrs["units"], of)
        say(f"{of} = {base} {place}".rstrip())
        _print_levers(ranking, of, top)
    else:
        count = ranking.attrs["fleetcube_evaluations"]
        around = f", around {place.removeprefix('at ')}" if place else ""
        say(f"{of} over {count:,} samples{around}")
        _print_global(ranking, of, top)


def _print_levers(ranking: Any, of: str, top: int) -> None:
    from fleetcube.kernels.roles import MONEY

    unit = ranking[of].attrs["units"]
    rows = []
    for row in _each(ranking, top):
        name, value = row["input"], row["value"]
        cells = [name, row["topic"], with_unit(value, row["units"], name)]
        cells.append(f"{row['elasticity']:z.3g}")
        for side, step in (("below", 0.9), ("above", 1.1)):
            at = row[f"value_{side}"]
            cell = with_unit(row[f"{of}_{side}"], unit, of)
            if at == value:
                cell = "-"
            elif row["kind"] == "difference" or abs(at / value - step) > 1e-9:
                cell += f" (at {with_unit(at, row['units'], name)})"
            cells.append(cell)
        rows.append(cells)
    print_table(["input", "kind", "value", "elasticity", f"{of}: -10 %", "+10 %"], rows)
    say(
        f"elasticity: change of {of} in % for 1 % more of the input; "
        "whole numbers take the nearest that divide, fit or not"
    )
    if MONEY in ranking and of != MONEY:
        _print_money(ranking, of, top)
    _rest(ranking, top)


def _print_money(ranking: Any, of: str, top: int) -> None:
    """Print the effect of the same moves, in units and in money."""
    from fleetcube.kernels.roles import MONEY

    rows = []
    for row in _each(ranking, top):
        cells = [row["input"]]
        for name in (of, MONEY):
            for side in ("below", "above"):
                moved = row[f"{name}_{side}"] - ranking[name].item()
                still = row[f"value_{side}"] == row["value"]
                text = with_unit(moved, ranking[name].attrs["units"], name)
                cells.append("-" if still else text if moved <= 0 else f"+{text}")
        rows.append(cells)
    say("")
    money = with_unit(ranking[MONEY].item(), ranking[MONEY].attrs["units"], MONEY)
    say(f"the same as changes; {MONEY} = {money}")
    print_table(["input", f"{of}: -10 %", "+10 %", f"{MONEY}: -10 %", "+10 %"], rows)


def _print_global(ranking: Any, of: str, top: int) -> None:
    from fleetcube.grid.ask.sensitivity import kind_of

    sobol = "total" in ranking
    shown = ["first_order", "total"] if sobol else ["effect"]
    rows = []
    for row in _each(ranking, top):
        name = row["input"]
        ends = (with_unit(row[end], row["units"], name) for end in ("low", "high"))
        cells = [name, kind_of(name), *ends]
        if sobol:
            cells += [f"{row[n]:.3f} +/- {row[f'{n}_error']:.3f}" for n in shown]
        else:
            unit = ranking["effect"].attrs["units"]
            cells += [with_unit(row[n], unit, of) for n in ("effect", "mean_effect", "effect_std")]
        rows.append(cells)
    headings = ["first order", "total"] if sobol else ["effect", "mean", "std. dev."]
    print_table(["input", "kind", "from", "to", *headings], rows)
    if sobol:
        say_wrapped(
            f"first order: share of the variance of {of} that the input explains alone; "
            "total: with what it does together with others (95 % intervals)"
        )
    else:
        say_wrapped(
            f"effect: mean size of the change of {of} when the input crosses its range; a large "
            "standard deviation says that it depends on the others, or is not linear"
        )
    left_out = str(ranking.attrs["fleetcube_left_out"]).split()
    if left_out:
        say_wrapped(
            f"{len(left_out)} inputs do not vary, being whole, 0 or infinite: a distribution in "
            "the spec makes one vary"
        )
    _rest(ranking, top)


def _print_cube(ranking: Any, of: str, top: int) -> None:
    from fleetcube.grid.ask.sensitivity import kind_of

    rows = []
    for row in _each(ranking, top):
        ends = [f"{row[f'elasticity_{n}']:.3g}" for n in ("min", "median", "max")]
        same = row["same_as"] if row["same_as"] != row["input"] else ""
        share = f"{100 * row['share']:.1f} %"
        rows.append([row["input"], kind_of(row["input"]), share, *ends, same])
    print_table(["input", "kind", "dominates", "elasticity: min", "median", "max", "same as"], rows)
    say_wrapped(
        f"dominates: share of the points at which it has the largest elasticity of {of}; of equal "
        "inputs the first is named"
    )
    _rest(ranking, top)


def _each(ranking: Any, top: int) -> list[dict[str, Any]]:
    """The first `top` inputs as rows, by column."""
    own = ranking.drop_dims([dim for dim in ranking.dims if dim != "input"]).isel(input=slice(top))
    names = [n for n, variable in own.variables.items() if variable.dims == ("input",)]
    return [{str(n): own[n].values[k].item() for n in names} for k in range(own.sizes["input"])]


def _rest(ranking: Any, top: int) -> None:
    more = ranking.sizes["input"] - top
    if more > 0:
        say(f"{more} more inputs: --top {top + more} shows them")
