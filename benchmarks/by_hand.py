"""The question of the peers' table, compared with C written by hand for it alone."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import numpy as np

from fleetcube import Settings
from fleetcube.kernels.engines.job import default_threads
from fleetcube.sweep import Sweep

from . import question
from .measure import interleave, ratio, say
from .peers import by_hand
from .tables import Row, Table

TITLE = "Beside C written by hand"
TARGET = 1.1
COLUMNS = {
    "outputs": "answers",
    "dtype": "type",
    "way": "fleetcube",
    "points": "points",
    "c": "C, points/s",
    "ours": "fleetcube, points/s",
    "slower": "C is faster by",
    "cpu": "in seconds of processors",
    "target": "target",
    "met": "met",
}
NOTE = (
    "The question of the table of peers. The C knows it beforehand: one loop for these axes and "
    "these formulas, AVX2 with stores past the cache, as many threads as cores, into arrays that "
    "are there; tables of few points are given to it, and where fleetcube evaluates the same Sweep "
    "again, what it keeps for that. A new Sweep makes its plan and tables, too. Values are the "
    "same to the last bit, which the benchmark checks. C is compiled by `cc`, and left out where "
    "that is missing."
)
# Ways to ask fleetcube, and whether the C is given what fleetcube has kept
WAYS = {"again, reused arrays": True, "again, results dropped": True, "a new Sweep": False}


def run(quick: bool = False) -> Table:
    size = (512, 64) if quick else (512, 512)
    try:
        rows = compare(size, rounds=3 if quick else 15)
    except RuntimeError as error:
        return Table(TITLE, COLUMNS, [], (f"Skipped: {error}",))
    return Table(TITLE, COLUMNS, rows, (NOTE,))


def compare(size: tuple[int, int], rounds: int) -> list[Row]:
    """Rows for one and for six outputs of both types of number."""
    rows: list[Row] = []
    for outputs in (("job_time",), question.PEER_OUTPUTS):
        sweep = question.fleet(*size).with_outputs(list(outputs))
        for dtype in ("float64", "float32"):
            say(f"by hand: {len(outputs)} outputs, {dtype}")
            rows += _rows(sweep, dtype, rounds)
    return rows


def _rows(sweep: Sweep, dtype: Any, rounds: int) -> list[Row]:
    settings, threads = Settings("numba"), default_threads()
    result = sweep.evaluate(dtype=dtype, settings=settings)
    programs = {again: by_hand.program(sweep, dtype, threads, again) for again in (True, False)}
    contenders: dict[str, Callable[[], object]] = {
        "C, kept": programs[True][0],
        "C": programs[False][0],
        "again, reused arrays": lambda: sweep.evaluate(result, dtype=dtype, settings=settings),
        "again, results dropped": lambda: sweep.evaluate(dtype=dtype, settings=settings),
        "a new Sweep": lambda: sweep.replace().evaluate(result, dtype=dtype, settings=settings),
    }
    for contender in contenders.values():
        contender()
    for _, arrays in programs.values():
        _check(sweep, result, arrays)
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    seconds_by_contender = interleave(
        {name: _clocked(run, cpu[name]) for name, run in contenders.items()}, rounds
    )
    rows = []
    for way, again in WAYS.items():
        by = "C, kept" if again else "C"
        slower = ratio(seconds_by_contender[way], seconds_by_contender[by])
        rows.append(
            {
                "outputs": "job time" if len(programs[True][1]) == 1 else "all",
                "dtype": dtype,
                "way": way,
                "points": sweep.points,
                "c": sweep.points / median(seconds_by_contender[by]),
                "ours": sweep.points / median(seconds_by_contender[way]),
                "slower": slower,
                "cpu": ratio(cpu[way], cpu[by]),
                "target": TARGET,
                "met": slower <= TARGET,
            }
        )
    return rows


def _clocked(run: Callable[[], object], seconds: list[float]) -> Callable[[], object]:
    """A contender that also notes the seconds of all processors, in which a shared machine's other
    work does not count."""

    def clocked() -> object:
        begun = time.process_time()
        result = run()
        seconds.append(time.process_time() - begun)
        return result

    return clocked


def _check(sweep: Sweep, result: Any, arrays: Mapping[str, Any]) -> None:
    order = list(sweep._plan("numba").sizes)
    for name, array in arrays.items():
        ours = result[name].transpose(*[dim for dim in order if dim in result[name].dims])
        if not np.array_equal(ours.values, array):
            raise AssertionError(f"{name} of the C is another than fleetcube's")
