"""Links of pages lead to files and headings that are there. What lies outside is not fetched, but
has the form of an address; ours is a comment that `.ci/addresses` fills in."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"  # not committed; Sphinx checks what leads there
FOLDERS = (ROOT.glob("*.md"), *((ROOT / name).rglob("*.md") for name in (".github", "docs")))
PAGES = sorted(page for found in FOLDERS for page in found if REFERENCE not in page.parents)
SOURCES = (*(ROOT / "catalog" / "data").glob("*.toml"), ROOT / "kernels" / "references.bib")
FENCES = re.compile(r"^ *(`{3,}).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
SPAN = re.compile(r"(`+)(?!`).+?\1", re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,3} +(.*?) *$", re.MULTILINE)  # as deep as the site has anchors
LABEL = re.compile(r"^\(([\w-]+)\)=$", re.MULTILINE)
ADDRESS = re.compile(r"https?://[^\s<>\"'`{}|\\]*[^\s<>\"'`{}|\\.,;:)*]")
DOMAIN = re.compile(r"(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]{2,}")
ANYBODYS = ("localhost", "SCHEDULER", "HOST")  # in commands


def anchors(text: str) -> set[str]:
    """Of headings, as the host of a repository and myst-parser make them, and labels."""
    prose = FENCES.sub("", text)
    found = set(LABEL.findall(prose))
    for heading in HEADING.findall(prose):
        words = re.sub(r"\]\([^)]*\)|[^\w\- ]", "", heading).lower().replace(" ", "-")
        again = (f"{words}-{number}" for number in range(1, 99))
        found.add(next(each for each in (words, *again) if each not in found))
    return found


def broken(page: Path, text: str) -> Iterator[str]:
    """Links to what is not there, or not in the repository."""
    for link in LINK.findall(SPAN.sub("", COMMENT.sub("", FENCES.sub("", text)))):
        name, _, anchor = link.partition("#")
        place = (page.parent / name).resolve() if name else page
        made = REFERENCE in place.parents
        if urlsplit(link).scheme or (made and page.parent != ROOT):
            continue
        there = not name or (place.exists() and place.is_relative_to(ROOT) and not made)
        if not there or (
            anchor and anchor not in anchors(place.read_text("utf-8") if name else text)
        ):
            yield link


def malformed(text: str) -> Iterator[str]:
    """Addresses that are not of a public host, or not encrypted."""
    for address in ADDRESS.findall(text):
        parts = urlsplit(address)
        public = parts.scheme == "https" and DOMAIN.fullmatch(parts.netloc)
        if not public and parts.netloc.partition(":")[0] not in ANYBODYS:
            yield address


def test_links_of_pages_lead_somewhere() -> None:
    assert len(PAGES) > 90
    found = {page: [*broken(page, page.read_text("utf-8"))] for page in PAGES}
    assert {page: links for page, links in found.items() if links} == {}


def test_a_link_that_leads_nowhere_is_found() -> None:
    text = (
        "# A b\n[a](#a-b) [b](#b) `[c](c.md)` [d](README.md#how-fast) [e](README.md#how-slow)\n"
        "```\n# Code\n[f](f.md)\n```\n[g](#code) [h](../h.md) [i](docs/reference/inputs.md)\n"
        "# A `b`\n[j](#a-b-1) [k](#a-b-2) [l](https://example.org/) <!-- [m](m.md) -->\n"
    )
    nowhere = ["#b", "README.md#how-slow", "#code", "../h.md", "docs/reference/inputs.md"]
    assert [*broken(ROOT / "PAGE.md", text)] == [*nowhere, "#a-b-2"]


def test_addresses_outside_have_the_form_of_one() -> None:
    texts = {path: path.read_text("utf-8") for path in (*PAGES, *SOURCES)}
    found = {path: [*malformed(COMMENT.sub("", text))] for path, text in texts.items()}
    assert {path: addresses for path, addresses in found.items() if addresses} == {}
    filled = (ROOT / ".ci" / "addresses").read_text("utf-8")
    assert [p for p in texts if "://ADDRESS" in texts[p] and f'"{p.name}"' not in filled] == []


def test_an_address_without_the_form_is_found() -> None:
    wrong = ["http://example.org/a", "https://ADDRESS/x", "https://localhst/a", "https://a..org"]
    right = "(https://example.org/a_(b).html), `http://localhost:8000/a`, http://..., "
    assert [*malformed(right + ", ".join(wrong))] == wrong
