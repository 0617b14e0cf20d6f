"""One published measurement, read by dotted key; a missing or invalid value leaves it out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import shown

LONGEST = 2000  # characters of a text
LARGEST_NUMBER = 1e30
SECTIONS = ("model", "system", "parallel", "measured", "derived", "inputs")
_REQUIRED = object()


class UnreadableError(Exception):
    """Why a record, or a part of one, cannot be predicted: one line."""


@dataclass(frozen=True)
class Reading:
    """One value of a record: inputs by public name, the measured value in the base unit. `variant`
    distinguishes the readings of a record, `notes` list assumptions, and `group` replaces the
    record's where errors are counted separately."""

    inputs: Mapping[str, Any]
    measured: float
    of: str = "step_time"
    notes: tuple[str, ...] = ()
    variant: str = ""
    group: str = ""


class Facts:
    """The values of a record, checked on access. Raises UnreadableError."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        self.record = record

    def raw(self, key: str) -> Any:
        """The value at `section.name`; None if missing or null."""
        section, _, name = key.partition(".")
        value = self.record.get(section)
        if not name:
            return value
        return value.get(name) if isinstance(value, Mapping) else None

    def number(self, key: str, default: Any = _REQUIRED) -> Any:
        """A finite number above 0."""
        value = self._given(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise UnreadableError(f"{key} = {shown(value)} is not a number")
        if not 0 < value <= LARGEST_NUMBER or math.isnan(value):
            raise UnreadableError(f"{key} = {shown(value)} is not a finite number above 0")
        return float(value)

    def whole(self, key: str, default: Any = _REQUIRED, least: int = 1) -> Any:
        """A whole number of at least `least`."""
        value = self._given(key, default)
        if value is default:
            return value
        whole = isinstance(value, int | float) and not isinstance(value, bool)
        if not whole or not least <= value <= 1e15 or value != int(value):
            raise UnreadableError(f"{key} = {shown(value)} is not a whole number from {least}")
        return int(value)

    def text(self, key: str, default: Any = _REQUIRED) -> Any:
        value = self._given(key, default)
        if value is default:
            return value
        if not isinstance(value, str) or len(value) > LONGEST:
            raise UnreadableError(f"{key} = {shown(value)} is not a short text")
        return value

    def flag(self, key: str, default: Any = _REQUIRED) -> Any:
        value = self._given(key, default)
        if value is not default and not isinstance(value, bool):
            raise UnreadableError(f"{key} = {shown(value)} is not true or false")
        return value

    def _given(self, key: str, default: Any) -> Any:
        value = self.raw(key)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise UnreadableError(f"{key} is missing")
        return default
