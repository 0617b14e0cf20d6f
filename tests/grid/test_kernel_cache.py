"""Compiled kernels outlive their process, and are loaded only if unchanged."""

import gc
import logging
import os
import shutil
import subprocess
import sys
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding
import pytest

from fleetcube import Settings, Sweep, function
from fleetcube.kernels.engines import kernel_cache, loops, scalar
from fleetcube.kernels.engines import numba as numba_engine

from .common import Patch, files_of_at_most, written

SCRIPT = """
import logging
logging.basicConfig(level=logging.INFO)
from fleetcube import Settings, Sweep
axes = {"n_gpus": [8, 16], "gpus_per_node": [1, 2, 4]}
result = Sweep({}, axes, ["nodes"]).evaluate(settings=Settings("numba"))
print(result["nodes"].values.sum())
"""


def run(cache: Path, script: str = SCRIPT, **others: str) -> tuple[str, str]:
    """Result of another process, and its log of the kernel."""
    environment = {**os.environ, "FLEETCUBE_CACHE": str(cache), **others}
    given: Any = dict(capture_output=True, text=True, env=environment, timeout=600)
    done = subprocess.run([sys.executable, "-c", script], **given)
    assert done.returncode == 0, done.stderr
    (said,) = done.stderr.splitlines()
    return done.stdout, said


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A cache with one kernel, and the kernel's result."""
    folder = tmp_path_factory.mktemp("cache")
    result, said = run(folder)
    assert "kernel of nodes compiled in" in said
    return folder, result


@pytest.fixture
def cache(filled: tuple[Path, str], tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "cache"
    shutil.copytree(filled[0], folder)
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700)


@pytest.fixture
def inside(
    monkeypatch: Patch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Callable[[Path], tuple[str, bool, str]]:
    """Result of this process as if new; whether it compiles; its warnings."""
    caplog.set_level(logging.INFO, "fleetcube")

    def again(cache: Path) -> tuple[str, bool, str]:
        monkeypatch.setenv("FLEETCUBE_CACHE", str(cache))
        monkeypatch.setattr(numba_engine, "_ready", OrderedDict())
        monkeypatch.setattr(kernel_cache, "_warned", threading.Event())
        caplog.clear()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            exec(SCRIPT, {})
        said = "\n".join(str(warning.message) for warning in warned)
        return capsys.readouterr().out, "kernel of nodes compiled in" in caplog.text, said

    return again


@pytest.mark.slow
def test_a_second_process_loads_what_the_first_compiled(filled: tuple[Path, str]) -> None:
    result, said = run(filled[0])
    assert result == filled[1]
    assert "kernel of nodes read from the cache in" in said


@pytest.mark.slow
@pytest.mark.parametrize("state", ["empty", "filled"])
def test_a_kernel_needs_no_numba(filled: tuple[Path, str], tmp_path: Path, state: str) -> None:
    """Nor does a sweep need pint; importing either takes longer than all that the sweep does."""
    script = f"{SCRIPT}\nimport sys\nassert not {{'numba', 'pint'}} & {{*sys.modules}}"
    cache = filled[0] if state == "filled" else tmp_path
    assert run(cache, script)[0] == filled[1]


@pytest.mark.slow
def test_numba_is_not_asked_for_what_it_keeps(cache: Path, tmp_path: Path) -> None:
    """numba's own folder has no checksums, and may belong to anyone."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    run(cache, NUMBA_CACHE_DIR=str(theirs))
    shutil.rmtree(cache)
    run(cache, NUMBA_CACHE_DIR=str(theirs), NUMBA_CACHE_LOCATOR_CLASSES="nobody.Knows")
    assert not list(theirs.iterdir())
    (kept,) = cache.rglob("*.*")
    assert kept.suffix == ".kernel"


def test_an_unwritable_cache_is_done_without(inside: Any, tmp_path: Path) -> None:
    result, compiled, said = inside(written(tmp_path / "file", "not a folder"))
    assert float(result) > 0
    assert compiled
    assert said.count("compiled kernels are not kept") == 1


HARMS = {"cut": lambda data: data[: len(data) // 2], "empty": lambda data: b""}
HARMS |= {"garbage": lambda data: os.urandom(len(data))}
HARMS |= {"a byte": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]}
HARMS |= {"a pickle that runs": lambda data: b"cos\nsystem\n(S'touch PWNED'\ntR."}


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmed_kernel_is_made_anew(filled: Any, cache: Path, inside: Any, harm: str) -> None:
    (file,) = cache.rglob("*.kernel")
    file.write_bytes(HARMS[harm](file.read_bytes()))
    assert inside(cache) == (filled[1], True, "")
    assert not list(Path.cwd().glob("PWNED"))
    assert inside(cache) == (filled[1], False, "")


NO_FILES: dict[str, Callable[[Path], object]] = {"a pipe": os.mkfifo}
NO_FILES |= {"a link": lambda path: path.symlink_to(path.with_name("elsewhere"))}
NO_FILES |= {"a folder": Path.mkdir}


@pytest.mark.parametrize("kind", NO_FILES)
def test_only_files_are_read(filled: tuple[Path, str], cache: Path, inside: Any, kind: str) -> None:
    (file,) = cache.rglob("*.kernel")
    file.rename(file.with_name("elsewhere"))
    NO_FILES[kind](file)
    assert inside(cache)[:2] == (filled[1], True)
    assert inside(cache)[1] == (kind == "a folder")  # anything else is replaced


@pytest.mark.parametrize("who", ["group", "all", "a link", "file"])
def test_what_others_may_write_is_not_used(
    filled: Any, cache: Path, inside: Any, who: str, monkeypatch: Patch
) -> None:
    path = cache / "kernels"
    if who == "a link":
        path.rename(cache / "elsewhere")
        path.symlink_to("elsewhere")
    else:
        path = next(cache.rglob("*.kernel")) if who == "file" else path
        path.chmod(0o770 if who == "group" else 0o777)
    monkeypatch.setenv("FLEETCUBE_SHARED_CACHE", "1")
    assert inside(cache) == (filled[1], False, "")
    monkeypatch.delenv("FLEETCUBE_SHARED_CACHE")
    result, compiled, said = inside(cache)
    assert (result, compiled) == (filled[1], True)
    assert said.count(f"others may write to '{path}'") == 1
    assert inside(cache)[1] == (who != "file")  # it was replaced by this user's file


def test_a_full_disk_is_done_without(filled: tuple[Path, str], tmp_path: Path, inside: Any) -> None:
    with files_of_at_most(1000):
        result, compiled, said = inside(tmp_path)
    assert (result, compiled) == (filled[1], True)
    assert said.count("compiled kernels are not kept") == 1
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize("made", ["kernels", "functions"])
def test_machine_code_is_released(made: str, monkeypatch: Patch) -> None:
    """numba's own engine would keep it, and everything it was compiled from."""
    engines: list[weakref.ref[Any]] = []
    loaded = llvmlite.binding.create_mcjit_compiler

    def seen(*given: Any, **named: Any) -> Any:
        engine = loaded(*given, **named)
        engines.append(weakref.ref(engine))
        return engine

    def alive() -> int:
        gc.collect()
        return sum(engine() is not None for engine in engines)

    # loaded once and kept, whichever test needs it first
    loops.address()
    Sweep({}, {"n_gpus": [8, 16]}, ["cluster_mtbf"]).evaluate(settings=Settings("numba"))
    function("cluster_mtbf", {"n_gpus": 8}, "gpu_mttf", engine="numba")(1e8)
    modules = len(sys.modules)
    monkeypatch.setattr(llvmlite.binding, "create_mcjit_compiler", seen)
    if made == "kernels":
        monkeypatch.setattr(numba_engine, "_ready", OrderedDict())
        monkeypatch.setattr(numba_engine, "MOST_KERNELS", 2)
        for nodes in range(2, 6):  # each has its own table
            axes = {f"{kind}_mttf": [1e6, 2e6] for kind in ("gpu", "nic", "node")[: nodes - 2]}
            Sweep({}, {**axes, "n_gpus": [8, 16]}, ["cluster_mtbf"]).evaluate(
                settings=Settings("numba")
            )
        assert len(engines) > 2
        assert alive() == 2
    else:
        scalar.compiled.cache_clear()
        given = {"inputs": "gpu_mttf", "engine": "numba"}
        of = [function("cluster_mtbf", {"n_gpus": n}, **given) for n in range(1, 4)]
        assert len(engines) == alive() == 3
        scalar.compiled.cache_clear()
        assert alive() == 3  # whoever holds a function can call it
        assert of.pop()(1e8) > 0
        assert alive() == 2
    assert len(sys.modules) == modules


def test_a_kernel_that_runs_is_not_released(monkeypatch: Patch) -> None:
    monkeypatch.setattr(numba_engine, "_ready", OrderedDict())
    monkeypatch.setattr(numba_engine, "MOST_KERNELS", 0)  # dropped before it is called
    axes = {"n_gpus": [8, 16], "gpus_per_node": [1, 2, 4]}
    for _ in range(2):
        found = Sweep({}, axes, ["nodes"]).evaluate(settings=Settings("numba"))["nodes"]
        assert found.equals(
            Sweep({}, axes, ["nodes"]).evaluate(settings=Settings("numpy"))["nodes"]
        )
    assert not numba_engine._ready
