"""Readers concurrent with a writer: two cubes alternate in one place, and every read is classified.

The writer overwrites one by the other, appends to one until it is the other, or repairs a damaged
one, in a folder and in an Icechunk repository. `python -m tests.grid.races READS`: exit 0 if none
is wrong.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray
from click.testing import CliRunner
from zarr.buffer import default_buffer_prototype

from fleetcube import InputError, Sweep
from fleetcube.cli import cli
from fleetcube.grid.store.cube import open_cube
from fleetcube.grid.store.places.address import place_of
from fleetcube.grid.store.places.icechunk import Icechunk
from fleetcube.grid.store.places.wait import wait
from fleetcube.presentation.page.view import View

from .common import on_h100

ROOT = Path(__file__).parents[2]
SCENARIO = on_h100(global_batch_size=64)
AXES: dict[str, Any] = dict(
    n_gpus=[8, 64, 512], layout={"labels": ["whole", "cut"], "tensor_parallel": [1, 8]}
)
SIZES = (20, 9)  # points of gpu_mttf of the two cubes
WAYS = ("lazily", "eagerly", "dask", "xarray", "slice", "plot", "explorer")
CHUNKS = {"gpu_mttf": 8}

# The other process, until it is stopped
BESIDE = """
import sys, time
sys.path.insert(0, sys.argv[3])
from tests.grid.races import write
while True:
    write(sys.argv[1], sys.argv[2])
    print("written", flush=True)
    time.sleep(0.2)  # in which a read finds the cube whole
"""
WRITERS = ("overwrite", "append", "repair")


@cache
def sweep(size: int, of: int | None = None) -> Sweep:
    """One of two sweeps of different points and values; or the first points `of` one."""
    of = of or size
    axes = {**AXES, "gpu_mttf": np.geomspace(1e7, 1e9, of)[:size]}
    return Sweep({**SCENARIO, "restart_time": float(of)}, axes, ["goodput", "job_time"])


def write(path: str, how: str) -> None:
    large, small = map(sweep, SIZES)
    if how == "repair":
        harm(path)
        large.to_zarr(path, resume=True, chunks=CHUNKS)
        return
    if how == "append":
        sweep(SIZES[1], SIZES[0]).to_zarr(path, overwrite=True, chunks=CHUNKS)
        large.to_zarr(path, append=True, chunks=CHUNKS)
    else:
        small.to_zarr(path, overwrite=True, chunks=CHUNKS)
        large.to_zarr(path, overwrite=True, chunks=CHUNKS)


def harm(path: str) -> None:
    """Replace a chunk by another valid one, and lose a third."""
    place = place_of(path)
    one, other, third = sorted(name for name in place.names() or () if "goodput/c/" in name)[:3]
    data = place.read(one)
    if isinstance(place, Icechunk):
        session = place._open().writable_session("main")
        wait(session.store.set(other, default_buffer_prototype().buffer.from_bytes(data)))
        wait(session.store.delete(third))
        session.commit("harm")
        return
    place.write(other, data)
    place.delete(third)


@cache
def truth(size: int) -> xarray.Dataset:
    return sweep(size).evaluate()


def answer(path: str, how: str) -> Any:
    if how == "slice":
        words = ["slice", path, "n_gpus=512", "-v", "goodput", "-v", "job_time"]
        return _command(*words)
    if how == "plot":
        with tempfile.TemporaryDirectory() as folder:
            words = ("-v", "goodput", "-x", "gpu_mttf", "layout=cut", "-o", f"{folder}/a.png")
            _command("plot", path, *words)
            return Path(folder, "a.png").read_bytes()
    if how == "explorer":
        shown = View.open(path).slice("variable=job_time&x=n_gpus&y=gpu_mttf")
        return str(shown)
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
    """Results of the cubes without a writer."""
    cubes = dict(first=sweep(SIZES[0]), second=sweep(SIZES[1]), begun=sweep(SIZES[1], SIZES[0]))
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, cube in cubes.items():
            path = f"{folder}/{name}/a.zarr"
            Path(path).parent.mkdir()
            cube.to_zarr(path, chunks=CHUNKS)
            found[answer(path, how)] = name
    return found


def read(path: str, how: str) -> str:
    """One read: "first", "second", "begun", "refused" in one line, or "wrong"."""
    known = answers(how)
    try:
        return known.get(answer(path, how), "wrong")
    except InputError as error:
        return "wrong" if "\n" in str(error) else "refused"


@contextmanager
def beside(path: str, how: str) -> Iterator[None]:
    """Run a writer in another process, once it has written."""
    code = [sys.executable, "-c", BESIDE, path, how, str(ROOT)]
    writer = subprocess.Popen(code, stdout=subprocess.PIPE)
    assert writer.stdout is not None
    try:
        writer.stdout.readline()  # later lines fit into the pipe
        yield
        assert writer.poll() is None, "the writer failed"
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()


def main(reads: int) -> None:
    """Read in every way, during every kind of write, in every kind of place."""
    every: Counter[str] = Counter()
    for scheme, how in product(("", "icechunk://"), WRITERS):
        outcomes: Counter[str] = Counter()
        with tempfile.TemporaryDirectory() as folder:
            path = f"{scheme}{folder}/a.zarr"
            sweep(SIZES[0]).to_zarr(path, chunks=CHUNKS)
            with beside(path, how):
                for count in range(reads):
                    outcomes[read(path, WAYS[count % len(WAYS)])] += 1
        every += outcomes
        print(f"{reads} reads of {scheme or 'a folder'} beside {how}: {dict(outcomes)}", flush=True)
    refused = f"{every['refused']} refused, in one line"
    print(f"{every.total()} tries, {every['wrong']} wrong ({refused})")
    sys.exit(every["wrong"] > 0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
