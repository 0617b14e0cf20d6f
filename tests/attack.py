"""Attack cubes, files and readers, and count failures.

`python -m tests.attack [--quick] [--write] [NAME ...]`: exit 0 without failures. `--write` saves
the results in attacks.json; `make pages` writes their table into docs/security.md.
"""

import datetime
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).with_name("attacks.json")


@dataclass(frozen=True)
class Attack:
    """A command whose last line gives tries and failures: a module and its count, or tests."""

    what: str
    module: str
    tries: int = 0
    quick: int = 0

    def command(self, quick: bool) -> list[str]:
        if not self.module.endswith(".py"):
            count = self.quick if quick else self.tries
            return ["-m", self.module, *([str(count)] if count else [])]
        return ["-m", "pytest", "-q", "-n0", self.module]

    @property
    def shown(self) -> str:
        if self.module.endswith(".py"):
            return self.module
        return f"`python -m {self.module}{f' {self.tries}' if self.tries else ''}`"


ATTACKS = {
    "kills": Attack(
        "`run` killed at any moment, chunks harmed in between, resumed: bytes",
        "tests.grid.kill",
        200,
        3,
    ),
    "swaps": Attack(
        "`--overwrite` killed amid its renames where names cannot be exchanged (NFS), run again",
        "tests.grid.swaps",
        100,
        3,
    ),
    "guests": Attack(
        "sequences of runs, kills, resumes, appends, overwrites, files and attributes that owners "
        "add, change and remove, writes of xarray, copies: what is lost, bytes and values",
        "tests.grid.guests",
        5000,
        3,
    ),
    "flips": Attack(
        "one bit changed in any file of a cube: read, and verified", "tests.grid.flips", 10_000, 50
    ),
    "races": Attack(
        "reads in seven ways beside a writer that replaces, appends to or repairs the cube, "
        "in a folder and in Icechunk",
        "tests.grid.races",
        834,
        7,
    ),
    "fuzz": Attack(
        "specs, calibrations, logs, tables and records with spans replaced",
        "tests.door.fuzz",
        300_000,
        250,  # 50 of each kind, and test_fuzz.py draws more
    ),
    "costs": Attack(
        "files below 1 MB that ask for much: over 5 s or 500 MB", "tests.door.costs", 0, 0
    ),
    "pinned": Attack(
        "chunks and coordinates changed, swapped or lost while a cube is open",
        "tests/grid/test_pinned.py",
    ),
    "tampered": Attack("cubes sealed anew around what is foreign", "tests/grid/test_tampered.py"),
    "links": Attack("links planted in an unfinished cube", "tests/grid/test_links.py"),
    "kernels": Attack(
        "compiled kernels cut, changed, forged, or where others may write",
        "tests/grid/test_kernel_cache.py",
    ),
    "strings": Attack(
        "every command on cubes, specs and records of hostile strings, on a terminal",
        "tests/door/test_hostile_text.py",
    ),
}


def attack(one: Attack, quick: bool) -> tuple[int, int, str]:
    """Tries, failures and a remark."""
    done = subprocess.run(
        [sys.executable, *one.command(quick)], cwd=ROOT, capture_output=True, text=True
    )
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if told := re.fullmatch(r"(\d+) tries, (\d+) wrong(?: \((.*)\))?", last):
        tries, wrong, remark = int(told[1]), int(told[2]), told[3] or ""
    else:  # of pytest
        passed, failed = (
            sum(map(int, re.findall(rf"(\d+) {word}", last))) for word in ("passed", "failed|error")
        )
        tries, wrong, remark = passed + failed, failed, "tests"
    if wrong or done.returncode or not tries:
        print(done.stdout[-4000:], done.stderr[-4000:], file=sys.stderr)
        wrong = wrong or 1
    return tries, wrong, remark


def main() -> int:
    words = sys.argv[1:]
    quick, write = "--quick" in words, "--write" in words
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    failed = 0
    for name in [word for word in words if not word.startswith("--")] or ATTACKS:
        began = time.monotonic()
        tries, wrong, remark = attack(ATTACKS[name], quick)
        failed += wrong
        took = time.monotonic() - began
        print(f"{name}: {tries:,} tries, {wrong} wrong ({remark}), {took:.0f} s", flush=True)
        results[name] = [tries, wrong, remark, datetime.date.today().isoformat()]
        if write and not quick:
            RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(bool(main()))
