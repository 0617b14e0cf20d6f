"""The empty cube: metadata and coordinates with the bytes that Zarr would write.

Creating its arrays with Zarr, in memory, took longer than computing a small cube."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...kernels.graph.roles import REASON
from ..plan.labels import attributes, dtype_of, origin
from ..plan.plan import Plan
from ..result import called
from ..spec.axis import Array
from . import chunks as stored
from .chunks import KEYS, ZSTD, codecs, encode_labels, fill_value, numbers, small_codecs
from .layout_version import KEY, LAYOUT, consolidated
from .names import GROUP, RECORD, ROOT

_GROUP = {"zarr_format": 3, "node_type": "group"}
_NAN = "AAAAAAAA+H8="  # the fill value of numbers as xarray writes it: a float64 in base64
_FILLS = {"b": False, "i": 0, "f": "NaN", "O": ""}  # of labels, by the kind of their type


def empty_cube(
    plan: Plan,
    spec: Mapping[str, Any],
    dtype: str,
    chunks: Mapping[str, tuple[int, ...]],
    coords: Mapping[str, tuple[Any, Array, Mapping[str, Any]]],
    compressor: stored.Compressor,
) -> dict[str, bytes]:
    """Files by name, always the same bytes. `chunks` are shapes by output, `coords` dimensions,
    labels and attributes by name."""
    arrays, files = {}, {}
    for name, (dims, labels, attrs) in coords.items():
        arrays[name] = _coordinate((dims,) if isinstance(dims, str) else dims, labels, attrs)
        files["/".join((name, "c", *"0" * labels.ndim))] = encode_labels(labels, compressor)
    arrays |= {
        name: _output(plan, name, dtype_of(plan.graph, name, dtype), chunks[name])
        for name in chunks
    }
    if compressor == "zstd":
        for meta in arrays.values():
            meta["codecs"] = [meta["codecs"][0], stored.CHECKED]
    arrays = dict(sorted(arrays.items()))
    attributes = {KEY: LAYOUT, **called(origin(plan, spec, coords))}
    plain = [name for name in coords if name not in plan.sizes]
    plain += [REASON] if REASON in plan.outputs else []
    if plain:
        attributes["coordinates"] = " ".join(plain)
    root = {"attributes": attributes, "consolidated_metadata": consolidated(arrays), **_GROUP}
    record = _array((0,), (1,), np.dtype(np.uint8), 0, [numbers(1), ZSTD], {}, ("byte",))
    metas = {**arrays, GROUP: {"attributes": {}, **_GROUP}, RECORD: record}
    files |= {f"{name}/{ROOT}": json.dumps(meta).encode() for name, meta in metas.items()}
    return dict(sorted({**files, ROOT: json.dumps(root).encode()}.items()))


def _coordinate(dims: Any, labels: Array, attrs: Mapping[str, Any]) -> dict[str, Any]:
    dtype = labels.dtype
    attributes = {**attrs, "_FillValue": _NAN} if dtype.kind == "f" else attrs
    fill = _FILLS[dtype.kind]
    return _array(labels.shape, labels.shape, dtype, fill, small_codecs(dtype), attributes, dims)


def _output(plan: Plan, name: str, dtype: Any, chunk: tuple[int, ...]) -> dict[str, Any]:
    attrs = {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in attributes(plan, name).items()
    }
    dims = plan.user_dims(name)
    fill = "NaN" if dtype.kind == "f" else fill_value(dtype)
    return _array(plan.shape(dims), chunk, dtype, fill, codecs(dtype), attrs, dims)


def _array(
    shape: tuple[int, ...],
    chunk: tuple[int, ...],
    dtype: Any,
    fill: Any,
    codecs: list[Any],
    attrs: Mapping[str, Any],
    dims: tuple[str, ...],
) -> dict[str, Any]:
    return {
        "shape": shape,
        "data_type": "string" if dtype.hasobject else dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": KEYS,
        "fill_value": fill,
        "codecs": codecs,
        "attributes": attrs,
        **({"dimension_names": dims} if dims else {}),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }
