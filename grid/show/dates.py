"""Dates: when a job ends that starts on a day, and how long it may take to end on another."""

import math
import re
from datetime import date, timedelta

from ..errors import InputError, shown

_DAY = 86400.0
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_FINISH = re.compile(r"\s*finish\s*(<=|<|=|>=|>)\s*(.*?)\s*")


def day(text: str) -> date:
    """A date as ISO 8601 writes it, year, month and day with hyphens. Raises InputError."""
    try:
        if not _DATE.fullmatch(text):  # Python 3.11 also reads 20270601 and 2027-W22-2
            raise ValueError(text)
        return date.fromisoformat(text)
    except ValueError:
        raise InputError(f"{shown(text)} is not a date; write it as 2027-06-01") from None


def end(start: date, seconds: float) -> str:
    """The day on which a job ends that begins with a day; in words if there is none."""
    if math.isnan(seconds):
        return "-"
    if not math.isfinite(seconds):
        return "never"
    try:
        return (start + timedelta(days=max(0, math.ceil(seconds / _DAY) - 1))).isoformat()
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
            f"target {shown(target)} needs the day on which the job starts; add --start"
        )
    if last < start:
        raise InputError(f"{last} is before the start, {start}; give a later date")
    return f"job_time <= {(last - start).days + 1} d"
