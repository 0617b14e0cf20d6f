"""Tokens counted by expert: how uneven their ranks are, and the capacity that would drop few.

A CSV or an NPZ with one array has a column for each expert, and a row for each layer or step (an
array of more dimensions has the experts last). Experts are grouped in their order on ranks.
"""

import csv
import io
import lzma
import re
import zipfile
import zlib
from dataclasses import dataclass

import numpy as np

from fleetcube.grid.errors import InputError
from fleetcube.grid.spec.axis import Array

ZIP = b"PK\x03\x04"
LARGEST = 1 << 26  # bytes of a file, and of the array in it
MOST = 1 << 16  # experts
_EXPERT = re.compile(r"(?i)\s*(?:expert[ _-]?)?(\d{1,9})(?:\.\d{0,9})?\s*")
_LABEL = re.compile(r"(?i)\s*(?:layer|step|iteration|row)?\s*")
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError),
    *(NotImplementedError, RuntimeError, SyntaxError, MemoryError),
)


@dataclass(frozen=True)
class Routing:
    """Tokens [row, expert]."""

    counts: Array

    def imbalance(self, ranks: int) -> float:
        """Tokens of the busiest rank over the mean, of all rows: the step waits for it in each.
        Raises InputError."""
        rows, experts = self.counts.shape
        if not 1 <= ranks <= experts or experts % ranks:
            raise InputError(f"{experts} experts do not divide among {ranks} ranks; give a divisor")
        by_rank: Array = self.counts.reshape(rows, ranks, -1).sum(axis=2)
        return float(by_rank.max(axis=1).sum() / (by_rank.sum() / ranks))

    def capacity(self, dropped: float) -> float:
        """The least tokens that an expert must take, over the mean of its row, so that at most this
        share is dropped: the tokens above c are the largest sum of any experts' n - c mean."""
        means = self.counts.mean(axis=1, keepdims=True) + np.zeros_like(self.counts)
        order = np.argsort(-(self.counts / np.maximum(means, 1e-300)), axis=None)
        above = np.cumsum(self.counts.ravel()[order]) - dropped * self.counts.sum()
        cumulative_means = np.cumsum(means.ravel()[order])
        return max(
            1.0, float((above[cumulative_means > 0] / cumulative_means[cumulative_means > 0]).max())
        )


def parse_routing(content: bytes, name: str) -> Routing | None:
    """The counts of an NPZ or CSV; None for other files. Raises InputError."""
    table = _from_npz(content, name) if content[:4] == ZIP else _from_csv(content, name)
    if table is None:
        return None
    counts = table.reshape(-1, table.shape[-1]).astype(float)
    if not (np.isfinite(counts).all() and (counts >= 0).all() and 0 < counts.sum() < np.inf):
        raise InputError(f"{name!r} holds counts below 0, no numbers or only 0; give tokens")
    return Routing(counts)


def _from_npz(content: bytes, name: str) -> Array:
    """The only array of an NPZ, checked against its stated size before it is unpacked."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            arrays = [info for info in packed.infolist() if info.filename.endswith(".npy")]
            if len(arrays) != 1 or arrays[0].file_size > LARGEST:
                raise InputError(
                    f"{name!r} holds {len(arrays)} arrays, or one above {LARGEST:,} bytes; "
                    "save one, of counts"
                )
            with packed.open(arrays[0]) as file:
                data = io.BytesIO(file.read(LARGEST + 1))
        if np.lib.format.read_magic(data) != (1, 0):
            raise ValueError("its header is not of version 1.0")
        shape, fortran, kind = np.lib.format.read_array_header_1_0(data)
        data_bytes = data.getbuffer().nbytes - data.tell()
        cells = int(np.prod([int(n) for n in shape], dtype=object))
        fits = kind.kind in "iuf" and cells * kind.itemsize == data_bytes
        if not (fits and 1 <= len(shape) <= 4 and 2 <= shape[-1] <= MOST and cells):
            raise InputError(f"{name!r} holds no array [row, expert] of numbers; save one")
        array = np.frombuffer(data.getvalue()[data.tell() :], kind)
        return array.reshape(shape, order="F" if fortran else "C")
    except _BROKEN as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name!r} is no NPZ of NumPy ({error}); write it anew") from None


def _from_csv(content: bytes, name: str) -> Array | None:
    """The counts of a CSV whose columns are experts, by their numbers or without a heading."""
    lines = content.decode("utf-8-sig", "replace").replace("\0", "").splitlines()
    try:
        rows = [row for row in csv.reader(lines) if any(row) and row[0][:1] != "#"]
    except csv.Error:
        return None
    if not rows:
        return None
    labels = next((k for k, cell in enumerate(rows[0]) if not _LABEL.fullmatch(cell)), 0)
    matches = [_EXPERT.fullmatch(cell) for cell in rows[0][labels:]]
    numbers = [int(match[1]) for match in matches if match]
    if not 2 <= len(numbers) == len(matches) <= MOST:
        return None
    order = np.argsort(numbers)
    headed = labels or sorted(numbers) in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])
    places = order + labels if headed else np.arange(len(numbers))
    counts = []
    for line, row in enumerate(rows[1:] if headed else rows, 2 if headed else 1):
        try:
            counts.append([float(row[k]) for k in places])
        except (ValueError, IndexError):
            raise InputError(
                f"{name!r}, row {line}: not {len(numbers)} counts of experts; fix it"
            ) from None
    return np.array(counts) if counts else None
