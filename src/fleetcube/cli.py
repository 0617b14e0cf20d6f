"""The command line: reads arguments for grid/ and catalog/, without logic of its own."""

import json
import math
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetcube import __version__, stop
from fleetcube.commands import COMMANDS, complete
from fleetcube.commands.changed import accounted, changed, traffic, with_ends
from fleetcube.commands.listing import Listed, refusal
from fleetcube.commands.progress import progress
from fleetcube.commands.say import columns, say, say_each, say_wrapped
from fleetcube.commands.table import (
    REPLACES,
    every_column,
    print_foot,
    print_table,
    to_file,
    write_table,
)
from fleetcube.grid.text import WIDTH

if TYPE_CHECKING:
    from fleetcube.grid.run.settings import Engine, Infeasible

_SETTINGS = {"help_option_names": ["-h", "--help"]}
_MOST_COUNTED = 10_000_000  # points whose reasons are counted
_MOST_JUDGED = 1_000_000  # points evaluated again to find those near the memory limit
_FILES = (".txt", ".tsv", ".xls", ".h5", ".hdf5", ".html", ".png", ".svg", ".pdf", ".toml", ".md")
_OVERHEADS = ("checkpoint_overhead", "rework_overhead", "recovery_overhead")
_SIMULATED = {  # columns shown if the spec gives the input
    "job_duration": ("failures", "wall_time", "wall_time_p95"),
    "spare_nodes": ("spare_shortage",),
    "node_pool": ("whole_cluster_probability",),
    "elastic": ("elastic_capacity",),
}


@click.group(
    cls=Listed,
    context_settings=_SETTINGS,
    epilog="Exit status: 0 success; 1 failure, or damage found; 2 input refused, or no answer; "
    "130 or 143 stopped by Ctrl-C or SIGTERM.",
)
@click.version_option(__version__, prog_name="fleetcube")
@click.option("--debug", is_flag=True, help="Show an error's traceback (or FLEETCUBE_DEBUG=1).")
@click.option("-v", "--verbose", count=True, help="Log steps of a run; -vv also each block.")
@click.option("--graph", multiple=True, help="Import formulas that a spec or cube needs.")
@click.pass_context
def cli(context: click.Context, debug: bool, verbose: int, graph: tuple[str, ...]) -> None:
    """Sweep the physics of large-scale AI training over millions of points.

    \b
    Example:
      fleetcube run example:h100 n_gpus=4096 gpu_mttf=50000h -v job_time
      fleetcube run example:scaling-and-reliability -o cubes/scaling.zarr
      fleetcube explain goodput
    """
    narrow = WIDTH.set(max(20, min(columns() or WIDTH.get(), WIDTH.get())))
    context.call_on_close(lambda: WIDTH.reset(narrow))
    if debug:
        os.environ["FLEETCUBE_DEBUG"] = "1"
    if verbose:
        context.call_on_close(_logging(verbose))
    if graph:
        from fleetcube.grid.spec.graphs import with_graph

        context.obj = with_graph({}, list(graph))  # refused here if it cannot be imported


def _logging(verbose: int) -> Callable[[], None]:
    """Log to standard error; returns the function that ends it."""
    import logging

    logger, handler = logging.getLogger("fleetcube"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = logger.level
    logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    logger.addHandler(handler)

    def end() -> None:
        logger.setLevel(level)
        logger.removeHandler(handler)

    return end


@cli.command("run")
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
@click.option("--overwrite", is_flag=True, help="Replace an existing cube or table.")
@click.option("--resume", is_flag=True, help="Continue an interrupted run; repair a damaged cube.")
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
def run_spec(
    spec: str,
    selectors: tuple[str, ...],
    variable: tuple[str, ...],
    output: str | None,
    every: bool,
    engine: "Engine",
    dtype: str,
    chunks: str | None,
    overwrite: bool,
    resume: bool,
    append: bool,
    infeasible: "Infeasible",
    interval: bool | None,
    relative_to: tuple[str, ...],
    threads: int | None,
    dask: str | None,
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
    from fleetcube.grid.errors import InputError
    from fleetcube.grid.run.settings import Settings
    from fleetcube.grid.store.cube import open_cube, parse_chunks, size_of
    from fleetcube.grid.store.places.address import place_of
    from fleetcube.tables.tables import FORMATS, check_target

    sweep = changed(spec, selectors, variable)
    if relative_to and interval is False:
        raise InputError("--relative-to prints intervals; leave out --no-interval")
    if output in (None, "-") or Path(output).suffix.lower() in FORMATS:
        click.get_current_context().meta[REPLACES] = overwrite
        if output is not None:
            check_target(Path(output), overwrite)
        only: dict[str, Any] = {"--resume": resume, "--append": append}
        only |= {"--overwrite": overwrite and output in (None, "-")}
        only |= {"--chunks": chunks, "--dask": dask}
        for option in (name for name, value in only.items() if value):
            raise InputError(f"{option} is for cubes; name one: -o cube.zarr")
        settings = Settings(engine, infeasible, threads)
        _evaluated(sweep, settings, output, interval, relative_to, every)
        return
    ends = [suffix.lower() for suffix in Path(output).suffixes]
    if ends[-1:] != [".zarr"] and {*ends} & {*_FILES, *FORMATS}:
        raise InputError(
            f"-o {output}: a cube is a folder, and a table one of {', '.join(FORMATS)}; change "
            "the ending"
        )
    if output.startswith("memory://"):
        raise InputError(f"-o {output} ends with this command; name a folder or a store")
    if interval or relative_to:
        raise InputError(
            f"{'--interval' if interval else '--relative-to'} is for tables; in a cube, an axis "
            "holds the ends: step_time_error = [-1, 0, 1]"
        )
    if every:
        raise InputError("--all is for tables; a cube has all columns")
    started = time.perf_counter()
    with progress("evaluating"):
        path = sweep.to_zarr(
            output,
            overwrite=overwrite,
            resume=resume,
            append=append,
            dtype=dtype,
            chunks=parse_chunks(chunks),
            settings=Settings(engine, infeasible, threads, dask),
        )
    seconds = time.perf_counter() - started
    size = size_of(place_of(path))
    used = sweep._plan(engine, infeasible == "exclude").engine
    say(f"{sweep.points:,} points in {seconds:.1f} s with {used}")
    say(f"wrote {path} ({size / 1e6:.1f} MB)")
    try:
        _show(open_cube(path))
        for near in _near(sweep, _MOST_JUDGED).values():
            if count := int((near == 1).sum()):
                say(f"{count} of {near.size} layouts need about all memory: possibly out of memory")
    except (MemoryError, RuntimeError) as error:  # out of memory, or no thread can be started
        why = f"{error}" or "out of memory"
        raise OSError(f"{path} is written and complete, but cannot be shown: {why}") from error


def _near(sweep: Any, most: float = math.inf) -> dict[str, Any]:
    """A coordinate that marks points near the memory limit; empty without a limit."""
    from fleetcube.grid.run.settings import Settings
    from fleetcube.kernels.physics.roles import NEAR

    if sweep._with_memory_margin is sweep:
        return {}
    near = sweep.with_outputs([NEAR])
    small = near._plan("numpy").size(NEAR) <= most
    return {NEAR: near.evaluate(settings=Settings("numpy"))[NEAR]} if small else {}


def _evaluated(
    sweep: Any,
    settings: Any,
    output: str | None,
    interval: bool | None,
    relative_to: Sequence[str],
    every: bool,
) -> None:
    """Print a sweep's values as a table if small, else as CSV, or write them to a file."""
    from fleetcube.analysis.interval import is_predicted
    from fleetcube.analysis.targets import other_reasons
    from fleetcube.grid.run.stream import user_sizes
    from fleetcube.tables.tables import check_rows, check_sheet, table, wrong_points

    plan = sweep._plan(settings.engine, settings._mask)
    dims = {dim for own in plan.out_dims.values() for dim in own}
    if output is None:
        check_rows(user_sizes(plan, dims), "cut axes (axis=value)")
    else:
        check_sheet(Path(output), user_sizes(plan, dims))
    if interval is None:  # CSV columns stay fixed, because programs read them
        interval = bool(relative_to) or (output is None and is_predicted(plan))
    also = other_reasons(sweep._problem, plan) if settings.infeasible != "include" else []
    sweep = sweep.with_outputs(list(dict.fromkeys([*sweep._outputs, *also]))) if also else sweep
    compute = sweep.prediction_interval if interval else sweep.evaluate
    values = compute(settings=settings, **({"relative_to": relative_to} if interval else {}))
    if output is None:
        fine = [name for name in also if (values[name] == 0).all()]
        print_table(*table(values.drop_vars(fine).assign_coords(_near(sweep))))
        say_wrapped(*wrong_points(values, settings._mask), err=True)
    else:
        write_table(values, output, every)
    _remarks(values, err=True)


@cli.command()
@complete.spec_and_selectors
@click.option("--trials", default=1000, help="Jobs simulated at every point.  [1000]")
@click.option("--seed", default=0, help="Seed of the random numbers.  [0]")
@click.option("--threads", type=int, help="Cores to use.  [all]")
@click.option(
    "-v", "--variable", multiple=True, help="Variable to show.  [the main ones; all with -o]"
)
@to_file
def simulate(
    spec: str,
    selectors: tuple[str, ...],
    trials: int,
    seed: int,
    threads: int | None,
    variable: tuple[str, ...],
    output: str | None,
) -> None:
    """Simulate failing jobs at every point of a spec: goodput, and where the rest of the time goes.

    If the spec gives job_duration, jobs are that long, and failures and wall time are shown;
    otherwise they are long enough (about 100 failures) for start and end not to matter. With
    spare_nodes in the spec, the table shows how often these run out; with node_pool, how much of
    the time the cluster is whole. Jobs that shrink (elastic, elastic_growth, elastic_packing) show
    their mean speed, elastic_capacity; those of job_end = "unsaved" end without a save. Kinds of
    failures and tiers of checkpoints get a table of the time lost to each, simulated and by
    formula.

    \b
    Example:
      fleetcube simulate examples/scaling-and-reliability.toml --trials 100 \\
          -o failures.csv
    """
    from fleetcube.analysis.simulate import by_kind_and_tier, simulate_spec
    from fleetcube.grid.spec.axes import make_axes
    from fleetcube.kernels.physics.graph import PHYSICS
    from fleetcube.scenario.phases import NAME, names
    from fleetcube.tables.tables import MOST_ROWS, table, variables

    own: Any = changed(spec, selectors, otherwise=["goodput"]).spec
    with progress("simulating"):
        outcome = simulate_spec(
            own["scenario"],
            own["axes"],
            trials=trials,
            seed=seed,
            threads=threads,
            printed=output is None,
            wanted=variable,
        )
    if output is not None:
        write_table(variables(outcome, variable), output)
        return
    axes = make_axes(PHYSICS, own["axes"]).values()
    given = {*own["scenario"], *(name for axis in axes for name in axis.inputs)}
    added_up = names(own["scenario"]) and NAME not in own["axes"]  # each states its length
    if not added_up and "job_duration" not in given and {*variable} & {*_SIMULATED["job_duration"]}:
        say("each job lasts about 100 failures; give job_duration for another length", err=True)
    more = [n for key, names in _SIMULATED.items() if key in given for n in names if n in outcome]
    main = ["goodput", "goodput_error", *_OVERHEADS, *more, "outcome"]
    print_table(*table(variables(outcome, variable or main)))
    for part in [] if variable else by_kind_and_tier(outcome, own["scenario"], own["axes"]):
        if part["time_lost"].size > MOST_ROWS:
            say("time lost by kind and tier is in the file of -o, or with fewer points", err=True)
            break
        say("")
        print_table(*table(part))
    print_foot(outcome)


@cli.command()
@click.argument("cube", type=click.Path())
@click.option("--bibtex", is_flag=True, help="Print the cube's sources as BibTeX.")
def show(cube: str, bibtex: bool) -> None:
    """Describe a cube: axes, variables, units, sources.

    \b
    Example:
      fleetcube show cubes/scaling.zarr
      fleetcube show cubes/scaling.zarr --bibtex > scaling.bib
    """
    from fleetcube.grid.plan.citations import citations
    from fleetcube.grid.store.cube import open_cube

    if bibtex:
        say(citations(open_cube(cube)))
    else:
        _show(open_cube(cube), sources=True)


@cli.command()
@click.argument("cube", type=click.Path())
@click.option("--samples", default=16, help="Points of each variable to recompute.  [16]")
def verify(cube: str, samples: int) -> None:
    """Check every file of a cube against its checksum, and recompute some values.

    \b
    Example:
      fleetcube verify cubes/scaling.zarr
    """
    from fleetcube.grid.store.verify import verify as check

    with progress("checking"):
        report = check(cube, samples)
    say_each([*report.notes, *report.problems], err=False)
    if report.problems:
        raise OSError(f"{cube!r} is damaged (problems: {len(report.problems)}); {report.advice}")
    if report.notes:
        say(f"{cube} is as it was sealed: {report.chunks} chunks; no value was recomputed")
    else:
        say(f"{cube} is sound: {report.chunks} chunks and {report.samples} samples")


@cli.command("slice")
@click.argument("cube", type=click.Path())
@click.argument("selectors", nargs=-1, shell_complete=complete.selectors)
@complete.variables("Variable to show; may be repeated.  [all]")
@click.option(
    "--interval/--no-interval",
    default=None,
    help="With 90 % intervals.  [in tables, where a calibration gives one]",
)
@to_file
@every_column
def slice_cube(
    cube: str,
    selectors: tuple[str, ...],
    variable: tuple[str, ...],
    interval: bool | None,
    output: str | None,
    every: bool,
) -> None:
    """Cut a cube: axis=value, axis=first:last or axis=value,value.

    Numbers may carry units. Of a numeric axis the nearest point is taken, and reported. A cube
    holds values: their intervals are evaluated here, where the formulas are still those of it.

    \b
    Example:
      fleetcube slice cubes/scaling.zarr n_gpus=1024 layout=pp4 \\
          fabric=infiniband-ndr checkpoint_write_bandwidth=100GB/s \\
          gpu_mttf=50000h -v goodput -v job_time
    """
    from fleetcube.grid.store.cube import open_cube
    from fleetcube.tables.selectors import select
    from fleetcube.tables.tables import table, variables

    whole = open_cube(cube)
    variables(whole, variable)  # names first
    cut, notes = select(whole, selectors)
    say_each(notes)
    if interval or (interval is None and output is None):
        cut = with_ends(cut, variable, asked=bool(interval))
    cut = variables(cut, variable)
    if output is not None:
        write_table(cut, output, every)
        return
    print_table(*table(cut))
    print_foot(cut)


@cli.command()
@click.argument("name", required=False, shell_complete=complete.any_name)
@click.argument("selectors", nargs=-1)
def explain(name: str | None, selectors: tuple[str, ...]) -> None:
    """Explain a name: formula, unit, default, source, what it is computed from and what it feeds.

    Any other word lists the names that have it in their name or meaning. Without NAME, list all
    inputs with their defaults, and all quantities. For a spec
    (SPEC.toml axis=value ...), show the tiers of its network, the traffic on each, and where its
    inputs come from; for
    memory_per_gpu of a spec, what a GPU's memory holds. OPTION=CHOICE after a quantity shows its
    formulas under these options.

    \b
    Example:
      fleetcube explain goodput
      fleetcube explain goodput goodput_model=additive
      fleetcube explain price
      fleetcube explain examples/h100.toml n_gpus=1024 pipeline_parallel=4
      fleetcube explain memory_per_gpu examples/plan.toml
    """
    from fleetcube.analysis import account
    from fleetcube.formats.read import is_file, job_at, told
    from fleetcube.grid.errors import InputError, OpenError
    from fleetcube.presentation.explain import explain as text
    from fleetcube.presentation.explain import explain_traffic, origins
    from fleetcube.tables.selectors import narrow, pairs
    from fleetcube.tables.tables import cannot_run, memory_use

    if name is not None and is_file(name):
        if (job := job_at(name, pairs(selectors))) is not None:
            say_each([*told(job), ""], err=False)
        try:
            point = traffic(name, selectors)
        except OpenError as error:
            if job is None:
                raise
            narrow({"scenario": {}, "axes": {}}, selectors)  # which refuses other names
            say(f"note: of its network and step: {error}", err=True)
            return
        say(explain_traffic(point))
        say_each(["", *origins(point.attrs)], err=False)
        print_foot(point, err=False)
        return
    if selectors and is_file(selectors[0]):
        if name != "memory_per_gpu":
            raise InputError(f"{name} has no account; ask for memory_per_gpu of a spec")
        point = accounted(selectors[0], selectors[1:])
        print_table(*account.table(point))
        used = memory_use(point)
        say_each(["", f"{used}."] if used else [], err=False)
        say_each([why] if (why := cannot_run(point)) else [], err=False)
        return
    say(text(name, **((click.get_current_context().obj or {}) | pairs(selectors))))


@cli.command()
@click.argument("kind", required=False, shell_complete=complete.kinds)
@click.argument("label", required=False, shell_complete=complete.labels_of_kind)
def catalog(kind: str | None, label: str | None) -> None:
    """List the catalog: its kinds, the labels of a KIND, or the values of a LABEL.

    A file of records in place of KIND lists those in it. A corrected record is a new edition;
    LABEL@1 is the first. A model's LABEL may be the path of a config.json of Hugging Face, or a
    folder that has one, as in all commands (model=./config.json).

    \b
    Example:
      fleetcube catalog gpu h100-sxm
    """
    from fleetcube import catalog as entries
    from fleetcube.presentation.explain import readable

    if kind is None:
        rows = [[name, ", ".join(entries.kind(name))] for name in entries.KINDS]
        print_table(["kind", "labels"], rows)
        return
    if kind.endswith(".toml"):
        own = [found.record for found in entries.own_labels([kind]).values()]
        print_table(["kind", "label", "title", "date"], [_row(r, r.kind) for r in own])
        return
    if label is None:
        listed = [*entries.kind(kind).values(), *entries.from_packages(kind).values()]
        foreign = any(r.origin for r in listed)
        rows = [_row(r, *([r.origin or "fleetcube"] if foreign else [])) for r in listed]
        print_table([*(["from"] if foreign else []), "label", "title", "date"], rows)
        return
    record = entries.record(kind, label)
    say(f"{record.label}: {record.title}\n")
    for name, value in record.values.items():
        if isinstance(value, float):
            say(f"  {name:<28} {readable(value, record.unit(name), name)}")
        elif isinstance(value, dict):
            for own, row in value.items():
                some = row if isinstance(row, tuple) else [row]
                say(f"  {name} {own:<{27 - len(name)}} {', '.join(map(str, some)).lower()}")
        else:
            say(f"  {name:<28} {str(value).lower()}")
    say()
    say_wrapped(*(f"{n + ':':<8} {getattr(record, n)}" for n in ("source", "date", "note")))
    say(f"edition: {record.edition} (sha256 {record.digest[:16]})")
    if record.origin:
        say(f"from:    {record.origin}")


def _row(record: Any, *before: str) -> list[str]:
    return [*before, record.label, record.title, record.date]


for command in COMMANDS:
    cli.add_command(command)


def _show(cube: Any, sources: bool = False) -> None:
    from fleetcube.analysis.reevaluate import predicted
    from fleetcube.catalog.entry import one_line
    from fleetcube.grid.plan.citations import records
    from fleetcube.tables.tables import counted

    order = list(json.loads(cube.attrs["fleetcube_spec"])["axes"])
    sizes = sorted(cube.sizes.items(), key=lambda item: order.index(item[0]))
    say(f"axes: {_sizes(dict(sizes))}")
    rows = []
    for name, variable in cube.data_vars.items():
        unit = "flag" if "flag_meanings" in variable.attrs else variable.attrs.get("units", "")
        dims = ", ".join(map(str, variable.dims)) or "-"
        unit = "-" if unit == "1" else unit
        rows.append([str(name), f"{unit}{counted(variable.attrs)}", dims])
    print_table(["variable", "unit", "axes"], rows)
    reason = cube.coords.get("infeasible_reason")
    if reason is not None and reason.size <= _MOST_COUNTED:
        say_wrapped(f"infeasible: {_reasons(reason)}")
    _remarks(cube)
    if names := predicted(cube):
        say_wrapped(f"slice and plot show 90 % intervals of: {', '.join(names)}")
    if sources:
        version, engine = (cube.attrs.get(f"fleetcube_{name}") for name in ("version", "engine"))
        say(one_line(f"fleetcube {version}, engine {engine}"))
        for record in records(cube.attrs):
            edition = f", edition {record['edition']}" if "edition" in record else ""
            about = f"{record['source']} ({record['date']}{edition})"
            say(one_line(f"{record['kind']} {record['label']}: {about}"))


def _remarks(cube: Any, err: bool = False) -> None:
    """Print a result's remarks: unused inputs, basis of the numbers, choices made by defaults."""
    from fleetcube.presentation.explain import unused

    if "fleetcube_unused" in cube.attrs:
        say_wrapped(unused(cube.attrs), err=err)
    print_foot(cube, err=err)


def _reasons(reason: Any) -> str:
    meanings = str(reason.attrs["flag_meanings"]).split()
    values = reason.values.ravel().tolist()
    counts = {code: values.count(code) for code in sorted(set(values) - {0})}
    listed = ", ".join(
        f"{count} {meanings[code] if code > 0 else 'undefined'}" for code, count in counts.items()
    )
    over = " x ".join(map(str, reason.dims))
    where = f" combinations of {over}" if len(values) > 1 else ""
    return f"{sum(counts.values())} of {len(values)}{where}" + (f" ({listed})" if listed else "")


def _sizes(sizes: Any) -> str:
    return " x ".join(f"{name} ({size})" for name, size in sizes.items()) or "no axes"


def run() -> None:
    """Run the command line; a failure or a stop gives one line and an exit status."""

    def remark(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"note: {' '.join(str(message).split())}", err=True)

    def dropped(unraisable: Any) -> None:
        # Python drops exceptions raised in a finalizer or a callback: stop again, soon, elsewhere
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            code = signal.SIGTERM if unraisable.exc_type is stop.Terminated else signal.SIGINT
            stop.again()
            threading.Timer(0.05, os.kill, [os.getpid(), code]).start()
        else:
            sys.__unraisablehook__(unraisable)

    warnings.showwarning, sys.unraisablehook = remark, dropped
    stop.listen()
    try:
        # not standalone: click would print errors and exit by itself
        if status := cli(prog_name="fleetcube", standalone_mode=False):
            sys.exit(status)
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and "\n" not in error.message:  # else help
            say(f"fleetcube: {refusal(error)}", err=True)
        else:
            error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Otherwise Python fails again when it flushes standard output at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (Exception, KeyboardInterrupt) as error:
        if isinstance(error, click.Abort | KeyboardInterrupt):
            stop.end()
        if os.environ.get("FLEETCUBE_DEBUG"):
            traceback.print_exc()
        say(f"fleetcube: {_line(error)}", err=True)
        sys.exit(_status(error))


def _status(error: BaseException) -> int:
    """The exit status of an error; for a stop, 128 plus the signal, as in shells."""
    from fleetcube.catalog import CatalogError
    from fleetcube.grid.errors import InputError

    if isinstance(error, click.Abort | KeyboardInterrupt):
        stopped = error.__cause__ or error
        return 128 + (signal.SIGTERM if isinstance(stopped, stop.Terminated) else signal.SIGINT)
    return 2 if isinstance(error, InputError | CatalogError) else 1


def _line(error: BaseException) -> str:
    """An error in one line."""
    from fleetcube.catalog import CatalogError
    from fleetcube.grid.errors import InputError

    text = " ".join(str(error).split())
    if isinstance(error, click.Abort | KeyboardInterrupt):
        stopped = error.__cause__ if isinstance(error, click.Abort) else error
        return f"stopped; {str(stopped or '') or 'nothing was kept'}"
    if isinstance(error, MemoryError):
        return "out of memory; use fewer threads or float32"
    if isinstance(error, InputError | CatalogError | OSError):
        return text
    if "checksum" in text:
        return f"a chunk is damaged ({text[:100]}); `fleetcube verify CUBE` says which"
    return f"{type(error).__name__}: {text[:300]}; `fleetcube --debug ...` shows where"
