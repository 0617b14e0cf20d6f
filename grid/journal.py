"""The record beside the arrays: what was asked, which blocks are finished, and the seal."""

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c

from .durable import write_file
from .plan import Region

GROUP = ".fleetcube"
RECORD = f"{GROUP}/record"  # an array to Zarr, so that listing a cube stays quiet
PLAN, JOURNAL, SEAL, LOCK = (f"{RECORD}/{name}" for name in ("plan", "journal", "seal", "lock"))
ROOT = "zarr.json"
SYNC_SECONDS = 1.0  # between syncs of the journal


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
        chunks = tuple((str(name), int(size), int(sum_)) for name, size, sum_ in files)
        return Block(tuple(dims), tuple(start), tuple(stop), chunks)
    except (ValueError, TypeError):
        return None


def read_journal(folder: Path) -> dict[Any, Block]:
    """The finished blocks of a cube or an unfinished one; damaged lines are left out."""
    try:
        lines = (folder / JOURNAL).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return {}
    return {block.key: block for line in lines if (block := _block(line)) is not None}


def write_journal(folder: Path, blocks: Iterable[Block]) -> None:
    """Write a journal anew, in the order of the blocks' names."""
    ordered = sorted(blocks, key=lambda block: block.key)
    write_file(folder / JOURNAL, b"".join(map(_line, ordered)))


class Journal:
    """The journal of an unfinished cube, to which finished blocks are added from any thread."""

    def __init__(self, folder: Path, blocks: Iterable[Block]) -> None:
        self.blocks = {block.key: block for block in blocks}
        write_journal(folder, self.blocks.values())
        self._handle = os.open(folder / JOURNAL, os.O_WRONLY | os.O_APPEND)
        self._lock = threading.Lock()
        self._synced = time.monotonic()

    def add(self, block: Block) -> None:
        """Count a block as finished; its files must be on the disk."""
        line = _line(block)
        with self._lock:
            if os.write(self._handle, line) != len(line):  # the torn line is never read
                raise OSError(28, "No space left on device")
            self.blocks[block.key] = block
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._handle)
                self._synced = time.monotonic()

    def close(self) -> None:
        """Sync and close."""
        try:
            os.fsync(self._handle)
        finally:
            os.close(self._handle)


def digest(data: bytes) -> str:
    """sha256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def write_record(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON with its checksum before it."""
    body = json.dumps(value, sort_keys=True).encode()
    write_file(path, digest(body).encode() + b" " + body + b"\n")


def read_record(path: Path) -> dict[str, Any] | None:
    """JSON that `write_record` wrote; None where it is not there or damaged."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    said, _, body = data.partition(b" ")
    if not body.endswith(b"\n") or said != digest(body[:-1]).encode():
        return None
    held = json.loads(body)
    return held if isinstance(held, dict) else None


def seal(folder: Path, blocks: Iterable[Block], files: Mapping[str, bytes]) -> None:
    """Write the root and the seal: checksums of all that no block holds."""
    write_journal(folder, blocks)
    write_file(folder / ROOT, files[ROOT])
    sealed = {**files}
    for name in (JOURNAL, PLAN):
        sealed[name] = (folder / name).read_bytes()
    sums = {name: [len(data), digest(data)] for name, data in sealed.items()}
    write_record(folder / SEAL, {"files": sums})


def damaged_files(folder: Path, sealed: Mapping[str, Any]) -> dict[str, str]:
    """Files outside the blocks that are not as sealed, and what is wrong with each."""
    found = {}
    for name, (size, said) in sealed["files"].items():
        try:
            data = (folder / name).read_bytes()
        except OSError as error:
            found[name] = "is missing" if isinstance(error, FileNotFoundError) else str(error)
            continue
        if len(data) != size:
            found[name] = f"holds {len(data)} bytes, not {size}"
        elif digest(data) != said:
            found[name] = "does not match its checksum"
    return found
