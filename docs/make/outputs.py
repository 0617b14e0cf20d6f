"""Output of pages, run from top to bottom as a reader would.

- `python` blocks (and the cells of a notebook) run in one scope;
- of `sh` blocks, the lines that begin with `fleetcube` run;
- blocks that begin with `# NAME.toml`, `# NAME.csv`, `# NAME.log` or `# NAME.py` are files, which
  code may import;
- a `text` block right after one of the first two is what it prints; `...` matches anything, and
  seconds are not compared; no number has more than 8 digits, as CPUs differ in the last ones;
- `python NAME` blocks need an extra: a test of their own runs them;
- `console` blocks need what a test lacks (a cluster, a server): only their arguments are checked.
"""

import contextlib
import doctest
import io
import itertools
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fleetcube.cli import cli

from .text import DOCS, ROOT

# Pages whose code is not run from here, and why
ELSEWHERE = {
    "accuracy": "test_validate_command.py runs `fleetcube validate`",
    "calibrate": "test_unmeasured_fabrics.py asks for such a law, and takes it as a calibration",
    "explore": "it serves until it is stopped; test_explore.py",
    "gradients": "test_gradients_page.py",
    "lookup": "test_lookup_page.py",
    "peers": "it needs a checkout of another program; test_benchmarks.py runs it without one",
    "run-large": "the clusters are invented; test_cluster.py and test_slurm.py have some",
}
RUN = (
    DOCS / "command-line.md",
    DOCS / "compare.md",
    DOCS / "cube-format.md",
    DOCS / "cubes.md",
    DOCS / "developer.md",
    DOCS / "engine.md",
    DOCS / "gallery.md",
    DOCS / "index.md",
    DOCS / "plots.md",
    DOCS / "sensitivity.md",
    DOCS / "solve.md",
    DOCS / "spec.md",
    DOCS / "uncertainty.md",
    *sorted(DOCS.glob("start/*.md")),
    *sorted(page for page in DOCS.glob("howto/*.md") if f"howto/{page.stem}" not in ELSEWHERE),
    *sorted(DOCS.glob("notebooks/*.md")),
)
_BLOCK = re.compile(r"^```(\{code-cell\}|\w*(?: \w+)?)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"# ([\w-]+\.(?:toml|csv|log|py))\n")
_SECONDS = re.compile(r"\bin [\d.]+ s\b")
_DECIMAL = re.compile(r"(?<!arXiv:)\b(\d+)\.(\d+)")
_DIGITS = 8
_SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """One fenced block: language, text, and the text's position in the page."""

    language: str
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Printed:
    """A block's output, and the page's block with the expected output, if any."""

    text: str
    expected: Block | None

    @property
    def as_expected(self) -> bool:
        """Whether the page is right, timings aside, and shows no excess digits."""
        if self.expected is None:
            return True
        if self.expected.text != shortened(self.expected.text):
            return False
        expected, text = (_SECONDS.sub("", t) for t in (self.expected.text, self.text))
        return doctest.OutputChecker().check_output(expected, text, _SAME)


def shortened(text: str) -> str:
    """A text with `...` for excess digits, in which CPUs may differ."""

    def short(number: re.Match[str]) -> str:
        whole, part = number.groups()
        zeros = 0 if whole.strip("0") else len(part) - len(part.lstrip("0"))
        most = zeros + max(1, _DIGITS - len(whole.lstrip("0")))
        return number[0] if len(part.rstrip("0")) <= most else f"{whole}.{part[:most]}..."

    return _DECIMAL.sub(short, text)


def blocks(text: str) -> list[Block]:
    return [Block(m[1], m[2], m.start(2), m.end(2)) for m in _BLOCK.finditer(text)]


def commands(text: str) -> list[list[str]]:
    """The words of every fleetcube command in a block, without comments and redirections."""
    lines = text.replace("\\\n", " ").splitlines()
    split = [shlex.split(line, comments=True) for line in lines if line.startswith("fleetcube ")]
    return [words[1 : words.index(">") if ">" in words else None] for words in split]


def run(path: Path, folder: Path) -> Iterator[Printed]:
    text = path.read_text(encoding="utf-8")
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    scope: dict[str, object] = {"__name__": "__page__"}
    every = blocks(text)
    sys.path.insert(0, str(folder))
    try:
        for block, after in itertools.zip_longest(every, every[1:]):
            if name := _FILE.match(block.text):
                (folder / name[1]).write_text(block.text[name.end() :], encoding="utf-8")
            module = name is not None and name[1].endswith(".py")
            if module or block.language not in ("python", "{code-cell}", "sh"):
                continue
            with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as out:
                if block.language == "sh":
                    for words in commands(block.text):
                        cli(words, standalone_mode=False)
                else:
                    exec(compile(block.text, path.name, "exec"), scope)
            follows = (
                after
                and after.language == "text"
                and not text[block.end + 3 : after.start - 8].strip()
            )
            yield Printed(out.getvalue(), after if follows else None)
    finally:
        sys.path.remove(str(folder))
        # a page may set JAX's precision, which is global
        if "jax" in sys.modules:
            sys.modules["jax"].config.update("jax_enable_x64", False)


def rewritten(path: Path, folder: Path) -> str:
    text = path.read_text(encoding="utf-8")
    # backwards, as replacing a block moves those after it
    for printed in reversed(list(run(path, folder))):
        if printed.expected and not printed.as_expected:
            block = printed.expected
            printed_lines = shortened(printed.text).rstrip().splitlines()
            lines = "".join(f"{line.rstrip()}\n" for line in printed_lines)
            text = text[: block.start] + lines + text[block.end :]
    return text
