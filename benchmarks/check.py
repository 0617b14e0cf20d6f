"""This working tree against the last release, or the commit that FLEETCUBE_RELEASE names.

Both are asked the same questions in turn, by the names that users call. What the release cannot
answer is new. The command fails where an answer became a tenth slower.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from .measure import BUILD, ROOT, command, ratio, say
from .tables import Row, Table

ROOMS = ("kernels", "grid", "catalog")
SLOWER = 1.1  # the largest ratio that passes
COLUMNS = {
    "what": "asked",
    "before": "before, ms",
    "now": "now, ms",
    "ratio": "now over before",
    "above": "rounds slower",
    "met": "met",
}

GRID = """
from fleetcube import Settings, Sweep
def grid(sizes=(32, 64, 64, 32, 8), outputs=("job_time", "communication_overhead",
         "reliability_to_communication_ratio"), **scenario):
    lengths = iter(sizes)
    axes = {
        "n_gpus": {"geomspace": [64, 16384], "num": next(lengths), "round": True},
        "gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": next(lengths)},
        "checkpoint_write_bandwidth": {"geomspace": ["10 GB/s", "1 TB/s"], "num": next(lengths)},
        "inter_node_bandwidth": {"geomspace": ["25 GB/s", "200 GB/s"], "num": next(lengths)},
        "pipeline_parallel": list(range(1, next(lengths) + 1)),
    }
    return Sweep({"model": "llama-3-70b", "node": "dgx-h100", "tensor_parallel": 8,
                  "calibration": "none", **scenario}, axes, list(outputs))
"""
# What is prepared once a process, and what is timed; `folder` is a fresh one of the process
QUESTIONS: dict[str, tuple[str, str]] = {
    "a new Sweep of 1,080 points": (
        GRID + "import itertools; tokens = itertools.count(10**12, 10**9)",
        "grid((5, 6, 6, 3, 2), training_tokens=next(tokens)).evaluate()",
    ),
    "1,080 points again": (GRID + "s = grid((5, 6, 6, 3, 2))", "s.evaluate()"),
    "33.6 million points, reused arrays": (
        GRID + 's = grid(); kept = s.evaluate(settings=Settings("numba"))',
        's.evaluate(kept, settings=Settings("numba"))',
    ),
    "33.6 million points, float32": (
        GRID + "s = grid()",
        's.evaluate(dtype="float32", settings=Settings("numba"))',
    ),
    "auto, 1 million points": (
        GRID + 's = grid((16, 16, 16, 16, 16), calibration="auto")',
        's.evaluate(settings=Settings("numba"))',
    ),
    "a minimum of 134 million points": (
        GRID + "s = grid((32, 64, 64, 64, 16))",
        's.reduce("min", over=["inter_node_bandwidth", "pipeline_parallel"])',
    ),
    "derivatives by three inputs": (
        GRID
        + "s = grid((16, 32, 16, 8, 4))\n"
        + 'wrt = ["gpu_mttf", "inter_node_bandwidth", "checkpoint_write_bandwidth"]',
        's.derivatives("job_time", wrt)',
    ),
    "with JAX, 4 million points": (
        GRID + "s = grid((16, 32, 32, 32, 8))",
        's.evaluate(settings=Settings("jax"))',
    ),
    "the best layout of 0.6 million": (
        GRID
        + """
s = Sweep({"node": "dgx-h100", "fabric": "infiniband-ndr", "calibration": "none"}, {
    "model": ["llama-3-70b", "llama-3-405b"],
    "n_gpus": {"arange": [64, 16385, 256]}, "global_batch_size": [1024, 2048, 4096, 8192],
    "tensor_parallel": [1, 2, 4, 8], "pipeline_parallel": [2**k for k in range(6)],
    "micro_batch_size": [1, 2, 4, 8], "virtual_stages": [1, 2, 4, 5, 8, 10]}, ["job_time"])
over = ["tensor_parallel", "pipeline_parallel", "micro_batch_size", "virtual_stages"]""",
        's.best("job_time", over=over)',
    ),
    "layouts of one job": (
        GRID
        + 's = Sweep({"model": "llama-3-405b", "node": "dgx-h100", "n_gpus": 16384}, {}, '
        + '["job_time"])',
        's.best(search="layout")',
    ),
    "solve at 256 points": (
        GRID + 's = grid((1, 16, 16, 1, 1), ("job_time",))',
        's.solve("inter_node_bandwidth", "job_time <= 60 d")',
    ),
    "inputs ranked": (
        GRID
        + 's = Sweep({"model": "llama-3-70b", "n_gpus": 4096, "node": "dgx-h100"}, {}, '
        + '["job_time"])',
        's.rank_inputs("job_time")',
    ),
    "200 calls of a function": (
        GRID
        + 'import fleetcube; f = fleetcube.function("job_time", {"model": "llama-3-70b", '
        + '"node": "dgx-h100", "n_gpus": 4096}, ["gpu_mttf"])',
        "for hours in range(200): f(3.6e7 + hours)",
    ),
    "200,000 jobs simulated": (
        "import fleetcube",
        'fleetcube.simulate(model="llama-3-70b", node="dgx-h100", n_gpus=4096, trials=200_000)',
    ),
    "a cube of 16 MB written": (
        GRID + "s = grid((16, 16, 16, 16, 10))",
        's.to_zarr(f"{folder}/small.zarr", overwrite=True)',
    ),
    "a cube of 805 MB written": (
        GRID + "s = grid()",
        's.to_zarr(f"{folder}/c.zarr", overwrite=True)',
    ),
    "a stored cube opened": (
        GRID
        + 'import fleetcube; s = grid((16, 16, 16, 16, 10)); s.to_zarr(f"{folder}/open.zarr", '
        + "overwrite=True)",
        'fleetcube.open_cube(f"{folder}/open.zarr")',
    ),
    "a virtual cube opened and sliced": (
        GRID,
        'grid((500, 500, 500, 500, 8), ("goodput",)).virtual().goodput[7, :, :].values',
    ),
}
POINT = ("n_gpus=4096", "gpu_mttf=50000h", "pipeline_parallel=1")
# A process each: arguments of Python; {folder} is empty before the first
COMMANDS: dict[str, list[str]] = {
    "import": ["-c", "import fleetcube"],
    "fleetcube --version": ["-m", "fleetcube", "--version"],
    "fleetcube run of a point": ["-m", "fleetcube", "run", "{root}/examples/h100.toml", *POINT],
    "fleetcube run to a cube": [
        *("-m", "fleetcube", "run", "{root}/examples/scaling-and-reliability.toml"),
        *("-o", "{folder}/cube.zarr", "--overwrite"),
    ],
}
WORKER = """
import json, shutil, sys, tempfile, time
asked = {}
answer = sys.stdout
sys.stdout = sys.stderr
with tempfile.TemporaryDirectory(dir=sys.argv[1]) as folder:
    for line in sys.stdin:
        prepare, ask = json.loads(line)
        try:
            if prepare not in asked:
                asked.clear()
                asked[prepare] = {"folder": folder}
                exec(prepare, asked[prepare])
                for _ in range(3):
                    exec(ask, asked[prepare])
            code = compile(ask, "question", "exec")
            begun = time.perf_counter()
            exec(code, asked[prepare])
            said = time.perf_counter() - begun
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
        print(json.dumps(said), file=answer, flush=True)
"""


class Release:
    """A commit, or the working tree, in a process that answers questions with seconds."""

    def __init__(self, name: str, tree: Path) -> None:
        self.folder = BUILD / "check" / name
        package = self.folder / "path" / "fleetcube"
        shutil.rmtree(self.folder, ignore_errors=True)
        package.mkdir(parents=True)
        for part in (*(tree / "src/fleetcube").iterdir(), *map(tree.joinpath, ROOMS)):
            (package / part.name).symlink_to(part)
        self.tree = tree
        self.environment = {
            "PYTHONPATH": str(package.parent),
            "FLEETCUBE_CACHE": str(self.folder / "kernels"),
            "PYTHONDONTWRITEBYTECODE": "",  # as packages are installed with bytecode
        }
        self.worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(self.folder)],
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def seconds(self, question: tuple[str, str]) -> float | str:
        """Of one answer, or why there is none."""
        assert self.worker.stdin is not None
        assert self.worker.stdout is not None
        print(json.dumps(question), file=self.worker.stdin, flush=True)
        answer: float | str = json.loads(self.worker.stdout.readline() or '"the process ended"')
        return answer

    def process(self, arguments: list[str]) -> float | str:
        """Seconds of a process of its own, or why it failed."""
        filled = [part.format(root=self.tree, folder=self.folder) for part in arguments]
        begun = time.perf_counter()
        try:
            command([sys.executable, *filled], **self.environment)
        except RuntimeError as error:
            return str(error)
        return time.perf_counter() - begun

    def close(self) -> None:
        """End the process; the folder stays for a look."""
        self.worker.communicate()


def last_release() -> str:
    """The commit named, or the newest tag of a version that this commit follows; "" without one."""
    if named := os.environ.get("FLEETCUBE_RELEASE"):
        return named
    try:
        return command(["git", "describe", "--tags", "--abbrev=0", "--match=v*"]).strip()
    except RuntimeError:
        return ""


def checkout(commit: str) -> Path:
    """The files of a commit, in a folder of its own."""
    name = command(["git", "rev-parse", "--verify", f"{commit}^{{commit}}"]).strip()
    tree = BUILD / "check" / name[:12]
    if not tree.exists():
        tree.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "archive", name], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", tree], input=archive.stdout, check=True)
    return tree


def run(quick: bool = False) -> Table:
    """Every question, in turn, until it is clear or the rounds are over."""
    title, against = "Against the last release", last_release()
    if not against:
        return Table(title, COLUMNS, [], ("Skipped: no release is tagged.",))
    releases = Release("before", checkout(against)), Release("now", ROOT)
    try:
        rows = [
            compare(what, releases, asked, quick) for what, asked in (COMMANDS | QUESTIONS).items()
        ]
    finally:
        for release in releases:
            release.close()
    notes = (
        f"Before is {against}. In turn, with warm kernels; medians, of ratios within a round. Not "
        f"met: a ratio above {SLOWER} with three quarters of the rounds slower. A dash: what the "
        "release does not know.",
    )
    return Table(title, COLUMNS, rows, notes, any(row["met"] is False for row in rows))


def compare(what: str, releases: tuple[Release, Release], asked: Any, quick: bool = False) -> Row:
    """One question: rounds in changing order; more of them where it looks slower."""
    say(f"check: {what}")
    times: list[list[float]] = [[], []]
    least, most = (3, 3) if quick else (7, 28)
    while len(times[0]) < (most if len(times[0]) >= least and slow(times) else least):
        for turn in (0, 1) if len(times[0]) % 2 else (1, 0):
            release = releases[turn]
            seconds = release.process(asked) if isinstance(asked, list) else release.seconds(asked)
            if isinstance(seconds, str):
                if turn == 1:
                    raise RuntimeError(f"{what}: {seconds}")
                say(f"check: {what}: before: {seconds}")
                return {"what": what, **dict.fromkeys(list(COLUMNS)[1:])}
            times[turn].append(seconds)
    before, now = times
    return {
        "what": what,
        "before": 1e3 * median(before),
        "now": 1e3 * median(now),
        "ratio": ratio(now, before),
        "above": f"{slower_rounds(times)} of {len(now)}",
        "met": not slow(times),
    }


def slow(seconds: list[list[float]]) -> bool:
    """Whether the median ratio is above what passes, and not by some rounds alone."""
    before, now = seconds
    return ratio(now, before) > SLOWER and slower_rounds(seconds) >= 0.75 * len(now)


def slower_rounds(seconds: list[list[float]]) -> int:
    """Rounds in which the second took longer."""
    return sum(now > before for before, now in zip(*seconds, strict=True))
