"""The table of independent checks: what checks each law, and by how much they differ.

A check is a function that yields pairs (ours, theirs): what a law gives, and what a simulator, a
published table, a second derivation or another tool gives for the same point. They are in folders
by topic, like the physics; `docs/laws.md` is written from them.
"""

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

Pairs = Iterable[tuple[Any, Any]]
KINDS = ("simulator", "table", "derivation", "peer")
CHECKS: list["Check"] = []


@dataclass(frozen=True)
class Check:
    """One independent check of one or more laws, named as in law.LAWS."""

    laws: tuple[str, ...]
    by: str
    source: str
    tolerance: float
    pairs: Callable[[], Pairs]
    absolute: bool = False

    @property
    def points(self) -> str:
        """The compared points, in words: the first line of the check's docstring."""
        return (self.pairs.__doc__ or "").strip().splitlines()[0]

    @cached_property
    def largest_difference(self) -> float:
        """The largest |ours - theirs| / |theirs|; absolute where theirs is 0, or where asked."""
        return max(_differences(self.pairs(), self.absolute))


def check(
    *laws: str, by: str, source: str, tolerance: float = 1e-9, absolute: bool = False
) -> Callable[[Callable[[], Pairs]], Callable[[], Pairs]]:
    """Add a function that yields pairs (ours, theirs) to the table.

    `laws` are names of formulas, separated by spaces ("module.name" where two modules share a
    name); `by` is one of KINDS; `source` says where theirs comes from. The test fails if a pair
    differs by more than `tolerance`, relative to theirs or `absolute`.
    """
    if by not in KINDS:
        raise ValueError(f"by={by!r}: one of {', '.join(KINDS)}")

    names = tuple(" ".join(laws).split())

    def enter(pairs: Callable[[], Pairs]) -> Callable[[], Pairs]:
        CHECKS.append(Check(names, by, source, tolerance, pairs, absolute))
        return pairs

    return enter


def checks() -> list[Check]:
    for path in sorted(Path(__file__).parent.glob("*/*.py")):
        importlib.import_module(f"{__package__}.{path.parent.name}.{path.stem}")
    return sorted(CHECKS, key=lambda check: check.pairs.__module__)


def _differences(pairs: Pairs, absolute: bool) -> Iterator[float]:
    for ours, theirs in pairs:
        ours, theirs = np.broadcast_arrays(np.asarray(ours, float), np.asarray(theirs, float))
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        scale = np.where((theirs == 0) | ~np.isfinite(theirs) | absolute, 1.0, np.abs(theirs))
        with np.errstate(invalid="ignore"):
            difference = np.where(same, 0.0, np.abs(ours - theirs) / scale)
        yield float(np.max(np.where(np.isnan(difference), np.inf, difference)))
