"""Readers beside a writer: two cubes take turns in one place, and every read is told apart.

`python -m tests.grid.races READS`: exit 0 where none is wrong.
"""

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from click.testing import CliRunner

from fleetcube import InputError, Sweep
from fleetcube.cli import cli
from fleetcube.grid.explore.view import View
from fleetcube.grid.store.cube import open_cube

ROOT = Path(__file__).parents[2]
SCENARIO: dict[str, Any] = {
    "model": "llama-3-8b",
    "node": "dgx-h100",
    "fabric": "infiniband-ndr",
    "global_batch_size": 64,
}
AXES: dict[str, Any] = {
    "n_gpus": [8, 64, 512],
    "layout": {"labels": ["whole", "cut"], "tensor_parallel": [1, 8]},
}
SIZES = (20, 9)  # points of gpu_mttf of the two cubes
WAYS = ("lazily", "eagerly", "dask", "xarray", "slice", "plot", "explorer")
CHUNKS = {"gpu_mttf": 8}

# What the other process does, until it is stopped
BESIDE = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.grid.races import CHUNKS, SIZES, sweep
while True:
    for size in SIZES:
        sweep(size).store(sys.argv[1], overwrite=True, chunks=CHUNKS)
"""


@cache
def sweep(size: int) -> Sweep:
    """One of the two: other points of one axis, other values."""
    scenario = {**SCENARIO, "restart_time": float(size)}
    axes = {**AXES, "gpu_mttf": np.geomspace(1e7, 1e9, size)}
    return Sweep(scenario, axes, ["goodput", "job_time"])


@cache
def truth(size: int) -> xarray.Dataset:
    """What a cube holds, as evaluated."""
    return sweep(size).evaluate()


def answer(path: str, how: str) -> Any:
    """What one way to read a cube gives."""
    if how == "slice":
        words = ["slice", path, "n_gpus=512", "-v", "goodput", "-v", "job_time"]
        return _command(*words)
    if how == "plot":
        picture = Path(path).with_suffix(".png")
        _command("plot", path, "-v", "goodput", "-x", "gpu_mttf", "layout=cut", "-o", str(picture))
        return picture.read_bytes()
    if how == "explorer":
        shown = View.open(path).slice("variable=job_time&x=n_gpus&y=gpu_mttf")
        return str({**shown, "seconds": 0})
    if how == "xarray":
        cube = xarray.open_dataset(path, engine="fleetcube")
    else:
        cube = open_cube(path, chunks={} if how == "dask" else None)
    if how == "eagerly":
        cube = cube.load()
    values = [cube[name].values.tobytes() for name in ("goodput", "job_time", "gpu_mttf")]
    return *values, cube.attrs["fleetcube_spec"]


def _command(*words: str) -> str:
    done = CliRunner().invoke(cli, list(words))
    if isinstance(done.exception, InputError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@cache
def answers(how: str) -> dict[Any, str]:
    """What the two cubes give where nobody writes."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for size, name in zip(SIZES, ("first", "second"), strict=True):
            path = f"{folder}/{size}/a.zarr"
            Path(path).parent.mkdir()
            sweep(size).store(path, chunks=CHUNKS)
            found[answer(path, how)] = name
    return found


def read(path: str, how: str) -> str:
    """One read: "first", "second", "refused" in one line, or "wrong"."""
    known = answers(how)
    try:
        return known.get(answer(path, how), "wrong")
    except InputError as error:
        return "wrong" if "\n" in str(error) else "refused"


def beside(path: str) -> "subprocess.Popen[bytes]":
    """Start the writer."""
    return subprocess.Popen([sys.executable, "-c", BESIDE, path, str(ROOT)])


def main(reads: int) -> None:
    """Read in every way, beside a writer."""
    outcomes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/a.zarr"
        sweep(SIZES[0]).store(path, chunks=CHUNKS)
        writer = beside(path)
        try:
            for count in range(reads):
                found = read(path, WAYS[count % len(WAYS)])
                outcomes[found] = outcomes.get(found, 0) + 1
        finally:
            writer.kill()
            writer.wait()
    print(f"{reads} reads beside a writer: {outcomes}")
    sys.exit("wrong" in outcomes)


if __name__ == "__main__":
    main(int(sys.argv[1]))
