"""The independent checks of laws (tests/laws), as the reference links to them."""

import functools
from collections.abc import Callable
from typing import Any

from docs.make import laws
from tests.laws.check import Check
from tests.laws.law import LAWS

CHECKS = sorted(laws.CHECKS, key=laws.name_of)
topic_of, name_of, plain = laws.topic_of, laws.name_of, laws.plain


@functools.cache
def _by_law() -> dict[str, list[Check]]:
    found: dict[str, list[Check]] = {}
    for check in CHECKS:
        for law in check.laws:
            found.setdefault(law, []).append(check)
    return found


def checks_of(formula: Callable[..., Any]) -> list[Check]:
    """The checks of a law, or of the law that a formula is."""
    formula = getattr(formula, "__law__", formula)
    module = formula.__module__.rpartition(".")[2]
    for name in (f"{module}.{formula.__name__}", formula.__name__):
        if name in LAWS:
            return _by_law().get(name, [])
    return []


def target(check: Check) -> str:
    """The anchor of a check's entry."""
    return f"check-{name_of(check).replace('_', '-').replace('.', '-')}"


@functools.cache
def difference(check: Check) -> str:
    """The largest difference that docs/laws.md states."""
    return _said().get(name_of(check), "")


@functools.cache
def _said() -> dict[str, str]:
    return laws.said()
