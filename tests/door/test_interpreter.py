"""The command line under other interpreter settings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = """
outputs = ["job_time"]
[scenario]
model = "llama-3-8b"
node = "dgx-h100"
fabric = "roce-100g"
calibration = "none"
[axes]
n_gpus = [8, 64]
"""
DRIVER = """
import sys
from fleetcube.cli import run
for words in ("run spec.toml -o a.zarr", "show a.zarr", "slice a.zarr", "verify a.zarr",
              "explain goodput", "run spec.toml n_gpus=16"):
    sys.argv = ["fleetcube", *words.split()]
    run()
"""


def python(folder: Path, *words: str, **settings: str) -> "subprocess.CompletedProcess[str]":
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.slow
def test_nothing_hangs_on_an_assert(tmp_path: Path) -> None:
    done = python(tmp_path, "-O", "-c", DRIVER)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "and 32 samples" in done.stdout  # of job_time and infeasible_reason
    assert "axes: n_gpus (2)" in done.stdout


def test_docstrings_are_asked_for(tmp_path: Path) -> None:
    done = python(tmp_path, "-OO", "-m", "fleetcube", "run", "spec.toml")
    assert done.returncode == 1
    assert "python -OO strips the docstrings" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_closed_output_is_said_before_anything_is_computed(tmp_path: Path) -> None:
    closing = (
        "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    words = ("-m", "fleetcube", "run", "spec.toml", "-o", "a.zarr")
    done = python(tmp_path, "-c", closing, *words)
    assert done.returncode == 1
    assert done.stderr.startswith("fleetcube: standard output is closed; ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize("engine", ["numba", "auto"])
def test_without_a_compiler_numpy_is_taken_or_numba_refused(tmp_path: Path, engine: str) -> None:
    words = ("-m", "fleetcube", "run", "spec.toml", "--engine", engine)
    done = python(tmp_path, *words, NUMBA_DISABLE_JIT="1")
    assert "Traceback" not in done.stderr
    assert done.returncode == (2 if engine == "numba" else 0)
    assert ("unset NUMBA_DISABLE_JIT" in done.stderr) == (engine == "numba")


def test_a_device_that_is_not_there_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    words = ("-m", "fleetcube", "run", "spec.toml", "--engine", "jax", "-o", "a.zarr")
    done = python(tmp_path, *words, JAX_PLATFORMS="cuda,nonsense")
    assert done.returncode == 2
    assert "JAX_PLATFORMS = 'cuda,nonsense' names no device that JAX finds here" in done.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["spec.toml"]


DROPPED = """
import signal, sys, time
from fleetcube.cli import cli, run
class Gone:
    def __del__(self):
        signal.raise_signal(signal.{name})
@cli.command()
def wait():
    Gone()  # what is raised in it is dropped
    time.sleep(60)
sys.argv = ["fleetcube", "wait"]
run()
"""


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_being_stopped_in_a_finalizer_is_not_lost(tmp_path: Path, name: str, status: int) -> None:
    set_ = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    done = python(tmp_path, "-c", set_ + DROPPED.format(name=name))
    assert (done.returncode, done.stderr.strip()) == (
        status,
        "fleetcube: stopped; nothing was kept",
    )


REPEATED = """
import signal
from fleetcube import cli
def kept():
    try:
        signal.raise_signal(signal.{name})
    except KeyboardInterrupt as stopped:
        signal.raise_signal(signal.{again})  # while it is cleared up
        raise type(stopped)("all is kept") from None
cli.cli.command("wait")(kept)
line = cli.one_line
def last(error):
    signal.raise_signal(signal.{again})  # and while the last line is printed
    return line(error)
cli.one_line = last
import sys
sys.argv = ["fleetcube", "wait"]
from fleetcube.__main__ import main
main()
"""


@pytest.mark.parametrize("again", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_being_stopped_twice_is_being_stopped(
    tmp_path: Path, name: str, status: int, again: str
) -> None:
    set_ = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    done = python(tmp_path, "-c", set_ + REPEATED.format(name=name, again=again))
    assert (done.returncode, done.stderr.strip()) == (status, "fleetcube: stopped; all is kept")


LOADING = """
import builtins, signal
found = builtins.__import__
def load(name, *arguments):
    if name == "fleetcube.cli":
        signal.raise_signal(signal.{name})
    return found(name, *arguments)
builtins.__import__ = load
from fleetcube.__main__ import main
main()
"""


@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_being_stopped_while_modules_load(tmp_path: Path, name: str, status: int) -> None:
    set_ = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    done = python(tmp_path, "-c", set_ + LOADING.format(name=name))
    line = "fleetcube: stopped; nothing was kept"
    assert (done.returncode, done.stderr.strip()) == (status, line)
