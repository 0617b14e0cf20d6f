"""`fleetcube compare`: show which outputs differ between two specs, by how much and why."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed
from fleetcube.commands.shared.say import say, say_json, say_wrapped
from fleetcube.commands.shared.table import print_table, with_unit
from fleetcube.grid.errors import InputError

_BEST = "best"  # in place of a second spec
_ROUNDING = 1e-12  # of a term


@click.command()
@complete.spec("a")
@click.argument(
    "selectors", metavar="[B] [SELECTORS]...", nargs=-1, shell_complete=complete.selectors
)
@click.option(
    "--of",
    "of",
    shell_complete=complete.quantities,
    help="Quantity to attribute to inputs.  [job_time, if both have it]",
)
@click.option(
    "--over",
    multiple=True,
    shell_complete=complete.inputs,
    help="Axis of both specs to keep; may be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def compare(
    a: str, selectors: tuple[str, ...], of: str | None, over: tuple[str, ...], as_json: bool
) -> None:
    """Compare two specs, one under two values (name=value,value), or one with its best layout.

    They are compared at a point (axis=value), or over axes that both have.

    Axes without a value are taken at their middle. At a point, a side that states no degree of
    parallelism is planned first. Times and costs are split into terms that add up. For each entry
    that differs, `alone` is the effect of changing only this one in A, `last` its effect after all
    others are as in B, `factor` the average over all orders of change.

    \b
    Example:
      fleetcube compare examples/h100.toml examples/b200.toml n_gpus=4096
      fleetcube compare examples/h100.toml examples/b200.toml --over n_gpus \\
          --of job_cost
      fleetcube compare examples/h100.toml gpu=h100-sxm,b200-sxm n_gpus=4096
      fleetcube compare examples/pretrain-llama-3-70b.sh best node=dgx-h100
    """
    from fleetcube.analysis.compare import compare as compare_sweeps
    from fleetcube.analysis.terms import USUAL
    from fleetcube.tables.selectors import pairs

    usual = [of or USUAL]
    if selectors[:1] == (_BEST,):
        sweeps, named, selectors = _and_best(a, selectors[1:], usual)
    elif selectors and "=" not in selectors[0]:
        named, selectors = (a, selectors[0]), selectors[1:]
        sweeps = tuple(_changed(path, selectors, usual) for path in named)
    else:
        sweeps, named, selectors = _two_values(a, selectors, usual)
    comparison = compare_sweeps(*sweeps, of=of, at=pairs(selectors), over=over)
    if as_json:
        say_json(_as_json(comparison))
        return
    sides = named, comparison.points, comparison.layouts, comparison.infeasible
    for side, spec, point, layout, reason in zip("AB", *sides, strict=True):
        remark = f" (the best layout: {layout})" if layout else ""
        remark += f" (infeasible: {reason})" if reason else ""
        say_wrapped(f"{side}: {spec}{f' at {point}' if point else ''}{remark}")
    say()
    _outputs(comparison)
    for name in dict.fromkeys(["step_time", comparison.of]):
        if f"{name}_terms" in comparison.values:
            _terms(comparison, name)
    _changes(comparison)
    _inputs(comparison)
    _feet(comparison)


def _and_best(
    spec: str, selectors: tuple[str, ...], usual: Sequence[str]
) -> tuple[tuple[Any, Any], tuple[str, str], tuple[str, ...]]:
    """One spec as it is, and with the best layout in place of its own."""
    from fleetcube.analysis.layouts import without_layout

    stated = changed(spec, selectors, otherwise=usual)
    free = stated.replace(scenario=without_layout(stated.spec["scenario"]))
    return (stated, free), (spec, f"{spec}, best layout"), ()


def _changed(
    spec: str, selectors: Sequence[str], usual: Sequence[str], fixed: Sequence[str] = ()
) -> Any:
    """The sweep of a spec with selector values applied; axes are cut later."""
    from fleetcube.formats.read import read_spec
    from fleetcube.tables.selectors import pairs

    axes = read_spec(spec, pairs(selectors))["axes"]
    given = [text for text in selectors if text.partition("=")[0] not in axes or text in fixed]
    return changed(spec, given, otherwise=usual)


def _two_values(
    spec: str, selectors: tuple[str, ...], usual: Sequence[str]
) -> tuple[tuple[Any, Any], tuple[str, str], tuple[str, ...]]:
    """One spec with each of two values of one or more names: the sweeps, their names, and the other
    selectors."""
    from fleetcube.formats.read import read_spec
    from fleetcube.grid.spec.axes import make_axes
    from fleetcube.scenario.along_axes import values_along
    from fleetcube.scenario.patterns import LAYOUT
    from fleetcube.tables.selectors import listed, pairs

    texts, notes = pairs(selectors), list[str]()
    entries = read_spec(spec, texts)["axes"]
    labels = {n: row.get("labels", ()) for n, row in entries.items() if isinstance(row, dict)}
    lists = {name: listed(name, text, notes, labels.get(name, ())) for name, text in texts.items()}
    both = {n: row for n, row in lists.items() if len(row) == 2 and not n.startswith(LAYOUT)}
    if not both:
        raise InputError(
            "compare takes two specs, or one and two values of each name that differs: "
            "gpu=h100-sxm,b200-sxm"
        )
    say_wrapped(*notes, err=True)
    others = tuple(f"{name}={text}" for name, text in texts.items() if name not in both)
    sweeps = []
    for k in range(2):
        fixed = {name: f"{name}={row[k]}" for name, row in both.items()}
        sweep = _changed(spec, [*others, *fixed.values()], usual, [*fixed.values()])
        axes = make_axes(sweep.graph, sweep.spec["axes"])
        cut = {n: axes.pop(n) for n in fixed if n in axes}
        values = values_along(cut.values(), [0] * len(cut))
        sweep = sweep.replace(scenario={**sweep.spec["scenario"], **values}, axes=axes)
        sweeps.append((sweep, " ".join([spec, *fixed.values()])))
    (one, first), (two, second) = sweeps
    return (one, two), (first, second), others


def _as_json(comparison: Any) -> dict[str, Any]:
    shares = ("alone", "last", "factor")
    changes = []
    for change in comparison.changes:
        numbers = {name: getattr(change, name) for name in shares}
        rows = {name: getattr(row, "values", row) for name, row in numbers.items()}
        changes.append({"name": change.name, "a": change.a, "b": change.b, **rows})
    return {
        "of": comparison.of,
        "point": dict(zip("ab", comparison.points, strict=True)),
        "infeasible": dict(zip("ab", comparison.infeasible, strict=True)),
        "layouts": dict(zip("ab", comparison.layouts, strict=True)),
        "values": comparison.values.to_dict(),
        "assumed": list(comparison.assumed),
        "ratios": {name: asdict(ratio) for name, ratio in comparison.ratios.items()},
        "changes": changes,
        "inputs": [dict(zip(("name", "a", "b"), row, strict=True)) for row in comparison.inputs],
    }


def _outputs(comparison: Any) -> None:
    from fleetcube.tables.tables import INTERVAL, counted

    rows, has_intervals = [], bool(comparison.ratios)
    for name, variable in comparison.values.data_vars.items():
        if str(name).endswith("_terms"):
            continue
        ratio = _ratio(variable)
        unit = variable.attrs["units"]
        sides = [with_unit(_mean(variable, side), unit, str(name)) for side in "ab"]
        numbers = [float(part) for part in (ratio.median(), ratio.min(), ratio.max())]
        shown = f"{name}{counted(variable.attrs)}"
        row = [shown, *sides, *("-" if n != n else f"{n:.4g}" for n in numbers)]
        if has_intervals:
            row[3:] = _ratio_cells(row[3], comparison.ratios.get(str(name)))
        rows.append(row)
    heads = ["A: mean", "B: mean", "B / A: median", "min", "max"]
    heads = heads if _over(comparison) else ["A", "B", "B / A"]
    heads[2:] = [f"B / A {INTERVAL}", "chance B < A"] if has_intervals else heads[2:]
    print_table(["output", *heads], [row[: 1 + len(heads)] for row in rows])


def _ratio_cells(shown: str, ratio: Any) -> list[str]:
    """A ratio with its interval, and the probability that B is below A."""
    from fleetcube.tables.tables import chance, estimate

    if ratio is None:
        return [shown, "-"]
    return [estimate(shown, float(shown), ratio.low, ratio.high), chance(ratio.below)]


def _terms(comparison: Any, name: str) -> None:
    from fleetcube.tables.tables import scale

    variable = comparison.values[name]
    means = [_mean(variable, side) for side in "ab"]
    factor, shown = scale(variable.attrs["units"], means, name)
    whole = means[1] - means[0] if math.isfinite(means[1] - means[0]) else 0.0
    over = _over(comparison)
    rows = []
    terms = comparison.values[f"{name}_terms"]
    for k, term in enumerate(comparison.values[f"{name}_term"].values):
        row = terms.isel({f"{name}_term": k})
        ends = [_mean(row, side) for side in "ab"]
        share = f"{100 * (ends[1] - ends[0]) / whole:z.1f} %" if whole else "-"
        rows.append([str(term), *_row(ends, factor), share])
    rows.append(["total", *_row(means, factor), "100.0 %" if whole else "-"])
    say(f"\n{name} by term, in {shown}{': means over ' + over if over else ''}")
    print_table(["term", "A", "B", "B - A", "share of B - A"], rows)


def _row(ends: list[float], factor: float) -> list[str]:
    is_rounding = abs(ends[1] - ends[0]) < _ROUNDING * abs(ends[0])
    numbers = [n / factor for n in (*ends, 0.0 if is_rounding else ends[1] - ends[0])]
    return ["-" if n != n else f"{n:,.0f}" if abs(n) >= 1e3 else f"{n:.4g}" for n in numbers]


def _changes(comparison: Any) -> None:
    from fleetcube.grid.spec.graphs import graph_at

    graph = graph_at(comparison.attributes[0])
    if not comparison.changes:
        say("\nthe specs do not differ here")
        return
    rows = []
    for change in sorted(comparison.changes, key=lambda c: -abs(_middle(c.factor) - 1)):
        effects = [_middle(row) for row in (change.alone, change.last, change.factor)]
        cells = ["-" if value != value else f"{value:.4g}" for value in effects]
        rows.append(
            [change.name, *(_entry(graph, change.name, v) for v in (change.a, change.b)), *cells]
        )
    over = _over(comparison)
    say(f"\nwhat differs, and the factor on {comparison.of}{' (medians)' if over else ''}")
    print_table(["entry", "A", "B", "alone", "last", "factor"], rows)
    total = float(_ratio(comparison.values[comparison.of]).median())
    say_wrapped(
        "alone: only this changed in A; last: changed after all others; factor: average over "
        f"orders of change{'' if over or total != total else f'; factors multiply to {total:.4g}'}"
    )


def _inputs(comparison: Any) -> None:
    from fleetcube.grid.spec.graphs import graph_at
    from fleetcube.grid.spec.values import unit_of

    graph = graph_at(comparison.attributes[0])
    if comparison.inputs:
        say("\nset by these labels")
        rows = []
        for name, *ends in comparison.inputs:
            unit = unit_of(graph, name)
            rows.append([name, *("-" if v != v else with_unit(v, unit, name) for v in ends)])
        print_table(["input", "A", "B"], rows)


def _feet(comparison: Any) -> None:
    """Print the remarks of each side, common ones once."""
    from fleetcube.tables.table_notes import remarks

    a, b = map(remarks, comparison.attributes)
    alike = [line for line in a if line in b]
    labelled = [f"{side}: {line}" for side, lines in (("A", a), ("B", b)) for line in lines]
    say_wrapped(
        *comparison.assumed, *alike, *(line for line in labelled if line[3:] not in alike), err=True
    )


def _entry(graph: Any, name: str, value: Any) -> str:
    from fleetcube.grid.spec.values import unit_of
    from fleetcube.kernels.declare import written

    if value is None:
        return "-"
    if isinstance(value, float):
        return with_unit(value, unit_of(graph, name), name)
    return written(value)


def _ratio(variable: Any) -> Any:
    return variable.isel({"scenario": 1}) / variable.isel({"scenario": 0})


def _mean(variable: Any, side: str) -> float:
    return float(variable.isel({"scenario": "ab".index(side)}).mean())


def _middle(row: Any) -> float:
    return float(row.median()) if hasattr(row, "median") else float(row)


def _over(comparison: Any) -> str:
    dims = [str(dim) for dim in comparison.values.dims]
    return ", ".join(dim for dim in dims if dim != "scenario" and not dim.endswith("_term"))
