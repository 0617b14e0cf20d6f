"""A batch stated in tokens, whose sequences follow their length."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fleetcube.catalog import CatalogError, record
from fleetcube.grid.errors import InputError, shown
from fleetcube.grid.spec import values
from fleetcube.grid.spec.axis import Array, Axis
from fleetcube.kernels.physics.graph import PHYSICS
from fleetcube.kernels.physics.roles import BATCH as IN_TOKENS

BATCH, LENGTH, _ALIKE = IN_TOKENS
_TOKENS = re.compile(r"\s*(\S.*?)\s*tokens?\s*")


def tokens_of(name: str, value: Any) -> float | None:
    """The tokens of a batch such as "16,777,216 tokens"; None for other values."""
    match = _TOKENS.fullmatch(value) if name == BATCH and isinstance(value, str) else None
    return values.number(PHYSICS, _ALIKE, match[1]) if match else None


def in_sequences(
    scenario: Mapping[str, Any], axes: Sequence[Axis], free: Collection[str] = ()
) -> tuple[Mapping[str, Any], list[Axis], dict[str, str]]:
    """A scenario and axes with the sequences of a batch that is stated in tokens, along the axis of
    their length if there is one; and what is kept along it. Raises InputError."""
    by_axis = any(BATCH in each.numbers for each in axes)
    if (tokens := tokens_of(BATCH, scenario.get(BATCH))) is None:
        grows = any(axis.name == LENGTH and axis.size > 1 for axis in axes) and not by_axis
        return scenario, [*axes], {BATCH: SEQUENCES_KEPT} if grows else {}
    others = {name: value for name, value in scenario.items() if name != BATCH}
    if by_axis:  # it has the last word
        return others, [*axes], {}
    text = f"{BATCH} = {shown(scenario[BATCH])}"
    if LENGTH in free:
        raise InputError(f"{text} needs a {LENGTH}, which is sought; give a number of sequences")
    axis, lengths = _lengths(scenario, axes)
    sequences = tokens / lengths
    if (sequences % 1).any() or (sequences < 1).any():
        longest = lengths.max()
        near = 2 ** max(0, round(float(np.log2(tokens / longest))))
        raise InputError(
            f"{text} is {tokens / longest:,.6g} sequences of {longest:,.0f}, no whole number; "
            f'write for example "{near * longest:,.0f} tokens", which is {near:,}'
        )
    ends = dict.fromkeys(f"{sequences[k]:,.0f} sequences of {lengths[k]:,.0f}" for k in (0, -1))
    notes = {BATCH: f"{BATCH} {scenario[BATCH]!r}: {' to '.join(ends)}"}
    if axis is None:
        return {**others, BATCH: sequences.item()}, [*axes], notes
    rows = {**axis.numbers, BATCH: sequences}
    return others, [replace(each, numbers=rows) if each is axis else each for each in axes], notes


SEQUENCES_KEPT = (
    f"the sequences of {BATCH} are kept along {LENGTH}, and tokens a step grow with it: a batch in "
    'tokens, as "16,777,216 tokens", is kept in tokens'
)


def _lengths(scenario: Mapping[str, Any], axes: Sequence[Axis]) -> tuple[Axis | None, Array]:
    """The lengths of sequences, and the axis along which they are."""
    single = _of_model(scenario.get("model"))
    if LENGTH in scenario and not isinstance(scenario[LENGTH], Mapping):
        single = values.number(PHYSICS, LENGTH, scenario[LENGTH])
    for axis in axes:
        if LENGTH in axis.numbers:
            row = axis.numbers[LENGTH]
            return axis, np.where(np.isnan(row), single, row)
        if "model" in axis.records and LENGTH not in scenario:
            return axis, np.array([_of_model(label) for label in axis.records["model"]])
    return None, np.array([single])


def _of_model(label: Any) -> float:
    default = PHYSICS.inputs[LENGTH].default
    try:
        named = isinstance(label, str)
        return float(record("model", label).values.get(LENGTH, default) if named else default)
    except CatalogError:  # refused where labels are read
        return float(default)
