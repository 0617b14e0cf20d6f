"""Text for the best point and for the points a search skipped."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands.shared.say import say_wrapped
from fleetcube.commands.shared.table import print_foot, print_table, write_table
from fleetcube.grid.errors import InputError
from fleetcube.kernels.graph.roles import REASON
from fleetcube.kernels.physics.roles import TIME

if TYPE_CHECKING:
    from fleetcube.grid.run.settings import Infeasible
    from fleetcube.sweep import Sense

_MOST_COUNTED = 10_000_000  # points whose reasons are counted


def check_answered(answered: Any) -> None:
    """Exit with status 2 if no point has an answer (after printing why)."""
    if not answered.any():
        raise click.exceptions.Exit(2)


def check_ends(values: Any) -> None:
    """Exit with status 2 if each job takes over 300 years (which the foot of its table says)."""
    from fleetcube.scenario.dates import ENDLESS

    if TIME in values and not (values[TIME] <= ENDLESS).any():
        raise click.exceptions.Exit(2)


def goal(text: str) -> tuple[str, "Sense"]:
    """An output, and whether its least or its greatest value is the best."""

    words = text.split()
    if len(words) == 1:
        return words[0], "min"
    if len(words) != 2 or words[0] not in ("min", "max"):
        raise InputError(f'--of {text!r} is not a goal; write NAME, "min NAME" or "max NAME"')
    return words[1], "min" if words[0] == "min" else "max"


def answer(
    points: Any,
    sweep: Any,
    where: Sequence[str],
    infeasible: "Infeasible",
    output: str | None,
    quantity: str | None,
) -> None:
    """Print or write points, and remark on those left out. One must have a value of `quantity`."""
    from fleetcube.tables.tables import table

    left = left_out(sweep) if infeasible == "exclude" else ""
    if quantity is not None and not points[quantity].notnull().any():
        if where:
            left = f"none keeps to {' and '.join(where)}; {left}".rstrip("; ")
        never = (
            "" if where else f"{quantity} is finite at no point that can run; change the scenario"
        )
        parts = ["no point is left", left, points.attrs.get("fleetcube_nearest", "") or never]
        raise InputError("; ".join(filter(None, parts)))
    if output is not None:
        write_table(points, output)
    else:
        print_table(*table(points))
    say_wrapped(*[line for line in (left, conditions_met(sweep, where)) if line], err=True)
    print_foot(points)


def left_out(sweep: Any) -> str:
    """How many points cannot be run, and why, the commonest first; or that all count."""
    import numpy as np

    from fleetcube.grid.run.evaluation import is_known
    from fleetcube.tables.tables import meanings

    if not is_known(sweep.spec["scenario"], sweep.spec["axes"], [REASON]):
        return "unknown which points can run: all count"
    reasons = sweep.with_outputs(REASON)
    size = reasons._plan().size(REASON)
    if size > _MOST_COUNTED:
        return ""
    reason = reasons.evaluate()[REASON]
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
    return f"left out: {out:,} of {size:,}{over} cannot run ({listed})"


def conditions_met(sweep: Any, where: Sequence[str]) -> str:
    """How many points keep to conditions; nothing of a grid too large to count."""
    if not where or sweep.points > _MOST_COUNTED:
        return ""
    (name, *_) = sweep.spec["outputs"]
    matching = sweep.reduce("count", of=name, where=where)[name].item()
    return f"{matching:,.0f} points keep to {' and '.join(where)}"
