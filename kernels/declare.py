"""Declaration of inputs, as rows of a topic's table. Everything is in SI base units."""

import math
from dataclasses import dataclass, replace
from typing import Any

HOUR = 3600.0
CHANGERS = ("hardware", "fabric", "operations", "software", "job", "model")


@dataclass(frozen=True)
class Input:
    """One name that a scenario may set.

    `kind` is "real", "count" (whole in reality, continuous in the formulas) or "option" (one of
    `choices`). `default` is None where the value must be given or come from a label. An option left
    unset takes `implied` instead of its default where one of `implied_by` is given. A `convention`
    is a way to report: results that depend on it state the choice.

    `changed_by` is one of CHANGERS: who buys machines or the network, runs them, writes the
    software or submits the job. "model" is what a plan cannot change: the trained model and the
    laws' coefficients.

    For messages: `labels` are the kinds of catalog labels that set it, `part_of` is a quantity that
    may be given in its place, `idle` is a remark for when nothing needs it.
    """

    name: str
    unit: str
    default: Any
    description: str
    kind: str = "real"
    low: float = 0.0
    high: float = math.inf
    positive: bool = True
    may_be_infinite: bool = False
    choices: tuple[Any, ...] = ()
    implied: Any = None
    implied_by: tuple[str, ...] = ()
    convention: bool = False
    labels: str = ""
    part_of: str = ""
    idle: str = ""
    changed_by: str = ""

    def means_off(self, value: Any) -> bool:
        """Whether a value is a word for off, which is False in the choices."""
        return str(value).lower() in WORDS_FOR_OFF and any(c is False for c in self.choices)


OFF = "off is spelled false (False in Python)"
WORDS_FOR_OFF = ("none", "off", "one", "alike")


def written(choice: Any) -> str:
    """A choice as spelled in specs, commands and coordinates."""
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


def declared(*rows: str | Input) -> tuple[Input, ...]:
    """The inputs of a topic: rows of one of CHANGERS, then the inputs that it can change."""
    inputs, who = [], ""
    for row in rows:
        if isinstance(row, Input):
            inputs.append(replace(row, changed_by=who))
        else:
            who = row
    return tuple(inputs)


real = Input


def count(
    name: str, default: float | None, description: str, *, low: float = 1.0, **columns: Any
) -> Input:
    return Input(name, "1", default, description, "count", low, positive=low > 0, **columns)


def option(
    name: str, default: Any, choices: tuple[Any, ...], description: str, **columns: Any
) -> Input:
    return Input(name, "1", default, description, "option", choices=choices, **columns)


def switch(name: str, description: str, *implied_by: str) -> Input:
    on = True if implied_by else None
    return option(name, False, (False, True), description, implied=on, implied_by=implied_by)


def share(name: str, description: str, default: float = 0.0) -> Input:
    return real(name, "1", default, description, positive=False, high=1.0)
