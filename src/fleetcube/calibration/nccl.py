"""Read the output of nccl-tests or rccl-tests: times of a collective, among any other lines.

Each test prints a row for every size, type and operation: size, count, type, then redop and root if
the test has them, then time, algbw, busbw and an error count, out of place and in place. Prefixes
of mpirun, Slurm and other launchers, lines of NCCL and shells, colours, timestamps and
per-iteration statistics are ignored.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetcube.formats.training_log import ESCAPES
from fleetcube.grid.errors import InputError

LONGEST = 1000  # characters of a line: rows have at most 300
MOST_WORDS = 64  # of a line: rows have at most 22, and prefixes a few
MOST_ROWS = 200_000
MOST_RANKS = 1 << 24
# Bus bandwidth over algorithm bandwidth is (a n + b) / n for n ranks: doc/PERFORMANCE.md
FACTORS: Mapping[str, tuple[int, int]] = {
    "all_reduce": (2, -2),
    "all_gather": (1, -1),
    "reduce_scatter": (1, -1),
    "alltoall": (1, -1),
    "broadcast": (1, 0),
    "reduce": (1, 0),
    "sendrecv": (1, 0),
}

_TAG = re.compile(r"\s*\[[\w.,:-]{1,80}\](?:<std(?:out|err|diag)>)?:?")
_RANK = re.compile(r"#\s+Rank\s+(\d{1,8})\s+(?:Group\s+(\d{1,8})\s+)?Pid\s+\d+\s+on\s+(\S+)")
_TEST = re.compile(rf"\b({'|'.join(FACTORS)}|alltoallv|gather|scatter|hypercube)_perf(?:_mpi)?\b")
_HEADER = re.compile(r"#\s+(size|bytes)\s+(count|N)\s+type\s.*\b(time|cputime)\s+algbw")
_BEGINS = re.compile(r"#\s+(?:nThread\s+\d|Collective test starting|nccl-tests version)")
_TYPE = re.compile(r"[a-z][a-z0-9_]{2,15}")
_OPERATION = re.compile(r"[a-z]{3,8}")
_WHOLE = re.compile(r"\d{1,18}")
_NUMBER = re.compile(r"\d{1,18}(?:\.(\d{1,12}))?(?:[eE]([+-]?\d{1,3}))?")
_CLOCK = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d")


def factor(collective: str, ranks: float) -> float:
    """Bytes that cross the bus of a rank, over the bytes of the message."""
    a, b = FACTORS[collective]
    return (a * ranks + b) / ranks


@dataclass(frozen=True)
class Row:
    """One time of a log: message bytes, seconds, intervals of the printed bandwidths."""

    size: int
    seconds: float
    in_place: bool
    type: str
    test: int
    algbw: tuple[float, float]
    busbw: tuple[float, float]


@dataclass
class Test:
    """One run within a log, as described by its header."""

    collective: str | None = None
    groups: dict[int, dict[int, str]] = field(default_factory=dict)  # hosts of ranks
    begun: bool = False  # its rows have begun

    @property
    def hosts(self) -> list[str]:
        """The host of every rank of the largest communicator, if listed."""
        return list(max(self.groups.values(), key=len, default={}).values())

    @property
    def ranks(self) -> int | None:
        return len(self.hosts) or None


@dataclass
class Log:
    """All rows of a log, its tests, and counts of dropped rows by reason."""

    rows: list[Row] = field(default_factory=list)
    tests: list[Test] = field(default_factory=lambda: [Test()])
    dropped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Measured:
    """The rows of one collective on `ranks` ranks; `gpus_per_node` None if unknown or unequal."""

    collective: str
    ranks: int
    gpus_per_node: int | None
    rows: tuple[Row, ...]
    dropped: Mapping[str, int]
    notes: tuple[str, ...]


def parse_log(text: str) -> Log:
    """Every row of an nccl-tests log, text or JSON. Raises InputError for more than MOST_ROWS."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            report = json.loads(text)
            return _from_rccl(report) if isinstance(report, list) else _from_json(report)
        except (ValueError, RecursionError):
            pass  # not JSON: a log that begins with a brace
    log = Log()
    unit: float | None = 1e-6  # of times; None for CPU times
    # Not splitlines, which also splits at form feeds and other separators within a line
    for line in re.split(r"\r\n|\r|\n", text):
        if len(line) > LONGEST:
            continue
        line = ESCAPES.sub("", line)
        if "#" in line or "_perf" in line:
            _header(log, line)
            header = _HEADER.search(line) if "algbw" in line else None
            if header:  # versions before 2.4 print bytes, N and milliseconds
                scale = 1e-3 if header.group(1) == "bytes" else 1e-6
                unit = None if header.group(3) == "cputime" else scale
                continue
        _add(log, line, unit)
    return log


def _header(log: Log, line: str) -> None:
    """Record the properties of a test that a line gives."""
    if "concluded" in line or "NCCL INFO" in line:
        return
    test = log.tests[-1]
    named = _TEST.search(line)
    collective = named.group(1) if named else test.collective
    if test.begun and (_BEGINS.search(line) or collective != test.collective):
        test = Test()
        log.tests.append(test)
    test.collective = collective if named else test.collective
    rank = _RANK.search(line)
    if rank:
        number, group, host = rank.groups()
        test.groups.setdefault(int(group or 0), {})[int(number)] = host


def _add(log: Log, line: str, unit: float | None) -> None:
    table_row = _table_line(line)
    if table_row is None:
        return
    log.tests[-1].begun = True
    size, kind, cells, blank = table_row
    groups = list(_groups(cells))
    if not groups:
        log.dropped["unreadable"] += 1
        return
    if unit is None:
        log.dropped["CPU times (-C), not times of the collective"] += len(groups)
        return
    for k, group in enumerate(groups):
        in_place = k == 1 or (len(groups) == 1 and blank)
        _check(log, size, kind, group, in_place, unit)


def _table_line(line: str) -> tuple[int, str, list[str], bool] | None:
    """Size, type, cells of times and bandwidths, and whether the out-of-place cells are blank."""
    tag = _TAG.match(line)
    words = (line[tag.end() :] if tag else line).split()
    # Start at the first pair of whole numbers: launchers put arbitrary prefixes before a row
    for k in range(len(words) - 5 if len(words) <= MOST_WORDS else 0):
        if _WHOLE.fullmatch(words[k]) and _WHOLE.fullmatch(words[k + 1]):
            kind = words[k + 2]
            if _TYPE.fullmatch(kind):
                cells = words[k + 3 :]
                if _OPERATION.fullmatch(cells[0]) and cells[0] != "nan":
                    cells = cells[1:]
                while cells and _CLOCK.match(cells[-1]):
                    cells.pop()
                if len(cells) % 4 == 1 and re.fullmatch(r"-?\d{1,8}", cells[0]):
                    cells = cells[1:]  # the root
                blank = len(cells) == 4 and bool(re.search(r"\S {25,}\S", line.rstrip()))
                return int(words[k]), kind, cells, blank
    return None


def _groups(cells: list[str]) -> Iterator[list[str]]:
    """Time, algbw, busbw and errors, out of place and in place; no per-iteration statistics."""
    width = 8 if len(cells) == 16 else 4
    if len(cells) in (4, 8, 16):
        for start in range(0, len(cells), width):
            yield cells[start : start + 4]


def _check(log: Log, size: int, kind: str, group: list[str], in_place: bool, unit: float) -> None:
    """Add a row if its numbers are consistent."""
    ranges = [_interval(cell) for cell in group[:3]]
    if any(interval is None for interval in ranges):
        log.dropped["unreadable"] += 1
        return
    time, algbw, busbw = (interval for interval in ranges if interval is not None)
    seconds = float(group[0]) * unit
    if size == 0 or seconds == 0:
        log.dropped["no bytes" if size == 0 else "time 0"] += 1
        return
    errors = _interval(group[3])
    if errors is not None and errors[0] >= 0.5:
        log.dropped["wrong results"] += 1
        return
    fastest = size / (time[0] * unit) if time[0] > 0 else math.inf
    slowest = size / (time[1] * unit)
    low, high = algbw[0] * 1e9 * 0.99, algbw[1] * 1e9 * 1.01  # sizes are cut to whole shares
    if not (low <= fastest and slowest <= high):
        log.dropped["algbw is not size over time"] += 1
        return
    if len(log.rows) >= MOST_ROWS:
        raise InputError(f"the log has more than {MOST_ROWS:,} times; give part of it")
    log.rows.append(Row(size, seconds, in_place, kind, len(log.tests) - 1, algbw, busbw))


def _interval(cell: str) -> tuple[float, float] | None:
    """The interval of numbers that print as this cell."""
    match = _NUMBER.fullmatch(cell)
    if match is None:
        return None
    value = float(cell)
    if not math.isfinite(value):
        return None
    half = 0.5 * 10.0 ** (int(match.group(2) or 0) - len(match.group(1) or ""))
    return max(value - half, 0.0), value + half


def _from_json(report: Any) -> Log:
    """The rows of a report written by -J. Raises ValueError for other JSON."""
    if not isinstance(report, dict) or not isinstance(report.get("results"), list):
        raise ValueError
    log = Log()
    test = log.tests[0]
    arguments = report.get("args")
    for word in arguments if isinstance(arguments, list) else []:
        named = _TEST.search(word) if isinstance(word, str) else None
        test.collective = test.collective or (named.group(1) if named else None)
    config = report.get("config")
    devices = config.get("devices") if isinstance(config, dict) else None
    for device in devices if isinstance(devices, list) else []:
        if isinstance(device, dict) and isinstance(device.get("rank"), int):
            group = device.get("group")
            ranks = test.groups.setdefault(group if isinstance(group, int) else 0, {})
            ranks[device["rank"]] = str(device.get("hostname"))
    for result in report["results"]:
        for place in ("out_of_place", "in_place"):
            times = result.get(place) if isinstance(result, dict) else None
            if isinstance(times, dict):
                _add_json(log, result, times, place == "in_place")
    return log


def _from_rccl(report: list[Any]) -> Log:
    """The rows of a report written by rccl-tests, -Z json. Raises ValueError for other JSON."""
    entries = [entry for entry in report if isinstance(entry, dict) and "busBw" in entry]
    if not entries:
        raise ValueError
    log = Log()
    names = {name.replace("_", ""): name for name in FACTORS}  # "AllReduce", "AlltoAll"
    log.tests[0].collective = names.get(str(entries[0].get("name")).lower())
    ranks, share = (entries[0].get(key) for key in ("ranks", "ranksPerNode"))  # where MPI ran it
    if isinstance(ranks, int) and isinstance(share, int) and 0 < share <= ranks <= 1 << 16:
        log.tests[0].groups[0] = {rank: str(rank // share) for rank in range(ranks)}
    for entry in entries:
        keys = {"time": "time", "alg_bw": "algBw", "bus_bw": "busBw", "nwrong": "wrong"}
        times = {name: entry.get(key) for name, key in keys.items()}
        _add_json(log, entry, times, entry.get("inPlace") == 1)
    return log


def _add_json(
    log: Log, result: Mapping[str, Any], times: Mapping[str, Any], in_place: bool
) -> None:
    if "cpu_time" in times:
        log.dropped["CPU times (-C), not times of the collective"] += 1
        return
    cells = [str(times.get(name)) for name in ("time", "alg_bw", "bus_bw", "nwrong")]
    size = result.get("size")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 10**18:
        log.dropped["unreadable"] += 1
        return
    _check(log, size, str(result.get("type"))[:16], cells, in_place, 1e-6)


def measured(
    log: Log, ranks: int | None = None, collective: str | None = None, in_place: bool | None = None
) -> Measured:
    """The rows of one collective on one number of ranks. Raises InputError. By default `ranks` and
    `collective` are those stated by the log, else implied by its bus bandwidths, else an
    all-reduce; `in_place` None takes rows in and out of place."""
    if not log.rows:
        reasons = ", ".join(f"{count} {reason}" for reason, count in log.dropped.items())
        raise InputError(
            f"the log holds no usable row of nccl-tests{f' ({reasons})' if reasons else ''}; "
            "give the output of all_reduce_perf -b 8 -e 8G -f 2"
        )
    used = {row.test for row in log.rows}
    collective = _collective({log.tests[k].collective for k in used}, collective)
    tests = [k for k in sorted(used) if log.tests[k].collective in (None, collective)]
    listed = {log.tests[k].ranks for k in tests} - {None}
    if ranks is None and len(listed) > 1:
        counts = " and ".join(str(count) for count in sorted(filter(None, listed)))
        raise InputError(f"the log holds tests of {counts} ranks; choose with --ranks")
    if ranks is None and listed:
        ranks = listed.pop()
    tests = [k for k in tests if ranks is None or log.tests[k].ranks in (None, ranks)]
    chosen = [row for row in log.rows if row.test in tests]
    if not chosen:
        counts = " and ".join(str(count) for count in sorted(filter(None, listed)))
        raise InputError(f"the log is of {counts} ranks, not {ranks}; leave --ranks out")
    if ranks is None:
        ranks = _implied_ranks(chosen, collective)
    if not 2 <= ranks <= MOST_RANKS:
        raise InputError(f"ranks = {ranks} is not from 2 to {MOST_RANKS:,}; give --ranks N")
    dropped = Counter(log.dropped)
    share = factor(collective, ranks)
    agreeing = [row for row in chosen if _agrees(row, share)]
    if not agreeing:
        raise InputError(
            f"the log's bus bandwidths are not those of {collective} on {ranks} ranks; "
            "give the right --ranks and --collective"
        )
    dropped["busbw is not that of the ranks"] += len(chosen) - len(agreeing)
    matching = [row for row in agreeing if in_place is None or row.in_place == in_place]
    if not matching:
        where = "in place" if in_place else "out of place"
        raise InputError(f"the log has no row {where}; leave --{where.replace(' ', '-')} out")
    types = sorted({row.type for row in matching})
    notes = [f"rows of types {', '.join(types)} are fitted together"] if len(types) > 1 else []
    shares = {count for k in tests for count in Counter(log.tests[k].hosts).values()}
    gpus_per_node = shares.pop() if len(shares) == 1 else None
    dropped_rows = {reason: count for reason, count in dropped.items() if count}
    return Measured(collective, ranks, gpus_per_node, tuple(matching), dropped_rows, tuple(notes))


def _collective(named: set[str | None], wanted: str | None) -> str:
    kinds = {name for name in named if name is not None}
    if wanted is None and len(kinds) > 1:
        raise InputError(f"the log holds {', '.join(sorted(kinds))}; choose with --collective")
    chosen = wanted or (kinds.pop() if kinds else "all_reduce")
    if chosen not in FACTORS:
        raise InputError(
            f"collective = {chosen[:40]!r} has no law; choose one of {', '.join(FACTORS)}"
        )
    if wanted is not None and None not in named and wanted not in named:
        raise InputError(f"the log holds {', '.join(sorted(kinds))}, not {wanted}; name another")
    return chosen


def _agrees(row: Row, share: float) -> bool:
    """True if bus bandwidth is algorithm bandwidth times a share, within printed digits."""
    return row.algbw[0] * share * 0.999 <= row.busbw[1] and (
        row.busbw[0] <= row.algbw[1] * share * 1.001
    )


def _implied_ranks(rows: list[Row], collective: str) -> int:
    """The only number of ranks consistent with the printed bus bandwidths."""
    a, b = FACTORS[collective]
    low, high = 1.0, float(MOST_RANKS)
    for row in rows:
        if b and row.algbw[0] > 0:  # (a n + b) / n grows with n
            least, most = row.busbw[0] / row.algbw[1], row.busbw[1] / row.algbw[0]
            low = max(low, -b / (a - least)) if least < a else low
            high = min(high, -b / (a - most)) if most < a else high
    first, last = math.ceil(low - 1e-9), math.floor(high + 1e-9)
    if first != last or first < 2:
        raise InputError("the log does not determine the number of ranks; give --ranks N")
    return first
