"""Kill `fleetcube run` again and again, resume it, and compare with an uninterrupted cube.

`python tests/grid/kill.py KILLS [FOLDER]`: exit 0 where not one byte differs.
"""

import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def start(folder: Path, name: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "fleetcube", "run", "spec.toml", "-o", name, "--resume"]
    return subprocess.Popen(
        [*command, "--chunks", CHUNKS],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(running: "subprocess.Popen[str]") -> None:
    _, told = running.communicate(timeout=SECONDS)
    if running.returncode != 0:
        sys.exit(f"a run failed: {told}")


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


def wait(running: "subprocess.Popen[str]", seconds: float, folder: Path) -> None:
    """Until some seconds after the cube is begun, or the run's end."""
    end = time.monotonic() + SECONDS
    while running.poll() is None and not folder.exists() and time.monotonic() < end:
        time.sleep(0.005)
    end = time.monotonic() + seconds
    while running.poll() is None and time.monotonic() < end:
        time.sleep(0.005)


def main(most: int, folder: Path) -> None:
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
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
        if running.poll() is None:
            running.kill()
            running.communicate(timeout=SECONDS)
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
