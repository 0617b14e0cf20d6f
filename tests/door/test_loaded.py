"""What commands that print tables load: none of the libraries that take longer to load than the
table to compute."""

import functools
import subprocess
import sys
from pathlib import Path

import pytest

from fleetcube import Sweep

HEAVY = {"xarray", "pandas", "dask", "scipy", "pint", "pyarrow", "zarr", "asyncio", "numpy.f2py"}
POINT = "example:llama-3-405b"
COMMANDS = [
    ["run", POINT],
    ["run", POINT, "n_gpus=8192,16384", "--relative-to", "n_gpus", "-v", "job_time"],
    ["solve", POINT, "--for", "gpu_mttf", "--target", "goodput = 0.9"],
    ["explain", "job_time"],
    ["explain", POINT],
    ["catalog", "gpu"],
    ["plan", POINT],
    ["compare", POINT, "n_gpus=8192,16384"],
    ["sensitivity", POINT, "--of", "job_time"],
]
CUBE = {"n_gpus": [8192, 16384], "fabric": ["infiniband-ndr", "infiniband-xdr"]}
OF_CUBES = [
    ["slice", "cube.zarr", "n_gpus=8192"],
    ["slice", "cube.zarr", "fabric=infiniband-ndr", "-v", "job_time", "--no-interval"],
    ["show", "cube.zarr"],
    ["show", "cube.zarr", "--bibtex"],
    ["run", POINT, "n_gpus=8192,16384", "-o", "other.zarr", "--overwrite"],
]
SCRIPT = """
import atexit, sys
from fleetcube.__main__ import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
main()
"""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_load_no_library_that_tables_do_not_need(command: list[str]) -> None:
    assert HEAVY.isdisjoint(loaded(*command))


@pytest.mark.parametrize("command", COMMANDS[:2], ids=" ".join)
def test_a_point_loads_no_reader_of_other_files(command: list[str]) -> None:
    others = {"yaml", "email", "importlib.metadata", "numpy.ma", "numcodecs", "llvmlite", "jax"}
    assert others.isdisjoint(loaded(*command))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cubes")
    scenario = {"model": "llama-3-405b", "node": "dgx-h100"}
    Sweep(scenario, CUBE, ["job_time"]).to_zarr(folder / "cube.zarr")
    return folder


@pytest.mark.parametrize("command", OF_CUBES, ids=" ".join)
def test_cubes_are_printed_without_zarr_and_xarray(command: list[str], folder: Path) -> None:
    assert HEAVY.isdisjoint(loaded(*command, folder=folder))


@functools.cache
def loaded(*command: str, folder: Path | None = None) -> set[str]:
    """The modules of a command's process."""
    asked = [sys.executable, "-c", SCRIPT, *command]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=folder)
    return {*done.stderr.splitlines()[-1].split()}
