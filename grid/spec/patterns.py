"""Patterns of layers, one letter for each, as counts: of their kinds, and on pipeline stages."""

import re
from collections.abc import Mapping
from typing import Any

from ...kernels.roles import LETTERS, SAID, SPLIT, UNSAID
from ..errors import InputError, shown

NAME = "layer_pattern"
_MEANT = "M Mamba-2, G gated DeltaNet, * attention, - feed-forward, E experts"
_RULE = f"write one letter for each layer: {_MEANT}"
ABOUT = f"layers of one block each, a letter for each, in place of their counts: {_MEANT}"

SETS = (*dict.fromkeys(name for names in LETTERS.values() for name in names), *SAID[""])

LAYOUT = "pipeline_layout"
_LAYOUT_RULE = (
    "write E, t for each layer, m for each module of multi-token prediction and L, with | between "
    "stages, as in Et*3|(tt|)*29m|L"
)
_REPEATED = re.compile(r"(\([^()]*\)|[EtmL])\*(\d{1,4})")
_MOST_LETTERS = 100_000


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


def stages(layout: Any, chunks: int = 1) -> dict[str, Any]:
    """The inputs that a pipeline's layout sets, which is written as Megatron-LM does.

    `chunks` are the pieces of the model on each stage. Of the stages between the ends the fullest
    is told: a bound from above for memory and waits. Raises InputError for what is no layout.
    """
    text = layout if isinstance(layout, str) else ""
    while found := _REPEATED.search(text):
        again = found[1].strip("()") * int(found[2])
        text = text[: found.start()] + again + text[found.end() :]
        if len(text) > _MOST_LETTERS:
            break
    pieces = text.replace(",", "").replace(" ", "").removesuffix("|").split("|")
    if not text or (len(pieces) > 1 and not re.fullmatch("Et*", pieces[0])):
        raise InputError(f"{LAYOUT} = {shown(layout)} does not begin with E; {_LAYOUT_RULE}")
    if not re.fullmatch("E?t*m*L", pieces[-1]) or "".join(pieces).count("E") != 1:
        raise InputError(f"{LAYOUT} = {shown(layout)} does not end with L; {_LAYOUT_RULE}")
    wrong = next((piece for piece in pieces[1:-1] if piece.strip("t")), None)
    if wrong is not None:
        raise InputError(
            f"{LAYOUT} = {shown(layout)} has {shown(wrong)} between the ends, where only layers "
            f"stand; {_LAYOUT_RULE}"
        )
    if len(pieces) % chunks:
        raise InputError(
            f"{LAYOUT} = {shown(layout)} has {len(pieces)} pieces, not a multiple of "
            f"{SPLIT['chunks']} = {chunks}; change one of them"
        )
    p = len(pieces) // chunks
    each = [sum(piece.count("t") for piece in pieces[stage::p]) for stage in range(p)]
    told = {"all": sum(each), "stages": p}
    if p > 1:
        told |= {"first": each[0], "last": each[-1]}
    if p > 2:
        told["middle"] = max(each[1:-1])
    if "m" in pieces[-1]:
        told["predicting"] = pieces[-1].count("m")
    return {SPLIT[part]: value for part, value in told.items()}


def spelled_out(scenario: Mapping[str, Any], swept: Mapping[str, Any]) -> Mapping[str, Any]:
    """A scenario with counts in place of its patterns."""
    for key in (NAME, LAYOUT):
        if key not in scenario:
            continue
        if key == LAYOUT:
            name = SPLIT["chunks"]
            chunks = scenario.get(name, 1)
            if name in swept or not isinstance(chunks, int) or chunks < 1:
                raise InputError(f"{LAYOUT} needs {name} as one whole number from 1")
            made = stages(scenario[LAYOUT], chunks)
            if "model" in scenario or "model" in swept:
                del made[SPLIT["all"]]  # the label's: a split that does not hold them has a reason
        else:
            made = counts(scenario[NAME])
        for name, value in made.items():
            if name in swept:
                raise InputError(f"{name} is set by {key} and by an axis; keep one")
            if name in scenario and scenario[name] != value:
                raise InputError(
                    f"{name} = {shown(scenario[name])} does not add up with {key}, which makes it "
                    f"{value}; leave one of them out"
                )
        scenario = {**{name: v for name, v in scenario.items() if name != key}, **made}
    return scenario
