"""The README works: its Python, its spec, its commands."""

import re
import shlex
from pathlib import Path

import pytest

from docs.make.readme import page

from .command import fleetcube

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_runs() -> None:
    scope: dict[str, object] = {}
    for code in blocks("python"):
        exec(compile(code, "README.md", "exec"), scope)
    cube = scope["cube"]
    assert cube["job_time"].dims == ("n_gpus", "gpu_mttf")  # type: ignore[index]
    assert cube["step_time"].dims == ("n_gpus",)  # type: ignore[index]


def test_its_numbers_are_those_of_the_code() -> None:
    assert page() == README, "run `python -m docs.make README.md`"


def test_it_is_short_and_shows_a_picture() -> None:
    assert len(README.splitlines()) < 140
    (picture,) = re.findall(r"!\[.+\]\((.+)\)", README)
    assert (ROOT / picture).exists()


@pytest.mark.slow
def test_the_commands_run_and_the_example_says_what_the_readme_says(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    printed = {}
    for line in "\n".join(blocks("sh")).replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        if words[:1] == ["fleetcube"]:
            done = fleetcube(*words[1:], folder=tmp_path)
            assert done.returncode == 0, f"{line}: {done.stderr}"
            printed[line] = done.stdout
    assert (tmp_path / "goodput.png").exists()
    planned = printed["fleetcube plan example:plan -o plan.html"]
    (told,) = blocks("text")
    assert len(told.splitlines()) == 4
    assert set(told.splitlines()) <= set(planned.splitlines())
    (tried,) = re.findall(r"tries ([\d,]+) layouts", README)
    assert f"tried {tried} layouts" in planned
