"""Real faults: a signal, a full disk, a folder that is not writable, any one byte changed."""

import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zarr

from fleetcube import Settings, Sweep, open_cube
from fleetcube.grid.errors import InputError
from fleetcube.grid.store import cube
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.names import PLAN, SEAL
from fleetcube.grid.store.places.place import Folder

from ..door.command import fleetcube
from .common import files_of_at_most
from .kill import CHUNKS as CUT
from .kill import SPEC as LARGE
from .test_resume import AXES, OUTPUTS, SCENARIO, contents, disk_full, stop_after

SPEC = LARGE.replace("1288", "648")  # 400 blocks
CHUNKS = {"n_gpus": 4, "gpu_mttf": 6}
WORDS = ["run", "spec.toml", "--chunks", CUT, "-o"]
RUN = [sys.executable, "-m", "fleetcube", *WORDS]
# Even root is bound by the permissions of its files then: prctl(2), capabilities(7)
NO_OVERRIDE = """
import ctypes, os
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
if os.geteuid() == 0 and ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) != 0:
    raise SystemExit("prctl failed")
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a spec and an uninterrupted cube of it."""
    folder = tmp_path_factory.mktemp("faults")
    (folder / "spec.toml").write_text(SPEC, encoding="utf-8")
    Sweep.from_file(folder / "spec.toml").to_zarr(folder / "whole.zarr", chunks=CHUNKS)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    return tmp_path


def bound(command: list[str], folder: Path, before: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in a process that some code has bound first."""
    code = f"{before}\nimport os\nos.execv({sys.executable!r}, {command!r})"
    given: Any = dict(cwd=folder, capture_output=True, text=True, timeout=600)
    return subprocess.run([sys.executable, "-c", code], **given)


def failed(folder: Path, before: str, *options: str) -> str:
    """What a run says that ends with an error: one line. The code before it binds the run too."""
    return refusal(bound([*RUN, "a.zarr", *options], folder, before))


def refusal(done: "subprocess.CompletedProcess[str]") -> str:
    """The one line of a run that ends with an error."""
    assert done.returncode in (1, 2), done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("fleetcube: ")]
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    return lines[0]


def finish(folder: Path, whole: Path) -> None:
    """Resume; not one byte may differ from the uninterrupted cube."""
    Sweep.from_file(folder / "spec.toml").to_zarr(folder / "a.zarr", chunks=CHUNKS, resume=True)
    assert contents(folder / "a.zarr") == contents(whole / "whole.zarr")
    assert sorted(entry.name for entry in folder.iterdir()) == ["a.zarr", "spec.toml"]


@pytest.mark.slow
@pytest.mark.usefixtures("_sigint")
def test_an_interrupt_says_what_is_kept(folder: Path, whole: Path) -> None:
    running = subprocess.Popen([*RUN, "a.zarr"], cwd=folder, stderr=subprocess.PIPE, text=True)
    partial = folder / "a.zarr.partial"
    end = time.monotonic() + 600
    while len(examine(Folder(partial)).blocks) < 5 and time.monotonic() < end:
        time.sleep(0.002)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=600)
    assert running.returncode == 130, told
    kept = len(examine(Folder(partial)).blocks)
    assert told.splitlines()[-1] == (
        f"fleetcube: stopped; {kept} finished blocks are kept in 'a.zarr.partial'; "
        "`run --resume` continues it"
    )
    assert "Traceback" not in told
    assert not (folder / "a.zarr").exists()
    finish(folder, whole)


def test_a_file_that_the_system_refuses_to_write(folder: Path, whole: Path) -> None:
    """No file may be larger than some chunks are: a write fails as on a full disk."""
    held = contents(whole / "whole.zarr")
    sizes = sorted(len(data) for name, data in held.items() if "/c" in name)
    with files_of_at_most(sizes[-1] - 1):
        done = fleetcube(*WORDS, "a.zarr", folder=folder)
    told = refusal(done)
    assert "cannot write 'a.zarr': File too large" in told
    assert "`run --resume` continues it" in told
    assert not (folder / "a.zarr").exists()
    assert not list(folder.rglob("*-tmp"))
    finish(folder, whole)


def test_a_full_disk_is_called_so_by_netcdf_too(whole: Path, tmp_path: Path) -> None:
    """Whose library says "Permission denied" of it."""
    with files_of_at_most(0):
        done = fleetcube("slice", str(whole / "whole.zarr"), "-o", "s.nc", folder=tmp_path)
    assert "cannot write 's.nc' (File too large)" in refusal(done)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def closed(folder: Path) -> Iterator[Path]:
    """A folder into which nobody may write."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    folder.chmod(0o555)
    yield folder
    folder.chmod(mode)


def test_a_folder_that_is_not_writable(closed: Path) -> None:
    assert "choose a folder that is writable" in failed(closed, NO_OVERRIDE)
    assert [entry.name for entry in closed.iterdir()] == ["spec.toml"]


@pytest.mark.slow
def test_a_sound_cube_need_not_be_writable_to_be_resumed(whole: Path) -> None:
    before = contents(whole / "whole.zarr")
    folders = [whole / "whole.zarr", whole]
    modes = [stat.S_IMODE(entry.stat().st_mode) for entry in folders]
    for entry in folders:
        entry.chmod(0o555)
    try:
        done = bound([*RUN, "whole.zarr", "--resume"], whole, NO_OVERRIDE)
    finally:
        for entry, mode in zip(folders, modes, strict=True):
            entry.chmod(mode)
    assert done.returncode == 0, done.stderr
    assert contents(whole / "whole.zarr") == before


@pytest.mark.slow
def test_an_unfinished_cube_that_is_not_writable_any_more(folder: Path, whole: Path) -> None:
    partial = folder / "a.zarr.partial"
    with pytest.MonkeyPatch.context() as patch:
        stop_after(5, disk_full, patch)
        with pytest.raises(OSError, match="5 finished blocks are kept"):
            Sweep.from_file(folder / "spec.toml").to_zarr(
                folder / "a.zarr", chunks=CHUNKS, settings=Settings(threads=1)
            )
    before = contents(partial)
    modes = {entry: entry.stat().st_mode for entry in [partial, *partial.rglob("*")]}
    for entry in modes:
        entry.chmod(0o555)
    assert "cannot write 'a.zarr': Permission denied" in failed(folder, NO_OVERRIDE, "--resume")
    assert contents(partial) == before
    for entry, mode in modes.items():
        entry.chmod(stat.S_IMODE(mode))
    finish(folder, whole)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cube of a few short files."""
    axes = {name: AXES[name] for name in ("n_gpus", "fabric")}
    path = tmp_path_factory.mktemp("small") / "a.zarr"
    return Sweep(SCENARIO, axes, [*OUTPUTS, "infeasible_reason"]).to_zarr(path)


def each_byte(path: Path, check: Callable[[int], None], most: int = 10**9) -> None:
    """Change every byte of a file (or so many of them), in one bit each, and look."""
    data = path.read_bytes()
    try:
        for k in range(0, len(data), -(-len(data) // most)):
            path.write_bytes(data[:k] + bytes([data[k] ^ (1 << k % 8)]) + data[k + 1 :])
            check(k)
    finally:
        path.write_bytes(data)


@pytest.mark.slow
def test_no_byte_of_a_chunk_reads_back_changed(small: Path) -> None:
    """Through plain Zarr, and through `verify`, whichever byte it is."""
    for name in ("job_time", "dominant_overhead", "infeasible_reason"):  # numbers and flags
        array: Any = zarr.open_array(small / name, mode="r")

        def check(_: int, array: Any = array) -> None:
            assert cube.damage(examine(Folder(small)))
            with pytest.raises((ValueError, RuntimeError)):
                array[...]

        each_byte(next(file for file in (small / name / "c").rglob("*") if file.is_file()), check)
    assert cube.damage(examine(Folder(small))) == {}


@pytest.mark.slow
def test_no_cube_opens_whose_metadata_has_a_byte_changed(small: Path) -> None:
    """Bytes all over every file that is not a chunk: metadata, coordinates, journal, seal."""
    blocks = examine(Folder(small)).blocks.values()
    chunks = {name for block in blocks for name, _, _ in block.files}
    names = contents(small).keys() - chunks
    assert {"zarr.json", SEAL, PLAN, "n_gpus/c/0"} <= names

    def check(_: int) -> None:
        with pytest.raises(InputError):
            cube.as_sealed(examine(Folder(small)))

    for name in sorted(names):
        each_byte(small / name, check, 15)


def test_a_changed_root_is_refused_by_the_reader_itself(small: Path) -> None:
    """`open_cube` as a whole, on some bytes of the root and of an array's metadata."""
    for name in ("zarr.json", "job_time/zarr.json"):
        data = (small / name).read_bytes()
        for k in range(0, len(data), 211):
            (small / name).write_bytes(data[:k] + bytes([data[k] ^ 1]) + data[k + 1 :])
            with pytest.raises(InputError):
                open_cube(small)
        (small / name).write_bytes(data)
