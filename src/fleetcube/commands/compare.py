"""`fleetcube compare`: what changes from one spec to another, by how much, because of what."""

import json
from typing import Any

import click

from fleetcube.commands.changed import changed
from fleetcube.commands.say import say
from fleetcube.commands.table import print_table, told_number


@click.command()
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@click.argument("selectors", nargs=-1)
@click.option("--of", "of", help="Quantity to attribute to inputs.  [job_time, if both have it]")
@click.option("--over", multiple=True, help="Axis of both specs to keep whole; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def compare(
    a: str, b: str, selectors: tuple[str, ...], of: str | None, over: tuple[str, ...], as_json: bool
) -> None:
    """Compare two specs at a point (axis=value), or over axes that both have.

    Where no value is given, the middle of an axis is taken. Times and costs are taken apart into
    terms that add up. Of the entries that differ, `alone` is what changing only this one does to A,
    `last` what it does when all else is as in B, `factor` the mean over all orders.

    \b
    Example:
      fleetcube compare examples/h100.toml examples/b200.toml n_gpus=4096
      fleetcube compare examples/h100.toml examples/b200.toml --over n_gpus \\
          --of job_cost
    """
    from fleetcube.grid.ask.compare import compare as held_against
    from fleetcube.grid.show.selectors import pairs
    from fleetcube.grid.show.tables import finite

    sweeps = (changed(a), changed(b))
    found = held_against(*sweeps, of=of, at=pairs(selectors), over=over)
    if as_json:
        say(json.dumps(finite(_told(found))))
        return
    for side, spec, point, reason in zip("AB", (a, b), found.points, found.infeasible, strict=True):
        told = f" (infeasible: {reason})" if reason else ""
        say(f"{side}: {spec}{f' at {point}' if point else ''}{told}")
    say()
    _outputs(found)
    for name in dict.fromkeys(["step_time", found.of]):
        if f"{name}_terms" in found.values:
            _terms(found, name)
    _changes(found)
    _inputs(found)


def _told(found: Any) -> dict[str, Any]:
    """A comparison as JSON can hold it."""
    shares = ("alone", "last", "factor")
    changes = []
    for change in found.changes:
        numbers = {name: getattr(change, name) for name in shares}
        rows = {name: getattr(row, "values", row) for name, row in numbers.items()}
        changes.append({"name": change.name, "a": change.a, "b": change.b, **rows})
    return {
        "of": found.of,
        "point": dict(zip("ab", found.points, strict=True)),
        "infeasible": dict(zip("ab", found.infeasible, strict=True)),
        "values": found.values.to_dict(),
        "changes": changes,
        "inputs": [dict(zip(("name", "a", "b"), row, strict=True)) for row in found.inputs],
    }


def _outputs(found: Any) -> None:
    from fleetcube.grid.show.tables import counted

    rows = []
    for name, variable in found.values.items():
        if str(name).endswith("_terms"):
            continue
        ratio = _ratio(variable)
        unit = variable.attrs["units"]
        sides = [told_number(_mean(variable, side), unit, str(name)) for side in "ab"]
        numbers = [float(part) for part in (ratio.median(), ratio.min(), ratio.max())]
        shown = f"{name}{counted(variable.attrs)}"
        rows.append([shown, *sides, *("-" if n != n else f"{n:.4g}" for n in numbers)])
    over = _over(found)
    ratios = ["B / A: median", "min", "max"] if over else ["B / A"]
    print_table(["output", *_sides(over), *ratios], [row[: 3 + len(ratios)] for row in rows])


def _terms(found: Any, name: str) -> None:
    from fleetcube.grid.show.tables import scale

    variable = found.values[name]
    means = [_mean(variable, side) for side in "ab"]
    factor, shown = scale(variable.attrs["units"], means, name)
    whole = means[1] - means[0]
    over = _over(found)
    rows = []
    terms = found.values[f"{name}_terms"]
    for term in terms[f"{name}_term"].values:
        row = terms.sel({f"{name}_term": term}, drop=True)
        ends = [_mean(row, side) for side in "ab"]
        share = f"{100 * (ends[1] - ends[0]) / whole:.1f} %" if whole else "-"
        rows.append([str(term), *_row(ends, factor), share])
    rows.append(["total", *_row(means, factor), "100.0 %" if whole else "-"])
    say(f"\n{name} by term, in {shown}{': means over ' + over if over else ''}")
    print_table(["term", "A", "B", "B - A", "share of B - A"], rows)


def _row(ends: list[float], factor: float) -> list[str]:
    numbers = [value / factor for value in (*ends, ends[1] - ends[0])]
    return [f"{n:,.0f}" if abs(n) >= 1e3 else f"{n:.4g}" for n in numbers]


def _changes(found: Any) -> None:
    if not found.changes:
        say("\nthe specs say the same here")
        return
    rows = []
    for change in sorted(found.changes, key=lambda c: -abs(_middle(c.factor) - 1)):
        effects = [_middle(row) for row in (change.alone, change.last, change.factor)]
        cells = ["-" if value != value else f"{value:.4g}" for value in effects]
        rows.append([change.name, *(_entry(change.name, v) for v in (change.a, change.b)), *cells])
    over = _over(found)
    say(f"\nwhat differs, and by what it multiplies {found.of}{' (medians)' if over else ''}")
    print_table(["entry", "A", "B", "alone", "last", "factor"], rows)
    total = float(_ratio(found.values[found.of]).median())
    say(
        "alone: A with only this changed; last: changed after all others; factor: mean over all "
        f"orders{'' if over else f'; the factors multiply to {total:.4g}'}"
    )


def _inputs(found: Any) -> None:
    from fleetcube.grid.spec.values import unit_of

    if found.inputs:
        say("\nset by labels")
        rows = [
            [name, *("-" if v != v else told_number(v, unit_of(name), name) for v in ends)]
            for name, *ends in found.inputs
        ]
        print_table(["input", "A", "B"], rows)


def _entry(name: str, value: Any) -> str:
    from fleetcube.grid.spec.values import unit_of

    if value is None:
        return "-"
    if isinstance(value, float):
        return told_number(value, unit_of(name), name)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ratio(variable: Any) -> Any:
    return variable.sel(scenario="b") / variable.sel(scenario="a")


def _mean(variable: Any, side: str) -> float:
    return float(variable.sel(scenario=side).mean())


def _middle(row: Any) -> float:
    return float(row.median()) if hasattr(row, "median") else float(row)


def _over(found: Any) -> str:
    """The axes that stay whole."""
    own = [str(dim) for dim in found.values.dims]
    return ", ".join(dim for dim in own if dim != "scenario" and not dim.endswith("_term"))


def _sides(over: str) -> list[str]:
    return ["A: mean", "B: mean"] if over else ["A", "B"]
