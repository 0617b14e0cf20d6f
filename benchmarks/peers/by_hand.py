"""The peers' question in C written by hand for it (`by_hand.c`), compiled where a compiler is."""

import ctypes
import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fleetcube.grid.plan.memory import allocate
from fleetcube.sweep import Sweep

from ..measure import BUILD, command

SOURCE = Path(__file__).with_suffix(".c")
OPTIONS = "-O3 -mavx2 -ffp-contract=off -fno-math-errno -fno-trapping-math -shared -fPIC -pthread"
ORDER = ("n_gpus", "gpu_mttf", "fabric", "pipeline_parallel", "checkpoint_write_bandwidth")
TABLES = ("checkpoint_stall_time", "cluster_mtbf", "step_time", "communication_fraction")
NUMBERS = (
    "minimum_checkpoint_interval",
    "restart_time",
    "cluster_uptime",
    "training_steps",
    "availability",
)
RESULTS = (
    "job_time",
    "checkpoint_interval",
    "goodput",
    "cluster_mtbf",
    "step_time",
    "communication_fraction",
)
INTERMEDIATE = ("attempted_steps", "checkpoint_interval", "goodput")  # by cluster, MTTF and storage
LANES = 8  # values of storage come in multiples


class _Question(ctypes.Structure):
    """`question` of the C source."""

    _fields_ = (
        ("sizes", ctypes.c_int64 * len(ORDER)),
        ("tables", ctypes.c_void_p * len(TABLES)),
        ("numbers", ctypes.c_double * len(NUMBERS)),
        ("kept", ctypes.c_void_p * len(INTERMEDIATE)),
        ("results", ctypes.c_void_p * len(RESULTS)),
        ("threads", ctypes.c_int64),
        ("next", ctypes.c_long),
    )


def program(
    sweep: Sweep, dtype: str, threads: int, again: bool = False
) -> tuple[Callable[[], object], Mapping[str, Any]]:
    """A function that fills arrays with the sweep's outputs, and the arrays, in memory order.

    What varies along one or two short axes is given to it: formulas of few points take no time. If
    `again`, so is what fleetcube keeps of an evaluation for the next.
    Raises RuntimeError where there is no compiler, or it cannot make AVX2.
    """
    plan = sweep._plan("numba")
    whole = sweep.with_outputs(list(RESULTS))._plan("numba")
    (case,) = whole.cases
    if tuple(plan.sizes) != ORDER or plan.sizes[ORDER[-1]] % LANES:
        raise RuntimeError(f"written for axes {', '.join(ORDER)}, the last a multiple of {LANES}")
    table: dict[str, Any] = {
        name: np.ascontiguousarray(whole.table(case, name)) for name in (*TABLES, *NUMBERS)
    }
    arrays: dict[str, Any] = {
        name: allocate(plan.shape(plan.out_dims[name]), np.dtype(dtype), threads)
        for name in RESULTS
        if name in plan.outputs
    }
    early: dict[str, Any] = {}
    if again:
        earlier = sweep.with_outputs(list(INTERMEDIATE)).evaluate()
        for name in INTERMEDIATE:
            early[name] = allocate(
                plan.shape(whole.dims[INTERMEDIATE[-1]]), np.dtype(float), threads
            )
            early[name][:] = earlier[name].transpose(*whole.dims[INTERMEDIATE[-1]])
    question = _Question(
        tuple(plan.sizes.values()),
        tuple(table[name].ctypes.data for name in TABLES),
        tuple(float(table[name].item()) for name in NUMBERS),
        tuple(early[name].ctypes.data if again else None for name in INTERMEDIATE),
        tuple(arrays[name].ctypes.data if name in arrays else None for name in RESULTS),
        threads,
    )
    answer = _compiled(["-DSINGLE"] if dtype == "float32" else []).answer
    alive = (question, table, early, arrays)

    def fill() -> None:
        answer(ctypes.byref(alive[0]))

    return fill, arrays


def _compiled(defines: Sequence[str]) -> Any:
    """The compiled source, made anew where it or its options have changed."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        raise RuntimeError(f"{platform.machine()} has no AVX2")
    options = [*OPTIONS.split(), *defines]
    digest = hashlib.sha256(" ".join(options).encode() + SOURCE.read_bytes()).hexdigest()[:16]
    library = BUILD / f"by_hand-{digest}.so"
    if not library.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        temporary = library.with_suffix(".tmp")
        command(["cc", *options, str(SOURCE), "-o", str(temporary), "-lm"])
        temporary.replace(library)
    return ctypes.CDLL(str(library))
