"""Kill a run on one kind of CPU, and continue it on another.

`python -m tests.grid.kinds KILLS`: that many kills in each direction between two kinds, each after
a random number of chunks; exit 0 if every cube has the bytes of an uninterrupted one.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..machines import environment, here
from .kill import CHUNKS, SPEC, contents

ENGINES = ("numpy", "numba")


def command(kind: str, folder: Path, engine: str, name: str) -> "subprocess.Popen[bytes]":
    words = ["run", "spec.toml", "-o", name, "--engine", engine, "--resume", "--chunks", CHUNKS]
    given = dict(cwd=folder, env=environment(kind) | {"FLEETCUBE_CACHE": str(folder / "kernels")})
    return subprocess.Popen(
        [sys.executable, "-m", "fleetcube", *words], **given, stdout=subprocess.DEVNULL
    )


def killed(running: "subprocess.Popen[bytes]", partial: Path, chunks: int) -> bool:
    """Kill the run once this many chunks are on disk; False if it ended before."""
    while running.poll() is None:
        if (
            sum("c" in Path(root).parts for root, _, files in os.walk(partial) for _ in files)
            > chunks
        ):
            running.kill()
            return running.wait() != 0
        time.sleep(0.001)
    return False


def finish(running: "subprocess.Popen[bytes]") -> None:
    if running.wait() != 0:
        sys.exit(f"a run ended with {running.returncode}")


def main(kills: int, folder: Path) -> int:
    one, other = here()[0], here()[-1]
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    drawn, wrong = random.Random(kills), 0
    for engine in ENGINES:
        finish(command(one, folder, engine, "whole.zarr"))
        whole = contents(folder / "whole.zarr")
        most = sum(name.startswith("job_time/c/") for name in whole)
        for first, then in ((one, other), (other, one)):
            done = 0
            while done < kills / len(ENGINES):
                partial = folder / "cube.zarr.partial"
                done += killed(
                    command(first, folder, engine, "cube.zarr"), partial, drawn.randrange(most)
                )
                finish(command(then, folder, engine, "cube.zarr"))
                wrong += contents(folder / "cube.zarr") != whole
                shutil.rmtree(folder / "cube.zarr")
            print(
                f"{engine}: {done} killed on {first}, continued on {then}; {wrong} wrong",
                flush=True,
            )
        shutil.rmtree(folder / "whole.zarr")
    return wrong


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.exit(main(int(sys.argv[1]), Path(place)) > 0)
