"""What a person waits for: commands from the shell, and calls from Python."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import fleetcube
from fleetcube import Sweep

from . import question
from .measure import ROOT, say
from .tables import Row, Table

NUMPY, POINT = 'python -c "import numpy"', "example:llama-3-405b"
# Words of a command, by the most seconds that it should take; None: for comparison
COMMANDS: dict[str, tuple[float | None, Sequence[str]]] = {
    NUMPY: (None, ("-c", "import numpy")),
    "--help": (0.15, ("--help",)),
    "catalog gpu": (0.5, ("catalog", "gpu")),
    "explain job_time": (0.5, ("explain", "job_time")),
    "explain example:llama-3-405b": (0.5, ("explain", POINT)),
    "run of a point": (
        0.5,
        ("run", "example:h100", "n_gpus=4096", "gpu_mttf=50000h", "pipeline_parallel=1"),
    ),
    "slice of a cube": (0.5, ("slice", "{cube}", "n_gpus=4096", "gpu_mttf=50000h")),
    "solve": (0.5, ("solve", POINT, "--for", "gpu_mttf", "--target", "goodput = 0.9")),
    "compare": (1.0, ("compare", POINT, "n_gpus=8192,16384")),
    "sensitivity": (None, ("sensitivity", POINT, "--of", "job_time")),
    "plan example:plan": (1.5, ("plan", "example:plan")),
}
COLUMNS = {
    "what": "fleetcube",
    "cpu": "CPU seconds",
    "target": "at most",
    "met": "met",
    "times": "times NumPy's import",
    "seconds": "seconds",
    "cold": "seconds, files read anew",
    "memory": "peak memory MB",
}
NOTES = (
    "In turn, medians; kernels and bytecode are kept. The machine is shared, so that goals, which "
    "are of an idle one, are compared with CPU seconds; seconds have the others' work in them. "
    "Files read anew: the system drops modules, data and libraries from its cache before "
    "(posix_fadvise), as far as no other program has them in use.",
)
CALL_COLUMNS = {"what": "asked", "ms": "ms", "cpu": "CPU ms", "target": "at most", "met": "met"}
_FILES = """
import atexit, contextlib, json, sys
def files():
    peak = ""
    with contextlib.suppress(OSError):  # of this process alone: what started it is larger
        peak = open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]
    yield peak
    for module in [*sys.modules.values()]:
        for name in ("__file__", "__cached__"):
            if isinstance(getattr(module, name, None), str):
                yield getattr(module, name)
atexit.register(lambda: print(json.dumps([*files()]), file=sys.stderr))
"""
_MAIN = "from fleetcube.__main__ import main; main()"


class Waited(NamedTuple):
    """The cost of a process."""

    seconds: float
    cpu: float


def run(quick: bool = False) -> Table:
    """Commands from the shell."""
    with tempfile.TemporaryDirectory() as folder:
        cube = os.path.join(folder, "cube.zarr")
        _cube().to_zarr(cube)
        asked = {what: _filled(words, cube) for what, (_, words) in COMMANDS.items()}
        probed = {what: _probe(words) for what, words in asked.items()}
        warm: dict[str, list[Waited]] = {what: [] for what in asked}
        cold: dict[str, list[Waited]] = {what: [] for what in asked}
        for turn in range(2 if quick else 9):
            say(f"waits: round {turn + 1}")
            for what in [*asked] if turn % 2 == 0 else [*reversed(asked)]:
                warm[what].append(_wait(asked[what]))
                _drop(probed[what][1])
                cold[what].append(_wait(asked[what]))
    rows = []
    for what, (target, _) in COMMANDS.items():
        cpu = median(one.cpu for one in warm[what])
        pairs = zip(warm[what], warm[NUMPY], strict=True)
        row: Row = {
            "what": what,
            "cpu": cpu,
            "target": target,
            "met": None if target is None else cpu <= target,
            "times": median(one.cpu / other.cpu for one, other in pairs),
            "seconds": median(one.seconds for one in warm[what]),
            "cold": median(one.seconds for one in cold[what]),
            "memory": probed[what][0],
        }
        rows.append(row)
    return Table("What a person waits for in the shell", COLUMNS, rows, NOTES)


def _cube() -> Sweep:
    scenario = {"model": "llama-3-70b", "node": "dgx-h100", "pipeline_parallel": 4}
    axes = {
        "n_gpus": [1024, 2048, 4096, 8192],
        "gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 10},
        "fabric": ["infiniband-ndr", "infiniband-xdr"],
    }
    return Sweep(scenario, axes, ["job_time", "goodput", "step_time"])


def _filled(words: Sequence[str], cube: str) -> list[str]:
    if words[0] == "-c":
        return [sys.executable, *words]
    return [sys.executable, "-m", "fleetcube", *(word.format(cube=cube) for word in words)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}  # as packages are installed with it


def _probe(command: list[str]) -> tuple[float | None, list[str]]:
    """The peak memory of a command in MB, and the files of its modules; it runs twice,
    so that bytecode is there."""
    script = command[2] if command[1] == "-c" else _MAIN
    words = [command[0], "-c", f"{_FILES}\n{script}", *command[3:]]
    for _ in range(2):
        done = subprocess.run(
            words, capture_output=True, text=True, env=_environment(), cwd=ROOT, check=True
        )
    peak, *files = json.loads(done.stderr.splitlines()[-1])
    memory = float(peak) * 1024 / 1e6 if peak else None
    return memory, [file for file in files if os.path.isfile(file)]


def _drop(files: Sequence[str]) -> None:
    """Ask the system to forget the contents of files."""
    for file in files if hasattr(os, "posix_fadvise") else ():
        handle = os.open(file, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def _wait(command: list[str]) -> Waited:
    begun = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=_environment(),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Waited(seconds, used.ru_utime + used.ru_stime)


def run_calls(quick: bool = False) -> Table:
    """Calls from Python, with warm tables."""
    tokens = itertools.count(10**12, 10**9)
    small, sizes = question.full((5, 6, 6, 3, 2)), (5, 6, 6, 3, 2)
    job = {"model": "llama-3-70b", "node": "dgx-h100", "n_gpus": 4096, "calibration": "none"}
    point = Sweep(job, {}, ["job_time"])
    others = (point.replace(scenario={**job, "training_tokens": n}) for n in tokens)
    small_others = (
        small.replace(scenario={**small.spec["scenario"], "training_tokens": n}) for n in tokens
    )
    function = fleetcube.function("job_time", job, ["gpu_mttf"])
    hours = itertools.count(36_000_000)
    asked: dict[str, tuple[float, Callable[[], object], Callable[..., object]]] = {
        "a new Sweep of 1,080 points, other training_tokens": (
            1.5,
            lambda: None,
            lambda _: next(small_others).evaluate(),
        ),
        "a new Sweep of one point, other training_tokens": (
            1.5,
            lambda: None,
            lambda _: next(others).evaluate(),
        ),
        "evaluate of such a Sweep": (
            0.15,
            lambda: next(others),
            lambda sweep: sweep.evaluate(),  # type: ignore[attr-defined]
        ),
        "evaluate of one point again": (0.15, lambda: None, lambda _: point.evaluate()),
        "a function of one point": (0.01, lambda: None, lambda _: function(float(next(hours)))),
    }
    assert small.points == question.full(sizes).points
    for _ in range(0 if quick else 2500):  # after 2,000 calls it is compiled
        function(float(next(hours)))
    times: dict[str, list[tuple[float, float]]] = {what: [] for what in asked}
    for _ in range(3 if quick else 50):
        for what, (_, prepare, ask) in asked.items():
            for call in range(15):
                prepared = prepare()
                begun, cpu = time.perf_counter(), time.process_time()
                ask(prepared)
                used = time.process_time() - cpu
                if call >= 5:  # after the caches' other contents
                    times[what].append((1e3 * (time.perf_counter() - begun), 1e3 * used))
    rows: list[Row] = [
        {
            "what": what,
            "ms": median(ms for ms, _ in times[what]),
            "cpu": median(ms for _, ms in times[what]),
            "target": target,
            "met": median(ms for _, ms in times[what]) <= target,
        }
        for what, (target, *_) in asked.items()
    ]
    return Table("And in Python", CALL_COLUMNS, rows, ("One call; in turn, medians.",))
