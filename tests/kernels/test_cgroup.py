"""Limits of containers, in file trees of both versions of the kernel's interface."""

import math
from pathlib import Path
from typing import Any

import pytest

from fleetcube.grid.errors import InputError
from fleetcube.grid.plan import memory
from fleetcube.kernels.engines import cgroup, job

GB = 10**9
UNSET = 9223372036854771712  # what version 1 writes for no limit


def stat(**sizes: int) -> str:
    return "".join(f"{name} {size}\n" for name, size in {"anon": 7, **sizes}.items())


# the process' groups; the files of /sys/fs/cgroup; bytes that are free; cores
CASES: dict[str, tuple[str, dict[str, Any], float, float]] = {
    "no control groups": ("", {}, math.inf, math.inf),
    "version 2, no limit": (
        "0::/a\n",
        {"a/memory.max": "max", "a/memory.high": "max", "a/memory.current": GB}
        | {"a/cpu.max": "max 100000"},
        math.inf,
        math.inf,
    ),
    "version 2, as a container with a namespace sees it": (
        "0::/\n",
        {"memory.max": 3 * GB, "memory.current": GB, "cpu.max": "250000 100000"},
        2 * GB,
        2.5,
    ),
    "version 2, cached files are freed on demand": (
        "0::/a\n",
        {"a/memory.max": 3 * GB, "a/memory.current": 2 * GB}
        | {"a/memory.stat": stat(inactive_file=GB // 2, active_file=GB // 4)},
        1.5 * GB,
        math.inf,
    ),
    "version 2, slowed down before it is killed": (
        "0::/a\n",
        {"a/memory.max": 3 * GB, "a/memory.high": 2 * GB, "a/memory.current": GB},
        GB,
        math.inf,
    ),
    "version 2, the group around ours is full": (
        "0::/pod/a\n",
        {"pod/memory.max": 4 * GB, "pod/memory.current": 4 * GB + 1, "pod/cpu.max": "50000 100000"}
        | {
            "pod/a/memory.max": 3 * GB,
            "pod/a/memory.current": GB,
            "pod/a/cpu.max": "200000 100000",
        },
        0,
        0.5,
    ),
    "version 1, no limit": (
        "5:memory:/a\n4:cpu,cpuacct:/a\n0::/\n",
        {"memory/a/memory.limit_in_bytes": UNSET, "memory/a/memory.usage_in_bytes": GB}
        | {"cpu/a/cpu.cfs_quota_us": -1, "cpu/a/cpu.cfs_period_us": 100000},
        math.inf,
        math.inf,
    ),
    "version 1, nested": (
        "5:memory:/pod/a\n4:cpu,cpuacct:/pod/a\n1:name=systemd:/pod/a\n0::/\n",
        {"memory/memory.limit_in_bytes": UNSET, "memory/memory.usage_in_bytes": 9 * GB}
        | {"memory/pod/memory.limit_in_bytes": 3 * GB, "memory/pod/memory.usage_in_bytes": 2 * GB}
        | {"memory/pod/memory.stat": stat(inactive_file=1, total_inactive_file=GB)}
        | {"memory/pod/a/memory.limit_in_bytes": UNSET, "memory/pod/a/memory.usage_in_bytes": GB}
        | {"cpu,cpuacct/pod/cpu.cfs_quota_us": 150000, "cpu,cpuacct/pod/cpu.cfs_period_us": 100000},
        2 * GB,
        1.5,
    ),
    "version 1, in a container that sees the host's path": (
        "5:memory:/docker/0f3a\n4:cpuacct,cpu:/docker/0f3a\n",
        {"memory/memory.limit_in_bytes": 3 * GB, "memory/memory.usage_in_bytes": GB}
        | {"cpu/cpu.cfs_quota_us": 300000, "cpu/cpu.cfs_period_us": 100000},
        2 * GB,
        3,
    ),
    "both versions": (
        "5:memory:/a\n0::/b\n",
        {"memory/a/memory.limit_in_bytes": 3 * GB, "memory/a/memory.usage_in_bytes": GB}
        | {"unified/b/cpu.max": "100000 100000"},
        2 * GB,
        1,
    ),
}


def tree(root: Path, name: str) -> Path:
    groups, files, _, _ = CASES[name]
    written = {f"sys/fs/cgroup/{file}": text for file, text in files.items()}
    for file, text in {"proc/self/cgroup": groups, **written}.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(str(text), encoding="ascii")
    return root


@pytest.mark.parametrize("name", CASES)
def test_the_nearest_limit_counts(name: str, tmp_path: Path) -> None:
    *_, free, cores = CASES[name]
    root = tree(tmp_path, name)
    assert cgroup.memory(root) == free
    assert cgroup.cores(root) == cores


def test_a_limit_counts_that_is_set_later(tmp_path: Path) -> None:
    root = tree(tmp_path, "version 2, no limit")
    assert cgroup.memory(root) == math.inf
    (root / "sys/fs/cgroup/a/memory.max").write_text(f"{3 * GB}\n", encoding="ascii")
    assert cgroup.memory(root) == 2 * GB


def test_a_result_larger_than_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "memory", lambda: 1000.0)
    assert memory.available() == 1000
    with pytest.raises(InputError, match=r"takes 1\.6 kB and 1 kB of memory are free; shorten"):
        memory.check(1600, "shorten an axis")


@pytest.mark.parametrize(("quota", "threads"), [(0.5, 1), (1.5, 2), (2.0, 2), (1e9, None)])
def test_threads_are_as_many_as_the_quota_pays_for(
    quota: float, threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job.os, "sched_getaffinity", lambda _: range(64), raising=False)
    monkeypatch.setattr(cgroup, "cores", lambda: quota)
    assert job.default_threads() == (threads or 64)
