"""`fleetcube plot --kind`: needs of each kind, and cubes without them."""

from pathlib import Path

import pytest

from fleetcube import evaluate, simulate_schedule
from fleetcube.cli import cli
from fleetcube.grid.errors import InputError
from fleetcube.schedules.job_schedule import job_schedule
from fleetcube.sweep import Sweep

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    axes = {"n_gpus": [512, 1024, 2048], "gpu_mttf": ["10_000 h", "20_000 h", "50_000 h"]}
    job = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    sweep = Sweep({**job, "tensor_parallel": 8}, axes, ["goodput", "job_time", "step_time"])
    return Path(sweep.to_zarr(tmp_path_factory.mktemp("cubes") / "cube.zarr"))


def test_surface_is_the_map_of_goodput(cube: Path, tmp_path: Path) -> None:
    for words in (["--kind", "surface"], ["-v", "goodput"]):
        name = tmp_path / f"{words[1]}.png"
        arguments = ["plot", str(cube), *words, "-x", "n_gpus", "-y", "gpu_mttf", "-o", str(name)]
        cli.main(arguments, standalone_mode=False)
    pictures = [path.read_bytes() for path in sorted(tmp_path.glob("*.png"))]
    assert pictures[0] == pictures[1]


def test_flips_compares_the_losses_named(tmp_path: Path) -> None:
    job = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    names = ["communication_overhead", "reliability_overhead"]
    axes = {"n_gpus": [512, 8192], "gpu_mttf": ["1000 h", "50_000 h"]}
    layout = {"tensor_parallel": 8, "pipeline_parallel": 4}
    cube = Sweep({**job, **layout}, axes, names).to_zarr(tmp_path / "cube.zarr")
    base = ["plot", str(cube), "--kind", "flips", "-x", "n_gpus", "-y", "gpu_mttf"]
    picture = tmp_path / "flips.svg"
    arguments = [*base, "-v", names[0], "-v", names[1], "-o", str(picture)]
    cli.main(arguments, standalone_mode=False)
    text = picture.read_text(encoding="utf-8")
    assert "Which is the largest of communication, reliability</text>" in text
    assert "communication</text>" in text
    assert "bubble" not in text


def test_a_schedule_is_the_step_of_a_point(tmp_path: Path) -> None:
    job = {"model": "deepseek-v3", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 256}
    layout = {"expert_parallel": 16, "expert_parallel_overlap": 1.0, "global_batch_size": 1024}
    axes = {
        "pipeline_schedule": ["1f1b", "dualpipe"],
        "layout": {"pipeline_parallel": [4, 8], "micro_batch_size": [1, 2], "labels": ["a", "b"]},
    }
    sweep = Sweep({**job, **layout}, axes, ["step_time", "exposed_data_parallel_time"])
    cube = str(sweep.to_zarr(tmp_path / "cube.zarr"))
    picture = tmp_path / "schedule.svg"
    words = ["plot", cube, "--kind", "schedule", "-o", str(picture)]
    with pytest.raises(InputError, match="axis=value for pipeline_schedule, layout"):
        cli.main(words, standalone_mode=False)
    cli.main([*words, "pipeline_schedule=dualpipe", "layout=b"], standalone_mode=False)
    text = picture.read_text(encoding="utf-8")
    assert "overlapping</text>" in text
    assert ">8</text>" in text  # stages


@pytest.mark.parametrize("schedule", ["1f1b", "combined_1f1b", "dualpipe", "dualpipev"])
@pytest.mark.parametrize("overlap", [0.0, 1.0])
def test_a_schedule_takes_as_long_as_its_step(schedule: str, overlap: float) -> None:
    job = {"model": "deepseek-v3", "node": "dgx-h100", "fabric": "infiniband-ndr", "n_gpus": 256}
    job |= {"expert_parallel": 16, "global_batch_size": 512, "pipeline_send_time": 0.0}
    job |= {"pipeline_parallel": 4, "expert_parallel_overlap": overlap, "link_sharing": False}
    job |= {"pipeline_schedule": schedule, "virtual_stages": 1 + (schedule == "combined_1f1b")}
    parts = ["compute_time", "straggler_time", "bubble_time", "exposed_layer_communication_time"]
    for split in (False, "whole_layers"):
        job["stage_split"] = split
        found = evaluate(parts, **job)
        step = sum(float(found[part]) for part in parts)
        exact = split is False  # unequal stages: within what bubble_time says
        assert job_schedule(job).step_time == pytest.approx(step, rel=1e-9 if exact else 0.1)


def test_what_is_to_be_said_of_a_picture_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = {"model": "llama-3-8b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    axes = {"n_gpus": [64, 256, 1024], "gpu_mttf": ["10_000 h", "20_000 h", "50_000 h"]}
    cube = Sweep({**job, "tensor_parallel": 8}, axes, ["job_time"]).to_zarr(tmp_path / "cube.zarr")
    words = ["plot", str(cube), "-v", "job_time", "-x", "n_gpus", "-o", str(tmp_path / "a.svg")]
    cli.main([*words, "--title", "Mine", "--size", "4x3"], standalone_mode=False)
    said = capsys.readouterr()
    assert said.err == "curves hide each other; --best min or max draws their ratios to the best\n"
    assert said.out == f"wrote {tmp_path / 'a.svg'}\n"
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "<title>Mine</title>" in text
    assert 'width="288pt" height="216pt"' in text
    cli.main([*words, "--best", "min"], standalone_mode=False)
    assert capsys.readouterr().err == ""
    assert "job time / lowest</text>" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_a_step_is_drawn_from_a_spec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tmp_path / "job.toml"
    spec.write_text(
        'outputs = ["job_time"]\n[scenario]\nmodel = "llama-3-405b"\nnode = "dgx-h100"\n'
        'fabric = "infiniband-ndr"\ntensor_parallel = 8\n[axes]\nn_gpus = [64, 1024]\n'
        'gpu_mttf = ["10_000 h", "20_000 h"]\n',
        encoding="utf-8",
    )
    picture = tmp_path / "step.svg"
    words = ["plot", str(spec), "--kind", "step", "-o", str(picture)]
    with pytest.raises(InputError, match="cut n_gpus to one point"):
        cli.main(words, standalone_mode=False)
    cli.main([*words, "n_gpus=64", "gpu_mttf=10000h"], standalone_mode=False)
    assert "infeasible: this point cannot be run" in capsys.readouterr().err
    assert "model operations at peak</text>" in picture.read_text(encoding="utf-8")


BAD = [
    (["-v", "goodput", "-x", "n_gpus", "--size", "big"], "size = 'big': give inches across and up"),
    (["-v", "goodput", "-x", "n_gpus", "--dpi", "5"], "dpi = 5: give a whole number from 30"),
    (["-v", "goodput", "-x", "n_gpus", "--best", "most"], "best = 'most': give 'min' or 'max'"),
    (["--kind", "losses"], "a picture of losses needs -x"),
    (["-x", "n_gpus"], "a picture of curves needs -v"),
    (["--kind", "losses", "-x", "n_gpus", "-v", "goodput"], "does not take -v"),
    (
        ["--kind", "flips", "-x", "n_gpus", "-y", "gpu_mttf"],
        'spec: "communication_overhead", "bubb',
    ),
    (["-v", "goodput", "-v", "job_time", "-x", "n_gpus"], "curves draws one variable, not goodp"),
    (["--kind", "losses", "-x", "n_gpus"], 'spec: "compute_inefficiency_overhead", "comm'),
    (["--kind", "pareto", "-x", "job_time", "-y", "job_cost"], 'spec: "job_cost"'),
    (["--kind", "pareto", "-x", "job_time", "-y", "goodput", "--best", "min"], "'min' or 'max'"),
    (["-v", "goodputs", "-x", "n_gpus"], "did you mean 'goodput'"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD)
def test_bad_usage_is_one_line_and_leaves_nothing(
    cube: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    with pytest.raises(InputError, match=words) as error:
        cli.main(
            ["plot", str(cube), *arguments, "-o", str(tmp_path / "x.png")], standalone_mode=False
        )
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


JOB = """\
model = "llama-3-8b"
node = "dgx-h100"
fabric = "infiniband-ndr"
n_gpus = 64
global_batch_size = 256
"""
OTHERS = [
    ("sensitivity job.toml --of job_time", "--tornado"),
    ("dominant-inputs job.toml --of mfu --kind software -x n_gpus -y sequence_length", "--map"),
    ("scaling-limit job.toml --between 64:256", "-o"),
    ("calibrate steps.csv --spec job.toml --fit flops_efficiency", "--plot"),
]


@pytest.mark.parametrize(("words", "option"), OTHERS)
def test_every_picture_takes_a_title_and_a_size(
    words: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    axes = "[axes]\nn_gpus = [64, 128]\nsequence_length = [4096, 8192]\n" * ("-x" in words)
    Path("job.toml").write_text(f'outputs = ["job_time"]\n[scenario]\n{JOB}{axes}')
    Path("steps.csv").write_text("n_gpus,step_time\n32,10\n64,6\n128,3\n")
    look = ["--title", "Mine & yours", "--size", "5x4"]
    draw = [*words.split(), option, "a.svg"]
    with pytest.raises(InputError, match=r"size = 'big': give inches across and up"):
        cli.main([*draw, "--size", "big"], standalone_mode=False)
    with pytest.raises(InputError, match="--title is for a picture; draw one: "):
        cli.main([*(w for w in draw[:-2] if w not in ("-x", "-y")), *look], standalone_mode=False)
    cli.main([*draw, *look], standalone_mode=False)
    text = Path("a.svg").read_text(encoding="utf-8")
    assert 'width="360pt" height="288pt"' in text
    assert "<title>Mine &amp; yours" in text
    assert "<desc>" in text


def test_a_played_schedule_takes_them_too(tmp_path: Path) -> None:
    played = simulate_schedule(pipeline_parallel=2, num_microbatches=2)
    figure = played.plot(tmp_path / "a.svg", title="Two stages", size=(6, 3))
    assert figure.get_suptitle() == "Two stages"
    assert figure.get_size_inches().tolist() == [6, 3]
