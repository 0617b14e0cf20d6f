"""`fleetcube reduce`, as a user types it, against NumPy over the whole grid."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from fleetcube import Sweep
from fleetcube.cli import cli

SPEC = """\
outputs = ["job_time"]
[scenario]
model = "llama-3-70b"
node = "dgx-h100"
fabric = "infiniband-ndr"
tensor_parallel = 8
global_batch_size = 2048
checkpoint_write_bandwidth = "100 GB/s"
calibration = "none"
[axes]
n_gpus = [8, 1024, 4096, 16384]
pipeline_parallel = [1, 2, 4, 8]
gpu_mttf = ["5_000 h", "50_000 h"]
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "job.toml"
    path.write_text(SPEC, encoding="utf-8")
    return str(path)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["reduce", *words])


def read(*words: str) -> pd.DataFrame:
    done = run(*words, "--engine", "numpy", "-o", "-")
    assert done.exit_code == 0, done.output
    table = pd.read_csv(io.StringIO(done.stdout))
    return table.rename(columns=lambda heading: heading.split(" [")[0])


def grid(spec: str) -> pd.DataFrame:
    """Every point that can run."""
    sweep = Sweep.from_file(spec).of(["job_time", "goodput"])
    values = sweep.evaluate("numpy", mask_infeasible=True)
    frame = values[["job_time", "goodput"]].to_dataframe().reset_index()
    assert frame["job_time"].isna().any(), "some points are left out"
    return frame.dropna(subset="job_time")


def test_argmin_names_the_point_and_what_is_there(spec: str) -> None:
    every = grid(spec)
    over = ["--over", "n_gpus,pipeline_parallel", "-v", "goodput"]
    found = read(spec, "argmin", "--of", "job_time", *over)
    assert len(found) == 2
    for row in found.itertuples():
        own = every[np.isclose(every["gpu_mttf"], row.gpu_mttf)]
        best = own.loc[own["job_time"].idxmin()]
        for name in ("job_time", "n_gpus", "pipeline_parallel", "goodput"):
            assert getattr(row, name) == pytest.approx(best[name], rel=1e-12), name


def test_quantiles_are_those_of_the_points_that_can_run(spec: str) -> None:
    found = read(spec, "quantile", "--of", "job_time", "-q", "0.1,0.5")
    expected = np.quantile(grid(spec)["job_time"], [0.1, 0.5])
    assert found["job_time"].to_numpy() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("how", ["min", "max", "mean", "sum", "count"])
def test_numbers_are_those_of_the_points_that_can_run(spec: str, how: str) -> None:
    found = read(spec, how, "--of", "job_time")["job_time"].item()
    assert found == pytest.approx(grid(spec)["job_time"].agg(how), rel=1e-12)


def test_no_point_beats_one_of_a_front(spec: str) -> None:
    found = read(spec, "pareto", "--of", "min job_time", "--of", "max goodput")
    points = grid(spec)[["job_time", "goodput"]].to_numpy()
    beaten = [
        any(t <= time and g >= good and (t < time or g > good) for t, g in points)
        for time, good in points
    ]
    front = sorted({(t, g) for (t, g), lost in zip(points, beaten, strict=True) if not lost})
    assert found[["job_time", "goodput"]].to_numpy() == pytest.approx(np.array(front), rel=1e-12)


def test_the_best_points_keep_to_conditions(spec: str) -> None:
    every = grid(spec)
    bound = every["goodput"].quantile(0.6)
    where = ["--where", f"goodput >= {bound}", "-k", "2", "--over", "n_gpus,pipeline_parallel"]
    found = read(spec, "argmin", "--of", "job_time", *where)
    for _, own in every[every["goodput"] >= bound].groupby("gpu_mttf"):
        best = own.sort_values("job_time")[:2]["job_time"].to_numpy()
        got = found[np.isclose(found["gpu_mttf"], own["gpu_mttf"].iloc[0])]["job_time"]
        assert got.to_numpy() == pytest.approx(best, rel=1e-12)
    greatest = read(spec, "argmax", "--of", "job_time", "-k", "3")["job_time"].to_numpy()
    expected = every["job_time"].sort_values(ascending=False)[:3].to_numpy()
    assert greatest == pytest.approx(expected, rel=1e-12)


def test_what_was_left_out_is_counted_by_reason(spec: str) -> None:
    told = run(spec, "max", "--of", "job_time").stderr
    assert "left out as infeasible: " in told
    assert "group_larger_than_cluster" in told


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--of", "job_time"), "give one of min, max"),
        (("argmni", "--of", "job_time"), "did you mean 'argmin'?"),
        (("quantile", "--of", "job_time"), "-q goes with quantile"),
        (("quantile", "--of", "job_time", "-q", "half"), "is not a list of shares"),
        (("pareto", "--of", "job_time", "--of", "goodput"), 'write --of "min job_time"'),
        (("min", "--of", "job_time", "--of", "goodput"), "which is for pareto"),
        (("min", "--of", "job_time", "-v", "goodput"), "-v is for argmin and argmax"),
        (("min", "--of", "job_time", "-k", "2"), "--where or -k is for argmin"),
        (("argmin", "--of", "job_time", "-k", "0"), "give 1 or more"),
        (("argmin", "--of", "job_time", "--where", "goodput = 1"), "write <= or >="),
        (
            ("argmin", "--of", "job_time", "--where", "goodput >= 2"),
            "none keeps to goodput >= 2; left out as",
        ),
        (("min", "--of", "job_time", "n_gpus=8", "pipeline_parallel=8"), "no point is left"),
    ],
)
def test_what_cannot_be_reduced_is_refused_in_one_line(
    spec: str, words: tuple[str, ...], line: str
) -> None:
    done = run(spec, *words)
    assert done.exit_code != 0
    assert line in str(done.exception) + done.output


def test_what_no_layout_changes_says_that_all_points_count(spec: str) -> None:
    done = run(spec, "max", "--of", "cluster_mtbf", "--engine", "numpy")
    assert done.exit_code == 0
    assert "cluster_mtbf does not depend on the layout: points that cannot be run" in done.output
