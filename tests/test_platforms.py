"""Features missing on other systems, removed to simulate these: unneeded, or a one-line error."""

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fleetcube import InputError, Sweep, open_cube
from fleetcube.catalog import files
from fleetcube.grid.plan import freed, memory
from fleetcube.grid.run import cluster
from fleetcube.grid.store.places import durable
from fleetcube.kernels.engines import job


def sweep() -> Sweep:
    return Sweep({"series_psus_per_node": 2}, {"n_gpus": [8, 64]}, ["cluster_mtbf"])


def without_proc(*_: object, **__: object) -> None:
    raise FileNotFoundError


def test_memory_is_counted_without_proc_and_unknown_without_sysconf(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory.cgroup, "memory", lambda: math.inf)
    monkeypatch.setattr(memory, "open", without_proc, raising=False)
    assert memory.available() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.delattr(os, "sysconf")
    assert memory.available() == math.inf
    memory.check(1e18)


def test_pages_are_mapped_by_writing_where_nothing_else_maps_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "uname")  # as on Windows
    freed.madvise.cache_clear()
    array = memory.allocate((memory.WORTH // 8 + 1,), np.float64, 2)
    freed.madvise.cache_clear()
    array[...] = 1.0
    assert array.sum() == array.size


def test_files_are_read_without_nonblocking_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_WITHOUT_WAITING", 0)
    monkeypatch.delattr(os, "set_blocking")
    (tmp_path / "a").write_bytes(b"abc")
    assert files.read_some(tmp_path / "a", 2) == b"abc"


def test_cores_are_counted_without_an_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(job.cgroup, "cores", lambda: math.inf)
    assert job.default_threads() == os.cpu_count()


def test_a_folder_is_read_and_not_written_without_handles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep().to_zarr(tmp_path / "a.zarr")
    monkeypatch.setattr(os, "supports_dir_fd", set())
    for name in ("O_DIRECTORY", "O_NOFOLLOW", "pread", "pwrite"):
        monkeypatch.delattr(os, name)
    with pytest.raises(InputError, match="write the cube to an object store"):
        sweep().to_zarr(tmp_path / "b.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]
    assert open_cube(tmp_path / "a.zarr")["cluster_mtbf"].equals(sweep().evaluate()["cluster_mtbf"])


def test_a_name_is_given_on_without_an_atomic_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable.ctypes, "CDLL", lambda *_, **__: object())  # as macOS has it
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert not durable.exchange(tmp_path / "one", tmp_path / "other")
    durable.replace(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "other" / "one").exists()
    assert not (tmp_path / "one").exists()


def test_processes_are_started_without_a_signal_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "pthread_sigmask")
    with cluster._starter() as starting:
        assert starting.submit(int, "7").result() == 7


WITHOUT_JAX = """
import sys
sys.modules["jax"] = sys.modules["jaxlib"] = None
import fleetcube
for engine in ("auto", "numpy"):
    fleetcube.evaluate("nodes", n_gpus=[8, 64], settings=fleetcube.Settings(engine))
try:
    fleetcube.evaluate("nodes", n_gpus=[8, 64], settings=fleetcube.Settings("jax"))
except fleetcube.InputError as error:
    print(error)
"""


WITHOUT_SCIPY = """
import sys
for name in ("scipy", "SALib", "matplotlib", "distributed", "obstore", "icechunk"):
    sys.modules[name] = None
import fleetcube
job = {"model": "llama-3-8b", "node": "dgx-h100", "training_tokens": 1e12}
sweep = fleetcube.Sweep(job, {"n_gpus": [64, 128]}, ["expected_failures", "job_time"])
assert sweep.prediction_interval()["expected_failures_high"].notnull().all()
life = {"lognormal": ["9_000 h", 2]}
unsure = fleetcube.Sweep({"n_gpus": 64, "gpu_mttf": life}, {}, ["cluster_mtbf"])
unsure.uncertainty(method="first_order")
unsure.uncertainty()  # one law is evaluated at its quantiles
two_laws = fleetcube.Sweep({"n_gpus": 64, "gpu_mttf": life, "nic_mttf": life}, {}, ["cluster_mtbf"])
span = {"checkpoint_interval": ["1 min", "10 h"]}
for ask in (
    lambda: two_laws.uncertainty(samples=64),
    lambda: sweep.best("job_time", search=span),
    lambda: sweep.global_sensitivity("job_time"),
    lambda: sweep.evaluate().fleetcube.plot(of="job_time"),
    lambda: sweep.reduce("max", settings=fleetcube.Settings(dask=2)),
    lambda: sweep.to_zarr("s3://bucket/a.zarr"),
    lambda: sweep.to_zarr("icechunk:///tmp/a"),
):
    try:
        ask()
    except fleetcube.InputError as error:
        print(error)
"""


@pytest.mark.slow
def test_without_extras_plain_questions_are_answered_and_others_name_theirs(tmp_path: Path) -> None:
    words = [sys.executable, "-c", WITHOUT_SCIPY]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.stderr == ""
    told = [line.partition("; run: pip install ")[::2] for line in done.stdout.splitlines()]
    extras = ["stats", "stats", "sens", "plot", "distributed", "cloud", "icechunk"]
    assert [command for _, command in told] == [f"'fleetcube[{extra}]'" for extra in extras]
    assert all(why.endswith(("needs an extra", "need an extra")) for why, _ in told)
    assert not list(tmp_path.iterdir())  # refused before anything was written


@pytest.mark.slow
def test_without_jax_all_else_works_and_its_engine_names_the_extra() -> None:
    words = [sys.executable, "-c", WITHOUT_JAX]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.stderr == ""
    assert done.stdout == "engine = 'jax' needs an extra; run: pip install 'fleetcube[jax]'\n"
