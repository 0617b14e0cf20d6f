"""Dates: when a job ends that starts on a day, and how long it may take to end on another.

A scenario may say the day on which its job starts. No law reads it; what prints times says dates.
"""

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from ..errors import InputError, shown

NAME = "start_date"
ABOUT = "the day on which the job starts, so that tables say when it ends"
_DAY = 86400.0
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FINISH = re.compile(r"\s*finish\s*(<=|<|=|>=|>)\s*(.*?)\s*")


def day(text: Any, name: str = "") -> date:
    """A date as ISO 8601 writes it, year, month and day with hyphens. Raises InputError."""
    if isinstance(text, date) and not isinstance(text, datetime):  # as TOML has them
        return text
    try:
        if not _DATE.fullmatch(text):  # Python 3.11 also reads 20270601 and 2027-W22-2
            raise ValueError(text)
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        said = f"{name} = {shown(text)}" if name else shown(text)
        raise InputError(f"{said} is not a date; write it as 2027-06-01") from None


def start_of(scenario: Mapping[str, Any]) -> date | None:
    """The day on which a scenario's job starts, if it says so. Raises InputError."""
    return day(scenario[NAME], NAME) if NAME in scenario else None


def end(start: date, seconds: float) -> str:
    """The day on which a job ends that begins with a day; in words if there is none."""
    return _later(start, math.ceil(seconds / _DAY) - 1 if math.isfinite(seconds) else seconds)


def begin(start: date, seconds: float) -> str:
    """The day on which begins what follows a time since a day's beginning; in words if none."""
    return _later(start, math.floor(seconds / _DAY) if math.isfinite(seconds) else seconds)


def _later(start: date, days: float) -> str:
    if not math.isfinite(days):
        return "-" if math.isnan(days) else "never"
    try:
        return (start + timedelta(days=max(0, days))).isoformat()
    except OverflowError:
        return "after 9999"


def as_time(target: str, start: date | None) -> str:
    """A target "finish <= DATE" as one of job_time: the end of that day counts; others as they are.

    Raises InputError for a date before the start, a start that is missing, and other relations.
    """
    found = _FINISH.fullmatch(target)
    if found is None:
        return target
    relation, text = found.groups()
    if relation != "<=":
        raise InputError(f"target {shown(target)}: finish is met by a date; write finish <= {text}")
    last = day(text)
    if start is None:
        raise InputError(
            f"target {shown(target)} needs the day on which the job starts; add --start, "
            f"or {NAME} to the spec"
        )
    if last < start:
        raise InputError(f"{last} is before the start, {start}; give a later date")
    return f"job_time <= {(last - start).days + 1} d"
