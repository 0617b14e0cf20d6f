"""Roles of quantities and inputs: how engines, plans and cubes treat them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

# The quantity by which a graph judges points: why one cannot be run; 0 where it can
REASON = "infeasible_reason"


@dataclass(frozen=True)
class Roles:
    """Names by role; a graph names those that it has.

    `REASON` judges quantities that depend on `layout`, and `layout_reason` neighbours of a whole
    number. `steps` are inputs that are valid at multiples of a step: its formula, and the quantity
    that counts the steps. `counts` are quantities that are whole where given, with their least
    value, and `positive` those above 0.

    Values of a job's phases combine by `sums`, `means` (with their weights), `largest`, `least` or
    `first`; `of_wholes` are computed from values of the whole job. `before` is an input, and the
    quantity that adds to it what `phased` counted in earlier phases.

    A scenario may name `labels`, kinds of records that set inputs, and `texts`, each with what to
    do to vary it. `synonyms` are other words for the choices of an option.
    """

    layout_reason: str = ""
    layout: Collection[str] = frozenset()
    steps: Mapping[str, tuple[Callable[..., Any], str]] = field(default_factory=dict)
    counts: Mapping[str, float] = field(default_factory=dict)
    positive: Collection[str] = frozenset()
    sums: Collection[str] = frozenset()
    means: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    largest: Collection[str] = frozenset()
    least: Collection[str] = frozenset()
    first: Collection[str] = frozenset()
    of_wholes: Collection[str] = frozenset()
    before: tuple[str, str] = ("", "")
    phased: str = ""
    labels: Collection[str] = frozenset()
    texts: Mapping[str, str] = field(default_factory=dict)
    synonyms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
