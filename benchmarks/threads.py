"""Threads beyond those of this machine: a model of what is counted and measured here.

A call on n threads takes its serial part, the starts of threads, a lock for each task, and then the
slower of arithmetic and memory. Tasks share no data, and a tile (512 points) takes no lock. Threads
start one after another, and those that run work meanwhile: half of the starts is lost.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetcube import Settings
from fleetcube.grid.plan import memory
from fleetcube.kernels.engines.cache_tiles import TILE
from fleetcube.kernels.engines.job import Pool, pool
from fleetcube.sweep import Sweep

from . import question
from .dask import heavy
from .measure import say
from .tables import Row, Table

TASKS = 8  # of each thread in a call: `engines/numba.py`; a test counts them
CORES, SOCKETS = 64, 2
CHANNELS, CHANNEL = 12, 38.4e9  # of a socket with DDR5-4800: 8 bytes at 4.8 GT/s
REACHED = 0.75  # share of that which writes past the cache reach: an assumption
LINK = 100e9  # bytes a second between the sockets, each way: an assumption, below xGMI and UPI
THREADS = (1, 2, 4, 8, 16, 32, 64)
# Share of the bytes written across the link, by whose thread first touched a page
PLACES = {"the writer's": 0.0, "any thread's": 1 / SOCKETS, "one thread's": 1 / SOCKETS}
COLUMNS = {
    "what": "work",
    "machine": "machine",
    "pages": "pages touched first by",
    "threads": "threads",
    "seconds": "model, seconds",
    "speedup": "times one thread",
    "bound": "bound by",
    "real": "measured",
    "error": "error",
}


@dataclass(frozen=True)
class Costs:
    """Seconds and bytes of a call, measured on one thread."""

    serial: float  # of a call with almost no points: plan, labels, Dataset
    start: float  # to wake another thread and wait for it
    lock: float  # to take a task
    work: float  # of all tiles
    size: float  # bytes written


Bandwidth = Callable[[int], float]


def seconds(costs: Costs, threads: int, bandwidth: Bandwidth) -> tuple[float, str]:
    """Seconds of a call on this many threads, and what takes most of them."""
    parts = {
        "the serial part": costs.serial,
        "starts": costs.start * (threads - 1) / 2,
        "locks": costs.lock * TASKS * threads,
    }
    # each thread's last task ends up to one task late: half of one on average
    arithmetic = costs.work / threads * (1 + 0.5 / TASKS * (threads > 1))
    parts |= max(
        {"arithmetic": arithmetic}, {"memory": costs.size / bandwidth(threads)}, key=_largest
    )
    return sum(parts.values()), max(parts, key=parts.__getitem__)


def _largest(part: dict[str, float]) -> float:
    return max(part.values())


def this_machine(one: float, two: float) -> Bandwidth:
    """This machine's bandwidth, from what one and two threads fill."""
    return lambda threads: one if threads == 1 else two


def two_sockets(one: float, pages: str) -> Bandwidth:
    """That of two sockets, threads spread evenly, where a core fills as fast as here."""
    socket = CHANNELS * CHANNEL * REACHED

    def bandwidth(threads: int) -> float:
        sockets = min(SOCKETS, threads)
        used = 1 if pages == "one thread's" else sockets  # sockets whose memory holds the pages
        most = min(threads * one, used * socket)
        crossing = PLACES[pages] * (sockets > 1)
        ways = 1 if pages == "one thread's" else SOCKETS  # directions in use
        return min(most, ways * LINK / crossing) if crossing else most

    return bandwidth


def costs_of(sweep: Sweep, small: Sweep, rounds: int) -> tuple[Costs, dict[int, float]]:
    """Costs of a sweep into reused arrays, and its seconds by threads.

    Seconds are of the CPU, over threads but for the serial part: those of a machine that nobody
    shares, with what threads wait for each other's memory but not for each other.
    """
    result, little = sweep.evaluate(settings=Settings("numba")), small.evaluate()
    runs: dict[str, Callable[[], object]] = {
        str(n): (lambda n=n: sweep.evaluate(out=result, settings=Settings("numba", threads=n)))
        for n in (1, 2)
    }
    runs["serial"] = lambda: small.evaluate(out=little, settings=Settings("numba", threads=1))
    cpu_seconds = _least(runs, rounds, time.process_time)
    size = sum(values.nbytes for values in result.data_vars.values())
    start, lock = _start_and_lock()
    costs = Costs(
        cpu_seconds["serial"], start, lock, cpu_seconds["1"] - cpu_seconds["serial"], size
    )
    return costs, {1: cpu_seconds["1"], 2: (cpu_seconds["2"] + cpu_seconds["serial"]) / 2}


def _least(
    runs: Mapping[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Least seconds of each, in turn; the first round compiles."""
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            begun = clock()
            run()
            spent[name].append(clock() - begun)
    return {name: min(every[1:]) for name, every in spent.items()}


def _start_and_lock() -> tuple[float, float]:
    two, many = pool(2), 10_000
    runs: dict[str, Callable[[], object]] = {
        "start": lambda: two.each(lambda _: time.sleep(0), range(2)),
        "locks": lambda: Pool(1).each(int, range(many)),
    }
    seconds = _least(runs, 50, time.perf_counter)
    return seconds["start"], seconds["locks"] / many


def fills(size: int, rounds: int) -> tuple[float, float]:
    """Bytes a second that one and two threads write into the same array, by CPU seconds, too."""
    array = memory.allocate((size // 8,), np.float64, 2)
    halves = np.array_split(array, 2)
    runs: dict[str, Callable[[], object]] = {
        "one": lambda: array.fill(1.0),
        "two": lambda: pool(2).each(lambda half: half.fill(1.0), halves),
    }
    cpu_seconds = _least(runs, rounds, time.process_time)
    return size / cpu_seconds["one"], 2 * size / cpu_seconds["two"]


def rows(
    what: str, costs: Costs, measured: dict[int, float], fill: tuple[float, float]
) -> list[Row]:
    """The model for this machine, held against it, and for two sockets."""
    # a kernel may stream faster than a fill; one thread must then be no slower than measured
    one = max(fill[0], costs.size / costs.work)
    two = max(fill[1], one)
    table = []
    for threads, real in measured.items():
        table.append(_row(what, "this one", "any thread's", threads, costs, this_machine(one, two)))
        error = table[-1]["seconds"] / real - 1
        table[-1] |= {"real": real, "error": f"{error:+.0%}"}
    for pages in PLACES:
        for threads in THREADS if pages == "any thread's" else (CORES,):
            table.append(_row(what, "64 cores", pages, threads, costs, two_sockets(one, pages)))
    return table


def _row(
    what: str, machine: str, pages: str, threads: int, costs: Costs, bandwidth: Bandwidth
) -> dict[str, Any]:
    wall_time, bound = seconds(costs, threads, bandwidth)
    row = {
        "what": what,
        "machine": machine,
        "pages": pages,
        "threads": threads,
        "seconds": wall_time,
    }
    first = seconds(costs, 1, bandwidth)[0]
    return {**dict.fromkeys(COLUMNS), **row, "speedup": first / wall_time, "bound": bound}


def run(quick: bool = False) -> Table:
    sizes, rounds = ((16, 16, 16, 16, 8), 3) if quick else (question.UNEVEN, 15)
    say("threads: fills")
    fill = fills(1 << (24 if quick else 28), rounds)
    exact = heavy(True)
    few = {name: {**axis, "num": 2} for name, axis in exact.spec["axes"].items()}
    asked = {
        "three outputs": (question.full(sizes), question.full((2, 2, 2, 2, 2))),
        "the exact interval": (exact, exact.replace(axes=few)),
    }
    table: list[Row] = []
    for what, (sweep, small) in asked.items():
        say(f"threads: {what}")
        table += rows(f"{what}, {sweep.points:,} points", *costs_of(sweep, small, rounds), fill)
    notes = (
        f"Into reused arrays; least CPU seconds of {rounds} rounds, "
        f"{os.cpu_count()} cores here, one thread fills {fill[0] / 1e9:.3g} GB/s and two "
        f"{fill[1] / 1e9:.3g}. A call takes {TASKS} tasks a thread, one lock each, and one wait at "
        f"its end; a tile of {TILE} points takes none and writes {8 * TILE:,} bytes an output "
        f"past the cache. 64 cores: {SOCKETS} sockets of {CHANNELS} channels DDR5-4800, "
        f"{REACHED:.0%} of them reached, {LINK / 1e9:.0f} GB/s between them each way, "
        "cores and calls as here.",
    )
    return Table("Threads on 64 cores, by a model", COLUMNS, table, notes)
