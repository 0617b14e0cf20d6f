"""The ledger of published records: kind, label@edition and digest of the values, one a line.

What has a line is published and never changes: cubes name it. Lines are only ever added.
"""

from collections.abc import Mapping
from pathlib import Path

from .records import KINDS, Record, editions

LEDGER = Path(__file__).with_name("data") / "editions.txt"


def published(path: Path = LEDGER) -> dict[str, str]:
    """Digests of the ledger by "kind label@edition"."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return dict(line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))


def existing() -> dict[str, Record]:
    """Every record of the catalog by "kind label@edition"."""
    return {f"{kind} {name}": entry for kind in KINDS for name, entry in editions(kind).items()}


def complaints(lines: Mapping[str, str], records: Mapping[str, Record]) -> list[str]:
    """What was published and is not the same any more, with what to do about it."""
    found = []
    for name, digest in lines.items():
        if name not in records:
            found.append(f"{name} is published and gone; put the record back")
        elif records[name].digest != digest:
            entry = records[name]
            found.append(
                f"{name} is published and its values changed; keep the old ones as "
                f'["{entry.name}"] and write the new ones as [{entry.label}] with '
                f"edition = {entry.edition + 1}"
            )
    return found


def unpublished(lines: Mapping[str, str], records: Mapping[str, Record]) -> list[str]:
    """Lines that the ledger lacks."""
    return [f"{name} {entry.digest}" for name, entry in records.items() if name not in lines]


def publish(path: Path = LEDGER) -> list[str]:
    """Add a line for every new record and return what was added; nothing else is touched."""
    new = unpublished(published(path), existing())
    with path.open("a", encoding="utf-8") as ledger:
        ledger.writelines(f"{line}\n" for line in new)
    return new
