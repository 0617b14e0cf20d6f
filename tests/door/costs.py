"""`python -m tests.door.costs`: exit 0 if no small file costs more than SECONDS or MEMORY."""

import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import google_crc32c
import numpy as np
from numcodecs import Blosc, Zstd

from fleetcube import Settings, Sweep
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.journal import Block, write_journal
from fleetcube.grid.store.places.place import Folder

from ..grid.test_tampered import attributes, repeat, seal_anew

SECONDS = 5.0  # of a process, start-up included
MEMORY = 500 << 20  # bytes, of a process
FILE = 1 << 20  # bytes of every tried file

SCENARIO = """outputs = ["job_time"]
[scenario]
model = "llama-3-8b"
node = "dgx-h100"
fabric = "infiniband-ndr"
n_gpus = 64
"""
SWEPT = ("gpu_mttf", "restart_time", "detection_time", "drain_time", "global_batch_size")
LONG = "{{linspace = [1, 1e6], num = {0}}}"


def spec(*lines: str) -> str:
    return "\n".join([SCENARIO, "[axes]", *lines])


def steps(rows: int) -> str:
    row = "llama-3-8b,dgx-h100,infiniband-ndr,64,64,{0}\n"
    return "model,node,fabric,n_gpus,global_batch_size,step_time\n" + "".join(
        row.format(1 + k * 1e-6) for k in range(rows)
    )


def records(count: int) -> str:
    run = {
        "group": "g",
        "source": "s",
        "inputs": {"model": "llama-3-8b", "gpu": "h100-sxm", "n_gpus": 64, "global_batch_size": 64},
        "measured": {"step_time": 2.0},
    }
    return json.dumps([{"id": f"r/{k}", **run} for k in range(count)])


def log(rows: int) -> str:
    sizes = (1024 * k for k in range(1, rows + 1))
    row = "{0} {1} float sum -1 {2:.2f} {3:.2f} {3:.2f} 0 {2:.2f} {3:.2f} {3:.2f} 0\n"
    times = ((size, 20 + size / 1e5) for size in sizes)
    return "# nThread 1 nGpus 2\n" + "".join(
        row.format(size, size // 4, time, size / time / 1e3) for size, time in times
    )


# Contents of each file, and the command that reads it
SPECS: dict[str, Callable[[], str]] = {
    "five axes of 1e8": lambda: spec(*(f"{name} = {LONG.format(10**8)}" for name in SWEPT)),
    "five axes of 1e7": lambda: spec(*(f"{name} = {LONG.format(10**7)}" for name in SWEPT)),
    "five axes of 1e6": lambda: spec(*(f"{name} = {LONG.format(10**6)}" for name in SWEPT)),
    "one axis of 5e6": lambda: spec(f"gpu_mttf = {LONG.format(5_000_000)}"),
    "one axis of 5e6, rounded": lambda: spec(
        f"gpu_mttf = {{linspace = [1, 1e9], num = {5_000_000}, round = true}}"
    ),
    "arange of 1e18": lambda: spec("gpu_mttf = {arange = [1, 1e18]}"),
    "two inputs that move together, 1e7": lambda: spec(
        "[axes.both]", f"gpu_mttf = {LONG.format(10**7)}", f"drain_time = {LONG.format(10**7)}"
    ),
    "two inputs that move together, 3e5": lambda: spec(
        "[axes.both]", f"gpu_mttf = {LONG.format(300_000)}", f"drain_time = {LONG.format(300_000)}"
    ),
    "a design of 2^26": lambda: spec(
        "[axes.sample]", 'design = "sobol"', f"num = {1 << 26}", "gpu_mttf = {linspace = [1, 9]}"
    ),
    "a design of 1e6 of five inputs": lambda: spec(
        "[axes.sample]",
        'design = "latin_hypercube"',
        "num = 1_000_000",
        *(f"{name} = {{linspace = [1, 9]}}" for name in SWEPT),
    ),
    "a design of 3e5 labels": lambda: spec(
        "[axes.sample]",
        'design = "random"',
        "num = 300_000",
        'fabric = ["infiniband-ndr", "roce-100g"]',
    ),
    "a drawn seed of 10,000 digits": lambda: spec(
        "[axes.sample]",
        'design = "random"',
        f"num = 8\nseed = {'9' * 10000}",
        "gpu_mttf = {linspace = [1, 9]}",
    ),
    "20,000 catalog labels": lambda: spec(f"fabric = {['infiniband-ndr'] * 20000}"),
    "30,000 catalog labels that move together": lambda: spec(
        "[axes.both]",
        f"fabric = {['infiniband-ndr'] * 30000}",
        f"gpu_mttf = {list(range(1, 30001))}",
    ),
    "60,000 choices": lambda: spec(f"zero_stage = {[k % 4 for k in range(60000)]}"),
    "60,000 choices that move together": lambda: spec(
        "[axes.both]",
        f"zero_stage = {[k % 4 for k in range(60000)]}",
        f"gpu_mttf = {list(range(1, 60001))}",
    ),
    "60,000 values": lambda: spec(f"gpu_mttf = {list(range(1, 60001))}"),
    "60,000 values with units": lambda: spec(f"gpu_mttf = {[f'{k} h' for k in range(1, 60001)]}"),
    "labels of one long text": lambda: spec(f"fabric = ['{'x' * 10**6}']"),
    "20,000 axes": lambda: spec(*(f"[axes.a{k}]\ngpu_mttf = [1]" for k in range(20000))),
    "20,000 unknown axes": lambda: spec(*(f"axis_{k} = [1]" for k in range(20000))),
    "nested tables": lambda: spec("x = " + "[" * 400_000),
    "dotted keys": lambda: spec("x" + ".x" * 400_000 + " = 1"),
    "inline tables": lambda: spec("x = " + "{a = " * 100_000),
    "one number of 900,000 digits": lambda: spec(f"gpu_mttf = [{'9' * 900_000}]"),
    "one text of 900,000 digits": lambda: spec(f"gpu_mttf = ['{'9' * 900_000} h']"),
    "50,000 empirical values": lambda: (
        SCENARIO + f"gpu_mttf = {{empirical = {list(range(1, 50001))}}}\n[axes]\nn_gpus = [8]"
    ),
    "a million derivatives": lambda: (
        "outputs = [" + ", ".join(f'"d_job_time_d_gpu_mttf{k}"' for k in range(30000)) + "]"
    ),
    "the same output 60,000 times": lambda: f"outputs = {['job_time'] * 60000}\n[scenario]\n",
}
OTHERS: dict[str, tuple[str, Callable[[], str], list[str]]] = {
    "steps of 20,000 rows": ("steps.csv", lambda: steps(20000), ["calibrate", "steps.csv"]),
    "one cell of 900,000 characters": (
        "steps.csv",
        lambda: "model,step_time\n" + "x" * 900_000,
        ["calibrate", "steps.csv"],
    ),
    "400,000 columns": ("steps.csv", lambda: "a," * 400_000, ["calibrate", "steps.csv"]),
    "an nccl-tests log of 12,000 rows": (
        "all_reduce.log",
        lambda: log(12000),
        ["calibrate", "all_reduce.log", "--collective", "all_reduce", "--ranks", "2"],
    ),
    "4,000 records": ("mine.json", lambda: records(4000), ["validate", "--records", "mine.json"]),
    "nested JSON": ("mine.json", lambda: "[" * 900_000, ["validate", "--records", "mine.json"]),
}


def bombs(folder: Path, long: bool = False) -> dict[str, Path]:
    """Cubes sealed again around files that need much memory to read."""
    sweep = Sweep(
        {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g"},
        {"n_gpus": [8, 64], "layout": {"tensor_parallel": [1, 8]}},
        ["job_time"],
    )
    sweep.to_zarr(folder / "sound", settings=Settings("numpy"))
    zeros = zstd(1 << 31)

    def cube(name: str) -> Path:
        return Path(shutil.copytree(folder / "sound", folder / name))

    def shape(path: Path, array: str, *sizes: int) -> None:
        meta = json.loads((path / array / "zarr.json").read_bytes())
        meta["shape"] = list(sizes)
        meta["chunk_grid"]["configuration"]["chunk_shape"] = list(sizes)
        (path / array / "zarr.json").write_text(json.dumps(meta), encoding="utf-8")
        repeat(path, array, meta)

    def chunk(path: Path, name: str, data: bytes) -> None:
        crc = google_crc32c.value(data)
        (path / name).write_bytes(data + crc.to_bytes(4, "little"))
        if name.startswith("job_time"):
            files = ((name, len(data) + 4, crc),)
            write_journal(Folder(path), [Block(("n_gpus", "layout"), (0, 0), (2, 2), files)])

    made: dict[str, Path] = {}
    made["a coordinate of 2 GiB in its frame"] = path = cube("frame")
    chunk(path, "n_gpus/c/0", zeros)
    made["a coordinate of 2^28 values"] = path = cube("long")
    chunk(path, "n_gpus/c/0", zeros)
    shape(path, "n_gpus", 1 << 28)
    shape(path, "job_time", 1 << 28, 2)
    made["a coordinate of 1e18 values"] = path = cube("longer")
    shape(path, "n_gpus", 10**18)
    made["four billion texts"] = path = cube("texts")
    chunk(path, "layout/c/0", Zstd().encode(b"\xff\xff\xff\xff" + bytes(100)))
    made["a chunk of 2 GiB in its header"] = path = cube("header")
    held = bytearray((path / "job_time/c/0/0").read_bytes()[:-4])
    held[4:8] = (0x7FFFFFF0).to_bytes(4, "little")
    chunk(path, "job_time/c/0/0", bytes(held))
    made["a chunk of 255 MiB"] = path = cube("chunk")
    chunk(path, "job_time/c/0/0", Blosc("zstd", 1).encode(np.zeros(255 << 17)))
    made["a chunk of 255 MiB, as its array says"] = path = cube("honest")
    chunk(path, "job_time/c/0/0", Blosc("zstd", 1).encode(np.zeros(255 << 17)))
    shape(path, "job_time", 2, 255 << 16)
    for path in made.values():
        seal_anew(path)
    made["four chunks of 1 GiB without blocks on the disk"] = path = cube("sparse")
    files = []
    for k in range(4):
        os.truncate(os.open(path / f"job_time/c/9{k}", os.O_CREAT | os.O_RDWR), 1 << 30)
        files.append((f"job_time/c/9{k}", 1 << 30, 1))
    more = Block(("n_gpus",), (0,), (2,), tuple(files))
    write_journal(Folder(path), [*examine(Folder(path)).blocks.values(), more])
    seal_anew(path)
    if long:  # it is not refused
        made["a coordinate of 2^24 values, to which the spec refers"] = path = cube("referred")
        chunk(path, "n_gpus/c/0", zstd(1 << 27))
        shape(path, "n_gpus", 1 << 24)
        for array in ("job_time", "infeasible_reason"):
            shape(path, array, 1 << 24, 2)
        spec = json.loads(
            json.loads((path / "zarr.json").read_bytes())["attributes"]["fleetcube_spec"]
        )
        sha256 = hashlib.sha256(bytes(1 << 27)).hexdigest()
        spec["axes"]["n_gpus"] = {"values": "coordinate", "size": 1 << 24, "sha256": sha256}
        attributes(path, ".", fleetcube_spec=json.dumps(spec))
    return made


def zstd(size: int) -> bytes:
    """Frames of zeros of a declared length, as one frame of repeated blocks."""
    blocks = -(-size // (128 << 10))
    head = b"\x28\xb5\x2f\xfd" + bytes([0b11100000]) + size.to_bytes(8, "little")
    repeat = (128 << 10) << 3 | 0b010  # RFC 8878, 3.1.1.2: a block of one byte, repeated
    block, last = (repeat.to_bytes(3, "little"), (repeat | 1).to_bytes(3, "little"))
    return head + (block + b"\0") * (blocks - 1) + last + b"\0"


def cost(command: list[str], folder: Path) -> tuple[int, float, int, str]:
    """Exit status, seconds, peak memory in bytes, and the last line printed."""
    began = time.perf_counter()
    with (folder / "said").open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, "-m", "fleetcube", *command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30)),
        )
        deadline = threading.Timer(SECONDS * 4, running.kill)
        deadline.start()
        _, status, used = os.wait4(running.pid, 0)
        deadline.cancel()
    seconds = time.perf_counter() - began
    said = (folder / "said").read_text("utf-8", "replace").strip().splitlines() or [""]
    return os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss << 10, said[-1]


def main() -> None:
    wrong = tries = 0
    with tempfile.TemporaryDirectory() as folder:
        asked = {
            name: ("spec.toml", text, ["run", "spec.toml"]) for name, text in SPECS.items()
        } | OTHERS
        for name, path in bombs(Path(folder), long=True).items():
            for words in (["slice", "layout=1"], ["verify"], ["show"]):
                asked[f"{words[0]}: {name}"] = ("none", str, [words[0], str(path), *words[1:]])
        for name, (file, text, command) in asked.items():
            if len(sys.argv) > 1 and not any(word in name for word in sys.argv[1:]):
                continue
            path = Path(folder) / file
            path.write_text(text(), encoding="utf-8")
            size = path.stat().st_size
            assert size <= FILE, (name, size)
            code, seconds, held, last = cost(command, Path(folder))
            bad = seconds > SECONDS or held > MEMORY or code not in (0, 1, 2)
            wrong += bad
            tries += 1
            mark = "WRONG" if bad else "ok"
            took = f"{mark:5} {seconds:5.1f} s {held / 2**20:5.0f} MB  exit {code}"
            print(f"{took}  {name}: {last[:150]}", flush=True)
    print(f"{tries} tries, {wrong} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
