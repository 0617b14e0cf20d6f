"""What others put into a cube: files, and attributes of its group and arrays; no run removes it."""

import contextlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .layout_version import KEY, consolidated
from .names import GROUP, GUESTS, JOURNAL, LOCK, PARTS, PLAN, RECORD, ROOT, SEAL, digest
from .places.durable import TEMPORARY

CHUNK = re.compile(r"([^/]+)/c(/\d+)*")
_TEMPORARY = re.compile(rf"(.*[./])?\d+\.\d+{re.escape(TEMPORARY)}", re.DOTALL)
_OURS = {ROOT, f"{GROUP}/{ROOT}", f"{RECORD}/{ROOT}", PLAN, JOURNAL, SEAL, LOCK, GUESTS}
_FIELDS = ["shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"]
_FIELDS += ["attributes", "consolidated_metadata", "dimension_names", "zarr_format", "node_type"]
_FIELDS += ["storage_transformers"]  # of metadata, in the order of their bytes
_NAMES = {"Conventions", "coordinates", "units", "long_name", "references", "flag_values"}
_NAMES |= {"flag_meanings", "_FillValue", "convention", "labels"}  # of our attributes
_DECODED = {"scale_factor", "add_offset", "missing_value", "dtype", "calendar"}  # by xarray
Attributes = dict[str, dict[str, Any]]  # by file


def ours(names: Iterable[str], arrays: Collection[str], whole: bool = False) -> set[str]:
    """Files with names that fleetcube gives in a cube of these arrays; where it is not `whole`, a
    killed run may have left chunks of others."""

    def gives(name: str) -> bool:
        if chunk := CHUNK.fullmatch(name):
            return not whole or chunk[1] in arrays
        array, _, last = name.partition("/")
        written = name in _OURS or _TEMPORARY.fullmatch(name) or (last == ROOT and array in arrays)
        return bool(written) or name.startswith((PARTS, f"{LOCK}-"))

    return {*filter(gives, names)}


def separated(
    files: Mapping[str, bytes | OSError], sealed: Mapping[str, tuple[int, str]]
) -> tuple[dict[str, bytes | OSError], Attributes]:
    """Files, metadata without what others added where the rest is as sealed; and what they added,
    whatever program wrote the metadata again."""
    pure, added = {**files}, Attributes()
    for name in sorted(sealed, key=ROOT.__eq__):  # the root, which repeats the arrays, last
        data, (size, sha256) = files[name], sealed[name]
        if not name.endswith(ROOT) or isinstance(data, OSError) or len(data) == size:
            continue  # as sealed, or a changed byte, whatever it means
        try:
            meta = json.loads(data)
            attributes = meta["attributes"]
            own_keys = [key for key in attributes if _is_reserved(key)]
            with contextlib.suppress(ValueError, TypeError, LookupError, AttributeError):
                if name == ROOT and KEY in attributes:
                    repeated = _repeated(meta.get("consolidated_metadata"), pure)
                    meta["consolidated_metadata"] = repeated
                prefixes = ([*attributes][:n] for n in range(min(len(attributes), 64) + 1))
                for keys in (own_keys, *prefixes):
                    if digest(again := _bytes(meta, keys)) == sha256:
                        pure[name], own_keys = again, keys
                        break
            if others := {key: attributes[key] for key in attributes if key not in own_keys}:
                added[name] = others
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            continue  # it is damaged
    return pure, added


def _bytes(meta: Mapping[str, Any], keys: Iterable[str]) -> bytes:
    fields = {**meta, "attributes": {key: meta["attributes"][key] for key in keys}}
    return json.dumps({key: fields[key] for key in _FIELDS if key in fields}).encode()


def _repeated(metadata: Any, pure: Mapping[str, Any]) -> Any:
    """A root's consolidated metadata without what others added; those of `pure` if it has none."""
    names = sorted(name.removesuffix(f"/{ROOT}") for name in pure if name.endswith(f"/{ROOT}"))
    arrays = {n: json.loads(pure[f"{n}/{ROOT}"]) for n in names if not n.startswith(GROUP)}
    entries = arrays if metadata is None else metadata["metadata"]
    attributes = {name: meta["attributes"] for name, meta in arrays.items() if name in entries}
    return consolidated({n: json.loads(_bytes(entries[n], attributes[n])) for n in attributes})


def _is_reserved(attribute: str) -> bool:
    return attribute in _NAMES or attribute.startswith("fleetcube_")


def with_added(files: dict[str, bytes], added: Attributes, shown: bool = False) -> dict[str, bytes]:
    """Files whose metadata have what others added; if `shown`, only what changes no number."""
    metas = {name: json.loads(files[name]) for name in {*added, ROOT} if added and name in files}
    for name, meta in metas.items():
        attributes = added.get(name, {}).items()
        more = {key: value for key, value in attributes if not shown or _shows(key, value)}
        meta["attributes"] = {**meta["attributes"], **{**more, **meta["attributes"]}}
    for array, meta in (
        (metas.get(ROOT, {}).get("consolidated_metadata") or {}).get("metadata", {}).items()
    ):
        meta["attributes"] = metas.get(f"{array}/{ROOT}", meta)["attributes"]
    return {**files, **{name: json.dumps(meta).encode() for name, meta in metas.items()}}


def _shows(key: str, value: Any) -> bool:
    plain = isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 1 << 63)
    return (
        plain
        and key.isidentifier()
        and key[0] != "_"
        and not (key in _DECODED or _is_reserved(key))
    )


def listed(names: Iterable[str], arrays: Collection[str], added: Attributes) -> list[str]:
    """What others put into a cube, in words; a folder of theirs once."""
    parts = ((name, *name.partition("/")) for name in names)
    words = {
        name if top in {*arrays, GROUP} or not rest else f"{top}/" for name, top, _, rest in parts
    }
    for name, attributes in added.items():
        place = f" of {array}" if (array := name.removesuffix(ROOT).rstrip("/")) else ""
        words |= {f"the attribute {key!r}{place}" for key in attributes}
    return sorted(words)
