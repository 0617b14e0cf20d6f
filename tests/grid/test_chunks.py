"""Chunks, coordinates and metadata are what Zarr itself would write."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import xarray
import zarr
from numcodecs import blosc
from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

from fleetcube import Sweep
from fleetcube.grid.plan.workspace import Workspace
from fleetcube.grid.store.chunks import Compressor, encode, fill, fill_value, is_sound

from ..draws import generator


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (100, 33), (5, 6, 7)])
@pytest.mark.parametrize("compressor", ["lz4", "zstd"])
def test_zarr_writes_the_same_bytes(
    tmp_path: Path, dtype: str, shape: tuple[int, ...], compressor: Compressor
) -> None:
    """Whole chunks and those that extend beyond the end, which Zarr fills."""
    steps = tuple(max(1, size * 2 // 3) for size in shape)
    values = np.random.default_rng(0).geometric(0.05, shape).astype(dtype)
    made = dict(shape=shape, chunks=steps, dtype=dtype, fill_value=fill_value(dtype))
    size = np.dtype(dtype).itemsize
    blosc = BloscCodec(cname="lz4", clevel=9, shuffle="shuffle", typesize=size)
    checked = [ZstdCodec(level=0, checksum=True)]
    made |= dict(compressors=[blosc, Crc32cCodec()] if compressor == "lz4" else checked)
    made |= dict(config={"write_empty_chunks": True})
    array: Any = zarr.create_array(tmp_path, name="v", **made)
    array[...] = values
    found = 0
    for index in np.ndindex(*(-(-n // step) for n, step in zip(shape, steps, strict=True))):
        cut = tuple(slice(k * s, (k + 1) * s) for k, s in zip(index, steps, strict=True))
        chunk = np.full(steps, 99, dtype)  # left by another chunk in reused memory
        data, crc = encode(fill(chunk, values[cut]), compressor)
        assert data == (tmp_path / "v" / "c" / "/".join(map(str, index))).read_bytes()
        assert crc == google_crc32c.value(data[:-4] if compressor == "lz4" else data)
        assert is_sound(data, len(data), crc)
        for place in {0, len(data) // 2, len(data) - 5, len(data) - 1}:
            harmed = bytearray(data)
            harmed[place] ^= 1
            assert not is_sound(bytes(harmed), len(data), crc)
        found += 1
    assert found == sum(file.is_file() for file in (tmp_path / "v" / "c").rglob("*")) or not shape


SCENARIO = {"model": "llama-3-8b", "node": "dgx-h100", "n_gpus": 64, "tensor_parallel": 8}
OUTPUTS = ["step_time", "cluster_mtbf", "dominant_overhead"]
KINDS: dict[str, Any] = {
    "gpu_mttf": {"linspace": ["10_000 h", "100_000 h"], "num": 1000},
    "global_batch_size": [1024, 2048],
    "sequence_parallel": [False, True],
    "layout": {"labels": ["pp1", "vpp5"], "pipeline_parallel": [1, 8], "virtual_stages": [1, 5]},
}


@pytest.mark.parametrize("axes", [KINDS, {}])
@pytest.mark.parametrize("compressor", ["lz4", "zstd"])
def test_zarr_and_xarray_write_the_same_empty_cube(
    tmp_path: Path, axes: Any, compressor: Compressor
) -> None:
    sweep = Sweep(SCENARIO, axes, OUTPUTS)
    cube = Path(sweep.to_zarr(tmp_path / "a.zarr", dtype="float32", compressor=compressor))
    coords = sweep.evaluate().drop_vars(["infeasible_reason", *OUTPUTS]).coords
    texts = {
        name: (coord.dims, coord.values.astype(object), coord.attrs)
        for name, coord in coords.items()
        if coord.dtype.kind == "U"
    }
    checked = [ZstdCodec(level=0, checksum=True)]
    used = [ZstdCodec(level=0), Crc32cCodec()] if compressor == "lz4" else checked
    codecs = {name: {"compressors": used} for name in coords}
    xarray.Dataset(coords={**coords, **texts}).to_zarr(
        tmp_path / "b.zarr",
        zarr_format=3,
        consolidated=False,
        encoding=codecs,
        write_empty_chunks=True,
    )
    for name in coords:
        own, theirs = (tmp_path / folder / str(name) for folder in ("a.zarr", "b.zarr"))
        assert (own / "c" / "0").read_bytes() == (theirs / "c" / "0").read_bytes()
        found, expected = (json.loads((at / "zarr.json").read_bytes()) for at in (own, theirs))
        found["attributes"].pop("labels", None)
        assert found == expected
    for meta in cube.rglob("zarr.json"):
        before = json.loads(meta.read_bytes())
        if before["node_type"] == "array":
            zarr.open_array(meta.parent, mode="r+").update_attributes({})  # which writes it anew
            assert json.loads(meta.read_bytes()) == before


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


def test_the_same_values_have_the_same_bytes_in_every_thread() -> None:
    """Blosc's own threads store blocks as they end: 1,048,576 numbers, a cumulative sum, had five
    sets of bytes in sixty tries."""
    values = np.cumsum(generator(5).random(1 << 20))
    blosc.use_threads = None  # as it is in a process that has not imported Zarr
    here = {encode(values, "lz4") for _ in range(30)}
    with ThreadPoolExecutor(2) as pool:
        elsewhere = {*pool.map(lambda _: encode(values, "lz4"), range(4))}
    assert len(here) == 1
    assert elsewhere == here
