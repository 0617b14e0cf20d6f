"""Messages of the logger "fleetcube" during a run, and silence by default."""

import logging
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fleetcube import Settings, Sweep
from fleetcube.grid.store.writer import Writer
from fleetcube.kernels import log
from fleetcube.kernels.engines import numba as numba_engine

from ..door.command import fleetcube
from .common import Patch

AXES = {"n_gpus": [8, 64], "gpu_mttf": np.linspace(1e7, 2e8, 5)}


def sweep() -> Sweep:
    return Sweep({"series_psus_per_node": 2}, AXES, ["cluster_mtbf"])


@pytest.mark.slow
def test_nothing_is_printed_unless_a_program_asks(tmp_path: Path) -> None:
    script = (
        "import sys; from fleetcube.kernels import log; import fleetcube;"
        "log.warning('a fault of %s', 'x');"
        "fleetcube.Sweep({'series_psus_per_node': 2}, {'n_gpus': [8, 64]}, ['cluster_mtbf'])"
        ".to_zarr(sys.argv[1])"
    )
    words = [sys.executable, "-c", script, str(tmp_path / "a.zarr")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_run_says_what_it_does(tmp_path: Path, caplog: Any, monkeypatch: Patch) -> None:
    caplog.set_level(logging.DEBUG, "fleetcube")
    write, path = Writer.write, tmp_path / "a.zarr"

    def failing(self: Writer, place: object, dims: tuple[str, ...], region: dict[str, slice]):  # type: ignore[no-untyped-def]
        if region["n_gpus"].start == 1:
            raise OSError("disk full")
        return write(self, place, dims, region)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "write", failing)
        with pytest.raises(OSError, match="disk full"):
            sweep().to_zarr(path, chunks={"n_gpus": 1}, settings=Settings(threads=1))
    begun = [f"{r.levelname} {r.getMessage()}" for r in caplog.records]
    assert any(line.startswith("DEBUG plan: engine numpy, 10 points, 1 outputs") for line in begun)
    step = f"INFO {path}.partial: engine numpy, 10 points, 2 blocks to write, 0 kept"
    assert any(line.startswith(step) for line in begun)
    caplog.clear()
    sweep().to_zarr(path, chunks={"n_gpus": 1}, resume=True)
    resumed = caplog.text
    assert "1 blocks to write, 1 kept of an earlier run" in resumed
    assert resumed.count("DEBUG") - resumed.count("DEBUG    fleetcube:evaluation") == 1  # a block
    assert "block n_gpus 1:2, gpu_mttf 0:5: 1 files" in resumed
    assert "sealed, 2 blocks" in resumed
    caplog.clear()
    sweep().to_zarr(path, chunks={"n_gpus": 1}, resume=True)
    assert "complete and sound, nothing to write" in caplog.text


def test_compiled_and_kept_kernels(tmp_path: Path, caplog: Any, monkeypatch: Patch) -> None:
    monkeypatch.setenv("FLEETCUBE_CACHE", str(tmp_path))
    caplog.set_level(logging.INFO, "fleetcube")
    for how in ("compiled", "read from the cache"):
        monkeypatch.setattr(numba_engine, "_ready", OrderedDict())
        caplog.clear()
        Sweep({}, AXES, ["nodes"]).evaluate(settings=Settings("numba"))  # one small formula
        assert f"kernel of nodes {how} in " in caplog.text


def test_text_in_the_log_is_one_visible_line(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("%s: %d %s", "a\nINFO forged \x1b[31m\u202e", 3, Path("\u00fc"))
    assert caplog.messages == ["a\\u000aINFO forged \\u001b[31m\\u202e: 3 \u00fc"]


def test_the_command_logs_to_standard_error_when_asked(tmp_path: Path) -> None:
    spec = 'outputs = ["cluster_mtbf"]\n[scenario]\nseries_psus_per_node = 2\n[axes]\nn_gpus = [8]'
    (tmp_path / "a.toml").write_text(spec, encoding="utf-8")
    words = ("run", "a.toml", "-o", "a.zarr", "--overwrite")
    assert fleetcube(*words, folder=tmp_path).stderr == ""
    told = [fleetcube(f"-{'v' * n}", *words, folder=tmp_path) for n in (1, 2)]
    assert "INFO a.zarr.partial: sealed, 1 blocks" in told[0].stderr
    assert "DEBUG" not in told[0].stderr
    assert "DEBUG block n_gpus 0:1: 1 files" in told[1].stderr
    assert [each.returncode for each in told] == [0, 0]
    assert fleetcube(*words, folder=tmp_path).stderr == ""  # the next one is silent again
