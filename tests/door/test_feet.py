"""What the foot of each table says, as a user sees it: once, in 80 columns."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fleetcube import Sweep, open_cube
from fleetcube.cli import cli
from fleetcube.grid.show.feet import remarks

LAYERS = """\
node = "dgx-h100"
fabric = "infiniband-ndr"
layers = 80
hidden_size = 8192
parameters = 70e9
global_batch_size = 1024
tensor_parallel = 8
checkpoint_write_bandwidth = "100 GB/s"
"""
TOKENS = "training_tokens by default: 20 a parameter = 1.4e+12"
LEFT = "layout by default: pipeline_parallel 1, context_parallel 1, micro_batch_size 1,"


@pytest.fixture
def spec(tmp_path: Path) -> str:
    path = tmp_path / "job.toml"
    axes = "[axes]\nn_gpus = [256, 512]\n"
    path.write_text(f'outputs = ["job_time"]\n[scenario]\n{LAYERS}{axes}', encoding="utf-8")
    return str(path)


def run(*words: str) -> Result:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stderr.splitlines()), default=0) <= 80, done.stderr
    return done


def test_every_verb_says_once_what_a_default_decided(spec: str, tmp_path: Path) -> None:
    cube = str(tmp_path / "cube.zarr")
    run("run", spec, "-o", cube)
    for words in (
        ("run", spec),
        ("show", cube),
        ("slice", cube, "n_gpus=256"),
        ("reduce", spec, "argmin", "--of", "job_time", "--engine", "numpy"),
        ("compare", spec, "n_gpus=256,512"),
    ):
        said = run(*words).output
        for part in (TOKENS, LEFT, "calibration auto: the mean of all software"):
            assert said.count(part) == 1, (words, said)
    planned = run("plan", spec, "n_gpus=256", "--open", "pipeline_parallel,context_parallel").output
    assert TOKENS in planned
    assert "layout by default: context_parallel 1, micro_batch_size 1, zero_stage 1," in planned
    assert "pipeline_parallel 1" not in planned, "it was searched"


def test_what_is_given_or_read_by_nothing_is_not_said(spec: str) -> None:
    said = run("run", spec, "training_tokens=1e12", "recompute=full", "pipeline_parallel=4").stderr
    assert "training_tokens" not in said
    assert "recompute" not in said
    assert "layout by default: virtual_stages 1, context_parallel 1" in said
    assert "by default" not in run("run", spec, "-v", "cluster_mtbf").stderr


def test_a_model_by_name_states_its_tokens_and_none_has_no_calibration(spec: str) -> None:
    said = run("run", spec, "model=llama-3-70b", "calibration=none").stderr
    assert "training_tokens" not in said
    assert "no calibration: flops_efficiency by default = 0.45" in said


def test_tokens_that_differ_from_point_to_point_are_the_rule_alone() -> None:
    job = {"flops_efficiency": 0.4, "peak_flops_bf16": 1e15, "n_gpus": 64, "active_parameters": 7e9}
    axes = {"parameters": [7e9, 70e9]}
    found = Sweep(job, axes, ["training_tokens"]).evaluate("numpy")
    assert remarks(found.attrs) == ["training_tokens by default: 20 a parameter"]
    assert json.loads(found.attrs["fleetcube_defaults"]) == {"training_tokens": None}


def test_the_two_sides_of_a_comparison_share_what_is_alike(spec: str) -> None:
    said = run("compare", spec, "training_tokens=1e12,2e12").stderr
    assert said.count("calibration auto") == said.count("layout by default") == 1
    said = run("compare", spec, "node=dgx-h100,dgx-b200").stderr
    assert said.count(TOKENS) == 1
    assert "A: calibration auto: " in said
    assert "B: calibration auto: " in said


def test_a_cube_holds_what_was_decided(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "cube.zarr"
    sweep = Sweep.from_file(spec)
    sweep.store(path, engine="numpy")
    assert remarks(open_cube(path).attrs) == remarks(sweep.evaluate("numpy").attrs)


def test_run_writes_a_narrow_table_or_all_columns(spec: str, tmp_path: Path) -> None:
    for words, least in (((), 3), (("--all",), 4)):
        path = tmp_path / f"{least}.csv"
        said = run("run", spec, "fabric=infiniband-ndr,roce-400g", *words, "-o", str(path))
        heads = path.read_text(encoding="utf-8").splitlines()[0].split(",")
        assert {"n_gpus", "fabric"} <= {*heads}
        assert ("inter_node_bandwidth [B/s]" in heads) == bool(words)
        assert TOKENS in said.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--all", "-o", "cube.zarr"), "--all is for tables"),
        (("--overwrite", "-o", "x.csv"), "--overwrite is for cubes"),
        (("-o", "no/such/x.csv"), "create it first"),
    ],
)
def test_tables_that_cannot_be_written_are_refused(
    spec: str, words: tuple[str, ...], line: str
) -> None:
    done = CliRunner().invoke(cli, ["run", spec, *words])
    assert line in str(done.exception)


def test_a_job_that_never_ends_is_said_to(spec: str) -> None:
    job = ["node_pool=closed", "spare_nodes=0", "repair_time=100d", "pipeline_parallel=4"]
    told = run("run", spec, "gpu_mttf=1000 h", *job)
    assert "job_time is over 300 years at 2 of 2 points" in " ".join(told.stderr.split())
    assert "300 years" not in run("run", spec, "pipeline_parallel=4").stderr
    levers = run("plan", spec, "n_gpus=1024", "gpu_mttf=1000 h", *job)
    assert "spare_nodes 0 -> 1" in levers.stdout  # no share of nothing


def test_a_default_of_one_label_or_phase_is_said_too(spec: str) -> None:
    said = run("run", spec, "model=mixtral-8x7b,llama-3-8b").stderr  # one states its tokens
    assert "training_tokens by default: 20 a parameter\n" in said
    said = run("run", spec, "model=llama-3-8b", "calibration=auto,none").stderr
    assert "training_tokens" not in said
    assert "no calibration: flops_efficiency by default = 0.45" in said
    job = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 64}
    job["calibration"] = "none"
    phases = [{"name": "a", "training_tokens": 1e12}, {"name": "b", "training_tokens": 1e12}]
    phases[1]["flops_efficiency"] = 0.4
    found = Sweep(job, {}, ["job_time"], phases=phases).evaluate("numpy")
    assert "no calibration: flops_efficiency by default = 0.45" in remarks(found.attrs)
