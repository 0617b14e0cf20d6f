"""Logs of failures: tables of events, Slurm's accounting, Xids of NVIDIA's driver, restarts."""

import contextlib
import csv
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from fleetcube.catalog.units import UnitError, parse
from fleetcube.grid.errors import InputError, shown
from fleetcube.kernels.physics.roles import LOST
from fleetcube.text import unguarded

MOST_ROWS = 200_000
LONGEST = 2_000  # characters of a line, or of a name in it
NO_FAILURE = "-"  # a kind that interrupts nothing
# Words for a part that fails, in this order: "switch/cable" is the card's, as no one knows
_WORDS = {
    NO_FAILURE: "planned|scheduled|preempted|no failure",
    "silent_corruption": "silent|sdc|corruption",
    "psu": "psu|power supply|power supplies",
    "gpu": r"gpus?|hbm\w?|sram|ecc|nvlink|nvswitch",
    "nic": "nics?|hca|network|switch/cable",
    "cable": "cables?|optics|transceiver|link flap",
    "switch": "switch(es)?|leaf|tor",
    "software": "software|bug|watchdog|nccl|dependency|job|code|application",
    "host": "host|node|cpu|memory|dimm|ssd|disk|chassis|board|server",
}
# Headings, in plain words
_COLUMNS = {
    "time": "time|time ?stamp|date|date ?time|when|start|(start|event) time",
    "node": "node|nodes|host|host ?name|node ?name|server|instance|machine|node ?list",
    "kind": "kind|type|(root )?cause|category|component|reason|fault|error|event|"
    "(failure|interruption)( kind| type| cause)?",
    "count": "count|events|interruptions|failures|number",
    "lost": "lost|time lost|lost time|down ?time|recovery time",
    "detection": "detection|detection time|time to detect",
    "restart": "restart|(restart|reinit) time|time to restart",
}
_UNITS = {"s": "s|sec|secs|seconds?", "min": "min|mins|minutes?", "h": "h|hrs?|hours?"}
# The part at fault by the state of a job, "" if unclear (Slurm, sacct, job states)
_STATES = {
    **dict.fromkeys(("NODE_FAIL", "BOOT_FAIL"), "host"),
    **dict.fromkeys(("FAILED", "OUT_OF_MEMORY", "OOM"), "software"),
    **dict.fromkeys(("COMPLETED", "COMPLETING", "CONFIGURING", "PENDING", "RUNNING"), NO_FAILURE),
    **dict.fromkeys(("CANCELLED", "DEADLINE", "PREEMPTED", "RESIZING", "REVOKED"), NO_FAILURE),
    **dict.fromkeys(("STOPPED", "SUSPENDED", "TIMEOUT"), NO_FAILURE),
}
_ELAPSED = re.compile(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d{1,6}(?:\.\d{1,9})?)")
_GPUS = re.compile(r"gres/gpu(:[^=,]{1,60})?=(\d{1,9})")
# Xids by the action in NVIDIA's catalog: reset or replace the GPU, restart the application, or
# nothing (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, 2025-10). A
# contained memory error (94) is the GPU's, though a restart of the application is enough
_OF_GPU = (46, 48, 54, 62, 64, 74, 79, 94, 95, 109, 110, 119, 120, 136, 140, 142, 143)
_OF_GPU += (*range(144, 151), 155, 156, 158, 171, 172)
_OF_SOFTWARE = (8, 11, 13, 25, 31, 32, 39, 40, 41, 60, *range(68, 73), 75, 76, 77, 80)
_OF_SOFTWARE += (*range(82, 87), 88, 89, *range(96, 106), *range(126, 136), 139)
_OF_NONE = (37, 38, 43, 44, 45, 63, 66, 67, 92, 93, 106, 107, 121, 137, 141, 152, 153, 154, 157)
_XIDS: Mapping[int, str] = {
    **dict.fromkeys(_OF_GPU, "gpu"),
    **dict.fromkeys(_OF_SOFTWARE, "software"),
    **dict.fromkeys((*_OF_NONE, 160, 161), NO_FAILURE),
}
_CODE = re.compile(r"\bxid:? ?(\d{1,4})\b", re.IGNORECASE)
_XID = re.compile(r"NVRM: Xid \([^)]{1,40}\): (\d{1,4})\b")
_STAMP = re.compile(
    r"\[(\w{3} \w{3} [ \d]\d [\d:]{8} \d{4})\]|\[ *(\d{1,12}\.\d{1,9})\]"
    r"|(\d{4}-\d\d-\d\d[T ][\d:.,]{5,18}(?:Z|[+-]\d\d:?\d\d)?)|\b([A-Z][a-z]{2} [ \d]\d [\d:]{8})\b"
)
_HOST = re.compile(r"([\w.-]{1,80}) kernel:|^([\w.-]{1,80}): ")
# NVIDIA Resiliency Extension, shared_utils/profiling.py
_CYCLE = re.compile(
    r"Cycle: \w{1,9} Event: failure_detected Node: .{1,200} Time: ([\d :.-]{8,30}) "
)
_RESTART = re.compile(r"Cycle: (\w{1,9}) total_restart_time(?: \([\w ]{1,30}\))?: ([\d.]{1,20})s")
_FORMATS = ("%a %b %d %H:%M:%S %Y", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%Y %b %d %H:%M:%S")


@dataclass(frozen=True)
class Event:
    """Something that stopped a job: when (in seconds), where, its kind as the log calls it, and the
    part that failed ("" if unknown)."""

    time: float | None
    node: str
    kind: str
    part: str
    count: int = 1
    lost: Mapping[str, float] = field(default_factory=dict)  # seconds, by column


@dataclass
class Log:
    """A parsed log: events, times of no single event, and the time watched (0 if not stated)."""

    source: str
    events: list[Event] = field(default_factory=list)
    lost: dict[str, list[float]] = field(default_factory=dict)
    gpu_seconds: float = 0.0
    node_seconds: float = 0.0
    seconds: float = 0.0
    dropped: Counter[str] = field(default_factory=Counter)


def parse_log(text: str, name: str) -> Log:
    """The events of a log's text; `name` is that of the file. Raises InputError."""
    if (log := recognized(text)) is None:
        raise InputError(
            f"{name!r} holds no failures that fleetcube recognizes; give a table with columns "
            "time, node and kind, sacct --parsable2, or kernel logs with Xids"
        )
    return log


def recognized(text: str) -> Log | None:
    """Events of a log; None if the file is not one. Raises InputError if it is malformed."""
    if _XID.search(text):
        return _xids(text)
    if _CYCLE.search(text):
        return _cycles(text)
    rows = _rows(text)
    head = list(islice(rows, 1000))
    reader = _reader_of({name for row in head for name in row})
    return reader(list(chain(head, rows))) if reader else None


def _reader_of(headings: Collection[str]) -> Callable[[Sequence[Mapping[str, Any]]], Log] | None:
    """The reader of a table with these headings; None if they describe no events."""
    names, columns, _ = zip(*map(_plain, headings), strict=True) if headings else ((), (), ())
    if {"state", "elapsed"} <= {*names}:
        return _jobs
    if "job_start_time" in headings:
        return _restarts
    return _table if "kind" in columns or {"time", "node"} <= {*columns} else None


def part_of(kind: str) -> str:
    """The part that failed, from the words of a failure's kind; "" if unknown."""
    if code := _CODE.search(kind[:LONGEST]):
        return _XIDS.get(int(code[1]), "")
    words = re.sub(r"[^a-z0-9/]+", " ", kind[:LONGEST].lower())
    parts = (part for part, pattern in _WORDS.items() if re.search(rf"\b({pattern})\b", words))
    return next(parts, "")


def time_of(text: Any) -> float | None:
    """Seconds since 1970 of a date, or of a number of seconds or milliseconds; None if unreadable.
    Without a zone it is UTC: only differences matter."""
    text = _text(text)[:60]
    with contextlib.suppress(ValueError):
        number = float(text)
        return (number / 1000 if number > 1e11 else number) if math.isfinite(number) else None
    for form in ("", *_FORMATS):
        with contextlib.suppress(ValueError, OverflowError):
            dated = f"2000 {text}" if form[:2] == "%Y" else text  # a kernel states no year
            moment = datetime.strptime(dated, form) if form else datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None


def _rows(text: str) -> Iterator[dict[str, Any]]:
    """Objects of JSON lines, or of a list, or rows of a table with any usual separator."""
    begins = text.lstrip()[:1]
    rows = _objects(text) if begins in ("{", "[") else _cells(text)
    for count, row in enumerate(rows):
        if count >= MOST_ROWS:
            raise InputError(f"the log has more than {MOST_ROWS:,} rows; give a part of it")
        yield row


def _objects(text: str) -> Iterator[dict[str, Any]]:
    whole = text.lstrip()[:1] == "["
    for line in [text] if whole else text.splitlines():
        try:
            content = json.loads(line) if line.strip() else []
        except (ValueError, RecursionError):
            continue
        for each in content if isinstance(content, list) else [content]:
            inner = each.get("jsonPayload", each) if isinstance(each, dict) else None
            if isinstance(inner, dict):
                yield inner


def _cells(text: str) -> Iterator[dict[str, Any]]:
    lines = [line for line in text.replace("\0", "").splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("#")]
    first = lines[0] if lines else ""
    mark = max("|,;\t", key=first.count)
    table = csv.reader(lines, delimiter=mark, skipinitialspace=True)
    try:
        heading = [unguarded(cell.strip())[:LONGEST] for cell in next(table, [])]
    except csv.Error:
        return
    if not _reader_of(heading):
        return
    yield dict.fromkeys(heading, "")  # of a log without any event, too
    try:
        for cells in table:
            yield dict(zip(heading, map(unguarded, cells), strict=False))
    except csv.Error as error:
        raise InputError(f"the log is no table: {error}; fix that line") from None


@lru_cache(10_000)
def _plain(heading: str) -> tuple[str, str, str]:
    """Normalised column heading, its subject, and its unit (default: minutes)."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+", " ", heading[:80]).lower().split()
    units = {word: unit for word in words for unit, n in _UNITS.items() if re.fullmatch(n, word)}
    name = " ".join(word for word in words if word not in units)
    column = next((label for label, pattern in _COLUMNS.items() if re.fullmatch(pattern, name)), "")
    if not name and units:
        column = "lost"  # "minutes"
    return name, column, next(iter(units.values()), "min")


def _table(rows: Sequence[Mapping[str, Any]]) -> Log:
    log = Log("a table of events")
    columns: dict[str, tuple[str, str]] = {}
    for heading in dict.fromkeys(heading for row in rows for heading in row):
        _, column, unit = _plain(heading)
        columns.setdefault(column, (heading, unit))
    columns.pop("", None)
    for row in rows:
        cells = {name: _text(row.get(heading)) for name, (heading, _) in columns.items()}
        if not any(cells.values()):
            continue
        lost = {}
        for name in filter(cells.get, LOST):
            seconds = _seconds(cells[name], columns[name][1])
            if seconds is None:
                log.dropped[f"{name} times that cannot be read"] += 1
            else:
                lost[name] = seconds
        kind = cells.get("kind", "")
        if (time := time_of(cells.get("time", ""))) is None and cells.get("time"):
            log.dropped["dates that cannot be read (they part no repeated lines)"] += 1
        many = cells.get("count") or "1"
        if not re.fullmatch(r"\d{1,9}(\.0*)?", many):
            raise InputError(f"count = {shown(many)} is not a whole number; fix that row")
        log.events.append(
            Event(time, cells.get("node", ""), kind, part_of(kind), int(float(many)), lost)
        )
    return log


def _text(value: Any) -> str:
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    try:
        return str(value).strip()[:LONGEST] if plain else ""
    except ValueError:  # a whole number of thousands of digits
        return ""


def _seconds(text: str, unit: str) -> float | None:
    """A time of a cell, with a unit of its own or that of its column."""
    plain = re.fullmatch(r"[\d_]{1,20}(\.\d{0,20})?", text)
    try:
        seconds = _elapsed(text)
        seconds = (
            parse(f"{text} {unit}" if plain else text, "s", "time") if seconds is None else seconds
        )
    except UnitError:
        return None
    return seconds if 0 <= seconds < math.inf else None


def _elapsed(text: str) -> float | None:
    """Slurm's [days-][hours:]minutes:seconds."""
    match = _ELAPSED.fullmatch(text.strip())
    if not match:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _jobs(rows: Sequence[Mapping[str, Any]]) -> Log:
    """Slurm's accounting: each line of a job, not of its steps, is time watched."""
    log = Log("Slurm's accounting")
    for row in rows:
        cells = {_plain(heading)[0].replace(" ", ""): _text(cell) for heading, cell in row.items()}
        if "." in cells.get("jobid", "") or not any(cells.values()):
            continue
        state = cells.get("state", "").partition(" ")[0].rstrip("+").upper()
        elapsed, gpus = _elapsed(cells.get("elapsed", "")), _gpus(cells.get("alloctres", ""))
        if elapsed is None or not state:
            log.dropped["lines without a state and a time"] += 1
        elif not gpus:
            log.dropped["jobs without GPUs (AllocTRES)"] += 1
        else:
            nodes = cells.get("nnodes") or cells.get("allocnodes") or "1"
            log.gpu_seconds += gpus * elapsed
            log.node_seconds += (int(nodes) if re.fullmatch(r"\d{1,7}", nodes) else 1) * elapsed
            part = _STATES.get(state, "")
            log.events.append(
                Event(time_of(cells.get("end")), cells.get("nodelist", ""), state, part)
            )
    return log


def _gpus(allocated: str) -> int:
    """GPUs of AllocTRES: all, or the sum of the kinds."""
    counts = _GPUS.findall(allocated)
    return sum(int(n) for kind, n in counts if not kind) or sum(int(n) for _, n in counts)


def _xids(text: str) -> Log:
    log = Log("Xids in kernel logs")
    for line in text.splitlines():
        cut = line[:LONGEST]
        if not (match := _XID.search(cut)):
            continue
        before = cut[: match.start()]
        stamp, host = _STAMP.search(before), _HOST.search(before)
        time = time_of(next(filter(None, stamp.groups()))) if stamp else None
        kind = f"Xid {match[1]}"
        node = next(filter(None, host.groups())) if host else "this node"
        log.events.append(Event(time, node, kind, part_of(kind)))
        if len(log.events) > MOST_ROWS:
            raise InputError(f"the log has more than {MOST_ROWS:,} Xids; give a part of it")
    return log


def _cycles(text: str) -> Log:
    """Restarts as the NVIDIA Resiliency Extension sums them up; every rank logs each of them."""
    log = Log("restarts of the NVIDIA Resiliency Extension")
    restarts: dict[str, float] = {}
    for line in text.splitlines():
        cut = line[:LONGEST]
        if match := _CYCLE.search(cut):
            log.events.append(Event(time_of(match[1]), "all ranks", "", ""))
        elif (match := _RESTART.search(cut)) and (seconds := time_of(match[2])) is not None:
            restarts[match[1]] = max(seconds, restarts.get(match[1], 0.0))
    log.lost["restart"] = list(restarts.values())
    return log


def _restarts(rows: Sequence[Mapping[str, Any]]) -> Log:
    """The log of ml-goodput-measurement: every start of the job but the first is after a failure,
    and what lies between the last step before it and the first after it is lost."""
    log = Log("starts and steps of ml-goodput-measurement")
    names = {"job_start_time": True, "step_start_time": False}
    times = [(time_of(row[n]), begins) for row in rows for n, begins in names.items() if n in row]
    marks = sorted((time, begins) for time, begins in times if time is not None)
    log.dropped["times that cannot be read"] += len(times) - len(marks)
    last, starts = None, -1  # the first start follows no failure
    for time, begins in marks:
        if begins:
            starts += 1
            continue
        if starts > 0:
            lost: dict[str, float] = {} if last is None else {"lost": time - last}
            log.events.append(Event(time, "", "", "", starts, lost))
        last, starts = time, 0
    if starts > 0:
        log.events.append(Event(None, "", "", "", starts))
    log.seconds = marks[-1][0] - marks[0][0] if marks else 0.0
    return log
