"""Cubes on disk: plain Zarr v3, every output with its own dimensions, complete or not there.

A cube is built in NAME.partial, which no reader takes for a cube, and gets its name only when every
block is on the disk. What is finished there survives a failure, a kill and a loss of power.
"""

import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import memory
from .dataset import dtype_of
from .durable import exchange, link, one_writer, sync_folder
from .errors import InputError
from .fingerprint import difference
from .journal import (
    LOCK,
    PLAN,
    RECORD,
    SEAL,
    damaged_files,
    read_journal,
    read_record,
    write_journal,
    write_record,
)
from .plan import Plan
from .writer import Writer, damaged_chunks, discard, listing, sweep

if TYPE_CHECKING:
    import xarray

    from .cluster import Cluster


def store(
    plan: Plan,
    spec: Mapping[str, Any],
    path: Path,
    *,
    overwrite: bool,
    resume: bool,
    dtype: str,
    chunks: Mapping[str, int],
    threads: int,
    progress: Callable[[int, int], None] | None,
    cluster: "Cluster | None" = None,
) -> Path:
    """Evaluate a plan into a cube at `path`, built in `path`.partial and renamed when complete."""
    if not path.name:
        raise InputError(f"{str(path)!r} names no cube; write for example cubes/sweep.zarr")
    if overwrite and resume:
        raise InputError("--overwrite and --resume exclude each other; say one of them")
    partial = partial_of(path)
    writer = Writer(plan, spec, dtype, chunks, progress)
    _check_place(path, partial, overwrite, resume)
    if resume and path.exists():
        _check_same(path, writer)
        if not damage(path):
            if partial.exists():  # what an exchange left
                with one_writer(partial, partial / LOCK):
                    discard(partial)
            return path
    _check_room(plan, path, dtype)
    if cluster is not None:
        cluster.check_folder(next(folder for folder in path.absolute().parents if folder.exists()))
    try:
        with one_writer(partial, partial / LOCK):
            _prepare(path, partial, writer, overwrite, resume)
            writer.run(partial, threads, cluster)
            _finish(partial, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"cannot write {str(path)!r}: {reason}; {kept(partial)}") from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(kept(partial)) from None
    return path


def partial_of(path: Path) -> Path:
    """Where a cube is built."""
    return path.with_name(path.name + ".partial")


def kept(partial: Path) -> str:
    """What a run that ended early left, and what to do."""
    if not partial.exists():
        return "nothing was kept"
    count = len(read_journal(partial))
    return f"{count} finished blocks are kept in {str(partial)!r}; `run --resume` continues it"


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


def _check_place(path: Path, partial: Path, overwrite: bool, resume: bool) -> None:
    inside = next((folder for folder in path.absolute().parents if is_ours(folder)), None)
    if inside is not None:
        raise InputError(
            f"{str(path)!r} lies in the cube {str(inside)!r}; choose a place beside it"
        )
    if path.exists() and not (overwrite or resume):
        raise InputError(f"{str(path)!r} exists; choose another name or say --overwrite")
    if path.exists() and not is_ours(path):
        raise InputError(f"{str(path)!r} is not a cube and is not overwritten; choose another name")
    if (
        partial.exists()
        and not is_ours(partial)
        and (not partial.is_dir() or any(partial.iterdir()))
    ):
        raise InputError(f"{str(partial)!r} is not an unfinished cube; move it away")
    parent = next((folder for folder in path.absolute().parents if folder.exists()), None)
    if parent is None or not parent.is_dir() or not os.access(parent, os.W_OK):
        raise InputError(f"cannot write into {str(parent)!r}; choose a folder that is writable")


def _check_room(plan: Plan, path: Path, dtype: str) -> None:
    parent = next(folder for folder in path.absolute().parents if folder.exists())
    size = sum(
        math.prod(plan.shape(plan.out_dims[name])) * dtype_of(name, dtype).itemsize
        for name in plan.outputs
    )
    free = shutil.disk_usage(parent).free
    partial = partial_of(path)
    if partial.exists():  # what it holds need not be written again
        free += sum((partial / name).stat().st_size for name in listing(partial))
    if size > free:
        raise InputError(
            f"the cube holds {memory.human(size)} and {memory.human(free)} of disk are free; "
            "shorten an axis, ask for fewer outputs, or use float32"
        )


def _check_same(folder: Path, writer: Writer) -> None:
    """Refuse to continue what was begun otherwise."""
    old = read_record(folder / PLAN)
    if old is None:
        raise InputError(
            f"the record in {str(folder)!r} is damaged, so that it cannot be continued; "
            "say --overwrite to write it anew"
        )
    changed = difference(old, writer.fingerprint())
    if changed is not None:
        raise InputError(
            f"{str(folder)!r} cannot be continued, for this changed: {changed}; "
            "restore that, choose another name or say --overwrite"
        )


def _prepare(path: Path, partial: Path, writer: Writer, overwrite: bool, resume: bool) -> None:
    """Bring an unfinished cube into the state from which `run` goes on; its lock is held."""
    if path.exists() and not (overwrite or resume):
        raise InputError(f"{str(path)!r} exists; choose another name or say --overwrite")
    begun = (partial / PLAN).exists()
    if begun and not (overwrite or resume):
        raise InputError(
            f"{str(partial)!r} exists: a run was stopped there; "
            "--resume continues it, --overwrite starts anew"
        )
    (partial / "zarr.json").unlink(missing_ok=True)  # killed between the seal and the rename
    # a sealed one beside a cube is what an exchange left, or is quickly made again
    if begun and resume and not ((partial / SEAL).exists() and path.exists()):
        _check_same(partial, writer)
    else:
        sweep(partial, {LOCK})
    if resume and path.exists():
        _borrow(path, partial)


def _borrow(path: Path, partial: Path) -> None:
    """Take the sound blocks of a damaged cube into an unfinished one, by second names."""
    held = read_journal(partial)
    for key, block in read_journal(path).items():
        if key not in held and not damaged_chunks(path, block):
            for name, _, _ in block.files:
                link(path / name, partial / name)
            held[key] = block
    write_journal(partial, held.values())
    plan = read_record(path / PLAN)
    if plan is not None:
        write_record(partial / PLAN, plan)


def _finish(partial: Path, path: Path) -> None:
    """Give a complete cube its name, at once; what bore it goes."""
    sync_folder(partial)
    if path.exists():
        exchange(partial, path)
        sync_folder(path.parent)
        discard(partial)
    else:
        os.rename(partial, path)
        sync_folder(path.parent)
    (path / LOCK).unlink(missing_ok=True)


def is_ours(folder: Path) -> bool:
    """Whether a folder is a cube of ours, whole, damaged or unfinished."""
    return (folder / RECORD).is_dir() or is_cube(folder)


def is_cube(path: Path) -> bool:
    """Whether a folder is a cube that fleetcube wrote."""
    try:
        meta = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    held = meta.get("attributes") if isinstance(meta, dict) else None
    return isinstance(held, dict) and "fleetcube_spec" in held


def damage(folder: Path) -> list[str]:
    """What is wrong with the files of a cube: one line for each."""
    sealed = read_record(folder / SEAL)
    if sealed is None:
        return [f"{SEAL} is missing or damaged"]
    found = [f"{name} {wrong}" for name, wrong in damaged_files(folder, sealed).items()]
    blocks = read_journal(folder)
    for block in blocks.values():
        for name, wrong in damaged_chunks(folder, block).items():
            found.append(f"{name} {wrong} (block {block})")
    known = {name for block in blocks.values() for name, _, _ in block.files}
    extra = listing(folder) - known - sealed["files"].keys() - {SEAL, LOCK}
    return found + [f"{name} does not belong to the cube" for name in sorted(extra)]


def _check_sealed(folder: Path) -> None:
    """Refuse a cube that is not sealed, or whose metadata is not as sealed."""
    sealed = read_record(folder / SEAL)
    if sealed is None:
        raise InputError(
            f"{str(folder)!r} is damaged: it has no seal; `run --resume` of its sweep mends it"
        )
    for name, wrong in damaged_files(folder, sealed).items():
        raise InputError(
            f"{str(folder / name)!r} is damaged: it {wrong}; `run --resume` of its sweep mends it"
        )


def _check_whole(folder: Path) -> None:
    """Refuse a cube that lacks a chunk: Zarr would read it back as fill values, without a word."""
    for meta in folder.glob("[!.]*/zarr.json"):
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
                "there; `run --resume` of its sweep mends it"
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
        raise InputError(f"{str(folder)!r} is not complete; `run --resume` finishes it")
    if not folder.exists():
        partial = folder.with_name(folder.name + ".partial")
        hint = "its run has not finished" if partial.exists() else "run the sweep first"
        raise InputError(f"there is no cube {str(folder)!r}; {hint}")
    if not is_cube(folder):
        raise InputError(f"{str(folder)!r} is not a cube that fleetcube wrote; choose another")
    _check_whole(folder)
    _check_sealed(folder)
    try:
        cube: xarray.Dataset = xarray.open_zarr(folder, consolidated=False, chunks=chunks)
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"{str(folder)!r} is damaged ({said}); run its sweep again") from error
    return cube
