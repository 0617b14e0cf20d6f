"""The record next to the arrays: the plan, the journal of finished blocks, and the seal."""

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import google_crc32c

from ..plan.tiles import Region
from .chunks import LARGEST, is_sound
from .names import JOURNAL, MOST_SEALED, PARTS, PLAN, ROOT, SEAL, OtherSizeError, digest, part_of
from .places.place import Place

READERS = 8  # files read in parallel


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


def read_journal(place: Place) -> dict[Any, Block]:
    """The finished blocks of a complete or unfinished cube; damaged lines are skipped."""
    blocks: dict[Any, Block] = {}
    with contextlib.suppress(FileNotFoundError):
        blocks = blocks_of(place.read(JOURNAL))
    for name in sorted(place.names(PARTS) or ()):
        with contextlib.suppress(FileNotFoundError):
            part = place.read(name)
            if part.startswith(part_of(place.read(PLAN))):
                blocks |= blocks_of(part)
    return blocks


def blocks_of(journal: bytes) -> dict[Any, Block]:
    """The finished blocks in a journal; torn and damaged lines are skipped."""
    # without a newline the last line is torn
    lines = journal.split(b"\n")[:-1]
    return {block.key: block for line in lines if (block := _block(line)) is not None}


def write_journal(place: Place, blocks: Iterable[Block]) -> None:
    """Write a whole journal."""
    place.write(JOURNAL, _whole(blocks))
    _drop_parts(place)


def _whole(blocks: Iterable[Block]) -> bytes:
    """A journal, in the order of the blocks' keys."""
    return b"".join(map(journal_line, sorted(blocks, key=lambda block: block.key)))


def _drop_parts(place: Place) -> None:
    # after the whole: if killed in between, a block is listed twice instead of lost
    for name in place.names(PARTS) or ():
        place.delete(name)


class Journal:
    """The journal of an unfinished cube, to which any thread adds finished blocks."""

    def __init__(self, place: Place, blocks: Iterable[Block]) -> None:
        self.blocks = {block.key: block for block in blocks}
        write_journal(place, self.blocks.values())
        self._log = place.log()
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


def write_record(place: Place, name: str, value: Mapping[str, Any]) -> None:
    """Write JSON, preceded by its checksum."""
    place.write(name, _record(value))


def _record(value: Mapping[str, Any]) -> bytes:
    body = json.dumps(value).encode()  # in its order: that of a table's inputs is their labels'
    return digest(body).encode() + b" " + body + b"\n"


def read_record(place: Place, name: str) -> dict[str, Any] | None:
    """JSON written by `write_record`; None if it is missing or damaged."""
    try:
        data = place.read(name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    checksum, _, body = data.partition(b" ")
    if not body.endswith(b"\n") or checksum != digest(body[:-1]).encode():
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_seal(place: Place) -> dict[str, tuple[int, str]] | None:
    """Size and sha256 of the files other than chunks; None without a sound seal."""
    try:
        files = (read_record(place, SEAL) or {})["files"]
        sealed = {name: (int(size), str(sha256)) for name, (size, sha256) in files.items()}
    except (KeyError, AttributeError, TypeError, ValueError, OverflowError):
        return None
    sizes = [size for size, _ in sealed.values()]
    sound = all(map(_is_inside, sealed)) and min(sizes, default=0) >= 0
    return sealed if sound and sum(sizes) <= MOST_SEALED else None


def seal(place: Place, blocks: Iterable[Block], files: Mapping[str, bytes]) -> None:
    """Complete a cube: the seal with checksums of all files but the chunks, and the root last.
    Readers do not see a cube until its root exists. If readers see it being written, arrays get
    their metadata only now: earlier, they would read as fill values."""
    sealed = {**files, JOURNAL: _whole(blocks), PLAN: place.read(PLAN)}
    sums = {name: [len(data), digest(data)] for name, data in sealed.items()}
    with place.group_commit() as write:
        write(JOURNAL, sealed[JOURNAL])
        write(SEAL, _record({"files": sums}))
        _drop_parts(place)
        for name, data in files.items():
            if name != ROOT and place.in_sight:
                write(name, data)
        write(ROOT, files[ROOT])


def read_file(place: Place, name: str, size: int | None = None) -> bytes | str:
    """A file, or what is wrong with it; a file of another size is not read."""
    try:
        return place.read(name, size)
    except OtherSizeError as error:
        return str(error)
    except ConnectionError:  # does not concern the file
        raise
    except OSError as error:
        missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        return "is missing" if missing else f"cannot be read: {error.strerror}"


def read_files(place: Place, sealed: Mapping[str, tuple[int, str]]) -> dict[str, bytes | str]:
    """Files by name, as returned by `read_file`, read in parallel."""
    sizes = [size for size, _ in sealed.values()]
    with ThreadPoolExecutor(READERS) as readers:
        return dict(zip(sealed, readers.map(partial(read_file, place), sealed, sizes), strict=True))


def damaged_files(
    files: Mapping[str, bytes | str], sealed: Mapping[str, tuple[int, str]]
) -> dict[str, str]:
    """Files that differ from their seal, and what is wrong with each."""
    damage = {}
    for name, (_, sha256) in sealed.items():
        data = files[name]
        if isinstance(data, str):
            damage[name] = data
        elif digest(data) != sha256:
            damage[name] = "does not match its checksum"
    return damage


def damaged_chunks(
    place: Place, blocks: Iterable[Block], done: Callable[[int], None] = lambda chunks: None
) -> dict[Any, dict[str, str]]:
    """Chunk files that differ from the journal, by block, and what is wrong with each. `done` is
    called with the number of chunks checked since its last call."""

    def check(block: Block) -> dict[str, str]:
        damage = {}
        for name, size, crc in block.files:
            # limited, since a forged journal may list any file as a chunk
            data = read_file(place, name, size) if size <= LARGEST else "is too large for a chunk"
            if isinstance(data, str):
                damage[name] = data
            elif not is_sound(data, size, crc):
                damage[name] = "does not match its checksum"
        done(len(block.files))
        return damage

    blocks = list(blocks)
    with ThreadPoolExecutor(READERS) as readers:
        checked = zip(blocks, readers.map(check, blocks), strict=True)
        return {block.key: damage for block, damage in checked if damage}
