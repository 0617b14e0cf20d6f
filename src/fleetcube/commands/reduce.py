"""The command `fleetcube reduce`."""

from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed
from fleetcube.commands.shared.listing import SYNONYMS
from fleetcube.commands.shared.points import answer
from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.table import to_file
from fleetcube.grid.errors import InputError, nearest

if TYPE_CHECKING:
    from fleetcube.grid.run.settings import Engine, Infeasible


@click.command()
@complete.spec()
@click.argument(
    "selectors", metavar="HOW [SELECTORS]...", nargs=-1, shell_complete=complete.selectors
)
@click.option("--of", required=True, shell_complete=complete.quantities, help="Output to reduce.")
@click.option("--over", help="Axes to reduce: name,name.  [all]")
@click.option("-q", "shares", help="Quantiles: 0.1,0.5,0.9.")
@click.option("--where", multiple=True, help='Condition on points: "job_time <= 60 d".')
@click.option("-k", type=int, help="Rows to keep, the smallest first; -K: the largest.")
@complete.infeasible("exclude")
@complete.engine
@to_file
def reduce(
    spec: str,
    selectors: tuple[str, ...],
    of: str,
    over: str | None,
    shares: str | None,
    where: tuple[str, ...],
    k: int | None,
    infeasible: "Infeasible",
    engine: "Engine",
    output: str | None,
) -> None:
    """Reduce an output over axes of a spec, without keeping the grid.

    HOW is min, max, mean, sum, count or quantile. Points that cannot be run are left out. SELECTORS
    override the spec. For the point that has an extreme see `fleetcube best`.

    \b
    Example:
      fleetcube reduce examples/scaling-and-reliability.toml mean \\
          --of job_time --over n_gpus,gpu_mttf checkpoint_write_bandwidth=100GB/s
    """
    from fleetcube.analysis.top import ordered
    from fleetcube.grid.reduce.fold import HOW
    from fleetcube.grid.run.settings import Settings

    words = [word for word in selectors if "=" not in word]
    if len(words) != 1:
        raise InputError(f"reduce takes one word for how to reduce; give one of {', '.join(HOW)}")
    how, selectors = words[0], tuple(word for word in selectors if "=" in word)
    if how not in HOW:
        hint = nearest(how, HOW, f"choose one of {', '.join(HOW)}")
        if how in SYNONYMS["best"]:
            hint = "the point that has an extreme: see `fleetcube best`"
        raise InputError(f"HOW {how!r} is unknown; {hint}")
    if (how == "quantile") != (shares is not None):
        raise InputError("-q goes with quantile; give shares of the points: quantile -q 0.1,0.9")
    if k == 0:
        raise InputError("-k 0 keeps nothing; give 1 or more rows")
    settings = Settings(engine, infeasible)
    sweep: Any = changed(spec, selectors, [of]).replace(settings=settings)
    axes = over.split(",") if over is not None else None
    judged = infeasible != "exclude" or of in sweep._plan(engine, True).layout_dependent
    among = where if where or not judged else None
    with progress("reducing"):
        q = None if shares is None else _shares(shares)
        reduced = sweep.reduce(how, axes, q=q, of=of, where=among)
    reduced = reduced.drop_vars([name for name in reduced.coords if name not in reduced.dims])
    if k is not None:
        reduced = ordered(reduced, of, k)
    answer(reduced, sweep, where, infeasible, output, None if how in ("count", "sum") else of)


def _shares(text: str) -> list[float]:
    try:
        return [float(share) for share in text.split(",")]
    except ValueError:
        raise InputError(f"-q {text!r} is not a list of shares; write -q 0.1,0.5,0.9") from None
