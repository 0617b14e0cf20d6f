"""Contents of a record of measurements: rows, and parts that are left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Reading(NamedTuple):
    """One measured value of a record, in the base unit of `of`, at inputs by their public names;
    `notes` list assumptions."""

    inputs: Mapping[str, Any]
    of: str
    measured: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One measured value in the base unit of `of`, and the inputs at which it is predicted.

    `inputs` are names of a scenario; those of an `all_reduce_time` [s] are `message_bytes` [B],
    `ranks`, `nodes` and a calibration or bandwidths. `notes` list assumptions, `where` is the place
    in the source. Rows of one record
    with the same `of` have ids with a suffix, "group/001:full".
    """

    id: str
    group: str
    source: str
    inputs: Mapping[str, Any] = field(hash=False)
    of: str
    measured: float
    notes: tuple[str, ...] = ()
    where: str = ""


@dataclass(frozen=True)
class LeftOut:
    """A record, or part of one, without a row, and why."""

    id: str
    group: str
    reason: str
