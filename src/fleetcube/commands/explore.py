"""`fleetcube explore`: a spec or a cube in the browser."""

import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fleetcube.commands.shared import complete
from fleetcube.commands.shared.say import say
from fleetcube.grid.errors import InputError, check_path
from fleetcube.stop import is_heard

if TYPE_CHECKING:
    from fleetcube.presentation.page.view import View


@click.command()
@complete.spec("source", metavar="CUBE|SPEC")
@click.option("--port", default=0, help="Port to listen on; 0 picks a free one.  [0]")
@click.option("--host", default="127.0.0.1", help="Address to listen on.  [127.0.0.1]")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option("-o", "--output", help="Write a page of a spec that needs no server (.html).")
def explore(source: str, port: int, host: str, no_browser: bool, output: str | None) -> None:
    """View a cube, or a spec without evaluating it first, on a local web page.

    The page decides: the answer in a sentence, cost against time, a map of any output over any two
    inputs, every number as a slider. Of a cube it shows the stored values, with what the formulas
    give next to them. Ctrl-C or SIGTERM stops it.

    With -o the page of a spec is one file instead, to keep or to mail: the formulas, written as
    JavaScript, compute in the browser.

    \b
    Example:
      fleetcube explore cubes/scaling.zarr
      fleetcube explore examples/scaling-and-reliability.toml --port 8000
      fleetcube explore examples/h100.toml -o h100.html
    """
    import asyncio
    import webbrowser

    from fleetcube.presentation.page.server import Server

    if output is not None:
        _write(source, output)
        return
    if not 0 <= port <= 65535:
        raise InputError(f"--port {port} is not a port; give 0 to 65535")
    with Server(opened(source), host, port) as server:
        how = "Ctrl-C" if is_heard() else f"kill {os.getpid()}"
        say(f"{source} is shown at {server.url} ({how} stops it)")
        if not server.local:
            say(f"--host {host}: everyone who can reach this machine can read it", err=True)
        if not no_browser and _has_screen():
            webbrowser.open(server.url)

        async def serve() -> None:
            loop, serving = asyncio.get_running_loop(), asyncio.ensure_future(server.serve())

            def stop(*_: object) -> None:
                # thread-safe, as required to wake the waiting loop from a signal handler
                with contextlib.suppress(RuntimeError):  # sent again after it has ended
                    loop.call_soon_threadsafe(serving.cancel)

            for code in (signal.SIGTERM, *((signal.SIGINT,) if is_heard() else ())):
                signal.signal(code, stop)
            await serving

        try:
            asyncio.run(serve())
        except (KeyboardInterrupt, asyncio.CancelledError):
            say("ended")


def opened(source: str) -> "View | str":
    """The page of a spec, or a view of a cube, or of a spec that one page cannot hold."""
    from fleetcube.presentation.page.page import page
    from fleetcube.presentation.page.view import View
    from fleetcube.sweep import Sweep

    check_path(source)
    if not (source.startswith("example:") or source.endswith(".toml") or Path(source).is_file()):
        return View.open(source)
    sweep = Sweep.from_file(source)
    try:
        return page(sweep.spec, source, source)
    except InputError as error:
        return View(sweep.virtual(), source, None, str(error))


def _write(source: str, output: str) -> None:
    """Write the page of a spec to a file."""
    from fleetcube.presentation.page.page import check_target
    from fleetcube.sweep import Sweep

    check_target(output)
    text = Sweep.from_file(source).to_html(output, source)
    say(f"{output} is written ({len(text) / 1000:,.0f} kB): open it in any browser")


def _has_screen() -> bool:
    """Whether a browser can open a window: a terminal browser would take over the terminal."""
    other = sys.platform in ("darwin", "win32")
    return other or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
