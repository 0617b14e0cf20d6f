"""The foot of a table: what its numbers stand on, and what a default decided."""

import json
import textwrap
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ...kernels.roles import RULES
from ..plan.labels import DEFAULTS
from .tables import label

WIDTH = 80  # of a line
_MEDIANS, _DRAWN = "fleetcube_medians", "fleetcube_uncertainty"


def foot(attrs: Mapping[Any, Any], without: Collection[str] = ()) -> list[str]:
    """Lines below a table of results with these attributes, none wider than 80 columns."""
    return wrapped(remarks(attrs, without))


def remarks(attrs: Mapping[Any, Any], without: Collection[str] = ()) -> list[str]:
    """What is to be said of results with these attributes, a line each.

    They say what its calibration stands on, which distributions are at their medians, and what a
    default decided, but for inputs of `without`, which were searched.
    """
    lines = str(attrs.get("fleetcube_remarks", "")).splitlines()
    if _MEDIANS in attrs and _DRAWN not in attrs:
        lines.append(f"uncertain, at the median here: {', '.join(json.loads(attrs[_MEDIANS]))}")
    return [*lines, *_decided(attrs, without)]


def _decided(attrs: Mapping[Any, Any], without: Collection[str]) -> list[str]:
    """What a default decided."""
    left = {n: v for n, v in json.loads(attrs.get(DEFAULTS, "{}")).items() if n not in without}
    lines = []
    for name in [name for name in RULES if name in left]:
        value = left.pop(name)
        lines.append(RULES[name] if value is None else f"{RULES[name]} = {value:.4g}")
    if left:
        said = ", ".join(f"{name} {label(value)}" for name, value in left.items())
        lines.append(f"layout by default: {said}")
    return lines


def wrapped(lines: Iterable[str]) -> list[str]:
    """Lines cut between words to 80 columns, what continues one indented."""
    how: Any = {"subsequent_indent": "  ", "break_long_words": False, "break_on_hyphens": False}
    return [part for line in lines for part in textwrap.wrap(line, WIDTH, **how)]
