"""Names of a cube's files other than arrays, and checksums of their bytes."""

import hashlib
from collections.abc import Iterable

GROUP = ".fleetcube"
RECORD = f"{GROUP}/record"  # an array to Zarr, so that listing a cube gives no warning
PLAN, JOURNAL, SEAL, LOCK = (f"{RECORD}/{name}" for name in ("plan", "journal", "seal", "lock"))
PARTS = f"{RECORD}/parts/"  # of the journal, if files cannot be appended to
GUESTS = f"{RECORD}/guests"  # attributes that others added, while their cube is rewritten in place
ROOT = "zarr.json"
MOST_SEALED = 1 << 30  # bytes of the files in a seal, which are kept in memory


class OtherSizeError(OSError):
    """A file is larger or smaller than it should be."""


def check_size(actual: int, size: int | None) -> None:
    if size is not None and actual != size:
        raise OtherSizeError(f"holds {actual} bytes, not {size}")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def part_of(plan: bytes, lines: Iterable[bytes] = ()) -> bytes:
    """A part of this plan's journal: parts of a replaced cube may outlive it."""
    return b"\n".join((digest(plan).encode(), b"".join(lines)))


def rank(name: str) -> int:
    """When to remove a file: the root first, so that the rest never reads as a cube; then metadata,
    as an array without chunks reads as fill values; last the record, which marks all as ours."""
    if name.rpartition("/")[2] == ROOT:
        return int(name != ROOT)
    return 3 if name.startswith(f"{RECORD}/") else 2
