"""Compiled kernels outlive the process that compiled them, and are loaded as they were written."""

import os
import resource
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetcube import Sweep
from fleetcube.kernels.engines import kernel_cache
from fleetcube.kernels.engines import numba as numba_engine

SCRIPT = """
from fleetcube import Sweep
axes = {"n_gpus": [8, 16], "gpus_per_node": [1, 2, 4]}
result = Sweep({}, axes, ["nodes"]).evaluate("numba")
print(result["nodes"].values.sum())
"""


def run(cache: Path) -> tuple[str, str, str]:
    """What another process gives, and what it and numba say."""
    environment = {**os.environ, "FLEETCUBE_CACHE": str(cache), "NUMBA_DEBUG_CACHE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    return lines[-1], "\n".join(lines[:-1]), done.stderr


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A cache with one kernel, what it gives, and what numba said when it was filled."""
    folder = tmp_path_factory.mktemp("cache")
    return folder, *run(folder)[:2]


@pytest.fixture
def cache(filled: tuple[Path, str, str], tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "cache"
    shutil.copytree(filled[0], folder)
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700)


@pytest.fixture
def inside(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Path], tuple[str, str, str]]:
    """The same as `run` in this process, as if it were a new one."""
    import numba

    monkeypatch.setattr(numba.config, "DEBUG_CACHE", 1)

    def again(cache: Path) -> tuple[str, str, str]:
        monkeypatch.setenv("FLEETCUBE_CACHE", str(cache))
        monkeypatch.setattr(numba_engine, "_ready", {})
        monkeypatch.setattr(kernel_cache, "_warned", threading.Event())
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            exec(SCRIPT, {})
        lines = capsys.readouterr().out.splitlines()
        said = "\n".join(str(warning.message) for warning in warned)
        return lines[-1], "\n".join(lines[:-1]), said

    return again


def test_a_second_process_loads_what_the_first_compiled(filled: tuple[Path, str, str]) -> None:
    folder, first, compiled = filled
    second, loaded, _ = run(folder)
    assert first == second
    assert "data saved" in compiled
    assert "data loaded" in loaded
    assert "saved" not in loaded


def test_an_unwritable_cache_is_done_without(inside: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    result, told, said = inside(blocked)
    assert float(result) > 0
    assert "saved" not in told
    assert said.count("compiled kernels are not kept") == 1


HARMS = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "garbage": lambda data: os.urandom(len(data)),
    "a byte": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "a pickle that runs": lambda data: b"cos\nsystem\n(S'touch PWNED'\ntR.",
}


@pytest.fixture
def again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[str, bool]]:
    """Evaluates in this process with what the cache holds: the result, and whether it compiled."""
    monkeypatch.setenv("FLEETCUBE_CACHE", str(cache))

    def evaluate() -> tuple[str, bool]:
        monkeypatch.setattr(numba_engine, "_ready", {})
        before = {file: file.stat().st_mtime_ns for file in cache.rglob("*.nbc")}
        axes = {"n_gpus": [8, 16], "gpus_per_node": [1, 2, 4]}
        result = Sweep({}, axes, ["nodes"]).evaluate("numba")
        after = {file: file.stat().st_mtime_ns for file in cache.rglob("*.nbc")}
        return str(result["nodes"].values.sum()), before != after

    return evaluate


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_harmed_kernel_is_compiled_anew(
    filled: tuple[Path, str, str], cache: Path, again: Any, ending: str, harm: str
) -> None:
    (file,) = cache.rglob(f"*.{ending}")
    file.write_bytes(HARMS[harm](file.read_bytes()))
    assert again() == (filled[1], True)
    assert not list(Path.cwd().glob("PWNED"))
    assert again() == (filled[1], False)


@pytest.mark.parametrize("harm", ["{}", "[", '{"a": 1}', None])
def test_without_its_checksums_nothing_is_loaded(cache: Path, again: Any, harm: str | None) -> None:
    (sums,) = cache.rglob("sums.json")
    sums.unlink() if harm is None else sums.write_text(harm)
    assert again()[1]


def test_no_bytecode_of_the_cache_is_run(
    filled: tuple[Path, str, str], cache: Path, again: Any
) -> None:
    (source,) = cache.rglob("kernel.py")
    source.write_text("raise SystemExit('source')")
    (source.parent / "__pycache__" / "kernel.cpython-311.pyc").write_bytes(b"\0" * 64)
    assert again()[0] == filled[1]
    assert not [file for file in cache.rglob("*.pyc") if file.stat().st_size != 64]


@pytest.mark.parametrize("who", ["group", "all", "a link"])
def test_a_folder_that_others_may_write_is_not_used(
    filled: tuple[Path, str, str],
    cache: Path,
    inside: Any,
    who: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels = cache / "kernels"
    if who == "a link":
        kernels.rename(cache / "elsewhere")
        kernels.symlink_to("elsewhere")
    else:
        kernels.chmod(0o770 if who == "group" else 0o777)
    result, told, said = inside(cache)
    assert result == filled[1]
    assert "loaded" not in told
    assert "saved" not in told
    assert said.count(f"others may write to '{kernels}'") == 1
    monkeypatch.setenv("FLEETCUBE_SHARED_CACHE", "1")
    assert "data loaded" in inside(cache)[1]


def test_a_full_disk_is_done_without(
    filled: tuple[Path, str, str], tmp_path: Path, inside: Any
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        result, told, said = inside(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert result == filled[1]
    assert "data saved" not in told
    assert said.count("compiled kernels are not kept") == 1
