"""A real Dask scheduler with a thousand simulated workers: messages, bytes and memory per block.

Three processes: `serve` runs `distributed.Scheduler` and counts what its sockets carry; `simulate`
speaks the protocol of workers for all of them, on one connection each, with runs that take their
seconds without a core; and this one reduces or stores through fleetcube's `Cluster`.
"""

import asyncio
import contextlib
import itertools
import json
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from fleetcube import Settings
from fleetcube.grid.plan import tiles
from fleetcube.grid.plan.plan import Plan
from fleetcube.grid.run import cluster
from fleetcube.grid.run.recipe import Recipe
from fleetcube.grid.store import remote
from fleetcube.grid.store.journal import Block, Journal, write_journal
from fleetcube.grid.store.places.place import Folder
from fleetcube.grid.store.writer import Task, Writer
from fleetcube.sweep import Sweep

from .measure import BUILD, ROOT, say
from .tables import Row, Table

ENGINE = "numba"
SECONDS = 0.5  # of a block, on a simulated worker
EACH = 40  # blocks for each worker
POINTS = 64  # of a block of the reduction, whose value is computed
SLOWNESS = 10.0
BATCH = 50  # workers that connect at once
COLUMNS = {
    "what": "work",
    "workers": "workers",
    "blocks": "blocks",
    "start": "seconds to compare them",
    "compared": "bytes each",
    "seconds": "seconds",
    "runs": "runs",
    "messages": "messages a run",
    "block_messages": "a block",
    "bytes": "bytes a run",
    "block_bytes": "a block",
    "cpu": "scheduler, ms a run",
    "block_cpu": "a block",
    "busy": "scheduler busy",
    "resident": "its memory, MB",
    "grown": "more for each block, bytes",
    "repeated": "blocks repeated",
}
QUIET = {
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.event-loop": "asyncio",
    "distributed.scheduler.dashboard.status.task-stream-length": 10,
}

# The scheduler's process

counts: Counter[str] = Counter()


def count_traffic() -> None:
    """Count messages and bytes that TCP connections of this process carry."""
    from distributed.comm import tcp

    module: Any = tcp
    read, write, from_frames = module.TCP.read, module.TCP.write, module.from_frames

    async def decoded(frames: Any, **given: Any) -> Any:
        counts["bytes in"] += sum(len(memoryview(frame).cast("B")) for frame in frames)
        return await from_frames(frames, **given)

    async def received(self: Any, deserializers: Any = None) -> Any:
        message = await read(self, deserializers)
        counts["messages in"] += len(message) if isinstance(message, list | tuple) else 1
        return message

    async def sent(self: Any, message: Any, *given: Any, **more: Any) -> Any:
        counts["messages out"] += len(message) if isinstance(message, list | tuple) else 1
        carried = await write(self, message, *given, **more)
        counts["bytes out"] += carried
        return carried

    module.from_frames, module.TCP.read, module.TCP.write = decoded, received, sent


def resident() -> int:
    """Bytes of this process in memory."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def tally(dask_scheduler: Any) -> dict[str, float]:
    """What the scheduler has done and holds so far; the peak of its memory begins anew."""
    most, counts["most"] = counts["most"], resident()
    kept_keys = len(dask_scheduler.tasks)
    return {**counts, "peak": most, "cpu": time.process_time(), "held": kept_keys}


def serve() -> None:
    """Run a scheduler until standard input ends; print its address."""
    import dask
    from distributed import Scheduler

    dask.config.set(QUIET)
    count_traffic()

    async def run() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:  # type: ignore[no-untyped-call]
            print(scheduler.address, flush=True)
            ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
            while not ended.done():
                counts["most"] = max(counts["most"], resident())
                await asyncio.sleep(0.1)

    asyncio.run(run())


# The workers' process


def timed(recipe: Recipe, digest: str, work: Any, tasks: list[Any]) -> tuple[float, list[Any]]:
    """What `cluster._run` does, but for the seconds, of which the worker makes real ones."""
    with np.errstate(all="ignore"):
        return pace[0] * len(tasks), [work(recipe.plan, task) for task in tasks]


def unwritten(self: Any, plan: Plan, task: Task) -> Block:
    """What a written block of a cube returns, without its evaluation and bytes."""
    dims, region = task
    cuts = [region[dim] for dim in dims]
    starts, stops = tuple(cut.start for cut in cuts), tuple(cut.stop for cut in cuts)
    sizes = [size for _, size in self.chunks]
    place = "/".join(str(start // size) for start, size in zip(starts, sizes, strict=True))
    names = plan.groups()[dims]
    files = [(f"{name}/c/{place}", 8_000_000, 123_456_789) for name in names]
    return Block(dims, starts, stops, tuple(files))


class Simulated:
    """One worker of one thread: it answers its scheduler as `distributed.Worker` does."""

    def __init__(self, number: int, slowness: float, began: Counter[str]) -> None:
        self.number, self.slowness, self.began = number, slowness, began
        self.results: dict[str, Any] = {}
        self.waiting: list[tuple[Any, str, Any]] = []
        self.executing = ""
        self.dead = False
        self.tasks: list[asyncio.Task[None]] = []

    async def join(self, address: str) -> None:
        """Listen, register and follow the scheduler."""
        from distributed.comm import connect, listen

        self.listener: Any = listen("tcp://127.0.0.1:0", self.asked)  # type: ignore[no-untyped-call]
        await self.listener.start()
        self.comm: Any = await connect(address, timeout=60)  # type: ignore[no-untyped-call]
        self.heart: Any = await connect(address, timeout=60)  # type: ignore[no-untyped-call]
        await self.comm.write(self.registration(), serializers=["msgpack"])
        answer = await self.comm.read(deserializers=["msgpack"])
        assert answer["status"] == "OK", answer
        self.pause = answer["heartbeat-interval"]
        self.outgoing: asyncio.Queue[Any] = asyncio.Queue()
        self.tasks = [asyncio.ensure_future(f()) for f in (self.follow, self.send, self.beat)]

    def registration(self) -> dict[str, Any]:
        from distributed.versions import get_versions

        return {
            "op": "register-worker",
            "reply": False,
            "address": self.listener.contact_address,
            "status": "running",
            "nthreads": 1,
            "name": f"simulated-{self.number}",
            "now": time.time(),
            "resources": {},
            "memory_limit": 4 << 30,
            "local_directory": "/tmp",
            "services": {},
            "nanny": None,
            "pid": self.number,
            "versions": get_versions(),
            "metrics": self.metrics(),
            "extra": {},
            "stimulus_id": f"worker-connect-{time.time()}",
            "server_id": f"Worker-{self.number}",
        }

    def metrics(self) -> dict[str, Any]:
        """The keys of a real worker's, whose number of bytes counts."""
        none = {"incoming_bytes": 0, "incoming_count": 0, "incoming_count_total": 0}
        none |= {"outgoing_bytes": 0, "outgoing_count": 0, "outgoing_count_total": 0}
        return {
            "task_counts": {"executing": int(bool(self.executing))},
            "bandwidth": {"total": 100_000_000, "workers": {}, "types": {}},
            "digests_total_since_heartbeat": {"tick-duration": 0.5, "latency": 0.001},
            "managed_bytes": 0,
            "spilled_bytes": {"memory": 0, "disk": 0},
            "transfer": none,
            "event_loop_interval": 0.02,
            "cpu": 100.0,
            "memory": 300_000_000,
            "time": time.time(),
            "host_net_io": {"read_bps": 0.0, "write_bps": 0.0},
            "host_disk_io": {"read_bps": 0.0, "write_bps": 0.0},
            "num_fds": 30,
        }

    async def follow(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                for message in await self.comm.read():
                    self.handle(message)

    def handle(self, message: dict[str, Any]) -> None:
        match message["op"]:
            case "compute-task":
                self.waiting.append((tuple(message["priority"]), message["key"], message))
                self.waiting.sort(key=lambda entry: entry[0])
                self.advance()
            case "free-keys":
                for key in message["keys"]:
                    self.results.pop(key, None)
                    self.waiting = [entry for entry in self.waiting if entry[1] != key]
            case "steal-request":
                key = message["key"]
                waits = any(entry[1] == key for entry in self.waiting)
                self.waiting = [entry for entry in self.waiting if entry[1] != key]
                state = "ready" if waits else "executing" if key == self.executing else None
                self.tell("steal-response", key, message["stimulus_id"], state=state)
            case "close":
                self.die()

    def tell(self, op: str, key: str, stimulus: str, **more: Any) -> None:
        self.outgoing.put_nowait({"op": op, "key": key, "stimulus_id": stimulus, **more})

    async def send(self) -> None:
        """As a BatchedSend of 2 ms does."""
        with contextlib.suppress(OSError):
            while True:
                batch = [await self.outgoing.get()]
                await asyncio.sleep(0.002)
                while not self.outgoing.empty():
                    batch.append(self.outgoing.get_nowait())
                await self.comm.write(batch, serializers=["msgpack"])

    def advance(self) -> None:
        if self.executing or not self.waiting or self.dead:
            return
        _, key, message = self.waiting.pop(0)
        self.executing = key
        self.began[key] += 1
        start, (seconds, results) = time.time(), message["run_spec"]()
        seconds *= self.slowness
        sizes[key] = len(results)
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self.finish, message, start, (seconds, results))

    def finish(self, message: dict[str, Any], start: float, result: Any) -> None:
        key, self.executing = message["key"], ""
        if self.dead:
            return
        self.results[key] = result
        stamp = {"action": "compute", "start": start, "stop": time.time()}
        more = {"run_id": message["run_id"], "nbytes": 64, "type": pickle.dumps(tuple)}
        more |= {"typename": "tuple", "metadata": {}, "thread": 1, "startstops": [stamp]}
        self.tell("task-finished", key, message["stimulus_id"], status="OK", **more)
        self.advance()

    async def beat(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                await asyncio.sleep(self.pause)
                report = {"address": self.listener.contact_address, "now": time.time()}
                report |= {"metrics": self.metrics(), "executing": {}, "extensions": {}}
                await self.heart.write({"op": "heartbeat_worker", "reply": True, **report})
                self.pause = (await self.heart.read()).get("heartbeat-interval", self.pause)

    async def asked(self, comm: Any) -> None:
        """Answer what scheduler and client ask of a worker."""
        from distributed.worker import run

        comms.add(comm)
        with contextlib.suppress(OSError):
            while not self.dead:
                message = await comm.read()
                op, close = message.pop("op"), message.pop("close", False)
                if op == "get_data":
                    await self.give(comm, message["keys"])
                elif op == "run":
                    message = {k: v for k, v in message.items() if k != "reply"}
                    await comm.write(await run(self, comm, **message))  # type: ignore[no-untyped-call]
                if close:
                    break
        await comm.close()
        comms.discard(comm)

    async def give(self, comm: Any, keys: list[str]) -> None:
        from distributed.protocol import to_serialize

        data = {key: to_serialize(self.results[key]) for key in keys if key in self.results}
        await comm.write({"status": "OK", "data": data})
        await comm.read()  # "OK"

    def die(self) -> None:
        """As a killed process does: connections end, and nothing is handed over."""
        self.dead = True
        for task in self.tasks:
            task.cancel()
        self.listener.stop()
        self.comm.abort()
        self.heart.abort()


comms: set[Any] = set()
sizes: dict[str, int] = {}  # blocks of each run
pace = [SECONDS]  # of a block


def simulate_workers() -> None:
    """Join a scheduler, and obey the lines of standard input: join, kill, tell, end."""
    import dask

    dask.config.set(QUIET)
    address = sys.argv[1]
    began: Counter[str] = Counter()
    number = itertools.count()
    workers: list[Simulated] = []

    async def join(count: int, slowness: float) -> None:
        new = [Simulated(next(number), slowness, began) for _ in range(count)]
        for first in range(0, count, BATCH):
            await asyncio.gather(*(worker.join(address) for worker in new[first : first + BATCH]))
        workers.extend(new)

    async def obey() -> None:
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            word, *numbers = line.split()
            if word == "join":
                await join(int(numbers[0]), float(numbers[1]))
            elif word == "kill":
                for worker in [w for w in workers if not w.dead and w.executing][: int(numbers[0])]:
                    worker.die()
            elif word == "pace":
                pace[0] = float(numbers[0])
            again = sum((times - 1) * sizes[key] for key, times in began.items())
            report = {"runs": len(began), "repeated": again, "blocks": sum(sizes.values())}
            alive = (worker for worker in workers if not worker.dead)
            report["held"] = sum(len(w.results) + len(w.waiting) for w in alive)
            if word == "new":
                began.clear()
                sizes.clear()
            print(json.dumps(report), flush=True)

    with (
        mock.patch.object(cluster, "_run", timed),
        mock.patch.object(remote._Write, "__call__", unwritten),
    ):
        asyncio.run(obey())


# This process


class Simulation:
    """A scheduler and its simulated workers, in processes that end with it."""

    def __enter__(self) -> "Simulation":
        from distributed import Client

        self._open = contextlib.ExitStack()
        self.scheduler = self._started("serve")
        self.address = self._line_of(self.scheduler)
        self.process = self._started("simulate_workers", self.address)
        client = Client(self.address, set_as_default=False)  # type: ignore[no-untyped-call]
        self.client: Any = self._open.enter_context(client)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _started(self, function: str, *arguments: str) -> subprocess.Popen[str]:
        code = f"from benchmarks import workers; workers.{function}()"
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

        def end() -> None:
            process.communicate(timeout=60)  # closes its standard input

        self._open.callback(end)
        return process

    @staticmethod
    def _line_of(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def order(self, line: str) -> dict[str, int]:
        """One line to the workers' process, and its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return dict(json.loads(self._line_of(self.process)))

    def tally(self) -> dict[str, float]:
        return dict(self.client.run_on_scheduler(tally))

    def forget(self) -> dict[str, int]:
        """Wait until the scheduler and its workers hold nothing of the work, and begin anew."""
        for _ in range(600):
            if not (kept_keys := self.tally()["held"] or self.order("count")["held"]):
                return self.order("new")
            time.sleep(0.1)
        raise AssertionError(f"{kept_keys} keys are still held")


def plane(blocks: int) -> Sweep:
    """As many blocks of POINTS points as asked."""
    return Sweep(
        {"model": "llama-3-70b", "node": "dgx-h100", "tensor_parallel": 8, "calibration": "none"},
        {
            "n_gpus": {"arange": [8, 8 * EACH + 8, 8]},
            "gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": blocks // EACH * POINTS},
        },
        ["cluster_mtbf"],
    )


def reduce(sweep: Sweep, client: Any, done: Callable[[int], None]) -> float:
    """A mean whose every bit must be that of threads."""

    def progress(count: int, *_: Any) -> None:
        done(count // POINTS)

    with mock.patch.multiple(tiles, BLOCK=POINTS, LONGEST=1):
        means = sweep.reduce("mean", settings=Settings(ENGINE, dask=client, progress=progress))
        took = time.perf_counter()
        assert means.identical(sweep.reduce("mean", settings=Settings(ENGINE, threads=1)))
    return took


def store(sweep: Sweep, client: Any, done: Callable[[int], None]) -> float:
    """A cube but for its chunks: each block journaled once, and each of them due."""
    BUILD.mkdir(parents=True, exist_ok=True)
    folder = Folder(Path(tempfile.mkdtemp(dir=BUILD)))
    plan = sweep._plan(ENGINE)
    writer = Writer(plan, sweep.spec, "float64", {"n_gpus": 1, "gpu_mttf": POINTS})
    try:
        write_journal(folder, [])
        journal, written = Journal(folder, b"", {}), set()
        with cluster.Cluster(client, Recipe(sweep.spec, plan)) as workers:
            due = list(writer.regions())
            for block in remote.written(workers, folder, writer, due):
                journal.add(block)
                assert block.key not in written
                written.add(block.key)
                done(len(written))
        journal.close()
        assert len(written) == len(due)
        return time.perf_counter()
    finally:
        shutil.rmtree(folder.path)


WORK: dict[str, Callable[[Sweep, Any, Callable[[int], None]], float]] = {
    "reduction": reduce,
    "cube": store,
}


def carried(what: str, before: dict[str, float], after: dict[str, float]) -> float:
    """Messages or bytes, both ways."""
    return sum(after[f"{what} {way}"] - before.get(f"{what} {way}", 0) for way in ("in", "out"))


def measured(
    simulation: Simulation,
    what: str,
    workers: int,
    blocks: int,
    halfway: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """One reduction or cube, and what the scheduler did for it."""
    sweep, client = plane(blocks), simulation.client
    simulation.order("new")
    idle, start = simulation.tally(), time.perf_counter()
    with cluster.Cluster(client, Recipe(sweep.spec, sweep._plan(ENGINE))) as compared:
        assert compared.client is client
    compare = time.perf_counter() - start
    compared_at = simulation.tally()
    passed = threading.Event()

    def done(count: int) -> None:
        if 2 * count >= blocks and not passed.is_set():
            passed.set()
            threading.Thread(target=halfway).start()

    before, start = simulation.tally(), time.perf_counter()
    with mock.patch.object(cluster, "_ask_workers", return_value={}):  # compared above
        seconds = WORK[what](sweep, client, done) - start
    after = simulation.tally()
    report = simulation.forget()
    assert report["blocks"] == blocks
    runs, cpu = report["runs"], after["cpu"] - before["cpu"]
    messages, size = (carried(each, before, after) for each in ("messages", "bytes"))
    return {
        **{"what": what, "workers": workers, "blocks": blocks, "start": compare},
        "compared": carried("bytes", idle, compared_at) / workers,
        **{"seconds": seconds, "runs": runs},
        **{"messages": messages / runs, "block_messages": messages / blocks},
        **{"bytes": size / runs, "block_bytes": size / blocks},
        **{"cpu": 1e3 * cpu / runs, "block_cpu": 1e3 * cpu / blocks, "busy": cpu / seconds},
        "grown": (after["peak"] - before["most"]) / blocks,
        "resident": after["peak"] / 1e6,
        "repeated": report["repeated"],
    }


def main(clusters: Sequence[int]) -> list[Row]:
    """Rows for clusters of so many workers."""
    rows: list[Row] = []
    for workers in clusters:
        with Simulation() as simulation:
            say(f"workers: {workers} join")
            simulation.order(f"join {workers} 1")
            for what in WORK:
                say(f"workers: {what} on {workers}")
                rows.append(measured(simulation, what, workers, workers * EACH))
            if workers == 10:
                rows += many_runs(simulation, workers)
            if workers != 100:
                few = max(1, workers // 100)
                simulation.order(f"join {few} {SLOWNESS}")
                rows += [disturbed(simulation, what, workers, few) for what in WORK]
    return rows


def disturbed(
    simulation: Simulation, what: str, workers: int, few: int, seconds: float = SECONDS
) -> Row:
    """With slow workers, and halfway as many lost, and as many that join."""
    say(f"workers: {what} on {workers}, {few} of them lost, {few} late and {few} slow")

    def halfway() -> None:
        simulation.order(f"kill {few}")
        simulation.order(f"join {few} 1")

    row = measured(simulation, what, workers, workers * EACH, halfway)
    longest = max(cluster.SECONDS, cluster.BUSY * workers) / seconds + 1  # blocks of a run
    assert row["repeated"] <= 2 * few * longest, row  # the one that runs, and one that waits there
    return {**row, "what": f"{what}; {few} lost, {few} late, {few} slow"}


def many_runs(simulation: Simulation, workers: int) -> list[Row]:
    """Runs of one short block each, so that what a scheduler keeps of a run shows in its memory."""
    blocks = 50 * EACH
    say(f"workers: {blocks} runs of one block")
    simulation.order("pace 0.01")
    with mock.patch.object(cluster, "run_length", return_value=1):
        rows = [measured(simulation, "cube", workers, blocks) for _ in range(2)]
    simulation.order(f"pace {SECONDS}")
    return [{**rows[-1], "what": "cube, runs of one block, after as many"}]


def run(quick: bool = False) -> Table:
    """The table of simulated workers; the scheduler, client and their messages are real."""
    notes = (
        "Scheduler, client, connections and messages are real, each in a process on this machine; "
        f"workers are simulated in a third: each block takes {SECONDS:g} s without a core, a "
        f"reduction's has {POINTS} points, a cube's is not written. Seconds hold what the third "
        "process needs for all workers, which a cluster does not; messages, bytes, milliseconds "
        "and memory are the scheduler's. Results are those of threads to the last bit, and each "
        "block of a cube comes exactly once. Lost workers end without a word halfway, late ones "
        f"join then, slow ones take {SLOWNESS:g} times as long. At the end scheduler and workers "
        "hold nothing of the work.",
    )
    return Table(
        "A scheduler with a thousand workers",
        COLUMNS,
        main((4,) if quick else (10, 100, 1000)),
        notes,
    )
