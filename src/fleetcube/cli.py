"""The command line: a door to grid/ and catalog/, with no logic of its own."""

import json
import math
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import click

from fleetcube import __version__
from fleetcube.commands import COMMANDS
from fleetcube.commands.changed import changed
from fleetcube.commands.listing import Listed
from fleetcube.commands.progress import progress
from fleetcube.commands.say import say
from fleetcube.commands.table import print_table, to_file, write_table

_SETTINGS = {"help_option_names": ["-h", "--help"]}
_MOST_COUNTED = 10_000_000  # layouts whose reasons are counted
_MOST_JUDGED = 1_000_000  # layouts evaluated once more for what is near the limit of memory
_OVERHEADS = ("checkpoint_overhead", "rework_overhead", "recovery_overhead")
_SIMULATED = {  # columns, where the spec gives the input that they speak of
    "job_duration": ("failures", "wall_time", "wall_time_p95"),
    "spare_nodes": ("spare_shortage",),
    "node_pool": ("whole_cluster_probability",),
}


@click.group(
    cls=Listed,
    context_settings=_SETTINGS,
    epilog="Exit status: 0 done; 1 failed or found damage; 2 refused for its input; "
    "130 or 143 stopped, by Ctrl-C or SIGTERM.",
)
@click.version_option(__version__, prog_name="fleetcube")
@click.option("--debug", is_flag=True, help="Show where an error arose (or FLEETCUBE_DEBUG=1).")
def cli(debug: bool) -> None:
    """Sweep the physics of large-scale AI training over millions of points.

    \b
    Example:
      fleetcube run examples/h100.toml n_gpus=4096 gpu_mttf=50000h -v job_time
      fleetcube run examples/scaling-and-reliability.toml -o cubes/scaling.zarr
      fleetcube explain goodput
    """
    if debug:
        os.environ["FLEETCUBE_DEBUG"] = "1"


@cli.command("run")
@click.argument("spec", type=click.Path())
@click.argument("selectors", nargs=-1)
@click.option("-v", "--variable", multiple=True, help="Output, instead of the spec's.")
@click.option(
    "-o", "--output", type=click.Path(), help="Cube to write (Zarr v3); - prints CSV.  [a table]"
)
@click.option("--engine", default="auto", help="auto, numpy, numba or jax.  [auto: by size]")
@click.option("--dtype", default="float64", help="float64 or float32.  [float64]")
@click.option("--chunks", help="Chunk sizes: axis=size,axis=size.  [8 MB, near cubes]")
@click.option("--overwrite", is_flag=True, help="Replace an existing cube.")
@click.option("--resume", is_flag=True, help="Go on where a run stopped; mend a damaged cube.")
@click.option("--append", is_flag=True, help="Add the labels that axes have gained to a cube.")
@click.option("--feasible-only", is_flag=True, help="NaN where a layout cannot be run.")
@click.option("--threads", type=int, help="Cores to use.  [all]")
@click.option("--dask", help="Run on Dask: a number of processes, or a scheduler's address.")
def run_spec(
    spec: str,
    selectors: tuple[str, ...],
    variable: tuple[str, ...],
    output: str | None,
    engine: str,
    dtype: str,
    chunks: str | None,
    overwrite: bool,
    resume: bool,
    append: bool,
    feasible_only: bool,
    threads: int | None,
    dask: str | None,
) -> None:
    """Evaluate a spec: print a table, or write a cube (-o).

    SELECTORS give inputs other values than the spec: name=value or name=value,value; of an axis
    also axis=first:last.

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
    from fleetcube.grid.show.tables import FORMATS
    from fleetcube.grid.store.cube import open_cube, parse_chunks, size_of
    from fleetcube.grid.store.places.place import place_of

    sweep = changed(spec, selectors, variable)
    if output in (None, "-"):
        only: dict[str, Any] = {"--overwrite": overwrite, "--resume": resume, "--append": append}
        only |= {"--chunks": chunks, "--dask": dask}
        for option in (name for name, given in only.items() if given):
            raise InputError(f"{option} is for cubes; name one: -o cube.zarr")
        _evaluated(sweep, engine, feasible_only, threads, output)
        return
    if Path(output).suffix.lower() in FORMATS:
        raise InputError(
            f"{output!r} would be a cube, a folder; name it .zarr, "
            f"and write a table of it: fleetcube slice CUBE -o {Path(output).name}"
        )
    started = time.perf_counter()
    with progress("evaluating"):
        path = sweep.store(
            output,
            engine=engine,
            overwrite=overwrite,
            resume=resume,
            append=append,
            dtype=dtype,
            chunks=parse_chunks(chunks),
            mask_infeasible=feasible_only,
            threads=threads,
            dask=dask,
        )
    seconds = time.perf_counter() - started
    size = size_of(place_of(path))
    used = sweep.plan(engine, feasible_only).engine
    say(f"{sweep.points:,} points in {seconds:.1f} s with {used}")
    say(f"wrote {path} ({size / 1e6:.1f} MB)")
    _show(open_cube(path))
    for near in _near(sweep, _MOST_JUDGED).values():
        if count := int((near == 1).sum()):
            say(f"near the limit of memory: {count} of {near.size} (memory_error_factor)")


def _near(sweep: Any, most: float = math.inf) -> dict[str, Any]:
    """Where memory is near its limit, a coordinate; none where it has no limit."""
    from fleetcube.kernels.roles import NEAR

    if sweep.judged is sweep:
        return {}
    asked = sweep.of([NEAR])
    small = asked.plan("numpy").size(NEAR) <= most
    return {NEAR: asked.evaluate("numpy")[NEAR]} if small else {}


def _evaluated(
    sweep: Any, engine: str, feasible_only: bool, threads: int | None, output: str | None
) -> None:
    """Print what a sweep gives: a table, if it is small, or CSV."""
    from fleetcube.grid.run.stream import user_sizes
    from fleetcube.grid.show.tables import check_rows, table

    plan = sweep.plan(engine, feasible_only)
    dims = {dim for own in plan.out_dims.values() for dim in own}
    if output is None:
        check_rows(user_sizes(plan, dims), "cut axes (axis=value)")
    found = sweep.evaluate(engine, mask_infeasible=feasible_only, threads=threads)
    if output is None:
        print_table(*table(found.assign_coords(_near(sweep))))
    else:
        write_table(found, output)
    _remarks(found, err=True)


@cli.command()
@click.argument("spec", type=click.Path())
@click.argument("selectors", nargs=-1)
@click.option("--trials", default=1000, help="Jobs simulated at every point.  [1000]")
@click.option("--seed", default=0, help="Of the random numbers.  [0]")
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
    """Simulate the failures of a spec's jobs at every point: goodput, and where the rest goes.

    The job is as long as job_duration says, where the spec gives it, and failures and wall time
    are shown; else so long (about 100 failures) that its start and end do not matter. Where the
    spec gives spare_nodes, how often they run out is shown; where it gives node_pool, how much of
    the time the cluster is whole.

    \b
    Example:
      fleetcube simulate examples/scaling-and-reliability.toml --trials 100 \\
          -o failures.csv
    """
    from fleetcube.grid.ask.simulate import VARIABLES, simulate_spec
    from fleetcube.grid.show.tables import check_target, check_variables, table, variables
    from fleetcube.grid.spec.axes import make_axes

    check_variables(variable, VARIABLES)  # before anything is waited for
    if output is not None:
        check_target(Path(output))
    told: Any = changed(spec, selectors).spec
    with progress("simulating"):
        found = simulate_spec(
            told["scenario"],
            told["axes"],
            trials=trials,
            seed=seed,
            threads=threads,
            printed=output is None,
        )
    if output is not None:
        write_table(variables(found, variable), output)
        return
    axes = make_axes(told["axes"]).values()
    given = {*told["scenario"], *(name for axis in axes for name in axis.inputs)}
    more = [name for key, names in _SIMULATED.items() if key in given for name in names]
    main = ["goodput", "goodput_error", *_OVERHEADS, *more, "outcome"]
    print_table(*table(variables(found, variable or main)))


@cli.command()
@click.argument("cube", type=click.Path())
@click.option("--bibtex", is_flag=True, help="Print the works that it rests on, as BibTeX.")
def show(cube: str, bibtex: bool) -> None:
    """Say what a cube holds: axes, variables, units, sources.

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
@click.option("--samples", default=16, help="Points of each variable computed again.  [16]")
def verify(cube: str, samples: int) -> None:
    """Check every file of a cube against its checksum, and some values by computing them again.

    \b
    Example:
      fleetcube verify cubes/scaling.zarr
    """
    from fleetcube.grid.store.verify import verify as check

    with progress("checking"):
        found = check(cube, samples)
    for note in found.notes:
        say(note)
    for problem in found.problems:
        say(problem)
    if found.problems:
        raise OSError(f"{cube!r} is damaged (problems: {len(found.problems)}); {found.advice}")
    if found.notes:
        say(f"{cube} is as it was sealed: {found.chunks} chunks; no value was computed again")
    else:
        say(f"{cube} is sound: {found.chunks} chunks and {found.samples} samples")


@cli.command("slice")
@click.argument("cube", type=click.Path())
@click.argument("selectors", nargs=-1)
@click.option("-v", "--variable", multiple=True, help="Variable to show; may be repeated.  [all]")
@to_file
def slice_cube(
    cube: str, selectors: tuple[str, ...], variable: tuple[str, ...], output: str | None
) -> None:
    """Cut a cube: axis=value, axis=first:last or axis=value,value.

    Numbers may carry units. The nearest point of a numeric axis is taken, and said.

    \b
    Example:
      fleetcube slice cubes/scaling.zarr n_gpus=1024 layout=pp4 \\
          fabric=infiniband-ndr checkpoint_write_bandwidth=100GB/s \\
          gpu_mttf=50000h -v goodput -v job_time
    """
    from fleetcube.grid.show.selectors import select
    from fleetcube.grid.show.tables import table, variables
    from fleetcube.grid.store.cube import open_cube

    whole = open_cube(cube)
    variables(whole, variable)  # names first
    cut, notes = select(whole, selectors)
    cut = variables(cut, variable)
    for note in notes:
        say(note, err=True)
    if output is not None:
        write_table(cut, output)
        return
    print_table(*table(cut))


@cli.command()
@click.argument("name", required=False)
def explain(name: str | None) -> None:
    """Say what a name means: formula, unit, default, source, what it is computed from and feeds.

    Another word lists the names with it in name or meaning. Without NAME, list all inputs with
    their defaults and all quantities.

    \b
    Example:
      fleetcube explain goodput
      fleetcube explain price
    """
    from fleetcube.grid.explain import explain as text

    say(text(name))


@cli.command()
@click.argument("kind", required=False)
@click.argument("label", required=False)
def catalog(kind: str | None, label: str | None) -> None:
    """List the catalog: its kinds, the labels of a KIND, or the values of a LABEL.

    A corrected record is a new edition; LABEL@1 is the first.

    \b
    Example:
      fleetcube catalog gpu h100-sxm
    """
    from fleetcube import catalog as entries
    from fleetcube.grid.explain import readable

    if kind is None:
        rows = [[name, ", ".join(entries.kind(name))] for name in entries.KINDS]
        print_table(["kind", "labels"], rows)
        return
    if label is None:
        rows = [[r.label, r.title, r.date] for r in entries.kind(kind).values()]
        print_table(["label", "title", "date"], rows)
        return
    record = entries.record(kind, label)
    say(f"{record.label}: {record.title}\n")
    for name, value in record.values.items():
        if isinstance(value, float):
            say(f"  {name:<28} {readable(value, record.unit(name), name)}")
        else:
            say(f"  {name:<28} {str(value).lower()}")
    say(f"\nsource:  {record.source}\ndate:    {record.date}\nnote:    {record.note}")
    say(f"edition: {record.edition} (sha256 {record.digest[:16]})")


for command in COMMANDS:
    cli.add_command(command)


def _show(cube: Any, sources: bool = False) -> None:
    from fleetcube.catalog.records import one_line
    from fleetcube.grid.plan.citations import records
    from fleetcube.grid.show.tables import counted

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
        say(f"infeasible: {_reasons(reason)}")
    _remarks(cube)
    if sources:
        version, engine = (cube.attrs.get(f"fleetcube_{name}") for name in ("version", "engine"))
        say(one_line(f"fleetcube {version}, engine {engine}"))
        for record in records(cube.attrs):
            edition = f", edition {record['edition']}" if "edition" in record else ""
            about = f"{record['source']} ({record['date']}{edition})"
            say(one_line(f"{record['kind']} {record['label']}: {about}"))


def _remarks(cube: Any, err: bool = False) -> None:
    """What else is to be known of a result."""
    from fleetcube.grid.explain import unused

    if "fleetcube_unused" in cube.attrs:
        say(unused(cube.attrs), err=err)
    if "fleetcube_medians" in cube.attrs:
        medians = ", ".join(json.loads(cube.attrs["fleetcube_medians"]))
        say(f"uncertain, at the median here: {medians}", err=err)


def _reasons(reason: Any) -> str:
    """How many layouts cannot be run, and why."""
    meanings = str(reason.attrs["flag_meanings"]).split()
    values = reason.values.ravel().tolist()
    counts = {code: values.count(code) for code in sorted(set(values) - {0})}
    told = ", ".join(
        f"{count} {meanings[code] if code > 0 else 'undefined'}" for code, count in counts.items()
    )
    over = " x ".join(map(str, reason.dims))
    where = f" combinations of {over}" if len(values) > 1 else ""
    return f"{sum(counts.values())} of {len(values)}{where}" + (f" ({told})" if told else "")


def _sizes(sizes: Any) -> str:
    return " x ".join(f"{name} ({size})" for name, size in sizes.items()) or "no axes"


class Terminated(KeyboardInterrupt):
    """SIGTERM. Of a plain KeyboardInterrupt inside `exec`, Python dies by SIGINT in the end."""


def run() -> None:
    """Run the command line: one line, and the exit status, where it fails or is stopped."""

    def stop(*_: Any) -> None:
        raise Terminated

    def remark(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"note: {' '.join(str(message).split())}", err=True)

    def dropped(what: Any) -> None:
        # where Python drops what is raised (a finalizer, a callback), being stopped is raised anew
        if issubclass(what.exc_type, KeyboardInterrupt):
            code = signal.SIGTERM if what.exc_type is Terminated else signal.SIGINT
            threading.Timer(0.05, os.kill, [os.getpid(), code]).start()
        else:
            sys.__unraisablehook__(what)

    warnings.showwarning, sys.unraisablehook = remark, dropped
    signal.signal(signal.SIGTERM, stop)  # batch schedulers stop a job so
    try:
        cli(prog_name="fleetcube", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get("FLEETCUBE_DEBUG"):
            traceback.print_exc()
        say(f"fleetcube: {_told(error)}", err=True)
        sys.exit(_status(error))


def _status(error: BaseException) -> int:
    """The exit status of an error; of being stopped, that of shells."""
    from fleetcube.catalog import CatalogError
    from fleetcube.grid.errors import InputError

    if isinstance(error, click.Abort | KeyboardInterrupt):
        stopped = error.__cause__ or error
        return 128 + (signal.SIGTERM if isinstance(stopped, Terminated) else signal.SIGINT)
    return 2 if isinstance(error, InputError | CatalogError) else 1


def _told(error: BaseException) -> str:
    """An error in one line."""
    from fleetcube.catalog import CatalogError
    from fleetcube.grid.errors import InputError

    text = " ".join(str(error).split())
    if isinstance(error, click.Abort | KeyboardInterrupt):
        told = error.__cause__ if isinstance(error, click.Abort) else error
        return f"stopped; {str(told or '') or 'nothing was kept'}"
    if isinstance(error, MemoryError):
        return "out of memory; use fewer threads or float32"
    if isinstance(error, InputError | CatalogError | OSError):
        return text
    if "checksum" in text:
        return f"a chunk is damaged ({text[:100]}); `fleetcube verify CUBE` says which"
    return f"{type(error).__name__}: {text[:300]}; `fleetcube --debug ...` shows where"
