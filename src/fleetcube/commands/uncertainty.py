"""`fleetcube uncertainty`: quantiles of outputs, from distributions of inputs."""

from typing import Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed
from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.say import say
from fleetcube.commands.shared.table import print_foot, print_table, to_file, write_table
from fleetcube.grid.errors import InputError, shown


@click.command()
@complete.spec_and_selectors
@complete.variables("Output to show; may be repeated.  [all]")
@click.option(
    "-q",
    "--quantiles",
    default="0.05,0.5,0.95",
    help="Quantiles: shares, or per cent as 5,50,95 or P5,P50.  [0.05,0.5,0.95]",
)
@click.option(
    "--method",
    type=complete.OneOf(("sampled", "first_order", "draws")),
    default="sampled",
    help="Draws themselves go to a file.  [sampled]",
)
@click.option("--samples", default=4096, help="Draws, a power of 2.  [4096]")
@click.option("--seed", default=0, help="Seed of the draws.  [0]")
@to_file
def uncertainty(
    spec: str,
    selectors: tuple[str, ...],
    variable: tuple[str, ...],
    quantiles: str,
    method: str,
    samples: int,
    seed: int,
    output: str | None,
) -> None:
    """Compute quantiles of a spec's outputs, from distributions of its inputs, and from the error
    of the step time where a calibration gives it.

    \b
    In the spec:
      gpu_mttf = {lognormal = ["50_000 h", 1.5]}   # median, factor of one sigma
      flops_efficiency = {normal = [0.45, 0.04]}   # mean, sigma
      detection_time = {uniform = [10, "2 min"]}   # ends
      repair_time = {empirical = ["4 h", "24 h"]}  # values, equally likely

    \b
    Example:
      fleetcube uncertainty spec.toml -v job_time -q 0.1,0.5,0.9
      fleetcube uncertainty spec.toml -v job_time -q P10,P50,P90
    """
    from fleetcube.grid.run.stream import check_output, numeric, user_sizes
    from fleetcube.tables.tables import check_rows

    shares = _shares(quantiles)
    if method == "draws" and output is None:
        raise InputError("draws are too many to print; write them: -o draws.csv")
    sweep = changed(spec, selectors)
    if others := [name for name in variable if name not in sweep.spec["outputs"]]:
        sweep = sweep.with_outputs([*sweep.spec["outputs"], *others])
    plan = sweep._plan("numpy")
    names = [check_output(plan, name) for name in variable] or numeric(plan)
    if output is None:
        dims = {dim for name in names for dim in plan.out_dims[name]}
        check_rows(user_sizes(plan, dims), "shorten an axis")
    flags = [str(name) for name in sweep.spec["outputs"] if name not in numeric(plan)]
    if flags and not variable:
        say(f"{', '.join(flags)} left out: flags have no quantiles", err=True)
    with progress("drawing"):
        spread = sweep.uncertainty(
            variable or None, shares, method=method, samples=samples, seed=seed
        )
    if output is not None:
        write_table(spread, output)
        return
    for name in names:
        if name in spread:  # else nothing uncertain affects it
            _print(spread, name)
    print_foot(spread)


def _shares(text: str) -> list[float]:
    """Read quantiles as shares between 0 and 1; 5, 5% and P5 are per cent."""

    words = [word.strip().upper() for word in text.split(",")]
    numbers = [word.removeprefix("P").removesuffix("%").strip() for word in words]
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        raise InputError(
            f"-q {shown(text)} is not a list of quantiles; write 0.05,0.5,0.95 or 5,50,95"
        ) from None
    of_100 = [
        word != number or value >= 1
        for word, number, value in zip(words, numbers, values, strict=True)
    ]
    if len(set(of_100)) > 1:
        raise InputError(f"-q {shown(text)} mixes shares and per cent; write P5 or 5% for per cent")
    shares = [value / 100 if of_100[0] else value for value in values]
    if not all(0 < share < 1 for share in shares):
        raise InputError(f"-q {shown(text)} must all be above 0 and below 100 %; change them")
    return shares


def _print(spread: Any, name: str) -> None:
    """Print an output in a convenient unit: a row for each point, quantiles side by side."""
    from fleetcube.grid.result import Result, Variable
    from fleetcube.kernels.graph.roles import REASON
    from fleetcube.tables.tables import scale, table

    factor, unit = scale(str(spread[name].attrs["units"]), spread[f"{name}_mean"].values, name)
    columns: dict[str, Any] = {
        f"{100 * share:g} %": spread[name].isel({"quantile": k})
        for k, share in enumerate(spread["quantile"].values)
    }
    columns |= {"mean": spread[f"{name}_mean"], "std. dev.": spread[f"{name}_std"]}
    about = {"units": "1"}
    scaled = {
        n: Variable(variable.dims, variable.values / factor, about)
        for n, variable in columns.items()
    }
    say(f"{name} [{unit}]" if unit else name)
    judged = {
        n: variable
        for n, variable in spread.coords.items()
        if n == REASON and variable.values.any()
    }
    print_table(*table(Result({**judged, **scaled}, spread.coords)))
