"""Memory and cores that control groups, such as a container's, leave to this process (Linux).

The limits of our group and of those around it count, in either version of the interface.
"""

import functools
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path("/")
# A limit in either version, the usage, and the part of it in memory.stat that is freed on demand
_MEMORY = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.high", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
_NONE = 1 << 60  # bytes: version 1 writes an unset limit as 2^63 less a page


def memory(root: Path = ROOT) -> float:
    """Bytes that can be used before the nearest limit; infinite where there is none."""
    free = math.inf
    for file, used, stat, cache in _limits(root):
        if (limit := _number(file)) < _NONE:
            free = min(free, limit - _number(used) + _stat(stat, cache))
    return max(0.0, free)


@functools.cache
def cores(root: Path = ROOT) -> float:
    """Cores allowed by the smallest quota; infinite where there is none."""
    return min(map(_quota, _groups("cpu", root)), default=math.inf)


@functools.cache
def _limits(root: Path) -> list[tuple[str, str, str, str]]:
    """The limits of memory that can be set; found once, as every evaluation asks."""
    return [
        (f"{group}/{limit}", f"{group}/{used}", f"{group}/memory.stat", cache)
        for group in _groups("memory", root)
        for limit, used, cache in _MEMORY
        if (group / limit).exists()
    ]


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """The folders of the groups that this process is in, from the outermost on."""
    lines: list[str] = []
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text(errors="surrogateescape").splitlines()
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        # version 2 names no controllers; it has its own mount, or lies next to version 1
        for mount in {controllers, controller} if controllers else ("", "unified"):
            group = root / "sys/fs/cgroup" / mount
            yield group
            # in a container without a namespace the path is the host's and its folders are missing
            for part in filter(None, path.split("/")):
                group /= part
                yield group


def _quota(group: Path) -> float:
    with suppress(OSError, ValueError):  # ValueError: "max 100000"
        quota, period = _text(f"{group}/cpu.max").split()
        return int(quota) / int(period)
    share = _number(f"{group}/cpu.cfs_quota_us")  # -1: none
    return share / _number(f"{group}/cpu.cfs_period_us") if 0 < share < math.inf else math.inf


def _number(file: str) -> float:
    """The number in a file; infinite for "max" and where there is no file."""
    with suppress(OSError, ValueError):
        return int(_text(file))
    return math.inf


def _stat(file: str, name: str) -> int:
    with suppress(OSError):
        for line in _text(file).splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0


def _text(file: str) -> str:
    handle = os.open(file, os.O_RDONLY)  # a third of the time of `open`
    try:
        return os.read(handle, 1 << 16).decode("ascii")
    finally:
        os.close(handle)
