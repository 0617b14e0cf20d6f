"""Attack cubes on object servers through a proxy that injects faults.

`python -m tests.grid.objects TRIES [SERVER...]`: by default every server with programs on PATH;
exit 0 if nothing is wrong. Prints why a server is refused.
"""

import contextlib
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from fleetcube import InputError, Settings, Sweep, open_cube
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.names import LOCK, PARTS
from fleetcube.grid.store.places import objects
from fleetcube.grid.store.places.objects import Objects
from fleetcube.grid.store.verify import verify

from .proxy import KINDS, Faults, proxy
from .servers import installed
from .stores import reached, served
from .test_resume import disk_full, stop_after

ROOT = Path(__file__).parents[2]
SCENARIO: dict[str, Any] = {"model": "llama-3-8b", "node": "dgx-h100", "tensor_parallel": 8}
CHUNKS = {"gpu_mttf": 3, "n_gpus": 1}
ROUNDS = 30  # within which a cube must be whole; the last half is without faults

# The process to kill: a run that begins a cube
KILLED = """
import sys
sys.path.insert(0, sys.argv[2])
from tests.grid.objects import CHUNKS, hasten, sweep
with hasten():
    sweep("first").to_zarr(sys.argv[1], chunks=CHUNKS, settings=Settings(threads=1))
"""


@contextlib.contextmanager
def hasten() -> Any:
    """Shorten locks from a minute to seconds, to avoid waiting."""
    before = objects.RENEW_SECONDS, objects.STALE_SECONDS, objects.BATCH_SECONDS
    objects.RENEW_SECONDS, objects.STALE_SECONDS, objects.BATCH_SECONDS = 0.4, 2.5, 0.05
    try:
        yield
    finally:
        objects.RENEW_SECONDS, objects.STALE_SECONDS, objects.BATCH_SECONDS = before


@cache
def sweep(name: str) -> Sweep:
    """The first cube, the first with more labels, or a second with other values."""
    axes: dict[str, Any] = {"fabric": ["infiniband-ndr", "roce-100g"]}
    axes |= {"n_gpus": [8, 64, 512] + [1024] * (name == "longer")}
    axes |= {"gpu_mttf": [1e7, 2e7, 5e7, 1e8, 2e8]}
    scenario = {**SCENARIO, "restart_time": 700.0 if name == "second" else 300.0}
    return Sweep(scenario, axes, ["job_time", "cluster_mtbf"])


@cache
def whole(name: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.zarr"
        if name == "longer":
            sweep("first").to_zarr(path, chunks=CHUNKS)
        sweep(name).to_zarr(path, chunks=CHUNKS, append=name == "longer")
        files = (file for file in path.rglob("*") if file.is_file())
        return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


@cache
def values(name: str) -> bytes:
    return _bytes(sweep(name).evaluate())


def _bytes(cube: Any) -> bytes:
    names = ("job_time", "cluster_mtbf", "n_gpus", "gpu_mttf")
    return b"".join(cube[name].values.tobytes() for name in names)


class WrongError(Exception):
    """A result that no fault may cause."""


class Attack:
    """Tries on one server that has a faulty port."""

    def __init__(self, bucket: str, faults: Faults, seed: int) -> None:
        self.bucket, self.faults, self.random = bucket, faults, random.Random(seed)
        self.refused: Counter[str] = Counter()
        self.count = 0
        self.ways: tuple[Callable[[str], None], ...] = (
            *(self.store, self.overwrite, self.append, self.reread, self.two, self.kill),
            self.take,
        )

    @contextlib.contextmanager
    def faulty(self, rate: float | None = None) -> Any:
        kinds = (self.random.choice(KINDS),) if self.random.random() < 0.5 else KINDS
        self.faults.kinds = kinds
        self.faults.rate = self.random.uniform(0.02, 0.4) if rate is None else rate
        try:
            yield
        finally:
            self.faults.rate = 0.0

    def told(self, call: Callable[[], Any]) -> str:
        """The one-line message of a refusal; empty if there was none."""
        try:
            call()
        except (InputError, OSError) as error:
            text = str(error)
            if "\n" in text:
                raise WrongError(f"more than one line: {text}") from error
            self.refused[text.replace(self.bucket, "")[:100]] += 1
            return text
        except WrongError:
            raise
        except Exception as error:
            raise WrongError(f"{type(error).__name__}: {error}") from error
        return ""

    def read(self, url: str, *names: str) -> None:
        """Read a cube, and check that it is as evaluated or refused."""
        known = [values(name) for name in names]

        def reading() -> None:
            if _bytes(open_cube(url)) not in known:
                raise WrongError("numbers of no cube")

        self.told(reading)

    def until(self, url: str, name: str, **how: bool) -> None:
        for count in range(ROUNDS):
            with self.faulty(0.0 if count >= ROUNDS // 2 else None):
                told = self.told(
                    lambda: sweep(name).to_zarr(
                        url, chunks=CHUNKS, settings=Settings(threads=2), **how
                    )
                )
            if not told:
                break
            if "is being written by" in told:
                time.sleep(1)
        else:
            raise WrongError(f"never whole: {told}")
        self.compare(url, name)

    def compare(self, url: str, *names: str) -> None:
        """Compare every byte; `verify` must find journal parts left by stale lists."""
        place = Objects(url)
        held = {name: place.read(name) for name in place.sizes() or ()}
        left = {name for name in held if name.startswith(PARTS) and "stale" in self.faults.kinds}
        held = {name: data for name, data in held.items() if name not in left}
        if held not in [whole(name) for name in names]:
            known = whole(names[0])
            other = sorted(n for n in held.keys() | known.keys() if held.get(n) != known.get(n))
            raise WrongError(f"other bytes: {other[:5]}")
        problems = verify(url, samples=1).problems
        if problems != [f"{name} does not belong to the cube" for name in sorted(left)]:
            raise WrongError(f"verify: {problems}")

    def store(self, url: str) -> None:
        self.until(url, "first", resume=True)

    def overwrite(self, url: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            if self.random.random() < 0.5:
                stop_after(self.random.randrange(12), disk_full, patch)
            self.told(lambda: sweep("first").to_zarr(url, chunks=CHUNKS))
        with self.faulty():
            self.told(lambda: sweep("second").to_zarr(url, chunks=CHUNKS, overwrite=True))
            self.read(url, "first", "second")
        self.until(url, "second", overwrite=True, resume=True)

    def append(self, url: str) -> None:
        sweep("first").to_zarr(url, chunks=CHUNKS)
        self.until(url, "longer", append=True)

    def reread(self, url: str) -> None:
        for name, data in whole("first").items():  # a folder, copied there
            Objects(url).write(name, data)
        with self.faulty():
            for _ in range(5):
                self.read(url, "first")
                self.told(lambda: self.sound(url))
        self.compare(url, "first")

    def sound(self, url: str) -> None:
        problems = verify(url, samples=1).problems
        if problems and "stale" not in self.faults.kinds:
            raise WrongError(f"verify: {problems}")
        if problems:
            raise InputError("verify believed a stale list")

    def kill(self, url: str) -> None:
        with self.faulty(0.05):
            code = [sys.executable, "-c", KILLED, url, str(ROOT)]
            running = subprocess.Popen(code, stderr=subprocess.DEVNULL)
            time.sleep(self.random.uniform(1, 5))
            running.kill()
            running.wait()
        self.read(url, "first")
        self.until(url, "first", resume=True)

    def replace(self, url: str, name: str) -> None:
        sweep(name).to_zarr(url, chunks=CHUNKS, overwrite=True)

    def two(self, url: str) -> None:
        sweep("first").to_zarr(url, chunks=CHUNKS)
        with self.faulty(self.random.choice([0.0, 0.1])), ThreadPoolExecutor(2) as pool:
            both = [
                pool.submit(self.told, partial(self.replace, url, name))
                for name in ("first", "second")
            ]
            told = [one.result() for one in both]
        if "" in told and all(not text or "is being written by" in text for text in told):
            self.compare(url, "first", "second")
        self.read(url, "first", "second")
        self.until(url, "second", overwrite=True, resume=True)

    def take(self, url: str) -> None:
        """Eight writers at once take a missing lock and a stale one."""
        held: list[Any] = []
        for stale in (False, True):
            held.clear()
            with self.faulty(), ThreadPoolExecutor(8) as pool:
                for _ in range(8):
                    pool.submit(self.told, lambda: held.append(objects._Lease(Objects(url), LOCK)))
            if len(held) > 1:
                raise WrongError(f"{len(held)} writers hold one lock")
            for lease in held:
                lease._ended.set()
                lease._thread.join()
            time.sleep(0 if stale else 4)

    def one(self) -> str:
        """Run one try; returns what went wrong, or an empty text."""
        way = self.ways[self.count % len(self.ways)]
        self.count += 1
        url = f"{self.bucket}/{way.__name__}/{self.count}.zarr"
        try:
            way(url)
        except Exception as error:
            self.faults.rate = 0.0
            return f"{way.__name__} {self.count}: {type(error).__name__}: {error}"
        return ""


def attack(server: str, tries: int) -> list[str]:
    """Attack one server; prints the outcome, and returns failures."""
    with (
        served(server) as port,
        proxy(port) as (faulty, faults),
        reached(faulty) as bucket,
        hasten(),
    ):
        run = Attack(bucket, faults, seed=tries)
        lacks = run.told(lambda: sweep("first").to_zarr(f"{bucket}/begun.zarr"))
        if lacks:
            if examine(Objects(f"{bucket}/begun.zarr")).exists:
                raise WrongError("refused, and written")
            run.ways = (run.reread,)
        wrong = []
        for _ in range(tries):
            told = run.one()
            if told:
                print(f"{server}: {told}", file=sys.stderr, flush=True)
                wrong.append(told)
    injected = ", ".join(f"{kind} {faults.done[kind]}" for kind in KINDS)
    told = f"read alone: {lacks}" if lacks else "all"
    print(f"| {server} | {told} | {tries} | {len(wrong)} | {injected} |", flush=True)
    for text, count in run.refused.most_common(40):
        print(f"{count:5} {text}", file=sys.stderr)
    return wrong


def main(tries: int, servers: list[str]) -> None:
    missing = sorted(set(servers) - set(installed()))
    if missing:
        sys.exit(f"{missing[0]!r} is not here; put its programs on PATH, or leave it out")
    sys.exit(bool([told for server in servers for told in attack(server, tries)]))


if __name__ == "__main__":
    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    main(int(sys.argv[1]), sys.argv[2:] or installed())
