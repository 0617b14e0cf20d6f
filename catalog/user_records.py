"""Records of a user's own: TOML files of tables [KIND.LABEL], named by a scenario or a package.

They are data: no package is imported for them, and files are read within limits.
"""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .entry import KINDS, CatalogError, Record, labelled
from .files import parse_toml, read_some
from .spelling import hint, near

GROUP = "fleetcube.records"  # entry points: NAME = "PACKAGE:FILE.toml"
LARGEST_FILE = 1 << 20  # bytes of a record file
_POINT = re.compile(r"([A-Za-z]\w*):(\w+(?:\.\w+)*\.toml)")  # in the package's own folder


class FileLabel(str):
    """The label or path of a record in a file, carrying the record as it was read."""

    record: Record

    @classmethod
    def from_record(cls, label: str, entry: Record) -> "FileLabel":
        file_label = cls(label)
        file_label.record = entry
        return file_label


class CatalogFile(str):
    """The path of a file of records, carrying them as they were read, by kind and label."""

    records: dict[tuple[str, str], Record]
    replacing: set[tuple[str, str]]  # those that say that they replace one of the catalog

    def __dask_tokenize__(self) -> Any:
        return str(self), sorted((*key, entry.digest) for key, entry in self.records.items())


def opened(path: str, package: str = "") -> CatalogFile:
    """A file of records, maybe of a package; one that was opened already is not read again. Raises
    CatalogError."""
    if isinstance(path, CatalogFile):
        return path
    catalog_file = CatalogFile(package or path)
    catalog_file.records, catalog_file.replacing = {}, set()
    where = f"catalog {str(catalog_file)!r}"
    for kind, tables in toml_of(where, text_of(where, path)).items():
        if kind not in KINDS or not isinstance(tables, dict):
            likely = [] if kind in KINDS else near(kind, KINDS)
            advice = hint(likely, f"write [KIND.LABEL], of {', '.join(KINDS)}")
            raise CatalogError(f"{where}: [{kind}] is no kind with records; {advice}")
        for label, table in tables.items():
            if "@" in label:
                raise CatalogError(f"{where}: {kind} {label!r} is an edition; leave out @")
            if not package and isinstance(table, dict) and table.get("replaces") is True:
                catalog_file.replacing.add((kind, label))
                table = {key: value for key, value in table.items() if key != "replaces"}
            catalog_file.records[kind, label] = labelled(
                kind, label, table, f"{where}: ", str(catalog_file)
            )
    return catalog_file


def packaged() -> Iterator[CatalogFile]:
    """Files of installed packages, each in the package's own folder; it is not imported."""
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP):
        match = _POINT.fullmatch(point.value)
        spec = find_spec(match[1]) if match else None  # imports nothing: it has no parent
        inside = [
            path
            for folder in (spec and spec.submodule_search_locations) or ()
            if match
            and (path := Path(folder, match[2]).resolve()).is_file()
            and path.parent == Path(folder).resolve()
        ]
        origin = f"package {point.dist.name if point.dist else point.name}"
        if not inside:
            rule = "is no PACKAGE:FILE.toml in its folder; mend its entry point"
            raise CatalogError(f"the records of {origin}: {point.value!r} {rule}")
        yield opened(str(inside[0]), origin)


def text_of(where: str, path: str) -> str:
    """The text of a file of records. Raises CatalogError, in which `where` names it."""
    try:
        data = read_some(path, LARGEST_FILE)
        # a larger file may be cut within a character, which is no valid UTF-8
        text = data.decode("utf-8-sig") if len(data) <= LARGEST_FILE else ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise CatalogError(f"{where} cannot be read: {reason}; name another file") from None
    if len(data) > LARGEST_FILE:
        raise CatalogError(f"{where} has more than {LARGEST_FILE:,} bytes; name another file")
    return text


def toml_of(where: str, text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        raise CatalogError(f"{where} is not TOML: {error}; fix that line") from None
