"""Write the blocks of a plan into an unfinished cube, journaling each once it is safe."""

import functools
import json
import math
import operator
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from ...kernels import log
from ...kernels.engines.job import pool
from ..errors import InputError
from ..plan import tiles
from ..plan.engine import JAX
from ..plan.execute import evaluate_block
from ..plan.fingerprint import fingerprint
from ..plan.labels import coordinates, dtype_of
from ..plan.plan import Plan
from ..plan.tiles import Region, extent
from ..plan.workspace import Workspace
from ..plan.written import FEW
from ..progress import expected
from ..spec.axis import Array
from .chunks import COMPRESSOR, MOST, MOST_TEXT, Compressor, encode, fill
from .empty import empty_cube
from .examine import Contents
from .guests import Attributes, ours, with_added
from .journal import (
    Block,
    Journal,
    attempt,
    damaged_chunks,
    journal_line,
    seal,
)
from .names import GUESTS, JOURNAL, LOCK, PARTS, PLAN, ROOT
from .places.durable import Group
from .places.place import Place


class Target(Protocol):
    def group_commit(self) -> Group:
        """Write files that are durable at the end."""


class _Nowhere:
    """Discards chunks of which only the size matters."""

    def group_commit(self) -> Group:
        return nullcontext(lambda name, data: None)


Task = tuple[tuple[str, ...], Region]  # dimensions of some outputs, and the extent
Elsewhere = Callable[["Writer", list[Task]], Iterator[Block]]  # writes in other processes
SAMPLED = 4  # chunks of each group from which the size of the others is estimated


class Writer:
    """Evaluates regions and writes them, from any thread."""

    def __init__(
        self,
        plan: Plan,
        spec: Mapping[str, Any],
        dtype: str,
        chunks: Mapping[str, int],
        shapes: Mapping[str, tuple[int, ...]] | None = None,
        compressor: Compressor = COMPRESSOR,
    ) -> None:
        """`chunks` are sizes by axis; `shapes` are by output, from a cube being continued."""
        self.plan, self.spec, self.dtype, self.axis_chunks = plan, spec, dtype, chunks
        self.shapes, self.compressor = shapes or {}, compressor
        self.done: Callable[[int], None]  # called with the number of values written
        # held while computing, not while writing: others compute while a block waits for the disk
        self.cores: AbstractContextManager[Any] = nullcontext()
        self._values, self._chunk = Workspace(), Workspace()
        for dims in plan.groups():
            if (size := 8 * math.prod(self.chunks(dims))) > MOST:
                raise InputError(
                    f"chunks over {', '.join(dims)} hold {size:,} bytes; at most {MOST:,} are "
                    "read back: give smaller chunks"
                )
        for name, (_, labels, _) in coordinates(plan).items():
            if labels.dtype.kind == "U" and labels.nbytes > MOST_TEXT:
                size = sum(len(label.encode()) + 4 for label in labels.tolist()) + 4
                if size > MOST_TEXT:
                    raise InputError(
                        f"the labels of {name} hold {size:,} bytes; at most {MOST_TEXT:,} are read "
                        "back: give shorter ones"
                    )

    def chunks(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        """Chunk sizes of the outputs over some dimensions, in the plan's order."""
        for name in self.plan.groups()[dims]:
            if name in self.shapes:
                sizes = dict(zip(self.plan.user_dims(name), self.shapes[name], strict=True))
                return tuple(sizes[dim] for dim in dims)
        whole = {dim: self.plan.sizes[dim] for dim in dims}
        return tuple(tiles.chunk_sizes(whole, self.axis_chunks, keep_asked=False).values())

    def stored_chunks(self, name: str) -> tuple[int, ...]:
        """Chunk sizes of an output in the order of its stored dimensions."""
        dims = self.plan.out_dims[name]
        sizes = dict(zip(dims, self.chunks(dims), strict=True))
        return tuple(sizes[dim] for dim in self.plan.user_dims(name))

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Everything that the cube's bytes depend on."""
        chunks = {name: self.stored_chunks(name) for name in self.plan.outputs}
        other = {} if self.compressor == COMPRESSOR else {"compressor": self.compressor}
        return fingerprint(self.plan, self.spec, self.dtype, chunks) | other

    def regions(self) -> Iterator[Task]:
        """All blocks: dimensions of their outputs, and extent."""
        for dims in self.plan.groups():
            for region in tiles.cells(self.plan.whole(dims), self.chunks(dims)):
                yield dims, region

    def due(self) -> Iterator[Block]:
        for dims, region in self.regions():
            names = self.plan.groups()[dims]
            yield _block(dims, region, [(self._file(name, region), 0, 0) for name in names])

    def coordinates(self) -> dict[str, Any]:
        """Coordinates by name: dimension, labels, attributes."""
        entries = coordinates(self.plan).items()
        return {
            name: (dim, _text(labels), {**attrs, **_spelled(labels)})
            for name, (dim, labels, attrs) in entries
        }

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The empty cube by file: coordinates, attributes, arrays; always the same bytes."""
        chunks = {name: self.stored_chunks(name) for name in self.plan.outputs}
        inputs = self.plan, self.spec, self.dtype, chunks, self.coordinates(), self.compressor
        return empty_cube(*inputs)

    @property
    def arrays(self) -> set[str]:
        return {name.partition("/")[0] for name in self.files if "/" in name}

    def run(
        self,
        place: Place,
        plan: bytes,
        blocks: Mapping[Any, Block],
        threads: int,
        elsewhere: Elsewhere | None = None,
        added: Callable[[], Attributes] = dict,
    ) -> None:
        """Finish an unfinished cube that has its plan and some sound blocks; its lock is held.
        `added` gives the attributes that others added to the cube, at the end."""
        files = self.files
        # Icechunk keeps no chunk without its array; elsewhere an array would read as fill values
        if not place.in_sight:
            for name in sorted(files, key=lambda name: not name.endswith(ROOT)):  # arrays first
                if name != ROOT and attempt(place, name) != files[name]:
                    place.write(name, files[name])
        journal = Journal(place, plan, blocks)
        try:
            tasks = [
                (dims, region)
                for dims, region in self.regions()
                if (dims, tuple(cut.start for cut in region.values())) not in blocks
            ]
            log.info(
                "%s: engine %s, %d points, %d blocks to write, %d kept of an earlier run",
                *(place, self.plan.engine, math.prod(self.plan.sizes.values())),
                *(len(tasks), len(blocks)),
            )
            self.done = expected(sum(self._size(*task) for task in tasks), "values")
            if elsewhere is not None:
                for block in elsewhere(self, tasks):
                    self.finish(journal, block)
                # files of workers that died
                parts, names = place.sizes(PARTS) or (), place.sizes() or ()
                self.sweep(place, journal.blocks.values(), parts, names)
            else:
                # JAX has its own threads; else a block per thread, others wait for disk or network
                writing = 1 if self.plan.engine in JAX else threads
                self.cores = threading.Semaphore(writing)
                pool(place.writers * writing).each(
                    lambda task: self.finish(journal, self.write(place, *task)), tasks
                )
        finally:
            journal.close()
        seal(place, journal.blocks.values(), files, plan, with_added(files, added()))
        log.info("%s: sealed, %d blocks", place, len(journal.blocks))

    def size(self, unit: int, sampled: bool) -> tuple[float, float]:
        """Bytes and files, with folders, of the cube where each takes whole units. Chunks count as
        some of them compress if `sampled`, else as they are in memory; nothing is written."""
        sizes = [*map(len, self.files.values()), len(json.dumps(self.fingerprint))]
        total = float(sum(unit + in_units(size, unit) for size in sizes))
        files = 2.0 * len(sizes)  # each in a folder
        fill = functools.partial(self.write, _Nowhere()) if sampled else self._dense
        for dims, names in self.plan.groups().items():
            cuts = tiles.cuts_of(self.plan.whole(dims), self.chunks(dims))
            counts = [len(pieces) for pieces in cuts]
            count, blocks = math.prod(counts), []
            for k in np.linspace(0, count - 1, min(count, SAMPLED)).astype(int):
                cell = np.unravel_index(k, counts) if counts else ()
                region = {dim: pieces[i] for dim, pieces, i in zip(dims, cuts, cell, strict=True)}
                blocks.append(fill(dims, region))
            lines = sum(len(journal_line(block)) for block in blocks)
            chunks = sum(in_units(size, unit) for block in blocks for _, size, _ in block.files)
            along = dict(zip(dims, counts, strict=True))
            rows = ([along[dim] for dim in self.plan.user_dims(name)[:-1]] for name in names)
            folders = sum(sum(accumulate(row, operator.mul, initial=1)) for row in rows)
            total += count * (lines + chunks) / len(blocks) + unit * folders
            files += count * len(names) + folders
        return total, files

    def _dense(self, dims: tuple[str, ...], region: Region) -> Block:
        """A block of chunks that do not compress: Zstandard's bound of them, and a checksum."""
        files = []
        for name in self.plan.groups()[dims]:
            size = (
                math.prod(self.stored_chunks(name))
                * dtype_of(self.plan.graph, name, self.dtype).itemsize
            )
            files.append((self._file(name, region), size + (size >> 8) + 68, 0xFFFFFFFF))
        return _block(dims, region, files)

    def write(self, place: Target, dims: tuple[str, ...], region: Region) -> Block:
        """Evaluate one chunk of every output over some dimensions and write it."""
        names = self.plan.groups()[dims]
        dtypes = [dtype_of(self.plan.graph, name, self.dtype) for name in names]
        shape = extent(region, dims, dims)
        with self.cores:
            outs = dict(zip(names, self._values.arrays(shape, dtypes), strict=True))
            evaluate_block(self.plan, dims, region, outs, 1)
        files = []
        with place.group_commit() as write:
            for name, out in outs.items():
                order = [dims.index(dim) for dim in self.plan.user_dims(name)]
                (chunk,) = self._chunk.arrays(self.stored_chunks(name), [out.dtype])
                with self.cores:
                    data, crc = encode(fill(chunk, out.transpose(order)), self.compressor)
                file = self._file(name, region)
                write(file, data)
                files.append((file, len(data), crc))
        return _block(dims, region, files)

    def finish(self, journal: Journal, block: Block) -> None:
        journal.add(block)
        size = sum(size for _, size, _ in block.files)
        log.debug("block %s: %d files, %d bytes", block, len(block.files), size)
        self.done(self._size(block.dims, block.region))

    def _size(self, dims: tuple[str, ...], region: Region) -> int:
        return math.prod(extent(region, dims, dims)) * len(self.plan.groups()[dims])

    def _file(self, name: str, region: Region) -> str:
        """The chunk file of an output over a block."""
        cuts = zip(self.plan.user_dims(name), self.stored_chunks(name), strict=True)
        return "/".join([name, "c", *(str(region[dim].start // size) for dim, size in cuts)])

    def sound(self, contents: Contents) -> dict[Any, Block]:
        """The blocks of an unfinished cube that are due and intact."""
        due = {block.key: block for block in self.due()}
        fits = {
            key: block
            for key, block in contents.blocks.items()
            if key in due and block.fits(due[key])
        }
        damaged = damaged_chunks(contents.place, fits.values())
        return {key: block for key, block in fits.items() if key not in damaged}

    def sweep(
        self, place: Place, blocks: Iterable[Block], parts: Iterable[str], names: Iterable[str]
    ) -> None:
        """Remove those files that belong neither to the empty cube nor to finished blocks."""
        wanted = {name for block in blocks for name, _, _ in block.files}
        wanted |= {PLAN, LOCK, JOURNAL, GUESTS, *parts}
        if not place.in_sight:
            wanted |= self.files.keys() - {ROOT}
        place.remove(ours(names, self.arrays) - wanted)


def in_units(size: int, unit: int) -> int:
    """The bytes that a file takes of a disk that gives whole units."""
    return -(-size // unit) * unit


def _block(dims: tuple[str, ...], region: Region, files: list[tuple[str, int, int]]) -> Block:
    cuts = [region[dim] for dim in dims]
    starts, stops = tuple(c.start for c in cuts), tuple(c.stop for c in cuts)
    return Block(dims, starts, stops, tuple(files))


def _text(labels: Array) -> Array:
    """Labels as text of any length: fixed-length text has no Zarr v3 specification."""
    return labels.astype(object) if labels.dtype.kind == "U" else labels


def _spelled(labels: Array) -> dict[str, str]:
    """A few labels also as an attribute: some readers support only numeric arrays."""
    few = labels.dtype.kind == "U" and labels.size <= FEW
    return {"labels": json.dumps(labels.tolist())} if few else {}
