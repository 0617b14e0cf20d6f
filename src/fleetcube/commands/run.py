"""`fleetcube run`: evaluate a spec, and print a table, or write a table or a cube."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.changed import changed
from fleetcube.commands.shared.description import describe, print_remarks
from fleetcube.commands.shared.progress import progress
from fleetcube.commands.shared.say import say, say_wrapped
from fleetcube.commands.shared.table import REPLACES, every_column, print_table, write_table
from fleetcube.grid.errors import InputError

if TYPE_CHECKING:
    from fleetcube.grid.run.settings import Engine, Infeasible, Settings
    from fleetcube.sweep import Sweep

_MOST_JUDGED = 1_000_000  # points evaluated again to find those near the memory limit
_FILES = (".txt", ".tsv", ".xls", ".h5", ".hdf5", ".html", ".png", ".svg", ".pdf", ".toml", ".md")


@click.command()
@complete.spec_and_selectors
@complete.variables("Output, instead of the spec's; may be repeated.")
@click.option(
    "-o", "--output", type=click.Path(), help="Cube (.zarr) or table (.csv, .parquet, .xlsx)."
)
@every_column
@complete.engine
@click.option(
    "--dtype",
    type=complete.OneOf(("float64", "float32")),
    default="float64",
    help="Number format of the cube.  [float64]",
)
@click.option("--chunks", help="Chunk sizes: axis=size,axis=size.  [8 MB a chunk]")
@click.option(
    "--compressor",
    type=complete.OneOf(("lz4", "zstd")),
    default="lz4",
    help="Of the cube: lz4, or zstd, which GDAL reads, too.  [lz4]",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing cube or table.")
@click.option("--resume", is_flag=True, help="Continue an interrupted run; repair a damaged cube.")
@click.option("--force", is_flag=True, help="With --overwrite: remove what others put in a cube.")
@click.option("--append", is_flag=True, help="Extend a cube by the labels that its axes gained.")
@complete.infeasible("mark")
@click.option(
    "--interval/--no-interval",
    default=None,
    help="Print 90 % intervals.  [where a calibration gives one]",
)
@click.option(
    "--relative-to",
    multiple=True,
    metavar="AXIS[=VALUE]",
    help="Add ratios to this point of an axis, by default its first; may be repeated.",
)
@click.option("--threads", type=int, help="Cores to use.  [all]")
@click.option("--dask", help="Run on Dask: a number of processes, or a scheduler's address.")
def run(
    spec: str,
    selectors: tuple[str, ...],
    variable: tuple[str, ...],
    output: str | None,
    every: bool,
    engine: "Engine",
    infeasible: "Infeasible",
    interval: bool | None,
    relative_to: tuple[str, ...],
    threads: int | None,
    dask: str | None,
    **cube_options: Any,
) -> None:
    """Evaluate a spec: print a table, or write a cube or a table (-o; - prints CSV).

    SELECTORS override the spec: name=value or name=value,value; for an axis also axis=first:last.

    \b
    Example:
      fleetcube run examples/h100.toml n_gpus=4096 gpu_mttf=10000h,50000h \\
          -v job_time -v goodput
      fleetcube run examples/scaling-and-reliability.toml -o cubes/scaling.zarr
      fleetcube run examples/scaling-and-reliability.toml --resume \\
          -o cubes/scaling.zarr
      fleetcube run examples/scaling-and-reliability.toml --dask 4 \\
          -o s3://bucket/scaling.zarr
    """
    from fleetcube.grid.run.settings import Settings
    from fleetcube.tables.tables import FORMATS

    sweep = changed(spec, selectors, variable)
    if relative_to and interval is False:
        raise InputError("--relative-to prints intervals; leave out --no-interval")
    if output is None or output == "-" or Path(output).suffix.lower() in FORMATS:
        _check_table(output, dask=dask, **cube_options)
        settings = Settings(engine, infeasible, threads)
        _run_to_table(sweep, settings, output, interval, relative_to, every)
        return
    _check_cube(output, {"--interval": interval, "--relative-to": relative_to, "--all": every})
    _run_to_cube(sweep, Settings(engine, infeasible, threads, dask), output, **cube_options)


def _check_table(
    output: str | None, overwrite: bool, dask: str | None, **cube_options: Any
) -> None:
    """Refuse a file that cannot be written, and options of cubes."""
    from fleetcube.tables.tables import check_target

    click.get_current_context().meta[REPLACES] = overwrite
    if output is not None:
        check_target(Path(output), overwrite)
    given = {**cube_options, "overwrite": overwrite and output in (None, "-"), "dask": dask}
    given["compressor"] = given["compressor"] != "lz4"
    for name in ("resume", "append", "overwrite", "force", "chunks", "compressor", "dask"):
        if given[name]:
            raise InputError(f"--{name} is for cubes; name one: -o cube.zarr")


def _check_cube(output: str, table_options: dict[str, Any]) -> None:
    """Refuse what is no place of a cube, and options of tables."""
    from fleetcube.tables.tables import FORMATS

    endings = [suffix.lower() for suffix in Path(output).suffixes]
    if endings[-1:] != [".zarr"] and {*endings} & {*_FILES, *FORMATS}:
        raise InputError(
            f"-o {output}: a cube is a folder, and a table one of {', '.join(FORMATS)}; change "
            "the ending"
        )
    if output.startswith("memory://"):
        raise InputError(f"-o {output} ends with this command; name a folder or a store")
    for option in (option for option, value in table_options.items() if value):
        ends = "in a cube, an axis holds the ends: step_time_error = [-1, 0, 1]"
        why = "a cube has all columns" if option == "--all" else ends
        raise InputError(f"{option} is for tables; {why}")


def _run_to_cube(
    sweep: "Sweep", settings: "Settings", output: str, chunks: str | None, **options: Any
) -> None:
    """Write a cube, and describe it."""
    from fleetcube.analysis.targets import near_memory
    from fleetcube.grid.store.cube import size_of, stored_cube
    from fleetcube.grid.store.places.address import place_of

    started = time.perf_counter()
    with progress("evaluating"):
        path = sweep.to_zarr(output, chunks=_parsed(chunks), settings=settings, **options)
    seconds = time.perf_counter() - started
    size = size_of(place_of(path))
    engine = sweep._plan(settings.engine, settings.infeasible == "exclude").engine
    say(f"{sweep.points:,} points in {seconds:.1f} s with {engine}")
    say(f"wrote {path} ({size / 1e6:.1f} MB)")
    try:
        describe(stored_cube(str(path)))
        for near in near_memory(sweep, _MOST_JUDGED).values():
            if count := int((near == 1).sum()):
                say(f"{count} of {near.size} layouts need about all memory: possibly out of memory")
    except (MemoryError, RuntimeError) as error:  # out of memory, or no thread can be started
        reason = f"{error}" or "out of memory"
        raise OSError(f"{path} is written and complete, but cannot be shown: {reason}") from error


def _run_to_table(
    sweep: "Sweep",
    settings: "Settings",
    output: str | None,
    interval: bool | None,
    relative_to: Sequence[str],
    every: bool,
) -> None:
    """Print values as a table if they are few, else as CSV, or write them to a file."""
    from fleetcube.analysis.assumptions import ASSUMED, at_last, noted, running
    from fleetcube.analysis.interval import is_predicted
    from fleetcube.analysis.targets import factors, near_memory, other_reasons
    from fleetcube.grid.run.stream import user_sizes
    from fleetcube.tables.tables import check_rows, check_sheet, table, wrong_points

    plan = sweep._plan(settings.engine, settings._mask)
    sizes = user_sizes(plan, {dim for dims in plan.out_dims.values() for dim in dims})
    if output is None:
        check_rows(sizes, "cut axes (axis=value)")
    else:
        check_sheet(Path(output), sizes)
    if interval is None:  # CSV columns stay fixed, because programs read them
        interval = bool(relative_to) or (output is None and is_predicted(plan))
    reasons = other_reasons(sweep._problem, plan) if settings.infeasible != "include" else []
    more = [*(factors(plan) if output is None else ()), *reasons]
    sweep = sweep.with_outputs(list(dict.fromkeys([*sweep._outputs, *more])))
    if interval:
        values = sweep.prediction_interval(settings=settings, relative_to=relative_to)
    else:
        values = sweep.evaluate(settings=settings)
    assumed = str(values.attrs.get(ASSUMED, "")).splitlines() or at_last(sweep, running(values))
    if output is None:
        void = [reason for reason in reasons if (values[reason] == 0).all()]
        print_table(*table(values.drop_vars(void).assign_coords(near_memory(sweep))))
        say_wrapped(*wrong_points(values, settings._mask), *assumed, err=True)
    else:
        values.attrs.update(noted(assumed))
        write_table(values, output, every)
    print_remarks(values, err=True)


def _parsed(text: str | None) -> dict[str, Any] | None:
    """Read "axis=size,axis=size"."""
    if text is None:
        return None
    pairs = [pair.partition("=") for pair in text.split(",")]
    return {
        axis: int(size) if size.isdecimal() and size.isascii() else size for axis, _, size in pairs
    }
