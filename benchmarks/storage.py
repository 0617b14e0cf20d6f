"""Cubes under build/benchmarks: writing against the disk's raw speed, slices, chunks."""

import itertools
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import google_crc32c
import numpy as np

from fleetcube import Sweep, open_cube
from fleetcube.grid.plan.tiles import cells, chunk_sizes
from fleetcube.grid.store.chunks import COMPRESSOR, LEVEL, encode, fill
from fleetcube.grid.store.places.durable import write_file

from . import question
from .measure import BUILD, ROOT, interleave, ratio, say
from .tables import Row, Table

EXAMPLE = ROOT / "examples" / "scaling-and-reliability.toml"
WRITING = 0.7  # of the speed of mere compressing and writing
SMALLER = 5.0  # times smaller than dense float64 arrays of all outputs
SLICE_MS, OPEN_MS = 50.0, 50.0
SIX: Mapping[str, Any] = {
    "n_gpus": [64, 16384],
    "gpu_mttf": ["10_000 h", "100_000 h"],
    "checkpoint_write_bandwidth": ["10 GB/s", "1 TB/s"],
    "inter_node_bandwidth": ["25 GB/s", "200 GB/s"],
    "restart_time": ["1 min", "30 min"],
}


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder under build/benchmarks, removed on exit."""
    BUILD.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=BUILD))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def bytes_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


# -- writing -----------------------------------------------------------------------------------

WRITE_COLUMNS = {
    "sweep": "sweep",
    "dtype": "dtype",
    "held_gb": "values GB",
    "seconds": "seconds",
    "gb_per_s": "values GB/s",
    "ratio": "of compressing + raw write + fsync",
    "target": "at least",
    "met": "met",
    "stored_gb": "on disk GB",
    "smaller": "times smaller than dense float64",
}


def run_write(quick: bool = False) -> Table:
    """Storing sweeps, against merely compressing and writing the same chunks."""
    sizes = (8, 16, 16, 8, 4) if quick else question.UNEVEN
    rounds = 2 if quick else 7
    sweeps = {"examples/scaling-and-reliability": Sweep.from_file(EXAMPLE)}
    sweeps["the founding question, three outputs"] = question.full(sizes)
    rows = [
        compare_writing(name, sweep, dtype, rounds)
        for name, sweep in sweeps.items()
        for dtype in ("float64", "float32")
    ]
    note = (
        "The whole of `Sweep.to_zarr` (evaluation, checksums, journal, files and folders synced, "
        "sealing) against compressing the same chunks with the same codec on two threads and "
        "writing each raw with one fsync, in turn."
    )
    return Table("Writing cubes", WRITE_COLUMNS, rows, (note,))


def compare_writing(name: str, sweep: Sweep, dtype: str, rounds: int) -> Row:
    """Seconds of storing a sweep, and of the minimal work of writing its chunks."""
    say(f"writing: {name}, {dtype}")
    with workplace() as folder:
        sample = sweep.to_zarr(folder / "sample.zarr", dtype=dtype)  # compiles
        chunks = list(stored_chunks(sample))
        size = sum(chunk.nbytes for chunk in chunks)
        stored = bytes_of(sample)
        numbers = itertools.count()
        contenders: dict[str, Callable[[], object]] = {
            "store": lambda: sweep.to_zarr(folder / f"{next(numbers)}.zarr", dtype=dtype),
            "floor": lambda: write_raw(chunks, folder / str(next(numbers))),
        }
        seconds = interleave(contenders, rounds)
        cube = open_cube(sample)
        dense = 8 * math.prod(cube.sizes.values()) * len(cube.data_vars)
    return {
        "sweep": name,
        "dtype": dtype,
        "held_gb": size / 1e9,
        "seconds": median(seconds["store"]),
        "gb_per_s": size / median(seconds["store"]) / 1e9,
        "ratio": (share := ratio(seconds["floor"], seconds["store"])),
        "target": WRITING,
        "met": share >= WRITING,
        "stored_gb": stored / 1e9,
        "smaller": dense / stored,
    }


def stored_chunks(path: Path) -> Iterator[Any]:
    cube = open_cube(path)
    for name, variable in cube.data_vars.items():
        values = np.asarray(variable.values)
        sizes = zip(map(str, variable.dims), values.shape, strict=True)
        whole = {dim: slice(0, size) for dim, size in sizes}
        for region in cells(whole, variable.encoding["chunks"]):
            yield np.ascontiguousarray(values[tuple(region.values())])
        del name, values


def write_raw(chunks: Sequence[Any], folder: Path) -> None:
    """Compress on two threads with the cube's codec and checksum, write, fsync."""
    folder.mkdir()

    def write(task: tuple[int, Any]) -> None:
        number, chunk = task
        data, _ = encode(chunk, COMPRESSOR)
        with open(folder / str(number), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, enumerate(chunks)))


# -- slices ------------------------------------------------------------------------------------

SLICE_COLUMNS = {
    "axes": "axes kept",
    "median_ms": "median ms",
    "worst_ms": "worst ms",
    "target": "at most",
    "met": "met",
}


def six_axes(size: int) -> Sweep:
    axes = {name: {"geomspace": ends, "num": size} for name, ends in SIX.items()}
    axes["n_gpus"]["round"] = True
    stages = {"pipeline_parallel": list(range(1, size + 1))}
    scenario = {
        "model": "llama-3-70b",
        "node": "dgx-h100",
        "tensor_parallel": 8,
        "calibration": "none",
    }
    return Sweep(scenario, {**axes, **stages}, ["job_time"])


def run_slices(quick: bool = False) -> Table:
    """Slices of a stored cube of six axes of 32 (float64), along every pair of them."""
    size, tries = (6, 3) if quick else (32, 9)
    with workplace() as folder:
        say("slices: opening the cube")
        path = six_axes(size).to_zarr(folder / "six.zarr")
        opened = []
        for _ in range(tries):
            start = time.perf_counter()
            cube = open_cube(path)
            opened.append((time.perf_counter() - start) * 1000)
        say("slices: every pair of axes")
        rows = [slice_times(cube["job_time"], pair, tries) for pair in pairs(cube["job_time"])]
        stored = bytes_of(path)
    rows.append(
        {
            "axes": "opening the cube",
            "median_ms": median(opened),
            "worst_ms": max(opened),
            "target": OPEN_MS,
            "met": median(opened) <= OPEN_MS,
        }
    )
    note = (
        f"`open_cube(...).isel(...)` of {size**6:,} float64 values in {stored / 1e9:.2g} GB; the "
        "other axes at random places, read once before."
    )
    return Table("Slices of a stored cube of six axes", SLICE_COLUMNS, rows, (note,))


def pairs(variable: Any) -> list[tuple[str, ...]]:
    return list(itertools.combinations(variable.dims, 2))


def slice_times(variable: Any, free_axes: Sequence[str], tries: int) -> Row:
    """Milliseconds of reading a plane at random places from the system's page cache."""
    random = np.random.default_rng(0)
    spans = []
    for _ in range(tries):
        point = {
            d: int(random.integers(n)) for d, n in variable.sizes.items() if d not in free_axes
        }
        variable.isel(point).load()  # into the page cache
        start = time.perf_counter()
        np.asarray(variable.isel(point).values)
        spans.append((time.perf_counter() - start) * 1000)
    return {
        "axes": " x ".join(free_axes) or "a point",
        "median_ms": median(spans),
        "worst_ms": max(spans),
        "target": SLICE_MS,
        "met": median(spans) <= SLICE_MS,
    }


# -- chunks and codecs -------------------------------------------------------------------------

CHUNK_COLUMNS = {
    "codec": "codec",
    "chunk_mb": "chunk MB",
    "files": "chunks",
    "write": "write GB/s",
    "read": "read GB/s",
    "smaller": "times smaller",
    "line_ms": "1-D slice ms, median over axes",
    "plane_ms": "2-D slice ms, median",
    "worst_ms": "worst",
}
CODECS = (
    (None, 0, None),
    ("lz4", 1, "shuffle"),
    ("lz4", 5, "shuffle"),
    ("lz4", 9, "shuffle"),
    ("lz4", 9, "bitshuffle"),
    ("zstd", 1, "shuffle"),
    ("zstd", 3, "shuffle"),
)
CHUNK_MB = (1, 2, 4, 8, 16, 32)
USED = (COMPRESSOR, LEVEL, "shuffle")
USED_MB = 8


def run_chunks(quick: bool = False) -> Table:
    """Codecs at the default chunk size, and chunk sizes with the default codec."""
    sweep = six_axes(4 if quick else 18)
    values = np.asarray(sweep.evaluate()["job_time"].values)
    tries = 2 if quick else 3
    rows = [chunk_times(values, codec, USED_MB, tries) for codec in CODECS]
    rows += [chunk_times(values, USED, size, tries) for size in CHUNK_MB]
    note = (
        f"`job_time` (float64) over six axes of {values.shape[0]}: {values.nbytes / 1e9:.2g} GB. "
        "One thread per core, each file synced; slices as above."
    )
    return Table("Chunks and codecs", CHUNK_COLUMNS, rows, (note,))


def chunk_times(values: Any, codec: Any, megabytes: float, tries: int) -> Row:
    """Times to write, read and slice one array with one codec and chunk size."""
    import xarray
    import zarr
    from numcodecs import Blosc
    from zarr.codecs import BloscCodec, Crc32cCodec

    kind, level, shuffle = codec
    say(f"chunks: {kind}, level {level}, {shuffle}, {megabytes:g} MB")
    item = values.dtype.itemsize
    blosc = [BloscCodec(cname=kind, clevel=level, shuffle=shuffle, typesize=item)] if kind else []
    mode = Blosc.BITSHUFFLE if shuffle == "bitshuffle" else Blosc.SHUFFLE
    compress = Blosc(cname=kind, clevel=level, shuffle=mode).encode if kind else bytes
    dims = tuple(map(str, range(values.ndim)))
    sizes = dict(zip(dims, values.shape, strict=True))
    most = max(1, int(megabytes * 1e6) // item)
    chunk = tuple(chunk_sizes(sizes, {}, keep_asked=False, most=most).values())
    blocks = {
        "/".join(
            str(cut.start // step) for cut, step in zip(region.values(), chunk, strict=True)
        ): (fill(np.empty(chunk, values.dtype), values[tuple(region.values())]))
        for region in cells({dim: slice(0, size) for dim, size in sizes.items()}, chunk)
    }
    writes, reads = [], []
    with workplace() as folder:
        for turn in range(tries):
            path = folder / str(turn)
            array: Any = zarr.create_array(
                path,
                name="v",
                shape=values.shape,
                chunks=chunk,
                dtype=values.dtype,
                fill_value=np.nan,
                dimension_names=dims,
                compressors=[*blosc, Crc32cCodec()],
            )

            def write(task: tuple[str, Any], path: Path = path) -> None:
                data = bytes(compress(task[1]))
                data += google_crc32c.value(data).to_bytes(4, "little")
                write_file(path, f"v/c/{task[0]}", data)

            zarr.open_group(path, mode="a")
            start = time.perf_counter()
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(write, blocks.items()))
            writes.append(time.perf_counter() - start)
            start = time.perf_counter()
            assert np.array_equal(array[...], values, equal_nan=True)
            reads.append(time.perf_counter() - start)
        stored = bytes_of(path)
        cube = xarray.open_zarr(path, consolidated=False, chunks=None)["v"]
        lines = [slice_times(cube, (dim,), tries)["median_ms"] for dim in dims]
        planes = [slice_times(cube, pair, tries) for pair in pairs(cube)]
    return {
        "codec": f"blosc {kind}-{level} {shuffle} + crc32c" if kind else "none + crc32c",
        "chunk_mb": math.prod(chunk) * item / 1e6,
        "files": len(blocks),
        "write": values.nbytes / median(writes) / 1e9,
        "read": values.nbytes / median(reads) / 1e9,
        "smaller": values.nbytes / stored,
        "line_ms": median(lines),
        "plane_ms": median(row["median_ms"] for row in planes),
        "worst_ms": max(row["worst_ms"] for row in planes),
    }
