"""What the pages under docs/ say works: their Python and their commands."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("compare.md", "plots.md", "solve.md")


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str) -> None:
    scope: dict[str, object] = {}
    found = blocks(page, "python")
    assert found
    for code in found:
        exec(compile(code, page, "exec"), scope)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    lines = [
        line
        for block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("fleetcube ")
    ]
    assert lines
    for line in lines:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
