"""Intervals of cubes, evaluated at the points of a cut if they match its values."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from click.testing import CliRunner

import fleetcube
from fleetcube import InputError, Settings
from fleetcube.analysis import reevaluate
from fleetcube.cli import cli

from .common import Patch, refused

SCENARIO = {"model": "llama-3-70b", "gpu": "h100-sxm", "fabric": "infiniband-ndr"}
SCENARIO |= {"software": "megatron-lm", "tensor_parallel": 8, "pipeline_parallel": 4}
SCENARIO |= {"global_batch_size": 1024, "training_tokens": 1e12}
DISK = {"checkpoint_write_bandwidth": ["2 GB/s", "200 GB/s"], "labels": ["slow", "fast"]}
DISK |= {"checkpoint_restore_time": ["60 s", "600 s"]}
AXES: dict[str, Any] = {"n_gpus": [32, 256, 1024]}
AXES |= {"gpu_mttf": np.geomspace(3.6e6, 3.6e8, 200).tolist()}  # values in a coordinate
AXES |= {"disk": DISK, "sequence_parallel": [False, True]}
OUTPUTS = ["step_time", "job_time", "goodput", "memory_per_gpu"]


@pytest.fixture(scope="module")
def sweep() -> fleetcube.Sweep:
    return fleetcube.Sweep(SCENARIO, AXES, OUTPUTS)


@pytest.fixture(scope="module")
def path(sweep: fleetcube.Sweep, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(
        sweep.to_zarr(tmp_path_factory.mktemp("cubes") / "job.zarr", settings=Settings("numpy"))
    )


def _there(found: xarray.Dataset) -> xarray.Dataset:
    return found.isel(n_gpus=[1, 2], gpu_mttf=[3, 150], disk=1, sequence_parallel=0)


@pytest.mark.parametrize("kind", ["stored", "virtual", "evaluated"])
def test_ends_are_those_of_the_whole_sweep(sweep: fleetcube.Sweep, path: str, kind: str) -> None:
    ways: dict[str, Any] = {"stored": lambda: fleetcube.open_cube(path)}
    ways |= {"virtual": lambda: sweep.virtual(settings=Settings("numpy"))}
    cube = (ways | {"evaluated": lambda: sweep.evaluate(settings=Settings("numpy"))})[kind]()
    cut = _there(cube).fleetcube.prediction_interval()
    whole = _there(sweep.prediction_interval(settings=Settings("numpy")))
    for name in ("step_time", "job_time", "memory_per_gpu"):
        for side in ("low", "high"):
            ours = cut[f"{name}_{side}"]
            np.testing.assert_allclose(ours, whole[f"{name}_{side}"].broadcast_like(ours), 1e-12)
    assert (cut["step_time_low"] < cut["step_time"]).all()
    assert "goodput_low" not in cut  # does not depend on the step time


def test_what_is_cut_to_a_point_or_left_out_is_known(path: str) -> None:
    cube = fleetcube.open_cube(path)
    point = cube.isel(n_gpus=2, gpu_mttf=7, disk=0, sequence_parallel=1)
    alone = point[["job_time"]].fleetcube.prediction_interval("job_time")
    assert alone["job_time_high"].ndim == 0
    assert float(alone["job_time_low"]) < float(alone["job_time"]) < float(alone["job_time_high"])
    steps = cube[["step_time"]].isel(n_gpus=1, sequence_parallel=1)  # no gpu_mttf, no disk
    assert "gpu_mttf" not in steps.coords
    refused(
        "does not have the coordinate 'gpu_mttf' of its spec", steps.fleetcube.prediction_interval
    )


def test_no_value_has_no_interval(sweep: fleetcube.Sweep, tmp_path: Path) -> None:
    given: Any = dict(dtype="float32", settings=Settings("numpy", "exclude"))
    cube = fleetcube.open_cube(sweep.to_zarr(tmp_path / "f.zarr", **given))
    cut = cube.isel(gpu_mttf=[0]).fleetcube.prediction_interval()
    known = cut["job_time"].notnull()
    assert known.any()
    assert not known.all()
    assert (cut["job_time_low"].notnull() == known).all()


def test_values_that_changed_have_none(path: str, monkeypatch: Patch) -> None:
    cube = fleetcube.open_cube(path).isel(gpu_mttf=[0, 1], disk=0)
    other = cube.assign(job_time=cube["job_time"] * (1 + 1e-6))
    refused(
        r"job_time is not that of the spec .* was changed since",
        other.fleetcube.prediction_interval,
    )
    older = other.assign_attrs(fleetcube_version="0.1.9")
    refused(
        r"job_time is another number in fleetcube .* evaluate it",
        older.fleetcube.prediction_interval,
    )
    assert "step_time_low" in other.fleetcube.prediction_interval("step_time")
    entries = json.loads(cube.attrs["fleetcube_catalog"])
    posterior = next(entry for entry in entries if entry["kind"] == "calibration")
    told, posterior["source"] = posterior["source"], "another posterior"
    changed = cube.assign_attrs(fleetcube_catalog=json.dumps(entries))
    refused(r"calibration .* is another in fleetcube", changed.fleetcube.prediction_interval)
    posterior["source"] = told
    entries[0]["digest"] = "0" * 64
    changed = cube.assign_attrs(fleetcube_catalog=json.dumps(entries))
    refused(
        f"{entries[0]['kind']} .* is another in fleetcube", changed.fleetcube.prediction_interval
    )
    with pytest.raises(InputError, match=r"n_gpus = 1025\.0 is no label of the cube"):
        cube.assign_coords(n_gpus=[32.0, 256.0, 1025.0]).fleetcube.prediction_interval()
    with pytest.raises(InputError, match="does not state its spec"):
        cube.assign_attrs(fleetcube_spec="[]").fleetcube.prediction_interval()
    monkeypatch.setattr(reevaluate, "MOST", 5)
    refused(
        "has 12 points, and intervals are evaluated at 5 at most",
        cube.fleetcube.prediction_interval,
    )


def test_what_has_no_interval_stays_as_it_is() -> None:
    plain = fleetcube.Sweep({**SCENARIO, "calibration": "none"}, {"n_gpus": [256]}, OUTPUTS)
    cube = plain.evaluate(settings=Settings("numpy"))
    xarray.testing.assert_identical(cube.fleetcube.prediction_interval(), cube)
    errors = {"step_time_error": [-1.0, 0.0, 1.0]}
    cube = fleetcube.Sweep({**SCENARIO, "n_gpus": 256}, errors, ["step_time"]).evaluate(
        settings=Settings("numpy")
    )
    xarray.testing.assert_identical(cube.fleetcube.prediction_interval(), cube)


def test_the_commands_show_them(path: str, tmp_path: Path) -> None:
    def ran(*words: str) -> str:
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output
        return result.output

    where = ["n_gpus=256", "gpu_mttf=1000h", "disk=fast", "sequence_parallel=true"]
    heads = ran("slice", path, *where, "-v", "job_time").splitlines()[0]
    assert heads.split() == ["job_time", "[d]", "(90", "%)"]
    assert "90 %" not in ran("slice", path, *where, "--no-interval")
    assert "slice and plot show 90 % intervals of: step_time, job_time" in ran("show", path)
    table = tmp_path / "job.csv"
    ran("slice", path, *where[1:], "-v", "job_time", "--interval", "-o", str(table))
    assert "job_time_low [s],job_time_high [s]" in table.read_text().splitlines()[0]
    ran("slice", path, *where[1:], "-v", "job_time", "-o", str(tmp_path / "plain.csv"))
    assert "_low" not in (tmp_path / "plain.csv").read_text()
    picture = tmp_path / "job.svg"
    ran("plot", path, *where[1:], "-v", "job_time", "-x", "n_gpus", "-o", str(picture))
    assert "90 % interval" in picture.read_text()


def test_an_axis_of_the_interval_alone_is_told_and_one_without_labels_is_refused() -> None:
    job = {"model": "llama-3-70b", "node": "dgx-h100", "n_gpus": 1024, "fabric": "infiniband-ndr"}
    job |= {"calibration": "none", "tensor_parallel": 8}
    axes = {"error_factor": [1.1, 2.0], "n_gpus": [1024, 2048]}
    one = fleetcube.Sweep({**job, "error_factor": 1.1}, {"n_gpus": [1024, 2048]}, ["job_time"])
    cube = one.evaluate()
    with pytest.raises(InputError, match="has no labels of 'n_gpus'"):
        cube.isel(n_gpus=[1, 0]).drop_vars("n_gpus").fleetcube.prediction_interval()
    rest = {k: v for k, v in job.items() if k != "n_gpus"}
    both = fleetcube.Sweep(rest, axes, ["job_time"]).evaluate()
    ends = both.fleetcube.prediction_interval()
    assert both.job_time.dims == ("n_gpus",)
    assert ends.error_factor.values.tolist() == [1.1, 2.0]
    refused(
        "job_time is of int64 here", lambda: cube.astype("int64").fleetcube.prediction_interval()
    )
