"""The bytes of a chunk as Zarr itself would write them, in a fraction of the time."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import google_crc32c
import numpy as np

from ..errors import InputError, shown
from ..spec.axis import Array

Compressor = Literal["lz4", "zstd"]
COMPRESSOR: Literal["lz4"] = "lz4"
LEVEL = 9  # versus 5: 2 to 3 % fewer bytes at the same speed; zstd is slower for the same size
MOST = 1 << 27  # bytes of values in a chunk or in the labels of an axis
LARGEST = MOST + 1024  # bytes of a chunk's file: incompressible data is stored as is
MOST_TEXT = 1 << 24  # bytes of an axis' text labels
ZSTD = {"name": "zstd", "configuration": {"level": 0, "checksum": False}}
CHECKED = {"name": "zstd", "configuration": {"level": 0, "checksum": True}}  # by itself
_CRC32C = {"name": "crc32c"}


def check_compressor(name: Any) -> Compressor:
    if name not in get_args(Compressor):
        raise InputError(f"compressor = {shown(name)} is unknown; choose lz4 or zstd")
    return cast(Compressor, name)


def fill_value(dtype: Any) -> float:
    """The value of a missing chunk, and in a chunk beyond the array's end."""
    return -1 if np.dtype(dtype) == np.int8 else np.nan


def codecs(dtype: Any) -> list[Any]:
    """Zarr codecs of chunks: crc32c comes last, so that it covers every byte."""
    size = np.dtype(dtype).itemsize
    blosc = {"typesize": size, "cname": COMPRESSOR, "clevel": LEVEL, "shuffle": "shuffle"}
    blosc["blocksize"] = 0
    return [numbers(size), {"name": "blosc", "configuration": blosc}, _CRC32C]


def small_codecs(dtype: Any) -> list[Any]:
    """Zarr codecs of coordinates, whose bytes are checked like those of chunks."""
    texts = {"name": "vlen-utf8", "configuration": {}}
    first = texts if np.dtype(dtype).hasobject else numbers(np.dtype(dtype).itemsize)
    return [first, ZSTD, _CRC32C]


def numbers(size: int) -> dict[str, Any]:
    """Zarr codec of numbers of so many bytes."""
    return {"name": "bytes", **({"configuration": {"endian": "little"}} if size > 1 else {})}


def fill(chunk: Array, values: Array) -> Array:
    """Copy values into memory of a whole chunk's shape, padded with the fill value."""
    if values.shape != chunk.shape:
        chunk[...] = fill_value(chunk.dtype)
    chunk[tuple(map(slice, values.shape))] = values
    return chunk


def encode(chunk: Array, compressor: Compressor) -> tuple[bytes, int]:
    """The stored bytes of a whole chunk, contiguous in its stored order, and their crc32c. With lz4
    the last four bytes are the crc32c of the preceding ones; zstd has a checksum of its own."""
    from numcodecs import Blosc, Zstd, blosc

    if compressor == "zstd":
        data = bytes(Zstd(level=0, checksum=True).encode(chunk))
        return data, int(google_crc32c.value(data))
    # As Zarr sets it: in the main thread Blosc has threads of its own, which store blocks in the
    # order in which they end, so that the same values have other bytes each time
    blosc.use_threads = False
    return _closed(Blosc(cname=COMPRESSOR, clevel=LEVEL, shuffle=Blosc.SHUFFLE).encode(chunk))


def encode_labels(labels: Array, compressor: Compressor) -> bytes:
    """The stored bytes of a coordinate; texts are objects."""
    from numcodecs import VLenUTF8, Zstd

    data = VLenUTF8().encode(labels) if labels.dtype.hasobject else labels.tobytes()
    frame = Zstd(level=0, checksum=compressor == "zstd").encode(data)
    return bytes(frame) if compressor == "zstd" else _closed(frame)[0]


def _closed(data: Any) -> tuple[bytes, int]:
    crc = int(google_crc32c.value(bytes(data)))
    return bytes(data) + crc.to_bytes(4, "little"), crc


def checksum(data: bytes) -> tuple[int, bool]:
    """The crc32c that `encode` returns for a chunk of these bytes, and whether it closes them."""
    # Including its crc32c, every chunk has the same checksum: compute it without the last bytes
    crc = int(google_crc32c.value(data[:-4]))
    closed = len(data) > 4 and data[-4:] == crc.to_bytes(4, "little")
    return crc if closed else int(google_crc32c.value(data)), closed


def is_sound(data: bytes, size: int, crc: int) -> bool:
    """Whether a chunk's bytes are those returned by `encode`."""
    return len(data) == size and checksum(data)[0] == crc


def is_whole(data: bytes) -> bool:
    """Whether these are the bytes of a chunk, whoever wrote it: closed by a crc32c, or a frame of
    Zstandard with a checksum."""
    if checksum(data)[1] or not 0 <= _zstd(data[:18]) <= MOST or not data[4] & 4:
        return checksum(data)[1]
    from numcodecs import Zstd

    with contextlib.suppress(RuntimeError):
        Zstd().decode(data)
        return True
    return False


def decode(data: bytes, stored: "Stored") -> Array:
    """The values of a whole chunk, from bytes that are sound and not `wrong`."""
    from numcodecs import Blosc, VLenUTF8, Zstd

    codec = Blosc() if stored.compressor == "blosc" else Zstd()
    values = codec.decode(data[:-4] if stored.closed else data)
    values = VLenUTF8().decode(values) if stored.texts else np.frombuffer(values, stored.dtype)
    return values.reshape(stored.chunk)


KEYS = {"name": "default", "configuration": {"separator": "/"}}  # names of chunk files


@dataclass(frozen=True)
class Stored:
    """An array's metadata about its chunks."""

    shape: tuple[int, ...]
    chunk: tuple[int, ...]  # the shape of one
    dtype: Any
    dims: tuple[str, ...]
    attrs: Mapping[str, Any]
    counts: tuple[int, ...]  # number of chunks along each dimension
    size: int  # bytes of one, expanded; for texts the maximum
    items: int  # values in one
    texts: bool
    compressor: str
    closed: bool  # whether it ends in a crc32c

    @classmethod
    def from_metadata(cls, meta: Any) -> "Stored":
        """Read metadata. Raises ValueError, KeyError or TypeError for any that are not ours."""
        shape, chunk = meta["shape"], meta["chunk_grid"]["configuration"]["chunk_shape"]
        counts = tuple(-(-s // c) for s, c in zip(shape, chunk, strict=True))
        names = [codec["name"] for codec in meta["codecs"]]
        texts = names[0] == "vlen-utf8"
        allowed = (("bytes", "vlen-utf8"), ("blosc", "zstd"), ("crc32c",))
        few = len(names) in (2, 3)  # coordinates originally had no crc32c
        if not few or not all(map(tuple.__contains__, allowed, names)):
            raise ValueError(f"the codecs {', '.join(names)} are not those that fleetcube writes")
        if meta["chunk_key_encoding"] != KEYS or meta.get("storage_transformers"):
            raise ValueError("its chunks have names that fleetcube does not give")
        items = math.prod(chunk)
        dtype = np.dtype(object if texts else meta["data_type"])
        if meta["codecs"][0].get("configuration", {}).get("endian") == "big":
            dtype = dtype.newbyteorder(">")
        if meta["node_type"] != "array" or not (texts or dtype.kind in "iufb"):
            raise ValueError("it is no array of numbers or texts")
        _ = texts or dtype.type(float(meta["fill_value"]))  # another is refused
        size = MOST_TEXT if texts else items * dtype.itemsize
        dims, closed = tuple(meta.get("dimension_names") or ()), len(names) > 2
        attrs = {
            key: value for key, value in meta.get("attributes", {}).items() if key != "_FillValue"
        }
        array = tuple(shape), tuple(chunk), dtype, dims, attrs
        return cls(*array, counts, size, items, texts, names[1], closed)

    def wrong(self, data: Any) -> str:
        """Why a chunk must not be expanded, else empty: few bytes can claim to be gigabytes."""
        if self.size > MOST:
            return f"expands to {self.size:,} bytes; at most {MOST:,} are read"
        head = bytes(data[:18])
        size = int.from_bytes(head[4:8], "little") if self.compressor == "blosc" else _zstd(head)
        if size > self.size or not (self.texts or size == self.size):
            return f"expands to {size:,} bytes, not {self.size:,}"
        if not self.texts:
            return ""
        from numcodecs import Zstd

        items = int.from_bytes(Zstd().decode(data[: len(data) - 4 * self.closed])[:4], "little")
        return f"holds {items:,} texts, not {self.items:,}" if items != self.items else ""


def _zstd(head: bytes) -> int:
    """Expanded size stated by a Zstandard frame (RFC 8878, 3.1.1.1); -1 if none."""
    flags = head[4] if len(head) > 4 else 0
    single, width = flags >> 5 & 1, (0, 2, 4, 8)[flags >> 6] or flags >> 5 & 1
    start = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
    if head[:4] != b"\x28\xb5\x2f\xfd" or not width:
        return -1
    return int.from_bytes(head[start : start + width], "little") + (256 if width == 2 else 0)
