"""The command line inside this process, which saves a second of start-up."""

import contextlib
import io
import signal
import sys
import warnings
from pathlib import Path
from subprocess import CompletedProcess
from typing import TextIO

import pytest

from fleetcube.__main__ import main


def fleetcube(*arguments: str, folder: Path | str = ".", **settings: str) -> CompletedProcess[str]:
    """Run `fleetcube` with arguments in a folder, with changes to the environment."""
    out, err = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    code = run(*arguments, folder=folder, out=out, err=err, **settings)
    for stream in (out, err):
        stream.seek(0)
    return CompletedProcess(arguments, code, out.read(), err.read())


def run(
    *arguments: str, folder: Path | str = ".", out: TextIO, err: TextIO, **settings: str
) -> int:
    """The exit status; output goes to two streams."""
    before = {code: signal.getsignal(code) for code in (signal.SIGINT, signal.SIGTERM)}
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["fleetcube", *arguments])
        patch.setattr(sys, "unraisablehook", sys.unraisablehook)  # the command sets it
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        for name, value in settings.items():
            patch.setenv(name, value)
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return 0
