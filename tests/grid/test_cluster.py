"""Sweeps on Dask give the bits of threads, and lose nothing that is finished when it fails."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import xarray

from fleetcube import InputError, Settings, Sweep, open_cube
from fleetcube.grid.plan import tiles
from fleetcube.grid.plan.fingerprint import fingerprint
from fleetcube.grid.run import cluster
from fleetcube.grid.run.recipe import Recipe
from fleetcube.grid.store import remote
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.places.address import place_of
from fleetcube.grid.store.places.durable import TEMPORARY
from fleetcube.grid.store.places.place import Folder

from ..door.command import fleetcube
from .common import Patch, cases, refused
from .kill import contents
from .stores import object_store

dask, distributed = map(pytest.importorskip, ("dask", "distributed"))

SCENARIO: dict[str, Any] = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
AXES: dict[str, Any] = {"gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 12}}
AXES |= {"n_gpus": [8, 64, 512, 4096], "tensor_parallel": [1, 2, 4, 8]}
AXES |= {"checkpoint_write_bandwidth": {"geomspace": ["10 GB/s", "1 TB/s"], "num": 12}}
AXES |= {"all_reduce": ["ring", "auto"], "pipeline_parallel": [1, 2, 4, 3]}
OUTPUTS = ["job_time", "memory_per_gpu", "dominant_overhead"]
LAYOUT = ["tensor_parallel", "pipeline_parallel", "all_reduce"]
SPEC = """
outputs = ["job_time", "cluster_mtbf"]
scenario = { model = "llama-3-8b", node = "dgx-h100", fabric = "infiniband-ndr", \
tensor_parallel = 8 }
[axes]
n_gpus = { arange = [8, 648, 8] }
gpu_mttf = { linspace = ["10_000 h", "100_000 h"], num = 60 }
"""
MANY = {"n_gpus": 8, "gpu_mttf": 10}  # 60 blocks of job_time
FEW = {"n_gpus": 20, "gpu_mttf": 20}  # 12


def cluster_of(processes: int) -> Any:
    return distributed.LocalCluster(
        n_workers=processes, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
    )


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with cluster_of(2) as local, distributed.Client(local, set_as_default=False) as found:
        yield found


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    return Sweep.from_file(tmp_path / "spec.toml")


ASKED: dict[str, Callable[..., Any]] = {
    how: lambda sweep, how=how, **given: sweep.reduce(how, [*LAYOUT, "gpu_mttf"], **given)
    for how in ("min", "max", "mean", "sum", "count")
}
ASKED |= {
    "best": lambda sweep, **given: sweep.best("job_time", over=LAYOUT, **given),
    "greatest with others": lambda sweep, **given: sweep.best(
        "memory_per_gpu", sense="max", over=[*LAYOUT, "gpu_mttf"], also=["job_time"], **given
    ),
    "best three": lambda sweep, **given: sweep.best("job_time", 3, over=LAYOUT, **given),
    "sorted": lambda sweep, **given: sweep.reduce("quantile", LAYOUT, q=0.3, **given),
    "closed in upon": lambda sweep, **given: sweep.reduce(
        "quantile", q=0.9, of="job_time", **given
    ),
    "pareto": lambda sweep, **given: sweep.best(
        ["job_time", "memory_per_gpu"], sense=["min", "min"], over=[*LAYOUT, "gpu_mttf"], **given
    ),
}


@pytest.mark.parametrize("asked", list(ASKED))
def test_a_reduction_is_that_of_threads(client: Any, asked: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(tiles, "BLOCK", 1 << 8)  # bundles of many blocks
    monkeypatch.setattr(tiles, "BUNDLES", 16)
    monkeypatch.setattr(tiles, "SORTED", 1 << 10)
    sweep = Sweep(SCENARIO, AXES, OUTPUTS)
    wanted = ASKED[asked](sweep, settings=Settings("numpy", "exclude", threads=2))
    found = ASKED[asked](sweep, settings=Settings("numpy", "exclude", dask=client))
    xarray.testing.assert_identical(found, wanted)
    values = wanted["job_time"]
    assert values.size > 0  # and not all of it NaN, where every sum would agree
    assert bool(values.notnull().any())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numpy", "numba", "jax"])
def test_every_engine_runs_on_dask(client: Any, engine: str) -> None:
    axes = {name: AXES[name] for name in ("gpu_mttf", "n_gpus")}
    sweep = Sweep(SCENARIO, axes, ["cluster_mtbf"])  # few formulas to compile
    wanted = sweep.best("cluster_mtbf", over="n_gpus", settings=Settings(engine))
    how = Settings(engine, dask=client)
    found = sweep.best("cluster_mtbf", over="n_gpus", settings=how)
    xarray.testing.assert_identical(found, wanted)


def test_a_cube_is_that_of_threads(client: Any, sweep: Sweep, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    how = Settings(dask=client, progress=lambda done, total, unit: told.append((done, total)))
    one = sweep.to_zarr(tmp_path / "one.zarr", chunks=MANY, settings=how)
    assert contents(one) == contents(sweep.to_zarr(tmp_path / "two.zarr", chunks=MANY))
    values = sum(variable.size for variable in open_cube(one).reset_coords().data_vars.values())
    assert told[-1] == (values, values)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.zarr", "spec.toml", "two.zarr"]


def test_results_come_in_order_whatever_the_runs(client: Any, sweep: Sweep) -> None:
    with cluster.Cluster(client, _recipe(sweep)) as found:
        pairs = list(found.map(slow_square, range(100)))
    assert pairs == [(k, k * k) for k in range(100)]


def slow_square(plan: Any, number: int) -> int:
    time.sleep(0.02 if number < 3 else 0.001)
    return number * number


@cases(
    "seconds, left, threads, wanted",
    (0.01, 10**6, 1, 50),  # half a second
    (0.01, 10**6, 50, 50),
    (0.01, 3 * 10**6, 1000, 750),  # what is left, as 4 for each thread
    (0.01, 10**8, 1000, 1000),  # 10 s, of which 1,000 threads end 100 in a second
    (0.01, 10**6, 1000, 500),  # and no more than 200 near the end
    (0.01, 10, 2, 10),  # 0.1 s
    (20.0, 10**6, 1000, 1),
)
def test_runs_are_as_long_as_need_be(seconds: float, left: int, threads: int, wanted: int) -> None:
    assert cluster.run_length(seconds, left, threads) == wanted


@pytest.mark.slow
def test_workers_have_few_runs_at_first(client: Any, sweep: Sweep, monkeypatch: Patch) -> None:
    sent: list[Any] = []
    submit, gather = client.submit, client.gather

    def gathered(futures: Any) -> Any:
        sent.append(len(futures))
        return gather(futures)

    with monkeypatch.context() as patch, cluster.Cluster(client, _recipe(sweep)) as found:
        patch.setattr(cluster, "_threads", lambda *_: 1000)
        patch.setattr(client, "submit", lambda *a, **k: (sent.append(None), submit(*a, **k))[1])
        patch.setattr(client, "gather", gathered)
        assert len(list(found.map(slow_square, range(200)))) == 200
    assert sent.index(next(count for count in sent if count)) == cluster.FIRST
    assert sum(filter(None, sent)) == sent.count(None)


def _recipe(sweep: Sweep) -> Recipe:
    return Recipe(sweep.spec, sweep._plan())


def stopped(
    sweep: Sweep,
    path: Path,
    client: Any,
    blocks: int,
    stop: Callable[[], Any],
    chunks: Any = MANY,
    repeat: bool = False,
) -> None:
    """Store, and do something once so many blocks are counted, or from then on at each."""
    seen: list[None] = []
    done = threading.Event()

    def progress(count: int, *_: Any) -> None:
        if count == 0:
            return
        seen.append(None)
        if len(seen) == blocks or (repeat and len(seen) > blocks):
            stop()
            done.set()

    sweep.to_zarr(path, chunks=chunks, settings=Settings(dask=client, progress=progress))
    assert done.is_set()


def pids(client: Any) -> list[int]:
    return list(client.run(os.getpid).values())


def test_a_killed_worker_changes_nothing(client: Any, sweep: Sweep, tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    victim = pids(client)[0]

    def kill() -> None:
        os.kill(victim, signal.SIGKILL)
        left = path.with_name("a.zarr.partial") / "job_time" / "c" / "0" / f"9.7.7{TEMPORARY}"
        left.write_bytes(b"half a chunk")

    stopped(sweep, path, client, 9, kill)
    assert contents(path) == contents(sweep.to_zarr(tmp_path / "whole.zarr", chunks=MANY))
    end = time.monotonic() + 300  # Dask starts another, which other tests need
    while (victim in pids(client) or len(pids(client)) < 2) and time.monotonic() < end:
        time.sleep(0.05)
    assert len(pids(client)) == 2


def fatal_once(plan: Any, task: tuple[Path, int]) -> int:
    """Log the number and this process; the first to reach 9 is killed."""
    folder, number = task
    with (folder / "log").open("a") as log:
        log.write(f"{os.getpid()} {number}\n")
    if number == 9:
        with contextlib.suppress(FileExistsError):
            (folder / "killed").touch(exist_ok=False)
            os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return number * number


@pytest.mark.slow
def test_what_a_killed_worker_did_is_done_once_more(
    sweep: Sweep, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(cluster, "run_length", lambda *_: 1)
    tasks = [(tmp_path, number) for number in range(40)]
    with (
        cluster_of(2) as local,
        distributed.Client(local, set_as_default=False) as mine,
        cluster.Cluster(mine, _recipe(sweep)) as found,
    ):
        results = [result for _, result in found.map(fatal_once, tasks)]
    assert results == [number * number for number in range(40)]
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    times = Counter(number for _, number in lines)
    killed = next(process for process, number in lines if number == "9")
    twice = {number for number, count in times.items() if count > 1}
    assert times["9"] == max(times.values()) == 2
    assert twice <= {number for process, number in lines if process == killed}


@pytest.mark.slow
def test_an_adaptive_cluster_gives_the_same(sweep: Sweep, tmp_path: Path) -> None:
    with cluster_of(1) as local, distributed.Client(local, set_as_default=False) as mine:
        local.adapt(minimum=1, maximum=2, interval="50ms", wait_count=1)
        path = sweep.to_zarr(tmp_path / "a.zarr", chunks=MANY, settings=Settings(dask=mine))
    assert contents(path) == contents(sweep.to_zarr(tmp_path / "whole.zarr", chunks=MANY))


def in_this_process() -> Any:
    return distributed.LocalCluster(
        n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0"
    )


def test_a_cluster_that_starts_workers_for_work_gets_some(sweep: Sweep, monkeypatch: Patch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.0)
    with in_this_process() as local, distributed.Client(local, set_as_default=False) as mine:
        local.adapt(maximum=2, interval="50ms")
        with pytest.warns(UserWarning, match="first worker, which is awaited for 600 s"):
            found = sweep.reduce("min", settings=Settings(dask=mine))
        xarray.testing.assert_identical(found, sweep.reduce("min"))
        local.adapt(maximum=0, interval="50ms")
        while mine.nthreads():
            time.sleep(0.01)
        monkeypatch.setattr(cluster, "STARTS", 0.2)
        with pytest.warns(UserWarning, match="first worker"):
            refused("started no worker within 0 s; look", sweep.reduce, "min", **on(mine))


others = threading.Semaphore(0)  # of this process, with its workers


def last(plan: Any, task: tuple[int, int]) -> int:
    """The first waits until so many others are done."""
    number, due = task
    if number:
        others.release()
        return number
    return sum(others.acquire(timeout=600) for _ in range(due))  # of which a second is needed


@cases("ordered, due", (False, 40), (True, 2 * cluster.AHEAD * (cluster.SPREAD - 1)))
def test_a_slow_worker_holds_up_no_other(
    sweep: Sweep, monkeypatch: Patch, ordered: bool, due: int
) -> None:
    """Each task is some messages, which take a busy machine a second; and each that waits at the
    slow worker is taken from there at one of Dask's intervals, of a second by default."""
    monkeypatch.setattr(cluster, "run_length", lambda *_: 1)
    with (
        dask.config.set({"distributed.scheduler.work-stealing-interval": "20ms"}),
        in_this_process() as local,
        distributed.Client(local, set_as_default=False) as mine,
    ):
        local.scale(2)
        mine.wait_for_workers(2)
        tasks = [(number, due) for number in range(41)]
        with cluster.Cluster(mine, _recipe(sweep)) as found:
            if ordered:
                results = [result for _, result in found.map(last, tasks)]
                assert results == [due, *range(1, 41)]
            else:
                answers = dict(pair for _, pairs in found.runs(last, tasks) for pair in pairs)
                assert answers == {(0, due): due} | {task: task[0] for task in tasks[1:]}
    while others.acquire(blocking=False):
        pass


def on(client: Any) -> dict[str, Any]:
    return {"settings": Settings(dask=client)}


def nap(plan: Any, task: int) -> int:
    time.sleep(0.05)
    return task


@pytest.mark.slow
def test_an_adaptive_cluster_grows_with_the_work_that_waits(sweep: Sweep) -> None:
    with in_this_process() as local, distributed.Client(local, set_as_default=False) as mine:
        local.adapt(maximum=4, interval="200ms")
        most = 0
        with cluster.Cluster(mine, _recipe(sweep)) as found:
            for _ in found.map(nap, range(800)):
                most = max(most, len(local.scheduler.workers))
    assert most == 4


@cases(
    "how, again", ("scheduler", None), ("client", "dask"), ("tasks", None), ("interrupt", "dask")
)
def test_lost_runs_go_on(
    sweep: Sweep, tmp_path: Path, client: Any, how: str, again: Any, monkeypatch: Patch
) -> None:
    # a longer run of a quick worker would end with the last block before anything is lost
    monkeypatch.setattr(cluster, "run_length", lambda *_: 1)
    path = tmp_path / "a.zarr"

    def interrupt() -> None:
        raise KeyboardInterrupt

    with contextlib.ExitStack() as opened:
        local = opened.enter_context(cluster_of(1)) if how == "scheduler" else client.cluster
        mine = opened.enter_context(distributed.Client(local, set_as_default=False))
        stop: dict[str, Callable[[], Any]] = {
            "scheduler": local.close,
            "client": mine.close,
            "tasks": lambda: mine.cancel(
                [distributed.Future(key, mine) for key in mine.futures], force=True
            ),
            "interrupt": interrupt,
        }
        start = time.monotonic()
        expected = KeyboardInterrupt if how == "interrupt" else OSError
        with pytest.raises(expected, match=r"\d+ finished blocks are kept in .*--resume") as told:
            # tasks that ended meanwhile cannot be lost, so more are cancelled until one is
            stopped(sweep, path, mine, 9, stop[how], repeat=how == "tasks")
        assert "\n" not in str(told.value)
        assert how != "client" or "(its client was closed during the call)" in str(told.value)
        assert "NoneType" not in str(told.value)
        assert time.monotonic() - start < 300
    assert not path.exists()
    kept = len(examine(Folder(path.with_name("a.zarr.partial"))).blocks)
    assert kept >= 9
    assert f"{kept} finished blocks" in str(told.value)
    sweep.to_zarr(path, chunks=MANY, resume=True, settings=Settings(dask=client if again else None))
    assert contents(path) == contents(sweep.to_zarr(tmp_path / "whole.zarr", chunks=MANY))


@pytest.mark.slow
def test_a_run_waits_for_workers(sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(cluster, "PAUSED", 0.3)
    waited: list[int] = []
    with cluster_of(1) as local, distributed.Client(local, set_as_default=False) as mine:
        run = mine.run

        def asked(*given: Any, **more: Any) -> Any:
            answers = run(*given, **more)
            if given[0] is cluster._paused and not answers:
                waited.append(len(mine.nthreads()))
                local.scale(1)
            return answers

        def leave() -> None:
            local.scale(0)
            while mine.nthreads():
                time.sleep(0.01)
            monkeypatch.setattr(mine, "run", asked)

        stopped(sweep, tmp_path / "a.zarr", mine, 9, leave, {"n_gpus": 2, "gpu_mttf": 5})
    assert waited[0] == 0
    assert open_cube(tmp_path / "a.zarr").sizes == {"n_gpus": 80, "gpu_mttf": 60}


def test_a_late_worker_leaves_nothing_behind(sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=MANY)
    partial = path.rename(tmp_path / "a.zarr.partial")
    plan = sweep._plan()
    work = remote._Write(Folder(partial), "float64", tuple(MANY.items()), (), "lz4")
    task = next(iter(remote.Writer(plan, sweep.spec, "float64", MANY).regions()))
    work(plan, task)  # while the run is there
    joined = remote._opened(plan, work)[1]
    partial.rename(path)
    with pytest.raises(FileNotFoundError, match="has ended"):
        work(plan, task)
    told = pytest.raises(FileNotFoundError, match="has ended")
    with told, joined.group_commit() as write:  # between evaluating and writing
        write("job_time/c/0/0", b"")
    assert not partial.exists()


def test_workers_append_too(client: Any, sweep: Sweep, tmp_path: Path) -> None:
    path = sweep.to_zarr(tmp_path / "a.zarr", chunks=MANY)
    told: Any = sweep.spec
    axes = {**told["axes"], "n_gpus": [*range(8, 648, 8), 2000, 3000]}
    more = Sweep(told["scenario"], axes, told["outputs"])
    more.to_zarr(path, append=True, settings=Settings(dask=client))
    assert contents(path) == contents(more.to_zarr(tmp_path / "whole.zarr", chunks=MANY))


def test_workers_write_into_an_object_store(client: Any, sweep: Sweep, tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    whole = contents(sweep.to_zarr(tmp_path / "a.zarr", chunks=FEW))
    with object_store() as bucket:
        url = f"{bucket}/a.zarr"
        client.run(os.environ.update, {**os.environ})  # by which the bucket is reached
        sweep.to_zarr(url, chunks=FEW, settings=Settings(dask=client))
        place = place_of(url)
        assert {name: place.read(name) for name in place.sizes() or ()} == whole


def test_workers_cannot_write_into_this_process(client: Any, sweep: Sweep) -> None:
    refused(
        "Dask workers cannot write into",
        sweep.to_zarr,
        "memory://a/b.zarr",
        settings=Settings(dask=client),
    )


def test_versions_are_told(client: Any, sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    fingerprint = cluster.fingerprint
    monkeypatch.setattr(
        cluster, "fingerprint", lambda *given: {**fingerprint(*given), "version.numpy": "1.0"}
    )
    other = Sweep({**sweep.spec["scenario"], "restart_time": 7.0}, sweep.spec["axes"], ["job_time"])
    differs = r'Dask worker tcp://\S+ differs .*version.numpy: "1.0" ->'
    refused(differs, other.to_zarr, tmp_path / "a.zarr", settings=Settings(dask=client))
    refused(r"version\.numpy", other.reduce, "min", settings=Settings(dask=client))
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]
    cluster.facts.cache_clear()


WITHOUT = "fleetcube"  # a worker that lacks it


@contextlib.contextmanager
def another(client: Any, what: str) -> Iterator[str]:
    """Make a worker another in something that its fingerprint holds; its address."""
    worker = min(client.nthreads())
    client.run(_pretend, what, workers=[worker])
    try:
        yield worker
    finally:
        client.run(_pretend, "", workers=[worker])


def _pretend(what: str) -> None:
    modules: dict[str, Any] = sys.modules
    modules["fleetcube.grid.run.cluster"] = None if what == WITHOUT else cluster
    cluster.facts.cache_clear()
    cluster._digest.cache_clear()
    held = {what: "other"} if what else {}
    cluster.fingerprint = lambda *given: {**fingerprint(*given), **held}


@pytest.mark.slow
@cases("what", "version.numpy", "code.kernels.trace", WITHOUT)
def test_a_worker_that_differs(client: Any, sweep: Sweep, tmp_path: Path, what: str) -> None:
    path, lines = tmp_path / "a.zarr", []
    with another(client, what) as worker:
        with pytest.raises(InputError, match=worker) as told:
            sweep.to_zarr(path, chunks=MANY, settings=Settings("numba", dask=client))
        lines.append(str(told.value))
        assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]
        with pytest.MonkeyPatch.context() as patch:  # as if it came after the others were asked
            patch.setattr(
                cluster, "_ask_workers", lambda client, function, *_: {worker: function(*_)}
            )
            with pytest.raises(OSError, match=r"\d+ finished blocks are kept.*--resume") as late:
                sweep.to_zarr(path, chunks=MANY, settings=Settings("numpy", dask=client))
        lines.append(str(late.value))
    for line in lines:
        assert ("fleetcube" if what == WITHOUT else what if line is lines[0] else worker) in line
        assert "\n" not in line
    sweep.to_zarr(path, chunks=MANY, resume=True, settings=Settings("numpy", dask=client))
    assert open_cube(path).sizes == {"n_gpus": 80, "gpu_mttf": 60}


class Dies:
    """An answer of a worker that is killed the first times that it is asked."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder, self.times = folder, times

    def __call__(self) -> int:
        for count in range(self.times):
            with contextlib.suppress(FileExistsError):
                (self.folder / str(count)).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()


@pytest.mark.slow
def test_a_worker_killed_while_asked_is_waited_for(tmp_path: Path, monkeypatch: Patch) -> None:
    # a new worker takes a busy machine more than these seconds
    monkeypatch.setattr(cluster, "PATIENCE", 600.0)
    monkeypatch.setattr(cluster, "RESTART", 600.0)
    with cluster_of(1) as local, distributed.Client(local, set_as_default=False) as client:
        assert len(cluster._ask_workers(client, Dies(tmp_path, 1))) == 1
        monkeypatch.setattr(cluster, "LOSSES", 1)
        with pytest.raises(InputError, match=r"lost workers 1 times .* more memory"):
            cluster._ask_workers(client, Dies(tmp_path, 2))


def test_paused_runs_end(client: Any, sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    """As they do near their memory limit, for good where memory does not come back."""
    most = {"n_gpus": 2, "gpu_mttf": 5}  # so many blocks that some are left when workers pause
    monkeypatch.setattr(cluster, "PAUSED", 0.3)

    def pause() -> None:
        client.run(_be, "paused")

    try:
        with pytest.raises(OSError, match=r"all Dask workers are paused.*are kept in") as told:
            stopped(sweep, tmp_path / "a.zarr", client, 1, pause, most)
    finally:
        client.run(_be, "running")
    assert "\n" not in str(told.value)
    sweep.to_zarr(tmp_path / "a.zarr", chunks=most, resume=True)


def _be(status: str, dask_worker: Any) -> None:
    dask_worker.memory_manager.memory_pause_fraction = 1e-9 if status == "paused" else False
    dask_worker.status = distributed.Status[status]


@pytest.mark.usefixtures("_sigint")
def test_being_stopped_while_processes_start_is_not_lost(sweep: Sweep, monkeypatch: Patch) -> None:
    """The start goes on to its end, and what it opened is closed."""
    told = []

    class Slow:
        def __init__(self, **_: Any) -> None:
            told.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.2)

        def __enter__(self) -> Any:
            return client

        def __exit__(self, *_: object) -> None:
            told.append("closed")

    client = contextlib.nullcontext()
    monkeypatch.setattr(distributed, "LocalCluster", Slow)
    monkeypatch.setattr(distributed, "Client", lambda *_, **__: client)
    with pytest.raises(KeyboardInterrupt):
        sweep.reduce("min", settings=Settings(dask=2))
    assert told == [{signal.SIGINT}, "closed"]  # so do the processes leave Ctrl-C to this one


def test_an_unseen_folder(client: Any, sweep: Sweep, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(Path, "touch", lambda *_: None)  # the mark is not there for them
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    with pytest.raises(InputError, match=r"Dask worker tcp://\S+ does not see the folder"):
        sweep.to_zarr(tmp_path / "a.zarr", settings=Settings(dask=client))
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


@pytest.mark.slow
@pytest.mark.parametrize("given", ["0", "nonsense", "tcp://127.0.0.1:9"])
def test_the_command_line_refuses_in_one_line(given: str, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    start = time.monotonic()
    done = fleetcube("run", "spec.toml", "-o", "a.zarr", "--dask", given, folder=tmp_path)
    assert time.monotonic() - start < 300
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert given in line
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


def test_a_scheduler_with_tls_needs_certificates(sweep: Sweep) -> None:
    with pytest.raises(InputError, match=r"tls://127.0.0.1:9' needs certificates.*TLS__CA_FILE"):
        sweep.reduce("min", settings=Settings(dask="tls://127.0.0.1:9"))


@pytest.mark.parametrize("given", [0, True, -2, 1.5, [2], "-1", "1.5", "here"])
def test_what_is_no_cluster_is_refused(given: Any) -> None:
    refused("give one of these", cluster.check_dask, given)


def test_a_cluster_without_workers_is_refused(sweep: Sweep, monkeypatch: Patch) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.2)
    with (
        cluster_of(0) as local,
        distributed.Client(local, set_as_default=False) as client,
        pytest.raises(InputError, match="has no workers"),
    ):
        sweep.reduce("min", settings=Settings(dask=client))


def test_a_closed_client_is_refused(sweep: Sweep) -> None:
    with in_this_process() as local, distributed.Client(local, set_as_default=False) as mine:
        pass
    refused("client is closed; give an open one", sweep.reduce, "min", **on(mine))


def test_without_distributed_the_extra_is_named(sweep: Sweep, monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    refused(r"fleetcube\[distributed\]", sweep.reduce, "min", settings=Settings(dask=2))


def test_bad_questions_start_no_cluster(sweep: Sweep, monkeypatch: Patch) -> None:
    monkeypatch.setattr(cluster.Cluster, "client", property(lambda _: pytest.fail("started")))
    refused("choose one of", sweep.reduce, "least", settings=Settings(dask=2))


def peaks(client: Any) -> list[int]:
    """Bytes of memory that each worker has had at most."""

    def peak() -> int:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        (found,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
        return int(found) * 1024

    return list(client.run(peak).values())


@pytest.mark.slow
def test_a_worker_holds_no_more_for_more_blocks(client: Any, tmp_path: Path) -> None:
    axes: dict[str, Any] = {name: AXES[name] for name in ("n_gpus", "pipeline_parallel")}
    axes["gpu_mttf"] = {**AXES["gpu_mttf"], "num": 150}
    axes["checkpoint_write_bandwidth"] = {"geomspace": ["10 GB/s", "1 TB/s"], "num": 2000}
    chunks = {"tensor_parallel": 1, "pipeline_parallel": 1}
    before = 0
    for layouts in ([8], [1, 2, 4, 8]):  # 4 blocks of 9.6 MB, then 16
        before = max(peaks(client))
        sweep = Sweep(SCENARIO, {**axes, "tensor_parallel": layouts}, ["job_time"])
        sweep.to_zarr(
            tmp_path / "a.zarr", chunks=chunks, overwrite=True, settings=Settings(dask=client)
        )
    assert max(peaks(client)) - before < 4 * 9.6e6


def test_the_command_line_runs_on_processes_of_its_own(sweep: Sweep, tmp_path: Path) -> None:
    done = fleetcube("run", "spec.toml", "-o", "a.zarr", "--dask", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "wrote a.zarr" in done.stdout
    assert contents(tmp_path / "a.zarr") == contents(sweep.to_zarr(tmp_path / "b.zarr"))
