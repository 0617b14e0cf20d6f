"""A pattern of layers, one letter for each, as counts of its kinds."""

from collections.abc import Mapping
from typing import Any

from ...kernels.roles import LETTERS, SAID, UNSAID
from ..errors import InputError, shown

NAME = "layer_pattern"
_MEANT = "M Mamba-2, G gated DeltaNet, * attention, - feed-forward, E experts"
_RULE = f"write one letter for each layer: {_MEANT}"
ABOUT = f"layers of one block each, a letter for each, in place of their counts: {_MEANT}"

SETS = (*dict.fromkeys(name for names in LETTERS.values() for name in names), *SAID[""])


def counts(pattern: Any) -> dict[str, Any]:
    """The inputs that a pattern sets, which is written as Megatron-LM and Nemotron-H do.

    Each letter is a layer of one block; | marks the ends of stages and counts for nothing. Raises
    InputError for what is no pattern.
    """
    if not isinstance(pattern, str):
        raise InputError(f"{NAME} = {shown(pattern)} is not a pattern; {_RULE}")
    letters, slash, _ = pattern.replace("|", "").partition("/")
    if slash:
        raise InputError(
            f"{NAME} = {shown(pattern)} has layers that predict further tokens after /; end it "
            "before"
        )
    wrong = next((letter for letter in letters if letter not in LETTERS), None)
    if wrong is not None or not letters:
        what = f"has {wrong!r}" if letters else "is empty"
        raise InputError(f"{NAME} = {shown(pattern)} {what}; {_RULE}")
    made: dict[str, Any] = {name: 0 for names in LETTERS.values() for name in names}
    for letter in letters:
        for name in LETTERS[letter]:
            made[name] += 1
    for some, values in UNSAID.items():
        made |= {} if {*some} & {*letters} else values
    for letter, values in SAID.items():
        if letter in letters:
            if any(made.get(name, value) != value for name, value in values.items()):
                raise InputError(
                    f"{NAME} = {shown(pattern)} has two kinds of states; give M or G alone"
                )
            made |= values
    return made


def spelled_out(scenario: Mapping[str, Any], swept: Mapping[str, Any]) -> Mapping[str, Any]:
    """A scenario with the counts of its pattern in place of the pattern."""
    if NAME not in scenario:
        return scenario
    made = counts(scenario[NAME])
    for name, value in made.items():
        if name in swept:
            raise InputError(f"{name} is set by {NAME} and by an axis; keep one")
        if name in scenario and scenario[name] != value:
            raise InputError(
                f"{name} = {shown(scenario[name])} does not add up with {NAME}, which makes it "
                f"{value}; leave one of them out"
            )
    return {**{name: v for name, v in scenario.items() if name != NAME}, **made}
