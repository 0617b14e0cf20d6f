"""Kill `--overwrite` amid its renames where names cannot be exchanged (NFS), and go on.

`python -m tests.grid.swaps KILLS`: exit 0 where no cube, name or file of the user is lost.
"""

import contextlib
import errno
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fleetcube.grid.store.cube  # noqa: F401  which is forked with the rest
from fleetcube import InputError, Settings
from fleetcube.grid.store.places import durable

from .kill import contents
from .races import CHUNKS, sweep

SECONDS = 600  # that a run may take
# Forked, not started: imports would take most of the time of a run
Run = multiprocessing.get_context("fork").Process


def no_exchange() -> None:
    """From now on the system cannot exchange names, as renameat2 says on an NFS."""
    refused = SimpleNamespace(renameat2=lambda *_: -1)
    durable.ctypes = SimpleNamespace(  # type: ignore[assignment]
        CDLL=lambda *_, **__: refused, get_errno=lambda: errno.EINVAL
    )


def slowly(call: Callable[..., Any], generator: random.Random) -> Callable[..., Any]:
    def slow(*arguments: Any, **options: Any) -> Any:
        time.sleep(generator.uniform(0, 0.1))
        done = call(*arguments, **options)
        time.sleep(generator.uniform(0, 0.1))
        return done

    return slow


def _store(path: Path, count: int, seed: int | None, modes: dict[str, bool]) -> None:
    no_exchange()
    if seed is not None:
        for name in ("rename", "rmdir"):
            setattr(os, name, slowly(getattr(os, name), random.Random(seed)))
    with contextlib.suppress(InputError):  # a refusal has to restore, too
        sweep(count).to_zarr(path, chunks=CHUNKS, settings=Settings(threads=1), **modes)  # type: ignore[arg-type]


def start(*arguments: Any) -> Any:
    running = Run(target=_store, args=arguments)
    running.start()
    return running


def finish(*arguments: Any) -> None:
    running = start(*arguments)
    running.join(SECONDS)
    if running.exitcode != 0:
        sys.exit(f"a run ended with {running.exitcode}")


def main(most: int, folder: Path) -> None:
    path, partial, own = (folder / f"a.zarr{end}" for end in ("", ".partial", ".old"))
    own.mkdir()
    (own / "notes").write_text("the user's own", encoding="utf-8")
    whole = {}
    for count in (20, 9):
        finish(folder / "b.zarr", count, None, {})
        whole[count] = contents(folder / "b.zarr")
        shutil.rmtree(folder / "b.zarr")
    generator = random.Random(most)
    kills = free = left = 0
    there, other = 20, 9
    finish(path, there, None, {})
    while kills < most:
        running = start(path, other, generator.random(), {"overwrite": True})
        end = time.monotonic() + SECONDS
        while (
            running.is_alive() and not (partial / "zarr.json").exists() and time.monotonic() < end
        ):
            time.sleep(0.001)
        time.sleep(generator.uniform(0, 0.3))
        if running.is_alive():
            running.kill()
            kills += 1
        running.join(SECONDS)
        free += not path.exists()
        left += (path / durable.REPLACED).exists()
        again = generator.choice(({}, {"resume": True}, {"overwrite": True}))
        finish(path, other, None, again)
        now = {name: data for name, data in contents(path).items() if not name.endswith("/lock")}
        if now != whole[other] and (again or now != whole[there]):
            sys.exit(f"after {kills} kills the cube is neither the one nor the other")
        if again and sorted(os.listdir(folder)) != ["a.zarr", "a.zarr.old"]:
            sys.exit(f"after {kills} kills there are {', '.join(sorted(os.listdir(folder)))}")
        if not again:
            finish(path, other, None, {"resume": True, "overwrite": True})
        there, other = other, there
    if contents(own) != {"notes": b"the user's own"}:
        sys.exit("a.zarr.old has changed")
    print(f"{kills} tries, 0 wrong ({free} while the name was free, {left} before the end)")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        main(int(sys.argv[1]), Path(home))
