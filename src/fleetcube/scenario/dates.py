"""Dates: when a job with a start date ends, and how long it may take to end on another.

A scenario may state the job's start date. No formula reads it; printed times include dates.
"""

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from fleetcube.grid.errors import InputError, shown

NAME = "start_date"
ABOUT = "the day on which the job starts, so that tables say when it ends"
_DAY = 86400.0
ENDLESS = 300 * 365.25 * _DAY  # seconds: a longer job never ends
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FINISH = re.compile(r"\s*finish\s*(<=|<|=|>=|>)\s*(.*?)(\s+with\s.*)?\s*")


def day(text: Any, name: str = "") -> date:
    """An ISO 8601 date: year, month and day with hyphens. Raises InputError."""
    if isinstance(text, date) and not isinstance(text, datetime):  # as in TOML
        return text
    try:
        if not _DATE.fullmatch(text):  # Python 3.11 also reads 20270601 and 2027-W22-2
            raise ValueError(text)
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        stated = f"{name} = {shown(text)}" if name else shown(text)
        raise InputError(f"{stated} is not a date; write it as 2027-06-01") from None


def start_of(scenario: Mapping[str, Any]) -> date | None:
    """The start date of a scenario's job, if stated. Raises InputError."""
    return day(scenario[NAME], NAME) if NAME in scenario else None


def end(start: date, seconds: float) -> str:
    """The last day of a job that starts on the morning of `start`; "never" after 300 years."""
    return _later(start, math.ceil(seconds / _DAY) - 1 if math.isfinite(seconds) else seconds)


def begin(start: date, seconds: float) -> str:
    """Start date plus `seconds`; "never" after 300 years."""
    return _later(start, math.floor(seconds / _DAY) if math.isfinite(seconds) else seconds)


def _later(start: date, days: float) -> str:
    if not days * _DAY <= ENDLESS:
        return "-" if math.isnan(days) else "never"
    try:
        return (start + timedelta(days=max(0, days))).isoformat()
    except OverflowError:
        return "after 9999"


def as_time(target: str, start: date | None) -> str:
    """A target "finish <= DATE" as one of job_time, that day included; others unchanged. Raises
    InputError for a date before the start, a missing start, and other relations."""
    match = _FINISH.fullmatch(target)
    if match is None:
        return target
    relation, text, chance = match.groups("")
    if relation != "<=":
        raise InputError(f"target {shown(target)}: finish is met by a date; write finish <= {text}")
    last = day(text)
    if start is None:
        raise InputError(
            f"target {shown(target)} needs the day on which the job starts; add {NAME} to the "
            f"spec, or {NAME}=2026-12-01"
        )
    if last < start:
        raise InputError(f"{last} is before the start, {start}; give a later date")
    return f"job_time <= {(last - start).days + 1} d{chance}"
