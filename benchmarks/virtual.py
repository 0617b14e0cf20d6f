"""A 1000 x 1000 slice of a virtual cube of 1e12 points: opening, first and compiled reads.

`python -m benchmarks.virtual` prints the table; with a number, one slice in this process as JSON.
"""

import itertools
import json
import sys
import time
from statistics import median
from typing import Any

import numpy as np

from fleetcube import Settings

from .measure import interleave, python, ratio, say
from .tables import Row, Table

SIDE = 1000  # values of an axis, and of a side of the slice
FIRST_MS, WARM_MS, OPEN_MS = 100, 20, 50
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}  # as packages are installed with bytecode
COLUMNS = {
    "outputs": "outputs",
    "axes": "axes of the slice",
    "open_ms": "open ms",
    "first_ms": "first ms",
    "numpy_ms": "NumPy ms",
    "compiled_ms": "compiled ms",
    "at_most": "at most",
    "met": "met",
    "to_fill": "over a fill",
    "to_loop": "over a bare loop",
}
AXES: dict[str, Any] = {
    "n_gpus": {"geomspace": [8, 262144], "num": SIDE},
    "gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": SIDE},
    "checkpoint_write_bandwidth": {"geomspace": ["10 GB/s", "1 TB/s"], "num": SIDE},
    "inter_node_bandwidth": {"geomspace": ["25 GB/s", "200 GB/s"], "num": SIDE},
}
SCENARIO = {"model": "llama-3-70b", "node": "dgx-h100", "tensor_parallel": 8, "calibration": "none"}
SLICES = (
    (("goodput",), ("gpu_mttf", "checkpoint_write_bandwidth")),
    (("goodput",), ("n_gpus", "gpu_mttf")),
    (("job_time",), ("n_gpus", "gpu_mttf")),
    (("job_time",), ("gpu_mttf", "checkpoint_write_bandwidth")),
    (("job_time",), ("n_gpus", "inter_node_bandwidth")),
    (("checkpoint_interval",), ("n_gpus", "gpu_mttf")),
    (("job_time", "goodput", "checkpoint_interval"), ("n_gpus", "gpu_mttf")),
)


def run(quick: bool = False) -> Table:
    numbers = range(2) if quick else range(len(SLICES))
    python(
        "-c",
        "from fleetcube.kernels.physics.graph import PHYSICS; PHYSICS.quantities; "
        "import fleetcube.backend",
        **BYTECODE,
    )
    return Table(
        "Slices of a virtual cube: 1000 x 1000 of 1e12 points",
        COLUMNS,
        [measure(number) for number in numbers],
        (
            "Fresh processes with the libraries imported and an empty kernel cache; nothing is "
            "compiled before the first slice. Compiled: once the kernels are there. Medians of 11; "
            "ratios are medians within a round. The fill writes as many fresh arrays of 8 MB. The "
            "bare loop is the same formula in numba, written for this slice, on as many threads. "
            f"At most: {OPEN_MS} ms to open, {FIRST_MS} the first, {WARM_MS} compiled, an output.",
        ),
    )


def measure(number: int) -> Row:
    """One slice in a separate process with its own kernel cache."""
    import tempfile

    outputs, axes = SLICES[number]
    say(f"virtual: {', '.join(outputs)} over {' x '.join(axes)}")
    with tempfile.TemporaryDirectory() as folder:
        times: dict[str, Any] = json.loads(
            python("-m", "benchmarks.virtual", str(number), FLEETCUBE_CACHE=folder, **BYTECODE)
        )
    met = (
        times["open_ms"] <= OPEN_MS
        and times["first_ms"] <= FIRST_MS * len(outputs)
        and times["compiled_ms"] <= WARM_MS * len(outputs)
    )
    at_most = f"{OPEN_MS}, {FIRST_MS}, {WARM_MS}"
    labels = {"outputs": ", ".join(outputs), "axes": " x ".join(axes)}
    return {**labels, **times, "at_most": at_most, "met": met}


def slice_once(number: int) -> dict[str, Any]:
    import dask.array  # noqa: F401  xarray imports it with the first Dataset
    import pint  # noqa: F401  and the spec's units need it

    from fleetcube.sweep import Sweep

    outputs, axes = SLICES[number]
    middle = {name: SIDE // 2 for name in AXES if name not in axes}

    def cut(cube: Any) -> Any:
        return [cube[name].isel(middle, missing_dims="ignore").values for name in outputs]

    def compiled() -> Any:
        return cut(cube)

    def fill() -> Any:
        return [np.full((SIDE, SIDE), 1.0) for _ in outputs]

    def numpy() -> Any:
        return cut(plain)

    start = time.perf_counter()
    cube = Sweep(SCENARIO, AXES, list(outputs)).virtual()
    opened = time.perf_counter()
    cut(cube)
    first = time.perf_counter()
    plain = Sweep(SCENARIO, AXES, list(outputs)).virtual(settings=Settings("numpy"))
    contenders = {"compiled": compiled, "fill": fill, "numpy": numpy}
    if outputs == ("goodput",) and axes[0] == "gpu_mttf":
        contenders["loop"] = bare_loop()
    await_kernels()
    seconds = interleave(contenders, 11)
    loop = seconds.get("loop")
    return {
        "open_ms": 1e3 * (opened - start),
        "first_ms": 1e3 * (first - opened),
        "numpy_ms": 1e3 * median(seconds["numpy"]),
        "compiled_ms": 1e3 * median(seconds["compiled"]),
        "to_fill": ratio(seconds["compiled"], seconds["fill"]),
        "to_loop": ratio(seconds["compiled"], loop) if loop else None,
    }


def await_kernels() -> None:
    """Wait until every requested kernel is compiled, so that none compiles during timing."""
    from fleetcube.kernels.engines import numba as numba_engine

    while numba_engine._requested:
        time.sleep(0.1)
    time.sleep(0.3)


def bare_loop() -> Any:
    """Hand-written goodput over gpu_mttf x checkpoint_write_bandwidth."""
    import numba

    from fleetcube.kernels.engines.job import default_threads, pool
    from fleetcube.kernels.graph.bind import Binding
    from fleetcube.kernels.physics.checkpoints.checkpointing import exact_interval
    from fleetcube.kernels.physics.run import goodput
    from fleetcube.sweep import Sweep

    jit = numba.njit(nogil=True, error_model="numpy")

    class Jitted(Binding):
        def _copy(self, function: Any) -> Any:
            return jit(super()._copy(function))

    binding = Jitted(np, jit(lambda condition, yes, no: yes if condition else no))
    interval, useful = binding.bind(exact_interval), binding.bind(goodput.exact_goodput)
    names = ["cluster_mtbf", "checkpoint_stall_time", "restart_time", "cluster_uptime"]
    sweep = Sweep({**SCENARIO, "n_gpus": 262144 // 64}, dict(list(AXES.items())[1:3]), names)
    cube = sweep.evaluate(settings=Settings("numpy"))
    mtbf, stall = cube[names[0]].values, cube[names[1]].values
    restart, uptime = float(cube[names[2]]), float(cube[names[3]])

    @jit
    def rows(first: int, last: int, out: Any, mtbf: Any, stall: Any) -> None:
        for i in range(first, last):
            for j in range(stall.size):
                tau = interval(stall[j], mtbf[i])
                out[i, j] = useful(tau, stall[j], restart, mtbf[i], uptime)

    def loop() -> Any:
        out = np.empty((SIDE, SIDE))
        cuts = np.linspace(0, SIDE, default_threads() + 1).astype(int).tolist()
        tasks = list(itertools.pairwise(cuts))
        pool(default_threads()).each(lambda task: rows(*task, out, mtbf, stall), tasks)
        return out

    loop()
    return loop


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(slice_once(int(sys.argv[1]))))
    else:
        print(run().text())


if __name__ == "__main__":
    main()
