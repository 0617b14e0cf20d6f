"""The bytes of a chunk, as Zarr itself would write them, in a fraction of its time."""

from typing import Any, Literal

import google_crc32c
import numpy as np

from .axes import Array

COMPRESSOR: Literal["lz4"] = "lz4"
LEVEL = 9


def fill_value(dtype: Any) -> float:
    """What stands where a chunk reaches over the array's end, and where one is missing."""
    return -1 if np.dtype(dtype) == np.int8 else np.nan


def codecs(dtype: Any) -> list[Any]:
    """How chunks are compressed, for Zarr: crc32c comes last, so that it covers every byte."""
    from zarr.codecs import BloscCodec, Crc32cCodec

    typesize = np.dtype(dtype).itemsize
    blosc = BloscCodec(cname=COMPRESSOR, clevel=LEVEL, shuffle="shuffle", typesize=typesize)
    return [blosc, Crc32cCodec()]


def small_codecs() -> list[Any]:
    """How coordinates are compressed, for Zarr; their bytes are checked like those of chunks."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    return [ZstdCodec(level=0), Crc32cCodec()]


def fill(chunk: Array, values: Array) -> Array:
    """Put values into memory of a whole chunk's shape; the fill value stands beyond them."""
    if values.shape != chunk.shape:
        chunk[...] = fill_value(chunk.dtype)
    chunk[tuple(map(slice, values.shape))] = values
    return chunk


def encode(chunk: Array) -> tuple[bytes, int]:
    """The stored bytes of a whole chunk, contiguous in its stored order, and their crc32c.

    The last four bytes hold the crc32c of those before.
    """
    from numcodecs import Blosc

    data = bytes(Blosc(cname=COMPRESSOR, clevel=LEVEL, shuffle=Blosc.SHUFFLE).encode(chunk))
    crc = int(google_crc32c.value(data))
    return data + crc.to_bytes(4, "little"), crc


def is_sound(data: bytes, size: int, crc: int) -> bool:
    """Whether a chunk's bytes are those that `encode` gave.

    The crc32c is of all but the last four: that of all of them is one constant for every chunk.
    """
    held = int(google_crc32c.value(data[:-4]))
    return len(data) == size and held == crc and data[-4:] == crc.to_bytes(4, "little")
