"""The lock of a cube in a folder: refused where it would do nothing, and not needed to read."""

import errno
import fcntl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fleetcube import Sweep

from .common import Patch, refused

SMALL: dict[str, Any] = {"axes": {"n_gpus": [8, 64]}, "outputs": ["cluster_mtbf"]}


def nothing(*_: Any) -> None:
    """A file system that grants every lock."""


def no_locks(*_: Any) -> None:
    """A file system that has none, as Lustre without -o flock."""
    raise OSError(errno.ENOSYS, "Function not implemented")


@pytest.mark.parametrize("flock", [nothing, no_locks])
def test_file_systems_without_locks(flock: Any, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(fcntl, "flock", flock)
    path = tmp_path / "a.zarr"
    refused(r"does not lock files .* mount it with locks", lambda: Sweep({}, **SMALL).to_zarr(path))
    monkeypatch.undo()
    Sweep({}, **SMALL).to_zarr(path, resume=True)  # the locks are there: nothing is in the way


READS = """
import sys
sys.modules["fcntl"] = None  # as on Windows
from fleetcube import open_cube
from fleetcube.cli import run
cube = open_cube("a.zarr").load()
for words in ("show a.zarr", "slice a.zarr n_gpus=8", "verify a.zarr"):
    sys.argv = ["fleetcube", *words.split()]
    run()
"""


@pytest.mark.slow
def test_a_cube_is_read_without_file_locks(tmp_path: Path) -> None:
    Sweep({}, **SMALL).to_zarr(tmp_path / "a.zarr")
    given: Any = dict(cwd=tmp_path, capture_output=True, text=True, timeout=600)
    done = subprocess.run([sys.executable, "-c", READS], **given)
    with_locks = subprocess.run(
        [sys.executable, "-c", READS.replace("sys.modules", "_ = {}; _")], **given
    )
    assert (done.returncode, done.stderr) == (0, with_locks.stderr)
    assert "is sound" in done.stdout
