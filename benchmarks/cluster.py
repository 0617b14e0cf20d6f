"""A thousand workers, simulated event by event with measured costs and fleetcube's scheduling.

Simulates the loop of `fleetcube.grid.run.cluster.Cluster.runs`: one process that sends runs of
tasks and takes their results, workers that compute them and may be lost, and a shared store.
`python -m benchmarks.cluster` measures in this process and prints JSON.
"""

import heapq
import inspect
import json
import math
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import numpy as np

from fleetcube import Settings
from fleetcube.grid.plan import tiles
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.run import cluster
from fleetcube.grid.run.recipe import Recipe
from fleetcube.grid.store.journal import Block, Journal, write_journal
from fleetcube.grid.store.places.place import Folder
from fleetcube.grid.store.writer import Writer
from fleetcube.sweep import Sweep

from .dask import heavy
from .measure import BUILD, python, say
from .tables import Row, Table

POINTS = 10**12
THREADS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
LOST_A_DAY = 0.01  # of the workers: one is lost per hundred worker-days
NOTICED = 30.0  # seconds until a lost worker's runs restart elsewhere
BACK = 180.0  # seconds until it is replaced
# Amazon S3, requests a second to one prefix: docs.aws.amazon.com, "Best practices design patterns:
# optimizing Amazon S3 performance"; it advises one concurrent request per 85 to 90 MB/s
PUTS, GETS, STREAM = 3500, 5500, 85e6
ASKED = 2  # reads of a block besides its writes: whether the run still exists
# USD, S3 Standard, US East (N. Virginia); from guides to the price list of 2024 to 2026
PER_PUT, PER_GET, PER_BYTE_MONTH = 0.005 / 1000, 0.0004 / 1000, 0.023 / 1e9
MESSAGES = 4  # to the scheduler for each run, whatever its length; a test counts them
CHUNKS = (1_000_000, 4_000_000, 16_000_000)
COLUMNS = {
    "what": "work",
    "threads": "worker threads",
    "seconds": "seconds",
    "efficiency": "of ideal",
    "busy": "client and scheduler busy",
    "runs": "runs",
    "messages": "messages a second",
    "real": "measured",
    "error": "error",
}


@dataclass(frozen=True)
class Costs:
    """Seconds of the process that client and scheduler share in these measurements."""

    run: float  # to send a run and take its result
    task: float  # for each task in it


@dataclass(frozen=True)
class Work:
    tasks: int
    seconds: float  # of one, on one thread
    spread: float = 0.0  # relative standard deviation of a run's seconds
    shared: float = 0.0  # seconds of the shared store for one task
    lost: float = 0.0  # losses of a worker per second
    join: float = 0.0  # seconds in which an adaptive cluster's workers join, one after another
    distance: float = math.inf  # `spread` of `cluster.Cluster.runs`


@dataclass(frozen=True)
class Outcome:
    seconds: float
    busy: float  # share in which client and scheduler worked
    runs: int


def simulate(work: Work, threads: int, costs: Costs, seed: int = 0) -> Outcome:
    """Seconds of the work on this many worker threads."""
    draw = np.random.default_rng(seed)
    deviation = math.sqrt(math.log1p(work.spread**2))
    free = [work.join * k / threads for k in range(threads)]  # when threads become free
    heapq.heapify(free)
    running: deque[int] = deque()  # numbers of runs, in order; finished ones are dropped late
    ended: set[int] = set()
    finished: list[tuple[float, int, int]] = []  # time, number, tasks
    now = busy = stored = end = 0.0
    left, started, length = work.tasks, 0, 1
    ahead = min(cluster.FIRST, cluster.AHEAD * threads)
    while left or finished:
        while running and running[0] in ended:
            ended.remove(running.popleft())
        oldest = running[0] if running else started
        if left and len(finished) < ahead and started - oldest < work.distance * ahead:
            tasks = min(length, left)
            spent = costs.run / 2 + costs.task * tasks / 2
            now, busy, left = now + spent, busy + spent, left - tasks
            start = now
            while True:
                start = max(start, heapq.heappop(free))
                # its mean is 1
                drawn = math.exp(draw.normal(-(deviation**2) / 2, deviation)) if deviation else 1.0
                end = start + tasks * work.seconds * drawn
                fate = start + draw.exponential(1 / work.lost) if work.lost else math.inf
                if end <= fate:
                    break
                heapq.heappush(free, fate + BACK)
                start = fate + NOTICED
            stored = max(stored, start) + tasks * work.shared
            end = max(end, stored)
            heapq.heappush(free, end)
            heapq.heappush(finished, (end, started, tasks))
            running.append(started)
            started += 1
            continue
        now = max(now, finished[0][0])
        count = 0
        while finished and finished[0][0] <= now:
            _, number, tasks = heapq.heappop(finished)
            ended.add(number)
            count += tasks
            now, busy = now + costs.run / 2, busy + costs.run / 2
            length, ahead = cluster.run_length(work.seconds, left, threads), cluster.AHEAD * threads
        now, busy = now + costs.task * count / 2, busy + costs.task * count / 2
    return Outcome(now, busy / now, started)


def nothing(plan: Plan, task: Any) -> Block:
    """No work: returns what a written block returns."""
    cuts = task.values()
    starts, stops = tuple(cut.start for cut in cuts), tuple(cut.stop for cut in cuts)
    return Block(tuple(task), starts, stops, (("job_time/c/0/0/0", 8_000_000, 123_456_789),))


def sleeping(plan: Plan, task: float) -> None:
    """Sleep some seconds: needs no core, so that a few cores can have many workers."""
    time.sleep(task)


def real(
    sweep: Sweep, processes: int, threads: int, work: Callable[..., Any], tasks: list[Any]
) -> tuple[float, float, Work]:
    """Seconds of tasks on a warm cluster, as workers report, CPU of this process, and counts."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=processes, threads_per_worker=threads, dashboard_address=":0"
        ) as local,
        Client(local, set_as_default=False) as client,  # type: ignore[no-untyped-call]
        cluster.Cluster(client, Recipe(sweep.spec, sweep._plan())) as workers,
    ):
        list(workers.runs(work, tasks[: 2 * processes * threads]))
        with mock.patch.object(cluster, "run_length", side_effect=cluster.run_length) as asked:
            start, spent = time.perf_counter(), time.process_time()
            list(workers.runs(work, tasks))
            wall, cpu = time.perf_counter() - start, time.process_time() - spent
    reports = np.array([call.args[0] for call in asked.call_args_list])
    mean = float(reports.mean())
    return wall, cpu, Work(len(tasks), mean, float(reports.std()) / mean)


def measured(quick: bool) -> tuple[Costs, list[Row]]:
    """Costs of a run and a task for client and scheduler, and simulated against real clusters."""
    sweep = heavy(True)
    plan = sweep._plan()
    region = plan.whole(plan.out_dims[plan.outputs[0]])
    say("cluster: runs and blocks of no work")
    few, many = (200, 5000) if quick else (800, 40_000)
    keep = cluster.SECONDS, cluster.BUSY
    try:
        cluster.SECONDS = cluster.BUSY = 0.0  # runs of one task
        wall, cpu, _ = real(sweep, 1, 128, nothing, [region] * few)
        cluster.SECONDS = 1e9  # runs of all tasks
        long_wall, long_cpu, _ = real(sweep, 1, 4, nothing, [region] * many)
    finally:
        cluster.SECONDS, cluster.BUSY = keep
    costs = Costs(cpu / few, long_cpu / many)
    rows: list[Row] = [
        {**dict.fromkeys(COLUMNS), "what": "a run of no work", "threads": 128}
        | {"seconds": wall / few, "busy": cpu / wall, "runs": few},
        {**dict.fromkeys(COLUMNS), "what": "a block of no work, in long runs", "threads": 4}
        | {"seconds": long_wall / many, "busy": long_cpu / long_wall},
    ]
    # longer with many threads, as each wake-up takes a core
    sleeps = {(1, 1): 0.02, (2, 1): 0.02, (4, 1): 0.02, (4, 16): 0.2, (4, 64): 0.2, (4, 256): 1.0}
    for (processes, threads), sleep in list(sleeps.items())[: 1 if quick else None]:
        every = processes * threads
        say(f"cluster: {every} threads, tasks that sleep {sleep:g} s")
        tasks = [sleep] * every * (10 if quick else 200 if sleep < 0.1 else 20)
        seconds, _, work = real(sweep, processes, threads, sleeping, tasks)
        row = _row(f"tasks that sleep {sleep:g} s", work, every, simulate(work, every, costs))
        error = float(row["seconds"]) / seconds - 1
        rows.append({**row, "real": seconds, "error": f"{error:+.1%}"})
    return costs, rows


def chunk(quick: bool, most: int) -> tuple[float, float]:
    """Seconds and bytes of a chunk of this many float32 values, on one thread, not written."""
    say(f"cluster: chunks of {most // 1_000_000} million")
    from fleetcube.grid.store import writer

    sweep = Sweep(
        {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
        | {"tensor_parallel": 8, "global_batch_size": 2048, "calibration": "none"},
        {
            "n_gpus": {"geomspace": [64, 16384], "num": 9, "round": True},
            "gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 4 * most // 2000},
            "checkpoint_write_bandwidth": {"geomspace": ["10 GB/s", "1 TB/s"], "num": 4000},
        },
        ["job_time"],
    )
    shape = {"n_gpus": 1, "gpu_mttf": most // 2000, "checkpoint_write_bandwidth": 2000}
    cube_writer = Writer(sweep._plan(), sweep.spec, "float32", shape)
    seconds, sizes = [], []
    for number, task in zip(range(3 if quick else 5), cube_writer.regions(), strict=False):
        start = time.process_time()
        block = cube_writer.write(writer._Nowhere(), *task)
        if number:  # the first compiles
            seconds.append(time.process_time() - start)
        sizes += [size for _, size, _ in block.files]
    return median(seconds), float(np.mean(sizes))


def journal(blocks: int) -> float:
    """Seconds of recording a finished block in a folder."""
    BUILD.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=BUILD))
    try:
        write_journal(Folder(folder), [])
        stored_journal = Journal(Folder(folder), b"", {})
        start = time.process_time()
        for number in range(blocks):
            stored_journal.add(nothing(None, {"n_gpus": slice(number, number + 1)}))  # type: ignore[arg-type]
        seconds = time.process_time() - start
        stored_journal.close()
    finally:
        shutil.rmtree(folder)
    return seconds / blocks


def traffic(runs: int) -> tuple[Counter[str], int, int]:
    """Messages that the scheduler gets in runs of one task, and bytes of a run and of a task more.

    In one process, whose handlers of messages are counted; heartbeats are not.
    """
    from distributed import Client, LocalCluster
    from distributed.protocol import pickle

    dumps: Any = pickle.dumps
    sweep, messages = heavy(True), Counter[str]()
    plan = sweep._plan()
    region = plan.whole(plan.out_dims[plan.outputs[0]])
    tasks, recipe = list(tiles.blocks(region, tiles.BLOCK))[:runs], Recipe(sweep.spec, plan)

    def counted(name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        async def slow(*given: Any, **more: Any) -> Any:
            messages[name] += 1
            return await handler(*given, **more)

        def quick(*given: Any, **more: Any) -> Any:
            messages[name] += 1
            return handler(*given, **more)

        return slow if inspect.iscoroutinefunction(handler) else quick

    with (
        LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as local,
        mock.patch.multiple(cluster, SECONDS=0.0, BUSY=0.0),
    ):
        handlers: dict[str, Any] = local.scheduler.stream_handlers
        handlers |= {n: counted(n, h) for n, h in handlers.items() if "heartbeat" not in n}
        with (
            Client(local, set_as_default=False) as client,  # type: ignore[no-untyped-call]
            cluster.Cluster(client, recipe) as workers,
        ):
            list(workers.runs(nothing, tasks))
            while messages["client-releases-keys"] < runs:  # the last ones come later
                time.sleep(0.01)
    sent = [dumps(cluster._Call(cluster._run, (recipe, "", nothing, tasks[:n]))) for n in (1, runs)]
    one, many = map(len, sent)
    return messages, one, (many - one) // (runs - 1)


def _row(what: str, work: Work, threads: int, outcome: Outcome) -> dict[str, Any]:
    ideal = work.tasks * work.seconds / threads
    return {
        **dict.fromkeys(COLUMNS),
        "what": what,
        "threads": threads,
        "seconds": outcome.seconds,
        "efficiency": ideal / outcome.seconds,
        "busy": outcome.busy,
        "runs": outcome.runs,
        "messages": MESSAGES * outcome.runs / outcome.seconds,
    }


def main(quick: bool = False) -> list[Row]:
    costs, rows = measured(quick)
    _, first, more = traffic(20)
    rows.append(
        {**dict.fromkeys(COLUMNS), "what": f"a run: {first:,} bytes and {more} a block more"}
    )
    sweep = heavy(True)
    sweep.reduce("mean", settings=Settings(threads=1))  # compiles
    start = time.process_time()
    sweep.reduce("mean", settings=Settings(threads=1))
    second = (time.process_time() - start) / sweep.points
    points = tiles.LONGEST * tiles.BLOCK
    lost = LOST_A_DAY / 86400
    say("cluster: simulated, reduce 1e12 points")
    reduce = Work(POINTS // points, points * second, 0.05, lost=lost, distance=cluster.SPREAD)
    for threads in THREADS:
        rows.append(_row("reduce 1e12 points", reduce, threads, simulate(reduce, threads, costs)))
    say("cluster: workers that join, and that are lost")
    harder = {"that join within 60 s": {"join": 60.0}}
    harder["of which each is lost once an hour"] = {"lost": 1 / 3600}
    for how, change in harder.items():
        for threads in (64, 256, 1024):
            outcome = simulate(replace(reduce, **change), threads, costs)
            rows.append(_row(f"reduce 1e12 points, workers {how}", reduce, threads, outcome))
    counted = replace(costs, task=costs.task + journal(200 if quick else 5000))
    for most in CHUNKS:
        seconds, size = chunk(quick, most)
        slowest = max(1 / PUTS, ASKED / GETS)
        store = Work(POINTS // most, seconds + size / STREAM, 0.05, slowest, lost)
        what = f"store 1e12 points, chunks of {most // 1_000_000} million"
        for threads in (64, 256, 1024):
            rows.append(_row(what, store, threads, simulate(store, threads, counted)))
    return rows


def run(quick: bool = False) -> Table:
    rows: list[Row] = json.loads(
        python("-m", "benchmarks.cluster", *(["--quick"] if quick else []), timeout=3600)
    )
    notes = (
        "Rows with a measured number of seconds ran: processes of 1 to 256 threads, whose tasks "
        "sleep, so that two cores hold many; the simulation next to them has the seconds of a task "
        "that workers reported. In the first two rows client and scheduler, here one process, work "
        "for the share of the seconds that is given. All else is simulated from the CPU seconds "
        "measured in this run; a thread is lost every hundred days, and its work noticed after "
        f"{NOTICED:.0f} s. Chunks are job_time in float32, on one prefix of Amazon S3.",
    )
    return Table("A thousand workers", COLUMNS, rows, notes)


PAPER = {
    "points": "points of a chunk",
    "objects": "objects",
    "terabytes": "TB",
    "seconds": "seconds of requests, at least",
    "requests": "USD of requests",
    "month": "USD a month",
}


def run_objects(quick: bool = False) -> Table:
    """Estimate for one output of 1e12 points in an object store."""
    rows = []
    for most in CHUNKS:
        _, size = chunk(quick, most)
        objects = POINTS // most
        rows.append(
            {
                "points": most,
                "objects": objects,
                "terabytes": objects * size / 1e12,
                "seconds": objects * max(1 / PUTS, ASKED / GETS),
                "requests": objects * (PER_PUT + ASKED * PER_GET),
                "month": objects * size * PER_BYTE_MONTH,
            }
        )
    notes = (
        f"Amazon S3: {PUTS:,} writes and {GETS:,} reads a second to one prefix, a write and two "
        "reads for each block; Standard, US East (N. Virginia): USD 0.005 for 1,000 writes, 0.0004 "
        "for 1,000 reads, 0.023 for a GB and month, as guides to its price list of 2024 to 2026 "
        "quote it. job_time in float32; bytes as some chunks compress.",
    )
    return Table("1e12 points in an object store, on paper", PAPER, rows, notes)


if __name__ == "__main__":
    print(json.dumps(main("--quick" in sys.argv)))
