"""The command line: declares `fleetcube` and its commands, and runs the one that is named."""

import os
import re
import signal
import sys
import threading
import traceback
import warnings
from typing import Any

import click

from fleetcube import stop
from fleetcube.catalog.files import expanded
from fleetcube.commands.shared.errors import exit_status, one_line, refusal
from fleetcube.commands.shared.listing import COMMANDS, Listed
from fleetcube.commands.shared.progress import log_to_stderr
from fleetcube.commands.shared.say import columns, say
from fleetcube.text import WIDTH


@click.group(
    cls=Listed,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 success; 1 failure, or damage found; 2 input refused, or no answer; "
    "130 or 143 stopped by Ctrl-C or SIGTERM.",
)
@click.version_option(package_name="fleetcube", prog_name="fleetcube")
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
        context.call_on_close(log_to_stderr(verbose))
    if graph:
        from fleetcube.grid.spec.graphs import with_graph

        context.obj = with_graph({}, list(graph))  # refused here if it cannot be imported


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
        # shells leave `--output=~/a.zarr` and `calibration=~/a.toml` as they are
        named = [re.split(r"^(-{0,2}[\w-]+=|-\w)(?=~)", word) for word in sys.argv[1:]]
        words = ["".join([*before, expanded(path)]) for *before, path in named]
        if status := cli(words, prog_name="fleetcube", standalone_mode=False):
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
        say(f"fleetcube: {one_line(error)}", err=True)
        sys.exit(exit_status(error))
