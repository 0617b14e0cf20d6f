"""Records of a user's own: TOML files of tables [KIND.LABEL], named by a scenario or a package.

They are data: no package is imported for them, and files are read within limits.
"""

import functools
import re
from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .entry import KINDS, CatalogError, Record, labelled
from .files import parse_toml, read_some
from .spelling import hint, near

GROUP = "fleetcube.records"  # entry points: NAME = "PACKAGE:FILE.toml"
LARGEST_FILE = 1 << 20  # bytes of a record file
_FILE = re.compile(r"\w+(\.\w+)*\.toml")  # in the package's own folder


class FileLabel(str):
    """The label or path of a record in a file, carrying the record as it was read."""

    record: Record

    @classmethod
    def of(cls, label: str, entry: Record) -> "FileLabel":
        made = cls(label)
        made.record = entry
        return made


class CatalogFile(str):
    """The path of a file of records, carrying them as they were read, by kind and label."""

    records: Mapping[tuple[str, str], Record]
    replacing: frozenset[tuple[str, str]]  # those that say that they replace one of the catalog

    def __dask_tokenize__(self) -> Any:
        return str(self), sorted((*key, entry.digest) for key, entry in self.records.items())


def opened(path: str) -> CatalogFile:
    """A file of records; one that was opened already is not read again. Raises CatalogError."""
    if isinstance(path, CatalogFile):
        return path
    where = f"catalog {path!r}"
    tables = _tables(where, text_of(where, path))
    made = CatalogFile(path)
    made.records, found = {}, set()
    for kind, label, table in tables:
        if isinstance(table, dict) and table.get("replaces") is True:
            found.add((kind, label))
            table = {key: value for key, value in table.items() if key != "replaces"}
        made.records[kind, label] = _record(where, path, kind, label, table)
    made.replacing = frozenset(found)
    return made


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


def _tables(where: str, text: str) -> list[tuple[str, str, Any]]:
    found = []
    for kind, tables in toml_of(where, text).items():
        if kind not in KINDS or not isinstance(tables, dict):
            advice = hint(near(kind, KINDS), f"write [KIND.LABEL], of {', '.join(KINDS)}")
            raise CatalogError(f"{where}: [{kind}] is no kind with records; {advice}")
        found += [(kind, label, table) for label, table in tables.items()]
    return found


def _record(where: str, origin: str, kind: str, label: str, table: Any) -> Record:
    if "@" in label:
        raise CatalogError(f"{where}: {kind} {label!r} is an edition; name the label alone")
    return labelled(kind, label, table, f"{where}: ", origin)


def installed(kind: str) -> dict[str, Record]:
    """Records of a kind in installed packages, by label. Raises CatalogError for a bad one."""
    return {label: entry for (own, label), entry in _installed().items() if own == kind}


@functools.cache
def _installed() -> dict[tuple[str, str], Record]:
    found: dict[tuple[str, str], Record] = {}
    for point in entry_points(group=GROUP):
        origin = point.dist.name if point.dist else point.name
        where = f"the records {point.value!r} of the package {origin}"
        for kind, label, table in _tables(where, text_of(where, _path(where, point.value))):
            entry = _record(where, origin, kind, label, table)
            first = found.setdefault((kind, label), entry)
            if first is not entry:
                both = f"the packages {first.origin} and {origin}"
                raise CatalogError(f"{kind} {label!r} is of {both}; uninstall one")
    return found


def _path(where: str, value: str) -> str:
    """The file of an entry point, in the folder of its package, which is not imported."""
    package, _, name = value.partition(":")
    if not package.isidentifier() or not _FILE.fullmatch(name):
        raise CatalogError(f"{where} are not PACKAGE:FILE.toml; mend its entry point")
    spec = find_spec(package)  # imports nothing: it has no parent
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        path = (folder / name).resolve()
        if path.is_file() and path.is_relative_to(folder.resolve()):
            return str(path)
    raise CatalogError(f"{where} are no file in its folder; mend its entry point")
