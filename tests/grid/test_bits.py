"""Bits of values and bytes of cubes are the same on every kind of CPU, or refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ..kernels.test_engines import operands
from ..machines import environment, here
from .kill import contents

ROOT = Path(__file__).parents[2]
OLD, NEW = "nehalem", "haswell"  # of CPUs without and with AVX, fused operations and 256 bits
pytestmark = pytest.mark.slow
both = pytest.mark.skipif(not {OLD, NEW} <= {*here()}, reason="this CPU can emulate no other")


def on(kind: str, *words: str, folder: Path = ROOT, status: int = 0) -> str:
    """Standard output of Python on a kind of CPU, or standard error if it fails."""
    given = dict(cwd=folder, env=environment(kind), capture_output=True, text=True, timeout=600)
    run = subprocess.run([sys.executable, *words], **given, check=False)
    assert run.returncode == status, run.stderr
    return run.stderr if status else run.stdout


@both
def test_values_are_the_same_on_every_kind_of_cpu(tmp_path: Path) -> None:
    numbers: Any = operands()
    np.savez(tmp_path / "operands.npz", **numbers)
    words = ("-m", "tests.grid.bits", str(tmp_path / "operands.npz"))
    wanted, *others = (json.loads(on(kind, *words)) for kind in here())
    for found in others:
        assert [name for name in wanted if found[name] != wanted[name]] == []


SPEC = """
outputs = ["job_time", "goodput", "dominant_overhead"]
scenario = { model = "llama-3-8b", node = "dgx-h100", fabric = "infiniband-ndr", \
tensor_parallel = 8 }
[axes]
n_gpus = { arange = [8, 328, 8] }
gpu_mttf = { geomspace = ["10_000 h", "100_000 h"], num = 60 }
"""
STOPPED = """
import itertools, os, sys
from fleetcube.__main__ import main
from fleetcube.grid.store.writer import Writer
write, begun = Writer.write, itertools.count()
def stopping(self, *arguments):
    if next(begun) == 3:
        os.kill(os.getpid(), 9)
    return write(self, *arguments)
Writer.write = stopping
main()
"""


def run(engine: str, name: str = "cube.zarr", *more: str) -> list[str]:
    chunks = "n_gpus=10,gpu_mttf=20"
    return ["run", "spec.toml", "-o", name, "--engine", engine, "--chunks", chunks, *more]


@both
@pytest.mark.parametrize("engine", ["numpy", "numba"])
@pytest.mark.parametrize("kinds", [(OLD, NEW), (NEW, OLD)], ids="-".join)
def test_bytes_are_those_of_one_kind(tmp_path: Path, engine: str, kinds: tuple[str, str]) -> None:
    first, then = kinds
    (tmp_path / "spec.toml").write_text(SPEC)
    on(first, "-c", STOPPED, *run(engine), folder=tmp_path, status=-9)
    on(then, "-m", "fleetcube", *run(engine, "cube.zarr", "--resume"), folder=tmp_path)
    on(first, "-m", "fleetcube", *run(engine, "whole.zarr"), folder=tmp_path)
    assert contents(tmp_path / "cube.zarr") == contents(tmp_path / "whole.zarr")


@both
def test_jax_is_told_apart(tmp_path: Path) -> None:
    """Its bits differ between processors with and without fused operations."""
    (tmp_path / "spec.toml").write_text(SPEC)
    on(OLD, "-c", STOPPED, *run("jax"), folder=tmp_path, status=-9)
    resumed = ("-m", "fleetcube", *run("jax", "cube.zarr", "--resume"))
    assert "this changed: processor.jax: " in on(NEW, *resumed, folder=tmp_path, status=2)
    on(OLD, *resumed, folder=tmp_path)
    said = on(NEW, "-m", "fleetcube", "verify", "cube.zarr", folder=tmp_path)
    assert "this changed: processor.jax: " in said
