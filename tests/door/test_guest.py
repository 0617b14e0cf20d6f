"""Inside another program fleetcube changes nothing that is the program's."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fleetcube

STATE = """
import gc, logging, multiprocessing, os, random, signal, sys, threading, warnings
import dask, jax, matplotlib, numba, numpy, pandas, pint, xarray, zarr
import dask.array, matplotlib.pyplot

def state():
    root = logging.getLogger()
    return {
        "root logger": (root.level, list(root.handlers), logging.root.manager.disable),
        "warnings' filters": list(warnings.filters),
        "NumPy's errors": numpy.geterr(),
        "NumPy's print options": repr(numpy.get_printoptions()),
        "NumPy's random state": repr(numpy.random.get_state()),
        "Python's random state": random.getstate(),
        "JAX's configuration": dict(jax.config.values),
        "Dask's configuration": repr(dask.config.config),
        "matplotlib's settings": dict(matplotlib.rcParams),
        "xarray's options": dict(xarray.get_options()),
        "pint's application registry": id(pint.get_application_registry().get()),
        "Zarr's configuration": repr(zarr.config.config),
        "pandas' options": repr(pandas.options.display.max_rows),
        "signals": [signal.getsignal(code) for code in signal.valid_signals()],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "hooks": (sys.excepthook, threading.excepthook, sys.unraisablehook, sys.displayhook),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval()),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "start method": multiprocessing.get_start_method(allow_none=True),
        "path": list(sys.path),
        "numba's threads": numba.get_num_threads(),
    }

def changed(use):
    state()  # numba counts its threads when it is first asked
    before = state()
    use()
    after = state()
    return [name for name in before if before[name] != after[name]]
"""
USE = """
numba.njit(lambda x: x + 1)(1)
numpy.exp(xarray.DataArray(dask.array.ones(3))).compute(), jax.numpy.ones(3) + 1

xarray.decode_cf(xarray.Dataset({"a": 1}))  # each time it sets a filter of its own

def use():
    import fleetcube
    job = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g"}
    sweep = fleetcube.Sweep(job, {"n_gpus": [64, 128]}, ["job_time", "goodput"])
    for engine in ("numpy", "numba", "jax"):
        sweep.evaluate(settings=fleetcube.Settings(engine))
    sweep.lazy().compute(scheduler="threads")
    sweep.to_zarr("a.zarr")
    fleetcube.open_cube("a.zarr").fleetcube.plot("n_gpus", of="goodput")
    fleetcube.simulate(trials=5, checkpoint_stall_time=30, recovery_time=600, cluster_mtbf="4 h")

print(*changed(use), sep="; ")
"""
SPOILED = "\nprint(*changed(lambda: (root(), numpy.seterr(divide='raise'))), sep='; ')"


def printed(code: str, folder: Path) -> str:
    words = [sys.executable, "-c", code]
    quiet = {**os.environ, "MPLBACKEND": "agg", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(words, cwd=folder, env=quiet, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_all_of_a_program_is_as_it_was(tmp_path: Path) -> None:
    for library in ("jax", "matplotlib"):
        pytest.importorskip(library)
    assert printed(STATE + USE, tmp_path) == ""
    spoil = "def root(): logging.basicConfig()"
    assert printed(STATE + spoil + SPOILED, tmp_path) == "root logger; NumPy's errors"


def test_importing_it_starts_and_sets_nothing(tmp_path: Path) -> None:
    code = """
import logging, os, sys, threading, warnings
before = [list(warnings.filters), dict(os.environ), list(sys.path), sys.excepthook]
import fleetcube
after = [list(warnings.filters), dict(os.environ), list(sys.path), sys.excepthook]
print(before == after, threading.active_count(), logging.getLogger().handlers)
"""
    assert printed(code, tmp_path) == "True 1 []"


def test_its_log_is_silent_until_someone_listens(tmp_path: Path) -> None:
    code = """
import logging, fleetcube.kernels.log as log
log.warning("a fault that was survived")
logger = logging.getLogger("fleetcube")
print([type(each).__name__ for each in logger.handlers], logger.level, logger.propagate)
logging.basicConfig(stream=__import__("sys").stdout, format="%(name)s: %(message)s")
log.warning("a fault that was survived")
"""
    assert printed(code, tmp_path).splitlines() == [
        "['NullHandler'] 0 True",
        "fleetcube: a fault that was survived",
    ]


def test_a_program_that_compiles_with_numba_loads_little_of_it(tmp_path: Path) -> None:
    code = """
import numba, sys
before = set(sys.modules)
assert numba.njit(lambda x: x + 1)(1) == 2
new = {name for name in set(sys.modules) - before}
print(len([name for name in new if name.partition(".")[0] == "fleetcube"]) < 10)
print(*sorted(new & {"dask", "jax", "pandas", "pint", "xarray", "zarr"}))
"""
    assert printed(code, tmp_path) == "True"


def test_threads_and_a_fork_go_together(tmp_path: Path) -> None:
    """A child evaluates with threads of its own, while its parent keeps those that it had."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    code = """
import os, sys, warnings, fleetcube
warnings.simplefilter("ignore", DeprecationWarning)  # of Python, on forks beside threads
hours = {"linspace": ["1_000 h", "9_000 h"], "num": 300_000}
sweep = fleetcube.Sweep({}, {"gpu_mttf": hours, "n_gpus": [8, 16]}, ["cluster_mtbf"])
settings = fleetcube.Settings("numpy", threads=2)
before = sweep.evaluate(settings=settings)
child = os.fork()
same = sweep.evaluate(settings=settings).equals(before)
if child == 0:
    sys.exit(0 if same else 3)
print(same, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert printed(code, tmp_path) == "True 0"


def test_callers_threads_may_share_a_sweep() -> None:
    sweep = fleetcube.Sweep({"series_psus_per_node": 2}, {"n_gpus": [8, 16]}, ["cluster_mtbf"])
    expected, found = sweep.evaluate(), []
    threads = [
        threading.Thread(target=lambda: found.append(sweep.evaluate().equals(expected)))
        for _ in range(4)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [True] * 4
