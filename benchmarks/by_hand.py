"""The README's question beside C that was written by hand for it alone."""

from collections.abc import Callable, Sequence
from statistics import median

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
    "points": "points",
    "c": "C, points/s",
    "reused": "fleetcube, reused arrays, points/s",
    "slower": "C is faster by",
    "fresh": "fleetcube, results dropped, points/s",
    "slower_fresh": "C is faster than these by",
    "target": "target",
    "met": "met",
}
NOTE = (
    "The question of the README. The C knows it beforehand: one loop for these axes and these "
    "formulas, AVX2 with stores past the cache, as many threads as cores, into arrays that are "
    "there; tables of few points are given to it. Its values are fleetcube's to the last bit, which "
    "the benchmark checks. It is compiled by `cc`, and left out where that is missing."
)


def run(quick: bool = False) -> Table:
    size = (64, 64) if quick else (512, 512)
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
            rows.append(_row(sweep, outputs, dtype, rounds))
    return rows


def _row(sweep: Sweep, outputs: Sequence[str], dtype: str, rounds: int) -> Row:
    fill, arrays = by_hand.program(sweep, dtype, default_threads())
    settings = Settings("numba")
    result = sweep.evaluate(dtype=dtype, settings=settings)
    contenders: dict[str, Callable[[], object]] = {
        "C": fill,
        "reused": lambda: sweep.evaluate(result, dtype=dtype, settings=settings),
        "fresh": lambda: sweep.evaluate(dtype=dtype, settings=settings),
    }
    for contender in contenders.values():
        contender()
    order = list(sweep._plan("numba").sizes)
    for name, array in arrays.items():
        ours = result[name].transpose(*[dim for dim in order if dim in result[name].dims])
        if not np.array_equal(ours.values, array):
            raise AssertionError(f"{name} of the C is another than fleetcube's")
    taken = interleave(contenders, rounds)
    slower = ratio(taken["reused"], taken["C"])
    return {
        "outputs": "job time" if len(outputs) == 1 else "all",
        "dtype": dtype,
        "points": sweep.points,
        "c": sweep.points / median(taken["C"]),
        "reused": sweep.points / median(taken["reused"]),
        "slower": slower,
        "fresh": sweep.points / median(taken["fresh"]),
        "slower_fresh": ratio(taken["fresh"], taken["C"]),
        "target": TARGET,
        "met": slower <= TARGET,
    }
