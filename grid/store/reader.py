"""Reads a complete cube as it was opened, or not at all; without Zarr and xarray, which take longer
to load than a slice to read."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...kernels.engines.job import pool
from ..errors import ChangedError, InputError
from ..result import Result, Variable
from ..spec.axis import Array
from .chunks import MOST, Stored, decode, is_sound
from .examine import Contents
from .journal import READERS, attempt, blocks_of
from .names import GROUP, JOURNAL, ROOT


class Reader:
    """A complete cube as it was when opened; everything but the chunks is in memory. A chunk must
    have the size and crc32c of the journal at that time: a lost one, or one of a cube written
    meanwhile, is a one-line error."""

    def __init__(self, place: Any, files: dict[str, bytes]) -> None:
        self.place, self.files = place, files

    @cached_property
    def sums(self) -> dict[str, tuple[int, int]]:
        """Size and crc32c of every chunk."""
        blocks = blocks_of(self.files[JOURNAL]).values()
        return {name: (size, crc) for block in blocks for name, size, crc in block.files}

    @cached_property
    def arrays(self) -> dict[str, Stored]:
        """The metadata of every array. Raises ValueError, KeyError or TypeError for what fleetcube
        never writes."""
        metas = {name: name.rpartition("/")[0] for name in self.files if name.endswith(f"/{ROOT}")}
        return {
            array: Stored.from_metadata(json.loads(self.files[name]))
            for name, array in metas.items()
            if not array.startswith(GROUP)
        }

    def chunk(self, key: str) -> bytes:
        """A chunk's file; not read if it is now a pipe, a device or of another size. Raises
        InputError for one that is not the cube's."""
        if (data := self.files.get(key)) is not None:
            self.check(key, data)
            return data
        read = attempt(self.place, key, self.sums[key][0])
        if isinstance(read, OSError) and not isinstance(read, FileNotFoundError):
            raise self._foreign(key, f"cannot be read ({read.strerror or read})")
        return self.sound(key, read if isinstance(read, bytes) else None)

    def sound(self, key: str, data: bytes | None) -> bytes:
        """The bytes of a chunk, if they are the cube's. Raises InputError."""
        if data is None:
            raise self._foreign(key, "is missing")
        # Zarr also compares the checksum, but cannot name the file
        if not is_sound(data, *self.sums[key]):
            raise self._foreign(key, "does not match its checksum")
        self.check(key, data)
        return data

    def check(self, key: str, data: bytes) -> None:
        """Refuse a chunk that would expand to the wrong number of values."""
        array, _, rest = key.partition("/")
        if rest.partition("/")[0] == "c" and (wrong := self.arrays[array].wrong(data)):
            raise InputError(f"{f'{self.place}/{key}'!r} is damaged: it {wrong}; do not use it")

    def _foreign(self, key: str, wrong: str) -> InputError:
        file = repr(f"{self.place}/{key}")
        if attempt(self.place, JOURNAL) != self.files[JOURNAL]:
            return ChangedError(f"{file} {wrong}: the cube was overwritten; open it again")
        return InputError(
            f"{file} {wrong}: the cube is damaged; `fleetcube verify CUBE` lists all damage, "
            "`run --resume` of its sweep repairs it"
        )

    def values(self, name: str, places: Sequence[Any]) -> Array:
        """The values of an array at some places of each dimension: one, or a list."""
        stored = self.arrays[name]
        wide = [np.atleast_1d(place) for place in places]
        values = np.empty([place.size for place in wide], stored.dtype)
        numbers = [place // length for place, length in zip(wide, stored.chunk, strict=True)]

        def read(chunk: tuple[int, ...]) -> None:
            data = decode(self.chunk("/".join((name, "c", *map(str, chunk)))), stored)
            indices = [np.flatnonzero(row == k) for row, k in zip(numbers, chunk, strict=True)]
            inside = [
                row[index] % n for row, index, n in zip(wide, indices, stored.chunk, strict=True)
            ]
            values[np.ix_(*indices)] = data[np.ix_(*inside)]

        chunks = list(itertools.product(*(sorted({*row.tolist()}) for row in numbers)))
        list(pool(READERS).map(read, chunks) if len(chunks) > 1 else map(read, chunks))
        return values.reshape([place.size for place in places if np.ndim(place)])


class Unread(Variable):
    """An array of a cube, cut along its dimensions; its chunks are read with its values."""

    def __init__(self, reader: Reader, name: str, places: Mapping[str, Any], attrs: Any) -> None:
        self._reader, self._name, self._places, self.attrs = reader, name, places, attrs
        self.dims = tuple(dim for dim, place in places.items() if np.ndim(place))
        self.shape = tuple(places[dim].size for dim in self.dims)
        self.size, self.dtype = math.prod(self.shape), np.dtype(reader.arrays[name].dtype)

    @cached_property
    def values(self) -> Array:  # type: ignore[override]
        return self._reader.values(self._name, [*self._places.values()])

    def isel(self, places: Mapping[str, Any]) -> "Unread":
        cut = {dim: self._places[dim][place] for dim, place in places.items() if dim in self.dims}
        return Unread(self._reader, self._name, {**self._places, **cut}, self.attrs)


def stored(contents: Contents) -> Result:
    """A complete cube, whose chunks are read where values are asked for. Raises ValueError,
    KeyError or TypeError for what fleetcube never writes."""
    reader, rows = Reader(contents.place, contents.shown), {}
    sizes: dict[str, int] = {}
    for name, array in reader.arrays.items():
        lengths = dict(zip(array.dims, array.shape, strict=True))
        differs = any(sizes.setdefault(dim, n) != n for dim, n in lengths.items())
        if differs or max(array.size, array.items) > MOST:
            raise ValueError(f"{name} has other sizes than fleetcube writes")
        places = {dim: np.arange(n) for dim, n in lengths.items()}
        rows[name] = Unread(reader, name, places, array.attrs)
    attrs = dict(json.loads(reader.files[ROOT])["attributes"])
    plain = {*sizes, *str(attrs.pop("coordinates", "")).split()}
    return Result(rows, [name for name in rows if name in plain], attrs)
