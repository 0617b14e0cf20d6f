"""What commands that print tables load: none of the libraries that take longer to load than the
table to compute."""

import subprocess
import sys

import pytest

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
SCRIPT = """
import atexit, sys
from fleetcube.__main__ import main
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
main()
"""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_load_no_library_that_tables_do_not_need(command: list[str]) -> None:
    asked = [sys.executable, "-c", SCRIPT, *command]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(done.stderr.splitlines()[-1].split())
