"""Cubes on disk: plain Zarr v3, every output with its own dimensions, written in blocks."""

import json
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.job import pool
from . import memory
from .axes import Array
from .blocks import cells, chunk_shape
from .dataset import attributes, coordinates, dtype_of, root_attributes
from .errors import InputError
from .execute import evaluate_block
from .plan import REASON, Plan, Region, extent

if TYPE_CHECKING:
    import xarray

CHUNK = 8_000_000  # bytes of a float64 chunk: fast to write, and to slice along any axis


def store(
    plan: Plan,
    spec: Mapping[str, Any],
    path: Path,
    *,
    overwrite: bool,
    dtype: str,
    chunks: Mapping[str, int],
    threads: int,
    progress: Callable[[int, int], None] | None,
) -> Path:
    """Evaluate a plan into a cube at `path`, built in `path`.partial and renamed when complete."""
    if not path.name:
        raise InputError(f"{str(path)!r} names no cube; write for example cubes/sweep.zarr")
    partial = path.with_name(path.name + ".partial")
    _check_target(plan, path, partial, overwrite, dtype)
    writer = _Writer(plan, dtype, chunks, progress)
    try:
        writer.create(partial, spec)
        for dims in plan.groups():
            sizes = {dim: plan.sizes[dim] for dim in dims}
            tasks = cells(sizes, writer.chunks(dims))
            # JAX brings its own threads; the other engines take one block for each of ours
            pool(1 if plan.engine == "jax" else threads).each(
                lambda region, dims=dims: writer.write(dims, region), tasks
            )
        if overwrite and path.exists():
            _replace(partial, path)
        else:
            os.rename(partial, path)
    except OSError as error:
        _discard(partial)
        reason = error.strerror or str(error)
        raise OSError(f"cannot write {str(path)!r}: {reason}; nothing was kept") from error
    except BaseException:
        _discard(partial)
        raise
    return path


def parse_chunks(text: str | None) -> dict[str, Any] | None:
    """Read "axis=size,axis=size"."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    return {
        axis: int(size) if size.isdecimal() and size.isascii() else size for axis, _, size in pairs
    }


def check_chunks(plan: Plan, chunks: Mapping[str, Any] | None) -> dict[str, int]:
    """Chunk sizes by axis, as asked for. Raises InputError."""
    for axis, size in (chunks or {}).items():
        if axis not in plan.sizes:
            raise InputError(
                f"chunks: {axis!r} is not an axis; choose from {', '.join(plan.sizes)}"
            )
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise InputError(f"chunks: {axis} = {size!r} is not a whole number above 0; give one")
    return dict(chunks or {})


def _check_target(plan: Plan, path: Path, partial: Path, overwrite: bool, dtype: str) -> None:
    inside = next((folder for folder in path.absolute().parents if is_cube(folder)), None)
    if inside is not None:
        raise InputError(
            f"{str(path)!r} lies in the cube {str(inside)!r}; choose a place beside it"
        )
    if path.exists() and not overwrite:
        raise InputError(f"{str(path)!r} exists; choose another name or say --overwrite")
    if path.exists() and not is_cube(path):
        raise InputError(f"{str(path)!r} is not a cube and is not overwritten; choose another name")
    if partial.exists():
        raise InputError(
            f"{str(partial)!r} exists: another run is writing it or was stopped; remove it first"
        )
    parent = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if parent is None or not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"cannot write into {str(parent)!r}; choose a folder that is writable")
    size = sum(
        math.prod(plan.shape(plan.out_dims[name])) * dtype_of(name, dtype).itemsize
        for name in plan.outputs
    )
    free = shutil.disk_usage(parent).free
    if size > free:
        raise InputError(
            f"the cube holds {memory.human(size)} and {memory.human(free)} of disk are free; "
            "shorten an axis, ask for fewer outputs, or use float32"
        )


def _discard(partial: Path) -> None:
    """Remove an unfinished cube; Zarr's own thread may still be writing when a run is stopped."""
    for _ in range(20):
        shutil.rmtree(partial, ignore_errors=True)
        time.sleep(0.05)
        if not partial.exists():
            return


def _replace(partial: Path, path: Path) -> None:
    old = path.with_name(path.name + ".old")
    os.rename(path, old)
    os.rename(partial, path)
    shutil.rmtree(old)


class _Writer:
    """Evaluates regions and writes them, from any thread."""

    def __init__(
        self,
        plan: Plan,
        dtype: str,
        chunks: Mapping[str, int],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.plan, self.dtype, self.progress, self.asked = plan, dtype, progress, chunks
        self.total = sum(math.prod(plan.shape(plan.out_dims[name])) for name in plan.outputs)
        self.done = 0
        self.lock = threading.Lock()
        self.arrays: dict[str, Any] = {}

    def chunks(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        """Chunk sizes of the outputs over some dimensions, in the plan's order."""
        whole = self.plan.sizes
        shape = tuple(min(self.asked.get(dim, whole[dim]), whole[dim]) for dim in dims)
        if all(dim in self.asked for dim in dims):
            return shape
        return chunk_shape(shape, CHUNK // 8)

    def create(self, path: Path, spec: Mapping[str, Any]) -> None:
        """Make the empty cube: coordinates, attributes, arrays."""
        import xarray
        import zarr
        from zarr.codecs import BloscCodec, Crc32cCodec

        path.parent.mkdir(parents=True, exist_ok=True)
        coords = {
            name: (dim, _text(row), attrs)
            for name, (dim, row, attrs) in coordinates(self.plan).items()
        }
        frame = xarray.Dataset(coords=coords, attrs=root_attributes(self.plan, spec))
        frame.to_zarr(path, zarr_format=3, consolidated=False, mode="w-", write_empty_chunks=True)
        group = zarr.open_group(path, mode="r+")
        for name in self.plan.outputs:
            dims = self.plan.user_dims(name)
            stored = dict(
                zip(self.plan.out_dims[name], self.chunks(self.plan.out_dims[name]), strict=True)
            )
            dtype = dtype_of(name, self.dtype)
            attrs = {
                key: value.tolist() if isinstance(value, np.ndarray) else value
                for key, value in attributes(self.plan, name).items()
            }
            self.arrays[name] = group.create_array(
                name,
                shape=self.plan.shape(dims),
                chunks=tuple(stored[dim] for dim in dims),
                dtype=dtype,
                fill_value=-1 if dtype == np.int8 else np.nan,
                dimension_names=dims,
                attributes=attrs,
                compressors=[
                    BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=dtype.itemsize),
                    Crc32cCodec(),
                ],
                config={"write_empty_chunks": True},
            )
        plain = [name for name in coords if name not in self.plan.sizes]
        if REASON in self.plan.outputs:
            plain.append(REASON)
        if plain:
            group.attrs["coordinates"] = " ".join(plain)

    def write(self, dims: tuple[str, ...], region: Region) -> None:
        """Evaluate one chunk of every output over some dimensions and write it."""
        names = self.plan.groups()[dims]
        shape = extent(region, dims, dims)
        outs = {name: np.empty(shape, dtype_of(name, self.dtype)) for name in names}
        evaluate_block(self.plan, dims, region, outs, 1)
        for name, out in outs.items():
            user = self.plan.user_dims(name)
            block = out.transpose([dims.index(dim) for dim in user])
            part = tuple(region[dim] for dim in user) or ...
            self.arrays[name][part] = np.array(block, order="C")
        with self.lock:
            self.done += math.prod(shape) * len(names)
            if self.progress is not None:
                self.progress(self.done, self.total)


def _text(row: Array) -> Array:
    """Labels as text of any length: fixed-length text has no Zarr v3 specification."""
    return row.astype(object) if row.dtype.kind == "U" else row


def is_cube(path: Path) -> bool:
    """Whether a folder is a cube that fleetcube wrote."""
    try:
        meta = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    held = meta.get("attributes") if isinstance(meta, dict) else None
    return isinstance(held, dict) and "fleetcube_spec" in held


def _check_whole(folder: Path) -> None:
    """Refuse a cube that lacks a chunk: Zarr would read it back as fill values, without a word."""
    for meta in folder.glob("*/zarr.json"):
        try:
            array = json.loads(meta.read_text(encoding="utf-8"))
            chunk = array["chunk_grid"]["configuration"]["chunk_shape"]
            counts = [-(-s // c) for s, c in zip(array["shape"], chunk, strict=True)]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{str(meta)!r} is damaged; run the cube's sweep again") from None
        held = meta.parent / "c"
        found = 1 if held.is_file() else sum(len(files) for _, _, files in os.walk(held))
        if found != math.prod(counts):
            raise InputError(
                f"{str(meta.parent)!r} is damaged: {found} of its {math.prod(counts)} chunks are "
                "there; run the cube's sweep again"
            )


def open_cube(path: str | os.PathLike[str], *, chunks: Any = None) -> "xarray.Dataset":
    """Open a cube lazily: values are read where they are sliced.

    Args:
        path: the cube's folder.
        chunks: None for plain lazy indexing (fastest for slices), or Dask chunks as in
            `xarray.open_zarr` ({} for the stored ones).

    Raises InputError where there is no complete cube.
    """
    import xarray

    folder = Path(path)
    if folder.name.endswith(".partial"):
        raise InputError(f"{str(folder)!r} is not complete; run the sweep again to finish it")
    if not folder.exists():
        partial = folder.with_name(folder.name + ".partial")
        hint = "its run has not finished" if partial.exists() else "run the sweep first"
        raise InputError(f"there is no cube {str(folder)!r}; {hint}")
    if not is_cube(folder):
        raise InputError(f"{str(folder)!r} is not a cube that fleetcube wrote; choose another")
    _check_whole(folder)
    try:
        cube: xarray.Dataset = xarray.open_zarr(folder, consolidated=False, chunks=chunks)
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{str(folder)!r} is damaged ({said}); run its sweep again") from error
    return cube
