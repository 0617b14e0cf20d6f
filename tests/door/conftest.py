"""The command line inside this process: without the second that Python and its imports take."""

import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from fleetcube.__main__ import main


@pytest.fixture
def inside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CompletedProcess[str]]:
    """Runs `fleetcube` with arguments in a folder."""

    def run(*arguments: str, folder: Path) -> CompletedProcess[str]:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["fleetcube", *arguments])
        before = signal.getsignal(signal.SIGTERM)
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        finally:
            signal.signal(signal.SIGTERM, before)
        said = capsys.readouterr()
        return CompletedProcess(arguments, code, said.out, said.err)

    return run
