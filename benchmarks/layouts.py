"""The best layout per model and size; `python -m benchmarks.layouts [--quick]` prints JSON."""

import json
import sys
import time
from statistics import median
from typing import Any

from fleetcube import Sweep

from .measure import python, say
from .memory import peak
from .tables import Row, Table

AT_LEAST = 50e6  # combinations/s
LAYOUT = ("tensor_parallel", "pipeline_parallel", "micro_batch_size", "virtual_stages")
COLUMNS = {
    "what": "sought",
    "points": "combinations",
    "first": "first call s",
    "seconds": "seconds",
    "points_per_s": "combinations/s",
    "target": "at least",
    "met": "met",
    "peak_gb": "peak memory GB",
}


def run(quick: bool = False) -> Table:
    rows = json.loads(python("-m", "benchmarks.layouts", *(["--quick"] if quick else [])))
    note = (
        "`Sweep.best('job_time', over=...)` over tensor, pipeline and virtual stages and "
        "micro-batch; layouts that do not fit, divide or hold are left out. The first call "
        "compiles, or loads what an earlier process compiled."
    )
    return Table("Best layouts", COLUMNS, rows, (note,))


def search(quick: bool) -> Sweep:
    models = ["llama-3-8b", "llama-3-70b", "llama-3-405b", "gpt-3-175b"]
    return Sweep(
        {"node": "dgx-h100", "fabric": "infiniband-ndr", "calibration": "none"},
        {
            "model": models[: 2 if quick else 4],
            "n_gpus": {"arange": [64, 257 if quick else 16385, 64]},
            "gpu_mttf": {"geomspace": ["5_000 h", "500_000 h"], "num": 4 if quick else 64},
            "global_batch_size": [1024, 2048] if quick else [512, 1024, 2048, 4096],
            "tensor_parallel": [1, 2, 4, 8],
            "pipeline_parallel": [2**k for k in range(6)],
            "micro_batch_size": [1, 2, 4, 8],
            "virtual_stages": [1, 2, 4, 5, 8, 10],
        },
        ["job_time"],
    )


def main(quick: bool = False) -> list[Row]:
    """Seconds of the search: the first call, and the median of later ones."""
    sweep = search(quick)
    spans = []
    say("layouts: least job_time")
    for _ in range(3 if quick else 6):
        start = time.perf_counter()
        best: Any = sweep.best("job_time", over=LAYOUT)
        spans.append(time.perf_counter() - start)
    seconds = median(spans[1:])
    return [
        {
            "what": f"least job_time, {best['job_time'].size:,} times",
            "points": sweep.points,
            "first": spans[0],
            "seconds": seconds,
            "points_per_s": (speed := sweep.points / seconds),
            "target": AT_LEAST,
            "met": speed >= AT_LEAST,
            "peak_gb": peak(),
        }
    ]


if __name__ == "__main__":
    print(json.dumps(main("--quick" in sys.argv)))
