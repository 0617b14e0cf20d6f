"""`fleetcube reduce` and `fleetcube best`, as a user types them, against NumPy and pandas."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from fleetcube import Settings, Sweep
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
memory_headroom = false
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


def run(*words: str, command: str = "reduce") -> Result:
    return CliRunner().invoke(cli, [command, *words])


def read(*words: str, command: str = "reduce") -> pd.DataFrame:
    done = run(*words, "--engine", "numpy", "-o", "-", command=command)
    assert done.exit_code == 0, done.output
    table = pd.read_csv(io.StringIO(done.stdout))
    return table.rename(columns=lambda heading: heading.split(" [")[0])


def best(*words: str) -> pd.DataFrame:
    return read(*words, command="best")


def grid(spec: str) -> pd.DataFrame:
    """Every point that can run."""
    sweep = Sweep.from_file(spec).with_outputs(["job_time", "goodput"])
    values = sweep.evaluate(settings=Settings("numpy", infeasible="exclude"))
    frame = values[["job_time", "goodput"]].to_dataframe().reset_index()
    assert frame["job_time"].isna().any(), "some points are left out"
    return frame.dropna(subset="job_time")


def test_the_best_is_named_with_what_is_there(spec: str) -> None:
    every = grid(spec)
    over = ["--over", "n_gpus,pipeline_parallel", "-v", "goodput"]
    found = best(spec, "--of", "job_time", *over)
    assert len(found) == 2
    for row in found.itertuples():
        own = every[np.isclose(every["gpu_mttf"], row.gpu_mttf)]
        least = own.loc[own["job_time"].idxmin()]
        for name in ("job_time", "n_gpus", "pipeline_parallel", "goodput"):
            assert getattr(row, name) == pytest.approx(least[name], rel=1e-12), name


def test_quantiles_are_those_of_the_points_that_can_run(spec: str) -> None:
    found = read(spec, "quantile", "--of", "job_time", "-q", "0.1,0.5")
    expected = np.quantile(grid(spec)["job_time"], [0.1, 0.5])
    assert found["job_time"].to_numpy() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("how", ["min", "max", "mean", "sum", "count"])
def test_numbers_are_those_of_the_points_that_can_run(spec: str, how: str) -> None:
    found = read(spec, how, "--of", "job_time")["job_time"].item()
    assert found == pytest.approx(grid(spec)["job_time"].agg(how), rel=1e-12)


def test_no_point_beats_one_of_a_front(spec: str) -> None:
    found = best(spec, "--of", "min job_time", "--of", "max goodput")
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
    found = best(spec, "--of", "job_time", *where)
    for _, own in every[every["goodput"] >= bound].groupby("gpu_mttf"):
        least = own.sort_values("job_time")[:2]["job_time"].to_numpy()
        got = found[np.isclose(found["gpu_mttf"], own["gpu_mttf"].iloc[0])]["job_time"]
        assert got.to_numpy() == pytest.approx(least, rel=1e-12)
    greatest = best(spec, "--of", "max job_time", "-k", "3")["job_time"].to_numpy()
    expected = every["job_time"].sort_values(ascending=False)[:3].to_numpy()
    assert greatest == pytest.approx(expected, rel=1e-12)


def test_what_was_left_out_is_counted_by_reason(spec: str) -> None:
    told = run(spec, "max", "--of", "job_time").stderr
    assert "left out: " in told
    assert "group_larger_than_cluster" in told


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--of", "job_time"), "give one of min, max"),
        (("mni", "--of", "job_time"), "did you mean 'min'?"),
        (("argmin", "--of", "job_time"), "see `fleetcube best`"),
        (("quantile", "--of", "job_time"), "-q goes with quantile"),
        (("quantile", "--of", "job_time", "-q", "half"), "is not a list of shares"),
        (("mean", "--of", "job_time", "-k", "0"), "give 1 or more"),
        (("mean", "--of", "job_time", "--where", "job_tmie <= 9 d"), "did you mean"),
        (("min", "--of", "job_time", "n_gpus=8", "pipeline_parallel=8"), "no point is left"),
    ],
)
def test_what_cannot_be_reduced_is_refused_in_one_line(
    spec: str, words: tuple[str, ...], line: str
) -> None:
    done = run(spec, *words)
    assert done.exit_code != 0
    assert line in str(done.exception) + done.output


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--of", "least job_time"), 'write NAME, "min NAME" or "max NAME"'),
        (("--of", "job_time", "-k", "-1"), "whole number above 0"),
        (("--of", "job_time", "--where", "goodput = 1"), "write <= or >="),
        (
            ("--of", "job_time", "--where", "goodput >= 2"),
            "keeps to goodput >= 2; left out: ",
        ),
        (("--of", "job_time", "--search", "n_gpus"), "neither a range nor choices"),
        (("--of", "job_time", "--search", "node=a,b"), "give them as axes: node=a,b"),
        (("--of", "job_time", "--search", "n_gpus=8:64", "-k", "2"), "leave out -k"),
        (
            ("--of", "job_time", "--search", "n_gpus=8:64", "--search", "n_gpus=3:4"),
            "names n_gpus twice",
        ),
        (
            ("--of", "job_time", "--search", "n_gpus=8:64", "--search", "n_gpus=8,64"),
            "n_gpus has a range and choices",
        ),
    ],
)
def test_what_has_no_best_is_refused_in_one_line(
    spec: str, words: tuple[str, ...], line: str
) -> None:
    done = run(spec, *words, command="best")
    assert done.exit_code != 0
    assert line in str(done.exception) + done.output


def test_what_no_layout_changes_counts_only_points_that_can_run(spec: str) -> None:
    sweep = Sweep.from_file(spec).with_outputs(["cluster_mtbf", "infeasible_reason"])
    values = sweep.evaluate(settings=Settings("numpy")).reset_coords("infeasible_reason")
    every = values[["cluster_mtbf", "infeasible_reason"]].to_dataframe().reset_index()
    runs = every[every["infeasible_reason"] == 0]
    assert every["cluster_mtbf"].max() > runs["cluster_mtbf"].max(), "8 GPUs cannot run it"
    for how in ("min", "max", "mean", "sum", "count"):
        found = read(spec, how, "--of", "cluster_mtbf")["cluster_mtbf"].item()
        assert found == pytest.approx(runs["cluster_mtbf"].agg(how), rel=1e-12), how
    found = read(spec, "quantile", "--of", "cluster_mtbf", "-q", "0.1,0.5")["cluster_mtbf"]
    expected = np.quantile(runs["cluster_mtbf"], [0.1, 0.5])
    assert found.to_numpy() == pytest.approx(expected, rel=1e-12)
    most = best(spec, "--of", "max cluster_mtbf", "-v", "job_time")
    at = runs.loc[runs["cluster_mtbf"].idxmax()]
    for name in ("cluster_mtbf", "n_gpus", "pipeline_parallel"):
        assert most[name].item() == pytest.approx(at[name], rel=1e-12), name
    here = [f"{n}={at[n]:.0f}" for n in ("n_gpus", "pipeline_parallel")]
    own = read(spec, "min", "--of", "job_time", *here, f"gpu_mttf={at['gpu_mttf']}s")
    assert most["job_time"].item() == pytest.approx(own["job_time"].item(), rel=1e-12)
    whole = read(spec, "count", "--of", "cluster_mtbf", "--infeasible", "include")[
        "cluster_mtbf"
    ].item()
    assert whole == 8, "its own axes alone"


def test_where_nothing_judges_the_layout_all_points_count(tmp_path: Path) -> None:
    path = tmp_path / "bare.toml"
    path.write_text('outputs = ["cluster_mtbf"]\n[axes]\nn_gpus = [8, 64]\n', encoding="utf-8")
    done = run(str(path), "max", "--of", "cluster_mtbf", "--engine", "numpy")
    assert done.exit_code == 0, done.output
    assert "unknown which points can run: all count" in done.stderr


@pytest.mark.parametrize("how", ["min", "max", "mean", "sum", "count"])
def test_conditions_hold_for_every_reduction(spec: str, how: str) -> None:
    every = grid(spec)
    bound = every["goodput"].quantile(0.5)
    where = ["--where", f"goodput >= {bound}", "--over", "n_gpus,pipeline_parallel"]
    found = read(spec, how, "--of", "job_time", *where).set_index("gpu_mttf")["job_time"]
    for mttf, own in every[every["goodput"] >= bound].groupby("gpu_mttf"):
        (got,) = (value for at, value in found.items() if np.isclose(at, mttf))
        assert got == pytest.approx(own["job_time"].agg(how), rel=1e-12)


def test_conditions_hold_for_quantiles_and_fronts(spec: str) -> None:
    every = grid(spec)
    bound = every["goodput"].quantile(0.5)
    where = ["--where", f"goodput >= {bound}"]
    kept = every[every["goodput"] >= bound]
    found = read(spec, "quantile", "--of", "job_time", "-q", "0.3", *where)["job_time"].item()
    assert found == pytest.approx(np.quantile(kept["job_time"], 0.3), rel=1e-12)
    goals = ("--of", "min job_time", "--of", "max cluster_mtbf")
    assert (
        f"{len(kept)} points keep to goodput >= "
        in run(spec, "min", "--of", "job_time", *where).stderr
    )
    front = best(spec, *goals, "--where", "job_time <= 100 d")
    assert 1 < len(front) < len(best(spec, *goals))
    assert front["job_time"].max() <= 100 * 86400


def test_many_points_under_one_quantile_keep_to_conditions(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("quantile", "--of", "job_time", "-q", "0.3", "--where", "goodput >= 0.7")
    sorted_ = read(spec, *words)["job_time"].item()
    monkeypatch.setattr("fleetcube.grid.plan.tiles.SORTED", 4)
    assert read(spec, *words)["job_time"].item() == sorted_


def test_ranks_begin_anew_in_each_cell(spec: str) -> None:
    over = ("--over", "n_gpus,pipeline_parallel")
    found = best(spec, "--of", "job_time", "-k", "3", *over)
    assert found["rank"].tolist() == [1, 2, 3, 1, 2, 3]
    front = best(spec, "--of", "min job_time", "--of", "max goodput", "-k", "1", *over)
    assert len(front) == 2, "the first of each front"
    first = found[found["rank"] == 1]["job_time"].to_numpy()
    assert front["job_time"].to_numpy() == pytest.approx(first, rel=1e-12)


def test_rows_of_means_are_ranked(spec: str) -> None:
    words = ("--of", "job_time", "--over", "gpu_mttf")
    every = grid(spec).groupby(["n_gpus", "pipeline_parallel"])["job_time"].mean().sort_values()
    assert read(spec, "mean", *words, "-k", "2")["job_time"].to_numpy() == pytest.approx(every[:2])
    largest = read(spec, "mean", *words, "-k", "-2")["job_time"].to_numpy()
    assert largest == pytest.approx(every[:-3:-1])
    most = read(spec, "max", *words, "-k", "-1")["job_time"].item()
    assert most == pytest.approx(grid(spec)["job_time"].max())
