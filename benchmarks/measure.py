"""Timing with contenders in turn and medians; properties of the machine."""

import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from fleetcube.kernels.engines.job import default_threads

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "benchmarks"
_STDERR = "FLEETCUBE_BENCHMARKS_STDERR"  # this command's, for processes whose own is captured
LIBRARIES = ("fleetcube", "numpy", "numba", "jax", "xarray", "zarr")


def say(what: str) -> None:
    """Print what is measured next to the command's standard error."""
    os.write(int(os.environ.get(_STDERR, "2")), f"{what}\n".encode())


def interleave(
    contenders: Mapping[str, Callable[[], object]], rounds: int
) -> dict[str, list[float]]:
    """Seconds of each contender in each round; every other round runs in reverse order."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(rounds):
        names = list(contenders)
        for name in names if turn % 2 == 0 else names[::-1]:
            start = time.perf_counter()
            result = contenders[name]()
            seconds[name].append(time.perf_counter() - start)
            del result  # outside the timing: freeing large arrays takes time
    return seconds


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Median over the rounds of the ratio of two contenders' seconds."""
    return median(a / b for a, b in zip(above, below, strict=True))


def python(*arguments: str, timeout: float = 600.0, **environment: str) -> str:
    """Output of a fresh interpreter; raises RuntimeError with its last line of error."""
    return command([sys.executable, *arguments], timeout=timeout, **environment)


def command(
    arguments: Sequence[str], timeout: float = 600.0, stdin: str = "", **environment: str
) -> str:
    """Output of a program run at the root; raises RuntimeError with its last line of error."""
    errors = os.dup(int(os.environ.get(_STDERR, "2")))
    try:
        done = subprocess.run(
            arguments,
            cwd=ROOT,
            env={**os.environ, _STDERR: str(errors), **environment},
            pass_fds=[errors],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeError(str(error).splitlines()[0]) from error
    finally:
        os.close(errors)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise RuntimeError(lines[-1])
    return done.stdout


def machine() -> dict[str, str]:
    facts = {
        "date": datetime.date.today().isoformat(),
        "cpu": _cpu(),
        "cores": str(default_threads()),
        "python": platform.python_version(),
    }
    for name in LIBRARIES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            facts[name] = "absent"
    return facts


def preamble(machine: Mapping[str, str], command: str, quick: bool, timed: bool = True) -> str:
    """The sentence above the tables."""
    versions = ", ".join(f"{name} {machine[name]}" for name in ("python", *LIBRARIES))
    head = (
        f"{'Measured' if timed else 'Written'} by `{command} --write` on {machine['date']}"
        f"{' (a quick run: sizes and rounds are too small to quote)' if quick else ''}"
    )
    if not timed:
        return f"{head}; {versions}."
    return (
        f"{head}: {machine['cpu']}, {machine['cores']} cores; {versions}. Machines are shared: "
        "numbers are medians of interleaved runs, and ratios are medians of the ratios within a "
        "round."
    )


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.lower().startswith("model name"):
                    return " ".join(line.partition(":")[2].split())
    except OSError:
        pass
    return platform.processor() or platform.machine()
