"""The command line: a door to grid/ and catalog/, with no logic of its own."""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import click

from fleetcube import __version__
from fleetcube.commands import COMMANDS
from fleetcube.commands.progress import progress
from fleetcube.commands.table import print_table, to_file, write_table

_SETTINGS = {"help_option_names": ["-h", "--help"]}
_MOST_COUNTED = 10_000_000  # layouts whose reasons are counted
_SIMULATED = ("goodput", "goodput_error", "failures", "spare_shortage", "wall_time", "outcome")


@click.group(
    context_settings=_SETTINGS,
    epilog="Exit status: 0 done; 1 failed, stopped or found damage; 2 refused for its input.",
)
@click.version_option(__version__, prog_name="fleetcube")
@click.option("--debug", is_flag=True, help="Show where an error arose (or FLEETCUBE_DEBUG=1).")
def cli(debug: bool) -> None:
    """Sweep the physics of large-scale AI training over millions of points.

    \b
    Example:
      fleetcube run examples/scaling-and-reliability.toml -o cubes/scaling.zarr
      fleetcube show cubes/scaling.zarr
      fleetcube explain goodput
    """
    if debug:
        os.environ["FLEETCUBE_DEBUG"] = "1"


@cli.command("run")
@click.argument("spec", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="Cube to write (Zarr v3).")
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
    output: str,
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
    """Evaluate a spec into a cube on disk.

    \b
    Example:
      fleetcube run examples/scaling-and-reliability.toml -o cubes/scaling.zarr
      fleetcube run examples/scaling-and-reliability.toml --resume \\
          -o cubes/scaling.zarr
      fleetcube run examples/scaling-and-reliability.toml --dask 4 \\
          -o s3://bucket/scaling.zarr
    """
    from fleetcube.grid.cube import open_cube, parse_chunks, size_of
    from fleetcube.grid.place import place_of
    from fleetcube.grid.sweep import Sweep

    sweep = Sweep.from_file(spec)
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
    click.echo(f"{sweep.points:,} points in {seconds:.1f} s with {used}")
    click.echo(f"wrote {path} ({size / 1e6:.1f} MB)")
    _show(open_cube(path))


@cli.command()
@click.argument("spec", type=click.Path())
@click.option("--trials", default=1000, help="Jobs simulated at every point.  [1000]")
@click.option("--seed", default=0, help="Of the random numbers.  [0]")
@click.option("--threads", type=int, help="Cores to use.  [all]")
@click.option(
    "-v", "--variable", multiple=True, help="Variable to show.  [the main ones; all with -o]"
)
@to_file
def simulate(
    spec: str,
    trials: int,
    seed: int,
    threads: int | None,
    variable: tuple[str, ...],
    output: str | None,
) -> None:
    """Simulate the failures of a spec's jobs at every point: goodput, losses, spares run out.

    \b
    Example:
      fleetcube simulate examples/scaling-and-reliability.toml --trials 100 \\
          -o failures.csv
    """
    from fleetcube.grid.simulate import VARIABLES, simulate_spec
    from fleetcube.grid.slicing import check_target, check_variables, table, variables
    from fleetcube.grid.sweep import Sweep

    check_variables(variable, VARIABLES)  # before anything is waited for
    if output is not None:
        check_target(Path(output))
    told: Any = Sweep.from_file(spec).spec
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
    print_table(*table(variables(found, variable or _SIMULATED)))


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
    from fleetcube.grid.citations import citations
    from fleetcube.grid.cube import open_cube

    if bibtex:
        click.echo(citations(open_cube(cube)))
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
    from fleetcube.grid.verify import verify as check

    with progress("checking"):
        found = check(cube, samples)
    for note in found.notes:
        click.echo(note)
    for problem in found.problems:
        click.echo(problem)
    if found.problems:
        raise OSError(f"{cube!r} is damaged in {len(found.problems)} places; {found.advice}")
    click.echo(f"{cube} is sound: {found.chunks} chunks and {found.samples} samples")


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
    from fleetcube.grid.cube import open_cube
    from fleetcube.grid.slicing import select, table, variables

    cut, notes = select(variables(open_cube(cube), variable), selectors)
    for note in notes:
        click.echo(note, err=True)
    if output is not None:
        write_table(cut, output)
        return
    print_table(*table(cut))


@cli.command()
@click.argument("name", required=False)
def explain(name: str | None) -> None:
    """Say what a name means: formula, unit, default, source, what it is computed from and feeds.

    Without NAME, list all inputs with their defaults and all quantities.

    \b
    Example:
      fleetcube explain goodput
    """
    from fleetcube.grid.explain import explain as text

    click.echo(text(name))


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
    from fleetcube.grid.slicing import scale

    if kind is None:
        rows = [[name, ", ".join(entries.kind(name))] for name in entries.KINDS]
        print_table(["kind", "labels"], rows)
        return
    if label is None:
        rows = [[r.label, r.title, r.date] for r in entries.kind(kind).values()]
        print_table(["label", "title", "date"], rows)
        return
    record = entries.record(kind, label)
    click.echo(f"{record.label}: {record.title}\n")
    for name, value in record.values.items():
        if isinstance(value, float):
            factor, unit = scale(record.unit(name), value, name)
            click.echo(f"  {name:<28} {value / factor:,.10g} {unit}".rstrip())
        else:
            click.echo(f"  {name:<28} {str(value).lower()}")
    click.echo(f"\nsource:  {record.source}\ndate:    {record.date}\nnote:    {record.note}")
    click.echo(f"edition: {record.edition} (sha256 {record.digest[:16]})")


for command in COMMANDS:
    cli.add_command(command)


def _show(cube: Any, sources: bool = False) -> None:
    from fleetcube.grid.citations import records

    order = list(json.loads(cube.attrs["fleetcube_spec"])["axes"])
    sizes = sorted(cube.sizes.items(), key=lambda item: order.index(item[0]))
    click.echo(f"axes: {_sizes(dict(sizes))}")
    rows = []
    for name, variable in cube.data_vars.items():
        unit = "flag" if "flag_meanings" in variable.attrs else variable.attrs.get("units", "")
        dims = ", ".join(map(str, variable.dims)) or "-"
        rows.append([str(name), "-" if unit == "1" else unit, dims])
    print_table(["variable", "unit", "axes"], rows)
    reason = cube.coords.get("infeasible_reason")
    if reason is not None and reason.size <= _MOST_COUNTED:
        click.echo(f"infeasible: {_reasons(reason)}")
    if "fleetcube_unused" in cube.attrs:
        unused = str(cube.attrs["fleetcube_unused"]).split()
        click.echo(f"set, but nothing here depends on it: {', '.join(unused)}")
    if "fleetcube_medians" in cube.attrs:
        medians = ", ".join(json.loads(cube.attrs["fleetcube_medians"]))
        click.echo(f"uncertain, at the median here: {medians}")
    if sources:
        click.echo(
            f"fleetcube {cube.attrs.get('fleetcube_version')}, engine "
            f"{cube.attrs.get('fleetcube_engine')}"
        )
        for record in records(cube.attrs):
            edition = f", edition {record['edition']}" if "edition" in record else ""
            about = f"{record['source']} ({record['date']}{edition})"
            click.echo(f"{record['kind']} {record['label']}: {about}")


def _reasons(reason: Any) -> str:
    """How many layouts cannot be run, and why."""
    meanings = str(reason.attrs["flag_meanings"]).split()
    values = reason.values.ravel().tolist()
    counts = {code: values.count(code) for code in sorted(set(values) - {0})}
    told = ", ".join(
        f"{count} {meanings[code] if code > 0 else 'undefined'}" for code, count in counts.items()
    )
    return f"{sum(counts.values())} of {len(values)}" + (f" ({told})" if told else "")


def _sizes(sizes: Any) -> str:
    return " x ".join(f"{name} ({size})" for name, size in sizes.items()) or "no axes"


class Terminated(KeyboardInterrupt):
    """SIGTERM. Of a plain KeyboardInterrupt inside `exec`, Python dies by SIGINT in the end."""


def run() -> None:
    """Run the command line: one line and exit 2 for bad input, 1 for a failed run."""
    from fleetcube.catalog import CatalogError
    from fleetcube.grid.errors import InputError

    def stop(*_: Any) -> None:
        raise Terminated

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
        click.echo(f"fleetcube: {_told(error)}", err=True)
        sys.exit(2 if isinstance(error, InputError | CatalogError) else 1)


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
    return f"{type(error).__name__}: {text[:300]}; `fleetcube --debug ...` shows where"
