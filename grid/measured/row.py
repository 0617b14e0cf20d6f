"""What a record of measurements gives: rows, and parts that are left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One measured value, and the inputs at which it is predicted.

    `inputs` are names that a scenario may set; those of an `all_reduce_time` [s] are
    `message_bytes` [B], `ranks`, `nodes` and a calibration or bandwidths. `measured` is in the base
    unit of `of`. `notes` list what the record does not state, and what was assumed. If several rows
    of one record have the same `of`, their ids have a suffix, as in "group/001:full".
    """

    id: str
    group: str
    source: str
    inputs: Mapping[str, Any] = field(hash=False)
    of: str
    measured: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A record, or part of one, that gave no row, and why."""

    id: str
    group: str
    reason: str
