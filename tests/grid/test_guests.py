"""What others put into a cube survives every run; what they wrote over it is named and left."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xarray
import zarr

from fleetcube import Settings, Sweep, open_cube
from fleetcube.grid.store import cube as cube_module
from fleetcube.grid.store.cube import stored_cube
from fleetcube.grid.store.names import GUESTS, LOCK
from fleetcube.grid.store.places.address import place_of
from fleetcube.grid.store.verify import verify

from .common import Patch, cases, refused
from .guests import CHUNKS, Owner, sequence, sweep, truth
from .kill import contents
from .test_resume import disk_full, no_exchange, stop_after

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
SETTINGS = Settings("numpy", threads=1)
FILES = {"README.md": b"notes", "results/sub/a.csv": b"1,2", ".DS_Store": b"", "._zarr.json": b"x"}
FILES |= {
    "desktop.ini": b"",
    ".nfs0001": b"n",
    "performance/.DS_Store": b"d",
    "yearly_cost/c/a": b"",
}


def stored(path: Any, level: int = 1, **mode: Any) -> Any:
    return sweep(level).to_zarr(path, chunks=CHUNKS, settings=SETTINGS, **mode)


def visited(path: Path) -> dict[str, bytes]:
    """Put files, an empty folder, a link and attributes into a cube; the files."""
    for name, data in FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    (path / "empty").mkdir()
    (path / "link").symlink_to("/nowhere")
    os.mkfifo(path / "pipe")
    zarr.open_group(path, mode="r+").attrs["title"] = "Ours"
    zarr.open_array(path / "yearly_cost", mode="r+").attrs["note"] = "see README"
    return FILES


def check(path: Path, level: int, written: bool = True) -> None:
    """All that `visited` put there is, and the cube is sound."""
    assert {name: (path / name).read_bytes() for name in FILES} == FILES
    assert (path / "empty").is_dir()
    assert (path / "link").is_symlink()
    assert (path / "pipe").is_fifo()
    plain = xarray.open_zarr(path, consolidated=written)  # a run mends the consolidated metadata
    for cube in (open_cube(path), plain, stored_cube(str(path))):
        assert (cube.attrs["title"], cube["yearly_cost"].attrs["note"]) == ("Ours", "see README")
    xarray.testing.assert_allclose(open_cube(path).load(), truth(level)[0], rtol=0)
    report = verify(path)
    assert (report.problems, report.changed) == ([], False)
    assert "the attribute 'note' of yearly_cost, the attribute 'title'" in report.guests
    names = ("README.md", "results/", "yearly_cost/c/a", "link", "pipe")
    assert all(name in report.guests.split(", ") for name in names)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(stored(tmp_path / "a.zarr"))


@cases("exchanges", True, False)
@cases("harmed", False, True)
@cases("mode", "resume", "append")
def test_they_survive(
    path: Path, mode: str, harmed: bool, exchanges: bool, monkeypatch: Patch
) -> None:
    if not exchanges:
        no_exchange(monkeypatch)
    visited(path)
    if harmed:
        (path / "yearly_cost/c/0/0").write_bytes(b"")
    level = 2 if mode == "append" else 1
    before = contents(path)
    stored(path, level, **{mode: True})
    check(path, level, harmed or mode == "append")
    assert [entry.name for entry in path.parent.iterdir()] == ["a.zarr"]
    if mode == "resume" and not harmed:
        assert contents(path) == before  # nothing was written
    for name in FILES:
        (path / name).unlink()
    metas = {name for name in truth(level)[1] if name.endswith("zarr.json")}
    found = {name: data for name, data in contents(path).items() if name not in metas}
    assert found == {name: data for name, data in truth(level)[1].items() if name not in metas}


def test_overwriting_names_them_and_takes_force(path: Path) -> None:
    refused("--force is of --overwrite", stored, path, force=True, resume=True)
    visited(path)
    before = contents(path)
    for mode in ({"overwrite": True}, {"overwrite": True, "resume": True}):
        refused(r"did not write .*\.DS_Store.* add --force", stored, path, 2, **mode)
    assert contents(path) == before
    stored(path, 2, overwrite=True, force=True)
    assert contents(path) == truth(2)[1]


def test_files_that_come_during_a_run_survive_it(path: Path, monkeypatch: Patch) -> None:
    """In the old cube and the new one; and temporary files of the run that was killed do not."""
    with pytest.MonkeyPatch.context() as patch:
        stop_after(1, disk_full, patch)
        with pytest.raises(OSError, match="1 finished block"):
            stored(path, 3, overwrite=True)
    partial = path.with_name("a.zarr.partial")
    (partial / "new.md").write_bytes(b"new")
    (partial / "yearly_cost/c/0").mkdir(parents=True, exist_ok=True)
    for name in ("yearly_cost/c/0/0.12.345.fleetcube-tmp", "other/c/0", "yearly_cost/c/0/7"):
        (partial / name).parent.mkdir(parents=True, exist_ok=True)
        (partial / name).write_bytes(b"of a killed run")
    refused("add --force", lambda: (visited(path), stored(path, 3, overwrite=True, resume=True)))
    for name in ("link", "pipe", *FILES):
        (path / name).unlink()
    path.joinpath("zarr.json").write_bytes(truth(1)[1]["zarr.json"])
    path.joinpath("yearly_cost/zarr.json").write_bytes(truth(1)[1]["yearly_cost/zarr.json"])
    stored(path, 3, overwrite=True, resume=True)
    assert contents(path) == {**truth(3)[1], "new.md": b"new"}
    assert not partial.exists()


@cases("kill", False, True)
def test_they_survive_where_nothing_is_renamed(kill: bool) -> None:
    url = f"memory://guests-{kill}/a.zarr"
    place = place_of(stored(url))
    root, array = (json.loads(place.read(name)) for name in ("zarr.json", "yearly_cost/zarr.json"))
    root["attributes"]["title"], array["attributes"]["note"] = "Ours", "see README"
    for name, meta in {"zarr.json": root, "yearly_cost/zarr.json": array}.items():
        place.write(name, json.dumps(meta, indent=2).encode())
    place.write("results/a.csv", b"1")
    place.delete("yearly_cost/c/0/0")
    if kill:
        with pytest.MonkeyPatch.context() as patch:
            stop_after(0, disk_full, patch)
            with pytest.raises(OSError, match="space left"):
                stored(url, resume=True)
        assert {GUESTS, "results/a.csv"} <= {*(place.sizes() or ())}
    stored(url, resume=True)
    stored(url, 2, append=True)
    assert place.read("results/a.csv") == b"1"
    for cube in (open_cube(url), xarray.open_zarr(place.source())):
        assert (cube.attrs["title"], cube["yearly_cost"].attrs["note"]) == ("Ours", "see README")
    report = verify(url)
    assert (report.problems, {*(place.sizes() or ())} & {GUESTS, LOCK}) == ([], set())
    refused("results/.*add --force", stored, url, overwrite=True)
    stored(url, 2, overwrite=True, force=True)
    assert {name: place.read(name) for name in place.sizes() or ()} == truth(2)[1]


@cases("mode", {"overwrite": True}, {"append": True})
def test_an_attribute_that_comes_before_the_lock_survives(mode: Any, monkeypatch: Patch) -> None:
    """Where a cube is rewritten in its place: it was lost between the examination and the lock."""
    url = f"memory://late-{min(mode)}/a.zarr"
    place = place_of(stored(url))

    def titled_meanwhile(*_: Any) -> None:
        root = json.loads(place.read("zarr.json"))
        root["attributes"]["title"] = "Ours"
        place.write("zarr.json", json.dumps(root).encode())

    monkeypatch.setattr(cube_module, "_check_room", titled_meanwhile)
    if "overwrite" in mode:
        refused("the attribute 'title'.*add --force", stored, url, 2, **mode)
    else:
        stored(url, 2, **mode)
    cube = open_cube(url)
    assert cube.attrs["title"] == "Ours"
    assert cube.sizes["heating_hours"] == (2 if "append" in mode else 1)


@pytest.mark.slow
def test_attributes_survive_in_icechunk(tmp_path: Path) -> None:
    icechunk = pytest.importorskip("icechunk")
    url = stored(f"icechunk://{tmp_path}/a")
    repository = icechunk.Repository.open(icechunk.local_filesystem_storage(f"{tmp_path}/a"))
    session = repository.writable_session("main")
    zarr.open_group(session.store, mode="r+").attrs["title"] = "Ours"
    zarr.open_array(session.store, path="yearly_cost", mode="r+").attrs["note"] = "see README"
    session.commit("a title")
    stored(url, 2, append=True)
    cube = open_cube(url)
    assert (cube.attrs["title"], cube["yearly_cost"].attrs["note"]) == ("Ours", "see README")
    assert verify(url).problems == []


@cases("name", "scale_factor", "_FillValue", "units", "fleetcube_remarks", "coordinates", "dtype")
def test_no_attribute_of_others_changes_a_number(path: Path, name: str) -> None:
    """Those that readers decode are kept, and not shown by `open_cube`."""
    for file in ("zarr.json", "heating_hours/zarr.json", "infeasible_reason/zarr.json"):
        if (path / file).exists() and name not in (meta := json.loads((path / file).read_bytes()))[
            "attributes"
        ]:
            meta["attributes"][name] = "yearly_cost"
            (path / file).write_text(json.dumps(meta), encoding="utf-8")
    before = contents(path)
    xarray.testing.assert_identical(open_cube(path).load(), truth(1)[0])
    assert name in verify(path).guests
    stored(path, resume=True)
    assert contents(path) == before


def twice(path: Path) -> None:
    cube = xarray.open_zarr(path).load()
    cube["yearly_cost"] = cube["yearly_cost"] * 2
    cube[["yearly_cost"]].drop_vars(list(cube.coords)).to_zarr(path, mode="r+")


def longer(path: Path) -> None:
    cube = xarray.open_zarr(path).load().assign_coords(heating_hours=[7])
    cube.to_zarr(path, append_dim="heating_hours")


def titled(path: Path) -> None:
    xarray.Dataset(attrs={"title": "Ours"}).to_zarr(path, mode="a")  # replaces our attributes


def again(path: Path) -> None:
    open_cube(path).load().to_zarr(path, mode="a")


@cases("change", twice, longer)
@cases("compressor", "lz4", "zstd")
def test_what_xarray_wrote_over_is_left(path: Path, change: Any, compressor: str) -> None:
    """In cubes of Zstandard, which have no crc32c, it was replaced as damage."""
    how = {"compressor": compressor}
    stored(path, overwrite=True, **how)
    sealed = contents(path)
    change(path)
    before = contents(path)
    report = verify(path)
    assert report.changed
    assert "--overwrite` writes it again" in report.advice
    assert refused("which no run replaces", stored, path, resume=True, **how) == report.advice
    refused("which no run replaces", stored, path, 2, append=True, **how)
    assert contents(path) == before
    assert open_cube(path, verify=False).sizes["heating_hours"] in (1, 2)
    force = {"force": True} if report.guests else {}
    stored(path, overwrite=True, **force, **how)
    assert contents(path) == sealed


@cases("change", titled, again)
def test_a_root_that_xarray_wrote_is_mended(path: Path, change: Any) -> None:
    change(path)
    for words in (verify(path).advice, refused("is damaged", open_cube, path) or ""):
        assert "`run --resume` of its sweep repairs it" in words
    stored(path, resume=True)
    assert verify(path).problems == []
    title = "Ours" if change is titled else None
    for cube in (open_cube(path), xarray.open_zarr(path)):
        assert cube.attrs.get("title") == title
    xarray.testing.assert_equal(open_cube(path).load(), truth(1)[0])


def test_a_zip_is_read_as_it_is(path: Path) -> None:
    packed = shutil.make_archive(str(path), "zip", path)
    refused(r"not sealed.*verify=False\)`; unpack it", open_cube, packed)
    xarray.testing.assert_identical(open_cube(packed, verify=False).load(), open_cube(path).load())
    with zarr.storage.ZipStore(packed, mode="r") as store:
        xarray.testing.assert_equal(xarray.open_zarr(store).load(), truth(1)[0])


def test_the_home_folder(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert stored("~/a.zarr") == tmp_path / "a.zarr"
    assert verify("~/a.zarr").problems == []
    xarray.testing.assert_equal(open_cube("~/a.zarr").load(), truth(1)[0])
    (tmp_path / "s.toml").write_text(
        'outputs = ["step_time"]\n[scenario]\nmodel = "llama-3-8b"\nnode = "dgx-h100"\n'
        'fabric = "roce-100g"\n[axes]\nn_gpus = [8, 16]\n',
        encoding="utf-8",
    )
    sweep = Sweep.from_file("~/s.toml")
    sweep.to_html("~/a.html")
    xarray.open_dataset("~/s.toml", engine="fleetcube")
    xarray.open_dataset("~/a.zarr", engine="fleetcube")
    command = [sys.executable, "-m", "fleetcube", "run", "~/s.toml", "--output=~/b.zarr"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "b.zarr/README.md").touch()
    command[-3:] = ["verify", "~/b.zarr"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert "not ours, and kept by every run: README.md" in done.stdout
    assert "is sound" in done.stdout
    names = {entry.name for entry in tmp_path.iterdir()}
    assert names == {"a.zarr", "s.toml", "a.html", "b.zarr"}


@cases("first", *range(1, 13, 4))
def test_sequences_lose_nothing(tmp_path: Path, first: int) -> None:
    """Runs, kills, an owner's files and attributes, xarray's writes, copies of the folder."""
    for seed in range(first, first + 4):
        (tmp_path / str(seed)).mkdir()
        sequence(tmp_path / str(seed), seed)


@pytest.mark.slow
def test_more_sequences_lose_nothing(tmp_path: Path) -> None:
    for seed in range(100, 130):
        (tmp_path / str(seed)).mkdir()
        sequence(tmp_path / str(seed), seed)


def test_the_sequences_would_notice(tmp_path: Path) -> None:
    stored(tmp_path / "a.zarr")
    owner = Owner(tmp_path, 1)
    while not owner.files:
        owner.put_file()
    (tmp_path / "a.zarr" / next(iter(owner.files))).unlink()
    with pytest.raises(AssertionError):
        owner.check()


@cases("harm", "seal", "units", "neither")
def test_long_attributes_and_those_of_harmed_metadata_survive(path: Path, harm: str) -> None:
    """A repair kept none of a cube without its seal, or of more than a MB, and none of the root
    where an array's metadata were harmed."""
    for file, attribute in (("zarr.json", "title"), ("yearly_cost/zarr.json", "note")):
        meta = json.loads((path / file).read_bytes())
        meta["attributes"] |= {attribute: "x" * 3_000_000}
        if harm == "units" and attribute == "note":
            meta["attributes"]["units"] = "EUR"
        (path / file).write_text(json.dumps(meta), encoding="utf-8")
    if harm == "seal":
        (path / ".fleetcube/record/seal").unlink()
    stored(path, resume=True)
    cube = open_cube(path)
    assert len(cube.attrs["title"]) == len(cube["yearly_cost"].attrs["note"]) == 3_000_000
    assert cube["yearly_cost"].attrs["units"] == truth(1)[0]["yearly_cost"].attrs["units"]
    assert verify(path).problems == []


def test_an_array_behind_a_link_is_written_again(path: Path) -> None:
    """Readers do not follow the link; `--resume`, which they advise, called the cube sound."""
    outside = path.with_name("outside")
    (path / "yearly_cost").rename(outside)
    (path / "yearly_cost").symlink_to(outside)
    refused("`run --resume` of its sweep repairs it", open_cube, path)
    before = contents(outside)
    stored(path, resume=True)
    xarray.testing.assert_identical(open_cube(path).load(), truth(1)[0])
    assert contents(outside) == before
