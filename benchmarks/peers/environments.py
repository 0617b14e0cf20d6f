"""A virtual environment for each peer, made when first needed, under build/peers."""

import sys
from collections.abc import Sequence
from pathlib import Path

from ..measure import ROOT, command

FOLDER = ROOT / "build" / "peers"


def ready(name: str, requirements: Sequence[str]) -> Path:
    """The interpreter of a peer's environment; raises RuntimeError if it cannot be made."""
    folder = FOLDER / name
    interpreter = folder / "bin" / "python"
    done = folder / "installed"
    wanted = " ".join(requirements)
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return interpreter
    command([sys.executable, "-m", "venv", "--clear", str(folder)])
    command([str(interpreter), "-m", "pip", "install", "--quiet", *requirements])
    done.write_text(wanted)  # last: an interrupted installation is started over
    return interpreter


def script(interpreter: Path, name: str, *arguments: str, stdin: str = "") -> str:
    """The last line that a peer's script prints, given a text as its standard input."""
    path = Path(__file__).with_name(name)
    printed = command([str(interpreter), str(path), *arguments], stdin=stdin)
    return printed.strip().splitlines()[-1]
