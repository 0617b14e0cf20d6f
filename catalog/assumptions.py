"""Other values that a job may have where an input is not stated."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from .files import parse_toml

PATH = files(__package__).joinpath("data", "assumptions.toml")


@dataclass(frozen=True)
class Assumption:
    """Other values of an input: their texts (if any) with the inputs that change, factors of the
    value; `always`: named wherever it is read; `ahead`: before others where it decides; `among`: a
    stated one leaves the others open; `where`: options that it needs, each with the choices, and
    numbers to exceed; `needs`: inputs that values need, by value; `reported`: what the reports of
    models say, by label; `software`: frameworks that have a choice, if not all."""

    source: str
    values: Sequence[tuple[str, Mapping[str, Any]]]
    factors: Sequence[float] = ()
    always: bool = False
    among: Sequence[str] = ()
    where: Mapping[str, Sequence[Any] | float] = field(default_factory=dict)
    ahead: bool = False
    reported: Mapping[str, Any] = field(default_factory=dict)
    needs: Mapping[str, str] = field(default_factory=dict)
    software: Sequence[str] = ()


@functools.cache
def assumptions() -> Mapping[str, Assumption]:
    """The assumptions by input."""
    rows = parse_toml(PATH.read_text(encoding="utf-8")).items()
    values = {name: [_choice(name, each) for each in row.get("values", ())] for name, row in rows}
    return {name: Assumption(**{**row, "values": values[name]}) for name, row in rows}


def _choice(name: str, value: Any) -> tuple[str, dict[str, Any]]:
    """The text of another value, if it is not the value's own, and the inputs that it changes."""
    if isinstance(value, dict):
        return value["text"], {key: each for key, each in value.items() if key != "text"}
    return "", {name: value}
