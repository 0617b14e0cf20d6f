"""Dask: batches ("runs") of tasks for cluster workers, which must match this process."""

import contextlib
import functools
import hashlib
import json
import math
import os
import re
import signal
import time
import uuid
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import resource_tracker
from pathlib import Path
from pickle import loads
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from ...kernels import log
from ..errors import InputError, imported, shown
from ..plan.fingerprint import difference, fingerprint
from .recipe import MOST_PLANS, Recipe, Work

SECONDS = 0.5  # of work in a run: a hundred times its scheduling cost
BUSY = 0.01  # seconds of work in a run per worker thread: three times its cost
FIRST = 32  # concurrent runs until the first shows how long its tasks take
AHEAD = 4  # concurrent runs per worker thread
SPREAD = 4  # times that, from the oldest unfinished run, whose later ones wait in memory
ADAPTS = 20  # the same where the cluster starts a worker for every five seconds of waiting work
PATIENCE = 5.0  # seconds to wait for a scheduler, and for its first worker
STARTS = 600.0  # seconds to wait for the first worker of a cluster that starts workers itself
RESTART = 20.0  # seconds to wait for a replacement of a lost worker
LOSSES = 4  # of workers, after which a call is not repeated: the work may kill them
PAUSED = 10.0  # seconds without a result, after which workers are checked for being paused
ADDRESS = re.compile(r"([a-z]+://\S+|[\w.-]+:\d+)")

Pairs = list[tuple[Any, Any]]  # tasks with their results


class Cluster:
    """The workers of a Dask cluster, started or reached on first use.

    `dask` is a number of processes to start here, with one thread each; a scheduler's address; or a
    `distributed.Client`, which stays open. Each process builds the plan of `recipe` once. Raises
    InputError if the cluster cannot be used, and OSError if it is lost.
    """

    def __init__(self, dask: Any, recipe: Recipe) -> None:
        self._dask, self.recipe = check_dask(dask), recipe
        self._open = contextlib.ExitStack()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @functools.cached_property
    def client(self) -> Any:
        """The connection, once the workers are verified to match this process."""
        # Processes started in this thread leave Ctrl-C to this one, which ends them; it waits for
        # the start to end, because a half-open cluster cannot be closed
        with _starter() as starting:
            client = starting.submit(self._connect).result()
        ours = facts(self.recipe)
        for worker, theirs in _ask_workers(client, facts, self.recipe).items():
            if isinstance(theirs, Exception):
                reason = f"{type(theirs).__name__}: {_line(theirs)}"
                raise InputError(
                    f"Dask worker {worker} cannot compute this sweep ({reason}); "
                    "install the same versions there"
                )
            changed = difference(ours, theirs)
            if changed is not None:
                raise InputError(
                    f"Dask worker {worker} differs from this process: {changed}; "
                    "install the same versions there"
                )
        return client

    def _connect(self) -> Any:
        from distributed import Client, LocalCluster, Security

        if not isinstance(self._dask, int | str):
            return self._dask
        try:
            address: Any = self._dask
            if str(address).startswith("tls:"):
                security: Any = Security
                keys = security().get_connection_args("client")
                if keys["ssl_context"] is None:
                    raise InputError(
                        f"dask = {address!r} needs certificates, and Dask's configuration names "
                        "none; set DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ..._TLS__CLIENT__CERT and "
                        "..._TLS__CLIENT__KEY"
                    )
            if isinstance(address, int):
                local = LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=address,
                    threads_per_worker=1,
                    dashboard_address=":0",
                    silence_logs="CRITICAL",
                )
                address = self._open.enter_context(local)
            client = Client(address, timeout=PATIENCE, set_as_default=False)  # type: ignore[no-untyped-call]
            return self._open.enter_context(client)
        except RuntimeError as error:
            raise InputError(
                f"Dask's processes did not start ({_line(error)}); a script must call this under "
                'if __name__ == "__main__"'
            ) from None
        except InputError:
            raise
        except (OSError, ValueError) as error:
            raise InputError(
                f"dask = {self._dask!r}: no scheduler answers ({_line(error)}); "
                "give the address that `dask scheduler` printed"
            ) from None

    def check_folder(self, mark: Path) -> None:
        """Refuse workers that do not see a file of this process, or cannot write next to it."""
        client = self.client
        mark.touch()
        try:
            answers = _ask_workers(client, _sees, mark)
        finally:
            mark.unlink()
        for worker, sees in answers.items():
            if sees is not True:
                raise InputError(
                    f"Dask worker {worker} does not see the folder {str(mark.parent)!r}, or cannot "
                    "write into it; choose one that all workers share"
                )

    def map(self, work: Work, tasks: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Tasks with their results, in order."""
        waiting: dict[int, Pairs] = {}
        due = 0
        for number, pairs in self.runs(work, tasks, SPREAD):
            waiting[number] = pairs
            while due in waiting:
                yield from waiting.pop(due)
                due += 1

    def runs(
        self, work: Work, tasks: Iterable[Any], spread: float = math.inf
    ) -> Iterator[tuple[int, Pairs]]:
        """Numbered runs of consecutive tasks with their results, as they finish. A worker thread
        computes a run's tasks sequentially and keeps only the results. The first runs have one task
        each, whose time sets the length of later runs. `spread` limits how far others get while a
        slow worker has the oldest run."""
        from distributed import CancelledError, KilledWorker
        from distributed.client import ClosedClientError
        from distributed.comm import CommClosedError  # type: ignore[attr-defined]

        client, left, started, length = self.client, [*tasks][::-1], 0, 1
        name, digest = f"fleetcube-{uuid.uuid4().hex}", _digest(self.recipe)
        running: dict[Any, tuple[int, list[Any]]] = {}
        try:
            finished: SimpleQueue[Any] = SimpleQueue()
            threads, counted_at = _threads(client), time.monotonic()
            log.info("%d tasks for %d threads of Dask workers", len(left), threads)
            ahead = min(FIRST, AHEAD * threads)
            while left or running:
                oldest, _ = next(iter(running.values()), (started, ()))  # they are in order
                if left and len(running) < ahead and started - oldest < spread * ahead:
                    run = [left.pop() for _ in range(min(length, len(left)))]
                    call = _dumps(_run, self.recipe, digest, work, run)
                    future = client.submit(loads, call, key=f"{name}-{started}", pure=False)
                    running[future] = started, run
                    future.add_done_callback(finished.put)
                    started += 1
                    continue
                futures = _finished(finished, client)
                failed = [future for future in futures if future.status in ("error", "cancelled")]
                done = [future for future in futures if future not in failed]
                answers = client.gather(done)  # together: a query costs more than any answer
                if time.monotonic() - counted_at > 1.0:  # workers come and go
                    threads, counted_at = _threads(client, threads), time.monotonic()
                for future, (seconds, results) in zip(done, answers, strict=True):
                    number, run = running.pop(future)
                    length = run_length(seconds / len(run), len(left), threads)
                    ahead = (ADAPTS if _adapts(client) else AHEAD) * threads
                    yield number, list(zip(run, results, strict=True))
                for future in failed:
                    future.result()
        except (CancelledError, ClosedClientError, CommClosedError, AttributeError) as error:
            if isinstance(error, AttributeError) and client.status == "running":
                raise  # a client closed during a call raises this, having no scheduler to ask
            closed = client.status in ("closing", "closed")
            lost = getattr(error, "reason", "scheduler-connection-lost") != "unknown"
            event = "was lost" if lost or closed else "cancelled the work"
            reason = "its client was closed during the call" if closed else _line(error)
            raise OSError(f"the Dask cluster {event} ({reason})") from error
        except ImportError as error:  # from a worker that joined after the check
            raise ChildProcessError(
                f"a Dask worker cannot compute this sweep ({_line(error)}); "
                "install the same versions there"
            ) from error
        except KilledWorker as error:
            raise ChildProcessError(
                f"{error.allowed_failures + 1} Dask workers died on the same work; "
                "give them more memory"
            ) from error
        finally:
            if running:
                with contextlib.suppress(Exception):  # if the cluster is lost, so is the work
                    client.cancel(list(running))


def _starter() -> ThreadPoolExecutor:
    """A thread whose child processes Ctrl-C does not interrupt, if the system allows that."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return ThreadPoolExecutor(1, "start")
    resource_tracker.ensure_running()  # if started by that thread, it would block Ctrl-C
    block: Any = signal.pthread_sigmask, (signal.SIG_BLOCK, {signal.SIGINT})
    return ThreadPoolExecutor(1, "start", *block)


@dataclass(frozen=True)
class _Call:
    """A call made on unpickling: within a task, whose errors are returned. Otherwise a worker
    without fleetcube, which cannot unpickle, would not report it."""

    function: Any
    arguments: tuple[Any, ...]

    def __reduce__(self) -> Any:
        return self.function, self.arguments


def _dumps(function: Any, *arguments: Any) -> bytes:
    """A call that `loads` makes on a worker."""
    from distributed.protocol import pickle

    dumps: Any = pickle.dumps
    return bytes(dumps(_Call(function, arguments)))


def check_dask(dask: Any) -> Any:
    """A number of processes, a scheduler's address or a client. Raises InputError."""
    client = imported("distributed").Client
    if isinstance(dask, str) and dask.isdecimal() and dask.isascii():
        dask = int(dask)
    if isinstance(dask, int) and not isinstance(dask, bool) and dask > 0:
        return dask
    if isinstance(dask, str) and ADDRESS.fullmatch(dask):
        return dask
    if isinstance(dask, client) and dask.status in ("closing", "closed"):
        raise InputError("the Dask client is closed; give an open one")
    if isinstance(dask, client) and not dask.asynchronous:
        return dask
    raise InputError(
        f"dask = {shown(dask)} is not a number of processes above 0, a scheduler's address such as "
        "tcp://10.0.0.1:8786 or a synchronous distributed.Client; give one of these"
    )


def run_length(seconds: float, left: int, threads: int) -> int:
    """Tasks of the next run, from the seconds of a task, the tasks left and the worker threads. A
    run takes SECONDS, or BUSY per thread if that is more, so that client and scheduler keep up.
    Near the end runs take a fifth or half of that, so that all workers finish together."""
    most = max(SECONDS, BUSY * threads) / seconds
    least = max(SECONDS / 5, BUSY / 2 * threads) / seconds
    return max(1, int(min(most, max(least, left / (AHEAD * threads)))))


@functools.lru_cache(maxsize=MOST_PLANS)
def facts(recipe: Recipe) -> dict[str, Any]:
    """Everything in this process that the results depend on."""
    return fingerprint(recipe.plan, recipe.spec, "float64", {})


@functools.lru_cache(maxsize=MOST_PLANS)
def _digest(recipe: Recipe) -> str:
    return hashlib.sha256(json.dumps(facts(recipe)).encode()).hexdigest()


def _run(recipe: Recipe, digest: str, work: Work, tasks: list[Any]) -> tuple[float, list[Any]]:
    """Compute tasks in this thread; return the seconds taken and the results."""
    if _digest(recipe) != digest:  # this worker joined after the check
        from distributed import get_worker

        raise ChildProcessError(
            f"Dask worker {get_worker().address} joined later and differs from the process that "
            "submitted the work; stop it, and install the same versions there"
        )
    start = time.perf_counter()
    with np.errstate(all="ignore"):
        results = [work(recipe.plan, task) for task in tasks]
    return time.perf_counter() - start, results


def _ask_workers(client: Any, function: Any, *arguments: Any) -> dict[str, Any]:
    """Each worker's answer or error; all are asked again if one is lost meanwhile."""
    address, patience = client.scheduler.address, PATIENCE
    for _ in range(LOSSES):
        if not client.nthreads():
            _await_worker(client, patience, _dumps(function, *arguments))
        answers: dict[str, Any] = client.run(function, *arguments, on_error="return")
        lost = [_line(answer) for answer in answers.values() if isinstance(answer, OSError)]
        if answers and not lost:
            return answers
        patience = RESTART
        log.warning("a Dask worker was lost while it was asked; asking again: %s", lost or "none")
        time.sleep(0.2)
    raise InputError(
        f"the Dask cluster at {address} lost workers {LOSSES} times while they were asked "
        f"({lost[0] if lost else 'none answered'}); give them more memory"
    )


def _await_worker(client: Any, patience: float, call: bytes) -> None:
    """Wait for a worker, by a task for which an adaptive cluster starts one."""
    name, task = (
        f"the Dask cluster at {client.scheduler.address}",
        client.submit(loads, call, pure=False),
    )
    starts = _adapts(client) or bool(getattr(client.cluster, "plan", ()))
    about = f"{name} starts its first worker, which is awaited for {STARTS:.0f} s at most"
    try:
        for limit in (patience, STARTS):
            with contextlib.suppress(TimeoutError):
                task.exception(limit)
                return
            if not starts:
                raise InputError(
                    f"{name} has no workers; start some, with more memory if they exit at once"
                )
            if limit != STARTS:
                warnings.warn(about, stacklevel=2)
        raise InputError(
            f"{name} started no worker within {STARTS:.0f} s; look at its jobs, or await one "
            "however long it takes: client.submit(int).result()"
        )
    finally:
        task.cancel()


def _adapts(client: Any) -> bool:
    """Whether the cluster of a client starts workers by the work that waits."""
    return getattr(client.cluster, "_adaptive", None) is not None  # no public name


def _finished(finished: "SimpleQueue[Any]", client: Any) -> list[Any]:
    """All finished futures, at least one. Raises OSError if all workers are paused."""
    while True:
        try:
            futures = [finished.get(timeout=PAUSED)]
            break
        except Empty:
            paused = client.run(_paused, on_error="ignore").values()
            if paused and all(paused):
                raise ChildProcessError(
                    "all Dask workers are paused, near their memory limit; give them more memory"
                ) from None
    while not finished.empty():  # this is its only reader
        futures.append(finished.get())
    return futures


def _paused(dask_worker: Any) -> bool:
    return dask_worker.status.name == "paused" and not dask_worker.state.executing


def _sees(mark: Path) -> bool:
    return mark.exists() and os.access(mark.parent, os.W_OK)


def _threads(client: Any, before: int | None = None) -> int:
    """Threads of all workers; 1 if there are none at the moment. Logs a change."""
    threads = max(1, int(sum(client.nthreads().values())))
    if before is not None and threads != before:
        report = log.warning if threads < before else log.info
        report("Dask workers came or went: %d threads, before %d", threads, before)
    return threads


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
