"""A cube gets more labels on its axes, without recomputing existing values."""

from pathlib import Path
from typing import Any

import pytest

from fleetcube import Settings, Sweep, open_cube
from fleetcube.grid.errors import InputError
from fleetcube.grid.store.places.address import place_of

from ..engine import heat_pump
from .common import Patch, cases, refused
from .test_resume import (
    AXES,
    CHUNKS,
    OUTPUTS,
    SCENARIO,
    blocks_written,
    contents,
    disk_full,
    stop_after,
)

FABRICS, GPUS = AXES["fabric"], AXES["n_gpus"]
GROWN = {**AXES, "fabric": [*FABRICS, "infiniband-hdr"], "n_gpus": [*GPUS, 1024, 2048]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A cube of 2 x 3 x 7 points in chunks of 2 x 2 x 2."""
    cube = Sweep(SCENARIO, AXES, OUTPUTS).to_zarr(tmp_path / "a.zarr", chunks=CHUNKS)
    assert isinstance(cube, Path)
    return cube


def whole(tmp_path: Path, axes: dict[str, Any]) -> dict[str, bytes]:
    """The same sweep stored at once, in the grown cube's chunks: fabrics by two."""
    chunks = {**CHUNKS, "fabric": 2}
    made = Sweep(SCENARIO, axes, OUTPUTS).to_zarr(tmp_path / "whole.zarr", chunks=chunks)
    assert isinstance(made, Path)
    return contents(made)


def test_a_grown_cube_is_of_the_grown_sweep(path: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    """Byte for byte; and only blocks that reach over the old end are computed."""
    before = {name: (path / name).stat().st_ino for name in contents(path) if "/c/" in name}
    written = blocks_written(monkeypatch)
    assert Sweep(SCENARIO, GROWN, OUTPUTS).to_zarr(path, append=True) == path
    monkeypatch.undo()
    for region in written:
        assert region["n_gpus"].stop > 3 or region.get("fabric", slice(0, 0)).stop > 2
    assert contents(path) == whole(tmp_path, GROWN)
    # n_gpus 0:2 of fabrics 0:2 is what is kept: four chunks along gpu_mttf
    kept = [f"job_time/c/0/0/{k}" for k in range(4)]
    assert [(path / name).stat().st_ino for name in kept] == [before[name] for name in kept]
    assert len(written) < len(list(Sweep(SCENARIO, GROWN, OUTPUTS)._plan("numpy").groups())) * 24


@pytest.mark.parametrize("axis", ["fabric", "n_gpus"])
def test_one_axis_grows_again_and_again(path: Path, tmp_path: Path, axis: str) -> None:
    axes = dict(AXES)
    for count in range(len(AXES[axis]), len(GROWN[axis]) + 1):
        axes = {**AXES, axis: GROWN[axis][:count]}
        Sweep(SCENARIO, axes, OUTPUTS).to_zarr(path, append=True)
        assert open_cube(path).sizes[axis] == count
    assert contents(path) == whole(tmp_path, axes)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.zarr", "whole.zarr"]


def test_an_append_that_stops_leaves_the_cube_and_goes_on(path: Path, tmp_path: Path) -> None:
    before = contents(path)
    with pytest.MonkeyPatch.context() as patch:
        stop_after(3, disk_full, patch)
        told = r"finished blocks are kept in .*; `run --append` continues it"
        with pytest.raises(OSError, match=told):
            Sweep(SCENARIO, GROWN, OUTPUTS).to_zarr(path, append=True, settings=Settings(threads=1))
    assert contents(path) == before
    open_cube(path).load()
    Sweep(SCENARIO, GROWN, OUTPUTS).to_zarr(path, append=True)
    assert contents(path) == whole(tmp_path, GROWN)


def test_a_damaged_block_is_computed_again(path: Path, tmp_path: Path) -> None:
    (path / "job_time/c/0/0/1").write_bytes(b"")
    Sweep(SCENARIO, GROWN, OUTPUTS).to_zarr(path, append=True)
    assert contents(path) == whole(tmp_path, GROWN)


def test_a_cube_among_objects_grows(tmp_path: Path) -> None:
    url = "memory://grows/a.zarr"
    Sweep(SCENARIO, AXES, OUTPUTS).to_zarr(url, chunks=CHUNKS)
    Sweep(SCENARIO, GROWN, OUTPUTS).to_zarr(url, append=True)
    place = place_of(url)
    assert {name: place.read(name) for name in place.sizes() or ()} == whole(tmp_path, GROWN)


@cases(
    "scenario, axes, keywords, told",
    ({}, {"n_gpus": [8, 60, 500, 1024]}, {}, "label 3 of n_gpus is 512 .* and now 500"),
    ({}, {"n_gpus": [4, 8, 60, 512]}, {}, "label 1 of n_gpus is 8 .* and now 4"),
    ({}, {"n_gpus": [8, 60]}, {}, "n_gpus has 3 labels in .*; keep them all"),
    ({}, {"fabric": FABRICS[::-1]}, {}, "label 1 of fabric is 'infiniband-ndr'"),
    ({}, {"restart_time": ["1 min"]}, {}, "axes"),
    ({"node": "dgx-a100"}, {}, {}, r'scenario\.node: "dgx-h100" -> "dgx-a100"'),
    ({}, {}, {"dtype": "float32"}, 'dtype: "float64" -> "float32"'),
    ({}, {}, {"settings": Settings("numba")}, 'engine: "numpy" -> "numba"'),
    ({}, {}, {"chunks": {"n_gpus": 3}}, r"chunks\."),
    ({}, {}, {"resume": True}, "--resume and --append exclude each other"),
)
def test_what_is_no_growth(path: Path, scenario: Any, axes: Any, keywords: Any, told: str) -> None:
    before = contents(path)
    other = Sweep({**SCENARIO, **scenario}, {**AXES, **axes}, OUTPUTS)
    refused(told, other.to_zarr, path, append=True, **keywords)
    assert contents(path) == before
    assert [entry.name for entry in path.parent.iterdir()] == ["a.zarr"]


def test_a_label_that_makes_outputs_depend_on_more_is_refused(tmp_path: Path) -> None:
    """The roofline does not use a share of peak: an array cannot gain a dimension later."""
    scenario = {**SCENARIO, "fabric": "infiniband-ndr"}
    axes = {"compute_model": ["roofline"], "flops_efficiency": [0.4, 0.5], "n_gpus": [8, 64]}
    path = Sweep(scenario, axes, ["step_time"]).to_zarr(tmp_path / "a.zarr")
    more = {**axes, "compute_model": ["roofline", "mfu"]}
    with pytest.raises(InputError, match=r"step_time depends on .*flops_efficiency.*, before on"):
        Sweep(scenario, more, ["step_time"]).to_zarr(path, append=True)


def test_there_must_be_a_cube_and_one_of_the_same_size_stays(path: Path) -> None:
    before, sweep = contents(path), Sweep(SCENARIO, AXES, OUTPUTS)
    refused(
        "there is no cube .* to append to", sweep.to_zarr, path.with_name("b.zarr"), append=True
    )
    assert [entry.name for entry in path.parent.iterdir()] == ["a.zarr"]
    sweep.to_zarr(path, append=True)
    assert contents(path) == before


def test_jax_appends_where_the_tables_stay(tmp_path: Path) -> None:
    """Tables have NumPy's last bits; which quantities are tables depends on the sizes of axes."""
    pytest.importorskip("jax")
    how, chunks = Settings("jax"), dict.fromkeys(("outside_temperature", "supply_temperature"), 4)

    def pump(temperatures: int) -> Sweep:
        axes: dict[str, Any] = {"outside_temperature": [260, 270, 280, 290]}
        axes |= {"supply_temperature": [*range(300, 300 + temperatures)]}
        axes |= {"heating_hours": [*range(1000, 1020)]}
        return Sweep({"heat_loss": 200}, axes, ["yearly_cost"], graph=heat_pump)

    path = pump(4).to_zarr(tmp_path / "a.zarr", chunks=chunks, settings=how)
    pump(6).to_zarr(path, chunks=chunks, append=True, settings=how)
    whole = pump(6).evaluate(settings=how)["yearly_cost"]
    assert (open_cube(path)["yearly_cost"] == whole).all()
    message = r"this changed: quantities\.jax: .*heat_demand"
    refused(message, pump(16).to_zarr, path, chunks=chunks, append=True, settings=how)
