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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str, folder: Path) -> None:
    scope: dict[str, object] = {}
    found = blocks(page, "python")
    assert found
    for code in found:
        exec(compile(code, page, "exec"), scope)


# One process for all commands of a page, as if each were typed
SCRIPT = """
import sys
from fleetcube.cli import cli
for line in sys.argv[1:]:
    print(line, file=sys.stderr)
    cli.main(eval(line), standalone_mode=False)
"""


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, folder: Path) -> None:
    lines = [
        line
        for block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("fleetcube ")
    ]
    assert lines
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *(repr(shlex.split(line)[1:]) for line in lines)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
