"""The record beside the arrays: what was asked, which blocks are finished, and the seal."""

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import google_crc32c

from ..plan.tiles import Region
from .chunks import LARGEST, is_sound

if TYPE_CHECKING:
    from .places.place import Place

GROUP = ".fleetcube"
RECORD = f"{GROUP}/record"  # an array to Zarr, so that listing a cube stays quiet
PLAN, JOURNAL, SEAL, LOCK = (f"{RECORD}/{name}" for name in ("plan", "journal", "seal", "lock"))
PARTS = f"{RECORD}/parts/"  # of the journal, where nothing can be appended to a file
ROOT = "zarr.json"
READERS = 8  # files read at once
MOST_SEALED = 1 << 30  # bytes of the files that a seal has: they are held in memory


@dataclass(frozen=True)
class Block:
    """One finished block: what it covers, and for each chunk its file, size and crc32c."""

    dims: tuple[str, ...]
    start: tuple[int, ...]
    stop: tuple[int, ...]
    files: tuple[tuple[str, int, int], ...]

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """What tells blocks apart."""
        return self.dims, self.start

    @property
    def region(self) -> Region:
        """What it covers."""
        cuts = zip(self.dims, self.start, self.stop, strict=True)
        return {dim: slice(start, stop) for dim, start, stop in cuts}

    def fits(self, due: "Block") -> bool:
        """Whether it covers what is due, in the same files."""
        files = [name for name, _, _ in self.files]
        return self.stop == due.stop and files == [name for name, _, _ in due.files]

    def __str__(self) -> str:
        cuts = zip(self.dims, self.start, self.stop, strict=True)
        return ", ".join(f"{dim} {start}:{stop}" for dim, start, stop in cuts) or "the one point"


def _line(block: Block) -> bytes:
    body = json.dumps([block.dims, block.start, block.stop, block.files]).encode()
    return b"%08x %s\n" % (google_crc32c.value(body), body)


def _block(line: bytes) -> Block | None:
    """A journal line's block; None where the line is torn or damaged."""
    crc, _, body = line.partition(b" ")
    if crc != b"%08x" % google_crc32c.value(body):
        return None
    try:
        dims, start, stop, files = json.loads(body)
        chunks = tuple((name, int(size), int(sum_)) for name, size, sum_ in files)
        block = Block(tuple(dims), tuple(map(int, start)), tuple(map(int, stop)), chunks)
        for _, size, sum_ in chunks:
            size.to_bytes(8), sum_.to_bytes(4)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    sound = len(block.dims) == len(block.start) == len(block.stop)
    sound &= all(isinstance(dim, str) for dim in block.dims)
    return block if sound and all(_is_inside(name) for name, _, _ in chunks) else None


def _is_inside(name: Any) -> bool:
    """Whether this names a file inside a cube, wherever the record with it comes from."""
    return isinstance(name, str) and "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def read_journal(place: "Place") -> dict[Any, Block]:
    """The finished blocks of a cube or an unfinished one; damaged lines are left out."""
    found: dict[Any, Block] = {}
    with contextlib.suppress(FileNotFoundError):
        found = blocks_of(place.read(JOURNAL))
    for name in sorted(place.names(PARTS) or ()):
        with contextlib.suppress(FileNotFoundError):
            part = place.read(name)
            if part.startswith(_head(place)):
                found |= blocks_of(part)
    return found


def write_part(place: "Place", name: str, lines: Iterable[bytes]) -> None:
    """Write a part of a journal, which counts for the plan that is there now, and for no other.

    A list may lag behind, so that a part of what was overwritten outlives it.
    """
    place.write(name, _head(place) + b"".join(lines))


def _head(place: "Place") -> bytes:
    return digest(place.read(PLAN)).encode() + b"\n"


def blocks_of(journal: bytes) -> dict[Any, Block]:
    """The finished blocks that a journal holds; torn and damaged lines are left out."""
    lines = journal.split(b"\n")[:-1]
    return {block.key: block for line in lines if (block := _block(line)) is not None}


def write_journal(place: "Place", blocks: Iterable[Block]) -> None:
    """Write a journal anew, in the order of the blocks' names."""
    ordered = sorted(blocks, key=lambda block: block.key)
    place.write(JOURNAL, b"".join(map(_line, ordered)))
    for name in place.names(PARTS) or ():
        place.delete(name)


class Journal:
    """The journal of an unfinished cube, to which finished blocks are added from any thread."""

    def __init__(self, place: "Place", blocks: Iterable[Block]) -> None:
        self.blocks = {block.key: block for block in blocks}
        write_journal(place, self.blocks.values())
        self._log = place.log()
        self._lock = threading.Lock()
        self._synced = time.monotonic()

    def add(self, block: Block) -> None:
        """Count a block as finished; its files must be on the disk."""
        line = _line(block)
        with self._lock:
            self._log.append(line)
            self.blocks[block.key] = block
            if time.monotonic() - self._synced > self._log.seconds:
                self._log.sync()
                self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and close."""
        try:
            self._log.sync()
        finally:
            self._log.close()


def digest(data: bytes) -> str:
    """sha256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def write_record(place: "Place", name: str, value: Mapping[str, Any]) -> None:
    """Write JSON with its checksum before it."""
    body = json.dumps(value, sort_keys=True).encode()
    place.write(name, digest(body).encode() + b" " + body + b"\n")


def read_record(place: "Place", name: str) -> dict[str, Any] | None:
    """JSON that `write_record` wrote; None where it is not there or damaged."""
    try:
        data = place.read(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    said, _, body = data.partition(b" ")
    if not body.endswith(b"\n") or said != digest(body[:-1]).encode():
        return None
    try:
        held = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return held if isinstance(held, dict) else None


def read_seal(place: "Place") -> dict[str, tuple[int, str]] | None:
    """Size and sha256 of the files beside the chunks; None where there is no sound seal."""
    try:
        files = (read_record(place, SEAL) or {})["files"]
        found = {name: (int(size), str(said)) for name, (size, said) in files.items()}
    except (KeyError, AttributeError, TypeError, ValueError, OverflowError):
        return None
    sizes = [size for size, _ in found.values()]
    sound = all(map(_is_inside, found)) and min(sizes, default=0) >= 0
    return found if sound and sum(sizes) <= MOST_SEALED else None


def seal(place: "Place", blocks: Iterable[Block], files: Mapping[str, bytes]) -> None:
    """Make a cube whole: the seal, which has checksums of all that no block holds; the root last.

    Until the root is there no reader takes the place for a cube. Where a place is in sight while
    it is written, no array has its metadata before now either: it would read as fill values.
    """
    write_journal(place, blocks)
    sealed = {**files, **{name: place.read(name) for name in (JOURNAL, PLAN)}}
    sums = {name: [len(data), digest(data)] for name, data in sealed.items()}
    write_record(place, SEAL, {"files": sums})
    for name, data in files.items():
        if name != ROOT and place.in_sight:
            place.write(name, data)
    place.write(ROOT, files[ROOT])


class OtherSizeError(OSError):
    """A file is larger or smaller than it should be."""


def check_size(held: int, size: int | None) -> None:
    """Raise OtherSizeError for a file of so many bytes that should have others."""
    if size is not None and held != size:
        raise OtherSizeError(f"holds {held} bytes, not {size}")


def read_file(place: "Place", name: str, size: int | None = None) -> bytes | str:
    """A file, or what is wrong with it; one of another size is not read."""
    try:
        return place.read(name, size)
    except OtherSizeError as error:
        return str(error)
    except ConnectionError:  # says nothing about the file
        raise
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return "is missing" if missing else f"cannot be read: {error.strerror}"


def read_files(place: "Place", sealed: Mapping[str, tuple[int, str]]) -> dict[str, bytes | str]:
    """Files by name, as `read_file` gives each; several are read at once."""
    sizes = [size for size, _ in sealed.values()]
    with ThreadPoolExecutor(READERS) as readers:
        return dict(zip(sealed, readers.map(partial(read_file, place), sealed, sizes), strict=True))


def damaged_files(
    files: Mapping[str, bytes | str], sealed: Mapping[str, tuple[int, str]]
) -> dict[str, str]:
    """Files that were read and are not as sealed, and what is wrong with each."""
    found = {}
    for name, (_, said) in sealed.items():
        data = files[name]
        if isinstance(data, str):
            found[name] = data
        elif digest(data) != said:
            found[name] = "does not match its checksum"
    return found


def damaged_chunks(
    place: "Place", blocks: Iterable[Block], done: Callable[[int], None] = lambda chunks: None
) -> dict[Any, dict[str, str]]:
    """Chunk files that are not as journalled, by block, and what is wrong with each.

    `done` is called with the chunks checked since it was called last.
    """

    def check(block: Block) -> dict[str, str]:
        found = {}
        for name, size, crc in block.files:
            data = read_file(place, name, size) if size <= LARGEST else "is too large for a chunk"
            if isinstance(data, str):
                found[name] = data
            elif not is_sound(data, size, crc):
                found[name] = "does not match its checksum"
        done(len(block.files))
        return found

    blocks = list(blocks)
    with ThreadPoolExecutor(READERS) as readers:
        checked = zip(blocks, readers.map(check, blocks), strict=True)
        return {block.key: found for block, found in checked if found}
