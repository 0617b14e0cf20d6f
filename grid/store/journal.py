"""The record next to the arrays: the plan, the journal of finished blocks, and the seal."""

import functools
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import google_crc32c

from ...kernels.engines.job import pool
from ..plan.tiles import Region
from .chunks import LARGEST, checksum, is_sound, is_whole
from .names import GUESTS, JOURNAL, MOST_SEALED, PARTS, PLAN, ROOT, SEAL, digest
from .places.place import Place

READERS = 8  # files read in parallel
Files = Mapping[str, bytes]
WRITTEN = "was written by another program"
MISSING = (FileNotFoundError, NotADirectoryError)


@dataclass(frozen=True)
class Block:
    """One finished block: its extent, and for each chunk its file, size and crc32c."""

    dims: tuple[str, ...]
    start: tuple[int, ...]
    stop: tuple[int, ...]
    files: tuple[tuple[str, int, int], ...]

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        return self.dims, self.start

    @property
    def region(self) -> Region:
        cuts = zip(self.dims, self.start, self.stop, strict=True)
        return {dim: slice(start, stop) for dim, start, stop in cuts}

    def fits(self, due: "Block") -> bool:
        """Whether it has the extent and files of the expected block."""
        files = [name for name, _, _ in self.files]
        return self.stop == due.stop and files == [name for name, _, _ in due.files]

    def __str__(self) -> str:
        cuts = zip(self.dims, self.start, self.stop, strict=True)
        return ", ".join(f"{dim} {start}:{stop}" for dim, start, stop in cuts) or "the one point"


def journal_line(block: Block) -> bytes:
    body = json.dumps([block.dims, block.start, block.stop, block.files]).encode()
    return b"%08x %s\n" % (google_crc32c.value(body), body)


def _block(line: bytes) -> Block | None:
    """A journal line's block; None if the line is torn or damaged."""
    crc, _, body = line.partition(b" ")
    if crc != b"%08x" % google_crc32c.value(body):
        return None
    try:
        dims, start, stop, files = json.loads(body)
        chunks = tuple((name, int(size), int(sum_)) for name, size, sum_ in files)
        block = Block(tuple(dims), tuple(map(int, start)), tuple(map(int, stop)), chunks)
        # negative or huge ones raise here, not where a reader turns the crc into 4 bytes
        for _, size, sum_ in chunks:
            size.to_bytes(8), sum_.to_bytes(4)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    sound = len(block.dims) == len(block.start) == len(block.stop)
    sound &= all(isinstance(dim, str) for dim in block.dims)
    return block if sound and all(_is_inside(name) for name, _, _ in chunks) else None


def _is_inside(name: Any) -> bool:
    """Whether this names a file inside a cube: a record may be forged."""
    return isinstance(name, str) and "\0" not in name and not {"", ".", ".."} & set(name.split("/"))


def blocks_of(journal: bytes) -> dict[Any, Block]:
    """The finished blocks in a journal; torn and damaged lines are skipped."""
    # without a newline the last line is torn
    lines = journal.split(b"\n")[:-1]
    return {block.key: block for line in lines if (block := _block(line)) is not None}


def write_journal(place: Place, blocks: Iterable[Block], parts: Iterable[str] = ()) -> None:
    """Write a whole journal in place of its parts."""
    place.write(JOURNAL, _whole(blocks))
    # after the whole: if killed in between, a block is listed twice instead of lost
    for name in parts:
        place.delete(name)


def _whole(blocks: Iterable[Block]) -> bytes:
    """A journal, in the order of the blocks' keys."""
    return b"".join(map(journal_line, sorted(blocks, key=lambda block: block.key)))


class Journal:
    """The journal of an unfinished cube, to which any thread adds finished blocks."""

    def __init__(self, place: Place, plan: bytes, blocks: Mapping[Any, Block]) -> None:
        self.blocks = {**blocks}  # those that the journal there has
        self._log = place.log(plan)
        self._lock = threading.Lock()
        self._synced = time.monotonic()

    def add(self, block: Block) -> None:
        """Record a block as finished; its files must be on disk."""
        line = journal_line(block)
        with self._lock:
            self._log.append(line)
            self.blocks[block.key] = block
            # not after each line: a lost line only means recomputing a block
            if time.monotonic() - self._synced > self._log.seconds:
                self._log.sync()
                self._synced = time.monotonic()

    def close(self) -> None:
        try:
            self._log.sync()
        finally:
            self._log.close()


def record_bytes(value: Mapping[str, Any]) -> bytes:
    """JSON, preceded by its checksum."""
    body = json.dumps(value).encode()  # in its order: that of a table's inputs is their labels'
    return digest(body).encode() + b" " + body + b"\n"


def parsed(data: bytes | None) -> dict[str, Any] | None:
    """JSON of `record_bytes`; None if it is missing or damaged."""
    checksum, _, body = (data or b"").partition(b" ")
    if not body.endswith(b"\n") or checksum != digest(body[:-1]).encode():
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def sealed_sums(seal: bytes | None) -> dict[str, tuple[int, str]] | None:
    """Size and sha256 of the files other than chunks; None without a sound seal."""
    try:
        files = (parsed(seal) or {})["files"]
        sealed = {name: (int(size), str(sha256)) for name, (size, sha256) in files.items()}
    except (KeyError, AttributeError, TypeError, ValueError, OverflowError):
        return None
    sizes = [size for size, _ in sealed.values()]
    sound = all(map(_is_inside, sealed)) and min(sizes, default=0) >= 0
    return sealed if sound and sum(sizes) <= MOST_SEALED else None


def seal(place: Place, blocks: Iterable[Block], files: Files, plan: bytes, added: Files) -> None:
    """Complete a cube: the seal with checksums of all files but the chunks, and the root last.
    `added` are files with the attributes that others added, which the seal leaves out. Readers do
    not see a cube until its root exists. If readers see it being written, arrays get their metadata
    only now: earlier, they would read as fill values."""
    sealed = {**files, JOURNAL: _whole(blocks), PLAN: plan}
    sums = {name: [len(data), digest(data)] for name, data in sealed.items()}
    with place.group_commit() as write:
        write(JOURNAL, sealed[JOURNAL])
        write(SEAL, record_bytes({"files": sums}))
        for name in place.sizes(PARTS) or ():  # listed now, since an earlier list may have lagged
            place.delete(name)
        for name, data in added.items():
            if name != ROOT and (place.in_sight or data != files[name]):
                write(name, data)
        write(ROOT, added[ROOT])
    if added != files:
        place.delete(GUESTS)


def attempt(place: Place, name: str, size: int | None = None) -> bytes | OSError:
    """A file, or why it cannot be read; a file of another size is not read."""
    try:
        return place.read(name, size)
    except ConnectionError:  # does not concern the file
        raise
    except OSError as error:
        return error


def wrong_with(data: bytes | OSError, size: int) -> str:
    """Why a file is not the one of this size that was written, in words."""
    if isinstance(data, OSError):
        return "is missing" if isinstance(data, MISSING) else f"cannot be read: {data.strerror}"
    return f"holds {len(data)} bytes, not {size}" * (len(data) != size) or (
        "does not match its checksum"
    )


def damaged_files(
    files: Mapping[str, bytes | OSError], sealed: Mapping[str, tuple[int, str]]
) -> dict[str, str]:
    """Files that differ from their seal, and what is wrong with each."""
    return {
        name: wrong_with(data, size)
        for name, (size, sha256) in sealed.items()
        if isinstance(data := files[name], OSError) or digest(data) != sha256
    }


def damaged_chunks(
    place: Place, blocks: Iterable[Block], done: Callable[[int], None] = lambda chunks: None
) -> dict[Any, dict[str, str]]:
    """Chunk files that differ from the journal, by block, and what is wrong with each. `done` is
    called with the number of chunks checked since its last call."""

    @functools.cache
    def ours() -> set[int]:
        return {crc for block in blocks for _, _, crc in block.files}

    def check(block: Block) -> dict[str, str]:
        damage = {}
        for name, size, crc in block.files:
            if size > LARGEST:  # a forged journal may list any file as a chunk
                damage[name] = "is too large for a chunk"
                continue
            data = attempt(place, name)
            if isinstance(data, OSError) or not is_sound(data, size, crc):
                damage[name] = wrong_with(data, size)
                if isinstance(data, bytes) and is_whole(data) and checksum(data)[0] not in ours():
                    damage[name] = WRITTEN
        done(len(block.files))
        return damage

    blocks = list(blocks)
    checked = zip(blocks, pool(READERS).map(check, blocks), strict=True)
    return {block.key: damage for block, damage in checked if damage}
