"""What the README says works: its Python, its spec, its commands."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fleetcube import Sweep

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_runs() -> None:
    scope: dict[str, object] = {}
    for code in blocks("python"):
        exec(compile(code, "README.md", "exec"), scope)
    cube = scope["cube"]
    assert cube["job_time"].dims == ("n_gpus", "checkpoint_policy")  # type: ignore[index]
    assert cube["step_time"].dims == ("n_gpus",)  # type: ignore[index]


def test_the_specs_are_valid() -> None:
    grid, design = (tomllib.loads(text) for text in blocks("toml"))
    sweep = Sweep(grid["scenario"], grid["axes"], grid["outputs"])
    assert sweep.sizes == {"n_gpus": 12, "gpu_mttf": 64, "fabric": 2, "all_reduce": 2, "layout": 2}
    drawn = Sweep(design["scenario"], design["axes"], design["outputs"])
    assert drawn.sizes == {"sample": 1024}
    drawn.evaluate()


def test_the_commands_run_and_the_example_says_what_the_readme_says(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (shell,) = [block for block in blocks("sh") if "fleetcube run" in block]
    printed = {}
    for line in shell.replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        done = subprocess.run(
            [sys.executable, "-m", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        printed[words[1]] = done.stdout
    for row in ("1,024", "4,096", "16,384"):
        (told,) = re.findall(rf"^{row} +([\d.]+)", README, re.MULTILINE)
        rows = [line.split() for line in printed["slice"].splitlines()]
        (shown,) = [cells for cells in rows if cells[0] == row]
        assert told in shown
    assert (tmp_path / "goodput.png").exists()
