"""A pattern of layers, one letter for each, as counts of its kinds."""

from collections.abc import Mapping
from typing import Any

from ..errors import InputError, shown

NAME = "layer_pattern"
_LETTERS = "M Mamba-2, G gated DeltaNet, * attention, - feed-forward, E experts"
_STATES = {"M": "mamba2", "G": "gated_deltanet"}


def counts(pattern: Any) -> dict[str, Any]:
    """The inputs that a pattern sets, as Megatron-LM and Nemotron-H write it.

    Each letter is a layer of one block; | marks the ends of stages and counts for nothing. Raises
    InputError for what is no pattern.
    """
    known = f"write one letter for each layer: {_LETTERS}"
    if not isinstance(pattern, str):
        raise InputError(f"{NAME} = {shown(pattern)} is not a pattern; {known}")
    letters = pattern.replace("|", "")
    if "/" in letters:
        raise InputError(
            f"{NAME} = {shown(pattern)} has layers that predict further tokens after /; leave them "
            "out"
        )
    wrong = next((letter for letter in letters if letter not in "MG*-E"), None)
    if wrong is not None or not letters:
        what = f"has {wrong!r}" if letters else "is empty"
        raise InputError(f"{NAME} = {shown(pattern)} {what}; {known}")
    if {"M", "G"} <= {*letters}:
        raise InputError(f"{NAME} = {shown(pattern)} has both M and G; give states of one kind")
    number = {letter: letters.count(letter) for letter in "MG*-E"}
    made: dict[str, Any] = {
        "layers": len(letters),
        "linear_attention": next((_STATES[x] for x in "MG" if number[x]), "mamba2"),
        "linear_layers": number["M"] + number["G"],
        "attention_layers": number["*"],
        "mixture_of_experts": True,
        "ffn_layers": number["-"] + number["E"],
        "dense_layers": number["-"],
    }
    return made if number["E"] else {**made, "experts": 1, "experts_per_token": 1}


def spelled_out(scenario: Mapping[str, Any], swept: Mapping[str, Any]) -> Mapping[str, Any]:
    """A scenario with the counts of its pattern in place of the pattern."""
    if NAME not in scenario:
        return scenario
    pattern = scenario[NAME]
    made = counts(pattern)
    for name, value in made.items():
        if name in swept:
            raise InputError(f"{NAME} sets {name}, which is an axis too; keep one of them")
        if name in scenario and scenario[name] != value:
            raise InputError(
                f"{name} = {shown(scenario[name])} does not add up with {NAME}, which has "
                f"{name} = {shown(value)}; leave one of them out"
            )
    return {**{name: v for name, v in scenario.items() if name != NAME}, **made}
