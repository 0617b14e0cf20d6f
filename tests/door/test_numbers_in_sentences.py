"""No sentence of a page has a number that nobody computes.

A number in prose, to its digits, stands in a block or table of the page, or on a page to which
its paragraph links, or the paragraph names a paper, a document, a decision. Counts up to ten,
years and names of models are words.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from docs.make.outputs import DOCS, RUN
from docs.make.readme import PAGE, phrases
from fleetcube.catalog import kind

# Pages whose numbers are answers; those on how fleetcube works have its limits
PAGES = [
    page
    for page in RUN
    if page.parent.name in ("howto", "start")
    or page.stem in ("solve", "sensitivity", "compare", "uncertainty")
]
_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_IN_PROSE = re.compile(rf"(?<![\w.,/^-])(?:{_NUMBER})(?!\w*\d)")
_CODE = re.compile(r"`[^`]*`")
_MADE = re.compile(r"<!-- (.*?):begin -->.*?<!-- \1:end -->", re.DOTALL)
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:-|\d\.) )")
_FENCE = re.compile(r"^ *(`{3,}|:{3,}).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
_TABLE = re.compile(r"^\|.*$", re.MULTILINE)
_NO_PROSE = re.compile(
    r"`[^`]*`|Python [\d.]+|(?<=\])\([^)]*\)|https?://\S+|<!--.*?-->|^#.*$|^---$", re.MULTILINE
)
_SOURCE = re.compile(
    r"\]\((?:https?:|[^)]*(?:decisions/|benchmarks|peers|accuracy))|arXiv|doi:|et al\.|\bRFC\b"
)
# A block counts in bytes, seconds and dollars; a sentence in percent, thousands and billions
_SCALES = [scale for power in (3, 6, 9, 12) for scale in (10.0**power, 10.0**-power)] + [1.0, 100.0]


def value(number: str) -> float:
    return float(number.replace(",", ""))


def is_rounded(number: str, exact: float) -> bool:
    """Whether a number is another one, rounded to the digits that it has."""
    digits = number.replace(",", "")
    decimals = len(digits.partition(".")[2])
    significant = len(digits.replace(".", "").strip("0")) or 1
    return any(
        value(number) in (round(scale * exact, decimals), float(f"{scale * exact:.{significant}g}"))
        for scale in _SCALES
    )


LABELS = [label for table in ("model", "gpu", "node", "fabric") for label in kind(table)]
NAMES = set(re.findall(r"\d+(?:\.\d+)?", " ".join(LABELS)))  # such as the 405 of llama-3-405b


def linked(paragraph: str, folder: Path) -> set[float]:
    """Numbers of the pages that a paragraph links to."""
    pages = [folder / path for path in re.findall(r"\]\(([\w./-]+\.md)", paragraph)]
    texts = [page.read_text(encoding="utf-8") for page in pages if page.exists()]
    return {value(number) for text in texts for number in re.findall(_NUMBER, text)}


def is_word(number: str, after: str) -> bool:
    """Whether a number is a small count, a year, or in the name of a model."""
    if number in NAMES and re.match(r" ?[BTM]\b", after):
        return True
    small = number.isdigit() and (int(number) <= 10 or 1990 <= int(number) <= 2030)
    return small and not after.startswith(" %")


def unexplained(text: str, folder: Path = DOCS, computed: Iterable[str] = ()) -> list[str]:
    """Numbers in the sentences of a page that no block gives and no source explains."""
    text = _MADE.sub("", text)
    given = [*computed]
    for pattern in (_FENCE, _TABLE, _CODE):
        given += [number for m in pattern.finditer(text) for number in re.findall(_NUMBER, m[0])]
    exact = set(map(value, given))
    missing = []
    for paragraph in _PARAGRAPH.split(_TABLE.sub("", _FENCE.sub("", text))):
        if _SOURCE.search(paragraph):
            continue
        prose = _NO_PROSE.sub("", paragraph)
        known = exact | linked(paragraph, folder)
        for found in _IN_PROSE.finditer(prose):
            after = prose[found.end() :]
            if not is_word(found[0], after) and not any(is_rounded(found[0], x) for x in known):
                before = prose[max(0, found.start() - 50) : found.start()]
                missing.append(" ".join((before + found[0] + after[:20]).split()))
    return missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_numbers_in_sentences_stand_in_a_block_or_beside_their_source(page: Path) -> None:
    assert unexplained(page.read_text(encoding="utf-8"), page.parent) == []


def test_numbers_of_the_readme_are_computed() -> None:
    computed = [number for numbers in phrases().values() for number in numbers]
    text = PAGE.read_text(encoding="utf-8")
    assert unexplained(text, PAGE.parent, computed) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("It takes 69.5 days.\n\n```text\njob_time [d]  69.51\n```\n", 0),
        ("It takes 69.5 days.\n\n```text\njob_time [d]  69.41\n```\n", 1),
        ("A share of 43 %.\n\n| share |\n| --- |\n| 0.4304 |\n", 0),
        ("A share of 44 %.\n\n| share |\n| --- |\n| 0.4304 |\n", 1),
        ("About 10,600 GPUs.\n\n```text\n10,573\n```\n", 0),
        ("They measured 31.5 days (arXiv:2407.21783).\n", 0),
        ("In 2026, three of 8 GPUs.\n", 0),
    ],
)
def test_a_number_is_found_by_its_digits(text: str, missing: int) -> None:
    assert len(unexplained(text)) == missing
