"""The ledger of published records: kind, label@edition and digest of the values, one per line.

A record with a line is published and never changes, since cubes name it. Lines are only added.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from .entry import KINDS, CatalogError, Record
from .records import file_of, read

LEDGER = Path(__file__).with_name("data") / "editions.txt"
_LINE = re.compile(r"([a-z]+ [a-z0-9-]+@[1-9][0-9]*) ([0-9a-f]{64})")


def published(path: Path = LEDGER) -> dict[str, str]:
    """Digests of the ledger by "kind label@edition". Raises CatalogError for a damaged one."""
    digests: dict[str, str] = {}
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
    except UnicodeDecodeError:
        raise CatalogError(f"{path.name} is not UTF-8 text; restore it") from None
    if text and not text.endswith("\n"):
        raise CatalogError(f"{path.name} ends within a line; restore it")
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or match.group(1) in digests:
            rule = "is published twice" if match else "is not kind label@edition digest"
            raise CatalogError(f"{path.name}, line {number}: {line[:80]!r} {rule}; restore it")
        digests[match.group(1)] = match.group(2)
    return digests


def existing() -> dict[str, Record]:
    """Every record of the catalog by "kind label@edition", each file checked as a whole."""
    files = {kind: read(kind, file_of(kind).read_text(encoding="utf-8")) for kind in KINDS}
    return {f"{kind} {name}": entry for kind in KINDS for name, entry in files[kind].items()}


def complaints(lines: Mapping[str, str], records: Mapping[str, Record]) -> list[str]:
    """Published records that changed or are missing, and what to do about each."""
    problems = []
    for name, digest in lines.items():
        if name not in records:
            problems.append(f"{name} is published and gone; put the record back")
        elif records[name].digest != digest:
            entry = records[name]
            problems.append(
                f"{name} is published and its values changed; keep the old ones as "
                f'["{entry.name}"] and write the new ones as [{entry.label}] with '
                f"edition = {entry.edition + 1}"
            )
    return problems


def unpublished(lines: Mapping[str, str], records: Mapping[str, Record]) -> list[str]:
    """Lines missing from the ledger."""
    return [f"{name} {entry.digest}" for name, entry in records.items() if name not in lines]


def publish(path: Path = LEDGER) -> list[str]:
    """Add a line for every new record, and return these lines; nothing else is changed."""
    new = unpublished(published(path), existing())
    with path.open("a", encoding="utf-8") as ledger:
        ledger.writelines(f"{line}\n" for line in new)
    return new
