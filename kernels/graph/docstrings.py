"""Read units, meaning and source from the docstrings of laws and quantities."""

import functools
import inspect
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..alternatives import docstring

_HEADING = re.compile(r"^(Parameters|Returns|Flags|Range|Source|Example):[ ]?", re.MULTILINE)
_PARAMETER = re.compile(r"(\w+) \[([^\]]+)\]")


@dataclass(frozen=True)
class Doc:
    """The content of a docstring: summary, maths, units, flags, range, source.

    `range` is where the law holds and what a user gets elsewhere; empty: wherever inputs are valid.
    `parameters` are units by name, `meanings` the text on some of them; what several laws take, the
    docstring of their module describes.
    """

    summary: str
    maths: str
    parameters: dict[str, str]
    unit: str
    returns: str
    flags: dict[int, str]
    range: str
    source: str
    example: str
    meanings: dict[str, str] = field(default_factory=dict)


@functools.cache
def read(function: Callable[..., Any]) -> Doc:
    """Parse the docstring of a law or quantity.

    An alternative gives only what differs from the formula that states its quantity: a first line
    without a full stop is its maths; missing flags, `Returns`, `Source` and summary (up to a colon)
    are inherited. Raises ValueError where a section is missing or malformed.
    """
    stated = getattr(function, "__stated__", None)
    inherited: Any = read(stated) if stated else None
    body, sections = _parts(docstring(function))
    for name in () if inherited else ("Returns", "Source"):
        if not sections.get(name, "").strip():
            raise ValueError(f"the docstring of {function.__name__} has no section {name!r}")
    summary, _, maths = body.strip().partition("\n")
    if inherited and not summary.endswith("."):
        summary, maths = f"{inherited.summary.partition(': ')[0].rstrip('.')}.", body
    returns = re.match(r"\[([^\]]+)\]\s*(.*)", _one_line(sections.get("Returns", "")))
    if returns is None and not inherited:
        raise ValueError(f"the docstring of {function.__name__} states no unit of its result")
    home = vars(sys.modules[function.__module__])
    described = _parameters(home.get("__doc__") or "") | _parameters(docstring(function))
    named = described and [n for n in inspect.signature(function).parameters if n in described]
    flags = sections.get("Flags", "").strip()
    flags = str(home.get(flags, flags))  # several formulas may share a table
    return Doc(
        summary=summary.strip(),
        maths=maths.strip(),
        parameters={name: described[name][0] for name in named},
        unit=returns.group(1) if returns else inherited.unit,
        returns=returns.group(2) if returns else inherited.returns,
        flags={int(code): name for code, name in re.findall(r"(\d+) (\w+)", flags)}
        or (inherited.flags if inherited else {}),
        range=_one_line(sections.get("Range", "")),
        source=_one_line(sections.get("Source", "")) or inherited.source,
        example=sections.get("Example", ""),
        meanings={name: described[name][1] for name in named if described[name][1]},
    )


def source(function: Callable[..., Any]) -> str:
    """The Source line of any function, such as one that formulas of others call; empty without."""
    stated = getattr(function, "__stated__", None)
    line = _one_line(_parts(docstring(function))[1].get("Source", ""))
    return line or (source(stated) if stated else "")


def _parameters(text: str) -> dict[str, tuple[str, str]]:
    """Units and meanings of the parameters that a docstring describes."""
    _, *named = _PARAMETER.split(_parts(text)[1].get("Parameters", ""))  # name, unit, meaning, ...
    rows = zip(named[::3], named[1::3], named[2::3], strict=True)
    return {name: (unit, _one_line(meaning.strip(":, "))) for name, unit, meaning in rows}


def _parts(text: str) -> tuple[str, dict[str, str]]:
    """The text before the sections of a docstring, and the sections by heading."""
    starts = list(_HEADING.finditer(text))
    ends = [*(match.start() for match in starts), len(text)]
    pieces = zip(starts, ends[1:], strict=True)
    return text[: ends[0]], {head[1]: text[head.end() : end].rstrip() for head, end in pieces}


def _one_line(text: str) -> str:
    return " ".join(text.split())
