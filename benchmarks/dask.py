"""Dask: two workers, cost of tasks, storing; `python -m benchmarks.dask` prints JSON."""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from fleetcube import Settings
from fleetcube.sweep import Sweep

from . import question
from .measure import BUILD, interleave, python, ratio, say
from .tables import Row, Table

FASTER = 1.8  # required speed-up of two workers
OVERHEAD = 0.02  # largest share of one worker's seconds
COLUMNS = {
    "what": "sweep",
    "who": "who",
    "points": "grid points",
    "seconds": "seconds",
    "points_per_s": "grid points/s",
    "against": "compared",
    "ratio": "ratio",
    "target": "target",
    "met": "met",
}


def run(quick: bool = False) -> Table:
    """The benchmark, in a separate process; cubes under build/benchmarks are removed."""
    rows: list[Row] = json.loads(
        python("-m", "benchmarks.dask", *(["--quick"] if quick else []), timeout=3600)
    )
    notes = (
        "Workers are processes of one thread on this machine, started before the clock.",
        "Ratios are of seconds, medians of pairs. Without work is what a worker is between its "
        "runs; that its thread is slower than one of this process is not in that.",
    )
    return Table("Dask", COLUMNS, rows, notes)


def heavy(quick: bool) -> Sweep:
    """The exact interval at every point, not stored: compute without memory traffic."""
    return Sweep(
        {"model": "llama-3-70b", "node": "dgx-h100", "tensor_parallel": 8, "calibration": "none"},
        {
            "n_gpus": {"geomspace": [64, 16384], "num": 64, "round": True},
            "gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 64 if quick else 1024},
            "checkpoint_write_bandwidth": {"geomspace": ["10 GB/s", "1 TB/s"], "num": 16384},
        },
        ["exact_interval"],
    )


def main(quick: bool = False) -> list[Row]:
    """Reduce and store with one worker, two workers, and threads in turn."""
    from distributed import Client, LocalCluster

    rounds = 2 if quick else 3
    sweep = heavy(quick)
    stored = question.full(
        question.UNEVEN if quick else (32, 64, 64, 64, 16), outputs=question.OUTPUTS[:1]
    )
    over = ["gpu_mttf", "checkpoint_write_bandwidth"]
    BUILD.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=BUILD))

    def cluster(workers: int) -> Any:
        return LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers, threads_per_worker=1, dashboard_address=":0"
        )

    def store(**given: Any) -> None:
        stored.to_zarr(folder / "cube.zarr", dtype="float32", overwrite=True, **given)

    with cluster(1) as one, cluster(2) as two, Client(one) as alone, Client(two) as both:  # type: ignore[no-untyped-call]
        reduce = {
            "1 thread": lambda: sweep.reduce("mean", over, settings=Settings(threads=1)),
            "2 threads": lambda: sweep.reduce("mean", over, settings=Settings(threads=2)),
            "1 worker": lambda: sweep.reduce("mean", over, settings=Settings(dask=alone)),
            "2 workers": lambda: sweep.reduce("mean", over, settings=Settings(dask=both)),
        }
        write = {"2 threads": lambda: store(threads=2), "2 workers": lambda: store(dask=both)}
        try:
            say(f"dask: mean, {', '.join(reduce)}")
            interleave(reduce, 1)  # compiles
            means = interleave(reduce, rounds)
            idle = median(idle_share(alone, reduce["1 worker"]) for _ in range(rounds))
            say(f"dask: cube, {', '.join(write)}")
            interleave(write, 1)
            cubes = interleave(write, rounds)
        finally:
            shutil.rmtree(folder)
    what = ("mean of the exact interval (Sweep.reduce)", "float32 Zarr cube (Sweep.to_zarr)")
    gain = _gain(means, "worker")
    say("dask: planning blocks")
    start = time.perf_counter()
    lazy = heavy(False).lazy({"n_gpus": 1, "gpu_mttf": 16, "checkpoint_write_bandwidth": 1000})
    planned = time.perf_counter() - start
    blocks = lazy["exact_interval"].data.npartitions
    return [
        {
            **dict.fromkeys(COLUMNS),
            "what": f"planning {blocks:,} blocks (Sweep.lazy)",
            "who": "this process",
            "points": lazy["exact_interval"].size,
            "seconds": planned,
        },
        _row(what[0], "1 thread", sweep, means, None, None, None),
        _row(
            what[0],
            "2 threads",
            sweep,
            means,
            "1 thread, over these",
            _gain(means, "thread"),
            None,
        ),
        {
            **_row(what[0], "1 worker", sweep, means, "share without work", idle, OVERHEAD),
            "met": idle <= OVERHEAD,
        },
        {
            **_row(what[0], "2 workers", sweep, means, "1 worker, over these", gain, FASTER),
            "met": gain >= FASTER,
        },
        _row(what[1], "2 threads", stored, cubes, None, None, None),
        _row(
            what[1],
            "2 workers",
            stored,
            cubes,
            "these, over 2 threads",
            ratio(cubes["2 workers"], cubes["2 threads"]),
            None,
        ),
    ]


def idle_share(client: Any, work: Callable[[], object]) -> float:
    from distributed import get_task_stream

    with get_task_stream(client) as stream:
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
    spans = (span for task in stream.data for span in task["startstops"])
    busy = sum(span["stop"] - span["start"] for span in spans if span["action"] == "compute")
    return 1 - busy / seconds


def _gain(seconds: dict[str, list[float]], who: str) -> float:
    return ratio(seconds[f"1 {who}"], seconds[f"2 {who}s"])


def _row(
    what: str,
    who: str,
    sweep: Sweep,
    round_seconds: dict[str, list[float]],
    against: str | None,
    times: float | None,
    target: float | None,
) -> Row:
    seconds = median(round_seconds[who])
    return {
        "what": what,
        "who": who,
        "points": sweep.points,
        "seconds": seconds,
        "points_per_s": sweep.points / seconds,
        "against": against,
        "ratio": times,
        "target": target,
        "met": None if target is None or times is None else times <= target,
    }


if __name__ == "__main__":
    print(json.dumps(main("--quick" in sys.argv)))
