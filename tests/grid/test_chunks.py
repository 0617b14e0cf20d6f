"""Chunks have the bytes that Zarr itself would write."""

from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import zarr

from fleetcube.grid.plan.workspace import Workspace
from fleetcube.grid.store.chunks import codecs, encode, fill, fill_value


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (100, 33), (5, 6, 7)])
def test_zarr_writes_the_same_bytes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    """Whole chunks and those that extend beyond the end, which Zarr fills."""
    steps = tuple(max(1, size * 2 // 3) for size in shape)
    values = np.random.default_rng(0).geometric(0.05, shape).astype(dtype)
    made = dict(shape=shape, chunks=steps, dtype=dtype, fill_value=fill_value(dtype))
    made |= dict(compressors=codecs(dtype), config={"write_empty_chunks": True})
    array: Any = zarr.create_array(tmp_path, name="v", **made)
    array[...] = values
    found = 0
    for index in np.ndindex(*(-(-n // step) for n, step in zip(shape, steps, strict=True))):
        cut = tuple(slice(k * s, (k + 1) * s) for k, s in zip(index, steps, strict=True))
        chunk = np.full(steps, 99, dtype)  # left by another chunk in reused memory
        data, crc = encode(fill(chunk, values[cut]))
        assert data == (tmp_path / "v" / "c" / "/".join(map(str, index))).read_bytes()
        assert crc == google_crc32c.value(data[:-4])
        found += 1
    assert found == sum(file.is_file() for file in (tmp_path / "v" / "c").rglob("*")) or not shape


def test_a_workspace_hands_out_the_same_memory_again() -> None:
    workspace = Workspace()
    first = workspace.arrays((4, 5), ["float64", "int8"])
    assert [array.shape for array in first] == [(4, 5)] * 2
    assert [str(array.dtype) for array in first] == ["float64", "int8"]
    assert not np.shares_memory(*first)
    again = workspace.arrays((3,), ["float32", "float64", "int8"])
    assert np.shares_memory(first[0], again[0])
    assert not any(np.shares_memory(again[i], again[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert not np.shares_memory(first[0], workspace.arrays((100,), ["float64"])[0])
