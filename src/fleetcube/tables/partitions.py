"""Write a cube as Parquet in hive folders, of which each has the rows of a few labels."""

import contextlib
import itertools
from collections.abc import Sequence
from os import PathLike, getpid
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fleetcube.grid.errors import InputError, check_texts, imported, nearest

from .tables import label, stream

NAME = "fleetcube.parquet"  # the file of each partition
BY = "partitioned_by"  # in its metadata: axes and their units, which folders do not name


def partition(cube: Any, folder: str | PathLike[str], by: str | Sequence[str]) -> list[Path]:
    """Write the partitions that are not there yet, each complete or absent. Returns their files."""
    parquet, axes = imported("pyarrow.parquet"), check_texts("by", by)
    if wrong := [name for name in axes if name not in cube.indexes]:
        raise InputError(f"by: {wrong[0]!r} is no axis; {nearest(wrong[0], list(cube.indexes))}")
    units = {name: cube[name].attrs.get("units", "1") for name in axes}
    ours = ", ".join(name if unit == "1" else f"{name} [{unit}]" for name, unit in units.items())
    if (theirs := _partitioned_by(folder) or ours) != ours:
        raise InputError(
            f"{str(folder)!r} holds rows by {theirs}, not by {ours}; choose another folder, or "
            "convert the cube (to_units)"
        )
    missing = []
    for places in itertools.product(*(range(cube.sizes[name]) for name in axes)):
        one = cube.isel(dict(zip(axes, places, strict=True)))
        labels = {name: label(one[name].values[()]).removesuffix(".0") for name in axes}
        folders = (f"{name}={quote(text, '')}" for name, text in labels.items())
        path, part = Path(folder, *folders, NAME), one.drop_vars(axes).assign_attrs({BY: ours})
        if not path.exists():
            missing.append((path, part))
        elif not _holds(path, stream(part)):
            raise InputError(
                f"{str(path)!r} holds other rows; choose another folder, or if an axis has grown, "
                "partition by it, too"
            )
    for path, part in missing:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished, rows = path.with_name(f".{NAME}.{getpid()}"), stream(part)
        try:
            with parquet.ParquetWriter(unfinished, rows.schema) as writer:
                for batch in rows:
                    writer.write_batch(batch)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    return [path for path, _ in missing]


def _partitioned_by(folder: str | PathLike[str]) -> str | None:
    """The axes and units of the partitions that are there; None without one that can be read."""
    for path in Path(folder).rglob(NAME):
        with contextlib.suppress(ValueError):  # no Parquet
            metadata = imported("pyarrow.parquet").read_schema(path).metadata
            return str((metadata or {}).get(BY.encode(), b"other units").decode())
    return None


def _holds(path: Path, rows: Any) -> bool:
    """Whether a file has these rows, in these units."""
    try:
        stored = imported("pyarrow.parquet").ParquetFile(path).read()
    except ValueError:  # no Parquet
        return False
    units = (
        {field.name: (field.metadata or {}).get(b"units") for field in schema}
        for schema in (stored.schema, rows.schema)
    )
    return next(units) == next(units) and bool(stored.to_pandas().equals(rows.read_pandas()))
