"""`fleetcube plot --kind`: what a kind needs, and cubes that lack it."""

from pathlib import Path

import pytest

from fleetcube import evaluate
from fleetcube.cli import cli
from fleetcube.grid.ask.job_schedule import job_schedule
from fleetcube.grid.errors import InputError
from fleetcube.grid.sweep import Sweep

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Path:
    axes = {"n_gpus": [512, 1024, 2048], "gpu_mttf": ["10_000 h", "20_000 h", "50_000 h"]}
    job = {"model": "llama-3-70b", "node": "dgx-h100", "fabric": "infiniband-ndr"}
    sweep = Sweep({**job, "tensor_parallel": 8}, axes, ["goodput", "job_time", "step_time"])
    return Path(sweep.store(tmp_path_factory.mktemp("cubes") / "cube.zarr"))


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
    cube = Sweep({**job, **layout}, axes, names).store(tmp_path / "cube.zarr")
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
    cube = str(sweep.store(tmp_path / "cube.zarr"))
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
    parts = ["compute_time", "bubble_time", "exposed_layer_communication_time"]
    for split in ("alike", "whole_layers"):
        job["stage_split"] = split
        found = evaluate(parts, **job)
        step = sum(float(found[part]) for part in parts)
        exact = split == "alike"  # unequal stages: within what bubble_time says
        assert job_schedule(job).step_time == pytest.approx(step, rel=1e-9 if exact else 0.1)


BAD = [
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
