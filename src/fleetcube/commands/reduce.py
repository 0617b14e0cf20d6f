"""The command `fleetcube reduce`."""

import math
from collections.abc import Sequence
from typing import Any

import click

from fleetcube.commands import complete
from fleetcube.commands.changed import changed
from fleetcube.commands.progress import progress
from fleetcube.commands.say import say_wrapped
from fleetcube.commands.table import print_foot, print_table, to_file, write_table

_PARETO = "pareto"
_MOST_COUNTED = 10_000_000  # points whose reasons are counted


@click.command()
@click.argument("spec", type=click.Path())
@click.argument(
    "selectors", metavar="HOW [SELECTORS]...", nargs=-1, shell_complete=complete.selectors
)
@click.option(
    "--of", multiple=True, required=True, help='Output; for pareto "min NAME" or "max NAME".'
)
@click.option("--over", help="Axes to reduce: name,name.  [all]")
@click.option("-q", "shares", help="Shares of the points below a quantile: 0.1,0.5,0.9.")
@click.option("--where", multiple=True, help='Condition on points: "job_time <= 60 d".')
@click.option("-k", type=int, help="Rows to keep, the best first; -K: the largest of means.")
@complete.variables("Output to show where argmin or argmax is.")
@click.option("--infeasible", is_flag=True, help="Count in points that cannot be run.")
@complete.engine
@to_file
def reduce(
    spec: str,
    selectors: tuple[str, ...],
    of: tuple[str, ...],
    over: str | None,
    shares: str | None,
    where: tuple[str, ...],
    k: int | None,
    variable: tuple[str, ...],
    infeasible: bool,
    engine: str,
    output: str | None,
) -> None:
    """Reduce an output over axes of a spec, without keeping the grid.

    HOW is argmin or argmax (the extreme, and the labels of the point that has it), min, max, mean,
    sum, count, quantile, or pareto: the points that no other beats in two or three outputs.
    Points that cannot be run are left out. SELECTORS override the spec.

    -k K keeps the K best points of argmin and argmax, and the first K of each front of pareto, at
    each point of the axes that stay; of other tables the K rows with the smallest values (max: the
    largest), and -k -K those at the other end.

    \b
    Example:
      fleetcube reduce examples/scaling-and-reliability.toml argmin \\
          --of job_time --over n_gpus,layout gpu_mttf=50000h \\
          checkpoint_write_bandwidth=100GB/s
    """
    from fleetcube.grid.errors import InputError, nearest
    from fleetcube.grid.reduce.fold import HOW
    from fleetcube.grid.reduce.top import ordered
    from fleetcube.grid.show.tables import table

    known = [*HOW, _PARETO]
    words = [word for word in selectors if "=" not in word]
    if len(words) != 1:
        raise InputError(f"reduce takes one word that says how; give one of {', '.join(known)}")
    how, selectors = words[0], tuple(word for word in selectors if "=" in word)
    if how not in known:
        hint = nearest(how, known, f"choose one of {', '.join(known)}")
        raise InputError(f"HOW {how!r} is unknown; {hint}")
    if how != _PARETO and len(of) > 1:
        raise InputError(f"--of is given {len(of)} times, which is for pareto; name one output")
    if (how == "quantile") != (shares is not None):
        raise InputError("-q goes with quantile; give shares of the points: quantile -q 0.1,0.9")
    best = how in ("argmin", "argmax")
    if variable and not best:
        raise InputError("-v is for argmin and argmax; leave it out")
    if k == 0:
        raise InputError("-k 0 keeps nothing; give 1 or more rows")
    goals = [text.split() for text in of]
    if how == _PARETO and any(len(g) != 2 or g[0] not in ("min", "max") for g in goals):
        raise InputError('--of names a goal of pareto: write --of "min job_time" --of "max mfu"')
    names = [goal[-1] for goal in goals] if how == _PARETO else list(of)
    sweep = changed(spec, selectors, list(dict.fromkeys([*names, *variable])))
    axes = over.split(",") if over is not None else None
    settings: dict[str, Any] = {"engine": engine, "mask_infeasible": not infeasible}
    judged = infeasible or set(names) & {*sweep.plan(engine, True).layout_dependent}
    among = where if where or not judged else None
    with progress("reducing"):
        if how == _PARETO:
            senses = [goal[0] for goal in goals]
            found = sweep.pareto(names, senses, axes, **settings, where=among, k=k)
        elif best and (k is not None or among is not None):
            some = {"sense": how[3:], "over": axes, "also": _more(variable, names), **settings}
            found = sweep.top(of[0], 1 if k is None else k, where, **some)
            found = found.drop_vars("rank") if k in (None, 1) else found
        elif shares is not None:
            found = _quantiles(sweep, of[0], axes, shares, {**settings, "where": among})
        else:
            found = sweep.reduce(how, axes, of=of[0], **settings, where=among)
    found = _narrow(found, how, of[0])
    if k is not None and not best and how != _PARETO:
        found = ordered(found, of[0], k if how != "max" else -k)
    left_out = "" if infeasible else _left_out(sweep, engine)
    if how not in ("count", "sum") and not found[names[0]].notnull().any():
        if where:
            left_out = f"none keeps to {' and '.join(where)}; {left_out}".rstrip("; ")
        raise InputError(f"no point is left to reduce; {left_out or 'all values are NaN'}")
    if output is not None:
        write_table(found, output)
    else:
        print_table(*table(found))
    told = [left_out] if left_out else []
    if where and math.prod(sweep.sizes.values()) <= _MOST_COUNTED:
        kept = sweep.reduce("count", of=names[0], where=where, **settings)[names[0]].item()
        told.append(f"{kept:,.0f} points keep to {' and '.join(where)}")
    say_wrapped(*told, err=True)
    print_foot(found)


def _more(variable: Sequence[str], names: Sequence[str]) -> list[str]:
    """Further outputs at the best points. Raises InputError for a flag."""
    from fleetcube.grid.errors import InputError
    from fleetcube.grid.spec.values import unit_of

    for name in variable:
        if unit_of(name) == "flag":
            raise InputError(f"-v {name} is a flag, which is not given here; name a number")
    return [name for name in dict.fromkeys(variable) if name not in names]


def _quantiles(
    sweep: Any, of: str, axes: Sequence[str] | None, shares: str, settings: dict[str, Any]
) -> Any:
    import xarray

    from fleetcube.grid.errors import InputError

    try:
        numbers = [float(share) for share in shares.split(",")]
    except ValueError:
        raise InputError(f"-q {shares!r} is not a list of shares; write -q 0.1,0.5,0.9") from None
    parts = [sweep.reduce("quantile", axes, of=of, q=q, **settings) for q in numbers]
    return xarray.concat(parts, xarray.Variable("quantile", numbers), combine_attrs="override")


def _narrow(found: Any, how: str, of: str) -> Any:
    """Only the axes, labels and outputs; labels under the names of their axes."""
    if how == _PARETO or "rank" in found.dims:
        return found.reset_coords().drop_vars("front", errors="ignore")
    end = f"_at_{how[3:]}_{of}"
    labels = {str(n): str(n).removesuffix(end) for n in found.coords if str(n).endswith(end)}
    kept = [n for n in found.coords if n in found.dims]
    values = found.reset_coords(list(labels))[[*labels, *found.data_vars]]
    values = values.drop_vars([n for n in values.coords if n not in kept])
    return values.rename(labels)


def _left_out(sweep: Any, engine: str) -> str:
    """How many points cannot run and why, most frequent reason first; or that all count."""
    import numpy as np

    from fleetcube.grid.run.evaluation import is_known
    from fleetcube.grid.show.tables import meanings
    from fleetcube.kernels.roles import REASON

    if not is_known(sweep.spec["scenario"], sweep.spec["axes"], [REASON]):
        return "nothing tells which points can be run: all count"
    reasons = sweep.of([REASON])
    size = reasons.plan(engine).size(REASON)
    if size > _MOST_COUNTED:
        return ""
    reason = reasons.evaluate(engine)[REASON]
    codes, counts = np.unique(reason.values, return_counts=True)
    why = sorted(
        (-n, word)
        for n, word in zip(counts.tolist(), meanings(reason.attrs, codes), strict=True)
        if word != "feasible"
    )
    if not why:
        return ""
    listed = ", ".join(f"{-n:,} {word}" for n, word in why)
    over = f" of {' x '.join(map(str, reason.dims))}" if reason.dims else ""
    out = -sum(n for n, _ in why)
    return f"left out as infeasible: {out:,} of {size:,}{over} ({listed})"
