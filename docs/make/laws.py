"""The independent checks of laws as a page of Markdown: docs/laws.md."""

import re
from collections import Counter

from fleetcube.kernels import physics
from fleetcube.kernels.physics.graph import PHYSICS
from tests.laws.check import Check, checks
from tests.laws.law import LAWS

from .text import DOCS, filled, table

PAGE = DOCS / "laws.md"
CHECKS = checks()
REASONS = {
    code: reason
    for code, reason in PHYSICS.quantities["infeasible_reason"].doc.flags.items()
    if reason != "feasible"
}
ROUNDING = 1e-9  # what floats and quadratures leave
INTRODUCTION = """# How every law is checked

{laws} laws produce fleetcube's numbers. Each has an independent check, which computes the same
number without it. `tests/laws/` fails if one differs by more than stated, if a law has no check, or
if this page is out of date (`python -m docs.make` writes it). The formula of each law, its source
and where it holds are in the [reference](reference/quantities.md), next to the names of its checks.

- **simulator**: messages, schedules, failures or requests played one by one ({simulator}).
- **table**: numbers printed in a paper, a manual or a model's own files ({table}).
- **derivation**: another way to the same number: integration, counting, search, exact fractions
  ({derivation}).
- **peer**: another program ({peer}).

The last column is the largest difference, relative, or absolute where so stated or where the right
value is 0; "rounding" is below 1e-9, or 0.

Formulas without content of their own have no check: those that call one law or pass on a value,
options that are off, and definitions by a sum, a product or a quotient.

A law holds wherever its inputs are within their bounds (an input outside them is an error), unless
its range states otherwise: the range then names the reason code, or the bound, that applies
outside it. What no job can be is a reason code of `infeasible_reason`, whatever the law:
{reasons}."""


def page() -> str:
    """The page as it should be."""
    kinds = Counter(check.by for check in CHECKS)
    counts = {kind: _count(kinds[kind], "check") for kind in ("simulator", "table", "derivation")}
    head = INTRODUCTION.format(
        laws=sum(not law.why_none for law in LAWS.values()),
        peer=_count(kinds["peer"], "check"),
        reasons=filled(", ".join(f"{code} `{reason}`" for code, reason in REASONS.items())),
        **counts,
    )
    topics = {topic_of(check) for check in CHECKS}
    return "\n\n".join([head, *(_topic(each) for each in physics.TOPICS if each in topics)]) + "\n"


def said() -> dict[str, str]:
    """The differences that the page states, by the names of checks."""
    rows = re.findall(r"^\| `([\w.]+)` .*\| ([^|]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return dict(rows)


def topic_of(check: Check) -> str:
    """The topic in whose folder a check stands."""
    return check.pairs.__module__.split(".")[-2]


def name_of(check: Check) -> str:
    """A check's name, qualified by its module: names repeat between modules."""
    return f"{check.pairs.__module__.rpartition('.')[2]}.{check.pairs.__qualname__}"


def difference(check: Check) -> str:
    """The largest difference of a check, in words."""
    largest = check.largest_difference
    if largest < ROUNDING:
        return "rounding"  # or 0: how sums are rounded differs between releases of Python
    return f"{float(f'{largest:.0e}'):g}{' absolute' * check.absolute}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _topic(topic: str) -> str:
    rows = [
        [
            f"`{name_of(check)}`",
            check.by,
            ", ".join(f"`{law}`" for law in check.laws),
            plain(check.source),
            plain(check.points),
            difference(check),
        ]
        for check in sorted(CHECKS, key=name_of)
        if topic_of(check) == topic
    ]
    head = ["check", "by", "of", "with", "at", "difference"]
    return f"## {topic.capitalize()}\n\n{table(head, rows)}"


def plain(text: str) -> str:
    """Text with the characters of Markdown escaped."""
    return re.sub(r"([\\`*_\[\]<|$])", r"\\\1", text)
