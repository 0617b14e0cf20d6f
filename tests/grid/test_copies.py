"""Cubes copied or changed by another program: reported, read as they are, never repaired."""

from pathlib import Path
from typing import Any

import pytest
import xarray

from fleetcube import Sweep, open_cube
from fleetcube.grid.store.verify import verify

from .common import refused

pytestmark = pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning")
SWEEP = Sweep(
    {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "roce-100g"},
    {"n_gpus": [8, 64], "gpu_mttf": ["10_000 h", "50_000 h", "100_000 h"]},
    ["job_time", "goodput"],
)


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    return Path(SWEEP.to_zarr(tmp_path / "a.zarr", chunks={"gpu_mttf": 2}))


COPIES: dict[str, Any] = {"copy.zarr": lambda found, to: found.to_zarr(to)}
COPIES |= {"old.zarr": lambda found, to: found.drop_encoding().to_zarr(to, zarr_format=2)}
COPIES |= {"copy.nc": lambda found, to: found.to_netcdf(to)}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_not_sealed_and_read_as_it_is(cube: Path, name: str) -> None:
    copy = cube.with_name(name)
    COPIES[name](xarray.open_zarr(cube), copy)
    for read in (open_cube, verify):
        assert "--resume" not in refused(r"is not sealed by fleetcube.*verify=False", read, copy)
    refused(r"is not sealed|is not a cube", SWEEP.to_zarr, copy, resume=True)
    values = open_cube(copy, verify=False)
    xarray.testing.assert_equal(values.load(), open_cube(cube).load())
    assert list(values.data_vars) == SWEEP.spec["outputs"]
    own = open_cube(cube).fleetcube.sel(gpu_mttf="50000h")
    xarray.testing.assert_equal(values.fleetcube.sel(gpu_mttf="50_000 h"), own)


@pytest.mark.parametrize("consolidated", [True, False])
def test_what_another_program_added_is_named_and_kept(cube: Path, consolidated: bool) -> None:
    before = open_cube(cube).load()
    more = (before[["job_time"]] * 2).rename(job_time="twice")
    more.drop_vars(more.coords).to_zarr(cube, mode="a", consolidated=consolidated)
    told = refused(r"program added 'twice', which no run replaces; .*verify=False", open_cube, cube)
    assert verify(cube).advice == told
    for again in ({"resume": True}, {"append": True}):
        assert refused("added", SWEEP.to_zarr, cube, **again) == told  # type: ignore[arg-type]
    values = open_cube(cube, verify=False)
    for name, variable in {**before.variables, "twice": more["twice"].variable}.items():
        xarray.testing.assert_equal(values[name].variable.load(), variable)
    refused(r"did not write \(twice/\).*add --force", SWEEP.to_zarr, cube, overwrite=True)
    SWEEP.to_zarr(cube, overwrite=True, force=True)
    xarray.testing.assert_equal(open_cube(cube).load(), before)


def test_changed_attributes_are_read_as_they_are(cube: Path) -> None:
    root = cube / "zarr.json"
    root.write_text(root.read_text().replace("CF-1.11", "CF-1.12"), encoding="utf-8")
    refused(r"--resume.*if another program changed it.*verify=False", open_cube, cube)
    assert open_cube(cube, verify=False).attrs["Conventions"] == "CF-1.12"


def test_only_cubes_are_read_as_they_are(cube: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes", encoding="utf-8")
    xarray.Dataset({"a": 1}).to_zarr(tmp_path / "other.zarr")
    (tmp_path / "begun.zarr.partial").mkdir()
    whys = dict.fromkeys(("notes.txt", "other.zarr"), "is no copy of a cube")
    whys |= {"none.zarr": "there is no cube", "begun.zarr": "its run has not finished"}
    for name, why in {**whys, "begun.zarr.partial": "is not complete"}.items():
        refused(why, open_cube, tmp_path / name, verify=False)
