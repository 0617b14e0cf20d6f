"""Kill `fleetcube run` again and again, resume it, and compare with an uninterrupted cube.

`python tests/grid/kill.py KILLS [FOLDER]`: exit 0 where not one byte differs.
"""

import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import fleetcube.grid.store.cube  # noqa: F401  which is forked with the rest
from fleetcube import Sweep
from fleetcube.__main__ import main as command

SPEC = """
outputs = ["job_time", "step_time", "cluster_mtbf"]
[scenario]
model = "llama-3-8b"
node = "dgx-h100"
tensor_parallel = 8
[axes]
n_gpus = { arange = [8, 1288, 8] }
gpu_mttf = { linspace = ["10_000 h", "100_000 h"], num = 60 }
fabric = ["infiniband-ndr", "roce-100g"]
"""
CHUNKS = "n_gpus=4,gpu_mttf=6"
ROUNDS = 5  # starts for each kill, at most
SECONDS = 600  # that a run may take


# Forked, not started: imports would take most of the time of a run
Run = multiprocessing.get_context("fork").Process


def start(folder: Path, name: str) -> Run:
    running = Run(target=_run, args=(folder, name))
    running.start()
    return running


def _run(folder: Path, name: str) -> None:
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.argv = ["fleetcube", "run", "spec.toml", "-o", name, "--resume", "--chunks", CHUNKS]
    command()


def finish(running: Run) -> None:
    running.join(SECONDS)
    if running.exitcode != 0:
        sys.exit(f"a run ended with {running.exitcode}")


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}


def harm(partial: Path, generator: random.Random) -> bool:
    """Cut or change a chunk between two runs, as a loss of power might."""
    chunks = sorted(file for file in partial.glob("job_time/c/**/*") if file.is_file())
    if not chunks or generator.random() < 0.5:
        return False
    chunk = generator.choice(chunks)
    data = bytearray(chunk.read_bytes())
    if data and generator.random() < 0.5:
        data[generator.randrange(len(data))] ^= 1
    else:
        data.clear()
    chunk.write_bytes(data)
    return True


def wait(running: Run, seconds: float, folder: Path) -> None:
    """Until some seconds after the cube is begun, or the run's end."""
    end = time.monotonic() + SECONDS
    while running.is_alive() and not folder.exists() and time.monotonic() < end:
        time.sleep(0.005)
    end = time.monotonic() + seconds
    while running.is_alive() and time.monotonic() < end:
        time.sleep(0.005)


def main(most: int, folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    Sweep.from_file(folder / "spec.toml")._plan()  # which imports what runs need
    first = start(folder, "whole.zarr")
    wait(first, 0, folder / "whole.zarr.partial")
    began = time.monotonic()
    wait(first, SECONDS, folder / "whole.zarr")
    span = time.monotonic() - began  # of the writing, without the start
    finish(first)
    whole = contents(folder / "whole.zarr")
    generator = random.Random(most)
    kills = harms = cubes = kept = 0
    cube, partial = folder / "a.zarr", folder / "a.zarr.partial"
    for _ in range(ROUNDS * most):
        if kills == most:
            break
        running = start(folder, cube.name)
        wait(running, generator.uniform(0, span), partial)
        if running.is_alive():
            running.kill()
            running.join(SECONDS)
            kills += 1
            if cube.exists() and contents(cube) != whole:
                sys.exit(f"after {kills} kills the cube is wrong")
            kept += (partial / "job_time" / "c").exists()
            harms += harm(partial, generator)
            continue
        finish(running)
        cubes += 1
        compare(cube, whole, kills)
        shutil.rmtree(cube)
    finish(start(folder, cube.name))
    compare(cube, whole, kills)
    told = f"{kept} amid the writing, {harms} chunks harmed, {cubes + 1} cubes"
    print(f"{kills} tries, 0 wrong ({told} of {len(whole)} files)")


def compare(cube: Path, whole: dict[str, bytes], kills: int) -> None:
    held = contents(cube)
    wrong = sorted(name for name in held | whole if held.get(name) != whole.get(name))
    if wrong:
        sys.exit(f"after {kills} kills these differ: {', '.join(wrong[:5])}")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(int(sys.argv[1]), Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as home:
            main(int(sys.argv[1]), Path(home))
