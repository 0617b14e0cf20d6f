"""Tampered cubes, sealed again around content that fleetcube never writes."""

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import google_crc32c
import pytest
from click.testing import CliRunner

from fleetcube import InputError, Settings, Sweep, open_cube
from fleetcube.cli import cli
from fleetcube.grid.store import journal
from fleetcube.grid.store.cube import stored_cube
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.names import JOURNAL, PLAN, SEAL
from fleetcube.grid.store.places.place import Folder
from fleetcube.grid.store.verify import verify
from fleetcube.grid.store.writer import Writer
from fleetcube.presentation.page.view import View

from .common import cases, refused

SCENARIO = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g"}
AXES = {"n_gpus": [8, 64], "gpu_mttf": ["10_000 h", "50_000 h"]}
CHUNK, AXIS = "job_time/c/0/0", "n_gpus/c/0"
FILES = ("zarr.json", "job_time/zarr.json", SEAL, JOURNAL, CHUNK, AXIS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tampered") / "a.zarr"
    Sweep(SCENARIO, AXES, ["job_time", "dominant_overhead"]).to_zarr(
        path, settings=Settings("numpy")
    )
    return path


@pytest.fixture
def cube(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "a.zarr"))


def write_seal(cube: Path, body: bytes) -> None:
    (cube / SEAL).write_bytes(hashlib.sha256(body).hexdigest().encode() + b" " + body + b"\n")


def seal_anew(cube: Path) -> None:
    sealed = examine(Folder(cube)).sealed
    assert sealed is not None
    held = {name: (cube / name).read_bytes() for name in sealed}
    sums = {name: [len(data), hashlib.sha256(data).hexdigest()] for name, data in held.items()}
    write_seal(cube, json.dumps({"files": sums}).encode())


def attributes(cube: Path, of: str, **changed: Any) -> None:
    path = cube / of / "zarr.json"
    held = json.loads(path.read_text(encoding="utf-8"))
    held["attributes"] |= changed
    path.write_text(json.dumps(held), encoding="utf-8")
    if of != ".":
        repeat(cube, of, held)
    seal_anew(cube)


def repeat(cube: Path, array: str, held: Any) -> None:
    """Copy an array's metadata into the root, as fleetcube does."""
    root = json.loads((cube / "zarr.json").read_text(encoding="utf-8"))
    root["consolidated_metadata"]["metadata"][array] = held
    (cube / "zarr.json").write_text(json.dumps(root), encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_only_files_are_read(cube: Path, name: str) -> None:
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (cube / name).unlink()
        make(cube / name)
        with pytest.raises((InputError, OSError), match=r"damaged|not a (cube|regular file)"):
            open_cube(cube)
        if name in (SEAL, JOURNAL):
            with pytest.raises(OSError, match="it is not a regular file"):
                verify(cube)
        else:
            assert verify(cube, samples=0).problems


@pytest.mark.parametrize("name", [*FILES[:4], AXIS])
def test_large_files_without_blocks_are_not_read(cube: Path, name: str) -> None:
    os.truncate(cube / name, 1 << 34)
    with pytest.raises((InputError, OSError), match=r"damaged|more than|not a cube"):
        open_cube(cube)


def test_files_that_nobody_writes_are_not_read(cube: Path) -> None:
    os.truncate(cube / SEAL, 1 << 40)
    with pytest.raises(OSError, match="more than 268,435,456 bytes"):
        open_cube(cube)


@cases(
    "body",
    *(b"{", b"[]", b"{}", b'{"files": 3}', b'{"files": {"a": 3}}', b"[" * 100_000),
    *(b'{"files": {"a": ["x", "y"]}}', b'{"files": {"a": [1e999, "y"]}}'),
    b'{"files": {"a": [' + b"9" * 5000 + b', "y"]}}',
    *(b'{"files": {"%s": [1, "y"]}}' % name for name in (b"../a", b"/etc/passwd", rb"a\u0000")),
)
def test_seals_that_are_none(cube: Path, body: bytes) -> None:
    write_seal(cube, body)
    refused("it has no seal", open_cube, cube)
    assert verify(cube).problems == [f"{SEAL} is missing or damaged"]


@cases(
    "line",
    *(b'[["a"], [0], [1], [["x", %s]]]' % pair for pair in (b"1, -1", b"1, 4294967296", b"-1, 1")),
    *(b"3", b"[]", b"[1, 2, 3, 4]", b"[" * 100_000, b'[["a"], ["b"], ["c"], []]'),
    *(b'[["a"], [0, 1], [1], []]', b"[[{}], [0], [1], []]", b'[["a"], [1e999], [1], []]'),
    b'[["a"], [0], [1], [["x", ' + b"9" * 5000 + b", 1]]]",
    *(b'[["a"], [0], [1], [["%s", 1, 1]]]' % name for name in (b"../../a", b"/etc/passwd", b".")),
    *(b'[["a"], [0], [1], [["%s", 1, 1]]]' % name for name in (b"a//b", rb"a\u0000")),
)
def test_lines_of_a_journal_that_are_none_are_left_out(cube: Path, line: bytes) -> None:
    sound = examine(Folder(cube)).blocks
    with (cube / JOURNAL).open("ab") as file:
        file.write(b"%08x %s\n" % (google_crc32c.value(line), line))
    assert examine(Folder(cube)).blocks == sound
    good = b'[["a"], [0], [1], [["a/..b", 1, 1]]]'
    with (cube / JOURNAL).open("ab") as file:
        file.write(b"%08x %s\n" % (google_crc32c.value(good), good))
    assert len(examine(Folder(cube)).blocks) == len(sound) + 1


@cases(
    "spec",
    *(3, None, "[]", "{}", "{", "[" * 100_000, '{"outputs": [], "scenario": {}}'),
    '{"outputs": [], "scenario": {}, "axes": ["n_gpus", "gpu_mttf"]}',
    '{"outputs": [], "scenario": {}, "axes": {"n_gpus": [8]}}',
    '{"outputs": [], "scenario": {}, "axes": {"n_gpus": [' + "9" * 5000 + "]}}",
)
def test_specs_that_are_none(cube: Path, spec: Any) -> None:
    attributes(cube, ".", fleetcube_spec=spec)
    for of in (open_cube, View.open):
        refused("damaged", of, str(cube))
    if spec is None or "gpu" not in str(spec):
        refused("damaged", verify, cube)


@cases(
    "of, changed",
    (".", {"fleetcube_medians": "{"}),
    (".", {"fleetcube_medians": "3"}),
    (".", {"fleetcube_defaults": "3"}),
    ("job_time", {"units": 3}),
    ("job_time", {"units": {"s": 1}}),
    ("job_time", {"long_name": ["a"]}),
    ("job_time", {"flag_meanings": "a b"}),
    ("dominant_overhead", {"flag_meanings": "a"}),
    ("dominant_overhead", {"flag_values": [[0], [1]]}),
    ("infeasible_reason", {"flag_meanings": "", "flag_values": []}),
)
def test_attributes_that_are_none(cube: Path, of: str, changed: dict[str, Any]) -> None:
    attributes(cube, of, **changed)
    refused("damaged", open_cube, cube)


def test_labels_that_are_not_those_of_the_spec(cube: Path) -> None:
    """All checksums and values are right: only the axis's labels are wrong."""
    other = Sweep(SCENARIO, {**AXES, "n_gpus": [16, 64]}, ["job_time", "dominant_overhead"])
    files = Writer(other._plan("numpy"), other.spec, "float64", {}).files
    (cube / AXIS).write_bytes(files[AXIS])
    seal_anew(cube)
    assert verify(cube, samples=0).problems == ["the labels 'n_gpus' are not those of its spec"]


def test_metadata_that_are_not_those_of_the_spec(cube: Path) -> None:
    attributes(cube, "job_time", units="h")
    names = ("job_time/zarr.json", "zarr.json")
    assert verify(cube).problems == [f"{name} is not what its spec gives" for name in names]


def test_a_spec_that_is_not_that_of_the_record(cube: Path) -> None:
    """One of the two belongs to another cube, which no change of versions explains."""
    spec = json.loads(json.loads((cube / "zarr.json").read_bytes())["attributes"]["fleetcube_spec"])
    spec["scenario"]["fabric"] = "infiniband-ndr"
    attributes(cube, ".", fleetcube_spec=json.dumps(spec))
    (problem,) = verify(cube).problems
    assert problem.startswith("its spec is not that of its record: scenario.fabric")


def test_a_cube_of_another_version_is_not_called_sound(cube: Path) -> None:
    record = examine(Folder(cube)).plan
    assert record is not None
    Folder(cube).write(PLAN, journal.record_bytes(record | {"version.fleetcube": "0.1"}))
    attributes(cube, "job_time", units="h")
    done = CliRunner().invoke(cli, ["verify", str(cube)])
    assert done.exit_code == 0
    assert "no value was recomputed" in done.output
    assert "sound" not in done.output


def test_seals_that_ask_for_more_than_memory_are_none(cube: Path) -> None:
    sealed: Any = dict(examine(Folder(cube)).sealed or {})
    for name in "abcd":
        os.truncate(os.open(cube / name, os.O_CREAT | os.O_RDWR), 1 << 30)
        sealed[name] = 1 << 30, "0"
    for more in ({}, {"e": (-1 << 40, "0")}):
        write_seal(cube, json.dumps({"files": sealed | more}).encode())
        refused("it has no seal", open_cube, cube)


def test_bombs_are_refused_before_they_are_expanded(tmp_path: Path) -> None:
    from ..door.costs import bombs  # imports this module

    for name, path in bombs(tmp_path).items():
        with pytest.raises(InputError, match="is damaged"):
            open_cube(path).load()
        with contextlib.suppress(InputError):  # one line, too
            assert verify(path).problems, name


def test_chunks_that_no_reader_takes_are_not_written(tmp_path: Path) -> None:
    times = {"linspace": [1, 9], "num": 5_000_000}
    sweep = Sweep(SCENARIO, {**AXES, "restart_time": times}, ["goodput"])
    how = {"labels": ["a", "b" * (1 << 24)], "tensor_parallel": [1, 8]}
    sweep_of_text = Sweep(SCENARIO, {"how": how, "n_gpus": [64]}, ["job_time"])
    refused("at most 16,777,216 are read back", sweep_of_text.to_zarr, tmp_path / "a.zarr")
    chunks = {"n_gpus": 2, "gpu_mttf": 2, "restart_time": 5_000_000}
    refused("at most 134,217,728 are read back", sweep.to_zarr, tmp_path / "a.zarr", chunks=chunks)


@cases(
    "key, value",
    ("shape", [10**5, 10**5]),
    ("shape", ["a"]),
    ("data_type", "object"),
    ("data_type", "int8"),
    ("codecs", []),
    ("codecs", [{"name": "numcodecs.pickle"}]),
    ("codecs", [{"name": name} for name in ("bytes", "blosc", "crc32c", "gzip")]),
    ("chunk_key_encoding", {"name": "v2", "configuration": {"separator": "/"}}),
    ("storage_transformers", [{"name": "x"}]),
    ("fill_value", {"a": 1}),
    ("node_type", "group"),
)
def test_arrays_that_are_none(cube: Path, key: str, value: Any) -> None:
    path = cube / "job_time" / "zarr.json"
    held = json.loads(path.read_text(encoding="utf-8"))
    if key == "shape":
        held["chunk_grid"]["configuration"]["chunk_shape"] = value
    path.write_text(json.dumps(held | {key: value}), encoding="utf-8")
    repeat(cube, "job_time", held | {key: value})
    seal_anew(cube)
    refused("damaged", verify, cube)
    refused("damaged", open_cube, cube)
    refused("damaged", stored_cube, str(cube))


@pytest.mark.parametrize("shape", [3, [1], [0, 0], [-1, -1], ["a", "b"], [1.5, 2], [None, None]])
def test_chunk_shapes_of_a_record_that_are_none(cube: Path, shape: Any) -> None:
    record = examine(Folder(cube)).plan
    assert record is not None
    said = {name: shape for name in record if name.startswith("chunks.")}
    Folder(cube).write(PLAN, journal.record_bytes(record | said))
    seal_anew(cube)
    with contextlib.suppress(InputError):
        assert verify(cube).problems
    sweep = Sweep(SCENARIO, AXES, ["job_time", "dominant_overhead"])
    for mode in ("resume", "append"):
        refused(
            "this changed: chunks", sweep.to_zarr, cube, settings=Settings("numpy"), **{mode: True}
        )


def test_a_plan_that_is_none(cube: Path) -> None:
    for held in ({}, {"engine": "numpy", "infeasible": "include"}):
        Folder(cube).write(PLAN, journal.record_bytes(held))
        seal_anew(cube)
        refused("KeyError", verify, cube)
