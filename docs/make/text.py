"""Pieces of Markdown: tables, filled paragraphs, the text between two marks of a page."""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: str = "") -> str:
    """A table; `right` has an r for every column that is aligned to the right."""
    rules = ["---:" if mark == "r" else "---" for mark in right.ljust(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rules, *rows])


def filled(paragraph: str) -> str:
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False)


def between(page: Path | str, name: str, text: str) -> str:
    """A page, or its text, with new text between the two marks of a name."""
    begin, end = f"<!-- {name}:begin -->\n", f"\n<!-- {name}:end -->"
    whole = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    head, rest = whole.split(begin)
    return head + begin + text + end + rest.split(end)[1]
