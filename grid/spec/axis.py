"""An axis as numbers in SI: its coordinate, what varies along it, and how long it may be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError

Array = np.ndarray[Any, Any]
LONGEST = 5_000_000  # values that the axes of a spec generate
MOST_SPELLED = 300_000  # points of an axis named by texts


@dataclass(frozen=True)
class Axis:
    """One dimension: its coordinate, and every input that varies along it.

    `labels` is the coordinate: numbers in the base unit, or text. `numbers` and `options` hold
    what the dimension sets; `records` names the catalog entries behind labels, by kind.
    """

    name: str
    labels: Array
    numbers: Mapping[str, Array] = field(default_factory=dict)
    options: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    records: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Mapping[str, Array] = field(default_factory=dict)  # where they decide

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names set by this axis as written: inputs, quantities and catalog kinds."""
        return (*self.numbers, *self.options, *self.records)

    def cut(self, index: Array) -> "Axis":
        """Some of its points, by their numbers."""
        return Axis(
            self.name,
            self.labels[index],
            {name: row[index] for name, row in self.numbers.items()},
            {name: tuple(row[k] for k in index) for name, row in self.options.items()},
            {name: tuple(row[k] for k in index) for name, row in self.records.items()},
        )


def check_length(name: str, count: int, most: int = LONGEST) -> None:
    """Refuse an axis that is too long, before its values are made."""
    if count > most:
        raise InputError(
            f"axis {name!r} has {count:,} values; at most {most:,} are allowed: give fewer"
        )
