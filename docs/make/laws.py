"""The laws as a page of Markdown: docs/laws.md."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from fleetcube.kernels.graph.formulas import load
from tests.laws.check import Check, checks
from tests.laws.law import LAWS, Law

from .text import DOCS, filled, table

PAGE = DOCS / "laws.md"
CHECKS = checks()
REASONS = {
    code: reason
    for code, reason in load()["infeasible_reason"].doc.flags.items()
    if reason != "feasible"
}
ROUNDING = 1e-9  # errors of floats and quadratures
INTRODUCTION = """# Every law, where it holds, and how it is checked

{laws} laws produce fleetcube's numbers. Each has an independent check, which computes the same
number without it; `tests/laws/` fails if one differs by more than stated, if a law has no check, or
if this page is out of date. `python -m docs.make` writes it.

- **simulator**: messages, schedules, failures or requests played one by one ({simulator}).
- **table**: numbers printed in a paper, a manual or a model's own files ({table}).
- **derivation**: another way to the same number: integration, counting, search, exact fractions
  ({derivation}).
- **peer**: another program ({peer}).

The tables name the checks, and the largest difference of each from what it compares with: relative,
or absolute where so stated or where the right value is 0; "rounding" is below 1e-9, or 0. The last
section says what each check compares, and at which points.

A law holds wherever its inputs are within their bounds (an input outside them is an error), unless
its range states otherwise: the range then names the reason code, or the bound, that applies
outside it. What no job can be is a reason code of `infeasible_reason`, whatever the law:
{reasons}.

Formulas without content of their own need no check and are listed below the table of their topic
(in it, if they have a range of their own): those that call one law or pass on a value, options
that are off, and definitions by a sum, a product or a quotient."""


def page() -> str:
    kinds = Counter(check.by for check in CHECKS)
    counts = {kind: _count(kinds[kind], "check") for kind in ("simulator", "table", "derivation")}
    laws = sum(not law.why_none for law in LAWS.values())
    head = INTRODUCTION.format(
        laws=laws,
        peer=_count(kinds["peer"], "check"),
        reasons=filled(", ".join(f"{code} `{reason}`" for code, reason in REASONS.items())),
        **counts,
    )
    topics = dict.fromkeys(law.topic for law in LAWS.values())
    return "\n\n".join([head, *map(_topic, topics), _checks()]) + "\n"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _topic(topic: str) -> str:
    laws = [law for law in LAWS.values() if law.topic == topic]
    parts = [f"## {topic.replace('_', ' ').capitalize()}"]
    rows = [_row(law) for law in laws if _has_row(law)]
    if rows:
        parts.append(table(["law", "holds", "checked by"], rows))
    parts += _unchecked(law for law in laws if not _has_row(law))
    return "\n\n".join(parts)


def _has_row(law: Law) -> bool:
    """Whether a law has a row: it is checked, or has its own range."""
    return not law.why_none or bool(law.doc.range)


def _row(law: Law) -> list[str]:
    checks = [check for check in CHECKS if law.name in check.laws]
    held_by = [f"{check.by} `{name_of(check)}`: {difference(check)}" for check in checks]
    return [
        f"`{law.name}`<br>{_plain(law.formula)}",
        _range(law.doc.range),
        "<br>".join(held_by) or law.why_none,
    ]


def _checks() -> str:
    rows = [
        [f"`{name_of(check)}`", check.by, _plain(check.source), _plain(check.points)]
        for check in sorted(CHECKS, key=name_of)
    ]
    return "## What the checks compare\n\n" + table(["check", "by", "with", "at"], rows)


def name_of(check: Check) -> str:
    """A check's name, qualified by its module: names repeat between modules."""
    return f"{check.pairs.__module__.rpartition('.')[2]}.{check.pairs.__qualname__}"


def _range(text: str) -> str:
    """A range, its reason codes marked; all valid inputs if none is stated."""
    if not text:
        return "all inputs"
    words = (f"`{w}`" if w in REASONS.values() else _plain(w) for w in re.split(r"(\w+)", text))
    return "".join(words)


def difference(check: Check) -> str:
    largest = check.largest_difference
    if largest < ROUNDING:
        return "rounding"  # or 0: rounding of sums differs between releases of Python
    return f"{float(f'{largest:.0e}'):g}{' absolute' * check.absolute}"


def _unchecked(laws: Iterable[Law]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for law in laws:
        called = law.why_none.startswith("is ")
        name = f"`{law.name}`"
        if called and not law.name.endswith(law.why_none[4:-1]):
            name += f" ({law.why_none[3:]})"
        by_reason.setdefault("calls one law" if called else law.why_none, []).append(name)
    for why, names in by_reason.items():
        line = f"{why[0].upper()}{why[1:]}: {', '.join(names)}."
        yield filled(line)


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<|$])", r"\\\1", text)
