"""The glossary as a page of Markdown: docs/glossary.md."""

from fleetcube.catalog.glossary import Word, glossary

from .text import DOCS, filled

PAGE = DOCS / "glossary.md"
INTRODUCTION = (
    "Terms of other tools, papers and contracts, and the names here that they lead to. `fleetcube "
    "explain WORD` reads the same entries (`catalog/data/glossary.toml`), `fleetcube explain NAME` "
    "the formula of a name; [quantities](reference/quantities.md) and "
    "[inputs](reference/inputs.md) list all names. `python -m docs.make` writes this page."
)


def page() -> str:
    entries = sorted(glossary(), key=lambda entry: entry.words[0].lower())
    return "\n\n".join(["# Glossary", filled(INTRODUCTION), *map(_paragraph, entries)]) + "\n"


def _paragraph(entry: Word) -> str:
    first, *others = entry.words
    also = f" ({', '.join(others)})" if others else ""
    names = ", ".join(f"`{name}`" for name in entry.names)
    source = f" Source: {entry.source}." if entry.source else ""
    return filled(f"**{first}**{also}: {entry.means} See {names}.{source}")
