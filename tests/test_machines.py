"""`make machines`: libraries and environment match the kind, and dependent code fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from . import machines

ROOT = Path(__file__).parents[1]
KINDS = machines.here()
_INSIDE = """
import os, re, signal, time
from pathlib import Path

import jax
import numba
import pytest
from docs.make.outputs import run
from numpy._core import _multiarray_umath as numpy_cpu


def test_surroundings():
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    assert not any(map(os.isatty, (0, 1, 2)))
    with pytest.raises(OSError):
        os.open("/dev/tty", os.O_RDWR)
    assert os.umask(0o077) == 0o077
    assert time.strftime("%z", time.localtime(0)) == "-1040"  # Kiritimati, before it changed sides
    with pytest.raises(OSError):
        (Path.home() / "fleetcube").mkdir()


def test_libraries():
    used = {name for name in numpy_cpu.__cpu_dispatch__ if numpy_cpu.__cpu_features__[name]}
    assert [name for name in used if re.match(os.environ["PATTERN"], name)] == []
    assert numba.core.config.CPU_NAME == os.environ["NUMBA_CPU_NAME"]
    assert numba.core.config.CPU_FEATURES == ""
    assert jax.numpy.ones(2).sum() == 2  # XLA ends the process if it knows no such machine


def test_page(tmp_path):
    for printed in run(Path(os.environ["PAGE"]), tmp_path):
        assert printed.as_expected
"""
_PAGE = """
```python
import os

print(len(os.environ["NUMBA_CPU_NAME"]) / 7)
```
```text
1.0
```
"""


def run(*words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.machines", *words], cwd=ROOT, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not KINDS, reason="this CPU emulates none")
@pytest.mark.parametrize("name", KINDS[:2])
def test_a_kind_is_what_its_row_says_and_a_number_that_moves_fails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_inside.py").write_text(_INSIDE)
    (tmp_path / "page.md").write_text(_PAGE)
    monkeypatch.setenv("PAGE", str(tmp_path / "page.md"))
    monkeypatch.setenv("PATTERN", machines.KINDS[name].numpy)
    # NumPy warns at import of names that it does not know
    monkeypatch.setenv("PYTHONWARNINGS", "error::ImportWarning,error::RuntimeWarning")
    words = ("-c", "pyproject.toml", "--rootdir=.", "-q", "-n0", str(tmp_path / "test_inside.py"))
    code, out, err = run(name, "--", *words)
    assert err == ""
    moved = len(machines.KINDS[name].numba) != len("generic")
    assert code == moved, out
    assert ("FAILED" in out) == moved
    assert ("1 failed, 2 passed" if moved else "3 passed") in out
    assert out.splitlines()[-1].startswith(f"{name}: {'failed (1)' if moved else 'passed'}, ")


def test_a_kind_that_is_none_is_refused() -> None:
    code, out, err = run("pentium")
    assert (code, out) == (2, "")
    assert "'pentium' is not a kind; choose from nehalem, sandybridge" in err
