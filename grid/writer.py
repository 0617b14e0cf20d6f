"""Write the blocks of a plan into an unfinished cube, and count each once it is on the disk."""

import math
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels.job import pool
from .axes import Array
from .blocks import cells, chunk_shape
from .dataset import attributes, coordinates, dtype_of, root_attributes
from .durable import DurableStore, is_sound, write_file
from .execute import evaluate_block
from .fingerprint import fingerprint
from .journal import (
    GROUP,
    JOURNAL,
    LOCK,
    PLAN,
    RECORD,
    ROOT,
    Block,
    Journal,
    read_journal,
    read_record,
    seal,
    write_record,
)
from .plan import REASON, Plan, Region, extent

if TYPE_CHECKING:
    from .cluster import Cluster

CHUNK = 8_000_000  # bytes of a float64 chunk: fast to write, and to slice along any axis


class Writer:
    """Evaluates regions and writes them, from any thread."""

    def __init__(
        self,
        plan: Plan,
        spec: Mapping[str, Any],
        dtype: str,
        chunks: Mapping[str, int],
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.plan, self.spec, self.dtype, self.asked = plan, spec, dtype, chunks
        self.progress = progress
        self.total = sum(math.prod(plan.shape(plan.out_dims[name])) for name in plan.outputs)
        self.done = 0
        self.lock = threading.Lock()

    def chunks(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        """Chunk sizes of the outputs over some dimensions, in the plan's order."""
        whole = self.plan.sizes
        shape = tuple(min(self.asked.get(dim, whole[dim]), whole[dim]) for dim in dims)
        if all(dim in self.asked for dim in dims):
            return shape
        return chunk_shape(shape, CHUNK // 8)

    def stored_chunks(self, name: str) -> tuple[int, ...]:
        """Chunk sizes of an output in the order of its stored dimensions."""
        dims = self.plan.out_dims[name]
        sizes = dict(zip(dims, self.chunks(dims), strict=True))
        return tuple(sizes[dim] for dim in self.plan.user_dims(name))

    def fingerprint(self) -> dict[str, Any]:
        """Everything that the cube's bytes depend on."""
        chunks = {name: self.stored_chunks(name) for name in self.plan.outputs}
        return fingerprint(self.plan, self.spec, self.dtype, chunks)

    def regions(self) -> Iterator[tuple[tuple[str, ...], Region]]:
        """All blocks: dimensions of the outputs they hold, and what they cover."""
        for dims in self.plan.groups():
            sizes = {dim: self.plan.sizes[dim] for dim in dims}
            for region in cells(sizes, self.chunks(dims)):
                yield dims, region

    def files(self) -> dict[str, bytes]:
        """The empty cube by file: coordinates, attributes, arrays; the same bytes every time."""
        import xarray
        import zarr
        from zarr.codecs import BloscCodec, Crc32cCodec
        from zarr.storage import MemoryStore

        memory: dict[str, Any] = {}
        store = MemoryStore(memory)
        coords = {
            name: (dim, _text(row), attrs)
            for name, (dim, row, attrs) in coordinates(self.plan).items()
        }
        frame = xarray.Dataset(coords=coords, attrs=root_attributes(self.plan, self.spec))
        frame.to_zarr(store, zarr_format=3, consolidated=False, mode="w-", write_empty_chunks=True)
        group = zarr.open_group(store, mode="r+")
        for name in self.plan.outputs:
            dtype = dtype_of(name, self.dtype)
            attrs = {
                key: value.tolist() if isinstance(value, np.ndarray) else value
                for key, value in attributes(self.plan, name).items()
            }
            dims = self.plan.user_dims(name)
            group.create_array(
                name,
                shape=self.plan.shape(dims),
                chunks=self.stored_chunks(name),
                dtype=dtype,
                fill_value=-1 if dtype == np.int8 else np.nan,
                dimension_names=dims,
                attributes=attrs,
                compressors=[
                    BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=dtype.itemsize),
                    Crc32cCodec(),
                ],
            )
        plain = [name for name in coords if name not in self.plan.sizes]
        if REASON in self.plan.outputs:
            plain.append(REASON)
        if plain:
            group.attrs["coordinates"] = " ".join(plain)
        zarr.create_group(store, path=GROUP)
        zarr.create_array(store, name=RECORD, shape=(0,), dtype="uint8", dimension_names=("byte",))
        return {name: memory[name].to_bytes() for name in sorted(memory)}

    def run(self, partial: Path, threads: int, cluster: "Cluster | None" = None) -> None:
        """Finish an unfinished cube, whatever of it is there; its lock is held."""
        files = self.files()
        blocks = self._finished(partial, files)
        for name, data in files.items():
            if name != ROOT and _read(partial / name) != data:  # the root is written last
                write_file(partial / name, data)
        journal = Journal(partial, blocks.values())
        if read_record(partial / PLAN) is None:
            write_record(partial / PLAN, self.fingerprint())
        store = DurableStore(partial)
        arrays = {name: open_array(store, name) for name in self.plan.outputs}
        try:
            tasks = []
            for dims, region in self.regions():
                if (dims, tuple(cut.start for cut in region.values())) in blocks:
                    self._count(dims, region)
                else:
                    tasks.append((dims, region))
            if cluster is not None:
                from .remote import written

                for block in written(cluster, self, partial, tasks):
                    self.finish(journal, block)
                self._sweep(partial, files, journal.blocks.values())  # what dead workers left
            else:  # JAX brings its own threads; the other engines take one block for each of ours
                pool(1 if self.plan.engine == "jax" else threads).each(
                    lambda task: self.finish(journal, self.write(store, arrays, *task)), tasks
                )
        finally:
            journal.close()
        seal(partial, journal.blocks.values(), files)

    def write(
        self,
        store: DurableStore,
        arrays: Mapping[str, Any],
        dims: tuple[str, ...],
        region: Region,
    ) -> Block:
        """Evaluate one chunk of every output over some dimensions and write it."""
        names = self.plan.groups()[dims]
        shape = extent(region, dims, dims)
        outs = {name: np.empty(shape, dtype_of(name, self.dtype)) for name in names}
        evaluate_block(self.plan, dims, region, outs, 1)
        files = []
        for name, out in outs.items():
            user = self.plan.user_dims(name)
            block = out.transpose([dims.index(dim) for dim in user])
            part = tuple(region[dim] for dim in user) or ...
            arrays[name][part] = np.array(block, order="C")
            file = self._file(name, region)
            files.append((file, *store.written.pop(file)))
        return _block(dims, region, files)

    def finish(self, journal: Journal, block: Block) -> None:
        """Count a block whose files are on the disk."""
        journal.add(block)
        self._count(block.dims, block.region)

    def _count(self, dims: tuple[str, ...], region: Region) -> None:
        with self.lock:
            self.done += math.prod(extent(region, dims, dims)) * len(self.plan.groups()[dims])
            if self.progress is not None:
                self.progress(self.done, self.total)

    def _file(self, name: str, region: Region) -> str:
        """The chunk's file of an output over a block."""
        dims = self.plan.user_dims(name)
        cuts = zip(dims, self.stored_chunks(name), strict=True)
        return "/".join([name, "c", *(str(region[dim].start // size) for dim, size in cuts)])

    def _finished(self, partial: Path, files: Mapping[str, bytes]) -> dict[Any, Block]:
        """Blocks of an unfinished cube that are whole, all else being swept away."""
        good = {}
        if read_record(partial / PLAN) is not None:
            due = {}
            for dims, region in self.regions():
                names = [self._file(name, region) for name in self.plan.groups()[dims]]
                due[_block(dims, region, []).key] = names
            good = {
                key: block
                for key, block in read_journal(partial).items()
                if [name for name, _, _ in block.files] == due.get(key)
                and not damaged_chunks(partial, block)
            }
        self._sweep(partial, files, good.values())
        return good

    def _sweep(self, partial: Path, files: Mapping[str, bytes], blocks: Iterable[Block]) -> None:
        """Remove what is neither of the empty cube nor of finished blocks."""
        kept = {name for block in blocks for name, _, _ in block.files}
        kept |= {name for name in files if name != ROOT}
        kept |= {PLAN, JOURNAL, LOCK}
        sweep(partial, kept)


def damaged_chunks(folder: Path, block: Block) -> dict[str, str]:
    """Chunk files of a block that are not as journalled, and what is wrong with each."""
    found = {}
    for name, size, crc in block.files:
        try:
            data = (folder / name).read_bytes()
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            found[name] = "is missing" if missing else f"cannot be read: {error.strerror}"
            continue
        if not is_sound(data, size, crc):
            wrong = f"holds {len(data)} bytes, not {size}" if len(data) != size else None
            found[name] = wrong or "does not match its checksum"
    return found


def listing(folder: Path) -> set[str]:
    """Every file of a cube, by its name in it."""
    return {
        Path(base, name).relative_to(folder).as_posix()
        for base, _, names in os.walk(folder)
        for name in names
    }


def sweep(folder: Path, kept: set[str]) -> None:
    """Remove all but some files, and the folders that are empty then."""
    for name in listing(folder) - kept:
        (folder / name).unlink()
    for base, _, _ in os.walk(folder, topdown=False):
        if Path(base) != folder and not any(Path(base).iterdir()):
            os.rmdir(base)


def discard(folder: Path) -> None:
    """Remove a folder, its root first: what is left of it never reads as a cube."""
    (folder / ROOT).unlink(missing_ok=True)
    shutil.rmtree(folder)


def _block(dims: tuple[str, ...], region: Region, files: list[tuple[str, int, int]]) -> Block:
    cuts = [region[dim] for dim in dims]
    starts, stops = tuple(c.start for c in cuts), tuple(c.stop for c in cuts)
    return Block(dims, starts, stops, tuple(files))


def open_array(store: DurableStore, name: str) -> Any:
    """An array of an unfinished cube, to write."""
    import zarr

    return zarr.open_array(store, path=name, mode="r+", config={"write_empty_chunks": True})


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _text(row: Array) -> Array:
    """Labels as text of any length: fixed-length text has no Zarr v3 specification."""
    return row.astype(object) if row.dtype.kind == "U" else row
