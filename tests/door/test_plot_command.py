"""`fleetcube plot --kind`: what a kind needs, and cubes that lack it."""

from pathlib import Path

import pytest

from fleetcube.cli import cli
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
