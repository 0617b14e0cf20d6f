"""A billion points in bounded memory; `python -m benchmarks.memory HOW SIZES` prints JSON."""

import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import question
from .measure import BUILD, python, say
from .tables import Row, Table

LIMIT_GB = 1.5
COLUMNS = {
    "what": "sweep",
    "points": "grid points",
    "outputs": "outputs",
    "seconds": "seconds",
    "points_per_s": "grid points/s",
    "peak_gb": "peak memory GB",
    "target": "at most",
    "met": "met",
    "disk_gb": "on disk GB",
}
WHAT = {
    "reduce": "minimum over layouts, fabrics and storage (Sweep.reduce)",
    "store": "float32 Zarr cube (Sweep.to_zarr)",
}
OUTPUTS = {"reduce": question.OUTPUTS, "store": question.OUTPUTS[:1]}


def run(quick: bool = False) -> Table:
    """The benchmark; the cube is written under build/benchmarks and removed."""
    sizes = (32, 64, 64, 32, 8) if quick else question.BILLION
    rows = [measure(how, sizes) for how in WHAT]
    return Table(
        "Streaming: sweeps larger than memory",
        COLUMNS,
        rows,
        ("Each in a fresh process, compiling included. Peak memory is the process's own.",),
    )


def measure(how: str, sizes: Sequence[int]) -> Row:
    say(f"memory: {WHAT[how]}")
    measured: dict[str, Any] = json.loads(
        python("-m", "benchmarks.memory", how, json.dumps(sizes), timeout=3600)
    )
    return {
        "what": WHAT[how],
        "outputs": len(OUTPUTS[how]),
        **measured,
        "points_per_s": measured["points"] / measured["seconds"],
        "target": LIMIT_GB,
        "met": measured["peak_gb"] <= LIMIT_GB,
    }


def sweep_once(how: str, sizes: Sequence[int]) -> dict[str, Any]:
    start = time.perf_counter()
    sweep = question.full(sizes, outputs=OUTPUTS[how])
    disk = None
    if how == "reduce":
        over = ["pipeline_parallel", "inter_node_bandwidth", "checkpoint_write_bandwidth"]
        sweep.reduce("min", over)
        seconds = time.perf_counter() - start
    else:
        BUILD.mkdir(parents=True, exist_ok=True)
        folder = tempfile.mkdtemp(dir=BUILD)
        try:
            path = sweep.to_zarr(Path(folder, "cube.zarr"), dtype="float32")
            seconds = time.perf_counter() - start
            disk = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e9
        finally:
            shutil.rmtree(folder)
    return {"points": sweep.points, "seconds": seconds, "peak_gb": peak(), "disk_gb": disk}


def peak() -> float:
    """Largest resident memory of this process, in GB.

    On Linux a child's `ru_maxrss` starts at its parent's peak; VmHWM is the child's own.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024 / 1e9
    except OSError:
        pass
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest * (1 if sys.platform == "darwin" else 1024) / 1e9


if __name__ == "__main__":
    print(json.dumps(sweep_once(sys.argv[1], json.loads(sys.argv[2]))))
