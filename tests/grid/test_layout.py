"""The layout of a cube (docs/cube-format.md): version, plain readers' view, places of values."""

import contextlib
import functools
import hashlib
import http.server
import json
import shutil
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
import tensorstore
import xarray
import zarr
from numcodecs import Blosc, Zstd

from fleetcube import InputError, Settings, Sweep, open_cube
from fleetcube.grid.store import journal
from fleetcube.grid.store.examine import examine
from fleetcube.grid.store.names import PLAN, SEAL
from fleetcube.grid.store.places.objects import Objects
from fleetcube.grid.store.places.place import Folder
from fleetcube.grid.store.verify import verify
from fleetcube.presentation.page.view import View

from ..table import each
from .common import refused
from .test_tampered import attributes, seal_anew

SCENARIO = {"calibration": "none", "model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g"}
SCENARIO |= {"n_gpus": 64, "tensor_parallel": 8}
MANY = np.random.default_rng(1).uniform(1e7, 1e9, 200)
COUPLED = {"gpu_mttf": [f"{k} h" for k in range(1, 201)]}
COUPLED |= {"restart_time": {"linspace": [1, 9], "num": 200}}
COUPLED |= {"zero_stage": [k % 4 for k in range(200)]}
COUPLED |= {"all_reduce": {"values": ["ring", "auto"] * 100}}
AXES: dict[str, Any] = {"both": COUPLED, "fabric": ["roce-100g", "infiniband-ndr"]}
OUTPUTS = ["goodput", "job_time"]
# Entries of an axis, and the value of its point number 100
LONG: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "array": ({"gpu_mttf": MANY}, {"gpu_mttf": MANY[100]}),
    "whole numbers": ({"gpu_mttf": np.arange(1, 201)}, {"gpu_mttf": 101.0}),
    "range": ({"gpu_mttf": range(1, 201)}, {"gpu_mttf": 101.0}),
    "texts": ({"gpu_mttf": [f"{k} h" for k in range(1, 201)]}, {"gpu_mttf": 101 * 3600.0}),
    "rounded": (
        {"gpu_mttf": {"values": [k / 2 for k in range(2, 400)], "round": True}},
        {"gpu_mttf": 101.0},
    ),
    "together": (
        {"both": COUPLED},
        {"gpu_mttf": 101 * 3600.0, "zero_stage": 0, "all_reduce": "ring"},
    ),
    "named": (
        {"both": {"labels": [f"p{k}" for k in range(200)], "gpu_mttf": MANY}},
        {"both": "p100", "gpu_mttf": MANY[100]},
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layout") / "a.zarr"
    Sweep(SCENARIO, AXES, OUTPUTS).to_zarr(path, settings=Settings("numpy"))
    return path


@pytest.fixture
def cube(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "a.zarr"))


def root(cube: Path) -> dict[str, Any]:
    return dict(json.loads((cube / "zarr.json").read_bytes()))


def spec(attrs: Any) -> Any:
    return json.loads(attrs["fleetcube_spec"])


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder by static HTTP, which lists nothing that Zarr reads."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_plain_xarray_opens_without_a_word(made: Path) -> None:
    own = open_cube(made).load()
    for plain in (xarray.open_zarr(made), xarray.open_dataset(made, engine="zarr")):
        xarray.testing.assert_identical(plain.load(), own)
    assert xarray.open_datatree(made, engine="zarr").groups == ("/",)
    with served(made.parent) as url:
        store = zarr.storage.ObjectStore(Objects(f"{url}/{made.name}").client, read_only=True)
        xarray.testing.assert_identical(xarray.open_zarr(store).load(), own)
    url = Sweep(SCENARIO, AXES, OUTPUTS).to_zarr("memory://layout", settings=Settings("numpy"))
    store = zarr.storage.ObjectStore(Objects(str(url)).client, read_only=True)
    xarray.testing.assert_identical(xarray.open_zarr(store).load(), own)
    assert list(zarr.open_group(store, mode="r").group_keys()) == []


def test_zarr_sees_arrays_and_no_record(made: Path) -> None:
    group = zarr.open_group(made, mode="r")
    members = dict(group.members(max_depth=None))
    assert members.keys() == set(map(str, open_cube(made).variables))
    assert list(group.group_keys()) == []
    for name, array in members.items():
        assert isinstance(array, zarr.Array)
        assert repr(array.metadata) == repr(zarr.open_array(made / name, mode="r").metadata)
    # a reader that ignores the root's copies is not warned of unknown files, either
    listed = zarr.open_group(made, mode="r", use_consolidated=False)
    assert set(listed.array_keys()) == members.keys()


@each(("entry", "point"), LONG.values(), LONG)
def test_long_axes_are_referred_to_and_put_back(tmp_path: Path, entry: Any, point: Any) -> None:
    path = tmp_path / "b.zarr"
    sweep = Sweep(SCENARIO, entry, ["goodput"])
    sweep.to_zarr(path, overwrite=True, settings=Settings("numpy"))
    attrs = open_cube(path).attrs
    assert len(attrs["fleetcube_spec"]) < 1500
    assert (
        attrs["fleetcube_spec"]
        == sweep.evaluate(settings=Settings("numpy")).attrs["fleetcube_spec"]
    )
    assert verify(path).problems == verify(path).notes == []
    found = View.open(str(path)).spec
    assert found is not None
    again = Sweep(**found)
    xarray.testing.assert_identical(
        again.evaluate(settings=Settings("numpy")), sweep.evaluate(settings=Settings("numpy"))
    )
    at = again.evaluate(settings=Settings("numpy")).isel(dict.fromkeys(entry, 100))
    assert {name: at[name].item() for name in point} == point
    # a run also resumes from what was put back
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    again.to_zarr(path, resume=True, settings=Settings("numpy"))
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_reference_is_the_digest_of_its_values(made: Path) -> None:
    axes = spec(root(made)["attributes"])["axes"]
    hours = [3600.0 * k for k in range(1, 201)]
    assert axes["both"]["gpu_mttf"] == {
        "values": "coordinate",
        "size": 200,
        "sha256": hashlib.sha256(struct.pack("<200d", *hours)).hexdigest(),
    }
    texts = json.dumps(["ring", "auto"] * 100).encode()
    assert axes["both"]["all_reduce"]["sha256"] == hashlib.sha256(texts).hexdigest()
    assert axes["both"]["restart_time"] == COUPLED["restart_time"]
    assert axes["fabric"] == AXES["fabric"]


def test_results_in_memory_carry_no_copies() -> None:
    sweep = Sweep(SCENARIO, {"gpu_mttf": MANY, "restart_time": MANY / 1e6}, ["goodput"])
    for found in (
        sweep.evaluate(settings=Settings("numpy")),
        sweep.reduce("min", settings=Settings("numpy")),
        sweep.virtual(),
    ):
        assert spec(found.attrs)["axes"]["gpu_mttf"]["size"] == 200
        assert len(found.attrs["fleetcube_spec"]) < 600


def test_an_axis_that_no_output_has_is_written_out(tmp_path: Path) -> None:
    """Without a coordinate to refer to, the spec must still be complete."""
    axes = {"gpu_mttf": [1e8, 2e8], "electricity_price": [k * 1e-8 for k in range(1, 201)]}
    path = Sweep(SCENARIO, axes, ["goodput"]).to_zarr(
        tmp_path / "a.zarr", settings=Settings("numpy")
    )
    assert spec(open_cube(path).attrs)["axes"] == axes
    assert verify(path).problems == verify(path).notes == []


def test_long_axes_grow(tmp_path: Path) -> None:
    path, axes = tmp_path / "a.zarr", {"gpu_mttf": MANY}
    Sweep(SCENARIO, {"gpu_mttf": MANY[:150]}, OUTPUTS).to_zarr(path, settings=Settings("numpy"))
    wrong = Sweep(SCENARIO, {"gpu_mttf": np.append(MANY[1:150], 1.0)}, OUTPUTS)
    refused("label 1 of gpu_mttf is", wrong.to_zarr, path, settings=Settings("numpy"), append=True)
    Sweep(SCENARIO, axes, OUTPUTS).to_zarr(path, append=True, settings=Settings("numpy"))
    assert np.array_equal(open_cube(path)["gpu_mttf"].values, MANY)
    assert verify(path).problems == verify(path).notes == []


@each("name", ["gpu_mttf", "all_reduce", "both"])
def test_a_label_that_is_not_that_of_the_spec_is_found(made: Path, name: str) -> None:
    with contextlib.ExitStack() as stack:
        folder = made.parent / f"changed-{name}"
        stack.callback(shutil.rmtree, folder)
        cube = Path(shutil.copytree(made, folder))
        file = cube / name / "c/0"
        data = bytearray(Zstd().decode(file.read_bytes()[:-4]))
        data[-1] ^= 1
        harmed = bytes(Zstd(level=0).encode(bytes(data)))
        file.write_bytes(harmed + google_crc32c.value(harmed).to_bytes(4, "little"))
        seal_anew(cube)
        assert verify(cube).problems == [f"the labels {name!r} are not those of its spec"]
        assert "are not those of its spec" in View.open(str(cube)).why


@each(
    ("changed", "found"),
    [
        ({"size": 199}, "the labels 'gpu_mttf' are not those of its spec"),
        ({"sha256": "0"}, "the labels 'gpu_mttf' are not those of its spec"),
        ({"sha256": None}, "the labels 'gpu_mttf' are not those of its spec"),
    ],
)
def test_references_that_are_none(made: Path, changed: dict[str, Any], found: str) -> None:
    cube = Path(shutil.copytree(made, made.parent / "forged", dirs_exist_ok=True))
    forged = spec(root(cube)["attributes"])
    forged["axes"]["both"]["gpu_mttf"] |= changed
    attributes(cube, ".", fleetcube_spec=json.dumps(forged))
    assert verify(cube).problems == [found]


def test_a_reference_to_nothing_is_found(cube: Path) -> None:
    forged = spec(root(cube)["attributes"])
    forged["axes"]["both"]["nic_mttf"] = forged["axes"]["both"].pop("gpu_mttf")
    attributes(cube, ".", fleetcube_spec=json.dumps(forged))
    (problem,) = verify(cube).problems
    assert problem == "its spec refers to a coordinate 'nic_mttf', which it does not have"
    with pytest.raises(InputError, match="give exactly one of values"):
        Sweep(SCENARIO, {"gpu_mttf": forged["axes"]["both"]["nic_mttf"]}, OUTPUTS)


def test_a_root_that_repeats_something_else_is_found(cube: Path) -> None:
    """Every array is unchanged; only readers of the root would take seconds for hours."""
    held = root(cube)
    held["consolidated_metadata"]["metadata"]["job_time"]["attributes"]["units"] = "h"
    (cube / "zarr.json").write_text(json.dumps(held), encoding="utf-8")
    seal_anew(cube)
    assert verify(cube).problems == ["zarr.json does not repeat the metadata of the arrays"]
    assert open_cube(cube)["job_time"].attrs["units"] == "s"


def test_cubes_of_another_version_are_read_and_not_continued(cube: Path, made: Path) -> None:
    """As docs/releases.md promises."""
    record = examine(Folder(cube)).plan
    assert record is not None
    record["version.fleetcube"] = "0.9.1"
    Folder(cube).write(PLAN, journal.record_bytes(record))
    attributes(cube, ".", fleetcube_version="0.9.1")
    seal_anew(cube)
    xarray.testing.assert_equal(open_cube(cube).load(), open_cube(made).load())
    found = verify(cube)
    assert found.problems == []
    (note,) = found.notes
    assert note.startswith("no samples: since the cube was written, this changed: version.fleetc")
    assert View.open(str(cube)).spec is not None
    sweep = Sweep(SCENARIO, AXES, OUTPUTS)
    for mode in ("resume", "append"):
        with pytest.raises(InputError, match=r"version\.fleetcube"):
            sweep.to_zarr(cube, settings=Settings("numpy"), **{mode: True})  # type: ignore[arg-type]
    sweep.to_zarr(cube, overwrite=True, settings=Settings("numpy"))
    assert verify(cube).notes == []


def test_newer_layouts_are_refused(cube: Path) -> None:
    attributes(cube, ".", **{"fleetcube_layout": 2, "fleetcube_version": "7.1"})
    (cube / SEAL).unlink()  # unknown then
    sweep = Sweep(SCENARIO, AXES, OUTPUTS)
    for of in (
        lambda: open_cube(cube),
        lambda: verify(cube),
        lambda: View.open(str(cube)),
        lambda: sweep.to_zarr(cube, resume=True),
        lambda: sweep.to_zarr(cube, append=True),
    ):
        refused(r"has layout 2, .*; install fleetcube >= 7\.1$", of)


@each("layout", [True, 0, -1, "1", 1.5, None, [1], 10**400])
def test_layouts_that_are_none(made: Path, layout: Any) -> None:
    cube = Path(shutil.copytree(made, made.parent / "layouts", dirs_exist_ok=True))
    attributes(cube, ".", fleetcube_layout=layout, fleetcube_version="1\x1b[2J")
    with pytest.raises(InputError, match=r"is damaged|install a newer fleetcube") as found:
        open_cube(cube)
    assert "\n" not in str(found.value)
    assert "\x1b" not in str(found.value)


def test_a_reader_can_be_written_from_the_page(made: Path) -> None:
    """Every value, from bytes: JSON, crc32c, lz4 in Blosc, Zstandard, and the order of chunks."""
    checksum, _, body = (made / ".fleetcube/record/seal").read_bytes().partition(b" ")
    assert hashlib.sha256(body.rstrip(b"\n")).hexdigest().encode() == checksum
    for name, (size, sha256) in json.loads(body)["files"].items():
        data = (made / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (size, sha256)
    chunks: dict[str, tuple[int, int]] = {}
    for line in (made / ".fleetcube/record/journal").read_bytes().splitlines():
        crc, _, entry = line.partition(b" ")
        assert google_crc32c.value(entry) == int(crc, 16)
        chunks |= {name: (size, crc) for name, size, crc in json.loads(entry)[3]}
    expected = open_cube(made)
    arrays = root(made)["consolidated_metadata"]["metadata"]
    assert arrays.keys() == set(expected.variables)
    for name, meta in arrays.items():
        if (name, "c") in {(file.split("/")[0], "c") for file in chunks}:
            values = decoded(made, name, meta, chunks)
        else:
            values = coordinate(made, name, meta)
        assert tuple(meta["dimension_names"]) == expected[name].dims
        assert np.array_equal(values, expected[name].values, equal_nan=values.dtype.kind == "f")


def decoded(cube: Path, name: str, meta: Any, chunks: dict[str, tuple[int, int]]) -> Any:
    shape, inner = meta["shape"], meta["chunk_grid"]["configuration"]["chunk_shape"]
    values = np.empty(shape, meta["data_type"])
    for at in np.ndindex(*(-(-s // c) for s, c in zip(shape, inner, strict=True))):
        file = "/".join([name, "c", *map(str, at)])
        data = (cube / file).read_bytes()
        assert (len(data), google_crc32c.value(data[:-4])) == chunks[file]
        whole = np.frombuffer(Blosc().decode(data[:-4]), values.dtype).reshape(inner)
        cut = tuple(slice(k * c, (k + 1) * c) for k, c in zip(at, inner, strict=True))
        values[cut] = whole[tuple(slice(0, size) for size in values[cut].shape)]
    return values


def coordinate(cube: Path, name: str, meta: Any) -> Any:
    data = (cube / name / "c/0").read_bytes()
    assert google_crc32c.value(data[:-4]) == int.from_bytes(data[-4:], "little")
    data = Zstd().decode(data[:-4])
    if meta["data_type"] != "string":
        return np.frombuffer(data, meta["data_type"])
    texts, at = [], 4
    for _ in range(int.from_bytes(data[:4], "little")):
        size = int.from_bytes(data[at : at + 4], "little")
        texts.append(data[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return np.array(texts, object)


def test_readers_without_texts_find_labels_beside_them(made: Path) -> None:
    """tensorstore reads only numbers as arrays; short lists of texts are also attributes."""
    file = {"driver": "file", "path": str(made / "fabric")}
    with pytest.raises(ValueError, match="string data type is not one of the supported"):
        tensorstore.open({"driver": "zarr3", "kvstore": file}).result()
    meta = json.loads((made / "fabric/zarr.json").read_bytes())
    assert json.loads(meta["attributes"]["labels"]) == AXES["fabric"]
    assert "labels" not in json.loads((made / "both/zarr.json").read_bytes())["attributes"]
