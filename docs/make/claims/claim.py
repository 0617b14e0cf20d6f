"""What a claim is: figures as printed and as computed, and the verdict that follows."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

import fleetcube

HOUR, DAY = 3600.0, 86_400.0
MARGIN = 0.02  # a number is wrong if it is off by more than this; "~" allows as much


class Verdict(StrEnum):
    REPRODUCES = "reproduces"
    CONVENTION = "reproduces under a stated convention"
    WRONG = "wrong"
    OTHERS = "contradicts another"
    ITSELF = "contradicts itself"
    UNSUPPORTED = "unsupported"


class Reading(StrEnum):
    """Where the computed side of a figure comes from."""

    PLAIN = "the physics, with the inputs that the document states"
    CONVENTION = "the same under a convention, which the label names"
    ORIGIN = "how the printed number came about"
    OWN = "what follows from other numbers of the same document"
    OTHER = "what another document or a data sheet says"
    EVIDENCE = "what measurements say, or a model of the whole"


@dataclass(frozen=True)
class Figure:
    """One or several numbers (or words) as printed, and a function that computes them.

    Printed: numbers separated by blanks; "4-6" is a range, "~20" means about, ">1" and "<1" are
    bounds; anything else is compared as a word; empty if the document prints no answer. `right` is
    the right value if it is not the printed one, derived without this package, to as many digits as
    it is shown with; a bound if only a model of the whole gives it.
    """

    reading: Reading
    printed: str
    unit: str
    compute: Callable[[], Any]
    right: str = ""
    label: str = ""

    @cached_property
    def ours(self) -> tuple[Any, ...]:
        return tuple(np.atleast_1d(np.asarray(self.compute())).ravel().tolist())

    @property
    def deviation(self) -> float:
        """The largest deviation of a printed figure, relative to ours."""
        if not self.printed:
            return 0.0
        pairs = zip(self.printed.split(), self.ours, strict=True)
        return max(off_by(text, ours) for text, ours in pairs)

    @property
    def holds(self) -> bool:
        return self.deviation == 0

    @property
    def expected(self) -> str:
        return self.right or self.printed

    def is_right(self) -> bool:
        """Whether ours is the right value, to the digits that it is given with."""
        texts = self.expected.split()
        return all(off_by(text, ours) == 0 for text, ours in zip(texts, self.ours, strict=True))

    @property
    def shown(self) -> str:
        """Ours, to the digits of the right value."""
        pairs = zip(self.expected.split(), self.ours, strict=True)
        return " / ".join(_shown(text, ours) for text, ours in pairs)

    @property
    def quoted(self) -> str:
        """The figures as printed, without repetitions."""
        texts = dict.fromkeys(self.printed.split())
        return " / ".join(text.replace("_", " ") for text in texts)


def off_by(printed: str, ours: Any) -> float:
    """0 if ours agrees with a printed figure, else the deviation relative to ours."""
    match = re.fullmatch(r"([~<>]?)([\d.,]+)(?:-([\d.,]+))?", printed)
    if match is None or isinstance(ours, str):
        return 0.0 if printed == ours else np.inf
    sign, text, upper = match.groups()
    low = value = _number(text)
    high = _number(upper) if upper else value
    if sign == "~":
        low, high = value * (1 - MARGIN), value * (1 + MARGIN)
    elif sign == ">":
        high = np.inf
    elif sign == "<":
        low = -np.inf
    elif not upper:
        half = 0.5 * 10.0 ** -_digits(text) * (1 + 1e-9)
        low, high = value - half, value + half
    if low <= ours <= high:
        return 0.0
    if sign in ("<", ">"):
        return np.inf
    near = value if low <= value <= high and not upper else (low if ours < low else high)
    return abs(ours - near) / abs(ours) if ours else np.inf


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _digits(text: str) -> int:
    return len(text.partition(".")[2])


def _shown(text: str, ours: Any) -> str:
    if isinstance(ours, str):
        return ours.replace("_", " ")
    if re.fullmatch(r"[\d.,]+", text):
        same = off_by(text, ours) == 0  # documents round a half either way
        return f"{_number(text) if same else ours:,.{_digits(text)}f}"
    rounded = float(f"{ours:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


def plain(
    printed: str, unit: str, compute: Callable[[], Any], right: str = "", label: str = ""
) -> Figure:
    return Figure(Reading.PLAIN, printed, unit, compute, right, label)


def _labelled(reading: Reading) -> Callable[..., Figure]:
    def figure(
        label: str, printed: str, unit: str, compute: Callable[[], Any], right: str = ""
    ) -> Figure:
        return Figure(reading, printed, unit, compute, right, label)

    return figure


convention = _labelled(Reading.CONVENTION)
origin = _labelled(Reading.ORIGIN)
own = _labelled(Reading.OWN)
other = _labelled(Reading.OTHER)
evidence = _labelled(Reading.EVIDENCE)


@dataclass(frozen=True)
class Claim:
    """One statement of a document, in our words."""

    number: str
    says: str
    verdict: Verdict
    figures: tuple[Figure, ...]
    why: str = ""

    def of(self, reading: Reading) -> Iterator[Figure]:
        return (figure for figure in self.figures if figure.reading is reading)

    def judged(self) -> Verdict:
        """The verdict that the numbers lead to."""

        def fails(reading: Reading) -> bool:
            return any(not figure.holds for figure in self.of(reading))

        excuses = any(self.of(Reading.CONVENTION))
        if fails(Reading.PLAIN):
            return Verdict.CONVENTION if excuses else Verdict.WRONG
        if fails(Reading.OWN):
            return Verdict.ITSELF
        if fails(Reading.OTHER):
            return Verdict.OTHERS
        if fails(Reading.EVIDENCE):
            return Verdict.UNSUPPORTED
        return Verdict.CONVENTION if excuses else Verdict.REPRODUCES


@dataclass(frozen=True)
class Document:
    """One of the five documents."""

    name: str
    about: str
    claims: tuple[Claim, ...]


def get(name: str, scale: float = 1.0, **inputs: Any) -> Any:
    """One quantity through the public API, in a unit of choice; lists become axes.

    Stages of pipelines are alike, and links as their data sheets say, as in all of these documents.
    """
    alike = {"stage_split": False} if "pipeline_parallel" in inputs else {}
    array = fleetcube.evaluate(name, **{"calibration": "none", **alike, **inputs})
    if "flag_meanings" in array.attrs:
        words = array.attrs["flag_meanings"].split()
        return np.array([words[int(flag)] for flag in array.values.ravel()])
    return array.values / scale


def record(kind: str, label: str, name: str) -> float:
    """One value of a catalog record."""
    return float(fleetcube.catalog.record(kind, label).values[name])  # type: ignore[arg-type]


def cited(value: Any) -> Callable[[], Any]:
    """A published figure that nothing here computes; the claim says where it is from."""
    return lambda: value
